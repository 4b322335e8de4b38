//! RCCL's kernels of direct data access (DDA), from 2.30 on: every GPU of a node reads the others' memory.
//!
//! ```text
//!   all-reduce, flat    copy the vector into shared memory ─► barrier ─► read all vectors and add
//!   all-reduce, tree    copy ─► barrier ─► read the own block of all, add ─► barrier ─► read all sums
//!   all others          copy ─► barrier ─► read the own part of all
//! ```
//!
//! They run by default among exactly eight GPUs of one node, each in a process of its own, outside a group of calls and
//! without symmetric memory (`NCCL_CUMEM_ENABLE`), for 32-bit and 16-bit floats. The tuner is then not asked.
//!
//! Source: ROCm/rocm-systems, `projects/rccl`: `rcclDdaEnabled` in `src/collectives.cc`, `src/ipc_init.cu`, and
//! `ncclAllReduceDdaIpcEligible` and its like in `src/dda_*_ipc.cu`.

use super::first::{First, What};
use super::{directly, tables::Chip};
use crate::base::collective::Collective as C;
use crate::base::dtype::DataType;
use crate::base::quantity::Bytes;
use crate::library::{Call, Choice, Part, Runs, Where};

/// The variable without which they run.
pub(super) const SWITCH: &str = "RCCL_DDA_ENABLE=0";

/// The largest all-reduce in which every rank reads whole vectors.
const FLAT: u64 = 256 << 10;

/// What a thread reads at once: a rank's block is a multiple of it.
const READ: u64 = 16;

#[derive(Clone, Copy)]
pub(super) enum Kernel {
    /// An all-reduce in one step.
    Flat,
    /// An all-reduce in two, a block of every rank each.
    Tree,
    /// A gather, a scatter or an all-to-all, in one step.
    Blocks,
}

/// Those that may run a call of eight GPUs of a node, from the smallest size.
pub(super) fn of(chip: &Chip, call: &Call, dtype: Option<DataType>) -> Vec<First> {
    let adds = matches!(call.collective, C::AllReduce | C::ReduceScatter);
    if !is_covered(dtype, call.element) || adds && !call.builtin_op {
        return Vec::new();
    }
    let most = chip.dda(call.collective);
    let blocks = READ * u64::from(call.ranks);
    let first = |most, step, kernel| First { most, step, what: What::Dda(kernel) };
    match call.collective {
        C::AllReduce => vec![first(FLAT, READ, Kernel::Flat), first(most, blocks, Kernel::Tree)],
        C::AllGather | C::ReduceScatter | C::AllToAll => {
            vec![first(most, blocks, Kernel::Blocks)]
        }
        _ => Vec::new(),
    }
}

/// Whether elements are such floats; those of two or four bytes are, if nothing else is known of them.
fn is_covered(dtype: Option<DataType>, element: Bytes) -> bool {
    match dtype {
        Some(dtype) => matches!(dtype, DataType::F32 | DataType::F16 | DataType::Bf16),
        None => matches!(element.0, 2 | 4),
    }
}

impl Kernel {
    pub(super) fn choice(self, call: &Call, most: u64) -> Choice {
        let (name, collective, runs) = match self {
            Self::Flat => ("DDA/flat", C::AllReduce, "one-shot"),
            Self::Tree => ("DDA/tree", C::AllReduce, "two-shot"),
            Self::Blocks => ("DDA", C::AllToAll, directly(call)),
        };
        let rule = match self {
            Self::Flat => format!("up to {most} B: every GPU reads all vectors and adds"),
            Self::Tree => {
                format!("up to {most} B: every GPU reads a block of all, adds, and reads the sums")
            }
            Self::Blocks => format!("up to {most} B of all ranks: every GPU reads its part of all"),
        };
        let mut notes = Vec::new();
        if collective != call.collective {
            notes.push(
                "priced as an all-to-all of the same bytes, which sends the same messages".into(),
            );
        }
        let divides = match self {
            Self::Flat => format!("vectors that are no multiple of {READ} B"),
            Self::Tree | Self::Blocks => format!("blocks that are no multiple of {READ} B"),
        };
        let others = match call.collective {
            C::AllReduce | C::ReduceScatter => ", operations other than a sum",
            _ => "",
        };
        notes.push(
            format!(
                "{divides}{others}, other elements than 32-bit and 16-bit floats, calls in a group and several GPUs of \
                 a process run as without it; {SWITCH} switches it off"
            )
            .into(),
        );
        let part = Part::new(collective, call.ranks, Where::All, runs);
        Choice { notes, ..Choice::new(name, rule, Runs::Parts(vec![part])) }
    }
}

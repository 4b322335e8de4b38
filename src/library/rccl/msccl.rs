//! The schedules of MSCCL that releases up to 2.27 run among the eight GPUs of a node.
//!
//! Source: ROCm/rccl at 2.27.7, `tools/msccl-algorithms`.

use super::first::{First, What};
use super::{directly, is_fp8};
use crate::base::collective::Collective as C;
use crate::base::dtype::DataType;
use crate::library::nccl::policy::wire;
use crate::library::{Call, Choice, Part, Runs, Where};
use crate::machine::nccl::Proto;

/// The variable without which they run.
pub(super) const SWITCH: &str = "RCCL_MSCCL_ENABLE=0";

/// The schedules for eight GPUs.
const ALL_REDUCE: [Schedule; 3] = [
    Schedule { most: 65_536, proto: Proto::Ll, multiple: 256 },
    Schedule { most: 524_287, proto: Proto::Ll, multiple: 512 },
    Schedule { most: 20_971_520, proto: Proto::Simple, multiple: 512 },
];
const ALL_TO_ALL: [Schedule; 5] = [
    Schedule { most: 9_216, proto: Proto::Ll, multiple: 8 },
    Schedule { most: 194_560, proto: Proto::Ll, multiple: 16 },
    Schedule { most: 524_288, proto: Proto::Ll, multiple: 32 },
    Schedule { most: 7_340_032, proto: Proto::Simple, multiple: 32 },
    Schedule { most: 45_088_768, proto: Proto::Simple, multiple: 64 },
];

/// A schedule of MSCCL.
#[derive(Clone, Copy)]
pub(super) struct Schedule {
    /// The largest size.
    most: u64,
    proto: Proto,
    /// What the number of elements has to be a multiple of.
    multiple: u64,
}

/// Those that may run a call of eight GPUs of a node, from the smallest size.
pub(super) fn of(call: &Call, dtype: Option<DataType>) -> Vec<First> {
    let limit = match (call.collective, dtype) {
        (C::AllReduce, _) if !call.builtin_op => 0,
        (C::AllReduce, dtype) if is_fp8(dtype) => 0,
        (C::AllReduce, Some(DataType::Bf16)) => 8 << 20,
        (C::AllToAll, _) if call.in_place => 0,
        _ => u64::MAX,
    };
    let all: &[Schedule] = match call.collective {
        C::AllReduce => &ALL_REDUCE,
        C::AllToAll => &ALL_TO_ALL,
        _ => &[],
    };
    let first = |own: &Schedule| {
        let own = Schedule { most: own.most.min(limit), ..*own };
        let step = own.multiple * call.element.0.max(1);
        First { most: own.most, step, what: What::Msccl(own) }
    };
    all.iter().map(first).take_while(|own| own.most > 0).collect()
}

impl Schedule {
    pub(super) fn choice(self, call: &Call) -> Choice {
        let runs = match call.collective {
            C::AllReduce => "two-shot",
            _ => directly(call),
        };
        let mut part = Part::new(call.collective, call.ranks, Where::All, runs);
        part.wire = wire(self.proto);
        let rule = format!("up to {} B: a schedule of MSCCL for 8 GPUs", self.most);
        let others = match call.collective {
            C::AllReduce => "averages, 8-bit floats and bfloat16 above 8 MiB",
            _ => "calls in place",
        };
        let note = format!(
            "numbers of elements that are no multiple of {}, {others} run as in 2.28; {SWITCH} switches it off",
            self.multiple
        );
        let notes = vec![note.into()];
        Choice {
            notes,
            ..Choice::new(format!("MSCCL/{}", self.proto), rule, Runs::Parts(vec![part]))
        }
    }
}

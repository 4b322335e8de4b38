//! NCCL's kernels on buffers in symmetric windows, chosen by NCCL's own model
//! ([`CostModel`]).
//!
//! Source: NVIDIA/nccl v2.27.7-1 `src/symmetric.cc`, v2.28.9-1 to v2.30.7-1 `src/sym_kernels.cc`.
//! The accuracy of its times has not been shown.

use super::ask::Ask;
use super::{Engine, Taken};
use crate::base::collective::Collective;
use crate::base::quantity::Bytes;
use crate::library::nccl::cost_model::{Best, Candidate, CostModel};
use crate::library::nccl::{self, Communicator, Function, Operation, Reduction, Settings, Version};
use crate::machine::sample::DataType;

pub(super) static ENGINE: Engine = Engine {
    id: "nccl-symm",
    aliases: &["nccl-sym", "nccl-symmetric"],
    title: "NCCL on buffers in symmetric windows: the kernel that its model picks",
    releases: &["2.30.7", "2.29.7", "2.28.9", "2.27.7"],
    source: "NVIDIA/nccl v2.30.7-1, src/sym_kernels.cc",
    variables: &["NCCL_SYM_KERNEL", "NCCL_SYM_CTAS", "NCCL_WIN_ENABLE", "p2p"],
    force: &[
        (
            "nccl-symm",
            "NCCL_SYM_KERNEL=AllReduce_NAME, AllGather_NAME …; buffers registered with ncclCommWindowRegister",
        ),
        ("nccl", "NCCL_WIN_ENABLE=0"),
    ],
    ways: &[&["NCCL_WIN_ENABLE=1"], &["NCCL_WIN_ENABLE=0"]],
    rivals: false,
    collectives: &[Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter],
    choose,
};

fn choose(ask: &Ask<'_>) -> Taken {
    if let Err(why) = applies(ask) {
        return Taken::nccl(why);
    }
    let named = ask.env.get(KERNEL);
    let found = Model::of(ask).and_then(|model| {
        let points: Vec<u64> = CostModel::points().step_by(4).collect();
        points.windows(2).for_each(|pair| model.note_changes(ask, pair[0], pair[1]));
        model.best(ask.size())
    });
    match (found, named) {
        (Some((name, _)), Some(text)) if name == short(text) => {
            Taken::new("nccl-symm", name, format!("{KERNEL} names it"))
        }
        (Some((name, best)), _) => {
            let (micros, blocks) = (best.time().0, best.channels);
            let rule = format!("the model's least time: {micros:.1} µs with {blocks} blocks");
            Taken::new("nccl-symm", name, rule)
        }
        (None, Some(text)) => {
            Taken::nccl(format!("{KERNEL}={text} names no kernel that accepts it"))
        }
        (None, None) => Taken::nccl("no kernel accepts it"),
    }
}

/// The variable that names a kernel, which takes the whole name and no other spelling.
const KERNEL: &str = "NCCL_SYM_KERNEL";

/// A kernel's name without the collective's: `AllReduce_AGxLL_R` is `AGxLL_R`.
fn short(name: &str) -> &str {
    name.split_once('_').map_or(name, |(_, kernel)| kernel)
}

fn applies(ask: &Ask<'_>) -> Result<(), String> {
    use DataType as D;
    if !ask.env.is_on("NCCL_WIN_ENABLE", true) {
        return Err("NCCL_WIN_ENABLE=0".to_owned());
    }
    if !ask.board.cuda() || !ask.board.linked || !ask.board.peer_access {
        return Err("no NVLink between every pair".to_owned());
    }
    if ask.ranks > ask.board.domain {
        return Err("the group is larger than the NVLink domain".to_owned());
    }
    match ask.collective {
        Collective::AllGather => Ok(()),
        _ => ask.dtype_of(&[D::F32, D::F16, D::Bf16, D::F8e4m3, D::F8e5m2]),
    }
}

/// NCCL's model for the calls of a group within an NVLink domain.
struct Model {
    version: Version,
    kernels: CostModel,
    function: Function,
    /// How many times S the call's largest buffer is.
    parts: u64,
}

impl Model {
    fn of(ask: &Ask<'_>) -> Option<Self> {
        let version = ask.release.to_string().parse().ok()?;
        let min_cc = ask.board.sm?;
        let comm = Communicator {
            ranks: ask.ranks,
            nodes: 1,
            local_ranks: ask.ranks,
            min_cc,
            max_cc: min_cc,
            nvls: ask.board.spans(ask.ranks),
            nvswitch: ask.board.linked,
            ..Communicator::default()
        };
        let mut settings = Settings::default();
        for name in [KERNEL, "NCCL_SYM_CTAS"] {
            // What is no number changes nothing, as in NCCL.
            ask.env.get(name).and_then(|value| settings.set(name, value).ok());
        }
        let reduction = Reduction { element: ask.dtype, operation: Operation::Sum };
        let function = Function::of(ask.collective)?;
        let parts = if function.gathers() { ask.ranks.into() } else { 1 };
        let kernels = CostModel::new(&comm, version, &settings, reduction).ok()?;
        Some(Self { version, kernels, function, parts })
    }

    /// The kernel for S by its name.
    fn best(&self, size: u64) -> Option<(&'static str, Best)> {
        let size = Bytes(size.saturating_mul(self.parts));
        let call = nccl::Call { function: self.function, size, pipelined: 1 };
        let best = self.kernels.on_windows(&call)?;
        let Candidate::Symmetric(kernel) = best.candidate else { return None };
        Some((short(kernel.name(self.version)), best))
    }

    /// Finds by halving where the kernel changes between two sizes, and notes it.
    fn note_changes(&self, ask: &Ask<'_>, mut from: u64, mut to: u64) {
        let name = |size| self.best(size).map(|(name, _)| name);
        let first = name(from);
        if first == name(to) {
            return;
        }
        while to - from > 1 {
            let middle = from + (to - from) / 2;
            if name(middle) == first { from = middle } else { to = middle }
        }
        ask.border(to);
    }
}

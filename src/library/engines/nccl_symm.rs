//! NCCL's kernels on buffers in symmetric windows, chosen by NCCL's own model
//! ([`CostModel`]).
//!
//! Source: NVIDIA/nccl v2.27.7-1 `src/symmetric.cc`, v2.28.9-1 to v2.30.7-1 `src/sym_kernels.cc`,
//! and `taskAppend` in `src/enqueue.cc` for copy engines.
//! The accuracy of its times has not been shown.

use super::ask::Ask;
use super::{Engine, Taken};
use crate::base::collective::Collective;
use crate::base::quantity::Bytes;
use crate::library::nccl::cost_model::{Best, COPIES_ABOVE, Candidate, CostModel, Kernel, Reach};
use crate::library::nccl::{
    self, Communicator, Function, Gbps, Operation, Reduction, Settings, Version,
};
use crate::machine::sample::DataType;

pub(super) static ENGINE: Engine = Engine {
    id: "nccl-symm",
    aliases: &["nccl-sym", "nccl-symmetric"],
    title: "NCCL on buffers in symmetric windows: the kernel that its model picks",
    releases: &["2.32.6", "2.32.3", "2.31.2", "2.30.7", "2.29.7", "2.28.9", "2.27.7"],
    source: "NVIDIA/nccl, src/sym_kernels.cc (2.28.9 to 2.30.7), src/symmetric.cc before, src/tuning since",
    variables: &[
        "NCCL_SYM_KERNEL",
        "NCCL_SYM_CTAS",
        "NCCL_SYM_CE_THRESHOLD",
        "NCCL_SYM_GIN_KERNELS_ENABLE",
        "NCCL_WIN_ENABLE",
        "p2p",
    ],
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
        (Some((name, best)), _) => Taken::new("nccl-symm", name, rule(&best)),
        (None, Some(text)) => {
            Taken::nccl(format!("{KERNEL}={text} names no kernel that accepts it"))
        }
        (None, None) => Taken::nccl("no kernel accepts it"),
    }
}

fn rule(best: &Best) -> String {
    let blocks = best.channels;
    match (best.candidate, best.time()) {
        // Its time is in seconds, and it has no rival.
        (Candidate::Symmetric(Kernel::AllGatherRail), _) => {
            format!("the only kernel between NVLink domains; blocks: {blocks}")
        }
        (_, Some(time)) => {
            format!("the model's least time: {:.1} µs with {blocks} blocks", time.0)
        }
        (_, None) => format!(
            "copy engines gather more than {COPIES_ABOVE} elements a rank on Blackwell \
             (NCCL_SYM_CE_THRESHOLD)"
        ),
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
    let domains = domains(ask);
    if domains > 1 {
        reaches(ask, domains)?;
    }
    match ask.collective {
        Collective::AllGather => Ok(()),
        _ => ask.dtype_of(&[D::F32, D::F16, D::Bf16, D::F8e4m3, D::F8e5m2]),
    }
}

/// The NVLink domains of the ranks: racks, or nodes.
fn domains(ask: &Ask<'_>) -> u32 {
    let full = ask.ranks.div_ceil(ask.board.domain);
    if ask.board.domain > ask.board.tray { full } else { full.max(ask.nodes) }
}

/// Whether kernels may run between so many domains: by GPUs that start transfers themselves (GIN).
fn reaches(ask: &Ask<'_>, domains: u32) -> Result<(), String> {
    let has = match ask.collective {
        Collective::AllGather => ask.since(2, 29, 2),
        Collective::ReduceScatter => ask.since(2, 29, 7),
        _ => false,
    };
    match () {
        () if !has => Err(format!("the ranks are in {domains} NVLink domains")),
        () if ask.nic.is_none() => {
            Err("between NVLink domains its kernels need InfiniBand or RoCE".to_owned())
        }
        () if !ask.ranks.is_multiple_of(domains) => {
            Err("its ranks are not the same number in each NVLink domain".to_owned())
        }
        () => Ok(()),
    }
}

/// NCCL's model for the calls of a group.
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
        let nodes = domains(ask);
        let local_ranks = ask.ranks / nodes;
        let comm = Communicator {
            ranks: ask.ranks,
            nodes,
            local_ranks,
            min_cc,
            max_cc: min_cc,
            nvls: ask.board.spans(local_ranks),
            nvswitch: ask.board.linked,
            ..Communicator::default()
        };
        let nic = Gbps(ask.nic.map_or(0.0, |rate| (rate.0 / 1e9) as f32));
        let comm = Communicator { reach: Some(Reach { nic, ..Reach::of(&comm) }), ..comm };
        let mut settings = Settings::default();
        let read =
            [KERNEL, "NCCL_SYM_CTAS", "NCCL_SYM_CE_THRESHOLD", "NCCL_SYM_GIN_KERNELS_ENABLE"];
        for name in read {
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
        let name = match best.candidate {
            Candidate::Symmetric(kernel) => kernel.name(self.version),
            Candidate::Copied(copies) => copies.name(),
            Candidate::General(..) => return None,
        };
        Some((short(name), best))
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

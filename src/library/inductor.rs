//! PyTorch's compiler: its estimate of a collective's time, by which it orders work around it.
//!
//! The estimate is a part of NCCL's tuner: the ring with LL is the only candidate, nodes have eight
//! GPUs, and links are NVLink. All-to-all costs the same as all-reduce. The size is the sum of the
//! inputs, so the estimate of an all-gather is for N times too few bytes. The estimate chooses
//! nothing: NCCL decides later.
//!
//! ```text
//! busBw  = min(LL limit, 2 channels · bw · ¼ over nodes or for an all-reduce, ⅓ else)
//! algBw  = busBw · N/steps           steps = 2(N − 1) for all-reduce and all-to-all, else N − 1
//! T      = GiB/algBw + 6.6 µs + (steps − inter)·intra + inter·2.7 µs
//! ```
//!
//! Source: pytorch/pytorch, `torch/_inductor/comm_analysis.py` as of 2025 (b5ee4d7a).

use super::{Call, Choice, Entry, Made, Meta, Policy, Runs, Site};
use crate::base::collective::Collective as C;
use crate::base::error::{Error, Result};
use crate::base::quantity::Seconds;

/// The GPUs that it distinguishes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gpu {
    Volta,
    Ampere,
    Hopper,
}

/// Its estimate as of 2025.
pub(super) const V2025: Entry = Entry {
    id: "pytorch-inductor@2025",
    aliases: &["pytorch-inductor", "inductor", "inductor@2025"],
    made: Made::Plain {
        library: None,
        title: "PyTorch inductor's estimate of 2025: NCCL's ring with LL",
        counts: "the sum of the inputs: for an all-gather one rank's shard, M/N; else M",
        source: "pytorch/pytorch at b5ee4d7a, torch/_inductor/comm_analysis.py",
        make,
    },
};

fn make(meta: Meta, site: &Site) -> Result<Box<dyn Policy>> {
    let text = format!("{} {}", site.machine, site.title).to_uppercase();
    let (gpu, known) = match () {
        () if text.contains("V100") => (Gpu::Volta, true),
        () if text.contains("A100") => (Gpu::Ampere, true),
        () if text.contains("H100") => (Gpu::Hopper, true),
        () => (Gpu::Ampere, false),
    };
    Ok(Box::new(Inductor { meta, gpu, known }))
}

struct Inductor {
    meta: Meta,
    gpu: Gpu,
    /// Whether the machine's name says which GPU it has.
    known: bool,
}

/// config.intra_node_bw and config.inter_node_bw, and the channels.
const INTRA: f64 = 300.0;
const INTER: f64 = 25.0;
const CHANNELS: f64 = 2.0;
/// Ranks on a node, for any machine.
const NODE: u32 = 8;
/// In µs: the ring with LL, a step over NVLink, a step over the network, the least over several
/// nodes.
const BASE: f64 = 6.6;
const NVLINK: f64 = 0.6;
const NETWORK: f64 = 2.7;
const INSIDE: f64 = 1.0;

/// GB/s that LL reaches on one node, on two, on more.
fn low_latency_limit(gpu: Gpu) -> [f64; 3] {
    match gpu {
        Gpu::Volta => [39.0, 39.0, 20.4],
        Gpu::Ampere | Gpu::Hopper => [87.7, 22.5, 19.0],
    }
}

impl Inductor {
    /// The estimate for `bytes` as it counts them.
    fn estimate(&self, collective: C, ranks: u32, bytes: u64) -> Seconds {
        if ranks <= 1 {
            return Seconds(0.0);
        }
        let nodes = ranks.div_ceil(NODE);
        let both_ways = matches!(collective, C::AllReduce | C::AllToAll);
        // Over several nodes it always reads the row of Volta.
        let row = if nodes == 1 { self.gpu } else { Gpu::Volta };
        let limit = low_latency_limit(row)[nodes.min(3) as usize - 1];
        let link = if nodes == 1 { INTRA } else { INTER };
        let shared = nodes > 1 || collective == C::AllReduce;
        let bus = limit.min(CHANNELS * link * if shared { 1.0 / 4.0 } else { 1.0 / 3.0 });
        let (n, nodes) = (f64::from(ranks), f64::from(nodes));
        let steps = if both_ways { 2.0 * (n - 1.0) } else { n - 1.0 };
        let between = match collective {
            C::AllReduce if nodes > 1.0 => 2.0 * nodes,
            C::AllReduce => 0.0,
            _ => nodes - 1.0,
        };
        let step = if nodes > 1.0 { NVLINK.max(INSIDE) } else { NVLINK };
        let latency = BASE + (steps - between) * step + between * NETWORK;
        let gibi = bytes as f64 / f64::from(1 << 30);
        Seconds(gibi / (bus * n / steps) + latency * 1e-6)
    }
}

impl Policy for Inductor {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn choose(&self, call: &Call) -> Result<Choice> {
        let (bytes, runs) = match call.collective {
            C::AllReduce | C::ReduceScatter => {
                (call.size.0, Runs::whole(call.collective, call.ranks, "ring"))
            }
            C::AllGather => (call.block().0, Runs::whole(C::AllGather, call.ranks, "ring")),
            C::AllToAll => (
                call.size.0,
                Runs::unpriced(
                    "it models an all-to-all as a ring of 2(N − 1) steps, which no \
                                library runs",
                ),
            ),
            _ => {
                return Err(Error::unsupported(format!(
                    "{} has no estimate for {}",
                    self.meta.id,
                    call.operation()
                ))
                .help("ask for allreduce, allgather, reducescatter or alltoall"));
            }
        };
        let nodes = call.ranks.div_ceil(NODE);
        let rule = format!("any size: only Ring with LL is tried, {nodes} nodes of 8 assumed");
        let mut notes = Vec::new();
        if !self.known {
            notes.push("the GPU is not a V100, A100 or H100: treated as Ampere".into());
        }
        if nodes != call.nodes {
            notes.push(
                format!("the call is on {} nodes, the estimate assumes {nodes}", call.nodes).into(),
            );
        }
        if call.collective == C::AllGather {
            notes.push(
                "its size is one rank's shard: the estimate is for a call N times smaller".into(),
            );
        }
        notes.push("the estimate only orders work: NCCL chooses by its own rules".into());
        let estimate = Some(self.estimate(call.collective, call.ranks, bytes));
        Ok(Choice { estimate, notes, ..Choice::new("Ring, LL", rule, runs) })
    }
}

//! What symmetric kernels need from a communicator besides the graphs: which ranks reach which memory.

use super::super::{Communicator, Gbps, PathType};

/// How the ranks reach each other, and what their NICs carry.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reach {
    /// The slowest path from a GPU to one of its own NICs, over all ranks; 0 without a NIC.
    pub nic: Gbps,
    /// Whether all pairs of GPUs of a node are directly connected by `NVLink`.
    pub direct: bool,
    /// Ranks that load and store each other's memory: the `NVLink` domain.
    pub domain: u32,
    /// Whether symmetric windows are supported at all.
    pub symmetric: bool,
    /// Blocks that serve one channel; more than one only on Rubin-class GPUs.
    pub blocks_per_channel: u32,
}

/// The lowest compute capability on which windows are assumed to work.
const WINDOWS: u32 = 80;

impl Reach {
    /// The assumptions about a communicator if only its graphs are known: a node is a domain; GPUs
    /// on a switch and single GPUs are direct; windows work from Ampere on, also between nodes; and
    /// the fastest graph between nodes is just below the rate of a NIC.
    #[must_use]
    pub fn of(comm: &Communicator) -> Self {
        let pair = comm.local_ranks == 2 && comm.ring.type_intra == PathType::Nvl;
        let direct = comm.nvswitch || comm.local_ranks == 1 || pair;
        let between = [&comm.ring, &comm.tree, &comm.nvls_graph].map(|graph| graph.inter.0);
        Self {
            nic: Gbps(between.into_iter().fold(0.0, f32::max)),
            direct,
            domain: comm.local_ranks,
            symmetric: direct && comm.min_cc >= WINDOWS,
            blocks_per_channel: 1,
        }
    }
}

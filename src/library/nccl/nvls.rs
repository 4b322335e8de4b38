//! What start-up sets for `NVLSTree` over nodes of Blackwell, by the rate of the slowest NIC.
//!
//! Source: NVIDIA/nccl v2.30.7-1, src/transport/nvls.cc (`ncclNvlsTreeSm100Tuning`), as in 2.30.3.

use super::{Communicator, Gbps, PathType, Version};

/// The channels of NVLS, and the largest chunk of its tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OverNodes {
    pub(super) channels: u32,
    /// In bytes; `None` where the limit of other GPUs holds.
    pub(super) chunk: Option<u64>,
}

impl OverNodes {
    /// If `slowest_nic` is not known, it is taken from the fastest graph between nodes: the search tries
    /// rates just below those of NICs.
    pub(super) fn of(version: Version, comm: &Communicator, slowest_nic: Option<Gbps>) -> Self {
        let inferred = || {
            let rates = [&comm.ring, &comm.tree, &comm.nvls_graph].map(|graph| graph.inter.0);
            rates.into_iter().fold(0.0, f32::max)
        };
        let nic = slowest_nic.map_or_else(inferred, |nic| nic.0);
        let per_node = comm.ranks / comm.nodes.max(1);
        let near = comm.nvls_graph.type_inter.rank(version) <= PathType::Pxb.rank(version);
        let (channels, kib) = match comm.nodes {
            2 if nic >= 48.0 => match per_node {
                ..=4 => (32, 256),
                16.. => (32, 64),
                5..=8 if near && nic < 96.0 => (32, 64),
                _ => (32, 128),
            },
            _ if nic >= 96.0 => match per_node {
                ..=8 => (24, 256),
                9..=31 => (32, 128),
                _ => (32, 64),
            },
            _ if nic >= 48.0 => (24, if near { 64 } else { 128 }),
            _ => return Self { channels: 32, chunk: None },
        };
        Self { channels, chunk: Some(kib << 10) }
    }
}

//! How many channels a communicator starts with, from the graphs that the search found.
//!
//! The search counts a channel for each path; a communicator has two for each, more with in-network
//! reduction and with fast rings. NVLS has a number of its own.
//!
//! Source: NVIDIA/nccl at the tags of [`Version`], `src/graph/connect.cc` (doubling),
//! `src/init.cc` and `src/transport/nvls.cc` (channels of NVLS).

use super::{Communicator, Version};

/// What start-up makes of the graphs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Startup {
    /// Channels of rings and trees, after duplication.
    pub channels: u32,
    /// Whether NVLS is used.
    pub nvls: bool,
    /// Channels of NVLS; 0 where it is not used.
    pub nvls_channels: u32,
}

impl Startup {
    /// The rule of a version. Of `comm` the ranks, nodes, compute capability, `collnet` and the
    /// graphs are read; what start-up itself sets is not.
    ///
    /// No `NCCL_MIN_NCHANNELS` and its like are applied. What a NIC carries, which 2.30 asks on
    /// Blackwell, is taken from the fastest graph between nodes: the search tries rates just below
    /// those of NICs.
    #[must_use]
    pub fn of(version: Version, comm: &Communicator) -> Self {
        let nvls = has_nvls(version, comm);
        let nvls_channels = if nvls { nvls_channels(version, comm) } else { 0 };
        Self { channels: channels(version, comm), nvls, nvls_channels }
    }
}

impl Communicator {
    /// The same communicator with the channels that the version starts with.
    #[must_use]
    pub fn started(self, version: Version) -> Self {
        let Startup { channels, nvls, nvls_channels } = Startup::of(version, &self);
        Self { channels, nvls, nvls_channels, ..self }
    }
}

fn channels(version: Version, comm: &Communicator) -> u32 {
    let most = if version.is_new() { 64 } else { 32 };
    let searched = comm.ring.channels.min(comm.tree.channels);
    let mut channels = searched.saturating_mul(2).min(most);
    let chain = &comm.collnet_chain_graph;
    if comm.collnet && chain.intra > chain.inter && comm.ranks > comm.nodes {
        channels = (channels / 2 * 3).min(most);
    }
    // One ring of such a rate cannot fill a NIC with the channels that it has.
    if comm.nodes > 1 && comm.ring.intra.0 > 45.0 {
        let doubles = match version {
            Version::V2_18 => comm.min_cc == 90 && 2 * channels <= 32,
            Version::V2_21 => comm.min_cc == 90 && channels < 16,
            Version::V2_27 | Version::V2_30 => comm.min_cc >= 90 && channels < 16,
        };
        if doubles {
            channels *= 2;
        }
    }
    channels
}

fn has_nvls(version: Version, comm: &Communicator) -> bool {
    let least = if version >= Version::V2_30 { 2 } else { 3 };
    comm.nvls_graph.channels > 0 && comm.min_cc >= 90 && comm.local_ranks >= least
}

fn nvls_channels(version: Version, comm: &Communicator) -> u32 {
    if comm.min_cc < 100 || !version.is_new() {
        return 16;
    }
    if comm.nodes == 1 {
        return 24;
    }
    if version < Version::V2_30 {
        return 32;
    }
    let nic = [&comm.ring, &comm.tree, &comm.nvls_graph].map(|graph| graph.inter.0);
    let nic = nic.into_iter().fold(0.0, f32::max);
    match comm.nodes {
        2 if nic >= 48.0 => 32,
        nodes if nic >= 96.0 && comm.ranks <= 8 * nodes => 24,
        _ if nic >= 96.0 => 32,
        _ if nic >= 48.0 => 24,
        _ => 32,
    }
}

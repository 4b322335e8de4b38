//! MPI between processes on hosts: L, b and c of the base. Times are in microseconds, rates in GB/s.
//!
//! ```text
//! L   launch + of·(s·lg k·k^… + α·lg nodes·k^…)              + a message to each other rank of an all-to-all
//! b   what k ranks of a host copy and add in its memory      + what leaves a host, over its ports
//! ```

use super::base::{Asked, What};
use super::features::{Features, Net};

/// The fitted constants, by name.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Constants {
    /// µs of a call.
    pub(super) launch: f64,
    /// µs of a doubling of the ranks inside a host, and its growth with these: k to that power.
    pub(super) inside: f64,
    pub(super) crowd: f64,
    /// A doubling of the hosts, in small messages between two: over networks that bypass the kernel, over EFA,
    /// over TCP; its growth with the ranks of a host, and that over TCP.
    pub(super) between: f64,
    pub(super) efa: f64,
    pub(super) tcp: f64,
    pub(super) shared: f64,
    pub(super) shared_tcp: f64,
    /// L of other collectives in that of all-reduce; a rooted one is a gather or a scatter.
    pub(super) broadcast: f64,
    pub(super) reduce: f64,
    pub(super) gathers: f64,
    pub(super) all_to_all: f64,
    pub(super) reduce_scatter: f64,
    pub(super) rooted: f64,
    pub(super) barrier: f64,
    /// µs of a message to each other rank.
    pub(super) each: f64,
    /// ns per byte that a rank adds, or copies, and for each rank of its host that does so at the same time; of
    /// gathers and all-to-alls, in which all ranks receive all that is counted, the latter alone.
    pub(super) adds: f64,
    pub(super) adds_beside: f64,
    pub(super) copies: f64,
    pub(super) copies_beside: f64,
    pub(super) gathers_beside: f64,
    /// The part of the ports' line rate that is reached; ns that a host works for a byte which leaves it, and that
    /// over TCP; how much more often than they need to sums leave it, as a power of its ranks, and over TCP besides.
    pub(super) reached: f64,
    pub(super) wire: f64,
    pub(super) wire_tcp: f64,
    pub(super) again: f64,
    pub(super) again_tcp: f64,
    /// c on one host and on several.
    pub(super) overlap: f64,
    pub(super) overlap_hosts: f64,
}

/// The most hosts, and ranks of one, that were measured.
pub(super) const MEASURED: (f64, f64) = (2048.0, 288.0);

/// How much wider a band is for each doubling of them beyond: as errors of GPUs grow for twice the ranks.
const DOUBLED: f64 = 0.3;

/// What is added to half a band's width where more hosts are asked, or more ranks on one, than were measured.
pub(super) fn beyond(asked: &Asked) -> f64 {
    if !asked.hosts {
        return 0.0;
    }
    let doubled = |n: f64, most: f64| (n / most).log2().max(0.0);
    let octaves = doubled(asked.nodes, MEASURED.0) + doubled(asked.per_node, MEASURED.1);
    DOUBLED * octaves
}

/// L, b per byte, and c.
pub(super) fn form(k: &Constants, machine: &Features, asked: &Asked) -> [f64; 3] {
    let (hosts, each) = (asked.nodes, asked.per_node);
    let (several, over_tcp) = (hosts > 1.0, matches!(machine.net, Net::Tcp));
    let (of, sums, all) = match asked.what {
        What::AllReduce => (1.0, true, false),
        What::ReduceScatter => (k.reduce_scatter, true, false),
        What::Reduce => (k.reduce, true, false),
        What::Broadcast => (k.broadcast, false, false),
        What::AllGather => (k.gathers, false, true),
        What::AllToAll => (k.all_to_all, false, true),
        What::Gather | What::Scatter | What::SendRecv => (k.rooted, false, false),
        What::Barrier => (k.barrier, false, false),
    };

    let message = match machine.net {
        Net::Tcp => k.tcp,
        Net::Efa => k.efa,
        _ => k.between,
    };
    let growth = if over_tcp { k.shared_tcp } else { k.shared };
    let inside = k.inside * each.log2() * each.powf(k.crowd);
    let between = message * machine.alpha * hosts.log2() * each.powf(growth);
    let messages = if asked.what == What::AllToAll { k.each * (asked.ranks - 1.0) } else { 0.0 };
    let latency = k.launch + of * (inside + between) + messages;

    // One rank of a host adds what it receives, and copies nothing.
    let memory = match each > 1.0 {
        _ if sums => k.adds + k.adds_beside * each,
        true if all => k.gathers_beside * each,
        true => k.copies + k.copies_beside * each,
        false => 0.0,
    };
    let leaves = match asked.what {
        _ if !several => 0.0,
        What::AllReduce => 2.0 * (hosts - 1.0) / hosts,
        What::AllToAll => each * (hosts - 1.0) / hosts,
        What::Broadcast | What::Reduce => 1.0,
        _ => (hosts - 1.0) / hosts,
    };
    let times = match sums {
        true if over_tcp => k.again_tcp * each.powf(k.again),
        true => each.powf(k.again),
        false => 1.0,
    };
    let wire = if over_tcp { k.wire_tcp } else { k.wire };
    let port = 1.0 / (machine.one * k.reached) + wire;
    let bytes = 1e-3 * (memory + times * leaves * port);
    [latency, bytes, if several { k.overlap_hosts } else { k.overlap }]
}

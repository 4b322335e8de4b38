//! The chunks in which NCCL moves a vector through its trees.
//!
//! A channel's thread block sends a chunk as soon as its buffer has room for one of eight, so α delays
//! the first chunk alone. All channels move theirs at the same time: together they are one segment.
//!
//! On Blackwell over nodes the limit of `NVLSTree` follows the NICs' rate and paths (64 to 256 KiB,
//! `ncclNvlsTreeSm100Tuning`); here it is that of other GPUs.
//!
//! Source: NVIDIA/nccl v2.30.7-1, src/enqueue.cc (`calcCollChunking`), src/transport/nvls.cc.

use super::{Algo, Communicator, Decision, Proto};
use crate::base::quantity::Bytes;

/// A buffer of the protocol Simple (4 MiB) has room for eight of these.
const STEP: u64 = 512 << 10;

/// The bytes of the vector that all channels together move as one segment; `None` where nothing flows
/// through stages in this way.
pub(super) fn segment(comm: &Communicator, decision: &Decision, size: Bytes) -> Option<Bytes> {
    let channels = u64::from(decision.channels.max(1));
    match (decision.algo, decision.proto) {
        (Algo::Tree, Proto::Simple) => Some(Bytes(channels * STEP)),
        // The switch gives each GPU of a node a chunk at a time.
        (Algo::NvlsTree, Proto::Simple) => {
            let abreast = channels * u64::from(comm.local_ranks.max(1));
            Some(Bytes(abreast * through_switch(comm.nodes, size.0 / abreast)))
        }
        _ => None,
    }
}

/// A chunk of `NVLSTree`, where each has `share` bytes of the vector to move.
fn through_switch(nodes: u32, share: u64) -> u64 {
    let most: u64 = if nodes >= 4 { 64 << 10 } else { 128 << 10 };
    let chunk = if share < 4 * most { most.min(64 << 10) } else { most };
    if share < chunk { chunk.min(32 << 10) } else { chunk }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_shrink_where_a_vector_has_few_of_them() {
        let kib = |k: u64| k << 10;
        for (nodes, share, chunk) in [
            (2, kib(512), kib(128)),
            (2, kib(512) - 1, kib(64)),
            (2, kib(64), kib(64)),
            (2, kib(64) - 1, kib(32)),
            (4, kib(4096), kib(64)),
            (4, kib(64) - 1, kib(32)),
        ] {
            assert_eq!(through_switch(nodes, share), chunk, "{nodes} nodes, {share} bytes each");
        }
    }
}

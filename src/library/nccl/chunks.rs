//! The chunks in which NCCL moves a vector through its trees.
//!
//! A channel's thread block sends a chunk as soon as its buffer has room for one of eight, so α delays
//! the first chunk alone. All channels move theirs at the same time: together they are one segment.
//!
//! Source: NVIDIA/nccl v2.30.7-1, src/enqueue.cc (`calcCollChunking`), src/transport/nvls.cc.

use super::nvls::OverNodes;
use super::{Algo, Communicator, Decision, Proto, Version, since};
use crate::base::quantity::Bytes;

/// A buffer of the protocol Simple (4 MiB) has room for eight of these.
const STEP: u64 = 512 << 10;

/// The bytes of the vector that all channels together move as one segment; `None` where nothing flows
/// through stages in this way.
pub(super) fn segment(
    version: Version,
    comm: &Communicator,
    decision: &Decision,
    size: Bytes,
) -> Option<Bytes> {
    let channels = u64::from(decision.channels.max(1));
    match (decision.algo, decision.proto) {
        (Algo::Tree, Proto::Simple) => Some(Bytes(channels * STEP)),
        // The switch gives each GPU of a node a chunk at a time.
        (Algo::NvlsTree, Proto::Simple) => {
            let abreast = channels * u64::from(comm.local_ranks.max(1));
            let most = largest(version, comm);
            Some(Bytes(abreast * through_switch(most, size.0 / abreast)))
        }
        _ => None,
    }
}

/// The largest chunk of `NVLSTree`.
fn largest(version: Version, comm: &Communicator) -> u64 {
    let by_nic = comm.min_cc >= 100 && comm.nodes > 1 && version.has(since::NVLS_BY_NIC);
    let tuned = if by_nic { OverNodes::of(version, comm, None).chunk } else { None };
    tuned.unwrap_or(if comm.nodes >= 4 { 64 << 10 } else { 128 << 10 })
}

/// A chunk of at most `most`, where each has `share` bytes of the vector to move.
fn through_switch(most: u64, share: u64) -> u64 {
    let mut chunk = most;
    for (few, smaller) in [(16, 128 << 10), (4, 64 << 10), (1, 32 << 10)] {
        if share < few * chunk {
            chunk = chunk.min(smaller);
        }
    }
    chunk
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::nccl::machines::Place;
    use crate::library::nccl::{Gbps, Graph, PathType};

    #[test]
    fn chunks_shrink_where_a_vector_has_few_of_them() {
        let kib = |k: u64| k << 10;
        for (most, share, chunk) in [
            (128, kib(512), 128),
            (128, kib(512) - 1, 64),
            (128, kib(64), 64),
            (128, kib(64) - 1, 32),
            (64, kib(4096), 64),
            (64, kib(64) - 1, 32),
            (256, kib(4096), 256),
            (256, kib(4096) - 1, 128),
            (256, kib(512) - 1, 64),
        ] {
            let at = format!("at most {most} KiB, {share} bytes each");
            assert_eq!(through_switch(kib(most), share), kib(chunk), "{at}");
        }
    }

    /// The lines of NCCL's table for Blackwell, one of each.
    #[test]
    fn the_largest_chunk_follows_the_nics() {
        let version = "2.30.7".parse().unwrap();
        let some = Place::named("dgx_h100_8x400g.p8.n2").unwrap().communicator().unwrap();
        let graph = |nic: f32, far: PathType| Graph {
            inter: Gbps(nic),
            type_inter: far,
            ..Graph::default()
        };
        for (nodes, per_node, nic, path, kib) in [
            (2, 4, 48.0, PathType::Pxb, 256),
            (2, 8, 48.0, PathType::Pxb, 64),
            (2, 8, 48.0, PathType::Phb, 128),
            (2, 8, 96.0, PathType::Pxb, 128),
            (2, 16, 96.0, PathType::Pxb, 64),
            (4, 8, 96.0, PathType::Pxb, 256),
            (4, 16, 96.0, PathType::Pxb, 128),
            (4, 32, 96.0, PathType::Pxb, 64),
            (4, 8, 48.0, PathType::Pxb, 64),
            (4, 8, 48.0, PathType::Phb, 128),
            (2, 8, 24.0, PathType::Pxb, 128),
            (4, 8, 24.0, PathType::Pxb, 64),
        ] {
            let comm = Communicator {
                ranks: nodes * per_node,
                nodes,
                min_cc: 100,
                ring: graph(nic, path),
                tree: graph(nic, path),
                nvls_graph: graph(nic, path),
                ..some
            };
            let at = format!("{nodes} nodes of {per_node}, {nic} GB/s, {}", path.name());
            assert_eq!(largest(version, &comm), kib << 10, "{at}");
        }
    }
}

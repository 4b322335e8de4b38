//! What NCCL runs where its tuner does not choose: a send and a receive for every block.
//!
//! `ncclAlltoAll`, `ncclGather` and `ncclScatter` (2.28) append such tasks, as nccl-tests and PyTorch do
//! by grouped calls on older releases. The order of peers is fixed when a communicator is made: groups of
//! up to 8 ranks of a node after one another, the own node first.
//!
//! Source: NVIDIA/nccl v2.30.7-1, `src/enqueue.cc` (`taskAppend`), `src/init.cc` (`ncclP2pSchedule`).
//! Not covered: copies by the copy engines of one node, between windows that a program registers.

use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::Bytes;
use crate::library::nccl::Version;
use crate::library::{Call, Choice, Meta, Policy, Runs};
use crate::model::algorithm::{Library, Reason};

/// NCCL's kernel for it, as traces show it.
const NAME: &str = "SendRecv";

/// Whether NCCL sends and receives for this collective, and its tuner has no choice.
pub(crate) fn sends(collective: Collective) -> bool {
    algorithm(collective, false).is_some()
}

/// What that is here, over `several` nodes of several ranks or not; `None` if the tuner chooses.
pub(in crate::library) fn algorithm(collective: Collective, several: bool) -> Option<&'static str> {
    Some(match collective {
        Collective::AllToAll if several => "pairwise-by-tier",
        Collective::AllToAll => "pairwise",
        Collective::Gather | Collective::Scatter => "flat",
        Collective::SendRecv => "p2p",
        _ => return None,
    })
}

/// What runs for a collective that [`sends`]; `None` for others.
pub(in crate::library) fn choice(call: &Call) -> Option<Choice> {
    let algorithm = algorithm(call.collective, call.is_tiered())?;
    let rule = match call.collective {
        Collective::SendRecv => "any size: one message",
        Collective::AllToAll => "any size: a send and a receive with every peer, near ones first",
        _ => "any size: a message between the root and every rank",
    };
    Some(Choice::new(NAME, rule, Runs::whole(call.collective, call.ranks, algorithm)))
}

/// NCCL has one collective less.
pub(super) fn no_barrier() -> Error {
    Error::unsupported("NCCL has no barrier").help("programs call an all-reduce of one element")
}

/// Channels of a communicator for messages, and of one message at most, between GPUs behind NVSwitches.
const CHANNELS: u32 = 32;
/// A channel's part of a message on one node, at least and at most: an eighth of a chunk and 32 of them.
const PART: std::ops::RangeInclusive<u64> = (64 << 10)..=(16 << 20);

/// The channels of a message of `size` bytes between GPUs of one node behind NVSwitches, in a communicator
/// of so many ranks (`addP2pToPlan`): each rank's share of all channels, more where parts would be too large.
#[must_use]
pub(crate) fn channels(ranks: u32, size: Bytes) -> u32 {
    let mut share = CHANNELS;
    while share > 1 && u64::from(share) * u64::from(ranks) > u64::from(CHANNELS) {
        share /= 2;
    }
    let parts = size.0.div_ceil(*PART.start()).clamp(1, u64::from(share));
    let mut channels = parts as u32;
    while channels <= CHANNELS / 2 && size.0.div_ceil(u64::from(channels)) > *PART.end() {
        channels *= 2;
    }
    channels
}

/// NCCL's sends and receives, on a machine whose graphs may be unknown.
pub(crate) struct PointToPoint {
    meta: Meta,
    /// Why the tuner's choices are not known.
    tuner: Error,
}

impl PointToPoint {
    pub(crate) fn new(version: Version, tuner: Error) -> Self {
        let meta = Meta {
            id: version.policy().to_owned(),
            library: Some(Library::Nccl),
            title: format!("NCCL {version}'s sends and receives, which do not depend on the size"),
            counts: "nothing: no rule depends on the size".to_owned(),
            source: format!("NVIDIA/nccl v{version}-1, src/enqueue.cc, src/init.cc"),
        };
        Self { meta, tuner }
    }
}

impl Policy for PointToPoint {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn choose(&self, call: &Call) -> Result<Choice> {
        choice(call).ok_or_else(|| match call.collective {
            Collective::Barrier => no_barrier(),
            _ => self.tuner.clone(),
        })
    }

    fn force(&self, call: &Call, _: &str) -> std::result::Result<String, Reason> {
        Err(unforced(call.collective))
    }
}

/// Why nothing can be forced where NCCL has no choice, and where its choice is not known.
pub(super) const ALWAYS: Reason = Reason::new("NCCL sends and receives, whatever is set");
const UNKNOWN: Reason = Reason::new("NCCL's graphs are not known");

/// Why nothing can be forced without graphs.
pub(super) fn unforced(collective: Collective) -> Reason {
    if sends(collective) { ALWAYS } else { UNKNOWN }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times of `sendrecv_perf` on eight H100 (github.com/mit-orcd/orcd-benchmarks, NCCL 2.29.2): 822 µs for
    /// 64 MiB, 898 µs for 256 MiB; and on two B200: 222 and 794 µs. A channel carries about 20 GB/s.
    #[test]
    fn channels_double_where_parts_are_too_large() {
        let of = |ranks, mib: u64| channels(ranks, Bytes(mib << 20));
        assert_eq!([of(8, 1), of(8, 64), of(8, 128), of(8, 256), of(8, 1024)], [4, 4, 8, 16, 32]);
        assert_eq!([of(2, 1), of(2, 64), of(2, 256), of(2, 1024)], [16, 16, 16, 32]);
        assert_eq!([channels(2, Bytes(1)), channels(72, Bytes(1 << 20))], [1, 1]);
    }
}

//! Pipelined chains: broadcast, and reduce in the other direction.
//!
//! ```text
//!   round      0     1     2     3        N = 3, P = 3: the segment that each rank sends
//!   rank 0 →   0     1     2
//!   rank 1 →         0     1     2
//! ```
//!
//! Segment s leaves the rank at place i in round s + i. Places count from the root in a broadcast
//! and from the far end in a reduce.

use super::{Endpoint, Frame, Op, Run, Schedule, Sends};
use crate::base::collective::Collective;

/// Ranks 0, 1, …, N − 1 in a row, rank 0 the root.
#[derive(Debug, Clone, Copy)]
pub struct Chain {
    collective: Collective,
    ranks: u32,
    segments: u32,
}

impl Chain {
    /// A broadcast or reduce in `segments` segments, at least one;
    /// [`verify`](super::verify()) refuses other collectives.
    #[must_use]
    pub fn new(collective: Collective, ranks: u32, segments: u32) -> Self {
        Self { collective, ranks, segments: segments.max(1) }
    }
}

impl Schedule for Chain {
    fn frame(&self) -> Frame {
        let rounds = match self.ranks {
            0 | 1 => 0,
            n => u64::from(n) + u64::from(self.segments) - 2,
        };
        let frame = Frame::new(self.collective, self.ranks, self.segments, rounds).in_rank_order();
        // The earlier segment, farther down the chain, goes first.
        Frame { last_first: self.collective == Collective::Broadcast, ..frame }
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        let last = self.ranks - 1;
        let (place, op) = match self.collective {
            Collective::Reduce => (last - rank, Op::Reduce),
            _ => (rank, Op::Copy),
        };
        if place == last {
            return;
        }
        if let Some(segment) = segment(round, place.into(), self.segments) {
            let to = if op == Op::Reduce { rank - 1 } else { rank + 1 };
            out.push(Endpoint::Rank(to), op, [Run::one(segment)]);
        }
    }
}

/// The segment `delay` rounds after segment `round`, if it is one of `segments`.
pub(super) fn segment(round: u64, delay: u64, segments: u32) -> Option<u32> {
    let segment = u32::try_from(round.checked_sub(delay)?).ok()?;
    (segment < segments).then_some(segment)
}

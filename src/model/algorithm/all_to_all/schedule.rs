//! The schedules of the all-to-alls: who sends which blocks in which round.
//!
//! ```text
//!   ring relay, N = 4, what rank 0 sends to the right; ab is the block of a for b
//!   aggregated    01 02     31
//!   chunk         01        02        31
//! ```

use crate::base::collective::Collective::AllToAll;
use crate::model::algorithm::rounds::{back, on};
use crate::model::formula::{Relay, Tie};
use crate::model::schedule::{Endpoint, Frame, Op, Run, Schedule, Sends};

/// The order in which a rank sends its blocks to their destinations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// In round t to the rank t + 1 higher.
    Shifts,
    /// In round t to the rank's own number xor t + 1.
    Pairs,
    /// All in one round.
    AtOnce,
}

/// Every block goes straight to its rank.
#[derive(Debug, Clone, Copy)]
pub(super) struct Posted {
    ranks: u32,
    order: Order,
}

impl Posted {
    /// `None` where there are too many blocks to number.
    pub(super) fn new(ranks: u32, order: Order) -> Option<Self> {
        ranks.checked_mul(ranks)?;
        Some(Self { ranks, order })
    }
}

impl Schedule for Posted {
    fn frame(&self) -> Frame {
        let others = u64::from(self.ranks).saturating_sub(1);
        let rounds = if self.order == Order::AtOnce { others.min(1) } else { others };
        let frame = Frame::new(AllToAll, self.ranks, self.ranks, rounds);
        if self.order == Order::Pairs { frame } else { frame.turning() }
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        let n = self.ranks;
        // Rounds are fewer than ranks.
        let t = round as u32 + 1;
        let mut post = |to| out.push(Endpoint::Rank(to), Op::Copy, [Run::one(rank * n + to)]);
        match self.order {
            Order::Shifts => post(on(rank, t, n)),
            Order::Pairs => post(rank ^ t),
            Order::AtOnce => (1..n).for_each(|offset| post(on(rank, offset, n))),
        }
    }
}

/// Every block travels the shorter way around a ring, forwarded by each rank on it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Relayed {
    ranks: u32,
    style: Relay,
    /// The parts of a block: 2 where blocks with two equally long ways are split between them.
    pieces: u32,
}

impl Relayed {
    /// `None` where there are too many parts of blocks to number.
    pub(super) fn new(ranks: u32, style: Relay, tie: Tie) -> Option<Self> {
        let pieces = if ranks.is_multiple_of(2) && tie == Tie::Split { 2 } else { 1 };
        ranks.checked_mul(ranks)?.checked_mul(pieces)?;
        Some(Self { ranks, style, pieces })
    }
}

impl Schedule for Relayed {
    fn frame(&self) -> Frame {
        let farthest = u64::from(self.ranks / 2);
        let rounds = match self.style {
            Relay::Aggregated => farthest,
            Relay::Chunk => farthest * (farthest + 1) / 2,
        };
        Frame::new(AllToAll, self.ranks, self.ranks * self.pieces, rounds).turning()
    }

    /// Blocks that have travelled `come` ranks and are destined for ranks `near` … `far` from their
    /// source.
    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        let (n, pieces) = (self.ranks, self.pieces);
        // Neither hops nor distances exceed the number of ranks.
        let (come, near, far) = match self.style {
            Relay::Aggregated => (round as u32, round as u32 + 1, n / 2),
            Relay::Chunk => {
                let distance = (8 * round + 1).isqrt().div_ceil(2);
                let come = round - distance * (distance - 1) / 2;
                (come as u32, distance as u32, distance as u32)
            }
        };
        let parts = n * pieces;
        let mut pass = |to, source, first, len| {
            let runs = Run::around(first, len, parts);
            let runs = runs.map(|run| Run { start: source * parts + run.start, ..run });
            out.push(Endpoint::Rank(to), Op::Copy, runs);
        };
        // A tie goes right; if split, its first half goes right and the second left.
        let len = (far + 1 - near) * pieces;
        let tie = u32::from(2 * far == n);
        let source = back(rank, come, n);
        pass(on(rank, 1, n), source, on(source, near, n) * pieces, len - tie * (pieces - 1));
        let source = on(rank, come, n);
        let first = back(source, far, n) * pieces + tie;
        if len > tie {
            pass(back(rank, 1, n), source, first, len - tie);
        }
    }
}

/// All blocks except the rank's own go up in one message; all blocks for a rank come down in one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Switched {
    pub ranks: u32,
}

impl Schedule for Switched {
    fn frame(&self) -> Frame {
        let rounds = if self.ranks > 1 { 2 } else { 0 };
        Frame { switches: 1, ..Frame::new(AllToAll, self.ranks, self.ranks, rounds) }
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let n = self.ranks;
        match (round, from) {
            (0, Endpoint::Rank(rank)) => {
                let around = Run::around(rank + 1, n - 1, n);
                let blocks = around.map(|run| Run { start: rank * n + run.start, ..run });
                out.push(Endpoint::Switch(0), Op::Copy, blocks);
            }
            (1, Endpoint::Switch(_)) => {
                for to in 0..n {
                    let senders = (0..n).filter(|&sender| sender != to);
                    let blocks = senders.map(|sender| Run::one(sender * n + to));
                    out.push(Endpoint::Rank(to), Op::Copy, blocks);
                }
            }
            _ => {}
        }
    }
}

//! Ring reduce-scatter, all-gather and all-reduce.
//!
//! ```text
//!   round      0     1     2     3     4     5        N = 4: the chunk that each rank sends
//!   rank 0 →   0     3     2     1     0     3
//!   rank 1 →   1     0     3     2     1     0
//!   rank 2 →   2     1     0     3     2     1
//!   rank 3 →   3     2     1     0     3     2
//!              ╰── add: RS ──╯     ╰─ store: AG ─╯
//! ```
//!
//! One rule gives all three: in round t rank i sends chunk i − t to i + 1. The first N − 1 rounds
//! are the reduce-scatter, after which rank i owns chunk i + 1; the next N − 1 are the all-gather.

use super::{Endpoint, Frame, Op, Run, Schedule, Sends, modulo};
use crate::base::collective::Collective;

/// A ring of N ranks, each sending one chunk of M/N to its right neighbour in every round.
#[derive(Debug, Clone, Copy)]
pub struct Ring {
    collective: Collective,
    ranks: u32,
}

impl Ring {
    /// A reduce-scatter, all-gather or all-reduce; [`verify`](super::verify()) refuses others.
    #[must_use]
    pub fn new(collective: Collective, ranks: u32) -> Self {
        Self { collective, ranks }
    }

    /// N − 1, the rounds of one pass around the ring.
    fn others(self) -> u64 {
        u64::from(self.ranks).saturating_sub(1)
    }
}

impl Schedule for Ring {
    fn frame(&self) -> Frame {
        let passes = if self.collective == Collective::AllReduce { 2 } else { 1 };
        let rounds = passes * self.others();
        Frame::new(self.collective, self.ranks, self.ranks, rounds).turning()
    }

    /// Rank i starts the all-gather with the chunk with which it ends the reduce-scatter, i + 1.
    fn owner(&self, chunk: u32) -> u32 {
        modulo(u64::from(chunk) + self.others(), self.ranks)
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        let skipped = if self.collective == Collective::AllGather { self.others() } else { 0 };
        let step = round + skipped;
        let op = if step < self.others() { Op::Reduce } else { Op::Copy };
        let back = modulo(step, self.ranks);
        let chunk = if rank < back { rank + (self.ranks - back) } else { rank - back };
        let right = if rank + 1 == self.ranks { 0 } else { rank + 1 };
        out.push(Endpoint::Rank(right), op, [Run::one(chunk)]);
    }
}

//! The pipelined broadcast and reduce as explicit schedules: on a circulant graph and on a hypercube.

use super::{receive_schedule, skips};
use crate::base::collective::Collective::{self, Reduce};
use crate::model::schedule::{Endpoint, Frame, Op, Run, Schedule, Sends, modulo};

/// Träff's broadcast of P blocks, and its reversal, the reduce.
#[derive(Debug, Clone)]
pub(super) struct Blocks {
    collective: Collective,
    ranks: u32,
    segments: u32,
    skips: Vec<u32>,
    /// By rank: the block received in each round, less the number of past rounds.
    receives: Vec<Vec<i64>>,
    /// Rounds left out at the start, so that the last block comes in the last of ⌈lg N⌉ rounds.
    first: u64,
}

impl Blocks {
    /// A broadcast or reduce of `segments` blocks.
    pub(super) fn new(collective: Collective, ranks: u32, segments: u32) -> Self {
        let skips = skips(ranks);
        let receives = (0..ranks).map(|rank| receive_schedule(ranks, &skips, rank)).collect();
        let period = skips.len().max(1) as u64;
        let first = (period - u64::from(segments - 1) % period) % period;
        Self { collective, ranks, segments, skips, receives, first }
    }

    /// The block that `rank`, not the root, receives in the k-th round of turn `turn` of a
    /// broadcast.
    fn arriving(&self, rank: u32, k: usize, turn: u64) -> Option<u32> {
        let received = self.receives.get(rank as usize).filter(|_| rank > 0)?;
        let gone = turn * self.skips.len() as u64;
        let block = (received[k] + gone as i64).checked_sub(self.first as i64)?;
        u32::try_from(block).ok().map(|block| block.min(self.segments - 1))
    }
}

impl Schedule for Blocks {
    fn frame(&self) -> Frame {
        let rounds = match self.skips.len() as u64 {
            0 => 0,
            q => q + u64::from(self.segments) - 1,
        };
        Frame::new(self.collective, self.ranks, self.segments, rounds)
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        let backwards = self.collective == Reduce;
        let round = self.first + if backwards { self.rounds() - 1 - round } else { round };
        let q = self.skips.len();
        let (k, turn) = ((round % q as u64) as usize, round / q as u64);
        let (skip, n) = (u64::from(self.skips[k]), u64::from(self.ranks));
        if backwards {
            let Some(block) = self.arriving(rank, k, turn) else { return };
            let to = modulo(u64::from(rank) + n - skip, self.ranks);
            out.push(Endpoint::Rank(to), Op::Reduce, [Run::one(block)]);
        } else {
            let to = modulo(u64::from(rank) + skip, self.ranks);
            let Some(block) = self.arriving(to, k, turn) else { return };
            out.push(Endpoint::Rank(to), Op::Copy, [Run::one(block)]);
        }
    }
}

/// The broadcast of P blocks on a hypercube of d dimensions, and its reversal, the reduce.
///
/// Block b leaves the root in round b, and its holders double in each of the next d − 1 rounds. So
/// the block a rank received last is that of the oldest of the last d rounds whose dimension is one
/// of its set bits. The rank forwards that block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hypercube {
    collective: Collective,
    ranks: u32,
    segments: u32,
}

impl Hypercube {
    /// A broadcast or reduce of `segments` blocks over a power of two of ranks.
    pub(super) fn new(collective: Collective, ranks: u32, segments: u32) -> Self {
        Self { collective, ranks, segments }
    }

    fn dimensions(self) -> u32 {
        self.ranks.trailing_zeros()
    }

    /// The block that `rank` would forward in `round` of a broadcast.
    fn newest(self, rank: u32, round: u64) -> Option<u32> {
        let d = self.dimensions();
        // The bits of the last d rounds, oldest first; the root has the block of this one.
        let twice = u64::from(rank) << d | u64::from(rank);
        let later = (twice >> modulo(round, d)).trailing_zeros().min(d);
        let block = (round + u64::from(later)).checked_sub(d.into())?;
        Some(u32::try_from(block).map_or(self.segments - 1, |block| block.min(self.segments - 1)))
    }
}

impl Schedule for Hypercube {
    fn frame(&self) -> Frame {
        let rounds = match self.ranks {
            0 | 1 => 0,
            _ => u64::from(self.dimensions()) + u64::from(self.segments) - 1,
        };
        Frame::new(self.collective, self.ranks, self.segments, rounds)
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        let backwards = self.collective == Reduce;
        let round = if backwards { self.rounds() - 1 - round } else { round };
        let peer = rank ^ (1 << modulo(round, self.dimensions()));
        let (giver, taker) = if backwards { (peer, rank) } else { (rank, peer) };
        let Some(block) = self.newest(giver, round) else { return };
        if taker > 0 && self.newest(taker, round) != Some(block) {
            let op = if backwards { Op::Reduce } else { Op::Copy };
            out.push(Endpoint::Rank(peer), op, [Run::one(block)]);
        }
    }
}

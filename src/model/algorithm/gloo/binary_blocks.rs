//! The schedule of Gloo's halving-doubling over binary blocks.
//!
//! ```text
//!   N = 7        0 1 2 3   4 5   6        chunks that each rank is left with
//!   halved       0 2 1 3   01 23 0123
//!   handed over              ◄── ──       6 to 4 and 5, then each of them to two of 0 … 3
//!   handed back              ──► ──►      and the sums the same ways back
//! ```
//!
//! All blocks halve from round 0 on; each transfer of sums between two blocks is one round; all
//! blocks start to double in the same round. There are as many chunks as ranks in the largest
//! block.

use super::blocks;
use crate::base::collective::Collective::AllReduce;
use crate::model::formula::floor_lg;
use crate::model::schedule::digits::{Order, Shares};
use crate::model::schedule::{Endpoint, Frame, Op, Run, Schedule, Sends};

/// The all-reduce over N ranks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Blocks {
    ranks: u32,
}

/// One of the blocks, the largest first.
#[derive(Debug, Clone, Copy)]
struct Block {
    /// Its place among the blocks.
    index: u64,
    first: u32,
    size: u32,
}

impl Block {
    fn shares(self) -> Shares {
        Shares::new(AllReduce, self.size, 2, Order::Near)
    }

    /// The part of `chunks` that its rank `local` has after halving.
    fn share(self, local: u32, chunks: u32) -> Run {
        let len = chunks / self.size;
        Run { start: self.shares().chunk(local) * len, len }
    }
}

impl Blocks {
    pub(super) fn new(ranks: u32) -> Self {
        Self { ranks }
    }

    fn blocks(self) -> impl Iterator<Item = Block> {
        blocks(self.ranks.into()).zip(0..).scan(0, |next, (size, index)| {
            // Sizes add up to N, a u32.
            let block = Block { index, first: *next, size: size as u32 };
            *next += block.size;
            Some(block)
        })
    }

    /// Steps in which the largest block halves.
    fn levels(self) -> u64 {
        floor_lg(self.ranks).into()
    }

    /// Transfers of sums from one block to the next larger.
    fn hand_overs(self) -> u64 {
        u64::from(self.ranks.count_ones()).saturating_sub(1)
    }

    /// Ranks in the largest block, and chunks.
    fn largest(self) -> u32 {
        1 << floor_lg(self.ranks)
    }
}

impl Schedule for Blocks {
    fn frame(&self) -> Frame {
        let rounds = 2 * (self.levels() + self.hand_overs());
        let frame = Frame::new(AllReduce, self.ranks, self.largest(), rounds).in_rank_order();
        Frame { turns: self.ranks <= 2, ..frame }
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        let (parts, levels, overs) = (self.largest(), self.levels(), self.hand_overs());
        let Some(block) = self.blocks().find(|b| rank - b.first < b.size) else { return };
        let local = rank - block.first;
        let steps = u64::from(floor_lg(block.size));
        let doubling = levels + 2 * overs;
        // Inside the block, on chunks of the size that the block divides the vector into.
        let exchange = match round.checked_sub(doubling) {
            Some(step) => Some(steps + step).filter(|&step| step < 2 * steps),
            None => Some(round).filter(|&step| step < steps),
        };
        if let Some(step) = exchange {
            let mut plain = Sends::default();
            block.shares().sends(step, Endpoint::Rank(local), &mut plain);
            let each = parts / block.size;
            for message in plain.iter() {
                let Endpoint::Rank(to) = message.to else { continue };
                let runs = message.runs.iter();
                let runs = runs.map(|run| Run { start: run.start * each, len: run.len * each });
                out.push(Endpoint::Rank(block.first + to), message.op, runs);
            }
            return;
        }
        // The smallest block sends its sums first, and gets results back last.
        let over = levels + overs - block.index;
        let back = levels + overs + block.index;
        for other in self.blocks() {
            if other.index + 1 == block.index && round == over {
                for to in (local..other.size).step_by(block.size as usize) {
                    let share = other.share(to, parts);
                    out.push(Endpoint::Rank(other.first + to), Op::Reduce, [share]);
                }
            } else if other.index == block.index + 1 && round == back {
                let share = block.share(local, parts);
                out.push(Endpoint::Rank(other.first + local % other.size), Op::Copy, [share]);
            }
        }
    }
}

//! Binomial trees: broadcast, reduce, scatter, gather, and the all-reduce made of two.
//!
//! ```text
//!   broadcast, P = 1          rounds of segment s, P > 1         scatter, N = 5
//!   round 0   0 ─► 1          0 ─┬─► 1   s                       round 0   0 ─[4]──► 4
//!   round 1   0 ─► 2  1 ─► 3     ├─► 2   s ─── 3   s + 1         round 1   0 ─[2 3]► 2
//!   round 2   0 ─► 4             └─► 4   s                       round 2   0 ─[1]──► 1  2 ─[3]► 3
//! ```
//!
//! The parent of rank r is r without its highest bit, so its depth is the number of its bits and
//! the tree is ⌊lg N⌋ deep. Reduce and gather are the same trees in reverse. In the scatter, and in
//! order, the parent of r is r without its *lowest* bit: its subtree, and blocks, are then
//! consecutive.

use super::chain::segment;
use super::{Endpoint, Frame, Op, Run, Schedule, Sends};
use crate::base::collective::Collective;
use crate::model::formula::{ceil_lg, floor_lg};

/// Which rank is below which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edges {
    /// The parent is the rank without its highest digit other than 0: a broadcast reaches the nearest
    /// ranks first.
    NearFirst,
    /// Without its lowest one: every subtree is a range of ranks, and the largest are reached first.
    InOrder,
}

/// Broadcast or reduce of whole vectors, rank 0 the root.
///
/// With one segment, each round uses the edges of one length: ⌈lg N⌉ rounds on one port. With more, a
/// rank sends a segment to all its children in the round after it arrived: ⌊lg N⌋ + P − 1 rounds if
/// there are as many ports as children. On one port the P·⌈lg N⌉ messages of the root still leave
/// back to back, but only without a barrier. With a barrier, small subtrees wait for the root's
/// last child in every round, and [`count`](super::count()) returns more than P·⌈lg N⌉.
#[derive(Debug, Clone, Copy)]
pub struct Tree {
    collective: Collective,
    ranks: u32,
    segments: u32,
    edges: Edges,
}

impl Tree {
    /// A broadcast or reduce in `segments` segments, at least one;
    /// [`verify`](super::verify()) refuses other collectives.
    #[must_use]
    pub fn new(collective: Collective, ranks: u32, segments: u32, edges: Edges) -> Self {
        Self { collective, ranks, segments: segments.max(1), edges }
    }

    /// The time of `rank` in the pipeline: a broadcast flows down, a reduce flows up.
    fn segment(self, round: u64, rank: u32) -> Option<u32> {
        let delay = match self.collective {
            Collective::Reduce => floor_lg(self.ranks) - rank.count_ones(),
            _ => rank.count_ones(),
        };
        segment(round, delay.into(), self.segments)
    }
}

impl Schedule for Tree {
    fn frame(&self) -> Frame {
        let rounds = match (self.ranks, self.segments) {
            (0 | 1, _) => 0,
            (n, 1) => ceil_lg(n).into(),
            (n, p) => u64::from(floor_lg(n)) + u64::from(p) - 1,
        };
        Frame::new(self.collective, self.ranks, self.segments, rounds)
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        let reduces = self.collective == Collective::Reduce;
        let grows = reduces == (self.edges == Edges::InOrder);
        let length = if grows { round } else { self.rounds().saturating_sub(1 + round) };
        match (self.segments, reduces) {
            (1, false) => down(self.edges, rank, length, self.ranks, out),
            (1, true) => up(self.edges, rank, length, out),
            (_, false) => {
                let Some(segment) = self.segment(round, rank) else { return };
                for child in children(self.edges, rank, self.ranks) {
                    out.push(Endpoint::Rank(child), Op::Copy, [Run::one(segment)]);
                }
            }
            (_, true) => {
                let Some(parent) = parent(self.edges, rank) else { return };
                let Some(segment) = self.segment(round, rank) else { return };
                out.push(Endpoint::Rank(parent), Op::Reduce, [Run::one(segment)]);
            }
        }
    }
}

/// A reduce to rank 0 and a broadcast from it, of whole vectors.
#[derive(Debug, Clone, Copy)]
pub struct Both {
    ranks: u32,
}

impl Both {
    /// The all-reduce over `ranks` ranks.
    #[must_use]
    pub fn new(ranks: u32) -> Self {
        Self { ranks }
    }

    fn depth(self) -> u64 {
        ceil_lg(self.ranks).into()
    }
}

impl Schedule for Both {
    fn frame(&self) -> Frame {
        Frame::new(Collective::AllReduce, self.ranks, 1, 2 * self.depth())
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        match round.checked_sub(self.depth()) {
            None => up(Edges::NearFirst, rank, self.depth() - 1 - round, out),
            Some(k) => down(Edges::NearFirst, rank, k, self.ranks, out),
        }
    }
}

/// Scatter or gather of N blocks, rank 0 the root.
#[derive(Debug, Clone, Copy)]
pub struct Halving {
    collective: Collective,
    ranks: u32,
}

impl Halving {
    /// A scatter or gather; [`verify`](super::verify()) refuses others.
    #[must_use]
    pub fn new(collective: Collective, ranks: u32) -> Self {
        Self { collective, ranks }
    }
}

impl Schedule for Halving {
    fn frame(&self) -> Frame {
        Frame::new(self.collective, self.ranks, self.ranks, ceil_lg(self.ranks).into())
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        let gathers = self.collective == Collective::Gather;
        // The distance over which blocks are sent: it grows in a gather.
        let k = if gathers { round } else { self.rounds() - 1 - round };
        let distance = 1 << k;
        let upper = if gathers { Some(rank) } else { rank.checked_add(distance) };
        let is_upper = |&r: &u32| r < self.ranks && u64::from(r.trailing_zeros()) == k;
        let Some(upper) = upper.filter(is_upper) else { return };
        let blocks = Run { start: upper, len: distance.min(self.ranks - upper) };
        let to = if gathers { upper - distance } else { upper };
        out.push(Endpoint::Rank(to), Op::Copy, [blocks]);
    }
}

/// The sends of `rank` down the edges of length 2^k.
fn down(edges: Edges, rank: u32, k: u64, ranks: u32, out: &mut Sends) {
    if let Some(child) = children(edges, rank, ranks).find(|c| u64::from(c - rank) == 1 << k) {
        out.push(Endpoint::Rank(child), Op::Copy, [Run::one(0)]);
    }
}

/// The sends of `rank` up the edges of length 2^k.
fn up(edges: Edges, rank: u32, k: u64, out: &mut Sends) {
    if let Some(parent) = parent(edges, rank).filter(|p| u64::from(rank - p) == 1 << k) {
        out.push(Endpoint::Rank(parent), Op::Reduce, [Run::one(0)]);
    }
}

/// `rank` without its highest bit, in order without its lowest; the root has none.
fn parent(edges: Edges, rank: u32) -> Option<u32> {
    match edges {
        Edges::NearFirst => rank.checked_ilog2().map(|k| rank - (1 << k)),
        Edges::InOrder => Some(rank & rank.checked_sub(1)?),
    }
}

/// `rank` with one more bit, below `ranks`, the children with the largest subtrees first: above its
/// highest, nearest first; in order below its lowest, farthest first.
fn children(edges: Edges, rank: u32, ranks: u32) -> impl Iterator<Item = u32> {
    let child = move |k: u32| rank.checked_add(1 << k).filter(|&c| c < ranks);
    let (from, below) = match edges {
        Edges::NearFirst => (u32::BITS - rank.leading_zeros(), u32::BITS),
        Edges::InOrder => (0, rank.trailing_zeros()),
    };
    let turned = move |k: u32| if edges == Edges::InOrder { from + below - 1 - k } else { k };
    (from..below).filter_map(move |k| child(turned(k)))
}

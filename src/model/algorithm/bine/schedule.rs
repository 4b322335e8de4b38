//! The schedules of Bine trees, over the partners of Swing.
//!
//! ```text
//!   N = 8     broadcast                 scatter
//!   0 ─► 3                              0 ─[1 2 5 6]─► 1
//!   0 ─► 7    3 ─► 4                    0 ─[4 7]─► 7    1 ─[2 5]─► 2
//!   0 ─► 1    3 ─► 2    7 ─► 6   4 ─► 5 0 ─[3]─► 3   1 ─[6]─► 6   7 ─[4]─► 4   2 ─[5]─► 5
//! ```
//!
//! A broadcast takes the steps farthest first. A scatter takes them nearest first and sends what the
//! partner can still reach; reduce and gather are their reversals. In step s of the all-to-all a
//! rank forwards every block that its partner is nearer to.

use crate::base::collective::Collective::{self, AllToAll, Broadcast, Gather, Reduce, Scatter};
use crate::model::algorithm::swing::schedule::{partner, reach, way};
use crate::model::formula::ceil_lg;
use crate::model::schedule::{Endpoint, Frame, Op, Run, Schedule, Sends};

/// Broadcast, reduce, scatter or gather, rank 0 the root.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tree {
    collective: Collective,
    ranks: u32,
}

impl Tree {
    pub(super) fn new(collective: Collective, ranks: u32) -> Self {
        Self { collective, ranks }
    }
}

impl Schedule for Tree {
    fn frame(&self) -> Frame {
        let parts = match self.collective {
            Scatter | Gather => self.ranks,
            _ => 1,
        };
        Frame::new(self.collective, self.ranks, parts, ceil_lg(self.ranks).into())
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        let n = self.ranks;
        // Below m.
        let round = round as u32;
        let step = match self.collective {
            Broadcast | Gather => ceil_lg(n) - 1 - round,
            _ => round,
        };
        let to = partner(rank, step, n);
        // The steps by which data travel between the root and `rank`, in rising order to it or from
        // it.
        let (down, up) = (way(0, rank, n), way(rank, 0, n));
        let is_last = |way: u32| way.checked_ilog2() == Some(step);
        let all = || [Run::one(0)].into_iter();
        match self.collective {
            Broadcast if up.trailing_zeros() > step => {
                out.push(Endpoint::Rank(to), Op::Copy, all())
            }
            Reduce if up.trailing_zeros() == step => {
                out.push(Endpoint::Rank(to), Op::Reduce, all())
            }
            Scatter if down >> step == 0 => {
                out.push(Endpoint::Rank(to), Op::Copy, reach(to, step, n));
            }
            Gather if is_last(down) => {
                out.push(Endpoint::Rank(to), Op::Copy, reach(rank, step, n));
            }
            _ => {}
        }
    }
}

/// All-to-all in lg N rounds of half of the buffer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Exchange {
    ranks: u32,
}

impl Exchange {
    pub(super) fn new(ranks: u32) -> Self {
        Self { ranks }
    }
}

impl Schedule for Exchange {
    fn frame(&self) -> Frame {
        let frame = Frame::new(AllToAll, self.ranks, self.ranks, ceil_lg(self.ranks).into());
        Frame { turns: self.ranks <= 2, ..frame }
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        let n = self.ranks;
        // Below m.
        let step = round as u32;
        let to = partner(rank, step, n);
        // The ranks whose blocks have arrived here in the steps before.
        let origins = (0..n).filter(|&origin| way(origin, rank, n) >> step == 0);
        let blocks = origins.flat_map(|origin| {
            reach(to, step, n).map(move |run| Run { start: origin * n + run.start, ..run })
        });
        out.push(Endpoint::Rank(to), Op::Copy, blocks);
    }
}

//! Bruck's all-gather.
//!
//! ```text
//!   N = 6       round 0   i ──► i − 1     its own chunk
//!               round 1   i ──► i − 2     i, i + 1
//!               round 2   i ──► i − 4     i, i + 1: the last round completes N
//! ```

use super::{Endpoint, Frame, Op, Run, Schedule, Sends, modulo};
use crate::base::collective::Collective;
use crate::model::formula::ceil_lg;

/// Every rank sends everything it has, its own chunk first, ⌈lg N⌉ times.
#[derive(Debug, Clone, Copy)]
pub struct Gather {
    ranks: u32,
}

impl Gather {
    /// The all-gather over `ranks` ranks.
    #[must_use]
    pub fn new(ranks: u32) -> Self {
        Self { ranks }
    }
}

impl Schedule for Gather {
    fn frame(&self) -> Frame {
        let rounds = ceil_lg(self.ranks).into();
        Frame::new(Collective::AllGather, self.ranks, self.ranks, rounds).turning()
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        let n = self.ranks;
        let back = 1 << round;
        let to = modulo(u64::from(rank) + u64::from(n - back), n);
        out.push(Endpoint::Rank(to), Op::Copy, Run::around(rank, back.min(n - back), n));
    }
}

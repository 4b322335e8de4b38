//! All ranks to all ranks in one round: in an all-gather each rank's own block, in a reduce-scatter
//! each receiver's.

use super::{Endpoint, Frame, Op, Run, Schedule, Sends};
use crate::base::collective::Collective;

/// One round in which every rank sends to every other.
#[derive(Debug, Clone, Copy)]
pub struct Direct {
    collective: Collective,
    ranks: u32,
}

impl Direct {
    /// For an all-gather or a reduce-scatter; `None` for another operation.
    #[must_use]
    pub fn new(collective: Collective, ranks: u32) -> Option<Self> {
        let fits = matches!(collective, Collective::AllGather | Collective::ReduceScatter);
        fits.then_some(Self { collective, ranks })
    }
}

impl Schedule for Direct {
    fn frame(&self) -> Frame {
        Frame::new(self.collective, self.ranks, self.ranks, 1).turning()
    }

    fn sends(&self, _round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        for by in 1..self.ranks {
            let to = (rank + by) % self.ranks;
            let (block, op) = match self.collective {
                Collective::AllGather => (rank, Op::Copy),
                _ => (to, Op::Reduce),
            };
            out.push(Endpoint::Rank(to), op, [Run::one(block)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::schedule::verify;

    #[test]
    fn both_do_what_they_are_for() {
        for ranks in [2, 3, 8] {
            for collective in [Collective::AllGather, Collective::ReduceScatter] {
                verify(&Direct::new(collective, ranks).unwrap()).unwrap();
            }
        }
        assert!(Direct::new(Collective::AllReduce, 4).is_none());
    }
}

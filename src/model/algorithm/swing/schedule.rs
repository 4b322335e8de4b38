//! The schedules of Swing.
//!
//! ```text
//!   N = 8       step 0   0 ◄─► 1   2 ◄─► 3   4 ◄─► 5   6 ◄─► 7
//!               step 1   0 ◄─► 7   1 ◄─► 2   3 ◄─► 4   5 ◄─► 6
//!               step 2   0 ◄─► 3   1 ◄─► 6   2 ◄─► 5   4 ◄─► 7
//!
//!   from 0 to 5 there is one way with rising steps: 0 ─0─► 1 ─1─► 2 ─2─► 5
//! ```
//!
//! In step s of the reduce-scatter a rank sends the chunks of all ranks that its partner can still
//! reach. The difference of two ranks, written in base −2, gives the path from one to the other:
//! neighbouring digits differ where a step is taken.

use super::distance;
use crate::base::collective::Collective::{self, AllGather, AllReduce};
use crate::model::formula::ceil_lg;
use crate::model::schedule::{Endpoint, Frame, Op, Run, Schedule, Sends, modulo};

/// The partner of `rank`, of N = 2^m, in step s.
pub(in crate::model::algorithm) fn partner(rank: u32, s: u32, ranks: u32) -> u32 {
    let away = modulo(distance(s).into(), ranks);
    // Even ranks go up in even steps, odd ranks the other way.
    let up = (rank + s).is_multiple_of(2);
    modulo(u64::from(rank) + u64::from(if up { away } else { ranks - away }), ranks)
}

/// The steps that lead from one rank to another in rising order: bit s is set if step s is taken.
pub(in crate::model::algorithm) fn way(from: u32, to: u32, ranks: u32) -> u32 {
    // An odd number of steps, the first one up, is a number in base −2; an even number of them
    // leads to its negative; from an odd rank both are reversed.
    let up = (from ^ to) & 1 != from & 1;
    let difference = if up { to.wrapping_sub(from) } else { from.wrapping_sub(to) };
    const ODD_DIGITS: u32 = 0xAAAA_AAAA;
    let digits = (difference.wrapping_add(ODD_DIGITS) ^ ODD_DIGITS) & (ranks - 1);
    digits ^ (digits >> 1)
}

/// The ranks that `rank` can reach by steps after s, including itself, as runs.
pub(in crate::model::algorithm) fn reach(
    rank: u32,
    s: u32,
    ranks: u32,
) -> impl Iterator<Item = Run> {
    let mut within = (0..ranks).filter(move |&to| way(rank, to, ranks).trailing_zeros() > s);
    let mut next = within.next();
    std::iter::from_fn(move || {
        let mut run = Run::one(next?);
        next = within.next();
        while next == Some(run.start + run.len) {
            run.len += 1;
            next = within.next();
        }
        Some(run)
    })
}

/// All-reduce of whole vectors.
#[derive(Debug, Clone, Copy)]
pub(super) struct Whole {
    ranks: u32,
}

impl Whole {
    pub(super) fn new(ranks: u32) -> Self {
        Self { ranks }
    }
}

impl Schedule for Whole {
    fn frame(&self) -> Frame {
        let frame = Frame::new(AllReduce, self.ranks, 1, ceil_lg(self.ranks).into());
        Frame { turns: self.ranks <= 2, ..frame }
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        // Below m.
        let to = partner(rank, round as u32, self.ranks);
        out.push(Endpoint::Rank(to), Op::Reduce, [Run::one(0)]);
    }
}

/// Reduce-scatter, all-gather, or both.
#[derive(Debug, Clone, Copy)]
pub(in crate::model::algorithm) struct Shares {
    collective: Collective,
    ranks: u32,
}

impl Shares {
    pub(in crate::model::algorithm) fn new(collective: Collective, ranks: u32) -> Self {
        Self { collective, ranks }
    }
}

impl Schedule for Shares {
    fn frame(&self) -> Frame {
        let passes = if self.collective == AllReduce { 2 } else { 1 };
        let rounds = passes * u64::from(ceil_lg(self.ranks));
        let frame = Frame::new(self.collective, self.ranks, self.ranks, rounds);
        Frame { turns: self.ranks <= 2, ..frame }
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        let steps = ceil_lg(self.ranks);
        let skipped = if self.collective == AllGather { steps } else { 0 };
        // Below 2m.
        let step = round as u32 + skipped;
        if step < steps {
            let to = partner(rank, step, self.ranks);
            out.push(Endpoint::Rank(to), Op::Reduce, reach(to, step, self.ranks));
        } else {
            let step = 2 * steps - 1 - step;
            let to = partner(rank, step, self.ranks);
            out.push(Endpoint::Rank(to), Op::Copy, reach(rank, step, self.ranks));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_lead_there() {
        for ranks in (0..8).map(|m| 1 << m) {
            for (from, to) in (0..ranks).flat_map(|from| (0..ranks).map(move |to| (from, to))) {
                let way = way(from, to, ranks);
                let steps = (0..ceil_lg(ranks)).filter(|s| way & (1 << s) != 0);
                assert_eq!(steps.fold(from, |rank, s| partner(rank, s, ranks)), to, "{from} {to}");
            }
        }
    }
}

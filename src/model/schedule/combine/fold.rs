//! Extends a schedule for a power of two ranks to any number of ranks.

use crate::base::collective::Collective;
use crate::model::formula::floor_lg;
use crate::model::schedule::{Endpoint, Frame, Op, Run, Schedule, Sends};

/// Extends an all-reduce among p = 2^⌊lg N⌋ ranks to N ranks.
///
/// ```text
///   N = 6, p = 4       0 ─► 1   2 ─► 3   4   5       the first N − p pairs add up,
///                           0        1   2   3       one of each goes on as a virtual rank
///                      0 ◄─ 1   2 ◄─ 3   4   5       and hands the result back
/// ```
///
/// Thakur, Rabenseifner, Gropp, IJHPCA 19(1) 2005.
#[derive(Debug, Clone)]
pub struct Fold<S> {
    inner: S,
    /// The frame of the inner schedule, computed once.
    frame: Frame,
    ranks: u32,
    pairs: Pairs,
}

/// How a pair reduces its vectors.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Pairs {
    /// 2i sends all to 2i + 1.
    Whole,
    /// They exchange opposite halves; then 2i sends its half to 2i + 1.
    Halves,
}

/// The number of ranks of the schedule that a [`Fold`] to `ranks` ranks takes, 2^⌊lg N⌋.
#[must_use]
pub fn folded(ranks: u32) -> u32 {
    1 << floor_lg(ranks)
}

/// The number of ranks beyond a power of two, N − 2^⌊lg N⌋, and so of the pairs that fold.
#[must_use]
pub fn surplus(ranks: u32) -> u32 {
    ranks - folded(ranks)
}

impl<S: Schedule> Fold<S> {
    /// Extends `inner`, an all-reduce among [`folded`] ranks without switches, to `ranks` ranks.
    pub fn new(inner: S, ranks: u32) -> Self {
        debug_assert_eq!(inner.collective(), Collective::AllReduce);
        debug_assert_eq!((inner.ranks(), inner.switches()), (folded(ranks), 0));
        let frame = inner.frame();
        Self { inner, frame, ranks, pairs: Pairs::Whole }
    }

    /// The same in which both ranks of a pair add half of the vector, one round longer;
    /// `inner` has an even number of chunks (Rabenseifner, ICCS 2004).
    pub fn halves(inner: S, ranks: u32) -> Self {
        Self { pairs: Pairs::Halves, ..Self::new(inner, ranks) }
    }

    /// N − p.
    fn surplus(&self) -> u32 {
        surplus(self.ranks)
    }

    /// Rounds before those of the inner schedule.
    fn before(&self) -> u64 {
        match (self.surplus(), self.pairs) {
            (0, _) => 0,
            (_, Pairs::Whole) => 1,
            (_, Pairs::Halves) => 2,
        }
    }

    /// The role of `rank` in the inner schedule.
    fn part(&self, rank: u32) -> u32 {
        if rank / 2 < self.surplus() { rank / 2 } else { rank - self.surplus() }
    }

    /// The endpoint that has a role.
    fn actor(&self, part: Endpoint) -> Endpoint {
        let surplus = self.surplus();
        match part {
            Endpoint::Rank(part) if part < surplus => Endpoint::Rank(2 * part + 1),
            Endpoint::Rank(part) => Endpoint::Rank(part + surplus),
            switch @ Endpoint::Switch(_) => switch,
        }
    }

    /// The sends of `rank` in its pair before the inner schedule.
    fn add_up(&self, round: u64, rank: u32, out: &mut Sends) {
        if rank / 2 >= self.surplus() {
            return;
        }
        let parts = self.frame.parts;
        let lower = Run { start: 0, len: parts / 2 };
        let upper = Run { start: parts / 2, len: parts - parts / 2 };
        let (op, run) = match (self.pairs, round, rank % 2) {
            (Pairs::Whole, _, 0) => (Op::Reduce, Run { start: 0, len: parts }),
            (Pairs::Halves, 0, 0) => (Op::Reduce, upper),
            (Pairs::Halves, 0, _) => (Op::Reduce, lower),
            (Pairs::Halves, _, 0) => (Op::Copy, lower),
            _ => return,
        };
        out.push(Endpoint::Rank(rank ^ 1), op, [run]);
    }
}

impl<S: Schedule> Schedule for Fold<S> {
    fn frame(&self) -> Frame {
        let inner = self.frame;
        if self.surplus() == 0 {
            return Frame { ranks: self.ranks, ..inner };
        }
        // Pairs are neighbours, so their sums are in rank order.
        let rounds = self.before() + inner.rounds + 1;
        Frame {
            ranks: self.ranks,
            root: 0,
            rounds,
            turns: false,
            mirrors: false,
            own: None,
            ..inner
        }
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        if self.surplus() == 0 {
            return self.inner.sends(round, from, out);
        }
        let Endpoint::Rank(rank) = from else { return };
        let Some(round) = round.checked_sub(self.before()) else {
            return self.add_up(round, rank, out);
        };
        let paired = rank / 2 < self.surplus();
        if paired && rank.is_multiple_of(2) {
            return;
        }
        if round < self.frame.rounds {
            self.inner.sends(round, Endpoint::Rank(self.part(rank)), out);
            out.rename(|to| self.actor(to));
        } else if paired {
            let all = Run { start: 0, len: self.frame.parts };
            out.push(Endpoint::Rank(rank - 1), Op::Copy, [all]);
        }
    }
}

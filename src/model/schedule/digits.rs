//! Exchanges among ranks that differ in one digit, digit after digit.
//!
//! ```text
//!   N = 4, base 2       near first                     far first
//!   step 0              0 ◄─► 1    2 ◄─► 3             0 ◄─► 2    1 ◄─► 3
//!   step 1              0 ◄─► 2    1 ◄─► 3             0 ◄─► 1    2 ◄─► 3
//!
//!   chunks left to      rank 0    1    2    3          rank 0    1    2    3
//!   after step 0             01   23   01   23              01   01   23   23
//!   after step 1             0    2    1    3               0    1    2    3
//! ```
//!
//! N = B^m. [`Whole`] exchanges whole vectors and adds: recursive doubling and multiplying. In each
//! step [`Shares`] keeps the B-th part of the rest that the rank's digit selects, and sends the
//! others to the ranks with their digits: recursive halving. In reverse, copying, it is recursive
//! doubling; both together are Rabenseifner's all-reduce and bcube.

use super::{Endpoint, Frame, Op, Run, Schedule, Sends};
use crate::base::collective::Collective;

/// The order of the digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Order {
    /// The lowest: neighbours first.
    Near,
    /// The highest: ranks N/B apart first.
    Far,
}

/// Ranks in base B.
#[derive(Debug, Clone, Copy)]
struct Digits {
    ranks: u32,
    base: u32,
    /// m.
    steps: u32,
    order: Order,
}

impl Digits {
    fn new(ranks: u32, base: u32, order: Order) -> Self {
        Self { ranks, base, steps: ranks.checked_ilog(base).unwrap_or(0), order }
    }

    /// The exponent of the digit of `step`.
    fn exponent(self, step: u32) -> u32 {
        match self.order {
            Order::Near => step,
            Order::Far => self.steps - 1 - step,
        }
    }

    /// The value of the digit of `step`.
    fn place(self, step: u32) -> u32 {
        let exponent = self.exponent(step);
        if self.base == 2 { 1 << exponent } else { self.base.pow(exponent) }
    }

    fn digit(self, rank: u32, step: u32) -> u32 {
        match self.base {
            2 => rank >> self.exponent(step) & 1,
            base => rank / self.place(step) % base,
        }
    }

    /// The digits other than that of `rank`, counted upwards from it, and the ranks that have them.
    fn partners(self, rank: u32, step: u32) -> impl Iterator<Item = (u32, u32)> {
        let (own, place) = (self.digit(rank, step), self.place(step));
        let others = (own + 1..self.base).chain(0..own);
        others.map(move |digit| (digit, rank - own * place + digit * place))
    }

    /// With one digit all ranks do the same.
    fn turns(self) -> bool {
        self.steps <= 1
    }
}

/// All-reduce of whole vectors.
#[derive(Debug, Clone, Copy)]
pub struct Whole(Digits);

impl Whole {
    /// The all-reduce over `ranks` ranks, a power of `base` ≥ 2, near first;
    /// [`verify`](super::verify()) refuses others.
    #[must_use]
    pub fn new(ranks: u32, base: u32) -> Self {
        Self(Digits::new(ranks, base, Order::Near))
    }
}

impl Schedule for Whole {
    fn frame(&self) -> Frame {
        let Self(digits) = *self;
        let frame = Frame::new(Collective::AllReduce, digits.ranks, 1, digits.steps.into());
        // With groups of more than two ranks the outer ones are not neighbours.
        let pairs = digits.base == 2;
        Frame { turns: digits.turns(), mirrors: pairs, keeps_order: pairs, ..frame }
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        // Below m.
        if self.0.base == 2 {
            // The other value of one bit.
            let partner = rank ^ self.0.place(round as u32);
            return out.push(Endpoint::Rank(partner), Op::Reduce, [Run::one(0)]);
        }
        for (_, partner) in self.0.partners(rank, round as u32) {
            out.push(Endpoint::Rank(partner), Op::Reduce, [Run::one(0)]);
        }
    }
}

/// Reduce-scatter, all-gather or all-reduce of shares that shrink, or grow, by B in every step.
#[derive(Debug, Clone, Copy)]
pub struct Shares {
    collective: Collective,
    digits: Digits,
}

impl Shares {
    /// A reduce-scatter that takes the digits in `order`, the all-gather that is its reversal, or
    /// the all-reduce of both, over `ranks` ranks, a power of `base` ≥ 2;
    /// [`verify`](super::verify()) refuses others.
    #[must_use]
    pub fn new(collective: Collective, ranks: u32, base: u32, order: Order) -> Self {
        Self { collective, digits: Digits::new(ranks, base, order) }
    }

    /// The chunks that `rank` has left after `steps` steps of the reduce-scatter.
    #[must_use]
    pub fn share(self, rank: u32, steps: u32) -> Run {
        let all = Run { start: 0, len: self.digits.ranks };
        (0..steps).fold(all, |share, step| self.part(share, self.digits.digit(rank, step)))
    }

    /// The part of `share` selected by `digit`.
    fn part(self, share: Run, digit: u32) -> Run {
        let len = share.len / self.digits.base;
        Run { start: share.start + digit * len, len }
    }

    /// The chunk with which `rank` ends the reduce-scatter and starts the all-gather.
    #[must_use]
    pub fn chunk(self, rank: u32) -> u32 {
        self.share(rank, self.digits.steps).start
    }
}

impl Schedule for Shares {
    fn frame(&self) -> Frame {
        let Self { collective, digits } = *self;
        let passes = if collective == Collective::AllReduce { 2 } else { 1 };
        let rounds = passes * u64::from(digits.steps);
        let frame = Frame::new(collective, digits.ranks, digits.ranks, rounds);
        let keeps_order = digits.base == 2 && digits.order == Order::Near;
        Frame { turns: digits.turns(), keeps_order, ..frame }
    }

    /// The rank whose digits, in the order of steps, are those of `chunk` from the highest.
    fn owner(&self, chunk: u32) -> u32 {
        let digits = self.digits;
        let far = Digits { order: Order::Far, ..digits };
        (0..digits.steps).map(|step| far.digit(chunk, step) * digits.place(step)).sum()
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        let steps = self.digits.steps;
        let skipped = if self.collective == Collective::AllGather { steps } else { 0 };
        // Below 2m.
        let step = round as u32 + skipped;
        if step < steps {
            let share = self.share(rank, step);
            for (digit, partner) in self.digits.partners(rank, step) {
                out.push(Endpoint::Rank(partner), Op::Reduce, [self.part(share, digit)]);
            }
        } else {
            let step = 2 * steps - 1 - step;
            let share = self.share(rank, step + 1);
            for (_, partner) in self.digits.partners(rank, step) {
                out.push(Endpoint::Rank(partner), Op::Copy, [share]);
            }
        }
    }
}

//! Closed forms, written once over a number [`Field`].
//!
//! An algorithm states its cost as one generic function. Over `f64` it computes a price in
//! nanoseconds, over exact [`Rational`]s it is proven equal to the schedule, over symbols
//! ([`Expr`]) it prints as text and LaTeX. A cost is always Σ n_α·α + n_β·M/BW + n_γ·M·γ +
//! n_sw·α_sw over its phases. The function returns the coefficients, so the dominant term is known.

mod expr;
mod print;
mod protocol;
mod shape;

use std::ops::{Add, Div, Mul, Sub};

use num_rational::Ratio as Fraction;

pub use expr::{Expr, Function, Links, Named, Rule, Symbol};
pub use print::{Notation, Values};
pub use protocol::Protocol;
pub use shape::{Dims, Form, Params, Ports, Relay, Shape, Tie, Trees};

use crate::base::quantity::Ratio;
use crate::model::algorithm::Algorithm;

/// An exact fraction, used to prove closed forms.
pub type Rational = Fraction<i128>;

/// The parts of a step: fractions of ranks, far below 64 bits. A price needs thousands of them, and
/// half the bits take a quarter of the time.
pub type StepFraction = Fraction<i64>;

/// The numbers that an algorithm computes with: messages, blocks, parts of a vector.
pub trait Number:
    Clone + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self> + 'static
{
    /// An integer.
    fn int(value: i64) -> Self;

    /// A named function of integers whose value is known to be `value`.
    fn call(function: Function, arguments: &[&Self], value: u64) -> Self;
}

/// A number system in which a closed form can be evaluated.
pub trait Field: Number {
    /// A real parameter that a user may set, such as c_real.
    fn parameter(symbol: Symbol, value: Ratio) -> Self;

    /// The cost of another algorithm in this field, for compositions.
    fn cost_of(algorithm: &dyn Algorithm, v: &At<Self>) -> Cost<Self>;

    /// The share of M that the busiest rank of another algorithm sends.
    fn sent_by(algorithm: &dyn Algorithm, v: &At<Self>) -> Self;
}

impl Number for f64 {
    fn int(value: i64) -> Self {
        value as Self
    }

    fn call(_: Function, _: &[&Self], value: u64) -> Self {
        value as Self
    }
}

impl Field for f64 {
    fn parameter(_: Symbol, value: Ratio) -> Self {
        value.0
    }

    fn cost_of(algorithm: &dyn Algorithm, v: &At<Self>) -> Cost<Self> {
        algorithm.price(v)
    }

    fn sent_by(algorithm: &dyn Algorithm, v: &At<Self>) -> Self {
        algorithm.sent(v)
    }
}

impl Number for Rational {
    fn int(value: i64) -> Self {
        Self::from_integer(value.into())
    }

    fn call(_: Function, _: &[&Self], value: u64) -> Self {
        Self::from_integer(value.into())
    }
}

impl Number for StepFraction {
    fn int(value: i64) -> Self {
        Self::from_integer(value)
    }

    /// Such functions take a number of ranks, and are at most twice that.
    fn call(_: Function, _: &[&Self], value: u64) -> Self {
        Self::from_integer(value as i64)
    }
}

// Programs never ask it: some 75 forms would be compiled once more.
#[cfg(any(test, feature = "proof"))]
impl Field for Rational {
    /// Nine decimals, more than any user types.
    fn parameter(_: Symbol, value: Ratio) -> Self {
        Self::new((value.0 * 1e9).round() as i128, 1_000_000_000)
    }

    fn cost_of(algorithm: &dyn Algorithm, v: &At<Self>) -> Cost<Self> {
        algorithm.prove(v)
    }

    fn sent_by(algorithm: &dyn Algorithm, v: &At<Self>) -> Self {
        algorithm.sent_exactly(v)
    }
}

/// The point at which a closed form is evaluated: the concrete [`Shape`], and N and P in the field.
///
/// Branches (is N a power of two? how many ports?) use the shape; arithmetic uses the field.
#[derive(Debug, Clone)]
pub struct At<F> {
    /// N, the number of ranks.
    pub n: F,
    /// P, the number of segments of a pipeline.
    pub p: F,
    /// The number of ranks in an inner domain, for compositions.
    pub g: F,
    /// The concrete question.
    pub shape: Shape,
}

impl<F: Number> At<F> {
    /// The point with plain numbers for N, P and G.
    #[must_use]
    pub fn numbers(shape: Shape) -> Self {
        Self {
            n: F::int(shape.ranks.into()),
            p: F::int(shape.segments().into()),
            g: F::int(shape.group().into()),
            shape,
        }
    }

    /// An integer.
    #[must_use]
    pub fn int(&self, value: impl Into<i64>) -> F {
        F::int(value.into())
    }

    /// N − 1.
    #[must_use]
    pub fn others(&self) -> F {
        self.n.clone() - F::int(1)
    }

    /// (N − 1)/N, the share of a vector that belongs to other ranks.
    #[must_use]
    pub fn others_share(&self) -> F {
        self.others() / self.n.clone()
    }

    /// ⌈lg N⌉.
    #[must_use]
    pub fn ceil_lg(&self) -> F {
        F::call(Function::CeilLg, &[&self.n], ceil_lg(self.shape.ranks).into())
    }

    /// ⌊lg N⌋.
    #[must_use]
    pub fn floor_lg(&self) -> F {
        F::call(Function::FloorLg, &[&self.n], floor_lg(self.shape.ranks).into())
    }

    /// 2^⌊lg N⌋, the ranks that remain after a fold.
    #[must_use]
    pub fn power_below(&self) -> F {
        F::call(Function::PowerBelow, &[&self.n], 1 << floor_lg(self.shape.ranks))
    }

    /// ⌊a/b⌋ of integers, whose value the caller knows.
    #[must_use]
    pub fn floor(&self, ratio: &F, value: u64) -> F {
        F::call(Function::Floor, &[ratio], value)
    }

    /// ⌈a/b⌉ of integers, whose value the caller knows.
    #[must_use]
    pub fn ceil(&self, ratio: &F, value: u64) -> F {
        F::call(Function::Ceil, &[ratio], value)
    }

    /// The same question for other ranks, which a composition asks of its parts.
    #[must_use]
    pub fn with_ranks(&self, n: F, shape: Shape) -> Self {
        Self { n, p: self.p.clone(), g: self.g.clone(), shape }
    }
}

impl At<Expr> {
    /// The symbolic point: N, P and G stay symbols.
    #[must_use]
    pub fn symbols(shape: Shape) -> Self {
        Self {
            n: Expr::symbol(Symbol::N),
            p: Expr::symbol(Symbol::P),
            g: Expr::symbol(Symbol::G),
            shape,
        }
    }
}

/// ⌈lg n⌉; 0 for n ≤ 1.
#[must_use]
pub fn ceil_lg(n: u32) -> u32 {
    u32::BITS - n.saturating_sub(1).leading_zeros()
}

/// ⌊lg n⌋; 0 for n ≤ 1.
#[must_use]
pub fn floor_lg(n: u32) -> u32 {
    n.max(1).ilog2()
}

/// The links that a part of an algorithm runs over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Level {
    /// The links that follow from the placement of the ranks.
    Flat,
    /// Links inside a domain of G ranks, such as a node.
    Inner,
    /// Links between domains.
    Outer,
}

/// The coefficients of one phase: n_α·α + n_β·M/BW + n_γ·M·γ + n_sw·α_sw.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase<F> {
    /// Over which links.
    pub level: Level,
    /// n_α: messages one after another.
    pub alpha: F,
    /// n_β: vectors through the busiest port, one after another.
    pub beta: F,
    /// n_γ: vectors reduced, one after another.
    pub gamma: F,
    /// n_sw: hops through a switch that computes or multicasts.
    pub switch: F,
}

/// The cost of an algorithm: one phase, or up to three over different links.
#[derive(Debug, Clone, PartialEq)]
pub struct Cost<F> {
    first: Phase<F>,
    more: [Option<Phase<F>>; 2],
    /// Concurrent phases, inside and between: if they use different links only the longest counts,
    /// on one port both count.
    beside: [Option<Phase<F>>; 2],
}

impl<F: Field> Cost<F> {
    /// `alpha` messages and `beta` vectors, without reduction.
    #[must_use]
    pub fn new(alpha: F, beta: F) -> Self {
        let first = Phase { level: Level::Flat, alpha, beta, gamma: F::int(0), switch: F::int(0) };
        Self { first, more: [None, None], beside: [None, None] }
    }

    /// `hops` switch hops and `beta` vectors: an in-network collective.
    #[must_use]
    pub fn in_network(hops: F, beta: F) -> Self {
        let mut cost = Self::new(F::int(0), beta);
        cost.first.switch = hops;
        cost
    }

    /// No cost: one rank, or no data and no messages.
    #[must_use]
    pub fn zero() -> Self {
        Self::new(F::int(0), F::int(0))
    }

    /// The same with `gamma` vectors reduced.
    #[must_use]
    pub fn reducing(mut self, gamma: F) -> Self {
        self.first.gamma = gamma;
        self
    }

    /// The same over other links.
    #[must_use]
    pub fn over(mut self, level: Level) -> Self {
        for phase in self.phases_mut() {
            phase.level = level;
        }
        self
    }

    /// The same on a vector that is `share` of the whole.
    #[must_use]
    pub fn on(mut self, share: &F) -> Self {
        for phase in self.phases_mut() {
            phase.beta = phase.beta.clone() * share.clone();
            phase.gamma = phase.gamma.clone() * share.clone();
        }
        self
    }

    /// One cost, then another: phases are kept separate, so each can be shown.
    ///
    /// A cost holds three phases; a fourth is added to the last.
    #[must_use]
    pub fn then(mut self, next: Self) -> Self {
        for phase in next.into_phases() {
            match self.more.iter_mut().find(|p| p.is_none()) {
                Some(slot) => *slot = Some(phase),
                None => {
                    if let [_, Some(last)] = &mut self.more {
                        *last = last.clone().plus(phase);
                    }
                }
            }
        }
        self
    }

    /// The same with the concurrent load of later segments over different links.
    #[must_use]
    pub fn with_beside(self, inside: Phase<F>, between: Phase<F>) -> Self {
        Self { beside: [Some(inside), Some(between)], ..self }
    }

    /// All phases: first the sequential, then the concurrent ones.
    pub fn phases(&self) -> impl Iterator<Item = &Phase<F>> {
        self.in_turn().chain(self.beside())
    }

    /// The sequential phases.
    pub fn in_turn(&self) -> impl Iterator<Item = &Phase<F>> {
        std::iter::once(&self.first).chain(self.more.iter().flatten())
    }

    /// The concurrent phases: the longest counts, if each has its own links.
    pub fn beside(&self) -> impl Iterator<Item = &Phase<F>> {
        self.beside.iter().flatten()
    }

    fn phases_mut(&mut self) -> impl Iterator<Item = &mut Phase<F>> {
        let more = self.more.iter_mut().chain(&mut self.beside);
        std::iter::once(&mut self.first).chain(more.flatten())
    }

    fn into_phases(self) -> impl Iterator<Item = Phase<F>> {
        std::iter::once(self.first).chain(self.more.into_iter().chain(self.beside).flatten())
    }

    /// All phases combined: the view of a machine with equal links everywhere.
    #[inline]
    #[must_use]
    pub fn total(self) -> Phase<F> {
        let Self { first, more: [second, third], beside: [inside, between] } = self;
        let mut sum = Phase { level: Level::Flat, ..first };
        if let Some(phase) = second {
            sum = sum.plus(phase);
        }
        if let Some(phase) = third {
            sum = sum.plus(phase);
        }
        if let Some(phase) = inside {
            sum = sum.plus(phase);
        }
        if let Some(phase) = between {
            sum = sum.plus(phase);
        }
        sum
    }
}

impl<F> From<Phase<F>> for Cost<F> {
    fn from(first: Phase<F>) -> Self {
        Self { first, more: [None, None], beside: [None, None] }
    }
}

impl<F: Field> Phase<F> {
    fn plus(self, other: Self) -> Self {
        Self {
            level: self.level,
            alpha: self.alpha + other.alpha,
            beta: self.beta + other.beta,
            gamma: self.gamma + other.gamma,
            switch: self.switch + other.switch,
        }
    }
}

impl<F: Field> Add for Cost<F> {
    type Output = Self;

    /// Sequential costs over the same links, as one phase.
    fn add(self, other: Self) -> Self {
        let level = self.first.level;
        let mut first = self.total().plus(other.total());
        first.level = level;
        Self { first, more: [None, None], beside: [None, None] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms() {
        let table = [(1, 0, 0), (2, 1, 1), (3, 2, 1), (4, 2, 2), (5, 3, 2), (64, 6, 6), (72, 7, 6)];
        for (n, up, down) in table {
            assert_eq!((ceil_lg(n), floor_lg(n)), (up, down), "{n}");
        }
    }

    #[test]
    fn a_fourth_phase_joins_the_third() {
        let one = || Cost::<f64>::new(1.0, 1.0);
        let cost = one().then(one()).then(one()).then(one());
        assert_eq!(cost.phases().count(), 3);
        assert_eq!(cost.total().alpha, 4.0);
    }

    #[test]
    fn the_total_is_over_no_links_in_particular() {
        let inner = || Cost::<f64>::new(1.0, 1.0).over(Level::Inner);
        assert_eq!(inner().total().level, Level::Flat);
        assert_eq!((inner() + inner()).phases().next().unwrap().level, Level::Inner);
    }
}

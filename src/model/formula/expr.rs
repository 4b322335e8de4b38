//! Symbolic formulas: a closed form evaluated over [`Expr`] gives its own text.

use std::cmp::Ordering;
use std::ops::{Add, Div, Mul, Sub};
use std::rc::Rc;

use num_rational::Ratio as Fraction;

use super::{At, Cost, Field, Number, ceil_lg, floor_lg};
use crate::base::quantity::Ratio;
use crate::model::algorithm::Algorithm;

/// A symbol in a formula.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Symbol {
    /// Ranks.
    N,
    /// Segments of a pipeline.
    P,
    /// Ranks in an inner domain.
    G,
    /// Bytes.
    M,
    /// Time of an empty message: over any link, inside a domain, between domains.
    Alpha(Links),
    /// Rate of one port.
    Bandwidth(Links),
    /// Time to reduce one byte.
    Gamma,
    /// Time through a switch that computes or multicasts.
    AlphaSwitch,
    /// The same between domains.
    AlphaSwitchOuter,
    /// n_β of a double binary tree.
    CReal,
    /// The ratio of the root's port rate to that of the others.
    RootSpeedup,
}

/// The links that a symbol refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Links {
    /// All links are equal.
    Any,
    /// Inside a domain.
    Inner,
    /// Between domains.
    Outer,
}

/// How a named function is computed from its arguments.
pub type Rule = fn(&[u64]) -> u64;

/// A function that an algorithm defines.
#[derive(Debug, Clone, Copy)]
pub struct Named {
    /// Its name in formulas: `side`.
    pub name: &'static str,
    /// Its definition: `side(N) = ⌊√N⌋`.
    pub means: &'static str,
    /// How it is computed.
    pub rule: Rule,
}

/// An integer function that formulas name.
#[derive(Debug, Clone, Copy)]
pub enum Function {
    /// ⌈lg n⌉.
    CeilLg,
    /// ⌊lg n⌋.
    FloorLg,
    /// 2^⌊lg n⌋.
    PowerBelow,
    /// ⌊a⌋.
    Floor,
    /// ⌈a⌉.
    Ceil,
    /// The maximum.
    Max,
    /// A function that the algorithm defines.
    Named(&'static Named),
}

impl Function {
    /// The value for the given arguments, rounded where the function rounds.
    #[must_use]
    pub fn value(self, arguments: &[f64]) -> f64 {
        let first = arguments.first().copied().unwrap_or(0.0);
        match self {
            Self::CeilLg => f64::from(ceil_lg(first as u32)),
            Self::FloorLg => f64::from(floor_lg(first as u32)),
            Self::PowerBelow => f64::from(1_u32 << floor_lg(first as u32)),
            // A quotient of integers is only off by rounding; a whole one must stay.
            Self::Floor => (first + 1e-9).floor(),
            Self::Ceil => (first - 1e-9).ceil(),
            Self::Max => arguments.iter().copied().fold(first, f64::max),
            Self::Named(named) => {
                let whole: Vec<u64> = arguments.iter().map(|&a| a.round() as u64).collect();
                (named.rule)(&whole) as f64
            }
        }
    }
}

/// A formula as a tree.
///
/// Arithmetic builds it and simplifies only terms that no author would write: `0 +`, `1 ·`, `0 ·`,
/// adjacent numbers, a quotient of a quotient, and a factor divided by itself.
#[derive(Debug, Clone)]
pub struct Expr(Rc<Node>);

#[derive(Debug)]
pub(super) enum Node {
    Int(i64),
    Real(Symbol, f64),
    Symbol(Symbol),
    Add(Expr, Expr),
    Sub(Expr, Expr),
    Mul(Expr, Expr),
    Div(Expr, Expr),
    Call(Function, Vec<Expr>),
}

impl Expr {
    /// A symbol.
    #[must_use]
    pub fn symbol(symbol: Symbol) -> Self {
        Self::from(Node::Symbol(symbol))
    }

    pub(super) fn node(&self) -> &Node {
        &self.0
    }

    /// The value of a number: `2`, or `3/2`.
    fn as_number(&self) -> Option<Fraction<i64>> {
        match self.node() {
            Node::Int(value) => Some(Fraction::from_integer(*value)),
            Node::Div(a, b) => match (a.node(), b.node()) {
                (Node::Int(a), Node::Int(b)) if *b != 0 => Some(Fraction::new(*a, *b)),
                _ => None,
            },
            _ => None,
        }
    }

    fn is_number(&self) -> bool {
        self.as_number().is_some()
    }

    fn number(value: Fraction<i64>) -> Self {
        let int = |i: &i64| Self::from(Node::Int(*i));
        if value.is_integer() {
            return int(value.numer());
        }
        Self::from(Node::Div(int(value.numer()), int(value.denom())))
    }

    /// The sum with a number, which is combined with a number at the end.
    fn plus(self, more: Fraction<i64>) -> Self {
        let end = match self.node() {
            Node::Add(a, b) => b.as_number().map(|b| (a.clone(), b)),
            Node::Sub(a, b) => b.as_number().map(|b| (a.clone(), -b)),
            _ => None,
        };
        match end {
            Some((rest, number)) => rest.plus(number + more),
            None => match more.cmp(&Fraction::ZERO) {
                Ordering::Less => Self::from(Node::Sub(self, Self::number(-more))),
                Ordering::Equal => self,
                Ordering::Greater => Self::from(Node::Add(self, Self::number(more))),
            },
        }
    }

    /// The product with a number, which is combined with a number in front.
    fn times(self, factor: Fraction<i64>) -> Self {
        let front = match self.node() {
            _ if factor == Fraction::ONE => return self,
            Node::Mul(a, b) => a.as_number().map(|a| Self::number(a * factor) * b.clone()),
            Node::Div(a, b) => match (a.as_number(), b.as_number()) {
                (Some(a), _) => Some(Self::number(a * factor) / b.clone()),
                (_, Some(b)) => Some(a.clone().times(factor / b)),
                _ => None,
            },
            _ => None,
        };
        front.unwrap_or_else(|| {
            let number = Self::number(factor);
            if number.is_zero() { number } else { Self::from(Node::Mul(number, self)) }
        })
    }

    /// Whether both are the same part of the tree.
    fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// Whether this is the number 0.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.as_number() == Some(Fraction::ZERO)
    }

    /// The largest of `terms`, without those that are 0.
    pub(super) fn max(terms: impl IntoIterator<Item = Self>) -> Self {
        let mut terms: Vec<Self> = terms.into_iter().filter(|term| !term.is_zero()).collect();
        match terms.len() {
            0 => Self::int(0),
            1 => terms.remove(0),
            _ => Self::from(Node::Call(Function::Max, terms)),
        }
    }

    /// The value for given numbers of all symbols.
    #[must_use]
    pub fn evaluate(&self, letters: &dyn Fn(Symbol) -> f64) -> f64 {
        match self.node() {
            Node::Int(value) => *value as f64,
            Node::Real(_, value) => *value,
            Node::Symbol(symbol) => letters(*symbol),
            Node::Add(a, b) => a.evaluate(letters) + b.evaluate(letters),
            Node::Sub(a, b) => a.evaluate(letters) - b.evaluate(letters),
            Node::Mul(a, b) => a.evaluate(letters) * b.evaluate(letters),
            Node::Div(a, b) => a.evaluate(letters) / b.evaluate(letters),
            Node::Call(function, arguments) => {
                let values: Vec<f64> = arguments.iter().map(|a| a.evaluate(letters)).collect();
                function.value(&values)
            }
        }
    }
}

impl Expr {
    /// The functions in it that only their algorithm defines, each once.
    #[must_use]
    pub fn named_functions(&self) -> Vec<&'static Named> {
        let mut found: Vec<&'static Named> = Vec::new();
        self.visit(&mut |node| match node {
            Node::Call(Function::Named(named), _) if found.iter().all(|f| f.name != named.name) => {
                found.push(named);
            }
            _ => {}
        });
        found
    }

    /// The values of those functions for given numbers of symbols: name, arguments separated by
    /// commas, value.
    #[must_use]
    pub fn named_values(
        &self,
        letters: &dyn Fn(Symbol) -> f64,
    ) -> Vec<(&'static str, String, u64)> {
        let mut found = Vec::new();
        self.visit(&mut |node| {
            let Node::Call(function @ Function::Named(named), arguments) = node else { return };
            let values: Vec<f64> = arguments.iter().map(|a| a.evaluate(letters)).collect();
            let key: Vec<String> = values.iter().map(f64::to_string).collect();
            found.push((named.name, key.join(","), function.value(&values) as u64));
        });
        found
    }

    /// The real parameters in it, each once, with their values.
    #[must_use]
    pub fn parameters(&self) -> Vec<(Symbol, Ratio)> {
        let mut found: Vec<(Symbol, Ratio)> = Vec::new();
        self.visit(&mut |node| match node {
            Node::Real(symbol, value) if found.iter().all(|f| f.0 != *symbol) => {
                found.push((*symbol, Ratio(*value)));
            }
            _ => {}
        });
        found
    }

    fn visit(&self, see: &mut dyn FnMut(&Node)) {
        see(self.node());
        match self.node() {
            Node::Int(_) | Node::Real(..) | Node::Symbol(_) => {}
            Node::Add(a, b) | Node::Sub(a, b) | Node::Mul(a, b) | Node::Div(a, b) => {
                a.visit(see);
                b.visit(see);
            }
            Node::Call(_, arguments) => arguments.iter().for_each(|a| a.visit(see)),
        }
    }
}

impl From<Node> for Expr {
    fn from(node: Node) -> Self {
        Self(Rc::new(node))
    }
}

impl Number for Expr {
    fn int(value: i64) -> Self {
        Self::from(Node::Int(value))
    }

    fn call(function: Function, arguments: &[&Self], _: u64) -> Self {
        Self::from(Node::Call(function, arguments.iter().map(|&a| a.clone()).collect()))
    }
}

impl Field for Expr {
    fn parameter(symbol: Symbol, value: Ratio) -> Self {
        Self::from(Node::Real(symbol, value.0))
    }

    fn cost_of(algorithm: &dyn Algorithm, v: &At<Self>) -> Cost<Self> {
        algorithm.print(v)
    }

    fn sent_by(algorithm: &dyn Algorithm, v: &At<Self>) -> Self {
        algorithm.sent_printed(v)
    }
}

impl Add for Expr {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        match (self.as_number(), other.as_number()) {
            (Some(a), Some(b)) => Self::number(a + b),
            (_, Some(b)) => self.plus(b),
            _ if self.is_zero() => other,
            _ => Self::from(Node::Add(self, other)),
        }
    }
}

impl Sub for Expr {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        match (self.as_number(), other.as_number()) {
            (Some(a), Some(b)) => Self::number(a - b),
            (_, Some(b)) => self.plus(-b),
            _ => Self::from(Node::Sub(self, other)),
        }
    }
}

impl Mul for Expr {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        match (self.as_number(), other.as_number()) {
            (Some(a), Some(b)) => Self::number(a * b),
            (Some(a), None) => other.times(a),
            (None, Some(b)) => self.times(b),
            _ => match (self.node(), other.node()) {
                (Node::Div(a, b), _) if b.is(&other) => a.clone(),
                (_, Node::Div(a, b)) if b.is(&self) => a.clone(),
                (_, Node::Div(one, b)) if one.as_number() == Some(Fraction::ONE) => {
                    self / b.clone()
                }
                _ => Self::from(Node::Mul(self, other)),
            },
        }
    }
}

impl Div for Expr {
    type Output = Self;

    fn div(self, other: Self) -> Self {
        match (self.as_number(), other.as_number()) {
            (Some(a), Some(b)) if b != Fraction::ZERO => return Self::number(a / b),
            (Some(a), _) if a == Fraction::ZERO => return self,
            (_, Some(b)) if b == Fraction::ONE => return self,
            _ => {}
        }
        match (self.node(), other.node()) {
            _ if self.is(&other) => Self::int(1),
            (Node::Mul(a, b), _) if b.is(&other) => a.clone(),
            (Node::Mul(a, b), _) if a.is(&other) => b.clone(),
            (Node::Mul(k, x), Node::Mul(m, y)) if k.is_number() && m.is_number() => {
                k.clone() / m.clone() * (x.clone() / y.clone())
            }
            (Node::Mul(k, x), _) if matches!(x.node(), Node::Div(..)) => {
                k.clone() * (x.clone() / other)
            }
            (Node::Div(a, b), _) => a.clone() / (b.clone() * other),
            _ => Self::from(Node::Div(self, other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::formula::Notation;

    fn letters() -> [Expr; 3] {
        [Symbol::N, Symbol::P, Symbol::G].map(Expr::symbol)
    }

    fn int(value: i64) -> Expr {
        Expr::int(value)
    }

    fn half(odd: i64) -> Expr {
        int(odd) / int(2)
    }

    /// Whether each formula reads as the text next to it.
    fn read_as<const COUNT: usize>(formulas: [(Expr, &str); COUNT]) {
        for (formula, text) in formulas {
            assert_eq!(formula.write(Notation::Text), text);
        }
    }

    #[test]
    fn numbers_beside_numbers_are_one() {
        let [n, p, _] = letters();
        let n = || n.clone();
        read_as([
            (int(2) + int(3), "5"),
            (int(5) - int(2), "3"),
            (int(2) * int(3), "6"),
            (int(6) / int(4), "3/2"),
            (int(6) / int(2), "3"),
            (half(3) + half(1), "2"),
            (n() + int(1) + int(2), "N + 3"),
            (n() - int(1) - int(2), "N − 3"),
            (n() - int(1) + int(3), "N + 2"),
            (n() + int(1) - int(3), "N − 2"),
            (n() + half(3) - half(1), "N + 1"),
            (int(2) * n() * int(3), "6·N"),
            (int(2) / n() * int(3), "6/N"),
            (n() / int(2) * int(4), "2·N"),
            (int(2) * n() / (int(4) * p), "1/2·N/P"),
        ]);
    }

    #[test]
    fn what_changes_nothing_is_left_out() {
        let [n, ..] = letters();
        let n = || n.clone();
        read_as([
            (int(0) + n(), "N"),
            (n() + int(0), "N"),
            (n() + int(1) - int(1), "N"),
            (int(1) * n(), "N"),
            (n() * int(1), "N"),
            (n() / int(1), "N"),
            (n() * int(0), "0"),
            (int(0) / n(), "0"),
        ]);
        assert!((n() * int(0)).is_zero() && !n().is_zero() && !int(1).is_zero());
    }

    #[test]
    fn a_factor_that_is_divided_by_itself_goes() {
        let [n, p, g] = letters();
        let (n, p, g) = (|| n.clone(), || p.clone(), || g.clone());
        read_as([
            (n() / n(), "1"),
            (n() / p() * p(), "N"),
            (p() * (n() / p()), "N"),
            (n() * p() / p(), "N"),
            (n() * p() / n(), "P"),
            (n() / p() * g(), "N/P·G"),
            (g() * (n() / p()), "G·N/P"),
            (n() * p() / g(), "N·P/G"),
        ]);
    }

    #[test]
    fn a_quotient_of_quotients_is_one_quotient() {
        let [n, p, g] = letters();
        let (n, p, g) = (|| n.clone(), || p.clone(), || g.clone());
        read_as([
            (n() / p() / g(), "N/(P·G)"),
            (n() * (int(1) / p()), "N/P"),
            (int(2) * (n() / p()) / g(), "2·N/(P·G)"),
            (n() * p() / (g() * (n() + int(1))), "N·P/(G·(N + 1))"),
            (int(2) * n() / (p() * g()), "2·N/(P·G)"),
            (n() * p() / (int(2) * g()), "N·P/(2·G)"),
        ]);
    }

    #[test]
    fn a_division_by_zero_stays_as_it_is_written() {
        read_as([(int(1) / int(0), "1/0"), (int(1) / int(0) + int(1), "1/0 + 1")]);
    }

    #[test]
    fn functions_round_what_is_off_by_rounding() {
        let value = |function: Function, of: f64| function.value(&[of]);
        assert_eq!([5.0, 8.0].map(|n| value(Function::CeilLg, n)), [3.0, 3.0]);
        assert_eq!([5.0, 8.0].map(|n| value(Function::FloorLg, n)), [2.0, 3.0]);
        assert_eq!([5.0, 8.0].map(|n| value(Function::PowerBelow, n)), [4.0, 8.0]);
        let near = 1e-12;
        assert_eq!([2.5, 3.0, 3.0 - near].map(|a| value(Function::Floor, a)), [2.0, 3.0, 3.0]);
        assert_eq!([2.5, 3.0, 3.0 + near].map(|a| value(Function::Ceil, a)), [3.0, 3.0, 3.0]);
        static SUM: Named =
            Named { name: "sum", means: "sum(x, y) = x + y", rule: |of| of.iter().sum() };
        let sum = Function::Named(&SUM);
        assert_eq!(sum.value(&[2.0, 3.0 - near]), 5.0);
    }

    #[test]
    fn a_formula_has_the_value_of_its_parts() {
        let [n, p, _] = letters();
        let c = Expr::parameter(Symbol::CReal, Ratio(2.5));
        let log = Expr::call(Function::CeilLg, &[&n], 0);
        let formula = (n.clone() + p.clone()) * (n.clone() - p.clone()) / p + c * log;
        let letters = |symbol| if symbol == Symbol::N { 13.0 } else { 5.0 };
        assert_eq!(formula.evaluate(&letters), 18.0 * 8.0 / 5.0 + 2.5 * 4.0);
    }

    #[test]
    fn functions_and_parameters_are_named_once() {
        let [n, p, _] = letters();
        static T: Named = Named { name: "T", means: "T(x) = 1", rule: |_| 1 };
        static U: Named = Named { name: "U", means: "U(x) = 1", rule: |_| 1 };
        let call = |named, of: &Expr| Expr::call(Function::Named(named), &[of], 1);
        let parameter = |symbol, value| Expr::parameter(symbol, Ratio(value));
        let formula = (call(&T, &n) + call(&U, &p)) * call(&T, &p)
            + parameter(Symbol::CReal, 2.5) * n.clone()
            + parameter(Symbol::RootSpeedup, 2.0) * p
            + parameter(Symbol::CReal, 2.5) * n;
        let names: Vec<_> = formula.named_functions().iter().map(|named| named.name).collect();
        assert_eq!(names, ["T", "U"]);
        let found = [(Symbol::CReal, Ratio(2.5)), (Symbol::RootSpeedup, Ratio(2.0))];
        assert_eq!(formula.parameters(), found);
    }
}

//! The best packing of trees or ways into a graph, exact, with the lengths that prove it.

use super::exact::solve;
use super::pattern::{Demand, Oracle, Pattern, bound};
use super::simplex::{Column, Simplex, Sparse};
use crate::machine::graph::{Graph, gcd};
use crate::model::formula::Rational;

/// The most links and commodities together for which a packing is looked for.
const ROWS: usize = 700;
/// The most rounds of new columns.
const ROUNDS: usize = 20_000;

/// A packing that nothing beats.
#[derive(Debug, Clone, PartialEq)]
pub struct Packing {
    /// What each commodity sends, in the unit of the whole rates.
    pub each: Rational,
    /// A length for every link; they prove that nothing sends more.
    pub lengths: Vec<i128>,
    /// What is sent, and how much of it, in that unit.
    pub patterns: Vec<(Rational, Pattern)>,
}

/// The best packing; none where the graph is too large, or its numbers are too long to be exact.
#[must_use]
pub fn pack(graph: &Graph, rates: &[i64], demand: Demand) -> Option<Packing> {
    let commodities = demand.commodities(graph) as usize;
    if rates.len() + commodities > ROWS {
        return None;
    }
    let mean = rates.iter().sum::<i64>() as f64 / rates.len() as f64;
    let scaled: Vec<f64> = rates.iter().map(|&rate| rate as f64 / mean).collect();
    let mut simplex = Simplex::new(&scaled, commodities);
    let oracle = Oracle::new(graph);
    let mut known: Vec<Pattern> = Vec::new();
    let mut lengths: Vec<f64> = scaled.iter().map(|rate| 1.0 / rate).collect();
    for round in 0..ROUNDS {
        let prices = simplex.prices();
        let mut further = Vec::new();
        for (_, pattern) in oracle.cheapest(demand, &lengths, 0.0)? {
            let sparse = Sparse {
                row: pattern.commodity as usize,
                loads: pattern.loads(),
                pattern: known.len(),
            };
            if round == 0 || simplex.gain(&sparse, &prices) > 1e-9 {
                known.push(pattern);
                further.push(sparse);
            }
        }
        if further.is_empty() {
            return exactly(graph, rates, demand, &simplex, &known);
        }
        simplex.improve(further);
        let prices = simplex.prices();
        lengths = prices[..rates.len()].iter().map(|price| price.max(0.0)).collect();
    }
    None
}

/// The solution of the basis in fractions, held to what it claims.
fn exactly(
    graph: &Graph,
    rates: &[i64],
    demand: Demand,
    simplex: &Simplex,
    known: &[Pattern],
) -> Option<Packing> {
    let mut is_tight = vec![true; simplex.basis.len()];
    let mut columns = Vec::new();
    for &column in &simplex.basis {
        match column {
            Column::Slack(row) => is_tight[row] = false,
            column => columns.push(column),
        }
    }
    let rows: Vec<usize> = (0..is_tight.len()).filter(|&row| is_tight[row]).collect();
    let mut place = vec![usize::MAX; is_tight.len()];
    rows.iter().enumerate().for_each(|(i, &row)| place[row] = i);
    let mut matrix = vec![vec![0_i64; rows.len()]; rows.len()];
    let mut turned = matrix.clone();
    for (c, &column) in columns.iter().enumerate() {
        for (row, x) in simplex.entries(column).into_iter().filter(|&(row, _)| is_tight[row]) {
            matrix[place[row]][c] = x;
            turned[c][place[row]] = x;
        }
    }
    let right: Vec<i64> = rows.iter().map(|&row| rates.get(row).copied().unwrap_or(0)).collect();
    let gains: Vec<i64> = columns.iter().map(|&c| i64::from(c == Column::Rate)).collect();
    let values = solve(&matrix, &right)?;
    let prices = solve(&turned, &gains)?;
    let mut lengths = vec![Rational::from_integer(0); rates.len()];
    for (&row, price) in rows.iter().zip(prices).filter(|(row, _)| **row < rates.len()) {
        lengths[row] = price;
    }
    let lengths = whole(&lengths)?;
    let at = columns.iter().position(|&column| column == Column::Rate)?;
    let each = values[at];
    let weighted = columns.iter().zip(values).filter_map(|(&column, weight)| match column {
        Column::Pattern(i) if weight != Rational::from_integer(0) => {
            Some((weight, known[simplex.patterns[i].pattern].clone()))
        }
        _ => None,
    });
    let packing = Packing { each, lengths, patterns: weighted.collect() };
    packing.holds(graph, rates, demand).then_some(packing)
}

impl Packing {
    /// Whether its patterns fit and reach its rate, and its lengths prove that no others reach more.
    #[must_use]
    pub fn holds(&self, graph: &Graph, rates: &[i64], demand: Demand) -> bool {
        if self.lengths.iter().any(|&length| length < 0) {
            return false;
        }
        self.fits(rates, demand.commodities(graph))
            && bound(graph, rates, demand, &self.lengths) == Some(self.each)
    }

    fn fits(&self, rates: &[i64], commodities: u32) -> bool {
        let mut all: Vec<Rational> = self.patterns.iter().map(|(weight, _)| *weight).collect();
        all.push(self.each);
        let Some(common) = denominator(&all) else { return false };
        let scaled = |x: Rational| x.numer().checked_mul(common / x.denom());
        let mut loads = vec![0_i128; rates.len()];
        let mut sums = vec![0_i128; commodities as usize];
        for (weight, pattern) in &self.patterns {
            let Some(weight) = scaled(*weight).filter(|&weight| weight > 0) else { return false };
            sums[pattern.commodity as usize] += weight;
            for (link, times) in pattern.loads() {
                loads[link as usize] += weight * i128::from(times);
            }
        }
        let fits = loads.iter().zip(rates).all(|(&load, &rate)| {
            i128::from(rate).checked_mul(common).is_some_and(|most| load <= most)
        });
        fits && scaled(self.each).is_some_and(|each| sums.iter().all(|&sum| sum == each))
    }
}

/// A common denominator; none where it is too long.
fn denominator(all: &[Rational]) -> Option<i128> {
    all.iter().try_fold(1_i128, |common, x| {
        let next = (common / gcd(common, *x.denom())).checked_mul(*x.denom())?;
        (next < 1 << 80).then_some(next)
    })
}

/// Fractions as whole numbers in the same proportion.
fn whole(fractions: &[Rational]) -> Option<Vec<i128>> {
    let common = denominator(fractions)?;
    let scaled: Option<Vec<i128>> =
        fractions.iter().map(|x| x.numer().checked_mul(common / x.denom())).collect();
    let scaled = scaled?;
    let shared = scaled.iter().fold(0, |shared, &x| gcd(shared, x)).max(1);
    Some(scaled.into_iter().map(|x| x / shared).collect())
}

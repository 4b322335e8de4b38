//! The best packing of trees or ways into a graph, exact, with the lengths that prove it.

use super::pattern::{Demand, Oracle, Pattern, bound};
use super::simplex::{Column, Exact, Simplex, Sparse};
use crate::base::quantity::nearest;
use crate::machine::graph::{Graph, gcd};
use crate::model::formula::Rational;

/// The most links and commodities together for which a packing is looked for.
const ROWS: usize = 700;
/// How long it is looked for, in entries of the inverse that change: some ten seconds.
const WORK: u64 = 10_000_000_000;

/// A packing that nothing beats.
///
/// The rate and the lengths are exact. Weights are, too, where their fractions are short; of long
/// ones the nearest multiples of 2^-40 stand for them, which sum exactly and fit within 1e-9.
#[derive(Debug, Clone, PartialEq)]
pub struct Packing {
    /// What each commodity sends, in the unit of the whole rates.
    pub each: Rational,
    /// A length for every link; they prove that nothing sends more.
    pub lengths: Vec<i128>,
    /// What is sent, and which part of its commodity it is.
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
    let mut right = scaled.clone();
    right.extend(std::iter::repeat_n(0.0, commodities));
    let rate = (rates.len()..right.len()).map(|row| (row, 1)).collect();
    let moved = |right: f64| if right > 0.0 { right * 1e-7 } else { 1e-8 };
    let mut simplex = Simplex::new(right, moved, vec![rate]);
    let oracle = Oracle::new(graph);
    let mut known: Vec<Pattern> = Vec::new();
    let mut lengths: Vec<f64> = scaled.iter().map(|rate| 1.0 / rate).collect();
    // The lengths that prove the most so far: what is asked lies between them and the program's own,
    // which swing (Wentges 1997).
    let mut held = (f64::INFINITY, lengths.clone());
    while simplex.work() < WORK {
        let prices = simplex.prices();
        let mut further = Vec::new();
        let between = lengths.iter().zip(&held.1).map(|(own, held)| (own + held) / 2.0);
        for asked in [between.collect(), lengths.clone()] {
            let found = oracle.cheapest(demand, &asked, 0.0)?;
            let proven = proven(demand, &scaled, &asked, &found);
            if proven < held.0 {
                held = (proven, asked);
            }
            for (_, pattern) in found {
                let loads = pattern.loads().into_iter();
                let loads = loads.map(|(link, times)| (link as usize, i64::from(times)));
                let row = rates.len() + pattern.commodity as usize;
                let entries = loads.chain([(row, -1)]).collect();
                let sparse = Sparse { entries, pattern: known.len() };
                if simplex.is_new() || simplex.gain(&sparse, &prices) > 1e-9 {
                    known.push(pattern);
                    further.push(sparse);
                }
            }
            if !further.is_empty() {
                break;
            }
        }
        if further.is_empty() {
            simplex.refresh();
            return exactly(graph, rates, demand, (&simplex, mean), &known);
        }
        simplex.improve(further);
        let prices = simplex.prices();
        lengths = prices[..rates.len()].iter().map(|price| price.max(0.0)).collect();
        // Lengths are proportions only: as large as those that they are mixed with.
        let sum = |all: &[f64]| all.iter().zip(&scaled).map(|(l, r)| l * r).sum::<f64>();
        let (own, other) = (sum(&lengths), sum(&held.1));
        held.1.iter_mut().for_each(|length| *length *= own / other);
    }
    None
}

/// What lengths prove, in doubles.
fn proven(demand: Demand, rates: &[f64], lengths: &[f64], costs: &[(f64, Pattern)]) -> f64 {
    let all: f64 = rates.iter().zip(lengths).map(|(rate, length)| rate * length).sum();
    let costs = costs.iter().map(|(cost, _)| *cost);
    let least = match demand {
        Demand::UpAndDown => costs.fold(f64::INFINITY, f64::min),
        _ => costs.sum(),
    };
    all / least
}

/// The solution of the basis in fractions, held to what it claims.
fn exactly(
    graph: &Graph,
    rates: &[i64],
    demand: Demand,
    (simplex, mean): (&Simplex, f64),
    known: &[Pattern],
) -> Option<Packing> {
    let commodities = demand.commodities(graph) as usize;
    let mut right = rates.to_vec();
    right.extend(std::iter::repeat_n(0, commodities));
    let Exact { prices, values, columns } = simplex.exactly(&right);
    let lengths = whole(&prices?[..rates.len()])?;
    if lengths.iter().any(|&length| length < 0) {
        return None;
    }
    let each = bound(graph, rates, demand, &lengths)?;
    let parts = match values {
        Some(values) => values.iter().map(|value| value / each).collect(),
        None => rounded(&columns, simplex, nearest(each) / mean, rates.len(), commodities)?,
    };
    let weighted = columns.iter().zip(parts).filter_map(|(&column, part)| match column {
        Column::Pattern(i) if part != Rational::from_integer(0) => {
            Some((part, known[simplex.pattern(i)].clone()))
        }
        _ => None,
    });
    let packing = Packing { each, lengths, patterns: weighted.collect() };
    packing.fits(rates, demand.commodities(graph)).then_some(packing)
}

/// The solution in doubles, as multiples of 2^-40 that sum to 1.
fn rounded(
    columns: &[Column],
    simplex: &Simplex,
    each: f64,
    links: usize,
    commodities: usize,
) -> Option<Vec<Rational>> {
    const ONE: i128 = 1 << 40;
    let mut sums = vec![0_i128; commodities];
    let mut largest = vec![(0_i128, usize::MAX); commodities];
    let mut parts = Vec::with_capacity(columns.len());
    for &column in columns {
        let mut part = 0;
        if let Column::Pattern(i) = column {
            part = ((simplex.value(column) / each * ONE as f64).round() as i128).max(0);
            let row = simplex.row(i) - links;
            sums[row] += part;
            largest[row] = largest[row].max((part, parts.len()));
        }
        parts.push(part);
    }
    for (sum, (_, place)) in sums.into_iter().zip(largest) {
        *parts.get_mut(place)? += ONE - sum;
    }
    Some(parts.into_iter().map(|part| Rational::new(part, ONE)).collect())
}

impl Packing {
    /// Whether its patterns sum to one for each commodity and no link carries more than its rate,
    /// within a billionth.
    fn fits(&self, rates: &[i64], commodities: u32) -> bool {
        let parts: Vec<Rational> = self.patterns.iter().map(|(part, _)| *part).collect();
        let Some(common) = denominator(&parts) else { return false };
        let mut loads = vec![0_i128; rates.len()];
        let mut sums = vec![0_i128; commodities as usize];
        for (part, pattern) in &self.patterns {
            let part = part.numer() * (common / part.denom());
            if part <= 0 {
                return false;
            }
            sums[pattern.commodity as usize] += part;
            for (link, times) in pattern.loads() {
                loads[link as usize] += part * i128::from(times);
            }
        }
        let each = nearest(self.each) / common as f64;
        let fits = loads.iter().zip(rates);
        let fits = fits.map(|(&load, &rate)| load as f64 * each <= rate as f64 * (1.0 + 1e-9));
        fits.fold(true, |all, one| all && one) && sums.iter().all(|&sum| sum == common)
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

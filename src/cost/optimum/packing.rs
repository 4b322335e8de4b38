//! The best packing of trees or paths into a graph, exact, with the lengths that prove it.

use super::pattern::{Demand, Oracle, Pattern, bound};
use super::simplex::{Column, Exact, Simplex, Sparse};
use crate::base::quantity::nearest;
use crate::machine::graph::Graph;
use crate::model::formula::Rational;

/// The most links and commodities together for which a packing is computed.
const ROWS: usize = 320;
/// The limit of the search, in changed entries of the inverse: some seconds.
const WORK: u64 = 1_000_000_000;
/// The limit of the search for patterns, in visits of nodes, links and pairs of ranks: some seconds.
const ASKED: u64 = 1 << 31;

/// The representation of one where parts are rounded.
const ONE: i128 = 1 << 40;

/// An optimal packing.
///
/// The rate and the lengths are exact. So are the weights, if their fractions have few digits;
/// otherwise they are the nearest multiples of 2^-40, which sum exactly and fit within 1e-9.
#[derive(Debug, Clone, PartialEq)]
pub struct Packing {
    /// The amount that each commodity sends, in the integer rates' unit.
    pub each: Rational,
    /// A length for every link; they prove that no packing sends more.
    pub lengths: Vec<i128>,
    /// The patterns, each with its part of its commodity.
    pub patterns: Vec<(Rational, Pattern)>,
}

/// The best packing; `None` if the graph is too large, or its numbers have too many digits to be
/// exact.
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
    // The lengths with the best proof so far. The next query is between them and the program's own
    // lengths, which oscillate (Wentges 1997).
    let mut held = (f64::INFINITY, lengths.clone());
    let ranks = u64::from(graph.ranks);
    let each = ranks * ((graph.nodes.len() + rates.len()) as u64 + ranks * ranks);
    let mut asked = 0;
    while simplex.work() < WORK && asked < ASKED {
        let prices = simplex.prices();
        let mut further = Vec::new();
        let between = lengths.iter().zip(&held.1).map(|(own, held)| (own + held) / 2.0);
        for tried in [between.collect(), lengths.clone()] {
            let found = oracle.cheapest(demand, &tried, 0.0)?;
            asked += each;
            let proven = proven(demand, &scaled, &tried, &found);
            if proven < held.0 {
                held = (proven, tried);
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
        // Lengths are only proportions: scaled to the size of those they are mixed with.
        let sum = |all: &[f64]| all.iter().zip(&scaled).map(|(l, r)| l * r).sum::<f64>();
        let (own, other) = (sum(&lengths), sum(&held.1));
        held.1.iter_mut().for_each(|length| *length *= own / other);
    }
    None
}

/// The bound proven by lengths, in doubles.
fn proven(demand: Demand, rates: &[f64], lengths: &[f64], costs: &[(f64, Pattern)]) -> f64 {
    let all: f64 = rates.iter().zip(lengths).map(|(rate, length)| rate * length).sum();
    let costs = costs.iter().map(|(cost, _)| *cost);
    let least = match demand {
        Demand::UpAndDown => costs.fold(f64::INFINITY, f64::min),
        _ => costs.sum(),
    };
    all / least
}

/// The solution of the basis in fractions, checked against its claims.
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
    let reached = simplex.value(Column::Fixed(0)) * mean;
    let exact = prices.and_then(|prices| whole(&prices[..rates.len()]));
    // If lengths have too many digits, or are not those of an optimal basis, the nearest short
    // ones.
    let tries = exact.into_iter().chain(short(&simplex.prices()[..rates.len()]));
    let proven = tries.filter(|lengths| lengths.iter().all(|&length| length >= 0));
    let mut proven = proven.filter_map(|all| Some((bound(graph, rates, demand, &all)?, all)));
    let is_reached = |each: &Rational| nearest(*each) <= reached * (1.0 + 1e-9);
    let (each, lengths) = proven.find(|(each, _)| is_reached(each))?;
    let exact = values.and_then(|values| {
        let parts: Vec<Rational> = values.iter().map(|value| value / each).collect();
        let common = denominator(&parts)?;
        Some((parts.iter().map(|x| x.numer() * (common / x.denom())).collect(), common))
    });
    let (mut parts, common): (Vec<i128>, i128) = exact.unwrap_or_else(|| {
        let scale = mean / nearest(each) * ONE as f64;
        let part = |&column| (simplex.value(column).max(0.0) * scale).round() as i128;
        (columns.iter().map(part).collect(), ONE)
    });
    let row = |column: &Column| match *column {
        Column::Pattern(i) => Some(simplex.row(i) - rates.len()),
        _ => None,
    };
    level(&mut parts, &columns.iter().map(row).collect::<Vec<_>>(), common, commodities)?;
    let parts = parts.into_iter().map(|part| Rational::new(part, common));
    let weighted = columns.iter().zip(parts).filter_map(|(&column, part)| match column {
        Column::Pattern(i) if part != Rational::from_integer(0) => {
            Some((part, known[simplex.pattern(i)].clone()))
        }
        _ => None,
    });
    let packing = Packing { each, lengths, patterns: weighted.collect() };
    packing.fits(rates, demand.commodities(graph)).then_some(packing)
}

/// Lengths as small integers, if they are approximately in such a proportion.
fn short(prices: &[f64]) -> Option<Vec<i128>> {
    const MOST: i32 = 5040;
    let largest = prices.iter().fold(0.0, |a: f64, &b| a.max(b));
    (1..=MOST).map(f64::from).find_map(|times| {
        let scaled = || prices.iter().map(|price| price.max(0.0) / largest * times);
        let is_near = scaled().all(|x| (x - x.round()).abs() < 1e-6);
        is_near.then(|| scaled().map(|x| x.round() as i128).collect())
    })
}

/// Makes the parts of each commodity sum to one: where links have room a commodity may have more
/// than it needs, and rounded parts miss the sum by a little.
fn level(parts: &mut [i128], rows: &[Option<usize>], one: i128, commodities: usize) -> Option<()> {
    for row in 0..commodities {
        let own = || (0..rows.len()).filter(|&i| rows[i] == Some(row));
        let mut over = own().map(|i| parts[i]).sum::<i128>() - one;
        if over < 0 {
            let largest = own().max_by_key(|&i| parts[i])?;
            parts[largest] -= over;
        }
        let own: Vec<usize> = own().collect();
        for i in own {
            let less = over.clamp(0, parts[i].max(0));
            parts[i] -= less;
            over -= less;
        }
    }
    Some(())
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
        let carries =
            |(&load, &rate): (&i128, &i64)| load as f64 * each <= rate as f64 * (1.0 + 1e-9);
        loads.iter().zip(rates).all(carries) && sums.iter().all(|&sum| sum == common)
    }
}

/// A common denominator; `None` if it has too many digits.
fn denominator(all: &[Rational]) -> Option<i128> {
    all.iter().try_fold(1_i128, |common, x| {
        let next = (common / num_integer::gcd(common, *x.denom())).checked_mul(*x.denom())?;
        (next < 1 << 80).then_some(next)
    })
}

/// Fractions as integers in the same proportion.
fn whole(fractions: &[Rational]) -> Option<Vec<i128>> {
    let common = denominator(fractions)?;
    let scaled: Option<Vec<i128>> =
        fractions.iter().map(|x| x.numer().checked_mul(common / x.denom())).collect();
    let scaled = scaled?;
    let shared = scaled.iter().fold(0, |shared, &x| num_integer::gcd(shared, x)).max(1);
    Some(scaled.into_iter().map(|x| x / shared).collect())
}

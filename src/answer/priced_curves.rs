//! The prices of some algorithms over a range, closely enough spaced to be drawn as lines.

use super::cost::{LARGEST, SMALLEST, machine, question};
use super::crossover::Over;
use super::crossover::chosen;
use super::{Interval, MachineView, QuestionView};
use crate::answer::cost::with_launch;
use crate::base::error::{Error, Result};
use crate::base::order::sorted;
use crate::base::quantity::Volume;
use crate::cost::bound::bound;
use crate::cost::crossover::envelope_in_steps;
use crate::cost::rank::{Candidate, rank};
use crate::machine::query::Query;
use crate::model::algorithm::Registry;

/// Algorithms over sizes or ranks.
#[derive(Debug)]
pub struct PricedCurves {
    /// The question; the varied quantity is not used there.
    pub question: QuestionView,
    /// The machine.
    pub machine: MachineView,
    /// `size` or `ranks`.
    pub over: Over,
    /// One for each algorithm that is named, or that wins somewhere.
    pub curves: Vec<PricedCurve>,
    /// The lower bound for any algorithm.
    pub bound: Vec<(f64, f64)>,
    /// The best algorithms, each with the start of its range.
    pub winners: Vec<Interval>,
}

/// One algorithm.
#[derive(Debug)]
pub struct PricedCurve {
    /// Its id.
    pub id: &'static str,
    /// Its name in a table.
    pub title: &'static str,
    /// Bytes or ranks, and seconds.
    pub points: Vec<(f64, f64)>,
}

/// Points per octave of sizes.
const POINTS: u32 = 4;

/// How far a picture extends beyond the first and the last change, as a factor.
const BEYOND: f64 = 256.0;

/// The named algorithms, or all that win somewhere, around the sizes at which the best changes.
///
/// # Errors
/// As [`crossover`](super::crossover).
pub fn curves_over_sizes(
    registry: &Registry,
    query: &Query,
    names: &[&str],
) -> Result<PricedCurves> {
    let mut ready = chosen(registry, query, names)?.any()?.ready;
    let winners = envelope_in_steps(&ready, SMALLEST.into(), LARGEST.into(), 16);
    let id = |c: &Candidate| c.algorithm.meta().id;
    if names.is_empty() {
        ready.retain(|c| winners.iter().any(|(_, w)| id(w) == id(c)));
    }
    let changes = || winners.iter().skip(1).map(|(at, _)| at.0);
    let first = changes().fold(f64::INFINITY, f64::min);
    let (first, last) = match first.is_finite() {
        true => (first, changes().fold(first, f64::max)),
        false => (MIDDLE, MIDDLE),
    };
    let (from, to) =
        ((first / BEYOND).max(SMALLEST.0 as f64), (last * BEYOND).min(LARGEST.0 as f64));
    let steps = (to / from).log2() * f64::from(POINTS);
    let mut sizes = sorted(
        (0..=steps.floor() as u32)
            .map(|i| from * 2.0_f64.powf(f64::from(i) / f64::from(POINTS)))
            .chain([to])
            .chain(changes()),
    );
    sizes.dedup();
    let (shape, fabric) = (&query.shape, &query.machine.fabric);
    let mut lowest = Vec::with_capacity(sizes.len());
    for &size in &sizes {
        let least = bound(shape, Volume(size), fabric)?.time();
        lowest.push((size, with_launch(least, query).0));
    }
    let curve = |c: &Candidate| PricedCurve {
        id: id(c),
        title: c.algorithm.meta().title,
        points: sizes.iter().map(|&s| (s, c.prepared.time(Volume(s)).0)).collect(),
    };
    let starts: Vec<(f64, Candidate)> = winners.iter().map(|(v, c)| (v.0, *c)).collect();
    Ok(PricedCurves {
        question: question(query),
        machine: machine(&query.machine),
        over: Over::Size,
        curves: ready.iter().map(curve).collect(),
        bound: lowest,
        winners: super::crossover::join(&starts, |at, c| c.prepared.time(Volume(at)).0),
    })
}

/// If nothing changes, the picture is centred on this size.
const MIDDLE: f64 = 1_048_576.0;

/// The same for each of `queries`, which differ in their ranks.
///
/// # Errors
/// As [`crossover`](super::crossover); an empty `queries`.
pub fn curves_over_ranks(
    registry: &Registry,
    queries: &[Query],
    names: &[&str],
) -> Result<PricedCurves> {
    let largest = queries.iter().max_by_key(|q| q.shape.ranks);
    let largest = largest.ok_or_else(|| Error::input("no number of ranks is given"))?;
    let winners = super::crossover::over_ranks(registry, queries, names)?.intervals;
    let mut curves: Vec<PricedCurve> = Vec::new();
    let mut lowest = Vec::new();
    for query in queries {
        let n = f64::from(query.shape.ranks);
        let size = Volume::from(query.size);
        for one in rank(&chosen(registry, query, names)?.ready, size) {
            let meta = one.algorithm.meta();
            if names.is_empty() && winners.iter().all(|w| w.id != meta.id) {
                continue;
            }
            let point = (n, one.price.total().0);
            match curves.iter_mut().find(|c| c.id == meta.id) {
                Some(curve) => curve.points.push(point),
                None => {
                    curves.push(PricedCurve {
                        id: meta.id,
                        title: meta.title,
                        points: vec![point],
                    });
                }
            }
        }
        let (shape, fabric) = (&query.shape, &query.machine.fabric);
        let least = bound(shape, size, fabric)?.time();
        lowest.push((n, with_launch(least, query).0));
    }
    Ok(PricedCurves {
        question: question(largest),
        machine: machine(&largest.machine),
        over: Over::Ranks,
        curves,
        bound: lowest,
        winners,
    })
}

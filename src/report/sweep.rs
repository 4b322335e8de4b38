//! The best algorithms over a range: of sizes, of rank counts, of one figure of the machine.

use serde::Serialize;

use super::cost::{
    Flip, LARGEST, MachineView, QuestionView, SMALLEST, machine, question, with_launch,
};
use crate::algorithm::Registry;
use crate::bound::bound;
use crate::crossover::envelope;
use crate::error::{Error, Result};
use crate::price::{Prepared, Price};
use crate::quantity::{Bytes, Ratio, Seconds, Volume};
use crate::query::Query;
use crate::rank::{Candidate, candidates, rank};
use crate::what_if::{Figure, Value};

/// One algorithm at one point.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pick {
    /// Its id.
    pub id: &'static str,
    /// Its name in a table.
    pub title: &'static str,
    /// P, where it is pipelined and more than 1.
    pub segments: u32,
    /// n_α·α.
    pub latency_s: f64,
    /// n_β·M/BW.
    pub bandwidth_s: f64,
    /// All terms and the launch.
    pub time_s: f64,
    /// M over the time.
    #[serde(rename = "algbw_Bps")]
    pub algbw: f64,
    /// algbw by nccl-tests' factor.
    #[serde(rename = "busbw_Bps")]
    pub busbw: f64,
}

/// The answer at one point of a range.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Point {
    /// M.
    pub size_bytes: u64,
    /// N.
    pub ranks: u32,
    /// The varied figure's value, where one is varied.
    pub value: Option<f64>,
    /// The same with its unit.
    pub shown: Option<String>,
    /// What any algorithm takes at least, the launch included.
    pub bound_s: f64,
    /// The fastest algorithm that the machine's own library ships, or the one asked for.
    pub take: Option<Pick>,
    /// The fastest of all.
    pub paper: Option<Pick>,
}

/// What a figure weighs at the question's own point.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Weight {
    /// The figure's name.
    pub figure: String,
    /// Its value.
    pub value: String,
    /// ∂T/∂figure, in seconds per unit of the figure (s, B/s, s/B).
    pub derivative: f64,
    /// (∂T/T)/(∂figure/figure): a change of 1 % of the figure changes the time by so many percent.
    pub elasticity: f64,
}

/// The best algorithms over a range.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sweep {
    /// `collcost/sweep/1`.
    pub schema: &'static str,
    /// The question, at the first size or the largest number of ranks.
    pub question: QuestionView,
    /// The machine.
    pub machine: MachineView,
    /// `size`, `ranks`, or the name of a figure.
    pub over: String,
    /// The points in order.
    pub points: Vec<Point>,
    /// What each figure of the machine weighs, where a figure is varied.
    pub weights: Vec<Weight>,
}

/// The winners over all sizes.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bands {
    /// `collcost/bands/1`.
    pub schema: &'static str,
    /// The question; its size says nothing.
    pub question: QuestionView,
    /// The machine.
    pub machine: MachineView,
    /// The fastest that the machine's own library ships: each from its size on.
    pub take: Vec<Flip>,
    /// The fastest of all.
    pub paper: Vec<Flip>,
}

/// The best algorithms at each of `sizes`.
///
/// # Errors
/// As the main report.
pub fn sizes(
    registry: &Registry,
    query: &Query,
    sizes: &[Bytes],
    only: Option<&str>,
) -> Result<Sweep> {
    let ready = all(registry, query, only)?;
    let mut points = Vec::with_capacity(sizes.len());
    for &size in sizes {
        points.push(point(&ready, &Query { size, ..query.clone() }, only)?);
    }
    Ok(sweep(query, "size".to_owned(), points, Vec::new()))
}

/// The best algorithms for each of `queries`, which differ in their ranks.
///
/// # Errors
/// As the main report; no query at all.
pub fn ranks(registry: &Registry, queries: &[Query], only: Option<&str>) -> Result<Sweep> {
    // The largest question spans the most tiers.
    let largest = queries.iter().max_by_key(|q| q.shape.ranks);
    let largest = largest.ok_or_else(|| Error::input("no number of ranks is asked"))?;
    let mut points = Vec::with_capacity(queries.len());
    for query in queries {
        let ready = all(registry, query, only)?;
        points.push(point(&ready, query, only)?);
    }
    Ok(sweep(largest, "ranks".to_owned(), points, Vec::new()))
}

/// The best algorithms for each of `values` of one figure, and what every figure weighs.
///
/// # Errors
/// As the main report.
pub fn vary(
    registry: &Registry,
    query: &Query,
    figure: Figure,
    values: &[Value],
    only: Option<&str>,
) -> Result<Sweep> {
    let mut points = Vec::with_capacity(values.len());
    for &value in values {
        let mut query = query.clone();
        figure.set(&mut query.machine.fabric, value);
        let ready = all(registry, &query, only)?;
        let one = point(&ready, &query, only)?;
        points.push(Point { value: Some(value.number().0), shown: Some(value.to_string()), ..one });
    }
    let weights = weights(registry, query, only)?;
    Ok(sweep(query, figure.name(&query.machine.fabric), points, weights))
}

/// The winners over all sizes from one byte to one tebibyte.
///
/// # Errors
/// As the main report.
pub fn bands(registry: &Registry, query: &Query) -> Result<Bands> {
    let ready = all(registry, query, None)?;
    let own = shipped(&ready, query);
    let over = |ready: &[Candidate]| -> Vec<Flip> {
        let winners = envelope(ready, SMALLEST, LARGEST);
        winners.iter().map(Flip::new).collect()
    };
    Ok(Bands {
        schema: "collcost/bands/1",
        question: question(query),
        machine: machine(&query.machine),
        take: over(&own),
        paper: over(&ready),
    })
}

pub(super) fn all(
    registry: &Registry,
    query: &Query,
    only: Option<&str>,
) -> Result<Vec<Candidate>> {
    let (shape, fabric) = (&query.shape, &query.machine.fabric);
    match only {
        None => Ok(candidates(registry, shape, fabric)?.0),
        Some(name) => Ok(vec![Candidate::named(registry, name, shape, fabric)?]),
    }
}

/// The candidates that the machine's own library ships.
pub(super) fn shipped(ready: &[Candidate], query: &Query) -> Vec<Candidate> {
    let library = query.library();
    let ships = |c: &&Candidate| c.algorithm.is_shipped(library, &query.shape);
    ready.iter().filter(ships).copied().collect()
}

fn point(ready: &[Candidate], query: &Query, only: Option<&str>) -> Result<Point> {
    let size = Volume::from(query.size);
    let fabric = &query.machine.fabric;
    let least = bound(query.shape.collective, query.shape.ranks, size, fabric)?.time();
    let own = if only.is_some() { ready.to_vec() } else { shipped(ready, query) };
    let best = |ready: &[Candidate]| {
        let ranked = rank(ready, size);
        ranked.first().map(|r| Pick::new(r.algorithm.meta(), &r.price, query))
    };
    Ok(Point {
        size_bytes: query.size.0,
        ranks: query.shape.ranks,
        value: None,
        shown: None,
        bound_s: with_launch(least, query).0,
        take: best(&own),
        paper: best(ready),
    })
}

impl Pick {
    fn new(meta: &crate::algorithm::Meta, price: &Price, query: &Query) -> Self {
        let size = Volume::from(query.size);
        let total = price.total().0;
        // Nothing at all takes no time: one rank, no launch.
        let rate = |r: f64| if total > 0.0 { r } else { 0.0 };
        Self {
            id: meta.id,
            title: meta.title,
            segments: price.segments,
            latency_s: price.latency.0,
            bandwidth_s: price.bandwidth.0,
            time_s: total,
            algbw: rate(price.algbw(size).0),
            busbw: rate(price.busbw(size, query.shape.collective, query.shape.ranks).0),
        }
    }
}

/// The relative step of a numerical derivative: far above rounding, far below any bend.
const STEP: f64 = 1e-6;

/// What each known figure weighs for the algorithm that one would take.
fn weights(registry: &Registry, query: &Query, only: Option<&str>) -> Result<Vec<Weight>> {
    let ready = all(registry, query, only)?;
    let own = if only.is_some() { ready.clone() } else { shipped(&ready, query) };
    let size = Volume::from(query.size);
    let ranked = rank(if own.is_empty() { &ready } else { &own }, size);
    let Some(best) = ranked.first() else { return Ok(Vec::new()) };
    let time = |fabric: &crate::fabric::Fabric| -> Result<Seconds> {
        Ok(Prepared::stated(best.algorithm, best.form, &query.shape, fabric)?.time(size))
    };
    let fabric = &query.machine.fabric;
    let here = time(fabric)?.0;
    let mut weights = Vec::new();
    // A switch's own rate follows its links': it is in their weight already.
    for figure in Figure::all(fabric).into_iter().filter(|f| *f != Figure::SwitchBandwidth) {
        let Some(value) = figure.get(fabric).filter(|v| v.number().0 > 0.0) else { continue };
        let moved = |by: f64| {
            let mut fabric = fabric.clone();
            figure.set(&mut fabric, value.scaled(Ratio(1.0 + by)));
            time(&fabric)
        };
        let change = (moved(STEP)?.0 - moved(-STEP)?.0) / (2.0 * STEP);
        if change != 0.0 {
            weights.push(Weight {
                figure: figure.name(fabric),
                value: value.to_string(),
                derivative: change / value.number().0,
                elasticity: change / here,
            });
        }
    }
    weights.sort_by(|a, b| b.elasticity.abs().total_cmp(&a.elasticity.abs()));
    Ok(weights)
}

fn sweep(query: &Query, over: String, points: Vec<Point>, weights: Vec<Weight>) -> Sweep {
    Sweep {
        schema: "collcost/sweep/1",
        question: question(query),
        machine: machine(&query.machine),
        over,
        points,
        weights,
    }
}

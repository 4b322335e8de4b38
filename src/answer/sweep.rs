//! The answer over a range: of sizes, of rank counts, of one figure of the machine.

use serde::Serialize;

use super::Expect;
use super::cost::{
    Flip, MachineView, QuestionView, SwitchPoint, bound_of, flips, machine, priceable, question,
    switch_points,
};
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bytes, Ratio, Seconds, Volume};
use crate::cost::price::{Prepared, Price};
use crate::cost::rank::{Candidate, rank};
use crate::machine::query::Query;
use crate::machine::what_if::{Figure, Value};
use crate::measure::expect::Expecting;
use crate::model::algorithm::{Meta, Registry};

/// One algorithm at one point, at its ideal price.
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
    /// What it will take.
    pub expect: Expect,
    /// Where that is known from, in words.
    pub known_from: String,
    /// What any algorithm takes at least, the launch included; absent where a figure is unknown.
    pub bound_s: Option<f64>,
    /// The lowest ideal time of what the machine's own library ships, or of the one asked for.
    pub fastest_shipped: Option<Pick>,
    /// The lowest ideal time of all.
    pub fastest: Option<Pick>,
}

/// What a figure weighs in an ideal price at the question's own point.
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

/// The answer over a range.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sweep {
    /// `collcost/sweep/2`.
    pub schema: &'static str,
    /// The question, at the first size or the largest number of ranks.
    pub question: QuestionView,
    /// The machine.
    pub machine: MachineView,
    /// `size`, `ranks`, or the name of a figure.
    pub over: String,
    /// The points in order.
    pub points: Vec<Point>,
    /// Where a figure is varied, the algorithm that stands for what runs: the weights are its.
    pub weighed: Option<&'static str>,
    /// What each parameter of the machine weighs in its ideal price.
    pub weights: Vec<Weight>,
}

/// What runs over all sizes, and what would be the fastest.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bands {
    /// `collcost/bands/2`.
    pub schema: &'static str,
    /// The question; its size says nothing.
    pub question: QuestionView,
    /// The machine.
    pub machine: MachineView,
    /// What the library runs, by its rules; none where they are not known.
    pub switch_points: Vec<SwitchPoint>,
    /// The lowest ideal time of what the machine's own library ships: each from its size on.
    pub fastest_shipped: Vec<Flip>,
    /// The lowest ideal time of all.
    pub fastest: Vec<Flip>,
}

/// The answer at each of `sizes`.
///
/// # Errors
/// As the main report.
pub fn sizes(
    registry: &Registry,
    query: &Query,
    sizes: &[Bytes],
    only: Option<&str>,
) -> Result<Sweep> {
    let asked = Asked::new(registry, query, only)?;
    let point = |&size: &Bytes| asked.point(&Query { size, ..query.clone() });
    let points = sizes.iter().map(point).collect::<Result<_>>()?;
    Ok(sweep(query, "size".to_owned(), points, (None, Vec::new())))
}

/// The answer for each of `queries`, which differ in their ranks.
///
/// # Errors
/// As the main report; no query at all.
pub fn ranks(registry: &Registry, queries: &[Query], only: Option<&str>) -> Result<Sweep> {
    // The largest question spans the most tiers.
    let largest = queries.iter().max_by_key(|q| q.shape.ranks);
    let largest = largest.ok_or_else(|| Error::input("no number of ranks is given"))?;
    let point = |query: &Query| Asked::new(registry, query, only)?.point(query);
    let points = queries.iter().map(point).collect::<Result<_>>()?;
    Ok(sweep(largest, "ranks".to_owned(), points, (None, Vec::new())))
}

/// The answer for each of `values` of one figure, and what every figure weighs.
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
        let one = Asked::new(registry, &query, only)?.point(&query)?;
        points.push(Point { value: Some(value.number().0), shown: Some(value.to_string()), ..one });
    }
    let weights = weights(registry, query, only)?;
    Ok(sweep(query, figure.name(&query.machine.fabric), points, weights))
}

/// What runs over all sizes from one byte to one tebibyte, and what would be the fastest.
///
/// # Errors
/// As the main report.
pub fn bands(registry: &Registry, query: &Query) -> Result<Bands> {
    let Asked { expecting, ready, own, .. } = Asked::new(registry, query, None)?;
    Ok(Bands {
        schema: "collcost/bands/2",
        question: question(query),
        machine: machine(&query.machine),
        switch_points: switch_points(&expecting),
        fastest_shipped: flips(&own),
        fastest: flips(&ready),
    })
}

/// A question ready for any size.
pub(super) struct Asked<'r> {
    pub expecting: Expecting<'r>,
    /// What has an ideal price.
    pub ready: Vec<Candidate>,
    /// Of those, what the machine's own library ships, or what was asked for.
    pub own: Vec<Candidate>,
}

impl<'r> Asked<'r> {
    pub(super) fn new(registry: &'r Registry, query: &Query, only: Option<&str>) -> Result<Self> {
        let expecting = Expecting::of(registry, query, only)?;
        let ready = priceable(registry, query, only, &expecting)?.ready;
        let own = if only.is_some() { ready.clone() } else { shipped(&ready, query) };
        Ok(Self { expecting, ready, own })
    }

    fn point(&self, query: &Query) -> Result<Point> {
        let size = Volume::from(query.size);
        let best = |ready: &[Candidate]| {
            let ranked = rank(ready, size);
            ranked.first().map(|r| Pick::new(r.algorithm.meta(), &r.price))
        };
        let expected = self.expecting.at(query.size);
        Ok(Point {
            size_bytes: query.size.0,
            ranks: query.shape.ranks,
            value: None,
            shown: None,
            expect: Expect::of(expected, &self.expecting, query.size),
            known_from: self.expecting.known_from(&expected),
            bound_s: bound_of(query, &self.expecting)?.map(|b| b.0),
            fastest_shipped: best(&self.own),
            fastest: best(&self.ready),
        })
    }
}

/// The candidates that the machine's own library ships.
fn shipped(ready: &[Candidate], query: &Query) -> Vec<Candidate> {
    let library = query.library();
    let ships = |c: &&Candidate| c.algorithm.is_shipped(library, &query.shape);
    ready.iter().filter(ships).copied().collect()
}

impl Pick {
    fn new(meta: &Meta, price: &Price) -> Self {
        Self {
            id: meta.id,
            title: meta.title,
            segments: price.segments,
            latency_s: price.latency.0,
            bandwidth_s: price.bandwidth.0,
            time_s: price.total().0,
        }
    }
}

/// The relative step of a numerical derivative: far above rounding, far below any bend.
const STEP: f64 = 1e-6;

/// What each known figure weighs in the ideal price of what stands for what runs.
fn weights(registry: &Registry, query: &Query, only: Option<&str>) -> Result<Weights> {
    let Asked { expecting, ready, .. } = Asked::new(registry, query, only)?;
    let size = Volume::from(query.size);
    let runs = expecting.ideal(query.size).id;
    let stands = |c: &&Candidate| only.is_some() || c.algorithm.meta().id == runs;
    let Some(weighed) = ready.iter().find(stands) else { return Ok((None, Vec::new())) };
    let time = |fabric: &crate::machine::fabric::Fabric| -> Result<Seconds> {
        Ok(Prepared::stated(weighed.algorithm, weighed.form, &query.shape, fabric)?.time(size))
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
    Ok((Some(weighed.algorithm.meta().title), weights))
}

/// Of which algorithm, and what.
type Weights = (Option<&'static str>, Vec<Weight>);

fn sweep(query: &Query, over: String, points: Vec<Point>, (weighed, weights): Weights) -> Sweep {
    Sweep {
        schema: "collcost/sweep/2",
        question: question(query),
        machine: machine(&query.machine),
        over,
        points,
        weighed,
        weights,
    }
}

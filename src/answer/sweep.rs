//! The answer over a range of sizes, of rank counts, or of one parameter of the machine.

use serde::Serialize;

use super::Expect;
use super::cost::{
    Fastest, MachineView, QuestionView, SwitchPoint, bound_of, ideal_switch_points, machine,
    priceable, question, switch_points,
};
use crate::base::error::{Error, Result};
use crate::base::order::falling;
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
    /// P, if it is pipelined and P is more than 1.
    pub segments: u32,
    /// n_α·α.
    pub latency_s: f64,
    /// n_β·M/BW.
    pub bandwidth_s: f64,
    /// All terms plus the launch.
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
    /// The varied parameter's value, if one is varied.
    pub value: Option<f64>,
    /// The same with its unit.
    pub shown: Option<String>,
    /// The expected time.
    pub expect: Expect,
    /// What that is based on, in words.
    pub known_from: String,
    /// The lower bound for any algorithm, including the launch; absent if a parameter is unknown.
    pub bound_s: Option<f64>,
    /// The lowest ideal time of what the machine's own library ships, or of the requested
    /// algorithm.
    pub fastest_shipped: Option<Pick>,
    /// The lowest ideal time of all.
    pub fastest: Option<Pick>,
}

/// The weight of a parameter in an ideal price at the question's own point.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Weight {
    /// The parameter's name.
    pub figure: String,
    /// Its value.
    pub value: String,
    /// ∂T/∂parameter, in seconds per unit of the parameter (s, B/s, s/B).
    pub derivative: f64,
    /// (∂T/T)/(∂parameter/parameter): the percent by which the time changes if the parameter
    /// changes by 1 %.
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
    /// `size`, `ranks`, or the name of a parameter.
    pub over: String,
    /// The points in order.
    pub points: Vec<Point>,
    /// If a parameter is varied, the algorithm that represents what runs: the weights are those of
    /// this algorithm.
    pub weighed: Option<&'static str>,
    /// The weight of each parameter of the machine in its ideal price.
    pub weights: Vec<Weight>,
}

/// What runs over all sizes, and what would be the fastest.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bands {
    /// `collcost/bands/2`.
    pub schema: &'static str,
    /// The question; its size is not used.
    pub question: QuestionView,
    /// The machine.
    pub machine: MachineView,
    /// What the library runs, by its rules; empty if they are not known.
    pub switch_points: Vec<SwitchPoint>,
    /// The lowest ideal time of what the machine's own library ships: each from its size on.
    pub fastest_shipped: Vec<Fastest>,
    /// The lowest ideal time of all.
    pub fastest: Vec<Fastest>,
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
/// As the main report; an empty `queries`.
pub fn ranks(registry: &Registry, queries: &[Query], only: Option<&str>) -> Result<Sweep> {
    // The largest question spans the most tiers.
    let largest = queries.iter().max_by_key(|q| q.shape.ranks);
    let largest = largest.ok_or_else(|| Error::input("no number of ranks is given"))?;
    let point = |query: &Query| Asked::new(registry, query, only)?.point(query);
    let points = queries.iter().map(point).collect::<Result<_>>()?;
    Ok(sweep(largest, "ranks".to_owned(), points, (None, Vec::new())))
}

/// The answer for each of `values` of one parameter, and the weight of every parameter.
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
        query.machine.forget(figure);
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
        fastest_shipped: ideal_switch_points(&own),
        fastest: ideal_switch_points(&ready),
    })
}

/// A question ready for any size.
pub(super) struct Asked<'r> {
    pub expecting: Expecting<'r>,
    /// The algorithms with an ideal price.
    pub ready: Vec<Candidate>,
    /// Those that the machine's own library ships, or the requested one.
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
            known_from: self.expecting.known_from(&expected, query.size),
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

/// The relative step of a numerical derivative: far above rounding, far below any curvature.
const STEP: f64 = 1e-6;

/// The weight of each known parameter in the ideal price of the algorithm that represents what
/// runs.
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
    // A switch's own rate follows its links': their weight already includes it.
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
    falling(&mut weights, |a| a.elasticity.abs());
    Ok((Some(weighed.algorithm.meta().title), weights))
}

/// The algorithm, and its weights.
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

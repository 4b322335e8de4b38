//! Curves that were fitted to logs, with their errors.

use serde::Serialize;

use super::six;
use crate::curve::{Curve, Held, Placed, Steps};
use crate::fit::Curves;
use crate::quantity::Ratio;

/// The curves of a library's collectives.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Fitted {
    /// `collcost/curves/1`.
    pub schema: &'static str,
    /// The files of logs.
    pub files: Vec<String>,
    /// One for each collective, and each type of elements where they are added.
    pub curves: Vec<CurveView>,
    /// What has no curve, and why.
    pub left_out: Vec<LeftOut>,
    /// What to know.
    pub notes: Vec<String>,
    /// The profile that was written.
    pub written: Option<String>,
}

/// What has no curve.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeftOut {
    /// The collective, with the type of elements.
    pub what: String,
    /// Why.
    pub why: String,
}

/// A curve.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CurveView {
    /// The collective's id.
    pub collective: &'static str,
    /// The type of elements, where it matters.
    pub dtype: Option<&'static str>,
    /// Times that were fitted.
    pub rows: u32,
    /// The ranks and nodes that were measured.
    pub placed: Vec<Placed>,
    /// The smallest M.
    pub from_bytes: u64,
    /// The largest.
    pub to_bytes: u64,
    /// δ.
    pub delta: f64,
    /// c.
    pub shape: f64,
    /// L, b and T of each part, in the order of their launch.
    pub components: Vec<ComponentView>,
    /// What the components leave is kept for each size.
    pub residuals: bool,
    /// p10 and p90 of measured over expected, by what was held out: the middle over sizes.
    pub held_out: Vec<HeldView>,
    /// Which library, and whose measurements.
    pub source: String,
}

/// One part of a curve.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComponentView {
    /// How many steps follow each other.
    pub steps: Steps,
    /// o.
    pub launch_s: f64,
    /// α inside a node.
    pub alpha_s: f64,
    /// α between nodes.
    pub alpha_between_s: Option<f64>,
    /// BW on one node.
    #[serde(rename = "bandwidth_Bps")]
    pub bandwidth: Option<f64>,
    /// BW over several.
    #[serde(rename = "bandwidth_between_Bps")]
    pub bandwidth_between: Option<f64>,
}

/// The band of one kind of holding out.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HeldView {
    /// What was held out.
    pub held: &'static str,
    /// A tenth of measurements is below so many times what was expected.
    pub low: f64,
    /// A tenth is above.
    pub high: f64,
}

/// The report of `found` in `files`, written to `written`.
#[must_use]
pub fn curves(found: &Curves, files: Vec<String>, written: Option<String>) -> Fitted {
    let left = |(what, why): &(String, String)| LeftOut { what: what.clone(), why: why.clone() };
    Fitted {
        schema: "collcost/curves/1",
        files,
        curves: found.curves.iter().map(view).collect(),
        left_out: found.left_out.iter().map(left).collect(),
        notes: found.notes.clone(),
        written,
    }
}

fn view(curve: &Curve) -> CurveView {
    let components = curve.components.iter().map(|c| ComponentView {
        steps: c.steps,
        launch_s: six(c.launch.0),
        alpha_s: six(c.alpha.0),
        alpha_between_s: c.alpha_between.map(|a| six(a.0)),
        bandwidth: c.bandwidth.map(|b| six(b.0)),
        bandwidth_between: c.bandwidth_between.map(|b| six(b.0)),
    });
    CurveView {
        collective: curve.collective.id(),
        dtype: curve.dtype.map(crate::sample::DataType::id),
        rows: curve.rows,
        placed: curve.placed.clone(),
        from_bytes: curve.from.0,
        to_bytes: curve.to.0,
        delta: six(curve.delta.0),
        shape: six(curve.shape.0),
        components: components.collect(),
        residuals: curve.residuals.is_some(),
        held_out: curve.bands.iter().map(held).collect(),
        source: curve.source.clone(),
    }
}

fn held((held, points): (Held, Vec<(crate::quantity::Bytes, Ratio, Ratio)>)) -> HeldView {
    let middle = |pick: fn(&(crate::quantity::Bytes, Ratio, Ratio)) -> f64| {
        crate::sample::median(points.iter().map(pick).collect()).unwrap_or(1.0)
    };
    HeldView { held: held.id(), low: six(middle(|p| p.1.0)), high: six(middle(|p| p.2.0)) }
}

//! Curves that were fitted to logs, with their errors.

use serde::Serialize;

use super::fit::ErrorView;
use super::six;
use crate::base::collective::Collective;
use crate::base::quantity::Ratio;
use crate::machine::curve::{Curve, Held, Placed, Steps};
use crate::machine::sample::DataType;
use crate::measure::fit::{Curves, Errors, HeldOut, Protocol, Protocols, Switch};

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
    /// Collectives without a curve, with the reason.
    pub left_out: Vec<LeftOut>,
    /// The costs of NCCL's protocols, for runs whose protocol is known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub protocols: Vec<ProtocolView>,
    /// Algorithms of collectives, each predicted by a fit that did not see it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held_out_algorithms: Vec<HeldOutView>,
    /// The error of all of them together: the median and the 90th percentile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stated_error: Option<ErrorView>,
    /// NCCL's own times compared with the cheapest protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub envelope_error: Option<ErrorView>,
    /// The sizes from which NCCL performs a collective in another way.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub switches: Vec<SwitchView>,
    /// What to know about them.
    pub notes: Vec<String>,
    /// The profile that was written.
    pub written: Option<String>,
}

/// The cost of one protocol: T = launch + n_α·α + n_β·M/BW.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProtocolView {
    /// The protocol, as written in `NCCL_PROTO`.
    pub protocol: &'static str,
    /// The algorithms that were measured, as written in `NCCL_ALGO`.
    pub algorithms: Vec<&'static str>,
    /// The cost of a call before its first step.
    pub launch_s: f64,
    /// α; absent if it cannot be separated from the launch.
    pub alpha_s: Option<f64>,
    /// The low end of α's 95 % interval.
    pub alpha_low_s: Option<f64>,
    /// The high end.
    pub alpha_high_s: Option<f64>,
    /// BW.
    #[serde(rename = "bandwidth_Bps")]
    pub bandwidth: f64,
    /// The low end of BW's 95 % interval.
    #[serde(rename = "bandwidth_low_Bps")]
    pub low: f64,
    /// The high end.
    #[serde(rename = "bandwidth_high_Bps")]
    pub high: f64,
    /// The smallest M that was measured.
    pub from_bytes: u64,
    /// The largest.
    pub to_bytes: u64,
    /// The number of points that were fitted.
    pub points: usize,
    /// The errors of the fit.
    pub error: ErrorView,
}

/// An algorithm of a collective that was held out of a fit.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HeldOutView {
    /// The collective's id.
    pub collective: Collective,
    /// Algorithm and protocol.
    pub chosen: String,
    /// The errors.
    pub error: ErrorView,
    /// The median of predicted over measured.
    pub bias: f64,
}

/// The size from which a collective is performed in one way.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SwitchView {
    /// The collective's id.
    pub collective: Collective,
    /// N.
    pub ranks: u32,
    /// The smallest size at which this was seen.
    pub from_bytes: u64,
    /// Algorithm and protocol.
    pub chosen: String,
}

/// A collective without a curve.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeftOut {
    /// The collective, with the type of elements.
    pub what: String,
    /// The reason.
    pub why: String,
}

/// A curve.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CurveView {
    /// The collective's id.
    pub collective: Collective,
    /// The type of elements, if it matters.
    pub dtype: Option<DataType>,
    /// The number of times that were fitted.
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
    /// Whether the residuals of the components are kept for each size.
    pub residuals: bool,
    /// p10 and p90 of measured over expected, by what was held out: medians over sizes.
    pub held_out: Vec<HeldView>,
    /// The library, and the source of the measurements.
    pub source: String,
}

/// One part of a curve.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComponentView {
    /// The number of steps one after another.
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

/// The band for one way of holding out.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HeldView {
    /// What was held out.
    pub held: &'static str,
    /// A tenth of measurements is below this multiple of the expected time.
    pub low: f64,
    /// A tenth is above this multiple.
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
        protocols: Vec::new(),
        held_out_algorithms: Vec::new(),
        stated_error: None,
        envelope_error: None,
        switches: Vec::new(),
        notes: found.notes.clone(),
        written,
    }
}

impl Fitted {
    /// The same, with the costs of NCCL's protocols.
    #[must_use]
    pub fn with(mut self, found: &Protocols) -> Self {
        self.protocols = found.protocols.iter().map(protocol).collect();
        let held_out = |h: &HeldOut| HeldOutView {
            collective: h.collective,
            chosen: h.chosen.to_string(),
            error: error(h.errors),
            bias: six(h.bias.0),
        };
        self.held_out_algorithms = found.held_out.iter().map(held_out).collect();
        self.stated_error = found.stated.map(error);
        self.envelope_error = found.envelope.map(error);
        let switch = |s: &Switch| SwitchView {
            collective: s.collective,
            ranks: s.ranks,
            from_bytes: s.from.0,
            chosen: s.chosen.to_string(),
        };
        self.switches = found.switches.iter().map(switch).collect();
        for (what, blocks) in &found.unconfirmed {
            let why = format!("{blocks} blocks that NCCL's log does not confirm");
            self.left_out.push(LeftOut { what: what.clone(), why });
        }
        self
    }
}

fn protocol(p: &Protocol) -> ProtocolView {
    let bandwidth = p.beta.bandwidth();
    ProtocolView {
        protocol: p.proto.name(),
        algorithms: p.algos.iter().map(|algo| algo.name()).collect(),
        launch_s: six(p.launch.value.0),
        alpha_s: p.alpha.map(|a| six(a.value.0)),
        alpha_low_s: p.alpha.map(|a| six(a.low.0)),
        alpha_high_s: p.alpha.map(|a| six(a.high.0)),
        bandwidth: six(bandwidth.value.0),
        low: six(bandwidth.low.0),
        high: six(bandwidth.high.0),
        from_bytes: p.from.0,
        to_bytes: p.to.0,
        points: p.points,
        error: error(p.errors),
    }
}

fn error(e: Errors) -> ErrorView {
    ErrorView { median: six(e.median.0), p90: six(e.p90.0), count: e.count }
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
        collective: curve.collective,
        dtype: curve.dtype,
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

fn held((held, points): (Held, Vec<(crate::base::quantity::Bytes, Ratio, Ratio)>)) -> HeldView {
    let middle = |pick: fn(&(crate::base::quantity::Bytes, Ratio, Ratio)) -> f64| {
        crate::base::stats::median(points.iter().map(pick).collect()).unwrap_or(1.0)
    };
    HeldView { held: held.id(), low: six(middle(|p| p.1.0)), high: six(middle(|p| p.2.0)) }
}

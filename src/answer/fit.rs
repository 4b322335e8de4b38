//! A fit: parameters with intervals, errors on held-out data, and the results of the gates.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use serde::Serialize;

use crate::base::quantity::{Ratio, Seconds};
use crate::base::stats::median;
use crate::machine::profile::Profile;
use crate::machine::sample::{Mode, Op, Samples, Wait};
use crate::measure::fit::{
    Apart, Errors, Estimate, Fitted, Gate, Ladder, Line, Predicted, Regimes, Slope, Statistic,
    Verdict, is_fitted,
};

/// A fitted machine.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Fit {
    /// `collcost/fit/1`.
    pub schema: &'static str,
    /// The files of samples.
    pub samples: Vec<String>,
    /// The transport.
    pub transport: Option<String>,
    /// How ranks waited: spinning or polling.
    pub wait: Option<Wait>,
    /// The number of timed runs.
    pub runs: usize,
    /// Points, each an operation with a number of ranks and a size.
    pub points: usize,
    /// The number of points in the joint fit.
    pub fitted_points: usize,
    /// The statistic of a point that was fitted.
    pub statistic: Statistic,
    /// α.
    pub alpha_s: Interval,
    /// β, the long-run time per byte.
    #[serde(rename = "beta_s_per_B")]
    pub beta: Interval,
    /// 1/β.
    #[serde(rename = "bandwidth_Bps")]
    pub bandwidth: Interval,
    /// The time per byte, by its position in the message.
    pub slopes: Vec<SlopeView>,
    /// γ.
    #[serde(rename = "gamma_s_per_B")]
    pub gamma: Option<Interval>,
    /// Copies in a rank's memory, on all ranks at once, if they were measured.
    pub copy: Option<LadderView>,
    /// Additions (f32) in a rank's memory, on all ranks at once, if they were measured.
    pub reduce: Option<LadderView>,
    /// n_β of the double binary tree as measured.
    pub c_real: Option<Interval>,
    /// The rate each way of an exchange over the rate one way, if they certainly differ.
    pub duplex_factor: Option<Interval>,
    /// The bytes of a message after which that holds; absent: it holds for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplex_above_bytes: Option<u64>,
    /// For k messages out of one port at once, the share of the rate that they reach together.
    pub sharing: Vec<Sharing>,
    /// A token bucket, if the ladder shows one.
    pub token_bucket: Option<BucketView>,
    /// α and β of the other statistic.
    pub other: OtherView,
    /// The errors of predictions.
    pub errors: ErrorsView,
    /// Each operation, predicted by a fit without it.
    pub operations: Vec<Operation>,
    /// R² of the logarithms.
    pub r2_log: f64,
    /// The condition number of the design.
    pub condition: f64,
    /// The largest variance inflation of α, β and γ.
    pub variance_inflation: f64,
    /// The share of the blocks that were disturbed.
    pub disturbed: f64,
    /// The results of the gates.
    pub gates: Vec<GateView>,
    /// The worst of these results.
    pub quality: Verdict,
    /// Operations in the samples that the fit does not know, with the number of blocks.
    pub left_out: Vec<LeftOutView>,
    /// What to know before trusting it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Links inside groups of ranks, if they were measured by themselves; all else is about links between
    /// groups then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inside: Option<Box<Inside>>,
    /// The profile that was written.
    pub written: Option<String>,
    /// Every point with its predictions, if requested.
    pub residuals: Vec<Residual>,
}

/// Links inside groups of ranks.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Inside {
    /// The ranks of a group.
    pub ranks: u32,
    /// Ports that they share towards other groups; absent if unknown: each rank is taken to have its own.
    pub ports: Option<u32>,
    /// How far expectations are off collectives of all ranks, which no fit has seen; absent if there were none.
    pub whole: Option<ErrorView>,
    /// The fit of these links.
    pub fit: Fit,
}

/// A value with its 95 % interval.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interval {
    /// The value.
    pub value: f64,
    /// The low end.
    pub low: f64,
    /// The high end.
    pub high: f64,
}

impl<T> From<Estimate<T>> for Interval
where
    T: Into<Number>,
{
    fn from(e: Estimate<T>) -> Self {
        let Estimate { value, low, high } = e.map(|v| v.into().0);
        Self { value, low, high }
    }
}

/// A quantity in its base unit.
pub struct Number(f64);

macro_rules! numbers {
    ($($quantity:ident),*) => {$(
        impl From<crate::base::quantity::$quantity> for Number {
            fn from(quantity: crate::base::quantity::$quantity) -> Self {
                Self(quantity.0)
            }
        }
    )*};
}

numbers!(Seconds, SecondsPerByte, Bandwidth, Ratio);

/// The cost of a byte between two sizes.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SlopeView {
    /// The byte of a message from which on it applies.
    pub from_bytes: u64,
    /// The byte up to which it applies; absent: no limit.
    pub to_bytes: Option<u64>,
    /// The time per byte in this range.
    #[serde(rename = "beta_s_per_B")]
    pub beta: Interval,
}

/// Work in memory.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LadderView {
    /// The time of zero bytes.
    pub start_s: Interval,
    /// The time per byte, by the total size.
    pub slopes: Vec<SlopeView>,
}

/// How messages out of one port share it.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sharing {
    /// The number of messages at once.
    pub messages: u32,
    /// The share of the rate that they reach together.
    pub part: Interval,
}

/// A token bucket.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BucketView {
    /// The long-run rate.
    #[serde(rename = "rate_Bps")]
    pub rate: f64,
    /// The bytes that may leave at once.
    pub burst_bytes: f64,
}

/// α and β of a statistic.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OtherView {
    /// The statistic.
    pub statistic: Statistic,
    /// α.
    pub alpha_s: Interval,
    /// 1/β.
    #[serde(rename = "bandwidth_Bps")]
    pub bandwidth: Interval,
}

/// The errors of predictions.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ErrorsView {
    /// On held-out algorithms; absent if there is only one.
    pub algorithms: Option<RegimesView>,
    /// On held-out sizes.
    pub sizes: Option<RegimesView>,
    /// With α and β alone, without knots: the parameters that prices use.
    pub line: Option<RegimesView>,
}

/// Errors of all points, and of those dominated by latency, by both, or by bytes.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RegimesView {
    /// All points.
    pub all: ErrorView,
    /// Times below 3 α.
    pub latency: Option<ErrorView>,
    /// Between.
    pub middle: Option<ErrorView>,
    /// Times above 10 α.
    pub bulk: Option<ErrorView>,
}

/// |prediction/time − 1|.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ErrorView {
    /// The median: half of the errors are smaller.
    pub median: f64,
    /// The 90th percentile: nine of ten are smaller.
    pub p90: f64,
    /// The number of errors.
    pub count: usize,
}

/// One operation, predicted by a fit without it.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Operation {
    /// The operation.
    pub op: String,
    /// Its points.
    pub points: usize,
    /// The median of prediction over time, minus 1.
    pub error: Option<f64>,
    /// The same for times above 10 α.
    pub bulk_error: Option<f64>,
    /// Why it is left out of the joint fit, or only its small messages take part.
    pub apart: Option<String>,
    /// Whether the model does not describe it: all its points deviate by more than a tenth.
    pub off: bool,
}

/// The result of one gate.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GateView {
    /// Its name.
    pub name: &'static str,
    /// The result.
    pub verdict: Verdict,
    /// What it observed.
    pub said: String,
    /// What to do, if it objects to the fit.
    pub help: Option<&'static str>,
}

/// The result of a gate, and what to do if it objects.
pub(super) fn gate(gate: &Gate) -> GateView {
    GateView {
        name: gate.name,
        verdict: gate.verdict,
        said: gate.said.clone(),
        help: (gate.verdict != Verdict::Good).then_some(gate.help),
    }
}

/// Samples that were not used.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeftOutView {
    /// The operation, as named in the file.
    pub op: String,
    /// The number of blocks.
    pub blocks: usize,
}

/// A point with its predictions.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Residual {
    /// The operation.
    pub op: String,
    /// N.
    pub ranks: u32,
    /// M.
    pub size_bytes: u64,
    /// The number of runs.
    pub runs: usize,
    /// Half the width of the median's 95 % interval, over the median.
    pub precision: f64,
    /// The time that was fitted.
    pub time_s: f64,
    /// The prediction of the whole model.
    pub predicted_s: Option<f64>,
    /// Prediction over time, minus 1.
    pub error: Option<f64>,
    /// The same by a fit without the algorithm.
    pub held_out_algorithm_error: Option<f64>,
    /// The same by a fit without the size.
    pub held_out_size_error: Option<f64>,
}

fn errors(e: Errors) -> ErrorView {
    ErrorView { median: e.median.0, p90: e.p90.0, count: e.count }
}

fn regimes(r: Regimes) -> RegimesView {
    let Regimes { all, latency, middle, bulk } = r;
    RegimesView {
        all: errors(all),
        latency: latency.map(errors),
        middle: middle.map(errors),
        bulk: bulk.map(errors),
    }
}

fn slope(s: &Slope) -> SlopeView {
    SlopeView { from_bytes: s.from.0, to_bytes: s.to.map(|b| b.0), beta: s.each.into() }
}

fn ladder(l: &Ladder) -> LadderView {
    LadderView { start_s: l.start.into(), slopes: l.slopes.iter().map(slope).collect() }
}

/// The report of a fit; with `residuals` it contains every point.
#[must_use]
pub fn fit(fitted: &Fitted, samples: &Samples, residuals: bool, written: Option<String>) -> Fit {
    let Line { statistic, alpha, beta } = fitted.link;
    let origin = &samples.origin;
    Fit {
        schema: "collcost/fit/1",
        samples: origin.files.clone(),
        transport: origin.transport.clone(),
        wait: origin.wait,
        runs: samples.count(),
        points: fitted.points.len(),
        fitted_points: fitted.by_size.len(),
        statistic,
        alpha_s: alpha.into(),
        beta: beta.into(),
        bandwidth: fitted.link.beta.bandwidth().into(),
        slopes: fitted.slopes.iter().map(slope).collect(),
        gamma: fitted.gamma.map(Into::into),
        copy: fitted.copies.as_ref().map(ladder),
        reduce: fitted.additions.as_ref().map(ladder),
        c_real: fitted.c_real.map(Into::into),
        duplex_factor: fitted.duplex.map(Into::into),
        duplex_above_bytes: fitted.measured.duplex_after().map(|above| above.0),
        sharing: fitted
            .sharing
            .iter()
            .map(|&(messages, part)| Sharing { messages, part: part.into() })
            .collect(),
        token_bucket: fitted
            .bucket
            .map(|b| BucketView { rate: b.rate.0, burst_bytes: b.burst.0 as f64 }),
        other: OtherView {
            statistic: fitted.other.statistic,
            alpha_s: fitted.other.alpha.into(),
            bandwidth: fitted.other.beta.bandwidth().into(),
        },
        errors: ErrorsView {
            algorithms: fitted.errors_by_algorithm.map(regimes),
            sizes: fitted.errors_by_size.map(regimes),
            line: fitted.errors_of_line.map(regimes),
        },
        operations: operations(fitted),
        r2_log: fitted.r2_log.0,
        condition: fitted.condition.0,
        variance_inflation: fitted.inflation.0,
        disturbed: fitted.disturbed.0,
        gates: fitted.gates.iter().map(gate).collect(),
        quality: fitted.verdict(),
        left_out: left_out(samples),
        notes: samples.notes.clone(),
        inside: None,
        written,
        residuals: if residuals { table(fitted) } else { Vec::new() },
    }
}

impl Fit {
    /// With the links `inside` groups, which `near` has the times of, as `far` has those between groups;
    /// `profile` has both.
    #[must_use]
    pub fn around(
        mut self,
        inside: Self,
        near: &Samples,
        far: &Samples,
        profile: &Profile,
    ) -> Self {
        let errors = profile.fit.as_ref().and_then(|fit| fit.errors.algorithms);
        let count = far.whole.len();
        self.inside = Some(Box::new(Inside {
            ranks: near.origin.span.map_or(1, NonZeroU32::get),
            ports: far.nics.map(NonZeroU32::get),
            whole: errors.filter(|_| count > 0).map(|errors| ErrorView {
                median: errors.median.0,
                p90: errors.p90.0,
                count,
            }),
            fit: inside,
        }));
        self
    }
}

/// Operations that the fit does not know: those that the file's reader left out, libraries' own, and those
/// whose runs were in flight together.
fn left_out(samples: &Samples) -> Vec<LeftOutView> {
    let mut all: BTreeMap<String, usize> = samples.left_out.iter().cloned().collect();
    for block in &samples.blocks {
        let op = match (&block.op, block.mode) {
            (Op::Library(_) | Op::Forced(_), _) | (_, Mode::Isolated) => block.op.to_string(),
            (op, Mode::Stream) => format!("{op}, one run after the other without a pause"),
        };
        if !is_fitted(block) {
            *all.entry(op).or_default() += 1;
        }
    }
    all.into_iter().map(|(op, blocks)| LeftOutView { op, blocks }).collect()
}

fn operations(fitted: &Fitted) -> Vec<Operation> {
    let mut names: Vec<_> = fitted.points.iter().map(|p| &p.op).collect();
    names.dedup();
    let line = |op: &crate::machine::sample::Op| {
        let own: Vec<usize> =
            (0..fitted.points.len()).filter(|&i| fitted.points[i].op == *op).collect();
        let told: Vec<&Predicted> =
            fitted.by_algorithm.iter().filter(|f| fitted.points[f.point].op == *op).collect();
        let time = |f: &Predicted| fitted.points[f.point].time(fitted.link.statistic);
        let bulk = |f: &&&Predicted| time(f) > Seconds(10.0 * fitted.alpha().0);
        let all: Vec<f64> = told.iter().map(|f| f.error.0).collect();
        let of_all =
            |why: &Apart| *why != Apart::Lost || own.iter().all(|&i| fitted.points[i].lost);
        let mut apart = fitted.apart.iter().filter(|(i, why)| own.contains(i) && of_all(why));
        let why = apart.next().map(|(_, why)| match why {
            Apart::Local => "no messages",
            Apart::Bucket => "a token bucket hides the rate: up to 64 B only",
            Apart::FanOut => "it shows how a port is shared",
            Apart::Tree => "it has its own c_real",
            Apart::Lost => "other processes had the CPUs in nearly all runs",
        });
        let one_sided = all.iter().all(|e| *e > 0.0) || all.iter().all(|e| *e < 0.0);
        Operation {
            op: op.to_string(),
            points: own.len(),
            error: median(all.clone()),
            bulk_error: median(told.iter().filter(bulk).map(|f| f.error.0).collect()),
            apart: why.map(str::to_owned),
            off: all.len() >= 4 && one_sided && median(all).is_some_and(|e| e.abs() > 0.1),
        }
    };
    names.into_iter().map(line).collect()
}

fn table(fitted: &Fitted) -> Vec<Residual> {
    let told = |list: &[Predicted], i: usize| {
        list.iter().find(|f| f.point == i).map(|f: &Predicted| f.error.0)
    };
    let row = |(i, p): (usize, &crate::measure::fit::Point)| {
        let time = p.time(fitted.link.statistic);
        let predicted = fitted.predicted[i];
        let error = predicted.map(|said| Ratio(said.0 / time.0 - 1.0).0);
        Residual {
            op: p.op.to_string(),
            ranks: p.ranks,
            size_bytes: p.size.0,
            runs: p.count,
            precision: p.precision.0,
            time_s: time.0,
            predicted_s: predicted.map(|s| s.0),
            error,
            held_out_algorithm_error: told(&fitted.by_algorithm, i),
            held_out_size_error: told(&fitted.by_size, i),
        }
    };
    fitted.points.iter().enumerate().map(row).collect()
}

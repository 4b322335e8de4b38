//! A step's collectives, their times, and how much of them computation hides.

use serde::Serialize;

use super::Expect;
use crate::base::collective::Collective;
use crate::base::error::Result;
use crate::base::order::falling;
use crate::base::quantity::{Ratio, Volume};
use crate::machine::what_if::Figure;
use crate::model::algorithm::Registry;
use crate::plan::Axis;
use crate::plan::{CallPrice, From, Hides, Mode, NODE_LIMITED, Priced, Step, Tweak, price};

/// A step of a model.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Plan {
    /// `collcost/plan/1`.
    pub schema: &'static str,
    /// The steps, in the order of the file.
    pub steps: Vec<StepView>,
}

/// One step.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepView {
    /// Its name.
    pub name: String,
    /// `training` or `decoding`.
    pub mode: Mode,
    /// The machine.
    pub machine: String,
    /// The total number of ranks.
    pub ranks: u64,
    /// The degrees of parallelism above 1, such as `tp 8`.
    pub layout: Vec<String>,
    /// Its collectives.
    pub calls: Vec<CallView>,
    /// The time of all collectives, one after another.
    pub messages_s: f64,
    /// The part of that which computation does not hide.
    pub exposed_s: f64,
    /// The computing time of a rank; absent if it is not given. For an end-to-end rate, it is what
    /// the exposed collectives leave of the step, including the bubble.
    pub compute_s: Option<f64>,
    /// The time that a rank waits for other stages of a pipeline.
    pub bubble_s: Option<f64>,
    /// Whether the step is derived from an end-to-end rate.
    pub end_to_end: bool,
    /// The sum of computing, waiting, and exposed communication.
    pub step_s: f64,
    /// The same with every collective at the short end of its band.
    pub step_low_s: f64,
    /// The same with every collective at the long end of its band.
    pub step_high_s: f64,
    /// The weight of each parameter of the machine: percent of the collectives per percent of it.
    pub weights: Vec<WeightView>,
    /// What to know before trusting a number.
    pub notes: Vec<String>,
}

/// One collective of a step.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CallView {
    /// The parallelism that needs it.
    pub axis: Axis,
    /// Its purpose.
    pub name: String,
    /// The collective's id.
    pub collective: Collective,
    /// Ranks of its group.
    pub ranks: u32,
    /// The distance in ranks from one of them to the next.
    pub stride: u32,
    /// Nodes of its group.
    pub nodes: u32,
    /// M of a call; of gradients in buckets the mean.
    pub size_bytes: f64,
    /// Whether the calls are buckets of one vector, of different sizes.
    pub in_buckets: bool,
    /// Calls per step; below 1 if it is not in every step.
    pub calls: f64,
    /// What the library runs.
    pub algorithm: String,
    /// The expected time of one call; absent if tokens take their own routes.
    pub expect: Option<Expect>,
    /// The time of one call.
    pub time_s: f64,
    /// The time of all calls of a step.
    pub total_s: f64,
    /// The part of that which is not data transfer.
    pub latency_s: f64,
    /// The part that computation does not hide.
    pub exposed_s: f64,
    /// Its share of all collectives.
    pub share: f64,
    /// The number of groups that share a NIC.
    pub nic_sharing: f64,
    /// Bytes per step through a rank's port inside its node.
    pub inside_bytes: Option<f64>,
    /// Bytes per step through a NIC.
    pub between_bytes: Option<f64>,
    /// The routes of tokens, for calls between experts.
    pub experts: Option<ExpertsView>,
}

/// One dispatch or combine of tokens.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExpertsView {
    /// Nodes that a token reaches, on average.
    pub nodes_hit: f64,
    /// Ranks that it reaches.
    pub ranks_hit: f64,
    /// Bytes that a rank sends to other nodes if a token crosses once per node.
    pub between_bytes: f64,
    /// Bytes inside nodes in that case.
    pub inside_bytes: f64,
    /// Bytes otherwise: each token is sent to every expert.
    pub plain_bytes: f64,
    /// The busiest rank's tokens divided by the mean.
    pub skew: f64,
    /// Bytes on the wire between nodes divided by the time.
    #[serde(rename = "wire_Bps")]
    pub wire: f64,
    /// The rate that DeepEP prints: it counts a token's own node too.
    #[serde(rename = "logical_Bps")]
    pub logical: f64,
}

/// The weight of one parameter.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WeightView {
    /// The parameter, such as `inter.bw`.
    pub figure: String,
    /// By how many percent the collectives slow down for one percent more of it.
    pub elasticity: f64,
}

/// Prices the steps, with `tweak` applied to their machines.
///
/// # Errors
/// As [`price`].
pub fn plan(registry: &Registry, steps: &[Step], tweak: &Tweak, weigh: bool) -> Result<Plan> {
    let views: Result<Vec<StepView>> =
        steps.iter().map(|step| step_view(registry, step, tweak, weigh)).collect();
    Ok(Plan { schema: "collcost/plan/1", steps: views? })
}

fn step_view(registry: &Registry, step: &Step, tweak: &Tweak, weigh: bool) -> Result<StepView> {
    let priced = price(registry, step, tweak)?;
    let machine = step.machine.machine(Collective::AllReduce)?;
    let p = &step.parallel;
    let degrees = [("tp", p.tp), ("cp", p.cp), ("dp", p.dp), ("pp", p.pp), ("ep", p.ep)];
    let above = degrees.into_iter().filter(|(_, degree)| *degree > 1);
    let weights = if weigh { weights(registry, step, tweak, &priced)? } else { Vec::new() };
    let all = priced.messages.0.max(f64::MIN_POSITIVE);
    Ok(StepView {
        name: step.name.clone(),
        mode: step.mode,
        machine: machine.name.clone(),
        ranks: p.ranks(),
        layout: above.map(|(axis, degree)| format!("{axis} {degree}")).collect(),
        calls: priced.calls.iter().map(|call| view(call, all)).collect(),
        messages_s: priced.messages.0,
        exposed_s: priced.exposed.0,
        compute_s: priced.compute.map(|c| c.0),
        bubble_s: priced.bubble.map(|b| b.0),
        end_to_end: priced.end_to_end.is_some(),
        step_s: priced.time().0,
        step_low_s: priced.low.0,
        step_high_s: priced.high.0,
        weights,
        notes: notes(step, &priced),
    })
}

fn view(priced: &CallPrice, all: f64) -> CallView {
    let call = &priced.call;
    let bytes = |v: Option<Volume>| v.map(|v| v.0);
    let experts = priced.traffic.map(|traffic| {
        let rate = |v: Volume| v.0 / priced.time.0.max(f64::MIN_POSITIVE);
        // Every copy is sent, the same number to each node, and DeepEP counts all.
        let nodes = f64::from(priced.lies.nodes.max(1));
        let sent = match call.routed.is_some_and(|r| r.sends_every_copy()) {
            true => (Volume(traffic.plain.0 * (nodes - 1.0) / nodes), traffic.plain),
            false => (traffic.between, traffic.logical),
        };
        ExpertsView {
            nodes_hit: traffic.nodes_hit.0,
            ranks_hit: traffic.ranks_hit.0,
            between_bytes: traffic.between.0,
            inside_bytes: traffic.inside.0,
            plain_bytes: traffic.plain.0,
            skew: call.routed.map_or(1.0, |r| r.skew.0),
            wire: rate(sent.0),
            logical: rate(sent.1),
        }
    });
    let in_buckets = call.hides == Hides::Buckets;
    CallView {
        axis: call.axis,
        name: call.name.clone(),
        collective: call.collective,
        ranks: call.group.ranks,
        stride: call.group.stride,
        nodes: priced.lies.nodes,
        // Of several reductions each has all buckets.
        size_bytes: if in_buckets {
            call.size.0 * call.count.0 / priced.calls.0.max(1.0)
        } else {
            call.size.0
        },
        in_buckets,
        calls: priced.calls.0,
        algorithm: priced.algorithm.clone(),
        expect: priced.expected.as_ref().map(|(expected, runs, size)| {
            let factor = call.collective.busbw_factor(call.group.ranks);
            let moves = size.0 > 0.0 && expected.time.0 > 0.0;
            let busbw = moves.then(|| *size / expected.time * factor);
            Expect::stated(*expected, runs.clone(), busbw)
        }),
        time_s: priced.time.0,
        total_s: priced.total.0,
        latency_s: priced.latency.0,
        exposed_s: priced.exposed.0,
        share: priced.total.0 / all,
        nic_sharing: priced.sharing.0,
        inside_bytes: bytes(priced.inside),
        between_bytes: bytes(priced.between),
        experts,
    }
}

/// The largest first; a parameter without effect is left out.
fn weights(
    registry: &Registry,
    step: &Step,
    tweak: &Tweak,
    base: &Priced,
) -> Result<Vec<WeightView>> {
    const STEP: f64 = 0.01;
    let fabric = step.machine.machine(Collective::AllReduce)?.fabric;
    let mut weights = Vec::new();
    for figure in Figure::all(&fabric) {
        let name = figure.name(&fabric);
        let messages = |factor: f64| {
            let scale = Some((name.clone(), Ratio(factor)));
            price(registry, step, &Tweak { scale, ..tweak.clone() }).map(|p| p.messages.0)
        };
        // Not every collective's machine has the parameter.
        let (Ok(more), Ok(less)) = (messages(1.0 + STEP), messages(1.0 - STEP)) else { continue };
        let elasticity = (more - less) / (2.0 * STEP * base.messages.0.max(f64::MIN_POSITIVE));
        if elasticity.abs() >= 5e-4 {
            weights.push(WeightView { figure: name, elasticity });
        }
    }
    falling(&mut weights, |a| a.elasticity.abs());
    Ok(weights)
}

fn notes(step: &Step, priced: &Priced) -> Vec<String> {
    let mut notes = Vec::new();
    let p = &step.parallel;
    match step.compute {
        None => notes.push(
            "its computing time is not given, so nothing is hidden: give forward and backward, or \
             kernels, such as kernels = \"550TFLOP/s\""
                .to_owned(),
        ),
        Some(compute) if compute.from == From::EndToEnd => notes.push(
            "the rate is end to end, as papers publish it: it gives the whole step, and compute is \
             what the exposed collectives leave of it; a rate of kernels is written kernels = \
             \"550TFLOP/s\""
                .to_owned(),
        ),
        Some(compute) if compute.from == From::Kernels => notes.push(
            "the passes follow from 2 operations per parameter and token forward and 4 back; \
             attention's own products are left out"
                .to_owned(),
        ),
        Some(_) => {}
    }
    if let Some(whole) = priced.end_to_end.filter(|whole| priced.exposed > *whole) {
        notes.push(format!(
            "by its rate the step takes {whole}, but the exposed collectives alone take longer: \
             rate, layout and machine do not belong to one run"
        ));
    }
    if step.mode == Mode::Training && p.pp > 1 && priced.end_to_end.is_none() {
        notes.push(
            "a 1F1B pipeline: a stage idles (stages − 1)·(forward + backward); interleaving \
             divides that and multiplies the hops"
                .to_owned(),
        );
    }
    let reduces =
        |c: &CallPrice| c.call.axis == Axis::Tp && c.call.collective == Collective::AllReduce;
    if step.mode == Mode::Decoding && step.engine.is_none() && priced.calls.iter().any(reduces) {
        notes.push(
            "tp: the library's all-reduces; engine = \"vllm\", or another inference engine, prices \
             its own kernels"
                .to_owned(),
        );
    }
    for call in &priced.calls {
        if call.sharing.0 > 1.0 {
            notes.push(format!(
                "{}: {} groups on a node share its NICs, {:.3} per NIC",
                call.call.name, call.lies.beside, call.sharing.0
            ));
        }
        if call.lies.uneven {
            notes.push(format!(
                "{}: groups of {} at every {} ranks do not divide over nodes; the worst placed \
                 group is priced",
                call.call.name, call.call.group.ranks, call.call.group.stride
            ));
        }
    }
    if priced.calls.iter().any(|c| c.algorithm == NODE_LIMITED) {
        notes.push(
            "tokens cross once per node, over the network and the inner links at the same time; \
             experts are drawn uniformly, fp8 scales are left out"
                .to_owned(),
        );
    }
    if step.sync.every > 1 {
        notes.push(format!(
            "replicas synchronize every {} steps: each step carries its share",
            step.sync.every
        ));
    }
    notes.dedup();
    notes
}

/// Two plans side by side.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlanDiff {
    /// `collcost/plan-diff/1`.
    pub schema: &'static str,
    /// Steps of both by name, then those of only one.
    pub steps: Vec<StepDiff>,
}

/// A step before and now.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepDiff {
    /// Its name.
    pub name: String,
    /// The whole step before; absent if it is new.
    pub old_s: Option<f64>,
    /// The whole step now; absent if it was removed.
    pub new_s: Option<f64>,
    /// Exposed time before.
    pub old_exposed_s: Option<f64>,
    /// Exposed time now.
    pub new_exposed_s: Option<f64>,
    /// Its collectives that differ.
    pub calls: Vec<CallDiff>,
}

/// A collective before and now.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CallDiff {
    /// The parallelism and the purpose.
    pub name: String,
    /// Before: ranks, size, calls.
    pub old: Option<String>,
    /// Now.
    pub new: Option<String>,
    /// All calls of a step before.
    pub old_s: Option<f64>,
    /// All calls of a step now.
    pub new_s: Option<f64>,
}

/// The changes from `old` to `new`.
#[must_use]
pub fn plan_diff(old: &Plan, new: &Plan) -> PlanDiff {
    let mut steps = Vec::new();
    let find = |plan: &Plan, name: &str| plan.steps.iter().position(|s| s.name == name);
    let pair = |a: Option<&StepView>, b: Option<&StepView>| {
        let name = a.or(b).map(|s| s.name.clone()).unwrap_or_default();
        StepDiff {
            name,
            old_s: a.map(|s| s.step_s),
            new_s: b.map(|s| s.step_s),
            old_exposed_s: a.map(|s| s.exposed_s),
            new_exposed_s: b.map(|s| s.exposed_s),
            calls: calls_diff(a.map_or(&[], |s| &s.calls), b.map_or(&[], |s| &s.calls)),
        }
    };
    for step in &old.steps {
        steps.push(pair(Some(step), find(new, &step.name).map(|i| &new.steps[i])));
    }
    for step in new.steps.iter().filter(|s| find(old, &s.name).is_none()) {
        steps.push(pair(None, Some(step)));
    }
    PlanDiff { schema: "collcost/plan-diff/1", steps }
}

fn calls_diff(old: &[CallView], new: &[CallView]) -> Vec<CallDiff> {
    let key = |c: &CallView| format!("{} {}", c.axis, c.name);
    let what = |c: &CallView| {
        format!(
            "{} of {} x {} on {} ranks",
            c.collective.id(),
            Volume(c.size_bytes),
            c.calls,
            c.ranks
        )
    };
    let same = |a: &CallView, b: &CallView| what(a) == what(b) && a.total_s == b.total_s;
    let mut diffs = Vec::new();
    for a in old {
        let b = new.iter().find(|b| key(b) == key(a));
        if b.is_some_and(|b| same(a, b)) {
            continue;
        }
        diffs.push(CallDiff {
            name: key(a),
            old: Some(what(a)),
            new: b.map(what),
            old_s: Some(a.total_s),
            new_s: b.map(|b| b.total_s),
        });
    }
    for b in new.iter().filter(|b| !old.iter().any(|a| key(a) == key(b))) {
        let (name, what) = (key(b), what(b));
        diffs.push(CallDiff {
            name,
            old: None,
            new: Some(what),
            old_s: None,
            new_s: Some(b.total_s),
        });
    }
    diffs
}

/// One key of a step, over several values.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlanVary {
    /// `collcost/plan-vary/1`.
    pub schema: &'static str,
    /// The step.
    pub step: String,
    /// The key.
    pub key: String,
    /// The step for each value, in the order given.
    pub values: Vec<VaryView>,
    /// The value with the shortest step.
    pub best: String,
    /// Other values whose step is at most 1 % longer.
    pub as_good: Vec<String>,
    /// The rest whose bands meet that of the best: it is not certain that their steps are longer.
    pub open: Vec<String>,
}

/// The step for one value.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VaryView {
    /// The value.
    pub value: String,
    /// The step.
    pub step: StepView,
}

/// Combines the steps of all values; there is at least one.
#[must_use]
pub fn plan_vary(key: String, values: Vec<(String, StepView)>) -> PlanVary {
    let best = values.iter().min_by(|a, b| a.1.step_s.total_cmp(&b.1.step_s));
    let (least, most) = best.map_or((0.0, 0.0), |(_, s)| (s.step_s, s.step_high_s));
    let best = best.map(|(value, _)| value.clone()).unwrap_or_default();
    let near = |(value, s): &&(String, StepView)| *value != best && s.step_s <= 1.01 * least;
    let meets = |(value, s): &&(String, StepView)| {
        *value != best && s.step_s > 1.01 * least && s.step_low_s <= most
    };
    PlanVary {
        schema: "collcost/plan-vary/1",
        as_good: values.iter().filter(near).map(|(value, _)| value.clone()).collect(),
        open: values.iter().filter(meets).map(|(value, _)| value.clone()).collect(),
        step: values.first().map(|(_, s)| s.name.clone()).unwrap_or_default(),
        best,
        key,
        values: values.into_iter().map(|(value, step)| VaryView { value, step }).collect(),
    }
}

//! Buckets of gradients: their sizes, their calls, and the best cap.

use serde::Serialize;

use super::Expect;
use crate::base::collective::Collective;
use crate::base::error::Result;
use crate::base::quantity::{Bytes, Seconds};
use crate::machine::query::Query;
use crate::machine::sample::DataType;
use crate::measure::expect::{Expectation, Expecting};
use crate::plan::bucket::{Bucket, Caps, Gradients, Limit, Order, Rule, caps, pack, timeline};

/// How a framework fuses the gradients of a model, and the cost of that.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Buckets {
    /// `collcost/bucket/1`.
    pub schema: &'static str,
    /// The rule, such as `ddp`.
    pub rule: &'static str,
    /// The framework that it belongs to.
    pub rule_title: &'static str,
    /// The source of the rule.
    pub rule_source: String,
    /// What sums the gradients of a bucket.
    pub collective: Collective,
    /// The limit of the first bucket, if it has its own.
    pub first_bytes: Option<u64>,
    /// The limit of the others.
    pub cap_bytes: u64,
    /// The most tensors of a bucket, if their number is limited.
    pub most_tensors: Option<usize>,
    /// Gradients in all.
    pub gradients_bytes: u64,
    /// The number of tensors; absent if only their bytes are known.
    pub tensors: Option<usize>,
    /// The buckets, in the order in which they are sent.
    pub buckets: Vec<BucketView>,
    /// The cost of the calls for these buckets; absent if no ranks were given.
    pub cost: Option<BucketCost>,
    /// What to know before trusting a number.
    pub notes: Vec<String>,
}

/// One bucket.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BucketView {
    /// Its bytes.
    pub bytes: u64,
    /// The type of its elements.
    pub dtype: Option<DataType>,
    /// The limit that closed it; absent if the tensors ended, and for sparse gradients.
    pub limit_bytes: Option<u64>,
    /// Its tensors in the order in which they were added, by name.
    pub tensors: Vec<String>,
    /// The time of its call.
    pub time_s: Option<f64>,
    /// What the library runs.
    pub algorithm: Option<String>,
    /// The expected time of the call.
    pub expect: Option<Expect>,
    /// When its last gradient is ready, from the start of the backward pass.
    pub ready_s: Option<f64>,
    /// When its call starts.
    pub start_s: Option<f64>,
    /// When its call ends.
    pub end_s: Option<f64>,
}

/// The cost of the calls.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BucketCost {
    /// The machine.
    pub machine: String,
    /// N.
    pub ranks: u32,
    /// Nodes.
    pub nodes: u32,
    /// The time of all calls, one after another.
    pub calls_s: f64,
    /// The same with each call at the short end of its band.
    pub calls_low_s: f64,
    /// The same with each call at the long end of its band.
    pub calls_high_s: f64,
    /// The part of that which is not data transfer: the latency of messages, and launches.
    pub latency_s: f64,
    /// The time of one call per tensor instead; absent if the tensors are not known.
    pub unfused_s: Option<f64>,
    /// The time of one call with all gradients.
    pub single_s: f64,
    /// The size of one call at which latency and data transfer take equally long.
    pub even_bytes: Option<f64>,
    /// The time of the backward pass that hides calls.
    pub backward_s: Option<f64>,
    /// The time that the backward pass does not hide.
    pub exposed_s: Option<f64>,
    /// Other caps; absent without a backward pass, since one bucket is then always best.
    pub search: Option<Search>,
}

/// Caps that were tried.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Search {
    /// The smallest cap with which the step ends first.
    pub best_bytes: u64,
    /// The number of buckets with it.
    pub best_buckets: usize,
    /// The time that the backward pass does not hide with it.
    pub best_exposed_s: f64,
    /// Whether the step certainly ends earlier with it than with the rule's own cap: even if the
    /// calls with the best cap are at the long end of their bands and those with the rule's own cap
    /// at the short end.
    pub certain: bool,
    /// From this cap ...
    pub flat_from_bytes: u64,
    /// ... to this one the step ends at most 1 % later.
    pub flat_to_bytes: u64,
    /// The configuration line to paste.
    pub setting: String,
    /// Every cap.
    pub tried: Vec<CapView>,
}

/// One cap.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CapView {
    /// The cap.
    pub cap_bytes: u64,
    /// The number of buckets with it.
    pub buckets: usize,
    /// The time of their calls.
    pub calls_s: f64,
    /// The time that the backward pass does not hide.
    pub exposed_s: f64,
}

/// Fuses the gradients by `rule`; `priced` is a question over all replicas with its algorithms.
///
/// # Errors
/// None of its own; errors in `priced` were reported when it was made.
pub fn bucket(
    gradients: &Gradients,
    rule: &Rule,
    priced: Option<(&Query, &Expecting<'_>)>,
    backward: Option<Seconds>,
) -> Result<Buckets> {
    let packed = pack(gradients, rule);
    let dtype = gradients.dtype();
    let name = |index: &usize| match gradients {
        Gradients::Tensors(tensors) => tensors[*index].name.clone(),
        Gradients::Smooth { .. } => String::new(),
    };
    let mut buckets: Vec<BucketView> = packed
        .iter()
        .map(|bucket| BucketView {
            bytes: bucket.bytes.0,
            dtype: bucket.dtype,
            limit_bytes: bucket.limit.map(|l| l.0),
            tensors: bucket.tensors.iter().map(name).collect(),
            time_s: None,
            algorithm: None,
            expect: None,
            ready_s: None,
            start_s: None,
            end_s: None,
        })
        .collect();
    let mut notes = Vec::new();
    let cost = priced.map(|(query, expecting)| {
        times(&mut buckets, &packed, expecting, backward);
        cost(gradients, rule, (query, expecting), (&packed, backward))
    });
    if matches!(gradients, Gradients::Smooth { .. }) {
        notes.push(
            "only the bytes are known: buckets are cut at their limits; --params gives the exact list"
                .to_owned(),
        );
    }
    if rule.id == "ddp" && rule.order == Order::Backward {
        notes.push(
            "DDP uses these buckets from its second iteration on; with static_graph, or without \
             find_unused_parameters, the first iteration has one bucket per type"
                .to_owned(),
        );
    }
    if rule.id == "megatron" {
        notes.push(
            "Megatron has one bucket without overlap-grad-reduce and on later pipeline stages"
                .to_owned(),
        );
    }
    Ok(Buckets {
        schema: "collcost/bucket/1",
        rule: rule.id,
        rule_title: rule.title,
        rule_source: rule.source.clone().into_owned(),
        collective: priced.map_or(rule.collective, |(query, _)| query.shape.collective),
        first_bytes: rule.first.map(|f| f.bytes(dtype).0),
        cap_bytes: rule.cap.bytes(dtype).0,
        most_tensors: rule.most,
        gradients_bytes: gradients.bytes().0,
        tensors: match gradients {
            Gradients::Tensors(tensors) => Some(tensors.len()),
            Gradients::Smooth { .. } => None,
        },
        buckets,
        cost,
        notes,
    })
}

/// Puts the calls into the views.
fn times(
    views: &mut [BucketView],
    packed: &[Bucket],
    expecting: &Expecting<'_>,
    backward: Option<Seconds>,
) {
    let time = |b: &Bucket| expecting.time(b.bytes);
    let played = backward.map(|backward| timeline(packed, backward, time));
    for (i, (view, bucket)) in views.iter_mut().zip(packed).enumerate() {
        let expect = Expect::new(expecting, bucket.bytes);
        (view.time_s, view.algorithm) = (Some(expect.time_s), Some(expect.runs.name()));
        view.expect = Some(expect);
        if let Some(event) = played.as_ref().map(|p| p.events[i]) {
            view.ready_s = Some(event.ready.0);
            view.start_s = Some(event.start.0);
            view.end_s = Some(event.end.0);
        }
    }
}

fn cost(
    gradients: &Gradients,
    rule: &Rule,
    (query, expecting): (&Query, &Expecting<'_>),
    (packed, backward): (&[Bucket], Option<Seconds>),
) -> BucketCost {
    let time = |b: &Bucket| expecting.time(b.bytes);
    let all = |at: fn(&Expectation) -> Seconds| {
        packed.iter().map(|b| at(&expecting.at(b.bytes))).sum::<Seconds>()
    };
    // The part that is not data transfer is that of the ideal price.
    let fixed_part = |size: Bytes| {
        let price = expecting.ideal(size).price;
        (price.launch + price.latency).0 / price.total().0.max(f64::MIN_POSITIVE)
    };
    let latency = packed.iter().map(|b| time(b).0 * fixed_part(b.bytes)).sum();
    let played = backward.map(|backward| timeline(packed, backward, time));
    let found = backward.and_then(|backward| caps(gradients, rule, backward, time));
    let unfused = match gradients {
        Gradients::Tensors(tensors) => {
            Some(tensors.iter().map(|t| expecting.time(t.bytes).0).sum())
        }
        Gradients::Smooth { .. } => None,
    };
    let cap = rule.cap.bytes(gradients.dtype());
    let fixed = fixed_part(cap);
    BucketCost {
        machine: query.machine.name.clone(),
        ranks: query.shape.ranks,
        nodes: query.placement.nodes(),
        calls_s: all(|e| e.time).0,
        calls_low_s: all(|e| e.low).0,
        calls_high_s: all(|e| e.high).0,
        latency_s: latency,
        unfused_s: unfused,
        single_s: expecting.time(gradients.bytes()).0,
        even_bytes: (fixed < 1.0).then(|| fixed / (1.0 - fixed) * cap.0 as f64),
        backward_s: backward.map(|b| b.0),
        exposed_s: played.map(|p| p.exposed.0),
        search: found.map(|found| {
            let certain = surely_better(gradients, rule, &found, (expecting, backward));
            search(&found, rule, gradients.dtype(), certain)
        }),
    }
}

/// Whether the best cap beats the rule's own wherever the times lie in their bands.
fn surely_better(
    gradients: &Gradients,
    rule: &Rule,
    found: &Caps,
    (expecting, backward): (&Expecting<'_>, Option<Seconds>),
) -> bool {
    let Some(backward) = backward else { return false };
    let exposed = |rule: &Rule, end: fn(&Expectation) -> Seconds| {
        let time = |b: &Bucket| end(&expecting.at(b.bytes));
        timeline(&pack(gradients, rule), backward, time).exposed
    };
    let best = rule.clone().with_cap(Limit::Bytes(found.best.cap), None);
    exposed(&best, |e| e.high) < exposed(rule, |e| e.low)
}

fn search(found: &Caps, rule: &Rule, dtype: DataType, certain: bool) -> Search {
    let view = |c: &crate::plan::bucket::Cap| CapView {
        cap_bytes: c.cap.0,
        buckets: c.buckets,
        calls_s: c.calls.0,
        exposed_s: c.exposed.0,
    };
    Search {
        best_bytes: found.best.cap.0,
        best_buckets: found.best.buckets,
        best_exposed_s: found.best.exposed.0,
        certain,
        flat_from_bytes: found.flat.0.0,
        flat_to_bytes: found.flat.1.0,
        setting: rule.line(Bytes(found.best.cap.0), dtype),
        tried: found.tried.iter().map(view).collect(),
    }
}

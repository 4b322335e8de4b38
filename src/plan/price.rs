//! The time of a step's collectives, and the part that computation hides.
//!
//! A rank computes m·(forward + backward); a pipeline of S stages also idles for (S − 1)·(forward +
//! backward). An end-to-end rate gives the whole step: its computing and idle time is the step
//! minus the exposed collectives. Calls of a layer overlap with the layer before: of n layers, the
//! first one's calls are exposed, and the part that is longer than a layer's computation. Buckets
//! are simulated during the last backward pass.

mod kernels;
mod once_a_node;

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::{Axis, Call, From, Group, Hides, Lies, Mode, Step, Traffic, calls};
use crate::base::collective::Collective;
use crate::base::error::Result;
use crate::base::quantity::{Bytes, Ratio, Seconds, Volume};
use crate::cost::price::uses;
use crate::machine::query::Query;
use crate::machine::what_if::Figure;
use crate::measure::expect::{Expectation, Expecting, NOTHING, Priced as Ideal, Runs};
use crate::model::algorithm::Registry;
use crate::model::formula::Shape;
use crate::plan::bucket::{Gradients, Rule, pack, timeline};
use crate::plan::table::MachineEntry;

pub(super) use kernels::SCALES;
pub use once_a_node::NODE_LIMITED;
pub(super) use once_a_node::once_a_node;

/// Changes of a machine's parameters.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tweak {
    /// Parameters by name with their new value, such as `inter.bw` and `800Gb/s`.
    pub set: Vec<(String, String)>,
    /// One parameter by name with its factor.
    pub scale: Option<(String, Ratio)>,
}

impl Tweak {
    /// Of values that are set, those for keys of a step, and those for parameters of the machine, which are known by
    /// their dot.
    #[must_use]
    pub fn sorted(set: Vec<(String, String)>) -> (Vec<(String, String)>, Self) {
        let (figures, keys) = set.into_iter().partition(|(key, _)| key.contains('.'));
        (keys, Self { set: figures, scale: None })
    }

    fn is_empty(&self) -> bool {
        self.set.is_empty() && self.scale.is_none()
    }
}

/// A collective with its price.
#[derive(Debug, Clone, PartialEq)]
pub struct CallPrice {
    /// What it is.
    pub call: Call,
    /// The placement of its group.
    pub lies: Lies,
    /// The algorithm: the requested one, otherwise the library's choice.
    pub algorithm: String,
    /// The expectation of one call, for buckets of the largest; and its bytes.
    pub expected: Option<(Expectation, Runs, Volume)>,
    /// Calls per step: one per bucket if gradients are sent in buckets.
    pub calls: Ratio,
    /// One call; for buckets the mean.
    pub time: Seconds,
    /// All calls of a step.
    pub total: Seconds,
    /// The part that computation does not hide.
    pub exposed: Seconds,
    /// The part of `total` that is not data transfer.
    pub latency: Seconds,
    /// Groups that share a NIC.
    pub sharing: Ratio,
    /// Bytes per step through a rank's port inside its node; absent if unknown.
    pub inside: Option<Volume>,
    /// The same between nodes, through a NIC.
    pub between: Option<Volume>,
    /// Where tokens go, for calls between experts.
    pub traffic: Option<Traffic>,
}

/// A step with its price.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Priced {
    /// Its collectives.
    pub calls: Vec<CallPrice>,
    /// A rank's computing time; from an end-to-end rate it includes idle time; absent if unknown.
    pub compute: Option<Seconds>,
    /// The time that it waits for other stages of a pipeline.
    pub bubble: Option<Seconds>,
    /// All collectives, one after another.
    pub messages: Seconds,
    /// The part of them that computation does not hide.
    pub exposed: Seconds,
    /// The whole step by an end-to-end rate, if one was given, on the machine as it is.
    pub end_to_end: Option<Seconds>,
    /// The whole step with every call at the short end of its band.
    pub low: Seconds,
    /// The same at the long end.
    pub high: Seconds,
}

impl Priced {
    /// The whole step: computing, waiting, and what is exposed.
    #[must_use]
    pub fn time(&self) -> Seconds {
        self.compute.unwrap_or_default() + self.bubble.unwrap_or_default() + self.exposed
    }
}

/// The value of an expectation that is summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Low,
    Mid,
    High,
}

impl End {
    fn of(self, expected: Expectation) -> Seconds {
        match self {
            Self::Low => expected.low,
            Self::Mid => expected.time,
            Self::High => expected.high,
        }
    }
}

/// The time of `step` on its machine, with `tweak` applied. Errors of calls on one machine are
/// correlated, so the band of the step has all of them at the same end.
///
/// # Errors
/// Ranks that the machine does not join, an algorithm that does not apply, an unknown parameter.
pub fn price(registry: &Registry, step: &Step, tweak: &Tweak) -> Result<Priced> {
    let (mut known, mut unchanged) = (Known::new(), Known::new());
    let end_to_end = step.compute.is_some_and(|c| c.from == From::EndToEnd);
    let mut at = |end| {
        // The rate is that of the machine as it is: what is changed does not change the computing.
        let before = match end_to_end && !tweak.is_empty() {
            true => {
                let none = Tweak::default();
                Some(price_at(registry, step, &none, (end, &mut unchanged), None)?.exposed)
            }
            false => None,
        };
        price_at(registry, step, tweak, (end, &mut known), before)
    };
    let (low, high) = (at(End::Low)?.time(), at(End::High)?.time());
    Ok(Priced { low, high, ..at(End::Mid)? })
}

/// Questions by their subject.
type Known<'r> = HashMap<(Collective, Group, Option<String>), Asked<'r>>;

/// The time at one end of the bands; `before` is what is exposed on the machine as it is, if `tweak` changes
/// it.
fn price_at<'r>(
    registry: &'r Registry,
    step: &Step,
    tweak: &Tweak,
    (end, known): (End, &mut Known<'r>),
    before: Option<Seconds>,
) -> Result<Priced> {
    let mut priced = Vec::new();
    for call in calls(step) {
        let key = (call.collective, call.group, call.algorithm.clone());
        let asked = match known.entry(key) {
            Entry::Occupied(asked) => asked.into_mut(),
            Entry::Vacant(free) => {
                let asked = Asked::new(registry, step, &call, tweak)
                    .map_err(|e| e.at(format!("{}: {} of {}", step.name, call.name, call.axis)))?;
                free.insert(asked)
            }
        };
        asked.end = end;
        priced.push(one(registry, step, call, asked)?);
    }
    behind_layers(step, &mut priced);
    let sum = |f: fn(&CallPrice) -> Seconds| priced.iter().map(f).sum::<Seconds>();
    let (messages, exposed) = (sum(|c| c.total), sum(|c| c.exposed));
    let passes = step.compute.map(|c| match step.mode {
        Mode::Training => c.forward + c.backward,
        Mode::Decoding => c.forward,
    });
    let times =
        if step.mode == Mode::Training { f64::from(step.parallel.microbatches) } else { 1.0 };
    let idle = if step.mode == Mode::Training { f64::from(step.parallel.pp - 1) } else { 0.0 };
    let whole = passes.map(|p| p * Ratio(times));
    let end_to_end = whole.filter(|_| step.compute.is_some_and(|c| c.from == From::EndToEnd));
    let (compute, bubble) = match end_to_end {
        Some(whole) => (Some(Seconds((whole.0 - before.unwrap_or(exposed).0).max(0.0))), None),
        None => (whole, passes.map(|p| p * Ratio(idle))),
    };
    let priced = Priced {
        calls: priced,
        compute,
        bubble,
        messages,
        exposed,
        end_to_end,
        ..Priced::default()
    };
    Ok(Priced { low: priced.time(), high: priced.time(), ..priced })
}

/// The ranks of a step and their machine.
pub(super) struct World<'m> {
    /// The machine.
    pub machine: &'m MachineEntry,
    /// How many.
    pub ranks: u64,
    /// Ranks on a node; absent: as many as the machine has.
    pub per_node: Option<u32>,
}

/// A call's question, ready for any size.
pub(super) struct Asked<'r> {
    pub query: Query,
    expecting: Expecting<'r>,
    pub lies: Lies,
    pub sharing: Ratio,
    end: End,
}

impl<'r> Asked<'r> {
    /// The time of a call, at the summed end of the band.
    fn time(&self, size: Bytes) -> Seconds {
        self.end.of(self.expecting.at(size))
    }

    /// The time of a call of any size.
    pub fn expected(&self, size: Bytes) -> Expectation {
        self.expecting.at(size)
    }

    fn new(registry: &'r Registry, step: &Step, call: &Call, tweak: &Tweak) -> Result<Self> {
        let (ranks, per_node) = (step.parallel.ranks(), step.parallel.per_node);
        let world = World { machine: &step.machine, ranks, per_node };
        let about = (call.collective, call.group);
        Self::on(registry, &world, about, call.algorithm.as_deref(), tweak)
    }

    /// The question of a group out of all ranks.
    pub fn on(
        registry: &'r Registry,
        world: &World<'_>,
        (collective, group): (Collective, Group),
        algorithm: Option<&str>,
        tweak: &Tweak,
    ) -> Result<Self> {
        let machine = world.machine.machine(collective)?;
        let span = machine.fabric.node.and_then(|i| machine.fabric.tiers[i].span);
        let world_32 = u32::try_from(world.ranks).unwrap_or(u32::MAX);
        // All ranks must have a place, also where a group leaves most of them out.
        machine.fabric.depth(world_32)?;
        let has_nodes = machine.fabric.node.is_some() || world.per_node.is_some();
        let node = world.per_node.or(span.map(|s| s.get())).unwrap_or(world_32);
        let mut lies = group.lies(world.ranks, if has_nodes { node } else { world_32 });
        let layout = lies.layout(group.ranks, has_nodes);
        let nics = machine.fabric.tiers.last().and_then(|t| t.nics);
        let mut query = world.machine.query(collective, Bytes(0), layout)?;
        put_in(&mut query, tweak)?;
        let mut sharing = Ratio(1.0);
        if let (true, Some(outer)) = (lies.nodes > 1, query.machine.fabric.tiers.last_mut())
            && let (Some(all), Some(own)) = (nics, outer.nics)
        {
            let asked = f64::from(own.get()) * f64::from(lies.beside);
            sharing = Ratio((asked / f64::from(all.get())).max(1.0));
            outer.oversubscription = Ratio(outer.oversubscription.0 * sharing.0);
        }
        // On a network that says nothing of its nodes every rank is one.
        if !has_nodes {
            lies.nodes = query.placement.nodes();
        }
        let expecting = Expecting::of(registry, &query, algorithm)?;
        Ok(Self { query, expecting, lies, sharing, end: End::Mid })
    }
}

fn put_in(query: &mut Query, tweak: &Tweak) -> Result<()> {
    let machine = &mut query.machine;
    for (name, text) in &tweak.set {
        let figure = Figure::named(name, &machine.fabric)?;
        let value = figure.parse(text).map_err(|e| e.at(format!("--set {name}={text}")))?;
        figure.set(&mut machine.fabric, value);
        machine.forget(figure);
    }
    if let Some((name, factor)) = &tweak.scale {
        let figure = Figure::named(name, &machine.fabric)?;
        if let Some(value) = figure.get(&machine.fabric) {
            figure.set(&mut machine.fabric, value.scaled(*factor));
        }
    }
    Ok(())
}

fn one(registry: &Registry, step: &Step, call: Call, asked: &Asked<'_>) -> Result<CallPrice> {
    if let Some(routing) = call.routed {
        if let Some(named) = routing.kernels {
            return kernels::between_experts(registry, step, call, asked, named);
        }
        if routing.node_limit.is_some() {
            return once_a_node::routed(step, call, asked);
        }
        let skewed = Volume(call.size.0 * routing.skew.0);
        let traffic = Some(traffic(step, &call, asked.lies.nodes));
        let mut priced = plain(registry, call, asked, skewed)?;
        priced.traffic = traffic;
        return Ok(priced);
    }
    if call.hides == Hides::Buckets {
        return Ok(bucketed(step, call, asked));
    }
    let size = call.size;
    let by_engine = call.axis == Axis::Tp && call.collective == Collective::AllReduce;
    match step.engine.as_deref().filter(|_| by_engine) {
        Some(engine) => kernels::by_engine(registry, engine, step, call, asked),
        None => plain(registry, call, asked, size),
    }
}

/// A call priced by its expectation.
fn plain(registry: &Registry, call: Call, asked: &Asked<'_>, size: Volume) -> Result<CallPrice> {
    let bytes = whole(size);
    let (expected, runs) = (asked.expecting.at(bytes), asked.expecting.runs(bytes));
    let ideal = asked.expecting.ideal(bytes);
    let time = asked.end.of(expected);
    let total = time * call.count;
    let (inside, between) = ports(registry, asked, &ideal, size)?;
    let a_step = |v: Option<Volume>| v.map(|v| Volume(v.0 * call.count.0));
    Ok(CallPrice {
        lies: asked.lies,
        algorithm: runs.name(),
        expected: Some((expected, runs, size)),
        calls: call.count,
        time,
        total,
        exposed: total,
        latency: no_data(&asked.expecting, bytes, time) * call.count,
        sharing: asked.sharing,
        inside: a_step(inside),
        between: a_step(between),
        traffic: None,
        call,
    })
}

/// Sizes that are not whole numbers of bytes are averages.
fn whole(size: Volume) -> Bytes {
    Bytes(size.0.round() as u64)
}

/// The part of a call's time that is not data transfer, as in its ideal price.
fn no_data(expecting: &Expecting<'_>, size: Bytes, time: Seconds) -> Seconds {
    let price = expecting.ideal(size).price;
    let total = price.total().0;
    if total > 0.0 { time * Ratio((price.launch + price.latency).0 / total) } else { time }
}

/// Bytes through the busiest port of the innermost and of the outermost tier.
fn ports(
    registry: &Registry,
    asked: &Asked<'_>,
    taken: &Ideal,
    size: Volume,
) -> Result<(Option<Volume>, Option<Volume>)> {
    let shape = asked.query.shape;
    // There is no price if a parameter of the links is unknown.
    if shape.ranks < 2 || taken.id == NOTHING {
        return Ok((None, None));
    }
    let algorithm = registry.find(shape.collective, taken.id)?.algorithm;
    let shape = if algorithm.is_pipelined() && shape.params.segments.is_none() {
        shape.with_segments(taken.price.segments)
    } else {
        Shape { ..shape }
    };
    let used = uses(algorithm, &shape, &asked.query.machine.fabric)?;
    let share = |tier: usize| used.get(tier).map(|u| Volume(u.share.0 * size.0));
    let has_nodes = asked.query.machine.fabric.node.is_some();
    match (has_nodes, asked.lies.nodes > 1) {
        (true, false) => Ok((share(0), None)),
        (true, true) => Ok((share(0), share(used.len() - 1))),
        (false, _) => Ok((None, share(0))),
    }
}

/// Gradients in DDP's buckets during a backward pass.
fn bucketed(step: &Step, call: Call, asked: &Asked<'_>) -> CallPrice {
    let rule = match Rule::named("ddp") {
        Ok(rule) => match step.sync.cap {
            Some(cap) => rule.with_cap(cap, None),
            None => rule,
        },
        // The name is in the table.
        Err(_) => crate::plan::bucket::RULES[0].clone(),
    };
    let bytes = Bytes(call.size.0.round() as u64);
    let gradients = Gradients::Smooth { bytes, dtype: step.sync.dtype };
    let buckets = pack(&gradients, &rule);
    // An empty backward pass takes no time: everything is exposed.
    let backward = step.compute.map_or(Seconds(0.0), |c| c.backward);
    let time = |b: &crate::plan::bucket::Bucket| asked.time(b.bytes);
    let played = timeline(&buckets, backward, time);
    let latency: Seconds =
        buckets.iter().map(|b| no_data(&asked.expecting, b.bytes, time(b))).sum();
    let largest = buckets.iter().map(|b| b.bytes).max().unwrap_or_default();
    let runs = asked.expecting.runs(largest);
    let count = buckets.len().max(1) as f64;
    CallPrice {
        lies: asked.lies,
        algorithm: runs.name(),
        expected: Some((asked.expecting.at(largest), runs, Volume::from(largest))),
        calls: Ratio(call.count.0 * count),
        time: played.calls * Ratio(1.0 / count),
        total: played.calls * call.count,
        exposed: played.exposed * call.count,
        latency: latency * call.count,
        sharing: asked.sharing,
        inside: None,
        between: None,
        traffic: None,
        call,
    }
}

fn traffic(step: &Step, call: &Call, nodes: u32) -> Traffic {
    let routing = call.routed.unwrap_or(super::Routing {
        experts: 1,
        top_k: 1,
        node_limit: None,
        skew: Ratio(1.0),
        dispatch: step.model.dtype,
        kernels: None,
    });
    // One token's bytes: the call's size is all of its copies.
    let tokens =
        step.tokens() / if step.parallel.sequence { f64::from(step.parallel.tp) } else { 1.0 };
    let copies = tokens * f64::from(routing.top_k);
    let width = if copies > 0.0 { (call.size.0 / copies).round() } else { 0.0 };
    routing.traffic(tokens, Bytes(width as u64), call.group.ranks, nodes)
}

/// Calls that overlap with the layers of a pass. The first layer's calls, and the part that is
/// longer than a layer's computation, are exposed; each call gets its share.
fn behind_layers(step: &Step, priced: &mut [CallPrice]) {
    let Some(compute) = step.compute else { return };
    for (window, pass) in [(Hides::Forward, compute.forward), (Hides::Backward, compute.backward)] {
        let inside: Vec<&CallPrice> = priced.iter().filter(|c| c.call.hides == window).collect();
        let count = inside.iter().map(|c| c.call.count.0).fold(0.0, f64::max);
        // Replicas agree in the last of several passes only: a layer's mean.
        let of = |calls: &[&CallPrice]| calls.iter().map(|c| c.total.0).sum::<f64>() / count;
        let sum = of(&inside);
        if count <= 0.0 || sum <= 0.0 {
            continue;
        }
        // In the backward pass the edge is the last layer's gradients, between shards and then between
        // replicas; in the forward pass the first call, of parameters.
        let reduces = |c: &&CallPrice| c.call.collective == Collective::ReduceScatter;
        let edge = inside.iter().rposition(reduces).unwrap_or(inside.len() - 1);
        let edge = of(&inside[edge..]);
        // Replicas agree in a stream of their own, beside the shards of the next layer; where both leave
        // the nodes they share NICs.
        let (replicas, shards): (Vec<&CallPrice>, Vec<&CallPrice>) =
            inside.iter().partition(|c| c.call.collective == Collective::AllReduce);
        let share = shards.iter().any(|c| c.lies.nodes > 1);
        let unit = if share { sum } else { of(&replicas).max(of(&shards)) };
        let times = f64::from(step.parallel.microbatches);
        let layers = (count / times).max(1.0);
        let longer = (unit - pass.0 / layers).max(0.0);
        // The rest of the edge's layer can overlap with one more layer's computation.
        let rest = (unit - edge - pass.0 / layers).max(0.0);
        let exposed = (edge + (layers - 1.0) * longer + rest) * times;
        let all = sum * count;
        for call in priced.iter_mut().filter(|c| c.call.hides == window) {
            call.exposed = Seconds(exposed * call.total.0 / all);
        }
    }
}

//! The collectives of a step: one function per kind of parallelism.
//!
//! | axis | training, per layer and micro-batch | decoding, per layer |
//! |---|---|---|
//! | TP | 2 all-reduces forward, 2 back; with SP each an all-gather and a reduce-scatter | 2 all-reduces |
//! | CP | keys and values gathered forward and back, their gradients scattered | gathered |
//! | EP | dispatch and combine forward and back | dispatch and combine |
//! | PP | activations forward, gradients back, a hop per micro-batch | a hop per stage boundary |
//! | DP | gradients once per step; FSDP parameters forward and back, gradients back | nothing |

use super::{Axis, Call, Group, Hides, Mode, OwnGroup, Shard, Step};
use crate::base::collective::Collective::{
    self, AllGather, AllReduce, AllToAll, ReduceScatter, SendRecv,
};
use crate::base::quantity::{Ratio, Volume};

/// The collectives of `step`, axis by axis.
#[must_use]
pub fn calls(step: &Step) -> Vec<Call> {
    let mut calls = Vec::new();
    tensor(step, &mut calls);
    context(step, &mut calls);
    experts(step, &mut calls);
    pipeline(step, &mut calls);
    if step.mode == Mode::Training {
        replicas(step, &mut calls);
    }
    own(step, &mut calls);
    calls
}

impl Step {
    /// Tokens of a step, over all replicas.
    pub(crate) fn tokens_of_all(&self) -> f64 {
        let (model, p) = (&self.model, &self.parallel);
        let each = f64::from(model.batch) * f64::from(model.sequence);
        each * f64::from(p.dp) * f64::from(p.microbatches)
    }

    /// The ranks of an axis.
    #[must_use]
    pub fn group(&self, axis: Axis) -> Group {
        let p = &self.parallel;
        let ranks = |axis| match axis {
            Axis::Tp => p.tp,
            Axis::Cp => p.cp,
            Axis::Dp => p.dp,
            Axis::Pp => p.pp,
            Axis::Ep => p.ep,
            Axis::Own => 1,
        };
        if axis == Axis::Ep {
            return self.holders().parts(p.ep).0;
        }
        let inner = p.order.iter().take_while(|a| **a != axis);
        Group::new(ranks(axis), inner.map(|a| ranks(*a)).product())
    }

    /// The ranks that hold the same dense parameters: those of DP and CP, of which the inner one comes first.
    fn holders(&self) -> Group {
        let (dp, cp) = (self.group(Axis::Dp), self.group(Axis::Cp));
        let (inner, outer) = if cp.stride < dp.stride { (cp, dp) } else { (dp, cp) };
        match (inner.ranks, outer.ranks) {
            (_, 1) => inner,
            (1, _) => outer,
            _ => inner.repeated(outer.ranks, outer.stride),
        }
    }

    /// How many of these layers have calls that one rank waits for: its stage's in training, all of them for
    /// a token.
    fn depth(&self, layers: u32) -> u32 {
        match self.mode {
            Mode::Training => layers.div_ceil(self.parallel.pp),
            Mode::Decoding => layers,
        }
    }

    /// Tokens of a micro-batch on one rank.
    pub(super) fn tokens(&self) -> f64 {
        let tokens = f64::from(self.model.sequence) * f64::from(self.model.batch);
        tokens / f64::from(self.parallel.cp)
    }

    /// Bytes of a micro-batch's activations between layers.
    fn activations(&self) -> f64 {
        self.tokens() * f64::from(self.model.hidden) * self.model.dtype.bytes().0 as f64
    }

    fn microbatches(&self) -> f64 {
        if self.mode == Mode::Training { f64::from(self.parallel.microbatches) } else { 1.0 }
    }

    /// Parameters of one rank outside experts, before they are sharded over replicas.
    pub(super) fn dense(&self) -> f64 {
        let dense = self.model.params.saturating_sub(self.model.expert_params);
        dense as f64 / f64::from(self.parallel.tp) / f64::from(self.parallel.pp)
    }

    /// The same for experts.
    fn routed(&self) -> f64 {
        let p = &self.parallel;
        self.model.expert_params as f64 / f64::from(p.tp) / f64::from(p.pp) / f64::from(p.ep)
    }
}

/// A call without a named algorithm.
fn call(
    name: &str,
    (axis, group): (Axis, Group),
    collective: Collective,
    (size, count): (f64, f64),
    hides: Hides,
) -> Call {
    Call {
        name: name.to_owned(),
        axis,
        collective,
        group,
        size: Volume(size),
        count: Ratio(count),
        algorithm: None,
        hides,
        routed: None,
    }
}

fn tensor(step: &Step, calls: &mut Vec<Call>) {
    let group = step.group(Axis::Tp);
    if group.ranks < 2 {
        return;
    }
    let once = 2.0 * f64::from(step.depth(step.model.layers)) * step.microbatches();
    let of = (Axis::Tp, group);
    let mut add = |name: &str, collective| {
        calls.push(call(name, of, collective, (step.activations(), once), Hides::Nothing));
    };
    match (step.mode, step.parallel.sequence) {
        (Mode::Decoding, _) => add("activations", AllReduce),
        (Mode::Training, false) => {
            add("activations", AllReduce);
            add("their gradients", AllReduce);
        }
        (Mode::Training, true) => {
            add("activations gathered", AllGather);
            add("activations scattered", ReduceScatter);
            add("gradients gathered", AllGather);
            add("gradients scattered", ReduceScatter);
        }
    }
}

fn context(step: &Step, calls: &mut Vec<Call>) {
    let group = step.group(Axis::Cp);
    if group.ranks < 2 {
        return;
    }
    let tokens = step.tokens() * f64::from(group.ranks);
    let each = 2.0 * tokens * f64::from(step.model.kv_hidden) / f64::from(step.parallel.tp);
    let size = each * step.model.dtype.bytes().0 as f64;
    let count = f64::from(step.depth(step.model.layers)) * step.microbatches();
    let of = (Axis::Cp, group);
    calls.push(call("keys and values", of, AllGather, (size, count), Hides::Nothing));
    if step.mode == Mode::Training {
        calls.push(call("the same back", of, AllGather, (size, count), Hides::Nothing));
        calls.push(call("their gradients", of, ReduceScatter, (size, count), Hides::Nothing));
    }
}

fn experts(step: &Step, calls: &mut Vec<Call>) {
    let group = step.group(Axis::Ep);
    let Some(routing) = step.model.routing.filter(|_| group.ranks > 1) else { return };
    let elements = step.tokens() * f64::from(routing.top_k) * f64::from(step.model.hidden);
    // With sequence parallelism, each TP rank routes its part of the tokens.
    let part = if step.parallel.sequence { f64::from(step.parallel.tp) } else { 1.0 };
    let count = f64::from(step.depth(step.model.moe_layers)) * step.microbatches();
    let of = (Axis::Ep, group);
    let mut add = |name: &str, bytes: u64| {
        let size = elements / part * bytes as f64;
        let one = call(name, of, AllToAll, (size, count), Hides::Nothing);
        calls.push(Call { routed: Some(routing), ..one });
    };
    let (out, back) = (routing.dispatch.bytes().0, step.model.dtype.bytes().0);
    add("dispatch", out);
    add("combine", back);
    if step.mode == Mode::Training {
        // Gradients go to the experts in the type of tokens, and come back in the model's: arXiv 2412.19437,
        // section 3.3.3.
        add("dispatch back", out);
        add("combine back", back);
    }
}

fn pipeline(step: &Step, calls: &mut Vec<Call>) {
    let group = step.group(Axis::Pp);
    if group.ranks < 2 {
        return;
    }
    let part = if step.parallel.sequence { f64::from(step.parallel.tp) } else { 1.0 };
    let size = step.activations() / part;
    let of = (Axis::Pp, Group::neighbours(group.ranks, group.stride));
    match step.mode {
        Mode::Training => {
            let count = step.microbatches();
            calls.push(call("activations on", of, SendRecv, (size, count), Hides::Nothing));
            calls.push(call("gradients back", of, SendRecv, (size, count), Hides::Nothing));
        }
        Mode::Decoding => {
            let count = f64::from(group.ranks - 1);
            calls.push(call("activations on", of, SendRecv, (size, count), Hides::Nothing));
        }
    }
}

/// Gradients and parameters between replicas: dense ones over DP and CP, experts' over the ranks
/// that EP leaves.
fn replicas(step: &Step, calls: &mut Vec<Call>) {
    // CP ranks have the same parameters and take part in the synchronization.
    let all = step.holders();
    let ep = step.group(Axis::Ep);
    if step.model.expert_params == 0 || ep.ranks < 2 {
        let params = step.dense() + step.routed();
        return agree(step, "", params, all, calls);
    }
    agree(step, "", step.dense(), all, calls);
    let rest = all.parts(ep.ranks).1;
    agree(step, "experts' ", step.routed(), rest, calls);
}

fn agree(step: &Step, whose: &str, params: f64, all: Group, calls: &mut Vec<Call>) {
    if all.ranks < 2 || params <= 0.0 {
        return;
    }
    let sync = &step.sync;
    let weights = params * step.model.dtype.bytes().0 as f64;
    let gradients = params * sync.dtype.bytes().0 as f64;
    let part = sync.shard_size.min(all.ranks).max(1);
    let (shard, replicate) = all.parts(part);
    let seldom = 1.0 / f64::from(sync.every);
    let (layers, times) = (f64::from(step.depth(step.model.layers)), step.microbatches());
    let mut add = |what: &str, group: Group, collective, amount: (f64, f64), hides| {
        if group.ranks > 1 {
            let name = format!("{whose}{what}");
            calls.push(call(&name, (Axis::Dp, group), collective, amount, hides));
        }
    };
    match sync.shard {
        Shard::Nothing if sync.every > 1 => {
            add("gradients", all, AllReduce, (gradients, seldom), Hides::Nothing);
        }
        Shard::Nothing => add("gradients", all, AllReduce, (gradients, 1.0), Hides::Buckets),
        Shard::Optimizer | Shard::Gradients => {
            let reduces = if sync.shard == Shard::Gradients { times } else { 1.0 };
            let hides = if sync.every > 1 { Hides::Nothing } else { Hides::Buckets };
            add("gradients", shard, ReduceScatter, (gradients, reduces * seldom), hides);
            let again = (gradients / f64::from(part), seldom);
            add("gradients of replicas", replicate, AllReduce, again, Hides::Nothing);
            add("parameters", shard, AllGather, (weights, seldom), Hides::Nothing);
        }
        Shard::Parameters => {
            let unit = weights / layers;
            let count = layers * times;
            add("parameters forward", shard, AllGather, (unit, count), Hides::Forward);
            if sync.reshard {
                add("parameters back", shard, AllGather, (unit, count), Hides::Backward);
            }
            add("gradients", shard, ReduceScatter, (gradients / layers, count), Hides::Backward);
            let shards = gradients / f64::from(part);
            // FSDP2 sums each unit's shards between replicas once they are reduced: `foreach_reduce` of PyTorch's
            // torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py.
            let (again, hides) = match sync.every {
                1 => ((shards / layers, layers), Hides::Backward),
                _ => ((shards, seldom), Hides::Nothing),
            };
            add("gradients of replicas", replicate, AllReduce, again, hides);
        }
    }
}

fn own(step: &Step, calls: &mut Vec<Call>) {
    for own in &step.own {
        let (axis, group) = match own.group {
            OwnGroup::Axis(axis) => (axis, step.group(axis)),
            OwnGroup::Ranks(ranks) => (Axis::Own, Group::new(ranks, 1)),
            OwnGroup::All => {
                let ranks = u32::try_from(step.parallel.ranks()).unwrap_or(u32::MAX);
                (Axis::Own, Group::new(ranks, 1))
            }
        };
        let amount = (own.size.0 as f64, f64::from(own.count));
        let one = call(&own.name, (axis, group), own.collective, amount, own.hides);
        calls.push(Call { algorithm: own.algorithm.clone(), ..one });
    }
}

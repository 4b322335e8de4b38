//! The time of a step: micro-batches through the slowest stage, idle time of the pipeline, exposed
//! collectives, and the optimizer.

use super::sent::{Log, Sent};
use super::wires::Among;
use super::work::{Stages, stages, unreplayed};
use super::{Dispatcher, Framework, Job, Recompute, Reshard, Schedule, Weights, Wires};
use crate::base::collective::Collective::{
    AllGather, AllReduce, AllToAll, ReduceScatter, SendRecv,
};
use crate::base::error::{Error, Result};
use crate::base::quantity::Seconds;
use crate::plan::{Group, Shard};

/// A part of the step, in seconds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Part {
    pub what: &'static str,
    pub seconds: f64,
    /// The part that overlaps with computation and is not in the sum.
    pub hidden: f64,
}

/// A step with its band, which contains 8 of 10 real ones.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Estimate {
    pub step: f64,
    pub low: f64,
    pub high: f64,
    pub parts: Vec<Part>,
    /// The collectives, of which a part waits or is hidden.
    pub sent: Vec<Sent>,
}

/// The exposed part of TP's collectives if they overlap with products: torchtitan measured 5 to 10 %
/// less time per step (docs of asyncTP); by this part it is 8 % for 8 B over 64 GPUs and 5 % for 405 B
/// over 512.
const TP_BESIDE: f64 = 0.65;
/// With sequence parallelism, Megatron-LM gathers the input of a product once more beside the product
/// for the input's gradient, and scatters that gradient beside the product for the weights'. A layer has
/// two such products, those whose weights are divided by columns
/// (`LinearWithGradAccumulationAndAsyncCommunication`, megatron/core/tensor_parallel/layers.py of
/// <https://github.com/NVIDIA/Megatron-LM>).
const BACKWARD: f64 = 2.0;
const EP_BESIDE: f64 = 0.2;
/// The exposed part of the gradients' and parameters' buckets: the last and the first.
const BUCKET_ENDS: f64 = 0.15;
/// Interleaved chunks send while others compute.
const HOPS_BESIDE: f64 = 0.15;
/// The slowdown of computation by an overlapping collective, since links and memory are shared.
const DISTURBS: f64 = 0.1;
/// The fixed time of every step, in seconds: the norm of the gradients and the check for overflow,
/// for which the host waits, the optimizer's launches, the next batch.
const BESIDE: f64 = 0.02;
/// Bytes that Adam reads and writes per parameter.
const ADAM: f64 = 36.0;
/// Bytes of a parameter that is gathered.
const WIDTH: f64 = 2.0;

/// Half the width of the band as a logarithm: quantiles of the errors of published runs with their
/// source left out.
const BAND: f64 = 0.16;
const BAND_EXPERTS: f64 = 0.28;
/// That of experts on Blackwell, whose products were fitted on Hopper in 16 bits: it contains 46 of 57 steps of
/// Megatron-Bridge's tables; some may be among those that fitted its rates (docs/background/accuracy-of-plans.md, steps
/// of jobs).
const BAND_EXPERTS_BLACKWELL: f64 = 0.44;
const BAND_UNSTATED: f64 = 0.04;
const BAND_ANCHORED: f64 = 0.08;

/// The computation beside which a message may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beside {
    Nothing,
    /// Both passes of all micro-batches.
    Passes,
    /// Attention's core in both passes.
    Core,
    Forward,
    Backward,
    /// The forward pass of the first micro-batches, which needs updated parameters.
    First,
    /// The backward pass of the last micro-batches, after which gradients are whole.
    Last,
}

/// What a rank of the slowest stage sends in a step.
#[derive(Debug, Clone, Copy)]
struct Message {
    part: &'static str,
    seconds: f64,
    beside: Beside,
    /// The part that is exposed though there is computation for it.
    left: f64,
}

/// Collects messages.
#[derive(Debug, Clone, Default)]
struct Messages(Vec<Message>);

impl Messages {
    fn wait(&mut self, part: &'static str, seconds: f64) {
        self.beside(part, seconds, (Beside::Nothing, 1.0));
    }

    fn beside(&mut self, part: &'static str, seconds: f64, (beside, left): (Beside, f64)) {
        if seconds > 0.0 {
            self.0.push(Message { part, seconds, beside, left });
        }
    }
}

/// What messages may run beside, in seconds of a step.
struct Room {
    /// Both passes: computation, and what it waits for meanwhile.
    passes: f64,
    /// The computation beside which nothing is hidden yet.
    free: f64,
    /// The part of the passes that is the forward one.
    forward: f64,
    /// Attention's core.
    core: f64,
    /// The part of either pass that is of the first, or last, micro-batches.
    ends: f64,
}

impl Room {
    fn new(job: &Job, stages: &Stages, slower: f64) -> Self {
        let times = job.microbatches();
        let all = times * stages.slowest * slower;
        // A chunk passes as many micro-batches as there are stages before the next chunk, whose messages run beside
        // these.
        let (pp, chunks) = (f64::from(job.degrees.pp), f64::from(job.degrees.chunks));
        let ends = (1.0 + pp * (chunks - 1.0)) / chunks;
        Self {
            passes: all,
            free: all,
            forward: stages.forward,
            core: times * stages.core * slower,
            ends: (ends / times).min(1.0),
        }
    }

    /// The hidden part of a message: no more than what it may run beside, and no more than other messages leave of
    /// all computation.
    fn hide(&mut self, message: &Message) -> f64 {
        let (forward, backward) = (self.passes * self.forward, self.passes * (1.0 - self.forward));
        let window = match message.beside {
            Beside::Nothing => 0.0,
            Beside::Passes => self.passes,
            Beside::Core => self.core,
            Beside::Forward => forward,
            Beside::Backward => backward,
            Beside::First => forward * self.ends,
            Beside::Last => backward * self.ends,
        };
        let hidden = ((1.0 - message.left) * message.seconds).min(window).min(self.free);
        self.free -= hidden;
        // What replicas send runs beside what one of them sends inside.
        if message.part != "dp" {
            self.passes += message.seconds - hidden;
        }
        hidden
    }
}

fn groups(job: &Job) -> [Among; 7] {
    let d = job.degrees;
    let world = d.gpus();
    let of = |ranks, stride| Among { world, group: Group::new(ranks, stride) };
    let all = of(d.replicas(), d.tp);
    let experts = of(d.ep, d.etp);
    let rest = of(d.expert_replicas(), d.ep * d.etp);
    let hop = Among { world, group: Group::neighbours(d.pp, d.tp * d.cp * d.dp) };
    [of(d.tp, 1), of(d.cp, d.tp), of(d.etp, 1), experts, hop, all, rest]
}

fn messages(job: &Job, wires: &Wires<'_>) -> Result<(Messages, Vec<Sent>)> {
    let of = |ranks, stride| Among { world: job.degrees.gpus(), group: Group::new(ranks, stride) };
    let wires = Log::new(wires);
    let times = job.microbatches();
    let [tp, cp, etp, ep, hop, ..] = groups(job);
    let (d, model) = (job.degrees, &job.model);
    let again = job.again();
    let layers = job.deepest();
    let (tokens, tps) = (job.tokens(), f64::from(d.tp));
    let act = tokens * f64::from(model.hidden) * 2.0;
    // Passes that send activations: those forward may run again.
    let passes = 2.0 + again;
    let expert_passes = 2.0 + job.experts_again();
    let moe_layers = job.deepest_experts();
    // Of torchtitan's layer with experts all tokens are gathered before it and the sums scattered behind it. Where TP
    // divides the experts, each of its ranks sends them all (`apply_moe_ep_tp` and `ExpertTensorParallel`,
    // torchtitan/distributed/expert_parallel.py of <https://github.com/pytorch/torchtitan>).
    let torch = job.sharding.framework.is_torch();
    let mut m = Messages::default();
    if d.tp > 1 {
        // Attention, and a feed-forward part that TP divides. With tokens divided too, Megatron's routed experts
        // have their own messages.
        let shared = !d.sequence || torch || model.experts.is_none_or(|e| e.shared > 0);
        // Of the two parts of a layer those that have messages.
        let fed = job.deepest_dense() + if shared { moe_layers } else { 0.0 };
        let layers = (layers + fed) / 2.0;
        let fed = job.feeds_again() / layers;
        let mut beside = 0.0;
        // Sums that a layer lacks whose two parts are summed together, and gathers of their gradients.
        let (once, gradients) = if model.summed_once { (1.0 + again, 1.0) } else { (0.0, 0.0) };
        let each = if d.sequence {
            // Attention and the feed-forward part each gather and scatter once a pass. Megatron does
            // not keep the full input of products, so it is gathered once more in the backward pass;
            // neither does PyTorch where it recomputes what is between products.
            let kept = torch && job.recompute != Recompute::Operators;
            let gathers = 2.0 * passes + fed - gradients + if kept { 0.0 } else { 2.0 };
            let scatters = 2.0 * passes + fed - once;
            let calls = |each: f64| ("tp", each * layers * times);
            let gather = wires.time(calls(gathers), AllGather, tp, act)?;
            let scatter = wires.time(calls(scatters), ReduceScatter, tp, act)?;
            if job.sharding.framework == Framework::Megatron && !job.overlap.none {
                beside = BACKWARD * (gather + scatter);
            }
            gathers * gather + scatters * scatter
        } else {
            let sums = 2.0 * passes + fed - once;
            sums * wires.time(("tp", sums * layers * times), AllReduce, tp, act)?
        };
        let all = layers * times;
        // Published runs of Megatron with user buffers show no gain beyond `beside`.
        if job.overlap.tp && beside == 0.0 {
            m.beside("tp", each * all, (Beside::Passes, TP_BESIDE));
        } else {
            m.beside("tp", beside * all, (Beside::Backward, DISTURBS));
            m.wait("tp", (each - beside) * all);
        }
    }
    if d.cp > 1 && job.ulysses {
        // Before attention and behind it, a pass each way (`DistributedAttention`, deepspeed/sequence/layer.py).
        let ranks = d.tp.saturating_mul(d.cp);
        let elements = f64::from(job.micro) * f64::from(job.sequence) * model.exchanged(ranks);
        let calls = 2.0 * passes * layers * times;
        // Of two bytes an element half a call's.
        let each = wires.time(("cp", calls), AllToAll, cp, elements)?;
        m.wait("cp", calls * each);
    } else if d.cp > 1 {
        let size = f64::from(job.micro) * f64::from(job.sequence) * model.kv_share(d.tp) * 2.0;
        let gathers = 2.0 + again;
        let calls = |each: f64| ("cp", each * layers * times);
        let each = gathers * wires.time(calls(gathers), AllGather, cp, size)?
            + wires.time(calls(1.0), ReduceScatter, cp, size)?;
        // A ring overlaps with attention's own blocks.
        match job.overlap.none {
            true => m.wait("cp", each * layers * times),
            false => m.beside("cp", each * layers * times, (Beside::Core, DISTURBS)),
        }
    }
    let width = model.routed_width() * 2.0;
    let own = tokens / if d.sequence && !(torch && d.etp > 1) { tps } else { 1.0 };
    let gathers_all = job.dispatcher == Dispatcher::AllGather;
    let gathers_copies = d.etp > 1 && d.sequence && !torch && !gathers_all;
    if let Some(experts) = model.experts.filter(|_| gathers_copies) {
        // The ranks that divide an expert gather its tokens after the dispatch and scatter sums before the
        // combine (`MoEAlltoAllTokenDispatcher`, megatron/core/transformer/moe/token_dispatcher.py of
        // Megatron-LM).
        let gathered = f64::from(experts.top_k) * own * width * f64::from(d.etp);
        for collective in [AllGather, ReduceScatter] {
            let calls = ("tp", expert_passes * moe_layers * times);
            let each = wires.time(calls, collective, etp, gathered)?;
            m.wait("tp", expert_passes * moe_layers * times * each);
        }
    }
    let divided = d.etp > 1 && d.sequence && gathers_all;
    if let Some(experts) = model.experts.filter(|_| d.ep > 1 || divided) {
        let copies = f64::from(experts.top_k) * own * width;
        let calls = 2.0 * expert_passes * moe_layers * times;
        let kept = |each: f64| {
            let (part, collective, ranks) = ("ep", AllToAll, d.ep);
            wires.keep(Sent { part, collective, ranks, bytes: copies, calls, each });
            2.0 * each
        };
        // A dispatch and a combine.
        let pair = match job.dispatcher {
            Dispatcher::AllToAll => kept(wires.wires.time(AllToAll, ep, copies)?),
            Dispatcher::OnceANode => {
                let limited = (experts.experts, experts.top_k);
                kept(wires.wires.once_a_node(ep, (own, width, job.node_limit), limited)?.time)
            }
            // Of all tokens of the ranks that hold or divide experts (`MoEAllGatherTokenDispatcher`,
            // megatron/core/transformer/moe/token_dispatcher.py of Megatron-LM).
            Dispatcher::AllGather => {
                let ranks = d.ep * d.etp;
                let (all, bytes) = (of(ranks, 1), own * width * f64::from(ranks));
                let calls = (if d.ep > 1 { "ep" } else { "tp" }, calls / 2.0);
                wires.time(calls, AllGather, all, bytes)?
                    + wires.time(calls, ReduceScatter, all, bytes)?
            }
        };
        let total = expert_passes * pair * moe_layers * times;
        let both = matches!(job.schedule, Schedule::DualPipe | Schedule::DualPipeV);
        match d.ep > 1 {
            // One pass of a micro-batch runs beside the other pass of another.
            true if job.overlap.ep || both => m.beside("ep", total, (Beside::Passes, EP_BESIDE)),
            true => m.wait("ep", total),
            false => m.wait("tp", total),
        }
    }
    if d.pp > 1 {
        // In a V a rank has two stages, one on the way down and one on the way up (ScheduleZBVZeroBubble,
        // torch/distributed/pipelining/schedules.py; DualPipeV, <https://github.com/deepseek-ai/DualPipe>).
        let stages = match job.schedule {
            Schedule::ZeroBubbleV | Schedule::DualPipeV => 2,
            _ => d.chunks,
        };
        let hops = 2.0 * f64::from(stages);
        // Ranks of TP send the same unless they divide the tokens (`get_tensor_shapes`,
        // megatron/core/pipeline_parallel/schedules.py); Megatron of before 2023 scattered it.
        let sent = act / if d.sequence || job.early { tps } else { 1.0 };
        let total = hops * times * wires.time(("pp", hops * times), SendRecv, hop, sent)?;
        match !job.overlap.none && d.chunks > 1 || job.overlap.pp {
            true => m.beside("pp", total, (Beside::Passes, HOPS_BESIDE)),
            false => m.wait("pp", total),
        }
    }
    replicas(job, &wires, &mut m)?;
    m.wait("dp", tied(job, &wires)?);
    Ok((m, wires.into_sent()))
}

/// Parameters of a rank's embedding and head.
fn ends(job: &Job) -> f64 {
    let both = job.degrees.pp == 1 && !job.model.tied;
    let words = job.model.embedding() * if both { 2.0 } else { 1.0 };
    (words + job.model.per_layer_tables()) / f64::from(job.degrees.tp)
}

/// Parameters of a rank before sharding over replicas: dense ones, and those of experts.
pub(super) fn held(job: &Job) -> (f64, f64) {
    let (d, model) = (job.degrees, &job.model);
    let part = job.deepest() / f64::from(model.layers);
    let experts = job.deepest_experts() / model.moe_layers().max(1.0);
    // In a balanced split, a stage with the embedding or the head has one layer less.
    let layers = if job.balanced() { part * (1.0 - 1.0 / job.deepest()) } else { part };
    let dense = model.dense_body() * layers / f64::from(d.tp) + ends(job);
    (dense, model.routed_body() * experts / f64::from(d.ep * d.etp))
}

/// Those of them that are trained: all, or adapters.
pub(super) fn trained(job: &Job) -> (f64, f64) {
    match job.adapters {
        Some(_) => (job.layer_adapters() * job.deepest() / f64::from(job.degrees.tp), 0.0),
        None => held(job),
    }
}

/// Bytes of those that are not.
pub(super) fn frozen(job: &Job) -> (f64, f64) {
    if job.adapters.is_none() {
        return (0.0, 0.0);
    }
    let ((dense, routed), ends) = (held(job), ends(job));
    let Weights { products, experts, ends: each } = job.frozen;
    ((dense - ends) * products.bytes + ends * each, routed * experts.bytes)
}

/// Parameters that the same ranks hold.
struct Held {
    /// Those that are trained.
    params: f64,
    /// Bytes of all, as FSDP gathers them.
    bytes: f64,
    /// Parts of them that FSDP gathers at once: one a layer.
    units: f64,
    /// Ranks that share a set of shards.
    shard: Among,
    /// Ranks that hold the same shard of different sets.
    others: Among,
    /// How often a rank has such a part: once for each of its copies of the model.
    copies: f64,
}

/// Dense parameters, and those of experts.
fn sets(job: &Job) -> [Held; 2] {
    let [.., all, rest] = groups(job);
    let (d, copies) = (job.degrees, job.copies());
    let set = |params, frozen, units: f64, whole: Among, ranks: u32| {
        let Group { ranks: most, stride, .. } = whole.group;
        let ranks = ranks.clamp(1, most);
        let of = |ranks, stride| Among { group: Group::new(ranks, stride), ..whole };
        let (mut shard, others) = (of(ranks, stride), of(most / ranks, stride * ranks));
        if copies > 1.0 {
            // Both holders of a stage sum its gradients, and share its shards.
            shard.group = shard.group.mirrored(d.tp * d.cp * d.dp * d.pp);
        }
        let bytes = WIDTH * params + frozen;
        Held { params, bytes, units: units.max(1.0), shard, others, copies }
    };
    let ((dense, routed), (whole, experts)) = (trained(job), frozen(job));
    let (layers, moe) = (job.deepest(), job.deepest_experts());
    [
        set(dense, whole, layers, all, job.shard_size),
        set(routed, experts, moe, rest, job.expert_shard_size()),
    ]
}

/// The sum of a tied embedding's gradients on the first stage and the last, after the last micro-batch
/// (`_allreduce_word_embedding_grads`, megatron/core/distributed/finalize_model_grads.py of Megatron-LM). In a V, and
/// with DualPipe, the same ranks have both.
fn tied(job: &Job, wires: &Log<'_, '_>) -> Result<f64> {
    use Schedule::{DualPipe, DualPipeV, ZeroBubbleV};
    let apart = !matches!(job.schedule, DualPipe | DualPipeV | ZeroBubbleV);
    let trains = job.model.tied && job.adapters.is_none();
    if job.degrees.pp < 2 || !trains || !apart || job.sharding.framework.is_torch() {
        return Ok(0.0);
    }
    let [.., ends, _, _] = groups(job);
    let bytes = job.sharding.gradient * job.model.embedding() / f64::from(job.degrees.tp);
    wires.time(("dp", 1.0), AllReduce, ends, bytes)
}

fn replicas(job: &Job, wires: &Log<'_, '_>, m: &mut Messages) -> Result<()> {
    let q = job.sharding.gradient;
    let times = job.microbatches();
    let ahead = job.sharding.gathers && !job.overlap.none;
    let again = job.reshards();
    // DeepSpeed's ZeRO 1 and 2 give every rank the whole sums, of which it keeps its part
    // (`allreduce_and_scatter`, deepspeed/runtime/zero/stage_1_and_2.py of
    // <https://github.com/deepspeedai/DeepSpeed>). ZeRO 2 keeps no whole gradients, so it sums those of each
    // micro-batch (`allreduce_gradients`, deepspeed/runtime/engine.py).
    // So does DDP, whose optimizer alone may be shared.
    let is_whole = job.sharding.framework == Framework::DeepSpeed
        || job.sharding.framework == Framework::Fsdp && job.sharding.shard == Shard::Optimizer;
    let at_once = is_whole && job.sharding.shard == Shard::Gradients;
    let sums = if at_once { times } else { 1.0 };
    let sum = if is_whole { AllReduce } else { ReduceScatter };
    // What sums gradients and what gathers parameters, once a step; what units wait for in each forward and backward
    // pass.
    let [mut summed, mut gathered, mut forward, mut backward] = [0.0; 4];
    for held in sets(job).into_iter().filter(|held| held.bytes > 0.0) {
        let Held { params, bytes, units, shard, others, copies } = held;
        if job.sharding.gathers && !(job.accumulates() && again == Reshard::Never) {
            let (unit, whole) = (params / units, bytes / units);
            let calls = |each: f64| ("dp", each * units * times);
            let gathers = if again == Reshard::After { 2.0 } else { 1.0 };
            let gather = wires.time(calls(gathers), AllGather, shard, whole)?;
            forward += units * times * gather;
            let mut each = (gathers - 1.0) * gather;
            if let Reshard::Among(ranks) = again {
                let ranks = ranks.min(shard.group.ranks);
                let near = Among { group: Group { ranks, ..shard.group }, ..shard };
                each += wires.time(calls(1.0), AllGather, near, whole)?;
            }
            if job.accumulates() {
                let units = copies * units;
                summed += units * wires.time(("dp", units), ReduceScatter, shard, q * unit)?;
            } else {
                each += wires.time(calls(1.0), ReduceScatter, shard, q * unit)?;
            }
            let part = q * unit / f64::from(shard.group.ranks);
            if job.sharding.framework.is_torch() && !job.accumulates() {
                each += wires.time(calls(1.0), AllReduce, others, part)?;
            } else {
                let units = copies * units;
                summed += units * wires.time(("dp", units), AllReduce, others, part)?;
            }
            backward += units * times * each;
            continue;
        }
        if job.sharding.shard == Shard::Nothing {
            summed += copies * wires.time(("dp", copies), AllReduce, shard, q * params)?;
        } else {
            if job.sharding.scatters {
                let unit = q * params / units;
                let calls = ("dp", copies * units * times);
                backward += copies * units * times * wires.time(calls, sum, shard, unit)?;
            } else {
                let sums = copies * sums;
                summed += sums * wires.time(("dp", sums), sum, shard, q * params)?;
            }
            gathered += copies * wires.time(("dp", copies), AllGather, shard, WIDTH * params)?;
        }
        let part = q * params / f64::from(shard.group.ranks);
        summed += copies * wires.time(("dp", copies), AllReduce, others, part)?;
    }
    let last = if at_once { Beside::Backward } else { Beside::Last };
    let all = !job.overlap.none;
    for (seconds, hides, beside, left) in [
        (forward, all, Beside::Forward, DISTURBS),
        (backward, all, Beside::Backward, DISTURBS),
        (summed, job.overlap.gradients || ahead, last, BUCKET_ENDS),
        (gathered, job.overlap.gathers || ahead, Beside::First, BUCKET_ENDS),
    ] {
        match hides {
            true => m.beside("dp", seconds, (beside, left)),
            false => m.wait("dp", seconds),
        }
    }
    Ok(())
}

/// The step of a job whose kernels take `slower` times as long as the table of GPUs says.
fn step(job: &Job, wires: &Wires<'_>, slower: f64) -> Result<(Vec<Part>, Vec<Sent>)> {
    let (messages, sent) = messages(job, wires)?;
    Ok((parts(job, &messages, &stages(job), slower), sent))
}

/// The parts of a step of stages whose kernels take `slower` times as long.
fn parts(job: &Job, messages: &Messages, stages: &Stages, slower: f64) -> Vec<Part> {
    let times = job.microbatches();
    let (slowest, mean) = (stages.slowest * slower, stages.mean * slower);
    let mut room = Room::new(job, stages, slower);
    let part = |what, seconds, hidden| Part { what, seconds, hidden };
    let mut sent = ["tp", "cp", "ep", "pp", "dp"].map(|what| part(what, 0.0, 0.0));
    for message in &messages.0 {
        let hidden = room.hide(message);
        for part in sent.iter_mut().filter(|part| part.what == message.part) {
            part.seconds += message.seconds - hidden;
            part.hidden += hidden;
        }
    }
    let waits: f64 = sent.iter().filter(|p| p.what != "dp").map(|p| p.seconds).sum();
    let (dense, routed) = trained(job);
    let shares = match job.sharding.shard {
        Shard::Nothing => (1.0 / job.copies(), 1.0 / job.copies()),
        _ => (f64::from(job.shard_size), f64::from(job.expert_shard_size())),
    };
    let adam = (dense / shares.0 + routed / shares.1) * ADAM / job.device.stream();
    let host = job.sharding.offload.map_or(0.0, |offload| offload.optimizer);
    let computing = [
        part("compute", times * mean, 0.0),
        part("uneven stages", times * (slowest - mean).max(0.0), 0.0),
        part("pipeline bubble", job.idle() * (mean + waits / times), 0.0),
    ];
    let optimizer = part("optimizer", BESIDE + adam * (1.0 - host), 0.0);
    computing.into_iter().chain(sent).chain([optimizer]).collect()
}

impl Estimate {
    /// The exposed part of the step's messages.
    pub fn exposed(&self) -> f64 {
        let messages = ["tp", "cp", "ep", "pp", "dp"];
        self.parts.iter().filter(|p| messages.contains(&p.what)).map(|p| p.seconds).sum()
    }
}

fn sum(parts: &[Part]) -> f64 {
    parts.iter().map(|p| p.seconds).sum()
}

/// The time of a step of `job`, with kernels that take `slower` times as long as the table of GPUs
/// says.
///
/// # Errors
/// Ranks that the machine does not join; a batch that does not divide.
pub(crate) fn estimate(job: &Job, wires: &Wires<'_>, slower: Option<f64>) -> Result<Estimate> {
    divides(job)?;
    let (parts, sent) = step(job, wires, slower.unwrap_or(1.0))?;
    let step = sum(&parts);
    let wide = half(job, slower.is_some()).exp();
    let times = job.microbatches() + job.idle();
    let waiting = if slower.is_some() { 0.0 } else { times * unreplayed(job, stages(job)) };
    Ok(Estimate { step, low: step / wide, high: (step * wide).max(step + waiting), parts, sent })
}

/// Frameworks refuse a batch whose micro-batches differ between ranks.
fn divides(job: &Job) -> Result<()> {
    let Some(global) = job.global else { return Ok(()) };
    let (dp, micro) = (job.degrees.dp, job.micro);
    let each = u64::from(dp) * u64::from(micro);
    if u64::from(global).is_multiple_of(each) {
        return Ok(());
    }
    let what = format!("{global} sequences do not divide into micro-batches of {micro} on dp {dp}");
    Err(Error::input(what)
        .at(format!("global_batch = {global}"))
        .help(format!("write a multiple of {each}, or another micro_batch")))
}

/// Half the width of the band as a logarithm.
fn half(job: &Job, anchored: bool) -> f64 {
    let known = match (anchored, job.model.experts) {
        (true, _) => BAND_ANCHORED,
        (false, Some(_)) if job.device.is_blackwell() => BAND_EXPERTS_BLACKWELL,
        (false, Some(_)) => BAND_EXPERTS,
        (false, None) => BAND,
    };
    if job.least || job.recompute == Recompute::Unstated { known + BAND_UNSTATED } else { known }
}

/// The most by which a step of a similar job moves the rate of kernels, either way: larger differences have
/// other causes.
pub(crate) const SIMILAR: f64 = 1.5;

/// How much longer kernels take than the table of GPUs says, from a measured step of `job`.
///
/// # Errors
/// As [`estimate`]; a step that kernels of a quarter or of four times the rate do not explain.
pub(crate) fn anchored(job: &Job, wires: &Wires<'_>, measured: f64) -> Result<f64> {
    let (mut low, mut high) = (0.25_f64, 4.0_f64);
    let mut ends = [0.0; 2];
    for (end, slower) in ends.iter_mut().zip([low, high]) {
        *end = sum(&step(job, wires, slower)?.0);
    }
    if measured < ends[0] || ends[1] < measured {
        let what = format!("no rate of kernels explains a step of {}", Seconds(measured));
        return Err(Error::input(what).at("anchor").help(format!(
            "four times faster or slower, it takes {} to {}: is step_s in seconds, and are the keys those of \
             the run?",
            Seconds(ends[0]),
            Seconds(ends[1])
        )));
    }
    for _ in 0..40 {
        let mid = (low * high).sqrt();
        if sum(&step(job, wires, mid)?.0) < measured { low = mid } else { high = mid }
    }
    Ok((low * high).sqrt())
}

#[cfg(test)]
#[path = "held_out.rs"]
pub(super) mod held_out;

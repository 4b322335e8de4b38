//! The peak memory of a job's fullest rank.
//!
//! | part | bytes |
//! |---|---|
//! | states | 16 to 20 per parameter in total; sharded states are divided by the replicas |
//! | activations of a layer | tokens·h·(outer + inner/t), 34 in total for GPT; with sequence parallelism the outer parts are also divided by t |
//! | scores, if they are kept | 5·a·s/t per token |
//! | micro-batches in flight | min(p, m) on the first stage, times 1 + (p − 1)/(p·v) interleaved |
//! | logits | 12 per word and token: 16 bits, their copy in 32, exponentials or gradient |

use super::time::{frozen, held, trained};
use super::{
    Framework, Job, Modules, Offload, Precision, Recompute, Reshard, Schedule, Stated, Weights,
};
use crate::plan::Shard;

/// Bytes of the fullest rank.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Memory {
    pub parameters: f64,
    pub gradients: f64,
    pub optimizer: f64,
    pub activations: f64,
    pub logits: f64,
    /// Buffers and workspaces of libraries.
    pub buffers: f64,
    /// The recomputation that it assumes: for unstated jobs the least that fits.
    pub recompute: Recompute,
}

/// Half the relative width of the band: 8 of 10 published peaks are inside.
pub(crate) const BAND: f64 = 0.15;
/// The allocator keeps more than tensors hold.
const RESERVED: f64 = 1.1;
/// The driver also counts contexts, NCCL's buffers and fragmentation: 5 to 11 GB in BLOOM's tables.
const DRIVER: f64 = 8e9;
const BUFFERS: f64 = 0.5e9;
/// A part of the inputs is kept in 8 bits.
const FP8_KEPT: f64 = 0.8;

impl Memory {
    pub fn states(&self) -> f64 {
        self.parameters + self.gradients + self.optimizer
    }

    /// What tensors hold.
    pub fn allocated(&self) -> f64 {
        self.states() + self.activations + self.logits + self.buffers
    }

    /// As a framework or the driver reports it where there is room.
    pub fn stated(&self, stated: Stated) -> f64 {
        match stated {
            Stated::Allocated => self.allocated(),
            Stated::Reserved => self.allocated() * RESERVED,
            Stated::Driver => self.allocated() + DRIVER,
        }
    }

    /// The same on the job's GPU, of which the allocator keeps no more than tensors leave.
    pub fn reported(&self, job: &Job) -> f64 {
        let most = match job.stated {
            Stated::Reserved => job.device.capacity().max(self.allocated()),
            Stated::Allocated | Stated::Driver => f64::INFINITY,
        };
        self.stated(job.stated).min(most)
    }

    /// Whether the GPU may hold it: it does not only if even the low end of the band is too large.
    pub fn fits(&self, job: &Job) -> bool {
        self.reported(job) * (1.0 - BAND) <= job.device.capacity()
    }
}

/// The peak of `job`; if recomputation is unstated, with the least that fits.
pub(crate) fn memory(job: &Job) -> Memory {
    if job.recompute != Recompute::Unstated {
        return with(job, job.recompute);
    }
    let tries = [Recompute::Nothing, Recompute::Selective, Recompute::Modules(Modules::CHEAP)];
    let capacity = job.device.capacity();
    let sure = |m: &Memory| {
        let counted = job.stated != Stated::Driver || m.stated(Stated::Driver) <= capacity;
        m.allocated() <= 0.95 * capacity && counted
    };
    let found = tries.into_iter().map(|recompute| with(job, recompute)).find(sure);
    found.unwrap_or_else(|| with(job, Recompute::Full))
}

fn with(job: &Job, recompute: Recompute) -> Memory {
    let d = job.degrees;
    let (parameters, gradients, optimizer) = states(job);
    let per_layer = layer(job, recompute);
    let layers = f64::from(job.model.layers) / f64::from(d.pp);
    let whole = layer(job, Recompute::Nothing) + scores(job);
    // A layer that is recomputed is there whole once.
    let last = match recompute {
        Recompute::Full | Recompute::Offloaded | Recompute::Block(_) | Recompute::Every(_) => whole,
        Recompute::Modules(modules) if modules.mlp || modules.moe => whole - per_layer,
        _ => 0.0,
    };
    let flight = in_flight(job);
    let logits = logits(job);
    // The first stage holds the most micro-batches, the last one the logits.
    let first = per_layer * layers * flight;
    let end = per_layer * layers + logits;
    let (activations, logits) = match d.pp {
        // Nothing waits in the GPU's memory: the logits are gone when a layer is there whole.
        1 if recompute == Recompute::Offloaded && last > logits => (last, 0.0),
        1 if recompute == Recompute::Offloaded => (0.0, logits),
        1 => (first + last, logits),
        _ if end > first => (per_layer * layers + last, logits),
        _ => (first + last, 0.0),
    };
    Memory { parameters, gradients, optimizer, activations, logits, buffers: BUFFERS, recompute }
}

/// Micro-batches whose activations a rank of the first stage holds.
fn in_flight(job: &Job) -> f64 {
    let d = job.degrees;
    let (p, v) = (f64::from(d.pp), f64::from(d.chunks));
    if d.pp == 1 {
        return 1.0;
    }
    let most = match job.schedule {
        Schedule::GPipe => f64::INFINITY,
        Schedule::ZeroBubbleTwice => 2.0 * p,
        Schedule::DualPipe => p + 1.0,
        Schedule::DualPipeV => p + 0.5,
        Schedule::OneForwardOneBackward if d.chunks > 1 => p * (1.0 + (p - 1.0) / (p * v)),
        // ZB-H1 and ZB-V keep as much as 1F1B: the authors' table,
        // <https://huggingface.co/spaces/sail/zero-bubble-pipeline-parallellism>.
        Schedule::OneForwardOneBackward | Schedule::ZeroBubble | Schedule::ZeroBubbleV => p,
    };
    if job.global.is_some() { most.min(job.microbatches()) } else { most.min(1e6) }
}

/// Bytes that one layer keeps per micro-batch.
fn layer(job: &Job, recompute: Recompute) -> f64 {
    let (d, model) = (job.degrees, &job.model);
    let (tokens, h, t) = (job.tokens(), f64::from(model.hidden), f64::from(d.tp));
    let outer_over = if d.sequence { t } else { 1.0 };
    let input = 2.0 * tokens * h / outer_over;
    match recompute {
        Recompute::Full => return input,
        Recompute::Offloaded => return 0.0,
        Recompute::Block(_) | Recompute::Every(_) => {
            let again = job.again();
            return again * input + (1.0 - again) * layer(job, Recompute::Nothing);
        }
        _ => {}
    }
    let (outer, inner) = widths(job, recompute.again());
    let mut bytes = tokens * h * (outer / outer_over + inner / t);
    match recompute {
        // Norms and activation functions, or every second product, are recomputed.
        Recompute::Operators => bytes *= 0.55,
        Recompute::Modules(modules) if modules.cheap => bytes *= 0.5,
        _ => {}
    }
    if matches!(job.precision, Precision::Fp8 | Precision::Fp4) {
        bytes *= FP8_KEPT;
    }
    bytes + if recompute == Recompute::Nothing { scores(job) } else { 0.0 }
}

/// Bytes per token and channel that a layer keeps: those that only sequence parallelism divides, and those
/// that TP divides.
fn widths(job: &Job, again: Modules) -> (f64, f64) {
    let model = &job.model;
    let h = f64::from(model.hidden);
    if !model.gated && model.experts.is_none() && model.linear.is_none() {
        // Inputs and outputs of norms 8, dropout masks 2; q, k, v, their output and the FFN 24.
        let inner = if again.mlp { 8.0 } else { 24.0 };
        return (if job.sharding.framework.is_torch() { 8.0 } else { 10.0 }, inner);
    }
    let attention = 2.0 * model.attention_kept() / h;
    let part = |of: f64| of / f64::from(model.layers);
    let dense = 2.0 * model.products() * f64::from(model.ffn) / h;
    let dense = part(model.dense_layers()) * if again.mlp { 0.0 } else { dense };
    let experts = model.experts.map_or(0.0, |e| {
        let top_k = f64::from(e.top_k);
        // Two bytes of what each product gives and takes; tokens sorted by expert are copies of their inputs.
        let each = 2.0 * e.products() / h;
        let inner = f64::from(e.ffn) * top_k + f64::from(e.shared);
        let experts = each * inner + 2.0 * top_k * model.routed_width() / h;
        part(model.moe_layers()) * if again.moe { 0.0 } else { experts }
    });
    let inner = dense + experts;
    (8.0, attention + inner)
}

/// Bytes of the scores that a layer keeps if attention is not fused.
fn scores(job: &Job) -> f64 {
    if !job.unfused_attention {
        return 0.0;
    }
    let heads = f64::from(job.model.heads) / f64::from(job.degrees.tp);
    5.0 * heads * f64::from(job.sequence) * job.tokens()
}

fn logits(job: &Job) -> f64 {
    if job.fused_loss {
        return 0.0;
    }
    let each = match job.sharding.framework {
        // The logits and their gradient in 16 bits.
        _ if job.compiled_loss => 4.0,
        Framework::Megatron => 8.0,
        _ => 12.0,
    };
    job.tokens() * f64::from(job.model.vocab) / f64::from(job.degrees.tp) * each
}

/// Parameters, gradients, state of the optimizer.
fn states(job: &Job) -> (f64, f64, f64) {
    let (dense, routed) = trained(job);
    let (n, experts) = (f64::from(job.shard_size), f64::from(job.expert_shard_size()));
    let sharding = job.sharding;
    let add = |a: (f64, f64, f64), b: (f64, f64, f64)| (a.0 + b.0, a.1 + b.1, a.2 + b.2);
    let of = match sharding.narrow {
        true => narrow,
        false if sharding.gathers && sharding.framework.is_torch() => gathered,
        false => kept,
    };
    let all = add(of(job, dense, n), of(job, routed, experts));
    let ahead = match sharding.gathers {
        true => units(job),
        false if job.sharding.scatters => (0.0, units(job).1, 0.0),
        false => (0.0, 0.0, 0.0),
    };
    let whole = frozen(job);
    let beside = match sharding.gathers {
        true => [(whole.0, n), (whole.1, experts)]
            .map(|(bytes, n)| bytes * (copy(job, n) / 2.0 + 1.0 / n))
            .iter()
            .sum(),
        false => whole.0 + whole.1,
    };
    let (parameters, gradients, optimizer) = add(add(all, ahead), (beside, 0.0, 0.0));
    // Copies of a stage share one state of the optimizer, if any share it.
    let copies = job.copies();
    let states = if sharding.shard == Shard::Nothing { copies } else { 1.0 };
    let all = (parameters * copies, gradients * copies, optimizer * states);
    match sharding.offload {
        Some(offload) => left(job, offload, all),
        None => all,
    }
}

/// What FSDP gathers ahead: two units at once, while the gradients of one wait to be scattered.
fn units(job: &Job) -> (f64, f64, f64) {
    let (t, layers) = (f64::from(job.degrees.tp), job.deepest().max(1.0));
    let body = job.model.dense_body() / f64::from(job.model.layers) / t;
    let routed = held(job).1 / layers;
    let embedding = 2.0 * job.model.embedding() / t;
    if job.adapters.is_none() {
        let unit = body + routed;
        return (4.0 * unit + embedding, 4.0 * unit, 0.0);
    }
    let Weights { products, experts, .. } = job.frozen;
    let own = trained(job).0 / layers;
    // Weights of fewer bits are products of 16 while they are used, one after another.
    let wide = f64::from(job.model.hidden) * f64::from(job.model.ffn) / t;
    let used = if products.bytes < 2.0 { 2.0 * wide } else { 0.0 };
    (2.0 * (body * products.bytes + routed * experts.bytes) + used + embedding, 4.0 * own, 0.0)
}

/// What stays on the GPU of parameters, gradients and the optimizer's state.
///
/// Megatron's host has the optimizer's state alone (megatron/core/optimizer/cpu_offloading of Megatron-LM); DeepSpeed's
/// also the gradients that it updates with, by its own estimates (`estimate_zero2_model_states_mem_needs`,
/// `estimate_zero3_model_states_mem_needs` in deepspeed/runtime/zero); FSDP's all that is sharded
/// (`CPUOffloadPolicy`, torch/distributed/fsdp).
fn left(
    job: &Job,
    host: Offload,
    (parameters, gradients, optimizer): (f64, f64, f64),
) -> (f64, f64, f64) {
    let (dense, routed) = held(job);
    let here = 1.0 - host.optimizer;
    let rest = optimizer * here;
    let sharding = job.sharding;
    if sharding.framework.is_torch() && host.parameters {
        let (used, summed, rest) = units(job);
        // What is gathered stays between the passes, unless it is gathered again.
        let part = match sharding.shard {
            Shard::Gradients => 1.0,
            _ => copy(job, f64::from(job.shard_size)) / 2.0,
        };
        let (own, fixed) = (trained(job), frozen(job));
        let whole = 2.0 * (own.0 + own.1) + fixed.0 + fixed.1;
        return (used.max(part * whole), summed, rest);
    }
    if job.adapters.is_some() {
        return (if host.parameters { units(job).0 } else { parameters }, gradients, rest);
    }
    if sharding.framework != Framework::DeepSpeed || host.optimizer == 0.0 {
        return (parameters, gradients, rest);
    }
    if sharding.gathers {
        // Parts that the GPU updates have their gradients there, in 32 bits (`subgroup_to_device`, stage3.py).
        let own = dense / f64::from(job.shard_size) + routed / f64::from(job.expert_shard_size());
        let stays = if host.parameters { 0.0 } else { 2.0 };
        let wide = f64::from(job.model.hidden) * f64::from(job.model.ffn);
        let largest = job.model.embedding().max(wide) / f64::from(job.degrees.tp);
        return (4.0 * largest + stays * own, 4.0 * own * here, rest);
    }
    // The first stage keeps its gradients until the step.
    let kept = if sharding.shard == Shard::Gradients { 0.0 } else { gradients };
    (2.0 * (dense + routed), kept, rest)
}

/// Bytes of a parameter that all its replicas, or some, keep whole between the passes.
fn copy(job: &Job, n: f64) -> f64 {
    match job.reshards() {
        Reshard::After => 0.0,
        Reshard::Never => 2.0,
        Reshard::Among(ranks) => 2.0 / f64::from(ranks).min(n),
    }
}

/// States of `params` that all have 16 bits: a parameter, a gradient, two moments. DeepSpeed's first stages update a
/// copy of their part (`single_partition_of_fp32_groups`, deepspeed/runtime/zero/stage_1_and_2.py), the third one its
/// part itself (`fp32_partitioned_groups_flat`, stage3.py).
fn narrow(job: &Job, params: f64, n: f64) -> (f64, f64, f64) {
    let (whole, part) = (2.0 * params, 2.0 * params / n);
    let deepspeed = job.sharding.framework == Framework::DeepSpeed;
    let moments = if deepspeed { 3.0 * part } else { 2.0 * part };
    match job.sharding.shard {
        Shard::Nothing => (whole, whole, 2.0 * whole),
        Shard::Optimizer => (whole, whole, moments),
        Shard::Gradients => (whole, part, moments),
        Shard::Parameters => {
            // Whole until the last micro-batch.
            let summed = if job.accumulates() && !deepspeed { whole } else { 0.0 };
            (params * copy(job, n) + part, summed + part, 2.0 * part)
        }
    }
}

/// FSDP's states of `params`, sharded over `n`.
fn gathered(job: &Job, params: f64, n: f64) -> (f64, f64, f64) {
    let gradients = match job.sharding.shard {
        Shard::Gradients => 2.0 / n,
        // Whole until the last micro-batch.
        _ if job.accumulates() => 4.0 + 4.0 / n,
        _ => 4.0 / n,
    };
    (params * (copy(job, n) + 4.0 / n), params * gradients, 8.0 * params / n)
}

/// States of `params` that a rank keeps in full, except those sharded over `n` replicas.
fn kept(job: &Job, params: f64, n: f64) -> (f64, f64, f64) {
    let early = job.early;
    let sent = job.sharding.gradient;
    let wide = sent > 2.0;
    // Gradients of 16 bits are copied to 32 for the step: Megatron's docs say so of fp16
    // (docs/user-guide/features/dist_optimizer.md: 4 + 16/d).
    let copied = early || job.precision == Precision::Fp16;
    let master = if wide || !copied { 12.0 } else { 16.0 };
    match job.sharding.shard {
        Shard::Nothing if job.precision == Precision::Fp16 => {
            (2.0 * params, 2.0 * params, 16.0 * params)
        }
        Shard::Nothing => (2.0 * params, sent * params, 12.0 * params),
        // Before gradient accumulation was fused into products, gradients were kept in both types.
        Shard::Optimizer if wide && early => (2.0 * params, 6.0 * params, 12.0 * params / n),
        Shard::Optimizer if wide => (2.0 * params, 4.0 * params, 12.0 * params / n),
        Shard::Optimizer => (2.0 * params, 2.0 * params, master * params / n),
        Shard::Gradients if job.sharding.scatters => {
            (2.0 * params, sent * params / n, 12.0 * params / n)
        }
        // DeepSpeed's estimator: 2 + 18/n, of which gradients are 2 and 4.
        Shard::Gradients => (2.0 * params, 6.0 * params / n, 12.0 * params / n),
        // Beside the parameters of 16 bits their copies in 32: 18/n by DeepSpeed's estimator, and the buffers
        // of Megatron's FSDP (`main_weight_buffer`, megatron_fsdp/param_and_grad_buffer.py).
        Shard::Parameters => {
            let own = if job.sharding.framework == Framework::DeepSpeed { 4.0 } else { sent };
            (params * (copy(job, n) + 2.0 / n), own * params / n, 12.0 * params / n)
        }
    }
}

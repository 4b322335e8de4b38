//! The work of a GPU for a stage in one micro-batch, forward and back.
//!
//! Products take 2 operations per weight and token forward and 4 back; full recomputation adds one
//! more forward pass. Attention's core takes 4·a·d operations per token and key; a fused kernel
//! skips the masked half and adds half a forward pass in the backward pass. Pointwise work reads
//! and writes some bytes per token, channel and layer; casts into FP8 four bytes per element that
//! products read; unfused scores about 22 bytes per score.

use super::{Framework, Job, Modules, Precision, Recompute};

/// Operations and bytes of some layers.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Work {
    products: f64,
    grouped: f64,
    core: f64,
    bytes: f64,
    layers: f64,
}

/// Seconds of stages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Stages {
    /// The slowest one.
    pub slowest: f64,
    /// Their mean.
    pub mean: f64,
    /// Attention's core of the slowest stage: a ring of keys and values overlaps with it.
    pub core: f64,
    /// The part of a stage's time that is its forward pass.
    pub forward: f64,
}

/// Bytes of pointwise work per token, channel and layer.
const POINTWISE: f64 = 180.0;
/// The same for an element that is cast into FP8: two read, one written, and one more for its
/// transpose, which the weights' gradients need.
const CAST: f64 = 4.0;
/// The same for FP4: its tensor's largest element is read first, then half a byte is written twice.
const CAST_FP4: f64 = 5.0;
/// The same for a score that is written, including the reads of the backward pass.
const SCORE: f64 = 22.0;
const SCORE_AGAIN: f64 = 11.0;
/// Bytes of an element that an adapter reads or adds to, in all passes. With it three published steps (NVIDIA NeMo 24.12,
/// LoRA of Llama 2 in FP8) are 6 to 13 % shorter than here.
const ADAPTER: f64 = 4.0;
/// Passes of an expert's tokens through memory for sorting and restoring their order.
const SORTED: f64 = 12.0;
/// The number of tokens at which products reach half of the gain from larger ones.
const FEW_TOKENS: f64 = 317.0;
const NARROW: f64 = 131.0;
/// The same for products of single experts.
const FEW_A_EXPERT: f64 = 688.0;
const GROUPED: f64 = 0.73;
/// Tokens of a causal sequence at which a fused kernel of attention reaches half of its rate: 340 to 580 by
/// the H100 at width 128 of FlashAttention-3 and cuDNN (arXiv 2407.08608, figure 5).
const SHORT: f64 = 400.0;
/// The rate of PyTorch without its compiler over that with it.
const EAGER: f64 = 0.894;
/// The time of a host to launch a layer's kernels, forward and back, in seconds.
const HOST: f64 = 0.6e-3;
const HOST_EXPERTS: f64 = 2.1e-3;

/// The longest that a layer of experts was published to take where its kernels are launched one by one, forward and
/// back, in seconds: 17.4 to 17.7 ms on H100, 8.8 to 17.9 on B200 and B300, whatever its tokens (micro-batches of one
/// sequence in awslabs/awsome-distributed-ai, megatron-bridge/benchmarks, and NVIDIA-NeMo/Megatron-Bridge).
const HOST_UNREPLAYED: f64 = 18e-3;

/// The time by which a stage may wait longer for its host in a micro-batch, if no CUDA graphs replay its layers of
/// experts.
pub(crate) fn unreplayed(job: &Job, stages: Stages) -> f64 {
    if !job.launches_one_by_one() {
        return 0.0;
    }
    (job.deepest_experts() * HOST_UNREPLAYED * passes(job) / 3.0 - stages.slowest).max(0.0)
}

fn passes(job: &Job) -> f64 {
    match job.recompute {
        Recompute::Operators => 3.5,
        Recompute::Modules(modules) if modules.cheap => 3.1,
        // Whole layers that run again; none of the others.
        _ => 3.0 + job.again(),
    }
}

/// The passes that products lack whose weights are frozen: those have no gradients.
fn frozen(job: &Job) -> f64 {
    if job.adapters.is_some() { 1.0 } else { 0.0 }
}

/// Of a layer's products outside routed experts those that run again with a whole feed-forward part.
fn fed_again(job: &Job) -> f64 {
    let model = &job.model;
    let Modules { mlp, moe, .. } = job.recompute.again();
    let dense = model.dense_layers() * model.dense_ffn();
    let shared = model.moe_layers() * model.shared();
    (if mlp { dense } else { 0.0 } + if moe { shared } else { 0.0 }) / model.dense_body()
}

fn work(job: &Job, layers: f64) -> Work {
    let model = &job.model;
    let (tokens, tp) = (job.tokens(), f64::from(job.degrees.tp));
    let (h, all) = (f64::from(model.hidden), f64::from(model.layers));
    let moe = model.moe_layers() / all;
    let weights = model.dense_body() / all;
    let routed = moe * model.expert() * model.experts.map_or(0.0, |e| f64::from(e.top_k));
    let (fed, again) = (fed_again(job), job.again());
    let frozen = frozen(job);
    let experts = passes(job) - frozen + if job.recompute.again().moe { 1.0 } else { 0.0 };
    let passes = passes(job) + fed;
    let sequence = f64::from(job.sequence);
    let (scores, core) = match job.unfused_attention {
        true => (sequence, 3.0 + if job.recompute == Recompute::Selective { 1.0 } else { again }),
        false => (sequence / 2.0, 3.5 + again),
    };
    // Without sequence parallelism, every rank has all norms and the whole residual stream.
    let parts = if job.degrees.sequence { tp } else { (tp + 1.0) / 2.0 };
    let mut bytes = tokens * h * layers * POINTWISE * passes / 3.0 / parts;
    if job.device.casts(job.precision) {
        // Only gradients of weights need the transpose.
        let each = if job.precision == Precision::Fp4 { CAST_FP4 } else { CAST - frozen };
        bytes += each * tokens * layers * cast(job, 1.0 + again + fed);
    }
    let (read, written) = job.adapted();
    let adapters = job.layer_adapters();
    bytes += tokens * layers * ADAPTER * (read + written) * passes / 3.0 / tp;
    if job.unfused_attention {
        let written = SCORE + SCORE_AGAIN * (core - 3.0);
        let score = f64::from(job.micro) * f64::from(model.heads) * sequence * sequence;
        bytes += score / f64::from(job.degrees.cp) / tp * layers * written;
    }
    if let Some(experts) = model.experts {
        let copies = tokens * f64::from(experts.top_k) * model.routed_width() * 2.0;
        bytes += copies * SORTED * layers / if job.degrees.sequence { tp } else { 1.0 };
    }
    Work {
        products: 2.0 * tokens * layers * (weights * (passes - frozen) + adapters * passes) / tp,
        grouped: 2.0 * tokens * layers * routed * experts / tp,
        core: (4.0 * scores * model.trained_cores(sequence) + model.linear_core()) / all
            * tokens
            * layers
            * core
            / tp,
        bytes,
        layers,
    }
}

/// Elements that a token's products read in a layer: inputs, each time they are computed, and
/// gradients of outputs. TP divides those between column- and row-parallel weights; with sequence
/// parallelism the others are cast before they are gathered.
fn cast(job: &Job, forward: f64) -> f64 {
    let (model, tp) = (&job.model, f64::from(job.degrees.tp));
    let (h, queries) = (f64::from(model.hidden), model.core_width());
    let moe = model.moe_layers() / f64::from(model.layers);
    let experts = model.experts.map_or(0.0, |e| f64::from(e.top_k * e.ffn + e.shared));
    let dense = model.dense_layers() / f64::from(model.layers);
    let of_experts = model.experts.map_or(0.0, |e| e.products() - 1.0);
    let dense = dense * f64::from(model.ffn);
    let ffn = dense + moe * experts;
    let fed = dense * (model.products() - 1.0) + moe * experts * of_experts;
    let whole = 2.0 * h / if job.degrees.sequence { tp } else { 1.0 };
    let inputs = whole + (queries + ffn) / tp;
    let outputs = whole + (queries + model.kv_width() + fed) / tp;
    forward * inputs + outputs
}

impl Work {
    fn core_seconds(&self, job: &Job) -> f64 {
        let rate = job.device.attention(job.unfused_attention, job.runs_torch());
        let own = f64::from(job.sequence) / f64::from(job.degrees.cp);
        let short = if job.unfused_attention { 1.0 } else { 1.0 + SHORT / own };
        self.core * short / rate
    }

    fn seconds(&self, job: &Job) -> f64 {
        let torch = job.runs_torch();
        let tp = f64::from(job.degrees.tp);
        let narrow = 1.0 + FEW_TOKENS / job.tokens() + NARROW * tp / f64::from(job.model.hidden);
        let rate = job.device.body(job.precision, torch) * eager(job) / narrow;
        let mut busy =
            self.products / rate + self.core_seconds(job) + self.bytes / job.device.stream();
        let mut host = HOST;
        if let Some(experts) = job.model.experts {
            // Tokens of an expert: those of all ranks that exchange them, and each of TP has its part.
            let (ep, etp) = (f64::from(job.degrees.ep), f64::from(job.degrees.etp));
            let each = job.tokens() * ep * etp / tp * f64::from(experts.top_k)
                / f64::from(experts.experts);
            let part = f64::from(experts.ffn) / etp;
            // The products of a rank's only expert are plain ones.
            let plain = experts.experts == job.degrees.ep;
            // Casts and the host's loop over several experts cost what 8 bits gain, unless they are in one kernel with
            // their gates: steps of Nemotron 3, without gates, did not become shorter by it.
            let rate = match plain || job.fused_experts && experts.gated {
                true => job.device.body(job.precision, torch),
                false => job.device.matmul(torch),
            };
            let longer = match plain {
                true => 1.0 + FEW_TOKENS / each + NARROW / part,
                false => of_experts(FEW_A_EXPERT / each, part),
            };
            busy += self.grouped * longer / rate;
            host = HOST_EXPERTS;
        }
        // The longer of GPU and host time, slightly more if they are similar.
        (busy.powi(4) + (self.layers * host).powi(4)).powf(0.25)
    }
}

/// How many times as long products of single experts take as one large product: with a loss by few tokens, and with
/// such a part of an expert's width on a rank.
pub(super) fn of_experts(few: f64, ffn: f64) -> f64 {
    (1.0 + few + NARROW / ffn) / GROUPED
}

fn eager(job: &Job) -> f64 {
    let torch = job.sharding.framework == Framework::Fsdp2 && job.runs_torch();
    if torch && !job.compiled { EAGER } else { 1.0 }
}

/// The head's products, which are never recomputed and stay in 16 bits.
fn head(job: &Job) -> f64 {
    let tp = f64::from(job.degrees.tp);
    let narrow = 1.0 + FEW_TOKENS / job.tokens() + NARROW * tp / f64::from(job.model.hidden);
    let flops = 2.0 * (3.0 - frozen(job)) * job.tokens() * job.model.embedding() / tp;
    flops * narrow / (job.device.body(Precision::Bf16, job.runs_torch()) * eager(job))
}

/// The work of the stages in a micro-batch.
pub(crate) fn stages(job: &Job) -> Stages {
    let pp = f64::from(job.degrees.pp);
    let layers = f64::from(job.model.layers);
    let deepest = work(job, job.deepest());
    let head = head(job);
    let mean = work(job, layers / pp).seconds(job) + head / pp;
    let mut slowest = deepest.seconds(job);
    if job.degrees.pp == 1 {
        slowest += head;
    } else if !job.balanced() {
        let left = (layers - job.deepest() * (pp - 1.0)).max(0.0);
        slowest = slowest.max(work(job, left).seconds(job) + head);
    }
    Stages {
        slowest,
        mean,
        core: deepest.core_seconds(job),
        forward: 1.0 / (passes(job) - frozen(job)),
    }
}

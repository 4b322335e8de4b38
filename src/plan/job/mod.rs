//! A training job from existing configuration files: the time of its step and its peak memory.
//!
//! | file | what is read |
//! |---|---|
//! | `draft` | given keys in layers; missing ones are reported by name |
//! | `row` | a job in TOML: `[model]`, `layout`, `batch`, `machine` |
//! | `arguments`, `shell` | command arguments in scripts, whose variables and branches are followed |
//! | `model` | widths of a transformer: parameters, arithmetic |
//! | `device` | the rates of a GPU by measured kernels, and its memory |
//! | `work` | arithmetic and bytes of a pipeline's stage |
//! | `time` | the step: stages, schedule, collectives, overlap |
//! | `memory` | the fullest rank: states, activations, logits |
//! | `weights` | how a server's weights are stored |
//! | `room` | what its GPU holds beside them, and the cache that is left room for |
//! | `wires` | the expected times of collectives |
//!
//! A published rate is end to end: bubble and communication are inside it. Here computing time
//! follows from the rate of kernels, and everything else is added. Sources of the formulas:
//! Narayanan et al., arXiv 2104.04473 (pipelines); Korthikanti et al., arXiv 2205.05198
//! (activations); Rajbhandari et al., arXiv 1910.02054 (states); Qi et al., arXiv 2401.10241 (zero
//! bubble); DeepSeek-AI, arXiv 2412.19437 (DualPipe); Dao et al., arXiv 2205.14135 (flash
//! attention's 2.5-fold backward pass).

mod accelerate;
mod arguments;
mod arithmetic;
mod automodel;
mod bridge;
mod container;
mod deepspeed;
mod device;
mod draft;
mod files;
mod flags;
mod huggingface;
mod maxtext;
mod mcore;
mod megatron;
mod memory;
mod model;
mod nanotron;
mod neox;
mod options;
mod pattern;
mod room;
mod row;
mod search;
mod sent;
mod serve;
mod serving;
mod shell;
mod started;
mod tensorrt;
mod time;
mod torchtitan;
mod trainer;
mod usual;
mod vllm_recipe;
mod weights;
mod wires;
mod words;
mod work;

use crate::plan::Shard;
use crate::plan::table::MachineEntry;

pub(crate) use device::Device;
pub(crate) use draft::Draft;
pub(crate) use files::{beside, drafts, is_job};
pub(crate) use memory::{BAND as MEMORY_BAND, Memory, memory};
pub(crate) use model::Transformer;
pub(crate) use row::Row;
pub(crate) use search::{Found, Pins, Searched, search};
pub(crate) use sent::Sent;
pub(crate) use serve::{Doing, Phase, Serve, Served};
pub(crate) use time::{Estimate, Part, SIMILAR, anchored, estimate};
pub(crate) use weights::Weights;
pub(crate) use wires::{Span, Wires};
pub(crate) use words::{
    Adapters, Dispatcher, Framework, Modules, Offload, Overlap, Precision, Recompute, Reshard,
    Schedule, Sharding, Stated,
};

/// Degrees of parallelism; the order of ranks is tp, cp, dp, pp from the innermost out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Degrees {
    pub tp: u32,
    pub pp: u32,
    pub cp: u32,
    pub dp: u32,
    /// Ranks of experts, out of those of TP, CP and DP.
    pub ep: u32,
    /// Neighbouring ranks that divide each expert.
    pub etp: u32,
    /// Pieces of the model on a stage, one after another (interleaving).
    pub chunks: u32,
    /// Whether TP splits the rest of a layer by tokens.
    pub sequence: bool,
}

impl Degrees {
    pub fn gpus(self) -> u64 {
        [self.tp, self.pp, self.cp, self.dp].into_iter().map(u64::from).product()
    }

    /// Ranks that hold the same dense parameters.
    pub fn replicas(self) -> u32 {
        self.dp * self.cp
    }

    /// Ranks that hold the same experts.
    pub fn expert_replicas(self) -> u32 {
        (self.dp * self.cp * self.tp / (self.ep * self.etp)).max(1)
    }
}

/// A job: a model, its layout and its machine.
#[derive(Clone)]
pub(crate) struct Job {
    pub name: String,
    pub model: Transformer,
    pub degrees: Degrees,
    /// The adapters that alone are trained; absent if all parameters are.
    pub adapters: Option<Adapters>,
    /// How the parameters beside adapters are stored.
    pub frozen: Weights,
    pub sharding: Sharding,
    /// Replicas that share one set of shards; fewer than all is HSDP.
    pub shard_size: u32,
    /// What FSDP shards between the passes, where it is stated.
    pub reshard: Option<Reshard>,
    /// Sequences per step; absent if only memory is computed.
    pub global: Option<u32>,
    /// Sequences of a micro-batch.
    pub micro: u32,
    /// Sequences of a replica after which a pipeline runs empty; absent if it does at the end of a step alone.
    pub local: Option<u32>,
    /// Tokens of a sequence.
    pub sequence: u32,
    pub precision: Precision,
    pub recompute: Recompute,
    /// Whether that is not given, but the least that fits.
    pub least: bool,
    /// Whether the loss is fused and never holds all logits.
    pub fused_loss: bool,
    /// Whether a compiler fuses the loss and its copies in 32 bits.
    pub compiled_loss: bool,
    pub overlap: Overlap,
    /// Whether ranks of CP exchange heads for tokens around attention (DeepSpeed-Ulysses, arXiv 2309.14509), instead of
    /// passing keys and values in a ring.
    pub ulysses: bool,
    pub schedule: Schedule,
    pub dispatcher: Dispatcher,
    pub node_limit: Option<u32>,
    /// Whether pointwise work is fused by a compiler.
    pub compiled: bool,
    /// Whether Transformer Engine's kernels compute, though a framework has PyTorch's.
    pub transformer_engine: bool,
    /// Whether scores of attention are written to memory.
    pub unfused_attention: bool,
    /// Whether CUDA graphs replay its layers, where that is stated.
    pub graphs: Option<bool>,
    /// Whether one kernel computes the products and gates of all experts of a rank, in the type of the body's products.
    pub fused_experts: bool,
    /// Whether it runs with software of before 2023.
    pub early: bool,
    pub device: Device,
    pub machine: MachineEntry,
    /// Which measure of memory is computed.
    pub stated: Stated,
    /// Inferred values that were not given.
    pub inferred: Vec<String>,
}

impl Job {
    /// Elements that products with an adapter read and write of a token in a layer.
    pub fn adapted(&self) -> (f64, f64) {
        self.adapters.and_then(|adapters| self.model.adapted(adapters)).unwrap_or_default()
    }

    /// Parameters of a layer's adapters; none if all parameters are trained.
    pub fn layer_adapters(&self) -> f64 {
        let (read, written) = self.adapted();
        self.adapters.map_or(0.0, |adapters| f64::from(adapters.rank) * (read + written))
    }

    /// All parameters that are trained.
    pub fn trained_params(&self) -> f64 {
        match self.adapters {
            Some(_) => self.layer_adapters() * f64::from(self.model.layers),
            None => self.model.params(),
        }
    }

    /// Arithmetic of a token in a step, by the model alone.
    pub fn step_flops(&self) -> f64 {
        self.model.step_flops(f64::from(self.sequence), self.adapters.is_some())
    }

    /// Whether PyTorch's own kernels compute.
    pub fn runs_torch(&self) -> bool {
        self.sharding.framework.is_torch() && !self.transformer_engine
    }

    /// Micro-batches per step.
    pub fn microbatches(&self) -> f64 {
        let each = f64::from(self.degrees.dp) * f64::from(self.micro);
        self.global.map_or(1.0, |all| (f64::from(all) / each).max(1.0))
    }

    /// The idle time of a rank, in micro-batches.
    pub fn idle(&self) -> f64 {
        let d = self.degrees;
        let all = self.microbatches();
        let filled = self.local.map_or(all, |local| f64::from(local / self.micro).clamp(1.0, all));
        all / filled * self.schedule.idle(f64::from(d.pp), f64::from(d.chunks), filled)
    }

    /// What FSDP shards between the passes. In a pipeline FSDP2 keeps what is gathered unless told
    /// otherwise (`fsdp_reshard_after_forward`, torchtitan/config/job_config.py of
    /// <https://github.com/pytorch/torchtitan>); ZeRO 2 always does.
    pub fn reshards(&self) -> Reshard {
        match self.reshard {
            _ if self.sharding.shard == Shard::Gradients => Reshard::Never,
            Some(stated) => stated,
            None if self.accumulates() && self.degrees.pp > 1 => Reshard::Never,
            None => Reshard::After,
        }
    }

    /// Whether the ranks that share a copy between the passes divide a set of shards.
    pub fn copies_divide(&self) -> bool {
        match self.reshards() {
            Reshard::Among(ranks) => self.shard_size.is_multiple_of(ranks),
            _ => true,
        }
    }

    /// Whether gradients are summed over ranks once for all micro-batches: FSDP2 in a pipeline, or where it is said.
    pub fn accumulates(&self) -> bool {
        let fsdp = self.sharding.framework == Framework::Fsdp2;
        fsdp && (self.degrees.pp > 1 || self.sharding.once && self.microbatches() > 1.0)
    }

    /// Ranks that share one set of an expert's shards: those of a set that hold the same expert.
    pub fn expert_shard_size(&self) -> u32 {
        let d = self.degrees;
        (self.shard_size * d.tp / (d.ep * d.etp)).clamp(1, d.expert_replicas())
    }

    /// Tokens of a micro-batch on a rank.
    pub fn tokens(&self) -> f64 {
        f64::from(self.micro) * f64::from(self.sequence) / f64::from(self.degrees.cp)
    }

    /// The share of layers whose forward pass runs again. Megatron-LM counts those of a block in each
    /// chunk of a stage (`--recompute-num-layers`).
    pub fn again(&self) -> f64 {
        let d = self.degrees;
        match self.recompute {
            Recompute::Full | Recompute::Offloaded => 1.0,
            Recompute::Block(layers) => {
                let chunks = f64::from(d.pp) * f64::from(d.chunks);
                (f64::from(layers) * chunks / f64::from(self.model.layers)).min(1.0)
            }
            Recompute::Every(nth) => 1.0 / f64::from(nth),
            _ => 0.0,
        }
    }

    /// The same for layers of experts, of which Megatron-LM may run the whole second half again
    /// (`moe_layer_recompute`, megatron/core/transformer/moe/moe_layer.py).
    pub fn experts_again(&self) -> f64 {
        if self.recompute.again().moe { 1.0 } else { self.again() }
    }

    /// Of the fullest stage's layers those whose feed-forward part that TP divides runs again by itself.
    pub fn feeds_again(&self) -> f64 {
        let Modules { mlp, moe, .. } = self.recompute.again();
        let experts = self.deepest_experts();
        let shared = !self.degrees.sequence || self.model.experts.is_some_and(|e| e.shared > 0);
        let dense = if mlp { self.deepest_dense() } else { 0.0 };
        dense + if moe && shared { experts } else { 0.0 }
    }

    /// How often the model is on the ranks of a pipeline: twice with DualPipe (arXiv 2412.19437, table 2).
    pub fn copies(&self) -> f64 {
        if self.schedule == Schedule::DualPipe && self.degrees.pp > 1 { 2.0 } else { 1.0 }
    }

    /// Whether the kernels of Megatron's layers of experts are known to be launched one by one.
    pub fn launches_one_by_one(&self) -> bool {
        let megatron = self.sharding.framework == Framework::Megatron;
        megatron && self.model.experts.is_some() && self.graphs == Some(false)
    }

    /// Whether another job runs the same kernels on the same number of ranks.
    pub fn runs_as(&self, other: &Self) -> bool {
        self.model == other.model
            && self.degrees == other.degrees
            && (self.micro, self.sequence, self.global)
                == (other.micro, other.sequence, other.global)
            && (self.precision, self.recompute) == (other.precision, other.recompute)
            && (self.local, self.transformer_engine) == (other.local, other.transformer_engine)
            && (self.adapters, self.frozen) == (other.adapters, other.frozen)
    }

    /// The keys that determine its step and its memory, with their values.
    pub fn facts(&self) -> Vec<(String, String)> {
        let d = self.degrees;
        let adapters = self.adapters.map_or("none".to_owned(), |adapters| adapters.to_string());
        let frozen = self.frozen.products.bytes.to_string();
        let facts = [
            ("adapters", adapters),
            ("bytes of a frozen weight", frozen),
            ("params", format!("{}", self.model.params())),
            ("tp", d.tp.to_string()),
            ("pp", d.pp.to_string()),
            ("cp", d.cp.to_string()),
            ("ulysses", (self.ulysses && d.cp > 1).to_string()),
            ("dp", d.dp.to_string()),
            ("ep", d.ep.to_string()),
            ("etp", d.etp.to_string()),
            ("chunks_per_stage", d.chunks.to_string()),
            ("sequence_parallel", d.sequence.to_string()),
            ("global_batch", self.global.unwrap_or(0).to_string()),
            ("micro_batch", self.micro.to_string()),
            ("sequence", self.sequence.to_string()),
            ("precision", format!("{:?}", self.precision).to_lowercase()),
            ("recompute", self.recompute.to_string()),
            ("sharding", self.sharding.words(self.shard_size, d.replicas())),
            ("device", self.device.name.clone()),
        ];
        facts.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }

    /// Layers of the fullest stage. Splits of L + 2 layers count the embedding and the head as one.
    pub fn deepest(&self) -> f64 {
        let (layers, pp) = (self.model.layers, self.degrees.pp);
        if self.balanced() {
            f64::from(layers + 2) / f64::from(pp)
        } else {
            f64::from(layers.div_ceil(pp))
        }
    }

    /// Layers of experts of the fullest stage. Dense layers are the first ones (DeepSeek-V3, GLM-4.5, Kimi), unless
    /// they are half of all or more and so alternate with the others (Llama 4 Maverick), or layers lack such parts at all
    /// between the others (Nemotron 3).
    pub fn deepest_experts(&self) -> f64 {
        let (all, own) = (f64::from(self.model.layers), self.model.moe_layers());
        match 2.0 * own > all && self.model.feeding_layers() == all {
            true => self.deepest().min(own),
            false => self.deepest() * own / all,
        }
    }

    /// Layers with a dense feed-forward part of the fullest stage.
    pub fn deepest_dense(&self) -> f64 {
        match self.model.dense {
            Some(dense) => {
                self.deepest() * (f64::from(dense) / f64::from(self.model.layers)).min(1.0)
            }
            None => self.deepest() - self.deepest_experts(),
        }
    }

    /// Whether the embedding and the head count as layers of their stages.
    pub fn balanced(&self) -> bool {
        let (layers, pp) = (self.model.layers, self.degrees.pp);
        pp > 1 && !layers.is_multiple_of(pp) && (layers + 2).is_multiple_of(pp)
    }
}

#[cfg(test)]
mod tests;

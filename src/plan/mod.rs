//! A step of a model: the collectives that its parallelism needs, their sizes, links and times, and
//! the part that computation hides.
//!
//! [`Step`] is what a person writes (a model, a layout, a machine); [`calls`] turns it into
//! collectives; [`price`] into times. The order of the axes places groups of ranks on the machine;
//! groups that use a node's NICs at once share them.
//!
//! Sizes are nccl-tests' M. Sources: Shoeybi et al., arXiv 1909.08053 (tensor parallelism);
//! Korthikanti et al., arXiv 2205.05198 (sequence parallelism); Rajbhandari et al., arXiv 1910.02054
//! (ZeRO); Zhao et al., arXiv 2304.11277 (FSDP); DeepSeek-AI, arXiv 2412.19437 (node-limited
//! routing); Douillard et al., arXiv 2311.08105 (infrequent synchronisation).

pub mod bucket;
mod calls;
pub mod check;
pub mod config;
mod group;
pub(crate) mod job;
mod load;
mod moe;
mod presets;
mod price;
mod read;
pub mod table;

use std::str::FromStr;

use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bytes, Ratio, Seconds, Volume};
use crate::base::words::{one_of, words};
use crate::machine::sample::DataType;
use crate::plan::bucket::Limit;
use crate::plan::table::MachineEntry;

pub use calls::calls;
pub use group::{Group, Lies, Place};
pub(crate) use load::layered;
pub use load::{Asked, load};
pub use moe::{Routing, Traffic};
pub use presets::{PRESETS, preset_names};
pub use price::{CallPrice, NODE_LIMITED, Priced, Tweak, price};
pub use read::{KEYS, read, steps};

words! {
    /// What a step does.
    #[derive(Default)]
    pub enum Mode {
        /// Forward, backward, and gradients summed.
        #[default]
        Training = "training",
        /// One more token for each sequence.
        Decoding = "decoding",
    }
}

impl FromStr for Mode {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let words =
            [("training|train", Self::Training), ("decoding|decode|inference", Self::Decoding)];
        one_of(text, "a mode", words)
    }
}

/// What is sharded over replicas: stages of ZeRO.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shard {
    /// Nothing: DDP.
    #[default]
    Nothing,
    /// The optimizer's state: ZeRO-1.
    Optimizer,
    /// Gradients too: ZeRO-2.
    Gradients,
    /// Parameters too: ZeRO-3, FSDP; over a part of the replicas HSDP.
    Parameters,
}

impl Shard {
    /// Its name in files.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Self::Nothing => "none",
            Self::Optimizer => "zero1",
            Self::Gradients => "zero2",
            Self::Parameters => "zero3",
        }
    }
}

impl FromStr for Shard {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.to_ascii_lowercase().as_str() {
            "none" | "ddp" | "zero0" | "zero-0" | "no_shard" => Ok(Self::Nothing),
            "zero1" | "zero-1" => Ok(Self::Optimizer),
            "zero2" | "zero-2" => Ok(Self::Gradients),
            "zero3" | "zero-3" | "fsdp" | "hsdp" | "full_shard" | "hybrid_shard" => {
                Ok(Self::Parameters)
            }
            _ => Err(Error::input(format!("`{text}` is not a kind of sharding"))
                .help("write none, zero1, zero2, zero3 or fsdp")),
        }
    }
}

words! {
    /// A kind of parallelism.
    #[derive(Hash)]
    pub enum Axis {
        /// Tensor.
        Tp = "tp",
        /// Context: the sequence over ranks, keys and values gathered.
        Cp = "cp",
        /// Expert.
        Ep = "ep",
        /// Data.
        Dp = "dp",
        /// Pipeline.
        Pp = "pp",
        /// Calls that the file defines itself.
        Own = "own",
    }
}

impl Axis {
    /// The axes that multiply to the number of ranks, in the usual order from the innermost.
    pub const ORDER: [Self; 4] = [Self::Tp, Self::Cp, Self::Dp, Self::Pp];
}

/// A model, as far as its messages depend on it.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Parameters in all.
    pub params: u64,
    /// The part of them in routed experts.
    pub expert_params: u64,
    /// Layers.
    pub layers: u32,
    /// Width of the residual stream, in elements.
    pub hidden: u32,
    /// Width of keys, and of values.
    pub kv_hidden: u32,
    /// Tokens of a sequence; 1 in decoding.
    pub sequence: u32,
    /// Sequences of a micro-batch.
    pub batch: u32,
    /// The type of parameters and activations.
    pub dtype: DataType,
    /// Layers with experts.
    pub moe_layers: u32,
    /// How tokens find their experts; absent without experts.
    pub routing: Option<Routing>,
}

/// Degrees of parallelism.
#[derive(Debug, Clone, PartialEq)]
pub struct Parallel {
    /// Tensor.
    pub tp: u32,
    /// Whether TP splits the rest of a layer by tokens: all-gather and reduce-scatter, no all-reduce.
    pub sequence: bool,
    /// Context.
    pub cp: u32,
    /// Data.
    pub dp: u32,
    /// Pipeline.
    pub pp: u32,
    /// Expert: ranks out of TP's neighbours in DP and CP.
    pub ep: u32,
    /// TP, CP, DP, PP from the innermost out.
    pub order: Vec<Axis>,
    /// Ranks on a node; absent: as many as the machine has.
    pub per_node: Option<u32>,
    /// Micro-batches per step, one after another.
    pub microbatches: u32,
}

impl Parallel {
    /// Ranks in all.
    #[must_use]
    pub fn ranks(&self) -> u64 {
        [self.tp, self.cp, self.dp, self.pp].into_iter().map(u64::from).product()
    }
}

/// How replicas are synchronized.
#[derive(Debug, Clone, PartialEq)]
pub struct Sync {
    /// What is sharded.
    pub shard: Shard,
    /// Replicas that share one set of shards; fewer than all is HSDP.
    pub shard_size: u32,
    /// Whether parameters are dropped after the forward pass and gathered again.
    pub reshard: bool,
    /// The type in which gradients are sent.
    pub dtype: DataType,
    /// Steps from one sum of gradients, or of parameters, to the next.
    pub every: u32,
    /// DDP's cap; absent: its default, 1 MiB for the first bucket and 25 MiB for the others.
    pub cap: Option<Limit>,
}

/// How long a step computes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Compute {
    /// The forward pass of a micro-batch on one rank.
    pub forward: Seconds,
    /// Its backward pass.
    pub backward: Seconds,
    /// The source of both.
    pub from: From,
}

/// The source of the times of the passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// They were given.
    Given,
    /// Arithmetic over the rate of kernels: what a GPU does while it computes.
    Kernels,
    /// Arithmetic over an end-to-end rate, as papers publish it: bubble and messages are inside it.
    EndToEnd,
}

/// A collective that the file defines itself.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnCall {
    /// Its name.
    pub name: String,
    /// What it is.
    pub collective: Collective,
    /// The ranks that take part.
    pub group: OwnGroup,
    /// M.
    pub size: Bytes,
    /// How many per step.
    pub count: u32,
    /// Only this algorithm.
    pub algorithm: Option<String>,
    /// Whether computation hides it.
    pub hides: Hides,
}

/// Who takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnGroup {
    /// The ranks of an axis.
    Axis(Axis),
    /// This many ranks, from the first.
    Ranks(u32),
    /// All ranks.
    All,
}

/// The computation that a call can overlap with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Hides {
    /// Nothing: computation waits for it.
    #[default]
    Nothing,
    /// The forward pass of the layers around it.
    Forward,
    /// The backward pass of the layers around it.
    Backward,
    /// The last backward pass, in buckets.
    Buckets,
}

/// A step as written.
#[derive(Clone)]
pub struct Step {
    /// Its name.
    pub name: String,
    /// What it does.
    pub mode: Mode,
    /// Where it runs.
    pub machine: MachineEntry,
    /// The model.
    pub model: Model,
    /// The layout.
    pub parallel: Parallel,
    /// How replicas are synchronized.
    pub sync: Sync,
    /// The inference engine whose rules choose TP's all-reduces; absent: the library's rules do.
    pub engine: Option<String>,
    /// How long it computes; absent: unknown, so nothing is hidden.
    pub compute: Option<Compute>,
    /// Collectives that the file defines itself.
    pub own: Vec<OwnCall>,
}

/// A collective of a step, before it has a price.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// What it is for.
    pub name: String,
    /// The axis or call that it belongs to.
    pub axis: Axis,
    /// What it is.
    pub collective: Collective,
    /// The ranks that take part.
    pub group: Group,
    /// M of one.
    pub size: Volume,
    /// How many per step; below 1 if it is not in every step.
    pub count: Ratio,
    /// Only this algorithm.
    pub algorithm: Option<String>,
    /// The computation that it can overlap with.
    pub hides: Hides,
    /// How experts' tokens are routed, if not by a plain all-to-all.
    pub routed: Option<Routing>,
}

#[cfg(test)]
mod tests;

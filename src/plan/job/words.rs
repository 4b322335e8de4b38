//! The words of jobs: precision, recomputation, sharding, schedules, overlap.

use std::fmt;
use std::str::FromStr;

use super::Transformer;
use crate::base::error::{Error, Result};
use crate::plan::Shard;

/// The type of the large products.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Precision {
    Bf16,
    Fp16,
    /// The body's products; attention, head and norms stay in 16 bits.
    Fp8,
    /// The same products in blocks of 4 bits.
    Fp4,
}

impl FromStr for Precision {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let text = text.to_ascii_lowercase();
        match text.as_str() {
            "bf16" | "bfloat16" | "bf16-mixed" => Ok(Self::Bf16),
            "fp16" | "float16" | "half" | "16" => Ok(Self::Fp16),
            _ if text.contains("fp4") => Ok(Self::Fp4),
            // In blocks, too.
            _ if text.contains("fp8") || text.contains("float8") => Ok(Self::Fp8),
            _ => Err(Error::input(format!("`{text}` is not a training precision"))
                .help("write bf16, fp16, fp8, mxfp8 or nvfp4")),
        }
    }
}

/// What the backward pass recomputes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recompute {
    Nothing,
    /// The scores of attention.
    Selective,
    /// torchtitan's "op": every second product is kept.
    Operators,
    /// Single modules.
    Modules(Modules),
    /// Whole layers.
    Full,
    /// Whole layers, whose inputs wait in the host's memory.
    Offloaded,
    /// Whole layers, so many of each chunk of a stage.
    Block(u32),
    /// Of so many layers the last one, whole.
    Every(u32),
    /// Not stated: time without recomputation, memory with the least that fits.
    Unstated,
}

/// Modules of a layer that run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Modules {
    /// Cheap ones with large outputs: norms, up-projections.
    pub cheap: bool,
    /// The whole feed-forward part of dense layers.
    pub mlp: bool,
    /// The whole feed-forward part of layers of experts, with its messages.
    pub moe: bool,
}

impl Modules {
    /// Cheap ones alone.
    pub const CHEAP: Self = Self { cheap: true, mlp: false, moe: false };

    /// From the names of `--recompute-modules`, or words that contain them.
    fn read(text: &str) -> Option<Self> {
        const CHEAP: [&str; 5] = ["modules", "norm", "mla", "moe", "mlp"];
        let mut modules = Self::default();
        for word in text.split([',', ' ']).filter(|word| !word.is_empty()) {
            match word {
                "mlp" => modules.mlp = true,
                "moe" => modules.moe = true,
                _ => modules.cheap |= CHEAP.iter().any(|name| word.contains(name)),
            }
        }
        (modules != Self::default()).then_some(modules)
    }
}

impl fmt::Display for Modules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [(self.cheap, "modules"), (self.mlp, "mlp"), (self.moe, "moe")];
        let words: Vec<&str> = words.into_iter().filter(|w| w.0).map(|w| w.1).collect();
        f.write_str(&words.join(" "))
    }
}

impl Recompute {
    /// The single modules that run again.
    pub fn again(self) -> Modules {
        if let Self::Modules(modules) = self { modules } else { Modules::default() }
    }
}

/// As it is written in a job's file.
impl fmt::Display for Recompute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("none"),
            Self::Selective => f.write_str("selective"),
            Self::Operators => f.write_str("selective-op"),
            Self::Modules(modules) => write!(f, "{modules}"),
            Self::Full => f.write_str("full"),
            Self::Offloaded => f.write_str("full, offloaded"),
            Self::Block(layers) => write!(f, "block {layers}"),
            Self::Every(nth) => write!(f, "every {nth}"),
            Self::Unstated => f.write_str("unstated"),
        }
    }
}

impl FromStr for Recompute {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let lower = text.to_ascii_lowercase();
        let mut words = lower.split([',', ' ']).filter(|word| !word.is_empty());
        match (words.next().unwrap_or(""), words.next().map(str::parse)) {
            ("full", _) if lower.contains("offload") => Ok(Self::Offloaded),
            ("full", _) => Ok(Self::Full),
            ("block", Some(Ok(layers))) => Ok(Self::Block(layers)),
            ("every", Some(Ok(1))) => Ok(Self::Full),
            ("every", Some(Ok(nth @ 2..))) => Ok(Self::Every(nth)),
            ("none" | "no" | "off" | "false" | "", _) => Ok(Self::Nothing),
            ("unstated", _) => Ok(Self::Unstated),
            ("selective-op" | "op", _) => Ok(Self::Operators),
            (word, _) => match (Modules::read(&lower), word) {
                (Some(modules), _) => Ok(Self::Modules(modules)),
                (_, "selective" | "core-attention" | "core_attn") => Ok(Self::Selective),
                _ => Err(Error::input(format!("`{text}` does not say what is recomputed")).help(
                "write none, selective, selective-op, modules, mlp, moe, full, \"full, offloaded\": the inputs of layers \
                 wait in the host's memory, block 4: four layers of a stage, or every 2: every second layer",
            )),
            },
        }
    }
}

/// Low-rank adapters beside products of a frozen model, which alone are trained (LoRA, arXiv 2106.09685).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Adapters {
    pub rank: u32,
    /// Whether each of [`ADAPTED`] has one.
    pub modules: [bool; ADAPTED.len()],
}

/// Products that may have an adapter, as transformers names those of Llama, and as Megatron-LM those of linear attention.
pub(crate) const ADAPTED: [&str; 9] = [
    "q_proj",
    "k_proj",
    "v_proj",
    "o_proj",
    "gate_proj",
    "up_proj",
    "down_proj",
    "in_proj",
    "out_proj",
];

/// Those of the feed-forward part, and of linear attention.
pub(crate) const FEEDING: std::ops::Range<usize> = 4..7;
const LINEAR: std::ops::Range<usize> = 7..9;

/// Names of several of them: of all, and those of Megatron-LM, Phi-3 and Qwen3-Next.
const GROUPS: [(&str, &[&str]); 16] = [
    ("all", &ADAPTED),
    ("all-linear", &ADAPTED),
    ("attention", &["q_proj", "k_proj", "v_proj", "o_proj"]),
    ("mlp", &["gate_proj", "up_proj", "down_proj"]),
    ("linear_qkv", &["q_proj", "k_proj", "v_proj"]),
    ("qkv_proj", &["q_proj", "k_proj", "v_proj"]),
    ("linear_proj", &["o_proj"]),
    ("linear_fc1", &["gate_proj", "up_proj"]),
    ("gate_up_proj", &["gate_proj", "up_proj"]),
    ("linear_fc2", &["down_proj"]),
    ("in_proj_qkvz", &["in_proj"]),
    ("in_proj_ba", &["in_proj"]),
    ("in_proj_qkv", &["in_proj"]),
    ("in_proj_z", &["in_proj"]),
    ("in_proj_a", &["in_proj"]),
    ("in_proj_b", &["in_proj"]),
];

impl Adapters {
    /// Those of a model's attention alone.
    pub fn of_attention(mut self, model: &Transformer) -> Self {
        self.modules = std::array::from_fn(|at| !FEEDING.contains(&at));
        self.of(model)
    }

    /// The same of a model: one without linear attention has all where it has all others.
    pub fn of(mut self, model: &Transformer) -> Self {
        if model.linear.is_none() {
            let all = !self.modules[..LINEAR.start].contains(&false);
            self.modules[LINEAR].fill(all);
        }
        self
    }
}

/// The products that a word names: `q_proj`, `linear_attn.in_proj_qkvz`, or those of a pattern over all layers,
/// `model.layers.[\d]+.(mlp|self_attn).(up|down|q)_proj`.
fn products(word: &str) -> Vec<String> {
    let (place, last) = word.rsplit_once('.').unwrap_or(("", word));
    let all_layers = !place.contains("layers.") || place.contains("\\d");
    let several = last.strip_prefix('(').and_then(|rest| rest.split_once(')'));
    match several.filter(|_| all_layers) {
        Some((names, end)) => names.split('|').map(|name| format!("{name}{end}")).collect(),
        None if all_layers => vec![last.to_owned()],
        None => vec![word.to_owned()],
    }
}

/// From words such as `rank 16` (all products) or `rank 8 on q_proj v_proj`.
impl FromStr for Adapters {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refuse = || {
            Error::input(format!("`{text}` does not say which adapters are trained"))
                .help("write \"rank 16\", or \"rank 16 on q_proj v_proj\"")
        };
        let (rank, on) = text.split_once(" on ").unwrap_or((text, "all"));
        let rank = rank.trim().strip_prefix("rank").and_then(|rank| rank.trim().parse().ok());
        let rank = rank.filter(|rank| *rank > 0).ok_or_else(refuse)?;
        let mut modules = [false; ADAPTED.len()];
        for word in on.split([',', ' ']).filter(|word| !word.is_empty()) {
            for name in products(word) {
                let group = GROUPS.iter().find(|(group, _)| *group == name).map(|(_, all)| *all);
                let one = ADAPTED.iter().position(|known| *known == name);
                let one = one.map_or(&[][..], |at| &ADAPTED[at..=at]);
                let group = group.unwrap_or(one);
                if group.is_empty() {
                    return Err(Error::input(format!("`{word}` is not a product with an adapter"))
                        .help(format!(
                            "write some of {}, or all, attention, mlp",
                            ADAPTED.join(", ")
                        )));
                }
                for (has, known) in modules.iter_mut().zip(ADAPTED) {
                    *has |= group.contains(&known);
                }
            }
        }
        if modules == [false; ADAPTED.len()] {
            return Err(refuse());
        }
        Ok(Self { rank, modules })
    }
}

/// As it is written in a job's file.
impl fmt::Display for Adapters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {}", self.rank)?;
        if self.modules.contains(&false) {
            let names = ADAPTED.iter().zip(self.modules).filter(|(_, has)| *has);
            let names: Vec<&str> = names.map(|(name, _)| *name).collect();
            write!(f, " on {}", names.join(" "))?;
        }
        Ok(())
    }
}

/// The framework whose rules apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framework {
    Megatron,
    DeepSpeed,
    /// PyTorch's DDP and FSDP under Composer, Transformers and others.
    Fsdp,
    /// FSDP2, as in torchtitan.
    Fsdp2,
}

impl Framework {
    pub fn is_torch(self) -> bool {
        matches!(self, Self::Fsdp | Self::Fsdp2)
    }
}

/// Bytes of a number of a type in which gradients are summed.
pub(super) fn width(word: &str) -> Result<f64> {
    match word.trim_end_matches(|c: char| !c.is_alphanumeric()).to_ascii_lowercase().as_str() {
        "fp32" | "float32" | "single" | "32" => Ok(4.0),
        "bf16" | "bfloat16" | "fp16" | "float16" | "half" | "16" => Ok(2.0),
        _ => Err(Error::input(format!("gradients are not summed in `{word}`"))
            .help("write fp32, bf16 or fp16")),
    }
}

/// What is sharded over replicas, and the type in which gradients are kept and sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sharding {
    pub shard: Shard,
    pub framework: Framework,
    /// Whether parameters are gathered unit by unit, in each micro-batch.
    pub gathers: bool,
    /// Whether gradients are scattered unit by unit in each micro-batch while parameters stay whole: Megatron's FSDP
    /// with `optim_grads` (`grad_reduce_every_bprop`,
    /// megatron/core/distributed/fsdp/src/megatron_fsdp/megatron_fsdp.py of Megatron-LM).
    pub scatters: bool,
    /// Bytes of a gradient that is sent.
    pub gradient: f64,
    /// Whether all states have 16 bits: parameters, gradients and moments, without copies in 32.
    pub narrow: bool,
    /// Whether FSDP2 adds the gradients of all micro-batches up before it sums them over ranks (`defer_fsdp_grad_sync` of
    /// NeMo AutoModel).
    pub once: bool,
    /// What is on the host.
    pub offload: Option<Offload>,
}

/// The states that the host keeps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Offload {
    /// The part of the optimizer's.
    pub optimizer: f64,
    pub parameters: bool,
}

impl Offload {
    /// From words such as `offload of 0.5 of the optimizer`, or `Adam on the host`; without a name, all.
    fn read(text: &str) -> Option<Self> {
        let of = |part: &&str| part.contains("host") || part.contains("offload");
        let part = text.split(',').find(of)?;
        let (parameters, optimizer) =
            (part.contains("param"), part.contains("optim") || part.contains("adam"));
        let stated = part.split_whitespace().find_map(|word| word.parse::<f64>().ok());
        let stated = stated.filter(|part| (0.0..=1.0).contains(part)).unwrap_or(1.0);
        Some(Self {
            optimizer: if optimizer || !parameters { stated } else { 0.0 },
            parameters: parameters || !optimizer,
        })
    }
}

impl Sharding {
    /// From words such as `zero1, gradients kept and reduced in fp32`, `FSDP2, fp32 reduced`, `FSDP2, gradients in
    /// bf16` or `FSDP2, states in bf16`.
    pub fn read(text: &str) -> Result<Self> {
        let typed = text;
        // PyTorch writes SHARD_GRAD_OP.
        let text = text.to_ascii_lowercase().replace('_', "-");
        let has = |word: &str| text.contains(word);
        let words = ["fsdp", "hsdp", "full-shard", "hybrid-shard", "shard-grad-op"];
        let fsdp = words.iter().any(|word| has(word));
        let shard = if has("grad-op") || has("zero2") || has("zero-2") {
            Shard::Gradients
        } else if fsdp || has("zero3") || has("zero-3") {
            Shard::Parameters
        } else if has("zero1") || has("zero-1") || has("distributed optimizer") {
            Shard::Optimizer
        } else if has("none") || has("ddp") || has("zero0") || has("no-shard") {
            Shard::Nothing
        } else {
            return Err(Error::input(format!("`{typed}` is not a kind of sharding")).help(
                "write none, zero1, zero2, zero3 or fsdp, such as \"zero1, gradients in fp32\"",
            ));
        };
        let framework = if has("megatron")
            || !(fsdp || has("ddp") || shard == Shard::Parameters || has("deepspeed"))
        {
            Framework::Megatron
        } else if has("fsdp2") {
            Framework::Fsdp2
        } else if fsdp || has("ddp") {
            Framework::Fsdp
        } else {
            Framework::DeepSpeed
        };
        let narrow = has("states in bf16") || has("bf16 states");
        let summed = match text.split_once("gradients in ") {
            Some((_, of)) => Some(width(of.split([',', ' ']).next().unwrap_or(""))?),
            None if has("fp32") => Some(4.0),
            None if narrow || has("bf16 reduced") => Some(2.0),
            None => None,
        };
        // FSDP2's own sums are of 32 bits in torchtitan.
        let usual = if framework == Framework::Fsdp2 { 4.0 } else { 2.0 };
        Ok(Self {
            shard,
            framework,
            gathers: fsdp || shard == Shard::Parameters,
            scatters: shard == Shard::Gradients && !fsdp && has("megatron"),
            gradient: summed.unwrap_or(usual),
            narrow,
            once: has("summed once"),
            offload: Offload::read(&text),
        })
    }
}

impl Sharding {
    /// A short description, with the number of replicas that share: what [`Sharding::read`] takes.
    pub fn words(self, size: u32, replicas: u32) -> String {
        let kind = match (self.shard, self.framework) {
            (Shard::Gradients, Framework::Fsdp2) => "fsdp2 grad-op",
            (_, Framework::Fsdp2) => "fsdp2",
            (_, Framework::Megatron) if self.gathers => "megatron fsdp",
            (Shard::Nothing, Framework::Fsdp) => "ddp",
            (Shard::Optimizer, Framework::Fsdp) => "ddp zero1",
            (Shard::Gradients, Framework::Fsdp) => "fsdp grad-op",
            (_, Framework::Fsdp) => "fsdp",
            (Shard::Nothing, _) => "none",
            (Shard::Optimizer, Framework::DeepSpeed) => "deepspeed zero1",
            (Shard::Gradients, Framework::DeepSpeed) => "deepspeed zero2",
            (Shard::Optimizer, _) => "zero1",
            (Shard::Gradients, _) if self.scatters => "megatron zero2",
            (Shard::Gradients, _) => "zero2",
            (Shard::Parameters, _) => "zero3",
        };
        let usual = if self.framework == Framework::Fsdp2 && !self.narrow { 4.0 } else { 2.0 };
        let sums = match self.gradient {
            sent if sent == usual => "",
            sent if sent > 2.0 => " fp32",
            _ => " bf16 reduced",
        };
        let states = if self.narrow { " bf16 states" } else { "" };
        let host = self.offload.map_or(String::new(), |host| {
            let parameters = if host.parameters { " and of parameters" } else { "" };
            format!(", offload of {} of the optimizer{parameters}", host.optimizer)
        });
        let over = if size < replicas { format!(" over {size}") } else { String::new() };
        let once = if self.once { ", summed once" } else { "" };
        format!("{kind}{sums}{states}{once}{host}{over}")
    }
}

/// The schedule of micro-batches in a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Schedule {
    /// One forward, one backward; interleaved with several chunks.
    OneForwardOneBackward,
    GPipe,
    /// Weights' gradients fill a part of the bubble (ZB-H1).
    ZeroBubble,
    /// They fill all of it, with the activations of 1F1B: two stages on a rank, in a V (ZB-V).
    ZeroBubbleV,
    /// They fill all of it, with twice the activations (ZB-H2).
    ZeroBubbleTwice,
    /// Micro-batches from both ends, which also hides experts' collectives. Each rank has a stage
    /// from either end, so the model is there twice.
    DualPipe,
    /// The same folded: the stages from either end are different ones.
    DualPipeV,
}

impl FromStr for Schedule {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let plain: String =
            text.to_ascii_lowercase().chars().filter(char::is_ascii_alphanumeric).collect();
        match plain.as_str() {
            "1f1b" | "interleaved" | "interleaved1f1b" => Ok(Self::OneForwardOneBackward),
            "gpipe" => Ok(Self::GPipe),
            "zerobubble" | "zbh1" | "interleavedzerobubble" => Ok(Self::ZeroBubble),
            "zbvzerobubble" | "zbv" => Ok(Self::ZeroBubbleV),
            "zbh2" => Ok(Self::ZeroBubbleTwice),
            "dualpipe" => Ok(Self::DualPipe),
            "dualpipev" => Ok(Self::DualPipeV),
            _ => Err(Error::input(format!("`{text}` is not a pipeline schedule"))
                .help("write 1f1b, interleaved, gpipe, zb-h1, zb-h2, zbv, dualpipe or dualpipev")),
        }
    }
}

impl Schedule {
    /// The idle time of a rank, in forward and backward passes of one micro-batch through the rank's layers.
    /// The weights' part W is a third of that: ZB-H1 idles (p − 1)(F + B − 2W), DualPipe
    /// (p/2 − 1)(F&B + B − 3W), and folded over p ranks (p − 1) times that of half a stage.
    ///
    /// With few micro-batches the last stage decides: it waits until one has come through the others, runs
    /// all of them, and the last of these goes back through the others.
    pub fn idle(self, pp: f64, chunks: f64, microbatches: f64) -> f64 {
        let (idle, in_two_parts) = match self {
            Self::OneForwardOneBackward => ((pp - 1.0) / chunks, false),
            Self::GPipe => (pp - 1.0, false),
            Self::ZeroBubble => ((pp - 1.0) / 3.0 / chunks, true),
            Self::ZeroBubbleV | Self::ZeroBubbleTwice => (0.0, true),
            Self::DualPipe => ((pp / 2.0 - 1.0).max(0.0) * 2.0 / 3.0, true),
            Self::DualPipeV => ((pp - 1.0) / 2.0 * 2.0 / 3.0, true),
        };
        // Chunks of a rank that one micro-batch passes, and micro-batches that come from one end.
        let (chunks, from_an_end) = match self {
            Self::OneForwardOneBackward | Self::ZeroBubble => (chunks, microbatches),
            Self::GPipe | Self::ZeroBubbleTwice => (1.0, microbatches),
            Self::ZeroBubbleV | Self::DualPipeV => (2.0, microbatches),
            Self::DualPipe => (1.0, microbatches / 2.0),
        };
        let others = pp * chunks - 1.0;
        let passes = match in_two_parts {
            // The weights' part is not waited for, but the last one follows.
            true => (2.0 * (others + from_an_end) + 1.0) / 3.0,
            false => others + from_an_end,
        };
        idle.max(passes / chunks - microbatches)
    }
}

/// How tokens are sent to their experts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dispatcher {
    /// A copy to each expert, by an all-to-all.
    AllToAll,
    /// All tokens to all ranks of experts, and the sums back.
    AllGather,
    /// Once to each node: DeepEP, HybridEP.
    OnceANode,
}

impl FromStr for Dispatcher {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.to_ascii_lowercase().as_str() {
            "alltoall" | "all-to-all" | "a2a" => Ok(Self::AllToAll),
            "allgather" => Ok(Self::AllGather),
            "deepep" | "hybridep" | "flex" => Ok(Self::OnceANode),
            _ => Err(Error::input(format!("`{text}` is not a token dispatcher"))
                .help("write alltoall, allgather, deepep or hybridep")),
        }
    }
}

/// What remains of FSDP's gathered parameters between the passes forward and back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reshard {
    /// Nothing but the shards: they are gathered again.
    After,
    /// All: nothing is gathered again.
    Never,
    /// A part on each of so many ranks, which gather again among themselves.
    Among(u32),
}

impl FromStr for Reshard {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "true" | "always" => Ok(Self::After),
            "false" | "never" => Ok(Self::Never),
            _ => text.parse().ok().filter(|ranks| *ranks > 1).map(Self::Among).ok_or_else(|| {
                Error::input(format!(
                    "`{text}` does not say what is sharded after the forward pass"
                ))
                .help("write always, never, or a number of ranks that share a copy, such as 8")
            }),
        }
    }
}

/// Which collectives overlap with computation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Overlap {
    /// The gradients' sums, under the backward pass.
    pub gradients: bool,
    /// The gathers of updated parameters, under the next forward pass.
    pub gathers: bool,
    /// Nothing, even where FSDP gathers ahead unless told otherwise.
    pub none: bool,
    pub tp: bool,
    pub ep: bool,
    pub pp: bool,
}

impl FromStr for Overlap {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut overlap = Self::default();
        for word in text.split([',', ' ']).filter(|w| !w.is_empty()) {
            match word {
                "dp" | "fsdp" => (overlap.gradients, overlap.gathers) = (true, true),
                "gradients" => overlap.gradients = true,
                "tp" => overlap.tp = true,
                "ep" => overlap.ep = true,
                "pp" => overlap.pp = true,
                "none" => overlap.none = true,
                _ => {
                    return Err(Error::input(format!("`{word}` is not something that overlaps"))
                        .help("write some of dp, gradients, tp, ep, pp, or none"));
                }
            }
        }
        Ok(overlap)
    }
}

/// The measure of memory: bytes of tensors, bytes that the allocator reserves, or the driver's
/// value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stated {
    Allocated,
    Reserved,
    Driver,
}

impl FromStr for Stated {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            _ if text.contains("reserved") => Ok(Self::Reserved),
            _ if text.contains("allocated") => Ok(Self::Allocated),
            _ if text.contains("nvidia-smi") || text.contains("driver") => Ok(Self::Driver),
            _ => Err(Error::input(format!("`{text}` is not a measure of memory"))
                .help("write max_allocated, max_reserved or nvidia-smi")),
        }
    }
}

impl Stated {
    /// The frameworks' name.
    pub fn id(self) -> &'static str {
        match self {
            Self::Allocated => "max_allocated",
            Self::Reserved => "max_reserved",
            Self::Driver => "nvidia-smi",
        }
    }
}

//! Serving a model: the memory of its weights and cache, the time of a token and a prompt.
//!
//! A step takes the time to read the weights that its tokens use and their cache once, or its computing
//! time if that is longer, and in each layer some time in which the next kernel has neither begun to read nor
//! to compute ([`BETWEEN`]). It waits for TP's two all-reduces per layer, as the inference engine runs them,
//! and for what carries tokens to experts ([`Exchange`]). A pipeline stage passes its token on, so a token goes
//! through all stages in series.
//!
//! Sources: vllm-project/vllm, `vllm/model_executor/layers/fused_moe/{config,runner/moe_runner}.py`,
//! `vllm/distributed/device_communicators/all2all.py`; sgl-project/sglang, `layers/dp_attention.py`,
//! `layers/logits_processor.py`, `models/deepseek_v2.py`.

use super::draft::{Draft, incomplete};
use super::model::Attention;
use super::usual::{self, since};
use super::weights::{BLOCK, BLOCKS, MXFP4, Stored, Weights, by_checkpoint};
use super::wires::{Among, Span, Wires};
use super::work::of_experts;
use super::{Device, Precision, Transformer};
use crate::base::collective::Collective::{
    AllGather, AllReduce, AllToAll, ReduceScatter, SendRecv,
};
use crate::base::error::{Error, Result};
use crate::base::quantity::Bytes;
use crate::library::engines::{self, Conditions, Kernel, Release};
use crate::measure::expect::Tokens;
use crate::plan::Group;
use crate::plan::moe::{LOW_LATENCY, NORMAL};
use crate::plan::price::SCALES;
use crate::plan::table::{MachineEntry, Machines};

/// A model being served.
#[derive(Clone)]
pub(crate) struct Serve {
    pub name: String,
    pub model: Transformer,
    /// TP of attention, and of everything else that is not spread further.
    pub tp: u32,
    /// Ranks of TP that divide the tokens of a cache for decoding.
    pub dcp: u32,
    pub pp: u32,
    /// Groups with their own sequences.
    pub dp: u32,
    pub ep: u32,
    /// Sequences per group that are decoded at once.
    pub sequences: u32,
    /// Tokens of context of each.
    pub context: u32,
    /// The most tokens that a sequence may have.
    pub longest: u32,
    /// What its requests are like, if that is said.
    pub traffic: Option<Traffic>,
    /// Tokens of a prefill at once.
    pub chunk: u32,
    /// The part of the memory that may be filled.
    pub utilization: f64,
    pub weights: Weights,
    /// Bytes of an element of the cache.
    pub cache: f64,
    /// The same of a state of linear attention.
    pub state: f64,
    /// The server, whose rules say what all-reduces run; none: what the library runs.
    pub engine: Option<String>,
    /// Whether its own kernels may run all-reduces (vLLM, SGLang: `--disable-custom-all-reduce`).
    pub custom: bool,
    /// Other flags and variables that the rules of all-reduces read.
    pub env: String,
    /// Whether TP's all-reduces and the norms behind them are one kernel; none: as the engine's own rule has it.
    pub fused: Option<bool>,
    pub exchange: Exchange,
    /// The only phase that it runs, if other servers run the other.
    pub only: Option<Doing>,
    pub device: Device,
    pub machine: MachineEntry,
    pub inferred: Vec<String>,
}

/// Requests of one kind, of which as many are served as sequences are decoded at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Traffic {
    /// Tokens of a prompt.
    pub input: u32,
    /// Tokens of its answer.
    pub output: u32,
}

impl Traffic {
    /// # Errors
    /// One of them alone; more than a sequence may have.
    fn read(input: Option<u32>, output: Option<u32>, longest: u32) -> Result<Option<Self>> {
        let (input, output) = match (input, output) {
            (None, None) => return Ok(None),
            (Some(input), Some(output)) => (input, output),
            (Some(_), None) => {
                return Err(Error::input("the traffic has prompts and no answers")
                    .at("input")
                    .help("write output = 256, the tokens of an answer, too"));
            }
            (None, Some(_)) => {
                return Err(Error::input("the traffic has answers and no prompts")
                    .at("output")
                    .help("write input = 1024, the tokens of a prompt, too"));
            }
        };
        if input.checked_add(output).is_none_or(|all| all > longest) {
            let what = format!(
                "a prompt of {input} tokens and an answer of {output} are more than the {longest} that a sequence may have"
            );
            return Err(Error::input(what).at("input").help("write less, or a longer context"));
        }
        Ok(Some(Self { input, output }))
    }
}

/// What requests of one kind see, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Seen {
    /// Until the first token, without waiting for a free place; `None` where other servers prefill.
    pub first: Option<Span>,
    /// Between two tokens of an answer, with the prompts of others in between; `None` where other servers decode.
    pub between: Option<Span>,
    /// Tokens of answers in a second on all GPUs, or of prompts on a server that only prefills.
    pub rate: Span,
}

/// How tokens reach experts, and what these give comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exchange {
    /// Every rank of TP has its group's tokens, and TP's all-reduce adds what the experts give.
    Reduce,
    /// An all-gather of all groups' tokens, and a reduce-scatter of the sums.
    Gather,
    /// An all-to-all of a copy for each expert.
    Copies,
    /// DeepEP's kernels, of decode and of prefill.
    Kernels([&'static str; 2]),
}

/// The words for the first three.
pub(super) const REDUCE: &str = "allreduce";
pub(super) const GATHER: &str = "allgather-reducescatter";
pub(super) const COPIES: &str = "alltoall";

impl Exchange {
    fn read(text: Option<&str>) -> Result<Self> {
        Ok(match text {
            Some(REDUCE) => Self::Reduce,
            Some(GATHER) => Self::Gather,
            Some(COPIES) | None => Self::Copies,
            Some(LOW_LATENCY) => Self::Kernels([LOW_LATENCY; 2]),
            Some(NORMAL) => Self::Kernels([NORMAL; 2]),
            Some("deepep-auto") => Self::Kernels([LOW_LATENCY, NORMAL]),
            Some(other) => {
                return Err(Error::input(format!("`{other}` does not carry tokens to experts"))
                    .at("all2all")
                    .help(format!(
                        "write deepep-normal, deepep-ll, deepep-auto, {COPIES}, {GATHER} or {REDUCE}"
                    )));
            }
        })
    }

    fn id(self) -> &'static str {
        match self {
            Self::Reduce => REDUCE,
            Self::Gather => GATHER,
            Self::Copies => COPIES,
            Self::Kernels([decode, _]) => decode,
        }
    }
}

/// A phase of serving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doing {
    Decode,
    Prefill,
}

/// The memory and times of serving, per GPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Served {
    pub weights: f64,
    /// What is left for caches and states.
    pub room: f64,
    pub cache_a_token: f64,
    /// States of a sequence in layers with linear attention.
    pub state: f64,
    /// Tokens of a group that fit in addition to the weights.
    pub tokens: f64,
    /// Sequences that are decoded at once: the requested number, or as many as fit.
    pub sequences: f64,
    pub decode: Phase,
    pub prefill: Phase,
    /// Tokens of a prefill at once.
    pub chunk: f64,
    /// What requests see, if it is said what they are like.
    pub seen: Option<Seen>,
    /// Bytes of a sequence's cache, which a separate prefill transfers.
    pub handoff: f64,
    /// Seconds of that to a GPU of another node, if all GPUs of the node do it at once; `None` if no
    /// network is known.
    pub handing: Option<f64>,
}

/// A phase in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Phase {
    /// Reading memory or computing, the longer of both.
    pub busy: f64,
    /// Between the kernels of its layers.
    pub between: f64,
    pub messages: Span,
    /// What runs TP's all-reduces, where the engine's rules and kernels are known.
    pub reduced: Option<Kernel>,
    /// Measured kernels of dispatch and combine, or the collectives in their place.
    pub moved: Option<&'static str>,
    /// The kernels that the server runs instead, which nobody measured on such ranks.
    pub unmeasured: Option<&'static str>,
}

impl Phase {
    pub fn time(self) -> f64 {
        self.span().time
    }

    /// The whole, with the ends of its band.
    pub fn span(self) -> Span {
        let kernels = self.busy + self.between;
        Span { time: kernels, low: kernels / OFF, high: kernels * OFF } + self.messages
    }
}

/// The time of a layer, in seconds, in which its dependent kernels start and end and nothing is read: a chain of about
/// ten, of which a launch in a graph alone takes 1.3 µs (hazyresearch.stanford.edu, "Look Ma, No Bubbles", 2025-05-27).
/// It is fitted to the published times of `tests/data/published_servers.toml.gz`; `tests/engine/servers.rs` fits it with
/// each source left out.
const BETWEEN: f64 = 80e-6;

/// The same of a layer of experts, in addition: it routes, sorts, and adds up. Fitted like the other. The kernels of
/// experts in MXFP4 do that themselves (vllm-project/vllm, `layers/fused_moe/gpt_oss_triton_kernels_moe.py`), and need
/// none in those times.
const ROUTING: f64 = 45e-6;

/// The time in seconds for which SGLang's prefill of a new prompt keeps those that are decoded waiting, beside the
/// prefill itself: it does not mix the two (`--enable-mixed-chunk` does), and its host prepares and launches each. It is
/// fitted to `tests/data/published_traffic.csv`, whose test fits it without each model in turn.
pub(super) const HELD_UP: f64 = 95e-3;

/// How many times as long as without others a first token takes under load, in one of ten of those runs or more: prompts
/// come together, and wait.
const TOGETHER: f64 = 4.4;

/// The factor by which two of ten of those times are off, or more, if nothing was fitted to their source.
const OFF: f64 = 1.55;

/// The GPUs of those times.
const SEEN: [&str; 7] = ["A100", "H100", "H20", "H200", "L40S", "MI300X", "RTX PRO 6000"];

/// Tokens of a rank that a call of the low-latency kernels takes: longer prompts go in parts (vLLM:
/// `VLLM_MOE_DP_CHUNK_SIZE`, vllm-project/vllm, vllm/envs.py).
const BUFFER: f64 = 256.0;

/// Every rank of TP has as many heads: vLLM's `verify_with_parallel_config` (vllm/config/model.py) and SGLang's
/// models refuse others. Both also want as many heads of keys and values on each rank, or each on as many
/// ranks (`QKVParallelLinear`).
fn divided(model: &Transformer, tp: u32, keys: bool) -> Result<()> {
    let own = model.window.and_then(|window| window.own).map(|own| own.heads);
    let odd = [model.heads].into_iter().chain(own).find(|heads| !heads.is_multiple_of(tp));
    if let Some(heads) = odd {
        return Err(Error::input(format!(
            "tp {tp} does not divide the {heads} heads of attention"
        ))
        .at("tp")
        .help(format!("write a divisor of {heads}")));
    }
    if let Some(linear) = model.linear.filter(|one| !one.key_heads.is_multiple_of(tp)) {
        let what =
            format!("tp {tp} does not divide the {} heads of linear attention", linear.key_heads);
        return Err(Error::input(what)
            .at("tp")
            .help(format!("write a divisor of {}", linear.key_heads)));
    }
    let own = model.window.and_then(|window| window.own).map(|own| own.kv_heads);
    let whole = match model.attention {
        Attention::Grouped { kv_heads, .. } => Some(kv_heads),
        Attention::Latent { .. } | Attention::Compressed { .. } => None,
    };
    let odd = |heads: &u32| !heads.is_multiple_of(tp) && !tp.is_multiple_of(*heads);
    match whole.into_iter().chain(own).find(|heads| keys && odd(heads)) {
        Some(heads) => {
            let what = format!("tp {tp} does not share out {heads} heads of keys and values");
            Err(Error::input(what)
                .at("tp")
                .help(format!("write a divisor or a multiple of {heads}")))
        }
        None => Ok(()),
    }
}

/// A rank's part of gates, ups and downs has whole blocks of weights that share a scale: vLLM and SGLang start on no
/// other (`Fp8MoEMethod.create_weights` and `validate_fp8_block_shape` of vllm-project/vllm; vllm issue 17569, sglang
/// issue 3345). `over` ranks divide each expert.
fn in_blocks(model: &Transformer, tp: u32, over: u32) -> Result<()> {
    let refuse = |what: &str, ffn: u32, ranks: u32, help: String| {
        let part = f64::from(ffn) / f64::from(ranks);
        let what = format!(
            "on {ranks} ranks {what} of {ffn} channels leaves {part} each, which are no blocks of {BLOCK} in FP8"
        );
        Err(Error::input(what).at("tp").help(help))
    };
    let whole = |ffn: u32, ranks: u32| ffn.is_multiple_of(ranks.saturating_mul(BLOCK));
    if let Some(experts) = model.experts.filter(|e| over > 1 && !whole(e.ffn, over)) {
        let help = format!(
            "give each rank whole experts (--enable-expert-parallel, --ep), or write a tp that divides {}",
            experts.ffn / BLOCK
        );
        return refuse("an expert", experts.ffn, over, help);
    }
    if model.dense_layers() > 0.0 && tp > 1 && !whole(model.ffn, tp) {
        let help = format!("write a tp that divides {}", model.ffn / BLOCK);
        return refuse("a feed-forward part", model.ffn, tp, help);
    }
    Ok(())
}

impl Draft {
    /// The served model, if the job is complete.
    ///
    /// # Errors
    /// All missing keys by name.
    pub fn serve(&self, machines: &Machines<'_>) -> Result<Serve> {
        self.of_role()?.settled()?.served(machines)
    }

    /// The server that is meant, of a file that has one that prefills and one that decodes.
    fn of_role(&self) -> Result<Self> {
        let role = self.get("role");
        let [prefill, decode] = &self.halves[..] else {
            return match role {
                None => Ok(self.clone()),
                Some(role) => Err(Error::input("no file has a server for each role")
                    .at(format!("role = {role}"))
                    .help("leave it out")),
            };
        };
        let half = match role {
            Some("prefill") => prefill,
            Some("decode") => decode,
            Some(other) => {
                return Err(Error::input(format!("`{other}` is not the role of a server"))
                    .at(format!("role = {other}"))
                    .help("write prefill or decode"));
            }
            None => {
                let what = "it has the options of a server that prefills, and of one that decodes";
                return Err(Error::input(what).help("write --set role=prefill or role=decode"));
            }
        };
        let mut own = self.clone();
        own.halves.clear();
        own.keys.remove("role");
        Ok(own.over(half))
    }

    /// Whether SGLang fuses the model's all-reduces and norms without a flag, if no groups attend apart and no
    /// exchange carries tokens (`_FLASHINFER_ALLREDUCE_FUSION_ARCHS`, sgl-project/sglang,
    /// python/sglang/srt/arg_groups/overrides.py, of the families that are known here; H20 since 0.5.14,
    /// server_args.py).
    fn fuses_by_itself(&self, device: &Device) -> bool {
        const FUSED: &[&str] = &[
            "deepseek_v3",
            "kimi_k2",
            "gpt_oss",
            "glm4_moe",
            "qwen3_moe",
            "qwen3_next",
            "qwen3_5",
            "qwen3_5_moe",
        ];
        let early = !since(self.get("engine").unwrap_or(""), Release(0, 5, 14));
        self.family.as_deref().is_some_and(|family| FUSED.contains(&family))
            && !(early && device.name == "H20")
    }

    /// The server of a settled draft.
    fn served(&self, machines: &Machines<'_>) -> Result<Serve> {
        let mut inferred = self.inferred.clone();
        inferred.extend(self.unread.iter().map(|key| format!("{key} is not read")));
        let undecided = self.undecided.iter().filter(|(key, _)| self.get(key).is_none());
        inferred.extend(undecided.map(|(_, value)| format!("{value} is not read")));
        let mut missing: Vec<&str> = Vec::new();
        let Some(model) = self.model.clone() else {
            return Err(Error::input("the job has no model (a config.json)").help(
                "write --set model=NAME, or name the model's config.json after the arguments",
            ));
        };
        model.is_there()?;
        if ["machine", "device", "profile"].iter().all(|key| self.get(key).is_none()) {
            missing.push("machine");
        }
        let missing = self.with_asked(missing);
        if !missing.is_empty() {
            return Err(incomplete(&missing));
        }
        let device = self.device(machines)?;
        if device.reading() <= 0.0 {
            let what =
                format!("{} is known by steps of training only, not by servers", device.name);
            return Err(Error::unsupported(what)
                .help("name a machine with GPUs, or plan a step of training"));
        }
        let vllm = self.get("engine").is_some_and(|e| e.starts_with("vllm"));
        let mut count = |key: &'static str, absent: u32| -> Result<u32> {
            let found = self.count(key)?;
            if found.is_none() && !matches!(key, "tp" | "pp" | "dp" | "ep" | "dcp") {
                inferred.push(format!("{key} {absent}"));
            }
            Ok(found.unwrap_or(absent))
        };
        let (tp, pp, dp, ep) = (count("tp", 1)?, count("pp", 1)?, count("dp", 1)?, count("ep", 1)?);
        let dcp = count("dcp", 1)?;
        let stated = self.count("context")?.or(self.longest);
        let longest = stated.map_or_else(|| count("context", 4096), Ok)?;
        let traffic = Traffic::read(self.count("input")?, self.count("output")?, longest)?;
        // A sequence that is being decoded has its prompt, and half of its answer in the mean.
        let context = traffic.map_or(longest / 2, |one| one.input + one.output / 2).max(1);
        let groups = if self.of_all_groups { dp } else { 1 };
        let said = self.count("chunk")?;
        let exchanged = self.get("all2all").unwrap_or("");
        let usual = usual::Server {
            engine: self.get("engine").unwrap_or(""),
            device: &device,
            tp: tp.saturating_mul(groups),
            pp,
            groups,
            chunk: said.map(|each| each.saturating_mul(groups)),
            running: self.count("sequences")?.map(|each| each.saturating_mul(groups)),
            captured: self.captured,
            only: self.only,
            latent: !matches!(model.attention, Attention::Grouped { .. }),
            deepep: exchanged.starts_with("deepep"),
        }
        .usual();
        let sequences = count("sequences", usual.sequences)?;
        let chunk = count("chunk", (usual.chunk / groups).max(1))?;
        let share = self.get("utilization").map_or(Ok(usual.share), share)?;
        if self.get("utilization").is_none() {
            inferred.push(format!("utilization {share}"));
        }
        inferred.push(match (traffic, stated) {
            (Some(_), _) => format!("{context} tokens of context a sequence: its prompt and half of its answer"),
            (None, Some(_)) => format!("{context} tokens of context a sequence: half of the {longest} that it may have"),
            (None, None) => format!("{context} tokens of context a sequence: half of {longest}, as nothing says how many it may have"),
        });
        if traffic.is_some() && pp > 1 {
            inferred.push(
                "traffic of one batch at a time: stages of a pipeline work on several, which is not counted"
                    .to_owned(),
            );
        }
        let world = tp.checked_mul(dp).and_then(|n| n.checked_mul(pp)).ok_or_else(|| {
            Error::input(format!("tp {tp} · dp {dp} · pp {pp} is too many GPUs"))
                .help("write smaller degrees")
        })?;
        if let Some(gpus) = self.count("gpus")?.filter(|gpus| *gpus != world) {
            let what = format!("the arguments serve on {world} GPUs, not on {gpus}");
            return Err(Error::input(what).at("gpus").help("leave it out, or set tp, dp or pp"));
        }
        let stored = self.get("weights_type").or(self.stored.as_deref());
        let stored = stored.or(self.get("quantization").map(|q| by_checkpoint(q).unwrap_or(q)));
        let weights = Weights::read(stored, model.experts.is_some())?;
        let cache = self.get("cache_type").map_or(Ok(2.0), cached)?;
        // vLLM's states have the model's type unless its file says otherwise, SGLang's have 32 bits
        // (`MambaStateDtypeCalculator`, vllm/model_executor/layers/mamba/mamba_utils.py; `mamba2_state_dtype`,
        // sglang/srt/configs/mamba_utils.py).
        let usual = if vllm { 2.0 } else { 4.0 };
        let state = self.get("state_type").map_or(Ok(usual), |kind| of_state(kind, usual))?;
        let machine = self.links(machines, &device, u64::from(world), &mut inferred)?;
        if !tp.is_multiple_of(dcp) {
            return Err(Error::input(format!("dcp {dcp} does not divide tp {tp}"))
                .at("dcp")
                .help("write a divisor of the tp that attention has"));
        }
        if let Some(name) = self.get("engine") {
            inferred.extend(release(name)?);
        }
        let sglang = self.get("engine").is_some_and(|e| e.starts_with("sglang"));
        divided(&model, tp, vllm || sglang)?;
        let exchange = match Exchange::read(self.get("all2all").or(vllm.then_some(GATHER)))? {
            // Dense layers are over all groups that attend apart, whatever would carry tokens to experts.
            Exchange::Gather | Exchange::Kernels(_)
                if model.experts.is_none() && sglang && dp > 1 =>
            {
                Exchange::Gather
            }
            _ if model.experts.is_none() => Exchange::Reduce,
            // With one group all of its ranks have its tokens. vLLM then calls no exchange.
            _ if vllm && dp == 1 => Exchange::Reduce,
            Exchange::Gather if dp == 1 => Exchange::Reduce,
            // Kernels that send tokens to whole experts need expert parallelism.
            Exchange::Copies | Exchange::Kernels(_) if ep == 1 && vllm => Exchange::Gather,
            Exchange::Copies | Exchange::Kernels(_) if ep == 1 => Exchange::Reduce,
            read => read,
        };
        if (vllm || sglang) && stored == Some(BLOCKS) {
            let gathered = if exchange == Exchange::Gather { dp } else { 1 };
            in_blocks(&model, tp, (tp.saturating_mul(gathered) / ep).max(1))?;
        }
        let by_itself = || {
            let may = sglang && tp > 1 && dp == 1 && exchange == Exchange::Reduce;
            may.then(|| self.fuses_by_itself(&device))
        };
        let fused = self.said("fused_norm")?.or_else(by_itself);
        Ok(Serve {
            name: self.name.clone(),
            model,
            tp,
            dcp,
            pp,
            dp,
            ep,
            sequences,
            context,
            longest,
            traffic,
            chunk,
            utilization: share,
            weights,
            cache,
            state,
            engine: self.get("engine").map(str::to_owned),
            custom: self.said("custom_all_reduce")?.unwrap_or(true),
            env: self.get("env").unwrap_or("").to_owned(),
            fused,
            exchange,
            only: self.only,
            device,
            machine,
            inferred,
        })
    }
}

/// What is assumed of an engine's release.
///
/// # Errors
/// It is no engine, or no release.
fn release(name: &str) -> Result<Option<String>> {
    if !crate::library::is_engine(name) {
        return Err(Error::input(format!("`{name}` is not an inference engine"))
            .at("engine")
            .help("write one such as vllm or sglang@0.5.23"));
    }
    let (engine, asked) = name.split_once('@').map_or((name, None), |(of, at)| (of, Some(at)));
    match (engines::release_of(name), asked) {
        (Ok(Some((newest, _))), None) => {
            Ok(Some(format!("engine {engine}@{newest}: nothing says which release")))
        }
        (Ok(Some((_, notes))), _) => Ok(notes.into_iter().next()),
        (Ok(None), _) => Ok(None),
        // Its defaults are those of that release, as far as they are known.
        (Err(error), Some(_)) if error.is_unsupported() => Ok(Some(format!(
            "{}: its all-reduces are those of the library; {}",
            error.what(),
            error.mending().unwrap_or_default()
        ))),
        (Err(error), _) => Err(error.at(format!("engine = {name}"))),
    }
}

/// Bytes of a number in the cache of keys and values.
fn cached(kind: &str) -> Result<f64> {
    match kind.to_ascii_lowercase().as_str() {
        "auto" | "bf16" | "bfloat16" | "fp16" | "float16" | "half" => Ok(2.0),
        kind if kind.starts_with("fp8") || kind.starts_with("int8") => Ok(1.0),
        // Four bits, and eight of scale for each 16 numbers.
        "nvfp4" => Ok(0.5625),
        _ => Err(Error::input(format!("a cache of `{kind}` is not priced"))
            .at(format!("cache_type = {kind}"))
            .help("write --set cache_type=fp8, int8, nvfp4 or bf16")),
    }
}

/// Bytes of a number in a state of linear attention.
fn of_state(kind: &str, usual: f64) -> Result<f64> {
    match kind.to_ascii_lowercase().as_str() {
        "auto" => Ok(usual),
        "fp32" | "float32" => Ok(4.0),
        "bf16" | "bfloat16" | "fp16" | "float16" => Ok(2.0),
        _ => Err(Error::input(format!("a state of `{kind}` is not priced"))
            .at(format!("state_type = {kind}"))
            .help("write --set state_type=float32 or bfloat16")),
    }
}

/// The part of a GPU's memory that an engine may use.
fn share(text: &str) -> Result<f64> {
    text.parse().ok().filter(|part| (0.05..=1.0).contains(part)).ok_or_else(|| {
        Error::input(format!("`{text}` is not a part of the memory"))
            .at(format!("utilization = {text}"))
            .help("write a number from 0.05 to 1, such as --set utilization=0.9")
    })
}

impl Serve {
    pub fn gpus(&self) -> u32 {
        self.tp * self.dp * self.pp
    }

    /// Whether activations come from what the stated share of the memory leaves, not from the share, as in vLLM.
    pub(super) fn is_sglang(&self) -> bool {
        self.is_engine("sglang")
    }

    pub(super) fn is_tensorrt(&self) -> bool {
        self.is_engine("tensorrt-llm")
    }

    pub(super) fn is_vllm(&self) -> bool {
        self.is_engine("vllm")
    }

    fn is_engine(&self, engine: &str) -> bool {
        self.engine.as_deref().is_some_and(|own| own.starts_with(engine))
    }

    /// Whether it is the newest release of vLLM that is known.
    fn is_newest_vllm(&self) -> bool {
        self.is_vllm() && since(self.engine.as_deref().unwrap_or(""), Release(0, 33, 0))
    }

    /// How a call is made, as far as the engine's rules depend on it.
    fn conditions(&self) -> Result<Conditions> {
        let hidden = Some(u64::from(self.model.hidden));
        let mut conditions = Conditions { hidden, followed: true, ..Conditions::default() };
        for set in self.env.split_whitespace() {
            conditions.variables.put(set).map_err(|e| e.at(format!("env = {}", self.env)))?;
        }
        if !self.custom {
            conditions.variables.put("disable_custom_all_reduce=1")?;
        }
        if let Some(fused) = self.fused.map(u8::from) {
            let flag = match self.is_sglang() {
                true => "enable_flashinfer_allreduce_fusion",
                false => "fuse_allreduce_rms",
            };
            conditions.variables.put(&format!("{flag}={fused}"))?;
        }
        Ok(conditions)
    }

    /// Ranks over which experts are distributed or divided.
    fn experts_over(&self) -> f64 {
        let gathered = if self.exchange == Exchange::Gather { self.tp * self.dp } else { 1 };
        f64::from(self.ep.max(self.tp).max(gathered))
    }

    /// Whether attention alone is divided into groups, inside TP: SGLang's data-parallel attention.
    fn attends_apart(&self) -> bool {
        let inside = match self.exchange {
            Exchange::Reduce => false,
            Exchange::Gather => true,
            Exchange::Copies | Exchange::Kernels(_) => self.ep == self.tp * self.dp,
        };
        self.is_sglang() && self.dp > 1 && inside
    }

    /// Ranks over which the head is divided: those of the whole TP (`ParallelLMHead` without
    /// `--enable-dp-lm-head`).
    fn head_over(&self) -> f64 {
        f64::from(if self.attends_apart() { self.tp * self.dp } else { self.tp })
    }

    /// Weights of products on a rank, without routed experts and the head. Of groups that attend apart,
    /// all ranks divide dense layers, and shared experts unless DeepEP's kernels exchange tokens; each has
    /// the router.
    fn dense_body(&self) -> f64 {
        let (model, tp) = (&self.model, f64::from(self.tp));
        let latents = model.moe_layers() * model.latents() * (1.0 - 1.0 / tp);
        let copies = model.attention_copies(tp) + latents;
        if !self.attends_apart() {
            return model.dense_body() / tp + copies;
        }
        let all = tp * f64::from(self.dp);
        let over = if matches!(self.exchange, Exchange::Kernels(_)) { 1.0 } else { all };
        let layers = f64::from(model.layers);
        let whole = model.router() + model.latents();
        let shared = whole + (model.shared() - whole) / over;
        layers * model.attention_weights() / tp
            + copies
            + model.dense_layers() * model.dense_ffn() / all
            + model.moe_layers() * shared
    }

    /// Bytes of a rank's routed experts in all layers. vLLM fills those in MXFP4 up to whole blocks of their kernels:
    /// channels to 256, the width on a rank to 128 (`create_weights`,
    /// vllm/model_executor/layers/quantization/mxfp4.py, for Marlin; Triton's fill one of the two).
    fn routed(&self) -> f64 {
        let (model, bytes) = (&self.model, self.weights.experts.bytes);
        let padded = model.experts.filter(|_| self.is_vllm() && self.weights.experts == MXFP4);
        let Some(experts) = padded else {
            return bytes * model.routed_body() / self.experts_over();
        };
        let ranks = self.experts_over() as u32;
        let width = experts.ffn.div_ceil((ranks / self.ep).max(1)).next_multiple_of(128);
        let each = 3.0 * f64::from(model.hidden.next_multiple_of(256)) * f64::from(width);
        let own = f64::from(experts.experts) / f64::from(self.ep);
        bytes * model.moe_layers() * own * each
    }

    /// Bytes of a dispatched token over those of bf16. vLLM quantizes before DeepEP's dispatch if experts are
    /// in FP8, with a scale for each 128 (`maybe_make_prepare_finalize`, fused_moe/all2all_utils.py), SGLang
    /// unless experts are in W4AFP8 (`SGLANG_DEEPEP_BF16_DISPATCH`, layers/moe).
    fn dispatched(&self) -> f64 {
        let Stored { bytes, activations } = self.weights.experts;
        let fp8 = match self.is_sglang() {
            true => activations != 8 || bytes >= 1.0,
            false => activations == 8 && bytes >= 1.0,
        };
        if fp8 { SCALES / 2.0 } else { 1.0 }
    }

    /// Groups whose tokens go to the same experts.
    fn meeting(&self) -> f64 {
        let groups = match self.exchange {
            Exchange::Reduce => 1,
            Exchange::Gather => self.dp,
            Exchange::Copies | Exchange::Kernels(_) => (self.ep / self.tp).max(1),
        };
        f64::from(groups)
    }

    /// Its memory and times.
    ///
    /// # Errors
    /// Ranks that the machine does not join.
    pub fn priced(&self, wires: &Wires<'_>) -> Result<Served> {
        let model = &self.model;
        let pp = f64::from(self.pp);
        let tables = model.embedding() + model.per_layer_tables();
        let (first, head) = (tables / f64::from(self.tp), model.embedding() / self.head_over());
        // The first stage has the embedding, the last one the head, which may be the same weights.
        let ends = match self.pp {
            1 if model.tied => first,
            1 => first + head,
            _ => first.max(head),
        };
        let bytes = self.weights;
        let dense = bytes.products.bytes * self.dense_body() / pp + bytes.ends * ends;
        let weights = dense + self.routed() / pp;
        let per_token = self.cache_a_token(self.context);
        let states = model.states(self.state);
        let state = states / pp / f64::from(self.tp);
        let [_, room, _] = self.room(weights);
        let cached = model.cache(f64::from(self.context), self.cache, |_| 1.0);
        let handoff = f64::from(self.context) * cached + states;
        // Those of sequences of this length, each with its states.
        let tokens = room / (per_token + state / f64::from(self.context));
        let fitting = (tokens / f64::from(self.context)).floor();
        let sequences = f64::from(self.sequences).min(fitting).max(1.0);
        let chunk = self.at_once(sequences);
        let decode = self.decode(wires, (per_token, state), sequences)?;
        let prefill = self.prefill(wires, chunk)?;
        let seen = match self.traffic {
            Some(traffic) => {
                let one = f64::from(traffic.input.min(self.chunk));
                let own = self.prefill(wires, one)?.span() * (f64::from(traffic.input) / one);
                Some(self.seen(
                    traffic,
                    sequences,
                    decode.span(),
                    own,
                    prefill.span() * chunk.recip(),
                ))
            }
            None => None,
        };
        Ok(Served {
            weights,
            room,
            cache_a_token: per_token,
            state,
            tokens,
            sequences,
            decode,
            prefill,
            chunk,
            seen,
            handoff,
            handing: self.handing(wires, per_token * f64::from(self.context) + state),
        })
    }

    /// What requests see of which so many are decoded at once, from the times of a step, of a prompt alone, and of a
    /// token of prompts that share a step with others.
    fn seen(&self, traffic: Traffic, sequences: f64, step: Span, own: Span, shared: Span) -> Seen {
        let [input, output] = [traffic.input, traffic.output].map(f64::from);
        let (decodes, prefills) = (self.runs(Doing::Decode), self.runs(Doing::Prefill));
        // A server that runs one phase alone has nobody to keep waiting.
        let held = if self.is_sglang() && decodes && prefills { HELD_UP } else { 0.0 };
        let held = Span { time: held, low: held / OFF, high: held * OFF };
        // vLLM and TensorRT-LLM give a step tokens of both.
        let prompt = if self.is_sglang() { own + held } else { shared * input };
        // Where an answer ends with every `output / sequences` steps, a prompt begins.
        let between = if prefills { step + prompt * (sequences / output) } else { step };
        // The steps of a prompt also decode those that are running.
        let chunks = (input / f64::from(self.chunk)).ceil();
        let mut first = own + held;
        if decodes {
            first = first + step * chunks;
        }
        if sequences > 1.0 {
            first.high = first.high.max(first.time * TOGETHER);
        }
        let groups = f64::from(self.dp);
        let rate = match decodes {
            true => between.per() * (sequences * groups),
            false => shared.per() * groups,
        };
        Seen { first: prefills.then_some(first), between: decodes.then_some(between), rate }
    }

    /// What the band of its times is based on.
    pub fn basis(&self) -> String {
        let traffic = match self.traffic {
            Some(_) if self.is_sglang() => "; traffic by 50 published runs of SGLang",
            Some(_) => "; traffic was compared with runs of SGLang alone",
            None => "",
        };
        let name = self.device.name.as_str();
        let none = if SEEN.contains(&name) { String::new() } else { format!(", none of {name}") };
        format!(
            "published times of servers of {}{none}: 2 of 10 are off by a factor of {OFF} or more{traffic}",
            SEEN.join(", ")
        )
    }

    /// The keys that determine its times and its memory, with their values.
    pub fn facts(&self) -> Vec<(String, String)> {
        let facts = [
            ("params", self.model.params().to_string()),
            ("tp", self.tp.to_string()),
            ("dcp", self.dcp.to_string()),
            ("pp", self.pp.to_string()),
            ("dp", self.dp.to_string()),
            ("ep", self.ep.to_string()),
            ("sequences", self.sequences.to_string()),
            ("context", self.context.to_string()),
            ("longest", self.longest.to_string()),
            ("chunk", self.chunk.to_string()),
            ("utilization", self.utilization.to_string()),
            ("bytes of a weight", self.weights.experts.bytes.to_string()),
            ("bytes of the cache", self.cache.to_string()),
            ("bytes of a state", self.state.to_string()),
            ("engine", self.engine.clone().unwrap_or_default()),
            ("all2all", self.exchange.id().to_owned()),
            ("device", self.device.name.clone()),
        ];
        let custom = (!self.custom).then(|| ("custom_all_reduce", "false".to_owned()));
        let fused = self.fused.map(|fused| ("fused_norm", fused.to_string()));
        let env = (!self.env.is_empty()).then(|| ("env", self.env.clone()));
        let traffic = self
            .traffic
            .map(|one| [("input", one.input.to_string()), ("output", one.output.to_string())]);
        let facts = facts.into_iter().chain(traffic.into_iter().flatten());
        let facts = facts.chain(custom).chain(fused).chain(env);
        facts.map(|(key, value)| (key.to_owned(), value)).collect()
    }

    /// Every GPU sends what it holds of a sequence's cache to its counterpart on another node.
    fn handing(&self, wires: &Wires<'_>, bytes: f64) -> Option<f64> {
        let apart = wires.domain();
        let world = u64::from(apart) * 2;
        let pair = Among { world, group: Group::new(2, apart) };
        wires.time(SendRecv, pair, bytes).ok()
    }

    /// The factor by which TP divides the cache: at most by heads, a latent not at all; of what is then
    /// the same on several ranks, DCP gives each a part of the tokens.
    pub(super) fn cut(&self, attention: Attention) -> f64 {
        let heads = match attention {
            Attention::Grouped { kv_heads, .. } => self.tp.min(kv_heads),
            Attention::Latent { .. } | Attention::Compressed { .. } => 1,
        };
        f64::from((heads * self.dcp).min(self.tp))
    }

    fn decode(
        &self,
        wires: &Wires<'_>,
        (per_token, state): (f64, f64),
        tokens: f64,
    ) -> Result<Phase> {
        // A state is read and written.
        let each = per_token * f64::from(self.context) + 2.0 * state;
        let cache = each * f64::from(self.pp) * tokens;
        let compute = self.compute(tokens, tokens) / f64::from(self.tp);
        self.phase(wires, (tokens, tokens), Doing::Decode, (cache, compute))
    }

    /// Whether it runs a phase.
    pub fn runs(&self, phase: Doing) -> bool {
        self.only.is_none_or(|only| only == phase)
    }

    /// Tokens of a prompt: as many as a sequence may have, unless it is said.
    fn prompt(&self) -> f64 {
        f64::from(self.traffic.map_or(self.longest, |one| one.input))
    }

    /// Tokens of a prefill: a chunk, or the prompts of all of its sequences.
    fn at_once(&self, sequences: f64) -> f64 {
        f64::from(self.chunk).min(sequences * self.prompt())
    }

    fn prefill(&self, wires: &Wires<'_>, tokens: f64) -> Result<Phase> {
        // A chunk is one prompt, or as many as it holds; a prompt that is known may have several, of which the later
        // ones attend to those before.
        let whole = self.prompt();
        let prompt = if self.traffic.is_some() { whole } else { tokens.min(whole) };
        let scores = 2.0 * prompt * self.model.cores(prompt);
        let core = tokens * (scores + self.model.linear_core());
        let attention = core / self.device.attention(false, false);
        // A prompt's last token alone is sampled from.
        let sampled = tokens / prompt;
        let compute = (self.compute(tokens, sampled) + attention) / f64::from(self.tp);
        self.phase(wires, (tokens, sampled), Doing::Prefill, (0.0, compute))
    }

    /// A phase of `tokens` tokens of a group, of which so many are sampled from, that reads so many bytes beside
    /// weights and computes for so long.
    fn phase(
        &self,
        wires: &Wires<'_>,
        (tokens, sampled): (f64, f64),
        doing: Doing,
        (beside, compute): (f64, f64),
    ) -> Result<Phase> {
        let busy = ((self.used(tokens) + beside) / self.device.reading()).max(compute);
        let routing = if self.weights.experts == MXFP4 { 0.0 } else { ROUTING };
        let between = BETWEEN * f64::from(self.model.layers) + routing * self.model.moe_layers();
        let phase = Phase { busy, between, ..Phase::default() };
        self.messages(wires, (tokens, sampled), doing, phase)
    }

    /// Bytes of the weights of a rank that `tokens` tokens of each group use: of routed experts those to which
    /// one of them goes.
    fn used(&self, tokens: f64) -> f64 {
        let model = &self.model;
        let met = model.experts.map_or(1.0, |e| {
            let each = f64::from(e.top_k) / f64::from(e.experts);
            1.0 - (1.0 - each).powf(tokens * self.meeting())
        });
        let bytes = self.weights;
        let head = bytes.ends * model.embedding() / self.head_over();
        let routed = self.routed();
        bytes.products.bytes * self.dense_body() + head + met * routed
    }

    /// The time in seconds of the products of `tokens` on one GPU, of which so many are sampled from: only
    /// their logits are computed (`logits_indices`, vllm/v1/worker/gpu_model_runner.py; `last_index`,
    /// sglang/srt/layers/logits_processor.py).
    fn compute(&self, tokens: f64, sampled: f64) -> f64 {
        let model = &self.model;
        let dense = model.dense_body() * tokens + model.embedding() * sampled;
        let seconds = |products: f64, stored| 2.0 * products / self.rate(stored);
        let dense = seconds(dense, self.weights.products);
        let Some(experts) = model.experts else { return dense };
        let routed = model.moe_layers() * f64::from(experts.top_k) * model.expert() * tokens;
        // As in training, without its loss by few tokens: engines' kernels have tiles of 16 tokens for these
        // (`get_default_config`, vllm/model_executor/layers/fused_moe/fused_moe.py).
        let cut = (self.experts_over() / f64::from(self.ep)).max(1.0);
        let slower = of_experts(0.0, f64::from(experts.ffn) / cut);
        dense + seconds(routed, self.weights.experts) * slower
    }

    /// The rate of products with weights that are so stored: that of the activations. Before Blackwell no
    /// GPU multiplies 4 bits, and Marlin's kernel takes activations of 16 (vllm-project/vllm,
    /// `quantization/utils/marlin_utils_fp4.py`).
    fn rate(&self, stored: Stored) -> f64 {
        let short = match stored.activations {
            4 => self.device.is_blackwell(),
            bits => bits <= 8,
        };
        let precision = if short { Precision::Fp8 } else { Precision::Bf16 };
        self.device.body(precision, false)
    }

    /// Adds the messages of `tokens` tokens of a group, of which so many are sampled from, to a phase.
    fn messages(
        &self,
        wires: &Wires<'_>,
        (tokens, sampled): (f64, f64),
        doing: Doing,
        phase: Phase,
    ) -> Result<Phase> {
        let model = &self.model;
        let layers = f64::from(model.layers);
        let width = tokens * f64::from(model.hidden) * 2.0;
        let tp = self.among(self.tp, 1);
        let engine = self.engine.as_deref();
        let conditions = self.conditions()?;
        let by_engine = engine.and_then(|e| wires.by_engine(e, tp, width, conditions));
        let (reduced, each) = match by_engine {
            Some((kernel, each)) => (Some(kernel), each),
            None => (None, wires.span(AllReduce, tp, width)?),
        };
        let mut sum =
            each * (layers + model.feeding_layers() + 1.0) + self.logits(wires, sampled)?;
        let (mut moved, mut unmeasured) = (None, None);
        let (both, replaced) = match self.exchange {
            Exchange::Reduce => (Span::default(), 0.0),
            Exchange::Gather => {
                moved = model.experts.map(|_| GATHER);
                self.gathered(wires, width, doing)?
            }
            Exchange::Copies => {
                moved = Some(COPIES);
                let both = self.experts(wires, tokens / f64::from(self.tp), None)?.0;
                self.rejoined(wires, width, both)?
            }
            Exchange::Kernels([decode, prefill]) => {
                let kernels = if doing == Doing::Decode { decode } else { prefill };
                let each = tokens / f64::from(self.tp);
                let (both, known) = self.experts(wires, each, Some(kernels))?;
                (moved, unmeasured) = (known, known.is_none().then_some(kernels));
                self.rejoined(wires, width, both)?
            }
        };
        sum = sum + (both + each * -replaced) * model.moe_layers();
        // The FFN of a dense layer is over all groups that attend apart (`LayerScatterModes`,
        // sglang/srt/layers/communicator.py).
        if self.attends_apart() {
            let (both, replaced) = self.gathered(wires, width, doing)?;
            sum = sum + (both + each * -replaced) * model.dense_layers().min(layers);
        }
        if doing == Doing::Decode {
            sum = sum + self.divided(wires, tokens)? * (layers * model.keeping());
        }
        if self.pp > 1 {
            sum = sum + self.passed_on(wires, width)?;
        }
        Ok(Phase { messages: sum, reduced, moved, unmeasured, ..phase })
    }

    /// What stages pass on, one after another: hidden states and the residual. Each rank of TP sends its part of
    /// both, and gathers what the others got (`send_tensor_dict`, vllm/distributed/parallel_state.py; SGLang's is
    /// the same).
    fn passed_on(&self, wires: &Wires<'_>, width: f64) -> Result<Span> {
        // vLLM's groups each have all of their stages side by side.
        let (stage, rows) =
            if self.is_vllm() { (self.tp, self.dp) } else { (self.tp * self.dp, 1) };
        let node = wires.domain();
        let on = |row: u32, at: u32| (row * self.pp + at) * stage / node;
        let leaves = |next: u32| (0..rows).any(|row| on(row, next) != on(row, next - 1));
        let far = (1..self.pp).filter(|&next| leaves(next)).count() as f64;
        let near = f64::from(self.pp - 1) - far;
        let world = u64::from(self.gpus());
        let hop = |group| wires.span(SendRecv, Among { world, group }, width / f64::from(self.tp));
        let gathered = wires.span(AllGather, self.among(self.tp, 1), width)?;
        let mut each = gathered * f64::from(self.pp - 1);
        if near > 0.0 {
            each = each + hop(Group::new(2, stage))? * near;
        }
        if far > 0.0 {
            each = each + hop(Group::neighbours(self.pp, stage))? * far;
        }
        Ok(each * 2.0)
    }

    /// The all-gather of the logits of a group's tokens. The ranks of all groups that attend apart share a
    /// head, and gather its input first (`do_tensor_parallel_all_gather_dp_attn`).
    fn logits(&self, wires: &Wires<'_>, sampled: f64) -> Result<Span> {
        let of = |tokens: f64, width: u32| tokens * f64::from(width) * 2.0;
        if !self.attends_apart() {
            let tp = self.among(self.tp, 1);
            return wires.span(AllGather, tp, of(sampled, self.model.vocab));
        }
        let (every, all) = (self.among(self.tp * self.dp, 1), sampled * f64::from(self.dp));
        Ok(wires.span(AllGather, every, of(all, self.model.hidden))?
            + wires.span(AllGather, every, of(all, self.model.vocab))?)
    }

    /// So many of all ranks, this far apart.
    fn among(&self, ranks: u32, stride: u32) -> Among {
        Among { world: u64::from(self.gpus()), group: Group::new(ranks, stride) }
    }

    /// So many ranks of one stage. vLLM's order is DP x PP x TP (`initialize_model_parallel`,
    /// vllm/distributed/parallel_state.py): those of one stage are blocks of TP, with the other stages between
    /// them. Ranks at this stride are on as many nodes, as many on each.
    fn of_stage(&self, wires: &Wires<'_>, ranks: u32) -> Among {
        let blocks = (wires.domain() / self.tp).max(1);
        let apart = self.is_vllm() && self.dp > 1;
        self.among(ranks, if apart { self.pp.min(blocks) } else { 1 })
    }

    /// What carries tokens to experts and back, with what puts the tokens of a group together again where each
    /// rank of TP takes a part of them to experts, and how many of TP's all-reduces this replaces. vLLM's models
    /// gather after the experts (`use_sequence_parallel_moe`: models/qwen3_moe.py, llama4.py, gpt_oss.py);
    /// DeepSeek's scatters the sums of attention as well, and gathers before the next (models/deepseek_v2.py,
    /// without a pipeline). SGLang's scatters and gathers instead of both all-reduces are as long as one.
    fn rejoined(&self, wires: &Wires<'_>, width: f64, both: Span) -> Result<(Span, f64)> {
        if !self.is_vllm() {
            return Ok((both, 1.0));
        }
        let tp = self.among(self.tp, 1);
        let joined = both + wires.span(AllGather, tp, width)?;
        let latent = matches!(self.model.attention, Attention::Latent { .. });
        match self.is_newest_vllm() && latent && self.pp == 1 {
            true => Ok((joined + wires.span(ReduceScatter, tp, width)?, 2.0)),
            false => Ok((joined, 1.0)),
        }
    }

    /// An all-gather of the tokens of all groups for a layer of experts and a reduce-scatter of what
    /// these give, and how many of TP's all-reduces they replace.
    fn gathered(&self, wires: &Wires<'_>, width: f64, doing: Doing) -> Result<(Span, f64)> {
        let all = width * f64::from(self.dp);
        let sglang = self.is_sglang();
        // The newest vLLM quantizes before it gathers (`_quantize_and_setup_dispatch`,
        // fused_moe/prepare_finalize/naive_dp_ep.py).
        let out = all * if self.is_newest_vllm() { self.dispatched() } else { 1.0 };
        // vLLM without expert parallelism gathers among the ranks of one place in each group: every rank
        // of a group has all of its tokens, and the group adds the parts of its ranks as ever.
        if self.ep == 1 && !sglang {
            let apart = if self.is_vllm() { self.tp * self.pp } else { self.tp };
            let groups = self.among(self.dp, apart);
            let both =
                wires.span(AllGather, groups, out)? + wires.span(ReduceScatter, groups, all)?;
            return Ok((both, 0.0));
        }
        let every = self.of_stage(wires, self.tp * self.dp);
        // SGLang gathers prompts, whose lengths differ, by adding them into zeros (`SUM_LEN`).
        let both = match sglang && doing == Doing::Prefill {
            true => wires.span(AllReduce, every, all)? * 2.0,
            false => wires.span(AllGather, every, out)? + wires.span(ReduceScatter, every, all)?,
        };
        match self.is_vllm() {
            true => self.rejoined(wires, width, both),
            false => Ok((both + wires.span(AllGather, self.among(self.tp, 1), width)?, 1.0)),
        }
    }

    /// What DCP adds to a layer of decoding: an all-gather of queries over its ranks, one of the scores'
    /// sums, and a reduce-scatter of what each found in its tokens (`cp_lse_ag_out_rs`,
    /// vllm/v1/attention/ops/common.py).
    fn divided(&self, wires: &Wires<'_>, tokens: f64) -> Result<Span> {
        let ranks = self.among(self.dcp, 1);
        let heads = f64::from(self.model.heads) * f64::from(self.dcp) / f64::from(self.tp);
        let (query, found) = match self.model.attention {
            Attention::Grouped { head, .. } => (head, head),
            Attention::Latent { latent, rope, .. } => (latent + rope, latent),
            Attention::Compressed { head, .. } => (head, head),
        };
        let bytes = |width: u32, each: f64| tokens * heads * f64::from(width) * each;
        Ok(wires.span(AllGather, ranks, bytes(query, 2.0))?
            + wires.span(AllGather, ranks, bytes(1, 4.0))?
            + wires.span(ReduceScatter, ranks, bytes(found, 2.0))?)
    }

    /// A dispatch and a combine of a rank's tokens, and the measured kernels that carry them.
    fn experts(
        &self,
        wires: &Wires<'_>,
        tokens: f64,
        dispatch: Option<&'static str>,
    ) -> Result<(Span, Option<&'static str>)> {
        let Some(experts) = self.model.experts else { return Ok((Span::default(), None)) };
        let ep = self.of_stage(wires, self.ep);
        let width = self.model.routed_width() * 2.0;
        let out = width * if dispatch.is_some() { self.dispatched() } else { 1.0 };
        if let Some(kernels) = dispatch {
            let calls = match kernels {
                LOW_LATENCY => (tokens / BUFFER).ceil().max(1.0),
                _ => 1.0,
            };
            let sent = Tokens {
                each: (tokens / calls).round() as u64,
                width: Bytes(width as u64),
                top_k: experts.top_k,
                experts: experts.experts,
                ranks: self.ep,
            };
            let out = Bytes(out.round() as u64);
            if let Some(both) = wires.by_kernels(ep, kernels, (out, sent)) {
                return Ok((both * calls, Some(kernels)));
            }
        }
        // Over nodes the normal kernels forward inside them; low latency sends every copy.
        let one = |width: f64| match dispatch {
            Some(NORMAL) => {
                let limited = (experts.experts, experts.top_k);
                wires.once_a_node(ep, (tokens, width, None), limited)
            }
            _ => wires.span(AllToAll, ep, tokens * width * f64::from(experts.top_k)),
        };
        Ok((one(out)? + one(width)?, None))
    }
}

//! Serving a model: the memory of its weights and cache, the time of a token and a prompt.
//!
//! A decode step takes the time to read the weights that its tokens use and their cache once, or
//! its computing time if that is longer; a prefill computes. Both wait for TP's two all-reduces per
//! layer, as the inference engine runs them, and for dispatch and combine of experts, by DeepEP's
//! kernels where the server uses them and they were measured on such ranks. A pipeline stage passes its
//! token on, so a token goes through all stages in series.

use super::draft::Draft;
use super::wires::{Among, Span, Wires};
use super::{Device, Framework, Precision, Transformer};
use crate::base::collective::Collective::{AllGather, AllReduce, AllToAll, SendRecv};
use crate::base::error::{Error, Result};
use crate::base::quantity::Bytes;
use crate::library::engines::Kernel;
use crate::measure::expect::Tokens;
use crate::plan::Group;
use crate::plan::moe::{LOW_LATENCY, NORMAL};
use crate::plan::table::{MachineEntry, Machines};

/// A model being served.
#[derive(Clone)]
pub(crate) struct Serve {
    pub name: String,
    pub model: Transformer,
    /// TP of attention, and of everything else if experts are not spread.
    pub tp: u32,
    pub pp: u32,
    /// Groups with their own sequences.
    pub dp: u32,
    pub ep: u32,
    /// Sequences per group that are decoded at once.
    pub sequences: u32,
    /// Tokens of context of each.
    pub context: u32,
    /// Tokens of a prefill at once.
    pub chunk: u32,
    /// The part of the memory that may be filled.
    pub utilization: f64,
    /// Bytes of a weight, and of an element of the cache.
    pub weight: f64,
    pub cache: f64,
    /// The server, whose rules say what all-reduces run; none: what the library runs.
    pub engine: Option<String>,
    /// DeepEP's kernels, of decode and of prefill; none: an all-to-all of copies.
    pub dispatch: Option<[&'static str; 2]>,
    pub device: Device,
    pub machine: MachineEntry,
    pub inferred: Vec<String>,
}

/// The memory and times of serving, per GPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Served {
    pub weights: f64,
    pub cache_a_token: f64,
    /// Tokens of a group that fit in addition to the weights.
    pub tokens: f64,
    /// Sequences that are decoded at once: the requested number, or as many as fit.
    pub sequences: f64,
    pub decode: Phase,
    pub prefill: Phase,
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
    pub messages: Span,
    /// What runs TP's all-reduces, where the engine's rules and kernels are known.
    pub reduced: Option<Kernel>,
    /// Measured kernels of dispatch and combine.
    pub moved: Option<&'static str>,
    /// The kernels that the server runs instead, which nobody measured on such ranks.
    pub unmeasured: Option<&'static str>,
}

impl Phase {
    pub fn time(self) -> f64 {
        self.busy + self.messages.time
    }
}

/// Tokens of a rank that a call of the low-latency kernels takes: longer prompts go in parts (vLLM:
/// `VLLM_MOE_DP_CHUNK_SIZE`, vllm-project/vllm, vllm/envs.py).
const BUFFER: f64 = 256.0;

/// The additional memory of activations, graphs and libraries.
const BESIDE: f64 = 2e9;

impl Draft {
    /// Whether it serves instead of training.
    pub fn serves(&self) -> bool {
        self.get("serve") == Some("true")
    }

    /// The served model, if the job is complete.
    ///
    /// # Errors
    /// All missing keys by name.
    pub fn serve(&self, machines: &Machines<'_>) -> Result<Serve> {
        let mut inferred = self.inferred.clone();
        let mut missing: Vec<&str> = Vec::new();
        let Some(model) = self.model.clone() else {
            return Err(Error::input("the job has no model (a config.json)")
                .help("name the model's config.json after the arguments"));
        };
        if ["machine", "device", "profile"].iter().all(|key| self.get(key).is_none()) {
            missing.push("machine");
        }
        if !missing.is_empty() {
            return Err(Error::input(format!("the job does not say {}", missing.join(", ")))
                .help("write --set machine=dgx-h100"));
        }
        let mut count = |key: &'static str, absent: u32| -> Result<u32> {
            let found = self.count(key)?;
            if found.is_none() && !matches!(key, "tp" | "pp" | "dp" | "ep") {
                inferred.push(format!("{key} {absent}"));
            }
            Ok(found.unwrap_or(absent))
        };
        let (tp, pp, dp, ep) = (count("tp", 1)?, count("pp", 1)?, count("dp", 1)?, count("ep", 1)?);
        let longest = count("context", 4096)?;
        let context = (longest / 2).max(1);
        let (sequences, chunk) = (count("sequences", 256)?, count("chunk", 8192)?);
        inferred.push(format!(
            "{context} tokens of context a sequence: half of the {longest} that it may have"
        ));
        if let Some(gpus) = self.count("gpus")?.filter(|gpus| *gpus != tp * dp * pp) {
            let what = format!("the arguments serve on {} GPUs, not on {gpus}", tp * dp * pp);
            return Err(Error::input(what).at("gpus").help("leave it out, or set tp, dp or pp"));
        }
        let small = |key: &str| {
            self.get(key).is_some_and(|t| t.contains("fp8") || t.contains("int8") || t == "float8")
        };
        let weight = match self.get("weights_type") {
            Some(text) if ["awq", "gptq", "mxfp4", "fp4"].iter().any(|w| text.contains(w)) => 0.5,
            _ if small("weights_type") => 1.0,
            _ => 2.0,
        };
        let device = self.device(machines)?;
        let gpus = u64::from(tp * dp * pp);
        let machine = self.links(machines, &device, gpus, &mut inferred)?;
        let dispatch = match self.get("all2all") {
            None => None,
            Some(LOW_LATENCY) => Some([LOW_LATENCY; 2]),
            Some(NORMAL) => Some([NORMAL; 2]),
            Some("deepep-auto") => Some([LOW_LATENCY, NORMAL]),
            Some(other) => {
                return Err(Error::input(format!("`{other}` is not a kernel between experts"))
                    .at("all2all")
                    .help("write deepep-normal, deepep-ll or deepep-auto"));
            }
        };
        if let Some(other) = self.get("engine").filter(|e| !crate::library::is_engine(e)) {
            return Err(Error::input(format!("`{other}` is not an inference engine"))
                .at("engine")
                .help("write one such as vllm or sglang@0.5.23"));
        }
        let share = self.get("utilization").and_then(|t| t.parse::<f64>().ok());
        Ok(Serve {
            name: self.name.clone(),
            model,
            tp,
            pp,
            dp,
            ep,
            sequences,
            context,
            chunk,
            utilization: share.filter(|u| (0.05..=1.0).contains(u)).unwrap_or(0.9),
            weight,
            cache: if small("cache_type") { 1.0 } else { 2.0 },
            engine: self.get("engine").map(str::to_owned),
            dispatch,
            device,
            machine,
            inferred,
        })
    }
}

impl Serve {
    pub fn gpus(&self) -> u32 {
        self.tp * self.dp * self.pp
    }

    /// Ranks over which experts are distributed or divided.
    fn experts_over(&self) -> f64 {
        f64::from(if self.ep > 1 { self.ep } else { self.tp })
    }

    /// Its memory and times.
    ///
    /// # Errors
    /// Ranks that the machine does not join.
    pub fn priced(&self, wires: &Wires<'_>) -> Result<Served> {
        let model = &self.model;
        let layers = f64::from(model.layers);
        let (tp, pp) = (f64::from(self.tp), f64::from(self.pp));
        let ends = (if model.tied { 1.0 } else { 2.0 }) * model.embedding();
        let dense = (model.dense_body() / pp + ends) / tp;
        let routed = model.routed_body() / pp / self.experts_over();
        let weights = self.weight * (dense + routed);
        let per_token = layers / pp * self.cache * model.cache_width() / self.cut();
        let room = self.utilization * self.device.memory_gb * 1e9 - weights - BESIDE;
        let handoff = f64::from(self.context) * layers * self.cache * model.cache_width();
        let tokens = (room / per_token).max(0.0);
        let fitting = (tokens / f64::from(self.context)).floor();
        let sequences = f64::from(self.sequences).min(fitting).max(1.0);
        Ok(Served {
            weights,
            cache_a_token: per_token,
            tokens,
            sequences,
            decode: self.decode(wires, per_token, sequences)?,
            prefill: self.prefill(wires)?,
            handoff,
            handing: self.handing(wires, per_token),
        })
    }

    /// Bytes on a GPU with the cache of all sequences.
    pub fn peak(&self, served: &Served) -> f64 {
        let tokens = f64::from(self.sequences) * f64::from(self.context);
        served.weights + BESIDE + served.cache_a_token * tokens
    }

    /// Whether weights and the cache of one sequence fit.
    pub fn fits(&self, served: &Served) -> bool {
        served.tokens >= f64::from(self.context)
    }

    /// The keys that determine its times and its memory, with their values.
    pub fn facts(&self) -> Vec<(String, String)> {
        let facts = [
            ("params", self.model.params().to_string()),
            ("tp", self.tp.to_string()),
            ("pp", self.pp.to_string()),
            ("dp", self.dp.to_string()),
            ("ep", self.ep.to_string()),
            ("sequences", self.sequences.to_string()),
            ("context", self.context.to_string()),
            ("chunk", self.chunk.to_string()),
            ("utilization", self.utilization.to_string()),
            ("bytes of a weight", self.weight.to_string()),
            ("bytes of the cache", self.cache.to_string()),
            ("engine", self.engine.clone().unwrap_or_default()),
            ("all2all", self.dispatch.map_or(String::new(), |[decode, _]| decode.to_owned())),
            ("device", self.device.name.clone()),
        ];
        facts.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }

    /// Every GPU sends what it holds of a sequence's cache to its counterpart on another node.
    fn handing(&self, wires: &Wires<'_>, per_token: f64) -> Option<f64> {
        let apart = wires.domain();
        let world = u64::from(apart) * 2;
        let pair = Among { world, group: Group { ranks: 2, stride: apart } };
        wires.time(SendRecv, pair, per_token * f64::from(self.context)).ok()
    }

    /// The factor by which TP divides the cache: at most by heads, a latent not at all.
    fn cut(&self) -> f64 {
        match self.model.attention {
            super::model::Attention::Grouped { kv_heads, .. } => f64::from(self.tp.min(kv_heads)),
            super::model::Attention::Latent { .. } => 1.0,
        }
    }

    fn decode(&self, wires: &Wires<'_>, per_token: f64, tokens: f64) -> Result<Phase> {
        let model = &self.model;
        let tp = f64::from(self.tp);
        let met = model.experts.map_or(1.0, |e| {
            let all = f64::from(e.experts);
            // Experts that the tokens of all groups use.
            let each = f64::from(e.top_k) / all;
            1.0 - (1.0 - each).powf(tokens * f64::from(self.dp))
        });
        let read = self.weight
            * ((model.dense_body() + model.embedding()) / tp
                + met * model.routed_body() / self.experts_over());
        let cache = per_token * f64::from(self.pp) * tokens * f64::from(self.context);
        let compute = self.compute(tokens) / tp;
        let busy = ((read + cache) / self.device.stream()).max(compute);
        let phase = Phase { busy, ..Phase::default() };
        self.messages(wires, tokens, self.dispatch.map(|d| d[0]), phase)
    }

    fn prefill(&self, wires: &Wires<'_>) -> Result<Phase> {
        let tokens = f64::from(self.chunk);
        let core = 2.0 * self.model.core_width() * tokens * tokens * f64::from(self.model.layers);
        let attention = core / self.device.attention(false, Framework::Megatron);
        let busy = (self.compute(tokens) + attention) / f64::from(self.tp);
        let phase = Phase { busy, ..Phase::default() };
        self.messages(wires, tokens, self.dispatch.map(|d| d[1]), phase)
    }

    /// The time in seconds of the products of `tokens` on one GPU.
    fn compute(&self, tokens: f64) -> f64 {
        let model = &self.model;
        let routed = model.experts.map_or(0.0, |e| f64::from(e.top_k) * model.expert());
        let weights = model.dense_body() + model.moe_layers() * routed + model.embedding();
        let precision = if self.weight <= 1.0 { Precision::Fp8 } else { Precision::Bf16 };
        2.0 * weights * tokens / self.device.body(precision, Framework::Megatron)
    }

    /// Adds the messages of `tokens` tokens of a group to a phase.
    fn messages(
        &self,
        wires: &Wires<'_>,
        tokens: f64,
        dispatch: Option<&'static str>,
        phase: Phase,
    ) -> Result<Phase> {
        let model = &self.model;
        let world = u64::from(self.gpus());
        let among = |ranks, stride| Among { world, group: Group { ranks, stride } };
        let layers = f64::from(model.layers);
        let width = tokens * f64::from(model.hidden) * 2.0;
        let (tp, hop) = (among(self.tp, 1), among(2, self.tp * self.dp));
        let logits = tokens * f64::from(model.vocab) * 2.0;
        let spread = if self.ep > 1 { model.moe_layers() } else { 0.0 };
        let engine = self.engine.as_deref();
        let by_engine = engine.and_then(|e| wires.by_engine(e, tp, (width, model.hidden)));
        let (reduced, each) = match by_engine {
            Some((kernel, each)) => (Some(kernel), each),
            None => (None, wires.span(AllReduce, tp, width)?),
        };
        let mut sum = each * (2.0 * layers - spread + 1.0) + wires.span(AllGather, tp, logits)?;
        let mut moved = None;
        if self.ep > 1 && model.experts.is_some() {
            let (both, kernels) = self.experts(wires, tokens / f64::from(self.tp), dispatch)?;
            sum = sum + both * spread;
            moved = kernels;
        }
        if self.pp > 1 {
            sum = sum + wires.span(SendRecv, hop, width)? * f64::from(self.pp - 1);
        }
        let unmeasured = dispatch.filter(|_| self.ep > 1 && moved.is_none());
        Ok(Phase { messages: sum, reduced, moved, unmeasured, ..phase })
    }

    /// A dispatch and a combine of a rank's tokens, and the measured kernels that carry them.
    fn experts(
        &self,
        wires: &Wires<'_>,
        tokens: f64,
        dispatch: Option<&'static str>,
    ) -> Result<(Span, Option<&'static str>)> {
        let Some(experts) = self.model.experts else { return Ok((Span::default(), None)) };
        let world = u64::from(self.gpus());
        let ep = Among { world, group: Group { ranks: self.ep, stride: 1 } };
        let width = f64::from(self.model.hidden) * 2.0;
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
            if let Some(both) = wires.by_kernels(ep, kernels, sent) {
                return Ok((both * calls, Some(kernels)));
            }
        }
        // Over nodes the normal kernels forward inside them; low latency sends every copy.
        let both = if dispatch == Some(NORMAL) {
            let limited = (experts.experts, experts.top_k);
            wires.once_a_node(ep, (tokens, width, None), limited)?
        } else {
            wires.span(AllToAll, ep, tokens * width * f64::from(experts.top_k))?
        };
        Ok((both * 2.0, None))
    }
}

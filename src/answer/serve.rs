//! The serving of a model, from its server's arguments.

use serde::Serialize;

use crate::plan::job::{Doing, Phase, Serve, Served, Span};

/// The memory and time of serving.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServeView {
    /// `collcost/serve/1`.
    pub schema: &'static str,
    /// Its name, or its file if it has none.
    pub name: String,
    /// The GPU.
    pub device: String,
    /// The machine whose links are priced.
    pub machine: String,
    /// The total number of GPUs.
    pub gpus: u32,
    /// Degrees, such as `attention tp 1`, `dp 16`, `ep 16`.
    pub layout: Vec<String>,
    /// Weights on a GPU.
    pub weights_bytes: f64,
    /// What a GPU holds beside weights and cache: activations, graphs, libraries.
    pub beside_bytes: f64,
    /// What is left for caches and states.
    pub cache_bytes: f64,
    /// A tenth of real servers have less.
    pub cache_low_bytes: f64,
    /// A tenth of real servers have more.
    pub cache_high_bytes: f64,
    /// The cache of one token on a GPU.
    pub cache_bytes_per_token: f64,
    /// The states of one sequence on a GPU, in layers with linear attention.
    pub state_bytes_per_sequence: f64,
    /// Tokens of a group whose cache fits next to the weights, in sequences of this context.
    pub cache_tokens: f64,
    /// Bytes of cache per sequence that a separate prefill transfers.
    pub handoff_bytes: f64,
    /// The time of that to another node, if all GPUs of the node do it at once; null if no network is
    /// known.
    pub handoff_s: Option<f64>,
    /// The GPU's memory.
    pub capacity_bytes: f64,
    /// False only if the cache of one sequence of `least_tokens` is above `cache_high_bytes`.
    pub fits: bool,
    /// The longest sequence for vLLM, which refuses to start without room for it, half of that for others.
    pub least_tokens: u32,
    /// Bytes of its cache and states on a GPU.
    pub least_bytes: f64,
    /// Sequences of a group that are decoded at once: as many as requested, if they fit.
    pub sequences: f64,
    /// Tokens before each: the prompt and half of the answer, or half of the maximum length.
    pub context: u32,
    /// The decoding of one token of each sequence; null if other servers decode.
    pub decode: Option<PhaseView>,
    /// Tokens of a prefill at once: a chunk, or the prompts of all sequences.
    pub prefill_tokens: u32,
    /// The time of that prefill; null if other servers prefill.
    pub prefill: Option<PhaseView>,
    /// What requests see; null if it is not said what they are like.
    pub traffic: Option<RequestsView>,
    /// What the bands of all times are based on.
    pub basis: String,
    /// Assumptions for what was not given.
    pub inferred: Vec<String>,
}

/// What requests of one kind see, of which a group serves as many as it decodes sequences at once.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RequestsView {
    /// Tokens of a prompt.
    pub input: u32,
    /// Tokens of its answer.
    pub output: u32,
    /// Time to the first token (TTFT), without waiting for a free place; null if other servers prefill.
    pub first: Option<BandView>,
    /// Time between two tokens of an answer (TPOT), with the prompts of other requests in between; null if other
    /// servers decode.
    pub between: Option<BandView>,
    /// Tokens of answers in a second on all GPUs; those of prompts, if other servers decode.
    pub tokens_per_s: f64,
    /// A tenth of real servers have fewer.
    pub tokens_per_s_low: f64,
    /// A tenth of real servers have more.
    pub tokens_per_s_high: f64,
}

/// An expected time.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BandView {
    /// The time.
    pub time_s: f64,
    /// A tenth of real times are shorter.
    pub low_s: f64,
    /// A tenth of real times are longer.
    pub high_s: f64,
}

impl From<Span> for BandView {
    fn from(span: Span) -> Self {
        Self { time_s: span.time, low_s: span.low, high_s: span.high }
    }
}

/// A phase.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PhaseView {
    /// Its expected time: the next three together.
    pub time_s: f64,
    /// The time of reading memory, or of computing if that is longer.
    pub busy_s: f64,
    /// The time between the kernels of its layers, which depend on each other.
    pub between_s: f64,
    /// The time of collectives.
    pub messages_s: f64,
    /// The same with every collective at the short end of its band.
    pub messages_low_s: f64,
    /// The same with every collective at the long end of its band.
    pub messages_high_s: f64,
    /// A tenth of real times are shorter.
    pub low_s: f64,
    /// A tenth of real times are longer.
    pub high_s: f64,
    /// The kernel of TP's all-reduces, where the engine's rules and kernels are known.
    pub allreduce: Option<String>,
    /// The measured kernels of dispatch and combine, or the collectives in their place; null: TP's
    /// all-reduce, or kernels that nobody measured.
    pub experts: Option<&'static str>,
    /// The kernels of dispatch and combine that the server runs if nobody measured them on such ranks;
    /// they are priced from their bytes.
    pub unmeasured: Option<&'static str>,
}

pub(crate) fn view(serve: &Serve, served: &Served) -> ServeView {
    let shown = |p: Phase| PhaseView {
        time_s: p.time(),
        busy_s: p.busy,
        between_s: p.between,
        messages_s: p.messages.time,
        messages_low_s: p.messages.low,
        messages_high_s: p.messages.high,
        low_s: p.span().low,
        high_s: p.span().high,
        allreduce: p.reduced.map(|k| format!("{}/{}", k.backend, k.kernel)),
        experts: p.moved,
        unmeasured: p.unmeasured,
    };
    let least = serve.least(served);
    let [low, _, high] = serve.room(served.weights);
    let mut inferred = serve.inferred.clone();
    let fewer = served.sequences < f64::from(serve.sequences);
    if serve.fits(served) && serve.runs(Doing::Decode) && fewer {
        inferred.push(format!(
            "sequences at once: {:.0} instead of {}, as the caches of more have no room",
            served.sequences, serve.sequences
        ));
    }
    let phase = |doing: Doing, p: Phase| serve.runs(doing).then(|| shown(p));
    let degrees =
        [("attention tp", serve.tp), ("pp", serve.pp), ("dp", serve.dp), ("ep", serve.ep)];
    ServeView {
        schema: "collcost/serve/1",
        name: serve.name.clone(),
        device: serve.device.name.clone(),
        machine: serve.machine.said.profile.clone().unwrap_or_default(),
        gpus: serve.gpus(),
        layout: degrees.iter().map(|(axis, degree)| format!("{axis} {degree}")).collect(),
        weights_bytes: served.weights,
        beside_bytes: serve.beside(),
        cache_bytes: served.room,
        cache_low_bytes: low,
        cache_high_bytes: high,
        cache_bytes_per_token: served.cache_a_token,
        state_bytes_per_sequence: served.state,
        cache_tokens: served.tokens.floor(),
        handoff_bytes: served.handoff,
        handoff_s: served.handing,
        capacity_bytes: serve.device.capacity(),
        fits: serve.fits(served),
        least_tokens: least.0,
        least_bytes: least.1,
        sequences: served.sequences,
        context: serve.context,
        decode: phase(Doing::Decode, served.decode),
        prefill_tokens: served.chunk as u32,
        prefill: phase(Doing::Prefill, served.prefill),
        traffic: serve.traffic.zip(served.seen).map(|(traffic, seen)| RequestsView {
            input: traffic.input,
            output: traffic.output,
            first: seen.first.map(BandView::from),
            between: seen.between.map(BandView::from),
            tokens_per_s: seen.rate.time,
            tokens_per_s_low: seen.rate.low,
            tokens_per_s_high: seen.rate.high,
        }),
        basis: serve.basis(),
        inferred,
    }
}

//! nanotron's YAML: `model.model_config`, `parallelism`, `tokens`, `optimizer`.
//!
//! Sources: github.com/huggingface/nanotron, `src/nanotron/config`: names and defaults; `src/nanotron/models`: widths;
//! `src/nanotron/trainer.py`, `src/nanotron/optim`: what is summed and kept.

use super::draft::{Draft, Whose};
use super::files::is_yaml;
use super::model::{Attention, Experts, Small, Transformer, Window};
use super::trainer::PACKED;
use crate::base::error::{Error, Result};
use crate::base::yaml::{self, Node, Value};

/// Whether a text is such a configuration.
pub(super) fn is(text: &str, file: &str) -> bool {
    let has = |key: &str| text.lines().any(|line| line.starts_with(key));
    let inside = ["model_config:", "batch_accumulation_per_replica:"];
    is_yaml(file) && has("parallelism:") && inside.iter().any(|key| text.contains(key))
}

/// A table under a table's key, which may not be there.
#[derive(Clone, Copy)]
struct Keys<'t>(Option<&'t Node<'t>>);

impl<'t> Keys<'t> {
    fn of(self, key: &str) -> Self {
        Self(self.0.and_then(|node| node.get(key)))
    }

    fn word(self, key: &str) -> Option<&'t str> {
        self.0?.text(key).ok()
    }

    fn count(self, key: &str) -> Option<u32> {
        self.word(key)?.replace('_', "").parse().ok()
    }

    fn is(self, key: &str) -> bool {
        self.word(key).is_some_and(|word| word.eq_ignore_ascii_case("true"))
    }

    fn is_off(self, key: &str) -> bool {
        self.word(key).is_some_and(|word| word.eq_ignore_ascii_case("false"))
    }

    fn has(self, key: &str) -> bool {
        self.0.is_some_and(|node| node.get(key).is_some())
    }

    /// The keys of a table.
    fn all(self) -> impl Iterator<Item = &'t str> {
        let entries = match self.0.map(|node| &node.value) {
            Some(Value::Map(entries)) => entries.as_slice(),
            _ => &[],
        };
        entries.iter().map(|(key, _)| key.as_ref())
    }
}

/// Keys of a job that are counts, and their tables and names.
const COUNTS: [(&str, &str, &str); 7] = [
    ("dp", "parallelism", "dp"),
    ("pp", "parallelism", "pp"),
    ("tp", "parallelism", "tp"),
    ("cp", "parallelism", "context_parallel_size"),
    ("sequence", "tokens", "sequence_length"),
    ("micro_batch", "tokens", "micro_batch_size"),
    ("accumulation", "tokens", "batch_accumulation_per_replica"),
];

/// Reads a configuration.
///
/// # Errors
/// A text that is not YAML; a width that is too large.
pub(super) fn read(text: &str, file: &str) -> Result<Draft> {
    let whole = yaml::parse_last(text).map_err(|refused| refused.error(file))?;
    let mut draft = Draft { starts: true, ..Draft::default() };
    let whole = Keys(Some(&whole));
    for (key, table, own) in COUNTS {
        let table = whole.of(table);
        match table.count(own) {
            Some(n) => draft.put(key, n.to_string())?,
            None if table.has(own) => {
                draft.asked.push(format!("{key} ({own} {})", table.word(own).unwrap_or("")));
            }
            None => {}
        }
    }
    draft.put("chunks_per_stage", "1")?;
    layout(whole.of("parallelism"), &mut draft)?;
    model(whole, &mut draft).map_err(|error| error.at(file.to_owned()))?;
    if let Some(ep) = whole.of("parallelism").count("expert_parallel_size").filter(|ep| *ep > 1)
        && draft.model.as_ref().is_none_or(|model| model.experts.is_some())
    {
        draft.put("ep", ep.to_string())?;
        let what = "ep inside dp, with all-to-alls: nanotron's own layers of experts exchange no tokens yet";
        draft.inferred.push(what.to_owned());
    }
    states(whole.of("optimizer"), whole.of("parallelism"), &mut draft)?;
    let model = whole.of("model");
    match model.word("dtype").map(|kind| kind.trim_start_matches("torch.")) {
        None | Some("bfloat16") => draft.put("precision", "bf16")?,
        Some("float16") => draft.put("precision", "fp16")?,
        Some("float32") => draft.inferred.push("bf16: float32 trains in 32 bits".to_owned()),
        Some(kind) => draft.asked.push(format!("precision (model.dtype {kind})")),
    }
    // Sequences of a stage of the data.
    let stages = whole.0.and_then(|node| node.list("data_stages").ok()).unwrap_or_default();
    let own = stages.iter().filter_map(|stage| Keys(Some(stage)).count("sequence_length"));
    let mut own: Vec<String> = own.map(|n| n.to_string()).collect();
    own.dedup();
    if own.len() > 1 {
        draft.unread.push(format!("data_stages: lengths of {}", own.join(", ")));
    }
    Ok(draft)
}

fn layout(own: Keys<'_>, draft: &mut Draft) -> Result<()> {
    let at_least = |key: &str| own.count(key).unwrap_or(1);
    let tp = at_least("tp");
    let scatters =
        own.word("tp_mode").is_some_and(|mode| mode.eq_ignore_ascii_case("reduce_scatter"));
    if scatters && tp > 1 {
        draft.put("sequence_parallel", "true")?;
        // By default (`tp_recompute_allgather`): one more gather of each input.
        if !own.is_off("tp_recompute_allgather") {
            let what = "tp_recompute_allgather: inputs of products are counted as gathered once";
            draft.unread.push(what.to_owned());
        }
    }
    // Otherwise all forward passes come first.
    let one = own.word("pp_engine").is_some_and(|engine| engine.eq_ignore_ascii_case("1f1b"));
    draft.put("schedule", if one { "1f1b" } else { "gpipe" })?;
    if at_least("pp") > 1 {
        let what = "stages have as many layers: nanotron counts the head as layers, too";
        draft.inferred.push(what.to_owned());
    }
    let granularity = own.word("recompute_granularity").unwrap_or("").to_ascii_lowercase();
    let recompute = match granularity.as_str() {
        _ if own.is("recompute_layer") => "full",
        _ if own.is("moe_layer_recompute") => "moe",
        kind @ ("full" | "selective") => kind,
        _ => "none",
    };
    draft.put("recompute", recompute)?;
    draft.put("etp", "1")?;
    if own.has("dp_engine") && own.word("dp_engine") != Some("ddp") {
        draft.unread.push(format!("dp_engine {}", own.word("dp_engine").unwrap_or("")));
    }
    Ok(())
}

/// What replicas share, and what overlaps: sums in 32 bits are hooked into DDP's backward pass, but with ZeRO they follow
/// it, and are all-reduced (`training_step`, `FP32GradientAccumulator`).
fn states(own: Keys<'_>, parallelism: Keys<'_>, draft: &mut Draft) -> Result<()> {
    let wide = own.is("accumulate_grad_in_fp32");
    let zero = own.count("zero_stage").unwrap_or(0) > 0;
    let kind = if zero { "zero1, ddp" } else { "none, ddp" };
    let states = if wide { "gradients in fp32" } else { "states in bf16" };
    let mut overlap = if zero && wide { "none" } else { "gradients" }.to_owned();
    if parallelism.is("tp_linear_async_communication") && parallelism.count("tp").unwrap_or(1) > 1 {
        overlap = if overlap == "none" { "tp".to_owned() } else { format!("{overlap},tp") };
    }
    if own.0.is_none() {
        // Another file may have it.
        draft.usually(Whose::Program, [("sharding", kind), ("overlap", "gradients")]);
        return Ok(());
    }
    draft.put("sharding", format!("{kind}, {states}"))?;
    draft.put("overlap", overlap)?;
    if own.count("zero_stage").is_some_and(|stage| stage > 1) {
        draft.inferred.push("zero1: nanotron has no other stage".to_owned());
    }
    let replicas = ["dp", "context_parallel_size"].map(|key| parallelism.count(key).unwrap_or(1));
    if !zero && wide && replicas.iter().any(|n| *n > 1) {
        let what = "memory lacks DDP's buckets in 16 bits beside sums in 32: 2 bytes a parameter";
        draft.inferred.push(what.to_owned());
    }
    let factory = own.of("optimizer_factory").word("name");
    if let Some(kind) = factory.filter(|kind| !kind.to_ascii_lowercase().contains("adam")) {
        draft.unread.push(format!("optimizer {kind}: its states are counted as Adam's"));
    }
    Ok(())
}

/// What changes memory or time and is not priced.
fn unpriced(own: Keys<'_>, draft: &mut Draft) {
    if own.is("z_loss_enabled") {
        draft.unread.push("z_loss_enabled".to_owned());
    }
    if own.word("_attn_implementation") == Some("llama3_ring_attention") {
        draft.unread.push("llama3_ring_attention: counted as a ring of keys and values".to_owned());
    }
    if own.is("_use_doc_masking") {
        draft.inferred.push(PACKED.to_owned());
    }
    let sdpa = ["eager", "sdpa"];
    if let Some(how) = own.word("_attn_implementation").filter(|how| sdpa.contains(how)) {
        draft.inferred.push(format!("attention is fused: {how} may not be"));
    }
}

/// Puts the model into the draft, or asks for it.
fn model(whole: Keys<'_>, draft: &mut Draft) -> Result<()> {
    let own = whole.of("model").of("model_config");
    if own.0.is_none() {
        return Ok(());
    }
    // Others have layers of their own: Starcoder's, Mamba's, those of experts in examples.
    let is_read = |kind: &&str| ["is_llama_config", "is_qwen2_config"].contains(kind);
    let mut kinds =
        own.all().filter(|key| key.starts_with("is_") && key.ends_with("_config") && own.is(key));
    if let Some(kind) = kinds.find(|kind| !is_read(kind)) {
        draft.asked.push(format!("model ({kind}: its layers are not known)"));
        return Ok(());
    }
    const NEEDED: [&str; 4] =
        ["num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size"];
    let usual =
        [("intermediate_size", 11008), ("num_key_value_heads", 0), ("max_position_embeddings", 0)];
    let open = |key: &&str| own.count(key).is_none() && (own.has(key) || NEEDED.contains(key));
    let all = NEEDED.into_iter().chain(usual.map(|(key, _)| key));
    let asked: Vec<String> = all
        .filter(|key| open(key))
        .map(|key| {
            own.word(key).map_or(format!("{key} is not there"), |word| format!("{key} {word}"))
        })
        .collect();
    if !asked.is_empty() {
        draft.asked.push(format!("model ({})", asked.join(", ")));
        return Ok(());
    }
    unpriced(own, draft);
    let [layers, hidden, heads, words] = NEEDED.map(|key| own.count(key).unwrap_or(0));
    if heads == 0 || !hidden.is_multiple_of(heads) {
        let what = format!("{hidden} channels do not divide into {heads} heads");
        return Err(Error::input(what).help("write a num_attention_heads that divides hidden_size"));
    }
    let head = hidden / heads;
    let kv_heads = own.count("num_key_value_heads").filter(|n| *n > 0).unwrap_or(heads);
    let (h, kv) = (u64::from(hidden), u64::from(kv_heads) * u64::from(head));
    let tp = whole.of("parallelism").count("tp").unwrap_or(1).max(1);
    let multiple = whole.of("model").count("make_vocab_size_divisible_by").unwrap_or(1);
    let multiple = (u64::from(multiple) * u64::from(tp)).max(1);
    let vocab = u32::try_from(u64::from(words).div_ceil(multiple) * multiple).map_err(|_| {
        Error::input(format!("{words} words in multiples of {multiple} are too many"))
            .help("write a smaller make_vocab_size_divisible_by")
    })?;
    // Llama's layers have none, whatever is said (models/llama.py).
    let is_biased = own.is("attention_bias") && !own.is("is_llama_config");
    let (experts, gates) = experts(own.of("moe_config"), layers);
    draft.model = Some(Transformer {
        layers,
        hidden,
        ffn: own.count("intermediate_size").unwrap_or(11008),
        gated: true,
        dense: None,
        heads,
        attention: Attention::Grouped { kv_heads, head },
        keys_are_values: false,
        reusing: 0,
        per_layer: 0,
        attention_gate: false,
        linear: None,
        vocab,
        tied: own.is("tie_word_embeddings"),
        positions: 0,
        experts,
        window: own.count("sliding_window_size").map(|tokens| Window {
            layers,
            tokens,
            own: None,
            reusing: 0,
        }),
        indexer: None,
        small: Small {
            layer: (2 * h).saturating_add(if is_biased {
                kv.saturating_mul(2).saturating_add(h)
            } else {
                0
            }),
            outside: h + gates * h,
        },
        summed_once: false,
    });
    Ok(())
}

/// The experts of a model, and its layers with a gate of shared ones (`MoEConfig`, nn/moe.py).
fn experts(own: Keys<'_>, layers: u32) -> (Option<Experts>, u64) {
    if own.0.is_none() {
        return (None, 0);
    }
    let of = |key: &str, usual: u32| own.count(key).unwrap_or(usual);
    let shares = own.is("enable_shared_expert");
    let listed = own.0.and_then(|node| node.list("layers").ok()).unwrap_or_default();
    let is_all = |node: &Node<'_>| matches!(&node.value, Value::Text(text) if text == "-1");
    let with = match listed.is_empty() || listed.iter().any(is_all) {
        true => layers,
        false => u32::try_from(listed.len()).unwrap_or(layers).min(layers),
    };
    let experts = Experts {
        layers: with,
        experts: of("num_experts", 8),
        top_k: of("top_k", 2),
        ffn: of("moe_intermediate_size", 1408),
        shared: if shares { of("shared_expert_intermediate_size", 5632) } else { 0 },
        router_bias: false,
        bias: false,
        gated: true,
        latent: None,
    };
    (Some(experts), if shares { u64::from(with) } else { 0 })
}

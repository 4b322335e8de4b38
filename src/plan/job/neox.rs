//! GPT-NeoX's configuration: YAML that mostly looks like JSON, in files whose keys are one table, with `-` or `_`.
//!
//! DeepSpeed's keys are among them. Sources: github.com/EleutherAI/gpt-neox, `megatron/neox_arguments`: names and
//! defaults, which files are read together; `megatron/model`: widths, sums of TP; `megatron/tokenizer/tokenizer.py`:
//! padding. github.com/EleutherAI/DeeperSpeed 0.16.5, `deepspeed/runtime/engine.py`: which optimizer runs, what overlaps.

use serde_json::{Map, Value as Json};

use super::deepspeed;
use super::draft::{Draft, Whose};
use super::files::{is_yaml, of_widths};
use super::model::{Attention, Experts, Small, Transformer, Window};
use super::trainer::{FULL, rewards};
use crate::base::error::{Error, Result};
use crate::base::yaml::{self, Node, Value};

/// What a file is by its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// It has a layout, a model, or a training.
    Main,
    /// Paths and the like, which are a part beside one of those.
    Setting,
}

/// Keys of which a file that trains has one.
const TRAINING: [&str; 2] = ["zero_optimization", "train_micro_batch_size_per_gpu"];

/// The widths without which there is no model.
const NEEDED: [&str; 3] = ["num_layers", "hidden_size", "num_attention_heads"];

/// Keys of a file of settings.
const SETTINGS: [&str; 14] = [
    "data_path",
    "train_data_paths",
    "vocab_file",
    "merge_file",
    "tokenizer_type",
    "tensorboard_dir",
    "log_dir",
    "hostfile",
    "global_num_gpus",
    "num_gpus",
    "use_wandb",
    "text_gen_type",
    "attention_config",
    "profile",
];

/// The keys of a text's lines with underscores; those of lines that are indented only if it begins with a brace.
fn keys(text: &str) -> impl Iterator<Item = String> {
    let is_said = |line: &&str| !line.is_empty() && !line.starts_with(['#', '-']);
    let braced = text.lines().map(str::trim).find(is_said).is_some_and(|l| l.starts_with('{'));
    let key = move |line: &str| {
        if !braced && line.starts_with(char::is_whitespace) {
            return None;
        }
        let own = line.trim_start_matches(|c: char| c.is_whitespace() || "{\"'".contains(c));
        let (key, rest) = own.split_at(own.find(['"', '\'', ':', ' '])?);
        rest.trim_start_matches(['"', '\'', ' ']).starts_with(':').then(|| key.replace('-', "_"))
    };
    text.lines().filter_map(key)
}

fn part(text: &str, file: &str) -> Option<Part> {
    if !is_yaml(file) && !file.ends_with(".json") {
        return None;
    }
    let all: Vec<String> = keys(text).collect();
    let has = |key: &str| all.iter().any(|own| own == key);
    // Megatron-LM's own YAML has another name for TP, and DeepSpeed's JSON the keys of a training.
    let trains = is_yaml(file) && TRAINING.iter().any(|key| has(key));
    let is_model = NEEDED.iter().all(|key| has(key)) && !has("tensor_model_parallel_size");
    let in_a_line = ["\"pipe_parallel_size\":", "\"pipe-parallel-size\":"];
    let has_layout = has("pipe_parallel_size") || in_a_line.iter().any(|key| text.contains(key));
    match () {
        () if has_layout || is_model && is_yaml(file) || trains => Some(Part::Main),
        () if SETTINGS.iter().any(|key| has(key)) => Some(Part::Setting),
        () => None,
    }
}

/// Whether a text has a layout, a model or a training of GPT-NeoX.
pub(super) fn is(text: &str, file: &str) -> bool {
    part(text, file) == Some(Part::Main)
}

/// Whether a text has paths and the like alone.
pub(super) fn is_setting(text: &str, file: &str) -> bool {
    let paths = || keys(text).any(|own| SETTINGS[..5].contains(&own.as_str()));
    is_yaml(file) && part(text, file) == Some(Part::Setting) && paths()
}

/// The places of files that are one configuration, if one of them has more than settings.
pub(super) fn together(
    names: &[String],
    texts: &[String],
    others: impl Fn(usize) -> bool,
) -> Vec<usize> {
    let part = |at: &usize| part(texts.get(*at)?, names.get(*at)?).filter(|_| !others(*at));
    let parts: Vec<usize> = (0..names.len()).filter(|at| part(at).is_some()).collect();
    if parts.iter().any(|at| part(at) == Some(Part::Main)) { parts } else { Vec::new() }
}

/// The refusal of a file of settings alone.
pub(super) fn unread(file: &str) -> Error {
    Error::input("these are settings of GPT-NeoX, with neither a model nor a layout")
        .at(file.to_owned())
        .help("name the model's configuration too, such as 20B.yml")
}

/// A value of YAML as JSON, whose words and numbers have types.
fn json(node: &Node<'_>) -> Json {
    match &node.value {
        Value::Null => Json::Null,
        Value::List(items) => items.iter().map(json).collect(),
        Value::Map(entries) => Json::Object(
            entries.iter().map(|(key, value)| (key.to_string(), json(value))).collect(),
        ),
        Value::Text(text) => match text.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" => true.into(),
            "false" | "no" | "off" => false.into(),
            lower => lower
                .parse::<i64>()
                .map(Json::from)
                .ok()
                .or_else(|| Some(Json::from(lower.parse::<f64>().ok().filter(|x| x.is_finite())?)))
                .unwrap_or_else(|| text.as_ref().into()),
        },
    }
}

/// The keys of all files, with underscores.
struct Keys(Json);

impl Keys {
    /// The first file that has a key counts.
    fn read(files: &[(&str, &str)], inferred: &mut Vec<String>) -> Result<Self> {
        let mut all = Map::new();
        let mut twice: Vec<String> = Vec::new();
        for (file, text) in files {
            let whole = yaml::parse_last(text).map_err(|refused| refused.error(file))?;
            let Json::Object(own) = json(&whole) else {
                return Err(Error::input("this is not a table of keys")
                    .at((*file).to_owned())
                    .help("write one key of GPT-NeoX a line, such as num_layers: 24"));
            };
            for (key, value) in own {
                let key = key.replace('-', "_");
                match all.contains_key(&key) {
                    // Paths change nothing here.
                    true if key.ends_with("_path") || key.ends_with("_dir") => {}
                    true if ["save", "load", "merge_file"].contains(&key.as_str()) => {}
                    true => twice.push(key),
                    false => _ = all.insert(key, value),
                }
            }
        }
        if !twice.is_empty() {
            let keys = twice.join(", ");
            inferred.push(format!(
                "{keys}: in several files, which GPT-NeoX refuses: the first counts"
            ));
        }
        // Keys of DeepSpeed that GPT-NeoX does not know.
        if let Some(Json::Object(more)) = all.remove("deepspeed_extra_args") {
            for (key, value) in more {
                all.entry(key).or_insert(value);
            }
        }
        let precision = all.get("precision").and_then(Json::as_str).map(str::to_ascii_lowercase);
        for (word, key) in [("bfloat16", "bf16"), ("bf16", "bf16"), ("fp16", "fp16")] {
            if precision.as_deref() == Some(word) {
                all.insert(key.to_owned(), serde_json::json!({ "enabled": true }));
            }
        }
        Ok(Self(Json::Object(all)))
    }

    fn has(&self, key: &str) -> bool {
        !self.0[key].is_null()
    }

    fn is(&self, key: &str) -> bool {
        self.0[key].as_bool() == Some(true)
    }

    fn word(&self, key: &str) -> Option<&str> {
        self.0[key].as_str()
    }

    fn count(&self, key: &str) -> Option<u32> {
        self.0[key].as_u64().and_then(|n| n.try_into().ok())
    }

    /// A key and its value, as a question names it.
    fn said(&self, key: &str) -> String {
        match &self.0[key] {
            Json::String(text) => format!("{key} {text}"),
            Json::Null => format!("{key} is not there"),
            value => format!("{key} {value}"),
        }
    }

    /// Kinds of attention, each once; all layers have the first if there is only one.
    fn attention(&self) -> Vec<&str> {
        fn all<'j>(value: &'j Json, found: &mut Vec<&'j str>) {
            match value {
                Json::Array(items) => items.iter().for_each(|item| all(item, found)),
                // The count of repetitions may be a word.
                Json::String(kind) if kind != "all" && !found.contains(&kind.as_str()) => {
                    found.push(kind);
                }
                _ => {}
            }
        }
        let mut found = Vec::new();
        all(&self.0["attention_config"], &mut found);
        if found.is_empty() { vec!["global"] } else { found }
    }
}

/// Reads the files of a configuration, whose names come first.
///
/// # Errors
/// A text that is not YAML; what GPT-NeoX refuses, or is not priced.
pub(super) fn read(files: &[(&str, &str)]) -> Result<Draft> {
    let main = files.iter().find(|(file, text)| is(text, file)).or(files.first());
    let file = main.map_or("", |(file, _)| file);
    let at = |error: Error| error.at(file.to_owned());
    let mut draft = Draft { starts: true, name: file.to_owned(), ..Draft::default() };
    let keys = Keys::read(files, &mut draft.inferred)?;
    if let Some(kind) = keys.word("train_impl").filter(|kind| *kind != "normal") {
        return Err(at(rewards(kind)));
    }
    layout(&keys, &mut draft)?;
    deepspeed::keys(&keys.0, &mut draft)?;
    model(&keys, &mut draft).map_err(at)?;
    batch(&keys, &mut draft)?;
    sharding(&keys, &mut draft).map_err(at)?;
    activations(&keys, &mut draft)?;
    if keys.word("pack_impl").is_some_and(|how| how != "packed") {
        draft.inferred.push(FULL.to_owned());
    }
    draft.unread.extend(UNPRICED.iter().filter(|key| on(&keys, key)).map(|key| (*key).to_owned()));
    if keys.is("fp32_allreduce") {
        let what =
            "fp32_allreduce: DeepSpeed's later releases have no such key, and sum in 16 bits";
        draft.unread.push(what.to_owned());
    }
    Ok(draft)
}

/// What changes memory or time and is not priced.
const UNPRICED: &[&str] = &[
    "checkpoint_in_cpu",
    "use_bnb_optimizer",
    "curriculum_learning",
    "soft_prompt_tuning",
    "te_fp8_mha",
    "sparse_gradients",
    "amp",
];

/// Whether it is true, or a table that is on.
fn on(keys: &Keys, key: &str) -> bool {
    keys.is(key) || keys.0[key]["enabled"].as_bool() == Some(true)
}

fn layout(keys: &Keys, draft: &mut Draft) -> Result<()> {
    for (key, own) in [("tp", "model_parallel_size"), ("pp", "pipe_parallel_size")] {
        match keys.count(own) {
            // Without stages the layers are in a plain sequence.
            Some(n) => draft.put(key, n.max(1).to_string())?,
            None if keys.has(own) => draft.asked.push(format!("{key} ({})", keys.said(own))),
            None => {}
        }
    }
    draft.put("chunks_per_stage", "1")?;
    if keys.is("sequence_parallel") && tp(keys) > 1 {
        draft.put("sequence_parallel", "true")?;
    }
    if let Some(each) = keys.count("num_gpus").filter(|n| *n > 0)
        && let Some(nodes) = keys.count("num_nodes").filter(|n| *n > 0)
    {
        draft.put("gpus", (u64::from(each) * u64::from(nodes)).to_string())?;
        draft.launched = Some(each);
    } else if let Some(all) = keys.count("global_num_gpus") {
        draft.put("gpus", all.to_string())?;
    }
    match keys.count("seq_length") {
        Some(n) => draft.put("sequence", n.to_string())?,
        None if keys.has("seq_length") => {
            draft.asked.push(format!("sequence ({})", keys.said("seq_length")));
        }
        None => {}
    }
    if let Some(method) = keys.word("pipe_partition_method").filter(|how| !how.starts_with("type"))
        && stages(keys) > 1
    {
        draft.unread.push(format!("pipe_partition_method {method}: stages have as many layers"));
    }
    Ok(())
}

fn tp(keys: &Keys) -> u32 {
    keys.count("model_parallel_size").unwrap_or(1).max(1)
}

/// Stages of the pipeline; 0 without DeepSpeed's.
fn stages(keys: &Keys) -> u32 {
    keys.count("pipe_parallel_size").unwrap_or(0)
}

/// Two sizes of a batch say the third; accumulation is 1 by default (`calculate_batch_parameters`).
fn batch(keys: &Keys, draft: &mut Draft) -> Result<()> {
    if keys.has("gradient_accumulation_steps") || keys.has("train_batch_size") && keys.has(MICRO) {
        return Ok(());
    }
    if keys.has("train_batch_size") {
        return draft.put("accumulation", "1");
    }
    draft.usually(Whose::Program, [("accumulation", "1")]);
    Ok(())
}

const MICRO: &str = "train_micro_batch_size_per_gpu";

/// What DeepSpeed shards, and what overlaps, as it is under GPT-NeoX.
fn sharding(keys: &Keys, draft: &mut Draft) -> Result<()> {
    let zero = &keys.0["zero_optimization"];
    let stage = zero["stage"].as_u64().unwrap_or(0);
    if stage > 1 && stages(keys) > 0 {
        let what = format!("ZeRO {stage} in a pipeline, which DeepSpeed refuses");
        return Err(
            Error::input(what).help("write pipe_parallel_size 0, which is no pipeline, or stage 1")
        );
    }
    let accumulated = keys.0["data_types"]["grad_accum_dtype"].as_str();
    let wide = accumulated == Some("fp32") || accumulated.is_none() && stage == 0;
    let host = draft.get("sharding").is_some_and(|words| words.contains("offload"));
    let by_bf16 = draft.get("precision") == Some("bf16") && wide && stage < 2 && !host;
    if by_bf16 && (zero["stage"].is_null() || zero["stage"].is_number()) {
        // Its optimizer for bf16 has sums in 32 bits, and a part of the states on each replica without ZeRO, too
        // (`_configure_optimizer`; deepspeed/runtime/bf16_optimizer.py).
        draft.put("sharding", "zero1, deepspeed, gradients in fp32")?;
        draft.put("overlap", "none")?;
        draft.unread.retain(|one| !one.starts_with("grad_accum_dtype"));
        if keys.word("communication_data_type").is_none() {
            let what =
                "gradients are kept in 32 bits and sent in 16: half of the bytes that are priced";
            draft.inferred.push(what.to_owned());
        }
        if stage == 0 {
            draft
                .inferred
                .push("zero1: DeepSpeed's optimizer for bf16 shards without ZeRO".to_owned());
        }
    } else if !keys.has("zero_optimization") {
        // Another file may say it.
        let words = draft.keys.remove("sharding").unwrap_or_default();
        draft.usually(Whose::Program, [("sharding", words.as_str()), ("overlap", "none")]);
        draft.keys.remove("overlap");
    } else if stages(keys) > 0 {
        // Under its pipeline, of one stage too, nothing overlaps (`_configure_zero_optimizer`).
        draft.put("overlap", "none")?;
    }
    Ok(())
}

/// What is kept of activations, and how attention runs.
fn activations(keys: &Keys, draft: &mut Draft) -> Result<()> {
    draft.put("recompute", if keys.is("checkpoint_activations") { "full" } else { "none" })?;
    if keys.is("checkpoint_activations") {
        if let Some(layers) = keys.count("checkpoint_num_layers").filter(|n| *n > 1) {
            let what =
                format!("checkpoint_num_layers {layers}: the input of every layer is counted");
            draft.unread.push(what);
        }
        if keys.is("partition_activations") && tp(keys) > 1 {
            let what =
                "partition_activations: inputs of layers are counted whole on each rank of TP";
            draft.unread.push(what.to_owned());
        }
    }
    let kinds = keys.attention();
    let flash = kinds.contains(&"flash") || keys.is("te_mha") || keys.is("te_fp8_mha");
    draft.put("attention", if flash { "flash" } else { "unfused" })?;
    let others: Vec<&str> =
        kinds.iter().copied().filter(|kind| !["flash", "global"].contains(kind)).collect();
    if !others.is_empty() {
        let what = format!("attention_config {}: counted over all tokens", others.join(", "));
        draft.unread.push(what);
    } else if kinds.len() > 1 {
        draft.unread.push("attention_config: all layers are counted as flash".to_owned());
    }
    Ok(())
}

/// Kinds of layers that no widths here describe.
const APART: [&str; 4] = ["gmlp", "amlp", "rwkv", "mamba"];

/// Widths of which each must be a count if it is there.
const WIDTHS: [&str; 10] = [
    "num_layers",
    "hidden_size",
    "num_attention_heads",
    "num_kv_heads",
    "intermediate_size",
    "mlp_multiple_of",
    "max_position_embeddings",
    "make_vocab_size_divisible_by",
    "moe_num_experts",
    "moe_top_k",
];

/// Puts the model into the draft, or asks for what the files do not say.
fn model(keys: &Keys, draft: &mut Draft) -> Result<()> {
    if NEEDED.iter().all(|key| !keys.has(key)) {
        return Ok(());
    }
    let kinds = keys.attention();
    let apart = kinds.iter().find(|kind| APART.contains(kind));
    let open = |key: &&&str| keys.count(key).is_none() && (keys.has(key) || NEEDED.contains(key));
    let mut asked: Vec<String> = WIDTHS.iter().filter(open).map(|key| keys.said(key)).collect();
    asked.extend(apart.map(|kind| format!("attention_config {kind}")));
    // Layers that share their parameters, and experts of releases before May 2025.
    let others = ["num_unique_layers", "num_experts"];
    asked.extend(others.iter().filter(|key| keys.has(key)).map(|key| keys.said(key)));
    if !asked.is_empty() {
        draft.asked.push(format!("model ({})", asked.join(", ")));
        return Ok(());
    }
    let mut found = widths(keys, &mut draft.inferred)?;
    let (words, whose) = words(keys, &found);
    let multiple = u64::from(keys.count("make_vocab_size_divisible_by").unwrap_or(128));
    let multiple = (multiple * u64::from(tp(keys))).max(1);
    found.vocab =
        narrow("make_vocab_size_divisible_by", u64::from(words).div_ceil(multiple) * multiple)?;
    draft.inferred.push(whose);
    if let Some(experts) = found.experts {
        // Experts are spread over the ranks of TP, which all have all tokens (`ParallelDroplessMLP`).
        draft.put("ep", tp(keys).to_string())?;
        draft.put("etp", "1")?;
        if tp(keys) > 1 {
            let what = "experts are spread over TP: priced with all-to-alls beside TP's sums, GPT-NeoX gathers what \
                        they give instead of a sum";
            draft.inferred.push(what.to_owned());
        }
        let what =
            format!("experts {} wide with a gate, as large as GPT-NeoX's without", experts.ffn);
        draft.inferred.push(what);
    }
    draft.model = Some(found);
    Ok(())
}

/// A width that 32 bits hold.
fn narrow(key: &str, width: u64) -> Result<u32> {
    u32::try_from(width).map_err(|_| {
        Error::input(format!("{key} makes a width of {width}")).help("write a smaller one")
    })
}

/// The outputs of the first product of a feed-forward part, with those of its gate, and the inputs of the last one.
fn feed_forward(keys: &Keys, gated: bool) -> (u64, u64) {
    let hidden = u64::from(keys.count("hidden_size").unwrap_or(0));
    let factor = keys.0["expansion_factor"].as_f64();
    let stated = keys.count("intermediate_size").filter(|n| *n > 0).map(u64::from);
    let most = f64::from(u32::MAX);
    let absent = factor.map_or(4 * hidden, |factor| (factor * hidden as f64).min(most) as u64);
    let whole = stated.unwrap_or(absent);
    let multiple = u64::from(keys.count("mlp_multiple_of").unwrap_or(1).max(1));
    // With a gate as many parameters as without.
    let (first, last) = if gated { (whole * 2 / 3, whole * 2 / 3 / 2) } else { (whole, whole) };
    (first.div_ceil(2 * multiple) * 2 * multiple, last.div_ceil(multiple) * multiple)
}

/// The width of a feed-forward part (`ParallelMLP`).
fn ffn(keys: &Keys, gated: bool, inferred: &mut Vec<String>) -> Result<u32> {
    let hidden = u64::from(keys.count("hidden_size").unwrap_or(0));
    let stated = keys.count("intermediate_size").filter(|n| *n > 0);
    if keys.word("mlp_type") == Some("llama") {
        // Until 2024 (`LLaMAParallelMLP`).
        let absent = (8 * hidden / 3).div_ceil(256) * 256;
        return narrow("hidden_size", stated.map_or(absent, u64::from));
    }
    let (first, last) = feed_forward(keys, gated);
    match stated {
        Some(own) if gated && first != 2 * last => {
            inferred.push(format!(
                "intermediate_size {own} is the width itself: a third of it, as GPT-NeoX takes it with a gate, makes \
                 products that do not fit each other"
            ));
            Ok(own)
        }
        _ if gated => {
            let whose =
                "GPT-NeoX takes a third of intermediate_size, or of 4 · hidden_size, with a gate";
            inferred.push(format!("a feed-forward part {last} wide: {whose}"));
            narrow("intermediate_size", last)
        }
        _ => narrow("intermediate_size", last),
    }
}

/// The model without its words.
fn widths(keys: &Keys, inferred: &mut Vec<String>) -> Result<Transformer> {
    let of = |key: &str| keys.count(key).unwrap_or(0);
    let [layers, hidden, heads] = NEEDED.map(of);
    if heads == 0 || !hidden.is_multiple_of(heads) {
        let what = format!("{hidden} channels do not divide into {heads} heads");
        return Err(Error::input(what).help("write a num_attention_heads that divides hidden_size"));
    }
    let head = hidden / heads;
    let kv_heads = keys.count("num_kv_heads").filter(|n| *n > 0).unwrap_or(heads);
    let llama = keys.word("mlp_type") == Some("llama");
    let activation = keys.word("activation").unwrap_or("gelu").to_ascii_lowercase();
    let gates = ["geglu", "reglu", "bilinear", "swiglu", "glu"];
    let gated = llama || gates.contains(&activation.as_str());
    let ffn = ffn(keys, gated, inferred)?;
    let h = u64::from(hidden);
    let norm = match keys.word("norm").unwrap_or("layernorm") {
        "rmsnorm" | "te_rmsnorm" => h,
        "scalenorm" => 1,
        "non_parametric_layernorm" => 0,
        _ => 2 * h,
    };
    let has = |key: &str| keys.0[key].as_bool() != Some(false);
    let kv = u64::from(kv_heads) * u64::from(head);
    let both = kv.saturating_mul(2).saturating_add(2 * h);
    let attends = if has("use_bias_in_attn_linear") { both } else { 0 };
    let inner = u64::from(ffn) * if gated { 2 } else { 1 };
    let feeds = if has("use_bias_in_mlp") && !llama { inner + h } else { 0 };
    let several = keys.count("moe_num_experts").filter(|count| *count > 1);
    let interval = keys.count("moe_expert_interval").unwrap_or(1).max(1);
    let moe_layers = several.map_or(0, |_| layers.div_ceil(interval));
    let experts = match several {
        None => None,
        Some(experts) => Some(Experts {
            layers: moe_layers,
            experts,
            top_k: keys.count("moe_top_k").unwrap_or(1),
            ffn: narrow("intermediate_size", expert(keys))?,
            shared: 0,
            router_bias: false,
            bias: false,
            // (`ParallelGroupedMLP`.)
            gated: false,
            latent: None,
        }),
    };
    // A mean over all layers: those of experts have no biases there.
    let feeds = feeds.saturating_mul((layers - moe_layers).into()) / u64::from(layers.max(1));
    let scaled = if keys.is("use_qk_layernorm") { norm } else { 0 };
    let learned = keys.word("pos_emb").is_none_or(|kind| kind == "learned");
    let positions = if learned { of("max_position_embeddings") } else { 0 };
    let window = keys.count("sliding_window_width").map(|tokens| Window {
        layers,
        tokens,
        own: None,
        reusing: 0,
    });
    Ok(Transformer {
        layers,
        hidden,
        ffn,
        gated,
        dense: None,
        heads,
        attention: Attention::Grouped { kv_heads, head },
        keys_are_values: false,
        reusing: 0,
        per_layer: 0,
        attention_gate: false,
        linear: None,
        vocab: 0,
        tied: !keys.is("no_weight_tying"),
        positions,
        experts,
        window,
        indexer: None,
        small: Small { layer: 2 * norm + scaled + attends + feeds, outside: norm },
        // (`ParallelTransformerLayer`, megatron/model/transformer.py.)
        summed_once: keys.is("gpt_j_residual"),
    })
}

/// The width of an expert.
fn expert(keys: &Keys) -> u64 {
    let hidden = u64::from(keys.count("hidden_size").unwrap_or(0));
    let absent = (4 * hidden).div_ceil(256) * 256;
    keys.count("intermediate_size").map_or(absent, u64::from)
}

/// The size of the tokenizer, and where it comes from: of those that are named, of a known model with these widths, or of
/// the tokenizer that GPT-NeoX takes by default.
fn words(keys: &Keys, model: &Transformer) -> (u32, String) {
    let kind = keys.word("tokenizer_type").unwrap_or_default().to_ascii_lowercase();
    let file = keys.word("vocab_file").unwrap_or_default();
    let as_in = |words: u32, whose: &str| {
        (words, format!("{words} words, as {whose}: the tokenizer is not read"))
    };
    const GPT: u32 = 50_257;
    const NEOX: u32 = 50_277;
    match kind.as_str() {
        _ if file.contains("20B_tokenizer") => return as_in(NEOX, "GPT-NeoX-20B has"),
        "gpt2bpetokenizer" | "hfgpt2tokenizer" => return as_in(GPT, "GPT-2 has"),
        "" if file.contains("gpt2") => return as_in(GPT, "GPT-2 has"),
        "spmtokenizer" => return as_in(32_000, "Llama 2 has"),
        "charleveltokenizer" => return as_in(512, "GPT-NeoX's characters are"),
        _ => {}
    }
    match of_widths(model) {
        Some((name, words)) => as_in(words, &format!("{name} has")),
        None if kind == "hftokenizer" => as_in(NEOX, "GPT-NeoX-20B has"),
        None => as_in(GPT, "GPT-2 has"),
    }
}

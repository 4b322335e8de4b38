//! Hugging Face's `config.json`: the widths of a model under the names that its family uses.
//!
//! The number of parameters is exact; tests compare it with safetensors files. Source:
//! github.com/huggingface/transformers, `configuration_*.py` of each family.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::draft::Draft;
use super::model::{
    Attention, Experts, HEAVY, Heads, Indexer, Linear, Rule, SPARSE, Small, Transformer, Window,
};
use super::weights;
use crate::base::error::{Error, Result};

/// Families with known layers.
const FAMILIES: &[&str] = &[
    "llama",
    "mistral",
    "qwen2",
    "qwen3",
    "mixtral",
    "qwen3_moe",
    "qwen2_moe",
    "qwen3_next",
    "phi3",
    "gemma2",
    "gemma3",
    "glm4_moe",
    "glm4v_moe",
    "seed_oss",
    "olmo2",
    "olmo3",
    "minimax_m2",
    "llama4",
    "deepseek_v2",
    "deepseek_v3",
    "kimi_k2",
    "gpt_oss",
    "gpt_neox",
    "gpt2",
    "bloom",
    "nemotron_h",
    "gemma4",
    "step3p5",
    "deepseek_v4",
    "kimi_linear",
];

/// Families whose layers are those of another: only what is around them differs, or an indexer is beside attention.
const VARIANTS: &[(&str, &str)] = &[
    ("ministral3", "mistral"),
    ("qwen2_vl", "qwen2"),
    ("qwen2_5_vl", "qwen2"),
    ("qwen3_vl", "qwen3"),
    ("qwen3_vl_moe", "qwen3_moe"),
    ("qwen3_5", "qwen3_next"),
    ("qwen3_5_moe", "qwen3_next"),
    ("mistral4", "deepseek_v2"),
    ("deepseek_v32", "deepseek_v3"),
    ("glm4_moe_lite", "deepseek_v3"),
    ("step3p7", "step3p5"),
    ("glm_moe_dsa", "deepseek_v3"),
];

/// Families whose layers no widths of a job describe, and why.
const APART: [(&[&str], &str); 3] = [
    (
        &[
            "bailing_hybrid",
            "minimax",
            "olmo_hybrid",
            "falcon_h1",
            "granitemoehybrid",
            "bamba",
            "jamba",
            "zamba2",
            "mamba",
            "mamba2",
            "recurrent_gemma",
            "lfm2",
            "lfm2_moe",
        ],
        "layers with linear attention, a state space or convolutions, whose work and state have no price here",
    ),
    (
        &["gemma3n", "gemma4_unified", "mimo_v2_flash"],
        "layers that differ in the widths of keys and values or in what they share",
    ),
    (&["nemotron-nas"], "layers that each have widths of their own"),
];

/// A configuration with its missing keys.
struct Config<'a> {
    keys: &'a Map<String, Value>,
    /// Those around the language model.
    whole: &'a Map<String, Value>,
    missing: Vec<&'static str>,
}

impl Config<'_> {
    fn maybe(&self, names: &[&str]) -> Option<u32> {
        let found = names.iter().find_map(|name| self.keys.get(*name)?.as_u64());
        found.and_then(|n| u32::try_from(n).ok())
    }

    /// The value of the first name that is present; if none is, it is recorded as missing.
    fn need(&mut self, names: &[&'static str]) -> u32 {
        self.maybe(names).unwrap_or_else(|| {
            self.missing.push(names[0]);
            1
        })
    }

    fn flag(&self, name: &str, absent: bool) -> bool {
        let found = self.keys.get(name).or(self.whole.get(name));
        found.and_then(Value::as_bool).unwrap_or(absent)
    }
}

/// Whether a text is such a configuration.
pub(super) fn is(text: &str) -> bool {
    text.contains("\"model_type\"")
}

/// A text without the numbers that Python writes and JSON has not: no width is one of them.
fn finite(text: &str) -> Cow<'_, str> {
    const NUMBERS: [&str; 3] = ["-Infinity", "Infinity", "NaN"];
    if !NUMBERS.iter().any(|number| text.contains(number)) {
        return Cow::Borrowed(text);
    }
    let mut quoted = false;
    let parts = text.split_inclusive('"').map(|part| {
        let own = match quoted {
            true => part.to_owned(),
            false => {
                NUMBERS.iter().fold(part.to_owned(), |own, number| own.replace(number, "null"))
            }
        };
        quoted = !quoted || part.ends_with("\\\"");
        own
    });
    Cow::Owned(parts.collect())
}

/// Reads a configuration.
///
/// # Errors
/// Invalid JSON, an unknown family, missing widths (all by name).
pub(super) fn read(text: &str, file: &str) -> Result<Draft> {
    let value: Value = serde_json::from_str(&finite(text))
        .map_err(|e| Error::input(format!("this is not JSON: {e}")).at(file.to_owned()))?;
    let whole = value.as_object().ok_or_else(|| {
        Error::input("a config.json must be an object")
            .at(file.to_owned())
            .help("name a model's config.json")
    })?;
    // Multimodal models keep their language model in a subtable.
    let keys = whole.get("text_config").and_then(Value::as_object).unwrap_or(whole);
    let family = keys.get("model_type").or(whole.get("model_type")).and_then(Value::as_str);
    let family = family.unwrap_or("").trim_end_matches("_text");
    let layers = layers_of(family).map_err(|error| error.at(format!("{file}: model_type")))?;
    let mut config = Config { keys, whole, missing: Vec::new() };
    let model = match layers {
        "nemotron_h" => nemotron(&mut config, file)?,
        _ => transformer(&mut config, layers),
    };
    if !config.missing.is_empty() {
        let missing = config.missing.join(", ");
        return Err(Error::input(format!("the configuration lacks {missing}"))
            .at(file.to_owned())
            .help("name the unchanged config.json of the model's repository"));
    }
    let mut draft = Draft {
        model: Some(model),
        family: Some(family.to_owned()),
        described: Some(file.to_owned()),
        ..Draft::default()
    };
    let ahead = config.maybe(&["num_nextn_predict_layers", "mtp_num_hidden_layers"]);
    if ahead.unwrap_or(0) > 0 {
        draft.inferred.push("the module for predicting a second token is left out".to_owned());
    }
    if whole.get("vision_config").is_some_and(Value::is_object) {
        draft.inferred.push(IMAGES.to_owned());
    }
    if config.maybe(&["attn_res_block_size"]).is_some() {
        draft.inferred.push("attention to earlier residuals is not in the time".to_owned());
    }
    let chunked = config.maybe(&["attention_chunk_size"]).is_some();
    draft.inferred.extend(draft.model.as_ref().and_then(single));
    draft.inferred.extend(unpriced(draft.model.as_ref(), chunked));
    // What vLLM takes without the key (`NemotronHForCausalLMConfig`, vllm/model_executor/models/config.py;
    // `kda_state_dtype`, vllm/model_executor/layers/mamba/mamba_utils.py).
    let usual = matches!(family, "nemotron_h" | "kimi_linear").then_some("float32");
    let kind = keys.get("mamba_ssm_dtype").or(keys.get("mamba_ssm_cache_dtype"));
    if let Some(kind) = kind.and_then(Value::as_str).or(usual) {
        draft.put("state_type", kind)?;
    }
    let quantized = keys.get("quantization_config").or(whole.get("quantization_config"));
    if let Some(quantized) = quantized.filter(|config| config.is_object()) {
        let short = keys.get("expert_dtype").and_then(Value::as_str) == Some("fp4");
        let blocks = weights::checkpoint(quantized);
        let mixed = short && blocks == weights::BLOCKS;
        draft.stored = Some(if mixed { weights::MIXED.to_owned() } else { blocks });
    }
    // What a server lets a sequence have unless it is told otherwise.
    draft.longest = config.maybe(&["max_position_embeddings"]);
    Ok(draft)
}

/// Of models that read images.
pub(super) const IMAGES: &str = "the part that reads images is left out";

/// The family with the layers of a `model_type`.
fn layers_of(family: &str) -> Result<&str> {
    if FAMILIES.contains(&family) {
        return Ok(family);
    }
    if let Some((_, same)) = VARIANTS.iter().find(|(variant, _)| *variant == family) {
        return Ok(same);
    }
    let known: Vec<&str> =
        FAMILIES.iter().chain(VARIANTS.iter().map(|(variant, _)| variant)).copied().collect();
    Err(match APART.iter().find(|(families, _)| families.contains(&family)) {
        Some((_, why)) => Error::unsupported(format!("`{family}` has {why}"))
            .help("a model of about the same size whose layers are alike has as large weights: name that one"),
        None => Error::input(format!("`{family}` is not a known family of models"))
            .help(format!("known: {}; or write the widths as [model] of a job", known.join(", "))),
    })
}

/// What is said of a model whose own layers are parts of those that are counted.
pub(super) fn single(model: &Transformer) -> Option<String> {
    let fed = model.feeding_layers();
    let parts = f64::from(model.layers) + fed;
    (fed < f64::from(model.layers)).then(|| {
        format!(
            "{} layers are counted: its own {parts} are attention, a state space or a feed-forward part each",
            model.layers
        )
    })
}

/// What attention of a model does that is not priced.
pub(super) fn unpriced(model: Option<&Transformer>, chunked: bool) -> Vec<String> {
    let chunked =
        chunked.then(|| "attention inside chunks is counted over the whole sequence".to_owned());
    let indexer = model.and_then(|model| model.indexer).map(|one| {
        format!(
            "attention is counted over all tokens, not over the {} that its indexer chooses, and without the indexer's scores",
            one.tokens
        )
    });
    let streams = model.filter(|model| matches!(model.attention, Attention::Compressed { .. }));
    let streams = streams.map(|_| {
        "hyper-connections are counted as one residual stream: what mixes and keeps several is left out"
            .to_owned()
    });
    chunked.into_iter().chain(indexer).chain(streams).collect()
}

/// Layers of DeepSeek-V4 that keep a key for each so many tokens, by either of its two lists.
fn compressing(config: &Config<'_>, layers: u32, tokens: u32, word: &str) -> u32 {
    let list = |key: &str| config.keys.get(key).and_then(Value::as_array);
    let found = list("compress_ratios").or(list("layer_types")).into_iter().flatten();
    let own = |one: &&Value| one.as_u64() == Some(tokens.into()) || one.as_str() == Some(word);
    found.take(layers as usize).filter(own).count() as u32
}

/// Layers with a window: those of `layer_types`, otherwise those of the family's class.
fn window(config: &Config<'_>, family: &str, layers: u32) -> Option<Window> {
    let tokens = config.maybe(&["sliding_window"])?;
    if !config.flag("use_sliding_window", true) {
        return None;
    }
    let types = config.keys.get("layer_types").and_then(Value::as_array);
    let slides = |kind: &&Value| kind.as_str() == Some("sliding_attention");
    let found = match (types.filter(|types| !types.is_empty()), family) {
        // Beside the keys of several tokens all have those of the latest.
        (_, "deepseek_v4") => layers,
        (Some(types), _) => {
            // A shorter list is repeated.
            let all = types.iter().cycle().take(layers as usize);
            all.filter(slides).count() as u32
        }
        (None, "gpt_oss" | "gemma2") => layers.div_ceil(2),
        (None, "olmo3") => layers - layers / 4,
        // The last of each so many sees everything.
        (None, "gemma3" | "gemma4") => {
            layers - layers / config.maybe(&["sliding_window_pattern"]).unwrap_or(6).max(1)
        }
        (None, "qwen2" | "qwen2_moe" | "qwen3" | "qwen3_moe") => {
            layers.saturating_sub(config.maybe(&["max_window_layers"]).unwrap_or(28))
        }
        (None, _) => layers,
    };
    let none = Window { layers: found, tokens, own: None, reusing: 0 };
    Some(none).filter(|window| window.layers > 0)
}

/// Of the last layers of Gemma 4 that take keys and values of an earlier one those with a window, and those without
/// (`num_kv_shared_layers` of `Gemma4TextConfig`).
fn reusing(config: &Config<'_>, layers: u32) -> (u32, u32) {
    let shared = config.maybe(&["num_kv_shared_layers"]).unwrap_or(0).min(layers);
    let types = config.keys.get("layer_types").and_then(Value::as_array);
    let slides = |at: u32| match types.filter(|types| !types.is_empty()) {
        Some(types) => types[at as usize % types.len()] == "sliding_attention",
        None => !(at + 1).is_multiple_of(6),
    };
    let near = (layers - shared..layers).filter(|at| slides(*at)).count() as u32;
    (near, shared - near)
}

/// The heads of layers with a window, where others have other heads: Gemma 4's own keys are theirs, and Step's are in a
/// table of their own.
fn near(config: &mut Config<'_>, family: &str, usual: Heads) -> Option<Heads> {
    let table = match family {
        "gemma4" => return Some(usual),
        "step3p5" => config.keys.get("attention_other_setting").and_then(Value::as_object),
        _ => return None,
    };
    let none = Map::new();
    let mut own = Config { keys: table.unwrap_or(&none), whole: config.whole, missing: Vec::new() };
    let heads = Heads {
        heads: own.need(&["num_attention_heads"]),
        kv_heads: own.need(&["num_attention_groups", "num_key_value_heads"]),
        head: own.maybe(&["head_dim"]).unwrap_or(usual.head),
    };
    if !own.missing.is_empty() {
        config.missing.push("attention_other_setting");
    }
    Some(heads)
}

fn transformer(config: &mut Config<'_>, family: &str) -> Transformer {
    let layers = config.need(&["num_hidden_layers", "n_layer"]);
    let hidden = config.need(&["hidden_size", "n_embd", "n_embed"]);
    // Gemma's files leave out values that equal the defaults of its class.
    let gemma = matches!(family, "gemma2" | "gemma3" | "gemma4");
    let usual = |config: &mut Config<'_>, names: &[&'static str], usual: u32| match gemma {
        true => config.maybe(names).unwrap_or(usual),
        false => config.need(names),
    };
    let heads = usual(config, &["num_attention_heads", "n_head"], 8);
    let words = match family {
        "gemma2" => 256_000,
        "gemma4" => 262_144,
        _ => 262_208,
    };
    let vocab = usual(config, &["vocab_size"], words);
    let gpt = matches!(family, "gpt2" | "gpt_neox" | "bloom");
    let ffn = match family {
        "qwen3_next" if config.keys.contains_key("num_experts") => {
            config.maybe(&["intermediate_size"]).unwrap_or(0)
        }
        "gpt2" | "bloom" => config.maybe(&["n_inner"]).unwrap_or(4 * hidden),
        "llama4" => config.need(&["intermediate_size_mlp"]),
        // All of its layers have experts.
        "deepseek_v4" => 0,
        _ => config.need(&["intermediate_size"]),
    };
    let kv_heads = config.maybe(&["num_key_value_heads", "num_attention_groups"]);
    let kv_heads = kv_heads.unwrap_or(if gemma { 4 } else { heads });
    let head =
        config.maybe(&["head_dim"]).unwrap_or(if gemma { 256 } else { hidden / heads.max(1) });
    let near = near(config, family, Heads { heads, kv_heads, head });
    let keys_are_values = family == "gemma4" && config.flag("attention_k_eq_v", false);
    let (kv_heads, head) = match family {
        "gemma4" => {
            let own = config.maybe(&["num_global_key_value_heads"]).filter(|_| keys_are_values);
            (own.unwrap_or(kv_heads), config.maybe(&["global_head_dim"]).unwrap_or(512))
        }
        _ => (kv_heads, head),
    };
    let latent = matches!(family, "deepseek_v2" | "deepseek_v3" | "kimi_k2" | "kimi_linear");
    let attention = if latent {
        Attention::Latent {
            query: config.maybe(&["q_lora_rank"]).unwrap_or(0),
            latent: config.need(&["kv_lora_rank"]),
            rope: config.need(&["qk_rope_head_dim"]),
            nope: config.need(&["qk_nope_head_dim"]),
            value: config.need(&["v_head_dim"]),
        }
    } else if family == "deepseek_v4" {
        Attention::Compressed {
            query: config.need(&["q_lora_rank"]),
            head: config.need(&["head_dim"]),
            rope: config.need(&["qk_rope_head_dim"]),
            groups: config.need(&["o_groups"]),
            rank: config.need(&["o_lora_rank"]),
            sparse: compressing(config, layers, SPARSE, "compressed_sparse_attention"),
            heavy: compressing(config, layers, HEAVY, "heavily_compressed_attention"),
        }
    } else {
        Attention::Grouped { kv_heads, head }
    };
    let experts = experts(config, family, layers);
    let tied = match family {
        "gpt2" | "bloom" | "gemma2" | "gemma3" | "gemma4" => {
            config.flag("tie_word_embeddings", true)
        }
        _ => config.flag("tie_word_embeddings", false),
    };
    let positions = if family == "gpt2" { config.need(&["n_positions"]) } else { 0 };
    let (reusing, whole_reusing) = match family {
        "gemma4" => reusing(config, layers),
        _ => (0, 0),
    };
    // The feed-forward parts of layers that take keys and values of others may be twice as wide.
    let wide = family == "gemma4" && config.flag("use_double_wide_mlp", false);
    let per_layer = match family {
        "gemma4" => config.maybe(&["hidden_size_per_layer_input"]).unwrap_or(256),
        _ => 0,
    };
    let window = window(config, family, layers);
    let mut model = Transformer {
        layers,
        hidden,
        // A model whose layers all have experts has no dense width.
        ffn: if matches!(family, "mixtral" | "gpt_oss" | "minimax_m2") { 0 } else { ffn },
        gated: !gpt,
        dense: wide.then(|| layers.saturating_add(reusing).saturating_add(whole_reusing)),
        heads,
        attention,
        keys_are_values,
        reusing: whole_reusing,
        per_layer,
        attention_gate: match family {
            "kimi_linear" => config.flag("mla_use_output_gate", false),
            _ => family == "qwen3_next",
        },
        linear: match family {
            "qwen3_next" => Some(linear(config, layers)),
            "kimi_linear" => kimi_delta(config, layers),
            _ => None,
        },
        vocab,
        tied,
        positions,
        experts,
        window: window.map(|window| Window { own: near, reusing, ..window }),
        indexer: indexer(config, layers),
        small: Small::default(),
        summed_once: false,
    };
    model.small = small(config, family, &model, (kv_heads, head));
    if let Attention::Compressed { sparse, .. } = model.attention {
        model.indexer = model.indexer.map(|one| Indexer { layers: sparse, ..one });
    } else if let Some(one) = model.indexer {
        // The norm of its keys, with a bias.
        model.small.outside += u64::from(one.layers) * 2 * u64::from(one.width);
    }
    model
}

/// The parts of which a list of layers with one part each has so many (`layers_block_type`, once
/// `hybrid_override_pattern`, of `NemotronHConfig`).
#[derive(Default)]
struct Parts {
    /// Attention, and state spaces.
    attends: u32,
    states: u32,
    /// Feed-forward parts, and those of experts.
    dense: u32,
    experts: u32,
}

impl Parts {
    /// None if two feed-forward parts follow each other, or one is the first: no layer has those.
    fn read(config: &Config<'_>) -> Option<Self> {
        let listed = config.keys.get("layers_block_type").or(config.keys.get("layer_types"));
        let listed = listed.and_then(Value::as_array).filter(|list| !list.is_empty());
        let pattern = config.keys.get("hybrid_override_pattern").and_then(Value::as_str);
        let words: Vec<&str> = match listed {
            Some(list) => list.iter().filter_map(Value::as_str).collect(),
            None => pattern?.split("").filter(|one| !one.is_empty()).collect(),
        };
        let mut found = Self::default();
        let mut fed = true;
        for word in words {
            let count = match word {
                "*" | "attention" | "full_attention" => &mut found.attends,
                "M" | "mamba" | "linear_attention" => &mut found.states,
                "-" | "mlp" => &mut found.dense,
                "E" | "moe" => &mut found.experts,
                _ => return None,
            };
            *count += 1;
            let feeds = matches!(word, "-" | "mlp" | "E" | "moe");
            if feeds && fed {
                return None;
            }
            fed = feeds;
        }
        Some(found)
    }
}

/// NVIDIA's models of Mamba-2, attention and experts. Each of their layers is one part of another model's, so what is a
/// layer here is attention or a state space with the feed-forward part that follows, if one does.
fn nemotron(config: &mut Config<'_>, file: &str) -> Result<Transformer> {
    let biased =
        ["attention_bias", "mlp_bias", "use_bias"].iter().find(|key| config.flag(key, false));
    if let Some(key) = biased {
        return Err(Error::unsupported(format!("`{key}` adds biases that are not counted"))
            .at(file.to_owned())
            .help("name a release without them: all of NVIDIA's have none"));
    }
    let parts = Parts::read(config).ok_or_else(|| {
        Error::input("nothing says which layers are attention, state spaces and feed-forward parts")
            .at(format!("{file}: layers_block_type"))
            .help("name the unchanged config.json of the model's repository")
    })?;
    let layers = parts.attends + parts.states;
    let hidden = config.need(&["hidden_size"]);
    let experts = (parts.experts > 0).then(|| Experts {
        layers: parts.experts,
        experts: config.need(&["n_routed_experts"]),
        top_k: config.need(&["num_experts_per_tok"]),
        ffn: config.need(&["moe_intermediate_size"]),
        shared: config.need(&["moe_shared_expert_intermediate_size"]),
        router_bias: true,
        bias: false,
        gated: false,
        latent: config.maybe(&["moe_latent_size"]),
    });
    let linear = (parts.states > 0).then(|| Linear {
        rule: Rule::StateSpace,
        layers: parts.states,
        key_heads: config.need(&["n_groups"]),
        key: config.need(&["ssm_state_size"]),
        value_heads: config.need(&["mamba_num_heads"]),
        value: config.need(&["mamba_head_dim"]),
        kernel: config.need(&["conv_kernel"]),
    });
    let states = linear.map_or(0, |one| u64::from(one.layers) * one.small());
    let h = u64::from(hidden);
    // A norm before each part, and one at the end.
    let norms = u64::from(parts.dense + parts.experts) * h + h;
    Ok(Transformer {
        layers,
        hidden,
        ffn: if parts.dense > 0 { config.need(&["intermediate_size"]) } else { 0 },
        gated: false,
        dense: Some(parts.dense),
        heads: config.need(&["num_attention_heads"]),
        attention: Attention::Grouped {
            kv_heads: config.need(&["num_key_value_heads"]),
            head: config.need(&["head_dim", "attention_head_dim"]),
        },
        keys_are_values: false,
        reusing: 0,
        per_layer: 0,
        attention_gate: false,
        linear,
        vocab: config.need(&["vocab_size"]),
        tied: config.flag("tie_word_embeddings", false),
        positions: 0,
        experts,
        window: None,
        indexer: None,
        small: Small { layer: h, outside: norms + states },
        summed_once: false,
    })
}

/// Layers with linear attention: those of `layer_types`, otherwise all but the last of each so many (`Qwen3NextConfig`).
fn linear(config: &mut Config<'_>, layers: u32) -> Linear {
    let types = config.keys.get("layer_types").and_then(Value::as_array);
    let types = types.map(|all| all.iter().filter(|kind| *kind == "linear_attention").count());
    let every = config.maybe(&["full_attention_interval"]).unwrap_or(4).max(1);
    Linear {
        rule: Rule::Delta,
        layers: types.map_or(layers - layers / every, |count| (count as u32).min(layers)),
        key_heads: config.need(&["linear_num_key_heads"]),
        key: config.need(&["linear_key_head_dim"]),
        value_heads: config.need(&["linear_num_value_heads"]),
        value: config.need(&["linear_value_head_dim"]),
        kernel: config.need(&["linear_conv_kernel_dim"]),
    }
}

/// Layers with Kimi Delta Attention: those of a table of their own, which has their heads too.
fn kimi_delta(config: &mut Config<'_>, layers: u32) -> Option<Linear> {
    let none = Map::new();
    let table = config.keys.get("linear_attn_config").and_then(Value::as_object);
    let table = table.unwrap_or(&none);
    let mut own = Config { keys: table, whole: config.whole, missing: Vec::new() };
    let listed = table.get("kda_layers").and_then(Value::as_array).map_or(0, Vec::len) as u32;
    let (heads, width) = (own.need(&["num_heads"]), own.need(&["head_dim"]));
    let kernel = own.need(&["short_conv_kernel_size"]);
    if !own.missing.is_empty() {
        config.missing.push("linear_attn_config");
    }
    let gate = table.get("use_full_rank_gate").and_then(Value::as_bool).unwrap_or(false);
    Some(Linear {
        rule: Rule::Channels { gate },
        layers: listed.min(layers),
        key_heads: heads,
        key: width,
        value_heads: heads,
        value: width,
        kernel,
    })
}

/// What chooses tokens for attention: in every layer, or in those that `indexer_types` calls full.
fn indexer(config: &Config<'_>, layers: u32) -> Option<Indexer> {
    let types = config.keys.get("indexer_types").and_then(Value::as_array);
    let full = types.map(|types| types.iter().filter(|kind| *kind == "full").count() as u32);
    // `GlmMoeDsaConfig`: those before an offset, and then one of so many.
    let every = config.maybe(&["index_topk_freq"]).unwrap_or(1).max(1);
    let offset = config.maybe(&["index_skip_topk_offset"]).unwrap_or(2);
    let by_step = || (0..layers).filter(|at| (at + 1).saturating_sub(offset).is_multiple_of(every));
    Some(Indexer {
        layers: full.unwrap_or_else(|| by_step().count() as u32),
        heads: config.maybe(&["index_n_heads"])?,
        width: config.maybe(&["index_head_dim"])?,
        tokens: config.maybe(&["index_topk"])?,
    })
}

fn experts(config: &mut Config<'_>, family: &str, layers: u32) -> Option<Experts> {
    let none = Experts {
        layers,
        experts: 1,
        top_k: 1,
        ffn: 1,
        shared: 0,
        router_bias: false,
        bias: false,
        gated: true,
        latent: None,
    };
    // Qwen3.5's dense models are of the same family.
    let has_experts = match config.maybe(&["num_experts"]) {
        Some(count) => count > 0,
        None => family != "qwen3_next",
    };
    match family {
        "mixtral" | "gpt_oss" | "minimax_m2" => Some(Experts {
            experts: config.need(&["num_local_experts"]),
            top_k: config.need(&["num_experts_per_tok", "experts_per_token"]),
            ffn: config.need(&["intermediate_size"]),
            router_bias: family != "mixtral",
            bias: family == "gpt_oss",
            ..none
        }),
        "llama4" => {
            let every = config.maybe(&["interleave_moe_layer_step"]).unwrap_or(1).max(1);
            let ffn = config.need(&["intermediate_size"]);
            Some(Experts {
                layers: layers / every,
                experts: config.need(&["num_local_experts"]),
                top_k: config.need(&["num_experts_per_tok"]),
                ffn,
                shared: ffn,
                ..none
            })
        }
        "qwen2_moe" | "qwen3_moe" | "qwen3_next" if has_experts => {
            let every = config.maybe(&["decoder_sparse_step"]).unwrap_or(1).max(1);
            let dense = config.keys.get("mlp_only_layers").and_then(Value::as_array);
            let dense = dense.map_or(0, Vec::len) as u32;
            Some(Experts {
                layers: (layers / every).saturating_sub(dense),
                experts: config.need(&["num_experts"]),
                top_k: config.need(&["num_experts_per_tok"]),
                ffn: config.need(&["moe_intermediate_size"]),
                shared: config.maybe(&["shared_expert_intermediate_size"]).unwrap_or(0),
                ..none
            })
        }
        "gemma4" if config.flag("enable_moe_block", false) => Some(Experts {
            experts: config.need(&["num_experts"]),
            top_k: config.need(&["top_k_experts"]),
            ffn: config.need(&["moe_intermediate_size", "expert_intermediate_size"]),
            // Beside its experts each layer has a dense part.
            shared: config.need(&["intermediate_size"]),
            ..none
        }),
        "kimi_linear" => {
            let ffn = config.need(&["moe_intermediate_size"]);
            Some(Experts {
                layers: layers
                    .saturating_sub(config.maybe(&["first_k_dense_replace"]).unwrap_or(0)),
                experts: config.need(&["num_experts"]),
                top_k: config.need(&["num_experts_per_token"]),
                ffn,
                shared: config.maybe(&["num_shared_experts"]).unwrap_or(0).saturating_mul(ffn),
                router_bias: true,
                latent: config.maybe(&["routed_expert_hidden_size"]),
                ..none
            })
        }
        "step3p5" => Some(Experts {
            layers: listed(config.keys.get("moe_layers_enum"), layers),
            experts: config.need(&["moe_num_experts", "num_experts"]),
            top_k: config.need(&["moe_top_k", "num_experts_per_tok"]),
            ffn: config.need(&["moe_intermediate_size"]),
            shared: config.need(&["share_expert_dim", "share_expert_dims"]),
            router_bias: true,
            ..none
        }),
        "deepseek_v2" | "deepseek_v3" | "deepseek_v4" | "kimi_k2" | "glm4_moe" | "glm4v_moe" => {
            let dense = config.maybe(&["first_k_dense_replace"]).unwrap_or(0);
            let every = config.maybe(&["moe_layer_freq"]).unwrap_or(1).max(1);
            let ffn = config.need(&["moe_intermediate_size"]);
            Some(Experts {
                layers: layers.saturating_sub(dense).div_ceil(every),
                experts: config.need(&["n_routed_experts"]),
                top_k: config.need(&["num_experts_per_tok"]),
                ffn,
                shared: config.maybe(&["n_shared_experts"]).unwrap_or(0) * ffn,
                router_bias: family != "deepseek_v2",
                ..none
            })
        }
        _ => None,
    }
}

/// How many of so many layers a list has, which may be text; without one, all but the first three, as in Step's class.
fn listed(list: Option<&Value>, layers: u32) -> u32 {
    let is_there = |at: u64| at < u64::from(layers);
    match list {
        Some(Value::Array(list)) => {
            list.iter().filter_map(Value::as_u64).filter(|at| is_there(*at)).count() as u32
        }
        Some(Value::String(text)) => {
            let numbers = text.split(',').filter_map(|word| word.trim().parse().ok());
            numbers.filter(|at| is_there(*at)).count() as u32
        }
        _ => layers.saturating_sub(3),
    }
}

/// Norms and biases of a layer, and of the parts outside layers.
fn small(config: &Config<'_>, family: &str, model: &Transformer, kv: (u32, u32)) -> Small {
    let (h, a) = (u64::from(model.hidden), u64::from(model.heads));
    let (k, d) = (u64::from(kv.0), u64::from(kv.1));
    let (norms, end) = (2 * h, h);
    match family {
        // Biases of four products, and two norms with biases.
        "gpt2" | "gpt_neox" => Small { layer: 13 * h, outside: 2 * h },
        // A norm after the embedding.
        "bloom" => Small { layer: 13 * h, outside: 4 * h },
        // Also a gate of the shared expert.
        "qwen2_moe" => Small { layer: norms + a * d + 2 * k * d + h, outside: end },
        // Norms before and after both parts.
        "gemma2" => Small { layer: 2 * norms, outside: end },
        // Also of queries and keys.
        "gemma3" => Small { layer: 2 * norms + 2 * d, outside: end },
        "gemma4" => gemma4(model, norms),
        "deepseek_v4" => deepseek_v4(config, model),
        "kimi_linear" => kimi(config, model),
        // Norms of queries and keys, and a gate for each head.
        "step3p5" => {
            let gated = config.flag("use_head_wise_attn_gate", true);
            let gates = if gated { (model.all_heads() * h as f64) as u64 } else { 0 };
            Small { layer: norms + 2 * d, outside: end + gates }
        }
        "glm4_moe" | "glm4v_moe" => {
            let usual = family == "glm4v_moe";
            let bias = if config.flag("attention_bias", usual) { a * d + 2 * k * d } else { 0 };
            let norm = if config.flag("use_qk_norm", false) { 2 * d } else { 0 };
            Small { layer: norms + bias + norm, outside: end }
        }
        // Norms of all heads of queries and of keys at once.
        "olmo2" | "olmo3" | "minimax_m2" => Small { layer: norms + a * d + k * d, outside: end },
        "seed_oss" => {
            let bias = if config.flag("attention_bias", true) { a * d + 2 * k * d } else { 0 };
            let out = if config.flag("attention_out_bias", false) { h } else { 0 };
            Small { layer: norms + bias + out, outside: end }
        }
        "qwen2" => Small { layer: norms + a * d + 2 * k * d, outside: end },
        "qwen3" | "qwen3_moe" => Small { layer: norms + 2 * d, outside: end },
        // Norms of queries and keys, or what linear attention has, and a gate of the shared expert.
        "qwen3_next" => {
            let linear = model.linear.map_or(0, |one| u64::from(one.layers) * one.small());
            let kept = (f64::from(model.layers) * model.keeping()).round() as u64;
            let gates = model.experts.map_or(0, |e| u64::from(e.layers) * h);
            Small { layer: norms, outside: end + kept * 2 * d + linear + gates }
        }
        // Sinks per head, and biases.
        "gpt_oss" => Small { layer: norms + a + a * d + 2 * k * d + h, outside: end },
        "deepseek_v2" | "deepseek_v3" | "kimi_k2" => {
            let of = |key: &str| u64::from(config.maybe(&[key]).unwrap_or(0));
            Small { layer: norms + of("q_lora_rank") + of("kv_lora_rank"), outside: end }
        }
        _ => {
            let bias = if config.flag("attention_bias", false) { a * d + 2 * k * d + h } else { 0 };
            Small { layer: norms + bias, outside: end }
        }
    }
}

/// The same of Gemma 4: norms before and after both parts, of queries and of keys, and a factor of each layer; where
/// experts are, three more norms, the router's factors and one of each expert (`Gemma4TextDecoderLayer`, huggingface/transformers).
fn gemma4(model: &Transformer, norms: u64) -> Small {
    let h = u64::from(model.hidden);
    let experts = model.experts.map_or(0, |e| 4 * h + u64::from(e.experts));
    let further = if model.per_layer > 0 { h } else { 0 };
    let width = |attention: Attention| match attention {
        Attention::Grouped { head, .. } => u64::from(head),
        Attention::Latent { .. } | Attention::Compressed { .. } => 0,
    };
    let near = model.window.map_or((0, 0), |window| {
        (u64::from(window.layers), window.own.map_or(0, |own| u64::from(own.head)))
    });
    let whole = u64::from(model.layers).saturating_sub(near.0);
    let of_heads = 2 * (near.0 * near.1 + whole * width(model.attention));
    Small {
        layer: 2 * norms + 1 + experts + further,
        outside: h + u64::from(model.per_layer) + of_heads,
    }
}

/// The most streams of hyper-connections that are counted; DeepSeek-V4 has four.
const STREAMS: u64 = 64;

/// The same of DeepSeek-V4: norms, sinks of heads, what makes keys of several tokens, and hyper-connections, whose small
/// products mix the residual streams of each part and at the end (`DeepseekV4HyperConnection`, huggingface/transformers).
fn deepseek_v4(config: &Config<'_>, model: &Transformer) -> Small {
    let of = |key: &str, usual: u32| u64::from(config.maybe(&[key]).unwrap_or(usual));
    let Attention::Compressed { query, head, sparse, heavy, .. } = model.attention else {
        return Small::default();
    };
    let [h, a, q, d] = [model.hidden, model.heads, query, head].map(u64::from);
    let streams = of("hc_mult", 4).min(STREAMS);
    let mixes = (2 + streams) * streams;
    let connections = 2 * (mixes * streams * h + mixes + 3);
    let end = streams * streams * h + streams + 1;
    // Positions of a key's tokens, twice as wide where they overlap, and a norm.
    let key = |tokens: u32, width: u64, parts: u64| u64::from(tokens) * parts * width + width;
    let indexer = key(SPARSE, of("index_head_dim", 128), 2);
    let keys =
        u64::from(sparse) * (key(SPARSE, d, 2) + indexer) + u64::from(heavy) * key(HEAVY, d, 1);
    // The first layers route words by a table, and have no bias for their experts.
    let hashed = of("num_hash_layers", 3).min(u64::from(model.layers));
    let without = hashed * model.experts.map_or(0, |e| u64::from(e.experts));
    Small {
        layer: 2 * h + q + d + a + connections,
        outside: (h + end + keys).saturating_sub(without),
    }
}

/// The same of Kimi Linear and K3: norms, those of latents where attention has them and experts are behind one, and what
/// attends to earlier residuals: a norm and a product to one number before each part and at the end (`KimiK3TransformerLayer`,
/// NVIDIA-NeMo/Megatron-Bridge).
fn kimi(config: &Config<'_>, model: &Transformer) -> Small {
    let h = u64::from(model.hidden);
    let of = |key: &str| u64::from(config.maybe(&[key]).unwrap_or(0));
    let linear = model.linear.map_or(0, |one| u64::from(one.layers) * one.small());
    let whole = u64::from(model.layers - model.linear.map_or(0, |one| one.layers));
    let normed = model.experts.filter(|_| config.flag("latent_moe_use_norm", false));
    let latents = normed.map_or(0, |e| u64::from(e.layers) * u64::from(e.latent.unwrap_or(0)));
    let residuals = if of("attn_res_block_size") > 0 { 2 * h } else { 0 };
    Small {
        layer: 2 * h + 2 * residuals,
        outside: h
            + residuals
            + linear
            + whole * (of("q_lora_rank") + of("kv_lora_rank"))
            + latents,
    }
}

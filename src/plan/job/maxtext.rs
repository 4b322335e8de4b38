//! MaxText's arguments: `key=value` behind its `train` in a script or a manifest of Kubernetes, a YAML of these keys, or
//! the table of a recipe's page.
//!
//! Sources: github.com/AI-Hypercomputer/maxtext, `src/maxtext/configs/base.yml`: names and defaults,
//! `src/maxtext/layers/decoders.py`, `get_remat_policy`: what is kept; github.com/AI-Hypercomputer/tpu-recipes and
//! gpu-recipes: how it is started.

use std::collections::BTreeMap;

use super::arguments::{Arguments, is_off};
use super::container::ran;
use super::draft::{Draft, Whose};
use super::files::is_yaml;
use super::shell::{Statement, statements};
use super::started::{Started, distinct, started};
use crate::base::error::{Error, Result};
use crate::base::yaml;
use crate::machine::profile::{Profile, Slice, slice};

/// How its training is started.
const STARTS: [(&str, &str); 5] = [
    ("MaxText.train", "MaxText"),
    ("MaxText/train.py", "MaxText"),
    ("maxtext.train", "MaxText"),
    ("maxtext.trainers.pre_train.train", "MaxText"),
    ("maxtext/trainers/pre_train/train.py", "MaxText"),
];

/// The table of a recipe's page, in Python: a set of keys and values.
const TABLE: &str = "tuning_params";

/// The batch of a device, which every configuration has.
const BATCH: &str = "per_device_batch_size";

/// Whether a text is such a training.
pub(super) fn is(text: &str, file: &str) -> bool {
    if file.ends_with(".toml") {
        return false;
    }
    let is_key = |line: &str| {
        let axis = (line.starts_with("ici_") || line.starts_with("dcn_"))
            && line.contains("_parallelism:");
        axis || line.strip_prefix(BATCH).is_some_and(|rest| rest.starts_with(':'))
    };
    is_yaml(file) && text.lines().any(is_key)
        || text.contains(TABLE) && text.contains(BATCH)
        || STARTS.iter().any(|(start, _)| text.contains(start))
            && started(&statements(text), &STARTS).iter().any(has_keys)
}

/// Whether a command has its arguments: a page may only name the program.
fn has_keys(one: &Started) -> bool {
    ["model_name=", BATCH].iter().any(|key| one.statement.text.contains(key))
}

/// Reads a training.
///
/// # Errors
/// A text that is not YAML; several trainings.
pub(super) fn read(text: &str, file: &str) -> Result<Draft> {
    let mut draft = Draft { starts: true, ..Draft::default() };
    let all = match is_yaml(file) {
        // With the variables of its container.
        true => Some(ran(text)).filter(|all| started(all, &STARTS).iter().any(has_keys)),
        false => None,
    };
    let all = all.unwrap_or_else(|| statements(text));
    let keys = match started(&all, &STARTS) {
        found if found.iter().any(has_keys) => of_commands(found, file, &mut draft)?,
        _ if is_yaml(file) => of_yaml(text, file)?,
        _ => of_table(text, file)?,
    };
    let place = Place::of(text, &all);
    if let Some(place) = &place {
        match place.is_one_torus() {
            false => draft.put("machine", place.slice.machine)?,
            true => draft.asked.push(format!(
                "machine ({} slices of {} chips, which {} would join by ICI: a profile of it with span = {} and the \
                 alpha of DCN)",
                place.slices, place.slice.chips, place.slice.machine, place.slice.chips
            )),
        }
        draft.put("gpus", place.chips().to_string())?;
    }
    put(&keys, place.as_ref(), &mut draft).map_err(|e| e.at(file.to_owned()))?;
    Ok(draft)
}

/// Keys as given.
struct Keys(BTreeMap<String, String>);

impl Keys {
    /// Pairs such as `key=value`.
    fn of_words<'a>(words: impl Iterator<Item = &'a str>) -> Self {
        let pair = |word: &str| {
            let (key, value) = word.trim_matches(['"', '\'', '\\']).split_once('=')?;
            let plain = key.starts_with(|c: char| c.is_ascii_alphabetic())
                && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            plain.then(|| (key.to_owned(), value.trim_matches(['"', '\'']).to_owned()))
        };
        Self(words.filter_map(pair).collect())
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }

    fn number(&self, key: &str) -> Option<f64> {
        self.get(key)?.parse().ok().filter(|n: &f64| n.is_finite())
    }

    /// A count that is there and no whole number from 1, nor the rest (-1).
    fn unread(&self) -> impl Iterator<Item = (&'static str, String)> {
        let said = |key: &str, value: &str| format!("{key} {value}");
        self.0.iter().filter_map(move |(key, value)| {
            let of = match key.as_str() {
                BATCH => {
                    let is_known = value.parse::<f64>().is_ok_and(|n| n.is_finite() && n > 0.0);
                    return (!is_known).then(|| ("micro_batch", said(key, value)));
                }
                "gradient_accumulation_steps" => "accumulation",
                "max_target_length" => "sequence",
                axis if axis.ends_with("_parallelism") => "dp",
                _ => return None,
            };
            // Those that take what is left.
            let rest = ["ici_fsdp_", "ici_fsdp_transpose_", "dcn_data_"]
                .iter()
                .any(|axis| key.strip_prefix(axis) == Some("parallelism"));
            let is_known = value.parse::<u32>().is_ok_and(|n| n > 0) || value == "-1" && rest;
            (!is_known).then(|| (of, said(key, value)))
        })
    }

    fn is(&self, key: &str) -> bool {
        self.get(key).is_some_and(|value| !is_off(value))
    }

    /// The ranks of an axis, over the nodes of a slice and between slices; `None` where it takes what is left.
    fn axis(&self, name: &str) -> [Option<u32>; 2] {
        ["ici", "dcn"].map(|network| {
            // Two axes take what is left unless told otherwise.
            let usual = match (network, name) {
                ("ici", "fsdp") | ("dcn", "data") => -1.0,
                _ => 1.0,
            };
            let given = self.number(&format!("{network}_{name}_parallelism")).unwrap_or(usual);
            (given >= 1.0).then_some(given as u32)
        })
    }

    /// The product of axes, those that take what is left as one.
    fn all(&self, names: &[&str]) -> u32 {
        let axes = names.iter().flat_map(|name| self.axis(name)).flatten();
        axes.fold(1, u32::saturating_mul)
    }
}

/// Those of the commands of a script.
fn of_commands(mut found: Vec<Started>, file: &str, draft: &mut Draft) -> Result<Keys> {
    // What a run is called, where it writes and how long it lasts does not matter.
    let apart = |key: &str| {
        key != "model_name"
            && ["_name", "_path", "_directory", "_dir"].iter().any(|end| key.ends_with(end))
            || key == "steps"
    };
    found.retain(has_keys);
    let sure = distinct(&found, "trainings", file)?;
    let sure = if sure.is_empty() { found.iter().collect() } else { sure };
    let mut all = sure.iter().map(|one| {
        let mut keys = Keys::of_words(one.statement.text.split_whitespace());
        keys.0.retain(|key, _| !apart(key));
        keys
    });
    let first = all.next().unwrap_or(Keys(BTreeMap::new()));
    for other in all {
        let keys = first.0.keys().chain(other.0.keys());
        if let Some(key) = keys.into_iter().find(|key| first.0.get(*key) != other.0.get(*key)) {
            let said = |keys: &Keys| keys.get(key).map_or("none".to_owned(), str::to_owned);
            let what = format!(
                "it starts several trainings: {key} is {} and {}",
                said(&first),
                said(&other)
            );
            return Err(Error::input(what)
                .at(file.to_owned())
                .help("keep one of them in the file"));
        }
    }
    if let Some(condition) = sure.iter().find_map(|one| one.statement.open.as_ref()) {
        draft.inferred.push(format!("all branches of `{condition}`"));
    }
    Ok(first)
}

fn of_yaml(text: &str, file: &str) -> Result<Keys> {
    let whole = yaml::parse(text).map_err(|refused| refused.error(file))?;
    let yaml::Value::Map(entries) = &whole.value else { return Ok(Keys(BTreeMap::new())) };
    let texts = entries.iter().filter_map(|(key, node)| match &node.value {
        yaml::Value::Text(text) => Some((key.to_string(), text.to_string())),
        _ => None,
    });
    Ok(Keys(texts.collect()))
}

/// Lines such as `"per_device_batch_size": 5,`, and `model_type="llama3.1-70b"` beside them.
fn of_table(text: &str, file: &str) -> Result<Keys> {
    if text.matches(TABLE).count() > 1 {
        return Err(Error::input("it has several trainings")
            .at(file.to_owned())
            .help("keep one of them in the file"));
    }
    let plain = |text: &str| {
        let text = text.split(" #").next().unwrap_or("");
        text.trim().trim_matches(['"', '\'', ',']).trim().to_owned()
    };
    let lines = text.split_once(TABLE).map_or("", |(_, behind)| behind).lines();
    let lines = lines.take_while(|line| !line.trim_start().starts_with('}'));
    let pairs = lines.filter_map(|line| line.split_once(':'));
    let mut keys: BTreeMap<String, String> =
        pairs.map(|(key, value)| (plain(key), plain(value))).collect();
    // What the benchmarks call a model is their own set of keys; its type is MaxText's name.
    let of_type = text.split_once("model_type=").map(|(_, behind)| behind);
    if let Some(name) = of_type.and_then(|behind| behind.split(['"', '\'']).nth(1)) {
        keys.insert("model_name".to_owned(), name.to_owned());
    }
    Ok(Keys(keys))
}

/// Slices of TPUs that a script starts on.
struct Place {
    slice: Slice,
    slices: u32,
}

impl Place {
    /// From the options of `xpk` or of the benchmarks' runner, or the labels of a manifest.
    fn of(text: &str, all: &[Statement]) -> Option<Self> {
        let args = Arguments::read(all.to_vec());
        let named = args.any(&["device-type", "tpu-type"]).and_then(slice);
        let slices = args.number(&["num-slices"]);
        let label = |key: &str| {
            let behind = text.split_once(key)?.1.trim_start_matches(['"', ':', ' ']);
            behind.split(|c: char| c.is_whitespace() || "\"',".contains(c)).next()
        };
        let labelled = || {
            let kind = label("gke-tpu-accelerator")?;
            let kind = kind.trim_end_matches("-device").trim_end_matches("-slice");
            let kind = kind.trim_end_matches("-podslice").replace("v5-lite", "v5e");
            slice(&format!(
                "{kind}-{}",
                label("gke-tpu-topology").or_else(|| label("gke-tpu-slice-topology"))?
            ))
        };
        let replicas = || label("replicas:")?.parse().ok();
        let (slice, slices) = match named {
            Some(slice) => (slice, slices),
            None => (labelled()?, replicas()),
        };
        Some(Self { slice, slices: slices.unwrap_or(1).max(1) })
    }

    /// Whether the machine would take several slices for a part of one.
    fn is_one_torus(&self) -> bool {
        let machine = Profile::builtin(self.slice.machine);
        let most = machine.ok().and_then(|one| one.tiers.first()?.span);
        self.slices > 1 && most.is_some_and(|most| self.slice.chips < most.get())
    }

    fn chips(&self) -> u32 {
        self.slice.chips.saturating_mul(self.slices)
    }

    /// JAX's devices of a chip: Ironwood shows both of its TensorCores, v4 and v5p show them as one
    /// (`src/maxtext/utils/accelerator_to_spec_map.py`).
    fn per_chip(&self) -> u32 {
        if self.slice.machine == "tpu7x" { 2 } else { 1 }
    }
}

/// Axes that divide products.
const TENSOR: [&str; 3] = ["tensor", "tensor_transpose", "tensor_sequence"];

/// Axes that divide sequences.
const SEQUENCE: [&str; 3] = ["context", "sequence", "context_usp_ulysses"];

/// Keys that change a named model.
const WIDTHS: [&str; 12] = [
    "base_emb_dim",
    "base_num_query_heads",
    "base_num_kv_heads",
    "base_mlp_dim",
    "base_moe_mlp_dim",
    "base_num_decoder_layers",
    "head_dim",
    "vocab_size",
    "num_experts",
    "num_experts_per_tok",
    "global_parameter_scale",
    "decoder_block",
];

fn put(keys: &Keys, place: Option<&Place>, draft: &mut Draft) -> Result<()> {
    draft.asked.extend(keys.unread().map(|(of, said)| format!("{of} ({said})")));
    let per_chip = place.map_or(1, Place::per_chip);
    let changed: Vec<&str> = WIDTHS.into_iter().filter(|key| keys.get(key).is_some()).collect();
    match keys.get("model_name").filter(|name| *name != "default") {
        Some(name) if changed.is_empty() => draft.called = Some(repository(name).to_owned()),
        Some(name) => draft.asked.push(format!("model ({} of {name})", changed.join(", "))),
        None if changed.is_empty() => draft.asked.push("model (model_name)".to_owned()),
        None => draft.asked.push(format!("model ({})", changed.join(", "))),
    }
    let [tp, cp, ep] = [&TENSOR[..], &SEQUENCE, &["expert"]].map(|names| keys.all(names));
    if keys.all(&["pipeline"]) > 1 {
        draft.asked.push("pp (stages that repeat, ici_pipeline_parallelism)".to_owned());
    }
    // A rank is a chip: the first axis that is divided has its devices.
    let mut inside = per_chip;
    for (key, devices) in [("tp", tp), ("cp", cp), ("ep", ep)].into_iter().filter(|(_, n)| *n > 1) {
        match devices.is_multiple_of(inside) {
            true => draft.put(key, (devices / inside).to_string())?,
            false => {
                draft.asked.push(format!("{key} ({devices} devices, of which a chip has two)"))
            }
        }
        inside = 1;
    }
    // What is between two products of tensor parallelism is divided, too (`logical_axis_rules`).
    draft.put("sequence_parallel", if tp > 1 { "true" } else { "false" })?;
    sharding(keys, place, draft)?;
    if let Some(gpus) = gpus(keys).filter(|_| place.is_none()) {
        draft.put("gpus", gpus.to_string())?;
    }
    let each = keys.number(BATCH).unwrap_or(12.0);
    if keys.get(BATCH).is_none() {
        draft.inferred.push(format!("{BATCH} 12: MaxText's default"));
    }
    let divided = f64::from(tp) * f64::from(cp);
    let micro = each * divided.max(f64::from(per_chip));
    if micro.fract() == 0.0 && (1.0..1e9).contains(&micro) {
        draft.put("micro_batch", (micro as u64).to_string())?;
    } else if keys.unread().all(|(of, _)| of != "micro_batch") {
        draft.asked.push(format!("micro_batch ({BATCH} {each})"));
    }
    let steps = keys.number("gradient_accumulation_steps").unwrap_or(1.0);
    draft.put("accumulation", steps.to_string())?;
    match keys.get("max_target_length") {
        Some(length) => draft.put("sequence", length)?,
        None => draft.usually(Whose::Program, [("sequence", "2048")]),
    }
    match keys.get("quantization").unwrap_or("") {
        "" | "none" | "None" => draft.put("precision", "bf16")?,
        kind if kind.contains("fp8") => draft.put("precision", "fp8")?,
        kind if kind.contains("fp4") => draft.put("precision", "fp4")?,
        kind => draft.asked.push(format!("precision (quantization {kind})")),
    }
    recompute(keys, draft)?;
    // The loss in pieces (utils/vocabulary_tiling.py).
    if keys.number("num_vocab_tiling").is_some_and(|pieces| pieces > 1.0) {
        draft.put("fused_loss", "true")?;
    }
    if keys.get("attention") == Some("dot_product") {
        draft.put("attention", "unfused")?;
    }
    draft.unread.extend(unpriced(keys));
    Ok(())
}

/// The repository whose widths a model of MaxText has, where its name is another.
fn repository(name: &str) -> &str {
    const OTHERS: [(&str, &str); 25] = [
        ("llama3.1-8b", "meta-llama/Llama-3.1-8B"),
        ("llama3.1-70b", "meta-llama/Llama-3.1-70B"),
        ("llama3.3-70b", "meta-llama/Llama-3.3-70B"),
        ("llama3.1-405b", "meta-llama/Llama-3.1-405B"),
        ("llama4-17b-16e", "meta-llama/Llama-4-Scout-17B-16E"),
        ("llama4-17b-128e", "meta-llama/Llama-4-Maverick-17B-128E"),
        ("mistral-7b", "mistralai/Mistral-7B-v0.1"),
        ("mixtral-8x22b", "mistralai/Mixtral-8x22B-v0.1"),
        ("deepseek2-16b", "deepseek-ai/DeepSeek-V2-Lite"),
        ("deepseek3-671b", "deepseek-ai/DeepSeek-V3"),
        ("deepseek3.2-671b", "deepseek-ai/DeepSeek-V3.2"),
        ("kimi-k2-1t", "moonshotai/Kimi-K2"),
        ("gemma2-2b", "google/gemma-2-2b"),
        ("gemma2-9b", "google/gemma-2-9b"),
        ("gemma2-27b", "google/gemma-2-27b"),
        ("gemma3-4b", "google/gemma-3-4b"),
        ("gemma3-12b", "google/gemma-3-12b"),
        ("gemma3-27b", "google/gemma-3-27b"),
        ("gemma4-e2b", "google/gemma-4-E2B"),
        ("gemma4-e4b", "google/gemma-4-E4B"),
        ("gemma4-26b", "google/gemma-4-26B-A4B"),
        ("gemma4-31b", "google/gemma-4-31B"),
        ("qwen3-480b-a35b", "Qwen/Qwen3-Coder-480B-A35B"),
        ("olmo3-7b", "allenai/Olmo-3-7B"),
        ("olmo3-32b", "allenai/Olmo-3-32B"),
    ];
    // Variants of a recipe: `deepseek3-671b-2dfsdp`.
    let same = |own: &str| {
        name.strip_prefix(own).is_some_and(|rest| {
            rest.is_empty() || ["-2dfsdp", "-batchsplit", "-pt"].contains(&rest)
        })
    };
    OTHERS.iter().find(|(own, _)| same(own)).map_or(name, |(_, other)| other)
}

/// Parameters are gathered over `fsdp`, and copies of all are kept over `data`.
fn sharding(keys: &Keys, place: Option<&Place>, draft: &mut Draft) -> Result<()> {
    let states = match keys.get("weight_dtype") {
        Some("bfloat16") => ", states in bf16",
        _ => "",
    };
    let (optimizer, parameters) =
        (keys.is("optimizer_memory_host_offload"), keys.is("parameter_memory_host_offload"));
    let host = match (optimizer, parameters) {
        (true, true) => ", optimizer and parameters on the host",
        (true, false) => ", optimizer on the host",
        (false, true) => ", parameters on the host",
        (false, false) => "",
    };
    let axes = [keys.axis("fsdp"), keys.axis("fsdp_transpose")].concat();
    let shards = axes.iter().flatten().fold(1, |all: u32, one| all.saturating_mul(*one));
    let is_whole = axes.iter().all(Option::is_some);
    let is_sharded = !is_whole || shards > 1;
    let kind = match is_sharded {
        true => "FSDP2",
        false if keys.is("shard_optimizer_over_data") => "zero1",
        false => "none, ddp",
    };
    draft.put("sharding", format!("{kind}{states}{host}"))?;
    let [data, slices] = keys.axis("data");
    // Between slices the data axis takes what is left.
    let others = keys.0.keys().filter(|key| key.starts_with("dcn_"));
    let others = others.filter_map(|key| keys.number(key)).filter(|n| *n > 1.0);
    let left = place.map(|place| place.slices / (others.product::<f64>() as u32).max(1));
    let copies = data.unwrap_or(1).saturating_mul(slices.or(left).unwrap_or(1));
    match (is_sharded, copies, is_whole) {
        (true, 2.., _) => draft.put("replicate", copies.to_string()),
        // Of how many GPUs they are shards is known, not of how many there are.
        (true, _, true) if place.is_none() && slices.is_none() => {
            draft.put("shard_size", shards.saturating_mul(keys.all(&["expert"])).to_string())
        }
        _ => Ok(()),
    }
}

/// The GPUs that all axes together have, if none takes what is left.
fn gpus(keys: &Keys) -> Option<u32> {
    let names = ["data", "fsdp", "fsdp_transpose", "expert", "pipeline"];
    let axes = names.iter().chain(&TENSOR).chain(&SEQUENCE).flat_map(|name| keys.axis(name));
    axes.collect::<Option<Vec<u32>>>()?.into_iter().try_fold(1, u32::checked_mul)
}

/// What is computed again: a policy by name, or tensors that are each kept, moved to the host or computed again.
fn recompute(keys: &Keys, draft: &mut Draft) -> Result<()> {
    // Keys and values are a small part of it.
    const ATTENTION: [&str; 6] =
        ["query_proj", "qkv_proj", "context", "mla_q", "mla_kv", "attention_out"];
    const MLP: [&str; 4] = ["mlpwi", "mlpwi_0", "moe_mlpwi", "moe_mlpwi_0"];
    let kept = |names: &[&str]| names.iter().any(|name| keys.get(name) == Some("device"));
    let on_host = keys.get("decoder_layer_input") == Some("offload");
    let how = match keys.get("remat_policy").unwrap_or("full") {
        "none" => "none",
        "custom" if kept(&MLP) => "modules",
        "custom" if kept(&ATTENTION) => "modules, mlp, moe",
        "custom" if on_host => {
            let small = ["key_proj", "value_proj", "kv_proj"];
            let small: Vec<&str> = small.into_iter().filter(|name| kept(&[name])).collect();
            if !small.is_empty() {
                let what = format!("{}: kept, and counted as computed again", small.join(", "));
                draft.inferred.push(what);
            }
            "full, offloaded"
        }
        "full" | "custom" => "full",
        "minimal_flash" | "minimal_with_context" | "minimal_with_context_and_quantization" => {
            "modules"
        }
        "minimal" | "minimal_with_quantization" => "selective",
        "save_dot_with_context_except_mlp" => "modules, mlp, moe",
        policy @ ("save_dot_except_mlp" | "save_dot_except_mlpwi") => {
            draft.inferred.push(format!("{policy}: its attention is taken to be kept"));
            "modules, mlp, moe"
        }
        policy @ ("save_qkv_proj" | "save_out_proj" | "qkv_proj_offloaded") => {
            draft.inferred.push(format!("{policy}: what it keeps is taken to be computed again"));
            "full"
        }
        policy => {
            draft.asked.push(format!("recompute (remat_policy {policy})"));
            return Ok(());
        }
    };
    draft.put("recompute", how)
}

/// What changes memory or time and is not priced.
fn unpriced(keys: &Keys) -> impl Iterator<Item = String> {
    let other = |key: &str, usual: &[&str]| {
        let value = keys.get(key).filter(|value| !usual.contains(value) && !is_off(value))?;
        Some(format!("{key} {value}"))
    };
    let many = |key: &str| Some(format!("{key} {}", keys.number(key).filter(|n| *n > 1.0)?));
    [
        other("dtype", &["bfloat16"]),
        other("grad_dtype", &["float32"]),
        other("weight_dtype", &["float32", "bfloat16"]),
        other("mu_dtype", &["float32"]).filter(|_| keys.get("weight_dtype") != Some("bfloat16")),
        other("opt_type", &["adamw", "adam_pax"]),
        other("mtp_num_layers", &[]),
        other("capacity_factor", &["-1", "-1.0"]),
        many("ici_autoregressive_parallelism"),
        many("dcn_diloco_parallelism"),
    ]
    .into_iter()
    .flatten()
}

//! Fine-tuning with Hugging Face's Trainer: the YAML of TRL, LLaMA-Factory and Axolotl, or the same arguments in a script.
//!
//! Sources: github.com/huggingface/transformers, `src/transformers/training_args.py`; github.com/huggingface/trl,
//! `trl/trainer/model_config.py`; github.com/hiyouga/LLaMA-Factory, `src/llamafactory/hparams`;
//! github.com/axolotl-ai-cloud/axolotl, `src/axolotl/utils/schemas`; github.com/modelscope/ms-swift,
//! `swift/arguments`: names and defaults.

use std::collections::BTreeMap;

use super::accelerate;
use super::draft::Draft;
use super::files::is_yaml;
use super::shell::statements;
use super::started::{arguments, distinct, launched, trainings};
use super::words::Adapters;
use crate::base::error::{Error, Result};
use crate::base::yaml::{self, Node, Value};

/// One of these is in every command that starts such a training.
const FLAGS: [&str; 2] = ["--per_device_train_batch_size", "--per-device-train-batch-size"];

/// One of these is in every such YAML.
const KEYS: [&str; 3] = ["per_device_train_batch_size:", "base_model:", "cutoff_len:"];

/// Whether a text is such a training.
pub(super) fn is(text: &str, file: &str) -> bool {
    match is_yaml(file) {
        true => text.lines().any(|line| KEYS.iter().any(|key| line.starts_with(key))),
        false => FLAGS.iter().any(|flag| text.contains(flag)),
    }
}

/// A training's keys, with underscores; lists are joined by commas.
struct Keys(BTreeMap<String, String>);

impl Keys {
    fn of_yaml(whole: &Node<'_>) -> Self {
        fn text(node: &Node<'_>) -> Option<String> {
            match &node.value {
                Value::Text(text) => Some(text.to_string()),
                Value::List(items) => {
                    Some(items.iter().filter_map(text).collect::<Vec<_>>().join(","))
                }
                Value::Null | Value::Map(_) => None,
            }
        }
        let Value::Map(entries) = &whole.value else { return Self(BTreeMap::new()) };
        let found = entries.iter().filter_map(|(key, value)| Some((key.to_string(), text(value)?)));
        Self(found.collect())
    }

    /// The first of several names that has a value.
    fn any(&self, names: &[&str]) -> Option<&str> {
        let mut found = names.iter().filter_map(|name| self.0.get(*name).map(String::as_str));
        found.find(|value| !matches!(value.trim(), "" | "null" | "None" | "none"))
    }

    /// Whether one of them is there and not off; a flag may have no value.
    fn is(&self, names: &[&str]) -> bool {
        let off = ["false", "no", "off", "0", "null", "none"];
        names
            .iter()
            .filter_map(|name| self.0.get(*name))
            .any(|value| !off.contains(&value.trim().to_ascii_lowercase().as_str()))
    }

    fn is_off(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.0.contains_key(*name)) && !self.is(names)
    }

    fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }
}

/// Reads a training.
///
/// # Errors
/// A text that is not YAML; a kind of training that is not priced; several trainings in one script.
pub(super) fn read(text: &str, file: &str) -> Result<Draft> {
    let mut draft = Draft { starts: true, ..Draft::default() };
    if is_yaml(file) {
        let whole = yaml::parse(text).map_err(|refused| refused.error(file))?;
        let keys = Keys::of_yaml(&whole);
        put(&keys, &mut draft).map_err(|e| e.at(file.to_owned()))?;
        if let Some(Node { value: Value::Map(_), .. }) = whole.get("fsdp_config") {
            let again = draft.get("recompute") == Some("full");
            accelerate::fsdp(&whole, &mut draft)?;
            if again {
                draft.put("recompute", "full")?;
            }
        }
        return Ok(draft);
    }
    let all = statements(text);
    let found = trainings(&all, &FLAGS);
    let sure = distinct(&found, "trainings", file)?;
    let args = arguments(&sure, &all);
    draft.inferred.extend(args.open());
    let pairs = args.all().map(|(key, value)| (key.replace('-', "_"), value.to_owned()));
    let mut keys = Keys(pairs.collect());
    let command = |word: &str| sure.iter().any(|one| one.statement.text.contains(word));
    if command("rlhf") {
        keys.0.insert("rl".to_owned(), "rlhf".to_owned());
    }
    // What ms-swift and LLaMA-Factory take unless they are told otherwise.
    for (program, key, usual) in
        [("swift ", "tuner_type", "lora"), ("llamafactory-cli", "finetuning_type", "lora")]
    {
        let told = ["train_type", "tuner_type", "finetuning_type"];
        if command(program) && keys.any(&told).is_none() {
            keys.0.insert(key.to_owned(), usual.to_owned());
        }
    }
    put(&keys, &mut draft).map_err(|e| e.at(file.to_owned()))?;
    launched(text, &args, &mut draft)?;
    Ok(draft)
}

/// Keys of a job that are counts, and their names.
const COUNTS: [(&str, &[&str]); 6] = [
    ("micro_batch", &["per_device_train_batch_size", "micro_batch_size"]),
    ("accumulation", &["gradient_accumulation_steps"]),
    (
        "sequence",
        &[
            "cutoff_len",
            "sequence_len",
            "max_seq_length",
            "max_length",
            "max_seq_len",
            "model_max_length",
            "block_size",
        ],
    ),
    ("tp", &["tensor_parallel_size"]),
    ("cp", &["context_parallel_size"]),
    ("replicate", &["dp_replicate_size"]),
];

fn put(keys: &Keys, draft: &mut Draft) -> Result<()> {
    let stage = keys.any(&["stage"]).filter(|stage| !["sft", "pt"].contains(stage));
    let by = ["num_generations", "max_prompt_length"].into_iter().find(|key| keys.has(key));
    if let Some(kind) = keys.any(&["rl"]).or(stage).or(by) {
        return Err(Error::unsupported(format!("training by preferences or rewards ({kind})"))
            .help("a step of supervised training has a plan: leave the key out to price one"));
    }
    draft.called = keys.any(&["model_name_or_path", "base_model", "model"]).map(str::to_owned);
    for (key, names) in COUNTS {
        match keys.any(names) {
            Some(value) if value.parse::<u32>().is_ok() => draft.put(key, value)?,
            Some(value) => draft.asked.push(format!("{key} ({} {value})", names[0])),
            None => {}
        }
    }
    if keys.any(COUNTS[1].1).is_none() {
        draft.put("accumulation", "1")?;
        draft.inferred.push("accumulation 1".to_owned());
    }
    let narrow = keys.is(&["bf16", "bfloat16", "pure_bf16"])
        || keys.any(&["torch_dtype", "dtype"]).is_some_and(|kind| kind.ends_with("bfloat16"));
    let half = keys.is(&["fp16", "float16"]);
    match (narrow, half) {
        (true, _) => draft.put("precision", "bf16")?,
        (false, true) => draft.put("precision", "fp16")?,
        _ => draft.inferred.push("bf16: without bf16 and fp16 training is in 32 bits".to_owned()),
    }
    sharding(keys, draft)?;
    adapters(keys, draft)?;
    // LLaMA-Factory and ms-swift run layers again unless they are told not to.
    let again = ["gradient_checkpointing", "fsdp_activation_checkpointing"];
    let usual = ["finetuning_type", "train_type", "tuner_type"].iter().any(|key| keys.has(key));
    if keys.is(&again) || usual && !keys.is_off(&again) {
        let off = keys.is(&["disable_gradient_checkpointing"]);
        draft.put("recompute", if off { "none" } else { "full" })?;
    } else if keys.is_off(&again) {
        draft.put("recompute", "none")?;
    }
    let attention = ["attn_implementation", "attn_impl", "flash_attn"];
    if let Some(how) = keys.any(&attention) {
        let plain = matches!(how, "eager" | "disabled");
        draft.put("attention", if plain { "unfused" } else { "flash" })?;
    }
    let fused = ["use_liger_kernel", "enable_liger_kernel", "liger_fused_linear_cross_entropy"];
    if keys.is(&fused) {
        draft.put("fused_loss", "true")?;
    }
    if keys.is(&["torch_compile"]) {
        draft.put("compiled", "true")?;
    }
    if !keys.is(&["sample_packing", "packing", "neat_packing", "group_texts"]) {
        draft.inferred.push("every sequence is full: without packing most are shorter".to_owned());
    }
    if let Some(kind) = keys.any(&["optim", "optimizer"]).filter(|kind| is_other(kind)) {
        draft.unread.push(format!("optimizer {kind}: its states are counted as Adam's"));
    }
    let unpriced = [
        "sequence_parallel_size",
        "sequence_parallel_degree",
        "expert_parallel_size",
        "freeze_llm",
    ];
    draft.unread.extend(unpriced.into_iter().filter(|key| keys.is(&[key])).map(str::to_owned));
    Ok(())
}

/// Whether an optimizer's states are not Adam's in 32 bits.
fn is_other(kind: &str) -> bool {
    let lower = kind.to_ascii_lowercase();
    !lower.contains("adam") || ["8bit", "4bit"].iter().any(|bits| lower.contains(bits))
}

fn sharding(keys: &Keys, draft: &mut Draft) -> Result<()> {
    if let Some(named) = keys.any(&["deepspeed", "deepspeed_config"]) {
        let Some(built_in) = named.strip_prefix("zero") else {
            return draft.put("from", named);
        };
        let (stage, host) = built_in.split_once('_').unwrap_or((built_in, ""));
        return deepspeed(draft, stage, host == "offload");
    }
    if let Some(stage) = keys.any(&["zero_stage"]) {
        return deepspeed(draft, stage, keys.is(&["offload"]));
    }
    match keys.any(&["fsdp"]) {
        Some(how) => {
            let host = if how.contains("offload") { ", offload to the host" } else { "" };
            let kind = match () {
                () if how.contains("shard_grad_op") => "FSDP, SHARD_GRAD_OP",
                () if how.contains("no_shard") => "none, ddp",
                () => "FSDP",
            };
            draft.put("sharding", format!("{kind}, bf16 reduced{host}"))?;
            draft.put("overlap", "fsdp")
        }
        // A model that is loaded in 16 bits has its gradients and Adam's states there, too.
        None => {
            let loaded = ["torch_dtype", "dtype", "base_model", "pure_bf16"];
            let narrow =
                draft.get("precision") == Some("bf16") && loaded.iter().any(|k| keys.has(k));
            let states = if narrow { "states in bf16" } else { "gradients in fp32" };
            draft.put("sharding", format!("none, ddp, {states}"))?;
            draft.put("overlap", "gradients")
        }
    }
}

fn deepspeed(draft: &mut Draft, stage: &str, host: bool) -> Result<()> {
    if !matches!(stage, "0" | "1" | "2" | "3") {
        draft.asked.push(format!("sharding (zero stage {stage})"));
        return Ok(());
    }
    let kind = if stage == "0" { "none".to_owned() } else { format!("zero{stage}") };
    let host = if host { ", offload of 1 of the optimizer" } else { "" };
    draft.put("sharding", format!("{kind}, deepspeed{host}"))?;
    draft.put("overlap", if stage == "3" { "dp" } else { "none" })
}

fn adapters(keys: &Keys, draft: &mut Draft) -> Result<()> {
    let kind = keys.any(&["adapter", "finetuning_type", "train_type", "tuner_type"]);
    let kind = kind.or(keys.is(&["use_peft"]).then_some("lora"));
    match kind.unwrap_or("full") {
        "full" => return Ok(()),
        "lora" | "qlora" => {}
        other => {
            return Err(Error::unsupported(format!("training of `{other}`"))
                .help("all parameters, or LoRA's adapters, have a plan"));
        }
    }
    let rank = keys.any(&["lora_r", "lora_rank"]);
    // TRL's default; that of LLaMA-Factory and ms-swift is 8.
    let usual = if keys.has("use_peft") { "16" } else { "8" };
    let on = match keys.any(&["lora_target_modules", "lora_target", "target_modules"]) {
        _ if keys.is(&["lora_target_linear"]) => "all",
        Some(named) => named,
        None if keys.has("use_peft") => "q_proj, v_proj",
        None => "all",
    };
    if rank.is_none() {
        draft.inferred.push(format!("adapters of rank {usual}"));
    }
    let text = format!("rank {} on {on}", rank.unwrap_or(usual));
    match text.parse::<Adapters>() {
        Ok(adapters) => draft.put("adapters", adapters.to_string())?,
        Err(_) => draft.asked.push(format!("adapters ({text})")),
    }
    let bits = keys.any(&["quantization_bit", "quant_bits"]);
    if kind == Some("qlora") || bits == Some("4") || keys.is(&["load_in_4bit"]) {
        draft.put("weights_type", "nf4")?;
    } else if bits == Some("8") || keys.is(&["load_in_8bit"]) {
        draft.put("weights_type", "int8")?;
    }
    if keys.any(&["lora_modules_to_save", "modules_to_save"]).is_some() {
        draft.unread.push("modules that are saved, and trained, beside adapters".to_owned());
    }
    Ok(())
}

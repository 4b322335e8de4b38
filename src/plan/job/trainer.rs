//! Fine-tuning with Hugging Face's Trainer: the YAML of TRL, LLaMA-Factory and Axolotl, or the same arguments in a script.
//!
//! Sources: github.com/huggingface/transformers, `src/transformers/training_args.py`; github.com/huggingface/trl,
//! `trl/trainer/model_config.py`; github.com/hiyouga/LLaMA-Factory, `src/llamafactory/hparams`;
//! github.com/axolotl-ai-cloud/axolotl, `src/axolotl/utils/schemas`; github.com/modelscope/ms-swift,
//! `swift/arguments`: names and defaults.

use std::collections::BTreeMap;

use super::accelerate::Shards;
use super::arguments::{Arguments, is_off};
use super::draft::{Draft, WIDE, Whose};
use super::files::is_yaml;
use super::shell::statements;
use super::started::{Started, alike, distinct, launched, trainings};
use super::words::Adapters;
use super::{accelerate, deepspeed, serving};
use crate::base::error::{Error, Result};
use crate::base::yaml::{self, Node, Value};

/// One of these is in a command that starts such a training.
const STARTS: [&str; 5] = [
    "--per_device_train_batch_size",
    "--per-device-train-batch-size",
    "swift sft",
    "swift pt",
    "trl sft",
];

/// One of these is in every such YAML.
const KEYS: [&str; 3] = ["per_device_train_batch_size:", "base_model:", "cutoff_len:"];

/// What is said of samples that have a sequence each.
pub(super) const FULL: &str = "every sequence is full: without packing most are shorter";

/// What is said of samples that share a sequence.
pub(super) const PACKED: &str =
    "attention over whole sequences: packed samples attend to themselves alone, which takes less";

/// Whether a text is such a training.
pub(super) fn is(text: &str, file: &str) -> bool {
    match is_yaml(file) {
        true => text.lines().any(|line| KEYS.iter().any(|key| line.starts_with(key))),
        false if file.ends_with(".toml") => false,
        false => {
            STARTS.iter().any(|start| text.contains(start))
                && !trainings(&statements(text), &STARTS).is_empty()
        }
    }
}

/// The program whose names and defaults a training has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Program {
    Axolotl,
    Factory,
    Swift,
    Trl,
    /// Scripts that have the Trainer's own arguments.
    Transformers,
}

impl Program {
    fn of_yaml(keys: &Keys) -> Self {
        match () {
            () if keys.has("base_model") => Self::Axolotl,
            () if ["tuner_type", "train_type"].iter().any(|key| keys.has(key)) => Self::Swift,
            () if Self::FACTORY.iter().any(|key| keys.has(key)) => Self::Factory,
            () => Self::Trl,
        }
    }

    /// By the words of its commands, and its keys.
    ///
    /// # Errors
    /// They train by preferences or rewards.
    fn of_script(sure: &[&Started], keys: &Keys) -> Result<Self> {
        const OTHERS: [&str; 7] = ["dpo", "grpo", "kto", "orpo", "ppo", "rloo", "reward"];
        let mut program = Self::Transformers;
        for one in sure {
            let (mut last, mut seen) = ("", false);
            for word in one.statement.text.split_whitespace() {
                let name = word.rsplit('/').next().unwrap_or(word);
                // `--reward_funcs x.py` stands behind the script.
                let script = name.strip_suffix(".py").filter(|_| !seen);
                seen |= script.is_some();
                let has =
                    |part: &str| script.is_some_and(|s| s.split(['_', '-']).any(|p| p == part));
                program = match (last, name) {
                    ("swift", "sft" | "pt") => Self::Swift,
                    _ if word.contains("swift/cli/") => Self::Swift,
                    ("trl", "sft") => Self::Trl,
                    ("swift" | "trl", kind)
                        if ["rlhf"].iter().chain(&OTHERS).any(|k| *k == kind) =>
                    {
                        return Err(rewards(kind));
                    }
                    (_, "llamafactory-cli" | "train_bash.py") => Self::Factory,
                    _ if OTHERS.iter().any(|other| has(other)) => return Err(rewards(name)),
                    _ if has("sft") && program == Self::Transformers => Self::Trl,
                    _ => program,
                };
                last = word;
            }
        }
        let by_keys = Self::FACTORY.iter().any(|key| keys.has(key));
        Ok(if by_keys && program != Self::Swift { Self::Factory } else { program })
    }

    /// Keys that LLaMA-Factory alone has.
    const FACTORY: [&str; 4] = ["cutoff_len", "finetuning_type", "lora_target", "stage"];

    /// What it takes for a key unless it is told otherwise.
    fn usual(self, key: &str) -> Option<&'static str> {
        match (self, key) {
            (Self::Factory | Self::Swift, "kind") => Some("lora"),
            (Self::Factory | Self::Swift | Self::Trl, "recompute") => Some("full"),
            (_, "recompute") => Some("none"),
            (Self::Swift, "micro_batch") => Some("1"),
            (Self::Axolotl, "micro_batch") | (Self::Swift, "accumulation") => None,
            (_, "micro_batch") => Some("8"),
            (_, "accumulation") => Some("1"),
            (Self::Factory, "sequence") => Some("2048"),
            (Self::Trl, "sequence") => Some("1024"),
            (Self::Axolotl, "sequence") => Some("512"),
            (Self::Axolotl | Self::Trl | Self::Swift, "precision") => Some("bf16"),
            (Self::Trl, "rank") => Some("16"),
            (_, "rank") => Some("8"),
            (Self::Trl | Self::Transformers, "adapters") => Some("q_proj v_proj"),
            (_, "adapters") => Some("all"),
            _ => None,
        }
    }
}

/// The adapters of ms-swift's Megatron, which has the names of its Trainer's and trains all parameters by default.
pub(super) fn swift_adapters(args: &Arguments, draft: &mut Draft) -> Result<()> {
    let keys = Keys::of_arguments(args);
    match keys.any(&["tuner_type", "train_type"]) {
        Some(_) => adapters(&keys, Program::Swift, draft),
        None => Ok(()),
    }
}

/// The refusal of trainings by preferences or rewards.
pub(super) fn rewards(kind: &str) -> Error {
    Error::unsupported(format!("training by preferences or rewards ({kind})"))
        .help("a step of supervised training has a plan")
}

/// A training's keys, with underscores; lists are joined by commas.
struct Keys(BTreeMap<String, String>);

impl Keys {
    fn of_arguments(args: &Arguments) -> Self {
        let pairs = args.all().map(|(key, value)| (key.replace('-', "_"), value.to_owned()));
        Self(pairs.collect())
    }

    fn of_yaml(whole: &Node<'_>) -> Self {
        fn text(node: &Node<'_>) -> Option<String> {
            match &node.value {
                Value::Text(text) => Some(text.to_string()),
                Value::List(items) => {
                    Some(items.iter().filter_map(text).collect::<Vec<_>>().join(","))
                }
                Value::Null => Some("null".to_owned()),
                Value::Map(_) => None,
            }
        }
        let Value::Map(entries) = &whole.value else { return Self(BTreeMap::new()) };
        // Of a table only that it is there.
        let found =
            entries.iter().map(|(key, value)| (key.to_string(), text(value).unwrap_or_default()));
        Self(found.collect())
    }

    /// The first of several names that has a value.
    fn any(&self, names: &[&str]) -> Option<&str> {
        let mut found = names.iter().filter_map(|name| self.0.get(*name).map(String::as_str));
        found.find(|value| !matches!(value.trim(), "" | "null" | "None" | "none"))
    }

    /// Whether one of them is there and not off; a flag may have no value.
    fn is(&self, names: &[&str]) -> bool {
        names.iter().filter_map(|name| self.0.get(*name)).any(|value| !is_off(value))
    }

    /// The words of `fsdp`, none of which may be there, if it is on.
    fn fsdp(&self) -> Option<&str> {
        let on = !self.is_off(&["fsdp"]);
        let words = self.any(&["fsdp"]).filter(|words| on && !words.eq_ignore_ascii_case("true"));
        words.or((on && (self.is(&["use_fsdp"]) || self.any(&["fsdp"]).is_some())).then_some(""))
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
/// A text that is not YAML; a kind of training that is not priced; several trainings, or a server too, in one script.
pub(super) fn read(text: &str, file: &str) -> Result<Draft> {
    let mut draft = Draft { starts: true, ..Draft::default() };
    let at = |error: Error| error.at(file.to_owned());
    if is_yaml(file) {
        let whole = yaml::parse(text).map_err(|refused| refused.error(file))?;
        let keys = Keys::of_yaml(&whole);
        let program = Program::of_yaml(&keys);
        put(&keys, program, &mut draft).map_err(at)?;
        let is_map = |key| matches!(whole.get(key), Some(Node { value: Value::Map(_), .. }));
        if is_map("deepspeed") {
            draft.asked.push("sharding (deepspeed is a table)".to_owned());
        }
        // A table alone shards nothing but in Axolotl, and nothing that DeepSpeed shards.
        let fsdp = keys.fsdp();
        let is_on = fsdp.is_some() || program == Program::Axolotl && !keys.is_off(&["fsdp"]);
        let deepspeed = is_map("deepspeed") || keys.any(&["deepspeed"]).is_some();
        if is_map("fsdp_config") && is_on && !deepspeed {
            // It says again what was read without it.
            draft.asked.retain(|one| !one.starts_with("shard"));
            accelerate::fsdp(&whole, fsdp.unwrap_or(""), &mut draft)?;
        }
        return Ok(draft);
    }
    let all = statements(text);
    if serving::starts(&all) {
        return Err(at(Error::input("it starts a training and a server"))
            .help("keep one of them in the file"));
    }
    let found = trainings(&all, &STARTS);
    let sure = distinct(&found, "trainings", file)?;
    let args =
        alike(&sure, &all, COUNTS.iter().flat_map(|(_, names)| *names).chain(COMPARED), file)?;
    draft.inferred.extend(args.open());
    let mut keys = Keys::of_arguments(&args);
    let is_lora = |word: &str| word.rsplit('/').next().is_some_and(|name| name.contains("lora"));
    let mut words = sure.iter().flat_map(|one| one.statement.text.split_whitespace());
    if words.any(|word| word.ends_with(".py") && is_lora(word)) {
        keys.0.insert(LORA_SCRIPT.to_owned(), "true".to_owned());
    }
    let program = Program::of_script(&sure, &keys).map_err(at)?;
    // A set of shards may be what is launched on a node.
    launched(text, &all, &args, &mut draft)?;
    put(&keys, program, &mut draft).map_err(at)?;
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
    ("cp", &["context_parallel_size", "sequence_parallel_degree", ULYSSES]),
    ("replicate", &["dp_replicate_size"]),
];

/// ms-swift's ranks that exchange heads for tokens (swift/trainers/sequence_parallel, beside a ring where there are more
/// of them than heads of keys and values).
const ULYSSES: &str = "sequence_parallel_size";

/// What trainings of one script also share, if they are one.
const COMPARED: &[&str] = &[
    "model_name_or_path",
    "model",
    "deepspeed",
    "fsdp",
    "zero_stage",
    "lora_rank",
    "lora_r",
    "finetuning_type",
    "tuner_type",
    "train_type",
    "use_peft",
    "nproc_per_node",
    "nnodes",
    "num_processes",
    "gradient_checkpointing",
    "bf16",
    "fp16",
    "lora_target",
    "lora_target_modules",
    "adapter",
    "lora_enable",
    "use_lora",
    "q_lora",
    "use_llm_lora",
];

fn put(keys: &Keys, program: Program, draft: &mut Draft) -> Result<()> {
    let apart = ["dist_config", "peft_config", "train_dataset", "use_distributed_optimizer"];
    if let Some(key) = apart.iter().find(|key| keys.has(key)) {
        return Err(Error::unsupported(format!("a configuration with `{key}` is not read"))
            .help("LLaMA-Factory's v1 files and those for Megatron have other keys: write the job in TOML"));
    }
    if keys.is_off(&["do_train"]) || keys.is(&["do_predict"]) && !keys.is(&["do_train"]) {
        return Err(Error::unsupported("it evaluates, and does not train")
            .help("name the configuration of a training"));
    }
    let stage = keys.any(&["stage"]).filter(|stage| !["sft", "pt"].contains(stage));
    let others =
        ["rl", "rlhf_type", "reward_model", "num_generations", "max_prompt_length", "beta"];
    let other = others.into_iter().find(|key| keys.is(&[key]));
    if let Some(kind) = stage.or(other) {
        return Err(rewards(kind));
    }
    let projector = "tune_mm_mlp_adapter";
    if keys.is(&[projector]) {
        return Err(Error::unsupported(format!("`{projector}`: only a projector is trained"))
            .help("all parameters, or LoRA's adapters, have a plan"));
    }
    let names = ["model_name_or_path", "base_model", "model_id", "model"];
    draft.called = keys.any(&names).map(str::to_owned);
    for (key, names) in COUNTS {
        let named = names.iter().find_map(|name| Some((*name, keys.any(&[name])?)));
        match (named, program.usual(key)) {
            (Some((name, value)), _) => match value.replace('_', "").parse::<u32>() {
                Ok(count) => draft.put(key, count.to_string())?,
                Err(_) => draft.asked.push(format!("{key} ({name} {value})")),
            },
            (None, Some(usual)) => draft.usually(Whose::Program, [(key, usual)]),
            (None, None) => {}
        }
    }
    if program == Program::Axolotl
        && let Some(all) = keys.any(&["batch_size"])
        && keys.any(COUNTS[1].1).is_none()
    {
        draft.usual.remove(&(Whose::Program, "accumulation"));
        draft.asked.push(format!("accumulation (batch_size {all})"));
    }
    let narrow = keys.is(&["bf16", "bfloat16", "pure_bf16"])
        || keys.any(&["torch_dtype", "dtype"]).is_some_and(|kind| kind.ends_with("bfloat16"))
        || [keys.any(&["mixed_precision"]), keys.any(&["dtype"])].contains(&Some("bf16"));
    let precision = match () {
        () if keys.is(&["fp8"]) => Some("fp8"),
        () if narrow => Some("bf16"),
        () if keys.is(&["fp16", "float16"]) => Some("fp16"),
        () if keys.any(&["mixed_precision"]) == Some("fp16") => Some("fp16"),
        () if keys.is_off(&["bf16"]) => None,
        () => program.usual("precision"),
    };
    match precision {
        Some(precision) => draft.put("precision", precision)?,
        None => draft.usually(Whose::Program, [("precision", WIDE)]),
    }
    adapters(keys, program, draft)?;
    sharding(keys, program, draft)?;
    let again = ["gradient_checkpointing", "fsdp_activation_checkpointing", "grad_checkpoint"];
    match program.usual("recompute") {
        _ if keys.is(&["disable_gradient_checkpointing"]) || keys.is_off(&again) => {
            draft.put("recompute", "none")?;
        }
        // To the host go the inputs of layers (axolotl-ai-cloud/axolotl, src/axolotl/utils/schemas/validation.py;
        // Unsloth's in hiyouga/LLaMA-Factory, src/llamafactory/model/model_utils/checkpointing.py).
        _ if keys.is(&["use_unsloth_gc"])
            || keys.is(&["activation_offloading"]) && keys.is(&again)
            || again.iter().any(|key| {
                matches!(keys.any(&[key]), Some("offload" | "offload_disk" | "unsloth"))
            }) =>
        {
            draft.put("recompute", "full, offloaded")?;
        }
        _ if keys.is(&again) => draft.put("recompute", "full")?,
        usual => draft.usually(Whose::Program, [("recompute", usual.unwrap_or("none"))]),
    }
    let attention = ["attn_implementation", "attn_impl", "flash_attn"];
    if let Some(how) = keys.any(&attention) {
        let plain = matches!(how, "eager" | "disabled");
        draft.put("attention", if plain { "unfused" } else { "flash" })?;
    }
    let fused = [
        "use_liger_kernel",
        "enable_liger_kernel",
        "liger_fused_linear_cross_entropy",
        "cut_cross_entropy",
        "chunked_cross_entropy",
    ];
    let plugs = keys.any(&["plugins"]).is_some_and(|all| all.contains("CutCrossEntropy"));
    if keys.is(&fused) || plugs {
        draft.put("fused_loss", "true")?;
    }
    if program == Program::Trl && keys.any(&["loss_type"]).is_none() {
        draft.inferred.push("all logits are kept: newer releases of TRL keep chunks".to_owned());
    }
    if keys.is(&["torch_compile"]) {
        draft.put("compiled", "true")?;
    }
    // Of Axolotl's degree the exchange is a ring.
    if keys.any(&[ULYSSES]).is_some_and(|ranks| ranks != "1") {
        draft.put("ulysses", "true")?;
    }
    if !keys.is(&["sample_packing", "packing", "neat_packing"]) {
        draft.inferred.push(FULL.to_owned());
    } else if program != Program::Factory || keys.is(&["neat_packing"]) {
        draft.inferred.push(PACKED.to_owned());
    }
    if let Some(kind) = keys.any(&["optim", "optimizer"]).filter(|kind| is_other(kind)) {
        draft.unread.push(format!("optimizer {kind}: its states are counted as Adam's"));
    }
    // Parts that are not trained have many names.
    let parts = ["freeze", "unfreeze", "tune_", "mm_tunable", "peft", "lora"];
    let of_parts =
        |key: &str| parts.iter().any(|part| key.starts_with(part)) && !key.starts_with("lora_");
    let other =
        keys.0.keys().map(String::as_str).filter(|key| of_parts(key) && *key != LORA_SCRIPT);
    let given = UNPRICED.iter().copied().chain(other).filter(|key| keys.is(&[key]));
    draft.unread.extend(given.map(str::to_owned));
    Ok(())
}

/// What changes memory or time and is not priced.
const UNPRICED: &[&str] = &[
    "expert_parallel_size",
    "unfrozen_parameters",
    "lora_target_parameters",
    "lisa_n_layers",
    "use_galore",
    "use_apollo",
    "use_badam",
    "use_adam_mini",
    "use_muon",
    "mixture_of_depths",
    "task_type",
];

/// Whether an optimizer's states are not Adam's in 32 bits.
fn is_other(kind: &str) -> bool {
    let lower = kind.to_ascii_lowercase();
    !lower.contains("adam") || ["8bit", "4bit"].iter().any(|bits| lower.contains(bits))
}

fn sharding(keys: &Keys, program: Program, draft: &mut Draft) -> Result<()> {
    if let Some(named) = keys.any(&["deepspeed", "deepspeed_config", "deepspeed_config_file"]) {
        // ms-swift's own are words: `zero3_offload`.
        let built_in = named.strip_prefix("zero").filter(|rest| !rest.contains(['.', '/']));
        let Some(built_in) = built_in else { return draft.put("from", named) };
        let (stage, host) = built_in.split_once('_').unwrap_or((built_in, ""));
        let offloads = host == "offload";
        deepspeed(draft, stage, [offloads, offloads && stage == "3"])?;
        let beside = if stage == "3" { "dp" } else { "gradients" };
        return draft.put("overlap", beside);
    }
    // The plugin's own default is the second stage.
    let by_flag = keys.is(&["use_deepspeed"]).then_some("2");
    if let Some(stage) = keys.any(&["zero_stage"]).or(by_flag) {
        let [optimizer, parameters] = ["offload_optimizer_device", "offload_param_device"]
            .map(|key| keys.any(&[key]).is_some());
        // DeepSpeed-Chat's flag is of both.
        let all = keys.is(&["offload"]);
        deepspeed(draft, stage, [optimizer || all, parameters || all && stage == "3"])?;
        return draft.put("overlap", if stage == "3" { "dp" } else { "none" });
    }
    if let Some(words) = keys.fsdp() {
        if let Some(named) = keys.any(&["fsdp_config"]) {
            draft.unread.push(format!("fsdp_config {named}"));
        }
        let how = Shards {
            second: keys.any(&["fsdp_version"]) == Some("2"),
            words,
            strategy: keys.any(&["fsdp_sharding_strategy"]),
            reshard: keys.any(&["fsdp_reshard_after_forward"]),
            host: keys.is(&["fsdp_offload_params"]),
        };
        return how.put(draft);
    }
    if let Some(named) = keys.any(&["config_file", "accelerate_config"]) {
        draft.asked.push(format!("sharding ({named}: name it after this file)"));
        return Ok(());
    }
    // A model that is loaded in 16 bits has its gradients and Adam's states there, too; adapters have 32.
    let loaded = match program {
        Program::Axolotl | Program::Swift => true,
        Program::Factory => keys.is(&["pure_bf16"]),
        Program::Trl | Program::Transformers => keys
            .any(&["torch_dtype", "dtype"])
            .is_some_and(|kind| kind.ends_with("bfloat16") || kind == "auto"),
    };
    if draft.adapts() && !loaded && matches!(program, Program::Trl | Program::Transformers) {
        let what = "frozen weights are counted in 16 bits: without dtype they have 32";
        draft.inferred.push(what.to_owned());
    }
    let narrow = loaded && draft.get("precision") == Some("bf16") && !draft.adapts();
    let states = if narrow { "states in bf16" } else { "gradients in fp32" };
    let kind = format!("none, ddp, {states}");
    draft.usually(Whose::Program, [("sharding", kind.as_str()), ("overlap", "gradients")]);
    Ok(())
}

fn deepspeed(draft: &mut Draft, stage: &str, host: [bool; 2]) -> Result<()> {
    if !matches!(stage, "0" | "1" | "2" | "3") {
        draft.asked.push(format!("sharding (zero stage {stage})"));
        return Ok(());
    }
    draft.put("sharding", deepspeed::sharding(stage, "", host, 1.0))
}

/// Flags of scripts that train adapters: of QwenLM/Qwen, LLaVA, Qwen3-VL and others, open-instruct, InternVL (with the
/// rank), whose ranks are 64 and whose products are all unless they say otherwise, and of FastChat's by their name.
const OWN_LORA: [&str; 6] =
    ["use_lora", "use_qlora", "q_lora", "lora_enable", "use_llm_lora", LORA_SCRIPT];

/// The key of a script that is called `…_lora.py`.
const LORA_SCRIPT: &str = "lora_script";

fn adapters(keys: &Keys, program: Program, draft: &mut Draft) -> Result<()> {
    let kind = keys.any(&["adapter", "finetuning_type", "train_type", "tuner_type"]);
    let own = OWN_LORA.iter().any(|key| keys.is(&[key]));
    let said = own || keys.is(&["use_peft"]) || keys.is(&["lora_dim"]);
    let kind = kind.or(said.then_some("lora")).or(program.usual("kind"));
    match kind.unwrap_or("full") {
        "full" => return Ok(()),
        "lora" | "qlora" => {}
        other => {
            return Err(Error::unsupported(format!("training of `{other}`"))
                .help("all parameters, or LoRA's adapters, have a plan"));
        }
    }
    let usual = |key| match (own, key) {
        (true, "rank") => "64",
        (true, "adapters") => "all",
        _ => program.usual(key).unwrap_or_default(),
    };
    let rank =
        keys.any(&["lora_r", "lora_rank", "lora_dim", "use_llm_lora"]).unwrap_or_else(|| {
            draft.inferred.push(format!("adapters of rank {}", usual("rank")));
            usual("rank")
        });
    let on = match keys.any(&["lora_target_modules", "lora_target", "target_modules"]) {
        _ if keys.is(&["lora_target_linear"]) => "all",
        Some(named) => named,
        None if keys.is(&["lora_dim"]) => "all",
        None => usual("adapters"),
    };
    let text = format!("rank {rank} on {on}");
    match text.parse::<Adapters>() {
        Ok(adapters) => draft.put("adapters", adapters.to_string())?,
        Err(_) => draft.asked.push(format!("adapters ({text})")),
    }
    let bits = keys.any(&["quantization_bit", "quant_bits", "bits"]);
    if kind == Some("qlora")
        || bits == Some("4")
        || keys.is(&["load_in_4bit", "q_lora", "use_qlora"])
    {
        draft.put("weights_type", "nf4")?;
    } else if bits == Some("8") || keys.is(&["load_in_8bit"]) {
        draft.put("weights_type", "int8")?;
    }
    if keys.any(&["lora_modules_to_save", "modules_to_save"]).is_some() {
        draft.unread.push("modules that are saved, and trained, beside adapters".to_owned());
    }
    Ok(())
}

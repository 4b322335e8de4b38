//! Megatron-LM's arguments, in a script or a list of them, or under `MODEL_ARGS` of a YAML.
//!
//! Sources: github.com/NVIDIA/Megatron-LM, `megatron/training/arguments.py`: names and defaults;
//! `tests/functional_tests/test_cases/*/*/model_config.yaml` and github.com/yanring/Megatron-MoE-ModelZoo,
//! `model_configs/benchmarking`: the YAML.

use super::arguments::Arguments;
use super::draft::Draft;
use super::files::{is_yaml, known};
use super::huggingface;
use super::model::{Attention, Experts, Linear, Rule, Small, Transformer};
use super::pattern;
use super::shell::{Statement, as_written, statements};
use super::started::{Started, alike, asked, distinct, launched, trainings};
use super::trainer::{FULL, PACKED, rewards, swift_adapters};
use crate::base::error::{Error, Result};

/// One of these is in every command that starts a training; Python takes both signs.
const MARKS: [&str; 7] = [
    "--num-layers",
    "--tensor-model-parallel-size",
    "--tensor_model_parallel_size",
    "--pipeline-model-parallel-size",
    "--pipeline_model_parallel_size",
    "--expert-model-parallel-size",
    "--expert_model_parallel_size",
];

/// Whether a text contains such arguments.
pub(super) fn is(text: &str) -> bool {
    MARKS.iter().any(|mark| text.contains(mark))
        || SWIFT.iter().any(|start| text.contains(start)) && of_swift(&statements(text))
}

/// Whether a script starts ms-swift's Megatron.
fn of_swift(all: &[Statement]) -> bool {
    !trainings(all, &SWIFT).is_empty()
}

/// Whether the options are keys of a table: `--num-layers: 32`.
fn has_options(text: &str) -> bool {
    text.lines().any(|line| {
        let key = line.trim_start().strip_prefix("--").and_then(|rest| rest.split_once(':'));
        key.is_some_and(|(key, _)| key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'))
    })
}

/// Items of lists such as `- --key` and `- value`, in one line each; those in brackets as words.
fn joined(yaml: &str) -> String {
    // `args: ["--key", "value"]`
    let in_words = |line: &str| {
        let list = line.split_once(": ").map_or(line, |(_, list)| list).trim();
        let inner = list.strip_prefix('[')?.strip_suffix(']')?;
        let quote = if inner.contains('"') { '"' } else { '\'' };
        let items: Vec<&str> = inner.split(quote).skip(1).step_by(2).collect();
        inner.contains("--").then(|| items.join(" "))
    };
    let item = |line: &str| {
        let item = line.trim().strip_prefix("- ")?.trim().trim_matches(['"', '\'']).to_owned();
        Some(item).filter(|item| !item.is_empty() && !item.contains(' '))
    };
    let mut lines = yaml.lines().peekable();
    let mut out = String::with_capacity(yaml.len());
    while let Some(line) = lines.next() {
        let key = item(line).filter(|item| item.starts_with("--") && !item.contains('='));
        let value = lines.peek().and_then(|next| item(next)).filter(|next| !next.starts_with('-'));
        match (key, value) {
            (Some(key), Some(value)) => {
                out.push_str(&format!("{key} {value}"));
                lines.next();
            }
            _ => out.push_str(in_words(line).as_deref().unwrap_or(line)),
        }
        out.push('\n');
    }
    out
}

/// The arguments of the training that a script starts, or of all of a text that starts none, and whether it is known
/// to start one.
fn of_script(all: &[Statement], file: &str) -> Result<(Arguments, bool)> {
    let mut found = trainings(all, &[&MARKS[..], &SWIFT].concat());
    let is_training = |one: &Started| {
        let mut words = one.statement.text.split_whitespace();
        words.any(|word| word.ends_with(".py") && TRAINS.iter().any(|name| word.contains(name)))
            || SWIFT.iter().any(|start| one.statement.text.contains(start))
    };
    let trains = found.iter().any(is_training);
    // A converter beside it has the model's flags, too.
    found.retain(|one| !trains || is_training(one));
    let refused: Option<Vec<Error>> = found.iter().map(|one| other(&one.statement.text)).collect();
    if let Some(error) = refused.unwrap_or_default().into_iter().next() {
        return Err(error.at(file.to_owned()));
    }
    let sure = distinct(&found, "trainings", file)?;
    if sure.is_empty() {
        return Ok((Arguments::read(all.to_vec()), trains));
    }
    let keys = COUNTS.iter().map(|(_, own)| own).chain(WIDTHS).chain(COMPARED);
    Ok((alike(&sure, all, keys, file)?, trains))
}

/// Parts of names of scripts that train, of those that train another kind of model, and of those that do not train.
const TRAINS: [&str; 2] = ["train", "finetune"];
const MODELS: [&str; 7] = ["bert", "t5", "ict", "retro", "biencoder", "vision", "retriever"];
const TOOLS: [&str; 6] = ["convert", "preprocess", "generat", "eval", "analyze", "merge"];

/// The refusal of a command whose Python file says that it does not train a model that reads and continues a text.
fn other(text: &str) -> Option<Error> {
    let name = |word: &str| word.rsplit('/').next().unwrap_or(word).to_ascii_lowercase();
    let mut files = text.split_whitespace().filter(|word| word.ends_with(".py")).map(name);
    files.find_map(|name| {
        let mut words = name.trim_end_matches(".py").split(['_', '-']);
        if words.any(|word| MODELS.contains(&word)) {
            let what = format!("{name}: its model is no decoder of text");
            return Some(Error::unsupported(what).help("models that continue a text have a plan"));
        }
        let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
        (has(&TOOLS) && !has(&TRAINS)).then(|| {
            Error::unsupported(format!("{name} does not train"))
                .help("name the script of a training")
        })
    })
}

/// What trainings of one script also share, if they are one.
const COMPARED: &[&str] = &[
    "nnodes",
    "nproc-per-node",
    "bf16",
    "fp16",
    "fp8-format",
    "use-distributed-optimizer",
    "sequence-parallel",
    "recompute-granularity",
    "recompute-activations",
    "use-megatron-fsdp",
    "use-torch-fsdp2",
    "optimizer-cpu-offload",
    "overlap-grad-reduce",
    "overlap-param-gather",
    // Those of ms-swift.
    "model",
    "max-length",
    "packing-length",
    "packing",
    "tuner-type",
    "train-type",
    "lora-rank",
    "target-modules",
];

/// Keys of a job that are counts, and their flags.
const COUNTS: [(&str, &str); 11] = [
    ("tp", "tensor-model-parallel-size"),
    ("pp", "pipeline-model-parallel-size"),
    ("cp", "context-parallel-size"),
    ("ep", "expert-model-parallel-size"),
    ("etp", "expert-tensor-parallel-size"),
    ("micro_batch", "micro-batch-size"),
    ("global_batch", "global-batch-size"),
    ("sequence", "seq-length"),
    ("chunks_per_stage", "num-virtual-stages-per-pipeline-rank"),
    ("layers_per_chunk", "num-layers-per-virtual-pipeline-stage"),
    // Sets of replicas that each hold all states (`num_distributed_optimizer_instances`,
    // megatron/core/distributed/distributed_data_parallel_config.py).
    ("replicate", "num-distributed-optimizer-instances"),
];

/// Reads arguments.
///
/// # Errors
/// A list of layers with experts that is not as long as the model; several trainings in one script.
pub(super) fn read(text: &str, file: &str) -> Result<Draft> {
    let is_table = has_options(text);
    let all = match is_yaml(file) && !is_table {
        true => statements(&joined(text)),
        false => statements(text),
    };
    let (mut args, trains) =
        if is_table { (Arguments::of_yaml(text), true) } else { of_script(&all, file)? };
    let mut draft =
        Draft { inferred: args.open().collect(), starts: !old(&args), ..Draft::default() };
    let of_swift = of_swift(&all);
    if !trainings(&all, &SWIFT[2..]).is_empty() {
        return Err(rewards(args.any(&["rlhf-type"]).unwrap_or("dpo")));
    }
    if of_swift {
        swift(&mut args, &mut draft)?;
    }
    model(&args, &mut draft)?;
    launched(text, &all, &args, &mut draft)?;
    put(&args, trains, &mut draft)?;
    Ok(draft)
}

/// Puts what arguments say beside the model and the GPUs; `trains`: they are those of a training.
///
/// # Errors
/// A value that its key does not take.
pub(super) fn put(args: &Arguments, trains: bool, draft: &mut Draft) -> Result<()> {
    let without_experts = draft.model.as_ref().is_some_and(|model| model.experts.is_none());
    let tp = args.number(&["tensor-model-parallel-size"]).unwrap_or(1);
    let pp = args.number(&["pipeline-model-parallel-size"]).unwrap_or(1);
    for (key, own) in COUNTS {
        // Megatron-DeepSpeed has another name.
        let own = match key {
            "ep" if args.has("moe-expert-parallel-size") => "moe-expert-parallel-size",
            // Beside images the language model has a length of its own.
            "sequence" if args.has(own) && args.has("decoder-seq-length") => "decoder-seq-length",
            _ => own,
        };
        match args.any(&[own]) {
            _ if without_experts && matches!(key, "ep" | "etp") => {}
            Some(value) if value.parse::<u32>().is_ok() => draft.put(key, value)?,
            None if args.has(own) => draft.asked.push(format!("{key} (--{own} has no value)")),
            Some(value) => draft.asked.push(asked(args, key, &[own], value)),
            None => {}
        }
    }
    if trains
        && draft.get("global_batch").is_none()
        && !args.has("global-batch-size")
        && !args.has("rampup-batch-size")
    {
        // One micro-batch of each replica (`global_batch_size`, megatron/training/arguments.py).
        draft.put("accumulation", "1")?;
    }
    if let Some(layout) = args.any(&["pipeline-model-parallel-layout"])
        && let Some(stages) = pattern::stages(layout)
    {
        draft.put("chunks_per_stage", (stages / pp.max(1)).max(1).to_string())?;
    }
    if pp == 1
        || (draft.get("chunks_per_stage").is_none() && draft.get("layers_per_chunk").is_none())
    {
        draft.put("chunks_per_stage", "1")?;
    }
    let layers = draft.model.as_ref().map_or(0, |model| model.layers);
    let placed = SPLITS.iter().chain(&HYBRID).any(|key| args.has(key));
    if pp > 1 && !layers.is_multiple_of(pp) && !placed {
        draft.inferred.push(format!(
            "{layers} layers are no whole number on each of {pp} stages: Megatron-LM refuses them without --{}",
            SPLITS[0]
        ));
    }
    if args.has("sequence-parallel") && tp > 1 {
        draft.put("sequence_parallel", "true")?;
    }
    // The second is Megatron-DeepSpeed's.
    let ulysses = args.number(&["ds-sequence-parallel-size"]).filter(|ranks| *ranks > 1);
    if let Some(ranks) = ulysses {
        draft.put_ulysses(ranks)?;
    } else if args.any(&["cp-comm-type"]) == Some("a2a") {
        draft.put("ulysses", "true")?;
    }
    precision(args, draft)?;
    recompute(args, draft)?;
    sharding(args, draft)?;
    // The default is an all-gather (`moe_token_dispatcher_type`, megatron/core/transformer/transformer_config.py).
    if args.has("num-experts") || draft.called.is_some() {
        let kind = args.any(&["moe-token-dispatcher-type"]).unwrap_or("allgather");
        draft.put("dispatcher", kind)?;
    }
    // The last two are older names (`validate_args`, megatron/training/arguments.py).
    let replays = args.any(&["cuda-graph-impl"]).is_some_and(|how| how != "none")
        || args.has("enable-cuda-graph")
        || args.has("external-cuda-graph");
    draft.put("cuda_graphs", replays.to_string())?;
    fuse(args, draft)?;
    if let Some(limit) = args.number(&["moe-router-group-topk"]) {
        draft.inferred.push(format!("tokens go to at most {limit} groups of experts"));
    }
    let linear = draft.model.as_ref().is_some_and(|model| model.linear.is_some());
    let names = ["experimental-attention-variant", "linear-attention-type"];
    let of_linear = |key: &str| linear && names.contains(&key);
    let given = SPLITS
        .iter()
        .chain(UNPRICED)
        .filter(|key| args.get(key).is_some_and(|value| !OFF.contains(&value)) && !of_linear(key));
    draft.unread.extend(given.map(|key| format!("--{key}")));
    if let Some(other) = args.any(&["optimizer"]).filter(|name| !name.contains("adam")) {
        draft.unread.push(format!("--optimizer {other}: its states are counted as Adam's"));
    }
    attention(args, draft)
}

/// Options that give stages layers of their own.
const SPLITS: [&str; 5] = [
    "pipeline-model-parallel-layout",
    "decoder-first-pipeline-num-layers",
    "decoder-last-pipeline-num-layers",
    "account-for-embedding-in-pipeline-split",
    "account-for-loss-in-pipeline-split",
];

/// What changes memory or time and is not priced, beside those.
const UNPRICED: &[&str] = &[
    // Layers of their own.
    "heterogeneous-layers-config-path",
    "heterogeneous-layers-config-encoded-json",
    "experimental-attention-variant",
    "linear-attention-type",
    "window-size",
    "mtp-num-layers",
    "enable-mhc-connections",
    // Weights that only some ranks keep (`resolve_tensor_parallel_weight_shards`, megatron/core/model_parallel_config.py).
    "tensor-parallel-num-weight-shards",
    "expert-tensor-parallel-num-weight-shards",
    // Other types.
    "exp-avg-dtype",
    "exp-avg-sq-dtype",
    "main-params-dtype",
    "megatron-fsdp-main-params-dtype",
    "fp8-param-gather",
    "fp4-param-gather",
    "fp32-residual-connection",
    "first-last-layers-bf16",
    // What is kept of activations, and where.
    "cpu-offloading",
    "cpu-offloading-num-layers",
    "fine-grained-activation-offloading",
    "distribute-saved-activations",
    "distribute-checkpointed-activations",
    "partition-activations",
    "checkpoint-in-cpu",
    "moe-layer-recompute",
    "moe-paged-stash",
    // Other calls, or other bytes.
    "moe-expert-capacity-factor",
    "moe-expert-rank-capacity-factor",
    "hybrid-context-parallel",
    "cp-comm-type",
    "overlap-param-gather-with-optimizer-step",
    "use-tp-pp-dp-mapping",
    "no-overlap-p2p-communication",
    "use-nccl-ub",
    "use-sharp",
    // Parameters that are not trained.
    "freeze-LM",
    "freeze-ViT",
    "outer-dp-sharding-strategy",
    "torch-fsdp2-no-reshard-after-forward",
];

/// Values with which such an option is as priced.
const OFF: &[&str] = &["none", "fp32", "0", "p2p", "a2a", "no_shard"];

/// The names that recomputation had until 2022 (`--checkpoint-activations` alone until 2021).
const CHECKPOINTS: [&str; 5] = [
    "checkpoint-activations",
    "activations-checkpoint-granularity",
    "activations-checkpoint-method",
    "activations-checkpoint-num-layers",
    "checkpoint-num-layers",
];

/// Whether it is of those years.
fn old(args: &Arguments) -> bool {
    CHECKPOINTS.iter().any(|key| args.has(key))
}

/// `auto`, the default, leaves it to Transformer Engine.
fn attention(args: &Arguments, draft: &mut Draft) -> Result<()> {
    let local = args.any(&["transformer-impl"]) == Some("local");
    let how = match args.any(&["attention-backend"]) {
        Some("unfused" | "local") => "unfused",
        Some(_) => "flash",
        None if args.has("use-flash-attn") => "flash",
        None if local || old(args) => "unfused",
        None => return Ok(()),
    };
    draft.put("attention", how)
}

/// Widths that count if they are given.
const WIDTHS: &[&str] = &[
    "num-layers",
    "hidden-size",
    "num-attention-heads",
    "ffn-hidden-size",
    "kv-channels",
    "num-query-groups",
    "max-position-embeddings",
    "vocab-size",
    "padded-vocab-size",
    "make-vocab-size-divisible-by",
    "num-experts",
    "moe-router-topk",
    "moe-ffn-hidden-size",
    "moe-shared-expert-intermediate-size",
    "q-lora-rank",
    "kv-lora-rank",
    "qk-pos-emb-head-dim",
    "qk-head-dim",
    "v-head-dim",
    "linear-num-key-heads",
    "linear-key-head-dim",
    "linear-num-value-heads",
    "linear-value-head-dim",
    "linear-conv-kernel-dim",
];

/// The widths that arguments give, beside the length for which a table of positions is made.
pub(super) fn widths_said(args: &Arguments) -> impl Iterator<Item = &'static str> {
    let apart = ["max-position-embeddings", "make-vocab-size-divisible-by"];
    WIDTHS.iter().copied().filter(move |key| !apart.contains(key) && args.has(key))
}

/// Flags of models whose layers no widths describe.
const APART: [&str; 2] = ["is-hybrid-model", "moe-latent-size"];

/// How ms-swift starts Megatron, with its flags and other defaults.
const SWIFT: [&str; 3] = ["megatron sft", "megatron pt", "megatron rlhf"];

/// What ms-swift names in another way or assumes (modelscope/ms-swift, swift/megatron/arguments).
fn swift(args: &mut Arguments, draft: &mut Draft) -> Result<()> {
    draft.called = args.any(&["model"]).map(str::to_owned);
    let longest = args.any(&["packing-length", "max-length"]).map(str::to_owned);
    if let Some(longest) = longest {
        args.put_usual("seq-length", &longest);
    }
    if let Some(chunks) = args.any(&["virtual-pipeline-model-parallel-size"]).map(str::to_owned) {
        args.put_usual("num-virtual-stages-per-pipeline-rank", &chunks);
    }
    for (key, value) in [
        ("bf16", "true"),
        ("use-distributed-optimizer", "true"),
        ("micro-batch-size", "1"),
        ("global-batch-size", "16"),
        ("recompute-granularity", "selective"),
        ("expert-tensor-parallel-size", "1"),
        ("moe-token-dispatcher-type", "alltoall"),
    ] {
        args.put_usual(key, value);
    }
    // A default that is switched off is not there, either.
    args.without_off();
    draft.inferred.push(if args.has("packing") { PACKED } else { FULL }.to_owned());
    swift_adapters(args, draft)
}

/// Puts the model into the draft, or asks for what the text does not say.
pub(super) fn model(args: &Arguments, draft: &mut Draft) -> Result<()> {
    let open: Vec<_> =
        WIDTHS.iter().filter(|k| args.has(k) && args.number(&[k]).is_none()).collect();
    let value = |key: &str| as_written(args.get(key).unwrap_or(""));
    let asked = open.iter().map(|key| format!("--{key} {}", value(key)));
    let asked: Vec<String> = asked.map(|one| one.trim_end().to_owned()).collect();
    if !asked.is_empty() {
        draft.asked.push(format!("model ({})", asked.join(", ")));
        return Ok(());
    }
    let pattern = HYBRID.iter().find_map(|key| Some((key, args.any(&[key])?)));
    if let Some(what) = other_layers(args).filter(|_| pattern.is_none()) {
        draft.asked.push(format!("model ({what})"));
        return Ok(());
    }
    let (words, whose) = words(args);
    draft.model = match pattern {
        Some((_, pattern)) => hybrid(args, pattern, words),
        None => widths(args, words)?,
    };
    if let (Some((key, pattern)), None) = (pattern, &draft.model) {
        draft.asked.push(format!("model (--{key} {pattern} is not read)"));
    }
    if draft.model.is_some() && !args.has("padded-vocab-size") {
        draft.inferred.extend(whose);
    }
    Ok(())
}

/// What says that layers are not those of the widths beside it.
fn other_layers(args: &Arguments) -> Option<String> {
    if let Some(key) = APART.iter().find(|key| args.has(key)) {
        return Some(format!("--{key} is not read"));
    }
    for key in ["moe-layer-freq", "linear-attention-freq"] {
        if let Some(frequency) = args.any(&[key]).filter(|text| !is_frequency(text)) {
            return Some(format!("--{key} {frequency}"));
        }
    }
    let lacks = is_linear(args) && !args.has("linear-attention-freq");
    lacks.then(|| "--linear-attention-freq is not there".to_owned())
}

/// Layers of one part each, by a letter: a state space, attention, a feed-forward part, experts. The second name is older.
const HYBRID: [&str; 2] = ["hybrid-layer-pattern", "hybrid-override-pattern"];

/// The model of such layers, as its config.json would have it; defaults are those of `TransformerConfig` and of
/// `HybridModel` (megatron/core/models/hybrid, megatron/training/arguments.py). None for letters and parts that are not
/// those of Nemotron.
fn hybrid(args: &Arguments, pattern: &str, words: u32) -> Option<Transformer> {
    if args.has("multi-latent-attention") {
        return None;
    }
    // Stages are apart by `|`, and behind `/` are the layers of further tokens.
    let own = pattern.split('/').next().unwrap_or("").replace('|', "");
    let of = |key: &str| args.number(&[key]);
    let (hidden, heads) = (of("hidden-size")?, of("num-attention-heads")?);
    let ffn = of("ffn-hidden-size").unwrap_or(hidden.saturating_mul(4));
    let (states, wide) = (of("mamba-head-dim").unwrap_or(64), hidden.checked_mul(2)?);
    let config = serde_json::json!({
        "model_type": "nemotron_h",
        "hybrid_override_pattern": own,
        "hidden_size": hidden,
        "intermediate_size": ffn,
        "num_attention_heads": heads,
        "num_key_value_heads": key_heads(args).unwrap_or(heads),
        "head_dim": of("kv-channels").or(hidden.checked_div(heads))?,
        "vocab_size": vocabulary(args, words),
        "tie_word_embeddings": !args.has("untie-embeddings-and-output-weights"),
        "n_routed_experts": of("num-experts"),
        "num_experts_per_tok": of("moe-router-topk").unwrap_or(2),
        "moe_intermediate_size": of("moe-ffn-hidden-size").unwrap_or(ffn),
        "moe_shared_expert_intermediate_size": of("moe-shared-expert-intermediate-size").unwrap_or(0),
        "moe_latent_size": of("moe-latent-size"),
        "n_groups": of("mamba-num-groups").unwrap_or(8),
        "ssm_state_size": of("mamba-state-dim").unwrap_or(128),
        "mamba_num_heads": of("mamba-num-heads").or(wide.checked_div(states))?,
        "mamba_head_dim": states,
        "conv_kernel": 4,
    });
    let mut model = huggingface::read(&config.to_string(), "").ok()?.model?;
    // Nemotron's own parts have no gates.
    model.gated = args.has("swiglu");
    if let Some(experts) = &mut model.experts {
        experts.gated = model.gated;
    }
    Some(model)
}

/// The size of the vocabulary: as given, that of the known model whose tokenizer is named, or GPT-2's; and where it
/// comes from if it is not given.
fn words(args: &Arguments) -> (u32, Option<String>) {
    if let Some(words) = args.number(&["vocab-size"]) {
        return (words, None);
    }
    let named = args.any(&["tokenizer-model"]);
    let of = |name: &str| Some(known(name).ok()?.model?.vocab);
    // The types that name a vocabulary (megatron/training/tokenizer/tokenizer.py).
    let by_type = match args.any(&["tokenizer-type"]) {
        Some("Llama2Tokenizer") => Some(("Llama 2", 32_000)),
        Some("BertWordPieceLowerCase") => Some(("BERT", 30_522)),
        Some("BertWordPieceCase") => Some(("BERT", 28_996)),
        _ => None,
    };
    match named.and_then(|name| Some((name, of(name)?))).or(by_type) {
        Some((name, words)) => (words, Some(format!("{words} words, as {name} has"))),
        None => (WORDS, Some(format!("{WORDS} words, as in GPT-2: the tokenizer is not read"))),
    }
}

/// The size of GPT-2's vocabulary, which Megatron's recipes train with.
const WORDS: u32 = 50257;

/// So many words with the rows that make them divide over the ranks of TP.
fn vocabulary(args: &Arguments, words: u32) -> u32 {
    let of = |key: &str, usual: u32| args.number(&[key]).unwrap_or(usual);
    let tp = of("tensor-model-parallel-size", 1);
    let multiple = of("make-vocab-size-divisible-by", 128).saturating_mul(tp).max(1);
    of("padded-vocab-size", words.div_ceil(multiple).saturating_mul(multiple))
}

/// Heads of keys and values, if they are fewer than those of queries.
fn key_heads(args: &Arguments) -> Option<u32> {
    args.number(&["num-query-groups"]).filter(|_| args.has("group-query-attention"))
}

fn widths(args: &Arguments, words: u32) -> Result<Option<Transformer>> {
    let needed =
        ["num-layers", "hidden-size", "num-attention-heads"].map(|key| args.number(&[key]));
    let [Some(layers), Some(hidden), Some(heads)] = needed else { return Ok(None) };
    let gated = args.has("swiglu") || args.has("quick-geglu");
    // With a gate, as many parameters as without.
    let absent = if gated { (u64::from(hidden) * 8 / 3 / 64 * 64) as u32 } else { 4 * hidden };
    let ffn = args.number(&["ffn-hidden-size"]).unwrap_or(absent);
    let head = args.number(&["kv-channels"]).unwrap_or(hidden / heads.max(1));
    let attention = if args.has("multi-latent-attention") {
        let of = |key: &str, absent: u32| args.number(&[key]).unwrap_or(absent);
        Attention::Latent {
            query: of("q-lora-rank", 0),
            latent: of("kv-lora-rank", 32),
            rope: of("qk-pos-emb-head-dim", 64),
            nope: of("qk-head-dim", 128),
            value: of("v-head-dim", 128),
        }
    } else {
        Attention::Grouped { kv_heads: key_heads(args).unwrap_or(heads), head }
    };
    // No other kind has a table (`language_model_embedding.py`).
    let learned = args.any(&["position-embedding-type"]).is_none_or(|t| t == "learned_absolute");
    let positions =
        if learned { args.number(&["max-position-embeddings"]).unwrap_or(0) } else { 0 };
    // Megatron-DeepSpeed's defaults (github.com/deepspeedai/Megatron-DeepSpeed, megatron/arguments.py).
    let deepspeed = args.has("deepspeed");
    let moe_layers = match deepspeed {
        true => layers / args.number(&["expert-interval"]).unwrap_or(2).max(1),
        false => moe_layers(args, layers)?,
    };
    // One expert, or none, is a dense layer.
    let several = args.number(&["num-experts"]).filter(|count| *count > u32::from(deepspeed));
    let experts = several.map(|experts| Experts {
        layers: moe_layers,
        experts,
        top_k: args.number(&["moe-router-topk", "topk"]).unwrap_or(if deepspeed { 1 } else { 2 }),
        ffn: args.number(&["moe-ffn-hidden-size"]).unwrap_or(ffn),
        shared: args.number(&["moe-shared-expert-intermediate-size"]).unwrap_or(0),
        router_bias: args.has("moe-router-enable-expert-bias"),
        bias: false,
        gated,
        latent: None,
    });
    let h = u64::from(hidden);
    let norm = if args.any(&["normalization"]) == Some("RMSNorm") { h } else { 2 * h };
    // Biases of q, k, v, the output and the feed-forward part.
    let inner = u64::from(if gated { 2 * ffn } else { ffn });
    let biases = match attention {
        _ if args.has("disable-bias-linear") => 0,
        Attention::Grouped { kv_heads, head } => {
            u64::from(heads * head) + 2 * u64::from(kv_heads * head) + h + inner + h
        }
        Attention::Latent { .. } | Attention::Compressed { .. } => h + inner + h,
    };
    Ok(Some(Transformer {
        layers,
        hidden,
        ffn,
        gated,
        dense: None,
        heads,
        attention,
        keys_are_values: false,
        reusing: 0,
        per_layer: 0,
        attention_gate: args.has("attention-output-gate"),
        linear: linear(args, layers)?,
        vocab: vocabulary(args, words),
        tied: !args.has("untie-embeddings-and-output-weights"),
        positions,
        experts,
        window: None,
        indexer: None,
        small: Small { layer: 2 * norm + biases, outside: norm },
        summed_once: false,
    }))
}

fn is_linear(args: &Arguments) -> bool {
    // The second is the older name.
    let kind = args.any(&["experimental-attention-variant", "linear-attention-type"]);
    matches!(kind, Some("gdn" | "gated_delta_net"))
}

/// Layers with linear attention; widths have the defaults of `TransformerConfig`
/// (megatron/core/transformer/transformer_config.py).
fn linear(args: &Arguments, layers: u32) -> Result<Option<Linear>> {
    let key = "linear-attention-freq";
    let Some(frequency) = args.any(&[key]).filter(|_| is_linear(args)) else { return Ok(None) };
    let linear = match pattern::list(frequency) {
        Some(list) => of_list(&list, layers, key, frequency)?,
        // The last of each so many is not.
        None => layers - layers / frequency.parse().unwrap_or(1).max(1),
    };
    let of = |key: &str, usual: u32| args.number(&[key]).unwrap_or(usual);
    Ok(Some(Linear {
        rule: Rule::Delta,
        layers: linear,
        key_heads: of("linear-num-key-heads", 16),
        key: of("linear-key-head-dim", 128),
        value_heads: of("linear-num-value-heads", 32),
        value: of("linear-value-head-dim", 128),
        kernel: of("linear-conv-kernel-dim", 4),
    }))
}

/// Layers of which a list of one entry a layer is true.
fn of_list(list: &[bool], layers: u32, key: &str, text: &str) -> Result<u32> {
    if list.len() != layers as usize {
        let what = format!("{text} is a list of {} layers, but the model has {layers}", list.len());
        return Err(Error::input(what).at(format!("--{key}")).help("write one entry a layer"));
    }
    Ok(list.iter().filter(|one| **one).count() as u32)
}

/// Whether it is `2`, or a list such as `([0]*3+[1]*58)`.
fn is_frequency(text: &str) -> bool {
    text.parse::<u32>().is_ok() || pattern::list(text).is_some()
}

/// Layers with experts.
fn moe_layers(args: &Arguments, layers: u32) -> Result<u32> {
    let Some(text) = args.any(&["moe-layer-freq"]) else { return Ok(layers) };
    let Some(list) = pattern::list(text) else {
        // The first of each so many.
        return Ok(layers.div_ceil(text.parse().unwrap_or(1).max(1)));
    };
    of_list(&list, layers, "moe-layer-freq", text)
}

fn precision(args: &Arguments, draft: &mut Draft) -> Result<()> {
    let fp8 = args.any(&["fp8-format"]).is_some() || args.has("fp8-hybrid");
    let fp4 = args.any(&["fp4-format"]).is_some();
    if !(fp8 || fp4 || args.has("fp16") || args.has("bf16")) {
        draft
            .inferred
            .push("bf16: without --bf16 and --fp16 Megatron trains in 32 bits".to_owned());
    }
    if fp8 && args.any(&["fp8-recipe"]) == Some("blockwise") {
        let what = "priced with a scale for each tensor, not for blocks, whose products are slower";
        draft.inferred.push(what.to_owned());
    }
    draft.put(
        "precision",
        if fp4 {
            "nvfp4"
        } else if fp8 {
            "fp8"
        } else if args.has("fp16") {
            "fp16"
        } else {
            "bf16"
        },
    )
}

/// Transformer Engine computes all experts of a rank in one kernel in MXFP8 alone, and where gates lie beside what they
/// gate in groups of 32 (`ForwardGroupedMLP_CuTeGEMMSwiGLU_MXFP8`, transformer_engine/pytorch/ops/fused of
/// github.com/NVIDIA/TransformerEngine).
fn fuse(args: &Arguments, draft: &mut Draft) -> Result<()> {
    let fused = args.has("use-transformer-engine-op-fuser")
        && args.any(&["fp8-recipe"]) == Some("mxfp8")
        && args.number(&["moe-mlp-glu-interleave-size"]) == Some(32);
    if fused { draft.put("fused_experts", "true") } else { Ok(()) }
}

fn recompute(args: &Arguments, draft: &mut Draft) -> Result<()> {
    let granularity = args.any(&["recompute-granularity", "activations-checkpoint-granularity"]);
    // A number of layers alone is a default of scripts; without a method nothing ran again.
    let method = args.any(&["recompute-method", "activations-checkpoint-method"]);
    let early = args.has("checkpoint-activations") || args.has("activations-checkpoint-method");
    let full = granularity == Some("full") || (early && granularity.is_none());
    let selective = args.has("recompute-activations") || granularity == Some("selective");
    // Attention's core is the default.
    let modules = args.any(&["recompute-modules"]).map(|all| all.trim_matches(['[', ']']));
    let modules = modules.filter(|all| all.split(' ').any(|one| one != "core_attn"));
    let whole = |one: &str| {
        if ["mlp", "moe"].contains(&one) { one.to_owned() } else { "modules".to_owned() }
    };
    let words =
        |all: &str| all.split(' ').filter(|one| *one != "core_attn").map(whole).collect::<Vec<_>>();
    let layers = ["recompute-num-layers", "activations-checkpoint-num-layers"];
    let stated = args.number(&layers).or(early.then_some(1));
    let layers = stated.filter(|_| method == Some("block"));
    draft.put(
        "recompute",
        match (full, selective, modules, layers) {
            (true, _, _, Some(layers)) => format!("block {layers}"),
            (true, ..) => "full".to_owned(),
            (_, true, Some(all), _) => words(all).join(" "),
            (_, true, None, _) => "selective".to_owned(),
            _ => "none".to_owned(),
        },
    )
}

fn sharding(args: &Arguments, draft: &mut Draft) -> Result<()> {
    let own = ["megatron-fsdp-grad-comm-dtype", "megatron-fsdp-main-grads-dtype"];
    let own = own.iter().find_map(|key| args.any(&[key]).filter(|kind| *kind != "auto"));
    let wide = if args.has("use-megatron-fsdp") || args.has("use-torch-fsdp2") {
        // The type of the gradients unless told otherwise (`main_grads_dtype`, megatron_fsdp/mixed_precision.py);
        // modules are in 16 bits before PyTorch shards them.
        own == Some("fp32")
    } else {
        !(args.has("grad-reduce-in-bf16")
            || args.has("fp16") && !args.has("accumulate-allreduce-grads-in-fp32")
            || args.any(&["main-grads-dtype"]) == Some("bf16"))
    };
    let gradients = if wide { "gradients in fp32" } else { "gradients in 16 bits" };
    let strategy = args.any(&["data-parallel-sharding-strategy"]);
    // The last is an older name.
    let fsdp = ["use-megatron-fsdp", "use-torch-fsdp2", "use-custom-fsdp"];
    let kind = match (fsdp.iter().any(|key| args.has(key)), strategy) {
        (true, Some("optim_grads_params") | None) => "Megatron FSDP, zero3",
        (true, Some("optim_grads")) => "megatron zero2",
        (true, Some("no_shard")) => "none",
        _ if args.has("use-distributed-optimizer") || strategy == Some("optim") => "zero1",
        _ => match args.number(&["zero-stage"]) {
            Some(1) => "zero1",
            Some(2) => "zero2, deepspeed",
            Some(3) => "zero3",
            _ => "none",
        },
    };
    let host = match args.any(&["optimizer-offload-fraction"]) {
        _ if !args.has("optimizer-cpu-offload") => String::new(),
        part => format!(", offload of {} of the optimizer", part.unwrap_or("1")),
    };
    draft.put("sharding", format!("{kind}, {gradients}{host}"))?;
    let mut overlap = Vec::new();
    if args.has("overlap-grad-reduce") {
        // The gather of updated parameters is exposed unless that is set too.
        overlap.push(if args.has("overlap-param-gather") { "dp" } else { "gradients" });
    }
    if args.has("tp-comm-overlap") {
        overlap.push("tp");
    }
    if args.has("overlap-moe-expert-parallel-comm") {
        overlap.push("ep");
    }
    draft.put("overlap", overlap.join(","))
}

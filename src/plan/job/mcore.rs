//! YAML whose keys are Megatron-Core's: of Primus, of NeMo 1, and what Megatron-Bridge saves beside a checkpoint.
//!
//! Sources: github.com/AMD-AGI/Primus, `examples/megatron/configs` and `primus/configs`; github.com/NVIDIA/NeMo before 2.0,
//! `examples/nlp/language_modeling/conf/megatron_gpt_config.yaml`; github.com/NVIDIA-NeMo/Megatron-Bridge,
//! `src/megatron/bridge/training/config.py`: `ConfigContainer`, saved as `run_config.yaml`.

use std::collections::BTreeMap;

use super::arguments::{Arguments, is_off};
use super::draft::Draft;
use super::files::is_yaml;
use super::megatron;
use crate::base::error::{Error, Result};
use crate::base::yaml::{Scalar, is_absent, scalars};

/// Tables of a training at the top of NeMo's and Megatron-Bridge's files.
const TABLES: [&str; 8] =
    ["model", "trainer", "train", "dataset", "ddp", "optimizer", "comm_overlap", "mixed_precision"];

/// The table of Primus's files, below a module.
const OVERRIDES: &str = "overrides";

/// Degrees of which such a file has one.
const MARKS: [&str; 3] =
    ["tensor_model_parallel_size", "pipeline_model_parallel_size", "expert_model_parallel_size"];

/// Tables of adapters and of training by rewards.
const OTHERS: [&str; 5] = ["peft", "lora", "ppo", "dpo", "grpo"];

/// Keys and Megatron's arguments that say the same.
const NAMES: [(&str, &str); 14] = [
    ("virtual-pipeline-model-parallel-size", "num-virtual-stages-per-pipeline-rank"),
    ("encoder-seq-length", "seq-length"),
    ("num-moe-experts", "num-experts"),
    ("gated-linear-unit", "swiglu"),
    ("fp8", "fp8-format"),
    ("fp4", "fp4-format"),
    ("activations-checkpoint-granularity", "recompute-granularity"),
    ("activations-checkpoint-method", "recompute-method"),
    ("activations-checkpoint-num-layers", "recompute-num-layers"),
    ("use-flash-attention", "use-flash-attn"),
    ("ub-tp-comm-overlap", "tp-comm-overlap"),
    ("overlap-grad-sync", "overlap-grad-reduce"),
    ("overlap-param-sync", "overlap-param-gather"),
    ("precision", "bf16"),
];

/// Switches that are on, and Megatron's arguments that turn them off.
const OPPOSITE: [(&str, &str); 4] = [
    ("add-bias-linear", "disable-bias-linear"),
    ("bias", "disable-bias-linear"),
    ("share-embeddings-and-output-weights", "untie-embeddings-and-output-weights"),
    ("grad-reduce-in-fp32", "grad-reduce-in-bf16"),
];

/// Where a key of a training is, without what is above its table.
fn within(path: &[String]) -> Option<&[String]> {
    let at = match path.iter().position(|part| part == OVERRIDES) {
        Some(at) => at,
        None => path.first().filter(|top| TABLES.contains(&top.as_str())).map(|_| 0)?,
    };
    path.get(at + 1..).filter(|rest| !rest.is_empty())
}

/// Whether a text is such a file.
pub(super) fn is(text: &str, file: &str) -> bool {
    let is_degree = |one: &Scalar| {
        within(&one.path).is_some_and(|rest| rest.len() == 1 && MARKS.contains(&rest[0].as_str()))
    };
    is_yaml(file)
        && MARKS.iter().any(|mark| text.contains(mark))
        && scalars(text).iter().any(is_degree)
}

/// Reads a file.
///
/// # Errors
/// A value that its key does not take; adapters, or training by rewards.
pub(super) fn read(text: &str, file: &str) -> Result<Draft> {
    let all = scalars(text);
    let other = |one: &&Scalar| {
        let is_other = |part: &String| OTHERS.contains(&part.as_str());
        one.path.iter().any(is_other) && !is_absent(&one.text) && one.text != "none"
    };
    if let Some(one) = all.iter().find(other) {
        let path = one.path.join(".");
        return Err(Error::unsupported(format!(
            "{path} is not read: whole models are pre-trained here"
        ))
        .at(file.to_owned())
        .help("write the job in TOML; adapters = \"rank 16\" is a key of it"));
    }
    if let Some(kind) = other_model(&all) {
        return Err(Error::unsupported(format!("{kind}: the layers of its model are not read"))
            .at(file.to_owned())
            .help("models of attention that continue a text have a plan"));
    }
    let keys = keys(&all);
    let primus = all.iter().any(|one| one.path.iter().any(|part| part == OVERRIDES));
    let mut draft = Draft { starts: true, ..Draft::default() };
    let mut args = Arguments::default();
    for (key, value) in &keys {
        let own = key.replace('_', "-");
        if let Some((_, opposite)) = OPPOSITE.iter().find(|(name, _)| *name == own) {
            if is_off(value) {
                args.put_usual(opposite, "true");
            }
            continue;
        }
        let name =
            NAMES.iter().find(|(name, _)| *name == own).map_or(own.as_str(), |(_, name)| name);
        args.put_usual(name, value);
    }
    if primus {
        // primus/configs/modules/megatron, trainer_base.yaml and pre_trainer.yaml
        for key in ["bf16", "use-distributed-optimizer", "use-flash-attn"] {
            args.put_usual(key, "true");
        }
        args.put_usual("moe-token-dispatcher-type", "alltoall");
    }
    types(&mut args);
    let is_plain = args.get("multi-latent-attention").is_some_and(is_off);
    // A default that is switched off is not there, either.
    args.without_off();
    usual(&mut args);
    let dispatchers = [("use-turbo-deepep", "deepep"), ("moe-enable-deepep", "deepep")];
    let found = dispatchers.iter().find(|(key, _)| args.has(key)).map(|(_, how)| (*how).to_owned());
    if let Some(how) =
        found.or_else(|| args.any(&["moe-flex-dispatcher-backend"]).map(str::to_owned))
    {
        args.set("moe-token-dispatcher-type", how);
    }
    let named = all.iter().find(|one| {
        matches!(&one.path[..], [modules, _, model] if modules == "modules" && model == "model")
    });
    draft.called = named.map(|one| repository(&one.text));
    megatron::model(&args, &mut draft)?;
    let mut changed: Vec<String> =
        megatron::widths_said(&args).map(|key| format!("--{key}")).collect();
    // A model by name may have latent attention.
    if is_plain && draft.called.is_some() && draft.model.is_none() {
        changed.push("--multi-latent-attention false".to_owned());
    }
    if draft.model.is_none() && !changed.is_empty() && draft.asked.is_empty() {
        let of = draft.called.as_deref().map_or(String::new(), |name| format!(" of {name}"));
        draft.asked.push(format!("model ({}{of})", changed.join(", ")));
    }
    if let (Some(each), nodes) = (args.number(&["devices"]), args.number(&["num-nodes"])) {
        match nodes {
            Some(nodes) => draft.put("gpus", each.saturating_mul(nodes).to_string())?,
            None => draft.asked.push(format!("gpus (trainer.num_nodes times {each})")),
        }
    }
    megatron::put(&args, true, &mut draft)?;
    Ok(draft)
}

/// The values of the training's keys: those of a list as words, and those that name another as its value.
fn keys(all: &[Scalar]) -> BTreeMap<String, String> {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    for one in all {
        let Some(rest) = within(&one.path) else { continue };
        match rest {
            // Another table may only refer to the same key.
            [key] if one.text.starts_with("${") => {
                found.entry(key.clone()).or_insert_with(|| one.text.clone());
            }
            [key] => {
                found.insert(key.clone(), one.text.clone());
            }
            [table, key] if table == "optim" => {
                found.insert(key.clone(), one.text.clone());
            }
            // The repository of a tokenizer of Hugging Face.
            [table, key] if table == "tokenizer" && key == "type" => {
                found.insert("tokenizer_model".to_owned(), one.text.clone());
            }
            [key, place] if place.parse::<usize>().is_ok() => {
                let value = found.entry(key.clone()).or_default();
                value.push_str(if value.is_empty() { "" } else { " " });
                value.push_str(&one.text);
            }
            _ => {}
        }
    }
    let of = found.clone();
    for value in found.values_mut() {
        *value = product(value, &of).unwrap_or_else(|| with_defaults(value));
        // `${model.encoder_seq_length}`, or `${.encoder_seq_length}`
        let inner = value.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
        let named = inner.and_then(|inner| of.get(inner.rsplit('.').next()?));
        if let Some(other) = named.cloned() {
            *value = other;
        }
    }
    found
}

/// What says that a file of NeMo is of another kind of model: its name, or a table of such layers.
fn other_model(all: &[Scalar]) -> Option<&str> {
    const NAMES: [&str; 8] = ["bert", "t5", "griffin", "mamba", "retro", "vit", "ict", "hyena"];
    let is_other = |part: &str| part.split('_').any(|word| NAMES.contains(&word));
    let named = all.iter().find(|one| one.path.len() == 1 && one.path[0] == "name");
    let by_name = named.map(|one| one.text.as_str()).filter(|name| is_other(name));
    let mut keys = all.iter().flat_map(|one| &one.path).map(String::as_str);
    by_name.or_else(|| keys.find(|key| key.starts_with("hyena")))
}

/// What NeMo's own resolver makes of `${multiply:4, ${.hidden_size}}`.
fn product(text: &str, of: &BTreeMap<String, String>) -> Option<String> {
    let factors = text.strip_prefix("${multiply:")?.strip_suffix('}')?;
    let number = |factor: &str| {
        let named = factor.strip_prefix("${").and_then(|inner| inner.strip_suffix('}'));
        let known = named.and_then(|inner| of.get(inner.rsplit('.').next()?));
        known.map_or(factor, String::as_str).parse::<u64>().ok()
    };
    let mut all = factors.split(',').map(|factor| number(factor.trim()));
    Some(all.try_fold(1_u64, |product, factor| product.checked_mul(factor?))?.to_string())
}

/// A text with the defaults of the variables in it: `${NAME:default}` of Primus.
fn with_defaults(text: &str) -> String {
    let (mut whole, mut rest) = (String::new(), text);
    while let Some((before, behind)) = rest.split_once("${") {
        let is_name = |name: &str| {
            name.chars().all(|c| c.is_ascii_uppercase() || c == '_' || c.is_ascii_digit())
        };
        let Some((default, end)) = behind.split_once('}').and_then(|(inner, end)| {
            Some((inner.split_once(':').filter(|(name, _)| is_name(name))?.1, end))
        }) else {
            break;
        };
        whole.push_str(before);
        whole.push_str(default);
        rest = end;
    }
    whole.push_str(rest);
    whole
}

/// The types of products as Megatron's arguments say them.
fn types(args: &mut Arguments) {
    // A switch of NeMo beside which another says the format.
    if args.get("fp8-hybrid").is_some() && args.get("fp8-format").is_none_or(is_off) {
        args.set("fp8-hybrid", "false");
    }
    match args.get("bf16").unwrap_or("").to_owned().as_str() {
        "16" | "16-mixed" | "fp16" => {
            args.set("bf16", "false");
            args.set("fp16", "true");
        }
        "32" | "32-true" => args.set("bf16", "false"),
        _ => {}
    }
    let named = args.get("mixed-precision").unwrap_or("").to_owned();
    for (word, key, value) in [
        ("bf16", "bf16", "true"),
        ("fp16", "fp16", "true"),
        ("fp8", "fp8-format", "hybrid"),
        ("mxfp8", "fp8-recipe", "mxfp8"),
        ("blockwise", "fp8-recipe", "blockwise"),
        ("subchannel", "fp8-recipe", "blockwise"),
        ("nvfp4", "fp4-format", "e2m1"),
    ] {
        if named.contains(word) {
            args.set(key, value);
        }
    }
}

/// What Megatron's arguments have beside these keys.
fn usual(args: &mut Arguments) {
    if args.any(&["activation"]).is_some_and(|name| name.contains("glu")) {
        args.put_usual("swiglu", "true");
    }
    if matches!(args.any(&["name"]), Some("distributed_fused_adam" | "mcore_distributed_optim")) {
        args.put_usual("use-distributed-optimizer", "true");
    }
    if args.any(&["grad-sync-dtype"]) == Some("bf16") {
        args.put_usual("grad-reduce-in-bf16", "true");
    }
    if args.any(&["normalization"]).is_some_and(|name| name.eq_ignore_ascii_case("rmsnorm")) {
        args.set("normalization", "RMSNorm");
    }
    if args.has("num-query-groups") {
        args.put_usual("group-query-attention", "true");
    }
    // A list of one entry a layer.
    if let Some(list) =
        args.any(&["moe-layer-freq"]).filter(|list| list.contains(' ') && !list.contains('['))
    {
        let list = format!("([{}])", list.replace(' ', ","));
        args.set("moe-layer-freq", list);
    }
}

/// The repository of a model of Primus: `llama3.1_70B.yaml`.
fn repository(name: &str) -> String {
    let name = with_defaults(name).trim_end_matches(".yaml").replace('_', "-").to_ascii_lowercase();
    let name = name.replacen("qwen3-5-", "qwen3.5-", 1);
    match name.as_str() {
        "glm5" => "glm-5".to_owned(),
        "llama4-17b16e" => "meta-llama/Llama-4-Scout-17B-16E".to_owned(),
        "llama4-17b128e" => "meta-llama/Llama-4-Maverick-17B-128E".to_owned(),
        _ => name.replacen("llama3.", "llama-3.", 1),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Dispatcher, Framework, Job, Precision, tests};
    use super::*;
    use crate::plan::Shard;

    fn read(text: &'static str) -> Draft {
        tests::draft("a.yaml", text)
    }

    fn job(text: &'static str, keys: &[(&str, &str)]) -> Job {
        tests::job("a.yaml", text, keys)
    }

    /// As examples/megatron/configs/MI300X/qwen3_235B_A22B-FP8-pretrain.yaml has it.
    #[test]
    fn primus_is_read() {
        let text = "exp_name: ${PRIMUS_EXP_NAME:q}\nmodules:\n  pre_trainer:\n    framework: megatron\n    \
            model: ${PRIMUS_MODEL:qwen3_235B_A22B}.yaml\n    overrides:\n      micro_batch_size: 1\n      global_batch_size: 32\n      \
            seq_length: ${PRIMUS_SEQ_LENGTH:2048}\n      max_position_embeddings: 131072\n      \
            tensor_model_parallel_size: 1\n      expert_model_parallel_size: 8\n      sequence_parallel: 1\n      \
            overlap_grad_reduce: true\n      overlap_param_gather: true\n      use_torch_fsdp2: false\n      \
            use_turbo_deepep: true\n      fp8: hybrid\n      load: null\n";
        let job = job(text, &[("machine", "mi300x"), ("gpus", "32")]);
        assert!((job.model.params() / 235_093_634_560.0 - 1.0).abs() < 1e-6);
        assert_eq!((job.degrees.ep, job.micro, job.global, job.sequence), (8, 1, Some(32), 2048));
        assert_eq!((job.precision, job.dispatcher), (Precision::Fp8, Dispatcher::OnceANode));
        assert_eq!(
            (job.sharding.framework, job.sharding.shard),
            (Framework::Megatron, Shard::Optimizer)
        );
        assert!(job.overlap.gradients && job.overlap.gathers, "{:?}", job.overlap);
        let fewer = read(Box::leak(format!("{text}      num_layers: 4\n").into_boxed_str()));
        assert_eq!(fewer.asked, ["model (--num-layers of qwen3-235b-a22b)"]);
    }

    /// As AI-Hypercomputer/gpu-recipes, src/frameworks/a4/nemo-configs/llama3-1-405b-224gpus-a4-bf16.yaml.
    #[test]
    fn nemo_is_read() {
        let text = "run:\n  name: x\ntrainer:\n  devices: 8\n  num_nodes: 28\n  precision: bf16\nmodel:\n  \
            micro_batch_size: 1\n  global_batch_size: 2016\n  tensor_model_parallel_size: 4\n  \
            pipeline_model_parallel_size: 14\n  virtual_pipeline_model_parallel_size: 9\n  context_parallel_size: 2\n  \
            encoder_seq_length: 8192\n  max_position_embeddings: ${.encoder_seq_length}\n  num_layers: 126\n  \
            hidden_size: 16384\n  ffn_hidden_size: 53248\n  num_attention_heads: 128\n  num_query_groups: 8\n  \
            kv_channels: null\n  normalization: rmsnorm\n  make_vocab_size_divisible_by: 128\n  \
            tokenizer:\n    library: huggingface\n    type: meta-llama/Llama-3.1-405B\n  \
            bias: false\n  activation: fast-swiglu\n  position_embedding_type: rope\n  \
            share_embeddings_and_output_weights: false\n  sequence_parallel: true\n  fp8: false\n  fp8_hybrid: true\n  \
            ub_tp_comm_overlap: true\n  optim:\n    name: distributed_fused_adam\n    overlap_grad_sync: true\n    \
            overlap_param_sync: true\n    grad_sync_dtype: bf16\n    sched:\n      name: CosineAnnealing\n";
        let job = job(text, &[("machine", "dgx-b200")]);
        let d = job.degrees;
        assert_eq!((d.tp, d.pp, d.cp, d.chunks, d.dp), (4, 14, 2, 9, 2));
        // Of Llama 3.1 405B, with 512 rows that TP makes of 128,256 words.
        assert_eq!(job.model.params(), 405_853_388_800.0 + 2.0 * 16384.0 * 256.0);
        assert_eq!((job.precision, job.global), (Precision::Bf16, Some(2016)));
        assert!(job.overlap.gradients && job.overlap.gathers && job.overlap.tp);
        assert_eq!((job.sharding.shard, job.sharding.gradient), (Shard::Optimizer, 2.0));
        let tuned = format!("{text}  peft:\n    peft_scheme: lora\n");
        let error = super::read(&tuned, "a.yaml").unwrap_err().to_string();
        assert!(error.contains("model.peft.peft_scheme is not read"), "{error}");
    }

    /// A `run_config.yaml`, as `ConfigContainer` writes it, of Llama 3 8B.
    #[test]
    fn what_megatron_bridge_saves_is_read() {
        let text = "_target_: megatron.bridge.training.config.ConfigContainer\ncomm_overlap: null\nddp:\n  \
            grad_reduce_in_fp32: false\n  overlap_grad_reduce: true\n  overlap_param_gather: true\n  \
            use_distributed_optimizer: true\n  use_megatron_fsdp: false\nmixed_precision:\n  bf16: true\n  fp8: hybrid\n  \
            fp8_recipe: tensorwise\nmodel:\n  add_bias_linear: false\n  context_parallel_size: 2\n  \
            ffn_hidden_size: 14336\n  gated_linear_unit: true\n  hidden_size: 4096\n  kv_channels: 128\n  \
            make_vocab_size_divisible_by: 128\n  normalization: RMSNorm\n  num_attention_heads: 32\n  num_layers: 32\n  \
            num_moe_experts: null\n  num_query_groups: 8\n  pipeline_model_parallel_size: 1\n  \
            position_embedding_type: rope\n  recompute_granularity: selective\n  recompute_modules:\n  - core_attn\n  \
            - layernorm\n  seq_length: 8192\n  share_embeddings_and_output_weights: false\n  \
            tensor_model_parallel_size: 1\n  virtual_pipeline_model_parallel_size: null\n  vocab_size: 128256\ntrain:\n  \
            global_batch_size: 128\n  micro_batch_size: 1\n";
        let job = job(text, &[("machine", "dgx-h100"), ("gpus", "8")]);
        assert_eq!(job.model.params(), 8_030_261_248.0);
        assert_eq!((job.precision, job.sharding.gradient), (Precision::Fp8, 2.0));
        assert_eq!((job.recompute.to_string().as_str(), job.degrees.cp), ("modules", 2));
    }
}

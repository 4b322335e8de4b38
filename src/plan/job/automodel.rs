//! YAML of NeMo AutoModel: a recipe that trains, with `model`, `distributed`, `step_scheduler` and others.
//!
//! Sources: github.com/NVIDIA-NeMo/Automodel at 36044ad (August 2026), `nemo_automodel/components/distributed`: degrees
//! and FSDP2; `components/moe/parallelizer.py`; `components/models/common/utils.py`: what computes and exchanges;
//! `recipes/llm/train_ft.py`: batches.

use std::collections::BTreeMap;

use super::arguments::is_off;
use super::draft::Draft;
use super::files::is_yaml;
use super::trainer::{FULL, PACKED};
use super::words::Adapters;
use crate::base::error::{Error, Result};
use crate::base::yaml::{is_absent, scalars};

/// Recipes that train a model of text by its next tokens; earlier files name none.
const RECIPES: [&str; 2] =
    ["TrainFinetuneRecipeForNextTokenPrediction", "BenchmarkingRecipeForNextTokenPrediction"];

/// Keys of a job that are counts, and theirs.
const COUNTS: [(&str, &str); 7] = [
    ("tp", "distributed.tp_size"),
    ("pp", "distributed.pp_size"),
    ("cp", "distributed.cp_size"),
    ("ep", "distributed.ep_size"),
    ("dp", "distributed.dp_size"),
    ("replicate", "distributed.dp_replicate_size"),
    ("global_batch", "step_scheduler.global_batch_size"),
];

/// Keys of a model's own table that change its widths.
const WIDTHS: [&str; 6] = [
    "hidden_size",
    "num_hidden_layers",
    "intermediate_size",
    "moe_intermediate_size",
    "num_experts",
    "vocab_size",
];

/// Whether a text is such a configuration.
pub(super) fn is(text: &str, file: &str) -> bool {
    let has = |key: &str| text.lines().any(|line| line.starts_with(key));
    is_yaml(file) && text.contains("nemo_automodel.") && has("distributed:")
}

/// The values of a file by their paths.
struct Keys(BTreeMap<String, String>);

impl Keys {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str).filter(|text| !is_none(text))
    }

    /// The first of several that is there.
    fn any(&self, keys: &[&str]) -> Option<&str> {
        keys.iter().find_map(|key| self.get(key))
    }

    fn is(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    fn count(&self, key: &str) -> Option<u32> {
        self.get(key)?.parse().ok()
    }

    /// A value, or those of a list.
    fn words(&self, key: &str) -> Vec<&str> {
        let inside = format!("{key}.");
        let of = |path: &str| path == key || path.starts_with(&inside);
        self.0.iter().filter(|(path, _)| of(path)).map(|(_, text)| text.as_str()).collect()
    }
}

fn is_none(text: &str) -> bool {
    is_absent(text) || is_off(text)
}

/// Reads a configuration.
///
/// # Errors
/// A recipe that trains otherwise.
pub(super) fn read(text: &str, file: &str) -> Result<Draft> {
    let pairs = scalars(text).into_iter().map(|one| (one.path.join("."), one.text));
    let keys = Keys(pairs.collect());
    if let Some(recipe) = keys.any(&["recipe", "recipe._target_"])
        && !RECIPES.contains(&recipe.rsplit('.').next().unwrap_or(recipe))
    {
        return Err(Error::unsupported(format!("the recipe {recipe} of NeMo AutoModel"))
            .at(file.to_owned())
            .help(format!("{} and {} have a plan", RECIPES[0], RECIPES[1])));
    }
    let mut draft = Draft { starts: true, ..Draft::default() };
    model(&keys, &mut draft);
    for (key, own) in COUNTS {
        match (keys.count(own), keys.get(own)) {
            // One rank is what there is unless it is said, and 0 sets replicate nothing.
            (Some(0 | 1), _) if key == "replicate" => {}
            (Some(n), _) => draft.put(key, n.to_string())?,
            (None, Some(text)) => draft.asked.push(format!("{key} ({own} {text})")),
            (None, None) => {}
        }
    }
    // TP divides no expert.
    draft.put("etp", "1")?;
    let tp = keys.count("distributed.tp_size").unwrap_or(1);
    let sequence = tp > 1 && keys.is("distributed.sequence_parallel");
    draft.put("sequence_parallel", sequence.to_string())?;
    batch(&keys, &mut draft)?;
    sharding(&keys, &mut draft)?;
    let tp_async = keys.is("distributed.enable_async_tensor_parallel");
    draft.put("overlap", if tp_async { "fsdp,tp" } else { "fsdp" })?;
    let again = ["distributed.activation_checkpointing", "parallelizer.activation_checkpointing"];
    let again = match keys.any(&again) {
        None => "none",
        Some("selective") => "selective-op",
        Some(_) => "full",
    };
    draft.put("recompute", again)?;
    kernels(&keys, &mut draft)?;
    adapters(&keys, &mut draft)?;
    Ok(draft)
}

fn model(keys: &Keys, draft: &mut Draft) {
    let names = [
        "model.pretrained_model_name_or_path",
        "model.config.pretrained_model_name_or_path",
        "model.config.name_or_path",
        "model.config",
    ];
    draft.called = keys.any(&names).map(str::to_owned);
    let own = |key: &&&str| keys.is(&format!("model.config.{key}"));
    let changed: Vec<&str> = WIDTHS.iter().filter(own).copied().collect();
    match (&draft.called, changed.as_slice()) {
        (Some(_), []) => {}
        (Some(name), _) => {
            draft.asked.push(format!("model ({name} with another {})", changed.join(", ")));
        }
        (None, _) => {
            let target = keys.get("model._target_").unwrap_or("no model");
            draft.asked.push(format!("model ({target})"));
        }
    }
    if let Some(depth) = keys.get("model.num_nextn_predict_layers") {
        draft.unread.push(format!("num_nextn_predict_layers {depth}"));
    }
}

/// A pipeline passes each local batch on its own (`_forward_backward_step`).
fn batch(keys: &Keys, draft: &mut Draft) -> Result<()> {
    let local = keys.get("step_scheduler.local_batch_size").unwrap_or("1");
    if keys.count("distributed.pp_size").unwrap_or(1) > 1 {
        let of = |key: &str| {
            let own = [format!("distributed.pipeline.{key}"), format!("autopipeline.{key}")];
            own.iter().find_map(|key| keys.get(key))
        };
        draft.put("micro_batch", of("pp_microbatch_size").unwrap_or("1"))?;
        draft.put("local_batch", local)?;
        draft.put("schedule", of("pp_schedule").unwrap_or("1f1b"))?;
        match of("layers_per_stage") {
            Some(layers) => draft.put("layers_per_chunk", layers)?,
            None => draft.put("chunks_per_stage", "1")?,
        }
    } else {
        draft.put("micro_batch", local)?;
    }
    let packed = keys.get("packed_sequence.packed_sequence_size");
    let plain = ["dataset.seq_len", "dataset.seq_length"];
    if let Some(tokens) = packed.or(keys.any(&plain)) {
        draft.put("sequence", tokens)?;
    }
    let mocked = keys.get("dataset._target_").is_some_and(|target| target.contains("Mock"));
    match packed {
        Some(_) => draft.inferred.push(PACKED.to_owned()),
        None if !mocked => draft.inferred.push(FULL.to_owned()),
        None => {}
    }
    Ok(())
}

/// With experts that are spread nothing is sharded again between the passes unless it is said.
fn sharding(keys: &Keys, draft: &mut Draft) -> Result<()> {
    let strategy = keys.get("distributed.strategy").unwrap_or("fsdp2").to_ascii_lowercase();
    match strategy.as_str() {
        "ddp" => return draft.put("sharding", "none, ddp, gradients in fp32"),
        "megatron_fsdp" | "megatron-fsdp" | "mfsdp" => {
            return draft.put("sharding", "Megatron FSDP");
        }
        "fsdp2" => {}
        other => draft.asked.push(format!("sharding (distributed.strategy {other})")),
    }
    let kind = keys.any(&["model.torch_dtype", "model.dtype"]).unwrap_or("auto");
    // Without copies the optimizer's states have the parameters' type.
    let wide = kind.ends_with("32") || keys.is("optimizer.master_weights");
    let states = if wide { "" } else { ", states in bf16" };
    let defers = keys.0.get("distributed.defer_fsdp_grad_sync").is_none_or(|text| !is_none(text));
    let once = if defers { ", summed once" } else { "" };
    draft.put("sharding", format!("FSDP2, fp32 reduced{states}{once}"))?;
    if keys.count("distributed.ep_size").is_some_and(|ep| ep > 1) {
        let again = keys.is("distributed.moe.reshard_after_forward");
        draft.put("reshard", if again { "always" } else { "never" })?;
    } else if let Some(said) = keys.0.get("distributed.reshard_after_forward") {
        draft.put("reshard", if is_none(said) { "never" } else { "always" })?;
    }
    let optimizer = keys.get("optimizer._target_").unwrap_or("Adam");
    let lower = optimizer.to_ascii_lowercase();
    if !lower.contains("adam") || lower.contains("8bit") {
        draft.unread.push(format!("optimizer {optimizer}: its states are counted as Adam's"));
    }
    Ok(())
}

/// What computes, and what exchanges tokens.
fn kernels(keys: &Keys, draft: &mut Draft) -> Result<()> {
    let precision = match keys.get("model.backend.te_fp8.recipe") {
        Some("mxfp8") => "mxfp8",
        Some(_) => "fp8",
        None if keys.is("fp8.enabled") => "fp8",
        None => "bf16",
    };
    draft.put("precision", precision)?;
    if keys.is("compile.enabled") || keys.is("distributed.enable_compile") {
        draft.put("compiled", "true")?;
    }
    if ["attn", "linear"].iter().all(|key| keys.get(&format!("model.backend.{key}")) == Some("te"))
    {
        draft.put("transformer_engine", "true")?;
    }
    let attention = keys.any(&["model.attn_implementation", "model.backend.attn"]);
    draft.put("attention", if attention == Some("eager") { "unfused" } else { "flash" })?;
    if keys.get("loss_fn._target_").is_some_and(|loss| loss.contains("FusedLinear")) {
        draft.put("fused_loss", "true")?;
    }
    if keys.count("distributed.ep_size").is_some_and(|ep| ep > 1) {
        let how = keys.get("model.backend.dispatcher").unwrap_or("deepep");
        match how {
            "torch" => draft.put("dispatcher", "allgather")?,
            "hybridep" => draft.put("dispatcher", "hybridep")?,
            "deepep" | "uccl_ep" => draft.put("dispatcher", "deepep")?,
            other => draft.asked.push(format!("dispatcher (model.backend.dispatcher {other})")),
        }
        // The experts of a token follow each other (`FakeBalancedGate`, components/moe/layers.py).
        if keys.is("model.backend.fake_balanced_gate") && !keys.is("model.backend.fake_gate_noise")
        {
            draft.put("node_limit", "1")?;
            let what =
                "fake_balanced_gate: a token's experts are on one node, which real ones are not";
            draft.inferred.push(what.to_owned());
        }
    }
    Ok(())
}

/// LoRA's adapters, on products by patterns: `*_proj`, `*.self_attn.q_proj`.
fn adapters(keys: &Keys, draft: &mut Draft) -> Result<()> {
    if let Some(kind) = keys.get("peft._target_") {
        let rank = keys.get("peft.dim").unwrap_or("8");
        let mut on: Vec<&str> = keys
            .words("peft.target_modules")
            .into_iter()
            .map(|name| name.rsplit('.').next().unwrap_or(name))
            .map(|name| if ["*", "*_proj", "*proj"].contains(&name) { "all" } else { name })
            .collect();
        if keys.is("peft.match_all_linear") || on.is_empty() {
            on = vec!["all"];
        }
        let text = format!("rank {rank} on {}", on.join(" "));
        match text.parse::<Adapters>() {
            Ok(adapters) if kind.contains("lora") => draft.put("adapters", adapters.to_string())?,
            _ => draft.asked.push(format!("adapters ({kind}: {text})")),
        }
        let without = keys.words("peft.exclude_modules");
        if !without.is_empty() {
            draft.unread.push(format!("exclude_modules {}", without.join(" ")));
        }
    }
    if keys.is("quantization.load_in_4bit") {
        draft.put("weights_type", "nf4")?;
    } else if keys.is("quantization.load_in_8bit") {
        draft.put("weights_type", "int8")?;
    }
    draft.unread.extend(keys.is("qat.enabled").then(|| "qat".to_owned()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::time::estimate;
    use super::super::{Job, Wires, tests};
    use crate::model::algorithm::Registry;

    /// A file of `examples/llm_benchmark`, in short.
    fn file(model: &str, batch: [u32; 3], sizes: &str, more: &str) -> String {
        let [global, local, length] = batch;
        format!(
            "recipe: BenchmarkingRecipeForNextTokenPrediction\n\
             step_scheduler:\n  global_batch_size: {global}\n  local_batch_size: {local}\n\
             model:\n  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_config\n  config:\n    \
             _target_: transformers.AutoConfig.from_pretrained\n    pretrained_model_name_or_path: {model}\n  \
             backend:\n    attn: te\n    linear: te\n    dispatcher: deepep\n    fake_balanced_gate: true\n\
             dataset:\n  _target_: nemo_automodel.components.datasets.llm.mock.Mock\n  seq_len: {length}\n\
             optimizer:\n  _target_: torch.optim.Adam\n\
             distributed:\n  strategy: fsdp2\n  dp_size: none\n  activation_checkpointing: true\n{sizes}{more}"
        )
    }

    fn job(text: &str, gpus: &str) -> Job {
        let keys = [("machine", "dgx-h100"), ("gpus", gpus)];
        tests::job("job.yaml", text.to_owned().leak(), &keys)
    }

    /// Published with NeMo AutoModel (docs/performance-summary.mdx: DGX H100, October 2025), which nothing was fitted to.
    #[test]
    fn steps_are_as_published() {
        let pipe = "  pipeline:\n    pp_schedule: interleaved1f1b\n    pp_microbatch_size: 1\n    layers_per_stage: 2\n";
        let all = [
            ("deepseek-ai/DeepSeek-V3", "  pp_size: 4\n  ep_size: 64\n", 8.18),
            ("moonshotai/Kimi-K2-Base", "  pp_size: 8\n  ep_size: 32\n", 8.86),
        ];
        let registry = Registry::builtin();
        for (model, sizes, published) in all {
            let job = job(&file(model, [512, 8, 4096], sizes, pipe), "256");
            let wires = Wires::new(&registry, &job.machine);
            let ratio = estimate(&job, &wires, None).unwrap().step / published;
            assert!((0.9..1.1).contains(&ratio), "{model}: {ratio}");
        }
    }
}

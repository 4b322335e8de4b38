//! Hugging Face Accelerate's configuration (`accelerate config`): processes, FSDP or a stage of ZeRO, degrees.
//!
//! It does not say the model and the batch. Source: github.com/huggingface/accelerate,
//! `src/accelerate/utils/dataclasses.py`: names and defaults; FSDP sums gradients in the type of the parameters that it
//! gathers (`set_mixed_precision`).

use super::deepspeed::sharding;
use super::draft::{Draft, Whose};
use super::files::is_yaml;
use crate::base::error::{Error, Result};
use crate::base::yaml::{self, Node};

/// What a launcher of PyTorch's DDP leaves to it.
const DDP: [(&str, &str); 2] =
    [("sharding", "none, ddp, gradients in fp32"), ("overlap", "gradients")];

/// Whether a text is such a configuration.
pub(super) fn is(text: &str, file: &str) -> bool {
    is_yaml(file) && text.lines().any(|line| line.starts_with("distributed_type:"))
}

/// Reads a configuration; the DeepSpeed JSON that it names is a file below it.
///
/// # Errors
/// It is not YAML; a kind of training that is not priced.
pub(super) fn read(text: &str, file: &str) -> Result<Draft> {
    let whole = yaml::parse(text).map_err(|refused| refused.error(file))?;
    let mut draft = Draft { starts: true, ..Draft::default() };
    let number = |key: &str| word(&whole, key)?.parse::<u32>().ok();
    if let Some(all) = number("num_processes") {
        draft.put("gpus", all.to_string())?;
        let nodes = number("num_machines").unwrap_or(1);
        draft.launched = all.checked_div(nodes).filter(|each| *each > 0);
    }
    match word(&whole, "mixed_precision") {
        Some(kind @ ("bf16" | "fp16" | "fp8")) => draft.put("precision", kind)?,
        _ => draft.inferred.push("bf16: without mixed_precision training is in 32 bits".to_owned()),
    }
    match word(&whole, "distributed_type") {
        Some("FSDP") => fsdp(&whole, "", &mut draft)?,
        Some("DEEPSPEED") => deepspeed(&whole, &mut draft)?,
        Some("MULTI_GPU") => draft.usually(Whose::Launcher, DDP),
        other => {
            let kind = other.unwrap_or("");
            return Err(Error::unsupported(format!("`{kind}` of Accelerate has no plan here"))
                .at(format!("{file}: distributed_type"))
                .help("FSDP, DEEPSPEED and MULTI_GPU have one"));
        }
    }
    degrees(&whole, &mut draft)?;
    Ok(draft)
}

/// A text under a key, unless it says that there is none.
fn word<'t>(node: &'t Node<'_>, key: &str) -> Option<&'t str> {
    node.text(key).ok().filter(|text| !matches!(*text, "" | "no" | "none" | "null"))
}

/// Reads `fsdp_config`, whose keys have a prefix here, and none in a Trainer's, beside the `words` of its `fsdp`.
pub(super) fn fsdp(whole: &Node<'_>, words: &str, draft: &mut Draft) -> Result<()> {
    let of = |key: &str| {
        let config = whole.get("fsdp_config")?;
        let short = key.trim_start_matches("fsdp_");
        word(config, key).or(word(config, short)).or(word(whole, key))
    };
    let is = |key: &str| of(key).is_some_and(|text| text.eq_ignore_ascii_case("true"));
    let second = of("fsdp_version") == Some("2");
    let strategy = of("fsdp_sharding_strategy").or(of("fsdp_reshard_after_forward"));
    let host = is("fsdp_offload_params") || offloads(words);
    sharded(draft, second, strategy.unwrap_or(words), host)?;
    match is("fsdp_activation_checkpointing") {
        true => draft.put("recompute", "full"),
        false => {
            draft.usually(Whose::Launcher, [("recompute", "none")]);
            Ok(())
        }
    }
}

/// Whether the words of a Trainer's `fsdp` keep shards on the host.
fn offloads(words: &str) -> bool {
    words.to_ascii_lowercase().contains("offload")
}

/// What PyTorch's FSDP shards by the name or the number of a `ShardingStrategy`, by whether FSDP2 reshards after the
/// forward pass, or by a list of words that has one of these (a Trainer's `fsdp`). Without any it shards all.
pub(super) fn sharded(draft: &mut Draft, second: bool, strategy: &str, host: bool) -> Result<()> {
    let upper = strategy.to_ascii_uppercase();
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let says = |names: &[&str]| upper.split(|c| !is_of_word(c)).any(|word| names.contains(&word));
    let version = if second { "FSDP2" } else { "FSDP" };
    // A set of shards is a node.
    let hybrid = says(&["HYBRID_SHARD", "4"]);
    let hybrid_second = says(&["HYBRID_SHARD_ZERO2", "_HYBRID_SHARD_ZERO2", "5"]);
    let kind = match () {
        () if says(&["NO_SHARD", "3"]) => "none, ddp".to_owned(),
        () if hybrid_second || says(&["SHARD_GRAD_OP", "2", "FALSE"]) => {
            format!("{version}, SHARD_GRAD_OP")
        }
        () if hybrid || strategy.is_empty() || says(&["FULL_SHARD", "1", "TRUE"]) => {
            version.to_owned()
        }
        () => {
            draft.asked.push(format!("sharding (fsdp {strategy})"));
            return Ok(());
        }
    };
    if hybrid || hybrid_second {
        match draft.launched {
            Some(each) => draft.put("shard_size", each.to_string())?,
            None => draft.asked.push(format!("shard_size ({strategy}: the GPUs of a node)")),
        }
    }
    let host = if host || offloads(strategy) { ", offload to the host" } else { "" };
    draft.put("sharding", format!("{kind}, bf16 reduced{host}"))?;
    draft.put("overlap", "fsdp")
}

fn deepspeed(whole: &Node<'_>, draft: &mut Draft) -> Result<()> {
    let of = |key: &str| word(whole.get("deepspeed_config")?, key);
    if let Some(named) = of("deepspeed_config_file") {
        return draft.put("from", named);
    }
    let host = ["offload_optimizer_device", "offload_param_device"].map(|key| of(key).is_some());
    // The plugin's own default is the second stage.
    let stage = of("zero_stage").unwrap_or("2");
    draft.put("sharding", sharding(stage, "", host, 1.0))?;
    // DeepSpeed's third stage overlaps by default.
    draft.put("overlap", if stage == "3" { "dp" } else { "none" })?;
    if let Some(times) = of("gradient_accumulation_steps").filter(|text| *text != "auto") {
        draft.usually(Whose::Launcher, [("accumulation", times)]);
    }
    Ok(())
}

/// The degrees of `parallelism_config`, and the sets of shards.
fn degrees(whole: &Node<'_>, draft: &mut Draft) -> Result<()> {
    let Some(config) = whole.get("parallelism_config") else { return Ok(()) };
    let number = |key: &str| {
        let found = word(config, &format!("parallelism_config_{key}_size"))?.parse::<u32>().ok();
        found.filter(|n| *n > 1)
    };
    for (key, own) in [("tp", "tp"), ("cp", "cp"), ("replicate", "dp_replicate")] {
        if let Some(n) = number(own) {
            draft.put(key, n.to_string())?;
        }
    }
    if number("sp").is_some() {
        draft
            .unread
            .push("parallelism_config_sp_size: its all-to-alls have no price here".to_owned());
    }
    Ok(())
}

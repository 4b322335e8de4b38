//! Hugging Face Accelerate's configuration (`accelerate config`): processes, FSDP or a stage of ZeRO, degrees.
//!
//! It does not say the model and the batch. Source: github.com/huggingface/accelerate,
//! `src/accelerate/utils/dataclasses.py`: names and defaults; FSDP sums gradients in the type of the parameters that it
//! gathers (`set_mixed_precision`).

use super::deepspeed::sharding;
use super::draft::{Draft, WIDE, Whose};
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
        _ => draft.usually(Whose::Launcher, [("precision", WIDE)]),
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
    let how = Shards {
        second: of("fsdp_version") == Some("2"),
        words,
        strategy: of("fsdp_sharding_strategy"),
        reshard: of("fsdp_reshard_after_forward"),
        host: is("fsdp_offload_params"),
    };
    how.put(draft)?;
    match is("fsdp_activation_checkpointing") {
        true => draft.put("recompute", "full"),
        false => {
            draft.usually(Whose::Launcher, [("recompute", "none")]);
            Ok(())
        }
    }
}

/// What PyTorch's FSDP shards, as configurations say it. Without a strategy it shards all.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shards<'a> {
    /// Whether it is FSDP2, which goes by `reshard`; the first goes by the name or the number of a strategy.
    pub second: bool,
    /// Those of a Trainer's `fsdp`: a strategy, whether it stays on the host, and others.
    pub words: &'a str,
    pub strategy: Option<&'a str>,
    /// Whether what was gathered is gathered again, among how many ranks, or a strategy of the first.
    pub reshard: Option<&'a str>,
    /// Whether shards stay on the host.
    pub host: bool,
}

impl Shards<'_> {
    /// Puts it into a draft; what is not known is asked for.
    pub fn put(self, draft: &mut Draft) -> Result<()> {
        let version = if self.second { "FSDP2" } else { "FSDP" };
        let words = Some(self.words).filter(|words| !words.is_empty());
        let named = match self.second {
            true => self.reshard.or(self.strategy).or(words),
            false => self.strategy.or(words).or(self.reshard),
        };
        let upper = named.unwrap_or("FULL_SHARD").to_ascii_uppercase();
        let is_of_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let says =
            |names: &[&str]| upper.split(|c| !is_of_word(c)).any(|word| names.contains(&word));
        // A set of shards is a node.
        let hybrid = says(&["HYBRID_SHARD", "4"]);
        let hybrid_second = says(&["HYBRID_SHARD_ZERO2", "_HYBRID_SHARD_ZERO2", "5"]);
        let among = self.reshard.filter(|_| self.second).and_then(|text| text.parse::<u32>().ok());
        let kind = match () {
            () if among.is_some() || says(&["FULL_SHARD", "1", "TRUE"]) => version.to_owned(),
            () if says(&["NO_SHARD", "3"]) => "none, ddp".to_owned(),
            () if hybrid_second || says(&["SHARD_GRAD_OP", "2", "FALSE"]) => {
                format!("{version}, SHARD_GRAD_OP")
            }
            () if hybrid => version.to_owned(),
            () => {
                draft.asked.push(format!("sharding (fsdp {})", named.unwrap_or("")));
                return Ok(());
            }
        };
        if let Some(ranks) = among {
            draft.put("reshard", ranks.to_string())?;
        } else if hybrid || hybrid_second {
            match draft.launched {
                Some(each) => draft.put("shard_size", each.to_string())?,
                None => draft.asked.push(format!("shard_size ({upper}: the GPUs of a node)")),
            }
        }
        let host = self.host || self.words.to_ascii_lowercase().contains("offload");
        let host = if host { ", offload to the host" } else { "" };
        draft.put("sharding", format!("{kind}, bf16 reduced{host}"))?;
        draft.put("overlap", "fsdp")
    }
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
    if let Some(ranks) = number("sp") {
        draft.put_ulysses(ranks)?;
    }
    Ok(())
}

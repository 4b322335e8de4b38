//! DeepSpeed's JSON: the ZeRO stage, the batch, offloading to the host.
//!
//! The trainer fills in `"auto"`, so the user must give that value. Source:
//! deepspeed.ai/docs/config-json.

use serde_json::Value;

use super::draft::Draft;
use crate::base::error::{Error, Result};

/// Whether a text is such a configuration.
pub(super) fn is(text: &str) -> bool {
    text.contains("\"zero_optimization\"") || text.contains("\"train_micro_batch_size_per_gpu\"")
}

/// Words for states of 16 bits: DeepSpeed has both keys only from ZeRO 1 on, and the first alone only with an optimizer
/// on the host (`_configure_master_weights`, deepspeed/runtime/base_optimizer.py, 0.19.8).
fn states(json: &Value, draft: &mut Draft) -> &'static str {
    let says = |of: &str, key: &str| json[of][key].as_bool() == Some(true);
    let master = says("bf16", "bf16_master_weights_and_grads");
    if master && says("bf16", "bf16_optimizer_states") {
        return ", states in bf16";
    }
    if master {
        draft.unread.push("bf16_master_weights_and_grads without bf16_optimizer_states".to_owned());
    }
    if says("fp16", "fp16_master_weights_and_grads") {
        draft.unread.push("fp16_master_weights_and_grads".to_owned());
    }
    ""
}

/// The words for a stage of ZeRO, with those for its states, and what is on the host: the optimizer, of which so large a
/// part, and parameters.
pub(super) fn sharding(
    stage: &str,
    states: &str,
    [optimizer, parameters]: [bool; 2],
    part: f64,
) -> String {
    let kind = if stage == "0" { "none".to_owned() } else { format!("zero{stage}") };
    let host = match [optimizer, parameters] {
        [true, true] => format!(", offload of {part} of the optimizer and of parameters"),
        [true, false] => format!(", offload of {part} of the optimizer"),
        [false, true] => ", offload of parameters".to_owned(),
        [false, false] => String::new(),
    };
    format!("{kind}, deepspeed{states}{host}")
}

/// Reads a configuration.
///
/// # Errors
/// Invalid JSON.
pub(super) fn read(text: &str, file: &str) -> Result<Draft> {
    let json: Value = serde_json::from_str(text).map_err(|e| {
        Error::input(format!("this is not JSON: {e}"))
            .at(file.to_owned())
            .help("name DeepSpeed's own JSON, such as ds_config.json")
    })?;
    let mut draft = Draft { starts: true, ..Draft::default() };
    keys(&json, &mut draft)?;
    Ok(draft)
}

/// Reads DeepSpeed's keys, which GPT-NeoX has among its own.
///
/// # Errors
/// Those of a draft's keys.
pub(super) fn keys(json: &Value, draft: &mut Draft) -> Result<()> {
    let counts = [
        ("global_batch", "train_batch_size"),
        ("micro_batch", "train_micro_batch_size_per_gpu"),
        ("accumulation", "gradient_accumulation_steps"),
    ];
    for (key, own) in counts {
        match &json[own] {
            Value::Number(n) => draft.put(key, n.to_string())?,
            Value::String(text) if text == "auto" => {
                draft.asked.push(format!("{key} ({own} is auto)"))
            }
            _ => {}
        }
    }
    let zero = &json["zero_optimization"];
    if zero["stage"].is_string() {
        draft.asked.push("sharding (zero_optimization.stage is auto)".to_owned());
    }
    let stage = zero["stage"].as_u64().unwrap_or(0);
    // Behind them their names of before 2021 (`DeepSpeedZeroConfig`, deepspeed/runtime/zero/config.py).
    let host = [("offload_optimizer", "cpu_offload"), ("offload_param", "cpu_offload_params")].map(
        |(key, early)| {
            zero[key]["device"].as_str().is_some_and(|d| d != "none")
                || zero[early].as_bool() == Some(true)
        },
    );
    // Other stages update all parameters on the host (`zero_partial_offload` is an argument of stage 3 alone).
    let ratio = zero["offload_optimizer"]["ratio"].as_f64().filter(|_| stage == 3).unwrap_or(1.0);
    let states = states(json, draft);
    if !zero["stage"].is_string() {
        draft.put("sharding", sharding(&stage.to_string(), states, host, ratio))?;
    }
    // Stage 3 overlaps by default, the others only if it is set, and then the gradients' sums alone: updated
    // parameters are gathered before the step ends (`stage_1_and_2.py`). Without it stage 3 gathers on the
    // stream that computes (`parameter_offload.py`).
    let overlap = match zero["overlap_comm"].as_bool().unwrap_or(stage == 3) {
        true if stage == 3 => "dp",
        true => "gradients",
        false => "none",
    };
    draft.put("overlap", overlap)?;
    for (key, word) in [("bf16", "bf16"), ("fp16", "fp16")] {
        match &json[key]["enabled"] {
            Value::Bool(true) => draft.put("precision", word)?,
            Value::String(text) if text == "auto" && draft.get("precision").is_none() => {
                draft.asked.push(format!("precision ({key}.enabled is auto)"));
            }
            _ => {}
        }
    }
    let open = draft.asked.iter().any(|asked| asked.starts_with("precision"));
    if draft.get("precision").is_none() && !open {
        draft.inferred.push("bf16: without bf16 and fp16 DeepSpeed trains in 32 bits".to_owned());
    }
    if let Some(kind) = json["optimizer"]["type"].as_str() {
        let lower = kind.to_lowercase();
        if !lower.contains("adam") {
            draft.unread.push(format!("optimizer {kind}: its states are counted as Adam's"));
        } else if lower.starts_with("onebit") || lower.starts_with("zeroone") {
            draft.unread.push(format!("optimizer {kind}: gradients are counted uncompressed"));
        }
    }
    if json["pipeline"]["stages"].as_u64().is_some_and(|stages| stages > 1) {
        draft.unread.push("pipeline.stages: set pp".to_owned());
    }
    if let Some(ranks) = json["sequence_parallel_size"].as_u64().filter(|ranks| *ranks > 1) {
        draft.put_ulysses(ranks)?;
    }
    if let Some(part) = zero["mics_shard_size"].as_u64().filter(|p| *p > 1) {
        draft.put("shard_size", part.to_string())?;
    }
    // A second copy of the parameters on so many ranks, from which the backward pass gathers; states and
    // gradients stay over all (deepspeed.ai/tutorials/zeropp, hpZ).
    if let Some(ranks) = zero["zero_hpz_partition_size"].as_u64().filter(|p| *p > 1 && stage == 3) {
        draft.put("reshard", ranks.to_string())?;
    }
    // Then every bucket is reduced to the ranks that keep its parts, one after another.
    if (1..=2).contains(&stage) && zero["use_multi_rank_bucket_allreduce"].as_bool() == Some(false)
    {
        draft.unread.push("use_multi_rank_bucket_allreduce: gradients are all-reduced".to_owned());
    }
    let activations = &json["activation_checkpointing"];
    let flags = [
        (zero, "zero_quantized_weights"),
        (zero, "zero_quantized_gradients"),
        (activations, "cpu_checkpointing"),
        (activations, "partition_activations"),
    ];
    let given = flags.into_iter().filter(|(of, key)| of[*key].as_bool() == Some(true));
    draft.unread.extend(given.map(|(_, key)| key.to_owned()));
    for (of, key) in [(json, "communication_data_type"), (&json["data_types"], "grad_accum_dtype")]
    {
        if let Some(kind) = of[key].as_str() {
            draft.unread.push(format!("{key} {kind}"));
        }
    }
    if zero["zenflow"].is_object() {
        draft.unread.push("zenflow".to_owned());
    }
    // Parameters below it stay whole; the default reaches those of norms.
    let whole = zero["stage3_param_persistence_threshold"].as_f64();
    if whole.is_some_and(|elements| elements > 1e6) && stage == 3 {
        draft
            .unread
            .push("stage3_param_persistence_threshold: no parameter stays whole".to_owned());
    }
    if let Some(tp) = json["tensor_parallel"]["autotp_size"].as_u64().filter(|t| *t > 1) {
        draft.put("tp", tp.to_string())?;
    }
    Ok(())
}

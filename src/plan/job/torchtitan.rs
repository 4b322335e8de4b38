//! torchtitan's TOML, as the project read it until its configuration became Python (commit 9810191bb):
//! `[training]`, `[parallelism]`, `[activation_checkpoint]`, `converters`. Files of 2024 have the degrees
//! in `[training]` and `[experimental]`.
//!
//! FSDP2 shards over the remaining ranks, TP also splits the sequence, gradients are summed in 32
//! bits, and prefetch is always on. Source: github.com/pytorch/torchtitan,
//! `torchtitan/config/job_config.py`.

use toml::{Table, Value};

use super::draft::Draft;
use crate::base::error::Result;
use crate::base::text_pos::Refused;

/// Whether a table is such a configuration.
pub(super) fn is(text: &str) -> bool {
    text.contains("[training]") && (text.contains("[model]") || text.contains("[parallelism]"))
}

/// Reads a configuration.
///
/// # Errors
/// Invalid TOML.
pub(super) fn read(text: &str, file: &str) -> Result<Draft> {
    let whole: Table = toml::from_str(text).map_err(|e| Refused::new(&e, text).error(file))?;
    let find = |section: &str, key: &str| {
        let mut tables = section.split('.');
        tables.try_fold(&whole, |table, name| table.get(name)?.as_table())?.get(key)
    };
    let number = |section: &str, key: &str| find(section, key).and_then(Value::as_integer);
    let word = |section: &str, key: &str| find(section, key).and_then(Value::as_str);
    let flag =
        |section: &str, key: &str| find(section, key).and_then(Value::as_bool).unwrap_or(false);
    let parallel = |key: &str| {
        ["parallelism", "training", "experimental"].into_iter().find_map(|s| find(s, key))
    };
    let degree = |key: &str| parallel(key).and_then(Value::as_integer);
    let mut draft = Draft::default();
    if let (Some(name), Some(flavor)) = (word("model", "name"), word("model", "flavor")) {
        draft.called = Some(format!("{name} {flavor}"));
    }
    let degrees = [
        ("tp", "tensor_parallel_degree"),
        ("pp", "pipeline_parallel_degree"),
        ("cp", "context_parallel_degree"),
        ("ep", "expert_parallel_degree"),
        ("etp", "expert_tensor_parallel_degree"),
    ];
    // The last one has no effect without EP.
    let spread = degree("expert_parallel_degree").is_some_and(|n| n > 1);
    for (key, own) in degrees.into_iter().filter(|(key, _)| spread || *key != "etp") {
        if let Some(n) = degree(own).filter(|n| *n > 0) {
            draft.put(key, n.to_string())?;
        }
    }
    let tp = degree("tensor_parallel_degree").unwrap_or(1);
    let pp = degree("pipeline_parallel_degree").unwrap_or(1);
    draft.put("sequence_parallel", if tp > 1 { "true" } else { "false" })?;
    let replicate = degree("data_parallel_replicate_degree").unwrap_or(1);
    let shard =
        degree("data_parallel_shard_degree").or(degree("data_parallel_degree")).unwrap_or(-1);
    if shard > 0 {
        draft.put("dp", (shard * replicate).to_string())?;
    }
    // Each set of shards also has the ranks of CP.
    if replicate > 1 {
        draft.put("replicate", replicate.to_string())?;
    }
    let host = if flag("training", "enable_cpu_offload") { ", offload to the host" } else { "" };
    let states = match word("training", "dtype") {
        Some("bfloat16") => ", states in bf16",
        _ => "",
    };
    draft
        .put("sharding", format!("FSDP2, bf16 parameters gathered, fp32 reduced{states}{host}"))?;
    if let Some(stated) =
        word("parallelism", "fsdp_reshard_after_forward").filter(|w| *w != "default")
    {
        draft.put("reshard", stated)?;
    }
    if let Some(n) = number("training", "seq_len") {
        draft.put("sequence", n.to_string())?;
    }
    batch(&mut draft, &number, pp)?;
    draft.put("precision", precision(&whole))?;
    let option = find("activation_checkpoint", "selective_ac_option");
    let nth = option.and_then(Value::as_integer).map(|nth| nth.to_string());
    let option = nth.as_deref().or(option.and_then(Value::as_str)).unwrap_or("2");
    match word("activation_checkpoint", "mode").unwrap_or("selective") {
        mode @ ("none" | "full") => draft.put("recompute", mode)?,
        "selective" if option == "op" => draft.put("recompute", "selective-op")?,
        // Every n-th layer whole (`_apply_layer_sac`, torchtitan/distributed/activation_checkpoint.py).
        "selective" => draft.put("recompute", format!("every {option}"))?,
        // What the compiler keeps within a budget.
        mode => draft.unread.push(format!("activation_checkpoint.mode {mode}")),
    }
    let (compiled, early) = (flag("compile", "enable"), flag("training", "compile"));
    if compiled || early {
        draft.put("compiled", "true")?;
    }
    // The loss too since April 2025 (pytorch/torchtitan pull 1033), and unless left out since August (1608); files
    // since June name the local batch.
    let parts = find("compile", "components").and_then(Value::as_array);
    let loss = parts.is_none_or(|parts| parts.iter().any(|part| part.as_str() == Some("loss")));
    if compiled && loss || early && find("training", "local_batch_size").is_some() {
        draft.put("compiled_loss", "true")?;
    }
    let asynchronous = "enable_async_tensor_parallel";
    let mut overlap = vec!["fsdp"];
    if flag("parallelism", asynchronous) || flag("experimental", asynchronous) {
        overlap.push("tp");
    }
    draft.put("overlap", overlap.join(","))?;
    schedule(
        &mut draft,
        parallel("pipeline_parallel_schedule").and_then(Value::as_str),
        &number,
        pp,
    )?;
    if let Some(backend @ ("deepep" | "hybridep")) =
        word("parallelism", "expert_parallel_comm_backend")
    {
        draft.put("dispatcher", backend)?;
    }
    draft.unread.extend(unpriced(&find, tp));
    Ok(draft)
}

/// What changes memory or time and is not priced.
fn unpriced<'a>(find: &dyn Fn(&str, &str) -> Option<&'a Value>, tp: i64) -> Vec<String> {
    let is = |section: &str, key: &str| find(section, key).and_then(Value::as_bool) == Some(true);
    let of = |section: &str, key: &str, usual: &[&str]| {
        let value = find(section, key).and_then(Value::as_str)?;
        (!usual.contains(&value)).then(|| format!("{key} {value}"))
    };
    let all = "enable_fsdp_float8_all_gather";
    let loss = "disable_loss_parallel";
    let parts = ["module_fqns_per_model_part", "pipeline_parallel_split_points"];
    let listed = |key: &&str| {
        find("parallelism", key).and_then(Value::as_array).is_some_and(|list| !list.is_empty())
    };
    [
        of("training", "mixed_precision_param", &["bfloat16"]),
        of("training", "dtype", &["float32", "bfloat16"]),
        of("optimizer", "name", &["Adam", "AdamW"]),
        is("optimizer", "early_step_in_backward").then(|| "early_step_in_backward".to_owned()),
        (is("float8", all) || is("quantize.linear.float8", all)).then(|| all.to_owned()),
        (is("parallelism", loss) && tp > 1).then(|| loss.to_owned()),
    ]
    .into_iter()
    .flatten()
    .chain(parts.into_iter().filter(listed).map(str::to_owned))
    .collect()
}

/// The batch of a data-parallel rank is divided into micro-batches only in a pipeline.
fn batch(draft: &mut Draft, number: &dyn Fn(&str, &str) -> Option<i64>, pp: i64) -> Result<()> {
    let local = number("training", "local_batch_size").or(number("training", "batch_size"));
    let Some(local) = local else { return Ok(()) };
    // Earlier files say how many micro-batches, one for each stage unless told otherwise.
    let early = number("experimental", "pipeline_parallel_degree");
    let times = number("experimental", "pipeline_parallel_microbatches").or(early);
    let micro = match (pp, times) {
        (1, _) => local,
        (_, Some(times)) => (local / times.max(1)).max(1),
        _ => number("parallelism", "pipeline_parallel_microbatch_size").unwrap_or(1),
    };
    draft.put("micro_batch", micro.to_string())?;
    if pp > 1 {
        // Each local batch passes the pipeline on its own (`train_step`, torchtitan/train.py).
        draft.put("local_batch", local.to_string())?;
    }
    match number("training", "global_batch_size").filter(|n| *n > 0) {
        Some(global) => draft.put("global_batch", global.to_string()),
        None => draft.put("accumulation", (local / micro.max(1)).max(1).to_string()),
    }
}

/// Tables such as `[quantize.linear.float8]` hold options; a converter switches them on.
fn precision(whole: &Table) -> &'static str {
    let words = |value: Option<&Value>| match value {
        Some(Value::Array(list)) => {
            list.iter().filter_map(Value::as_str).any(|w| w.contains("float8") || w.contains("mx"))
        }
        _ => false,
    };
    let model = whole.get("model").and_then(Value::as_table);
    let converted = words(model.and_then(|m| m.get("converters")));
    let switch = whole.get("float8").and_then(|f| f.get("enable_float8_linear"));
    if converted || switch.and_then(Value::as_bool) == Some(true) { "fp8" } else { "bf16" }
}

fn schedule(
    draft: &mut Draft,
    name: Option<&str>,
    number: &dyn Fn(&str, &str) -> Option<i64>,
    pp: i64,
) -> Result<()> {
    if pp < 2 {
        return draft.put("chunks_per_stage", "1");
    }
    let name = name.unwrap_or("1F1B");
    draft.put("schedule", name)?;
    match number("parallelism", "pipeline_parallel_layers_per_stage") {
        Some(layers) => draft.put("layers_per_chunk", layers.to_string()),
        // Schedules with several stages per rank use two by default.
        None if name.contains("Interleaved")
            || name.contains("ZBV")
            || name.contains("DualPipe") =>
        {
            draft.inferred.push("2 chunks per stage, torchtitan's default".to_owned());
            draft.put("chunks_per_stage", "2")
        }
        None => draft.put("chunks_per_stage", "1"),
    }
}

//! Arguments of TensorRT-LLM's server, `trtllm-serve`, and the options of its YAML (`--config`,
//! `--extra_llm_api_options`), which stand above them.
//!
//! Source: github.com/NVIDIA/TensorRT-LLM, `tensorrt_llm/commands/serve.py`: arguments, names and defaults;
//! `tensorrt_llm/builder.py` (`BuildConfig`): those of the batch; `tensorrt_llm/llmapi/llm_args.py`: the YAML.

use std::collections::BTreeMap;

use super::arguments::Arguments;
use super::draft::Draft;
use super::serve::{Doing, GATHER, REDUCE};
use super::shell::statements;
use crate::base::error::Result;
use crate::plan::table::{Files, joined};

/// The command, before its model.
const COMMAND: &str = "trtllm-serve";

/// Sequences, tokens of a step and the part of the memory by default.
const USUAL: [(&str, &str); 3] = [("sequences", "2048"), ("chunk", "8192"), ("utilization", "0.9")];

/// Options that change what runs, but are priced as if they were absent.
const UNPRICED: [(&[&str], &str); 5] = [
    (&["context-parallel-size", "cp-size"], "context parallelism"),
    (&["speculative-config.decoding-type", "speculative-config"], "speculative decoding"),
    (&["moe-config.load-balancer", "moe-config.load-balancer.num-slots"], "redundant experts"),
    (&["moe-cluster-parallel-size", "cluster-size"], "clusters of experts"),
    (&["sparse-attention-config.algorithm"], "sparse attention"),
];

/// Whether a text contains such a command, or options of such a YAML alone.
pub(super) fn is(text: &str) -> bool {
    const KEYS: [&str; 4] = [
        "kv_cache_config:",
        "cuda_graph_config:",
        "enable_attention_dp:",
        "moe_expert_parallel_size:",
    ];
    text.contains(COMMAND) || text.lines().any(|line| KEYS.iter().any(|key| line.starts_with(key)))
}

/// Reads a script with the command, with the YAML that it names or writes, or a YAML alone.
///
/// # Errors
/// A value that is none of the key.
pub(super) fn read(files: &dyn Files, text: &str, file: &str) -> Result<Draft> {
    let mut draft = Draft { called: named(text), ..Draft::default() };
    let args = Arguments::of(text);
    let mut own = BTreeMap::new();
    match args.any(&["config", "extra-llm-api-options"]) {
        _ if !text.contains(COMMAND) => own = options(text),
        Some(path) => match written(text).or_else(|| files.text(&joined(file, path)).ok()) {
            Some(yaml) => own = options(&yaml),
            None => {
                draft.inferred.push(format!("without the options of {path}, which is not there"))
            }
        },
        None => {}
    }
    let said = |keys: &[&str]| {
        let above = keys.iter().find_map(|key| own.get(*key).map(String::as_str));
        above.or_else(|| args.any(keys)).filter(|value| !matches!(*value, "null" | "None"))
    };
    let count = |keys: &[&str]| said(keys).and_then(|text| text.parse::<u32>().ok()).unwrap_or(1);
    let tp = count(&["tensor-parallel-size", "tp-size"]);
    // Each rank then attends to sequences of its own, with whole dense layers (`_compute_mlp_tp_size`,
    // tensorrt_llm/_torch/models/modeling_deepseekv3.py).
    let apart = own.get("enable-attention-dp").is_some_and(|value| value == "true");
    let (attention, replicas) = if apart { (1, tp) } else { (tp, 1) };
    draft.put("serve", "true")?;
    draft.put("engine", "tensorrt-llm")?;
    draft.put("tp", attention.to_string())?;
    draft.put("dp", replicas.to_string())?;
    draft.put("pp", count(&["pipeline-parallel-size", "pp-size"]).to_string())?;
    draft.put("ep", count(&["moe-expert-parallel-size", "ep-size"]).to_string())?;
    draft.put("all2all", if apart { GATHER } else { REDUCE })?;
    if apart {
        draft.inferred.push(
            "tokens reach experts by an all-gather: where NVLink joins the nodes, set all2all=alltoall".to_owned(),
        );
    }
    let keys = [
        ("sequences", ["max-batch-size"].as_slice()),
        ("chunk", &["max-num-tokens"]),
        ("context", &["max-seq-len"]),
        (
            "utilization",
            &[
                "kv-cache-config.free-gpu-memory-fraction",
                "free-gpu-memory-fraction",
                "kv-cache-free-gpu-memory-fraction",
            ],
        ),
        ("cache_type", &["kv-cache-config.dtype", "kv-cache-dtype"]),
    ];
    for (key, names) in keys {
        let usual = || USUAL.iter().find(|(usual, _)| *usual == key).map(|(_, value)| *value);
        if said(names).is_none()
            && let Some(value) = usual()
        {
            draft.inferred.push(format!("{key} {value}: the default of {COMMAND}"));
        }
        if let Some(value) = said(names).or_else(usual) {
            draft.put(key, value)?;
        }
    }
    draft.inferred.push(
        "utilization is a part of all memory; TensorRT-LLM's is one of what weights leave, where somewhat more fits".to_owned(),
    );
    draft.only = match said(&["server-role"]).map(str::to_ascii_lowercase).as_deref() {
        Some("context") => Some(Doing::Prefill),
        Some("generation") => Some(Doing::Decode),
        _ => None,
    };
    for (keys, what) in UNPRICED {
        if said(keys).is_some_and(|value| value != "1") {
            draft.inferred.push(format!("without {what}, which has no price here"));
        }
    }
    Ok(draft)
}

/// The model behind the command: not the value of a flag, unless it has the slash of a repository.
fn named(text: &str) -> Option<String> {
    let line = statements(text).into_iter().find(|one| one.text.contains(COMMAND))?.text;
    let (_, behind) = line.split_once(COMMAND)?;
    let mut last = String::new();
    let mut words = behind.split(|c: char| c.is_whitespace() || "[]\",'".contains(c));
    let model = words.find(|word| {
        let flag = last.starts_with('-');
        let plain = !word.is_empty() && !word.starts_with('-') && *word != "serve";
        if !word.is_empty() {
            last = (*word).to_owned();
        }
        plain && (!flag || word.contains('/'))
    });
    model.map(str::to_owned)
}

/// What a script writes into a file: the lines of its first here-document.
fn written(text: &str) -> Option<String> {
    let mut lines = text.lines();
    let end = lines.find_map(|line| line.split_once("<<").map(|(_, end)| end))?;
    let end =
        end.trim_start_matches('-').split('>').next()?.trim().trim_matches(['"', '\'']).to_owned();
    Some(lines.take_while(|line| line.trim() != end).collect::<Vec<_>>().join("\n"))
}

/// The options of a YAML by their path: `kv-cache-config.dtype`.
fn options(yaml: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut above: Vec<(usize, String)> = Vec::new();
    for line in yaml.lines() {
        let line = line.split(" #").next().unwrap_or("");
        let deep = line.len() - line.trim_start().len();
        let Some((key, value)) =
            line.trim().split_once(':').filter(|(key, _)| !key.starts_with('#'))
        else {
            continue;
        };
        above.retain(|(indent, _)| *indent < deep);
        let key = key.replace('_', "-");
        let path = above.iter().map(|(_, key)| key.as_str()).chain([key.as_str()]);
        let path = path.collect::<Vec<_>>().join(".");
        found.insert(path, value.trim().trim_matches(['"', '\'']).to_owned());
        above.push((deep, key));
    }
    found.retain(|_, value| !value.is_empty() && value != "false");
    found
}

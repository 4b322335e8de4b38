//! Arguments of TensorRT-LLM's server, `trtllm-serve`, and the options of its YAML (`--config`,
//! `--extra_llm_api_options`), which stand above them.
//!
//! Source: github.com/NVIDIA/TensorRT-LLM, `tensorrt_llm/commands/serve.py`: arguments, names and defaults;
//! `tensorrt_llm/builder.py` (`BuildConfig`): those of the batch; `tensorrt_llm/llmapi/llm_args.py`: the YAML.

use std::collections::BTreeMap;

use super::draft::Draft;
use super::serve::{Doing, GATHER, REDUCE};
use super::shell::{Statement, statements};
use super::started::{Started, arguments, degree, named, started};
use crate::base::error::{Error, Result};
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
    !commands(&statements(text)).is_empty()
        || text.lines().any(|line| KEYS.iter().any(|key| line.starts_with(key)))
}

fn commands(all: &[Statement]) -> Vec<Started> {
    started(all, &[(COMMAND, "tensorrt-llm")])
}

/// Reads a script with the command, with the YAML that it names or writes, or a YAML alone.
///
/// # Errors
/// A value that is none of the key.
pub(super) fn read(files: &dyn Files, text: &str, file: &str) -> Result<Draft> {
    let all = statements(text);
    let mut started = commands(&all);
    started.sort_by(|a, b| a.statement.text.cmp(&b.statement.text));
    started.dedup_by(|a, b| a.statement.text == b.statement.text);
    if started.len() > 1 && started.iter().all(|one| one.statement.open.is_none()) {
        return Err(Error::input(format!("it starts {} servers", started.len()))
            .at(file.to_owned())
            .help("keep one of them in the file"));
    }
    let called = started.iter().find_map(|command| {
        let behind = command.statement.text.trim_start();
        named(behind.strip_prefix("serve ").unwrap_or(behind))
    });
    let mut draft = Draft { called, ..Draft::default() };
    let mut args = arguments(&started.iter().collect::<Vec<_>>(), &all);
    let mut own = BTreeMap::new();
    match args.any(&["config", "extra-llm-api-options"]) {
        _ if !text.contains(COMMAND) => own = options(text),
        Some(path) => match written(text, path).or_else(|| files.text(&joined(file, path)).ok()) {
            Some(yaml) => own = options(&yaml),
            None => draft
                .inferred
                .push(format!("priced without the options of {path}, which is not there")),
        },
        None => {}
    }
    args.put_above(own.into_iter().filter(|(_, value)| !matches!(&**value, "null" | "None")));
    let mut degree = |key: &str, names: &[&str]| degree(&mut draft, &args, key, names);
    let tp = degree("tp", &["tensor-parallel-size", "tp-size"]);
    let pp = degree("pp", &["pipeline-parallel-size", "pp-size"]);
    let ep = degree("ep", &["moe-expert-parallel-size", "ep-size"]);
    // Each rank then attends to sequences of its own, with whole dense layers (`_compute_mlp_tp_size`,
    // tensorrt_llm/_torch/models/modeling_deepseekv3.py).
    let apart = args.get("enable-attention-dp").map(str::to_ascii_lowercase);
    let apart = apart.is_some_and(|value| value.is_empty() || value == "true");
    let degrees =
        if apart { [("tp", tp.map(|_| 1)), ("dp", tp)] } else { [("tp", tp), ("dp", Some(1))] };
    draft.put("serve", "true")?;
    draft.put("engine", "tensorrt-llm")?;
    for (key, value) in degrees.into_iter().chain([("pp", pp), ("ep", ep)]) {
        if let Some(value) = value {
            draft.put(key, value.to_string())?;
        }
    }
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
        if args.any(names).is_none()
            && let Some(value) = usual()
        {
            draft.inferred.push(format!("{key} {value}: the default of {COMMAND}"));
        }
        if let Some(value) = args.any(names).or_else(usual) {
            draft.put(key, value)?;
        }
    }
    draft.inferred.push(
        "utilization is a part of all memory; TensorRT-LLM's is one of what weights leave, where somewhat more fits".to_owned(),
    );
    draft.only = match args.any(&["server-role"]).map(str::to_ascii_lowercase).as_deref() {
        Some("context") => Some(Doing::Prefill),
        Some("generation") => Some(Doing::Decode),
        _ => None,
    };
    for (keys, what) in UNPRICED {
        if args.any(keys).is_some_and(|value| value != "1") {
            draft.inferred.push(format!("priced without {what}"));
        }
    }
    Ok(draft)
}

/// What a script writes into the file at `path`: the lines of a here-document, whose own line names the file.
fn written(text: &str, path: &str) -> Option<String> {
    let mut lines = text.lines();
    let own = |line: &&str| line.contains(path) || path.contains('$');
    let end = lines.by_ref().filter(own).find_map(|line| Some(line.split_once("<<")?.1))?;
    let end = end.trim_start_matches('-').trim_start().split([' ', '>', '|']).next()?;
    let end = end.trim_matches(['"', '\'']).to_owned();
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

//! Arguments of TensorRT-LLM's server, `trtllm-serve`, and the options of its YAML (`--config`,
//! `--extra_llm_api_options`), which stand above them.
//!
//! Source: github.com/NVIDIA/TensorRT-LLM, `tensorrt_llm/commands/serve.py`: arguments, names and defaults;
//! `tensorrt_llm/builder.py` (`BuildConfig`): those of the batch; `tensorrt_llm/llmapi/llm_args.py`: the YAML.

use std::collections::BTreeMap;

use super::container::statements_of;
use super::draft::{Draft, Whose};
use super::flags;
use super::options::Beside;
use super::serve::{Doing, GATHER, REDUCE};
use super::shell::Statement;
use super::started::{Started, arguments, asked, degree, named, put_release, started};
use crate::base::error::{Error, Result};
use crate::base::yaml::{is_absent, scalars};

/// The command, before its model.
const COMMAND: &str = "trtllm-serve";

/// The same server behind Dynamo's frontend.
const WORKER: &str = "dynamo.trtllm";

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
pub(super) fn is(text: &str, file: &str) -> bool {
    const KEYS: [&str; 4] = [
        "kv_cache_config:",
        "cuda_graph_config:",
        "enable_attention_dp:",
        "moe_expert_parallel_size:",
    ];
    let may = text.contains(COMMAND) || text.contains(WORKER);
    may && !commands(&statements_of(text, file)).is_empty()
        || text.lines().any(|line| KEYS.iter().any(|key| line.starts_with(key)))
}

fn commands(all: &[Statement]) -> Vec<Started> {
    started(all, &[(COMMAND, "tensorrt-llm"), (WORKER, "tensorrt-llm")])
}

/// Reads a script or a YAML with the command, with the options that it names or writes, or options alone.
///
/// # Errors
/// Several servers; a value that is none of the key.
pub(super) fn read(beside: &Beside<'_>) -> Result<Draft> {
    let (text, file) = (beside.text, beside.file);
    let all = statements_of(text, file);
    let mut started = commands(&all);
    started.sort_by(|a, b| a.statement.text.cmp(&b.statement.text));
    started.dedup_by(|a, b| a.statement.text == b.statement.text);
    if started.len() > 1 && started.iter().all(|one| one.statement.open.is_none()) {
        return Err(Error::input(format!("it starts {} servers", started.len()))
            .at(file.to_owned())
            .help("keep one of them in the file"));
    }
    let mut args = arguments(&started.iter().collect::<Vec<_>>(), &all);
    let called = started.iter().find_map(|command| {
        let behind = command.statement.text.trim_start();
        named(behind.strip_prefix("serve ").unwrap_or(behind))
    });
    let called = args.any(&["model", "model-path"]).map(str::to_owned).or(called);
    let mut draft = Draft { called, ..Draft::default() };
    let mut own = BTreeMap::new();
    match args.any(&["config", "extra-llm-api-options", "extra-engine-args"]) {
        _ if started.is_empty() => own = options(text),
        Some(path) => match beside.options(path) {
            Some(found) => {
                own = options(&found.text);
                draft.taken.extend(found.taken);
            }
            None => draft
                .inferred
                .push(format!("priced without the options of {path}, which is not there")),
        },
        None => {}
    }
    // Dynamo's are above its file.
    if let Some(object) = args.any(&["override-engine-args"]) {
        own.extend(options(object));
    }
    let typed = args.clone();
    args.put_above(own.into_iter().filter(|(_, value)| !matches!(&**value, "null" | "None")));
    let mut degree = |key: &str, names: &[&str]| degree(&mut draft, &args, key, names);
    let tp = degree("tp", &["tensor-parallel-size", "tp-size"]);
    let pp = degree("pp", &["pipeline-parallel-size", "pp-size"]);
    let ep = degree("ep", &["moe-expert-parallel-size", "ep-size", "expert-parallel-size"]);
    // Each rank then attends to sequences of its own, with whole dense layers (`_compute_mlp_tp_size`,
    // tensorrt_llm/_torch/models/modeling_deepseekv3.py).
    let apart = args.get("enable-attention-dp").map(str::to_ascii_lowercase);
    if let Some(value) = apart.as_deref().filter(|value| value.contains('$')) {
        draft.asked.push(format!("dp (enable_attention_dp {value}: 1, or tp with a tp of 1)"));
    }
    let apart = apart.is_some_and(|value| value.is_empty() || value == "true");
    let degrees =
        if apart { [("tp", tp.map(|_| 1)), ("dp", tp)] } else { [("tp", tp), ("dp", None)] };
    draft.put("serve", "true")?;
    put_release("tensorrt-llm", &all, &mut draft)?;
    for (key, value) in degrees.into_iter().chain([("pp", pp), ("ep", ep)]) {
        if let Some(value) = value {
            draft.put(key, value.to_string())?;
        }
    }
    if !apart {
        // Options in another file may say more.
        draft.usually(Whose::Program, [("all2all", REDUCE)]);
    } else {
        draft.put("all2all", GATHER)?;
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
        match args.any(names) {
            Some(value) if value.contains(['$', '`']) => {
                draft.undecided.push((key, format!("{key} {value}, which only a run decides,")));
            }
            Some(value) if key != "cache_type" && value.parse::<f64>().is_err() => {
                draft.asked.push(asked(&args, key, names, value));
            }
            Some(value) => draft.put(key, value)?,
            None => {}
        }
    }
    draft.usually(Whose::Program, USUAL);
    // A value that is not read has no default in its place.
    let is_asked = |key: &str| draft.asked.iter().any(|asked| asked.split(' ').next() == Some(key));
    let asked: Vec<&str> =
        USUAL.into_iter().map(|(key, _)| key).filter(|key| is_asked(key)).collect();
    draft.usual.retain(|(_, key), _| !asked.contains(key));
    let role = args.any(&["server-role", "disaggregation-mode"]).map(str::to_ascii_lowercase);
    draft.only = match role.as_deref() {
        Some("context" | "prefill") => Some(Doing::Prefill),
        Some("generation" | "decode") => Some(Doing::Decode),
        _ => None,
    };
    for (keys, what) in UNPRICED {
        if args.any(keys).is_some_and(|value| value != "1") {
            draft.inferred.push(format!("priced without {what}"));
        }
    }
    if !started.is_empty() {
        // The file's own options are many, and most are about kernels.
        typed.ask_as(&args);
        draft.inferred.extend(flags::unread(&typed, "tensorrt-llm"));
    }
    Ok(draft)
}

/// The options of a YAML by their path: `kv-cache-config.dtype`.
fn options(yaml: &str) -> BTreeMap<String, String> {
    let all = scalars(yaml).into_iter().map(|one| (one.option(), one.text));
    all.filter(|(_, value)| !is_absent(value)).collect()
}

//! Arguments of vLLM and SGLang: a command line, in a script, inside a page or in the YAML of Kubernetes
//! and Compose, or their own flat YAML.
//!
//! Sources: docs.vllm.ai (engine arguments); vllm-project/vllm, vllm/engine/arg_utils.py;
//! docs.sglang.io/advanced_features/server_arguments.html.

use super::arguments::Arguments;
use super::draft::Draft;
use super::serve::{COPIES, Doing, GATHER, REDUCE};
use super::weights::by_checkpoint;
use crate::base::error::Result;

/// Whether a text contains such arguments.
pub(super) fn is(text: &str) -> bool {
    text.contains("vllm serve")
        || text.contains("vllm.entrypoints")
        || text.contains(IMAGE)
        || text.contains("sglang")
        || text.contains("model-path")
        // Keys of vLLM's own file (`--config`).
        || ["max-model-len", "gpu-memory-utilization", "tensor-parallel-size"].iter().any(|key| text.contains(key))
}

/// vLLM's image, which starts the server with the arguments behind it.
const IMAGE: &str = "vllm-openai";

/// Tokens of SGLang's chunks by default, on GPUs of 60 to 160 GB.
const CHUNK: u32 = 8192;

/// Flags that change what runs, but are priced as if they were absent.
const UNPRICED: [(&[&str], &str); 10] = [
    (
        &[
            "prefill-context-parallel-size",
            "-pcp",
            "attention-context-parallel-size",
            "attn-cp-size",
        ],
        "context parallelism of prefills",
    ),
    (&["speculative-config", "-sc", "speculative-algorithm"], "speculative decoding"),
    (&["cpu-offload-gb"], "weights on the host"),
    (&["enforce-eager", "disable-cuda-graph"], "the host's launch of each kernel"),
    (&["enable-dp-lm-head"], "a head for each group"),
    (&["moe-dense-tp-size"], "a TP of its own for dense layers"),
    (&["enable-eplb", "eplb-config", "ep-num-redundant-experts"], "redundant experts"),
    (
        &["enable-dbo", "enable-two-batch-overlap", "enable-single-batch-overlap"],
        "exchanges under the computing of another half of the batch",
    ),
    (
        &["compilation-config", "optimization-level", "-O0", "-O1", "-O"],
        "another compilation than the usual one",
    ),
    (&["config"], "the arguments in the file of --config: name it instead"),
];

/// vLLM's exchange of tokens, as releases until 0.11 take it from the environment.
const BACKEND: &str = "VLLM_ALL2ALL_BACKEND=";

/// Reads arguments of either server.
///
/// # Errors
/// None from this reader itself.
pub(super) fn read(text: &str, file: &str) -> Result<Draft> {
    let yaml = file.ends_with(".yaml") || file.ends_with(".yml");
    let line = if yaml { command(text) } else { None };
    let text = line.as_deref().unwrap_or(text);
    let flat = yaml && line.is_none();
    let args = if flat { Arguments::of_yaml(text) } else { Arguments::of(text) };
    let mut draft = Draft::default();
    draft.put("serve", "true")?;
    let sglang = text.contains("sglang") || args.any(&["model-path"]).is_some();
    draft.called = args.any(&["model-path", "model"]).map(str::to_owned).or_else(|| named(text));
    let tp = args.number(&["tensor-parallel-size", "tp-size", "tp", "-tp"]).unwrap_or(1);
    let dp = args.number(&["data-parallel-size", "dp-size", "dp", "-dp"]).unwrap_or(1);
    let pp = args.number(&["pipeline-parallel-size", "pp-size", "pp", "-pp"]).unwrap_or(1);
    let ep = args.number(&["expert-parallel-size", "ep-size", "ep"]);
    draft.put("pp", pp.to_string())?;
    // SGLang's data-parallel attention is inside its TP; otherwise replicas are outside it.
    let inside = sglang && args.has("enable-dp-attention");
    let (attention, replicas) = if inside { ((tp / dp.max(1)).max(1), dp) } else { (tp, dp) };
    draft.put("tp", attention.to_string())?;
    draft.put("dp", replicas.to_string())?;
    let environment = text.split_once(BACKEND).and_then(|(_, rest)| {
        rest.split(|c: char| c.is_whitespace() || c == '"' || c == '\'')
            .find(|word| !word.is_empty())
    });
    let backend = args.any(&["all2all-backend", "moe-a2a-backend"]).or(environment).unwrap_or("");
    let deepep = backend.contains("deepep") || args.has("enable-deepep-moe");
    let spread = args.has("enable-expert-parallel") || args.has("-ep");
    let ep = match sglang {
        true if deepep || args.has("enable-ep-moe") || spans_tp(backend) => tp,
        false if spread => attention.saturating_mul(replicas),
        _ => ep.unwrap_or(1),
    };
    draft.put("ep", ep.to_string())?;
    let copies = [
        ("dcp", ["decode-context-parallel-size", "dcp-size", "-dcp"].as_slice()),
        ("sequences", &["max-num-seqs"]),
        ("utilization", &["gpu-memory-utilization", "mem-fraction-static"]),
        ("cache_type", &["kv-cache-dtype"]),
    ];
    for (key, names) in copies {
        if let Some(value) = args.any(names) {
            draft.put(key, value)?;
        }
    }
    if let Some(method) = args.any(&["quantization", "-q"]) {
        let key = if by_checkpoint(method).is_some() { "quantization" } else { "weights_type" };
        draft.put(key, method)?;
    }
    match args.any(&["max-model-len", "context-length"]) {
        Some("auto" | "-1") => {
            draft.inferred.push("the length that fits is asked for: set context".to_owned());
        }
        Some(text) => draft.put("context", counted(text))?,
        None => {}
    }
    // SGLang counts what all groups of its data-parallel attention run at once.
    let groups = if inside { replicas.max(1) } else { 1 };
    let share = |all: u32| (all / groups).max(1).to_string();
    if let Some(all) = args.number(&["max-running-requests"]) {
        draft.put("sequences", share(all))?;
    }
    if let Some(text) = args.any(&["max-num-batched-tokens", "chunked-prefill-size"]) {
        let all = counted(text);
        draft.put("chunk", all.parse().map_or(all, share))?;
    } else if inside {
        draft.put("chunk", share(CHUNK))?;
        draft.inferred.push(format!("chunk {}: {CHUNK} of all groups", share(CHUNK)));
    }
    draft.put("engine", if sglang { "sglang" } else { "vllm" })?;
    draft.only = match args.any(&["disaggregation-mode"]) {
        Some("decode") => Some(Doing::Decode),
        Some("prefill") => Some(Doing::Prefill),
        _ => None,
    };
    // vLLM's backends name the kernels, SGLang's have a mode, by default by phase.
    let mode = args.any(&["deepep-mode"]).unwrap_or(if sglang { "auto" } else { backend });
    let exchange = match (sglang, backend) {
        _ if deepep && mode == "auto" => "deepep-auto",
        _ if deepep && mode.replace('-', "_").contains("low_latency") => "deepep-ll",
        _ if deepep => "deepep-normal",
        (true, named) if spans_tp(named) => COPIES,
        (true, _) if inside => GATHER,
        (true, _) => REDUCE,
        (false, "" | "naive" | "allgather_reducescatter") => GATHER,
        (false, _) => COPIES,
    };
    draft.put("all2all", exchange)?;
    if args.has("disable-custom-all-reduce") {
        draft.put("custom_all_reduce", "false")?;
    }
    if let Some(fused) = fused_norm(&args, sglang) {
        draft.put("fused_norm", fused.to_string())?;
    }
    if matches!(args.any(&["dtype"]), Some("float32" | "float")) {
        draft.inferred.push("without elements of 32 bits, which have no price here".to_owned());
    }
    for (flags, what) in UNPRICED {
        if flags.iter().any(|flag| args.has(flag)) {
            draft.inferred.push(format!("without {what}, which has no price here"));
        }
    }
    Ok(draft)
}

/// Whether flags say that all-reduces and norms are one kernel, or that they are not: vLLM's pass belongs to
/// optimization level 2 (vllm/config/vllm.py), SGLang has flags for it (python/sglang/srt/server_args.py).
fn fused_norm(args: &Arguments, sglang: bool) -> Option<bool> {
    let has = |flags: &[&str]| flags.iter().any(|flag| args.has(flag));
    match sglang {
        true if has(&["enforce-disable-flashinfer-allreduce-fusion"]) => Some(false),
        true => has(&["enable-flashinfer-allreduce-fusion", "flashinfer-allreduce-fusion-backend"])
            .then_some(true),
        false => {
            let low = matches!(args.any(&["optimization-level", "-O"]), Some("0" | "1"));
            (low || has(&["enforce-eager", "-O0", "-O1"])).then_some(false)
        }
    }
}

/// Whether SGLang spreads experts over all ranks of TP, whatever `--ep-size` says: every exchange of
/// tokens does, except those that leave TP's all-reduce in place (`_A2A_EP_SPANNING_BACKENDS` in
/// sgl-project/sglang, python/sglang/srt/arg_groups/overrides.py).
fn spans_tp(backend: &str) -> bool {
    !matches!(backend, "" | "none" | "ascend_tp")
}

/// A count as vLLM reads it: `128k` is 128,000 and `128K` is 131,072 (`human_readable_int`,
/// vllm/utils/argparse_utils.py). What is no such count is unchanged.
fn counted(text: &str) -> String {
    let scaled = |unit: char, by: f64| {
        let number: f64 = text.strip_suffix(unit)?.parse().ok()?;
        Some((number * by).floor().to_string())
    };
    let found = [('k', 1e3), ('K', 1024.0), ('m', 1e6), ('M', 1_048_576.0)];
    found.into_iter().find_map(|(unit, by)| scaled(unit, by)).unwrap_or_else(|| text.to_owned())
}

/// The command line of a container in YAML: all words of its lists and texts; `None` if it has no flags.
fn command(yaml: &str) -> Option<String> {
    let plain = |line: &str| {
        let line = line.split(" #").next().unwrap_or("").trim_start().trim_end_matches('\\');
        let line = line.strip_prefix("- ").unwrap_or(line);
        line.replace(['[', ']', ',', '"', '\''], " ")
    };
    let lines: Vec<String> = yaml.lines().map(plain).collect();
    let line = lines.join(" ");
    let is_flag = |word: &str| {
        word.strip_prefix("--")
            .is_some_and(|key| key.starts_with(|c: char| c.is_ascii_alphabetic()))
    };
    line.split_whitespace().any(is_flag).then_some(line)
}

/// The model after `vllm serve`, or after vLLM's image: not the value of a flag, unless it has the
/// slash of a repository.
fn named(text: &str) -> Option<String> {
    let (_, behind) = text.split_once("vllm serve").or_else(|| text.split_once(IMAGE))?;
    let mut last = "";
    let odd = |word: &str| word.starts_with(['\\', ':', '@']) || word.ends_with(':');
    let model = behind.split_whitespace().filter(|word| !odd(word)).find(|word| {
        let flag = std::mem::replace(&mut last, word).starts_with('-');
        !word.starts_with('-') && (!flag || word.contains('/'))
    });
    model.map(str::to_owned)
}

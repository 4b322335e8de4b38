//! Arguments of vLLM and SGLang: a command line, in a script or inside a page, or SGLang's YAML.
//!
//! Sources: docs.vllm.ai (engine arguments); docs.sglang.io/advanced_features/server_arguments.html.

use super::arguments::Arguments;
use super::draft::Draft;
use crate::base::error::Result;

/// Whether a text contains such arguments.
pub(super) fn is(text: &str) -> bool {
    text.contains("vllm serve")
        || text.contains("vllm.entrypoints")
        || text.contains("sglang")
        || text.contains("model-path")
}

/// Reads arguments of either server.
///
/// # Errors
/// None from this reader itself.
pub(super) fn read(text: &str, file: &str) -> Result<Draft> {
    let yaml = file.ends_with(".yaml") || file.ends_with(".yml");
    let args = if yaml { Arguments::of_yaml(text) } else { Arguments::of(text) };
    let mut draft = Draft::default();
    draft.put("serve", "true")?;
    let sglang = text.contains("sglang") || args.any(&["model-path"]).is_some();
    draft.model_name =
        args.any(&["model-path", "model"]).map(str::to_owned).or_else(|| named(text));
    let tp = args.number(&["tensor-parallel-size", "tp-size", "tp"]).unwrap_or(1);
    let dp = args.number(&["data-parallel-size", "dp-size", "dp"]).unwrap_or(1);
    let pp = args.number(&["pipeline-parallel-size", "pp-size", "pp"]).unwrap_or(1);
    let ep = args.number(&["expert-parallel-size", "ep-size", "ep"]);
    draft.put("pp", pp.to_string())?;
    // SGLang's data-parallel attention is inside its TP; otherwise replicas are outside it.
    let (attention, replicas) = match sglang && args.has("enable-dp-attention") {
        true => ((tp / dp).max(1), dp),
        false => (tp, dp),
    };
    draft.put("tp", attention.to_string())?;
    draft.put("dp", replicas.to_string())?;
    let backend = args.any(&["all2all-backend", "moe-a2a-backend"]).unwrap_or("");
    let deepep = backend.contains("deepep") || args.has("enable-deepep-moe");
    let ep = match sglang {
        true if deepep || args.has("enable-ep-moe") || spans_tp(backend) => tp,
        false if args.has("enable-expert-parallel") => attention * replicas,
        _ => ep.unwrap_or(1),
    };
    draft.put("ep", ep.to_string())?;
    let copies = [
        ("context", ["max-model-len", "context-length"].as_slice()),
        ("sequences", &["max-num-seqs"]),
        ("chunk", &["max-num-batched-tokens", "chunked-prefill-size"]),
        ("utilization", &["gpu-memory-utilization", "mem-fraction-static"]),
        ("cache_type", &["kv-cache-dtype"]),
        ("weights_type", &["quantization"]),
    ];
    for (key, names) in copies {
        if let Some(value) = args.any(names) {
            draft.put(key, value)?;
        }
    }
    // SGLang counts the sequences of all its groups.
    if let Some(all) = args.number(&["max-running-requests"]) {
        draft.put("sequences", (all / replicas).max(1).to_string())?;
    }
    draft.put("engine", if sglang { "sglang" } else { "vllm" })?;
    if deepep {
        // vLLM's backends name the kernels, SGLang's have a mode, by default by phase.
        let mode = args.any(&["deepep-mode"]).unwrap_or(if sglang { "auto" } else { backend });
        draft.put(
            "all2all",
            match mode {
                "auto" => "deepep-auto",
                low if low.replace('-', "_").contains("low_latency") => "deepep-ll",
                _ => "deepep-normal",
            },
        )?;
    }
    Ok(draft)
}

/// Whether SGLang spreads experts over all ranks of TP, whatever `--ep-size` says: every exchange of
/// tokens does, except those that leave TP's all-reduce in place (`_A2A_EP_SPANNING_BACKENDS` in
/// sgl-project/sglang, python/sglang/srt/arg_groups/overrides.py).
fn spans_tp(backend: &str) -> bool {
    !matches!(backend, "" | "none" | "ascend_tp")
}

/// The model after `vllm serve`.
fn named(text: &str) -> Option<String> {
    let behind = text.split("vllm serve").nth(1)?;
    behind.split_whitespace().find(|word| !word.starts_with(['-', '\\'])).map(str::to_owned)
}

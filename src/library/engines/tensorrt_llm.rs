//! TensorRT-LLM's AllReduce: MNNVL across trays, its autotuner's measurements, or a table by shape.
//!
//! Source: NVIDIA/TensorRT-LLM, `cpp/tensorrt_llm/thop/allreduceOp.cpp` (01e2c361),
//! `cpp/tensorrt_llm/common/customAllReduceUtils.h` (005b299b), `tensorrt_llm/_torch/distributed/ops.py`
//! (0071496d).

use super::ask::{Ask, FLOATS, MIB};
use super::{Engine, Taken, Tried, symm_mem};
use crate::base::collective::Collective;
use crate::machine::sample::DataType;

pub(super) static ENGINE: Engine = Engine {
    id: "tensorrt-llm",
    aliases: &["trtllm", "trt-llm", "tensorrtllm"],
    title: "TensorRT-LLM: the kernel that its AllReduce runs, with strategy AUTO",
    releases: &["1.3.0", "1.2.0"],
    source: "NVIDIA/TensorRT-LLM, cpp/tensorrt_llm/thop/allreduceOp.cpp at 01e2c361",
    variables: &[
        "strategy",
        "allreduce_strategy",
        "fusion",
        "TLLM_DISABLE_ALLREDUCE_AUTOTUNE",
        "TRTLLM_ALLREDUCE_FUSION_WORKSPACE_SIZE",
        "FORCE_ALL_REDUCE_DETERMINISTIC",
        "p2p",
    ],
    force: &[
        ("trtllm", "allreduce_strategy: ONESHOT, TWOSHOT or LOWPRECISION; UB in a fused call"),
        ("trtllm-mnnvl", "allreduce_strategy: MNNVL"),
        ("nccl-symm", "allreduce_strategy: NCCL_SYMMETRIC"),
        ("symm-mem", "allreduce_strategy: SYMM_MEM"),
        ("nccl", "allreduce_strategy: NCCL"),
    ],
    ways: &[
        &["strategy=ONESHOT"],
        &["strategy=TWOSHOT"],
        &["strategy=SYMM_MEM"],
        &["strategy=NCCL"],
    ],
    rivals: true,
    collectives: &[Collective::AllReduce],
    choose,
};

fn choose(ask: &Ask<'_>) -> Taken {
    let asked = ask.env.get("strategy").or(ask.env.get("allreduce_strategy")).unwrap_or("AUTO");
    let asked = asked.to_ascii_uppercase().replace('-', "_");
    if !ask.board.cuda() {
        return Taken::none("it is for NVIDIA's GPUs");
    }
    let mut refused = Vec::new();
    let fused = fusion(ask) != "NONE";
    let taken = match asked.as_str() {
        "NCCL" | "0" => Taken::nccl("strategy NCCL"),
        "NCCL_SYMMETRIC" | "8" => Taken::new("nccl-symm", "library", "strategy NCCL_SYMMETRIC"),
        "ONESHOT" | "4" => forced(ask, true),
        "TWOSHOT" | "5" => forced(ask, false),
        "LOWPRECISION" | "6" => low_precision(ask),
        // Only AUTO and MNNVL set up MNNVL, and FLASHINFER's rest is AUTO's (ops.py).
        "FLASHINFER" => by_strategy(ask, &asked, &mut refused),
        _ => match mnnvl(ask) {
            Ok(taken) => taken,
            Err(why) => {
                refused.push(("trtllm-mnnvl", why));
                by_strategy(ask, &asked, &mut refused)
            }
        },
    };
    let taken = Taken { refused, ..taken };
    if fused { taken.with_norm() } else { taken }
}

/// Only AUTO is left to the autotuner (ops.py). The test for PCIe (`isUsingLowPrecision`) is given the columns in
/// place of all elements, and wants 2 Mi of them.
fn low_precision(ask: &Ask<'_>) -> Taken {
    match may_run(ask) {
        Err(why) => Taken::nccl(why),
        Ok(()) => Taken::new("trtllm", "low-precision", "strategy LOWPRECISION")
            .note("it sends FP8 in place of the elements"),
    }
}

/// What is fused with the call, as the tables name it.
fn fusion(ask: &Ask<'_>) -> &'static str {
    let asked = ask.env.get("fusion").unwrap_or_default().to_ascii_uppercase().replace('-', "_");
    match asked.as_str() {
        "RMS" | "RESIDUAL_RMS_NORM" => "RMS",
        "FP8" | "RESIDUAL_RMS_NORM_QUANT_FP8" => "FP8",
        "NVFP4" | "RESIDUAL_RMS_NORM_QUANT_NVFP4" => "NVFP4",
        _ => "NONE",
    }
}

fn by_strategy(ask: &Ask<'_>, asked: &str, refused: &mut Vec<(&'static str, String)>) -> Taken {
    match asked {
        "MIN_LATENCY" | "1" => match may_run(ask) {
            Err(why) => Taken::nccl(why),
            Ok(()) if ask.rows_at_most(128) => own(true, "at most 128 rows"),
            Ok(()) => own(false, "more than 128 rows"),
        },
        "UB" | "2" => user_buffers(ask),
        "SYMM_MEM" | "9" => match torch(ask) {
            Ok(taken) => taken,
            Err(why) => {
                refused.push(("symm-mem", why));
                auto(ask)
            }
        },
        // `FlashInferVLLMAllReduce` (ops.py) of calls without a norm; the rest is AUTO's.
        "FLASHINFER" if fusion(ask) == "NONE" => auto(ask).note(
            "up to 256 rows FlashInfer's port of vLLM's custom kernels runs first, if it is installed and its \
             buffer holds them: its kernels are not told here",
        ),
        _ => auto(ask),
    }
}

/// The owner of some rows reads their sum from the switch, applies the norm and multicasts the
/// result; the residual stays with the owner until the last layer.
fn user_buffers(ask: &Ask<'_>) -> Taken {
    match ask.one_node() {
        _ if fusion(ask) == "NONE" => Taken::nccl("user buffers serve fused calls only"),
        Err(why) => Taken::nccl(why),
        Ok(()) if !ask.board.multicast => Taken::nccl("the switch does not multicast"),
        Ok(()) => Taken::new("trtllm", "two-shot-multimem", "user buffers, a fused call")
            .note("the norm is applied before the result is shared: quantised, it is shorter"),
    }
}

fn auto(ask: &Ask<'_>) -> Taken {
    if ask.env.is_on("TLLM_DISABLE_ALLREDUCE_AUTOTUNE", false) {
        return by_table(ask);
    }
    let table = by_table(ask);
    let without = format!(
        "with TLLM_DISABLE_ALLREDUCE_AUTOTUNE=1 the table decides: {}/{}, {}",
        table.kernel.backend, table.kernel.kernel, table.rule
    );
    Taken::new("nccl-symm", "library", "the autotuner is on and has not tuned this shape")
        .note("a shape tuned at startup runs the fastest of NCCL_SYMMETRIC, NCCL, ONESHOT and TWOSHOT")
        .note(without)
}

fn own(one_shot: bool, rule: impl Into<String>) -> Taken {
    Taken::new("trtllm", if one_shot { "one-shot-push" } else { "two-shot-pull" }, rule)
}

/// Whether the release has the newer table and workspace.
fn newer(ask: &Ask<'_>) -> bool {
    ask.since(1, 3, 0)
}

/// S is within the workspace, on one node with peer access over NVLink.
fn may_run(ask: &Ask<'_>) -> Result<(), String> {
    let workspace = match (newer(ask), ask.env.number("TRTLLM_ALLREDUCE_FUSION_WORKSPACE_SIZE")) {
        _ if ask.env.is_on("FORCE_ALL_REDUCE_DETERMINISTIC", false) => 1_000_000_000,
        (true, Some(bytes)) => bytes,
        (true, None) => 64 * MIB,
        (false, _) if ask.ranks <= 2 => 16_000_000,
        (false, _) => 8_000_000,
    };
    if !ask.at_most(workspace) {
        return Err(format!("above the workspace of {workspace} B"));
    }
    ask.one_node()?;
    match ask.board.linked && ask.board.peer_access {
        true => Ok(()),
        false => Err("no NVLink with peer access between every pair".to_owned()),
    }
}

fn forced(ask: &Ask<'_>, one_shot: bool) -> Taken {
    let name = if one_shot { "strategy ONESHOT" } else { "strategy TWOSHOT" };
    match may_run(ask) {
        Err(why) => Taken::nccl(format!("{name}, but {why}")),
        Ok(()) if one_shot => own(true, name),
        Ok(()) => match ask.rows_at_least(ask.ranks.into()) {
            true => own(false, name),
            false => own(true, "strategy TWOSHOT, but fewer rows than ranks"),
        },
    }
}

fn mnnvl(ask: &Ask<'_>) -> Tried {
    if ask.nodes == 1 {
        return Err("the group is on one node".to_owned());
    }
    if !ask.board.aarch64 || ask.ranks > ask.board.domain || !ask.board.multicast {
        return Err("no NVLink between the group's nodes".to_owned());
    }
    ask.dtype_of(FLOATS)?;
    let total = if newer(ask) { MIB } else { MIB / 2 };
    let limit = total / u64::from(ask.ranks);
    let (kernel, sign) = match ask.at_most(limit) {
        true => ("one-shot-push", "at most"),
        false => ("two-shot-push", "above"),
    };
    Ok(Taken::new("trtllm-mnnvl", kernel, format!("S·n {sign} {} KiB", total / 1024)))
}

fn torch(ask: &Ask<'_>) -> Tried {
    let listed: &[u32] = if ask.board.sm == Some(90) { &[4, 6, 8] } else { &[6, 8] };
    ask.ranks_of(listed)?;
    ask.dtype_of(&[DataType::Bf16])?;
    let limit = symm_mem::limit(ask).ok_or("no entry for these GPUs")?;
    symm_mem::meets(ask)?;
    match ask.below(limit) {
        true => Ok(Taken::new("symm-mem", "two-shot-multimem", format!("below {limit} B"))),
        false => Err(format!("from {limit} B on")),
    }
}

/// The tables of both releases.
const TABLES: &str = include_str!("tensorrt_llm.txt");

/// The table's strategy for the shape: 0 NCCL, 4 one shot, 5 two shots.
fn by_table(ask: &Ask<'_>) -> Taken {
    if let Err(why) = may_run(ask) {
        return Taken::nccl(why);
    }
    let (columns, rows) = (ask.columns().ilog2(), ask.rows().ilog2());
    // One more row may be a different entry of the table.
    for k in 1..=15 {
        ask.rows_at_least(1 << k);
    }
    ask.columns_double();
    let fusion = fusion(ask);
    let table = if newer(ask) { "B" } else { "A" };
    let sm = if ask.board.sm < Some(100) { "90" } else { "100" };
    let ranks = ask.ranks.ilog2();
    let shape = format!("{} x {} elements, {} ranks", ask.rows(), ask.columns(), ask.ranks);
    let entry = || {
        let line = TABLES.lines().filter(|l| !l.starts_with('#')).find_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let key = [table, sm, &(1_u32 << ranks).to_string(), fusion];
            (words[..4] == key).then(|| words[4..].to_vec())
        })?;
        line.get(columns.checked_sub(7)? as usize)?.as_bytes().get(rows as usize).copied()
    };
    match entry() {
        Some(b'4') => own(true, format!("table {table}: one-shot for {shape}")),
        Some(b'5') => own(false, format!("table {table}: two-shot for {shape}")),
        Some(_) => Taken::nccl(format!("table {table}: NCCL for {shape}")),
        None => Taken::nccl(format!("table {table} has no entry for {shape}")),
    }
}

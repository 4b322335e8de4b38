//! FlashInfer's all-reduce: through one multicast address (MNNVL) or TensorRT-LLM's kernels.
//!
//! Source: flashinfer-ai/flashinfer 0.7.4 (0.7.2.post1 and 0.6.18.post1 have the same rules),
//! `flashinfer/comm/{allreduce,trtllm_ar,trtllm_mnnvl_ar}.py`.

use super::ask::{Ask, MIB};
use super::{Engine, Named, Taken, Tried, first_of};
use crate::base::collective::Collective;
use crate::machine::sample::DataType;

pub(super) static ENGINE: Engine = Engine {
    id: "flashinfer",
    aliases: &["flash-infer"],
    title: "FlashInfer's all-reduce: MNNVL, or TensorRT-LLM's kernels",
    releases: &["0.7.4", "0.7.2", "0.6.18"],
    source: "flashinfer-ai/flashinfer 0.7.4, flashinfer/comm/allreduce.py",
    variables: &["backend", "pattern", "p2p"],
    force: &[
        ("flashinfer-mnnvl", "create_allreduce_fusion_workspace(backend=\"mnnvl\")"),
        ("flashinfer-trtllm", "create_allreduce_fusion_workspace(backend=\"trtllm\")"),
    ],
    ways: &[&["backend=mnnvl"], &["backend=trtllm"]],
    rivals: true,
    collectives: &[Collective::AllReduce],
    choose,
};

fn choose(ask: &Ask<'_>) -> Taken {
    let pattern = ask.env.get("pattern").unwrap_or_default().to_ascii_lowercase();
    let is_mxfp8 = matches!(pattern.as_str(), "13" | "14") || pattern.ends_with("mxfp8quant");
    if is_mxfp8 && !ask.since(0, 7, 4) {
        return Taken::none("the pattern came with 0.7.4");
    }
    let taken = by_backend(ask);
    match ask.env.get("pattern") {
        None | Some("" | "0") => taken,
        Some(pattern) if pattern.eq_ignore_ascii_case("kAllReduce") => taken,
        Some(_) if taken.kernel.backend == "none" => taken,
        Some(_) => taken.with_norm(),
    }
}

/// Whether the pattern, FP8 of groups of a token in packets, is one of TensorRT-LLM's kernels alone.
fn of_trtllm(ask: &Ask<'_>) -> bool {
    let pattern = ask.env.get("pattern").unwrap_or_default().to_ascii_lowercase();
    matches!(pattern.as_str(), "8" | "9") || pattern.ends_with("pertokengroupfp8packedquant")
}

fn by_backend(ask: &Ask<'_>) -> Taken {
    let asked = ask.env.get("backend").unwrap_or("auto").to_ascii_lowercase();
    let paths: &[Named] = match asked.as_str() {
        _ if of_trtllm(ask) => &[("flashinfer-trtllm", trtllm)],
        "trtllm" => &[("flashinfer-trtllm", trtllm)],
        "mnnvl" => &[("flashinfer-mnnvl", by_multicast)],
        _ => &[("flashinfer-mnnvl", by_multicast), ("flashinfer-trtllm", trtllm)],
    };
    first_of(
        ask,
        paths,
        Taken::none("no workspace can be created: the caller must use another library"),
    )
}

/// What engines say where FlashInfer's all-reduce over PCIe may take a call.
pub(super) const BY_PCIE: &str = "FlashInfer's all-reduce over PCIe (IPC) is on, and may take the call instead: it tunes itself at \
    startup, which is not modelled";

/// Whether FlashInfer's all-reduce over PCIe accepts a call of these types, but for limits that an engine takes from
/// its batches.
pub(super) fn may_go_by_pcie(ask: &Ask<'_>, types: &'static [DataType]) -> bool {
    ask.board.cuda()
        && ask.one_node().is_ok()
        && ask.ranks_of(&[2, 4, 8]).is_ok()
        && ask.dtype_of(types).is_ok()
        && ask.blocks_of(16).is_ok()
}

fn by_multicast(ask: &Ask<'_>) -> Tried {
    match ask.board.cuda() && ask.board.spans(ask.ranks) {
        true => Ok(mnnvl(ask)),
        false => Err("no multicast address spans the group".to_owned()),
    }
}

/// Largest S times n of one shot through the multicast address: 64 Ki rows of 8 halves.
const MNNVL_ONE_SHOT: u64 = MIB;

/// The kernel of the MNNVL backend.
pub(super) fn mnnvl(ask: &Ask<'_>) -> Taken {
    let limit = MNNVL_ONE_SHOT / u64::from(ask.ranks);
    let (kernel, sign) = match ask.at_most(limit) {
        true => ("one-shot-push", "at most"),
        false => ("two-shot-push", "above"),
    };
    let rule = format!("S·n {sign} 1 MiB, so {sign} {limit} B with {} ranks", ask.ranks);
    Taken::new("flashinfer-mnnvl", kernel, rule)
}

/// The kernel of TensorRT-LLM's backend, or why it cannot run.
pub(super) fn trtllm(ask: &Ask<'_>) -> Tried {
    ask.one_node()?;
    ask.ranks_of(&[2, 4, 8])?;
    if !ask.board.cuda() || !ask.board.peer_access {
        return Err("GPUs cannot write to each other's memory".to_owned());
    }
    if ask.board.sm < Some(75) {
        return Err("FlashInfer is for compute capability 7.5 and later".to_owned());
    }
    let most = match ask.ranks {
        2 => 512 * MIB,
        4 => 64 * MIB,
        _ => 42 * MIB,
    };
    let limit = most / 2 / u64::from(ask.ranks);
    let (kernel, sign) = match ask.at_most(limit) {
        true => ("one-shot-push", "at most"),
        false => ("two-shot-pull", "above"),
    };
    let rule = format!("2·S·n {sign} {} MiB, so {sign} {limit} B", most / MIB);
    let taken = Taken::new("flashinfer-trtllm", kernel, rule);
    Ok(match ask.board.sm.is_some_and(|sm| matches!(sm / 10, 9 | 10 | 12)) {
        true => taken,
        // `gen_trtllm_comm_module` in `flashinfer/jit/comm.py`.
        false => taken.note(
            "its build names compute capabilities 9, 10 and 12 only, so it may not build here",
        ),
    })
}

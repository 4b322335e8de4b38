//! The custom all-reduce of vLLM, which SGLang adopted: one-shot or two-shot; ranks read their
//! peers' memory.
//!
//! Source: vllm-project/vllm 0.33.0, `csrc/custom_all_reduce.cuh`, `custom_all_reduce.py`; the same
//! kernel in sgl-project/sglang, `custom_all_reduce.py`.

use super::ask::{Ask, FLOATS, KIB};

/// The kernel that runs, with the rule in words; `piece` caps how much one launch moves.
pub(super) fn kernel(ask: &Ask<'_>, forced: Option<&str>) -> (&'static str, String) {
    match forced.map(str::to_ascii_lowercase).as_deref() {
        Some("1stage" | "oneshot") => return ("one-shot-pull", "one-shot is forced".to_owned()),
        Some("2stage" | "twoshot") => return ("two-shot-pull", "two-shot is forced".to_owned()),
        _ => {}
    }
    let limit = if ask.ranks <= 4 { 512 * KIB } else { 256 * KIB };
    if ask.ranks == 2 {
        return ("one-shot-pull", "2 ranks: one-shot at any size".to_owned());
    }
    let words = |sign: &str| format!("{} ranks, {sign} {} KiB", ask.ranks, limit / KIB);
    match ask.below(limit) {
        true => ("one-shot-pull", words("below")),
        false => ("two-shot-pull", words("from")),
    }
}

/// The kernel's requirements on ranks, links and elements.
pub(super) fn applies(ask: &Ask<'_>) -> Result<(), String> {
    ask.ranks_of(&[2, 4, 6, 8])?;
    ask.one_node()?;
    let board = ask.board;
    if ask.ranks > 2 && !board.linked {
        return Err(format!("{} ranks without a link between every pair", ask.ranks));
    }
    if board.cuda() && !board.peer_access {
        return Err("GPUs cannot read each other's memory".to_owned());
    }
    ask.dtype_of(FLOATS)?;
    ask.blocks_of(16)
}

//! PyTorch's symmetric memory as vLLM, SGLang and TensorRT-LLM use it: where it is available, up to
//! which size each engine uses it, and with which kernel.
//!
//! Source: vllm-project/vllm 0.33.0, `vllm/distributed/device_communicators/all_reduce_utils.py` and
//! `symm_mem.py`; sgl-project/sglang 0.5.23, `torch_symm_mem.py`.

use super::ask::{Ask, MIB};

/// Largest S in MiB of vLLM, by capability, for 2, 4, 6 and 8 ranks.
const VLLM: &[(u32, [u64; 4])] = &[
    (90, [64, 32, 64, 64]),
    (100, [8, 32, 128, 128]),
    (103, [4, 32, 32, 64]),
    (107, [4, 32, 32, 64]),
];

/// The column of 2, 4, 6 and 8 ranks.
pub(super) fn column(ranks: u32) -> Option<usize> {
    [2, 4, 6, 8].iter().position(|&n| n == ranks)
}

/// vLLM's limit for this GPU and number of ranks.
pub(super) fn limit(ask: &Ask<'_>) -> Option<u64> {
    let (_, row) = VLLM.iter().find(|(sm, _)| Some(*sm) == ask.board.sm)?;
    Some(row[column(ask.ranks)?] * MIB)
}

/// vLLM's kernel: the switch reduces for the listed numbers of ranks.
pub(super) fn kernel(ask: &Ask<'_>) -> &'static str {
    let listed: &[u32] = if ask.board.sm == Some(90) { &[4, 6, 8] } else { &[6, 8] };
    if listed.contains(&ask.ranks) { "two-shot-multimem" } else { "two-shot-pull" }
}

/// Whether a group can share symmetric memory with multicast.
pub(super) fn meets(ask: &Ask<'_>) -> Result<(), String> {
    ask.one_node()?;
    match ask.board.multicast {
        true => Ok(()),
        false => Err("no switch multicasts here".to_owned()),
    }
}

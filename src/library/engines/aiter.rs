//! AITER's custom collectives on AMD's GPUs, in vLLM and SGLang.
//!
//! Source: ROCm/aiter, `aiter/dist/device_communicators/custom_all_reduce.py` (03644e50).

use super::Taken;
use super::ask::{Ask, MIB};

/// Accepts the call or gives the reason why not; its buffers hold `parts` tensors of S.
pub(super) fn take(ask: &Ask<'_>, parts: u64) -> Result<Taken, String> {
    ask.one_node()?;
    ask.ranks_of(&[2, 4, 6, 8])?;
    ask.blocks_of(16)?;
    let most = ask.env.number("AITER_CUSTOM_AR_MAX_SIZE").unwrap_or(64 * MIB) / parts;
    match ask.at_most(most) {
        true => Ok(Taken::new("aiter", "library", format!("at most {most} B"))),
        false => Err(format!("above {most} B")),
    }
}

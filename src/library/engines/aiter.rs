//! AITER's custom collectives on AMD's GPUs, in vLLM and SGLang.
//!
//! Source: ROCm/aiter e4048607, `aiter/dist/device_communicators/custom_all_reduce.py` (`_fits_custom_ar_size`,
//! `should_custom_ag`, `_resolve_car_max_size`), `csrc/include/custom_all_reduce.cuh` (`allreduce`).

use super::Taken;
use super::ask::{Ask, MIB};

/// The buffers that an engine has AITER register, in bytes.
pub(super) struct Pool(pub u64);

/// AITER's own, which SGLang takes.
pub(super) const POOL: Pool = Pool(1024 * MIB);

impl Pool {
    /// Accepts an all-reduce, or gives the reason why not.
    pub(super) fn all_reduce(&self, ask: &Ask<'_>) -> Result<Taken, String> {
        let taken = self.sum(ask, 1)?;
        let one_stage = match ask.ranks {
            2 => "one stage".to_owned(),
            n => {
                let below = if n <= 4 { 160 } else { 80 };
                format!("one stage below {below} KiB, two from there on")
            }
        };
        Ok(taken.note(format!("inside AITER {} ranks take {one_stage}", ask.ranks)))
    }

    /// Accepts a sum of `parts` tensors of S, or gives the reason why not.
    pub(super) fn sum(&self, ask: &Ask<'_>, parts: u64) -> Result<Taken, String> {
        runs(ask)?;
        let asked = ask.env.number("AITER_CUSTOM_AR_MAX_SIZE").filter(|&most| most <= self.0);
        let most = asked.unwrap_or(64 * MIB) / parts;
        let least = ask.env.number::<u64>("AITER_CUSTOM_AR_MIN_SIZE").unwrap_or(0) / parts;
        if least > 0 && ask.at_most(least) {
            return Err(format!("at most {least} B: AITER_CUSTOM_AR_MIN_SIZE"));
        }
        up_to(ask, most)
    }

    /// Accepts an all-gather of S from each rank, or gives the reason why not: half of the buffers hold the parts
    /// of all ranks.
    pub(super) fn all_gather(&self, ask: &Ask<'_>) -> Result<Taken, String> {
        runs(ask)?;
        up_to(ask, self.0 / (2 * u64::from(ask.ranks)))
    }
}

fn runs(ask: &Ask<'_>) -> Result<(), String> {
    ask.one_node()?;
    ask.ranks_of(&[2, 4, 6, 8])?;
    ask.blocks_of(16)
}

fn up_to(ask: &Ask<'_>, most: u64) -> Result<Taken, String> {
    match ask.at_most(most) {
        true => Ok(Taken::new("aiter", "library", format!("at most {most} B"))),
        false => Err(format!("above {most} B")),
    }
}

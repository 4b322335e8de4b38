//! NCCL's tuner since 2.31: each candidate has a cost model, and the cheapest candidate is chosen.
//!
//! Until 2.30 the tuner filled and searched a table ([`Table`](super::Table),
//! [`Chooser`](super::Chooser)). 2.31 evaluates 41 candidates instead: algorithms with their
//! protocols, kernels on symmetric windows, and copy engines. It evaluates them from the highest
//! number to the lowest, and of equals it keeps the highest. The arithmetic mixes float32 and double
//! as NCCL does and is reproduced bit for bit.
//!
//! Source: NVIDIA/nccl v2.31.2-1, `src/tuning` (`cost_model.cc`, `tuning.cc`, `ring.cc`, `tree.cc`,
//! `collnet.cc`, `nvls.cc`, `pat.cc`, `sym_model.cc`, `ce_model.cc`); the library of 2.32.3, which
//! was asked through its debug symbols (`nvidia-nccl-cu13` on PyPI); and the development state of
//! those files before 2.32.6 (`pipeline_model`, `sym_model`).

mod candidate;
mod cells;
mod copy_engine;
mod decide;
mod enabled;
mod figures;
mod fitted;
mod general;
mod gin;
mod lsa;
mod pipeline;
mod reach;
mod symmetric;
mod variables;

use super::{Version, since};

pub use candidate::{Candidate, Copies, Kernel};
pub use cells::Cell;
pub use decide::{Best, CostModel, Windows};
pub use reach::Reach;
pub use symmetric::COPIES_ABOVE;

/// The states of this tuner, in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Release {
    /// 2.31.2.
    V2_31,
    /// 2.32.3.
    V2_32,
    /// 2.32.6, read in the last development state before it.
    V2_32_6,
}

impl Release {
    fn of(version: Version) -> Self {
        match version {
            _ if version.has(since::FITTED_REDUCTIONS) => Self::V2_32_6,
            _ if version.has(since::FITTED_KERNELS) => Self::V2_32,
            _ => Self::V2_31,
        }
    }
}

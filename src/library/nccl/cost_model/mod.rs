//! NCCL's tuner since 2.31: each candidate has a model of its cost, and the cheapest is taken.
//!
//! Until 2.30 a table is filled and searched ([`Table`](super::Table), [`Chooser`](super::Chooser)).
//! 2.31 asks 41 candidates instead: algorithms with their protocols, kernels on symmetric windows,
//! and copy engines. They are asked from the highest number to the lowest, so of equals the highest
//! stays. All of it is float32 and double as NCCL mixes them, and is reproduced bit for bit.
//!
//! Source: NVIDIA/nccl v2.31.2-1, `src/tuning` (`cost_model.cc`, `tuning.cc`, `ring.cc`, `tree.cc`,
//! `collnet.cc`, `nvls.cc`, `pat.cc`, `sym_model.cc`, `ce_model.cc`), and the development state of
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

use std::fmt;

pub use candidate::{Candidate, Copies, Kernel};
pub use cells::Cell;
pub use decide::{Best, CostModel, Windows};
pub use reach::Reach;
pub(super) use variables::Variables;

/// A release whose tuner is this one; later ones are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Release {
    /// 2.31.2.
    V2_31,
    /// 2.32.6, read in the last state of development before it.
    V2_32,
}

impl Release {
    /// All of them, the oldest first.
    pub const ALL: [Self; 2] = [Self::V2_31, Self::V2_32];

    /// The release whose rules answer for a version, where it is 2.31 or later.
    #[must_use]
    pub fn of((major, minor, _): (u32, u32, u32)) -> Option<Self> {
        match (major, minor) {
            (2, 31) => Some(Self::V2_31),
            (2, 32..) => Some(Self::V2_32),
            _ => None,
        }
    }

    /// The text, such as `2.31.2`.
    #[must_use]
    pub fn id(self) -> &'static str {
        ["2.31.2", "2.32.6"][self as usize]
    }

    fn numbers(self) -> (u32, u32, u32) {
        [(2, 31, 2), (2, 32, 6)][self as usize]
    }

    /// What to know of an answer for a version that was asked for.
    #[must_use]
    pub fn note(self, asked: (u32, u32, u32)) -> Option<String> {
        let (major, minor, patch) = asked;
        match self {
            Self::V2_31 if asked == self.numbers() => None,
            Self::V2_32 if asked == self.numbers() => Some(
                "2.32.6 is known from the last state of development before it, not from the \
                 release itself"
                    .to_owned(),
            ),
            _ => Some(format!(
                "NCCL {major}.{minor}.{patch} is not known decision for decision; {self} stands \
                 for it"
            )),
        }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.id())
    }
}

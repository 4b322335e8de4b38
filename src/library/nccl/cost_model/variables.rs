//! The variables that the tuner reads since 2.31, in addition to those that it has always read.

use super::super::settings::whole;
use crate::base::error::{Error, Result};

/// The settings of a job's environment for symmetric kernels and copy engines.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in super::super) struct Variables {
    /// `NCCL_SYM_KERNEL`.
    pub kernels: Option<String>,
    numbers: [Option<i64>; NUMBERS.len()],
}

/// Variables that hold one whole number.
const NUMBERS: [&str; 6] = [
    "NCCL_SYM_CTAS",
    "NCCL_SYM_TMA_ENABLE",
    "NCCL_SYM_GIN_KERNELS_ENABLE",
    "NCCL_SYM_RS_GIN_CHUNK_SIZE",
    "NCCL_SYM_CE_THRESHOLD",
    "NCCL_CE_COLL_AG_MULTICAST_THRESHOLD",
];

/// The list of kernels.
const KERNELS: &str = "NCCL_SYM_KERNEL";

impl Variables {
    /// Sets one variable, and tells whether it is one of these.
    ///
    /// # Errors
    /// A value that is not a number where a number is needed.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool> {
        if name == KERNELS {
            self.kernels = Some(value.to_owned());
            return Ok(true);
        }
        let Some(index) = NUMBERS.iter().position(|n| *n == name) else { return Ok(false) };
        self.numbers[index] = match value.trim() {
            "" => None,
            text => Some(whole(text).ok_or_else(|| {
                Error::input(format!("`{text}` is not a whole number"))
                    .at(format!("{name}={value}"))
                    .help("write one such as 8")
            })?),
        };
        Ok(true)
    }

    /// The list of kernels, if it names any.
    pub fn listed(&self) -> Option<&str> {
        self.kernels.as_deref().filter(|list| !list.is_empty())
    }

    fn number(&self, name: &str) -> Option<i64> {
        NUMBERS.iter().position(|n| *n == name).and_then(|i| self.numbers[i])
    }

    /// Blocks of every symmetric kernel, if set.
    pub fn blocks(&self) -> Option<u32> {
        self.number("NCCL_SYM_CTAS").filter(|&n| n > 0).map(|n| n.min(64) as u32)
    }

    /// Whether kernels with TMA may run; `default` if it is not set.
    pub fn tma(&self, default: bool) -> bool {
        self.number("NCCL_SYM_TMA_ENABLE").map_or(default, |number| number != 0)
    }

    /// Whether kernels between domains may run.
    pub fn rails(&self) -> bool {
        self.number("NCCL_SYM_GIN_KERNELS_ENABLE") != Some(0)
    }

    /// Bytes that a reduce-scatter between domains moves at a time: a power of two.
    pub fn rail_chunk(&self) -> u64 {
        const DEFAULT: i64 = 128 << 10;
        let set = self.number("NCCL_SYM_RS_GIN_CHUNK_SIZE").filter(|&n| n > 0).unwrap_or(DEFAULT);
        1 << (set.clamp(128, 1 << 30) as u64).ilog2()
    }

    /// Elements per rank above which copy engines gather, if set. NCCL compares them without a sign:
    /// below 0 they never do.
    pub fn copies_above(&self) -> Option<u64> {
        self.number("NCCL_SYM_CE_THRESHOLD").map(i64::cast_unsigned)
    }

    /// Bytes per rank up to which copy engines multicast, if set.
    pub fn multicast_up_to(&self) -> Option<u64> {
        let set = self.number("NCCL_CE_COLL_AG_MULTICAST_THRESHOLD");
        set.filter(|&n| n >= 0).map(i64::cast_unsigned)
    }
}

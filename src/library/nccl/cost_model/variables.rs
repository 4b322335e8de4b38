//! The settings for symmetric kernels and copy engines, which the tuner reads since 2.31.

use super::super::Settings;

impl Settings {
    /// The list of kernels, if it names any.
    pub(super) fn listed_kernels(&self) -> Option<&str> {
        self.kernels().filter(|list| !list.is_empty())
    }

    /// Blocks of every symmetric kernel, if set.
    pub(super) fn kernel_blocks(&self) -> Option<u32> {
        self.number("NCCL_SYM_CTAS").filter(|&n| n > 0).map(|n| n.min(64) as u32)
    }

    /// Whether kernels with TMA may run; `default` if it is not set.
    pub(super) fn tma(&self, default: bool) -> bool {
        self.number("NCCL_SYM_TMA_ENABLE").map_or(default, |number| number != 0)
    }

    /// Whether kernels between domains may run.
    pub(super) fn rails(&self) -> bool {
        self.number("NCCL_SYM_GIN_KERNELS_ENABLE") != Some(0)
    }

    /// Bytes that a reduce-scatter between domains moves at a time: a power of two.
    pub(super) fn rail_chunk(&self) -> u64 {
        const DEFAULT: i64 = 128 << 10;
        let set = self.number("NCCL_SYM_RS_GIN_CHUNK_SIZE").filter(|&n| n > 0).unwrap_or(DEFAULT);
        1 << (set.clamp(128, 1 << 30) as u64).ilog2()
    }

    /// Elements per rank above which copy engines gather, if set. NCCL compares them without a sign:
    /// below 0 they never do.
    pub(super) fn copies_above(&self) -> Option<u64> {
        self.number("NCCL_SYM_CE_THRESHOLD").map(i64::cast_unsigned)
    }

    /// Bytes per rank up to which copy engines multicast, if set.
    pub(super) fn multicast_up_to(&self) -> Option<u64> {
        let set = self.number("NCCL_CE_COLL_AG_MULTICAST_THRESHOLD");
        set.filter(|&n| n >= 0).map(i64::cast_unsigned)
    }
}

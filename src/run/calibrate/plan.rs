//! What is measured: operations that separate the parameters, over a ladder of sizes.

use std::time::Duration;

use crate::base::quantity::{Bytes, Ratio, Seconds};
use crate::machine::sample::Op;
use crate::measure::fit::Path;
use crate::model::algorithm::Registry;
use crate::run::execute::runnable;

/// What is to be measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// N.
    pub ranks: u32,
    /// The operations.
    pub ops: Vec<Op>,
    /// The sizes of each, ascending.
    pub sizes: Vec<Bytes>,
    /// How often the processes restart. Each start draws a new placement of the ranks.
    pub launches: u32,
    /// The seed of the order.
    pub seed: u64,
    /// Half the 95 % interval of a median, over the median, at which a point is finished.
    pub precision: Ratio,
    /// All measuring ends after this time, finished or not.
    pub budget: Duration,
    /// Points that are weak then are measured further, but no longer than until this time.
    pub longest: Duration,
    /// How long data flow before the first block of a launch, so that a token bucket is empty and
    /// connections are warm.
    pub drain: Seconds,
    /// Whether data leave through a port, which may have a token bucket.
    pub wire: bool,
}

/// Blocks of each point in each launch.
pub(super) const BLOCKS: u32 = 2;

impl Plan {
    /// The rest of it, after a time.
    #[must_use]
    pub fn less(mut self, time: Duration) -> Self {
        for limit in [&mut self.budget, &mut self.longest] {
            *limit = limit.saturating_sub(time);
        }
        self
    }

    /// In half the time.
    #[must_use]
    pub fn half(mut self) -> Self {
        for limit in [&mut self.budget, &mut self.longest] {
            *limit /= 2;
        }
        self
    }

    /// Equal for two plans with the same blocks; precision and time limits may differ.
    #[must_use]
    pub fn hash(&self, how: &str) -> String {
        let ops: Vec<String> = self.ops.iter().map(ToString::to_string).collect();
        let sizes: Vec<String> = self.sizes.iter().map(|size| size.0.to_string()).collect();
        let Self { ranks, seed, .. } = self;
        let text = format!("{how};{ranks};{};{};{seed}", ops.join(","), sizes.join(","));
        format!("{:08x}", crc32fast::hash(text.as_bytes()))
    }
}

/// The operations that separate α, β, γ, the duplex factor, the sharing of a port and c_real: their
/// ratios of messages, bytes and additions differ.
#[must_use]
pub fn design(registry: &Registry, ranks: u32) -> Vec<Op> {
    const NAMES: &[&str] = &[
        "one-way",
        "shift",
        "fan-out/2",
        "allreduce/ring",
        "allreduce/recursive-doubling",
        "allreduce/rabenseifner",
        "allreduce/double-binary-tree/P=1",
        "allreduce/double-binary-tree/P=4",
        "allreduce/double-binary-tree/P=16",
        "reducescatter/ring",
        "allgather/ring",
        "allgather/bruck",
        "alltoall/pairwise",
        "broadcast/binomial",
        "local-reduce",
        "copy",
    ];
    let ops = NAMES.iter().filter_map(|name| name.parse::<Op>().ok());
    ops.filter(|op| {
        runnable(registry, op, ranks).is_ok()
            && Path::of(registry, op, ranks, Bytes(1024).into()).is_ok()
    })
    .collect()
}

/// 8, 64 and 512 B, then 2 KiB and doubling each time, up to `most`.
#[must_use]
pub fn ladder(most: Bytes) -> Vec<Bytes> {
    let doubled = (11..63).map(|power| 1_u64 << power);
    let sizes = [8, 64, 512].into_iter().chain(doubled);
    sizes.take_while(|&size| size <= most.0).map(Bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_design_has_what_applies() {
        let registry = Registry::builtin();
        let names = |ranks| -> Vec<String> {
            design(&registry, ranks).iter().map(ToString::to_string).collect()
        };
        let (two, three, four) = (names(2), names(3), names(4));
        assert!(!two.contains(&"fan-out/2".to_owned()) && four.contains(&"fan-out/2".to_owned()));
        for op in ["one-way", "allreduce/ring", "broadcast/binomial", "local-reduce", "copy"] {
            let op = op.to_owned();
            assert!(two.contains(&op) && three.contains(&op) && four.contains(&op), "{op}");
        }
        assert!(four.contains(&"allreduce/rabenseifner".to_owned()));
        assert!(four.contains(&"allreduce/double-binary-tree/P=16".to_owned()));
    }

    #[test]
    fn a_ladder_doubles() {
        let sizes: Vec<u64> = ladder(Bytes(9000)).iter().map(|b| b.0).collect();
        assert_eq!(sizes, [8, 64, 512, 2048, 4096, 8192]);
    }

    #[test]
    fn more_time_is_the_same_plan() {
        let plan = Plan {
            ranks: 2,
            ops: vec![Op::Shift],
            sizes: ladder(Bytes(64)),
            launches: 3,
            seed: 1,
            precision: Ratio(0.02),
            budget: Duration::from_secs(1),
            longest: Duration::from_secs(1),
            drain: Seconds(0.0),
            wire: false,
        };
        let longer = Plan { budget: Duration::from_secs(9), precision: Ratio(0.1), ..plan.clone() };
        let other = Plan { seed: 2, ..plan.clone() };
        assert_eq!(plan.hash("tcp"), longer.hash("tcp"));
        assert_ne!(plan.hash("tcp"), other.hash("tcp"));
        assert_ne!(plan.hash("tcp"), plan.hash("shm"));
    }
}

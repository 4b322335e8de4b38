//! The measurement plan of NCCL: its sets, its calls, their sizes.

use std::time::Duration;

use super::call::Call;
use super::set::Set;
use super::talk::Job;
use crate::base::collective::Collective;
use crate::base::quantity::{Bytes, Seconds};
use crate::machine::sample::DataType;

/// The measurement plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The GPU of each rank, process by process, the first of which is on this host; a GPU listed
    /// twice has two ranks.
    pub gpus: Vec<Vec<u32>>,
    /// Whether all of those processes are on this host, with NCCL treating each as a separate host.
    pub apart: bool,
    /// The number of nodes that they are on.
    pub nodes: u32,
    /// The NCCL settings, one set after another.
    pub sets: Vec<Set>,
    /// The calls, and the types of their numbers.
    pub calls: Vec<(Collective, DataType)>,
    /// M of each, ascending.
    pub sizes: Vec<Bytes>,
    /// Whether NCCL allocates and registers the buffers.
    pub registered: bool,
    /// How often processes restart.
    pub launches: u32,
    /// The seed of the order.
    pub seed: u64,
    /// No process is started after this much measuring; the time to start them does not count.
    pub budget: Duration,
}

/// One call of one size in a plan, with its number in the plan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    pub(super) number: usize,
    pub(super) collective: Collective,
    pub(super) dtype: DataType,
    pub(super) size: Bytes,
}

/// The numbers of repetitions in a block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Runs {
    pub(super) warm: u32,
    pub(super) reps: u32,
    pub(super) inner: u32,
    pub(super) hold: u32,
}

/// How long the runs of a block on one clock may take together, and how long the GPUs work while
/// their clock rates are read.
const BLOCK: f64 = 1.0;
const HELD: f64 = 0.01;

impl Runs {
    /// For calls of `size` with the expected time `likely`; rank 0 sends it to all, so that
    /// processes of several hosts agree.
    pub(super) fn of(size: Bytes, likely: Option<Seconds>) -> Self {
        let (warm, reps, inner) = match size.0 {
            0..=0xF_FFFF => (5, 12, 16),
            0x10_0000..=0xFF_FFFF => (3, 10, 4),
            _ => (2, 8, 1),
        };
        let row = likely.map_or(HELD, |time| time.0.max(1e-7) * f64::from(inner));
        // As many as there is time for, but always enough for a meaningful median.
        let reps = reps.min((BLOCK / row) as u32).max(3);
        let warm = warm.min((BLOCK / row) as u32).max(1);
        Self { warm, reps, inner, hold: ((HELD / row) as u32).clamp(1, 200) }
    }
}

impl Plan {
    /// N.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.gpus.iter().map(Vec::len).sum::<usize>() as u32
    }

    /// The number of processes on this host.
    pub(super) fn own(&self) -> usize {
        if self.apart { self.gpus.len() } else { 1 }
    }

    /// The job of the process with number `process`.
    pub(super) fn job(&self, process: usize) -> Job {
        let before: usize = self.gpus[..process].iter().map(Vec::len).sum();
        Job::Nccl {
            gpus: self.gpus[process].clone(),
            ranks: self.ranks(),
            first: before as u32,
            largest: self.largest(),
            registered: self.registered,
        }
    }

    /// Equal for two plans with the same blocks.
    #[must_use]
    pub fn hash(&self, how: &str) -> String {
        let words = |all: Vec<String>| all.join(",");
        let calls = self.calls.iter().map(|(call, dtype)| format!("{}:{}", call.id(), dtype.id()));
        let text = format!(
            "{how};{};{};{};{};{};{};{}",
            words(self.gpus.iter().map(|gpus| format!("{gpus:?}")).collect()),
            self.nodes,
            words(self.sets.iter().map(ToString::to_string).collect()),
            words(calls.collect()),
            words(self.sizes.iter().map(|size| size.0.to_string()).collect()),
            self.registered,
            self.seed
        );
        format!("{:08x}", crc32fast::hash(text.as_bytes()))
    }

    /// The size of the largest buffer needed.
    fn largest(&self) -> u64 {
        let each = 4 * u64::from(self.ranks());
        self.sizes.last().map_or(each, |size| size.0.max(each))
    }

    /// The number of blocks of a set.
    #[must_use]
    pub fn blocks(&self, set: Set) -> usize {
        self.points(set).len()
    }

    /// The maximum number of points of a set.
    pub(super) fn room(&self) -> usize {
        self.calls.len() * self.sizes.len()
    }

    /// The points of a set: its calls with their possible sizes, each once.
    pub(super) fn points(&self, set: Set) -> Vec<Point> {
        let mut points = Vec::new();
        for (c, &(collective, dtype)) in self.calls.iter().enumerate() {
            if !set.takes(collective, dtype) {
                continue;
            }
            let mut before = None;
            for (s, &size) in self.sizes.iter().enumerate() {
                // Blocks are whole numbers, as nccl-tests rounds them.
                let size = Call::whole(collective, dtype, size, self.ranks());
                if before != Some(size) {
                    let number = c * self.sizes.len() + s;
                    points.push(Point { number, collective, dtype, size });
                    before = Some(size);
                }
            }
        }
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_gathering_collectives_are_whole_blocks() {
        use Collective::{AllGather, AllReduce, AllToAll};
        let plan = Plan {
            gpus: vec![vec![0, 1], vec![0]],
            apart: false,
            nodes: 1,
            sets: vec![Set::AUTO],
            calls: vec![
                (AllGather, DataType::F32),
                (AllReduce, DataType::F32),
                (AllReduce, DataType::Bf16),
                (AllToAll, DataType::F32),
            ],
            sizes: vec![Bytes(8), Bytes(16), Bytes(64)],
            registered: false,
            launches: 1,
            seed: 1,
            budget: Duration::ZERO,
        };
        let of = |set: Set, c: Collective, d: DataType| -> Vec<u64> {
            let points = plan.points(set);
            points.iter().filter(|p| (p.collective, p.dtype) == (c, d)).map(|p| p.size.0).collect()
        };
        let auto = |c, d| of(Set::AUTO, c, d);
        assert_eq!(auto(AllGather, DataType::F32), [12, 60]);
        assert_eq!(auto(AllReduce, DataType::F32), [8, 16, 64]);
        assert_eq!(auto(AllToAll, DataType::F32), [12, 60]);
        // Forced settings are fitted from one type only, and do not apply to messages.
        let ring = Set::ALL[1];
        assert_eq!(of(ring, AllReduce, DataType::F32), [8, 16, 64]);
        assert!(of(ring, AllReduce, DataType::Bf16).is_empty());
        assert!(of(ring, AllToAll, DataType::F32).is_empty());
        let numbers: std::collections::BTreeSet<usize> =
            plan.points(Set::AUTO).iter().map(|p| p.number).collect();
        assert_eq!(numbers.len(), plan.points(Set::AUTO).len());
        let second =
            Job::Nccl { gpus: vec![0], ranks: 3, first: 2, largest: 64, registered: false };
        assert_eq!((plan.ranks(), plan.job(1)), (3, second));
    }

    #[test]
    fn slow_calls_are_run_less_often_and_short_ones_hold_the_gpus_longer() {
        let quick = Runs::of(Bytes(64), Some(Seconds(1e-5)));
        assert_eq!((quick.reps, quick.inner, quick.hold), (12, 16, 62));
        let slow = Runs::of(Bytes(1 << 30), Some(Seconds(0.5)));
        assert_eq!((slow.warm, slow.reps, slow.hold), (2, 3, 1));
        let slower = Runs::of(Bytes(1 << 30), Some(Seconds(4.0)));
        assert_eq!((slower.warm, slower.reps), (1, 3));
    }
}

//! What is to be measured of NCCL: its sets, its calls, their sizes.

use std::time::Duration;

use super::call::Call;
use super::set::Set;
use super::talk::Job;
use crate::base::collective::Collective;
use crate::base::quantity::{Bytes, Seconds};
use crate::machine::sample::DataType;

/// What is to be measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The GPU of each rank, process by process, of which the first is this host's; one that is named
    /// twice has two ranks.
    pub gpus: Vec<Vec<u32>>,
    /// Whether all of those processes are of this host, each a host of its own to NCCL.
    pub apart: bool,
    /// The nodes that they lie on.
    pub nodes: u32,
    /// What NCCL is told, one after another.
    pub sets: Vec<Set>,
    /// What is called, of which numbers.
    pub calls: Vec<(Collective, DataType)>,
    /// M of each, ascending.
    pub sizes: Vec<Bytes>,
    /// Whether NCCL gives the buffers and knows them.
    pub registered: bool,
    /// How often processes start anew.
    pub launches: u32,
    /// The seed of the order.
    pub seed: u64,
    /// No process is started after so much measuring; starting them does not count.
    pub budget: Duration,
}

/// One call of one size in a plan, with its number in it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    pub(super) number: usize,
    pub(super) collective: Collective,
    pub(super) dtype: DataType,
    pub(super) size: Bytes,
}

/// How often a block does what.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Runs {
    pub(super) warm: u32,
    pub(super) reps: u32,
    pub(super) inner: u32,
    pub(super) hold: u32,
}

/// How long the runs of a block on one clock may take together, and for how long the GPUs work while
/// their clocks are read.
const BLOCK: f64 = 1.0;
const HELD: f64 = 0.01;

impl Runs {
    /// For calls of `size`, each of which `likely` takes so long; rank 0 says it to all, so that
    /// processes of several hosts agree.
    pub(super) fn of(size: Bytes, likely: Option<Seconds>) -> Self {
        let (warm, reps, inner) = match size.0 {
            0..=0xF_FFFF => (5, 12, 16),
            0x10_0000..=0xFF_FFFF => (3, 10, 4),
            _ => (2, 8, 1),
        };
        let row = likely.map_or(HELD, |time| time.0.max(1e-7) * f64::from(inner));
        // As many as there is time for, but never so few that a median says nothing.
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

    /// How many processes are of this host.
    pub(super) fn own(&self) -> usize {
        if self.apart { self.gpus.len() } else { 1 }
    }

    /// What the how many-th process is for.
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

    /// Equal for two plans of the same blocks.
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

    /// The largest buffer that is needed.
    fn largest(&self) -> u64 {
        let each = 4 * u64::from(self.ranks());
        self.sizes.last().map_or(each, |size| size.0.max(each))
    }

    /// How many blocks a set has.
    #[must_use]
    pub fn blocks(&self, set: Set) -> usize {
        self.points(set).len()
    }

    /// How many points a set has at most.
    pub(super) fn room(&self) -> usize {
        self.calls.len() * self.sizes.len()
    }

    /// The points of a set: its calls with the sizes that they can have, each once.
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
        // What NCCL is told to do is fitted from one type, and is nothing for messages.
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

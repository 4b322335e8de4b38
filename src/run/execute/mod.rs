//! Schedules executed for real: any schedule over any transport, on real buffers, timed and
//! checked.
//!
//! ```text
//!   Schedule ── compile ──► Program of each rank: steps on byte ranges
//!                             │ perform, over a Transport
//!                             ▼
//!   Record of each rank: when it started and ended ──► Timed: global spans
//! ```
//!
//! A rank executes its own sends and receives in the order of rounds. Only its messages hold it
//! back, so ranks may be rounds apart. A sample is the global span: the last end minus the first
//! start over all ranks on one clock. A time that each rank takes on its own after a barrier would
//! miss what happened before the rank read its clock.

mod clocks;
mod contents;
mod operation;
mod perform;
mod program;
mod spill;

pub use clocks::{Clock, align};
pub use contents::{Element, Source, Wrong};
pub use operation::{programs, runnable, runs};
pub use perform::{Check, Failure, Record, Repeats, Stage, Start, Work, perform};
pub use program::{Patch, Program, compile};
pub use spill::MOST_SPILLED;

use crate::base::error::Result;
use crate::base::order::sorted;
use crate::base::quantity::{Bytes, Seconds};
use crate::base::stats::quantile;
use crate::machine::sample::{Op, Sample};

/// How one block of repetitions is measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// Repetitions before the first that counts.
    pub warm: u32,
    /// Repetitions that count.
    pub reps: u32,
    /// How often the operation runs between two readings of the clock; 1 unless it is too short.
    pub inner: u32,
    /// How repetitions start.
    pub start: Start,
    /// When results are checked.
    pub check: Check,
    /// How much each rank sends right before the first repetition that counts, to empty a token
    /// bucket; no more than [`MOST_SPILLED`].
    pub spill: Bytes,
    /// The expected time of one repetition, if known; a step may be silent for 20 times as long,
    /// and at least for 2 s.
    pub predicted: Option<Seconds>,
}

impl Default for Block {
    fn default() -> Self {
        let (start, check) = (Start::Barrier, Check::Once);
        Self { warm: 2, reps: 20, inner: 1, start, check, spill: Bytes(0), predicted: None }
    }
}

/// The result of a block.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Timed {
    /// One per repetition, in order. A sample is late if a rank started more than 2 µs and more
    /// than a hundredth of the time after the first rank, or after the time that was set.
    pub samples: Vec<Sample>,
    /// From the first rank's start to each rank's end, in its fastest repetition.
    pub ends: Vec<Seconds>,
    /// Results of whole operations that were compared, bit by bit, on every rank.
    pub checked: u64,
    /// Involuntary context switches of all ranks.
    pub switches: u64,
    /// The measured delay where messages were delayed on purpose: the mean of the ranks' medians.
    pub held_up: Option<Seconds>,
    /// The possible error between the ranks' clocks; absent if there is only one clock.
    pub clock_bound: Option<Seconds>,
}

/// Times operations: an executor of schedules, or a library.
pub trait Runner {
    /// How many ranks take part.
    fn ranks(&self) -> u32;

    /// Times one block of `op` with M = `size`.
    ///
    /// # Errors
    /// An unknown operation, a size that cannot be run, a wrong result, a rank that was lost, an
    /// interruption.
    fn time(&mut self, op: &Op, size: Bytes, block: &Block) -> Result<Timed>;
}

impl Timed {
    /// Combines the ranks' records; each pair of readings covered `inner` operations.
    #[must_use]
    pub fn of(records: &[Record], inner: u32) -> Self {
        let reps = records.iter().map(|r| r.starts.len().min(r.ends.len())).min().unwrap_or(0);
        let sample = |rep: usize| {
            let all = |of: fn(&Record) -> &[u64]| {
                records.iter().map(move |r| of(r).get(rep).copied().unwrap_or(0))
            };
            let first = all(|r| &r.starts).min().unwrap_or(0);
            let last = all(|r| &r.ends).max().unwrap_or(first);
            let latest = all(|r| &r.starts).max().unwrap_or(first);
            // With a window the time that was set is earlier than any start.
            let due = all(|r| &r.due).filter(|&due| due > 0).min().unwrap_or(first);
            let span = last.saturating_sub(first) as f64;
            let skew = latest.saturating_sub(due.min(first));
            let delay: u64 = all(|r| &r.run_delay).sum();
            // Ranks that start together lose their CPUs together, at the scheduler's ticks.
            let longest = all(|r| &r.run_delay).max().unwrap_or(0);
            let with_cpus = (span - longest as f64).max(0.0);
            Sample {
                span: Seconds(span / f64::from(inner.max(1)) * 1e-9),
                late: skew > 2_000 && skew as f64 > span / 100.0,
                run_delay: Some(Seconds(delay as f64 / f64::from(inner.max(1)) * 1e-9)),
                with_cpus: Some(Seconds(with_cpus / f64::from(inner.max(1)) * 1e-9)),
            }
        };
        let end = |record: &Record| {
            let spans = (0..reps).map(|rep| {
                let first = records.iter().map(|r| r.starts[rep]).min().unwrap_or(0);
                record.ends[rep].saturating_sub(first)
            });
            Seconds(spans.min().unwrap_or(0) as f64 / f64::from(inner.max(1)) * 1e-9)
        };
        let held: Vec<u64> = records.iter().filter_map(|r| r.held_up).collect();
        let mean = held.iter().sum::<u64>() as f64 / held.len().max(1) as f64;
        Self {
            samples: (0..reps).map(sample).collect(),
            ends: records.iter().map(end).collect(),
            checked: records.iter().map(|r| r.checked).min().unwrap_or(0),
            switches: records.iter().map(|r| r.switches).sum(),
            held_up: (!held.is_empty()).then_some(Seconds(mean * 1e-9)),
            clock_bound: None,
        }
    }

    /// For ranks on clocks that may differ by `bound`, after [`align`]. A span of less than 20
    /// bounds is not meaningful. Then rank 0's own time replaces it, if `op` cannot end there
    /// before it has begun everywhere; otherwise there are no samples.
    #[must_use]
    pub fn on_clocks(records: &[Record], inner: u32, bound: Seconds, op: Option<&Op>) -> Self {
        const BOUNDS: f64 = 20.0;
        let all = Self { clock_bound: Some(bound), ..Self::of(records, inner) };
        if all.median().is_none_or(|median| median.0 >= BOUNDS * bound.0) {
            return all;
        }
        match op {
            Some(op) if op.is_closed() => {
                let samples = Self::of(&records[..1], inner).samples;
                Self { samples, ..all }
            }
            _ => Self { samples: Vec::new(), ..all },
        }
    }

    /// The median of the spans; `None` if there are none.
    #[must_use]
    pub fn median(&self) -> Option<Seconds> {
        self.quantile(0.5)
    }

    fn quantile(&self, part: f64) -> Option<Seconds> {
        let times = sorted(self.samples.iter().map(|sample| sample.span.0));
        (!times.is_empty()).then(|| Seconds(quantile(&times, part)))
    }

    /// The interval that contains four fifths of the spans.
    #[must_use]
    pub fn spread(&self) -> Option<(Seconds, Seconds)> {
        Some((self.quantile(0.1)?, self.quantile(0.9)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_the_global_span() {
        let record = |starts: [u64; 2], ends: [u64; 2]| Record {
            starts: starts.to_vec(),
            ends: ends.to_vec(),
            ..Record::default()
        };
        let records =
            [record([1000, 5000], [90_000, 9000]), record([4500, 5000], [80_000, 10_000])];
        let timed = Timed::of(&records, 1);
        let spans: Vec<_> = timed.samples.iter().map(|s| (s.span.0 * 1e9).round()).collect();
        assert_eq!(spans, [89_000.0, 5000.0]);
        assert_eq!(timed.samples.iter().map(|s| s.late).collect::<Vec<_>>(), [true, false]);
        assert_eq!(timed.median().map(|t| (t.0 * 1e9).round()), Some(47_000.0));
    }

    #[test]
    fn ranks_that_start_together_lose_their_cpus_together() {
        let record = |run_delay: [u64; 2]| Record {
            starts: vec![1000, 1000],
            ends: vec![9_001_000, 5_001_000],
            run_delay: run_delay.to_vec(),
            ..Record::default()
        };
        let timed = Timed::of(&[record([4_000_000, 0]), record([3_900_000, 0])], 2);
        let whole = |time: Option<Seconds>| (time.unwrap().0 * 1e9).round();
        let sample = timed.samples[0];
        assert_eq!((whole(sample.run_delay), whole(sample.with_cpus)), (3_950_000.0, 2_500_000.0));
        assert_eq!(whole(timed.samples[1].with_cpus), 2_500_000.0);
    }
}

//! Ranks of several hosts on one clock.
//!
//! ```text
//!   rank 0      t0 ──────┐           ┌──► t1        offset = there − (t0 + t1) / 2
//!                        ▼           │              its error is at most (t1 − t0) / 2
//!   rank r               └── there ──┘
//! ```
//!
//! Each host's `CLOCK_MONOTONIC` starts at a different time and runs at its own rate. Before a
//! block and after it, rank 0 asks every rank on another clock 64 times for the time. The fastest
//! tenth of the answers counts, and between the two comparisons the offset is taken as linear.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::perform::{Record, now};
use crate::base::quantity::Seconds;
use crate::run::transport::{Action, Fault, Incoming, Landing, Outgoing, Part, Step, Transport};

/// How often a rank is asked for the time.
const ASKED: usize = 64;
/// The number of answers that count: the fastest tenth.
const BEST: usize = 6;

/// One comparison of another rank's clock with rank 0's; in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// The other rank.
    pub rank: u32,
    /// The time on rank 0's clock.
    pub at: u64,
    /// How far the other clock is ahead.
    pub ahead: i64,
    /// The largest possible error: half the fastest round trip.
    pub bound: u64,
}

/// Compares rank 0's clock with that of each rank in `apart`; the word at byte `at` of the buffer
/// may be overwritten. Rank 0 gets the answers.
pub(super) fn compare(
    transport: &mut dyn Transport,
    apart: &[u32],
    at: usize,
    patience: Duration,
) -> Result<Vec<Clock>, Fault> {
    let mut clocks = Vec::new();
    for &rank in apart {
        if transport.rank() == 0 {
            clocks.extend(ask(transport, rank, at, patience)?);
        } else if transport.rank() == rank {
            for _ in 0..ASKED {
                transport.step(&receive(0, None), patience)?;
                transport.write(at, &now().to_ne_bytes())?;
                transport.step(&send(0, Some(at)), patience)?;
            }
        }
    }
    Ok(clocks)
}

fn ask(
    transport: &mut dyn Transport,
    rank: u32,
    at: usize,
    patience: Duration,
) -> Result<Option<Clock>, Fault> {
    let mut answers: Vec<(u64, i64, u64)> = Vec::with_capacity(ASKED);
    for _ in 0..ASKED {
        let before = now();
        transport.step(&send(rank, None), patience)?;
        transport.step(&receive(rank, Some(at)), patience)?;
        let after = now();
        let mut word = [0; 8];
        transport.read(at, &mut word)?;
        let middle = before + (after - before) / 2;
        let ahead = u64::from_ne_bytes(word).wrapping_sub(middle).cast_signed();
        answers.push((after - before, ahead, middle));
    }
    answers.sort_unstable();
    let bound = answers.first().map_or(0, |(there_and_back, ..)| there_and_back.div_ceil(2));
    answers.truncate(BEST);
    answers.sort_unstable_by_key(|&(_, ahead, _)| ahead);
    let middle = answers.get(answers.len() / 2);
    Ok(middle.map(|&(_, ahead, at)| Clock { rank, at, ahead, bound }))
}

fn word(at: Option<usize>) -> Vec<std::ops::Range<usize>> {
    at.map(|at| at..at + 8).into_iter().collect()
}

fn send(to: u32, at: Option<usize>) -> Step {
    Step { sends: vec![Outgoing { to, spans: word(at) }], ..Step::default() }
}

fn receive(from: u32, at: Option<usize>) -> Step {
    let store = |span| Part { span, action: Action::Store };
    let parts = word(at).into_iter().map(store).collect();
    Step { receives: vec![Incoming { from, parts, landing: Landing::Direct }], ..Step::default() }
}

/// Converts all records, one per rank, to rank 0's clock; returns the possible error, where needed.
#[must_use]
pub fn align(records: &mut [Record]) -> Option<Seconds> {
    let clocks = std::mem::take(&mut records.first_mut()?.clocks);
    let bound = clocks.iter().map(|clock| clock.bound).max()?;
    for (rank, record) in (0_u32..).zip(records) {
        let mut of = clocks.iter().filter(|clock| clock.rank == rank);
        let (Some(before), Some(after)) = (of.next(), of.next_back()) else { continue };
        let span = after.at.saturating_sub(before.at).max(1) as f64;
        let drift = (after.ahead - before.ahead) as f64 / span;
        let moved = |time: u64| {
            // The drift of a block is microseconds: the rank's own clock gives the elapsed time
            // well enough.
            let since = time.wrapping_sub(before.at).cast_signed() - before.ahead;
            let ahead = before.ahead + (drift * since as f64).round() as i64;
            time.wrapping_sub(ahead.cast_unsigned())
        };
        for time in record.starts.iter_mut().chain(&mut record.ends) {
            *time = moved(*time);
        }
        // A start time that was set was on rank 0's clock; after a barrier there is none.
    }
    Some(Seconds(bound as f64 * 1e-9))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock that is 5 s ahead and gains 20 µs per second.
    fn other(time: u64) -> u64 {
        time + 5_000_000_000 + (time - 1_000_000_000) / 50_000
    }

    #[test]
    fn records_come_on_one_clock() {
        let look = |at| Clock {
            rank: 1,
            at,
            ahead: (other(at) - at).cast_signed(),
            bound: 4_000 + at % 7,
        };
        let times = [1_100_000_000, 1_500_000_000, 1_900_000_000_u64];
        let record = |clock: fn(u64) -> u64| Record {
            starts: times.iter().map(|&time| clock(time)).collect(),
            ends: times.iter().map(|&time| clock(time + 777)).collect(),
            ..Record::default()
        };
        let mut records = [record(|time| time), record(other), record(|time| time)];
        records[0].clocks = vec![look(1_000_000_000), look(2_000_000_003)];
        let bound = align(&mut records).unwrap();
        assert_eq!(
            (bound.0 * 1e9).round(),
            f64::from(4_000 + 2_000_000_003_u32 % 7).max(4000.0 + 1_000_000_000_f64 % 7.0)
        );
        for record in &records {
            for (i, time) in times.iter().enumerate() {
                assert!(record.starts[i].abs_diff(*time) <= 2, "{record:?}");
                assert!(record.ends[i].abs_diff(time + 777) <= 2, "{record:?}");
            }
        }
        assert_eq!(align(&mut records), None, "nothing to do twice");
    }

    #[test]
    fn an_earlier_clock_is_ahead_by_less_than_nothing() {
        let mut records = [Record::default(), Record { starts: vec![100], ..Record::default() }];
        let look = |at| Clock { rank: 1, at, ahead: -9_000, bound: 1 };
        records[0].clocks = vec![look(9_000), look(9_900)];
        assert!(align(&mut records).is_some());
        assert_eq!(records[1].starts, [9_100]);
    }
}

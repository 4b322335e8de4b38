//! Finds a token bucket on the path, before anything else: while it is full, data leave at the
//! speed of memory, and a time measured then says nothing about the link.
//!
//! ```text
//!   bytes │            ╱  the long-run rate
//!         │         ╱
//!         │      ╱
//!         │   │ ← burst: what came before the line
//!         └───┴──────────── time
//! ```
//!
//! Data flow without a pause, and the number of bytes received is read again and again. The last
//! third of the readings gives the rate; the height of the received bytes above the line of that
//! rate is what the bucket held. A bucket that has rested is full again; this distinguishes it from
//! a machine that was fast for a while.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::base::error::Result;
use crate::base::order::sorted;
use crate::base::quantity::{Bandwidth, Bytes};
use crate::base::stats::quantile;
use crate::machine::link::Bucket;
use crate::machine::sample::Op;
use crate::run::execute::{self, Check, MOST_SPILLED, Runner, Start};

/// Bytes sent at once: at first less than the smallest bucket that holds network packets, then
/// more, so that ranks that wait for a CPU after each of them send fast enough to empty a bucket.
const PIECE: u64 = 16 << 10;
const LARGEST: u64 = 4 << 20;
/// Readings with one size.
const READINGS: u32 = 8;
/// Readings that take less than this, in s, are followed by readings of twice the size.
const SHORT: f64 = 0.03;
/// More bytes than this give no new information.
const MOST: f64 = 256e6;
/// How many times the long-run rate bytes must have come at to count as saved in a bucket.
const QUICKER: f64 = 1.5;
/// So many slow readings in a row follow a bucket that is empty; fewer, other processes cause.
const SLOW: u32 = 4;
/// How often a bucket that was seen once is looked for again.
const AGAIN: u32 = 2;

/// One run of the stream.
#[derive(Debug, Clone, Copy)]
struct Reading {
    bytes: f64,
    /// Until they had arrived everywhere, s.
    time: f64,
    /// For how long nothing was sent before, s.
    rested: f64,
}

impl Reading {
    fn rate(&self) -> f64 {
        self.bytes / self.time
    }
}

/// What the stream shows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) bucket: Option<Bucket>,
    /// The rate of its last third, with all pauses; absent if nothing was timed.
    pub(super) rate: Option<Bandwidth>,
}

/// Looks for a bucket, for at most `most`.
pub(super) fn find(runner: &mut dyn Runner, start: Start, most: Duration) -> Result<Found> {
    // Too small to empty any bucket. What is missing when a bucket is just empty arrives this much later,
    // while it fills again.
    let small = runner.time(&Op::Shift, Bytes(8), &unchecked(READINGS, start))?;
    let latency = small.spread().map_or(0.0, |(fastest, _)| fastest.0);
    let first = stream(runner, start, most, MOST)?;
    let (bytes, time) =
        late(&first).fold((0.0, 0.0), |sum, r| (sum.0 + r.bytes, sum.1 + r.time + r.rested));
    let rate = Some(Bandwidth(bytes / time)).filter(|rate| rate.0.is_finite());
    let held = |readings: &[Reading]| held(readings, latency);
    let Some(bucket) = held(&first) else { return Ok(Found { bucket: None, rate }) };
    let full = Duration::from_secs_f64((1.1 * filled(bucket)).min(60.0));
    if full > most {
        // There is no time to see it again.
        return Ok(Found { bucket: Some(bucket), rate });
    }
    for _ in 0..AGAIN {
        sleep(full);
        let again = held(&stream(runner, start, most, 4.0 * bucket.burst.0 as f64)?);
        // The refill while data flow is part of the rate; the first search saw more of the rate.
        if again.is_some_and(|b| 2 * b.burst.0 >= bucket.burst.0) {
            return Ok(Found { bucket: Some(bucket), rate });
        }
    }
    Ok(Found { bucket: None, rate })
}

/// The time until it is full again, s.
fn filled(bucket: Bucket) -> f64 {
    bucket.burst.0 as f64 / bucket.rate.0
}

/// Every rank sends to the next, repeatedly, until a time or a number of bytes.
fn stream(
    runner: &mut dyn Runner,
    start: Start,
    most: Duration,
    bytes: f64,
) -> Result<Vec<Reading>> {
    let (began, mut piece, mut readings, mut sent) = (Instant::now(), PIECE, Vec::new(), 0.0);
    let mut before = 0.0;
    while began.elapsed() < most && sent < bytes {
        let block = unchecked(READINGS, start);
        let timed = runner.time(&Op::Shift, Bytes(piece), &block)?;
        if timed.samples.is_empty() {
            break;
        }
        let now = began.elapsed().as_secs_f64();
        let busy: f64 = timed.samples.iter().map(|s| s.span.0).sum();
        let rested = (now - before - busy).max(0.0);
        before = now;
        readings.extend(timed.samples.iter().enumerate().map(|(at, s)| Reading {
            bytes: piece as f64,
            time: s.span.0,
            rested: if at == 0 { rested } else { 0.0 },
        }));
        sent += piece as f64 * f64::from(READINGS);
        if timed.median().is_some_and(|time| time.0 < SHORT) && piece < LARGEST {
            piece *= 2;
        }
    }
    Ok(readings)
}

/// A block of `reps` runs whose results are not compared; other blocks compare them.
fn unchecked(reps: u32, start: Start) -> execute::Block {
    execute::Block { warm: 0, reps, start, check: Check::Not, ..execute::Block::default() }
}

/// The readings of the last third of the time.
fn late(readings: &[Reading]) -> impl Iterator<Item = &Reading> {
    let all: f64 = readings.iter().map(|r| r.time).sum();
    let mut at = 0.0;
    readings.iter().filter(move |r| {
        at += r.time;
        at > all * 2.0 / 3.0
    })
}

/// The bucket that these readings show: how many bytes, at most, came above the rate since a time
/// when none were missing in it. It refills while nothing is sent, or while other processes have
/// the CPUs. Of that time `latency` is the way of a message, which is no pause.
fn held(readings: &[Reading], latency: f64) -> Option<Bucket> {
    let all: f64 = readings.iter().map(|r| r.time).sum();
    let (bytes, time) = late(readings).fold((0.0, 0.0), |sum, r| (sum.0 + r.bytes, sum.1 + r.time));
    let rate = bytes / time;
    let (mut missing, mut began, mut slow, mut spent) = (0.0, 0, 0, 0.0);
    let (mut burst, mut during) = (0.0, 0..0);
    for (at, reading) in readings.iter().enumerate() {
        spent += reading.time;
        if spent > all / 2.0 {
            break;
        }
        missing -= rate * reading.rested;
        if missing <= 0.0 {
            (missing, began) = (0.0, at);
        }
        missing += reading.bytes - rate * reading.time;
        let is_quick = reading.rate() > QUICKER * rate;
        if missing > burst {
            burst = missing;
            during = if is_quick { began..at + 1 } else { during };
        }
        slow = if is_quick { 0 } else { slow + 1 };
        if slow >= SLOW && burst > PIECE as f64 / 2.0 {
            break;
        }
    }
    burst += rate * latency;
    // Other processes slow a stream down for a while; the rest of it then is as quick as before.
    let quick = upper_quartile(readings[during].iter());
    let is_saved = burst > PIECE as f64 / 2.0 && quick > QUICKER * upper_quartile(late(readings));
    let bucket = Bucket { rate: Bandwidth(rate), burst: Bytes(burst.round() as u64) };
    (is_saved && rate.is_finite()).then_some(bucket)
}

/// Of the rates.
fn upper_quartile<'a>(readings: impl Iterator<Item = &'a Reading>) -> f64 {
    let rates = sorted(readings.map(Reading::rate));
    if rates.is_empty() { 0.0 } else { quantile(&rates, 0.75) }
}

/// How a bucket is handled: how much is sent before a run, and which sizes are left out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Care {
    pub(super) bucket: Bucket,
}

impl Care {
    /// Emptying it for longer than this costs more than a point is worth.
    const DEAR: f64 = 0.02;

    /// The time to empty it twice, s.
    pub(super) fn cost(self) -> f64 {
        self.spill().0 as f64 / self.bucket.rate.0
    }

    /// Whether the bucket is emptied before a run of `size`; much smaller sizes never empty it and
    /// measure the latency.
    pub(super) fn empties(self, size: Bytes) -> bool {
        16 * size.0 >= self.bucket.burst.0
    }

    /// Whether a run of `size` measures neither the latency nor the rate, and is expensive.
    pub(super) fn hides(self, size: Bytes) -> bool {
        self.cost() > Self::DEAR && self.empties(size) && size.0 < 2 * self.bucket.burst.0
    }

    /// What is sent to empty it twice, right before the first run that counts.
    pub(super) fn spill(self) -> Bytes {
        Bytes(self.bucket.burst.0.saturating_mul(2)).min(MOST_SPILLED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Readings of a link that holds `burst` and then `rate` bytes per second, with `fast` before.
    fn readings(burst: f64, rate: f64, fast: f64, count: usize) -> Vec<Reading> {
        let (mut time, piece) = (0.0, PIECE as f64);
        let of = |at: usize| {
            let bytes = piece * (at + 1) as f64;
            let end = (bytes / fast).max((bytes - burst) / rate);
            let took = end - time;
            time = end;
            Reading { bytes: piece, time: took, rested: 0.0 }
        };
        (0..count).map(of).collect()
    }

    #[test]
    fn a_bucket_is_found_with_its_burst_and_rate() {
        for burst in [16e3, 64e3, 256e3, 1e6] {
            let found = held(&readings(burst, 15e6, 2e9, 400), 0.0).expect("a bucket");
            assert!((found.rate.0 / 15e6 - 1.0).abs() < 0.01, "{found:?}");
            assert!((found.burst.0 as f64 / burst - 1.0).abs() < 0.05, "{burst}: {found:?}");
        }
    }

    /// At 82 MB/s a latency of 60 µs hides a third of 16 KiB.
    #[test]
    fn the_latency_of_messages_is_no_part_of_what_fills_again() {
        let (burst, rate, latency) = (16e3, 82e6, 60e-6);
        let mut late = readings(burst, rate, 2e9, 400);
        late[0].time += latency;
        let off = |known| held(&late, known).expect("a bucket").burst.0 as f64 / burst - 1.0;
        assert!(off(latency).abs() < 0.05 && off(0.0) < -0.25, "{} {}", off(latency), off(0.0));
    }

    #[test]
    fn a_link_without_one_has_none() {
        assert_eq!(held(&readings(0.0, 15e6, 15e6, 400), 0.0), None);
        // A slow first reading, as from a cold cache, and noise.
        let mut noisy = readings(0.0, 1e9, 1e9, 400);
        noisy[0].time *= 10.0;
        for (i, reading) in noisy.iter_mut().enumerate() {
            reading.time *= 1.0 + 0.2 * ((i * 7 % 11) as f64 / 11.0 - 0.5);
        }
        assert_eq!(held(&noisy, 0.0), None);
        assert_eq!(held(&[], 0.0), None);
    }

    #[test]
    fn other_processes_neither_hide_a_bucket_nor_look_like_one() {
        let slices = |mut readings: Vec<Reading>, time: f64| {
            for (i, reading) in readings.iter_mut().enumerate() {
                // At first, and then now and again.
                reading.time += if i < 3 || i * 5 % 23 < 3 { time } else { 0.0 };
            }
            readings
        };
        let found = held(&slices(readings(1e6, 15e6, 3e8, 400), 2e-3), 0.0).expect("a bucket");
        let burst = found.burst.0 as f64 / 1e6;
        assert!((0.7..1.3).contains(&burst), "{found:?}");
        assert_eq!(held(&slices(readings(0.0, 1e9, 1e9, 400), 5e-3), 0.0), None);
    }

    #[test]
    fn sizes_between_latency_and_rate_are_hidden_where_emptying_is_dear() {
        let of =
            |burst, rate| Care { bucket: Bucket { rate: Bandwidth(rate), burst: Bytes(burst) } };
        let dear = of(1_000_000, 15e6);
        let hidden = |care: Care, size| care.hides(Bytes(size));
        assert!(!hidden(dear, 8192) && hidden(dear, 1 << 17) && hidden(dear, 1 << 20));
        assert!(!hidden(dear, 2 << 20));
        assert!(!hidden(of(32 << 10, 25e6), 32 << 10), "3 ms are nothing");
    }
}

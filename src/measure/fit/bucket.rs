//! A token bucket: messages up to its size leave at memory speed, and only the long-run rate holds.
//!
//! In a ping-pong each direction rests half of the time and its bucket refills. Up to the bucket's size
//! the time shows exactly half of β; above it, a line that meets the axis at −burst/rate. Fits of
//! such points are wrong by up to a half and look perfect.

use crate::base::quantity::{Bandwidth, Bytes};
use crate::base::stats::median;
use crate::machine::link::Bucket;
use crate::machine::sample::Op;

use super::lad;
use super::point::{Point, Statistic};

/// With a bucket, the rate at the end of the ladder says at least so many times what sizes below the bucket
/// take; in a ping-pong it says twice their bytes' part. Of 900 lines without a bucket, with errors of 5 % at
/// each size, none had that.
const SLOWER: f64 = 1.25;

/// The line is fitted to this many points at the end of the ladder.
const END: usize = 4;

/// Looks for a bucket in the one-way ladder, or in the shifts if there is no such ladder.
pub(super) fn find(points: &[Point], statistic: Statistic) -> Option<Bucket> {
    let ladder = |op: &Op| -> Vec<(f64, f64)> {
        let own = points.iter().filter(|p| p.op == *op);
        own.map(|p| (p.size.0 as f64, p.time(statistic).0)).collect()
    };
    [Op::OneWay, Op::Shift].iter().find_map(|op| in_ladder(&ladder(op)))
}

fn in_ladder(ladder: &[(f64, f64)]) -> Option<Bucket> {
    if ladder.len() < 2 * END {
        return None;
    }
    let (slope, start) = line(&ladder[ladder.len() - END..])?;
    if slope <= 0.0 || start >= 0.0 {
        return None;
    }
    let bucket =
        Bucket { rate: Bandwidth(1.0 / slope), burst: Bytes((-start / slope).round() as u64) };
    let burst = bucket.burst.0 as f64;
    // Where latency decides, the middle says nothing of a rate: with it, the end's rate is right there.
    let latency = ladder.iter().map(|(_, time)| *time).fold(f64::INFINITY, f64::min);
    let middle = ladder.iter().filter(|(size, _)| *size <= burst && *size >= burst / 8.0);
    let slower = median(middle.map(|(size, time)| (latency + size * slope) / time).collect())?;
    (slower > SLOWER).then_some(bucket)
}

/// The line with the smallest relative errors: slope and start, which may be negative.
fn line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    // There are few points, and the best line passes through two of them.
    let mut best: Option<(f64, f64, f64)> = None;
    for (i, a) in points.iter().enumerate() {
        for b in &points[i + 1..] {
            let slope = (b.1 - a.1) / (b.0 - a.0);
            let start = lad::ratio(points.iter().map(|p| (1.0 / p.1, (p.1 - slope * p.0) / p.1)))?;
            let off: f64 = points.iter().map(|p| ((start + slope * p.0) / p.1 - 1.0).abs()).sum();
            if best.is_none_or(|(least, ..)| off < least) {
                best = Some((off, slope, start));
            }
        }
    }
    best.map(|(_, slope, start)| (slope, start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::random::Random;

    /// A ping-pong of 1 B to 4 MiB that takes `of` of a size, with errors of this part.
    fn ladder(seed: u64, noise: f64, of: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        let mut random = Random::new(seed);
        let sizes = (0..23).map(|k| f64::from(1_u32 << k));
        sizes.map(|size| (size, of(size) * (1.0 + noise * random.normal()))).collect()
    }

    #[test]
    fn noise_makes_no_bucket() {
        let of = |alpha: f64, rate: f64| move |size: f64| alpha + size / rate;
        for seed in 0..200 {
            for of in [of(2e-6, 12e9), of(30e-6, 1.2e9), of(1.3e-6, 24e9)] {
                assert_eq!(in_ladder(&ladder(seed, 0.05, of)), None, "{seed}");
            }
        }
    }

    #[test]
    fn a_bucket_is_seen_through_noise() {
        let of = |burst: f64| move |size: f64| 30e-6 + (0.5 * size).max(size - burst) / 125e6;
        for burst in [32e3, 64e3, 256e3] {
            let seen = (0..40).filter_map(|seed| in_ladder(&ladder(seed, 0.02, of(burst)))).count();
            assert!(seen >= 30, "{burst}: {seen} of 40");
        }
    }
}

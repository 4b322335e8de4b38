//! A token bucket: messages up to its size leave at memory speed, and only the long-run rate holds.
//!
//! In a ping-pong each direction rests half of the time and its bucket refills. Up to the bucket's size
//! the time shows exactly half of β; above it, a line that meets the axis at −burst/rate. Fits of
//! such points are wrong by up to a half and look perfect.

use crate::base::quantity::{Bandwidth, Bytes};
use crate::machine::link::Bucket;
use crate::machine::sample::Op;

use super::lad;
use super::point::{Point, Statistic};

/// With a bucket, the end of the ladder is at least this much steeper than its middle; in a ping-pong it
/// is twice as steep.
const STEEPER: f64 = 1.25;

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
    // The middle: sizes below the bucket that latency does not dominate.
    let middle: Vec<(f64, f64)> = ladder
        .iter()
        .copied()
        .filter(|(size, _)| *size <= burst && *size >= burst / 16.0)
        .collect();
    let (below, _) = line(&middle)?;
    (slope / below.max(1e-30) > STEEPER).then_some(bucket)
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

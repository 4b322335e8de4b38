//! Where a measured curve leaves what is expected.

use super::{Health, Point};
use crate::base::quantity::{Bandwidth, Bytes, Ratio, Volume};
use crate::base::stats::median;
use crate::machine::curve::Reach;
use crate::machine::query::Query;

/// Which sizes are off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// Small ones, where steps and launch decide.
    Latency,
    /// Large ones, where bytes do.
    Bandwidth,
    /// Both.
    Both,
    /// Those between.
    Middle,
}

/// Where busbw falls although sizes grow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Break {
    /// The last size before it.
    pub before: Bytes,
    /// The first size behind it.
    pub at: Bytes,
    /// busbw before.
    pub from: Bandwidth,
    /// busbw behind.
    pub to: Bandwidth,
}

/// Up to so many times the fastest expectation a time is latency.
const LATENCY: f64 = 1.5;
/// From so many times on it is bytes.
const BYTES: f64 = 4.0;
/// A region is off where its median is so many bands away.
pub(super) const BANDS: f64 = 1.15;

/// The points of small, middle and large sizes.
pub(super) fn regions(points: &[Point]) -> [Vec<&Point>; 3] {
    let fastest = points.iter().map(|p| p.expected.time.0).fold(f64::INFINITY, f64::min);
    let mut regions = [Vec::new(), Vec::new(), Vec::new()];
    for p in points {
        let times = p.expected.time.0 / fastest;
        let large = points.len() < 3 && p.size >= Bytes(1 << 20);
        let region = match () {
            () if large || times > BYTES => 2,
            () if times > LATENCY => 1,
            () => 0,
        };
        regions[region].push(p);
    }
    regions
}

/// How many bands the median of a region is off; above 0 where it is slow.
fn off(region: &[&Point]) -> f64 {
    median(region.iter().map(|p| p.error() / p.reach()).collect()).unwrap_or(0.0)
}

pub(super) fn health(points: &[Point]) -> Health {
    let regions = regions(points);
    let most = regions.iter().map(|r| off(r)).fold(0.0, f64::max);
    let least = regions.iter().map(|r| off(r)).fold(0.0, f64::min);
    // Faster than expected is only strange where the expectation is sure.
    let sure = points.iter().all(|p| p.expected.reach == Some(Reach::Measured));
    match () {
        () if most > BANDS || cliff(points).is_some() => Health::Slow,
        () if least < -3.0 && sure => Health::TooFast,
        () => Health::Healthy,
    }
}

/// Whether some sizes lie inside their bands while others do not.
pub(super) fn is_part(points: &[Point]) -> bool {
    regions(points).iter().any(|r| !r.is_empty() && off(r).abs() <= 1.0)
}

pub(super) fn side(points: &[Point]) -> Option<Side> {
    let regions = regions(points);
    let slow = regions.map(|r| off(&r).abs() > BANDS);
    Some(match slow {
        [true, _, true] => Side::Both,
        [true, ..] => Side::Latency,
        [.., true] => Side::Bandwidth,
        [_, true, _] => Side::Middle,
        _ if cliff(points).is_some() => Side::Bandwidth,
        _ => {
            let errors = regions_errors(points);
            if errors.0 > errors.1 { Side::Latency } else { Side::Bandwidth }
        }
    })
}

/// The median error of the smaller and of the larger half.
fn regions_errors(points: &[Point]) -> (f64, f64) {
    let (small, large) = points.split_at(points.len() / 2);
    let middle = |of: &[Point]| median(of.iter().map(Point::error).collect()).unwrap_or(0.0);
    (middle(small), middle(large))
}

/// Two neighbouring sizes far outside their bands, behind one inside.
fn cliff(points: &[Point]) -> Option<usize> {
    let far = |p: &Point| p.error() > 2.0 * p.reach() + 0.15;
    points.windows(3).position(|w| !far(&w[0]) && far(&w[1]) && far(&w[2])).map(|i| i + 1)
}

/// Where busbw falls most from one size to the next, if that is much and not expected.
pub(super) fn breaks(query: &Query, points: &[Point]) -> Option<Break> {
    let factor = query.shape.collective.busbw_factor(query.shape.ranks);
    let busbw = |p: &Point| Bandwidth(Volume::from(p.size).0 * factor.0 / p.measured.0);
    let jump = |w: &[Point]| w[1].error() - w[0].error();
    let most = points.windows(2).max_by(|a, b| jump(a).total_cmp(&jump(b)))?;
    let (before, behind) = (&most[0], &most[1]);
    let much = jump(most) > 0.3_f64.max(2.0 * behind.reach());
    (much && Ratio(busbw(behind).0 / busbw(before).0).0 < 1.1).then(|| Break {
        before: before.size,
        at: behind.size,
        from: busbw(before),
        to: busbw(behind),
    })
}

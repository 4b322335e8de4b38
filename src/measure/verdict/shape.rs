//! Where a measured curve departs from the expected one.

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
    /// Small sizes, where steps and launch decide.
    Latency,
    /// Large sizes, where bytes decide.
    Bandwidth,
    /// Both.
    Both,
    /// Middle sizes.
    Middle,
}

/// Where busbw falls although sizes grow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Break {
    /// The last size before it.
    pub before: Bytes,
    /// The first size after it.
    pub at: Bytes,
    /// busbw before it.
    pub from: Bandwidth,
    /// busbw after it.
    pub to: Bandwidth,
}

/// Up to this many times the fastest expectation, latency decides a time.
const LATENCY: f64 = 1.5;
/// From this many times on, bytes decide it.
const BYTES: f64 = 4.0;
/// A region is off if its median is this many bands away.
pub(super) const BANDS: f64 = 1.15;

/// From this size on bytes decide a time, if a byte takes about what it does at the largest size.
const LARGE: Bytes = Bytes(1 << 20);

/// The points of small, middle and large sizes. Where the library changes its algorithm, a size may be expected
/// to take longer than a larger one; it counts as that one then.
pub(super) fn regions(points: &[Point]) -> [Vec<&Point>; 3] {
    let mut regions = [Vec::new(), Vec::new(), Vec::new()];
    let mut levels: Vec<f64> = points.iter().map(|p| p.expected.time.0).collect();
    for i in (1..levels.len()).rev() {
        levels[i - 1] = levels[i - 1].min(levels[i]);
    }
    let per_byte = |p: &Point| p.expected.time.0 / p.size.0.max(1) as f64;
    let least = points.last().map_or(0.0, per_byte);
    for (p, level) in points.iter().zip(&levels) {
        let times = level / levels[0];
        let alike = points.len() < 3 || per_byte(p) <= LATENCY * least;
        let large = p.size >= LARGE && alike;
        let region = match () {
            () if large || times > BYTES => 2,
            () if times > LATENCY => 1,
            () => 0,
        };
        regions[region].push(p);
    }
    regions
}

/// How many bands the median of a region is off; above 0 if it is slow.
fn off(region: &[&Point]) -> f64 {
    median(region.iter().map(|p| p.error() / p.reach()).collect()).unwrap_or(0.0)
}

pub(super) fn health(points: &[Point]) -> Health {
    let regions = regions(points);
    let most = regions.iter().map(|r| off(r)).fold(0.0, f64::max);
    let least = regions.iter().map(|r| off(r)).fold(0.0, f64::min);
    // Being faster than expected is only suspicious if the expectation is certain.
    let sure = points.iter().all(|p| p.expected.reach == Some(Reach::Measured));
    match () {
        () if most > BANDS || cliff(points).is_some() => Health::Slow,
        () if least < -3.0 && sure => Health::TooFast,
        () => Health::Healthy,
    }
}

/// Whether some regions are inside their bands.
pub(super) fn is_part(points: &[Point]) -> bool {
    regions(points).iter().any(|r| !r.is_empty() && off(r).abs() <= 1.0)
}

/// The sizes that make a run slow, or too fast; none of a single size, with which no other can be compared.
pub(super) fn side(points: &[Point], health: Health) -> Option<Side> {
    let sign = match health {
        Health::Healthy => return None,
        Health::TooFast => -1.0,
        Health::Slow | Health::WrongResults => 1.0,
    };
    if is_one_size(points) {
        return None;
    }
    // Bytes decide the largest size most: if that is as expected, what is off below it are middle sizes.
    let outside = |p: &Point| sign * p.error() > sign * edge(p, sign);
    let to_the_end = points.last().is_some_and(outside);
    if points.first().is_some_and(|p| p.size >= LARGE) {
        return Some(if points.iter().any(outside) && !to_the_end {
            Side::Middle
        } else {
            Side::Bandwidth
        });
    }
    let [small, middle, large] = regions(points).map(|r| sign * off(&r) > BANDS);
    let large = large || cliff(points).is_some() && !small && !middle;
    Some(match (small, middle, large && to_the_end) {
        (true, _, true) => Side::Both,
        (true, ..) => Side::Latency,
        (_, _, true) => Side::Bandwidth,
        _ if middle || large || is_between(points, outside) => Side::Middle,
        _ => {
            let errors = regions_errors(points);
            if sign * errors.0 > sign * errors.1 { Side::Latency } else { Side::Bandwidth }
        }
    })
}

/// Where one size is among the others; `None` if there are no others.
pub(super) fn side_of(points: &[Point], size: Bytes) -> Option<Side> {
    let [small, middle, _] = regions(points);
    let is_in = |region: &[&Point]| region.iter().any(|p| p.size == size);
    (!is_one_size(points)).then(|| match () {
        () if size >= LARGE => Side::Bandwidth,
        () if is_in(&small) => Side::Latency,
        () if is_in(&middle) => Side::Middle,
        () => Side::Bandwidth,
    })
}

/// Whether some sizes are off, and neither the smallest nor the largest is.
fn is_between(points: &[Point], off: impl Fn(&Point) -> bool) -> bool {
    let ends = [points.first(), points.last()];
    points.iter().any(&off) && !ends.into_iter().flatten().any(off)
}

fn is_one_size(points: &[Point]) -> bool {
    points.windows(2).all(|w| w[0].size == w[1].size)
}

/// Where the band ends, as a logarithm: its slow end for a positive sign.
fn edge(point: &Point, sign: f64) -> f64 {
    let end = if sign > 0.0 { point.expected.high } else { point.expected.low };
    (end.0 / point.expected.time.0).ln()
}

/// The median error of the smaller and of the larger half.
fn regions_errors(points: &[Point]) -> (f64, f64) {
    let (small, large) = points.split_at(points.len() / 2);
    let middle = |of: &[Point]| median(of.iter().map(Point::error).collect()).unwrap_or(0.0);
    (middle(small), middle(large))
}

/// Two neighbouring sizes far outside their bands, after one inside.
fn cliff(points: &[Point]) -> Option<usize> {
    let far = |p: &Point| p.error() > 2.0 * p.reach() + 0.15;
    points.windows(3).position(|w| !far(&w[0]) && far(&w[1]) && far(&w[2])).map(|i| i + 1)
}

/// The largest drop of busbw from one size to the next, if it is large and unexpected.
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

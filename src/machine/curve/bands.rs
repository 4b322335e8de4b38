//! The error of a fit on held-out data, by what was held out and by size.

use crate::base::quantity::{Bytes, Ratio};
use crate::base::words::words;

use super::residuals::lg;

words! {
    /// What was held out, and so what an expectation of this kind lacks.
    #[derive(PartialOrd, Ord, serde::Deserialize)]
    pub enum Held {
        /// A size, between others of the same ranks.
        Size = "size",
        /// A number of ranks, between others.
        Between = "between",
        /// The most ranks.
        More = "more",
        /// The fewest ranks.
        Fewer = "fewer",
        /// Sizes above all others.
        Larger = "larger",
        /// Sizes below all others.
        Smaller = "smaller",
        /// All other ranks of a tier: one number of them was measured.
        Alone = "alone",
        /// A tier.
        Tier = "tier",
    }
}

impl Held {
    /// The kinds that a fit holds out; the others follow from them.
    pub(super) const FITTED: [Self; 4] = [Self::Size, Self::Between, Self::More, Self::Fewer];
}

/// The tenth and the ninetieth percentile of ln(measured/expected).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Band {
    /// A tenth is below.
    pub(super) low: f64,
    /// A tenth is above.
    pub(super) high: f64,
}

impl Band {
    /// Wider on both sides.
    fn times(self, by: f64) -> Self {
        Self { low: self.low * by, high: self.high * by }
    }

    /// The median may itself be off, but it is within its own band.
    pub(super) fn around_zero(self) -> Self {
        Self { low: self.low.min(-REPEATS), high: self.high.max(REPEATS) }
    }
}

/// No measurement repeats to better than half a percent.
pub(in crate::machine) const REPEATS: f64 = 0.005;

/// How far the requested ranks are from the measured ones.
#[derive(Debug, Clone, Copy)]
pub(super) struct Away {
    /// lg of the ranks over the nearest measured number on the tier; negative if there are fewer.
    pub(super) octaves: f64,
    /// Whether there is a network between them.
    pub(super) between: bool,
}

/// A tier without any errors is known to a factor of three.
const UNSEEN: Band = Band { low: -1.1, high: 1.1 };

/// At the measured ranks, if no size could be held out or sizes are far apart, on one node and on several: published
/// curves of NCCL and Open MPI at three sizes.
const SPARSE_INSIDE: Band = Band { low: -0.06, high: 0.20 };
const SPARSE_BETWEEN: Band = Band { low: -0.29, high: 0.52 };

/// From one number of ranks to twice as many, if nothing else of the tier was fitted, on one node
/// and on several. From published times, each predicted this way. It grows by the octave. No numbers that are nearer to each other
/// were compared, so it is not smaller for them.
const ALONE_INSIDE: Band = Band { low: -0.28, high: 0.36 };
const ALONE_BETWEEN: Band = Band { low: -0.22, high: 0.6 };

/// The factor on the held-out errors of the most ranks at twice as many ranks; beyond that they
/// grow in proportion to N. From published times at 2, 4 and 8 times the fitted ranks.
const TWICE: f64 = 1.05;

/// Beyond the measured sizes, errors are doubled.
const BEYOND: f64 = 2.0;

/// The bands of a fit: for each kind of holding out, a band at some sizes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Bands {
    /// By kind; sizes in their order.
    lines: Vec<(Held, Vec<(Bytes, Band)>)>,
}

impl Bands {
    /// The bands of a fit.
    pub(super) fn new(lines: Vec<(Held, Vec<(Bytes, Band)>)>) -> Self {
        Self { lines }
    }

    /// Each kind's sizes in their order, with measured over expected at the tenth and the ninetieth
    /// percentile.
    #[must_use]
    pub fn of(all: impl IntoIterator<Item = (Held, Vec<(Bytes, Ratio, Ratio)>)>) -> Self {
        let band = |(size, low, high): (Bytes, Ratio, Ratio)| {
            (size, Band { low: low.0.ln(), high: high.0.ln() })
        };
        let line = |(held, points): (Held, Vec<_>)| (held, points.into_iter().map(band).collect());
        Self { lines: all.into_iter().map(line).collect() }
    }

    /// The entries, as [`of`](Self::of) accepts them.
    pub fn iter(&self) -> impl Iterator<Item = (Held, Vec<(Bytes, Ratio, Ratio)>)> + '_ {
        let point =
            |&(size, band): &(Bytes, Band)| (size, Ratio(band.low.exp()), Ratio(band.high.exp()));
        self.lines.iter().map(move |(held, line)| (*held, line.iter().map(point).collect()))
    }

    /// The band at a size, linearly interpolated in lg M.
    pub(super) fn at(&self, held: Held, size: Bytes, away: impl Fn() -> Away) -> Band {
        let line = |held| self.lines.iter().find(|l| l.0 == held).map(|l| at(&l.1, size));
        let sizes = || {
            let sparse = || if away().between { SPARSE_BETWEEN } else { SPARSE_INSIDE };
            line(Held::Size).unwrap_or_else(sparse)
        };
        match held {
            Held::Tier => UNSEEN,
            Held::Alone => {
                let away = away();
                let one = if away.between { ALONE_BETWEEN } else { ALONE_INSIDE };
                let octaves = away.octaves.abs().max(1.0);
                if away.octaves < 0.0 {
                    Band { low: -one.high, high: -one.low }.times(octaves)
                } else {
                    // Also the same number of ranks on other nodes.
                    one.times(octaves)
                }
            }
            Held::More => {
                let further = away().octaves.exp2() / 2.0;
                line(held).map_or(UNSEEN, |b| b.times(TWICE * further.max(1.0)))
            }
            Held::Size => sizes(),
            Held::Larger | Held::Smaller => sizes().times(BEYOND),
            _ => line(held).unwrap_or(UNSEEN),
        }
    }
}

fn at(points: &[(Bytes, Band)], size: Bytes) -> Band {
    let x = lg(size);
    let above = points.partition_point(|p| p.0.0.max(1) <= size.0.max(1));
    match (above.checked_sub(1).map(|i| points[i]), points.get(above)) {
        (Some((s0, a)), Some(&(s1, b))) => {
            let part = (x - lg(s0)) / (lg(s1) - lg(s0));
            let mix = |a: f64, b: f64| a + (b - a) * part;
            Band { low: mix(a.low, b.low), high: mix(a.high, b.high) }
        }
        (Some((_, band)), None) | (None, Some(&(_, band))) => band,
        (None, None) => UNSEEN,
    }
}

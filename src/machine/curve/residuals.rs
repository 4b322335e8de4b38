//! Residuals between a curve and the measurements.

use super::Placed;
use crate::base::quantity::{Bytes, Ratio};
use crate::base::stats::along;

/// Logarithms of measured over computed, by ranks and size.
#[derive(Debug, Clone, PartialEq)]
pub struct Residuals {
    /// The ranks, in order.
    lines: Vec<Line>,
    /// Whether times of ranks between measured ones are interpolated linearly between theirs.
    straight: bool,
}

/// The residuals of one number of ranks.
#[derive(Debug, Clone, PartialEq)]
struct Line {
    placed: Placed,
    /// lg M and the residual, by size.
    points: Vec<(f64, f64)>,
}

impl Residuals {
    /// The logarithms of measured over computed, in any order.
    pub(super) fn new(mut all: Vec<(Placed, Bytes, f64)>) -> Self {
        all.sort_by_key(|&(placed, size, _)| (placed, size));
        let lines = all
            .chunk_by(|a, b| a.0 == b.0)
            .map(|of| Line {
                placed: of[0].0,
                points: of.iter().map(|&(_, size, r)| (lg(size), r)).collect(),
            })
            .collect();
        Self { lines, straight: false }
    }

    /// The same, with times between measured ranks linear in lg N, if held-out ranks showed that to
    /// be better.
    #[must_use]
    pub fn straight(self, straight: bool) -> Self {
        Self { straight, ..self }
    }

    /// Whether it interpolates linearly in lg N.
    #[must_use]
    pub fn is_straight(&self) -> bool {
        self.straight
    }

    /// The measured ranks of the same tier next to `placed`, if times are interpolated between
    /// theirs; `None` if `placed` itself was measured or is outside.
    pub(super) fn beside(&self, placed: Placed) -> Option<(Placed, Placed)> {
        if !self.straight || self.lines.iter().any(|l| l.placed == placed) {
            return None;
        }
        let tier = || self.lines.iter().map(|l| l.placed);
        let tier = || tier().filter(|p| p.between() == placed.between());
        Some((tier().rfind(|p| *p < placed)?, tier().find(|p| *p > placed)?))
    }

    /// Measured over computed, in any order.
    #[must_use]
    pub fn of(all: impl IntoIterator<Item = (Placed, Bytes, Ratio)>) -> Self {
        Self::new(all.into_iter().map(|(placed, size, r)| (placed, size, r.0.ln())).collect())
    }

    /// Measured over computed, by ranks and size.
    pub fn iter(&self) -> impl Iterator<Item = (Placed, Bytes, Ratio)> + '_ {
        self.lines.iter().flat_map(|line| {
            let size = |x: f64| Bytes(x.exp2().round() as u64);
            line.points.iter().map(move |&(x, r)| (line.placed, size(x), Ratio(r.exp())))
        })
    }

    /// The residual at ranks and a size. For ranks that were not measured: the mean of the nearest
    /// fewer and more ranks, or half of the one if there is no other.
    pub(super) fn at(&self, placed: Placed, size: Bytes) -> f64 {
        let x = lg(size);
        if let Some(own) = self.lines.iter().find(|l| l.placed == placed) {
            return own.at(x);
        }
        let tier = || self.lines.iter().filter(|l| l.placed.between() == placed.between());
        let fewer = tier().rfind(|l| l.placed < placed).map(|l| l.at(x));
        let more = tier().find(|l| l.placed > placed).map(|l| l.at(x));
        0.5 * (fewer.unwrap_or(0.0) + more.unwrap_or(0.0))
    }
}

impl Line {
    /// Linear between two sizes, constant beyond the ends.
    fn at(&self, x: f64) -> f64 {
        along(&self.points, x).unwrap_or(0.0)
    }
}

/// The binary logarithm of a size; for 0 bytes that of one byte.
pub(super) fn lg(size: Bytes) -> f64 {
    (size.0.max(1) as f64).log2()
}

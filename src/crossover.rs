//! Where the better of two algorithms changes.

use crate::price::Prepared;
use crate::quantity::{Seconds, Volume};

/// The size at which `b` becomes cheaper than `a`: `a` wins below, `b` above.
///
/// Straight lines are solved exactly; pipelines with a free P, whose price bends, by bisection to
/// the last bit. None where `a` is not cheaper for small sizes or `b` not for large ones.
#[must_use]
pub fn crossover(a: &Prepared, b: &Prepared) -> Option<Volume> {
    if let (Some((latency_a, slope_a)), Some((latency_b, slope_b))) = (a.line(), b.line()) {
        if latency_a >= latency_b || slope_a <= slope_b {
            return None;
        }
        return Some(Volume((latency_b - latency_a) / (slope_a - slope_b)));
    }
    bisect(|size| (a.time(Volume(size)) - b.time(Volume(size))).0)
}

/// The largest size that is asked for, 1 EiB: beyond it a crossing says nothing.
const LARGEST: f64 = 1_152_921_504_606_846_976.0;

/// The last zero of `difference` where it goes from below 0 at no bytes to above 0 at the most.
fn bisect(difference: impl Fn(f64) -> f64) -> Option<Volume> {
    let (mut low, mut high) = (0.0, LARGEST);
    if difference(low) >= 0.0 || difference(high) <= 0.0 {
        return None;
    }
    // The relative width halves each time: 200 steps reach the last bit from any start.
    for _ in 0..200 {
        let middle = if low > 1.0 { (low * high).sqrt() } else { (low + high) / 2.0 };
        if middle <= low || middle >= high {
            break;
        }
        if difference(middle) < 0.0 { low = middle } else { high = middle }
    }
    Some(Volume(high))
}

/// The best number of segments of a pipeline of `depth` slots, whose price is
/// (depth + P − 2 + 1)·(α + M/(P·BW)).
///
/// Appendix C of the topology-free introduction; its printed T(P*) is one α too high (K26).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pipeline {
    /// L, the slots that the first segment takes.
    pub depth: u32,
    /// α.
    pub alpha: Seconds,
    /// x = M/BW.
    pub transfer: Seconds,
}

impl Pipeline {
    /// (L + P − 1)·(α + x/P).
    #[must_use]
    pub fn time(&self, segments: u32) -> Seconds {
        let p = f64::from(segments);
        Seconds((f64::from(self.depth) + p - 1.0) * (self.alpha.0 + self.transfer.0 / p))
    }

    /// P* = √((L − 1)·x/α).
    #[must_use]
    pub fn best_real(&self) -> crate::quantity::Ratio {
        let fill = f64::from(self.depth.saturating_sub(1));
        crate::quantity::Ratio((fill * self.transfer.0 / self.alpha.0).sqrt())
    }

    /// The better whole neighbour of P*, at least 1.
    #[must_use]
    pub fn best(&self) -> u32 {
        let star = self.best_real().0.clamp(1.0, f64::from(u32::MAX));
        let (below, above) = (star.floor() as u32, star.ceil() as u32);
        if self.time(above).0 < self.time(below).0 { above } else { below }
    }

    /// The √ correction, 2√((L − 1)·α·x): what the fill costs at P*.
    #[must_use]
    pub fn correction(&self) -> Seconds {
        let fill = f64::from(self.depth.saturating_sub(1));
        Seconds(2.0 * (fill * self.alpha.0 * self.transfer.0).sqrt())
    }

    /// T(P*) = (L − 1)·α + x + 2√((L − 1)·α·x).
    #[must_use]
    pub fn time_at_real(&self) -> Seconds {
        let fill = f64::from(self.depth.saturating_sub(1));
        Seconds(fill * self.alpha.0 + self.transfer.0) + self.correction()
    }

    /// L·α + x, the form that texts print for large M.
    #[must_use]
    pub fn asymptotic(&self) -> Seconds {
        Seconds(f64::from(self.depth) * self.alpha.0 + self.transfer.0)
    }
}

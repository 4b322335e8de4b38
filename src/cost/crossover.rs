//! Where the better of two algorithms changes.

use crate::base::quantity::{Ratio, Seconds, Volume};
use crate::cost::price::Prepared;
use crate::cost::rank::Candidate;

/// The size at which `b` becomes cheaper than `a`: `a` wins below, `b` above.
///
/// Straight lines are solved exactly. Pipelines with a free P, whose price is not linear, are
/// solved by bisection to the last bit. `None` if `a` is not cheaper for small sizes or `b` not for
/// large ones.
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

/// The largest size considered, 1 EiB: a crossing beyond it is meaningless.
const LARGEST: f64 = 1_152_921_504_606_846_976.0;

/// The last zero of `difference` where it goes from below 0 at no bytes to above 0 at the largest
/// size.
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

/// The fastest candidates as the size grows from `from` to `to`, each with the size from which it
/// wins.
///
/// As [`envelope_in_steps`] with one step per octave, enough for an overview.
#[must_use]
pub fn envelope(candidates: &[Candidate], from: Volume, to: Volume) -> Vec<(Volume, Candidate)> {
    envelope_in_steps(candidates, from, to, 1)
}

/// The same with the winners compared `steps` times per octave, a power of two.
///
/// Each change between two of these points is bisected to the last bit; a winner over less than one
/// step between two others may be missed.
#[must_use]
pub fn envelope_in_steps(
    candidates: &[Candidate],
    from: Volume,
    to: Volume,
    steps: u32,
) -> Vec<(Volume, Candidate)> {
    // Square roots are one instruction; `powf` would load the C library's math functions at
    // start-up.
    let factor = (0..steps.max(1).ilog2()).fold(2.0_f64, |factor, _| factor.sqrt());
    let time = |i: usize, size: f64| candidates[i].prepared.time(Volume(size)).0;
    let winner = |size: f64| {
        let times = (0..candidates.len()).map(|i| (i, time(i, size)));
        times.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(i, _)| i)
    };
    let Some(first) = winner(from.0) else { return Vec::new() };
    let mut found = vec![(from, candidates[first])];
    let mut last = (from.0, first);
    while last.0 < to.0 {
        let next = (last.0 * factor).min(to.0);
        // Once there is a winner, there is one at every larger size.
        let there = winner(next).unwrap_or(last.1);
        while last.1 != there {
            last = first_change(last, (next, there), &time, &winner);
            found.push((Volume(last.0), candidates[last.1]));
        }
        last.0 = next;
    }
    found
}

/// The first size after `start` with another winner, and that winner, given the winner at `end`.
///
/// Finds the crossing of these two; if a third candidate is better there, it is tried next.
fn first_change(
    start: (f64, usize),
    end: (f64, usize),
    time: &impl Fn(usize, f64) -> f64,
    winner: &impl Fn(f64) -> Option<usize>,
) -> (f64, usize) {
    let mut end = end;
    loop {
        let (mut low, mut high) = (start.0, end.0);
        loop {
            let middle = low + (high - low) / 2.0;
            if middle <= low || middle >= high {
                break;
            }
            if time(start.1, middle) <= time(end.1, middle) { low = middle } else { high = middle }
        }
        match winner(high) {
            Some(third) if third != end.1 && third != start.1 && high < end.0 => {
                end = (high, third);
            }
            _ => return (high, end.1),
        }
    }
}

/// The best number of segments of a pipeline of `depth` slots, whose price is
/// (depth + P − 2 + 1)·(α + M/(P·BW)).
///
/// spiceMonkey/collective-comm 01, appendix C; its printed T(P*) is one α too high (K26).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pipeline {
    /// L, the slots of the first segment.
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
    pub fn best_real(&self) -> Ratio {
        let fill = f64::from(self.depth.saturating_sub(1));
        Ratio((fill * self.transfer.0 / self.alpha.0).sqrt())
    }

    /// The better integer neighbour of P*, at least 1.
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

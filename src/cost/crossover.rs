//! Where the better of two algorithms changes.

use crate::base::quantity::{Ratio, Seconds, Volume};
use crate::cost::price::Prepared;
use crate::cost::rank::Candidate;

/// A size at which the cheaper of two becomes the other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// The size at which both take the same time.
    pub size: Volume,
    /// Whether the first of the two is the cheaper above it.
    pub to_first: bool,
}

/// The size at which `b` becomes cheaper than `a`: `a` wins below, `b` above.
///
/// `None` if there is no such size, or if it is not the only one at which the cheaper of them changes:
/// [`changes`] has them all.
#[must_use]
pub fn crossover(a: &Prepared, b: &Prepared) -> Option<Volume> {
    match changes(a, b)[..] {
        [Change { size, to_first: false }] => Some(size),
        _ => None,
    }
}

/// All sizes at which the cheaper of two becomes the other, in rising order.
///
/// Straight lines are solved exactly. Pipelines with a free P, whose price is not linear, are compared
/// at many sizes of every octave, and each change between two of these is bisected to the last bit.
#[must_use]
pub fn changes(a: &Prepared, b: &Prepared) -> Vec<Change> {
    if let (Some((latency_a, slope_a)), Some((latency_b, slope_b))) = (a.line(), b.line()) {
        let (later, flatter) = (latency_b - latency_a, slope_a - slope_b);
        let size = later / flatter;
        let change = Change { size: Volume(size), to_first: later < 0.0 };
        let is_one = later * flatter > 0.0 && size <= LARGEST;
        return is_one.then_some(change).into_iter().collect();
    }
    changes_of(|size| difference(a, b, size))
}

/// Whether `a` is the cheaper of two that do not change.
#[must_use]
pub fn is_cheaper(a: &Prepared, b: &Prepared) -> bool {
    let mut slower = sizes().map(|size| difference(a, b, size)).filter(|&slower| slower != 0.0);
    slower.next().is_none_or(|slower| slower < 0.0)
}

/// By how much `a` is slower than `b`; 0 if they differ by no more than rounding.
fn difference(a: &Prepared, b: &Prepared, size: f64) -> f64 {
    let [a, b] = [a, b].map(|one| one.time(Volume(size)).0);
    if (a - b).abs() <= 1e-12 * a.max(b) { 0.0 } else { a - b }
}

/// The largest size considered, 1 EiB: a crossing beyond it is meaningless.
const LARGEST: f64 = 1_152_921_504_606_846_976.0;

/// No bytes, and sixteen sizes per octave up to the largest.
fn sizes() -> impl Iterator<Item = f64> {
    // Square roots are one instruction; `powf` would load the C library's math functions.
    let step = (0..4).fold(2.0_f64, |step, _| step.sqrt());
    let rising = std::iter::successors(Some(1.0), move |size| Some(size * step));
    std::iter::once(0.0).chain(rising.take_while(|&size| size <= LARGEST)).chain([LARGEST])
}

/// The sizes at which `difference` changes its sign.
fn changes_of(difference: impl Fn(f64) -> f64) -> Vec<Change> {
    let mut found = Vec::new();
    let (mut low, mut before) = (0.0, 0.0);
    for size in sizes() {
        let here = difference(size);
        if here * before < 0.0 {
            let size = bisect((low, size), |at| difference(at) * before > 0.0);
            found.push(Change { size, to_first: here < 0.0 });
        }
        // Where both are equal the last winner stands.
        if here != 0.0 {
            (low, before) = (size, here);
        }
    }
    found
}

/// The first size of a range at which it is no longer as at the start.
fn bisect((mut low, mut high): (f64, f64), is_as_before: impl Fn(f64) -> bool) -> Volume {
    loop {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            return Volume(high);
        }
        if is_as_before(middle) { low = middle } else { high = middle }
    }
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

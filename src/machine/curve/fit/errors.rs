//! The error of the fit on held-out data: sizes and ranks are held out in turn.
//!
//! The bands are quantiles of ln(measured/expected) over what was held out near a size, weighted by
//! distance. With the factors below, 8 of 10 measurements are inside the bands over the published
//! measurements of docs/background/accuracy-of-fits.md, where a fit on fewer ranks is worse than one on
//! all.

use super::parts::Parts;
use super::row::{Row, placed};
use super::{Asked, choose};
use crate::base::order::{rising, sorted};
use crate::base::quantity::Bytes;
use crate::base::stats::median;
use crate::machine::curve::bands::{Band, Bands, Held};
use crate::machine::curve::residuals::{Residuals, lg};
use crate::machine::curve::{Observation, Placed};

/// Held-out sizes.
const SIZE: f64 = 0.9;
/// Ranks at an end, held out one after another.
const END: f64 = 1.0;
/// Ranks between others.
const BETWEEN: f64 = 0.9;
/// With only two numbers of ranks: the factor beyond them on the components' errors …
const TWO_END: f64 = 1.35;
/// … and on the errors of predicting one of them from the other; …
const TWO_OTHER: f64 = 0.3;
/// … and the factor between them.
const TWO_BETWEEN: f64 = 0.85;
/// Without residuals, the error at every size is that of the components.
const COMPONENTS: f64 = 1.05;

/// Sizes are far apart at more octaves than this.
const SPARSE: f64 = 3.0;
/// Fewer held-out sizes are not enough.
const FEW: usize = 8;

/// How far, in octaves, an error still counts.
const NEAR: f64 = 2.5;
/// The least weight of an error.
const FAR: f64 = 0.02;

/// An error at lg M.
pub(super) type Errors = Vec<(f64, f64)>;

/// The bands, and whether a straight line between the logarithms of measured ranks predicts the
/// ranks between them better than the components do. This is tried on each number of ranks that has
/// others on both sides. `repeats` are the errors of single runs against their median.
pub(super) fn bands(parts: &Parts, rows: &[Row], repeats: &Errors, asked: &Asked) -> (Bands, bool) {
    let components: Errors = rows.iter().map(|r| (r.lg, r.residual(parts))).collect();
    let mut ranks = Ranks::held_out(parts, rows, asked);
    let straight = asked.residuals && ranks.straighten(rows);
    let sizes = apart(1, parts, rows);
    let closer = closer(&sizes, &apart(2, parts, rows));
    // Where nothing was held out, there is no error to state.
    let was_held_out = |held: &Held| match held {
        Held::Size => !sizes.is_empty() && octaves(rows) <= SPARSE,
        _ => !ranks.all.is_empty(),
    };
    let lines = Held::FITTED.into_iter().filter(was_held_out).map(|held| {
        let points = knots(rows).into_iter().map(|x| {
            let band = match held {
                Held::Size if !asked.residuals => near(&components, x, COMPONENTS),
                Held::Size if sizes.len() < FEW => near(&components, x, 1.0),
                Held::Size => near(&sizes, x, SIZE * closer),
                _ => ranks.band(held, &components, x),
            };
            let band = if repeats.is_empty() { band } else { band.and(near(repeats, x, 1.0)) };
            (Bytes(x.exp2().round() as u64), band.around_zero())
        });
        (held, points.collect())
    });
    (Bands::new(lines.collect()), straight)
}

/// How far single runs are from the median of their ranks and size, where there were several.
pub(super) fn repeats(all: &[Observation]) -> Errors {
    let at = |o: &Observation| (o.placed, o.size);
    let mut all = all.to_vec();
    all.sort_by_key(at);
    let several = all.chunk_by(|a, b| at(a) == at(b)).filter(|runs| runs.len() > 1);
    let middle = |runs: &[Observation]| median(runs.iter().map(|o| o.time.0).collect());
    let beside = several.filter_map(|runs| Some((runs, middle(runs)?)));
    let errors = beside.flat_map(|(runs, middle)| {
        runs.iter().map(move |o| (lg(o.size), (o.time.0 / middle).ln()))
    });
    errors.collect()
}

/// The sizes at which bands are kept: every second octave of the measured sizes.
fn knots(rows: &[Row]) -> Vec<f64> {
    let least = rows.iter().map(|r| r.lg).fold(f64::INFINITY, f64::min);
    let most = rows.iter().map(|r| r.lg).fold(0.0, f64::max);
    let steps = ((most - least) / 2.0).ceil().max(1.0) as u32;
    (0..=steps).map(|i| (least + 2.0 * f64::from(i)).min(most)).collect()
}

/// The median distance of neighbouring sizes.
fn octaves(rows: &[Row]) -> f64 {
    let mut all = sorted(rows.iter().map(|r| r.lg));
    all.dedup();
    median(all.windows(2).map(|w| w[1] - w[0]).collect()).unwrap_or(f64::INFINITY)
}

/// Each size between two others of its ranks, `far` sizes away, by a straight line between their
/// residuals.
fn apart(far: usize, parts: &Parts, rows: &[Row]) -> Errors {
    let mut errors = Vec::with_capacity(rows.len());
    for ranks in placed(rows) {
        let mut own: Vec<(f64, f64)> =
            rows.iter().filter(|r| r.placed == ranks).map(|r| (r.lg, r.residual(parts))).collect();
        rising(&mut own, |a| a.0);
        errors.extend(own.windows(2 * far + 1).map(|w| {
            let ((x0, a), (x, r), (x1, b)) = (w[0], w[far], w[2 * far]);
            (x, r - (a + (b - a) * (x - x0) / (x1 - x0)))
        }));
    }
    errors
}

/// How much smaller errors are between sizes than at held-out sizes, whose neighbours are twice as
/// far. The ratio is taken to equal that of errors with neighbours twice and four times as far.
/// Pure noise is equally large everywhere.
fn closer(near: &Errors, far: &Errors) -> f64 {
    let middle = |errors: &Errors| median(errors.iter().map(|e| e.1.abs()).collect());
    match (middle(near), middle(far)) {
        (Some(near), Some(far)) if far > 0.0 => (near / far).clamp(0.5, 1.1),
        _ => 1.0,
    }
}

/// A straight line must bring the error of the components below this part.
const WORTH: f64 = 0.9;

/// The error at each row whose ranks have fewer and more ranks beside them, by a straight line in
/// lg N between the logarithms of their times.
fn straight(rows: &[Row]) -> Vec<(Placed, Errors)> {
    let ranks = placed(rows);
    let mut errors = Vec::new();
    for &out in &ranks {
        let tier = || ranks.iter().copied().filter(|p| p.between() == out.between());
        let beside = tier().rfind(|p| *p < out).zip(tier().find(|p| *p > out));
        let Some((fewer, more)) = beside else { continue };
        let line = |of: Placed| -> Vec<(f64, f64)> {
            let mut line: Vec<_> =
                rows.iter().filter(|r| r.placed == of).map(|r| (r.lg, r.time.ln())).collect();
            rising(&mut line, |a| a.0);
            line
        };
        let (a, b) = (line(fewer), line(more));
        let of = rows.iter().filter(|r| r.placed == out).filter_map(|r| {
            let times = ((fewer, along(&a, r.lg)?), (more, along(&b, r.lg)?));
            Some((r.lg, r.time.ln() - crate::machine::curve::straight(out, times.0, times.1)))
        });
        errors.push((out, of.collect()));
    }
    errors
}

/// Linear between two points; `None` outside.
fn along(points: &[(f64, f64)], x: f64) -> Option<f64> {
    let above = points.partition_point(|p| p.0 < x);
    let &(x1, y1) = points.get(above)?;
    match above.checked_sub(1).map(|i| points[i]) {
        _ if x1 == x => Some(y1),
        Some((x0, y0)) => Some(y0 + (y1 - y0) * (x - x0) / (x1 - x0)),
        None => None,
    }
}

/// Errors on ranks that were held out.
struct Ranks {
    /// By their place among the others of their tier.
    all: Vec<(Held, Placed, Errors)>,
    /// Whether there are at most two numbers of ranks.
    two: bool,
}

impl Ranks {
    fn held_out(parts: &Parts, rows: &[Row], asked: &Asked) -> Self {
        let ranks = placed(rows);
        let mut all = Vec::new();
        for &out in &ranks {
            let (test, train): (Vec<Row>, Vec<Row>) = rows.iter().partition(|r| r.placed == out);
            if !train.iter().any(|r| r.between == out.between()) {
                continue;
            }
            let refitted = choose::again(parts, &train);
            let rest = |r: &Row| (r.placed, Bytes(r.bytes as u64), r.residual(&refitted));
            let left = asked.residuals.then(|| Residuals::new(train.iter().map(rest).collect()));
            let error = |r: &Row| {
                let size = Bytes(r.bytes as u64);
                r.residual(&refitted) - left.as_ref().map_or(0.0, |l| l.at(r.placed, size))
            };
            let errors = test.iter().map(|r| (r.lg, error(r))).collect();
            all.push((kind(out, &ranks), out, errors));
        }
        Self { all, two: ranks.len() < 3 }
    }

    /// Uses the errors of straight lines for ranks between others, if they are smaller.
    fn straighten(&mut self, rows: &[Row]) -> bool {
        let lines = straight(rows);
        let mean = |errors: &[(f64, f64)]| {
            errors.iter().map(|e| e.1.abs()).sum::<f64>() / errors.len() as f64
        };
        let predicted: Vec<Placed> = lines.iter().map(|l| l.0).collect();
        let own = self.all.iter().filter(|e| predicted.contains(&e.1));
        let own: Errors = own.flat_map(|e| &e.2).copied().collect();
        let lines: Errors = lines.into_iter().flat_map(|l| l.1).collect();
        if lines.is_empty() || own.is_empty() || mean(&lines) >= WORTH * mean(&own) {
            return false;
        }
        self.all.retain(|e| !predicted.contains(&e.1));
        self.all.extend(predicted.first().map(|&at| (Held::Between, at, lines)));
        true
    }

    fn band(&self, held: Held, components: &Errors, x: f64) -> Band {
        let of = |held| self.all.iter().filter(move |e| e.0 == held).flat_map(|e| &e.2).copied();
        let every: Errors = self.all.iter().flat_map(|e| &e.2).copied().collect();
        if self.two {
            let factor = if held == Held::Between { TWO_BETWEEN } else { TWO_END };
            let own = near(components, x, factor);
            let beyond = held != Held::Between;
            return if beyond { own.or(near(&every, x, TWO_OTHER)) } else { own };
        }
        if held == Held::Between {
            return near(&every, x, BETWEEN);
        }
        let own: Errors = of(held).collect();
        let wide = near(&every, x, END);
        if own.is_empty() { wide } else { wide.or(near(&own, x, END)) }
    }
}

/// The place of `out` among the numbers of ranks.
fn kind(out: Placed, ranks: &[Placed]) -> Held {
    match (ranks.first(), ranks.last()) {
        (Some(&least), _) if least == out => Held::Fewer,
        (_, Some(&most)) if most == out => Held::More,
        _ => Held::Between,
    }
}

impl Band {
    /// That of two errors which have nothing to do with each other.
    fn and(self, other: Self) -> Self {
        let both = |a: f64, b: f64| a.hypot(b);
        Self {
            low: -both(self.low.min(0.0), other.low.min(0.0)),
            high: both(self.high.max(0.0), other.high.max(0.0)),
        }
    }

    /// The wider one on each side.
    fn or(self, other: Self) -> Self {
        Self { low: self.low.min(other.low), high: self.high.max(other.high) }
    }
}

/// The tenth and ninetieth percentile of the errors around lg M = `x`, multiplied by `by`.
fn near(errors: &Errors, x: f64, by: f64) -> Band {
    let mut weighed: Vec<(f64, f64)> = errors
        .iter()
        .map(|&(y, e)| (e * by, FAR + (-(x - y).powi(2) / (2.0 * NEAR * NEAR)).exp()))
        .collect();
    rising(&mut weighed, |a| a.0);
    let total: f64 = weighed.iter().map(|w| w.1).sum();
    // The i-th of n errors is the quantile i/(n + 1); n is the effective number of the weights.
    let n = total * total / weighed.iter().map(|w| w.1 * w.1).sum::<f64>();
    let tenth = ((0.1 * (n + 1.0) - 0.5) / n).max(0.0) * total;
    Band { low: quantile(&weighed, tenth), high: quantile(&weighed, total - tenth) }
}

/// Where the sum of the weights reaches `at`; each weight is counted at its middle.
fn quantile(weighed: &[(f64, f64)], at: f64) -> f64 {
    let mut sum = 0.0;
    let mut last: Option<(f64, f64)> = None;
    for &(e, weight) in weighed {
        let middle = sum + 0.5 * weight;
        if middle >= at {
            return match last {
                Some((before, m)) => before + (e - before) * (at - m) / (middle - m),
                None => e,
            };
        }
        last = Some((e, middle));
        sum += weight;
    }
    last.map_or(0.0, |l| l.0)
}

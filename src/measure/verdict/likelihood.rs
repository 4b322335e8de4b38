//! How likely measured times are with a cause, over all sizes together.
//!
//! What was measured lies ln(measured/expected) from the expectation. Of that a cause predicts a part;
//! the rest is three things that nobody knows: how far this healthy machine lies from its expectation,
//! which goes together over neighbouring sizes; how far the cause's own figures are off, which grows with
//! what it predicts; and noise, which every size has apart. All are taken as normal, so the rest of all
//! sizes is one draw from a normal law with that covariance. A machine may be of a better or of a worse
//! known kind than its band says: the first of the three counts at several widths, each as likely.
//!
//! A cause of several forms counts as the mean over them. So one that could explain anything is less
//! likely than one that had to be as it was: no figure is fitted, and none is paid for.

use super::Point;
use super::plateau::CARRIED;
use crate::base::stats::{median, solve_positive};

/// More sizes than this are thinned out.
const SIZES: usize = 32;
/// Over so many octaves what a machine is off by fades; the same for what a cause is off by.
const FADES: f64 = 6.0;
const CAUSE_FADES: f64 = 4.0;
/// By how much of itself a cause is off, together and at each size apart.
const CAUSE_OFF: f64 = 0.15;
const CAUSE_APART: f64 = 0.07;
/// Widths of bands that are as likely, as parts of the stated ones.
const WIDTHS: [f64; 3] = [0.7, 1.2, 2.2];
/// Between the tenth and the ninetieth percentile of a normal law lie so many standard deviations.
pub(super) const BAND: f64 = 2.563;
/// Where the NICs that are left slow a call by more, as a logarithm, they alone decide what it takes …
const DECIDES: f64 = 0.25;
/// … and machines lie around that by no more.
const CARRIES: f64 = 0.04;
/// Noise is no less.
const NOISE: f64 = 0.02;
/// The median of |x| of a normal x is this part of its deviation.
const NORMAL: f64 = 0.6745;

/// How sure the figures of a cause are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Figures {
    /// Each is one of a range.
    #[default]
    Range,
    /// It has none that could be off.
    Exact,
    /// A whole number of NICs or lanes, whose rate is known whatever the healthy machine does.
    Rate,
}

/// Measured times, ready to be held against causes.
pub(super) struct Likelihood {
    /// Which points count.
    picked: Vec<usize>,
    octaves: Vec<f64>,
    /// How far the times lie from healthy ones.
    errors: Vec<f64>,
    /// The standard deviation of healthy machines.
    own: Vec<f64>,
    /// Whether NICs decide what a size takes.
    decided: Vec<bool>,
    noise: f64,
}

impl Likelihood {
    pub fn of(points: &[Point]) -> Self {
        let step = points.len().div_ceil(SIZES).max(1);
        let picked: Vec<usize> = (0..points.len()).step_by(step).collect();
        let of = |value: fn(&Point) -> f64| picked.iter().map(|&i| value(&points[i])).collect();
        let errors: Vec<f64> = of(Point::beyond);
        let noise = noise(&errors).max(NOISE);
        let octaves = of(|p| (p.size.0.max(1) as f64).log2());
        let own = of(|p| p.known.deviation);
        let by_nics = |&i: &usize| points[i].known.by_nics;
        let decided = picked.iter().map(by_nics).collect();
        Self { octaves, own, decided, noise, errors, picked }
    }

    /// ln of how likely the times are with a cause that predicts so much, up to a constant.
    pub fn ln(&self, predicted: &[f64], figures: Figures) -> f64 {
        let mut predicted: Vec<f64> = self.picked.iter().map(|&i| predicted[i]).collect();
        let mut own = self.own.clone();
        let off = if figures == Figures::Range { 1.0 } else { 0.0 };
        if figures == Figures::Rate {
            for i in (0..own.len()).filter(|&i| self.decided[i]) {
                if predicted[i] > DECIDES {
                    own[i] = own[i].min(CARRIES);
                    predicted[i] -= CARRIED.ln();
                }
            }
        }
        let each = WIDTHS.map(|width| self.at((width, off), &own, &predicted));
        sum_ln(&each) - (WIDTHS.len() as f64).ln()
    }

    /// The same where healthy machines lie `width` times as far apart as `own` says, and causes are off
    /// by `off` times the usual.
    fn at(&self, (width, off): (f64, f64), own: &[f64], predicted: &[f64]) -> f64 {
        let n = self.errors.len();
        let (mut a, mut b) = ([[0.0; SIZES]; SIZES], [0.0; SIZES]);
        for i in 0..n {
            for j in 0..=i {
                let apart = (self.octaves[i] - self.octaves[j]).abs();
                let own = width * width * own[i] * own[j] * (-apart / FADES).exp();
                let cause = (off * CAUSE_OFF).powi(2) * predicted[i] * predicted[j];
                a[i][j] = own + cause * (-apart / CAUSE_FADES).exp();
            }
            a[i][i] += self.noise * self.noise + (off * CAUSE_APART * predicted[i]).powi(2);
            b[i] = self.errors[i] - predicted[i];
        }
        let left = b;
        if !solve_positive(&mut a, &mut b, n, 0.0) {
            return f64::NEG_INFINITY;
        }
        let square: f64 = left.iter().zip(&b).take(n).map(|(x, y)| x * y).sum();
        // What is left of the matrix is its Cholesky factor.
        -0.5 * square - (0..n).map(|i| a[i][i].ln()).sum::<f64>()
    }
}

/// How much sizes vary apart from their neighbours.
fn noise(errors: &[f64]) -> f64 {
    // A size less the mean of its neighbours has √1.5 the deviation of one.
    let bends = errors.windows(3).map(|w| (w[1] - 0.5 * (w[0] + w[2])).abs());
    median(bends.collect()).unwrap_or(0.0) / (NORMAL * 1.5_f64.sqrt())
}

/// ln Σ e^x.
pub(super) fn sum_ln(all: &[f64]) -> f64 {
    let most = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if most == f64::NEG_INFINITY {
        return most;
    }
    most + all.iter().map(|x| (x - most).exp()).sum::<f64>().ln()
}

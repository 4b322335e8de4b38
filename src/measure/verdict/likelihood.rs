//! How likely measured times are with a cause, over all sizes together.
//!
//! A measured time is off its expectation by ln(measured/expected). A cause predicts a part of that. The
//! rest has three unknown parts: how far this healthy machine is from its expectation, which is correlated
//! over neighbouring sizes; how far the time that the cause adds is off, which is a part of that time;
//! and noise, which is independent for every size. All are assumed normal, so the rest of all sizes is one
//! draw from a normal distribution with that covariance. The kind of a machine may be known better or
//! worse than its band states, so the first part counts at several widths, each equally likely.
//!
//! A cause with several forms counts as the mean over them. A cause that could explain anything is
//! therefore less likely than one that predicts just this: no parameter is fitted, and no penalty for
//! parameters is needed.

use super::Point;
use super::plateau::CARRIED;
use crate::base::stats::{median, solve_positive};

/// More sizes than this are thinned out.
const SIZES: usize = 32;
/// The correlation of a machine's error fades over this many octaves; below, that of a cause's error.
const FADES: f64 = 6.0;
const CAUSE_FADES: f64 = 4.0;
/// By how much of itself the time that a cause adds is off, in common at all sizes and separately at each.
const CAUSE_OFF: f64 = 0.15;
const CAUSE_APART: f64 = 0.07;
/// Equally likely widths of bands, relative to the stated ones.
const WIDTHS: [f64; 3] = [0.7, 1.2, 2.2];
/// Standard deviations between the tenth and the ninetieth percentile of a normal distribution.
pub(super) const BAND: f64 = 2.563;
/// If the remaining NICs slow a call by more than this, as a logarithm, they alone decide its time …
const DECIDES: f64 = 0.25;
/// … and machines deviate from it by no more than this.
const CARRIES: f64 = 0.04;
/// Lanes are known less well: of packets with a payload of 128 bytes headers take a sixth, of 512 bytes a
/// twentieth, and reads and writes differ.
const LANES_CARRY: f64 = 0.1;
/// Noise is at least this.
const NOISE: f64 = 0.02;
/// The median of |x| of a normal x is this part of its deviation.
const NORMAL: f64 = 0.6745;

/// How certain the parameters of a cause are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Figures {
    /// Each is one value from a range.
    #[default]
    Range,
    /// It has no parameter that could be off.
    Exact,
    /// A whole number of NICs: where they alone decide, their rate is known whatever the healthy machine
    /// reaches.
    Rate,
    /// A part of the PCIe lanes: the same, less exactly.
    Lanes,
}

/// Measured times, ready for comparison with causes.
pub(super) struct Likelihood {
    /// Which points count.
    picked: Vec<usize>,
    octaves: Vec<f64>,
    /// How far the times are from healthy ones.
    errors: Vec<f64>,
    /// The standard deviation of healthy machines.
    own: Vec<f64>,
    /// Whether NICs decide the time of a size.
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

    /// ln of the likelihood of the times with a cause that predicts `predicted`, up to a constant.
    pub fn ln(&self, predicted: &[f64], figures: Figures) -> f64 {
        let mut predicted: Vec<f64> = self.picked.iter().map(|&i| predicted[i]).collect();
        let mut own = self.own.clone();
        // The cause adds this part of the whole time, and a logarithm is off by that part of the error.
        let mut added: Vec<f64> = predicted.iter().map(|p| 1.0 - (-p.abs()).exp()).collect();
        let carries = match figures {
            Figures::Rate => Some(CARRIES),
            Figures::Lanes => Some(LANES_CARRY),
            Figures::Range => None,
            Figures::Exact => {
                added.fill(0.0);
                None
            }
        };
        if let Some(carries) = carries {
            for i in (0..own.len()).filter(|&i| self.decided[i]) {
                if predicted[i] > DECIDES {
                    added[i] = 0.0;
                    own[i] = own[i].min(carries);
                    predicted[i] -= CARRIED.ln();
                }
            }
        }
        let each = WIDTHS.map(|width| self.at(width, (&own, &added), &predicted));
        sum_ln(&each) - (WIDTHS.len() as f64).ln()
    }

    /// The same if healthy machines differ `width` times as much as `own` says.
    fn at(&self, width: f64, (own, added): (&[f64], &[f64]), predicted: &[f64]) -> f64 {
        let n = self.errors.len();
        let (mut a, mut b) = ([[0.0; SIZES]; SIZES], [0.0; SIZES]);
        for i in 0..n {
            for j in 0..=i {
                let apart = (self.octaves[i] - self.octaves[j]).abs();
                let own = width * width * own[i] * own[j] * (-apart / FADES).exp();
                let cause = CAUSE_OFF.powi(2) * added[i] * added[j];
                a[i][j] = own + cause * (-apart / CAUSE_FADES).exp();
            }
            a[i][i] += self.noise * self.noise + (CAUSE_APART * added[i]).powi(2);
            b[i] = self.errors[i] - predicted[i];
        }
        let left = b;
        if !solve_positive(&mut a, &mut b, n, 0.0) {
            return f64::NEG_INFINITY;
        }
        let square: f64 = left.iter().zip(&b).take(n).map(|(x, y)| x * y).sum();
        // The matrix now contains its Cholesky factor.
        -0.5 * square - (0..n).map(|i| a[i][i].ln()).sum::<f64>()
    }
}

/// How much sizes vary independently of their neighbours.
fn noise(errors: &[f64]) -> f64 {
    // A size minus the mean of its neighbours has √1.5 times the deviation of one size.
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

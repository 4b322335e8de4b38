//! The least soft-L1 loss of logarithmic errors, by Levenberg and Marquardt.
//!
//! ρ(e) = 2(√(1 + (e/s)²) − 1): small errors count by their squares, large ones (a protocol's
//! switch, a disturbed run) by their size. A weak pull towards the start holds unknowns that no row
//! determines, such as a step inside a node if all rows have one rank per node.

use super::parts::{ALL, EACH, Parts};
use super::row::Row;
use crate::base::stats::solve_positive;

/// s: errors above count by their size.
const SOFT: f64 = 0.05;
/// How strongly unknowns are pulled to their start.
const PULL: f64 = 0.1;
/// The same for ln c.
const PULL_SHAPE: f64 = 0.03;
/// The largest change of a logarithm in one step.
const LEAP: f64 = 2.0;

/// Improves `parts` by up to `rounds` steps; unknowns are pulled to `home`. Returns the
/// loss.
pub(super) fn solve(parts: &mut Parts, rows: &[Row], home: &Parts, rounds: u32) -> f64 {
    let n = parts.len();
    let mut now = loss(parts, rows, home);
    let mut damping = 1e-2;
    let mut idle = 0;
    for _ in 0..rounds {
        let (hessian, gradient) = slopes(parts, rows, home);
        let mut better = None;
        for _ in 0..8 {
            let mut a = hessian;
            for (i, row) in a.iter_mut().enumerate().take(n) {
                row[i] += damping * (row[i] + 1e-6);
            }
            let mut step = gradient;
            if !solve_positive(&mut a, &mut step, n, 0.0) {
                damping *= 10.0;
                continue;
            }
            let mut x = [0.0; ALL];
            for (i, x) in x.iter_mut().enumerate().take(n) {
                *x = parts.x()[i] - step[i].clamp(-LEAP, LEAP);
            }
            let tried = parts.with(&x[..n]);
            let then = loss(&tried, rows, home);
            if then < now {
                better = Some((tried, then));
                break;
            }
            damping *= 4.0;
        }
        let Some((tried, then)) = better else { break };
        idle = if now - then < 1e-5 * then { idle + 1 } else { 0 };
        (*parts, now) = (tried, then);
        damping = (damping * 0.3_f64).max(1e-9);
        if idle == 2 {
            break;
        }
    }
    now
}

/// How much the unknown at `i` of `n` is pulled.
fn pull(parts: &Parts, i: usize) -> f64 {
    if parts.curved && i == EACH * parts.count() + 1 { PULL_SHAPE } else { PULL }
}

fn loss(parts: &Parts, rows: &[Row], home: &Parts) -> f64 {
    let of = |row: &Row| {
        let e = row.residual(parts) / SOFT;
        2.0 * ((1.0 + e * e).sqrt() - 1.0)
    };
    let pulled = |i: usize| pull(parts, i) * (parts.x()[i] - home.x()[i]).powi(2);
    rows.iter().map(of).sum::<f64>() + (0..parts.len()).map(pulled).sum::<f64>()
}

/// The lower half of the Gauss-Newton matrix, and half the gradient.
fn slopes(parts: &Parts, rows: &[Row], home: &Parts) -> ([[f64; ALL]; ALL], [f64; ALL]) {
    let (mut h, mut g) = ([[0.0; ALL]; ALL], [0.0; ALL]);
    let ends = EACH * parts.count();
    for row in rows {
        let (k, at) = parts.active(row);
        let e = (at.time / row.time).ln();
        let weight = 1.0 / (SOFT * SOFT) / (1.0 + (e / SOFT).powi(2)).sqrt();
        // The derivatives of ln T with respect to ln L and ln b.
        let by_latency = (at.latency + 0.5 * at.root) / at.time;
        let by_bytes = (at.bytes + 0.5 * at.root) / at.time;
        let first = EACH * k;
        let mut slope = [(0, 0.0); 6];
        for (j, term) in at.terms.iter().enumerate() {
            slope[j] = (first + j, by_latency * term / at.latency);
        }
        slope[3] = (first + if row.between { 4 } else { 3 }, by_bytes);
        let known = if parts.curved {
            slope[4] = (ends, by_bytes / at.factor);
            slope[5] = (ends + 1, at.root / at.time);
            6
        } else {
            4
        };
        for (a, &(i, di)) in slope[..known].iter().enumerate() {
            g[i] += weight * e * di;
            for &(j, dj) in &slope[..=a] {
                h[i.max(j)][i.min(j)] += weight * di * dj;
            }
        }
    }
    for i in 0..parts.len() {
        g[i] += pull(parts, i) * (parts.x()[i] - home.x()[i]);
        h[i][i] += pull(parts, i);
    }
    (h, g)
}

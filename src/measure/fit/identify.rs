//! Whether the points determine the coefficients separately.

use super::model::Design;
use super::nnls::MOST;

/// How close the columns are to linear dependence.
#[derive(Debug, Clone, Copy)]
pub(super) struct Apart {
    /// The condition number of the columns, each scaled to length 1.
    pub condition: f64,
    /// The largest variance inflation of α, the last slope and γ.
    pub inflation: f64,
}

/// Of the design's columns as they enter the fit, relative to the measured times.
pub(super) fn apart(design: &Design<'_>) -> Apart {
    let p = design.basis.p();
    let rows: Vec<_> = design.rows.iter().cloned().chain(design.basis.prior_row()).collect();
    let mut gram = [[0.0; MOST]; MOST];
    for row in &rows {
        for (line, a) in gram.iter_mut().zip(&row.columns[..p]) {
            for (sum, b) in line.iter_mut().zip(&row.columns[..p]) {
                *sum += a * b;
            }
        }
    }
    let norm: Vec<f64> = (0..p).map(|i| gram[i][i].sqrt()).collect();
    if norm.contains(&0.0) {
        return Apart { condition: f64::INFINITY, inflation: f64::INFINITY };
    }
    for (line, a) in gram.iter_mut().zip(&norm) {
        for (value, b) in line.iter_mut().zip(&norm) {
            *value /= a * b;
        }
    }
    let (values, vectors) = eigen(&mut gram, p);
    let most = values[..p].iter().fold(0.0, |a: f64, &b| a.max(b));
    let least = values[..p].iter().fold(f64::INFINITY, |a, &b| a.min(b)).max(0.0);
    // The diagonal of the inverse shows how much the others blur a coefficient.
    let inflation = |i: usize| (0..p).map(|k| vectors[i][k].powi(2) / values[k]).sum::<f64>();
    let own = [0, design.basis.last()].into_iter().chain(design.basis.prior.map(|_| p - 1));
    Apart { condition: (most / least).sqrt(), inflation: own.map(inflation).fold(0.0, f64::max) }
}

/// Eigenvalues and eigenvectors (as columns) of a symmetric matrix, by Jacobi's rotations.
fn eigen(a: &mut [[f64; MOST]; MOST], p: usize) -> ([f64; MOST], [[f64; MOST]; MOST]) {
    let mut v = [[0.0; MOST]; MOST];
    for (i, row) in v.iter_mut().enumerate().take(p) {
        row[i] = 1.0;
    }
    for _ in 0..50 {
        let off: f64 =
            (0..p).flat_map(|i| (0..i).map(move |j| (i, j))).map(|(i, j)| a[i][j].powi(2)).sum();
        if off < 1e-30 {
            break;
        }
        for i in 0..p {
            for j in 0..i {
                if a[i][j].abs() < 1e-300 {
                    continue;
                }
                let theta = (a[j][j] - a[i][i]) / (2.0 * a[i][j]);
                let t = theta.signum() / (theta.abs() + theta.hypot(1.0));
                let c = 1.0 / t.hypot(1.0);
                let s = t * c;
                for row in a.iter_mut().take(p) {
                    let (x, y) = (row[i], row[j]);
                    (row[i], row[j]) = (c * x - s * y, s * x + c * y);
                }
                let (x, y) = (a[i], a[j]);
                for (k, (x, y)) in x.into_iter().zip(y).enumerate() {
                    (a[i][k], a[j][k]) = (c * x - s * y, s * x + c * y);
                }
                for row in v.iter_mut().take(p) {
                    let (x, y) = (row[i], row[j]);
                    (row[i], row[j]) = (c * x - s * y, s * x + c * y);
                }
            }
        }
    }
    let mut values = [0.0; MOST];
    for i in 0..p {
        values[i] = a[i][i];
    }
    (values, v)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eigenvalues_of_a_known_matrix() {
        let mut a = [[0.0; MOST]; MOST];
        for (i, row) in [[2.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 5.0]].iter().enumerate() {
            a[i][..3].copy_from_slice(row);
        }
        let (mut values, _) = eigen(&mut a, 3);
        values[..3].sort_by(f64::total_cmp);
        for (value, expected) in values.iter().zip([1.0, 3.0, 5.0]) {
            assert!((value - expected).abs() < 1e-12, "{values:?}");
        }
    }
}

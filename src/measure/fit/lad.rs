//! Median regression: the coefficients with the least sum of relative errors.
//!
//! Least squares finds β but misses α by hundreds of microseconds. Weighted squares, log squares and
//! Huber's loss fail if a third of the points do not follow the model; absolute relative errors
//! stay within 3 %. They are minimised by reweighted least squares: the weight of a row is 1/|error|.

use super::nnls::{MOST, Normal};

/// Rounds of reweighting; most fits settle before.
const ROUNDS: usize = 60;

/// Errors below this all weigh the same: 0.01 % is below any clock's noise.
const SMALLEST: f64 = 1e-4;

/// One equation: Σ row·x = 1, each column divided by the measured time.
#[derive(Debug, Clone)]
pub(in crate::measure) struct Row {
    pub columns: [f64; MOST],
    /// How much its error counts; 1 for a point that was measured well.
    pub weight: f64,
}

impl Row {
    /// A time that was measured well, and the factors of its coefficients.
    pub fn of(factors: impl IntoIterator<Item = f64>, time: f64) -> Self {
        let mut columns = [0.0; MOST];
        for (cell, factor) in columns.iter_mut().zip(factors) {
            *cell = factor / time;
        }
        Self { columns, weight: 1.0 }
    }

    /// The prediction of `x` relative to the measured time, minus 1.
    #[inline]
    pub fn error(&self, x: &[f64; MOST], p: usize) -> f64 {
        let mut said = 0.0;
        for (factor, x) in self.columns.iter().zip(x).take(p) {
            said += factor * x;
        }
        said - 1.0
    }
}

/// The non-negative x with the least Σ weight·|error|.
pub(in crate::measure) fn fit<'a>(
    rows: impl Iterator<Item = &'a Row> + Clone,
    p: usize,
) -> [f64; MOST] {
    let mut x = [0.0; MOST];
    for round in 0..ROUNDS {
        let mut normal = Normal::new(p);
        for row in rows.clone() {
            let error = if round == 0 { 1.0 } else { row.error(&x, p).abs() };
            normal.add(&row.columns, 1.0, row.weight / error.max(SMALLEST));
        }
        let next = normal.solve();
        let moved = (0..p).any(|i| (next[i] - x[i]).abs() > 1e-9 * next[i].abs());
        x = next;
        if !moved {
            break;
        }
    }
    x
}

/// The x with the least Σ |a·x − b|, where every a is above 0: a weighted median.
pub(super) fn ratio(pairs: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
    let mut ratios: Vec<(f64, f64)> =
        pairs.filter(|(a, _)| *a > 0.0).map(|(a, b)| (b / a, a)).collect();
    ratios.sort_by(|x, y| x.0.total_cmp(&y.0));
    let whole: f64 = ratios.iter().map(|r| r.1).sum();
    let mut sum = 0.0;
    for (i, &(ratio, weight)) in ratios.iter().enumerate() {
        sum += weight;
        if sum > 0.5 * whole {
            return Some(ratio);
        }
        if sum == 0.5 * whole {
            return ratios.get(i + 1).map(|next| 0.5 * (ratio + next.0)).or(Some(ratio));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(alpha: f64, beta: f64, time: f64) -> Row {
        let mut columns = [0.0; MOST];
        (columns[0], columns[1]) = (alpha / time, beta / time);
        Row { columns, weight: 1.0 }
    }

    #[test]
    fn a_third_of_the_rows_may_lie_far_off() {
        let time = |m: f64| 5e-6 + m * 2e-9;
        let rows: Vec<Row> = (0..30)
            .map(|i| {
                let m = 8.0 * 2_f64.powi(i % 15);
                row(1.0, m, time(m) * if i % 3 == 0 { 1.5 + f64::from(i) } else { 1.0 })
            })
            .collect();
        let x = fit(rows.iter(), 2);
        assert!((x[0] / 5e-6 - 1.0).abs() < 1e-3 && (x[1] / 2e-9 - 1.0).abs() < 1e-3, "{x:?}");
    }

    #[test]
    fn one_unknown_is_a_weighted_median() {
        assert_eq!(ratio([(1.0, 2.0), (1.0, 3.0), (1.0, 100.0)].into_iter()), Some(3.0));
        assert_eq!(ratio([(1.0, 2.0), (1.0, 4.0)].into_iter()), Some(3.0));
        assert_eq!(ratio([(0.0, 2.0)].into_iter()), None);
    }
}

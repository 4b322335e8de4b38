//! Statistics that several modules use: quantiles, confidence intervals of medians, normal
//! equations.

use statrs::distribution::{Binomial, ChiSquared, ContinuousCDF, DiscreteCDF, Normal, StudentsT};
use statrs::statistics::{Data, Median as _, Statistics as _};

/// Half the width of a normal distribution's 95 % interval, in standard deviations.
pub(crate) const HALF_WIDTH: f64 = 1.959_964;

/// The `part` quantile of sorted numbers, with linear interpolation.
pub(crate) fn quantile(sorted: &[f64], part: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    let at = part * last as f64;
    let (low, high) = (at.floor() as usize, at.ceil() as usize);
    match (sorted.get(low), sorted.get(high)) {
        (Some(a), Some(b)) => a + (at - at.floor()) * (b - a),
        _ => f64::NAN,
    }
}

/// The height at `x` of the lines between points, which are in order; beyond their ends that of the nearest.
pub(crate) fn along(points: &[(f64, f64)], x: f64) -> Option<f64> {
    let (before, after) = points.split_at(points.partition_point(|p| p.0 <= x));
    match (before.last(), after.first()) {
        (Some((x0, y0)), Some((x1, y1))) => Some(y0 + (y1 - y0) * (x - x0) / (x1 - x0)),
        (end, other) => end.or(other).map(|p| p.1),
    }
}

/// The median of numbers in any order; `None` if there are no numbers.
pub(crate) fn median(numbers: Vec<f64>) -> Option<f64> {
    (!numbers.is_empty()).then(|| Data::new(numbers).median())
}

/// Half the 95 % interval of the median of sorted numbers.
///
/// The count of n numbers below the median is binomial for every distribution: an interval that
/// leaves out k numbers at each end misses the median with probability 2·P(B ≤ k), where B counts n
/// trials of probability 1/2. For fewer than six numbers the interval is from the smallest to the
/// largest.
///
/// Source: Conover, Practical Nonparametric Statistics, section 3.2.
pub(crate) fn half_width(sorted: &[f64]) -> f64 {
    let (n, last) = (sorted.len(), sorted.len() - 1);
    // The normal approximation is at most one number off.
    let about = (n as f64 / 2.0 - 0.98 * (n as f64).sqrt()).max(0.0) as usize + 1;
    let holds = |b: &Binomial, out: usize| b.cdf(out as u64) <= 0.025;
    let out = Binomial::new(0.5, n as u64)
        .ok()
        .and_then(|b| (0..=about.min(last / 2)).rev().find(|&out| holds(&b, out)))
        .unwrap_or(0);
    0.5 * (sorted[last - out] - sorted[out])
}

/// Half the 95 % interval of the mean of two or more normal numbers, by Student's t.
pub(crate) fn half_of_mean(numbers: &[f64]) -> f64 {
    let count = numbers.len() as f64;
    student(0.975, count - 1.0) * numbers.std_dev() / count.sqrt()
}

/// The `part` quantile of Student's t with this many degrees of freedom.
pub(crate) fn student(part: f64, freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |t| t.inverse_cdf(part))
}

/// The probability that a normal number is at least `z` deviations from 0, on either side.
pub(crate) fn as_far(z: f64) -> f64 {
    2.0 * Normal::standard().sf(z.abs())
}

/// The probability that the squares of `count` normal numbers add up to `sum` or more.
pub(crate) fn as_large(sum: f64, count: usize) -> f64 {
    ChiSquared::new(count as f64).map_or(1.0, |law| law.sf(sum))
}

/// Solves a·x = b for the first `n` unknowns in place, by Cholesky; only the lower half of `a` is
/// used. Returns false if a pivot is not above `least`: the matrix is not positive definite.
pub(crate) fn solve_positive<const N: usize>(
    a: &mut [[f64; N]; N],
    b: &mut [f64; N],
    n: usize,
    least: f64,
) -> bool {
    for i in 0..n {
        for j in 0..=i {
            let done: f64 = (0..j).map(|k| a[i][k] * a[j][k]).sum();
            let rest = a[i][j] - done;
            if i != j {
                a[i][j] = rest / a[j][j];
            } else if rest > least {
                a[i][i] = rest.sqrt();
            } else {
                return false;
            }
        }
    }
    for i in 0..n {
        let done: f64 = (0..i).map(|k| a[i][k] * b[k]).sum();
        b[i] = (b[i] - done) / a[i][i];
    }
    for i in (0..n).rev() {
        let done: f64 = (i + 1..n).map(|k| a[k][i] * b[k]).sum();
        b[i] = (b[i] - done) / a[i][i];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_the_median_are_those_of_printed_tables() {
        // Conover's table A3, p = 0.5: 95 % at least; 6 numbers hold 96.9 % between their ends.
        for (n, rank) in [(6, 1), (8, 1), (9, 2), (10, 2), (12, 3), (20, 6), (30, 10), (100, 40)] {
            let sorted: Vec<f64> = (1..=n).map(f64::from).collect();
            let (low, high) = (f64::from(rank), f64::from(n + 1 - rank));
            assert_eq!(half_width(&sorted), 0.5 * (high - low), "{n}");
        }
        assert_eq!(half_width(&[3.0]), 0.0);
        assert_eq!(half_width(&[3.0, 5.0]), 1.0);
    }

    #[test]
    fn medians_and_quantiles_lie_between_numbers() {
        assert_eq!(median(vec![4.0, 1.0, 2.0, 8.0]), Some(3.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(Vec::new()), None);
        assert_eq!(quantile(&[0.0, 1.0, 2.0, 3.0], 0.1), 0.3 + f64::EPSILON / 4.0);
        assert!(quantile(&[], 0.5).is_nan());
    }

    #[test]
    fn what_is_not_positive_definite_is_not_solved() {
        let (mut a, mut b) = ([[4.0, 0.0], [2.0, 5.0]], [8.0, 14.0]);
        assert!(solve_positive(&mut a, &mut b, 2, 0.0));
        assert_eq!(b, [0.75, 2.5]);
        assert!(!solve_positive(&mut [[1.0, 0.0], [2.0, 4.0]], &mut [1.0, 1.0], 2, 0.0));
    }
}

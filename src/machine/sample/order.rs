//! What sorted numbers say: quantiles, and how well a median is known.

/// The `part` quantile of sorted numbers, between two of them in proportion.
pub(crate) fn quantile(sorted: &[f64], part: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    let at = part * last as f64;
    let (low, high) = (at.floor() as usize, at.ceil() as usize);
    match (sorted.get(low), sorted.get(high)) {
        (Some(a), Some(b)) => a + (at - at.floor()) * (b - a),
        _ => f64::NAN,
    }
}

/// The median of numbers in any order; none of none.
pub(crate) fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    (!numbers.is_empty()).then(|| quantile(&numbers, 0.5))
}

/// Half the 95 % interval of the median of sorted numbers, by the ranks n/2 ± 0.98·√n.
pub(crate) fn half_width(sorted: &[f64]) -> f64 {
    let n = sorted.len() as f64;
    let reach = 0.98 * n.sqrt();
    let at = |rank: f64| sorted[(rank.max(0.0) as usize).min(sorted.len() - 1)];
    0.5 * (at((n / 2.0 + reach).ceil()) - at((n / 2.0 - reach).floor()))
}

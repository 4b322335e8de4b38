//! Compares two runs of the same thing, accounting for noise.

use std::collections::BTreeMap;

use crate::base::order::sorted;
use crate::base::quantity::{Bytes, Ratio, Seconds};
use crate::base::stats::median;
use crate::measure::logs::{Imported, Measured};

/// Sizes over which two runs are compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Region {
    /// What ran, with its ranks.
    pub what: String,
    /// The smallest size.
    pub from: Bytes,
    /// The largest.
    pub to: Bytes,
    /// The number of pairs of size and place (in or out of place) that both have.
    pub pairs: usize,
    /// The median of the second run's times over the first's.
    pub ratio: Ratio,
    /// The 95 % interval of that median, by the sign test.
    pub low: Ratio,
    /// Its other end.
    pub high: Ratio,
    /// Whether they differ by more than noise.
    pub differs: bool,
}

/// Two runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Two {
    /// Small, middle and large sizes of every test that both ran.
    pub regions: Vec<Region>,
    /// The noise: how much the ratio of both varies between neighbouring sizes.
    pub noise: Ratio,
}

/// Two runs always differ by this much.
const LEAST: f64 = 0.01;
/// Sizes are divided at 64 KiB and 4 MiB.
const EDGES: [u64; 2] = [1 << 16, 1 << 22];

type Key = (String, u64, bool);

/// Compares two logs over the rows that both have; `None` if they share fewer than three.
#[must_use]
pub fn two(first: &Imported, second: &Imported) -> Option<Two> {
    let (a, b) = (times(first), times(second));
    let mut by: BTreeMap<(String, usize), Vec<(u64, f64)>> = BTreeMap::new();
    for ((what, size, in_place), time) in &a {
        if let Some(other) = b.get(&(what.clone(), *size, *in_place)) {
            let region = EDGES.iter().filter(|&&edge| *size >= edge).count();
            let ratio = (other.0 / time.0).ln();
            by.entry((what.clone(), region)).or_default().push((*size, ratio));
        }
    }
    let pairs: usize = by.values().map(Vec::len).sum();
    if pairs < 3 {
        return None;
    }
    let steps = by.values().flat_map(|v| v.windows(2).map(|w| (w[1].1 - w[0].1).abs()));
    // The difference of two has √2 times the deviation of one; the median of |x| is 0.67 of a deviation.
    let noise = median(steps.collect()).unwrap_or(0.0) / (0.6745 * 2_f64.sqrt());
    let regions = by.into_iter().map(|((what, _), of)| region(what, &of, noise)).collect();
    Some(Two { regions, noise: Ratio(noise) })
}

/// The times of a log's collectives; the median if a size was timed more than once.
fn times(log: &Imported) -> BTreeMap<Key, Seconds> {
    let mut all: BTreeMap<Key, Vec<f64>> = BTreeMap::new();
    for table in &log.tables {
        let Some(collective) = table.tested.collective() else { continue };
        let ranks = table.ranks.map_or(String::new(), |n| format!(", {n} ranks"));
        for row in &table.rows {
            let Measured::Time(time) = row.measured else { continue };
            let dtype = row.dtype.map_or(String::new(), |d| format!(", {d}"));
            let what = format!("{}{ranks}{dtype}", collective.name());
            all.entry((what, row.size.0, row.in_place)).or_default().push(time.0);
        }
    }
    all.into_iter().filter_map(|(k, v)| median(v).map(|t| (k, Seconds(t)))).collect()
}

fn region(what: String, of: &[(u64, f64)], noise: f64) -> Region {
    let sorted = sorted(of.iter().map(|o| o.1));
    let middle = median(sorted.clone()).unwrap_or(0.0);
    let (low, high) = interval(&sorted, noise);
    let size = |pick: fn(u64, u64) -> u64| of.iter().map(|o| o.0).reduce(pick).unwrap_or(0);
    Region {
        what,
        from: Bytes(size(u64::min)),
        to: Bytes(size(u64::max)),
        pairs: of.len(),
        ratio: Ratio(middle.exp()),
        low: Ratio(low.exp()),
        high: Ratio(high.exp()),
        differs: (low > 0.0 || high < 0.0) && middle.abs() > LEAST,
    }
}

/// The order statistics that enclose the median in 95 cases of 100; with few pairs, the extremes widened
/// by twice the noise.
fn interval(sorted: &[f64], noise: f64) -> (f64, f64) {
    let n = sorted.len() as f64;
    let reach = 0.98 * n.sqrt();
    let at = |rank: f64| sorted[(rank.max(0.0) as usize).min(sorted.len() - 1)];
    let (low, high) = (at((n / 2.0 - reach).floor()), at((n / 2.0 + reach).ceil() - 1.0));
    // With fewer than six pairs, even all of them on one side prove nothing.
    let wider = if sorted.len() < 6 { 2.0 * noise } else { 0.0 };
    (low - wider, high + wider)
}

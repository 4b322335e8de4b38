//! How well the model predicts what it was not shown: held-out algorithms, held-out sizes.

use super::model::{Basis, Design, Entry, Model};
use crate::base::order::{rising, sorted};
use crate::base::quantity::{Ratio, Seconds};
use crate::base::stats::quantile;
use crate::machine::profile::{Regime, StatedBand, StatedBands};

/// How far predictions are off measured times: |prediction/time − 1|.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Errors {
    /// Half of them are smaller.
    pub median: Ratio,
    /// Nine of ten are smaller.
    pub p90: Ratio,
    /// How many.
    pub count: usize,
}

impl Errors {
    /// From signed errors; `None` without any.
    #[must_use]
    pub fn of(errors: impl Iterator<Item = f64>) -> Option<Self> {
        let sizes = sorted(errors.map(f64::abs));
        let at = |part| Ratio(quantile(&sizes, part));
        let count = sizes.len();
        (count > 0).then(|| Self { median: at(0.5), p90: at(0.9), count })
    }
}

/// Errors of all points, and of those decided by latency, by both, or by bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Regimes {
    /// All.
    pub all: Errors,
    /// Times below 3 α.
    pub latency: Option<Errors>,
    /// Between.
    pub middle: Option<Errors>,
    /// Times above 10 α.
    pub bulk: Option<Errors>,
}

/// A prediction of a point that the fit was not shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Predicted {
    /// Which point, in the fit's list.
    pub point: usize,
    /// The model's prediction.
    pub predicted: Seconds,
    /// Prediction over time, minus 1.
    pub error: Ratio,
}

/// Predicts every entry by a fit without the entries that share its mark. An entry with a parameter
/// that only those entries have, such as the rate of messages that only they send, cannot be predicted.
pub(super) fn predict<K: PartialEq>(
    basis: &Basis,
    entries: &[Entry],
    mark: impl Fn(usize) -> K,
) -> Vec<Predicted> {
    let design = Design::new(basis, entries);
    let marks: Vec<K> = (0..entries.len()).map(mark).collect();
    let mut told: Vec<Option<Predicted>> = vec![None; entries.len()];
    for i in 0..entries.len() {
        if told[i].is_some() {
            continue;
        }
        let shown: Vec<usize> = (0..entries.len()).filter(|&j| marks[j] != marks[i]).collect();
        if shown.len() < basis.p() {
            continue;
        }
        let model = Model { basis: basis.clone(), x: design.fit(&shown) };
        let has = |entry: usize, parameter: usize| design.rows[entry].columns[parameter] != 0.0;
        let known: Vec<bool> =
            (0..basis.p()).map(|p| shown.iter().any(|&other| has(other, p))).collect();
        let is_possible = |entry: usize| (0..basis.p()).all(|p| known[p] || !has(entry, p));
        for j in (i..entries.len()).filter(|&j| marks[j] == marks[i] && is_possible(j)) {
            let predicted = model.predict(&entries[j].path);
            let error = Ratio(predicted / entries[j].time - 1.0);
            told[j] =
                Some(Predicted { point: entries[j].point, predicted: Seconds(predicted), error });
        }
    }
    told.into_iter().flatten().collect()
}

/// The errors by regime; `pairs` are times and signed errors.
pub(super) fn regimes(pairs: &[(f64, f64)], alpha: Seconds) -> Option<Regimes> {
    let part = |regime| {
        let own = pairs.iter().filter(|(time, _)| Regime::of(Seconds(*time), alpha) == regime);
        Errors::of(own.map(|(_, e)| *e))
    };
    Some(Regimes {
        all: Errors::of(pairs.iter().map(|(_, e)| *e))?,
        latency: part(Regime::Latency),
        middle: part(Regime::Middle),
        bulk: part(Regime::Bulk),
    })
}

/// Held-out algorithms are the harder test; with one algorithm only sizes can be held out.
pub(super) fn harder<'a>(algorithms: &'a [Predicted], sizes: &'a [Predicted]) -> &'a [Predicted] {
    if algorithms.is_empty() { sizes } else { algorithms }
}

/// A time beside its prediction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub predicted: Seconds,
    /// The time over the prediction.
    pub part: f64,
    /// How many such times there are.
    pub weight: f64,
}

impl Part {
    pub(super) fn of(told: &Predicted) -> Self {
        Self { predicted: told.predicted, part: 1.0 / (1.0 + told.error.0), weight: 1.0 }
    }
}

/// Fewer times say nothing about the worst tenth of them.
const LEAST_OF_BAND: usize = 10;

/// The bands by regime of the prediction: only the prediction is known when a band is requested.
pub(super) fn bands(told: &[Part], alpha: Seconds) -> StatedBands {
    let part = |wanted: &dyn Fn(Regime) -> bool| {
        let own = told.iter().filter(|t| wanted(Regime::of(t.predicted, alpha)));
        let mut parts: Vec<(f64, f64)> = own.map(|t| (t.part, t.weight)).collect();
        rising(&mut parts, |a| a.0);
        let (low, high) = (outside(&parts, 0.1)?, outside(&parts, 0.9)?);
        Some(StatedBand::new(Ratio(low), Ratio(high)))
    };
    StatedBands {
        all: part(&|_| true),
        latency: part(&|regime| regime == Regime::Latency),
        middle: part(&|regime| regime == Regime::Middle),
        bulk: part(&|regime| regime == Regime::Bulk),
    }
}

/// The value below which the next one is with this probability, of values with weights: n values bound
/// n + 1 equally likely intervals, so it is a little further out than the values' own quantile.
fn outside(sorted: &[(f64, f64)], part: f64) -> Option<f64> {
    if sorted.len() < LEAST_OF_BAND {
        return None;
    }
    let wanted = part * (sorted.iter().map(|(_, weight)| weight).sum::<f64>() + 1.0);
    let (mut sum, mut below) = (0.0, sorted[0].0);
    for &(value, weight) in sorted {
        if sum + weight >= wanted {
            let way = ((wanted - sum) / weight).clamp(0.0, 1.0);
            return Some(below + way * (value - below));
        }
        (sum, below) = (sum + weight, value);
    }
    Some(below)
}

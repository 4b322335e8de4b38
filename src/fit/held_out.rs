//! How well the model says what it was not shown: algorithms left out, sizes left out.

use super::model::{Basis, Design, Entry, Model};
use crate::quantity::{Ratio, Seconds};
use crate::sample::quantile;

/// How far predictions lie from measured times: |prediction/time − 1|.
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
    /// Of signed errors; none of none.
    #[must_use]
    pub fn of(errors: impl Iterator<Item = f64>) -> Option<Self> {
        let mut sizes: Vec<f64> = errors.map(f64::abs).collect();
        sizes.sort_by(f64::total_cmp);
        let at = |part| Ratio(quantile(&sizes, part));
        let count = sizes.len();
        (count > 0).then(|| Self { median: at(0.5), p90: at(0.9), count })
    }
}

/// Errors of all points, and of those where latency, both, or bytes decide.
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
pub struct Foretold {
    /// Which point, in the fit's list.
    pub point: usize,
    /// What the model says.
    pub predicted: Seconds,
    /// Prediction over time, minus 1.
    pub error: Ratio,
}

/// Foretells every entry by a fit without those that share its mark.
pub(super) fn foretell<K: PartialEq>(
    basis: &Basis,
    entries: &[Entry],
    mark: impl Fn(usize) -> K,
) -> Vec<Foretold> {
    let design = Design::new(basis, entries);
    let marks: Vec<K> = (0..entries.len()).map(mark).collect();
    let mut told: Vec<Option<Foretold>> = vec![None; entries.len()];
    for i in 0..entries.len() {
        if told[i].is_some() {
            continue;
        }
        let shown: Vec<usize> = (0..entries.len()).filter(|&j| marks[j] != marks[i]).collect();
        if shown.len() < basis.p() {
            continue;
        }
        let model = Model { basis: basis.clone(), x: design.fit(&shown) };
        for j in (i..entries.len()).filter(|&j| marks[j] == marks[i]) {
            let predicted = model.predict(&entries[j].path);
            let error = Ratio(predicted / entries[j].time - 1.0);
            told[j] =
                Some(Foretold { point: entries[j].point, predicted: Seconds(predicted), error });
        }
    }
    told.into_iter().flatten().collect()
}

/// The errors by regime; `pairs` are times and signed errors.
pub(super) fn regimes(pairs: &[(f64, f64)], alpha: f64) -> Option<Regimes> {
    let part = |from: f64, to: f64| {
        let own = pairs.iter().filter(|(t, _)| *t >= from * alpha && *t < to * alpha);
        Errors::of(own.map(|(_, e)| *e))
    };
    Some(Regimes {
        all: Errors::of(pairs.iter().map(|(_, e)| *e))?,
        latency: part(0.0, 3.0),
        middle: part(3.0, 10.0),
        bulk: part(10.0, f64::INFINITY),
    })
}

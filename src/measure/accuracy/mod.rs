//! The accuracy of predictions on unseen data: published times, held out in turn.
//!
//! Every model sees the same training rows and predicts the same test rows. A cell is one
//! collective of one table (and one data type, if it reduces). The error of a cell is the median
//! and the 90th percentile of |predicted/measured − 1| over its test rows; that of a family is the
//! median over its cells.

pub mod answer;
mod cell;
mod model;
mod split;

use std::collections::BTreeMap;

use crate::base::quantity::Ratio;
use crate::base::stats::{median, quantile};
use crate::machine::curve::{Asked, Curve, Observation, fit};
use crate::measure::logs::Imported;

pub use cell::{Cell, Family, cells};
pub use model::{Model, Told};
pub use split::{Part, Split};

/// The error of one model on one split of one family.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Score {
    /// What was held out.
    pub split: Split,
    /// The family of machines.
    pub family: Family,
    /// By which model.
    pub model: Model,
    /// How many cells it predicts.
    pub cells: usize,
    /// How many cells it does not predict: a tier was not measured, or the machine is unknown.
    pub refused: usize,
    /// The median over cells of the median error.
    pub median: Ratio,
    /// The median over cells of the 90th percentile.
    pub p90: Ratio,
    /// Held-out rows, and the part of them inside the p10–p90 band; only for the profile.
    pub inside: Option<(usize, Ratio)>,
}

/// The error of one model on one split of one cell.
#[derive(Debug, Clone, PartialEq)]
pub struct CellScore {
    /// What was held out.
    pub split: Split,
    /// By which model.
    pub model: Model,
    /// The index of the cell.
    pub cell: usize,
    /// How many rows it predicts.
    pub rows: usize,
    /// The median error.
    pub median: Ratio,
    /// The 90th percentile.
    pub p90: Ratio,
    /// The part of the rows with a band that are inside it; only for the profile.
    pub inside: Option<Ratio>,
}

/// The errors of all models.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    /// By split, family and model.
    pub scores: Vec<Score>,
    /// The cells.
    pub cells: Vec<Cell>,
    /// By cell, split and model.
    pub each: Vec<CellScore>,
}

/// Every model's error on every split of every family that the logs have.
#[must_use]
pub fn accuracy(logs: &[Imported]) -> Scored {
    let cells = cells(logs);
    let mut all: BTreeMap<(Split, Family, Model), Scores> = BTreeMap::new();
    let mut single = Vec::new();
    for (cell, key, mut errors) in each(&cells) {
        errors.errors.sort_by(f64::total_cmp);
        single.extend(errors.score(cell, key));
        all.entry(key).or_default().add(errors);
    }
    let scores = all.into_iter().filter_map(|(key, scores)| scores.score(key)).collect();
    Scored { scores, cells, each: single }
}

/// One model on one split of one cell.
#[derive(Debug, Default)]
struct Errors {
    /// |predicted/measured − 1|; empty if the model predicts nothing.
    errors: Vec<f64>,
    /// Rows inside their band.
    inside: usize,
    /// Rows with a band.
    banded: usize,
}

type Key = (Split, Family, Model);

/// All cells, on as many threads as there are CPUs; the result does not depend on their number.
fn each(cells: &[Cell]) -> Vec<(usize, Key, Errors)> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(cells.len());
    let mut by_cell: Vec<(usize, Vec<(Key, Errors)>)> = std::thread::scope(|scope| {
        let run = |first: usize| {
            scope.spawn(move || {
                let mine = (first..cells.len()).step_by(threads.max(1));
                mine.map(|i| (i, of_cell(&cells[i], cells))).collect::<Vec<_>>()
            })
        };
        let running: Vec<_> = (0..threads).map(run).collect();
        // A thread panics only because of a bug in this crate, and then the result is wrong, too.
        running
            .into_iter()
            .flat_map(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    by_cell.sort_by_key(|c| c.0);
    let flat = |(i, of): (usize, Vec<(Key, Errors)>)| of.into_iter().map(move |(k, e)| (i, k, e));
    by_cell.into_iter().flat_map(flat).collect()
}

fn of_cell(cell: &Cell, cells: &[Cell]) -> Vec<(Key, Errors)> {
    let mut found = Vec::new();
    for split in Split::ALL {
        let parts = split.parts(cell, cells);
        if parts.is_empty() {
            continue;
        }
        for model in Model::ALL {
            let mut errors = Errors::default();
            for part in &parts {
                errors.add(cell, model, part);
            }
            found.push(((split, cell.family, model), errors));
        }
    }
    found
}

impl Errors {
    /// From sorted errors; `None` if the model predicts nothing.
    fn score(&self, cell: usize, (split, _, model): Key) -> Option<CellScore> {
        let part = Ratio(self.inside as f64 / self.banded.max(1) as f64);
        (!self.errors.is_empty()).then(|| CellScore {
            split,
            model,
            cell,
            rows: self.errors.len(),
            median: Ratio(quantile(&self.errors, 0.5)),
            p90: Ratio(quantile(&self.errors, 0.9)),
            inside: (self.banded > 0).then_some(part),
        })
    }

    fn add(&mut self, cell: &Cell, model: Model, part: &Part) {
        let Some(predicted) = model.predict(cell, &part.train, &part.test) else { return };
        for (row, told) in part.test.iter().zip(predicted) {
            let Some(told) = told else { continue };
            self.errors.push((told.time.0 / row.time.0 - 1.0).abs());
            // A profile's band is for its own machine.
            if let Some((low, high)) = told.band.filter(|_| part.same_machine) {
                self.banded += 1;
                self.inside += usize::from(low.0 <= row.time.0 && row.time.0 <= high.0);
            }
        }
    }
}

/// The cells of one split, family and model.
#[derive(Debug, Default)]
struct Scores {
    cells: Vec<(f64, f64)>,
    refused: usize,
    inside: usize,
    banded: usize,
}

impl Scores {
    /// Sorted errors.
    fn add(&mut self, of: Errors) {
        self.inside += of.inside;
        self.banded += of.banded;
        if of.errors.is_empty() {
            self.refused += 1;
            return;
        }
        self.cells.push((quantile(&of.errors, 0.5), quantile(&of.errors, 0.9)));
    }

    /// `None` if the model predicts nothing for any cell.
    fn score(self, (split, family, model): Key) -> Option<Score> {
        let of = |pick: fn(&(f64, f64)) -> f64| median(self.cells.iter().map(pick).collect());
        let (median, p90) = (Ratio(of(|c| c.0)?), Ratio(of(|c| c.1)?));
        let part = Ratio(self.inside as f64 / self.banded.max(1) as f64);
        let inside = (self.banded > 0).then_some((self.banded, part));
        let (cells, refused) = (self.cells.len(), self.refused);
        Some(Score { split, family, model, cells, refused, median, p90, inside })
    }
}

/// The curve of a cell's rows, as it would be in the profile of a user who has them.
pub(crate) fn curve(cell: &Cell, train: &[Observation]) -> Option<Curve> {
    fit(train, &Asked::new(cell.collective, cell.dtype)).ok()
}

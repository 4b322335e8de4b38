//! How accurate each model was on what it did not see.

use serde::Serialize;

use super::six;
use crate::accuracy::{Family, Model, Score, Split};

/// The errors of all models.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Accuracy {
    /// `collcost/accuracy/1`.
    pub schema: &'static str,
    /// The files, without their folders.
    pub files: Vec<String>,
    /// Files that are not used, and why.
    pub left_out: Vec<String>,
    /// By split, family and model.
    pub splits: Vec<ScoreView>,
}

/// The error of one model on one split of one family.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScoreView {
    /// What was held out.
    pub split: Split,
    /// Of which machines.
    pub family: Family,
    /// By which model.
    pub model: Model,
    /// Cells (a collective of a table) that the model foretells.
    pub cells: usize,
    /// Cells that it does not: a tier that was not measured, a machine that it does not know.
    pub refused: usize,
    /// The median over cells of the median |predicted/measured − 1|, as a fraction.
    pub median: f64,
    /// The median over cells of the 90th percentile, as a fraction.
    pub p90: f64,
    /// Held-out rows with a p10–p90 band; of the profile alone.
    pub rows: Option<usize>,
    /// The part of them that lies inside.
    pub inside: Option<f64>,
}

/// The report of all scores over `files`, without what was left out.
#[must_use]
pub fn accuracy(scores: &[Score], files: Vec<String>, left_out: Vec<String>) -> Accuracy {
    let view = |s: &Score| ScoreView {
        split: s.split,
        family: s.family,
        model: s.model,
        cells: s.cells,
        refused: s.refused,
        median: six(s.median.0),
        p90: six(s.p90.0),
        rows: s.inside.map(|i| i.0),
        inside: s.inside.map(|i| six(i.1.0)),
    };
    let splits = scores.iter().map(view).collect();
    Accuracy { schema: "collcost/accuracy/1", files, left_out, splits }
}

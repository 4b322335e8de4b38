//! How accurate each model was on held-out data.

use serde::Serialize;

use super::six;
use crate::base::collective::Collective;
use crate::machine::sample::DataType;
use crate::measure::accuracy::{CellScore, Family, Model, Score, Scored, Split};

/// The errors of all models.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Accuracy {
    /// `collcost/accuracy/1`.
    pub schema: &'static str,
    /// The names of the files, without their folders.
    pub files: Vec<String>,
    /// Files that are not used, and why.
    pub left_out: Vec<String>,
    /// The errors by split, family and model.
    pub splits: Vec<ScoreView>,
    /// The errors by split, cell and model, for the models that are fitted.
    pub cells: Vec<CellView>,
}

/// The error of one model on one split of one cell.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CellView {
    /// What was held out.
    pub split: Split,
    /// The machine as the table names it; for a log, its file.
    pub system: String,
    /// The names of the files, without their folders.
    pub files: String,
    /// The library and its version, if known.
    pub library: String,
    /// The operation.
    pub collective: Collective,
    /// The type of the elements, if the operation adds.
    pub dtype: Option<DataType>,
    /// The kind of the machine.
    pub family: Family,
    /// The model.
    pub model: Model,
    /// Held-out rows.
    pub rows: usize,
    /// The median |predicted/measured − 1|, as a fraction.
    pub median: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The share of rows inside the band; only for the profile.
    pub inside: Option<f64>,
}

/// The error of one model on one split of one family.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScoreView {
    /// What was held out.
    pub split: Split,
    /// The kind of the machines.
    pub family: Family,
    /// The model.
    pub model: Model,
    /// Cells (a collective of a table) that the model predicts.
    pub cells: usize,
    /// Cells that it does not predict: a tier that was not measured, or a machine that it does not
    /// know.
    pub refused: usize,
    /// The median over cells of the median |predicted/measured − 1|, as a fraction.
    pub median: f64,
    /// The median over cells of the 90th percentile, as a fraction.
    pub p90: f64,
    /// Held-out rows with a p10–p90 band; only for the profile.
    pub rows: Option<usize>,
    /// The share of those that lies inside the band.
    pub inside: Option<f64>,
}

/// The report of all scores over `files`, except those that were left out.
#[must_use]
pub fn accuracy(of: &Scored, files: Vec<String>, left_out: Vec<String>) -> Accuracy {
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
    let cell = |s: &CellScore| {
        let cell = &of.cells[s.cell];
        CellView {
            split: s.split,
            system: cell.system.clone(),
            files: short(&cell.file),
            library: cell.library.clone(),
            collective: cell.collective,
            dtype: cell.dtype,
            family: cell.family,
            model: s.model,
            rows: s.rows,
            median: six(s.median.0),
            p90: six(s.p90.0),
            inside: s.inside.map(|i| six(i.0)),
        }
    };
    let splits = of.scores.iter().map(view).collect();
    let fitted = |s: &&CellScore| !matches!(s.model, Model::NcclTuner | Model::Pytorch);
    let cells = of.each.iter().filter(fitted).map(cell).collect();
    Accuracy { schema: "collcost/accuracy/1", files, left_out, splits, cells }
}

/// Files without their folders.
fn short(files: &str) -> String {
    let name = |file: &str| file.rsplit('/').next().unwrap_or(file).to_owned();
    files.split(" + ").map(name).collect::<Vec<_>>().join(" + ")
}

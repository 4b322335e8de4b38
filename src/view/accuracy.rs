//! Errors of models, one line per split and family.
//!
//! ```text
//! split   machines  cells    profile  in band  alpha-beta  textbook-ring  …
//!                           % median      %     % median       % median
//! sizes   nvlink       45    1.9/9.3       81        11/28          31/61
//! ```

use super::page::Page;
use super::sheet::{Cell, Sheet};
use crate::answer::accuracy::{Accuracy, ScoreView};
use crate::measure::accuracy::Model;

/// The table.
#[must_use]
pub fn sheet(report: &Accuracy) -> Sheet {
    let lines = report.splits.chunk_by(|a, b| (a.split, a.family) == (b.split, b.family));
    let cells = |of: &[ScoreView]| of.iter().map(|s| s.cells + s.refused).max().unwrap_or(0);
    let mut rows = Sheet::of(lines)
        .words("held out", "split", |of| of[0].split.id())
        .words("machines", "family", |of| of[0].family.id())
        .numbers("cells", "", "cells", cells);
    for model in Model::ALL {
        rows = rows
            .numbers(model.id(), "%", model.id(), |of| {
                score(of, model).map_or_else(|| Cell::same("–"), |s| error(s, cells(of)))
            })
            .when(model == Model::Profile, |rows| {
                rows.numbers("in band", "%", "inside", |of| {
                    let inside = score(of, model).and_then(|s| s.inside);
                    Cell::number(inside.map(|i| 100.0 * i), |i| format!("{i:.0}"))
                })
            });
    }
    rows.sheet
}

fn score(of: &[ScoreView], model: Model) -> Option<&ScoreView> {
    of.iter().find(|s| s.model == model)
}

/// `1.9/9.3`; with the number of cells if it is not all.
fn error(score: &ScoreView, cells: usize) -> Cell {
    let both = format!("{}/{}", percent(score.median), percent(score.p90));
    if score.cells == cells {
        Cell::same(both)
    } else {
        Cell::same(format!("{both} of {}", score.cells))
    }
}

pub(super) fn percent(part: f64) -> String {
    let percent = 100.0 * part;
    if percent < 9.95 { format!("{percent:.1}") } else { format!("{percent:.0}") }
}

/// Writes the table with its explanation.
pub fn accuracy(report: &Accuracy) -> Page {
    let mut page = Page::default();
    page.table(sheet(report));
    below(&mut page, &report.left_out, &NOTES);
    page
}

/// What was left out, and the meaning of the figures.
pub(super) fn below(page: &mut Page, left_out: &[String], notes: &[&str]) {
    page.entries("left out ", left_out);
    page.entries("note     ", notes.iter().copied());
}

/// The meaning of the figures.
pub const NOTES: [&str; 3] = [
    "median/p90 of |predicted/measured − 1| over a cell's held-out rows, then the median over cells; \
     a cell is one collective of one table",
    "in band: the share of held-out rows between the profile's p10 and p90; 80 is ideal",
    "every model is fitted to the remaining rows; nccl-tuner and pytorch are not fitted",
];

//! Errors of models, one line per split and family.
//!
//! ```text
//! split   machines  cells    profile  in band  alpha-beta  textbook-ring  …
//!                           % median      %     % median       % median
//! sizes   nvlink       45    1.9/9.3       81        11/28          31/61
//! ```

use super::page::Page;
use super::sheet::{Cell, Column, Sheet};
use crate::answer::accuracy::{Accuracy, ScoreView};
use crate::measure::accuracy::Model;

/// The table.
#[must_use]
pub fn sheet(report: &Accuracy) -> Sheet {
    let mut columns = vec![
        Column::words("held out", "split"),
        Column::words("machines", "family"),
        Column::numbers("cells", "", "cells"),
    ];
    for model in Model::ALL {
        columns.push(Column::numbers(model.id(), "%", model.id()));
        if model == Model::Profile {
            columns.push(Column::numbers("in band", "%", "inside"));
        }
    }
    let lines = report.splits.chunk_by(|a, b| (a.split, a.family) == (b.split, b.family));
    let rows = lines.map(|of| {
        let cells = of.iter().map(|s| s.cells + s.refused).max().unwrap_or(0);
        let mut row = vec![
            Cell::same(of[0].split.id()),
            Cell::same(of[0].family.id()),
            Cell::same(cells.to_string()),
        ];
        for model in Model::ALL {
            let score = of.iter().find(|s| s.model == model);
            row.push(score.map_or_else(|| Cell::same("–"), |s| error(s, cells)));
            if model == Model::Profile {
                let inside = score.and_then(|s| s.inside);
                row.push(Cell::number(inside.map(|i| 100.0 * i), |i| format!("{i:.0}")));
            }
        }
        row
    });
    Sheet { columns, rows: rows.collect() }
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

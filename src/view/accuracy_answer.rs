//! The error of the default answer, compared with other answers, by cell and by kind of machine.

use super::accuracy::{below, percent};
use super::page::Page;
use super::sheet::{Cell, Column, Sheet};
use crate::answer::accuracy_answer::{AnswerAccuracy, AnswerView, FiguresView};

/// One line per cell, then one per pool.
#[must_use]
pub fn sheet(report: &AnswerAccuracy) -> Sheet {
    let columns = vec![
        Column::words("nodes", "nodes"),
        Column::words("sizes", "sizes"),
        Column::words("basis", "basis"),
        Column::numbers("points", "", "points"),
        Column::numbers("clusters", "", "clusters"),
        Column::numbers("off", "%", "off"),
        Column::numbers("signed", "%", "signed"),
        Column::numbers("in band", "%", "inside"),
        Column::numbers("high/low", "", "high_over_low"),
        Column::numbers("one seen", "%", "seen"),
        Column::numbers("in band", "%", "seen_inside"),
        Column::numbers("high/low", "", "seen_high_over_low"),
    ];
    let row = |head: [&str; 3], error: &FiguresView, seen: Option<&FiguresView>| {
        let mut row: Vec<Cell> = head.into_iter().map(Cell::same).collect();
        row.push(Cell::same(error.points.to_string()));
        row.push(Cell::same(error.clusters.to_string()));
        row.push(Cell::same(both(error)));
        row.push(Cell::number(Some(100.0 * error.signed), |s| format!("{s:+.0}")));
        row.extend(band(Some(error)));
        row.push(seen.map_or_else(|| Cell::same("–"), |s| Cell::same(both(s))));
        row.extend(band(seen));
        row
    };
    let cells = report.cells.iter().map(|c| {
        let head = [c.nodes.words(), c.sizes.words(), c.basis.words()];
        row(head, &c.error, c.seen.as_ref())
    });
    let pools =
        report.pools.iter().map(|p| row([p.pool.words(), "", ""], &p.error, p.seen.as_ref()));
    Sheet { columns, rows: cells.chain(pools).collect() }
}

/// The default answer and others on the same points.
#[must_use]
pub fn beside(answers: &[AnswerView], of: &str) -> Sheet {
    let words = |id: &str| match id {
        "default" => "the default answer",
        "nccl" => "NCCL's own estimate",
        "pytorch" => "PyTorch's estimate",
        "pipelined" => "the ideal price, as NCCL pipelines",
        _ => "the ideal price",
    };
    Sheet::of(answers)
        .words(of, "answer", |a| Cell::named(words(a.answer), a.answer))
        .numbers("points", "", "points", |a| a.error.points)
        .numbers("off", "%", "off", |a| both(&a.error))
        .numbers("signed", "%", "signed", |a| {
            Cell::number(Some(100.0 * a.error.signed), |s| format!("{s:+.0}"))
        })
        .numbers("the default there", "%", "default_off", |a| both(&a.default))
        .sheet
}

fn band(of: Option<&FiguresView>) -> [Cell; 2] {
    let inside = of.and_then(|f| f.inside).map(|i| 100.0 * i);
    let width = of.and_then(|f| f.high_over_low);
    [Cell::number(inside, |i| format!("{i:.0}")), Cell::number(width, |w| format!("{w:.2}"))]
}

/// `8.1/42`.
fn both(of: &FiguresView) -> String {
    format!("{}/{}", percent(of.median), percent(of.p90))
}

/// Writes both tables with their explanation.
pub fn answers(report: &AnswerAccuracy) -> Page {
    let mut page = Page::default();
    page.table(beside(&report.answers, "answer"));
    page.gap();
    page.table(beside(&report.over_nodes, "over 2–16 nodes, 32 MiB or more"));
    page.gap();
    page.table(sheet(report));
    below(&mut page, &report.left_out, &NOTES);
    page
}

/// The meaning of the figures.
pub const NOTES: [&str; 3] = [
    "off: median/p90 of |expected/measured − 1| over points; while a cluster is predicted, its own \
     data are left out of constants, series and bands",
    "in band: the share of measured times between low and high; 80 is ideal",
    "one seen: the point of each series nearest 1 MiB is given as with --seen, and not counted",
];

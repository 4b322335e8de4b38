//! What differs between two releases of NCCL, as tables.

use super::columns::micro;
use super::page::Page;
use super::sheet::{Cell, Column, Sheet};
use super::{Look, counted};
use crate::answer::nccl_diff::{ChoiceDiff, NcclDiff, Taken};
use crate::base::quantity::Bytes;

/// What differs, for people.
#[must_use]
pub fn page(report: &NcclDiff, look: Look) -> Page {
    if look.whole {
        return choices(report).into();
    }
    let mut page = Page::default();
    page.line(format!(
        "NCCL {} and {} on {} = {} ranks, {}: {} of {} ranges of sizes differ",
        report.before,
        report.after,
        report.machine,
        report.ranks,
        counted(report.nodes, "node"),
        report.choices.len(),
        report.compared
    ));
    if !report.figures.is_empty() {
        page.gap();
        page.table(figures(report));
    }
    if !report.choices.is_empty() {
        page.gap();
        page.table(choices(report));
    }
    if !report.notes.is_empty() {
        page.gap();
    }
    page.entries("  note   ", &report.notes);
    page
}

fn figures(report: &NcclDiff) -> Sheet {
    let rows = report.figures.iter().map(|figure| {
        vec![
            Cell::same(figure.figure.clone()),
            Cell::same(figure.before.clone()),
            Cell::same(figure.after.clone()),
        ]
    });
    Sheet {
        columns: vec![
            Column::words("parameter", "figure"),
            Column::words(report.before, "before"),
            Column::words(report.after, "after"),
        ],
        rows: rows.collect(),
    }
}

fn choices(report: &NcclDiff) -> Sheet {
    let size = |bytes: u64| Cell::number(Some(bytes as f64), |_| Bytes(bytes).to_string());
    let row = |c: &ChoiceDiff| {
        let mut row = vec![Cell::same(c.collective.id()), size(c.from_bytes), size(c.to_bytes)];
        for taken in [&c.before, &c.after] {
            row.push(Cell::same(name(taken.as_ref())));
            let channels = taken.as_ref().map(|taken| span(taken.channels_from, taken.channels_to));
            row.push(Cell::same(channels.unwrap_or_default()));
            let threads = taken.as_ref().map(|taken| span(taken.threads_from, taken.threads_to));
            row.push(Cell::same(threads.unwrap_or_default()));
            row.push(micro(taken.as_ref().and_then(|taken| taken.time_from_s)));
            row.push(micro(taken.as_ref().and_then(|taken| taken.time_to_s)));
        }
        row.push(Cell::number(c.ratio, |ratio| format!("{ratio:.3}")));
        row
    };
    let mut columns = vec![
        Column::words("collective", "collective"),
        Column::numbers("from", "", "from_bytes"),
        Column::numbers("to", "", "to_bytes"),
    ];
    columns.extend([
        Column::words(report.before, "before"),
        Column::numbers("channels", "", "before_channels"),
        Column::numbers("threads", "", "before_threads"),
        Column::numbers("its time", "from, µs", "before_time_from_s"),
        Column::numbers("its time", "to, µs", "before_time_to_s"),
        Column::words(report.after, "after"),
        Column::numbers("channels", "", "after_channels"),
        Column::numbers("threads", "", "after_threads"),
        Column::numbers("its time", "from, µs", "after_time_from_s"),
        Column::numbers("its time", "to, µs", "after_time_to_s"),
        Column::numbers("x", "", "ratio"),
    ]);
    Sheet { columns, rows: report.choices.iter().map(row).collect() }
}

/// `Ring/LL`, or that it fails.
pub(super) fn name(taken: Option<&Taken>) -> String {
    taken.map_or("error".to_owned(), |taken| format!("{}/{}", taken.algorithm, taken.protocol))
}

/// One number, or the first and the last.
pub(super) fn span(from: u32, to: u32) -> String {
    if from == to { from.to_string() } else { format!("{from}..{to}") }
}

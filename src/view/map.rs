//! What runs by size and ranks, and the lowest ideal times, as a table.

use super::Look;
use super::page::Page;
use super::screen::switch_points;
use super::sheet::{Cell, Column, Sheet};
use super::sweep::{from_to, runs_by_size};
use super::table::{library, machine, name};
use crate::answer::{Fastest, LARGEST, Map, SMALLEST, SwitchPoint};
use crate::base::quantity::{Bytes, Volume};

/// What runs and what would be the fastest, for people.
pub fn map(report: &Map, look: Look) -> Page {
    if look.whole {
        return sheet(report).into();
    }
    let mut page = Page::default();
    let sizes = match (Bytes(report.from_bytes), Bytes(report.to_bytes)) {
        (SMALLEST, LARGEST) => "any size".to_owned(),
        (from, to) => format!("{from} to {to}"),
    };
    page.line(format!("{} of {sizes} over several numbers of ranks", name(&report.question)));
    machine(&mut page, &report.machine, report.question.nodes);
    let library = library(report.machine.library.as_deref());
    for row in &report.rows {
        page.gap();
        page.line(format!("{} ranks", row.ranks));
        if !row.switch_points.is_empty() {
            let first = format!("  {}", runs_by_size(&library));
            page.entry(first, switch_points(&row.switch_points));
        }
        let own = format!("of what {library} has");
        for (title, intervals) in [(own.as_str(), &row.fastest_shipped), ("of all", &row.fastest)] {
            page.line(format!("  lowest ideal time {title}"));
            for (i, interval) in intervals.iter().enumerate() {
                page.line(format!("    {} {}", from_to(intervals, i), interval.title));
            }
        }
    }
    page.gap();
    page.line("next: --plot or --svg FILE draws it; --all draws the lowest price of all");
    page
}

/// The same as a table: a row for each number of ranks and winner.
fn sheet(report: &Map) -> Sheet {
    let rows = report.rows.iter().flat_map(|row| {
        let intervals = [row.fastest_shipped.as_slice(), &row.fastest];
        winners(row.ranks, &row.switch_points, intervals)
    });
    Sheet { columns: columns(), rows: rows.collect() }
}

pub(super) fn columns() -> Vec<Column> {
    vec![
        Column::numbers("ranks", "", "ranks"),
        Column::words("of", "of"),
        Column::numbers("from", "", "from_bytes"),
        Column::numbers("to", "", "to_bytes"),
        Column::words("algorithm", "algorithm"),
    ]
}

/// What runs, then the fastest of the shipped algorithms and of all.
pub(super) fn winners(
    ranks: u32,
    runs: &[SwitchPoint],
    intervals: [&[Fastest]; 2],
) -> Vec<Vec<Cell>> {
    let shown = |v: f64| Volume(v).to_string();
    let runs: Vec<_> =
        runs.iter().map(|p| (p.from_bytes as f64, Cell::same(p.runs.clone()))).collect();
    let [shipped, all] = intervals.map(|intervals| {
        intervals.iter().map(|f| (f.from_bytes, Cell::named(f.title, f.id))).collect::<Vec<_>>()
    });
    let mut rows = Vec::new();
    for (kind, all) in [("runs", runs), ("shipped", shipped), ("all", all)] {
        for (i, (from, name)) in all.iter().enumerate() {
            rows.push(vec![
                Cell::same(ranks.to_string()),
                Cell::same(kind),
                Cell::number(Some(*from), shown),
                Cell::number(all.get(i + 1).map(|next| next.0), shown),
                name.clone(),
            ]);
        }
    }
    rows
}

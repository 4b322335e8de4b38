//! What runs over sizes and ranks, and the least ideal prices, as a table.

use std::io::{self, Write};

use super::Look;
use super::screen::switch_points;
use super::sheet::{Cell, Column, Sheet};
use super::sweep::{from_to, runs_by_size};
use super::table::{library, machine, name};
use crate::answer::Map;
use crate::base::quantity::Volume;

/// What runs and what would be the fastest, for people.
///
/// # Errors
/// The writer's.
pub fn map(out: &mut impl Write, report: &Map, look: Look) -> io::Result<()> {
    writeln!(out, "{} of any size over several numbers of ranks", name(&report.question))?;
    machine(out, &report.machine, report.question.nodes)?;
    let library = library(report.machine.library.as_deref());
    for row in &report.rows {
        writeln!(out, "\n{} ranks", row.ranks)?;
        if !row.switch_points.is_empty() {
            let first = format!("  {}", runs_by_size(&library));
            look.line(out, &first, &switch_points(&row.switch_points))?;
        }
        let own = format!("of what {library} has");
        for (title, flips) in [(own.as_str(), &row.fastest_shipped), ("of all", &row.fastest)] {
            writeln!(out, "  least ideal price {title}")?;
            for (i, flip) in flips.iter().enumerate() {
                writeln!(out, "    {} {}", from_to(flips, i), flip.title)?;
            }
        }
    }
    writeln!(out, "\nnext: --plot draws it, --svg FILE too; --all draws the least price of all")
}

/// The same as a table: a row for each number of ranks and winner.
#[must_use]
pub fn sheet(report: &Map) -> Sheet {
    let mut rows = Vec::new();
    let shown = |v: f64| Volume(v).to_string();
    for row in &report.rows {
        let mut add = |kind: &str, all: &[(f64, Cell)]| {
            for (i, (from, name)) in all.iter().enumerate() {
                rows.push(vec![
                    Cell::same(row.ranks.to_string()),
                    Cell::same(kind),
                    Cell::number(Some(*from), shown),
                    Cell::number(all.get(i + 1).map(|next| next.0), shown),
                    name.clone(),
                ]);
            }
        };
        let runs = row.switch_points.iter();
        let runs: Vec<_> =
            runs.map(|p| (p.from_bytes as f64, Cell::same(p.runs.clone()))).collect();
        add("runs", &runs);
        for (kind, flips) in [("shipped", &row.fastest_shipped), ("all", &row.fastest)] {
            let ideal: Vec<_> =
                flips.iter().map(|f| (f.from_bytes, Cell::named(f.title, f.id))).collect();
            add(kind, &ideal);
        }
    }
    Sheet {
        columns: vec![
            Column::numbers("ranks", "", "ranks"),
            Column::words("of", "of"),
            Column::numbers("from", "", "from_bytes"),
            Column::numbers("to", "", "to_bytes"),
            Column::words("algorithm", "algorithm"),
        ],
        rows,
    }
}

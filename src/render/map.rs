//! The winners over sizes and ranks as a table.

use std::io::{self, Write};

use super::sheet::{Cell, Column, Sheet};
use super::sweep::from_to;
use super::table::{library, machine, name};
use crate::quantity::Volume;
use crate::report::Map;

/// The winners for people.
///
/// # Errors
/// The writer's.
pub fn map(out: &mut impl Write, report: &Map) -> io::Result<()> {
    writeln!(out, "{} of any size over several numbers of ranks", name(&report.question))?;
    machine(out, &report.machine, report.question.nodes)?;
    let library = library(&report.machine);
    writeln!(out, "\ntake, from what {library} ships, and the fastest of all")?;
    for row in &report.rows {
        for (title, flips) in [("take", &row.take), ("fastest", &row.paper)] {
            for (i, flip) in flips.iter().enumerate() {
                let ranks =
                    if i == 0 { format!("{:>6} {title}", row.ranks) } else { String::new() };
                writeln!(out, "  {ranks:<14} {} {}", from_to(flips, i), flip.title)?;
            }
        }
    }
    writeln!(out, "\nnext   --plot draws it, --svg FILE too; --all draws the fastest of all")
}

/// The same as a table: a row for each number of ranks and winner.
#[must_use]
pub fn sheet(report: &Map) -> Sheet {
    let mut rows = Vec::new();
    for row in &report.rows {
        for (whose, flips) in [("take", &row.take), ("paper", &row.paper)] {
            for (i, flip) in flips.iter().enumerate() {
                let shown = |v: f64| Volume(v).to_string();
                rows.push(vec![
                    Cell::same(row.ranks.to_string()),
                    Cell::same(whose),
                    Cell::number(Some(flip.from_bytes), shown),
                    Cell::number(flips.get(i + 1).map(|next| next.from_bytes), shown),
                    Cell::named(flip.title, flip.id),
                ]);
            }
        }
    }
    Sheet {
        columns: vec![
            Column::numbers("ranks", "", "ranks"),
            Column::words("whose", "whose"),
            Column::numbers("from", "", "from_bytes"),
            Column::numbers("to", "", "to_bytes"),
            Column::words("algorithm", "algorithm"),
        ],
        rows,
    }
}

//! Crossovers of a pair, and the winners over a range.

use std::io::{self, Write};

use super::columns::micro;
use super::sheet::{Cell, Column, Sheet};
use crate::quantity::{Bytes, Seconds, Volume};
use crate::report::{Crossover, Intervals};

/// One crossover.
///
/// # Errors
/// The writer's.
pub fn pair(out: &mut impl Write, report: &Crossover) -> io::Result<()> {
    let Crossover { below, above, ranks, machine, .. } = report;
    match (report.size_bytes, report.time_s) {
        (Some(size), Some(time)) => {
            let (size, time) = (Volume(size), Seconds(time));
            let exact = size.0;
            writeln!(
                out,
                "{below} wins below {size} ({exact:.1} bytes), {above} above; both take {time} there"
            )?;
        }
        _ => writeln!(out, "none: {} is never slower", report.always.unwrap_or(below))?,
    }
    if let (Some(bytes), Some(error)) = (report.shortcut_bytes, report.shortcut_error) {
        writeln!(
            out,
            "the shortcut α·BW·N/(⌈lg N⌉ − 1) gives {}, {:+.2} %",
            Volume(bytes),
            error * 100.0
        )?;
    }
    writeln!(out, "{ranks} ranks, machine {machine}")
}

/// The winners over a range, for people.
///
/// # Errors
/// The writer's.
pub fn intervals(out: &mut impl Write, report: &Intervals) -> io::Result<()> {
    let at = match (report.ranks, report.size_bytes) {
        (Some(n), _) => format!("{n} ranks"),
        (_, Some(size)) => Bytes(size).to_string(),
        _ => String::new(),
    };
    writeln!(
        out,
        "{} over {}, {at}, machine {}\n",
        report.collective, report.over, report.machine
    )?;
    if report.intervals.is_empty() {
        return writeln!(out, "nothing applies");
    }
    sheet(report).text(out)
}

/// The same as a table.
#[must_use]
pub fn sheet(report: &Intervals) -> Sheet {
    let sizes = report.over == "size";
    let (from, to) = if sizes { ("from_bytes", "to_bytes") } else { ("from_ranks", "to_ranks") };
    let shown = |value: f64| if sizes { Volume(value).to_string() } else { format!("{value:.0}") };
    let rows = report.intervals.iter().map(|i| {
        vec![
            Cell::named(i.title, i.id),
            Cell::number(Some(i.from), shown),
            Cell::number(i.to, shown),
            micro(Some(i.time_s)),
        ]
    });
    Sheet {
        columns: vec![
            Column::words("algorithm", "algorithm"),
            Column::numbers("from", "", from),
            Column::numbers("to", "", to),
            Column::numbers("time there", "µs", "time_s"),
        ],
        rows: rows.collect(),
    }
}

//! Crossovers of a pair, and what runs and wins over a range.

use std::io::{self, Write};

use super::sheet::{Cell, Column, Sheet};
use super::table::library;
use crate::answer::{Crossover, Intervals};
use crate::base::collective::Collective;
use crate::base::quantity::{Bytes, Seconds, Volume};

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
                "{below} wins below {size} ({exact:.1} bytes), {above} above; the ideal price of both \
                 is {time} there"
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

/// What runs over a range, and the least ideal prices, for people.
///
/// # Errors
/// The writer's.
pub fn intervals(out: &mut impl Write, report: &Intervals) -> io::Result<()> {
    let at = match (report.ranks, report.size_bytes) {
        (Some(n), _) => format!("{n} ranks"),
        (_, Some(size)) => Bytes(size).to_string(),
        _ => String::new(),
    };
    let collective: Option<Collective> = report.collective.parse().ok();
    let name = collective.map_or(report.collective, Collective::name);
    writeln!(out, "{name} over {}, {at}, machine {}\n", report.over, report.machine)?;
    if !report.runs.is_empty() {
        let library = library(report.library.as_deref());
        writeln!(out, "what {library} runs, by its own rules")?;
        running(report).text(out)?;
        writeln!(out)?;
    }
    if report.intervals.is_empty() {
        return writeln!(out, "no ideal price: nothing applies");
    }
    writeln!(out, "least ideal price")?;
    cheapest(report).text(out)
}

fn running(report: &Intervals) -> Sheet {
    let rows = report.runs.iter().map(|r| {
        let text = Cell::same(r.runs.clone());
        vec![text, end(report, Some(r.from)), end(report, r.to), scaled(r.expected_s)]
    });
    table(report, ("runs", "runs"), ("expected there", "expected_s"), rows.collect())
}

fn cheapest(report: &Intervals) -> Sheet {
    let rows = report.intervals.iter().map(|i| {
        let name = Cell::named(i.title, i.id);
        vec![name, end(report, Some(i.from)), end(report, i.to), scaled(i.time_s)]
    });
    table(report, ("algorithm", "algorithm"), ("ideal there", "time_s"), rows.collect())
}

fn table(
    report: &Intervals,
    (name, key): (&str, &str),
    (time, time_key): (&str, &str),
    rows: Vec<Vec<Cell>>,
) -> Sheet {
    let (from, to) = match report.over {
        "size" => ("from_bytes", "to_bytes"),
        _ => ("from_ranks", "to_ranks"),
    };
    let columns = vec![
        Column::words(name, key),
        Column::numbers("from", "", from),
        Column::numbers("to", "", to),
        Column::numbers(time, "", time_key),
    ];
    Sheet { columns, rows }
}

fn end(report: &Intervals, at: Option<f64>) -> Cell {
    let sizes = report.over == "size";
    Cell::number(at, |v| if sizes { Volume(v).to_string() } else { format!("{v:.0}") })
}

fn scaled(time: f64) -> Cell {
    Cell::number(Some(time), |t| Seconds(t).to_string())
}

/// Both as one table: what is expected of what runs, then what is ideal.
#[must_use]
pub fn sheet(report: &Intervals) -> Sheet {
    let parts = [("expected", running(report)), ("ideal", cheapest(report))];
    let rows = parts.into_iter().flat_map(|(kind, part)| {
        part.rows.into_iter().map(move |mut row| {
            row.insert(0, Cell::same(kind));
            row
        })
    });
    let mut one = table(report, ("algorithm", "algorithm"), ("time there", "time_s"), Vec::new());
    one.columns.insert(0, Column::words("kind", "kind"));
    Sheet { rows: rows.collect(), ..one }
}

//! The columns that the main table can have.

use super::sheet::{Cell, Column, Raw, Sheet};
use crate::answer::{Cost, Promise, Row};
use crate::base::error::{Error, Result, did_you_mean};

/// A column: its name, its heading, its content.
struct Kind {
    name: &'static str,
    heading: &'static str,
    unit: &'static str,
    key: &'static str,
    cell: fn(&Row) -> Cell,
}

const fn kind(
    name: &'static str,
    heading: &'static str,
    unit: &'static str,
    key: &'static str,
    cell: fn(&Row) -> Cell,
) -> Kind {
    Kind { name, heading, unit, key, cell }
}

/// Every column, in the order in which they are listed.
static KINDS: &[Kind] = &[
    kind("steps", "steps", "", "n_alpha", |r| {
        Cell::number(r.n_alpha, |n| {
            if n.fract() == 0.0 { format!("{n:.0}") } else { format!("{n:.1}") }
        })
    }),
    kind("volume", "volume", "of M", "n_beta", |r| Cell::number(r.n_beta, |n| format!("{n:.3}"))),
    kind("sent", "sent", "MiB", "bytes_sent", |r| mebi(r.bytes_sent)),
    kind("nic", "NIC MiB", "per port", "nic_port_bytes", |r| {
        let outer = r.tiers.iter().skip(1).map(|t| t.port_bytes);
        mebi(outer.reduce(f64::max))
    }),
    kind("latency", "latency", "µs", "latency_s", |r| micro(r.latency_s)),
    kind("bandwidth", "bandwidth", "µs", "bandwidth_s", |r| micro(r.bandwidth_s)),
    kind("compute", "compute", "µs", "compute_s", |r| micro(r.compute_s)),
    kind("ideal", "ideal", "µs", "time_s", |r| micro(r.time_s)),
    kind("simulated", "simulated", "µs", "simulated_s", |r| micro(r.simulated_s)),
    kind("difference", "differs", "%", "simulated_difference", |r| {
        let over = r.simulated_s.zip(r.time_s).filter(|(_, form)| *form > 0.0);
        Cell::number(over.map(|(simulated, form)| simulated / form - 1.0), |d| {
            // A difference in the last bit counts as 0.0, which has no sign.
            let percent = 100.0 * d;
            if percent.abs() < 0.05 { "0.0".to_owned() } else { format!("{percent:+.1}") }
        })
    }),
    kind("bound", "× bound", "", "bound_ratio", |r| {
        Cell::number(r.bound_ratio, |x| format!("{x:.1}"))
    }),
    kind("algbw", "algbw", "GB/s", "algbw_Bps", |r| giga(r.algbw)),
    kind("busbw", "busbw", "GB/s", "busbw_Bps", |r| giga(r.busbw)),
    kind("segments", "P", "", "segments", |r| {
        Cell::number(r.segments.map(f64::from), |p| format!("{p:.0}"))
    }),
    kind("id", "id", "", "id", |r| Cell::same(r.id)),
    kind("guarantee", "the form is", "", "guarantee", |r| {
        Cell::same(r.guarantee.map_or("", Promise::name))
    }),
    kind("ships", "shipped as", "", "ships", |r| Cell::same(r.ships.join("; "))),
];

/// The default columns of the main table; `nic` only over several tiers.
const USUAL: &[&str] = &["steps", "nic", "latency", "bandwidth", "ideal", "bound", "busbw"];

/// The names of all columns.
pub fn names() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|k| k.name)
}

/// The columns that `asked` names, separated by commas.
///
/// # Errors
/// An unknown name, with the nearest known one.
pub fn parse(asked: &str) -> Result<Vec<&'static str>> {
    let one = |name: &str| {
        names().find(|n| *n == name).ok_or_else(|| {
            let known = || format!("known columns: {}", names().collect::<Vec<_>>().join(", "));
            Error::input(format!("`{name}` is not a column")).help(did_you_mean(
                name,
                names(),
                known,
            ))
        })
    };
    asked.split(',').map(|name| one(name.trim())).collect()
}

/// The main table: `titles`, then the requested columns of `rows`.
pub(super) fn sheet(
    report: &Cost,
    rows: &[&Row],
    titles: Vec<Cell>,
    asked: Option<&[&str]>,
) -> Sheet {
    let tiered = report.question.nodes > 1;
    let priced = rows.iter().any(|r| r.compute_s.is_some_and(|c| c > 0.0));
    let mut names: Vec<&str> = asked.unwrap_or(USUAL).to_vec();
    if asked.is_none() {
        names.retain(|n| *n != "nic" || tiered);
        if priced {
            names.insert(names.len() - 3, "compute");
        }
        if rows.iter().any(|r| r.simulated_s.is_some()) {
            let after = names.len() - 2;
            names.splice(after..after, ["simulated", "difference"]);
        }
    }
    let kinds = names.iter().filter_map(|name| KINDS.iter().find(|k| k.name == *name));
    let kinds: Vec<&Kind> = kinds.collect();
    let title = Column::words("  algorithm", "algorithm");
    let column = |k: &&Kind| Column {
        words: matches!(k.name, "id" | "guarantee" | "ships"),
        ..Column::numbers(k.heading, k.unit, k.key)
    };
    let columns = std::iter::once(title).chain(kinds.iter().map(column)).collect();
    let cells = |(row, title): (&&Row, Cell)| {
        std::iter::once(title).chain(kinds.iter().map(|k| (k.cell)(row))).collect()
    };
    Sheet { columns, rows: rows.iter().zip(titles).map(cells).collect() }
}

/// Sorts rows by a column in ascending order; text alphabetically.
///
/// # Errors
/// An unknown column.
pub(super) fn sort(rows: &mut [&Row], by: &str) -> Result<()> {
    let name = parse(by)?;
    let Some(kind) = name.first().and_then(|n| KINDS.iter().find(|k| k.name == *n)) else {
        return Ok(());
    };
    rows.sort_by(|a, b| {
        let (a, b) = ((kind.cell)(a), (kind.cell)(b));
        match (&a.raw, &b.raw) {
            (Raw::Number(a), Raw::Number(b)) => a.total_cmp(b),
            _ => a.text.cmp(&b.text),
        }
    });
    Ok(())
}

pub(super) fn micro(seconds: Option<f64>) -> Cell {
    Cell::number(seconds, |s| format!("{:.1}", s * 1e6))
}

pub(super) fn giga(rate: Option<f64>) -> Cell {
    Cell::number(rate, |rate| super::giga(rate, 1))
}

fn mebi(bytes: Option<f64>) -> Cell {
    Cell::number(bytes, |b| format!("{:.1}", b / 1_048_576.0))
}

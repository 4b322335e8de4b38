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

/// Every column, in the order in which they are listed.
static KINDS: &[Kind] = &[
    Kind {
        name: "steps",
        heading: "steps",
        unit: "",
        key: "n_alpha",
        cell: |r| {
            Cell::number(r.n_alpha, |n| {
                if n.fract() == 0.0 { format!("{n:.0}") } else { format!("{n:.1}") }
            })
        },
    },
    Kind {
        name: "volume",
        heading: "volume",
        unit: "of M",
        key: "n_beta",
        cell: |r| Cell::number(r.n_beta, |n| format!("{n:.3}")),
    },
    Kind {
        name: "sent",
        heading: "sent",
        unit: "MiB",
        key: "bytes_sent",
        cell: |r| mebi(r.bytes_sent),
    },
    Kind {
        name: "nic",
        heading: "NIC MiB",
        unit: "per port",
        key: "nic_port_bytes",
        cell: |r| {
            let outer = r.tiers.iter().skip(1).map(|t| t.port_bytes);
            mebi(outer.reduce(f64::max))
        },
    },
    Kind {
        name: "latency",
        heading: "latency",
        unit: "µs",
        key: "latency_s",
        cell: |r| micro(r.latency_s),
    },
    Kind {
        name: "bandwidth",
        heading: "bandwidth",
        unit: "µs",
        key: "bandwidth_s",
        cell: |r| micro(r.bandwidth_s),
    },
    Kind {
        name: "compute",
        heading: "compute",
        unit: "µs",
        key: "compute_s",
        cell: |r| micro(r.compute_s),
    },
    Kind { name: "ideal", heading: "ideal", unit: "µs", key: "time_s", cell: |r| micro(r.time_s) },
    Kind {
        name: "simulated",
        heading: "simulated",
        unit: "µs",
        key: "simulated_s",
        cell: |r| micro(r.simulated_s),
    },
    Kind {
        name: "difference",
        heading: "differs",
        unit: "%",
        key: "simulated_difference",
        cell: |r| {
            let over = r.simulated_s.zip(r.time_s).filter(|(_, form)| *form > 0.0);
            Cell::number(over.map(|(simulated, form)| simulated / form - 1.0), |d| {
                // A difference in the last bit counts as 0.0, which has no sign.
                let percent = 100.0 * d;
                if percent.abs() < 0.05 { "0.0".to_owned() } else { format!("{percent:+.1}") }
            })
        },
    },
    Kind {
        name: "bound",
        heading: "× bound",
        unit: "",
        key: "bound_ratio",
        cell: |r| Cell::number(r.bound_ratio, |x| format!("{x:.1}")),
    },
    Kind {
        name: "algbw",
        heading: "algbw",
        unit: "GB/s",
        key: "algbw_Bps",
        cell: |r| giga(r.algbw),
    },
    Kind {
        name: "busbw",
        heading: "busbw",
        unit: "GB/s",
        key: "busbw_Bps",
        cell: |r| giga(r.busbw),
    },
    Kind {
        name: "segments",
        heading: "P",
        unit: "",
        key: "segments",
        cell: |r| Cell::number(r.segments.map(f64::from), |p| format!("{p:.0}")),
    },
    Kind { name: "id", heading: "id", unit: "", key: "id", cell: |r| Cell::same(r.id) },
    Kind {
        name: "guarantee",
        heading: "the form is",
        unit: "",
        key: "guarantee",
        cell: |r| Cell::same(r.guarantee.map_or("", Promise::name)),
    },
    Kind {
        name: "ships",
        heading: "shipped as",
        unit: "",
        key: "ships",
        cell: |r| Cell::same(r.ships.join("; ")),
    },
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
    Cell::number(rate, |b| format!("{:.1}", b / 1e9))
}

fn mebi(bytes: Option<f64>) -> Cell {
    Cell::number(bytes, |b| format!("{:.1}", b / 1_048_576.0))
}

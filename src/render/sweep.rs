//! Sweeps and bands as tables, and a sweep over sizes in nccl-tests' layout.

use std::io::{self, Write};

use super::Look;
use super::columns::{giga, micro};
use super::sheet::{Cell, Column, Raw, Sheet};
use super::table::{heading, library, machine, name};
use crate::quantity::{Bytes, Volume};
use crate::report::{Bands, Flip, Pick, Point, Sweep};

/// A sweep for people: the range, what one takes, what would be fastest.
///
/// # Errors
/// The writer's.
pub fn sweep(out: &mut impl Write, report: &Sweep, look: Look) -> io::Result<()> {
    let q = &report.question;
    let name = name(q);
    match report.over.as_str() {
        "size" => writeln!(out, "{name} over {} ranks", q.ranks)?,
        "ranks" => writeln!(out, "{name} of {}", Bytes(q.size_bytes))?,
        _ => heading(out, q)?,
    }
    machine(out, &report.machine, q.nodes)?;
    writeln!(out)?;
    let mut sheet = sheet(report);
    let id = |pick: &Option<Pick>| pick.as_ref().map(|p| p.id);
    if report.points.iter().all(|p| id(&p.take) == id(&p.paper)) {
        sheet.drop_column("paper");
        sheet.drop_column("paper_time_s");
    }
    sheet.narrow(look.width, SPARE);
    sheet.text(out)?;
    if !report.weights.is_empty() {
        writeln!(out, "\n1 % more of a figure changes the time of what one takes by")?;
        for weight in &report.weights {
            let slope = match weight.figure.as_str() {
                "gamma" => format!("{:+.3} µs per ps/B", weight.derivative * 1e-6),
                name if name.ends_with("bw") => {
                    format!("{:+.3} µs per GB/s", weight.derivative * 1e15)
                }
                _ => format!("{:+.3} µs per µs", weight.derivative),
            };
            writeln!(
                out,
                "  {:<16} {:>12}  {:+.3} %   ∂T/∂ {slope}",
                weight.figure, weight.value, weight.elasticity
            )?;
        }
    }
    Ok(())
}

/// Columns that a narrow terminal can do without, the first to go first.
const SPARE: &[&str] = &["bound_s", "paper_time_s", "paper", "take_algbw_Bps"];

/// The points of a sweep as a table.
#[must_use]
pub fn sheet(report: &Sweep) -> Sheet {
    let (name, key) = match report.over.as_str() {
        "size" => ("size", "size_bytes"),
        "ranks" => ("ranks", "ranks"),
        other => (other, other),
    };
    let columns = vec![
        Column::words(name, key),
        Column::words("take", "take"),
        Column::numbers("time", "µs", "take_time_s"),
        Column::numbers("algbw", "GB/s", "take_algbw_Bps"),
        Column::numbers("busbw", "GB/s", "take_busbw_Bps"),
        Column::words("fastest of all", "paper"),
        Column::numbers("time", "µs", "paper_time_s"),
        Column::numbers("bound", "µs", "bound_s"),
    ];
    let rows = report.points.iter().map(|p| row(report, p)).collect();
    Sheet { columns, rows }
}

fn row(report: &Sweep, point: &Point) -> Vec<Cell> {
    let at = match (report.over.as_str(), point.value) {
        ("size", _) => {
            let size = point.size_bytes;
            Cell { text: Bytes(size).to_string(), raw: Raw::Text(size.to_string()) }
        }
        ("ranks", _) => Cell::same(point.ranks.to_string()),
        (_, value) => Cell::number(value, |_| point.shown.clone().unwrap_or_default()),
    };
    let name = |pick: &Option<Pick>| match pick {
        Some(pick) => Cell::named(pick.title, pick.id),
        None => Cell::number(None, |_| String::new()),
    };
    let time = |pick: &Option<Pick>| micro(pick.as_ref().map(|p| p.time_s));
    vec![
        at,
        name(&point.take),
        time(&point.take),
        giga(point.take.as_ref().map(|p| p.algbw)),
        giga(point.take.as_ref().map(|p| p.busbw)),
        name(&point.paper),
        time(&point.paper),
        micro(Some(point.bound_s)),
    ]
}

/// The winners over all sizes, for people.
///
/// # Errors
/// The writer's.
pub fn bands(out: &mut impl Write, report: &Bands) -> io::Result<()> {
    // Without a size the heading speaks of every size.
    let name = name(&report.question);
    writeln!(out, "{name} of any size over {} ranks", report.question.ranks)?;
    machine(out, &report.machine, report.question.nodes)?;
    let library = library(&report.machine);
    for (title, flips) in [
        (format!("take, from what {library} ships"), &report.take),
        ("fastest of all".to_owned(), &report.paper),
    ] {
        writeln!(out, "\n{title}")?;
        for (i, flip) in flips.iter().enumerate() {
            writeln!(out, "  {} {}", from_to(flips, i), flip.title)?;
        }
        if flips.is_empty() {
            writeln!(out, "  nothing")?;
        }
    }
    writeln!(out, "\nnext   give --size for the table of one size, -b and -e for a sweep")
}

/// From where to where one of the winners is the best, as two columns.
pub(super) fn from_to(flips: &[Flip], i: usize) -> String {
    format!("{:<16} {:<14}", from(&flips[i], i), until(flips, i))
}

fn from(flip: &Flip, i: usize) -> String {
    if i == 0 { "from 0".to_owned() } else { format!("from {}", Volume(flip.from_bytes)) }
}

fn until(flips: &[Flip], i: usize) -> String {
    flips.get(i + 1).map_or("up".to_owned(), |next| format!("to {}", Volume(next.from_bytes)))
}

/// A sweep over sizes as nccl-tests prints its results; the header says that it is predicted.
///
/// Counts are of float elements, in-place equals out-of-place, and nothing is wrong.
///
/// # Errors
/// The writer's.
pub fn nccl_tests(out: &mut impl Write, report: &Sweep) -> io::Result<()> {
    let q = &report.question;
    writeln!(
        out,
        "# predicted by collcost, not measured: {} over {} ranks, machine {}",
        q.collective, q.ranks, report.machine.name
    )?;
    writeln!(out, "#")?;
    writeln!(out, "#{:>60}   {:^33}   {:^33}", "", "out-of-place", "in-place")?;
    let half = format!("{:>7} {:>6} {:>6} {:>6}", "time", "algbw", "busbw", "#wrong");
    writeln!(
        out,
        "#{:>11} {:>12} {:>8} {:>6} {:>6}  {half}  {half}",
        "size", "count", "type", "redop", "root"
    )?;
    let units = format!("{:>7} {:>6} {:>6} {:>6}", "(us)", "(GB/s)", "(GB/s)", "");
    writeln!(
        out,
        "#{:>11} {:>12} {:>8} {:>6} {:>6}  {units}  {units}",
        "(B)", "(elements)", "", "", ""
    )?;
    let redop = if matches!(q.collective, "allreduce" | "reduce" | "reducescatter") {
        "sum"
    } else {
        "none"
    };
    let root = if matches!(q.collective, "broadcast" | "reduce" | "scatter" | "gather") {
        "0"
    } else {
        "-1"
    };
    // nccl-tests counts what one rank contributes, or keeps, or has for one peer.
    let parts =
        matches!(q.collective, "allgather" | "reducescatter" | "alltoall" | "scatter" | "gather");
    let per_rank = if parts { u64::from(q.ranks.max(1)) } else { 1 };
    let mut sum = 0.0;
    for point in &report.points {
        let Some(pick) = &point.take else { continue };
        let cells = format!(
            "{:>7.2} {:>6.2} {:>6.2} {:>6}",
            pick.time_s * 1e6,
            pick.algbw / 1e9,
            pick.busbw / 1e9,
            0
        );
        writeln!(
            out,
            "{:>12} {:>12} {:>8} {:>6} {:>6}  {cells}  {cells}",
            point.size_bytes,
            point.size_bytes / 4 / per_rank,
            "float",
            redop,
            root
        )?;
        sum += pick.busbw / 1e9;
    }
    writeln!(out, "# Out of bounds values : 0 OK")?;
    writeln!(out, "# Avg bus bandwidth    : {:.4}", sum / report.points.len().max(1) as f64)
}

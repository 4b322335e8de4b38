//! Sweeps and bands as tables, and a sweep over sizes in nccl-tests' layout.

use std::io::{self, Write};

use super::Look;
use super::columns::giga;
use super::map::{columns, winners};
use super::page::Page;
use super::screen::switch_points;
use super::sheet::{Cell, Raw, Sheet};
use super::table::{heading, library, machine, name};
use crate::answer::{Bands, Fastest, Point, Sweep};
use crate::base::quantity::{Bytes, Volume};

/// A sweep for people: the range, the expected times, and the lowest ideal times.
pub fn sweep(report: &Sweep, look: Look) -> Page {
    if look.whole {
        return sheet(report).into();
    }
    let mut page = Page::default();
    let q = &report.question;
    let name = name(q);
    match report.over.as_str() {
        "size" => page.line(format!("{name} over {} ranks", q.ranks)),
        "ranks" => page.line(format!("{name} of {}", Bytes(q.size_bytes))),
        _ => heading(&mut page, q),
    }
    machine(&mut page, &report.machine, q.nodes);
    page.gap();
    let mut sheet = sheet(report);
    let same = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b;
    let told = |p: &Point| p.fastest.as_ref().is_some_and(|f| same(f.time_s, p.expect.time_s));
    if report.points.iter().all(told) {
        sheet.drop_column("fastest");
        sheet.drop_column("fastest_time_s");
    }
    if report.points.iter().all(|p| p.expect.high_s <= 1.005 * p.expect.low_s) {
        sheet.drop_column("low_s");
        sheet.drop_column("high_s");
    }
    page.table_within(look.width, sheet, SPARE);
    page.gap();
    let points = &report.points;
    for (i, point) in points.iter().enumerate() {
        if i > 0 && points[i - 1].known_from == point.known_from {
            continue;
        }
        let text = match points.iter().all(|p| p.known_from == point.known_from) {
            true => point.known_from.clone(),
            false => format!("{} up: {}", place(report, point).text, point.known_from),
        };
        page.entry("known from  ", text);
    }
    if !report.weights.is_empty() {
        let of = report.weighed.unwrap_or_default();
        page.gap();
        page.line(format!("increasing a parameter by 1 % changes the ideal price of {of} by"));
        for weight in &report.weights {
            let slope = match weight.figure.as_str() {
                "gamma" => format!("{:+.3} µs per ps/B", weight.derivative * 1e-6),
                name if name.ends_with("bw") => {
                    format!("{:+.3} µs per GB/s", weight.derivative * 1e15)
                }
                _ => format!("{:+.3} µs per µs", weight.derivative),
            };
            page.line(format!(
                "  {:<16} {:>12}  {:+.3} %   ∂T/∂ {slope}",
                weight.figure, weight.value, weight.elasticity
            ));
        }
    }
    page
}

/// Columns that a narrow terminal leaves out, in this order.
const SPARE: &[&str] = &["bound_s", "fastest fastest_time_s", "busbw_Bps", "low_s high_s"];

/// The points of a sweep as a table.
fn sheet(report: &Sweep) -> Sheet {
    let (name, key) = match report.over.as_str() {
        "size" => ("size", "size_bytes"),
        "ranks" => ("ranks", "ranks"),
        other => (other, other),
    };
    Sheet::of(&report.points)
        .words(name, key, |p| place(report, p))
        .words("runs", "runs", |p| p.expect.runs.name())
        .numbers("expected", "", "expected_s", |p| Cell::seconds(p.expect.time_s))
        .numbers("8 of 10", "from", "low_s", |p| Cell::seconds(p.expect.low_s))
        .numbers("runs", "to", "high_s", |p| Cell::seconds(p.expect.high_s))
        .numbers("busbw", "GB/s", "busbw_Bps", |p| giga(p.expect.busbw))
        .words("lowest ideal time", "fastest", |p| match &p.fastest {
            Some(pick) => Cell::named(pick.title, pick.id),
            None => Cell::number(None, |_| String::new()),
        })
        .numbers("ideal", "", "fastest_time_s", |p| {
            Cell::seconds(p.fastest.as_ref().map(|pick| pick.time_s))
        })
        .numbers("bound", "", "bound_s", |p| Cell::seconds(p.bound_s))
        .sheet
}

/// The size, the ranks or the parameter's value.
fn place(report: &Sweep, point: &Point) -> Cell {
    match (report.over.as_str(), point.value) {
        ("size", _) => {
            let size = point.size_bytes;
            Cell { text: Bytes(size).to_string(), raw: Raw::Text(size.to_string()) }
        }
        ("ranks", _) => Cell::same(point.ranks.to_string()),
        (_, value) => Cell::number(value, |_| point.shown.clone().unwrap_or_default()),
    }
}

/// What runs at each size, and what would be the fastest, for people.
#[must_use]
pub fn bands(report: &Bands, look: Look) -> Page {
    if look.whole {
        let intervals = [report.fastest_shipped.as_slice(), &report.fastest];
        let rows = winners(report.question.ranks, &report.switch_points, intervals);
        return Sheet { columns: columns(), rows }.into();
    }
    let mut page = Page::default();
    // Without a size, the heading is about all sizes.
    let name = name(&report.question);
    page.line(format!("{name} of any size over {} ranks", report.question.ranks));
    machine(&mut page, &report.machine, report.question.nodes);
    let library = library(report.machine.library.as_deref());
    page.gap();
    match report.switch_points.is_empty() {
        false => page.entry(runs_by_size(&library), switch_points(&report.switch_points)),
        true => page.line(format!("what {library} runs by size is not known here")),
    }
    for (title, intervals) in [
        (format!("lowest ideal time of what {library} has"), &report.fastest_shipped),
        ("lowest ideal time of all".to_owned(), &report.fastest),
    ] {
        page.gap();
        page.line(title);
        for (i, interval) in intervals.iter().enumerate() {
            page.line(format!("  {} {}", from_to(intervals, i), interval.title));
        }
        if intervals.is_empty() {
            page.line("  nothing");
        }
    }
    page.gap();
    page.line("next: --size for the expected time of one size, -b and -e for a sweep");
    page
}

/// `NCCL runs `.
pub(super) fn runs_by_size(library: &str) -> String {
    format!("{library} runs  ")
}

/// The range in which a winner is the best, as two columns.
pub(super) fn from_to(intervals: &[Fastest], i: usize) -> String {
    format!("{:<16} {:<14}", from(&intervals[i], i), until(intervals, i))
}

fn from(interval: &Fastest, i: usize) -> String {
    if i == 0 { "from 0".to_owned() } else { format!("from {}", Volume(interval.from_bytes)) }
}

fn until(intervals: &[Fastest], i: usize) -> String {
    intervals.get(i + 1).map_or("up".to_owned(), |next| format!("to {}", Volume(next.from_bytes)))
}

/// A sweep over sizes as nccl-tests prints its results; the header says that it is predicted.
///
/// Counts are in float elements, in-place equals out-of-place, and no result is wrong.
///
/// # Errors
/// The writer's.
pub fn nccl_tests(out: &mut impl Write, report: &Sweep) -> io::Result<()> {
    let q = &report.question;
    writeln!(
        out,
        "# predicted by collcost, not measured: {} over {} ranks, machine {}",
        q.collective.id(),
        q.ranks,
        report.machine.name
    )?;
    let mut known: Vec<&str> = report.points.iter().map(|p| p.known_from.as_str()).collect();
    known.dedup();
    for from in known {
        writeln!(out, "# known from {from}")?;
    }
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
    let redop = if q.collective.reduces() { "sum" } else { "none" };
    let root = if q.collective.has_root() { "0" } else { "-1" };
    // nccl-tests counts the data that one rank contributes, or keeps, or has for one peer.
    let per_rank = if q.collective.has_blocks() { u64::from(q.ranks.max(1)) } else { 1 };
    let mut sum = 0.0;
    for point in &report.points {
        let expect = &point.expect;
        let algbw = if expect.time_s > 0.0 { point.size_bytes as f64 / expect.time_s } else { 0.0 };
        let busbw = expect.busbw.unwrap_or_default();
        let cells = format!(
            "{:>7.2} {:>6.2} {:>6.2} {:>6}",
            expect.time_s * 1e6,
            algbw / 1e9,
            busbw / 1e9,
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
        sum += busbw / 1e9;
    }
    writeln!(out, "# Out of bounds values : 0 OK")?;
    writeln!(out, "# Avg bus bandwidth    : {:.4}", sum / report.points.len().max(1) as f64)
}

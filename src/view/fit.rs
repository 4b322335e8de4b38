//! A fit for people.

use super::counted;
use super::page::Page;
use super::sheet::{Cell, Column, Sheet};
use crate::answer::fit::{ErrorView, Fit, Interval, RegimesView, Residual, SlopeView};
use crate::base::quantity::{Bytes, Seconds, SecondsPerByte, percent};
use crate::measure::fit::Verdict;

fn interval(i: Interval, text: impl Fn(f64) -> String) -> String {
    format!("{}  ({} to {})", text(i.value), text(i.low), text(i.high))
}

/// Five digits, whatever the rate; a fit that finds none knows at most its lower end.
fn rate(bytes: f64) -> String {
    if !bytes.is_finite() {
        return "unknown".to_owned();
    }
    let (scaled, unit) = if bytes < 1e8 { (bytes / 1e6, "MB/s") } else { (bytes / 1e9, "GB/s") };
    let decimals = if scaled > 0.0 { (4 - scaled.log10().floor() as i32).clamp(0, 9) } else { 0 };
    format!("{scaled:.*} {unit}", decimals.unsigned_abs() as usize)
}

fn signed(x: f64) -> String {
    format!("{:+.1} %", 100.0 * x)
}

/// Writes the report.
pub fn fit(report: &Fit) -> Page {
    let mut page = Page::default();
    below(&mut page, report);
    page
}

/// The fields of a fit for programs.
const FIGURES: &[&str] = &[
    "transport",
    "wait",
    "statistic",
    "runs",
    "points",
    "fitted_points",
    "alpha_s.value",
    "alpha_s.low",
    "alpha_s.high",
    "bandwidth_Bps.value",
    "bandwidth_Bps.low",
    "bandwidth_Bps.high",
    "gamma_s_per_B.value",
    "gamma_s_per_B.low",
    "gamma_s_per_B.high",
    "quality",
];

/// The fields of a point for programs.
const POINT: &[&str] = &[
    "op",
    "ranks",
    "size_bytes",
    "runs",
    "time_s",
    "predicted_s",
    "error",
    "held_out_algorithm_error",
    "held_out_size_error",
];

/// The same below a calibration; programs get the points if they are requested.
pub(super) fn below(page: &mut Page, report: &Fit) {
    match report.residuals.is_empty() {
        true => page.record(report, "", FIGURES),
        false => page.record(report, "residuals", POINT),
    }
    if let Some(inside) = &report.inside {
        let ports = inside.ports.map_or(String::new(), |ports| {
            format!(", which share {} towards other groups", counted(ports as usize, "port"))
        });
        page.entry("inside     ", format!("links inside groups of {} ranks{ports}", inside.ranks));
        tier(page, &inside.fit);
        page.gap();
        page.entry("between    ", "links between one rank of each group");
        if let Some(ErrorView { median, p90, count }) = inside.whole {
            let (median, p90) = (percent(median), percent(p90));
            let text = format!(
                "{count} collectives of all ranks, which no fit has seen: expected within {median} in the \
                 median, {p90} in nine of ten"
            );
            page.entry("all ranks  ", text);
        }
    }
    tier(page, report);
    if let Some(file) = &report.written {
        page.entry("written    ", file);
    }
}

/// The links of one tier.
fn tier(page: &mut Page, report: &Fit) {
    let way = report.transport.as_deref().unwrap_or("samples");
    let wait = report.wait.map_or(String::new(), |w| format!(", {} waiting", w.id()));
    let head = format!(
        "{way}{wait}: {} runs, {} points, {} in the joint fit; {} time, 95 % intervals",
        report.runs,
        report.points,
        report.fitted_points,
        report.statistic.id()
    );
    page.entry("fitted     ", head);
    page.entry("alpha      ", interval(report.alpha_s, |s| Seconds(s).to_string()));
    page.entry("bandwidth  ", interval(report.bandwidth, rate));
    if report.slopes.len() > 1 {
        slopes(page, &report.slopes);
    }
    if let Some(gamma) = report.gamma {
        let text = interval(gamma, |g| SecondsPerByte(g).to_string());
        page.entry("gamma      ", text);
    }
    for (label, ladder) in [("copy       ", &report.copy), ("reduce     ", &report.reduce)] {
        if let Some(ladder) = ladder {
            let start = interval(ladder.start_s, |s| Seconds(s).to_string());
            page.entry(label, format!("{start} to start, then"));
            slopes(page, &ladder.slopes);
        }
    }
    let parts = [("c_real     ", report.c_real), ("duplex     ", report.duplex_factor)];
    for (label, part) in parts {
        if let Some(part) = part {
            page.entry(label, interval(part, |r| format!("{r:.4}")));
        }
    }
    if let Some(above) = report.duplex_above_bytes {
        page.entry("           ", format!("of the bytes after {} of a message", Bytes(above)));
    }
    for sharing in &report.sharing {
        let part = interval(sharing.part, |r| format!("{r:.4}"));
        let text =
            format!("{} messages out of one port reach {part} of its rate", sharing.messages);
        page.entry("sharing    ", text);
    }
    if let Some(bucket) = &report.token_bucket {
        let burst = Bytes(bucket.burst_bytes.round() as u64);
        let text = format!("a token bucket of about {burst} at {}", rate(bucket.rate));
        page.entry("bucket     ", text);
    }
    let other = &report.other;
    let (alpha, rate) = (Seconds(other.alpha_s.value), rate(other.bandwidth.value));
    page.entry(format!("{:11}", other.statistic.id()), format!("{alpha}, {rate}"));
    page.gap();
    errors(page, report);
    page.gap();
    operations(page, report);
    page.gap();
    for gate in &report.gates {
        let (label, said) = match gate.verdict {
            Verdict::Good => continue,
            Verdict::Marked => ("marked     ", &gate.said),
            Verdict::Refused => ("refused    ", &gate.said),
        };
        page.entry(label, format!("{}: {said}", gate.name));
        if let Some(help) = gate.help {
            page.entry("           ", help);
        }
    }
    let good = report.gates.iter().filter(|g| g.verdict == Verdict::Good).count();
    page.entry("gates      ", format!("{good} of {} pass", report.gates.len()));
    for left in &report.left_out {
        let text = format!(
            "{} blocks of `{}` left out: the fit does not support it",
            left.blocks, left.op
        );
        page.entry("note       ", text);
    }
    page.entries("note       ", &report.notes);
    if !report.residuals.is_empty() {
        page.gap();
        page.table(residuals(&report.residuals));
    }
}

/// The cost of a byte, by range of sizes.
fn slopes(page: &mut Page, slopes: &[SlopeView]) {
    for slope in slopes {
        let rate = match slope.beta.value {
            b if b > 0.0 => rate(1.0 / b),
            _ => "nothing measurable".to_owned(),
        };
        let from = Bytes(slope.from_bytes);
        let to = slope.to_bytes.map_or("on".to_owned(), |to| format!("to {}", Bytes(to)));
        page.entry("  slope    ", format!("{from} {to}: {rate}"));
    }
}

fn errors(page: &mut Page, report: &Fit) {
    let mut sheet =
        Sheet { columns: vec![Column::words("|error|, median / p90", "errors")], rows: Vec::new() };
    let headings = ["all", "t < 3 α", "between", "t > 10 α"];
    sheet.columns.extend(headings.map(|h| Column::numbers(h, "", h)));
    let errors = &report.errors;
    for (name, regimes) in [
        ("algorithm held out", errors.algorithms),
        ("size held out", errors.sizes),
        ("α and rate alone", errors.line),
    ] {
        let Some(RegimesView { all, latency, middle, bulk }) = regimes else { continue };
        let cell = |e: Option<ErrorView>| match e {
            Some(e) => Cell::same(format!("{} / {}", percent(e.median), percent(e.p90))),
            None => Cell::same("–"),
        };
        let cells = [Some(all), latency, middle, bulk].map(cell);
        sheet.rows.push(std::iter::once(Cell::same(name)).chain(cells).collect());
    }
    page.table(sheet);
}

fn operations(page: &mut Page, report: &Fit) {
    let operations = Sheet::of(&report.operations)
        .words("predicted without itself", "op", |o| &o.op)
        .numbers("points", "", "points", |o| o.points)
        .numbers("error", "", "error", |o| Cell::number(o.error, signed))
        .numbers("t > 10 α", "", "bulk_error", |o| Cell::number(o.bulk_error, signed))
        .words("", "apart", |o| match (&o.apart, o.off) {
            (Some(why), _) => why,
            (None, true) => "the model does not fit it",
            (None, false) => "",
        });
    page.table(operations.sheet);
}

fn residuals(rows: &[Residual]) -> Sheet {
    Sheet::of(rows)
        .words("point", "op", |r| &r.op)
        .numbers("N", "", "N", |r| r.ranks)
        .numbers("M", "", "M", |r| Cell::bytes(r.size_bytes))
        .numbers("runs", "", "runs", |r| r.runs)
        .numbers("time", "", "time", |r| Cell::seconds(r.time_s))
        .numbers("model", "", "model", |r| Cell::seconds(r.predicted_s))
        .numbers("error", "", "error", |r| Cell::number(r.error, signed))
        .numbers("algo out", "", "algo out", |r| Cell::number(r.held_out_algorithm_error, signed))
        .numbers("size out", "", "size out", |r| Cell::number(r.held_out_size_error, signed))
        .sheet
}

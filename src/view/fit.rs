//! A fit for people.

use std::io::{self, Write};

use super::Look;
use super::sheet::{Cell, Column, Sheet};
use crate::answer::fit::{ErrorView, Fit, Interval, RegimesView, Residual, SlopeView};
use crate::base::quantity::{Bytes, Seconds, SecondsPerByte};
use crate::measure::fit::Verdict;

fn interval(i: Interval, text: impl Fn(f64) -> String) -> String {
    format!("{}  ({} to {})", text(i.value), text(i.low), text(i.high))
}

/// Five digits, whatever the rate.
fn rate(bytes: f64) -> String {
    let giga = bytes / 1e9;
    let decimals = if giga > 0.0 { (4 - giga.log10().floor() as i32).clamp(0, 9) } else { 0 };
    format!("{giga:.*} GB/s", decimals.unsigned_abs() as usize)
}

fn percent(x: f64) -> String {
    match 100.0 * x.abs() {
        p if p >= 99.5 => format!("{p:.0} %"),
        p if p >= 9.95 => format!("{p:.1} %"),
        p => format!("{p:.2} %"),
    }
}

fn signed(x: f64) -> String {
    format!("{:+.1} %", 100.0 * x)
}

/// Writes the report.
///
/// # Errors
/// The writer's.
pub fn fit(out: &mut impl Write, report: &Fit, look: Look) -> io::Result<()> {
    let way = report.transport.as_deref().unwrap_or("samples");
    let wait = report.wait.map_or(String::new(), |w| format!(", {} waiting", w.id()));
    let head = format!(
        "{way}{wait}: {} runs, {} points, {} in the joint fit; {} time, 95 % intervals",
        report.runs,
        report.points,
        report.fitted_points,
        report.statistic.name()
    );
    look.line(out, "fitted     ", &head)?;
    look.line(out, "alpha      ", &interval(report.alpha_s, |s| Seconds(s).to_string()))?;
    look.line(out, "bandwidth  ", &interval(report.bandwidth, rate))?;
    if report.slopes.len() > 1 {
        slopes(out, &report.slopes, look)?;
    }
    if let Some(gamma) = report.gamma {
        let text = interval(gamma, |g| SecondsPerByte(g).to_string());
        look.line(out, "gamma      ", &text)?;
    }
    for (label, ladder) in [("copy       ", &report.copy), ("reduce     ", &report.reduce)] {
        if let Some(ladder) = ladder {
            let start = interval(ladder.start_s, |s| Seconds(s).to_string());
            look.line(out, label, &format!("{start} to start, then"))?;
            slopes(out, &ladder.slopes, look)?;
        }
    }
    let parts = [("c_real     ", report.c_real), ("duplex     ", report.duplex_factor)];
    for (label, part) in parts {
        if let Some(part) = part {
            look.line(out, label, &interval(part, |r| format!("{r:.4}")))?;
        }
    }
    for sharing in &report.sharing {
        let part = interval(sharing.part, |r| format!("{r:.4}"));
        let text =
            format!("{} messages out of one port reach {part} of its rate", sharing.messages);
        look.line(out, "sharing    ", &text)?;
    }
    if let Some(bucket) = &report.token_bucket {
        let burst = Bytes(bucket.burst_bytes.round() as u64);
        let text = format!("a token bucket of about {burst} at {}", rate(bucket.rate));
        look.line(out, "bucket     ", &text)?;
    }
    let other = &report.other;
    let (alpha, rate) = (Seconds(other.alpha_s.value), rate(other.bandwidth.value));
    look.line(out, &format!("{:11}", other.statistic.name()), &format!("{alpha}, {rate}"))?;
    writeln!(out)?;
    errors(out, report)?;
    writeln!(out)?;
    operations(out, report)?;
    writeln!(out)?;
    for gate in &report.gates {
        let (label, said) = match gate.verdict {
            Verdict::Good => continue,
            Verdict::Marked => ("marked     ", &gate.said),
            Verdict::Refused => ("refused    ", &gate.said),
        };
        look.line(out, label, &format!("{}: {said}", gate.name))?;
        if let Some(mend) = gate.mend {
            look.line(out, "           ", mend)?;
        }
    }
    let good = report.gates.iter().filter(|g| g.verdict == Verdict::Good).count();
    look.line(out, "gates      ", &format!("{good} of {} say nothing", report.gates.len()))?;
    for left in &report.left_out {
        let text = format!("{} blocks of `{}` left out: no fit knows it", left.blocks, left.op);
        look.line(out, "note       ", &text)?;
    }
    if !report.residuals.is_empty() {
        writeln!(out)?;
        residuals(&report.residuals).text(out)?;
    }
    if let Some(file) = &report.written {
        look.line(out, "written    ", file)?;
    }
    Ok(())
}

/// What a byte costs, by where it lies.
fn slopes(out: &mut impl Write, slopes: &[SlopeView], look: Look) -> io::Result<()> {
    for slope in slopes {
        let rate = match slope.beta.value {
            b if b > 0.0 => rate(1.0 / b),
            _ => "nothing measurable".to_owned(),
        };
        let from = Bytes(slope.from_bytes);
        let to = slope.to_bytes.map_or("on".to_owned(), |to| format!("to {}", Bytes(to)));
        look.line(out, "  slope    ", &format!("{from} {to}: {rate}"))?;
    }
    Ok(())
}

fn errors(out: &mut impl Write, report: &Fit) -> io::Result<()> {
    let mut sheet =
        Sheet { columns: vec![Column::words("|error|, median / p90", "errors")], rows: Vec::new() };
    let headings = ["all", "t < 3 α", "between", "t > 10 α"];
    sheet.columns.extend(headings.map(|h| Column::numbers(h, "", h)));
    let errors = &report.errors;
    for (name, regimes) in [
        ("algorithm not seen", errors.algorithms),
        ("size not seen", errors.sizes),
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
    sheet.text(out)
}

fn operations(out: &mut impl Write, report: &Fit) -> io::Result<()> {
    let columns = vec![
        Column::words("foretold without itself", "op"),
        Column::numbers("points", "", "points"),
        Column::numbers("error", "", "error"),
        Column::numbers("t > 10 α", "", "bulk_error"),
        Column::words("", "apart"),
    ];
    let row = |o: &crate::answer::fit::Operation| {
        let why = match (&o.apart, o.off) {
            (Some(why), _) => why.clone(),
            (None, true) => "the model does not describe it".to_owned(),
            (None, false) => String::new(),
        };
        vec![
            Cell::same(o.op.clone()),
            Cell::same(o.points.to_string()),
            Cell::number(o.error, signed),
            Cell::number(o.bulk_error, signed),
            Cell::same(why),
        ]
    };
    Sheet { columns, rows: report.operations.iter().map(row).collect() }.text(out)
}

fn residuals(rows: &[Residual]) -> Sheet {
    let mut columns = vec![Column::words("point", "op")];
    for heading in ["N", "M", "runs", "time", "model", "error", "algo out", "size out"] {
        columns.push(Column::numbers(heading, "", heading));
    }
    let row = |r: &Residual| {
        vec![
            Cell::same(r.op.clone()),
            Cell::same(r.ranks.to_string()),
            Cell::same(Bytes(r.size_bytes).to_string()),
            Cell::same(r.runs.to_string()),
            Cell::same(Seconds(r.time_s).to_string()),
            Cell::number(r.predicted_s, |s| Seconds(s).to_string()),
            Cell::number(r.error, signed),
            Cell::number(r.held_out_algorithm_error, signed),
            Cell::number(r.held_out_size_error, signed),
        ]
    };
    Sheet { columns, rows: rows.iter().map(row).collect() }
}

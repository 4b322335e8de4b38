//! Predicted against measured, with the band in which eight of ten runs are expected.

use super::{Axis, Mark, Picture, Series, Unit};
use crate::answer::compare::{Compare, PointView, RunView};
use crate::answer::curves::{CurveView, Fitted};
use crate::base::quantity::{Bytes, Seconds};

/// Runs, compared with the expectation for a machine.
#[must_use]
pub fn measured(report: &Compare) -> Picture {
    let mut series = Vec::new();
    let mut marks = Vec::new();
    let several = report.runs.len() > 1;
    for (i, run) in report.runs.iter().enumerate() {
        let of = if several { format!(", {}", what(run)) } else { String::new() };
        let sign = |base: char| char::from_u32(base as u32 + i as u32).unwrap_or(base);
        let expected =
            Series { sign: sign('a'), ..Series::lettered(2 * i, format!("expected{of}")) };
        let own =
            Series { sign: sign('A'), ..Series::lettered(2 * i + 1, format!("measured{of}")) };
        let points = |y: &dyn Fn(&PointView) -> f64| {
            run.points.iter().map(|p| (p.size_bytes as f64, y(p))).collect::<Vec<_>>()
        };
        let (a, b) = (series.len(), series.len() + 1);
        let band = run.points.iter().map(|p| (p.size_bytes as f64, p.low_s, p.high_s)).collect();
        marks.push(Mark::Band { series: a, points: band });
        marks.push(Mark::Line { series: a, points: points(&|p| p.expected_s) });
        marks.extend(run.points.iter().map(|p| Mark::Dot {
            series: b,
            x: p.size_bytes as f64,
            y: p.measured_s,
            title: format!(
                "{}: {}, {:.2} of the expected time",
                Bytes(p.size_bytes),
                Seconds(p.measured_s),
                p.ratio
            ),
        }));
        series.extend([expected, own]);
    }
    let subtitle = match report.runs.as_slice() {
        [run] => format!("{}, machine {}", what(run), report.machine),
        runs => format!("{} runs, machine {}", runs.len(), report.machine),
    };
    let points = || report.runs.iter().flat_map(|r| &r.points);
    let times = points().flat_map(|p| [p.low_s, p.high_s, p.measured_s]);
    Picture {
        title: "measured against expected".to_owned(),
        subtitle,
        x: Axis::log("size", Unit::Bytes, points().map(|p| p.size_bytes as f64)).wider(0.02, 0.02),
        y: Axis::log("time", Unit::Seconds, times).wider(0.03, 0.05),
        series,
        marks,
        notes: vec!["the band holds eight of ten runs of a healthy machine".to_owned()],
    }
}

fn what(run: &RunView) -> String {
    let nodes = if run.nodes > 1 { format!(" on {} nodes", run.nodes) } else { String::new() };
    let dtype = run.dtype.map_or(String::new(), |d| format!(", {d}"));
    format!("{} over {} ranks{nodes}{dtype}", run.collective.id(), run.ranks)
}

/// The residuals of fitted curves: measured over expected by what was held out, p10 to p90.
#[must_use]
pub fn measured_curves(report: &Fitted) -> Picture {
    let mut names = Vec::new();
    let mut marks = Vec::new();
    for curve in &report.curves {
        for held in &curve.held_out {
            let i = names.len() as f64;
            names.push(format!("{}, {}", curve_name(curve), held.held));
            marks.push(Mark::Block {
                series: 0,
                x: (held.low, held.high),
                y: (i + 0.2, i + 0.8),
                label: String::new(),
                title: format!("p10 {:.3}, p90 {:.3} of the expected time", held.low, held.high),
                apart: true,
                strong: false,
            });
        }
    }
    marks.push(Mark::Rule { x: 1.0, label: "as expected".to_owned() });
    let ends = report.curves.iter().flat_map(|c| &c.held_out).flat_map(|h| [h.low, h.high]);
    Picture {
        title: "residuals of the curves on held-out measurements".to_owned(),
        subtitle: report.files.join(", "),
        x: Axis::log("measured over expected, p10 to p90", Unit::Number, ends.chain([0.9, 1.1])),
        y: Axis::rows("held out", names),
        series: vec![Series { sign: '█', ..Series::lettered(0, "eight of ten") }],
        marks,
        notes: Vec::new(),
    }
}

fn curve_name(curve: &CurveView) -> String {
    let dtype = curve.dtype.map_or(String::new(), |d| format!(" {d}"));
    format!("{}{dtype}", curve.collective.id())
}

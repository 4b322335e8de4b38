//! Cost curves: time over sizes, ranks or a parameter, with a ring where the best changes.

use super::{Axis, Mark, Picture, Series, Unit};
use crate::answer::Over;
use crate::answer::{Interval, Point, PricedCurves, Sweep};
use crate::view::table::{asked, name};

/// Algorithms over sizes or ranks, and where the best of them changes.
#[must_use]
pub fn algorithms(report: &PricedCurves) -> Picture {
    let q = &report.question;
    let sizes = report.over == Over::Size;
    let points = || report.curves.iter().flat_map(|c| c.points.iter().copied());
    let (x, subtitle) = match sizes {
        true => {
            let x = Axis::log("size", Unit::Bytes, points().map(|p| p.0));
            (x, format!("{} ranks, machine {}", q.ranks, report.machine.name))
        }
        false => {
            let x = Axis::log("ranks", Unit::Count, points().map(|p| p.0));
            (
                x,
                format!(
                    "{}, machine {}",
                    crate::base::quantity::Bytes(q.size_bytes),
                    report.machine.name
                ),
            )
        }
    };
    let mut series = Vec::new();
    let mut marks = Vec::new();
    if report.bound.iter().all(|b| b.1 > 0.0) {
        series.push(Series::quiet("lower bound", '-'));
        marks.push(Mark::Line { series: 0, points: report.bound.clone() });
    }
    for (i, curve) in report.curves.iter().enumerate() {
        marks.push(Mark::Line { series: series.len(), points: curve.points.clone() });
        series.push(Series::lettered(i, curve.title));
    }
    marks.extend(report.winners.iter().skip(1).map(|w| change(w, sizes)));
    let heights = marks.iter().flat_map(|m| match m {
        Mark::Line { points, .. } => points.iter().map(|p| p.1).collect(),
        _ => Vec::new(),
    });
    Picture {
        title: format!("{}: the ideal price of each algorithm", name(q)),
        subtitle,
        y: Axis::log("time", Unit::Seconds, heights).wider(0.03, 0.08),
        x,
        series,
        marks,
        notes: Vec::new(),
    }
}

fn change(winner: &Interval, sizes: bool) -> Mark {
    let unit = if sizes { Unit::Bytes } else { Unit::Count };
    Mark::Crossing {
        x: winner.from,
        y: winner.time_s,
        label: format!("{} from {}", winner.title, unit.show(winner.from)),
    }
}

/// The expected time with its band, the lowest ideal time and the bound along a sweep.
#[must_use]
pub fn sweep(report: &Sweep) -> Picture {
    let x_of = |p: &Point| match report.over.as_str() {
        "size" => p.size_bytes as f64,
        "ranks" => f64::from(p.ranks),
        _ => p.value.unwrap_or_default(),
    };
    let unit = match report.over.as_str() {
        "size" => Unit::Bytes,
        "ranks" => Unit::Count,
        figure if figure.ends_with(".bw") => Unit::Rate,
        figure if figure.ends_with("alpha") || figure == "launch" => Unit::Seconds,
        _ => Unit::Number,
    };
    let line = |time: &dyn Fn(&Point) -> Option<f64>| -> Vec<(f64, f64)> {
        let above_zero = |(x, y): &(f64, f64)| *x > 0.0 && *y > 0.0;
        let point = |p| time(p).map(|t| (x_of(p), t));
        report.points.iter().filter_map(point).filter(above_zero).collect()
    };
    let ideal = |p: &Point| p.fastest.as_ref().map(|f| f.time_s);
    let expected = |p: &Point| Some(p.expect.time_s);
    let lines = [
        (Series::quiet("lower bound", '-'), line(&|p| p.bound_s)),
        (Series::lettered(1, "lowest ideal time"), line(&ideal)),
        (Series { sign: 'a', ..Series::lettered(0, "expected") }, line(&expected)),
    ];
    let mut series = Vec::new();
    let mut marks = Vec::new();
    for (one, points) in lines {
        if !points.is_empty() {
            marks.push(Mark::Line { series: series.len(), points });
            series.push(one);
        }
    }
    let band = |p: &Point| (x_of(p), p.expect.low_s, p.expect.high_s);
    let band: Vec<_> = report.points.iter().map(band).filter(|b| b.0 > 0.0 && b.1 > 0.0).collect();
    if band.iter().any(|b| b.2 > 1.005 * b.1) {
        marks.push(Mark::Band { series: series.len(), points: band });
        series.push(Series { sign: 'a', ..Series::lettered(0, "8 of 10 runs") });
    }
    for pair in report.points.windows(2) {
        let [before, after] = pair else { continue };
        let (runs, x) = (after.expect.runs.name(), x_of(after));
        if before.expect.runs.name() != runs && x > 0.0 {
            let label = format!("{runs} at {}", unit.show(x));
            marks.push(Mark::Crossing { x, y: after.expect.time_s, label });
        }
    }
    let points = || {
        marks.iter().flat_map(|m| match m {
            Mark::Line { points, .. } => points.clone(),
            Mark::Band { points, .. } => {
                points.iter().flat_map(|p| [(p.0, p.1), (p.0, p.2)]).collect()
            }
            _ => Vec::new(),
        })
    };
    let first = report.points.first().map(|p| format!("begins with {}", p.expect.runs.name()));
    Picture {
        title: format!("{} over {}", name(&report.question), report.over),
        subtitle: format!(
            "{}, machine {}",
            asked(&report.question, &report.over),
            report.machine.name
        ),
        x: Axis::log(&report.over, unit, points().map(|p| p.0)),
        y: Axis::log("time", Unit::Seconds, points().map(|p| p.1)).wider(0.03, 0.08),
        series,
        notes: first.into_iter().collect(),
        marks,
    }
}

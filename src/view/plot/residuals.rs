//! The residual of a fit at every point: prediction over time, minus 1.

use super::{Axis, Mark, Picture, Series, Unit};
use crate::answer::fit::{Fit, Residual};
use crate::base::quantity::Bytes;

/// The residuals of a fit by the size of the vector, one series per operation.
#[must_use]
pub fn residuals(report: &Fit) -> Picture {
    let mut series: Vec<Series> = Vec::new();
    let mut marks = Vec::new();
    let errors = |r: &Residual| r.error.map(|e| (r.size_bytes as f64, e));
    let points = || report.residuals.iter().filter_map(errors);
    let x = Axis::log("size", Unit::Bytes, points().map(|p| p.0)).wider(0.02, 0.02);
    let y = Axis::linear("prediction over time, minus 1", Unit::Share, points().map(|p| p.1));
    // The line on which all points should be, and the distance that nine of ten do not exceed.
    let p90 = report.errors.sizes.map(|e| e.all.p90);
    series.push(Series::quiet("exact", '-'));
    marks.push(Mark::Line { series: 0, points: vec![(x.from, 0.0), (x.to, 0.0)] });
    if let Some(p90) = p90 {
        let ends = [(x.from, -p90, p90), (x.to, -p90, p90)];
        series.push(Series { sign: '░', ..Series::quiet("nine of ten held-out sizes", '░') });
        marks.insert(0, Mark::Band { series: 1, points: ends.to_vec() });
    }
    let first = series.len();
    for row in &report.residuals {
        let Some((size, error)) = errors(row).filter(|p| p.0 > 0.0) else { continue };
        let number = series[first..].iter().position(|s| s.name == row.op).unwrap_or_else(|| {
            let next = series.len() - first;
            series.push(Series::lettered(next, row.op.clone()));
            next
        });
        marks.push(Mark::Dot {
            series: first + number,
            x: size,
            y: error,
            title: format!(
                "{}, {} ranks, {}: {:+.1} %",
                row.op,
                row.ranks,
                Bytes(row.size_bytes),
                error * 100.0
            ),
        });
    }
    let band = p90.unwrap_or(0.0);
    let y = Axis { from: y.from.min(-band), to: y.to.max(band), ..y }.wider(0.05, 0.05);
    Picture {
        title: "residuals of the fit".to_owned(),
        subtitle: format!("{} points of {}", report.points, report.samples.join(", ")),
        x,
        y,
        series,
        marks,
        notes: Vec::new(),
    }
}

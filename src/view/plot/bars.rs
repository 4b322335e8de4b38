//! The parts of each algorithm's time: latency, bandwidth, compute, launch, one after the other.

use super::{Axis, Hue, Mark, Picture, Series, Unit};
use crate::answer::Cost;
use crate::base::quantity::Seconds;
use crate::view::table::{asked, name};

/// The most bars of a picture by default.
const MOST: usize = 16;

/// The algorithms that apply, the fastest first.
#[must_use]
pub fn bars(report: &Cost, all: bool) -> Picture {
    let starred = report.machine.library.as_ref().and(report.fastest_shipped);
    let applicable = report.algorithms.iter().filter(|row| row.applies && row.time_s.is_some());
    let count = applicable.clone().count();
    let most = if all { usize::MAX } else { MOST };
    // Algorithms that the machine's library ships are never left out.
    let shipped = |id: &&str| report.fastest_shipped == Some(*id);
    let rows: Vec<_> = applicable
        .enumerate()
        .filter(|(i, r)| *i < most || shipped(&r.id))
        .map(|(_, r)| r)
        .collect();
    let terms = ["launch", "latency", "bandwidth", "compute"];
    let signs = ['▒', '█', '░', '▓'];
    let hues = [Hue::Quiet, Hue::Of(1), Hue::Of(0), Hue::Of(2)];
    let series = terms.iter().zip(signs).zip(hues);
    let series = series.map(|((name, sign), hue)| Series { name: (*name).to_owned(), sign, hue });
    let mut marks = Vec::new();
    let mut used = [false; 4];
    for (i, row) in rows.iter().enumerate() {
        let total = row.time_s.unwrap_or_default();
        let parts = [row.latency_s, row.bandwidth_s, row.compute_s].map(Option::unwrap_or_default);
        let launch = total - parts.iter().sum::<f64>();
        let launch = if launch > total * 1e-9 { launch } else { 0.0 };
        let mut from = 0.0;
        for (term, part) in [launch, parts[0], parts[1], parts[2]].into_iter().enumerate() {
            if part <= 0.0 {
                continue;
            }
            used[term] = true;
            marks.push(Mark::Block {
                series: term,
                x: (from, from + part),
                y: (i as f64 + 0.14, i as f64 + 0.86),
                label: String::new(),
                title: format!("{}: {} {}", row.title, terms[term], Seconds(part)),
                apart: false,
                strong: false,
            });
            from += part;
        }
        marks.push(Mark::Text { x: total, y: i as f64 + 0.5, label: Seconds(total).to_string() });
    }
    let bound = Seconds(report.bound_s.unwrap_or_default());
    marks.push(Mark::Rule { x: bound.0, label: format!("lower bound {bound}") });
    let names = rows.iter().map(|row| {
        let mark = if starred == Some(row.id) { "* " } else { "" };
        let pipelined = row.segments.filter(|p| *p > 1);
        let p = pipelined.map_or(String::new(), |p| format!(", P = {p}"));
        format!("{mark}{}{p}", row.title)
    });
    let longest = rows.iter().filter_map(|r| r.time_s).chain([bound.0]);
    let mut notes: Vec<String> = Vec::new();
    if starred.is_some() {
        notes.push("* is the fastest algorithm that the machine's library ships".to_owned());
    }
    if count > rows.len() {
        notes.push(format!("{} slower ones are left out: --all has them", count - rows.len()));
    }
    let mut kept: Vec<Series> = series.collect();
    // A term that is zero everywhere is not in the legend.
    let renumbered: Vec<usize> = (0..4).map(|i| used[..i].iter().filter(|u| **u).count()).collect();
    for mark in &mut marks {
        if let Mark::Block { series, .. } = mark {
            *series = renumbered[*series];
        }
    }
    let mut is_used = used.iter();
    kept.retain(|_| *is_used.next().unwrap_or(&false));
    Picture {
        title: format!("{}: the parts of the time", name(&report.question)),
        subtitle: format!("{}, machine {}", asked(&report.question, ""), report.machine.name),
        x: Axis::linear("time", Unit::Seconds, longest),
        y: Axis::rows("", names.collect()),
        series: kept,
        marks,
        notes,
    }
}

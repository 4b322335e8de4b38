//! Races for people.

use super::columns::micro;
use super::counted;
use super::page::Page;
use super::sheet::{Cell, Sheet};
use crate::answer::race::{ContenderView, HeatView, Race};
use crate::base::quantity::Seconds;

/// The heats as a table, and what follows from them.
#[must_use]
pub fn race(report: &Race) -> Page {
    let mut page = Page::default();
    page.entry("library    ", &report.library);
    let ranks = counted(report.ranks, "rank");
    page.entry("ranks      ", format!("{ranks} on {}", counted(report.nodes, "host")));
    page.entry("model      ", format!("machine {}", report.machine));
    if !report.heats.is_empty() {
        page.gap();
        page.table(sheet(&report.heats));
        page.gap();
    }
    let won = report.heats.iter().filter(|heat| heat.winner.is_some()).count();
    let (heats, left) = (report.heats.len(), report.left_to_the_library);
    if let Some(time) = report.time_s {
        let text = format!("{heats} heats in {}: {won} won by another choice", Seconds(time));
        page.entry("raced      ", text);
    }
    if left > 0 {
        let text = format!("{left} more: nothing is expected to be faster than the own choice");
        page.entry("not raced  ", text);
    }
    if let Some(file) = &report.written {
        page.entry("written    ", file);
    }
    page.entries("note       ", &report.notes);
    page
}

fn sheet(heats: &[HeatView]) -> Sheet {
    let time = |c: Option<&ContenderView>| micro(c.and_then(shown));
    Sheet::of(heats)
        .words("collective", "operation", |heat| &heat.operation)
        .numbers("size", "", "size_B", |heat| Cell::bytes(heat.size_bytes))
        .words("own choice", "own", |heat| heat.contenders.first().map_or("", |c| &c.algorithm))
        .numbers("time", "µs", "own_s", |heat| time(heat.contenders.first()))
        .words("fastest other", "algorithm", |heat| fastest(heat).map_or("", |c| &c.algorithm))
        .numbers("segment", "", "segment_B", |heat| {
            fastest(heat).and_then(|c| c.segment_bytes).map_or(Cell::same(""), Cell::bytes)
        })
        .numbers("time", "µs", "time_s", |heat| time(fastest(heat)))
        .numbers("of own", "", "ratio", |heat| {
            Cell::number(fastest(heat).and_then(|c| c.ratio), |ratio| format!("{ratio:.3}"))
        })
        .words("95 %", "interval", |heat| {
            let interval = fastest(heat).and_then(|c| Some((c.ratio_low?, c.ratio_high?)));
            interval.map_or(String::new(), |(low, high)| format!("{low:.2} to {high:.2}"))
        })
        .words("rule", "rule", |heat| if heat.winner.is_some() { "yes" } else { "" })
        .sheet
}

/// The time; of a dry run, the expected one.
fn shown(contender: &ContenderView) -> Option<f64> {
    contender.time_s.or(contender.expected_s)
}

/// The fastest besides the own choice.
fn fastest(heat: &HeatView) -> Option<&ContenderView> {
    let time = |c: &ContenderView| shown(c).unwrap_or(f64::INFINITY);
    heat.contenders.iter().skip(1).min_by(|a, b| time(a).total_cmp(&time(b)))
}

//! Races for people.

use super::columns::micro;
use super::counted;
use super::page::Page;
use super::sheet::{Cell, Column, Sheet};
use crate::answer::race::{ContenderView, HeatView, Race};
use crate::base::quantity::{Bytes, Seconds};

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
    let columns = vec![
        Column::words("collective", "operation"),
        Column::numbers("size", "", "size_B"),
        Column::words("own choice", "own"),
        Column::numbers("time", "µs", "own_s"),
        Column::words("fastest other", "algorithm"),
        Column::numbers("segment", "", "segment_B"),
        Column::numbers("time", "µs", "time_s"),
        Column::numbers("of own", "", "ratio"),
        Column::words("95 %", "interval"),
        Column::words("rule", "rule"),
    ];
    Sheet { columns, rows: heats.iter().map(row).collect() }
}

fn row(heat: &HeatView) -> Vec<Cell> {
    let own = heat.contenders.first();
    let others = heat.contenders.get(1..).unwrap_or(&[]);
    // Of a dry run, the fastest expected.
    let time = |c: &ContenderView| c.time_s.or(c.expected_s).unwrap_or(f64::INFINITY);
    let fastest = others.iter().min_by(|a, b| time(a).total_cmp(&time(b)));
    let interval = fastest.and_then(|c| Some((c.ratio_low?, c.ratio_high?)));
    let interval = interval.map_or(String::new(), |(low, high)| format!("{low:.2} to {high:.2}"));
    let shown = |c: Option<&ContenderView>| c.and_then(|c| c.time_s.or(c.expected_s));
    vec![
        Cell::same(&heat.operation),
        Cell::bytes(heat.size_bytes),
        Cell::same(own.map_or("", |c| &c.algorithm)),
        micro(shown(own)),
        Cell::same(fastest.map_or("", |c| &c.algorithm)),
        match fastest.and_then(|c| c.segment_bytes) {
            Some(segment) => Cell::named(&Bytes(segment).to_string(), &segment.to_string()),
            None => Cell::same(""),
        },
        micro(shown(fastest)),
        Cell::number(fastest.and_then(|c| c.ratio), |ratio| format!("{ratio:.3}")),
        Cell::same(interval),
        Cell::same(if heat.winner.is_some() { "yes" } else { "" }),
    ]
}

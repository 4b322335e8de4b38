//! A schedule over time: one row per sender, one block per message, the critical path highlighted.

use std::collections::BTreeMap;

use super::{Axis, Hue, Mark, Picture, Series, Unit};
use crate::answer::End;
use crate::answer::timeline::{Message, Timeline};
use crate::base::order::rising;
use crate::base::quantity::{Seconds, Volume};
use crate::model::schedule::Op;
use crate::view::table::{asked, name};

/// The time span of every message.
#[must_use]
pub fn timeline(report: &Timeline) -> Picture {
    let mut lanes: BTreeMap<&End, Vec<&Message>> = BTreeMap::new();
    for message in &report.messages {
        lanes.entry(&message.from).or_default().push(message);
    }
    let mut marks = Vec::new();
    for (row, messages) in lanes.values().enumerate() {
        // Messages in flight at the same time are stacked.
        let mut ends: Vec<f64> = Vec::new();
        let mut lane_of = Vec::with_capacity(messages.len());
        let mut sorted = messages.clone();
        rising(&mut sorted, |a| a.start_s);
        for message in &sorted {
            let free = ends.iter().position(|end| *end <= message.start_s * (1.0 + 1e-9));
            let lane = free.unwrap_or_else(|| {
                ends.push(0.0);
                ends.len() - 1
            });
            ends[lane] = message.end_s;
            lane_of.push(lane);
        }
        let height = 0.84 / ends.len().max(1) as f64;
        for (message, lane) in sorted.iter().zip(lane_of) {
            let top = row as f64 + 0.08 + height * lane as f64;
            marks.push(block(message, (top, top + height)));
        }
    }
    let ops = [(Op::Copy, 0, '░'), (Op::Reduce, 1, '▒'), (Op::Or, 2, '▓')];
    let used = |op: Op| report.messages.iter().any(|m| m.op == op);
    let names = |op: Op| if op == Op::Reduce { "added".to_owned() } else { "stored".to_owned() };
    let all = ops.map(|(op, hue, sign)| Series { name: names(op), sign, hue: Hue::Of(hue) });
    // The numbers of series must not change: only unused ones at the end are removed.
    let last = ops.iter().rposition(|(op, ..)| used(*op)).map_or(0, |i| i + 1);
    Picture {
        title: format!("{}: {} over time", name(&report.question), report.title),
        subtitle: format!(
            "{}, machine {}, mode {}: {}",
            asked(&report.question, ""),
            report.machine.name,
            report.mode,
            Seconds(report.makespan_s)
        ),
        x: Axis::linear("time", Unit::Seconds, [report.makespan_s].into_iter()),
        y: Axis::rows("sender", lanes.keys().map(ToString::to_string).collect()),
        series: all.into_iter().take(last).collect(),
        marks,
        notes: vec!["full: the critical path, which determines the makespan".to_owned()],
    }
}

fn block(message: &Message, y: (f64, f64)) -> Mark {
    let Message { from, to, op, bytes, start_s, end_s, round, critical } = message;
    Mark::Block {
        series: match *op {
            Op::Copy => 0,
            Op::Reduce => 1,
            Op::Or => 2,
        },
        x: (*start_s, *end_s),
        y,
        label: format!("→ {to}"),
        title: format!(
            "round {round}, {from} → {to}: {}, {} to {}",
            Volume(*bytes),
            Seconds(*start_s),
            Seconds(*end_s)
        ),
        apart: true,
        strong: *critical,
    }
}

//! A schedule over time: a row a sender, a block a message, the critical path strong.

use std::collections::BTreeMap;

use super::{Axis, Hue, Mark, Picture, Series, Unit};
use crate::answer::End;
use crate::answer::timeline::{Message, Timeline};
use crate::base::quantity::{Seconds, Volume};
use crate::model::schedule::Op;
use crate::view::table::{asked, name};

/// When every message is under way.
#[must_use]
pub fn timeline(report: &Timeline) -> Picture {
    let mut lanes: BTreeMap<&End, Vec<&Message>> = BTreeMap::new();
    for message in &report.messages {
        lanes.entry(&message.from).or_default().push(message);
    }
    let mut marks = Vec::new();
    for (row, messages) in lanes.values().enumerate() {
        // Messages that are under way at once lie one above the other.
        let mut ends: Vec<f64> = Vec::new();
        let mut lane_of = Vec::with_capacity(messages.len());
        let mut sorted = messages.clone();
        sorted.sort_by(|a, b| a.start_s.total_cmp(&b.start_s));
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
    // Numbers of series must stay: unused ones at the end are cut off, others kept.
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
        notes: vec!["full: the critical path, which the makespan waits for".to_owned()],
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

//! Maps over sizes and ranks: the best algorithm, and a policy's choices with their regret.

use super::{Axis, Hue, Mark, Picture, Series, Unit};
use crate::answer::select::{Select, SelectMap};
use crate::answer::{Fastest, Map};
use crate::base::quantity::{Bytes, Volume};
use crate::view::table::{library, name};

/// The lowest ideal times, of all or of those that the machine's library ships.
#[must_use]
pub fn winners(report: &Map, of_all: bool) -> Picture {
    let mut names = Names::default();
    let mut marks = Vec::new();
    let (from, to) = (report.from_bytes.max(1) as f64, report.to_bytes as f64);
    for (i, row) in report.rows.iter().enumerate() {
        let intervals = if of_all { &row.fastest } else { &row.fastest_shipped };
        for (j, interval) in intervals.iter().enumerate() {
            let end = intervals.get(j + 1).map_or(to, |next: &Fastest| next.from_bytes);
            let (start, end) = (interval.from_bytes.max(from), end.min(to));
            marks.push(Mark::Block {
                series: names.number(interval.title),
                x: (start, end),
                y: (i as f64, i as f64 + 1.0),
                label: interval.title.to_owned(),
                title: format!(
                    "{} ranks, {} to {}: {}",
                    row.ranks,
                    Volume(start),
                    Volume(end),
                    interval.title
                ),
                apart: false,
                strong: false,
            });
        }
    }
    let whose = match of_all {
        true => "lowest ideal time".to_owned(),
        false => {
            format!("lowest ideal time of what {} has", library(report.machine.library.as_deref()))
        }
    };
    Picture {
        title: format!("{}: {whose}", name(&report.question)),
        subtitle: format!("by size and ranks, machine {}", report.machine.name),
        x: Axis::log("size", Unit::Bytes, [from, to].into_iter()),
        y: Axis::rows("ranks", report.rows.iter().map(|r| r.ranks.to_string()).collect()),
        series: names.series(),
        marks,
        notes: Vec::new(),
    }
}

/// The classes of regret: the largest factor, its name, and its sign.
const REGRETS: [(f64, &str, char); 4] = [
    (1.05, "at most 1.05 × the best", ' '),
    (1.5, "to 1.5", '░'),
    (3.0, "to 3", '▒'),
    (f64::INFINITY, "more", '█'),
];

/// A policy's choices, and below each row their cost relative to the best.
#[must_use]
pub fn policy(report: &SelectMap) -> Picture {
    let mut names = Names::default();
    let rows = &report.by_ranks;
    let spans = || rows.iter().flat_map(|r| &r.intervals);
    let (from, to) = (
        spans().map(|s| s.from_bytes.max(1)).min().unwrap_or(1) as f64,
        spans().map(|s| s.to_bytes).max().unwrap_or(2) as f64,
    );
    let mut marks = Vec::new();
    let mut below = Vec::new();
    for (i, one) in rows.iter().enumerate() {
        for span in &one.intervals {
            let (start, end) = (span.from_bytes.max(1) as f64, span.to_bytes as f64 + 1.0);
            let end = end.min(to);
            let choice = &span.choice;
            let regret =
                choice.regret.map_or(String::new(), |r| format!(", up to {r:.2} times the best"));
            marks.push(Mark::Block {
                series: names.number(&choice.name),
                x: (start, end),
                y: (i as f64, i as f64 + 0.62),
                label: choice.name.clone(),
                title: format!(
                    "{} ranks, {} to {}: {}{regret}",
                    one.ranks,
                    Bytes(span.from_bytes),
                    Bytes(span.to_bytes),
                    choice.name
                ),
                apart: false,
                strong: false,
            });
            below.extend(regrets(i, one.ranks, span, end));
        }
    }
    let lettered = names.series();
    let count = lettered.len();
    let mut series = lettered;
    series.extend(REGRETS.iter().enumerate().map(|(i, (_, name, sign))| Series {
        name: format!("regret {name}"),
        sign: *sign,
        hue: Hue::Heat(i),
    }));
    marks.extend(below.into_iter().map(|mut mark| {
        if let Mark::Block { series, .. } = &mut mark {
            *series += count;
        }
        mark
    }));
    let first = rows.first();
    let unpriced = spans().any(|s| s.choice.unpriced.is_some());
    let whose = first.map_or(String::new(), |r: &Select| {
        let note = if unpriced { "; choices without a regret have no price" } else { "" };
        format!("{}, machine {}{note}", r.policy.title, r.machine)
    });
    Picture {
        title: first.map_or(String::new(), |r| {
            let collective = r.collective.name();
            format!("{collective}: what {} picks, and its regret", r.policy.id)
        }),
        subtitle: whose,
        x: Axis::log("size", Unit::Bytes, [from, to].into_iter()),
        y: Axis::rows("ranks", rows.iter().map(|r| r.ranks.to_string()).collect()),
        series,
        marks,
        notes: Vec::new(),
    }
}

/// The regret at each evaluated size, up to the next one.
fn regrets(
    i: usize,
    ranks: u32,
    span: &crate::answer::select::Span,
    end: f64,
) -> impl Iterator<Item = Mark> {
    let at = &span.choice.regrets;
    at.iter().enumerate().map(move |(j, one)| {
        let next = at.get(j + 1).map_or(end, |n| n.size_bytes as f64);
        let level = REGRETS.iter().position(|(most, ..)| one.regret <= *most);
        Mark::Block {
            series: level.unwrap_or(REGRETS.len() - 1),
            x: (one.size_bytes.max(1) as f64, next),
            y: (i as f64 + 0.62, i as f64 + 0.94),
            label: String::new(),
            title: format!(
                "{ranks} ranks, {}: {:.2} times the best",
                Bytes(one.size_bytes),
                one.regret
            ),
            apart: false,
            strong: false,
        }
    })
}

/// Names in the order of their first appearance.
#[derive(Default)]
struct Names(Vec<String>);

impl Names {
    fn number(&mut self, name: &str) -> usize {
        self.0.iter().position(|n| n == name).unwrap_or_else(|| {
            self.0.push(name.to_owned());
            self.0.len() - 1
        })
    }

    fn series(self) -> Vec<Series> {
        self.0.into_iter().enumerate().map(|(i, name)| Series::lettered(i, name)).collect()
    }
}

//! A schedule's space-time diagram: a row per link, a column per step, the chunks in each cell.
//!
//! ```text
//!        1  2  3  4  5
//! 0 → 1  0  1  2
//! 1 → 2     0  1  2
//! 2 → 3        0  1  2
//! ```

use std::collections::BTreeMap;

use super::{Axis, Hue, Mark, Picture, Series, Unit};
use crate::answer::End;
use crate::answer::trace::{Trace, Transfer};
use crate::base::error::{Error, Result};
use crate::model::schedule::Op;
use crate::view::table::{asked, name};

/// The most rows that a picture can hold and an eye can follow.
const MOST_LINKS: usize = 128;

/// The most steps.
const MOST_STEPS: usize = 512;

/// The messages of each link and step.
///
/// # Errors
/// More links or steps than a picture holds.
pub fn space_time(trace: &Trace) -> Result<Picture> {
    let mut links: BTreeMap<(&End, &End), Vec<(u64, &Transfer)>> = BTreeMap::new();
    for step in &trace.steps {
        for t in &step.transfers {
            links.entry((&t.from, &t.to)).or_default().push((step.step, t));
        }
    }
    if links.len() > MOST_LINKS || trace.steps.len() > MOST_STEPS {
        return Err(Error::input(format!(
            "{} links over {} steps are too many to draw",
            links.len(),
            trace.steps.len()
        ))
        .help("ask for fewer ranks or --segments; --format json has them all"));
    }
    let mut marks = Vec::new();
    for (row, ((from, to), sent)) in links.iter().enumerate() {
        for (step, t) in sent {
            let at = *step as f64;
            let chunks = super::super::trace::chunks(&t.chunks);
            marks.push(Mark::Block {
                series: usize::from(t.op == Op::Reduce),
                x: (at - 0.5, at + 0.5),
                y: (row as f64 + 0.06, row as f64 + 0.94),
                label: chunks.trim_start_matches('c').to_owned(),
                title: format!("step {step}, {from} → {to}: {chunks}, {}", t.op.id()),
                apart: true,
                strong: false,
            });
        }
    }
    let steps = trace.steps.last().map_or(1, |s| s.step) as f64;
    let ops = [("stored", '█', 0), ("added", '▓', 1)];
    let adds = trace.steps.iter().any(|s| s.ops.contains(&Op::Reduce));
    let series = ops.into_iter().map(|(name, sign, hue)| Series {
        name: name.to_owned(),
        sign,
        hue: Hue::Of(hue),
    });
    let cut = trace.segments.map_or(String::new(), |p| format!(", P = {p}"));
    let names = links.keys().map(|(from, to)| format!("{from} → {to}"));
    Ok(Picture {
        title: format!("{}: {}{cut}, step by step", name(&trace.question), trace.title),
        subtitle: format!("{}, machine {}", asked(&trace.question, ""), trace.machine.name),
        x: Axis {
            from: trace.steps.first().map_or(1, |s| s.step) as f64 - 0.5,
            to: steps + 0.5,
            ..Axis::linear("step", Unit::Count, [steps].into_iter())
        },
        y: Axis::rows("link", names.collect()),
        series: series.take(1 + usize::from(adds)).collect(),
        marks,
        notes: vec!["each box has the number of its chunk, from 0".to_owned()],
    })
}

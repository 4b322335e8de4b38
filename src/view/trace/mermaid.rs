//! As a Mermaid sequence diagram: one arrow per message, one note per step.

use std::io::{self, Write};

use super::{carried, verb};
use crate::answer::End;
use crate::answer::trace::Trace;

/// A participant's name.
fn name(end: &End) -> String {
    match end {
        End::Rank(rank) => format!("r{rank}"),
        End::Switch(name) => name.clone(),
    }
}

/// The steps of the trace as a sequence diagram.
///
/// # Errors
/// The writer's.
pub fn mermaid(out: &mut impl Write, trace: &Trace) -> io::Result<()> {
    writeln!(out, "sequenceDiagram")?;
    let ranks = trace.question.ranks;
    let transfers = trace.steps.iter().flat_map(|step| &step.transfers);
    let mut ends: Vec<&End> = transfers.flat_map(|t| [&t.from, &t.to]).collect();
    let all: Vec<End> = (0..ranks).map(End::Rank).collect();
    ends.extend(&all);
    ends.sort();
    ends.dedup();
    for end in &ends {
        let shown = match end {
            End::Rank(rank) => format!("rank {rank}"),
            End::Switch(name) => name.clone(),
        };
        writeln!(out, "    participant {} as {shown}", name(end))?;
    }
    let (Some(first), Some(last)) = (ends.first(), ends.last()) else { return Ok(()) };
    for step in &trace.steps {
        let over =
            if first == last { name(first) } else { format!("{},{}", name(first), name(last)) };
        writeln!(out, "    Note over {over}: step {} of {}", step.step, trace.totals.steps)?;
        for t in &step.transfers {
            let (from, to) = (name(&t.from), name(&t.to));
            writeln!(out, "    {from}->>{to}: {} {}", verb(t.op), carried(t, trace))?;
        }
    }
    Ok(())
}

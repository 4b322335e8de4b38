//! As a graph for Graphviz: who sends to whom, each edge with its steps.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::{carried, runs, verb};
use crate::answer::End;
use crate::answer::trace::{Trace, Transfer};
use crate::model::schedule::Op;

/// The steps and messages of one edge, by the receiver's operation.
type Over<'a> = BTreeMap<Op, Vec<(u32, &'a Transfer)>>;

/// The steps of the trace as one graph; nodes are boxes around their ranks.
///
/// # Errors
/// The writer's.
pub fn dot(out: &mut impl Write, trace: &Trace) -> io::Result<()> {
    let name = trace.question.collective.id();
    writeln!(out, "digraph {name} {{")?;
    writeln!(out, "    label=\"{}, {} ranks\";", trace.title, trace.question.ranks)?;
    // Graphviz 2.43 fails on many symmetric schedules without it.
    writeln!(out, "    newrank=true;")?;
    writeln!(out, "    node [shape=circle];")?;
    for (i, ranks) in trace.members.nodes.iter().enumerate() {
        let ranks: Vec<String> = ranks.iter().map(u32::to_string).collect();
        writeln!(out, "    subgraph cluster_{i} {{ label=\"node {i}\"; {}; }}", ranks.join("; "))?;
    }
    for rank in 0..trace.question.ranks {
        writeln!(out, "    {rank};")?;
    }
    let mut edges: BTreeMap<(&End, &End), Over<'_>> = BTreeMap::new();
    for step in &trace.steps {
        for t in &step.transfers {
            let steps = edges.entry((&t.from, &t.to)).or_default().entry(t.op).or_default();
            steps.push((u32::try_from(step.step).unwrap_or(u32::MAX), t));
        }
    }
    let one = trace.steps.len() == 1;
    for ((from, to), ops) in edges {
        let label = |(op, messages): (&Op, &Vec<(u32, &Transfer)>)| {
            let mut steps: Vec<u32> = messages.iter().map(|(step, _)| *step).collect();
            steps.dedup();
            let what = match one {
                // The chunks of a single step fit.
                true => {
                    messages.iter().map(|(_, t)| carried(t, trace)).collect::<Vec<_>>().join(" ")
                }
                false => format!("in {}", runs(&steps, 3)),
            };
            format!("{} {what}", verb(*op))
        };
        // Adding comes before storing.
        let labels: Vec<String> = ops.iter().rev().map(label).collect();
        writeln!(out, "    {from} -> {to} [label=\"{}\"];", labels.join("\\n"))?;
    }
    writeln!(out, "}}")
}

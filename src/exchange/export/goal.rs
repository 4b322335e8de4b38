//! GOAL: the sends, receives and computations of each rank, and what each one requires.
//!
//! ```text
//! num_ranks 2
//! rank 0 {
//! // message 0 round 0 reduce chunks 0-3
//! l1: send 4096b to 1 tag 0
//! l2: recv 4096b from 1 tag 1
//! // stores 1
//! l3: calc 20
//! l3 requires l2
//! ```
//!
//! A message's tag is its number in the schedule; [`Operations::of`] gives the dependencies.
//! Comments, which LogGOPSim skips, name the round and the chunks of each message.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::{Job, Written};
use crate::base::collective::Collective as C;
use crate::base::error::Result;
use crate::model::operations::{About, Does, Operations};
use crate::model::schedule::{Frame, Layout, Op};

pub(super) fn write(job: &Job<'_>) -> Result<Written> {
    let mut comments = HashMap::new();
    let all = Operations::told(job.schedule, job.size, job.gamma, |operation, about| {
        let comment = match about {
            About::Message { number, round, op, chunks } => {
                let chunks: Vec<u32> = chunks.iter().flat_map(|run| run.chunks()).collect();
                format!("message {number} round {round} {} chunks {}", name(op), list(&chunks))
            }
            About::Stores(number) => format!("stores {number}"),
        };
        comments.insert(operation, comment);
    })?;
    let mut ranks = vec![Rank::default(); all.ranks as usize];
    // For each operation, its label within its rank.
    let mut labels = Vec::with_capacity(all.list.len());
    for (operation, number) in all.list.iter().zip(0..) {
        let what = match operation.does {
            Does::Send { to, tag, bytes } => format!("send {}b to {to} tag {tag}", bytes.0),
            Does::Receive { from, tag, bytes } => {
                let [from, tag] = [from, tag].map(|of| of.map_or(-1, i64::from));
                format!("recv {}b from {from} tag {tag}", bytes.0)
            }
            Does::Compute(time) => format!("calc {}", (time.0 * 1e9).round() as u64),
        };
        let rank = &mut ranks[operation.rank as usize];
        rank.operations.push((comments.remove(&number), what));
        labels.push(rank.operations.len());
    }
    for &(operation, other, _) in &all.requires {
        let rank = &mut ranks[all.list[operation as usize].rank as usize];
        rank.requires.push((labels[operation as usize], labels[other as usize]));
    }
    Ok(Written { text: text(job, &ranks), notes: Vec::new() })
}

/// The operations of one rank.
#[derive(Default, Clone)]
struct Rank {
    /// A comment, and the operation.
    operations: Vec<(Option<String>, String)>,
    /// The dependencies.
    requires: Vec<(usize, usize)>,
}

fn text(job: &Job<'_>, ranks: &[Rank]) -> String {
    let schedule = job.schedule;
    let Frame { collective, root, parts, layout, .. } = schedule.frame();
    let layout = if layout == Layout::Owned { "owned" } else { "shared" };
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "// collcost goal 1: {}", job.name);
    let _ = writeln!(
        text,
        "// collective {} root {root} parts {parts} layout {layout} size {}",
        collective.id(),
        job.size.0
    );
    let owners: Vec<String> =
        (0..schedule.chunks()).map(|c| schedule.owner(c).to_string()).collect();
    if matches!(collective, C::AllGather | C::ReduceScatter | C::Gather | C::Scatter) {
        let _ = writeln!(text, "// owners {}", owners.join(" "));
    }
    let _ = writeln!(text, "num_ranks {}", ranks.len());
    for (number, rank) in ranks.iter().enumerate() {
        let _ = writeln!(text, "\nrank {number} {{");
        for ((comment, operation), label) in rank.operations.iter().zip(1..) {
            if let Some(comment) = comment {
                let _ = writeln!(text, "// {comment}");
            }
            let _ = writeln!(text, "l{label}: {operation}");
        }
        for (label, other) in &rank.requires {
            let _ = writeln!(text, "l{label} requires l{other}");
        }
        text.push_str("}\n");
    }
    text
}

fn name(op: Op) -> &'static str {
    match op {
        Op::Copy => "copy",
        Op::Reduce => "reduce",
        Op::Or => "or",
    }
}

/// `0-3,7`.
fn list(chunks: &[u32]) -> String {
    let same = |a: &u32, b: &u32| a + 1 == *b;
    let runs = chunks.chunk_by(same).map(|run| match run {
        [only] => only.to_string(),
        _ => format!("{}-{}", run[0], run[run.len() - 1]),
    });
    runs.collect::<Vec<_>>().join(",")
}

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

use std::fmt;

use super::{Job, Written};
use crate::base::collective::Collective as C;
use crate::base::error::Result;
use crate::model::operations::{About, Does, Operations};
use crate::model::schedule::{Frame, Layout, Op, Run};

pub(super) fn write<'a>(job: &Job<'a>) -> Result<Written<'a>> {
    let mut comments = Comments::default();
    let all = Operations::told(job.schedule, job.size, job.gamma, |operation, about| {
        comments.add(operation, &about);
    })?;
    let mut ranks = vec![Rank::default(); all.ranks as usize];
    // For each operation, its label within its rank.
    let mut labels = Vec::with_capacity(all.list.len());
    for (operation, number) in all.list.iter().zip(0..) {
        let rank = &mut ranks[operation.rank as usize];
        rank.operations.push(number);
        labels.push(rank.operations.len() as u32);
    }
    for &(operation, other, _) in &all.requires {
        let rank = &mut ranks[all.list[operation as usize].rank as usize];
        rank.requires.push((labels[operation as usize], labels[other as usize]));
    }
    let does = all.list.into_iter().map(|operation| operation.does).collect();
    let text = Box::new(Text { job: *job, does, comments, ranks });
    Ok(Written { text, notes: Vec::new() })
}

/// What is said of operations, one after the other.
#[derive(Default)]
struct Comments {
    all: String,
    /// Operations in order, each with where its comment ends.
    ends: Vec<(u32, usize)>,
}

impl Comments {
    fn add(&mut self, operation: u32, about: &About<&[Run]>) {
        let said = match about {
            About::Message { number, round, op, chunks } => {
                let chunks: Vec<u32> = chunks.iter().flat_map(|run| run.chunks()).collect();
                format!("message {number} round {round} {} chunks {}", name(*op), list(&chunks))
            }
            About::Stores(number) => format!("stores {number}"),
        };
        self.all.push_str(&said);
        self.ends.push((operation, self.all.len()));
    }

    fn of(&self, operation: u32) -> Option<&str> {
        let at = self.ends.binary_search_by_key(&operation, |(of, _)| *of).ok()?;
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before].1);
        Some(&self.all[start..self.ends[at].1])
    }
}

/// The operations of one rank.
#[derive(Default, Clone)]
struct Rank {
    /// Their numbers among all.
    operations: Vec<u32>,
    /// The dependencies, by label.
    requires: Vec<(u32, u32)>,
}

/// The file.
struct Text<'a> {
    job: Job<'a>,
    /// All operations.
    does: Vec<Does>,
    comments: Comments,
    ranks: Vec<Rank>,
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Job { schedule, name, size, .. } = self.job;
        let Frame { collective, root, parts, layout, .. } = schedule.frame();
        let layout = if layout == Layout::Owned { "owned" } else { "shared" };
        writeln!(f, "// collcost goal 1: {name}")?;
        let id = collective.id();
        let size = size.0;
        writeln!(f, "// collective {id} root {root} parts {parts} layout {layout} size {size}")?;
        if matches!(collective, C::AllGather | C::ReduceScatter | C::Gather | C::Scatter) {
            write!(f, "// owners")?;
            for chunk in 0..schedule.chunks() {
                write!(f, " {}", schedule.owner(chunk))?;
            }
            writeln!(f)?;
        }
        writeln!(f, "num_ranks {}", self.ranks.len())?;
        for (number, rank) in self.ranks.iter().enumerate() {
            writeln!(f, "\nrank {number} {{")?;
            for (&operation, label) in rank.operations.iter().zip(1..) {
                if let Some(comment) = self.comments.of(operation) {
                    writeln!(f, "// {comment}")?;
                }
                write!(f, "l{label}: ")?;
                match self.does[operation as usize] {
                    Does::Send { to, tag, bytes } => {
                        writeln!(f, "send {}b to {to} tag {tag}", bytes.0)?;
                    }
                    Does::Receive { from, tag, bytes } => {
                        let [from, tag] = [from, tag].map(|of| of.map_or(-1, i64::from));
                        writeln!(f, "recv {}b from {from} tag {tag}", bytes.0)?;
                    }
                    Does::Compute(time) => writeln!(f, "calc {}", (time.0 * 1e9).round() as u64)?,
                }
            }
            for (label, other) in &rank.requires {
                writeln!(f, "l{label} requires l{other}")?;
            }
            writeln!(f, "}}")?;
        }
        Ok(())
    }
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

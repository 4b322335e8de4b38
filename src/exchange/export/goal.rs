//! GOAL: for each rank sends, receives and computations, and what each requires.
//!
//! ```text
//! num_ranks 2
//! rank 0 {
//! // message 0 reduce chunks 0-3
//! l1: send 4096b to 1 tag 0
//! l2: recv 4096b from 1 tag 1
//! // stores 1
//! l3: calc 20
//! l3 requires l2
//! ```
//!
//! A message's tag is its number in the schedule. A send requires all that wrote its chunks before;
//! what is added, or comes where something was before, is stored by a `calc` of its own, which
//! also requires the sends that read that, so that receives can be posted at once and nothing waits
//! for its own sends. Which chunks a message carries stands in comments; LogGOPSim skips them.
//! A message without data has one byte, since LogGOPSim prices no fewer.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::Job;
use crate::base::collective::Collective as C;
use crate::base::error::{Error, Result};
use crate::model::schedule::{Endpoint, Frame, Layout, Op, Run, Sends, senders};

pub(super) fn write(job: &Job<'_>) -> Result<String> {
    let schedule = job.schedule;
    let frame = schedule.frame();
    if u64::from(frame.parts) > job.size.0 && frame.collective != C::Barrier {
        return Err(Error::input(format!(
            "{} bytes are no whole byte in each of {} chunks",
            job.size.0, frame.parts
        ))
        .help("give a larger size: GOAL counts whole bytes"));
    }
    let mut ranks: Vec<Rank> = (0..frame.ranks).map(|_| Rank::default()).collect();
    let mut sends = Sends::default();
    let mut number = 0;
    for round in 0..frame.rounds {
        let mut received = Vec::new();
        for from in senders(schedule) {
            sends.clear();
            schedule.sends(round, from, &mut sends);
            let Endpoint::Rank(source) = from else { continue };
            for message in sends.iter() {
                let Endpoint::Rank(target) = message.to else { continue };
                let bytes = bytes(&frame, job.size.0, message.runs);
                let chunks: Vec<u32> = message.runs.iter().flat_map(|run| run.chunks()).collect();
                ranks[source as usize].send(target, number, bytes, message.op, &chunks);
                received.push((source, target, number, bytes, message.op, chunks));
                number += 1;
            }
        }
        // All sends of a round read the state before it.
        for (source, target, number, bytes, op, chunks) in received {
            let adds =
                op == Op::Reduce || frame.layout == Layout::Owned && frame.collective.reduces();
            let gamma = job.gamma.filter(|_| adds).map_or(0.0, |gamma| gamma.0);
            let calc = (gamma * bytes as f64 * 1e9).round() as u64;
            ranks[target as usize].receive(source, number, bytes, op, calc, &chunks);
        }
    }
    Ok(text(job, &ranks))
}

/// The operations of one rank.
#[derive(Default)]
struct Rank {
    /// A comment, and the operation.
    operations: Vec<(Option<String>, String)>,
    /// What requires what.
    requires: Vec<(usize, usize)>,
    /// By chunk: what last wrote it, and what has read it since.
    uses: HashMap<u32, (Option<usize>, Vec<usize>)>,
}

impl Rank {
    fn push(&mut self, comment: Option<String>, operation: String) -> usize {
        self.operations.push((comment, operation));
        self.operations.len()
    }

    /// Each of `before` once, in order.
    fn require(&mut self, label: usize, mut before: Vec<usize>) {
        before.sort_unstable();
        before.dedup();
        self.requires.extend(before.into_iter().map(|other| (label, other)));
    }

    fn send(&mut self, to: u32, number: u64, bytes: u64, op: Op, chunks: &[u32]) {
        let comment = format!("message {number} {} chunks {}", name(op), list(chunks));
        let operation = format!("send {bytes}b to {to} tag {number}");
        let label = self.push(Some(comment), operation);
        let mut before = Vec::new();
        for chunk in chunks {
            let (written, read) = self.uses.entry(*chunk).or_default();
            before.extend(*written);
            read.push(label);
        }
        self.require(label, before);
    }

    fn receive(&mut self, from: u32, number: u64, bytes: u64, op: Op, calc: u64, chunks: &[u32]) {
        let received = self.push(None, format!("recv {bytes}b from {from} tag {number}"));
        let mut before = Vec::new();
        for chunk in chunks {
            let (written, read) = self.uses.entry(*chunk).or_default();
            before.extend(*written);
            before.append(read);
        }
        let mut label = received;
        if op != Op::Copy || calc > 0 || !before.is_empty() {
            label = self.push(Some(format!("stores {number}")), format!("calc {calc}"));
            before.push(received);
            self.require(label, before);
        }
        for chunk in chunks {
            self.uses.entry(*chunk).or_default().0 = Some(label);
        }
    }
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

/// Whole bytes of a message: the first parts are one byte longer where M does not divide.
fn bytes(frame: &Frame, size: u64, runs: &[Run]) -> u64 {
    if frame.collective == C::Barrier {
        return 1;
    }
    let parts = u64::from(frame.parts);
    let (each, larger) = (size / parts, size % parts);
    let chunks = runs.iter().flat_map(|run| run.chunks());
    chunks.map(|chunk| each + u64::from(u64::from(chunk) % parts < larger)).sum()
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

//! Checks whether the times of an events file are possible: no data are sent before they arrive, no
//! port carries more messages at once than it can, and barriers hold.
//!
//! The duration of a message is not checked, because the file does not describe all of its links.

use std::collections::HashMap;

use crate::base::order::rising;
use crate::model::schedule::{Endpoint, Op, Run};

/// The relative difference up to which two instants count as equal.
const SAME: f64 = 1e-9;

/// A message with the times that its line claims.
pub(super) struct Claimed {
    pub round: u64,
    pub from: Endpoint,
    pub to: Endpoint,
    pub op: Op,
    pub runs: Vec<Run>,
    /// The index of its tier; 0 if there is only one.
    pub tier: usize,
    pub start: f64,
    pub end: f64,
    pub added: f64,
    pub line: usize,
}

/// The rules that the first line claims.
pub(super) struct Rules {
    /// Of each tier.
    pub ports: Vec<Ports>,
    /// Whether there is a barrier after every round.
    pub barriers: bool,
}

/// The ports of a rank on a tier.
#[derive(Clone, Copy)]
pub(super) struct Ports {
    /// The number of messages at once; 0 means any number.
    pub count: u32,
    /// Whether both ways share them.
    pub half: bool,
}

/// An impossible claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// What is wrong.
    pub what: String,
    /// The line of the file.
    pub line: usize,
    /// The round of the message.
    pub round: u64,
}

/// The first impossible claim; `messages` are in the order of their rounds.
pub(super) fn check(messages: &[Claimed], rules: &Rules) -> Option<Claim> {
    let alone = messages.iter().find_map(|m| {
        let ordered = 0.0 <= m.start && m.start <= m.end && m.end <= m.added && m.added.is_finite();
        (!ordered).then(|| claim(m, "it ends before it starts".to_owned()))
    });
    alone.or_else(|| data(messages, rules)).or_else(|| ports(messages, rules))
}

fn claim(message: &Claimed, what: String) -> Claim {
    let Claimed { round, line, from, to, .. } = message;
    Claim { what: format!("{from} to {to} in round {round}: {what}"), line: *line, round: *round }
}

fn is_before(a: f64, b: f64) -> bool {
    a < b - SAME * b.abs()
}

/// The writes to a chunk of an endpoint in earlier rounds: the time when all had arrived, and that
/// of the last copy.
#[derive(Default, Clone, Copy)]
struct Written {
    all: f64,
    copied: f64,
}

fn data(messages: &[Claimed], rules: &Rules) -> Option<Claim> {
    let mut written: HashMap<(Endpoint, u32), Written> = HashMap::new();
    let mut rounds = 0.0_f64;
    for round in messages.chunk_by(|a, b| a.round == b.round) {
        for message in round {
            let chunks = || message.runs.iter().flat_map(|run| run.chunks());
            let at = |end, chunk| written.get(&(end, chunk)).copied().unwrap_or_default();
            // A switch forwards while it receives.
            if matches!(message.from, Endpoint::Rank(_)) {
                let late = chunks().find(|&c| is_before(message.start, at(message.from, c).all));
                if let Some(chunk) = late {
                    let there = at(message.from, chunk).all;
                    let what = format!(
                        "chunk {chunk} is sent at {} s but arrives at {there} s",
                        message.start
                    );
                    return Some(claim(message, what));
                }
            }
            let operand = chunks().map(|c| at(message.to, c).copied).fold(0.0, f64::max);
            if message.op == Op::Reduce && is_before(message.added, operand) {
                let added = message.added;
                let what = format!("it is added at {added} s to data that arrive at {operand} s");
                return Some(claim(message, what));
            }
            if rules.barriers && is_before(message.start, rounds) {
                let what =
                    format!("it starts at {} s, before the barrier at {rounds} s", message.start);
                return Some(claim(message, what));
            }
        }
        for message in round {
            rounds = rounds.max(message.end);
            for chunk in message.runs.iter().flat_map(|run| run.chunks()) {
                let cell = written.entry((message.to, chunk)).or_default();
                cell.all = cell.all.max(message.added);
                if message.op == Op::Copy {
                    cell.copied = message.end;
                }
            }
        }
    }
    None
}

/// Finds more messages at once than a rank has ports.
fn ports(messages: &[Claimed], rules: &Rules) -> Option<Claim> {
    let mut held: HashMap<(Endpoint, usize, bool), Vec<&Claimed>> = HashMap::new();
    for message in messages {
        let Some(ports) = rules.ports.get(message.tier).filter(|ports| ports.count > 0) else {
            continue;
        };
        // A message that takes no time occupies no port.
        if message.start < message.end {
            for (end, receives) in [(message.from, false), (message.to, true)] {
                if matches!(end, Endpoint::Rank(_)) {
                    let of = (end, message.tier, receives && !ports.half);
                    held.entry(of).or_default().push(message);
                }
            }
        }
    }
    let mut faults: Vec<Claim> = Vec::new();
    for ((end, tier, _), mut those) in held {
        let count = rules.ports[tier].count as usize;
        rising(&mut those, |a| a.start);
        let mut busy: Vec<f64> = Vec::new();
        for message in those {
            busy.retain(|&until| is_before(message.start, until));
            busy.push(message.end);
            if busy.len() > count {
                let plural = if count == 1 { "port" } else { "ports" };
                let what = format!(
                    "at {} s {end} has {} messages at once on {count} {plural}",
                    message.start,
                    busy.len()
                );
                faults.push(claim(message, what));
                break;
            }
        }
    }
    faults.into_iter().min_by_key(|claim| claim.line)
}

//! Schedules that other programs wrote, one file per format.
//!
//! A reader turns text into messages with their dependencies, and those into rounds: a message's
//! round is the first that its data, and the data that it overwrites, allow.
//! [`verify`](crate::model::schedule::verify()) checks whether the messages do what their
//! collective promises.

mod chakra;
mod claims;
mod ends;
mod events;
mod goal;
mod msccl;
mod order;

pub use claims::Claim;

use crate::base::error::{Error, Result};
use crate::base::quantity::Bytes;
use crate::base::refused::Refused;
use crate::model::operations::Operations;
use crate::model::schedule::{Endpoint, Fault, Frame, List, Op, Run, Schedule, Sends, turns};

/// A schedule from a file.
#[derive(Debug, Clone)]
pub struct Foreign {
    /// The messages.
    pub list: List,
    /// M, if the file gives it.
    pub size: Option<Bytes>,
    /// Why the times in the file are impossible, if they are.
    pub wrong_claim: Option<Claim>,
    /// The line of each message of the list.
    lines: Vec<usize>,
}

/// Operations from a file that does not say which data they move.
#[derive(Debug, Clone)]
pub struct Bare {
    /// The operations of each rank.
    pub operations: Operations,
    /// Each send with its receive, by number; absent if a receive accepts any message, since the
    /// match is then known only from a simulation.
    pub messages: Option<Vec<(u32, u32)>>,
    /// The line of each operation.
    lines: Vec<u32>,
}

impl Bare {
    /// The line of an operation, counted from 1.
    #[must_use]
    pub fn line(&self, operation: u32) -> Option<u32> {
        self.lines.get(operation as usize).copied()
    }
}

/// The operations of a text that gives order, bytes and peers, but not which data: GOAL without
/// collcost's comments. None if the text names the data; then [`read`] reads it.
///
/// # Errors
/// A text that begins as GOAL but is not; a message that is missing at one end; operations that
/// wait for each other.
pub fn bare(text: &str, file: &str) -> Result<Option<Bare>> {
    goal::operations(text, true).map_err(|e| e.error(file).or_help("correct the file"))
}

/// The operations of GOAL, whether or not collcost's comments say which data they move. None if the text is no
/// GOAL.
///
/// # Errors
/// As [`bare`]'s.
pub fn operations(text: &str, file: &str) -> Result<Option<Bare>> {
    goal::operations(text, false).map_err(|e| e.error(file).or_help("correct the file"))
}

/// The operations of a Chakra trace: for each rank, in order, the name of its file and its bytes.
/// `algorithm` runs the collectives that have one of this name, rings and binomial trees the others.
///
/// # Errors
/// Errors of the files; one that is no such trace; a message or a call that is missing at one end;
/// nodes that wait for each other; an algorithm that none of the collectives has.
pub fn chakra(
    files: impl IntoIterator<Item = Result<(String, Vec<u8>)>>,
    algorithm: Option<&str>,
) -> Result<Bare> {
    chakra::read(files, algorithm)
}

/// A format.
struct Format {
    is: fn(&str) -> bool,
    read: fn(&str) -> std::result::Result<Foreign, Refused>,
}

/// Every format; the first one that recognizes the text reads it.
static FORMATS: &[Format] = &[
    Format { is: msccl::is, read: msccl::read },
    Format { is: events::is, read: events::read },
    Format { is: goal::is, read: goal::read },
];

/// Reads the text of `file` in any of the formats.
///
/// # Errors
/// A text in none of the formats; a message that is missing at one end, appears twice, waits for
/// itself or is not ordered against another that it conflicts with, with its line; more chunks than
/// are followed.
pub fn read(text: &str, file: &str) -> Result<Foreign> {
    let format = FORMATS.iter().find(|format| (format.is)(text)).ok_or_else(|| {
        Error::input("the file holds no schedule")
            .at(file)
            .help("give MSCCL's XML, GOAL with collcost's comments, or lines of `trace --events`")
    })?;
    let foreign = (format.read)(text).map_err(|refused| {
        refused.error(file).or_help("correct the file, or export the schedule again")
    })?;
    check(&foreign.list).map_err(|what| {
        Error::input(what).at(file).help("give a schedule of fewer ranks, rounds or chunks")
    })?;
    Ok(foreign)
}

/// The most turns of a schedule from a file. A turn asks one endpoint what it sends in one round; a
/// short file can name very many turns in which nothing is sent.
const MOST_TURNS: u64 = 1 << 25;

/// The most places, endpoints times chunks.
const MOST_PLACES: u64 = 1 << 23;

/// The most rounds, because every round is visited.
const MOST_ROUNDS: u64 = 1 << 24;

/// Refuses a round that would take very long to reach.
fn within(round: u64, line: usize) -> std::result::Result<(), Refused> {
    match round < MOST_ROUNDS {
        true => Ok(()),
        false => Err(Refused::at(line, format!("round {round} is beyond the limit"))),
    }
}

/// Refuses a short file that would take very long.
fn check(list: &List) -> std::result::Result<(), String> {
    let endpoints = u64::from(list.ranks()) + u64::from(list.switches());
    if turns(list) > MOST_TURNS {
        let rounds = list.rounds();
        return Err(format!("{endpoints} ranks and switches through {rounds} rounds are too many"));
    }
    let chunks = list.chunks();
    if endpoints.saturating_mul(chunks.into()) > MOST_PLACES {
        return Err(format!("{chunks} chunks at {endpoints} ranks and switches are too many"));
    }
    Ok(())
}

/// A message with its line.
struct Placed {
    round: u64,
    from: Endpoint,
    to: Endpoint,
    op: Op,
    runs: Vec<Run>,
    line: usize,
}

impl Foreign {
    /// The messages of a frame in schedule order; the sort is stable.
    fn new(frame: Frame, owners: Option<&[u32]>, mut messages: Vec<Placed>) -> Self {
        messages.sort_by_key(|message| (message.round, frame.turn_of(message.from)));
        let mut list = List::new(frame);
        if let Some(owners) = owners {
            list = list.owned_as(&Owned { frame, owners });
        }
        for Placed { round, from, to, op, runs, .. } in &messages {
            list.push(*round, *from, *to, *op, runs);
        }
        let wrong_claim = None;
        Self {
            list,
            size: None,
            wrong_claim,
            lines: messages.iter().map(|message| message.line).collect(),
        }
    }

    /// The line of the faulty message; none if the fault shows only at the end.
    #[must_use]
    pub fn line_of(&self, fault: &Fault) -> Option<usize> {
        let (round, from, to) = (fault.round()?, fault.from()?, fault.to()?);
        let those = self.list.iter().zip(&self.lines).filter(|(message, _)| {
            let chunk = |c| message.runs.iter().any(|run| run.chunks().contains(&c));
            message.round == round
                && (message.from, message.to) == (from, to)
                && fault.chunk().is_none_or(chunk)
        });
        // Of two messages that write one chunk, the second is the faulty one.
        those.last().map(|(_, &line)| line)
    }
}

/// The owners of chunks, without messages.
struct Owned<'a> {
    frame: Frame,
    owners: &'a [u32],
}

impl Schedule for Owned<'_> {
    fn frame(&self) -> Frame {
        self.frame
    }

    fn owner(&self, chunk: u32) -> u32 {
        self.owners.get(chunk as usize).copied().unwrap_or(u32::MAX)
    }

    fn sends(&self, _: u64, _: Endpoint, _: &mut Sends) {}
}

/// Chunks as runs.
fn runs(chunks: &[u32]) -> Vec<Run> {
    let parts = chunks.chunk_by(|a, b| a.checked_add(1) == Some(*b));
    parts.map(|run| Run { start: run[0], len: run.len() as u32 }).collect()
}

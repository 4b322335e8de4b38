//! Schedules of a few ranks, message by message; the contents of the ranks follow from them.

use serde::Serialize;

use super::AlgorithmView;
use crate::base::collective::Collective;
use crate::model::algorithm::{Algorithm, Registry};
use crate::model::formula::Shape;
use crate::model::schedule::{Endpoint, Layout, Op, Run, Schedule, Sends, each_message, holds};

/// Ranks of the schedules: two powers of two, and an odd number.
const RANKS: [u32; 3] = [4, 5, 8];

/// Segments of pipelined algorithms.
const SEGMENTS: u32 = 4;

/// The maximum number of messages that a page can step through.
const MOST: usize = 400;

/// A schedule.
#[derive(Debug, Serialize)]
pub struct Played {
    /// The collective's id.
    pub collective: &'static str,
    /// The index of its algorithm.
    pub algorithm: usize,
    /// N.
    pub ranks: u32,
    /// Ranks per node; absent: all links are alike.
    pub group: Option<u32>,
    /// P, if it is pipelined.
    pub segments: Option<u32>,
    /// The number of switches, which are numbered after the ranks.
    pub switches: u32,
    /// The number of parts that M is cut into.
    pub parts: u32,
    /// Whether every rank has its own parts.
    pub own: bool,
    /// The chunks that each rank holds at the start.
    pub holds: Vec<Vec<u32>>,
    /// The messages of each round that has any.
    pub rounds: Vec<Vec<Message>>,
}

/// A message: sender, receiver, what the receiver does (0 store, 1 add, 2 join), first chunks and
/// lengths of its runs in turn.
#[derive(Debug, Serialize)]
pub struct Message(u32, u32, u8, Vec<u32>);

pub(super) fn schedules(registry: &Registry, known: &[AlgorithmView]) -> Vec<Played> {
    let mut found = Vec::new();
    for &collective in Collective::ALL {
        for algorithm in registry.of(collective) {
            found.extend(RANKS.into_iter().filter_map(|n| {
                let place = known.iter().position(|a| a.id == algorithm.meta().id)?;
                played(algorithm, collective, n, place)
            }));
        }
    }
    found
}

fn played(
    algorithm: &dyn Algorithm,
    collective: Collective,
    ranks: u32,
    place: usize,
) -> Option<Played> {
    let mut shape = Shape::new(collective, ranks);
    if algorithm.is_pipelined() {
        shape = shape.with_segments(SEGMENTS);
    }
    // A hierarchy runs on nodes of half the ranks.
    let mut group = None;
    if algorithm.applies(&shape).is_err() && ranks.is_multiple_of(2) {
        group = Some(ranks / 2);
        shape.group = (ranks / 2).try_into().ok();
    }
    algorithm.applies(&shape).ok()?;
    let schedule = algorithm.schedule(&shape)?;
    let frame = schedule.frame();
    let rounds = rounds(&*schedule)?;
    let held = |rank| (0..frame.chunks()).filter(|&c| holds(&*schedule, rank, c)).collect();
    Some(Played {
        collective: collective.id(),
        algorithm: place,
        ranks,
        group,
        segments: algorithm.is_pipelined().then_some(SEGMENTS),
        switches: frame.switches,
        parts: frame.parts,
        own: frame.layout == Layout::Owned,
        holds: (0..ranks).map(held).collect(),
        rounds,
    })
}

/// The rounds that have messages; `None` if they are too many.
fn rounds(schedule: &dyn Schedule) -> Option<Vec<Vec<Message>>> {
    let mut sends = Sends::default();
    let mut rounds = Vec::new();
    let mut count = 0;
    for round in 0..schedule.rounds() {
        let mut messages = Vec::new();
        each_message(schedule, round, &mut sends, |from, transfer| {
            let told = numbers(schedule, from, transfer.to, transfer.op, transfer.runs);
            let (from, to, op, runs) = told.ok_or(())?;
            messages.push(Message(from, to, op, runs));
            Ok::<(), ()>(())
        })
        .ok()?;
        count += messages.len();
        if count > MOST {
            return None;
        }
        if !messages.is_empty() {
            rounds.push(messages);
        }
    }
    Some(rounds)
}

/// A message as numbers: its ends by index, ranks first; 0 store, 1 add, 2 join; first chunks and
/// lengths of its runs in turn.
pub(super) fn numbers(
    schedule: &dyn Schedule,
    from: Endpoint,
    to: Endpoint,
    op: Op,
    runs: &[Run],
) -> Option<(u32, u32, u8, Vec<u32>)> {
    let number = |end: Endpoint| end.place(schedule).and_then(|place| u32::try_from(place).ok());
    let op = match op {
        Op::Copy => 0,
        Op::Reduce => 1,
        Op::Or => 2,
    };
    let runs = runs.iter().map(|run| run.chunks());
    let runs = runs.flat_map(|chunks| [chunks.start, chunks.end - chunks.start]).collect();
    Some((number(from)?, number(to)?, op, runs))
}

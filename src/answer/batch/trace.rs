//! Kind `trace`: what ranks hold of given numbers, after a step or at the end.

use std::fmt::Write as _;

use serde_json::value::RawValue;

use super::Batch;
use super::question::{Question, Value, needed};
use crate::base::error::{Error, Result};
use crate::model::replay::{Numbers, Replay};
use crate::model::schedule::{Schedule, holds, wants};

impl Batch {
    /// Kind `trace`: after `step`, every rank's chunks; without it, the chunk and value that each
    /// rank must have at the end: one pair, or a list if it is not exactly one.
    pub(super) fn trace(&mut self, q: Question<'_>, out: &mut Vec<u8>) -> Result<()> {
        let q = q.unfolded()?;
        let step = q.step.as_ref().map(|step| step.whole("step", 0)).transpose()?;
        let data = *needed(&q.data, "data")?;
        let schedule = self.spelled_out(&q)?;
        let schedule = &*schedule;
        let mut replay = started(schedule, &rows(data)?)?;
        let mut done = 0;
        for round in 0..schedule.rounds() {
            if Some(done) == step {
                break;
            }
            // Rounds in which no rank sends are not steps.
            done += u32::from(!replay.round(round)?.is_empty());
        }
        if let Some(step) = step.filter(|step| *step > done) {
            return Err(Error::input(format!("there is no step {step}: the last step is {done}")));
        }
        let mut state = String::from("[");
        for rank in 0..schedule.ranks() {
            let held = (0..).zip(replay.rank(rank));
            let list = match step {
                Some(_) => list(held.map(|(_, numbers)| shown(numbers.as_ref()))),
                None => {
                    let wanted = held.filter(|&(chunk, _)| wants(schedule, rank, chunk));
                    let pair = |(chunk, numbers): (u32, &Option<Numbers>)| {
                        format!("[{chunk},{}]", shown(numbers.as_ref()))
                    };
                    let mut pairs: Vec<String> = wanted.map(pair).collect();
                    match pairs.len() {
                        1 => pairs.remove(0),
                        _ => list(pairs.into_iter()),
                    }
                }
            };
            let comma = if rank > 0 { "," } else { "" };
            // Writing to a string cannot fail.
            let _ = write!(state, "{comma}{list}");
        }
        out.extend_from_slice(b",\"state\":");
        out.extend_from_slice(state.as_bytes());
        out.push(b']');
        Ok(())
    }
}

/// Numbers by rank; null if a rank has nothing.
fn rows(data: &RawValue) -> Result<Vec<Vec<Option<f64>>>> {
    let rows: Vec<Vec<Option<Value<'_>>>> = serde_json::from_str(data.get()).map_err(|e| {
        Error::input(format!("`data` is not a list of rows: {e}"))
            .help("write a row of numbers per rank, such as [[1,2],[3,4]]")
    })?;
    let number = |value: Option<Value<'_>>| value.map(|v| v.number("data")).transpose();
    rows.into_iter().map(|row| row.into_iter().map(number).collect()).collect()
}

/// A row with a number for each chunk is the rank's whole buffer; other rows hold what it
/// contributes.
fn started<'a>(
    schedule: &'a dyn Schedule,
    rows: &[Vec<Option<f64>>],
) -> Result<Replay<'a, Numbers>> {
    let (ranks, chunks) = (schedule.ranks() as usize, schedule.chunks() as usize);
    if rows.len() == ranks && rows.iter().all(|row| row.len() == chunks) {
        let number = |rank: u32, chunk: u32| rows[rank as usize][chunk as usize];
        let lacks = |rank: u32| {
            (0..schedule.chunks()).any(|c| holds(schedule, rank, c) && number(rank, c).is_none())
        };
        if let Some(rank) = (0..schedule.ranks()).find(|&rank| lacks(rank)) {
            return Err(Error::input(format!(
                "`data` lacks a number that rank {rank} contributes"
            )));
        }
        let one = |rank, chunk| Some(Numbers(vec![number(rank, chunk)?]));
        return Replay::new(schedule, one);
    }
    let plain = |row: &Vec<Option<f64>>| row.iter().flatten().copied().collect();
    Replay::of_rows(schedule, &rows.iter().map(plain).collect::<Vec<Vec<f64>>>())
}

/// A chunk of one number as that number, others as a list; null if there is nothing, and for a sum
/// that no number can hold.
fn shown(numbers: Option<&Numbers>) -> String {
    let one = |n: &f64| if n.is_finite() { n.to_string() } else { "null".to_owned() };
    match numbers.map(|numbers| numbers.0.as_slice()) {
        None => "null".to_owned(),
        Some([number]) => one(number),
        Some(several) => list(several.iter().map(one)),
    }
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

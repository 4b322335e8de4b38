//! What ranks hold after each step, as names of the contributions or as numbers.

use std::fmt;

use serde::Serialize;

use super::Step;
use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::model::replay::{Content, Numbers, Ranks, Replay};
use crate::model::schedule::{Layout, Schedule};

/// The maximum number of cells of all states together.
const MOST_CELLS: u64 = 1 << 18;

/// The maximum number of terms of all sums together.
const MOST_TERMS: u64 = 1 << 24;

/// What one rank holds of one chunk.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Cell {
    /// A chunk of one number.
    Number(f64),
    /// The numbers of a chunk.
    Numbers(Vec<f64>),
    /// The ranks' contributions in the order in which they were added, such as `v10+v00`.
    Sum(#[cfg_attr(feature = "schema", schemars(with = "String"))] Sum),
}

/// Contributions by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sum {
    /// The contributing ranks, in the order in which they were added.
    pub ranks: Vec<u32>,
    /// The part of each that contributes; absent if there is only one.
    pub part: Option<u32>,
    /// Whether rank and part need a point between them: there are more than ten of either.
    pub pointed: bool,
    /// Whether these are notifications, which are joined and not added.
    pub joined: bool,
}

impl Sum {
    /// The name of chunk `chunk` if each of `ranks` ranks has its own `parts` parts.
    #[must_use]
    pub fn of_part(chunk: u32, parts: u32, ranks: u32) -> Self {
        Self {
            ranks: vec![chunk / parts.max(1)],
            part: (parts > 1).then(|| chunk % parts),
            pointed: is_pointed(ranks, parts),
            joined: false,
        }
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, rank) in self.ranks.iter().enumerate() {
            if i > 0 {
                f.write_str(if self.joined { "|" } else { "+" })?;
            }
            match (self.part, self.pointed) {
                (Some(part), false) => write!(f, "v{rank}{part}")?,
                (Some(part), true) => write!(f, "v{rank}.{part}")?,
                (None, _) => write!(f, "v{rank}")?,
            }
        }
        Ok(())
    }
}

/// The contents found.
#[derive(Default)]
pub(super) struct Followed {
    pub start: Option<Vec<Vec<Option<Cell>>>>,
    pub whole_after_step: Option<u64>,
    pub owners: Vec<(u32, u32)>,
    /// Whether the states were too large.
    pub too_much: bool,
}

/// Puts the states into `steps`, or into the requested one.
pub(super) fn follow(
    schedule: &dyn Schedule,
    steps: &mut [Step],
    only: Option<u64>,
    data: Option<&[Vec<f64>]>,
) -> Result<Followed> {
    let frame = schedule.frame();
    let endpoints = u64::from(frame.ranks) + u64::from(frame.switches);
    let places = endpoints * u64::from(frame.chunks());
    if data.is_some() && frame.collective == Collective::Barrier {
        return Err(Error::input("a barrier carries no data")
            .at("--data")
            .help("leave it out: the state then shows which ranks have been heard from"));
    }
    let states = if only.is_some() { 1 } else { steps.len() as u64 + 1 };
    let cells = places.saturating_mul(states);
    if places.saturating_mul(frame.ranks.into()) > MOST_TERMS || cells > MOST_CELLS {
        if data.is_none() {
            return Ok(Followed { too_much: true, ..Followed::default() });
        }
        return Err(Error::input(format!("{cells} cells are too many to follow data in"))
            .at("--data")
            .help("ask for one --step, or for fewer ranks or segments"));
    }
    let mut names = Replay::of_ranks(schedule)?;
    let mut numbers = data.map(|rows| Replay::of_rows(schedule, rows)).transpose()?;
    let namer = Namer::new(schedule);
    let shown = |names: &Replay<'_, Ranks>, numbers: &Option<Replay<'_, Numbers>>| match numbers {
        Some(numbers) => state(numbers, endpoints, |numbers, _| number(numbers)),
        None => state(names, endpoints, |ranks, chunk| namer.cell(ranks, chunk)),
    };
    let asked = |step: u64| only.is_none_or(|only| only == step);
    let start = asked(0).then(|| shown(&names, &numbers));
    let mut followed = Followed { start, ..Followed::default() };
    for step in steps {
        let written = names.round(step.round)?;
        if let Some(numbers) = &mut numbers {
            numbers.round(step.round)?;
        }
        if asked(step.step) {
            let chunks = frame.chunks() as usize;
            // There are far fewer places than 2³².
            let of = |place: usize| ((place / chunks) as u32, (place % chunks) as u32);
            step.written = written.into_iter().map(of).collect();
            step.state = Some(shown(&names, &numbers));
        }
        if followed.whole_after_step.is_none() {
            let owners = owners(schedule, &names);
            if !owners.is_empty() {
                (followed.whole_after_step, followed.owners) = (Some(step.step), owners);
            }
        }
    }
    Ok(followed)
}

fn state<C: Content>(
    replay: &Replay<'_, C>,
    endpoints: u64,
    cell: impl Fn(&C, u32) -> Cell,
) -> Vec<Vec<Option<Cell>>> {
    let row = |place: u64| {
        let held = (0..).zip(replay.held(place as usize));
        held.map(|(chunk, content)| content.as_ref().map(|c| cell(c, chunk))).collect()
    };
    (0..endpoints).map(row).collect()
}

fn number(numbers: &Numbers) -> Cell {
    match numbers.0.as_slice() {
        [one] => Cell::Number(*one),
        _ => Cell::Numbers(numbers.0.clone()),
    }
}

/// Whether `v111` would be ambiguous.
fn is_pointed(ranks: u32, parts: u32) -> bool {
    ranks > 10 || parts > 10
}

/// The names of a schedule's chunks.
struct Namer {
    parts: u32,
    owned: bool,
    pointed: bool,
    joined: bool,
}

impl Namer {
    fn new(schedule: &dyn Schedule) -> Self {
        let frame = schedule.frame();
        Self {
            parts: frame.parts,
            owned: frame.layout == Layout::Owned,
            pointed: is_pointed(frame.ranks, frame.parts),
            joined: frame.collective == Collective::Barrier,
        }
    }

    fn cell(&self, ranks: &Ranks, chunk: u32) -> Cell {
        let part = if self.owned { chunk % self.parts } else { chunk };
        Cell::Sum(Sum {
            ranks: ranks.0.clone(),
            part: (self.parts > 1).then_some(part),
            pointed: self.pointed,
            joined: self.joined,
        })
    }
}

/// Rank and chunk of every complete sum, once each chunk is complete at one rank; empty before
/// that, if nothing is added, and if a rank has more than its part.
fn owners(schedule: &dyn Schedule, replay: &Replay<'_, Ranks>) -> Vec<(u32, u32)> {
    let frame = schedule.frame();
    let scattered = matches!(frame.collective, Collective::AllReduce | Collective::ReduceScatter);
    if !scattered || frame.layout == Layout::Owned || frame.parts < 2 {
        return Vec::new();
    }
    let mut owners = Vec::new();
    let mut times = vec![0; frame.chunks() as usize];
    for rank in 0..frame.ranks {
        for (chunk, content) in (0..).zip(replay.rank(rank)) {
            if content.as_ref().is_some_and(|c| c.0.len() == frame.ranks as usize) {
                owners.push((rank, chunk));
                times[chunk as usize] += 1;
            }
        }
    }
    if times.iter().all(|&t| t == 1) { owners } else { Vec::new() }
}

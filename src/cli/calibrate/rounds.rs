//! The file of a race's rounds: what was timed is never lost.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::kept::set_aside;
use crate::cli::input;
use collcost::answer::race::Entered;
use collcost::answer::tune::{Contender, Pick};
use collcost::base::error::{Error, Result};
use collcost::base::quantity::{Bytes, Seconds};
use collcost::library::Operation;
use collcost::run::mpi::{Heat, World};

/// The first line: whose rounds they are.
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
struct Header {
    /// The version of the format.
    race: u32,
    library: String,
    ranks: u32,
    nodes: u32,
}

/// Another line: who ran in a round, and for how long.
#[derive(Debug, Serialize, Deserialize)]
struct Round {
    op: String,
    #[serde(rename = "M")]
    size: u64,
    /// The name, empty for the library's own choice; bytes of a segment; the time in s.
    times: Vec<(String, u64, f64)>,
}

/// The file, and the rounds that it had.
pub(super) struct Rounds {
    file: Option<(PathBuf, File)>,
    before: Vec<Round>,
}

fn name(contender: &Contender) -> (&str, u64) {
    contender.pick.as_ref().map_or(("", 0), |pick| (&*pick.name, pick.segment.0))
}

impl Rounds {
    /// Opens the file, to go on with its rounds or to put it aside; without one nothing is kept.
    pub(super) fn open(path: Option<PathBuf>, goes_on: bool, world: &World) -> Result<Self> {
        let Some(path) = path else { return Ok(Self { file: None, before: Vec::new() }) };
        let cannot = |e: &std::io::Error| {
            Error::input(format!("the rounds cannot be kept: {e}")).at(path.display().to_string())
        };
        let library = world.version().lines().next().unwrap_or_default().to_owned();
        let header = Header { race: 1, library, ranks: world.ranks(), nodes: world.nodes() };
        let mut before = Vec::new();
        let mut is_new = !path.exists();
        if !is_new && goes_on {
            let text = input::text(&path).map_err(|e| cannot(&e))?;
            let mut lines = text.lines();
            let old = lines.next().and_then(|line| serde_json::from_str::<Header>(line).ok());
            if old.as_ref() != Some(&header) {
                return Err(Error::input("its rounds are not of this library on these ranks")
                    .at(path.display().to_string())
                    .help("leave out --resume, or name another file with --samples"));
            }
            // The last line may be torn.
            before.extend(lines.filter_map(|line| serde_json::from_str(line).ok()));
        } else if !is_new {
            set_aside(&path).map_err(|e| cannot(&e))?;
            is_new = true;
        }
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file = file.map_err(|e| cannot(&e))?;
        let mut rounds = Self { file: Some((path, file)), before };
        if is_new {
            rounds.line(&header)?;
        }
        Ok(rounds)
    }

    fn line(&mut self, line: &impl Serialize) -> Result<()> {
        let Some((path, file)) = &mut self.file else { return Ok(()) };
        let mut text = serde_json::to_string(line).unwrap_or_default();
        text.push('\n');
        file.write_all(text.as_bytes()).map_err(|e| {
            Error::lost(format!("the rounds cannot be kept: {e}")).at(path.display().to_string())
        })
    }

    /// What the file had of an operation at a size.
    fn of(&self, operation: Operation, size: Bytes) -> impl Iterator<Item = &Round> {
        let op = operation.to_string();
        self.before.iter().filter(move |round| round.op == op && round.size == size.0)
    }

    /// The sizes at which the file had rounds of an operation.
    pub(super) fn sizes(&self, operation: Operation) -> BTreeSet<Bytes> {
        let op = operation.to_string();
        self.before.iter().filter(|round| round.op == op).map(|round| Bytes(round.size)).collect()
    }

    /// Whether the file had a time of it.
    pub(super) fn has(&self, operation: Operation, size: Bytes, pick: &Pick) -> bool {
        let mut times = self.of(operation, size).flat_map(|round| &round.times);
        times.any(|(who, segment, _)| *who == pick.name && *segment == pick.segment.0)
    }

    /// Adds what the file had of a heat.
    pub(super) fn add(&self, entered: &Entered, heat: &mut Heat) {
        let place = |who: &str, segment: u64| {
            entered.contenders.iter().position(|c| name(c) == (who, segment))
        };
        for round in self.of(entered.operation, entered.size) {
            // What this machine's library does not offer cannot be gone on with.
            let times = round.times.iter();
            let known =
                times.filter_map(|(who, segment, s)| Some((place(who, *segment)?, Seconds(*s))));
            heat.add(&known.collect::<Vec<_>>());
        }
    }

    /// Keeps a round.
    pub(super) fn keep(&mut self, entered: &Entered, round: &[(usize, Seconds)]) -> Result<()> {
        let times = round.iter().map(|&(contender, time)| {
            let (who, segment) = name(&entered.contenders[contender]);
            (who.to_owned(), segment, time.0)
        });
        let (op, size) = (entered.operation.to_string(), entered.size.0);
        self.line(&Round { op, size, times: times.collect() })
    }

    /// Its path.
    pub(super) fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|(path, _)| path.as_path())
    }
}

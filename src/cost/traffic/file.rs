//! The job file: `{"jobs": [...]}`.
//!
//! ```json
//! {"jobs": [
//!   {"name": "dp", "collective": "allreduce", "algorithm": "ring", "size": "64MiB", "ranks": [0, 4]},
//!   {"name": "pp", "after": ["dp"], "messages": [{"id": "m0", "from": "g0", "to": "g4", "bytes": 4096}]}
//! ]}
//! ```

use std::collections::HashSet;

use serde::Deserialize;

use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::Bytes;
use crate::cost::simulate::Mode;
use crate::machine::graph::Amount;
use crate::model::operations::Operations;
use crate::model::schedule::{List, Schedule as _};

/// Jobs as written; the nodes that they name are checked when they run.
#[derive(Debug, Clone)]
pub struct Jobs(pub(super) Vec<Job>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    jobs: Vec<Job>,
}

#[derive(Deserialize, Debug, Clone, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct Job {
    pub name: String,
    pub start: Option<Amount>,
    #[serde(default)]
    pub after: Vec<String>,
    pub messages: Option<Vec<Message>>,
    pub collective: Option<String>,
    pub algorithm: Option<String>,
    pub size: Option<Amount>,
    pub ranks: Option<Vec<u32>>,
    pub mode: Option<String>,
    #[serde(skip)]
    pub played: Option<Played>,
    #[serde(skip)]
    pub list: Option<List>,
}

/// The operations of each rank, and the receive that each send matches.
#[derive(Debug, Clone)]
pub(super) struct Played {
    pub operations: Operations,
    pub messages: Vec<(u32, u32)>,
}

#[derive(Deserialize, Debug, Clone)]
#[serde(deny_unknown_fields)]
pub(super) struct Message {
    pub id: Option<String>,
    pub from: String,
    pub to: String,
    pub bytes: Amount,
    #[serde(default)]
    pub after: Vec<String>,
    pub at: Option<Amount>,
}

/// Reads a job file.
///
/// # Errors
/// Invalid JSON or form; duplicate job names; a job after one that does not precede it.
pub fn parse(text: &str, origin: &str) -> Result<Jobs> {
    let File { jobs } = serde_json::from_str(text).map_err(|e| {
        let help = "give JSON of messages and collectives, GOAL, or a Chakra trace by a rank's file (NAME.0.et)";
        Error::input(format!("the file is not one of jobs: {e}")).at(origin).help(help)
    })?;
    let mut before: HashSet<&str> = HashSet::new();
    for job in &jobs {
        let place = format!("{origin}, job {}", job.name);
        let unknown = job.after.iter().find(|name| !before.contains(name.as_str()));
        if !before.insert(&job.name) {
            return Err(Error::input(format!("two jobs are named `{}`", job.name)).at(place));
        }
        if let Some(name) = unknown {
            return Err(Error::input(format!("`{name}` is not an earlier job"))
                .at(place)
                .help("put the jobs that a job waits for before it in the file"));
        }
        if job.messages.is_some() == job.collective.is_some() {
            return Err(Error::input("a job has either messages or a collective").at(place));
        }
    }
    Ok(Jobs(jobs))
}

impl Jobs {
    /// One job of operations; each send has the number of its receive.
    #[must_use]
    pub fn of(name: &str, operations: Operations, messages: Vec<(u32, u32)>) -> Self {
        let played = Some(Played { operations, messages });
        Self(vec![Job { name: name.to_owned(), played, ..Job::default() }])
    }

    /// One collective over all ranks of a fabric, with nothing beside it.
    #[must_use]
    pub fn of_collective(
        collective: Collective,
        algorithm: &str,
        size: Bytes,
        mode: Option<Mode>,
    ) -> Self {
        let (id, size) = (collective.id(), Amount::Number(size.0 as f64));
        Self(vec![Job {
            name: format!("{id} {algorithm}"),
            collective: Some(id.to_owned()),
            algorithm: Some(algorithm.to_owned()),
            size: Some(size),
            mode: mode.map(|mode| mode.id().to_owned()),
            ..Job::default()
        }])
    }

    /// One schedule, over the first ranks of a fabric.
    #[must_use]
    pub fn of_schedule(name: &str, list: List, size: Bytes, mode: Option<Mode>) -> Self {
        Self(vec![Job {
            name: name.to_owned(),
            ranks: Some((0..list.ranks()).collect()),
            size: Some(Amount::Number(size.0 as f64)),
            mode: mode.map(|mode| mode.id().to_owned()),
            list: Some(list),
            ..Job::default()
        }])
    }

    /// The number of jobs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no jobs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Their names, in the order of the file.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|job| job.name.as_str())
    }

    /// The job with that number, as the only job.
    #[must_use]
    pub fn alone(&self, number: usize) -> Self {
        Self(vec![Job { after: Vec::new(), ..self.0[number].clone() }])
    }
}

impl Job {
    pub fn mode(&self) -> Result<Mode> {
        self.mode.as_deref().map_or(Ok(Mode::Flow), str::parse)
    }

    pub fn start(&self) -> Result<f64> {
        self.start.as_ref().map_or(Ok(0.0), |start| Ok(start.seconds("start")?.0))
    }
}

/// A size: bytes as a number, or with a unit.
pub(super) fn bytes(size: &Amount) -> Result<f64> {
    match size {
        Amount::Text(text) => Ok(text.parse::<Bytes>()?.0 as f64),
        Amount::Number(x) if x.is_finite() && *x >= 0.0 => Ok(*x),
        Amount::Number(x) => Err(Error::input(format!("`{x}` is not a size"))),
    }
}

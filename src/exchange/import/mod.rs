//! What other programs wrote, one file a format: schedules, tuning files, NCCL's graphs and logs,
//! logs of benchmarks.
//!
//! Tuning files become the tables of [`rules`](crate::library::rules); what a library would drop without a
//! word is an error here.
//!
//! A reader of schedules turns text into messages with what must come before each, and those into
//! rounds: a message's round is the first that its data, and what it overwrites, allow. Whether
//! the messages do what their collective promises is for [`verify`](crate::model::schedule::verify()) to
//! say.

mod events;
mod goal;
pub mod logs;
mod mpich_json;
mod msccl;
pub mod nccl_graphs;
pub mod nccl_log;
pub mod nccl_topology;
mod nccl_tuner_csv;
mod openmpi_rules;
mod order;
pub mod samples_csv;
mod xml;

use crate::base::error::{Error, Result};
use crate::base::quantity::Bytes;
use crate::library::rules::{TuningFile, mpich, nccl, openmpi};
use crate::model::schedule::{Endpoint, Fault, Frame, List, Op, Run, Schedule, Sends};

/// A schedule from a file.
#[derive(Debug, Clone)]
pub struct Foreign {
    /// The messages.
    pub list: List,
    /// M, where the file says it.
    pub size: Option<Bytes>,
    /// The line of each message of the list.
    lines: Vec<usize>,
}

/// A format.
struct Format {
    is: fn(&str) -> bool,
    read: fn(&str) -> std::result::Result<Foreign, Refused>,
}

/// Every format; the first whose text it looks like reads it.
static FORMATS: &[Format] = &[
    Format { is: msccl::is, read: msccl::read },
    Format { is: events::is, read: events::read },
    Format { is: goal::is, read: goal::read },
];

/// What is wrong with a text, and in which line.
#[derive(Debug, Clone)]
struct Refused {
    what: String,
    line: Option<usize>,
    mend: Option<String>,
    unsupported: bool,
}

impl Refused {
    fn at(line: usize, what: impl Into<String>) -> Self {
        Self { what: what.into(), line: Some(line), mend: None, unsupported: false }
    }

    fn mend(self, mend: impl Into<String>) -> Self {
        Self { mend: Some(mend.into()), ..self }
    }

    /// What the text says is well formed, but more than is understood.
    fn unsupported(self) -> Self {
        Self { unsupported: true, ..self }
    }

    /// The same as an error about a file.
    fn error(self, file: &str) -> Error {
        let Self { what, line, mend, unsupported } = self;
        let error = if unsupported { Error::unsupported(what) } else { Error::input(what) };
        let error = error.at(line.map_or(file.to_owned(), |line| format!("{file}:{line}")));
        match mend {
            Some(mend) => error.mend(mend),
            None => error,
        }
    }
}

/// Reads the text of `file`, in whichever format it is.
///
/// # Errors
/// A text in none of the formats; a message that is missing at one end, stands twice, waits for
/// itself or is not ordered against another that it must not meet, with its line; more chunks than
/// are followed.
pub fn read(text: &str, file: &str) -> Result<Foreign> {
    let format = FORMATS.iter().find(|format| (format.is)(text)).ok_or_else(|| {
        Error::input("the file holds no schedule").at(file).mend(
            "MSCCL's XML, GOAL with collcost's comments, or lines of `trace --events` are read",
        )
    })?;
    (format.read)(text).map_err(|refused| {
        refused.error(file).or_mend("correct the file, or export the schedule again")
    })
}

/// Reads a tuning file, in whichever library's format it is.
///
/// # Errors
/// As the reader of the format; text that looks like none of them.
pub fn read_rules(text: &str, file: &str) -> Result<TuningFile> {
    let lines = text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'));
    let first = lines.clone().next().unwrap_or("");
    let number = |c: char| c.is_ascii_digit();
    if first.starts_with('{') {
        read_mpich_json(text, file).map(TuningFile::Mpich)
    } else if first.starts_with(number) || first.starts_with(openmpi_rules::VERSION) {
        read_openmpi_rules(text, file).map(TuningFile::OpenMpi)
    } else if lines.clone().any(|l| l.contains(',')) {
        read_nccl_tuner_csv(text, file).map(TuningFile::Nccl)
    } else {
        Err(Error::input("the file holds no rules of a library").at(file).mend(
            "Open MPI's dynamic rules, MPICH's JSON or the CSV of NCCL's example plugin are read",
        ))
    }
}

/// Reads the dynamic rules of Open MPI's `coll/tuned`.
///
/// # Errors
/// What makes Open MPI drop the whole file or skip a part of it, both without a word; an algorithm
/// that it does not have; a rule that it never comes to.
pub fn read_openmpi_rules(text: &str, file: &str) -> Result<openmpi::Rules> {
    openmpi_rules::read(text).map_err(|refused| refused.error(file))
}

/// Reads a selection tree of MPICH.
///
/// # Errors
/// Text that is no JSON of objects; tests that MPICH does not have, or not for the collective;
/// lists of tests without a last one for all the rest; numbers that it would cut off.
pub fn read_mpich_json(text: &str, file: &str) -> Result<mpich::Tree> {
    mpich_json::read(text).map_err(|refused| refused.error(file))
}

/// Reads the table of NCCL's example tuner plugin.
///
/// # Errors
/// Lines that the plugin drops, and words that it takes for others, both without a word.
pub fn read_nccl_tuner_csv(text: &str, file: &str) -> Result<nccl::Rules> {
    nccl_tuner_csv::read(text).map_err(|refused| refused.error(file))
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
    /// The messages of a frame in schedule order; those of one sender in one round keep theirs.
    fn new(frame: Frame, owners: Option<&[u32]>, mut messages: Vec<Placed>) -> Self {
        let sender = |from: Endpoint| match from {
            Endpoint::Rank(rank) if frame.last_first => (0, u32::MAX - rank),
            Endpoint::Rank(rank) => (0, rank),
            Endpoint::Switch(switch) => (1, switch),
        };
        messages.sort_by_key(|message| (message.round, sender(message.from)));
        let mut list = List::new(frame);
        if let Some(owners) = owners {
            list = list.owned_as(&Owned { frame, owners });
        }
        for Placed { round, from, to, op, runs, .. } in &messages {
            list.push(*round, *from, *to, *op, runs);
        }
        Self { list, size: None, lines: messages.iter().map(|message| message.line).collect() }
    }

    /// The line of the message at fault; none where the fault shows at the end only.
    #[must_use]
    pub fn line_of(&self, fault: &Fault) -> Option<usize> {
        let (round, from, to) = (fault.round()?, fault.from()?, fault.to()?);
        let those = self.list.iter().zip(&self.lines).filter(|(message, _)| {
            let chunk = |c| message.runs.iter().any(|run| run.chunks().contains(&c));
            message.round == round
                && (message.from, message.to) == (from, to)
                && fault.chunk().is_none_or(chunk)
        });
        // Of two messages that write one chunk the second is the one too many.
        those.last().map(|(_, &line)| line)
    }
}

/// Who owns which chunk, and nothing sent.
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

//! Schedules in the formats of other programs, one file per format.
//!
//! To add one, write a file next to `goal.rs`, its `mod` line and one line in [`FORMATS`]. Its
//! reader goes into `import`; a test writes every schedule and reads it back.

mod goal;
mod msccl;

use std::fmt;

use crate::base::error::{Error, Result, did_you_mean};
use crate::base::quantity::{Bytes, SecondsPerByte};
use crate::model::schedule::{Schedule, sends_more_than};

/// The schedule to write, with its context.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    /// Who sends what to whom.
    pub schedule: &'a dyn Schedule,
    /// A name for it: letters, digits and `-`.
    pub name: &'a str,
    /// M, for formats that count bytes.
    pub size: Bytes,
    /// γ, for formats that time additions.
    pub gamma: Option<SecondsPerByte>,
}

/// A format.
pub struct Format {
    /// The name by which it is requested.
    pub id: &'static str,
    /// The program that reads it, and which parts of a schedule it cannot hold.
    pub summary: &'static str,
    write: for<'a> fn(&Job<'a>) -> Result<Written<'a>>,
}

/// A file to be. Its text is what it displays: made line by line, since that of millions of messages takes more
/// memory than they do.
pub struct Written<'a> {
    text: Box<dyn fmt::Display + 'a>,
    /// Limits of the program that reads it which the schedule exceeds.
    pub notes: Vec<String>,
}

impl fmt::Display for Written<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

/// Every format.
pub static FORMATS: &[Format] = &[
    Format {
        id: "msccl",
        summary: "MSCCL's XML, for msccl-scheduler; no switches, no barrier, no send/recv",
        write: msccl::write,
    },
    Format {
        id: "goal",
        summary: "GOAL, for LogGOPSim's txt2bin; no switches; which data travel is in comments",
        write: goal::write,
    },
];

impl Format {
    /// The format of that name.
    ///
    /// # Errors
    /// An unknown name; the error contains the nearest one.
    pub fn named(name: &str) -> Result<&'static Self> {
        FORMATS.iter().find(|format| format.id == name).ok_or_else(|| {
            let known: Vec<_> = FORMATS.iter().map(|format| format.id).collect();
            Error::input(format!("`{name}` is not a format")).help(did_you_mean(
                name,
                known.iter().copied(),
                || format!("known formats: {}", known.join(", ")),
            ))
        })
    }

    /// The file.
    ///
    /// # Errors
    /// A schedule that the format cannot hold; more than 2²² messages.
    pub fn write<'a>(&self, job: &Job<'a>) -> Result<Written<'a>> {
        let schedule = job.schedule;
        if schedule.switches() > 0 {
            return Err(Error::unsupported(format!("{} knows no switches", self.id)));
        }
        if sends_more_than(schedule, MOST) {
            return Err(Error::input(format!(
                "more than {MOST} messages make a file of more than {} MiB",
                (MOST * BYTES) >> 20
            ))
            .help("ask for fewer ranks or segments"));
        }
        (self.write)(job)
    }
}

/// The most messages that are written, and the least bytes that one takes.
const MOST: u64 = 1 << 22;
const BYTES: u64 = 150;

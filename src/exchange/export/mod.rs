//! Schedules in the formats of other programs, one file a format.
//!
//! To add one, write a file beside `goal.rs`, its `mod` line and one line in [`FORMATS`]; its reader
//! goes into `import`, and a test writes and reads back every schedule.

mod goal;
mod msccl;

use crate::base::error::{Error, Result, did_you_mean};
use crate::base::quantity::{Bytes, SecondsPerByte};
use crate::model::schedule::{Schedule, sends_more_than};

/// What is written.
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
    /// How it is asked for.
    pub id: &'static str,
    /// What reads it, and what of a schedule it cannot hold.
    pub summary: &'static str,
    write: fn(&Job<'_>) -> Result<String>,
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
    /// There is none, with the nearest.
    pub fn named(name: &str) -> Result<&'static Self> {
        FORMATS.iter().find(|format| format.id == name).ok_or_else(|| {
            let known: Vec<_> = FORMATS.iter().map(|format| format.id).collect();
            Error::input(format!("`{name}` is no format")).help(did_you_mean(
                name,
                known.iter().copied(),
                || format!("known are {}", known.join(", ")),
            ))
        })
    }

    /// The file's text.
    ///
    /// # Errors
    /// What the format cannot hold; more than 2²² messages.
    pub fn write(&self, job: &Job<'_>) -> Result<String> {
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

/// Messages that are written at most, and the bytes that one makes at least.
const MOST: u64 = 1 << 22;
const BYTES: u64 = 150;

//! Timed runs: what was run, on how many ranks, with how many bytes, and how long it took.
//!
//! Measurements write them, importers create them, the fit reads them; they are the only interface
//! between the three. The file format is in [`file`].

mod file;
mod op;

pub use crate::base::dtype::DataType;
pub use file::{Header, LaunchRecord, Record, Writer, read};
pub use op::{Chosen, Device, Forced, Library, Op, Run, partner, rounds};

use std::num::NonZeroU32;

use crate::base::error::{Error, Result};
use crate::base::quantity::{Bandwidth, Bytes, Ratio, Seconds};
use crate::base::stats::quantile;
use crate::base::words::{one_of, words};
use crate::machine::link::Bucket;

/// How the runs of a block followed each other.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Default,
    serde::Deserialize,
    serde::Serialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Each run starts when all ranks have ended the one before.
    #[default]
    #[serde(rename = "iso")]
    Isolated,
    /// One run follows the other without a pause.
    Stream,
}

/// Which clock a time was read from.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Deserialize, serde::Serialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// The host's: what a program sees, with starting and waiting.
    #[default]
    Host,
    /// A GPU's, by events in its stream: the time that the GPU is busy.
    Event,
}

words! {
    /// How a rank waits for data.
    #[derive(Hash, serde::Deserialize)]
    pub enum Wait {
        /// It polls without a pause; right only if every rank has its own CPU.
        Spin = "spin",
        /// It yields to others, and sleeps until data arrives.
        Poll = "poll",
    }
}

impl std::str::FromStr for Wait {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        one_of(text, "a way to wait", Self::ALL.map(|wait| (wait.id(), wait)))
    }
}

/// One timed run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// From the first rank's start to the last rank's end.
    pub span: Seconds,
    /// Whether a rank started so late that the span contains more than the operation.
    pub late: bool,
    /// How long the ranks together were ready to run without a CPU; absent if unknown.
    pub run_delay: Option<Seconds>,
    /// For how much of it, at most, all ranks had a CPU; absent if unknown.
    pub with_cpus: Option<Seconds>,
}

impl Sample {
    /// One of which only the time is known.
    #[must_use]
    pub fn of(span: Seconds) -> Self {
        Self { span, late: false, run_delay: None, with_cpus: None }
    }

    /// Whether it started in time and no rank lost its CPU to others; `inner` operations took the time
    /// that was divided by their number.
    #[must_use]
    pub fn is_quiet(&self, inner: u32) -> bool {
        !self.late && !self.lost_cpu(inner)
    }

    /// Whether a rank was ready but had no CPU for a tenth of a run, and for longer than a wake-up
    /// takes.
    fn lost_cpu(&self, inner: u32) -> bool {
        let whole = f64::from(inner);
        self.run_delay.is_some_and(|delay| delay.0 * whole > WAKING && delay.0 > LOST * self.span.0)
    }
}

/// A CPU that other processes took returns after their time slice, which is milliseconds; an idle
/// one wakes within this time.
const WAKING: f64 = 100e-6;

/// The part of a run that a rank may lose.
const LOST: f64 = 0.1;

/// In s: a rank that gets its CPU back spends a tenth of a millisecond on that and on caches that others
/// filled. Runs of far more are known without the time for which they had no CPU.
const SWITCHED: f64 = 1e-3;

/// Fewer undisturbed runs give no median.
pub const LEAST_QUIET: usize = 3;

/// In a disturbed block, ranks waited for CPUs for a larger part of its time than this.
const DISTURBED: f64 = 0.25;

/// Runs of one operation with one size, one after another in one process launch.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// What was run.
    pub op: Op,
    /// N.
    pub ranks: u32,
    /// The number of nodes; absent if not given.
    pub nodes: Option<u32>,
    /// M, as nccl-tests counts it.
    pub size: Bytes,
    /// Which launch of the processes, from 0.
    pub launch: u32,
    /// Which block of the plan, from 0.
    pub block: u32,
    /// How the runs followed each other.
    pub mode: Mode,
    /// The number of operations between two readings of the clock; a sample is that time divided by
    /// it.
    pub inner: u32,
    /// Involuntary context switches of all ranks during the block; absent if unknown.
    pub preempted: Option<u64>,
    /// The clock of the times.
    pub clock: Clock,
    /// The algorithm and protocol that NCCL used according to its log; absent if unknown.
    pub chose: Option<Chosen>,
    /// The runs in chronological order.
    pub samples: Vec<Sample>,
}

impl Block {
    /// Whether a forced algorithm and protocol were actually used; true if none was forced.
    #[must_use]
    pub fn is_confirmed(&self) -> bool {
        match &self.op {
            Op::Forced(forced) => self.chose == Some(forced.chosen),
            _ => true,
        }
    }

    /// The part of its time for which ranks waited for a CPU, summed over the ranks.
    #[must_use]
    pub fn run_delay(&self) -> Option<Ratio> {
        let span: f64 = self.samples.iter().map(|s| s.span.0).sum();
        let waited: Option<f64> = self.samples.iter().map(|s| s.run_delay.map(|r| r.0)).sum();
        waited.filter(|_| span > 0.0).map(|waited| Ratio(waited / span))
    }

    /// Whether ranks waited for CPUs more than usual; `beside` is the usual part.
    #[must_use]
    pub fn is_disturbed(&self, beside: Ratio) -> bool {
        self.run_delay().is_some_and(|part| part.0 - beside.0 > DISTURBED)
    }

    /// The spans of the runs that started in time and in which no rank lost its CPU to others.
    #[must_use]
    pub fn quiet(&self) -> Vec<Seconds> {
        self.samples.iter().filter(|s| s.is_quiet(self.inner)).map(|s| s.span).collect()
    }

    /// Of the runs that started in time, for how long, at most, all ranks had a CPU.
    #[must_use]
    pub fn with_cpus(&self) -> Vec<Seconds> {
        self.samples.iter().filter(|s| !s.late).filter_map(|s| s.with_cpus).collect()
    }

    /// The spans of the runs that did not start late; all of them if every run did.
    #[must_use]
    pub fn spans(&self) -> Vec<Seconds> {
        let all = || self.samples.iter().map(|s| s.span);
        let punctual: Vec<Seconds> =
            self.samples.iter().filter(|s| !s.late).map(|s| s.span).collect();
        if punctual.is_empty() { all().collect() } else { punctual }
    }
}

/// Whether these times with CPUs ([`Block::with_cpus`]), sorted, say how long a run takes that others leave
/// alone: there are enough of them, and the time that a rank needs to go on is a small part.
pub(crate) fn tell(with_cpus: &[f64]) -> bool {
    with_cpus.len() >= LEAST_QUIET && quantile(with_cpus, 0.5) > SWITCHED
}

/// How and on what the samples were taken; what is unknown is absent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Origin {
    /// The file, or several.
    pub files: Vec<String>,
    /// The command that measured.
    pub command: Option<String>,
    /// The day, as 2026-11-20.
    pub date: Option<String>,
    /// The communication library with its version, if one chose what ran.
    pub library: Option<String>,
    /// How data moved: `shm`, `tcp`.
    pub transport: Option<String>,
    /// How ranks waited.
    pub wait: Option<Wait>,
    /// The machine in words: host, processor, kernel.
    pub machine: Option<String>,
    /// Identifies the machine: samples of one machine have the same fingerprint.
    pub fingerprint: Option<String>,
    /// The ranks of a group, if only links inside such groups were measured.
    pub span: Option<NonZeroU32>,
}

/// Samples with their origin.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Samples {
    /// How and on what.
    pub origin: Origin,
    /// The blocks in chronological order.
    pub blocks: Vec<Block>,
    /// Operations of the file that no fit supports, with their number of blocks.
    pub left_out: Vec<(String, usize)>,
    /// Why launches ended early, in chronological order.
    pub aborted: Vec<String>,
    /// Whether the file's last line is torn: a block was lost while it was written.
    pub torn: bool,
    /// The token bucket that was found before anything was timed.
    pub bucket: Option<Bucket>,
    /// The rate at which data flowed for a while without a pause, before anything was timed.
    pub stream: Option<Bandwidth>,
    /// Which ranks and links are slower than the others, in words.
    pub slow: Vec<String>,
    /// Ports that the ranks of a group share, if links between groups were measured.
    pub nics: Option<NonZeroU32>,
    /// Blocks of the ranks of all groups, if links between one rank of each were measured.
    pub whole: Vec<Block>,
    /// What to know before trusting the times, each with the log that it is about.
    pub notes: Vec<String>,
}

/// The run of samples that were imported from logs: several imports have it.
pub const IMPORT: &str = "import";

/// Ends the words for a machine that runs under a hypervisor.
pub const VIRTUAL: &str = ", virtual";

impl Origin {
    /// Whether data moved through memory that ranks share.
    #[must_use]
    pub fn is_in_memory(&self) -> bool {
        self.transport.as_deref() == Some("shm")
    }

    /// Whether the machine is said to run under a hypervisor.
    #[must_use]
    pub fn is_virtual(&self) -> bool {
        self.machine.as_deref().is_some_and(|words| words.ends_with(VIRTUAL))
    }
}

impl Samples {
    /// Whether both are of one machine.
    ///
    /// # Errors
    /// They are not.
    pub fn is_of(&self, other: &Self) -> Result<()> {
        let fingerprint = |samples: &Self| samples.origin.fingerprint.clone();
        self.agree(other, "machine", fingerprint)
    }

    fn agree(&self, other: &Self, what: &str, of: fn(&Self) -> Option<String>) -> Result<()> {
        let file = |samples: &Self| samples.origin.files.join(", ");
        match (of(self), of(other)) {
            (Some(a), Some(b)) if a != b => {
                Err(Error::input(format!("samples of another {what}: `{b}`, not `{a}`"))
                    .at(format!("{}, after {}", file(other), file(self)))
                    .help("fit the files separately: a profile describes one machine"))
            }
            _ => Ok(()),
        }
    }

    /// Merges both.
    ///
    /// # Errors
    /// Samples of another machine, over another transport, or of groups of another size.
    pub fn join(mut self, other: Self) -> Result<Self> {
        self.is_of(&other)?;
        self.agree(&other, "transport", |samples| samples.origin.transport.clone())?;
        self.agree(&other, "group size", |samples| Some(samples.origin.span?.to_string()))?;
        // Launches of another file are distinct.
        let next = self.launches();
        let moved = other.blocks.into_iter().map(|b| Block { launch: b.launch + next, ..b });
        self.blocks.extend(moved);
        self.left_out.extend(other.left_out);
        self.aborted.extend(other.aborted);
        self.torn |= other.torn;
        self.bucket = self.bucket.or(other.bucket);
        self.stream = self.stream.or(other.stream);
        self.nics = self.nics.or(other.nics);
        self.whole.extend(other.whole);
        self.slow.extend(other.slow);
        self.notes.extend(other.notes);
        let (own, new) = (&mut self.origin, other.origin);
        own.files.extend(new.files);
        own.command = own.command.take().or(new.command);
        own.date = own.date.take().max(new.date);
        own.library = match (own.library.take(), new.library) {
            (Some(a), Some(b)) if !a.split(", ").any(|known| known == b) => {
                Some(format!("{a}, {b}"))
            }
            (a, b) => a.or(b),
        };
        own.transport = own.transport.take().or(new.transport);
        own.wait = own.wait.or(new.wait);
        own.machine = own.machine.take().or(new.machine);
        own.fingerprint = own.fingerprint.take().or(new.fingerprint);
        Ok(self)
    }

    /// How many launches there were.
    #[must_use]
    pub fn launches(&self) -> u32 {
        self.blocks.iter().map(|block| block.launch + 1).max().unwrap_or(0)
    }

    /// How many runs were timed.
    #[must_use]
    pub fn count(&self) -> usize {
        self.blocks.iter().map(|b| b.samples.len()).sum()
    }
}

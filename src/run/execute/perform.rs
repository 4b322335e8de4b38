//! One rank's part of a block of repetitions.
//!
//! ```text
//!   fill, run, check        once, before the first that counts
//!   spill                   data that empty a token bucket, before the first that counts
//!   ┌ start together        a window: all begin at a time that rank 0 sets; or a barrier
//!   │ read the clock, run the steps, read the clock
//!   └ again
//! ```

use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::clocks::{Clock, compare};
use super::contents::{Wrong, check, fill, wipe};
use super::program::Program;
use super::spill::Spill;
use crate::base::quantity::Bytes;
use crate::run::transport::{Fault, Incoming, Landing, Outgoing, Part, Step, Transport};

/// The slowest rate at which a rank fills or checks its buffer, in bytes per second.
const SLOWEST: f64 = 5e6;

/// How repetitions start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Start {
    /// After a dissemination barrier, each rank as it leaves it.
    Barrier,
    /// At a time that rank 0 sets, until which all ranks spin: they start within a fraction of a
    /// microsecond. Correct only on one host, and if every rank has its own CPU.
    Window,
}

/// When results are checked, always outside the timing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Check {
    /// Never in this block: another block of the same operation and size was checked.
    Not,
    /// Before the first repetition that counts, in a separate run.
    Once,
    /// Once before, and every repetition, on buffers that are refilled; possible only if the
    /// operation runs once between two readings of the clock.
    Each,
}

/// What one rank is to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Its steps.
    pub program: Program,
    /// How it repeats them.
    #[serde(flatten)]
    pub repeats: Repeats,
}

/// How a rank repeats its steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repeats {
    /// Repetitions before the first that counts.
    pub warm: u32,
    /// Repetitions that count.
    pub reps: u32,
    /// How often the steps run between two readings of the clock.
    pub inner: u32,
    /// How repetitions start.
    pub start: Start,
    /// When results are checked.
    pub check: Check,
    /// How many bytes each rank sends to the next right before the first repetition that counts, to
    /// empty a token bucket; no more than [`MOST_SPILLED`](super::MOST_SPILLED).
    pub spill: u64,
    /// How long a step may be silent.
    pub patience: Duration,
    /// Ranks whose clock differs from rank 0's; the same list on all ranks.
    pub apart: Vec<u32>,
}

/// The record of one rank, one value per repetition that counts; times in ns of `CLOCK_MONOTONIC`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Record {
    /// When it began each repetition.
    pub starts: Vec<u64>,
    /// When it finished each repetition.
    pub ends: Vec<u64>,
    /// When it should have begun; 0 after a barrier.
    pub due: Vec<u64>,
    /// How long it waited for a CPU during the repetition, in ns.
    pub run_delay: Vec<u64>,
    /// Involuntary context switches during the block.
    pub switches: u64,
    /// Results that were compared.
    pub checked: u64,
    /// The median delay of messages delayed on purpose, in ns; absent if they were not.
    pub held_up: Option<u64>,
    /// Other ranks' clocks, before the block and after it; only rank 0 has them.
    pub clocks: Vec<Clock>,
}

/// Where in a block an event happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// While buffers were made or filled.
    Filling,
    /// While data flowed to empty a token bucket.
    Spilling,
    /// In the barrier before a repetition.
    Barrier,
    /// In this step of the schedule, counted from 1, of that many.
    Step(usize, usize),
    /// While the result was read.
    Checking,
    /// While clocks were compared.
    Clocks,
}

/// Why a block failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Failure {
    /// A step did not end.
    Lost(Stage, Fault),
    /// The result was wrong.
    Wrong(Wrong),
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Filling => f.write_str("filling its buffer"),
            Self::Spilling => f.write_str("emptying a token bucket"),
            Self::Barrier => f.write_str("the barrier before a repetition"),
            Self::Step(step, of) => write!(f, "step {step} of {of}"),
            Self::Checking => f.write_str("checking its result"),
            Self::Clocks => f.write_str("comparing clocks"),
        }
    }
}

/// Executes one rank's part of a block.
///
/// # Errors
/// A step that did not end, or a wrong result.
pub fn perform(transport: &mut dyn Transport, work: &Work) -> Result<Record, Failure> {
    let Work { program, repeats: work } = work;
    // Other ranks may still be filling or checking a buffer of the same size.
    let handling = Duration::from_secs_f64(program.bytes as f64 / SLOWEST);
    let mut meeting = Meeting::new(transport, program.bytes, work.patience + handling);
    let filling = |fault| Failure::Lost(Stage::Filling, fault);
    let of = (transport.rank(), transport.ranks());
    let spill = Spill::new(Bytes(work.spill), meeting.bytes(), of);
    transport.allocate(spill.end()).map_err(filling)?;
    if work.check == Check::Not {
        wipe(transport, program).map_err(filling)?;
    }
    let at = meeting.at;
    let look = |transport: &mut dyn Transport| {
        compare(transport, &work.apart, at, work.patience + handling)
            .map_err(|fault| Failure::Lost(Stage::Clocks, fault))
    };
    let mut record = Record { clocks: look(transport)?, ..Record::default() };
    let (delay, switches) = (Delay::open(), switches());
    let each = work.check == Check::Each && work.inner <= 1;
    // A first run that is checked never counts.
    let once = work.check != Check::Not;
    let before = u64::from(once) + u64::from(work.warm);
    for rep in 0..before + u64::from(work.reps) {
        let is_checked = once && rep == 0 || each;
        if is_checked {
            fill(transport, program).map_err(filling)?;
        }
        // Last of all, so that the bucket has no time to fill again. Only a barrier follows.
        if rep == before {
            spill
                .flow(transport, work.patience + handling)
                .map_err(|fault| Failure::Lost(Stage::Spilling, fault))?;
        }
        let due = meeting.meet(transport, work.start);
        let due = due.map_err(|fault| Failure::Lost(Stage::Barrier, fault))?;
        let waited = delay.read();
        wait_until(due);
        let begin = now();
        let inner = if is_checked { 1 } else { work.inner.max(1) };
        for _ in 0..inner {
            run(transport, program, work.patience)?;
        }
        let end = now();
        if rep >= before {
            record.starts.push(begin);
            record.ends.push(end);
            record.due.push(due);
            record.run_delay.push(delay.read().saturating_sub(waited));
        }
        if is_checked {
            let found = check(transport, program);
            if let Some(wrong) = found.map_err(|fault| Failure::Lost(Stage::Checking, fault))? {
                return Err(Failure::Wrong(wrong));
            }
            record.checked += 1;
        }
    }
    record.clocks.extend(look(transport)?);
    record.switches = self::switches().saturating_sub(switches);
    Ok(record)
}

fn run(
    transport: &mut dyn Transport,
    program: &Program,
    patience: Duration,
) -> Result<(), Failure> {
    for (i, step) in program.steps.iter().enumerate() {
        let stage = Stage::Step(i + 1, program.steps.len());
        transport.step(step, patience).map_err(|fault| Failure::Lost(stage, fault))?;
    }
    Ok(())
}

/// A window begins at least this many ns from now: rank 0 tells the others, and each reads how long
/// it waited for a CPU before it waits for the start.
const SOON: u64 = 12_000;

/// How ranks synchronize before a repetition.
struct Meeting {
    /// A dissemination barrier (Hensgen, Finkel, Manber, IJPP 17(1) 1988).
    barrier: Vec<Step>,
    /// Rank 0 tells all others the time.
    tell: Step,
    /// Where the time is stored, after the buffer.
    at: usize,
    patience: Duration,
    /// The shortest barrier, in ns.
    least: u64,
}

impl Meeting {
    fn new(transport: &dyn Transport, bytes: usize, patience: Duration) -> Self {
        let (rank, ranks) = (transport.rank(), transport.ranks());
        let at = bytes.next_multiple_of(64);
        let distances = std::iter::successors(Some(1_u32), |d| d.checked_mul(2));
        let barrier = distances
            .take_while(|&distance| distance < ranks)
            .map(|distance| Step {
                sends: vec![Outgoing { to: (rank + distance) % ranks, spans: Vec::new() }],
                receives: vec![Incoming {
                    from: (rank + ranks - distance) % ranks,
                    parts: Vec::new(),
                    landing: Landing::Direct,
                }],
                local: Vec::new(),
            })
            .collect();
        let word = at..at + 8;
        let mut tell = Step::default();
        if rank == 0 {
            let to_each = |to| Outgoing { to, spans: vec![word.clone()] };
            tell.sends = (1..ranks).map(to_each).collect();
        } else {
            let part = Part { span: word, action: crate::run::transport::Action::Store };
            let landing = Landing::Direct;
            tell.receives = vec![Incoming { from: 0, parts: vec![part], landing }];
        }
        Self { barrier, tell, at, patience, least: u64::MAX }
    }

    /// The buffer and the time after it.
    fn bytes(&self) -> usize {
        self.at + 64
    }

    /// Synchronizes all ranks; returns when to start, 0 for at once.
    fn meet(&mut self, transport: &mut dyn Transport, start: Start) -> Result<u64, Fault> {
        let began = now();
        for step in &self.barrier {
            transport.step(step, self.patience)?;
        }
        if start == Start::Barrier {
            return Ok(0);
        }
        let after = now();
        self.least = self.least.min(after - began);
        let due = after + (4 * self.least).max(SOON);
        transport.write(self.at, &due.to_ne_bytes())?;
        transport.step(&self.tell, self.patience)?;
        let mut word = [0; 8];
        transport.read(self.at, &mut word)?;
        Ok(u64::from_ne_bytes(word))
    }
}

/// Sleeps until shortly before `due`, then spins.
fn wait_until(due: u64) {
    const SPUN: u64 = 60_000;
    let left = due.saturating_sub(now());
    if left > 2 * SPUN {
        std::thread::sleep(Duration::from_nanos(left - SPUN));
    }
    while now() < due {
        std::hint::spin_loop();
    }
}

/// The host's clock, in ns.
pub(super) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// How long this thread has waited for a CPU, in ns; 0 if the kernel does not report it.
struct Delay(Option<File>);

impl Delay {
    fn open() -> Self {
        Self(File::open("/proc/thread-self/schedstat").ok())
    }

    /// The second field; one read of a file that stays open.
    fn read(&self) -> u64 {
        let mut text = [0; 96];
        let Some(Ok(bytes)) = self.0.as_ref().map(|file| file.read_at(&mut text, 0)) else {
            return 0;
        };
        let text = std::str::from_utf8(&text[..bytes]).unwrap_or_default();
        text.split_ascii_whitespace().nth(1).and_then(|field| field.parse().ok()).unwrap_or(0)
    }
}

/// Involuntary context switches of this thread; 0 if the kernel does not report them.
fn switches() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

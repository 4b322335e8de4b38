//! What the measuring process and those with GPUs say to each other.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::nccl::Release;
use super::pace::{Pace, name};

/// What a process is for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Task {
    /// The files that may be NCCL; none where it is not needed.
    pub(super) library: Vec<PathBuf>,
    pub(super) job: Job,
}

/// What it does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Job {
    /// Look at the GPUs, and at NCCL where files are named.
    Look,
    /// Time what GPUs do by themselves.
    Survey { largest: u64 },
    /// Be ranks of NCCL: `first` and on of `ranks`, one on each of `gpus`, with buffers that NCCL knows
    /// where they are `registered`.
    Nccl { gpus: Vec<u32>, ranks: u32, first: u32, largest: u64, registered: bool },
}

/// A block to be timed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Timing {
    /// The operation, as samples name it.
    pub(super) op: String,
    pub(super) size: u64,
    /// Runs before the first that counts.
    pub(super) warm: u32,
    /// Runs that count, on each clock.
    pub(super) reps: u32,
    /// How many follow each other between two readings of the GPU's clock.
    pub(super) inner: u32,
    /// How many such rows keep the GPUs busy while their clocks are read.
    pub(super) hold: u32,
    /// Whether the result is compared first.
    pub(super) check: bool,
}

/// To the process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// The first: with which process it ends, and what it is for.
    Hello { parent: i32, task: Task },
    /// The communicator's id, the same for all ranks.
    Id(Vec<u8>),
    /// A block.
    Time(Timing),
}

/// To a process on another host, through the rank there.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FarOrder {
    /// Starts it, the how many-th, with what the set of a number tells NCCL.
    Start { run: u32, set: Option<usize>, job: Job },
    /// The communicator's id.
    Id(Vec<u8>),
    /// A block.
    Time(Timing),
    /// It is to end.
    Stop,
}

/// From a process on another host, of its how many-th start.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FarNews {
    /// What it answered.
    Said(u32, Answer),
    /// It has ended, and how.
    Ended(u32, String),
}

/// From the process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    /// An id that rank 0 made, or none of another rank; the common one is awaited.
    Id(Option<Vec<u8>>),
    /// It is ready.
    Ready(Facts),
    /// The times of the host and of the GPU, in ns, of one run each; how fast the GPUs were; whether
    /// what was timed was captured before.
    Timed { host: Vec<f64>, event: Vec<f64>, pace: Option<Pace>, captured: bool },
    /// The result is wrong.
    Wrong(String),
    /// This machine does not let it.
    Refused(String),
}

/// What a process sees.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// The GPUs by their makers' names.
    pub gpus: Vec<String>,
    /// Which they are, in all the world.
    pub ids: Vec<String>,
    /// The version of CUDA that the driver has.
    pub driver: String,
    /// NCCL's version, where it was loaded.
    pub nccl: Option<Release>,
    /// Collectives that it does not have.
    pub lacks: Vec<String>,
    /// The bytes of each GPU's memory that are free.
    pub free: Vec<u64>,
    /// Whether the first GPU reaches the memory of the second by itself, by rows.
    pub reach: Vec<Vec<bool>>,
}

impl Facts {
    /// The GPUs in words, those that follow each other and are alike together: `8 x NVIDIA H100`. A
    /// part of one (MIG) is named by its number too, for another part of it is another machine.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        let mut at = 0;
        for of in self.gpus.chunk_by(|a, b| a == b) {
            let mut text = format!("{} x {}", of.len(), of[0]);
            if of[0].contains(" MIG ") {
                let ids = self.ids.iter().skip(at).take(of.len());
                let ids: Vec<String> = ids.map(|id| format!("MIG-{}", name(id))).collect();
                text += &format!(" ({})", ids.join(", "));
            }
            words.push(text);
            at += of.len();
        }
        words
    }
}

//! The messages between the measuring process and those with GPUs.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::nccl::Release;
use super::pace::{Pace, name};
use crate::base::error::Error;

/// The job of a process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Task {
    /// Candidate files for NCCL; empty if it is not needed.
    pub(super) library: Vec<PathBuf>,
    pub(super) job: Job,
}

/// What it does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Job {
    /// Inspect the GPUs, and NCCL if files are given.
    Look,
    /// Time operations of GPUs without NCCL.
    Survey { largest: u64 },
    /// Serve as NCCL ranks: those from `first` on of `ranks`, one on each of `gpus`, with buffers
    /// that NCCL registers if `registered`.
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
    /// How many run back to back between two readings of the GPU's clock.
    pub(super) inner: u32,
    /// How many such rows keep the GPUs busy while their clock rates are read.
    pub(super) hold: u32,
    /// Whether the result is compared first.
    pub(super) check: bool,
}

/// To the process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// The first message: the parent with which it ends, and its task.
    Hello { parent: i32, task: Task },
    /// The communicator's id, the same for all ranks.
    Id(Vec<u8>),
    /// A block.
    Time(Timing),
}

/// To a process on another host, through its host's rank.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FarOrder {
    /// Starts process number `run`, with the NCCL settings of this set.
    Start { run: u32, set: Option<usize>, job: Job },
    /// The communicator's id.
    Id(Vec<u8>),
    /// A block.
    Time(Timing),
    /// Ends it.
    Stop,
}

/// From a process on another host, with its number.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FarNews {
    /// An answer of the process.
    Said(u32, Answer),
    /// The process has ended, and how.
    Ended(u32, String),
}

/// From the process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    /// An id that rank 0 made, or none from another rank, which waits for the common one.
    Id(Option<Vec<u8>>),
    /// It is ready.
    Ready(Facts),
    /// The times of the host and of the GPU, in ns, of one run each; the GPUs' clock rates; whether
    /// the calls were captured in a graph.
    Timed { host: Vec<f64>, event: Vec<f64>, pace: Option<Pace>, captured: bool },
    /// The result is wrong.
    Wrong(String),
    /// This machine does not permit it.
    Refused(String),
    /// Another process or a connection was lost.
    Lost(String),
}

impl From<Error> for Answer {
    fn from(error: Error) -> Self {
        if error.is_lost() {
            Self::Lost(error.to_string())
        } else {
            Self::Refused(error.to_string())
        }
    }
}

/// The GPUs and NCCL that a process sees.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// The GPUs by their vendors' names.
    pub gpus: Vec<String>,
    /// Their globally unique ids.
    pub ids: Vec<String>,
    /// The CUDA version that the driver supports.
    pub driver: String,
    /// NCCL's version, if it was loaded.
    pub nccl: Option<Release>,
    /// Collectives that it lacks.
    pub lacks: Vec<String>,
    /// The free bytes of each GPU's memory.
    pub free: Vec<u64>,
    /// Whether the row's GPU can access the memory of the column's directly.
    pub reach: Vec<Vec<bool>>,
}

impl Facts {
    /// The GPUs in one line of text; equal GPUs in a row are combined: `8 x NVIDIA H100`. A part of
    /// a GPU (MIG) is also identified by its number, since another part is another machine.
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

//! What the coordinator and its workers say to each other.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::run::calibrate::Host;
use crate::run::execute::{Check, Start};
use crate::run::launch::Answer;
use crate::run::transport::Wait;
use crate::run::transport::tcp::RunId;

/// What ranks meet for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Purpose {
    /// Processes that run schedules.
    Processes,
    /// Processes with GPUs.
    Gpus,
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Processes => "--transport tcp",
            Self::Gpus => "--transport nccl",
        })
    }
}

/// To a worker, which is told to do a `T`.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToWorker<T = Order> {
    /// It is not wanted, with the reason.
    Refused(String),
    /// What to do.
    Do(T),
    /// The run was given up, with the reason.
    Abort(String),
    /// The run is over.
    Goodbye,
    /// It is still there.
    Beat,
}

/// What a worker with a process is told.
#[derive(Debug, Serialize, Deserialize)]
pub enum Order {
    /// Starts its process.
    Start(Starting),
    /// Says where the processes of all ranks listen.
    Connect(Vec<SocketAddr>, RunId),
    /// A block of repetitions.
    Work(Task),
    /// Its process is to end by itself.
    Finish,
    /// Its process is to end at once.
    Kill,
}

/// How a worker's process is started.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Starting {
    /// The how many-th start.
    pub launch: u32,
    /// How it waits.
    pub wait: Wait,
    /// Of those on its host that stay on one CPU each, the how many-th; absent: it does not.
    pub slot: Option<u32>,
}

/// A block of repetitions, in words that a worker can judge: it compiles the schedule itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Task {
    /// The operation.
    pub op: String,
    /// M, in bytes.
    pub size: u64,
    /// Repetitions before the first that counts.
    pub warm: u32,
    /// Repetitions that count.
    pub reps: u32,
    /// How often it runs between two readings of the clock.
    pub inner: u32,
    /// How repetitions start.
    pub start: Start,
    /// When results are checked.
    pub check: Check,
    /// How long a step may be silent.
    pub patience: Duration,
    /// Ranks whose clock is another than rank 0's.
    pub apart: Vec<u32>,
}

/// From a worker, which says a `T`.
#[derive(Debug, Serialize, Deserialize)]
pub enum FromWorker<T = News> {
    /// The first: who it is.
    Here {
        /// Its rank.
        rank: u32,
        /// How many ranks it was told of.
        ranks: u32,
        /// What it is there for.
        purpose: Purpose,
        /// Its host.
        host: Box<Host>,
        /// The address by which it calls.
        address: IpAddr,
    },
    /// What it has to say.
    Did(T),
    /// It is still there.
    Beat,
}

/// What a worker with a process says.
#[derive(Debug, Serialize, Deserialize)]
pub enum News {
    /// Its process is there.
    Started {
        /// The how many-th start.
        launch: u32,
        /// The process.
        process: u32,
        /// The CPU on which it stays.
        cpu: Option<usize>,
    },
    /// What its process answered.
    Answer(u32, Box<Answer>),
    /// Its process has ended, and how.
    Ended(u32, String),
    /// Its process is stopped, or goes on again.
    Stopped(u32, bool),
}

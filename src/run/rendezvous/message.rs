//! The messages between the coordinator and its workers.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::run::calibrate::Host;
use crate::run::execute::Repeats;
use crate::run::launch::Answer;
use crate::run::transport::Wait;
use crate::run::transport::tcp::RunId;

/// The purpose that ranks meet for.
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

/// To a worker whose orders are of type `T`.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToWorker<T = Order> {
    /// It is rejected, with the reason.
    Refused(String),
    /// An order.
    Do(T),
    /// The run was given up, with the reason.
    Abort(String),
    /// The run is over.
    Goodbye,
    /// A heartbeat.
    Beat,
}

/// An order to a worker with a process.
#[derive(Debug, Serialize, Deserialize)]
pub enum Order {
    /// Starts its process.
    Start(Starting),
    /// The addresses at which the processes of all ranks listen.
    Connect(Vec<SocketAddr>, RunId),
    /// A block of repetitions.
    Work(Task),
    /// Its process should end on its own.
    Finish,
    /// Its process should be killed at once.
    Kill,
}

/// How a worker's process is started.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Starting {
    /// The number of this start.
    pub launch: u32,
    /// Its rank among those that are started.
    pub rank: u32,
    /// How many are started.
    pub ranks: u32,
    /// How it waits.
    pub wait: Wait,
    /// Its number among the pinned processes on its host; absent if it is not pinned.
    pub slot: Option<u32>,
}

/// A block of repetitions, in terms that a worker can check: it compiles the schedule itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Task {
    /// The operation.
    pub op: String,
    /// M, in bytes.
    pub size: u64,
    /// How it is repeated.
    #[serde(flatten)]
    pub repeats: Repeats,
}

/// From a worker with messages of type `T`.
#[derive(Debug, Serialize, Deserialize)]
pub enum FromWorker<T = News> {
    /// The first message: its identity.
    Here {
        /// Its rank.
        rank: u32,
        /// The number of ranks that it was started with.
        ranks: u32,
        /// Its purpose.
        purpose: Purpose,
        /// Its host.
        host: Box<Host>,
        /// The address from which it calls.
        address: IpAddr,
    },
    /// A message of its service.
    Did(T),
    /// A heartbeat.
    Beat,
}

/// A message of a worker with a process.
#[derive(Debug, Serialize, Deserialize)]
pub enum News {
    /// Its process has started.
    Started {
        /// The number of the start.
        launch: u32,
        /// The process.
        process: u32,
        /// The CPU to which it is pinned.
        cpu: Option<usize>,
    },
    /// An answer of its process.
    Answer(u32, Box<Answer>),
    /// Its process has ended, and how.
    Ended(u32, String),
    /// Its process is stopped, or has resumed.
    Stopped(u32, bool),
}

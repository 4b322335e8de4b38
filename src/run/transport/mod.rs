//! Transports: how bytes move between the ranks of one run.
//!
//! ```text
//!   executor ── Step ──► Transport ── shm: rings in shared memory
//!                                  └─ tcp: one connection a pair
//! ```
//!
//! A transport owns its rank's buffer, which need not be host memory. It executes one [`Step`] at a
//! time: everything that the rank sends and receives in one round, in both directions at once, so
//! no cycle of ranks can deadlock. Where two ranks exchange the same bytes, arriving data are added
//! only as far as the old bytes have left. That implements "all sends of a round read the state
//! before it" without a second buffer.

mod delay;
mod duplex;
mod raw;
pub mod shm;
pub mod tcp;

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::base::error::{Error, did_you_mean};
use crate::base::words::words;
pub use crate::machine::sample::Wait;
pub use delay::Delay;
pub(crate) use delay::{Delayed, Spent};

/// What a rank does with arriving bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Stores them.
    Store,
    /// Adds them, as `f32` in the machine's own byte order.
    Add,
    /// Joins them bit by bit.
    Join,
}

/// An outgoing message: these bytes of the buffer, in this order. An empty one is sent too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outgoing {
    /// The receiver.
    pub to: u32,
    /// Which bytes.
    pub spans: Vec<Range<usize>>,
}

/// The destination of a part of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The bytes of the buffer.
    pub span: Range<usize>,
    /// What is done with them.
    pub action: Action,
}

/// When arriving bytes may be stored in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Landing {
    /// At once: no outgoing bytes of this step are there.
    Direct,
    /// As far as the step's outgoing message of this index has left: both have the same bytes.
    Behind(usize),
    /// When all bytes of the step have left; until then they are stored elsewhere.
    Aside,
}

/// An incoming message, its parts in the order in which the sender wrote them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incoming {
    /// The sender.
    pub from: u32,
    /// Where it goes.
    pub parts: Vec<Part>,
    /// When.
    pub landing: Landing,
}

/// Local work of a rank, after the step's messages are finished.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Local {
    /// Which bytes.
    pub from: Range<usize>,
    /// The start of the bytes it is applied to; the two ranges do not overlap.
    pub to: usize,
    /// What is done.
    pub action: Action,
}

/// The work of one rank in one round: at most one message to and from each other rank.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Step {
    /// Outgoing messages.
    pub sends: Vec<Outgoing>,
    /// Incoming messages.
    pub receives: Vec<Incoming>,
    /// Local work afterwards, in this order.
    pub local: Vec<Local>,
}

/// Moves bytes between the ranks of one run.
///
/// One value represents one rank. Steps of two ranks match if both ends of each message come in the
/// same order of steps; a transport need not check that.
pub trait Transport {
    /// This rank.
    fn rank(&self) -> u32;

    /// How many ranks there are.
    fn ranks(&self) -> u32;

    /// Sets the size of the buffer in bytes; its contents are lost. The memory is touched.
    ///
    /// # Errors
    /// There is not enough memory.
    fn allocate(&mut self, bytes: usize) -> Result<(), Fault>;

    /// Writes to the buffer from byte `at` on.
    ///
    /// # Errors
    /// An error from the device.
    fn write(&mut self, at: usize, bytes: &[u8]) -> Result<(), Fault>;

    /// Reads the buffer from byte `at` on.
    ///
    /// # Errors
    /// An error from the device.
    fn read(&mut self, at: usize, bytes: &mut [u8]) -> Result<(), Fault>;

    /// Executes a step. It is finished when all outgoing data have left this rank's queues and all
    /// incoming data are in place.
    ///
    /// # Errors
    /// A peer that is gone, or silent for `patience`.
    fn step(&mut self, step: &Step, patience: Duration) -> Result<(), Fault>;
}

words! {
    /// The available transports.
    #[derive(Hash, Deserialize)]
    pub enum Kind {
        /// Processes of one host over shared memory.
        Shm = "shm",
        /// Processes over TCP.
        Tcp = "tcp",
    }
}

impl Kind {
    /// The name in a sentence.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Shm => "shared memory",
            Self::Tcp => "TCP",
        }
    }
}

impl std::str::FromStr for Kind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL.iter().copied().find(|kind| kind.id() == text).ok_or_else(|| {
            Error::input(format!("`{text}` is not a transport")).help(did_you_mean(
                text,
                Self::ALL.iter().map(|kind| kind.id()),
                || "write shm or tcp; `collcost calibrate` also takes nccl and cuda".to_owned(),
            ))
        })
    }
}

/// Why a step failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The rank that seems to be the cause, if any.
    pub peer: Option<u32>,
    /// The cause.
    pub cause: Cause,
}

/// What happened in a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// Nothing moved for this long.
    Silent(Duration),
    /// The peer closed the connection.
    Closed,
    /// The run was given up elsewhere.
    Aborted,
    /// The system's message.
    System(String),
}

impl Fault {
    /// The system's error about the connection with `peer`.
    fn system(peer: u32, error: &std::io::Error) -> Self {
        use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
        let cause = match error.kind() {
            BrokenPipe | ConnectionReset => Cause::Closed,
            _ => Cause::System(error.to_string()),
        };
        Self { peer: Some(peer), cause }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let peer = |f: &mut fmt::Formatter<'_>, word: &str| match self.peer {
            Some(peer) => write!(f, " {word} rank {peer}"),
            None => Ok(()),
        };
        match &self.cause {
            Cause::Silent(time) => {
                f.write_str("nothing moved")?;
                peer(f, "to or from")?;
                write!(f, " for {:.1} s", time.as_secs_f64())
            }
            Cause::Closed => {
                f.write_str("the connection was closed")?;
                peer(f, "by")
            }
            Cause::Aborted => f.write_str("the run was given up"),
            Cause::System(text) => {
                f.write_str(text)?;
                peer(f, "with")
            }
        }
    }
}

//! Transports: how bytes really move between the ranks of one run.
//!
//! ```text
//!   executor ── Step ──► Transport ── shm: rings in shared memory
//!                                  └─ tcp: one connection a pair
//! ```
//!
//! A transport owns its rank's buffer, which need not be host memory, and carries out a [`Step`]
//! at a time: everything that the rank sends and receives in one round, both ways at once, so that
//! no cycle of ranks can wait for itself. Where two ranks exchange the same bytes, what arrives is
//! added only as far as the old bytes have left, which is what "all sends of a round read the
//! state before it" means without a second buffer.

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
pub use crate::machine::sample::Wait;
pub use delay::Delay;
pub(crate) use delay::{Delayed, Spent};

/// What a rank does with bytes that arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Stores them.
    Store,
    /// Adds them, as `f32` in the machine's own byte order.
    Add,
    /// Joins them bit by bit.
    Join,
}

/// A message that leaves: these bytes of the buffer, in this order. An empty one is sent too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outgoing {
    /// The receiver.
    pub to: u32,
    /// Which bytes.
    pub spans: Vec<Range<usize>>,
}

/// Where a part of a message goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// To which bytes of the buffer.
    pub span: Range<usize>,
    /// What is done with them.
    pub action: Action,
}

/// When what arrives may be put in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Landing {
    /// At once: nothing that leaves in this step lies there.
    Direct,
    /// As far as the step's outgoing message of this index has left: both are of the same bytes.
    Behind(usize),
    /// When everything of the step has left; until then it lies elsewhere.
    Aside,
}

/// A message that arrives, its parts in the order in which the sender wrote them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incoming {
    /// The sender.
    pub from: u32,
    /// Where it goes.
    pub parts: Vec<Part>,
    /// When.
    pub landing: Landing,
}

/// What a rank does with bytes of its own, once the step's messages are through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Local {
    /// Which bytes.
    pub from: Range<usize>,
    /// Where those begin to which it is done; the two do not overlap.
    pub to: usize,
    /// What is done.
    pub action: Action,
}

/// What one rank does in one round: at most one message to and from each other rank.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Step {
    /// What leaves.
    pub sends: Vec<Outgoing>,
    /// What arrives.
    pub receives: Vec<Incoming>,
    /// What is done afterwards, in this order.
    pub local: Vec<Local>,
}

/// Moves bytes between the ranks of one run.
///
/// One value stands for one rank. Steps of two ranks fit together when each message has both its
/// ends in the same order of steps; a transport need not check that.
pub trait Transport {
    /// The rank that this is.
    fn rank(&self) -> u32;

    /// How many ranks there are.
    fn ranks(&self) -> u32;

    /// Makes the buffer so large, in bytes; what was in it is lost. The memory is touched.
    ///
    /// # Errors
    /// The machine does not have it.
    fn allocate(&mut self, bytes: usize) -> Result<(), Fault>;

    /// Writes to the buffer from byte `at` on.
    ///
    /// # Errors
    /// What the device says.
    fn write(&mut self, at: usize, bytes: &[u8]) -> Result<(), Fault>;

    /// Reads the buffer from byte `at` on.
    ///
    /// # Errors
    /// What the device says.
    fn read(&mut self, at: usize, bytes: &mut [u8]) -> Result<(), Fault>;

    /// Carries out a step. It is through when all that leaves has left this rank's queues and all
    /// that arrives is in its place.
    ///
    /// # Errors
    /// A peer that is gone, or silent for so long as `patience`.
    fn step(&mut self, step: &Step, patience: Duration) -> Result<(), Fault>;
}

/// The transports that there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Processes of one host over shared memory.
    Shm,
    /// Processes over TCP.
    Tcp,
}

impl Kind {
    /// All of them.
    pub const ALL: &[Self] = &[Self::Shm, Self::Tcp];

    /// The name on the command line.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Self::Shm => "shm",
            Self::Tcp => "tcp",
        }
    }

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
            Error::input(format!("`{text}` is no transport")).help(did_you_mean(
                text,
                Self::ALL.iter().map(|kind| kind.id()),
                || "write shm or tcp".to_owned(),
            ))
        })
    }
}

/// Why a step did not end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The rank on whose side it seems to lie, where one does.
    pub peer: Option<u32>,
    /// What happened.
    pub cause: Cause,
}

/// What happened to a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// Nothing moved for so long.
    Silent(Duration),
    /// The peer closed the connection.
    Closed,
    /// The run was given up elsewhere.
    Aborted,
    /// What the system said.
    System(String),
}

impl Fault {
    /// What the system said about dealing with `peer`.
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

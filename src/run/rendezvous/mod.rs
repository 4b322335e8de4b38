//! Ranks on several hosts, each started by whatever people start programs with.
//!
//! ```text
//!   mpirun, srun, torchrun, hands ── the same command once per rank
//!
//!   rank 0, the coordinator ── listens ◄── rank 1, a worker ── its process
//!     its process                     ◄── rank 2, a worker ── its process
//!                                               orders ──►  ◄── answers, half a second's beats
//! ```
//!
//! A [`Part`] says which rank this is and where all meet. Workers call the coordinator; both prove
//! that they know a shared [`Token`], and every frame after that carries a counter and a code.
//! Nothing is secret, so nothing is encrypted: what matters is that nobody else can give orders.
//! Workers take names of operations, sizes and counts, and compile the schedules themselves;
//! nothing that was sent is ever run. Whatever happens to one ends all of them within seconds.

mod channel;
mod digest;
mod door;
mod frame;
mod handshake;
mod hosts;
mod line;
mod message;
mod part;
mod seat;
mod strangers;
mod token;
mod worker;

pub use door::{Meeting, meet};
pub use frame::{Frames, LONGEST, seal};
pub use hosts::Hosts;
pub use message::{FromWorker, News, Order, Purpose, ToWorker};
pub use part::{Launcher, Part, Typed};
pub use token::{Made, Token};
pub use worker::serve;

// What else than processes can be led over the same connections.
#[cfg(feature = "cuda")]
pub(crate) use {
    channel::Channel,
    line::{Line, Service},
};

use std::time::Duration;

/// How long ranks may take to come.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// One end of a connection speaks at least this often.
const BEAT: Duration = Duration::from_millis(500);
/// An end of which nothing is heard for so long is lost.
const LOST: Duration = Duration::from_secs(3);

//! Ranks on several hosts, started by any launcher.
//!
//! ```text
//!   mpirun, srun, torchrun, hands ── the same command once per rank
//!
//!   rank 0, the coordinator ── listens ◄── rank 1, a worker ── its process
//!     its process                     ◄── rank 2, a worker ── its process
//!                                               orders ──►  ◄── answers, half a second's beats
//! ```
//!
//! A [`Part`] specifies this process's rank and the meeting point. Workers call the coordinator;
//! both prove that they know a shared [`Token`], and every frame after that carries a counter and
//! an authentication code. Nothing is secret, so nothing is encrypted: the goal is that no other
//! program can give orders. Workers accept names of operations, sizes and counts, and compile the
//! schedules themselves; nothing received over the network is ever executed. Whatever happens to
//! one rank ends all of them within seconds.

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

// Services other than processes can use the same connections.
#[cfg(feature = "cuda")]
pub(crate) use {
    channel::Channel,
    line::{Line, Service},
};

use std::time::Duration;

/// How long ranks may take to join.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// Each end of a connection sends at least this often.
const BEAT: Duration = Duration::from_millis(500);
/// An end that was silent for this long is lost.
const LOST: Duration = Duration::from_secs(3);

//! Ranks as processes of this host: started, controlled, watched, and ended.
//!
//! ```text
//!   Group ── socketpair ──► run-rank 0 ─┐
//!         ── socketpair ──► run-rank 1 ─┴─ Transport
//! ```
//!
//! A [`Group`] starts the same program once per rank, with the control channel as standard input.
//! It waits for messages of ranks, for their deaths and for an interruption at the same time, so it
//! learns at once which comes first; then it ends all of them. No rank outlives the group: the
//! kernel kills a rank when the thread that started it ends, and the ranks' shared memory has no
//! name.

mod control;
mod group;
mod process;
mod seat;
mod serve;
mod usable;

pub use control::Answer;
pub(crate) use control::Hello;
#[cfg(feature = "cuda")]
pub(crate) use control::{frame, read, take, write};
pub(crate) use group::{CONNECT, Seated, check_memory};
pub use group::{Executor, Group, Place, Setup};
pub(crate) use process::Process;
pub(crate) use seat::Seat;
pub use serve::serve;
pub use usable::{Pin, Usable, usable};

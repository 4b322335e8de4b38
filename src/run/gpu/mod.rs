//! GPUs measured: what NCCL's algorithms and protocols take, and what the GPUs do by themselves.
//!
//! ```text
//!   nccl, survey ── Crew ── Worker ── socketpair ──► run-gpu: driver, NCCL, one process a set
//!        │           │  └ deadline, death, interruption: killed
//!        │           └ Fleet ── another host's rank ── Worker ──► run-gpu
//!        └ blocks, each with what NCCL's own log says of it
//! ```
//!
//! NCCL reads its settings once, so every algorithm and protocol that is told has a process of its
//! own, whose environment holds what was recorded and nothing else. What was told may abort, hang,
//! or be passed over: a set that ends is a note, and runs that the log does not confirm are marked.
//!
//! No library is linked: the driver and NCCL are loaded in those processes alone.

mod confirm;
mod crew;
mod driver;
mod far;
mod fleet;
mod nccl;
mod nvml;
mod pace;
mod run;
mod serve;
mod set;
mod survey;
mod talk;
mod worker;

pub use far::attend;
pub use fleet::Fleet;
pub use nccl::{NAMES, Release};
pub use run::{Desk, Plan, Ran, look, nccl, survey, survey_ops};
pub use serve::serve;
pub use set::{ALLOWED, Set, Variables, kept};
pub use talk::Facts;
pub use worker::Setup;

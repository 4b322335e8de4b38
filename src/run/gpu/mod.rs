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
//! Calls are captured as graphs, so that NCCL writes no log while a clock runs.
//!
//! Ranks that share a GPU are processes of their own, each a host of its own to NCCL, which refuses
//! them otherwise.
//!
//! No library is linked: the driver and NCCL are loaded in those processes alone.

mod api;
mod call;
mod confirm;
mod crew;
mod driver;
mod far;
mod fleet;
mod nccl;
mod nvml;
mod pace;
mod plan;
mod run;
mod serve;
mod set;
mod survey;
mod talk;
mod worker;
mod world;

pub use api::NO_DRIVER;
pub use call::CALLS;
pub use far::attend;
pub use fleet::Fleet;
pub use nccl::{NAMES, Release};
pub use plan::Plan;
pub use run::{Desk, Ran, look, nccl, survey, survey_ops};
pub use serve::serve;
pub use set::{ALLOWED, Set, Variables, kept, shared};
pub use talk::Facts;
pub use worker::Setup;

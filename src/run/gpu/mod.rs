//! GPUs measured: the times of NCCL's algorithms and protocols, and of the GPUs without NCCL.
//!
//! ```text
//!   nccl, survey ── Crew ── Worker ── socketpair ──► run-gpu: driver, NCCL, one process a set
//!        │           │  └ deadline, death, interruption: killed
//!        │           └ Fleet ── another host's rank ── Worker ──► run-gpu
//!        └ blocks, each with the choice in NCCL's own log
//! ```
//!
//! NCCL reads its settings once, so every forced algorithm and protocol has its own process, whose
//! environment holds only the recorded settings. A forced setting may abort the run, hang it, or be
//! ignored: a set whose process ends becomes a note, and runs that the log does not confirm are
//! marked.
//!
//! Calls are captured as graphs, so NCCL writes no log while a clock runs.
//!
//! Ranks that share a GPU are separate processes. To NCCL each is a separate host; otherwise NCCL
//! refuses them.
//!
//! No library is linked: the driver and NCCL are loaded only in those processes.

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

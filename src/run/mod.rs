//! Running collectives on this machine, and timing them.

#![allow(clippy::disallowed_methods, reason = "the kernel's files about this host are short")]

#[cfg(all(feature = "exec", target_os = "linux"))]
pub mod calibrate;
#[cfg(all(feature = "exec", target_os = "linux"))]
pub mod execute;
#[cfg(all(feature = "exec", target_os = "linux"))]
mod functions;
#[cfg(all(feature = "cuda", target_os = "linux"))]
pub mod gpu;
#[cfg(all(feature = "exec", target_os = "linux"))]
pub mod launch;
#[cfg(all(feature = "exec", target_os = "linux"))]
pub mod mpi;
#[cfg(all(feature = "exec", target_os = "linux"))]
pub mod rendezvous;
#[cfg(all(feature = "exec", target_os = "linux"))]
pub mod transport;

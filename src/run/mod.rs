//! Running collectives on this machine, and timing them.

#![allow(clippy::disallowed_methods, reason = "what the kernel shows of this host is short")]

#[cfg(all(feature = "exec", target_os = "linux"))]
pub mod calibrate;
#[cfg(all(feature = "exec", target_os = "linux"))]
pub mod execute;
#[cfg(all(feature = "cuda", target_os = "linux"))]
pub mod gpu;
#[cfg(all(feature = "exec", target_os = "linux"))]
pub mod launch;
#[cfg(all(feature = "exec", target_os = "linux"))]
pub mod rendezvous;
#[cfg(all(feature = "exec", target_os = "linux"))]
pub mod transport;

//! Ranks that run: processes, hosts, real libraries, GPUs.

#![allow(clippy::disallowed_methods, reason = "tests write and read as they like")]
#![allow(clippy::duplicate_mod, reason = "each test says what it shares with others")]

mod bare;
mod calibrate;
mod closed_loop;
mod execute;
mod gpu;
mod hosts;
mod listeners;
mod real_mpi;

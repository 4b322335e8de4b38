//! NCCL's tuner, decision for decision: which algorithm, protocol, channels and threads it takes.
//!
//! For every function, algorithm and protocol the tuner keeps a latency and a bandwidth, computed
//! once a communicator from the graphs that its search found (`Table`); a call takes the cell
//! with the least `latency + bytes/bandwidth` (`Chooser`). All of it is float32 arithmetic, and
//! is reproduced bit for bit for x86-64 builds of 2.18.3, 2.21.5, 2.27.3 and 2.30.7.
//!
//! Source: NVIDIA/nccl at those tags, `src/graph/tuning.cc` (tables), `src/enqueue.cc` (choice,
//! channels, threads), `src/graph/connect.cc` and `src/init.cc` (channels of a communicator).

mod communicator;
mod names;
mod version;

pub use communicator::{Arch, Communicator, Graph, PathType, Vendor};
pub use names::{Algo, Function, Proto};
pub use version::{Asked, Version};

/// A rate of 10^9 bytes a second in float32, as NCCL keeps it.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Gbps(pub f32);

/// A time in microseconds in float32, as NCCL keeps it.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Micros(pub f32);

//! A machine as NCCL sees it: from a topology file to nodes, links and the paths between them.
//!
//! ```text
//! Description ──System::new──► System ──Paths::new──► Paths      (then crate::library::nccl::search)
//! ```
//!
//! Source: NVIDIA/nccl at the tags of [`Version`](super::Version): `src/graph/topo.cc` and
//! `src/graph/paths.cc`. That code also queries the live machine (NVML, whether a plugin reports a
//! NIC). Here nothing is queried: the file is taken as correct, and its NICs are merged into one if
//! the environment says so.

mod build;
mod detour;
mod draw;
mod flatten;
mod fuse;
mod knobs;
mod local;
mod paths;
mod rules;
mod seen;
mod system;

pub use crate::machine::nccl::{
    Bus, C2c, Class, Cpu, Description, Device, Far, Gpu, Guid, LaneSpeed, Net, NvLink, Pci,
};
pub use fuse::Apart;
pub use knobs::{Knobs, Nics};
pub(crate) use seen::Interfaces;
pub use seen::Seen;

pub(super) use draw::draw;
pub(super) use local::{Locals, nearest};
pub(super) use paths::{Path, Paths};
pub(super) use rules::{Level, Levels, UNLIMITED, is_rubin_or_later, most_channels};
pub(super) use system::{Kind, System, What, Wire};

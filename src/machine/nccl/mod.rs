//! A machine as NCCL sees it: its topology file, and the names of collectives, algorithms and
//! protocols.

mod between;
mod description;
mod names;

use std::num::NonZeroU32;

use crate::base::error::{Error, Result};

pub(crate) use between::{INTEL, between, intel};
pub use description::{
    Bus, C2c, Class, Cpu, Description, Device, Far, Gpu, Guid, LaneSpeed, Net, NvLink, Pci,
};
pub use names::{Algo, Function, Proto};

/// The number of NICs in the name of a machine with known graphs, and the text before and after it: 8 of
/// `dgx_h100_8x400g`.
pub(crate) fn counted(graphs: &str) -> Option<((&str, &str), u32)> {
    let (rest, rate) = graphs.rsplit_once('x')?;
    let (machine, nics) = rest.rsplit_once('_')?;
    Some(((machine, rate), nics.parse().ok()?))
}

/// The name of the graphs of the same machine with so many NICs.
pub(crate) fn with_nics(graphs: &str, nics: NonZeroU32) -> Option<String> {
    let ((machine, rate), _) = counted(graphs)?;
    Some(format!("{machine}_{nics}x{rate}"))
}

/// A time in microseconds in float32, as NCCL keeps it.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Micros(pub f32);

/// A processor's instruction set, under NCCL's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Arch {
    /// `x86_64`.
    #[default]
    X86,
    /// `arm64`.
    Arm,
    /// `ppc64`.
    Power,
}

/// The maker of a processor, as far as NCCL distinguishes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Vendor {
    /// Intel.
    Intel,
    /// AMD.
    Amd,
    /// Zhaoxin.
    Zhaoxin,
    /// Nodes differ; used since 2.27.
    Mixed,
    /// Any other.
    #[default]
    Other,
}

impl Arch {
    /// The instruction set of that name in a topology or a table.
    ///
    /// # Errors
    /// Another name.
    pub fn named(name: &str) -> Result<Self> {
        match name {
            "x86_64" => Ok(Self::X86),
            "arm64" | "aarch64" => Ok(Self::Arm),
            "ppc64" | "ppc64le" => Ok(Self::Power),
            _ => Err(Error::input(format!("`{name}` is not a processor that NCCL knows"))
                .help("known: x86_64, arm64, ppc64")),
        }
    }

    /// The name in topologies and tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        ["x86_64", "arm64", "ppc64"][self as usize]
    }
}

impl Vendor {
    /// The maker of that name; an empty one is a maker that NCCL does not distinguish.
    ///
    /// # Errors
    /// Another name.
    pub fn named(name: &str) -> Result<Self> {
        match name {
            "intel" => Ok(Self::Intel),
            "amd" => Ok(Self::Amd),
            "zhaoxin" => Ok(Self::Zhaoxin),
            "mixed" => Ok(Self::Mixed),
            "" | "other" => Ok(Self::Other),
            _ => Err(Error::input(format!("`{name}` is not a processor vendor that NCCL knows"))
                .help("known: intel, amd, zhaoxin, mixed, or nothing")),
        }
    }

    /// The name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        ["intel", "amd", "zhaoxin", "mixed", ""][self as usize]
    }
}

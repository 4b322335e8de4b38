//! What a machine is to NCCL: its topology file, and the names of what it runs.

mod between;
mod description;
mod names;

use crate::base::error::{Error, Result};

pub(crate) use between::{INTEL, between, intel};
pub use description::{
    Bus, C2c, Class, Cpu, Description, Device, Far, Gpu, Guid, LaneSpeed, Net, NvLink, Pci,
};
pub use names::{Algo, Function, Proto};

/// A time in microseconds in float32, as NCCL keeps it.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Micros(pub f32);

/// A processor's instruction set, under NCCL's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arch {
    /// `x86_64`.
    X86,
    /// `arm64`.
    Arm,
    /// `ppc64`.
    Power,
}

/// Who made a processor, as far as NCCL asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Vendor {
    /// Intel.
    Intel,
    /// AMD.
    Amd,
    /// Zhaoxin.
    Zhaoxin,
    /// Nodes differ; asked since 2.27.
    Mixed,
    /// Anybody else.
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
            _ => Err(Error::input(format!("`{name}` is no processor that NCCL knows"))
                .help("known are x86_64, arm64, ppc64")),
        }
    }

    /// The name in topologies and tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        ["x86_64", "arm64", "ppc64"][self as usize]
    }
}

impl Vendor {
    /// The maker of that name; an empty one is nobody that NCCL asks for.
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
            _ => Err(Error::input(format!("`{name}` is no processor vendor that NCCL knows"))
                .help("known are intel, amd, zhaoxin, mixed, or nothing")),
        }
    }

    /// The name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        ["intel", "amd", "zhaoxin", "mixed", ""][self as usize]
    }
}

//! The rates that NCCL assumes for the links between processors.
//!
//! Source: NVIDIA/nccl, `src/graph/topo.h` and `src/graph/topo.cc` of 2.31.2; `library::nccl` has
//! those of older releases.

use super::{Arch, Vendor};

/// Between Intel's processors in GB/s: Broadwell and older, Skylake, Sapphire Rapids, Emerald Rapids.
pub(crate) const INTEL: [f32; 4] = [6.0, 10.0, 22.0, 40.0];

/// The index in [`INTEL`] of a processor of that family and model.
pub(crate) fn intel(model: (u32, u32)) -> usize {
    match model {
        (6, 0xad..=0xaf | 0xcf..) => 3,
        (6, 0x8f..) => 2,
        (6, 0x55..) => 1,
        _ => 0,
    }
}

/// The rate of the link between two processors of that kind, family and model, in GB/s; `None` if
/// NCCL knows no limit.
pub(crate) fn between(arch: Arch, vendor: Vendor, model: (u32, u32)) -> Option<f32> {
    match (arch, vendor) {
        (Arch::Power, _) => Some(32.0),
        (Arch::Arm, _) => Some(6.0),
        (Arch::X86, Vendor::Intel) => Some(INTEL[intel(model)]),
        (Arch::X86, Vendor::Amd) => Some(match model.0 {
            // Zen 5, then 3 and 4; the second number is how older releases wrote the family.
            26 | 0xbf => 32.0,
            25 | 0xaf => 24.0,
            _ => 16.0,
        }),
        (Arch::X86, Vendor::Zhaoxin) if model == (7, 0x5b) => Some(9.0),
        (Arch::X86, Vendor::Zhaoxin) => Some(6.0),
        (Arch::X86, Vendor::Mixed | Vendor::Other) => None,
    }
}

//! What versions of NCCL know about hardware: link rates, kinds of processors, maximum nodes.
//!
//! Source: NVIDIA/nccl at the tags of [`Version`], `src/graph/topo.h` and `src/graph/topo.cc`.

use super::Kind;
use crate::library::nccl::{Arch, PathType, Vendor, Version, since};
use crate::machine::nccl::{Cpu, INTEL, between, intel};

/// The rate without a limit by links, in GB/s.
pub(in crate::library::nccl) const UNLIMITED: f32 = 5000.0;

/// Whether a GPU is Rubin or later: 110 is Thor, and 120 and 121 are Blackwell for workstations.
pub(in crate::library::nccl) const fn is_rubin_or_later(cc: u32) -> bool {
    cc >= 107 && !matches!(cc, 110 | 120 | 121)
}

/// The rate of one `NVLink` of a GPU, in GB/s.
pub(super) fn nvlink(version: Version, cc: u32) -> f32 {
    match cc {
        _ if is_rubin_or_later(cc) && version.has(since::RUBIN_RATES) => 31.2,
        100.. if version.has(since::BLACKWELL_NVLINK) => 40.1,
        100.. if version.has(since::BLACKWELL) => 40.0,
        90.. if version.has(since::HOPPER_NVLINK) => 20.6,
        90.. => 20.0,
        86 => 12.0,
        70.. => 20.0,
        60.. => 18.0,
        _ => 20.0,
    }
}

/// The number of a processor's model: for Intel 1 Broadwell and older, 2 Skylake, 3 Sapphire
/// Rapids, 4 Emerald Rapids; for Zhaoxin 1 Yongfeng; -1 for any other.
pub(super) fn model(version: Version, cpu: &Cpu) -> i32 {
    match (cpu.arch, cpu.vendor, cpu.model) {
        (Arch::X86, Vendor::Intel, model) => {
            let newest = match (intel(model), model) {
                (3, (_, 0xad..=0xaf)) if !version.has(since::CPU_GENERATIONS) => 2,
                (newest, _) => newest,
            };
            let known = if version.has(since::SAPPHIRE_RAPIDS) { 3 } else { 1 };
            1 + newest.min(known) as i32
        }
        (Arch::X86, Vendor::Zhaoxin, (7, 0x5b)) => 1,
        _ => -1,
    }
}

/// The rate of the link from one processor to another, in GB/s.
pub(super) fn between_cpus(version: Version, cpu: &Cpu) -> f32 {
    match (cpu.arch, cpu.vendor) {
        (Arch::X86, Vendor::Intel) => INTEL[model(version, cpu) as usize - 1],
        (Arch::X86, Vendor::Amd) if !version.has(since::AMD_SYS) => UNLIMITED,
        (Arch::X86, Vendor::Amd) if !version.has(since::CPU_GENERATIONS) => 16.0,
        _ => between(cpu.arch, cpu.vendor, cpu.model).unwrap_or(UNLIMITED),
    }
}

/// The most nodes of one kind in a version.
pub(super) fn most_nodes(version: Version) -> usize {
    match version {
        _ if version.has(since::MORE_NODES) => 640,
        _ if version.has(since::MANY_NODES) => 576,
        _ => 256,
    }
}

/// The most links of one node in a version.
pub(super) fn most_links(version: Version) -> usize {
    match version {
        _ if version.has(since::MANY_NODES) => 576,
        _ if version.has(since::MANY_LINKS) => 128,
        _ => 32,
    }
}

/// The most channels of a version.
pub(in crate::library::nccl) fn most_channels(version: Version) -> usize {
    if version.has(since::CHANNELS_64) { 64 } else { 32 }
}

/// The generation of a Broadcom switch that appears as two levels; `below` selects the lower one.
pub(super) fn broadcom(version: Version, id: u64, below: bool) -> Option<u8> {
    let lower = u64::from(below) * 0x1000;
    match id & !0xfff {
        0x1000_c010_1000_a000 => Some(4),
        0x1000_c030_1000_0000 | 0x1000_c030_1000_1000
            if version.has(since::BROADCOM_MAKE) && id & 0x1000 == lower =>
        {
            Some(5)
        }
        _ => None,
    }
}

/// The length of a path as a version ranks it: paths are compared only by this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::library::nccl) struct Level(pub(in crate::library::nccl) u8);

/// The levels that rules name, in one version.
#[derive(Debug, Clone, Copy)]
pub(in crate::library::nccl) struct Levels {
    version: Version,
    pub(in crate::library::nccl) loc: Level,
    pub(in crate::library::nccl) nvl: Level,
    pub(in crate::library::nccl) nvb: Level,
    pub(in crate::library::nccl) c2c: Level,
    pub(in crate::library::nccl) pix: Level,
    pub(in crate::library::nccl) pxb: Level,
    pub(in crate::library::nccl) pxn: Level,
    pub(in crate::library::nccl) p2c: Level,
    pub(in crate::library::nccl) phb: Level,
    pub(in crate::library::nccl) sys: Level,
    pub(in crate::library::nccl) net: Level,
    pub(in crate::library::nccl) dis: Level,
}

impl Levels {
    pub(in crate::library::nccl) fn of(version: Version) -> Self {
        let level = |path: PathType| Level(path.rank(version));
        Self {
            version,
            loc: level(PathType::Loc),
            nvl: level(PathType::Nvl),
            nvb: level(PathType::Nvb),
            c2c: level(PathType::C2c),
            pix: level(PathType::Pix),
            pxb: level(PathType::Pxb),
            pxn: level(PathType::Pxn),
            p2c: level(PathType::P2c),
            phb: level(PathType::Phb),
            sys: level(PathType::Sys),
            net: level(PathType::Net),
            dis: level(PathType::Dis),
        }
    }

    /// The path type of a level. Versions before C2C treat it, and P2C, as a host bridge.
    pub(in crate::library::nccl) fn path_type(self, level: Level) -> PathType {
        let names = PathType::ALL.into_iter().filter(|path| path.is_known(self.version));
        let mut named = names.filter(|path| path.rank(self.version) == level.0);
        named.next().unwrap_or(PathType::Dis)
    }
}

/// The plural of a kind of nodes.
pub(super) fn plural(kind: Kind) -> &'static str {
    match kind {
        Kind::Gpu => "GPUs",
        Kind::Pci => "PCI switches",
        Kind::Nvs => "NVSwitches",
        Kind::Cpu => "NUMA nodes",
        Kind::Nic => "NICs",
        Kind::Net => "ports of NICs",
        Kind::Dev => "GPU devices",
    }
}

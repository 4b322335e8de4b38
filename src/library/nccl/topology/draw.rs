//! A system as NCCL prints it in its log.
//!
//! ```text
//! === System : maxBw 3.1 totalBw 12.0 ===
//! CPU/0-0 (1/1/2)
//! + PCI[12.0] - DEV/0-10000 (0)
//!               + LOC[5000.0] - GPU/0-10000
//! + PCI[12.0] - NIC/0-60000
//!               + NET[3.1] - NET/0-0 (0/abc000/1/3.125000)
//! ==========================================
//! GPU/0-10000 :GPU/0-10000 (0/5000.0/LOC) CPU/0-0 (2/12.0/PHB) NET/0-0 (4/3.1/PHB) …
//! ```
//!
//! GB/s are in brackets. After a processor come its instruction set, vendor and model; after a GPU,
//! its rank; after a port, whether its network reduces, the chip, the port and GB/s. A path has its
//! links, GB/s and type.
//!
//! Source: NVIDIA/nccl at the tags of [`Version`], `src/graph/topo.cc` and `src/graph/paths.cc`.

use super::paths::Paths;
use super::system::{Kind, System, What, Wire};
use crate::library::nccl::{Arch, Vendor, Version, since};

/// The lines of a system with its fastest path and its fastest GPU.
pub(in crate::library::nccl) fn draw(
    system: &System,
    paths: &Paths,
    (most, total): (f32, f32),
) -> Vec<String> {
    let mut drawing = Drawing { system, lines: Vec::new() };
    drawing.lines.push(format!("=== System : maxBw {most:.1} totalBw {total:.1} ==="));
    for &cpu in system.of(Kind::Cpu) {
        drawing.node(cpu, None, "");
    }
    drawing.lines.push("=".repeat(42));
    for kind in [Kind::Gpu, Kind::Net] {
        for &node in system.of(kind) {
            let line = drawing.paths(paths, node);
            drawing.lines.push(line);
        }
    }
    drawing.lines
}

/// An id as host and number, or the whole id if `whole` is set. Until 2.20 there is one host, and
/// letters are uppercase.
fn hexed(version: Version, id: u64, whole: bool) -> String {
    match version {
        _ if !version.has(since::HOSTS) => format!("{id:X}"),
        _ if whole && !version.has(since::NICS_BY_HOST) => format!("{id:x}"),
        // NCCL shifts a signed number: an unknown NUMA node, -1, fills the host's part too.
        _ => format!("{:x}-{:x}", id.cast_signed() >> 56, id & ((1 << 56) - 1)),
    }
}

struct Drawing<'a> {
    system: &'a System,
    lines: Vec<String>,
}

impl Drawing<'_> {
    fn named(&self, node: usize, whole: bool) -> String {
        let at = &self.system.nodes[node];
        format!("{}/{}", at.kind.name(), hexed(self.system.version, at.id, whole))
    }

    /// A node, followed by the nodes that its links lead to, except `up`.
    fn node(&mut self, node: usize, up: Option<usize>, before: &str) {
        let at = &self.system.nodes[node];
        let what = match &at.what {
            What::Gpu(gpu) => format!(" ({})", gpu.rank),
            What::Cpu(cpu) => {
                let arch = match cpu.arch {
                    Arch::X86 => 1,
                    Arch::Power => 2,
                    Arch::Arm => 3,
                };
                let vendor = match cpu.vendor {
                    Vendor::Intel => 1,
                    Vendor::Amd => 2,
                    Vendor::Zhaoxin => 3,
                    Vendor::Mixed => 4,
                    Vendor::Other => -1,
                };
                format!(" ({arch}/{vendor}/{})", cpu.model)
            }
            What::Pci(number) => format!(" ({number:x})"),
            What::Dev { number, .. } => format!(" ({number:x})"),
            What::Net(_) | What::Other => String::new(),
        };
        self.lines.push(format!("{before}{}{what}", self.named(node, false)));
        let indent = " ".repeat(before.chars().count());
        for link in &at.links {
            if link.wire == Wire::Pci && Some(link.to) == up {
                continue;
            }
            let branch = format!("{indent}+ {}[{:.1}] - ", link.wire.name(), link.rate);
            if link.wire == Wire::Pci {
                self.node(link.to, Some(node), &branch);
            } else {
                let end = self.named(link.to, true);
                self.lines.push(format!("{branch}{end}{}", self.port(link.to)));
            }
        }
    }

    /// The text after a port.
    fn port(&self, node: usize) -> String {
        let What::Net(net) = &self.system.nodes[node].what else { return String::new() };
        let collective = match self.system.version {
            version if !version.has(since::PORTS_SAY_COLLECTIVE) => String::new(),
            _ => format!("{}/", u8::from(net.collective)),
        };
        format!(" ({collective}{:x}/{}/{:.6})", net.asic, net.port, net.rate)
    }

    fn paths(&self, paths: &Paths, node: usize) -> String {
        let mut line = format!("{} :", self.named(node, true));
        for kind in [Kind::Gpu, Kind::Nvs, Kind::Cpu, Kind::Net, Kind::Dev] {
            let to = self.system.of(kind);
            // A node that no search reached has no list of that kind.
            if paths.to_all(node, kind).iter().all(|path| path.rate == 0.0) {
                continue;
            }
            for (index, &end) in to.iter().enumerate() {
                let path = paths.get(node, kind, index);
                let digits = if self.system.version.has(since::HOSTS) { 1 } else { 6 };
                let (end, level) = (self.named(end, false), paths.levels.path_type(path.level));
                line += &format!("{end} ({}/{:.digits$}/{level}) ", path.hops, path.rate);
            }
        }
        line
    }
}

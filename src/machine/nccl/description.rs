//! A machine as a topology file describes it: processors, PCI trees, GPUs and NICs.
//!
//! This is the file's content, the same for all versions; `library::nccl::topology` is what a
//! version of NCCL derives from it.

use super::{Arch, Micros, Vendor};
use crate::base::error::{Error, Result};

/// A machine, or several hosts that share an `NVLink` domain.
#[derive(Debug, Clone, PartialEq)]
pub struct Description {
    /// The file it was read from, for errors.
    pub origin: String,
    /// One entry per NUMA node, in the file's order.
    pub cpus: Vec<Cpu>,
}

/// A NUMA node with the devices attached to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Cpu {
    /// The line of the file.
    pub line: usize,
    /// The hash of the host's name; 0 if there is none.
    pub host: u64,
    /// The number of the NUMA node.
    pub numa: i64,
    /// The instruction set.
    pub arch: Arch,
    /// The maker; read only for x86.
    pub vendor: Vendor,
    /// The x86 processor's family and model; 0 if not given.
    pub model: (u32, u32),
    /// PCI devices and NICs, in the file's order.
    pub below: Vec<Device>,
}

/// A device attached to a NUMA node.
#[derive(Debug, Clone, PartialEq)]
pub enum Device {
    /// A PCI device, or a switch with the devices behind it.
    Pci(Pci),
    /// NICs without a place on PCI.
    Nic(Vec<Net>),
}

/// A PCI address without its colons and dots: `0000:10:00.0` is 0x10000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Bus(pub u64);

/// A PCI device or switch.
#[derive(Debug, Clone, PartialEq)]
pub struct Pci {
    /// The line of the file.
    pub line: usize,
    /// The address.
    pub bus: Bus,
    /// Its kind according to the class.
    pub class: Class,
    /// Vendor, device, and the subsystem's vendor and device, 16 bits each.
    pub id: u64,
    /// Lanes; 0 if not given, which counts as 16.
    pub lanes: u32,
    /// The rate of a lane.
    pub speed: LaneSpeed,
    /// GPUs: one, or several ranks on one.
    pub gpus: Vec<Gpu>,
    /// NICs of this device.
    pub nets: Option<Vec<Net>>,
    /// Devices behind a switch.
    pub below: Vec<Pci>,
    /// Switches that it talks to directly.
    pub peers: Vec<Bus>,
}

/// The kind of device of a PCI class, as far as NCCL distinguishes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// A switch; any class other than those below counts as one.
    Switch,
    /// An `NVSwitch`.
    NvSwitch,
    /// A processor.
    Cpu,
    /// A GPU.
    Gpu,
    /// A NIC.
    Nic,
}

impl Class {
    /// The class of that code. NCCL compares prefixes: `0x0302` and `0x03` are both GPUs.
    #[must_use]
    pub fn of(code: &str) -> Self {
        let known = [
            ("0x060400", Self::Switch),
            ("0x068000", Self::NvSwitch),
            ("0x068001", Self::Cpu),
            ("0x03", Self::Gpu),
            ("0x02", Self::Nic),
        ];
        let found = known.into_iter().find(|(start, _)| code.starts_with(start));
        found.map_or(Self::Switch, |(_, class)| class)
    }
}

/// The rate of a PCI lane, in units of 100 Mbit/s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneSpeed(pub u32);

impl LaneSpeed {
    /// The speed of that text. NCCL compares prefixes and treats a text that it does not know, such
    /// as `16.0 GT/s` without `PCIe`, as the third generation.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let known = [
            ("2.5 GT/s", 15),
            ("5 GT/s", 30),
            ("8 GT/s", 60),
            ("16 GT/s", 120),
            ("32 GT/s", 240),
            ("5.0 GT/s PCIe", 30),
            ("8.0 GT/s PCIe", 60),
            ("16.0 GT/s PCIe", 120),
            ("32.0 GT/s PCIe", 240),
            ("64.0 GT/s PCIe", 480),
        ];
        let found = known.into_iter().find(|(start, _)| text.starts_with(start));
        Self(found.map_or(60, |(_, speed)| speed))
    }
}

/// A rank's GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct Gpu {
    /// The line of the file.
    pub line: usize,
    /// The number of the device on its host.
    pub device: u32,
    /// The compute capability.
    pub cc: u32,
    /// The rank; `None` if the GPU takes no part.
    pub rank: Option<u32>,
    /// Whether NICs may reach its memory.
    pub gdr: bool,
    /// `NVLinks`.
    pub nvlinks: Vec<NvLink>,
    /// Links to the processor, chip to chip.
    pub c2c: Vec<C2c>,
}

/// `NVLinks` of a GPU to one place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NvLink {
    /// How many.
    pub count: u32,
    /// Where to.
    pub to: Far,
}

/// The far end of an `NVLink`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Far {
    /// The GPU at that address.
    Gpu(Bus),
    /// The processor.
    Cpu,
    /// A switch; all switches count as one.
    Switch,
}

/// Links between a GPU and its processor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct C2c {
    /// The rate of one, in MB/s.
    pub rate: u32,
    /// How many.
    pub count: u32,
}

/// The number of a NIC's chip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guid {
    /// The number.
    pub number: u64,
    /// Whether it is written with `0x`; NCCL before 2.28.7 reads only that form.
    pub is_prefixed: bool,
}

/// A port of a NIC.
#[derive(Debug, Clone, PartialEq)]
pub struct Net {
    /// The line of the file.
    pub line: usize,
    /// Its name, such as `mlx5_0`; empty if not given.
    pub name: String,
    /// Its number on the host.
    pub device: u32,
    /// In Mbit/s; 0 if not given.
    pub speed: u32,
    /// The latency that it adds to every message.
    pub latency: Micros,
    /// The port.
    pub port: i64,
    /// An identifier that the ports of one chip share; `None` if not given.
    pub guid: Option<Guid>,
    /// Whether it may reach GPUs' memory.
    pub gdr: bool,
    /// Whether the network behind it reduces.
    pub collective: bool,
    /// The rail.
    pub rail: Option<i64>,
    /// The plane.
    pub plane: Option<i64>,
    /// Whether it carries messages, and not only remote memory access; used since 2.30.
    pub carries: bool,
}

impl Description {
    /// The same machine with the first `per_node` of its GPUs by rank, or all; ranks count from 0.
    ///
    /// If no GPU has a rank, their order in the file is used.
    ///
    /// # Errors
    /// No GPU; more GPUs requested than there are; a rank that appears twice.
    pub fn with_gpus(&self, per_node: Option<u32>) -> Result<Self> {
        let mut found: Vec<(Option<u32>, usize)> = Vec::new();
        self.each_gpu(|gpu| found.push((gpu.rank, gpu.line)));
        if found.is_empty() {
            return Err(Error::input("the topology has no GPU").at(&self.origin).help(
                "a file for NCCL_TOPO_FILE often leaves them to the machine; write one there with \
                 NCCL_TOPO_DUMP_FILE, or collcost nccl topo --merge FILE --gpus h100:8, which adds them",
            ));
        }
        let ranked = found.iter().any(|(rank, _)| rank.is_some());
        let mut order: Vec<(u32, usize)> = Vec::new();
        for (index, (rank, _)) in found.iter().enumerate() {
            let rank = if ranked { *rank } else { Some(index as u32) };
            order.extend(rank.map(|rank| (rank, index)));
        }
        order.sort_unstable();
        if let Some(twice) = order.windows(2).find(|two| two[0].0 == two[1].0) {
            let line = |at: usize| found[twice[at].1].1;
            return Err(Error::input(format!("rank {} has two GPUs", twice[0].0))
                .at(format!("{}:{}", self.origin, line(1)))
                .help(format!("the other is in line {}", line(0))));
        }
        let most = order.len();
        let taken = per_node.map_or(most, |asked| asked as usize);
        if taken == 0 || taken > most {
            return Err(Error::input(format!("a node of this topology has {most} ranks"))
                .at(&self.origin)
                .help(format!("use 1 to {most} of them")));
        }
        let mut ranks = vec![None; found.len()];
        for (rank, &(_, index)) in order.iter().take(taken).enumerate() {
            ranks[index] = Some(rank as u32);
        }
        let mut same = self.clone();
        let mut ranks = ranks.into_iter();
        same.each_gpu_mut(|gpu| gpu.rank = ranks.next().flatten());
        Ok(same)
    }

    /// How many GPUs have ranks.
    #[must_use]
    pub fn ranks(&self) -> usize {
        let mut ranks = 0;
        self.each_gpu(|gpu| ranks += usize::from(gpu.rank.is_some()));
        ranks
    }

    /// The NICs of every device, with their host.
    pub(crate) fn each_nets(&self, mut each: impl FnMut(u64, &[Net])) {
        for cpu in &self.cpus {
            let mut rest: Vec<&Pci> = Vec::new();
            for device in &cpu.below {
                match device {
                    Device::Pci(pci) => rest.push(pci),
                    Device::Nic(nets) => each(cpu.host, nets),
                }
            }
            while let Some(pci) = rest.pop() {
                pci.nets.iter().for_each(|nets| each(cpu.host, nets));
                rest.extend(&pci.below);
            }
        }
    }

    /// The same, mutable.
    pub(crate) fn each_nets_mut(&mut self, mut each: impl FnMut(u64, &mut [Net])) {
        for cpu in &mut self.cpus {
            let mut rest: Vec<&mut Pci> = Vec::new();
            for device in &mut cpu.below {
                match device {
                    Device::Pci(pci) => rest.push(pci),
                    Device::Nic(nets) => each(cpu.host, nets),
                }
            }
            while let Some(pci) = rest.pop() {
                pci.nets.iter_mut().for_each(|nets| each(cpu.host, nets));
                rest.extend(&mut pci.below);
            }
        }
    }

    fn each_gpu(&self, mut each: impl FnMut(&Gpu)) {
        let mut rest: Vec<&Pci> = Vec::new();
        for cpu in &self.cpus {
            rest.extend(cpu.below.iter().rev().filter_map(Device::pci));
            while let Some(pci) = rest.pop() {
                pci.gpus.iter().for_each(&mut each);
                rest.extend(pci.below.iter().rev());
            }
        }
    }

    fn each_gpu_mut(&mut self, mut each: impl FnMut(&mut Gpu)) {
        for cpu in &mut self.cpus {
            let mut rest: Vec<&mut Pci> = Vec::new();
            for device in cpu.below.iter_mut().rev() {
                if let Device::Pci(pci) = device {
                    rest.push(pci);
                }
            }
            while let Some(pci) = rest.pop() {
                pci.gpus.iter_mut().for_each(&mut each);
                rest.extend(pci.below.iter_mut().rev());
            }
        }
    }
}

impl Cpu {
    /// The ranks whose GPUs are attached to it.
    pub(crate) fn ranks(&self) -> Vec<u32> {
        let mut ranks = Vec::new();
        let mut rest: Vec<&Pci> = self.below.iter().filter_map(Device::pci).collect();
        while let Some(pci) = rest.pop() {
            ranks.extend(pci.gpus.iter().filter_map(|gpu| gpu.rank));
            rest.extend(&pci.below);
        }
        ranks
    }
}

impl Device {
    /// The NICs attached to the processor itself.
    pub(crate) fn nets_mut(&mut self) -> Option<&mut Vec<Net>> {
        match self {
            Self::Nic(nets) => Some(nets),
            Self::Pci(_) => None,
        }
    }

    pub(crate) fn pci(&self) -> Option<&Pci> {
        match self {
            Self::Pci(pci) => Some(pci),
            Self::Nic(_) => None,
        }
    }
}

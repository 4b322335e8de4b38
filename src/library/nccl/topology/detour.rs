//! Paths that are not the direct ones: between GPUs that do not reach each other's memory, through
//! another GPU's NIC (PXN), and between a GPU and a NIC that does not reach its memory.
//!
//! Source: NVIDIA/nccl at the tags of [`Version`], `src/graph/paths.cc`.

use super::Knobs;
use super::local::{Locals, cpu, nearest};
use super::paths::{Path, Paths};
use super::rules::Level;
use super::system::{Kind, System};
use crate::base::error::Result;
use crate::library::nccl::{Arch, Vendor, since};

impl Paths {
    /// All paths of a system, and the NICs and GPUs that belong together by them.
    ///
    /// # Errors
    /// A one-way link; a GPU that is not below a processor; a system that is too large.
    pub(in crate::library::nccl) fn new(system: &System, knobs: &Knobs) -> Result<(Self, Locals)> {
        let paths = Self::direct(system, knobs)?;
        let locals = Locals::new(system, knobs);
        let mut detours = Detours { system, knobs, paths, locals };
        detours.between_gpus()?;
        detours.chip_to_chip()?;
        detours.reach_nics()?;
        Ok((detours.paths, detours.locals))
    }
}

struct Detours<'a> {
    system: &'a System,
    knobs: &'a Knobs,
    paths: Paths,
    locals: Locals,
}

impl Detours<'_> {
    fn gpu(&self, index: usize) -> usize {
        self.system.of(Kind::Gpu)[index]
    }

    fn net(&self, index: usize) -> usize {
        self.system.of(Kind::Net)[index]
    }

    /// The path from a GPU to a NIC.
    fn out(&self, gpu: usize, net: usize) -> Path {
        self.paths.get(self.gpu(gpu), Kind::Net, net)
    }

    /// The path from a NIC to a GPU.
    fn inward(&self, net: usize, gpu: usize) -> Path {
        self.paths.get(self.net(net), Kind::Gpu, gpu)
    }

    /// Reroutes `from`'s path to a target through a processor.
    fn over_cpu(&mut self, from: usize, cpu: usize, kind: Kind, target: usize) {
        let before = self.paths.get(from, Kind::Cpu, cpu);
        let after = self.paths.get(self.system.of(Kind::Cpu)[cpu], kind, target);
        let level = self.merged(before.level, after.level);
        let path = self.paths.then(before, after, level);
        self.paths.set(from, kind, target, path);
    }

    /// The level of two consecutive paths: the farther one, but a host bridge after a chip-to-chip
    /// link is nearer.
    fn merged(&self, a: Level, b: Level) -> Level {
        let levels = self.paths.levels;
        let (near, far) = (a.min(b), a.max(b));
        let chip = self.system.version.has(since::P2C_MERGED);
        if chip && far == levels.phb && near == levels.c2c { levels.p2c } else { far }
    }

    /// How far apart GPUs may be that reach each other's memory.
    fn reach(&self) -> Level {
        let levels = self.paths.levels;
        if let Some(level) = self.knobs.p2p_level() {
            return Level(level.rank(self.system.version));
        }
        let cpu = (self.system.count(Kind::Cpu) > 0).then(|| self.system.cpu(0));
        let (arch, vendor) = cpu.map_or((Arch::X86, Vendor::Other), |cpu| (cpu.arch, cpu.vendor));
        let far = if self.system.version.has(since::P2P_PXB) {
            let few = self.system.count(self.system.device_kind()) <= 2;
            arch == Arch::X86 && vendor == Vendor::Amd && few
        } else {
            let near = arch == Arch::X86 && matches!(vendor, Vendor::Intel | Vendor::Zhaoxin);
            arch != Arch::Arm && !near
        };
        if far { levels.sys } else { levels.pxb }
    }

    /// GPUs that are too far apart communicate through the memory of the processor that is nearest
    /// to the second; over the network, where that is not allowed or the network is faster.
    fn between_gpus(&mut self) -> Result<()> {
        let reach = self.reach();
        let gpus = self.system.count(Kind::Gpu);
        for to in 0..gpus {
            for from in 0..gpus {
                let node = self.gpu(from);
                let direct = self.paths.get(node, Kind::Gpu, to);
                let is_far = direct.level > reach;
                if is_far {
                    let cpu = cpu(self.system, &self.paths, to)?;
                    self.over_cpu(node, cpu, Kind::Gpu, to);
                }
                // Memory that is reached through another GPU is used all the same.
                let may_leave = is_far || direct.level != self.paths.levels.nvb;
                if is_far && !self.knobs.shared_memory
                    || from != to && may_leave && self.network_is_faster(from, to)
                {
                    let path = self.paths.get(node, Kind::Gpu, to);
                    self.paths.set(node, Kind::Gpu, to, path.at(self.paths.levels.net));
                }
            }
        }
        Ok(())
    }

    /// Whether both GPUs reach NICs that are below the same PCIe host bridge faster than the first reaches the second
    /// (`ncclTopoCheckNet`, which both the transport by direct access and that by shared memory ask).
    fn network_is_faster(&self, from: usize, to: usize) -> bool {
        let between = self.paths.get(self.gpu(from), Kind::Gpu, to).rate;
        let near = |path: &Path| path.level <= self.paths.levels.pxb && path.rate > between;
        let reaches = |gpu| self.paths.to_all(self.gpu(gpu), Kind::Net).iter().any(near);
        self.knobs.network_inside && reaches(from) && reaches(to)
    }

    /// NICs on a processor to which the GPU has a chip-to-chip link.
    fn chip_to_chip(&mut self) -> Result<()> {
        let levels = self.paths.levels;
        let version = self.system.version;
        if !version.has(since::P2C_TYPE) {
            return Ok(());
        }
        for gpu in 0..self.system.count(Kind::Gpu) {
            let cpu = cpu(self.system, &self.paths, gpu)?;
            let chip = self.paths.get(self.gpu(gpu), Kind::Cpu, cpu).level;
            let nets: Vec<usize> = match version.has(since::P2C_NEAREST) {
                true => {
                    let near = nearest(&self.paths, self.gpu(gpu), Kind::Net);
                    near.into_iter().map(|net| net as usize).collect()
                }
                false => (0..self.system.count(Kind::Net)).collect(),
            };
            for net in nets {
                if version.has(since::P2C_MERGED) {
                    let bridge = self.paths.get(self.net(net), Kind::Cpu, cpu).level;
                    if self.merged(chip, bridge) == levels.p2c {
                        self.relevel(gpu, net, |level| level.min(levels.p2c));
                    }
                } else if self.out(gpu, net).level == levels.phb && chip == levels.c2c {
                    self.relevel(gpu, net, |_| levels.p2c);
                }
            }
        }
        Ok(())
    }

    /// Changes the levels of both paths between a GPU and a NIC.
    fn relevel(&mut self, gpu: usize, net: usize, level: impl Fn(Level) -> Level) {
        let (out, inward) = (self.out(gpu, net), self.inward(net, gpu));
        let (gpu_node, net_node) = (self.gpu(gpu), self.net(net));
        self.paths.set(gpu_node, Kind::Net, net, out.at(level(out.level)));
        self.paths.set(net_node, Kind::Gpu, gpu, inward.at(level(inward.level)));
        self.locals.changed(self.system, gpu, net);
    }

    /// Paths through the NIC of another GPU, and around memory that NICs do not reach.
    fn reach_nics(&mut self) -> Result<()> {
        for net in 0..self.system.count(Kind::Net) {
            for gpu in 0..self.system.count(Kind::Gpu) {
                if self.knobs.pxn {
                    self.through_another(gpu, net)?;
                }
                let near = self.out(gpu, net).level < self.paths.levels.phb;
                let asked = near || !self.system.version.has(since::DETOUR_NEAR);
                if asked && !self.reaches(gpu, net, false) {
                    let cpu = cpu(self.system, &self.paths, gpu)?;
                    self.over_cpu(self.net(net), cpu, Kind::Gpu, gpu);
                    self.over_cpu(self.gpu(gpu), cpu, Kind::Net, net);
                    self.locals.changed(self.system, gpu, net);
                }
            }
        }
        Ok(())
    }

    /// PXN, only from GPU to NIC: data to the GPU takes the direct path.
    fn through_another(&mut self, gpu: usize, net: usize) -> Result<()> {
        let levels = self.paths.levels;
        let Some(relay) = self.locals.gpu(self.system, &self.paths, net)? else { return Ok(()) };
        if relay == gpu {
            return Ok(());
        }
        let version = self.system.version;
        let theirs = self.out(relay, net);
        let chips = version.has(since::PXN_C2C)
            && self.knobs.pxn_c2c.unwrap_or(version.has(since::PXN_C2C_ON));
        let beside = theirs.level <= levels.pxb || chips && theirs.level == levels.p2c;
        let between = self.paths.get(self.gpu(relay), Kind::Gpu, gpu).level;
        let host = |gpu| self.system.host(Kind::Gpu, gpu);
        let reached = !version.has(since::PXN_READS) || self.reaches(relay, net, true);
        let ours = self.out(gpu, net);
        let far = match version {
            _ if version.has(since::PXN_BEHIND_PXN) => levels.pxn,
            _ if chips && version.has(since::P2C_BEFORE_PXN) => levels.p2c,
            _ => levels.pxb,
        };
        let better = theirs.rate > ours.rate || ours.level > far;
        if beside && reached && between <= levels.nvl && host(relay) == host(gpu) && better {
            let before = self.paths.get(self.gpu(gpu), Kind::Gpu, relay);
            let path = self.paths.then(before, theirs, levels.pxn);
            let node = self.gpu(gpu);
            self.paths.set(node, Kind::Net, net, path);
            self.locals.changed(self.system, gpu, net);
        }
        Ok(())
    }

    /// Whether a NIC reaches a GPU's memory (GPU Direct RDMA), to write or to read.
    fn reaches(&self, gpu: usize, net: usize, read: bool) -> bool {
        let (levels, version) = (self.paths.levels, self.system.version);
        let of = self.system.gpu(gpu);
        if !self.system.net(net).gdr || !of.gdr {
            return false;
        }
        if read {
            let old = of.cc < 80 || !version.has(since::GDR_READ_AMPERE);
            let linked = || {
                let to = self.paths.to_all(self.gpu(gpu), Kind::Gpu);
                let others = to.iter().enumerate().filter(|&(other, _)| other != gpu);
                to.len() == 1 || others.into_iter().any(|(_, path)| path.level == levels.nvl)
            };
            match self.knobs.gdr_read {
                Some(false) => return false,
                None if old && !linked() => return false,
                _ => {}
            }
        }
        let path = self.out(gpu, net);
        let mut distance = path.level;
        if distance == levels.pxn {
            distance = self.out(self.relay(gpu, net), net).level;
        }
        let chips = version.has(since::GDR_C2C)
            && self.knobs.gdr_c2c.unwrap_or(version.has(since::GDR_C2C_ON));
        let nearest_counts = version.has(since::P2C_NEAREST);
        if chips && !nearest_counts && self.is_over_chip(gpu, distance) {
            distance = levels.c2c;
        }
        let most = match self.knobs.gdr {
            Some(level) => Level(level.rank(version)),
            None if chips && nearest_counts => levels.p2c,
            None => levels.pxb,
        };
        distance <= most
    }

    /// Whether a NIC at a level reaches a GPU over the link between processor and GPU.
    fn is_over_chip(&self, gpu: usize, distance: Level) -> bool {
        let levels = self.paths.levels;
        if self.system.version.has(since::P2C_TYPE) {
            return distance == levels.p2c;
        }
        let linked = |cpu| self.paths.get(self.gpu(gpu), Kind::Cpu, cpu).level == levels.c2c;
        distance == levels.phb && cpu(self.system, &self.paths, gpu).is_ok_and(linked)
    }

    /// The first other GPU on the path from a GPU to a NIC.
    fn relay(&self, gpu: usize, net: usize) -> usize {
        let kind = self.system.device_kind();
        let home = self.system.gpu(gpu).dev;
        let ways =
            self.paths.links(self.out(gpu, net)).map(|link| self.paths.ways[link as usize].to);
        let mut devices = ways.filter(|&node| self.system.nodes[node].kind == kind && node != home);
        let device = devices.next().unwrap_or(home);
        let gpus = 0..self.system.count(Kind::Gpu);
        gpus.into_iter().find(|&other| self.system.gpu(other).dev == device).unwrap_or(gpu)
    }
}

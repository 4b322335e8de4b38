//! Which NICs are a GPU's own, which GPU is a NIC's own, and which processor a GPU is nearest to.
//!
//! The nearest is the one with the fastest path, and among equals the one with the closest path type.
//! GPUs that share their nearest NICs take turns.
//!
//! Source: NVIDIA/nccl at the tags of [`Version`], `src/graph/topo.cc` (`ncclTopoGetLocal…`) and
//! `src/graph/paths.cc` (the processor).

use super::knobs::{Knobs, Nics};
use super::paths::{Path, Paths};
use super::rules::most_channels;
use super::system::{Kind, System};
use crate::base::error::{Error, Result};
use crate::library::nccl::since;

/// The nearest devices of each device, kept as long as no path changes.
#[derive(Debug, Clone)]
pub(in crate::library::nccl) struct Locals {
    nics: Nics,
    nets_of_gpu: Vec<Option<Nearest>>,
    gpus_of_net: Vec<Option<Vec<u32>>>,
    gpu_of_net: Vec<Option<Option<usize>>>,
}

/// The nearest NICs of a GPU.
#[derive(Debug, Clone, PartialEq)]
struct Nearest {
    /// The first by its place in the system.
    first: Option<u32>,
    /// In the order in which they are used.
    nets: Vec<u32>,
    /// Where each rail begins in it, and the end, if GPUs take turns at rails.
    rails: Vec<usize>,
}

impl Nearest {
    fn new(system: &System, mut nets: Vec<u32>) -> Self {
        let first = nets.first().copied();
        let mut rails = Vec::new();
        if system.version.has(since::RAILS_IN_TURN) {
            let listed = nets.clone();
            let rail = |net: u32| {
                let own = system.net(net as usize).rail;
                listed.iter().position(|&other| system.net(other as usize).rail == own)
            };
            nets.sort_by_key(|&net| (rail(net), system.net(net as usize).plane));
            rails = (0..nets.len())
                .filter(|&at| at == 0 || rail(nets[at]) != rail(nets[at - 1]))
                .collect();
            rails.push(nets.len());
        }
        Self { first, nets, rails }
    }

    /// Where the NICs of a GPU begin that is one of `shared`, and how many are its own.
    fn turn(&self, device: usize, shared: usize) -> (usize, usize) {
        let rails = self.rails.len() - 1;
        let each = rails.div_ceil(shared);
        let mirrors = rails.is_power_of_two();
        let rail = if mirrors { mirrored(device, rails) } else { device * each % rails };
        let (from, to) = (self.rails[rail], rail + each);
        let around = if to < rails { 0 } else { self.rails[rails] };
        (from, self.rails[to % rails] + around - from)
    }
}

/// The nearest of several targets, in order.
pub(in crate::library::nccl) fn nearest(paths: &Paths, node: usize, kind: Kind) -> Vec<u32> {
    nearest_of(paths, paths.to_all(node, kind))
}

fn nearest_of(paths: &Paths, to: &[Path]) -> Vec<u32> {
    let (mut rate, mut level) = (0.0, paths.levels.dis);
    let mut found = Vec::new();
    for (index, path) in to.iter().enumerate() {
        if path.rate > rate || path.rate == rate && path.level < level {
            (rate, level) = (path.rate, path.level);
            found.clear();
        }
        // All unreachable targets are equally near.
        if path.rate == rate && path.level == level {
            found.push(index as u32);
        }
    }
    found
}

/// The processor that a GPU's traffic is routed through.
///
/// # Errors
/// A GPU that is not below a processor.
pub(super) fn cpu(system: &System, paths: &Paths, gpu: usize) -> Result<usize> {
    let node = system.of(Kind::Gpu)[gpu];
    let to = paths.to_all(node, Kind::Cpu);
    let found = if system.version.has(since::CPU_FASTEST) {
        let near = nearest(paths, node, Kind::Cpu);
        near.into_iter().map(|cpu| cpu as usize).min_by_key(|&cpu| to[cpu].hops)
    } else if system.version.has(since::CPU_HOPS) {
        (0..to.len()).filter(|&cpu| to[cpu].hops > 0).min_by_key(|&cpu| to[cpu].hops)
    } else {
        // A processor that is not reached has no hops, and is replaced by the next one.
        let mut found: Option<usize> = None;
        for (cpu, path) in to.iter().enumerate() {
            let least = found.map_or(0, |found| to[found].hops);
            if least == 0 || path.hops < least {
                found = Some(cpu);
            }
        }
        found
    };
    found.ok_or_else(|| {
        Error::input(format!("no processor is near the GPU of rank {}", system.gpu(gpu).rank))
            .at(&system.origin)
            .help("describe every GPU below the <cpu> that it is attached to")
    })
}

impl Locals {
    pub(super) fn new(system: &System, knobs: &Knobs) -> Self {
        let (gpus, nets) = (system.count(Kind::Gpu), system.count(Kind::Net));
        let nics = if system.version.has(since::NICS_POLICY) { knobs.nics } else { Nics::Auto };
        Self {
            nics,
            nets_of_gpu: vec![None; gpus],
            gpus_of_net: vec![None; nets],
            gpu_of_net: vec![None; nets],
        }
    }

    /// Forgets the results that depend on the paths between a GPU and a NIC.
    pub(super) fn changed(&mut self, system: &System, gpu: usize, net: usize) {
        self.nets_of_gpu[gpu] = None;
        self.gpus_of_net[net] = None;
        self.gpu_of_net.fill(None);
        if !system.version.has(since::OWN_NICS) {
            self.nets_of_gpu.fill(None);
        }
    }

    /// The NIC that a GPU uses on a channel; `None` if there is no NIC.
    pub(in crate::library::nccl) fn net(
        &mut self,
        system: &System,
        paths: &Paths,
        gpu: usize,
        channel: usize,
    ) -> Option<usize> {
        self.know_gpu(system, paths, gpu);
        let first = self.nets_of_gpu[gpu].as_ref()?.first? as usize;
        self.know_net(system, paths, first);
        let shared = self.gpus_of_net[first].as_ref().map_or(1, Vec::len).max(1);
        let near = self.nets_of_gpu[gpu].as_ref()?;
        let count = near.nets.len();
        let device = system.gpu(gpu).device as usize;
        let (start, own) = if system.version.has(since::RAILS_IN_TURN) {
            near.turn(device, shared)
        } else {
            let start = if turns_again(system, gpu, &near.nets) { device % shared } else { device };
            let start = if count.is_power_of_two() { mirrored(start, count) } else { start };
            (start, count.div_ceil(shared))
        };
        let each = match self.nics {
            Nics::Auto => own,
            Nics::All => count,
            Nics::Max(most) => count.min(most as usize),
        };
        near.nets.get((start + channel % each.max(1)) % count).map(|&net| net as usize)
    }

    /// The GPU that a NIC serves; `None` if each GPU prefers a NIC of its own.
    ///
    /// # Errors
    /// In 2.18.1 and 2.18.3, GPUs equally near to the NIC one of which also has other NICs: NCCL
    /// fails there.
    pub(in crate::library::nccl) fn gpu(
        &mut self,
        system: &System,
        paths: &Paths,
        net: usize,
    ) -> Result<Option<usize>> {
        if let Some(known) = self.gpu_of_net[net] {
            return Ok(known);
        }
        let found = if system.version.has(since::OWN_NICS) {
            self.know_net(system, paths, net);
            let gpus = match system.version.has(since::OWN_GPU_IS_NEAR) {
                true => self.gpus_of_net[net].clone().unwrap_or_default(),
                false => (0..system.count(Kind::Gpu) as u32).collect(),
            };
            let channels = 0..most_channels(system.version);
            // A GPU's NICs repeat after as many channels as it has NICs.
            let channels = channels.take(system.count(Kind::Net));
            let mut pairs = channels.flat_map(|c| gpus.iter().map(move |&gpu| (c, gpu as usize)));
            let own = pairs.find(|&(c, gpu)| self.net(system, paths, gpu, c) == Some(net));
            own.map(|(_, gpu)| gpu)
        } else {
            self.by_turns(system, paths, net)?
        };
        self.gpu_of_net[net] = Some(found);
        Ok(found)
    }

    /// The rule of 2.18.1 and 2.18.3: GPUs with the same nearest NICs take one after another.
    fn by_turns(&mut self, system: &System, paths: &Paths, net: usize) -> Result<Option<usize>> {
        let mut least = paths.levels.dis;
        let mut gpus: Vec<usize> = Vec::new();
        for gpu in 0..system.count(Kind::Gpu) {
            self.know_gpu(system, paths, gpu);
            if !self.nets(gpu).contains(&(net as u32)) {
                continue;
            }
            let level = paths.get(system.of(Kind::Net)[net], Kind::Gpu, gpu).level;
            if level < least {
                least = level;
                gpus.clear();
            }
            if level == least {
                if gpus.first().is_some_and(|&g| self.nets_of_gpu[g] != self.nets_of_gpu[gpu]) {
                    let what = "NCCL 2.18.3 fails on GPUs that share one but not all of their NICs";
                    return Err(Error::unsupported(what)
                        .at(&system.origin)
                        .help("use --nccl 2.21.5 or newer"));
                }
                gpus.push(gpu);
            }
        }
        let Some(&first) = gpus.first() else { return Ok(None) };
        let turn = self.nets(first).iter().position(|&other| other as usize == net).unwrap_or(0);
        Ok(Some(gpus[turn % gpus.len()]))
    }

    /// The nearest NICs of a GPU. 2.18.3 starts from the NIC, and orders them by their numbers.
    fn know_gpu(&mut self, system: &System, paths: &Paths, gpu: usize) {
        if self.nets_of_gpu[gpu].is_some() {
            return;
        }
        let found = if !system.version.has(since::OWN_NICS) {
            let nets = system.of(Kind::Net);
            let to: Vec<Path> = nets.iter().map(|&net| paths.get(net, Kind::Gpu, gpu)).collect();
            let mut found = nearest_of(paths, &to);
            found.sort_by_key(|&net| system.net(net as usize).device);
            found
        } else {
            nearest(paths, system.of(Kind::Gpu)[gpu], Kind::Net)
        };
        self.nets_of_gpu[gpu] = Some(Nearest::new(system, found));
    }

    fn nets(&self, gpu: usize) -> &[u32] {
        self.nets_of_gpu[gpu].as_ref().map_or(&[], |near| &near.nets)
    }

    fn know_net(&mut self, system: &System, paths: &Paths, net: usize) {
        if self.gpus_of_net[net].is_none() {
            let found = nearest(paths, system.of(Kind::Net)[net], Kind::Gpu);
            self.gpus_of_net[net] = Some(found);
        }
    }
}

/// Whether the turns at some NICs start again after as many GPUs as share them.
fn turns_again(system: &System, gpu: usize, nets: &[u32]) -> bool {
    system.version.has(since::TURNS_AGAIN)
        || system.version.has(since::TURNS_AGAIN_CONNECTX_8)
            && system.gpu(gpu).cc >= 100
            && nets.iter().any(|&net| system.net(net as usize).connectx_8)
}

/// A number with the order of its bits below a power of two reversed.
fn mirrored(number: usize, power: usize) -> usize {
    let bits = power.trailing_zeros();
    (0..bits).filter(|bit| number >> bit & 1 == 1).map(|bit| power >> (bit + 1)).sum()
}

#[cfg(test)]
mod tests {
    use super::mirrored;

    #[test]
    fn bits_are_mirrored_below_the_power() {
        let all = |power| (0..power).map(|n| mirrored(n, power)).collect::<Vec<_>>();
        assert_eq!(all(1), [0]);
        assert_eq!(all(4), [0, 2, 1, 3]);
        assert_eq!(all(8), [0, 4, 2, 6, 1, 5, 3, 7]);
        assert_eq!(mirrored(13, 4), 2);
    }
}

//! The order in which a search tries NICs and GPUs. The order affects the results, because searches
//! end when their budget is spent.
//!
//! Source: NVIDIA/nccl at the tags of [`Version`], `src/graph/search.cc`.

use std::cmp::Reverse;

use super::world::World;
use crate::library::nccl::since;
use crate::library::nccl::topology::{Kind, Level, Nics, most_channels};

/// NICs for the start of a channel, and for each GPU at its end.
#[derive(Debug, Clone, Default)]
pub(super) struct NicOrder {
    level: Option<Level>,
    pub(super) all: Vec<u16>,
    of: Vec<Option<Vec<u16>>>,
}

impl NicOrder {
    /// Prepares the order for paths up to a level, unless it is prepared already.
    pub(super) fn prepare(&mut self, world: &mut World, level: Level) {
        if self.level != Some(level) {
            self.level = Some(level);
            self.all = nics(world, Some(level), None);
            self.of = vec![None; world.gpus()];
        }
    }

    /// The NICs of one GPU.
    pub(super) fn of(&mut self, world: &mut World, gpu: usize) -> &[u16] {
        let level = self.level;
        self.of[gpu].get_or_insert_with(|| nics(world, level, Some(gpu)))
    }
}

/// The NICs to try for one GPU or for all: first its own ones, then others up to a level, nearest
/// first.
pub(super) fn nics(world: &mut World, level: Option<Level>, gpu: Option<usize>) -> Vec<u16> {
    let gpus: Vec<usize> = gpu.map_or_else(|| (0..world.gpus()).collect(), |gpu| vec![gpu]);
    let mut found = Found { seen: vec![false; world.nets()], nets: Vec::new(), most: usize::MAX };
    let version = world.version();
    let own_first = version.has(since::OWN_NICS_FIRST);
    let scatters = version.has(since::NICS_BY_CHANNEL) && world.knobs.scatters_nics;
    if own_first && scatters && world.system.hosts() > 1 {
        by_channel(world, &gpus, &mut found);
    } else if own_first {
        for &gpu in &gpus {
            for net in own_nics(world, gpu) {
                found.add(net);
            }
        }
    }
    if let Nics::Max(most) = world.knobs.nics
        && version.has(since::NICS_POLICY_ENDS)
    {
        found.most = most as usize * gpus.len();
    }
    let Some(level) = level else { return found.nets };
    let visible = if own_first { most_channels(version) } else { usize::MAX };
    for at in 0..=level.0 {
        for &gpu in &gpus {
            let node = world.system.of(Kind::Gpu)[gpu];
            let to = world.paths.to_all(node, Kind::Net).iter().take(visible).enumerate();
            let near = to.filter(|(_, path)| path.level == Level(at));
            let mut near: Vec<usize> = near.map(|(net, _)| net).collect();
            if !own_first && !near.is_empty() {
                let turn = world.system.gpu(gpu).device as usize % near.len();
                near.rotate_left(turn);
            }
            for net in near {
                if found.nets.len() >= found.most {
                    return found.nets;
                }
                found.add(net);
            }
        }
    }
    found.nets
}

/// NICs in the order in which they were found, each once.
struct Found {
    seen: Vec<bool>,
    nets: Vec<u16>,
    most: usize,
}

impl Found {
    fn add(&mut self, net: usize) {
        if !self.seen[net] {
            self.seen[net] = true;
            self.nets.push(net as u16);
        }
    }
}

fn own(world: &mut World, gpu: usize, channel: usize) -> Option<usize> {
    world.locals.net(&world.system, &world.paths, gpu, channel)
}

/// A GPU's own NICs, until they repeat.
pub(super) fn own_nics(world: &mut World, gpu: usize) -> Vec<usize> {
    let first = own(world, gpu, 0);
    let mut nets = Vec::new();
    for channel in 0..most_channels(world.version()) {
        match own(world, gpu, channel) {
            Some(net) if channel == 0 || Some(net) != first => nets.push(net),
            _ => break,
        }
    }
    nets
}

/// Channel by channel every GPU's own NIC, as long as there are new ones.
fn by_channel(world: &mut World, gpus: &[usize], found: &mut Found) {
    let mut rest: Vec<usize> = gpus.to_vec();
    for channel in 0..most_channels(world.version()) {
        rest.retain(|&gpu| match own(world, gpu, channel) {
            Some(net) if channel == 0 || own(world, gpu, 0) != Some(net) => {
                found.add(net);
                true
            }
            _ => false,
        });
        if rest.is_empty() {
            break;
        }
    }
}

/// Whether the path from the first NIC matters when the next GPU is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Toward {
    /// It does not.
    Gpus,
    /// The next GPU goes back to the NIC.
    NicNext,
    /// A later GPU goes back to it; GPUs that are all alike are tried in reverse order.
    NicLater,
}

/// The next GPUs, best first, without the values that change while a search runs.
#[derive(Debug, Clone)]
pub(super) struct GpuOrder {
    /// By GPU: the other GPUs by the rate and length of the path to them, then by distance.
    plain: Vec<Vec<u16>>,
    /// By NIC and GPU: the other GPUs by the rate and length of the path from the NIC, then in the
    /// same order.
    netted: Vec<Option<Box<[u16]>>>,
    /// The number of GPUs in all of those.
    kept: usize,
}

/// The most GPUs that are kept at a time.
const MOST_KEPT: usize = 1 << 24;

/// The sort keys of the path from GPU to GPU.
fn way(world: &World, from: usize, to: usize) -> (Reverse<i32>, u32) {
    let path = world.path((Kind::Gpu, from), (Kind::Gpu, to));
    (Reverse(path.rate as i32), path.hops)
}

impl GpuOrder {
    pub(super) fn new(world: &World) -> Self {
        let gpus = world.gpus();
        let plain = (0..gpus).map(|from| {
            let others = (1..gpus).map(|distance| (from + distance) % gpus);
            let reached =
                others.filter(|&to| world.path((Kind::Gpu, from), (Kind::Gpu, to)).hops > 0);
            let mut order: Vec<u16> = reached.map(|to| to as u16).collect();
            order.sort_by_key(|&to| way(world, from, usize::from(to)));
            order
        });
        let netted = vec![None; world.nets() * gpus];
        Self { plain: plain.collect(), netted, kept: 0 }
    }

    pub(super) fn plain(&self, from: usize) -> &[u16] {
        &self.plain[from]
    }

    /// The order after a first NIC.
    pub(super) fn netted(&mut self, world: &World, net: usize, from: usize) -> &[u16] {
        let plain = &self.plain[from];
        if self.kept > MOST_KEPT {
            self.netted.fill(None);
            self.kept = 0;
        }
        let kept = &mut self.kept;
        self.netted[net * self.plain.len() + from].get_or_insert_with(|| {
            *kept += plain.len();
            let mut order = plain.clone();
            order.sort_by_key(|&to| {
                let path = world.path((Kind::Net, net), (Kind::Gpu, usize::from(to)));
                (Reverse(path.rate as i32), path.hops)
            });
            order.into_boxed_slice()
        })
    }

    /// Whether two GPUs are equally good from a third.
    pub(super) fn alike(world: &World, from: usize, a: usize, b: usize) -> bool {
        way(world, from, a) == way(world, from, b)
    }
}

//! Paths as a search walks them: what each takes from which links, and gives back.
//!
//! A link's rate is rounded to thousandths after every change, as NCCL does; some walks therefore
//! leave a trace of 0.001.
//!
//! Source: NVIDIA/nccl at the tags of [`Version`], `src/graph/search.cc` (`followPath`).

use super::world::World;
use crate::nccl::topology::{Kind, Level, What, Wire};
use crate::nccl::{Arch, Vendor, Version};

/// One link of a route.
#[derive(Debug, Clone, Copy)]
struct Step {
    link: u32,
    /// The link back, where something flows back on it.
    back: u32,
    /// The part of the forward rate that does.
    share: f32,
    is_pci: bool,
}

const NONE: u32 = u32::MAX;

/// A path from one place to another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Route {
    first: u32,
    pub(super) hops: u32,
    pub(super) level: Level,
    /// The level of the path back.
    pub(super) back: Level,
    /// Whether PCI carries a fifth more, which GPUs' traffic through Intel's processors costs.
    dear: bool,
}

/// A place where a channel goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    Gpu(usize),
    Net(usize),
    Switch,
}

/// All routes, and what their links have left.
#[derive(Debug, Clone)]
pub(super) struct Routes {
    gpus: usize,
    nets: usize,
    between: Vec<Route>,
    out: Vec<Route>,
    into: Vec<Route>,
    up: Vec<Route>,
    down: Vec<Route>,
    steps: Vec<Step>,
    left: Vec<f32>,
    /// The PCI links of each GPU, there and back.
    pci: Vec<Option<(u32, u32)>>,
}

impl Routes {
    pub(super) fn new(world: &World) -> Self {
        let (gpus, nets) = (world.gpus(), world.nets());
        let mut routes = Self {
            gpus,
            nets,
            between: Vec::new(),
            out: Vec::new(),
            into: Vec::new(),
            up: Vec::new(),
            down: Vec::new(),
            steps: Vec::new(),
            left: world.paths.ways.iter().map(|way| way.rate).collect(),
            pci: (0..gpus).map(|gpu| pci(world, gpu)).collect(),
        };
        let pairs = |a: usize, b: usize| (0..a).flat_map(move |i| (0..b).map(move |j| (i, j)));
        routes.between = pairs(gpus, gpus)
            .map(|(a, b)| routes.add(world, (Kind::Gpu, a), (Kind::Gpu, b)))
            .collect();
        if world.inter {
            routes.out = pairs(gpus, nets)
                .map(|(gpu, net)| routes.add(world, (Kind::Gpu, gpu), (Kind::Net, net)))
                .collect();
            routes.into = pairs(nets, gpus)
                .map(|(net, gpu)| routes.add(world, (Kind::Net, net), (Kind::Gpu, gpu)))
                .collect();
        }
        if world.has_switch() {
            let switch = (Kind::Nvs, 0);
            routes.up =
                (0..gpus).map(|gpu| routes.add(world, (Kind::Gpu, gpu), switch)).collect();
            routes.down =
                (0..gpus).map(|gpu| routes.add(world, switch, (Kind::Gpu, gpu))).collect();
        }
        routes
    }

    fn add(&mut self, world: &World, from: (Kind, usize), to: (Kind, usize)) -> Route {
        let path = world.path(from, to);
        let back = world.path(to, from).level;
        let start = from.0;
        let first = self.steps.len() as u32;
        let mut intel = false;
        for link in world.paths.links(path) {
            let way = world.paths.ways[link as usize];
            let end = &world.system.nodes[way.to];
            let mut share = 0.0;
            match end.what {
                What::Cpu(cpu) => {
                    intel |= cpu.arch == Arch::X86 && cpu.vendor == Vendor::Intel;
                    let shared = cpu.arch == Arch::Power || world.version() == Version::V2_18;
                    if shared && way.wire == Wire::Nvl {
                        share = 1.0;
                    }
                }
                // Before Ampere what a GPU reads is asked for over the same link.
                What::Dev(cc) if cc < 80 && start != Kind::Gpu => share = 0.125,
                What::Gpu(gpu)
                    if gpu.cc < 80
                        && start != Kind::Gpu
                        && world.system.device_kind() == Kind::Gpu =>
                {
                    share = 0.125;
                }
                _ => {}
            }
            let back = if share > 0.0 { way.back.unwrap_or(NONE) } else { NONE };
            self.steps.push(Step { link, back, share, is_pci: way.wire == Wire::Pci });
        }
        let dear = intel && path.level == world.levels.phb && start == Kind::Gpu;
        Route { first, hops: path.hops, level: path.level, back, dear }
    }

    #[inline]
    pub(super) fn get(&self, from: Stop, to: Stop) -> Route {
        match (from, to) {
            (Stop::Gpu(a), Stop::Gpu(b)) => self.between[a * self.gpus + b],
            (Stop::Gpu(gpu), Stop::Net(net)) => self.out[gpu * self.nets + net],
            (Stop::Net(net), Stop::Gpu(gpu)) => self.into[net * self.gpus + gpu],
            (Stop::Gpu(gpu), _) => self.up[gpu],
            (_, Stop::Gpu(gpu)) => self.down[gpu],
            _ => unreachable!("channels go from and to GPUs"),
        }
    }

    /// Takes a rate from every link of a route; where one has not enough left, gives back what was
    /// taken and says so.
    #[inline]
    pub(super) fn take(&mut self, route: Route, rate: f32) -> bool {
        let pci = if route.dear { rate * 6.0 / 5.0 } else { rate };
        let first = route.first as usize;
        let steps = &self.steps[first..first + route.hops as usize];
        for (done, step) in steps.iter().enumerate() {
            let need = if step.is_pci { pci } else { rate };
            let left = &mut self.left[step.link as usize];
            if *left < need {
                self.give(first, done, rate, pci);
                return false;
            }
            if step.back == NONE {
                *left = rounded(*left - need);
                continue;
            }
            let back = need * step.share;
            if self.left[step.back as usize] < back {
                self.give(first, done, rate, pci);
                return false;
            }
            let left = &mut self.left[step.link as usize];
            *left = rounded(*left - need);
            let left = &mut self.left[step.back as usize];
            *left = rounded(*left - back);
        }
        true
    }

    /// Gives back what [`take`](Self::take) took.
    #[inline]
    pub(super) fn give_back(&mut self, route: Route, rate: f32) {
        let pci = if route.dear { rate * 6.0 / 5.0 } else { rate };
        self.give(route.first as usize, route.hops as usize, rate, pci);
    }

    #[inline]
    fn give(&mut self, first: usize, count: usize, rate: f32, pci: f32) {
        for step in &self.steps[first..first + count] {
            let need = if step.is_pci { pci } else { rate };
            let left = &mut self.left[step.link as usize];
            *left = rounded(*left + need);
            if step.back != NONE {
                let left = &mut self.left[step.back as usize];
                *left = rounded(*left + need * step.share);
            }
        }
    }

    /// What a GPU's PCI link has left, in whole GB/s; less than nothing where it has no such link.
    pub(super) fn pci_left(&self, gpu: usize) -> i32 {
        self.pci[gpu].map_or(-1, |(there, back)| {
            let (there, back) = (self.left[there as usize], self.left[back as usize]);
            (if back < there { back } else { there }) as i32
        })
    }
}

/// To thousandths, halves away from zero.
#[inline]
fn rounded(rate: f32) -> f32 {
    let scaled = rate * 1000.0;
    let whole = scaled as i64 as f32;
    let rest = scaled - whole;
    let step = f32::from(u8::from(rest >= 0.5)) - f32::from(u8::from(rest <= -0.5));
    (whole + step) / 1000.0
}

/// The first PCI link of a GPU that leads back.
fn pci(world: &World, gpu: usize) -> Option<(u32, u32)> {
    let dev = world.system.gpu(gpu).dev;
    let ways = world.paths.ways.iter().enumerate();
    let mut own = ways.filter(|(_, way)| way.from == dev && way.wire == Wire::Pci);
    own.find_map(|(there, way)| {
        let mut back = world.paths.ways.iter().enumerate();
        let back = back.find(|(_, other)| other.from == way.to && other.to == dev);
        back.map(|(back, _)| (there as u32, back as u32))
    })
}

#[cfg(test)]
mod tests {
    use super::rounded;

    #[test]
    fn halves_go_away_from_zero() {
        for rate in [0.0_f32, 12.0, 370.800_02, 17.499_5, 0.000_5, 0.001_5, -0.000_5, 4999.999_5] {
            assert_eq!(rounded(rate).to_bits(), ((rate * 1000.0).round() / 1000.0).to_bits());
        }
    }
}

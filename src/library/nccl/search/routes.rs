//! Paths as a search walks them: the bandwidth that each path takes from its links and gives back.
//!
//! NCCL rounds the remaining bandwidth of a link to thousandths of a GB/s after every change, in
//! float32. Here it is a whole number of thousandths, and most arithmetic uses that number. Where
//! float32 could give another result, float32 is used.
//!
//! Source: NVIDIA/nccl at the tags of [`Version`], `src/graph/search.cc` (`followPath`).

use super::world::World;
use crate::library::nccl::topology::{Kind, Level, What, Wire};
use crate::library::nccl::{Arch, Vendor, since};

/// One link of a route.
#[derive(Debug, Clone, Copy)]
struct Step {
    link: u32,
    /// The link back, if data flows back on it.
    back: u32,
    /// The fraction of the forward rate that flows back.
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
    /// Whether PCI carries a fifth more: the cost of GPUs' traffic through Intel's processors.
    dear: bool,
}

/// A place that a channel visits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    Gpu(usize),
    Net(usize),
    Switch,
}

/// All routes, and the remaining bandwidth of their links.
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
    left: Left,
    /// The PCI links of each GPU, in both directions.
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
            left: Left::new(world.paths.ways.iter().map(|way| way.rate)),
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
            routes.up = (0..gpus).map(|gpu| routes.add(world, (Kind::Gpu, gpu), switch)).collect();
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
                    let shared = cpu.arch == Arch::Power || !world.version().has(since::C2C);
                    if shared && way.wire == Wire::Nvl {
                        share = 1.0;
                    }
                }
                // Before Ampere, a GPU's read requests use the same link.
                What::Dev { cc, .. } if cc < 80 && start != Kind::Gpu => share = 0.125,
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

    /// Takes a rate from every link of a route. If a link has not enough left, gives back what was
    /// taken and returns false.
    #[inline]
    pub(super) fn take(&mut self, route: Route, rate: Rate) -> bool {
        let rate = rate.on(route);
        let first = route.first as usize;
        let steps = &self.steps[first..first + route.hops as usize];
        for (done, step) in steps.iter().enumerate() {
            let need = if step.is_pci { rate.pci } else { rate.other };
            if !self.left.take(step, need) {
                for step in &steps[..done] {
                    let need = if step.is_pci { rate.pci } else { rate.other };
                    self.left.give(step, need);
                }
                return false;
            }
        }
        true
    }

    /// Gives back what [`take`](Self::take) took.
    #[inline]
    pub(super) fn give_back(&mut self, route: Route, rate: Rate) {
        let rate = rate.on(route);
        let first = route.first as usize;
        for step in &self.steps[first..first + route.hops as usize] {
            let need = if step.is_pci { rate.pci } else { rate.other };
            self.left.give(step, need);
        }
    }

    /// The remaining bandwidth of a GPU's PCI link, in whole GB/s; negative if it has no such link.
    pub(super) fn pci_left(&self, gpu: usize) -> i32 {
        self.pci[gpu].map_or(-1, |(there, back)| self.left.whole(there).min(self.left.whole(back)))
    }
}

/// The rate that a channel takes from links.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rate {
    other: Need,
    pci: Need,
    dear: Need,
}

impl Rate {
    pub(super) fn new(rate: f32) -> Self {
        let plain = Need::new(rate);
        Self { other: plain, pci: plain, dear: Need::new(rate * 6.0 / 5.0) }
    }

    #[inline]
    fn on(self, route: Route) -> Self {
        if route.dear { Self { pci: self.dear, ..self } } else { self }
    }
}

/// The rate that is taken from one link.
#[derive(Debug, Clone, Copy)]
struct Need {
    rate: f32,
    /// In thousandths; [`ODD`] if it is not a whole number of them.
    thousandths: i32,
    /// Whether it is a whole number of halves of a GB/s.
    halves: bool,
}

/// More than any link carries.
const ODD: i32 = i32::MAX;

impl Need {
    fn new(rate: f32) -> Self {
        let nearest = rounded(rate * 1000.0);
        let whole = nearest as f32 / 1000.0 == rate && nearest <= FINE;
        let thousandths = if whole { nearest } else { ODD };
        Self { rate, thousandths, halves: whole && nearest % 500 == 0 }
    }
}

/// The remaining bandwidth of links, in thousandths of a GB/s.
#[derive(Debug, Clone)]
struct Left {
    thousandths: Vec<i32>,
    /// The initial rates, which some links have until they are first used.
    raw: Vec<f32>,
}

/// Up to this many thousandths, rounded sums in float32 equal those of whole numbers: two errors of
/// half a unit in the last place before and two after are less than half a thousandth.
const FINE: i32 = 1_000_000;

/// Up to this many, sums of halves of a GB/s are exact in float32, and also a thousand times them.
const COARSE: i32 = 8_000_000;

impl Left {
    fn new(rates: impl Iterator<Item = f32>) -> Self {
        let raw: Vec<f32> = rates.collect();
        let thousandths = raw.iter().map(|&rate| {
            let nearest = rounded(rate * 1000.0);
            if nearest as f32 / 1000.0 == rate { nearest } else { ODD }
        });
        Self { thousandths: thousandths.collect(), raw }
    }

    /// In GB/s, the float32 of NCCL.
    fn rate(&self, link: u32) -> f32 {
        match self.thousandths[link as usize] {
            ODD => self.raw[link as usize],
            thousandths => thousandths as f32 / 1000.0,
        }
    }

    /// In GB/s, truncated to a whole number.
    fn whole(&self, link: u32) -> i32 {
        match self.thousandths[link as usize] {
            fine if fine <= FINE => fine / 1000,
            _ => self.rate(link) as i32,
        }
    }

    /// Whether whole numbers give the same result.
    #[inline]
    fn is_plain(left: i32, need: Need) -> bool {
        (left <= FINE && need.thousandths != ODD)
            || (need.halves && left <= COARSE && left % 500 == 0)
    }

    #[inline]
    fn take(&mut self, step: &Step, need: Need) -> bool {
        let left = &mut self.thousandths[step.link as usize];
        if step.back == NONE && Self::is_plain(*left, need) {
            if *left < need.thousandths {
                return false;
            }
            *left -= need.thousandths;
            return true;
        }
        self.take_float(step, need.rate)
    }

    #[inline]
    fn give(&mut self, step: &Step, need: Need) {
        let left = &mut self.thousandths[step.link as usize];
        if step.back == NONE && Self::is_plain(*left, need) {
            *left += need.thousandths;
        } else {
            self.give_float(step, need.rate);
        }
    }

    #[inline(never)]
    fn take_float(&mut self, step: &Step, need: f32) -> bool {
        let back = need * step.share;
        if self.rate(step.link) < need || step.back != NONE && self.rate(step.back) < back {
            return false;
        }
        self.change(step.link, -need);
        if step.back != NONE {
            self.change(step.back, -back);
        }
        true
    }

    #[inline(never)]
    fn give_float(&mut self, step: &Step, need: f32) {
        self.change(step.link, need);
        if step.back != NONE {
            self.change(step.back, need * step.share);
        }
    }

    fn change(&mut self, link: u32, by: f32) {
        self.thousandths[link as usize] = rounded((self.rate(link) + by) * 1000.0);
    }
}

/// To a whole number, halves away from zero; `f32::round` is a call on older processors.
#[inline]
fn rounded(number: f32) -> i32 {
    let whole = number as i32;
    let rest = number - whole as f32;
    whole.saturating_add(i32::from(rest >= 0.5)).saturating_sub(i32::from(rest <= -0.5))
}

/// The first PCI link of a GPU that has a link back.
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
    use super::{COARSE, FINE, Left, Need, ODD, rounded};

    /// NCCL's computation.
    fn float(left: f32, by: f32) -> f32 {
        ((left + by) * 1000.0).round() / 1000.0
    }

    #[test]
    fn whole_numbers_come_to_what_float32_does() {
        let speeds = [96.0, 48.0, 47.9, 45.1, 40.0, 22.55, 17.5, 2.4, 1.2, 0.24, 0.12, 0.06];
        for rate in speeds.into_iter().flat_map(|rate: f32| [rate, rate * 6.0 / 5.0]) {
            let need = Need::new(rate);
            let mut left = 3_i32;
            while left < COARSE {
                if Left::is_plain(left, need) {
                    let now = left as f32 / 1000.0;
                    assert_eq!(now < rate, left < need.thousandths, "{left} and {rate}");
                    for (by, sign) in [(-rate, -1), (rate, 1)] {
                        let after = (left + sign * need.thousandths) as f32 / 1000.0;
                        assert_eq!(float(now, by).to_bits(), after.to_bits(), "{left}, {by}");
                    }
                }
                // Above the fine ones only halves are plain.
                left += if left < FINE { 7 } else { 500 - left % 500 };
            }
        }
    }

    #[test]
    fn odd_rates_are_left_to_float32() {
        assert_eq!(Need::new(40.0 / 7.0).thousandths, ODD);
        assert!(!Left::is_plain(ODD, Need::new(40.0)));
        assert_eq!(rounded(0.5), 1);
        assert_eq!(rounded(-2.5), -3);
    }
}

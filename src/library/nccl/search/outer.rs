//! The searches for one graph: which rates, path types and shapes are tried, and when they stop.
//!
//! The first pass goes from the fastest rate down, and at each rate from the nearest paths to the
//! farthest, until the channels carry the GPU's full rate or the budget is spent. It continues below
//! the rate of the first solution as long as more channels could make up for the lower rate. The
//! second pass keeps the channels and raises rates.
//!
//! Source: NVIDIA/nccl at the tags of [`Version`], `src/graph/search.cc` (`ncclTopoCompute`).

use super::found::Attempt;
use super::order::nics;
use super::searcher::{PERFECT, Searcher};
use super::speeds::speeds;
use super::trial::{Pattern, Trial};
use super::world::World;
use crate::library::nccl::topology::{Kind, Level, most_channels};
use crate::library::nccl::{Arch, Vendor, Version, since};

/// Steps of one search whose channels all take the same path, and of any other search.
const SAME_STEPS: i32 = 1 << 8;
const STEPS: i32 = 1 << 14;

/// Heads of NVLS, and of in-network reduction by all GPUs at once.
const NVLS_HEADS: usize = 32;
const DIRECT_HEADS: usize = 8;

/// The most paths that all searches of a machine try together, counted as steps or not. Existing
/// machines need less than a tenth. The budget alone does not bound hundreds of GPUs without a
/// switch.
pub(super) const MOST_WAYS: u64 = 1_000_000_000;

/// The graph to search for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    /// NCCL's number of the graph.
    pub(super) id: u32,
    pub(super) pattern: Pattern,
    pub(super) collnet: bool,
    /// The least and the most channels.
    pub(super) channels: (usize, usize),
}

/// Steps of all searches of a first pass together.
fn all_steps(version: Version) -> i64 {
    match version {
        _ if version.has(since::STEPS_524_288) => 1 << 19,
        _ if version.has(since::STEPS_327_680) => 327_680,
        _ => 1 << 18,
    }
}

/// How far paths may go.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    intra: (Level, Level),
    inter: (Level, Level),
}

/// What a first pass does once a search has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    Again,
    Enough,
}

/// The searches for one graph.
struct Outer<'a> {
    searcher: &'a mut Searcher,
    id: u32,
    speeds: Vec<f32>,
    at: usize,
    bounds: Bounds,
    /// `NCCL_CROSS_NIC`, if the graph allows it.
    crossing: u8,
    start_same: bool,
    /// Steps left over all searches.
    rest: i64,
}

/// Searches for a graph.
pub(super) fn compute(searcher: &mut Searcher, wanted: Wanted) -> Trial {
    let world = &searcher.world;
    let version = world.version();
    let bounds = bounds(world);
    let room = most_channels(version);
    let mut best = Trial::empty(wanted.pattern, world.levels.loc, world.gpus(), room);
    let crossing = crossing(world, wanted.pattern);
    best.collnet = wanted.collnet;
    best.cross_nic = u8::from(if version.has(since::CROSSES_FROM_START) {
        crossing == 1
    } else {
        world.knobs.cross_nic == 1
    });
    (best.least, best.most) = wanted.channels;
    (best.level_intra, best.level_inter) = (bounds.intra.0, bounds.inter.0);
    best.same = wanted.pattern != Pattern::Nvls;
    if wanted.pattern == Pattern::Nvls && (!world.has_switch() || world.min_cc < 90) {
        return best;
    }
    shape(world, &mut best);
    let speeds = speeds(version, world.min_cc, world.inter);
    let start_same = best.same;
    searcher.trial = best.clone();
    searcher.best = best;
    let at = first_speed(&searcher.world, &searcher.best, &speeds);
    let mut outer = Outer {
        searcher,
        id: wanted.id,
        speeds,
        at,
        bounds,
        crossing,
        start_same,
        rest: all_steps(version),
    };
    outer.first_pass();
    outer.second_pass();
    let mut best = outer.searcher.best.clone();
    if best.channels == 0 && !best.collnet && best.pattern != Pattern::Nvls {
        fall_back(&mut searcher.world, &mut best);
    }
    if !version.has(since::DUPLICATES_FIRST) {
        best.duplicate(version, searcher.world.min_cc);
    }
    best
}

/// The crossing of NICs that is tried.
fn crossing(world: &World, pattern: Pattern) -> u8 {
    let crosses = matches!(pattern, Pattern::Ring | Pattern::BalancedTree);
    if world.nets() > 1 && crosses { world.knobs.cross_nic } else { 0 }
}

fn bounds(world: &World) -> Bounds {
    let levels = world.levels;
    if !world.version().has(since::TYPES_OF_MACHINE) {
        let near = if world.gpus() == 1 { levels.loc } else { levels.nvl };
        return Bounds { intra: (near, levels.sys), inter: (levels.pix, levels.sys) };
    }
    let mut intra = (levels.loc, levels.sys);
    let mut inter = (levels.pix, levels.sys);
    if world.gpus() > 1 {
        intra = world.span(Kind::Gpu);
    }
    if world.inter {
        inter = world.span(Kind::Net);
        intra.1 = inter.1;
    }
    // Balanced trees on Ampere sometimes need the longer path back.
    if world.version().has(since::AMPERE_ANY_NIC) && world.min_cc < 90 {
        inter.1 = levels.sys;
    }
    Bounds { intra, inter }
}

/// The pattern and the numbers of channels that the machine allows.
fn shape(world: &World, best: &mut Trial) {
    let (gpus, version) = (world.gpus(), world.version());
    let room = most_channels(version);
    match best.pattern {
        Pattern::Nvls if version.has(since::NVLS_32_HEADS) => best.most = NVLS_HEADS.min(gpus),
        Pattern::Nvls if version.has(since::NVLS_HEADS) => best.most = gpus.min(room),
        Pattern::CollnetDirect if version.has(since::DIRECT_8_HEADS) => {
            best.most = DIRECT_HEADS.min(gpus);
        }
        Pattern::CollnetDirect => best.most = gpus.min(room),
        _ => {}
    }
    if best.pattern == Pattern::Nvls && !world.inter && gpus > 1 {
        if !version.has(since::NVLS_HEADS) {
            best.most = gpus.min(room);
        }
        // Inside a node all GPUs must be heads equally.
        best.least = best.most;
    }
    if gpus == 1 && best.pattern != Pattern::Ring {
        best.pattern = Pattern::Tree;
    }
    let ring = best.pattern == Pattern::Ring && best.most >= 2 && best.least == 1;
    if version.has(since::SPLIT_TWO_RINGS) && ring && world.is_split() {
        // Trees are better there, and they need two channels.
        best.least = 2;
    }
}

/// The fastest rate that is possible.
fn first_speed(world: &World, best: &Trial, speeds: &[f32]) -> usize {
    let version = world.version();
    let mut most = world.most;
    let mut total = world.total;
    if version.has(since::TOTAL_BOUNDS_SPEED) {
        let count = world.system.count(world.system.device_kind()) as f64;
        // Only rings must come back to where they started. Old versions divide by 0 for a single
        // GPU, so that nothing limits it.
        let ring = best.pattern == Pattern::Ring;
        let stretched = match version.has(since::ALONE_UNLIMITED) {
            true => count > 1.0 && !ring,
            false => count == 1.0 || !ring,
        };
        if stretched {
            total = (f64::from(total) * (count / (count - 1.0))) as f32;
        }
    } else {
        total = f32::INFINITY;
        if best.pattern == Pattern::Nvls && !world.inter {
            most /= world.gpus() as f32;
        }
    }
    let least = best.least as f32;
    let fits = |speed: f32| !(speed > most || speed * least > total);
    speeds.iter().position(|&speed| fits(speed)).unwrap_or(speeds.len() - 1)
}

impl Outer<'_> {
    /// One search with the limits of the trial.
    fn search(&mut self) {
        let searcher = &mut *self.searcher;
        searcher.budget = if searcher.trial.same { SAME_STEPS } else { STEPS };
        searcher.trial.channels = 0;
        self.rest -= i64::from(searcher.budget);
        searcher.search();
        let attempt = Attempt::new(self.id, searcher);
        searcher.attempts.push(attempt);
    }

    /// Whether no better result is possible.
    fn is_done(&self) -> bool {
        let searcher = &*self.searcher;
        searcher.ways > MOST_WAYS
            || searcher.budget == PERFECT
            || searcher.best.net_rate() >= searcher.world.total
    }

    fn set_speed(&mut self, at: usize) {
        self.at = at;
        self.searcher.trial.intra = self.speeds[at];
        self.searcher.trial.inter = self.speeds[at];
    }

    /// From the fastest rate down until the result is good enough.
    fn first_pass(&mut self) {
        self.set_speed(self.at);
        loop {
            self.search();
            if self.is_done() || self.loosen() == After::Enough {
                return;
            }
        }
    }

    /// Chooses the next attempt: other channels, a simpler tree, farther paths, crossing, a lower
    /// rate.
    fn loosen(&mut self) -> After {
        let cc = self.searcher.world.min_cc;
        let version = self.searcher.world.version();
        if self.searcher.trial.same && !self.is_amd_over_sys() {
            self.searcher.trial.same = false;
            return After::Again;
        }
        self.searcher.trial.same = self.start_same;
        self.rest += i64::from(self.searcher.budget);
        if self.rest < 0 && self.searcher.best.channels > 0 {
            return After::Enough;
        }
        let Searcher { trial, best, world, .. } = &mut *self.searcher;
        if cc >= 90 && trial.pattern == Pattern::BalancedTree && version.has(since::TREES_SIMPLIFY)
        {
            trial.pattern = Pattern::Tree;
            return After::Again;
        }
        trial.pattern = best.pattern;
        let nothing = best.channels == 0;
        let Bounds { intra, inter } = self.bounds;
        let bounded =
            |level: Level| level < world.levels.dis || !version.has(since::LOST_PATHS_FAIL);
        let most = if world.inter { trial.level_inter } else { intra.1 };
        if trial.level_intra < most && (nothing || trial.level_intra < best.level_intra) {
            trial.level_intra.0 += 1;
            if bounded(trial.level_intra) {
                return After::Again;
            }
        }
        trial.level_intra = intra.0;
        let nearer = trial.level_inter < best.level_inter || trial.level_inter < world.levels.pxn;
        if world.inter && trial.level_inter < inter.1 && (nothing || nearer) {
            trial.level_inter.0 += 1;
            if bounded(trial.level_inter) {
                return After::Again;
            }
        }
        trial.level_inter = inter.0;
        if self.crosses() {
            return After::Again;
        }
        self.slower()
    }

    /// Whether all channels must take the same path because they cross the link between AMD's
    /// processors.
    fn is_amd_over_sys(&self) -> bool {
        let Searcher { trial, world, .. } = &*self.searcher;
        let mixes = !world.version().has(since::AMD_STAYS_SAME);
        if mixes || world.system.count(Kind::Cpu) == 0 {
            return false;
        }
        let cpu = world.system.cpu(0);
        cpu.arch == Arch::X86 && cpu.vendor == Vendor::Amd && trial.level_intra == world.levels.sys
    }

    /// Tries channels that leave by a different NIC, unless that was tried.
    fn crosses(&mut self) -> bool {
        let Searcher { trial, best, world, .. } = &mut *self.searcher;
        let version = world.version();
        let (may, with, without) = if version.has(since::CROSSED_IS_2) {
            let shaped = matches!(best.pattern, Pattern::Ring | Pattern::BalancedTree);
            (self.crossing == 2 && shaped, 2, u8::from(self.crossing == 1))
        } else if version.has(since::CROSSES_FROM_START) {
            (self.crossing == 2, 1, u8::from(self.crossing == 1))
        } else {
            (self.crossing != 0, 1, 0)
        };
        let again = may && trial.cross_nic == 0;
        trial.cross_nic = if again { with } else { without };
        again
    }

    /// Goes to the next lower rate, unless even twice the channels could not make up for it.
    fn slower(&mut self) -> After {
        let Some(&next) = self.speeds.get(self.at + 1) else { return After::Enough };
        let best = &self.searcher.best;
        if best.channels > 0 && f64::from(next / best.inter) <= 0.49 {
            return After::Enough;
        }
        self.set_speed(self.at + 1);
        After::Again
    }

    /// Raises rates as long as all channels remain.
    fn second_pass(&mut self) {
        let version = self.searcher.world.version();
        let cc = self.searcher.world.min_cc;
        if version.has(since::DUPLICATES_FIRST) {
            self.searcher.best.duplicate(version, cc);
        }
        let Searcher { trial, best, .. } = &mut *self.searcher;
        trial.clone_from(best);
        let inter = best.inter;
        trial.least = best.channels;
        let at = self.speeds.iter().position(|&speed| speed <= inter);
        self.set_speed(at.unwrap_or(self.speeds.len() - 1));
        self.searcher.budget = PERFECT;
        let tired = |outer: &Self| outer.searcher.budget == 0 || outer.searcher.ways > MOST_WAYS;
        while !tired(self) && self.at > 0 && self.raise() {
            self.search();
        }
    }

    /// Raises one step: for rings both rates, for NVLS the one between nodes, for others the one
    /// inside.
    fn raise(&mut self) -> bool {
        let faster = self.speeds[self.at - 1];
        let Searcher { trial, best, world, .. } = &mut *self.searcher;
        let version = world.version();
        let nvls = best.pattern == Pattern::Nvls;
        if best.pattern == Pattern::Ring {
            if !version.has(since::RINGS_RAISED) {
                return false;
            }
            (trial.intra, trial.inter) = (faster, faster);
        } else if nvls
            && version.has(since::NVLS_RAISED)
            && trial.inter == best.inter
            && trial.inter < trial.intra * 2.0
        {
            (trial.least, trial.most) = (best.channels, best.channels);
            trial.inter = faster;
        } else if nvls && version.has(since::NVLS_RAISED_ONCE) {
            return false;
        } else if trial.intra == best.intra && trial.intra < trial.inter * 2.0 {
            trial.intra = faster;
        } else {
            return false;
        }
        self.at -= 1;
        true
    }
}

/// One channel in the order of the file, at a rate that means that nothing was found.
fn fall_back(world: &mut World, best: &mut Trial) {
    let (gpus, levels) = (world.gpus(), world.levels);
    best.channels = 1;
    for gpu in 0..gpus {
        best.put(0, gpu, gpu);
    }
    (best.intra, best.level_intra) = (0.1, levels.sys);
    (best.inter, best.level_inter) = (0.1, levels.sys);
    if world.version().has(since::FALLS_BACK_TO_OWN) {
        let ends = [0, gpus - 1].map(|gpu| nics(world, None, Some(gpu)).first().copied());
        match ends {
            [Some(first), Some(last)] => best.nets[0] = [first, last],
            _ => (best.inter, best.level_inter) = (0.0, levels.dis),
        }
    } else {
        best.nets[0] = [0, 0];
    }
}

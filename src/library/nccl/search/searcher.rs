//! The state of a machine's searches: the remaining bandwidth of links, NICs and GPUs, and the
//! channels so far.

use super::found::Attempt;
use super::order::{GpuOrder, NicOrder};
use super::routes::{Rate, Routes};
use super::trial::{Pattern, Trial};
use super::world::World;
use crate::base::error::Result;
use crate::library::nccl::topology::{Kind, Path, Paths, nearest};
use crate::library::nccl::{Version, since};

/// The budget left after the best possible result was found.
pub(super) const PERFECT: i32 = -1;

/// The rates that the channels of a search take from links.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rates {
    pub(super) intra: Rate,
    /// For a head of NVLS.
    pub(super) double: Rate,
    /// For one of the other GPUs of a head of in-network reduction.
    pub(super) part: Rate,
    pub(super) inter: Rate,
    /// For each of the first two GPUs of a balanced tree.
    pub(super) half: Rate,
}

impl Rates {
    fn of(trial: &Trial, gpus: usize) -> Self {
        Self {
            intra: Rate::new(trial.intra),
            double: Rate::new(trial.intra * 2.0),
            part: Rate::new(trial.intra * portion(gpus)),
            inter: Rate::new(trial.inter),
            half: Rate::new(trial.inter / 2.0),
        }
    }
}

/// The fraction of a channel that one of the other GPUs gets.
pub(super) fn portion(gpus: usize) -> f32 {
    (1.0 / f64::from((gpus.max(2) - 1) as f32)) as f32
}

/// The walks that a release allows; used too often to look them up each time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Walks {
    pub(super) no_hops_succeed: bool,
    pub(super) lost_fail: bool,
    pub(super) trees_back: bool,
}

/// A NIC's port while channels use it.
#[derive(Debug, Clone)]
pub(super) struct Port {
    pub(super) left: f32,
    /// Ports of the same chip and number, including itself.
    pub(super) shared: Vec<u16>,
}

/// The state of the searches of a system; searches leave traces on links for the next one, as in
/// NCCL.
pub(super) struct Searcher {
    pub(super) world: World,
    pub(super) routes: Routes,
    pub(super) nics: NicOrder,
    pub(super) gpu_order: GpuOrder,
    pub(super) ports: Vec<Port>,
    /// By NIC, the GPU that it serves.
    pub(super) own_gpu: Vec<Option<usize>>,
    /// By NIC, the GPUs where a channel begins.
    pub(super) near: Vec<Vec<u32>>,
    /// By GPU, the channels that contain it, one bit each.
    pub(super) used: Vec<u64>,
    /// Candidates of the positions above, one list after another.
    pub(super) pending: Vec<u16>,
    pub(super) rates: Rates,
    pub(super) walks: Walks,
    pub(super) trial: Trial,
    pub(super) best: Trial,
    /// Steps left; 0 once they ran out, [`PERFECT`] once no better result is possible.
    pub(super) budget: i32,
    /// Steps taken by all searches.
    pub(super) steps: u64,
    /// Paths tried by all searches, including those whose links had not enough bandwidth.
    pub(super) ways: u64,
    /// The searches so far.
    pub(super) attempts: Vec<Attempt>,
}

impl Searcher {
    pub(super) fn new(mut world: World) -> Result<Self> {
        let gpus = world.gpus();
        let nets = world.nets();
        let net = |index: usize| world.system.net(index);
        let twins = |index: usize| {
            let (asic, port) = (net(index).asic, net(index).port);
            let same = (0..nets).filter(|&n| net(n).asic == asic && net(n).port == port);
            same.map(|n| n as u16).collect()
        };
        let ports =
            (0..nets).map(|n| Port { left: net(n).rate, shared: twins(n) }).collect::<Vec<_>>();
        let own_gpu = if world.inter {
            let own = |n| world.locals.gpu(&world.system, &world.paths, n);
            (0..nets).map(own).collect::<Result<Vec<_>>>()?
        } else {
            vec![None; nets]
        };
        let version = world.version();
        let begin = if version.has(since::BEGINS_NEAR) { nearest } else { fastest };
        let near = world.system.of(Kind::Net).iter();
        let near = near.map(|&net| begin(&world.paths, net, Kind::Gpu)).collect();
        let empty = Trial::empty(Pattern::Ring, world.levels.loc, gpus, 0);
        Ok(Self {
            routes: Routes::new(&world),
            nics: NicOrder::default(),
            gpu_order: GpuOrder::new(&world),
            ports,
            own_gpu,
            near,
            used: vec![0; gpus],
            pending: Vec::new(),
            rates: Rates::of(&empty, gpus),
            walks: Walks {
                no_hops_succeed: version.has(since::NO_HOPS_SUCCEED),
                lost_fail: version.has(since::LOST_PATHS_FAIL),
                trees_back: version.has(since::TREES_BACK),
            },
            trial: empty.clone(),
            best: empty,
            budget: 0,
            steps: 0,
            ways: 0,
            attempts: Vec::new(),
            world,
        })
    }

    /// Tries to improve `best` within the limits of `trial` and the budget.
    pub(super) fn search(&mut self) {
        if self.world.inter {
            self.nics.prepare(&mut self.world, self.trial.level_inter);
        }
        self.rates = Rates::of(&self.trial, self.gpus());
        self.channel();
    }

    pub(super) fn version(&self) -> Version {
        self.world.version()
    }

    pub(super) fn gpus(&self) -> usize {
        self.used.len()
    }
}

/// Before 2.27: the GPUs with the fastest path from a NIC, and among them those with the shortest.
fn fastest(paths: &Paths, net: usize, kind: Kind) -> Vec<u32> {
    let to = paths.to_all(net, kind);
    let rate = to.iter().map(|path| path.rate).fold(0.0, f32::max);
    let fast = |path: &&Path| path.rate == rate;
    let hops = to.iter().filter(fast).map(|path| path.hops).min();
    let best = to.iter().enumerate().filter(|(_, path)| fast(path) && Some(path.hops) == hops);
    best.map(|(gpu, _)| gpu as u32).collect()
}

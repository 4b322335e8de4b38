//! The input of a search: the system without unreachable GPUs, its paths, and its maximum bandwidth.
//!
//! Source: NVIDIA/nccl at the tags of [`Version`], `src/graph/paths.cc` and `src/graph/search.cc`.

use crate::base::error::{Error, Result};
use crate::library::nccl::topology::{
    Description, Kind, Knobs, Level, Levels, Locals, Path, Paths, System, UNLIMITED, Wire,
    is_rubin_or_later,
};
use crate::library::nccl::{Version, since};

/// A system with its paths and its limits.
pub(super) struct World {
    pub(super) system: System,
    pub(super) paths: Paths,
    pub(super) locals: Locals,
    pub(super) levels: Levels,
    pub(super) knobs: Knobs,
    /// Whether the communicator has GPUs elsewhere.
    pub(super) inter: bool,
    /// The fastest path that a channel could use.
    pub(super) most: f32,
    /// The total rate of all links of one GPU.
    pub(super) total: f32,
    pub(super) min_cc: u32,
    /// Whether NICs of several hosts may be one rail.
    pub(super) rail_per_host: bool,
    pub(super) max_cc: u32,
}

impl World {
    /// The system of a description for `ranks` ranks in total, as its first rank sees it.
    ///
    /// # Errors
    /// The errors of [`System::new`] and [`Paths::new`]; several nodes and no NIC.
    pub(super) fn new(
        description: &Description,
        version: Version,
        ranks: u64,
        knobs: Knobs,
    ) -> Result<Self> {
        let mut system = System::new(description, version)?;
        let (seen, described) = (system.count(Kind::Gpu), description.ranks());
        if seen != described {
            let what = format!("NCCL {version} sees {seen} of the {described} GPUs with ranks");
            return Err(Error::unsupported(what).at(&description.origin).help(
                "put each into its own <pci>, with only switches (class 0x060400) above it; several \
                 ranks on one GPU need NCCL 2.30",
            ));
        }
        let (paths, _) = Paths::new(&system, &knobs)?;
        let levels = paths.levels;
        system.trim(&unreachable(&system, &paths));
        let gpus = system.count(Kind::Gpu);
        let inter = gpus as u64 != ranks;
        if inter && system.count(Kind::Net) == 0 {
            return Err(Error::input("the topology has no NIC to reach other nodes")
                .at(&description.origin)
                .help(
                    "add <nic><net name=\"net0\" dev=\"0\" speed=\"400000\" port=\"1\" gdr=\"1\"/>\
                     </nic> to the <pci> of each NIC, or use one node",
                ));
        }
        if !inter && !version.has(since::NICS_STAY) {
            let nets = system.of(Kind::Net).to_vec();
            system.trim(&nets);
        }
        let (paths, locals) = Paths::new(&system, &knobs)?;
        let ccs = (0..gpus).map(|gpu| system.gpu(gpu).cc);
        let (min_cc, max_cc) = (ccs.clone().min().unwrap_or(0), ccs.max().unwrap_or(0));
        let (most, total) = limits(&system, &paths, inter);
        let rail_per_host = knobs.rail_per_host.unwrap_or_else(|| {
            version.has(since::RAILS_MADE_UP)
                && (0..gpus).all(|gpu| is_rubin_or_later(system.gpu(gpu).cc))
        });
        Ok(Self {
            system,
            paths,
            locals,
            levels,
            knobs,
            inter,
            most,
            total,
            min_cc,
            max_cc,
            rail_per_host,
        })
    }

    pub(super) fn version(&self) -> Version {
        self.system.version
    }

    pub(super) fn gpus(&self) -> usize {
        self.system.count(Kind::Gpu)
    }

    pub(super) fn nets(&self) -> usize {
        self.system.count(Kind::Net)
    }

    pub(super) fn has_switch(&self) -> bool {
        self.system.count(Kind::Nvs) > 0
    }

    pub(super) fn path(&self, from: (Kind, usize), to: (Kind, usize)) -> Path {
        self.paths.get(self.system.of(from.0)[from.1], to.0, to.1)
    }

    /// The nearest and the farthest level from any GPU to any other target of a kind.
    pub(super) fn span(&self, kind: Kind) -> (Level, Level) {
        let (mut near, mut far) = (self.levels.sys, self.levels.loc);
        for gpu in 0..self.gpus() {
            for target in 0..self.system.count(kind) {
                if kind != Kind::Gpu || gpu != target {
                    let level = self.path((Kind::Gpu, gpu), (kind, target)).level;
                    (near, far) = (near.min(level), far.max(level));
                }
            }
        }
        (near, far)
    }

    /// Whether `NVLink` joins the GPUs into two groups that only slower links connect.
    pub(super) fn is_split(&self) -> bool {
        let gpus = self.gpus();
        let mut group: Vec<usize> = (0..gpus).collect();
        for gpu in 0..gpus {
            for other in gpu + 1..gpus {
                if self.path((Kind::Gpu, gpu), (Kind::Gpu, other)).level == self.levels.nvl {
                    group[other] = group[gpu];
                }
            }
        }
        let size = |of: usize| group.iter().filter(|&&group| group == of).count();
        (0..gpus).filter(|&of| size(of) > 1).count() == 2
    }
}

/// The GPUs that the first rank cannot reach without a network.
fn unreachable(system: &System, paths: &Paths) -> Vec<usize> {
    let nodes = system.of(Kind::Gpu);
    let mut domains: Vec<usize> = Vec::new();
    for (gpu, &node) in nodes.iter().enumerate() {
        let reached = (0..gpu).filter(|&p| paths.get(node, Kind::Gpu, p).level < paths.levels.net);
        let least = reached.map(|p| domains[p]).min();
        domains.push(least.unwrap_or(gpu).min(gpu));
    }
    let first = (0..nodes.len()).min_by_key(|&gpu| system.gpu(gpu).rank);
    let ours = first.map_or(0, |gpu| domains[gpu]);
    let gone = nodes.iter().zip(&domains).filter(|&(_, &domain)| domain != ours);
    gone.map(|(&node, _)| node).collect()
}

/// The fastest path, and the fastest GPU.
fn limits(system: &System, paths: &Paths, inter: bool) -> (f32, f32) {
    if !inter && system.count(Kind::Gpu) == 1 {
        let total = if system.version.has(since::ALONE_UNLIMITED) { UNLIMITED } else { 0.0 };
        return (UNLIMITED, total);
    }
    let kind = system.device_kind();
    let target = if inter { Kind::Net } else { kind };
    let (mut most, mut total) = (0.0, 0.0);
    for &node in system.of(kind) {
        for path in paths.to_all(node, target).iter().filter(|path| path.hops > 0) {
            most = f32::max(most, path.rate);
        }
        let (mut nvlink, mut pci) = (0.0, 0.0);
        for link in &system.nodes[node].links {
            match link.wire {
                Wire::Nvl => nvlink += link.rate,
                Wire::Pci => pci = link.rate,
                _ => {}
            }
        }
        total = f32::max(total, f32::max(pci, nvlink));
    }
    (most, total)
}

//! The result of a search, as other modules use it.

use super::searcher::Searcher;
use super::trial::Trial;
use super::world::World;
use crate::library::nccl::topology::Kind;
use crate::library::nccl::{
    Arch, Communicator, Ctas, Gbps, Graph, Micros, PathType, Processor, Starting, Startup, Vendor,
    Version, since,
};

/// The graphs of a job, and the other values that its communicator starts with.
#[derive(Debug, Clone, PartialEq)]
pub struct Searched {
    /// The version of the search.
    pub version: Version,
    /// Nodes of the job.
    pub nodes: u32,
    /// Ranks on each.
    pub per_node: u32,
    /// Whether channels leave the node.
    pub inter: bool,
    /// The GPUs of a node, in the order in which channels count them.
    pub devices: Vec<Device>,
    /// The lowest compute capability.
    pub min_cc: u32,
    /// The highest.
    pub max_cc: u32,
    /// The processors.
    pub processor: Processor,
    /// Whether there is an `NVSwitch`.
    pub nvswitch: bool,
    /// Whether NVLS was searched for.
    pub nvls: bool,
    /// Whether in-network reduction was searched for.
    pub collnet: bool,
    /// The settings of the job's environment for start-up.
    pub start: Starting,
    /// The rate of the slowest NIC that GPUs use; `None` on one node.
    pub slowest_nic: Option<Gbps>,
    /// Rings.
    pub ring: Found,
    /// Trees.
    pub tree: Found,
    /// In-network reduction by all GPUs at once; until 2.21.5 the same as along chains.
    pub collnet_direct: Found,
    /// In-network reduction along chains.
    pub collnet_chain: Found,
    /// NVLS.
    pub nvls_graph: Found,
    /// Steps of all searches together: arrivals at GPUs and complete channels.
    pub steps: u64,
    /// The searches in order, each with its limits.
    pub attempts: Vec<Attempt>,
}

/// One search: its limits, and the best channels found when it ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Attempt {
    /// NCCL's number of the graph.
    pub id: u32,
    /// The pattern.
    pub pattern: u32,
    /// Whether channels could leave by a different NIC than they enter.
    pub cross_nic: u32,
    /// The rate of a channel between nodes.
    pub inter: Gbps,
    /// The rate of a channel inside a node.
    pub intra: Gbps,
    /// The farthest allowed path to a NIC.
    pub type_inter: PathType,
    /// The farthest allowed path between GPUs.
    pub type_intra: PathType,
    /// The fewest channels that counted.
    pub least: u32,
    /// The most channels that were tried.
    pub most: u32,
    /// Whether all channels had to take the same path.
    pub same_channels: bool,
    /// The number of channels of the best result so far.
    pub channels: u32,
    /// The rate of those channels between nodes.
    pub best_inter: Gbps,
    /// The rate of those channels inside a node.
    pub best_intra: Gbps,
    /// The steps that were left; `None` if no better result was possible.
    pub left: Option<u32>,
}

impl Attempt {
    pub(super) fn new(id: u32, searcher: &Searcher) -> Self {
        let Searcher { trial, best, world, .. } = searcher;
        Self {
            id,
            pattern: trial.pattern as u32,
            cross_nic: trial.cross_nic.into(),
            inter: Gbps(trial.inter),
            intra: Gbps(trial.intra),
            type_inter: world.levels.path_type(trial.level_inter),
            type_intra: world.levels.path_type(trial.level_intra),
            least: trial.least as u32,
            most: trial.most as u32,
            same_channels: trial.same,
            channels: best.channels as u32,
            best_inter: Gbps(best.inter),
            best_intra: Gbps(best.intra),
            left: u32::try_from(searcher.budget).ok(),
        }
    }
}

/// A GPU of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Device {
    /// Its rank on the first node.
    pub rank: u32,
    /// Its number on its host.
    pub device: u32,
    /// Its host.
    pub host: u64,
    /// Its PCI address.
    pub bus: u64,
}

/// A graph with its channels, as found by the search.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Found {
    /// Its properties.
    pub graph: Graph,
    /// Its channels; as many as the graph says.
    pub channels: Vec<Channel>,
}

/// A channel: GPUs in order, and where it enters and leaves the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Channel {
    /// GPUs, by their place in [`Searched::devices`]. For NVLS the first is the head, and the
    /// others mean nothing.
    pub gpus: Vec<usize>,
    /// The ids of the NICs before and after them: the host in the highest byte, and below it the
    /// number; `None` inside a node.
    pub nets: Option<[i64; 2]>,
}

impl Searched {
    /// The five graphs with NCCL's numbers for them, in the order of the searches.
    #[must_use]
    pub fn graphs(&self) -> Vec<(u32, &Found)> {
        let mut graphs = vec![(0, &self.ring), (1, &self.tree), (2, &self.collnet_chain)];
        if self.version.has(since::DIRECT_GRAPH) {
            graphs.push((4, &self.collnet_direct));
        }
        graphs.push((3, &self.nvls_graph));
        graphs
    }

    /// Whether the graph of that number was searched for.
    #[must_use]
    pub fn was_searched(&self, id: u32) -> bool {
        match id {
            0 | 1 => true,
            2 | 4 => self.collnet,
            _ => self.nvls,
        }
    }

    /// GPUs through which in-network reduction enters the network.
    #[must_use]
    pub fn heads(&self) -> u32 {
        let mut heads: Vec<usize> =
            self.collnet_direct.channels.iter().map(|c| c.gpus[0]).collect();
        heads.sort_unstable();
        heads.dedup();
        heads.len() as u32
    }

    /// The communicator that starts with these graphs.
    #[must_use]
    pub fn communicator(&self) -> Communicator {
        let channels = self.ring.graph.channels.min(self.tree.graph.channels);
        // Graphs of in-network reduction may be shown of a job that does not ask for it.
        let collnet = self.collnet && self.start.collnet(self.version);
        let comm = Communicator {
            ranks: self.nodes * self.per_node,
            nodes: self.nodes,
            local_ranks: self.per_node,
            min_cc: self.min_cc,
            max_cc: self.max_cc,
            arch: self.processor.arch,
            vendor: self.processor.vendor,
            channels: 0,
            call_channels: 0,
            nvls_channels: 0,
            nvls: self.nvls,
            collnet,
            collnet_heads: self.heads(),
            collnet_chain: collnet,
            nvswitch: self.nvswitch,
            ring: Graph { channels, ..self.ring.graph },
            tree: Graph { channels, ..self.tree.graph },
            collnet_direct_graph: self.collnet_direct.graph,
            collnet_chain_graph: self.collnet_chain.graph,
            nvls_graph: self.nvls_graph.graph,
            reach: None,
            ctas: Ctas::default(),
        };
        Startup::under(self.version, &comm, &self.start, self.slowest_nic).on(comm)
    }
}

/// A trial as a graph; if nothing was searched for, only the pattern.
pub(super) fn found(world: &World, trial: Option<Trial>, pattern: u32) -> Found {
    let Some(trial) = trial else {
        return Found { graph: Graph { pattern, ..Graph::default() }, channels: Vec::new() };
    };
    let graph = Graph {
        pattern: trial.pattern as u32,
        channels: trial.channels as u32,
        intra: Gbps(trial.intra),
        inter: Gbps(trial.inter),
        latency_inter: Micros(trial.latency),
        type_intra: world.levels.path_type(trial.level_intra),
        type_inter: world.levels.path_type(trial.level_inter),
        cross_nic: trial.cross_nic.into(),
        same_channels: trial.same,
    };
    let id = |net: u16| world.system.id(Kind::Net, usize::from(net)) as i64;
    let lost = world.levels.dis == trial.level_inter && trial.inter == 0.0;
    let channel = |channel| Channel {
        gpus: trial.channel(channel).iter().map(|&gpu| usize::from(gpu)).collect(),
        nets: world.inter.then(|| if lost { [-1, -1] } else { trial.nets[channel].map(id) }),
    };
    Found { graph, channels: (0..trial.channels).map(channel).collect() }
}

/// The GPUs of a system.
pub(super) fn devices(world: &World) -> Vec<Device> {
    let gpu = |index| {
        let gpu = world.system.gpu(index);
        let id = world.system.id(Kind::Gpu, index);
        Device { rank: gpu.rank, device: gpu.device, host: id >> 56, bus: id & ((1 << 56) - 1) }
    };
    (0..world.gpus()).map(gpu).collect()
}

/// The first processor represents all.
pub(super) fn processor(world: &World) -> Processor {
    if world.system.count(Kind::Cpu) == 0 {
        return Processor { arch: Arch::X86, vendor: Vendor::Other };
    }
    let cpu = world.system.cpu(0);
    Processor { arch: cpu.arch, vendor: cpu.vendor }
}

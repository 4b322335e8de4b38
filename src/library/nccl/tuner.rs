//! The contents of the table: bandwidths and latencies, in the order in which NCCL computes them.
//!
//! Where NCCL mixes float32 with a double constant the sum is a double, rounded at the assignment.

use super::allowed::has_code;
use super::communicator::{Communicator, Graph, PATTERN_TREE, PathType};
use super::constants::{self, Constants, gpu_class};
use super::settings::Settings;
use super::table::Table;
use super::{Algo, Function, Gbps, Proto, Version, since};
use super::{Arch, Vendor};

/// Links, as rows of the hardware latencies.
const NVLINK: usize = 0;
const PCI: usize = 1;
const NET: usize = 2;

/// A communicator with everything that does not depend on a single cell.
pub(super) struct Tuner<'a> {
    pub comm: &'a Communicator,
    pub version: Version,
    pub constants: &'static Constants,
    pub settings: &'a Settings,
    /// The column of the caps: one node, two, more.
    pub column: usize,
    /// The row of the caps.
    pub class: usize,
    /// Ranks per node, where NCCL needs a fraction.
    pub per_node: f32,
    /// The same where NCCL needs a whole number.
    pub whole_per_node: i32,
    pub log_nodes: i32,
    pub overhead: f32,
}

/// Messages that a ring sends one after another.
pub(super) fn ring_steps(comm: &Communicator, function: Function) -> i32 {
    function.ring_steps(comm.ranks) as i32
}

/// The overhead of the network in a step between nodes.
pub(super) fn overhead(comm: &Communicator, settings: &Settings) -> f32 {
    match settings.net_overhead() {
        Some(nanoseconds) => (nanoseconds as f64 * 0.001) as f32,
        None if comm.arch == Arch::X86 && comm.vendor == Vendor::Amd => 2.0,
        None => 1.0,
    }
}

impl<'a> Tuner<'a> {
    pub fn new(comm: &'a Communicator, version: Version, settings: &'a Settings) -> Self {
        Self {
            comm,
            version,
            constants: constants::of(version),
            settings,
            column: (comm.nodes.min(3) - 1) as usize,
            class: gpu_class(comm.min_cc, version),
            per_node: comm.ranks as f32 / comm.nodes as f32,
            whole_per_node: (comm.ranks / comm.nodes) as i32,
            log_nodes: comm.nodes.ilog2() as i32,
            overhead: overhead(comm, settings),
        }
    }

    pub fn fill(&self, function: Function, table: &mut Table) {
        let f = function as usize;
        for algo in Algo::ALL {
            if !self.has(function, algo) {
                continue;
            }
            let a = algo as usize;
            let only_simple = matches!(algo, Algo::Nvls | Algo::NvlsTree | Algo::Pat);
            let bus = self.channel_rate(function, algo);
            let ratio = self.ratio(function, algo);
            for proto in Proto::ALL {
                let p = proto as usize;
                if only_simple && proto != Proto::Simple {
                    continue;
                }
                let bandwidth = self.bus_bandwidth(function, algo, proto, bus) * ratio;
                table.bandwidth[f][a][p] = bandwidth;
                table.latency[f][a][p] = self.latency(function, algo, proto);
                if algo == Algo::Ring && self.version.has(since::RING_BACKUP) {
                    table.backup[f][p] = bandwidth;
                }
            }
        }
    }

    /// Whether the cell is computed at all.
    fn has(&self, function: Function, algo: Algo) -> bool {
        let nvls = matches!(algo, Algo::Nvls | Algo::NvlsTree);
        let by_channels = self.version.has(since::NVLS_BY_CHANNELS);
        let too_few = by_channels && self.comm.nvls_graph.channels < 2;
        has_code(self.version, function, algo)
            && !(nvls && too_few)
            && (algo != Algo::Pat || self.has_pat())
    }

    fn has_pat(&self) -> bool {
        let one_rank_a_node = self.comm.nodes == self.comm.ranks;
        let known = self.comm.min_cc >= 60 || !self.version.has(since::PAT_ASKS_GPU);
        known && self.settings.pat().unwrap_or(one_rank_a_node)
    }

    /// The rate of one channel.
    fn channel_rate(&self, function: Function, algo: Algo) -> f32 {
        let Graph { intra: Gbps(intra), inter: Gbps(inter), channels, .. } = *self.comm.graph(algo);
        let few_nodes = self.comm.nodes <= 2;
        match algo {
            Algo::Nvls | Algo::NvlsTree if self.version.has(since::NVLS_BY_CHANNELS) => {
                let efficiency = self.constants.nvls_efficiency[self.class];
                let channels = channels as f32;
                let mut intra = intra * efficiency * (channels - 1.0) / channels;
                if function == Function::AllReduce {
                    intra *= 2.0;
                } else {
                    intra *= (self.per_node - 1.0) / self.per_node;
                }
                let tree = algo == Algo::NvlsTree;
                let rate = intra.min(if few_nodes && tree { inter * 2.0 } else { inter });
                let cap = self.constants.nvls_tree[self.class][self.column];
                if tree { f64::from(rate).min(cap) as f32 } else { rate }
            }
            Algo::Nvls if function.gathers() && self.version.has(since::NVLS_GATHER_RATE) => {
                (intra * (self.per_node - 1.0) / self.per_node).min(inter * 0.9)
            }
            Algo::Nvls if self.version.has(since::NVLS_STEPS) => intra.min(inter),
            Algo::NvlsTree if self.version.has(since::NVLS_STEPS) => {
                intra.min(if few_nodes { inter } else { inter / 2.0 })
            }
            _ if few_nodes || algo.is_collnet() => intra,
            _ => inter,
        }
    }

    /// The rate of all channels over the busiest link, for channels of the given rate.
    fn bus_bandwidth(&self, function: Function, algo: Algo, proto: Proto, rate: f32) -> f32 {
        let graph = self.comm.graph(algo);
        let nodes = self.comm.nodes;
        let channels = graph.channels as f32;
        let bus = channels * rate;
        let wide = f64::from(bus);
        let cap = |caps: &[[f64; 3]; 4]| f64::from(graph.channels) * caps[self.class][self.column];
        match algo {
            Algo::Ring => match proto {
                Proto::Ll => self.ll_cap().min(wide * self.ring_ll_share(function)) as f32,
                Proto::Ll128 => {
                    let alone = self.per_node < 2.0 && !self.version.has(since::RING_LL128_ALONE);
                    let share = if alone { 0.7 } else { 0.92 };
                    (wide * share).min(cap(&self.constants.ring_ll128)) as f32
                }
                Proto::Simple => bus,
            },
            Algo::Tree => {
                let bus = (wide * 0.92).min(cap(&self.constants.tree)) as f32;
                let wide = f64::from(bus);
                let bus = match proto {
                    Proto::Ll => (wide / 3.8).min(self.ll_cap()) as f32,
                    Proto::Ll128 => {
                        let share = if nodes == 1 { 7.0 / 9.0 } else { 120.0 / 128.0 };
                        (wide * share).min(cap(&self.constants.tree_ll128)) as f32
                    }
                    Proto::Simple => bus,
                };
                let less = graph.pattern == PATTERN_TREE && self.version.has(since::TREE_SHARE);
                if less { (f64::from(bus) * 0.85) as f32 } else { bus }
            }
            Algo::Pat if self.version.has(since::PAT_THREE_QUARTERS) => (wide * 0.75) as f32,
            Algo::Pat => (wide * 0.85) as f32,
            Algo::CollNetDirect | Algo::CollNetChain if proto != Proto::Simple => 0.0,
            Algo::CollNetDirect if function.gathers() => self.collnet_gathers(graph, rate),
            Algo::CollNetDirect => {
                let mut factor = self.per_node / channels;
                factor -= (factor - 1.0) / 2.0;
                let bus = bus / factor;
                if self.comm.min_cc >= 90 { (f64::from(bus) * 0.85) as f32 } else { bus }
            }
            Algo::Nvls
                if function.gathers()
                    && self.version.has(since::NVLS_GATHER_RATE)
                    && self.gathers_in_vain() =>
            {
                0.0
            }
            Algo::CollNetChain | Algo::Nvls | Algo::NvlsTree => bus,
        }
    }

    /// LL's cap depends on the GPU on one node, and on the processor on several.
    fn ll_cap(&self) -> f64 {
        let amd = self.comm.vendor == Vendor::Amd
            || (self.version.has(since::MIXED_CPUS) && self.comm.vendor == Vendor::Mixed);
        let row = if self.comm.nodes == 1 { self.class } else { usize::from(amd) };
        self.constants.ll[row][self.column]
    }

    fn ring_ll_share(&self, function: Function) -> f64 {
        let reduces = matches!(function, Function::AllReduce | Function::Reduce);
        if self.version.has(since::RING_LL_HALF) {
            0.5
        } else if self.comm.nodes > 1 || reduces {
            1.0 / 4.0
        } else {
            1.0 / 3.0
        }
    }

    fn collnet_gathers(&self, graph: &Graph, rate: f32) -> f32 {
        if self.gathers_in_vain() {
            return 0.0;
        }
        if self.version.has(since::NVLS_GATHER_RATE) {
            return self.per_node * graph.intra.0.min(graph.inter.0 * 0.9);
        }
        let weight = (self.per_node - 1.0) / 7.0;
        let mean = f64::from(weight) * 0.85 + f64::from(1.0 - weight) * 0.95;
        (f64::from(self.per_node * rate) * mean) as f32
    }

    /// Whether the network is needed but cannot gather: no plugin, or more ranks than heads.
    fn gathers_in_vain(&self) -> bool {
        let Communicator { nodes, collnet, collnet_heads, local_ranks, .. } = *self.comm;
        if nodes == 1 {
            return false;
        }
        let beyond = match self.version.has(since::NVLS_GATHER_RATE) {
            true => local_ranks > collnet_heads,
            false => self.per_node > collnet_heads as f32,
        };
        !collnet || beyond
    }

    /// The ratio of the largest buffer over time to the busiest link's rate.
    fn ratio(&self, function: Function, algo: Algo) -> f32 {
        let ring = || f64::from(self.comm.ranks) / f64::from(ring_steps(self.comm, function));
        let gathers = function.gathers();
        let has = |rule| self.version.has(rule);
        let ratio = match algo {
            Algo::Ring => ring(),
            _ if gathers && has(since::PAT) => 1.0,
            Algo::CollNetDirect if gathers => 1.0,
            Algo::Nvls | Algo::NvlsTree if has(since::NVLS_BY_CHANNELS) => ring(),
            Algo::NvlsTree if !has(since::NVLS_STEPS) => {
                0.70 * f64::from(self.comm.nodes) / f64::from(2 * (self.comm.nodes - 1))
            }
            Algo::Nvls if !has(since::NVLS_FIVE_SIXTHS) => 0.75,
            Algo::Nvls | Algo::NvlsTree => 5.0 / 6.0,
            _ => 0.5,
        };
        ratio as f32
    }

    fn latency(&self, function: Function, algo: Algo, proto: Proto) -> f32 {
        let (a, p) = (algo as usize, proto as usize);
        let nodes = self.comm.nodes as i32;
        let local = self.whole_per_node;
        let graph = self.comm.graph(algo);
        let link = if graph.type_intra == PathType::Nvl { NVLINK } else { PCI };
        let base = self.constants.base[a][p];
        let intra = self.step(link, algo, proto);
        let as_tree = self.version.has(since::LATENCY_BETWEEN) && self.per_node == 1.0;
        let between = if as_tree { Algo::Tree } else { algo };
        let mut inter = self.constants.hardware[NET][between as usize][p] + graph.latency_inter.0;
        if proto == Proto::Simple {
            inter += graph.latency_inter.0;
        }
        let logs = 2 * self.log_nodes;
        match algo {
            Algo::Ring => base + self.ring_latency(function, proto, link, intra, inter),
            Algo::Tree => base + 2.0 * ((local - 1) as f32 * intra + self.log_nodes as f32 * inter),
            Algo::CollNetDirect => {
                let beside = f64::from((local - 1).min(1) as f32 * intra)
                    + f64::from(local - 1) * self.constants.collnet_direct_rank;
                (f64::from(base) + (2.0 * beside + f64::from(inter))) as f32
            }
            Algo::CollNetChain => base + ((2 * (local - 1)) as f32 * intra + inter),
            Algo::Nvls | Algo::NvlsTree if !self.version.has(since::NVLS_STEPS) => {
                let net = self.constants.hardware[NET][a][p];
                match algo {
                    Algo::NvlsTree => base + (2 * (nodes - 1)) as f32 * net,
                    _ if nodes > 1 => base + net,
                    _ => base,
                }
            }
            Algo::Nvls if nodes > 1 => intra + inter,
            Algo::Nvls => intra,
            Algo::NvlsTree => base + (intra + logs as f32 * inter),
            Algo::Pat => {
                let steps = f64::from(self.log_nodes) * (f64::from(inter) / 3.5)
                    + f64::from(self.comm.ranks) * 2.8;
                let base = if self.version.has(since::PAT_BASE) { f64::from(base) } else { 8.0 };
                (base + steps) as f32
            }
        }
    }

    /// The latency of a step on a link. On POWER a tree's step over PCI takes as long as a ring's.
    fn step(&self, link: usize, algo: Algo, proto: Proto) -> f32 {
        let power = self.comm.arch == Arch::Power && link == PCI;
        let as_ring = power && algo == Algo::Tree && proto == Proto::Simple;
        let algo = if as_ring { Algo::Ring } else { algo };
        self.constants.hardware[link][algo as usize][proto as usize]
    }

    fn ring_latency(
        &self,
        function: Function,
        proto: Proto,
        link: usize,
        mut intra: f32,
        inter: f32,
    ) -> f32 {
        let nodes = self.comm.nodes as i32;
        let steps = ring_steps(self.comm, function);
        if matches!(function, Function::Broadcast | Function::Reduce) {
            let link = if nodes == 1 { link } else { NET };
            if self.comm.ring.same_channels {
                return self.step(link, Algo::Ring, proto);
            }
            let algo = if proto == Proto::Simple { Algo::Tree } else { Algo::Ring };
            return steps as f32 * self.step(link, algo, proto);
        }
        if nodes > 1 {
            let times = if proto == Proto::Simple { 3.0 } else { 1.0 };
            intra = intra.max(self.overhead * times);
        }
        let all_reduce = function == Function::AllReduce;
        let new = self.version.has(since::LATENCY_BETWEEN);
        let between = match nodes {
            1 if new || all_reduce => 0,
            _ if all_reduce && new => 2 * (nodes - 1),
            _ if all_reduce => 2 * nodes,
            _ => nodes - 1,
        };
        (steps - between) as f32 * intra + between as f32 * inter
    }
}

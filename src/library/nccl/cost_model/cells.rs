//! The table of the general candidates: a latency and a bandwidth each, as the log prints them.
//!
//! Where NCCL mixes float32 with a double constant the sum is a double, rounded at the assignment.

use super::super::allowed::trusts_ll128;
use super::super::communicator::{Graph, PATTERN_TREE, PathType};
use super::super::tuner::{overhead, ring_steps};
use super::super::{Algo, Communicator, Function, Gbps, Micros, Proto, Settings, Version};
use super::Candidate;
use super::enabled::Enabled;
use super::figures::Figures;

/// Links, as rows of the hardware latencies.
pub(super) const NVLINK: usize = 0;
pub(super) const PCI: usize = 1;
pub(super) const NET: usize = 2;

/// One algorithm and protocol for one function.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Cell {
    /// The latency of a call before its first byte; −1 if the function is not supported.
    pub latency: Micros,
    /// Bytes of the largest buffer over time; −1 if the function is not supported.
    pub bandwidth: Gbps,
    /// Whether it takes part in the choice.
    pub runs: bool,
}

/// The function is not supported.
const UNSERVED: Cell = Cell { latency: Micros(-1.0), bandwidth: Gbps(-1.0), runs: false };

/// A communicator with everything that does not depend on a single cell.
pub(super) struct Filler<'a> {
    pub comm: &'a Communicator,
    pub version: Version,
    pub figures: &'a Figures,
    pub settings: &'a Settings,
    pub enabled: &'a Enabled,
    /// Whether the pipeline model prices rings and trees.
    pub rubin: bool,
}

impl Filler<'_> {
    /// The cell of a function, algorithm and protocol.
    pub fn cell(&self, function: Function, algo: Algo, proto: Proto) -> Cell {
        if !self.starts(algo, proto) {
            return Cell::default();
        }
        let gathers = function.gathers();
        let served = match algo {
            Algo::Ring => true,
            Algo::Tree | Algo::NvlsTree => function == Function::AllReduce,
            Algo::CollNetDirect | Algo::CollNetChain | Algo::Nvls => {
                gathers || function == Function::AllReduce
            }
            Algo::Pat => gathers,
        };
        if !served {
            return UNSERVED;
        }
        let Communicator { nodes, local_ranks, collnet_heads, .. } = *self.comm;
        let beyond_heads = nodes > 1 && local_ranks > collnet_heads;
        let (latency, mut bandwidth) = self.figures_of(function, algo, proto);
        let mut runs = self.enabled.has(function, Candidate::General(algo, proto));
        match algo {
            Algo::CollNetChain if gathers => runs = false,
            Algo::CollNetDirect | Algo::CollNetChain if beyond_heads => runs = false,
            Algo::Nvls if gathers && beyond_heads => {
                bandwidth = -1.0;
                runs = false;
            }
            Algo::Tree | Algo::Ring if proto == Proto::Ll128 => {
                runs &= self.enabled.insists_on_ll128(function)
                    || trusts_ll128(self.comm, self.version, self.settings, algo);
            }
            _ => {}
        }
        Cell { latency: Micros(latency), bandwidth: Gbps(bandwidth), runs }
    }

    /// Whether a cell is initialized at all, for any function.
    fn starts(&self, algo: Algo, proto: Proto) -> bool {
        let Communicator { nodes, nvls, collnet, collnet_chain, ref nvls_graph, .. } = *self.comm;
        let switch = nvls && (nvls_graph.channels >= 2 || self.rubin);
        match algo {
            Algo::Tree | Algo::Ring => true,
            _ if proto != Proto::Simple => false,
            Algo::CollNetDirect => collnet,
            Algo::CollNetChain => collnet && collnet_chain,
            Algo::Nvls => switch && (nodes == 1 || collnet),
            Algo::NvlsTree => switch && nodes > 1,
            Algo::Pat => self.has_pat(),
        }
    }

    /// PAT with several ranks per node uses NVLS inside.
    fn has_pat(&self) -> bool {
        let Communicator { nodes, local_ranks, nvls, min_cc, .. } = *self.comm;
        let several = local_ranks > 1;
        min_cc >= 60 && self.settings.pat().unwrap_or(!several || nodes >= 2) && (!several || nvls)
    }

    fn figures_of(&self, function: Function, algo: Algo, proto: Proto) -> (f32, f32) {
        match algo {
            Algo::Ring => self.ring(function, proto),
            Algo::Tree => self.tree(proto),
            Algo::CollNetDirect | Algo::CollNetChain => self.collnet(function, algo),
            Algo::Nvls | Algo::NvlsTree => self.nvls(function, algo),
            Algo::Pat => self.pat(),
        }
    }

    fn link(&self, algo: Algo) -> usize {
        if self.comm.graph(algo).type_intra == PathType::Nvl { NVLINK } else { PCI }
    }

    fn step(&self, link: usize, algo: Algo, proto: Proto) -> f32 {
        self.figures.hardware[link][algo as usize][proto as usize]
    }

    /// A step between nodes: the algorithm's own latency, then the NICs', twice for Simple.
    fn far_step(&self, algo: Algo, own: Algo, proto: Proto, intra: f32) -> f32 {
        let latency = self.comm.graph(algo).latency_inter.0;
        let step = if self.comm.nodes == 1 { intra } else { self.step(NET, own, proto) };
        let step = step + latency;
        if proto == Proto::Simple { step + latency } else { step }
    }

    fn log_nodes(&self) -> f32 {
        self.comm.nodes.ilog2() as f32
    }

    fn ring(&self, function: Function, proto: Proto) -> (f32, f32) {
        let (comm, figures) = (self.comm, self.figures);
        let graph = &comm.ring;
        let near = comm.nodes == 1 || (comm.nodes == 2 && comm.min_cc < 100);
        let rate = if near { graph.intra.0 } else { graph.inter.0 };
        let bus = rate * graph.channels as f32;
        let wide = f64::from(bus);
        let bus = match proto {
            Proto::Ll => figures.ll.min(wide * 0.5) as f32,
            Proto::Ll128 => {
                (wide * 0.92).min(f64::from(graph.channels) * figures.ring_ll128) as f32
            }
            Proto::Simple => bus,
        };
        let bandwidth = bus * comm.ranks as f32 / ring_steps(comm, function) as f32;
        (self.ring_latency(function, proto), bandwidth)
    }

    fn ring_latency(&self, function: Function, proto: Proto) -> f32 {
        let comm = self.comm;
        let nodes = comm.nodes as i32;
        let steps = ring_steps(comm, function);
        let link = self.link(Algo::Ring);
        let base = self.figures.base[Algo::Ring as usize][proto as usize];
        if matches!(function, Function::Broadcast | Function::Reduce) {
            let link = if nodes == 1 { link } else { NET };
            if comm.ring.same_channels {
                return base + self.step(link, Algo::Ring, proto);
            }
            let algo = if proto == Proto::Simple { Algo::Tree } else { Algo::Ring };
            return base + steps as f32 * self.step(link, algo, proto);
        }
        let mut intra = self.step(link, Algo::Ring, proto);
        let own = if comm.local_ranks == 1 { Algo::Tree } else { Algo::Ring };
        let inter = self.far_step(Algo::Ring, own, proto, intra);
        if nodes > 1 {
            let times = if proto == Proto::Simple { 3.0 } else { 1.0 };
            intra = intra.max(overhead(comm, self.settings) * times);
        }
        let between = match function {
            _ if nodes == 1 => 0,
            Function::AllReduce => 2 * (nodes - 1),
            _ => nodes - 1,
        };
        base + ((steps - between) as f32 * intra + between as f32 * inter)
    }

    fn tree(&self, proto: Proto) -> (f32, f32) {
        let (comm, figures) = (self.comm, self.figures);
        let Graph { intra: Gbps(intra), inter: Gbps(inter), channels, pattern, .. } = comm.tree;
        let rate = match comm.min_cc {
            100.. => inter.min(intra),
            _ if comm.nodes <= 2 => intra,
            _ => inter,
        };
        let cap = |cap: f64| f64::from(channels) * cap;
        let bus = (f64::from(rate * channels as f32) * 0.92).min(cap(figures.tree)) as f32;
        let wide = f64::from(bus);
        let bus = match proto {
            Proto::Ll => (wide / 3.8).min(figures.ll) as f32,
            Proto::Ll128 => {
                let share = if comm.nodes == 1 { 7.0 / 9.0 } else { 120.0 / 128.0 };
                (wide * share).min(cap(figures.tree_ll128)) as f32
            }
            Proto::Simple => bus,
        };
        let bus = if pattern == PATTERN_TREE { (f64::from(bus) * 0.85) as f32 } else { bus };
        let bandwidth = (f64::from(bus) * 0.5) as f32;
        let near = self.step(self.link(Algo::Tree), Algo::Tree, proto);
        let far = self.far_step(Algo::Tree, Algo::Tree, proto, near);
        let local = (comm.ranks / comm.nodes) as i32;
        let base = figures.base[Algo::Tree as usize][proto as usize];
        (base + 2.0 * ((local - 1) as f32 * near + self.log_nodes() * far), bandwidth)
    }

    fn collnet(&self, function: Function, algo: Algo) -> (f32, f32) {
        let comm = self.comm;
        let Graph { intra: Gbps(intra), inter: Gbps(inter), channels, .. } = *comm.graph(algo);
        let per_node = comm.ranks as f32 / comm.nodes as f32;
        let bandwidth = if function.gathers() {
            per_node * intra.min(inter * 0.9)
        } else {
            let mut bus = channels as f32 * intra;
            if algo == Algo::CollNetDirect {
                let mut factor = (f64::from(per_node) / f64::from(channels)) as f32;
                factor -= (factor - 1.0) / 2.0;
                bus /= factor;
                if comm.min_cc >= 90 {
                    bus = (f64::from(bus) * 0.85) as f32;
                }
            }
            (f64::from(bus) * 0.5) as f32
        };
        let near = self.step(self.link(algo), algo, Proto::Simple);
        let far = self.far_step(algo, algo, Proto::Simple, near);
        let local = (comm.ranks / comm.nodes) as i32;
        let base = self.figures.base[algo as usize][Proto::Simple as usize];
        let latency = if algo == Algo::CollNetDirect {
            let beside = f64::from((local - 1).min(1) as f32 * near) + f64::from(local - 1) * 0.4;
            (f64::from(base) + (2.0 * beside + f64::from(far))) as f32
        } else {
            base + ((2 * (local - 1)) as f32 * near + far)
        };
        (latency, bandwidth)
    }

    fn nvls(&self, function: Function, algo: Algo) -> (f32, f32) {
        let (comm, figures) = (self.comm, self.figures);
        let Graph { intra: Gbps(intra), inter: Gbps(inter), channels, .. } = comm.nvls_graph;
        let count = channels as f32;
        let tree = algo == Algo::NvlsTree;
        let mut switch = intra * figures.efficiency * (count - 1.0) / count;
        if function.gathers() {
            let local = comm.local_ranks as f32;
            switch *= (local - 1.0) / local;
        } else {
            switch *= 2.0;
        }
        let net = if tree && comm.nodes <= 2 { inter * 2.0 } else { inter };
        let mut rate = switch.min(net);
        if tree {
            rate = rate.min(figures.nvls_tree as f32);
        }
        let bus = rate * count;
        let bandwidth = match function.gathers() {
            true => bus,
            false => bus * comm.ranks as f32 / ring_steps(comm, function) as f32,
        };
        let near = self.step(self.link(algo), algo, Proto::Simple);
        let far = self.far_step(algo, algo, Proto::Simple, near);
        let latency = match algo {
            Algo::NvlsTree => {
                let base = figures.base[algo as usize][Proto::Simple as usize];
                base + (near + 2.0 * self.log_nodes() * far)
            }
            _ if comm.nodes > 1 => near + far,
            _ => near,
        };
        (latency, bandwidth)
    }

    fn pat(&self) -> (f32, f32) {
        let comm = self.comm;
        let Graph { intra: Gbps(intra), inter: Gbps(inter), channels, .. } = comm.tree;
        let bus = inter.min(intra) * channels as f32;
        let link = if comm.nodes > 1 { NET } else { self.link(Algo::Pat) };
        let step = self.step(link, Algo::Pat, Proto::Simple) + comm.tree.latency_inter.0;
        let steps =
            f64::from(comm.nodes.ilog2()) * (f64::from(step) / 3.5) + f64::from(comm.ranks) * 2.8;
        ((8.0 + steps) as f32, (f64::from(bus) * 0.75) as f32)
    }
}

//! RCCL's cost model, in `f32` as there, and what overrides it.
//!
//! Source: ROCm/rccl, `ncclTopoTuneModel` and `ncclTopoGetAlgoTime` in `src/graph/tuning.cc`, `getAlgoInfo` in
//! `src/enqueue.cc`, `rcclUpdateCollectiveProtocol` and `rcclUseAllGatherDirect` in `src/rccl_wrap.cc`; for 2.30 the
//! same of ROCm/rocm-systems, `projects/rccl`, with `rcclUseReduceScatterDirect` there.

use super::hierarchy::{self, Between, Inside};
use super::tables::{BASE, Chip, Graph, RING_RATE, RING_STEP, TREE_RATE, TREE_STEP, graphs};
use crate::machine::nccl::{Algo, Function, Proto};

/// A communicator: so many GPUs on each of so many nodes.
pub(super) struct Tuner {
    chip: &'static Chip,
    nodes: u32,
    ranks: u32,
    tree: Graph,
    ring: Graph,
    /// Whether elements are 8-bit floats: rings of more than eight ranks come last.
    is_fp8: bool,
}

/// What runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// What an algorithm and a protocol of NCCL are.
    Of(Algo, Proto),
    /// Every rank sends its block to every other, or the other's.
    Direct,
    /// A gather among the GPUs with one number on every node, then inside the nodes.
    Hierarchy(Between, Inside),
}

/// GPUs of a node wherever there are several nodes.
pub(super) const PER_NODE: u64 = 8;

/// The sizes for which MI350X run trees with LL inside a node.
const TREES: std::ops::RangeInclusive<u64> = 64..=262_144;

impl Tuner {
    /// `None` if RCCL has no built-in model for so many GPUs a node.
    pub(super) fn new(chip: &'static Chip, ranks: u32, nodes: u32, is_fp8: bool) -> Option<Self> {
        let per_node = ranks.checked_div(nodes).filter(|each| each * nodes == ranks)?;
        let [tree, ring] = graphs(per_node, nodes)?;
        Some(Self { chip, nodes, ranks, tree, ring, is_fp8 })
    }

    /// What runs for `bytes`: the vector, or all blocks of a gather or scatter.
    pub(super) fn decide(&self, function: Function, bytes: u64) -> Decision {
        if let Some(decision) = self.before(function, bytes) {
            return decision;
        }
        let mut best = (f32::INFINITY, Algo::Ring, Proto::Simple);
        for algo in [Algo::Tree, Algo::Ring] {
            for proto in Proto::ALL {
                let time = self.time(function, (algo, proto), bytes).unwrap_or(f32::INFINITY);
                if time < best.0 {
                    best = (time, algo, proto);
                }
            }
        }
        let (_, algo, mut proto) = best;
        let each = self.each(function, bytes);
        if self.nodes > 1 {
            proto = self.over_nodes(function, each);
        } else if (1..=self.chip.most_ll(function)).contains(&each) {
            proto = Proto::Ll;
        }
        let is_tree = self.chip.trees && self.nodes == 1 && TREES.contains(&each);
        if is_tree && function == Function::AllReduce {
            return Decision::Of(Algo::Tree, Proto::Ll);
        }
        Decision::Of(algo, proto)
    }

    /// What is decided before estimates are made.
    fn before(&self, function: Function, bytes: u64) -> Option<Decision> {
        match function {
            Function::AllGather if bytes <= self.hierarchical() => {
                let between = hierarchy::between(self.nodes, bytes / PER_NODE, self.gathered());
                let alone = Self { nodes: 1, ranks: PER_NODE as u32, ..*self };
                let [tree, ring] = graphs(alone.ranks, 1)?;
                let inside = match (Self { tree, ring, ..alone }).decide(function, bytes) {
                    Decision::Of(_, proto) => Inside::Ring(proto),
                    _ => Inside::Direct,
                };
                Some(Decision::Hierarchy(between, inside))
            }
            Function::AllGather if self.ranks.is_multiple_of(8) && bytes <= self.gathered() => {
                Some(Decision::Direct)
            }
            Function::ReduceScatter if self.scatters_directly() && bytes <= self.scattered() => {
                Some(Decision::Direct)
            }
            Function::AllReduce if self.nodes == 1 && self.ranks == 8 => {
                let row = self.chip.table.iter().find(|row| bytes <= row.0)?;
                Some(Decision::Of(row.1, row.2))
            }
            _ => None,
        }
    }

    /// The estimate, in µs; `None` for what is not considered.
    fn time(&self, function: Function, (algo, proto): (Algo, Proto), bytes: u64) -> Option<f32> {
        let mut rate = self.rate(function, algo, proto)?;
        let doubled = ((bytes >> 6).max(1).ilog2() as usize).min(26);
        if algo == Algo::Tree {
            rate *= self.chip.tree_corrections[proto as usize][doubled];
        } else if self.nodes > 1 {
            rate *= self.chip.ring_corrections[proto as usize][doubled];
        }
        let time = self.latency(function, algo, proto) + bytes as f32 / (1000.0 * rate);
        let comes_last = self.is_fp8 && algo == Algo::Ring && self.ranks > 8;
        Some(if comes_last { time * 1024.0 } else { time })
    }

    /// Sizes below which a decision may differ from that above: of corrections, protocols, and direct calls.
    pub(super) fn borders(&self, function: Function) -> impl Iterator<Item = u64> {
        let limits = self.chip.limits(function);
        let scale = self.bytes(function, 1);
        let inside = [*TREES.start(), TREES.end() + 1, self.chip.most_ll(function) + 1];
        let over = [1, limits.ll + 1, limits.ll128.0 + 1, self.most(function) + 1];
        let each = inside.into_iter().chain(over).map(move |size| size * scale);
        let table = self.chip.table.iter().map(|row| row.0 + 1);
        let alone = Self { nodes: 1, ..*self };
        let inside = [alone.gathered() + 1, self.chip.most_ll(function) * PER_NODE + 1];
        let between = [self.gathered() * PER_NODE + 1, self.hierarchical() + 1];
        let before = [self.gathered() + 1, self.scattered() + 1].into_iter().chain(table);
        each.chain((1..=26).map(|k| 64 << k)).chain(before).chain(inside).chain(between)
    }

    /// GB/s of the algorithm's bytes; `None` for what is not considered.
    fn rate(&self, function: Function, algo: Algo, proto: Proto) -> Option<f32> {
        let alone = self.nodes == 1;
        // LL128 is enabled by the models of several nodes.
        if proto == Proto::Ll128 && alone {
            return None;
        }
        let many = usize::from(self.nodes > 2);
        let ranks = self.ranks as f64;
        match algo {
            Algo::Tree if function != Function::AllReduce => None,
            Algo::Tree if alone && proto == Proto::Simple => None,
            Algo::Tree => {
                let links = f32::from(self.tree.channels) * self.tree.rate;
                Some(links * TREE_RATE[many][proto as usize] * 0.5)
            }
            Algo::Ring => {
                let mut rate = f32::from(self.ring.channels) * self.ring.rate;
                rate *= RING_RATE[proto as usize];
                let chain = matches!(function, Function::Broadcast | Function::Reduce);
                if chain && alone && proto == Proto::Ll {
                    rate = (f64::from(rate) * 1.65) as f32;
                }
                Some(rate * (ranks / f64::from(function.ring_steps(self.ranks))) as f32)
            }
            _ => None,
        }
    }

    /// In µs.
    fn latency(&self, function: Function, algo: Algo, proto: Proto) -> f32 {
        let p = proto as usize;
        let base = BASE[p];
        let per_node = self.ranks / self.nodes;
        if algo == Algo::Tree {
            let inside = (per_node - 1) as f32 * TREE_STEP[0][p];
            return base + 2.0 * (inside + self.nodes.ilog2() as f32 * TREE_STEP[1][p]);
        }
        let over = usize::from(self.nodes > 1);
        let steps = function.ring_steps(self.ranks);
        if matches!(function, Function::Broadcast | Function::Reduce) {
            if self.ring.same {
                return base + RING_STEP[over][p];
            }
            let step = if proto == Proto::Simple { TREE_STEP[over][p] } else { RING_STEP[over][p] };
            return base + steps as f32 * step;
        }
        let overhead = match proto {
            _ if self.nodes == 1 => 0.0,
            Proto::Simple => self.chip.overhead * 3.0,
            _ => self.chip.overhead,
        };
        let inside = RING_STEP[0][p].max(overhead);
        let between = match function {
            Function::AllReduce => 2 * (self.nodes - 1),
            _ => self.nodes - 1,
        };
        base + ((steps - between) as f32 * inside + between as f32 * RING_STEP[1][p])
    }

    /// The size per rank that limits of protocols count; of an all-reduce the whole vector.
    fn each(&self, function: Function, bytes: u64) -> u64 {
        bytes / self.bytes(function, 1)
    }

    /// The other way round.
    fn bytes(&self, function: Function, each: u64) -> u64 {
        if function == Function::AllReduce { each } else { each * u64::from(self.ranks) }
    }

    /// The largest size per rank of LL128 over nodes.
    fn most(&self, function: Function) -> u64 {
        let most = self.chip.limits(function).ll128.1;
        let scaled = function == Function::AllReduce && self.nodes > 2;
        if scaled { (most as f64 * 3.8) as u64 } else { most }
    }

    /// The protocol over nodes, whatever the cost model says.
    fn over_nodes(&self, function: Function, each: u64) -> Proto {
        let limits = self.chip.limits(function);
        if limits.ll128.0 < each && each <= self.most(function) {
            Proto::Ll128
        } else if 0 < each && each <= limits.ll {
            Proto::Ll
        } else {
            Proto::Simple
        }
    }

    /// The most bytes of all ranks that are gathered by sends to every rank.
    pub(super) fn gathered(&self) -> u64 {
        match self.nodes {
            _ if !self.chip.is_gfx950 => 4 << 20,
            1 => 8 << 20,
            nodes if nodes < 64 => u64::from(nodes) << 21,
            _ => 75_497_472,
        }
    }

    /// The same of a scatter: MI350X alone, where messages may pass through another GPU to its NIC, from 32 ranks on.
    pub(super) fn scattered(&self) -> u64 {
        match self.nodes {
            4 => 4 << 20,
            8 | 16 => 8 << 20,
            _ => 0,
        }
    }

    pub(super) fn scatters_directly(&self) -> bool {
        self.chip.newer && self.chip.is_gfx950 && self.scattered() > 0
    }

    /// The most bytes of all ranks that are gathered between nodes, then inside them; 0 if none are.
    pub(super) fn hierarchical(&self) -> u64 {
        match self.nodes {
            _ if !self.chip.newer => 0,
            16.. => 128 << 20,
            8.. => 64 << 20,
            _ => 0,
        }
    }

    pub(super) fn has_hierarchy(&self) -> bool {
        self.hierarchical() > 0
    }
}

//! A measured series, and its similarity to a query.

use std::borrow::Cow;

use super::OCTAVES;
use super::base::{Asked, What};
use super::features::{Class, Features, Net};

/// Prior variances of what is shared by a collective over similar ranks, by a generation, by a network.
/// These and the ones below were chosen, not fitted (docs/background/accuracy-of-gpus.md, "How it was learned").
const COMMON: f64 = 0.0144;
const BOARD: f64 = 0.16;
const NETWORK: f64 = 0.0144;
/// And by the very same board on the same network, over nodes.
const PRODUCT: f64 = 0.1;
/// The similarity of another collective; all-gather and reduce-scatter are more similar to each other, as
/// are gather and scatter.
const OTHER: f64 = 0.5;
const RING: f64 = 0.75;
/// Octaves of ranks on a node, and of nodes, over which similarity falls to 1/e.
const FADES_RANKS: f64 = 3.0;
const FADES_NODES: f64 = 3.0;
/// The similarity of one node to several, and that of a generation apart, another kind of machine, another
/// network.
pub(super) const TIER: f64 = 0.5;
const GENERATION: f64 = 0.5;
const CLASS: f64 = 0.1;
const OTHER_NETWORK: f64 = 0.2;

/// The residual over the base of one collective on one number of ranks and nodes of one measured machine.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Series {
    pub(super) class: Class,
    pub(super) generation: i32,
    pub(super) board: Cow<'static, str>,
    pub(super) net: Net,
    pub(super) nic: f32,
    /// Whether each two GPUs of a node have a link of their own.
    pub(super) mesh: bool,
    pub(super) what: What,
    pub(super) ranks: u32,
    pub(super) nodes: u32,
    /// The octaves that were measured.
    pub(super) from: u8,
    pub(super) to: u8,
    /// By octave, already weighted by the distance of each measured size.
    pub(super) left: [f32; OCTAVES],
}

/// κ.
pub(super) fn likeness(asked: &Asked, machine: &Features, series: &Series) -> f64 {
    let what = alike(asked.what, series.what);
    let nodes = f64::from(series.nodes);
    let apart = |a: f64, b: f64, fades: f64| (-(a / b).log2().abs() / fades).exp();
    let here = apart(asked.per_node, f64::from(series.ranks) / nodes, FADES_RANKS);
    let near = apart(asked.nodes, nodes, FADES_NODES);
    let (several, theirs) = (asked.nodes > 1.0, series.nodes > 1);
    let tier = if several == theirs { 1.0 } else { TIER };
    let both = several && theirs;
    let placed = here * tier * if both { near } else { 1.0 };
    let slingshot = |over_nodes: bool, net: Net| over_nodes && net == Net::Slingshot;
    let same = machine.class == series.class
        && slingshot(several, machine.net) == slingshot(theirs, series.net);
    let mut sum = COMMON * placed * if same { 1.0 } else { CLASS };
    if same {
        sum += BOARD * placed * generations(machine, series);
        if both && machine.board == series.board && series.is_on(machine) {
            sum += PRODUCT * placed;
        }
    }
    if both {
        sum += NETWORK * near * if machine.net == series.net { 1.0 } else { OTHER_NETWORK };
    }
    what * sum
}

/// The similarity of one collective to another.
pub(super) fn alike(a: What, b: What) -> f64 {
    match (a, b) {
        (a, b) if a == b => 1.0,
        (What::AllGather, What::ReduceScatter)
        | (What::ReduceScatter, What::AllGather)
        | (What::Gather, What::Scatter)
        | (What::Scatter, What::Gather) => RING,
        _ => OTHER,
    }
}

/// The similarity of one board to another of its kind.
fn generations(machine: &Features, series: &Series) -> f64 {
    match machine.class {
        // Each PCIe box has its own topology.
        Class::Pcie if machine.board == series.board => 1.0,
        Class::Pcie => 0.0,
        _ => GENERATION.powi((machine.generation - series.generation).abs()),
    }
}

impl Series {
    /// Whether it is of the same network.
    pub(super) fn is_on(&self, machine: &Features) -> bool {
        machine.net == self.net && (machine.nic - f64::from(self.nic)).abs() < 0.01
    }

    /// Whether it is of the same collective, and like the query of one node or of several.
    pub(super) fn is_of(&self, asked: &Asked) -> bool {
        asked.what == self.what && (asked.nodes > 1.0) == (self.nodes > 1)
    }

    /// 0: the same collective and ranks, 1: the same collective, 2: another, on the same board, or one of
    /// its generation whose GPUs are connected alike, and, over nodes, the same network; `None` otherwise.
    pub(super) fn nearness(&self, asked: &Asked, machine: &Features) -> Option<usize> {
        let several = asked.nodes > 1.0;
        let board = machine.class == self.class
            && machine.is_mesh() == self.mesh
            && !machine.bridged
            && generations(machine, self) > 0.999;
        if !board || several != (self.nodes > 1) || (several && !self.is_on(machine)) {
            return None;
        }
        let (ranks, nodes) = (f64::from(self.ranks), f64::from(self.nodes));
        let placed = asked.ranks == ranks && asked.nodes == nodes;
        // Broadcasts and reductions to one rank are answered by what gathers and scatters took.
        Some(match (asked.what == self.what && !asked.whole, placed) {
            (true, true) => 0,
            (true, false) => 1,
            (false, _) => 2,
        })
    }
}

//! The placement of a question's ranks: on how many nodes, how many on each, in which order.
//!
//! The question creates it once; everything else reads it.

use crate::machine::curve::Placed;
use crate::machine::fabric::{Fabric, Order};
use crate::model::algorithm::Algorithm;
use crate::model::formula::{Level, Shape};
use crate::model::schedule::combine::Relabel;
use crate::model::schedule::{Layout, Schedule};

/// Ranks on nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Placement {
    /// N.
    pub ranks: u32,
    /// Ranks on each node; the last may hold fewer.
    pub per_node: u32,
    /// The order in which ranks are placed on nodes.
    pub order: Order,
}

/// ` = 2 nodes x 8`, after the number of ranks; nothing on one node.
#[must_use]
pub fn laid(ranks: u32, nodes: u32, per_node: u32) -> String {
    match nodes {
        1 => String::new(),
        _ if ranks.is_multiple_of(per_node) => format!(" = {nodes} nodes x {per_node}"),
        _ => format!(" on {nodes} nodes of at most {per_node}"),
    }
}

impl Placement {
    /// Nodes in use.
    #[must_use]
    pub fn nodes(self) -> u32 {
        self.ranks.div_ceil(self.per_node.max(1))
    }

    /// Ranks on the node with the most, and on the one with the fewest.
    #[must_use]
    pub fn filled(self) -> (u32, u32) {
        self.order.filled(self.ranks, self.per_node)
    }

    /// Whether there is a network between the ranks.
    #[must_use]
    pub fn is_spread(self) -> bool {
        self.nodes() > 1
    }

    /// The node of a rank.
    #[must_use]
    pub fn node_of(self, rank: u32) -> u32 {
        match self.order {
            Order::Block => rank / self.per_node.max(1),
            Order::Cyclic => rank % self.nodes().max(1),
        }
    }

    /// The position of a rank on its node.
    #[must_use]
    pub fn local(self, rank: u32) -> u32 {
        match self.order {
            Order::Block => rank % self.per_node.max(1),
            Order::Cyclic => rank / self.nodes().max(1),
        }
    }

    /// N and the nodes, which identify measurements.
    #[must_use]
    pub fn placed(self) -> Placed {
        Placed { ranks: self.ranks, nodes: self.nodes() }
    }
}

impl Fabric {
    /// The schedule of `algorithm`, its domains where the machine's ranks are. There is none where
    /// ranks are dealt to domains and chunks are named by ranks, as in an all-to-all; and none in which
    /// the root's links are faster.
    #[must_use]
    pub fn schedule(&self, algorithm: &dyn Algorithm, shape: &Shape) -> Option<Box<dyn Schedule>> {
        let schedule = algorithm.schedule(shape).filter(|_| shape.params.root_speedup.is_none())?;
        let mut between = false;
        algorithm.steps(shape, &mut |step| between |= step.level == Level::Outer);
        let Some(group) = shape.group.filter(|_| between && self.order == Order::Cyclic) else {
            return Some(schedule);
        };
        let shared = schedule.frame().layout == Layout::Shared;
        shared.then(|| Box::new(Relabel::dealt(schedule, group)) as Box<dyn Schedule>)
    }
}

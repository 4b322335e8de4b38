//! The placement of a question's ranks: on how many nodes, how many on each, in which order.
//!
//! The question creates it once; everything else reads it.

use crate::machine::curve::Placed;
use crate::machine::fabric::Order;

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

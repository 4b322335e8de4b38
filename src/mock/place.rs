//! Who sits on which node, and which links a pair of ranks uses.

use crate::fabric::Placement;
use crate::query::Query;

/// The node of a rank.
pub(super) fn node_of(query: &Query, rank: u32) -> u32 {
    match query.machine.fabric.placement {
        Placement::Block => rank / query.per_node.max(1),
        Placement::Cyclic => rank % query.nodes().max(1),
    }
}

/// Where on its node a rank sits.
pub(super) fn local(query: &Query, rank: u32) -> u32 {
    match query.machine.fabric.placement {
        Placement::Block => rank % query.per_node.max(1),
        Placement::Cyclic => rank / query.nodes().max(1),
    }
}

/// Whether ranks are on several nodes that a network joins.
pub(super) fn crosses_nodes(query: &Query) -> bool {
    query.nodes() > 1 && query.machine.fabric.tiers.len() > 1
}

//! Racks whose NVLink domain is not used: the hosts of a rack are then nodes of their own, joined by NICs.

use std::num::NonZeroU32;

use crate::machine::query::{Layout, NodesAre, Query};
use crate::measure::logs::{Evidence, Sign};

/// Whether a run's log says that hosts of a rack are nodes of their own, and how.
pub(super) fn said(evidence: &Evidence) -> Option<&'static str> {
    match evidence.variable("NCCL_MNNVL_ENABLE") {
        Some("0") => Some("NCCL_MNNVL_ENABLE=0 is set"),
        _ => evidence.says(Sign::Apart).then_some("the library says MNNVL 0"),
    }
}

/// The same question with the hosts of a rack as nodes; `None` if nodes are no racks, or ranks are on one host.
pub(super) fn apart(query: &Query) -> Option<Query> {
    let hardware = query.machine.hardware.as_ref().filter(|h| h.is_rack())?;
    let ranks = query.shape.ranks;
    let each = match query.nodes_are {
        Some(NodesAre::Racks { hosts }) => ranks.div_ceil(hosts.get()),
        _ => hardware.host(),
    };
    if query.placement.per_node <= each || !ranks.is_multiple_of(each) {
        return None;
    }
    let layout =
        Layout { ranks: NonZeroU32::new(ranks), nodes: None, per_node: NonZeroU32::new(each) };
    let (machine, of) = (query.machine.clone(), query.shape.collective);
    let mut apart = Query::new(machine, of, query.size, layout, query.given).ok()?;
    apart.seen.clone_from(&query.seen);
    Some(apart)
}

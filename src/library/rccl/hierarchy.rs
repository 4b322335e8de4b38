//! All-gathers of 2.30 over eight nodes and more: between the nodes, then inside them, then into order.
//!
//! ```text
//!   between    GPU i of every node gathers the blocks of the GPUs i      a part of the bytes on every NIC
//!   inside     the GPUs of a node gather what each has                   all bytes, over xGMI
//!   shuffle    every GPU puts the blocks into the order of the ranks     a copy in its memory, without a price
//! ```
//!
//! Both gathers choose among what RCCL has for them. Between 8 or 16 nodes a GPU sends to all others up to a size;
//! over it, and between other numbers of nodes, a cost model chooses PAT for any graph whose trees have a tenth of its
//! rings' rate or more, except between 8 nodes above 4 MiB of a NIC, where PAT is not considered. DDA is not run inside.
//!
//! Source: ROCm/rocm-systems, `projects/rccl`: `ncclHierarchicalAllGather_Impl` in `src/collectives.cc`,
//! `rcclUseHierarchicalAllGather` in `src/rccl_wrap.cc`, `updateCollCostTable` in `src/enqueue.cc`.

use super::tuner::PER_NODE;
use crate::base::collective::Collective as C;
use crate::base::quantity::Ratio;
use crate::library::nccl::policy::wire;
use crate::library::{Call, Choice, Part, Runs, Where};
use crate::machine::nccl::Proto;

/// The variable without which they run.
pub(super) const SWITCH: &str = "RCCL_HIERARCHICAL_ALLGATHER=0";

/// What runs between the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Between {
    /// A send and a receive with every other node.
    Direct,
    Pat,
    /// With a protocol that is not known here.
    Ring,
}

/// What runs inside a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Inside {
    Direct,
    Ring(Proto),
}

/// What gathers `bytes` of one GPU of each node, of which up to `direct` are sent to all.
pub(super) fn between(nodes: u32, bytes: u64, direct: u64) -> Between {
    match nodes {
        8 | 16 if bytes <= direct => Between::Direct,
        8 => Between::Ring,
        _ => Between::Pat,
    }
}

pub(super) fn choice(call: &Call, most: u64, between: Between, inside: Inside) -> Choice {
    let (collective, algorithm, word) = match between {
        Between::Direct => (C::AllToAll, "pairwise", "directly"),
        Between::Pat => (C::AllGather, "pat", "by PAT"),
        Between::Ring => (C::AllGather, "ring", "by a ring"),
    };
    let outer = Part {
        moves: Ratio(1.0 / PER_NODE as f64),
        ..Part::new(collective, call.nodes, Where::Leaders, algorithm)
    };
    let (collective, algorithm, wire, last) = match inside {
        Inside::Direct => (C::AllToAll, "pairwise", Ratio(1.0), "directly".to_owned()),
        Inside::Ring(proto) => (C::AllGather, "ring", wire(proto), format!("by Ring/{proto}")),
    };
    let inner = Part { wire, ..Part::new(collective, PER_NODE as u32, Where::InNode, algorithm) };
    let rule = format!(
        "up to {most} B of all ranks on {} nodes: {word} between the nodes, then {last} inside them",
        call.nodes
    );
    let mut notes = vec![
        "without the copy that puts the blocks into order".into(),
        format!("calls in a group run as above {most} B; {SWITCH} switches it off").into(),
    ];
    if between == Between::Ring {
        notes.push("the ring's protocol between the nodes is not known: priced as Simple".into());
    }
    if matches!((between, inside), (Between::Direct, _) | (_, Inside::Direct)) {
        notes.push("sends to all are priced as an all-to-all of the same bytes".into());
    }
    Choice { notes, ..Choice::new("Hier", rule, Runs::Parts(vec![outer, inner])) }
}

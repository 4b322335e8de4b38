//! The names of the MPIR layer, and the algorithms of this crate that price them.

use crate::base::collective::Collective as C;
use crate::library::fold::{Fold, alone};
use crate::library::mpich::IN_TURN;
use crate::library::mpich::rules::Version;
use crate::library::{Call, Flavour, Operation};

/// The name of an operation, as files and variables have it.
#[must_use]
pub fn name(operation: Operation) -> &'static str {
    match (operation.collective, operation.flavour) {
        (C::Broadcast, _) => "bcast",
        (C::AllGather, Flavour::Vector) => "allgatherv",
        (C::AllToAll, Flavour::Vector) => "alltoallv",
        (C::ReduceScatter, Flavour::Block) => "reduce_scatter_block",
        (C::ReduceScatter, _) => "reduce_scatter",
        (other, _) => other.id(),
    }
}

/// An algorithm of the MPIR layer.
pub(crate) struct Named {
    pub collective: C,
    pub name: &'static str,
    /// The algorithm of this crate that prices it.
    pub ours: &'static str,
    /// Whether the operation must be predefined, with an element for each rank of a power of two.
    pub halves: bool,
    /// Whether the operation must commute: MPICH takes another algorithm for one that does not, without a message.
    pub reorders: bool,
}

const fn named(collective: C, name: &'static str, ours: &'static str) -> Named {
    Named { collective, name, ours, halves: false, reorders: false }
}

const fn halving(collective: C, name: &'static str, ours: &'static str) -> Named {
    Named { halves: true, ..named(collective, name, ours) }
}

const fn reordering(collective: C, name: &'static str, ours: &'static str) -> Named {
    Named { reorders: true, ..named(collective, name, ours) }
}

/// The algorithms that every release has, that may be requested for any call, and that the closed forms
/// price.
pub(crate) const NAMES: &[Named] = &[
    named(C::AllReduce, "recursive_doubling", "recursive-doubling"),
    halving(C::AllReduce, "reduce_scatter_allgather", "rabenseifner"),
    named(C::Broadcast, "binomial", "in-order-binomial"),
    named(C::Broadcast, "scatter_recursive_doubling_allgather", "scatter-allgather"),
    named(C::Broadcast, "scatter_ring_allgather", "scatter-ring"),
    named(C::Reduce, "binomial", "in-order-binomial"),
    halving(C::Reduce, "reduce_scatter_gather", "halving-gather"),
    named(C::AllGather, "brucks", "bruck"),
    named(C::AllGather, "recursive_doubling", "recursive-doubling"),
    named(C::AllGather, "ring", "ring"),
    reordering(C::ReduceScatter, "recursive_halving", "recursive-halving"),
    reordering(C::ReduceScatter, "pairwise", "ring"),
    named(C::AllToAll, "brucks", "bruck"),
    named(C::AllToAll, "scattered", "direct"),
    named(C::AllToAll, "pairwise", "pairwise"),
    named(C::Gather, "binomial", "binomial"),
    named(C::Scatter, "binomial", "binomial"),
    named(C::Barrier, "k_dissemination", "dissemination"),
];

/// An algorithm of this crate as a call may request it, with the value of its operation's variable.
///
/// Source: pmodels/mpich v4.0.3, v4.2.3 and v5.0.1, `src/mpi/coll/coll_algorithms.txt` and `cvars.txt`.
pub(super) fn value(
    call: &Call,
    ours: &str,
    version: Version,
) -> Option<(&'static Named, &'static str)> {
    let runs = |k: &&Named| alone(k.collective, call.ranks, k.ours, Fold::Whole) == ours;
    let known = NAMES.iter().find(|k| k.collective == call.collective && runs(k))?;
    let name = match (call.collective, call.flavour, known.name) {
        (C::AllToAll, _, "pairwise") if call.in_place => IN_TURN,
        (C::AllToAll, Flavour::Vector, "brucks" | "pairwise") => return None,
        (C::Barrier, ..) if version == Version::V4_0 => "dissemination",
        (_, _, name) => name,
    };
    Some((known, name))
}

/// The algorithm of a name, also of those that rules pick without a choice.
pub(super) fn ours(collective: C, name: &str) -> Option<&'static str> {
    let found = NAMES.iter().find(|known| (known.collective, known.name) == (collective, name));
    found.map(|known| known.ours).or(match (collective, name) {
        (C::AllReduce, "ring") => Some("ring"),
        (C::AllToAll, IN_TURN) => Some("pairwise"),
        (C::Barrier, "dissemination") => Some("dissemination"),
        _ => None,
    })
}

//! The operations of Open MPI's `coll/tuned`: their numbered algorithms, and what their sizes count.

use super::tables::{self, Table};
use crate::base::collective::Collective::{
    self, AllGather, AllReduce, AllToAll, Barrier, Broadcast,
};
use crate::base::collective::Collective::{Gather, Reduce, ReduceScatter, Scatter};
use crate::base::quantity::Bytes;
use crate::library::fold::{Fold, alone};
use crate::library::{Call, Flavour, Operation};

/// One operation that has rules.
pub(in crate::library) struct Rules {
    pub collective: Collective,
    pub flavour: Flavour,
    /// The name in the library's parameters: `coll_tuned_NAME_algorithm`.
    pub name: &'static str,
    /// What the thresholds count.
    pub counts: Counts,
    /// Algorithms 1, 2 … .
    pub algorithms: &'static [Known],
    pub in_order: Option<Table>,
    pub table: Table,
}

/// What the bytes of a rule count.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::library) enum Counts {
    /// The whole M.
    Whole,
    /// M over N: the part of one rank for one other, or one rank's part.
    Block,
    /// Nothing: only the number of ranks decides.
    Nothing,
}

impl Counts {
    /// The bytes that they are of M.
    pub(in crate::library) fn of(self, size: Bytes, ranks: u32) -> u64 {
        match self {
            Self::Whole => size.0,
            Self::Block => size.0 / u64::from(ranks.max(1)),
            Self::Nothing => 0,
        }
    }

    /// The least M of which they are `bytes`.
    pub(in crate::library) fn size(self, bytes: u64, ranks: u32) -> Option<u64> {
        match self {
            Self::Whole => Some(bytes),
            Self::Block => bytes.checked_mul(ranks.into()),
            Self::Nothing => None,
        }
    }
}

/// An algorithm of the library.
pub(in crate::library) struct Known {
    pub name: &'static str,
    pub ours: Ours,
}

/// The library's algorithm in terms of this crate.
#[derive(Clone, Copy)]
pub(in crate::library) enum Ours {
    /// An algorithm of the registry.
    Is(&'static str),
    /// The same only at powers of two, with the difference.
    Like(&'static str, &'static str),
    /// An algorithm of the registry in which the root sends each rank a message without data first.
    Signalled(&'static str),
    /// A reduce, then this operation, each by its own rule.
    Reduce(Then),
    /// Nothing here prices it, for this reason.
    No(&'static str),
}

/// The second half of an algorithm that begins with a reduce to rank 0.
#[derive(Clone, Copy)]
pub(in crate::library) enum Then {
    Broadcast,
    Scatter,
    /// Scatterv, for which the library has only the linear rule.
    FlatScatter,
}

const fn is(name: &'static str, ours: &'static str) -> Known {
    Known { name, ours: Ours::Is(ours) }
}

const fn no(name: &'static str, why: &'static str) -> Known {
    Known { name, ours: Ours::No(why) }
}

const NO_GATHER_BROADCAST: &str = "no closed form here gathers and then broadcasts";

/// All of them.
pub(in crate::library) static RULES: &[Rules] = &[
    Rules {
        collective: AllReduce,
        flavour: Flavour::Plain,
        name: "allreduce",
        counts: Counts::Whole,
        algorithms: &[
            is("basic_linear", "naive"),
            Known { name: "nonoverlapping", ours: Ours::Reduce(Then::Broadcast) },
            is("recursive_doubling", "recursive-doubling"),
            is("ring", "ring"),
            // It falls back to the ring unless segments are given.
            is("segmented_ring", "ring"),
            is("rabenseifner", "rabenseifner"),
            // Since 6.0.
            no("allgather_reduce", "only 6.0 has it, whose rules are not known here"),
        ],
        in_order: Some(tables::ALLREDUCE_IN_ORDER),
        table: tables::ALLREDUCE,
    },
    Rules {
        collective: AllGather,
        flavour: Flavour::Plain,
        name: "allgather",
        counts: Counts::Block,
        algorithms: &[
            no("linear", NO_GATHER_BROADCAST),
            is("bruck", "bruck"),
            is("recursive_doubling", "recursive-doubling"),
            is("ring", "ring"),
            is("neighbor", "neighbor-exchange"),
            is("two_proc", "recursive-doubling"),
            // Since 5.0, and since 6.0.
            is("sparbit", "sparbit"),
            no("direct", "only 6.0 has it, whose rules are not known here"),
        ],
        in_order: None,
        table: tables::ALLGATHER,
    },
    Rules {
        collective: AllGather,
        flavour: Flavour::Vector,
        name: "allgatherv",
        counts: Counts::Block,
        algorithms: &[
            no("default", NO_GATHER_BROADCAST),
            is("bruck", "bruck"),
            is("ring", "ring"),
            is("neighbor", "neighbor-exchange"),
            is("two_proc", "recursive-doubling"),
            // Since 5.0.
            is("sparbit", "sparbit"),
        ],
        in_order: None,
        table: tables::ALLGATHERV,
    },
    Rules {
        collective: ReduceScatter,
        flavour: Flavour::Plain,
        name: "reduce_scatter",
        counts: Counts::Whole,
        algorithms: &[
            Known { name: "non-overlapping", ours: Ours::Reduce(Then::FlatScatter) },
            is("recursive_halving", "recursive-halving"),
            is("ring", "ring"),
            is("butterfly", "butterfly"),
        ],
        in_order: Some(tables::REDUCE_SCATTER_IN_ORDER),
        table: tables::REDUCE_SCATTER,
    },
    Rules {
        collective: ReduceScatter,
        flavour: Flavour::Block,
        name: "reduce_scatter_block",
        counts: Counts::Block,
        algorithms: &[
            Known { name: "basic_linear", ours: Ours::Reduce(Then::Scatter) },
            no("recursive_doubling", "no closed form here doubles in a reduce-scatter"),
            is("recursive_halving", "recursive-halving"),
            is("butterfly", "butterfly-mirrored"),
        ],
        in_order: Some(tables::REDUCE_SCATTER_BLOCK_IN_ORDER),
        table: tables::REDUCE_SCATTER_BLOCK,
    },
    Rules {
        collective: AllToAll,
        flavour: Flavour::Plain,
        name: "alltoall",
        counts: Counts::Block,
        algorithms: &[
            is("linear", "direct"),
            is("pairwise", "pairwise"),
            is("modified_bruck", "bruck"),
            // Without a limit of requests, which is the default, all requests are posted at once.
            is("linear_sync", "direct"),
            is("two_proc", "direct"),
        ],
        in_order: None,
        table: tables::ALLTOALL,
    },
    Rules {
        collective: AllToAll,
        flavour: Flavour::Vector,
        name: "alltoallv",
        counts: Counts::Nothing,
        algorithms: &[is("basic_linear", "direct"), is("pairwise", "pairwise")],
        in_order: None,
        table: tables::ALLTOALLV,
    },
    Rules {
        collective: Broadcast,
        flavour: Flavour::Plain,
        name: "bcast",
        counts: Counts::Whole,
        algorithms: &[
            is("basic_linear", "flat"),
            // The rules give a fan-out of 0, which the library changes to 1.
            is("chain", "chain"),
            is("pipeline", "chain"),
            no("split_binary_tree", "no closed form here sends halves down two subtrees"),
            is("binary_tree", "binary-tree"),
            is("binomial", "binomial"),
            is("knomial", "in-order-knomial"),
            is("scatter_allgather", "scatter-allgather"),
            is("scatter_allgather_ring", "scatter-ring"),
        ],
        in_order: None,
        table: tables::BCAST,
    },
    Rules {
        collective: Reduce,
        flavour: Flavour::Plain,
        name: "reduce",
        counts: Counts::Whole,
        algorithms: &[
            is("linear", "flat"),
            is("chain", "chain"),
            is("pipeline", "chain"),
            is("binary", "binary-tree"),
            is("binomial", "in-order-binomial"),
            is("in-order_binary", "in-order-halved-tree"),
            is("rabenseifner", "halving-gather"),
            // Since 6.0.
            no("knomial", "only 6.0 has it, whose rules are not known here"),
        ],
        in_order: Some(tables::REDUCE_IN_ORDER),
        table: tables::REDUCE,
    },
    Rules {
        collective: Scatter,
        flavour: Flavour::Plain,
        name: "scatter",
        counts: Counts::Block,
        algorithms: &[
            is("basic_linear", "flat"),
            is("binomial", "binomial"),
            is("linear_nb", "flat"),
        ],
        in_order: None,
        table: tables::SCATTER,
    },
    Rules {
        collective: Gather,
        flavour: Flavour::Plain,
        name: "gather",
        counts: Counts::Block,
        algorithms: &[
            is("basic_linear", "flat"),
            is("binomial", "binomial"),
            Known { name: "linear_sync", ours: Ours::Signalled("flat") },
        ],
        in_order: None,
        table: tables::GATHER,
    },
    Rules {
        collective: Barrier,
        flavour: Flavour::Plain,
        name: "barrier",
        counts: Counts::Nothing,
        algorithms: &[
            is("linear", "all-to-one"),
            no("double_ring", "no closed form here passes a ring twice"),
            Known {
                name: "recursive_doubling",
                ours: Ours::Like(
                    "dissemination",
                    "recursive doubling has the same rounds as a dissemination",
                ),
            },
            is("bruck", "dissemination"),
            is("two_proc", "dissemination"),
            no("tree", "no closed form here gathers and releases by a tree"),
        ],
        in_order: None,
        table: tables::BARRIER,
    },
];

/// Whether 6.0 takes the fan-out of a rule as the radix of an algorithm.
///
/// Source: open-mpi/ompi v6.0.x, `coll_tuned_allgather_decision.c` and `coll_tuned_reduce_decision.c`.
pub(in crate::library) fn takes_radix(operation: &str, algorithm: &str) -> bool {
    matches!((operation, algorithm), ("allgather", "bruck") | ("reduce", "knomial"))
}

/// Why an algorithm that [`Rules::reorders`] is not for an operation that does not commute.
pub(in crate::library) const WRONG: &str = "wrong results for a non-commutative operation";

/// Whether an algorithm combines operands out of the order of the ranks, without asking whether the operation
/// commutes: the fixed decisions never choose it for one that does not, but options and rules do. Rabenseifner's and
/// the halving of equal blocks ask, and fall back.
///
/// Source: open-mpi/ompi v3.1.6 to v6.0.x, "Limitations" in `ompi/mca/coll/base/coll_base_allreduce.c` and
/// `coll_base_reduce_scatter.c`; "only linear and in-order binary tree algorithms are capable of non commutative ops"
/// in `coll_tuned_decision_fixed.c` (reduce); the order of `ompi_op_reduce` in what came with 6.0.
fn reorders(operation: &str, algorithm: &str) -> bool {
    match operation {
        "allreduce" => matches!(algorithm, "ring" | "segmented_ring" | "allgather_reduce"),
        "reduce" => !matches!(algorithm, "linear" | "in-order_binary" | "rabenseifner"),
        "reduce_scatter" => matches!(algorithm, "recursive_halving" | "ring"),
        _ => false,
    }
}

impl Rules {
    /// Whether the algorithm of this number gives wrong results if the operation does not commute.
    pub(in crate::library) fn reorders(&self, id: u32) -> bool {
        self.algorithm(id).is_some_and(|known| reorders(self.name, known.name))
    }

    /// The rules of an operation.
    pub(in crate::library) fn of(operation: Operation) -> Option<&'static Self> {
        let is = |r: &&Self| (r.collective, r.flavour) == (operation.collective, operation.flavour);
        RULES.iter().find(is)
    }

    /// The algorithm with this number.
    pub(in crate::library) fn algorithm(&self, id: u32) -> Option<&'static Known> {
        self.algorithms.get(usize::try_from(id).ok()?.checked_sub(1)?)
    }

    /// The number of the first algorithm that is `ours`, and runs over this many ranks.
    pub(in crate::library) fn number_of(&self, ours: &str, ranks: u32) -> Option<u32> {
        // A chain of the library's has a fan-out, and a pipeline is the one with 1.
        let fits = |k: &Known| k.name != "chain" && (k.name != "two_proc" || ranks == 2);
        let runs = |id| alone(self.collective, ranks, id, Fold::Halves);
        let same = |k: &Known| fits(k) && matches!(k.ours, Ours::Is(id) if runs(id) == ours);
        self.algorithms.iter().position(same).and_then(|i| u32::try_from(i + 1).ok())
    }

    /// The number that its thresholds compare for a call, in bytes.
    pub(in crate::library) fn bytes(&self, call: &Call) -> u64 {
        self.counts.of(call.size, call.ranks)
    }

    /// The least M for which a threshold compares `bytes`.
    pub(in crate::library) fn size(&self, bytes: u64, ranks: u32) -> Option<u64> {
        self.counts.size(bytes, ranks)
    }

    /// What the number of bytes counts, as words after the number.
    pub(in crate::library) fn counted(&self) -> &'static str {
        match (self.counts, self.collective) {
            (Counts::Whole, _) => "of the vector",
            (Counts::Block, AllToAll) => "for each peer",
            (Counts::Block | Counts::Nothing, _) => "of each rank",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{RULES, WRONG};
    use crate::base::collective::Collective as C;
    use crate::base::quantity::Bytes;
    use crate::library::{Call, Site, policy};

    /// Forced one by one in Open MPI 4.1.4 with a composition of affine maps, over 5 and 8 ranks and with both ends as the
    /// root: exactly these of its own gave wrong results.
    #[test]
    fn what_reorders_is_what_gave_wrong_results() {
        let wrong: Vec<(&str, Vec<u32>)> = RULES
            .iter()
            .map(|rules| (rules.name, (1..=8).filter(|&id| rules.reorders(id)).collect::<Vec<_>>()))
            .filter(|(_, ids)| !ids.is_empty())
            .collect();
        // The seventh of an all-reduce and the eighth of a reduce came with 6.0, and are so by its source.
        let seen: [(&str, &[u32]); 3] =
            [("allreduce", &[4, 5, 7]), ("reduce_scatter", &[2, 3]), ("reduce", &[2, 3, 4, 5, 8])];
        let wrong: Vec<(&str, &[u32])> = wrong.iter().map(|(n, ids)| (*n, &ids[..])).collect();
        assert_eq!(wrong, seen);
    }

    #[test]
    fn what_reorders_is_not_forced_on_an_operation_that_does_not_commute() {
        for release in ["openmpi@3", "openmpi@4.0", "openmpi@4.1", "openmpi@5.0"] {
            let policy = policy(release, &Site::default()).unwrap();
            for (collective, algorithm) in [
                (C::ReduceScatter, "recursive-halving"),
                (C::ReduceScatter, "ring"),
                (C::Reduce, "in-order-binomial"),
                (C::AllReduce, "ring"),
            ] {
                let call = Call::new(collective, 8, Bytes(64 << 10));
                assert!(policy.force(&call, algorithm).is_ok(), "{release} {algorithm}");
                let call = Call { commutative: false, builtin_op: false, ..call };
                let why = policy.force(&call, algorithm).unwrap_err().to_string();
                assert_eq!(why, WRONG, "{release} {algorithm}");
            }
            let call = Call { commutative: false, ..Call::new(C::Reduce, 8, Bytes(64 << 10)) };
            assert!(policy.force(&call, "flat").is_ok(), "{release}");
        }
    }
}

//! What libraries run if a halving algorithm gets a number of ranks that is not a power of two.
//!
//! ```text
//!   N = 6, p = 4      whole     1 ─► 0   3 ─► 2      the vector, added by who gets it
//!                     halves    1 ◄─► 0  3 ◄─► 2     a half each way, each adds its own;
//!                               1 ─► 0   3 ─► 2      then the half that is missing
//!   then p ranks      0   2   4   5                  halve and go on as a power of two
//! ```
//!
//! Both reduce N to p = 2^⌊lg N⌋ ranks before anything is halved. MPICH folds whole vectors. Open MPI
//! folds halves in its all-reduce and reduce, and whole vectors in its reduce-scatter. There the
//! remaining ranks have the blocks of two ranks or of one, and the halves are uneven: no closed form
//! here describes that.
//!
//! Source: pmodels/mpich v4.0.2 and v5.0.1, `src/mpi/coll/{allreduce,reduce,reduce_scatter}/`;
//! open-mpi/ompi v4.1.6, `ompi/mca/coll/base/coll_base_{allreduce,reduce,reduce_scatter}.c`.

use super::{Part, Where};
use crate::base::collective::Collective as C;

/// How the ranks beyond a power of two pass on their data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fold {
    /// In one message, as in MPICH.
    Whole,
    /// Both ranks of a pair add a half first, as in Open MPI.
    Halves,
}

/// The parts of the algorithm `ours` over `ranks` ranks, or why nothing prices it.
pub(super) fn folded(
    collective: C,
    ranks: u32,
    place: Where,
    ours: &'static str,
    fold: Fold,
) -> Result<Vec<Part>, &'static str> {
    let part = |collective, ranks, ours| Part::new(collective, ranks, place, ours);
    if ranks.is_power_of_two() {
        return Ok(vec![part(collective, ranks, ours)]);
    }
    match (collective, ours, fold) {
        (C::ReduceScatter, "recursive-halving", _) => Err(
            "with ranks that are not a power of two it first sends whole vectors and then halves \
             unevenly: no closed form here describes that",
        ),
        (C::Reduce, "reduce-scatter-gather", _) => {
            let among = |part: Part| Part { of: Some(ranks), ..part };
            let mut parts = match fold {
                Fold::Whole => vec![part(C::Reduce, 2, "binomial")],
                Fold::Halves => vec![
                    part(C::ReduceScatter, 2, "recursive-halving"),
                    part(C::Gather, 2, "binomial"),
                ],
            };
            parts.push(part(collective, 1 << ranks.ilog2(), ours));
            Ok(parts.into_iter().map(among).collect())
        }
        (C::AllReduce, "rabenseifner", Fold::Halves) => {
            Ok(vec![part(collective, ranks, "rabenseifner-half-fold")])
        }
        _ => Ok(vec![part(collective, ranks, ours)]),
    }
}

/// A lower bound for a reduce-scatter that halves over ranks that are not a power of two: the fold,
/// and even halves among the remaining ranks. The real halves are no smaller.
pub(super) fn at_least(collective: C, ranks: u32, place: Where, ours: &'static str) -> Vec<Part> {
    let halves = (collective, ours) == (C::ReduceScatter, "recursive-halving");
    if !halves || ranks.is_power_of_two() {
        return Vec::new();
    }
    let among = |collective, left, ours| Part {
        of: Some(ranks),
        ..Part::new(collective, left, place, ours)
    };
    vec![among(C::Reduce, 2, "binomial"), among(collective, 1 << ranks.ilog2(), ours)]
}

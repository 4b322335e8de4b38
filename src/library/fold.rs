//! What libraries run if a halving or doubling algorithm gets a number of ranks that is not a power of two.
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
//! remaining ranks have the blocks of two ranks or of one, so that the halves are uneven, as in
//! `recursive-halving-fold`. At the end each pair parts with a block.
//!
//! Source: pmodels/mpich v4.0.2 and v5.0.1, `src/mpi/coll/{allreduce,reduce,reduce_scatter}/`;
//! open-mpi/ompi v4.1.6, `ompi/mca/coll/base/coll_base_{allreduce,reduce,reduce_scatter}.c`.

use super::{Part, Where};
use crate::base::collective::Collective as C;
use crate::base::quantity::Ratio;
use crate::model::algorithm::halves;

/// How the ranks beyond a power of two pass on their data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fold {
    /// In one message, as in MPICH.
    Whole,
    /// Both ranks of a pair add a half first, as in Open MPI.
    Halves,
}

/// The parts of the algorithm `ours` over `ranks` ranks.
pub(super) fn folded(
    collective: C,
    ranks: u32,
    place: Where,
    ours: &'static str,
    fold: Fold,
) -> Vec<Part> {
    let part = |collective, ranks, ours| Part::new(collective, ranks, place, ours);
    let pair = |collective, ours| Part { is_pair: true, ..part(collective, 2, ours) };
    if ranks.is_power_of_two() {
        return vec![part(collective, ranks, ours)];
    }
    match (collective, ours, fold) {
        (C::ReduceScatter, "butterfly" | "butterfly-mirrored", _) => {
            // Of uneven blocks one has to move in the end.
            let ours = if ours == "butterfly-mirrored" { "butterfly" } else { ours };
            let (power, all) = (1_u32 << ranks.ilog2(), f64::from(ranks));
            let blocks = halves(ranks) as f64;
            let even = f64::from(power - 1) / f64::from(power);
            let among = |part: Part, moves| Part { of: Some(ranks), moves: Ratio(moves), ..part };
            vec![
                among(pair(C::Reduce, "binomial"), 1.0),
                among(part(collective, power, ours), blocks / all / even),
                among(pair(C::Broadcast, "binomial"), 1.0 / all),
            ]
        }
        _ => vec![part(collective, ranks, alone(collective, ranks, ours, fold))],
    }
}

/// The algorithm over `ranks` ranks where no fold makes parts of `ours`.
pub(super) fn alone(collective: C, ranks: u32, ours: &'static str, fold: Fold) -> &'static str {
    match (collective, ours, fold) {
        _ if ranks.is_power_of_two() => ours,
        (C::AllReduce, "rabenseifner", Fold::Halves) => "rabenseifner-half-fold",
        (C::Reduce, "halving-gather", Fold::Halves) => "halving-gather-half-fold",
        (C::ReduceScatter, "recursive-halving", _) => "recursive-halving-fold",
        (C::Broadcast, "scatter-allgather", _) => "scatter-doubling",
        _ => ours,
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;
    use crate::base::quantity::{Bandwidth, Bytes, Seconds};
    use crate::library::{Choice, Runs, priced};
    use crate::machine::fabric::{Fabric, Order, Tier};
    use crate::model::algorithm::Registry;
    use crate::model::formula::Shape;

    /// Ranks that are left of nodes that they filled are still on them, and pairs are neighbours.
    #[test]
    fn what_is_left_of_a_fold_is_on_all_nodes() {
        let tier = |span, alpha, rate| Tier {
            span: NonZeroU32::new(span),
            ..Tier::new("link", Seconds(alpha), Bandwidth(rate))
        };
        let time = |span, order| {
            let tiers = vec![tier(span, 1e-6, 1e10), tier(0, 10e-6, 1e9)];
            let fabric = Fabric { order, ..Fabric::new(tiers) };
            let parts = folded(C::ReduceScatter, 6, Where::All, "recursive-halving", Fold::Halves);
            let choice = Choice::new("", "", Runs::Parts(parts));
            let shape = Shape::new(C::ReduceScatter, 6);
            let found = priced(&Registry::builtin(), &choice, &shape, &fabric, Bytes(6_000));
            found.unwrap().time().unwrap().0 * 1e6
        };
        // Pairs inside 1 + 0.6 and 1 + 0.1; blocks of 4 between nodes 10 + 4, of 2 inside 1 + 0.2.
        assert!((time(4, Order::Block) - 17.9).abs() < 1e-6, "{}", time(4, Order::Block));
        // The second pair is on two nodes of three ranks: 10 + 6 and 10 + 1; so are 1 and 4, then 1 and 3.
        assert!((time(3, Order::Block) - 53.0).abs() < 1e-6, "{}", time(3, Order::Block));
        // Dealt in turn neighbours are on two nodes, and so are ranks 1 and 4, then 4 and 5: 4 blocks, and up to 2.
        assert!((time(4, Order::Cyclic) - 53.0).abs() < 1e-6, "{}", time(4, Order::Cyclic));
    }

    /// A scatter that skips ranks without an element has as many messages as elements, but for the root's own.
    #[test]
    fn ranks_without_an_element_take_no_part() {
        let flat = Part::new(C::Scatter, 100, Where::All, "flat");
        let part = Part { least: Some(Bytes(4)), ..flat };
        let choice = Choice::new("", "", Runs::Parts(vec![part]));
        let fabric = Fabric::new(vec![Tier::new("link", Seconds(1e-6), Bandwidth(1e9))]);
        let time = |size| {
            let shape = Shape::new(C::Scatter, 100);
            let found = priced(&Registry::builtin(), &choice, &shape, &fabric, Bytes(size));
            found.unwrap().time().unwrap().0 * 1e6
        };
        assert_eq!(time(4), 0.0);
        assert!((time(12) - 2.0 * 1.004).abs() < 1e-9, "{}", time(12));
        assert!((time(4000) - 99.0 * 1.04).abs() < 1e-9, "{}", time(4000));
    }

    /// Six ranks: two pairs fold the vector, four ranks halve 4 and 2 of 6 blocks, pairs part with one.
    #[test]
    fn a_reduce_scatter_of_six_folds_halves_and_parts() {
        let fabric = Fabric::flat(Seconds(1e-6), Bandwidth(1e9));
        let shape = Shape::new(C::ReduceScatter, 6);
        let time = |ours, size| {
            let parts = folded(C::ReduceScatter, 6, Where::All, ours, Fold::Halves);
            let choice = Choice::new(ours, "", Runs::Parts(parts));
            let size = Bytes(size);
            priced(&Registry::builtin(), &choice, &shape, &fabric, size).unwrap().time().unwrap()
        };
        let near = |time: Seconds, us: f64| assert!((time.0 * 1e6 - us).abs() < 1e-6, "{time}");
        near(time("recursive-halving", 6_000), 4.0 + 6.0 + 6.0 + 1.0);
        // The butterfly puts its blocks in their places, too.
        near(time("butterfly", 6_000), 5.0 + 6.0 + 8.0 + 1.0);
    }
}

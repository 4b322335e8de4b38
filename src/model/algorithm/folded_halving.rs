//! Reduce-scatter by recursive halving, where the number of ranks is not a power of two.
//!
//! ```text
//!   N = 6, p = 4      0 ─► 1   2 ─► 3        whole vectors; then 1 3 4 5 go on as 0 1 2 3
//!                     1 ◄─► 4   3 ◄─► 5      4 blocks one way, 2 the other
//!                     1 ◄─► 3   4 ◄─► 5      2 blocks, or 1
//!                     0 ◄─ 1   2 ◄─ 3        the block of the other
//! ```
//!
//! Of r = N − p pairs each goes on as one rank with two blocks, the others have one, so that halves are uneven:
//! over a distance h the larger has h + min(r, h) blocks. With its fold and the last block it takes
//! (⌊lg N⌋ + 2)·α + (1 + Σ (h + min(r, h))/N + 1/N)·M/BW, h = 1, 2 … p/2. On one half-duplex port an exchange takes
//! two turns, the fold and the last block take one each.
//!
//! It is exact with a barrier after every round: ranks that did not fold run ahead of those that did.
//!
//! Source: Thakur, Rabenseifner, Gropp, IJHPCA 19(1) 2005; pmodels/mpich v4.2.3,
//! `src/mpi/coll/reduce_scatter/reduce_scatter_intra_recursive_halving.c`; open-mpi/ompi v4.1.6,
//! `ompi/mca/coll/base/coll_base_reduce_scatter.c`.

use super::rabenseifner::no_power_of_two;
use super::recursive_doubling::behind_fold;
use super::rounds::{exchange_turns, repeat};
use super::{Algorithm, ClosedForm, Guarantee, Library, Meta, Reason, Route, Share, Step};
use crate::base::collective::Collective::ReduceScatter;
use crate::model::formula::{At, Cost, Field, Function, Named, Ports, Shape, floor_lg};
use crate::model::schedule::combine::surplus;
use crate::model::schedule::{Endpoint, Frame, Op, Run, Schedule, Sends};

/// The algorithm.
pub static FAMILY: &[&dyn Algorithm] = &[&FoldedHalving];

struct FoldedHalving;

impl ClosedForm for FoldedHalving {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "recursive-halving-fold",
            title: "recursive halving (fold)",
            collectives: &[ReduceScatter],
            aliases: &["recursive_halving_fold"],
            known_as: &[
                (Library::OpenMpi, &[ReduceScatter], "2 recursive_halving"),
                (Library::Mpich, &[ReduceScatter], "recursive_halving"),
            ],
            summary: "surplus ranks send all to a neighbour, which halves for both",
            source: "Thakur, Rabenseifner, Gropp, IJHPCA 19(1) 2005",
        }
    }

    fn applies(&self, shape: &Shape) -> Result<(), Reason> {
        no_power_of_two(shape, "no rank needs folding", "recursive-halving")
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let turns = F::int(exchange_turns(&v.shape).into());
        let blocks = F::call(Function::Named(&HALVES), &[&v.n], halves(v.shape.ranks));
        let halves = blocks / v.n.clone();
        let last = F::int(1) / v.n.clone();
        let messages = turns.clone() * v.floor_lg() + F::int(2);
        Cost::new(messages, turns * halves.clone() + F::int(1) + last).reducing(halves + F::int(1))
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        match shape.ports {
            Ports::ONE => Guarantee::EqualInRounds,
            _ => Guarantee::UpperBound,
        }
    }

    /// A rank that folds sends its vector; no other sends as much.
    fn sent<F: Field>(&self, _: &At<F>) -> F {
        F::int(1)
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        emit(Step::new(1_u32, Share::ALL, Route::Xor(1)).one_way().reducing());
        for h in distances(shape.ranks) {
            let share = Share::new(blocks(shape.ranks, h), shape.ranks);
            let step = Step::new(1_u32, share, behind_fold(shape, h, 1));
            repeat(step.reducing(), exchange_turns(shape), emit);
        }
        emit(Step::new(1_u32, Share::new(1_u32, shape.ranks), Route::Xor(1)).one_way());
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        Some(Box::new(Play { ranks: shape.ranks }))
    }
}

static HALVES: Named = Named {
    name: "H",
    means: "H(N) = Σ h + min(N − p, h) for h = 1, 2, 4 … p/2, p = 2^⌊lg N⌋: the blocks of the larger halves",
    rule: |n| halves(u32::try_from(n[0]).unwrap_or(u32::MAX)),
};

/// The blocks of the larger halves over all distances.
pub(crate) fn halves(ranks: u32) -> u64 {
    distances(ranks).map(|h| u64::from(blocks(ranks, h))).sum()
}

/// The distances among the ranks that remain, farthest first.
fn distances(ranks: u32) -> impl Iterator<Item = u32> {
    (0..floor_lg(ranks)).rev().map(|k| 1 << k)
}

/// The blocks of the larger half over a distance.
fn blocks(ranks: u32, distance: u32) -> u32 {
    distance + distance.min(surplus(ranks))
}

#[derive(Debug, Clone, Copy)]
struct Play {
    ranks: u32,
}

impl Play {
    /// The first block of a rank that remains.
    fn start(self, member: u32) -> u32 {
        member + member.min(surplus(self.ranks))
    }
}

impl Schedule for Play {
    fn frame(&self) -> Frame {
        let rounds = u64::from(floor_lg(self.ranks)) + 2 * u64::from(surplus(self.ranks) > 0);
        Frame::new(ReduceScatter, self.ranks, self.ranks, rounds)
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        let pairs = surplus(self.ranks);
        let is_paired = rank / 2 < pairs;
        let folds = is_paired && rank.is_multiple_of(2);
        let Some(halving) = round.checked_sub(u64::from(pairs > 0)) else {
            if folds {
                let all = Run { start: 0, len: self.ranks };
                out.push(Endpoint::Rank(rank + 1), Op::Reduce, [all]);
            }
            return;
        };
        if folds {
            return;
        }
        // Below 32.
        let Some(k) = floor_lg(self.ranks).checked_sub(halving as u32 + 1) else {
            if is_paired {
                out.push(Endpoint::Rank(rank - 1), Op::Copy, [Run::one(rank - 1)]);
            }
            return;
        };
        let member = if is_paired { rank / 2 } else { rank - pairs };
        let distance = 1_u32 << k;
        let partner = member ^ distance;
        let first = partner & !(distance - 1);
        let (start, end) = (self.start(first), self.start(first + distance));
        let to = if partner < pairs { 2 * partner + 1 } else { partner + pairs };
        out.push(Endpoint::Rank(to), Op::Reduce, [Run { start, len: end - start }]);
    }
}

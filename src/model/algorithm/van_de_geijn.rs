//! Broadcast by scatter and all-gather, reduce by reduce-scatter and gather, for large vectors.
//!
//! ```text
//!   scatter      0 ─► 4        then   0 ─► 2   4 ─► 6     the block halves with every round
//!   all-gather   a ring, N − 1 steps of M/N, or ⌈lg N⌉ rounds
//!
//!   the reduce is the mirror image: reversed Bruck, then a binomial gather
//! ```
//!
//! With a ring it takes (⌈lg N⌉ + N − 1)·α + 2(N − 1)/N·M/BW at any N; with a logarithmic
//! all-gather (recursive doubling at N = 2^m, Bruck's otherwise) 2⌈lg N⌉·α + 2(N − 1)/N·M/BW, and
//! so does the reduce. On one full-duplex port the ring broadcast and the reduce are exact; the
//! logarithmic broadcast is exact at N = 2^m. Elsewhere it is exact round by round and given as an
//! upper bound. Without barriers a rank may start the second phase early, which may also delay a
//! message that others wait for (×1.5 in a simulation at N = 48; further ports do not prevent it).
//! Libraries run `scatter-doubling` and `halving-gather` instead, the former where N is no power of
//! two. One half-duplex port takes at most ×3 in the phase in which all ranks send; scatter and gather
//! take no longer. (Chan, Heimlich, Purkayastha, van de Geijn, CCPE 19(13) 2007.)

use super::bruck::gather_rounds;
use super::rounds::{repeat, shift_turns};
use super::{Algorithm, ClosedForm, Guarantee, Library, Meta, Route, Share, Step};
use crate::base::collective::Collective::{AllGather, Broadcast, Gather, Reduce, Scatter};
use crate::model::formula::{At, Cost, Field, Shape, ceil_lg};
use crate::model::schedule::combine::{Then, reverse};
use crate::model::schedule::digits::{Order, Shares};
use crate::model::schedule::{Endpoint, Frame, Op, Run, Schedule, Sends, binomial, bruck, modulo};

/// The two-phase broadcasts and the reduce.
pub static FAMILY: &[&dyn Algorithm] = &[&ScatterRing, &ScatterLog, &ScatterGather];

const SOURCE: &str = "Chan, Heimlich, Purkayastha, van de Geijn, CCPE 19(13) 2007";

/// The tree's messages and (N − 1)/N, then `messages` and (N − 1)/N again, `turns` times.
fn two_phases<F: Field>(v: &At<F>, messages: F) -> Cost<F> {
    let turns = shift_turns(&v.shape);
    let beta = F::int((1 + turns).into()) * v.others() / v.n.clone();
    Cost::new(v.ceil_lg() + F::int(turns.into()) * messages, beta)
}

/// The rounds of a binomial scatter, largest blocks first.
pub(super) fn scatter(n: u32) -> impl DoubleEndedIterator<Item = Step> {
    (0..ceil_lg(n)).rev().map(move |k| {
        let w = 1 << k;
        Step::new(1_u32, Share::new(w.min(n - w), n), Route::halves(w))
    })
}

/// Scatter, then a ring.
struct ScatterRing;

impl ClosedForm for ScatterRing {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "scatter-ring",
            title: "scatter + ring all-gather",
            collectives: &[Broadcast],
            aliases: &["scatter_allgather_bcast_ring", "scatter-ring-allgather"],
            known_as: &[
                (Library::OpenMpi, &[Broadcast], "9 scatter_allgather_ring"),
                (Library::Mpich, &[Broadcast], "scatter_ring_allgather"),
            ],
            summary: "the root scatters the vector down a tree, then a ring gathers it everywhere",
            source: SOURCE,
        }
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        two_phases(v, v.others())
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        Guarantee::on_one_port(shape)
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        F::int(2) * v.others_share()
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let n = shape.ranks;
        scatter(n).for_each(&mut *emit);
        let ring = Step::new(n - 1, Share::new(1_u32, n), Route::Offset(1));
        repeat(ring, shift_turns(shape), emit);
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        let scatter = binomial::Halving::new(Scatter, shape.ranks);
        Some(Box::new(Then::new(Broadcast, scatter, Ring { ranks: shape.ranks })))
    }
}

/// A ring all-gather in which rank i starts with chunk i: in round t it sends chunk i − t.
struct Ring {
    ranks: u32,
}

impl Schedule for Ring {
    fn frame(&self) -> Frame {
        let rounds = u64::from(self.ranks).saturating_sub(1);
        Frame::new(AllGather, self.ranks, self.ranks, rounds).turning()
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        let on = |by: u64| modulo(u64::from(rank) + by, self.ranks);
        let chunk = on(u64::from(self.ranks) - round);
        out.push(Endpoint::Rank(on(1)), Op::Copy, [Run::one(chunk)]);
    }
}

/// Scatter, then recursive doubling or Bruck's all-gather.
struct ScatterLog;

impl ClosedForm for ScatterLog {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "scatter-allgather",
            title: "scatter + logarithmic all-gather",
            collectives: &[Broadcast],
            aliases: &["scatter_allgather_bcast", "scatter_allgather_bcast_log", "van-de-geijn"],
            known_as: &[
                (Library::OpenMpi, &[Broadcast], "8 scatter_allgather"),
                (Library::Mpich, &[Broadcast], "scatter_recursive_doubling_allgather"),
            ],
            summary: "the root scatters the vector down a tree, then ⌈lg N⌉ rounds gather it everywhere",
            source: SOURCE,
        }
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        if shift_turns(&v.shape) == 1 {
            let beta = F::int(2) * v.others() / v.n.clone();
            return Cost::new(F::int(2) * v.ceil_lg(), beta);
        }
        two_phases(v, v.ceil_lg())
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        if shape.is_power_of_two() { Guarantee::on_one_port(shape) } else { Guarantee::UpperBound }
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        F::int(2) * v.others_share()
    }

    /// Elsewhere libraries have `scatter-doubling`.
    fn is_withheld(&self, _: Library, shape: &Shape) -> bool {
        !shape.is_power_of_two()
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        scatter(shape.ranks).for_each(&mut *emit);
        for step in gather_rounds(shape.ranks) {
            let route = match step.route {
                Route::Offset(d) if shape.is_power_of_two() => Route::Xor(d),
                route => route,
            };
            repeat(Step { route, ..step }, shift_turns(shape), emit);
        }
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        let scatter = binomial::Halving::new(Scatter, shape.ranks);
        if shape.is_power_of_two() {
            let doubling = Shares::new(AllGather, shape.ranks, 2, Order::Far);
            return Some(Box::new(Then::new(Broadcast, scatter, doubling)));
        }
        Some(Box::new(Then::new(Broadcast, scatter, bruck::Gather::new(shape.ranks))))
    }
}

/// Reduce-scatter, then gather.
struct ScatterGather;

impl ClosedForm for ScatterGather {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "reduce-scatter-gather",
            title: "reduce-scatter + gather",
            collectives: &[Reduce],
            aliases: &["rs-gather", "rs_gather_reduce", "reduce_scatter_gather"],
            known_as: &[],
            summary: "every rank reduces its chunk, then a tree gathers the chunks at the root",
            source: "Thakur, Rabenseifner, Gropp, IJHPCA 19(1) 2005",
        }
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        ScatterLog.cost(v).reducing(v.others_share())
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        Guarantee::on_one_port(shape)
    }

    /// All ranks scatter alike; then rank 2^(⌈lg N⌉−1), or the one half way to it, sends the most.
    fn sent<F: Field>(&self, v: &At<F>) -> F {
        let n = v.shape.ranks;
        let half = 1 << (ceil_lg(n) - 1);
        let behind = (n - half).max(half / 2);
        (v.others() + F::int(behind.into())) / v.n.clone()
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        for step in gather_rounds(shape.ranks).into_iter().rev() {
            repeat(step.reducing(), shift_turns(shape), emit);
        }
        scatter(shape.ranks).rev().for_each(&mut *emit);
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        let scatter = reverse(bruck::Gather::new(shape.ranks));
        let gather = binomial::Halving::new(Gather, shape.ranks);
        Some(Box::new(Then::new(Reduce, scatter, gather)))
    }
}

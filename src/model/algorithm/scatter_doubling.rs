//! Broadcast by scatter and recursive doubling, as MPI libraries run it where N is no power of two.
//!
//! ```text
//!   N = 6      scatter     0 ─[4 5]► 4                          a binomial tree
//!                          0 ─[2 3]► 2
//!                          0 ─[1]──► 1   2 ─[3]► 3   4 ─[5]► 5
//!              over 1      0 ◄─► 1   2 ◄─► 3   4 ◄─► 5          partner: rank xor 2^k
//!              over 2      0 ◄─► 2   1 ◄─► 3                    4 and 5 have no partner
//!              over 4      0 ◄─► 4   1 ◄─► 5
//!              pass on     0 ─[4 5]► 2   1 ─[4 5]► 3            2 and 3 had none
//! ```
//!
//! In exchange k the first block sends 2^k chunks, however few ranks the last one has. Where that
//! one has only r = N mod 2^k ranks, just r of the block before it have partners. They pass on its
//! r chunks to the others of their block: over 2^(k−1), 2^(k−2) …, until all have them, k − ⌊lg r⌋
//! times. Of N ranks this happens for each bit 2^k of N but the lowest.
//!
//! With barriers it takes 2⌈lg N⌉ + passes(N) messages and (N − 1 + V − 1 + passed(N))/N of M, where
//! V = 2^⌈lg N⌉. Without them the ranks of a shorter last block are ready early, which may hide what
//! they pass on (a 17th of the time for 7 ranks; Thakur, Rabenseifner, Gropp, IJHPCA 19(1) 2005). At N = 2^m nothing is passed on: that is
//! `scatter-allgather`. On one half-duplex port an exchange takes two turns.
//!
//! Source: open-mpi/ompi v4.1.6, `ompi/mca/coll/base/coll_base_bcast.c`,
//! `ompi_coll_base_bcast_intra_scatter_allgather`; pmodels/mpich v4.2.3,
//! `src/mpi/coll/bcast/bcast_intra_scatter_recursive_doubling_allgather.c`.

use super::rabenseifner::{no_power_of_two, padded};
use super::rounds::{exchange_turns, repeat};
use super::van_de_geijn::scatter;
use super::{Algorithm, ClosedForm, Guarantee, Library, Meta, Reason, Route, Share, Step};
use crate::base::collective::Collective::{AllGather, Broadcast, Scatter};
use crate::model::formula::{At, Cost, Field, Function, Named, Ports, Shape, ceil_lg};
use crate::model::schedule::combine::Then;
use crate::model::schedule::{Endpoint, Frame, Op, Run, Schedule, Sends, binomial};

/// The broadcast.
pub static FAMILY: &[&dyn Algorithm] = &[&ScatterDoubling];

/// Scatter, then recursive doubling among any number of ranks.
struct ScatterDoubling;

impl ClosedForm for ScatterDoubling {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "scatter-doubling",
            title: "scatter + recursive doubling",
            collectives: &[Broadcast],
            aliases: &["scatter_recursive_doubling"],
            known_as: &[
                (Library::OpenMpi, &[Broadcast], "8 scatter_allgather"),
                (Library::Mpich, &[Broadcast], "scatter_recursive_doubling_allgather"),
            ],
            summary: "after a scatter partners exchange all they have, and pass it on to ranks without one",
            source: "open-mpi/ompi v4.1.6, coll_base_bcast.c; Thakur, Rabenseifner, Gropp, IJHPCA 19(1) \
                     2005",
        }
    }

    fn applies(&self, shape: &Shape) -> Result<(), Reason> {
        no_power_of_two(shape, "every rank has a partner", "scatter-allgather")
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let turns = F::int(exchange_turns(&v.shape).into());
        let alpha = (F::int(1) + turns.clone()) * v.ceil_lg() + call(&PASSES, v);
        let exchanged = turns * (padded(v) - F::int(1));
        Cost::new(alpha, (v.others() + exchanged + call(&PASSED, v)) / v.n.clone())
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        if shape.ports == Ports::ONE { Guarantee::EqualInRounds } else { Guarantee::UpperBound }
    }

    /// Rank 0 has a partner in every exchange, and passes on what it gets in the last.
    fn sent<F: Field>(&self, v: &At<F>) -> F {
        (v.others() + padded(v) - F::int(1) + call(&PASSED_BY_0, v)) / v.n.clone()
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let n = shape.ranks;
        scatter(n).for_each(&mut *emit);
        for round in rounds(n) {
            match round {
                Round::Exchange { over } => {
                    let step = Step::new(1_u32, Share::new(over, n), Route::Xor(over));
                    repeat(step, exchange_turns(shape), emit);
                }
                Round::Pass { by, chunks, .. } => {
                    let route = if chunks == 1 { Route::halves(by) } else { Route::Xor(by) };
                    emit(Step::new(1_u32, Share::new(chunks, n), route).one_way());
                }
            }
        }
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        let scatter = binomial::Halving::new(Scatter, shape.ranks);
        let gather = Gather { ranks: shape.ranks, rounds: rounds(shape.ranks).collect() };
        Some(Box::new(Then::new(Broadcast, scatter, gather)))
    }
}

fn call<F: Field>(named: &'static Named, v: &At<F>) -> F {
    F::call(Function::Named(named), &[&v.n], (named.rule)(&[v.shape.ranks.into()]))
}

static PASSES: Named = Named {
    name: "passes",
    means: "passes(N) = Σ k − ⌊lg r⌋ over the bits 2^k of N for which r = N mod 2^k > 0",
    rule: |n| bits(n[0]).map(|(k, left)| k - log(left)).sum(),
};

static PASSED: Named = Named {
    name: "passed",
    means: "passed(N) = Σ r·(k − ⌊lg r⌋) over the bits 2^k of N for which r = N mod 2^k > 0",
    rule: |n| bits(n[0]).map(|(k, left)| left * (k - log(left))).sum(),
};

static PASSED_BY_0: Named = Named {
    name: "passed0",
    means: "passed0(N) = r·(k − ⌈lg r⌉) of the highest bit 2^k of N, r = N mod 2^k > 0",
    rule: |n| bits(n[0]).last().map_or(0, |(k, left)| left * (k - log(left.next_power_of_two()))),
};

/// The exponents of the bits of `n` but the lowest, from there up, each with what the bits below it make.
fn bits(n: u64) -> impl Iterator<Item = (u64, u64)> {
    let below = move |k: u32| (u64::from(k), n & ((1 << k) - 1));
    (0..u64::BITS).filter(move |k| n >> k & 1 == 1).map(below).filter(|(_, left)| *left > 0)
}

fn log(n: u64) -> u64 {
    n.ilog2().into()
}

/// A round of the all-gather.
#[derive(Debug, Clone, Copy)]
enum Round {
    /// All that have a partner at this distance exchange what their blocks of as many ranks have.
    Exchange { over: u32 },
    /// Ranks of the last full block of `of` pass on the chunks of the shorter block behind it.
    Pass { of: u32, by: u32, chunks: u32 },
}

fn rounds(n: u32) -> impl Iterator<Item = Round> {
    (0..ceil_lg(n)).map(|k| 1_u32 << k).flat_map(move |over| {
        let chunks = if n & over == 0 { 0 } else { n % over };
        let distances = std::iter::successors(Some(over / 2), |by| Some(by / 2));
        // The ranks that have them double, until none is left.
        let passes =
            distances.take_while(move |by| chunks > 0 && 2 * u64::from(*by) > chunks.into());
        let passes = passes.map(move |by| Round::Pass { of: over, by, chunks });
        std::iter::once(Round::Exchange { over }).chain(passes)
    })
}

/// The all-gather in which rank i starts with chunk i.
#[derive(Debug, Clone)]
struct Gather {
    ranks: u32,
    rounds: Vec<Round>,
}

impl Schedule for Gather {
    fn frame(&self) -> Frame {
        Frame::new(AllGather, self.ranks, self.ranks, self.rounds.len() as u64)
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        let (to, chunks) = match self.rounds[round as usize] {
            Round::Exchange { over } => {
                let start = rank & !(over - 1);
                (rank ^ over, Run { start, len: over.min(self.ranks - start) })
            }
            Round::Pass { of, by, chunks } => {
                let behind = self.ranks - chunks;
                let place = rank.checked_sub(behind - of).filter(|place| *place < of);
                let Some(place) = place else { return };
                // Of each 2·by ranks the first `chunks` have them.
                let place = place % (2 * by);
                if place >= by.min(chunks) || place + by < chunks {
                    return;
                }
                (rank + by, Run { start: behind, len: chunks })
            }
        };
        if to < self.ranks {
            out.push(Endpoint::Rank(to), Op::Copy, [chunks]);
        }
    }
}

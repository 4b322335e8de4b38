//! Reduce by recursive halving and a gather, nearest first, as MPI libraries run it.
//!
//! ```text
//!   N = 4      0 ◄─► 1   2 ◄─► 3     a half each way        then   2 ─► 0   3 ─► 1     a quarter
//!              0 ◄─► 2   1 ◄─► 3     a quarter                     1 ─► 0              a half
//!
//!   N = 6      1 ─► 0   3 ─► 2       first; then 0 2 4 5 go on as 0 1 2 3
//! ```
//!
//! Among p = 2^⌊lg N⌋ ranks it takes 2⌊lg N⌋·α + 2(p − 1)/p·M/BW, and in blocks the largest
//! messages stay inside nodes. The first N − p pairs of neighbours fold before: MPICH in one
//! message, α + M/BW; Open MPI with *half folds*, in which both of a pair add a half and the second
//! hands over its own, 2α + M/BW. On one half-duplex port an exchange takes two turns; the gather
//! and the hand-overs take one.
//!
//! On one full-duplex port it is exact at N = 2^m. Elsewhere ranks that did not fold run ahead of
//! those that did: it is exact with a barrier after every round (Thakur, Rabenseifner, Gropp,
//! IJHPCA 19(1) 2005).
//!
//! Source: pmodels/mpich v4.2.3, `src/mpi/coll/reduce/reduce_intra_reduce_scatter_gather.c`;
//! open-mpi/ompi v4.1.6, `ompi/mca/coll/base/coll_base_reduce.c`,
//! `ompi_coll_base_reduce_intra_redscat_gather`.

use super::rabenseifner::{behind_half_fold, core_share, half_fold_steps, no_power_of_two};
use super::recursive_doubling::behind_fold;
use super::rounds::{exchange_turns, repeat};
use super::{Algorithm, ClosedForm, Guarantee, Library, Meta, Reason, Route, Share, Step};
use crate::base::collective::Collective::{Reduce, ReduceScatter};
use crate::model::formula::{At, Cost, Field, Ports, Shape, floor_lg};
use crate::model::schedule::combine::{folded, surplus};
use crate::model::schedule::digits::{Order, Shares};
use crate::model::schedule::{Endpoint, Frame, Op, Run, Schedule, Sends};

/// With either fold.
pub static FAMILY: &[&dyn Algorithm] =
    &[&HalvingGather { fold: Fold::Whole }, &HalvingGather { fold: Fold::Halves }];

/// How a pair of neighbours becomes one rank.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fold {
    /// 2i + 1 sends all to 2i.
    Whole,
    /// They exchange opposite halves; then 2i + 1 sends its half to 2i.
    Halves,
}

struct HalvingGather {
    fold: Fold,
}

impl ClosedForm for HalvingGather {
    fn meta(&self) -> &'static Meta {
        static WHOLE: Meta = Meta {
            id: "halving-gather",
            title: "recursive halving + gather",
            collectives: &[Reduce],
            aliases: &["halving_gather"],
            known_as: &[
                (Library::OpenMpi, &[Reduce], "7 rabenseifner"),
                (Library::Mpich, &[Reduce], "reduce_scatter_gather"),
            ],
            summary: "partners at doubling distances exchange halves of the rest, then rank 0 gathers",
            source: "Thakur, Rabenseifner, Gropp, IJHPCA 19(1) 2005",
        };
        static HALVES: Meta = Meta {
            id: "halving-gather-half-fold",
            title: "halving + gather (half fold)",
            collectives: &[Reduce],
            aliases: &["halving_gather_half_fold"],
            known_as: &[(Library::OpenMpi, &[Reduce], "7 rabenseifner")],
            summary: "surplus ranks add half of a partner's vector, then send it that half",
            source: "Rabenseifner, ICCS 2004; open-mpi/ompi v4.1.6, coll_base_reduce.c",
        };
        match self.fold {
            Fold::Whole => &WHOLE,
            Fold::Halves => &HALVES,
        }
    }

    fn applies(&self, shape: &Shape) -> Result<(), Reason> {
        match self.fold {
            Fold::Whole => Ok(()),
            Fold::Halves => no_power_of_two(shape, "no rank needs folding", "halving-gather"),
        }
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let turns = F::int(exchange_turns(&v.shape).into());
        let lg = if v.shape.is_power_of_two() { v.ceil_lg() } else { v.floor_lg() };
        let passes = F::int(1) + turns;
        let core = Cost::new(passes.clone() * lg, passes * core_share(v)).reducing(core_share(v));
        match self.fold {
            _ if v.shape.is_power_of_two() => core,
            Fold::Whole => core + Cost::new(F::int(1), F::int(1)).reducing(F::int(1)),
            Fold::Halves => behind_half_fold(v, core),
        }
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        match shape.ports {
            Ports::ONE if shape.is_power_of_two() => Guarantee::Equal,
            Ports::ONE => Guarantee::EqualInRounds,
            _ => Guarantee::UpperBound,
        }
    }

    /// The second of the ranks that remain halves, and sends a half in the end; if it is of a pair that
    /// folded halves, one more in the beginning.
    fn sent<F: Field>(&self, v: &At<F>) -> F {
        let swaps = self.fold == Fold::Halves && surplus(v.shape.ranks) > 1;
        core_share(v) + F::int(if swaps { 2 } else { 1 }) / F::int(2)
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let (turns, rounds) = (exchange_turns(shape), floor_lg(shape.ranks));
        match self.fold {
            _ if shape.is_power_of_two() => {}
            Fold::Whole => {
                emit(Step::new(1_u32, Share::ALL, Route::Xor(1)).one_way().reducing());
            }
            Fold::Halves => half_fold_steps(shape, emit),
        }
        let share = |k: u32| Share::new(1_u32, 2_u64 << k);
        for k in 0..rounds {
            repeat(
                Step::new(1_u32, share(k), behind_fold(shape, 1 << k, 0)).reducing(),
                turns,
                emit,
            );
        }
        for k in (0..rounds).rev() {
            let route = match behind_fold(shape, 1 << k, 0) {
                Route::Xor(d) => Route::Grow(d),
                folded => folded,
            };
            emit(Step::new(1_u32, share(k), route).one_way());
        }
    }

    fn is_withheld(&self, library: Library, shape: &Shape) -> bool {
        self.fold == Fold::Whole && library == Library::OpenMpi && !shape.is_power_of_two()
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        let halving = Shares::new(ReduceScatter, folded(shape.ranks), 2, Order::Near);
        Some(Box::new(Play { ranks: shape.ranks, fold: self.fold, halving }))
    }
}

#[derive(Debug, Clone, Copy)]
struct Play {
    ranks: u32,
    fold: Fold,
    halving: Shares,
}

impl Play {
    /// Rounds of the fold.
    fn before(self) -> u64 {
        match self.fold {
            _ if surplus(self.ranks) == 0 => 0,
            Fold::Whole => 1,
            Fold::Halves => 2,
        }
    }

    /// The sends of `rank` in its pair.
    fn fold(self, round: u64, rank: u32, out: &mut Sends) {
        let all = self.halving.ranks();
        let [lower, upper] = [0, all / 2].map(|start| Run { start, len: all / 2 });
        let (op, run) = match (self.fold, round, rank % 2) {
            _ if rank / 2 >= surplus(self.ranks) => return,
            (Fold::Whole, _, 1) => (Op::Reduce, Run { start: 0, len: all }),
            (Fold::Halves, 0, 0) => (Op::Reduce, upper),
            (Fold::Halves, 0, _) => (Op::Reduce, lower),
            (Fold::Halves, _, 1) => (Op::Copy, upper),
            _ => return,
        };
        out.push(Endpoint::Rank(rank ^ 1), op, [run]);
    }
}

impl Schedule for Play {
    fn frame(&self) -> Frame {
        let rounds = self.before() + 2 * self.halving.rounds();
        Frame::new(Reduce, self.ranks, self.halving.ranks(), rounds)
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        let Some(round) = round.checked_sub(self.before()) else {
            return self.fold(round, rank, out);
        };
        let (pairs, halvings) = (surplus(self.ranks), self.halving.rounds());
        let member = match rank.checked_sub(2 * pairs) {
            Some(behind) => pairs + behind,
            None if rank % 2 == 0 => rank / 2,
            None => return,
        };
        let rank_of = |member: u32| if member < pairs { 2 * member } else { member + pairs };
        if round < halvings {
            self.halving.sends(round, Endpoint::Rank(member), out);
            out.rename(|to| match to {
                Endpoint::Rank(member) => Endpoint::Rank(rank_of(member)),
                switch @ Endpoint::Switch(_) => switch,
            });
        } else {
            // Below 32: those with this bit as their highest have nothing more to wait for.
            let k = (2 * halvings - 1 - round) as u32;
            if member.checked_ilog2() == Some(k) {
                let to = Endpoint::Rank(rank_of(member ^ (1 << k)));
                out.push(to, Op::Copy, [self.halving.share(member, k + 1)]);
            }
        }
    }
}

//! Barriers: messages without data.
//!
//! ```text
//!   all to all      all ranks ──► all ranks
//!   all to one      all ranks ──► 0 ──► all ranks
//!   dissemination   round k: i ──► i + 2^k
//! ```
//!
//! On k full-duplex ports all-to-all takes ⌈(N − 1)/k⌉·α and all-to-one 2⌈(N − 1)/k⌉·α. 001 counts
//! one and two steps, which is right with one port per partner (K10). Dissemination takes ⌈lg N⌉·α
//! on any full-duplex ports (Hensgen, Finkel, Manber, IJPP 17(1) 1988). On one half-duplex port
//! all-to-one takes no longer, since a rank only waits for one thing at a time; the others take ×3
//! at most.

use super::rounds::{in_waves, lanes, on, repeat, shift_turns, waves};
use super::{Algorithm, ClosedForm, Guarantee, Library, Meta, Route, Share, Step};
use crate::base::collective::Collective::Barrier;
use crate::model::formula::{At, Cost, Field, Shape, ceil_lg};
use crate::model::schedule::{Endpoint, Frame, Op, Run, Schedule, Sends};

/// The barriers.
pub static FAMILY: &[&dyn Algorithm] = &[&Dissemination, &AllToAll, &AllToOne];

/// Rounds of doubling distance.
struct Dissemination;

impl ClosedForm for Dissemination {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "dissemination",
            title: "dissemination",
            collectives: &[Barrier],
            aliases: &["barrier_dissemination"],
            known_as: &[
                (Library::OpenMpi, &[Barrier], "4 bruck"),
                (Library::Mpich, &[Barrier], "k_dissemination"),
                (Library::Gloo, &[Barrier], "barrier"),
            ],
            summary: "in round k rank i signals rank i + 2^k",
            source: "Hensgen, Finkel, Manber, IJPP 17(1) 1988",
        }
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        Cost::new(F::int(shift_turns(&v.shape).into()) * v.ceil_lg(), F::int(0))
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        Guarantee::on_ports(shape)
    }

    fn sent<F: Field>(&self, _: &At<F>) -> F {
        F::int(0)
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        for k in 0..ceil_lg(shape.ranks) {
            let step = Step::new(1_u32, Share::NONE, Route::Offset(1 << k));
            repeat(step, shift_turns(shape), emit);
        }
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        Some(Box::new(Signals { ranks: shape.ranks, pattern: Pattern::Doubling }))
    }
}

/// All ranks signal all ranks.
struct AllToAll;

impl ClosedForm for AllToAll {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "all-to-all",
            title: "all to all",
            collectives: &[Barrier],
            aliases: &["all_to_all", "barrier_all_to_all"],
            known_as: &[(Library::Gloo, &[Barrier], "barrier_all_to_all")],
            summary: "every rank signals all others and waits for all of them",
            source: "Gloo (facebookincubator/gloo), barrier_all_to_all.h",
        }
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        Cost::new(waves(v), F::int(0))
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        Guarantee::on_ports(shape)
    }

    fn sent<F: Field>(&self, _: &At<F>) -> F {
        F::int(0)
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let others = shape.ranks - 1;
        let waves = others.div_ceil(lanes(shape.ports, others));
        repeat(Step::new(waves, Share::NONE, Route::All), shift_turns(shape), emit);
    }

    /// 001 counts one step, whatever the ports.
    fn paper<F: Field>(&self, _: &At<F>) -> Option<Cost<F>> {
        Some(Cost::new(F::int(1), F::int(0)))
    }

    fn ports_needed(&self, shape: &Shape) -> u32 {
        shape.ranks - 1
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        Some(Box::new(Signals { ranks: shape.ranks, pattern: Pattern::All }))
    }
}

/// All ranks signal one rank, which answers.
struct AllToOne;

impl ClosedForm for AllToOne {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "all-to-one",
            title: "all to one",
            collectives: &[Barrier],
            aliases: &["all_to_one", "barrier_all_to_one"],
            known_as: &[
                (Library::OpenMpi, &[Barrier], "1 linear"),
                (Library::Gloo, &[Barrier], "barrier_all_to_one"),
            ],
            summary: "every rank signals rank 0, which answers all once it has heard from all",
            source: "Gloo (facebookincubator/gloo), barrier_all_to_one.h",
        }
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let others = v.shape.ranks - 1;
        let waves = in_waves(v, v.others(), others, v.shape.ports.sends(others));
        Cost::new(F::int(2) * waves, F::int(0))
    }

    fn sent<F: Field>(&self, _: &At<F>) -> F {
        F::int(0)
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let others = shape.ranks - 1;
        let waves = others.div_ceil(shape.ports.sends(others));
        emit(Step::new(2 * waves, Share::NONE, Route::Root));
    }

    /// 001 counts two steps, whatever the ports.
    fn paper<F: Field>(&self, _: &At<F>) -> Option<Cost<F>> {
        Some(Cost::new(F::int(2), F::int(0)))
    }

    fn ports_needed(&self, shape: &Shape) -> u32 {
        shape.ranks - 1
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        Some(Box::new(Signals { ranks: shape.ranks, pattern: Pattern::Root }))
    }
}

/// Signals that carry which ranks the sender has heard from.
#[derive(Debug, Clone, Copy)]
struct Signals {
    ranks: u32,
    pattern: Pattern,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pattern {
    /// In round k to the rank 2^k higher.
    Doubling,
    /// To all others at once.
    All,
    /// To rank 0, then from it.
    Root,
}

impl Schedule for Signals {
    fn frame(&self) -> Frame {
        let rounds = match self.pattern {
            _ if self.ranks <= 1 => 0,
            Pattern::Doubling => ceil_lg(self.ranks).into(),
            Pattern::All => 1,
            Pattern::Root => 2,
        };
        let frame = Frame::new(Barrier, self.ranks, 1, rounds);
        if self.pattern == Pattern::Root { frame } else { frame.turning() }
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        let mut signal = |to| out.push(Endpoint::Rank(to), Op::Or, [Run::one(0)]);
        match (self.pattern, round, rank) {
            (Pattern::Doubling, ..) => signal(on(rank, 1 << round, self.ranks)),
            (Pattern::All, ..) => {
                (1..self.ranks).for_each(|offset| signal(on(rank, offset, self.ranks)));
            }
            (Pattern::Root, 0, 0) => {}
            (Pattern::Root, 0, _) => signal(0),
            (Pattern::Root, _, 0) => (1..self.ranks).for_each(signal),
            (Pattern::Root, ..) => {}
        }
    }
}

//! Ring reduce-scatter, all-gather and all-reduce.
//!
//! ```text
//!   0 ──► 1        reduce-scatter: in step t rank i sends chunk i − t to i + 1, which adds it;
//!   ▲     │        after N − 1 steps rank i owns chunk i + 1.
//!   │     ▼        all-gather: the finished chunks go round once more, and are stored.
//!   3 ◄── 2
//! ```
//!
//! N − 1 steps of M/N each way, at any N, on one full-duplex port: 2(N−1)·α + 2(N−1)/N·M/BW for the
//! all-reduce, the least data that a rank can send (Patarasuk, Yuan, JPDC 69(2) 2009). More
//! segments than N only add latency. On half-duplex ports neighbours take turns: ×2 for even N. For
//! odd N the ring cannot be two-coloured, and ×3 is an upper bound.

use super::{Algorithm, ClosedForm, Guarantee, Library, Meta, Route, Share, Step};
use crate::base::collective::Collective::{self, AllGather, AllReduce, ReduceScatter};
use crate::model::formula::{At, Cost, Field, Ports, Shape};
use crate::model::schedule::{Schedule, ring};

/// The ring algorithms.
pub static FAMILY: &[&dyn Algorithm] = &[&Ring, &Rails];

const COLLECTIVES: &[Collective] = &[AllReduce, AllGather, ReduceScatter];

/// One ring over all ranks.
pub(super) struct Ring;

impl ClosedForm for Ring {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "ring",
            title: "ring",
            collectives: COLLECTIVES,
            aliases: &["ring_ar", "ring_rs", "ring_ag"],
            known_as: &[
                (Library::Nccl, COLLECTIVES, "Ring"),
                (Library::Rccl, COLLECTIVES, "Ring"),
                (Library::OpenMpi, &[AllReduce], "4 ring"),
                (Library::OpenMpi, &[AllGather], "4 ring"),
                (Library::OpenMpi, &[ReduceScatter], "3 ring"),
                (Library::Mpich, &[AllGather], "ring"),
            ],
            summary: "every rank sends one chunk of M/N to its right neighbour in each step",
            source: "Patarasuk, Yuan, JPDC 69(2) 2009",
        }
    }

    /// Across nodes NCCL runs one ring per rail instead.
    fn is_withheld(&self, library: Library, shape: &Shape) -> bool {
        library.connects_as_nccl() && shape.spans_domains()
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let repeats = F::int(i64::from(passes(v.shape.collective) * turns(&v.shape)));
        let gamma = if v.shape.collective.reduces() { v.others_share() } else { F::int(0) };
        Cost::new(repeats.clone() * v.others(), repeats * v.others() / v.n.clone()).reducing(gamma)
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        // On half-duplex ports the steps of an odd ring overlap to somewhere between ×2 and ×3.
        let odd = shape.ranks % 2 == 1;
        if shape.ports.is_half() && odd { Guarantee::UpperBound } else { Guarantee::Equal }
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        F::int(passes(v.shape.collective).into()) * v.others_share()
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let others = u64::from(shape.ranks - 1);
        let step = Step::new(others, Share::new(1_u32, shape.ranks), Route::Offset(1));
        if shape.collective.reduces() {
            emit(step.reducing());
        }
        // The other passes: the all-gather, and the further turns of half-duplex neighbours.
        let passes = passes(shape.collective) * turns(shape);
        let rest = passes - u32::from(shape.collective.reduces());
        if rest > 0 {
            emit(Step { count: others * u64::from(rest), ..step });
        }
    }

    /// For many ranks, with N instead of N − 1, as often written.
    fn asymptotic<F: Field>(&self, v: &At<F>) -> Option<Cost<F>> {
        let passes = F::int(passes(v.shape.collective).into());
        Some(Cost::new(passes.clone() * v.n.clone(), passes))
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        Some(Box::new(ring::Ring::new(shape.collective, shape.ranks)))
    }
}

/// One ring over each of r rails, each with M/r: NCCL's ring over all NICs of a node.
struct Rails;

impl ClosedForm for Rails {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "ring-rails",
            title: "Ring (one per rail)",
            collectives: COLLECTIVES,
            aliases: &["multi-rail-ring"],
            known_as: &[(Library::Nccl, COLLECTIVES, "Ring"), (Library::Rccl, COLLECTIVES, "Ring")],
            summary: "one ring per rail, each with its own part of the vector and its own rank order",
            source: "NCCL src/graph/rings.cc: a ring per channel, each leaving a node by its own NIC",
        }
    }

    fn is_withheld(&self, library: Library, shape: &Shape) -> bool {
        library.connects_as_nccl() && !shape.spans_domains()
    }

    /// On equal links this gains nothing: the r messages of M/(rN) share one port.
    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        Ring.cost(v)
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        ClosedForm::guarantee(&Ring, shape)
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        ClosedForm::sent(&Ring, v)
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        ClosedForm::steps(&Ring, shape, &mut |step| emit(step.on_rails(shape.rails())));
    }
}

/// How often data go around the ring: twice in an all-reduce.
fn passes(collective: Collective) -> u32 {
    if collective == AllReduce { 2 } else { 1 }
}

/// How often a step is repeated because neighbours cannot all send at once.
fn turns(shape: &Shape) -> u32 {
    match (shape.ports, shape.ranks % 2) {
        (Ports::Half(k), 0) if k.get() == 1 => 2,
        (Ports::Half(k), _) if k.get() == 1 => 3,
        _ => 1,
    }
}

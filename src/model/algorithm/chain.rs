//! Chain (pipelined ring) broadcast and reduce.
//!
//! ```text
//!   0 ──► 1 ──► 2 ──► … ──► N−1     segment s goes from i to i + 1 in round s + i
//! ```
//!
//! P segments take N + P − 2 rounds of α + M/(P·BW) on one full-duplex port, at any N. The best P is
//! √((N − 2)·M/(α·BW)), and T(P*) = (N − 2)α + M/BW + 2√((N − 2)·α·M/BW). With one half-duplex port
//! per rank, inner ranks of the chain receive and send in turn: N − 1 + 2(P − 1) rounds for N ≥ 3.
//! The reduce is the same chain in reverse, with additions.
//!
//! Over nodes the first segment passes each link once, and each further one follows it over the slowest.
//!
//! Source: Chan, Heimlich, Purkayastha, van de Geijn, CCPE 19(13) 2007.

use super::{Algorithm, ClosedForm, Library, Meta, Route, Share, Step};
use crate::base::collective::Collective::{Broadcast, Reduce};
use crate::model::formula::{At, Cost, Field, Level, Ports, Shape};
use crate::model::schedule::{Schedule, chain};

/// The chain algorithms.
pub static FAMILY: &[&dyn Algorithm] = &[&Chain, &Rails];

struct Chain;

impl ClosedForm for Chain {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "chain",
            title: "pipelined chain",
            collectives: &[Broadcast, Reduce],
            aliases: &["pipeline", "chain_bcast", "chain_reduce"],
            known_as: &[
                (Library::Nccl, &[Broadcast, Reduce], "Ring"),
                (Library::Rccl, &[Broadcast, Reduce], "Ring"),
                (Library::OpenMpi, &[Broadcast, Reduce], "3 pipeline"),
            ],
            summary: "each rank forwards the vector to the next, segment by segment",
            source: "Chan, Heimlich, Purkayastha, van de Geijn, CCPE 19(13) 2007",
        }
    }

    /// Across nodes NCCL runs one chain per rail instead.
    fn is_withheld(&self, library: Library, shape: &Shape) -> bool {
        library.connects_as_nccl() && shape.spans_domains()
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let slots = if takes_turns(&v.shape) {
            v.n.clone() - F::int(1) + F::int(2) * (v.p.clone() - F::int(1))
        } else {
            v.n.clone() + v.p.clone() - F::int(2)
        };
        let volume = slots.clone() / v.p.clone();
        let gamma = if v.shape.collective.reduces() { volume.clone() } else { F::int(0) };
        Cost::new(slots, volume).reducing(gamma)
    }

    fn sent<F: Field>(&self, _: &At<F>) -> F {
        F::int(1)
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let p = u64::from(shape.segments());
        let links = u64::from(shape.ranks - 1);
        let leaving = shape.params.leaving.map_or(links, u64::from);
        let further = (p - 1) * if takes_turns(shape) { 2 } else { 1 };
        for (slots, level) in [(links - leaving, Level::Inner), (leaving + further, Level::Flat)] {
            let step = Step::new(slots, Share::new(1_u32, p), Route::Offset(1));
            let meets = (!shape.passes_on()).then_some(Share::NONE);
            let step = Step { meets, level, ..step };
            if slots > 0 {
                emit(if shape.collective.reduces() { step.reducing() } else { step });
            }
        }
    }

    fn is_pipelined(&self) -> bool {
        true
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        Some(Box::new(chain::Chain::new(shape.collective, shape.ranks, shape.segments())))
    }
}

/// One chain over each of r rails, each with M/r: NCCL's Ring from a root over all NICs of a node.
struct Rails;

impl ClosedForm for Rails {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "chain-rails",
            title: "Chain (one per rail)",
            collectives: &[Broadcast, Reduce],
            aliases: &["multi-rail-chain"],
            known_as: &[
                (Library::Nccl, &[Broadcast, Reduce], "Ring"),
                (Library::Rccl, &[Broadcast, Reduce], "Ring"),
            ],
            summary: "one chain per rail, each with its own part of the vector and its own rank order",
            source: "NCCL src/graph/rings.cc, src/device/broadcast.h: a ring per channel, each leaving \
                     a node by its own NIC",
        }
    }

    fn is_withheld(&self, library: Library, shape: &Shape) -> bool {
        library.connects_as_nccl() && !shape.spans_domains()
    }

    /// On equal links this gains nothing: the r messages of M/(rP) share one port.
    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        Chain.cost(v)
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        ClosedForm::sent(&Chain, v)
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        ClosedForm::steps(&Chain, shape, &mut |step| emit(step.on_rails(shape.rails())));
    }

    fn is_pipelined(&self) -> bool {
        true
    }
}

/// Whether an inner rank of the chain cannot receive one segment while it sends another.
fn takes_turns(shape: &Shape) -> bool {
    matches!(shape.ports, Ports::Half(k) if k.get() == 1) && shape.ranks >= 3
}

//! Sparbit: an all-gather of binomial trees, one per block, far partners first.
//!
//! ```text
//!   N = 8    r ─1─► r + 4    r ─2─► r + 2    r ─4─► r + 1      blocks land where they belong
//! ```
//!
//! ⌈lg N⌉·α + (N − 1)/N·M/BW at any N. The messages are those of PAT without a limit, and few
//! blocks travel far. Unlike Bruck's all-gather it needs no rotation at the end. Exact on one
//! full-duplex port, an upper bound on more; one half-duplex port takes ×3 at most.

use super::pat::{FarFirst, chunks};
use super::rounds::{gather_cost, gather_schedule, gather_sent, gather_steps, shift_turns};
use super::{Algorithm, ClosedForm, Guarantee, Meta, Route, Share, Step};
use crate::base::collective::Collective::AllGather;
use crate::model::formula::{At, Cost, Field, Shape, ceil_lg};
use crate::model::schedule::Schedule;

/// Sparbit.
pub static FAMILY: &[&dyn Algorithm] = &[&Sparbit];

/// The rounds of an all-gather, farthest first, with chunks of M/N.
pub(super) fn gather_rounds(n: u32) -> Vec<Step> {
    let round = |b: u32| Step::new(1_u32, Share::new(chunks(n, b), n), Route::Offset(1 << b));
    (0..ceil_lg(n)).rev().map(round).collect()
}

struct Sparbit;

impl ClosedForm for Sparbit {
    fn meta(&self) -> &'static Meta {
        static META: Meta = Meta {
            id: "sparbit",
            title: "Sparbit",
            collectives: &[AllGather],
            aliases: &["sparbit_ag"],
            known_as: &[],
            summary: "every block goes down its own binomial tree, farthest ranks first",
            source: "Loch, Koslovski, Sparbit, arXiv:2109.08751, 2021",
        };
        &META
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        gather_cost(v, v.ceil_lg(), shift_turns(&v.shape))
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        Guarantee::on_one_port(shape)
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        gather_sent(v)
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        gather_steps(shape, &gather_rounds(shape.ranks), shift_turns(shape), emit);
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        Some(gather_schedule(shape, FarFirst::new(shape.ranks, None)))
    }
}

//! Bine trees: binomial trees and butterflies over negabinary distances.
//!
//! ```text
//!   binomial, N = 8    0 ─► 4    0 ─► 2   4 ─► 6    0 ─► 1 …
//!   Bine,     N = 8    0 ─► 3    0 ─► 7   3 ─► 4    0 ─► 1 …      distances 3, 1, 1 to both sides
//! ```
//!
//! The partner of step s is |Σ_{i ≤ s} (−2)^i| away, about a third nearer than the 2^s of a binomial
//! tree, to one side for even ranks and to the other for odd ones. So up to a third less data
//! crosses between groups of neighbouring ranks (De Sensi et al.). α and β terms are unchanged:
//! broadcast and reduce lg N·(α + M/BW); scatter, gather, all-gather and reduce-scatter lg N·α + (N
//! − 1)/N·M/BW; all-reduce twice that; all-to-all lg N·(α + M/2BW).
//!
//! Given here for N = 2^m, where the partners are those of `swing`. The paper extends the trees to
//! other N. On one half-duplex port the trees take no longer and the butterflies ×2.

use super::rounds::{exchange_turns, gather_cost, gather_sent, gather_steps, repeat};
use super::swing::{self, gather_rounds, route};
use super::{Algorithm, ClosedForm, Guarantee, Meta, Reason, Share, Step};
use crate::base::collective::Collective::{
    AllGather, AllReduce, AllToAll, Broadcast, Gather, Reduce, ReduceScatter, Scatter,
};
use crate::model::formula::{At, Cost, Field, Shape, ceil_lg};
use crate::model::schedule::Schedule;

mod schedule;

/// Bine trees.
pub static FAMILY: &[&dyn Algorithm] = &[&Bine];

struct Bine;

impl ClosedForm for Bine {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "bine",
            title: "Bine trees",
            collectives: &[
                AllReduce,
                AllGather,
                ReduceScatter,
                AllToAll,
                Broadcast,
                Reduce,
                Scatter,
                Gather,
            ],
            aliases: &["bine-tree", "bine-trees"],
            known_as: &[],
            summary: "binomial trees and butterflies with partners a third nearer, on both sides",
            source: "De Sensi et al., Bine Trees, SC 2025, arXiv:2508.17311",
        }
    }

    fn applies(&self, shape: &Shape) -> Result<(), Reason> {
        if shape.is_power_of_two() {
            return Ok(());
        }
        let n = shape.ranks;
        Err(Reason::from(format!(
            "{n} ranks are not a power of two, the only case with a known cost"
        )))
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let turns = exchange_turns(&v.shape);
        match v.shape.collective {
            Broadcast => Cost::new(v.ceil_lg(), v.ceil_lg()),
            Reduce => Cost::new(v.ceil_lg(), v.ceil_lg()).reducing(v.ceil_lg()),
            Scatter | Gather => Cost::new(v.ceil_lg(), v.others_share()),
            AllToAll => {
                let messages = F::int(turns.into()) * v.ceil_lg();
                Cost::new(messages.clone(), messages / F::int(2))
            }
            _ => gather_cost(v, v.ceil_lg(), turns),
        }
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        Guarantee::in_pairs_on_one_port(shape)
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        match v.shape.collective {
            Broadcast => v.ceil_lg(),
            Reduce => F::int(1),
            AllToAll => v.ceil_lg() / F::int(2),
            Scatter => v.others_share(),
            // A child of the root forwards half of the chunks.
            Gather => F::int(1) / F::int(2),
            _ => gather_sent(v),
        }
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let gather = gather_rounds(shape.ranks);
        let whole = |s: u32| Step::new(1_u32, Share::ALL, route(s, shape.ranks));
        let m = ceil_lg(shape.ranks);
        match shape.collective {
            Broadcast => (0..m).rev().for_each(|s| emit(whole(s).one_way())),
            Reduce => (0..m).for_each(|s| emit(whole(s).reducing().one_way())),
            Scatter => gather.into_iter().rev().for_each(|step| emit(step.one_way())),
            Gather => gather.into_iter().for_each(|step| emit(step.one_way())),
            AllToAll => (0..m).for_each(|s| {
                let step = Step { share: Share::new(1_u32, 2_u32), ..whole(s) };
                repeat(step, exchange_turns(shape), emit);
            }),
            _ => gather_steps(shape, &gather, exchange_turns(shape), emit),
        }
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        Some(match shape.collective {
            AllReduce | AllGather | ReduceScatter => {
                Box::new(swing::schedule::Shares::new(shape.collective, shape.ranks))
            }
            AllToAll => Box::new(schedule::Exchange::new(shape.ranks)),
            _ => Box::new(schedule::Tree::new(shape.collective, shape.ranks)),
        })
    }
}

//! Neighbour exchange: an all-gather that talks to two neighbours only.
//!
//! ```text
//!   round 0   0 ◄─► 1   2 ◄─► 3   4 ◄─► 5      own chunks
//!   round 1   1 ◄─► 2   3 ◄─► 4   5 ◄─► 0      the pair that came last, from then on
//! ```
//!
//! N/2 rounds for even N: half of the ring's messages, the same bytes,
//! N/2·α + (N − 1)/N·M/BW (Chen et al. 2005). Exact on full-duplex ports, ×2 on one half-duplex
//! port.

use super::rounds::{exchange_turns, gather_sent, is_one_half, repeat};
use super::{Algorithm, ClosedForm, Guarantee, Library, Meta, Reason, Route, Share, Step};
use crate::collective::Collective::AllGather;
use crate::formula::{At, Cost, Field, Shape};

/// Neighbour exchange.
pub static FAMILY: &[&dyn Algorithm] = &[&NeighborExchange];

struct NeighborExchange;

impl ClosedForm for NeighborExchange {
    fn meta(&self) -> &'static Meta {
        static META: Meta = Meta {
            id: "neighbor-exchange",
            title: "neighbour exchange",
            collectives: &[AllGather],
            aliases: &["neighbor", "neighbor_exchange", "neighbor_exchange_ag"],
            known_as: &[(Library::OpenMpi, &[AllGather], "5 neighbor")],
            summary: "ranks exchange the pair of chunks that came last with either neighbour in turn",
            source: "Chen et al., Performance evaluation of allgather algorithms, HPC Asia 2005",
        };
        &META
    }

    fn applies(&self, shape: &Shape) -> Result<(), Reason> {
        if shape.ranks.is_multiple_of(2) {
            return Ok(());
        }
        Err(Reason::from(format!("{} ranks are odd", shape.ranks)))
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let turns = F::int(exchange_turns(&v.shape).into());
        let messages = turns.clone() * v.n.clone() / F::int(2);
        Cost::new(messages, turns * v.others() / v.n.clone())
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        let known = !shape.ports.is_half() || is_one_half(shape.ports);
        if known { Guarantee::Equal } else { Guarantee::UpperBound }
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        gather_sent(v)
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let (n, turns) = (shape.ranks, exchange_turns(shape));
        repeat(Step::new(1_u32, Share::new(1_u32, n), Route::Offset(1)), turns, emit);
        if n > 2 {
            let pair = Share::new(2_u32, n);
            repeat(Step::new(n / 2 - 1, pair, Route::Offset(1)), turns, emit);
        }
    }
}

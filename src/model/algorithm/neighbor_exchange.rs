//! Neighbour exchange: an all-gather in which each rank communicates with two neighbours only.
//!
//! ```text
//!   round 0   0 ◄─► 1   2 ◄─► 3   4 ◄─► 5      own chunks
//!   round 1   1 ◄─► 2   3 ◄─► 4   5 ◄─► 0      the pair that came last, from then on
//! ```
//!
//! N/2 rounds for even N: half of the ring's messages, the same bytes,
//! N/2·α + (N − 1)/N·M/BW (Chen et al. 2005). Exact on full-duplex ports, ×2 on one half-duplex
//! port.

use super::rounds::{back, exchange_turns, gather_sent, on, repeat};
use super::{Algorithm, ClosedForm, Guarantee, Library, Meta, Reason, Route, Share, Step};
use crate::base::collective::Collective::AllGather;
use crate::model::formula::{At, Cost, Field, Shape};
use crate::model::schedule::{Endpoint, Frame, Op, Run, Schedule, Sends, modulo};

/// Neighbour exchange.
pub static FAMILY: &[&dyn Algorithm] = &[&NeighborExchange];

struct NeighborExchange;

impl ClosedForm for NeighborExchange {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "neighbor-exchange",
            title: "neighbour exchange",
            collectives: &[AllGather],
            aliases: &["neighbor", "neighbor_exchange", "neighbor_exchange_ag"],
            known_as: &[(Library::OpenMpi, &[AllGather], "5 neighbor")],
            summary: "ranks exchange the pair of chunks received last with their two neighbours in turn",
            source: "Chen et al., Performance evaluation of allgather algorithms, HPC Asia 2005",
        }
    }

    fn applies(&self, shape: &Shape) -> Result<(), Reason> {
        if shape.ranks.is_multiple_of(2) {
            return Ok(());
        }
        Err(Reason::from(format!("it needs an even number of ranks, not {}", shape.ranks)))
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let turns = F::int(exchange_turns(&v.shape).into());
        let messages = turns.clone() * v.n.clone() / F::int(2);
        Cost::new(messages, turns * v.others() / v.n.clone())
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        Guarantee::in_pairs(shape)
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        gather_sent(v)
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let (n, turns) = (shape.ranks, exchange_turns(shape));
        repeat(Step::new(1_u32, Share::new(1_u32, n), Route::Pairs(1)), turns, emit);
        // The neighbour on the other side comes first, then both in turn.
        let further = n / 2 - 1;
        for (count, by) in [(further.div_ceil(2), n - 1), (further / 2, 1)] {
            if count > 0 {
                repeat(Step::new(count, Share::new(2_u32, n), Route::Pairs(by)), turns, emit);
            }
        }
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        Some(Box::new(Pairs { ranks: shape.ranks }))
    }
}

/// Pairs of chunks that go around both ways. Where rank and round are both even or both odd, a rank
/// sends the pairs from its left to the right; otherwise it sends the pairs from its right to the
/// left.
#[derive(Debug, Clone, Copy)]
struct Pairs {
    ranks: u32,
}

impl Schedule for Pairs {
    fn frame(&self) -> Frame {
        Frame::new(AllGather, self.ranks, self.ranks, u64::from(self.ranks / 2))
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        let n = self.ranks;
        let rightwards = u64::from(rank % 2) == round % 2;
        let to = if rightwards { on(rank, 1, n) } else { back(rank, 1, n) };
        if round == 0 {
            return out.push(Endpoint::Rank(to), Op::Copy, [Run::one(rank)]);
        }
        let (pair, pairs, gone) = (rank / 2, n / 2, modulo(round / 2, n));
        let pair = if rightwards { back(pair, gone, pairs) } else { on(pair, gone, pairs) };
        out.push(Endpoint::Rank(to), Op::Copy, [Run { start: 2 * pair, len: 2 }]);
    }
}

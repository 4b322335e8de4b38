//! PAT: parallel aggregated trees, all-gather and reduce-scatter with a bounded message.
//!
//! ```text
//!   N = 8, no limit          at most one chunk per message (a = 1)
//!   r ─1─► r + 4             r ─1─► r + 4
//!   r ─2─► r + 2             r ─1─► r + 2   twice
//!   r ─4─► r + 1             r ─1─► r + 1   four times
//! ```
//!
//! Farthest first: for b = ⌈lg N⌉ − 1 … 0 a rank holds n_b chunks that r + 2^b lacks, and sends
//! them in messages of at most a chunks. With rounds(N, a) = Σ_b ⌈n_b/a⌉ and n_b = ⌊(N − 1 +
//! 2^b)/2^(b+1)⌋ the cost is rounds(N, a)·α + (N − 1)/N·M/BW, at any N: ⌈lg N⌉ rounds without a
//! limit, N − 1 at a = 1. The textbook prints one chunk per round in ⌈lg N⌉ rounds, which would
//! deliver too few chunks (K14). Exact on one full-duplex port; with further ports rounds may
//! overlap. The reduce-scatter is the reversal, with additions.
//!
//! NCCL ships it from 2.23 on, for one rank per node; there the buffer size limits a. A shape with
//! several ranks per node is still priced: the library's rule is part of its policy.

use std::num::NonZeroU32;

use super::rounds::{
    back, gather_cost, gather_schedule, gather_sent, gather_steps, on, shift_turns,
};
use super::{Algorithm, ClosedForm, Guarantee, Library, Meta, Route, Share, Step};
use crate::base::collective::Collective::{AllGather, ReduceScatter};
use crate::model::formula::{At, Cost, Field, Function, Named, Shape, ceil_lg};
use crate::model::schedule::{Endpoint, Frame, Op, Run, Schedule, Sends};

/// PAT.
pub static FAMILY: &[&dyn Algorithm] = &[&Pat];

struct Pat;

impl ClosedForm for Pat {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "pat",
            title: "PAT",
            collectives: &[AllGather, ReduceScatter],
            aliases: &["pat_ag", "pat_rs"],
            known_as: &[(Library::Nccl, &[AllGather, ReduceScatter], "PAT")],
            summary: "one tree per rank, farthest partners first, at most a chunks per message",
            source: "Jeaugey, PAT, arXiv:2506.20252, 2025; NCCL 2.23",
        }
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let messages = match v.shape.params.aggregation {
            None => v.ceil_lg(),
            Some(a) => {
                let value = rounds(&[v.shape.ranks.into(), a.get().into()]);
                F::call(Function::Named(&ROUNDS), &[&v.n, &F::int(a.get().into())], value)
            }
        };
        gather_cost(v, messages, shift_turns(&v.shape))
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        Guarantee::on_one_port(shape)
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        gather_sent(v)
    }

    /// NCCL runs it only between nodes with one rank each (K14).
    fn is_withheld(&self, library: Library, shape: &Shape) -> bool {
        let alone = shape.group.is_some_and(|g| g.get() == 1);
        library == Library::Nccl && !alone
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let n = shape.ranks;
        let most = shape.params.aggregation.map_or(n, |a| a.get().min(n));
        let mut gather = Vec::new();
        for b in (0..ceil_lg(n)).rev() {
            let (chunks, route) = (chunks(n, b), Route::Offset(1 << b));
            let message = |count: u32, of: u32| Step::new(count, Share::new(of, n), route);
            if chunks >= most {
                gather.push(message(chunks / most, most));
            }
            if chunks % most > 0 {
                gather.push(message(1, chunks % most));
            }
        }
        gather_steps(shape, &gather, shift_turns(shape), emit);
    }

    /// 003 App. A prints ⌈lg N⌉ rounds whatever the message limit.
    fn paper<F: Field>(&self, v: &At<F>) -> Option<Cost<F>> {
        Some(gather_cost(v, v.ceil_lg(), 1))
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        Some(gather_schedule(shape, FarFirst::new(shape.ranks, shape.params.aggregation)))
    }
}

/// n_b: the chunks that a rank sends over 2^b ranks. The log-step rings send the same.
pub(super) fn chunks(n: u32, b: u32) -> u32 {
    let d = 1_u64 << b;
    ((u64::from(n) - 1 + d) / (2 * d)) as u32
}

static ROUNDS: Named = Named {
    name: "rounds",
    means: "rounds(N, a) = Σ ⌈c_b/a⌉ over b < ⌈lg N⌉, where c_b is the chunks that go 2^b ranks on",
    rule: rounds,
};

fn rounds(arguments: &[u64]) -> u64 {
    let &[n, most] = arguments else { return 0 };
    let (n, most) = (n as u32, most.max(1));
    (0..ceil_lg(n)).map(|b| u64::from(chunks(n, b)).div_ceil(most)).sum()
}

/// The all-gather: for b = ⌈lg N⌉ − 1 … 0 rank r sends those of the chunks r, r − 2^(b+1), … that
/// it has to r + 2^b, with a limited number per message.
#[derive(Debug, Clone, Copy)]
pub(super) struct FarFirst {
    ranks: u32,
    most: u32,
}

impl FarFirst {
    /// Over `ranks` ranks, with at most `aggregation` chunks in a message.
    pub(super) fn new(ranks: u32, aggregation: Option<NonZeroU32>) -> Self {
        Self { ranks, most: aggregation.map_or(u32::MAX, NonZeroU32::get) }
    }
}

impl Schedule for FarFirst {
    fn frame(&self) -> Frame {
        let rounds = rounds(&[self.ranks.into(), self.most.into()]);
        Frame::new(AllGather, self.ranks, self.ranks, rounds).turning()
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        let n = self.ranks;
        let mut message = round;
        for b in (0..ceil_lg(n)).rev() {
            let chunks = chunks(n, b);
            let messages = u64::from(chunks.div_ceil(self.most));
            if message < messages {
                // Below `chunks`, so that all offsets are below N.
                let first = message as u32 * self.most;
                let offsets = (first..chunks).take(self.most as usize).map(|i| (2 * i) << b);
                let runs = offsets.map(|offset| Run::one(back(rank, offset, n)));
                return out.push(Endpoint::Rank(on(rank, 1 << b, n)), Op::Copy, runs);
            }
            message -= messages;
        }
    }
}

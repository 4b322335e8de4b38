//! PAT: parallel aggregated trees, all-gather and reduce-scatter with a bounded message.
//!
//! ```text
//!   N = 8, no limit          at most one chunk a message (a = 1)
//!   r ─1─► r + 4             r ─1─► r + 4
//!   r ─2─► r + 2             r ─1─► r + 2   twice
//!   r ─4─► r + 1             r ─1─► r + 1   four times
//! ```
//!
//! Far first: for b = ⌈lg N⌉ − 1 … 0 a rank holds n_b chunks that r + 2^b lacks, and sends them in
//! messages of at most a chunks. rounds(N, a) = Σ_b ⌈n_b/a⌉ with
//! n_b = ⌊(N − 1 + 2^b)/2^(b+1)⌋, so that rounds(N, a)·α + (N − 1)/N·M/BW, at any N: ⌈lg N⌉
//! rounds without a limit, N − 1 at a = 1. The textbook prints one chunk a round in ⌈lg N⌉
//! rounds, which would deliver too few (K14). Exact on one full-duplex port; further ports let
//! rounds overlap. The reduce-scatter is the same walked backwards, adding.
//!
//! NCCL ships it from 2.23 on, for one rank a node; what a buffer holds limits a there. A shape
//! with several ranks a node is still priced: the rule of the library belongs to its policy.

use super::rounds::{gather_cost, gather_sent, gather_steps, shift_turns};
use super::{Algorithm, ClosedForm, Guarantee, Library, Meta, Route, Share, Step};
use crate::collective::Collective::{AllGather, ReduceScatter};
use crate::formula::{At, Cost, Field, Function, Ports, Shape, ceil_lg};

/// PAT.
pub static FAMILY: &[&dyn Algorithm] = &[&Pat];

struct Pat;

impl ClosedForm for Pat {
    fn meta(&self) -> &'static Meta {
        static META: Meta = Meta {
            id: "pat",
            title: "PAT",
            collectives: &[AllGather, ReduceScatter],
            aliases: &["pat_ag", "pat_rs"],
            known_as: &[(Library::Nccl, &[AllGather, ReduceScatter], "PAT")],
            summary: "a tree from every rank, far first, with at most a chunks in a message",
            source: "Jeaugey, PAT, arXiv:2506.20252, 2025; NCCL 2.23",
        };
        &META
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let messages = match v.shape.params.aggregation {
            None => v.ceil_lg(),
            Some(a) => {
                let value = rounds(&[v.shape.ranks.into(), a.get().into()]);
                let function = Function::Named("rounds", rounds);
                F::call(function, &[&v.n, &F::int(a.get().into())], value)
            }
        };
        gather_cost(v, messages, shift_turns(&v.shape))
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        if shape.ports == Ports::ONE { Guarantee::Equal } else { Guarantee::UpperBound }
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        gather_sent(v)
    }

    /// NCCL runs it between nodes with one rank each only (K14).
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

    /// 003 App. A prints ⌈lg N⌉ rounds whatever the messages hold.
    fn paper<F: Field>(&self, v: &At<F>) -> Option<Cost<F>> {
        Some(gather_cost(v, v.ceil_lg(), 1))
    }
}

/// n_b: the chunks that a rank sends 2^b ranks far. The log-step rings send the same.
pub(super) fn chunks(n: u32, b: u32) -> u32 {
    let d = 1_u64 << b;
    ((u64::from(n) - 1 + d) / (2 * d)) as u32
}

/// rounds(N, a) = Σ_b ⌈n_b/a⌉.
fn rounds(arguments: &[u64]) -> u64 {
    let &[n, most] = arguments else { return 0 };
    let (n, most) = (n as u32, most.max(1));
    (0..ceil_lg(n)).map(|b| u64::from(chunks(n, b)).div_ceil(most)).sum()
}

//! All-to-all: pairwise, direct, by relay round a ring, through a switch.
//!
//! ```text
//!   pairwise     step t   i ──► i + t          one block of M/N, N − 1 steps
//!   xor          step t   i ◄─► i xor t        the same in pairs, N = 2^m
//!   direct       all t at once                 as many steps as ports make of it
//!   ring relay   i ◄─► i ± 1                   what has further to go is passed on
//! ```
//!
//! Pairwise: (N − 1)(α + M/(N·BW)) on one full-duplex port, at any N. Further ports take several
//! steps at once, which `direct` prices: ⌈(N − 1)/k⌉(α + M/(N·BW)) on k ports. On one half-duplex
//! port, pairs take ×2 and shifts ×3 at most. (Thakur, Rabenseifner, Gropp, IJHPCA 19(1) 2005.)
//!
//! Ring relay: a block travels the shorter way around the ring, h = ⌊N/2⌋ hops at most. Aggregated,
//! step t = 1 … h forwards all blocks that have not arrived, h − t + 1 blocks to the right; the
//! busiest link carries h(h + 1)/2 blocks. On two ports it takes h·α + h(h + 1)/(2N)·M/BW if blocks
//! with two equally long ways go right, and h·α + N/8·M/BW for even N if half of them go each way.
//! On one port it takes (N − 1)·α + ⌊N²/4⌋/N·M/BW. With one block per message (`chunk`), every hop
//! of every distance is a message. The textbook prints (N − 1)·α + (N − 1)/N·M/BW, which is right
//! only at N = 2 and 4: relays cost N/8 times as much as pairwise on large rings (K13). On one
//! half-duplex port an even ring takes ×2, an odd one ×3 at most.
//!
//! Through a switch: h_sw·α_sw + (N − 1)/N·M/BW; only the latency collapses (K12).

mod schedule;

use self::schedule::{Order, Posted, Relayed, Switched};
use super::in_network::{hops, switch_steps};
use super::rounds::{
    exchange_turns, is_one_half, lanes, power_of_two, repeat, ring_turns, shift_turns, waves,
};
use super::shots::{Adds, exchange};
use super::{Algorithm, ClosedForm, Guarantee, Library, Meta, Reason, Route, Share, Step};
use crate::base::collective::Collective::AllToAll;
use crate::model::formula::{At, Cost, Field, Relay as Style, Shape, Tie};
use crate::model::schedule::Schedule;

/// The all-to-all algorithms that are not Bruck's.
pub static FAMILY: &[&dyn Algorithm] = &[&Pairwise, &PairwiseXor, &Direct, &Relay, &Hardware];

/// The cost (N − 1)(α + M/(N·BW)), `turns` times.
fn pairwise_cost<F: Field>(v: &At<F>, turns: u32) -> Cost<F> {
    let turns = F::int(turns.into());
    Cost::new(turns.clone() * v.others(), turns * v.others() / v.n.clone())
}

/// One block to each of the other ranks.
struct Pairwise;

impl ClosedForm for Pairwise {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "pairwise",
            title: "pairwise",
            collectives: &[AllToAll],
            aliases: &["pairwise_a2a"],
            known_as: &[
                (Library::Nccl, &[AllToAll], "SendRecv"),
                (Library::Rccl, &[AllToAll], "SendRecv"),
                (Library::OpenMpi, &[AllToAll], "2 pairwise"),
                (Library::Mpich, &[AllToAll], "pairwise"),
            ],
            summary: "in step t rank i sends rank i + t its block",
            source: "Thakur, Rabenseifner, Gropp, IJHPCA 19(1) 2005",
        }
    }

    /// NCCL serves the ranks of a node first.
    fn is_withheld(&self, library: Library, shape: &Shape) -> bool {
        let fills = shape.spans_domains() && shape.ranks.is_multiple_of(shape.group());
        library.connects_as_nccl() && fills
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        pairwise_cost(v, shift_turns(&v.shape))
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        Guarantee::on_one_port(shape)
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        v.others_share()
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let n = shape.ranks;
        for t in 1..n {
            let step = Step::new(1_u32, Share::new(1_u32, n), Route::Offset(t));
            repeat(step, shift_turns(shape), emit);
        }
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        Some(Box::new(Posted::new(shape.ranks, Order::Shifts)?))
    }
}

/// Pairwise exchange, in pairs.
struct PairwiseXor;

impl ClosedForm for PairwiseXor {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "pairwise-xor",
            title: "pairwise (XOR)",
            collectives: &[AllToAll],
            aliases: &["xor", "xor_a2a"],
            known_as: &[],
            summary: "in step t ranks i and i xor t exchange their blocks",
            source: "Thakur, Rabenseifner, Gropp, IJHPCA 19(1) 2005",
        }
    }

    fn applies(&self, shape: &Shape) -> Result<(), Reason> {
        power_of_two(shape)
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        pairwise_cost(v, exchange_turns(&v.shape))
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        Guarantee::in_pairs_on_one_port(shape)
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        v.others_share()
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let n = shape.ranks;
        for t in 1..n {
            let step = Step::new(1_u32, Share::new(1_u32, n), Route::Xor(t));
            repeat(step, exchange_turns(shape), emit);
        }
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        Some(Box::new(Posted::new(shape.ranks, Order::Pairs)?))
    }
}

/// All blocks posted at once, ordered by offset.
struct Direct;

impl ClosedForm for Direct {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "direct",
            title: "direct (all at once)",
            collectives: &[AllToAll],
            aliases: &["linear", "scattered", "direct_a2a"],
            known_as: &[
                (Library::OpenMpi, &[AllToAll], "1 linear"),
                (Library::Mpich, &[AllToAll], "scattered"),
                (Library::Gloo, &[AllToAll], "alltoall"),
            ],
            summary: "every rank posts its blocks for all others at once, nearest offset first",
            source: "MPICH and Open MPI, linear all-to-all",
        }
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let messages = waves(v);
        Cost::new(messages.clone(), messages / v.n.clone())
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        Guarantee::on_ports(shape)
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        v.others_share()
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        // With few ports the partners are served by offset, as in the pairwise exchange.
        exchange(shape, Share::new(1_u32, shape.ranks), Adds::Nothing, emit);
    }

    fn ports_needed(&self, shape: &Shape) -> u32 {
        shape.ranks - 1
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        Some(Box::new(Posted::new(shape.ranks, Order::AtOnce)?))
    }
}

/// Blocks passed on from neighbour to neighbour.
struct Relay;

impl ClosedForm for Relay {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "ring-relay",
            title: "ring relay",
            collectives: &[AllToAll],
            aliases: &["ring_relay", "ring_relay_a2a"],
            known_as: &[],
            summary: "every block travels the shorter way around a ring, forwarded by each rank",
            source: "spiceMonkey/collective-comm 01 §7.1, corrected: K13",
        }
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let two = two_ways(&v.shape);
        let even = v.shape.ranks.is_multiple_of(2);
        let split = even && v.shape.params.tie == Tie::Split;
        let int = |value: i64| F::int(value);
        let h = if even { v.n.clone() / int(2) } else { v.others() / int(2) };
        // h(h + 1)/2, the blocks that cross the busiest link; h² of them where ties are split.
        let triangle = h.clone() * (h.clone() + int(1)) / int(2);
        // ⌊N²/4⌋/N, what a rank sends, and half of it where ties are split.
        let sent = relayed(v);
        let beta = match (two, split) {
            (true, true) => v.n.clone() / int(8),
            (true, false) => triangle.clone() / v.n.clone(),
            (false, _) => sent,
        };
        let alpha = match (v.shape.params.relay, two, split) {
            (Style::Aggregated, true, _) => h,
            (Style::Aggregated, false, true) => v.n.clone(),
            (Style::Aggregated, false, false) => v.others(),
            (Style::Chunk, true, _) => triangle,
            (Style::Chunk, false, false) if even => h.clone() * h,
            (Style::Chunk, false, _) => int(2) * triangle,
        };
        let turns = int(ring_turns(&v.shape).into());
        Cost::new(turns.clone() * alpha, turns * beta)
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        let odd = shape.ranks % 2 == 1;
        if shape.ports.is_half() && (odd || !is_one_half(shape.ports)) {
            return Guarantee::UpperBound;
        }
        Guarantee::Equal
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        relayed(v)
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let n = u64::from(shape.ranks);
        let (two, turns) = (two_ways(shape), ring_turns(shape));
        let mut emit = |step: Step| repeat(step, turns, emit);
        match shape.params.relay {
            Style::Aggregated => relay_steps(shape.ranks, shape.params.tie, two, &mut emit),
            Style::Chunk => {
                for d in 1..=n / 2 {
                    let tie = 2 * d == n;
                    let of = if tie && shape.params.tie == Tie::Split { 2 * n } else { n };
                    let right_only = tie && shape.params.tie == Tie::Right;
                    let messages = if two || right_only { d } else { 2 * d };
                    let step = Step::new(messages, Share::new(1_u32, of), Route::Offset(1));
                    emit(step.at_once(if two && !right_only { 2 } else { 1 }));
                }
            }
        }
    }

    /// 003 §7.1 prints the cost of a pairwise exchange instead.
    fn paper<F: Field>(&self, v: &At<F>) -> Option<Cost<F>> {
        Some(pairwise_cost(v, 1))
    }

    fn ports_needed(&self, shape: &Shape) -> u32 {
        if shape.ranks > 2 { 2 } else { 1 }
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        let params = &shape.params;
        Some(Box::new(Relayed::new(shape.ranks, params.relay, params.tie)?))
    }
}

/// ⌊N²/4⌋/N, however ties are resolved.
fn relayed<F: Field>(v: &At<F>) -> F {
    if v.shape.ranks.is_multiple_of(2) {
        return v.n.clone() / F::int(4);
    }
    v.others() * (v.n.clone() + F::int(1)) / F::int(4) / v.n.clone()
}

/// Whether a rank serves both neighbours at once; two ranks share one link each way.
fn two_ways(shape: &Shape) -> bool {
    lanes(shape.ports, 2) == 2 && (shape.ranks > 2 || shape.params.tie == Tie::Right)
}

/// The aggregated relay on a ring of n ranks: step t forwards blocks with t or more hops to go.
pub(super) fn relay_steps(n: u32, tie: Tie, two_ways: bool, emit: &mut dyn FnMut(Step)) {
    let (h, even) = (n / 2, n.is_multiple_of(2));
    for t in 1..=h {
        let rest = h - t;
        // Chunks of M/N to the right and to the left; in halves where ties are split.
        let (right, left, of) = match (even, tie) {
            (true, Tie::Split) => (2 * rest + 1, 2 * rest + 1, 2 * n),
            (true, Tie::Right) => (rest + 1, rest, n),
            (false, _) => (rest + 1, rest + 1, n),
        };
        let at_once = if two_ways && left > 0 { 2 } else { 1 };
        let mut message = |chunks: u32| {
            if chunks > 0 {
                let step = Step::new(1_u32, Share::new(chunks, of), Route::Offset(1));
                emit(step.at_once(at_once));
            }
        };
        message(right);
        if !two_ways {
            message(left);
        }
    }
}

/// Through a switch that forwards to all ranks at once.
struct Hardware;

impl ClosedForm for Hardware {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "hw-all-to-all",
            title: "all-to-all through a switch",
            collectives: &[AllToAll],
            aliases: &["hw_a2a", "hw-a2a"],
            known_as: &[],
            summary: "every rank sends its buffer to the switch once; the switch delivers the blocks",
            source: "spiceMonkey/collective-comm 04 §1.4",
        }
    }

    fn applies(&self, shape: &Shape) -> Result<(), Reason> {
        super::in_network::crosses_a_switch(shape)
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let turns = F::int(exchange_turns(&v.shape).into());
        Cost::in_network(F::int(hops(&v.shape).into()), turns * v.others_share())
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        v.others_share()
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let chunks = exchange_turns(shape) * (shape.ranks - 1);
        switch_steps(shape, Share::new(chunks, shape.ranks), emit);
    }

    /// On half-duplex ports the data coming down wait for those going up anyway, so α_sw counts one
    /// time less.
    fn guarantee(&self, shape: &Shape) -> Guarantee {
        Guarantee::on_ports(shape)
    }

    /// Through one switch only: between two switches in a row all blocks would share a link.
    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        let fits = shape.ranks.checked_mul(shape.ranks).is_some();
        (hops(shape) == 2 && fits).then(|| Box::new(Switched { ranks: shape.ranks }) as Box<_>)
    }
}

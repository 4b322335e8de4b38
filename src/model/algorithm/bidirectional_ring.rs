//! Rings in both directions at once.
//!
//! ```text
//!     ┌──────────────┐
//!   0 ◄──► 1 ◄──► 2 ◄──► 3        split: one half of every chunk goes right, the other left
//!   └────────────────────┘        arc: a chunk goes both ways and meets itself half way round
//! ```
//!
//! The *split* is the ring twice, in opposite directions, each with half of every chunk. On two
//! full-duplex ports the halves overlap: 2(N−1)·α + (N−1)/N·M/BW for the all-reduce. The bandwidth
//! term halves, the number of steps does not.
//!
//! The *arc* sends each chunk only along the shorter way. It takes ⌊N/2⌋ steps, in each of which a
//! rank forwards one chunk right and one left; for even N the farthest rank gets half of the chunk
//! from each side. On two ports it takes ⌊N/2⌋·α + (N−1)/(2N)·M/BW for the all-gather or the
//! reduce-scatter (its reversal), twice that for the all-reduce.
//!
//! On one full-duplex port both variants send in turn and gain nothing over the plain ring in
//! bandwidth. Two ranks have one link each way, so a second port does not help them. Half-duplex
//! ports take turns as in the plain ring: at most ×2 for even N, ×3 for odd N. Patarasuk, Yuan, JPDC
//! 69(2) 2009 show that the bandwidth term is the minimum on one port.
//!
//! The cost often given for the split is (N−1)·α + (N−1)/N·M/BW. That is the cost of the arc, on two
//! ports and for odd N (even N: N·α); the split has 2(N−1) steps (K2 of the notes on the textbooks).
//! [`Form::Paper`](crate::model::formula::Form::Paper) gives the printed formula.

use super::rounds::{back, gather_schedule, gather_sent, on, passes};
use super::{Algorithm, ClosedForm, Guarantee, Meta, Route, Share, Step};
use crate::base::collective::Collective::{AllGather, AllReduce, ReduceScatter};
use crate::model::formula::{At, Cost, Field, Ports, Shape};
use crate::model::schedule::{Endpoint, Frame, Op, Run, Schedule, Sends, modulo};

/// The rings in both directions.
pub static FAMILY: &[&dyn Algorithm] = &[&Split, &Arc];

const SOURCE: &str = "the two-port variants of Patarasuk, Yuan, JPDC 69(2) 2009";

/// Half of every chunk each way.
struct Split;

impl ClosedForm for Split {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "bidirectional-ring-split",
            title: "bidirectional ring (halves)",
            collectives: &[AllReduce],
            aliases: &["bidir_ring_split", "bidir_ring_split_ar"],
            known_as: &[],
            summary: "two rings in opposite directions, each with half of every chunk",
            source: SOURCE,
        }
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let times = i64::from(times(&v.shape));
        Cost::new(F::int(2 * times) * v.others(), F::int(times) * v.others_share())
            .reducing(v.others_share())
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        Guarantee::on_ports(shape)
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        F::int(2) * v.others_share()
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let n = u64::from(shape.ranks);
        for adds in [true, false] {
            both_ways(shape, n - 1, Share::new(1_u32, 2 * n), adds, emit);
        }
    }

    fn ports_needed(&self, _: &Shape) -> u32 {
        2
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        let halves = shape.ranks.checked_mul(2)?;
        Some(Box::new(Opposite { ranks: shape.ranks, halves }))
    }
}

/// Chunks take the shorter way around.
struct Arc;

impl ClosedForm for Arc {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "bidirectional-ring-arc",
            title: "bidirectional ring (half way)",
            collectives: &[AllReduce, AllGather, ReduceScatter],
            aliases: &[
                "bidir_ring",
                "bidir_ring_arc",
                "bidir_ring_arc_ar",
                "bidir_ring_arc_ag",
                "bidir_ring_arc_rs",
            ],
            known_as: &[],
            summary: "every chunk travels around the ring both ways at once, half way each",
            source: SOURCE,
        }
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let repeats = i64::from(passes(&v.shape) * times(&v.shape));
        let half = v.floor(&(v.n.clone() / F::int(2)), (v.shape.ranks / 2).into());
        let volume = if repeats % 2 == 0 {
            F::int(repeats / 2) * v.others_share()
        } else {
            F::int(repeats) * v.others() / (F::int(2) * v.n.clone())
        };
        let gamma = if v.shape.collective.reduces() { v.others_share() } else { F::int(0) };
        Cost::new(F::int(repeats) * half, volume).reducing(gamma)
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        Guarantee::on_ports(shape)
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        gather_sent(v)
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let n = u64::from(shape.ranks);
        let (whole, half) = ((n - 1) / 2, 1 - n % 2);
        let mut pass = |adds| {
            both_ways(shape, whole, Share::new(1_u32, n), adds, emit);
            both_ways(shape, half, Share::new(1_u32, 2 * n), adds, emit);
        };
        if shape.collective.reduces() {
            pass(true);
        }
        if shape.collective != ReduceScatter {
            pass(false);
        }
    }

    /// The formula printed in 000 for the all-reduce; 000 gives none for other operations.
    fn paper<F: Field>(&self, v: &At<F>) -> Option<Cost<F>> {
        (v.shape.collective == AllReduce).then(|| Cost::new(v.others(), v.others_share()))
    }

    fn ports_needed(&self, _: &Shape) -> u32 {
        2
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        // The farthest rank gets half of a chunk from each side.
        let pieces = if shape.ranks.is_multiple_of(2) { 2 } else { 1 };
        shape.ranks.checked_mul(pieces)?;
        Some(gather_schedule(shape, HalfWay { ranks: shape.ranks, pieces }))
    }
}

/// Whether a rank sends right and left at once: it needs two ports and two neighbours.
fn is_double(shape: &Shape) -> bool {
    shape.ranks >= 3 && shape.ports.both_ways(2) == 2
}

/// Messages one after another in a step.
fn times(shape: &Shape) -> u32 {
    match (shape.ports, shape.ranks % 2) {
        _ if is_double(shape) => 1,
        (Ports::Half(k), 0) if k.get() == 1 => 4,
        (Ports::Half(k), _) if k.get() == 1 => 6,
        _ => 2,
    }
}

/// `steps` steps in which each rank sends `share` right and `share` left, and may add what arrives.
fn both_ways(shape: &Shape, steps: u64, share: Share, adds: bool, emit: &mut dyn FnMut(Step)) {
    if steps == 0 {
        return;
    }
    let messages = u64::from(times(shape));
    let step = Step::new(steps * messages, share, Route::Offset(1));
    let step = step.at_once(if is_double(shape) { 2 } else { 1 });
    if !adds {
        return emit(step);
    }
    if messages == 1 {
        return emit(step.reducing_share(Share { chunks: 2 * share.chunks, ..share }));
    }
    emit(Step { count: 2 * steps, ..step }.reducing());
    if messages > 2 {
        emit(Step { count: (messages - 2) * steps, ..step });
    }
}

/// The split: in round t rank i sends the first half of chunk i − t right and the second half of
/// chunk i + t left; the first N − 1 rounds add, the next N − 1 store.
#[derive(Debug, Clone, Copy)]
struct Opposite {
    ranks: u32,
    /// 2N: halves 2c and 2c + 1 are those of chunk c.
    halves: u32,
}

impl Schedule for Opposite {
    fn frame(&self) -> Frame {
        let rounds = 2 * u64::from(self.ranks).saturating_sub(1);
        Frame::new(AllReduce, self.ranks, self.halves, rounds).turning()
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        let n = self.ranks;
        let op = if round + 1 < n.into() { Op::Reduce } else { Op::Copy };
        let gone = modulo(round, n);
        let first = Run::one(2 * back(rank, gone, n));
        let second = Run::one(2 * on(rank, gone, n) + 1);
        out.push(Endpoint::Rank(on(rank, 1, n)), op, [first]);
        out.push(Endpoint::Rank(back(rank, 1, n)), op, [second]);
    }
}

/// The arc's all-gather: in round t rank i sends chunk i − t right and chunk i + t left.
#[derive(Debug, Clone, Copy)]
struct HalfWay {
    ranks: u32,
    /// The parts of a chunk: 2 where the last round sends only one of them each way.
    pieces: u32,
}

impl Schedule for HalfWay {
    fn frame(&self) -> Frame {
        let rounds = u64::from(self.ranks / 2);
        Frame::new(AllGather, self.ranks, self.ranks * self.pieces, rounds).turning()
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        let (n, pieces) = (self.ranks, self.pieces);
        let gone = modulo(round, n);
        let meets = pieces == 2 && 2 * (round + 1) == u64::from(n);
        let len = if meets { 1 } else { pieces };
        let right = Run { start: back(rank, gone, n) * pieces, len };
        let left = Run { start: on(rank, gone, n) * pieces + (pieces - len), len };
        out.push(Endpoint::Rank(on(rank, 1, n)), Op::Copy, [right]);
        out.push(Endpoint::Rank(back(rank, 1, n)), Op::Copy, [left]);
    }
}

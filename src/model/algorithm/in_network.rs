//! In-network collectives: the switch multicasts and adds.
//!
//! ```text
//!   rank ──x──►┌────────┐──x──► rank       one hop up, one hop down;
//!   rank ──x──►│ switch │──x──► rank       each port carries the vector once each way
//!   rank ──x──►└────────┘──x──► rank
//! ```
//!
//! NVLink SHARP, InfiniBand SHARP (Graham et al., COMHPC 2016) and similar.
//!
//! The same hardware read by every rank instead, in one phase (one-shot multimem):
//!
//! ```text
//!   rank 0 ◄─Σ─[switch]◄─x─ all ranks      each rank reads the sum of all vectors; what all of
//!   rank 1 ◄─Σ─[switch]◄─x─ all ranks      them read crosses every rank's link N times
//! ```
//!
//! Broadcast, reduce, all-reduce: 2·α_sw + M/BW. All-gather, reduce-scatter: 2·α_sw + (N −
//! 1)/N·M/BW. k tiers of switches take 2k hops (`switch_hops`). Broadcast and all-gather need a
//! switch that multicasts, reduce and reduce-scatter one that adds, all-reduce both. The ranks add
//! nothing, except that in a reduce-scatter each adds its own block, which is not sent. The time
//! α_sw is a parameter of the switch; that of a network's includes what the hosts do. The schedule
//! is one message up and one down per rank; a switch forwards while it receives. Blocks of an
//! all-gather or reduce-scatter over several tiers would share the links between switches, which
//! the formula, made for a fat tree, does not price: there is no schedule for those. Other texts
//! count one hop for some of these (K12). On one half-duplex port data going up and data coming
//! down take turns.
//!
//! A kernel with `multimem` instructions reads the sum of its own block and stores it to all: a
//! reduce-scatter and an all-gather through the switch, (N − 1)/N and 1/N of the vector up, 1/N and
//! (N − 1)/N down. Each element follows the one before, so both phases together carry the vector
//! once each way: this is the all-reduce above, and needs no second definition. Such a kernel sends
//! its own block through the switch, too, (N + 1)/N·M in all, and waits for two more hops. The rate
//! of a switch in the profiles was measured with such kernels and includes both.
//!
//! One-shot multimem has one phase and no block to hand on, but N readers: every rank sends N·M.
//! On k ports it takes ⌈N/k⌉(α_sw + M/BW) + α_sw. The schedule gives the switch one adder for each
//! reader.
//!
//! A switch that only multicasts turns this around (one-shot multicast): every rank stores its
//! vector once, the switch hands it to all others, and each adds N − 1 vectors. A rank sends M and
//! receives (N − 1)·M, so on k ports it takes ⌈(N − 1)/k⌉(α_sw + M/BW) + α_sw.

use super::rounds::{exchange_turns, in_waves, lanes, on};
use super::{Algorithm, ClosedForm, Guarantee, Library, Meta, Reason, Route, Share, Step};
use crate::base::collective::Collective::{
    self, AllGather, AllReduce, Broadcast, Reduce, ReduceScatter,
};
use crate::model::formula::{At, Cost, Field, Shape};
use crate::model::schedule::{Endpoint, Frame, Op, Run, Schedule, Sends};

/// The in-network collectives.
pub static FAMILY: &[&dyn Algorithm] = &[&InNetwork, &OneShot, &Multicast];

/// Switch hops up and down: two per tier of switches.
pub(super) fn hops(shape: &Shape) -> u32 {
    shape.params.switch_hops.unwrap_or(2)
}

/// Whether a message crosses a switch at all.
pub(super) fn crosses_a_switch(shape: &Shape) -> Result<(), Reason> {
    if hops(shape) == 0 {
        return Err(Reason::new("a message must cross at least one switch hop"));
    }
    Ok(())
}

/// One hop with the data, then the further hops without data: the data flow through.
pub(super) fn switch_steps(shape: &Shape, share: Share, emit: &mut dyn FnMut(Step)) {
    emit(Step::new(1_u32, share, Route::Switch));
    if hops(shape) > 1 {
        emit(Step::new(hops(shape) - 1, Share::NONE, Route::Switch));
    }
}

pub(super) struct InNetwork;

impl ClosedForm for InNetwork {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "inc",
            title: "in-network",
            collectives: &[AllReduce, AllGather, ReduceScatter, Broadcast, Reduce],
            aliases: &[
                "in-network",
                "nvls",
                "sharp",
                "multimem",
                "two-shot-multimem",
                "nvls-zero-copy",
            ],
            known_as: &[(Library::Nccl, &[AllReduce, AllGather, ReduceScatter], "NVLS")],
            summary: "the switch adds what the ranks send and multicasts what they share",
            source: "Graham et al., SHARP, COMHPC 2016; spiceMonkey/collective-comm 04",
        }
    }

    fn applies(&self, shape: &Shape) -> Result<(), Reason> {
        crosses_a_switch(shape)
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let turns = F::int(exchange_turns(&v.shape).into());
        let beta = match v.shape.collective {
            // The root sends its own part up and gets the sum.
            AllReduce | Reduce => turns,
            AllGather | ReduceScatter => turns * v.others_share(),
            _ => F::int(1),
        };
        let cost = Cost::in_network(F::int(hops(&v.shape).into()), beta);
        match v.shape.collective {
            ReduceScatter => cost.reducing(F::int(1) / v.n.clone()),
            _ => cost,
        }
    }

    /// Where up and down share a port, the data coming down wait anyway, so α_sw counts one time
    /// less; and an all-gather sends less up than this counts.
    fn guarantee(&self, shape: &Shape) -> Guarantee {
        let bound = shape.collective != Broadcast && shape.ports.is_half();
        if bound { Guarantee::UpperBound } else { Guarantee::Equal }
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        match v.shape.collective {
            AllGather => F::int(1) / v.n.clone(),
            ReduceScatter => v.others_share(),
            _ => F::int(1),
        }
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let turns = exchange_turns(shape);
        let share = match shape.collective {
            AllReduce | Reduce => Share::new(turns, 1_u32),
            AllGather | ReduceScatter => Share::new(turns * (shape.ranks - 1), shape.ranks),
            _ => Share::ALL,
        };
        let own = Share::new(1_u32, shape.ranks);
        switch_steps(shape, share, &mut |step| {
            let adds = shape.collective == ReduceScatter && step.share == share;
            emit(if adds { step.reducing_share(own) } else { step });
        });
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        // One hop up, one down, and one between any two switches in a row. Blocks of all ranks
        // would share the link between two switches, which takes longer than the formula, made for
        // a fat tree.
        let switches = hops(shape).checked_sub(1).filter(|&switches| switches > 0)?;
        let blocks = matches!(shape.collective, AllGather | ReduceScatter);
        let Shape { collective, ranks, .. } = *shape;
        (switches == 1 || !blocks)
            .then(|| Box::new(Switched { collective, ranks, tiers: switches }) as Box<dyn Schedule>)
    }
}

/// One round each for the way up to the first switch, between each two switches, and down.
///
/// A switch adds or stores what comes up. In an all-gather or reduce-scatter a rank's own block is
/// not sent to itself.
#[derive(Debug, Clone, Copy)]
struct Switched {
    collective: Collective,
    ranks: u32,
    /// Switches in a row, one per tier.
    tiers: u32,
}

impl Switched {
    /// All chunks.
    fn all(self) -> Run {
        Run { start: 0, len: self.frame().parts }
    }

    /// All chunks except that of `rank`.
    fn others(self, rank: u32) -> impl Iterator<Item = Run> {
        Run::around(rank + 1, self.ranks - 1, self.ranks)
    }

    /// What `rank` sends to the first switch.
    fn up(self, rank: u32, out: &mut Sends) {
        let switch = Endpoint::Switch(0);
        match self.collective {
            AllGather => out.push(switch, Op::Copy, [Run::one(rank)]),
            ReduceScatter => out.push(switch, Op::Reduce, self.others(rank)),
            Broadcast if rank > 0 => {}
            Broadcast => out.push(switch, Op::Copy, [self.all()]),
            _ => out.push(switch, Op::Reduce, [self.all()]),
        }
    }

    /// What the last switch sends to the ranks.
    fn down(self, out: &mut Sends) {
        for rank in 0..self.ranks {
            let to = Endpoint::Rank(rank);
            match (self.collective, rank) {
                (AllGather, _) => out.push(to, Op::Copy, self.others(rank)),
                (ReduceScatter, _) => out.push(to, Op::Reduce, [Run::one(rank)]),
                (AllReduce, _) | (Reduce, 0) | (Broadcast, 1..) => {
                    out.push(to, Op::Copy, [self.all()]);
                }
                _ => {}
            }
        }
    }
}

impl Schedule for Switched {
    fn frame(&self) -> Frame {
        let parts = match self.collective {
            AllGather | ReduceScatter => self.ranks,
            _ => 1,
        };
        let rounds = if self.ranks > 1 { u64::from(self.tiers) + 1 } else { 0 };
        let frame = Frame::new(self.collective, self.ranks, parts, rounds);
        Frame { switches: self.tiers, ..frame }
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        match from {
            Endpoint::Rank(rank) if round == 0 => self.up(rank, out),
            Endpoint::Switch(switch) if round == u64::from(switch) + 1 => {
                if switch + 1 == self.tiers {
                    self.down(out);
                } else {
                    out.push(Endpoint::Switch(switch + 1), Op::Copy, [self.all()]);
                }
            }
            _ => {}
        }
    }
}

/// All-reduce in which every rank reads the sum of all vectors from the switch.
struct OneShot;

impl OneShot {
    /// Vectors that a rank sends one after another: one for each reader, its own sum included.
    fn waves<F: Field>(v: &At<F>) -> F {
        in_waves(v, v.n.clone(), v.shape.ranks, lanes(v.shape.ports, v.shape.ranks))
    }
}

impl ClosedForm for OneShot {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "one-shot-multimem",
            title: "one shot, the switch adds",
            collectives: &[AllReduce],
            aliases: &["multimem-one-shot"],
            known_as: &[],
            summary: "every rank reads the sum of all vectors from the switch, which reads all for each",
            source: "pytorch/pytorch, CUDASymmetricMemoryOps.cu, multimem_one_shot_all_reduce",
        }
    }

    fn applies(&self, shape: &Shape) -> Result<(), Reason> {
        crosses_a_switch(shape)
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let (waves, further) = (Self::waves(v), F::int(i64::from(hops(&v.shape)) - 1));
        let turns = F::int(i64::from(exchange_turns(&v.shape)) - 1);
        Cost::in_network(waves.clone() + further, waves + turns)
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        Guarantee::on_ports(shape)
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        v.n.clone()
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let waves = shape.ranks.div_ceil(lanes(shape.ports, shape.ranks));
        if waves > 1 {
            emit(Step::new(waves - 1, Share::ALL, Route::Switch));
        }
        switch_steps(shape, Share::new(exchange_turns(shape), 1_u32), emit);
    }

    fn ports_needed(&self, shape: &Shape) -> u32 {
        shape.ranks
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        (hops(shape) == 2).then(|| Box::new(Readers { ranks: shape.ranks }) as Box<dyn Schedule>)
    }
}

/// Up to the switch in one round and down in the other, with a part of the switch for each rank.
fn one_for_each(ranks: u32) -> Frame {
    let (rounds, switches) = if ranks > 1 { (2, ranks) } else { (0, 0) };
    Frame { switches, ..Frame::new(AllReduce, ranks, 1, rounds) }
}

/// An adder of the switch for each rank that reads: all vectors up to it, the sum down to its rank.
#[derive(Debug, Clone, Copy)]
struct Readers {
    ranks: u32,
}

impl Schedule for Readers {
    fn frame(&self) -> Frame {
        one_for_each(self.ranks)
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        match (round, from) {
            (0, Endpoint::Rank(rank)) => {
                let readers = (0..self.ranks).map(|offset| on(rank, offset, self.ranks));
                readers.for_each(|r| out.push(Endpoint::Switch(r), Op::Reduce, [Run::one(0)]));
            }
            (1, Endpoint::Switch(reader)) => {
                out.push(Endpoint::Rank(reader), Op::Copy, [Run::one(0)]);
            }
            _ => {}
        }
    }
}

/// All-reduce in which the switch hands every rank's vector to all others, which add it.
struct Multicast;

impl Multicast {
    /// Vectors that a rank receives one after another: one from each other rank.
    fn waves<F: Field>(v: &At<F>) -> F {
        let others = v.shape.ranks - 1;
        in_waves(v, v.others(), others, lanes(v.shape.ports, others))
    }
}

impl ClosedForm for Multicast {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "one-shot-multicast",
            title: "one shot, the switch multicasts",
            collectives: &[AllReduce],
            aliases: &["multicast-one-shot"],
            known_as: &[],
            summary: "every rank stores its vector once, the switch hands it to all others, which add it",
            source: "microsoft/mscclpp, nvls-packet all-reduce; NVIDIA/nccl, symmetric AGxLLMC_R",
        }
    }

    fn applies(&self, shape: &Shape) -> Result<(), Reason> {
        crosses_a_switch(shape)
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let (waves, further) = (Self::waves(v), F::int(i64::from(hops(&v.shape)) - 1));
        let turns = F::int(i64::from(exchange_turns(&v.shape)) - 1);
        Cost::in_network(waves.clone() + further, waves + turns).reducing(v.others())
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        Guarantee::on_ports(shape)
    }

    fn sent<F: Field>(&self, _: &At<F>) -> F {
        F::int(1)
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let others = shape.ranks - 1;
        let k = lanes(shape.ports, others);
        let waves = others.div_ceil(k);
        let added = |vectors: u32| Share::new(vectors, 1_u32);
        if waves > 1 {
            let step = Step::new(waves - 1, Share::ALL, Route::Switch);
            emit(step.reducing_share(added(k)));
        }
        let last = others - (waves - 1) * k;
        let mut first = true;
        switch_steps(shape, Share::new(exchange_turns(shape), 1_u32), &mut |step| {
            emit(if first { step.reducing_share(added(last)) } else { step });
            first = false;
        });
    }

    fn ports_needed(&self, shape: &Shape) -> u32 {
        shape.ranks - 1
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        (hops(shape) == 2).then(|| Box::new(Handed { ranks: shape.ranks }) as Box<dyn Schedule>)
    }
}

/// A multicast address of the switch for each rank: its vector up to it, and down to all others.
#[derive(Debug, Clone, Copy)]
struct Handed {
    ranks: u32,
}

impl Schedule for Handed {
    fn frame(&self) -> Frame {
        one_for_each(self.ranks)
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        match (round, from) {
            (0, Endpoint::Rank(rank)) => {
                out.push(Endpoint::Switch(rank), Op::Copy, [Run::one(0)]);
            }
            (1, Endpoint::Switch(of)) => {
                let others = (1..self.ranks).map(|offset| on(of, offset, self.ranks));
                others.for_each(|to| out.push(Endpoint::Rank(to), Op::Reduce, [Run::one(0)]));
            }
            _ => {}
        }
    }
}

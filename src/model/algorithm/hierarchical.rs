//! Hierarchies: one algorithm inside each domain of G ranks, another between the domains.
//!
//! ```text
//!   node 0          node 1          node D−1
//!   0 1 2 3         4 5 6 7         …            inside: reduce-scatter, later all-gather
//!   │ │ │ │         │ │ │ │
//!   └─┼─┼─┼────────┘ │ │ │                      between: rank g of every node, with its
//!     └─┼─┼──────────┘ │ │                       shard of M/G (or one leader with all of M)
//! ```
//!
//! A composition is data: which part runs where and on how much of the vector. An all-reduce is a
//! reduce-scatter inside, an all-reduce of each shard between, and an all-gather inside: 2D ring,
//! ring-tree and NVLSTree are instances. With a leader it is a reduce to the leader, an all-reduce
//! of the leaders, and a broadcast from the leader. The parts' closed forms add up, with α₁, BW₁
//! inside and α₂, BW₂ between; with fewer NICs than shards, ⌈G/NICs⌉ shards share one. The sum is
//! exact where every phase ends everywhere before the next begins, which is how the two-level
//! algorithms of libraries are written. Without that barrier phases overlap a little.
//!
//! Slices of a torus (Cloud TPU's Multislice) are such domains: inside, the parts go along its sides,
//! over as many ports as a chip has links there (`dims` are the sides of a slice).
//!
//! Sources: Chan, Heimlich, Purkayastha, van de Geijn, CCPE 19(13) 2007; spiceMonkey/
//! collective-comm 03 §2 for the compositions over tiers; microsoft/mscclpp
//! `python/mscclpp_benchmark/allreduce.cu` (`allreduce5`) for two shots inside and one between.

use std::num::NonZeroU32;

use super::rounds::shift_turns;
use super::{Algorithm, ClosedForm, Guarantee, Library, Meta, Reason, Route, Share, Step};
use super::{
    binomial, double_binary_tree, in_network, rabenseifner, recursive_doubling, ring, shots, torus,
};
use crate::base::collective::Collective::{
    self, AllGather, AllReduce, AllToAll, Broadcast, Reduce, ReduceScatter,
};
use crate::model::formula::{At, Cost, Field, Level, Ports, Shape};
use crate::model::schedule::combine::{self, Tier, Tiers};
use crate::model::schedule::{Endpoint, Frame, Op, Run, Schedule, Sends};

/// The compositions.
pub static FAMILY: &[&dyn Algorithm] = &[
    &RING_RING,
    &RING_TREE,
    &RING_DBT,
    &RING_RABENSEIFNER,
    &RABENSEIFNER_RING,
    &RABENSEIFNER_RABENSEIFNER,
    &RABENSEIFNER_TREE,
    &SWITCH_RING,
    &SWITCH_TREE,
    &SWITCH_DBT,
    &SWITCH_RABENSEIFNER,
    &SLICE_RING,
    &SLICE_RABENSEIFNER,
    &LEADER_RING,
    &LEADER_TREE,
    &LEADER_DOUBLING,
    &LEADER_RABENSEIFNER,
    &SHOTS,
    &TieredPairwise,
];

/// One phase: an algorithm of a collective, inside domains or between them.
struct Part {
    algorithm: &'static dyn Algorithm,
    collective: Collective,
    level: Level,
}

/// How much of the vector crosses between domains.
#[derive(Clone, Copy, PartialEq)]
enum Crossing {
    /// Every rank sends its shard of M/G across.
    Shards,
    /// One leader per domain sends all of M across.
    Leader,
}

/// A composition: its parts for each collective that it implements.
struct Hierarchical {
    meta: Meta,
    crossing: Crossing,
    parts: &'static [(Collective, &'static [Part])],
}

const fn inside(algorithm: &'static dyn Algorithm, collective: Collective) -> Part {
    Part { algorithm, collective, level: Level::Inner }
}

const fn between(algorithm: &'static dyn Algorithm, collective: Collective) -> Part {
    Part { algorithm, collective, level: Level::Outer }
}

/// A composition in one line: names, how it crosses, and the parts of each collective.
macro_rules! composition {
    ($name:ident, $id:literal, $title:literal, $aliases:expr, $known:expr, $summary:literal,
     $crossing:ident, $($collective:ident: $($part:expr),+;)+) => {
        static $name: Hierarchical = Hierarchical {
            meta: Meta {
                id: $id,
                title: $title,
                collectives: &[$($collective),+],
                aliases: $aliases,
                known_as: $known,
                summary: $summary,
                source: "Chan, Heimlich, Purkayastha, van de Geijn, CCPE 19(13) 2007; \
                         spiceMonkey/collective-comm 03 §2.1",
            },
            crossing: Crossing::$crossing,
            parts: &[$(($collective, &[$($part),+])),+],
        };
    };
}

const RING: &dyn Algorithm = &ring::Ring;
const TORUS: &dyn Algorithm = &torus::Rings { wraps: true };
const HALVING: &dyn Algorithm = &recursive_doubling::Halving;
const DOUBLING: &dyn Algorithm = &recursive_doubling::Doubling;
const WHOLE: &dyn Algorithm = &recursive_doubling::Whole;
const NEAR: &dyn Algorithm = &rabenseifner::Near;
const SWITCH: &dyn Algorithm = &in_network::InNetwork;
const BINOMIAL: &dyn Algorithm = &binomial::NEAR_FIRST;
const TREE: &dyn Algorithm = &binomial::Both;
const DBT: &dyn Algorithm = &double_binary_tree::DoubleTree;
const SHOT: &dyn Algorithm = &shots::OneShot;
const HALF: &dyn Algorithm = &shots::Half;

composition!(RING_RING, "2d-ring", "2D ring", &["rs-ar-ag", "hier_2d_ring", "hier_2d_ring_ar", "ring-ring"], &[],
    "ring inside, ring between equal local ranks on their shards", Shards,
    AllReduce: inside(RING, ReduceScatter), between(RING, AllReduce), inside(RING, AllGather);
    AllGather: between(RING, AllGather), inside(RING, AllGather);
    ReduceScatter: inside(RING, ReduceScatter), between(RING, ReduceScatter););
composition!(RING_TREE, "ring-tree", "ring in node, tree between", &["hier_ring_tree", "hier_ring_tree_ar"], &[],
    "ring inside, binomial reduce and broadcast between", Shards,
    AllReduce: inside(RING, ReduceScatter), between(TREE, AllReduce), inside(RING, AllGather););
composition!(RING_DBT, "ring-dbt", "ring in node, double tree between", &[], &[],
    "ring inside, double binary tree between", Shards,
    AllReduce: inside(RING, ReduceScatter), between(DBT, AllReduce), inside(RING, AllGather););
composition!(RING_RABENSEIFNER, "ring-rabenseifner", "ring in node, Rabenseifner between", &[], &[],
    "ring inside, recursive halving and doubling between", Shards,
    AllReduce: inside(RING, ReduceScatter), between(NEAR, AllReduce), inside(RING, AllGather););
composition!(RABENSEIFNER_RING, "rabenseifner-ring", "halving in node, ring between", &[], &[],
    "recursive halving and doubling inside, ring between", Shards,
    AllReduce: inside(HALVING, ReduceScatter), between(RING, AllReduce), inside(DOUBLING, AllGather);
    AllGather: between(RING, AllGather), inside(DOUBLING, AllGather);
    ReduceScatter: inside(HALVING, ReduceScatter), between(RING, ReduceScatter););
composition!(RABENSEIFNER_RABENSEIFNER, "rabenseifner-rabenseifner", "halving in node and between", &[], &[],
    "recursive halving and doubling inside and between", Shards,
    AllReduce: inside(HALVING, ReduceScatter), between(NEAR, AllReduce), inside(DOUBLING, AllGather);
    AllGather: between(DOUBLING, AllGather), inside(DOUBLING, AllGather);
    ReduceScatter: inside(HALVING, ReduceScatter), between(HALVING, ReduceScatter););
composition!(RABENSEIFNER_TREE, "rabenseifner-tree", "halving in node, tree between", &[], &[],
    "recursive halving and doubling inside, binomial reduce and broadcast between", Shards,
    AllReduce: inside(HALVING, ReduceScatter), between(TREE, AllReduce), inside(DOUBLING, AllGather););
composition!(SWITCH_RING, "nvls-ring", "NVLS in node, ring between", &["inc-ring"], &[],
    "the switch adds and multicasts inside, ring between", Shards,
    AllReduce: inside(SWITCH, ReduceScatter), between(RING, AllReduce), inside(SWITCH, AllGather);
    AllGather: between(RING, AllGather), inside(SWITCH, AllGather);
    ReduceScatter: inside(SWITCH, ReduceScatter), between(RING, ReduceScatter););
composition!(SWITCH_TREE, "nvls-tree", "NVLS in node, tree between", &["inc-tree"], &[],
    "the switch adds and multicasts inside, binomial reduce and broadcast between", Shards,
    AllReduce: inside(SWITCH, ReduceScatter), between(TREE, AllReduce), inside(SWITCH, AllGather););
composition!(SWITCH_DBT, "nvls-dbt", "NVLS in node, double tree between", &["inc-dbt"], &[],
    "the switch adds and multicasts inside, double binary tree between", Shards,
    AllReduce: inside(SWITCH, ReduceScatter), between(DBT, AllReduce), inside(SWITCH, AllGather););
composition!(SWITCH_RABENSEIFNER, "nvls-rabenseifner", "NVLS in node, Rabenseifner between", &["inc-rabenseifner"], &[],
    "the switch adds and multicasts inside, recursive halving and doubling between", Shards,
    AllReduce: inside(SWITCH, ReduceScatter), between(NEAR, AllReduce), inside(SWITCH, AllGather););
composition!(SLICE_RING, "slice-ring", "torus inside, ring between", &["slices", "multislice"], &[],
    "along the sides of a torus inside, ring between equal chips of the slices on their shards", Shards,
    AllReduce: inside(TORUS, ReduceScatter), between(RING, AllReduce), inside(TORUS, AllGather);
    AllGather: between(RING, AllGather), inside(TORUS, AllGather);
    ReduceScatter: inside(TORUS, ReduceScatter), between(RING, ReduceScatter););
composition!(SLICE_RABENSEIFNER, "slice-rabenseifner", "torus inside, Rabenseifner between", &[], &[],
    "along the sides of a torus inside, recursive halving and doubling between", Shards,
    AllReduce: inside(TORUS, ReduceScatter), between(NEAR, AllReduce), inside(TORUS, AllGather);
    AllGather: between(DOUBLING, AllGather), inside(TORUS, AllGather);
    ReduceScatter: inside(TORUS, ReduceScatter), between(HALVING, ReduceScatter););
composition!(LEADER_RING, "leader", "leaders, ring between", &["leader-ring", "hier_leader", "hier_leader_ar"], &[],
    "binomial reduce to a leader, ring of the leaders, binomial broadcast", Leader,
    AllReduce: inside(BINOMIAL, Reduce), between(RING, AllReduce), inside(BINOMIAL, Broadcast););
composition!(LEADER_TREE, "leader-tree", "leaders, tree between", &[],
    &[(Library::Mpich, &[Broadcast, Reduce], "smp")],
    "binomial trees to, between and from leaders", Leader,
    AllReduce: inside(BINOMIAL, Reduce), between(TREE, AllReduce), inside(BINOMIAL, Broadcast);
    Broadcast: between(BINOMIAL, Broadcast), inside(BINOMIAL, Broadcast);
    Reduce: inside(BINOMIAL, Reduce), between(BINOMIAL, Reduce););
composition!(LEADER_DOUBLING, "leader-doubling", "leaders, doubling between", &[],
    &[(Library::Mpich, &[AllReduce], "smp")],
    "binomial reduce to a leader, recursive doubling of the leaders, binomial broadcast", Leader,
    AllReduce: inside(BINOMIAL, Reduce), between(WHOLE, AllReduce), inside(BINOMIAL, Broadcast););
composition!(LEADER_RABENSEIFNER, "leader-rabenseifner", "leaders, Rabenseifner between", &[], &[],
    "binomial reduce to a leader, Rabenseifner of the leaders, binomial broadcast", Leader,
    AllReduce: inside(BINOMIAL, Reduce), between(NEAR, AllReduce), inside(BINOMIAL, Broadcast););

/// What engines' kernels do over nodes: straight to all others, inside and between.
static SHOTS: Hierarchical = Hierarchical {
    meta: Meta {
        id: "two-shot-one-shot",
        title: "two shots in node, one between",
        collectives: &[AllReduce],
        aliases: &["hierarchical-two-shot"],
        known_as: &[],
        summary: "blocks to their owners inside, shards to equal local ranks at once, sums to all inside",
        source: "microsoft/mscclpp, python/mscclpp_benchmark/allreduce.cu, allreduce5",
    },
    crossing: Crossing::Shards,
    parts: &[(
        AllReduce,
        &[inside(HALF, ReduceScatter), between(SHOT, AllReduce), inside(HALF, AllGather)],
    )],
};

impl Hierarchical {
    fn parts(&self, collective: Collective) -> &'static [Part] {
        self.parts.iter().find(|(c, _)| *c == collective).map_or(&[], |(_, parts)| parts)
    }

    /// The shape of a part.
    fn shape(part: &Part, shape: &Shape) -> Shape {
        match part.level {
            Level::Outer => shape.part(part.collective, shape.ranks / shape.group()),
            Level::Inner | Level::Flat => shape.inside(part.collective),
        }
    }

    /// The number of parts of the vector that one rank handles between domains: G shards, or one
    /// leader.
    fn shards(&self, shape: &Shape) -> u32 {
        if self.crossing == Crossing::Shards { shape.group() } else { 1 }
    }
}

impl ClosedForm for Hierarchical {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn applies(&self, shape: &Shape) -> Result<(), Reason> {
        fills_domains(shape)?;
        self.parts(shape.collective)
            .iter()
            .try_for_each(|part| part.algorithm.applies(&Self::shape(part, shape)))
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let mut sum: Option<Cost<F>> = None;
        for part in self.parts(v.shape.collective) {
            let shape = Self::shape(part, &v.shape);
            let cost = match part.level {
                Level::Outer => {
                    let domains = v.n.clone() / v.g.clone();
                    let cost = F::cost_of(part.algorithm, &v.with_ranks(domains, shape));
                    let share = match self.crossing {
                        Crossing::Shards => F::int(1) / v.g.clone(),
                        Crossing::Leader => F::int(1),
                    };
                    cost.on(&share)
                }
                Level::Inner | Level::Flat => {
                    F::cost_of(part.algorithm, &v.with_ranks(v.g.clone(), shape))
                }
            };
            let cost = cost.over(part.level);
            sum = Some(match sum {
                Some(before) => before.then(cost),
                None => cost,
            });
        }
        sum.unwrap_or_else(Cost::zero)
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        let parts = self.parts(shape.collective);
        let of = |part: &Part| part.algorithm.guarantee(&Self::shape(part, shape));
        let all = |wanted: &[Guarantee]| parts.iter().all(|part| wanted.contains(&of(part)));
        // In its limit a phase is cut into segments, with the barriers where they are.
        if parts.iter().any(|part| of(part) == Guarantee::Asymptotic) {
            return Guarantee::Asymptotic;
        }
        // With a barrier a rank with many ports does not send to all its children at once.
        match shape.ports == Ports::ONE {
            _ if all(&[Guarantee::Equal]) => Guarantee::Equal,
            true if all(&[Guarantee::Equal, Guarantee::EqualInRounds]) => Guarantee::EqualInRounds,
            _ => Guarantee::UpperBound,
        }
    }

    /// A leader is the root of the reduce inside, and sends nothing in it.
    fn sent<F: Field>(&self, v: &At<F>) -> F {
        let mut sum = F::int(0);
        for part in self.parts(v.shape.collective) {
            let shape = Self::shape(part, &v.shape);
            let one = match (part.level, self.crossing, part.collective) {
                (Level::Inner, Crossing::Leader, Reduce) => continue,
                (Level::Outer, Crossing::Shards, _) => {
                    let domains = v.n.clone() / v.g.clone();
                    F::sent_by(part.algorithm, &v.with_ranks(domains, shape)) / v.g.clone()
                }
                (Level::Outer, ..) => {
                    let domains = v.n.clone() / v.g.clone();
                    F::sent_by(part.algorithm, &v.with_ranks(domains, shape))
                }
                _ => F::sent_by(part.algorithm, &v.with_ranks(v.g.clone(), shape)),
            };
            sum = sum + one;
        }
        sum
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let shards = self.shards(shape);
        for part in self.parts(shape.collective) {
            part.algorithm.steps(&Self::shape(part, shape), &mut |step| {
                emit(match part.level {
                    Level::Outer => Step {
                        share: step.share.of_part(shards),
                        reduced: step.reduced.of_part(shards),
                        ..step.between_domains(shards)
                    },
                    Level::Inner | Level::Flat => step.over(Level::Inner),
                });
            });
        }
    }

    fn is_pipelined(&self) -> bool {
        let mut parts = self.parts.iter().flat_map(|(_, parts)| parts.iter());
        parts.any(|p| p.collective == AllReduce && p.algorithm.is_pipelined())
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        // One rank is its own domain, whatever the size of a domain.
        let group = if shape.ranks > 1 { shape.group } else { Some(NonZeroU32::MIN) };
        let shape = Shape { group, ..*shape };
        let phase = |part: &Part| {
            let tier = if part.level == Level::Outer { Tier::Between } else { Tier::Inside };
            Some((tier, part.algorithm.schedule(&Self::shape(part, &shape))?))
        };
        let phases: Option<_> = self.parts(shape.collective).iter().map(phase).collect();
        let crossing = match self.crossing {
            Crossing::Shards => combine::Crossing::Shards,
            Crossing::Leader => combine::Crossing::Leaders,
        };
        Some(Box::new(Tiers::new(shape.collective, crossing, phases?)))
    }
}

/// Whether the ranks fill several domains.
pub(super) fn fills_domains(shape: &Shape) -> Result<(), Reason> {
    let group = shape.group();
    if group >= shape.ranks {
        return Err(Reason::new("all ranks are in one domain"));
    }
    if group < 2 {
        return Err(Reason::new("each rank is its own domain"));
    }
    if !shape.ranks.is_multiple_of(group) {
        return Err(Reason::from(format!("{} ranks do not fill domains of {group}", shape.ranks)));
    }
    Ok(())
}

/// Pairwise all-to-all that serves its own domain first: G − 1 sends inside, N − G between.
///
/// An all-to-all does not decompose: every pair has its own data. The only gain possible is to keep
/// sends to near ranks off the far links (spiceMonkey/collective-comm 03 §2.2). NCCL's all-to-all
/// is a send and a receive with every peer, near and far ones at the same time: it takes at most
/// this.
struct TieredPairwise;

impl ClosedForm for TieredPairwise {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "pairwise-by-tier",
            title: "pairwise (nearest first)",
            collectives: &[AllToAll],
            aliases: &["hierarchical-pairwise"],
            known_as: &[
                (Library::Nccl, &[AllToAll], "SendRecv"),
                (Library::Rccl, &[AllToAll], "SendRecv"),
            ],
            summary: "pairwise exchanges inside the domain, then with every rank of the others",
            source: "spiceMonkey/collective-comm 03 §2.2",
        }
    }

    fn applies(&self, shape: &Shape) -> Result<(), Reason> {
        fills_domains(shape)
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let turns = F::int(shift_turns(&v.shape).into());
        let near = turns.clone() * (v.g.clone() - F::int(1));
        let far = turns * (v.n.clone() - v.g.clone());
        let inside = Cost::new(near.clone(), near / v.n.clone()).over(Level::Inner);
        inside.then(Cost::new(far.clone(), far / v.n.clone()).over(Level::Outer))
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        Guarantee::on_one_port(shape)
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        v.others_share()
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let (n, g) = (shape.ranks, shape.group());
        let (chunk, turns) = (Share::new(1_u32, n), shift_turns(shape));
        emit(Step::new(turns * (g - 1), chunk, Route::Offset(1)).over(Level::Inner));
        for domains in 1..n / g {
            emit(Step::new(turns * g, chunk, Route::Offset(domains)).between_domains(g));
        }
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        let group = if shape.ranks > 1 { shape.group() } else { 1 };
        Some(Box::new(NearFirst { ranks: shape.ranks, group }))
    }
}

/// In round t every rank sends to the one t/G domains and t mod G local ranks further.
#[derive(Debug, Clone, Copy)]
struct NearFirst {
    ranks: u32,
    group: u32,
}

impl Schedule for NearFirst {
    fn frame(&self) -> Frame {
        let rounds = u64::from(self.ranks).saturating_sub(1);
        Frame::new(AllToAll, self.ranks, self.ranks, rounds)
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        let (n, g) = (self.ranks, self.group);
        // Below N; the rank itself would be t = 0.
        let t = round as u32 + 1;
        let domain = (rank / g + t / g) % (n / g);
        let to = domain * g + (rank % g + t % g) % g;
        out.push(Endpoint::Rank(to), Op::Copy, [Run::one(rank * n + to)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::formula::Rational;
    use crate::model::schedule::{count, verify};

    #[test]
    fn compositions_do_and_cost_what_they_promise() {
        let mut compared = 0;
        for (group, domains) in (2..=8).flat_map(|g| (2..=6).map(move |d| (g, d))) {
            let shapes = FAMILY.iter().flat_map(|&algorithm| {
                let collectives = algorithm.meta().collectives.iter();
                let shapes = collectives.map(|&c| Shape::new(c, group * domains));
                let segments = shapes.flat_map(|s| [1, 3].map(|p| s.with_segments(p)));
                let grouped = segments.map(|s| Shape { group: NonZeroU32::new(group), ..s });
                grouped.map(move |shape| (algorithm, shape))
            });
            for (algorithm, shape) in shapes {
                if algorithm.applies(&shape).is_err() {
                    continue;
                }
                let Some(schedule) = algorithm.schedule(&shape) else { continue };
                let name = format!("{} {shape:?}", algorithm.meta().id);
                assert_eq!(verify(&*schedule), Ok(()), "{name}");
                let at = At::numbers(shape);
                let counted = count(&*schedule, 1);
                assert_eq!(algorithm.sent_exactly(&at), counted.max_sent, "{name}");
                // Switch traffic is not counted message by message; segments run ahead of a
                // barrier.
                let equal = algorithm.guarantee(&shape) == Guarantee::Equal;
                if !equal || schedule.switches() > 0 || shape.segments() > 1 {
                    continue;
                }
                let form = algorithm.prove(&at).total();
                assert_eq!(form.alpha, Rational::from_integer(counted.n_alpha.into()), "{name}");
                assert_eq!(form.beta, counted.n_beta, "{name}");
                assert_eq!(form.gamma, counted.n_gamma, "{name}");
                compared += 1;
            }
        }
        assert!(compared > 300, "{compared}");
    }
}

//! Pipelined hierarchies: segments flow through stages inside the nodes and between them.
//!
//! ```text
//!   NVLSTree             node 0              node 1
//!   up       0 1 2 3 ──►[switch]   4 5 6 7 ──►[switch]     each rank gets the sum of its shard
//!   between  0 1 2 3 ◄──────────── two trees ─────────►    shard g between the ranks g
//!   down     0 1 2 3 ◄──[switch]   4 5 6 7 ◄──[switch]     the switch multicasts each shard
//! ```
//!
//! This is how NCCL runs its hierarchies: while one segment of M/P is between the nodes, the next
//! one is added inside, and the previous one is distributed. The compositions of `hierarchical` end
//! each phase before the next begins; these do not.
//!
//! Let F be the time of one segment alone, through all stages, and W the time that the busiest kind
//! of port needs per segment:
//!
//! ```text
//!   T = F + (P − 1)·W        W = max(inside, between)
//! ```
//!
//! Stages that use the same port add up in W. A segment goes up and comes down over the same NVLink
//! port, so both count, and so do the data that a NIC sends up a tree and down it. Where the ranks'
//! switch adds and multicasts (NVLS), a port carries (G − 1)/G of a segment and 1/G of it in either
//! direction: the whole segment once per direction, not once per stage.
//!
//! | inside | of a segment, each way, at a port |
//! |---|---|
//! | chains, one per rail: rank g is the end of chain g, so together they are a ring's steps | 2(G − 1) messages, 2(G − 1)/G |
//! | straight to the rank whose shard it is | the same |
//! | the switch | 2 hops, 1 |
//!
//! | between, on shards of 1/G | of a segment, each way, at a port |
//! |---|---|
//! | two trees | W(D) messages of half a shard: 2 for two nodes, 3 for three, 4 from four on |
//! | the network's switch (SHARP) | 1 hop, 1 shard |
//! | ring | 2(D − 1) messages, 2(D − 1)/D shards |
//!
//! So two nodes send half as much in one direction as a ring of many ranks. With fewer NICs than
//! ranks, ⌈G/NICs⌉ shards take turns at one NIC, with their α.
//!
//! `tests/engine/pipelined.rs` checks this against simulated schedules. A schedule takes no less
//! than the busiest port needs for all P segments. It takes at most T except for a few segments,
//! listed there: a segment that comes back to a port finds others there, once per pipeline, not
//! once per segment. Ranks that send directly to each other get out of step where they share NICs;
//! nothing is guaranteed for them there.
//!
//! Sources: NCCL src/device/all_reduce.h (runTreeSplit, the NVLS tree and CollNet kernels),
//! src/graph/trees.cc; Graham et al., SHARP, COMHPC 2016.

use std::num::NonZeroU32;

use super::double_binary_tree::{Pair, pair};
use super::hierarchical::fills_domains;
use super::in_network::{InNetwork, crosses_a_switch, hops};
use super::ring::Ring;
use super::{
    Algorithm, ClosedForm, Edges, Guarantee, Library, Meta, Reason, Route, Share, Stages, Step,
};
use crate::base::collective::Collective::{self, AllGather, AllReduce, ReduceScatter};
use crate::model::formula::{
    At, Cost, Field, Level, Number, Params, Phase, Ports, Shape, StepFraction,
};
use crate::model::schedule::combine::{Crossing, Segment, Tier, Tiers};
use crate::model::schedule::{Endpoint, Frame, Op, Run, Schedule, Sends};

/// The pipelined compositions.
pub static FAMILY: &[&dyn Algorithm] = &[
    &NVLS_TREE,
    &TREE_RAILS,
    &COLLNET_CHAIN,
    &COLLNET_DIRECT,
    &NVLS_SHARP,
    &NVLS_RING,
    &RING_RING,
];

/// How a segment is added, or distributed, inside a node.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Inside {
    /// Rank to rank; each rail's shard ends where the rail leaves the node.
    Chains,
    /// Directly to, and from, the rank that owns the shard.
    Direct,
    /// The node's switch adds and multicasts.
    Switch,
}

/// How shards travel between the nodes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Between {
    /// Up and down two trees, half of the shard on each.
    Trees,
    /// The network's switches add and multicast.
    Switch,
    /// Around a ring.
    Ring,
}

/// A composition whose stages overlap.
struct Pipelined {
    meta: Meta,
    inside: Inside,
    between: Between,
}

/// A composition in one line: names, stages, collectives.
macro_rules! pipelined {
    ($name:ident, $id:literal, $title:literal, $aliases:expr, $known:expr, $collectives:expr,
     $inside:ident, $between:ident, $summary:literal, $source:literal) => {
        static $name: Pipelined = Pipelined {
            meta: Meta {
                id: $id,
                title: $title,
                collectives: $collectives,
                aliases: $aliases,
                known_as: $known,
                summary: $summary,
                source: $source,
            },
            inside: Inside::$inside,
            between: Between::$between,
        };
    };
}

const ALL: &[Collective] = &[AllReduce, AllGather, ReduceScatter];

pipelined!(
    NVLS_TREE,
    "nvlstree",
    "NVLSTree",
    &["nvls_tree"],
    &[(Library::Nccl, &[AllReduce], "NVLSTree")],
    &[AllReduce],
    Switch,
    Trees,
    "segments are added by the node's switch, go up and down two trees, and are multicast",
    "NCCL src/device/all_reduce.h, src/graph/trees.cc"
);
pipelined!(
    TREE_RAILS,
    "tree-rails",
    "Tree (chain in each node)",
    &["multi-rail-tree"],
    &[(Library::Nccl, &[AllReduce], "Tree"), (Library::Rccl, &[AllReduce], "Tree")],
    &[AllReduce],
    Chains,
    Trees,
    "segments go along chains in the node, up and down two trees per rail, and back",
    "NCCL src/device/all_reduce.h, src/graph/trees.cc"
);
pipelined!(
    COLLNET_CHAIN,
    "collnet-chain",
    "CollNetChain",
    &["collnet_chain"],
    &[(Library::Nccl, &[AllReduce], "CollNetChain")],
    &[AllReduce],
    Chains,
    Switch,
    "segments go along chains in the node, are added by the network's switches, and go back",
    "NCCL src/device/all_reduce.h; Graham et al., SHARP, COMHPC 2016"
);
pipelined!(
    COLLNET_DIRECT,
    "collnet-direct",
    "CollNetDirect",
    &["collnet_direct"],
    &[(Library::Nccl, ALL, "CollNetDirect")],
    ALL,
    Direct,
    Switch,
    "each rank adds its shard of the node, the network's switches add the nodes' shards, and the sum is distributed",
    "NCCL src/device/all_reduce.h; Graham et al., SHARP, COMHPC 2016"
);
pipelined!(
    NVLS_SHARP,
    "nvls-sharp",
    "NVLS with SHARP",
    &["nvls-collnet", "sharp-nvls"],
    &[(Library::Nccl, ALL, "NVLS")],
    ALL,
    Switch,
    Switch,
    "the node's switch adds a segment, the network's switches add across nodes, the node's multicasts",
    "NCCL src/device/all_reduce.h; Graham et al., SHARP, COMHPC 2016"
);
pipelined!(
    NVLS_RING,
    "nvls-ring-pipelined",
    "NVLS, ring between (pipelined)",
    &[],
    &[],
    ALL,
    Switch,
    Ring,
    "the node's switch adds and multicasts segments while others go round a ring of the nodes",
    "this project: NVLSTree's stages with a ring between"
);
pipelined!(
    RING_RING,
    "2d-ring-pipelined",
    "2D ring (pipelined)",
    &["hier_pipeline"],
    &[],
    ALL,
    Chains,
    Ring,
    "segments go round the ring of their node while others go round a ring of the nodes",
    "Huawei HCCL, the pipeline algorithm; spiceMonkey/collective-comm 03 §2.1"
);

/// Messages, vectors, vectors added and switch hops of a stage, in units of a segment.
struct Part<F> {
    messages: F,
    hops: F,
    volume: F,
    added: F,
}

impl<F: Field> Part<F> {
    /// One phase over links of `level`, repeated `times`, of segments of `1/p`.
    fn phase(self, level: Level, times: &F, p: &F) -> Phase<F> {
        let part = |share: F| times.clone() * share / p.clone();
        Phase {
            level,
            alpha: times.clone() * self.messages,
            beta: part(self.volume),
            gamma: part(self.added),
            switch: times.clone() * self.hops,
        }
    }
}

impl Pipelined {
    /// Passes over the links inside: to the shards' ranks, and from them.
    fn passes(collective: Collective) -> &'static [Collective] {
        match collective {
            AllReduce => &[ReduceScatter, AllGather],
            AllGather => &[AllGather],
            _ => &[ReduceScatter],
        }
    }

    /// The cost of one segment alone inside a node; with `each`, its load on the busiest port.
    fn inside<F: Number>(&self, v: &At<F>, each: bool) -> Part<F> {
        let passes = Self::passes(v.shape.collective);
        let times = F::int(passes.len() as i64);
        let others = v.g.clone() - F::int(1);
        let share = others.clone() / v.g.clone();
        let adds = |added: F| if v.shape.collective.reduces() { added } else { F::int(0) };
        match self.inside {
            Inside::Chains | Inside::Direct => Part {
                messages: times.clone() * others,
                hops: F::int(0),
                volume: times * share.clone(),
                added: adds(share),
            },
            Inside::Switch => Part {
                messages: F::int(0),
                hops: times.clone() * F::int(if each { 1 } else { hops(&v.shape).into() }),
                // A port sends the others' shards up and its own down, and receives as much.
                volume: match each && passes.len() > 1 {
                    true => F::int(1),
                    false => times * share,
                },
                added: adds(F::int(1) / v.g.clone()),
            },
        }
    }

    /// The same between the nodes; a segment's shard is 1/G of it.
    fn between<F: Number>(&self, v: &At<F>, each: bool) -> Part<F> {
        let shape = &v.shape;
        let shard = F::int(1) / v.g.clone();
        let domains = v.n.clone() / v.g.clone();
        let others = domains.clone() - F::int(1);
        let reduces = shape.collective.reduces();
        let none = F::int(0);
        match self.between {
            Between::Trees => {
                let slots = match each {
                    true => F::int(Pair::of(nodes(shape)).period.into()),
                    false => Pair::of(nodes(shape)).slots(&domains, shape.segments()),
                };
                let volume = slots.clone() / F::int(2) * shard.clone();
                let added = match each {
                    // Two halves at a rank with two children, or with one in each tree.
                    true => shard / F::int(if nodes(shape) > 2 { 1 } else { 2 }),
                    false => volume.clone() / F::int(2),
                };
                Part { messages: slots, hops: none, volume, added }
            }
            Between::Switch => {
                let blocks = others / domains.clone() * shard.clone();
                Part {
                    messages: none.clone(),
                    hops: F::int(if each { 1 } else { 2 }),
                    volume: if shape.collective == AllReduce { shard.clone() } else { blocks },
                    added: if shape.collective == ReduceScatter { shard / domains } else { none },
                }
            }
            Between::Ring => {
                let times = F::int(Self::passes(shape.collective).len() as i64);
                let volume = others.clone() / domains * shard;
                Part {
                    messages: times.clone() * others,
                    hops: none.clone(),
                    added: if reduces { volume.clone() } else { none },
                    volume: times * volume,
                }
            }
        }
    }

    /// Steps of `part`, a stage of the shape, over links of `level`.
    fn emit(&self, shape: &Shape, level: Level, each: bool, out: &mut Vec<Step>) {
        let v: At<StepFraction> = At::numbers(shape.with_segments(shape.segments()));
        let part = match level {
            Level::Outer => self.between(&v, each),
            Level::Inner | Level::Flat => self.inside(&v, each),
        };
        let p = u64::from(shape.segments());
        let share = |f: StepFraction, of: u64| Share {
            chunks: u64::try_from(*f.numer()).unwrap_or(0),
            of: u64::try_from(*f.denom()).unwrap_or(1) * of,
        };
        let through = part.hops != Number::int(0);
        let count = if through { part.hops } else { part.messages };
        let count = u64::try_from(count.to_integer()).unwrap_or(0);
        let on = |step: Step| match level {
            Level::Outer => step.between_domains(shape.group()),
            Level::Inner | Level::Flat => step.over(Level::Inner),
        };
        if through {
            // The data flow through: they are counted in the first hop, and the further hops are
            // empty.
            let first = Step::new(1_u32, share(part.volume, p), Route::Switch);
            out.push(on(first.reducing_share(share(part.added, p))));
            if count > 1 {
                out.push(on(Step::new(count - 1, Share::NONE, Route::Switch)));
            }
            return;
        }
        let one = |f| share(f, p * count.max(1));
        let step = match (level, self.between) {
            (Level::Outer, Between::Trees) => {
                let edges = Edges::Double(shape.params.trees);
                let route = Route::Edges { edges, slots: count.max(1) };
                let meets = if each { Share::ALL } else { edges.first_meets(nodes(shape)) };
                Step::new(count, one(part.volume), route).meeting(meets)
            }
            _ => Step::new(count, one(part.volume), Route::Offset(1)),
        };
        out.push(on(step.reducing_share(one(part.added))));
    }
}

/// D.
fn nodes(shape: &Shape) -> u32 {
    shape.ranks / shape.group().max(1)
}

impl ClosedForm for Pipelined {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn applies(&self, shape: &Shape) -> Result<(), Reason> {
        fills_domains(shape)?;
        crosses_a_switch(shape)?;
        if shape.ports != Ports::ONE {
            return Err(Reason::new("its stages are known only for 1 send + 1 receive at a time"));
        }
        Ok(())
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let one = F::int(1);
        let fill = |part: Part<F>, level| Cost::from(part.phase(level, &one, &v.p));
        let cost = fill(self.inside(v, false), Level::Inner)
            .then(fill(self.between(v, false), Level::Outer));
        if v.shape.segments() == 1 && v.shape.params.segments.is_some() {
            return cost;
        }
        let behind = v.p.clone() - F::int(1);
        let each = |part: Part<F>, level| part.phase(level, &behind, &v.p);
        cost.with_beside(
            each(self.inside(v, true), Level::Inner),
            each(self.between(v, true), Level::Outer),
        )
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        let exact = self.between != Between::Trees || nodes(shape).is_power_of_two();
        match (shape.segments(), exact) {
            (1, true) => Guarantee::Equal,
            (1, false) => Guarantee::UpperBound,
            _ => Guarantee::Pipelined,
        }
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        let inside = Self::passes(v.shape.collective).iter().map(|pass| match self.inside {
            Inside::Switch if *pass == AllGather => F::int(1) / v.g.clone(),
            _ => (v.g.clone() - F::int(1)) / v.g.clone(),
        });
        let inside = inside.fold(F::int(0), |sum, one| sum + one);
        let domains = v.n.clone() / v.g.clone();
        let between = match (self.between, v.shape.collective) {
            (Between::Switch, AllGather) => F::int(1) / domains / v.g.clone(),
            _ => self.between(v, true).volume,
        };
        inside + between
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        if let Some(stages) = ClosedForm::stages(self, shape) {
            stages.on_one_port(shape.segments(), emit);
        }
    }

    fn stages(&self, shape: &Shape) -> Option<Stages> {
        let mut stages = Stages::default();
        for level in [Level::Inner, Level::Outer] {
            self.emit(shape, level, false, &mut stages.fill);
            self.emit(shape, level, true, &mut stages.each);
        }
        Some(stages)
    }

    fn is_pipelined(&self) -> bool {
        true
    }

    /// One segment after another: at a port the older one goes first.
    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        // One rank is its own domain, whatever the size of a domain.
        let group = if shape.ranks > 1 { shape.group } else { Some(NonZeroU32::MIN) };
        let shape = Shape { group, ..*shape }.with_segments(shape.segments());
        let inside = |collective| -> Option<Box<dyn Schedule>> {
            let part = shape.part(collective, shape.group()).with_segments(1);
            match self.inside {
                Inside::Chains => ClosedForm::schedule(&Ring, &part),
                Inside::Direct => Some(Box::new(Direct { collective, ranks: part.ranks })),
                Inside::Switch => ClosedForm::schedule(&InNetwork, &part),
            }
        };
        let part = shape.part(shape.collective, nodes(&shape)).with_segments(1);
        let between: Box<dyn Schedule> = match self.between {
            Between::Trees => pair(part.ranks, shape.segments()),
            Between::Switch => ClosedForm::schedule(
                &InNetwork,
                &Shape { params: Params { switch_hops: None, ..part.params }, ..part },
            )?,
            Between::Ring => ClosedForm::schedule(&Ring, &part)?,
        };
        let mut phases = vec![(Tier::Between, between)];
        if shape.collective.reduces() {
            phases.insert(0, (Tier::Inside, inside(ReduceScatter)?));
        }
        if shape.collective != ReduceScatter {
            phases.push((Tier::Inside, inside(AllGather)?));
        }
        let one = Tiers::new(shape.collective, Crossing::Shards, phases);
        let stride = match self.between {
            // The trees' colours repeat after this many slots.
            Between::Trees => Pair::of(part.ranks).period,
            Between::Switch | Between::Ring => u32::try_from(one.rounds()).unwrap_or(u32::MAX),
        };
        Some(Box::new(Segment::new(one, shape.segments(), stride)))
    }
}

/// Reduce-scatter or all-gather directly between every two ranks, all at once.
#[derive(Debug, Clone, Copy)]
struct Direct {
    collective: Collective,
    ranks: u32,
}

impl Schedule for Direct {
    fn frame(&self) -> Frame {
        let rounds = u64::from(self.ranks > 1);
        Frame::new(self.collective, self.ranks, self.ranks, rounds).turning()
    }

    fn sends(&self, _: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        for distance in 1..self.ranks {
            let to = (rank + distance) % self.ranks;
            let (op, block) = match self.collective {
                ReduceScatter => (Op::Reduce, to),
                _ => (Op::Copy, rank),
            };
            out.push(Endpoint::Rank(to), op, [Run::one(block)]);
        }
    }
}

//! Collectives on a torus or mesh of ranks, dimension by dimension.
//!
//! ```text
//!   4 × 3     0 ─ 1 ─ 2 ─ 3 ─╮      reduce-scatter along every row, then along every column on
//!             │   │   │   │         what is left; all-gather back: rings of neighbours only
//!             4 ─ 5 ─ 6 ─ 7 ─╮
//!             │   │   │   │         a mesh is the same without the links that close the sides
//!             8 ─ 9 ─ 10─ 11─╮
//! ```
//!
//! `dims` are the sides d₁ × d₂ × …, whose product is N; side 1 varies fastest with the rank. A side
//! of a torus is a ring, unless its ends have no link (`open`) or it has only two ranks; the sides of
//! a mesh are lines.
//!
//! - `torus` all-reduce: 2Σ(dᵢ − 1)·α + 2(N − 1)/N·M/BW; all-gather and reduce-scatter take half
//!   of that. One ring at a time, on one port; exact on full-duplex ports.
//! - The same if all links of a rank work at once: parts of the vector take the sides in different
//!   orders, 1, 2, … and 2, 3, … and so on. Along a ring half of a part goes one way around and half
//!   the other; along a line, which has no other way around, it spreads both ways from where it is.
//!   So a ring brings data over wᵢ = 2 links and a line over one, that of its ends: M takes 1/Σwᵢ of
//!   the time, which is the least for the rank at the ends of all lines. The part that begins with
//!   side i, after side h (before the first is the last), is (wₕ·dₕ/(dₕ − 1) − wᵢ/(dᵢ − 1))/Σw of the
//!   vector: then the links of all sides carry equally much, also where sides are of unequal
//!   length. Exact for equal sides; on others parts end a side at different times, and links wait,
//!   the less the more segments follow each other: the limit. With fewer ports than links a mesh
//!   takes one dimension after another, and both neighbours in turn.
//! - `torus-rabenseifner`: the same with ⌈lg dᵢ⌉ steps per side. Exact if ranks 2^k apart have
//!   their own link; on the wires of a torus such messages share links, which is not counted.
//! - Broadcast and reduce: P segments are pipelined down the tree of shortest paths,
//!   (Σ⌊dᵢ/2⌋ + P − 1)(α + M/(P·BW)), on a mesh (from a corner) Σ(dᵢ − 1), if a rank has a port
//!   for each neighbour that it serves. With fewer ports every round takes several turns: an
//!   upper bound. The textbook prints the limit Σ⌊dᵢ/2⌋·α + M/BW.
//! - All-to-all: Σ⌊dᵢ/2⌋·α + d_max/8·M/BW, on a mesh Σ(dᵢ − 1)·α + d_max/4·M/BW. This is the time
//!   in which the bisection carries the data that cross it, if all links of a rank work at once:
//!   parts of the vector take the dimensions in different orders. Exact in that sense for sides
//!   of equal length; an odd side d carries (d² − 1)/(8d), and a side of 2 has one link, not two.
//!   With fewer ports: one dimension after another, each the ring relay of `ring-relay`.
//!
//! Textbook here: spiceMonkey/collective-comm 02, §3.2–3.6, §4.2, Appendix A.

mod schedule;

use super::all_to_all::relay_steps;
use super::rounds::{
    gather_cost, gather_schedule, gather_sent, gather_steps, lanes, passes, repeat, shift_turns,
};
use super::{Algorithm, ClosedForm, Guarantee, Meta, Reason, Route, Share, Step};
use crate::base::collective::Collective::{
    AllGather, AllReduce, AllToAll, Broadcast, Reduce, ReduceScatter,
};
use crate::model::formula::{At, Cost, Dims, Field, Rational, Shape, Tie, ceil_lg};
use crate::model::schedule::combine::reverse;
use crate::model::schedule::{Schedule, bruck, ring};

/// The torus and mesh algorithms.
pub static FAMILY: &[&dyn Algorithm] = &[
    &Rings { wraps: true },
    &Rings { wraps: false },
    &Rabenseifner,
    &Tree { wraps: true },
    &Tree { wraps: false },
    &Exchange { wraps: true },
    &Exchange { wraps: false },
];

const SOURCE: &str = "spiceMonkey/collective-comm 02 §3–4, Appendix A";

fn applies(shape: &Shape) -> Result<(), Reason> {
    let Some(dims) = shape.params.dims else {
        return Err(Reason::new("it needs the sides of the torus or mesh, such as 8x8x8"));
    };
    if dims.ranks() == u64::from(shape.ranks) {
        return Ok(());
    }
    let (holds, n) = (dims.ranks(), shape.ranks);
    Err(Reason::from(format!("its sides hold {holds} ranks, not {n}")))
}

/// The sides; one ring of N if none are given.
fn dims(shape: &Shape) -> Dims {
    shape.params.dims.or_else(|| Dims::new(&[shape.ranks])).unwrap_or_default()
}

/// A side of a torus or mesh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Side {
    length: u32,
    /// The rank distance between neighbours along it.
    stride: u32,
    /// Whether its ends are neighbours. Of two ranks there is one link, not two: a line.
    wraps: bool,
}

impl Side {
    /// Links over which a rank gets what comes along it; of a line one, as its ends have no more.
    fn ways(self) -> u32 {
        1 + u32::from(self.wraps)
    }

    /// Links of the busiest rank.
    fn links(self) -> u32 {
        (self.length - 1).min(2)
    }

    /// Blocks that a rank sends along it in an all-gather. On a line both neighbours of a rank that is
    /// not an end get its own, and it forwards those of all others.
    fn passed(self) -> u32 {
        if self.wraps || self.length == 2 { self.length - 1 } else { self.length + 1 }
    }

    fn is_like(self, other: Self) -> bool {
        (self.length, self.wraps) == (other.length, other.wraps)
    }
}

/// The sides longer than 1, rings where they may be if it `wraps`.
fn sides(shape: &Shape, wraps: bool) -> Vec<Side> {
    let mut stride = 1;
    let mut side = |(length, open): (u32, bool)| {
        let side = Side { length, stride, wraps: wraps && !open && length > 2 };
        stride *= length;
        side
    };
    let dims = dims(shape);
    let all = dims.lengths().iter().copied().zip(shape.params.open);
    all.map(&mut side).filter(|side| side.length > 1).collect()
}

/// Links of the busiest rank.
fn degree(shape: &Shape) -> u32 {
    sides(shape, false).iter().map(|side| side.links()).sum()
}

/// Whether all sides are as long as each other, and rings or lines.
fn are_alike(sides: &[Side]) -> bool {
    sides.windows(2).all(|pair| pair[0].is_like(pair[1]))
}

/// Whether all links of a rank can work at once.
fn has_all_links(shape: &Shape) -> bool {
    let needed = degree(shape) * if shape.ports.is_half() { 2 } else { 1 };
    shape.ports.sends(needed) == needed
}

fn fraction<F: Field>(value: Rational) -> F {
    F::int(*value.numer() as i64) / F::int(*value.denom() as i64)
}

/// Rings along each side in turn, or, with a port for every link, all sides at once.
pub(super) struct Rings {
    /// Whether the sides wrap around, those that are open apart: a torus.
    pub wraps: bool,
}

/// The rounds of an all-gather along one side.
struct Leg {
    side: Side,
    /// What one link carries in a round.
    share: Share,
    /// Reversed, what a rank adds in a round.
    added: Rational,
    /// Messages of a round that go one after another through a port.
    turns: u32,
}

impl Rings {
    fn sides(&self, shape: &Shape) -> Vec<Side> {
        sides(shape, self.wraps)
    }

    /// Whether all links of a rank work at once.
    fn is_parallel(&self, shape: &Shape) -> bool {
        has_all_links(shape) && (!self.wraps || degree(shape) > 1)
    }

    /// Whether one ring follows the other, each one way around.
    fn is_by_ring(&self, shape: &Shape) -> bool {
        let are_rings = self.sides(shape).iter().all(|side| side.wraps || side.length == 2);
        self.wraps && are_rings && !self.is_parallel(shape)
    }

    /// Links over which data come to a rank at once.
    fn ways(&self, shape: &Shape) -> u32 {
        match self.is_parallel(shape) {
            true => self.sides(shape).iter().map(|side| side.ways()).sum::<u32>().max(1),
            false => 1,
        }
    }

    /// The part of the vector that begins with each side; with fewer ports there is one part.
    fn parts(&self, shape: &Shape) -> Vec<Rational> {
        let sides = self.sides(shape);
        if !self.is_parallel(shape) || sides.is_empty() {
            return vec![Rational::from_integer(1)];
        }
        let over = |side: Side| Rational::new(side.ways().into(), i128::from(side.length) - 1);
        let last = |i: usize| sides[(i + sides.len() - 1) % sides.len()];
        let all = Rational::from_integer(self.ways(shape).into());
        let part = |i: usize| {
            let side = last(i);
            (over(side) * Rational::from_integer(side.length.into()) - over(sides[i])) / all
        };
        (0..sides.len()).map(part).collect()
    }

    /// What the busiest rank of an all-gather sends.
    fn forward(&self, shape: &Shape) -> Rational {
        let sides = self.sides(shape);
        let part = |(first, part): (usize, Rational)| {
            let mut gathered = Rational::new(1, shape.ranks.into());
            let mut along = |i: usize| {
                let side = sides[(first + i) % sides.len()];
                let sent = gathered * Rational::from_integer(side.passed().into());
                gathered *= Rational::from_integer(side.length.into());
                sent
            };
            part * (0..sides.len()).map(&mut along).sum::<Rational>()
        };
        self.parts(shape).into_iter().enumerate().map(part).sum()
    }

    /// The rounds of an all-gather in the order of the part that begins with the first side; the others
    /// bring as much in all.
    fn legs(&self, shape: &Shape) -> Vec<Leg> {
        let (parallel, by_ring) = (self.is_parallel(shape), self.is_by_ring(shape));
        let mut sides = self.sides(shape);
        if by_ring {
            sides.reverse();
        }
        let n = i128::from(shape.ranks);
        let of = u64::from(shape.ranks) * u64::from(self.ways(shape));
        // What the busiest rank adds of what comes to it over all links.
        let relayed = match parallel && n > 1 {
            true => self.forward(shape) * Rational::new(n, n - 1),
            false => Rational::from_integer(1),
        };
        let mut gathered = 1;
        let leg = |side: Side| {
            let both = side.links() * if shape.ports.is_half() { 2 } else { 1 };
            let turns = match side.wraps || by_ring {
                _ if parallel => 1,
                true => shift_turns(shape),
                // Along a line both neighbours are served.
                false => both.div_ceil(shape.ports.sends(both).max(1)),
            };
            let arriving = if parallel || side.wraps { 1 } else { side.links() };
            let added = relayed * Rational::new(i128::from(gathered) * i128::from(arriving), n);
            let share = Share::new(gathered, of);
            gathered *= u64::from(side.length);
            Leg { side, share, added, turns }
        };
        sides.into_iter().map(leg).collect()
    }
}

impl ClosedForm for Rings {
    fn meta(&self) -> &'static Meta {
        if self.wraps {
            &Meta {
                id: "torus",
                title: "torus, ring by ring",
                collectives: &[AllReduce, AllGather, ReduceScatter],
                aliases: &["torus-ring", "torus_ring"],
                known_as: &[],
                summary: "rings along each side dᵢ in turn, each on what the previous one left: Σ(dᵢ − 1) steps, \
                          twice for an all-reduce; with a port for every link all sides at once, both ways",
                source: SOURCE,
            }
        } else {
            &Meta {
                id: "mesh",
                title: "mesh, line by line",
                collectives: &[AllReduce, AllGather, ReduceScatter],
                aliases: &["mesh-lines"],
                known_as: &[],
                summary: "along each side dᵢ in turn, both ways from where the data are: Σ(dᵢ − 1) rounds, twice for \
                          an all-reduce; with a port for every link all sides at once",
                source: SOURCE,
            }
        }
    }

    fn applies(&self, shape: &Shape) -> Result<(), Reason> {
        applies(shape)
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let rounds: u32 = self.sides(&v.shape).iter().map(|side| side.length - 1).sum();
        if self.is_by_ring(&v.shape) {
            return gather_cost(v, F::int(rounds.into()), shift_turns(&v.shape));
        }
        let passes = F::int(passes(&v.shape).into());
        let legs = self.legs(&v.shape);
        let sum = |figure: &dyn Fn(&Leg) -> Rational| -> Rational {
            let each =
                |leg: &Leg| Rational::from_integer((leg.side.length - 1).into()) * figure(leg);
            legs.iter().map(each).sum()
        };
        let added = match v.shape.collective.reduces() {
            true => fraction(sum(&|leg| leg.added)),
            false => F::int(0),
        };
        if self.is_parallel(&v.shape) {
            let ways = F::int(self.ways(&v.shape).into());
            let share = v.others() / v.n.clone() / ways;
            return Cost::new(passes.clone() * F::int(rounds.into()), passes * share)
                .reducing(added);
        }
        let turns = |leg: &Leg| Rational::from_integer(leg.turns.into());
        let (rounds, share) = (sum(&turns), sum(&|leg| turns(leg) * leg.share.exact()));
        Cost::new(passes.clone() * fraction(rounds), passes * fraction(share)).reducing(added)
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        match self.is_parallel(shape) {
            true if are_alike(&self.sides(shape)) => Guarantee::Equal,
            true => Guarantee::Asymptotic,
            false if self.is_by_ring(shape) => Guarantee::on_ports(shape),
            false => Guarantee::UpperBound,
        }
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        if self.is_by_ring(&v.shape) {
            return gather_sent(v);
        }
        // Reversed, a rank sends what it received: every block once.
        let forward = || fraction::<F>(self.forward(&v.shape));
        match v.shape.collective {
            AllGather => forward(),
            ReduceScatter => v.others_share(),
            _ => v.others_share() + forward(),
        }
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let step =
            |leg: &Leg| Step::new(leg.side.length - 1, leg.share, Route::Side(leg.side.stride));
        let legs = self.legs(shape);
        if shape.collective.reduces() {
            let share = |exact: Rational| Share::new(*exact.numer() as u64, *exact.denom() as u64);
            let adds = |leg: &Leg| step(leg).reducing_share(share(leg.added));
            legs.iter().rev().for_each(|leg| repeat(adds(leg), leg.turns, emit));
        }
        if shape.collective != ReduceScatter {
            legs.iter().for_each(|leg| repeat(step(leg), leg.turns, emit));
        }
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        if self.is_by_ring(shape) {
            return Some(schedule::by_side(shape, &|collective, length| {
                Box::new(ring::Ring::new(collective, length))
            }));
        }
        let both_ways = self.is_parallel(shape);
        let parts = self.parts(shape);
        let gather = schedule::Gather::new(shape.ranks, self.sides(shape), &parts, both_ways)?;
        Some(gather_schedule(shape, gather))
    }
}

/// Halving and doubling along each side in turn.
struct Rabenseifner;

impl ClosedForm for Rabenseifner {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "torus-rabenseifner",
            title: "torus, Rabenseifner",
            collectives: &[AllReduce],
            aliases: &["torus_rabenseifner"],
            known_as: &[],
            summary: "a logarithmic reduce-scatter along each side dᵢ in turn, then all-gathers back: \
                      2·Σ⌈lg dᵢ⌉ steps",
            source: SOURCE,
        }
    }

    fn applies(&self, shape: &Shape) -> Result<(), Reason> {
        applies(shape)
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let steps: u32 = sides(&v.shape, true).iter().map(|side| ceil_lg(side.length)).sum();
        gather_cost(v, F::int(steps.into()), shift_turns(&v.shape))
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        Guarantee::on_one_port(shape)
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        gather_sent(v)
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let n = shape.ranks;
        let mut gather = Vec::new();
        for &Side { length: d, stride, .. } in sides(shape, true).iter().rev() {
            for b in 0..ceil_lg(d) {
                let chunks = (1 << b).min(d - (1 << b)) * (n / (d * stride));
                let route = Route::Offset(stride << b);
                gather.push(Step::new(1_u32, Share::new(chunks, n), route));
            }
        }
        gather_steps(shape, &gather, shift_turns(shape), emit);
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        Some(schedule::by_side(shape, &|collective, length| {
            let gather = bruck::Gather::new(length);
            if collective == AllGather { Box::new(gather) } else { reverse(gather) }
        }))
    }
}

/// Broadcast and reduce down the tree of shortest paths.
struct Tree {
    /// Whether the sides wrap around: a torus.
    wraps: bool,
}

impl Tree {
    /// Rounds of the first segment.
    fn depth(&self, shape: &Shape) -> u64 {
        sides(shape, self.wraps).iter().map(|side| u64::from(side.hops())).sum()
    }

    /// Neighbours that the busiest rank serves: the root is at an end of every line.
    fn children(&self, shape: &Shape) -> u32 {
        sides(shape, self.wraps).iter().map(|side| side.ways()).sum()
    }

    /// The number of turns per round on these ports.
    fn turns(&self, shape: &Shape) -> u32 {
        let children = self.children(shape);
        // A rank inside a line has a parent in addition to as many children as the root.
        let is_line = |side: &Side| !side.wraps && side.length > 2;
        let has_inner = shape.ports.is_half() && sides(shape, self.wraps).iter().any(is_line);
        let partners = children + u32::from(has_inner);
        partners.div_ceil(shape.ports.sends(partners).max(1))
    }
}

impl ClosedForm for Tree {
    fn meta(&self) -> &'static Meta {
        static TORUS: Meta = Meta {
            id: "torus",
            title: "torus, pipelined tree",
            collectives: &[Broadcast, Reduce],
            aliases: &["torus-tree"],
            known_as: &[],
            summary: "segments are pipelined from the root along shortest paths, of at most Σ⌊dᵢ/2⌋ links \
                      for sides dᵢ",
            source: SOURCE,
        };
        static MESH: Meta = Meta {
            id: "mesh",
            title: "mesh, pipelined tree",
            collectives: &[Broadcast, Reduce],
            aliases: &["mesh-tree"],
            known_as: &[],
            summary: "segments are pipelined from a corner along shortest paths, of at most Σ(dᵢ − 1) links \
                      for sides dᵢ",
            source: SOURCE,
        };
        if self.wraps { &TORUS } else { &MESH }
    }

    fn applies(&self, shape: &Shape) -> Result<(), Reason> {
        applies(shape)
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let rounds = F::int(self.depth(&v.shape) as i64) + v.p.clone() - F::int(1);
        let volume = rounds.clone() / v.p.clone();
        let gamma = match v.shape.collective.reduces() {
            true => F::int(self.children(&v.shape).into()) * volume.clone(),
            false => F::int(0),
        };
        let turns = F::int(self.turns(&v.shape).into());
        Cost::new(turns.clone() * rounds, turns * volume).reducing(gamma)
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        if self.turns(shape) <= 1 { Guarantee::Equal } else { Guarantee::UpperBound }
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        match v.shape.collective {
            Reduce => F::int(1),
            _ => F::int(self.children(&v.shape).into()),
        }
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let p = shape.segments();
        let rounds = self.depth(shape) + u64::from(p) - 1;
        let step = Step::new(rounds, Share::new(1_u32, p), Route::Tree);
        let added = Share::new(self.children(shape), p);
        let adds = shape.collective.reduces();
        let step = if adds { step.reducing_share(added) } else { step };
        repeat(step, self.turns(shape), emit);
    }

    /// spiceMonkey/collective-comm prints the limit.
    fn paper<F: Field>(&self, v: &At<F>) -> Option<Cost<F>> {
        self.asymptotic(v)
    }

    fn asymptotic<F: Field>(&self, v: &At<F>) -> Option<Cost<F>> {
        Some(Cost::new(F::int(self.depth(&v.shape) as i64), F::int(1)))
    }

    fn is_pipelined(&self) -> bool {
        true
    }

    fn ports_needed(&self, shape: &Shape) -> u32 {
        self.children(shape)
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        Some(Box::new(schedule::Tree::new(shape, sides(shape, self.wraps))))
    }
}

/// All-to-all, limited by the bisection.
struct Exchange {
    /// Whether the sides wrap around: a torus.
    wraps: bool,
}

impl Exchange {
    fn hops(&self, shape: &Shape) -> u64 {
        Tree { wraps: self.wraps }.depth(shape)
    }

    /// The blocks of M/d over the busiest link of a side of d, as a fraction of M.
    fn load(side: Side) -> (u64, u64) {
        let d = u64::from(side.length);
        (d * d / 4, u64::from(side.ways()) * d)
    }

    /// The busiest link of all sides.
    fn busiest(&self, shape: &Shape) -> (u64, u64) {
        let loads = sides(shape, self.wraps).into_iter().map(Self::load);
        loads.max_by_key(|&(blocks, of)| (blocks << 32) / of).unwrap_or((0, 1))
    }

    /// One dimension after another.
    fn in_turn(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let both = lanes(shape.ports, 2) == 2;
        for Side { length: d, stride, wraps } in sides(shape, self.wraps) {
            let mut along = |step: Step| {
                repeat(Step { route: Route::Side(stride), ..step }, shift_turns(shape), emit);
            };
            if wraps || d == 2 {
                let tie = if both && d > 2 { Tie::Split } else { Tie::Right };
                relay_steps(d, tie, both, &mut along);
                continue;
            }
            // On a line the busiest link carries d − t blocks each way in step t.
            for t in 1..d {
                let messages = if both { 1_u32 } else { 2 };
                along(Step::new(messages, Share::new(d - t, d), Route::Side(stride)));
            }
        }
    }
}

impl ClosedForm for Exchange {
    fn meta(&self) -> &'static Meta {
        static TORUS: Meta = Meta {
            id: "torus",
            title: "torus, dimension by dimension",
            collectives: &[AllToAll],
            aliases: &["torus-relay"],
            known_as: &[],
            summary: "blocks are relayed along one side dᵢ after another, each the shorter way: Σ(dᵢ − 1) \
                      messages on one port",
            source: SOURCE,
        };
        static MESH: Meta = Meta {
            id: "mesh",
            title: "mesh, dimension by dimension",
            collectives: &[AllToAll],
            aliases: &["mesh-relay"],
            known_as: &[],
            summary: "blocks are relayed along one side dᵢ after another: 2·Σ(dᵢ − 1) messages on one port, \
                      and one along a side of two",
            source: SOURCE,
        };
        if self.wraps { &TORUS } else { &MESH }
    }

    fn applies(&self, shape: &Shape) -> Result<(), Reason> {
        applies(shape)
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        if has_all_links(&v.shape) {
            let (blocks, of) = self.busiest(&v.shape);
            let load = fraction(Share::new(blocks, of).exact());
            return Cost::new(F::int(self.hops(&v.shape) as i64), load);
        }
        let (mut messages, mut volume) = (0, Rational::from_integer(0));
        self.in_turn(&v.shape, &mut |step| {
            messages += step.count as i64;
            volume += step.share.exact() * Rational::from_integer(step.count.into());
        });
        Cost::new(F::int(messages), fraction(volume))
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        let sides = sides(shape, self.wraps);
        let are_rings = sides.iter().all(|side| side.wraps || side.length == 2);
        match (has_all_links(shape), are_rings && are_alike(&sides)) {
            (true, true) => Guarantee::Equal,
            (true, false) => Guarantee::Asymptotic,
            (false, _) => Guarantee::UpperBound,
        }
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        let blocks = |side: Side| -> u64 {
            let d = u64::from(side.length);
            if side.wraps || d == 2 {
                return d * d / 4;
            }
            // Rank i of a line forwards (i + 1)(d − 1 − i) blocks one way and i(d − i) the other
            // way.
            (0..d).map(|i| (i + 1) * (d - 1 - i) + i * (d - i)).max().unwrap_or(0)
        };
        let share = |side: Side| F::int(blocks(side) as i64) / F::int(side.length.into());
        let sides = sides(&v.shape, self.wraps).into_iter();
        sides.map(share).fold(F::int(0), |sum, part| sum + part)
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        if !has_all_links(shape) {
            return self.in_turn(shape, emit);
        }
        let hops = self.hops(shape);
        let (blocks, of) = self.busiest(shape);
        emit(Step::new(hops, Share::new(blocks, of * hops), Route::Side(1)));
    }

    /// spiceMonkey/collective-comm prints d_max/8, and d_max/4 for a mesh, for any sides.
    fn paper<F: Field>(&self, v: &At<F>) -> Option<Cost<F>> {
        let longest = dims(&v.shape).lengths().iter().copied().max().unwrap_or(1);
        let parts = if self.wraps { 8 } else { 4 };
        let beta = F::int(longest.into()) / F::int(parts);
        Some(Cost::new(F::int(self.hops(&v.shape) as i64), beta))
    }

    fn ports_needed(&self, shape: &Shape) -> u32 {
        degree(shape)
    }

    /// If all links of a rank work at once: in as many parts as there are sides, with ties split in
    /// halves; otherwise as a whole.
    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        let sides = sides(shape, self.wraps);
        let orders = if has_all_links(shape) { sides.len() as u32 } else { 1 };
        let halves = self.wraps && lanes(shape.ports, 2) == 2;
        Some(Box::new(schedule::Exchange::new(shape.ranks, sides, orders, halves)))
    }
}

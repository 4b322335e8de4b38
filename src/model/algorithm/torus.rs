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
//! `dims` are the sides d₁ × d₂ × …, whose product is N; side 1 varies fastest with the rank.
//!
//! - `torus` all-reduce: 2Σ(dᵢ − 1)·α + 2(N − 1)/N·M/BW; all-gather and reduce-scatter take half
//!   of that. One ring at a time, on one port; exact on full-duplex ports.
//! - The same if all links of a rank work at once: parts of the vector take the dimensions in
//!   different orders, half of each part goes one way around and half the other, and k dimensions
//!   of more than two ranks carry M in 1/(2k) of the time. On a mesh, which has no other way
//!   around, each part spreads both ways from where it is, in 1/k of the time: as much as a corner
//!   can receive. Exact for sides of equal length; on others a part waits, dimension by dimension,
//!   for the one on the longest side: an upper bound. With fewer ports a mesh takes one dimension
//!   after another, and both neighbours in turn.
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

/// Sides longer than 1, each with the rank distance between neighbours along it.
fn sides(shape: &Shape) -> Vec<(u32, u32)> {
    let strides = |stride: &mut u32, &d: &u32| {
        let here = *stride;
        *stride *= d;
        Some((d, here))
    };
    let dims = dims(shape);
    dims.lengths().iter().scan(1, strides).filter(|&(d, _)| d > 1).collect()
}

/// Links of the busiest rank: two per side, and one along a side of two.
fn degree(shape: &Shape) -> u32 {
    sides(shape).iter().map(|&(d, _)| (d - 1).min(2)).sum()
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
struct Rings {
    /// Whether the sides wrap around: a torus.
    wraps: bool,
}

/// Consecutive rounds of an all-gather on all links.
struct Leg {
    rounds: u32,
    /// What one link carries in a round, as a share of the vector.
    share: Rational,
    /// What the busiest rank sends in it.
    sent: Rational,
    /// Reversed, what the busiest rank adds, or several of them if none is always the latest.
    added: Rational,
    /// Messages of a round that go one after another through a port.
    turns: u32,
    /// The rank distance between neighbours along one of its sides.
    stride: u32,
}

impl Rings {
    /// Whether all links of a rank work at once.
    fn is_parallel(&self, shape: &Shape) -> bool {
        has_all_links(shape) && (!self.wraps || degree(shape) > 1)
    }

    /// Whether no part waits for another.
    fn is_exact(&self, shape: &Shape) -> bool {
        let sides = sides(shape);
        self.is_parallel(shape) && sides.windows(2).all(|pair| pair[0].0 == pair[1].0)
    }

    /// Whether the rounds are those of [`Self::legs`], and not rings one after another.
    fn has_legs(&self, shape: &Shape) -> bool {
        !self.wraps || self.is_parallel(shape)
    }

    /// The rounds of an all-gather. In leg i part q goes along side q + i, with what it gathered along the
    /// sides before; with fewer ports there is one part.
    fn legs(&self, shape: &Shape) -> Vec<Leg> {
        let (sides, mut legs) = (sides(shape), Vec::new());
        let (parallel, exact) = (self.is_parallel(shape), self.is_exact(shape));
        let parts = if parallel { sides.len() } else { 1 };
        let of =
            |blocks: u64| Rational::new(blocks.into(), i128::from(shape.ranks) * parts as i128);
        // Along a line both neighbours are served.
        let turns = |d: u32| {
            let both = (d - 1).min(2) * if shape.ports.is_half() { 2 } else { 1 };
            if parallel { 1 } else { both.div_ceil(shape.ports.sends(both).max(1)) }
        };
        for leg in 0..sides.len() {
            let part = |q: usize| {
                let side = |i: usize| sides[(q + i) % sides.len()];
                let gathered = (0..leg).map(|i| u64::from(side(i).0)).product();
                let ((d, stride), all) = (side(leg), of(gathered));
                let twice = Rational::from_integer(2);
                let (link, sent, added) = match d {
                    2 => (all, all, all),
                    _ if self.wraps => (all / twice, all, all),
                    _ => {
                        // The d − 1 rounds pass d + 1 blocks through a rank that is not at an end.
                        let sent = all * Rational::new((d + 1).into(), (d - 1).into());
                        (all, sent, if exact { sent } else { all * twice })
                    }
                };
                Leg { rounds: d - 1, share: link, sent, added, turns: turns(d), stride }
            };
            let all: Vec<Leg> = (0..parts).map(part).collect();
            let mut done = 0;
            while let Some(until) = all.iter().map(|p| p.rounds).filter(|&r| r > done).min() {
                let busy = || all.iter().filter(|p| p.rounds > done);
                legs.push(Leg {
                    rounds: until - done,
                    share: busy().map(|p| p.share).max().unwrap_or_default(),
                    sent: busy().map(|p| p.sent).sum(),
                    added: busy().map(|p| p.added).sum(),
                    turns: busy().map(|p| p.turns).max().unwrap_or(1),
                    stride: busy().map(|p| p.stride).max().unwrap_or(1),
                });
                done = until;
            }
        }
        legs
    }

    /// The sum of one figure of all rounds.
    fn sum(&self, shape: &Shape, figure: impl Fn(&Leg) -> Rational) -> Rational {
        let each = |leg: &Leg| Rational::from_integer(leg.rounds.into()) * figure(leg);
        self.legs(shape).iter().map(each).sum()
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
        if self.has_legs(&v.shape) {
            let passes = F::int(passes(&v.shape).into());
            let turns = |leg: &Leg| Rational::from_integer(leg.turns.into());
            let rounds = self.sum(&v.shape, turns);
            let share = fraction::<F>(self.sum(&v.shape, |leg| turns(leg) * leg.share));
            let added = match v.shape.collective.reduces() {
                true => fraction(self.sum(&v.shape, |leg| leg.added)),
                false => F::int(0),
            };
            return Cost::new(passes.clone() * fraction(rounds), passes * share).reducing(added);
        }
        let steps: u32 = sides(&v.shape).iter().map(|&(d, _)| d - 1).sum();
        gather_cost(v, F::int(steps.into()), shift_turns(&v.shape))
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        match self.has_legs(shape) {
            true if self.is_exact(shape) => Guarantee::Equal,
            true => Guarantee::UpperBound,
            false => Guarantee::on_ports(shape),
        }
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        if self.wraps {
            return gather_sent(v);
        }
        // Reversed, a rank sends what it received: every block once.
        let forward = || fraction::<F>(self.sum(&v.shape, |leg| leg.sent));
        match v.shape.collective {
            AllGather => forward(),
            ReduceScatter => v.others_share(),
            _ => v.others_share() + forward(),
        }
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        if self.has_legs(shape) {
            let share = |exact: Rational| Share::new(*exact.numer() as u64, *exact.denom() as u64);
            let step =
                |leg: &Leg| Step::new(leg.rounds, share(leg.share), Route::Offset(leg.stride));
            let legs = self.legs(shape);
            if shape.collective.reduces() {
                let adds = |leg: &Leg| step(leg).reducing_share(share(leg.added));
                legs.iter().rev().for_each(|leg| repeat(adds(leg), leg.turns, emit));
            }
            if shape.collective != ReduceScatter {
                legs.iter().for_each(|leg| repeat(step(leg), leg.turns, emit));
            }
            return;
        }
        let n = shape.ranks;
        let ring = |&(d, stride): &(u32, u32)| {
            let share = Share::new(n / (d * stride), n);
            Step::new(d - 1, share, Route::Offset(stride))
        };
        let gather: Vec<Step> = sides(shape).iter().rev().map(ring).collect();
        gather_steps(shape, &gather, shift_turns(shape), emit);
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        if self.has_legs(shape) {
            let parts = if self.is_parallel(shape) { sides(shape).len() as u32 } else { 1 };
            return Some(gather_schedule(shape, schedule::Gather::new(shape, self.wraps, parts)));
        }
        Some(schedule::by_side(shape, &|collective, length| {
            Box::new(ring::Ring::new(collective, length))
        }))
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
        let steps: u32 = sides(&v.shape).iter().map(|&(d, _)| ceil_lg(d)).sum();
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
        for &(d, stride) in sides(shape).iter().rev() {
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
        let hops = |&(d, _): &(u32, u32)| u64::from(if self.wraps { d / 2 } else { d - 1 });
        sides(shape).iter().map(hops).sum()
    }

    /// Neighbours that the busiest rank serves.
    fn children(&self, shape: &Shape) -> u32 {
        if self.wraps { degree(shape) } else { sides(shape).len() as u32 }
    }

    /// The number of turns per round on these ports.
    fn turns(&self, shape: &Shape) -> u32 {
        let children = self.children(shape);
        // An inner rank of a mesh has a parent in addition to as many children as the corner.
        let partners = if shape.ports.is_half() && !self.wraps { children + 1 } else { children };
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
        Some(Box::new(schedule::Tree::new(shape, self.wraps)))
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
    fn load(&self, d: u32) -> (u64, u64) {
        let d = u64::from(d);
        let ways = if self.wraps && d > 2 { 2 } else { 1 };
        (d * d / 4, ways * d)
    }

    /// The busiest link of all sides.
    fn busiest(&self, shape: &Shape) -> (u64, u64) {
        let loads = sides(shape).into_iter().map(|(d, _)| self.load(d));
        loads.max_by_key(|&(blocks, of)| (blocks << 32) / of).unwrap_or((0, 1))
    }

    /// One dimension after another.
    fn in_turn(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let both = lanes(shape.ports, 2) == 2;
        for (d, stride) in sides(shape) {
            let mut along = |step: Step| {
                repeat(Step { route: Route::Offset(stride), ..step }, shift_turns(shape), emit);
            };
            if self.wraps || d == 2 {
                let tie = if both && d > 2 { Tie::Split } else { Tie::Right };
                relay_steps(d, tie, both, &mut along);
                continue;
            }
            // On a line the busiest link carries d − t blocks each way in step t.
            for t in 1..d {
                let messages = if both { 1_u32 } else { 2 };
                along(Step::new(messages, Share::new(d - t, d), Route::Offset(stride)));
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
        let sides = sides(shape);
        let equal = sides.windows(2).all(|pair| pair[0].0 == pair[1].0);
        match (has_all_links(shape), self.wraps && equal) {
            (true, true) => Guarantee::Equal,
            (true, false) => Guarantee::Asymptotic,
            (false, _) => Guarantee::UpperBound,
        }
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        let blocks = |d: u32| -> u64 {
            let d = u64::from(d);
            if self.wraps || d == 2 {
                return d * d / 4;
            }
            // Rank i of a line forwards (i + 1)(d − 1 − i) blocks one way and i(d − i) the other
            // way.
            (0..d).map(|i| (i + 1) * (d - 1 - i) + i * (d - i)).max().unwrap_or(0)
        };
        let share = |(d, _): (u32, u32)| F::int(blocks(d) as i64) / F::int(d.into());
        sides(&v.shape).into_iter().map(share).fold(F::int(0), |sum, part| sum + part)
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        if !has_all_links(shape) {
            return self.in_turn(shape, emit);
        }
        let hops = self.hops(shape);
        let (blocks, of) = self.busiest(shape);
        emit(Step::new(hops, Share::new(blocks, of * hops), Route::Offset(1)));
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
        let sides = if has_all_links(shape) { sides(shape).len() as u32 } else { 1 };
        let halves = self.wraps && lanes(shape.ports, 2) == 2;
        Some(Box::new(schedule::Exchange::new(shape, self.wraps, sides, halves)))
    }
}

//! The schedules on a torus or mesh.
//!
//! ```text
//!   4 × 3, tree from 0     0 ─► 1 ─► 2        first along side 2 (down), then along side 1:
//!                          │╰─────────► 3     a rank hangs at the neighbour one step nearer on
//!                          ▼                  the first side on which it is off the root
//!                          4 ─► 5 ─► 6
//!                          …
//! ```

use super::{Side, sides};
use crate::base::collective::Collective::{self, AllGather, AllReduce, AllToAll, ReduceScatter};
use crate::model::formula::{Rational, Shape};
use crate::model::schedule::combine::{Crossing, Then, Tier, Tiers};
use crate::model::schedule::{Endpoint, Frame, Op, Run, Schedule, Sends, modulo};

/// A reduce-scatter or all-gather along a side of the given number of ranks.
type AlongSide<'a> = &'a dyn Fn(Collective, u32) -> Box<dyn Schedule>;

/// Reduce-scatter along the sides in rising order, all-gather along them in reverse, or both.
pub(super) fn by_side(shape: &Shape, along: AlongSide<'_>) -> Box<dyn Schedule> {
    let lengths: Vec<u32> = sides(shape, true).into_iter().map(|side| side.length).collect();
    over(shape.collective, &lengths, along)
}

/// The part of each chunk left after the first side goes along the other sides in between.
fn over(collective: Collective, lengths: &[u32], along: AlongSide<'_>) -> Box<dyn Schedule> {
    let (first, rest) = match lengths {
        [] => (1, &[][..]),
        [first, rest @ ..] => (*first, rest),
    };
    if rest.is_empty() {
        return match collective {
            AllReduce => {
                let (scatter, gather) = (along(ReduceScatter, first), along(AllGather, first));
                Box::new(Then::new(AllReduce, scatter, gather))
            }
            _ => along(collective, first),
        };
    }
    let mut phases = Vec::new();
    if collective.reduces() {
        phases.push((Tier::Inside, along(ReduceScatter, first)));
    }
    phases.push((Tier::Between, over(collective, rest, along)));
    if collective != ReduceScatter {
        phases.push((Tier::Inside, along(AllGather, first)));
    }
    Box::new(Tiers::new(collective, Crossing::Shards, phases))
}

impl Side {
    /// The place of `rank` along it.
    fn place(self, rank: u32) -> u32 {
        rank / self.stride % self.length
    }

    /// The rank that differs from `rank` only in having the place `place` along this side.
    fn at(self, rank: u32, place: u32) -> u32 {
        rank - self.place(rank) * self.stride + place * self.stride
    }

    /// The place after `place`, up or down, if there is one.
    fn next(self, place: u32, up: bool) -> Option<u32> {
        let last = self.length - 1;
        match (up, self.wraps) {
            (true, _) if place < last => Some(place + 1),
            (false, _) if place > 0 => Some(place - 1),
            (_, false) => None,
            (up, true) => Some(if up { 0 } else { last }),
        }
    }

    /// Hops of the longest path.
    pub(super) fn hops(self) -> u32 {
        if self.wraps { self.length / 2 } else { self.length - 1 }
    }

    /// Hops from one place to another, upwards or downwards.
    fn distance(self, from: u32, to: u32, up: bool) -> Option<u32> {
        let (low, high) = if up { (from, to) } else { (to, from) };
        match high.checked_sub(low) {
            Some(hops) => Some(hops),
            None => self.wraps.then(|| high + self.length - low),
        }
    }

    /// Hops from the first place along the shorter way, upwards if both are equal, and the
    /// direction.
    fn way(self, to: u32) -> (u32, bool) {
        let up = !self.wraps || to <= self.length / 2;
        (if up { to } else { self.length - to }, up)
    }
}

/// Segments one after another down the tree of shortest paths from rank 0, or up it.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    frame: Frame,
    sides: Vec<Side>,
    /// Hops to the farthest rank.
    depth: u32,
}

impl Tree {
    pub(super) fn new(shape: &Shape, sides: Vec<Side>) -> Self {
        let segments = shape.segments();
        let depth: u32 = sides.iter().map(|side| side.hops()).sum();
        let rounds = if depth == 0 { 0 } else { u64::from(depth) + u64::from(segments) - 1 };
        let frame = Frame::new(shape.collective, shape.ranks, segments, rounds);
        Self { frame, sides, depth }
    }

    fn depth_of(&self, rank: u32) -> u32 {
        self.sides.iter().map(|side| side.way(side.place(rank)).0).sum()
    }

    /// The neighbour one step nearer to the root.
    fn parent(&self, rank: u32) -> Option<u32> {
        let side = self.sides.iter().find(|side| side.place(rank) > 0)?;
        let (_, up) = side.way(side.place(rank));
        side.next(side.place(rank), !up).map(|place| side.at(rank, place))
    }

    /// The neighbours whose parent `rank` is, nearest first.
    fn children(&self, rank: u32) -> Vec<u32> {
        let neighbours = self.sides.iter().flat_map(|side| {
            let next = |up| side.next(side.place(rank), up).map(|place| side.at(rank, place));
            [next(true), next(false)]
        });
        let mut found: Vec<u32> =
            neighbours.flatten().filter(|&n| self.parent(n) == Some(rank)).collect();
        found.sort_unstable_by_key(|&to| onwards(rank, to, self.frame.ranks));
        found.dedup();
        found
    }
}

impl Schedule for Tree {
    fn frame(&self) -> Frame {
        self.frame
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        let reduces = self.frame.collective.reduces();
        let depth = self.depth_of(rank);
        let delay = if reduces { self.depth - depth } else { depth };
        let segment = round.checked_sub(delay.into()).filter(|&s| s < self.frame.parts.into());
        let Some(segment) = segment else { return };
        // Below P.
        let run = [Run::one(segment as u32)];
        if reduces {
            if let Some(parent) = self.parent(rank) {
                out.push(Endpoint::Rank(parent), Op::Reduce, run);
            }
        } else {
            for child in self.children(rank) {
                out.push(Endpoint::Rank(child), Op::Copy, run);
            }
        }
    }
}

/// All-gather on several links of a rank at once: part q of every block takes the sides in the order q, q + 1, …, and the next one
/// when all parts have finished theirs. Along a ring one half of it goes up and the other down; along a line
/// it spreads both ways.
#[derive(Debug, Clone)]
pub(super) struct Gather {
    ranks: u32,
    sides: Vec<Side>,
    /// Of each part, at most one per side, where its chunks begin in those of a block, and one of its
    /// halves.
    parts: Vec<Run>,
    /// Halves of a part, where data go both ways around rings; otherwise they go up.
    halves: u32,
}

impl Gather {
    /// `None` if a vector has no room for so many chunks.
    pub(super) fn new(
        ranks: u32,
        sides: Vec<Side>,
        parts: &[Rational],
        both_ways: bool,
    ) -> Option<Self> {
        let halves = 1 + u32::from(both_ways && sides.iter().any(|side| side.wraps));
        let chunks = parts.iter().fold(1, |all, part| num_integer::lcm(all, *part.denom()));
        let mut start = 0_u32;
        let run = |part: &Rational| {
            let len = u32::try_from((part * chunks).to_integer()).ok()?;
            let run = Run { start, len };
            start = start.checked_add(len.checked_mul(halves)?)?;
            Some(run)
        };
        let parts = parts.iter().map(run).collect::<Option<_>>()?;
        start.checked_mul(ranks)?;
        Some(Self { ranks, sides, parts, halves })
    }

    /// Chunks of a block.
    fn chunks(&self) -> u32 {
        self.parts.last().map_or(0, |last| last.start + last.len * self.halves)
    }

    /// The side that part `q` takes after `done` others.
    fn side(&self, q: usize, done: usize) -> Side {
        self.sides[(q + done) % self.sides.len()]
    }

    /// Rounds in which all parts finish their next side after `done` others.
    fn leg(&self, done: usize) -> u32 {
        (0..self.parts.len()).map(|q| self.side(q, done).length - 1).max().unwrap_or(0)
    }

    /// What `rank` forwards along `side` of part `q` after it took the sides `behind`, `hops` from where
    /// that began.
    fn runs(
        &self,
        rank: u32,
        q: usize,
        behind: &[Side],
        side: Side,
        up: bool,
        hops: u32,
    ) -> Vec<Run> {
        let place = side.place(rank);
        let start = match (up, side.wraps) {
            (true, false) => place.checked_sub(hops),
            (false, false) => Some(place + hops).filter(|&start| start < side.length),
            (true, true) => Some((place + side.length - hops) % side.length),
            (false, true) => Some((place + hops) % side.length),
        };
        let Some(start) = start else { return Vec::new() };
        let mut origins = vec![side.at(rank, start)];
        for other in behind {
            let all = |&origin: &u32| (0..other.length).map(move |place| other.at(origin, place));
            origins = origins.iter().flat_map(all).collect();
        }
        origins.sort_unstable();
        let Run { start, len } = self.parts[q];
        let (half, halves) = if side.wraps { (u32::from(!up), 1) } else { (0, self.halves) };
        let (chunks, start, len) = (self.chunks(), start + half * len, halves * len);
        let run = |origin: u32| Run { start: origin * chunks + start, len };
        origins.into_iter().map(run).collect()
    }
}

impl Schedule for Gather {
    fn frame(&self) -> Frame {
        let rounds = (0..self.sides.len()).map(|done| u64::from(self.leg(done))).sum();
        Frame::new(AllGather, self.ranks, self.ranks * self.chunks(), rounds)
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        let (mut done, mut hops) = (0, round);
        while done < self.sides.len() && hops >= u64::from(self.leg(done)) {
            hops -= u64::from(self.leg(done));
            done += 1;
        }
        if done == self.sides.len() {
            return;
        }
        // Below the length of a side.
        let hops = hops as u32;
        let mut messages = Vec::new();
        for q in 0..self.parts.len() {
            let behind: Vec<Side> = (0..done).map(|done| self.side(q, done)).collect();
            let side = self.side(q, done);
            if hops + 1 >= side.length {
                continue;
            }
            for up in [true, false] {
                let Some(next) = side.next(side.place(rank), up) else { continue };
                if side.wraps && !up && self.halves == 1 {
                    continue;
                }
                let runs = self.runs(rank, q, &behind, side, up, hops);
                if !runs.is_empty() {
                    messages.push((side.at(rank, next), runs));
                }
            }
        }
        messages.sort_by_key(|&(to, _)| onwards(rank, to, self.ranks));
        for (to, runs) in messages {
            out.push(Endpoint::Rank(to), Op::Copy, runs);
        }
    }
}

/// All-to-all: every block goes along one side after the other, along each the shorter way.
///
/// Step t along a side forwards the blocks with t or more hops to go. Part q of a vector takes the
/// sides in the order q, q + 1, …, so the parts use different links.
#[derive(Debug, Clone)]
pub(super) struct Exchange {
    ranks: u32,
    sides: Vec<Side>,
    /// Parts of a block that take the sides in different orders.
    orders: u32,
    /// Halves of a part; the second one goes down where both ways are equally long.
    halves: u32,
}

impl Exchange {
    /// `orders`, at most one per side; `halves`: whether ties are split.
    pub(super) fn new(ranks: u32, sides: Vec<Side>, orders: u32, halves: bool) -> Self {
        Self { ranks, sides, orders: orders.max(1), halves: 1 + u32::from(halves) }
    }

    /// The stage of part `order` in `round`: the number of finished sides, and the hops on the next
    /// one.
    fn stage(&self, order: u32, round: u64) -> (usize, u64) {
        let mut hops = round;
        for done in 0..self.sides.len() {
            let along = u64::from(self.sides[self.side(order, done)].hops());
            if hops < along {
                return (done, hops);
            }
            hops -= along;
        }
        (self.sides.len(), hops)
    }

    /// The side that part `order` takes after `done` others.
    fn side(&self, order: u32, done: usize) -> usize {
        (order as usize + done) % self.sides.len()
    }

    /// The blocks of part `order` that `rank` forwards along `side` in a direction.
    fn blocks(&self, order: u32, side: usize, up: bool, round: u64, rank: u32) -> Vec<Run> {
        let (done, hops) = self.stage(order, round);
        if done == self.sides.len() || self.side(order, done) != side {
            return Vec::new();
        }
        // Below N.
        let hops = hops as u32;
        let behind: Vec<usize> = (0..done).map(|done| self.side(order, done)).collect();
        let along = self.sides[side];
        let place = along.place(rank);
        // The starting place of the blocks that pass here after that many hops.
        let Some(start) = (0..along.length).find(|&s| along.distance(s, place, up) == Some(hops))
        else {
            return Vec::new();
        };
        let mut found = Vec::new();
        // The rank that has, on each side, the place of the origin where the block has been, and of
        // the target where it has yet to go.
        for other in 0..self.ranks {
            let target = along.place(other);
            let Some(way) = along.distance(start, target, up) else { continue };
            let back = along.distance(start, target, !up);
            let tied = back == Some(way) && along.length > 2;
            let nearer = back.is_none_or(|back| way < back || (way == back && (up || tied)));
            if way <= hops || !nearer {
                continue;
            }
            let origin = behind.iter().fold(along.at(rank, start), |origin, &i| {
                self.sides[i].at(origin, self.sides[i].place(other))
            });
            let target = behind
                .iter()
                .fold(other, |target, &i| self.sides[i].at(target, self.sides[i].place(rank)));
            let block = (origin * self.ranks + target) * self.orders + order;
            let (first, len) = match (tied, up, self.halves) {
                (true, false, 1) => continue,
                (true, true, 2) => (0, 1),
                (true, false, _) => (1, 1),
                (_, _, halves) => (0, halves),
            };
            found.push(Run { start: block * self.halves + first, len });
        }
        found
    }
}

impl Schedule for Exchange {
    fn frame(&self) -> Frame {
        let rounds = self.sides.iter().map(|side| u64::from(side.hops())).sum();
        let parts = self.ranks * self.orders * self.halves;
        Frame::new(AllToAll, self.ranks, parts, rounds)
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        let mut messages = Vec::new();
        for (i, side) in self.sides.iter().enumerate() {
            for up in [true, false] {
                let blocks = |order| self.blocks(order, i, up, round, rank);
                let runs: Vec<Run> = (0..self.orders).flat_map(blocks).collect();
                let next = side.next(side.place(rank), up).filter(|_| !runs.is_empty());
                messages.extend(next.map(|place| (side.at(rank, place), runs)));
            }
        }
        messages.sort_by_key(|&(to, _)| onwards(rank, to, self.ranks));
        for (to, runs) in messages {
            out.push(Endpoint::Rank(to), Op::Copy, runs);
        }
    }
}

/// The distance from `rank` up to `to`, modulo N.
fn onwards(rank: u32, to: u32, ranks: u32) -> u32 {
    modulo(u64::from(to) + u64::from(ranks - rank), ranks)
}

#[cfg(test)]
mod tests {
    use super::super::FAMILY;
    use super::*;
    use crate::model::algorithm::Guarantee;
    use crate::model::formula::{At, Dims, Params, Ports, Rational};
    use crate::model::schedule::{count, verify};

    const SIDES: &[&[u32]] = &[
        &[1],
        &[2],
        &[5],
        &[6],
        &[2, 2],
        &[3, 3],
        &[4, 4],
        &[4, 3],
        &[5, 2],
        &[1, 3, 4],
        &[2, 2, 2],
        &[3, 3, 3],
        &[4, 2, 3],
        &[2, 3, 2, 2],
    ];

    #[test]
    fn every_torus_and_mesh_does_and_costs_what_it_promises() {
        let mut compared = 0;
        let ports = [1, 2, 4, 0];
        let open = [[false; 4], [true, false, false, false], [false, true, true, false]];
        let all = SIDES.iter().flat_map(|l| ports.map(|k| (l, k)));
        for ((lengths, k), open) in all.flat_map(|one| open.map(|open| (one, open))) {
            let params = Params { dims: Dims::new(lengths), open, ..Params::default() };
            let ranks = lengths.iter().product();
            for (algorithm, segments) in FAMILY.iter().flat_map(|&a| [1, 4].map(|p| (a, p))) {
                for &collective in algorithm.meta().collectives {
                    let shape = Shape { params, ..Shape::new(collective, ranks) };
                    let shape = shape.with_segments(segments).with_ports(Ports::full(k));
                    let name = format!("{} {shape:?}", algorithm.meta().id);
                    let schedule = algorithm.schedule(&shape).expect("every shape has one");
                    assert_eq!(verify(&*schedule), Ok(()), "{name}");
                    let at = At::numbers(shape);
                    let counted = count(&*schedule, k);
                    assert_eq!(algorithm.sent_exactly(&at), counted.max_sent, "{name}");
                    let form = algorithm.prove(&at).total();
                    let alpha = Rational::from_integer(counted.n_alpha.into());
                    match algorithm.guarantee(&shape) {
                        Guarantee::Equal | Guarantee::EqualInRounds => {
                            assert_eq!((form.alpha, form.beta), (alpha, counted.n_beta), "{name}");
                            compared += 1;
                        }
                        Guarantee::UpperBound => {
                            assert!(form.alpha >= alpha && form.beta >= counted.n_beta, "{name}");
                        }
                        // A schedule that is not cut into segments takes more than its limit.
                        Guarantee::Asymptotic => assert!(form.beta <= counted.n_beta, "{name}"),
                        Guarantee::Pipelined => {}
                    }
                }
            }
        }
        assert!(compared > 100, "{compared}");
    }
}

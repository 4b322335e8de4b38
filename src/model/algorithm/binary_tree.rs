//! Pipelined binary trees: broadcast, reduce, and an all-reduce that goes up and down.
//!
//! ```text
//!            0                 heap: the parent of i is ⌊(i − 1)/2⌋
//!        1       2             a rank sends to its left child in one slot, to its right child
//!      3   4   5   6           in the next: rank j − 1 is reached in ⌊lg j⌋ + popcount(j) − 1 slots
//! ```
//!
//! With f = ⌊lg N⌋, P segments and D(N) the largest of those numbers up to N:
//!
//! | ports | broadcast or reduce | all-reduce, P = 1 | all-reduce, P > 1, N ≥ 5 |
//! |---|---|---|---|
//! | one full duplex | 2(P−1) + D(N) | 2·D(N) | 3(P−1) + 2·D(N) + 2, at most |
//! | two | (P−1) + f | 2f | 2(P−1) + 2f, at most |
//! | three or more | (P−1) + f | 2f | (P−1) + 2f |
//! | one half duplex | 3(P−1) + D(N) | 2·D(N) | 6(P−1) + 3·D(N), at most |
//!
//! messages of M/P. D(N) is 2(lg N − 1) for N = 2^m; smaller trees have shorter periods. Each
//! further segment adds as many slots as a rank with two children and a parent sends, or receives,
//! messages.
//!
//! The *coloured* all-reduce repeats every three slots: a rank's three sends, and its three
//! receipts, are in slots of three different colours. It takes 3(P−1) + C(N) slots, where C(N) is
//! the length of the best colouring: 4⌊lg(N+1)⌋ − 3 slots, and up to three more from N = 23 on. Up
//! to four ranks need one colour less. In the plain one each message starts as soon as its data and
//! ports are free; its bound was checked by simulation for N ≤ 140 and P ≤ 25.
//! On two ports the best known algorithm tends to 1.5 slots per segment; the bound given here is
//! reduce, then broadcast.
//!
//! The *in-order* tree (NCCL src/graph/trees.cc; Open MPI has `in-order-halved-tree`) keeps the order of the operands. The parent of r is r
//! with its lowest set bit moved up by one; 0 is above all. The tree is ⌈lg N⌉ deep. On one port it
//! takes 2(P−1) + 2⌈lg N⌉ − 1 slots, exact for N = 2^m.
//!
//! Many texts, spiceMonkey/collective-comm 01 among them, give ⌈lg N⌉ rounds for a tree with two
//! children. That is the binomial tree (K5): here a rank has one port for its two children.

mod coloured;

use std::ops::Range;

use super::{Algorithm, ClosedForm, Edges, Guarantee, Library, Meta, Route, Share, Step};
use crate::base::collective::Collective::{AllReduce, Broadcast, Reduce};
use crate::model::formula::{At, Cost, Field, Function, Named, Ports, Shape, ceil_lg, floor_lg};
use crate::model::schedule::Schedule;
use crate::model::schedule::tree::{Levels, Tree};

/// The binary trees.
pub static FAMILY: &[&dyn Algorithm] = &[&Heap, &InOrder, &Single, &Coloured];

/// Broadcast and reduce over a heap.
struct Heap;

impl ClosedForm for Heap {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "binary-tree",
            title: "binary tree",
            collectives: &[Broadcast, Reduce],
            aliases: &["binary", "binary_tree", "binary_tree_bcast", "binary_tree_reduce"],
            known_as: &[
                (Library::OpenMpi, &[Broadcast], "5 binary_tree"),
                (Library::OpenMpi, &[Reduce], "4 binary"),
            ],
            summary: "in a heap-shaped tree each rank sends segments to two children, left first",
            source: "Open MPI, coll/base: binary trees",
        }
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let length = if serves_both(&v.shape) {
            v.floor_lg()
        } else if Self::waits(&v.shape) {
            v.reach() + v.floor_lg() - F::int(2)
        } else {
            v.reach()
        };
        one_way(v, Self::period(&v.shape), length)
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        match shape.ports {
            // Two shared ports do more than one port of each direction.
            Ports::Half(k) if k.get() == 2 => Guarantee::UpperBound,
            Ports::Half(k) if k.get() == 1 && shape.segments() > 1 => Guarantee::UpperBound,
            _ => Guarantee::Equal,
        }
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        F::int(if v.shape.collective == Reduce { 1 } else { children(&v.shape).into() })
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let length = match shape.ranks {
            n if serves_both(shape) => floor_lg(n),
            n if Self::waits(shape) => reach(n) + floor_lg(n) - 2,
            n => reach(n),
        };
        let p = shape.segments();
        let step = |count: u32, route| {
            let step = Step::new(u64::from(count), Share::new(1_u32, p), route);
            let added = if shape.collective == Reduce { added_at_once(shape) } else { 0 };
            step.reducing_share(Share::new(added, p))
        };
        down(shape, length).for_each(|(count, route)| emit(step(count, route)));
        if p > 1 {
            let step = step(Self::period(shape), all_levels(shape)).meeting(passed_on(shape, 2));
            emit(Step { count: step.count * u64::from(p - 1), ..step });
        }
    }

    fn is_pipelined(&self) -> bool {
        true
    }

    fn ports_needed(&self, shape: &Shape) -> u32 {
        children(shape)
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        let tree = Tree::heap(shape.ranks);
        Some(Box::new(Levels::new(shape.collective, tree, shape.segments())))
    }
}

impl Heap {
    /// Whether a rank that shares one port among its parent and two children delays each of them
    /// once more per level, below the first two levels.
    fn waits(shape: &Shape) -> bool {
        let half = matches!(shape.ports, Ports::Half(k) if k.get() == 1);
        half && shape.collective == Broadcast && shape.segments() > 1 && shape.ranks >= 9
    }

    /// Slots that each further segment adds: the messages of one segment at the busiest port.
    fn period(shape: &Shape) -> u32 {
        let parents = u32::from(shape.ranks >= 5);
        match shape.ports {
            _ if serves_both(shape) => 1,
            // From N = 5 on some rank receives a segment and sends it twice; rank 1 of 4 forwards it
            // once.
            Ports::Half(k) if k.get() == 1 => children(shape) + parents,
            _ => children(shape),
        }
    }
}

/// Broadcast and reduce that keep the order of operands.
struct InOrder;

impl ClosedForm for InOrder {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "in-order-binary-tree",
            title: "in-order binary tree",
            collectives: &[Broadcast, Reduce],
            aliases: &["in-order-binary", "in_order_binary"],
            known_as: &[],
            summary: "a binary tree whose subtrees are ranges of ranks, keeping operands in order",
            source: "NCCL src/graph/trees.cc: the tree of one communicator",
        }
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        let (deep, less) = Self::length(&v.shape);
        let length = F::int(deep.into()) * v.ceil_lg() - F::int(less.into());
        one_way(v, Self::period(&v.shape), length)
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        let (exact, chain) = (shape.is_power_of_two(), shape.ranks <= 3);
        match shape.ports {
            Ports::Half(k) if k.get() <= 2 => Guarantee::UpperBound,
            _ if serves_both(shape) || exact || chain => Guarantee::Equal,
            _ => Guarantee::UpperBound,
        }
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        F::int(if v.shape.collective == Reduce { 1 } else { Self::children(&v.shape).into() })
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        let (deep, less) = Self::length(shape);
        let length = deep * ceil_lg(shape.ranks) - less;
        one_way_steps(shape, Self::period(shape), length, emit);
    }

    fn is_pipelined(&self) -> bool {
        true
    }

    fn ports_needed(&self, shape: &Shape) -> u32 {
        Self::children(shape)
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        let tree = Tree::in_order(shape.ranks);
        Some(Box::new(Levels::new(shape.collective, tree, shape.segments())))
    }
}

impl InOrder {
    /// Up to three ranks form a chain.
    fn children(shape: &Shape) -> u32 {
        if shape.ranks <= 3 { 1 } else { 2 }
    }

    fn period(shape: &Shape) -> u32 {
        match shape.ports {
            _ if serves_both(shape) => 1,
            Ports::Half(k) if k.get() == 1 && shape.ranks > 2 => Self::children(shape) + 1,
            _ => Self::children(shape),
        }
    }

    /// Slots until the last rank has a segment: (slots per level, slots to subtract).
    fn length(shape: &Shape) -> (u32, u32) {
        match shape.ports {
            _ if serves_both(shape) || shape.ranks <= 3 => (1, 0),
            Ports::Half(k) if k.get() == 1 => (3, 0),
            _ => (2, 1),
        }
    }
}

/// All-reduce up and down a heap, each message sent as soon as possible.
struct Single;

impl ClosedForm for Single {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "single-binary-tree",
            title: "single binary tree",
            collectives: &[AllReduce],
            aliases: &["single_binary_tree", "single_tree", "single_tree_ar"],
            known_as: &[],
            summary: "segments are summed up a heap-shaped tree and broadcast down it, overlapping",
            source: "spiceMonkey/collective-comm 01 §5.2: the single tree",
        }
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        up_and_down(v, F::int(2) * v.reach() + F::int(further_slots(&v.shape).into()))
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        up_and_down_guarantee(shape)
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        F::int(busiest_sends(&v.shape).into())
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        up_and_down_steps(shape, 2 * reach(shape.ranks) + further_slots(shape), emit);
    }

    /// 002 and 003 print two passes of ⌈lg N⌉ rounds.
    fn paper<F: Field>(&self, v: &At<F>) -> Option<Cost<F>> {
        let rounds = F::int(2) * v.ceil_lg();
        (v.shape.segments() == 1).then(|| Cost::new(rounds.clone(), rounds))
    }

    fn is_pipelined(&self) -> bool {
        true
    }

    fn ports_needed(&self, shape: &Shape) -> u32 {
        busiest_sends(shape)
    }

    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        let tree = Tree::heap(shape.ranks);
        Some(Box::new(Levels::new(shape.collective, tree, shape.segments())))
    }
}

/// The single tree with a schedule that repeats every three slots.
struct Coloured;

impl ClosedForm for Coloured {
    fn meta(&self) -> &'static Meta {
        &Meta {
            id: "binary-tree-colored",
            title: "coloured binary tree",
            collectives: &[AllReduce],
            aliases: &["tree_colored", "tree_colored_ar"],
            known_as: &[],
            summary: "up and down a heap-shaped tree in slots of three colours: no port conflicts",
            source: "this project: an edge colouring of the tree's messages, period 3",
        }
    }

    fn cost<F: Field>(&self, v: &At<F>) -> Cost<F> {
        static LENGTH: Named = Named {
            name: "C",
            means: "C(N) is the slots of one segment up and down in the colouring, mostly \
                    4·⌊lg(N + 1)⌋ − 3",
            rule: |n| coloured::length(u32::try_from(n[0]).unwrap_or(u32::MAX)).into(),
        };
        let length = coloured::length(v.shape.ranks).into();
        up_and_down(v, F::call(Function::Named(&LENGTH), &[&v.n], length))
    }

    fn guarantee(&self, shape: &Shape) -> Guarantee {
        up_and_down_guarantee(shape)
    }

    fn sent<F: Field>(&self, v: &At<F>) -> F {
        F::int(busiest_sends(&v.shape).into())
    }

    fn steps(&self, shape: &Shape, emit: &mut dyn FnMut(Step)) {
        up_and_down_steps(shape, coloured::length(shape.ranks), emit);
    }

    fn is_pipelined(&self) -> bool {
        true
    }

    fn ports_needed(&self, shape: &Shape) -> u32 {
        busiest_sends(shape)
    }

    /// Colours are for one port; with more ports all messages of a level go at once.
    fn schedule(&self, shape: &Shape) -> Option<Box<dyn Schedule>> {
        if shape.ports.both_ways(2) == 2 {
            return ClosedForm::schedule(&Single, shape);
        }
        Some(Box::new(coloured::Coloured::new(shape.ranks, shape.segments())))
    }
}

/// D(N): slots until a segment has reached the last rank of a heap, one port after another.
fn reach(n: u32) -> u32 {
    let depth = floor_lg(n);
    let slots = |j: u32| depth + j.count_ones() - 1;
    // The most set bits up to N: N itself, or N with one bit cleared and all bits below it set.
    let ones = (0..depth).filter(|k| n >> k & 1 == 1).map(|k| slots((n >> k << k) - 1));
    // Or the last rank of the level above, which is full.
    ones.chain([slots(n), (2 * depth).saturating_sub(2)]).max().unwrap_or(0)
}

impl<F: Field> At<F> {
    /// D(N).
    fn reach(&self) -> F {
        static REACH: Named = Named {
            name: "D",
            means: "D(N) is the largest ⌊lg j⌋ + o(j) − 1 for 1 ≤ j ≤ N, where o(j) is the number of \
                    ones in binary",
            rule: |n| reach(u32::try_from(n[0]).unwrap_or(u32::MAX)).into(),
        };
        F::call(Function::Named(&REACH), &[&self.n], reach(self.shape.ranks).into())
    }
}

/// Children of the busiest rank of a heap.
fn children(shape: &Shape) -> u32 {
    (shape.ranks - 1).min(2)
}

/// Messages that the busiest rank sends of a segment that goes up and down.
fn busiest_sends(shape: &Shape) -> u32 {
    children(shape) + u32::from(shape.ranks >= 5)
}

/// Whether a rank can receive from its parent and send to both children at once, or the reverse.
fn serves_both(shape: &Shape) -> bool {
    match shape.ports {
        Ports::Full(k) => k.get() >= 2,
        Ports::Half(k) => k.get() >= 3,
        Ports::Unbounded => true,
    }
}

/// `period`·(P − 1) + `length` messages of M/P.
fn pipeline<F: Field>(v: &At<F>, period: u32, length: F) -> Cost<F> {
    let slots = F::int(period.into()) * (v.p.clone() - F::int(1)) + length;
    Cost::new(slots.clone(), slots / v.p.clone())
}

/// A broadcast, or a reduce in which ranks add what arrives: two vectors at once where possible.
fn one_way<F: Field>(v: &At<F>, period: u32, length: F) -> Cost<F> {
    let cost = pipeline(v, period, length);
    if v.shape.collective != Reduce {
        return cost;
    }
    let added = F::int(added_at_once(&v.shape).into()) * cost.clone().total().beta;
    cost.reducing(added)
}

/// Vectors that a rank of a reduce adds at once.
fn added_at_once(shape: &Shape) -> u32 {
    if serves_both(shape) { children(shape) } else { 1 }
}

/// All edges of a heap, in the slots in which every level works.
fn all_levels(shape: &Shape) -> Route {
    Route::Heap { first: 1, end: shape.ranks, both: serves_both(shape) }
}

/// The levels of a heap from the root down, with the slots that a segment takes from each to the next:
/// `length` in all, at least one each.
fn down(shape: &Shape, length: u32) -> impl DoubleEndedIterator<Item = (u32, Route)> + use<> {
    let (ranks, both) = (shape.ranks, serves_both(shape));
    let levels = floor_lg(ranks);
    let waits = if both || length < reach(ranks) { 1..1 } else { to_the_latest(ranks) };
    let rest = length.saturating_sub(levels + waits.end - waits.start);
    let more = rest.div_ceil(levels.max(1));
    (1..=levels).map(move |level| {
        let first = (1_u32 << level) - 1;
        let route = Route::Heap { first, end: ranks.min(2 * first + 1), both };
        let further = more.min(rest.saturating_sub(more * (level - 1)));
        (1 + u32::from(waits.contains(&level)) + further, route)
    })
}

/// The levels at which the message to the rank that is reached last, after D(N) slots, is a second child's. Of several
/// such ranks it is the one whose second children are the farthest from the root: those are in other nodes.
fn to_the_latest(n: u32) -> Range<u32> {
    let depth = floor_lg(n);
    let seconds = reach(n).saturating_sub(depth);
    // In binary a one for the root and, at the end, a one for each second child.
    if (1_u64 << depth) + (1_u64 << seconds) - 1 <= n.into() {
        return depth + 1 - seconds..depth + 1;
    }
    // It is the last of the level above. The last level is reached meanwhile, so its slot stands for the last but one.
    1..1 + seconds
}

fn one_way_steps(shape: &Shape, period: u32, length: u32, emit: &mut dyn FnMut(Step)) {
    let p = shape.segments();
    let step = Step::new(1_u32, Share::new(1_u32, p), Route::Tree);
    let added = if shape.collective == Reduce { added_at_once(shape) } else { 0 };
    let step = if added > 0 { step.reducing_share(Share::new(added, p)) } else { step };
    let step = step.meeting(passed_on(shape, InOrder::children(shape)));
    step.along((Edges::InOrder, shape.ranks), (length.into(), period.into()), p.into(), emit);
}

/// The part of its messages that a rank with so many children sends while it receives others, once the pipeline is
/// full: of three messages to and from it one is to or from the rank above.
fn passed_on(shape: &Shape, children: u32) -> Share {
    match children {
        _ if !shape.passes_on() => Share::NONE,
        1 => Share::ALL,
        _ => Share::new(1_u32, 2_u32),
    }
}

/// Extra slots of the first segment where each message goes as soon as it can.
fn further_slots(shape: &Shape) -> u32 {
    if shape.ranks >= 5 { 2 } else { 0 }
}

/// Slots that the first segment of an all-reduce up and down a heap takes.
#[derive(Clone, Copy)]
enum Length {
    /// 2f.
    Levels,
    /// A multiple of D(N).
    Reach(u32),
    /// The length of the pipelined schedule on one port.
    OnePort,
}

/// Slots that each further segment adds, 0 if there is none; and the slots of the first one.
fn plan(shape: &Shape) -> (u32, Length) {
    let n = shape.ranks;
    let small = n <= 4;
    match shape.ports.both_ways(3) {
        0 | 1 if shape.segments() == 1 => (0, Length::Reach(2)),
        0 => (2 * busiest_sends(shape), Length::Reach(if n <= 3 { 2 } else { 3 })),
        1 => (coloured::period(n), Length::OnePort),
        2 if small => (1, Length::Levels),
        2 => (2, Length::Levels),
        _ => (1, Length::Levels),
    }
}

fn up_and_down<F: Field>(v: &At<F>, one_port: F) -> Cost<F> {
    let (period, length) = plan(&v.shape);
    let children = F::int(children(&v.shape).into());
    let (length, first) = match length {
        // Both children are received at once, and added one after the other.
        Length::Levels => (F::int(2) * v.floor_lg(), children.clone() * v.floor_lg()),
        Length::Reach(times) => (F::int(times.into()) * v.reach(), v.reach()),
        Length::OnePort => (one_port, v.reach()),
    };
    if period == 0 {
        return Cost::new(length.clone(), length).reducing(first);
    }
    let added = children * (v.p.clone() - F::int(1)) + first;
    pipeline(v, period, length).reducing(added / v.p.clone())
}

fn up_and_down_steps(shape: &Shape, one_port: u32, emit: &mut dyn FnMut(Step)) {
    let (n, p) = (shape.ranks, shape.segments());
    let (period, length) = plan(shape);
    let (length, first) = match length {
        Length::Levels => (2 * floor_lg(n), children(shape) * floor_lg(n)),
        Length::Reach(times) => (times * reach(n), reach(n)),
        Length::OnePort => (one_port, reach(n)),
    };
    // `first` of the additions come on the way up, the rest with every further segment.
    let (up, mut left) = (length - length / 2, first);
    let most = first.div_ceil(up);
    for (slots, route) in down(shape, up).rev() {
        let added = left.min(most * slots);
        left -= added;
        adding(slots.into(), added.into(), p, route, emit);
    }
    for (slots, route) in down(shape, length / 2) {
        adding(slots.into(), 0, p, route, emit);
    }
    // From now on every rank receives as much as it sends.
    let emit = &mut |step: Step| emit(step.meeting(Share::ALL));
    let further = u64::from(p - 1);
    let added = further * u64::from(children(shape));
    adding(further * u64::from(period), added, p, all_levels(shape), emit);
}

/// `slots` messages of one of `p` segments, in which a rank adds `added` segments: two, one or none at
/// a time.
fn adding(slots: u64, added: u64, p: u32, route: Route, emit: &mut dyn FnMut(Step)) {
    let two = added.saturating_sub(slots);
    let one = added - 2 * two;
    for (count, added) in [(two, 2_u32), (one, 1), (slots - two - one, 0)] {
        if count > 0 {
            let step = Step::new(count, Share::new(1_u32, p), route);
            emit(step.reducing_share(Share::new(added, p)));
        }
    }
}

/// Exact without a pipeline, on enough ports, and for trees that are stars or chains.
fn up_and_down_guarantee(shape: &Shape) -> Guarantee {
    let bound = match shape.ports {
        Ports::Half(k) => k.get() > 1 || shape.segments() > 1,
        Ports::Full(k) => k.get() <= 2 && shape.segments() > 1 && shape.ranks >= 5,
        Ports::Unbounded => false,
    };
    if bound { Guarantee::UpperBound } else { Guarantee::Equal }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_rank_exists() {
        for n in 2_u32..3000 {
            let (depth, seconds) = (n.ilog2(), to_the_latest(n));
            assert_eq!(depth + seconds.end - seconds.start, reach(n), "{n}");
            if seconds.end > depth {
                let bits: u32 = seconds.map(|level| 1 << (depth - level)).sum();
                assert!((1 << depth) + bits <= n, "{n}");
            } else {
                assert_eq!(reach(n), 2 * (depth - 1), "{n}");
            }
        }
    }

    #[test]
    fn reach_is_the_latest_rank_of_a_heap() {
        let mut latest = 0;
        for n in 1_u32..3000 {
            latest = latest.max(n.ilog2() + n.count_ones() - 1);
            assert_eq!(reach(n), latest, "{n}");
        }
    }
}

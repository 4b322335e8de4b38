//! The double trees as an explicit schedule.

use super::colouring::{Phase, Transfer};
use super::flow::flow;
use super::known::best_known;
use super::lengths::{one_port_slots, unsegmented_steps};
use crate::base::collective::Collective::{AllReduce, Broadcast};
use crate::model::formula::Trees;
use crate::model::schedule::combine::Segment;
use crate::model::schedule::tree::{Levels, Tree, repetition};
use crate::model::schedule::{Endpoint, Frame, List, Op, Run, Schedule, Sends};

/// The two trees of the all-reduce: NCCL's, or the heap and its mirror.
#[must_use]
pub fn trees(ranks: u32, layout: Trees) -> [Tree; 2] {
    let first = match layout {
        Trees::Heap => Tree::heap(ranks),
        Trees::Coloured | Trees::Levels => Tree::in_order(ranks),
    };
    [first, first.twin()]
}

/// All-reduce in one round per level: half h of the vector on tree h, both at the same time.
///
/// Chunks 0 … P − 1 belong to the first half. Among a rank's sends in a round the results come
/// first, then the partial sums; within each group tree 1 comes before tree 2.
#[derive(Debug, Clone, Copy)]
pub(super) struct ByLevels {
    halves: [Levels; 2],
    segments: u32,
}

impl ByLevels {
    pub(super) fn new(trees: [Tree; 2], segments: u32) -> Self {
        Self { halves: trees.map(|tree| Levels::new(AllReduce, tree, segments)), segments }
    }
}

impl Schedule for ByLevels {
    fn frame(&self) -> Frame {
        let half = self.halves[0].frame();
        Frame { parts: self.segments.saturating_mul(2), keeps_order: false, ..half }
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        let [first, second] = self.halves;
        first.down(round, rank, 0, out);
        second.down(round, rank, self.segments, out);
        first.up(round, rank, 0, out);
        second.up(round, rank, self.segments, out);
    }
}

/// All-reduce on one port: every transfer of a pair of segments has its own slot, and pair q
/// repeats the slots of pair 0, `period`·q later.
#[derive(Debug, Clone)]
pub(super) struct Slotted {
    ranks: u32,
    segments: u32,
    period: u32,
    /// Slots of pair 0.
    length: u32,
    /// What each rank sends of a pair: to its parent and children in one tree, and to its parent in
    /// the other, each in its own colour.
    sends: Vec<[Option<Transfer>; 4]>,
}

impl Slotted {
    /// The shortest schedule that is known.
    pub(super) fn new(ranks: u32, segments: u32) -> Self {
        // A single pair repeats nothing: it may be faster without colours.
        if segments == 1 && unsegmented_steps(ranks) <= one_port_slots(ranks).length {
            Self::of(ranks, segments, 1, &flow(ranks))
        } else {
            Self::coloured(ranks, segments)
        }
    }

    /// The schedule whose slots repeat.
    pub(super) fn coloured(ranks: u32, segments: u32) -> Self {
        let colouring = best_known(ranks);
        let transfers: Vec<Transfer> = colouring.transfers().collect();
        Self::of(ranks, segments, colouring.period(), &transfers)
    }

    fn of(ranks: u32, segments: u32, period: u32, transfers: &[Transfer]) -> Self {
        let mut sends = vec![[None; 4]; ranks as usize];
        for transfer in transfers {
            let mine = &mut sends[transfer.from as usize];
            if let Some(free) = mine.iter_mut().find(|place| place.is_none()) {
                *free = Some(*transfer);
            }
        }
        let length = transfers.iter().map(|t| t.slot + 1).max().unwrap_or(0);
        Self { ranks, segments, period, length, sends }
    }
}

impl Schedule for Slotted {
    fn frame(&self) -> Frame {
        let further = u64::from(self.segments - 1) * u64::from(self.period);
        let rounds = if self.length == 0 { 0 } else { u64::from(self.length) + further };
        Frame::new(AllReduce, self.ranks, self.segments.saturating_mul(2), rounds)
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        for transfer in self.sends.get(rank as usize).into_iter().flatten().flatten() {
            let pair = repetition(round, transfer.slot, self.period, self.segments);
            let Some(pair) = pair else { continue };
            let op = match transfer.phase {
                Phase::Up => Op::Reduce,
                Phase::Down => Op::Copy,
            };
            let chunk = u32::from(transfer.tree) * self.segments + pair;
            out.push(Endpoint::Rank(transfer.to), op, [Run::one(chunk)]);
        }
    }
}

/// Broadcast: rank 0 feeds two trees on the other ranks in turn.
///
/// Segment s of tree k leaves rank 0 in round 2s + k and reaches depth d ≥ 1 in round
/// 2s + k + 2d − 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fed {
    ranks: u32,
    segments: u32,
    /// The trees over ranks 1 … N − 1, which they count from 0.
    trees: [Tree; 2],
}

impl Fed {
    pub(super) fn new(ranks: u32, segments: u32) -> Self {
        Self { ranks, segments, trees: trees(ranks.saturating_sub(1), Trees::Levels) }
    }
}

impl Schedule for Fed {
    fn frame(&self) -> Frame {
        let below = u64::from(2 * self.trees[0].height()).max(1);
        let rounds = if self.ranks < 2 { 0 } else { 2 * u64::from(self.segments) - 1 + below };
        Frame::new(Broadcast, self.ranks, self.segments.saturating_mul(2), rounds)
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        for (k, tree) in (0..).zip(self.trees) {
            let place = rank.checked_sub(1);
            let delay = k + place.map_or(0, |place| 2 * tree.depth(place) + 1);
            let Some(segment) = repetition(round, delay, 2, self.segments) else { continue };
            let chunk = Run::one(k * self.segments + segment);
            match place {
                None => out.push(Endpoint::Rank(tree.root() + 1), Op::Copy, [chunk]),
                Some(place) => tree
                    .children(place)
                    .for_each(|child| out.push(Endpoint::Rank(child + 1), Op::Copy, [chunk])),
            }
        }
    }
}

/// Broadcast on one port: rank 0 feeds two trees on the other ranks, a pair of segments every two
/// rounds.
///
/// A rank receives a pair in two messages and sends it in two at most. Messages that share a
/// sender, and those that share a receiver, form paths and even cycles, so two colours keep them
/// apart: messages of one colour go in even rounds, the others in odd ones.
pub(super) fn fed_in_turn(ranks: u32, segments: u32) -> Segment<List> {
    let trees = trees(ranks.saturating_sub(1), Trees::Levels);
    let slots = slots(&trees);
    let mut pair = List::new(Frame::new(Broadcast, ranks, 2, 0));
    for (k, tree) in (0..).zip(trees) {
        for place in 0..ranks.saturating_sub(1) {
            let from = tree.parent(place).map_or(0, |parent| parent + 1);
            let [from, to] = [from, place + 1].map(Endpoint::Rank);
            let slot = slots[k as usize][place as usize];
            pair.push(slot.into(), from, to, Op::Copy, &[Run::one(k)]);
        }
    }
    Segment::new(pair.sort(), segments, 2)
}

/// The round in which each place gets the first segment of each tree.
fn slots(trees: &[Tree; 2]) -> [Vec<u32>; 2] {
    let places = trees[0].ranks();
    let mut order: Vec<(usize, u32)> =
        (0..2).flat_map(|k| (0..places).map(move |place| (k, place))).collect();
    order.sort_by_key(|&(k, place)| trees[k].depth(place));
    let mut colours: [Vec<Option<u32>>; 2] = [0, 1].map(|_| vec![None; places as usize]);
    let mut slots: [Vec<u32>; 2] = [0, 1].map(|_| vec![0; places as usize]);
    for (k, place) in order {
        // The first round in which the message can go, regardless of its colour.
        let ready = trees[k].parent(place).map_or(0, |parent| slots[k][parent as usize] + 1);
        slots[k][place as usize] = match colours[k][place as usize] {
            Some(colour) => ready + (ready + colour) % 2,
            None => {
                colour_from(trees, &mut colours, (k, place), ready % 2);
                ready
            }
        };
    }
    slots
}

/// Colours the message to `place` in tree `k`, then all messages chained to it.
fn colour_from(
    trees: &[Tree; 2],
    colours: &mut [Vec<Option<u32>>; 2],
    start: (usize, u32),
    colour: u32,
) {
    let mut open = vec![(start, colour)];
    while let Some(((k, place), colour)) = open.pop() {
        let own = &mut colours[k][place as usize];
        if own.is_some() {
            continue;
        }
        *own = Some(colour);
        // The other message to this place, and the other one from the same sender.
        open.push(((1 - k, place), 1 - colour));
        match trees[k].parent(place) {
            None => open.push(((1 - k, trees[1 - k].root()), 1 - colour)),
            Some(parent) => {
                // Its children are in one tree, or one is in each.
                let sent = (0..2).flat_map(|k| trees[k].children(parent).map(move |c| (k, c)));
                let others = sent.filter(|&message| message != (k, place));
                open.extend(others.map(|message| (message, 1 - colour)));
            }
        }
    }
}

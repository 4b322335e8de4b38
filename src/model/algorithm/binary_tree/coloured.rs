//! The all-reduce up and down a heap that repeats every three slots.
//!
//! ```text
//!   N = 7    slot   0     1     2     3     4     5     6     7      what goes in a slot goes
//!                   4→1   5→2   2→0   1→0   0→1   0→2   2→5   1→4    again, for the next
//!                   6→2         3→1               1→3         2→6    segment, three slots later
//!                   ╰──────── up ────────╯  ╰─────── down ───────╯
//! ```
//!
//! The colour of a slot is its number modulo the period; segment s repeats the slots of segment 0, s
//! periods later. A rank sends up to its parent and down to two children, and receives from as many:
//! three sends in three colours, three receipts in three colours. So a message waits one to three
//! slots for the next one. The colours that are free at a rank depend only on the *shift* from the
//! colour of its receipt from above to the colour of its send upwards. For each shift and each size
//! of subtree the best attainable pair (slots up, slots down) follows from its children's: no
//! colouring of the heap is shorter than the one found.
//!
//! A single segment repeats nothing; two sends, or two receipts, just must not be simultaneous.

use std::collections::BTreeMap;

use crate::base::collective::Collective::AllReduce;
use crate::model::schedule::tree::{Tree, repetition};
use crate::model::schedule::{Endpoint, Frame, Op, Run, Schedule, Sends};

/// The all-reduce on one port.
#[derive(Debug, Clone)]
pub(super) struct Coloured {
    tree: Tree,
    segments: u32,
    period: u32,
    /// The slots of segment 0 that a rank shares with its parent.
    slots: Vec<Slots>,
    length: u32,
}

/// The slots in which a rank sends up and receives from above. For the root both hold the slot
/// before which its last child has sent up and after which it sends down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slots {
    up: u32,
    down: u32,
}

impl Coloured {
    pub(super) fn new(ranks: u32, segments: u32) -> Self {
        let segments = segments.max(1);
        let period = if segments == 1 { 1 } else { period(ranks) };
        let (slots, length) = Plan::new(ranks, segments > 1).slots();
        Self { tree: Tree::heap(ranks), segments, period, slots, length }
    }
}

/// Slots from one segment to the next: what the busiest rank sends of each.
pub(super) fn period(ranks: u32) -> u32 {
    match ranks {
        0..=2 => 1,
        3 | 4 => 2,
        _ => 3,
    }
}

/// Slots that the first of several segments takes.
pub(super) fn length(ranks: u32) -> u32 {
    match ranks {
        0 | 1 => 0,
        2 => 2,
        3 => 4,
        4 => 5,
        5..=9 => 8,
        10 => 10,
        11..=14 => 12,
        15 | 16 => 13,
        17..=21 => 14,
        22 => 15,
        _ => {
            // Four more each time N + 1 doubles: at 8, 9, 10 and 12 eighths of 2^k.
            let above = u64::from(ranks) + 1;
            let k = above.ilog2();
            let eighths = above >> (k - 3);
            4 * k - 3 + [9, 10, 12].map(|step| u32::from(eighths >= step)).iter().sum::<u32>()
        }
    }
}

impl Schedule for Coloured {
    fn frame(&self) -> Frame {
        let further = u64::from(self.segments - 1) * u64::from(self.period);
        let rounds = if self.length == 0 { 0 } else { u64::from(self.length) + further };
        Frame::new(AllReduce, self.tree.ranks(), self.segments, rounds)
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        let segment = |slot| repetition(round, slot, self.period, self.segments);
        if let Some(parent) = self.tree.parent(rank)
            && let Some(segment) = segment(self.slots[rank as usize].up)
        {
            out.push(Endpoint::Rank(parent), Op::Reduce, [Run::one(segment)]);
        }
        for child in self.tree.children(rank) {
            if let Some(segment) = segment(self.slots[child as usize].down) {
                out.push(Endpoint::Rank(child), Op::Copy, [Run::one(segment)]);
            }
        }
    }
}

/// The waits of one child: from its message up to its parent's, from its parent's receipt to its
/// own.
type Waits = (u32, u32);

/// Slots from the first message below a rank to its own, and from its receipt to the last below.
type Reach = (u32, u32);

/// The reaches that are possible below ranks of a heap.
struct Plan {
    ranks: u32,
    /// The number of colours; 2 where nothing repeats, the slots that two messages take.
    period: u32,
    repeats: bool,
    /// By the size of a subtree and the shift at its top; none is worse than another in both values.
    reaches: BTreeMap<(u32, u32), Vec<Reach>>,
}

impl Plan {
    fn new(ranks: u32, repeats: bool) -> Self {
        let period = if repeats { period(ranks) } else { 2 };
        Self { ranks, period, repeats, reaches: BTreeMap::new() }
    }

    /// The slots of all ranks, and how many there are.
    fn slots(mut self) -> (Vec<Slots>, u32) {
        let top = self.reaches_of(0, 0).into_iter().min_by_key(|&(up, down)| up + down);
        let Some((turn, after)) = top.filter(|_| self.ranks > 1) else {
            return (vec![Slots { up: 0, down: 0 }; self.ranks as usize], 0);
        };
        let last = turn + after;
        let mut slots = vec![Slots { up: turn, down: turn }; self.ranks as usize];
        for rank in 0..self.ranks {
            let here = slots[rank as usize];
            let children: Vec<u32> = Tree::heap(self.ranks).children(rank).collect();
            let below =
                |&(a, b): &Waits| Some(Slots { up: here.up.checked_sub(a)?, down: here.down + b });
            let choices = self.choices(rank, self.shift(here.up, here.down), children.len());
            for waits in choices {
                let placed: Option<Vec<Slots>> = waits.iter().map(below).collect();
                let Some(placed) = placed else { continue };
                let fits = children.iter().zip(&placed).all(|(&child, at)| {
                    let reaches = self.reaches_of(child, self.shift(at.up, at.down));
                    reaches.iter().any(|&(up, down)| up <= at.up && at.down + down <= last)
                });
                if fits {
                    children.iter().zip(placed).for_each(|(&c, at)| slots[c as usize] = at);
                    break;
                }
            }
        }
        (slots, last + 1)
    }

    /// From the colour of `down` to that of `up`; 0 where nothing repeats.
    fn shift(&self, up: u32, down: u32) -> u32 {
        let period = i64::from(self.period);
        let shift = (i64::from(up) - i64::from(down)).rem_euclid(period) as u32;
        if self.repeats { shift } else { 0 }
    }

    /// The combinations of waits that the children of `rank` may have.
    fn choices(&self, rank: u32, shift: u32, children: usize) -> Vec<Vec<Waits>> {
        // The root may send at once what it received from its last child; it has no parent.
        let taken = |wait: u32| self.repeats && rank > 0 && wait % self.period == shift;
        let free = |from: u32| (from..from + self.period).filter(move |&wait| !taken(wait));
        let ups: Vec<u32> = free(u32::from(rank > 0)).collect();
        let single: Vec<Waits> =
            ups.iter().flat_map(|&up| free(1).map(move |down| (up, down))).collect();
        match children {
            0 => vec![Vec::new()],
            1 => single.into_iter().map(|waits| vec![waits]).collect(),
            _ => {
                let differ = |a: &Waits, b: &Waits| a.0 != b.0 && a.1 != b.1;
                let pairs = single.iter().flat_map(|a| single.iter().map(move |b| (a, b)));
                pairs.filter(|(a, b)| differ(a, b)).map(|(&a, &b)| vec![a, b]).collect()
            }
        }
    }

    /// The reaches that are possible below `rank`.
    fn reaches_of(&mut self, rank: u32, shift: u32) -> Vec<Reach> {
        let key = (size(rank, self.ranks), shift);
        if let Some(known) = self.reaches.get(&key).filter(|_| rank > 0) {
            return known.clone();
        }
        let children: Vec<u32> = Tree::heap(self.ranks).children(rank).collect();
        let mut found = Vec::new();
        for waits in self.choices(rank, shift, children.len()) {
            let mut together = vec![(0, 0)];
            for (&child, &(a, b)) in children.iter().zip(&waits) {
                let below = self.reaches_of(child, self.shift(shift, a + b));
                let joined = together.iter().flat_map(|&(up, down): &Reach| {
                    below.iter().map(move |&(u, d)| (up.max(u + a), down.max(d + b)))
                });
                together = joined.collect();
            }
            found.extend(together);
        }
        let best = undominated(found);
        if rank > 0 {
            self.reaches.insert(key, best.clone());
        }
        best
    }
}

/// The reaches to which no other is better, or equal, in both values.
fn undominated(mut reaches: Vec<Reach>) -> Vec<Reach> {
    reaches.sort_unstable();
    let mut least = u32::MAX;
    reaches.retain(|&(_, down)| {
        let better = down < least;
        least = least.min(down);
        better
    });
    reaches
}

/// The ranks of a heap from `rank` downwards.
fn size(rank: u32, ranks: u32) -> u32 {
    let (mut first, mut last) = (u64::from(rank), u64::from(rank));
    let mut size = 0;
    while first < u64::from(ranks) {
        size += last.min(u64::from(ranks) - 1) + 1 - first;
        (first, last) = (2 * first + 1, 2 * last + 2);
    }
    // At most N.
    size as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::schedule::verify;

    #[test]
    fn no_port_is_asked_twice_and_the_length_is_as_stated() {
        for n in (1..200).chain([255, 256, 383, 500]) {
            let schedule = Coloured::new(n, 2);
            assert_eq!(schedule.length, length(n), "{n}");
            let mut asked = Vec::new();
            for rank in 1..n {
                let parent = (rank - 1) / 2;
                let Slots { up, down } = schedule.slots[rank as usize];
                asked.extend([(rank, parent, up), (parent, rank, down)]);
            }
            for port in [|t: &(u32, u32, u32)| t.0, |t: &(u32, u32, u32)| t.1] {
                let mut ports: Vec<_> =
                    asked.iter().map(|t| (port(t), t.2 % schedule.period)).collect();
                ports.sort_unstable();
                assert!(ports.windows(2).all(|w| w[0] != w[1]), "{n}");
            }
        }
    }

    #[test]
    fn stated_lengths_are_those_of_the_best_colouring() {
        for n in (2..700).chain([1022, 1023, 1150, 1151, 5000, 100_000, u32::MAX]) {
            let top = Plan::new(n, true).reaches_of(0, 0);
            let least = top.iter().map(|(up, down)| up + down + 1).min();
            assert_eq!(least, Some(length(n)), "{n}");
        }
    }

    #[test]
    fn one_segment_waits_for_no_colour() {
        for n in 1..100 {
            let schedule = Coloured::new(n, 1);
            assert_eq!(schedule.length, 2 * super::super::reach(n), "{n}");
            assert_eq!(verify(&schedule), Ok(()), "{n}");
        }
    }
}

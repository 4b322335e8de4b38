//! A schedule of NCCL's double binary tree all-reduce on one full-duplex port.
//!
//! Half of the vector runs on each tree, in P segments: up to the root, then down. One segment
//! of each half (a *pair*) makes 4(N−1) transfers. Every rank sends and receives at most W of
//! them, so W colours suffice (König), and a transfer of colour c may run in every slot
//! ≡ c mod W. Pair q repeats the slots of pair 0, W·q later, without a port conflict.
//!
//! ```text
//! N = 2, W = 2     slot 0    slot 1
//! tree 1           1 → 0 up  0 → 1 down
//! tree 2           0 → 1 up  1 → 0 down
//! ```
//!
//! In each colour the slots of all pairs run from the first slot of pair 0 to the last slot of pair
//! P−1: at most P−1 more than pair 0 spans. A slot in which nothing moves is not a round. The sum
//! over the colours is the price: T = (W(P−1) + S)(α + x/2P) with S = Σ spans
//! ([`Slots`](super::lengths::Slots)). S was found by a search: it is an upper bound on the best
//! length, with a schedule that attains it.

use std::collections::{BTreeMap, BTreeSet};

use super::schedule::trees;
use crate::model::formula::Trees;

/// No node.
pub(super) const NONE: usize = usize::MAX;

/// The most transfers of one pair that a rank sends (or receives).
pub(super) fn period(ranks: u32) -> u32 {
    if ranks < 2 { 0 } else { ranks.min(4) }
}
/// Direction of a transfer in its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Reduce, to the parent.
    Up,
    /// Broadcast, from the parent.
    Down,
}

/// One transfer of pair 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// 0 or 1; tree t carries half t of the vector.
    pub tree: u8,
    /// Reduce or broadcast.
    pub phase: Phase,
    /// Sending rank.
    pub from: u32,
    /// Receiving rank.
    pub to: u32,
    /// Slot of pair 0; pair q sends `period * q` later.
    pub slot: u32,
}

/// Both trees as one forest. Node `tree * ranks + role`; the role is the rank in tree 0, its
/// mirror (even N) or left neighbour (odd N) in tree 1. Role 0 is the root and has one child.
/// Edge `node` goes up from the node, edge `2 * ranks + node` comes down to it.
#[derive(Clone, Debug)]
pub(super) struct Forest {
    pub(super) ranks: usize,
    /// Transfers of a pair.
    pub(super) size: u32,
    pub(super) parent: Vec<usize>,
    pub(super) kids: Vec<[usize; 2]>,
    pub(super) from: Vec<u32>,
    pub(super) to: Vec<u32>,
    /// All nodes except the roots, children before parents.
    pub(super) leaves_first: Vec<usize>,
}

impl Forest {
    pub(super) fn new(ranks: u32) -> Self {
        let n = ranks as usize;
        let mut forest = Self {
            ranks: n,
            size: 4 * ranks.saturating_sub(1),
            parent: vec![NONE; 2 * n],
            kids: vec![[NONE; 2]; 2 * n],
            from: vec![0; 4 * n],
            to: vec![0; 4 * n],
            leaves_first: Vec::with_capacity(2 * n),
        };
        // A parent's lowest set bit is higher than its child's.
        let mut roles: Vec<u32> = (1..ranks).collect();
        roles.sort_by_key(|role| role.trailing_zeros());
        for (half, tree) in trees(ranks, Trees::Coloured).into_iter().enumerate() {
            let rank = |role| tree.rank(role);
            for &role in &roles {
                let Some(upper) = tree.above(role) else { continue };
                let (node, parent) = (half * n + role as usize, half * n + upper as usize);
                forest.parent[node] = parent;
                let place = usize::from(forest.kids[parent][0] != NONE);
                forest.kids[parent][place] = node;
                (forest.from[node], forest.to[node]) = (rank(role), rank(upper));
                (forest.from[2 * n + node], forest.to[2 * n + node]) = (rank(upper), rank(role));
                forest.leaves_first.push(node);
            }
        }
        forest
    }

    pub(super) fn kids(&self, node: usize) -> impl Iterator<Item = usize> + use<> {
        self.kids[node].into_iter().filter(|&kid| kid != NONE)
    }

    pub(super) fn is_root(&self, node: usize) -> bool {
        node.is_multiple_of(self.ranks)
    }

    /// Up edges, then down edges; predecessors first.
    pub(super) fn edges(&self) -> impl Iterator<Item = usize> {
        let down = self.leaves_first.iter().rev();
        (self.leaves_first.iter().copied()).chain(down.map(|node| 2 * self.ranks + node))
    }

    /// Edges whose data `edge` forwards: those into its sender, in its tree.
    pub(super) fn before(&self, edge: usize) -> impl Iterator<Item = usize> + use<> {
        let down = 2 * self.ranks;
        let (kids, above) = if edge < down {
            (self.kids[edge], NONE)
        } else {
            let sender = self.parent[edge - down];
            if self.is_root(sender) {
                (self.kids[sender], NONE)
            } else {
                ([NONE; 2], down + sender)
            }
        };
        kids.into_iter().chain([above]).filter(|&e| e != NONE)
    }

    pub(super) fn transfer(&self, edge: usize, slot: u32) -> Transfer {
        let down = 2 * self.ranks;
        Transfer {
            tree: u8::from(edge % down >= self.ranks),
            phase: if edge < down { Phase::Up } else { Phase::Down },
            from: self.from[edge],
            to: self.to[edge],
            slot,
        }
    }
}

/// Slots for every transfer of one pair.
#[derive(Clone, Debug)]
pub struct Colouring {
    pub(super) forest: Forest,
    pub(super) period: u32,
    pub(super) slot: Vec<u32>,
}

impl Colouring {
    /// Slots between the starts of two pairs, the number of colours.
    #[must_use]
    pub fn period(&self) -> u32 {
        self.period
    }

    /// The S of the price: over the colours, the sum of the periods that pair 0 spans.
    #[must_use]
    pub fn length(&self) -> u32 {
        let mut spans = Spans::default();
        for edge in self.forest.edges() {
            spans.add(self.slot[edge] % self.period, self.slot[edge]);
        }
        spans.total(self.period)
    }

    /// Transfers of pair 0, each after those whose data it forwards.
    pub fn transfers(&self) -> impl Iterator<Item = Transfer> {
        let edges = self.forest.edges();
        edges.map(|edge| self.forest.transfer(edge, self.slot[edge]))
    }

    /// Slots in which something moves when `pairs` pairs follow each other.
    #[must_use]
    pub fn rounds(&self, pairs: u32) -> usize {
        let slots = self.transfers().map(|t| t.slot);
        slots
            .flat_map(|slot| (0..pairs).map(move |q| slot + q * self.period))
            .collect::<BTreeSet<_>>()
            .len()
    }

    /// Checks ports and data flow for any number of pairs.
    ///
    /// # Errors
    /// Names the first two transfers that share a port in one colour, or the first transfer that
    /// runs before its data is there.
    pub fn verify(&self) -> Result<(), String> {
        let mut ports = BTreeMap::new();
        for edge in self.forest.edges() {
            let this = self.forest.transfer(edge, self.slot[edge]);
            let colour = this.slot % self.period;
            for port in [(this.from, "sends"), (this.to, "receives")] {
                if let Some(other) = ports.insert((port, colour), this) {
                    return Err(format!("rank {} {} twice: {other:?}, {this:?}", port.0, port.1));
                }
            }
            for source in self.forest.before(edge) {
                if self.slot[source] >= this.slot {
                    let source = self.forest.transfer(source, self.slot[source]);
                    return Err(format!("{this:?} is not after {source:?}"));
                }
            }
        }
        Ok(())
    }
}

/// First and last slot of each colour.
#[derive(Default)]
pub(super) struct Spans([Option<(u32, u32)>; 4]);

impl Spans {
    pub(super) fn add(&mut self, colour: u32, slot: u32) {
        let span = self.0[colour as usize].get_or_insert((slot, slot));
        *span = (span.0.min(slot), span.1.max(slot));
    }

    pub(super) fn last(&self, colour: u32) -> u32 {
        self.0[colour as usize].map_or(0, |span| span.1)
    }

    pub(super) fn total(&self, period: u32) -> u32 {
        let spans = self.0.iter().flatten();
        spans.map(|(first, last)| (last - first) / period + 1).sum()
    }
}

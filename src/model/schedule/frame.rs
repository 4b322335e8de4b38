//! The purpose of a schedule, and its dimensions.

use std::ops::Range;

use super::{Endpoint, Op};
use crate::base::collective::Collective;

/// How chunks are numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layout {
    /// One vector of M bytes, cut into parts: chunk c is part c.
    Shared,
    /// Every rank has its own vector of M bytes, cut into parts that are never added on the way:
    /// chunk i·parts + j is part j of rank i's vector. This is used in an all-to-all, where part j
    /// is for rank j·N/parts, and in an all-reduce that gathers all vectors and adds at the end.
    Owned,
}

/// The purpose of a schedule, and its dimensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// The operation.
    pub collective: Collective,
    /// N.
    pub ranks: u32,
    /// Switches that take part.
    pub switches: u32,
    /// How many of them, the last ones, are between domains and not in one.
    pub far_switches: u32,
    /// The rank that has or gets the data, if there is one. A send/recv goes from it to the rank
    /// before it modulo N: the last, from rank 0.
    pub root: u32,
    /// The number of equal parts of M.
    pub parts: u32,
    /// How chunks are numbered.
    pub layout: Layout,
    /// The number of rounds.
    pub rounds: u64,
    /// Whether the ranks of a round come in descending order: if several messages need one port,
    /// that of the last rank goes first.
    pub last_first: bool,
    /// Whether every rank does what rank 0 does, with ranks and chunks shifted by its number.
    pub turns: bool,
    /// The same with ranks whose numbers are xored with its own, all with the same chunks.
    pub mirrors: bool,
    /// Whether sums are of neighbouring ranks in rank order, so that the operation need not
    /// commute.
    pub keeps_order: bool,
    /// Whether each rank also adds a vector of its own to the result, as a kernel does that adds a
    /// residual: then the kind of the last message that a rank gets, from the rank after it. With
    /// that message all M are added, because a row needs all that is in it. Of what is composed of
    /// schedules, only the same one from another rank on has it.
    pub own: Option<Op>,
}

impl Frame {
    /// A schedule over `ranks` ranks, with rank 0 as root, without switches.
    #[must_use]
    pub fn new(collective: Collective, ranks: u32, parts: u32, rounds: u64) -> Self {
        let layout = match collective {
            Collective::AllToAll => Layout::Owned,
            _ => Layout::Shared,
        };
        Self {
            collective,
            ranks,
            switches: 0,
            far_switches: 0,
            root: 0,
            parts,
            layout,
            rounds,
            last_first: false,
            turns: false,
            mirrors: false,
            keeps_order: false,
            own: None,
        }
    }

    /// The same, with every rank doing what rank 0 does.
    #[must_use]
    pub fn turning(self) -> Self {
        Self { turns: true, ..self }
    }

    /// The same, adding neighbours in rank order.
    #[must_use]
    pub fn in_rank_order(self) -> Self {
        Self { keeps_order: true, ..self }
    }

    /// The same, with a vector of each rank's own added with the last message, which is of kind `op`.
    #[must_use]
    pub fn adding_own(self, op: Op) -> Self {
        // Which message is the last is counted from a rank's real number.
        Self { own: Some(op), turns: false, mirrors: false, ..self }
    }

    /// Whether rank `to` adds its own vector with this message.
    #[inline]
    #[must_use]
    pub fn adds_own(&self, from: Endpoint, to: Endpoint, op: Op) -> bool {
        match (self.own, from, to) {
            (Some(last), Endpoint::Rank(from), Endpoint::Rank(to)) => {
                last == op && self.ranks > 1 && from == (to + 1) % self.ranks
            }
            _ => false,
        }
    }

    /// The endpoint at position `turn` of a round's order: all ranks, then all switches.
    #[must_use]
    pub fn sender(&self, turn: u32) -> Endpoint {
        match turn.checked_sub(self.ranks) {
            Some(switch) => Endpoint::Switch(switch),
            None if self.last_first => Endpoint::Rank(self.ranks - 1 - turn),
            None => Endpoint::Rank(turn),
        }
    }

    /// The index of an endpoint among the ranks and, after them, the switches, if there is one.
    pub(crate) fn place(&self, of: Endpoint) -> Option<usize> {
        let (index, count, before) = match of {
            Endpoint::Rank(rank) => (rank, self.ranks, 0),
            Endpoint::Switch(switch) => (switch, self.switches, self.ranks),
        };
        (index < count).then_some(before as usize + index as usize)
    }

    /// The position of `from` in that order; a rank that does not exist has one of its own.
    pub(crate) fn turn_of(&self, from: Endpoint) -> u64 {
        let n = u64::from(self.ranks);
        match from {
            Endpoint::Rank(rank) if self.last_first => (n.max(1) - 1).wrapping_sub(rank.into()),
            Endpoint::Rank(rank) => rank.into(),
            Endpoint::Switch(switch) => n + u64::from(switch),
        }
    }

    /// The total number of chunks.
    #[must_use]
    pub fn chunks(&self) -> u32 {
        match self.layout {
            Layout::Shared => self.parts,
            Layout::Owned => self.parts.saturating_mul(self.ranks),
        }
    }

    /// The position of the elements of `chunk` in a buffer with `elements` per vector; the first
    /// parts have one more than the others if they do not divide evenly. Vectors of several ranks
    /// ([`Layout::Owned`]) follow each other.
    ///
    /// ```
    /// # use collcost::{Collective, model::schedule::Frame};
    /// let frame = Frame::new(Collective::AllReduce, 4, 4, 6);
    /// let ranges: Vec<_> = (0..4).map(|chunk| frame.range(chunk, 10)).collect();
    /// assert_eq!(ranges, [0..3, 3..6, 6..8, 8..10]);
    /// ```
    #[must_use]
    pub fn range(&self, chunk: u32, elements: u64) -> Range<u64> {
        self.before(chunk.into(), elements)..self.before(u64::from(chunk) + 1, elements)
    }

    /// The elements of all chunks before `chunk`.
    fn before(&self, chunk: u64, elements: u64) -> u64 {
        let parts = u64::from(self.parts.max(1));
        let (vector, part) = (chunk / parts, chunk % parts);
        vector * elements + part * (elements / parts) + part.min(elements % parts)
    }

    /// The number of `chunk` after ranks are shifted by `by`, for a schedule that turns: blocks
    /// move with their ranks.
    #[must_use]
    pub fn turned(&self, chunk: u32, by: u32) -> u32 {
        let (n, parts) = (u64::from(self.ranks), u64::from(self.parts));
        let (chunk, by) = (u64::from(chunk), u64::from(by));
        // A part belongs to a rank if there are as many parts or a multiple; a single part belongs
        // to all.
        let moved =
            |part: u64| if parts % n == 0 { (part + by * (parts / n)) % parts } else { part };
        let turned = match self.layout {
            Layout::Shared => moved(chunk),
            Layout::Owned => (chunk / parts + by) % n * parts + moved(chunk % parts),
        };
        // Less than the number of chunks.
        turned as u32
    }
}

//! Schedules: who sends what to whom, in which order.
//!
//! A schedule is a pure function of round and sender, never materialised: the same object is
//! verified, counted, simulated, drawn and really run. Rounds are an order, not a barrier; all
//! sends of a round use the state before it.

pub mod binomial;
pub mod chain;
mod count;
pub mod ring;
mod verify;

pub use count::{Count, count};
pub use verify::{Fault, holds, verify, wants};

use std::fmt;

use crate::collective::Collective;

/// Something that sends or receives: a rank, or a switch that multicasts or computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Endpoint {
    /// A rank, 0 … N − 1.
    Rank(u32),
    /// A switch; it holds nothing at the start.
    Switch(u32),
}

/// What the receiver does with what arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// Stores it.
    Copy,
    /// Adds it to what is there; a contribution may be added only once.
    Reduce,
    /// Joins it with what is there: the notifications of a barrier.
    Or,
}

/// Chunks `start … start + len − 1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Run {
    /// The first chunk.
    pub start: u32,
    /// How many.
    pub len: u32,
}

impl Run {
    /// One chunk.
    #[must_use]
    pub fn one(chunk: u32) -> Self {
        Self { start: chunk, len: 1 }
    }

    /// Chunks `start … start + len − 1` modulo `of`, as one run or two; `len` ≤ `of`, `of` ≥ 1.
    pub fn around(start: u32, len: u32, of: u32) -> impl Iterator<Item = Self> {
        debug_assert!(len <= of);
        let start = start % of;
        let head = len.min(of - start);
        [Self { start, len: head }, Self { start: 0, len: len - head }]
            .into_iter()
            .filter(|run| run.len > 0)
    }

    /// The chunks.
    #[must_use]
    pub fn chunks(self) -> std::ops::Range<u32> {
        self.start..self.start.saturating_add(self.len)
    }
}

/// One message of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer<'a> {
    /// The receiver.
    pub to: Endpoint,
    /// What it does with the data.
    pub op: Op,
    /// The chunks in it.
    pub runs: &'a [Run],
}

/// What one sender sends in one round; reused from call to call, so that nothing is allocated.
#[derive(Debug, Default, Clone)]
pub struct Sends {
    transfers: Vec<(Endpoint, Op, usize)>,
    runs: Vec<Run>,
}

impl Sends {
    /// Forgets all transfers and keeps the memory.
    pub fn clear(&mut self) {
        self.transfers.clear();
        self.runs.clear();
    }

    /// Adds a message to `to`.
    pub fn push(&mut self, to: Endpoint, op: Op, runs: impl IntoIterator<Item = Run>) {
        self.runs.extend(runs);
        self.transfers.push((to, op, self.runs.len()));
    }

    /// The messages, in schedule order.
    pub fn iter(&self) -> impl Iterator<Item = Transfer<'_>> {
        self.transfers.iter().enumerate().map(|(i, &(to, op, end))| {
            let start = if i == 0 { 0 } else { self.transfers[i - 1].2 };
            Transfer { to, op, runs: &self.runs[start..end] }
        })
    }

    fn rename(&mut self, name: impl Fn(Endpoint) -> Endpoint) {
        for (to, _, _) in &mut self.transfers {
            *to = name(*to);
        }
    }
}

/// A collective operation spelled out.
pub trait Schedule: Send + Sync {
    /// The operation that it implements.
    fn collective(&self) -> Collective;

    /// N.
    fn ranks(&self) -> u32;

    /// Switches that take part.
    fn switches(&self) -> u32 {
        0
    }

    /// The rank that has or gets the data, where there is one. A send/recv goes from it to the
    /// next rank.
    fn root(&self) -> u32 {
        0
    }

    /// Into how many equal parts M is cut.
    fn parts(&self) -> u32;

    /// How many chunks there are in all: the parts, but for an all-to-all, where chunk
    /// i·parts + j is what rank i has for rank j·N/parts.
    fn chunks(&self) -> u32 {
        if self.collective() == Collective::AllToAll {
            self.parts().saturating_mul(self.ranks())
        } else {
            self.parts()
        }
    }

    /// The rank that starts with `chunk` (all-gather, gather, all-to-all) or ends with it
    /// (reduce-scatter, scatter). Blocks lie in rank order unless a schedule says otherwise.
    fn owner(&self, chunk: u32) -> u32 {
        block_of(chunk, self.chunks(), self.ranks())
    }

    /// The number of rounds.
    fn rounds(&self) -> u64;

    /// Puts what `from` sends in `round`, one of [`Self::rounds`], into `out`, which the caller
    /// has cleared.
    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends);
}

impl<S: Schedule + ?Sized> Schedule for Box<S> {
    fn collective(&self) -> Collective {
        (**self).collective()
    }

    fn ranks(&self) -> u32 {
        (**self).ranks()
    }

    fn switches(&self) -> u32 {
        (**self).switches()
    }

    fn root(&self) -> u32 {
        (**self).root()
    }

    fn parts(&self) -> u32 {
        (**self).parts()
    }

    fn chunks(&self) -> u32 {
        (**self).chunks()
    }

    fn owner(&self, chunk: u32) -> u32 {
        (**self).owner(chunk)
    }

    fn rounds(&self) -> u64 {
        (**self).rounds()
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        (**self).sends(round, from, out);
    }
}

/// A schedule with another root: rank r does what rank r − shift does in the original, modulo N.
///
/// Chunks keep their numbers and move with their owners: the root of a scatter has the blocks in
/// the order root, root + 1, … The chunk numbers of an all-to-all name ranks, so it cannot be
/// relabelled; [`verify()`] refuses the result.
#[derive(Debug, Clone)]
pub struct Relabel<S> {
    inner: S,
    shift: u32,
}

impl<S: Schedule> Relabel<S> {
    /// `inner` with `root` modulo N as its root.
    pub fn new(inner: S, root: u32) -> Self {
        let n = inner.ranks().max(1);
        let shift = modulo(u64::from(root % n) + u64::from(n - inner.root() % n), n);
        Self { inner, shift }
    }

    /// The rank that plays the part of `rank` of the original.
    fn actor(&self, rank: u32) -> u32 {
        modulo(u64::from(rank) + u64::from(self.shift), self.ranks())
    }

    /// The rank of the original whose part `rank` plays.
    fn part(&self, rank: u32) -> u32 {
        modulo(u64::from(rank) + u64::from(self.ranks() - self.shift), self.ranks())
    }
}

impl<S: Schedule> Schedule for Relabel<S> {
    fn collective(&self) -> Collective {
        self.inner.collective()
    }

    fn ranks(&self) -> u32 {
        self.inner.ranks()
    }

    fn switches(&self) -> u32 {
        self.inner.switches()
    }

    fn root(&self) -> u32 {
        self.actor(self.inner.root())
    }

    fn parts(&self) -> u32 {
        self.inner.parts()
    }

    fn chunks(&self) -> u32 {
        self.inner.chunks()
    }

    fn owner(&self, chunk: u32) -> u32 {
        self.actor(self.inner.owner(chunk))
    }

    fn rounds(&self) -> u64 {
        self.inner.rounds()
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let part = match from {
            Endpoint::Rank(rank) => Endpoint::Rank(self.part(rank)),
            switch @ Endpoint::Switch(_) => switch,
        };
        self.inner.sends(round, part, out);
        out.rename(|to| match to {
            Endpoint::Rank(rank) => Endpoint::Rank(self.actor(rank)),
            switch @ Endpoint::Switch(_) => switch,
        });
    }
}

impl Endpoint {
    /// Its index among the ranks and, after them, the switches, if the schedule has it.
    fn place(self, schedule: &dyn Schedule) -> Option<usize> {
        let (index, of, before) = match self {
            Self::Rank(rank) => (rank, schedule.ranks(), 0),
            Self::Switch(switch) => (switch, schedule.switches(), schedule.ranks()),
        };
        (index < of).then_some(before as usize + index as usize)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rank(rank) => write!(f, "rank {rank}"),
            Self::Switch(switch) => write!(f, "switch {switch}"),
        }
    }
}

/// All ranks, then all switches.
fn endpoints(schedule: &dyn Schedule) -> impl Iterator<Item = Endpoint> + use<> {
    let ranks = (0..schedule.ranks()).map(Endpoint::Rank);
    ranks.chain((0..schedule.switches()).map(Endpoint::Switch))
}

/// The rank, of `ranks`, whose block of `chunks` equal ones holds `chunk`; 0 where there are none.
fn block_of(chunk: u32, chunks: u32, ranks: u32) -> u32 {
    let block = u64::from(chunk) * u64::from(ranks) / u64::from(chunks.max(1));
    u32::try_from(block).unwrap_or(u32::MAX)
}

/// `value` mod `of`; `of` ≥ 1.
fn modulo(value: u64, of: u32) -> u32 {
    // What is left is less than a u32.
    (value % u64::from(of)) as u32
}

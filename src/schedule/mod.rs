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
pub use verify::{Fault, verify};

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

    /// Chunks `start … start + len − 1` modulo `of`, as one run or two.
    pub fn around(start: u32, len: u32, of: u32) -> impl Iterator<Item = Self> {
        let start = start % of;
        let head = len.min(of - start);
        [Self { start, len: head }, Self { start: 0, len: len - head }]
            .into_iter()
            .filter(|run| run.len > 0)
    }

    /// The chunks.
    pub fn chunks(self) -> std::ops::Range<u32> {
        self.start..self.start + self.len
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

    /// The rank that has or gets the data, where there is one.
    fn root(&self) -> u32 {
        0
    }

    /// Into how many equal parts M is cut.
    fn parts(&self) -> u32;

    /// How many chunks there are in all: the parts, but for an all-to-all, where chunk
    /// i·parts + j is what rank i has for rank j·N/parts.
    fn chunks(&self) -> u32 {
        if self.collective() == Collective::AllToAll {
            self.parts() * self.ranks()
        } else {
            self.parts()
        }
    }

    /// The rank that starts with `chunk` (all-gather, gather) or ends with it (reduce-scatter,
    /// scatter). Blocks lie in rank order unless a schedule says otherwise.
    fn owner(&self, chunk: u32) -> u32 {
        (u64::from(chunk) * u64::from(self.ranks()) / u64::from(self.chunks())) as u32
    }

    /// The number of rounds.
    fn rounds(&self) -> u64;

    /// Puts what `from` sends in `round` into `out`, which the caller has cleared.
    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends);
}

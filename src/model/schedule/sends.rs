//! The sends of one sender in one round.

use super::Endpoint;
use crate::base::words::words;

words! {
    /// What the receiver does with arriving data.
    #[derive(Hash, PartialOrd, Ord)]
    pub enum Op {
        /// Stores it.
        Copy = "copy",
        /// Adds it to the present data; a contribution may be added only once.
        Reduce = "reduce",
        /// Joins it with the present data: the notifications of a barrier.
        Or = "or",
    }
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

/// The sends of one sender, or of several one after the other, in one round; reused between calls
/// to avoid allocation.
#[derive(Debug, Default, Clone)]
pub struct Sends {
    transfers: Vec<(Endpoint, Op, usize)>,
    runs: Vec<Run>,
    /// If there are several senders: each with the end of its messages.
    senders: Vec<(Endpoint, usize)>,
    /// The first message of the current sender.
    first: usize,
}

impl Sends {
    /// Removes all transfers and keeps the memory.
    pub fn clear(&mut self) {
        self.transfers.clear();
        self.runs.clear();
        self.senders.clear();
        self.first = 0;
    }

    /// Assigns all messages since the last close to `from`.
    pub(super) fn close(&mut self, from: Endpoint) {
        self.first = self.transfers.len();
        self.senders.push((from, self.first));
    }

    /// Calls `each` with the messages of several senders and their senders, in schedule order,
    /// until it returns an error.
    ///
    /// # Errors
    /// The error of `each`.
    #[inline]
    pub fn each<E>(
        &self,
        mut each: impl FnMut(Endpoint, Transfer<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let (mut first, mut start) = (0, 0);
        for &(from, last) in &self.senders {
            for &(to, op, end) in &self.transfers[first..last] {
                each(from, Transfer { to, op, runs: &self.runs[start..end] })?;
                start = end;
            }
            first = last;
        }
        Ok(())
    }

    /// Adds a message to `to`.
    #[inline]
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

    /// The number of messages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.transfers.len()
    }

    /// Whether nothing is sent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.transfers.is_empty()
    }

    /// Renames every receiver of the current sender.
    pub(crate) fn rename(&mut self, name: impl Fn(Endpoint) -> Endpoint) {
        for (to, _, _) in &mut self.transfers[self.first..] {
            *to = name(*to);
        }
    }
}

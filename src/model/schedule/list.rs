//! A schedule as a list of messages.

use super::{Endpoint, Frame, Op, Run, Schedule, Sends, every_message};

/// A schedule as data: from other programs, from tests, or without a short rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List {
    frame: Frame,
    /// By chunk; empty if blocks are in rank order.
    owners: Vec<u32>,
    messages: Vec<Entry>,
    runs: Vec<Run>,
    /// Whether `messages` is sorted by round and sender.
    sorted: bool,
}

/// One message of a [`List`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// The round.
    pub round: u64,
    /// The sender.
    pub from: Endpoint,
    /// The receiver.
    pub to: Endpoint,
    /// What the receiver does with the data.
    pub op: Op,
    /// The chunks.
    pub runs: &'a [Run],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    round: u64,
    from: Endpoint,
    to: Endpoint,
    op: Op,
    runs: (usize, usize),
}

impl List {
    /// An empty list; its rounds are those of `frame`, and more where a message needs them.
    #[must_use]
    pub fn new(frame: Frame) -> Self {
        Self { frame, owners: Vec::new(), messages: Vec::new(), runs: Vec::new(), sorted: true }
    }

    /// `schedule` as a list.
    #[must_use]
    pub fn of(schedule: &dyn Schedule) -> Self {
        let mut list = Self::new(schedule.frame()).owned_as(schedule);
        let mut sends = Sends::default();
        for round in 0..schedule.rounds() {
            every_message(schedule, round, &mut sends, |from, message| {
                list.push(round, from, message.to, message.op, message.runs);
            });
        }
        list
    }

    /// The same with the owners of another schedule with as many chunks.
    #[must_use]
    pub fn owned_as(mut self, other: &dyn Schedule) -> Self {
        self.owners = (0..other.chunks()).map(|chunk| other.owner(chunk)).collect();
        self
    }

    /// Adds a message; messages of one sender in one round keep their order.
    pub fn push(&mut self, round: u64, from: Endpoint, to: Endpoint, op: Op, runs: &[Run]) {
        let start = self.runs.len();
        self.runs.extend_from_slice(runs);
        self.frame.rounds = self.frame.rounds.max(round + 1);
        let entry = Entry { round, from, to, op, runs: (start, self.runs.len()) };
        self.sorted &= self.messages.last().is_none_or(|last| self.key(last) <= self.key(&entry));
        self.messages.push(entry);
    }

    /// Puts the messages into schedule order, which [`Schedule::sends`] needs.
    #[must_use]
    pub fn sort(mut self) -> Self {
        let mut messages = std::mem::take(&mut self.messages);
        messages.sort_by_key(|entry| self.key(entry));
        Self { messages, sorted: true, ..self }
    }

    /// The messages in stored order.
    pub fn iter(&self) -> impl Iterator<Item = Message<'_>> {
        self.messages.iter().map(|&Entry { round, from, to, op, runs: (start, end) }| Message {
            round,
            from,
            to,
            op,
            runs: &self.runs[start..end],
        })
    }

    /// The number of messages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether there are no messages.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Round and sender in schedule order.
    fn key(&self, entry: &Entry) -> (u64, u64) {
        (entry.round, self.frame.turn_of(entry.from))
    }
}

impl Schedule for List {
    fn frame(&self) -> Frame {
        self.frame
    }

    fn owner(&self, chunk: u32) -> u32 {
        let Frame { ranks, .. } = self.frame;
        let stated = self.owners.get(chunk as usize).copied();
        stated.unwrap_or_else(|| super::block_of(chunk, self.frame.chunks(), ranks))
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        debug_assert!(self.sorted, "a list must be sorted");
        let key = (round, self.frame.turn_of(from));
        let first = self.messages.partition_point(|entry| self.key(entry) < key);
        let mine = self.messages[first..].iter().take_while(|entry| self.key(entry) == key);
        for entry in mine.filter(|entry| entry.from == from) {
            out.push(entry.to, entry.op, self.runs[entry.runs.0..entry.runs.1].iter().copied());
        }
    }
}

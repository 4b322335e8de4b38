//! Schedules: who sends what to whom, in which order.
//!
//! A schedule is a pure function of round and sender, never materialised where a rule can say it:
//! the same object is verified, counted, simulated, drawn and really run. Rounds are an order, not
//! a barrier; all sends of a round use the state before it.

pub mod binomial;
pub mod bruck;
pub mod chain;
pub mod combine;
mod count;
pub mod digits;
pub mod direct;
mod frame;
mod list;
pub mod ring;
mod sends;
pub mod tree;
mod verify;

pub use count::{Count, count};
pub use frame::{Frame, Layout};
pub use list::{List, Message};
pub use sends::{Op, Run, Sends, Transfer};
pub use verify::{Fault, holds, verify, verify_by_fingerprints, wants};

use std::fmt;
use std::ops::Range;

use crate::base::collective::Collective;

/// Something that sends or receives: a rank, or a switch that multicasts or computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Endpoint {
    /// A rank, 0 … N − 1.
    Rank(u32),
    /// A switch; it holds nothing at the start.
    Switch(u32),
}

/// A collective operation as an explicit schedule.
pub trait Schedule: Send + Sync {
    /// What it is for, and its measures.
    fn frame(&self) -> Frame;

    /// The rank that starts with `chunk` (all-gather, gather, all-to-all) or ends with it
    /// (reduce-scatter, scatter). Blocks lie in rank order unless a schedule says otherwise.
    fn owner(&self, chunk: u32) -> u32 {
        let frame = self.frame();
        block_of(chunk, frame.chunks(), frame.ranks)
    }

    /// Puts what `from` sends in `round`, one of [`Self::rounds`], into `out`, which the caller
    /// has cleared; nearest receiver first, counted upwards from the sender modulo N.
    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends);

    /// Puts what the senders at `turns` of the order of [`senders`] send in `round` into `out`, which
    /// the caller has cleared. Each rule has this loop as its own, with nothing called by a table.
    fn sends_of(&self, round: u64, turns: Range<u32>, out: &mut Sends) {
        let frame = self.frame();
        for turn in turns {
            let from = frame.sender(turn);
            self.sends(round, from, out);
            out.close(from);
        }
    }

    /// The operation that it implements.
    fn collective(&self) -> Collective {
        self.frame().collective
    }

    /// N.
    fn ranks(&self) -> u32 {
        self.frame().ranks
    }

    /// Switches that take part.
    fn switches(&self) -> u32 {
        self.frame().switches
    }

    /// The rank that has or gets the data, where there is one.
    fn root(&self) -> u32 {
        self.frame().root
    }

    /// Into how many equal parts M is cut.
    fn parts(&self) -> u32 {
        self.frame().parts
    }

    /// How many chunks there are in all.
    fn chunks(&self) -> u32 {
        self.frame().chunks()
    }

    /// The number of rounds.
    fn rounds(&self) -> u64 {
        self.frame().rounds
    }
}

impl<S: Schedule + ?Sized> Schedule for Box<S> {
    fn frame(&self) -> Frame {
        (**self).frame()
    }

    fn owner(&self, chunk: u32) -> u32 {
        (**self).owner(chunk)
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        (**self).sends(round, from, out);
    }

    fn sends_of(&self, round: u64, turns: Range<u32>, out: &mut Sends) {
        (**self).sends_of(round, turns, out);
    }
}

impl<S: Schedule + ?Sized> Schedule for &S {
    fn frame(&self) -> Frame {
        (**self).frame()
    }

    fn owner(&self, chunk: u32) -> u32 {
        (**self).owner(chunk)
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        (**self).sends(round, from, out);
    }

    fn sends_of(&self, round: u64, turns: Range<u32>, out: &mut Sends) {
        (**self).sends_of(round, turns, out);
    }
}

impl Endpoint {
    /// Its index among the ranks and, after them, the switches, if the schedule has it.
    pub fn place(self, schedule: &dyn Schedule) -> Option<usize> {
        let frame = schedule.frame();
        let (index, of, before) = match self {
            Self::Rank(rank) => (rank, frame.ranks, 0),
            Self::Switch(switch) => (switch, frame.switches, frame.ranks),
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

/// Who sends in a round, in schedule order: all ranks, then all switches.
pub fn senders(schedule: &dyn Schedule) -> impl Iterator<Item = Endpoint> + use<> {
    let frame = schedule.frame();
    (0..frame.ranks.saturating_add(frame.switches)).map(move |turn| frame.sender(turn))
}

/// How many messages are asked for at once, about: they stay in the nearest cache.
const AT_ONCE: usize = 1024;

/// Calls `each` with every message of `round` and its sender, in schedule order, until it refuses one;
/// `sends` is room for some of them.
///
/// # Errors
/// That of `each`.
pub fn each_message<E>(
    schedule: &dyn Schedule,
    round: u64,
    sends: &mut Sends,
    mut each: impl FnMut(Endpoint, Transfer<'_>) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let Frame { ranks, switches, .. } = schedule.frame();
    let all = ranks.saturating_add(switches);
    let (mut first, mut count) = (0, 1_u32);
    while first < all {
        let end = all.min(first.saturating_add(count));
        sends.clear();
        schedule.sends_of(round, first..end, sends);
        sends.each(&mut each)?;
        // Senders mostly have as many messages each as those before them.
        let most = AT_ONCE as u32;
        count = if sends.len() < AT_ONCE { most.min(2 * count) } else { count.div_ceil(2) };
        first = end;
    }
    Ok(())
}

/// How often somebody is asked what it sends, from the first round to the last: what playing a
/// schedule costs at least.
pub fn turns(schedule: &dyn Schedule) -> u64 {
    let Frame { ranks, switches, rounds, .. } = schedule.frame();
    rounds.saturating_mul(u64::from(ranks) + u64::from(switches))
}

/// Whether all messages together are more than `most`; stops counting where they are.
pub fn sends_more_than(schedule: &dyn Schedule, most: u64) -> bool {
    let (mut messages, mut sends) = (0, Sends::default());
    (0..schedule.rounds()).any(|round| {
        let count = |_, _: Transfer<'_>| {
            messages += 1;
            if messages > most { Err(()) } else { Ok(()) }
        };
        each_message(schedule, round, &mut sends, count).is_err()
    })
}

/// The rank, of `ranks`, whose block of `chunks` equal ones holds `chunk`; 0 where there are none.
pub(crate) fn block_of(chunk: u32, chunks: u32, ranks: u32) -> u32 {
    let block = u64::from(chunk) * u64::from(ranks) / u64::from(chunks.max(1));
    u32::try_from(block).unwrap_or(u32::MAX)
}

/// `value` mod `of`; `of` ≥ 1.
pub(crate) fn modulo(value: u64, of: u32) -> u32 {
    // What is left is less than a u32.
    (value % u64::from(of)) as u32
}

//! Schedules: who sends what to whom, in which order.
//!
//! A schedule is a pure function of round and sender, and is not materialised if a rule can express
//! it: the same object is verified, counted, simulated, drawn and executed. Rounds are an order,
//! not a barrier; all sends of a round use the state before it.

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

use std::convert::Infallible;
use std::fmt;
use std::ops::Range;

use crate::base::collective::Collective;

/// A sender or receiver: a rank, or a switch that multicasts or computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Endpoint {
    /// A rank, 0 … N − 1.
    Rank(u32),
    /// A switch; it holds nothing at the start.
    Switch(u32),
}

/// A collective operation as an explicit schedule.
pub trait Schedule: Send + Sync {
    /// Its purpose, and its dimensions.
    fn frame(&self) -> Frame;

    /// The rank that starts with `chunk` (all-gather, gather, all-to-all) or ends with it
    /// (reduce-scatter, scatter). Blocks are in rank order unless a schedule defines otherwise.
    fn owner(&self, chunk: u32) -> u32 {
        let frame = self.frame();
        block_of(chunk, frame.chunks(), frame.ranks)
    }

    /// Puts the sends of `from` in `round`, one of [`Self::rounds`], into `out`, which the caller
    /// has cleared; nearest receiver first, counted upwards from the sender modulo N.
    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends);

    /// Puts the sends in `round` of the senders at positions `turns` in the order of [`senders`]
    /// into `out`, which the caller has cleared. Each rule has its own copy of this loop, without
    /// dynamic dispatch inside.
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

    /// The rank that has or gets the data, if there is one.
    fn root(&self) -> u32 {
        self.frame().root
    }

    /// The number of equal parts of M.
    fn parts(&self) -> u32 {
        self.frame().parts
    }

    /// The total number of chunks.
    fn chunks(&self) -> u32 {
        self.frame().chunks()
    }

    /// The number of rounds.
    fn rounds(&self) -> u64 {
        self.frame().rounds
    }
}

/// A pointer to a schedule is that schedule.
macro_rules! pointers {
    ($($pointer:ty),*) => {$(
        impl<S: Schedule + ?Sized> Schedule for $pointer {
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
    )*};
}

pointers!(Box<S>, &S);

impl Endpoint {
    /// Its index among the ranks and, after them, the switches, if the schedule has it.
    pub fn place(self, schedule: &dyn Schedule) -> Option<usize> {
        schedule.frame().place(self)
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

/// The senders of a round, in schedule order: all ranks, then all switches.
pub fn senders(schedule: &dyn Schedule) -> impl Iterator<Item = Endpoint> + use<> {
    let frame = schedule.frame();
    (0..frame.ranks.saturating_add(frame.switches)).map(move |turn| frame.sender(turn))
}

/// The most chunks at all ranks together, of a schedule in a file of one message after another: readers
/// follow each of them.
pub(crate) const MOST_FOLLOWED: u64 = 1 << 21;

/// About how many messages are fetched at once: they stay in the nearest cache.
const AT_ONCE: usize = 1024;

/// Calls `each` with every message of `round` and its sender, in schedule order, until it returns
/// an error; `sends` holds some of them at a time.
///
/// # Errors
/// The error of `each`.
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
        // Senders mostly have as many messages as those before them.
        let most = AT_ONCE as u32;
        count = if sends.len() < AT_ONCE { most.min(2 * count) } else { count.div_ceil(2) };
        first = end;
    }
    Ok(())
}

/// The same where nothing fails.
pub fn every_message(
    schedule: &dyn Schedule,
    round: u64,
    sends: &mut Sends,
    mut each: impl FnMut(Endpoint, Transfer<'_>),
) {
    let Ok(()) = each_message(schedule, round, sends, |from, message| {
        each(from, message);
        Ok::<(), Infallible>(())
    });
}

/// The number of sender queries, from the first round to the last: the minimum work to execute a
/// schedule.
pub fn turns(schedule: &dyn Schedule) -> u64 {
    let Frame { ranks, switches, rounds, .. } = schedule.frame();
    rounds.saturating_mul(u64::from(ranks) + u64::from(switches))
}

/// The number of messages; `None` if there are more than `most`, as soon as that is certain.
pub fn messages(schedule: &dyn Schedule, most: u64) -> Option<u64> {
    let (mut messages, mut sends) = (0, Sends::default());
    for round in 0..schedule.rounds() {
        let count = |_, _: Transfer<'_>| {
            messages += 1;
            if messages > most { Err(()) } else { Ok(()) }
        };
        each_message(schedule, round, &mut sends, count).ok()?;
    }
    Some(messages)
}

/// Whether there are more than `most` messages.
pub fn sends_more_than(schedule: &dyn Schedule, most: u64) -> bool {
    messages(schedule, most).is_none()
}

/// The rank, of `ranks`, whose block of `chunks` equal ones holds `chunk`; 0 if there are no ranks.
pub(crate) fn block_of(chunk: u32, chunks: u32, ranks: u32) -> u32 {
    let block = u64::from(chunk) * u64::from(ranks) / u64::from(chunks.max(1));
    u32::try_from(block).unwrap_or(u32::MAX)
}

/// `value` mod `of`; `of` ≥ 1.
pub(crate) fn modulo(value: u64, of: u32) -> u32 {
    // The remainder is less than a u32.
    (value % u64::from(of)) as u32
}

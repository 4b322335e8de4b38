//! The operations of each rank, without the data: sends, receives and computations, and their
//! dependencies. This is what GOAL holds (Hoefler, Siebert, Lumsdaine, ICPP 2009), and what remains
//! of a schedule when only its times matter.
//!
//! ```text
//! rank 0   send 4096 B to 1            rank 1   receive 4096 B from 0
//!          receive 4096 B from 1                compute 20 µs, requires the receive
//! ```

use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bytes, Seconds, SecondsPerByte};
use crate::model::schedule::{Endpoint, Frame, Layout, Op, Run, Schedule, Sends, every_message};
use std::collections::HashMap;

/// The most operations of a schedule that is converted.
const MOST: usize = 1 << 24;

/// An operation of a rank.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Operation {
    /// The rank.
    pub rank: u32,
    /// Its kind.
    pub does: Does,
    /// Which of the rank's processors executes it; 0 if there is one.
    pub cpu: u8,
    /// Which of its NICs it uses; 0 if there is one.
    pub nic: u8,
}

/// The kinds of operations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Does {
    /// Hands a message to the network; it is done when the network has the message.
    Send {
        /// The receiver.
        to: u32,
        /// Distinguishes messages of one pair.
        tag: u32,
        /// The size.
        bytes: Bytes,
    },
    /// Waits for a message.
    Receive {
        /// The sender; absent: whichever message comes first.
        from: Option<u32>,
        /// Its tag; absent: any.
        tag: Option<u32>,
        /// The size.
        bytes: Bytes,
    },
    /// Computes.
    Compute(Seconds),
}

/// When a dependency is satisfied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Once {
    /// When it has begun.
    Started,
    /// When it is done.
    Done,
    /// When the message that it sends has reached its receiver. Where messages of one pair take
    /// turns anyway, this is when it is done.
    Arrived,
}

/// The operations of all ranks.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Operations {
    /// N.
    pub ranks: u32,
    /// The operations; those of one rank are in order.
    pub list: Vec<Operation>,
    /// Dependencies: the waiting operation, the required one of the same rank, and the point
    /// required.
    pub requires: Vec<(u32, u32, Once)>,
}

/// The data of an operation, for callers that need them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum About<C> {
    /// A send of these chunks, with the message's number in the schedule and its round.
    Message { number: u64, round: u64, op: Op, chunks: C },
    /// A computation that stores the data of a message in place.
    Stores(u64),
}

impl Operations {
    fn push(&mut self, rank: u32, does: Does) -> u32 {
        self.list.push(Operation { rank, does, cpu: 0, nic: 0 });
        (self.list.len() - 1) as u32
    }

    /// Each of `before` once, in order.
    fn require(&mut self, operation: u32, mut before: Vec<u32>) {
        before.sort_unstable();
        before.dedup();
        self.requires.extend(before.into_iter().map(|other| (operation, other, Once::Done)));
    }

    /// The messages of a schedule: a send requires everything that wrote its chunks before. Data
    /// that are added, or that overwrite other data, are stored by a separate computation, which
    /// also requires the sends that read those. So receives can be posted at once, and none waits
    /// for its own rank's sends. A message without data has one byte.
    ///
    /// # Errors
    /// Switches; fewer bytes than chunks; too many messages.
    pub fn of(schedule: &dyn Schedule, size: Bytes, gamma: Option<SecondsPerByte>) -> Result<Self> {
        Self::told(schedule, size, gamma, |_, _| {})
    }

    /// The same; `tell` receives the data of each operation, by number.
    pub(crate) fn told(
        schedule: &dyn Schedule,
        size: Bytes,
        gamma: Option<SecondsPerByte>,
        mut tell: impl FnMut(u32, About<&[Run]>),
    ) -> Result<Self> {
        let frame = schedule.frame();
        if frame.switches > 0 {
            return Err(Error::unsupported("the schedule has its own switches")
                .help("use an algorithm in which ranks send to ranks"));
        }
        if u64::from(frame.parts) > size.0 && frame.collective != Collective::Barrier {
            let (bytes, chunks) = (size.0, frame.parts);
            return Err(Error::input(format!(
                "{bytes} bytes do not divide into {chunks} chunks of at least one byte"
            ))
            .help("use a larger size"));
        }
        let mut all = Self { ranks: frame.ranks, ..Self::default() };
        // By rank and chunk: the last writer, and the readers since.
        let mut uses: HashMap<(u32, u32), (Option<u32>, Vec<u32>)> = HashMap::new();
        let mut sends = Sends::default();
        let mut received: Vec<(u32, u32, u32, Bytes, Op, Vec<Run>)> = Vec::new();
        let mut number: u32 = 0;
        for round in 0..frame.rounds {
            every_message(schedule, round, &mut sends, |from, message| {
                let (Endpoint::Rank(source), Endpoint::Rank(to)) = (from, message.to) else {
                    return;
                };
                let bytes = bytes(&frame, size, message.runs.iter().flat_map(|run| run.chunks()));
                let send = all.push(source, Does::Send { to, tag: number, bytes });
                let (op, chunks) = (message.op, message.runs);
                tell(send, About::Message { number: number.into(), round, op, chunks });
                let mut before = Vec::new();
                for chunk in message.runs.iter().flat_map(|run| run.chunks()) {
                    let (written, read) = uses.entry((source, chunk)).or_default();
                    before.extend(*written);
                    read.push(send);
                }
                all.require(send, before);
                received.push((source, to, number, bytes, message.op, message.runs.to_vec()));
                number += 1;
            });
            if all.list.len() > MOST {
                return Err(Error::input(format!("more than {MOST} sends and receives"))
                    .help("use fewer ranks or segments"));
            }
            // All sends of a round read the state before it.
            for (from, rank, number, bytes, op, runs) in received.drain(..) {
                let adds =
                    op == Op::Reduce || frame.layout == Layout::Owned && frame.collective.reduces();
                let [source, target] = [from, rank].map(Endpoint::Rank);
                let own = if frame.adds_own(source, target, op) { size.0 } else { 0 };
                let added = own + if adds { bytes.0 } else { 0 };
                let adding = gamma.map_or(0.0, |gamma| gamma.0 * added as f64);
                let does = Does::Receive { from: Some(from), tag: Some(number), bytes };
                let mut last = all.push(rank, does);
                let mut before = Vec::new();
                for chunk in runs.iter().flat_map(|run| run.chunks()) {
                    let (written, read) = uses.entry((rank, chunk)).or_default();
                    before.extend(*written);
                    before.append(read);
                }
                if op != Op::Copy || adding > 0.0 || !before.is_empty() {
                    before.push(last);
                    last = all.push(rank, Does::Compute(Seconds(adding)));
                    tell(last, About::Stores(number.into()));
                    all.require(last, before);
                }
                for chunk in runs.iter().flat_map(|run| run.chunks()) {
                    uses.entry((rank, chunk)).or_default().0 = Some(last);
                }
            }
        }
        Ok(all)
    }
}

/// Whole bytes of a message: the first parts are one byte longer if M does not divide evenly.
pub(crate) fn bytes(frame: &Frame, size: Bytes, chunks: impl IntoIterator<Item = u32>) -> Bytes {
    if frame.collective == Collective::Barrier {
        return Bytes(1);
    }
    let parts = u64::from(frame.parts.max(1));
    let (each, larger) = (size.0 / parts, size.0 % parts);
    let of = |chunk: u32| each + u64::from(u64::from(chunk) % parts < larger);
    Bytes(chunks.into_iter().fold(0, |sum: u64, chunk| sum.saturating_add(of(chunk))))
}

//! Checks whether a schedule implements its collective.
//!
//! ```text
//!   round 0   {0}    {1}    {2}        what each rank has of a chunk: not whether it is there,
//!              └─add─►└─add─►          but whose contributions are in it
//!   round 1   {0}   {0 1}  {1 2}
//!                     └─add─►          fault: rank 2 has rank 1's part already
//! ```
//!
//! A boolean would not detect a contribution that is added twice; a set does.

use std::fmt;

use super::{
    Endpoint, Frame, Layout, Op, Run, Schedule, Sends, Transfer, block_of, each_message, modulo,
};
use crate::base::collective::Collective::{
    AllGather, AllReduce, AllToAll, Barrier, Broadcast, Gather, Reduce, ReduceScatter, Scatter,
    SendRecv,
};
use crate::base::random::{STEP, mixed};

/// The most memory that [`verify`] uses, in bytes.
const LIMIT: u128 = 1 << 28;

/// Runs `schedule` on sets of contributors and compares the end with the result of its collective.
///
/// All sends of a round read the state before it. Several messages may be added to one chunk of one
/// endpoint in a round. Any other double write of a chunk in a round is a fault, even with equal
/// data. So is an addition to a rank that has nothing there; a switch starts a sum with the first
/// arrival. Only a barrier joins sets with [`Op::Or`]. Data that a rank holds beyond its result do
/// not matter. If the schedule promises to add neighbours in rank order ([`Frame::keeps_order`]),
/// every sum must be of a range of ranks, and join the next range.
///
/// Sets take 2·⌈N/64⌉ words for each chunk of each endpoint, 2 if nothing is added. If that is more
/// than 256 MiB, fingerprints replace the sets; see [`verify_by_fingerprints`].
///
/// # Errors
/// The first fault in the order of rounds, senders and messages; also a schedule whose
/// fingerprints need more than 256 MiB.
pub fn verify(schedule: &dyn Schedule) -> Result<(), Fault> {
    check_sizes(schedule)?;
    let sets = if needed(schedule, words(schedule)) > LIMIT && can_print(schedule) {
        Sets::Prints
    } else {
        Sets::Exact
    };
    run(schedule, sets)
}

/// The same with fingerprints: each rank's part is a random number of 64 bits, and a sum of parts
/// is the sum of their numbers, modulo 2^64.
///
/// A part that is missing, or that is in a sum twice, gives a sum other than that of all parts,
/// except with a chance of 1 in 2^64. Sets show a fault at once, fingerprints at the end: the fault
/// names the rank and the chunk that are wrong there, not the message. The order of additions is
/// not checked. A barrier, whose notifications may come twice, is always verified by sets.
///
/// # Errors
/// The first fault; also a schedule whose fingerprints need more than 256 MiB.
pub fn verify_by_fingerprints(schedule: &dyn Schedule) -> Result<(), Fault> {
    check_sizes(schedule)?;
    run(schedule, if can_print(schedule) { Sets::Prints } else { Sets::Exact })
}

fn run(schedule: &dyn Schedule, sets: Sets) -> Result<(), Fault> {
    let mut state = State::at_start(schedule, sets)?;
    let mut sends = Sends::default();
    for round in 0..schedule.rounds() {
        each_message(schedule, round, &mut sends, |from, transfer| {
            state.deliver(round, from, transfer)
        })?;
        state.end_round();
    }
    state.check_end()
}

/// How the parts in a chunk are represented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sets {
    /// A bit for each contributor.
    Exact,
    /// The sum of the contributors' numbers.
    Prints,
}

/// Whether parts are added, and only added.
fn can_print(schedule: &dyn Schedule) -> bool {
    let frame = schedule.frame();
    mixes(&frame) && frame.collective != Barrier
}

/// The words of one exact set.
fn words(schedule: &dyn Schedule) -> usize {
    contributors(schedule).div_ceil(u64::BITS as usize)
}

/// Contributors that a set can name.
fn contributors(schedule: &dyn Schedule) -> usize {
    if mixes(&schedule.frame()) { schedule.ranks() as usize } else { 1 }
}

/// The bytes needed to verify with sets of this many words.
fn needed(schedule: &dyn Schedule, words: usize) -> u128 {
    let endpoints = u128::from(schedule.ranks()) + u128::from(schedule.switches());
    // Two sets, a mark and an entry in the list of touched places.
    endpoints * u128::from(schedule.chunks()) * (2 * words as u128 * 8 + 1 + 8)
}

/// The number that represents `rank`'s part, never 0.
fn print_of(rank: u32) -> u64 {
    mixed((u64::from(rank) + 1).wrapping_mul(STEP)) | 1
}

/// Whether `rank` has `chunk` when the collective starts.
pub fn holds(schedule: &dyn Schedule, rank: u32, chunk: u32) -> bool {
    let frame = schedule.frame();
    mixes(&frame) || rank == source(schedule, &frame, chunk)
}

/// Whether `rank` must have `chunk`, with the contributions of all ranks, when the collective ends.
pub fn wants(schedule: &dyn Schedule, rank: u32, chunk: u32) -> bool {
    target(schedule, &schedule.frame(), chunk).is_none_or(|one| one == rank)
}

/// The one rank that must have `chunk` at the end; `None` if all must.
fn target(schedule: &dyn Schedule, frame: &Frame, chunk: u32) -> Option<u32> {
    let Frame { root, ranks, parts, .. } = *frame;
    match frame.collective {
        AllReduce | AllGather | Broadcast | Barrier => None,
        Reduce | Gather => Some(root),
        ReduceScatter | Scatter => Some(schedule.owner(chunk)),
        AllToAll => Some(block_of(chunk % parts, parts, ranks)),
        SendRecv => Some(modulo(u64::from(root) + u64::from(ranks) - 1, ranks)),
    }
}

/// Whether contributions of several ranks are combined in a chunk; otherwise it has one source.
fn mixes(frame: &Frame) -> bool {
    let mixing = frame.collective.reduces() || frame.collective == Barrier;
    mixing && frame.layout == Layout::Shared
}

/// The one rank that has `chunk` at the start if contributions are not combined.
fn source(schedule: &dyn Schedule, frame: &Frame, chunk: u32) -> u32 {
    match (frame.layout, frame.collective) {
        (Layout::Owned, _) => chunk / frame.parts,
        (_, AllGather | Gather | AllToAll) => schedule.owner(chunk),
        _ => frame.root,
    }
}

/// Refuses schedules too large to index.
fn check_sizes(schedule: &dyn Schedule) -> Result<(), Fault> {
    let (ranks, chunks) = (schedule.ranks(), schedule.chunks());
    if ranks == 0 {
        return Err(Fault::of(Kind::NoRanks));
    }
    if chunks == 0 {
        return Err(Fault::of(Kind::NoChunks));
    }
    if schedule.root() >= ranks {
        return Err(Fault::of(Kind::NoSuchRoot).at(Endpoint::Rank(schedule.root())));
    }
    Ok(())
}

/// The state of every chunk at every endpoint.
struct State<'a> {
    schedule: &'a dyn Schedule,
    /// Its frame, which a composed schedule takes long to make.
    frame: Frame,
    sets: Sets,
    /// Whether sums must be of neighbours.
    in_order: bool,
    /// The fingerprint of all ranks' parts.
    all: u64,
    chunks: usize,
    /// Contributors that a set can name, and the words that it takes.
    contributors: usize,
    words: usize,
    /// Sets before and after the round, by place: endpoint · chunks + chunk.
    before: Vec<u64>,
    after: Vec<u64>,
    /// The last operation on a place in this round, and the places touched.
    written: Vec<Option<Op>>,
    touched: Vec<usize>,
}

impl<'a> State<'a> {
    fn at_start(schedule: &'a dyn Schedule, sets: Sets) -> Result<Self, Fault> {
        let frame = schedule.frame();
        let (ranks, chunks) = (frame.ranks, frame.chunks());
        let contributors = contributors(schedule);
        let words = if sets == Sets::Exact { words(schedule) } else { 1 };
        let bytes = needed(schedule, words);
        if bytes > LIMIT {
            return Err(Fault::of(Kind::TooLarge(bytes)));
        }
        let places = (ranks as usize + frame.switches as usize) * chunks as usize;
        let mut state = Self {
            schedule,
            frame,
            sets,
            in_order: frame.keeps_order && mixes(&frame),
            all: (0..ranks).map(print_of).fold(0, u64::wrapping_add),
            chunks: chunks as usize,
            contributors,
            words,
            before: vec![0; places * words],
            after: Vec::new(),
            written: vec![None; places],
            touched: Vec::new(),
        };
        for chunk in 0..chunks {
            let owner = schedule.owner(chunk);
            if owner >= ranks {
                return Err(Fault::of(Kind::NoSuchOwner).at(Endpoint::Rank(owner)).in_chunk(chunk));
            }
            let first = if mixes(&frame) { 0 } else { source(schedule, &frame, chunk) };
            let end = if mixes(&frame) { ranks } else { first + 1 };
            for rank in first..end {
                let place = rank as usize * state.chunks + chunk as usize;
                if sets == Sets::Prints {
                    state.before[place] = print_of(rank);
                    continue;
                }
                let contributor = if contributors == 1 { 0 } else { rank as usize };
                state.before[place * words + contributor / 64] |= 1 << (contributor % 64);
            }
        }
        state.after.clone_from(&state.before);
        Ok(state)
    }

    /// Executes one message, or returns why it is invalid.
    fn deliver(&mut self, round: u64, from: Endpoint, transfer: Transfer<'_>) -> Result<(), Fault> {
        let Transfer { to, op, runs } = transfer;
        let fault = |kind| Fault { round: Some(round), from: Some(from), ..Fault::of(kind).at(to) };
        if from == to {
            return Err(fault(Kind::ToItself));
        }
        if (op == Op::Or) && self.frame.collective != Barrier {
            return Err(fault(Kind::NoNotification));
        }
        let (Some(source), Some(target)) = (self.frame.place(from), self.frame.place(to)) else {
            return Err(fault(Kind::NoSuchReceiver));
        };
        for &run in runs {
            if u64::from(run.start) + u64::from(run.len) > self.chunks as u64 {
                return Err(fault(Kind::NoSuchChunks(run)).in_chunk(run.start));
            }
            for chunk in run.chunks() {
                let [source, target] =
                    [source, target].map(|endpoint| endpoint * self.chunks + chunk as usize);
                self.write(source, target, to, op).map_err(|kind| fault(kind).in_chunk(chunk))?;
            }
        }
        Ok(())
    }

    /// Copies, adds or joins the set at `source` before the round to that at `target` after it.
    fn write(&mut self, source: usize, target: usize, to: Endpoint, op: Op) -> Result<(), Kind> {
        let [read, old] = [source, target].map(|place| self.set(place));
        let arriving = &self.before[read];
        let present = &mut self.after[old];
        if is_empty(arriving) {
            return Err(Kind::NotHeld);
        }
        match self.written[target].replace(op) {
            None => self.touched.push(target),
            Some(Op::Reduce) if op == Op::Reduce => {}
            Some(Op::Or) if op == Op::Or => {}
            Some(_) => return Err(Kind::WrittenTwice),
        }
        match op {
            Op::Copy => present.copy_from_slice(arriving),
            Op::Reduce if is_empty(present) && matches!(to, Endpoint::Rank(_)) => {
                return Err(Kind::NothingToAddTo);
            }
            Op::Reduce if self.sets == Sets::Prints => {
                present[0] = present[0].wrapping_add(arriving[0]);
            }
            Op::Reduce => match first_common(present, arriving) {
                Some(contributor) => return Err(Kind::AddedTwice(self.name(contributor, target))),
                None if self.in_order && !are_neighbours(present, arriving) => {
                    return Err(Kind::OutOfOrder);
                }
                None => join(present, arriving),
            },
            Op::Or => join(present, arriving),
        }
        Ok(())
    }

    fn end_round(&mut self) {
        let mut touched = std::mem::take(&mut self.touched);
        for place in touched.drain(..) {
            let set = self.set(place);
            self.before[set.clone()].copy_from_slice(&self.after[set]);
            self.written[place] = None;
        }
        // Cleared, but with its memory kept.
        self.touched = touched;
    }

    /// Compares with the result of the collective.
    fn check_end(&self) -> Result<(), Fault> {
        let targets: Vec<Option<u32>> =
            (0..self.frame.chunks()).map(|c| target(self.schedule, &self.frame, c)).collect();
        for rank in 0..self.frame.ranks {
            for (chunk, target) in (0..).zip(&targets) {
                if target.is_some_and(|one| one != rank) {
                    continue;
                }
                let place = rank as usize * self.chunks + chunk as usize;
                let set = &self.before[self.set(place)];
                let kind = match self.first_missing(set) {
                    _ if is_empty(set) => Kind::Missing,
                    _ if self.sets == Sets::Prints && set[0] == self.all => continue,
                    _ if self.sets == Sets::Prints => Kind::NotOnceEach,
                    None => continue,
                    Some(contributor) => Kind::Lacks(contributor),
                };
                return Err(Fault::of(kind).at(Endpoint::Rank(rank)).in_chunk(chunk));
            }
        }
        Ok(())
    }

    /// The position of the set of `place`.
    fn set(&self, place: usize) -> std::ops::Range<usize> {
        place * self.words..(place + 1) * self.words
    }

    /// The lowest contributor that is not in `set`.
    fn first_missing(&self, set: &[u64]) -> Option<u32> {
        lowest(set.iter().map(|word| !word)).filter(|&bit| (bit as usize) < self.contributors)
    }

    /// The rank that `contributor` represents in the set at `place`.
    fn name(&self, contributor: u32, place: usize) -> u32 {
        if mixes(&self.frame) {
            contributor
        } else {
            source(self.schedule, &self.frame, (place % self.chunks) as u32)
        }
    }
}

fn is_empty(set: &[u64]) -> bool {
    set.iter().all(|&word| word == 0)
}

fn join(set: &mut [u64], other: &[u64]) {
    set.iter_mut().zip(other).for_each(|(word, more)| *word |= more);
}

fn first_common(set: &[u64], other: &[u64]) -> Option<u32> {
    lowest(set.iter().zip(other).map(|(a, b)| a & b))
}

/// Whether both sets are ranges of ranks, one right after the other.
fn are_neighbours(set: &[u64], other: &[u64]) -> bool {
    let range = |set: &[u64]| {
        let first = lowest(set.iter().copied())?;
        let len: u32 = set.iter().map(|word| word.count_ones()).sum();
        let last = set.iter().rposition(|&word| word != 0)?;
        let end = last as u32 * u64::BITS + (u64::BITS - set[last].leading_zeros());
        (end - first == len).then_some(first..end)
    };
    // A switch starts with nothing.
    match (is_empty(set), range(set), range(other)) {
        (true, ..) => true,
        (_, Some(a), Some(b)) => a.end == b.start || b.end == a.start,
        _ => false,
    }
}

/// The lowest bit that is set in `words`.
fn lowest(words: impl Iterator<Item = u64>) -> Option<u32> {
    (0..).step_by(64).zip(words).find(|(_, w)| *w != 0).map(|(base, w)| base + w.trailing_zeros())
}

/// Why and where a schedule does not implement its collective.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    kind: Kind,
    round: Option<u64>,
    from: Option<Endpoint>,
    at: Option<Endpoint>,
    chunk: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    NoRanks,
    NoChunks,
    NoSuchRoot,
    NoSuchOwner,
    TooLarge(u128),
    ToItself,
    NoSuchReceiver,
    NoSuchChunks(Run),
    NoNotification,
    NotHeld,
    WrittenTwice,
    NothingToAddTo,
    AddedTwice(u32),
    OutOfOrder,
    Missing,
    Lacks(u32),
    NotOnceEach,
}

impl Fault {
    fn of(kind: Kind) -> Self {
        Self { kind, round: None, from: None, at: None, chunk: None }
    }

    fn at(self, endpoint: Endpoint) -> Self {
        Self { at: Some(endpoint), ..self }
    }

    fn in_chunk(self, chunk: u32) -> Self {
        Self { chunk: Some(chunk), ..self }
    }

    /// The round, from 0, of the faulty message; `None` if the fault is in the state at the end or
    /// in the sizes.
    #[must_use]
    pub fn round(&self) -> Option<u64> {
        self.round
    }

    /// The sender of the faulty message.
    #[must_use]
    pub fn from(&self) -> Option<Endpoint> {
        self.from
    }

    /// The receiver of the faulty message.
    #[must_use]
    pub fn to(&self) -> Option<Endpoint> {
        self.at.filter(|_| self.from.is_some())
    }

    /// The rank whose data are wrong: the sender of data it does not hold, else the receiver or, at
    /// the end, the rank that lacks data.
    #[must_use]
    pub fn rank(&self) -> Option<u32> {
        match if self.kind == Kind::NotHeld { self.from } else { self.at }? {
            Endpoint::Rank(rank) => Some(rank),
            Endpoint::Switch(_) => None,
        }
    }

    /// The chunk.
    #[must_use]
    pub fn chunk(&self) -> Option<u32> {
        self.chunk
    }

    /// Whether it is no fault of the schedule: verifying it takes more memory than is allowed.
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        matches!(self.kind, Kind::TooLarge(_))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name =
            |endpoint: Option<Endpoint>| endpoint.map_or_else(String::new, |e| e.to_string());
        let (from, at) = (name(self.from), name(self.at));
        let chunk = self.chunk.unwrap_or_default();
        if let Some(round) = self.round {
            write!(f, "round {round}: ")?;
        }
        match self.kind {
            Kind::NoRanks => f.write_str("the schedule has no ranks"),
            Kind::NoChunks => f.write_str("the schedule has no chunks"),
            Kind::NoSuchRoot => write!(f, "the root is {at}, which does not exist"),
            Kind::NoSuchOwner => {
                write!(f, "the owner of chunk {chunk} is {at}, which does not exist")
            }
            Kind::TooLarge(bytes) => {
                write!(f, "verifying takes {bytes} bytes of memory, more than {LIMIT}")
            }
            Kind::ToItself => write!(f, "{from} sends to itself"),
            Kind::NoSuchReceiver => write!(f, "{from} sends to {at}, which does not exist"),
            Kind::NoSuchChunks(Run { start, len }) => {
                write!(f, "{from} sends {len} chunks from {start} on to {at}, more than there are")
            }
            Kind::NoNotification => write!(f, "{from} sends data to {at} to be joined, not added"),
            Kind::NotHeld => write!(f, "{from} sends chunk {chunk} to {at} but does not hold it"),
            Kind::WrittenTwice => {
                write!(f, "chunk {chunk} of {at} is written twice, the second time by {from}")
            }
            Kind::NothingToAddTo => {
                write!(f, "{from} adds chunk {chunk} to {at}, which has nothing there")
            }
            Kind::AddedTwice(contributor) => write!(
                f,
                "{from} adds chunk {chunk} to {at}, which has rank {contributor}'s part already"
            ),
            Kind::OutOfOrder => {
                write!(f, "{from} adds chunk {chunk} to {at} out of rank order")
            }
            Kind::NotOnceEach => write!(
                f,
                "at the end chunk {chunk} of {at} does not have every rank's part exactly once"
            ),
            Kind::Missing => write!(f, "at the end {at} does not hold chunk {chunk}"),
            Kind::Lacks(contributor) => {
                write!(f, "at the end chunk {chunk} of {at} lacks rank {contributor}'s part")
            }
        }
    }
}

impl std::error::Error for Fault {}

#[cfg(test)]
mod tests {
    use super::print_of;

    /// The first numbers of SplitMix64 from seed 0, as its authors' code prints them; made odd.
    #[test]
    fn fingerprints_are_those_of_splitmix64() {
        let published = [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f];
        assert_eq!([0, 1, 2].map(print_of), published.map(|number: u64| number | 1));
    }
}

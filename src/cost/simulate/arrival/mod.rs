//! Operations in order of message arrival: eager sends, and receives that take messages that have
//! arrived.
//!
//! Each rank has processors and NICs. A send takes o of its processor and (m − 1)·G of its NIC, and
//! is done when the processor is free; no send waits for its receiver. Its first byte arrives L
//! later. Messages enter a rank in order of arrival, each when the processor and the NIC are free,
//! and take both for o and (m − 1)·G. Then the operation that waits for the message continues, or
//! the message waits to be received. This is LogGOPSim's model and its order of events (Hoefler,
//! Schneider, Lumsdaine, HPDC 2010, section 3), without its rendezvous and its noise, with L and G
//! of the tier that joins two ranks: α = L + 2·o is the time of an empty message, as everywhere.

mod mailbox;
mod network;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use crate::base::error::{Error, Result};
use crate::base::quantity::{Bytes, Seconds};
use crate::machine::fabric::Fabric;
use crate::model::operations::{Does, Once, Operations};
use mailbox::{Mail, Mailbox};
use network::{Network, Time};

/// The most operations: a GiB of memory.
const OPERATIONS: usize = 1 << 23;

/// The most processors or NICs of all ranks together.
const PLACES: usize = 1 << 24;

/// The costs of a message besides α and the rate, which come from the machine.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Overheads {
    /// o: processor time to send or receive a message; contained twice in α.
    pub overhead: Seconds,
    /// g: the minimum time of a NIC from the start of a message to that of the next.
    pub gap: Seconds,
}

/// The times at the end.
#[derive(Debug, Clone, PartialEq)]
pub struct Arrived {
    /// When the last processor is free.
    pub makespan: Seconds,
    /// Each active rank, by number.
    pub ranks: Vec<RankTimes>,
    /// Messages of all ranks.
    pub messages: u64,
    /// The bytes in them.
    pub bytes: Bytes,
}

/// The times of one rank.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RankTimes {
    /// Its number.
    pub rank: u32,
    /// When its last processor is free.
    pub end: Seconds,
    /// Computing time of its processors.
    pub computes: Seconds,
    /// Their time for sending and receiving.
    pub moves: Seconds,
}

/// Why not all operations finished.
#[derive(Debug, Clone)]
pub enum Stuck {
    /// This operation waits forever.
    Waits(u32),
    /// The request cannot be simulated.
    Refused(Error),
}

impl From<Error> for Stuck {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

/// Simulates `operations` on a machine; rank r starts at `starts[r]`, ranks beyond the list at 0.
///
/// # Errors
/// An operation that waits forever; an overhead of more than half an α; more ranks than the machine
/// joins, or an unknown parameter; too much work.
pub fn arrive(
    operations: &Operations,
    fabric: &Fabric,
    overheads: Overheads,
    starts: &[Seconds],
) -> std::result::Result<Arrived, Stuck> {
    let mut player = Player::new(operations, Network::new(operations, fabric, overheads)?)?;
    player.begin(starts);
    player.play()?;
    player.result()
}

/// The time of an event, and its order among simultaneous events.
type Event = Reverse<(Time, u64, What)>;

/// The kinds of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// An operation begins.
    Begins(u32),
    /// The message of a send enters its receiver.
    Enters(u32),
    /// The first operation of a line has its turn.
    Turn(Key),
}

/// The processor and NIC that a line waits for: messages, or operations of one kind.
type Key = (u8, u32, u32);

/// Those that wait for the same resource, the earliest in order first. Together they are one event:
/// trying each of them whenever the processor is free would take quadratic time.
#[derive(Default)]
struct Line {
    waiting: BinaryHeap<Reverse<(u64, What)>>,
    /// The turn of the first, and its number.
    due: Option<(Time, u64)>,
}

struct Player<'a> {
    operations: &'a Operations,
    network: Network<'a>,
    /// By rank, its position among the active ranks.
    places: HashMap<u32, u32>,
    cpus: usize,
    nics: usize,
    cpu_free: Vec<Time>,
    sends_free: Vec<Time>,
    receives_free: Vec<Time>,
    computes: Vec<Time>,
    moves: Vec<Time>,
    /// By operation, how many predecessors it still waits for, and the latest end of those so far.
    open: Vec<u32>,
    ready: Vec<Time>,
    /// By operation, the position in `waiting` of those that wait for it.
    starts: Vec<u32>,
    waiting: Vec<(u32, Once)>,
    events: BinaryHeap<Event>,
    lines: HashMap<Key, Line>,
    numbered: u64,
    /// Receives without a message, and messages without a receive.
    posted: Mailbox,
    arrived: Mailbox,
    /// Operations that may begin now.
    free: Vec<u32>,
    done: usize,
}

impl<'a> Player<'a> {
    fn new(operations: &'a Operations, network: Network<'a>) -> Result<Self> {
        let list = &operations.list;
        if list.len() > OPERATIONS {
            return Err(Error::input(format!("{} operations are too many", list.len()))
                .help(format!("simulate at most {OPERATIONS}: fewer ranks, or a shorter part")));
        }
        let mut places = HashMap::new();
        for operation in list {
            let next = places.len() as u32;
            places.entry(operation.rank).or_insert(next);
        }
        let cpus = list.iter().map(|op| op.cpu).max().map_or(1, |last| usize::from(last) + 1);
        let nics = list.iter().map(|op| op.nic).max().map_or(1, |last| usize::from(last) + 1);
        if places.len() * cpus.max(nics) > PLACES {
            let (ranks, each) = (places.len(), cpus.max(nics));
            return Err(Error::input(format!(
                "{ranks} ranks with {each} processors or NICs each are too many"
            ))
            .help("give ranks fewer of them"));
        }
        let mut open = vec![0; list.len()];
        let mut starts = vec![0; list.len() + 1];
        for &(then, first, _) in &operations.requires {
            open[then as usize] += 1;
            starts[first as usize + 1] += 1;
        }
        for i in 1..starts.len() {
            starts[i] += starts[i - 1];
        }
        let mut next = starts.clone();
        let mut waiting = vec![(0, Once::Done); operations.requires.len()];
        for &(then, first, once) in &operations.requires {
            let place = &mut next[first as usize];
            // A NIC sends one message after another.
            let once = if once == Once::Arrived { Once::Done } else { once };
            waiting[*place as usize] = (then, once);
            *place += 1;
        }
        let ranks = places.len();
        Ok(Self {
            operations,
            network,
            cpus,
            nics,
            cpu_free: vec![Time::default(); ranks * cpus],
            sends_free: vec![Time::default(); ranks * nics],
            receives_free: vec![Time::default(); ranks * nics],
            computes: vec![Time::default(); ranks],
            moves: vec![Time::default(); ranks],
            places,
            open,
            ready: vec![Time::default(); list.len()],
            starts,
            waiting,
            events: BinaryHeap::new(),
            lines: HashMap::new(),
            numbered: 0,
            posted: Mailbox::new(list.len()),
            arrived: Mailbox::new(list.len()),
            free: Vec::new(),
            done: 0,
        })
    }

    /// All operations that wait for nothing, rank by rank.
    fn begin(&mut self, starts: &[Seconds]) {
        for (rank, Seconds(start)) in (0..).zip(starts) {
            if let Some(&place) = self.places.get(&rank) {
                self.cpu_free[place as usize * self.cpus..][..self.cpus].fill(Time::of(*start));
            }
        }
        let mut first: Vec<u32> =
            (0..).zip(&self.open).filter(|(_, open)| **open == 0).map(|(op, _)| op).collect();
        let list = &self.operations.list;
        first.sort_by_key(|&op| (list[op as usize].rank, kind(list[op as usize].does)));
        self.free = first;
        self.release();
    }

    /// The processor and the NIC of an operation, at the rank with that position.
    fn parts(&self, place: u32, operation: u32) -> (usize, usize) {
        let operation = &self.operations.list[operation as usize];
        let place = place as usize;
        (
            place * self.cpus + usize::from(operation.cpu),
            place * self.nics + usize::from(operation.nic),
        )
    }

    fn place(&self, operation: u32) -> u32 {
        self.places[&self.operations.list[operation as usize].rank]
    }

    fn push(&mut self, time: Time, what: What) {
        self.events.push(Reverse((time, self.numbered, what)));
        self.numbered += 1;
    }

    /// The line for the resources that `what` needs.
    fn key(&self, what: What) -> Key {
        let (class, place, operation) = match what {
            What::Turn(key) => return key,
            What::Begins(operation) => {
                let does = self.operations.list[operation as usize].does;
                (kind(does), self.place(operation), operation)
            }
            What::Enters(send) => {
                let to = match self.operations.list[send as usize].does {
                    Does::Send { to, .. } => to,
                    Does::Receive { .. } | Does::Compute(_) => 0,
                };
                (MESSAGE, self.places.get(&to).copied().unwrap_or(0), send)
            }
        };
        let (cpu, nic) = self.parts(place, operation);
        (class, cpu as u32, nic as u32)
    }

    /// Puts `what` into its line, whose turn is at `later` if it has none yet.
    fn line_up(&mut self, later: Time, number: u64, what: What) {
        let key = self.key(what);
        let line = self.lines.entry(key).or_default();
        line.waiting.push(Reverse((number, what)));
        let due = line.due.map_or((later, number), |(time, first)| (time, first.min(number)));
        if line.due != Some(due) {
            line.due = Some(due);
            self.events.push(Reverse((due.0, due.1, What::Turn(key))));
        }
    }

    /// Lines up operations that may begin: sends before receives before computations.
    fn release(&mut self) {
        let mut free = std::mem::take(&mut self.free);
        for &op in &free {
            let (cpu, nic) = self.parts(self.place(op), op);
            let mut time = self.ready[op as usize].max(self.cpu_free[cpu]);
            if let Does::Send { .. } = self.operations.list[op as usize].does {
                time = time.max(self.sends_free[nic]);
            }
            self.push(time, What::Begins(op));
        }
        free.clear();
        self.free = free;
    }

    /// Notifies those that wait for `operation`.
    fn tell(&mut self, operation: u32, which: Once, time: Time) {
        self.done += usize::from(which == Once::Done);
        let range = self.starts[operation as usize]..self.starts[operation as usize + 1];
        for at in range {
            let (then, once) = self.waiting[at as usize];
            if once != which {
                continue;
            }
            let then_at = then as usize;
            self.ready[then_at] = self.ready[then_at].max(time);
            self.open[then_at] -= 1;
            if self.open[then_at] == 0 {
                self.free.push(then);
            }
        }
    }

    fn play(&mut self) -> Result<()> {
        while let Some(Reverse((now, number, what))) = self.events.pop() {
            let What::Turn(key) = what else {
                self.attempt(now, number, what)?;
                continue;
            };
            let Some(line) = self.lines.get_mut(&key) else { continue };
            // The current turn, unless an earlier one has replaced it.
            if line.due.take_if(|due| *due == (now, number)).is_none() {
                continue;
            }
            let Some(Reverse((number, first))) = line.waiting.pop() else { continue };
            if self.attempt(now, number, first)?
                && let Some(line) = self.lines.get_mut(&key)
                && line.due.is_none()
                && let Some(&Reverse((next, _))) = line.waiting.peek()
            {
                line.due = Some((now, next));
                self.events.push(Reverse((now, next, What::Turn(key))));
            }
        }
        Ok(())
    }

    /// Executes it, or lines it up; returns whether it was executed.
    fn attempt(&mut self, now: Time, number: u64, what: What) -> Result<bool> {
        let later = match what {
            What::Begins(operation) => self.operation(operation, now)?,
            What::Enters(send) => self.message(send, now)?,
            What::Turn(_) => None,
        };
        if let Some(later) = later {
            self.line_up(later, number, what);
            return Ok(false);
        }
        let list = &self.operations.list;
        self.free.sort_by_key(|&op| {
            let operation = &list[op as usize];
            (operation.rank, kind(operation.does))
        });
        self.release();
        Ok(true)
    }

    /// Counts the time for which a rank's processors are used.
    fn add(&mut self, place: u32, computes: Time, moves: Time) {
        let place = place as usize;
        self.computes[place] = self.computes[place] + computes;
        self.moves[place] = self.moves[place] + moves;
    }

    /// Executes `operation`, or returns when to try again.
    fn operation(&mut self, operation: u32, now: Time) -> Result<Option<Time>> {
        let place = self.place(operation);
        let (cpu, nic) = self.parts(place, operation);
        let rank = self.operations.list[operation as usize].rank;
        match self.operations.list[operation as usize].does {
            Does::Compute(Seconds(time)) => {
                if self.cpu_free[cpu] > now {
                    return Ok(Some(self.cpu_free[cpu]));
                }
                let time = Time::of(time);
                self.cpu_free[cpu] = now + time;
                self.add(place, time, Time::default());
                self.tell(operation, Once::Started, now);
                self.tell(operation, Once::Done, now + time);
            }
            Does::Send { to, bytes, .. } => {
                let free = self.cpu_free[cpu].max(self.sends_free[nic]);
                if free > now {
                    return Ok(Some(free));
                }
                let (latency, moving) = self.network.times(rank, to, bytes);
                let sent = now + self.network.overhead;
                self.cpu_free[cpu] = sent;
                self.sends_free[nic] = now + self.network.gap + moving;
                self.add(place, Time::default(), self.network.overhead);
                self.tell(operation, Once::Started, now);
                self.push(sent + latency, What::Enters(operation));
                self.tell(operation, Once::Done, sent);
            }
            Does::Receive { from, tag, .. } => {
                self.tell(operation, Once::Started, now);
                let mail = Mail { rank, from, tag, operation };
                match self.arrived.take(&mail)? {
                    Some(_) => self.tell(operation, Once::Done, now),
                    None => self.posted.put(&mail),
                }
            }
        }
        Ok(None)
    }

    /// Delivers the message of `send`, or returns when to try again.
    fn message(&mut self, send: u32, now: Time) -> Result<Option<Time>> {
        let sender = self.operations.list[send as usize];
        let Does::Send { to, tag, bytes } = sender.does else { return Ok(None) };
        // A rank without operations receives nothing: the message stays under way.
        let Some(&place) = self.places.get(&to) else { return Ok(None) };
        let (cpu, nic) = self.parts(place, send);
        let free = self.cpu_free[cpu].max(self.receives_free[nic]);
        if free > now {
            return Ok(Some(free));
        }
        let (_, moving) = self.network.times(sender.rank, to, bytes);
        let taken = self.network.overhead + moving;
        self.cpu_free[cpu] = now + taken;
        self.receives_free[nic] = now + self.network.gap + moving;
        self.add(place, Time::default(), taken);
        let mail = Mail { rank: to, from: Some(sender.rank), tag: Some(tag), operation: send };
        match self.posted.take(&mail)? {
            Some(receive) => self.tell(receive, Once::Done, now + taken),
            None => self.arrived.put(&mail),
        }
        Ok(None)
    }

    fn result(&self) -> std::result::Result<Arrived, Stuck> {
        let list = &self.operations.list;
        if self.done < list.len() {
            // Among all waiting operations, the cause is one that waits only for a message.
            let waits = self.posted.first().or_else(|| {
                (0..).zip(&self.open).find(|(_, open)| **open > 0).map(|(operation, _)| operation)
            });
            return Err(Stuck::Waits(waits.unwrap_or(0)));
        }
        let mut ranks: Vec<RankTimes> = self
            .places
            .iter()
            .map(|(&rank, &place)| {
                let place = place as usize;
                let cpus = &self.cpu_free[place * self.cpus..][..self.cpus];
                RankTimes {
                    rank,
                    end: cpus.iter().copied().max().unwrap_or_default().seconds(),
                    computes: self.computes[place].seconds(),
                    moves: self.moves[place].seconds(),
                }
            })
            .collect();
        ranks.sort_by_key(|times| times.rank);
        let bytes = list.iter().filter_map(|operation| match operation.does {
            Does::Send { bytes, .. } => Some(bytes.0),
            _ => None,
        });
        Ok(Arrived {
            makespan: Seconds(ranks.iter().map(|times| times.end.0).fold(0.0, f64::max)),
            ranks,
            messages: bytes.clone().count() as u64,
            bytes: Bytes(bytes.fold(0, u64::saturating_add)),
        })
    }
}

/// The kind of messages, in addition to those of operations.
const MESSAGE: u8 = 3;

/// Of operations that may begin at the same time sends come first, then receives.
fn kind(does: Does) -> u8 {
    match does {
        Does::Send { .. } => 0,
        Does::Receive { .. } => 1,
        Does::Compute(_) => 2,
    }
}

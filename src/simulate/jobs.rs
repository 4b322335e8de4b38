//! Messages as jobs that wait for others and for resources.

use super::MEMORY;
use super::costs::Costs;
use super::tally::Tally;
use crate::error::{Error, Result};
use crate::formula::Ports;
use crate::schedule::{Op, Schedule, Sends, senders};
use std::collections::HashMap;

/// No job, slot or cell.
pub(super) const NONE: u32 = u32::MAX;

/// The resource of which there is always enough.
pub(super) const FREE: u32 = 0;

/// What one message needs at once: a send port, a receive port, its link, a NIC at each end.
pub(super) type Needs = [u32; 5];

/// One message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Job {
    pub from: u32,
    pub to: u32,
    /// Latency, data and addition in seconds, on ports of its own.
    pub latency: f64,
    pub moving: f64,
    pub adding: f64,
    pub needs: Needs,
    /// The job's first slot; the next job's first is its end.
    pub slots: u32,
}

/// A message between places.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message {
    pub from: u32,
    pub to: u32,
    pub bytes: f64,
    pub op: Op,
}

/// One thing that a job writes, or waits for, or both: a chunk at a rank in `flow`, a rank in
/// `local`. Writers of one cell form a list in schedule order; a job that must come after a writer
/// hangs on it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub job: u32,
    /// The cell that the job writes.
    pub cell: u32,
    /// The next writer of the cell.
    pub next: u32,
    /// The first of those that wait for this writer and all before it.
    pub waiting: u32,
    /// The next of those that wait where this slot's job waits.
    pub also: u32,
    pub done: bool,
}

/// What the engine keeps of a job: its times, and its place in a queue.
const PER_JOB: usize = 16 + 16;

/// All messages of a schedule, or of one round, in schedule order.
#[derive(Default)]
pub(super) struct Jobs {
    pub jobs: Vec<Job>,
    pub slots: Vec<Slot>,
    /// Cells that each job waits for.
    pub waits: Vec<u32>,
    /// The first writer of each cell that has not ended.
    pub open: Vec<u32>,
    /// How much there is of each resource.
    pub tokens: Vec<u32>,
    links: HashMap<(u32, u32), u32>,
    /// The last writer of each cell so far.
    tail: Vec<u32>,
    written: Vec<u32>,
}

/// What is written and waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cells {
    /// Chunks at places.
    Chunks,
    /// Places: a rank ends a round before it begins the next.
    Places,
}

impl Jobs {
    /// The resources of a machine and `cells` cells.
    pub fn new(costs: &Costs, cells: usize) -> Self {
        let mut jobs = Self { tokens: vec![u32::MAX], ..Self::default() };
        jobs.open = vec![NONE; cells];
        jobs.tail = vec![NONE; cells];
        // Send ports, receive ports, NICs out, NICs in; tier by tier.
        let ranks = costs.frame.ranks as usize;
        for tier in &costs.tiers {
            let k = match tier.ports {
                _ if tier.is_fair => u32::MAX,
                Ports::Full(k) | Ports::Half(k) => k.get(),
                Ports::Unbounded => u32::MAX,
            };
            jobs.tokens.extend(std::iter::repeat_n(k, 2 * ranks));
            let nics = tier.nics.filter(|_| !tier.is_fair).unwrap_or(u32::MAX);
            jobs.tokens.extend(std::iter::repeat_n(nics, 2 * ranks));
        }
        jobs
    }

    /// Forgets the jobs, keeps resources and memory.
    pub fn clear(&mut self) {
        self.jobs.clear();
        self.slots.clear();
        self.waits.clear();
    }

    /// The directed link between two places.
    pub fn link(&mut self, from: u32, to: u32) -> u32 {
        let tokens = &mut self.tokens;
        *self.links.entry((from, to)).or_insert_with(|| {
            tokens.push(1);
            // Far fewer links than a u32 counts: each has a job.
            (tokens.len() - 1) as u32
        })
    }

    /// The bytes that all this takes, with what the engine adds.
    pub fn memory(&self) -> u64 {
        let job = size_of::<Job>() + 4 + PER_JOB;
        (self.jobs.len() * job + self.slots.len() * size_of::<Slot>() + self.open.len() * 8) as u64
    }

    /// What a message from one place to another needs.
    fn needs(&mut self, costs: &Costs, from: u32, to: u32) -> Needs {
        let ranks = costs.frame.ranks;
        let link = self.link(from, to);
        let tier = if from < ranks && to < ranks { costs.tier(from, to) } else { 0 };
        let first = 1 + 4 * ranks * tier as u32;
        let half = costs.tiers[tier].ports.is_half();
        let port = |place: u32, receives: bool| match place {
            place if place >= ranks => FREE,
            place => first + place + if receives && !half { ranks } else { 0 },
        };
        let nic = |place: u32, receives: bool| match (tier, costs.tiers[tier].nics) {
            (0, _) | (_, None) => FREE,
            _ => {
                first + 2 * ranks + costs.domain(tier - 1, place) + if receives { ranks } else { 0 }
            }
        };
        let across = from < ranks && to < ranks;
        let (out, into) = if across { (nic(from, false), nic(to, true)) } else { (FREE, FREE) };
        [port(from, false), port(to, true), link, out, into]
    }

    /// Adds a message that needs ports and a link, and reads and writes cells.
    pub fn push(
        &mut self,
        costs: &Costs,
        message: Message,
        reads: impl Iterator<Item = u32>,
        writes: impl Iterator<Item = u32>,
    ) {
        let needs = self.needs(costs, message.from, message.to);
        self.push_needing(costs, message, needs, reads, writes);
    }

    /// The same with its needs given.
    pub fn push_needing(
        &mut self,
        costs: &Costs,
        Message { from, to, bytes, op }: Message,
        needs: Needs,
        reads: impl Iterator<Item = u32>,
        writes: impl Iterator<Item = u32>,
    ) {
        let job = self.jobs.len() as u32;
        let (latency, moving, adding) = costs.terms(from, to, bytes, op);
        let slots = self.slots.len() as u32;
        self.jobs.push(Job { from, to, latency, moving, adding, needs, slots });
        let mut waits = 0;
        for (read, write) in reads.zip(writes) {
            let slot = self.slots.len() as u32;
            let tail = self.tail[read as usize];
            let mut entry =
                Slot { job, cell: write, next: NONE, waiting: NONE, also: NONE, done: false };
            if tail != NONE {
                entry.also = self.slots[tail as usize].waiting;
                self.slots[tail as usize].waiting = slot;
                waits += 1;
            }
            self.slots.push(entry);
            self.written.push(slot);
        }
        self.waits.push(waits);
    }

    /// What the round wrote is there for later rounds to wait for.
    pub fn end_round(&mut self) {
        for slot in self.written.drain(..) {
            let cell = self.slots[slot as usize].cell as usize;
            match std::mem::replace(&mut self.tail[cell], slot) {
                NONE => self.open[cell] = slot,
                last => self.slots[last as usize].next = slot,
            }
        }
    }

    /// The slots of a job.
    #[inline]
    pub fn slots_of(&self, job: u32) -> std::ops::Range<usize> {
        let end = self.jobs.get(job as usize + 1).map_or(self.slots.len(), |j| j.slots as usize);
        self.jobs[job as usize].slots as usize..end
    }
}

/// All messages of `schedule` with what they wait for.
pub(super) fn all(
    schedule: &dyn Schedule,
    costs: &Costs,
    cells: Cells,
    tally: &mut Tally,
) -> Result<Jobs> {
    check_memory(schedule, costs)?;
    let chunks = costs.frame.chunks();
    let count = match cells {
        Cells::Chunks => costs.places() * chunks as usize,
        Cells::Places => costs.places(),
    };
    let mut jobs = Jobs::new(costs, count);
    let mut sends = Sends::default();
    for round in 0..costs.frame.rounds {
        for sender in senders(schedule) {
            sends.clear();
            schedule.sends(round, sender, &mut sends);
            for transfer in sends.iter() {
                let message = costs.message(sender, transfer)?;
                let Message { from, to, bytes, .. } = message;
                if cells == Cells::Chunks {
                    let at = |place: u32| {
                        let chunk = transfer.runs.iter().flat_map(|run| run.chunks());
                        chunk.map(move |chunk| place * chunks + chunk)
                    };
                    jobs.push(costs, message, at(from), at(to));
                } else {
                    let both = || [from, to].into_iter();
                    jobs.push(costs, message, both(), both());
                }
                tally.add(round, from, to, bytes);
            }
        }
        jobs.end_round();
    }
    Ok(jobs)
}

/// Refuses what needs more than [`MEMORY`], having counted before anything is allocated.
fn check_memory(schedule: &dyn Schedule, costs: &Costs) -> Result<()> {
    let job = size_of::<Job>() + 4 + PER_JOB;
    let cells = costs.places() as u64 * u64::from(costs.frame.chunks());
    let mut bytes = cells.saturating_mul(8);
    let refuse = |bytes: u64, more: &str| {
        Err(Error::input(format!(
            "simulating {} ranks event by event takes {more}{} MiB, more than the {} MiB allowed",
            costs.frame.ranks,
            bytes >> 20,
            MEMORY >> 20
        ))
        .mend("ask for fewer ranks or segments, for mode sync or local, or for no trouble"))
    };
    if bytes > MEMORY || cells > u64::from(u32::MAX) {
        return refuse(bytes, "");
    }
    let mut sends = Sends::default();
    for round in 0..costs.frame.rounds {
        for from in senders(schedule) {
            sends.clear();
            schedule.sends(round, from, &mut sends);
            let chunks: u64 = sends.iter().flat_map(|t| t.runs).map(|run| u64::from(run.len)).sum();
            bytes += (sends.len() * job) as u64 + chunks * size_of::<Slot>() as u64;
        }
        if bytes > MEMORY {
            // What is left to count can only be more.
            return refuse(bytes, "at least ");
        }
    }
    Ok(())
}

/// Whether what `place` sends may be cut through: a switch forwards while it receives.
pub(super) fn is_switch(costs: &Costs, place: u32) -> bool {
    place >= costs.frame.ranks
}

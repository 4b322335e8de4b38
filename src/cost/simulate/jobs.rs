//! Messages as jobs that wait for others and for resources.

use super::cells::Cells;
use super::costs::Costs;
use super::tally::Tally;
use super::{MEMORY, Mode};
use crate::base::error::{Error, Result};
use crate::model::formula::Ports;
use crate::model::schedule::{Endpoint, Op, Schedule, Sends, Transfer, each_message};
use std::collections::HashMap;
use std::ops::Range;

/// No job, slot or cell.
pub(super) const NONE: u32 = u32::MAX;

/// The resource of which there is always enough.
pub(super) const FREE: u32 = 0;

/// What one message needs at once: a send port, a receive port, its link, a NIC at each end.
/// Where a rank has one port, its link is free when its ports are: the first two are all.
pub(super) type Needs = [u32; 5];

/// The needs that count where a rank has one port.
const PLAIN: usize = 2;

/// How many durations have a lane of their own.
pub(super) const LANES: usize = 16;

/// One message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Job {
    pub from: u32,
    pub to: u32,
    /// Which of the durations is its own.
    pub lane: u32,
    /// Cells that it still waits for.
    pub waits: u32,
    /// The job's first slot; the next job's first is its end.
    pub slots: u32,
}

/// The duration of a job in its terms, in seconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    pub latency: f64,
    pub moving: f64,
}

/// A message between places.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message {
    pub from: u32,
    pub to: u32,
    pub bytes: f64,
    pub op: Op,
}

/// How much of a resource is free, and the queue of the jobs that wait for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Resource {
    pub free: u32,
    pub queue: u32,
}

impl Resource {
    fn new(free: u32) -> Self {
        Self { free, queue: NONE }
    }
}

/// One thing that a job writes, or waits for, or both: chunks at a rank in `flow`, a rank in `local`. Writers of one cell form a list in schedule order; a job that must come after a writer
/// hangs on it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    /// The job, and whether it and the writers before it have ended.
    job: u32,
    /// The next writer of the cell; the cell itself while the round is being added.
    pub next: u32,
    /// The first of those that wait for this writer and all before it.
    pub waiting: u32,
    /// The next of those that wait where this slot's job waits.
    pub also: u32,
}

impl Slot {
    #[inline]
    pub fn job(&self) -> u32 {
        self.job & !(ENDED | IS_FIRST)
    }

    /// Marks the writer as ended and says whether all before it have.
    #[inline]
    pub fn end(&mut self) -> bool {
        self.job |= ENDED;
        self.job & IS_FIRST != 0
    }

    /// Marks the writers before as ended and says whether this one has.
    #[inline]
    pub fn come_first(&mut self) -> bool {
        self.job |= IS_FIRST;
        self.job & ENDED != 0
    }
}

/// The two ports of a job, where ports are all and receive ports begin at `receive`.
#[inline]
fn ports(job: &Job, receive: u32) -> [u32; PLAIN] {
    [1 + job.from, receive + job.to]
}

/// The bit of a slot's job that says that it has ended. Memory holds far fewer jobs than the bits
/// below count.
const ENDED: u32 = 1 << 31;

/// The bit that says that the writers before it have.
const IS_FIRST: u32 = 1 << 30;

/// What the engine keeps of a job: its times, and its place in a queue.
const PER_JOB: usize = 32;

/// All messages of a schedule, or of one round, in schedule order.
#[derive(Default)]
pub(super) struct Jobs {
    pub jobs: Vec<Job>,
    /// Those that wait for nothing.
    pub first: Vec<u32>,
    pub slots: Vec<Slot>,
    /// How many slots of a job, its first, are the sender's.
    pub sent: usize,
    /// By job, where rates change while messages are under way.
    pub terms: Vec<Terms>,
    /// By job, the seconds of the addition; empty where none takes time.
    pub adding: Vec<f64>,
    /// By job, where ports are not all.
    needs: Vec<Needs>,
    is_plain: bool,
    /// The receive port of rank 0 where ports are all.
    receive: u32,
    /// The durations, in seconds, on ports of their own.
    pub durations: Vec<f64>,
    /// The place of each beyond the first [`LANES`], by its bits.
    more_durations: HashMap<u64, u32>,
    pub resources: Vec<Resource>,
    links: HashMap<(u32, u32), u32>,
    /// The last writer of each cell so far.
    tail: Vec<u32>,
    /// The writer of each cell that was the last to copy; empty where adding takes no time.
    copied: Vec<u32>,
    /// By the slot of a writer that copies: the jobs that bring what is added to it.
    operand_of: HashMap<u32, Vec<u32>>,
    /// By job, what must come before it is added: itself, and what it is added to. Those that wait
    /// for themselves alone are not named.
    awaited: HashMap<u32, u32>,
    /// The first slot of the round at hand.
    round: usize,
    /// Cells that the message at hand waits for.
    waits: u32,
}

impl Jobs {
    /// No jobs yet, the resources of a machine, and `cells` cells.
    pub fn reset(&mut self, costs: &Costs, cells: usize) {
        self.clear();
        self.sent = 0;
        self.tail.clear();
        self.tail.resize(cells, NONE);
        self.copied.clear();
        self.copied.resize(if costs.adds() { cells } else { 0 }, NONE);
        self.links.clear();
        self.durations.clear();
        self.more_durations.clear();
        self.is_plain = costs.is_plain() && !costs.shares();
        self.receive = if costs.is_half() { 1 } else { 1 + costs.frame.ranks };
        // Send ports, receive ports, NICs out, NICs in; tier by tier.
        self.resources.clear();
        self.resources.push(Resource::new(u32::MAX));
        let ranks = costs.frame.ranks as usize;
        for tier in &costs.tiers {
            let k = match tier.ports {
                _ if tier.is_fair => u32::MAX,
                Ports::Full(k) | Ports::Half(k) => k.get(),
                Ports::Unbounded => u32::MAX,
            };
            self.resources.extend(std::iter::repeat_n(Resource::new(k), 2 * ranks));
            let nics = tier.nics.filter(|_| !tier.is_fair).unwrap_or(u32::MAX);
            self.resources.extend(std::iter::repeat_n(Resource::new(nics), 2 * ranks));
        }
    }

    /// Forgets the jobs, keeps resources and memory.
    pub fn clear(&mut self) {
        self.jobs.clear();
        self.first.clear();
        self.slots.clear();
        self.round = 0;
        self.terms.clear();
        self.adding.clear();
        self.needs.clear();
        self.operand_of.clear();
        self.awaited.clear();
    }

    /// Takes what a job needs, or says what there is too little of.
    #[inline(always)]
    pub fn take(&mut self, job: u32) -> std::result::Result<(), u32> {
        let resources = &mut self.resources;
        if self.is_plain {
            let [send, receive] = ports(&self.jobs[job as usize], self.receive);
            for port in [send, receive] {
                if resources[port as usize].free == 0 {
                    return Err(port);
                }
            }
            // A rank with one port has it or not.
            resources[send as usize].free = 0;
            resources[receive as usize].free = 0;
            return Ok(());
        }
        let needs = self.needs[job as usize];
        if let Some(lacking) = needs.into_iter().find(|&need| resources[need as usize].free == 0) {
            return Err(lacking);
        }
        for need in needs {
            let free = &mut resources[need as usize].free;
            // Of these there is no end.
            *free -= u32::from(*free != u32::MAX);
        }
        Ok(())
    }

    /// Gives back what a job held, and names each of it for which jobs wait, with the first.
    #[inline(always)]
    pub fn give(&mut self, job: u32, mut each: impl FnMut(u32, u32)) {
        let mut name = |need: u32, resource: &Resource| {
            if resource.queue != NONE {
                each(resource.queue, need);
            }
        };
        if self.is_plain {
            for port in ports(&self.jobs[job as usize], self.receive) {
                let resource = &mut self.resources[port as usize];
                resource.free = 1;
                name(port, resource);
            }
            return;
        }
        for need in self.needs[job as usize] {
            let resource = &mut self.resources[need as usize];
            resource.free += u32::from(resource.free != u32::MAX);
            name(need, resource);
        }
    }

    /// Whether adding what a job brings takes time.
    #[inline]
    pub fn is_added(&self, job: u32) -> bool {
        self.adding.get(job as usize).is_some_and(|&adding| adding > 0.0)
    }

    /// Counts one of what `job` awaits before it is added as come, and says whether all has.
    #[inline]
    pub fn has_come(&mut self, job: u32) -> bool {
        if self.awaited.is_empty() {
            return true;
        }
        self.awaited.get_mut(&job).is_none_or(|awaited| {
            *awaited -= 1;
            *awaited == 0
        })
    }

    /// Calls `each` with every job that may be added now that `job`, which copies, has ended.
    #[inline]
    pub fn copied(&mut self, job: u32, mut each: impl FnMut(u32)) {
        if self.operand_of.is_empty() {
            return;
        }
        for slot in self.slots_of(job) {
            for added in self.operand_of.remove(&(slot as u32)).unwrap_or_default() {
                if self.has_come(added) {
                    each(added);
                }
            }
        }
    }

    /// The place of a duration among all.
    #[inline(always)]
    fn lane(&mut self, duration: f64) -> u32 {
        // Mostly it is that of the message before.
        let last = self.jobs.last().map_or(0, |job| job.lane);
        match self.durations.get(last as usize) {
            Some(same) if same.to_bits() == duration.to_bits() => last,
            _ => self.another_lane(duration),
        }
    }

    fn another_lane(&mut self, duration: f64) -> u32 {
        let first = &self.durations[..self.durations.len().min(LANES)];
        if let Some(lane) = first.iter().position(|&d| d.to_bits() == duration.to_bits()) {
            return lane as u32;
        }
        let next = self.durations.len() as u32;
        let lane = if (next as usize) < LANES {
            next
        } else {
            *self.more_durations.entry(duration.to_bits()).or_insert(next)
        };
        if lane == next {
            self.durations.push(duration);
        }
        lane
    }

    /// The directed link between two places.
    pub fn link(&mut self, from: u32, to: u32) -> u32 {
        let resources = &mut self.resources;
        *self.links.entry((from, to)).or_insert_with(|| {
            resources.push(Resource::new(1));
            // Far fewer links than a u32 counts: each has a job.
            (resources.len() - 1) as u32
        })
    }

    /// The bytes that all this takes, with what the engine adds.
    pub fn memory(&self) -> u64 {
        let job = size_of::<Job>() + size_of::<Needs>() + PER_JOB;
        let cells = self.tail.len() + self.copied.len();
        // In maps half of the room is free.
        let awaited = self.awaited.len() * 16 + self.operand_of.len() * 80;
        (self.jobs.len() * job + self.slots.len() * size_of::<Slot>() + cells * 4 + awaited) as u64
    }

    /// What a message from one place to another needs.
    fn needs(&mut self, costs: &Costs, from: u32, to: u32) -> Needs {
        let ranks = costs.frame.ranks;
        let link = self.link(from, to);
        let tier = costs.held_tier(from, to);
        let first = 1 + 4 * ranks * tier as u32;
        let half = costs.tiers[tier].ports.is_half();
        let port = |place: u32, receives: bool| match place {
            place if place >= ranks => FREE,
            place => first + place + if receives && !half { ranks } else { 0 },
        };
        let nic = |place: u32, receives: bool| match (tier, costs.tiers[tier].nics) {
            (0, _) | (_, None) => FREE,
            _ if place >= ranks => FREE,
            _ => {
                first + 2 * ranks + costs.domain(tier - 1, place) + if receives { ranks } else { 0 }
            }
        };
        [port(from, false), port(to, true), link, nic(from, false), nic(to, true)]
    }

    /// Adds a message with what it needs of the machine; its cells follow by [`Self::touch`], and
    /// [`Self::close`] ends it.
    #[inline]
    pub fn open(&mut self, costs: &Costs, message: Message) {
        if !self.is_plain {
            let needs = self.needs(costs, message.from, message.to);
            self.needs.push(needs);
        }
        self.push(costs, message);
    }

    /// The same with its needs given.
    #[inline]
    pub fn open_needing(&mut self, costs: &Costs, message: Message, needs: Needs) {
        if !self.is_plain {
            self.needs.push(needs);
        }
        self.push(costs, message);
    }

    #[inline(always)]
    fn push(&mut self, costs: &Costs, message: Message) {
        let (latency, moving) = costs.terms(&message);
        if costs.shares() {
            self.terms.push(Terms { latency, moving });
        }
        if costs.adds() {
            self.adding.push(costs.adding(&message));
        }
        let lane = self.lane(latency + moving);
        let slots = self.slots.len() as u32;
        let Message { from, to, .. } = message;
        self.jobs.push(Job { from, to, lane, waits: 0, slots });
        self.waits = 0;
    }

    /// The message at hand waits for cell `read` and writes cell `write`; [`NONE`] is no cell.
    #[inline]
    pub fn touch(&mut self, read: u32, write: u32) {
        let slot = self.slots.len() as u32;
        let job = self.jobs.len() as u32 - 1;
        let mut entry = Slot { job, next: write, waiting: NONE, also: NONE };
        let tail = self.tail.get(read as usize).copied().unwrap_or(NONE);
        if tail != NONE {
            let tail = &mut self.slots[tail as usize];
            entry.also = std::mem::replace(&mut tail.waiting, slot);
            self.waits += 1;
        }
        self.slots.push(entry);
    }

    /// Ends the message at hand.
    #[inline]
    pub fn close(&mut self) {
        match self.jobs.last_mut() {
            Some(job) if self.waits > 0 => job.waits = self.waits,
            _ => self.first.push(self.jobs.len() as u32 - 1),
        }
    }

    /// What the round wrote is there for later rounds to wait for.
    pub fn end_round(&mut self) {
        for slot in self.round..self.slots.len() {
            let entry = &mut self.slots[slot];
            let cell = std::mem::replace(&mut entry.next, NONE) as usize;
            if cell == NONE as usize {
                continue;
            }
            let job = entry.job();
            match std::mem::replace(&mut self.tail[cell], slot as u32) {
                NONE => {
                    entry.come_first();
                }
                last => self.slots[last as usize].next = slot as u32,
            }
            if self.copied.is_empty() {
                continue;
            }
            match self.copied[cell] {
                _ if !self.is_added(job) => self.copied[cell] = slot as u32,
                NONE => {}
                operand => {
                    self.operand_of.entry(operand).or_default().push(job);
                    *self.awaited.entry(job).or_insert(1) += 1;
                }
            }
        }
        self.round = self.slots.len();
    }

    /// The slots of a job.
    #[inline]
    pub fn slots_of(&self, job: u32) -> std::ops::Range<usize> {
        let end = self.jobs.get(job as usize + 1).map_or(self.slots.len(), |j| j.slots as usize);
        self.jobs[job as usize].slots as usize..end
    }
}

impl Jobs {
    /// The messages of some rounds of `schedule` with what they wait for: others that wrote what
    /// they send, by `cells`, or, without them, all that their ranks did before.
    pub fn fill(
        &mut self,
        schedule: &dyn Schedule,
        costs: &Costs,
        (cells, rounds): (Option<&Cells>, Range<u64>),
        tally: &mut Tally,
    ) -> Result<()> {
        // Before anything is allocated.
        check_memory(estimate(schedule, costs, cells), costs)?;
        self.reset(costs, cells.map_or(costs.places(), Cells::count));
        if cells.is_none() {
            // What a message is added to has come before it starts.
            self.copied = Vec::new();
        }
        self.sent = usize::from(cells.is_none());
        let mut sends = Sends::default();
        for round in rounds {
            each_message(schedule, round, &mut sends, |sender, transfer| {
                let message = costs.message(sender, transfer)?;
                let Message { from, to, bytes, .. } = message;
                self.open(costs, message);
                match cells {
                    Some(cells) => {
                        for &run in transfer.runs {
                            self.touch_all(cells.of_run(from, run), cells.of_run(to, run));
                        }
                    }
                    None => {
                        self.touch(from, from);
                        self.touch(to, to);
                    }
                }
                self.close();
                tally.add(round, from, to, bytes);
                Ok(())
            })?;
            self.end_round();
            check_taken(self.memory() + cells.map_or(0, Cells::memory), costs)?;
        }
        Ok(())
    }

    /// The message at hand waits for the cells `reads` and writes the cells `writes`.
    #[inline]
    fn touch_all(&mut self, reads: Range<usize>, writes: Range<usize>) {
        // Cells are fewer than a u32 counts: memory holds no more.
        let cell = |cells: &Range<usize>, i| cells.clone().nth(i).map_or(NONE, |cell| cell as u32);
        for i in 0..reads.len().max(writes.len()) {
            self.touch(cell(&reads, i), cell(&writes, i));
        }
    }
}

/// Refuses what needs more than [`MEMORY`].
pub(super) fn check_memory(bytes: f64, costs: &Costs) -> Result<()> {
    if bytes <= MEMORY as f64 { Ok(()) } else { Err(too_large(bytes, costs)) }
}

/// Refuses what has come to more than is allowed, whatever was estimated.
fn check_taken(bytes: u64, costs: &Costs) -> Result<()> {
    check_memory(bytes as f64, costs)
}

/// The bytes that [`Jobs::memory`] will come to, judged from some senders of some rounds.
fn estimate(schedule: &dyn Schedule, costs: &Costs, cells: Option<&Cells>) -> f64 {
    let per_job = (size_of::<Job>() + size_of::<Needs>() + PER_JOB) as f64;
    let mut sampled = 0.0;
    let stride = samples(schedule, costs, |sends| {
        let one = |from: Endpoint, transfer: Transfer<'_>| {
            let (from, to) = (costs.place(from), costs.place(transfer.to));
            // What is no message is refused later.
            let is_there = |place: &u32| (*place as usize) < costs.places();
            let slots: usize = match cells.filter(|_| [from, to].iter().all(is_there)) {
                None => 2,
                Some(cells) => {
                    let each = |run| cells.of_run(from, run).len().max(cells.of_run(to, run).len());
                    transfer.runs.iter().copied().map(each).sum()
                }
            };
            sampled += per_job + (slots * size_of::<Slot>()) as f64;
            Ok::<_, std::convert::Infallible>(())
        };
        let Ok(()) = sends.each(one);
    });
    let count = cells.map_or(costs.places(), Cells::count);
    let each = if costs.adds() && cells.is_some() { 8.0 } else { 4.0 };
    sampled * stride as f64 + count as f64 * each + cells.map_or(0, Cells::memory) as f64
}

/// Refuses more messages than memory holds, each with a single cell, judged from some of them.
pub(super) fn check_count(schedule: &dyn Schedule, costs: &Costs) -> Result<()> {
    let (mut messages, mut chunks) = (0, 0);
    let stride = samples(schedule, costs, |sends| {
        messages += sends.len() as u64;
        let runs = sends.iter().flat_map(|transfer| transfer.runs);
        chunks += runs.map(|run| u64::from(run.len)).sum::<u64>();
    });
    let per_job = (size_of::<Job>() + size_of::<Needs>() + PER_JOB) as f64;
    let [messages, chunks] = [messages, chunks].map(|count| (count * stride) as f64);
    if messages * per_job <= MEMORY as f64 {
        return Ok(());
    }
    let cells = costs.places() as f64 * f64::from(costs.frame.chunks());
    let each = if costs.adds() { 8.0 } else { 4.0 };
    let all = messages * per_job + chunks * size_of::<Slot>() as f64 + cells * each;
    Err(too_large(all, costs))
}

/// Calls `each` with what some senders of some rounds send; every how many senders there is one.
pub(super) fn samples(schedule: &dyn Schedule, costs: &Costs, mut each: impl FnMut(&Sends)) -> u64 {
    let (rounds, places) = (costs.frame.rounds, costs.places() as u64);
    let all = rounds.saturating_mul(places);
    // A number that does not keep step with powers of two.
    let stride = (all / SAMPLES).max(1) | 1;
    let mut sends = Sends::default();
    for place in (0..all).step_by(usize::try_from(stride).unwrap_or(usize::MAX)) {
        sends.clear();
        let (round, turn) = (place / places, (place % places) as u32);
        schedule.sends_of(round, turn..turn + 1, &mut sends);
        each(&sends);
    }
    stride
}

/// The error about a simulation that takes about `bytes`.
fn too_large(bytes: f64, costs: &Costs) -> Error {
    let error = Error::input(format!(
        "simulating {} ranks event by event takes about {:.0} MiB, more than the {} MiB allowed",
        costs.frame.ranks,
        bytes / f64::from(1 << 20),
        MEMORY >> 20
    ));
    error.help(match costs.mode {
        Mode::Sync => "ask for fewer ranks or segments",
        _ => "ask for --mode sync, which holds one round at a time, or for fewer ranks or segments",
    })
}

/// Senders at which an estimate of memory looks.
const SAMPLES: u64 = 64;

/// Whether what `place` sends may be cut through: a switch forwards while it receives.
pub(super) fn is_switch(costs: &Costs, place: u32) -> bool {
    place >= costs.frame.ranks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Collective::{AllReduce, Broadcast};
    use crate::base::quantity::{Bandwidth, Seconds, Volume};
    use crate::cost::simulate::Setup;
    use crate::machine::fabric::{Fabric, Switch, Tier};
    use crate::model::schedule::{Frame, List, binomial, ring};
    use std::num::NonZeroU32;

    fn costs(schedule: &dyn Schedule, fabric: &Fabric) -> Costs {
        Costs::new(schedule, fabric, &Setup::new(Volume(60.0))).unwrap()
    }

    #[test]
    fn what_is_allowed_may_be_taken_and_no_more() {
        let ring = ring::Ring::new(AllReduce, 4);
        let costs = costs(&ring, &Fabric::flat(Seconds(1.0), Bandwidth(1.0)));
        let most = MEMORY as f64;
        assert!(check_memory(most, &costs).is_ok() && check_memory(most + 1.0, &costs).is_err());
        assert!(check_taken(MEMORY, &costs).is_ok());
        let error = check_taken(4 * MEMORY, &costs).unwrap_err().to_string();
        assert!(error.contains("about 4096 MiB, more than the 1024 MiB allowed"), "{error}");
        assert!(check_taken(MEMORY + 1, &costs).is_err());
    }

    #[test]
    fn every_duration_has_one_lane() {
        let ring = ring::Ring::new(AllReduce, 4);
        let costs = costs(&ring, &Fabric::flat(Seconds(1.0), Bandwidth(1.0)));
        let mut jobs = Jobs::default();
        jobs.reset(&costs, 0);
        let sizes = 2 * LANES as u32;
        for size in (0..sizes).chain(0..sizes) {
            let message = Message { from: 0, to: 1, bytes: size.into(), op: Op::Copy };
            jobs.open(&costs, message);
            jobs.close();
        }
        let lanes: Vec<u32> = jobs.jobs.iter().map(|job| job.lane).collect();
        assert_eq!(lanes, (0..sizes).chain(0..sizes).collect::<Vec<_>>());
        let durations: Vec<f64> = (0..sizes).map(|size| 1.0 + f64::from(size)).collect();
        assert_eq!(jobs.durations, durations);
    }

    /// Four ranks in nodes of two, and two switches.
    #[test]
    fn messages_need_ports_a_link_and_nics() {
        let switch =
            Switch { alpha: Some(Seconds(1.0)), bandwidth: None, multicast: true, alu: true };
        let tier = Tier::new("link", Seconds(1.0), Bandwidth(1.0));
        let inner = Tier { span: NonZeroU32::new(2), switch: Some(switch), ..tier.clone() };
        let outer = Tier { nics: NonZeroU32::new(1), ..tier };
        let list = List::new(Frame { switches: 2, ..Frame::new(AllReduce, 4, 4, 0) });
        let needs = |fabric: &Fabric, from, to| {
            let costs = costs(&list, fabric);
            let mut jobs = Jobs::default();
            jobs.reset(&costs, 0);
            let needs = jobs.needs(&costs, from, to);
            assert_eq!(needs[2] as usize, jobs.resources.len() - 1);
            [needs[0], needs[1], needs[3], needs[4]]
        };
        // Of each tier four send ports, four receive ports, four NICs out and four in.
        let mut fabric = Fabric::new(vec![inner, outer]);
        assert_eq!(needs(&fabric, 2, 3), [3, 8, FREE, FREE]);
        assert_eq!(needs(&fabric, 1, 2), [18, 23, 25, 30]);
        assert_eq!(needs(&fabric, 3, 0), [20, 21, 26, 29]);
        // A switch has ports for all, and ranks reach it from their innermost.
        assert_eq!(needs(&fabric, 3, 4), [4, FREE, FREE, FREE]);
        assert_eq!(needs(&fabric, 4, 3), [FREE, 8, FREE, FREE]);
        assert_eq!(needs(&fabric, 4, 5), [FREE, FREE, FREE, FREE]);
        fabric.tiers[1].nics = None;
        assert_eq!(needs(&fabric, 1, 2), [18, 23, FREE, FREE]);
        // One port for both ways.
        for tier in &mut fabric.tiers {
            tier.ports = Ports::Half(NonZeroU32::MIN);
        }
        assert_eq!(needs(&fabric, 2, 3), [3, 4, FREE, FREE]);
        assert_eq!(needs(&fabric, 1, 2), [18, 19, FREE, FREE]);
    }

    #[test]
    fn switches_come_after_ranks() {
        let ring = ring::Ring::new(AllReduce, 4);
        let costs = costs(&ring, &Fabric::flat(Seconds(1.0), Bandwidth(1.0)));
        assert_eq!([0, 3, 4, 5].map(|place| is_switch(&costs, place)), [false, false, true, true]);
    }

    #[test]
    fn the_estimate_is_what_jobs_take() {
        // The first has few senders, all of which are looked at; those of the other are alike.
        let schedules: [&dyn Schedule; 2] =
            [&binomial::Tree::new(Broadcast, 6, 2), &ring::Ring::new(AllReduce, 10)];
        for schedule in schedules {
            let fabric = Fabric::flat(Seconds(1.0), Bandwidth(1.0));
            let costs = costs(schedule, &fabric);
            let (mut jobs, mut tally) = (Jobs::default(), Tally::default());
            tally.reset(costs.places());
            let cells = Cells::of(schedule, &costs).unwrap();
            let rounds = 0..costs.frame.rounds;
            jobs.fill(schedule, &costs, (Some(&cells), rounds), &mut tally).unwrap();
            assert_eq!(estimate(schedule, &costs, Some(&cells)), jobs.memory() as f64);
        }
    }
}

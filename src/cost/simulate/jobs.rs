//! Messages as jobs that wait for other jobs and for resources.

use super::cells::Cells;
use super::costs::Costs;
use super::greedy::Span;
use super::tally::Tally;
use super::{MEMORY, Mode};
use crate::base::error::{Error, Result};
use crate::model::formula::Ports;
use crate::model::schedule::{Endpoint, Op, Schedule, Sends, Transfer, each_message};
use std::collections::HashMap;
use std::ops::Range;

/// No job, slot or cell.
pub(super) const NONE: u32 = u32::MAX;

/// The resource that is always available.
pub(super) const FREE: u32 = 0;

/// The resources that one message needs at once: a send port, a receive port, its link, a NIC at
/// each end. Where ports are all that can be exhausted, only the first two count. On its way to a tier
/// further out it also passes the NICs of the tiers between: [`Jobs::passing`].
pub(super) type Needs = [u32; 5];

/// How many durations have their own lane.
pub(super) const LANES: usize = 16;

/// One message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Job {
    pub from: u32,
    pub to: u32,
    /// The index of its duration.
    pub lane: u32,
    /// The first port of its tier.
    ports: u32,
    /// Cells that it still waits for.
    pub waits: u32,
    /// The job's first slot; the next job's first is its end.
    pub slots: u32,
}

/// The duration of a job as separate terms, in seconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    pub latency: f64,
    pub moving: f64,
    /// The part of that in which a port may move as much each way as one way.
    pub quick: f64,
}

/// A message between places.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message {
    pub from: u32,
    pub to: u32,
    pub bytes: f64,
    pub op: Op,
}

/// One thing that a job writes, or waits for, or both: chunks at a rank in `flow`, a rank in
/// `local`. Writers of one cell form a list in schedule order; a job that must come after a writer
/// is attached to it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    /// The job, and whether it and the writers before it have ended.
    job: u32,
    /// The next writer of the cell; the cell itself while the round is being added.
    pub next: u32,
    /// The first of those that wait for this writer and all before it.
    pub waiting: u32,
    /// The next of those that wait at the same place as this slot's job.
    pub also: u32,
}

impl Slot {
    #[inline]
    pub fn job(&self) -> u32 {
        self.job & !(ENDED | IS_FIRST)
    }

    /// Marks the writer as ended and returns whether all before it have ended.
    #[inline]
    pub fn end(&mut self) -> bool {
        self.job |= ENDED;
        self.job & IS_FIRST != 0
    }

    /// Marks the writers before as ended and returns whether this one has ended.
    #[inline]
    pub fn come_first(&mut self) -> bool {
        self.job |= IS_FIRST;
        self.job & ENDED != 0
    }
}

/// The bit of a slot's job that means that it has ended. Memory holds far fewer jobs than the bits
/// below it can count.
const ENDED: u32 = 1 << 31;

/// The bit that means that the writers before it have ended.
const IS_FIRST: u32 = 1 << 30;

/// The bytes of a job: itself, its times, and what names its needs and its place among the jobs of
/// each.
fn per_job(costs: &Costs) -> usize {
    let own = size_of::<Job>() + size_of::<Span>();
    // An entry of two numbers for each need, and where it is.
    if costs.needs_ports_alone() {
        return own + 2 * 12;
    }
    own + size_of::<Needs>() + 5 * 12 + passed(costs) * (size_of::<u32>() + 12)
}

/// NICs that a message passes at most besides those of its own tier, at both ends.
fn passed(costs: &Costs) -> usize {
    2 * costs.tiers.len().saturating_sub(2)
}

/// All messages of a schedule, or of one round, in schedule order.
#[derive(Default)]
pub(super) struct Jobs {
    pub jobs: Vec<Job>,
    /// The jobs without predecessors.
    pub first: Vec<u32>,
    pub slots: Vec<Slot>,
    /// How many slots of a job, its first ones, belong to the sender.
    pub sent: usize,
    /// By job, if rates change while messages are under way.
    pub terms: Vec<Terms>,
    /// By job, the seconds of the addition; empty if no addition takes time.
    pub adding: Vec<f64>,
    /// By job, if ports are not the only resources.
    needs: Vec<Needs>,
    /// By job, `passed` each: the NICs of tiers between that it also needs.
    passing: Vec<u32>,
    passed: usize,
    needs_ports_alone: bool,
    /// From the first port of a tier to the receive port of rank 0.
    receive: u32,
    /// The durations, in seconds, on otherwise idle ports.
    pub durations: Vec<f64>,
    /// The index of each duration beyond the first [`LANES`], by its bits.
    more_durations: HashMap<u64, u32>,
    /// How much of each resource is free; the most if it is unlimited.
    pub resources: Vec<u32>,
    per_job: usize,
    links: HashMap<(u32, u32), u32>,
    /// The last writer of each cell so far.
    tail: Vec<u32>,
    /// The last writer of each cell that copied; empty if adding takes no time.
    copied: Vec<u32>,
    /// By the slot of a writer that copies: the jobs whose data are added to its data.
    operand_of: HashMap<u32, Vec<u32>>,
    /// By job, the number of things that must come before it is added: itself, and its operand.
    /// Jobs that only wait for themselves are not listed.
    awaited: HashMap<u32, u32>,
    /// The first slot of the current round.
    round: usize,
    /// Cells that the current message waits for.
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
        self.needs_ports_alone = costs.needs_ports_alone();
        self.per_job = per_job(costs);
        self.passed = passed(costs);
        self.receive = if costs.is_half() { 0 } else { costs.frame.ranks };
        // Send ports, receive ports, NICs out, NICs in; tier by tier.
        self.resources.clear();
        self.resources.push(u32::MAX);
        let ranks = costs.frame.ranks as usize;
        for tier in &costs.tiers {
            let k = match tier.ports {
                _ if tier.is_fair => u32::MAX,
                Ports::Full(k) | Ports::Half(k) => k.get(),
                Ports::Unbounded => u32::MAX,
            };
            self.resources.extend(std::iter::repeat_n(k, 2 * ranks));
            let nics = tier.nics.filter(|_| !tier.is_fair).unwrap_or(u32::MAX);
            self.resources.extend(std::iter::repeat_n(nics, 2 * ranks));
        }
    }

    /// Removes the jobs, keeps resources and memory.
    pub fn clear(&mut self) {
        self.jobs.clear();
        self.first.clear();
        self.slots.clear();
        self.round = 0;
        self.terms.clear();
        self.adding.clear();
        self.needs.clear();
        self.passing.clear();
        self.operand_of.clear();
        self.awaited.clear();
    }

    /// The send port and the receive port of a job, where ports are the only resources.
    #[inline(always)]
    fn ports(&self, job: u32) -> [u32; 2] {
        let job = &self.jobs[job as usize];
        [job.ports + job.from, job.ports + self.receive + job.to]
    }

    /// N, if every job needs a send port and a receive port of one tier and nothing else: ports 1
    /// to N and N + 1 to 2·N.
    pub fn in_pairs(&self) -> Option<usize> {
        let ranks = self.receive as usize;
        let is_one_tier = self.resources.len() == 1 + 4 * ranks;
        (self.needs_ports_alone && ranks > 0 && is_one_tier).then_some(ranks)
    }

    /// Whether a job could start.
    #[inline(always)]
    pub fn can_start(&self, job: u32) -> bool {
        let is_free = |need: u32| self.resources[need as usize] != 0;
        if self.needs_ports_alone {
            return self.ports(job).into_iter().all(is_free);
        }
        self.all_needs(job).all(is_free)
    }

    /// All that a job needs, where that is more than ports.
    #[inline(always)]
    fn all_needs(&self, job: u32) -> impl Iterator<Item = u32> + Clone {
        let first = job as usize * self.passed;
        let passing = &self.passing[first..first + self.passed];
        self.needs[job as usize].into_iter().chain(passing.iter().copied())
    }

    /// Calls `each` with the free amount of everything that a job needs.
    #[inline(always)]
    fn each_need(&mut self, job: u32, mut each: impl FnMut(u32, &mut u32)) {
        let first = job as usize * self.passed;
        let Self { needs, passing, passed, resources, .. } = self;
        let passing = &passing[first..first + *passed];
        for need in needs[job as usize].into_iter().chain(passing.iter().copied()) {
            each(need, &mut resources[need as usize]);
        }
    }

    /// Takes the resources that a job needs, if all of them are free.
    #[inline(always)]
    pub fn take(&mut self, job: u32) -> bool {
        if !self.can_start(job) {
            return false;
        }
        if self.needs_ports_alone {
            self.hold(self.ports(job));
            return true;
        }
        // These are unlimited.
        self.each_need(job, |_, free| *free -= u32::from(*free != u32::MAX));
        true
    }

    /// Takes two free ports: a rank's only port is either taken or free.
    #[inline(always)]
    pub fn hold(&mut self, ports: [u32; 2]) {
        for port in ports {
            self.resources[port as usize] = 0;
        }
    }

    /// Releases what a job held; reports each resource.
    #[inline(always)]
    pub fn give(&mut self, job: u32, mut each: impl FnMut(u32)) {
        if self.needs_ports_alone {
            for port in self.ports(job) {
                self.resources[port as usize] = 1;
                each(port);
            }
            return;
        }
        self.each_need(job, |need, free| {
            if *free != u32::MAX {
                *free += 1;
                each(need);
            }
        });
    }

    /// The most limited resources that a job needs.
    #[inline(always)]
    pub fn most_needs(&self) -> usize {
        if self.needs_ports_alone { 2 } else { size_of::<Needs>() / size_of::<u32>() + self.passed }
    }

    /// Reports each limited resource that a job needs, with another of them, or itself again.
    #[inline(always)]
    pub fn limited_needs(&self, job: u32, mut each: impl FnMut(u32, u32)) {
        if self.needs_ports_alone {
            let [send, receive] = self.ports(job);
            each(send, receive);
            if receive != send {
                each(receive, send);
            }
            return;
        }
        let needs = self.all_needs(job);
        let limited = |need: &u32| self.resources[*need as usize] != u32::MAX;
        for need in needs.clone().filter(limited) {
            let other = needs.clone().find(|&other| other != need && limited(&other));
            each(need, other.unwrap_or(need));
        }
    }

    /// Whether adding the data of a job takes time.
    #[inline]
    pub fn is_added(&self, job: u32) -> bool {
        self.adding.get(job as usize).is_some_and(|&adding| adding > 0.0)
    }

    /// Counts one of the things that `job` awaits before it is added, and returns whether all have
    /// come.
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

    /// The index of a duration among all.
    #[inline(always)]
    fn lane(&mut self, duration: f64) -> u32 {
        // Usually it equals that of the previous message.
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
            resources.push(1);
            // There are far fewer links than a u32 can count: each has a job.
            (resources.len() - 1) as u32
        })
    }

    /// The memory of all this in bytes, including the engine's.
    pub fn memory(&self) -> u64 {
        let cells = self.tail.len() + self.copied.len();
        // Half of the space in maps is free.
        let awaited = self.awaited.len() * 16 + self.operand_of.len() * 80;
        (self.jobs.len() * self.per_job
            + self.slots.len() * size_of::<Slot>()
            + cells * 4
            + awaited) as u64
    }

    /// The needs of a message from one place to another.
    fn needs(&mut self, costs: &Costs, from: u32, to: u32) -> Needs {
        let ranks = costs.frame.ranks;
        let link = self.link(from, to);
        let tier = costs.held_tier(from, to);
        let first = first_port(costs, tier);
        let half = costs.tiers[tier].ports.is_half();
        let port = |place: u32, receives: bool| match place {
            place if place >= ranks => FREE,
            place => first + place + if receives && !half { ranks } else { 0 },
        };
        let nic = |place, receives| nic(costs, tier, place, receives);
        [port(from, false), port(to, true), link, nic(from, false), nic(to, true)]
    }

    /// The NICs of the tiers between that a message passes on its way to the tier that joins its ends.
    fn pass(&mut self, costs: &Costs, from: u32, to: u32) {
        let farthest = costs.held_tier(from, to);
        for tier in 1..=self.passed / 2 {
            let nic = |place, receives| match tier < farthest {
                true => nic(costs, tier, place, receives),
                false => FREE,
            };
            self.passing.extend([nic(from, false), nic(to, true)]);
        }
    }

    /// Adds a message with its needs; [`Self::touch`] adds its cells, and [`Self::close`] ends it.
    #[inline]
    pub fn open(&mut self, costs: &Costs, message: Message) {
        if !self.needs_ports_alone {
            let needs = self.needs(costs, message.from, message.to);
            self.needs.push(needs);
            self.pass(costs, message.from, message.to);
        }
        self.push(costs, message);
    }

    /// The same with its needs given, on links of one kind.
    #[inline]
    pub fn open_needing(&mut self, costs: &Costs, message: Message, needs: Needs) {
        if !self.needs_ports_alone {
            self.needs.push(needs);
        }
        self.push(costs, message);
    }

    #[inline(always)]
    fn push(&mut self, costs: &Costs, message: Message) {
        let (latency, moving) = costs.terms(&message);
        if costs.shares() {
            self.terms.push(Terms { latency, moving, quick: costs.quick(&message) });
        }
        if costs.adds() {
            self.adding.push(costs.adding(&message));
        }
        let lane = self.lane(latency + moving);
        let slots = self.slots.len() as u32;
        let Message { from, to, .. } = message;
        let tier = if costs.tiers.len() > 1 { costs.held_tier(from, to) } else { 0 };
        let ports = first_port(costs, tier);
        self.jobs.push(Job { from, to, lane, ports, waits: 0, slots });
        self.waits = 0;
    }

    /// The current message waits for cell `read` and writes cell `write`; [`NONE`] is no cell.
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

    /// Ends the current message.
    #[inline]
    pub fn close(&mut self) {
        match self.jobs.last_mut() {
            Some(job) if self.waits > 0 => job.waits = self.waits,
            _ => self.first.push(self.jobs.len() as u32 - 1),
        }
    }

    /// Makes the writes of the round visible to later rounds.
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
    /// The messages of some rounds of `schedule` with their dependencies: on messages that wrote
    /// the data they send, by `cells`, or, without cells, on everything that their ranks did
    /// before.
    pub fn fill(
        &mut self,
        schedule: &dyn Schedule,
        costs: &Costs,
        (cells, rounds): (Option<&Cells>, Range<u64>),
        tally: &mut Tally,
    ) -> Result<()> {
        // Checked before anything is allocated.
        check_memory(estimate(schedule, costs, cells), costs)?;
        self.reset(costs, cells.map_or(costs.places(), Cells::count));
        if cells.is_none() {
            // The operand of a message has come before it starts.
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

    /// The current message waits for the cells `reads` and writes the cells `writes`.
    #[inline]
    fn touch_all(&mut self, reads: Range<usize>, writes: Range<usize>) {
        // There are fewer cells than a u32 can count: memory holds no more.
        let cell = |cells: &Range<usize>, i| cells.clone().nth(i).map_or(NONE, |cell| cell as u32);
        for i in 0..reads.len().max(writes.len()) {
            self.touch(cell(&reads, i), cell(&writes, i));
        }
    }
}

/// The NICs of a tier at the domain of the tier below in which a place is; free if none are shared.
fn nic(costs: &Costs, tier: usize, place: u32, receives: bool) -> u32 {
    let ranks = costs.frame.ranks;
    match costs.tiers[tier].nics {
        Some(_) if tier > 0 && place < ranks => {
            let domain = costs.domain(tier - 1, place);
            first_port(costs, tier) + 2 * ranks + domain + if receives { ranks } else { 0 }
        }
        _ => FREE,
    }
}

/// The send port of rank 0 in a tier.
#[inline]
fn first_port(costs: &Costs, tier: usize) -> u32 {
    1 + 4 * costs.frame.ranks * tier as u32
}

/// Refuses a simulation that needs more than [`MEMORY`].
pub(super) fn check_memory(bytes: f64, costs: &Costs) -> Result<()> {
    if bytes <= MEMORY as f64 { Ok(()) } else { Err(too_large(bytes, costs)) }
}

/// Refuses a simulation that has exceeded the limit, whatever was estimated.
fn check_taken(bytes: u64, costs: &Costs) -> Result<()> {
    check_memory(bytes as f64, costs)
}

/// The estimated result of [`Jobs::memory`], from a sample of senders and rounds.
fn estimate(schedule: &dyn Schedule, costs: &Costs, cells: Option<&Cells>) -> f64 {
    let per_job = per_job(costs) as f64;
    let mut sampled = 0.0;
    let stride = samples(schedule, costs, |sends| {
        let one = |from: Endpoint, transfer: Transfer<'_>| {
            let (from, to) = (costs.place(from), costs.place(transfer.to));
            // An invalid message is refused later.
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

/// Refuses more messages than memory holds, with one cell each, judged from a sample.
pub(super) fn check_count(schedule: &dyn Schedule, costs: &Costs) -> Result<()> {
    let (mut messages, mut chunks) = (0, 0);
    let stride = samples(schedule, costs, |sends| {
        messages += sends.len() as u64;
        let runs = sends.iter().flat_map(|transfer| transfer.runs);
        chunks += runs.map(|run| u64::from(run.len)).sum::<u64>();
    });
    let per_job = per_job(costs) as f64;
    let [messages, chunks] = [messages, chunks].map(|count| (count * stride) as f64);
    if messages * per_job <= MEMORY as f64 {
        return Ok(());
    }
    let cells = costs.places() as f64 * f64::from(costs.frame.chunks());
    let each = if costs.adds() { 8.0 } else { 4.0 };
    let all = messages * per_job + chunks * size_of::<Slot>() as f64 + cells * each;
    Err(too_large(all, costs))
}

/// Calls `each` with the sends of a sample of senders and rounds; returns the sampling stride.
pub(super) fn samples(schedule: &dyn Schedule, costs: &Costs, mut each: impl FnMut(&Sends)) -> u64 {
    let (rounds, places) = (costs.frame.rounds, costs.places() as u64);
    let all = rounds.saturating_mul(places);
    // An odd stride, so that it does not coincide with powers of two.
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

/// The error for a simulation that takes about `bytes`.
fn too_large(bytes: f64, costs: &Costs) -> Error {
    let error = Error::input(format!(
        "simulating {} ranks event by event takes about {:.0} MiB, more than the {} MiB allowed",
        costs.frame.ranks,
        (bytes / f64::from(1 << 20)).ceil(),
        MEMORY >> 20
    ));
    let minutes = costs.frame.rounds as f64 * costs.places() as f64 * PER_SENDER / 60.0;
    let takes = match minutes < 1.0 {
        true => String::new(),
        false => format!(" (up to {minutes:.0} min)"),
    };
    error.help(match costs.mode {
        Mode::Sync => "use fewer ranks or segments".to_owned(),
        _ => format!(
            "use --mode sync, which keeps one round at a time{takes}, or fewer ranks or segments"
        ),
    })
}

/// The seconds that a message takes in mode sync, by rings of 4000 to 20,000 ranks.
const PER_SENDER: f64 = 0.35e-6;

/// The number of senders sampled to estimate memory.
const SAMPLES: u64 = 64;

/// Whether data sent by `place` may be cut through: a switch forwards while it receives.
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
        assert!(error.contains("one round at a time, or fewer ranks"), "{error}");
        assert!(check_taken(MEMORY + 1, &costs).is_err());
    }

    #[test]
    fn what_would_take_hours_says_so() {
        let ring = ring::Ring::new(AllReduce, 100_000);
        let costs = costs(&ring, &Fabric::flat(Seconds(1.0), Bandwidth(1.0)));
        let error = check_taken(MEMORY + 1, &costs).unwrap_err().to_string();
        assert!(error.contains("one round at a time (up to 117 min), or fewer"), "{error}");
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
        // For each tier four send ports, four receive ports, four NICs out and four in.
        let mut fabric = Fabric::new(vec![inner, outer]);
        assert_eq!(needs(&fabric, 2, 3), [3, 8, FREE, FREE]);
        assert_eq!(needs(&fabric, 1, 2), [18, 23, 25, 30]);
        assert_eq!(needs(&fabric, 3, 0), [20, 21, 26, 29]);
        // A switch has ports for all, and ranks reach it through their innermost tier.
        assert_eq!(needs(&fabric, 3, 4), [4, FREE, FREE, FREE]);
        assert_eq!(needs(&fabric, 4, 3), [FREE, 8, FREE, FREE]);
        assert_eq!(needs(&fabric, 4, 5), [FREE, FREE, FREE, FREE]);
        fabric.tiers[1].nics = None;
        assert_eq!(needs(&fabric, 1, 2), [18, 23, FREE, FREE]);
        // One port for both directions.
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
        // The first has few senders, all of which are sampled; those of the other are alike.
        let schedules: [&dyn Schedule; 2] = [
            &binomial::Tree::new(Broadcast, 6, 2, binomial::Edges::NearFirst),
            &ring::Ring::new(AllReduce, 10),
        ];
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

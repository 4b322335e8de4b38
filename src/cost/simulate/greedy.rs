//! Event by event: everything that can start at an instant starts, in schedule order.
//!
//! A job is ready when all its predecessors are done and its ranks have started. If it is ready but
//! cannot start, it waits; when one of its resources is free again, the first of that resource's
//! jobs that can start does. So at any instant only jobs whose situation has changed are visited.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;

use super::cells::Cells;
use super::costs::Costs;
use super::fluid::{Fluid, Rest};
use super::in_order::SAME;
use super::jobs::{Job, Jobs, LANES, NONE, Slot, is_switch};
use super::waiting::Waiting;
use super::{Listener, Outcome, Space, Timed};
use crate::base::error::Result;
use crate::base::quantity::{Seconds, Volume};
use crate::model::schedule::{Schedule, Sends, each_message};

/// Determines the times of jobs under way.
pub(super) trait Clock {
    /// `job` of `jobs` starts at `now` and ends no earlier than `least`; returns the end, if it is
    /// known.
    fn start(&mut self, jobs: &Jobs, job: u32, now: f64, least: f64) -> Option<f64>;

    /// The time of the next event.
    fn next(&mut self) -> Option<f64>;

    /// A job that has ended at `until` or before, with its end; any of several.
    fn pop(&mut self, until: f64) -> Option<(u32, f64)>;
}

/// A positive time as an integer with the same order.
#[inline]
fn key(time: f64) -> u64 {
    time.to_bits()
}

/// Jobs whose end is known when they start.
///
/// Of jobs with equal durations the one that starts first ends first. So each duration has a lane,
/// and only the first jobs of lanes are compared. Jobs without a lane are sorted.
#[derive(Default)]
pub(super) struct Fixed {
    lanes: [VecDeque<(u64, u32)>; LANES],
    others: BinaryHeap<Reverse<(u64, u32)>>,
    used: usize,
}

impl Fixed {
    /// When the first ends, and its lane; the last lane represents the sorted jobs.
    #[inline(always)]
    fn first(&self) -> Option<(u64, usize)> {
        let others = self.others.peek().map(|&Reverse((end, _))| (end, LANES));
        let lanes = self.lanes[..self.used].iter().zip(0..);
        let firsts = lanes.filter_map(|(jobs, lane)| jobs.front().map(|&(end, _)| (end, lane)));
        firsts.chain(others).min()
    }
}

impl Clock for Fixed {
    #[inline]
    fn start(&mut self, jobs: &Jobs, job: u32, now: f64, least: f64) -> Option<f64> {
        let lane = jobs.jobs[job as usize].lane;
        let end = now + jobs.durations[lane as usize];
        match self.lanes.get_mut(lane as usize) {
            Some(lane_of) if end >= least => {
                lane_of.push_back((key(end), job));
                self.used = self.used.max(lane as usize + 1);
                Some(end)
            }
            _ => {
                let end = end.max(least);
                self.others.push(Reverse((key(end), job)));
                Some(end)
            }
        }
    }

    #[inline]
    fn next(&mut self) -> Option<f64> {
        self.first().map(|(end, _)| f64::from_bits(end))
    }

    #[inline(always)]
    fn pop(&mut self, until: f64) -> Option<(u32, f64)> {
        let (_, lane) = self.first().filter(|&(end, _)| f64::from_bits(end) <= until)?;
        let (end, job) = match self.lanes.get_mut(lane) {
            Some(jobs) => jobs.pop_front()?,
            None => self.others.pop()?.0,
        };
        Some((job, f64::from_bits(end)))
    }
}

/// When a job started, when it ended, and when its data had been added.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Span {
    pub start: f64,
    pub end: f64,
    pub added: f64,
}

/// A job that may start now, or the first that may of those that wait for a resource, and that
/// resource, as one number that sorts by job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate(u64);

impl Candidate {
    #[inline]
    fn new(job: u32, resource: u32) -> Self {
        Self(u64::from(job) << 32 | u64::from(resource))
    }

    #[inline]
    fn parts(self) -> (u32, u32) {
        ((self.0 >> 32) as u32, self.0 as u32)
    }
}

/// Jobs that wait until a rank starts: a chain for each such rank.
#[derive(Default)]
struct Late {
    starts: BinaryHeap<Reverse<(u64, u32)>>,
    first: Vec<u32>,
    next: Vec<u32>,
}

impl Late {
    fn reset(&mut self, places: usize, jobs: usize) {
        self.starts.clear();
        self.first.clear();
        self.first.resize(places, NONE);
        self.next.clear();
        self.next.resize(jobs, NONE);
    }

    /// `job` waits for `place`, which starts at `time`.
    #[inline]
    fn add(&mut self, job: u32, place: u32, time: f64) {
        let first = &mut self.first[place as usize];
        if *first == NONE {
            self.starts.push(Reverse((key(time), place)));
        }
        self.next[job as usize] = std::mem::replace(first, job);
    }

    /// Calls `each` with the jobs that wait for ranks that have started at `until`.
    fn due(&mut self, until: f64, mut each: impl FnMut(u32)) {
        while let Some(place) = due(&mut self.starts, until) {
            let mut job = std::mem::replace(&mut self.first[place as usize], NONE);
            while job != NONE {
                each(job);
                job = self.next[job as usize];
            }
        }
    }
}

/// Memory of the engine, reused between runs.
#[derive(Default)]
pub(super) struct Buffers {
    /// Jobs that wait for exhausted resources.
    waiting: Waiting,
    /// Jobs that may not start yet.
    late: Late,
    /// Data that pass through a switch and may be sent on from this time.
    through: BinaryHeap<Reverse<(u64, u32)>>,
    /// Jobs to try now; the first comes last.
    candidates: Vec<Candidate>,
    /// Jobs that end now with data to be added, with their ends; the first comes last.
    brought: Vec<(u32, f64)>,
    /// The earliest possible end of each job sent by a switch.
    least: Vec<f64>,
    /// Until when each place is adding; empty if that takes no time.
    adders: Vec<f64>,
    /// Jobs that have ended and whose data are being added, by the end of the addition.
    adding: BinaryHeap<Reverse<(u64, u32)>>,
    fixed: Fixed,
    /// The savings of ports behind buckets.
    rests: Vec<Rest>,
    /// In schedule order, if requested.
    pub times: Vec<Span>,
}

/// The ready jobs, the jobs that wait for each resource, and the jobs to try now.
pub(super) struct Engine<'a> {
    costs: &'a Costs,
    pub buffers: &'a mut Buffers,
    /// When the last rank starts.
    all_started: f64,
    /// Whether times are requested.
    pub keeps_times: bool,
}

impl<'a> Engine<'a> {
    pub fn new(costs: &'a Costs, buffers: &'a mut Buffers) -> Self {
        buffers.rests.clear();
        if costs.tiers.iter().any(|tier| tier.times.saved > 0.0) {
            let ports = costs.tiers.len() * costs.frame.ranks as usize;
            buffers.rests.resize(ports, Rest::default());
        }
        Self { costs, buffers, all_started: 0.0, keeps_times: false }
    }

    /// Runs all jobs with any kind of ports; none starts before `release`. Returns when the last
    /// one ends.
    pub fn play(&mut self, jobs: &mut Jobs, release: impl Fn(u32) -> f64) -> f64 {
        if !self.costs.shares() {
            let mut fixed = std::mem::take(&mut self.buffers.fixed);
            let makespan = self.run(jobs, &mut fixed, release);
            self.buffers.fixed = fixed;
            return makespan;
        }
        let mut rests = std::mem::take(&mut self.buffers.rests);
        let makespan = self.run(jobs, &mut Fluid::new(self.costs, &mut rests), release);
        self.buffers.rests = rests;
        makespan
    }

    fn run(
        &mut self,
        jobs: &mut Jobs,
        clock: &mut impl Clock,
        release: impl Fn(u32) -> f64,
    ) -> f64 {
        let count = jobs.jobs.len();
        let b = &mut *self.buffers;
        b.waiting.clear();
        b.least.clear();
        // With variable rates there is no known end for cut-through.
        if self.costs.frame.switches != 0 && !self.costs.shares() {
            b.least.resize(count, 0.0);
        }
        b.adders.clear();
        if self.costs.adds() {
            b.adders.resize(self.costs.places(), 0.0);
        }
        b.times.clear();
        if self.keeps_times || !b.least.is_empty() {
            b.times.resize(count, Span::default());
        }
        let places = self.costs.places();
        self.all_started = (0..places as u32).map(&release).fold(0.0, f64::max);
        b.late.reset(places, if self.all_started > 0.0 { count } else { 0 });
        let mut now = 0.0;
        let mut makespan = 0.0_f64;
        for i in 0..jobs.first.len() {
            self.ready(jobs, jobs.first[i], now, &release);
        }
        loop {
            self.settle(jobs, clock, now);
            let Some(next) = self.next(clock) else { return makespan };
            now = now.max(next);
            let until = now * (1.0 + SAME);
            while let Some((job, end)) = clock.pop(until) {
                makespan = makespan.max(end);
                self.end(jobs, job, end);
                if jobs.is_added(job) {
                    if jobs.has_come(job) {
                        self.buffers.brought.push((job, end));
                    }
                    continue;
                }
                jobs.copied(job, |added| self.buffers.brought.push((added, end)));
                if !self.is_cut_through(jobs, job) {
                    self.pass_on(jobs, jobs.slots_of(job), now, &release);
                }
            }
            self.buffers.brought.sort_unstable_by_key(|&(job, _)| Reverse(job));
            while let Some((job, end)) = self.buffers.brought.pop() {
                let added = self.add(jobs, job, end);
                makespan = makespan.max(added);
                let mut slots = jobs.slots_of(job);
                if added > until {
                    self.buffers.adding.push(Reverse((key(added), job)));
                    // The sender's part is done.
                    slots.end = slots.start + jobs.sent;
                }
                self.pass_on(jobs, slots, now, &release);
            }
            loop {
                let slots = if let Some(job) = due(&mut self.buffers.adding, until) {
                    let slots = jobs.slots_of(job);
                    slots.start + jobs.sent..slots.end
                } else if let Some(job) = due(&mut self.buffers.through, until) {
                    jobs.slots_of(job)
                } else {
                    break;
                };
                self.pass_on(jobs, slots, now, &release);
            }
            let Buffers { late, candidates, .. } = &mut *self.buffers;
            late.due(until, |job| candidates.push(Candidate::new(job, NONE)));
        }
    }

    #[inline]
    fn next(&self, clock: &mut impl Clock) -> Option<f64> {
        let mut first = clock.next();
        for heap in [&self.buffers.through, &self.buffers.late.starts, &self.buffers.adding] {
            if let Some(&Reverse((time, _))) = heap.peek() {
                let time = f64::from_bits(time);
                first = Some(first.map_or(time, |first| first.min(time)));
            }
        }
        first
    }

    /// Starts all jobs that can start now.
    fn settle(&mut self, jobs: &mut Jobs, clock: &mut impl Clock, now: f64) {
        if self.buffers.candidates.len() > 1 {
            self.buffers.candidates.sort_unstable_by(|a, b| b.cmp(a));
        }
        while let Some((job, resource)) = self.buffers.candidates.pop().map(Candidate::parts) {
            if resource == NONE {
                if !self.try_start(jobs, clock, job, now) {
                    self.buffers.waiting.add(jobs, job);
                }
                continue;
            }
            // Until it is exhausted, perhaps by an earlier job.
            while jobs.resources[resource as usize] != 0 {
                let Buffers { waiting, candidates, .. } = &mut *self.buffers;
                let Some(found) = waiting.startable(jobs, resource, job) else { break };
                let next = Candidate::new(found.job, resource);
                if candidates.last().is_some_and(|&other| other < next) {
                    // Its turn comes after the candidates before it.
                    let at = candidates.partition_point(|&other| other > next);
                    candidates.insert(at, next);
                    break;
                }
                waiting.take(jobs, found, resource);
                self.started(jobs, clock, found.job, now);
            }
        }
    }

    #[inline(always)]
    fn try_start(&mut self, jobs: &mut Jobs, clock: &mut impl Clock, job: u32, now: f64) -> bool {
        if !jobs.take(job) {
            return false;
        }
        self.buffers.waiting.taken(jobs, job);
        self.started(jobs, clock, job, now);
        true
    }

    /// A job that holds its resources is under way.
    #[inline(always)]
    fn started(&mut self, jobs: &Jobs, clock: &mut impl Clock, job: u32, now: f64) {
        let least = self.buffers.least.get(job as usize).copied().unwrap_or(0.0);
        let end = clock.start(jobs, job, now, least);
        if let Some(times) = self.buffers.times.get_mut(job as usize) {
            let end = end.unwrap_or(now);
            *times = Span { start: now, end, added: end };
        }
        if self.is_cut_through(jobs, job) {
            let hop = self.costs.hop(jobs.jobs[job as usize].to);
            self.buffers.through.push(Reverse((key(now + hop), job)));
        }
    }

    /// Releases what a job held until `end`.
    #[inline(always)]
    fn end(&mut self, jobs: &mut Jobs, job: u32, end: f64) {
        let Buffers { waiting, candidates, .. } = &mut *self.buffers;
        waiting.given(jobs, job);
        jobs.give(job, |resource| {
            candidates.extend(waiting.first(resource).map(|job| Candidate::new(job, resource)));
        });
        if let Some(times) = self.buffers.times.get_mut(job as usize) {
            (times.end, times.added) = (end, end);
        }
    }

    /// When the receiver has added the data that arrived at `end`.
    fn add(&mut self, jobs: &Jobs, job: u32, end: f64) -> f64 {
        let adder = &mut self.buffers.adders[jobs.jobs[job as usize].to as usize];
        *adder = adder.max(end) + jobs.adding[job as usize];
        if let Some(times) = self.buffers.times.get_mut(job as usize) {
            times.added = *adder;
        }
        *adder
    }

    /// Marks the data that a job wrote in `slots` as written, and releases those that waited for
    /// them.
    #[inline(always)]
    fn pass_on(
        &mut self,
        jobs: &mut Jobs,
        slots: Range<usize>,
        now: f64,
        release: &impl Fn(u32) -> f64,
    ) {
        for slot in slots {
            // Everything up to the first unfinished writer has been written.
            let mut all = jobs.slots[slot].end();
            let mut slot = slot as u32;
            while all {
                let first = jobs.slots[slot as usize];
                let mut waiting = first.waiting;
                while waiting != NONE {
                    let entry = jobs.slots[waiting as usize];
                    let waiter = entry.job();
                    waiting = entry.also;
                    if self.is_cut_through(jobs, first.job()) {
                        let end = self.buffers.times[first.job() as usize].end;
                        let least = end + self.costs.hop(jobs.jobs[first.job() as usize].to);
                        let entry = &mut self.buffers.least[waiter as usize];
                        *entry = entry.max(least);
                    }
                    let waits = &mut jobs.jobs[waiter as usize].waits;
                    *waits -= 1;
                    if *waits == 0 {
                        self.ready(jobs, waiter, now, release);
                    }
                }
                slot = first.next;
                all = jobs.slots.get_mut(slot as usize).is_some_and(Slot::come_first);
            }
        }
    }

    /// A job's predecessors are done: it is tried now, or when its ranks have started.
    #[inline]
    fn ready(&mut self, jobs: &Jobs, job: u32, now: f64, release: &impl Fn(u32) -> f64) {
        if now < self.all_started {
            let Job { from, to, .. } = jobs.jobs[job as usize];
            let starts = [(release(from), from), (release(to), to)];
            let (start, last) = if starts[0].0 > starts[1].0 { starts[0] } else { starts[1] };
            if start > now {
                return self.buffers.late.add(job, last, start);
            }
        }
        self.buffers.candidates.push(Candidate::new(job, NONE));
    }

    /// Whether the data of a job are forwarded while they arrive.
    #[inline]
    fn is_cut_through(&self, jobs: &Jobs, job: u32) -> bool {
        !self.buffers.least.is_empty() && is_switch(self.costs, jobs.jobs[job as usize].to)
    }
}

fn due(heap: &mut BinaryHeap<Reverse<(u64, u32)>>, until: f64) -> Option<u32> {
    let Reverse((time, job)) = *heap.peek()?;
    if f64::from_bits(time) > until {
        return None;
    }
    heap.pop();
    Some(job)
}

/// The whole schedule at once, in mode `flow` with reads and writes, or in mode `local`.
pub(super) fn whole(
    schedule: &dyn Schedule,
    costs: &Costs,
    cells: Option<&Cells>,
    space: &mut Space,
    listener: Option<&mut dyn Listener>,
) -> Result<Outcome> {
    let Space { jobs, buffers, tally, .. } = space;
    tally.reset(costs.places());
    jobs.fill(schedule, costs, (cells, 0..costs.frame.rounds), tally)?;
    let mut engine = Engine::new(costs, buffers);
    engine.keeps_times = listener.is_some();
    let makespan = engine.play(jobs, |place| costs.start(place));
    if let Some(listener) = listener {
        let mut times = buffers.times.iter();
        for round in 0..costs.frame.rounds {
            tell(schedule, costs, round, &mut times, listener);
        }
    }
    Ok(tally.finish(costs.frame.ranks as usize, makespan))
}

/// Reports the messages of one round to `listener`, with times in schedule order.
pub(super) fn tell<'t>(
    schedule: &dyn Schedule,
    costs: &Costs,
    round: u64,
    times: &mut impl Iterator<Item = &'t Span>,
    listener: &mut dyn Listener,
) {
    let mut sends = Sends::default();
    let told: std::result::Result<(), ()> =
        each_message(schedule, round, &mut sends, |from, transfer| {
            let &Span { start, end, added } = times.next().ok_or(())?;
            listener.message(&Timed {
                round,
                from,
                to: transfer.to,
                op: transfer.op,
                runs: transfer.runs,
                bytes: Volume(costs.bytes(transfer.runs)),
                tier: costs.tier_of(from, transfer.to),
                start: Seconds(start),
                end: Seconds(end),
                added: Seconds(added),
            });
            Ok(())
        });
    debug_assert_eq!(told, Ok(()), "every message has its times");
}

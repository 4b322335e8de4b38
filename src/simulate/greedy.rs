//! Event by event: whatever may start at an instant starts, the first in the schedule first.
//!
//! A job is ready when everything that it waits for is done and its ranks have started. Ready and
//! not startable, it waits in the queue of one resource that is used up; when some of that is
//! free again, the queue's first is tried. So at any instant only jobs are looked at for which
//! something has changed.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::costs::Costs;
use super::fluid::Fluid;
use super::in_order::SAME;
use super::jobs::{Cells, Job, Jobs, LANES, NONE, Terms, all, is_switch};
use super::tally::Tally;
use super::{Listener, Mode, Outcome, Timed};
use crate::error::Result;
use crate::quantity::{Seconds, Volume};
use crate::schedule::{Schedule, Sends, senders};

/// Times what is under way.
pub(super) trait Clock {
    /// `job` of `jobs` starts at `now` and ends no sooner than `least`; the end, if it is known.
    fn start(&mut self, jobs: &Jobs, job: u32, now: f64, least: f64) -> Option<f64>;

    /// When the next thing happens.
    fn next(&mut self) -> Option<f64>;

    /// A job that has ended at `until` or before, with its end.
    fn pop(&mut self, until: f64) -> Option<(u32, f64)>;
}

/// A positive time as a number that sorts alike.
#[inline]
fn key(time: f64) -> u64 {
    time.to_bits()
}

/// Jobs whose end is known when they start.
///
/// Of jobs that take equally long the one that starts first ends first: each duration has a lane,
/// and only the lanes' first are compared. What has no lane is sorted.
pub(super) struct Fixed {
    lanes: [VecDeque<(f64, u32)>; LANES],
    others: BinaryHeap<Reverse<(u64, u32)>>,
    used: usize,
}

impl Default for Fixed {
    fn default() -> Self {
        Self { lanes: Default::default(), others: BinaryHeap::new(), used: 0 }
    }
}

impl Fixed {
    /// The lane whose first ends first, and when; the last lane stands for what is sorted.
    #[inline]
    fn first(&self) -> Option<(usize, f64)> {
        let mut first = self.others.peek().map(|&Reverse((end, _))| (LANES, f64::from_bits(end)));
        for (lane, jobs) in self.lanes[..self.used].iter().enumerate() {
            if let Some(&(end, _)) = jobs.front() {
                if first.is_none_or(|(_, least)| end < least) {
                    first = Some((lane, end));
                }
            }
        }
        first
    }
}

impl Clock for Fixed {
    #[inline]
    fn start(&mut self, jobs: &Jobs, job: u32, now: f64, least: f64) -> Option<f64> {
        let Job { duration, lane, .. } = jobs.jobs[job as usize];
        let end = now + duration;
        match self.lanes.get_mut(lane as usize) {
            Some(lane_of) if end >= least => {
                lane_of.push_back((end, job));
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
        self.first().map(|(_, end)| end)
    }

    #[inline]
    fn pop(&mut self, until: f64) -> Option<(u32, f64)> {
        let (lane, end) = self.first().filter(|&(_, end)| end <= until)?;
        let job = match self.lanes.get_mut(lane) {
            Some(jobs) => jobs.pop_front()?.1,
            None => self.others.pop()?.0.1,
        };
        Some((job, end))
    }
}

/// When each job started and ended, in schedule order.
pub(super) type Times = Vec<(f64, f64)>;

/// What is ready, what waits for which resource, and what is to be looked at now.
pub(super) struct Engine<'a> {
    costs: &'a Costs,
    /// Jobs that wait for a resource that is used up, by resource.
    queues: Vec<BinaryHeap<Reverse<u32>>>,
    /// Jobs that may not start yet, by the time from which they may.
    later: BinaryHeap<Reverse<(u64, u32)>>,
    /// What goes through a switch and may be sent on from this time.
    through: BinaryHeap<Reverse<(u64, u32)>>,
    /// Jobs to look at now, each with the resource in whose queue it stands.
    candidates: BinaryHeap<Reverse<(u32, u32)>>,
    freed: Vec<u32>,
    /// The least end of each job that a switch sends.
    least: Vec<f64>,
    /// Until when each place adds; empty where it has one port, or nothing to add.
    adders: Vec<f64>,
    /// Whether somebody asks for the times.
    pub keeps_times: bool,
    pub times: Times,
}

impl<'a> Engine<'a> {
    pub fn new(costs: &'a Costs) -> Self {
        Self {
            costs,
            queues: Vec::new(),
            later: BinaryHeap::new(),
            through: BinaryHeap::new(),
            candidates: BinaryHeap::new(),
            freed: Vec::new(),
            least: Vec::new(),
            adders: Vec::new(),
            keeps_times: false,
            times: Vec::new(),
        }
    }

    /// Runs all jobs under whatever the machine's ports do.
    pub fn play(&mut self, jobs: &mut Jobs, release: impl Fn(u32, u32) -> f64) -> f64 {
        if !self.costs.shares() {
            return self.run(jobs, &mut Fixed::default(), release);
        }
        let mut fluid = Fluid::new(self.costs);
        let makespan = self.run(jobs, &mut fluid, release);
        if self.keeps_times {
            fluid.ends_into(&mut self.times);
        }
        makespan
    }

    /// Runs all jobs; those that wait for nothing may start at the time that `release` gives.
    /// Returns when the last ends.
    pub fn run(
        &mut self,
        jobs: &mut Jobs,
        clock: &mut impl Clock,
        release: impl Fn(u32, u32) -> f64,
    ) -> f64 {
        self.queues.resize_with(jobs.tokens.len(), BinaryHeap::new);
        self.least.clear();
        // Rates that change leave no end to cut through to.
        if self.costs.frame.switches > 0 && !self.costs.shares() {
            self.least.resize(jobs.jobs.len(), 0.0);
        }
        self.adders.clear();
        if self.costs.adds_in_turn() {
            self.adders.resize(self.costs.places(), 0.0);
        }
        self.times.clear();
        if self.keeps_times || !self.least.is_empty() {
            self.times.resize(jobs.jobs.len(), (0.0, 0.0));
        }
        let mut now = 0.0;
        let mut makespan = 0.0_f64;
        for job in 0..jobs.jobs.len() as u32 {
            if jobs.jobs[job as usize].waits == 0 {
                self.ready(jobs, job, now, &release);
            }
        }
        loop {
            self.settle(jobs, clock, now);
            let Some(next) = self.next(clock) else { return makespan };
            now = now.max(next);
            let until = now * (1.0 + SAME);
            while let Some((job, end)) = clock.pop(until) {
                makespan = makespan.max(end);
                self.end(jobs, job);
                if !self.is_cut_through(jobs, job) {
                    self.pass_on(jobs, job, now, &release);
                }
            }
            while let Some(job) = due(&mut self.through, until) {
                self.pass_on(jobs, job, now, &release);
            }
            while let Some(job) = due(&mut self.later, until) {
                self.candidates.push(Reverse((job, NONE)));
            }
        }
    }

    fn next(&self, clock: &mut impl Clock) -> Option<f64> {
        let first = |heap: &BinaryHeap<Reverse<(u64, u32)>>| {
            heap.peek().map(|Reverse((time, _))| f64::from_bits(*time))
        };
        [clock.next(), first(&self.through), first(&self.later)]
            .into_iter()
            .flatten()
            .min_by(f64::total_cmp)
    }

    /// Starts whatever can start now.
    fn settle(&mut self, jobs: &mut Jobs, clock: &mut impl Clock, now: f64) {
        for resource in self.freed.drain(..) {
            if let Some(&Reverse(first)) = self.queues[resource as usize].peek() {
                self.candidates.push(Reverse((first, resource)));
            }
        }
        while let Some(Reverse((job, queue))) = self.candidates.pop() {
            if queue != NONE {
                // Used up again by an earlier job, or looked at already.
                let first = self.queues[queue as usize].peek();
                if jobs.tokens[queue as usize] == 0 || first != Some(&Reverse(job)) {
                    continue;
                }
                self.queues[queue as usize].pop();
            }
            self.try_start(jobs, clock, job, now);
            if queue != NONE && jobs.tokens[queue as usize] > 0 {
                if let Some(&Reverse(next)) = self.queues[queue as usize].peek() {
                    self.candidates.push(Reverse((next, queue)));
                }
            }
        }
    }

    #[inline]
    fn try_start(&mut self, jobs: &mut Jobs, clock: &mut impl Clock, job: u32, now: f64) {
        let needs = jobs.needs_of(job);
        for place in needs.clone() {
            let need = jobs.need(place);
            if jobs.tokens[need as usize] == 0 {
                self.queues[need as usize].push(Reverse(job));
                return;
            }
        }
        for place in needs {
            let need = jobs.need(place);
            take(&mut jobs.tokens[need as usize]);
        }
        let least = self.least.get(job as usize).copied().unwrap_or(0.0);
        let least = least.max(self.added(jobs, job, now));
        let end = clock.start(jobs, job, now, least);
        if let Some(times) = self.times.get_mut(job as usize) {
            *times = (now, end.unwrap_or(now));
        }
        if self.is_cut_through(jobs, job) {
            self.through.push(Reverse((key(now + self.costs.switch.0), job)));
        }
    }

    /// When the receiver will have added what comes, if something else keeps it from adding at
    /// once; with one port nothing does.
    #[inline]
    fn added(&mut self, jobs: &Jobs, job: u32, now: f64) -> f64 {
        if self.adders.is_empty() || self.costs.shares() {
            return 0.0;
        }
        let Terms { latency, moving, adding } = jobs.terms[job as usize];
        if adding == 0.0 {
            return 0.0;
        }
        let adder = &mut self.adders[jobs.jobs[job as usize].to as usize];
        *adder = adder.max(now + latency + moving) + adding;
        *adder
    }

    /// Gives back what a job held.
    #[inline]
    fn end(&mut self, jobs: &mut Jobs, job: u32) {
        for place in jobs.needs_of(job) {
            let need = jobs.need(place);
            give(&mut jobs.tokens[need as usize]);
            if !self.queues[need as usize].is_empty() {
                self.freed.push(need);
            }
        }
    }

    /// Marks what a job wrote as written, and readies those that waited for it.
    #[inline]
    fn pass_on(&mut self, jobs: &mut Jobs, job: u32, now: f64, release: &impl Fn(u32, u32) -> f64) {
        let through = self.is_cut_through(jobs, job);
        for slot in jobs.slots_of(job) {
            jobs.slots[slot].done = true;
            let cell = jobs.slots[slot].cell as usize;
            // Everything up to the first writer that is still at work has been written.
            while let Some(first) = jobs.slots.get(jobs.open[cell] as usize).copied() {
                if !first.done {
                    break;
                }
                jobs.open[cell] = first.next;
                let mut waiting = first.waiting;
                while waiting != NONE {
                    let slot = jobs.slots[waiting as usize];
                    let waiter = slot.job;
                    waiting = slot.also;
                    if through {
                        let least = self.times[first.job as usize].1 + self.costs.switch.0;
                        let entry = &mut self.least[waiter as usize];
                        *entry = entry.max(least);
                    }
                    let waits = &mut jobs.jobs[waiter as usize].waits;
                    *waits -= 1;
                    if *waits == 0 {
                        self.ready(jobs, waiter, now, release);
                    }
                }
            }
        }
    }

    /// A job has what it waits for: it is looked at now, or when its ranks have started.
    #[inline]
    fn ready(&mut self, jobs: &Jobs, job: u32, now: f64, release: &impl Fn(u32, u32) -> f64) {
        let from = release(jobs.jobs[job as usize].from, jobs.jobs[job as usize].to);
        if from > now * (1.0 + SAME) {
            self.later.push(Reverse((key(from), job)));
        } else {
            self.candidates.push(Reverse((job, NONE)));
        }
    }

    /// Whether what a job brings is sent on while it comes in.
    #[inline]
    fn is_cut_through(&self, jobs: &Jobs, job: u32) -> bool {
        !self.least.is_empty() && is_switch(self.costs, jobs.jobs[job as usize].to)
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

/// Takes one; of `u32::MAX` there is no end.
#[inline]
fn take(tokens: &mut u32) {
    if *tokens != u32::MAX {
        *tokens -= 1;
    }
}

#[inline]
fn give(tokens: &mut u32) {
    if *tokens != u32::MAX {
        *tokens += 1;
    }
}

/// The whole schedule at once, in mode `flow` or `local`.
pub(super) fn whole(
    schedule: &dyn Schedule,
    costs: &Costs,
    mode: Mode,
    listener: Option<&mut dyn Listener>,
) -> Result<Outcome> {
    let cells = if mode == Mode::Flow { Cells::Chunks } else { Cells::Places };
    let mut tally = Tally::new(costs.places());
    let mut jobs = all(schedule, costs, cells, &mut tally)?;
    let mut engine = Engine::new(costs);
    engine.keeps_times = listener.is_some();
    let makespan = engine.play(&mut jobs, |from, to| costs.start(from).max(costs.start(to)));
    if let Some(listener) = listener {
        let mut times = engine.times.iter();
        for round in 0..costs.frame.rounds {
            tell(schedule, costs, round, &mut times, listener);
        }
    }
    Ok(tally.finish(costs.frame.ranks as usize, makespan))
}

/// Tells `listener` of the messages of one round, whose times come in schedule order.
pub(super) fn tell<'t>(
    schedule: &dyn Schedule,
    costs: &Costs,
    round: u64,
    times: &mut impl Iterator<Item = &'t (f64, f64)>,
    listener: &mut dyn Listener,
) {
    let mut sends = Sends::default();
    for from in senders(schedule) {
        sends.clear();
        schedule.sends(round, from, &mut sends);
        for transfer in sends.iter() {
            let Some(&(start, end)) = times.next() else { return };
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
            });
        }
    }
}

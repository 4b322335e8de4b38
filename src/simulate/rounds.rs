//! Modes `sync` and `local`: one round at a time, with memory for one round.
//!
//! In both a rank is in one round at a time, so only messages of one round ever meet at its ports.
//! Switches take no part in barriers.

use super::costs::Costs;
use super::greedy::{Engine, Span, tell};
use super::in_order::{Busy, added};
use super::jobs::{Jobs, Message};
use super::tally::Tally;
use super::{Listener, MEMORY, Mode, Outcome, Space};
use crate::error::{Error, Result};
use crate::schedule::{Endpoint, Schedule, Sends, senders};

pub(super) fn run(
    schedule: &dyn Schedule,
    costs: &Costs,
    mode: Mode,
    space: &mut Space,
    mut listener: Option<&mut dyn Listener>,
) -> Result<Outcome> {
    if costs.frame.switches > 0 {
        return through_switches(schedule, costs, mode, space, listener);
    }
    let Space { jobs, buffers, tally, written, .. } = space;
    tally.reset(costs.places());
    jobs.reset(costs, 0);
    written.busy.reset(costs.places(), costs.tiers[0].ports);
    written.adders.clear();
    written.adders.resize(costs.places(), 0.0);
    let mut round = Round {
        costs,
        busy: &mut written.busy,
        adders: &mut written.adders,
        jobs,
        engine: Engine::new(costs, buffers),
        sends: Sends::default(),
        messages: Vec::new(),
        times: Vec::new(),
    };
    // When each place has ended its rounds so far.
    let places = costs.places() as u32;
    let mut free: Vec<f64> = (0..places).map(|place| costs.start(place)).collect();
    let mut makespan = 0.0_f64;
    for number in 0..costs.frame.rounds {
        round.collect(schedule, number, tally)?;
        if round.messages.is_empty() {
            continue;
        }
        round.time(&free);
        for (message, &Span { end, added, .. }) in round.messages.iter().zip(&round.times) {
            makespan = makespan.max(added);
            for (place, until) in [(message.from, end), (message.to, added)] {
                free[place as usize] = free[place as usize].max(until);
            }
        }
        if mode == Mode::Sync {
            // Ranks that start later than the barrier still do.
            free.iter_mut().for_each(|free| *free = free.max(makespan));
        }
        if let Some(listener) = listener.as_deref_mut() {
            tell(schedule, costs, number, &mut round.times.iter(), listener);
        }
    }
    Ok(tally.finish(costs.frame.ranks as usize, makespan))
}

/// The same where switches take part. They keep to no rounds: a switch forwards while it receives.
/// So a round in which one sends belongs to the round before.
fn through_switches(
    schedule: &dyn Schedule,
    costs: &Costs,
    mode: Mode,
    space: &mut Space,
    mut listener: Option<&mut dyn Listener>,
) -> Result<Outcome> {
    let Space { jobs, buffers, tally, .. } = space;
    tally.reset(costs.places());
    let mut free: Vec<f64> = (0..costs.places() as u32).map(|place| costs.start(place)).collect();
    let mut makespan = 0.0_f64;
    let mut first = 0;
    while first < costs.frame.rounds {
        let mut last = first + 1;
        while last < costs.frame.rounds && a_switch_sends(schedule, costs, last) {
            last += 1;
        }
        jobs.fill_rounds(schedule, costs, first..last, tally)?;
        let mut engine = Engine::new(costs, buffers);
        engine.keeps_times = true;
        engine.play(jobs, |from, to| free[from as usize].max(free[to as usize]));
        for (job, &Span { end, added, .. }) in jobs.jobs.iter().zip(&buffers.times) {
            makespan = makespan.max(added);
            for (place, until) in [(job.from, end), (job.to, added)] {
                // Switches are always there.
                if place < costs.frame.ranks {
                    free[place as usize] = free[place as usize].max(until);
                }
            }
        }
        if mode == Mode::Sync {
            free[..costs.frame.ranks as usize]
                .iter_mut()
                .for_each(|free| *free = free.max(makespan));
        }
        if let Some(listener) = listener.as_deref_mut() {
            let mut times = buffers.times.iter();
            for round in first..last {
                tell(schedule, costs, round, &mut times, listener);
            }
        }
        first = last;
    }
    Ok(tally.finish(costs.frame.ranks as usize, makespan))
}

fn a_switch_sends(schedule: &dyn Schedule, costs: &Costs, round: u64) -> bool {
    let mut sends = Sends::default();
    (0..costs.frame.switches).any(|switch| {
        schedule.sends(round, Endpoint::Switch(switch), &mut sends);
        !sends.is_empty()
    })
}

/// The messages of one round and their times, in schedule order.
struct Round<'a> {
    costs: &'a Costs,
    busy: &'a mut Busy,
    adders: &'a mut Vec<f64>,
    jobs: &'a mut Jobs,
    engine: Engine<'a>,
    sends: Sends,
    messages: Vec<Message>,
    times: Vec<Span>,
}

impl Round<'_> {
    fn collect(&mut self, schedule: &dyn Schedule, round: u64, tally: &mut Tally) -> Result<()> {
        self.messages.clear();
        for from in senders(schedule) {
            self.sends.clear();
            schedule.sends(round, from, &mut self.sends);
            for transfer in self.sends.iter() {
                let message = self.costs.message(from, transfer)?;
                tally.add(round, message.from, message.to, message.bytes);
                self.messages.push(message);
            }
            if self.messages.len() as u64 * PER_MESSAGE > MEMORY {
                return Err(Error::input(format!(
                    "round {round} has more messages than {} MiB hold",
                    MEMORY >> 20
                ))
                .mend("ask for fewer ranks"));
            }
        }
        Ok(())
    }

    /// Times the messages; a place takes part from the time in `free` on.
    fn time(&mut self, free: &[f64]) {
        if !self.costs.is_plain() || self.costs.shares() || !self.in_order(free) {
            self.event_by_event(free);
        }
    }

    /// One behind the other, as long as none would have found a gap.
    fn in_order(&mut self, free: &[f64]) -> bool {
        self.times.clear();
        for message in &self.messages {
            let &Message { from, to, .. } = message;
            let ready = free[from as usize].max(free[to as usize]);
            let duration = self.costs.duration(message);
            let Some(start) = self.busy.place(from, to, ready, duration) else {
                self.busy.clear();
                return false;
            };
            let end = start + duration;
            let added = added(self.costs, message, end, &mut self.adders[to as usize]);
            self.times.push(Span { start, end, added });
        }
        true
    }

    fn event_by_event(&mut self, free: &[f64]) {
        self.jobs.clear();
        for &message in &self.messages {
            self.jobs.open(self.costs, message);
            self.jobs.close();
        }
        let release = |from: u32, to: u32| free[from as usize].max(free[to as usize]);
        self.engine.keeps_times = true;
        self.engine.play(self.jobs, release);
        self.times.clone_from(&self.engine.buffers.times);
    }
}

/// The bytes that a message of a round takes while the round is timed, at most.
const PER_MESSAGE: u64 = 256;

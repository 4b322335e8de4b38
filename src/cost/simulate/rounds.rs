//! Modes `sync` and `local`: one round at a time, with memory for one round.
//!
//! In both modes a rank is in one round at a time, so only messages of one round ever compete for
//! its ports. Switches take no part in barriers.

use super::cells::Cells;
use super::costs::Costs;
use super::greedy::{Buffers, Engine, Span, tell};
use super::in_order::{Busy, Written, added};
use super::jobs::{Jobs, Message};
use super::tally::Tally;
use super::{Listener, MEMORY, Mode, Outcome, Space};
use crate::base::error::{Error, Result};
use crate::model::schedule::{Endpoint, Schedule, Sends, each_message};

pub(super) fn run(
    schedule: &dyn Schedule,
    costs: &Costs,
    mode: Mode,
    space: &mut Space,
    mut listener: Option<&mut dyn Listener>,
) -> Result<Outcome> {
    if costs.frame.switches != 0 {
        return through_switches(schedule, costs, mode, space, listener);
    }
    let Space { jobs, buffers, tally, written } = space;
    tally.reset(costs.places());
    let mut round = Round::new(costs, jobs, buffers, written);
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
            // Ranks that start later than the barrier still start then.
            free.iter_mut().for_each(|free| *free = free.max(makespan));
        }
        if let Some(listener) = listener.as_deref_mut() {
            tell(schedule, costs, number, &mut round.times.iter(), listener);
        }
    }
    Ok(tally.finish(costs.frame.ranks as usize, makespan))
}

/// The same with switches. They do not keep to rounds: a switch forwards while it receives. So a
/// round in which a switch sends belongs to the previous round.
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
    let cells = Cells::of(schedule, costs)?;
    let mut rounds = (0..costs.frame.rounds).peekable();
    let mut engine = Engine::new(costs, buffers);
    engine.keeps_times = true;
    while let Some(first) = rounds.next() {
        let mut last = first;
        while let Some(next) = rounds.next_if(|&next| a_switch_sends(schedule, costs, next)) {
            last = next;
        }
        jobs.fill(schedule, costs, (Some(&cells), first..last + 1), tally)?;
        engine.play(jobs, |place| free[place as usize]);
        for (job, &Span { end, added, .. }) in jobs.jobs.iter().zip(&engine.buffers.times) {
            makespan = makespan.max(added);
            for (place, until) in [(job.from, end), (job.to, added)] {
                // Switches are always available.
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
            let mut times = engine.buffers.times.iter();
            for round in first..=last {
                tell(schedule, costs, round, &mut times, listener);
            }
        }
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

impl<'a> Round<'a> {
    fn new(
        costs: &'a Costs,
        jobs: &'a mut Jobs,
        buffers: &'a mut Buffers,
        Written { busy, adders, .. }: &'a mut Written,
    ) -> Self {
        jobs.reset(costs, 0);
        busy.reset(costs.places(), costs.tiers[0].ports);
        adders.clear();
        adders.resize(costs.places(), 0.0);
        let engine = Engine::new(costs, buffers);
        let (sends, messages, times) = (Sends::default(), Vec::new(), Vec::new());
        Self { costs, busy, adders, jobs, engine, sends, messages, times }
    }

    fn collect(&mut self, schedule: &dyn Schedule, round: u64, tally: &mut Tally) -> Result<()> {
        self.messages.clear();
        let Self { costs, sends, messages, .. } = self;
        each_message(schedule, round, sends, |from, transfer| {
            let message = costs.message(from, transfer)?;
            tally.add(round, message.from, message.to, message.bytes);
            messages.push(message);
            check_messages(round, messages.len() as u64)
        })
    }

    /// Times the messages; a place takes part from the time in `free` on.
    fn time(&mut self, free: &[f64]) {
        if !self.costs.is_plain() || self.costs.shares() || !self.in_order(free) {
            self.event_by_event(free);
        }
    }

    /// One after the other, as long as none would have found a gap.
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
        self.engine.keeps_times = true;
        self.engine.play(self.jobs, |place| free[place as usize]);
        self.times.clone_from(&self.engine.buffers.times);
    }
}

/// The most bytes that a message of a round takes while the round is timed.
const PER_MESSAGE: u64 = 256;

/// Refuses a round of more messages than memory holds.
fn check_messages(round: u64, messages: u64) -> Result<()> {
    if messages * PER_MESSAGE <= MEMORY {
        return Ok(());
    }
    let held = MEMORY >> 20;
    Err(Error::input(format!("round {round} has more messages than {held} MiB hold"))
        .help("use fewer ranks"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Collective;
    use crate::base::quantity::{Bandwidth, Seconds, Volume};
    use crate::cost::simulate::Setup;
    use crate::machine::fabric::Fabric;
    use crate::model::schedule::{Frame, List, Op, Run};

    #[test]
    fn a_round_has_as_many_messages_as_memory_holds() {
        assert!(check_messages(0, 1 << 22).is_ok());
        let error = check_messages(7, (1 << 22) + 1).unwrap_err().to_string();
        assert!(error.contains("round 7 has more messages than 1024 MiB hold"), "{error}");
        assert!(check_messages(0, 1 << 23).is_err());
    }

    #[test]
    fn a_round_is_in_order_where_no_message_finds_a_gap() {
        // 3 → 2 could begin before 0 → 2, which waits for 0 → 1.
        let table: [(&[(u32, u32)], bool); 4] = [
            (&[(0, 1), (2, 3)], true),
            (&[(0, 1), (0, 2)], true),
            (&[(0, 1), (2, 1)], true),
            (&[(0, 1), (0, 2), (3, 2)], false),
        ];
        for (messages, expected) in table {
            let mut list = List::new(Frame::new(Collective::Broadcast, 4, 1, 1));
            for &(from, to) in messages {
                let [from, to] = [from, to].map(Endpoint::Rank);
                list.push(0, from, to, Op::Copy, &[Run::one(0)]);
            }
            let fabric = Fabric::flat(Seconds(1.0), Bandwidth(1.0));
            let costs = Costs::new(&list, &fabric, &Setup::new(Volume(1.0))).unwrap();
            let Space { mut jobs, mut buffers, mut written, mut tally } = Space::default();
            tally.reset(costs.places());
            let mut round = Round::new(&costs, &mut jobs, &mut buffers, &mut written);
            round.collect(&list, 0, &mut tally).unwrap();
            assert_eq!(round.in_order(&[0.0; 4]), expected, "{messages:?}");
        }
    }
}

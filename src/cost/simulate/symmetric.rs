//! Every rank does the same as rank 0: one rank is simulated, and represents all.
//!
//! With equal links and no trouble all ranks are always at the same point. A message that rank 0
//! gets from d ranks before it arrives when its own message to d ranks after it is sent. A chunk
//! that it sends arrives, from the receiver's view, under the number that it has there.

use super::costs::Costs;
use super::greedy::Engine;
use super::in_order::{Written, added};
use super::jobs::{FREE, Message, check_memory};
use super::{Mode, Outcome, Space};
use crate::base::error::Result;
use crate::model::formula::Ports;
use crate::model::schedule::{Endpoint, Schedule, Sends, Transfer};

pub(super) fn run(
    schedule: &dyn Schedule,
    costs: &Costs,
    mode: Mode,
    space: &mut Space,
) -> Result<Outcome> {
    if mode != Mode::Flow {
        return rounds(schedule, costs, space);
    }
    match in_order(schedule, costs, space)? {
        Some(outcome) => Ok(outcome),
        None => event_by_event(schedule, costs, space),
    }
}

/// Calls `each` with every message of rank 0 in `round`.
fn messages(
    schedule: &dyn Schedule,
    costs: &Costs,
    round: u64,
    sends: &mut Sends,
    mut each: impl FnMut(Message, Transfer<'_>),
) -> Result<()> {
    sends.clear();
    schedule.sends(round, Endpoint::Rank(0), sends);
    for transfer in sends.iter() {
        each(costs.message(Endpoint::Rank(0), transfer)?, transfer);
    }
    Ok(())
}

/// Rounds one after the other; within a round, as many messages at once as there are ports.
fn rounds(schedule: &dyn Schedule, costs: &Costs, space: &mut Space) -> Result<Outcome> {
    let Space { jobs, buffers, tally, .. } = space;
    let mut sends = Sends::default();
    tally.reset(costs.places());
    jobs.reset(costs, 0);
    let mut engine = Engine::new(costs, buffers);
    let mut found: Vec<Message> = Vec::new();
    let mut now = 0.0;
    for round in 0..costs.frame.rounds {
        found.clear();
        messages(schedule, costs, round, &mut sends, |message, _| {
            tally.add(round, 0, message.to, message.bytes);
            found.push(message);
        })?;
        now += match found.as_slice() {
            [] => 0.0,
            [only] => costs.duration(only) + costs.adding(only),
            several => {
                jobs.clear();
                for message in several {
                    let needs = [1, FREE, jobs.link(0, message.to), FREE, FREE];
                    // A message to another rank arrives, from yet another, at rank 0.
                    jobs.open_needing(costs, Message { to: 0, ..*message }, needs);
                    jobs.close();
                }
                engine.play(jobs, |_| 0.0)
            }
        };
    }
    Ok(tally.turned(costs.frame.ranks, now))
}

/// One port, in schedule order, if no message would have found a gap before; see `in_order`.
pub(super) fn in_order(
    schedule: &dyn Schedule,
    costs: &Costs,
    space: &mut Space,
) -> Result<Option<Outcome>> {
    let Space { tally, written: Written { busy, .. }, .. } = space;
    if !matches!(costs.tiers[0].ports, Ports::Full(k) if k.get() == 1) {
        return Ok(None);
    }
    let (frame, n) = (costs.frame, costs.frame.ranks);
    check_memory(f64::from(frame.chunks()) * 8.0, costs)?;
    tally.reset(costs.places());
    let mut written = vec![0.0_f64; frame.chunks() as usize];
    // The data copied last to each chunk: the operand of the next addition.
    let mut copied = vec![0.0_f64; if costs.adds() { written.len() } else { 0 }];
    let mut arriving: Vec<(u32, f64, bool)> = Vec::new();
    let mut sends = Sends::default();
    // It receives when it sends: its two ports have always been busy at the same times.
    busy.reset(1, Ports::ONE);
    let (mut adder, mut makespan) = (0.0_f64, 0.0_f64);
    let mut in_order = true;
    for round in 0..frame.rounds {
        messages(schedule, costs, round, &mut sends, |message, transfer| {
            let chunks = || transfer.runs.iter().flat_map(|run| run.chunks());
            let ready = chunks().map(|c| written[c as usize]).fold(0.0, f64::max);
            let duration = costs.duration(&message);
            let Some(start) = busy.place(0, 0, ready, duration) else {
                in_order = false;
                return;
            };
            let (back, end) = (n - message.to, start + duration);
            let is_copy = costs.adding(&message) == 0.0;
            let operand = |c: u32| copied.get(frame.turned(c, back) as usize).copied();
            // Others may be added while this one waits for its operand.
            in_order &= is_copy || chunks().filter_map(operand).all(|operand| operand <= end);
            let added = added(costs, &message, end, &mut adder);
            makespan = makespan.max(added);
            arriving.extend(chunks().map(|c| (frame.turned(c, back), added, is_copy)));
            tally.add(round, 0, message.to, message.bytes);
        })?;
        if !in_order {
            return Ok(None);
        }
        for (chunk, end, is_copy) in arriving.drain(..) {
            let cell = &mut written[chunk as usize];
            *cell = cell.max(end);
            if let Some(copied) = copied.get_mut(chunk as usize).filter(|_| is_copy) {
                *copied = end;
            }
        }
    }
    Ok(Some(tally.turned(n, makespan)))
}

pub(super) fn event_by_event(
    schedule: &dyn Schedule,
    costs: &Costs,
    space: &mut Space,
) -> Result<Outcome> {
    let (frame, n) = (costs.frame, costs.frame.ranks);
    let Space { jobs, buffers, tally, .. } = space;
    let mut sends = Sends::default();
    check_memory(f64::from(frame.chunks()) * 8.0, costs)?;
    tally.reset(costs.places());
    jobs.reset(costs, frame.chunks() as usize);
    for round in 0..frame.rounds {
        messages(schedule, costs, round, &mut sends, |message, transfer| {
            let chunks = || transfer.runs.iter().flat_map(|run| run.chunks());
            let back = n - message.to;
            let needs = [1, FREE, jobs.link(0, message.to), FREE, FREE];
            tally.add(round, 0, message.to, message.bytes);
            let message = Message { to: 0, ..message };
            jobs.open_needing(costs, message, needs);
            chunks().for_each(|chunk| jobs.touch(chunk, frame.turned(chunk, back)));
            jobs.close();
        })?;
        jobs.end_round();
        check_memory(jobs.memory() as f64, costs)?;
    }
    let mut engine = Engine::new(costs, buffers);
    let makespan = engine.play(jobs, |_| 0.0);
    Ok(tally.turned(n, makespan))
}

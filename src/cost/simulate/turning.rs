//! In schedule order where every rank sends what rank 0 sends, shifted or mirrored by its number.
//!
//! The same as `in_order`, whose checks it shares, for ranks that start apart or are slow: rank 0 is
//! asked for its messages, and one loop over ranks times each. A chunk has a row of times, one for
//! each rank, under the number that it has from the rank's view; so a message reads and writes rows
//! from end to end.

use super::costs::Costs;
use super::in_order::{Written, added};
use super::jobs::Message;
use super::{MEMORY, Outcome, Space};
use crate::base::error::Result;
use crate::base::quantity::Volume;
use crate::model::schedule::{Endpoint, Op, Schedule, Sends};

/// A message of rank 0, and of every other.
struct Alike {
    /// The receiver of the message of rank 0.
    to: u32,
    bytes: f64,
    op: Op,
    /// Its part of the chunks of the round.
    chunks: (usize, usize),
}

/// All messages in schedule order; none if one would have found a gap before, or memory is short.
pub(super) fn pass(
    schedule: &dyn Schedule,
    costs: &Costs,
    space: &mut Space,
) -> Result<Option<Outcome>> {
    let (frame, n) = (costs.frame, costs.frame.ranks);
    let ranks = n as usize;
    let Space { written: Written { busy, adders, cells: written, copied, .. }, tally, .. } = space;
    let cells = ranks * frame.chunks() as usize;
    if cells as u64 > MEMORY / if costs.adds() { 16 } else { 8 } {
        return Ok(None);
    }
    adders.clear();
    adders.resize(ranks, 0.0);
    busy.reset(ranks, costs.tiers[0].ports);
    written.clear();
    written.resize(cells, 0.0);
    copied.clear();
    copied.resize(if costs.adds() { cells } else { 0 }, 0.0);
    tally.reset(costs.places());
    let starts: Vec<f64> = (0..n).map(|rank| costs.start(rank)).collect();
    let (mut sends, mut last) = (Sends::default(), Default::default());
    let mut alike: Vec<Alike> = Vec::new();
    // The chunks of the round's messages at the sender and at the receiver.
    let mut chunks: Vec<(usize, usize)> = Vec::new();
    // When the data of each message of each rank had been added.
    let mut came: Vec<f64> = Vec::new();
    let mut makespan = 0.0_f64;
    for round in 0..frame.rounds {
        sends.clear();
        schedule.sends(round, Endpoint::Rank(0), &mut sends);
        alike.clear();
        chunks.clear();
        for transfer in sends.iter() {
            let Message { to, bytes, op, .. } = costs.message(Endpoint::Rank(0), transfer)?;
            let first = chunks.len();
            let all = transfer.runs.iter().flat_map(|run| run.chunks());
            let seen = |c: u32| if frame.turns { frame.turned(c, n - to) } else { c };
            chunks.extend(all.map(|c| (c as usize, seen(c) as usize)));
            alike.push(Alike { to, bytes, op, chunks: (first, chunks.len()) });
            tally.add(round, 0, to, bytes);
        }
        came.clear();
        came.resize(ranks * alike.len(), 0.0);
        for turn in 0..n {
            let from = if frame.last_first { n - 1 - turn } else { turn };
            for (message, came) in alike.iter().zip(came.chunks_exact_mut(ranks)) {
                let &Alike { to, bytes, op, chunks: (first, end) } = message;
                let to = match frame.turns {
                    true if from < n - to => from + to,
                    true => from - (n - to),
                    false => from ^ to,
                };
                let mut ready = starts[from as usize].max(starts[to as usize]);
                for &(chunk, _) in &chunks[first..end] {
                    ready = ready.max(written[chunk * ranks + from as usize]);
                }
                let message = Message { from, to, bytes, op };
                let duration = costs.duration_after(&message, &mut last);
                let Some(start) = busy.place(from, to, ready, duration) else { return Ok(None) };
                let end_of = start + duration;
                let mut done = end_of;
                if !copied.is_empty() && costs.adding(&message) > 0.0 {
                    let operands = chunks[first..end].iter();
                    let mut operands =
                        operands.map(|&(_, chunk)| copied[chunk * ranks + to as usize]);
                    // Others may be added while this one waits for its operand.
                    if operands.any(|operand| operand > end_of) {
                        return Ok(None);
                    }
                    done = added(costs, &message, end_of, &mut adders[to as usize]);
                }
                makespan = makespan.max(done);
                came[to as usize] = done;
            }
        }
        for (message, came) in alike.iter().zip(came.chunks_exact(ranks)) {
            for &(_, chunk) in &chunks[message.chunks.0..message.chunks.1] {
                let row = chunk * ranks..(chunk + 1) * ranks;
                for (time, &came) in written[row.clone()].iter_mut().zip(came) {
                    *time = time.max(came);
                }
                let &Alike { to, bytes, op, .. } = message;
                let copies = || costs.adding(&Message { from: 0, to, bytes, op }) == 0.0;
                if !copied.is_empty() && copies() {
                    copied[row].copy_from_slice(came);
                }
            }
        }
    }
    let outcome = tally.turned(n, makespan);
    // Added up as elsewhere, to the last bit.
    let total = std::iter::repeat_n(outcome.max_sent.0, ranks).sum();
    Ok(Some(Outcome { total: Volume(total), ..outcome }))
}

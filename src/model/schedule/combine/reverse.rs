//! A schedule reversed in time.

use crate::base::collective::Collective::{
    self, AllGather, Broadcast, Gather, Reduce, ReduceScatter, Scatter,
};
use crate::model::schedule::{Endpoint, Frame, Layout, List, Op, Run, Schedule, Sends, modulo};

/// `schedule` reversed: the last round first, every message from its receiver to its sender.
///
/// A broadcast becomes a reduce, an all-gather a reduce-scatter, a scatter a gather, and vice
/// versa: copied data are added, added data are copied. Each is the reversal of the other if every
/// rank gets every chunk once. Other collectives are their own reversal.
pub fn reverse<S: Schedule + 'static>(schedule: S) -> Box<dyn Schedule> {
    if schedule.frame().turns { Box::new(Turning(schedule)) } else { Box::new(listed(&schedule)) }
}

/// The reversal of `collective`.
fn opposite(collective: Collective) -> Collective {
    match collective {
        Broadcast => Reduce,
        Reduce => Broadcast,
        AllGather => ReduceScatter,
        ReduceScatter => AllGather,
        Scatter => Gather,
        Gather => Scatter,
        other => other,
    }
}

/// The operation at the other end, where sums become copies and copies sums.
fn opposite_op(op: Op, collective: Collective) -> Op {
    match (op, collective) {
        // These only move data, in both directions.
        (op, Scatter | Gather | Collective::AllToAll | Collective::SendRecv) => op,
        (Op::Copy, _) => Op::Reduce,
        (Op::Reduce, _) => Op::Copy,
        (Op::Or, _) => Op::Or,
    }
}

fn frame_of(schedule: &dyn Schedule) -> Frame {
    let frame = schedule.frame();
    Frame { collective: opposite(frame.collective), own: None, ..frame }
}

/// The reversal of a schedule in which all ranks do the same: the senders to rank 0 follow from its
/// sends.
struct Turning<S>(S);

impl<S: Schedule> Schedule for Turning<S> {
    fn frame(&self) -> Frame {
        frame_of(&self.0)
    }

    fn owner(&self, chunk: u32) -> u32 {
        self.0.owner(chunk)
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        let frame = self.0.frame();
        let n = frame.ranks;
        let mut first = Sends::default();
        self.0.sends(frame.rounds - 1 - round, Endpoint::Rank(0), &mut first);
        // Far receivers of the original are near ones of the reversal.
        let messages: Vec<_> = first.iter().collect();
        for message in messages.into_iter().rev() {
            let Endpoint::Rank(offset) = message.to else { continue };
            let by = modulo(u64::from(rank) + u64::from(n - offset), n);
            let op = opposite_op(message.op, frame.collective);
            let to = Endpoint::Rank(by);
            let turned = |chunk| frame.turned(chunk, by);
            match frame.layout {
                Layout::Shared => {
                    let whole = |run: &Run| Run::around(turned(run.start), run.len, frame.parts);
                    out.push(to, op, message.runs.iter().flat_map(whole));
                }
                // Here a run may end in the vector of another rank.
                Layout::Owned => {
                    let chunks = message.runs.iter().flat_map(|run| run.chunks());
                    out.push(to, op, chunks.map(|chunk| Run::one(turned(chunk))));
                }
            }
        }
    }
}

/// The reversal of any schedule, as a list.
fn listed(schedule: &dyn Schedule) -> List {
    let frame = frame_of(schedule);
    let mut list = List::new(frame).owned_as(schedule);
    let original = List::of(schedule);
    for message in original.iter() {
        let op = opposite_op(message.op, schedule.collective());
        list.push(frame.rounds - 1 - message.round, message.to, message.from, op, message.runs);
    }
    list.sort()
}

//! Two concurrent schedules, each on its half of the vector.

use crate::model::schedule::{Endpoint, Frame, Run, Schedule, Sends};

/// Round r of both halves together: the double binary tree, or a ring in both directions.
///
/// Chunks 0 … parts − 1 belong to the first half, the others to the second. In a round the first
/// half goes first.
#[derive(Debug, Clone)]
pub struct Beside<A, B> {
    first: A,
    second: B,
    /// The number of rounds by which the second half starts later.
    delay: u64,
}

impl<A: Schedule, B: Schedule> Beside<A, B> {
    /// Two schedules of one collective with the same ranks and the same number of parts; the
    /// second starts `delay` rounds later.
    pub fn new(first: A, second: B, delay: u64) -> Self {
        debug_assert_eq!(first.collective(), second.collective());
        debug_assert_eq!(first.ranks(), second.ranks());
        debug_assert_eq!(first.parts(), second.parts());
        Self { first, second, delay }
    }
}

impl<A: Schedule, B: Schedule> Schedule for Beside<A, B> {
    fn frame(&self) -> Frame {
        let (first, second) = (self.first.frame(), self.second.frame());
        Frame {
            parts: 2 * first.parts,
            rounds: first.rounds.max(second.rounds + self.delay),
            switches: first.switches.max(second.switches),
            turns: false,
            mirrors: false,
            keeps_order: first.keeps_order && second.keeps_order,
            own: None,
            ..first
        }
    }

    fn owner(&self, chunk: u32) -> u32 {
        match chunk.checked_sub(self.first.chunks()) {
            None => self.first.owner(chunk),
            Some(chunk) => self.second.owner(chunk),
        }
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        if round < self.first.rounds() {
            self.first.sends(round, from, out);
        }
        let Some(round) = round.checked_sub(self.delay) else { return };
        if round < self.second.rounds() {
            let mut second = Sends::default();
            self.second.sends(round, from, &mut second);
            let offset = self.first.chunks();
            for message in second.iter() {
                let runs = message.runs.iter();
                let runs = runs.map(|run| Run { start: run.start + offset, ..*run });
                out.push(message.to, message.op, runs);
            }
        }
    }
}

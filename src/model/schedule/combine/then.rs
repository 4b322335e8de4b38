//! One schedule after the other.

use crate::base::collective::Collective;
use crate::model::schedule::{Endpoint, Frame, Schedule, Sends};

/// All rounds of one schedule, then all of another over the same ranks and chunks: an all-reduce
/// from a reduce-scatter and an all-gather, or from a reduce and a broadcast.
#[derive(Debug, Clone)]
pub struct Then<A, B> {
    collective: Collective,
    first: A,
    second: B,
}

impl<A: Schedule, B: Schedule> Then<A, B> {
    /// `collective` as `first`, then `second`. Both have the same ranks and chunks, and `second`
    /// must start with the result of `first`, which [`verify`](crate::model::schedule::verify())
    /// checks.
    pub fn new(collective: Collective, first: A, second: B) -> Self {
        debug_assert_eq!(first.ranks(), second.ranks());
        debug_assert_eq!(first.chunks(), second.chunks());
        Self { collective, first, second }
    }
}

impl<A: Schedule, B: Schedule> Schedule for Then<A, B> {
    fn frame(&self) -> Frame {
        let (first, second) = (self.first.frame(), self.second.frame());
        Frame {
            collective: self.collective,
            switches: first.switches.max(second.switches),
            rounds: first.rounds + second.rounds,
            last_first: first.last_first && second.last_first,
            turns: first.turns && second.turns,
            mirrors: first.mirrors && second.mirrors,
            // A second part that only moves data keeps the order of the first.
            keeps_order: first.keeps_order && (second.keeps_order || !second.collective.reduces()),
            own: None,
            ..first
        }
    }

    fn owner(&self, chunk: u32) -> u32 {
        // The result of a scatter, and the start of an all-gather.
        if self.collective == self.second.collective() {
            self.second.owner(chunk)
        } else {
            self.first.owner(chunk)
        }
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        match round.checked_sub(self.first.rounds()) {
            None => self.first.sends(round, from, out),
            Some(round) => self.second.sends(round, from, out),
        }
    }
}

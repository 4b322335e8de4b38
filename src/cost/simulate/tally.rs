//! The result of a simulation, counted message by message.

use crate::base::quantity::{Seconds, Volume};

/// The result of a simulation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// When the last message ended; 0 if there is none.
    pub makespan: Seconds,
    /// The amount that the busiest rank sends.
    pub max_sent: Volume,
    /// The amount that the busiest rank receives.
    pub max_received: Volume,
    /// The amount that all ranks and switches send together.
    pub total: Volume,
    /// Messages in all.
    pub messages: u64,
    /// Messages that the busiest rank sends.
    pub max_messages: u64,
    /// Rounds in which some rank or switch sends.
    pub rounds: u64,
}

/// Bytes and messages so far.
#[derive(Default)]
pub(super) struct Tally {
    places: Vec<Place>,
    rounds: u64,
    /// The round, plus one, in which the last message was.
    last: u64,
}

/// The amounts that one place has sent and received.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    sent: f64,
    received: f64,
    messages: u64,
}

impl Tally {
    /// Resets the counts, for this many places.
    pub fn reset(&mut self, places: usize) {
        self.places.clear();
        self.places.resize(places, Place::default());
        (self.rounds, self.last) = (0, 0);
    }

    /// Counts one message between places.
    #[inline]
    pub fn add(&mut self, round: u64, from: u32, to: u32, bytes: f64) {
        let sender = &mut self.places[from as usize];
        sender.sent += bytes;
        sender.messages += 1;
        self.places[to as usize].received += bytes;
        if self.last != round + 1 {
            self.last = round + 1;
            self.rounds += 1;
        }
    }

    /// The totals of `ranks` ranks, for a run of length `makespan`.
    pub fn finish(&self, ranks: usize, makespan: f64) -> Outcome {
        let most = |bytes: fn(&Place) -> f64| {
            Volume(self.places[..ranks].iter().map(bytes).fold(0.0, f64::max))
        };
        Outcome {
            makespan: Seconds(makespan),
            max_sent: most(|place| place.sent),
            max_received: most(|place| place.received),
            total: Volume(self.places.iter().map(|place| place.sent).sum()),
            messages: self.places.iter().map(|place| place.messages).sum(),
            max_messages: self.places[..ranks].iter().map(|p| p.messages).max().unwrap_or(0),
            rounds: self.rounds,
        }
    }

    /// The totals of `ranks` ranks that all do what rank 0 did.
    pub fn turned(&self, ranks: u32, makespan: f64) -> Outcome {
        let one = self.finish(1, makespan);
        Outcome {
            // The amount sent to another rank is received by that rank, which is alike.
            max_received: one.max_sent,
            total: Volume(one.total.0 * f64::from(ranks)),
            messages: one.messages * u64::from(ranks),
            ..one
        }
    }
}

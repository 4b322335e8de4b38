//! What a simulation ends with, counted message by message.

use crate::quantity::{Seconds, Volume};

/// What a simulation ends with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// When the last message ended; 0 where there is none.
    pub makespan: Seconds,
    /// What the busiest rank sends.
    pub max_sent: Volume,
    /// What the busiest rank receives.
    pub max_received: Volume,
    /// What all ranks and switches send together.
    pub total: Volume,
    /// Messages in all.
    pub messages: u64,
    /// Messages that the busiest rank sends.
    pub max_messages: u64,
    /// Rounds in which somebody sends.
    pub rounds: u64,
}

/// Bytes and messages so far.
#[derive(Default)]
pub(super) struct Tally {
    sent: Vec<f64>,
    received: Vec<f64>,
    messages: Vec<u64>,
    rounds: u64,
    /// The round, plus one, in which the last message was.
    last: u64,
}

impl Tally {
    /// Nothing yet, for so many places.
    pub fn reset(&mut self, places: usize) {
        for bytes in [&mut self.sent, &mut self.received] {
            bytes.clear();
            bytes.resize(places, 0.0);
        }
        self.messages.clear();
        self.messages.resize(places, 0);
        (self.rounds, self.last) = (0, 0);
    }

    /// Counts one message between places.
    #[inline]
    pub fn add(&mut self, round: u64, from: u32, to: u32, bytes: f64) {
        self.sent[from as usize] += bytes;
        self.received[to as usize] += bytes;
        self.messages[from as usize] += 1;
        if self.last != round + 1 {
            self.last = round + 1;
            self.rounds += 1;
        }
    }

    /// What `ranks` ranks did, `makespan` long.
    pub fn finish(&self, ranks: usize, makespan: f64) -> Outcome {
        let most = |bytes: &[f64]| Volume(bytes[..ranks].iter().copied().fold(0.0, f64::max));
        Outcome {
            makespan: Seconds(makespan),
            max_sent: most(&self.sent),
            max_received: most(&self.received),
            total: Volume(self.sent.iter().sum()),
            messages: self.messages.iter().sum(),
            max_messages: self.messages[..ranks].iter().copied().max().unwrap_or(0),
            rounds: self.rounds,
        }
    }

    /// What `ranks` ranks did that all do what rank 0 did.
    pub fn turned(&self, ranks: u32, makespan: f64) -> Outcome {
        let one = self.finish(1, makespan);
        Outcome {
            // What one sends another that is like it receives.
            max_received: one.max_sent,
            total: Volume(one.total.0 * f64::from(ranks)),
            messages: one.messages * u64::from(ranks),
            ..one
        }
    }
}

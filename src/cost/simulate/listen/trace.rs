//! Every message with its times.

use crate::base::quantity::{Seconds, Volume};
use crate::cost::simulate::{Listener, Timed};
use crate::model::schedule::{Endpoint, Op, Run};

/// The bytes that a [`Trace`] takes for a message of one run of chunks.
pub const MESSAGE: u64 = size_of::<(Kept, Run)>() as u64;

/// Keeps every message.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    messages: Vec<Kept>,
    runs: Vec<Run>,
}

#[derive(Debug, Clone, Copy)]
struct Kept {
    round: u64,
    from: Endpoint,
    to: Endpoint,
    op: Op,
    bytes: Volume,
    tier: Option<usize>,
    start: Seconds,
    end: Seconds,
    added: Seconds,
    /// Where the runs end; they begin where those of the message before end.
    runs: usize,
}

impl Trace {
    /// The messages, in schedule order.
    pub fn iter(&self) -> impl Iterator<Item = Timed<'_>> {
        (0..self.len()).map(|i| self.at(i))
    }

    /// The message at `index` in schedule order, which is less than [`Self::len`].
    pub(super) fn at(&self, index: usize) -> Timed<'_> {
        let Kept { round, from, to, op, bytes, tier, start, end, added, runs } =
            self.messages[index];
        let first = index.checked_sub(1).map_or(0, |before| self.messages[before].runs);
        let runs = &self.runs[first..runs];
        Timed { round, from, to, op, runs, bytes, tier, start, end, added }
    }

    /// How many messages there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }
}

impl Listener for Trace {
    fn message(&mut self, message: &Timed<'_>) {
        let &Timed { round, from, to, op, runs, bytes, tier, start, end, added } = message;
        self.runs.extend_from_slice(runs);
        let runs = self.runs.len();
        self.messages.push(Kept { round, from, to, op, bytes, tier, start, end, added, runs });
    }
}

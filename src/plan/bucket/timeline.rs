//! The calls of buckets during a backward pass.
//!
//! ```text
//! backward   ░░░░░░░░░░░░░░░░░░░░░░░░│
//! bucket 1        ████               │
//! bucket 2               ████████    │
//! bucket 3                       ████████   exposed: what sticks out
//! ```

use super::Bucket;
use crate::base::quantity::Seconds;

/// One bucket's call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Event {
    /// When its last gradient is ready.
    pub ready: Seconds,
    /// When it starts: calls run one after another.
    pub start: Seconds,
    /// When it ends.
    pub end: Seconds,
}

/// All calls.
#[derive(Debug, Clone, PartialEq)]
pub struct Timeline {
    /// One per bucket.
    pub events: Vec<Event>,
    /// The time of all calls.
    pub calls: Seconds,
    /// Their part after the end of the backward pass.
    pub exposed: Seconds,
}

/// Simulates the calls. Gradients become ready evenly over `backward`, in the order of the buckets.
/// A bucket that is ready waits for the one before it.
#[must_use]
pub fn timeline(
    buckets: &[Bucket],
    backward: Seconds,
    time: impl Fn(&Bucket) -> Seconds,
) -> Timeline {
    let mut events = Vec::with_capacity(buckets.len());
    let (mut free, mut calls) = (0.0_f64, 0.0);
    for bucket in buckets {
        let took = time(bucket).0;
        let ready = (backward * bucket.ready).0;
        let start = ready.max(free);
        free = start + took;
        calls += took;
        events.push(Event { ready: Seconds(ready), start: Seconds(start), end: Seconds(free) });
    }
    let exposed = Seconds((free - backward.0).max(0.0));
    Timeline { events, calls: Seconds(calls), exposed }
}

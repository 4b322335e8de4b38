//! Measured times as input to the fit.

use std::collections::BTreeMap;

use super::Placed;
use crate::base::quantity::{Bytes, Seconds};
use crate::base::stats::median;

/// A time that was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// On how many ranks and nodes.
    pub placed: Placed,
    /// M.
    pub size: Bytes,
    /// The time; the median if it was measured more than once.
    pub time: Seconds,
}

/// The median of each number of ranks and size, in order.
#[must_use]
pub fn observations(all: impl IntoIterator<Item = Observation>) -> Vec<Observation> {
    let mut times: BTreeMap<(Placed, Bytes), Vec<f64>> = BTreeMap::new();
    for o in all {
        times.entry((o.placed, o.size)).or_default().push(o.time.0);
    }
    times
        .into_iter()
        .filter_map(|((placed, size), times)| {
            median(times).map(|time| Observation { placed, size, time: Seconds(time) })
        })
        .collect()
}

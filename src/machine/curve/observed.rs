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

/// Repeated runs of one machine differ by less; it is the slowdown that a healthy verdict rules out.
const REPEATED: f64 = 1.5;

/// The most sizes that a note names.
const NAMED: usize = 3;

/// A note if times of the same number of ranks and size contradict each other, so that their median is the
/// time of neither.
#[must_use]
pub fn contradiction(all: &[Observation]) -> Option<String> {
    let mut ends: BTreeMap<(Placed, Bytes), (f64, f64)> = BTreeMap::new();
    for o in all {
        let (least, most) = ends.entry((o.placed, o.size)).or_insert((o.time.0, o.time.0));
        (*least, *most) = (least.min(o.time.0), most.max(o.time.0));
    }
    let apart: Vec<String> = ends
        .into_iter()
        .filter(|(_, (least, most))| *most > REPEATED * least)
        .map(|((placed, size), (least, most))| {
            let (least, most) = (Seconds(least), Seconds(most));
            format!("{size} on {} ranks took {least} and {most}", placed.ranks)
        })
        .collect();
    let more = match apart.len().saturating_sub(NAMED) {
        0 => String::new(),
        1 => "; one more size differs as much".to_owned(),
        n => format!("; {n} more sizes differ as much"),
    };
    let named = apart.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    (!apart.is_empty()).then(|| {
        format!("measured times contradict each other: {named}{more}; their median counts, which is the time of neither")
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn at(size: u64, micros: f64) -> Observation {
        let placed = Placed { ranks: 8, nodes: 1 };
        Observation { placed, size: Bytes(size), time: Seconds(micros * 1e-6) }
    }

    #[test]
    fn times_that_contradict_each_other_are_named() {
        let alike = [at(1024, 10.0), at(1024, 14.0), at(2048, 30.0)];
        assert_eq!(contradiction(&alike), None);
        let apart: Vec<Observation> =
            (0..5).flat_map(|k| [at(1 << (20 + k), 117.0), at(1 << (20 + k), 572.0)]).collect();
        let note = contradiction(&apart).unwrap();
        assert!(note.contains("1 MiB on 8 ranks took 117 µs and 572 µs"), "{note}");
        assert!(note.contains("2 more sizes"), "{note}");
    }
}

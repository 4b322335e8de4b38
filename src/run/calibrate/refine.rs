//! Inserts sizes between those whose times are not linear in the size.
//!
//! As SKaMPI does (Reussner et al., "SKaMPI: a detailed, accurate MPI benchmark", 1998): if the
//! time of a size is not on the line between its neighbours, the range needs a closer look.

use crate::base::order::falling;
use crate::base::quantity::{Bytes, Ratio, Seconds};

/// How far a time may deviate from the line between its neighbours.
const OFF: f64 = 0.05;
/// The most sizes inserted per operation.
const MOST: usize = 8;

/// A size with its time, and the precision of the time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    pub(super) size: Bytes,
    pub(super) time: Seconds,
    pub(super) precision: Ratio,
}

/// The sizes to insert between `known`, which ascend; the worst places first.
pub(super) fn between(known: &[Known]) -> Vec<Bytes> {
    let mut places: Vec<(f64, usize)> = Vec::new();
    for (i, three) in known.windows(3).enumerate() {
        let [a, b, c] = three else { continue };
        let part = (b.size.0 - a.size.0) as f64 / (c.size.0 - a.size.0).max(1) as f64;
        let line = a.time.0 + part * (c.time.0 - a.time.0);
        let off = (line / b.time.0 - 1.0).abs();
        // Deviations within the noise mean nothing.
        if off > OFF + a.precision.0.max(b.precision.0).max(c.precision.0) {
            places.push((off, i));
            places.push((off, i + 1));
        }
    }
    falling(&mut places, |a| a.0);
    let mut sizes: Vec<Bytes> = Vec::new();
    for (_, i) in places {
        let (low, high) = (known[i].size.0 as f64, known[i + 1].size.0 as f64);
        // A whole number of f32, so it can be added.
        let size = Bytes((low * high).sqrt() as u64 / 4 * 4);
        let new = size > known[i].size && size < known[i + 1].size && !sizes.contains(&size);
        if new && sizes.len() < MOST {
            sizes.push(size);
        }
    }
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(time: impl Fn(f64) -> f64, noise: f64) -> Vec<Known> {
        let at = |k: u32| {
            let size = Bytes(1 << k);
            Known { size, time: Seconds(time(size.0 as f64)), precision: Ratio(noise) }
        };
        (3..20).map(at).collect()
    }

    #[test]
    fn a_line_needs_nothing_between() {
        assert!(between(&known(|m| 1e-5 + m * 1e-9, 0.0)).is_empty());
    }

    #[test]
    fn a_step_is_looked_at_from_both_sides() {
        let stepped = |m: f64| 1e-6 + m * 1e-10 + if m > 5000.0 { 1e-4 } else { 0.0 };
        let sizes = between(&known(stepped, 0.0));
        assert!(sizes.iter().any(|s| (4096..8192).contains(&s.0)), "{sizes:?}");
        assert!(sizes.len() <= MOST && sizes.iter().all(|s| s.0 % 4 == 0));
        assert!(between(&known(stepped, 2.0)).len() < sizes.len());
    }
}

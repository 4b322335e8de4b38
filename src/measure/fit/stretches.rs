//! How much the machine changes while it is measured.
//!
//! If its rate changes by the second or the minute, all points of a stretch of time move together. Draws
//! of points do not show that; comparing stretches does.

use std::collections::BTreeMap;

use super::point::Point;
use crate::base::quantity::Ratio;
use crate::base::stats::{HALF_WIDTH, half_of_mean, median};
use crate::machine::sample::Origin;

/// Blocks are divided into this many stretches, in the order in which they were measured.
pub(super) const STRETCHES: usize = 12;
/// With fewer points, a common change may be chance.
const LEAST_POINTS: usize = 8;
/// Fewer stretches do not show how much another would differ.
const LEAST: usize = 6;

/// Half the 95 % interval, over the value, of a parameter fitted to `points`, from the differences
/// between stretches; 0 if there are too few.
pub(super) fn between<'a>(points: impl Iterator<Item = &'a Point>) -> f64 {
    let mut stretches: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (stretch, part) in points.flat_map(|p| &p.by_stretch) {
        stretches.entry(*stretch).or_default().push(part.0.ln());
    }
    let several = stretches.into_values().filter(|points| points.len() >= LEAST_POINTS);
    let usual: Vec<f64> = several.filter_map(median).collect();
    if usual.len() < LEAST { 0.0 } else { half_of_mean(&usual) }
}

/// Half the 95 % interval, over the value, by which parameters differ between runs on a machine that has
/// not changed, beyond what one run shows: those of starts, and those of bytes. Both are 0 where nothing of
/// the kind was seen.
///
/// A hypervisor may move CPUs, and rates that fall with the size depend on the sizes that there was time
/// for. Over 20 bare runs within an hour in the memory of a virtual machine of two CPUs, α had a standard
/// deviation of 2.5 %; on another one rates had 7.1 % over 8 runs (`docs/background/calibration.md`).
pub(super) fn between_runs(origin: &Origin) -> BetweenRuns {
    let in_memory = origin.is_in_memory();
    let moves = in_memory && origin.is_virtual();
    let starts = if moves { HALF_WIDTH * BETWEEN_STARTS } else { 0.0 };
    let bytes = if in_memory { of_memory(origin) } else { 0.0 };
    BetweenRuns { starts: Ratio(starts), bytes: Ratio(bytes) }
}

/// The same of what ranks do in their own memory, however they send.
pub(super) fn of_memory(origin: &Origin) -> f64 {
    if origin.is_virtual() { HALF_WIDTH * BETWEEN_RATES } else { 0.0 }
}

/// The standard deviation of α between such runs, and that of rates.
const BETWEEN_STARTS: f64 = 0.03;
const BETWEEN_RATES: f64 = 0.07;

/// The part of intervals that no longer measuring narrows: half the 95 % interval, over the value, by which
/// parameters differ between runs on a machine that has not changed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BetweenRuns {
    /// Of α.
    pub starts: Ratio,
    /// Of rates and what bytes take.
    pub bytes: Ratio,
}

/// Half the 95 % interval, over the value, by which the rate of a network differs with the kind of traffic:
/// acknowledgements share the wire, alone or with data that goes the other way.
///
/// Over capped links, what one way and exchanges need on the wire differed by 0.3 % behind large buckets
/// and by 0.7 % behind small ones (`docs/dev/calibration-acceptance.md`).
pub(super) fn of_traffic(origin: &Origin) -> f64 {
    if origin.transport.as_deref() == Some("tcp") { OF_TRAFFIC } else { 0.0 }
}

/// What it was at most.
const OF_TRAFFIC: f64 = 0.007;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::quantity::{Bytes, Seconds};
    use crate::machine::sample::Op;

    /// Ten points, each measured in stretches that took so many times the usual.
    fn points(stretches: &[f64]) -> Vec<Point> {
        let by_stretch: Vec<_> = (0..).zip(stretches.iter().map(|&part| Ratio(part))).collect();
        let point = |k: u32| Point {
            op: Op::Shift,
            ranks: 2,
            size: Bytes(1 << k),
            count: 20,
            blocks: stretches.len(),
            disturbed: 0,
            typical: Seconds(1.0),
            by_stretch: by_stretch.clone(),
            lost: false,
            floor: Seconds(1.0),
            precision: Ratio(0.01),
            spread: None,
            icc: None,
            drift: None,
            waited: None,
        };
        (10..20).map(point).collect()
    }

    #[test]
    fn stretches_that_agree_add_nothing_and_others_do() {
        let between = |stretches: &[f64]| between(points(stretches).iter());
        assert_eq!(between(&[1.0; 8]), 0.0);
        // Few say nothing of another.
        assert_eq!(between(&[1.0, 2.0]), 0.0);
        // ln 1.1, 0 and ln 0.9, twice: a deviation of 0.09 over √6, times 2.6.
        assert!((between(&[1.1, 1.0, 0.9, 1.0, 1.1, 0.9]) - 0.094).abs() < 0.002);
    }

    #[test]
    fn only_memory_under_a_hypervisor_differs_between_runs() {
        let of = |transport: &str, machine: &str| {
            let (transport, machine) = (Some(transport.to_owned()), Some(machine.to_owned()));
            between_runs(&Origin { transport, machine, ..Origin::default() })
        };
        let none = BetweenRuns { starts: Ratio(0.0), bytes: Ratio(0.0) };
        let moved = of("shm", "vm, some CPU, 2 CPUs, Linux 6.1, virtual");
        assert!((moved.starts.0 - 0.0588).abs() < 1e-4 && (moved.bytes.0 - 0.1372).abs() < 1e-4);
        assert_eq!(of("tcp", "vm, some CPU, 2 CPUs, Linux 6.1, virtual"), none);
        let virtual_cpus = Some("vm, 2 CPUs, virtual".to_owned());
        let added = of_memory(&Origin { machine: virtual_cpus, ..Origin::default() });
        assert_eq!((added, of_memory(&Origin::default())), (moved.bytes.0, 0.0));
        assert_eq!(of("shm", "vm, some CPU, 2 CPUs, Linux 6.1"), none);
    }

    #[test]
    fn only_networks_carry_acknowledgements() {
        let of = |transport: &str| {
            of_traffic(&Origin { transport: Some(transport.to_owned()), ..Origin::default() })
        };
        assert_eq!((of("shm"), of("tcp")), (0.0, OF_TRAFFIC));
    }
}

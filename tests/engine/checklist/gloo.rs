//! Gloo's index of algorithms (001).

use std::num::NonZeroU32;

use collcost::Collective;
use collcost::model::algorithm::Registry;
use collcost::model::formula::{At, Dims, Shape};

use super::{ask, both, same};

/// Every algorithm says how many messages follow one another and what a process sends; its steps,
/// message by message, sum to the same.
#[test]
fn row_001_02() {
    for algorithm in Registry::builtin().iter() {
        for &collective in algorithm.meta().collectives {
            let mut found = 0;
            for (sides, group, slices) in
                [([2, 4], 0, 1), ([3, 4], 4, 1), ([3, 3], 0, 1), ([4, 4], 4, 1), ([2, 2], 4, 4)]
            {
                let ranks = sides[0] * sides[1] * slices;
                let mut shape = Shape::new(collective, ranks).with_segments(1);
                shape.group = NonZeroU32::new(group);
                shape.params.rails = NonZeroU32::new(group);
                shape.params.dims = Dims::new(&sides);
                if algorithm.applies(&shape).is_err() {
                    continue;
                }
                found += 1;
                let at = At::numbers(shape);
                let cost = algorithm.price(&at).total();
                let (mut messages, mut data) = (0.0, 0.0);
                algorithm.steps(&shape, &mut |step| {
                    messages += step.count as f64;
                    data += step.count as f64 * step.share.value();
                });
                let name = algorithm.meta().id;
                assert!((messages - cost.alpha - cost.switch).abs() < 1e-9, "{name} {ranks}");
                assert!((data - cost.beta).abs() < 1e-9, "{name} {ranks}");
                let sent = algorithm.sent(&at);
                assert_eq!(sent > 0.0, collective != Collective::Barrier, "{name} {ranks}");
            }
            assert!(found > 0, "{} {collective} was never tried", algorithm.meta().id);
        }
    }
}

/// The ring: N − 1 steps, (N − 1)·M a process; the index prints N·M.
#[test]
fn row_001_04() {
    for n in [2, 3, 8, 13, 64] {
        let others = f64::from(n - 1);
        let ring = ask("allreduce", "gloo_ring", n);
        both(ring.coefficients(), (others, others));
        same(ring.sent(), others);
        same(ring.time(1e6, 5e-6, 10e9), others * (5e-6 + 1e-4));
    }
}

/// The chunked ring: 4(N − 1) messages of M/(2N), twice the ring's α at the same data; the index
/// prints 4N steps and 2M.
#[test]
fn row_001_06() {
    for n in [2, 3, 8, 13, 64] {
        let chunked = ask("allreduce", "gloo_ring_chunked", n);
        let ring = ask("allreduce", "ring", n).coefficients();
        both(chunked.coefficients(), (2.0 * ring.0, ring.1));
        same(chunked.sent(), ring.1);
        chunked.algorithm().steps(&chunked.shape, &mut |step| {
            same(step.share.value(), 0.5 / f64::from(n));
        });
    }
}

/// The barrier where everybody tells everybody: one α only where ports are unbounded.
#[test]
fn row_001_12() {
    for n in [2, 5, 64] {
        let barrier = ask("barrier", "all_to_all", n);
        both(barrier.coefficients(), (f64::from(n - 1), 0.0));
        both(barrier.ports(0).coefficients(), (1.0, 0.0));
        same(barrier.ports(4).coefficients().0, f64::from((n - 1).div_ceil(4)));
    }
}

/// The barrier through the root: there and back.
#[test]
fn row_001_13() {
    for n in [2, 5, 64] {
        let barrier = ask("barrier", "all_to_one", n);
        same(barrier.time(0.0, 5e-6, 1e9), 2.0 * f64::from(n - 1) * 5e-6);
        same(barrier.ports(0).time(0.0, 5e-6, 1e9), 2.0 * 5e-6);
    }
}

/// The flat broadcast: the root sends (N − 1)·M, in one step only where ports are unbounded.
#[test]
fn row_001_14() {
    for n in [2, 5, 64] {
        let flat = ask("broadcast", "broadcast_one_to_all", n);
        let others = f64::from(n - 1);
        same(flat.sent(), others);
        same(flat.time(1e6, 5e-6, 10e9), others * (5e-6 + 1e-4));
        same(flat.ports(0).time(1e6, 5e-6, 10e9), 5e-6 + 1e-4);
    }
}

/// What the index leaves out: bcube, and halving and doubling over blocks of powers of two. The
/// times are an independent simulation's.
#[test]
fn row_001_16() {
    let cube = |b, n| ask("allreduce", "bcube", n).with(|p| p.radix = Some(b));
    same(cube(4, 16).time(1e9, 1e-6, 100e9), 18.762e-3);
    same(cube(8, 64).time(25e6, 1e-6, 100e9), 520.1875e-6);
    same(cube(2, 128).time(268_435_456.0, 1e-6, 100e9), 5.340_766_08e-3);
    let blocks = |n| ask("allreduce", "gloo_hd", n);
    same(blocks(64).time(1000.0, 10e-6, 12.5e9), 120.1575e-6);
    // Other N: an upper bound, within half of what greedy ports make of it.
    for (n, simulated) in [(13, 12.505_139_84e-3), (61, 16.507_785_6e-3)] {
        let time = blocks(n).time(268_435_456.0, 5e-6, 100e9);
        assert!(time > simulated * (1.0 - 1e-9) && time < 1.5 * simulated, "{n}: {time:e}");
    }
}

//! Gloo's index of algorithms (001).

use std::num::NonZeroU32;

use collcost::Collective;
use collcost::base::quantity::{Bandwidth, Seconds, SecondsPerByte, Volume};
use collcost::machine::host::{Host, Pieces};
use collcost::model::algorithm::Registry;
use collcost::model::formula::{At, Dims, Shape};

use super::{ask, both, flat, prints, same};

/// Four buffers a process, added at 100 GB/s, copied at 50 GB/s, staged over PCIe at 25 GB/s.
const PROCESS: Host = Host {
    buffers: 4,
    reduce: Some(SecondsPerByte(10e-12)),
    copy: Some(Bandwidth(50e9)),
    staging: Some(Bandwidth(25e9)),
};

const SIZE: Volume = Volume(4e6);

/// What the ring takes on the wire for 8 processes.
fn wire() -> Seconds {
    ask("allreduce", "gloo_ring", 8).price(&flat(5e-6, 10e9), SIZE.0).total()
}

/// Four buffers add two local phases; the wire does not see them.
#[test]
fn row_001_01() {
    let phases = Host { staging: None, ..PROCESS }.phases(SIZE, wire());
    prints(phases.reduce.0 * 1e6, "120");
    prints(phases.broadcast.0 * 1e6, "240");
    assert_eq!(phases.wire, wire());
    assert_eq!(Host::PLAIN.phases(SIZE, wire()).total(), wire());
}

/// Every algorithm says how many messages follow one another and what a process sends; its steps,
/// message by message, sum to the same.
#[test]
fn row_001_02() {
    for algorithm in Registry::builtin().iter() {
        for &collective in algorithm.meta().collectives {
            let mut found = 0;
            for (sides, group) in [([2, 4], 0), ([3, 4], 4), ([3, 3], 0), ([4, 4], 4)] {
                let ranks = sides[0] * sides[1];
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

/// Three phases: local reduction, between processes, local broadcast.
#[test]
fn row_001_03() {
    let phases = Host { staging: None, ..PROCESS }.phases(SIZE, wire());
    let parts = [phases.reduce, phases.wire, phases.broadcast];
    assert!(parts.iter().all(|p| p.0 > 0.0));
    same(phases.total().0, parts.iter().map(|p| p.0).sum());
    assert_eq!((phases.stage_out, phases.stage_in), (Seconds(0.0), Seconds(0.0)));
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

/// A chunk holds at least 256 elements, 1 KiB of fp32: a short vector is fewer than 2N chunks.
#[test]
fn row_001_09() {
    let chunks = |elements| Pieces::cut(elements, 2 * 8, Pieces::GLOO_LEAST);
    assert_eq!(chunks(100_000), Pieces { each: 6_250, count: 16, last: 6_250 });
    assert_eq!(chunks(1_000), Pieces { each: 256, count: 4, last: 232 });
    assert_eq!(chunks(4_096).count, 16);
    assert_eq!(chunks(4_095), Pieces { each: 256, count: 16, last: 255 });
}

/// A GPU's vector is copied to the host before, and back after: 2·M over PCIe.
#[test]
fn row_001_10() {
    let host = Host { buffers: 1, ..PROCESS };
    let phases = host.phases(SIZE, wire());
    same((phases.total().0 - wire().0) * 1e6, 320.0);
    assert_eq!(phases.stage_out, phases.stage_in);
}

/// Pipelined with the wire, only the slowest part of each chunk counts.
#[test]
fn row_001_11() {
    let phases = PROCESS.phases(SIZE, wire());
    assert!(wire() > phases.stage_out && wire() > phases.broadcast);
    let (once, often) = (phases.overlapped(1).0, phases.overlapped(1 << 20).0);
    same(once, phases.total().0);
    assert!((often - wire().0).abs() < 1e-5 * wire().0);
    // Slower copies than the wire set the pace instead.
    let slow = Host { staging: Some(Bandwidth(1e8)), ..PROCESS }.phases(SIZE, wire());
    assert!((slow.overlapped(1 << 20).0 - 40e-3).abs() < 1e-6);
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

//! The shapes on which the tests try every algorithm. Those inside the crate include this file too.

#![allow(dead_code, reason = "each test that includes this file takes what it needs")]

use std::num::NonZeroU32;

use super::{Algorithm, At, Collective, Cost, Dims, Form, Params, Ports, Ratio, Relay, Shape, Tie};

/// Every way in which ranks talk that the tests know.
pub const PORTS: [Ports; 5] = [
    Ports::ONE,
    Ports::Full(NonZeroU32::new(2).unwrap()),
    Ports::Full(NonZeroU32::new(3).unwrap()),
    Ports::Half(NonZeroU32::MIN),
    Ports::Unbounded,
];

/// The numbers of ranks: all small ones, and some that are no power of two, prime or large.
pub fn ranks() -> impl Iterator<Item = u32> {
    (2..=33).chain([48, 61, 64, 72, 100, 128])
}

/// The segments to try: more than one only where they matter.
pub fn segments(algorithm: &dyn Algorithm) -> &'static [u32] {
    if algorithm.is_pipelined() { &[1, 2, 3, 7] } else { &[1] }
}

/// `n` ranks under one full-duplex port, with every setting of the other parameters that applies
/// and changes what the algorithm costs.
pub fn settings(algorithm: &dyn Algorithm, collective: Collective, n: u32) -> Vec<Shape> {
    let mut kept: Vec<(Shape, Vec<u64>)> = Vec::new();
    for (group, params) in parameters(n) {
        let shape = Shape { group, params, ..Shape::new(collective, n) };
        if algorithm.applies(&shape).is_err() {
            continue;
        }
        let print = fingerprint(algorithm, shape);
        if kept.iter().all(|(_, other)| *other != print) {
            kept.push((shape, print));
        }
    }
    kept.into_iter().map(|(shape, _)| shape).collect()
}

/// All shapes of `n` ranks: the settings under all ports with all numbers of segments.
pub fn shapes(algorithm: &dyn Algorithm, collective: Collective, n: u32) -> Vec<Shape> {
    let mut shapes = Vec::new();
    for shape in settings(algorithm, collective, n) {
        for ports in PORTS {
            for &p in segments(algorithm) {
                let shape = shape.with_ports(ports).with_segments(p);
                if algorithm.applies(&shape).is_ok() {
                    shapes.push(shape);
                }
            }
        }
    }
    shapes
}

/// One parameter at a time, and those together that belong together.
fn parameters(n: u32) -> Vec<(Option<NonZeroU32>, Params)> {
    let whole = NonZeroU32::new;
    let plain = Params::default();
    let mut all = vec![(None, plain)];
    let mut add = |params| all.push((None, params));
    for radix in [2, 3, 4, 8] {
        add(Params { radix: Some(radix), ..plain });
    }
    for most in [1, 4] {
        add(Params { aggregation: whole(most), ..plain });
    }
    for (relay, tie) in
        [(Relay::Aggregated, Tie::Split), (Relay::Chunk, Tie::Right), (Relay::Chunk, Tie::Split)]
    {
        add(Params { relay, tie, ..plain });
    }
    for dims in boxes(n) {
        add(Params { dims: Some(dims), ..plain });
        add(Params { dims: Some(dims), open: [true, false, false, false], ..plain });
    }
    for rails in [2, 4] {
        add(Params { rails: whole(rails), ..plain });
    }
    add(Params { c_real: Some(Ratio(2.25)), ..plain });
    add(Params { switch_hops: Some(3), ..plain });
    add(Params { root_speedup: Some(Ratio(1.5)), ..plain });
    for group in [2, 3, 4, 8].into_iter().filter(|&g| g < n) {
        all.push((whole(group), plain));
        all.push((whole(group), Params { rails: whole(group), ..plain }));
        all.push((whole(group), Params { radix: Some(4), ..plain }));
        // Of unequal sides only the limit is known.
        all.push((whole(group), Params { dims: boxes(group).pop(), ..plain }));
    }
    all
}

/// The tori of `n` ranks: a line, the squarest rectangle both ways round, the most cubic box.
fn boxes(n: u32) -> Vec<Dims> {
    let divisor = |n: u32, root: f64| {
        let most = root.round() as u32;
        (1..=most).rev().find(|&d| n.is_multiple_of(d)).unwrap_or(1)
    };
    let a = divisor(n, f64::from(n).sqrt().floor());
    let third = divisor(n, f64::from(n).cbrt());
    let second = divisor(n / third, f64::from(n / third).sqrt().floor());
    let sides: [&[u32]; 4] = [&[n], &[a, n / a], &[n / a, a], &[third, second, n / third / second]];
    sides.into_iter().filter_map(Dims::new).collect()
}

/// What an algorithm makes of a shape, under two kinds of ports.
fn fingerprint(algorithm: &dyn Algorithm, shape: Shape) -> Vec<u64> {
    let mut print = Vec::new();
    for ports in [Ports::ONE, PORTS[1]] {
        let shape = shape.with_ports(ports).with_segments(1);
        if algorithm.applies(&shape).is_err() {
            continue;
        }
        let at = At::numbers(shape);
        for form in [Form::Exact, Form::Paper, Form::Asymptotic] {
            let cost = algorithm.price_form(&at, form);
            for phase in cost.iter().flat_map(Cost::phases) {
                let numbers = [phase.alpha, phase.beta, phase.gamma, phase.switch];
                print.push(phase.level as u64);
                print.extend(numbers.map(f64::to_bits));
            }
        }
        print.push(algorithm.sent(&at).to_bits());
        algorithm.steps(&shape, &mut |step| {
            print.extend([step.count, step.share.chunks, step.share.of, step.rails.into()]);
            print.extend([step.reduced.chunks, step.reduced.of, step.flows.into()]);
        });
    }
    print
}

//! A fit of recorded points: both statistics, knots, held-out errors, 400 draws each. A curve of as
//! many times of a library: forms, components and bands.
//!
//! `cargo bench --bench fit`.

#[path = "../tests/support/recorded_points.rs"]
mod recorded_points;

use std::hint::black_box;

use collcost::Collective;
use collcost::base::quantity::{Bytes, Seconds};
use collcost::machine::curve::{self, Observation, Placed};
use collcost::machine::sample::Origin;
use collcost::measure::fit::{Asked, fit_points};
use collcost::model::algorithm::Registry;
use criterion::{Criterion, criterion_group, criterion_main};

fn fit(c: &mut Criterion) {
    // The recording over four ranks and a cap of 200 Mbit/s: 126 points.
    let (registry, points) = (Registry::builtin(), recorded_points::points("200mb_n4_q"));
    let origin = Origin { transport: Some("tcp".to_owned()), ..Origin::default() };
    let mut group = c.benchmark_group("fit");
    group.sample_size(10);
    group.bench_function(format!("{} points, 400 draws", points.len()), |b| {
        b.iter(|| fit_points(&registry, black_box(points.clone()), &origin, &Asked::default()));
    });
    let rows = times();
    group.bench_function(format!("a curve of {} times", rows.len()), |b| {
        let asked = curve::Asked::new(Collective::AllReduce, None);
        b.iter(|| curve::fit(black_box(&rows), &asked));
    });
    group.finish();
}

/// 21 sizes on 8 to 256 ranks, with a protocol for small sizes.
fn times() -> Vec<Observation> {
    let at = |nodes: u32, i: u32| {
        let (d, m) = (f64::from(nodes), f64::from(1 << i));
        let small = 9e-6 + 4e-6 * d.log2() + m / 5e9;
        let large = 2e-5 + 5e-6 * (d - 1.0) + m * 2.0 / 40e9;
        Observation {
            placed: Placed { ranks: 8 * nodes, nodes },
            size: Bytes(1 << i),
            time: Seconds(small.min(large)),
        }
    };
    (0..6).flat_map(|d| (9..30).map(move |i| at(1 << d, i))).collect()
}

criterion_group!(benches, fit);
criterion_main!(benches);

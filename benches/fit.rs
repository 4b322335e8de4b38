//! A fit of recorded points: both statistics, knots, held-out errors, 400 draws each.
//!
//! `cargo bench --bench fit`.

#[path = "../tests/support/recorded_points.rs"]
mod recorded_points;

use std::hint::black_box;

use collcost::algorithm::Registry;
use collcost::fit::{Asked, fit_points};
use collcost::sample::Origin;
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
    group.finish();
}

criterion_group!(benches, fit);
criterion_main!(benches);

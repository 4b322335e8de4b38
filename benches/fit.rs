//! A fit of recorded points: both statistics, knots, held-out errors, 400 draws each.
//!
//! `cargo bench --bench fit`.

use std::hint::black_box;

use collcost::algorithm::Registry;
use collcost::fit::{Asked, Point, fit_points};
use collcost::quantity::{Bytes, Ratio, Seconds};
use collcost::sample::Origin;
use criterion::{Criterion, criterion_group, criterion_main};

/// The points of the recording over four ranks and a cap of 200 Mbit/s: 126.
fn points() -> Vec<Point> {
    let text = include_str!("../tests/data/calibration_points.csv");
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
    let rows = reader.records().map(|r| r.expect("a row"));
    rows.filter(|r| &r[0] == "200mb_n4_q")
        .map(|r| {
            let number = |i: usize| r[i].parse::<f64>().expect("a number");
            Point {
                op: r[1].parse().expect("an operation"),
                ranks: number(2) as u32,
                size: Bytes(number(3) as u64),
                count: number(4) as usize,
                blocks: number(5) as usize,
                disturbed: number(6) as usize,
                typical: Seconds(number(7)),
                floor: Seconds(number(8)),
                precision: Ratio(number(9)),
                spread: Some(Ratio(number(10))),
                icc: None,
                drift: None,
                waited: Some(Ratio(number(11))),
            }
        })
        .collect()
}

fn fit(c: &mut Criterion) {
    let (registry, points) = (Registry::builtin(), points());
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

//! What schedules cost: transfers simulated and verified a second, beside a reference in the same
//! run.
//!
//! `cargo bench --bench schedules`; the figures of one machine stand in docs/dev/speed.md. Every rank
//! starts at a time of its own, so that nothing is alike and every transfer is played out.

use std::hint::black_box;

use collcost::Collective::{self, AllReduce};
use collcost::base::quantity::{Bandwidth, Seconds, Volume};
use collcost::cost::simulate::{Mode, Setup, Simulator};
use collcost::machine::fabric::Fabric;
use collcost::model::algorithm::Registry;
use collcost::model::formula::Shape;
use collcost::model::schedule::{Schedule, verify, verify_by_fingerprints};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

fn schedule(collective: Collective, name: &str, ranks: u32) -> Box<dyn Schedule> {
    let algorithm = Registry::builtin().find(collective, name).unwrap().algorithm;
    algorithm.schedule(&Shape::new(collective, ranks)).unwrap()
}

/// Start times up to 16 µs, of no pattern.
fn skew(ranks: u32) -> Vec<Seconds> {
    let mut state = 12345_u64;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Seconds((state >> 40) as f64 * 1e-12)
    };
    (0..ranks).map(|_| next()).collect()
}

fn setup(ranks: u32, mode: Mode) -> Setup {
    let mut setup = Setup::new(Volume(1e6)).in_mode(mode);
    setup.trouble.starts = skew(ranks);
    setup
}

fn simulate(c: &mut Criterion) {
    let fabric = Fabric::flat(Seconds(1e-6), Bandwidth(1e11));
    let mut simulator = Simulator::default();
    let mut group = c.benchmark_group("simulate");
    for (name, ranks, mode) in [
        ("ring", 256, Mode::Flow),
        ("ring", 1024, Mode::Flow),
        ("ring", 1024, Mode::Local),
        ("recursive-doubling", 256, Mode::Flow),
        ("recursive-doubling", 1024, Mode::Flow),
        ("recursive-doubling", 4096, Mode::Flow),
        ("rabenseifner", 256, Mode::Flow),
    ] {
        let schedule = schedule(AllReduce, name, ranks);
        let setup = setup(ranks, mode);
        let messages = simulator.run(&*schedule, &fabric, &setup, None).unwrap().messages;
        group.throughput(Throughput::Elements(messages));
        group.bench_function(BenchmarkId::new(format!("{name} {mode}"), ranks), |b| {
            b.iter(|| simulator.run(black_box(&*schedule), &fabric, &setup, None));
        });
    }
    // The reference: the same ring as one loop over two rows of times.
    let (ranks, duration) = (1024, 1e-6 + 1e6 / 1024.0 / 1e11);
    let starts: Vec<f64> = skew(ranks).iter().map(|start| start.0).collect();
    group.throughput(Throughput::Elements(2 * u64::from(ranks) * u64::from(ranks - 1)));
    group.bench_function("ring by hand", |b| {
        b.iter(|| {
            let n = ranks as usize;
            let (mut ready, mut port) = (starts.clone(), starts.clone());
            let mut next = ready.clone();
            for _ in 0..2 * (n - 1) {
                for i in 0..n {
                    let to = if i + 1 == n { 0 } else { i + 1 };
                    port[i] = ready[i].max(port[i]).max(starts[to]) + duration;
                    next[to] = port[i];
                }
                std::mem::swap(&mut ready, &mut next);
            }
            black_box(ready)
        });
    });
    // Nothing differs: one rank stands for all.
    let ring = schedule(AllReduce, "ring", 1_000_000);
    let alike = Setup::new(Volume(1e9));
    group.throughput(Throughput::Elements(1));
    group.sample_size(10);
    group.bench_function("ring of a million", |b| {
        b.iter(|| simulator.run(black_box(&*ring), &fabric, &alike, None));
    });
    group.finish();
}

fn verification(c: &mut Criterion) {
    let mut group = c.benchmark_group("verify");
    group.sample_size(10);
    let ring = schedule(AllReduce, "ring", 512);
    group.throughput(Throughput::Elements(2 * 512 * 511));
    group.bench_function("ring of 512, sets", |b| b.iter(|| verify(black_box(&*ring))));
    group.bench_function("ring of 512, fingerprints", |b| {
        b.iter(|| verify_by_fingerprints(black_box(&*ring)));
    });
    group.finish();
}

criterion_group!(benches, simulate, verification);
criterion_main!(benches);

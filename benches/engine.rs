//! What the engine costs: one price, a ranking, a batch, beside a reference in the same run.
//!
//! `cargo bench --bench engine`; the figures of one machine stand in docs/dev/speed.md.

use std::hint::black_box;
use std::num::NonZeroU32;

use collcost::Collective;
use collcost::answer::batch::Batch;
use collcost::base::quantity::{Bandwidth, Bytes, Seconds, Volume};
use collcost::cost::price::{OnLinks, Prepared};
use collcost::cost::rank::{candidates, rank};
use collcost::machine::fabric::Fabric;
use collcost::machine::link::Knot;
use collcost::machine::profile::Profile;
use collcost::machine::query::{Given, Layout, Machine, Query};
use collcost::measure::expect::Expecting;
use collcost::model::algorithm::Registry;
use collcost::model::formula::{Params, Shape};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

fn flat() -> Fabric {
    Fabric::flat(Seconds(5e-6), Bandwidth(1e11))
}

/// One prepared closed form: a straight line, and a pipeline whose best P is searched.
fn price(c: &mut Criterion) {
    let registry = Registry::builtin();
    let mut group = c.benchmark_group("price");
    for (collective, name) in [
        (Collective::AllReduce, "ring"),
        (Collective::Broadcast, "chain"),
        (Collective::AllReduce, "double-binary-tree"),
    ] {
        let algorithm = registry.find(collective, name).unwrap().algorithm;
        let prepared = Prepared::new(algorithm, &Shape::new(collective, 64), &flat()).unwrap();
        let mut bytes = 1.0;
        group.bench_function(name, |b| {
            b.iter(|| {
                bytes += 1.0;
                black_box(&prepared).time(black_box(Volume(bytes)))
            });
        });
    }
    // The same messages on a link with knots: nothing is prepared or allocated when it is asked.
    let mut measured = flat();
    let knot = |below, rate| Knot { below: Bytes(below), bandwidth: Some(Bandwidth(rate)) };
    measured.tiers[0].link.knots = vec![knot(4096, 1e10), knot(65_536, 5e10)];
    for (collective, name) in [
        (Collective::AllReduce, "ring"),
        (Collective::Broadcast, "chain"),
        (Collective::AllReduce, "rabenseifner"),
    ] {
        let algorithm = registry.find(collective, name).unwrap().algorithm;
        let links = OnLinks::new(algorithm, &Shape::new(collective, 1024), &measured).unwrap();
        let mut bytes = 1.0;
        group.bench_function(format!("{name} on measured links"), |b| {
            b.iter(|| {
                bytes += 1.0;
                black_box(&links).at(black_box(Volume(bytes)))
            });
        });
    }
    // The reference: the ring's formula written by hand.
    let mut bytes = 1.0;
    group.bench_function("ring by hand", |b| {
        b.iter(|| {
            bytes += 1.0;
            let (n, alpha, rate) = black_box((64.0, 5e-6, 1e11));
            2.0 * (n - 1.0) * alpha + 2.0 * (n - 1.0) / n * black_box(bytes) / rate
        });
    });
    group.finish();
}

/// Every all-reduce algorithm prepared, priced and sorted for one N and M.
fn ranking(c: &mut Criterion) {
    let registry = Registry::builtin();
    let mut group = c.benchmark_group("rank all-reduce");
    let one_tier = flat();
    let mut two_tiers = Profile::builtin("dgx-h100").unwrap().fabric(Collective::AllReduce);
    two_tiers.launch = Seconds(0.0);
    for (name, fabric) in [("one tier", &one_tier), ("two tiers", &two_tiers)] {
        let shape = Shape::new(Collective::AllReduce, 64);
        group.bench_function(format!("{name}, with preparing"), |b| {
            b.iter(|| {
                let (ready, _) = candidates(&registry, black_box(&shape), fabric).unwrap();
                rank(&ready, black_box(Volume(16_777_216.0)))
            });
        });
        let (ready, _) = candidates(&registry, &shape, fabric).unwrap();
        group.bench_function(format!("{name}, prepared"), |b| {
            b.iter(|| rank(black_box(&ready), black_box(Volume(16_777_216.0))));
        });
    }
    group.finish();
}

/// Questions as they come: costs of several algorithms, sizes and rank counts.
fn batch(c: &mut Criterion) {
    let names = ["ring", "tree", "rabenseifner", "recursive_doubling", "naive"];
    let questions: Vec<String> = (0..1000)
        .map(|i| {
            let (name, n, size) = (names[i % names.len()], 1 << (1 + i % 10), 1000 + 977 * i);
            format!(
                r#"{{"id":{i},"kind":"cost","primitive":"allreduce","algorithm":"{name}","n":{n},"size_bytes":{size},"alpha_s":"5e-6","bandwidth_Bps":"1e11","ports":1,"duplex":"full"}}"#
            )
        })
        .collect();
    let mut batch = Batch::default();
    let mut out = Vec::with_capacity(1 << 20);
    let mut group = c.benchmark_group("batch");
    group.throughput(Throughput::Elements(questions.len() as u64));
    group.bench_function("1000 costs", |b| {
        b.iter(|| {
            out.clear();
            for question in &questions {
                batch.answer(black_box(question), &mut out);
            }
            out.len()
        });
    });
    // The reference: the same lines only parsed, by serde_json into its own tree.
    group.bench_function("1000 lines only parsed", |b| {
        b.iter(|| {
            let parsed = questions.iter().map(|q| serde_json::from_str::<serde_json::Value>(q));
            parsed.filter(|v| black_box(v).is_ok()).count()
        });
    });
    group.finish();
}

/// What a call will take, asked of a prepared question: of a machine that others were measured like,
/// over one node and over several, and of a machine of two figures.
fn expectation(c: &mut Criterion) {
    let registry = Registry::builtin();
    let mut group = c.benchmark_group("expectation");
    let mut one = |name: &str, profile: Option<&str>, ranks: u32| {
        let named = profile.map(|p| (Profile::builtin(p).unwrap(), "bench"));
        let (alpha, rate) = (Some(Seconds(5e-6)), Some(Bandwidth(1e11)));
        let given = match profile {
            Some(_) => Given::default(),
            None => Given { alpha, bandwidth: rate, ..Given::default() },
        };
        let machine = Machine::new(named, &given, Collective::AllReduce).unwrap();
        let layout = Layout { ranks: NonZeroU32::new(ranks), ..Layout::default() };
        let size = Bytes(1 << 20);
        let query =
            Query::new(machine, Collective::AllReduce, size, layout, Params::default()).unwrap();
        let expecting = Expecting::new(&registry, &query).unwrap();
        let mut bytes = 1 << 16;
        group.bench_function(name, |b| {
            b.iter(|| {
                bytes += 1;
                black_box(&expecting).at(black_box(Bytes(bytes)))
            });
        });
    };
    one("8 ranks of dgx-h100", Some("dgx-h100"), 8);
    one("64 ranks of dgx-h100", Some("dgx-h100"), 64);
    one("64 ranks of two figures", None, 64);
}

criterion_group!(benches, price, ranking, batch, expectation);
criterion_main!(benches);

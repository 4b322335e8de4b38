//! NCCL's tuner: one decision over all communicators, functions and random sizes, beside a plain
//! transcription of its rules over all 21 cells; a communicator's table; a replay of questions.
//! Decisions are seen where they are made: a copy of what was just written would wait for it.

#![allow(clippy::disallowed_methods, reason = "a benchmark reads its own data")]

#[path = "../tests/support/plain_nccl.rs"]
mod plain_nccl;

use std::collections::HashMap;
use std::hint::black_box;
use std::io::Read;
use std::time::Instant;

use collcost::answer::batch::nccl::Replay;
use collcost::base::quantity::Bytes;
use collcost::library::nccl::comms::{self, Named};
use collcost::library::nccl::{
    Call, Chooser, Communicator, Function, Reduction, Settings, Table, Version,
};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use flate2::read::GzDecoder;

fn communicators() -> Vec<Named> {
    let mut text = String::new();
    let file = include_bytes!("../tests/data/nccl_communicators.csv.gz").as_slice();
    GzDecoder::new(file).read_to_string(&mut text).expect("it is gzip");
    comms::read(&text).expect("they are communicators")
}

/// A communicator in a version, with its table.
struct Ready {
    comm: Communicator,
    version: Version,
    table: Table,
    chooser: Chooser,
}

/// Releases with different rules: the same since the first figures were taken.
fn releases() -> [Version; 4] {
    ["2.18.3", "2.21.5", "2.27.3", "2.30.7"].map(|tag| tag.parse().expect(tag))
}

fn ready(comms: &[Named]) -> Vec<Ready> {
    let all = comms.iter().flat_map(|n| releases().map(|v| (n.comm, v)));
    all.map(|(comm, version)| {
        let table = Table::new(&comm, version, &Settings::default()).expect("no settings");
        let chooser = Chooser::new(&comm, version, &table, Reduction::default());
        Ready { comm, version, table, chooser }
    })
    .collect()
}

/// As many calls as there are communicators in versions, times 16, in random order.
fn calls(ready: &[Ready]) -> Vec<(usize, Call)> {
    let mut state = 7_u64;
    let mut random = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let call = |_| {
        let function = Function::ALL[(random() % 5) as usize];
        let size = Bytes((1 + random()) << (random() % 8) >> (random() % 28));
        ((random() % ready.len() as u64) as usize, Call { function, size, pipelined: 1 })
    };
    (0..16 * ready.len()).map(call).collect()
}

fn decisions(c: &mut Criterion) {
    let comms = communicators();
    let ready = ready(&comms);
    let calls = calls(&ready);
    let mut group = c.benchmark_group("nccl");
    group.throughput(Throughput::Elements(calls.len() as u64));
    group.bench_function("decide", |b| {
        b.iter(|| {
            for (of, call) in &calls {
                black_box(&ready[*of].chooser.decide(call));
            }
        });
    });
    group.bench_function("decide, all cells plainly", |b| {
        b.iter(|| {
            for (of, call) in &calls {
                let Ready { comm, version, table, .. } = &ready[*of];
                black_box(&plain_nccl::choose(
                    comm,
                    *version,
                    table,
                    call.function,
                    call.size.0,
                    call.pipelined,
                ));
            }
        });
    });
    group.throughput(Throughput::Elements(ready.len() as u64));
    let none = Settings::default();
    group.bench_function("table", |b| {
        b.iter(|| {
            for Ready { comm, version, .. } in &ready {
                black_box(Table::new(comm, *version, &none).expect("no settings"));
            }
        });
    });
    group.bench_function("chooser from a table", |b| {
        b.iter(|| {
            for Ready { comm, version, table, .. } in &ready {
                black_box(Chooser::new(comm, *version, table, Reduction::default()));
            }
        });
    });
    group.finish();
    ratio(&ready, &calls);
}

/// Both ways in turns in one run, since machines are noisy: the least of 40 rounds each, over all
/// communicators in random order, which waits for memory, and over one, which is in the cache.
fn ratio(ready: &[Ready], calls: &[(usize, Call)]) {
    let of_one: Vec<(usize, Call)> =
        calls.iter().map(|&(_, call)| (ready.len() / 2, call)).collect();
    for (what, calls) in [("all communicators", calls), ("one communicator", &of_one)] {
        let (mut fast, mut plain) = (f64::MAX, f64::MAX);
        for _ in 0..40 {
            let start = Instant::now();
            for (of, call) in calls {
                black_box(&ready[*of].chooser.decide(call));
            }
            fast = fast.min(start.elapsed().as_secs_f64());
            let start = Instant::now();
            for (of, call) in calls {
                let Ready { comm, version, table, .. } = &ready[*of];
                let size = call.size.0;
                black_box(&plain_nccl::choose(comm, *version, table, call.function, size, 1));
            }
            plain = plain.min(start.elapsed().as_secs_f64());
        }
        let each = |time: f64| time / calls.len() as f64 * 1e9;
        println!(
            "a decision, {what}: {:.1} ns, plainly over 21 cells {:.1} ns, ratio {:.2}",
            each(fast),
            each(plain),
            fast / plain
        );
    }
}

fn replay(c: &mut Criterion) {
    const LINES: usize = 1_400_000;
    let comms = communicators();
    let envs = HashMap::new();
    let mut questions = String::from("id,version,env,pipeops,collective,nbytes\n");
    let each = LINES / comms.len() / 4;
    for Named { id, .. } in &comms {
        for version in releases() {
            for i in 0..each {
                let function = Function::ALL[i * 5 / each];
                questions += &format!("{id},{version},,1,{function},{}\n", 8_u64 << (i % 31));
            }
        }
    }
    let mut group = c.benchmark_group("nccl");
    group.sample_size(10).throughput(Throughput::Elements(LINES as u64));
    group.bench_function("replay 1.4 million questions", |b| {
        b.iter(|| {
            let mut answers = Vec::with_capacity(100 << 20);
            let mut replay = Replay::new(&comms, &envs);
            replay.answer(questions.as_bytes(), &mut answers).expect("all are questions");
            black_box(answers)
        });
    });
    group.finish();
}

criterion_group!(benches, decisions, replay);
criterion_main!(benches);

//! How fast logs are read: generated text of each format, in bytes a second.
//!
//! `cargo bench --bench import`.

use std::fmt::Write;
use std::hint::black_box;

use collcost::measure::logs::{Asked, look};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

/// A text of about this many bytes.
const BYTES: usize = 8 << 20;

fn microseconds(size: u64) -> f64 {
    12.0 + size as f64 / 110e3
}

/// nccl-tests' table again and again, with `noise` after every row.
fn nccl_tests(noise: &str) -> String {
    let mut text = String::new();
    while text.len() < BYTES {
        text.push_str("# Collective test starting: all_reduce_perf\n");
        text.push_str("# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0\n# Using devices\n");
        for rank in 0..8 {
            let _ = writeln!(
                text,
                "#  Rank {rank:2} Group  0 Pid {rank:6} on      node1 device {rank:2} [0000:0{rank}:00] X"
            );
        }
        text.push_str("#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n");
        for power in 3..31 {
            let size = 1_u64 << power;
            let time = microseconds(size);
            let algbw = size as f64 / time / 1e3;
            let place = format!("{time:9.2}  {algbw:6.2}  {:6.2}      0", algbw * 1.75);
            let _ = writeln!(
                text,
                "{size:12}  {:12}     float     sum      -1{place}{place}",
                size / 4
            );
            text.push_str(noise);
        }
        text.push_str("# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 52.9\n");
    }
    text
}

fn osu() -> String {
    let mut text = "mpirun -np 64 ./osu_allreduce -f\n".to_owned();
    while text.len() < BYTES {
        text.push_str("\n# OSU MPI-CUDA Allreduce Latency Test v7.5\n# Datatype: MPI_FLOAT.\n");
        text.push_str(
            "# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations\n",
        );
        for power in 2..25 {
            let size = 1_u64 << power;
            let time = microseconds(size);
            let _ = writeln!(text, "{size:<23}{time:10.2}{time:18.2}{time:18.2}        1000");
        }
    }
    text
}

fn imb() -> String {
    let mut text = String::new();
    while text.len() < BYTES {
        text.push_str("# Benchmarking Allreduce\n# #processes = 64\n");
        text.push_str("       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]\n");
        for power in 2..23 {
            let size = 1_u64 << power;
            let time = microseconds(size);
            let _ = writeln!(text, "{size:13}         1000{time:13.2}{time:13.2}{time:13.2}");
        }
    }
    text
}

fn import(c: &mut Criterion) {
    let info =
        "node1:4000:4007 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read and more\n";
    let other =
        "[1622510346.876958] [g0185:144167:0] ucp_context.c:1437 UCX  WARN  UCP version is 1.7\n";
    let mut group = c.benchmark_group("import");
    group.sample_size(10);
    for (name, text) in [
        ("nccl-tests", nccl_tests("")),
        ("nccl-tests among NCCL INFO", nccl_tests(info)),
        ("nccl-tests among warnings", nccl_tests(other)),
        ("osu", osu()),
        ("imb", imb()),
        ("no log", other.repeat(BYTES / other.len())),
    ] {
        let log = look(text.as_bytes(), "x.log", &Asked::default());
        assert_eq!(log.is_ok(), name != "no log");
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(name, |b| {
            b.iter(|| look(black_box(text.as_bytes()), "x.log", &Asked::default()));
        });
    }
    group.finish();
}

criterion_group!(benches, import);
criterion_main!(benches);

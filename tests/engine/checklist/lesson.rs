//! The interactive lesson (004).

use serde_json::json;

use collcost::Collective::{self, AllReduce};
use collcost::answer::notes::heard;
use collcost::base::quantity::Bytes;
use collcost::cost::bound::least_share;
use collcost::cost::price::uses;
use collcost::machine::fabric::Fabric;
use collcost::model::algorithm::Registry;
use collcost::model::formula::{At, Shape};
use collcost::model::schedule::{Endpoint, Sends};
use collcost::plan::bucket::{Limit, Rule};
use collcost::plan::table::{BuiltIn, Machines};
use collcost::plan::{Asked, calls, load};

use super::{Ask, ask, batch, both, number, prints, same, two_tiers};

/// 7 billion parameters in two bytes each, over 64 nodes of 8.
const SIZE: f64 = 14e9;

fn ar(name: &str, n: u32) -> Ask {
    ask("allreduce", name, n)
}

fn cluster() -> Fabric {
    two_tiers(8, (1e-6, 900e9), (1e-6, 100e9))
}

/// Through the root: a leaf moves 2·S, the root (N − 1)·S each way, not N·S.
#[test]
fn row_004_05() {
    for n in [2, 8, 64] {
        let naive = ar("naive", n);
        same(naive.sent(), f64::from(n - 1));
        both(naive.coefficients(), (2.0 * f64::from(n - 1), 2.0 * f64::from(n - 1)));
        // One exchange with the root is a leaf's whole part: S up, S down.
        both(naive.ports(0).coefficients(), (2.0, 2.0));
    }
}

/// At step t rank i sends chunk i − t, and ends the reduce-scatter with chunk i + 1.
#[test]
fn row_004_06() {
    for n in [2, 4, 7] {
        let ring = ar("ring", n);
        let schedule = ring.algorithm().schedule(&ring.shape).unwrap();
        let chunk = |round: u32, rank: u32| {
            let mut sends = Sends::default();
            schedule.sends(round.into(), Endpoint::Rank(rank), &mut sends);
            let message = sends.iter().next().unwrap();
            assert_eq!(message.to, Endpoint::Rank((rank + 1) % n));
            message.runs[0].start
        };
        for rank in 0..n {
            for t in 0..n - 1 {
                assert_eq!(chunk(t, rank), (rank + n - t) % n);
                // What arrives is what the left neighbour sends.
                assert_eq!(chunk(t, (rank + n - 1) % n), (rank + 2 * n - t - 1) % n);
            }
            // The all-gather starts with the chunk that is complete.
            assert_eq!(chunk(n - 1, rank), (rank + 1) % n);
        }
    }
}

/// Bytes a rank: 2(N − 1)·S/N, 1.99222·S for 257.
#[test]
fn row_004_07() {
    prints(ar("ring", 257).sent(), "1.99222");
}

/// A 257th GPU adds next to nothing to what each sends.
#[test]
fn row_004_08() {
    let sent = |n| ar("ring", n).sent();
    assert!(sent(257) / sent(256) - 1.0 < 2e-5);
    assert!((2..2048).all(|n| sent(n) < sent(n + 1) && sent(n) < 2.0));
}

/// At least 2(N − 1)/N·S a rank on average: the ring meets it, tree and naive leaves do without.
#[test]
fn row_004_09() {
    for n in [4, 8, 64] {
        let least = least_share(AllReduce, n, false).0;
        same(ar("ring", n).sent(), least);
        assert!(ar("naive", n).sent() > least);
        // N − 1 leaves send S, the root (N − 1)·S: together as much as N times the bound.
        same((f64::from(n - 1) + ar("naive", n).sent()) / f64::from(n), least);
    }
}

/// Time is α·messages + β·bytes, for every all-reduce, message by message.
#[test]
fn row_004_11() {
    let (alpha, rate, size) = (5e-6, 50e9, 1e7);
    for algorithm in Registry::builtin().of(AllReduce) {
        for n in [6, 8, 64] {
            let shape = Shape::new(AllReduce, n).with_segments(3);
            let hops = algorithm.applies(&shape).map(|()| algorithm.price(&At::numbers(shape)));
            if !hops.is_ok_and(|cost| cost.total().switch == 0.0) {
                continue;
            }
            let mut sum = 0.0;
            algorithm.steps(&shape, &mut |s| {
                sum += s.count as f64 * (alpha + s.share.value() * size / rate);
            });
            let ask = Ask { shape, ..ar(algorithm.meta().id, n) };
            same(ask.time(size, alpha, rate), sum);
        }
    }
}

/// The ring over 512 ranks and 14 GB: 280.475 ms at 100 GB/s, twice that at the text's 50.
#[test]
fn row_004_12() {
    let time = |rate| ar("ring", 512).time(SIZE, 1e-6, rate) * 1e3;
    prints(time(100e9), "280.475");
    prints(time(50e9), "559.9");
}

/// Reduce to a leader, all-reduce of the leaders, broadcast: not the same as two rings.
#[test]
fn row_004_16() {
    let leader = ar("leader", 512).group(8);
    let price = leader.price(&cluster(), SIZE);
    prints(price.total().0 * 1e3, "369.1");
    both(leader.coefficients(), (6.0 + 126.0, 6.0 + 2.0 * 63.0 / 64.0));
    let asked = json!({"kind": "hierarchical", "algorithm": "leader", "gpus_per_node": 8,
        "nodes": 64, "size_bytes": SIZE, "alpha_intra_s": 1e-6, "bw_intra_Bps": 900e9,
        "alpha_inter_s": 1e-6, "bw_inter_Bps": 100e9});
    same(number(&batch(asked), "time_s"), price.total().0);
    let grid = |inside, outside| {
        let fabric = two_tiers(8, (0.0, inside), (0.0, outside));
        ar("2d-ring", 512).price(&fabric, SIZE).bandwidth.0 * 1e3
    };
    prints(grid(900e9, 100e9), "61.7");
    prints(grid(600e9, 100e9), "75.3");
    prints(grid(1800e9, 50e9), "82.5");
}

/// Between nodes, leaders carry 1.014 times less than the flat ring, not 8 times; per GPU the 2D
/// ring does carry 8 times less.
#[test]
fn row_004_17() {
    let between = |name| {
        let ask = ar(name, 512);
        uses(ask.algorithm(), &ask.shape, &cluster()).unwrap()[1].share.0
    };
    prints(between("leader"), "1.96875");
    prints(between("ring"), "1.99609");
    prints(between("ring") / between("leader"), "1.014");
    same(between("leader") / between("2d-ring"), 8.0);
}

/// An all-reduce is a reduce-scatter and an all-gather: ZeRO-1 moves as much, FSDP an all-gather more.
#[test]
fn row_004_04() {
    let moved = |shard: &str| -> f64 {
        let keys = [("shard".to_owned(), shard.to_owned())];
        let steps = load(&Machines::new(&BuiltIn), &Asked::Preset("fsdp-7b"), &keys).unwrap();
        let factor = |c: Collective| if c == AllReduce { 2.0 } else { 1.0 };
        calls(&steps[0]).iter().map(|c| c.size.0 * c.count.0 * factor(c.collective)).sum()
    };
    same(moved("zero1"), moved("none"));
    same(moved("fsdp"), 1.5 * moved("none"));
}

/// Both terms of the ring are equal at N·α·BW: 32 MB for 64 ranks, 5 µs and 100 GB/s.
#[test]
fn row_004_13() {
    let price = ar("ring", 64).price(&super::flat(5e-6, 100e9), 32e6);
    same(price.latency.0, price.bandwidth.0);
}

/// DDP's bucket of 25 MiB is just below that.
#[test]
fn row_004_14() {
    let Limit::Bytes(cap) = Rule::named("ddp").unwrap().cap else { panic!("it is in bytes") };
    let price = ar("ring", 64).price(&super::flat(5e-6, 100e9), cap.0 as f64);
    assert!(cap == Bytes(26_214_400) && price.latency > price.bandwidth);
}

/// DDP and TP sum, FSDP gathers and scatters, experts exchange, stages send.
#[test]
fn row_004_20() {
    let of = |preset: &str| -> Vec<&str> {
        let steps = load(&Machines::new(&BuiltIn), &Asked::Preset(preset), &[]).unwrap();
        let mut seen: Vec<&str> = calls(&steps[0]).iter().map(|c| c.collective.id()).collect();
        seen.dedup();
        seen
    };
    assert_eq!(of("ddp-7b"), ["allreduce"]);
    assert_eq!(of("fsdp-7b"), ["allgather", "reducescatter"]);
    assert_eq!(of("decode-70b-tp8"), ["allreduce"]);
    assert_eq!(of("deepep-ep64"), ["alltoall"]);
    assert_eq!(of("megatron-gpt3-175b"), ["allreduce", "sendrecv", "allreduce"]);
}

/// The vocabulary check: six sentences and what is meant.
#[test]
fn row_004_24() {
    for (sentence, meant) in [
        ("All gradients are summed across ranks", "allreduce"),
        ("Reconstruct the full weight from shards", "allgather"),
        ("Sum the grads, but only keep your slice", "reducescatter"),
        ("Each token goes to its expert", "alltoall"),
        ("Activation crosses a pipeline stage", "sendrecv"),
        ("Broadcast the initial weights", "broadcast"),
    ] {
        assert_eq!(heard(sentence).map(Collective::id), Some(meant), "{sentence}");
    }
    assert_eq!(heard("what is this"), None);
}

/// 7 billion parameters in bf16 have gradients of 14 GB.
#[test]
fn row_004_26() {
    assert_eq!("7B@bf16".parse(), Ok(Bytes(14_000_000_000)));
}

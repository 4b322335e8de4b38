//! The chapter on rings and trees (000).

use std::num::NonZeroU32;

use serde_json::json;

use collcost::Collective::AllReduce;
use collcost::base::quantity::{Bytes, Volume};
use collcost::cost::bound::{least_messages, least_share};
use collcost::cost::crossover::crossover;
use collcost::cost::price::{Use, uses};
use collcost::library::{Call, Site, policy};
use collcost::machine::fabric::Fabric;
use collcost::machine::sample::DataType;
use collcost::model::algorithm::{Named, Registry, Route, Share, Step};
use collcost::model::formula::{Form, Ports, Shape};
use collcost::plan::bucket::{Gradients, Limit, Rule, pack};

use super::{Ask, ask, batch, both, flip, number, prints, same, two_tiers};

const GB: f64 = 1e9;

/// The machine of exercise 3: 8 GPUs a node, 600 GB/s and 1 µs inside, 100 GB/s and 5 µs outside.
fn cluster() -> Fabric {
    two_tiers(8, (1e-6, 600e9), (5e-6, 100e9))
}

fn ring(ranks: u32) -> Ask {
    ask("allreduce", "ring", ranks)
}

fn tree(ranks: u32) -> Ask {
    ask("allreduce", "tree", ranks)
}

fn steps(ask: Ask) -> Vec<Step> {
    let mut steps = Vec::new();
    ask.algorithm().steps(&ask.shape, &mut |step| steps.push(step));
    steps
}

/// What crosses the network of a machine with two tiers.
fn between(ask: Ask, fabric: &Fabric) -> Use {
    uses(ask.algorithm(), &ask.shape, fabric).unwrap()[1]
}

/// Ring and tree are two algorithms of one collective.
#[test]
fn row_000_02() {
    assert_ne!(ring(64).algorithm().meta().id, tree(64).algorithm().meta().id);
    let ids: Vec<_> = Registry::builtin().of(AllReduce).map(|a| a.meta().id).collect();
    assert!(ids.contains(&"ring") && ids.contains(&"tree"));
}

/// A ring step sends and receives M/N: 1 MiB of 64 MiB over 64 ranks.
#[test]
fn row_000_09() {
    let mib = 1_048_576.0;
    for step in steps(ring(64)) {
        assert_eq!(step.share.value() * 64.0 * mib, mib);
        assert_eq!(step.route, Route::Offset(1));
    }
    // What each rank sends to the right is what it receives from the left.
    let count: u64 = steps(ring(64)).iter().map(|s| s.count).sum();
    same(count as f64 / 64.0, ring(64).sent());
}

/// The ring's time: 20.3175 ms.
#[test]
fn row_000_10() {
    prints(ring(64).time(GB, 5e-6, 100e9) * 1e3, "20.3175");
    both(ring(64).coefficients(), (126.0, 1.96875));
}

/// Its form for many ranks, 2N·α + 2·M/BW: 20.64 ms, 1.6 % too much.
#[test]
fn row_000_11() {
    let approximation = ask("allreduce", "ring(asymptotic)", 64);
    both(approximation.coefficients(), (128.0, 2.0));
    let time = approximation.time(GB, 5e-6, 100e9);
    prints(time * 1e3, "20.64");
    prints((time / ring(64).time(GB, 5e-6, 100e9) - 1.0) * 100.0, "1.6");
}

/// The bound 2(N − 1)/N on the busiest rank: the ring meets it, the tree is far off, nobody beats it.
#[test]
fn row_000_12() {
    let least = least_share(AllReduce, 64, false).0;
    same(least, 1.96875);
    same(ring(64).coefficients().1 / least, 1.0);
    prints(tree(64).coefficients().1 / least, "6.095");
    let mut seen = 0;
    for n in [2, 3, 6, 8, 12, 64] {
        for group in [0, 4] {
            for algorithm in Registry::builtin().of(AllReduce) {
                let mut shape = Shape::new(AllReduce, n).with_segments(1);
                shape.group = NonZeroU32::new(group);
                let ask = Ask { named: Named { algorithm, form: Form::Exact }, shape };
                if ask.refusal().is_some() || steps(ask).iter().any(|s| s.route == Route::Switch) {
                    continue;
                }
                seen += 1;
                let least = least_share(AllReduce, n, false).0;
                assert!(ask.sent() >= least - 1e-12, "{} {n}", algorithm.meta().id);
            }
        }
    }
    assert!(seen > 100, "{seen}");
}

/// The printed bidirectional ring needs two ports, odd N and the way round that is shorter.
#[test]
fn row_000_13() {
    let printed = |n| ask("allreduce", "bidir_ring(paper)", n).coefficients();
    let arc = |n| ask("allreduce", "bidir_ring_arc", n).ports(2).coefficients();
    let split = |n| ask("allreduce", "bidir_ring_split", n).ports(2).coefficients();
    for n in 3..=33 {
        let share = f64::from(n - 1) / f64::from(n);
        both(printed(n), (f64::from(n - 1), share));
        both(arc(n), (f64::from(n - n % 2), share));
        both(split(n), (2.0 * f64::from(n - 1), share));
        // One port gains nothing in bandwidth.
        same(ask("allreduce", "bidir_ring_arc", n).coefficients().1, 2.0 * share);
    }
}

/// Binomial reduce and broadcast: 66 µs each.
#[test]
fn row_000_17() {
    for collective in ["reduce", "broadcast"] {
        prints(ask(collective, "binomial", 64).time(1e6, 1e-6, 100e9) * 1e6, "66");
    }
}

/// The tree: 132 µs for 64 ranks; 48 ranks take ⌈lg 48⌉ = 6 levels too.
#[test]
fn row_000_18() {
    prints(tree(64).time(1e6, 1e-6, 100e9) * 1e6, "132");
    both(tree(48).coefficients(), (12.0, 12.0));
    let lower = tree(32).coefficients().0;
    assert_eq!(lower, 10.0);
}

/// No algorithm has fewer than ⌈lg N⌉ messages one after another; the tree has twice as many.
#[test]
fn row_000_19() {
    for n in [2, 4, 8, 64, 256] {
        let least = f64::from(least_messages(AllReduce, n, Ports::ONE));
        same(least, f64::from(n).log2());
        same(tree(n).coefficients().0 / least, 2.0);
        same(ask("allreduce", "recursive_doubling", n).coefficients().0 / least, 1.0);
    }
}

/// The tree sends 6.095 times the ring's data through the busiest port at 64 ranks.
#[test]
fn row_000_21() {
    prints(tree(64).coefficients().1 / ring(64).coefficients().1, "6.095");
}

/// Tree below, ring above 1 136 448.598 bytes.
#[test]
fn row_000_22() {
    prints(flip(tree(64), ring(64), 1e-6, 100e9).unwrap(), "1136448.598");
    assert_eq!(flip(ring(64), tree(64), 1e-6, 100e9), None);
}

/// The shortcut α·BW·N/(lg N − 1) of the same crossing.
fn shortcut(ranks: u32) -> f64 {
    let question = json!({"kind": "crossover_approx", "algorithm_a": "tree", "algorithm_b": "ring",
        "n": ranks, "alpha_s": 1e-6, "bandwidth_Bps": 1e11});
    number(&batch(question), "size_bytes")
}

/// The shortcut gives 1 280 000 bytes, 12.63 % too much.
#[test]
fn row_000_23() {
    same(shortcut(64), 1_280_000.0);
    let exact = flip(tree(64), ring(64), 1e-6, 100e9).unwrap();
    prints((shortcut(64) / exact - 1.0) * 100.0, "12.63");
}

/// Its error shrinks with N, and makes it useless for few ranks; at 3 nothing crosses.
#[test]
fn row_000_24() {
    let error = |n| shortcut(n) / flip(tree(n), ring(n), 1e-6, 100e9).unwrap();
    prints(error(64), "1.126316");
    for (n, percent) in [(6, "225"), (256, "3.7"), (1024, "1.1")] {
        prints((error(n) - 1.0) * 100.0, percent);
    }
    same(error(8), 2.125);
    assert_eq!(flip(tree(3), ring(3), 1e-6, 100e9), None);
}

/// Rabenseifner: 19.6995 ms, near first as far first.
#[test]
fn row_000_27() {
    for name in ["rabenseifner", "rabenseifner-far"] {
        prints(ask("allreduce", name, 64).time(GB, 1e-6, 100e9) * 1e3, "19.6995");
    }
}

/// Halving and doubling of single collectives need 2^k ranks and say so; the all-reduce folds.
#[test]
fn row_000_28() {
    let refusal = ask("allgather", "recursive_doubling", 6).refusal().unwrap();
    assert!(refusal.contains("power of two") && refusal.contains('6'), "{refusal}");
    assert!(ask("reducescatter", "recursive_halving", 6).refusal().is_some());
    assert_eq!(ask("allgather", "recursive_doubling", 8).refusal(), None);
    assert_eq!(ask("allreduce", "rabenseifner", 6).refusal(), None);
}

/// Two levels, each with its own α and BW: only the outer phase sees the outer α.
#[test]
fn row_000_29() {
    let slow = two_tiers(8, (1e-6, 600e9), (10e-6, 100e9));
    let grid = ask("allreduce", "2d-ring", 64);
    let time = |fabric: &Fabric| grid.price(fabric, GB).total().0;
    same(time(&slow) - time(&cluster()), 14.0 * 5e-6);
}

/// A ring inside a node of 8: 2.930667 ms.
#[test]
fn row_000_31() {
    prints(ring(8).price(&cluster(), GB).total().0 * 1e3, "2.930667");
}

/// The middle phase of the 2D ring, 8 nodes and an eighth of the data: 2.2575 ms.
#[test]
fn row_000_32() {
    prints(phases("rs-ar-ag")[1] * 1e3, "2.2575");
}

/// The phases of exercise 3 in seconds.
fn phases(algorithm: &str) -> Vec<f64> {
    let answer = batch(json!({"kind": "hierarchical", "algorithm": algorithm,
        "gpus_per_node": 8, "nodes": 8, "size_bytes": 1e9,
        "alpha_intra_s": 1e-6, "bw_intra_Bps": 600e9,
        "alpha_inter_s": 5e-6, "bw_inter_Bps": 100e9}));
    answer["phases_s"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

/// 218.75 MB a GPU on the slow tier, 1.75 GB a node.
#[test]
fn row_000_33() {
    let share = between(ask("allreduce", "2d-ring", 64), &cluster()).share.0;
    prints(share * 1000.0, "218.75");
    prints(share * 8.0, "1.75");
}

/// Reducing whole vectors in rows and then across takes 20.50 ms: phase 1 is a reduce-scatter.
#[test]
fn row_000_34() {
    let rows = ring(8).price(&cluster(), GB).total().0;
    let across = ring(8).time(GB, 5e-6, 100e9);
    prints(across * 1e3, "17.57");
    prints((rows + across) * 1e3, "20.50");
    let scatter = ask("reducescatter", "ring", 8).price(&cluster(), GB).total().0;
    same(phases("rs-ar-ag")[0], scatter);
}

/// Ring inside, tree between: 10.46067 ms; the 2D ring is faster from 7.53 MB on.
#[test]
fn row_000_35() {
    let mixed = ask("allreduce", "ring-tree", 64).on(&cluster());
    prints(mixed.time(Volume(GB)).0 * 1e3, "10.46067");
    let grid = ask("allreduce", "2d-ring", 64).on(&cluster());
    // 6 against 14 messages, 6/8 against 1.75/8 of the vector.
    same(crossover(&mixed, &grid).unwrap().0, 8.0 * 5e-6 * 100e9 / (4.25 / 8.0));
}

/// Two trees with half of the data each: log depth on two ports, and as much bandwidth as ports.
#[test]
fn row_000_37() {
    for n in [4, 8, 64, 256] {
        let levels = 2.0 * f64::from(n).log2();
        let two = ask("allreduce", "dbt", n).ports(2);
        both(two.segments(1).coefficients(), (levels, levels / 2.0));
        assert!(steps(two.segments(1)).iter().all(|s| s.share == Share::new(1_u32, 2_u32)));
        // n_β tends to max(2/k, 1): the textbook's M/BW takes two ports.
        let many = |k| ask("allreduce", "dbt", n).ports(k).segments(1 << 20).coefficients().1;
        prints(many(1), "2.000");
        prints(many(2), "1.000");
    }
}

/// The printed table of thresholds: KB of 1000 bytes; 256 KB and 4 MB are in the hybrid's range.
#[test]
fn row_000_39() {
    let table = policy("textbook@thresholds", &Site::default()).unwrap();
    for (size, name) in [
        (255_000, "tree"),
        (255_999, "tree"),
        (256_000, "hybrid"),
        (1_000_000, "hybrid"),
        (4_000_000, "hybrid"),
        (4_000_001, "ring"),
        (5_000_000, "ring"),
    ] {
        let call = Call::new(AllReduce, 64, Bytes(size));
        assert_eq!(table.choose(&call).unwrap().name, name, "{size}");
    }
}

/// 256 ranks, 5 µs, 200 GB/s: 35 266 034.579 bytes.
#[test]
fn row_000_49() {
    prints(flip(tree(256), ring(256), 5e-6, 200e9).unwrap(), "35266034.579");
}

/// The two straight lines of that exercise.
#[test]
fn row_000_50() {
    let line = |ask: Ask| {
        let at = |size| ask.time(size, 5e-6, 200e9);
        (at(0.0), (at(1e12) - at(0.0)) / 1e12)
    };
    both(line(ring(256)), (2.55e-3, 9.9609375e-12));
    both(line(tree(256)), (80e-6, 8e-11));
}

/// The more ranks, the larger the crossing.
#[test]
fn row_000_51() {
    let at = |k: u32| flip(tree(1 << k), ring(1 << k), 5e-6, 200e9).unwrap();
    assert!((2..14).all(|k| at(k) < at(k + 1)));
}

/// A flat ring over 8 × 8: 0.63 ms of latency, 19.6875 ms of data.
#[test]
fn row_000_52() {
    let price = ring(64).price(&cluster(), GB);
    prints(price.latency.0 * 1e3, "0.63");
    prints(price.bandwidth.0 * 1e3, "19.6875");
    prints(price.total().0 * 1e3, "20.3175");
}

/// The 2D ring phase by phase, and in all.
#[test]
fn row_000_53() {
    let parts: Vec<String> = phases("rs-ar-ag").iter().map(|t| format!("{:.6}", t * 1e3)).collect();
    assert_eq!(parts, ["1.465333", "2.257500", "1.465333"]);
    prints(ask("allreduce", "2d-ring", 64).price(&cluster(), GB).total().0 * 1e3, "5.188167");
}

/// 3.9161 times as fast; with one NIC a node, though, slower than the flat ring.
#[test]
fn row_000_54() {
    let time = |name, fabric: &Fabric| ask("allreduce", name, 64).price(fabric, GB).total().0;
    prints(time("ring", &cluster()) / time("2d-ring", &cluster()), "3.9161");
    let mut shared = cluster();
    shared.tiers[1].nics = NonZeroU32::new(1);
    let sharing: f64 = phases("rs-ar-ag-1nic").iter().sum();
    prints(sharing * 1e3, "20.990667");
    assert!(time("2d-ring", &shared) > time("ring", &shared));
}

/// On the network: 1.96875 GB over a link of the flat ring, 218.75 MB a GPU of the 2D ring.
#[test]
fn row_000_55() {
    prints(between(ring(64), &cluster()).share.0, "1.96875");
    prints(between(ask("allreduce", "2d-ring", 64), &cluster()).share.0 * 1000.0, "218.75");
}

/// Padding 6 ranks to 8 costs as much as 8 at best, and a quarter of the ranks is waste.
#[test]
fn row_000_58() {
    let printed = ask("allreduce", "rabenseifner-padded(paper)", 6).coefficients();
    both(printed, ask("allreduce", "rabenseifner", 8).coefficients());
    // n_β = 2(N' − 1)/N' gives the ranks that it prices.
    let padded = 2.0 / (2.0 - printed.1);
    same(1.0 - 6.0 / padded, 0.25);
    // Ghosts that live on real ranks are not free.
    let real = ask("allreduce", "rabenseifner-padded", 6).coefficients();
    assert!(real.0 > printed.0 && real.1 > printed.1);
}

/// Folding 6 ranks to 4: 6α + 3.5·M/BW.
#[test]
fn row_000_59() {
    both(ask("allreduce", "rabenseifner(fold)", 6).coefficients(), (6.0, 3.5));
    both(ask("allreduce", "rabenseifner-half-fold", 6).coefficients(), (7.0, 3.5));
}

/// The ring is not "10 % slower" at 6 ranks: it sends 2.1 times less, and wins from 2.18·α·BW on.
#[test]
fn row_000_60() {
    let fold = |n| ask("allreduce", "rabenseifner(fold)", n);
    prints(fold(6).coefficients().1 / ring(6).coefficients().1, "2.1");
    prints(flip(fold(6), ring(6), 1.0, 1.0).unwrap(), "2.18");
    prints(flip(fold(48), ring(48), 1.0, 1.0).unwrap(), "41.4");
}

/// One direction against both: the same data, half and all of two links, half of the time.
#[test]
fn row_000_62() {
    for n in [3, 5, 9, 63] {
        let one = ring(n).ports(2);
        let two = ask("allreduce", "bidir_ring", n).ports(2);
        let used = |ask: Ask| ask.sent() / (2.0 * ask.coefficients().1);
        same(used(one), 0.5);
        same(used(two), 1.0);
        same(one.sent(), two.sent());
        same(two.coefficients().0 * 2.0, one.coefficients().0);
        let time = |ask: Ask| ask.time(GB, 5e-6, 100e9);
        same(time(one) / time(two), 2.0);
    }
    // And with the halves each all the way round, twice the steps.
    same(ask("allreduce", "bidir_ring_split", 9).ports(2).coefficients().0, 16.0);
}

/// Exercise 4: 1000 gradients of 1 MB over 8 ranks, 10 µs and 100 GB/s, in buckets of `cap` bytes.
fn fused(cap: f64) -> serde_json::Value {
    batch(json!({"kind": "buckets", "tensors": 1000, "tensor_bytes": 1e6, "bucket_cap_bytes": cap,
        "n": 8, "alpha_s": 1e-5, "bandwidth_Bps": 1e11, "algorithm": "ring"}))
}

/// The listing, with the last bucket flushed, which it forgets: 26 tensors fit into 25 MiB.
#[test]
fn row_000_45() {
    same(number(&fused(25.0 * 1_048_576.0), "buckets"), 39.0);
    same(number(&fused(25e6), "buckets"), 40.0);
    let gradients = Gradients::alike(1000, Bytes(1_000_000), DataType::F32);
    let packed = pack(&gradients, &Rule::named("greedy").unwrap());
    assert_eq!((packed.len(), packed[0].tensors.len(), packed[38].tensors.len()), (39, 26, 12));
}

/// DDP's default: 25 MiB.
#[test]
fn row_000_46() {
    assert_eq!(Rule::named("ddp").unwrap().cap, Limit::Bytes(Bytes(25 << 20)));
}

/// 157.5 ms against 23.1 ms.
#[test]
fn row_000_56() {
    let (each, buckets) = (number(&fused(1e6), "time_s"), number(&fused(25e6), "time_s"));
    same(each, 157.5e-3);
    same(buckets, 23.1e-3);
    prints(each / buckets, "6.818");
}

/// The latency is a 25th, the data take 17.5 ms either way.
#[test]
fn row_000_57() {
    let latency = |calls: f64| calls * 14.0 * 1e-5;
    same(number(&fused(1e6), "time_s") - latency(1000.0), 17.5e-3);
    same(number(&fused(25e6), "time_s") - latency(40.0), 17.5e-3);
    same(latency(1000.0) / latency(40.0), 25.0);
}

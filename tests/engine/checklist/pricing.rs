//! The chapter that prices the algorithms (002): 5 µs and 100 GB/s throughout.

use serde_json::json;

use collcost::base::quantity::Ratio;
use collcost::plan::table::{BuiltIn, Machines};
use collcost::plan::{Asked, calls, load};

use super::{Ask, ask, batch, both, flip, number, prints, same};

const ALPHA: f64 = 5e-6;
const RATE: f64 = 100e9;
const MIB: f64 = 1_048_576.0;

fn of(name: &str, ranks: u32) -> Ask {
    ask("allreduce", name, ranks)
}

fn time(name: &str, ranks: u32, size: f64) -> f64 {
    of(name, ranks).time(size, ALPHA, RATE)
}

fn cross(a: &str, b: &str, ranks: u32) -> Option<f64> {
    flip(of(a, ranks), of(b, ranks), ALPHA, RATE)
}

/// The fastest of `names`, as `collcost batch` selects it.
fn winner(names: &str, ranks: u32, size: f64) -> String {
    let answer = batch(json!({"kind": "select", "primitive": "allreduce", "candidates": names,
        "n": ranks, "size_bytes": size, "alpha_s": ALPHA, "bandwidth_Bps": RATE}));
    answer["winner"].as_str().unwrap().to_owned()
}

/// One line of the chapter's output, in milliseconds.
#[track_caller]
fn line(ranks: u32, size: f64, printed: [&str; 3], fastest: &str) {
    for (name, text) in ["naive", "tree", "ring"].into_iter().zip(printed) {
        prints(time(name, ranks, size) * 1e3, text);
    }
    assert_eq!(winner("naive,tree,ring", ranks, size), fastest);
}

/// Through the root: 85.19 ms.
#[test]
fn row_002_02() {
    prints(time("naive", 64, 64.0 * MIB) * 1e3, "85.19");
    both(of("naive", 64).coefficients(), (126.0, 126.0));
}

/// Four times the ranks, 4.02 times the time.
#[test]
fn row_002_03() {
    let ratio = time("naive", 512, 64.0 * MIB) / time("naive", 128, 64.0 * MIB);
    prints(ratio, "4.02");
}

/// The busiest link: (K − 1)·n each way at the naive root, 2(K − 1)/K·n at any rank of the ring.
#[test]
fn row_002_04() {
    for k in [2, 8, 64, 1000] {
        let naive = of("naive", k);
        same(naive.sent(), f64::from(k - 1));
        // In and out, one after the other.
        same(naive.coefficients().1, 2.0 * naive.sent());
        same(of("ring", k).sent(), 2.0 * f64::from(k - 1) / f64::from(k));
    }
}

/// Six ranks take 2·3 hops.
#[test]
fn row_002_05() {
    both(of("tree", 6).coefficients(), (6.0, 6.0));
}

/// A tree with two children has 4(⌈lg K⌉ − 1) rounds on one port; ⌈lg K⌉ each way is binomial.
#[test]
fn row_002_06() {
    for m in 2..=10 {
        let (k, levels) = (1 << m, f64::from(m));
        let binary = of("single_binary_tree", k).segments(1);
        both(binary.coefficients(), (4.0 * (levels - 1.0), 4.0 * (levels - 1.0)));
        both(binary.ports(2).coefficients(), (2.0 * levels, 2.0 * levels));
        both(of("tree", k).coefficients(), (2.0 * levels, 2.0 * levels));
    }
    assert_eq!(of("single_binary_tree", 64).segments(1).coefficients().0, 20.0);
}

/// 2046 hops through the root against 20: a factor of 102.3.
#[test]
fn row_002_07() {
    let (naive, tree) = (of("naive", 1024).coefficients().0, of("tree", 1024).coefficients().0);
    assert_eq!((naive, tree), (2046.0, 20.0));
    prints(naive / tree, "102.3");
}

/// The ring: 2(K − 1) messages of n/K.
#[test]
fn row_002_08() {
    for k in [2, 3, 48, 64, 1024] {
        let others = f64::from(k - 1);
        both(of("ring", k).coefficients(), (2.0 * others, 2.0 * others / f64::from(k)));
    }
    prints(time("ring", 64, 64.0 * MIB) * 1e3, "1.951");
}

/// Its factor 2 − 2/K.
#[test]
fn row_002_09() {
    prints(of("ring", 512).coefficients().1, "1.99609");
    prints(of("ring", 1024).coefficients().1, "1.99805");
}

/// 2 ranks, 64 MiB.
#[test]
fn row_002_11() {
    line(2, 64.0 * MIB, ["1.352", "1.352", "0.681"], "ring");
}

/// 8 ranks, 64 MiB.
#[test]
fn row_002_12() {
    line(8, 64.0 * MIB, ["9.465", "4.057", "1.244"], "ring");
}

/// 32 ranks, 64 MiB.
#[test]
fn row_002_13() {
    line(32, 64.0 * MIB, ["41.917", "6.761", "1.610"], "ring");
}

/// 128 ranks, 64 MiB.
#[test]
fn row_002_14() {
    line(128, 64.0 * MIB, ["171.727", "9.465", "2.602"], "ring");
}

/// 512 ranks, 64 MiB.
#[test]
fn row_002_15() {
    line(512, 64.0 * MIB, ["690.963", "12.170", "6.450"], "ring");
}

/// 1024 ranks, 64 MiB.
#[test]
fn row_002_16() {
    line(1024, 64.0 * MIB, ["1383.277", "13.522", "11.571"], "ring");
}

/// 64 ranks, 256 B.
#[test]
fn row_002_17() {
    line(64, 256.0, ["0.630", "0.060", "0.630"], "tree");
}

/// 64 ranks, 4 KiB.
#[test]
fn row_002_18() {
    line(64, 4096.0, ["0.635", "0.060", "0.630"], "tree");
}

/// 64 ranks, 64 KiB.
#[test]
fn row_002_19() {
    line(64, 65536.0, ["0.713", "0.068", "0.631"], "tree");
}

/// 64 ranks, 1 MiB.
#[test]
fn row_002_20() {
    line(64, MIB, ["1.951", "0.186", "0.651"], "tree");
}

/// 64 ranks, 16 MiB.
#[test]
fn row_002_21() {
    line(64, 16.0 * MIB, ["21.769", "2.073", "0.960"], "ring");
}

/// 64 ranks, 256 MiB.
#[test]
fn row_002_22() {
    line(64, 256.0 * MIB, ["338.859", "32.272", "5.915"], "ring");
}

/// Halving and doubling: 80.6 µs for 1 MiB.
#[test]
fn row_002_23() {
    prints(time("halving_doubling", 64, MIB) * 1e6, "80.6");
    both(of("halving_doubling", 64).coefficients(), (12.0, 1.96875));
}

/// What the fix-up for 48 ranks costs, and from where the ring is better: 41.43·α·BW.
#[test]
fn row_002_24() {
    both(of("halving_doubling", 48).coefficients(), (12.0, 3.9375));
    let ring = of("ring", 48).coefficients();
    assert_eq!(ring.0, 94.0);
    prints(ring.1, "1.958");
    prints(cross("halving_doubling", "ring", 48).unwrap() / (ALPHA * RATE), "41.43");
}

/// Exercise 1: 5 682 242.991 bytes, between 1 and 16 MiB; with 1024 ranks 56 271 671.9.
#[test]
fn row_002_35() {
    let at = cross("tree", "ring", 64).unwrap();
    prints(at, "5682242.991");
    prints(at / MIB, "5.419");
    assert_eq!(winner("tree,ring", 64, MIB), "tree");
    assert_eq!(winner("tree,ring", 64, 16.0 * MIB), "ring");
    prints(cross("tree", "ring", 1024).unwrap(), "56271671.9");
    let asked = batch(json!({"kind": "crossover", "algorithm_a": "tree", "algorithm_b": "ring",
        "n": 64, "alpha_s": ALPHA, "bandwidth_Bps": RATE}));
    same(number(&asked, "size_bytes"), at);
}

/// More ranks move the crossing towards larger messages.
#[test]
fn row_002_36() {
    let at: Vec<f64> = [8, 16, 64, 100, 256, 1000, 1024]
        .into_iter()
        .map(|k| cross("tree", "ring", k).unwrap())
        .collect();
    assert!(at.windows(2).all(|w| w[0] < w[1]), "{at:?}");
}

/// Exercise 2: halving and doubling is the fastest of the four everywhere; only recursive doubling
/// beats it, for small messages.
#[test]
fn row_002_37() {
    for k in [8, 64, 1024] {
        for power in 10..=28 {
            let size = f64::from(1_u32 << power);
            let rivals = ["naive", "tree", "ring"].map(|name| time(name, k, size));
            assert!(
                rivals.into_iter().all(|t| time("halving_doubling", k, size) < t),
                "{k} {size}"
            );
            assert_eq!(winner("naive,tree,ring,halving_doubling", k, size), "halving_doubling");
        }
        let lg = f64::from(k).log2();
        let share = 2.0 * f64::from(k - 1) / f64::from(k);
        let at = cross("recursive_doubling", "halving_doubling", k).unwrap();
        same(at, lg * ALPHA * RATE / (lg - share));
    }
}

/// Exercise 3: a root with ten times the rate divides the bandwidth term by ten, and loses to the
/// ring from ten ranks on.
#[test]
fn row_002_38() {
    let fast = |k| of("naive", k).with(|p| p.root_speedup = Some(Ratio(10.0))).coefficients();
    for k in 2..=64 {
        let naive = of("naive", k).coefficients();
        both(fast(k), (naive.0, naive.1 / 10.0));
        let ring = of("ring", k).coefficients().1;
        if k == 10 {
            same(fast(k).1, ring);
        } else {
            assert_eq!(fast(k).1 < ring, k < 10, "{k}");
        }
    }
}

/// Fusing is what buckets do: one call of ten tensors saves nine latencies.
#[test]
fn row_002_25() {
    let fused = |cap: f64| {
        let answer = batch(json!({"kind": "buckets", "tensors": 10, "tensor_bytes": MIB,
            "bucket_cap_bytes": cap, "n": 8, "alpha_s": ALPHA, "bandwidth_Bps": RATE,
            "algorithm": "ring"}));
        number(&answer, "time_s")
    };
    same(fused(MIB) - fused(10.0 * MIB), 9.0 * 14.0 * ALPHA);
    same(fused(10.0 * MIB), time("ring", 8, 10.0 * MIB));
}

/// From 8 to 32 workers a parameter server takes 4.43 times as long, the ring hardly longer.
#[test]
fn row_002_26() {
    let grows = |name| time(name, 32, 64.0 * MIB) / time(name, 8, 64.0 * MIB);
    prints(grows("naive"), "4.43");
    assert!(grows("ring") < 1.3);
}

/// What `keys` change of the step of 64 replicas: the collectives' time.
fn gradients(keys: &[(&str, &str)]) -> f64 {
    let keys: Vec<_> = keys.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let steps = load(&Machines::new(&BuiltIn), &Asked::Preset("ddp-7b"), &keys).unwrap();
    let sizes = calls(&steps[0]).into_iter().map(|c| c.size.0 * c.count.0);
    sizes.sum()
}

/// fp8 instead of bf16 is half the bytes.
#[test]
fn row_002_33() {
    same(gradients(&[("compress", "fp8")]), gradients(&[]) / 2.0);
}

/// A sum every H steps costs a step the H-th part.
#[test]
fn row_002_34() {
    same(gradients(&[("every", "500")]), gradients(&[]) / 500.0);
}

//! What goes beyond the documents (X): algorithms of libraries and later papers. Times are an
//! independent simulation's, where there is one.

use super::{Ask, ask, both, prints, same};

/// ⌈lg N⌉.
fn lg(n: u32) -> f64 {
    f64::from(n.next_power_of_two().ilog2())
}

fn share(n: u32) -> f64 {
    f64::from(n - 1) / f64::from(n)
}

const MIB: f64 = 1_048_576.0;

/// Circulant reduce-scatter and all-gather: 2⌈lg N⌉α + 2(N − 1)/N·M/BW at any N.
#[test]
fn row_x_01() {
    for n in 2..=130 {
        let all = ask("allreduce", "circulant_rs_ag", n);
        both(all.coefficients(), (2.0 * lg(n), 2.0 * share(n)));
    }
    let all = |n| ask("allreduce", "circulant_ar", n);
    same(all(11).time(25e6, 0.5e-6, 900e9), 54.505_050_505_050_51e-6);
    same(all(127).time(65536.0, 5e-6, 100e9), 71.300_399_370_078_75e-6);
}

/// Circulant broadcast and reduce in n blocks: (⌈lg N⌉ + P − 1)·τ at any N.
#[test]
fn row_x_02() {
    for n in 2..=130 {
        for p in [1, 2, 7, 16] {
            for collective in ["broadcast", "reduce"] {
                let slots = lg(n) + f64::from(p) - 1.0;
                let blocks = ask(collective, "circulant", n).segments(p);
                both(blocks.coefficients(), (slots, slots / f64::from(p)));
            }
        }
    }
    // The binomial pipeline on a hypercube takes as long: 64 ranks, 16 segments, 1 GB.
    for name in ["circulant", "binomial-pipeline"] {
        let time = ask("broadcast", name, 64).segments(16).time(1e9, 0.5e-6, 900e9);
        same(time, 1.468_833_333_333_333_3e-3);
    }
}

/// Bruck's all-gather and its reversal: ⌈lg N⌉α + (N − 1)/N·M/BW at any N.
#[test]
fn row_x_03() {
    for n in 2..=130 {
        for collective in ["allgather", "reducescatter"] {
            both(ask(collective, "bruck", n).coefficients(), (lg(n), share(n)));
        }
    }
    let gather = ask("allgather", "bruck_ag", 127);
    same(gather.time(268_435_456.0, 5e-6, 100e9), 2.698_217_909_921_259_6e-3);
    let scatter = ask("reducescatter", "bruck_rs", 12);
    same(scatter.time(MIB, 0.5e-6, 900e9), 3.067_994_074_074_074e-6);
}

/// Neighbour exchange: N/2 rounds, even N only.
#[test]
fn row_x_04() {
    for n in (2..=64).step_by(2) {
        let exchange = ask("allgather", "neighbor_exchange", n);
        both(exchange.coefficients(), (f64::from(n / 2), share(n)));
    }
    assert!(ask("allgather", "neighbor_exchange", 7).refusal().is_some());
    let exchange = ask("allgather", "neighbor_exchange", 24);
    same(exchange.time(MIB, 10e-6, 12.5e9), 200.390_826_666_666_7e-6);
}

/// Scatter and all-gather as a broadcast, with a ring at any N or in log steps.
#[test]
fn row_x_05() {
    for n in 2..=64 {
        let ring = ask("broadcast", "scatter-ring", n);
        both(ring.coefficients(), (lg(n) + f64::from(n - 1), 2.0 * share(n)));
        let log = ask("broadcast", "scatter-allgather", n);
        both(log.coefficients(), (2.0 * lg(n), 2.0 * share(n)));
    }
    // 16 ranks: 80.015 µs for 1 kB.
    let log = ask("broadcast", "scatter-allgather", 16);
    same(log.time(1000.0, 10e-6, 12.5e9), 8.0 * 10e-6 + 1.875 * 1000.0 / 12.5e9);
}

/// Reduce-scatter and gather as a reduce.
#[test]
fn row_x_06() {
    for m in 1..=9 {
        let reduce = ask("reduce", "rs-gather", 1 << m);
        both(reduce.coefficients(), (2.0 * f64::from(m), 2.0 * share(1 << m)));
    }
}

/// Swing: recursive doubling's and Rabenseifner's costs, at shorter distances on a torus.
#[test]
fn row_x_07() {
    for m in 1..=9 {
        let (n, steps) = (1 << m, f64::from(m));
        both(ask("allreduce", "swing_lat", n).coefficients(), (steps, steps));
        both(ask("allreduce", "swing_bw", n).coefficients(), (2.0 * steps, 2.0 * share(n)));
    }
    same(ask("allreduce", "swing_bw", 128).time(1e9, 0.5e-6, 900e9), 2.211_861_111_111_111_5e-3);
    same(ask("allreduce", "swing_lat", 128).time(1000.0, 2e-6, 50e9), 14.14e-6);
}

/// Bine trees: the costs of binomial trees and butterflies.
#[test]
fn row_x_08() {
    for m in 1..=9 {
        let (n, steps) = (1 << m, f64::from(m));
        for collective in ["broadcast", "reduce"] {
            both(ask(collective, "bine", n).segments(1).coefficients(), (steps, steps));
        }
        for collective in ["allgather", "reducescatter"] {
            both(ask(collective, "bine", n).coefficients(), (steps, share(n)));
        }
        both(ask("allreduce", "bine", n).coefficients(), (2.0 * steps, 2.0 * share(n)));
    }
}

/// Sparbit: ⌈lg N⌉α + (N − 1)/N·M/BW at any N.
#[test]
fn row_x_09() {
    for n in 2..=130 {
        both(ask("allgather", "sparbit", n).coefficients(), (lg(n), share(n)));
    }
}

fn radix(ask: Ask, k: u32) -> Ask {
    ask.with(|p| p.radix = Some(k))
}

/// k-nomial trees, recursive multiplying and k-rings.
#[test]
fn row_x_10() {
    // Radix 3: 127 = 81 + 46 takes 2·4 + 1 rounds, on two ports 5.
    let tree = |k, n| radix(ask("broadcast", "knomial", n), k).segments(1);
    both(tree(3, 127).coefficients(), (9.0, 9.0));
    both(tree(3, 127).ports(2).coefficients(), (5.0, 5.0));
    both(tree(4, 16).coefficients(), (6.0, 6.0));
    for n in 2..=130 {
        both(tree(2, n).coefficients(), (lg(n), lg(n)));
    }
    let multiply = |k, n| radix(ask("allreduce", "recursive_multiplying", n), k);
    for (k, n, digits) in [(2, 64, 6.0), (3, 27, 3.0), (4, 64, 3.0), (8, 64, 2.0)] {
        let each = f64::from(k - 1);
        both(multiply(k, n).coefficients(), (digits * each, digits * each));
        both(multiply(k, n).ports(k - 1).coefficients(), (digits, digits));
    }
    assert!(multiply(3, 64).refusal().is_some());
    for (k, n) in [(4, 12), (8, 64)] {
        for (collective, times) in [("allgather", 1.0), ("reducescatter", 1.0), ("allreduce", 2.0)]
        {
            let ring = radix(ask(collective, "k-ring", n), k);
            let hops = f64::from(n / k - 1 + k - 1);
            both(ring.coefficients(), (times * hops, times * share(n)));
            same(ring.sent(), times * share(n));
        }
    }
}

/// bcube: 2(B − 1)·log_B N·α + 2(N − 1)/N·M/BW.
#[test]
fn row_x_11() {
    for (b, n, digits) in [(2, 64, 6.0), (3, 27, 3.0), (4, 64, 3.0), (8, 64, 2.0)] {
        let cube = radix(ask("allreduce", "bcube", n), b);
        let each = f64::from(b - 1);
        both(cube.coefficients(), (2.0 * each * digits, 2.0 * share(n)));
        both(cube.ports(b - 1).coefficients(), (2.0 * digits, 2.0 * share(n) / each));
    }
    assert!(radix(ask("allreduce", "bcube", 24), 4).refusal().is_some());
}

/// Halving and doubling over blocks of powers of two: Rabenseifner's cost where there is one block.
#[test]
fn row_x_12() {
    let blocks = |n| ask("allreduce", "gloo_hd", n);
    for m in 1..=9 {
        both(
            blocks(1 << m).coefficients(),
            ask("allreduce", "rabenseifner", 1 << m).coefficients(),
        );
    }
    // With several the busiest ranks send 2·M at most, as simulated.
    for (n, sent) in [(61, 536_870_912.0), (13, 536_870_912.0), (5, 469_762_048.0)] {
        same(blocks(n).sent() * 268_435_456.0, sent);
    }
    same(blocks(33).sent() * 25e6, 49_218_750.0);
}

/// HCCL's ring of log steps, its older form of about √N, and its nonuniform Bruck.
#[test]
fn row_x_13() {
    for n in [2, 6, 8, 24, 64, 72] {
        for collective in ["allgather", "reducescatter"] {
            for name in ["nhr", "nb"] {
                both(ask(collective, name, n).coefficients(), (lg(n), share(n)));
            }
        }
        both(ask("allreduce", "nhr", n).coefficients(), (2.0 * lg(n), 2.0 * share(n)));
    }
    for root in [2, 4, 8, 16_u32] {
        let older = ask("allgather", "nhr-v1", root * root);
        both(older.coefficients(), (2.0 * f64::from(root - 1), share(root * root)));
    }
}

/// The dissemination barrier: ⌈lg N⌉α.
#[test]
fn row_x_14() {
    for n in 2..=130 {
        both(ask("barrier", "dissemination", n).coefficients(), (lg(n), 0.0));
    }
}

/// The two-tree broadcast: at most 2⌈lg N⌉ + 2P messages of M/(2P), so M/BW in the limit.
#[test]
fn row_x_15() {
    for n in [2, 8, 23, 64, 127] {
        for p in [1, 5, 100] {
            let trees = |form: &str| ask("broadcast", &format!("two_tree{form}"), n).segments(p);
            let stated = trees("(paper)").coefficients();
            let slots = 2.0 * lg(n) + 2.0 * f64::from(p);
            both(stated, (slots, slots / (2.0 * f64::from(p))));
            assert!(trees("").coefficients().0 <= stated.0, "{n} {p}");
        }
        prints(ask("broadcast", "two_tree", n).segments(1 << 20).coefficients().1, "1.000");
    }
    // Simulated: 8.16 µs over 12 ranks. The greedy order beats no bound.
    let time = ask("broadcast", "two_tree", 12).segments(1).time(4096.0, 1e-6, 100e9);
    assert!(time > 0.99 * 8.163_84e-6 && time < 1.5 * 8.163_84e-6, "{time:e}");
}

/// Scatter and gather in a binomial tree: ⌈lg N⌉α + (N − 1)/N·M/BW.
#[test]
fn row_x_16() {
    for n in 2..=130 {
        for collective in ["scatter", "gather"] {
            both(ask(collective, "binomial", n).coefficients(), (lg(n), share(n)));
        }
    }
    same(ask("gather", "binomial", 11).time(1000.0, 5e-6, 100e9), 20.009_090_909_090_91e-6);
    same(ask("scatter", "binomial", 128).time(1e9, 5e-6, 100e9), 9.956_875e-3);
}

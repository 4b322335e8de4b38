//! The companion notes of the topology-free introduction (C): spiceMonkey/collective-comm.

use serde_json::json;

use collcost::base::quantity::Ratio;
use collcost::machine::fabric::Fabric;
use collcost::machine::presets;
use collcost::model::algorithm::Registry;
use collcost::model::formula::Dims;
use collcost::plan::table::{BuiltIn, Machines};
use collcost::plan::{Asked, Group, Tweak, load, price};

use super::{Ask, ask, batch, both, flat, number, prints, same, switched, two_tiers};

const MB: f64 = 1e6;
/// Their anchor: 512 ranks, 16 MB, 0.5 µs, 900 GB/s.
const N: u32 = 512;
const SIZE: f64 = 16e6;
const ALPHA: f64 = 0.5e-6;
const RATE: f64 = 900e9;

fn dims(sides: &[u32]) -> Option<Dims> {
    Some(Dims::new(sides).unwrap())
}

/// On a torus of these sides.
fn torus(collective: &str, name: &str, sides: &[u32]) -> Ask {
    let ranks = sides.iter().product();
    ask(collective, name, ranks).with(|p| p.dims = dims(sides))
}

/// Microseconds at the anchor.
fn micros(ask: Ask) -> f64 {
    ask.time(SIZE, ALPHA, RATE) * 1e6
}

fn dbt() -> Ask {
    ask("allreduce", "dbt(asymptotic)", N)
}

/// The 512-port switch of their worked example, α_sw as large as α.
fn star() -> Fabric {
    switched(ALPHA, RATE, ALPHA)
}

fn inc(collective: &str) -> Ask {
    ask(collective, "inc", N)
}

/// n_β of the double tree is 2 in one note and 1 in another: one port, or two.
#[test]
fn row_c_01() {
    both(dbt().coefficients(), (18.0, 2.0));
    both(dbt().ports(2).coefficients(), (18.0, 1.0));
}

/// A star runs everything at its plain cost.
#[test]
fn row_c_02() {
    for (collective, name, text) in [
        ("allreduce", "ring", "546"),
        ("allgather", "ring", "273"),
        ("allgather", "recursive_doubling", "22"),
        ("alltoall", "pairwise", "273"),
        ("allreduce", "rabenseifner", "44"),
    ] {
        prints(micros(ask(collective, name, N)), text);
    }
}

/// All-reduce on an 8 × 8 × 8 torus: 56.49 µs.
#[test]
fn row_c_03() {
    let cube = torus("allreduce", "torus", &[8, 8, 8]);
    both(cube.coefficients(), (42.0, 2.0 * 511.0 / 512.0));
    prints(micros(cube), "56.49");
    both(torus("allreduce", "torus", &[4, 3, 2]).coefficients(), (12.0, 2.0 * 23.0 / 24.0));
}

/// All-gather and reduce-scatter there: 28.24 µs.
#[test]
fn row_c_04() {
    for collective in ["allgather", "reducescatter"] {
        let cube = torus(collective, "torus", &[8, 8, 8]);
        both(cube.coefficients(), (21.0, 511.0 / 512.0));
        prints(micros(cube), "28.24");
    }
}

/// Broadcast and reduce there, both ways round each ring: 23.78 µs.
#[test]
fn row_c_05() {
    for collective in ["broadcast", "reduce"] {
        let cube = torus(collective, "torus(asymptotic)", &[8, 8, 8]);
        both(cube.coefficients(), (12.0, 1.0));
        prints(micros(cube), "23.78");
    }
}

/// All-to-all there: the bisection makes it d/8 of the vector, 23.78 µs.
#[test]
fn row_c_06() {
    let cube = torus("alltoall", "torus", &[8, 8, 8]).ports(0);
    both(cube.coefficients(), (12.0, 1.0));
    prints(micros(cube), "23.78");
    both(torus("alltoall", "torus", &[16, 16, 4]).ports(0).coefficients(), (18.0, 2.0));
}

/// A mesh has no way round: Σ(d − 1) steps, and d/4 of the vector for an all-to-all.
#[test]
fn row_c_07() {
    both(torus("alltoall", "mesh", &[8, 8, 8]).ports(0).coefficients(), (21.0, 2.0));
    both(torus("alltoall", "mesh", &[16, 4]).ports(0).coefficients(), (18.0, 4.0));
    for collective in ["broadcast", "reduce"] {
        both(torus(collective, "mesh(asymptotic)", &[8, 8, 8]).coefficients(), (21.0, 1.0));
    }
}

/// Halving and doubling along each side: 18 messages instead of 42.
#[test]
fn row_c_08() {
    let cube = torus("allreduce", "torus-rabenseifner", &[8, 8, 8]);
    both(cube.coefficients(), (18.0, 2.0 * 511.0 / 512.0));
    both(
        torus("allreduce", "torus-rabenseifner", &[4, 4]).coefficients(),
        (8.0, 2.0 * 15.0 / 16.0),
    );
}

/// Oversubscription slows bytes, not messages.
#[test]
fn row_c_10() {
    let mut clos = two_tiers(4, (ALPHA, RATE), (2e-6, 50e9));
    let grid = ask("allreduce", "2d-ring", 16);
    let plain = grid.price(&clos, SIZE);
    clos.tiers[1].oversubscription = Ratio(2.0);
    let slowed = grid.price(&clos, SIZE);
    same(slowed.latency.0, plain.latency.0);
    // Twice 2·3/4 of the shard of a quarter.
    same(slowed.bandwidth.0 - plain.bandwidth.0, 1.5 * SIZE / 4.0 / 50e9);
}

/// Two pods of 72: NVLink inside, one rail switch between.
fn pods(outer_alpha: f64) -> Fabric {
    two_tiers(72, (ALPHA, RATE), (outer_alpha, 50e9))
}

/// All-reduce over 144 ranks in two pods: about 75 µs of latency and 39 µs of data.
#[test]
fn row_c_11() {
    let price = ask("allreduce", "2d-ring", 144).price(&pods(2e-6), SIZE);
    same(price.latency.0, 75e-6);
    assert!((price.bandwidth.0 - 39e-6).abs() < 1e-6);
    assert!((price.total().0 - 114e-6).abs() < 1e-6);
    // A flat ring over a switch that joins them all, and one over the network only.
    prints(ask("allreduce", "ring", 144).time(SIZE, ALPHA, RATE) * 1e6, "178");
    let far = ask("allreduce", "ring", 144).time(SIZE, 8e-6, 50e9) * 1e6;
    assert!((far - 2920.0).abs() < 10.0, "{far}");
}

/// The other collectives over two tiers: each level's own depth, and with equal rates the data of
/// one level.
#[test]
fn row_c_12() {
    let (pods, each) = (8.0, 72.0);
    let even = |collective, name| {
        let ask = ask(collective, name, 576).group(72);
        let price =
            |inner, outer| ask.price(&two_tiers(72, (inner, RATE), (outer, RATE)), SIZE).latency.0;
        (price(1e-6, 0.0) * 1e6, price(0.0, 1e-6) * 1e6, ask.coefficients().1)
    };
    let close = |got: (f64, f64, f64), want: (f64, f64, f64)| {
        same(got.0, want.0);
        same(got.1, want.1);
        same(got.2, want.2);
    };
    close(even("allgather", "2d-ring"), (each - 1.0, pods - 1.0, 575.0 / 576.0));
    close(even("reducescatter", "2d-ring"), (each - 1.0, pods - 1.0, 575.0 / 576.0));
    let twice = (2.0 * (each - 1.0), 2.0 * (pods - 1.0), 2.0 * 575.0 / 576.0);
    close(even("allreduce", "2d-ring"), twice);
    // ⌈lg 72⌉ = 7 inside and lg 8 = 3 between. Whole vectors each: the M/BW of the notes would take
    // a pipeline through both levels.
    close(even("broadcast", "leader-tree"), (7.0, 3.0, 10.0));
    close(even("reduce", "leader-tree"), (7.0, 3.0, 10.0));
}

/// An all-to-all pays every peer's own path: 348 µs on one rail switch, 780 µs across the spine.
#[test]
fn row_c_13() {
    for (outer, total) in [(2e-6, 348.0), (8e-6, 780.0)] {
        let tiered = ask("alltoall", "pairwise-by-tier", 144).price(&pods(outer), SIZE);
        assert!((tiered.total().0 * 1e6 - total).abs() < 1.0, "{tiered:?}");
    }
}

/// What a switch does for each collective.
#[test]
fn row_c_15() {
    let share = 511.0 / 512.0;
    for (collective, volume) in [
        ("allreduce", 1.0),
        ("reduce", 1.0),
        ("broadcast", 1.0),
        ("reducescatter", share),
        ("allgather", share),
    ] {
        both(inc(collective).coefficients(), (2.0, volume));
        // Where the notes count one hop.
        let one = inc(collective).with(|p| p.switch_hops = Some(1));
        both(one.coefficients(), (1.0, volume));
    }
    both(ask("alltoall", "hw-all-to-all", N).coefficients(), (2.0, share));
}

/// Over k tiers of switches: 2k·α_sw + M/BW.
#[test]
fn row_c_16() {
    for k in 1..=4_u32 {
        let tiers = ask("allreduce", "inc", 4096).with(|p| p.switch_hops = Some(2 * k));
        both(tiers.coefficients(), (2.0 * f64::from(k), 1.0));
    }
    // 4096 ranks, three tiers: 2 to 3 µs for a small message.
    let fabric = switched(ALPHA, RATE, 400e-9);
    let three = ask("allreduce", "inc", 4096).with(|p| p.switch_hops = Some(6));
    prints(three.price(&fabric, 1000.0).total().0 * 1e6, "2.4");
}

/// The ladder for 512 ranks and 16 MB: ring 546, double tree 45, switch 18.8, torus 56.5 µs (57
/// there, with 2 vectors instead of 2·511/512).
#[test]
fn row_c_17() {
    prints(micros(ask("allreduce", "ring", N)), "546");
    prints(micros(dbt()), "45");
    prints(inc("allreduce").price(&star(), SIZE).total().0 * 1e6, "18.8");
    prints(micros(torus("allreduce", "torus", &[8, 8, 8])), "56.5");
}

/// The same from 10 KB to 1 GB, double tree against switch.
#[test]
fn row_c_18() {
    for (size, tree, switch) in [(1e4, "9.02", "1.01"), (MB, "11.2", "2.1"), (1e9, "2231", "1112")]
    {
        prints(dbt().time(size, ALPHA, RATE) * 1e6, tree);
        prints(inc("allreduce").price(&star(), size).total().0 * 1e6, switch);
    }
    let ratio =
        |size| dbt().time(size, ALPHA, RATE) / inc("allreduce").price(&star(), size).total().0;
    prints(ratio(1e4), "9");
    prints(ratio(1e9), "2.0");
}

/// Contention: η_α·n_α·α + n_β·M/(η_β·BW).
#[test]
fn row_c_19() {
    let asked = json!({"kind": "eta", "n_alpha": 42, "n_beta": 2, "size_bytes": SIZE,
        "alpha_s": ALPHA, "bandwidth_Bps": RATE, "eta_alpha": 1.2, "eta_beta": 0.6});
    let time = number(&batch(asked), "time_s");
    prints(time * 1e6, "84.5");
    let fabric = flat(ALPHA, RATE).contended(Ratio(1.2), Ratio(0.6));
    let rings = torus("allreduce", "torus", &[8, 8, 8]).price(&fabric, SIZE).total().0;
    // The torus moves 2·511/512 of the vector, the notes' table 2.
    assert!(rings < time && rings > 0.998 * time);
}

/// Profiles of contention.
#[test]
fn row_c_20() {
    for (name, alpha, beta) in
        [("ideal", 1.0, 1.0), ("crossbar", 1.0, 0.8), ("nvls", 1.0, 0.52), ("torus", 1.2, 0.6)]
    {
        let profile = presets::contention(name).unwrap();
        assert_eq!((profile.alpha.0, profile.beta.0), (alpha, beta), "{name}");
    }
    // 360 of 450 GB/s.
    let raw = presets::find(presets::RATES, "nvlink4").unwrap().low.0;
    same(presets::contention("crossbar").unwrap().beta.0, 360e9 / raw);
}

/// Under them: switch 35.2, double tree 53.4, torus 84.3 µs (84.4 there, summed from rounded parts).
#[test]
fn row_c_21() {
    let under = |name: &str, ask: Ask, fabric: Fabric| {
        let profile = presets::contention(name).unwrap();
        ask.price(&fabric.contended(profile.alpha, profile.beta), SIZE).total().0 * 1e6
    };
    // The switch's own latency is not inflated by the profile, whose η_α is 1.
    prints(under("nvls", inc("allreduce"), star()), "35.2");
    prints(under("crossbar", dbt(), flat(ALPHA, RATE)), "53.4");
    prints(under("torus", torus("allreduce", "torus", &[8, 8, 8]), flat(ALPHA, RATE)), "84.3");
}

/// Groups off the grid straddle nodes, groups beside each other share NICs, a skewed MoE waits for its
/// busiest rank.
#[test]
fn row_c_22() {
    let odd = Group::new(3, 1).lies(24, 8);
    assert_eq!((odd.nodes, odd.uneven), (2, true));
    let priced = |preset: &str, keys: &[(&str, &str)]| {
        let keys: Vec<_> = keys.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let steps = load(&Machines::new(&BuiltIn), &Asked::Preset(preset), &keys).unwrap();
        price(&Registry::builtin(), &steps[0], &Tweak::default()).unwrap()
    };
    let shared = priced("ddp-7b", &[("tp", "8"), ("dp", "8"), ("nics", "4")]);
    let gradients = shared.calls.last().unwrap();
    assert_eq!((gradients.lies.beside, gradients.lies.per_node), (8, 1));
    assert!(gradients.sharing.0 > 1.0);
    let data = |skew: &str| {
        let one = &priced("deepep-ep64", &[("skew", skew)]).calls[0];
        one.total.0 - one.latency.0
    };
    same(data("1.5"), 1.5 * data("1"));
}

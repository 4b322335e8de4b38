//! The topology-free introduction (003).

use serde_json::json;

use collcost::Collective::{
    self, AllGather, AllReduce, AllToAll, Broadcast, Reduce, ReduceScatter,
};
use collcost::base::quantity::{Bandwidth, Bytes, Ratio, Seconds, SecondsPerByte, Volume};
use collcost::base::size_is::SizeIs;
use collcost::cost::bound::least_share;
use collcost::cost::crossover::Pipeline;
use collcost::cost::price::{Prepared, Price};
use collcost::library::nccl::{
    self, Algo, Chooser, Function, Place, Proto, Settings, Table, Version,
};
use collcost::library::{Call, Site, policy};
use collcost::machine::presets;
use collcost::model::algorithm::Registry;
use collcost::model::formula::{At, Rational, Relay, Shape, ceil_lg, floor_lg};
use collcost::model::schedule::{Endpoint, Frame, List, Op, Run, count, verify};
use collcost::plan;
use collcost::plan::table::{BuiltIn, Machines};

use super::{Ask, ask, batch, both, flat, flip, number, prints, same, switched};

const US: f64 = 1e-6;
const MB: f64 = 1e6;
const GB: f64 = 1e9;
/// The links of its examples: NVLink 5, 0.5 µs.
const ALPHA: f64 = 0.5e-6;
const RATE: f64 = 900e9;

fn ar(name: &str, n: u32) -> Ask {
    ask("allreduce", name, n)
}

/// A double tree with M/BW·c in the limit.
fn dbt(n: u32, c: f64) -> Ask {
    ar("dbt(asymptotic)", n).with(|p| p.c_real = Some(Ratio(c)))
}

/// ⌈lg N⌉.
fn lg(n: u32) -> f64 {
    f64::from(ceil_lg(n))
}

fn others(n: u32) -> f64 {
    f64::from(n - 1)
}

/// (N − 1)/N.
fn share(n: u32) -> f64 {
    others(n) / f64::from(n)
}

/// What `collcost batch` answers about the crossing of two all-reduces.
fn crossing(a: &str, b: &str, n: u32, c_real: f64) -> serde_json::Value {
    let asked = json!({"kind": "crossover", "primitive": "allreduce", "algorithm_a": a,
        "algorithm_b": b, "n": n, "alpha_s": ALPHA, "bandwidth_Bps": RATE, "c_real": c_real});
    batch(asked)["size_bytes"].clone()
}

/// The pipeline of a named algorithm, or of a depth, through `collcost batch`.
fn pipeline(algorithm: &str, n: u32, size: f64) -> serde_json::Value {
    batch(json!({"kind": "pipeline", "algorithm": algorithm, "n": n, "size_bytes": size,
        "alpha_s": US, "bandwidth_Bps": 100e9}))
}

/// One message: 11 µs for 1 MB.
#[test]
fn row_003_01() {
    prints(ask("sendrecv", "p2p", 2).time(MB, US, 100e9) * 1e6, "11");
}

/// Every estimate is n_α and n_β: 6 and 1.5 for a ring of four.
#[test]
fn row_003_02() {
    both(ar("ring", 4).coefficients(), (6.0, 1.5));
    let asked =
        batch(json!({"kind": "cost", "primitive": "allreduce", "algorithm": "ring", "n": 4,
        "size_bytes": 1e6, "alpha_s": US, "bandwidth_Bps": 100e9}));
    both((number(&asked, "n_alpha"), number(&asked, "n_beta")), (6.0, 1.5));
}

/// Lower bounds: (N − 1)/N one way, 2(N − 1)/N for an all-reduce, 1 where a switch adds.
#[test]
fn row_003_03() {
    for n in [2, 3, 8, 72] {
        for one_way in [AllGather, ReduceScatter, AllToAll] {
            same(least_share(one_way, n, false).0, share(n));
        }
        same(least_share(AllReduce, n, false).0, 2.0 * share(n));
        same(least_share(AllReduce, n, true).0, 1.0);
        same(ar("inc", n).coefficients().1, 1.0);
    }
}

/// Contention: α·η_α and BW·η_β.
#[test]
fn row_003_04() {
    let fabric = flat(ALPHA, RATE).contended(Ratio(1.2), Ratio(0.6));
    let time = ar("ring", 8).price(&fabric, 16.0 * MB).total().0;
    same(time, 14.0 * ALPHA * 1.2 + 1.75 * 16.0 * MB / (RATE * 0.6));
}

/// The ring all-reduce is its reduce-scatter and its all-gather.
#[test]
fn row_003_07() {
    for n in 2..=33 {
        for ring in [ar("ring", n), ar("ring", n).half_duplex()] {
            let half = |c: Collective| {
                Ask { shape: Shape { collective: c, ..ring.shape }, ..ring }.time(MB, US, GB)
            };
            same(ring.time(MB, US, GB), half(ReduceScatter) + half(AllGather));
        }
    }
}

/// An all-reduce from a reduce and a broadcast: 2⌈lg N⌉(α + M/BW), pipelined 2·M/BW in the limit.
#[test]
fn row_003_08() {
    for n in [2, 6, 64, 72] {
        let sum = |name: &str, p| {
            let one = ask("reduce", name, n).segments(p).coefficients();
            let two = ask("broadcast", name, n).segments(p).coefficients();
            (one.0 + two.0, one.1 + two.1)
        };
        both(sum("binomial", 1), (2.0 * lg(n), 2.0 * lg(n)));
        both(ar("tree", n).coefficients(), sum("binomial", 1));
        both(ar("circulant-pipelined", n).segments(9).coefficients(), sum("circulant", 9));
        prints(sum("circulant", 1 << 20).1, "2.000");
    }
}

/// An all-to-all moves data and adds nothing.
#[test]
fn row_003_09() {
    let mut seen = 0;
    for algorithm in Registry::builtin().of(AllToAll) {
        for n in [4, 8, 9] {
            let mut shape = Shape::new(AllToAll, n);
            shape.group = std::num::NonZeroU32::new(2).filter(|_| n == 8);
            if algorithm.applies(&shape).is_ok() {
                seen += 1;
                same(algorithm.price(&At::numbers(shape)).total().gamma, 0.0);
            }
        }
    }
    assert!(seen > 8);
    assert!(!AllToAll.reduces());
}

/// The chain: (N + P − 2)·τ, on half-duplex ports (N − 1 + 2(P − 1))·τ.
#[test]
fn row_003_11() {
    both(ask("broadcast", "chain", 4).segments(4).coefficients(), (6.0, 1.5));
    for (n, p) in [(3, 2), (4, 4), (8, 5), (64, 31)] {
        let chain = ask("broadcast", "chain", n).segments(p);
        let (slots, parts) = (f64::from(n + p - 2), f64::from(p));
        both(chain.coefficients(), (slots, slots / parts));
        let turns = f64::from(n - 1 + 2 * (p - 1));
        both(chain.half_duplex().coefficients(), (turns, turns / parts));
    }
}

const CHAIN_SIZE: f64 = 16_777_216.0;

fn chain_of_8() -> (Prepared, Price) {
    let prepared = ask("broadcast", "chain", 8).on(&flat(US, 100e9));
    (prepared, prepared.price(Volume(CHAIN_SIZE)))
}

/// Its best number of segments: 31.73, so 32; never less than one.
#[test]
fn row_003_12() {
    let (prepared, price) = chain_of_8();
    prints(prepared.best_segments(Volume(CHAIN_SIZE)).unwrap().0, "31.73");
    assert_eq!(price.segments, 32);
    let time = |p| ask("broadcast", "chain", 8).segments(p).time(CHAIN_SIZE, US, 100e9);
    assert!(time(31) > time(32) && time(33) > time(32));
    assert_eq!(prepared.price(Volume(1.0)).segments, 1);
}

/// Its limit (N − 1)α + M/BW, and what it costs exactly at P*.
#[test]
fn row_003_13() {
    let answer = pipeline("chain", 8, CHAIN_SIZE);
    let x = CHAIN_SIZE / 100e9;
    same(number(&answer, "asymptotic_s"), 7.0 * US + x);
    same(number(&answer, "time_at_real_s"), 6.0 * US + x + 2.0 * (6.0 * US * x).sqrt());
    // The whole number costs hardly more than the real one, and no less.
    let (_, price) = chain_of_8();
    let real = number(&answer, "time_at_real_s");
    assert!(price.total().0 >= real && price.total().0 < 1.0001 * real);
    same(price.total().0, number(&answer, "time_at_int_s"));
}

/// The √ correction: 63.455 µs (63.46 with M/BW rounded to 167.8 µs first).
#[test]
fn row_003_14() {
    let correction = |size| number(&pipeline("chain", 8, size), "correction_s") * 1e6;
    prints(correction(CHAIN_SIZE), "63.455");
    prints(correction(167.8e-6 * 100e9), "63.46");
}

/// n_α and n_β of that limit: N − 1 and 1.
#[test]
fn row_003_15() {
    for n in [4, 8, 64] {
        let at = |size| number(&pipeline("chain", n, size), "asymptotic_s");
        same(at(0.0) / US, others(n));
        same((at(GB) - at(0.0)) / (GB / 100e9), 1.0);
        prints(ask("broadcast", "chain", n).segments(1 << 24).coefficients().1, "1.0000");
    }
}

/// The binomial broadcast: ⌈lg N⌉(α + M/BW) at any N, on full- and half-duplex ports.
#[test]
fn row_003_18() {
    for n in 2..=130 {
        let tree = ask("broadcast", "binomial", n).segments(1);
        both(tree.coefficients(), (lg(n), lg(n)));
        both(tree.half_duplex().coefficients(), (lg(n), lg(n)));
    }
}

/// Pipelined, it is printed as (L + P − 1)·τ; one port makes that P·L·τ, unbounded ports
/// (⌊lg N⌋ + P − 1)·τ, and the circulant schedule reaches the print on one port.
#[test]
fn row_003_19() {
    for (n, p) in [(8, 4), (12, 7), (64, 16), (72, 5)] {
        let segments = f64::from(p);
        let slots = |slots: f64| (slots, slots / segments);
        let tree = |form: &str| ask("broadcast", &format!("binomial{form}"), n).segments(p);
        both(tree("(paper)").coefficients(), slots(lg(n) + segments - 1.0));
        both(tree("").coefficients(), slots(lg(n) * segments));
        let wide = f64::from(floor_lg(n)) + segments - 1.0;
        both(tree("").ports(0).coefficients(), slots(wide));
        let circulant = ask("broadcast", "circulant", n).segments(p);
        both(circulant.coefficients(), tree("(paper)").coefficients());
    }
    let star = number(&pipeline("binomial", 64, CHAIN_SIZE), "pstar_real");
    same(star, (5.0 * CHAIN_SIZE / 100e9 / US).sqrt());
}

/// Its √ correction.
#[test]
fn row_003_20() {
    let x = CHAIN_SIZE / 100e9;
    let correction = number(&pipeline("binomial", 64, CHAIN_SIZE), "correction_s");
    same(correction, 2.0 * (5.0 * US * x).sqrt());
    let circulant = ask("broadcast", "circulant", 64).time(CHAIN_SIZE, US, 100e9);
    let limit = 5.0 * US + x + correction;
    assert!(circulant >= limit && circulant < 1.001 * limit);
}

/// The pipelined binomial root talks to ⌈lg N⌉ partners at once, not to three.
#[test]
fn row_003_21() {
    for n in [8, 64, 72, 512] {
        let tree = ask("broadcast", "binomial", n).segments(8);
        assert_eq!(tree.algorithm().ports_needed(&tree.shape), ceil_lg(n));
    }
    let one = ask("broadcast", "binomial", 64).segments(1);
    assert_eq!(one.algorithm().ports_needed(&one.shape), 1);
}

/// Multicast by the switch: 1.5111 µs for 1 MB.
#[test]
fn row_003_22() {
    let fabric = switched(ALPHA, RATE, 0.2e-6);
    let time = ask("broadcast", "inc", 64).price(&fabric, MB).total().0;
    prints(time * 1e6, "1.5111");
}

/// α_sw as sources give it.
#[test]
fn row_003_23() {
    let hop = |name| presets::find(presets::SWITCH_HOPS, name).unwrap();
    assert_eq!((hop("nvswitch").low, hop("nvswitch").high), (Seconds(100e-9), Seconds(200e-9)));
    assert_eq!(hop("tomahawk-ultra").low, Seconds(250e-9));
    assert!(
        presets::find(presets::SWITCH_HOPS, "nvswich")
            .unwrap_err()
            .to_string()
            .contains("`nvswitch`")
    );
    let fabric = switched(ALPHA, RATE, hop("tomahawk-ultra").high.0);
    prints(ar("inc", 64).price(&fabric, 0.0).total().0 * 1e9, "500");
}

/// A switch that multicasts but cannot add, such as PCIe's, serves broadcast and all-gather only.
#[test]
fn row_003_26() {
    let mut fabric = switched(ALPHA, RATE, 150e-9);
    fabric.tiers[0].switch.as_mut().unwrap().alu = false;
    let refusal = |collective: &str| {
        let ask = ask(collective, "inc", 8);
        Prepared::new(ask.algorithm(), &ask.shape, &fabric).err().map(|e| e.to_string())
    };
    assert_eq!(refusal("broadcast"), None);
    assert_eq!(refusal("allgather"), None);
    for collective in ["allreduce", "reduce", "reducescatter"] {
        assert!(refusal(collective).unwrap().contains("cannot add"), "{collective}");
    }
}

/// The chain reduce costs what the broadcast costs.
#[test]
fn row_003_28() {
    for (n, p) in [(4, 4), (8, 32), (17, 3)] {
        let pair = ["reduce", "broadcast"].map(|c| ask(c, "chain", n).segments(p).coefficients());
        both(pair[0], pair[1]);
        both(pair[0], (f64::from(n + p - 2), f64::from(n + p - 2) / f64::from(p)));
    }
    let best = |c: &str| ask(c, "chain", 8).price(&flat(US, 100e9), CHAIN_SIZE);
    assert_eq!(best("reduce").segments, 32);
    same(best("reduce").total().0, best("broadcast").total().0);
}

/// Adding is free unless γ is given.
#[test]
fn row_003_29() {
    let mut fabric = flat(US, 100e9);
    let ring = ar("ring", 64);
    let free = ring.price(&fabric, GB);
    assert_eq!(free.compute, None);
    fabric.gamma = Some(SecondsPerByte(1e-12));
    let paid = ring.price(&fabric, GB);
    // Each rank adds N − 1 chunks of M/N.
    same(paid.compute.unwrap().0, share(64) * 1e-3);
    same(paid.total().0 - free.total().0, share(64) * 1e-3);
    fabric.gamma = Some(SecondsPerByte(0.0));
    same(ring.price(&fabric, GB).total().0, free.total().0);
}

/// The chain is never picked towards a root: no size, no number of ranks, no machine of α and β.
#[test]
fn row_003_30() {
    for (alpha, rate) in [(1e-7, 1e12), (ALPHA, RATE), (1e-5, 1e10), (1e-3, 1e8)] {
        let site = Site { fabric: Some(flat(alpha, rate)), ..Site::default() };
        let rules = policy("textbook", &site).unwrap();
        for ranks in 2..=64 {
            for size in (0..40).map(|k| Bytes(1 << k)) {
                let choice = rules.choose(&Call::new(Reduce, ranks, size)).unwrap();
                assert_eq!(choice.name, "binomial tree", "{ranks} ranks, {size}");
            }
        }
    }
}

/// The binomial reduce, and its limit ⌈lg N⌉α + M/BW, which the circulant reduce reaches.
#[test]
fn row_003_32() {
    for n in [2, 4, 6, 64, 72] {
        both(ask("reduce", "binomial", n).segments(1).coefficients(), (lg(n), lg(n)));
        let p = 1 << 20;
        let circulant = ask("reduce", "circulant", n).segments(p).coefficients();
        both(circulant, (lg(n) + f64::from(p) - 1.0, (lg(n) - 1.0) / f64::from(p) + 1.0));
    }
    same(number(&pipeline("binomial", 64, GB), "asymptotic_s"), 6.0 * US + GB / 100e9);
}

/// In the switch: two hops and M/BW; one hop where the companion notes count so.
#[test]
fn row_003_33() {
    let reduce = ask("reduce", "inc", 64);
    both(reduce.coefficients(), (2.0, 1.0));
    both(reduce.with(|p| p.switch_hops = Some(1)).coefficients(), (1.0, 1.0));
}

/// With the same pipeline, a tree of depth ⌈lg N⌉ beats the chain for every size: nothing crosses.
#[test]
fn row_003_35() {
    for n in [8, 64, 72] {
        let pair = |name| ask("reduce", name, n);
        assert_eq!(flip(pair("circulant"), pair("chain"), US, 100e9), None);
        assert_eq!(flip(pair("chain"), pair("circulant"), US, 100e9), None);
        let asked = json!({"kind": "crossover", "primitive": "reduce", "n": n, "segments": 16,
            "algorithm_a": "binomial(paper)", "algorithm_b": "chain",
            "alpha_s": US, "bandwidth_Bps": 100e9});
        assert_eq!(batch(asked)["size_bytes"], "none");
        // The binomial tree itself does not pipeline on one port: there the chain wins large ones.
        assert!(flip(pair("binomial"), pair("chain"), US, 100e9).is_some());
    }
}

/// On one port a pipelined reduce and broadcast is no worse than the double tree: both 2·M/BW.
#[test]
fn row_003_36() {
    let p = 1 << 22;
    for n in [8, 64, 72] {
        let half = |c| ask(c, "circulant", n).segments(p).coefficients().1;
        prints(half("reduce") + half("broadcast"), "2.000");
        same(ar("dbt(asymptotic)", n).coefficients().1, 2.0);
        prints(ar("dbt", n).segments(p).coefficients().1, "2.000");
        same(ar("dbt(asymptotic)", n).ports(2).coefficients().1, 1.0);
    }
}

/// Each phase of a ring of four: 3α + 3/4·M/BW.
#[test]
fn row_003_39() {
    for collective in ["reducescatter", "allgather"] {
        both(ask(collective, "ring", 4).coefficients(), (3.0, 0.75));
    }
}

/// The ring: 2(N − 1)α + 2(N − 1)/N·M/BW.
#[test]
fn row_003_40() {
    for n in 2..=130 {
        both(ar("ring", n).coefficients(), (2.0 * others(n), 2.0 * share(n)));
    }
}

/// The ring has no P: twice the chunks, Gloo's ring, only doubles α.
#[test]
fn row_003_41() {
    let ring = ar("ring", 8);
    assert!(!ring.algorithm().is_pipelined());
    assert_eq!(ring.on(&flat(US, 100e9)).best_segments(Volume(GB)), None);
    both(ring.segments(16).coefficients(), ring.coefficients());
    let chunked = ar("gloo_ring_chunked", 8).coefficients();
    both(chunked, (4.0 * others(8), ring.coefficients().1));
}

/// Three variants of the tree.
#[test]
fn row_003_42() {
    both(ar("recursive_doubling", 8).coefficients(), (3.0, 3.0));
    both(ar("rabenseifner", 8).coefficients(), (6.0, 1.75));
    both(ar("dbt(paper)", 8).coefficients(), (6.0, 3.0));
}

/// The single tree: the seed's four ranks are binomial; a heap takes 4(⌈lg N⌉ − 1) on one port.
#[test]
fn row_003_44() {
    both(ar("tree", 4).coefficients(), (4.0, 4.0));
    for m in 2..=9 {
        let heap = ar("single_binary_tree", 1 << m).segments(1);
        both(heap.coefficients(), (4.0 * f64::from(m - 1), 4.0 * f64::from(m - 1)));
        let printed = ar("single_binary_tree(paper)", 1 << m).segments(1);
        both(printed.coefficients(), (2.0 * f64::from(m), 2.0 * f64::from(m)));
    }
}

/// The double tree without a pipeline: the print holds on two ports, one port takes 4·lg N − 2.
#[test]
fn row_003_47() {
    for m in 2..=9 {
        let (tree, levels) = (ar("dbt", 1 << m).segments(1), f64::from(m));
        both(ar("dbt(paper)", 1 << m).coefficients(), (2.0 * levels, levels));
        for k in [2, 3, 0] {
            both(tree.ports(k).coefficients(), (2.0 * levels, levels));
        }
        let rounds = 4.0 * levels - 2.0;
        both(tree.coefficients(), (rounds, rounds / 2.0));
    }
    both(ar("dbt", 4).segments(1).coefficients(), (6.0, 3.0));
}

/// Pipelined: 2⌈lg N⌉α + c·M/BW with c = 2 on one port and 1 on two, its two partners at a time.
#[test]
fn row_003_48() {
    for n in [8, 64, 72, 512] {
        let limit = ar("dbt(asymptotic)", n);
        both(limit.coefficients(), (2.0 * lg(n), 2.0));
        both(limit.ports(2).coefficients(), (2.0 * lg(n), 1.0));
        prints(ar("dbt", n).ports(2).segments(1 << 20).coefficients().1, "1.000");
        assert_eq!(limit.algorithm().ports_needed(&limit.shape), 2);
    }
}

/// The printed √ correction, and that of the master formula with segments of M/(2P).
#[test]
fn row_003_49() {
    let (n, x) = (64, 1.6e-3);
    let printed = pipeline("dbt", n, x * 100e9);
    same(number(&printed, "correction_s"), 2.0 * ((2.0 * lg(n) - 1.0) * US * x).sqrt());
    let depth = 2 * ceil_lg(n);
    let halves = Pipeline { depth, alpha: Seconds(US), transfer: Seconds(x / 2.0) };
    let fill = f64::from(depth - 1);
    same(halves.correction().0, (2.0 * fill * US * x).sqrt());
    same(halves.best_real().0, (fill * x / (2.0 * US)).sqrt());
    same(halves.time_at_real().0, fill * US + x / 2.0 + (2.0 * fill * US * x).sqrt());
}

/// All-reduce in the switch: 18.78 µs for 16 MB.
#[test]
fn row_003_51() {
    let fabric = switched(ALPHA, RATE, 0.5e-6);
    prints(ar("inc", 512).price(&fabric, 16.0 * MB).total().0 * 1e6, "18.78");
}

/// With c = 1 the double tree beats the ring at every size: nothing crosses.
#[test]
fn row_003_53() {
    for n in [8, 72, 512] {
        assert_eq!(crossing("dbt(asymptotic)", "ring", n, 1.0), "none");
        assert_eq!(crossing("ring", "dbt(asymptotic)", n, 1.0), "none");
    }
}

/// With c = 2 it loses from 2.0736 GB on over 72 ranks, from 115.66 GB over 512.
#[test]
fn row_003_54() {
    for (n, size) in [(72, 2_073_600_000.0), (512, 115_660_800_000.0)] {
        same(crossing("dbt(asymptotic)", "ring", n, 2.0).as_f64().unwrap(), size);
    }
}

/// The crossing moves to infinity as c comes down to 2(N − 1)/N, and is none below.
#[test]
fn row_003_55() {
    let least = 2.0 * share(72);
    assert_eq!(crossing("dbt(asymptotic)", "ring", 72, 1.9), "none");
    assert_eq!(crossing("dbt(asymptotic)", "ring", 72, least), "none");
    let near = |gap| crossing("dbt(asymptotic)", "ring", 72, least + gap).as_f64().unwrap();
    same(near(1e-6) / near(1e-3), 1e3);
}

/// With the √ term the crossing is at 127 MB, not 2 GB; an edge-coloured one-port schedule loses
/// from about 32 MB on.
#[test]
fn row_003_56() {
    // (2L − 1)α + 2·M/BW + 2√((2L − 1)·α·M/BW) against the ring.
    let with_root = |n: u32| {
        let ring = ar("ring", n).on(&flat(ALPHA, RATE));
        let gap = |size: f64| {
            let transfer = Volume(size) / Bandwidth(RATE);
            let tree = Pipeline { depth: 2 * ceil_lg(n), alpha: Seconds(ALPHA), transfer };
            (tree.time_at_real() + transfer).0 - ring.time(Volume(size)).0
        };
        let (mut low, mut high) = (1.0, 1e12);
        while high / low > 1.0 + 1e-9 {
            let middle = f64::sqrt(low * high);
            if gap(middle) < 0.0 { low = middle } else { high = middle }
        }
        high
    };
    prints(with_root(72) / MB, "127.0");
    prints(with_root(512) / GB, "6.01");
    // The engine's own schedule: S slots for one segment, 28 and 43 are the shortest known.
    let coloured = |n| flip(ar("dbt", n), ar("ring", n), ALPHA, RATE).unwrap();
    assert!((coloured(72) / 31.6e6 - 1.0).abs() < 0.1, "{:e}", coloured(72));
    assert!((coloured(512) / 1.36e9 - 1.0).abs() < 0.1, "{:e}", coloured(512));
}

/// Ring all-gather and reduce-scatter, M in all.
#[test]
fn row_003_57() {
    for n in 2..=130 {
        for collective in ["allgather", "reducescatter"] {
            both(ask(collective, "ring", n).coefficients(), (others(n), share(n)));
        }
    }
}

/// M is the total: eight shards of 1 MB are M = 8 MB.
#[test]
fn row_003_58() {
    let per_rank: SizeIs = "per-rank".parse().unwrap();
    let total = per_rank.total(AllGather, 8, Bytes(1_000_000)).unwrap();
    assert_eq!(total, Bytes(8_000_000));
    // Seven messages of one shard.
    let time = ask("allgather", "ring", 8).time(total.0 as f64, US, 100e9);
    same(time, 7.0 * (US + MB / 100e9));
}

/// A switch does help all-gather and reduce-scatter: α, not bandwidth.
#[test]
fn row_003_60() {
    for n in [8, 72, 512] {
        for collective in ["allgather", "reducescatter"] {
            both(ask(collective, "inc", n).coefficients(), (2.0, share(n)));
            same(ask(collective, "ring", n).coefficients().1, share(n));
        }
    }
}

/// PAT runs between nodes of one rank: the rules refuse it where a node has more, or all are on one.
#[test]
fn row_003_61() {
    let site = Site { fabric: Some(flat(ALPHA, RATE)), ..Site::default() };
    let rules = policy("textbook", &site).unwrap();
    for collective in [AllGather, ReduceScatter] {
        for (ranks, nodes) in [(8, 8), (7, 7), (64, 8), (16, 8), (8, 1)] {
            let call = Call { nodes, ..Call::new(collective, ranks, Bytes(1 << 20)) };
            let pat = rules.choose(&call).unwrap().name == "PAT";
            assert_eq!(pat, ranks == nodes, "{ranks} ranks on {nodes} nodes");
        }
    }
}

/// An all-to-all moves (N − 1)·M in all: 3M over four ranks.
#[test]
fn row_003_62() {
    for n in [2, 4, 9] {
        same(f64::from(n) * ask("alltoall", "pairwise", n).sent(), others(n));
    }
    same(4.0 * ask("alltoall", "pairwise", 4).sent(), 3.0);
}

/// The printed ring relay, (N − 1)α + (N − 1)/N·M/BW, is right for 2, 4 and 7 ranks only: there
/// the busiest way carries h(h + 1)/2 = N − 1 blocks, h = ⌊N/2⌋.
#[test]
fn row_003_64() {
    for n in 2..=64 {
        let relay = ask("alltoall", "ring_relay", n);
        let chunk = relay.with(|p| p.relay = Relay::Chunk);
        let printed = (others(n), share(n));
        both(ask("alltoall", "ring_relay(paper)", n).coefficients(), printed);
        let half = f64::from(n / 2);
        let hops = half * (half + 1.0) / 2.0;
        both(chunk.ports(2).coefficients(), (hops, hops / f64::from(n)));
        let right = (chunk.ports(2).coefficients().0 - printed.0).abs() < 1e-9;
        assert_eq!(right, [2, 4, 7].contains(&n), "{n}");
        both(relay.ports(2).coefficients(), (half, hops / f64::from(n)));
        let square = f64::from(n * n / 4);
        both(relay.coefficients(), (others(n), square / f64::from(n)));
    }
}

/// Pairwise: (N − 1)(α + M/(N·BW)); there and back for a mixture of experts.
#[test]
fn row_003_66() {
    for n in [2, 3, 8, 72] {
        let pairwise = ask("alltoall", "pairwise", n);
        both(pairwise.coefficients(), (others(n), share(n)));
        let round_trip = 2.0 * pairwise.time(MB, US, 100e9);
        same(round_trip, 2.0 * others(n) * (US + MB / f64::from(n) / 100e9));
    }
}

/// An all-to-all by the switch saves α only: about 18 µs over 72 ranks.
#[test]
fn row_003_69() {
    let fabric = switched(ALPHA, RATE, 0.2e-6);
    let inc = ask("alltoall", "hw-all-to-all", 72);
    both(inc.coefficients(), (2.0, share(72)));
    let price = inc.price(&fabric, 16.0 * MB);
    prints(price.total().0 * 1e6, "18");
    same(price.bandwidth.0, ask("alltoall", "pairwise", 72).price(&fabric, 16.0 * MB).bandwidth.0);
}

/// The ring's latency over 512 ranks at 2 µs: 1.022 ms.
#[test]
fn row_003_76() {
    let price = ask("allgather", "ring", 512).price(&flat(2.0 * US, 100e9), GB);
    prints(price.latency.0 * 1e3, "1.022");
}

fn pat(n: u32, most: u32) -> Ask {
    ask("allgather", "pat", n).with(|p| p.aggregation = std::num::NonZeroU32::new(most))
}

/// PAT as its appendix draws it, one selected chunk a rank in each of ⌈lg N⌉ rounds: every rank
/// ends with 4 chunks of 8.
#[test]
fn row_003_78() {
    let n = 8;
    let mut list = List::new(Frame::new(AllGather, n, n, 0));
    for (round, distance) in [(0, 4), (1, 2), (2, 1)] {
        for rank in 0..n {
            let [from, to] = [rank, (rank + distance) % n].map(Endpoint::Rank);
            list.push(round, from, to, Op::Copy, &[Run::one(rank)]);
        }
    }
    let fault = verify(&list).unwrap_err();
    assert_eq!(fault.to_string(), "at the end rank 0 does not hold chunk 1");
    assert_eq!(count(&list, 1).max_received * 8, Rational::from_integer(3));
    // What does work with one chunk a message takes N − 1 rounds.
    assert_eq!(pat(n, 1).coefficients().0, 7.0);
}

/// PAT with full aggregation: ⌈lg N⌉α + (N − 1)/N·M/BW.
#[test]
fn row_003_79() {
    for n in [2, 6, 8, 64, 72] {
        both(pat(n, 0).coefficients(), (lg(n), share(n)));
    }
    // N = 2^k, at most a chunks a message: lg a + N/a − 1 rounds.
    for (most, rounds) in [(1, 63.0), (2, 32.0), (8, 10.0), (32, 6.0)] {
        both(pat(64, most).coefficients(), (rounds, share(64)));
    }
}

/// One chunk a message makes it N − 1 rounds, as the ring.
#[test]
fn row_003_80() {
    for n in 2..=72 {
        both(pat(n, 1).coefficients(), ask("allgather", "ring", n).coefficients());
    }
}

/// NCCL considers PAT since 2.23, for all-gather and reduce-scatter, with one rank a node.
#[test]
fn row_003_82() {
    for (id, version, considers) in [
        ("dgx_h100_8x400g.p1.n8", "2.30.7", true),
        ("dgx_h100_8x400g.p1.n7", "2.27.3", true),
        ("dgx_h100_8x400g.p1.n8", "2.21.5", false),
        ("dgx_h100_8x400g.p8.n8", "2.30.7", false),
        ("dgx_h100_8x400g.p2.n8", "2.27.3", false),
        ("dgx_h100_8x400g.p8.n1", "2.30.7", false),
    ] {
        let version: Version = version.parse().unwrap();
        let comm = Place::named(id).unwrap().communicator().unwrap();
        let table = Table::new(&comm, version, &Settings::default()).unwrap();
        let chooser = Chooser::new(&comm, version, &table, nccl::Reduction::default());
        for function in [Function::AllGather, Function::ReduceScatter] {
            assert_eq!(chooser.considers(function, Algo::Pat, Proto::Simple), considers, "{id}");
        }
        assert!(!chooser.considers(Function::AllReduce, Algo::Pat, Proto::Simple), "{id}");
    }
}

/// Recursive doubling sends 4.509 times the ring's data over 512 ranks.
#[test]
fn row_003_84() {
    let ratio = ar("recursive_doubling", 512).coefficients().1 / ar("ring", 512).coefficients().1;
    prints(ratio, "4.509");
}

/// Rabenseifner's print holds for 2^k ranks.
#[test]
fn row_003_86() {
    for n in 2..=64 {
        let printed = (2.0 * lg(n), 2.0 * share(n));
        both(ar("rabenseifner(paper)", n).coefficients(), printed);
        assert_eq!(ar("rabenseifner", n).coefficients() == printed, n.is_power_of_two(), "{n}");
    }
}

/// Other N: two more α and two more vectors than the 2^k ranks that remain.
#[test]
fn row_003_87() {
    for n in [3, 6, 7, 48, 72] {
        let kept = ar("rabenseifner", 1 << floor_lg(n)).coefficients();
        both(ar("rabenseifner(fold)", n).coefficients(), (kept.0 + 2.0, kept.1 + 2.0));
    }
}

/// Recursive doubling is better than the double tree up to 506 250 bytes over 512 ranks.
#[test]
fn row_003_89() {
    let at = crossing("recursive_doubling", "dbt(asymptotic)", 512, 1.0);
    same(at.as_f64().unwrap(), 506_250.0);
}

/// Rabenseifner loses to the double tree at any size with c = 1, and wins with c = 2.
#[test]
fn row_003_90() {
    for n in [8, 64, 512] {
        for pair in [("rabenseifner", "dbt(asymptotic)"), ("dbt(asymptotic)", "rabenseifner")] {
            assert_eq!(crossing(pair.0, pair.1, n, 1.0), "none");
        }
        for size in [1.0, MB, GB] {
            let halves = ar("rabenseifner", n).time(size, ALPHA, RATE);
            assert!(dbt(n, 1.0).time(size, ALPHA, RATE) < halves);
            assert!(dbt(n, 2.0).time(size, ALPHA, RATE) > halves);
        }
    }
}

/// Bruck: ⌈lg N⌉α and Σ popcount(j)·M/N, which is ⌈lg N⌉/2·M for 2^k ranks only.
#[test]
fn row_003_94() {
    both(ask("alltoall", "bruck", 4).coefficients(), (2.0, 1.0));
    for n in 2..=130_u32 {
        let ones: u32 = (0..n).map(u32::count_ones).sum();
        let exact = ask("alltoall", "bruck", n).coefficients();
        both(exact, (lg(n), f64::from(ones) / f64::from(n)));
        let printed = ask("alltoall", "bruck(paper)", n).coefficients();
        both(printed, (lg(n), lg(n) / 2.0));
        assert_eq!(exact == printed, n.is_power_of_two(), "{n}");
    }
    prints(ask("alltoall", "bruck", 72).coefficients().1, "2.944");
}

/// Bruck against pairwise: 4·α·BW for four ranks, 143·α·BW for 512.
#[test]
fn row_003_95() {
    let at =
        |n| flip(ask("alltoall", "bruck", n), ask("alltoall", "pairwise", n), 1.0, 1.0).unwrap();
    same(at(4), 4.0);
    for (n, text) in [(8, "6.4"), (64, "28.3"), (72, "32.7"), (512, "143")] {
        prints(at(n), text);
    }
}

/// The master formula (L + P − 1)(α + M/(P·BW)).
#[test]
fn row_003_97() {
    for (n, p) in [(8, 1), (8, 5), (72, 12)] {
        let transfer = Volume(GB) / Bandwidth(100e9);
        let depth = ceil_lg(n);
        let master = Pipeline { depth, alpha: Seconds(US), transfer };
        let schedule = ask("broadcast", "circulant", n).segments(p).time(GB, US, 100e9);
        same(master.time(p).0, schedule);
        let chain = Pipeline { depth: n - 1, ..master };
        same(chain.time(p).0, ask("broadcast", "chain", n).segments(p).time(GB, US, 100e9));
    }
}

/// Three slots deep: 3α + 3x, 5α + 1.667x, 12α + 1.2x.
#[test]
fn row_003_99() {
    for (p, slots, volume) in [(1, 3.0, "3.000"), (3, 5.0, "1.667"), (10, 12.0, "1.200")] {
        let answer = batch(json!({"kind": "pipeline_table", "depth": 3, "segments": p}));
        same(number(&answer, "n_alpha"), slots);
        prints(number(&answer, "n_beta"), volume);
        // A chain of four ranks is three slots deep.
        let chain = ask("broadcast", "chain", 4).segments(p).coefficients();
        both(chain, (slots, number(&answer, "n_beta")));
    }
}

/// P* and T(P*), whose print is one α too high; the whole P is the better neighbour, at least 1.
#[test]
fn row_003_100() {
    let of = |depth, x| Pipeline { depth, alpha: Seconds(US), transfer: Seconds(x) };
    for depth in [2, 3, 7, 63] {
        for x in [1e-7, 3e-6, 1e-4, 1e-2] {
            let pipeline = of(depth, x);
            let fill = f64::from(depth - 1);
            same(pipeline.best_real().0, (fill * x / US).sqrt());
            let root = 2.0 * (fill * US * x).sqrt();
            same(pipeline.time_at_real().0, fill * US + x + root);
            let best = pipeline.time(pipeline.best()).0;
            for p in 1..2000 {
                assert!(best <= pipeline.time(p).0 * (1.0 + 1e-12), "{depth} {x} {p}");
            }
            let printed = f64::from(depth) * US + x + root;
            assert!(pipeline.best_real().0 < 1.0 || best <= printed);
        }
    }
    assert_eq!(of(7, 0.0).best(), 1);
}

/// Fewer ports than partners: transfers take turns.
#[test]
fn row_003_101() {
    for (k, rounds) in [(1, 14.0), (2, 8.0), (3, 6.0), (7, 2.0), (0, 2.0)] {
        both(ar("naive", 8).ports(k).coefficients(), (rounds, rounds));
    }
    // A pipeline that one port cannot feed: P·L slots instead of ⌊lg N⌋ + P − 1.
    let tree = ask("broadcast", "binomial", 16).segments(10);
    both(tree.coefficients(), (40.0, 4.0));
    both(tree.ports(0).coefficients(), (13.0, 1.3));
    // One that it can: ports change nothing.
    let chain = ask("broadcast", "chain", 16).segments(10);
    both(chain.coefficients(), chain.ports(4).coefficients());
}

fn price(seconds: f64) -> Price {
    let none = Seconds(0.0);
    Price { segments: 1, latency: none, bandwidth: Seconds(seconds), compute: None, launch: none }
}

/// algbw: 1 GB in 10 ms is 100 GB/s.
#[test]
fn row_003_105() {
    same(price(10e-3).algbw(Volume(GB)).0, 100e9);
}

/// busbw factors as nccl-tests has them: broadcast is 1.
#[test]
fn row_003_106() {
    for n in [2, 8, 100] {
        same(AllReduce.busbw_factor(n).0, 2.0 * share(n));
        for collective in [AllGather, ReduceScatter, AllToAll] {
            same(collective.busbw_factor(n).0, share(n));
        }
        same(Reduce.busbw_factor(n).0, 1.0);
        same(Broadcast.busbw_factor(n).0, 1.0);
    }
}

/// 100 ranks, algbw 450 GB/s: busbw 891 GB/s.
#[test]
fn row_003_107() {
    let busbw = price(1.0 / 450e9 * GB).busbw(Volume(GB), AllReduce, 100);
    prints(busbw.0 / 1e9, "891");
    let asked = json!({"kind": "busbw", "primitive": "allreduce", "n": 100, "algbw_Bps": 450e9});
    same(number(&batch(asked), "busbw_Bps"), 891e9);
}

/// In the switch n_α is 2 however many ranks there are.
#[test]
fn row_003_110() {
    for n in 2..=512 {
        both(ar("inc", n).coefficients(), (2.0, 1.0));
    }
}

/// The floor of 2(N − 1)/N·M is one on the average rank: leaves of a tree send and receive less.
#[test]
fn row_003_111() {
    for n in [4, 8, 64] {
        for name in ["ring", "tree"] {
            let ask = ar(name, n);
            let counted = count(&*ask.algorithm().schedule(&ask.shape).unwrap(), 1);
            let total = *counted.total.numer() as f64 / *counted.total.denom() as f64;
            // All ranks together send 2(N − 1)·M.
            same(total, 2.0 * others(n));
            same(total / f64::from(n), least_share(AllReduce, n, false).0);
        }
        // The ring shares it out evenly; the busiest rank of the tree sends more than the floor.
        same(ar("ring", n).sent(), 2.0 * share(n));
        assert!(ar("tree", n).sent() > 1.99 * share(n) || n == 4);
    }
}

/// Any N: every algorithm prices 6 and 72 ranks, or says in words why not.
#[test]
fn row_003_113() {
    for algorithm in Registry::builtin().iter() {
        for &collective in algorithm.meta().collectives {
            for n in [6, 72] {
                let shape = Shape::new(collective, n);
                match algorithm.applies(&shape) {
                    Ok(()) => {
                        let cost = algorithm.price(&At::numbers(shape)).total();
                        assert!(cost.alpha + cost.switch > 0.0, "{}", algorithm.meta().id);
                    }
                    Err(why) => assert!(why.to_string().len() > 10, "{}", algorithm.meta().id),
                }
            }
        }
    }
    for name in ["ring", "tree", "rabenseifner", "recursive_doubling", "dbt", "circulant_rs_ag"] {
        assert_eq!(ar(name, 72).refusal(), None);
    }
}

/// A decoding step with `more`, over links of 1 µs and 100 GB/s.
fn decode(more: serde_json::Value) -> f64 {
    let mut question =
        json!({"kind": "step", "mode": "decode", "alpha_s": US, "bandwidth_Bps": 100e9});
    question.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    number(&batch(question), "time_s")
}

/// A hop is α + M/BW, and P stages have P − 1.
#[test]
fn row_003_70() {
    same(decode(json!({"pp": 5, "pp_bytes": MB})), 4.0 * (US + 10.0 * US));
}

/// A mode has the words that plans know.
#[test]
fn decoding_has_one_list_of_words() {
    let of = |mode: &str| decode(json!({"pp": 5, "pp_bytes": MB, "mode": mode}));
    assert!(["decoding", "inference"].iter().all(|mode| of(mode) == of("decode")));
}

/// The step of a preset with keys.
fn planned(preset: &str, keys: &[(&str, &str)]) -> Vec<plan::Call> {
    let keys: Vec<_> = keys.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let machines = Machines::new(&BuiltIn);
    let steps = plan::load(&machines, &plan::Asked::Preset(preset), &keys);
    plan::calls(&steps.unwrap_or_else(|faults| panic!("{faults:?}"))[0])
}

/// Which axis needs which collective.
#[test]
fn row_003_71() {
    let deep = planned("deepseek-v3", &[("tp", "2"), ("cp", "2")]);
    let of = |axis: plan::Axis| -> Vec<Collective> {
        deep.iter().filter(|c| c.axis == axis).map(|c| c.collective).collect()
    };
    assert!(of(plan::Axis::Tp).iter().all(|c| *c == AllReduce));
    assert!(of(plan::Axis::Cp).contains(&AllGather));
    assert_eq!(of(plan::Axis::Ep), [AllToAll; 4]);
    assert_eq!(of(plan::Axis::Pp), [Collective::SendRecv; 2]);
    assert_eq!(planned("ddp-7b", &[])[0].collective, AllReduce);
}

/// Inference sums no gradients.
#[test]
fn row_003_72() {
    assert!(planned("decode-70b-tp8", &[("dp", "4")]).iter().all(|c| c.axis != plan::Axis::Dp));
}

/// One all-reduce a TP layer, one all-gather an SP layer, two all-to-alls a MoE layer, a hop a stage.
#[test]
fn row_003_73() {
    let size = 64e3;
    let of = |collective: &str, name: &str, n: u32| ask(collective, name, n).time(size, US, 100e9);
    let whole = decode(
        json!({"tp": 8, "tp_layers": 80, "tp_bytes": size, "sp": 4, "sp_layers": 40,
        "sp_bytes": size, "ep": 16, "moe_layers": 10, "ep_bytes": size, "pp": 4, "pp_bytes": size}),
    );
    let parts = 80.0 * of("allreduce", "ring", 8) + 40.0 * of("allgather", "ring", 4);
    let parts = parts + 20.0 * of("alltoall", "pairwise", 16) + 3.0 * of("sendrecv", "p2p", 2);
    same(whole, parts);
}

/// Training adds all-gathers and reduce-scatters a layer, and the gradients' sum once a step, however
/// many micro-batches are accumulated.
#[test]
fn row_003_74() {
    let accumulated = |preset, times| planned(preset, &[("microbatches", times)]);
    let count = |calls: &[plan::Call]| calls[0].count.0;
    same(count(&accumulated("ddp-7b", "8")), 1.0);
    let sharded = accumulated("fsdp-7b", "8");
    let seen: Vec<Collective> = sharded.iter().map(|c| c.collective).collect();
    assert_eq!(seen, [AllGather, AllGather, ReduceScatter]);
    same(count(&sharded), 8.0 * 32.0);
}

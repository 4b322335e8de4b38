//! Properties over random texts, machines and sizes.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::num::NonZeroU32;
use std::str::FromStr;

use collcost::Collective;
use collcost::answer::batch::{Batch, KINDS};
use collcost::base::quantity::{Bandwidth, Bytes, Ratio, Seconds, SecondsPerByte, Volume};
use collcost::cost::bound::bound;
use collcost::cost::price::{Prepared, Price};
use collcost::machine::fabric::{Fabric, Order, Switch, Tier};
use collcost::machine::profile::Profile;
use collcost::model::algorithm::{Algorithm, Registry};
use collcost::model::formula::{At, Cost, Dims, Form, Params, Ports, Protocol, Relay, Shape, Tie};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

#[path = "../support/shapes.rs"]
mod shapes;

/// The same cases in every run; `PROPTEST_CASES` and `PROPTEST_RNG_SEED` ask for others.
fn runs(cases: u32) -> ProptestConfig {
    let asked = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    match std::env::var_os("PROPTEST_CASES").or(std::env::var_os("PROPTEST_RNG_SEED")) {
        Some(_) => asked,
        None => ProptestConfig { cases, rng_seed: RngSeed::Fixed(1), ..asked },
    }
}

/// Text of any letters, and text that looks like a quantity.
fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        ".{0,24}",
        r"[-+]?[0-9]{0,20}\.?[0-9]{0,4}([eE][-+]?[0-9]{1,4})? ?[kKmMgGtTuµnpbBi/s@x0-9hdfc]{0,6}",
        "(all|reduce|gather|scatter|_|-|MPI_|nccl|to|ring|hd|fd|x|8|block|LL128){0,5}",
    ]
}

/// Reading never panics, and a refusal says what was wrong.
fn is_read_or_refused<T: FromStr<Err: Display>>(text: &str) {
    if let Err(why) = text.parse::<T>() {
        assert!(!why.to_string().is_empty());
    }
}

/// What is printed is read back, up to the digits that are printed.
fn comes_back<T: FromStr<Err: Display> + Display + Copy>(value: T, number: impl Fn(T) -> f64) {
    let text = value.to_string();
    let back = text.parse().unwrap_or_else(|why| panic!("`{text}` is not read back: {why}"));
    let (there, back) = (number(value), number(back));
    assert!((there - back).abs() <= 1e-3 * there, "{there} printed as `{text}` is {back}");
}

/// A positive number over many powers of ten.
fn spread(low: f64, high: f64) -> impl Strategy<Value = f64> {
    (low.ln()..high.ln()).prop_map(f64::exp)
}

proptest! {
    #![proptest_config(runs(512))]

    #[test]
    fn readers_do_not_panic(text in texts()) {
        is_read_or_refused::<Bytes>(&text);
        is_read_or_refused::<Seconds>(&text);
        is_read_or_refused::<Bandwidth>(&text);
        is_read_or_refused::<SecondsPerByte>(&text);
        is_read_or_refused::<Collective>(&text);
        is_read_or_refused::<Ports>(&text);
        is_read_or_refused::<Dims>(&text);
        is_read_or_refused::<Order>(&text);
        is_read_or_refused::<Protocol>(&text);
        let _ = text.parse::<collcost::base::dtype::DataType>();
        for &collective in Collective::ALL {
            let _ = Registry::builtin().find(collective, &text);
        }
    }

    #[test]
    fn quantities_come_back(bytes in 0..(1_u64 << 62), number in spread(1.0, 1e12)) {
        comes_back(Bytes(bytes >> (bytes % 62)), |b| b.0 as f64);
        comes_back(Seconds(number * 1e-9), |s| s.0);
        // Rates print in GB/s only: three decimals of it are what is promised.
        comes_back(Bandwidth(number * 1e9), |b| b.0);
        comes_back(SecondsPerByte(number * 1e-12), |g| g.0);
    }

    #[test]
    fn sides_and_ports_come_back(sides in prop::collection::vec(1_u32..5000, 1..=4), k in 1_u32..) {
        let text = sides.iter().map(u32::to_string).collect::<Vec<_>>().join("x");
        let dims: Dims = text.parse().unwrap();
        assert_eq!(dims.lengths(), sides);
        let whole = |s: &[u32]| s.iter().map(|&d| u64::from(d)).product::<u64>();
        assert_eq!(dims.ranks(), whole(&sides));
        assert_eq!(k.to_string().parse::<Ports>().unwrap(), Ports::full(k));
        assert_eq!(format!("{k}hd").parse::<Ports>().unwrap(), Ports::Half(k.try_into().unwrap()));
    }
}

/// A line that looks like a question: known fields with values of all kinds.
fn questions() -> impl Strategy<Value = String> {
    let names = || {
        prop::sample::select(vec![
            "kind",
            "primitive",
            "algorithm",
            "algorithm_a",
            "algorithm_b",
            "candidates",
            "n",
            "size_bytes",
            "alpha_s",
            "bandwidth_Bps",
            "alpha_switch_s",
            "ports",
            "duplex",
            "K",
            "segments",
            "depth",
            "c_real",
            "agg",
            "gpus_per_node",
            "nodes",
            "alpha_intra_s",
            "bw_intra_Bps",
            "alpha_inter_s",
            "bw_inter_Bps",
            "algbw_Bps",
            "n_alpha",
            "n_beta",
            "eta_alpha",
            "eta_beta",
            "style",
            "tie",
            "preset",
            "unit",
        ])
    };
    let values = prop_oneof![
        prop::sample::select(vec![
            "0",
            "1",
            "2",
            "8",
            "64",
            "4294967295",
            "4294967296",
            "-1",
            "1.5",
            "1e-6",
            "1e11",
            "1e308",
            "\"1e400\"",
            "\"nan\"",
            "null",
            "true",
            "[]",
            "\"\"",
            "\"8\"",
            "\"unbounded\"",
            "\"asymptotic\"",
            "\"half\"",
            "\"none\"",
        ])
        .prop_map(str::to_owned),
        "[a-z_()]{0,12}".prop_map(|word| format!("\"{word}\"")),
    ];
    let fields = prop::collection::btree_map(names(), values, 0..16);
    let kinds = prop::sample::select(KINDS);
    let known: Vec<_> = Registry::builtin().iter().map(|a| a.meta().id).collect();
    let algorithm = prop::sample::select(known);
    let collective = prop::sample::select(Collective::ALL.to_vec());
    (kinds, algorithm, collective, fields).prop_map(|(kind, algorithm, collective, mut fields)| {
        let text = |word: &str| format!("\"{word}\"");
        for name in ["algorithm", "algorithm_a", "algorithm_b", "candidates"] {
            fields.entry(name).or_insert(text(algorithm));
        }
        for (name, value) in [
            ("kind", text(kind)),
            ("primitive", text(collective.id())),
            ("n", "12".to_owned()),
            ("size_bytes", "4096".to_owned()),
            ("alpha_s", "1e-6".to_owned()),
            ("bandwidth_Bps", "1e9".to_owned()),
        ] {
            fields.entry(name).or_insert(value);
        }
        let fields: Vec<_> = fields.iter().map(|(name, v)| format!("\"{name}\":{v}")).collect();
        format!("{{\"id\":7,{}}}", fields.join(","))
    })
}

/// The text of a built-in profile with one line lost, doubled or changed.
fn profiles() -> impl Strategy<Value = String> {
    let text = Profile::builtin("dgx-h100").unwrap().to_toml();
    let count = text.lines().count();
    (0..count, 0..4_u8, ".{0,20}").prop_map(move |(at, how, noise)| {
        let mut lines: Vec<&str> = text.lines().collect();
        match how {
            0 => drop(lines.remove(at)),
            1 => lines.insert(at, lines[at]),
            2 => lines[at] = &noise,
            _ => lines.truncate(at),
        }
        lines.join("\n")
    })
}

proptest! {
    #![proptest_config(runs(1024))]

    #[test]
    fn every_line_has_one_answer(line in prop_oneof![questions(), texts()]) {
        let mut out = Vec::new();
        Batch::default().answer(&line, &mut out);
        let out = String::from_utf8(out).unwrap();
        prop_assert!(out.ends_with('\n') && out.matches('\n').count() == 1, "{out}");
        let answer: serde_json::Value =
            serde_json::from_str(&out).unwrap_or_else(|why| panic!("{line} gave {out}: {why}"));
        let fields = answer.as_object().unwrap();
        prop_assert!(fields.len() > 1 && fields.contains_key("id"), "{line} gave {out}");
    }

    #[test]
    fn profiles_are_read_or_refused(text in prop_oneof![profiles(), texts()]) {
        if let Err(why) = Profile::parse(&text, "x.toml") {
            prop_assert!(why.to_string().contains("x.toml"), "{why}");
        }
    }
}

fn ports() -> impl Strategy<Value = Ports> {
    prop::sample::select(shapes::PORTS.to_vec())
}

fn tier(name: &'static str) -> impl Strategy<Value = Tier> {
    (spread(1e-8, 1e-4), spread(1e8, 1e12), ports()).prop_map(move |(alpha, rate, ports)| Tier {
        ports,
        ..Tier::new(name, Seconds(alpha), Bandwidth(rate))
    })
}

/// One tier, or two with the ports of the outer one shared by a domain.
fn fabrics() -> impl Strategy<Value = Fabric> {
    let inner = (tier("inner"), prop::option::of(spread(1e-8, 1e-5)), prop::option::of(2_u32..=16));
    let outer = (tier("outer"), prop::option::of(1_u32..=16), 1.0..4.0);
    let rest = (
        prop::option::of(spread(1e-12, 1e-9)),
        prop::option::of(spread(1e-7, 1e-5)),
        any::<bool>(),
    );
    (inner, outer, rest).prop_map(|((mut inner, hop, span), (mut outer, nics, over), rest)| {
        let whole = NonZeroU32::new;
        inner.switch = hop.map(|alpha| Switch {
            alpha: Some(Seconds(alpha)),
            bandwidth: None,
            multicast: true,
            alu: true,
        });
        let mut fabric = match span {
            None => Fabric::new(vec![inner]),
            Some(span) => {
                inner.span = whole(span);
                outer.nics = nics.and_then(whole);
                outer.oversubscription = Ratio(over);
                Fabric::new(vec![inner, outer])
            }
        };
        let (gamma, launch, cyclic) = rest;
        fabric.gamma = gamma.map(SecondsPerByte);
        fabric.launch = Seconds(launch.unwrap_or(0.0));
        fabric.order = if cyclic { Order::Cyclic } else { Order::Block };
        fabric
    })
}

/// All algorithms of all collectives that can be priced for `n` ranks of the machine.
fn prepared(
    fabric: &Fabric,
    n: u32,
    params: Params,
) -> Vec<(&'static dyn Algorithm, Shape, Prepared)> {
    let mut all = Vec::new();
    for algorithm in Registry::builtin().iter() {
        for &collective in algorithm.meta().collectives {
            let shape = Shape { params, ..Shape::new(collective, n) };
            let shape = shape.with_ports(fabric.ports(n).unwrap());
            match Prepared::new(algorithm, &shape, fabric) {
                Ok(ready) => all.push((algorithm, shape, ready)),
                Err(why) => assert!(why.is_unsupported(), "{}: {why}", algorithm.meta().id),
            }
        }
    }
    all
}

fn params() -> impl Strategy<Value = Params> {
    let whole = NonZeroU32::new;
    (prop::option::of(2_u32..=8), prop::option::of(1_u32..=8), prop::option::of(2_u32..=8))
        .prop_map(move |(radix, most, rails)| Params {
            radix,
            aggregation: most.and_then(whole),
            rails: rails.and_then(whole),
            ..Params::default()
        })
}

/// `name n ports`, for messages.
fn called(algorithm: &dyn Algorithm, shape: &Shape) -> String {
    format!("{} {shape:?}", algorithm.meta().id)
}

proptest! {
    #![proptest_config(runs(192))]

    #[test]
    fn more_bytes_are_never_cheaper(
        fabric in fabrics(), n in 1_u32..=80, params in params(),
        small in spread(1.0, 1e10), factor in spread(1.0, 1e4),
    ) {
        for (algorithm, shape, ready) in prepared(&fabric, n, params) {
            let (less, more) = (ready.time(Volume(small)), ready.time(Volume(small * factor)));
            let name = called(algorithm, &shape);
            prop_assert!(less.0.is_finite() && less.0 >= 0.0, "{name}: {less:?}");
            prop_assert!(less.0 <= more.0 * (1.0 + 1e-12), "{name}: {less:?} {more:?}");
        }
    }

    #[test]
    fn no_price_is_below_the_bound(
        fabric in fabrics(), n in 1_u32..=80, params in params(), size in spread(1.0, 1e11),
    ) {
        for (algorithm, shape, ready) in prepared(&fabric, n, params) {
            let least = bound(&shape, Volume(size), &fabric).unwrap();
            let time = ready.time(Volume(size));
            let name = called(algorithm, &shape);
            prop_assert!(time.0 >= least.time().0 * (1.0 - 1e-9), "{name}: {time:?} {least:?}");
        }
    }

    #[test]
    fn the_best_number_of_segments_is_best(
        fabric in fabrics(), n in 2_u32..=80, params in params(), size in spread(64.0, 1e11),
    ) {
        let size = Volume(size);
        for (algorithm, shape, ready) in prepared(&fabric, n, params) {
            if !algorithm.is_pipelined() {
                continue;
            }
            let name = called(algorithm, &shape);
            let with = |p: u32| Prepared::new(algorithm, &shape.with_segments(p), &fabric).unwrap();
            let best = ready.price(size);
            let direct = with(best.segments).price(size);
            prop_assert!(near(&best, &direct), "{name}: {best:?} {direct:?}");
            for p in 1..=64 {
                let other = with(p).time(size).0;
                prop_assert!(best.total().0 <= other * (1.0 + 1e-12), "{name}: {best:?}, P = {p}: {other}");
            }
        }
    }

    #[test]
    fn prices_on_equal_links_are_the_coefficients_times_the_rates(
        inner in tier("link"), n in 1_u32..=80, params in params(), size in spread(1.0, 1e11),
        gamma in spread(1e-12, 1e-9), p in 1_u32..=9,
    ) {
        let mut fabric = Fabric::new(vec![inner]);
        fabric.tiers[0].switch = Some(Switch { alpha: Some(Seconds(3e-7)), bandwidth: None, multicast: true, alu: true });
        fabric.gamma = Some(SecondsPerByte(gamma));
        let params = Params { segments: NonZeroU32::new(p), ..params };
        for (algorithm, shape, ready) in prepared(&fabric, n, params) {
            let cost = algorithm.price(&At::numbers(shape)).total();
            let tier = &fabric.tiers[0];
            let latency = cost.alpha * tier.link.alpha.unwrap().0 + cost.switch * 3e-7;
            let bandwidth = cost.beta * size / tier.link.bandwidth.unwrap().0;
            let compute = cost.gamma * size * gamma;
            let price = ready.price(Volume(size));
            let direct = Price {
                segments: price.segments,
                latency: Seconds(latency),
                bandwidth: Seconds(bandwidth),
                compute: Some(Seconds(compute)),
                launch: Seconds(0.0),
            };
            prop_assert!(near(&price, &direct), "{}: {price:?} {direct:?}", called(algorithm, &shape));
        }
    }
}

/// Whether two prices agree term by term.
fn near(a: &Price, b: &Price) -> bool {
    let terms =
        |p: &Price| [p.latency.0, p.bandwidth.0, p.compute.map_or(0.0, |c| c.0), p.launch.0];
    let pairs = terms(a).into_iter().zip(terms(b));
    let scale = a.total().0;
    a.segments == b.segments && pairs.into_iter().all(|(x, y)| (x - y).abs() <= 1e-12 * scale)
}

/// Machines of which each says something else: flat; nodes of several sizes with few NICs or
/// several for each rank, fast or slow inside, under several kinds of ports.
fn machines(n: u32) -> impl Iterator<Item = Fabric> {
    let spans = [(1, 0), (2, 0), (3, 1), (4, 0), (4, 2), (8, 8), (8, 3), (16, 0), (16, 4)];
    let spans = spans.into_iter().chain([(1, 8), (2, 16), (3, 4), (4, 9)]);
    let rates = [(1e-6, 4e11, 3e-6, 5e10), (5e-6, 1e10, 1e-6, 1e11), (0.0, 1e11, 0.0, 1e9)];
    let one = shapes::PORTS.map(|ports| (ports, ports));
    let kinds = one.into_iter().chain([(Ports::ONE, Ports::full(3)), (Ports::full(3), Ports::ONE)]);
    let all = spans.flat_map(move |span| {
        kinds.clone().flat_map(move |kind| rates.map(|rates| (span, kind, rates)))
    });
    let tiers = all.filter(move |((span, _), ..)| *span < n);
    tiers.flat_map(|((span, nics), (inner_ports, outer_ports), (alpha, rate, alpha_2, rate_2))| {
        let inner =
            Tier { ports: inner_ports, ..Tier::new("inner", Seconds(alpha), Bandwidth(rate)) };
        if (span, nics) == (1, 0) {
            return vec![Fabric::new(vec![inner])];
        }
        let inner = Tier { span: NonZeroU32::new(span), ..inner };
        let outer = Tier {
            ports: outer_ports,
            nics: NonZeroU32::new(nics),
            ..Tier::new("outer", Seconds(alpha_2), Bandwidth(rate_2))
        };
        let block = Fabric { node: Some(0), ..Fabric::new(vec![inner, outer]) };
        let cyclic = Fabric { order: Order::Cyclic, ..block.clone() };
        vec![block, cyclic]
    })
}

#[test]
fn no_price_is_below_the_bound_of_these_machines() {
    let mut faults = BTreeMap::new();
    let rails = |r| Params { rails: NonZeroU32::new(r), ..Params::default() };
    for n in (2..=9).chain([12, 16, 17, 19, 24, 33, 64]) {
        for fabric in machines(n) {
            let settings = [Params::default(), rails(4)].map(|params| prepared(&fabric, n, params));
            for (algorithm, shape, ready) in settings.into_iter().flatten() {
                for size in [1.0, 1e10].map(Volume) {
                    let least = bound(&shape, size, &fabric).unwrap().time();
                    let time = ready.time(size);
                    if time.0 < least.0 * (1.0 - 1e-9) {
                        let name = format!("{} {}", algorithm.meta().id, shape.collective);
                        faults.entry(name).or_insert_with(|| {
                            format!("{time} below {least} for {size}, {n} ranks of {fabric:?}")
                        });
                    }
                }
            }
        }
    }
    let faults: Vec<_> = faults.iter().map(|(name, what)| format!("{name}: {what}")).collect();
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

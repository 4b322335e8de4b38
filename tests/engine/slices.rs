//! Slices of TPUs, held to the formulas of "How To Scale Your Model" (jax-ml/scaling-book, sharding.md): an
//! all-gather or reduce-scatter takes bytes / (bidirectional rate × axes), an all-reduce twice that; and to
//! simulations of what is priced.

use std::num::NonZeroU32;

use collcost::Collective::{self, AllGather, AllReduce, ReduceScatter};
use collcost::base::quantity::{Bandwidth, Bytes, Seconds, Volume};
use collcost::cost::bound::bound;
use collcost::cost::price::Prepared;
use collcost::cost::simulate::{Mode, Setup, simulate};
use collcost::machine::fabric::{Fabric, Tier};
use collcost::machine::profile::Profile;
use collcost::machine::query::{Given, Layout, Machine, Query};
use collcost::machine::wires::{Torus, Wires};
use collcost::measure::expect::Expecting;
use collcost::model::algorithm::{Guarantee, Registry};
use collcost::model::formula::{Params, Ports};
use collcost::model::schedule::combine::Segment;

use crate::full::one_in;

const SIZE: f64 = (256 << 20) as f64;

fn query(machine: &str, collective: Collective, chips: u32, dims: Option<&str>) -> Query {
    let given = Given { alpha_inter: Some(Seconds(10e-6)), ..Given::default() };
    let machine =
        Machine::on(&Profile::builtin(machine).unwrap(), "profile", &given, collective).unwrap();
    let layout = Layout { ranks: NonZeroU32::new(chips), ..Layout::default() };
    let params = Params { dims: dims.map(|dims| dims.parse().unwrap()), ..Params::default() };
    Query::new(machine, collective, Bytes(1), layout, params).unwrap()
}

/// The expected time of 256 MiB, and what runs.
fn expected(query: &Query) -> (f64, &'static str) {
    let registry = Registry::builtin();
    let (expecting, size) = (Expecting::new(&registry, query).unwrap(), Bytes(256 << 20));
    (expecting.at(size).time.0, expecting.ideal(size).id)
}

/// (Machine, chips, sides, GB/s of all axes one way, hops): axes that wrap bring data from both sides.
#[test]
fn slices_take_what_the_book_says() {
    for (machine, chips, dims, rate, hops) in [
        ("tpu-v5e", 256, None, 4.0 * 45e9, 30),
        ("tpu-v6e", 256, None, 4.0 * 90e9, 30),
        // Of 8 x 16 one axis wraps.
        ("tpu-v5e", 128, None, 3.0 * 45e9, 22),
        ("tpu-v5e", 64, None, 2.0 * 45e9, 14),
        ("tpu-v5p", 64, None, 6.0 * 90e9, 9),
        ("tpu-v5p", 128, None, 6.0 * 90e9, 13),
        ("tpu-v5p", 2048, Some("8x16x16"), 6.0 * 90e9, 37),
        ("tpu-v5p", 1024, Some("8x8x16"), 6.0 * 90e9, 29),
        ("tpu-v5p", 6144, None, 6.0 * 90e9, 53),
        // No whole cube has no axis that wraps.
        ("tpu-v5p", 32, Some("2x4x4"), 3.0 * 90e9, 7),
        ("tpu-v5p", 16, Some("4x4"), 2.0 * 90e9, 6),
        ("tpu7x", 9216, None, 6.0 * 100e9, 61),
    ] {
        for (collective, times) in [(AllGather, 1.0), (ReduceScatter, 1.0), (AllReduce, 2.0)] {
            let query = query(machine, collective, chips, dims);
            let n = f64::from(chips);
            let wire = (n - 1.0) / n * SIZE / rate;
            let time = times * (wire + f64::from(hops) * 1e-6);
            let (found, id) = expected(&query);
            let near = (found / time - 1.0).abs() < 1e-9;
            assert!(near, "{machine} {chips} {collective}: {id} {found} {time}");
            // The Book leaves the own shard in, and hops out.
            let book = times * SIZE / rate;
            assert!((found / book - 1.0).abs() < 0.15, "{machine} {chips} {collective}");
        }
    }
}

#[test]
fn a_slice_has_one_answer_however_its_sides_are_written() {
    for (chips, ways) in [(16, ["4x4", "1x4x4", "4x4x1"]), (8, ["8", "1x1x8", "8x1"])] {
        let answers = ways.map(|dims| expected(&query("tpu-v5p", AllReduce, chips, Some(dims))));
        assert!(answers.iter().all(|one| *one == answers[0]), "{answers:?}");
        assert!(chips == 8 || answers[0].1 == "mesh", "{answers:?}");
    }
}

/// Reduce-scatter in each slice, an all-reduce of every chip's own share over DCN, all-gather in each slice.
#[test]
fn slices_meet_over_the_network_with_a_share_of_each_chip() {
    for (machine, chips, slices, rate, hops, network) in [
        ("tpu-v5e", 512, 2.0, 4.0 * 45e9, 30.0, 25e9 / 8.0),
        ("tpu-v5e", 1024, 4.0, 4.0 * 45e9, 30.0, 25e9 / 8.0),
        ("tpu-v5p", 12288, 2.0, 6.0 * 90e9, 53.0, 50e9 / 8.0),
        ("tpu-v6e", 512, 2.0, 4.0 * 90e9, 30.0, 100e9 / 8.0),
    ] {
        let n = f64::from(chips) / slices;
        let inside = (n - 1.0) / n * SIZE / rate + hops * 1e-6;
        let steps = 2.0 * (slices - 1.0);
        let between = steps / slices * SIZE / n / network + steps * 10e-6;
        let (found, id) = expected(&query(machine, AllReduce, chips, None));
        let most = 2.0 * inside + between;
        assert!(id.starts_with("slice-"), "{machine} {chips}: {id}");
        assert!((0.95 * most..=most * 1.000_001).contains(&found), "{chips}: {found} {most}");
    }
    // Slices of a job are alike: of two with 4480 chips all sides are rings.
    let two = query("tpu-v5p", AllReduce, 8960, None);
    assert_eq!((two.placement.per_node, two.placement.nodes()), (4480, 2));
    assert!(expected(&two).0 < 1.3e-3);
}

/// Slices of these sides, those that are a multiple of `wraps` closed, joined by ports of 1 GB/s.
fn slices(sides: &str, wraps: u32) -> Fabric {
    let torus = Torus { sides: sides.parse().unwrap(), wraps, cubes: false };
    let tier = |name, alpha, rate| Tier::new(name, Seconds(alpha), Bandwidth(rate));
    let inside = Tier {
        span: NonZeroU32::new(torus.sides.ranks() as u32),
        wires: Wires::Torus(torus),
        ports: Ports::full(8),
        ..tier("ICI", 1e-6, 4e9)
    };
    Fabric::new(vec![inside, tier("DCN", 10e-6, 1e9)])
}

#[test]
fn several_slices_take_what_is_priced() {
    let registry = Registry::builtin();
    let size = Volume(SIZE);
    let mut equal = 0;
    for (sides, wraps) in
        [("4x4", 4), ("4x4", 5), ("3x3x3", 3), ("2x2", 4), ("5", 5), ("4x3", 4), ("2x4x4", 4)]
    {
        let fabric = slices(sides, wraps);
        let chips = fabric.group().unwrap().get();
        for (of, collective) in [2, 3, 4]
            .into_iter()
            .flat_map(|of| [AllReduce, AllGather, ReduceScatter].map(|c| (of, c)))
        {
            let shape = fabric.shape(collective, of * chips).unwrap();
            for id in ["slice-ring", "slice-rabenseifner"] {
                let algorithm = registry.find(collective, id).unwrap().algorithm;
                if algorithm.applies(&shape).is_err() {
                    continue;
                }
                let price = Prepared::new(algorithm, &shape, &fabric).unwrap().time(size).0;
                let least = bound(&shape, size, &fabric).unwrap().time().0;
                assert!(least <= price, "{id} {collective} {of} of {sides}: {least} {price}");
                let schedule = fabric.schedule(algorithm, &shape).unwrap();
                // With a barrier after every round parts of unequal length wait for each other.
                let limit = algorithm.guarantee(&shape) == Guarantee::Asymptotic;
                let mode = if limit { Mode::Flow } else { Mode::Sync };
                let setup = Setup::new(size).in_mode(mode);
                let took = simulate(&*schedule, &fabric, &setup).unwrap().makespan.0;
                let name = format!("{id} {collective} {of} of {sides}: {took} {price}");
                if limit {
                    assert!(took >= 0.999 * price && took < 1.35 * price, "{name}");
                } else {
                    equal += 1;
                    assert!((took / price - 1.0).abs() < 1e-9, "{name}");
                }
            }
        }
    }
    assert!(equal > 50, "{equal}");
}

/// Sides of unequal length: the more segments follow each other, the nearer to the price.
#[test]
fn unequal_sides_tend_to_their_price() {
    let registry = Registry::builtin();
    let all = [("4x8", 8), ("4x4x8", 4), ("3x5", 7), ("4x8", 4), ("2x4x4", 4)];
    for (sides, wraps) in all.into_iter().step_by(one_in(2)) {
        let fabric = slices(sides, wraps);
        let chips = fabric.group().unwrap().get();
        let shape = fabric.shape(AllGather, chips).unwrap();
        let is_open = fabric.slice(chips).is_some_and(Torus::is_open);
        let id = if is_open { "mesh" } else { "torus" };
        let algorithm = registry.find(AllGather, id).unwrap().algorithm;
        assert_eq!(algorithm.guarantee(&shape), Guarantee::Asymptotic);
        let size = Volume(1e12);
        let price = Prepared::new(algorithm, &shape, &fabric).unwrap().time(size).0;
        let schedule = fabric.schedule(algorithm, &shape).unwrap();
        let took = |segments| {
            let cut = Segment::new(&*schedule, segments, 1);
            simulate(&cut, &fabric, &Setup::new(size)).unwrap().makespan.0 / price
        };
        let [one, many] = [1, 12].map(took);
        assert!((1.0..1.05).contains(&many) && many < one, "{sides}: {one} {many}");
    }
}

/// No part of a torus, and no number of parts, is expected to be faster than its links.
#[test]
fn no_slice_beats_its_links() {
    let registry = Registry::builtin();
    let shapes = [
        ("tpu-v5e", vec!["8x16", "4x16", "16x2", "5x16", "1x16", "3x7"]),
        ("tpu-v5p", vec!["4x4x8", "4x8x12", "2x4x4", "4x4", "2x2x4", "4x5x8", "8x8x4"]),
        ("trn2", vec!["4x4", "2x4", "4x3"]),
    ];
    for (machine, all) in shapes {
        for (dims, slices) in all.iter().flat_map(|dims| [1, 2, 3].map(|slices| (dims, slices))) {
            let chips: u32 = dims.split('x').map(|d| d.parse::<u32>().unwrap()).product();
            for &collective in Collective::ALL {
                let given = Given {
                    alpha: Some(Seconds(1e-6)),
                    alpha_inter: (slices > 1).then_some(Seconds(10e-6)),
                    ..Given::default()
                };
                let profile = Profile::builtin(machine).unwrap();
                let machine = Machine::on(&profile, "profile", &given, collective).unwrap();
                let layout = Layout {
                    ranks: NonZeroU32::new(slices * chips),
                    nodes: None,
                    per_node: NonZeroU32::new(chips),
                };
                let params = Params { dims: Some(dims.parse().unwrap()), ..Params::default() };
                let query = Query::new(machine, collective, Bytes(1), layout, params);
                let Ok(query) = query else { continue };
                let Ok(expecting) = Expecting::new(&registry, &query) else { continue };
                for octave in [3, 14, 25, 34] {
                    let size = Volume((1_u64 << octave) as f64);
                    let least = bound(&query.shape, size, &query.machine.fabric).unwrap().time();
                    let found = expecting.at(Bytes(1 << octave));
                    let name = format!("{slices} of {dims}, {collective} 2^{octave}");
                    assert!(found.time.0 >= least.0 * (1.0 - 1e-9), "{name}: {found:?} {least}");
                }
            }
        }
    }
}

use std::num::NonZeroU32;

use super::*;
use crate::base::collective::Collective;
use crate::base::quantity::{Bandwidth, Bytes, SecondsPerByte};
use crate::cost::simulate::{Setup, Simulator};
use crate::machine::fabric::{Switch, Tier};
use crate::machine::link::{Bucket, Knot, Link, Share};
use crate::model::algorithm::Registry;
use crate::model::formula::Ports;

const SIZES: [f64; 6] = [0.0, 1.0, 777.0, 4096.0, 1e6, 1e9];

/// Nodes of four with a switch, and a network; every rank adds.
fn machine(tier: impl Fn(&str, f64, f64) -> Tier) -> Fabric {
    let switch = Switch {
        alpha: Some(Seconds(3e-7)),
        bandwidth: Some(Bandwidth(3e11)),
        multicast: true,
        alu: true,
    };
    let inner =
        Tier { span: NonZeroU32::new(4), switch: Some(switch), ..tier("inner", 1e-6, 4e11) };
    let outer = Tier { nics: NonZeroU32::new(2), ..tier("outer", 5e-6, 5e10) };
    Fabric {
        gamma: Some(SecondsPerByte(1e-11)),
        launch: Seconds(2e-6),
        ..Fabric::new(vec![inner, outer])
    }
}

fn ideal(name: &str, alpha: f64, rate: f64) -> Tier {
    Tier::new(name, Seconds(alpha), Bandwidth(rate))
}

/// Links with knots and shares that only restate the rate: walked, and no slower.
fn in_words(name: &str, alpha: f64, rate: f64) -> Tier {
    let mut tier = ideal(name, alpha, rate);
    let knot = |below| Knot { below: Bytes(below), bandwidth: Some(Bandwidth(rate)) };
    tier.link.knots = vec![knot(1000), knot(30_000)];
    tier.link.sharing = vec![Share { flows: NonZeroU32::new(3).unwrap(), part: Ratio(1.0) }];
    tier
}

fn shapes() -> impl Iterator<Item = Shape> {
    Collective::ALL.iter().flat_map(|&collective| {
        [1, 2, 3, 4, 8, 12, 13, 16, 64].into_iter().flat_map(move |ranks| {
            [None, NonZeroU32::new(1), NonZeroU32::new(2), NonZeroU32::new(7)].into_iter().map(
                move |segments| {
                    let shape = Shape::new(collective, ranks);
                    let params = Params { segments, ..shape.params };
                    Shape { params, ..shape }
                },
            )
        })
    })
}

/// Every algorithm that applies on both machines, with its ideal price.
fn each(one: &Fabric, other: &Fabric, mut see: impl FnMut(&str, &OnLinks, &OnLinks)) {
    let registry = Registry::builtin();
    for shape in shapes() {
        for algorithm in registry.of(shape.collective) {
            let Ok(a) = OnLinks::new(algorithm, &shape, one) else { continue };
            let b = OnLinks::new(algorithm, &shape, other).expect("both know as much");
            let segments = shape.params.segments;
            see(&format!("{} {segments:?} over {}", algorithm.meta().id, shape.ranks), &a, &b);
        }
    }
}

#[test]
fn on_ideal_links_it_is_the_price_to_the_bit() {
    let fabric = machine(ideal);
    let mut seen = 0;
    each(&fabric, &fabric, |name, links, _| {
        assert!(links.walk.is_none(), "{name}");
        for size in SIZES {
            assert_eq!(links.at(Volume(size)), links.ideal().time(Volume(size)), "{name} {size}");
            seen += 1;
        }
    });
    assert!(seen > 5000, "{seen}");
}

#[test]
fn messages_sum_up_to_the_price() {
    let mut seen = 0;
    for fabrics in [
        (machine(ideal), machine(in_words)),
        (
            Fabric::new(vec![ideal("link", 2e-6, 1e10)]),
            Fabric::new(vec![in_words("link", 2e-6, 1e10)]),
        ),
    ] {
        each(&fabrics.0, &fabrics.1, |name, price, walked| {
            // One rank sends nothing.
            if walked.walk.is_none() {
                return;
            }
            seen += 1;
            for size in SIZES {
                let (a, b) = (price.at(Volume(size)).0, walked.at(Volume(size)).0);
                assert!((a - b).abs() <= 1e-9 * a.abs(), "{name} {size}: {a:e} and {b:e}");
            }
        });
    }
    assert!(seen > 500, "{seen}");
}

fn on_links(id: &str, collective: Collective, ranks: u32, link: Link) -> OnLinks {
    let registry = Registry::builtin();
    let algorithm = registry.find(collective, id).unwrap().algorithm;
    let fabric = Fabric::new(vec![Tier { link, ..ideal("link", 1.0, 1.0) }]);
    OnLinks::new(algorithm, &Shape::new(collective, ranks), &fabric).unwrap()
}

#[test]
fn each_message_takes_what_its_size_and_its_direction_say() {
    // Bytes of a message after the tenth cost twice as much, and both directions at once twice
    // that.
    let link = Link {
        knots: vec![Knot { below: Bytes(10), bandwidth: Some(Bandwidth(2.0)) }],
        duplex: Ratio(0.5),
        ..Link::new(Seconds(1.0), Bandwidth(1.0))
    };
    let at = |id, collective, size| on_links(id, collective, 4, link.clone()).at(Volume(size)).0;
    // Six messages of a quarter.
    assert_eq!(at("ring", Collective::AllReduce, 40.0), 6.0 * (1.0 + 2.0 * 5.0));
    assert_eq!(at("ring", Collective::AllReduce, 80.0), 6.0 * (1.0 + 2.0 * (5.0 + 10.0)));
    // Two messages of all, one way.
    let tree = Link { duplex: Ratio(0.5), ..link.clone() };
    let registry = Registry::builtin();
    let binomial = registry.find(Collective::Broadcast, "binomial").unwrap().algorithm;
    let fabric = Fabric::new(vec![Tier { link: tree, ..ideal("link", 1.0, 1.0) }]);
    let whole = Shape::new(Collective::Broadcast, 4).with_segments(1);
    let links = OnLinks::new(binomial, &whole, &fabric).unwrap();
    assert_eq!(links.at(Volume(20.0)), Seconds(2.0 * (1.0 + 15.0)));
}

#[test]
fn a_bucket_alone_changes_no_sum_of_messages() {
    let bucket = Some(Bucket { rate: Bandwidth(1.0), burst: Bytes(100) });
    let link = Link { bucket, ..Link::new(Seconds(1.0), Bandwidth(1.0)) };
    let links = on_links("ring", Collective::AllReduce, 4, link);
    assert_eq!(links.at(Volume(40.0)), links.ideal().time(Volume(40.0)));
}

#[test]
fn a_measured_tree_takes_the_bytes_that_were_measured() {
    let registry = Registry::builtin();
    let tree = registry.find(Collective::AllReduce, "double-binary-tree").unwrap().algorithm;
    let fabric = Fabric::flat(Seconds(0.0), Bandwidth(1.0));
    let shape = Shape::new(Collective::AllReduce, 8).with_segments(16);
    let twice = Params { c_real: Some(Ratio(4.0)), ..shape.params };
    let form = OnLinks::new(tree, &shape, &fabric).unwrap();
    let seen = OnLinks::new(tree, &Shape { params: twice, ..shape }, &fabric).unwrap();
    let limit = tree.price_form(&At::numbers(shape), Form::Asymptotic).unwrap().total().beta;
    let (a, b) = (form.at(Volume(1e6)).0, seen.at(Volume(1e6)).0);
    assert!((b / a - 4.0 / limit).abs() < 1e-12, "{a} {b} {limit}");
}

#[test]
fn ports_that_are_shared_reach_what_was_measured() {
    let mut outer = ideal("outer", 0.0, 1.0);
    outer.nics = NonZeroU32::new(1);
    outer.link.sharing = vec![Share { flows: NonZeroU32::new(4).unwrap(), part: Ratio(0.5) }];
    let inner = Tier { span: NonZeroU32::new(4), ..ideal("inner", 0.0, 1e9) };
    let fabric = Fabric::new(vec![inner, outer]);
    let registry = Registry::builtin();
    let doubling = registry.find(Collective::AllReduce, "recursive-doubling").unwrap().algorithm;
    let shape = Shape::new(Collective::AllReduce, 8);
    assert_eq!(shape.ports, Ports::ONE);
    let links = OnLinks::new(doubling, &shape, &fabric).unwrap();
    // Four flows leave each node through one port: four times as long, and twice that.
    let (price, seen) = (links.ideal().time(Volume(100.0)).0, links.at(Volume(100.0)).0);
    assert!((price - 400.0).abs() < 1e-3 && (seen - 800.0).abs() < 1e-3, "{price} {seen}");
}

/// Of two domains of eight ranks, or one: what expectations say on links that exchange more slowly than they send
/// one way, beside the simulated schedule.
#[test]
fn expectations_on_links_that_take_turns_are_what_simulations_take() {
    let link = |alpha, rate, duplex| Link {
        duplex: Ratio(duplex),
        ..Link::new(Seconds(alpha), Bandwidth(rate))
    };
    let tier = |name: &str, span, link, nics| Tier {
        span: NonZeroU32::new(span),
        nics: NonZeroU32::new(nics),
        ..Tier { link, ..ideal(name, 1e-6, 1e9) }
    };
    let flat = Fabric::new(vec![tier("L", 0, link(5e-6, 10e9, 0.5), 0)]);
    let shared = |nics| {
        let inside = tier("L1", 8, link(1e-6, 100e9, 1.0), 0);
        Fabric::new(vec![inside, tier("L2", 0, link(5e-6, 10e9, 0.5), nics)])
    };
    let registry = Registry::builtin();
    let mut off = Vec::new();
    let exchanges = ["ring", "rabenseifner", "recursive-doubling"];
    let trees = ["double-binary-tree", "single-binary-tree"];
    // Of a heap a rank may have both children in another domain, which its port serves one after the other.
    let double = &trees[..1];
    let stages = ["tree-rails", "2d-ring-pipelined"];
    let flat_ones = [&exchanges[..], &trees].concat();
    let all = [&exchanges[..], double, &stages].concat();
    let few = [&exchanges[..], &stages].concat();
    for (fabric, ranks, summed) in [
        (&flat, 6, &flat_ones),
        (&flat, 12, &flat_ones),
        (&flat, 16, &flat_ones),
        (&shared(0), 16, &all),
        // Trees in rank order cross a shared NIC unevenly.
        (&shared(1), 16, &few),
    ] {
        let sent = if ranks == 16 { vec![] } else { vec!["binary-tree", "chain"] };
        for (collective, names) in [(Collective::AllReduce, summed), (Collective::Broadcast, &sent)]
        {
            for name in names {
                let shape = fabric.fill(&Shape::new(collective, ranks));
                let Ok(found) = registry.find_for(&shape, name) else { continue };
                let Ok(on_links) = OnLinks::new(found.algorithm, &shape, fabric) else { continue };
                let size = Volume(64e6);
                let segments = on_links.ideal().price(size).segments;
                let shape = shape.with_segments(segments);
                let Some(schedule) = fabric.schedule(found.algorithm, &shape) else { continue };
                let setup = Setup::new(size);
                let played = Simulator::default().run(&*schedule, fabric, &setup, None).unwrap();
                let ratio = on_links.at(size).0 / played.makespan.0;
                if !(0.88..1.1).contains(&ratio) {
                    off.push(format!("{name} on {ranks}: {ratio:.3}"));
                }
            }
        }
    }
    assert!(off.is_empty(), "{off:?}");
}

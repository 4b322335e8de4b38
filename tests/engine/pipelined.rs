//! Pipelined hierarchies: the price is what a played pipeline takes, on machines with two tiers.
//!
//! α and the times of messages are whole numbers, so that what is compared is exact.

use crate::full::one_in;
use std::num::NonZeroU32;

use collcost::Collective::{self, AllReduce};
use collcost::base::quantity::{Bandwidth, Seconds, Volume};
use collcost::cost::price::Prepared;
use collcost::cost::simulate::{Setup, Simulator};
use collcost::machine::fabric::{Fabric, Switch, Tier};
use collcost::model::algorithm::{Algorithm, Guarantee, Registry};
use collcost::model::formula::Shape;
use collcost::model::schedule::verify;

/// α, α_sw and seconds a shard of a segment, inside; the same between.
type Rates = ([f64; 3], [f64; 3]);

/// Messages alone, data alone, the slow stage inside, between, hardly the one or the other, and
/// latencies before which no data count.
const RATES: [Rates; 12] = [
    ([1.0, 1.0, 0.0], [1.0, 1.0, 0.0]),
    ([0.0, 0.0, 1.0], [0.0, 0.0, 1.0]),
    ([3.0, 2.0, 1.0], [3.0, 1.0, 5.0]),
    ([3.0, 2.0, 5.0], [3.0, 4.0, 1.0]),
    ([1.0, 1.0, 1.0], [9.0, 5.0, 1.0]),
    ([9.0, 9.0, 1.0], [1.0, 1.0, 1.0]),
    ([1.0, 1.0, 7.0], [2.0, 3.0, 3.0]),
    ([2.0, 1.0, 2.0], [5.0, 2.0, 9.0]),
    ([0.0, 0.0, 2.0], [0.0, 0.0, 3.0]),
    ([0.0, 0.0, 3.0], [0.0, 0.0, 2.0]),
    ([0.0, 0.0, 1.0], [0.0, 0.0, 4.0]),
    ([70.0, 90.0, 1.0], [300.0, 200.0, 1.0]),
];

const SEGMENTS: [u32; 5] = [1, 2, 3, 7, 24];

use crate::cores;

fn fabric((inside, between): Rates, group: u32, nics: Option<u32>) -> Fabric {
    // Data that take no time would need an endless rate.
    let rate = |seconds: f64| Bandwidth(if seconds == 0.0 { 1e300 } else { 1.0 / seconds });
    let tier = |name: &str, [alpha, hop, shard]: [f64; 3]| {
        let alpha_switch = Some(Seconds(hop));
        let switch = Switch { alpha: alpha_switch, bandwidth: None, multicast: true, alu: true };
        Tier { switch: Some(switch), ..Tier::new(name, Seconds(alpha), rate(shard)) }
    };
    let inner = Tier { span: NonZeroU32::new(group), ..tier("inside", inside) };
    let nics = nics.and_then(NonZeroU32::new);
    Fabric::new(vec![inner, Tier { nics, ..tier("between", between) }])
}

fn shape(collective: Collective, group: u32, domains: u32, segments: u32) -> Shape {
    let group_of = NonZeroU32::new(group);
    Shape { group: group_of, ..Shape::new(collective, group * domains).with_segments(segments) }
}

fn pipelined() -> impl Iterator<Item = (&'static dyn Algorithm, Collective)> {
    let registry = Registry::builtin();
    let all: Vec<_> = registry.iter().collect();
    let staged = all.into_iter().filter(|algorithm| {
        let mut asked = algorithm.meta().collectives.iter().map(|&c| shape(c, 4, 2, 2));
        asked.any(|shape| algorithm.stages(&shape).is_some())
    });
    staged.flat_map(|a| a.meta().collectives.iter().map(move |&c| (a, c)))
}

/// By how many segments a played pipeline may be later than its price, by algorithm, and with how
/// many NICs a node that was seen: a figure that grows here is a pipeline that got worse.
///
/// Ranks that send straight to each other get out of step where they share NICs; no bound is stated
/// for them there.
const LATE: &[(&str, f64)] = &[
    ("nvlstree", 1.5),
    ("tree-rails", 1.25),
    ("collnet-chain", 0.25),
    ("collnet-direct", 1.0),
    ("nvls-sharp", 4.5),
    ("nvls-ring-pipelined", 1.75),
    ("2d-ring-pipelined", 0.5),
];

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * b.abs()
}

#[test]
fn a_played_pipeline_takes_what_its_slowest_port_says() {
    let nodes = [(2, 2), (4, 2), (8, 2), (3, 3), (4, 4), (2, 5), (4, 8), (2, 13)];
    let mut cases = Vec::new();
    for (algorithm, collective) in pipelined() {
        for (group, domains) in nodes {
            for nics in [None, Some(1), Some(2)] {
                let even = nics.is_none_or(|nics| group % nics == 0);
                let direct = algorithm.meta().id == "collnet-direct" && nics.is_some();
                if even && !direct {
                    cases.push((algorithm, collective, group, domains, nics));
                }
            }
        }
    }
    let cases: Vec<_> = cases.into_iter().step_by(one_in(14)).collect();
    let faults = cores::spread(&cases, |&(algorithm, collective, group, domains, nics)| {
        let mut simulator = Simulator::default();
        let (mut faults, mut compared) = (Vec::new(), 0);
        let id = algorithm.meta().id;
        let late = LATE.iter().find(|(name, _)| *name == id).map(|(_, late)| *late);
        let late = late.unwrap_or_else(|| panic!("{id} has no bound in the table"));
        for rates in RATES {
            let fabric = fabric(rates, group, nics);
            let time = |segments| {
                let shape = shape(collective, group, domains, segments);
                let size = Volume(f64::from(segments * group));
                Prepared::new(algorithm, &shape, &fabric).unwrap().time(size).0
            };
            let load = time(3) - time(2);
            for segments in SEGMENTS {
                let shape = shape(collective, group, domains, segments);
                let schedule = algorithm.schedule(&shape).unwrap();
                let setup = Setup::new(Volume(f64::from(segments * group)));
                let played = simulator.run(&*schedule, &fabric, &setup, None).unwrap().makespan.0;
                let price = time(segments);
                // Alone, the first segment waits for nobody but at shared NICs.
                let waits = segments > 1 || nics.is_some();
                let most = price + late * load * f64::from(waits);
                let least = f64::from(segments) * load;
                let exact = algorithm.guarantee(&shape) == Guarantee::Equal && nics.is_none();
                let holds = match exact {
                    true => near(played, price),
                    // The first of several segments goes in the slots of all.
                    false => played <= most * (1.0 + 1e-9) && played >= least * (1.0 - 1e-9),
                };
                compared += 1;
                if !holds {
                    faults.push(format!(
                        "{id} {collective} {domains} x {group}, NICs {nics:?}, P = {segments}, \
                         {rates:?}: price {price}, played {played}, of a segment {load}"
                    ));
                }
            }
        }
        (compared, faults)
    });
    let compared: usize = faults.iter().map(|(compared, _)| compared).sum();
    let faults: Vec<String> = faults.into_iter().flat_map(|(_, faults)| faults).collect();
    assert!(compared > 10_000 / one_in(14), "{compared}");
    let shown = &faults[..faults.len().min(20)];
    assert!(faults.is_empty(), "{} of {compared}:\n{}", faults.len(), shown.join("\n"));
}

#[test]
fn pipelines_do_what_they_promise() {
    for (algorithm, collective) in pipelined() {
        for (group, domains) in [(2, 2), (4, 2), (3, 3), (4, 4), (2, 5)] {
            for segments in [1, 2, 5] {
                let shape = shape(collective, group, domains, segments);
                let schedule = algorithm.schedule(&shape).unwrap();
                assert_eq!(verify(&*schedule), Ok(()), "{} {shape:?}", algorithm.meta().id);
            }
        }
    }
}

#[test]
fn the_best_number_of_segments_is_the_best() {
    for (algorithm, collective) in pipelined() {
        for rates in RATES {
            let fabric = fabric(rates, 4, None);
            for size in [1.0, 40.0, 1000.0] {
                let size = Volume(size);
                let time = |segments| {
                    let shape = shape(collective, 4, 4, segments);
                    Prepared::new(algorithm, &shape, &fabric).unwrap().price(size)
                };
                let free = time(0);
                let most = size.0 as u32;
                let best = (1..=most).map(|p| time(p).total().0).fold(f64::INFINITY, f64::min);
                let id = algorithm.meta().id;
                let found = free.total().0;
                assert!(near(found, best), "{id} {rates:?} {size:?}: {found} against {best}");
                assert!(near(time(free.segments).total().0, found), "{id}");
            }
        }
    }
}

/// α so small that data alone count, and as many segments as it takes.
fn of_data(id: &str, group: u32, domains: u32, machine: &Fabric) -> f64 {
    let registry = Registry::builtin();
    let algorithm = registry.find(AllReduce, id).unwrap().algorithm;
    let shape = shape(AllReduce, group, domains, 0);
    Prepared::new(algorithm, &shape, machine).unwrap().time(Volume(1e12)).0 / 1e12
}

#[test]
fn each_direction_of_a_port_is_charged_once() {
    let machine = |own: f64, nic: f64| {
        let mut machine = fabric(([1e-9, 1e-9, 1.0], [1e-9, 1e-9, 1.0]), 8, None);
        if let Some(switch) = &mut machine.tiers[0].switch {
            switch.bandwidth = Some(Bandwidth(own));
        }
        machine.tiers[1].link.bandwidth = Some(Bandwidth(nic));
        machine
    };
    let close = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-3;
    // The switch at 0.565 of 450 GB/s: M over it, both halves of the all-reduce together.
    let inside = machine(0.565 * 450.0, 1e6);
    assert!(close(of_data("NVLSTree", 8, 2, &inside), 1.0 / (0.565 * 450.0)));
    // Two nodes send M/8 a NIC one way, half of what more nodes and rings do.
    let between = machine(1e6, 48.0);
    assert!(close(of_data("NVLSTree", 8, 2, &between), 1.0 / 8.0 / 48.0));
    assert!(close(of_data("NVLSTree", 8, 4, &between), 2.0 / 8.0 / 48.0));
    // The network's switch adds: once each way whatever the nodes.
    for id in ["nvls-sharp", "CollNetDirect", "CollNetChain"] {
        let fast = Fabric { tiers: between.tiers.clone(), ..between.clone() };
        let mut fast = fast;
        fast.tiers[0].link.bandwidth = Some(Bandwidth(1e6));
        assert!(close(of_data(id, 8, 4, &fast), 1.0 / 8.0 / 48.0), "{id}");
    }
}

#[test]
fn names_that_nccl_prints_can_be_typed() {
    let registry = Registry::builtin();
    let several = shape(AllReduce, 8, 2, 0);
    let one = Shape::new(AllReduce, 8);
    let found =
        |shape: &Shape, name: &str| registry.find_for(shape, name).unwrap().algorithm.meta().id;
    let table = [
        ("NVLSTree", "nvlstree"),
        ("Tree", "tree-rails"),
        ("Ring", "ring-rails"),
        ("CollNetChain", "collnet-chain"),
        ("CollNetDirect", "collnet-direct"),
    ];
    for (name, id) in table {
        // As `list` prints them, with the library.
        for name in [name, &format!("nccl:{name}"), &format!("NCCL:{name}/Simple")] {
            assert_eq!(found(&several, name), id, "{name}");
            assert!(registry.find(AllReduce, name).is_ok(), "{name}");
        }
        assert!(registry.find_for(&several, &format!("gloo:{name}")).is_err(), "{name}");
    }
    assert_eq!((found(&one, "Tree"), found(&one, "NVLS")), ("double-binary-tree", "inc"));
    // An id stays what it is.
    assert_eq!(found(&several, "tree"), "tree");
}

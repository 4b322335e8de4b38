//! The simulator against itself, against bounds, and against what real ports did.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use collcost::Collective;
use collcost::base::quantity::{Bandwidth, Bytes, Ratio, Seconds, SecondsPerByte, Volume};
use collcost::cost::bound::bound;
use collcost::cost::price::Prepared;
use collcost::cost::simulate::{
    Mode, Outcome, Setup, Simulator, Timed, Trouble, simulate, simulate_with,
};
use collcost::machine::fabric::{Discipline, Fabric, Order, Switch, Tier};
use collcost::model::algorithm::{Algorithm, Registry};
use collcost::model::formula::{Level, Ports, Shape};
use collcost::model::schedule::combine::Relabel;
use collcost::model::schedule::ring::Ring;
use collcost::model::schedule::{Endpoint, Frame, Layout, List, Op, Run, Schedule, verify};
use proptest::prelude::*;

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

fn flat(ports: Ports) -> Fabric {
    Fabric::new(vec![Tier { ports, ..Tier::new("link", Seconds(1e-6), Bandwidth(1e9)) }])
}

fn same(a: &Outcome, b: &Outcome) -> bool {
    near(a.makespan.0, b.makespan.0)
        && near(a.max_sent.0, b.max_sent.0)
        && near(a.max_received.0, b.max_received.0)
        && near(a.total.0, b.total.0)
        && (a.messages, a.max_messages, a.rounds) == (b.messages, b.max_messages, b.rounds)
}

/// Every schedule of the registry for `n` ranks, with a few segments.
fn schedules(n: u32) -> Vec<(&'static dyn Algorithm, Box<dyn Schedule>)> {
    let mut found = Vec::new();
    for algorithm in Registry::builtin().iter() {
        for &collective in algorithm.meta().collectives {
            for segments in if algorithm.is_pipelined() { vec![1, 3] } else { vec![1] } {
                let shape = Shape::new(collective, n).with_segments(segments);
                if algorithm.applies(&shape).is_ok() {
                    found.extend(algorithm.schedule(&shape).map(|s| (algorithm, s)));
                }
            }
        }
    }
    found
}

/// Whoever listens hears of every rank, so all of them are simulated.
fn all_ranks(schedule: &dyn Schedule, fabric: &Fabric, setup: &Setup) -> Outcome {
    simulate_with(schedule, fabric, setup, &mut |_: &Timed<'_>| {}).unwrap()
}

/// Nodes of four ranks with switches, and a network ten times slower.
fn nodes(order: Order) -> Fabric {
    let switch = Switch { alpha: Some(Seconds(1e-6)), bandwidth: None, multicast: true, alu: true };
    let tier = |name, rate| Tier {
        switch: Some(switch),
        ..Tier::new(name, Seconds(1e-6), Bandwidth(rate))
    };
    let inside = Tier { span: NonZeroU32::new(4), ..tier("inside", 1e10) };
    Fabric { order, ..Fabric::new(vec![inside, tier("between", 1e9)]) }
}

/// Ranks that are dealt to nodes in turn have the roles of those that are on the nodes one after another.
#[test]
fn schedules_of_nodes_follow_the_placement() {
    let (block, cyclic) = (nodes(Order::Block), nodes(Order::Cyclic));
    let mut compared = 0;
    for algorithm in Registry::builtin().iter() {
        for &collective in algorithm.meta().collectives {
            for n in [12, 16] {
                let shape = block.shape(collective, n).unwrap().with_segments(3);
                let mut between = false;
                if algorithm.applies(&shape).is_ok() {
                    algorithm.steps(&shape, &mut |step| between |= step.level == Level::Outer);
                }
                let Some(plain) = algorithm.schedule(&shape).filter(|_| between) else { continue };
                let what = format!("{} {collective} {n}", algorithm.meta().id);
                let Some(dealt) = cyclic.schedule(algorithm, &shape) else {
                    assert_eq!(plain.frame().layout, Layout::Owned, "{what}");
                    continue;
                };
                assert_eq!(verify(&*dealt), Ok(()), "{what}");
                let setup = Setup::new(Volume(4.8e6)).in_mode(Mode::Sync);
                let [a, b] = [(&*plain, &block), (&*dealt, &cyclic)]
                    .map(|(schedule, fabric)| simulate(schedule, fabric, &setup).unwrap());
                assert!(same(&a, &b), "{what}: {a:?} {b:?}");
                compared += 1;
            }
        }
    }
    assert!(compared > 60, "{compared}");
}

/// The one message crosses the slowest links, wherever ranks are.
#[test]
fn a_message_goes_to_another_node() {
    let message = Registry::builtin().find(Collective::SendRecv, "p2p").unwrap().algorithm;
    for fabric in [nodes(Order::Block), nodes(Order::Cyclic)] {
        for n in [2, 4, 8, 16] {
            let shape = fabric.shape(Collective::SendRecv, n).unwrap();
            let price = Prepared::new(message, &shape, &fabric).unwrap().time(Volume(1e6));
            let schedule = fabric.schedule(message, &shape).unwrap();
            let took = simulate(&*schedule, &fabric, &Setup::new(Volume(1e6))).unwrap().makespan;
            assert!(near(price.0, took.0), "{n} ranks, {}: {price} {took}", fabric.order);
        }
    }
}

/// Partners alternate between both sides: half of a node's ranks leave it, or none.
#[test]
fn exchanges_to_both_sides_cost_what_they_take() {
    for (name, collective) in [
        ("bine", Collective::AllReduce),
        ("bine", Collective::AllToAll),
        ("swing", Collective::AllReduce),
        ("swing-latency", Collective::AllReduce),
    ] {
        let algorithm = Registry::builtin().find(collective, name).unwrap().algorithm;
        let fabric = nodes(Order::Block);
        let shape = fabric.shape(collective, 16).unwrap();
        let price = Prepared::new(algorithm, &shape, &fabric).unwrap().time(Volume(1.6e8));
        let schedule = fabric.schedule(algorithm, &shape).unwrap();
        let setup = Setup::new(Volume(1.6e8)).in_mode(Mode::Sync);
        let took = simulate(&*schedule, &fabric, &setup).unwrap().makespan;
        assert!((price.0 / took.0 - 1.0).abs() < 1e-6, "{name} {collective}: {price} {took}");
    }
}

#[test]
fn one_rank_stands_for_all_where_all_do_the_same() {
    let mut turning = 0;
    for n in (1..=17).chain([24, 32, 33]) {
        for (algorithm, schedule) in schedules(n) {
            if !schedule.frame().turns {
                continue;
            }
            turning += 1;
            for ports in [Ports::ONE, Ports::full(2), Ports::full(3), Ports::Unbounded] {
                for mode in Mode::ALL {
                    let mut fabric = flat(ports);
                    fabric.gamma = Some(SecondsPerByte(1e-10));
                    let setup = Setup::new(Volume(1e5)).in_mode(mode);
                    let one = simulate(&*schedule, &fabric, &setup).unwrap();
                    let all = all_ranks(&*schedule, &fabric, &setup);
                    assert!(
                        same(&one, &all),
                        "{} {n} {ports} {mode}\n{one:?}\n{all:?}",
                        algorithm.meta().id
                    );
                }
            }
        }
    }
    assert!(turning > 300, "{turning}");
}

#[test]
fn a_million_ranks_in_a_ring() {
    let n = 1_000_000;
    let outcome =
        simulate(&Ring::new(Collective::AllReduce, n), &flat(Ports::ONE), &Setup::new(Volume(1e9)))
            .unwrap();
    let steps = 2.0 * f64::from(n - 1);
    assert!(near(outcome.makespan.0, steps * (1e-6 + 1e9 / f64::from(n) / 1e9)));
    assert_eq!(outcome.messages, 2 * u64::from(n) * u64::from(n - 1));
    // One port with additions, and as many ports as there are partners without, are as quick.
    let added = Fabric { gamma: Some(SecondsPerByte(1e-10)), ..flat(Ports::ONE) };
    for fabric in [added, flat(Ports::Unbounded)] {
        let again =
            simulate(&Ring::new(Collective::AllReduce, n), &fabric, &Setup::new(Volume(1e9)));
        assert_eq!(again.unwrap().messages, outcome.messages);
    }
}

#[test]
fn what_takes_too_much_memory_is_refused_with_the_estimate() {
    let mut setup = Setup::new(Volume(1e9));
    setup.trouble.starts = vec![Seconds(0.0), Seconds(1e-6)];
    let ring = Ring::new(Collective::AllReduce, 40_000);
    let error = simulate(&ring, &flat(Ports::ONE), &setup).unwrap_err().to_string();
    assert!(error.contains("MiB") && error.contains("40000 ranks"), "{error}");
    // What would take for ever is refused too, in every mode.
    let ring = Ring::new(Collective::AllReduce, 1_000_000);
    for mode in Mode::ALL {
        let setup = setup.clone().in_mode(mode);
        let error = simulate(&ring, &flat(Ports::ONE), &setup).unwrap_err().to_string();
        assert!(error.contains("are 1999998000000"), "{error}");
    }
}

/// The order in which memory is used again does not matter.
#[test]
fn a_simulator_can_be_used_again() {
    let mut simulator = Simulator::default();
    for n in [7, 4, 9] {
        for (algorithm, schedule) in schedules(n) {
            for mode in Mode::ALL {
                for ports in [Ports::ONE, Ports::full(2), Ports::Half(NonZeroU32::MIN)] {
                    let setup = Setup::new(Volume(1e5)).in_mode(mode);
                    let Ok(once) = simulate(&*schedule, &flat(ports), &setup) else { continue };
                    let again = simulator.run(&*schedule, &flat(ports), &setup, None).unwrap();
                    assert_eq!(once, again, "{} {n} {mode} {ports}", algorithm.meta().id);
                }
            }
        }
    }
}

/// T: one message of M one way. Real TCP ports share: a binomial broadcast over 8 hosts took 5.5 T,
/// where ports that serve one after the other give 3 and fair ones 6.
#[test]
fn ports_that_share_fairly() {
    let fabric = |discipline, duplex| {
        let link = Tier::new("link", Seconds(0.0), Bandwidth(1.0));
        let mut tier = Tier { discipline, ..link };
        tier.link.duplex = Ratio(duplex);
        Fabric::new(vec![tier])
    };
    let times = |name: &str, collective, discipline, duplex| {
        let registry = Registry::builtin();
        let algorithm = registry.find(collective, name).unwrap().algorithm;
        let schedule = algorithm.schedule(&Shape::new(collective, 8)).unwrap();
        let setup = Setup::new(Volume(1.0));
        simulate(&*schedule, &fabric(discipline, duplex), &setup).unwrap().makespan.0
    };
    use Collective::{AllReduce, Broadcast, Reduce};
    use Discipline::{Fair, Serial};
    assert!(near(times("binomial", Broadcast, Serial, 1.0), 3.0));
    assert!(near(times("binomial", Broadcast, Fair, 1.0), 6.0));
    assert!(near(times("flat", Broadcast, Fair, 1.0), 7.0));
    assert!(near(times("binomial", Reduce, Fair, 1.0), 3.0));
    // Both ways at once at half the rate each: exchanges take twice as long, one way does not.
    assert!(near(times("recursive-doubling", AllReduce, Serial, 1.0), 3.0));
    assert!(near(times("recursive-doubling", AllReduce, Serial, 0.5), 6.0));
    assert!(near(times("recursive-doubling", AllReduce, Fair, 0.75), 4.0));
    assert!(near(times("binomial", Broadcast, Serial, 0.5), 3.0));
    assert!(near(times("ring", AllReduce, Serial, 1.0), 1.75));
    assert!(near(times("ring", AllReduce, Fair, 0.5), 3.5));
}

#[test]
fn tiers_nics_and_trouble() {
    // Two nodes of two ranks; rank r of each node sends to rank r of the other.
    let shape = Shape { group: NonZeroU32::new(2), ..Shape::new(Collective::AllReduce, 4) };
    let registry = Registry::builtin();
    let algorithm = registry.find(Collective::AllReduce, "2d-ring").unwrap().algorithm;
    let schedule = algorithm.schedule(&shape).unwrap();
    let fabric = |nics| {
        let inner = Tier::new("inside", Seconds(1.0), Bandwidth(4.0));
        let inner = Tier { span: NonZeroU32::new(2), ..inner };
        let outer = Tier::new("between", Seconds(10.0), Bandwidth(1.0));
        Fabric::new(vec![inner, Tier { nics: NonZeroU32::new(nics), ..outer }])
    };
    for mode in Mode::ALL {
        let setup = Setup::new(Volume(16.0)).in_mode(mode);
        let time = |nics| simulate(&*schedule, &fabric(nics), &setup).unwrap().makespan.0;
        // 2(α₁ + 8/4) inside, 2(α₂ + 4/1) between; one NIC carries both ranks' messages in turn.
        assert!(near(time(2), 2.0 * 3.0 + 2.0 * 14.0), "{mode} {}", time(2));
        assert!(near(time(1), 2.0 * 3.0 + 4.0 * 14.0), "{mode} {}", time(1));
    }
    // A ring of three, one chunk each: a late rank, a slow rank and a slow link.
    let ring = Ring::new(Collective::AllGather, 3);
    let link = Fabric::flat(Seconds(0.0), Bandwidth(1.0));
    let time = |trouble| {
        let setup = Setup { trouble, ..Setup::new(Volume(3.0)) };
        simulate(&ring, &link, &setup).unwrap().makespan.0
    };
    let late = Trouble { starts: vec![Seconds(10.0)], ..Trouble::default() };
    // Its neighbours talk before it; its own chunk takes two hops, and one more waits for it.
    assert!(near(time(late), 12.0));
    let slow = Trouble { slow_ranks: vec![(0, Ratio(5.0))], ..Trouble::default() };
    assert!(near(time(slow), 10.0));
    let slow = Trouble { slow_links: vec![(0, 1, Ratio(5.0))], ..Trouble::default() };
    assert!(near(time(slow), 10.0));
    let nobody = Trouble { slow_ranks: vec![(3, Ratio(5.0))], ..Trouble::default() };
    let setup = Setup { trouble: nobody, ..Setup::new(Volume(3.0)) };
    assert!(simulate(&ring, &link, &setup).unwrap_err().to_string().contains("no rank 3"));
}

#[test]
fn elements_do_not_divide() {
    // Ten elements of four bytes over four ranks: 3, 3, 2, 2.
    let ring = Ring::new(Collective::AllGather, 4);
    let fabric = Fabric::flat(Seconds(0.0), Bandwidth(1.0));
    let setup = Setup { element: Some(Bytes(4)), ..Setup::new(Volume(40.0)) };
    let mut sizes = Vec::new();
    let mut listener = |message: &Timed<'_>| sizes.push(message.bytes.0);
    let outcome = simulate_with(&ring, &fabric, &setup, &mut listener).unwrap();
    sizes.sort_by(f64::total_cmp);
    assert_eq!(sizes, [8.0, 8.0, 8.0, 8.0, 8.0, 8.0, 12.0, 12.0, 12.0, 12.0, 12.0, 12.0]);
    assert!(near(outcome.total.0, 120.0));
    assert!(near(outcome.makespan.0, 36.0));
    let odd = Setup { element: Some(Bytes(4)), ..Setup::new(Volume(41.0)) };
    assert!(simulate(&ring, &fabric, &odd).is_err());
}

#[test]
fn what_there_is_not_is_refused() {
    let mut list = List::of(&Ring::new(Collective::AllReduce, 3));
    let chunk = [collcost::model::schedule::Run::one(7)];
    let [a, b] = [0, 1].map(collcost::model::schedule::Endpoint::Rank);
    list.push(4, a, b, collcost::model::schedule::Op::Copy, &chunk);
    let setup = Setup::new(Volume(1.0));
    for mode in Mode::ALL {
        let setup = setup.clone().in_mode(mode);
        let error = simulate(&list, &flat(Ports::ONE), &setup).unwrap_err();
        assert!(error.to_string().contains("does not exist"), "{error}");
    }
}

#[test]
fn modes_are_read_as_they_are_written() {
    for mode in Mode::ALL {
        assert_eq!(mode.to_string().parse(), Ok(mode));
    }
    assert_eq!(Mode::ALL.map(|mode| mode.to_string()), ["sync", "local", "flow"]);
    assert!("Flow".parse::<Mode>().is_err());
}

#[test]
fn trouble_is_what_changes_something() {
    let starts = |all: &[f64]| Trouble {
        starts: all.iter().map(|&start| Seconds(start)).collect(),
        ..Trouble::default()
    };
    assert!(Trouble::default().is_none() && starts(&[0.0, 0.0]).is_none());
    assert!(!starts(&[0.0, 1.0]).is_none());
    assert!(!Trouble { slow_ranks: vec![(0, Ratio(2.0))], ..Trouble::default() }.is_none());
    assert!(!Trouble { slow_links: vec![(0, 1, Ratio(2.0))], ..Trouble::default() }.is_none());
}

/// A schedule of `n` ranks and a switch or none: all messages are sent at once, a chunk each.
fn at_once(n: u32, switches: u32, messages: &[(Endpoint, Endpoint)]) -> List {
    let frame = Frame { switches, ..Frame::new(Collective::AllGather, n, n, 0) };
    let mut list = List::new(frame);
    for (chunk, &(from, to)) in (0..).zip(messages) {
        list.push(0, from, to, Op::Copy, &[Run::one(chunk)]);
    }
    list
}

/// When each of those messages ends.
fn ends(fabric: &Fabric, n: u32, chunk: f64, messages: &[(u32, u32)]) -> Vec<(f64, Option<usize>)> {
    let ranks: Vec<_> =
        messages.iter().map(|&(a, b)| (Endpoint::Rank(a), Endpoint::Rank(b))).collect();
    let setup = Setup::new(Volume(chunk * f64::from(n)));
    let mut ends = Vec::new();
    let mut listener = |message: &Timed<'_>| ends.push((message.end.0, message.tier));
    simulate_with(&at_once(n, 0, &ranks), fabric, &setup, &mut listener).unwrap();
    ends
}

#[test]
fn cyclic_ranks_sit_with_those_a_stride_away() {
    let inner = Tier::new("inside", Seconds(1.0), Bandwidth(1.0));
    let inner = Tier { span: NonZeroU32::new(2), ..inner };
    let outer = Tier::new("between", Seconds(10.0), Bandwidth(1.0));
    let mut fabric = Fabric::new(vec![inner, outer]);
    let tiers = |fabric: &Fabric, n| {
        let tier = |to| ends(fabric, n, 1.0, &[(0, to)])[0];
        (1..n).map(tier).collect::<Vec<_>>()
    };
    let (near, far) = ((2.0, Some(0)), (11.0, Some(1)));
    assert_eq!(tiers(&fabric, 4), [near, far, far]);
    fabric.order = Order::Cyclic;
    assert_eq!(tiers(&fabric, 4), [far, near, far]);
    assert_eq!(tiers(&fabric, 5), [far, far, near, far]);
}

#[test]
fn fair_nics_are_shared_by_their_node_each_way() {
    // Three nodes of two ranks, each with one NIC or two.
    let fabric = |nics| {
        let inner = Tier::new("inside", Seconds(0.0), Bandwidth(1.0));
        let inner = Tier { span: NonZeroU32::new(2), ..inner };
        let nics = NonZeroU32::new(nics);
        let outer = Tier::new("between", Seconds(0.0), Bandwidth(1.0));
        Fabric::new(vec![inner, Tier { nics, discipline: Discipline::Fair, ..outer }])
    };
    let times = |nics, messages: &[(u32, u32)]| {
        ends(&fabric(nics), 6, 1.0, messages).iter().map(|(end, _)| *end).collect::<Vec<_>>()
    };
    // Out of one node, into one node, and through three nodes one after the other.
    assert_eq!(times(1, &[(0, 2), (1, 4)]), [2.0, 2.0]);
    assert_eq!(times(1, &[(0, 4), (2, 5)]), [2.0, 2.0]);
    assert_eq!(times(1, &[(0, 2), (2, 4), (4, 0)]), [1.0, 1.0, 1.0]);
    assert_eq!(times(1, &[(1, 3), (3, 5), (5, 1)]), [1.0, 1.0, 1.0]);
    assert_eq!(times(2, &[(0, 2), (1, 4)]), [1.0, 1.0]);
}

#[test]
fn free_ports_go_to_the_first_in_the_schedule() {
    let [zero, relay] = [Endpoint::Rank(0), Endpoint::Rank(6)];
    let messages = [(0, 1), (0, 2), (0, 3), (0, 4), (5, 0)];
    let messages = messages.map(|(from, to)| (Endpoint::Rank(from), Endpoint::Rank(to)));
    let mut list = at_once(7, 0, &messages);
    // What rank 5 sends goes on when it has come: behind those that wait for both ports of rank 0.
    list.push(1, zero, relay, Op::Copy, &[Run::one(4)]);
    let link = Tier::new("link", Seconds(0.0), Bandwidth(1.0));
    let fabric = Fabric::new(vec![Tier { ports: Ports::full(2), ..link }]);
    let setup = Setup::new(Volume(7.0)).in_mode(Mode::Flow);
    let mut ends = Vec::new();
    let mut listener = |message: &Timed<'_>| ends.push(message.end.0);
    simulate_with(&list, &fabric, &setup, &mut listener).unwrap();
    assert_eq!(ends, [1.0, 1.0, 2.0, 2.0, 1.0, 3.0]);
}

#[test]
fn what_others_leave_is_shared_fairly() {
    let link = Tier::new("link", Seconds(0.0), Bandwidth(1.0));
    let fabric = Fabric::new(vec![Tier { discipline: Discipline::Fair, ..link }]);
    // Three messages leave rank 0 at a third of the rate; the fourth gets what is left of rank 3.
    let found = ends(&fabric, 5, 2.0, &[(0, 1), (0, 2), (0, 3), (4, 3)]);
    let found: Vec<f64> = found.iter().map(|(end, _)| *end).collect();
    for (found, expected) in found.into_iter().zip([6.0, 6.0, 6.0, 3.0]) {
        assert!(near(found, expected), "{found} {expected}");
    }
}

#[test]
fn what_is_left_of_a_port_lets_nothing_go_faster_than_its_link() {
    let link = Tier::new("link", Seconds(0.0), Bandwidth(1.0));
    let (ports, discipline) = (Ports::full(2), Discipline::Fair);
    let fabric = Fabric::new(vec![Tier { ports, discipline, ..link }]);
    // Three messages leave the two ports of rank 0 at 2/3 of the rate; 4/3 are left of rank 3.
    let found = ends(&fabric, 5, 2.0, &[(0, 1), (0, 2), (0, 3), (4, 3)]);
    let found: Vec<f64> = found.iter().map(|(end, _)| *end).collect();
    for (found, expected) in found.into_iter().zip([3.0, 3.0, 3.0, 2.0]) {
        assert!(near(found, expected), "{found} {expected}");
    }
}

#[test]
fn messages_to_switches_share_nothing() {
    let mut fabric = switched(3.0);
    fabric.tiers[0].discipline = Discipline::Fair;
    let [from, one, other] = [Endpoint::Rank(0), Endpoint::Switch(0), Endpoint::Switch(1)];
    for messages in [&[(from, one)][..], &[(from, one), (from, other)]] {
        let list = at_once(2, 2, messages);
        // α, then 8 bytes at 4 a second, however many there are.
        let found = simulate(&list, &fabric, &Setup::new(Volume(16.0))).unwrap();
        assert!(near(found.makespan.0, 5.0), "{}", found.makespan.0);
    }
}

#[test]
fn a_switch_has_its_own_latency_and_rate() {
    let switch = Switch {
        alpha: Some(Seconds(3.0)),
        bandwidth: Some(Bandwidth(4.0)),
        multicast: true,
        alu: true,
    };
    let link = Tier::new("link", Seconds(10.0), Bandwidth(1.0));
    let fabric = Fabric::new(vec![Tier { switch: Some(switch), ..link }]);
    let [from, through] = [Endpoint::Rank(0), Endpoint::Switch(0)];
    let up = at_once(2, 1, &[(from, through)]);
    let time = simulate(&up, &fabric, &Setup::new(Volume(16.0))).unwrap().makespan.0;
    assert!(near(time, 3.0 + 8.0 / 4.0), "{time}");
    let down = at_once(2, 1, &[(through, from)]);
    let setup = Setup::new(Volume(16.0));
    let error = simulate(&down, &fabric, &setup).map(|outcome| outcome.makespan.0);
    assert_eq!(error, Ok(5.0));
    // A rank that there is not is no switch.
    let wrong = at_once(2, 1, &[(from, Endpoint::Rank(2))]);
    assert!(simulate(&wrong, &fabric, &setup).is_err());
    let wrong = at_once(2, 1, &[(from, Endpoint::Switch(1))]);
    assert!(simulate(&wrong, &fabric, &setup).is_err());
}

#[test]
fn rounds_end_behind_what_a_switch_passes_on() {
    let switch = Switch {
        alpha: Some(Seconds(3.0)),
        bandwidth: Some(Bandwidth(4.0)),
        multicast: true,
        alu: true,
    };
    let link = Tier::new("link", Seconds(10.0), Bandwidth(1.0));
    let fabric = Fabric::new(vec![Tier { switch: Some(switch), ..link }]);
    let [first, second, through] = [Endpoint::Rank(0), Endpoint::Rank(1), Endpoint::Switch(0)];
    // To the other rank, then from it, each time through the switch.
    let frame = Frame { switches: 1, ..Frame::new(Collective::AllGather, 2, 2, 0) };
    let mut list = List::new(frame);
    let hops =
        [(first, through, 0), (through, second, 0), (second, through, 1), (through, first, 1)];
    for (round, (from, to, chunk)) in (0..).zip(hops) {
        list.push(round, from, to, Op::Copy, &[Run::one(chunk)]);
    }
    // Two hops of 3 s and the 8 bytes of a chunk at 4 B/s, once or twice.
    for (mode, time) in [(Mode::Flow, 8.0), (Mode::Local, 16.0), (Mode::Sync, 16.0)] {
        let setup = Setup::new(Volume(16.0)).in_mode(mode);
        let found = simulate(&list, &fabric, &setup).unwrap();
        assert!(near(found.makespan.0, time), "{mode} {}", found.makespan.0);
        assert_eq!((found.messages, found.rounds), (4, 4));
    }
}

/// With latency `alpha` and 4 bytes a second through a switch.
fn switched(alpha: f64) -> Fabric {
    let (alpha, bandwidth) = (Some(Seconds(alpha)), Some(Bandwidth(4.0)));
    let switch = Switch { alpha, bandwidth, multicast: true, alu: true };
    let link = Tier::new("link", Seconds(10.0), Bandwidth(1.0));
    Fabric::new(vec![Tier { switch: Some(switch), ..link }])
}

#[test]
fn what_a_switch_sends_ends_behind_what_it_receives() {
    let [first, second, through] = [Endpoint::Rank(0), Endpoint::Rank(1), Endpoint::Switch(0)];
    let frame = Frame { switches: 1, ..Frame::new(Collective::AllGather, 2, 2, 0) };
    let mut list = List::new(frame);
    list.push(0, first, through, Op::Copy, &[Run { start: 0, len: 2 }]);
    list.push(1, through, second, Op::Copy, &[Run::one(1)]);
    for (alpha, time) in [(3.0, 10.0), (0.0, 4.0)] {
        for mode in Mode::ALL {
            let setup = Setup::new(Volume(16.0)).in_mode(mode);
            // 16 bytes come from α to α + 4 s; 8 of them go on, and end α later.
            let found = simulate(&list, &switched(alpha), &setup).unwrap();
            assert!(near(found.makespan.0, time), "{mode} {}", found.makespan.0);
        }
    }
}

#[test]
fn where_rates_change_a_switch_passes_on_what_has_come() {
    let [first, second, through] = [Endpoint::Rank(0), Endpoint::Rank(1), Endpoint::Switch(0)];
    let frame = Frame { switches: 1, ..Frame::new(Collective::AllGather, 2, 2, 0) };
    let mut list = List::new(frame);
    list.push(0, first, through, Op::Copy, &[Run { start: 0, len: 2 }]);
    list.push(1, through, second, Op::Copy, &[Run::one(1)]);
    let mut fabric = switched(3.0);
    fabric.tiers[0].discipline = Discipline::Fair;
    for mode in Mode::ALL {
        let setup = Setup::new(Volume(16.0)).in_mode(mode);
        // 16 bytes take α + 4 s, then 8 of them α + 2 s.
        let found = simulate(&list, &fabric, &setup).unwrap();
        assert!(near(found.makespan.0, 12.0), "{mode} {}", found.makespan.0);
    }
}

#[test]
fn ranks_keep_to_rounds_and_switches_to_none() {
    use Endpoint::{Rank, Switch};
    let time = |mode, hops: [(Endpoint, Endpoint); 4]| {
        let frame = Frame { switches: 2, ..Frame::new(Collective::AllGather, 4, 2, 0) };
        let mut list = List::new(frame);
        for (round, (from, to)) in (0..).zip(hops) {
            let chunk = Run::one(round as u32 / 2);
            list.push(round, from, to, Op::Copy, &[chunk]);
        }
        let setup = Setup::new(Volume(16.0)).in_mode(mode);
        simulate(&list, &switched(3.0), &setup).unwrap().makespan.0
    };
    // From rank to rank through a switch takes 8 s; twice the same switch, for other ranks.
    let other =
        [(Rank(0), Switch(0)), (Switch(0), Rank(1)), (Rank(2), Switch(0)), (Switch(0), Rank(3))];
    assert_eq!(Mode::ALL.map(|mode| time(mode, other)), [16.0, 8.0, 8.0]);
    // On from the rank in between through another switch.
    let back =
        [(Rank(0), Switch(0)), (Switch(0), Rank(1)), (Rank(1), Switch(1)), (Switch(1), Rank(0))];
    assert_eq!(Mode::ALL.map(|mode| time(mode, back)), [16.0, 16.0, 8.0]);
}

#[test]
fn a_rank_adds_one_thing_after_another() {
    // From each of four ranks to each other, a message of a second that takes two to add.
    let frame = Frame { turns: true, ..Frame::new(Collective::ReduceScatter, 4, 4, 0) };
    let mut schedule = List::new(frame);
    for (rank, distance) in (0..4).flat_map(|rank| (1..4).map(move |distance| (rank, distance))) {
        let to = (rank + distance) % 4;
        let ends = [rank, to].map(Endpoint::Rank);
        schedule.push(0, ends[0], ends[1], Op::Reduce, &[Run::one(to)]);
    }
    let link = Fabric::flat(Seconds(0.0), Bandwidth(1.0));
    let fabric = Fabric { gamma: Some(SecondsPerByte(2.0)), ..link };
    for mode in Mode::ALL {
        let setup = Setup::new(Volume(4.0)).in_mode(mode);
        assert!(near(simulate(&schedule, &fabric, &setup).unwrap().makespan.0, 7.0), "{mode}");
    }
}

/// Two messages come to rank 4 at 5 s, one after 2 s and one after 4 s; they take 2 s and 4 s to add.
#[test]
fn of_what_comes_at_one_instant_the_first_in_the_schedule_is_added_first() {
    let message = |list: &mut List, from, to, op, chunks| {
        list.push(0, Endpoint::Rank(from), Endpoint::Rank(to), op, &[chunks]);
    };
    let [short, long] = [Run { start: 0, len: 2 }, Run { start: 2, len: 4 }];
    let frame = Frame::new(Collective::ReduceScatter, 5, 6, 0);
    let ports = |discipline| Fabric {
        gamma: Some(SecondsPerByte(1.0)),
        ..Fabric::new(vec![Tier {
            ports: Ports::full(2),
            discipline,
            ..Tier::new("link", Seconds(0.0), Bandwidth(1.0))
        }])
    };
    // Rank 2 starts at 3 s or at 1 s, rank 3 at the other. A message of 2 s or of 4 s comes before
    // both, so that neither duration is always the first there is.
    for (ends, starts) in
        [([short, long], [0.0, 0.0, 3.0, 1.0]), ([long, short], [0.0, 0.0, 1.0, 3.0])]
    {
        for before in [short, long] {
            let mut list = List::new(frame);
            message(&mut list, 0, 1, Op::Copy, before);
            message(&mut list, 2, 4, Op::Reduce, ends[0]);
            message(&mut list, 3, 4, Op::Reduce, ends[1]);
            for discipline in [Discipline::Serial, Discipline::Fair] {
                for mode in Mode::ALL {
                    let mut setup = Setup::new(Volume(6.0)).in_mode(mode);
                    setup.trouble.starts = starts.map(Seconds).to_vec();
                    let mut added = Vec::new();
                    let mut listener = |message: &Timed<'_>| added.push(message.added.0);
                    simulate_with(&list, &ports(discipline), &setup, &mut listener).unwrap();
                    let first = 5.0 + f64::from(ends[0].len);
                    assert_eq!(added[1..], [first, 11.0], "{discipline:?} {mode} {ends:?}");
                }
            }
        }
    }
}

/// Whether some rank has more messages in a round than ports.
fn has_turns(schedule: &dyn Schedule, ports: Ports) -> bool {
    let mut load = BTreeMap::<_, u32>::new();
    for message in List::of(schedule).iter() {
        let (out, into) = if ports.is_half() { (0, 0) } else { (0, 1) };
        *load.entry((message.round, message.from, out)).or_default() += 1;
        *load.entry((message.round, message.to, into)).or_default() += 1;
    }
    load.values().any(|&messages| messages > ports.sends(u32::MAX))
}

fn ports() -> impl Strategy<Value = Ports> {
    let k = |k: u32| NonZeroU32::new(k).unwrap();
    prop_oneof![
        (1..4_u32).prop_map(Ports::full),
        (1..4_u32).prop_map(move |n| Ports::Half(k(n))),
        Just(Ports::Unbounded),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Nothing is faster than what nothing can be faster than, and barriers only cost.
    #[test]
    fn bounds_hold(
        pick in 0..10_000_usize,
        n in 1..40_u32,
        root in 0..40_u32,
        size in 0.0..1e8_f64,
        segments in 1..9_u32,
        ports in ports(),
        gamma in prop_oneof![Just(0.0), 1e-12..1e-9_f64],
    ) {
        let registry = Registry::builtin();
        let all: Vec<_> = registry
            .iter()
            .flat_map(|a| a.meta().collectives.iter().map(move |&c| (a, c)))
            .collect();
        let (algorithm, collective) = all[pick % all.len()];
        let shape = Shape::new(collective, n).with_segments(segments).with_ports(ports);
        let shape = Shape { group: NonZeroU32::new(4).filter(|_| n % 4 == 0 && n > 4), ..shape };
        let schedule = match algorithm.applies(&shape) {
            Ok(()) => algorithm.schedule(&shape),
            Err(_) => None,
        };
        let Some(schedule) = schedule.filter(|s| s.frame().switches == 0) else { return Ok(()) };
        let schedule: Box<dyn Schedule> = if schedule.frame().layout == Layout::Owned {
            schedule
        } else {
            Box::new(Relabel::new(schedule, root % n))
        };
        prop_assert_eq!(verify(&*schedule), Ok(()));
        let mut fabric = flat(ports);
        fabric.gamma = (gamma > 0.0).then_some(SecondsPerByte(gamma));
        let time = |mode| {
            let setup = Setup::new(Volume(size)).in_mode(mode);
            simulate(&*schedule, &fabric, &setup).unwrap().makespan.0
        };
        let [sync, local, flow] = Mode::ALL.map(time);
        let shape = Shape::new(collective, n);
        let least = bound(&shape, Volume(size), &fabric).unwrap().time().0;
        let slack = 1.0 + 1e-9;
        let name = algorithm.meta().id;
        prop_assert!(flow * slack >= least, "{} {}: {} below {}", name, n, flow, least);
        prop_assert!(local * slack >= least, "{} {}: {} below {}", name, n, local, least);
        // Where messages of a round take turns at a port, one that is early may be in the way of
        // one that many wait for (Graham 1969), and a barrier would have helped.
        if !has_turns(&*schedule, ports) {
            prop_assert!(sync * slack >= local, "{} {}: sync {} local {}", name, n, sync, local);
        }
    }
}

//! What the listeners tell adds up to what the simulation ends with.

use std::num::NonZeroU32;

use collcost::base::collective::Collective;
use collcost::base::quantity::{Bandwidth, Ratio, Seconds, SecondsPerByte, Volume};
use collcost::cost::simulate::listen::{CriticalPath, Share, Trace, Traffic, Utilisation, Wait};
use collcost::cost::simulate::{Mode, Setup, Timed, Trouble, simulate_with};
use collcost::machine::fabric::{Discipline, Fabric, Switch, Tier};
use collcost::model::algorithm::Registry;
use collcost::model::formula::{Ports, Shape};
use collcost::model::schedule::{Endpoint, Frame, List, Op, Run, Schedule};

/// All schedules of some shapes.
fn schedules(ports: Ports) -> Vec<(String, Box<dyn Schedule>)> {
    let mut found: Vec<(String, Box<dyn Schedule>)> = Vec::new();
    for algorithm in Registry::builtin().iter() {
        for &collective in algorithm.meta().collectives {
            for (n, p) in [(2, 1), (5, 3), (8, 1), (8, 2), (12, 1)] {
                let shape = Shape::new(collective, n).with_segments(p).with_ports(ports);
                if algorithm.applies(&shape).is_err() {
                    continue;
                }
                let name = format!("{} {} {n} {p} {ports}", collective.id(), algorithm.meta().id);
                found.extend(algorithm.schedule(&shape).map(|schedule| (name, schedule)));
            }
        }
    }
    found
}

fn link(ports: Ports) -> Tier {
    let switch = Switch { alpha: Some(Seconds(0.3)), bandwidth: None, multicast: true, alu: true };
    let tier = Tier::new("link", Seconds(1.0), Bandwidth(7.0));
    Tier { ports, switch: Some(switch), ..tier }
}

/// Flat, in nodes of four that share two NICs, and with ports that are shared.
fn fabrics(ports: Ports) -> [Fabric; 3] {
    let flat = Fabric { gamma: Some(SecondsPerByte(0.01)), ..Fabric::new(vec![link(ports)]) };
    let four = NonZeroU32::new(4);
    let inner = Tier { span: four, ..link(ports) };
    let mut outer = Tier { nics: NonZeroU32::new(2), switch: None, ..link(ports) };
    outer.link.alpha = Some(Seconds(2.5));
    let mut shared = Tier { discipline: Discipline::Fair, ..link(ports) };
    shared.link.duplex = Ratio(0.6);
    [flat, Fabric::new(vec![inner, outer]), Fabric::new(vec![shared])]
}

fn setups() -> Vec<Setup> {
    let late = Trouble {
        starts: vec![Seconds(0.0), Seconds(3.0)],
        slow_ranks: vec![(0, Ratio(1.5))],
        slow_links: vec![(0, 1, Ratio(3.0))],
    };
    let sound = Mode::ALL.map(|mode| Setup::new(Volume(100.0)).in_mode(mode));
    let troubled = sound.clone().map(|setup| Setup { trouble: late.clone(), ..setup });
    sound.into_iter().chain(troubled).collect()
}

#[test]
fn what_listeners_tell_adds_up() {
    let mut compared = 0;
    for ports in [Ports::ONE, Ports::full(2), Ports::Half(NonZeroU32::MIN), Ports::Unbounded] {
        for (name, schedule) in schedules(ports) {
            for fabric in fabrics(ports) {
                for setup in setups() {
                    let name = format!("{name} {} {setup:?}", fabric.tiers.len());
                    adds_up(&name, &*schedule, &fabric, &setup);
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 1000, "{compared}");
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(1.0)
}

fn adds_up(name: &str, schedule: &dyn Schedule, fabric: &Fabric, setup: &Setup) {
    let mut trace = Trace::default();
    let mut traffic = Traffic::default();
    let mut utilisation = Utilisation::new(schedule, fabric).unwrap();
    let mut critical = CriticalPath::new(schedule, fabric, setup).unwrap();
    let mut all = |message: &Timed<'_>| {
        use collcost::cost::simulate::Listener as _;
        trace.message(message);
        traffic.message(message);
        utilisation.message(message);
        critical.message(message);
    };
    let outcome = simulate_with(schedule, fabric, setup, &mut all).unwrap();

    assert_eq!(trace.len() as u64, outcome.messages, "{name}");
    let last = trace.iter().map(|m| m.added.0).fold(0.0, f64::max);
    assert_eq!(last, outcome.makespan.0, "{name}");

    let links = traffic.links();
    let bytes: f64 = links.iter().map(|l| l.amount.bytes.0).sum();
    assert!(near(bytes, outcome.total.0), "{name}: {bytes}");
    let tiers = (0..fabric.tiers.len()).map(|t| traffic.tier(t)).chain([traffic.switched()]);
    assert_eq!(tiers.map(|t| t.messages).sum::<u64>(), outcome.messages, "{name}");

    for tier in 0..fabric.depth(schedule.ranks()).unwrap() {
        let Some(shares) = utilisation.shares(tier, outcome.makespan) else { continue };
        for share in [shares.send, shares.receive] {
            let order = [share.least.0, share.mean.0, share.most.0, 1.0];
            assert!(order.windows(2).all(|w| w[0] <= w[1] + 1e-9), "{name}: {share:?}");
        }
    }

    let path = critical.path();
    let sum = path.idle.0 + path.latency.0 + path.data.0 + path.addition.0;
    assert!(near(sum, outcome.makespan.0), "{name}: {sum} of {} {path:#?}", outcome.makespan.0);
    let mut now = path.idle.0;
    for hop in &path.hops {
        assert!(near(hop.start.0, now), "{name}: {path:#?}");
        now = hop.end.0;
    }
    if let Some(first) = path.hops.first() {
        let late = first.waited == Wait::Start;
        assert_eq!(path.idle.0 > 0.0, late, "{name}: {path:#?}");
    }
}

/// A broadcast of two segments down a chain of three, written out.
fn chain() -> List {
    let mut list = List::new(Frame::new(Collective::Broadcast, 3, 2, 3));
    let mut send = |round, from, to, chunk| {
        let (from, to) = (Endpoint::Rank(from), Endpoint::Rank(to));
        list.push(round, from, to, Op::Copy, &[Run::one(chunk)]);
    };
    send(0, 0, 1, 0);
    send(1, 0, 1, 1);
    send(1, 1, 2, 0);
    send(2, 1, 2, 1);
    list
}

#[test]
fn each_message_names_what_it_waited_for() {
    let fabric = Fabric::flat(Seconds(1.0), Bandwidth(1.0));
    let waits = |setup: &Setup| {
        let mut critical = CriticalPath::new(&chain(), &fabric, setup).unwrap();
        simulate_with(&chain(), &fabric, setup, &mut critical).unwrap();
        critical.path().hops.into_iter().map(|hop| hop.waited).collect::<Vec<_>>()
    };
    let flow = Setup::new(Volume(2.0));
    assert_eq!(waits(&flow), [Wait::Nothing, Wait::SendPort, Wait::Data]);
    let late = Trouble { starts: vec![Seconds(0.0), Seconds(5.0)], ..Trouble::default() };
    let late = Setup { trouble: late, ..flow.clone() };
    assert_eq!(waits(&late), [Wait::Start, Wait::SendPort, Wait::Data]);
    let slow = Trouble { slow_links: vec![(1, 2, Ratio(3.0))], ..Trouble::default() };
    let slow = Setup { trouble: slow, ..flow.in_mode(Mode::Sync) };
    assert_eq!(waits(&slow), [Wait::Nothing, Wait::Data, Wait::SendPort]);
}

/// Two ranks add up in a switch that sends the sum to both, in two segments.
#[test]
fn a_switch_passes_on_while_it_receives() {
    let frame = Frame { switches: 1, ..Frame::new(Collective::AllReduce, 2, 2, 4) };
    let mut list = List::new(frame);
    for (chunk, round) in [(0, 0), (1, 1)] {
        for rank in [0, 1].map(Endpoint::Rank) {
            list.push(round, rank, Endpoint::Switch(0), Op::Reduce, &[Run::one(chunk)]);
            list.push(round + 1, Endpoint::Switch(0), rank, Op::Copy, &[Run::one(chunk)]);
        }
    }
    let list = list.sort();
    for fabric in fabrics(Ports::ONE) {
        for setup in setups() {
            adds_up("switch", &list, &fabric, &setup);
        }
    }
}

#[test]
fn waits_have_the_names_of_reports() {
    let all = [
        (Wait::Nothing, "nothing"),
        (Wait::Start, "start"),
        (Wait::Data, "data"),
        (Wait::SendPort, "send-port"),
        (Wait::ReceivePort, "receive-port"),
        (Wait::Link, "link"),
        (Wait::Nic, "nic"),
        (Wait::Rounds, "rounds"),
        (Wait::Barrier, "barrier"),
    ];
    for (wait, name) in all {
        assert_eq!(serde_json::to_value(wait).unwrap(), name);
    }
}

/// The shares of the first tier while messages of one chunk are sent, which takes a second alone.
fn shares(tier: Tier, sent: &[(u32, u32)]) -> [Share; 2] {
    let mut list = List::new(Frame::new(Collective::AllGather, 3, 3, 0));
    for (chunk, &(from, to)) in (0..).zip(sent) {
        list.push(0, Endpoint::Rank(from), Endpoint::Rank(to), Op::Copy, &[Run::one(chunk)]);
    }
    let fabric = Fabric::new(vec![tier]);
    let mut utilisation = Utilisation::new(&list, &fabric).unwrap();
    let setup = Setup::new(Volume(3.0));
    let outcome = simulate_with(&list, &fabric, &setup, &mut utilisation).unwrap();
    assert_eq!(utilisation.shares(1, outcome.makespan), None);
    assert_eq!(utilisation.shares(0, Seconds(0.0)), None);
    let shares = utilisation.shares(0, outcome.makespan).unwrap();
    [shares.send, shares.receive]
}

fn share(mean: f64, least: f64, most: f64, busiest: u32) -> Share {
    Share { mean: Ratio(mean), least: Ratio(least), most: Ratio(most), busiest }
}

#[test]
fn ports_are_busy_while_messages_are_under_way() {
    let link = |ports| Tier { ports, ..Tier::new("link", Seconds(0.0), Bandwidth(1.0)) };
    let twice = [(0, 1), (0, 1), (1, 2)];
    let [send, receive] = shares(link(Ports::ONE), &twice);
    assert_eq!(send, share(0.5, 0.0, 1.0, 0));
    assert_eq!(receive, share(0.5, 0.0, 1.0, 1));
    // Of several that are as busy the first counts.
    let [send, receive] = shares(link(Ports::ONE), &[(1, 0), (2, 1)]);
    assert_eq!((send.busiest, receive.busiest), (1, 0));
    // One link between two ranks: with two ports each is half busy.
    assert_eq!(shares(link(Ports::full(2)), &twice)[0], share(0.25, 0.0, 0.5, 0));
    // As many ports as partners, and ports that are shared: busy as soon as one message is.
    let both = [(0, 1), (0, 2)];
    assert_eq!(shares(link(Ports::Unbounded), &both)[0], share(1.0 / 3.0, 0.0, 1.0, 0));
    let fair = Tier { discipline: Discipline::Fair, ..link(Ports::ONE) };
    assert_eq!(shares(fair, &both)[0], share(1.0 / 3.0, 0.0, 1.0, 0));
}

#[test]
fn a_trace_is_empty_until_it_hears_of_a_message() {
    let mut trace = Trace::default();
    assert!(trace.is_empty());
    let fabric = Fabric::flat(Seconds(1.0), Bandwidth(1.0));
    simulate_with(&chain(), &fabric, &Setup::new(Volume(1.0)), &mut trace).unwrap();
    assert!(!trace.is_empty());
    assert_eq!(trace.len(), 4);
}

//! Small schedules for which the reason of each wait is known.
//!
//! Without latency and at one byte per second, a chunk of one byte takes one second.

use std::num::NonZeroU32;

use super::*;
use crate::Collective;
use crate::base::quantity::{Bandwidth, Bytes, SecondsPerByte};
use crate::machine::fabric::{Discipline, Tier};
use crate::model::schedule::{Frame, List};
use Endpoint::{Rank, Switch};

/// A message of one chunk: round, sender, receiver, chunk.
type Sent = (u64, u32, u32, u32);

fn tier(ports: Ports) -> Tier {
    Tier { ports, ..Tier::new("link", Seconds(0.0), Bandwidth(1.0)) }
}

fn flat(ports: Ports) -> Fabric {
    Fabric::new(vec![tier(ports)])
}

/// Nodes of two ranks.
fn nodes(outer: Tier) -> Fabric {
    Fabric::new(vec![Tier { span: NonZeroU32::new(2), ..tier(Ports::Unbounded) }, outer])
}

/// Six ranks, as many chunks of one byte, and all sent data are added.
fn list(sent: &[Sent]) -> List {
    let mut list = List::new(Frame::new(Collective::Reduce, 6, 6, 0));
    for &(round, from, to, chunk) in sent {
        let (from, to) = (Endpoint::Rank(from), Endpoint::Rank(to));
        list.push(round, from, to, Op::Reduce, &[Run::one(chunk)]);
    }
    list.sort()
}

fn setup(mode: Mode) -> Setup {
    Setup::new(Volume(6.0)).in_mode(mode)
}

/// One rank starts late, all others at 0.
fn late(rank: usize, start: f64, mode: Mode) -> Setup {
    let mut setup = setup(mode);
    setup.trouble.starts = vec![Seconds(0.0); rank];
    setup.trouble.starts.push(Seconds(start));
    setup
}

/// The reasons of the waits on the critical path.
fn waits(fabric: &Fabric, setup: &Setup, sent: &[Sent]) -> Vec<Wait> {
    let list = list(sent);
    let mut critical = CriticalPath::new(&list, fabric, setup).unwrap();
    crate::cost::simulate::simulate_with(&list, fabric, setup, &mut critical).unwrap();
    critical.path().hops.iter().map(|hop| hop.waited).collect()
}

#[test]
fn data_are_what_came_to_the_sender_and_is_sent_on() {
    let waits = |sent: &[Sent]| waits(&flat(Ports::ONE), &setup(Mode::Flow), sent);
    assert_eq!(waits(&[(0, 0, 1, 0), (1, 1, 2, 0)]), [Wait::Nothing, Wait::Data]);
    // At the same instant another chunk arrives, and the chunk arrives at another rank.
    let other_chunk = [(0, 0, 1, 0), (0, 1, 2, 1), (1, 1, 2, 2)];
    assert_eq!(waits(&other_chunk), [Wait::Nothing, Wait::SendPort]);
    let other_rank = [(0, 0, 1, 0), (0, 2, 3, 1), (1, 2, 3, 0)];
    assert_eq!(waits(&other_rank), [Wait::Nothing, Wait::SendPort]);
}

#[test]
fn rounds_are_those_of_the_two_ranks() {
    let added = Fabric { gamma: Some(SecondsPerByte(2.0)), ..flat(Ports::ONE) };
    let held = [Wait::Nothing, Wait::Rounds];
    // The receiver of the round before has added, and sends or receives.
    assert_eq!(waits(&added, &setup(Mode::Local), &[(0, 0, 1, 0), (1, 1, 2, 1)]), held);
    assert_eq!(waits(&added, &setup(Mode::Local), &[(0, 0, 1, 0), (1, 2, 1, 1)]), held);
    // The sender of the round before has sent, and receives or, from another port, sends.
    assert_eq!(waits(&added, &setup(Mode::Local), &[(0, 0, 1, 0), (1, 2, 0, 1)]), held);
    let ports = Fabric { gamma: added.gamma, ..flat(Ports::Unbounded) };
    assert_eq!(waits(&ports, &setup(Mode::Local), &[(0, 0, 1, 0), (1, 0, 2, 1)]), held);
    // The sender's own additions do not matter to it: rank 2 starts when they are done.
    let late = |start| late(2, start, Mode::Local);
    assert_eq!(waits(&ports, &late(3.0), &[(0, 0, 1, 0), (1, 0, 2, 1)]), [Wait::Start]);
    // Rounds of others, and the round itself.
    let ports = flat(Ports::Unbounded);
    assert_eq!(waits(&ports, &late(1.0), &[(0, 0, 1, 0), (1, 2, 3, 1)]), [Wait::Start]);
    assert_eq!(waits(&ports, &late(1.0), &[(0, 0, 1, 0), (0, 0, 2, 1)]), [Wait::Start]);
    assert_eq!(waits(&ports, &late(1.0), &[(0, 0, 1, 0), (0, 2, 0, 1)]), [Wait::Start]);
}

#[test]
fn a_barrier_is_behind_all_ranks() {
    let sent = [(0, 0, 1, 0), (1, 2, 3, 1)];
    assert_eq!(waits(&flat(Ports::ONE), &setup(Mode::Sync), &sent), [Wait::Nothing, Wait::Barrier]);
    let late = |mode| late(2, 1.0, mode);
    assert_eq!(waits(&flat(Ports::ONE), &late(Mode::Flow), &sent), [Wait::Start]);
}

/// Elements of a byte, fewer than chunks: the last chunks are empty.
#[test]
fn what_takes_no_time_holds_nothing() {
    let one = Setup { size: Volume(1.0), element: Some(Bytes(1)), ..setup(Mode::Flow) };
    let sent = [(0, 0, 1, 5), (1, 0, 1, 0)];
    assert_eq!(waits(&flat(Ports::ONE), &one, &sent), [Wait::Nothing]);
    let late = Setup { trouble: late(0, 1.0, Mode::Flow).trouble, ..one };
    assert_eq!(waits(&flat(Ports::ONE), &late, &sent), [Wait::Start]);
}

/// Data that exist at the start have not been waited for, even if they had to come.
#[test]
fn nothing_is_waited_for_at_the_start() {
    let mut outer = tier(Ports::ONE);
    outer.link.alpha = Some(Seconds(1.0));
    let fabric = nodes(outer);
    let nothing = Setup { size: Volume(0.0), ..setup(Mode::Flow) };
    assert_eq!(waits(&fabric, &nothing, &[(0, 0, 1, 0), (1, 1, 2, 0)]), [Wait::Nothing]);
}

/// Messages so short that start and end are one instant.
#[test]
fn the_path_never_turns_round() {
    let setup = late(0, 1e12, Mode::Flow);
    let sent = [(0, 0, 1, 0), (1, 0, 1, 1), (2, 0, 1, 2)];
    assert_eq!(waits(&flat(Ports::ONE), &setup, &sent), [Wait::Start]);
}

#[test]
fn data_count_before_rounds_though_they_come_later_in_the_schedule() {
    let sent = [(0, 0, 1, 0), (0, 2, 1, 1), (1, 1, 3, 1)];
    let fabric = flat(Ports::Unbounded);
    assert_eq!(waits(&fabric, &setup(Mode::Local), &sent), [Wait::Nothing, Wait::Data]);
}

#[test]
fn a_hop_is_latency_and_data() {
    let list = list(&[(0, 0, 1, 0), (1, 1, 2, 0)]);
    let fabric = Fabric::flat(Seconds(3.0), Bandwidth(0.5));
    let fabric = Fabric { gamma: Some(SecondsPerByte(4.0)), ..fabric };
    let hops = hops(&list, &fabric, &setup(Mode::Flow));
    let parts = hops.iter().map(|hop| [hop.latency.0, hop.data.0, hop.addition.0]);
    assert_eq!(parts.collect::<Vec<_>>(), [[3.0, 2.0, 4.0]; 2]);
}

fn hops(list: &List, fabric: &Fabric, setup: &Setup) -> Vec<Hop> {
    let mut critical = CriticalPath::new(list, fabric, setup).unwrap();
    crate::cost::simulate::simulate_with(list, fabric, setup, &mut critical).unwrap();
    critical.path().hops
}

/// The senders of the path through switches of latency `alpha` and 1 B/s, with the reasons of their
/// waits. Ranks are in nodes with NICs; runs are of one chunk or of several.
fn switched(
    alpha: f64,
    setup: &Setup,
    sent: &[(u64, Endpoint, Endpoint, Run)],
) -> (Vec<(Endpoint, Wait)>, Vec<Hop>) {
    let switch = crate::machine::fabric::Switch {
        alpha: Some(Seconds(alpha)),
        bandwidth: None,
        multicast: true,
        alu: true,
    };
    let nics = NonZeroU32::new(3);
    let mut fabric = nodes(Tier { nics, ..tier(Ports::Unbounded) });
    fabric.tiers[0].switch = Some(switch);
    let mut list = List::new(Frame { switches: 2, ..Frame::new(Collective::AllGather, 6, 6, 0) });
    for &(round, from, to, run) in sent {
        list.push(round, from, to, Op::Copy, &[run]);
    }
    let hops = hops(&list.sort(), &fabric, setup);
    (hops.iter().map(|hop| (hop.from, hop.waited)).collect(), hops)
}

#[test]
fn a_switch_waits_for_the_data_that_it_passes_on() {
    let flow = setup(Mode::Flow);
    let path = |sent: &[_]| switched(3.0, &flow, sent).0;
    // The data that it sends are longer than those that arrived, or shorter.
    for (up, down) in [(1, 2), (2, 1)] {
        let run = |len| Run { start: 0, len };
        let sent = [(0, Rank(0), Switch(0), run(up)), (1, Switch(0), Rank(1), run(down))];
        let expected = [(Rank(0), Wait::Nothing), (Switch(0), Wait::Data)];
        assert_eq!(path(&sent), expected);
    }
    // Other chunks and other switches do not matter.
    let expected = [(Rank(1), Wait::Nothing), (Switch(0), Wait::Data)];
    for other in [(0, Rank(0), Switch(0), Run::one(5)), (0, Rank(0), Switch(1), Run::one(0))] {
        let one = Run::one(0);
        let sent = [other, (0, Rank(1), Switch(0), one), (1, Switch(0), Rank(2), one)];
        assert_eq!(path(&sent), expected);
    }
}

/// Data that arrive at a switch delay later rounds only until they are forwarded.
#[test]
fn rounds_wait_for_what_a_switch_passes_on() {
    let up = (0, Rank(0), Switch(0), Run { start: 0, len: 3 });
    let run = |start| Run { start, len: 5 - start };
    let table = [
        (Switch(0), Rank(1), run(1), Wait::Data),
        (Switch(0), Rank(1), run(3), Wait::Rounds),
        (Rank(1), Switch(0), run(0), Wait::Rounds),
        (Rank(0), Rank(1), run(0), Wait::Rounds),
        (Rank(1), Rank(0), run(0), Wait::Rounds),
    ];
    for (from, to, run, waited) in table {
        let path = switched(3.0, &setup(Mode::Local), &[up, (1, from, to, run)]).0;
        assert_eq!(path, [(Rank(0), Wait::Nothing), (from, waited)], "{from:?} {to:?} {run:?}");
    }
    // A rank that starts late, at that instant, has waited for nothing else.
    for (mode, from, to) in [(Mode::Local, 2, 3), (Mode::Flow, 2, 3), (Mode::Flow, 1, 0)] {
        let sent = [up, (1, Rank(from), Rank(to), run(0))];
        let path = switched(3.0, &late(from as usize, 3.0, mode), &sent).0;
        assert_eq!(path, [(Rank(from), Wait::Start)], "{mode} {from}");
    }
}

/// Exact to the last bit, however the instants are rounded.
#[test]
fn what_a_switch_passes_on_is_latency_alone() {
    let late = late(0, 0.3, Mode::Flow);
    let run = |len| Run { start: 0, len };
    // The rank's part is only latency if the switch sends more, and the switch's part if it does
    // not.
    for (up, down, latency) in [(1, 2, 0), (2, 1, 1)] {
        let sent = [(0, Rank(0), Switch(0), run(up)), (1, Switch(0), Rank(1), run(down))];
        let hops = switched(0.1, &late, &sent).1;
        assert_eq!(hops[latency].data, Seconds(0.0), "{hops:#?}");
        assert!((hops[1 - latency].data.0 - 2.0).abs() < 1e-9, "{hops:#?}");
    }
}

#[test]
fn instants_that_are_one_are_found_together() {
    let sorted = [(1.0, 0), (2.0 - SAME, 1), (2.0, 2), (2.0 + SAME, 3), (3.0, 4)];
    assert_eq!(at_instant(&sorted, 2.0).collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn runs_share_chunks_where_they_overlap() {
    let run = |start, len| Run { start, len };
    assert!(share_chunks(&[run(0, 2)], &[run(1, 2)]) && share_chunks(&[run(1, 2)], &[run(0, 2)]));
    assert!(!share_chunks(&[run(0, 1)], &[run(1, 1)]) && !share_chunks(&[run(1, 1)], &[run(0, 1)]));
    assert!(share_chunks(&[run(5, 1), run(0, 3)], &[run(2, 1)]));
}

fn timed(from: Endpoint, to: Endpoint, tier: Option<usize>) -> Timed<'static> {
    let [start, end, added] = [Seconds(0.0); 3];
    let (round, op, bytes, runs) = (0, Op::Copy, Volume(1.0), &[]);
    Timed { round, from, to, op, runs, bytes, tier, start, end, added }
}

/// The resource of `fabric` that is exhausted by two messages at once, each from one rank to
/// another.
fn lacking(fabric: &Fabric, pairs: [(u32, u32); 2]) -> Option<Wait> {
    let list = list(&[]);
    let critical = CriticalPath::new(&list, fabric, &setup(Mode::Flow)).unwrap();
    let [earlier, message] = pairs.map(|(from, to)| {
        let [from, to] = [from, to].map(Endpoint::Rank);
        timed(from, to, critical.costs.tier_of(from, to))
    });
    critical.resource(&message, &earlier)
}

#[test]
fn ports_and_links_run_short() {
    const SEND: Option<Wait> = Some(Wait::SendPort);
    const RECEIVE: Option<Wait> = Some(Wait::ReceivePort);
    const LINK: Option<Wait> = Some(Wait::Link);
    let half = Ports::Half(NonZeroU32::MIN);
    let fair = Fabric::new(vec![Tier { discipline: Discipline::Fair, ..tier(Ports::ONE) }]);
    // After 0 → 1.
    let machines =
        [flat(Ports::ONE), flat(half), flat(Ports::full(2)), flat(Ports::Unbounded), fair];
    let table = [
        ((0, 1), [SEND, SEND, LINK, LINK, LINK]),
        ((0, 2), [SEND, SEND, SEND, None, None]),
        ((2, 1), [RECEIVE, RECEIVE, RECEIVE, None, None]),
        ((1, 0), [None, SEND, None, None, None]),
        ((1, 2), [None, SEND, None, None, None]),
        ((2, 0), [None, RECEIVE, None, None, None]),
        ((2, 3), [None, None, None, None, None]),
    ];
    for (message, expected) in table {
        for (machine, expected) in machines.iter().zip(expected) {
            let ports = &machine.tiers[0].ports;
            assert_eq!(lacking(machine, [(0, 1), message]), expected, "{message:?} {ports}");
        }
    }
}

#[test]
fn nodes_run_short_of_nics() {
    let shared = Tier { nics: NonZeroU32::new(1), ..tier(Ports::Unbounded) };
    let nics = nodes(shared.clone());
    let [none, nic] = [None, Some(Wait::Nic)];
    // Out of a node, into a node, out of the one into which it went, and within.
    assert_eq!(lacking(&nics, [(0, 2), (1, 4)]), nic);
    assert_eq!(lacking(&nics, [(0, 4), (2, 5)]), nic);
    assert_eq!(lacking(&nics, [(0, 2), (2, 4)]), none);
    assert_eq!(lacking(&nics, [(0, 2), (4, 0)]), none);
    assert_eq!(lacking(&nics, [(0, 1), (1, 0)]), none);
    // The innermost tier joins ranks, not nodes.
    let mut inside = nics.clone();
    inside.tiers[0].nics = NonZeroU32::new(1);
    assert_eq!(lacking(&inside, [(0, 1), (1, 0)]), none);
    // Shared fairly, or as many as there are ranks.
    let fair = Tier { discipline: Discipline::Fair, ..shared };
    assert_eq!(lacking(&nodes(fair), [(0, 2), (1, 4)]), none);
    assert_eq!(lacking(&nodes(tier(Ports::Unbounded)), [(0, 2), (1, 4)]), none);
    // Ports of one tier are not those of another.
    let ports = nodes(tier(Ports::ONE));
    assert_eq!(lacking(&ports, [(0, 2), (0, 4)]), Some(Wait::SendPort));
    assert_eq!(lacking(&ports, [(0, 1), (0, 4)]), none);
}

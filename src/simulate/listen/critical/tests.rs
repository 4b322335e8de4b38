//! Small schedules of which one knows what each message waits for.
//!
//! Without latency and at a byte a second, a chunk of one byte takes one second.

use std::num::NonZeroU32;

use super::*;
use crate::Collective;
use crate::fabric::{Discipline, Tier};
use crate::quantity::{Bandwidth, Bytes, SecondsPerByte};
use crate::schedule::{Frame, List};

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

/// Six ranks, as many chunks of one byte, and all that is sent is added.
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

/// What the messages of the critical path waited for.
fn waits(fabric: &Fabric, setup: &Setup, sent: &[Sent]) -> Vec<Wait> {
    let list = list(sent);
    let mut critical = CriticalPath::new(&list, fabric, setup).unwrap();
    crate::simulate::simulate_with(&list, fabric, setup, &mut critical).unwrap();
    critical.path().hops.iter().map(|hop| hop.waited).collect()
}

#[test]
fn data_are_what_came_to_the_sender_and_is_sent_on() {
    let waits = |sent: &[Sent]| waits(&flat(Ports::ONE), &setup(Mode::Flow), sent);
    assert_eq!(waits(&[(0, 0, 1, 0), (1, 1, 2, 0)]), [Wait::Nothing, Wait::Data]);
    // At the same instant another chunk comes, and the chunk comes to another.
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
    // Its own additions are no matter of the sender's: rank 2 starts when they are done.
    let late = |start| late(2, start, Mode::Local);
    assert_eq!(waits(&ports, &late(3.0), &[(0, 0, 1, 0), (1, 0, 2, 1)]), [Wait::Start(2)]);
    // Rounds of others, and the round itself.
    let ports = flat(Ports::Unbounded);
    assert_eq!(waits(&ports, &late(1.0), &[(0, 0, 1, 0), (1, 2, 3, 1)]), [Wait::Start(2)]);
    assert_eq!(waits(&ports, &late(1.0), &[(0, 0, 1, 0), (0, 0, 2, 1)]), [Wait::Start(2)]);
    assert_eq!(waits(&ports, &late(1.0), &[(0, 0, 1, 0), (0, 2, 0, 1)]), [Wait::Start(2)]);
}

#[test]
fn a_barrier_is_behind_all_ranks() {
    let sent = [(0, 0, 1, 0), (1, 2, 3, 1)];
    assert_eq!(waits(&flat(Ports::ONE), &setup(Mode::Sync), &sent), [Wait::Nothing, Wait::Barrier]);
    let late = |mode| late(2, 1.0, mode);
    assert_eq!(waits(&flat(Ports::ONE), &late(Mode::Flow), &sent), [Wait::Start(2)]);
}

/// Elements of a byte, fewer than chunks: the last chunks are empty.
#[test]
fn what_takes_no_time_holds_nothing() {
    let one = Setup { size: Volume(1.0), element: Some(Bytes(1)), ..setup(Mode::Flow) };
    let sent = [(0, 0, 1, 5), (1, 0, 1, 0)];
    assert_eq!(waits(&flat(Ports::ONE), &one, &sent), [Wait::Nothing]);
    let late = Setup { trouble: late(0, 1.0, Mode::Flow).trouble, ..one };
    assert_eq!(waits(&flat(Ports::ONE), &late, &sent), [Wait::Start(0)]);
}

/// What is there when all starts has not been waited for, even if it had to come.
#[test]
fn nothing_is_waited_for_at_the_start() {
    let fabric = nodes(Tier { alpha: Some(Seconds(1.0)), ..tier(Ports::ONE) });
    let nothing = Setup { size: Volume(0.0), ..setup(Mode::Flow) };
    assert_eq!(waits(&fabric, &nothing, &[(0, 0, 1, 0), (1, 1, 2, 0)]), [Wait::Nothing]);
}

/// Messages so short that start and end are one instant.
#[test]
fn the_path_never_turns_round() {
    let setup = late(0, 1e12, Mode::Flow);
    let sent = [(0, 0, 1, 0), (1, 0, 1, 1), (2, 0, 1, 2)];
    assert_eq!(waits(&flat(Ports::ONE), &setup, &sent), [Wait::Start(0)]);
}

fn timed(from: Endpoint, to: Endpoint, tier: Option<usize>) -> Timed<'static> {
    let [start, end, added] = [Seconds(0.0); 3];
    let (round, op, bytes, runs) = (0, Op::Copy, Volume(1.0), &[]);
    Timed { round, from, to, op, runs, bytes, tier, start, end, added }
}

/// What `fabric` has too little of for two messages at once, each from one rank to another.
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
    // Shared fairly, or as many as there are ranks.
    let fair = Tier { discipline: Discipline::Fair, ..shared };
    assert_eq!(lacking(&nodes(fair), [(0, 2), (1, 4)]), none);
    assert_eq!(lacking(&nodes(tier(Ports::Unbounded)), [(0, 2), (1, 4)]), none);
    // Ports of one tier are not those of another.
    let ports = nodes(tier(Ports::ONE));
    assert_eq!(lacking(&ports, [(0, 2), (0, 4)]), Some(Wait::SendPort));
    assert_eq!(lacking(&ports, [(0, 1), (0, 4)]), none);
}

//! Every schedule does what its collective promises, and every small change to one is found out.

use crate::full::one_in;
use std::collections::BTreeMap;

use collcost::Collective::{self, AllGather, AllReduce, AllToAll, Barrier, Broadcast, Gather};
use collcost::Collective::{Reduce, ReduceScatter, Scatter, SendRecv};
use collcost::base::quantity::Ratio;
use collcost::model::algorithm::{Algorithm, Registry};
use collcost::model::formula::{At, Cost, Dims, Form, Params, Ports, Rational, Relay, Shape, Tie};
use collcost::model::schedule::chain::Chain;
use collcost::model::schedule::combine::Relabel;
use collcost::model::schedule::digits::{Order, Shares, Whole};
use collcost::model::schedule::ring::Ring;
use collcost::model::schedule::{
    Endpoint, Frame, Layout, List, Message, Op, Run, Schedule, Sends, Transfer, count, holds,
    senders, verify, verify_by_fingerprints, wants,
};

#[path = "../support/shapes.rs"]
mod shapes;

/// All that the registry can spell out for `ranks` ranks, with all parameters, on one port and on
/// two where that makes another schedule.
fn built(ranks: u32) -> Vec<(String, Box<dyn Schedule>)> {
    let mut found: Vec<(String, Box<dyn Schedule>, List)> = Vec::new();
    for algorithm in Registry::builtin().iter() {
        let before = found.len();
        for &collective in algorithm.meta().collectives {
            for shape in shapes::shapes(algorithm, collective, ranks) {
                if shape.ports != Ports::ONE && shape.ports != Ports::full(2) {
                    continue;
                }
                let Some(schedule) = algorithm.schedule(&shape) else { continue };
                let frame = schedule.frame();
                assert_eq!((frame.collective, frame.ranks), (collective, ranks));
                let list = List::of(&*schedule);
                if found[before..].iter().all(|(_, _, other)| *other != list) {
                    found.push((format!("{} {shape:?}", algorithm.meta().id), schedule, list));
                }
            }
        }
    }
    found.into_iter().map(|(name, schedule, _)| (name, schedule)).collect()
}

/// The trees that ompi/mca/coll/base/coll_base_topo.c of Open MPI 4.1.6 and 5.0.9 draws: each parent
/// with its children, who are sent to in this order; a reduce gets from them in the reverse order.
#[test]
fn trees_are_those_of_open_mpi() {
    let drawn = |name: &str, collective, ranks, radix| {
        let algorithm = Registry::builtin().find(collective, name).unwrap().algorithm;
        let params = Params { radix, ..Params::default() };
        let schedule = algorithm.schedule(&Shape { params, ..Shape::new(collective, ranks) });
        let schedule = schedule.unwrap();
        let mut below: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        let mut sends = Sends::default();
        for round in 0..schedule.rounds() {
            for rank in 0..ranks {
                sends.clear();
                schedule.sends(round, Endpoint::Rank(rank), &mut sends);
                for transfer in sends.iter() {
                    let Endpoint::Rank(to) = transfer.to else { panic!("{name}") };
                    let (parent, child) =
                        if collective == Reduce { (to, rank) } else { (rank, to) };
                    below.entry(parent).or_default().push(child);
                }
            }
        }
        let text = below.iter().map(|(parent, children)| format!("{parent}:{children:?}"));
        text.collect::<Vec<_>>().join(" ")
    };
    let kmtree = |radix| drawn("in-order-knomial", Broadcast, 10, Some(radix));
    assert_eq!(kmtree(2), "0:[8, 4, 2, 1] 2:[3] 4:[6, 5] 6:[7] 8:[9]");
    assert_eq!(kmtree(3), "0:[9, 3, 6, 1, 2] 3:[4, 5] 6:[7, 8]");
    assert_eq!(kmtree(4), "0:[4, 8, 1, 2, 3] 4:[5, 6, 7] 8:[9]");
    let bmtree = drawn("binomial", Broadcast, 8, None);
    assert_eq!(bmtree, "0:[1, 2, 4] 1:[3, 5] 2:[6] 3:[7]");
    let in_order = drawn("in-order-binomial", Reduce, 8, None);
    assert_eq!(in_order, "0:[1, 2, 4] 2:[3] 4:[5, 6] 6:[7]");
    assert_eq!(drawn("in-order-knomial", Reduce, 8, Some(2)), in_order);
}

#[test]
fn every_schedule_verifies() {
    // Large ones are most of the work.
    let large = [48, 61, 64, 72, 100, 128].into_iter().step_by(one_in(6));
    for n in (1..=33).step_by(one_in(2)).chain(large) {
        for (name, schedule) in built(n) {
            if let Err(fault) = verify(&*schedule) {
                panic!("{name}: {fault}");
            }
        }
    }
}

#[test]
fn every_schedule_verifies_with_any_root() {
    for n in [1, 2, 5, 8, 13] {
        for (name, schedule) in built(n) {
            // The chunks of own vectors name ranks.
            if schedule.frame().layout == Layout::Owned {
                continue;
            }
            let before = count(&*schedule, 1);
            for root in 0..n {
                let schedule = Relabel::new(&*schedule, root);
                assert_eq!(schedule.root(), root);
                assert_eq!(verify(&schedule), Ok(()), "{name} {root}");
                assert_eq!(count(&schedule, 1), before);
            }
        }
    }
}

/// An expectation charges the duplex factor where ranks send while they receive: where none does in any
/// round, no step says so.
#[test]
fn steps_go_both_ways_only_where_ranks_do() {
    let mut wrong = Vec::new();
    let mut compared = 0;
    for n in 2..=9 {
        for algorithm in Registry::builtin().iter() {
            for &collective in algorithm.meta().collectives {
                for shape in shapes::shapes(algorithm, collective, n) {
                    let Some(schedule) = algorithm.schedule(&shape) else { continue };
                    let mut sends = Sends::default();
                    let mut both = false;
                    for round in 0..schedule.rounds() {
                        let (mut sending, mut receiving) = (Vec::new(), Vec::new());
                        for from in senders(&*schedule) {
                            sends.clear();
                            schedule.sends(round, from, &mut sends);
                            receiving.extend(sends.iter().map(|transfer| transfer.to));
                            sending.extend((!sends.is_empty()).then_some(from));
                        }
                        both |= sending.iter().any(|rank| receiving.contains(rank));
                    }
                    compared += 1;
                    let mut said = false;
                    algorithm.steps(&shape, &mut |step| said |= step.goes_both_ways());
                    if said && !both && schedule.switches() == 0 {
                        let (id, ports) = (algorithm.meta().id, shape.ports);
                        wrong.push(format!(
                            "{id} {collective} {n} {ports:?} P={}",
                            shape.segments()
                        ));
                    }
                }
            }
        }
    }
    wrong.dedup();
    assert!(compared > 1000 && wrong.is_empty(), "{compared}: {wrong:#?}");
}

#[test]
fn schedules_that_turn_do_what_rank_0_does() {
    let mut turning = 0;
    for n in 1..=17 {
        for (name, schedule) in built(n) {
            let frame = schedule.frame();
            if !frame.turns {
                continue;
            }
            turning += 1;
            let chunks = |sends: &Sends, by: u32| -> Vec<(Endpoint, Op, Vec<u32>)> {
                let moved = |transfer: Transfer<'_>| {
                    let Endpoint::Rank(to) = transfer.to else { panic!("{name}") };
                    let chunks = transfer.runs.iter().flat_map(|run| run.chunks());
                    let mut chunks: Vec<u32> = chunks.map(|c| frame.turned(c, by)).collect();
                    chunks.sort_unstable();
                    (Endpoint::Rank((to + by) % n), transfer.op, chunks)
                };
                sends.iter().map(moved).collect()
            };
            let (mut first, mut other) = (Sends::default(), Sends::default());
            for round in 0..frame.rounds {
                first.clear();
                schedule.sends(round, Endpoint::Rank(0), &mut first);
                for rank in 1..n {
                    other.clear();
                    schedule.sends(round, Endpoint::Rank(rank), &mut other);
                    assert_eq!(chunks(&first, rank), chunks(&other, 0), "{name} {round} {rank}");
                }
            }
            for chunk in 0..frame.chunks() {
                let turned = schedule.owner(frame.turned(chunk, 1));
                let owns = !matches!(frame.collective, AllReduce | Barrier);
                assert!(!owns || turned == (schedule.owner(chunk) + 1) % n, "{name} {chunk}");
            }
        }
    }
    assert!(turning > 200, "{turning}");
}

#[test]
fn schedules_end_with_a_message() {
    for n in 1..=17 {
        for (name, schedule) in built(n) {
            let mut sends = Sends::default();
            let Some(last) = schedule.rounds().checked_sub(1) else { continue };
            senders(&*schedule).for_each(|from| schedule.sends(last, from, &mut sends));
            assert!(sends.iter().next().is_some(), "{name}: nobody sends in round {last}");
        }
    }
}

#[test]
fn digits_may_come_in_any_order() {
    for (base, ranks) in [(2, 8), (3, 27), (4, 64)] {
        for order in [Order::Near, Order::Far] {
            for collective in [ReduceScatter, AllGather, AllReduce] {
                let shares = Shares::new(collective, ranks, base, order);
                assert_eq!(verify(&shares), Ok(()), "{collective} in base {base}, {order:?}");
                // Two halves are neighbours where the nearest meet first.
                assert_eq!(shares.frame().keeps_order, base == 2 && order == Order::Near);
                assert!(!shares.frame().turns);
            }
        }
        let whole = Whole::new(ranks, base);
        assert_eq!((whole.frame().keeps_order, whole.frame().turns), (base == 2, false));
    }
    // With one digit everybody does the same.
    assert!(Whole::new(5, 5).frame().turns);
    assert!(Shares::new(AllReduce, 5, 5, Order::Near).frame().turns);
}

#[test]
fn ranks_with_ghosts_send_to_the_nearest_first() {
    let padded = Registry::builtin().find(AllReduce, "rabenseifner-padded").unwrap().algorithm;
    for n in (3..=33_u32).filter(|n| !n.is_power_of_two()) {
        let schedule = padded.schedule(&Shape::new(AllReduce, n)).unwrap();
        let mut sends = Sends::default();
        for round in 0..schedule.rounds() {
            for rank in 0..n {
                sends.clear();
                schedule.sends(round, Endpoint::Rank(rank), &mut sends);
                let distance = |transfer: Transfer<'_>| match transfer.to {
                    Endpoint::Rank(to) => (to + n - rank) % n,
                    Endpoint::Switch(_) => panic!("{n} ranks have no switch"),
                };
                let distances: Vec<u32> = sends.iter().map(distance).collect();
                assert!(distances.is_sorted(), "N = {n}, rank {rank}: {distances:?}");
            }
        }
    }
}

#[test]
fn two_trees_in_turn_keep_to_one_port() {
    let two_tree = Registry::builtin().find(Broadcast, "two-tree").unwrap().algorithm;
    for n in 2..=40 {
        for p in [1, 3] {
            let shape = Shape::new(Broadcast, n).with_segments(p);
            let schedule = two_tree.schedule(&shape).unwrap();
            let counted = count(&*schedule, 1);
            assert_eq!(counted.n_alpha, counted.rounds, "N = {n}, P = {p}");
            let form = two_tree.prove(&At::numbers(shape)).total().alpha;
            assert!(whole(schedule.rounds()) <= form, "N = {n}, P = {p}");
        }
    }
}

fn whole(n: u64) -> Rational {
    Rational::from_integer(n.into())
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Mutation {
    Drop,
    Duplicate,
    Retarget,
    Shift,
    SwapOp,
    Delay,
    SwapRounds,
}

const MUTATIONS: [Mutation; 7] = [
    Mutation::Drop,
    Mutation::Duplicate,
    Mutation::Retarget,
    Mutation::Shift,
    Mutation::SwapOp,
    Mutation::Delay,
    Mutation::SwapRounds,
];

/// `list` with message `at` changed, or its round and the next one swapped; nothing if that is no
/// change.
fn mutated(schedule: &dyn Schedule, list: &List, at: usize, how: Mutation) -> Option<List> {
    let frame = list.frame();
    let mut changed = List::new(Frame { turns: false, ..frame }).owned_as(schedule);
    let struck = list.iter().nth(at)?;
    for (i, message) in list.iter().enumerate() {
        let Message { round, from, to, op, runs } = message;
        let swap = |a: u64| match round {
            r if r == a => a + 1,
            r if r == a + 1 => a,
            r => r,
        };
        match how {
            Mutation::SwapRounds => changed.push(swap(struck.round), from, to, op, runs),
            _ if i != at => changed.push(round, from, to, op, runs),
            Mutation::Drop => {}
            Mutation::Duplicate => {
                changed.push(round, from, to, op, runs);
                changed.push(round, from, to, op, runs);
            }
            Mutation::Retarget => changed.push(round, from, next(to, frame.ranks), op, runs),
            Mutation::Shift => {
                let n = frame.chunks();
                let shifted: Vec<Run> =
                    runs.iter().flat_map(|run| Run::around(run.start + 1, run.len, n)).collect();
                changed.push(round, from, to, op, &shifted);
            }
            Mutation::SwapOp => {
                let other = if op == Op::Copy { Op::Reduce } else { Op::Copy };
                changed.push(round, from, to, other, runs);
            }
            Mutation::Delay => changed.push(frame.rounds, from, to, op, runs),
        }
    }
    let changed = changed.sort();
    let same = |a: &List, b: &List| a.iter().eq(b.iter());
    (!same(&changed, list)).then_some(changed)
}

fn next(endpoint: Endpoint, ranks: u32) -> Endpoint {
    match endpoint {
        Endpoint::Rank(rank) => Endpoint::Rank((rank + 1) % ranks),
        switch @ Endpoint::Switch(_) => switch,
    }
}

#[test]
fn every_mutant_is_refused_or_right() {
    let (mut refused, mut right) = (BTreeMap::new(), BTreeMap::new());
    let part = one_in(32);
    for n in 2..=6 {
        for (name, schedule) in built(n) {
            let list = List::of(&*schedule);
            for at in (list.len() % part..list.len()).step_by(part) {
                for how in MUTATIONS {
                    let Some(mutant) = mutated(&*schedule, &list, at, how) else { continue };
                    let by_sets = verify(&mutant);
                    let is_right = ends_right(&mutant);
                    // What the plain way finds wrong is never let through; what is let through is
                    // harmless: a sum may take another way, what nobody waits for may come last.
                    match &by_sets {
                        Ok(()) => {
                            assert!(is_right, "{name} {how:?} of message {at} is let through");
                            *right.entry(format!("{how:?}")).or_insert(0) += 1;
                        }
                        Err(_) => *refused.entry(format!("{how:?}")).or_insert(0) += 1,
                    }
                    // Fingerprints see what is wrong at the end.
                    let by_prints = verify_by_fingerprints(&mutant);
                    assert!(by_prints.is_err() || is_right, "{name} {how:?} {at}");
                    assert!(by_prints.is_ok() || by_sets.is_err(), "{name} {how:?} {at}");
                }
            }
        }
    }
    let enough = refused.values().all(|&n| n > 500 / part);
    assert!(refused.len() == MUTATIONS.len() && enough, "{refused:?}");
    println!("refused {refused:?}, harmless {right:?}");
}

#[test]
fn fingerprints_stand_for_large_sets() {
    // 1.9 GiB of sets, 95 MiB of fingerprints.
    let schedule = Ring::new(AllReduce, 2000);
    assert_eq!(verify(&schedule), Ok(()));
    let list = List::of(&Ring::new(AllReduce, 40));
    for at in [0, 700, 2000, 3119] {
        let mutant = mutated(&list, &list, at, Mutation::Drop).unwrap();
        let fault = verify_by_fingerprints(&mutant).unwrap_err().to_string();
        assert!(fault.contains("exactly once"), "{fault}");
    }
}

#[test]
fn order_is_kept_where_it_is_promised() {
    // Rank 2 comes before rank 1.
    let mut list = List::new(Frame::new(Reduce, 3, 1, 0).in_rank_order());
    for (round, from) in [(0, 2), (1, 1)] {
        list.push(round, Endpoint::Rank(from), Endpoint::Rank(0), Op::Reduce, &[Run::one(0)]);
    }
    let fault = verify(&list).unwrap_err();
    assert_eq!(fault.to_string(), "round 0: rank 2 adds chunk 0 to rank 0 out of rank order");
    // Ranks are counted across the words of a set; a switch starts with nothing.
    let switch = Endpoint::Switch(0);
    for skipped in [None, Some(0), Some(80), Some(199)] {
        let frame = Frame { switches: 1, ..Frame::new(Reduce, 200, 1, 0).in_rank_order() };
        let mut list = List::new(frame);
        for (round, rank) in (0..200).filter(|&rank| skipped != Some(rank)).enumerate() {
            list.push(round as u64, Endpoint::Rank(rank), switch, Op::Reduce, &[Run::one(0)]);
        }
        list.push(200, switch, Endpoint::Rank(0), Op::Copy, &[Run::one(0)]);
        let said = verify(&list).map_or_else(|fault| fault.to_string(), |()| "none".into());
        let fault = match skipped {
            None => "none".into(),
            Some(80) => "round 80: rank 81 adds chunk 0 to switch 0 out of rank order".into(),
            Some(rank) => format!("at the end chunk 0 of rank 0 lacks rank {rank}'s part"),
        };
        assert_eq!(said, fault);
    }
    // Those that promise it are many; `verify` holds them to it wherever it is called.
    let promising = built(8).iter().filter(|(_, schedule)| schedule.frame().keeps_order).count();
    assert!(promising > 10, "{promising}");
}

/// The same question as that of [`verify`], answered the plain way: how often each rank's vector
/// has gone into each chunk.
fn ends_right(schedule: &dyn Schedule) -> bool {
    let (n, chunks) = (schedule.ranks(), schedule.chunks());
    let places = || (0..n).flat_map(|rank| (0..chunks).map(move |chunk| (rank, chunk)));
    let mut state: BTreeMap<(Endpoint, u32), BTreeMap<u32, u32>> = places()
        .filter(|&(rank, chunk)| holds(schedule, rank, chunk))
        .map(|(rank, chunk)| ((Endpoint::Rank(rank), chunk), BTreeMap::from([(rank, 1)])))
        .collect();
    let start = state.clone();
    let mut sends = Sends::default();
    for round in 0..schedule.rounds() {
        let before = state.clone();
        for from in senders(schedule) {
            sends.clear();
            schedule.sends(round, from, &mut sends);
            for message in sends.iter() {
                for chunk in message.runs.iter().flat_map(|run| run.chunks()) {
                    let arriving = before.get(&(from, chunk)).cloned().unwrap_or_default();
                    let present = state.entry((message.to, chunk)).or_default();
                    match message.op {
                        Op::Copy => *present = arriving,
                        Op::Or => present.extend(arriving),
                        Op::Reduce => arriving
                            .iter()
                            .for_each(|(r, times)| *present.entry(*r).or_default() += times),
                    }
                }
            }
        }
    }
    places().filter(|&(rank, chunk)| wants(schedule, rank, chunk)).all(|(rank, chunk)| {
        let contributors = (0..n).filter(|&r| start.contains_key(&(Endpoint::Rank(r), chunk)));
        let all_once: BTreeMap<u32, u32> = contributors.map(|r| (r, 1)).collect();
        state.get(&(Endpoint::Rank(rank), chunk)) == Some(&all_once)
    })
}

#[test]
fn the_plain_way_agrees() {
    for n in 1..=9 {
        for (name, schedule) in built(n) {
            assert!(ends_right(&*schedule), "{name}");
            assert_eq!(verify_by_fingerprints(&*schedule), Ok(()), "{name}");
        }
    }
}

/// A schedule written out: round, sender, receiver, operation, chunk.
struct Listed {
    collective: Collective,
    ranks: u32,
    switches: u32,
    parts: u32,
    messages: Vec<(u64, Endpoint, Endpoint, Op, u32)>,
}

impl Listed {
    fn new(collective: Collective, ranks: u32, parts: u32) -> Self {
        Self { collective, ranks, switches: 0, parts, messages: Vec::new() }
    }

    fn with(mut self, round: u64, from: u32, to: u32, op: Op, chunk: u32) -> Self {
        self.messages.push((round, Endpoint::Rank(from), Endpoint::Rank(to), op, chunk));
        self
    }

    fn fault(&self) -> String {
        verify(self).map_or_else(|fault| fault.to_string(), |()| "none".into())
    }
}

impl Schedule for Listed {
    fn frame(&self) -> Frame {
        let rounds = self.messages.iter().map(|m| m.0 + 1).max().unwrap_or(0);
        let frame = Frame::new(self.collective, self.ranks, self.parts, rounds);
        Frame { switches: self.switches, ..frame }
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        for &(_, _, to, op, chunk) in self.messages.iter().filter(|m| (m.0, m.1) == (round, from)) {
            out.push(to, op, [Run::one(chunk)]);
        }
    }
}

#[test]
fn faults_say_what_and_where() {
    use Op::{Copy, Or, Reduce as Add};
    let cases = [
        (Listed::new(Broadcast, 3, 1), "at the end rank 1 does not hold chunk 0"),
        (
            Listed::new(AllReduce, 2, 1).with(0, 0, 1, Add, 0),
            "at the end chunk 0 of rank 0 lacks rank 1's part",
        ),
        (
            Listed::new(Broadcast, 3, 1).with(0, 0, 1, Copy, 0).with(0, 1, 2, Copy, 0),
            "round 0: rank 1 sends chunk 0 to rank 2 but does not hold it",
        ),
        (
            Listed::new(Reduce, 3, 1)
                .with(0, 0, 1, Add, 0)
                .with(0, 1, 2, Add, 0)
                .with(1, 1, 2, Add, 0),
            "round 1: rank 1 adds chunk 0 to rank 2, which has rank 1's part already",
        ),
        (
            Listed::new(AllGather, 2, 2).with(0, 0, 1, Copy, 0).with(1, 0, 1, Add, 0),
            "round 1: rank 0 adds chunk 0 to rank 1, which has rank 0's part already",
        ),
        (
            Listed::new(Broadcast, 2, 1).with(0, 0, 1, Add, 0),
            "round 0: rank 0 adds chunk 0 to rank 1, which has nothing there",
        ),
        (
            Listed::new(AllReduce, 3, 1).with(0, 1, 0, Add, 0).with(0, 2, 0, Copy, 0),
            "round 0: chunk 0 of rank 0 is written twice, the second time by rank 2",
        ),
        (
            Listed::new(Broadcast, 2, 1).with(0, 0, 1, Or, 0),
            "round 0: rank 0 sends data to rank 1 to be joined, not added",
        ),
        (
            Listed::new(Broadcast, 2, 1).with(0, 0, 2, Copy, 0),
            "round 0: rank 0 sends to rank 2, which does not exist",
        ),
        (Listed::new(Broadcast, 2, 1).with(0, 0, 0, Copy, 0), "round 0: rank 0 sends to itself"),
        (
            Listed::new(Broadcast, 2, 1).with(0, 0, 1, Copy, u32::MAX),
            "round 0: rank 0 sends 1 chunks from 4294967295 on to rank 1, more than there are",
        ),
        (
            Listed::new(Barrier, 2, 1).with(0, 0, 1, Or, 0).with(0, 0, 1, Copy, 0),
            "round 0: chunk 0 of rank 1 is written twice, the second time by rank 0",
        ),
        (Listed::new(SendRecv, 3, 1), "at the end rank 2 does not hold chunk 0"),
        (Listed::new(Broadcast, 0, 1), "the schedule has no ranks"),
        (Listed::new(AllGather, 2, 0), "the schedule has no chunks"),
    ];
    for (schedule, text) in cases {
        assert_eq!(schedule.fault(), text);
    }
}

#[test]
fn a_fault_gives_its_parts() {
    let schedule =
        Listed::new(Broadcast, 3, 2).with(0, 0, 1, Op::Copy, 0).with(1, 1, 2, Op::Copy, 1);
    let fault = verify(&schedule).unwrap_err();
    assert_eq!(fault.round(), Some(1));
    assert_eq!(fault.from(), Some(Endpoint::Rank(1)));
    assert_eq!(fault.to(), Some(Endpoint::Rank(2)));
    assert_eq!(fault.rank(), Some(1), "who sends what it lacks");
    assert_eq!(fault.chunk(), Some(1));

    let fault = verify(&Listed::new(Broadcast, 3, 2)).unwrap_err();
    assert_eq!((fault.round(), fault.to(), fault.rank()), (None, None, Some(1)));
}

#[test]
fn what_would_take_too_much_memory_is_refused() {
    // Of each chunk of each endpoint a fingerprint before and after, a mark, and a place in a list.
    let schedule = Listed { switches: 5, ..Listed::new(AllReduce, 100_000, 100_000) };
    let bytes = 100_005_u64 * 100_000 * (8 + 8 + 1 + 8);
    let refusal = format!("verifying takes {bytes} bytes of memory, more than 268435456");
    assert_eq!(schedule.fault(), refusal);
    let schedule = Listed::new(AllToAll, u32::MAX, u32::MAX);
    assert!(schedule.fault().contains("memory"), "{}", schedule.fault());
}

/// What rank i has for rank j goes there directly.
fn direct(ranks: u32) -> Listed {
    let mut schedule = Listed::new(AllToAll, ranks, ranks);
    for i in 0..ranks {
        for offset in 1..ranks {
            let j = (i + offset) % ranks;
            schedule = schedule.with(0, i, j, Op::Copy, i * ranks + j);
        }
    }
    schedule
}

#[test]
fn an_all_to_all_brings_each_block_to_its_rank() {
    for n in 1..=9 {
        assert_eq!(verify(&direct(n)), Ok(()));
        let mut wrong = direct(n);
        if let Some(last) = wrong.messages.last_mut() {
            // Rank n − 1 sends its neighbour what is for itself.
            last.4 = n * n - 1;
            assert!(verify(&wrong).is_err());
        }
    }
}

#[test]
fn ports_and_links_share_the_messages_of_a_round() {
    for n in 2..=9_u32 {
        for k in 0..=n {
            let others = u64::from(n - 1);
            let slots = if k == 0 { 1 } else { others.div_ceil(k.into()) };
            let counted = count(&direct(n), k);
            assert_eq!(counted.n_alpha, slots, "N = {n}, k = {k}");
            assert_eq!(counted.n_beta, whole(slots) / whole(n.into()));
            assert_eq!(counted.max_sent, whole(others) / whole(n.into()));
            assert_eq!(counted.max_received, counted.max_sent);
            assert_eq!(counted.messages, u64::from(n) * others);
            assert_eq!(counted.total, whole(others));
            assert_eq!((counted.rounds, counted.n_gamma), (1, whole(0)));
        }
    }
    // Three messages over one link, whatever the ports; the empty round 1 is not counted.
    let schedule = (0..3).fold(Listed::new(SendRecv, 2, 4), |s, c| s.with(0, 0, 1, Op::Copy, c));
    let counted = count(&schedule.with(2, 0, 1, Op::Copy, 3), 0);
    assert_eq!((counted.rounds, counted.n_alpha, counted.n_beta), (2, 4, whole(1)));
}

#[test]
fn a_barrier_hears_of_everybody() {
    for n in 1..=20_u32 {
        let mut schedule = Listed::new(Barrier, n, 1);
        for k in (0..).take_while(|k| 1 << k < n) {
            for i in 0..n {
                schedule = schedule.with(k, i, (i + (1 << k)) % n, Op::Or, 0);
            }
        }
        assert_eq!(verify(&schedule), Ok(()), "{n}");
        assert_eq!(count(&schedule, 1).n_beta, whole(0), "a notification has no data");
        if schedule.messages.pop().is_some() {
            assert!(verify(&schedule).is_err(), "{n}");
        }
    }
}

#[test]
fn a_switch_starts_with_nothing_and_adds_what_comes() {
    let switch = Endpoint::Switch(0);
    for n in 1..=5 {
        let mut schedule = Listed { switches: 1, ..Listed::new(AllReduce, n, 1) };
        for rank in (0..n).map(Endpoint::Rank) {
            schedule.messages.push((0, rank, switch, Op::Reduce, 0));
            schedule.messages.push((1, switch, rank, Op::Copy, 0));
        }
        assert_eq!(verify(&schedule), Ok(()));
        schedule.messages.retain(|m| m.1 != Endpoint::Rank(0));
        assert!(verify(&schedule).is_err());
    }
    let mut schedule = Listed { switches: 1, ..Listed::new(Broadcast, 2, 1) };
    schedule.messages.push((0, switch, Endpoint::Rank(1), Op::Copy, 0));
    assert_eq!(schedule.fault(), "round 0: switch 0 sends chunk 0 to rank 1 but does not hold it");
    assert_eq!(verify(&schedule).unwrap_err().rank(), None);
}

#[test]
fn send_recv_ends_at_the_rank_before() {
    let schedule = Listed::new(SendRecv, 3, 1).with(0, 0, 2, Op::Copy, 0);
    assert_eq!(verify(&schedule), Ok(()));
    assert_eq!(verify(&Relabel::new(schedule, 2)), Ok(()));
}

#[test]
fn rooted_and_owned_blocks_are_checked() {
    // The right messages under the wrong promise.
    let direct = |collective| {
        let list = Listed::new(collective, 3, 3);
        list.with(0, 0, 1, Op::Copy, 1).with(0, 0, 2, Op::Copy, 2)
    };
    assert_eq!(verify(&direct(Scatter)), Ok(()));
    assert!(verify(&direct(Broadcast)).is_err());
    assert!(verify(&direct(ReduceScatter)).is_err());
    let back = |collective| {
        let list = Listed::new(collective, 3, 3);
        list.with(0, 1, 0, Op::Copy, 1).with(0, 2, 0, Op::Copy, 2)
    };
    assert_eq!(verify(&back(Gather)), Ok(()));
    assert!(verify(&back(AllGather)).is_err());
    assert!(verify(&back(Reduce)).is_err());
}

#[test]
fn a_chain_of_many_segments_does_not_overflow() {
    let schedule = Chain::new(Broadcast, 3, u32::MAX);
    assert_eq!(schedule.rounds(), u64::from(u32::MAX) + 1);
}

/// NCCL's own choice for three GPUs is NVLS, which processes that share memory cannot run.
#[test]
fn ranks_alone_are_given_no_schedule_with_switches() {
    use collcost::measure::schedule_of::{schedule_of, schedule_of_ranks};
    use collcost::{Bytes, Question};
    let registry = Registry::builtin();
    for (collective, n, size) in [
        (Collective::AllReduce, 3, 1024),
        (Collective::ReduceScatter, 5, 1024),
        (Collective::AllReduce, 8, 8 << 20),
    ] {
        let question = Question::new(collective, Bytes(size)).on("dgx-h100").unwrap().ranks(n);
        let query = question.query().unwrap();
        let switches =
            schedule_of(&registry, &query, None, None).unwrap().schedule.frame().switches;
        assert!(switches > 0, "{collective} on {n}");
        let own = schedule_of_ranks(&registry, &query, None, None).unwrap();
        assert_eq!(own.schedule.frame().switches, 0, "{collective} on {n}");
        assert!(!own.passed_over.is_empty(), "{collective} on {n}");
    }
}

//! Every schedule does what its collective promises and costs what its closed form says; every
//! small change to one is found out.

use std::collections::BTreeMap;

use collcost::Collective::{self, AllGather, AllReduce, AllToAll, Barrier, Broadcast, Gather};
use collcost::Collective::{Reduce, ReduceScatter, Scatter, SendRecv};
use collcost::algorithm::{Algorithm, Guarantee, Registry};
use collcost::formula::{At, Ports, Rational, Shape, ceil_lg, floor_lg};
use collcost::schedule::chain::Chain;
use collcost::schedule::combine::Relabel;
use collcost::schedule::{
    Endpoint, Frame, Layout, Op, Run, Schedule, Sends, count, holds, senders, verify, wants,
};

const SEGMENTS: [u32; 4] = [1, 2, 3, 7];

fn ranks() -> impl Iterator<Item = u32> {
    (1..=33).chain([48, 61, 64, 72])
}

/// All that the registry can spell out for `ranks` ranks under `ports`.
fn built(ranks: u32, ports: Ports) -> Vec<(&'static dyn Algorithm, Shape, Box<dyn Schedule>)> {
    let mut found = Vec::new();
    for algorithm in Registry::builtin().iter() {
        let segments = if algorithm.is_pipelined() { &SEGMENTS[..] } else { &SEGMENTS[..1] };
        for &collective in algorithm.meta().collectives {
            for &p in segments {
                let shape = Shape::new(collective, ranks).with_segments(p).with_ports(ports);
                if algorithm.applies(&shape).is_err() {
                    continue;
                }
                if let Some(schedule) = algorithm.schedule(&shape) {
                    found.push((algorithm, shape, schedule));
                }
            }
        }
    }
    found
}

#[test]
fn every_schedule_verifies() {
    for n in ranks() {
        for (algorithm, shape, schedule) in built(n, Ports::ONE) {
            let name = format!("{} {shape:?}", algorithm.meta().id);
            assert_eq!(schedule.collective(), shape.collective, "{name}");
            assert_eq!(schedule.ranks(), n, "{name}");
            if let Err(fault) = verify(&*schedule) {
                panic!("{name}: {fault}");
            }
        }
    }
}

#[test]
fn every_schedule_verifies_with_any_root() {
    for n in [1, 2, 5, 8, 13] {
        for root in 0..n {
            for (algorithm, _, schedule) in built(n, Ports::ONE) {
                if schedule.frame().layout == Layout::Owned {
                    continue;
                }
                let before = count(&*schedule, 1);
                let schedule = Relabel::new(schedule, root);
                assert_eq!(schedule.root(), root);
                assert_eq!(verify(&schedule), Ok(()), "{} {root}", algorithm.meta().id);
                assert_eq!(count(&schedule, 1), before);
            }
        }
    }
}

/// The messages by which a barrier after every round makes the schedule longer than its closed
/// form, which is for data that run ahead as far as ports allow.
///
/// Binomial trees alone so far. On one port the pipelined root sends its P·⌈lg N⌉ messages back to
/// back; the barrier adds the rounds after its last, in which rank 2^d − 1 has the most children
/// of depth d. With a port for each of its children the root of an unsegmented tree sends to all its children at
/// once; with the barrier it takes ⌈lg N⌉ rounds, not ⌊lg N⌋.
fn waits(algorithm: &dyn Algorithm, shape: &Shape) -> u32 {
    let n = shape.ranks;
    let passes = match (algorithm.meta().id, shape.collective) {
        ("binomial", Broadcast | Reduce) => 1,
        ("tree", AllReduce) => 2,
        _ => return 0,
    };
    let children = |d: u32| (d..32).take_while(|k| (1 << d) - 1 + (1_u64 << k) < n.into()).count();
    let all_at_once = shape.ports.sends(ceil_lg(n)) >= ceil_lg(n);
    match (all_at_once, shape.segments()) {
        (true, 1) => passes * (ceil_lg(n) - floor_lg(n)),
        (true, _) | (_, 1) => 0,
        _ => (1..floor_lg(n)).map(|d| children(d) as u32).sum(),
    }
}

#[test]
fn closed_forms_equal_their_schedules() {
    let mut compared = 0;
    for (k, ports) in [1, 2, 0].map(|k| (k, Ports::full(k))) {
        for n in ranks() {
            for (algorithm, shape, schedule) in built(n, ports) {
                let name = format!("{} {shape:?}", algorithm.meta().id);
                let at = At::numbers(shape);
                let counted = count(&*schedule, k);
                assert_eq!(algorithm.sent_exactly(&at), counted.max_sent, "sent: {name}");
                // What crosses a switch is not priced message by message.
                if algorithm.guarantee(&shape) != Guarantee::Equal || schedule.switches() > 0 {
                    continue;
                }
                let form = algorithm.prove(&at).total();
                let waits = whole(waits(algorithm, &shape).into());
                let volume = waits / whole(shape.segments().into());
                // The second pass of an all-reduce adds nothing.
                let added = match shape.collective {
                    Broadcast => whole(0),
                    AllReduce => volume / whole(2),
                    _ => volume,
                };
                assert_eq!(whole(counted.n_alpha), form.alpha + waits, "n_α: {name}");
                assert_eq!(counted.n_beta, form.beta + volume, "n_β: {name}");
                // The form counts what a rank adds, the count what comes through one port.
                if algorithm.meta().id != "recursive-multiplying" || k == 1 {
                    assert_eq!(counted.n_gamma, form.gamma + added, "n_γ: {name}");
                }
                compared += 1;
            }
        }
    }
    assert!(compared > 1000, "{compared}");
}

fn whole(n: u64) -> Rational {
    Rational::from_integer(n.into())
}

/// A schedule in which one message is not as it was.
struct Mutated<'a> {
    inner: &'a dyn Schedule,
    round: u64,
    from: Endpoint,
    message: usize,
    how: Mutation,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Mutation {
    Drop,
    Duplicate,
    Retarget,
    Shift,
    SwapOp,
    Delay,
}

const MUTATIONS: [Mutation; 6] = [
    Mutation::Drop,
    Mutation::Duplicate,
    Mutation::Retarget,
    Mutation::Shift,
    Mutation::SwapOp,
    Mutation::Delay,
];

impl Schedule for Mutated<'_> {
    /// One round more, for a message that comes after all others.
    fn frame(&self) -> Frame {
        let inner = self.inner.frame();
        Frame { rounds: inner.rounds + 1, turns: false, ..inner }
    }

    fn owner(&self, chunk: u32) -> u32 {
        self.inner.owner(chunk)
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let late = round == self.inner.rounds();
        let mut plain = Sends::default();
        self.inner.sends(if late { self.round } else { round }, from, &mut plain);
        for (i, message) in plain.iter().enumerate() {
            let runs = message.runs.iter().copied();
            let (to, op) = (message.to, message.op);
            let mutated = from == self.from && i == self.message && (late || round == self.round);
            match self.how {
                Mutation::Delay if mutated == late => out.push(to, op, runs),
                Mutation::Delay => {}
                _ if late => {}
                _ if !mutated => out.push(to, op, runs),
                Mutation::Drop => {}
                Mutation::Duplicate => {
                    out.push(to, op, runs.clone());
                    out.push(to, op, runs);
                }
                Mutation::Retarget => out.push(next(to, self.ranks()), op, runs),
                Mutation::Shift => {
                    let n = self.chunks();
                    out.push(to, op, runs.flat_map(|run| Run::around(run.start + 1, run.len, n)));
                }
                Mutation::SwapOp if op == Op::Copy => out.push(to, Op::Reduce, runs),
                Mutation::SwapOp => out.push(to, Op::Copy, runs),
            }
        }
    }
}

fn next(endpoint: Endpoint, ranks: u32) -> Endpoint {
    match endpoint {
        Endpoint::Rank(rank) => Endpoint::Rank((rank + 1) % ranks),
        switch @ Endpoint::Switch(_) => switch,
    }
}

#[test]
fn every_mutant_is_refused_or_right() {
    let (mut refused, mut right) = (0, 0);
    for n in 2..=6 {
        for (algorithm, shape, schedule) in built(n, Ports::ONE) {
            for (round, from, message, carried) in messages(&*schedule) {
                for how in MUTATIONS {
                    // All chunks moved on by one are all chunks.
                    if how == Mutation::Shift && carried == schedule.chunks() {
                        continue;
                    }
                    // A switch has nothing to which the first arrival could be added.
                    if how == Mutation::SwapOp && schedule.switches() > 0 {
                        continue;
                    }
                    let mutant = Mutated { inner: &*schedule, round, from, message, how };
                    let name = format!("{} {shape:?} {how:?} {round} {from}", algorithm.meta().id);
                    if verify(&mutant).is_err() {
                        refused += 1;
                        continue;
                    }
                    // A sum may take another way, and what nobody waits for may come last. A
                    // notification may come twice, and one that tells of all may replace others.
                    // An all-gather in a broadcast also brings what is there.
                    let mild = match how {
                        Mutation::Retarget | Mutation::Delay => true,
                        Mutation::Duplicate | Mutation::SwapOp => shape.collective == Barrier,
                        Mutation::Drop | Mutation::Shift => shape.collective == Broadcast,
                    };
                    assert!(mild, "{name}");
                    assert!(ends_right(&mutant), "{name}");
                    right += 1;
                }
            }
        }
    }
    assert!(refused > 4000 && right > 0, "{refused} {right}");
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
        for (algorithm, shape, schedule) in built(n, Ports::ONE) {
            assert!(ends_right(&*schedule), "{} {shape:?}", algorithm.meta().id);
        }
    }
}

/// Round, sender, place and number of chunks of every message.
fn messages(schedule: &dyn Schedule) -> Vec<(u64, Endpoint, usize, u32)> {
    let mut found = Vec::new();
    let mut sends = Sends::default();
    for round in 0..schedule.rounds() {
        for from in (0..schedule.ranks()).map(Endpoint::Rank) {
            sends.clear();
            schedule.sends(round, from, &mut sends);
            found.extend(sends.iter().enumerate().map(|(i, message)| {
                (round, from, i, message.runs.iter().map(|run| run.len).sum())
            }));
        }
    }
    found
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
            "round 0: rank 0 sends to rank 2, which there is not",
        ),
        (Listed::new(Broadcast, 2, 1).with(0, 0, 0, Copy, 0), "round 0: rank 0 sends to itself"),
        (
            Listed::new(Broadcast, 2, 1).with(0, 0, 1, Copy, u32::MAX),
            "round 0: rank 0 sends 1 chunks from 4294967295 on to rank 1, more than there are",
        ),
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
    let schedule = Listed::new(AllReduce, 100_000, 100_000);
    assert!(schedule.fault().contains("memory"), "{}", schedule.fault());
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
fn send_recv_ends_at_the_next_rank() {
    let schedule = Listed::new(SendRecv, 3, 1).with(0, 0, 1, Op::Copy, 0);
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

//! Compares the simulation methods: the event-by-event result is correct.

use super::*;
use crate::Collective;
use crate::base::quantity::{Bandwidth, SecondsPerByte};
use crate::cost::price::OnLinks;
use crate::machine::link::{Bucket, Knot, Link, Share};
use crate::model::algorithm::Registry;
use crate::model::formula::{Ports, Shape};
use crate::model::schedule::{Frame, List};

/// Every schedule of the registry for `n` ranks, in one segment and in three.
fn schedules(n: u32) -> Vec<(String, Box<dyn Schedule>)> {
    let mut found = Vec::new();
    for algorithm in Registry::builtin().iter() {
        for &collective in algorithm.meta().collectives {
            for segments in [1, 3] {
                let shape = Shape::new(collective, n).with_segments(segments);
                if algorithm.applies(&shape).is_ok() {
                    let name = format!("{} {shape:?}", algorithm.meta().id);
                    found.extend(algorithm.schedule(&shape).map(|schedule| (name, schedule)));
                }
            }
        }
    }
    found
}

fn fabric(ports: Ports, gamma: f64) -> Fabric {
    let link = crate::machine::fabric::Tier::new("link", Seconds(1.0), Bandwidth(1.0));
    let mut fabric = Fabric::new(vec![crate::machine::fabric::Tier { ports, ..link }]);
    fabric.gamma = (gamma > 0.0).then_some(SecondsPerByte(gamma));
    fabric
}

/// Irregular starts and sizes.
fn setups(n: u32) -> impl Iterator<Item = Setup> {
    (0..6_u64).map(move |seed| {
        let mut state = seed * 77 + u64::from(n);
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as f64 / f64::from(1 << 30)
        };
        let mut setup = Setup::new(Volume(8.0 * next()));
        if seed > 1 {
            setup.trouble.starts = (0..n).map(|_| Seconds(10.0 * next())).collect();
        }
        if seed > 3 {
            setup.trouble.slow_ranks = vec![(n / 2, Ratio(2.0))];
        }
        setup
    })
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

#[test]
fn in_order_is_event_by_event_wherever_it_holds() {
    let (mut held, mut fell) = (0, 0);
    let mut space = Space::default();
    for n in 2..=12 {
        for (name, schedule) in schedules(n) {
            for (setup, gamma) in setups(n).flat_map(|s| [0.0, 0.3].map(|g| (s.clone(), g))) {
                for ports in [Ports::ONE, Ports::Half(std::num::NonZeroU32::MIN)] {
                    if schedule.frame().switches > 0 {
                        continue;
                    }
                    let costs = Costs::new(&*schedule, &fabric(ports, gamma), &setup).unwrap();
                    let cells = Cells::of(&*schedule, &costs).unwrap();
                    let quick = in_order::pass(&*schedule, &costs, &cells, &mut space, None);
                    let Some(quick) = quick else {
                        fell += 1;
                        continue;
                    };
                    held += 1;
                    let full = greedy::whole(&*schedule, &costs, Some(&cells), &mut space, None);
                    let full = full.unwrap();
                    assert!(near(quick.makespan.0, full.makespan.0), "{name}\n{quick:?}\n{full:?}");
                    assert_eq!((quick.messages, quick.rounds), (full.messages, full.rounds));
                }
            }
        }
    }
    assert!(held > 2000 && fell > 2000, "{held} {fell}");
}

#[test]
fn ranks_that_do_alike_are_timed_as_one_by_one() {
    let (mut held, mut mirrored) = (0, 0);
    let mut space = Space::default();
    for n in 2..=16 {
        for (name, schedule) in schedules(n) {
            for (setup, gamma) in setups(n).flat_map(|s| [0.0, 0.3].map(|g| (s.clone(), g))) {
                for ports in [Ports::ONE, Ports::Half(std::num::NonZeroU32::MIN)] {
                    let costs = Costs::new(&*schedule, &fabric(ports, gamma), &setup);
                    let Some(costs) = costs.ok().filter(Costs::all_are_alike) else { continue };
                    let (places, chunks) = (costs.places(), costs.frame.chunks() as usize);
                    let cells = Cells::Chunks { places, chunks };
                    let alike = turning::pass(&*schedule, &costs, &mut space).unwrap();
                    let each = in_order::pass(&*schedule, &costs, &cells, &mut space, None);
                    held += usize::from(each.is_some());
                    mirrored += usize::from(each.is_some() && !costs.frame.turns);
                    assert_eq!(alike, each, "{name}, {n} ranks");
                }
            }
        }
    }
    assert!(held > 1000 && mirrored > 10, "{held} {mirrored}");
}

#[test]
fn ranges_of_chunks_are_as_good_as_chunks() {
    let mut space = Space::default();
    for n in 2..=12 {
        for (name, schedule) in schedules(n) {
            for (setup, gamma) in setups(n).flat_map(|s| [0.0, 0.3].map(|g| (s.clone(), g))) {
                let costs = Costs::new(&*schedule, &fabric(Ports::ONE, gamma), &setup);
                // There is no switch in this machine.
                let Ok(costs) = costs else { continue };
                let (places, chunks) = (costs.places(), costs.frame.chunks() as usize);
                let each =
                    [Cells::Chunks { places, chunks }, Cells::ranges(&*schedule, &costs).unwrap()];
                let [a, b] = each.map(|cells| {
                    greedy::whole(&*schedule, &costs, Some(&cells), &mut space, None).unwrap()
                });
                assert_eq!(a, b, "{name}, {n} ranks");
            }
        }
    }
}

#[test]
fn round_by_round_is_event_by_event() {
    let mut space = Space::default();
    for n in 1..=12 {
        for (name, schedule) in schedules(n) {
            for setup in setups(n) {
                for ports in [Ports::ONE, Ports::full(2), Ports::Half(std::num::NonZeroU32::MIN)] {
                    let costs = Costs::new(&*schedule, &fabric(ports, 0.3), &setup);
                    // There is no switch in this machine.
                    let Ok(costs) = costs else { continue };
                    let mode = Mode::Local;
                    let rounds = rounds::run(&*schedule, &costs, mode, &mut space, None).unwrap();
                    let whole = greedy::whole(&*schedule, &costs, None, &mut space, None).unwrap();
                    assert!(near(rounds.makespan.0, whole.makespan.0), "{name} {ports}");
                }
            }
        }
    }
}

#[test]
fn the_quick_ways_are_taken_where_they_are_right() {
    use crate::machine::fabric::Discipline;
    let frame = crate::model::schedule::Frame {
        turns: true,
        ..crate::model::schedule::Frame::new(crate::Collective::AllGather, 4, 4, 0)
    };
    let list = crate::model::schedule::List::new(frame);
    let ways = |fabric: &Fabric| {
        let costs = Costs::new(&list, fabric, &Setup::new(Volume(1.0))).unwrap();
        (all_do_as_one(&costs), Mode::ALL.map(|mode| Way::of(&costs, mode)))
    };
    use Way::{InOrder, Rounds, Whole};
    let half = Ports::Half(std::num::NonZeroU32::MIN);
    assert_eq!(ways(&fabric(Ports::ONE, 0.0)), (true, [Rounds, Rounds, InOrder]));
    assert_eq!(ways(&fabric(Ports::ONE, 0.3)), (true, [Rounds, Rounds, InOrder]));
    assert_eq!(ways(&fabric(half, 0.0)), (false, [Rounds, Rounds, InOrder]));
    assert_eq!(ways(&fabric(Ports::full(2), 0.0)), (true, [Rounds, Rounds, Whole]));
    assert_eq!(ways(&fabric(Ports::full(2), 0.3)), (false, [Rounds, Rounds, Whole]));
    let mut fair = fabric(Ports::ONE, 0.0);
    fair.tiers[0].discipline = Discipline::Fair;
    assert_eq!(ways(&fair), (false, [Rounds, Rounds, Whole]));
    let mut nodes = fabric(Ports::ONE, 0.0);
    nodes.tiers.push(nodes.tiers[0].clone());
    nodes.tiers[0].span = std::num::NonZeroU32::new(2);
    assert_eq!(ways(&nodes), (false, [Rounds, Rounds, Whole]));
    nodes.tiers[1].nics = std::num::NonZeroU32::new(1);
    assert_eq!(ways(&nodes), (false, [Rounds, Whole, Whole]));
}

#[test]
fn one_rank_with_too_many_chunks_is_refused() {
    let frame = crate::model::schedule::Frame {
        turns: true,
        ..crate::model::schedule::Frame::new(crate::Collective::AllGather, 2, 1 << 28, 0)
    };
    let list = crate::model::schedule::List::new(frame);
    for ports in [Ports::ONE, Ports::full(2)] {
        let refused = simulate(&list, &fabric(ports, 0.0), &Setup::new(Volume(1.0)));
        let message = refused.unwrap_err().to_string();
        assert!(message.contains("about 2048 MiB"), "{message}");
    }
}

#[test]
fn as_many_senders_as_are_allowed_are_played_out() {
    let frame = |collective| Frame::new(collective, 4, 1, 0);
    assert!(check_senders(SENDERS, &frame(Collective::AllReduce)).is_ok());
    assert!(check_senders(SENDERS + 1, &frame(Collective::AllReduce)).is_err());
}

/// What a refusal advises is simulated, for every number of ranks that needs the advice.
#[test]
fn what_is_advised_for_many_ranks_is_simulated() {
    let trouble = Trouble { slow_ranks: vec![(5, Ratio(2.0))], ..Trouble::default() };
    for &collective in Collective::ALL {
        let Some(id) = of_few_rounds(collective) else { continue };
        let algorithm = Registry::builtin().find(collective, id).unwrap().algorithm;
        for n in [150_000, 1 << 18] {
            let schedule = algorithm.schedule(&Shape::new(collective, n)).unwrap();
            let size = if collective == Collective::Barrier { 0.0 } else { 1e6 };
            let setup = Setup { trouble: trouble.clone(), ..Setup::new(Volume(size)) };
            let outcome =
                simulate(&*schedule, &fabric(Ports::ONE, 0.0), &setup.in_mode(Mode::Sync));
            assert!(outcome.unwrap().makespan.0 > 0.0, "{collective} {id} {n}");
        }
    }
}

#[test]
fn one_rank_in_order_is_event_by_event_wherever_it_holds() {
    use crate::Collective::{AllGather, AllReduce, AllToAll, ReduceScatter};
    let table = [
        ("ring", AllReduce, (64, 0)),
        ("bruck", AllGather, (64, 0)),
        ("bruck", AllToAll, (64, 0)),
        ("pat", AllGather, (64, 0)),
        ("pat", ReduceScatter, (60, 4)),
        ("ring-relay", AllToAll, (64, 0)),
        ("direct", AllToAll, (64, 0)),
        ("pairwise", AllToAll, (64, 0)),
    ];
    let mut space = Space::default();
    for (name, collective, expected) in table {
        let (mut held, mut fell) = (0, 0);
        for n in 2..=17 {
            for (size, gamma, most) in [(0.0, 0.0, 1), (7.0, 0.0, 2), (7.0, 0.3, 1), (1e3, 2.0, 3)]
            {
                let mut shape = Shape::new(collective, n);
                shape.params.aggregation = std::num::NonZeroU32::new(most);
                let algorithm = Registry::builtin().find(collective, name).unwrap().algorithm;
                let schedule = algorithm.schedule(&shape).unwrap();
                assert!(schedule.frame().turns, "{name}");
                let setup = Setup::new(Volume(size));
                let costs = Costs::new(&*schedule, &fabric(Ports::ONE, gamma), &setup).unwrap();
                space.tally.reset(costs.places());
                let quick = symmetric::in_order(&*schedule, &costs, &mut space).unwrap();
                space.tally.reset(costs.places());
                let full = symmetric::event_by_event(&*schedule, &costs, &mut space).unwrap();
                let Some(quick) = quick else {
                    fell += 1;
                    continue;
                };
                held += 1;
                assert!(near(quick.makespan.0, full.makespan.0), "{name}\n{quick:?}\n{full:?}");
                assert_eq!(Outcome { makespan: full.makespan, ..quick }, full, "{name}");
            }
        }
        assert_eq!((held, fell), expected, "{name} {collective}");
    }
}

/// A link on which early bytes of a message are quick and late ones are not.
fn bent() -> Link {
    let knot = |below, rate| Knot { below: Bytes(below), bandwidth: rate };
    Link {
        knots: vec![knot(20, None), knot(100, Some(Bandwidth(4.0)))],
        ..Link::new(Seconds(3.0), Bandwidth(1.0))
    }
}

fn of(link: Link) -> Fabric {
    let tier = crate::machine::fabric::Tier::new("link", Seconds(1.0), Bandwidth(1.0));
    Fabric::new(vec![crate::machine::fabric::Tier { link, ..tier }])
}

#[test]
fn schedules_take_on_measured_links_what_their_steps_take() {
    use Collective::{AllGather, AllReduce, Broadcast};
    let registry = Registry::builtin();
    for (duplex, above) in [(1.0, 0), (0.6, 0), (0.6, 20), (0.6, 400)] {
        let (duplex, duplex_above) = (Ratio(duplex), Bytes(above));
        let fabric = of(Link { duplex, duplex_above, ..bent() });
        for (collective, id) in [
            (AllReduce, "ring"),
            (AllReduce, "recursive-doubling"),
            (AllGather, "bruck"),
            (Broadcast, "binomial"),
        ] {
            for n in [2, 4, 8] {
                let shape = Shape::new(collective, n).with_segments(1);
                let algorithm = registry.find(collective, id).unwrap().algorithm;
                let links = OnLinks::new(algorithm, &shape, &fabric).unwrap();
                let schedule = algorithm.schedule(&shape).unwrap();
                for (size, mode) in [8.0, 300.0, 5000.0].into_iter().zip(Mode::ALL) {
                    let setup = Setup::new(Volume(size)).in_mode(mode);
                    let played = simulate(&*schedule, &fabric, &setup).unwrap().makespan.0;
                    let walked = links.at(Volume(size)).0;
                    assert!(near(played, walked), "{id} {n} {size} {mode}: {played} {walked}");
                }
            }
        }
    }
}

/// Messages, one per round, each with all data.
fn turns(ranks: u32, messages: &[(u64, u32, u32)]) -> List {
    let rounds = messages.last().map_or(0, |last| last.0 + 1);
    let mut list = List::new(Frame::new(Collective::Broadcast, ranks, 1, rounds));
    for &(round, from, to) in messages {
        let [from, to] = [from, to].map(Endpoint::Rank);
        list.push(round, from, to, Op::Copy, &[Run::one(0)]);
    }
    list
}

#[test]
fn a_port_behind_a_bucket_saves_up_while_it_rests() {
    let bucket = Some(Bucket { rate: Bandwidth(1.0), burst: Bytes(60) });
    let fabric = of(Link { bucket, ..Link::new(Seconds(1.0), Bandwidth(1.0)) });
    // There, back, and back again: the first port has not rested; the second has rested for longer
    // than its bucket holds, and then it has just sent.
    let list = turns(2, &[(0, 0, 1), (1, 1, 0), (2, 1, 0)]);
    for mode in Mode::ALL {
        let setup = Setup::new(Volume(100.0)).in_mode(mode);
        let played = simulate(&list, &fabric, &setup).unwrap().makespan.0;
        assert!(near(played, 101.0 + 41.0 + 101.0), "{mode}: {played}");
    }
}

#[test]
fn messages_that_share_a_port_reach_what_was_measured() {
    let two = std::num::NonZeroU32::new(2).unwrap();
    let sharing = vec![Share { flows: two, part: Ratio(0.5) }];
    let mut fabric = of(Link { sharing, ..Link::new(Seconds(1.0), Bandwidth(1.0)) });
    fabric.tiers[0].discipline = crate::machine::fabric::Discipline::Fair;
    let list = turns(3, &[(0, 0, 1), (0, 0, 2)]);
    let played = simulate(&list, &fabric, &Setup::new(Volume(100.0))).unwrap().makespan.0;
    assert!(near(played, 401.0), "{played}");
}

/// A recorded message.
struct Heard {
    round: u64,
    to: Endpoint,
    op: Op,
    runs: Vec<Run>,
    bytes: f64,
    end: f64,
    added: f64,
}

/// The operand of a reduction has arrived before the addition begins: in every schedule, on all
/// ports.
#[test]
fn no_addition_ends_before_its_operand_has_come() {
    let mut waited = 0;
    for n in 2..=9 {
        for (name, schedule) in schedules(n) {
            for ports in [Ports::ONE, Ports::full(2), Ports::Unbounded] {
                for (gamma, setup) in [0.1, 3.0].into_iter().zip(setups(n).skip(1)) {
                    let mut messages: Vec<Heard> = Vec::new();
                    let mut listener = |m: &Timed<'_>| {
                        messages.push(Heard {
                            round: m.round,
                            to: m.to,
                            op: m.op,
                            runs: m.runs.to_vec(),
                            bytes: m.bytes.0,
                            end: m.end.0,
                            added: m.added.0,
                        });
                    };
                    let fabric = fabric(ports, gamma);
                    // A switch that does not exist, or parameters that it lacks.
                    let Ok(outcome) = simulate_with(&*schedule, &fabric, &setup, &mut listener)
                    else {
                        continue;
                    };
                    let mut copied = std::collections::HashMap::new();
                    let mut last = 0.0_f64;
                    for round in messages.chunk_by(|a, b| a.round == b.round) {
                        for Heard { to, op, runs, bytes, end, added, .. } in round {
                            last = last.max(*added);
                            let own = |c: u32| copied.get(&(*to, c)).copied().unwrap_or(0.0);
                            let chunks = || runs.iter().flat_map(|run| run.chunks());
                            let operand = chunks().map(own).fold(0.0, f64::max);
                            let slow = setup
                                .trouble
                                .slow_ranks
                                .iter()
                                .any(|&(rank, _)| *to == Endpoint::Rank(rank));
                            let adding = bytes * gamma * if slow { 2.0 } else { 1.0 };
                            if *op == Op::Reduce && *added > *end {
                                assert!(
                                    added - adding >= operand.max(*end) * (1.0 - 1e-9),
                                    "{name} {ports:?}: added {added}, came {end}, operand {operand}"
                                );
                                waited += u32::from(operand > *end);
                            }
                        }
                        for Heard { to, op, runs, end, .. } in round {
                            if *op != Op::Reduce {
                                let chunks = runs.iter().flat_map(|run| run.chunks());
                                copied.extend(chunks.map(|chunk| ((*to, chunk), *end)));
                            }
                        }
                    }
                    assert!(outcome.makespan.0 >= last * (1.0 - 1e-9), "{name} {ports:?}");
                }
            }
        }
    }
    assert!(waited > 20, "{waited} additions waited for what was copied");
}

/// Rank 2's part is at rank 1 long before the copy to which it is added.
#[test]
fn an_addition_waits_for_a_copy_that_is_late() {
    let mut list = List::new(Frame::new(Collective::Reduce, 4, 1, 3));
    for (round, from, to, op) in [(0, 0, 3, Op::Copy), (1, 3, 1, Op::Copy), (2, 2, 1, Op::Reduce)] {
        list.push(round, Endpoint::Rank(from), Endpoint::Rank(to), op, &[Run::one(0)]);
    }
    for ports in [Ports::ONE, Ports::Unbounded] {
        let setup = Setup::new(Volume(1.0));
        let played = simulate(&list, &fabric(ports, 0.5), &setup).unwrap();
        // Two messages of α + 1 one after another, and then half a second.
        assert_eq!(played.makespan, Seconds(4.5), "{ports:?}");
    }
}

//! Tuning files: what is written is read back, says what the model chose, and steps over no trap.

use std::process::Output;

use collcost::Collective;
use collcost::answer::tune::nccl::Own;
use collcost::answer::tune::{
    self, Compared, Departure, Evidence, LEAST_GAIN, Margin, Plan, Point, Question, Rendezvous,
    Timed, compared,
};
use collcost::base::quantity::{Bytes, Ratio, Seconds};
use collcost::library::mpich::{name as mpich_name, rules as mpich};
use collcost::library::nccl::rules as nccl;
use collcost::library::nccl::{
    Algo, Chooser, Function, Place, Proto, Reduction, Settings, Table, Version,
};
use collcost::library::openmpi::rules as openmpi;
use collcost::library::openmpi::rules::{Coll, CollectiveRules, CommRules, MessageRule};
use collcost::library::tuning_file::Line;
use collcost::library::tuning_file::TuningFile;
use collcost::library::tuning_file::mpich_json;
use collcost::library::tuning_file::nccl_tuner_csv;
use collcost::library::tuning_file::openmpi_rules;
use collcost::library::tuning_file::read_mpich_json;
use collcost::library::tuning_file::read_nccl_tuner_csv;
use collcost::library::tuning_file::read_openmpi_rules;
use collcost::library::tuning_file::read_rules;
use collcost::library::{Call, Flavour, Operation, Policy, Site, policy};
use collcost::machine::profile::Profile;
use collcost::machine::query::{Given, Layout, Machine, Query};
use collcost::machine::sample::{DataType, Mode};
use collcost::model::algorithm::Registry;
use proptest::prelude::*;

use crate::command::{self, text};
use crate::full::one_in;

fn own(name: &str) -> Box<dyn Policy> {
    policy(name, &Site::default()).unwrap()
}

/// `ranks` ranks on a built-in machine.
fn query(machine: &str, collective: Collective, ranks: u32) -> Query {
    let profile = Profile::builtin(machine).unwrap();
    let machine = Machine::new(Some((profile, "test")), &Given::default(), collective).unwrap();
    let layout = Layout { ranks: std::num::NonZeroU32::new(ranks), ..Layout::default() };
    Query::new(machine, collective, Bytes(0), layout, Default::default()).unwrap()
}

const RANKS: &[u32] = &[2, 3, 4, 6, 8, 16];

/// Every plan for Open MPI on some machines, with what was compared.
fn each_openmpi(mut look: impl FnMut(&Compared<'_>, &Plan)) {
    let (registry, policy) = (Registry::builtin(), own("openmpi@4.1"));
    let offers = |call: &Call| tune::openmpi::offers(&*policy, call);
    let good = (0.05, 0.05);
    for operation in tune::openmpi::operations() {
        let collective = operation.collective;
        for &ranks in RANKS {
            // Two that were calibrated, and one that was not.
            let queries = [
                fitted("tcp", collective, ranks, good),
                fitted("shm", collective, ranks, good),
                query("netns-50m", collective, ranks),
            ];
            for query in queries {
                let compared = Compared {
                    registry: &registry,
                    policy: &*policy,
                    offers: &offers,
                    query: &query,
                    operation,
                    rendezvous: Rendezvous::open_mpi(&query).unwrap(),
                };
                look(&compared, &compared.plan().unwrap());
            }
        }
    }
}

fn time(point: &Point, pick: Option<&tune::Pick>) -> Option<Seconds> {
    match pick {
        None => point.own,
        Some(pick) => point.offers.iter().find(|(p, _)| p == pick).map(|(_, time)| *time),
    }
}

#[test]
fn the_file_says_what_the_model_chose() {
    let mut rules = 0;
    each_openmpi(|compared_, plan| {
        let table = tune::openmpi::table(std::slice::from_ref(plan));
        let text = openmpi_rules(&table, &["a head".to_owned()], &|_, _, _| Some("x".to_owned()));
        let back = read_openmpi_rules(&text, "rules").unwrap();
        assert_eq!(back, table);
        let coll = tune::openmpi::coll(plan.operation).unwrap();
        for size in compared(plan.operation.collective, plan.ranks) {
            let size = Bytes(size);
            let rule = back.rule(coll, plan.ranks, size);
            let said = rule.filter(|r| r.algorithm > 0).map(|r| (r.algorithm, r.segment));
            let pick = plan.pick(size);
            assert_eq!(said, pick.map(|p| (p.id.unwrap(), p.segment)), "{plan:?} {size}");
            // What was chosen is within a few per cent of the best, and a rule gains enough.
            let point = compared_.point(size).unwrap();
            let Some(own) = point.own else {
                assert!(pick.is_none(), "{plan:?} {size}");
                continue;
            };
            let chosen = time(&point, pick).unwrap().0;
            let best = point.offers.iter().map(|(_, t)| t.0).fold(own.0, f64::min);
            match pick {
                None => {
                    assert!(best >= own.0 * (1.0 - point.least_gain.0) * 0.999, "{plan:?} {size}")
                }
                Some(_) => {
                    rules += 1;
                    // Or it is what the library itself changes to at this very size.
                    let same = chosen <= own.0 * (1.0 + 1e-9) && size.0.is_power_of_two();
                    let gains = chosen <= own.0 * (1.0 - point.least_gain.0) + 1e-15;
                    assert!(gains || same, "{plan:?} {size}");
                    assert!(chosen <= best * 1.0527, "{plan:?} {size}");
                }
            }
        }
    });
    assert!(rules > 1000, "{rules}");
}

#[test]
fn between_the_compared_sizes_little_is_lost() {
    each_openmpi(|compared_, plan| {
        let mut size = 100_003_u64;
        for _ in 0..20 {
            // Sizes all over the octaves, the same ones in every run.
            size = size
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let least = u64::from(plan.ranks) * 32;
            let bytes = Bytes(least + (size >> 40) % (1 << (10 + size % 14)));
            let point = compared_.point(bytes).unwrap();
            let (Some(own), Some(chosen)) = (point.own, time(&point, plan.pick(bytes))) else {
                continue;
            };
            assert!(chosen.0 <= own.0 * 1.06, "{:?} {bytes}: {chosen} of {own}", plan.operation);
        }
    });
}

#[test]
fn no_rule_starts_where_people_measure() {
    each_openmpi(|_, plan| {
        for span in &plan.spans {
            assert!(!span.from.0.is_power_of_two() || span.from.0 == 1, "{plan:?}");
        }
    });
}

#[test]
fn other_communicators_keep_what_open_mpi_decides() {
    each_openmpi(|_, plan| {
        let table = tune::openmpi::table(std::slice::from_ref(plan));
        let coll = tune::openmpi::coll(plan.operation).unwrap();
        assert_eq!(table.collectives.is_empty(), !plan.has_rules());
        for ranks in (2..40).filter(|&ranks| ranks != plan.ranks) {
            for size in [0, 1000, 1 << 20, 1 << 40] {
                let rule = table.rule(coll, ranks, Bytes(size));
                assert!(rule.is_none_or(|rule| rule.algorithm == 0), "{ranks}: {plan:?}");
            }
        }
    });
}

/// A network of 50 Mbit/s that was fitted over `way`, and misses algorithms that it did not see by
/// so much, all sizes and large ones.
fn fitted(way: &str, collective: Collective, ranks: u32, (all, bulk): (f64, f64)) -> Query {
    let errors = |name: &str, median: f64| {
        (format!("{name} = {{ median = 0.05"), format!("{name} = {{ median = {median}"))
    };
    let mut text = include_str!("../data/fitted.toml").replace("\"tcp\"", &format!("\"{way}\""));
    for (old, new) in [errors("algorithms", all), errors("algorithms_bulk", bulk)] {
        assert!(text.contains(&old));
        text = text.replace(&old, &new);
    }
    let profile = Profile::parse(&text, "fitted.toml").unwrap();
    let machine = Machine::new(Some((profile, "test")), &Given::default(), collective).unwrap();
    let layout = Layout { ranks: std::num::NonZeroU32::new(ranks), ..Layout::default() };
    Query::new(machine, collective, Bytes(0), layout, Default::default()).unwrap()
}

#[test]
fn a_rule_must_promise_more_than_the_fit_leaves_open() {
    let of = |all, bulk| Margin::of(&fitted("tcp", Collective::AllReduce, 8, (all, bulk)));
    let loose = of(0.3, 0.12);
    assert_eq!(loose.off(Some(Seconds(1.0))), Ratio(0.12));
    assert_eq!(loose.off(Some(Seconds(50e-6))), Ratio(0.3));
    assert_eq!(loose.off(None), Ratio(0.3));
    assert!(loose.says().unwrap().ends_with("12 % where bytes decide, 30 % elsewhere"));
    // A fit that is better than the usual asks for no less, and no fit for more than a half.
    assert_eq!(of(0.01, 0.002).says(), None);
    assert_eq!(of(7.0, 3.0).off(Some(Seconds(1.0))), Ratio(0.5));
    // Of what nobody calibrated real times lie between half of the price and twice as much, between hosts six times.
    let unfitted = Margin::of(&query("tcp-25g", Collective::AllReduce, 8));
    let open = Ratio(1.0 - 0.5 / 6.0);
    assert_eq!((unfitted.bulk, unfitted.other), (open, open));
    let said = unfitted.says().unwrap();
    assert!(said.contains("this machine is not calibrated"), "{said}");
    assert_eq!((unfitted.least(), loose.least()), (open, LEAST_GAIN));
}

#[test]
fn answers_are_waited_for_over_tcp() {
    let waits = |query: &Query| Rendezvous::open_mpi(query).unwrap().is_some();
    assert!(waits(&fitted("tcp", Collective::AllReduce, 8, (0.05, 0.05))));
    assert!(!waits(&fitted("shm", Collective::AllReduce, 8, (0.05, 0.05))));
    // Whose profile says that its network is TCP, and whose says another, with slower exchanges or without.
    for machine in ["netns-50m", "tcp-25g", "gcp-c2d"] {
        assert!(waits(&query(machine, Collective::AllReduce, 8)), "{machine}");
    }
    for machine in ["ib-hdr", "slingshot-11"] {
        assert!(!waits(&query(machine, Collective::AllReduce, 8)), "{machine}");
    }
}

/// What compares Open MPI's algorithms over TCP on a network that was fitted as well as `errors` say, without
/// waits for answers.
fn comparing<T>(
    collective: Collective,
    ranks: u32,
    errors: (f64, f64),
    look: impl FnOnce(Compared<'_>) -> T,
) -> T {
    let (registry, policy) = (Registry::builtin(), own("openmpi@4.1"));
    let offers = |call: &Call| tune::openmpi::offers(&*policy, call);
    let query = fitted("tcp", collective, ranks, errors);
    let operation = collective.into();
    let (registry, policy, offers, query) = (&registry, &*policy, &offers, &query);
    look(Compared { registry, policy, offers, query, operation, rendezvous: None })
}

/// The plan for Open MPI over TCP on a network that was fitted as well as `errors` say.
fn over_tcp(collective: Collective, ranks: u32, errors: (f64, f64)) -> Plan {
    comparing(collective, ranks, errors, |compared| {
        let rendezvous = Rendezvous::open_mpi(compared.query).unwrap();
        Compared { rendezvous, ..compared }.plan().unwrap()
    })
}

#[test]
fn rules_over_tcp_are_those_that_won_when_they_were_measured() {
    use Collective::{AllGather, AllReduce, AllToAll, ReduceScatter};
    const KIB: u64 = 1024;
    // What the fastest algorithm was over 50 Mbit/s links, N = 6 and 8, where one was faster by more
    // than a tenth; docs/background/tuning-files.md has the times.
    let good = (0.05, 0.05);
    let pick = |collective, ranks, errors, size| {
        let plan = over_tcp(collective, ranks, errors);
        plan.pick(Bytes(size)).map(|pick| pick.name.clone().into_owned())
    };
    for (collective, ranks, size, name) in [
        (AllReduce, 6, 64 * KIB, Some("ring")),
        (AllReduce, 6, 1024 * KIB, Some("ring")),
        (AllReduce, 8, 64 * KIB, None),
        (AllReduce, 8, 256 * KIB, Some("ring")),
        (AllReduce, 8, 1024 * KIB, Some("ring")),
        (AllGather, 6, 256 * KIB / 24 * 24, Some("ring")),
        (AllGather, 6, 1024 * KIB / 24 * 24, Some("ring")),
        (AllGather, 8, 64 * KIB, None),
        (AllGather, 8, 256 * KIB, Some("ring")),
        (AllGather, 8, 1024 * KIB, Some("ring")),
        // The library halves below 256 KiB, which a call in blocks is, and goes round from there on.
        (ReduceScatter, 6, 64 * KIB / 24 * 24, Some("ring")),
        (ReduceScatter, 6, 256 * KIB / 24 * 24, Some("ring")),
        (ReduceScatter, 6, 1024 * KIB / 24 * 24, None),
        (ReduceScatter, 8, 1024 * KIB, None),
        (AllToAll, 8, 256 * KIB, None),
        (AllToAll, 8, 1024 * KIB, Some("pairwise")),
    ] {
        let picked = pick(collective, ranks, good, size);
        assert_eq!(picked.as_deref(), name, "{collective} of {size} over {ranks}");
    }
    // A fit that is off by two fifths predicts only what gains more than that.
    let bad = (0.4, 0.4);
    assert_eq!(pick(AllToAll, 8, bad, 1024 * KIB), None);
    assert_eq!(pick(AllGather, 8, bad, 256 * KIB), None);
    assert_eq!(pick(AllReduce, 6, bad, 1024 * KIB).as_deref(), Some("ring"));
}

/// A library whose own choice takes 1 s, and an offer that takes `offered` s.
fn plan_of(offered: impl Fn(u64) -> f64) -> Plan {
    let pick = tune::Pick { id: Some(3), name: "x".into(), segment: Bytes(0) };
    let point = |size: Bytes| {
        let offers = vec![(pick.clone(), Seconds(offered(size.0)))];
        Ok(Point { own: Some(Seconds(1.0)), least_gain: LEAST_GAIN, offers })
    };
    let operation = Operation::from(Collective::AllReduce);
    tune::plan(&Question { operation, ranks: 4, point: &point }).unwrap()
}

#[test]
fn a_gain_below_five_per_cent_leaves_the_library_alone() {
    assert!(!plan_of(|_| 0.951).has_rules());
    let plan = plan_of(|_| 0.949);
    assert_eq!(plan.spans.len(), 1);
    assert_eq!(plan.spans[0].from, Bytes(0));
    assert_eq!(plan.spans[0].says("predicted").unwrap(), "predicted 5 % less time");
}

#[test]
fn a_change_is_found_to_the_byte_and_kept_off_measured_sizes() {
    let from = |start: u64| {
        let plan = plan_of(|size| if size >= start { 0.5 } else { 2.0 });
        assert_eq!(plan.spans.len(), 2, "{plan:?}");
        plan.spans[1].from.0
    };
    assert_eq!(from(10_000), 10_000);
    // Calls over four ranks in blocks take up to 3 elements less than 8192 bytes, here of 16 bytes.
    assert_eq!(from(8192), 8192 - 64);
    assert_eq!(from(8190), 8192 - 64);
    // Where it costs nothing a rule starts half way.
    let soft = plan_of(|size| if size >= 8192 { 0.9 } else { 0.98 });
    assert_eq!(soft.spans[1].from.0, (8192.0 / 2.0_f64.sqrt()).round() as u64 + 1);
}

/// What races showed decides, also against the model, and only where something was raced.
#[test]
fn rules_of_races_are_those_that_won_around_their_sizes() {
    comparing(Collective::AllReduce, 6, (0.05, 0.05), |compared| {
        let at = |size: u64, factor: f64| {
            let point = compared.point(Bytes(size)).unwrap();
            let ring = point.offers.iter().find(|(pick, _)| pick.name == "ring").unwrap();
            let own = Seconds(ring.1.0 * factor);
            let winner = (factor > 1.0).then(|| ring.0.clone());
            tune::Raced { size: Bytes(size), own: Some(own), others: vec![ring.clone()], winner }
        };
        let rule =
            |plan: &Plan, size: u64| plan.pick(Bytes(size)).map(|pick| pick.name.to_string());
        let plan = compared.raced(&[at(1 << 16, 2.0), at(1 << 18, 3.0), at(1 << 20, 0.5)]).unwrap();
        let ring = Some("ring".to_owned());
        for size in [1 << 16, 100_000, 1 << 17, 1 << 18, 400_000] {
            assert_eq!(rule(&plan, size), ring, "{size}");
        }
        // Below and beyond what was raced, and from half way to where the own choice won, nothing changes.
        for size in [0, 1 << 15, 600_000, 1 << 20, 1 << 22] {
            assert_eq!(rule(&plan, size), None, "{size}");
        }
        assert!(!compared.raced(&[at(1 << 16, 1.0), at(1 << 18, 0.9)]).unwrap().has_rules());
        assert!(!compared.raced(&[]).unwrap().has_rules());
    });
}

/// Who is raced is the own choice, then what the model does not rule out, from the best on.
#[test]
fn what_is_raced_may_be_faster_than_the_own_choice() {
    comparing(Collective::Broadcast, 8, (0.05, 0.05), |compared| {
        let of = |size: u64, also: &[tune::Pick]| {
            compared.contenders(Bytes(size), &|pick| also.contains(pick)).unwrap()
        };
        let large = of(1 << 20, &[]);
        let names: Vec<_> =
            large.iter().map(|c| c.pick.as_ref().map(|p| p.name.to_string())).collect();
        assert!(names[0].is_none() && names[1].as_deref() == Some("pipeline"), "{names:?}");
        let segments = large.iter().filter_map(|c| c.pick.as_ref());
        let segments: Vec<u64> =
            segments.filter(|pick| pick.name == "pipeline").map(|pick| pick.segment.0).collect();
        let [best, half, double] = segments[..] else { panic!("{segments:?}") };
        assert_eq!((half * 2, double), (best, best * 2));
        // What is asked for is raced in any case, and once.
        let also: Vec<_> = large.iter().filter_map(|c| c.pick.clone()).collect();
        assert_eq!(of(1 << 20, &also).len(), large.len());
        assert!(of(1 << 22, &also).len() >= large.len());
    });
}

fn flat_call(ranks: u32, average: u64, total: u64, count: u64) -> mpich::Call {
    mpich::Call {
        inter: false,
        ranks,
        nodes: ranks,
        hierarchy: mpich::Hierarchy::Flat,
        consecutive: true,
        average: Bytes(average),
        total: Bytes(total),
        count,
        commutative: true,
        builtin_op: true,
        in_place: false,
        regular: true,
        threads: false,
        since_5: false,
    }
}

/// A call of the crate as MPICH sees it, one rank a node.
fn seen(call: &Call) -> mpich::Call {
    let average = if call.collective == Collective::AllToAll { call.block() } else { call.size };
    let parts = if call.flavour == Flavour::Block { u64::from(call.ranks) } else { 1 };
    flat_call(call.ranks, average.0, call.size.0, call.count() / parts)
}

fn leaf_name(tree: &mpich::Tree, collective: &str, call: &mpich::Call) -> String {
    let (leaf, _) = tree.leaf(collective, call).unwrap();
    leaf.algorithm.split("_intra_").last().unwrap().to_owned()
}

#[test]
fn the_own_tree_is_that_of_the_policy() {
    let (tree, policy) = (mpich::builtin(mpich::Version::V4_0), own("mpich@4.0"));
    for operation in tune::mpich::operations() {
        let name = mpich_name(operation);
        for ranks in 2..=20 {
            let Operation { collective, flavour } = operation;
            let call = Call { flavour, nodes: ranks, ..Call::new(collective, ranks, Bytes(0)) };
            let edges = policy.edges(&call).unwrap();
            let sizes = edges.iter().flat_map(|e| [e.0.saturating_sub(4), e.0, e.0 + 4]);
            for size in sizes.filter(|&size| size > 0).map(|size| Bytes(size / 4 * 4)) {
                let call = call.with_size(size);
                let own = policy.choose(&call).unwrap();
                assert_eq!(own.name, leaf_name(&tree, name, &seen(&call)), "{name} {ranks} {size}");
                // What is offered by a name runs as what is chosen by it.
                let offers = tune::mpich::offers(&call).unwrap();
                for same in offers.iter().filter(|offer| offer.pick.name == own.name) {
                    assert_eq!(same.choice.runs, own.runs, "{name} {ranks} {size}");
                }
            }
        }
    }
}

#[test]
fn the_own_tree_says_something_of_all_44_collectives() {
    for version in [mpich::Version::V4_0, mpich::Version::V4_1] {
        let tree = mpich::builtin(version);
        assert_eq!(tree.collectives.len(), 44);
        assert!(tree.missing().is_empty());
        let text = mpich_json(&tree);
        assert_eq!(read_mpich_json(&text, "own").unwrap(), tree);
        // Whatever the call, something runs.
        for (name, ..) in &tree.collectives {
            for bits in 0..256_u32 {
                let bit = |i: u32| bits >> i & 1 == 1;
                let size = if bit(0) { 10 } else { 1 << 20 };
                let call = mpich::Call {
                    inter: bit(1),
                    hierarchy: mpich::Hierarchy::ALL[usize::from(!bit(2))],
                    consecutive: bit(3),
                    commutative: bit(4),
                    builtin_op: bit(5),
                    in_place: bit(6),
                    regular: bit(7),
                    ..flat_call(5 + bits % 4, size, size, size / 4)
                };
                tree.leaf(name, &call).unwrap();
            }
        }
    }
    let barrier = |version| mpich_json(&mpich::builtin(version));
    assert!(barrier(mpich::Version::V4_0).contains("MPIR_Barrier_intra_dissemination"));
    assert!(
        barrier(mpich::Version::V4_1)
            .contains("\"algorithm=MPIR_Barrier_intra_k_dissemination\": {")
    );
}

#[test]
fn the_tree_says_what_the_model_chose_and_guards_the_rest() {
    let (registry, policy) = (Registry::builtin(), own("mpich@4"));
    let offers = |call: &Call| tune::mpich::offers(call);
    let builtin = mpich::builtin(mpich::Version::V4_0);
    for &ranks in RANKS {
        let mut plans = Vec::new();
        for operation in tune::mpich::operations() {
            let query = fitted("tcp", operation.collective, ranks, (0.05, 0.05));
            tune::mpich::check(&query).unwrap();
            let (registry, policy) = (&registry, &*policy);
            let rendezvous = None;
            let offers = &offers;
            let compared =
                Compared { registry, policy, offers, query: &query, operation, rendezvous };
            plans.push(compared.plan().unwrap());
        }
        let tree = tune::mpich::tree(&plans, mpich::Version::V4_0).unwrap();
        let back = read_mpich_json(&mpich_json(&tree), "tree").unwrap();
        assert_eq!(back, tree);
        assert!(back.missing().is_empty());
        for plan in &plans {
            let name = mpich_name(plan.operation);
            let Operation { collective, flavour } = plan.operation;
            for size in compared(collective, ranks) {
                let call =
                    Call { flavour, nodes: ranks, ..Call::new(collective, ranks, Bytes(size)) };
                let expected = match plan.pick(call.size) {
                    Some(pick) => pick.name.clone().into_owned(),
                    None => leaf_name(&builtin, name, &seen(&call)),
                };
                assert_eq!(leaf_name(&back, name, &seen(&call)), expected, "{name} {ranks} {size}");
                // What a rule must not see, and other communicators, go MPICH's own way.
                let guarded = [
                    mpich::Call { builtin_op: false, commutative: false, ..seen(&call) },
                    mpich::Call { ranks: ranks + 1, nodes: ranks + 1, ..seen(&call) },
                    mpich::Call { ranks: 1000, nodes: 1000, ..seen(&call) },
                ];
                for call in guarded.iter().filter(|c| c.ranks != ranks || collective.reduces()) {
                    let names = (leaf_name(&back, name, call), leaf_name(&builtin, name, call));
                    assert_eq!(names.0, names.1, "{name} {call:?}");
                }
            }
        }
    }
}

fn line() -> Line {
    Line::default()
}

fn message_rules(coll: Coll) -> impl Strategy<Value = Vec<MessageRule>> {
    let most = coll.in_numbers().len() as u32;
    let rule =
        (1..1_u64 << 40, 0..=most, 0..9_u32, 0..1_u64 << 31, proptest::option::of(0..99_u32));
    proptest::collection::vec(rule, 0..5).prop_map(|rules| {
        let mut found = vec![MessageRule::new(Bytes(0), 0, Bytes(0))];
        let mut from = 0;
        for (step, algorithm, fan, segment, requests) in rules {
            from += step;
            let rule = MessageRule::new(Bytes(from), algorithm, Bytes(segment));
            found.push(MessageRule { fan, requests, ..rule });
        }
        found
    })
}

fn openmpi_table() -> impl Strategy<Value = openmpi::Rules> {
    let ruled: Vec<Coll> = Coll::all().filter(|c| !c.algorithms().is_empty()).collect();
    let colls = proptest::sample::subsequence(ruled, 0..=4);
    colls
        .prop_flat_map(|colls| {
            let one = |coll: Coll| {
                let comm = (1..50_u32, message_rules(coll));
                proptest::collection::vec(comm, 1..4).prop_map(move |comms| {
                    let mut from = 0;
                    let comms = comms.into_iter().map(|(step, rules)| {
                        from += step;
                        CommRules { from, rules, line: line() }
                    });
                    CollectiveRules { collective: coll, comms: comms.collect(), line: line() }
                })
            };
            colls.into_iter().map(one).collect::<Vec<_>>()
        })
        .prop_map(|collectives| openmpi::Rules { collectives })
}

fn csv_rule() -> impl Strategy<Value = nccl::Rule> {
    let count = || proptest::option::of(0..1_u32 << 31);
    let counts = (count(), count(), count(), proptest::option::of(0..2_u32));
    let picks = (
        proptest::sample::select(nccl::COLLECTIVES),
        proptest::sample::select(&Algo::ALL[..]),
        proptest::sample::select(&Proto::ALL[..]),
        0..1_u32 << 31,
    );
    (any::<u64>(), any::<u64>(), picks, counts, 0..3_u8).prop_map(
        |(
            a,
            b,
            (collective, algorithm, protocol, most),
            (nodes, ranks, pipe_ops, registered),
            how,
        )| {
            let channels = match how {
                0 => nccl::Channels::One,
                1 => nccl::Channels::Own,
                _ => nccl::Channels::AtMost(most.max(1)),
            };
            nccl::Rule {
                collective,
                from: Bytes(a.min(b)),
                to: Bytes(a.max(b)),
                algorithm,
                protocol,
                channels,
                nodes,
                ranks,
                pipe_ops,
                registered,
                line: line(),
            }
        },
    )
}

proptest! {
    #[test]
    fn open_mpi_tables_come_back(table in openmpi_table()) {
        // One rule with requests makes a file of version 2, where the others have none.
        let text = openmpi_rules(&table, &["made by a test".to_owned()], &|_, _, _| None);
        prop_assert_eq!(&read_openmpi_rules(&text, "x").unwrap(), &table);
        let is = if text.starts_with("rule-file-version-2") {
            TuningFile::OpenMpiVersioned
        } else {
            TuningFile::OpenMpi
        };
        prop_assert_eq!(read_rules(&text, "x").unwrap(), is(table));
    }

    #[test]
    fn nccl_tables_come_back(rules in proptest::collection::vec(csv_rule(), 1..8)) {
        let rules = nccl::Rules { rules };
        let head = ["made by a test, with many words ".repeat(20)];
        let text = nccl_tuner_csv(&rules, &head);
        prop_assert!(text.lines().all(|line| line.len() < 255));
        prop_assert_eq!(&read_nccl_tuner_csv(&text, "x").unwrap(), &rules);
        prop_assert_eq!(read_rules(&text, "x").unwrap(), TuningFile::Nccl(rules));
    }

    #[test]
    fn nothing_that_is_read_crashes(text in "[0-9 #\n,a-z=<{}\":-]{0,200}") {
        let _ = read_rules(&text, "x");
        let _ = (read_openmpi_rules(&text, "x"), read_mpich_json(&text, "x"));
        let _ = read_nccl_tuner_csv(&text, "x");
    }
}

fn collcost(line: &str) -> Output {
    command::collcost(&line.split_whitespace().collect::<Vec<_>>())
}

#[test]
fn the_command_writes_files_that_are_read_back() {
    let rules = collcost("export openmpi-rules allreduce bcast -n 2..16 --on tcp-25g");
    assert!(rules.status.success(), "{}", text(&rules.stderr));
    let TuningFile::OpenMpi(table) = read_rules(&text(&rules.stdout), "x").unwrap() else {
        panic!()
    };
    assert!(table.collectives.len() <= 2);
    let tree = collcost("export mpich-json -n 4 -N 4 -g 1 --on netns-50m --for mpich@4.2");
    assert!(tree.status.success(), "{}", text(&tree.stderr));
    let back = read_rules(&text(&tree.stdout), "x").unwrap();
    assert!(matches!(back, TuningFile::Mpich(tree) if tree.missing().is_empty()));
    assert!(text(&tree.stderr).contains("MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE"));
    assert!(text(&tree.stdout).contains("k=2"));
    // On one node long broadcasts are not in shared memory (v4.0.3 to v5.0.0 `ch4/generic.json`: gamma).
    let node = collcost("export mpich-json bcast reduce -n 8 -N 1 -g 8 --on gcp-c2d");
    let said = text(&node.stderr);
    assert!(said.contains("machine gcp-c2d, communicators of 8 ranks"), "{said}");
    assert!(said.contains("reduce of 8 ranks on one node: in shared memory"), "{said}");
    assert!(!said.contains("bcast of 8 ranks"), "{said}");
    // On a network alone every rank has a node of its own.
    let plain = collcost("export mpich-json -n 4 --on netns-50m --for mpich@4.2");
    assert_eq!(text(&plain.stdout), text(&tree.stdout));
    // Names of policies, and short ones, are their newest release.
    for (name, version) in [("mpich@4", "mpich 4.3"), ("mpich", "mpich 5.0")] {
        let own = collcost(&format!("export mpich-json -n 4 --on netns-50m --for {name}"));
        assert!(text(&own.stderr).contains(&format!(" for {version}")), "{}", text(&own.stderr));
    }
    for name in ["openmpi", "openmpi@5"] {
        let own =
            collcost(&format!("export openmpi-rules allreduce -n 4 --on tcp-25g --for {name}"));
        assert!(text(&own.stdout).contains(" for openmpi 5.0"), "{}", text(&own.stderr));
    }
}

#[test]
fn a_rank_alone_gets_no_rules() {
    for format in ["openmpi-rules", "mpich-json"] {
        let ask = |n: &str| collcost(&format!("export {format} -n {n} --on netns-50m"));
        let alone = ask("1");
        let said = text(&alone.stderr);
        assert_eq!((alone.status.code(), alone.stdout.len()), (Some(2), 0), "{said}");
        assert!(said.contains("-n 1") && said.contains("give more ranks"), "{said}");
        assert_eq!(text(&ask("1,4").stdout), text(&ask("4").stdout), "{format}");
    }
}

/// The line that loads a file is one for a shell.
#[test]
fn a_file_is_loaded_by_its_whole_name() {
    let folder = tempfile::tempdir().unwrap();
    let head = |format: &str, file: &str| {
        let path = folder.path().join(file);
        let path = path.to_str().unwrap();
        let words = ["export", format, "-n", "16", "-N", "2", "-g", "8", "--on", "dgx-h100"];
        let output = command::collcost(&[&words[..], &["-o", path]].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        (path.to_owned(), std::fs::read_to_string(path).unwrap())
    };
    let (path, csv) = head("nccl-tuner-csv", "it's  two.csv");
    let quoted = format!("NCCL_TUNER_CONFIG_FILE='{}'\n", path.replace('\'', "'\\''"));
    assert!(csv.contains(&quoted), "{csv}");
    let (_, csv) = head("nccl-tuner-csv", &"x".repeat(200));
    assert!(csv.contains("NCCL_TUNER_CONFIG_FILE=THIS_FILE\n"), "{csv}");
    assert!(csv.lines().all(|line| line.len() < 250), "{csv}");
    let (path, rules) = head("openmpi-rules", "a b.conf");
    assert!(rules.contains(&format!("coll_tuned_dynamic_rules_filename '{path}'")), "{rules}");
    let (path, rules) = head("openmpi-rules", "plain.conf");
    assert!(rules.contains(&format!("coll_tuned_dynamic_rules_filename {path}\n")), "{rules}");
}

#[test]
fn nccl_gets_a_line_for_every_call() {
    let csv = collcost("export nccl-tuner-csv --comm dgx_h100_8x400g.p8.n2 --on dgx-h100");
    assert!(csv.status.success(), "{}", text(&csv.stderr));
    let TuningFile::Nccl(rules) = read_rules(&text(&csv.stdout), "x").unwrap() else { panic!() };
    let by_machine = collcost("export nccl-tuner-csv -n 16 --on dgx-h100");
    assert_eq!(text(&by_machine.stdout), text(&csv.stdout));
    for &collective in nccl::COLLECTIVES {
        for size in (0..64).map(|power| 1_u64 << power).chain([0, u64::MAX]) {
            for (nodes, ranks) in [(2, 16), (1, 8), (7, 50)] {
                let (size, pipe_ops, registered) = (Bytes(size), 1, false);
                let call = nccl::Call { collective, size, nodes, ranks, pipe_ops, registered };
                let first = rules.fitting(call).next().expect("a line");
                assert_eq!(first.channels, nccl::Channels::Own);
                assert_eq!(first.ranks.is_some(), (nodes, ranks) != (7, 50));
            }
        }
    }
}

/// What the plugin makes of a table for a call: the first line that fits and is considered.
fn planned(
    rules: &nccl::Rules,
    (own, chooser): (&Own, &Chooser),
    collective: Collective,
    size: Bytes,
) -> (Algo, Proto) {
    let (nodes, ranks) = (own.comm.nodes, own.comm.ranks);
    let call = nccl::Call { collective, size, nodes, ranks, pipe_ops: 1, registered: false };
    let function = Function::of(collective).unwrap();
    let considered =
        |rule: &&nccl::Rule| chooser.considers(function, rule.algorithm, rule.protocol);
    let rule = rules.fitting(call).find(considered).expect("a line");
    (rule.algorithm, rule.protocol)
}

/// The communicators of the newest release, and a part of those of others; all in `.ci/full`.
fn communicators() -> Vec<(Place<'static>, Version)> {
    let of = |version, nodes: &[u32]| {
        let machines = collcost::library::nccl::machines().into_iter();
        let places = machines.flat_map(|machine| {
            let each = move |&nodes: &u32| {
                let search = Some(version);
                (1..=8).map(move |per_node| (Place { machine, per_node, nodes, search }, version))
            };
            nodes.iter().flat_map(each).collect::<Vec<_>>()
        });
        let known = |(p, _): &(Place<'_>, _)| p.nodes * p.per_node > 1 && p.is_listed();
        places.filter(known).collect::<Vec<_>>()
    };
    let newest = of(Version::NEWEST, &[1, 2, 4, 32]);
    let others = Version::ALL.into_iter().filter(|&v| v != Version::NEWEST);
    let others = others.flat_map(|version| of(version, &[1, 2])).step_by(one_in(87));
    newest.into_iter().step_by(one_in(5)).chain(others).collect()
}

#[test]
fn no_line_costs_more_than_nccls_own_choice_by_its_own_table() {
    let mut calls = 0;
    for (place, version) in communicators() {
        let table = tune::nccl::table(&place, version, &[]).unwrap();
        let read = read_nccl_tuner_csv(&nccl_tuner_csv(&table, &[]), "x").unwrap();
        assert_eq!(read, table);
        let smaller = Place { nodes: place.nodes.div_ceil(2), ..place };
        for place in [place, smaller] {
            // Those that were never searched have rings.
            let known = place.is_listed();
            let Some(own) = Own::new(&place, version).ok().filter(|_| known) else {
                continue;
            };
            if own.comm.ranks == 1 {
                continue;
            }
            for (&collective, what) in
                nccl::COLLECTIVES.iter().flat_map(|c| [(c, "sums"), (c, "averages")])
            {
                let chooser = if what == "sums" { &own.chooser } else { &own.scaled };
                for size in (0..40).map(|power| Bytes(1 << power)) {
                    let (algo, proto) = planned(&read, (&own, chooser), collective, size);
                    let function = Function::of(collective).unwrap();
                    let call = collcost::library::nccl::Call { function, size, pipelined: 1 };
                    let ranked = chooser.ranked(&call);
                    let Some(decided) = chooser.decide(&call) else { continue };
                    let is = |r: &&(Algo, Proto, _)| (r.0, r.1) == (algo, proto);
                    let said = format!("{place} {version} {collective} {size} {what}");
                    let planned = ranked.iter().find(is).expect(&said).2;
                    let own = decided.time.expect(&said);
                    assert!(planned.0 <= 1.05 * own.0, "{said}: {algo}/{proto}");
                    calls += 1;
                }
            }
        }
    }
    assert!(calls > 200_000 / one_in(10), "{calls}");
}

const PLACE: &str = "dgx_h100_8x400g.p8.n2";

fn two_nodes() -> Own {
    Own::new(&Place::named(PLACE).unwrap(), Version::NEWEST).unwrap()
}

/// What all_reduce_perf prints: sizes with the times out of place and in place, in µs.
fn log_of(rows: &[(u64, f64, f64)]) -> String {
    let mut log = "# Collective test starting: all_reduce_perf\n\
        # nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1\n\
        #  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong\n\
        #   (B)  (elements)                (us) (GB/s) (GB/s)         (us) (GB/s) (GB/s)\n"
        .to_owned();
    for &(size, out_of_place, in_place) in rows {
        let place = |time: f64| {
            let algbw = size as f64 / time / 1e3;
            format!("{time:.2} {algbw:.2} {:.2} 0", algbw * 2.0 * 15.0 / 16.0)
        };
        let (out_of_place, in_place) = (place(out_of_place), place(in_place));
        let count = size / 4;
        log += &format!("{size} {count} float sum -1 {out_of_place} {in_place}\n");
    }
    log + "# Avg bus bandwidth    : 61.0173\n"
}

/// What is departed from where NCCL's own choice and Ring/LL128 took so long.
fn departures(own: &[(u64, f64, f64)], ring: &[(u64, f64, f64)]) -> Vec<Departure> {
    let nccl = two_nodes();
    let mut evidence = Evidence::new(&nccl);
    for (said, rows) in [("own", own), ("Ring/LL128", ring)] {
        let settings = tune::ran::said(said).unwrap();
        let log = (&*log_of(rows), said);
        tune::ran::take(&mut evidence, &nccl, log, Some(&settings), &|_| true).unwrap();
    }
    evidence.departures()
}

const MIB: u64 = 1 << 20;

#[test]
fn a_line_departs_only_where_logs_surely_show_a_gain() {
    let departs = |own: (f64, f64), ring: (f64, f64)| {
        let found = departures(&[(MIB, own.0, own.1)], &[(MIB, ring.0, ring.1)]);
        assert!(found.len() < 2);
        !found.is_empty()
    };
    // 14 %, however sure.
    assert!(!departs((100.0, 100.2), (86.1, 86.1)));
    // 20 %, but times vary so much that both may be the same.
    assert!(!departs((90.0, 110.0), (72.0, 88.0)));
    assert!(departs((100.0, 101.0), (80.0, 81.0)));
    // What is slower, or as fast, stays.
    assert!(!departs((100.0, 101.0), (100.0, 101.0)));
    assert!(!departs((80.0, 81.0), (100.0, 101.0)));
}

#[test]
fn one_number_leaves_more_open_than_several() {
    let nccl = two_nodes();
    let own = nccl.at(Function::AllReduce, Bytes(MIB)).unwrap();
    let departs = |ring: f64, dtype: Option<DataType>, size: u64| {
        let mut evidence = Evidence::new(&nccl);
        let times = [(own, 100.0, None), ((Algo::Ring, Proto::Ll128), ring, dtype)];
        for (cell, time, dtype) in times {
            let (mode, file) = (Mode::Stream, "x".to_owned());
            let (size, time) =
                (if dtype.is_some() { Bytes(size) } else { Bytes(MIB) }, Seconds(time));
            let collective = Collective::AllReduce;
            evidence.take(Timed { collective, size, dtype, mode, cell, time, file });
        }
        !evidence.departures().is_empty()
    };
    assert!(!departs(80.0, None, MIB));
    assert!(departs(75.0, None, MIB));
    // Times of another type, or size, are of another call.
    assert!(!departs(75.0, Some(DataType::F16), MIB));
    assert!(!departs(75.0, Some(DataType::F32), MIB / 2));
}

#[test]
fn a_measured_size_speaks_for_its_octave_and_no_more() {
    // NCCL itself takes one thing from 256 KiB to 2 MiB.
    let nccl = two_nodes();
    let own = nccl.ranges(Function::AllReduce);
    let range = own.iter().find(|r| (r.from..=r.to).contains(&Bytes(MIB))).unwrap();
    assert!(range.from < Bytes(MIB / 2) && range.to < Bytes(2 * MIB), "{range:?}");
    let rows = |sizes: &[u64], time: f64| -> Vec<(u64, f64, f64)> {
        sizes.iter().map(|&size| (size, time, time + 1.0)).collect()
    };
    let spans = |slow: &[u64], fast: &[(u64, f64, f64)]| -> Vec<(u64, u64)> {
        let found = departures(&rows(slow, 100.0), fast);
        found.iter().map(|d| (d.from.0, d.to.0)).collect()
    };
    let root = 2.0_f64.sqrt();
    let (half, up) = ((MIB as f64 / root).ceil() as u64, (MIB as f64 * root).ceil() as u64);
    assert_eq!(spans(&[MIB], &rows(&[MIB], 50.0)), [(half, up - 1)]);
    // Neighbours join.
    let both = [MIB / 2, MIB];
    let (joined, alone) = (spans(&both, &rows(&both, 50.0)), (half.div_ceil(2), up - 1));
    assert_eq!(joined, [alone]);
    // Half way to a size where nothing is gained.
    let mixed = [(MIB, 50.0, 51.0), (MIB * 5 / 4, 100.0, 101.0)];
    let near = (MIB as f64 * (MIB * 5 / 4) as f64).sqrt().ceil() as u64 - 1;
    assert_eq!(spans(&[MIB, MIB * 5 / 4], &mixed), [(half, near)]);
    // From where NCCL itself takes something else nothing is known.
    let last = range.to.0 / 4 * 4;
    assert_eq!(spans(&[last], &rows(&[last], 50.0))[0].1, range.to.0);
}

#[test]
fn what_ran_is_what_nccl_says_or_is_told() {
    let nccl = two_nodes();
    let take = |text: &str| {
        let mut evidence = Evidence::new(&nccl);
        let taken = tune::ran::take(&mut evidence, &nccl, (text, "x.log"), None, &|_| true);
        taken.map(|()| evidence)
    };
    let log = log_of(&[(MIB, 100.0, 101.0)]);
    let silent = take(&log).err().unwrap().to_string();
    assert!(silent.contains("--log own=x.log"), "{silent}");
    let other = take(&format!("NCCL version 2.21.5+cuda12.4\n{log}")).err().unwrap().to_string();
    assert!(other.contains("does not show which algorithm ran"), "{other}");
    let line = "node1:1:1 [0] NCCL INFO ";
    let forced = format!("{line}NCCL_ALGO set by environment to Ring\n");
    let old = take(&format!("NCCL version 2.21.5+cuda12.4\n{forced}{log}")).err().unwrap();
    assert!(old.to_string().contains("it is of NCCL 2.21.5, but the file is for"), "{old}");
    let ring = take(&format!("{forced}{log}")).unwrap();
    assert_eq!(ring.counts(), (0, 1));
    let own = nccl.at(Function::AllReduce, Bytes(MIB)).unwrap();
    let said = |(algo, proto): (Algo, Proto)| {
        let (algo, proto) = (algo.upper(), proto.name());
        format!(
            "{line}AllReduce: 1048576 Bytes -> Algo {algo} proto {proto} channel{{Lo..Hi}}={{0..7}}\n"
        )
    };
    // Lines of what was chosen count before what was asked for.
    let both = said(own) + &forced + &log + &said(own);
    assert_eq!(take(&both).unwrap().counts(), (0, 1));
    // Lines that contradict each other say nothing.
    let torn = said(own) + &said((Algo::Ring, Proto::Ll)) + &log;
    assert!(take(&torn).is_err());
    for (words, help) in [("Rings", "did you mean `Ring`?"), ("Ring/LL256", "LL128")] {
        assert!(tune::ran::said(words).unwrap_err().to_string().contains(help), "{words}");
    }
}

#[test]
fn the_command_writes_what_logs_show() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("tuner-logs");
    std::fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, rows: &[(u64, f64, f64)]| {
        let file = folder.join(name);
        std::fs::write(&file, log_of(rows)).unwrap();
        file.display().to_string()
    };
    let own = write("own.log", &[(MIB, 100.0, 101.0), (4 * MIB, 200.0, 201.0)]);
    let ring = write("ring.log", &[(MIB, 50.0, 51.0), (4 * MIB, 190.0, 191.0)]);
    let ask = format!("export nccl-tuner-csv --comm {PLACE} --log own={own}");
    let with = collcost(&format!("{ask} --log Ring/LL128={ring}"));
    assert!(with.status.success(), "{}", text(&with.stderr));
    let said = text(&with.stdout);
    let head = "lines differ from NCCL's own choice at 1 of 2 compared sizes";
    assert!(said.contains(head), "{said}");
    let shown = "1 MiB: ring/ll128 50.5 µs (48.54 µs to 52.53 µs) for tree/ll128's 100.5 µs (";
    assert!(said.contains(shown), "{said}");
    let TuningFile::Nccl(rules) = read_rules(&said, "x").unwrap() else { panic!() };
    let nccl = two_nodes();
    for size in (0..40).map(|power| Bytes(1 << power)) {
        let ran = planned(&rules, (&nccl, &nccl.chooser), Collective::AllReduce, size);
        let expected = match size.0 {
            MIB => (Algo::Ring, Proto::Ll128),
            _ => nccl.at(Function::AllReduce, size).unwrap(),
        };
        assert_eq!(ran, expected, "{size}");
    }
    // One of both logs alone shows nothing.
    let alone = collcost(&ask);
    assert!(text(&alone.stdout).contains("at 0 of 0 compared sizes"), "{}", text(&alone.stdout));
    assert!(text(&alone.stderr).contains("2 measured sizes are not used"));
}

/// What NVIDIA's plugin was configured with for `nccl_tuner_plugin.csv.gz`.
const PLUGIN: &str = "\
allreduce,0,65536,tree,simple,2,1,-1,-1,1
allreduce,0,65536,ring,ll,-1,1,8

allreduce,65537,1048576,ring,simple,4,4,32,1,0
 allreduce , 65537 , 1048576 , tree , ll128 , 6 , -1 , -1
allreduce,1048577,4294967295,ring,ll128,-1,-1,-1,4,-1
allreduce,1048577,4294967295,nvls_tree,simple,8,2,-1,1
broadcast,0,32768,tree,simple,-1,1,-1,-1,1
broadcast,0,4294967295,ring,simple,2,-1,-1
allgather,262144,4294967295,pat,simple,3,-1,-1
allgather,262144,4294967295,ring,ll128,5,-1,-1
reducescatter,0,1048576,nvls,simple,-1,1,8,-1,-1
reduce,0,99999999999,ring,ll,1,2
";

/// NVIDIA's example plugin, compiled and asked over the cost tables of NCCL 2.30.7: which line it
/// took, and how many channels it left. The last line above has seven fields, and is dropped.
#[test]
fn lines_decide_as_in_the_plugin() {
    let short = read_nccl_tuner_csv(PLUGIN, "plugin.conf").unwrap_err().to_string();
    assert!(short.starts_with("a rule has 8 to 10 fields, not 7\n  plugin.conf:13\n"), "{short}");
    let whole = PLUGIN.rsplit_once("reduce,").unwrap().0;
    let rules = read_nccl_tuner_csv(whole, "plugin.conf").unwrap();
    let data = include_bytes!("../data/nccl_tuner_plugin.csv.gz");
    let mut rows = csv::Reader::from_reader(flate2::read::GzDecoder::new(&data[..]));
    let (mut ruled, mut all) = (0, 0);
    for row in rows.deserialize() {
        type Row = (String, u32, u8, String, u64, String, String, u32, u8);
        let (id, pipe_ops, registered, name, bytes, algo, proto, channels, taken): Row =
            row.unwrap();
        // Only some of these communicators are among the machines that are known here.
        let Ok(place) = Place::named(&id) else { continue };
        let Ok(comm) = place.communicator() else { continue };
        let table = Table::new(&comm, Version::NEWEST, &Settings::default()).unwrap();
        let chooser = Chooser::new(&comm, Version::NEWEST, &table, Reduction::default());
        let collective = name.parse().unwrap();
        let function = Function::of(collective).unwrap();
        let call = nccl::Call {
            collective,
            size: Bytes(bytes),
            nodes: place.nodes,
            ranks: place.nodes * place.per_node,
            pipe_ops,
            registered: registered == 1,
        };
        let cell = |rule: &nccl::Rule| {
            let named = (Algo::named(rule.algorithm.lower()), Proto::named(rule.protocol.lower()));
            (named.0.unwrap(), named.1.unwrap())
        };
        let considered = |rule: &&nccl::Rule| {
            let (algo, proto) = cell(rule);
            chooser.considers(function, algo, proto)
        };
        let said = format!("{id} {name} {bytes} {pipe_ops} {registered}");
        let expected = (Algo::named(&algo).unwrap(), Proto::named(&proto).unwrap());
        match rules.fitting(call).find(considered) {
            Some(rule) => {
                ruled += 1;
                assert_eq!((cell(rule), taken), (expected, 1), "{said}");
                let left = match rule.channels {
                    nccl::Channels::AtMost(most) => most,
                    nccl::Channels::One => 1,
                    nccl::Channels::Own => panic!("{said}"),
                };
                assert_eq!(channels, left, "{said}");
            }
            // One channel, although nothing was said of it.
            None => assert_eq!((taken, channels), (0, 1), "{said}"),
        }
        all += 1;
    }
    assert!(all > 1000 && ruled > 300, "{ruled} of {all}");
}

#[test]
fn what_cannot_be_written_says_why() {
    for (line, parts) in [
        ("export openmpi-rules -n 4 --for openmpi@6.0", &["openmpi@6.0", "openmpi@4.1"][..]),
        ("export openmpi-rules sendrecv -n 4", &["no rules for send/recv", "allreduce"]),
        ("export openmpi-rules -n 4 --size 1M", &["--size 1M", "leave out --size"]),
        ("export openmpi-rules -n 4 --comm x", &["--comm x", "leave out --comm"]),
        ("export openmpi-rules -n 4 --log x", &["--log x", "leave out --log"]),
        ("export msccl allreduce ring -n 4 --log x", &["--log x", "leave out --log"]),
        ("export nccl-tuner-csv -n 16 --on dgx-h100 --log x", &["cannot be read", "x"]),
        ("export nccl-tuner-csv -n 16 --on dgx-h100 --log Rings=x", &["--log Rings=x", "`Ring`"]),
        (
            "export nccl-tuner-csv -n 16 --on dgx-h100 --log own=tests/data/logs/all_reduce.txt",
            &["the log has 8 ranks", "not 16"],
        ),
        ("export mpich-json -n 16 --on dgx-h100", &["2 nodes x 8 ranks", "--gpus-per-node 1"]),
        ("export nccl-tuner-csv -n 4 --on tcp-25g", &["which communicator?", "--comm"]),
        ("export nccl-tuner-csv --comm dgx_h100", &["not a communicator", "dgx_h100_8x400g.p8.n2"]),
        (
            "export nccl-tuner-csv --comm dgx_h100_8x400g.p8.n2 -n 4",
            &["the communicator already sets", "leave out --n"],
        ),
        ("export msccl", &["which collective?"]),
        ("export opnmpi-rules", &["did you mean `openmpi-rules`?"]),
    ] {
        let refused = collcost(line);
        assert_eq!(refused.status.code(), Some(2), "{line}");
        let said = text(&refused.stderr);
        for part in parts {
            assert!(said.contains(part), "{line}: {part}\n{said}");
        }
        assert!(refused.stdout.is_empty(), "{line}");
    }
}

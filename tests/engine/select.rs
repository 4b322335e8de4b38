//! Policies choose what the libraries choose: against copies of their tables, examples worked by
//! hand from their sources, and every size looked at by itself.

use collcost::Collective as C;
use collcost::answer::cost;
use collcost::answer::select::select;
use collcost::base::dtype::DataType;
use collcost::base::error::Error;
use collcost::base::quantity::{Bandwidth, Bytes, Seconds};
use collcost::cost::bound::bound;
use collcost::cost::price::uses;
use collcost::library::engines::Conditions;
use collcost::library::tuning_file::read_rules;
use collcost::library::{
    Call, Choice, Entry, Flavour, Operation, POLICIES, Policy, Runs, Site, intervals, of_file,
    policy, priced,
};
use collcost::machine::fabric::{Fabric, Tier};
use collcost::machine::profile::Profile;
use collcost::machine::query::{Given, Layout, Machine, Query};
use collcost::model::algorithm::Registry;
use collcost::model::formula::{Params, Shape};
use proptest::prelude::*;
use std::num::NonZeroU32;

use crate::command::collcost;

fn site() -> Site {
    let fabric = Fabric::flat(Seconds(1e-6), Bandwidth(1e10));
    Site {
        machine: "dgx-h100".into(),
        nccl_graphs: Some("dgx_h100_8x400g".into()),
        ranks: 16,
        nodes: 2,
        fabric: Some(fabric),
        ..Site::default()
    }
}

fn named(name: &str) -> Box<dyn Policy> {
    policy(name, &site()).unwrap()
}

fn choose(name: &str, call: &Call) -> Choice {
    named(name).choose(call).unwrap()
}

fn chars(collective: C, ranks: u32, size: u64) -> Call {
    Call { element: Bytes(1), ..Call::new(collective, ranks, Bytes(size)) }
}

// Open MPI: every row of the table, at every boundary.

const TABLE: &str = include_str!("../data/openmpi_tuned_4_1.tsv");

struct Row<'a> {
    operation: &'a str,
    kind: &'a str,
    ranks_below: Option<u64>,
    pairs: Vec<(Option<u64>, u32)>,
}

fn limit(text: &str) -> Option<u64> {
    (text != "-").then(|| text.parse().unwrap())
}

fn lines() -> impl Iterator<Item = Vec<&'static str>> {
    TABLE.lines().filter(|l| !l.starts_with('#')).map(|l| l.split('\t').collect())
}

fn rows() -> Vec<Row<'static>> {
    let pair = |p: &str| {
        let (below, id) = p.split_once(':').unwrap();
        (limit(below), id.parse().unwrap())
    };
    lines()
        .filter(|cells| cells[1] != "names")
        .map(|cells| Row {
            operation: cells[0],
            kind: cells[1],
            ranks_below: limit(cells[2]),
            pairs: cells[3].split(' ').map(pair).collect(),
        })
        .collect()
}

fn name_of(operation: &str, id: u32) -> &'static str {
    let names = lines().find(|c| c[0] == operation && c[1] == "names").unwrap()[3];
    let id = format!("{id}:");
    names.split(' ').find_map(|n| n.strip_prefix(&*id)).unwrap()
}

/// What the rules named, whatever ran instead.
fn decided(choice: &Choice) -> String {
    choice.fell_back.first().map_or(choice.name.to_string(), |f| f.from.to_string())
}

/// M for the bytes that the library's rules count.
fn size_of(operation: Operation, bytes: u64, ranks: u64) -> u64 {
    match (operation.collective, operation.flavour) {
        (C::AllReduce | C::Broadcast | C::Reduce | C::Barrier, _) => bytes,
        (C::ReduceScatter, Flavour::Plain) => bytes,
        _ => bytes * ranks,
    }
}

#[test]
fn open_mpi_decides_as_its_table_says_at_every_boundary() {
    let rows = rows();
    let mut checked = 0;
    for version in ["openmpi@4.1", "openmpi@5.0"] {
        let policy = named(version);
        for (i, row) in rows.iter().enumerate() {
            let before = i.checked_sub(1).map(|i| &rows[i]);
            let same = before.filter(|b| (b.operation, b.kind) == (row.operation, row.kind));
            let first = same.and_then(|b| b.ranks_below).unwrap_or(2).max(2);
            let last = row.ranks_below.map_or(1 << 20, |below| below - 1);
            let operation: Operation = row.operation.parse().unwrap();
            let sides: &[bool] = match row.kind {
                "any" => &[true, false],
                "commutative" => &[true],
                _ => &[false],
            };
            for ranks in [first, first + (last - first) / 2, last] {
                let mut sizes = vec![0, 1 << 33];
                let edges = row.pairs.iter().filter_map(|(below, _)| *below);
                sizes.extend(edges.flat_map(|edge| [edge - 1, edge, edge + 1]));
                for (bytes, &commutative) in
                    sizes.iter().flat_map(|b| sides.iter().map(move |s| (*b, s)))
                {
                    let holds = |(below, _): &&(Option<u64>, u32)| below.is_none_or(|b| bytes < b);
                    let expected = name_of(row.operation, row.pairs.iter().find(holds).unwrap().1);
                    let size = size_of(operation, bytes, ranks);
                    let call = Call {
                        flavour: operation.flavour,
                        commutative,
                        ..chars(operation.collective, ranks as u32, size)
                    };
                    let choice = policy.choose(&call).unwrap();
                    assert_eq!(decided(&choice), expected, "{call:?}");
                    checked += 1;
                }
            }
        }
    }
    assert!(checked > 5000, "{checked}");
}

// Fall-backs: ompi/mca/coll/base/coll_base_*.c of v4.1.6.

#[test]
fn open_mpi_turns_away_from_rabenseifner_with_few_elements() {
    // open-mpi/ompi issue 12550: 65536 ranks, 32 KiB of MPI_CHAR.
    let choice = choose("openmpi@4.1", &chars(C::AllReduce, 65_536, 32_768));
    assert_eq!((&*choice.name, choice.id), ("basic_linear", Some(1)));
    assert_eq!(choice.fell_back[0].from, "rabenseifner");
    assert_eq!(choice.runs, Runs::whole(C::AllReduce, 65_536, "naive"));
    let enough = choose("openmpi@4.1", &chars(C::AllReduce, 65_536, 65_536));
    assert_eq!((&*enough.name, enough.fell_back.len()), ("rabenseifner", 0));
}

#[test]
fn open_mpi_turns_twice_where_a_ring_has_fewer_elements_than_ranks() {
    // 20 ranks, 16 bytes: segmented ring, ring, recursive doubling.
    let choice = choose("openmpi@4.1", &chars(C::AllReduce, 20, 16));
    assert_eq!(choice.name, "recursive_doubling");
    let from: Vec<_> = choice.fell_back.iter().map(|f| &*f.from).collect();
    assert_eq!(from, ["segmented_ring", "ring"]);
    // Without segments the segmented ring is always the ring.
    let choice = choose("openmpi@4.1", &chars(C::AllReduce, 20, 40));
    assert_eq!(choice.name, "ring");
    assert_eq!(choice.fell_back.len(), 1);
}

#[test]
fn open_mpi_turns_away_where_ranks_do_not_fit() {
    let gather =
        |n: u32, block: u64| choose("openmpi@4.1", &chars(C::AllGather, n, block * u64::from(n)));
    assert_eq!(gather(6, 100).name, "bruck");
    assert_eq!(gather(8, 100).name, "recursive_doubling");
    assert_eq!(gather(33, 2000).name, "ring");
    assert_eq!(gather(34, 2000).name, "neighbor");
    // Scatter and all-gather of fewer elements than ranks: the basic linear broadcast.
    let call = Call { element: Bytes(1 << 20), ..chars(C::Broadcast, 20, 8 << 20) };
    assert_eq!(choose("openmpi@4.1", &call).name, "basic_linear");
}

#[test]
fn open_mpi_decides_the_halves_of_a_nonoverlapping_all_reduce_by_themselves() {
    let choice = choose("openmpi@4.1", &chars(C::AllReduce, 200, 65_536));
    assert_eq!(choice.name, "nonoverlapping");
    let Runs::Parts(parts) = &choice.runs else { panic!("{choice:?}") };
    let ids: Vec<_> = parts.iter().map(|p| (p.collective, p.algorithm)).collect();
    assert_eq!(ids, [(C::Reduce, "in-order-binomial"), (C::Broadcast, "in-order-knomial")]);
}

/// Of trees whose subtrees are ranges of ranks one message at most leaves a node at once: 128 ranks,
/// 32 on each of four nodes.
#[test]
fn few_messages_of_a_tree_leave_a_node_of_neighbours() {
    let machine = |collective| {
        let named = Some((Profile::builtin("ib-hdr").unwrap(), "--on"));
        Machine::new(named, &Given::default(), collective).unwrap()
    };
    let between = |collective, name: &str| {
        let nodes = NonZeroU32::new(128).zip(NonZeroU32::new(32));
        let layout =
            Layout { ranks: nodes.map(|n| n.0), per_node: nodes.map(|n| n.1), ..Layout::default() };
        let params = Params::default();
        let query = Query::new(machine(collective), collective, Bytes(1 << 20), layout, params);
        let query = query.unwrap();
        let algorithm = Registry::builtin().find(collective, name).unwrap().algorithm;
        let uses = uses(algorithm, &query.shape, &query.machine.fabric).unwrap();
        uses.last().unwrap().share.0
    };
    // To 64, 32 and 48 (64 + 32 goes beside the last); 64 and 32 in halves.
    assert_eq!(between(C::Broadcast, "in-order-knomial"), 3.0);
    assert_eq!(between(C::Reduce, "in-order-binomial"), 2.0);
    assert_eq!(between(C::Scatter, "binomial"), 0.5 + 0.25);
    // Open MPI's other binomial tree: all 32 ranks of a node, and then of two.
    assert_eq!(between(C::Broadcast, "binomial"), 64.0);
}

#[test]
fn open_mpi_5_says_that_han_stands_before_it() {
    let call = Call { nodes: 8, ..chars(C::AllReduce, 64, 1024) };
    let notes = |name| choose(name, &call).notes.concat();
    assert!(notes("openmpi@5.0").contains("coll/han"));
    assert!(!notes("openmpi@4.1").contains("coll/han"));
    // v5.0.9, ompi/mca/coll/han/coll_han_module.c: what han leaves to tuned.
    for operation in ["alltoall", "alltoallv", "allgatherv", "reducescatter", "reducescatter-block"]
    {
        let Operation { collective, flavour } = operation.parse().unwrap();
        let call = Call { collective, flavour, ..call };
        assert!(!choose("openmpi@5.0", &call).notes.concat().contains("coll/han"), "{operation}");
    }
    // coll_han_allreduce.c and coll_han_reduce.c fall back for these.
    for collective in [C::AllReduce, C::Reduce] {
        let call = Call { collective, commutative: false, builtin_op: false, ..call };
        assert!(!choose("openmpi@5.0", &call).notes.concat().contains("coll/han"), "{collective}");
    }
    // are_ppn_imbalanced: in all but all-reduce and barrier.
    for (collective, splits) in
        [(C::AllReduce, true), (C::Reduce, false), (C::Broadcast, false), (C::AllGather, false)]
    {
        let call = Call { collective, nodes: 4, ranks: 7, ..call };
        let choice = choose("openmpi@5.0", &call);
        assert_eq!(choice.notes.concat().contains("coll/han"), splits, "{collective}");
        let alone = choice.force.iter().all(|line| line.ends_with("--mca coll_han_priority 0"));
        assert_eq!(alone, splits, "{choice:?}");
    }
}

/// coll_tuned_allgather_decision.c of v5.0.9; v4.1.8 ends with `two_proc`.
#[test]
fn a_rules_file_may_name_what_later_releases_have() {
    let choice = |file_of: &str, collective| {
        let call = chars(collective, 8, 1 << 20);
        file(file_of).choose(&call).map(|choice| (choice.name.into_owned(), choice.runs))
    };
    let (name, runs) =
        choice("rule-file-version-1\n1\n0\n1\n2\n1\n0 7 0 0\n", C::AllGather).unwrap();
    assert!(name == "sparbit" && matches!(runs, Runs::Parts(_)), "{runs:?}");
    // Without a version it is taken as a file for 4.1.
    let error = choice("1\n0\n1\n2\n1\n0 7 0 0\n", C::AllGather).unwrap_err().to_string();
    assert!(
        error.contains("rules:6") && error.contains("no algorithm 7 in Open MPI 4.1"),
        "{error}"
    );
    let vector = Call { flavour: Flavour::Vector, ..chars(C::AllGather, 8, 1 << 20) };
    let versioned = file("rule-file-version-1\n1\n1\n1\n2\n1\n0 6 0 0\n");
    assert_eq!(versioned.choose(&vector).unwrap().name, "sparbit");
    assert!(file("1\n1\n1\n2\n1\n0 6 0 0\n").choose(&vector).is_err());
    assert!(policy("openmpi@4.1", &site()).unwrap().force(&vector, "sparbit").is_err());
    assert!(policy("openmpi@5.0", &site()).unwrap().force(&vector, "sparbit").is_ok());
    // 6.0, which has these, reads JSON.
    for text in
        ["1\n0\n1\n2\n1\n0 8 0 0\n", "1\n11\n1\n2\n1\n0 8 0 0\n", "1\n2\n1\n2\n1\n0 7 0 0\n"]
    {
        assert!(read_rules(text, "rules").is_err(), "{text}");
    }
    // 4.1 cannot be told to run them.
    let call = chars(C::AllGather, 8, 1 << 20);
    assert!(policy("openmpi@4.1", &site()).unwrap().force(&call, "sparbit").is_err());
    assert!(policy("openmpi@5.0", &site()).unwrap().force(&call, "sparbit").is_ok());
}

#[test]
fn what_an_expectation_does_not_count_is_on_the_first_screen() {
    let trust = |name, collective, ranks, per_node| {
        let named = Some((Profile::builtin(name).unwrap(), "--on"));
        let machine = Machine::new(named, &Given::default(), collective).unwrap();
        let (ranks, per_node) = (NonZeroU32::new(ranks), NonZeroU32::new(per_node));
        let layout = Layout { ranks, per_node, ..Layout::default() };
        let query =
            Query::new(machine, collective, Bytes(1 << 20), layout, Params::default()).unwrap();
        cost(&Registry::builtin(), &query, None, false).unwrap().trust.concat()
    };
    assert!(trust("ib-edr", C::AllReduce, 144, 36).contains("coll/han"));
    assert!(!trust("ib-edr", C::AllToAll, 144, 36).contains("coll/han"));
    assert!(!trust("ib-edr", C::AllReduce, 144, 1).contains("coll/han"));
    let nics = "through the NIC beside each peer's GPU (PXN)";
    assert!(trust("dgx-h100", C::Scatter, 16, 8).contains(nics));
    assert!(!trust("dgx-h100", C::Gather, 16, 8).contains(nics));
    assert!(!trust("dgx-h100", C::Scatter, 8, 8).contains(nics));
}

/// What hosts take is known of all libraries of MPI, also where people run another one, or nobody says which.
#[test]
fn a_library_of_mpi_has_an_expected_time_on_hosts() {
    for (machine, policy, has) in [
        ("ib-hdr", "mpich@4", true),
        ("ib-ndr", "openmpi", true),
        ("slingshot-11", "openmpi", true),
        ("dgx-h100", "openmpi", false),
    ] {
        let command = ["choose", policy, "allreduce", "1MiB", "-n", "64", "--on", machine];
        let output = collcost(&[&command[..], &["--format", "json"]].concat());
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["expect"].is_object(), has, "{machine} {policy}: {report}");
    }
}

/// coll_base_alltoall.c and coll_base_alltoallv.c: the first test of each function is `MPI_IN_PLACE`.
#[test]
fn open_mpi_runs_one_all_to_all_in_place() {
    for (operation, decided) in [("alltoall", "modified_bruck"), ("alltoallv", "basic_linear")] {
        let Operation { collective, flavour } = operation.parse().unwrap();
        let out = Call { flavour, ..chars(collective, 128, 1024) };
        let call = Call { in_place: true, ..out };
        let choice = choose("openmpi@4.1", &call);
        assert_eq!((choice.name.as_ref(), &*choice.fell_back[0].from), ("pairwise", decided));
        let Runs::Parts(parts) = &choice.runs else { panic!("{choice:?}") };
        assert_eq!(parts[0].algorithm, "pairwise");
        let policy = named("openmpi@4.1");
        assert!(policy.force(&call, "direct").is_err() && policy.force(&out, "direct").is_ok());
        assert!(policy.force(&call, "pairwise").is_ok());
    }
}

/// coll_algorithms.txt: `restrictions: noinplace`.
#[test]
fn mpich_is_told_to_run_in_place_only_what_it_may() {
    let call = Call { in_place: true, ..chars(C::AllToAll, 16, 1024) };
    let policy = named("mpich@4");
    assert!(policy.force(&call, "bruck").is_err() && policy.force(&call, "direct").is_err());
    let line = policy.force(&call, "pairwise").unwrap();
    assert!(line.ends_with("=pairwise_sendrecv_replace"), "{line}");
    let line = policy.force(&Call { in_place: false, ..call }, "bruck").unwrap();
    assert!(line.ends_with("=brucks"), "{line}");
}

/// alltoall_intra_pairwise_sendrecv_replace.c: of 8 ranks the last two meet in round 13.
#[test]
fn mpich_exchanges_in_place_one_rank_after_another() {
    let (fabric, registry) = (Fabric::flat(Seconds(1e-5), Bandwidth(1e10)), Registry::builtin());
    for (ranks, rounds) in [(2, 1.0), (3, 3.0), (8, 13.0)] {
        let call = Call { in_place: true, ..chars(C::AllToAll, ranks, 100_000) };
        let choice = choose("mpich@4", &call);
        assert_eq!(choice.name, "pairwise_sendrecv_replace");
        let shape = Shape::new(C::AllToAll, ranks);
        let time = priced(&registry, &choice, &shape, &fabric, call.size).unwrap();
        let each = 1e-5 + 100_000.0 / f64::from(ranks) / 1e10;
        assert!((time.time().unwrap().0 / (rounds * each) - 1.0).abs() < 1e-9, "{ranks}: {time:?}");
    }
}

/// A forced pipeline is cut only where its option says so.
#[test]
fn a_forced_pipeline_of_open_mpi_has_segments() {
    let call = Call { nodes: 8, ..chars(C::Broadcast, 8, 32 << 20) };
    let policy = named("openmpi@4.1");
    let line = policy.cut(&call, policy.force(&call, "chain").unwrap(), Bytes(256 << 10));
    // 3 is the pipeline: a chain, 2, has a fan-out.
    assert!(line.contains("coll_tuned_bcast_algorithm 3 "), "{line}");
    assert!(line.ends_with("coll_tuned_bcast_algorithm_segmentsize 262144"), "{line}");
    assert_eq!(named("mpich@4").cut(&call, "x".to_owned(), Bytes(1)), "x");
}

/// Recursive doubling takes as long as a dissemination only at powers of two.
#[test]
fn the_number_of_a_barrier_is_that_of_its_name() {
    let call = Call { nodes: 100, ..Call::new(C::Barrier, 100, Bytes(0)) };
    let line = named("openmpi@4.1").force(&call, "dissemination").unwrap();
    assert!(line.ends_with("coll_tuned_barrier_algorithm 4"), "{line}");
}

#[test]
fn one_rank_runs_nothing_in_an_mpi_library() {
    for library in ["openmpi@4.0", "openmpi@4.1", "openmpi@5.0", "mpich@4"] {
        let call = chars(C::AllReduce, 1, 8);
        let choice = choose(library, &call);
        assert_eq!(choice.runs, Runs::Parts(Vec::new()), "{library}");
        assert!(named(library).force(&call, "recursive-doubling").is_err(), "{library}");
    }
}

#[test]
fn what_forces_an_algorithm_is_said_only_where_it_would_run() {
    let few = chars(C::AllReduce, 65_536, 32_768);
    let policy = named("openmpi@4.1");
    let line = policy.force(&few, "recursive-doubling").unwrap();
    assert!(line.ends_with("--mca coll_tuned_allreduce_algorithm 3"), "{line}");
    assert!(policy.force(&few, "rabenseifner").is_err());
}

/// v4.0.7 `coll_tuned_decision_fixed.c`: (collective, ranks, M, name, bytes of a segment).
#[test]
fn open_mpi_4_0_decides_by_formulas() {
    let kib = 1024;
    for (collective, ranks, size, name, segment) in [
        (C::AllReduce, 64, 9_999, "recursive_doubling", 0),
        (C::AllReduce, 64, 10_000, "ring", 0),
        (C::AllReduce, 64, 64 << 20, "ring", 0),
        (C::AllReduce, 64, (64 << 20) + 1, "segmented_ring", 1 << 20),
        (C::Broadcast, 64, 2047, "binomial", 0),
        (C::Broadcast, 64, 2048, "split_binary_tree", kib),
        (C::Broadcast, 10, 1 << 20, "split_binary_tree", 8 * kib),
        // 1.6134e-6 · 8 MiB + 2.1102 = 15.6
        (C::Broadcast, 15, 8 << 20, "pipeline", 128 * kib),
        (C::Broadcast, 16, 8 << 20, "pipeline", 64 * kib),
        (C::Reduce, 4, 511, "linear", 0),
        (C::Reduce, 4, 512, "binomial", 0),
        // 0.6016 · 2 + 1.3496 = 2.55; 64 is above
        (C::Reduce, 64, 2048, "binomial", kib),
        (C::Reduce, 4, 16 << 20, "pipeline", 64 * kib),
        (C::ReduceScatter, 64, 12 * kib, "recursive_halving", 0),
        (C::ReduceScatter, 7, 12 * kib + 1, "ring", 0),
        (C::AllGather, 7, 49_999, "bruck", 0),
        (C::AllGather, 8, 50_000, "neighbor", 0),
        (C::AllToAll, 13, 13 * 199, "modified_bruck", 0),
        (C::AllToAll, 12, 12 * 199, "linear", 0),
        (C::AllToAll, 12, 12 * 3000, "pairwise", 0),
        (C::Gather, 8, 8 * 6001, "linear_sync", 0),
        (C::Scatter, 11, 11 * 299, "binomial", 0),
    ] {
        let choice = choose("openmpi@4.0", &chars(collective, ranks, size));
        assert_eq!(decided(&choice), name, "{collective} {ranks} {size}");
        if let (Runs::Parts(parts), 1..) = (&choice.runs, segment) {
            assert_eq!(parts[0].segment, Some(Bytes(segment)), "{collective} {ranks} {size}");
        }
    }
}

/// v4.1.6 `coll_base_gather.c`: a message to each rank, then its block, one rank after another.
#[test]
fn a_synchronised_gather_costs_a_message_to_each_rank_more() {
    let fabric = Fabric::flat(Seconds(1e-6), Bandwidth(1e9));
    let shape = fabric.shape(C::Gather, 8).unwrap();
    let size = Bytes(8 * 10_000);
    let choice = choose("openmpi@4.0", &chars(C::Gather, 8, size.0));
    assert_eq!(choice.name, "linear_sync");
    let time = priced(&Registry::builtin(), &choice, &shape, &fabric, size).unwrap();
    assert!((time.time().unwrap().0 / (7.0 * (2e-6 + 10e-6)) - 1.0).abs() < 1e-12, "{time:?}");
}

/// v4.0.7 and v3.1.6 `coll_tuned_decision_fixed.c`: alltoallv has one way, allgatherv the total over ranks.
#[test]
fn open_mpi_before_4_1_decides_for_vectors() {
    let vector = |collective, ranks, size| Call {
        flavour: Flavour::Vector,
        ..chars(collective, ranks, size)
    };
    for (collective, ranks, size, id, name) in [
        (C::AllToAll, 16, 1, 2, "pairwise"),
        (C::AllToAll, 16, 1 << 30, 2, "pairwise"),
        (C::AllGather, 2, 1 << 20, 5, "two_proc"),
        (C::AllGather, 16, 49_999, 2, "bruck"),
        (C::AllGather, 7, 49_999, 2, "bruck"),
        (C::AllGather, 7, 50_000, 3, "ring"),
        (C::AllGather, 8, 50_000, 4, "neighbor"),
    ] {
        for release in ["openmpi@4.0", "openmpi@3.1.6"] {
            let choice = choose(release, &vector(collective, ranks, size));
            assert_eq!((choice.id, &*choice.name), (Some(id), name), "{collective} {ranks} {size}");
        }
    }
}

/// v2.0.4 and v3.1.6 `coll_tuned_*_decision.c` end before these numbers; v4.0.7 has them.
#[test]
fn an_older_open_mpi_is_told_no_number_that_it_lacks() {
    for (collective, algorithm) in [
        (C::AllReduce, "rabenseifner"),
        (C::Broadcast, "in-order-knomial"),
        (C::Broadcast, "scatter-allgather"),
        (C::Broadcast, "scatter-ring"),
        (C::Reduce, "halving-gather"),
        (C::ReduceScatter, "butterfly"),
    ] {
        let call = chars(collective, 16, 1 << 20);
        let registry = Registry::builtin();
        let meta = registry.find(collective, algorithm).unwrap().algorithm.meta();
        for (release, has) in [("openmpi@2.1", false), ("openmpi@3", false), ("openmpi@4.0", true)]
        {
            let policy = named(release);
            assert_eq!(policy.force(&call, algorithm).is_ok(), has, "{release} {algorithm}");
            assert_eq!(policy.name_of(&call, meta).is_some(), has, "{release} {algorithm}");
        }
    }
    // coll/tuned had no reduce_scatter_block, coll/basic runs what 4.0 made its algorithm 1.
    let block = Call { flavour: Flavour::Block, ..chars(C::ReduceScatter, 16, 1 << 16) };
    let (old, new) = (choose("openmpi@3", &block), choose("openmpi@4.0", &block));
    assert_eq!((old.id, &old.force[..]), (None, &[][..]));
    assert_eq!((&old.runs, new.id), (&new.runs, Some(1)));
    assert!(named("openmpi@3").force(&block, "recursive-halving").is_err());
}

/// v4.1.6 `coll_tuned_{allgatherv,alltoallv,reduce_scatter_block}_decision.c`.
#[test]
fn variants_of_a_collective_have_numbers_of_their_own() {
    let policy = named("openmpi@4.1");
    let registry = Registry::builtin();
    let mut checked = 0;
    for (operation, ranks, algorithm, name) in [
        ("reduce_scatter_block", 16, "recursive-halving", Some("3 recursive_halving")),
        ("reduce_scatter_block", 16, "butterfly-mirrored", Some("4 butterfly")),
        ("reduce_scatter_block", 16, "butterfly", None),
        ("reduce_scatter_block", 16, "ring", None),
        ("allgatherv", 4, "bruck", Some("2 bruck")),
        ("allgatherv", 4, "ring", Some("3 ring")),
        ("allgatherv", 4, "neighbor-exchange", Some("4 neighbor")),
        ("allgatherv", 4, "recursive-doubling", None),
        ("allgatherv", 2, "recursive-doubling", Some("5 two_proc")),
        ("alltoallv", 4, "direct", Some("1 basic_linear")),
        ("alltoallv", 4, "pairwise", Some("2 pairwise")),
        ("alltoallv", 4, "bruck", None),
        ("allgather", 4, "ring", Some("4 ring")),
    ] {
        let Operation { collective, flavour } = operation.parse().unwrap();
        let call = Call { flavour, ..chars(collective, ranks, 1 << 16) };
        let meta = registry.find(collective, algorithm).unwrap().algorithm.meta();
        assert_eq!(policy.name_of(&call, meta).as_deref(), name, "{operation} {algorithm}");
        let forced = policy.force(&call, algorithm).ok();
        let number = name.and_then(|name| name.split(' ').next());
        let line = number.map(|n| format!("coll_tuned_{operation}_algorithm {n}"));
        assert!(
            forced
                .as_deref()
                .zip(line.as_deref())
                .map_or(forced.is_none(), |(a, b)| a.ends_with(b)),
            "{operation} {algorithm}: {forced:?}"
        );
        checked += 1;
    }
    assert_eq!(checked, 13);
}

#[test]
fn what_is_expected_names_the_release_that_was_asked() {
    let named_profile = Some((Profile::builtin("gcp-c2d").unwrap(), "--on"));
    let machine = Machine::new(named_profile, &Given::default(), C::AllReduce).unwrap();
    let layout = Layout { ranks: NonZeroU32::new(16), ..Layout::default() };
    let query = Query::new(machine, C::AllReduce, Bytes(1 << 16), layout, Params::default());
    let query = query.unwrap();
    let call = Call::of(&query);
    let registry = Registry::builtin();
    for (release, version) in [("openmpi@4.1", Some("4.1")), ("openmpi@5.0", Some("5.0"))] {
        let policy = named(release);
        let sizes = (call.size, call.size);
        let found = select(&registry, &query, &call, (&*policy, None), sizes).unwrap();
        let runs = found.expect.unwrap().runs;
        assert_eq!((runs.library, runs.version.as_deref()), (Some("openmpi"), version));
    }
}

// MPICH: maint/tuning/coll/{mpir,ch4}/generic.json of v4.2.3.

/// The values of `MPIR_CVAR_*_INTRA_ALGORITHM` that 4.0.3 and 5.0.1 both have (`src/mpi/coll/cvars.txt`),
/// without `auto` and `nb`.
const VALUES: &[(&str, &[&str])] = &[
    ("BARRIER", &["smp"]),
    (
        "BCAST",
        &["binomial", "smp", "scatter_recursive_doubling_allgather", "scatter_ring_allgather"],
    ),
    ("GATHER", &["binomial"]),
    ("SCATTER", &["binomial"]),
    ("ALLGATHER", &["brucks", "recursive_doubling", "ring"]),
    ("ALLGATHERV", &["brucks", "recursive_doubling", "ring"]),
    ("ALLTOALL", &["brucks", "pairwise", "pairwise_sendrecv_replace", "scattered"]),
    ("ALLTOALLV", &["pairwise_sendrecv_replace", "scattered"]),
    ("REDUCE", &["binomial", "smp", "reduce_scatter_gather"]),
    ("ALLREDUCE", &["smp", "recursive_doubling", "reduce_scatter_allgather"]),
    ("REDUCE_SCATTER", &["noncommutative", "pairwise", "recursive_doubling", "recursive_halving"]),
    (
        "REDUCE_SCATTER_BLOCK",
        &["noncommutative", "pairwise", "recursive_doubling", "recursive_halving"],
    ),
];

/// `src/mpid/ch4/src/ch4_coll.h` of v4.1 to v5.0.1; that of v4.0.3 has none.
const COMPOSITIONS: &[(&str, u32)] = &[
    ("ALLGATHER", 2),
    ("ALLREDUCE", 4),
    ("ALLTOALL", 2),
    ("BARRIER", 2),
    ("BCAST", 3),
    ("REDUCE", 3),
];

/// Whether a release of MPICH has a variable with this value.
fn exists(setting: &str, old: bool) -> bool {
    let Some((name, value)) = setting.strip_prefix("MPIR_CVAR_").and_then(|s| s.split_once('='))
    else {
        return false;
    };
    if let Some(of) = name.strip_suffix("_COMPOSITION") {
        let within = |(known, last): &(&str, u32)| {
            *known == of && value.parse::<u32>().is_ok_and(|n| (1..=*last).contains(&n))
        };
        return !old && COMPOSITIONS.iter().any(within);
    }
    let of = name.strip_suffix("_INTRA_ALGORITHM");
    let barrier = if old { "dissemination" } else { "k_dissemination" };
    let both = VALUES.iter().any(|(known, values)| of == Some(known) && values.contains(&value));
    both || (of, value) == (Some("BARRIER"), barrier)
}

#[test]
fn mpich_is_told_variables_that_its_release_has() {
    let registry = Registry::builtin();
    let operations = [
        "allreduce",
        "bcast",
        "reduce",
        "allgather",
        "allgatherv",
        "alltoall",
        "alltoallv",
        "reduce_scatter",
        "reduce_scatter_block",
        "gather",
        "scatter",
        "barrier",
    ];
    let mut settings = 0;
    for (release, old) in [("mpich@4", false), ("mpich@4.0.3", true)] {
        let policy = named(release);
        for operation in operations {
            let Operation { collective, flavour } = operation.parse().unwrap();
            let own = operation.to_ascii_uppercase();
            for (nodes, in_place) in [(1, false), (4, false), (16, false), (4, true), (16, true)] {
                for size in [64, 1 << 16, 1 << 24] {
                    let call = chars(collective, 16, size);
                    let call = Call { flavour, nodes, in_place, ..call };
                    let chosen = policy.choose(&call).unwrap().force;
                    let forced = registry.iter().filter_map(|a| {
                        let line = policy.force(&call, a.meta().id).ok()?;
                        // The call's own operation is forced, not another.
                        let variable = format!("MPIR_CVAR_{own}_INTRA_ALGORITHM=");
                        assert!(line.contains(&variable), "{release} {operation}: {line}");
                        Some(line)
                    });
                    for line in chosen.iter().cloned().chain(forced) {
                        for setting in line.split(' ') {
                            assert!(exists(setting, old), "{release} {operation}: {setting}");
                            settings += 1;
                        }
                    }
                }
            }
        }
    }
    assert!(settings > 500, "{settings}");
}

/// v4.0.3 `ch4_coll.h` runs its tree of compositions, whatever the algorithm of a part is.
#[test]
fn mpich_4_0_is_told_an_algorithm_only_where_the_whole_call_runs_it() {
    let policy = named("mpich@4.0");
    let call = |nodes| Call { nodes, ..chars(C::AllReduce, 16, 1 << 16) };
    assert!(policy.force(&call(4), "recursive-doubling").is_err());
    // cvars.txt: an all-reduce has recexch from 4.1 on.
    let multiplies = Registry::builtin().find(C::AllReduce, "recexch").unwrap().algorithm.meta();
    assert_eq!(policy.name_of(&call(4), multiplies), None);
    assert_eq!(named("mpich@4").name_of(&call(4), multiplies).as_deref(), Some("recexch"));
    let line = policy.force(&call(16), "recursive-doubling").unwrap();
    assert_eq!(line, "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM=recursive_doubling");
    let barrier = |release: &str| {
        let call = Call { nodes: 16, ..Call::new(C::Barrier, 16, Bytes(0)) };
        (choose(release, &call).force, named(release).force(&call, "dissemination").unwrap())
    };
    let old = "MPIR_CVAR_BARRIER_INTRA_ALGORITHM=dissemination";
    assert_eq!(barrier("mpich@4.0"), (vec![old.to_owned()], old.to_owned()));
    let new = "MPIR_CVAR_BARRIER_INTRA_ALGORITHM=k_dissemination";
    let composed = "MPIR_CVAR_BARRIER_COMPOSITION=2";
    let both = vec![composed.to_owned(), new.to_owned()];
    assert_eq!(barrier("mpich@4"), (both, format!("{composed} {new}")));
}

/// What runs can be forced, by the name beside it.
#[test]
fn mpich_forces_the_gather_and_the_scatter_that_it_runs() {
    let policy = named("mpich@4");
    let registry = Registry::builtin();
    for (collective, variable) in [(C::Gather, "GATHER"), (C::Scatter, "SCATTER")] {
        let call = Call { nodes: 4, ..chars(collective, 8, 1 << 16) };
        let line = policy.force(&call, "binomial").unwrap();
        assert_eq!(line, format!("MPIR_CVAR_{variable}_INTRA_ALGORITHM=binomial"));
        assert_eq!(choose("mpich@4", &call).force, [line]);
        let meta = registry.find(collective, "binomial").unwrap().algorithm.meta();
        assert_eq!(policy.name_of(&call, meta).as_deref(), Some("binomial"));
    }
}

#[test]
fn mpich_on_single_ranks_a_node_is_the_mpir_layer() {
    for (collective, ranks, size, name) in [
        (C::AllReduce, 8, 8, "recursive_doubling"),
        (C::AllReduce, 8, 9, "reduce_scatter_allgather"),
        // 32 elements of a byte are fewer than 64 ranks.
        (C::AllReduce, 64, 32, "recursive_doubling"),
        (C::Broadcast, 7, 1 << 20, "binomial"),
        (C::Broadcast, 8, 12_288, "binomial"),
        (C::Broadcast, 8, 524_288, "scatter_recursive_doubling_allgather"),
        (C::Broadcast, 8, 524_289, "scatter_ring_allgather"),
        (C::Broadcast, 12, 12_289, "scatter_ring_allgather"),
        (C::Reduce, 8, 2048, "binomial"),
        (C::Reduce, 8, 2049, "reduce_scatter_gather"),
        (C::AllGather, 8, 524_287, "recursive_doubling"),
        (C::AllGather, 8, 524_288, "ring"),
        (C::AllGather, 6, 81_919, "brucks"),
        (C::AllGather, 6, 81_920, "ring"),
        (C::ReduceScatter, 8, 524_287, "recursive_halving"),
        (C::ReduceScatter, 8, 524_288, "pairwise"),
        // `comm_size<8` behind a test of the call is taken for `<=8`: csel.c of 4.0.2 to 5.0.1.
        (C::AllToAll, 8, 8, "scattered"),
        (C::AllToAll, 8, 8 * 256, "scattered"),
        (C::AllToAll, 9, 9 * 256, "brucks"),
        (C::AllToAll, 9, 9 * 257, "scattered"),
        (C::AllToAll, 7, 7, "scattered"),
        (C::AllToAll, 8, 8 * 32_769, "pairwise"),
    ] {
        let call = Call { nodes: ranks, ..chars(collective, ranks, size) };
        assert_eq!(choose("mpich@4", &call).name, name, "{collective} {ranks} {size}");
    }
}

/// What runs, as algorithm, ranks that take part and those out of which they are.
fn parts_of(choice: &Choice) -> Vec<(&'static str, u32, Option<u32>)> {
    let Runs::Parts(parts) = &choice.runs else { panic!("{choice:?}") };
    parts.iter().map(|p| (p.algorithm, p.ranks, p.of)).collect()
}

#[test]
fn mpich_folds_whole_vectors_where_ranks_are_no_power_of_two() {
    // reduce_intra_reduce_scatter_gather.c: the vector to the left neighbour, then a power of two.
    let call = Call { nodes: 6, ..chars(C::Reduce, 6, 1 << 20) };
    let choice = choose("mpich@4", &call);
    assert_eq!(parts_of(&choice), [("halving-gather", 6, None)]);
    // One message and M of bytes and additions more than the power of two takes: 2f + 1 messages,
    // 1 + 2(p − 1)/p vectors.
    let fabric = Fabric::flat(Seconds(1e-6), Bandwidth(1e9));
    let shape = Shape::new(C::Reduce, 6);
    let time = priced(&Registry::builtin(), &choice, &shape, &fabric, Bytes(1 << 20)).unwrap();
    let expected = 5e-6 + 2.5 * f64::from(1 << 20) / 1e9;
    assert!((time.time().unwrap().0 - expected).abs() < 1e-12, "{time:?}");
    // Between leaders too, of which one stands in each node.
    let call = Call { nodes: 6, ..chars(C::Reduce, 24, 1 << 20) };
    assert_eq!(parts_of(&choose("mpich@4", &call))[1..], [("halving-gather", 6, None)]);
    // The reduce-scatter goes on with uneven blocks, and each pair parts with one at the end.
    let call = Call { nodes: 6, ..chars(C::ReduceScatter, 6, 6 << 10) };
    let choice = choose("mpich@4", &call);
    assert_eq!(parts_of(&choice), [("recursive-halving-fold", 6, None)]);
    // All of M, 4 blocks of a sixth and 2 of them, and one.
    let shape = Shape::new(C::ReduceScatter, 6);
    let time = priced(&Registry::builtin(), &choice, &shape, &fabric, Bytes(6 << 10)).unwrap();
    let expected = 4e-6 + 13.0 * f64::from(1 << 10) / 1e9;
    assert!((time.time().unwrap().0 - expected).abs() < 1e-12, "{time:?}");
}

#[test]
fn open_mpi_folds_halves_where_ranks_are_no_power_of_two() {
    // coll_base_reduce.c of v4.1.6: halves exchanged and added, one handed over.
    let force = |collective| {
        policy("openmpi@4.1", &Site::default()).unwrap().force(
            &Call { nodes: 6, ..chars(collective, 6, 1 << 20) },
            if collective == C::Reduce {
                "halving-gather-half-fold"
            } else {
                "rabenseifner-half-fold"
            },
        )
    };
    assert!(force(C::Reduce).unwrap().ends_with("coll_tuned_reduce_algorithm 7"));
    assert!(force(C::AllReduce).unwrap().ends_with("coll_tuned_allreduce_algorithm 6"));
}

/// The time of a choice on links of 1 µs and 1 GB/s, in µs.
fn micros(choice: &Choice, collective: C, ranks: u32, size: u64) -> f64 {
    let fabric = Fabric::flat(Seconds(1e-6), Bandwidth(1e9));
    let shape = Shape::new(collective, ranks);
    let time = priced(&Registry::builtin(), choice, &shape, &fabric, Bytes(size)).unwrap();
    time.time().unwrap().0 * 1e6
}

/// The time of algorithm `number` of an operation in Open MPI, by a rule of a file.
fn numbered(operation: u32, number: u32, call: &Call) -> Choice {
    let ranks = call.ranks;
    file(&format!("1\n{operation}\n1\n{ranks}\n1\n0 {number} 0 0\n")).choose(call).unwrap()
}

/// coll_base_bcast.c and MPICH's bcast_intra_scatter_recursive_doubling_allgather.c, replayed step by step with
/// blocking messages of ⌈M/N⌉ (M = 1 MiB). For 7, 11 and 13 ranks the replay has part of what is passed on
/// hidden: 2404.7, 2965.1 and 2590.1.
#[test]
fn a_scatter_and_doubling_passes_blocks_on_where_ranks_have_no_partner() {
    for (ranks, us) in [
        (3, 2102.2),
        (5, 2734.3),
        (6, 2453.7),
        (7, 2554.5),
        (8, 1841.0),
        (9, 3040.2),
        (10, 2946.0),
        (11, 3061.4),
        (12, 2630.4),
        (13, 2753.4),
        (24, 2719.8),
        (48, 2765.5),
    ] {
        let call = Call { nodes: ranks, ..chars(C::Broadcast, ranks, 1 << 20) };
        let choice = numbered(7, 8, &call);
        assert_eq!(choice.name, "scatter_allgather");
        let time = micros(&choice, C::Broadcast, ranks, 1 << 20);
        assert!((time - us).abs() < 0.1, "{ranks} ranks: {time}");
    }
    // A library's name is that of what it runs, in its own list too.
    let call = Call { nodes: 6, ..chars(C::Broadcast, 6, 1 << 20) };
    for name in ["openmpi@4.1", "mpich@4"] {
        let policy = named(name);
        let meta = |id| Registry::builtin().find(C::Broadcast, id).unwrap().algorithm.meta();
        assert_eq!(policy.name_of(&call, meta("scatter-allgather")), None, "{name}");
        assert!(policy.name_of(&call, meta("scatter-doubling")).is_some(), "{name}");
        assert!(policy.force(&call, "scatter-allgather").is_err(), "{name}");
        assert!(policy.force(&call, "scatter-doubling").is_ok(), "{name}");
    }
}

/// coll_base_reduce.c, `redscat_gather`: mask = 1 first, with M/2; so does MPICH. In nodes of 8 ranks three of six
/// rounds stay inside: 56 MiB at 50 GB/s, and 8·7 MiB through the NIC, each way.
#[test]
fn a_reduce_by_halving_keeps_its_large_messages_inside_nodes() {
    let tier = |span, alpha, rate| Tier {
        span: NonZeroU32::new(span),
        ..Tier::new("link", Seconds(alpha), Bandwidth(rate))
    };
    let outer = Tier { nics: NonZeroU32::new(1), ..tier(0, 3e-6, 12.5e9) };
    let fabric = Fabric::new(vec![tier(8, 1e-6, 50e9), outer]);
    let call = Call { nodes: 8, ..chars(C::Reduce, 64, 64 << 20) };
    let choice = numbered(11, 7, &call);
    let shape = Shape::new(C::Reduce, 64);
    let size = Bytes(64 << 20);
    let time = priced(&Registry::builtin(), &choice, &shape, &fabric, size).unwrap();
    let mib = f64::from(1 << 20);
    let expected = 2.0 * (12e-6 + 56.0 * mib / 50e9 + 56.0 * mib / 12.5e9);
    assert!((time.time().unwrap().0 / expected - 1.0).abs() < 1e-9, "{time:?} {expected}");
}

/// The list of alternatives has the price of what runs: with the fold, where one is needed.
#[test]
fn what_runs_is_no_slower_than_itself_in_the_list() {
    for (policy, collective, ours) in [
        ("mpich@4", C::Reduce, "halving-gather"),
        ("openmpi@4.1", C::Reduce, "halving-gather-half-fold"),
        ("openmpi@4.1", C::AllReduce, "rabenseifner-half-fold"),
    ] {
        let call = Call { nodes: 6, ..chars(collective, 6, 1 << 20) };
        let (policy, registry) = (named(policy), Registry::builtin());
        let named = registry.of(collective).map(|a| a.meta());
        let named = named.filter(|meta| policy.name_of(&call, meta).is_some());
        let halving =
            named.filter(|meta| ["halving", "rabens"].iter().any(|id| meta.id.starts_with(id)));
        assert_eq!(halving.map(|meta| meta.id).collect::<Vec<_>>(), [ours]);
    }
    // One message and M more than the power of two; Open MPI's two of a half.
    let runs = |number| {
        let call = Call { nodes: 6, ..chars(C::Reduce, 6, 1 << 20) };
        micros(&numbered(11, number, &call), C::Reduce, 6, 1 << 20)
    };
    assert!((runs(7) - (6.0 + 2.5 * f64::from(1 << 20) / 1e3)).abs() < 1e-6, "{}", runs(7));
}

/// coll_base_reduce.c, `in_order_binary`: to rank N − 1, which sends the whole vector to the root.
#[test]
fn an_in_order_reduce_ends_with_a_message_to_the_root() {
    let call = Call { nodes: 8, ..chars(C::Reduce, 8, 1 << 20) };
    let policy = file("1\n11\n1\n8\n1\n0 6 0 16384\n");
    let choice = policy.choose(&call).unwrap();
    assert_eq!(choice.name, "in-order_binary");
    // 64 segments: 2·63 + L(8) slots, L(8) = 4.
    let time = micros(&choice, C::Reduce, 8, 1 << 20);
    let expected = 131.0 + (130.0 / 64.0 + 1.0) * f64::from(1 << 20) / 1e3;
    assert!((time - expected).abs() < 1e-6, "{time} {expected}");
}

/// coll_base_reduce_scatter_block.c permutes equal blocks in memory first. 4.1.4 was seen to send 7/8 of the vector
/// from each of 8 ranks there, and all of it in MPI_Reduce_scatter.
#[test]
fn a_butterfly_of_equal_blocks_has_no_last_exchange() {
    let mib = f64::from(1 << 20) / 1e3;
    let time = |flavour, operation| {
        let call = Call { nodes: 8, flavour, ..chars(C::ReduceScatter, 8, 1 << 20) };
        micros(&numbered(operation, 4, &call), C::ReduceScatter, 8, 1 << 20)
    };
    assert!((time(Flavour::Block, 13) - (3.0 + 0.875 * mib)).abs() < 1e-6);
    assert!((time(Flavour::Plain, 12) - (4.0 + mib)).abs() < 1e-6);
}

/// v4.1.6 coll_base_barrier.c:299, coll_base_allgather.c:614, coll_base_alltoall.c:540; 4.1.4 was seen to end the
/// program.
#[test]
fn two_proc_has_no_time_on_more_than_two_ranks() {
    for (operation, number, collective) in
        [(6, 5, C::Barrier), (0, 6, C::AllGather), (3, 5, C::AllToAll)]
    {
        let run = |ranks| {
            let call = Call { nodes: ranks, ..chars(collective, ranks, 1 << 20) };
            numbered(operation, number, &call)
        };
        let refused = run(6);
        let Runs::Unpriced(why) = &refused.runs else { panic!("{refused:?}") };
        assert!(why.contains("MPI_ERR_UNSUPPORTED_OPERATION"), "{why}");
        assert_eq!(refused.name, "two_proc");
        assert!(matches!(run(2).runs, Runs::Parts(_)));
    }
}

#[test]
fn mpich_decides_the_part_between_nodes_with_the_ranks_of_leaders() {
    // 16 elements over 8 nodes of 16: too few to halve among 128, enough among 8 leaders.
    let call = Call { nodes: 8, ..chars(C::AllReduce, 128, 16) };
    let choice = choose("mpich@4", &call);
    assert_eq!(choice.name, "alpha: release_gather, reduce_scatter_allgather, release_gather");
    let Runs::Parts(parts) = &choice.runs else { panic!("{choice:?}") };
    let ranks: Vec<_> = parts.iter().map(|p| p.ranks).collect();
    assert_eq!(ranks, [16, 8, 16]);
    assert!(choice.force.contains(&"MPIR_CVAR_ALLREDUCE_COMPOSITION=1".to_owned()));
    let in_order = Call { commutative: false, builtin_op: false, ..call };
    assert_eq!(choose("mpich@4", &in_order).name, "recursive_doubling");
}

/// `MPIDI_Reduce_intra_composition_beta` of v4.0.3 to v5.0.1: the root's node reduces after the leaders,
/// among which its own gives its data alone. On one node that is all there is.
#[test]
fn mpich_reduces_little_in_the_roots_node_last() {
    let at = |size, nodes| choose("mpich@4", &Call { nodes, ..chars(C::Reduce, 64, size) });
    let inside = ("binomial", 8, None);
    let between = ("in-order-binomial", 8, None);
    assert_eq!(at(2048, 8).name, "beta: release_gather, binomial, release_gather");
    assert_eq!(parts_of(&at(2048, 8)), [inside, between, inside]);
    assert_eq!(parts_of(&at(2048, 1)), [("binomial", 64, None)]);
    assert_eq!(at(2049, 8).name, "alpha: release_gather, reduce_scatter_gather");
    // Three messages in nodes and three between them, then three in one node: α of 1 and 10 µs.
    let inside = Tier {
        span: NonZeroU32::new(8),
        ..Tier::new("inside", Seconds(1e-6), Bandwidth(f64::INFINITY))
    };
    let fabric =
        Fabric::new(vec![inside, Tier::new("between", Seconds(1e-5), Bandwidth(f64::INFINITY))]);
    let shape = Shape { group: NonZeroU32::new(8), ..Shape::new(C::Reduce, 64) };
    let registry = Registry::builtin();
    let time = priced(&registry, &at(1024, 8), &shape, &fabric, Bytes(1024)).unwrap();
    let time = time.time().unwrap();
    assert!((time.0 / 36e-6 - 1.0).abs() < 1e-9, "{time}");
}

/// posix_coll_release_gather.h counts the calls of a node's communicator, and four fall back: two of them are
/// an all-reduce's or a barrier's over nodes, one a reduce's, of whose parts a node has one.
#[test]
fn mpich_counts_what_is_called_inside_a_node() {
    for (collective, nodes, twice) in [
        (C::AllReduce, 8, true),
        (C::Barrier, 8, true),
        (C::Barrier, 1, true),
        (C::AllReduce, 1, false),
        (C::Broadcast, 8, false),
        (C::Reduce, 8, false),
    ] {
        let size = if collective == C::Barrier { 0 } else { 1024 };
        let notes = choose("mpich@4", &Call { nodes, ..chars(collective, 64, size) }).notes;
        let early = notes.iter().find(|note| note.starts_with("before the fifth")).unwrap();
        assert_eq!(early.contains("two of them"), twice, "{collective}: {early}");
        // A barrier has no price, so nothing says how it was made.
        let is_priced = notes.iter().any(|note| note.contains("priced as"));
        assert_eq!(is_priced, collective != C::Barrier, "{collective}: {notes:?}");
    }
}

#[test]
fn mpich_composes_broadcasts_by_size() {
    let name = |size| {
        let call = Call { nodes: 8, ..chars(C::Broadcast, 64, size) };
        choose("mpich@4", &call).name.into_owned()
    };
    assert_eq!(name(12_287), "alpha: binomial, release_gather");
    assert_eq!(name(12_288), "beta: binomial, release_gather");
    assert_eq!(name(524_287), "beta: scatter_recursive_doubling_allgather, release_gather");
    assert_eq!(name(524_288), "scatter_recursive_doubling_allgather");
    assert_eq!(name(524_289), "scatter_ring_allgather");
}

/// src/mpi/comm/commutil.c: only a communicator of one rank a node has no node communicators.
#[test]
fn mpich_composes_on_one_node_as_on_several() {
    for (collective, ranks, size, name) in [
        (C::Broadcast, 4, 4096, "release_gather"),
        (C::Broadcast, 7, 1 << 20, "release_gather"),
        (C::Broadcast, 8, 524_287, "release_gather"),
        (C::Broadcast, 8, 524_288, "scatter_recursive_doubling_allgather"),
        (C::Broadcast, 12, 12_287, "release_gather"),
        (C::Broadcast, 12, 12_288, "binomial"),
        (C::Reduce, 4, 2048, "release_gather"),
        (C::Reduce, 4, 1 << 20, "release_gather"),
        (C::Barrier, 4, 0, "release_gather, release_gather"),
    ] {
        let choice = choose("mpich@4", &chars(collective, ranks, size));
        let one = choice.name.trim_start_matches("alpha: ");
        assert_eq!(one, name, "{collective} {ranks} {size}");
        // What runs where MPICH was built without shared-memory modules.
        let notes = choice.notes.concat();
        assert_eq!(notes.contains("ch4:ucx"), name.contains("release_gather"), "{notes}");
    }
    let in_order = Call { commutative: false, builtin_op: false, ..chars(C::Reduce, 4, 4096) };
    assert_eq!(choose("mpich@4", &in_order).name, "binomial");
}

// Gloo at cc44198, gloo/allreduce.cc: segments of at most 1 MiB, at least two a rank.

#[test]
fn gloo_does_not_look_at_the_size() {
    for size in [1, 1 << 20, 1 << 30] {
        assert_eq!(choose("gloo", &chars(C::AllReduce, 16, size)).name, "ring");
        assert_eq!(choose("gloo", &chars(C::Broadcast, 16, size)).name, "binomial tree");
    }
    let notes = choose("gloo", &chars(C::AllReduce, 16, 100 << 20)).notes.concat();
    assert!(notes.contains("112 segments"), "{notes}");
}

/// gloo/gather.cc and scatter.cc: the root and every other rank, at once.
#[test]
fn gloo_gathers_and_scatters_without_a_tree() {
    for collective in [C::Gather, C::Scatter] {
        let choice = choose("gloo", &chars(collective, 16, 1024));
        assert_eq!((&*choice.name, parts_of(&choice)), ("linear", vec![("flat", 16, None)]));
    }
    // gloo/allgatherv.cc sends every block whole.
    let vector = Call { flavour: Flavour::Vector, ..chars(C::AllGather, 16, 1024) };
    let choice = choose("gloo", &vector);
    assert_eq!((&*choice.name, choice.notes.len()), ("ring", 0));
}

// PyTorch: torch/_inductor/comm_analysis.py at b5ee4d7a.

#[test]
fn inductor_estimates_what_its_formula_gives_to_every_printed_digit() {
    let text = include_str!("../data/pytorch_inductor_2025.csv");
    let mut rows = 0;
    for line in text.lines().filter(|l| !l.starts_with('#')).skip(1) {
        let [gpu, ranks, collective, bytes, us] = line.split(',').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let collective: C = collective.parse().unwrap();
        let (ranks, bytes): (u32, u64) = (ranks.parse().unwrap(), bytes.parse().unwrap());
        // It counts inputs: of an all-gather one shard.
        let parts = if collective == C::AllGather { u64::from(ranks) } else { 1 };
        let site = Site { machine: gpu.to_owned(), ..Site::default() };
        let policy = policy("pytorch-inductor@2025", &site).unwrap();
        let call = Call { nodes: ranks.div_ceil(8), ..chars(collective, ranks, bytes * parts) };
        let estimate = policy.choose(&call).unwrap().estimate.unwrap();
        let digits = us.split_once('.').map_or(0, |(_, d)| d.len());
        let shown = format!("{:.digits$}", estimate.0 * 1e6);
        assert_eq!(shown, us, "{line}");
        rows += 1;
    }
    assert_eq!(rows, 96);
}

// XLA: xla/service/gpu/model/sol_gpu_cost_model.cc at 3e1a45f9, with k = 0.45.

#[test]
fn xla_prices_a_ring_over_hosts() {
    // Two hosts of eight H100, 16 MiB: m = 1 MiB, 2 · 15/8 messages of
    // 1 MiB / 25.002 GB/s · 1.025 + 6.003 µs + 31.0005 µs, and 45 µs of launch.
    let call = Call { nodes: 2, ..chars(C::AllReduce, 16, 16 << 20) };
    let message = 1_048_576.0 / 25.002e9 * 1.025 + 37.0035e-6;
    let expected = 45e-6 + 2.0 * 15.0 / 8.0 * message;
    let estimate = choose("xla-sol", &call).estimate.unwrap().0;
    assert!((estimate / expected - 1.0).abs() < 1e-12, "{estimate} {expected}");
    // All-to-all: eight messages of S/15 to the other host.
    let call = Call { collective: C::AllToAll, ..call };
    let message = f64::from(16 << 20) / 15.0 / 25.002e9 * 1.025 + 37.0035e-6;
    let estimate = choose("xla-sol", &call).estimate.unwrap().0;
    assert!((estimate / (45e-6 + 8.0 * message) - 1.0).abs() < 1e-12);
    // NumGpusPerComm: two GPUs in a send/recv, and hosts times eight elsewhere.
    let time = |collective, nodes, ranks| {
        let call = Call { nodes, ..chars(collective, ranks, 16 << 20) };
        choose("xla-sol", &call).estimate.unwrap().0
    };
    let message = f64::from(16 << 20) / 25.002e9 * 1.025 + 4.0 * 6.003e-6 + 31.0005e-6;
    for (nodes, ranks) in [(2, 2), (2, 16), (8, 64)] {
        let sent = time(C::SendRecv, nodes, ranks);
        assert!((sent / (45e-6 + message) - 1.0).abs() < 1e-12, "{sent}");
    }
    assert_eq!(time(C::AllGather, 4, 16), time(C::AllGather, 4, 32));
    let four = Call { nodes: 4, ..chars(C::AllGather, 16, 16 << 20) };
    assert!(choose("xla-sol", &four).notes.concat().contains("gpus_per_node"));
}

/// GetPlatformConfig looks for whole names.
#[test]
fn xla_has_no_parameters_for_a_gb200() {
    let device = |machine: &str| {
        let site = Site { machine: machine.to_owned(), ..Site::default() };
        policy("xla-sol", &site).unwrap().meta().title.clone()
    };
    assert!(device("dgx-b200").ends_with("NVIDIA B200"));
    assert!(device("gb200-nvl72").ends_with("unknown"));
    assert!(device("dgx-h100").ends_with("NVIDIA H100 80GB HBM3"));
    for other in ["h100-pcie", "NVIDIA H100 PCIe", "NVIDIA H100 NVL"] {
        assert!(device(other).ends_with("unknown"), "{other}");
    }
}

#[test]
fn xla_has_kernels_of_its_own_on_one_host() {
    let name = |size| choose("xla-sol", &chars(C::AllReduce, 8, size)).name.into_owned();
    assert_eq!([name(262_144), name(262_145), name(4 << 20)], ["one-shot", "two-shot", "two-shot"]);
    assert_eq!(name((4 << 20) + 1), "NCCL, by a table");
}

// Texts.

#[test]
fn the_thresholds_of_the_ring_and_tree_chapter() {
    let name = |size| choose("textbook@thresholds", &chars(C::AllReduce, 8, size)).name;
    assert_eq!([name(255_999), name(256_000), name(4_000_000)], ["tree", "hybrid", "hybrid"]);
    assert_eq!(name(4_000_001), "ring");
}

#[test]
fn the_introduction_chooses_by_regime_and_capability() {
    // 01 §5.3: 72 ranks, 0.5 µs, 900 GB/s, c_real 2: the ring from about 2 GB on.
    let fabric = Fabric::flat(Seconds(0.5e-6), Bandwidth(9e11));
    let site = Site { fabric: Some(fabric), ..Site::default() };
    let policy = policy("textbook", &site).unwrap();
    let call = chars(C::AllReduce, 72, 1);
    let found = intervals(&*policy, &call, Bytes(1), Bytes(1 << 40)).unwrap();
    assert_eq!(found.len(), 2);
    assert_eq!((&*found[0].choice.name, &*found[1].choice.name), ("double binary tree", "ring"));
    assert!((found[1].from.0 as f64 / 2.0736e9 - 1.0).abs() < 1e-6, "{:?}", found[1].from);
    let pat = Call { nodes: 72, ..chars(C::AllGather, 72, 1) };
    assert_eq!(policy.choose(&pat).unwrap().name, "PAT");
    assert_eq!(policy.choose(&chars(C::AllGather, 72, 1)).unwrap().name, "ring");
    assert_eq!(policy.choose(&chars(C::Reduce, 72, 1 << 40)).unwrap().name, "binomial tree");
}

// Tuning files.

const DYNAMIC: &str = "1  # one collective: all-reduce, with a guard for small communicators
2 2
2 1
0 0 0 0
4 3
0 3 0 0
4096 6 0 0
262144 5 0 16384
";

const TREE: &str = r#"{"collective=allreduce": {"comm_type=intra": {
  "comm_size<=4": {"algorithm=MPIR_Allreduce_intra_recursive_doubling": {}},
  "comm_size=any": {
    "avg_msg_size<=131072": {"algorithm=MPIR_Allreduce_intra_recursive_doubling": {}},
    "avg_msg_size=any": {
      "is_op_built_in=yes": {"algorithm=MPIR_Allreduce_intra_reduce_scatter_allgather": {}},
      "is_op_built_in=no": {"algorithm=MPIR_Allreduce_intra_recursive_doubling": {}}}}},
  "comm_type=inter": {"algorithm=MPIR_Allreduce_inter_reduce_exchange_bcast": {}}}}
"#;

const CSV: &str = "allreduce,0,32768,tree,ll,-1,1,8
allreduce,32769,4194304,ring,ll128,4,1,8
";

fn file(text: &str) -> Box<dyn Policy> {
    of_file(read_rules(text, "rules").unwrap(), "rules", &site()).unwrap()
}

#[test]
fn dynamic_rules_stand_before_the_fixed_decisions() {
    let policy = file(DYNAMIC);
    let at = |ranks, size| policy.choose(&Call::new(C::AllReduce, ranks, Bytes(size))).unwrap();
    assert_eq!(at(8, 4095).name, "recursive_doubling");
    let choice = at(8, 4096);
    assert_eq!(choice.name, "rabenseifner");
    assert!(choice.rule.starts_with("rules:7: from 4096 bytes on"), "{}", choice.rule);
    // 64 Ki elements fill eight segments of 4 Ki, and not 64.
    let Runs::Parts(parts) = at(8, 262_144).runs else { panic!() };
    assert_eq!(parts[0].segment, Some(Bytes(16_384)));
    assert_eq!(at(8, 262_144).name, "segmented_ring");
    assert_eq!(at(64, 262_144).name, "ring");
    // The guard, and collectives that the file does not name.
    let own = choose("openmpi@4.1", &Call::new(C::AllReduce, 2, Bytes(100)));
    assert_eq!(at(2, 100).name, own.name);
    assert!(at(2, 100).rule.starts_with("rules:4 leaves it to the library"));
    let bcast = policy.choose(&chars(C::Broadcast, 64, 100)).unwrap();
    assert!(bcast.rule.starts_with("rules has no rule for bcast"), "{}", bcast.rule);
}

/// v4.1.6 `coll_tuned_decision_dynamic.c`; from v5.0.0 on it looks at `user_forced` first.
#[test]
fn rules_for_vectors_are_read_by_what_open_mpi_counts() {
    // Two collectives: all-gatherv is number 1, all-to-allv number 4.
    let policy = file("2\n1\n1\n2 2\n0 1 0 0\n65536 3 0 0\n4\n1\n2 2\n0 1 0 0\n65536 2 0 0\n");
    let vector = |collective, ranks, size| Call {
        flavour: Flavour::Vector,
        ..Call::new(collective, ranks, Bytes(size))
    };
    let at = |call: &Call| policy.choose(call).unwrap();
    let below = at(&vector(C::AllGather, 4, 128 << 10));
    assert_eq!((below.id, &*below.name), (Some(1), "default"));
    let above = at(&vector(C::AllGather, 4, 256 << 10));
    assert_eq!((above.id, &*above.name), (Some(3), "ring"));
    assert!(above.rule.contains("from 65536 bytes of each rank on"), "{}", above.rule);
    let any = at(&vector(C::AllToAll, 8, 1 << 20));
    assert_eq!((any.id, &*any.name), (Some(1), "basic_linear"));
    assert!(any.rule.contains("the first rule, for any size"), "{}", any.rule);
    let line = policy.force(&chars(C::AllReduce, 8, 2048), "recursive-doubling").unwrap();
    assert!(line.ends_with(" 3, without the file before Open MPI 5.0"), "{line}");
}

/// v6.0.x `coll_han_component.c`, `coll_han_module.c`: only 6.0 reads JSON, and its coll/han comes first.
#[test]
fn rules_as_json_are_those_of_6_0() {
    let policy = file(
        r#"{"rule_file_version": 3, "module": "tuned", "collectives": {
            "allreduce": [{"comm_size_min": 2, "rules": [{"alg": 4}]}]}}"#,
    );
    assert!(policy.meta().title.ends_with("over 6.0's own"));
    for (collective, nodes, splits) in [
        (C::AllReduce, 4, true),
        (C::AllToAll, 4, true),
        (C::ReduceScatter, 4, false),
        (C::AllReduce, 1, false),
        (C::AllReduce, 32, false),
    ] {
        let choice = policy.choose(&Call { nodes, ..chars(collective, 32, 1 << 20) }).unwrap();
        assert_eq!(choice.notes.concat().contains("6.0 gives coll/han"), splits, "{choice:?}");
        let alone = choice.force.iter().all(|line| line.ends_with("--mca coll_han_priority 0"));
        assert_eq!(alone, splits, "{choice:?}");
    }
    let line = policy.force(&chars(C::AllReduce, 8, 2048), "recursive-doubling").unwrap();
    assert!(line.ends_with(" 3"), "{line}");
}

/// v4.1.6 `coll_tuned_decision_dynamic.c`: gathers and scatters look up `sdtype` and `scount` of each rank.
#[test]
fn rules_that_split_the_ranks_of_a_call_are_noted() {
    let noted = |coll: u32, rules: &str, collective, size| {
        let policy = file(&format!("1\n{coll} 1\n2 {rules}\n"));
        policy
            .choose(&chars(collective, 16, size))
            .unwrap()
            .notes
            .concat()
            .contains("rule for 0 bytes")
    };
    let by_size = "2\n0 0 0 0\n1000 2 0 0";
    assert_eq!([999, 1000].map(|size| noted(15, by_size, C::Scatter, size)), [false, true]);
    assert_eq!([999, 1000].map(|size| noted(9, by_size, C::Gather, size)), [false, true]);
    assert!(!noted(15, "1\n0 2 0 0", C::Scatter, 1000) && !noted(7, by_size, C::Broadcast, 1000));
}

/// v4.1.6 `coll_tuned_dynamic_file.c` reads `-2` of such a file as its number of collectives and drops it; v5.0.7
/// and later take it for a version.
#[test]
fn rules_with_a_version_are_those_of_5_0() {
    let call = Call { nodes: 4, ..chars(C::Broadcast, 32, 1 << 20) };
    let rules = "1\n7 1\n2 1\n0 3 0 65536\n";
    for (version, release, splits) in [
        ("", "4.1", false),
        ("rule-file-version-1\n", "5.0", true),
        ("rule-file-version-2\n", "5.0", true),
    ] {
        let policy = file(&format!("{version}{rules}"));
        assert!(policy.meta().title.ends_with(&format!("over {release}'s own")));
        let choice = policy.choose(&call).unwrap();
        assert_eq!(&*choice.name, "pipeline");
        assert_eq!(choice.notes.concat().contains("5.0 gives coll/han"), splits, "{choice:?}");
        assert_eq!(choice.force[0].ends_with("--mca coll_han_priority 0"), splits, "{choice:?}");
        let line = policy.force(&call, "binomial").unwrap();
        assert_eq!(line.ends_with(", without the file before Open MPI 5.0"), !splits, "{line}");
    }
}

/// v6.0.x `coll_tuned_allgather_decision.c`, `coll_base_allgather.c`: the fan-out is the radix of Bruck's, 2 in
/// the fixed decisions and 4 if it is forced.
#[test]
fn rules_as_json_give_bruck_its_radix() {
    let with = |rule: &str| {
        let text = format!(r#"{{"collectives": {{"allgather": [{{"rules": [{{{rule}}}]}}]}}}}"#);
        let policy = file(&text);
        let choice = policy.choose(&chars(C::AllGather, 6, 1 << 10)).unwrap();
        (matches!(choice.runs, Runs::Parts(_)), choice.force.concat())
    };
    let radix = |rule: &str| {
        let (priced, line) = with(rule);
        (priced, line.split_once("allgather_algorithm_tree_fanout ").map(|(_, k)| k.to_owned()))
    };
    assert_eq!(radix(r#""alg": "bruck-k-fanout", "faninout": 2"#), (true, Some("2".to_owned())));
    assert_eq!(radix(r#""alg": 2, "faninout": 4"#), (false, Some("4".to_owned())));
    // Six ranks are no power of two: it falls back to a radix of 2.
    assert_eq!(
        radix(r#""alg": "recursive_doubling", "faninout": 4"#),
        (true, Some("2".to_owned()))
    );
    assert_eq!(radix(r#""alg": "ring""#), (true, None));
    let own = file(r#"{"collectives": {"allreduce": [{"rules": [{"alg": 4}]}]}}"#);
    let line = own.force(&chars(C::AllGather, 6, 1 << 10), "bruck").unwrap();
    assert!(
        line.ends_with("allgather_algorithm 2 --mca coll_tuned_allgather_algorithm_tree_fanout 2")
    );
    // Older releases have no radix.
    let text = file("1\n0 1\n2 1\n0 2 4 0\n").choose(&chars(C::AllGather, 6, 1 << 10)).unwrap();
    assert!(matches!(text.runs, Runs::Parts(_)) && text.force[0].ends_with("algorithm 2"));
}

/// v4.1.6 `coll_base_functions.h`, `COLL_BASE_COMPUTED_SEGCOUNT`, and `coll_base_allreduce.c`.
#[test]
fn segments_of_open_mpi_are_whole_elements() {
    let doubles = |coll: u32, rule: &str, collective, size| {
        let policy = file(&format!("1\n{coll} 1\n2 1\n0 {rule}\n"));
        policy.choose(&Call { element: Bytes(8), ..Call::new(collective, 8, Bytes(size)) }).unwrap()
    };
    let segment = |asked: u64| {
        let choice = doubles(7, &format!("3 0 {asked}"), C::Broadcast, 1 << 20);
        let Runs::Parts(parts) = choice.runs else { panic!("{asked}") };
        let is_noted = choice.notes.concat().contains("sent in one piece");
        (parts[0].segment, is_noted)
    };
    for (asked, bytes) in [(8, 8), (1000, 1000), (1004, 1000), (1005, 1008), (1008, 1008)] {
        assert_eq!(segment(asked), (Some(Bytes(bytes)), false), "{asked}");
    }
    // Less than an element does not cut.
    assert_eq!([segment(0), segment(4), segment(7)], [(None, false), (None, true), (None, true)]);
    let name = |segment: u64| doubles(2, &format!("5 0 {segment}"), C::AllReduce, 1024).name;
    assert_eq!([name(4), name(0), name(8)], ["ring", "ring", "segmented_ring"]);
    let chains = doubles(7, "2 3 0", C::Broadcast, 1024);
    assert!(chains.force[0].ends_with("bcast_algorithm_chain_fanout 3"), "{chains:?}");
}

/// v4.0.3 and v4.2.3 `src/mpi/coll/src/csel.c`, `src/mpi/comm/commutil.c`.
#[test]
fn a_selection_tree_knows_what_a_communicator_is() {
    let leaf = |name: &str| format!("{{\"algorithm=MPIR_Allgather_intra_{name}\": {{}}}}");
    let picked = |test: &str, nodes, ranks| {
        let (then, other) = (leaf("ring"), leaf("brucks"));
        let text =
            format!("{{\"collective=allgather\": {{\"{test}\": {then}, \"any\": {other}}}}}");
        let call = Call { nodes, ..chars(C::AllGather, ranks, 1 << 10) };
        let choice = file(&text).choose(&call).unwrap();
        // csel.c of 5.0.0 and 5.0.1 has one kind that is no parent.
        let other = choice.notes.concat().contains("MPICH 5.0 runs MPIR_Allgather_intra_");
        assert_eq!(other, test == "comm_hierarchy=node_roots" && nodes == ranks, "{choice:?}");
        choice.name == "ring"
    };
    // One node, nodes of several ranks, and of one.
    for (test, held) in [
        ("comm_hierarchy=parent", [true, true, false]),
        ("comm_hierarchy=flat", [false, false, true]),
        ("comm_hierarchy=node_roots", [false, false, false]),
        ("comm_size=node_comm_size", [true, false, false]),
        ("comm_avg_ppn<=1", [false, false, true]),
        ("comm_avg_ppn<=8", [true, true, true]),
    ] {
        let holds = [(1, 8), (2, 16), (8, 8)].map(|(nodes, ranks)| picked(test, nodes, ranks));
        assert_eq!(holds, held, "{test}");
    }
    let leaf = |name: &str| format!("{{\"algorithm=MPIR_Allreduce_intra_{name}\": {{}}}}");
    let [first, second, other] = ["recursive_doubling", "ring", "smp"].map(leaf);
    let reduce = "{\"algorithm=MPIR_Reduce_intra_binomial\": {}}";
    let bcast = "{\"algorithm=MPIR_Bcast_intra_binomial\": {}}";
    let policy = file(&format!(
        "{{\"collective=allreduce\": {{\"comm_hierarchy=node\": {first}, \
         \"comm_hierarchy=node_roots\": {second}, \"any\": {other}}}, \
         \"collective=reduce\": {reduce}, \"collective=bcast\": {bcast}}}"
    ));
    let choice = policy.choose(&Call { nodes: 4, ..chars(C::AllReduce, 32, 1 << 20) }).unwrap();
    assert!(choice.name.contains(", ring,"), "{}", choice.name);
    assert!(choice.rule.contains("comm_hierarchy=node_roots: ring"), "{}", choice.rule);
    let later = "MPICH 5.0 runs MPIR_Allreduce_intra_recursive_doubling there";
    assert!(choice.notes.concat().contains(later), "{choice:?}");
    // 5.0 does not know between how many nodes leaders are.
    let policy = file(&format!(
        "{{\"collective=allreduce\": {{\"comm_avg_ppn<=1\": {second}, \"any\": {first}}}, \
         \"collective=reduce\": {reduce}, \"collective=bcast\": {bcast}}}"
    ));
    let choice = policy.choose(&Call { nodes: 4, ..chars(C::AllReduce, 32, 1 << 20) }).unwrap();
    assert!(choice.name.contains(", ring,"), "{}", choice.name);
    assert!(choice.notes.concat().contains(later), "{choice:?}");
}

#[test]
fn a_selection_tree_decides_below_the_compositions() {
    let policy = file(TREE);
    let name = |nodes, ranks, size| {
        let call = Call { nodes, ..chars(C::AllReduce, ranks, size) };
        policy.choose(&call).unwrap().name.into_owned()
    };
    assert_eq!(name(8, 8, 131_072), "recursive_doubling");
    assert_eq!(name(8, 8, 131_073), "reduce_scatter_allgather");
    let missing = policy.choose(&Call { nodes: 2, ..chars(C::Broadcast, 16, 1) });
    assert!(missing.err().unwrap().to_string().contains("bcast"));
}

/// v4.0.3 to v5.0.1 `src/mpi/coll/src/csel.c`: `get_count` adds the counts of an allgatherv and a reduce_scatter,
/// and `get_total_msgsize` of gathers and scatters leaves the size of an element out.
#[test]
fn sizes_of_a_selection_tree_count_what_csel_counts() {
    let turns = |name: &str, test: &str, [first, then]: [&str; 2], call: Call| {
        let stem = format!("MPIR_{}{}", name[..1].to_uppercase(), &name[1..]);
        let any = test.split('<').next().unwrap();
        let policy = file(&format!(
            "{{\"collective={name}\": {{\"{test}\": {{\"algorithm={stem}_{first}\": {{}}}}, \
             \"{any}=any\": {{\"algorithm={stem}_{then}\": {{}}}}}}}}"
        ));
        let found = intervals(&*policy, &call, Bytes(1), Bytes(1 << 20)).unwrap();
        found[1..].iter().map(|i| i.from.0).collect::<Vec<_>>()
    };
    let of = |collective, ranks, element, flavour| Call {
        flavour,
        element: Bytes(element),
        ..Call::new(collective, ranks, Bytes(1))
    };
    let (halves, block) = (["intra_recursive_halving", "intra_pairwise"], Flavour::Block);
    let scatter = |flavour| of(C::ReduceScatter, 8, 4, flavour);
    assert_eq!(turns("reduce_scatter", "count<=1000", halves, scatter(Flavour::Plain)), [4004]);
    assert_eq!(turns("reduce_scatter_block", "count<=1000", halves, scatter(block)), [32_032]);
    let (rounds, gather) =
        (["intra_brucks", "intra_ring"], |flavour| of(C::AllGather, 8, 4, flavour));
    assert_eq!(turns("allgatherv", "count<=1000", rounds, gather(Flavour::Vector)), [4004]);
    assert_eq!(turns("allgather", "count<=1000", rounds, gather(Flavour::Plain)), [32_032]);
    // 170 doubles of each of six ranks are at most 1024 elements.
    let tree = ["intra_binomial", "allcomm_nb"];
    for (name, collective) in [("gather", C::Gather), ("scatter", C::Scatter)] {
        let call = of(collective, 6, 8, Flavour::Plain);
        assert_eq!(turns(name, "total_msg_size<=1024", tree, call), [171 * 6 * 8]);
    }
}

/// src/mpi/coll/src/csel.c compares `comm_size<N` with `<=` at the call, in a file as in the own tree.
#[test]
fn a_bound_that_lets_its_own_number_pass_is_noted() {
    let at = |policy: &dyn Policy, collective, ranks| {
        policy.choose(&Call { nodes: ranks, ..chars(collective, ranks, 64) }).unwrap()
    };
    let noted = |choice: &Choice| choice.notes.concat().contains("csel.c");
    let own = policy("mpich@4", &site()).unwrap();
    let (eight, nine) = (at(&*own, C::AllToAll, 8), at(&*own, C::AllToAll, 9));
    assert!(eight.rule.contains(": at most 8 ranks, at most 32768 bytes: "), "{}", eight.rule);
    assert!(nine.rule.contains(": not below 8 ranks, at most 256 bytes: "), "{}", nine.rule);
    assert_eq!((noted(&eight), noted(&nine)), (true, false));
    let tree = file(
        r#"{"collective=allreduce": {
          "is_commutative=yes": {
            "comm_size<4": {"algorithm=MPIR_Allreduce_intra_ring": {}},
            "comm_size=any": {"algorithm=MPIR_Allreduce_intra_recursive_doubling": {}}},
          "is_commutative=no": {"algorithm=MPIR_Allreduce_intra_recursive_doubling": {}}}}"#,
    );
    let (four, five) = (at(&*tree, C::AllReduce, 4), at(&*tree, C::AllReduce, 5));
    assert_eq!((&*four.name, &*five.name), ("ring", "recursive_doubling"));
    assert_eq!((noted(&four), noted(&five)), (true, false));
}

#[test]
fn the_first_line_of_the_plugins_table_decides() {
    let policy = file(CSV);
    let at = |size| policy.choose(&chars(C::AllReduce, 8, size)).unwrap();
    assert_eq!(at(32_768).name, "tree / ll, 1 channel");
    assert_eq!(at(32_769).name, "ring / ll128, 4 channels");
    assert_eq!(at(4_194_305).name, "NCCL's own choice");
    assert!(policy.choose(&chars(C::AllToAll, 8, 1)).is_err());
}

/// `plugin.c` goes on to the next line where NCCL's table says IGNORE; broadcasts have rings alone, and
/// NVLS over nodes needs a network that reduces.
#[test]
fn a_line_that_nccl_does_not_consider_gives_way_to_the_next() {
    let text = "allreduce,0,MAX,nvls,simple,4,-1,-1\nallreduce,0,MAX,tree,simple,8,-1,-1\n\
                broadcast,0,MAX,tree,simple,8,-1,-1\nbroadcast,0,MAX,ring,ll,8,-1,-1\n\
                allgather,0,MAX,pat,simple,8,-1,-1\nreducescatter,0,MAX,nvls,ll,8,-1,-1\n"
        .replace("MAX", "4294967295");
    let unknown = Site { nccl_graphs: None, ..site() };
    for (site, first) in
        [(site(), "tree / simple, 8 channels"), (unknown, "nvls / simple, 4 channels")]
    {
        let policy = of_file(read_rules(&text, "rules").unwrap(), "rules", &site).unwrap();
        let at = |collective| {
            let call = Call { nodes: 2, ..Call::new(collective, 16, Bytes(16 << 20)) };
            policy.choose(&call).unwrap()
        };
        assert_eq!(at(C::AllReduce).name, first);
        let broadcast = at(C::Broadcast);
        assert_eq!(broadcast.name, "ring / ll, 8 channels");
        let [turned] = &broadcast.fell_back[..] else { panic!("{broadcast:?}") };
        assert_eq!(turned.from, "tree / simple");
        assert_eq!(turned.why, "rules:3: NCCL does not consider it");
        assert_eq!(at(C::AllGather).name, "NCCL's own choice");
        assert_eq!(at(C::ReduceScatter).name, "NCCL's own choice");
    }
}

/// `collcost nccl choose` says the same with the same variables, type and operation.
#[test]
fn nccl_heeds_variables_types_and_operations() {
    let chosen = |variables: &[&str], dtype: Option<DataType>, builtin_op: bool| {
        let mut conditions = Conditions { dtype, ..Conditions::default() };
        variables.iter().for_each(|text| conditions.variables.put(text).unwrap());
        let site = Site { conditions, ..site() };
        let call = Call { nodes: 2, builtin_op, ..Call::new(C::AllReduce, 16, Bytes(16 << 20)) };
        policy("nccl@2.30.7", &site)?.choose(&call)
    };
    let name = |choice: Result<Choice, Error>| choice.unwrap().name.into_owned();
    assert_eq!(name(chosen(&[], None, true)), "NVLSTree/Simple");
    assert_eq!(name(chosen(&["NCCL_ALGO=Ring"], None, true)), "Ring/LL128");
    assert_eq!(name(chosen(&["NCCL_ALGO=Ring", "NCCL_PROTO=LL"], None, true)), "Ring/LL");
    // No switch adds these; and NCCL keeps sums in 8 bits off long rings.
    assert_eq!(name(chosen(&[], Some(DataType::I8), true)), "Ring/LL128");
    assert_eq!(name(chosen(&[], Some(DataType::F8e4m3), true)), "Tree/LL128");
    assert_eq!(name(chosen(&[], None, false)), "Ring/LL128");
    let foreign = chosen(&["VLLM_ALLREDUCE_USE_SYMM_MEM=0"], None, true).unwrap();
    assert!(foreign.notes.concat().contains("`VLLM_ALLREDUCE_USE_SYMM_MEM` is not a variable"));
    for wrong in ["NCCL_ALGOS=Ring", "NCCL_NTHREADS=many", "NCCL_ALGO=Rong"] {
        assert!(chosen(&[wrong], None, true).is_err(), "{wrong}");
    }
    assert!(chosen(&[], Some(DataType::I16), true).is_err());
}

#[test]
fn a_number_that_the_library_does_not_have_is_named_with_its_line() {
    let policy = read_rules("1\n2 1\n2 1\n0 9 0 0\n", "rules")
        .and_then(|rules| of_file(rules, "rules", &site()));
    let text = policy
        .and_then(|p| p.choose(&chars(C::AllReduce, 8, 1)))
        .err()
        .map_or(String::new(), |e| e.to_string());
    assert!(text.contains("rules:4"), "{text}");
}

// Every policy.

/// The policies that answer any call. The tuners of NCCL and RCCL answer for one communicator: `tests/engine/nccl.rs`,
/// `tests/engine/rccl.rs`.
fn listed() -> impl Iterator<Item = &'static Entry> {
    POLICIES.iter().filter(|entry| !entry.id.contains("ccl@"))
}

/// The policies of the list, and those of the files.
fn any_policy(which: usize) -> Box<dyn Policy> {
    match which.checked_sub(listed().count()) {
        Some(i) => file([DYNAMIC, TREE, CSV][i]),
        None => listed().nth(which).unwrap().make(&site()).unwrap(),
    }
}

fn operations() -> impl Strategy<Value = Operation> {
    let plain = proptest::sample::select(C::ALL).prop_map(Operation::from);
    const VARIANTS: &[&str] = &["alltoallv", "allgatherv", "reduce_scatter_block"];
    let variant = proptest::sample::select(VARIANTS).prop_map(|t| t.parse().unwrap());
    prop_oneof![4 => plain, 1 => variant]
}

fn calls() -> impl Strategy<Value = Call> {
    let ranks = prop_oneof![1_u32..40, 40_u32..3000, Just(4096), Just(65_536)];
    let element = proptest::sample::select(vec![1_u64, 2, 4, 8, 12, 16]);
    (operations(), ranks, 0_u32..5, element, any::<[bool; 3]>()).prop_map(
        |(operation, ranks, halvings, element, [commutative, builtin, in_place])| {
            let nodes = 1 << halvings;
            let nodes = if ranks % nodes == 0 { nodes } else { 1 };
            Call {
                flavour: operation.flavour,
                nodes,
                element: Bytes(element),
                commutative,
                builtin_op: builtin && commutative,
                in_place,
                ..Call::new(operation.collective, ranks, Bytes(0))
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// No size inside an interval is chosen for in another way than its first one.
    #[test]
    fn intervals_are_what_every_size_by_itself_says(
        call in calls(),
        which in 0..listed().count() + 3,
        sizes in proptest::collection::vec(0_u64..1 << 34, 60),
    ) {
        let policy = any_policy(which);
        // A file may say nothing of a collective, which shows at the call.
        let (Ok(edges), Ok(_)) = (policy.edges(&call), policy.choose(&call)) else {
            prop_assert!(intervals(&*policy, &call, Bytes(0), Bytes(1)).is_err());
            return Ok(());
        };
        let found = intervals(&*policy, &call, Bytes(0), Bytes(1 << 34)).unwrap();
        let near = edges.iter().flat_map(|e| e.0.saturating_sub(2)..e.0.saturating_add(3));
        let powers = (0..34).map(|k| 1_u64 << k);
        let dense = 0..600;
        let ranks = u64::from(call.ranks);
        let blocks = (0..24).flat_map(|k| [(1 << k) * ranks, ((1 << k) * ranks).saturating_sub(1)]);
        for size in dense.chain(near).chain(powers).chain(blocks).chain(sizes) {
            if size > 1 << 34 {
                continue;
            }
            let choice = policy.choose(&call.with_size(Bytes(size))).unwrap();
            let inside = found.iter().find(|i| i.from.0 <= size && size <= i.to.0).unwrap();
            prop_assert!(
                inside.choice.is_alike(&choice),
                "{} {size}: {:?} is not {:?}", policy.meta().id, choice, inside.choice,
            );
        }
    }

    /// Intervals join without gaps and tell neighbours apart.
    #[test]
    fn intervals_cover_the_range_once(call in calls(), which in 0..listed().count() + 3) {
        let policy = any_policy(which);
        let Ok(found) = intervals(&*policy, &call, Bytes(3), Bytes(1 << 30)) else { return Ok(()) };
        prop_assert_eq!(found[0].from, Bytes(3));
        prop_assert_eq!(found[found.len() - 1].to, Bytes(1 << 30));
        for pair in found.windows(2) {
            prop_assert_eq!(pair[0].to.0 + 1, pair[1].from.0);
            prop_assert!(!pair[0].choice.is_alike(&pair[1].choice));
        }
    }

    /// What runs is in the registry, and is priced or says why not.
    #[test]
    fn what_runs_is_known_and_priced(
        call in calls(),
        size in 0_u64..1 << 30,
        which in 0..listed().count() + 3,
    ) {
        let policy = any_policy(which);
        let call = Call { nodes: 1, ..call.with_size(Bytes(size)) };
        let Ok(choice) = policy.choose(&call) else { return Ok(()) };
        let registry = Registry::builtin();
        if let Runs::Parts(parts) = &choice.runs {
            prop_assert!(!parts.is_empty() || call.ranks < 2);
            for part in parts {
                prop_assert!(registry.find(part.collective, part.algorithm).is_ok(), "{:?}", part);
            }
        }
        if call.ranks > 1 {
            let fabric = Fabric::flat(Seconds(1e-6), Bandwidth(1e10));
            let shape = Shape::new(call.collective, call.ranks);
            let priced = priced(&registry, &choice, &shape, &fabric, call.size);
            prop_assert!(priced.is_ok(), "{:?} {:?}", call, priced);
        }
        prop_assert!(!choice.rule.is_empty() && !choice.name.is_empty());
    }
}

/// Also where a fold leaves fewer ranks than a node has.
#[test]
fn no_choice_of_an_mpi_library_is_priced_below_the_bound() {
    let link = |span, alpha, rate| Tier {
        span: NonZeroU32::new(span),
        ..Tier::new("link", Seconds(alpha), Bandwidth(rate))
    };
    let registry = Registry::builtin();
    let mut faults = Vec::new();
    for id in ["openmpi@3", "openmpi@4.0", "openmpi@4.1", "openmpi@5.0", "mpich@4", "mpich@4.0"] {
        let policy = policy(id, &site()).unwrap();
        for (span, ranks) in (2..=8).flat_map(|span| (span + 1..=26).map(move |n| (span, n))) {
            let fabric = Fabric {
                node: Some(0),
                ..Fabric::new(vec![link(span, 1e-6, 1e11), link(0, 30e-6, 1e9)])
            };
            for (&collective, size) in C::ALL.iter().flat_map(|c| [64, 1 << 20].map(|s| (c, s))) {
                let call = Call {
                    nodes: ranks.div_ceil(span),
                    ..Call::new(collective, ranks, Bytes(size))
                };
                let Ok(choice) = policy.choose(&call) else { continue };
                let shape = fabric.shape(collective, ranks).unwrap();
                let Ok(found) = priced(&registry, &choice, &shape, &fabric, call.size) else {
                    continue;
                };
                let least = bound(&shape, call.size.into(), &fabric).unwrap().time();
                if let Some(time) = found.time().filter(|time| time.0 < least.0 * (1.0 - 1e-9)) {
                    let name = &choice.name;
                    faults.push(format!(
                        "{id} {collective} {size} B, {ranks} of {span}: {name} {time}, bound {least}"
                    ));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn bad_questions_are_refused() {
    let uneven = Site { ranks: 1024, nodes: 15, ..site() };
    let nccl = policy("nccl", &uneven).unwrap();
    let error = nccl.choose(&Call::new(C::Reduce, 1024, Bytes(1 << 30))).unwrap_err().to_string();
    assert!(error.contains("15 nodes") && error.contains("--gpus-per-node"), "{error}");
    assert!(policy("openmpy", &site()).err().unwrap().to_string().contains("`openmpi`"));
    let none = policy("textbook", &Site::default()).err().unwrap();
    assert!(none.is_unknown());
    let call = chars(C::ReduceScatter, 8, 1);
    assert!(named("gloo").choose(&call).err().unwrap().is_unsupported());
    let empty = intervals(&*named("gloo"), &chars(C::AllReduce, 8, 1), Bytes(2), Bytes(1));
    assert!(empty.err().unwrap().is_input());
}

//! RCCL's choices beside those of its own code.

use collcost::base::dtype::DataType;
use collcost::base::quantity::{Bytes, Ratio};
use collcost::library::{Call, Choice, Interval, Runs, Site, intervals, policy};
use collcost::machine::profile::Profile;
use std::collections::BTreeMap;
use std::num::NonZeroU32;

fn site(machine: &str, ranks: u32, nodes: u32) -> Site {
    let hardware = Profile::builtin(machine).unwrap().hardware();
    Site { machine: machine.into(), ranks, nodes, hardware, ..Site::default() }
}

fn chosen(name: &str, machine: &str, call: &Call) -> Choice {
    policy(name, &site(machine, call.ranks, call.nodes)).unwrap().choose(call).unwrap()
}

/// What `tools/topo_expl` of RCCL says, from the first element to 4 GiB of a rank: the first size of every choice.
#[test]
fn every_choice_is_that_of_its_own_code() {
    let mut told: BTreeMap<_, Vec<(u64, &str)>> = BTreeMap::new();
    let rows =
        include_str!("../data/rccl_choices.csv").lines().filter(|line| !line.starts_with('#'));
    for row in rows.skip(1) {
        let [machine, ranks, nodes, collective, from, choice] =
            row.split(',').collect::<Vec<_>>().try_into().unwrap();
        let at = (machine, ranks.parse().unwrap(), nodes.parse().unwrap(), collective);
        told.entry(at).or_default().push((from.parse().unwrap(), choice));
    }
    assert_eq!(told.len(), 90);
    for ((machine, ranks, nodes, collective), told) in told {
        let policy = policy("rccl@2.28", &site(machine, ranks, nodes)).unwrap();
        let call = Call { nodes, ..Call::new(collective.parse().unwrap(), ranks, Bytes(1)) };
        let name = |size| policy.choose(&call.with_size(Bytes(size))).unwrap().name.into_owned();
        // Around a change, times that round to the same float32 may alternate; its own code was asked on both sides.
        let grain = told[0].0;
        for pair in told.windows(2) {
            let [(from, here), (next, then)] = [pair[0], pair[1]];
            let at = [name(from), name(next - grain), name(next)];
            assert_eq!(at, [here, here, then], "{machine} {ranks} {nodes} {collective} {next}");
        }
        // Its table ends at 2^31 elements of a count.
        let (first, last) = (Bytes(grain), Bytes((8 << 30) * (grain / 4)));
        let ours = intervals(&*policy, &call, first, last).unwrap();
        let near = |own: u64, of: u64| own.abs_diff(of) <= of >> 16;
        let alike = |(own, told): (&Interval, &(u64, &str))| {
            near(own.from.0, told.0) && own.choice.name == told.1
        };
        let whole = ours.len() == told.len() && ours.iter().zip(&told).all(alike);
        assert!(whole, "{machine} {ranks} {nodes} {collective}: {ours:?} {told:?}");
    }
}

/// 2.27.7 runs schedules of MSCCL among eight GPUs, up to the sizes in tools/msccl-algorithms.
#[test]
fn release_2_27_runs_schedules_of_msccl_inside_a_node() {
    use collcost::Collective::{AllReduce, AllToAll};
    let name = |release, collective, ranks, nodes, size| {
        let call = Call { nodes, ..Call::new(collective, ranks, Bytes(size)) };
        chosen(release, "mi300x", &call).name.into_owned()
    };
    let old = |collective, size| name("rccl@2.27", collective, 8, 1, size);
    assert_eq!([1024, 65_536, 522_240].map(|size| old(AllReduce, size)), ["MSCCL/LL"; 3]);
    // A number of elements that is no multiple of 512.
    assert_eq!(old(AllReduce, 1_000_000), name("rccl@2.28", AllReduce, 8, 1, 1_000_000));
    assert_eq!([524_288, 20_971_520].map(|size| old(AllReduce, size)), ["MSCCL/Simple"; 2]);
    assert_eq!(old(AllReduce, 20_971_524), "Ring/Simple");
    assert_eq!(old(AllToAll, 45_088_768), "MSCCL/Simple");
    assert_eq!(old(AllToAll, 45_088_776), "SendRecv");
    for (ranks, nodes) in [(4, 1), (16, 2)] {
        let of = |release| name(release, AllReduce, ranks, nodes, 4096);
        assert_eq!(of("rccl@2.27"), of("rccl@2.28"));
    }
}

/// What is decided before the tuner has conditions of its own: multiples of elements, operations, calls in place.
#[test]
fn schedules_of_msccl_run_what_they_divide_alone() {
    use collcost::Collective::{AllReduce, AllToAll};
    let call = |collective, size| Call::new(collective, 8, Bytes(size));
    let name = |call: &Call| chosen("rccl@2.27", "mi300x", call).name.into_owned();
    assert_eq!(name(&call(AllReduce, 4)), "Ring/LL");
    assert_eq!(name(&Call { builtin_op: false, ..call(AllReduce, 1 << 20) }), "Ring/Simple");
    assert_eq!(name(&Call { in_place: true, ..call(AllToAll, 1 << 20) }), "SendRecv");
    let scaled = Call { builtin_op: false, ..call(AllReduce, 1) };
    let of = |machine, call: &Call| {
        let policy = policy("rccl@2.27", &site(machine, 8, 1)).unwrap();
        let found = intervals(&*policy, call, Bytes(4), Bytes(1 << 30)).unwrap();
        found.iter().map(|own| (own.from.0, own.choice.name.to_string())).collect::<Vec<_>>()
    };
    let told =
        |all: &[(u64, &str)]| all.iter().map(|&(at, of)| (at, of.to_owned())).collect::<Vec<_>>();
    assert_eq!(of("mi300x", &scaled), told(&[(4, "Ring/LL"), (387_340, "Ring/Simple")]));
    let all = of("mi355x", &call(AllReduce, 1));
    assert_eq!(all[..3], told(&[(4, "Ring/LL"), (64, "Tree/LL"), (1024, "MSCCL/LL")])[..]);
}

#[test]
fn what_goes_before_the_tuner_is_switched_off_to_force_an_algorithm() {
    use collcost::Collective::{AllGather, AllReduce};
    let direct = Call::new(AllGather, 8, Bytes(1 << 20));
    let choice = chosen("rccl@2.28", "mi300x", &direct);
    assert!(
        choice.name == "Direct" && choice.force.is_empty() && choice.rule.contains("4194304 B"),
        "{choice:?}"
    );
    let force = |name, call: &Call| {
        let policy = policy(name, &site("mi300x", 8, 1)).unwrap();
        policy.force(call, "ring").unwrap()
    };
    assert_eq!(force("rccl@2.28", &direct), "NCCL_ALGO=Ring RCCL_DIRECT_ALLGATHER_THRESHOLD=-1");
    let sum = Call::new(AllReduce, 8, Bytes(1 << 20));
    assert_eq!(force("rccl@2.27", &sum), "NCCL_ALGO=Ring RCCL_MSCCL_ENABLE=0");
    assert_eq!(force("rccl@2.28", &sum), "NCCL_ALGO=Ring");
    assert_eq!(force("rccl@2.30", &sum), "NCCL_ALGO=Ring RCCL_DDA_ENABLE=0");
    assert_eq!(
        force("rccl@2.30", &direct),
        "NCCL_ALGO=Ring RCCL_DDA_ENABLE=0 RCCL_DIRECT_ALLGATHER_THRESHOLD=-1"
    );
}

fn named(machine: &str, nodes: u32, collective: collcost::Collective, size: u64) -> String {
    let call = Call { nodes, ..Call::new(collective, 8 * nodes, Bytes(size)) };
    chosen("rccl@2.30", machine, &call).name.into_owned()
}

/// The limits of `rcclDdaEnabled` and of `kDdaFlatTreeThresholdBytes`, both inclusive.
#[test]
fn release_2_30_reads_the_memory_of_eight_gpus() {
    use collcost::Collective::{AllGather, AllReduce, AllToAll, Broadcast, ReduceScatter};
    let last = |machine, collective, most| {
        [most, most + 128].map(|size| named(machine, 1, collective, size))
    };
    assert_eq!(last("mi300x", AllReduce, 256 << 10), ["DDA/flat", "DDA/tree"]);
    assert_eq!(last("mi300x", AllReduce, 8 << 20), ["DDA/tree", "Ring/Simple"]);
    assert_eq!(last("mi355x", AllReduce, 64 << 20), ["DDA/tree", "Ring/Simple"]);
    assert_eq!(last("mi300x", AllGather, 8 << 20), ["DDA", "Ring/Simple"]);
    assert_eq!(last("mi355x", AllGather, 64 << 20), ["DDA", "Ring/Simple"]);
    assert_eq!(last("mi300x", ReduceScatter, 8 << 20), ["DDA", "Ring/Simple"]);
    assert_eq!(last("mi300x", AllToAll, 4 << 20), ["DDA", "SendRecv"]);
    assert_eq!(last("mi355x", AllToAll, 64 << 20), ["DDA", "SendRecv"]);
    assert_eq!(named("mi300x", 1, Broadcast, 1024), "Ring/LL");
    // Reads of 16 B; a block of every rank in two steps.
    let odd = [8, 24, (256 << 10) + 16, (256 << 10) + 128];
    let names = odd.map(|size| named("mi300x", 1, AllReduce, size));
    assert_eq!(names, ["Ring/LL", "Ring/LL", "Ring/LL", "DDA/tree"]);
    assert_eq!(named("mi300x", 1, AllGather, 8 * 20), "Direct");
    let call = Call::new(AllReduce, 8, Bytes(1 << 20));
    let other = |call: &Call| chosen("rccl@2.30", "mi300x", call).name.into_owned();
    assert_eq!(other(&Call { builtin_op: false, ..call }), "Ring/Simple");
    assert_eq!(other(&Call { element: Bytes(8), ..call }), "Ring/Simple");
    assert_eq!(other(&Call { ranks: 4, ..call }), "Ring/Simple");
    for (dtype, name) in [(DataType::Bf16, "DDA/tree"), (DataType::I32, "Ring/Simple")] {
        let mut site = site("mi300x", 8, 1);
        site.conditions.dtype = Some(dtype);
        let call = Call { element: dtype.bytes(), ..call };
        let policy = policy("rccl@2.30", &site).unwrap();
        assert_eq!(policy.choose(&call).unwrap().name, name);
    }
}

/// The table `rccl_tuner_gfx950.csv`, and the limit of LL: what DDA does not take, products here. With two GPUs
/// neither the table nor the rule of trees in 2.28 applies.
#[test]
fn release_2_30_reads_a_table_on_mi355x() {
    use collcost::Collective::{AllReduce, ReduceScatter};
    let products = |release, ranks, collective, size| {
        let call = Call { builtin_op: false, ..Call::new(collective, ranks, Bytes(size)) };
        chosen(release, "mi355x", &call).name.into_owned()
    };
    let new = |size| products("rccl@2.30", 8, AllReduce, size);
    let sizes = [4, 16_380, 16_384, 2_097_000, 2_097_004, 1 << 30];
    let names = sizes.map(new);
    assert_eq!(names[..4], ["Tree/LL", "Tree/LL", "Ring/LL", "Ring/LL"]);
    assert_eq!(names[4..], ["Ring/Simple"; 2]);
    let scatter = |release, each: u64| products(release, 8, ReduceScatter, 8 * each);
    assert_eq!(scatter("rccl@2.28", 1 << 20), "Ring/LL");
    let last = [131_072, 131_076].map(|each| scatter("rccl@2.30", each));
    assert_eq!(last, ["Ring/LL", "Ring/Simple"]);
    let pair = |release| products(release, 2, AllReduce, 4096);
    assert_eq!([pair("rccl@2.28"), pair("rccl@2.30")], ["Tree/LL", "Ring/LL"]);
}

/// The limits of `rcclUseHierarchicalAllGather` and `rcclUseReduceScatterDirect`.
#[test]
fn release_2_30_gathers_between_nodes_then_inside_them() {
    use collcost::Collective::{AllGather, ReduceScatter};
    let gather = |machine, nodes, mib: u64| named(machine, nodes, AllGather, mib << 20);
    assert_eq!(gather("mi355x", 7, 1), "Direct");
    assert_eq!([64, 65].map(|mib| gather("mi355x", 8, mib)), ["Hier", "Ring/LL128"]);
    assert_eq!([64, 65].map(|mib| gather("mi300x", 15, mib)), ["Hier", "Ring/LL128"]);
    assert_eq!([128, 129].map(|mib| gather("mi355x", 16, mib)), ["Hier", "Ring/LL128"]);
    let parts = |machine, nodes, mib: u64| {
        let call = Call { nodes, ..Call::new(AllGather, 8 * nodes, Bytes(mib << 20)) };
        let Runs::Parts(parts) = chosen("rccl@2.30", machine, &call).runs else { panic!() };
        assert_eq!([parts[0].ranks, parts[1].ranks], [nodes, 8]);
        assert_eq!([parts[0].moves, parts[1].moves], [Ratio(0.125), Ratio(1.0)]);
        [parts[0].algorithm, parts[1].algorithm]
    };
    assert_eq!(parts("mi355x", 8, 8), ["pairwise", "pairwise"]);
    assert_eq!(parts("mi355x", 8, 64), ["pairwise", "ring"]);
    assert_eq!(parts("mi300x", 8, 32), ["pairwise", "ring"]);
    assert_eq!(parts("mi300x", 8, 40), ["ring", "ring"]);
    assert_eq!(parts("mi300x", 16, 40), ["pat", "ring"]);
    assert_eq!(parts("mi355x", 12, 4), ["pat", "pairwise"]);
    let scatter = |machine, nodes, size| named(machine, nodes, ReduceScatter, size);
    assert_eq!(scatter("mi355x", 4, 4 << 20), "Direct");
    assert_ne!(scatter("mi355x", 4, (4 << 20) + 128), "Direct");
    assert_eq!(scatter("mi355x", 16, 8 << 20), "Direct");
    for (machine, nodes) in [("mi355x", 2), ("mi355x", 12), ("mi300x", 8)] {
        assert_ne!(scatter(machine, nodes, 1 << 20), "Direct", "{machine} {nodes}");
    }
}

/// Between the borders that the policy names, nothing changes: asked in steps.
#[test]
fn the_intervals_of_2_30_are_what_is_chosen_in_them() {
    use collcost::Collective::{AllGather, AllReduce, AllToAll, ReduceScatter};
    for machine in ["mi300x", "mi355x"] {
        for nodes in [1, 2, 4, 8, 12, 16] {
            let policy = policy("rccl@2.30", &site(machine, 8 * nodes, nodes)).unwrap();
            for collective in [AllGather, AllReduce, AllToAll, ReduceScatter] {
                let call = Call { nodes, ..Call::new(collective, 8 * nodes, Bytes(1)) };
                let all = intervals(&*policy, &call, Bytes(4096), Bytes(1 << 31)).unwrap();
                let step = 128 * u64::from(nodes);
                for own in &all {
                    for k in 0..=64 {
                        let size = own.from.0 + (own.to.0 - own.from.0) / 64 * k;
                        let size = size.next_multiple_of(step);
                        if size > own.to.0 {
                            continue;
                        }
                        let there = policy.choose(&call.with_size(Bytes(size))).unwrap();
                        assert!(
                            there.is_alike(&own.choice),
                            "{machine} {nodes} {collective:?} {size}: {there:?} {own:?}"
                        );
                    }
                }
            }
        }
    }
}

/// Sums in 8 bits are kept off long rings.
#[test]
fn eight_bits_take_trees() {
    let mut site = site("mi300x", 16, 2);
    let call = Call {
        nodes: 2,
        element: Bytes(1),
        ..Call::new(collcost::Collective::AllReduce, 16, Bytes(1 << 30))
    };
    let name = |site: &Site| policy("rccl", site).unwrap().choose(&call).unwrap().name.into_owned();
    // The release that its machines were measured with.
    assert_eq!(policy("rccl", &site).unwrap().meta().id, "rccl@2.28");
    assert_eq!(name(&site), "Ring/Simple");
    site.conditions.dtype = Some(DataType::F8e4m3);
    assert_eq!(name(&site), "Tree/Simple");
}

/// Sends need no graph; everything else is known for whole nodes with all their NICs.
#[test]
fn other_machines_and_graphs_are_refused() {
    use collcost::Collective::{AllReduce, AllToAll};
    assert!(
        policy("rccl", &site("dgx-h100", 8, 1)).err().unwrap().to_string().contains("--on mi300x")
    );
    let refused = |site: &Site| {
        let call = Call { nodes: site.nodes, ..Call::new(AllReduce, site.ranks, Bytes(1 << 20)) };
        let policy = policy("rccl", site).unwrap();
        assert!(policy.choose(&Call { collective: AllToAll, ..call }).is_ok());
        policy.choose(&call).unwrap_err().what().to_owned()
    };
    assert_eq!(
        refused(&site("mi300x", 6, 1)),
        "RCCL's graphs of 6 ranks on one node are not known here"
    );
    assert!(refused(&site("mi300x", 8, 2)).contains("8 ranks on 2 nodes"));
    let mut four = site("mi300x", 16, 2);
    let mut fabric = Profile::builtin("mi300x").unwrap().fabric(AllReduce);
    fabric.tiers.last_mut().unwrap().nics = NonZeroU32::new(4);
    four.fabric = Some(fabric);
    assert!(refused(&four).contains("16 ranks on 2 nodes"));
}

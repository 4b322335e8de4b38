//! RCCL's choices beside those of its own code.

use collcost::base::dtype::DataType;
use collcost::base::quantity::Bytes;
use collcost::library::{Call, Choice, Interval, Site, intervals, policy};
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
        let policy = policy("rccl", &site(machine, ranks, nodes)).unwrap();
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
    assert_eq!(old(AllReduce, 1_000_000), name("rccl", AllReduce, 8, 1, 1_000_000));
    assert_eq!([524_288, 20_971_520].map(|size| old(AllReduce, size)), ["MSCCL/Simple"; 2]);
    assert_eq!(old(AllReduce, 20_971_524), "Ring/Simple");
    assert_eq!(old(AllToAll, 45_088_768), "MSCCL/Simple");
    assert_eq!(old(AllToAll, 45_088_776), "SendRecv");
    for (ranks, nodes) in [(4, 1), (16, 2)] {
        let of = |release| name(release, AllReduce, ranks, nodes, 4096);
        assert_eq!(of("rccl@2.27"), of("rccl"));
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
    let choice = chosen("rccl", "mi300x", &direct);
    assert!(
        choice.name == "Direct" && choice.force.is_empty() && choice.rule.contains("4194304 B"),
        "{choice:?}"
    );
    let force = |name, call: &Call| {
        let policy = policy(name, &site("mi300x", 8, 1)).unwrap();
        policy.force(call, "ring").unwrap()
    };
    assert_eq!(force("rccl", &direct), "NCCL_ALGO=Ring RCCL_DIRECT_ALLGATHER_THRESHOLD=-1");
    let sum = Call::new(AllReduce, 8, Bytes(1 << 20));
    assert_eq!(force("rccl@2.27", &sum), "NCCL_ALGO=Ring RCCL_MSCCL_ENABLE=0");
    assert_eq!(force("rccl", &sum), "NCCL_ALGO=Ring");
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

//! RCCL's choices beside those of its own code.

use collcost::base::quantity::Bytes;
use collcost::library::{Call, Choice, Interval, Site, intervals, policy};
use collcost::machine::profile::Profile;
use std::collections::BTreeMap;

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

/// ROCm 7.1 and 7.2 run schedules of MSCCL among eight GPUs, up to the sizes in tools/msccl-algorithms.
#[test]
fn release_2_27_runs_schedules_of_msccl_inside_a_node() {
    use collcost::Collective::{AllReduce, AllToAll};
    let name = |release, collective, ranks, nodes, size| {
        let call = Call { nodes, ..Call::new(collective, ranks, Bytes(size)) };
        chosen(release, "mi300x", &call).name.into_owned()
    };
    let old = |collective, size| name("rccl@2.27", collective, 8, 1, size);
    assert_eq!([65_536, 524_284].map(|size| old(AllReduce, size)), ["MSCCL/LL"; 2]);
    assert_eq!([524_288, 20_971_520].map(|size| old(AllReduce, size)), ["MSCCL/Simple"; 2]);
    assert_eq!(old(AllReduce, 20_971_524), "Ring/Simple");
    assert_eq!(old(AllToAll, 45_088_768), "MSCCL/Simple");
    assert_eq!(old(AllToAll, 45_088_776), "SendRecv");
    for (ranks, nodes) in [(4, 1), (16, 2)] {
        let of = |release| name(release, AllReduce, ranks, nodes, 4096);
        assert_eq!(of("rccl@2.27"), of("rccl"));
    }
}

#[test]
fn other_machines_and_graphs_are_refused() {
    let refused = |machine, ranks, nodes| {
        policy("rccl", &site(machine, ranks, nodes)).err().expect("refused").to_string()
    };
    assert!(refused("dgx-h100", 8, 1).contains("--on mi300x"));
    assert!(refused("mi300x", 6, 1).contains("2, 4 or 8 GPUs"));
    assert!(refused("mi300x", 8, 2).contains("with 8 NICs"));
}

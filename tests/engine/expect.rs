//! Expectations are learned of the carried clusters, and of nothing else.

use std::num::NonZeroU32;

use collcost::Collective;
use collcost::answer::cost;
use collcost::base::error::Result;
use collcost::base::quantity::{Bandwidth, Bytes, Ratio, Seconds, Volume};
use collcost::cost::bound::bound;
use collcost::cost::price::Prepared;
use collcost::cost::rank::Candidate;
use collcost::machine::presets::{SWITCH_HOPS, find};
use collcost::machine::profile::Profile;
use collcost::machine::query::{Given, Layout, Machine, Query};
use collcost::measure::expect::{
    Basis, Clusters, Expectation, Expecting, Learned, NOTHING, Rules, Study,
};
use collcost::model::algorithm::{Library, Registry};
use collcost::model::formula::{Params, Ports, Protocol, Shape};

fn query(machine: &str, collective: Collective, ranks: u32, nodes: u32) -> Query {
    given(machine, collective, (ranks, nodes), &Given::default()).unwrap()
}

fn given(
    machine: &str,
    collective: Collective,
    (ranks, nodes): (u32, u32),
    given: &Given,
) -> Result<Query> {
    let profile = Profile::builtin(machine).unwrap();
    let machine = Machine::on(&profile, "profile", given, collective)?;
    let layout =
        Layout { ranks: NonZeroU32::new(ranks), nodes: NonZeroU32::new(nodes), per_node: None };
    Query::new(machine, collective, Bytes(1), layout, Params::default())
}

/// Giving what the machine has anyway changes nothing: the NICs of half-filled nodes, and the rate in use where ranks
/// have links to each other.
#[test]
fn what_is_given_is_what_is_in_use() {
    let registry = Registry::builtin();
    let time = |query: &Query, size| Expecting::new(&registry, query).unwrap().at(size);
    for (machine, ranks, nodes) in
        [("dgx-h100", 16, 8), ("dgx-a100", 32, 8), ("dgx-b200", 4, 2), ("mi300x", 8, 2)]
    {
        let nics = Given { nics: NonZeroU32::new(ranks / nodes), ..Given::default() };
        for collective in [Collective::AllReduce, Collective::AllGather] {
            let own = query(machine, collective, ranks, nodes);
            let same = given(machine, collective, (ranks, nodes), &nics).unwrap();
            for size in [1 << 13, 1 << 30].map(Bytes) {
                assert_eq!(time(&own, size), time(&same, size), "{machine} {collective:?} {size}");
            }
        }
    }
    // Between hosts as well, where one stream reaches less than the ports: and a faster one never takes longer.
    for machine in ["gcp-c2d", "tcp-25g", "tcp-100g", "efa-100g", "ib-hdr", "ib-edr"] {
        let own = query(machine, Collective::AllReduce, 8, 8);
        let reached = own.machine.fabric.tiers.last().unwrap().link.bandwidth.unwrap();
        let mut before = f64::INFINITY;
        for part in [0.5, 1.0, 1.5, 3.0, 4.0, 6.0, 20.0] {
            let rate = Some(reached * Ratio(part));
            let rate = Given { bandwidth: rate, ..Given::default() };
            let other = given(machine, Collective::AllReduce, (8, 8), &rate).unwrap();
            let found = time(&other, Bytes(1 << 25));
            if part == 1.0 {
                assert_eq!(found, time(&own, Bytes(1 << 25)), "{machine}");
            }
            assert!(found.time.0 <= before, "{machine}, {part} of the rate: {found:?}, {before}");
            before = found.time.0;
        }
    }
    for (machine, ranks) in [("mi300x", 2), ("mi300x", 4), ("dgx-1v", 2), ("perlmutter", 2)] {
        let own = query(machine, Collective::AllReduce, ranks, 1);
        let rate = own.machine.fabric.tiers[0].link.bandwidth;
        let rate = Given { bandwidth: rate, ..Given::default() };
        let same = given(machine, Collective::AllReduce, (ranks, 1), &rate).unwrap();
        assert_eq!(same.machine.fabric.tiers[0].link.bandwidth, rate.bandwidth, "{machine}");
        let (own, same) = [own, same].map(|query| time(&query, Bytes(1 << 30)).time.0).into();
        assert!((own / same - 1.0).abs() < 1e-9, "{machine} {ranks}: {own} {same}");
    }
    // A network alone is between nodes, by either name.
    let rate = Some(Bandwidth(1e11));
    let by =
        |given: Given, nodes| self::given("ib-hdr", Collective::AllReduce, (16, nodes), &given);
    let (own, between) = (
        Given { bandwidth: rate, ..Given::default() },
        Given { bandwidth_inter: rate, ..Given::default() },
    );
    for nodes in [16, 8] {
        let (own, between) = (by(own, nodes).unwrap(), by(between, nodes).unwrap());
        assert_eq!(time(&own, Bytes(1 << 26)), time(&between, Bytes(1 << 26)));
    }
    assert!(by(Given { bandwidth: rate, ..between }, 8).is_err());
}

/// `Ring`, as NCCL prints it, is NCCL's ring over nodes in every collective, though Open MPI calls another one `ring`.
#[test]
fn a_printed_name_is_its_librarys() {
    let registry = Registry::builtin();
    for collective in [Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter] {
        let query = query("dgx-h200", collective, 16, 2);
        let named = |name: &str| registry.find_for(&query.shape, name).unwrap().algorithm.meta().id;
        assert_eq!(named("Ring"), named("nccl:Ring"), "{collective:?}");
        assert_ne!(named("Ring"), named("ring"), "{collective:?}");
    }
}

/// ln of the times and of the widths that one model says over another's, at the most.
fn apart(a: &Learned, b: &Learned) -> (f64, f64) {
    let registry = Registry::builtin();
    let mut most = (0.0_f64, 0.0_f64);
    for (machine, ranks, nodes) in [
        ("dgx-h100", 8, 1),
        ("dgx-h100", 16, 2),
        ("dgx-a100", 64, 8),
        ("dgx-b200", 4, 1),
        ("gb200-nvl72", 72, 1),
        ("p5.48xlarge", 256, 32),
        ("mi300x", 8, 1),
        ("l40s-pcie", 8, 1),
    ] {
        for collective in [Collective::AllReduce, Collective::AllGather, Collective::AllToAll] {
            let query = query(machine, collective, ranks, nodes);
            let of = |learned| Expecting::new(&registry, &query).unwrap().taught(&query, learned);
            let (a, b) = (of(a), of(b));
            for octave in (3..=33).step_by(2) {
                let (a, b) = (a.at(Bytes(1 << octave)), b.at(Bytes(1 << octave)));
                let half = |e: &collcost::measure::expect::Expectation| (e.high.0 / e.time.0).ln();
                most.0 = most.0.max((a.time.0 / b.time.0).ln().abs());
                most.1 = most.1.max((half(&a) - half(&b)).abs());
            }
        }
    }
    most
}

/// The shipped constants, series and bands are what the learning gives; and a machine that is left out
/// is not there. Minutes without optimisation.
#[test]
#[ignore = "a minute: run it after a change of evidence/ or of what learns"]
fn what_is_built_in_is_what_the_clusters_teach() {
    let study = Study::new(&Clusters::built_in().unwrap()).unwrap();
    let learned = study.learned();
    let (time, width) = apart(&learned, Learned::built_in());
    assert!(time < 5e-3 && width < 5e-3, "{time} {width}: run examples/learn.rs");
    // Without B200 and its tables, B200 is another machine.
    let without = study.without("b200_sxm");
    assert!(apart(&learned, &without).0 > 0.02);
    assert_eq!(study.without("no such machine"), learned);
}

/// Two of eight MI300X share one link of seven (4 GiB, github.com/stas00/ml-engineering), a message
/// between two H100 has all of their NVLinks (Hugging Face's "smol training playbook"), and a broadcast
/// brings the whole vector over each link, a half more than a gather of two (B200,
/// github.com/mghpcc/aicr-benchmarks).
#[test]
fn fewer_ranks_have_the_links_between_them() {
    let registry = Registry::builtin();
    for (machine, collective, ranks, size, busbw) in [
        ("mi300x", Collective::AllReduce, 2, 4_u64 << 30, 47.7e9),
        ("mi300x", Collective::AllReduce, 8, 4 << 30, 312.9e9),
        ("dgx-h100", Collective::SendRecv, 2, 8 << 30, 364.93e9),
        ("dgx-b200", Collective::Broadcast, 2, 16 << 30, 709.32e9),
        ("dgx-b200", Collective::Reduce, 8, 1 << 30, 685.91e9),
    ] {
        let query = query(machine, collective, ranks, 1);
        let expected = Expecting::new(&registry, &query).unwrap().at(Bytes(size));
        let factor = match collective {
            Collective::AllReduce => 2.0 * f64::from(ranks - 1) / f64::from(ranks),
            _ => 1.0,
        };
        let measured = factor * size as f64 / busbw;
        let band = expected.low.0..=expected.high.0;
        assert!(band.contains(&measured), "{machine} {ranks}: {measured} is not in {band:?}");
    }
}

/// One GPU of a node has the NICs that all share, and more than two of a bridged box have PCIe between them.
#[test]
fn shared_nics_and_bridges_are_no_links_of_each_gpu() {
    let registry = Registry::builtin();
    let rate = |machine, collective, ranks, nodes| {
        let query = query(machine, collective, ranks, nodes);
        let size = Bytes(1 << 30);
        size.0 as f64 / Expecting::new(&registry, &query).unwrap().time(size).0
    };
    let alone = rate("p3dn.24xlarge", Collective::SendRecv, 2, 2);
    assert!((9e9..12.5e9).contains(&alone), "one NIC of 100 Gb/s: {alone}");
    let (pair, four) = (
        rate("a40-nvlink", Collective::AllReduce, 2, 1),
        rate("a40-nvlink", Collective::AllReduce, 4, 1),
    );
    assert!(pair > 30e9 && four < 20e9, "{pair} {four}");
}

/// Curves of 3,072 ranks and more, 96 a node, say nothing of one message between two nodes.
#[test]
fn a_curve_does_not_answer_for_other_machines() {
    let registry = Registry::builtin();
    let basis = |ranks, nodes| {
        let query = query("efa-100g", Collective::AllReduce, ranks, nodes);
        Expecting::new(&registry, &query).unwrap().at(Bytes(8)).basis
    };
    assert_eq!(basis(3072, 32), Basis::Measured);
    for (ranks, nodes) in [(2, 2), (64, 64), (3072, 3072)] {
        assert_eq!(basis(ranks, nodes), Basis::Transferred, "{ranks} on {nodes}");
    }
}

#[test]
fn clusters_that_cannot_be_read_say_where() {
    let said = |curve: &str| {
        let head = "[[cluster]]\nname = \"x\"\nprofile = \"dgx-h100\"\nlibrary = \"nccl\"\n";
        let text = format!("{head}source = \"here\"\ncurves = [{curve}]");
        Clusters::parse(&text, "more.toml").unwrap_err().to_string()
    };
    let all = [
        ("[\"allreduce\", 8, 1, 0.0, [10.0, 9.0], [1.0, 2.0]]", "octaves"),
        ("[\"allreduce\", 8, 1, 0.0, [9.0, 10.0], [1.0]]", "octaves"),
        ("[\"allreduce\", 8, 1, 0.0, [9.0], [0.0]]", "above 0"),
        ("[\"allreduce\", 8, 3, 0.0, [9.0], [1.0]]", "evenly"),
        ("[\"allsum\", 8, 1, 0.0, [9.0], [1.0]]", "allsum"),
        ("7", "more.toml"),
    ];
    for (curve, word) in all {
        let said = said(curve);
        assert!(said.contains(word) && said.contains("more.toml"), "{said}");
    }
}

#[test]
fn every_carried_cluster_has_a_built_in_machine_and_a_source() {
    let clusters = Clusters::built_in().unwrap();
    assert_eq!(clusters.machine_of("b200_sxm_nccl_2.28.9"), Some("b200_sxm"));
    assert_eq!(clusters.machine_of("nobody"), None);
    assert_eq!(clusters.published("coreweave-h100"), Some("2023-06-15"));
}

/// Published all-reduces over nodes and the ideal time of what NCCL runs there, as it pipelines: nothing in
/// the latter was fitted to them. Below 64 MiB it is the further off the smaller the call.
#[test]
fn large_calls_over_nodes_take_about_what_their_pipeline_says() {
    let registry = Registry::builtin();
    // dstackai/dstack, examples/clusters: nebius, crusoe; coreweave/nccl-tests README. Microseconds.
    let published = [
        ("dgx-h100", 16, 2, 32 << 20, 274.0, 0.12),
        ("dgx-h100", 16, 2, 1 << 30, 4512.0, 0.05),
        ("dgx-h100", 16, 2, 8 << 30, 34448.0, 0.05),
        ("dgx-h100", 96, 12, 512 << 20, 2985.0, 0.05),
        ("dgx-h100", 96, 12, 2 << 30, 11163.0, 0.05),
        ("dgx-a100", 16, 2, 64 << 20, 855.0, 0.1),
        ("dgx-a100", 16, 2, 1 << 30, 10472.0, 0.05),
    ];
    for (machine, ranks, nodes, size, real, off) in published {
        let query = query(machine, Collective::AllReduce, ranks, nodes);
        let expecting = Expecting::new(&registry, &query).unwrap();
        let told = expecting.pipelined(Bytes(size)).unwrap().0 * 1e6;
        assert!(
            (told / real - 1.0).abs() < off,
            "{machine} {ranks} {size}: {told}, {real} measured"
        );
    }
    // Rules that are not known, and a library without a pipeline of its own, say nothing.
    let elsewhere = query("p5.48xlarge", Collective::AllReduce, 16, 2);
    assert_eq!(Expecting::new(&registry, &elsewhere).unwrap().pipelined(Bytes(1 << 30)), None);
}

/// Hosts of a rack are one node, as NCCL counts them (`nNodes 1` where `MNNVL 1` is in its log); ranks per
/// node keep them apart.
#[test]
fn hosts_of_a_rack_are_one_node() {
    let nodes = |ranks, hosts| query("gb200-nvl72", Collective::AllReduce, ranks, hosts);
    for (ranks, hosts, domains) in
        [(8, 2, 1), (72, 18, 1), (76, 19, 2), (144, 36, 2), (148, 37, 4), (128, 2, 2), (144, 2, 2)]
    {
        assert_eq!(nodes(ranks, hosts).placement.nodes(), domains, "{ranks} on {hosts}");
    }
    let profile = Profile::builtin("gb200-nvl72").unwrap();
    let machine =
        Machine::on(&profile, "profile", &Given::default(), Collective::AllReduce).unwrap();
    let layout = Layout { ranks: NonZeroU32::new(8), nodes: None, per_node: NonZeroU32::new(4) };
    let apart = Query::new(machine, Collective::AllReduce, Bytes(1), layout, Params::default());
    assert_eq!(apart.unwrap().placement.nodes(), 2);
}

/// 96 ranks of a host do not have a port each: 1 MiB on four hosts took 2.16 ms, 64 KiB 124 µs and 4 B 12.5 µs
/// by a published log of Azure's HDR machines (OSU 5.8).
#[test]
fn ranks_of_a_node_share_the_port_of_a_network_alone() {
    let registry = Registry::builtin();
    let query = query("ib-hdr", Collective::AllReduce, 384, 4);
    let expecting = Expecting::new(&registry, &query).unwrap();
    for (size, measured) in [(1 << 20, 2159.77e-6), (1 << 16, 124.29e-6), (4, 12.45e-6)] {
        let expected = expecting.at(Bytes(size));
        let band = expected.low.0..=expected.high.0;
        assert!(band.contains(&measured), "{size}: {measured} is not in {band:?}");
    }
}

/// What MPI takes between hosts goes by the network as it is, by the ranks of a host, and by the size; where measurements or a
/// person say more, these count.
#[test]
fn mpi_between_hosts_goes_by_hosts_ranks_and_network() {
    use Collective::{AllGather, AllReduce, AllToAll, Barrier, Broadcast, Gather, Reduce};
    let registry = Registry::builtin();
    let time = |query: &Query, size: u64| {
        let told = Expecting::new(&registry, query).unwrap().at(Bytes(size));
        assert_eq!(told.basis, Basis::Transferred);
        assert!(told.low.0 < told.time.0 && told.time.0 < told.high.0);
        told.time.0
    };
    for collective in [AllReduce, AllGather, AllToAll, Broadcast, Gather, Reduce, Barrier] {
        let sizes = 0..if collective == Barrier { 1 } else { 34 };
        // By the rules of a library a larger call may run something faster: these have none.
        for (machine, ranks, nodes) in
            [("roce-400g", 16, 2), ("ib-ndr", 1024, 8), ("ib-xdr", 4096, 64)]
        {
            let query = query(machine, collective, ranks, nodes);
            let of: Vec<f64> = sizes.clone().map(|k| time(&query, 1 << k)).collect();
            assert!(of.is_sorted(), "{machine} {collective} {ranks}: more bytes are no faster");
        }
        // More ranks on a host, and more hosts, are no faster.
        let each =
            [1, 2, 16, 128].map(|each| time(&query("ib-hdr", collective, 4 * each, 4), 1 << 20));
        let hosts =
            [2, 4, 64, 512].map(|hosts| time(&query("ib-hdr", collective, hosts, hosts), 1 << 20));
        assert!(each.is_sorted() && hosts.is_sorted(), "{collective}: {each:?} {hosts:?}");
    }
    let on = |given: &Given, size| time(&given_of(given), size);
    let plain = Given::default();
    let slow = Given { bandwidth_inter: Some(Bandwidth(2.5e9)), ..plain };
    let late = Given { alpha_inter: Some(Seconds(15e-6)), ..plain };
    assert!(on(&slow, 1 << 26) > 2.0 * on(&plain, 1 << 26));
    assert!(on(&slow, 8) < 1.1 * on(&plain, 8));
    assert!((4.0..11.0).contains(&(on(&late, 8) / on(&plain, 8))));

    // Where no library is named, one rank a node may be a GPU; several are processes.
    let basis = |machine, ranks, nodes| {
        let query = query(machine, AllReduce, ranks, nodes);
        Expecting::new(&registry, &query).unwrap().at(Bytes(8)).basis
    };
    assert_eq!(basis("roce-400g", 8, 8), Basis::Modelled);
    assert_eq!(basis("roce-400g", 64, 8), Basis::Transferred);
}

/// An algorithm that is asked for takes what hosts take, whatever they run, or longer by its price; so does what the rules choose,
/// unless something else decides. What a call costs before its first message is added once.
#[test]
fn prices_raise_what_hosts_take() {
    let registry = Registry::builtin();
    let of = |query: &Query, named| Expecting::of(&registry, query, named).unwrap();
    let tiers = query("ib-hdr", Collective::AllReduce, 128, 4);
    let own = of(&tiers, None);
    for size in [8, 1 << 16, 1 << 17, 1 << 20].map(Bytes) {
        // HAN decides, and Rabenseifner is cheap.
        let named = of(&tiers, Some("rabenseifner")).at(size);
        assert!((named.time.0 / own.time(size).0 - 1.0).abs() < 1e-9, "{size}");
    }
    let ring = of(&tiers, Some("ring"));
    assert!(ring.time(Bytes(8)).0 > 10.0 * own.time(Bytes(8)).0);
    assert!(ring.time(Bytes(8)) <= ring.ideal(Bytes(8)).time);

    // One rank a host: coll/tuned decides, and sends everything through the root. With several HAN decides.
    let call = |ranks, nodes| query("gcp-c2d", Collective::AllReduce, ranks, nodes);
    let size = Bytes(32768);
    let (alone, together) = (of(&call(65536, 65536), None), of(&call(65536, 4096), None));
    assert_eq!(alone.runs(size).algorithm, together.runs(size).algorithm);
    assert!(alone.time(size).0 > 0.5 * alone.ideal(size).time.0);
    assert!(together.time(size).0 < 0.05 * together.ideal(size).time.0);
    // Nothing like it was held out.
    assert!(alone.at(size).error.is_none() && together.at(size).error.is_none());
    assert!(own.at(size).error.is_some());

    let late = Given { launch: Some(Seconds(1e-3)), ..Given::default() };
    let late = given("ib-hdr", Collective::AllReduce, (128, 4), &late).unwrap();
    let added = of(&late, None).time(Bytes(8)).0 - own.time(Bytes(8)).0;
    assert!((added / 1e-3 - 1.0).abs() < 1e-6, "{added}");
    let slow = Given { alpha: Some(Seconds(10e-6)), ..Given::default() };
    let slow = given("shm-x86", Collective::AllReduce, (128, 1), &slow).unwrap();
    let slow = of(&slow, None);
    let ratio = slow.time(Bytes(8)).0 / slow.ideal(Bytes(8)).time.0;
    assert!((0.7..1.0).contains(&ratio), "{ratio}");

    // Reductions to one rank, which benchmarks time by the mean over ranks, are known less well.
    let wide = |collective| {
        let told = of(&query("ib-hdr", collective, 128, 4), None).at(Bytes(1 << 10));
        told.high.0 / told.low.0
    };
    assert!(wide(Collective::Reduce) > 2.0 * wide(Collective::AllReduce));
}

/// One rank on each of 16 hosts over HDR.
fn given_of(parameters: &Given) -> Query {
    given("ib-hdr", Collective::AllReduce, (16, 16), parameters).unwrap()
}

/// Calls of Open MPI between hosts of 32 to 128 ranks, which an ideal price misses by up to 30 times: osu_allgather,
/// osu_allreduce and osu_alltoall over EDR (github.com/ukri-excalibur/excalibur-tests, alaska), all-reduces over HDR
/// (open-mpi/ompi issue 13082, openucx/ucc pull request 1082; these are no evidence). Some were published since they are
/// slow: bands hold six, and the others are above them.
#[test]
fn published_runs_of_many_ranks_on_hosts_are_near_their_bands() {
    use Collective::{AllGather, AllReduce, AllToAll};
    let registry = Registry::builtin();
    let (mut inside, mut far) = (0, Vec::new());
    for (machine, shape, collective, size, measured) in [
        ("ib-edr", (64, 2), AllGather, 1 << 20, 1307.3),
        ("ib-edr", (64, 2), AllGather, 16 << 20, 24426.0),
        ("ib-edr", (64, 2), AllGather, 64 << 20, 96412.0),
        ("ib-edr", (64, 2), AllReduce, 1 << 16, 256.17),
        ("ib-edr", (64, 2), AllReduce, 1 << 20, 3730.69),
        ("ib-edr", (64, 2), AllToAll, 1 << 20, 2701.56),
        ("ib-edr", (64, 2), AllToAll, 64 << 20, 122_509.0),
        ("ib-hdr", (256, 2), AllReduce, 8 << 10, 110.1),
        ("ib-hdr", (256, 2), AllReduce, 64 << 10, 369.4),
        ("ib-hdr", (256, 2), AllReduce, 1 << 20, 6488.0),
        ("ib-hdr", (256, 2), AllReduce, 16 << 20, 114_236.0),
        ("ib-hdr", (128, 4), AllReduce, 1 << 20, 3710.0),
        ("ib-hdr", (128, 4), AllReduce, 128 << 20, 638_000.0),
    ] {
        let query = query(machine, collective, shape.0, shape.1);
        let expected = Expecting::new(&registry, &query).unwrap().at(Bytes(size));
        let [low, high] = [expected.low, expected.high].map(|t| 1e6 * t.0);
        inside += u32::from((low..=high).contains(&measured));
        if !(low..=2.2 * high).contains(&measured) {
            far.push(format!("{collective} {size} on {shape:?}: {measured}, {low} to {high}"));
        }
    }
    assert!(far.is_empty() && inside >= 6, "{inside} {far:#?}");
}

/// A ring sends all that busbw counts, and NICs carry no more than their rate.
#[test]
fn a_ring_that_is_asked_for_is_no_faster_than_nics() {
    let registry = Registry::builtin();
    for (machine, nics, rate) in
        [("dgx-a100", 8, 25e9), ("dgx-a100", 4, 25e9), ("dgx-h100", 8, 50e9)]
    {
        let use_of = Given { nics: NonZeroU32::new(nics), ..Given::default() };
        let query = given(machine, Collective::AllReduce, (2 * nics, 2), &use_of).unwrap();
        let ring = Expecting::of(&registry, &query, Some("ring-rails")).unwrap();
        for size in [1 << 26, 1 << 33].map(Bytes) {
            let least = ring.at(size).low;
            let busbw = ring.busbw(size, least).unwrap();
            assert!(busbw.0 <= f64::from(nics) * rate, "{machine} {nics} {size}: {busbw}");
        }
        // What runs by itself may be a tree, which sends less over two nodes.
        let own = Expecting::new(&registry, &query).unwrap().at(Bytes(1 << 33)).time;
        assert!(own <= ring.at(Bytes(1 << 33)).time, "{machine} {nics}");
    }
    // What was seen of the ring that runs by itself is the answer there, however fast.
    let mut query = query("dgx-a100", Collective::AllReduce, 16, 2);
    let seen = (Bytes(1 << 33), Seconds(74e-3));
    query.seen = vec![seen];
    let told = Expecting::of(&registry, &query, Some("ring-rails")).unwrap().at(seen.0).time;
    assert!((told.0 / seen.1.0 - 1.0).abs() < 1e-9, "{told}");
}

/// Switches add only where that is enabled, and then a call takes longer than one message between hosts.
#[test]
fn the_switches_of_a_network_add_only_where_it_is_asked_for() {
    let registry = Registry::builtin();
    for machine in ["ib-ndr", "ib-hdr", "ib-xdr"] {
        let of = |collective, ranks| query(machine, collective, ranks, ranks);
        let plain = of(Collective::AllReduce, 1024);
        let expecting = Expecting::new(&registry, &plain).unwrap();
        let message = Expecting::new(&registry, &of(Collective::SendRecv, 2)).unwrap();
        assert_ne!(expecting.runs(Bytes(8)).algorithm, "inc", "{machine}");
        assert!(expecting.time(Bytes(8)).0 > 5.0 * message.time(Bytes(8)).0, "{machine}");

        let sharp = find(SWITCH_HOPS, "sharp").unwrap();
        let given = Given { alpha_switch_inter: Some(sharp.low), ..Given::default() };
        let named = Some((Profile::builtin(machine).unwrap(), "--on"));
        let machine = Machine::new(named, &given, Collective::AllReduce).unwrap();
        let asked = Query { machine, ..plain };
        let adding = Expecting::of(&registry, &asked, Some("inc")).unwrap();
        let (adds, ideal) = (adding.time(Bytes(8)), adding.ideal(Bytes(8)).time);
        assert!(ideal > message.time(Bytes(8)) && ideal.0 < 3e-6, "{ideal}");
        let most = 0.5 * expecting.time(Bytes(8)).0;
        assert!(adds > message.time(Bytes(8)) && adds.0 < most, "{adds}");
    }
}

/// NCCL has no barrier: it takes the time of PyTorch's, an all-reduce of one float.
#[test]
fn a_barrier_over_nccl_is_an_all_reduce_of_one_element() {
    let registry = Registry::builtin();
    for (machine, ranks, nodes, library) in
        [("dgx-h100", 64, 8, "NCCL"), ("gb200-nvl72", 72, 1, "NCCL"), ("mi300x", 8, 1, "RCCL")]
    {
        let of = |collective| query(machine, collective, ranks, nodes);
        let (barrier, reduce) = (of(Collective::Barrier), of(Collective::AllReduce));
        let barrier = Expecting::new(&registry, &barrier).unwrap();
        let reduce = Expecting::new(&registry, &reduce).unwrap();
        assert_eq!(barrier.at(Bytes(0)), reduce.at(Bytes(4)), "{machine}");
        assert_eq!(barrier.runs(Bytes(0)), reduce.runs(Bytes(4)), "{machine}");
        let from = barrier.known_from(&barrier.at(Bytes(0)), Bytes(0));
        assert!(from.starts_with(&format!("{library} has no barrier")), "{from}");
    }
    let mpi = query("ib-hdr", Collective::Barrier, 8, 8);
    assert_eq!(
        Expecting::new(&registry, &mpi).unwrap().runs(Bytes(0)).algorithm,
        "recursive_doubling"
    );
}

/// What was seen is the answer at its own size, wherever it is; of what is far off other sizes take little.
#[test]
fn what_was_seen_is_the_answer_there() {
    let registry = Registry::builtin();
    for (machine, ranks, nodes) in [("dgx-h100", 16, 2), ("ib-hdr", 64, 64), ("gcp-c2d", 4, 4)] {
        let (own, other) = (Bytes(1 << 20), Bytes(1 << 23));
        for factor in [0.5, 1.2, 2.0, 100.0] {
            let mut query = query(machine, Collective::AllReduce, ranks, nodes);
            let before = Expecting::new(&registry, &query).unwrap();
            let (time, far) = (before.time(own).0 * factor, before.time(other).0);
            query.seen = vec![(own, Seconds(time))];
            let seen = Expecting::new(&registry, &query).unwrap();
            assert!((seen.time(own).0 / time - 1.0).abs() < 1e-9, "{machine} {factor}");
            let expected = seen.at(other);
            assert!((expected.time.0 / far).ln().abs() <= factor.ln().abs() + 1e-9, "{machine}");
            assert!(expected.low.0 < expected.time.0 && expected.time.0 < expected.high.0);
        }
    }
}

/// More bytes take no less than what was seen for fewer, as far as that is believed; what was seen stays, also where two
/// such times contradict each other.
#[test]
fn what_was_seen_keeps_its_order() {
    let registry = Registry::builtin();
    for (machine, ranks, nodes) in [("dgx-h100", 8, 1), ("ib-hdr", 64, 64), ("ib-ndr", 64, 64)] {
        let query = query(machine, Collective::AllReduce, ranks, nodes);
        let before = Expecting::new(&registry, &query).unwrap();
        let [small, middle, large] = [1 << 18, 1 << 20, 1 << 22].map(Bytes);
        for factors in [[1.5, 1.0, 1.0], [1.0, 3.0, 1.0], [2.0, 0.6, 1.0], [1.0, 1.0, 0.5]] {
            let seen: Vec<(Bytes, Seconds)> = [small, middle, large]
                .into_iter()
                .zip(factors)
                .map(|(size, factor)| (size, before.time(size) * Ratio(factor)))
                .collect();
            let after =
                Expecting::new(&registry, &Query { seen: seen.clone(), ..query.clone() }).unwrap();
            for &(size, time) in &seen {
                assert!((after.time(size) / time).0.ln().abs() < 1e-9, "{machine} {size}");
            }
        }
        // One time three times as long, which is believed of a price and in part of what was learned.
        let seen = vec![(middle, before.time(middle) * Ratio(3.0))];
        let after = Expecting::new(&registry, &Query { seen, ..query.clone() }).unwrap();
        let mut last = Seconds(0.0);
        for octave in [14, 16, 18, 19, 21, 22, 24, 28] {
            let now = after.time(Bytes(1 << octave));
            assert!(now >= last, "{machine} {octave}: {last} {now}");
            last = now;
        }
    }
}

/// A slip of a unit: the links alone take 80 times as long.
#[test]
fn what_cannot_have_been_seen_is_refused() {
    let mut query = query("ib-hdr", Collective::AllReduce, 1024, 16);
    query.seen = vec![(Bytes(1 << 20), Seconds(1e-6))];
    let error = Expecting::new(&Registry::builtin(), &query).err().unwrap();
    assert!(error.is_input() && error.to_string().contains("cannot be"), "{error}");
    query.seen = vec![(Bytes(1 << 20), Seconds(2e-5))];
    assert!(Expecting::new(&Registry::builtin(), &query).is_ok());
}

/// What Open MPI runs for 16 KiB on 128 hosts costs more than ten times what runs of others take.
#[test]
fn what_is_certainly_faster_between_hosts_is_said() {
    let registry = Registry::builtin();
    let faster = |collective, size| {
        let query = Query { size: Bytes(size), ..query("tcp-100g", collective, 128, 128) };
        cost(&registry, &query, None, false).unwrap().faster
    };
    let binomial = faster(Collective::Broadcast, 16 << 10).unwrap();
    assert!(binomial.id == "binomial" && binomial.high_s < 1e-3, "{binomial:?}");
    assert!(faster(Collective::Broadcast, 1 << 20).is_none());
    assert!(faster(Collective::AllReduce, 1 << 20).is_none());
}

/// A time that is expected makes nothing less certain, and two seen sizes move what is between them by their distance.
#[test]
fn what_was_seen_never_widens_the_band() {
    let registry = Registry::builtin();
    let seeing = |query: &Query, seen: Vec<(Bytes, Seconds)>| {
        let query = Query { seen, ..query.clone() };
        move |size| Expecting::new(&Registry::builtin(), &query).unwrap().at(size)
    };
    for (machine, ranks, nodes) in
        [("dgx-h100", 8, 1), ("dgx-h100", 16, 2), ("ib-hdr", 16, 16), ("mi300x", 8, 1)]
    {
        let query = query(machine, Collective::AllReduce, ranks, nodes);
        let before = Expecting::new(&registry, &query).unwrap();
        for size in [1 << 12, 1 << 20, 1 << 26, 1 << 30].map(Bytes) {
            let (was, now) =
                (before.at(size), seeing(&query, vec![(size, before.time(size))])(size));
            let within = 1.0 + 1e-9;
            assert!((now.time.0 / was.time.0 - 1.0).abs() < 1e-9, "{machine} {size}");
            assert!(
                now.low.0 * within >= was.low.0 && now.high.0 <= was.high.0 * within,
                "{machine} {size}"
            );
            let error = |e: &Expectation| e.error.map(|error| error.p90.0);
            assert!(error(&now) <= error(&was) || was.error.is_none(), "{machine} {size}");
        }
        let [small, large] = [1 << 20, 1 << 26].map(Bytes);
        let slower = Seconds(1.1 * before.time(small).0);
        let both = seeing(&query, vec![(small, slower), (large, before.time(large))]);
        let [mut last, mut gone] = [1.1, 1.1];
        for step in 0..=60 {
            let size = Bytes((2.0_f64.powf(20.0 + 0.1 * f64::from(step))).round() as u64);
            let off = both(size).time.0 / before.time(size).0;
            assert!((off - last).abs() < 0.03, "{machine} {size}: {last} {off}");
            (last, gone) = (off, off.min(gone));
        }
        assert!((last - 1.0).abs() < 1e-6 && gone > 0.99, "{machine}: {last} {gone}");
    }
}

/// An algorithm that the library runs anyway takes what it takes, whichever NICs the node has; one that it does not
/// run differs by the library's own latencies, at least.
#[test]
fn an_algorithm_that_is_asked_for_is_moved_as_the_library_counts() {
    let registry = Registry::builtin();
    let time = |machine: &str, algorithm: Option<&str>, size: u64| {
        let query = query(machine, Collective::AllReduce, 8, 1);
        Expecting::of(&registry, &query, algorithm).unwrap().at(Bytes(size)).time.0
    };
    let runs = |machine: &str| {
        let query = query(machine, Collective::AllReduce, 8, 1);
        Expecting::new(&registry, &query).unwrap().runs(Bytes(1 << 16)).name()
    };
    for machine in
        ["p5.48xlarge", "p5en", "a3-megagpu-8g", "a3-highgpu-8g", "bm.gpu.h100.8", "p6-b200"]
    {
        assert_eq!(runs(machine), "Ring/LL", "{machine}");
        assert_eq!(time(machine, Some("ring"), 1 << 16), time(machine, None, 1 << 16), "{machine}");
    }
    // Nobody has searched these: what they run may be the ring.
    for machine in ["dgx-b300", "hgx-h20", "hgx-h800"] {
        let (own, ring) = (time(machine, None, 1 << 16), time(machine, Some("ring"), 1 << 16));
        assert_eq!(ring, own, "{machine}");
    }
    // NVLS waits for the slowest of all ranks twice (NVIDIA/nccl issue 1259); the ring moves more bytes.
    for size in [8, 1 << 16] {
        let ratio = time("dgx-h100", Some("inc"), size) / time("dgx-h100", None, size);
        assert!((1.2..2.0).contains(&ratio), "{size} {ratio}");
    }
    let ratio = time("dgx-h100", Some("ring"), 1 << 30) / time("dgx-h100", None, 1 << 30);
    assert!((1.15..1.35).contains(&ratio), "{ratio}");
}

/// What NCCL and its kin were measured to take says nothing of MPI between the same GPUs, which may copy through
/// the host: 32 MiB take eight A100 43.7 ms by Open MPI 4.0.5 (aistabci/abci2.0benchmark), 0.36 ms by NCCL.
#[test]
fn another_library_does_not_take_what_nccl_takes() {
    let registry = Registry::builtin();
    let of = |query: &Query, size| Expecting::new(&registry, query).unwrap().at(Bytes(size));
    let on = |library: &str| {
        let text =
            format!("schema = 1\nname = \"x\"\ntitle = \"x\"\nnode = \"hgx-a100\"\n{library}");
        let profile = Profile::parse(&text, "x.toml").unwrap();
        let given = Given::default();
        let machine = Machine::on(&profile, "profile", &given, Collective::AllReduce).unwrap();
        let layout = Layout { ranks: NonZeroU32::new(8), ..Layout::default() };
        Query::new(machine, Collective::AllReduce, Bytes(1), layout, Params::default()).unwrap()
    };
    for library in ["", "library = \"nccl\"", "library = \"NCCL 2.27\"", "library = \"msccl\""] {
        let expected = of(&on(library), 32 << 20);
        assert_eq!(expected.basis, Basis::SameBoard, "{library}");
    }
    for library in ["Open MPI", "mpich", "gloo", "hpcx"] {
        let query = on(&format!("library = \"{library}\""));
        for (size, measured) in [(4, 30.2e-6), (1 << 16, 119.1e-6), (1 << 19, 626.2e-6)] {
            let expected = of(&query, size);
            assert_eq!(expected.basis, Basis::Modelled, "{library} {size}");
            assert!(expected.low.0 < measured && measured < expected.high.0, "{library} {size}");
        }
    }
    // `--library` asks what it would take there.
    let given = Given { library: Some(Library::OpenMpi), ..Given::default() };
    let profile = Profile::builtin("dgx-h100").unwrap();
    let machine = Machine::on(&profile, "profile", &given, Collective::AllReduce).unwrap();
    let asked = Query { machine, ..query("dgx-h100", Collective::AllReduce, 8, 1) };
    assert_eq!(of(&asked, 1 << 20).basis, Basis::Modelled);
    // People run NCCL at ABCI, too.
    let abci = query("abci-a100", Collective::AllReduce, 8, 1);
    let (expected, dgx) = (of(&abci, 32 << 20), query("dgx-a100", Collective::AllReduce, 8, 1));
    assert_eq!(expected, of(&dgx, 32 << 20));
    assert!(expected.low.0 < 360.6e-6 && 360.6e-6 < expected.high.0, "{expected:?}");
}

/// A protocol limits what NCCL may choose. It changes nothing where it is the one that runs.
#[test]
fn a_protocol_limits_what_runs() {
    let registry = Registry::builtin();
    let on = |name, ranks, protocol: Option<Protocol>| {
        let given = Given { protocol, ..Given::default() };
        let profile = Profile::builtin(name).unwrap();
        let machine = Machine::on(&profile, "profile", &given, Collective::AllReduce).unwrap();
        let layout = Layout { ranks: NonZeroU32::new(ranks), nodes: None, per_node: None };
        let size = Bytes(1 << 16);
        let query =
            Query::new(machine, Collective::AllReduce, size, layout, Params::default()).unwrap();
        let expecting = Expecting::new(&registry, &query).unwrap();
        (expecting.runs(size).name(), expecting.at(size))
    };
    let of = |protocol| on("dgx-h100", 8, protocol);
    let (free, limited) = (of(None), of(Some(Protocol::Ll)));
    assert_eq!((free.0.as_str(), &free), ("Ring/LL", &limited));
    let (runs, expected) = of(Some(Protocol::Simple));
    assert_eq!(runs, "NVLS/Simple");
    assert!(expected.time.0 > free.1.time.0 && expected.high.0 < 3.0 * free.1.time.0);
    // Also where its graphs are not known: tuning.cc has NVLS and NVLSTree in Simple alone.
    assert_eq!(on("p5.48xlarge", 16, None).0, "nvlstree");
    for protocol in [Protocol::Ll, Protocol::Ll128] {
        assert_eq!(on("p5.48xlarge", 16, Some(protocol)).0, "tree-rails");
    }
    // The tuner there has no region of LL over three nodes and more.
    assert_eq!(on("p5.48xlarge", 64, None).0, "Tree/LL128");
    assert_eq!(on("p5.48xlarge", 64, Some(Protocol::Ll128)).0, "Tree/LL128");
    assert_eq!(on("p5.48xlarge", 64, Some(Protocol::Ll)).0, "tree-rails");
}

/// Libraries return from calls without data, and one rank has no partner.
#[test]
fn what_communicates_nothing_takes_no_time() {
    let registry = Registry::builtin();
    for (collective, ranks, size, idle) in [
        (Collective::AllReduce, 8, 0, true),
        (Collective::AllReduce, 1, 1 << 20, true),
        (Collective::AllReduce, 8, 1, false),
        (Collective::SendRecv, 2, 0, false),
    ] {
        let query = query("dgx-h100", collective, ranks, 1);
        let expecting = Expecting::new(&registry, &query).unwrap();
        assert_eq!(expecting.time(Bytes(size)).0 == 0.0, idle, "{collective} {ranks} {size}");
    }
}

/// 8 GiB to nine GPUs of which one is alone: it takes in 8/9 through one port of 50 GB/s (`dgx-h100`).
#[test]
fn a_last_node_of_fewer_ranks_has_their_nics_alone() {
    let machine = Profile::builtin("dgx-h100").unwrap();
    let machine =
        Machine::on(&machine, "profile", &Given::default(), Collective::AllGather).unwrap();
    let layout = Layout { ranks: NonZeroU32::new(9), nodes: None, per_node: NonZeroU32::new(8) };
    let size = Bytes(8 << 30);
    let query =
        Query::new(machine, Collective::AllGather, size, layout, Params::default()).unwrap();
    let registry = Registry::builtin();
    let expected = Expecting::new(&registry, &query).unwrap().at(size);
    let port = 8.0 / 9.0 * size.0 as f64 / 50e9;
    assert!(expected.low.0 >= port, "{expected:?}");
    assert!(expected.time.0 < 1.5 * port, "{expected:?}");
}

/// No end of a band is faster than the data pass the links, on networks alone and on boards.
#[test]
fn no_answer_is_faster_than_the_links() {
    let registry = Registry::builtin();
    let size = Bytes(1 << 33);
    for (machine, ranks, nodes, rate) in [
        ("ib-hdr", 2, 2, 25e9),
        ("tcp-25g", 2, 2, 3.125e9),
        ("dgx-h100", 16, 2, 50e9),
        ("dgx-a100", 16, 2, 25e9),
        ("alps", 8, 2, 25e9),
    ] {
        let query = query(machine, Collective::SendRecv, ranks, nodes);
        let expected = Expecting::new(&registry, &query).unwrap().at(size);
        assert!(expected.low.0 >= size.0 as f64 / rate, "{machine}: {expected:?}");
    }
}

/// NCCL gathers over nodes of one GPU by PAT, also where its rules are not known.
#[test]
fn pat_runs_on_machines_with_one_gpu_per_node() {
    let registry = Registry::builtin();
    let runs = |collective, size| {
        let query = query("dgx-spark", collective, 64, 64);
        Expecting::new(&registry, &query).unwrap().runs(size).algorithm
    };
    assert_eq!(runs(Collective::AllGather, Bytes(8 << 10)), "pat");
    assert_eq!(runs(Collective::ReduceScatter, Bytes(8 << 10)), "pat");
    // On one node NCCL does not have it.
    let query = query("l40s-pcie", Collective::AllGather, 8, 1);
    assert_ne!(Expecting::new(&registry, &query).unwrap().runs(Bytes(8 << 10)).algorithm, "pat");
}

/// A machine with a better parameter is never expected to be slower, whatever is known of it.
#[test]
fn a_better_machine_is_not_slower() {
    let registry = Registry::builtin();
    let mut slower = Vec::new();
    let machines = [
        ("dgx-h100", 64, 8),
        ("dgx-h100", 8, 1),
        ("dgx-b200", 8, 1),
        ("p3dn.24xlarge", 64, 8),
        ("p3dn.24xlarge", 512, 64),
        ("l40s-pcie", 4, 1),
        ("rtx-4090", 2, 1),
        ("gb200-nvl72", 16, 1),
        ("abci-a100", 8, 1),
        ("mi300x", 8, 1),
        ("ib-hdr", 64, 8),
    ];
    let collectives = [
        Collective::AllReduce,
        Collective::AllGather,
        Collective::Reduce,
        Collective::Scatter,
        Collective::SendRecv,
        Collective::AllToAll,
    ];
    for (name, ranks, nodes) in machines {
        let profile = Profile::builtin(name).unwrap();
        for collective in collectives {
            let own = query(name, collective, ranks, nodes);
            // As they are given: a mesh's rate is that of all of its links.
            let stated = Machine::on(&profile, "profile", &Given::default(), collective).unwrap();
            let tiers = &stated.fabric.tiers;
            let (inner, outer) = (&tiers[0].link, &tiers[tiers.len() - 1].link);
            let launch = stated.fabric.launch;
            let mut better = vec![Given { launch: Some(launch * Ratio(0.5)), ..Given::default() }];
            for factor in [1.02, 2.0] {
                let faster = |rate: Option<Bandwidth>| rate.map(|r| r * Ratio(factor));
                let sooner = |alpha: Option<Seconds>| alpha.map(|a| a * Ratio(1.0 / factor));
                better.push(Given { bandwidth: faster(inner.bandwidth), ..Given::default() });
                better.push(Given { alpha: sooner(inner.alpha), ..Given::default() });
                if nodes > 1 && profile.tiers.len() > 1 {
                    let rate = faster(outer.bandwidth);
                    better.push(Given { bandwidth_inter: rate, ..Given::default() });
                    better.push(Given { alpha_inter: sooner(outer.alpha), ..Given::default() });
                }
            }
            let expecting = Expecting::new(&registry, &own).unwrap();
            for given in &better {
                let machine = Machine::on(&profile, "profile", given, collective).unwrap();
                let layout = Layout {
                    ranks: NonZeroU32::new(ranks),
                    nodes: NonZeroU32::new(nodes),
                    per_node: None,
                };
                let query =
                    Query::new(machine, collective, Bytes(1), layout, Params::default()).unwrap();
                let changed = Expecting::new(&registry, &query).unwrap();
                for size in (3..35).step_by(3).map(|octave| Bytes(1 << octave)) {
                    let (before, after) = (expecting.at(size).time, changed.at(size).time);
                    if after.0 > before.0 * 1.000_001 {
                        slower.push(format!(
                            "{name} {collective} {size} on {ranks}: {before}, then {after} with {given:?}"
                        ));
                    }
                }
            }
        }
    }
    assert!(slower.is_empty(), "{} are slower:\n{}", slower.len(), slower.join("\n"));
}

/// Links that are a thousandth slower than the machine's take hardly longer, and links that are a little slower than
/// slow ones are not faster; a band remains.
#[test]
fn slower_links_are_slower_little_by_little() {
    let registry = Registry::builtin();
    for (name, ranks, nodes) in [
        ("dgx-a100", 4, 1),
        ("dgx-h100", 16, 2),
        ("p3dn.24xlarge", 16, 2),
        ("p5.48xlarge", 32, 4),
        ("gb200-nvl72", 72, 1),
        ("perlmutter", 16, 4),
        ("l40s-pcie", 8, 1),
    ] {
        for collective in [Collective::AllReduce, Collective::Reduce, Collective::SendRecv] {
            let on = |eta: f64| {
                let given = Given { eta_beta: Some(Ratio(eta)), ..Given::default() };
                let query = self::given(name, collective, (ranks, nodes), &given).unwrap();
                Expecting::new(&registry, &query).unwrap().at(Bytes(1 << 33))
            };
            let mut before = on(1.0);
            for eta in [0.999, 0.99, 0.95, 0.9, 0.8, 0.6, 0.4, 0.2] {
                let now = on(eta);
                let what = format!("{name} {collective} x {eta}: {before:?}, then {now:?}");
                assert!(now.time.0 > before.time.0 * 0.999_9, "{what}");
                assert!(eta < 0.99 || now.time.0 < before.time.0 * 1.05, "{what}");
                assert!(now.low <= now.time && now.high.0 > now.time.0 * 1.005, "{what}");
                before = now;
            }
        }
    }
}

/// A rate that is given is felt on every machine, also where a latency is unknown, so that nothing has a price.
#[test]
fn a_lower_rate_is_felt_on_every_machine() {
    let registry = Registry::builtin();
    let size = Bytes(1 << 30);
    for name in Profile::names() {
        let profile = Profile::builtin(name).unwrap();
        let collective = Collective::AllReduce;
        let stated = Machine::on(&profile, "profile", &Given::default(), collective).unwrap();
        let outer = stated.fabric.tiers.last().unwrap();
        let Some(rate) = outer.link.bandwidth else { panic!("{name} has no rate") };
        let slow = rate * Ratio(0.125);
        let given = match stated.fabric.tiers.len() {
            1 => Given { bandwidth: Some(slow), ..Given::default() },
            _ => Given { bandwidth_inter: Some(slow), ..Given::default() },
        };
        let time = |given: &Given| {
            let machine = Machine::on(&profile, "profile", given, collective).unwrap();
            let inside = machine.fabric.tiers.iter().rev().nth(1).and_then(|tier| tier.span);
            let ranks = 2 * inside.map_or(2, NonZeroU32::get);
            let most = outer.span.map_or(ranks, NonZeroU32::get);
            let layout = Layout { ranks: NonZeroU32::new(ranks.min(most)), ..Layout::default() };
            let params = Params::default();
            let query = Query::new(machine, collective, size, layout, params).unwrap();
            Expecting::new(&registry, &query).map(|expecting| expecting.at(size).time)
        };
        // Where nothing similar was measured, an unknown parameter leaves no answer.
        let Ok(before) = time(&Given::default()) else { continue };
        let after = time(&given).unwrap();
        assert!(after.0 > before.0, "{name}: {before}, at an eighth {after}");
    }
}

/// An algorithm that is asked for has a time and a band where the rest of the machine has no price.
#[test]
fn an_algorithm_beside_what_has_no_price_has_a_band() {
    let registry = Registry::builtin();
    for (collective, name) in [
        (Collective::AllReduce, "ring-rails"),
        (Collective::AllGather, "ring-rails"),
        (Collective::AllToAll, "pairwise"),
    ] {
        let query = query("mi325x", collective, 32, 4);
        let expecting = Expecting::of(&registry, &query, Some(name)).unwrap();
        for octave in (3..33).step_by(5) {
            let at = expecting.at(Bytes(1 << octave));
            assert!(at.low.0 > 0.0 && at.low <= at.time, "{name} {at:?}");
            assert!(at.time <= at.high && at.high.0 < 20.0 * at.time.0, "{name} {at:?}");
        }
    }
}

/// Where all that a library has needs an unknown parameter, nothing that it lacks is said to run instead.
#[test]
fn no_library_is_said_to_run_what_it_lacks() {
    let registry = Registry::builtin();
    let mut guessed = 0;
    for name in Profile::names() {
        for (collective, (ranks, nodes)) in
            Collective::ALL.iter().flat_map(|c| [(8, 1), (16, 2), (64, 8)].map(|of| (*c, of)))
        {
            let profile = Profile::builtin(name).unwrap();
            let Ok(machine) = Machine::on(&profile, "profile", &Given::default(), collective)
            else {
                continue;
            };
            let [ranks, nodes] = [ranks, nodes].map(NonZeroU32::new);
            let layout = Layout { ranks, nodes, per_node: None };
            let Ok(query) = Query::new(machine, collective, Bytes(1), layout, Params::default())
            else {
                continue;
            };
            // What a machine without one runs is its vendor's own.
            let Some(library) = query.library() else { continue };
            let Ok(expecting) = Expecting::new(&registry, &query) else { continue };
            let runs = expecting.runs(Bytes(1 << 20));
            if runs.rules != Rules::Unknown || runs.algorithm == NOTHING {
                continue;
            }
            let (fabric, shape) = (&query.machine.fabric, &query.shape);
            let has = registry.of(collective).filter(|a| a.is_shipped(Some(library), shape));
            // With a price, or only without a parameter's value.
            let has: Vec<&str> = has
                .filter(|a| {
                    Prepared::new(*a, shape, fabric).map_or_else(|e| e.is_unknown(), |_| true)
                })
                .map(|a| a.meta().id)
                .collect();
            assert!(
                has.is_empty() || has.contains(&&*runs.algorithm),
                "{name} {collective} {ranks:?}: {} of {has:?}",
                runs.algorithm
            );
            guessed += usize::from(!has.is_empty());
        }
    }
    assert!(guessed > 50, "{guessed}");
    for collective in [Collective::Broadcast, Collective::Reduce] {
        let mut unknown = query("mi325x", collective, 12, 2);
        unknown.machine.fabric.tiers[0].link.alpha = None;
        let expecting = Expecting::new(&registry, &unknown).unwrap();
        assert_eq!(expecting.runs(Bytes(1 << 20)).algorithm, NOTHING, "{collective}");
    }
}

/// A launch that is given is in the time, and a shorter one does not make a call longer.
#[test]
fn a_given_launch_is_in_the_time() {
    let registry = Registry::builtin();
    let profile = Profile::builtin("abci-a100").unwrap();
    let mut before = Seconds(0.0);
    for launch in [0.0, 2e-6, 5e-6, 10e-6, 12e-6, 20e-6, 31e-6, 40e-6] {
        let given = Given { launch: Some(Seconds(launch)), ..Given::default() };
        let machine = Machine::on(&profile, "profile", &given, Collective::AllReduce).unwrap();
        let layout = Layout { ranks: NonZeroU32::new(8), ..Layout::default() };
        let query = Query::new(machine, Collective::AllReduce, Bytes(1), layout, Params::default())
            .unwrap();
        let time = Expecting::new(&registry, &query).unwrap().at(Bytes(1024)).time;
        assert!(
            time >= before && time.0 >= 0.999 * launch.min(21e-6),
            "{launch}: {time} after {before}"
        );
        before = time;
    }
}

/// Ranks of one host that are asked for share its memory; they do not cross a network.
#[test]
fn all_ranks_of_one_host_are_not_on_a_network() {
    for (ranks, per_node) in [(8, 8), (8, 16), (2, 2)] {
        let profile = Profile::builtin("ib-hdr").unwrap();
        let given = Given::default();
        let machine = Machine::on(&profile, "profile", &given, Collective::AllReduce).unwrap();
        let layout = Layout {
            ranks: NonZeroU32::new(ranks),
            nodes: None,
            per_node: NonZeroU32::new(per_node),
        };
        let query = Query::new(machine, Collective::AllReduce, Bytes(1), layout, Params::default())
            .unwrap();
        assert_eq!(query.placement.nodes(), 1);
        let time = Expecting::new(&Registry::builtin(), &query).unwrap().at(Bytes(8)).time;
        assert!(time < Seconds(5e-6), "{ranks} of {per_node}: {time}");
    }
    assert_eq!(query("ib-hdr", Collective::AllReduce, 8, 1).placement.nodes(), 1);
    assert_eq!(query("ib-hdr", Collective::AllReduce, 8, 8).placement.nodes(), 8);
}

/// What is refused on one slice of a torus is refused on two: its messages inside go as far. A network between
/// them changes nothing of that.
#[test]
fn slices_of_a_torus_are_no_switches() {
    let registry = Registry::builtin();
    let given = Given { alpha_inter: Some(Seconds(20e-6)), ..Given::default() };
    let profile = Profile::builtin("tpu-v5e").unwrap();
    let applied = |chips: u32, name: &str| {
        let machine = Machine::on(&profile, "profile", &given, Collective::AllReduce).unwrap();
        let layout = Layout { ranks: NonZeroU32::new(chips), ..Layout::default() };
        let query =
            Query::new(machine, Collective::AllReduce, Bytes(1 << 30), layout, Params::default());
        Expecting::of(&registry, &query.unwrap(), Some(name)).is_ok()
    };
    for chips in [256, 512] {
        assert!(!applied(chips, "rabenseifner") && applied(chips, "ring"), "{chips}");
    }
}

/// Chips of a torus have links to their neighbours alone: gathers and sums use all of them at once
/// (jax-ml/scaling-book, sharding.md), and half of what an all-to-all moves crosses between the halves.
#[test]
fn a_torus_is_no_switch() {
    let registry = Registry::builtin();
    let size = 1_u64 << 30;
    for (machine, chips, collective, least, most) in [
        ("tpu-v5e", 256, Collective::AllGather, 5.94e-3, 6.1e-3),
        ("tpu-v5e", 256, Collective::AllReduce, 11.8e-3, 12.1e-3),
        ("tpu-v5e", 256, Collective::AllToAll, 47.7e-3, 47.8e-3),
        // No side of 8 is closed: the corner has two links, and the halves 8.
        ("tpu-v5e", 64, Collective::AllGather, 11.7e-3, 11.9e-3),
        ("tpu-v5e", 64, Collective::AllToAll, 47.7e-3, 47.8e-3),
        ("tpu-v5e", 17, Collective::AllToAll, 5.9e-3, 1.0),
        ("tpu-v5p", 64, Collective::AllGather, 1.95e-3, 2.0e-3),
        ("tpu-v5p", 64, Collective::AllReduce, 3.9e-3, 4.0e-3),
        ("tpu-v5p", 6144, Collective::AllGather, 1.98e-3, 2.1e-3),
    ] {
        let query = query(machine, collective, chips, 1);
        let time = Expecting::new(&registry, &query).unwrap().at(Bytes(size)).time.0;
        assert!((least..=most).contains(&time), "{machine} {chips} {collective}: {time}");
    }
    let given = Given { alpha: Some(Seconds(2e-6)), ..Given::default() };
    let profile = Profile::builtin("trn2").unwrap();
    let machine = Machine::on(&profile, "profile", &given, Collective::AllToAll).unwrap();
    let layout = Layout { ranks: NonZeroU32::new(16), ..Layout::default() };
    let asked = Query::new(machine, Collective::AllToAll, Bytes(1), layout, Params::default());
    let time = Expecting::new(&registry, &asked.unwrap()).unwrap().at(Bytes(size)).time.0;
    assert!((4.19e-3..=4.3e-3).contains(&time), "{time}");
    // No part of a torus is expected to be faster than its links.
    for (machine, most) in [("tpu-v5e", 64), ("tpu-v6e", 40), ("tpu-v4p", 130), ("tpu-v5p", 70)] {
        for (chips, collective) in
            (2..=most).flat_map(|n| Collective::ALL.iter().map(move |&c| (n, c)))
        {
            let query = query(machine, collective, chips, 1);
            let expected = Expecting::new(&registry, &query).unwrap();
            let fabric = &query.machine.fabric;
            for octave in [3, 14, 25, 34] {
                let bound = bound(&query.shape, Volume((1_u64 << octave) as f64), fabric);
                let (bound, at) = (bound.unwrap().time(), expected.at(Bytes(1 << octave)));
                let name = format!("{machine} {chips} {collective} 2^{octave}");
                assert!(at.time.0 >= bound.0 * (1.0 - 1e-9), "{name}: {} {bound}", at.time);
            }
        }
    }
}

/// Of eight V100 the first two share one NVLink of six, and the first four have four each: NCCL's own
/// estimates of its graphs there are 53.7 and 20.16 ms. Half of an all-to-all crosses six links, which
/// `optimum` proves to be 75 GB/s.
#[test]
fn a_cube_mesh_is_no_switch() {
    let registry = Registry::builtin();
    let size = 1_u64 << 30;
    for machine in ["dgx-1v", "p3dn.24xlarge", "nd40rs-v2"] {
        for (collective, ranks, about) in [
            (Collective::AllReduce, 2, 53.7e-3),
            (Collective::AllReduce, 4, 20.16e-3),
            (Collective::AllReduce, 8, 15.71e-3),
            (Collective::SendRecv, 2, size as f64 / 22e9),
            (Collective::AllToAll, 8, size as f64 / 75e9 * 1.2),
        ] {
            let query = query(machine, collective, ranks, 1);
            let expected = Expecting::new(&registry, &query).unwrap().at(Bytes(size));
            let band = expected.low.0..=expected.high.0;
            assert!(band.contains(&about), "{machine} {collective} {ranks}: {band:?}");
            let least = size as f64 / 75e9;
            assert!(collective != Collective::AllToAll || expected.time.0 >= least, "{machine}");
        }
    }
}

/// A board is called the same only if it was measured, and is the sibling of boards whose GPUs are connected
/// as its own are.
#[test]
fn only_a_measured_board_is_the_same() {
    let registry = Registry::builtin();
    let own = (Basis::SameBoard, "the same board, measured elsewhere");
    let sibling = (Basis::SameBoard, "another board of its generation, measured elsewhere");
    let other = (Basis::Transferred, "other measured machines");
    for (machine, ranks, size, (basis, words)) in [
        ("dgx-h100", 8, Bytes(1 << 30), own),
        ("dgx-b200", 8, Bytes(1 << 30), own),
        ("hgx-h800", 8, Bytes(1 << 30), sibling),
        ("hgx-h20", 8, Bytes(1 << 20), sibling),
        ("mi300x", 8, Bytes(1 << 30), own),
        ("mi355x", 8, Bytes(1 << 16), other),
        ("a40-nvlink", 2, Bytes(1 << 13), other),
        ("rtx-3090-nvlink", 2, Bytes(1 << 13), other),
    ] {
        let query = query(machine, Collective::AllReduce, ranks, 1);
        let expecting = Expecting::new(&registry, &query).unwrap();
        let expected = expecting.at(size);
        let known_from = expecting.known_from(&expected, size);
        assert_eq!(expected.basis, basis, "{machine}: {known_from}");
        assert!(known_from.starts_with(words), "{machine}: {known_from}");
    }
}

/// 8 B on eight RTX 4090, which have no P2P, took 42.14 and 40.06 us (NVIDIA/nccl issue 1530).
#[test]
fn buffers_that_pass_through_the_host_may_take_twice_as_long() {
    let registry = Registry::builtin();
    let at = |machine, ranks| {
        let query = query(machine, Collective::AllReduce, ranks, 1);
        let expecting = Expecting::new(&registry, &query).unwrap();
        let expected = expecting.at(Bytes(8));
        (expected, expecting.known_from(&expected, Bytes(8)))
    };
    let (geforce, words) = at("rtx-4090", 8);
    assert!((geforce.low.0..=geforce.high.0).contains(&42.14e-6), "{geforce:?}");
    assert!(words.contains("through host memory"), "{words}");
    // A bridge joins pairs; what was measured with P2P stays as it is.
    for (machine, ranks) in [("rtx-3090-nvlink", 2), ("a40-pcie", 8), ("l40s-pcie", 8)] {
        assert!(!at(machine, ranks).1.contains("through host memory"), "{machine}");
    }
    assert!(at("rtx-3090-nvlink", 4).1.contains("through host memory"));
}

/// Rails pass all nodes: a last node of fewer ranks has fewer of them.
#[test]
fn rails_are_those_of_the_emptiest_node() {
    let registry = Registry::builtin();
    for (ranks, rails) in [(16, 8.0), (15, 7.0), (13, 5.0), (9, 1.0)] {
        let profile = Profile::builtin("dgx-h100").unwrap();
        let collective = Collective::AllReduce;
        let machine = Machine::on(&profile, "profile", &Given::default(), collective).unwrap();
        let layout = Layout { ranks: NonZeroU32::new(ranks), ..Layout::default() };
        let query = Query::new(machine, collective, Bytes(1), layout, Params::default()).unwrap();
        let fabric = &query.machine.fabric;
        let candidate = Candidate::named(&registry, "ring-rails", &query.shape, fabric).unwrap();
        let size = Volume(1e9);
        let n = f64::from(ranks);
        let wire = 2.0 * (n - 1.0) / n * size.0 / (rails * 48e9);
        let time = candidate.prepared.price(size).bandwidth.0;
        assert!((time / wire - 1.0).abs() < 1e-6, "{ranks}: {time} {wire}");
    }
}

/// Of a slice that is a line the ends have no link: a ring's wrap takes each link back, and a ring both ways
/// would need it twice.
#[test]
fn a_line_of_chips_has_no_ring_both_ways() {
    let registry = Registry::builtin();
    for (collective, name, applies) in [
        (Collective::AllGather, "ring", true),
        (Collective::AllGather, "bidirectional-ring-arc", false),
        (Collective::AllReduce, "bidirectional-ring-arc", false),
    ] {
        let query = query("tpu-v5e", collective, 7, 1);
        let fabric = &query.machine.fabric;
        let priced = Candidate::named(&registry, name, &query.shape, fabric);
        assert_eq!(priced.is_ok(), applies, "{collective} {name}");
    }
}

/// The root of a scatter is a corner, which has two links on a part of the torus that is open.
#[test]
fn a_corner_scatters_over_its_two_links() {
    let registry = Registry::builtin();
    let size = Bytes(64 << 20);
    for (collective, name) in [(Collective::Scatter, "flat"), (Collective::Gather, "linear")] {
        let query = query("tpu-v5e", collective, 16, 1);
        let fabric = &query.machine.fabric;
        for ports in [query.shape.ports, Ports::Unbounded] {
            let shape = Shape { ports, ..query.shape };
            let priced = Candidate::named(&registry, name, &shape, fabric).unwrap();
            let time = priced.prepared.time(Volume::from(size)).0;
            let least = 15.0 / 16.0 * (64 << 20) as f64 / (2.0 * 45e9);
            assert!(time >= least && time < 1.2 * least, "{collective}, {ports}: {time:e}");
        }
    }
}

//! NCCL's search from topology to graphs: what NVIDIA's own search finds on fifteen machines, two
//! of its searches step by step, machines small enough to be done by hand, and files that are
//! none.
//!
//! `data/nccl_searches.csv.gz` holds a line for each machine, ranks a node, version, one node or
//! several: what NVIDIA's code finds there, and how many steps it takes here. `TRYCMD=overwrite`
//! writes it anew.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write as _;

use collcost::library::nccl::described::{MACHINES, Machine, SEARCHED};
use collcost::library::nccl::graphs_file::Graphs;
use collcost::library::nccl::search::{Job, Searched, picture, search};
use collcost::library::nccl::topology::Knobs;
use collcost::library::nccl::topology_file::read;
use collcost::library::nccl::{
    Capability, Gbps, Graph, PathType, Processor, Starting, Told, Version, comms,
};
use collcost::view::nccl_graphs as view;
use proptest::prelude::*;

use crate::full::one_in;
use crate::gzip::inflate;

const TWO_SOCKETS: &str = include_str!("../data/nccl_topologies/two-sockets.xml");

/// Searches that take more steps are left to `cargo test -- --ignored`.
const MANY_STEPS: u64 = 4_000_000;

/// The releases of the table here; those of others are in `nccl_releases`.
const KNOWN: [&str; 4] = ["2.18.3", "2.21.5", "2.27.3", "2.30.7"];

fn release(tag: &str) -> Version {
    tag.parse().expect(tag)
}

/// The environment of the table: in-network reduction wherever a NIC has it.
fn knobs(nodes: u32) -> Knobs {
    let mut knobs = Knobs::default();
    if nodes > 1 {
        knobs.set("NCCL_COLLNET_ENABLE", "1").unwrap();
    }
    knobs
}

fn machine(name: &str) -> &'static Machine {
    MACHINES.iter().find(|machine| machine.name == name).unwrap()
}

fn searched(machine: &Machine, per_node: usize, version: Version, nodes: u32) -> Searched {
    let description = read(&machine.xml(), machine.name).unwrap();
    let job = Job { nodes, per_node: Some(per_node as u32) };
    search(&description, version, job, &knobs(nodes)).unwrap()
}

fn line(machine: &Machine, searched: &Searched) -> String {
    let mut text = Vec::new();
    view::sheet(machine.name, searched).csv(&mut text).unwrap();
    String::from_utf8(text).unwrap().lines().nth(1).unwrap().to_owned()
}

const SEARCHES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/nccl_searches.csv.gz");

/// Every job of the table: machine, ranks a node, version, nodes.
fn jobs() -> Vec<(&'static Machine, usize, Version, u32)> {
    let mut jobs = Vec::new();
    for machine in &MACHINES {
        // What shares `NVLink` between hosts is searched whole, and no version before knows it.
        let whole = machine.name == "gb200_nvl8_2host";
        let grace = whole || machine.name == "gb200_nvl4_4x400g";
        for per_node in [1, 2, 4, 8] {
            for version in KNOWN.map(release) {
                let known = !grace || version >= release("2.27.3");
                if per_node <= machine.gpus && known && (!whole || per_node == machine.gpus) {
                    jobs.extend([1, 2].map(|nodes| (machine, per_node, version, nodes)));
                }
            }
        }
    }
    jobs
}

/// Searches the jobs whose known number of steps is asked for, and compares.
fn compare(asked: impl Fn(u64) -> bool) {
    let overwrite = std::env::var_os("TRYCMD").is_some_and(|value| value == "overwrite");
    let known = if overwrite { String::new() } else { inflate(&std::fs::read(SEARCHES).unwrap()) };
    let known: Vec<(&str, u64)> = known
        .lines()
        .map(|line| line.rsplit_once(',').unwrap())
        .map(|(line, steps)| (line, steps.parse().unwrap()))
        .collect();
    let jobs = jobs();
    assert_eq!(jobs.len(), 360);
    if overwrite {
        let file = std::fs::File::create(SEARCHES).unwrap();
        let mut file = flate2::write::GzEncoder::new(file, flate2::Compression::best());
        for (machine, per_node, version, nodes) in jobs {
            let found = searched(machine, per_node, version, nodes);
            writeln!(file, "{},{}", line(machine, &found), found.steps).unwrap();
        }
        return;
    }
    assert_eq!(known.len(), jobs.len());
    for ((machine, per_node, version, nodes), (expected, steps)) in
        jobs.into_iter().zip(known).step_by(one_in(3))
    {
        if asked(steps) {
            let found = searched(machine, per_node, version, nodes);
            assert_eq!(line(machine, &found), expected);
            assert_eq!(found.steps, steps, "{expected}");
        }
    }
}

#[test]
fn the_search_finds_what_nccls_own_finds() {
    compare(|steps| steps <= MANY_STEPS);
}

#[test]
#[ignore = "it takes 47 million steps"]
fn it_does_where_that_takes_long() {
    compare(|steps| steps > MANY_STEPS);
}

/// What decides is the communicator: all its fields are those of the table that NVIDIA's decisions
/// were taken with.
#[test]
fn communicators_start_as_those_that_decide() {
    let text = inflate(include_bytes!("../data/nccl_communicators.csv.gz"));
    let rows = text.lines().skip(1).map(|line| line.split(',').take(3).collect::<Vec<_>>());
    let mut known: HashMap<(String, u32, Version, bool), Searched> = HashMap::new();
    let mut compared = 0;
    for (named, row) in comms::read(&text).unwrap().into_iter().zip(rows) {
        let version = KNOWN.map(release).into_iter().find(|v| row[2] == format!("search_{v}"));
        let (Some(version), comm) = (version, named.comm) else { continue };
        // The heavy ones are searched once, by the test above.
        let heavy = comm.local_ranks == 4 && comm.min_cc >= 90 && comm.nodes > 1;
        let hosts = row[1] == "gb200_nvl8_2host";
        let grace = row[1] == "gb200_nvl4_4x400g";
        if (heavy && !grace) || (hosts && version < release("2.30.7")) {
            continue;
        }
        let key = (row[1].to_owned(), comm.local_ranks, version, comm.nodes > 1);
        let found = known.entry(key).or_insert_with(|| {
            let nodes = comm.nodes.min(2);
            searched(machine(row[1]), comm.local_ranks as usize, version, nodes)
        });
        // From two nodes on their number does not change the graphs.
        found.nodes = comm.nodes;
        assert_eq!(found.communicator(), comm, "{}", named.id);
        compared += 1;
    }
    assert!(compared > 220, "{compared}");
}

const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/library/nccl/machines.csv");

/// The lines of a machine in the built-in table. Of racks NVIDIA's code was asked for one and two hosts, whose
/// lines these are; those of more, and of other machines, are the search's here.
fn lines_of(machine: Machine, per_node: u32) -> Vec<String> {
    let of = |nodes: u32, span: &str| {
        let on = machine.hosting(per_node);
        let mut found = searched(&on, per_node as usize, release("2.30.7"), nodes.min(2));
        found.nodes = nodes;
        let comm = found.communicator();
        let graphs = line(&machine, &found).split(',').skip(11).collect::<Vec<_>>().join(",");
        let (name, cc, nvls) = (machine.name, comm.min_cc, u8::from(comm.nvls));
        let (channels, with_nvls) = (comm.channels, comm.nvls_channels);
        let cpu = match name {
            "hgx_a800_8x200g" => "x86_64,amd",
            "hgx_h800_8x400g" | "hgx_b300" => "x86_64,intel",
            _ => "arm64,",
        };
        format!(
            "2.30.7,{span},{name},{per_node},{cc},{cc},{cpu},{channels},{with_nvls},{nvls},0,0,0,1,{graphs}"
        )
    };
    let inside = (per_node > 1).then(|| of(1, "1,1"));
    let has_nics = machine.name.ends_with("00g");
    let between = has_nics.then(|| [of(2, "2,2"), of(3, "3,")]);
    inside.into_iter().chain(between.into_iter().flatten()).collect()
}

#[test]
fn what_was_searched_here_is_as_the_search_finds_it() {
    let table = std::fs::read_to_string(TABLE).unwrap();
    if std::env::var_os("TRYCMD").is_some_and(|value| value == "overwrite") {
        let is_own = |line: &&str| SEARCHED.iter().any(|one| line.contains(one.name));
        let others = table.lines().filter(|line| !is_own(line)).map(str::to_owned);
        let ranks: Vec<u32> =
            [1, 2, 3].into_iter().chain((1..=18).map(|hosts| 4 * hosts)).collect();
        let own = SEARCHED.iter().flat_map(|&machine| {
            let fit = ranks.iter().filter(move |&&n| n as usize <= machine.gpus);
            fit.flat_map(move |&n| lines_of(machine, n))
        });
        let lines: Vec<String> = others.chain(own).collect();
        std::fs::write(TABLE, lines.join("\n") + "\n").unwrap();
        return;
    }
    let places = [("hgx_a800_8x200g", 8), ("hgx_h800_8x400g", 4)];
    let racks = [("gb200_nvl72_72x400g", 8), ("gb200_nvl72_72x400g", 72), ("gb300_nvl72", 36)];
    for (name, per_node) in places.into_iter().chain(racks).chain([("hgx_b300", 8)]) {
        for line in lines_of(Machine::named(name).unwrap(), per_node) {
            assert!(table.lines().any(|known| known == line), "{line}");
        }
    }
}

/// The searches of a graph: pattern, crossNic, rate between and inside, types, channels, same, and
/// behind the arrow the best with the steps that were left.
fn trace(searched: &Searched, id: u32) -> Vec<String> {
    let attempts = searched.attempts.iter().filter(|attempt| attempt.id == id);
    let line = |a: &collcost::library::nccl::search::Attempt| {
        let left = a.left.map_or("perfect".to_owned(), |left| left.to_string());
        format!(
            "{} {} {}/{} {}/{} {}-{} {} -> {} x {}/{} {left}",
            a.pattern,
            a.cross_nic,
            a.inter.0,
            a.intra.0,
            a.type_inter,
            a.type_intra,
            a.least,
            a.most,
            u8::from(a.same_channels),
            a.channels,
            a.best_inter.0,
            a.best_intra.0
        )
    };
    attempts.map(line).collect()
}

#[test]
fn two_nodes_of_h100_step_by_step() {
    let found = searched(machine("dgx_h100_8x400g"), 8, release("2.30.7"), 2);
    assert_eq!(found.steps, 37_256);
    let ring = trace(&found, 0);
    // Over near paths nothing is found, whatever is allowed inside the node.
    let (near, far) = ring.split_at(ring.len() - 4);
    let levels = ["NVL", "NVB", "C2C", "PIX", "PXB", "P2C"];
    let mut expected = Vec::new();
    for (inter, inside) in [("PIX", 4), ("PXB", 5), ("P2C", 6)] {
        for intra in &levels[..inside] {
            expected.push(format!("4 0 48/48 {inter}/{intra} 1-32 1 -> 0 x 0/0 136"));
            expected.push(format!("4 0 48/48 {inter}/{intra} 1-32 0 -> 0 x 0/0 16264"));
        }
    }
    assert_eq!(near, expected);
    assert_eq!(
        far,
        [
            "4 0 48/48 PXN/NVL 1-32 1 -> 1 x 48/48 104",
            "4 0 48/48 PXN/NVL 1-32 0 -> 7 x 48/48 0",
            "4 2 48/48 PIX/NVL 1-32 1 -> 7 x 48/48 104",
            "4 2 48/48 PIX/NVL 1-32 0 -> 8 x 48/48 0",
        ]
    );
    assert_eq!(
        trace(&found, 1),
        [
            "1 0 48/48 PIX/NVL 8-8 1 -> 0 x 0/0 224",
            "1 0 48/48 PIX/NVL 8-8 0 -> 0 x 0/0 16352",
            "3 0 48/48 PIX/NVL 8-8 1 -> 0 x 0/0 176",
            "3 0 48/48 PIX/NVL 8-8 0 -> 8 x 48/48 perfect",
        ]
    );
    let nvls = trace(&found, 3);
    assert_eq!(nvls[0], "5 0 48/48 PIX/NVL 1-8 0 -> 6 x 48/48 16364");
    assert_eq!(nvls[4], "5 0 45/45 PIX/NVL 1-8 0 -> 7 x 45/45 16361");
    assert_eq!(
        nvls[12..],
        [
            "5 0 40/40 PIX/NVL 1-8 0 -> 8 x 40/40 perfect",
            "5 0 42/40 PIX/NVL 8-8 0 -> 8 x 42/40 perfect",
            "5 0 45/40 PIX/NVL 8-8 0 -> 8 x 45/40 perfect",
            "5 0 48/40 PIX/NVL 8-8 0 -> 8 x 48/40 perfect",
        ]
    );
}

#[test]
fn one_node_of_a100_step_by_step() {
    let found = searched(machine("dgx_a100_8x200g"), 8, release("2.30.7"), 1);
    assert_eq!(found.steps, 876);
    assert_eq!(
        trace(&found, 0),
        ["4 0 40/40 PIX/NVL 1-32 1 -> 6 x 40/40 0", "4 0 30/30 PIX/NVL 12-32 1 -> 12 x 20/20 0",]
    );
    assert_eq!(
        trace(&found, 1),
        [
            "1 0 20/20 PIX/NVL 12-12 1 -> 12 x 20/20 perfect",
            "1 0 20/30 PIX/NVL 12-12 1 -> 12 x 20/20 0",
        ]
    );
}

/// The graphs of in-network reduction are there, and the job starts as it would without them.
#[test]
fn what_is_shown_of_the_network_is_not_started_with() {
    let mut shown = searched(machine("dgx_h100_sharp"), 4, release("2.30.7"), 2);
    let with = shown.communicator();
    shown.start = Starting::default();
    let description = read(&machine("dgx_h100_sharp").xml(), "t.xml").unwrap();
    let job = Job { nodes: 2, per_node: Some(4) };
    let plain = search(&description, release("2.30.7"), job, &Knobs::default()).unwrap();
    assert_eq!(shown.communicator().channels, plain.communicator().channels);
    assert_eq!((plain.communicator().channels, with.channels), (16, 24));
}

/// Both GPUs reach their NICs faster than each other: NCCL has each on a node of its own. The libraries of 2.30.7 and
/// 2.31.2 print these graphs for this file, and those of the next test with `NCCL_NET_DISABLE_INTRA=1`.
#[test]
fn gpus_that_are_nearer_to_the_network_are_nodes() {
    let description = read(TWO_SOCKETS, "two-sockets.xml").unwrap();
    let job = Job { nodes: 1, per_node: None };
    for tag in ["2.18.1", "2.21.5", "2.30.7", "2.31.2"] {
        let found = search(&description, release(tag), job, &Knobs::default()).unwrap();
        assert_eq!((found.nodes, found.per_node, found.inter), (2, 1, true), "{tag}");
        let graph = &found.ring.graph;
        assert_eq!((graph.channels, graph.inter), (1, Gbps(24.0)), "{tag}");
        assert_eq!((graph.type_intra, graph.type_inter), (PathType::Loc, PathType::Pix), "{tag}");
    }
    // Slower NICs change nothing.
    let slow = read(&TWO_SOCKETS.replace("speed=\"200000\"", "speed=\"80000\""), "t.xml").unwrap();
    let found = search(&slow, release("2.30.7"), job, &Knobs::default()).unwrap();
    assert_eq!((found.nodes, found.per_node, found.inter), (1, 2, false));
}

/// Two GPUs on two sockets: the way between is 10 GB/s each way, so one ring of 10 fills it. A tree
/// goes down and up over the same links, which both ways have.
#[test]
fn two_sockets_by_hand() {
    let description = read(TWO_SOCKETS, "two-sockets.xml").unwrap();
    let inside = Knobs { network_inside: false, ..Knobs::default() };
    let find = |nodes| {
        let job = Job { nodes, per_node: None };
        search(&description, release("2.30.7"), job, &inside).unwrap()
    };
    let one = find(1);
    let expected = Graph {
        pattern: 4,
        channels: 1,
        intra: Gbps(10.0),
        inter: Gbps(10.0),
        type_intra: PathType::Sys,
        type_inter: PathType::Pix,
        same_channels: true,
        ..Graph::default()
    };
    assert_eq!(one.ring.graph, expected);
    assert_eq!(one.ring.channels[0].gpus, [0, 1]);
    assert_eq!(one.ring.channels[0].nets, None);
    assert!(!one.nvls && !one.collnet && !one.nvswitch);
    // Between nodes: in through one NIC, over to the other socket, out through that one's NIC, and
    // the second ring the other way; each crosses the sockets once, in its own direction.
    let two = find(2);
    assert_eq!((two.ring.graph.cross_nic, two.ring.graph.channels), (2, 2));
    assert_eq!(two.ring.graph.inter, Gbps(10.0));
    let ends: Vec<_> = two.ring.channels.iter().map(|c| (c.gpus.clone(), c.nets)).collect();
    assert_eq!(ends, [(vec![0, 1], Some([0, 1])), (vec![1, 0], Some([1, 0]))]);
    // 2.21 marks that with 1; without crossing, one ring has to go back to where it came from.
    let without = Knobs { cross_nic: 0, ..inside.clone() };
    let job = Job { nodes: 2, per_node: None };
    let old = search(&description, release("2.21.5"), job, &inside).unwrap();
    assert_eq!(old.ring.graph.cross_nic, 1);
    let same = search(&description, release("2.30.7"), job, &without).unwrap();
    assert_eq!((same.ring.graph.cross_nic, same.ring.graph.channels), (0, 1));
    assert_eq!(same.ring.channels[0].nets, Some([0, 0]));
}

#[test]
fn a_machine_is_drawn_as_in_the_log() {
    let description = read(TWO_SOCKETS, "two-sockets.xml").unwrap();
    let job = Job { nodes: 2, per_node: None };
    let inside = Knobs { network_inside: false, ..Knobs::default() };
    let lines = picture(&description, release("2.30.7"), job, &inside).unwrap();
    let head = "\
=== System : maxBw 24.0 totalBw 24.0 ===
CPU/0-0 (1/1/2)
+ PCI[24.0] - PCI/0-16000 (0)
              + PCI[24.0] - DEV/0-17000 (0)
                            + LOC[5000.0] - GPU/0-17000
              + PCI[24.0] - NIC/0-18000
                            + NET[25.0] - NET/0-0 (0/18/1/25.000000)
+ SYS[10.0] - CPU/0-1";
    assert_eq!(lines[..8].join("\n"), head);
    let gpu = lines.iter().find(|line| line.starts_with("GPU/0-17000 :")).unwrap();
    assert_eq!(
        gpu.trim_end(),
        "GPU/0-17000 :GPU/0-17000 (0/5000.0/LOC) GPU/0-99000 (7/10.0/SYS) CPU/0-0 (3/24.0/PHB) \
         CPU/0-1 (4/10.0/SYS) NET/0-0 (4/24.0/PIX) NET/0-1 (7/10.0/SYS) DEV/0-17000 (1/5000.0/LOC) \
         DEV/0-99000 (6/10.0/SYS)"
    );
}

/// What releases of NCCL printed of a virtual machine with a GPU and the loopback as its NIC, one rank
/// on each of four hosts (`scripts/gpu-acceptance`); NCCL wrote the topology file, too. It was that of
/// an H200; 2.20.5 and 2.31.2 ran beside an H100, whose device number is replaced.
#[test]
fn a_virtual_machine_is_drawn_as_nccl_drew_it() {
    const FILE: &str = include_str!("../data/nccl_topologies/one-gpu-vm.xml");
    const PRINTED: &str = include_str!("../data/nccl_topologies/one-gpu-vm.txt");
    let description = read(FILE, "one-gpu-vm.xml").unwrap();
    let job = Job { nodes: 4, per_node: None };
    let mut releases = 0;
    for printed in PRINTED.split("# NCCL ").skip(1) {
        let (tag, wanted) = printed.split_once('\n').unwrap();
        let lines = picture(&description, release(tag), job, &Knobs::default()).unwrap();
        let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
        assert_eq!(lines, wanted.trim_end().lines().collect::<Vec<_>>(), "{tag}");
        releases += 1;
    }
    assert_eq!(releases, 8);
}

/// The XML is that of `NCCL_GRAPH_DUMP_FILE`: its reader makes the same communicator of it.
#[test]
fn graphs_survive_their_file() {
    for (name, per_node, nodes) in [
        ("dgx_a100_8x200g", 8, 1),
        ("dgx_h100_8x400g", 8, 2),
        ("dgx_h100_sharp", 8, 4),
        ("tcp25g_t4", 1, 3),
        ("nvbridge2_a6000", 2, 1),
    ] {
        for version in Version::ALL {
            let found = searched(machine(name), per_node, version, nodes);
            let mut text = Vec::new();
            view::xml(&mut text, &found).unwrap();
            let text = String::from_utf8(text).unwrap();
            let graphs = Graphs::read(&text, "g.xml").unwrap();
            let comm = found.communicator();
            let Processor { arch, vendor } = found.processor;
            let told = Told {
                ranks: None,
                nodes: Some(nodes),
                gpu: Some(Capability(comm.min_cc)),
                processor: Some(Processor { arch, vendor }),
                ..Told::default()
            };
            let mut again = graphs.communicator(&told, version).unwrap();
            // A file without a graph over it does not tell that there is a switch, and an empty
            // graph no pattern.
            again.nvswitch = comm.nvswitch;
            if version < release("2.22.3") && !comm.collnet {
                again.collnet_direct_graph.pattern = 0;
            }
            assert_eq!(again, comm, "{name} {version}");
        }
    }
}

/// What the file says and the version cannot use, or what it does not say, is one error with its
/// line.
#[test]
fn files_that_are_no_machine() {
    let without = |what: &str| {
        assert!(TWO_SOCKETS.contains(what), "{what}");
        TWO_SOCKETS.replacen(what, "", 1)
    };
    let instead = |what: &str, other: &str| {
        assert!(TWO_SOCKETS.contains(what), "{what}");
        TWO_SOCKETS.replacen(what, other, 1)
    };
    let cases = [
        (String::new(), "t.xml:1", "no <system>"),
        ("<graphs version=\"1\"/>".into(), "t.xml:1", "graphs, not a topology"),
        ("<topology/>".into(), "t.xml:1", "begins with <topology>"),
        ("<system version=\"2\"/>".into(), "t.xml:1", "version=\"2\""),
        ("<system version=\"1\"/>".into(), "t.xml:1", "no <cpu>"),
        (without("</system>\n"), "t.xml:25", "ends inside <system>"),
        (without(" arch=\"x86_64\""), "t.xml:2", "no `arch`"),
        (instead("x86_64", "riscv64"), "t.xml:2", "riscv64"),
        (without(" link_width=\"16\""), "t.xml:3", "no `link_width`"),
        (instead("0000:17:00.0", "seventeen"), "t.xml:4", "not a PCI address"),
        (instead("0000:99:00.0", "0000:17:00.0"), "t.xml:16", "the same busid"),
        (without(" sm=\"80\""), "t.xml:5", "no `sm`"),
        (instead("<gpu dev=\"0\" ", "<gpu dev=0 "), "t.xml:5", "not XML"),
        (instead("</cpu>", "</pci>"), "t.xml:13", "not XML"),
        (instead("sm=\"80\"", "sm=\"eighty\""), "t.xml:5", "not a whole number"),
        (instead("rank=\"1\"", "rank=\"0\""), "t.xml:17", "rank 0 has two GPUs"),
        (instead("gdr=\"1\"/>", "gdr=\"1\" mlopart=\"0\"/>"), "t.xml:5", "MLOPart"),
        (instead("dev=\"1\" speed", "dev=\"0\" speed"), "t.xml:21", "two ports"),
        (instead("guid=\"0x18\"", "guid=\"none\""), "t.xml:9", "hexadecimal"),
        (instead("latency=\"0\"", "latency=\"-1\""), "t.xml:9", "microseconds"),
        (TWO_SOCKETS.replace("<gpu", "<gone"), "t.xml", "no GPU"),
        (
            instead(
                "gdr=\"1\"/>",
                "gdr=\"1\"><nvlink target=\"0000:99:00.0\" count=\"4\" tclass=\"0x030200\"/></gpu>",
            ),
            "t.xml",
            "none goes back",
        ),
        (TWO_SOCKETS.replace("<net ", "<gone "), "t.xml", "no NIC"),
        (instead("0x060400", "0x068000"), "t.xml", "1 of the 2 GPUs"),
    ];
    for (text, place, what) in cases {
        let job = Job { nodes: 2, per_node: None };
        let found = read(&text, "t.xml")
            .and_then(|d| search(&d, release("2.30.7"), job, &Knobs::default()).map(|_| ()));
        match found {
            Err(error) => {
                let said = error.to_string();
                assert!(said.contains(what) && said.contains(place), "{what}: {said}");
                assert_eq!(said.lines().count(), 3, "{said}");
            }
            Ok(()) => panic!("{what} was not refused"),
        }
    }
    let description = read(TWO_SOCKETS, "t.xml").unwrap();
    for (nodes, per_node) in [(0, None), (1, Some(0)), (1, Some(3)), (u32::MAX, None)] {
        let job = Job { nodes, per_node };
        let refused = search(&description, release("2.30.7"), job, &Knobs::default()).unwrap_err();
        assert!(refused.is_input(), "{refused}");
    }
}

/// NCCL 2.18 takes the hosts of a file for one.
#[test]
fn hosts_that_2_18_does_not_tell_apart() {
    let hosts = machine("gb200_nvl8_2host").xml();
    let description = read(&hosts, "t.xml").unwrap();
    let job = Job { nodes: 1, per_node: None };
    let refused = search(&description, release("2.18.3"), job, &Knobs::default()).unwrap_err();
    assert!(refused.to_string().contains("2.18"), "{refused}");
}

/// Whatever the machine: an answer or a refusal, channels over all GPUs, rates and NICs that are
/// there, and twice the same.
fn holds(text: &str, nodes: u32, version: Version) {
    let description = read(text, "t.xml").unwrap();
    let job = Job { nodes, per_node: None };
    let Ok(found) = search(&description, version, job, &Knobs::default()) else { return };
    let gpus = found.devices.len();
    for (id, graph) in found.graphs() {
        assert_eq!(graph.channels.len(), graph.graph.channels as usize);
        for channel in &graph.channels {
            assert_eq!(channel.nets.is_some(), found.inter);
            let mut order = channel.gpus.clone();
            order.sort_unstable();
            // NVLS names heads alone.
            assert!(id == 3 || order.iter().copied().eq(0..gpus), "{channel:?}\n{text}");
        }
        let asked = found.attempts.iter().filter(|attempt| attempt.id == id);
        let most = asked.map(|attempt| attempt.most).max().unwrap_or(0);
        assert!(graph.graph.channels <= most.max(1), "{id}");
    }
    let comm = found.communicator();
    comm.check().unwrap();
    let again = search(&description, version, job, &Knobs::default()).unwrap();
    assert_eq!(found, again);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_machine_is_answered(
        places in proptest::collection::vec((0..3_usize, 0..3_usize, 0..4_usize), 1..4),
        cc in prop_oneof![Just(60), Just(70), Just(80), Just(90), Just(100)],
        cpu in 0..5_usize,
        linked in 0..3_usize,
        (nodes, version) in (1..3_u32, 0..4_usize),
    ) {
        let cpu = [
            "arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"143\"",
            "arch=\"x86_64\" vendor=\"AuthenticAMD\" familyid=\"25\" modelid=\"1\"",
            "arch=\"x86_64\" vendor=\"CentaurHauls\" familyid=\"7\" modelid=\"91\"",
            "arch=\"arm64\"",
            "arch=\"ppc64\"",
        ][cpu];
        let gpus: usize = places.iter().map(|place| place.0).sum();
        let (mut text, mut gpu, mut nic) = (String::from("<system>"), 0, 0);
        for (numa, (own, nics, switch)) in places.into_iter().enumerate() {
            write!(text, "<cpu numaid=\"{numa}\" {cpu}>").unwrap();
            let pci = |bus: usize, class: &str| format!(
                "<pci busid=\"{bus:x}\" class=\"{class}\" link_speed=\"16.0 GT/s PCIe\" \
                 link_width=\"16\">"
            );
            let (open, close) = match switch {
                0 => (String::new(), ""),
                1 => (pci(0xa000 + numa, "0x060400"), "</pci>"),
                _ => (
                    pci(0xa000 + numa, "0x060400") + &pci(0xb000 + numa, "0x060400"),
                    "</pci></pci>",
                ),
            };
            text += &open;
            for _ in 0..own {
                text += &pci(0x1000 + 16 * gpu, "0x0302");
                write!(text, "<gpu dev=\"{gpu}\" sm=\"{cc}\" rank=\"{gpu}\" gdr=\"1\">").unwrap();
                if linked == 1 {
                    text += "<nvlink target=\"0\" count=\"12\" tclass=\"0x068000\"/>";
                } else if linked == 2 && (gpu ^ 1) < gpus {
                    let other = 0x1000 + 16 * (gpu ^ 1);
                    write!(text, "<nvlink target=\"{other:x}\" count=\"4\" tclass=\"0x0302\"/>")
                        .unwrap();
                }
                text += "</gpu></pci>";
                gpu += 1;
            }
            for _ in 0..nics {
                text += &pci(0x8000 + 16 * nic, "0x0200");
                write!(text, "<nic><net dev=\"{nic}\" speed=\"100000\" port=\"1\" gdr=\"{}\" \
                    coll=\"{}\"/></nic></pci>", numa % 2, switch % 2).unwrap();
                nic += 1;
            }
            text += close;
            text += "</cpu>";
        }
        text += "</system>";
        if gpus > 0 {
            holds(&text, nodes, Version::ALL[version]);
        }
    }
}

/// NCCL lists ports without a PCI device below each processor and reads them all, as in its own dump of four GPUs and
/// three virtual interfaces.
#[test]
fn ports_without_a_device_are_listed_by_each_processor() {
    let nets: String = (1..4)
        .map(|dev| format!("<net name=\"v{dev}\" dev=\"{dev}\" speed=\"10000\" port=\"0\" guid=\"0x{dev}\" gdr=\"0\"/>"))
        .collect();
    let cpu = |numa: usize| {
        format!(
            "<cpu host_hash=\"0xa7\" numaid=\"{numa}\" arch=\"x86_64\" vendor=\"AuthenticAMD\" \
             familyid=\"143\" modelid=\"49\"><pci busid=\"0000:{numa}1:00.0\" class=\"0x030000\" \
             link_speed=\"16.0 GT/s PCIe\" link_width=\"16\"><gpu dev=\"{numa}\" sm=\"89\" rank=\"{numa}\" \
             gdr=\"0\"/></pci><nic>{nets}</nic></cpu>"
        )
    };
    let text = format!("<system version=\"1\">{}</system>", (0..4).map(cpu).collect::<String>());
    let description = read(&text, "t.xml").unwrap();
    let job = Job { nodes: 1, per_node: None };
    let found = search(&description, release("2.28.9"), job, &Knobs::default()).unwrap();
    let ring = found.communicator().ring;
    assert_eq!((ring.channels, ring.intra.0, ring.pattern), (1, 15.0, 4));
}

/// Large and strange files are refused, or answered without end of time and memory.
#[test]
fn hostile_files_are_refused() {
    let job = Job { nodes: 2, per_node: None };
    let knobs = Knobs::default();
    let cpu = "<cpu numaid=\"0\" arch=\"arm64\">";
    let device = |bus: usize, inside: &str| {
        format!(
            "<pci busid=\"{bus:08x}\" class=\"0x0302\" link_speed=\"16.0 GT/s PCIe\" \
             link_width=\"16\">{inside}</pci>\n"
        )
    };
    let gpu = |rank: usize, links: &str| {
        format!("<gpu dev=\"{rank}\" sm=\"90\" rank=\"{rank}\" gdr=\"1\">{links}</gpu>")
    };
    let whole = |inside: &str| format!("<system>{cpu}{inside}</cpu></system>");
    // 10,000 GPUs, NICs, and switches inside each other.
    let many: String = (0..10_000).map(|n| device(n, &gpu(n, ""))).collect();
    let nics: String = (0..10_000)
        .map(|n| device(n, &format!("<nic><net dev=\"{n}\" speed=\"400000\"/></nic>")))
        .collect();
    let deep = "<pci busid=\"1\" class=\"0x0604\" link_speed=\"\" link_width=\"16\">";
    let deep = deep.repeat(10_000) + &"</pci>".repeat(10_000);
    let elements = "<pci/>".repeat(100_000);
    for text in [whole(&many), whole(&nics), whole(&deep), whole(&elements)] {
        let found = read(&text, "t.xml");
        let refused = found.and_then(|d| search(&d, release("2.30.7"), job, &knobs).map(|_| ()));
        let refused = refused.unwrap_err();
        assert!(refused.to_string().contains("t.xml"), "{refused}");
    }
    // As many GPUs as there may be, all behind one switch with one NIC each.
    let link = "<nvlink target=\"fff\" count=\"18\" tclass=\"0x068000\"/>";
    let some: String = (0..96)
        .map(|n| {
            let nic = format!("<nic><net dev=\"{n}\" speed=\"400000\" gdr=\"1\"/></nic>");
            device(n, &gpu(n, link)) + &device(4096 + n, &nic)
        })
        .collect();
    let description = read(&whole(&some), "t.xml").unwrap();
    let found = search(&description, release("2.30.7"), job, &knobs).unwrap();
    assert!(found.ring.graph.channels > 0 && found.devices.len() == 96);
}

/// A profile beside a topology file answers for any number of nodes, as `--topo` does.
#[test]
fn a_profile_names_its_topology() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("topology");
    std::fs::create_dir_all(&folder).unwrap();
    let topology = folder.join("sockets.xml");
    std::fs::write(&topology, TWO_SOCKETS).unwrap();
    let known = collcost::machine::profile::Profile::builtin("dgx-a100").unwrap().to_toml();
    let keys = known.lines().filter(|l| !l.starts_with("aliases") && !l.starts_with("nccl_graphs"));
    let rack = keys
        .collect::<Vec<_>>()
        .join("\n")
        .replace("name = \"dgx-a100\"", "name = \"sockets\"\nnccl_topology = \"sockets.xml\"");
    let profile = folder.join("sockets.toml");
    std::fs::write(&profile, &rack).unwrap();
    let (profile, topology) = (profile.to_str().unwrap(), topology.to_str().unwrap());
    let run = |words: &[&str]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_collcost"))
            .args(words)
            .output()
            .expect("it starts");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    for nodes in ["1", "3"] {
        let words = ["--nodes", nodes, "-g", "2", "--on", profile, "--format", "json"];
        let (code, said, error) =
            run(&[&["select", "nccl", "allreduce", "16MiB"], &words[..]].concat());
        assert_eq!(code, Some(0), "{error}");
        let chosen = ["--topo", topology, "--nodes", nodes, "--format", "json"];
        let (code, by_file, error) =
            run(&[&["nccl", "choose", "allreduce", "16MiB"], &chosen[..]].concat());
        assert_eq!(code, Some(0), "{error}");
        let by_file: serde_json::Value = serde_json::from_str(&by_file).unwrap();
        let cell = &by_file["ranges"][0];
        let algorithm = cell["algorithm"].as_str().unwrap();
        assert!(said.contains(algorithm), "{algorithm}: {said}");
    }
    std::fs::write(folder.join("lost.toml"), rack.replace("sockets.xml", "none.xml")).unwrap();
    let lost = folder.join("lost.toml");
    let (code, _, said) = run(&["allreduce", "1M", "-n", "2", "--on", lost.to_str().unwrap()]);
    assert!(code == Some(2) && said.contains("nccl_topology = \"none.xml\""), "{said}");
}

//! NCCL's graph files and debug logs: what is read is the communicator that wrote it, tables are
//! written as NCCL prints them, and what is damaged is refused with its line.
//!
//! `data/nccl_logs` holds tables printed by NCCL 2.21.5, 2.30.7 (two nodes of a DGX H100 topology)
//! and 2.30.7 (four of T4s over TCP), with lines of ours around them in NCCL's formats. The choices
//! in `h100-2x8.log` are NCCL's; those in `t4-4x1.log` are ours. `h200-4x1.log` is what NCCL 2.32.3
//! wrote for four ranks that shared an H200 (`scripts/gpu-acceptance`), without lines of other kinds.

use std::fmt::Write as _;

use collcost::answer::nccl_log::{Asked, Given, NcclLog, communicator, nccl_log};
use collcost::library::nccl::comms::{self, Named};
use collcost::library::nccl::graphs_file::Graphs;
use collcost::library::nccl::log::Log;
use collcost::library::nccl::topology::Knobs;
use collcost::library::nccl::{
    Algo, Capability, Communicator, Function, Gbps, Graph, Micros, Place, Processor, Proto,
    Settings, Table, Told, Version,
};
use collcost::view::nccl_table::table;
use proptest::prelude::*;

use crate::gzip::inflate;

fn release(tag: &str) -> Version {
    tag.parse().expect(tag)
}

const H100: &str = include_str!("../data/nccl_logs/h100-2x8.log");
const T4: &str = include_str!("../data/nccl_logs/t4-4x1.log");

const H200: &str = include_str!("../data/nccl_logs/h200-4x1.log");

fn communicators() -> Vec<(Named, String)> {
    let text = inflate(include_bytes!("../data/nccl_communicators.csv.gz"));
    let sources = text.lines().skip(1).map(|l| l.split(',').nth(2).unwrap().to_owned());
    comms::read(&text).unwrap().into_iter().zip(sources).collect()
}

fn named(id: &str) -> Communicator {
    communicators().into_iter().find(|(named, _)| named.id == id).unwrap().0.comm
}

/// Those that a version's own search found, with that version.
fn searched() -> impl Iterator<Item = (Named, Version)> {
    communicators().into_iter().filter_map(|(named, source)| {
        let version = Version::ALL.into_iter().find(|v| source == format!("search_{v}"))?;
        Some((named, version))
    })
}

// ---- graph files

/// A graph as `NCCL_GRAPH_DUMP_FILE` has it.
fn xml(id: u32, graph: &Graph, gpus: u32, nets: bool, text: &mut String) {
    let Graph { pattern, channels, intra, inter, latency_inter, cross_nic, .. } = graph;
    writeln!(
        text,
        "  <graph id=\"{id}\" pattern=\"{pattern}\" crossnic=\"{cross_nic}\" \
         nchannels=\"{channels}\" speedintra=\"{}\" speedinter=\"{}\" latencyinter=\"{}\" \
         typeintra=\"{}\" typeinter=\"{}\" samechannels=\"{}\">",
        intra.0,
        inter.0,
        latency_inter.0,
        graph.type_intra,
        graph.type_inter,
        u32::from(graph.same_channels)
    )
    .unwrap();
    for channel in 0..*channels {
        text.push_str("    <channel>\n");
        let net = if nets { format!("      <net dev=\"{channel}\"/>\n") } else { String::new() };
        text.push_str(&net);
        // NVLS names the head alone.
        let listed = if id == 3 { 1 } else { gpus };
        for i in 0..listed {
            let gpu = (channel + i) % gpus;
            writeln!(text, "      <gpu dev=\"{gpu}\" rank=\"{gpu}\"/>").unwrap();
        }
        text.push_str(&net);
        text.push_str("    </channel>\n");
    }
    text.push_str("  </graph>\n");
}

fn dump(comm: &Communicator, version: Version) -> String {
    let mut text = String::from("<graphs version=\"1\">\n");
    let nets = comm.nodes > 1;
    let mut add = |id, graph| xml(id, graph, comm.local_ranks, nets, &mut text);
    add(0, &comm.ring);
    add(1, &comm.tree);
    if comm.collnet {
        add(2, &comm.collnet_chain_graph);
    }
    if comm.nvls_graph.channels > 0 {
        add(3, &comm.nvls_graph);
    }
    if comm.collnet && version >= release("2.22.3") {
        add(4, &comm.collnet_direct_graph);
    }
    text + "</graphs>\n"
}

fn told(comm: &Communicator) -> Told {
    Told {
        ranks: None,
        nodes: Some(comm.nodes),
        gpu: Some(Capability(comm.min_cc)),
        processor: Some(Processor { arch: comm.arch, vendor: comm.vendor }),
        ..Told::default()
    }
}

/// Graphs, channels and NVLS of all that NCCL's searches found, from a file of the graphs alone.
#[test]
fn a_graph_file_gives_back_its_communicator() {
    let mut tried = 0;
    for (Named { id, comm }, version) in searched() {
        let graphs = Graphs::read(&dump(&comm, version), "graphs.xml").unwrap();
        let read = graphs.communicator(&told(&comm), version).unwrap();
        // A file does not show a switch that nothing uses.
        let read = Communicator { nvswitch: comm.nvswitch, ..read };
        assert_eq!(read.channels, comm.channels, "{id}");
        assert_eq!((read.nvls, read.nvls_channels), (comm.nvls, comm.nvls_channels), "{id}");
        let settings = Settings::default();
        let (one, other) = (
            Table::new(&read, version, &settings).unwrap(),
            Table::new(&comm, version, &settings).unwrap(),
        );
        assert_eq!(one, other, "{id}");
        tried += 1;
    }
    assert_eq!(tried, 270);
}

const SMALL: &str = "\
<graphs version=\"1\">
  <graph id=\"0\" pattern=\"4\" crossnic=\"0\" nchannels=\"1\" speedintra=\"20\" speedinter=\"20\" latencyinter=\"0\" typeintra=\"NVL\" typeinter=\"PIX\" samechannels=\"1\">
    <channel><net dev=\"0\"/><gpu dev=\"0\" rank=\"0\"/><gpu dev=\"1\" rank=\"1\"/><net dev=\"0\"/></channel>
  </graph>
  <graph id=\"1\" pattern=\"1\" crossnic=\"0\" nchannels=\"1\" speedintra=\"40\" speedinter=\"20\" latencyinter=\"0\" typeintra=\"NVL\" typeinter=\"PIX\" samechannels=\"1\">
    <channel><net dev=\"0\"/><gpu dev=\"0\" rank=\"0\"/><gpu dev=\"1\" rank=\"1\"/><net dev=\"0\"/></channel>
  </graph>
</graphs>
";

#[test]
fn damaged_graph_files_are_refused_with_their_line() {
    assert!(Graphs::read(SMALL, "g.xml").is_ok());
    let second = "<gpu dev=\"1\" rank=\"1\"/>";
    for (from, to, line, what) in [
        ("</graphs>\n", "", 7, "ends inside <graphs>"),
        ("  </graph>\n</graphs>\n", "", 6, "ends inside <graph>"),
        ("</channel>\n  </graph>\n  <graph id=\"1\"", "</graph>\n  <graph id=\"1\"", 3, "not XML"),
        ("typeintra=\"NVL\"", "typeintra=\"NVX\"", 2, "not a path type"),
        ("nchannels=\"1\"", "nchannels=\"2\"", 2, "but 1 channels follow"),
        ("nchannels=\"1\"", "nchannels=\"-1\"", 2, "not a whole number from 0"),
        ("speedintra=\"20\"", "speedintra=\"-20\"", 2, "not a number from 0"),
        ("speedintra=\"20\"", "speedintra=\"nan\"", 2, "not a number from 0"),
        ("speedintra=\"20\"", "speedintra=\"0\"", 2, "though there are channels"),
        ("graph id=\"1\"", "graph id=\"0\"", 5, "appears twice"),
        ("graph id=\"1\"", "graph id=\"7\"", 5, "known graphs: 0 to 4"),
        ("pattern=\"4\"", "pattern=\"1\"", 2, "cannot have pattern"),
        (second, "<gpu dev=\"0\" rank=\"0\"/>", 3, "twice in one channel"),
        (second, "", 6, "this channel has 2 GPUs"),
        ("<net dev=\"0\"/></channel>", "</channel>", 3, "begins at a NIC but does not end at one"),
        ("<channel><net dev=\"0\"/>", "<channel>", 3, "ends at a NIC but does not begin at one"),
        ("<channel>", "<chanel>", 3, "is not expected here"),
        ("graphs version=\"1\"", "graphs version=\"2\"", 1, "known: 1"),
        ("<graphs version=\"1\">", "<system version=\"1\">", 1, "a topology"),
        ("samechannels=\"1\"", "", 2, "<graph> has no `samechannels`"),
    ] {
        let text = SMALL.replacen(from, to, 1);
        assert_ne!(text, SMALL, "{from}");
        let error = Graphs::read(&text, "g.xml").unwrap_err().to_string();
        assert!(error.contains(&format!("g.xml:{line}\n")), "{from}: {error}");
        assert!(error.contains(what), "{from}: {error}");
    }
    let none = Graphs::read("", "g.xml").unwrap_err().to_string();
    assert!(none.contains("the ring"), "{none}");
}

#[test]
fn what_a_graph_file_leaves_out_must_be_told() {
    let graphs = Graphs::read(SMALL, "g.xml").unwrap();
    let refused = |told| graphs.communicator(&told, Version::NEWEST).unwrap_err().to_string();
    let gpu = Some(Capability(90));
    assert!(refused(Told { gpu, ..Told::default() }).contains("number of nodes"));
    assert!(refused(Told { nodes: Some(2), ..Told::default() }).contains("name their GPUs"));
    let alone = refused(Told { nodes: Some(1), gpu, ..Told::default() });
    assert!(alone.contains("belong to several nodes"), "{alone}");
    let two = Told { nodes: Some(2), gpu, ..Told::default() };
    let comm = graphs.communicator(&two, Version::NEWEST).unwrap();
    assert_eq!((comm.ranks, comm.local_ranks, comm.channels), (4, 2, 2));
    // The dump is written before start-up reads these.
    let mut knobs = Knobs::default();
    knobs.set("NCCL_MAX_NCHANNELS", "1").unwrap();
    let comm = graphs.communicator(&Told { start: knobs.start, ..two }, Version::NEWEST).unwrap();
    assert_eq!(comm.channels, 1);
}

/// `ncclTopoPostset` (v2.30.7-1 `src/graph/connect.cc`) bounds channels after the graphs are printed.
#[test]
fn a_log_without_channels_has_those_of_its_variables() {
    let lines: Vec<&str> = H100.lines().filter(|line| !line.contains("coll channels")).collect();
    let channels = |first: &str| {
        let text = format!("{first}\n{}\n", lines.join("\n"));
        let log = Log::read(&text, "job.log").unwrap();
        let known = log.known(log.table(None).unwrap(), &Told::default()).unwrap();
        let gpu = Capability(90);
        let processor = known.processor.unwrap();
        known.communicator(release("2.30.7"), gpu, processor).unwrap().unwrap().channels
    };
    let set = "gpu01:4242:4301 [0] NCCL INFO NCCL_MAX_NCHANNELS set by environment to";
    assert_eq!(channels(&format!("{set} 4.")), 4);
    assert_eq!(channels(&format!("{set} 32.")), 16);
}

// ---- tables

fn printed(comm: &Communicator, version: Version) -> String {
    let computed = Table::new(comm, version, &Settings::default()).unwrap();
    let mut text = Vec::new();
    table(&mut text, &computed, version, "").unwrap();
    String::from_utf8(text).unwrap()
}

/// Letter for letter, of old versions and with the narrow block of PAT.
#[test]
fn tables_are_written_as_nccl_prints_them() {
    let old = include_str!("../data/nccl_logs/table-2.21.5.txt");
    assert_eq!(printed(&named("dgx_h100_8x400g.p8.n2.s2.21.5"), release("2.21.5")), old);
    let new = include_str!("../data/nccl_logs/table-2.30.7.txt");
    assert_eq!(printed(&named("dgx_h100_8x400g.p8.n2"), release("2.30.7")), new);
}

/// What is written is read back, of every version and communicator.
#[test]
fn written_tables_are_read_back() {
    let several = communicators().into_iter().filter(|(n, _)| n.comm.ranks > 1);
    for (turn, (Named { id, comm }, _)) in several.enumerate() {
        for version in Version::ALL.into_iter().skip(turn % 8).step_by(8) {
            let text = printed(&comm, version);
            let log = Log::read(&text, "x.log").unwrap();
            let [read] = log.tables.as_slice() else { panic!("{id}: {} tables", log.tables.len()) };
            let computed = Table::new(&comm, version, &Settings::default()).unwrap();
            for function in Function::ALL {
                for &algo in &read.algos {
                    for proto in Proto::ALL {
                        let Some(cell) = read.cell(function, algo, proto) else {
                            // From 2.31 on what a function has not is not printed.
                            let Gbps(bandwidth) = computed.bandwidth(function, algo, proto);
                            assert!(
                                version >= release("2.31.2"),
                                "{id} {version}: {function:?}/{algo:?}"
                            );
                            assert!(
                                bandwidth <= 0.0,
                                "{id} {version}: {function:?}/{algo:?} {bandwidth}"
                            );
                            continue;
                        };
                        let Micros(latency) = computed.latency(function, algo, proto);
                        let Gbps(bandwidth) = computed.bandwidth(function, algo, proto);
                        assert_eq!(cell.latency.to_string(), format!("{latency:.1}"), "{id}");
                        assert_eq!(cell.bandwidth.to_string(), format!("{bandwidth:.1}"), "{id}");
                    }
                }
            }
        }
    }
}

// ---- logs

fn check(text: &str, asked: &Asked) -> NcclLog {
    nccl_log(&Log::read(text, "x.log").unwrap(), asked).unwrap()
}

fn verdicts(report: &NcclLog) -> [usize; 4] {
    ["agrees", "open", "differs", "unchecked"]
        .map(|verdict| report.choices.iter().filter(|c| c.verdict == verdict).count())
}

#[test]
fn a_whole_log_is_as_computed() {
    let report = check(H100, &Asked::default());
    assert_eq!(report.rules, Some("2.21.5"));
    assert_eq!(report.communicator.ranks, Some(16));
    assert_eq!(report.communicator.compute_capability, Some(90));
    let table = report.table.as_ref().unwrap();
    assert_eq!((table.compared, table.differences.len()), (Some(198), 0));
    assert_eq!(verdicts(&report), [14, 0, 0, 0]);
    assert_eq!(report.differences, 0);
    // The log does not name functions: their times do.
    let of = |bytes| &report.choices.iter().rfind(|c| c.logged_bytes == bytes).unwrap().functions;
    assert_eq!(of(1 << 20), &["AllReduce"]);
    assert_eq!(of(65536), &["AllReduce"]);
    assert_eq!(report.choices[0].functions, ["AllGather", "ReduceScatter"]);
}

/// A release between those whose rules are known, and lines that end with the cluster's size.
#[test]
fn a_release_without_rules_of_its_own_is_compared_with_the_nearest() {
    let told = Told { gpu: Some(Capability(90)), ..Told::default() };
    let report = check(&H200.replace("2.32.3", "2.32.4"), &Asked { told, ..Asked::default() });
    assert_eq!((report.version.as_deref(), report.rules), (Some("2.32.4"), Some("2.32.3")));
    let table = report.table.as_ref().unwrap();
    assert_eq!((table.compared, table.differences.len()), (Some(180), 0));
    assert_eq!(verdicts(&report), [60, 0, 0, 0]);
    let notes = &report.notes;
    assert!(notes.iter().any(|n| n.contains("compared with those of 2.32.3")), "{notes:?}");
    let own = check(H200, &Asked { told, ..Asked::default() });
    assert_eq!((own.rules, own.differences), (Some("2.32.3"), 0));
    // Older ones than all known rules are only decoded.
    let old = check(&H200.replace("2.32.3", "2.16.5"), &Asked::default());
    assert_eq!((old.version.as_deref(), old.rules), (Some("2.16.5"), None));
}

/// The same without what it says of itself: the table tells.
#[test]
fn version_and_gpus_are_found_by_the_table() {
    let text = H100.replace("NCCL version", "NCCL vision");
    let report = check(&text, &Asked::default());
    // 2.22.3 has the same table, and of equals the newest answers.
    assert_eq!((report.rules, report.differences), (Some("2.22.3"), 0));
    assert!(
        report.notes.iter().any(|n| n.contains("this table may be of 2.22.3 or 2.21.5")),
        "{:?}",
        report.notes
    );
    assert!(report.notes.iter().any(|n| n.contains("cc90 gives this table")), "{:?}", report.notes);
}

#[test]
fn the_slightest_change_is_found() {
    let cell = H100.replacen("152.8/ 204.8", "152.9/ 204.8", 1);
    let report = check(&cell, &Asked::default());
    let [difference] = report.table.as_ref().unwrap().differences.as_slice() else {
        panic!("{:?}", report.table)
    };
    assert_eq!((difference.function, difference.algorithm), (Some("AllReduce"), "Ring"));
    assert_eq!((difference.logged.as_str(), difference.computed.as_str()), ("152.9", "152.8"));
    assert_eq!((difference.line, report.differences), (27, 1));

    let threads =
        H100.replacen("Max NThreads |            512", "Max NThreads |            256", 1);
    assert_eq!(check(&threads, &Asked::default()).differences, 1);

    let time = H100.replacen("time 56.932159", "time 56.932150", 1);
    assert_ne!(time, H100);
    assert_eq!(verdicts(&check(&time, &Asked::default())), [13, 0, 1, 0]);
    let choice = H100.replace("1048576 Bytes -> Algo 5 proto 2", "1048576 Bytes -> Algo 1 proto 2");
    let report = check(&choice, &Asked::default());
    assert_eq!(verdicts(&report), [13, 0, 1, 0]);
}

/// The line with the version has no prefix of NCCL's own, only those of launchers.
#[test]
fn a_version_is_found_behind_prefixes_of_launchers() {
    for prefix in ["[default0]:", "[rank0]: ", "worker-0: ", "(RayTrainWorker pid=355353) "] {
        let text: String = H100.lines().map(|line| format!("{prefix}{line}\n")).collect();
        let report = check(&text, &Asked::default());
        assert_eq!(report.version.as_deref(), Some("2.21.5"), "{prefix}");
    }
    let rccl = format!("RCCL version 2.18.6+hip6.0 develop:abc\n{H100}");
    let error = Log::read(&rccl, "x.log").unwrap_err().to_string();
    assert!(error.contains("RCCL") && error.contains("x.log:1"), "{error}");
}

/// A plugin changes the costs before the least is chosen.
#[test]
fn choices_of_a_plugin_are_not_compared() {
    let choice = H100.replace("1048576 Bytes -> Algo 5 proto 2", "1048576 Bytes -> Algo 1 proto 2");
    let plugin = "n:1:2 [0] NCCL INFO TUNER/Plugin: Using tuner plugin nccl_ofi_tuner\n";
    let report = check(&(plugin.to_owned() + &choice), &Asked::default());
    assert_eq!((verdicts(&report), report.differences), ([13, 0, 0, 1], 0));
    let why =
        report.choices.iter().find_map(|c| c.why.clone().filter(|_| c.verdict == "unchecked"));
    assert!(why.unwrap().contains("nccl_ofi_tuner"));
    let internal = plugin.replace("tuner plugin nccl_ofi_tuner", "internal tuner plugin.");
    assert_eq!(verdicts(&check(&(internal + &choice), &Asked::default())), [13, 0, 1, 0]);
}

/// The communicator itself, to ask other things of it.
#[test]
fn a_log_gives_its_communicator() {
    let log = Log::read(H100, "x.log").unwrap();
    let found = communicator(&log, &Asked::default()).unwrap();
    let known = named("dgx_h100_8x400g.p8.n2.s2.21.5");
    assert_eq!(found.version, release("2.21.5"));
    assert_eq!(
        (found.comm.channels, found.comm.nvls_channels),
        (known.channels, known.nvls_channels)
    );
    assert_eq!((found.comm.ring, found.comm.tree), (known.ring, known.tree));
    let error = communicator(&Log::read(T4, "x.log").unwrap(), &Asked::default()).unwrap_err();
    assert!(error.to_string().contains("does not identify its communicator"), "{error}");
}

/// Told the wrong machine, the report says which is right.
#[test]
fn what_is_told_wrongly_is_found_out() {
    let amd = Some("amd".parse().unwrap());
    let report = check(
        H100,
        &Asked { told: Told { processor: amd, ..Told::default() }, ..Asked::default() },
    );
    assert!(report.differences > 0);
    let right = "every figure is as computed for NCCL 2.21.5, cc90, intel";
    assert!(report.notes.iter().any(|n| n == right), "{:?}", report.notes);
}

/// A worse graph of another rank counts.
#[test]
fn ranks_agree_on_the_worst_graph() {
    let worse = H100.replacen(
        "[1] NCCL INFO Pattern 4, crossNic 1, nChannels 8, bw 48.000000/48.000000",
        "[1] NCCL INFO Pattern 4, crossNic 1, nChannels 8, bw 40.000000/40.000000",
        1,
    );
    assert_ne!(worse, H100);
    let table = check(&worse, &Asked::default()).table.unwrap();
    assert!(table.differences.iter().any(|d| d.algorithm == "Ring" && d.figure == "bandwidth"));
    assert!(table.differences.iter().all(|d| d.algorithm == "Ring"));
}

/// A table alone: its digits decide, or leave open.
#[test]
fn choices_from_a_printed_table() {
    let report = check(T4, &Asked::default());
    assert_eq!((report.rules, report.differences), (Some("2.30.7"), 0));
    assert_eq!(verdicts(&report), [4, 1, 0, 3]);
    let asked = Asked {
        told: Told { ranks: Some(4), nodes: Some(4), ..Told::default() },
        ..Asked::default()
    };
    assert_eq!(verdicts(&check(T4, &asked)), [7, 1, 0, 0]);
    // With the communicator nothing is open.
    let comm = Box::new(named("tcp25g_t4.p1.n4"));
    let asked = Asked { given: Some(Given::Whole("t4".to_owned(), comm)), ..Asked::default() };
    let report = check(T4, &asked);
    assert_eq!((verdicts(&report), report.differences), ([8, 0, 0, 0], 0));
    // Other channels than the scheduler's, another protocol.
    let channels = T4.replacen(
        "67108864 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..1}",
        "67108864 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..0}",
        1,
    );
    assert_eq!(verdicts(&check(&channels, &asked)), [7, 0, 1, 0]);
    let proto =
        T4.replacen("1024 Bytes -> Algo TREE proto LL", "1024 Bytes -> Algo RING proto SIMPLE", 1);
    assert_eq!(verdicts(&check(&proto, &asked)), [7, 0, 1, 0]);
    assert_eq!(verdicts(&check(&proto, &Asked::default()))[2], 1);
    // Without choices, intervals.
    let table: String =
        T4.lines().filter(|l| !l.contains("Bytes ->")).map(|l| l.to_owned() + "\n").collect();
    let report = check(&table, &Asked::default());
    let first = &report.intervals[0];
    assert_eq!(
        (first.function, first.choices.as_slice()),
        ("Broadcast", &["Ring/LL".to_owned()][..])
    );
    assert!(report.intervals.iter().any(|i| i.choices.len() > 1));
}

/// The line of a public issue: what the tuner believed in.
#[test]
fn a_lone_choice_is_decoded() {
    let report = check("4e9 Bytes -> Algo 1 proto 2 time 375213\n", &Asked::default());
    let [choice] = report.choices.as_slice() else { panic!() };
    assert_eq!((choice.algorithm, choice.protocol), ("Ring", "Simple"));
    assert_eq!(choice.verdict, "unchecked");
    assert!((choice.algbw.unwrap() - 10.66e9).abs() < 1e7);
}

/// Versions until 2.17: read, not checked.
#[test]
fn old_tables_are_decoded() {
    let head = "n:1:2 [0] NCCL INFO Latency/AlgBw | Tree/    LL | Tree/ LL128 | Tree/Simple | Ring/    LL | Ring/ LL128 | Ring/Simple |\n";
    let mut text = head.to_owned();
    for function in Function::ALL {
        writeln!(text, "n:1:2 [0] NCCL INFO {:>13} |    0.0/  0.0|    0.0/  0.0|    0.0/  0.0|    4.5/  3.0|    6.1/ 11.2|   15.0/ 12.0|", function.name()).unwrap();
    }
    text.push_str("n:1:2 [0] NCCL INFO threadThresholds 8/8/64 | 16/8/64\n");
    let report = check(&text, &Asked::default());
    let table = report.table.as_ref().unwrap();
    assert_eq!((table.layout, table.compared, table.cells.len()), ("one-block", None, 30));
    assert_eq!(report.communicator.ranks, Some(2));
    assert!(report.notes.iter().any(|n| n.contains("2.17 or older")));
    let old = format!(
        "n:1:2 [0] NCCL INFO NCCL version 2.12.10+cuda11.6\n{}",
        &H100[H100.find('\n').unwrap() + 1..]
    );
    let report = check(&old, &Asked::default());
    assert!(report.rules.is_none() && report.notes[0].contains("2.12.10 chose by other rules"));
}

#[test]
fn two_tables_need_a_pick() {
    let both = format!("{H100}{T4}");
    let log = Log::read(&both, "x.log").unwrap();
    let error = nccl_log(&log, &Asked::default()).unwrap_err().to_string();
    let second = H100.lines().count() + 2;
    assert!(error.contains("2 tables, in lines 20, "), "{error}");
    assert!(error.contains(&format!("x.log:{second}")), "{error}");
    let pick = |table, version: &str| Asked {
        table: Some(table),
        version: Some(version.parse().unwrap()),
        ..Asked::default()
    };
    let first = nccl_log(&log, &pick(1, "2.21.5")).unwrap();
    assert_eq!((verdicts(&first), first.differences), ([14, 0, 0, 0], 0));
    let second = nccl_log(&log, &pick(2, "2.30.7")).unwrap();
    assert_eq!(second.choices.len(), 8);
    assert_eq!(second.communicator.ranks, None);
    assert!(nccl_log(&log, &pick(3, "2.30.7")).is_err());
}

/// Launchers' prefixes, and lines of two ranks between each other.
#[test]
fn prefixes_do_not_matter() {
    let whole = check(H100, &Asked::default());
    for before in
        ["[1,0]<stdout>:", "[0] ", "2026-01-02T03:04:05.678901 ", "[2026-01-02 03:04:05] "]
    {
        let text: String = H100.lines().map(|l| format!("{before}{l}\n")).collect();
        assert_eq!(verdicts(&check(&text, &Asked::default())), verdicts(&whole), "{before}");
    }
    let bare: String = H100
        .lines()
        .filter(|l| l.contains("[0] NCCL"))
        .map(|l| format!("{}\n", l.split_once("INFO ").unwrap().1))
        .collect();
    assert_eq!(verdicts(&check(&bare, &Asked::default())), verdicts(&whole));
    let between: String = H100
        .lines()
        .flat_map(|l| [l, "gpu01:4243:4302 [1] NCCL INFO Connected all rings", "step 1: loss 2.5"])
        .map(|l| format!("{l}\n"))
        .collect();
    assert_eq!(verdicts(&check(&between, &Asked::default())), verdicts(&whole));
}

#[test]
fn damaged_logs_are_refused_with_their_line() {
    for (from, to, line, what) in [
        (" 152.8/ 204.8 |", " 152.8/ 204\n", 27, "cut off"),
        (" 152.8/ 204.8 |", " 152.8/ 2x4.8 |", 27, "not a latency/bandwidth"),
        (" 152.8/ 204.8 |", " |", 27, "not a latency/bandwidth"),
        (" 152.8/ 204.8 |", "", 27, "8 cells instead of 9"),
        ("  Algorithm   |   ", "  Algo   |   ", 21, "outside a table"),
        ("AllGather |", "AllGathr |", 26, "ReduceScatter is where AllGather should be"),
        ("NVLSTree ", "NVLSTrie ", 28, "not an algorithm"),
        ("type NVL/PIX", "type NVL/PIZ", 6, "not a path type"),
        ("nChannels 8, bw", "nChannels -8, bw", 6, "not a whole number"),
        ("nChannels 8, bw", "nChannels 9, bw", 6, "but 8 channels follow"),
        (", sameChannels 0", "", 6, "cut off"),
        ("8 Bytes -> Algo 1 proto 0 time", "8 Bytes -> Algo 1 proto 0 ti", 38, "cut off"),
        ("8 Bytes -> Algo 1 proto 0", "8 Bytes -> Algo 8 proto 0", 38, "not an algorithm"),
        ("Pattern 4, crossNic 1", "Pattrn 4, crossNic 1", 15, "before this rank's ring"),
    ] {
        let text = H100.replacen(from, to, 1);
        assert_ne!(text, H100, "{from}");
        let error = Log::read(&text, "x.log").expect_err(from).to_string();
        assert!(error.contains(&format!("x.log:{line}\n")), "{from}: {error}");
        assert!(error.contains(what), "{from}: {error}");
    }
    // Cut off after any line of the table, its last but one block's end included.
    let lines: Vec<&str> = H100.lines().collect();
    for end in 20..35 {
        let error = Log::read(&lines[..end].join("\n"), "x.log").unwrap_err().to_string();
        assert!(error.contains("the table ends"), "{end}: {error}");
        assert!(error.contains(&format!("x.log:{end}\n")), "{end}: {error}");
    }
    let nothing = Log::read("Hello\n", "x.log").unwrap_err().to_string();
    assert!(nothing.contains("no line of NCCL's tuner"), "{nothing}");
    // Before its last block a table is not one of 2.23 and later.
    let short: String = T4.lines().take(17).map(|l| l.to_owned() + "\n").collect();
    let log = Log::read(&short, "x.log").unwrap();
    let error = nccl_log(&log, &Asked::default()).unwrap_err().to_string();
    assert!(error.contains("ends before PAT"), "{error}");
}

/// Lines of connections or variables alone are what a user has: the report says what they tell, and what is missing.
#[test]
fn a_log_without_tables_says_what_it_lacks() {
    let of = |text: &str, asked: &Asked| check(text, asked).notes.join("\n");
    let connected = "a:1:2 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/IPC\n\
                     a:1:3 [1] NCCL INFO Channel 04/0 : 1[1] -> 6[2] [send] via NET/IB/0\n\
                     a:1:3 [1] NCCL INFO Channel 09/1 : 1[1] -> 7[3] via P2P/IPC\n\
                     a:1:2 [0] NCCL INFO Ring 02 : 0[a0] -> 1[b0] via direct shared memory\n";
    let set = "a:1:2 [0] NCCL INFO NCCL_IB_GID_INDEX set by environment to 3.\n\
               a:1:3 [1] NCCL INFO NCCL_IB_GID_INDEX set by environment to 3.\n";
    let notes = of(connected, &Asked::default());
    assert!(notes.contains("channels up to 04 and ranks up to 7"), "{notes}");
    let lacks = "lacks graphs (GRAPH), ranks (INIT), nodes (INIT), --gpu, --nccl";
    assert!(notes.contains(lacks), "{notes}");
    let notes = of(set, &Asked::default());
    assert!(notes.contains("sets NCCL_IB_GID_INDEX=3, which the tuner does not read"), "{notes}");
    assert!(notes.contains(lacks) && !notes.contains("connections"), "{notes}");
    let sized =
        format!("a:1:2 [0] NCCL INFO comm 0x1 rank 0 nRanks 8 nNodes 1 localRanks 8\n{set}");
    let asked = Asked { version: Some("2.27.3".parse().unwrap()), ..Asked::default() };
    let notes = of(&sized, &asked);
    assert!(notes.contains("lacks graphs (GRAPH), --gpu; --comm"), "{notes}");
    assert!(!of(H100, &Asked::default()).contains("lacks"));
}

/// Of the lines about a communicator only one has its nodes; those that begin and end its initialization do not hide
/// them, and those of another communicator leave both open.
#[test]
fn nodes_are_those_of_the_line_that_has_them() {
    let rank = |rank: u32, nodes: u32| {
        let head = format!("a:{rank}:7 [{rank}] NCCL INFO");
        let own = format!("comm 0x{rank} rank {rank}");
        format!(
            "{head} ncclCommInitRank {own} nranks 8 cudaDev 0 commId 0x4d - Init START\n\
             {head} {own} nRanks 8 nNodes {nodes} localRanks {} localRank 0 MNNVL 0\n\
             {head} ncclCommInitRank {own} nranks 8 cudaDev 0 commId 0x4d - Init COMPLETE\n",
            8 / nodes
        )
    };
    let asked = Asked { version: Some("2.27.3".parse().unwrap()), ..Asked::default() };
    let lacks = |text: &str| check(text, &asked).notes.join("\n");
    let whole = rank(0, 2) + &rank(1, 2);
    assert!(lacks(&whole).contains("lacks graphs (GRAPH), --gpu; --comm"), "{}", lacks(&whole));
    let told = Told { nodes: Some(4), ..Told::default() };
    let error = nccl_log(&Log::read(&whole, "x.log").unwrap(), &Asked { told, ..asked.clone() });
    let error = error.unwrap_err().to_string();
    assert!(error.contains("has 2 nodes, not 4") && error.contains("x.log:2"), "{error}");
    let two = lacks(&(whole + &rank(2, 1)));
    assert!(two.contains("ranks (INIT), nodes (INIT)"), "{two}");
}

/// A log's channels stand beside those of the machine that the user names.
#[test]
fn channels_are_compared_with_a_known_machine() {
    let id = "dgx_h100_8x400g.p8.n2";
    let comm = Place::named(id).and_then(|place| place.communicator()).unwrap();
    let given = Some(Given::Whole(id.to_owned(), Box::new(comm)));
    let asked = Asked { given, ..Asked::default() };
    let of = |text: &str| check(text, &asked).notes.join("\n");
    let own = comm.channels;
    let line = |count: u32| format!("a:1:2 [0] NCCL INFO {count} coll channels, 4 p2p channels\n");
    let notes = of(&line(2));
    assert!(notes.contains(&format!("the log has 2 channels, {id} has {own}")), "{notes}");
    assert!(!of(&line(own)).contains("the log has"));
    let notes = of("a:1:2 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/IPC\n");
    assert!(notes.contains(&format!("the log has at least 2 channels, {id} has {own}")), "{notes}");
}

#[test]
fn what_is_told_must_not_contradict_the_log() {
    let log = Log::read(H100, "x.log").unwrap();
    let asked = Asked { told: Told { ranks: Some(8), ..Told::default() }, ..Asked::default() };
    let error = nccl_log(&log, &asked).unwrap_err().to_string();
    assert!(error.contains("has 16 ranks, not 8") && error.contains("x.log:2"), "{error}");
    for many in [0_u32, 1 << 25, u32::MAX] {
        let text = H100.replace("nRanks 16 nNodes 2", &format!("nRanks {many} nNodes 2"));
        let error = nccl_log(&Log::read(&text, "x.log").unwrap(), &Asked::default()).unwrap_err();
        assert!(error.to_string().contains(&format!("{many} ranks")), "{error}");
    }
    let two = format!("n:1:2 [0] NCCL INFO NCCL version 2.27.3\n{H100}");
    let error = nccl_log(&Log::read(&two, "x.log").unwrap(), &Asked::default()).unwrap_err();
    assert!(error.to_string().contains("announced in line 1"), "{error}");
}

/// The environment that a log prints is that of its table.
#[test]
fn the_environment_of_a_log_counts() {
    let head = "gpu01:4242:4301 [0] NCCL INFO ";
    let set = format!(
        "{head}NCCL_ALGO set by environment to Ring\n{head}NCCL_NTHREADS set by environment to 256.\n"
    );
    let report = check(&format!("{set}{H100}"), &Asked::default());
    assert_eq!(report.environment.len(), 2);
    let table = report.table.unwrap();
    // Trees are off, and blocks of 256 threads are not those of the table.
    assert!(table.differences.iter().any(|d| d.figure == "threads" && d.computed == "256"));
    assert!(table.differences.iter().any(|d| d.algorithm == "Tree" && d.computed == "0.0"));
    let matrix = format!(
        "{head}Enabled NCCL Func/Proto/Algo Matrix:\n     Function |       LL     LL128    Simple   |          Tree           Ring  CollNetDirect   CollNetChain           NVLS       NVLSTree            PAT  \n{}",
        Function::ALL.map(|f| format!("{:>13} |        1         2         1   |             0              1              0              0              0              0              0  \n", f.name())).concat()
    );
    let report = check(&format!("{matrix}{T4}"), &Asked::default());
    assert_eq!(report.enabled.len(), 5);
    assert_eq!(report.enabled[0].algorithms, [Algo::Ring.name()]);
    assert_eq!(report.enabled[0].protocols, ["LL", "LL128?", "Simple"]);
}

// ---- anything at all

/// Something done to a text.
fn changed(text: &str, change: &(u8, usize, usize, String)) -> String {
    let (kind, a, b, word) = change;
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let (line, other) = (a % lines.len(), b % lines.len());
    match kind % 6 {
        0 => drop(lines.remove(line)),
        1 => lines.swap(line, other),
        2 => lines.truncate(line),
        3 => lines.insert(other, lines[line].clone()),
        4 => {
            let at = lines[line].floor_char_boundary(b % (lines[line].len() + 1));
            lines[line].truncate(at);
        }
        _ => {
            let at = lines[line].floor_char_boundary(b % (lines[line].len() + 1));
            lines[line].insert_str(at, word);
        }
    }
    lines.join("\n") + "\n"
}

fn changes() -> impl Strategy<Value = Vec<(u8, usize, usize, String)>> {
    let word = prop_oneof![
        "[0-9|/ .:-]{1,3}",
        "\\PC{1,2}",
        Just("-1".to_owned()),
        Just("99999999999".to_owned())
    ];
    prop::collection::vec((any::<u8>(), any::<usize>(), any::<usize>(), word), 1..4)
}

/// Where an error says that it is, within the text.
fn place(error: &collcost::Error, file: &str, text: &str) {
    let shown = error.to_string();
    let line = shown.split(&format!("{file}:")).nth(1);
    let line = line.and_then(|rest| rest.split('\n').next()).and_then(|n| n.parse::<usize>().ok());
    match line {
        Some(line) => assert!((1..=text.lines().count().max(1)).contains(&line), "{shown}"),
        None => assert!(shown.contains("no line of NCCL's tuner"), "{shown}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn changed_logs_are_read_or_refused(first in any::<bool>(), changes in changes()) {
        let mut text = if first { H100.to_owned() } else { T4.to_owned() };
        for change in &changes {
            if !text.trim().is_empty() {
                text = changed(&text, change);
            }
        }
        match Log::read(&text, "x.log") {
            Ok(log) => {
                let _ = nccl_log(&log, &Asked::default());
                let asked = Asked { table: Some(1), ..Asked::default() };
                let _ = nccl_log(&log, &asked);
            }
            Err(error) => place(&error, "x.log", &text),
        }
    }

    #[test]
    fn changed_graphs_are_read_or_refused(changes in changes()) {
        let mut text = dump(&named("dgx_h100_sharp.p8.n2"), release("2.30.7"));
        for change in &changes {
            if !text.trim().is_empty() {
                text = changed(&text, change);
            }
        }
        match Graphs::read(&text, "g.xml") {
            Ok(graphs) => {
                let told = Told { nodes: Some(2), gpu: Some(Capability(90)), ..Told::default() };
                let _ = graphs.communicator(&told, Version::NEWEST);
            }
            Err(error) => place(&error, "g.xml", &text),
        }
    }
}

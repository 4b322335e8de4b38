//! Every release of NCCL from 2.18.1 to 2.30.7 against what NVIDIA's own code of that release
//! answered: choices, tables, graphs, and all of them under the variables that start-up reads.
//!
//! The tables of `tests/data/nccl_release_*.csv.gz` were made by compiling NVIDIA/nccl at each tag
//! without a GPU, and asking it. Here are every 36th choice, digests of all tables, and the graphs of
//! the known machines; where `../shared` has the whole of them, `COLLCOST_FULL=1` looks at all.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Read as _;

use collcost::base::quantity::Bytes;
use collcost::library::nccl::comms;
use collcost::library::nccl::described::Machine;
use collcost::library::nccl::search::{Job, Searched, search};
use collcost::library::nccl::topology::{Description, Knobs};
use collcost::library::nccl::topology_file::read;
use collcost::library::nccl::{
    Algo, Call, Chooser, Communicator, Function, Graph, Proto, Reduction, Settings, Table, Version,
    assignments, envs, write_float,
};

use super::full::one_in;

/// The whole tables, where they are at hand and all is asked for.
fn whole() -> Option<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/nccl");
    (one_in(2) == 1 && fs::exists(folder).unwrap_or(false)).then(|| folder.to_owned())
}

fn inflate(bytes: &[u8]) -> String {
    let mut text = String::new();
    flate2::read::GzDecoder::new(bytes).read_to_string(&mut text).expect("it is gzip");
    text
}

fn file(folder: &str, name: &str) -> String {
    let bytes = fs::read(format!("{folder}/{name}")).expect(name);
    if name.ends_with(".gz") { inflate(&bytes) } else { String::from_utf8(bytes).expect(name) }
}

fn release(tag: &str) -> Version {
    tag.parse().expect(tag)
}

fn float(number: f32) -> String {
    let mut text = String::new();
    write_float(&mut text, number);
    text
}

/// The releases whose tuners differ from the one before.
fn tuners() -> Vec<Version> {
    let tags = "2.18.1 2.18.3 2.19.3 2.20.5 2.21.5 2.22.3 2.23.4 2.24.3 2.26.2 2.27.3 2.27.5 2.28.3 \
                2.28.7 2.28.9 2.29.2 2.29.7 2.30.3 2.30.7";
    tags.split(' ').map(release).collect()
}

type Communicators = HashMap<String, Communicator>;

fn communicators() -> (Vec<String>, Communicators) {
    let text = inflate(include_bytes!("../data/nccl_communicators.csv.gz"));
    let named = comms::read(&text).expect("they are communicators");
    let ids = named.iter().map(|named| named.id.clone()).collect();
    (ids, named.into_iter().map(|named| (named.id, named.comm)).collect())
}

fn environments() -> HashMap<String, Settings> {
    let text = include_str!("../data/nccl_environments.csv");
    envs::read(text).expect("they are environments").into_iter().collect()
}

/// What is taken, as the tables have it.
fn answer(chooser: Option<&Chooser>, function: &str, bytes: &str, pipelined: &str) -> String {
    let Some(chooser) = chooser else { return "TUNE_RC5,,,,".to_owned() };
    let call = Call {
        function: Function::named(function).expect(function),
        size: Bytes(bytes.parse().expect(bytes)),
        pipelined: pipelined.parse().expect(pipelined),
    };
    let Some(taken) = chooser.decide(&call) else { return "NONE,NONE,,,".to_owned() };
    let time = taken.time.map(|time| float(time.0)).unwrap_or_default();
    format!("{},{},{},{},{time}", taken.algo, taken.proto, taken.channels, taken.threads)
}

/// Holds choices to a table of them; how many there were.
fn choices(text: &str) -> usize {
    let ((_, comms), envs, none) = (communicators(), environments(), Settings::default());
    let mut choosers: HashMap<[&str; 3], Option<Chooser>> = HashMap::new();
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let (answered, [id, version, env]) = (&fields[6..], [fields[0], fields[1], fields[2]]);
        let chooser = choosers.entry([id, version, env]).or_insert_with(|| {
            let (comm, version) = (&comms[id], release(version));
            let settings = if env.is_empty() { &none } else { &envs[env] };
            let table = Table::new(comm, version, settings).ok()?;
            Some(Chooser::new(comm, version, &table, Reduction::default()))
        });
        // Where NCCL refuses an environment no size was asked for.
        let ours = answer(chooser.as_ref(), fields[4], fields[5], fields[3]);
        assert_eq!(ours, answered.join(","), "{line}");
    }
    text.lines().count() - 1
}

#[test]
fn choices_are_those_of_the_release() {
    let text = inflate(include_bytes!("../data/nccl_release_choices.csv.gz"));
    assert_eq!(choices(&text), 14_416);
    if let Some(folder) = whole() {
        let file =
            |kind: &str, version| file(&folder, &format!("versions/{kind}_{version}_dev.csv.gz"));
        let all = tuners().into_iter().map(|v| choices(&file("choices", v)));
        assert_eq!(all.sum::<usize>(), 333_827);
        let all = tuners().into_iter().map(|v| choices(&file("choices_env", v)));
        assert_eq!(all.sum::<usize>(), 184_800);
    }
}

/// 64-bit FNV-1a.
fn digest(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// All tables of all releases, ten communicators a digest.
#[test]
fn tables_are_those_of_the_release() {
    let (ids, comms) = communicators();
    let truth = inflate(include_bytes!("../data/nccl_release_tables.csv.gz"));
    for line in truth.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let version = release(fields[0]);
        let first = ids.iter().position(|id| id == fields[1]).expect(line);
        let mut text = String::new();
        for id in &ids[first..first + fields[2].parse::<usize>().expect(line)] {
            let table = Table::new(&comms[id], version, &Settings::default()).expect("it starts");
            for (function, algo, proto) in Table::cells(version) {
                let latency = float(table.latency(function, algo, proto).0);
                let bandwidth = float(table.bandwidth(function, algo, proto).0);
                let threads = table.threads(algo, proto);
                writeln!(text, "{function},{algo},{proto},{latency},{bandwidth},{threads}")
                    .unwrap();
            }
        }
        assert_eq!(digest(&text), fields[3], "{line}\n{text}");
    }
    assert_eq!(truth.lines().count() - 1, 558);
}

fn graph(graph: &Graph) -> String {
    format!(
        "{},{},{},{},{},{},{},{},{}",
        graph.pattern,
        graph.channels,
        float(graph.intra.0),
        float(graph.inter.0),
        float(graph.latency_inter.0),
        graph.type_intra,
        graph.type_inter,
        graph.cross_nic,
        u8::from(graph.same_channels)
    )
}

/// A machine of the tables: a known one, or one of `folder`'s files for so many ranks a node.
fn described(folder: Option<&str>, machine: &str, per_node: u32) -> Description {
    if let Some(known) = Machine::named(machine) {
        return known.description();
    }
    let folder = folder.expect(machine);
    let text = ["topo_xml", "versions/topo_xml"].iter().find_map(|place| {
        let ranks = per_node..=8;
        ranks
            .into_iter()
            .find_map(|n| fs::read_to_string(format!("{folder}/{place}/{machine}.ppn{n}.xml")).ok())
    });
    read(&text.expect(machine), machine).expect(machine)
}

/// Searches of millions of steps; they are left to `COLLCOST_FULL=1`.
fn is_heavy(machine: &str, per_node: u32, several: bool) -> bool {
    let modern = ["h100", "b200", "gb200", "b300"].iter().any(|name| machine.contains(name));
    several && (machine == "gb200_nvl8_2host" || modern && (3..8).contains(&per_node))
}

fn searches(text: &str, folder: Option<&str>) -> usize {
    let mut compared = 0;
    for line in text.lines().skip(1).step_by(one_in(19)) {
        let fields: Vec<&str> = line.split(',').collect();
        let (machine, version) = (fields[0], release(fields[1]));
        let (per_node, several) = (fields[2].parse().expect(line), fields[3] == "1");
        if is_heavy(machine, per_node, several) && one_in(2) > 1 {
            continue;
        }
        let mut knobs = Knobs::default();
        if fields[5] == "1" {
            knobs.set("NCCL_COLLNET_ENABLE", "1").unwrap();
        }
        let job = Job { nodes: 1 + u32::from(several), per_node: Some(per_node) };
        let found = search(&described(folder, machine, per_node), version, job, &knobs);
        let found = found.unwrap_or_else(|e| panic!("{line}: {e}"));
        let Searched { ring, tree, collnet_direct, collnet_chain, nvls_graph, .. } = &found;
        let graphs = [ring, tree, collnet_direct, collnet_chain, nvls_graph];
        let ours = format!(
            "{},{},{},{},{},{}",
            u8::from(found.inter),
            u8::from(found.nvls),
            u8::from(found.collnet),
            found.min_cc,
            found.max_cc,
            graphs.map(|found| graph(&found.graph)).join(",")
        );
        let truth = [&fields[3..8], &fields[11..]].concat().join(",");
        assert_eq!(ours, truth, "{machine} {version} {per_node}");
        compared += 1;
    }
    compared
}

#[test]
fn graphs_are_those_of_the_release() {
    let text = inflate(include_bytes!("../data/nccl_release_searches.csv.gz"));
    let compared = searches(&text, None);
    assert!(compared > 60, "{compared}");
    if let Some(folder) = whole() {
        let compared = searches(&file(&folder, "versions/searches_dev.csv"), Some(&folder));
        assert_eq!(compared, 2848);
    }
}

/// The fields of a line that may be quoted.
fn fields(line: &str) -> Vec<String> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(line.as_bytes());
    let record = reader.records().next().expect(line).expect(line);
    record.iter().map(str::to_owned).collect()
}

/// Holds start-up and choices under variables to tables of them.
fn whatif(graphs: &str, choices: &str, folder: Option<&str>) -> (usize, usize) {
    let mut asked: HashMap<Vec<String>, Vec<Vec<String>>> = HashMap::new();
    for line in choices.lines().skip(1) {
        let mut line = fields(line);
        let rest = line.split_off(5);
        asked.entry(line).or_default().push(rest);
    }
    let (mut started, mut chosen) = (0, 0);
    for line in graphs.lines().skip(1).step_by(one_in(31)) {
        let row = fields(line);
        let (machine, version) = (&row[0], release(&row[3]));
        let (per_node, nodes) = (row[1].parse().expect(line), row[2].parse::<u32>().expect(line));
        if is_heavy(machine, per_node, nodes > 1) && one_in(2) > 1 {
            continue;
        }
        let (mut knobs, mut settings) = (Knobs::default(), Settings::default());
        for (name, value) in assignments(&row[4]).expect(line) {
            if !knobs.set(name, value).expect(line) {
                settings.set(name, value).expect(line);
            }
        }
        let job = Job { nodes, per_node: Some(per_node) };
        let found = search(&described(folder, machine, per_node), version, job, &knobs);
        let comm = found.unwrap_or_else(|e| panic!("{line}: {e}")).communicator();
        let ours = format!(
            "{},{},{},{},{},{},{}",
            comm.ranks,
            comm.channels,
            comm.call_channels,
            u8::from(comm.nvls),
            comm.nvls_channels,
            u8::from(comm.collnet),
            comm.collnet_heads
        );
        assert_eq!(ours, row[5..12].join(","), "{line}");
        let Communicator {
            ring, tree, collnet_direct_graph, collnet_chain_graph, nvls_graph, ..
        } = comm;
        let all = [ring, tree, collnet_direct_graph, collnet_chain_graph, nvls_graph];
        for (ours, truth) in all.iter().zip(row[12..].chunks(9)) {
            // What was not searched for has a pattern in some tables, and none in others.
            let truth = truth.join(",");
            let skip = if ours.channels == 0 { 1 } else { 0 };
            let shown = graph(ours);
            let cut = |text: &str| text.split(',').skip(skip).collect::<Vec<_>>().join(",");
            assert_eq!(cut(&shown), cut(&truth), "{line}");
        }
        let table = Table::new(&comm, version, &settings).ok();
        let chooser = table.map(|table| Chooser::new(&comm, version, &table, Reduction::default()));
        for row in asked.get(&row[..5]).into_iter().flatten() {
            let ours = answer(chooser.as_ref(), &row[0], &row[1], "1");
            assert_eq!(ours, row[2..].join(","), "{line} {row:?}");
            chosen += 1;
        }
        started += 1;
    }
    (started, chosen)
}

#[test]
fn variables_change_what_they_change_in_the_release() {
    let graphs = inflate(include_bytes!("../data/nccl_release_whatif.csv.gz"));
    let choices = inflate(include_bytes!("../data/nccl_release_whatif_choices.csv.gz"));
    let (started, chosen) = whatif(&graphs, &choices, None);
    assert!(started > 40 && chosen > 80, "{started} {chosen}");
    if let Some(folder) = whole() {
        let graphs = file(&folder, "versions/whatif_graphs_dev.csv.gz");
        let choices = file(&folder, "versions/whatif_choices_dev.csv.gz");
        assert_eq!(whatif(&graphs, &choices, Some(&folder)), (2291, 57_275));
    }
}

/// What is emitted is accepted by the release it is for, makes the call what it was, and leaves every
/// other collective something to run.
#[test]
fn what_is_emitted_is_safe_in_its_release() {
    use collcost::answer::nccl::{Question, emit_env};
    let (ids, comms) = communicators();
    let several: Vec<&String> = ids.iter().filter(|id| comms[*id].ranks > 1).collect();
    for version in Version::ALL {
        for (turn, id) in several.iter().step_by(several.len() / 25).enumerate() {
            let comm = &comms[*id];
            let function = Function::ALL[turn % 5];
            let size = Bytes(1 << (10 + turn));
            let none = Settings::default();
            let question = Question {
                name: (*id).clone(),
                comm,
                nccl: version,
                settings: &none,
                function,
                reduction: Reduction::default(),
                sizes: (size, size),
                windows: Default::default(),
                notes: Vec::new(),
            };
            let lines = emit_env(&question).unwrap_or_else(|e| panic!("{id} {version}: {e}"));
            let mut settings = Settings::default();
            let mut emitted = Vec::new();
            for line in lines.lines().filter_map(|line| line.strip_prefix("export ")) {
                let (name, value) = line.split_once('=').expect(line);
                settings.set(name, value).expect(line);
                emitted.push(line);
            }
            let taken = |settings: &Settings, function| {
                let table = Table::new(comm, version, settings).expect("the release starts");
                let chooser = Chooser::new(comm, version, &table, Reduction::default());
                let taken = chooser.decide(&Call { function, size, pipelined: 1 });
                taken.map(|taken| (taken.algo, taken.proto))
            };
            let place = format!("{id} {version} {function} {size}: {emitted:?}");
            let own: (Algo, Proto) = taken(&none, function).expect(&place);
            assert_eq!(taken(&settings, function), Some(own), "{place}");
            for other in Function::ALL {
                assert!(taken(&settings, other).is_some(), "{place}: {other}");
            }
        }
    }
}

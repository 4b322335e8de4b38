//! Every release of NCCL from 2.18.1 to 2.30.7 against what NVIDIA's own code of that release
//! answered: choices, tables, graphs, and all of them under the variables that start-up reads.
//!
//! The tables of `tests/data/nccl_release_*.csv.gz` were made by compiling NVIDIA/nccl at each tag
//! without a GPU, and asking it. Here are every 36th choice, digests of all tables, and the graphs of
//! the known machines; `examples/nccl_tables.rs` compares whole ones, where they are at hand.

#[path = "../support/nccl_truth.rs"]
mod truth;

use std::collections::HashMap;
use std::fmt::Write as _;

use collcost::base::quantity::Bytes;
use collcost::library::nccl::comms;
use collcost::library::nccl::described::Machine;
use collcost::library::nccl::topology::Description;
use collcost::library::nccl::{
    Algo, Call, Chooser, Communicator, Function, Proto, Reduction, Settings, Table, Version, envs,
    float,
};
use truth::{Asked, Held, release};

use crate::gzip::inflate;

use super::full::one_in;

type Communicators = HashMap<String, Communicator>;

fn named() -> Vec<comms::Named> {
    let text = inflate(include_bytes!("../data/nccl_communicators.csv.gz"));
    comms::read(&text).expect("they are communicators")
}

fn communicators() -> (Vec<String>, Communicators) {
    let named = named();
    let ids = named.iter().map(|named| named.id.clone()).collect();
    (ids, named.into_iter().map(|named| (named.id, named.comm)).collect())
}

/// How many rows were compared, where all are alike.
#[track_caller]
fn same(held: Held) -> usize {
    let Held { compared, differences } = held;
    let many = differences.len();
    assert!(differences.is_empty(), "{many} of {compared} differ, the first: {}", differences[0]);
    compared
}

#[test]
fn choices_are_those_of_the_release() {
    let text = inflate(include_bytes!("../data/nccl_release_choices.csv.gz"));
    let envs = envs::read(include_str!("../data/nccl_environments.csv")).expect("environments");
    let held = truth::choices(&text, &named(), &envs.into_iter().collect());
    assert_eq!(same(held), 14_416);
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

/// A known machine of the tables.
fn machine(name: &str, _: u32) -> Description {
    Machine::named(name).expect(name).description()
}

/// Searches of millions of steps are left to `COLLCOST_FULL=1`.
fn is_wanted(machine: &str, per_node: u32, several: bool) -> bool {
    let modern = ["h100", "b200", "gb200", "b300"].iter().any(|name| machine.contains(name));
    let heavy = machine == "gb200_nvl8_2host" || modern && (3..8).contains(&per_node);
    one_in(2) == 1 || !(several && heavy)
}

#[test]
fn graphs_are_those_of_the_release() {
    let text = inflate(include_bytes!("../data/nccl_release_searches.csv.gz"));
    let rows = text.lines().skip(1).step_by(one_in(19));
    let compared = same(truth::searches(rows, &machine, &is_wanted));
    assert!(compared > 60, "{compared}");
}

/// The tables that were made with variables: start-up, then choices.
fn whatif() -> (String, Asked) {
    let graphs = inflate(include_bytes!("../data/nccl_release_whatif.csv.gz"));
    let choices = inflate(include_bytes!("../data/nccl_release_whatif_choices.csv.gz"));
    (graphs, Asked::new(&choices))
}

#[test]
fn variables_change_what_they_change_in_the_release() {
    let (graphs, asked) = whatif();
    let rows = graphs.lines().skip(1).step_by(one_in(31));
    let [started, chosen] = truth::whatif(rows, &asked, &machine, &is_wanted);
    let (started, chosen) = (same(started), same(chosen));
    assert!(started > 40 && chosen > 80, "{started} {chosen}");
}

#[test]
fn whatif_ranks_settings_as_the_release_would() {
    let (graphs, asked) = whatif();
    let light = |name: &str, per_node, several| {
        is_wanted(name, per_node, several) && (one_in(2) == 1 || name.starts_with("dgx_a100"))
    };
    assert!(same(truth::order(graphs.lines().skip(1), &asked, &machine, &light)) > 5);
}

#[test]
fn a_diff_lists_what_differs_between_the_releases() {
    let (graphs, asked) = whatif();
    let light = |name: &str, per_node, several| {
        is_wanted(name, per_node, several) && (one_in(2) == 1 || name.starts_with("dgx_a100"))
    };
    let rows = graphs.lines().skip(1).step_by(one_in(3));
    assert!(same(truth::diff(rows, &asked, &machine, &light)) > 20 / one_in(4));
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

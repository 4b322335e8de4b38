//! Holds NCCL's choices, tables, graphs and start-up to tables of what NVIDIA's own code answered,
//! and prints every row that differs.
//!
//! ```sh
//! cargo run --release --example nccl_tables -- FOLDER [PART]...
//! ```
//!
//! The folder has `graphs_dev.csv` (communicators), `envs.csv`, `versions/` (rows by release),
//! `2.31-2.32/` and `topo_xml/`, as they come from compiling NVIDIA/nccl without a GPU; the tests
//! hold a sample of them. Parts are choices, settings, tables, searches, whatif, order, diff and
//! models; without any, all are compared. It exits with 1 where a row differs.

#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a program of its own")]

#[path = "../tests/support/nccl_truth.rs"]
mod truth;

use std::collections::HashMap;
use std::fs;
use std::io::Read as _;
use std::process::ExitCode;
use std::time::Instant;

use collcost::library::nccl::comms::Named;
use collcost::library::nccl::described::Machine;
use collcost::library::nccl::topology::Description;
use collcost::library::nccl::topology_file::read;
use collcost::library::nccl::{Settings, comms, envs};
use truth::{Asked, Held};

/// Differences that are printed of a file.
const SHOWN: usize = 20;

struct Folder(String);

impl Folder {
    fn text(&self, name: &str) -> String {
        let path = format!("{}/{name}", self.0);
        let bytes = fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
        let mut text = String::new();
        match name.ends_with(".gz") {
            true => flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text),
            false => (&bytes[..]).read_to_string(&mut text),
        }
        .unwrap_or_else(|e| panic!("{path}: {e}"));
        text
    }

    /// Files of a folder that begin so.
    fn files(&self, place: &str, start: &str) -> Vec<String> {
        let entries = fs::read_dir(format!("{}/{place}", self.0)).expect(place);
        let names = entries.map(|entry| entry.expect(place).file_name());
        let names = names.map(|name| name.into_string().expect(place));
        let mut names: Vec<String> = names.filter(|name| name.starts_with(start)).collect();
        names.sort();
        names.into_iter().map(|name| format!("{place}/{name}")).collect()
    }

    fn comms(&self, name: &str) -> Vec<Named> {
        comms::read(&self.text(name)).expect(name)
    }

    fn envs(&self, name: &str) -> Vec<(String, Settings)> {
        envs::read(&self.text(name)).expect(name)
    }

    /// A machine: a known one, or one of the files for so many ranks per node.
    fn machine(&self, name: &str, per_node: u32) -> Description {
        if let Some(known) = Machine::named(name) {
            return known.description();
        }
        let places = ["topo_xml", "versions/topo_xml"].map(|place| format!("{}/{place}", self.0));
        let paths = places.iter().flat_map(|place| {
            (per_node..=8).map(move |ranks| format!("{place}/{name}.ppn{ranks}.xml"))
        });
        let text = paths.into_iter().find_map(|path| fs::read_to_string(path).ok()).expect(name);
        read(&text, name).expect(name)
    }
}

/// What has been compared so far.
struct Tally {
    parts: Vec<String>,
    differ: usize,
}

impl Tally {
    fn asks(&self, part: &str) -> bool {
        self.parts.is_empty() || self.parts.iter().any(|asked| asked == part)
    }

    fn note(&mut self, name: &str, held: &Held, since: Instant) {
        let Held { compared, differences } = held;
        let seconds = since.elapsed().as_secs_f64();
        println!("{name}: {compared} compared, {} differ ({seconds:.1} s)", differences.len());
        for difference in differences.iter().take(SHOWN) {
            println!("{difference}");
        }
        self.differ += differences.len();
    }
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let Some(folder) = words.next() else {
        println!("usage: nccl_tables FOLDER [PART]...");
        return ExitCode::from(2);
    };
    let folder = Folder(folder);
    let mut tally = Tally { parts: words.collect(), differ: 0 };
    tuners(&folder, &mut tally);
    models(&folder, &mut tally);
    machines(&folder, &mut tally);
    println!("{} rows differ", tally.differ);
    if tally.differ == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Choices and tables of every class of releases.
fn tuners(folder: &Folder, tally: &mut Tally) {
    let (comms, envs) = (folder.comms("graphs_dev.csv"), folder.envs("envs.csv"));
    let by_name: HashMap<String, Settings> = envs.iter().cloned().collect();
    for (part, start) in [("choices", "choices_2"), ("settings", "choices_env_")] {
        if tally.asks(part) {
            let own =
                if part == "choices" { "choices_dev.csv.gz" } else { "choices_env_dev.csv.gz" };
            for file in [own.to_owned()].into_iter().chain(folder.files("versions", start)) {
                let since = Instant::now();
                let held = truth::choices(&folder.text(&file), &comms, &by_name);
                tally.note(&file, &held, since);
            }
        }
    }
    if tally.asks("tables") {
        let own = ["tables_dev.csv.gz".to_owned(), "tables_env_dev.csv.gz".to_owned()];
        for file in own.into_iter().chain(folder.files("versions", "tables_")) {
            let since = Instant::now();
            let held = truth::tables(&folder.text(&file), &comms, &envs);
            tally.note(&file, &held, since);
        }
    }
}

/// Choices and tables since 2.31.
fn models(folder: &Folder, tally: &mut Tally) {
    if !tally.asks("models") {
        return;
    }
    let mut comms = folder.comms("2.31-2.32/graphs_ext_dev.csv");
    comms.extend(folder.comms("2.31-2.32/graphs_ext_rubin.csv"));
    let envs = folder.envs("2.31-2.32/envs_2.31.csv");
    let by_name: HashMap<String, Settings> = envs.iter().cloned().collect();
    for file in folder.files("2.31-2.32", "choices_") {
        let since = Instant::now();
        let held = truth::choices(&folder.text(&file), &comms, &by_name);
        tally.note(&file, &held, since);
    }
    for file in folder.files("2.31-2.32", "tables_") {
        let since = Instant::now();
        let held = truth::tables(&folder.text(&file), &comms, &envs);
        tally.note(&file, &held, since);
    }
}

/// Searches, start-up under variables, and what is told of both.
fn machines(folder: &Folder, tally: &mut Tally) {
    let machine = |name: &str, per_node| folder.machine(name, per_node);
    let all = |_: &str, _, _| true;
    if tally.asks("searches") {
        for file in ["searches_dev.csv", "versions/searches_dev.csv"] {
            let since = Instant::now();
            let rows = folder.text(file);
            let held = truth::searches(rows.lines().skip(1), &machine, &all);
            tally.note(file, &held, since);
        }
    }
    if !["whatif", "order", "diff"].iter().any(|part| tally.asks(part)) {
        return;
    }
    let graphs = folder.text("versions/whatif_graphs_dev.csv.gz");
    let asked = Asked::new(&folder.text("versions/whatif_choices_dev.csv.gz"));
    let rows = || graphs.lines().skip(1);
    let since = Instant::now();
    if tally.asks("whatif") {
        let [started, chosen] = truth::whatif(rows(), &asked, &machine, &all);
        tally.note("what-if, start-up", &started, since);
        tally.note("what-if, choices", &chosen, since);
    }
    let since = Instant::now();
    if tally.asks("order") {
        tally.note("what-if, order", &truth::order(rows(), &asked, &machine, &all), since);
    }
    let since = Instant::now();
    if tally.asks("diff") {
        tally.note(
            "diff of every two releases",
            &truth::diff(rows(), &asked, &machine, &all),
            since,
        );
    }
}

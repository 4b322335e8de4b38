//! What NVIDIA's own code answered, as tables, and what is answered here: every row that differs.

use std::collections::{HashMap, HashSet};

use collcost::answer::batch::nccl::{Replay, write_tables};
use collcost::answer::{nccl_diff, nccl_whatif};
use collcost::base::quantity::Bytes;
use collcost::library::nccl::comms::Named;
use collcost::library::nccl::search::{Job, Searched, search};
use collcost::library::nccl::topology::{Description, Knobs};
use collcost::library::nccl::{
    Call, Chooser, Communicator, Function, Gbps, Graph, Reduction, Settings, Table, Version,
    assignments, float,
};

/// How many rows were compared, and those that differ: what is answered here, then the truth.
#[derive(Debug, Default)]
pub struct Held {
    pub compared: usize,
    pub differences: Vec<String>,
}

impl Held {
    pub fn row(&mut self, ours: &str, truth: &str, of: &str) {
        self.compared += 1;
        if ours != truth {
            self.differences.push(format!("{of}\n  here {ours}\n  NCCL {truth}"));
        }
    }
}

pub fn release(tag: &str) -> Version {
    tag.parse().expect(tag)
}

/// Choices, or errors in their place.
pub fn choices(rows: &str, comms: &[Named], envs: &HashMap<String, Settings>) -> Held {
    let mut answers = Vec::new();
    Replay::new(comms, envs).answer(rows.as_bytes(), &mut answers).expect("all are questions");
    let answers = String::from_utf8(answers).expect("it is text");
    let mut held = Held::default();
    for (ours, truth) in answers.lines().zip(rows.lines()).skip(1) {
        held.row(ours, truth, "");
    }
    assert_eq!(answers.lines().count(), rows.lines().count());
    held
}

/// Cells of the releases and environments that the rows name.
#[allow(dead_code, reason = "tests have digests of them")]
pub fn tables(rows: &str, comms: &[Named], envs: &[(String, Settings)]) -> Held {
    let mut held = Held::default();
    let none = (String::new(), Settings::default());
    let mut of: HashMap<[&str; 2], Vec<&str>> = HashMap::new();
    for row in rows.lines().skip(1) {
        let mut fields = row.split(',').skip(1);
        let key = [fields.next().expect(row), fields.next().expect(row)];
        of.entry(key).or_default().push(row);
    }
    for ([version, env], rows) in of {
        let env = [&none].into_iter().chain(envs).find(|(name, _)| name == env).expect(env);
        let mut ours = Vec::new();
        write_tables(&mut ours, comms, &[release(version)], std::slice::from_ref(env)).unwrap();
        let ours = String::from_utf8(ours).expect("it is text");
        let ours: HashSet<&str> = ours.lines().collect();
        for row in rows {
            held.row(ours.get(row).unwrap_or(&"another row"), row, "");
        }
    }
    held
}

pub fn graph(graph: &Graph) -> String {
    let Graph { pattern, channels, type_intra, type_inter, cross_nic, same_channels, .. } = graph;
    let [intra, inter, latency] =
        [graph.intra, graph.inter, Gbps(graph.latency_inter.0)].map(|rate| float(rate.0));
    let same = u8::from(*same_channels);
    format!(
        "{pattern},{channels},{intra},{inter},{latency},{type_intra},{type_inter},{cross_nic},{same}"
    )
}

/// A job of the tables: machine, ranks per node, several nodes.
pub type Which<'a> = dyn Fn(&str, u32, bool) -> bool + 'a;
/// A machine by its name, for so many ranks per node.
pub type Machines<'a> = dyn Fn(&str, u32) -> Description + 'a;

/// Graphs, of the jobs that are wanted.
pub fn searches<'a>(
    rows: impl Iterator<Item = &'a str>,
    machines: &Machines<'_>,
    wanted: &Which<'_>,
) -> Held {
    let mut held = Held::default();
    for line in rows {
        let fields: Vec<&str> = line.split(',').collect();
        let (machine, version) = (fields[0], release(fields[1]));
        let (per_node, several) = (fields[2].parse().expect(line), fields[3] == "1");
        if !wanted(machine, per_node, several) {
            continue;
        }
        let mut knobs = Knobs::default();
        if fields[5] == "1" {
            knobs.set("NCCL_COLLNET_ENABLE", "1").unwrap();
        }
        let job = Job { nodes: 1 + u32::from(several), per_node: Some(per_node) };
        let found = search(&machines(machine, per_node), version, job, &knobs);
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
        held.row(&ours, &truth, &format!("{machine} {version}, {per_node} ranks per node"));
    }
    held
}

/// The fields of a line that may be quoted.
fn fields(line: &str) -> Vec<String> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(line.as_bytes());
    let record = reader.records().next().expect(line).expect(line);
    record.iter().map(str::to_owned).collect()
}

/// Rows of choices by the five fields that name a start: machine, ranks per node, nodes, release,
/// settings.
pub struct Asked(HashMap<Vec<String>, Vec<Vec<String>>>);

impl Asked {
    pub fn new(choices: &str) -> Self {
        let mut asked: HashMap<Vec<String>, Vec<Vec<String>>> = HashMap::new();
        for line in choices.lines().skip(1) {
            let mut line = fields(line);
            let rest = line.split_off(5);
            asked.entry(line).or_default().push(rest);
        }
        Self(asked)
    }

    fn of(&self, start: &[String]) -> &[Vec<String>] {
        self.0.get(start).map_or(&[], Vec::as_slice)
    }
}

/// What settings say to searches and start-up, and to the tuner.
fn split(settings: &str) -> (Knobs, Settings) {
    let (mut knobs, mut own) = (Knobs::default(), Settings::default());
    for (name, value) in assignments(settings).expect(settings) {
        if !knobs.set(name, value).expect(settings) {
            own.set(name, value).expect(settings);
        }
    }
    (knobs, own)
}

fn graphs_of(comm: &Communicator) -> [Graph; 5] {
    let Communicator { ring, tree, collnet_direct_graph, collnet_chain_graph, nvls_graph, .. } =
        *comm;
    [ring, tree, collnet_direct_graph, collnet_chain_graph, nvls_graph]
}

/// A row of what start-up makes of a machine. What was not searched for has a pattern in some
/// tables, and none in others.
fn figures(comm: &Communicator) -> String {
    let start = format!(
        "{},{},{},{},{},{},{}",
        comm.ranks,
        comm.channels,
        comm.call_channels,
        u8::from(comm.nvls),
        comm.nvls_channels,
        u8::from(comm.collnet),
        comm.collnet_heads
    );
    let graphs = graphs_of(comm).iter().map(graph).collect::<Vec<_>>().join(",");
    without_empty(&format!("{start},{graphs}"))
}

/// The row without the patterns of empty graphs.
fn without_empty(row: &str) -> String {
    let mut row: Vec<&str> = row.split(',').collect();
    for at in (7..row.len() - 1).step_by(9) {
        if row[at + 1] == "0" {
            row[at] = "";
        }
    }
    row.join(",")
}

/// Start-up and choices under variables.
pub fn whatif<'a>(
    rows: impl Iterator<Item = &'a str>,
    asked: &Asked,
    machines: &Machines<'_>,
    wanted: &Which<'_>,
) -> [Held; 2] {
    let (mut started, mut chosen) = (Held::default(), Held::default());
    for line in rows {
        let row = fields(line);
        let (machine, version) = (&row[0], release(&row[3]));
        let (per_node, nodes) = (row[1].parse().expect(line), row[2].parse::<u32>().expect(line));
        if !wanted(machine, per_node, nodes > 1) {
            continue;
        }
        let (mut knobs, settings) = split(&row[4]);
        // NCCL's code was asked without its transports. That is as with NCCL_NET_DISABLE_INTRA=1, and matters in the
        // rows without direct access between GPUs: a release finds the network faster than the processor's memory.
        knobs.network_inside = false;
        let job = Job { nodes, per_node: Some(per_node) };
        let found = search(&machines(machine, per_node), version, job, &knobs);
        let comm = found.unwrap_or_else(|e| panic!("{line}: {e}")).communicator();
        let of = row[..5].join(" ");
        started.row(&figures(&comm), &without_empty(&row[5..].join(",")), &of);
        let table = Table::new(&comm, version, &settings).expect(line);
        let chooser = Chooser::new(&comm, version, &table, Reduction::default());
        for row in asked.of(&row[..5]) {
            let call = Call {
                function: Function::named(&row[0]).expect(&of),
                size: Bytes(row[1].parse().expect(&of)),
                pipelined: 1,
            };
            let ours = match chooser.decide(&call) {
                None => "NONE,NONE,,,".to_owned(),
                Some(taken) => {
                    let time = taken.time.map(|time| float(time.0)).unwrap_or_default();
                    let (channels, threads) = (taken.channels, taken.threads);
                    format!("{},{},{channels},{threads},{time}", taken.algo, taken.proto)
                }
            };
            chosen.row(&ours, &row[2..].join(","), &format!("{of} {} {}", row[0], row[1]));
        }
    }
    [started, chosen]
}

/// The settings of a machine and release in the order of NCCL's estimates, as `nccl whatif` ranks
/// them; each machine and release with one collective and size of the table, in turn.
pub fn order<'a>(
    rows: impl Iterator<Item = &'a str>,
    asked: &Asked,
    machines: &Machines<'_>,
    wanted: &Which<'_>,
) -> Held {
    let mut held = Held::default();
    let mut tried: Vec<(Vec<String>, Vec<String>)> = Vec::new();
    for line in rows {
        let mut row = fields(line);
        row.truncate(5);
        let settings = row.pop().expect(line);
        match tried.iter_mut().find(|(start, _)| *start == row) {
            Some((_, tries)) => tries.push(settings),
            None => tried.push((row, vec![settings])),
        }
    }
    for (turn, (start, tries)) in tried.iter().enumerate() {
        let (per_node, nodes) = (start[1].parse().unwrap(), start[2].parse::<u32>().unwrap());
        if !wanted(&start[0], per_node, nodes > 1) {
            continue;
        }
        let of = |settings: &str| {
            let mut start = start.clone();
            start.push(settings.to_owned());
            asked.of(&start)
        };
        let plain = of("");
        let Some(question) = plain.get(turn % plain.len().max(1)) else { continue };
        let taken = |settings: &str| of(settings).iter().find(|row| row[..2] == question[..2]);
        let tries: Vec<&str> = tries.iter().map(String::as_str).collect();
        let mut tries: Vec<&str> = tries.into_iter().filter(|s| taken(s).is_some()).collect();
        tries.retain(|settings| !settings.is_empty());
        // What changes nothing is said apart.
        let mut truth: Vec<(&str, f32)> = Vec::new();
        for settings in &tries {
            if taken(settings) != taken("") {
                let time = taken(settings).and_then(|row| row[6].parse().ok());
                truth.push((settings, time.unwrap_or(f32::INFINITY)));
            }
        }
        truth.sort_by(|a, b| a.1.total_cmp(&b.1));
        let description = machines(&start[0], per_node);
        let report = nccl_whatif::nccl_whatif(&nccl_whatif::Question {
            name: start[0].clone(),
            description: &description,
            job: Job { nodes, per_node: Some(per_node) },
            version: release(&start[3]),
            settings: &Settings::default(),
            knobs: &Knobs::default(),
            function: Function::named(&question[0]).unwrap(),
            size: Bytes(question[1].parse().unwrap()),
            tries: &tries,
        });
        let report = report.unwrap_or_else(|e| panic!("{start:?}: {e}"));
        let ours = report.settings.iter().map(|tried| tried.settings.as_str());
        let ours = ours.collect::<Vec<_>>().join("; ");
        let truth = truth.iter().map(|(settings, _)| *settings).collect::<Vec<_>>().join("; ");
        held.row(&ours, &truth, &format!("{} {} {}", start.join(" "), question[0], question[1]));
    }
    held
}

/// `nccl diff` of every two releases that the rows without settings have of a machine: it lists the
/// figures and the sizes that differ in the tables, and no others.
pub fn diff<'a>(
    rows: impl Iterator<Item = &'a str>,
    asked: &Asked,
    machines: &Machines<'_>,
    wanted: &Which<'_>,
) -> Held {
    let mut held = Held::default();
    let rows: Vec<Vec<String>> = rows.map(fields).filter(|row| row[4].is_empty()).collect();
    for (i, after) in rows.iter().enumerate() {
        let (per_node, nodes) = (after[1].parse().unwrap(), after[2].parse::<u32>().unwrap());
        if !wanted(&after[0], per_node, nodes > 1) {
            continue;
        }
        for before in rows[..i].iter().filter(|before| before[..3] == after[..3]) {
            let [old, new] = [before, after].map(|row| asked.of(&row[..5]));
            let mut sizes: Vec<Bytes> =
                old.iter().map(|row| Bytes(row[1].parse().unwrap())).collect();
            sizes.sort_unstable();
            sizes.dedup();
            let description = machines(&after[0], per_node);
            let report = nccl_diff::nccl_diff(&nccl_diff::Question {
                name: after[0].clone(),
                description: &description,
                job: Job { nodes, per_node: Some(per_node) },
                versions: [release(&before[3]), release(&after[3])],
                settings: &Settings::default(),
                knobs: &Knobs::default(),
                sizes,
                range: (Bytes(8), Bytes(8)),
            });
            let report = report.unwrap_or_else(|e| panic!("{before:?} {after:?}: {e}"));
            let place = |row: &[String]| {
                let function = Function::named(&row[0]).unwrap();
                format!("{} {}", function.collective().id(), row[1])
            };
            // Of some questions a table of samples has the answer of one release alone.
            let both: Vec<_> = old
                .iter()
                .filter_map(|row| Some((row, new.iter().find(|new| new[..2] == row[..2])?)))
                .collect();
            let mut ours: Vec<String> = report
                .choices
                .iter()
                .map(|row| format!("{} {}", row.collective.id(), row.from_bytes))
                .filter(|ours| both.iter().any(|(row, _)| place(row) == *ours))
                .collect();
            ours.push(format!("{} figures", report.figures.len()));
            ours.sort();
            let differ = both.iter().filter(|(old, new)| old != new);
            let mut truth: Vec<String> = differ.map(|(row, _)| place(row)).collect();
            let [old, new] = [before, after].map(|row| without_empty(&row[5..].join(",")));
            let differ = old.split(',').zip(new.split(',')).filter(|(old, new)| old != new);
            truth.push(format!("{} figures", differ.count()));
            truth.sort();
            let of = format!("{} {} {}", before[..3].join(" "), before[3], after[3]);
            held.row(&ours.join("; "), &truth.join("; "), &of);
        }
    }
    held
}

//! `collcost trace`: what it says of every schedule is checked against nothing but what it says.

use std::collections::{BTreeMap, BTreeSet};

use collcost::answer::trace::Part;
use collcost::answer::trace::{Cell, Run, Trace};
use collcost::base::collective::Collective;
use collcost::base::quantity::{Bandwidth, Bytes, Seconds};
use collcost::cost::simulate::Mode;
use collcost::machine::profile::Profile;
use collcost::machine::query::{Given, Layout, Machine, Query};
use collcost::model::algorithm::Registry;
use collcost::model::formula::{Params, Ports};
use collcost::view::trace::events;
use serde_json::Value;

const ALPHA: f64 = 1e-6;
const RATE: f64 = 1e10;
const ALPHA_SWITCH: f64 = 1e-7;

/// N ranks on equal links, in nodes of `group` where there is one.
fn query(collective: Collective, n: u32, group: Option<u32>, ports: Ports) -> Query {
    let given = Given {
        alpha: Some(Seconds(ALPHA)),
        bandwidth: Some(Bandwidth(RATE)),
        alpha_inter: group.map(|_| Seconds(ALPHA)),
        bandwidth_inter: group.map(|_| Bandwidth(RATE)),
        alpha_switch: Some(Seconds(ALPHA_SWITCH)),
        ports: Some(ports),
        ..Given::default()
    };
    let machine = Machine::new(None, &given, collective).unwrap();
    let layout = Layout {
        ranks: n.try_into().ok(),
        nodes: None,
        per_node: group.and_then(|g| g.try_into().ok()),
    };
    Query::new(machine, collective, Bytes(1 << 16), layout, Params::default()).unwrap()
}

/// Every algorithm that has an explicit schedule, over up to nine ranks in one node and in several.
fn each_run(ports: Ports, mode: Mode, check: impl Fn(&str, &Run)) -> usize {
    let registry = Registry::builtin();
    let mut seen = 0;
    for &collective in Collective::ALL {
        for algorithm in registry.of(collective) {
            let id = algorithm.meta().id;
            for (n, group) in
                (1..=9).map(|n| (n, None)).chain([(8, Some(4)), (8, Some(2)), (6, Some(3))])
            {
                let query = query(collective, n, group, ports);
                let Ok(run) = Run::new(&registry, &query, Some(id), None, mode) else { continue };
                check(&format!("{collective} {id} N = {n} in nodes of {group:?} {mode}"), &run);
                seen += 1;
            }
        }
    }
    seen
}

/// A message as its line says it.
struct Event {
    round: u64,
    start: f64,
    end: f64,
    from: String,
    to: String,
    chunks: Vec<usize>,
    op: String,
    tier: u64,
}

fn lines(run: &Run) -> (Value, Vec<Event>) {
    let mut out = Vec::new();
    events(&mut out, run).unwrap();
    let text = String::from_utf8(out).unwrap();
    let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let header = lines.next().unwrap();
    let event = |line: Value| Event {
        round: line["round"].as_u64().unwrap(),
        start: line["start_s"].as_f64().unwrap(),
        end: line["end_s"].as_f64().unwrap(),
        from: line["from"].to_string(),
        to: line["to"].to_string(),
        chunks: line["chunks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| c.as_u64().unwrap() as usize)
            .collect(),
        op: line["op"].as_str().unwrap().to_owned(),
        tier: line["tier"].as_u64().unwrap_or(0),
    };
    (header, lines.map(event).collect())
}

fn lists(value: &Value) -> Vec<BTreeSet<usize>> {
    let list =
        |v: &Value| v.as_array().unwrap().iter().map(|c| c.as_u64().unwrap() as usize).collect();
    value.as_array().unwrap().iter().map(list).collect()
}

/// Contributors by endpoint and chunk, from the lines alone.
fn data_flow(name: &str, header: &Value, events: &[Event]) {
    type Held = BTreeMap<(String, usize), BTreeSet<usize>>;
    let (holds, wants) = (lists(&header["holds"]), lists(&header["wants"]));
    let mut held = Held::new();
    for (rank, chunks) in holds.iter().enumerate() {
        held.extend(chunks.iter().map(|&c| ((rank.to_string(), c), BTreeSet::from([rank]))));
    }
    for of_round in events.chunk_by(|a, b| a.round == b.round) {
        let before = held.clone();
        for event in of_round {
            for &chunk in &event.chunks {
                let sent = before.get(&(event.from.clone(), chunk));
                let sent = sent.unwrap_or_else(|| panic!("{name}: {} lacks {chunk}", event.from));
                let here = held.entry((event.to.clone(), chunk)).or_default();
                match event.op.as_str() {
                    "copy" => here.clone_from(sent),
                    "reduce" => {
                        assert!(here.is_disjoint(sent), "{name}: added twice");
                        here.extend(sent);
                    }
                    "or" => here.extend(sent),
                    other => panic!("{name}: {other}"),
                }
            }
        }
    }
    for (rank, chunks) in wants.iter().enumerate() {
        for &chunk in chunks {
            let all: BTreeSet<usize> =
                (0..holds.len()).filter(|&r| holds[r].contains(&chunk)).collect();
            assert_eq!(
                held.get(&(rank.to_string(), chunk)),
                Some(&all),
                "{name}: {rank} wants {chunk}"
            );
        }
    }
}

/// The most intervals that overlap; an end frees before a start.
fn at_once(intervals: &[(f64, f64)]) -> usize {
    let slack = |t: f64| t * (1.0 + 1e-10);
    let overlaps =
        |at: f64| intervals.iter().filter(move |(start, end)| *start <= at && slack(at) < *end);
    intervals.iter().map(|(start, _)| overlaps(*start).count()).max().unwrap_or(0)
}

/// Durations, ports and links, from the lines alone; without switches.
fn timing(name: &str, header: &Value, events: &[Event]) {
    let bytes: Vec<f64> =
        header["chunk_bytes"].as_array().unwrap().iter().map(|b| b.as_f64().unwrap()).collect();
    let (alpha, rate) = (header["alpha_s"].as_f64().unwrap(), header["bw_Bps"].as_f64().unwrap());
    let half = header["duplex"] == "half";
    let mut busy: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for event in events {
        let carried: f64 = event.chunks.iter().map(|&c| bytes[c]).sum();
        let expected = alpha + carried / rate;
        assert!(
            (event.end - event.start - expected).abs() < 1e-9 * (event.end + expected),
            "{name}"
        );
        let (from, to, tier) = (&event.from, &event.to, event.tier);
        let places = match half {
            true => [format!("port {from} over {tier}"), format!("port {to} over {tier}")],
            false => [format!("out of {from} over {tier}"), format!("into {to} over {tier}")],
        };
        for place in places.into_iter().chain([format!("link {from} to {to}")]) {
            busy.entry(place).or_default().push((event.start, event.end));
        }
    }
    let ports = header["ports"].as_u64().unwrap() as usize;
    for (place, intervals) in busy {
        let most = if place.starts_with("link") { 1 } else { ports };
        assert!(most == 0 || at_once(&intervals) <= most, "{name}: {place}");
    }
}

/// In mode `flow` nothing leaves before it has come; in `sync` no round overlaps another.
fn order(name: &str, header: &Value, events: &[Event]) {
    let mut came: BTreeMap<(&str, usize), f64> = BTreeMap::new();
    let mut before = 0.0;
    for of_round in events.chunk_by(|a, b| a.round == b.round) {
        for event in of_round {
            let needed = |c: &usize| came.get(&(event.from.as_str(), *c)).copied().unwrap_or(0.0);
            let latest = event.chunks.iter().map(needed).fold(0.0, f64::max);
            let latest = if header["mode"] == "sync" { before } else { latest };
            assert!(
                event.start >= latest * (1.0 - 1e-10),
                "{name}: {} before {latest}",
                event.start
            );
        }
        for event in of_round {
            before = f64::max(before, event.end);
            for &chunk in &event.chunks {
                let at = came.entry((event.to.as_str(), chunk)).or_default();
                *at = at.max(event.end);
            }
        }
    }
}

#[test]
fn events_can_be_replayed() {
    let two = Ports::full(2);
    let half = "1hd".parse().unwrap();
    let cases = [
        (Ports::ONE, Mode::Flow),
        (two, Mode::Sync),
        (half, Mode::Local),
        (Ports::Unbounded, Mode::Flow),
    ];
    for (ports, mode) in cases {
        let seen = each_run(ports, mode, |name, run| {
            let (header, events) = lines(run);
            data_flow(name, &header, &events);
            if header["switches"] == 0 {
                timing(name, &header, &events);
                order(name, &header, &events);
            }
            let last = events.iter().map(|e| e.end).fold(0.0, f64::max);
            let outcome = run.listen(&mut |_: &collcost::cost::simulate::Timed<'_>| {}).unwrap();
            assert_eq!(last, outcome.makespan.0, "{name}");
        });
        assert!(seen > 200, "{seen} runs");
    }
}

/// What each rank has at the end is the sum of what was given, in numbers and by name.
#[test]
fn states_end_with_what_the_collective_promises() {
    each_run(Ports::ONE, Mode::Flow, |name, run| {
        let (header, _) = lines(run);
        let (holds, wants) = (lists(&header["holds"]), lists(&header["wants"]));
        let named = run.trace(None, None).unwrap();
        let end = |trace: &Trace, rank: usize, chunk: usize| {
            let last = trace.steps.last().and_then(|step| step.state.as_ref());
            last.or(trace.start.as_ref()).unwrap()[rank][chunk].clone()
        };
        let bring = |chunk: &usize| {
            (0..holds.len()).filter(|&r| holds[r].contains(chunk)).collect::<Vec<_>>()
        };
        let all = || {
            wants
                .iter()
                .enumerate()
                .flat_map(|(rank, chunks)| chunks.iter().map(move |c| (rank, *c)))
        };
        for (rank, chunk) in all() {
            let Some(Cell::Sum(sum)) = end(&named, rank, chunk) else { panic!("{name}: no sum") };
            let mut ranks: Vec<usize> = sum.ranks.iter().map(|r| *r as usize).collect();
            ranks.sort_unstable();
            assert_eq!(ranks, bring(&chunk), "{name}");
        }
        if header["collective"] == "barrier" {
            return;
        }
        // A row a rank: 1000 times its number and the number of the chunk.
        let number = |rank: usize, chunk: usize| (1000 * (rank + 1) + chunk) as f64;
        let width = holds.iter().map(BTreeSet::len).max().unwrap();
        let row = |(rank, chunks): (usize, &BTreeSet<usize>)| {
            let mut row: Vec<f64> = chunks.iter().map(|&c| number(rank, c)).collect();
            // Those who bring nothing may say anything.
            row.resize(width, 0.0);
            row
        };
        let rows: Vec<Vec<f64>> = holds.iter().enumerate().map(row).collect();
        let traced = run.trace(None, Some(&rows)).unwrap();
        for (rank, chunk) in all() {
            let Some(Cell::Number(got)) = end(&traced, rank, chunk) else {
                panic!("{name}: no number")
            };
            let want: f64 = bring(&chunk).into_iter().map(|r| number(r, chunk)).sum();
            assert_eq!(got, want, "{name}");
        }
    });
}

/// Perfetto needs what lies on one track to come one after another.
#[test]
fn tracks_do_not_overlap() {
    each_run(Ports::full(2), Mode::Flow, |name, run| {
        let mut out = Vec::new();
        collcost::view::trace::chrome(&mut out, &run.trace(None, None).unwrap()).unwrap();
        let file: Value = serde_json::from_slice(&out).unwrap();
        let mut tracks: BTreeMap<(u64, u64), Vec<(f64, f64)>> = BTreeMap::new();
        for event in file["traceEvents"].as_array().unwrap().iter().filter(|e| e["ph"] == "X") {
            let (at, long) = (event["ts"].as_f64().unwrap(), event["dur"].as_f64().unwrap());
            let track = (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
            tracks.entry(track).or_default().push((at, at + long));
        }
        for (track, intervals) in tracks {
            assert!(at_once(&intervals) <= 1, "{name}: {track:?}");
        }
    });
}

/// Trees and rings are found from the messages alone.
#[test]
fn members_are_found() {
    let registry = Registry::builtin();
    let members = |collective, name: &str, n| {
        let query = query(collective, n, None, Ports::ONE);
        let run = Run::new(&registry, &query, Some(name), None, Mode::Flow).unwrap();
        run.trace(None, None).unwrap().members
    };
    let ring = &members(Collective::AllReduce, "ring", 8).lines[0];
    assert_eq!((ring.closed, ring.ranks.clone()), (true, (0..8).collect()));
    assert_eq!(members(Collective::Broadcast, "binomial", 8).trees[0].at_depth, [1, 3, 3, 1]);
    let pair = members(Collective::AllReduce, "double-binary-tree", 8).trees;
    let roots: Vec<String> = pair.iter().map(|tree| tree.root.to_string()).collect();
    assert_eq!(roots, ["0", "7"]);
    // Whoever branches in one tree is a leaf of the other.
    let pair = members(Collective::AllReduce, "double-binary-tree", 4).trees;
    for (one, other) in pair[0].roles.iter().zip(&pair[1].roles) {
        assert_eq!(
            (one.role == Part::Leaf) as u8 + (other.role == Part::Leaf) as u8,
            1,
            "{:?}",
            one.of
        );
    }
    // Exchanges over doubling distances are neither.
    let exchanges = members(Collective::AllReduce, "recursive-doubling", 4);
    assert!(exchanges.lines.is_empty() && exchanges.trees.is_empty());
}

/// NCCL's rings over all rails have no explicit schedule: one ring stands in, which is NCCL's too.
#[test]
fn a_ring_stands_in_for_rings_over_rails() {
    let profile = Profile::builtin("dgx-h100").unwrap();
    let collective = Collective::AllGather;
    let machine = Machine::on(&profile, "profile", &Given::default(), collective).unwrap();
    let layout = Layout { ranks: 16.try_into().ok(), nodes: None, per_node: None };
    let query =
        Query::new(machine, collective, Bytes(64 << 20), layout, Params::default()).unwrap();
    let run = Run::new(&Registry::builtin(), &query, None, None, Mode::Flow).unwrap();
    let trace = run.trace(Some(1), None).unwrap();
    assert_eq!(trace.algorithm, "ring");
    assert!(
        trace.notes[0].contains("without an explicit schedule: ring-rails"),
        "{:?}",
        trace.notes
    );
}

/// Graphviz 2.43 fails on many schedules that it ranks in the old way ("trouble in init_rank").
#[test]
fn a_graph_is_ranked_as_a_whole() {
    let words = ["trace", "allgather", "bruck", "-n", "20", "--format", "dot"];
    let graph = std::process::Command::new(env!("CARGO_BIN_EXE_collcost")).args(words).output();
    let graph = String::from_utf8(graph.unwrap().stdout).unwrap();
    assert!(graph.contains("    newrank=true;\n"), "{graph}");
}

//! Operations in the order of arrival, beside what LogGOPSim says of the same files.
//!
//! `tests/data/loggopsim.csv` holds the makespans that LogGOPSim (github.com/spcl/LogGOPSim, commit
//! 9a0c7f2, `-S 1000000000`: all messages eager) prints for the files that [`random`] and
//! [`collective`] write, with one change: it sorts what may begin at once by `std::stable_sort`. By
//! `std::sort`, as it is, the order of more than 16 is the C++ library's; without the change 75 of
//! the 118 makespans are the same.
//! `COLLCOST_GOAL_DIR=DIR cargo test --test engine arrival` writes the files there, with a list of
//! their parameters, to be run again.

use std::collections::HashMap;
use std::fmt::Write as _;

use collcost::base::collective::Collective;
use collcost::base::quantity::{Bandwidth, Bytes, Seconds};
use collcost::cost::simulate::arrival::{Overheads, arrive};
use collcost::exchange::export::{FORMATS, Job};
use collcost::exchange::import;
use collcost::machine::fabric::Fabric;
use collcost::model::algorithm::Registry;
use collcost::model::formula::Shape;

const TRUTH: &str = include_str!("../data/loggopsim.csv");

/// Numbers that are the same everywhere.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        // SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % end
    }
}

/// L, o, g in nanoseconds and G in nanoseconds per byte.
fn parameters(number: u64) -> [u64; 4] {
    let mut numbers = Numbers(number);
    let mut of = |choices: &[u64]| choices[numbers.below(choices.len() as u64) as usize];
    [of(&[500, 2500, 10_000]), of(&[0, 0, 300, 1500]), of(&[0, 50, 1000]), of(&[1, 2, 6])]
}

/// Messages between random ranks, computations, and some of what came before required.
fn random(number: u64) -> String {
    let mut numbers = Numbers(number ^ 0x5eed);
    let ranks = 2 + numbers.below(15);
    let mut operations: Vec<Vec<String>> = vec![Vec::new(); ranks as usize];
    let mut requires: Vec<Vec<String>> = operations.clone();
    // Of messages alike the first sent is the first asked for: else they could wait for each other.
    let mut alike: HashMap<(u64, String), u64> = HashMap::new();
    for message in 0..20 + numbers.below(280) {
        let from = numbers.below(ranks);
        let to = (from + 1 + numbers.below(ranks - 1)) % ranks;
        let bytes = [1, 8, 1000, 65_536, 1_000_000][numbers.below(5) as usize];
        let tag = if numbers.below(3) == 0 { 0 } else { message };
        let calc = numbers.below(4) == 0;
        let both = [
            (from, format!("send {bytes}b to {to} tag {tag}")),
            (to, format!("recv {bytes}b from {from} tag {tag}")),
            (from, format!("calc {}", numbers.below(100_000))),
        ];
        for (rank, what) in both.into_iter().take(2 + usize::from(calc)) {
            let operations = &mut operations[rank as usize];
            let label = operations.len() as u64;
            operations.push(format!("l{label}: {what}"));
            let pair = what.split_once("b ").map(|(_, pair)| pair.to_owned()).unwrap_or_default();
            if pair.ends_with("tag 0")
                && let Some(before) = alike.insert((rank, pair), label)
            {
                requires[rank as usize].push(format!("l{label} requires l{before}"));
            }
            for _ in 0..numbers.below(3).min(label) {
                let how = if numbers.below(5) == 0 { "irequires" } else { "requires" };
                let line = format!("l{label} {how} l{}", numbers.below(label));
                if !requires[rank as usize].contains(&line) {
                    requires[rank as usize].push(line);
                }
            }
        }
    }
    let mut text = format!("num_ranks {ranks}\n");
    for (rank, (operations, requires)) in operations.iter().zip(&requires).enumerate() {
        let lines = [operations.join("\n"), requires.join("\n")].join("\n");
        let _ = write!(text, "\nrank {rank} {{\n{lines}\n}}\n");
    }
    text
}

/// Algorithms that came after LogGOPSim's times were taken: with them, the numbers would draw others.
const LATER: [&str; 16] = [
    "butterfly",
    "butterfly-mirrored",
    "halving-gather",
    "halving-gather-half-fold",
    "in-order-binomial",
    "in-order-halved-tree",
    "in-order-knomial",
    "one-shot-multimem",
    "one-shot-multicast",
    "two-shot-one-shot",
    "one-shot-norm",
    "two-shot-norm",
    "scatter-doubling",
    "slice-ring",
    "slice-rabenseifner",
    "recursive-halving-fold",
];

/// The collectives of the later `mesh`.
const GATHERS: [Collective; 3] =
    [Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter];

/// One of the project's own schedules, as its export writes it without the comments.
fn collective(number: u64) -> Option<String> {
    let registry = Registry::builtin();
    let all: Vec<_> = Collective::ALL
        .iter()
        .flat_map(|&of| registry.of(of).map(move |algorithm| (of, algorithm)))
        .filter(|(_, algorithm)| !LATER.contains(&algorithm.meta().id))
        // Another collective's mesh is older.
        .filter(|(of, algorithm)| algorithm.meta().id != "mesh" || !GATHERS.contains(of))
        .collect();
    let mut numbers = Numbers(number);
    let (collective, algorithm) = all[numbers.below(all.len() as u64) as usize];
    let ranks = 2 + numbers.below(15) as u32;
    let shape = Shape::new(collective, ranks);
    algorithm.applies(&shape).ok()?;
    let schedule = algorithm.schedule(&shape)?;
    let goal = FORMATS.iter().find(|format| format.id == "goal")?;
    let size = Bytes([20_000, 1_000_000, 64_000_000][numbers.below(3) as usize]);
    let job = Job { schedule: &*schedule, name: "test", size, gamma: None };
    let text = goal.write(&job).ok()?.to_string();
    let lines = text.lines().filter(|line| !line.starts_with("//"));
    Some(lines.fold(String::new(), |text, line| text + line + "\n"))
}

/// What stands in a row's first two columns.
fn file(kind: &str, number: u64) -> Option<String> {
    if kind == "random" { Some(random(number)) } else { collective(number) }
}

fn fabric([latency, overhead, _, each]: [u64; 4]) -> Fabric {
    let alpha = Seconds((latency + 2 * overhead) as f64 * 1e-9);
    Fabric::flat(alpha, Bandwidth(1e9 / each as f64))
}

fn makespan(text: &str, parameters: [u64; 4]) -> f64 {
    let bare = import::bare(text, "file").unwrap().unwrap();
    let [_, overhead, gap, _] = parameters.map(|ns| Seconds(ns as f64 * 1e-9));
    let overheads = Overheads { overhead, gap };
    let arrived = arrive(&bare.operations, &fabric(parameters), overheads, &[]);
    arrived.unwrap_or_else(|stuck| panic!("{stuck:?}\n{text}")).makespan.0
}

#[test]
fn arrival_is_loggopsims() {
    if let Ok(folder) = std::env::var("COLLCOST_GOAL_DIR") {
        let mut list = String::new();
        let both = [("random", 0..80), ("collective", 0..80)];
        for (kind, number) in both.into_iter().flat_map(|(k, all)| all.map(move |n| (k, n))) {
            let Some(text) = file(kind, number) else { continue };
            std::fs::write(format!("{folder}/{kind}-{number}.goal"), text).unwrap();
            let [l, o, g, each] = parameters(number);
            let _ = writeln!(list, "{kind} {number} {l} {o} {g} {each}");
        }
        std::fs::write(format!("{folder}/list"), list).unwrap();
    }
    let mut rows = 0;
    for row in TRUTH.lines().skip(1) {
        let cells: Vec<&str> = row.split(',').collect();
        let [kind, number, ns] = cells[..] else { panic!("{row}") };
        let (number, ns): (u64, f64) = (number.parse().unwrap(), ns.parse().unwrap());
        let text = file(kind, number).unwrap();
        let here = makespan(&text, parameters(number)) * 1e9;
        assert!((here / ns - 1.0).abs() < 1e-9, "{row}: {here}");
        rows += 1;
    }
    assert!(rows >= 100, "{rows}");
}

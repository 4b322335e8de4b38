//! The transfers of an independent simulator, N = 2 … 8: every schedule sends the same.
//!
//! Compared are the transfers of each round, up to the names of chunks: sender, receiver, what is
//! done with the data, and how much.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};

use collcost::answer::batch::Batch;
use collcost::model::schedule::{List, Op, Schedule};
use flate2::read::GzDecoder;
use serde_json::Value;

/// Round → sorted (from, to, operation, share of M in 1e-12).
type Rounds = BTreeMap<u64, Vec<(u64, u64, char, i64)>>;

fn rows() -> impl Iterator<Item = Value> {
    let file = include_bytes!("../data/schedules_small.jsonl.gz").as_slice();
    let lines = BufReader::new(GzDecoder::new(file)).lines();
    lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap())
}

fn rounded(share: f64) -> i64 {
    (share * 1e12).round() as i64
}

fn expected(row: &Value) -> Rounds {
    let sizes: BTreeMap<String, f64> = row["block_bytes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|b| (b[0].to_string(), b[1].as_f64().unwrap()))
        .collect();
    let mut rounds = Rounds::new();
    for transfer in row["transfers"].as_array().unwrap() {
        let blocks = transfer[3].as_array().unwrap();
        let share = blocks.iter().map(|b| sizes[&b.to_string()]).sum();
        let op = transfer[4].as_str().unwrap().chars().next().unwrap();
        let entry =
            (transfer[1].as_u64().unwrap(), transfer[2].as_u64().unwrap(), op, rounded(share));
        rounds.entry(transfer[0].as_u64().unwrap()).or_default().push(entry);
    }
    rounds.values_mut().for_each(|round| round.sort_unstable());
    rounds
}

fn found(schedule: &dyn Schedule) -> Rounds {
    let frame = schedule.frame();
    let data = frame.collective != collcost::Collective::Barrier;
    let mut rounds = Rounds::new();
    for message in List::of(schedule).iter() {
        let place =
            |endpoint: collcost::model::schedule::Endpoint| endpoint.place(schedule).unwrap();
        let chunks: u64 = message.runs.iter().map(|run| u64::from(run.len)).sum();
        let share = if data { chunks as f64 / f64::from(frame.parts) } else { 0.0 };
        let op = match message.op {
            Op::Copy => 'c',
            Op::Reduce => 'r',
            Op::Or => 'o',
        };
        let entry = (place(message.from) as u64, place(message.to) as u64, op, rounded(share));
        rounds.entry(message.round).or_default().push(entry);
    }
    rounds.values_mut().for_each(|round| round.sort_unstable());
    rounds
}

/// The question that `batch` takes.
fn question(row: &Value) -> String {
    let params: Vec<String> = row["params"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(k, v)| format!("{k}={}", v.as_str().map_or_else(|| v.to_string(), str::to_owned)))
        .collect();
    let (algorithm, n) = (&row["algorithm"], &row["n"]);
    format!(r#"{{"algorithm":{algorithm},"n":{n},"params":"{}"}}"#, params.join(";"))
}

/// Schedules whose messages are laid into rounds by a colouring found by search: ours is another
/// one, so each message may be in another round. There are as many rounds in which somebody sends,
/// or fewer; empty ones take no time.
const COLOURED: [&str; 2] = ["dbt_colored_ar", "tree_colored_ar"];

/// Whether all messages are the same, in no more rounds.
fn is_another_layout(expected: &Rounds, found: &Rounds) -> bool {
    let messages = |rounds: &Rounds| {
        let mut all: Vec<_> = rounds.values().flatten().copied().collect();
        all.sort_unstable();
        all
    };
    messages(expected) == messages(found) && found.len() <= expected.len()
}

#[test]
fn every_schedule_sends_what_the_reference_sends() {
    let mut batch = Batch::default();
    let (mut same, mut other, mut faults) = (0, 0, Vec::new());
    for row in rows() {
        let question = question(&row);
        let schedule = match batch.schedule(&question) {
            Ok(schedule) => schedule,
            Err(error) => {
                faults.push(format!("{question}: {error}"));
                continue;
            }
        };
        let (expected, found) = (expected(&row), found(&*schedule));
        // Rounds may start at 1 or leave gaps.
        if expected.values().eq(found.values()) {
            same += 1;
        } else if COLOURED.iter().any(|&name| row["algorithm"] == name)
            && is_another_layout(&expected, &found)
        {
            other += 1;
        } else {
            faults.push(format!("{question}:\n  want {expected:?}\n  have {found:?}"));
        }
    }
    let all = same + other + faults.len();
    assert!(faults.is_empty(), "{same} of {all} agree\n{}", faults.join("\n"));
    assert_eq!((same, other), (539, 21));
}

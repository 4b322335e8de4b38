//! The table of an independent simulator, asked through `collcost batch`'s own function.
//!
//! Each row says how it may be compared: `order-free` and `listed` rows to 1e-9, `greedy` rows
//! depend on the order among messages that are ready at once (at most 1.5 times), `layout` rows on
//! how segments are numbered into rounds (at most twice), `attainable` rows are what one schedule
//! reaches. Bytes and messages are exact in all of them.

use std::collections::BTreeMap;

use collcost::answer::batch::Batch;
use flate2::read::GzDecoder;
use serde_json::{Map, Value};

const TOLERANCE: f64 = 1e-9;

/// Columns of the inputs; the others are answers.
const INPUTS: [&str; 12] = [
    "id",
    "algorithm",
    "params",
    "n",
    "size_bytes",
    "alpha_s",
    "bw_Bps",
    "intra_alpha_s",
    "intra_bw_Bps",
    "duplex",
    "ports",
    "mode",
];

#[test]
fn every_row_holds() {
    let file = include_bytes!("../data/simulated.csv.gz").as_slice();
    let mut table = csv::Reader::from_reader(GzDecoder::new(file));
    let mut batch = Batch::default();
    let mut asked: BTreeMap<String, usize> = BTreeMap::new();
    let mut faults: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in table.deserialize() {
        let row: BTreeMap<String, String> = row.expect("the table is CSV");
        let mut question: Map<String, Value> =
            INPUTS.iter().map(|&name| (name.to_owned(), row[name].clone().into())).collect();
        question.insert("kind".into(), "simulate".into());
        let mut line = Vec::new();
        batch.answer(&Value::Object(question).to_string(), &mut line);
        let answer: Value = serde_json::from_slice(&line).expect("an answer is JSON");
        *asked.entry(row["policy"].clone()).or_default() += 1;
        if let Some(fault) = fault(&row, &answer) {
            let name = format!("{} {}", row["algorithm"], row["params"]);
            let row = format!(
                "{} n={} {} {} {} {}: {fault}",
                row["id"], row["n"], row["duplex"], row["ports"], row["mode"], row["policy"]
            );
            faults.entry(name).or_default().push(row);
        }
    }
    let report: Vec<String> = faults
        .iter()
        .map(|(name, rows)| format!("{name}: {} rows, such as {}", rows.len(), rows[0]))
        .collect();
    let wrong: usize = faults.values().map(Vec::len).sum();
    assert!(faults.is_empty(), "{wrong} rows differ\n{}", report.join("\n"));
    // The table itself must not shrink unnoticed.
    assert_eq!(asked.values().sum::<usize>(), 4772, "{asked:?}");
}

/// What is wrong with an answer.
fn fault(row: &BTreeMap<String, String>, answer: &Value) -> Option<String> {
    if let Some(error) = answer.get("error") {
        return Some(error.to_string());
    }
    let want = |name: &str| row[name].parse::<f64>().expect("a number");
    let have = |name: &str| answer[name].as_f64().expect("a number");
    let near = |name: &str| (have(name) - want(name)).abs() <= TOLERANCE * want(name).abs();
    let mut exact = vec!["max_sent_bytes", "max_recv_bytes", "total_bytes", "messages"];
    exact.push("max_messages_per_rank");
    let slack = match row["policy"].as_str() {
        "order-free" | "listed" => None,
        "greedy" => Some(1.5),
        "layout" => Some(2.0),
        _ => Some(1.0),
    };
    if row["policy"] == "order-free" && row["mode"] == "sync" {
        exact.push("rounds");
    }
    if slack.is_none() {
        exact.push("makespan_s");
    }
    let differing: Vec<_> = exact
        .into_iter()
        .filter(|name| !near(name))
        .map(|name| format!("{name} {} for {}", have(name), want(name)))
        .collect();
    if !differing.is_empty() {
        return Some(differing.join(", "));
    }
    let (have, want) = (have("makespan_s"), want("makespan_s"));
    slack.filter(|most| have > want * most * (1.0 + TOLERANCE)).map(|most| {
        format!("makespan_s {have} for {want}, {:.3} times, at most {most}", have / want)
    })
}

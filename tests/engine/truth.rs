//! The truth table: cases with expected values that an independent simulator made.
//!
//! Every case is asked through `collcost batch`'s own function and compared at 1e-9.

use std::collections::BTreeMap;

use collcost::answer::batch::Batch;
use serde_json::Value;

const TOLERANCE: f64 = 1e-9;

/// Kinds of the table that other parts of the project answer, with the part.
const LATER: &[&str] = &["ratio"];

fn cases() -> Vec<toml::Table> {
    let text = include_str!("../data/cases.toml");
    let table: toml::Table = text.parse().expect("the table is TOML");
    table["case"].as_array().unwrap().iter().map(|c| c.as_table().unwrap().clone()).collect()
}

/// Compares one expected value with the answer's; numbers may be written as strings.
fn differs(expected: &Value, got: &Value) -> bool {
    let number = |v: &Value| v.as_f64().or_else(|| v.as_str().and_then(|s| s.parse().ok()));
    match (number(expected), number(got)) {
        (Some(e), Some(g)) => (e - g).abs() > TOLERANCE * e.abs(),
        _ => match (expected, got) {
            (Value::Array(e), Value::Array(g)) => {
                e.len() != g.len() || e.iter().zip(g).any(|(e, g)| differs(e, g))
            }
            _ => expected != got,
        },
    }
}

#[test]
fn every_case_holds() {
    let mut batch = Batch::default();
    let mut asked: BTreeMap<String, usize> = BTreeMap::new();
    let mut faults = Vec::new();
    for case in cases() {
        let kind = case["kind"].as_str().unwrap().to_owned();
        if LATER.contains(&kind.as_str()) {
            continue;
        }
        let (expected, question): (Vec<_>, Vec<_>) =
            case.iter().partition(|(key, _)| key.starts_with("expect_"));
        let question: serde_json::Map<_, _> = question
            .into_iter()
            .map(|(k, v)| (k.clone(), serde_json::to_value(v).unwrap()))
            .collect();
        let mut line = Vec::new();
        batch.answer(&serde_json::to_string(&question).unwrap(), &mut line);
        let answer: Value = serde_json::from_slice(&line).expect("an answer is JSON");
        assert_eq!(answer["id"], question["id"]);
        for (key, value) in expected {
            let name = key.trim_start_matches("expect_");
            let value = serde_json::to_value(value).unwrap();
            if differs(&value, &answer[name]) {
                faults.push(format!("{name} should be {value}: {question:?} gave {answer}"));
            }
        }
        *asked.entry(kind).or_default() += 1;
    }
    assert!(faults.is_empty(), "{} differ:\n{}", faults.len(), faults.join("\n"));
    // The table itself must not shrink unnoticed.
    assert_eq!(asked.values().sum::<usize>(), 461, "{asked:?}");
}

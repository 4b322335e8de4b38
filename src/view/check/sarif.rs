//! SARIF 2.1.0, as code scanning reads it: a result for each budget that does not hold, with a rule
//! for each kind of limit. The fingerprint is the budget's name, so a result stays the same if lines
//! move.
//!
//! Source: OASIS, Static Analysis Results Interchange Format (SARIF) Version 2.1.0.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::answer::check::{BudgetView, Check};
use crate::plan::check::{Level, WaiverState};

/// A rule: its id, the kinds of limits that it covers, and its text.
struct Rule {
    id: &'static str,
    kinds: &'static [&'static str],
    name: &'static str,
    what: &'static str,
}

const RULES: &[Rule] = &[
    Rule { id: "CC000", kinds: &["fault"], name: "FileFault", what: "A file of budgets is wrong" },
    Rule {
        id: "CC001",
        kinds: &["max_time", "max_prefill", "measured"],
        name: "TimeOverBudget",
        what: "A collective or a step takes longer than its budget",
    },
    Rule {
        id: "CC002",
        kinds: &["max_memory"],
        name: "MemoryOverBudget",
        what: "A job needs more memory than its budget",
    },
    Rule {
        id: "CC003",
        kinds: &["within"],
        name: "RelationBroken",
        what: "A budget is further above another one than allowed",
    },
    Rule {
        id: "CC004",
        kinds: &["expired"],
        name: "WaiverExpired",
        what: "A budget fails, and its waiver has ended",
    },
    Rule {
        id: "CC005",
        kinds: &["min_busbw"],
        name: "RateBelowBudget",
        what: "A collective's bus bandwidth is below its budget",
    },
    Rule {
        id: "CC006",
        kinds: &["max_bound_ratio", "max_regret"],
        name: "FarFromBest",
        what: "A collective is further from the bound, or from the best choice, than its budget",
    },
    Rule {
        id: "CC007",
        kinds: &["max_exposed"],
        name: "ExposedOverBudget",
        what: "More of a step's collectives is exposed than its budget allows",
    },
];

fn rule(kind: &str) -> (usize, &'static str) {
    let found = RULES.iter().position(|rule| rule.kinds.contains(&kind)).unwrap_or(1);
    (found, RULES[found].id)
}

pub(super) fn sarif(out: &mut impl Write, report: &Check) -> io::Result<()> {
    let faults = report.faults.iter().map(|f| {
        let help = f.help.as_ref().map_or(String::new(), |help| format!(": {help}"));
        let id = format!("fault:{}:{}", f.file, f.what);
        let text = format!("{}{help}", f.what);
        result("fault", "error", &text, &id, (&f.file, f.line, f.column))
    });
    let off = report.budgets.iter().filter(|b| b.counts != Level::None).map(of_budget);
    let results: Vec<Value> = faults.chain(off).collect();
    let rules: Vec<Value> = RULES
        .iter()
        .map(|rule| {
            json!({
                "id": rule.id,
                "name": rule.name,
                "shortDescription": { "text": rule.what },
                "defaultConfiguration": { "level": "error" },
            })
        })
        .collect();
    let whole = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "collcost",
                "version": env!("CARGO_PKG_VERSION"),
                "informationUri": env!("CARGO_PKG_REPOSITORY"),
                "rules": rules,
            }},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    });
    serde_json::to_writer_pretty(&mut *out, &whole)?;
    out.write_all(b"\n")
}

fn of_budget(budget: &BudgetView) -> Value {
    let expired = budget.waiver.as_ref().is_some_and(|w| w.state == WaiverState::Expired);
    let kind = if expired { "expired" } else { budget.kind.unwrap_or("max_time") };
    let text = format!("budget {} {}: {}", budget.name, budget.words(), budget.message);
    let id = format!("budget:{}", budget.name);
    let place = (budget.file.as_str(), budget.line, budget.column);
    let mut found = result(kind, budget.counts.id(), &text, &id, place);
    if let (true, Some(waiver)) = (budget.waived, &budget.waiver) {
        found["suppressions"] = json!([{
            "kind": "external",
            "status": "accepted",
            "justification": waiver.message,
        }]);
    }
    found
}

fn result(
    kind: &str,
    level: &str,
    text: &str,
    id: &str,
    (file, line, column): (&str, usize, usize),
) -> Value {
    let (index, rule) = rule(kind);
    json!({
        "ruleId": rule,
        "ruleIndex": index,
        "level": level,
        "message": { "text": text },
        "partialFingerprints": { "collcostBudget/v1": id },
        "locations": [{ "physicalLocation": {
            // A path from the repository's root.
            "artifactLocation": { "uri": uri(file) },
            "region": { "startLine": line, "startColumn": column },
        }}],
    })
}

/// A relative path as a URI; characters that a URI does not allow are percent-encoded.
fn uri(file: &str) -> String {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"-._~/".contains(b);
    super::from_root(file)
        .as_bytes()
        .iter()
        .map(|b| if plain(b) { char::from(*b).to_string() } else { format!("%{b:02X}") })
        .collect()
}

//! GitLab's code quality report: a list of failures, each at its line.
//!
//! Source: docs.gitlab.com, "Code Quality", section "Code Quality report format".

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::answer::check::Check;
use crate::plan::check::Level;

pub(super) fn gitlab(out: &mut impl Write, report: &Check) -> io::Result<()> {
    let of_fault = |f: &crate::answer::check::FaultView| {
        let help = f.help.as_ref().map_or(String::new(), |m| format!(": {m}"));
        let id = format!("fault:{}:{}:{}:{}", f.file, f.line, f.column, f.what);
        entry(&format!("{}{help}", f.what), "collcost-file", &id, "blocker", (&f.file, f.line))
    };
    let of_budget = |b: &crate::answer::check::BudgetView| {
        let text = format!("budget {}: {}", b.name, b.message);
        let id = format!("budget:{}:{}", b.file, b.name);
        let severity = match b.counts {
            Level::Error => "major",
            Level::Warning => "minor",
            Level::Note | Level::None => "info",
        };
        entry(&text, "collcost-budget", &id, severity, (&b.file, b.line))
    };
    let faults = report.faults.iter().map(of_fault);
    let off = report.budgets.iter().filter(|b| b.counts != Level::None);
    let all: Vec<Value> = faults.chain(off.map(of_budget)).collect();
    serde_json::to_writer_pretty(&mut *out, &all)?;
    out.write_all(b"\n")
}

/// The fingerprint identifies an entry across runs; names are unique in a file.
fn entry(text: &str, check: &str, id: &str, severity: &str, (file, line): (&str, usize)) -> Value {
    let path = super::from_root(file);
    json!({
        "description": text,
        "check_name": check,
        "fingerprint": format!("collcost:{id}"),
        "severity": severity,
        "location": { "path": path, "lines": { "begin": line } },
    })
}

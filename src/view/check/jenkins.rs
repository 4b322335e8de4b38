//! The native JSON of Jenkins' Warnings Next Generation plugin: `recordIssues tool: issues(...)`.
//!
//! Source: jenkinsci/warnings-ng-plugin, doc/Documentation.md, "Details of the analysis result".

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::answer::check::{BudgetView, Check, FaultView};
use crate::plan::check::Level;

pub(super) fn jenkins(out: &mut impl Write, report: &Check) -> io::Result<()> {
    let faults = report.faults.iter().map(of_fault);
    let off = report.budgets.iter().filter(|b| b.counts != Level::None);
    let issues: Vec<Value> = faults.chain(off.map(of_budget)).collect();
    let whole = json!({
        "_class": "io.jenkins.plugins.analysis.core.restapi.ReportApi",
        "size": issues.len(),
        "issues": issues,
    });
    serde_json::to_writer_pretty(&mut *out, &whole)?;
    out.write_all(b"\n")
}

fn of_fault(fault: &FaultView) -> Value {
    let help = fault.help.as_ref().map_or(String::new(), |help| format!(": {help}"));
    json!({
        "fileName": super::from_root(&fault.file),
        "lineStart": fault.line,
        "columnStart": fault.column,
        "severity": "ERROR",
        "category": "collcost",
        "type": "fault",
        "message": format!("{}{help}", fault.what),
        "fingerprint": format!("collcost:fault:{}:{}", fault.file, fault.what),
    })
}

fn of_budget(budget: &BudgetView) -> Value {
    let severity = match budget.counts {
        Level::Error => "ERROR",
        Level::Warning => "NORMAL",
        Level::Note | Level::None => "LOW",
    };
    json!({
        "fileName": super::from_root(&budget.file),
        "lineStart": budget.line,
        "columnStart": budget.column,
        "severity": severity,
        "category": "collcost",
        "type": budget.kind.unwrap_or("budget"),
        "message": format!("budget {} {}: {}", budget.name, budget.words(), budget.message),
        "fingerprint": format!("collcost:budget:{}:{}", budget.file, budget.name),
    })
}

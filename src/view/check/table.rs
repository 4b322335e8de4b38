//! For people.
//!
//! ```text
//! fails  gradients  collcost.toml:7:12
//!        all-reduce of 1 GiB on 64 ranks of dgx-h100 by ring-rails: 9.1 ms, limit 6 ms (max_time)
//! 3 of 4 budgets hold
//! ```

use super::super::Look;
use super::super::counted;
use super::super::page::Page;
use super::super::sheet::{Cell, Sheet};
use crate::answer::check::{BudgetView, Check, Inputs, Thresholds};
use crate::plan::check::{Level, Standing};

/// The most holding budgets that are listed; failing ones are always listed.
const SHOWN: usize = 40;

/// The fields of a budget for programs.
const BUDGET: &[&str] = &[
    "name",
    "file",
    "line",
    "column",
    "standing",
    "kind",
    "limit",
    "value",
    "low",
    "high",
    "unit",
    "used",
    "used_most",
    "counts",
    "message",
];

/// Writes the state of the budgets, the failing ones last, where readers of a log look first.
pub fn table(report: &Check, look: Look) -> Page {
    let mut page = Page::default();
    for fault in &report.faults {
        let place = format!("{}:{}:{}", fault.file, fault.line, fault.column);
        page.line(format!("{}: {}", look.strong(&place), fault.what));
        if let Some(help) = &fault.help {
            page.line(format!("  {help}"));
        }
    }
    if !report.faults.is_empty() {
        let faults = counted(report.faults.len(), "fault");
        page.line(format!("{faults} in {}; no budget was judged", report.file));
        page.record(report, "faults", &["file", "line", "column", "what", "help"]);
        return page;
    }
    let holding: Vec<&BudgetView> = report.standing(Standing::Holds).collect();
    for budget in holding.iter().take(SHOWN) {
        line(&mut page, "holds    ", budget, look);
    }
    if holding.len() > SHOWN {
        page.line(format!("  … {} more hold", holding.len() - SHOWN));
    }
    for standing in [Standing::AtRisk, Standing::Fails] {
        for budget in report.standing(standing) {
            line(&mut page, &format!("{:<9}", budget.words()), budget, look);
        }
    }
    page.line(look.strong(&verdict(report)));
    page.record(report, "budgets", BUDGET);
    page
}

/// All budgets in one line: `1 of 4 budgets fail, 1 more only as a warning, 1 at risk`.
fn verdict(report: &Check) -> String {
    let Check { failed, warned, at_risk, waived, .. } = *report;
    let all = report.budgets.len();
    if waived == all && all > 0 {
        return "every budget fails and is waived".to_owned();
    }
    let mut said = Vec::new();
    if failed > 0 {
        said.push(format!("{failed} of {all} budgets fail"));
    }
    match (failed, warned) {
        (_, 0) => {}
        (0, _) => {
            said.push(format!("{warned} of {all} budgets fail only as a {}", warning(report)))
        }
        _ => said.push(format!("{warned} more only as a {}", warning(report))),
    }
    match (said.len(), at_risk) {
        (_, 0) => {}
        (0, 1) if all == 1 => {
            said.push(format!("the budget is at risk: {}", why_at_risk(report)));
        }
        (0, _) => {
            said.push(format!("{at_risk} of {all} budgets are at risk: {}", why_at_risk(report)))
        }
        (_, 1) => said.push("1 is at risk".to_owned()),
        _ => said.push(format!("{at_risk} are at risk")),
    }
    match (said.len(), waived) {
        (0, 0) if all == 1 => said.push("the budget holds".to_owned()),
        (0, 0) => said.push(format!("all {all} budgets hold")),
        (0, _) => said.push(format!("{} of {all} budgets hold", report.held)),
        _ => {}
    }
    if waived > 0 {
        said.push(format!("{waived} waived"));
    }
    said.join(", ")
}

/// What budgets count as that fail and let the check pass.
fn warning(report: &Check) -> &'static str {
    let is_warning = |b: &BudgetView| b.counts == Level::Warning;
    match report.standing(Standing::Fails).any(is_warning) {
        true => "warning",
        false => "note",
    }
}

/// Why budgets are at risk, and whether that fails the check.
fn why_at_risk(report: &Check) -> String {
    let at_risk = || report.standing(Standing::AtRisk);
    let logs = at_risk().filter(|b| b.kind == Some("measured")).count();
    let why = match (logs, report.budgets.len()) {
        (0, 1) => "its limit is inside the band",
        (0, _) => "the limit is inside the band",
        _ if logs == report.at_risk => "the log decides neither way",
        _ => "the limit is inside the band, or the log decides neither way",
    };
    let fails = at_risk().any(|b| b.counts == Level::Error);
    format!("{why}{}", if fails { ", which fails the check" } else { "" })
}

fn line(page: &mut Page, mark: &str, budget: &BudgetView, look: Look) {
    let BudgetView { name, file, line, column, message, .. } = budget;
    let mark = if budget.holds { look.good(mark) } else { look.strong(mark) };
    let part = part(budget).map_or(String::new(), |part| format!(", {part} of the limit"));
    let level = match (budget.standing, budget.counts, budget.waived) {
        (Standing::Fails, Level::Warning, _) => ", a warning",
        (Standing::Fails, Level::Note, false) => ", a note",
        _ => "",
    };
    page.line(format!("{mark}{}  {file}:{line}:{column}{part}{level}", look.strong(name)));
    page.entry("         ", message)
}

/// The share of the limit that is used, at both ends of what is judged: `58 to 120 %`; `None` without a
/// limit.
pub(super) fn part(budget: &BudgetView) -> Option<String> {
    let (least, most) = (100.0 * budget.used?, 100.0 * budget.used_most?);
    Some(match format!("{least:.0}") == format!("{most:.0}") {
        true => format!("{most:.0} %"),
        false => format!("{least:.0} to {most:.0} %"),
    })
}

/// Writes the files that results depend on, one a line.
pub fn inputs(report: &Inputs) -> Page {
    let mut page = Page::default();
    report.inputs.iter().for_each(|input| page.line(input.file.clone()));
    page.record(report, "inputs", &["file"]);
    page
}

/// Writes the thresholds for a gate.
pub fn thresholds(report: &Thresholds) -> Page {
    let mut page = Page::default();
    let none = "none: only latency, so a rate has no meaning";
    let thresholds = Sheet::of(&report.thresholds)
        .words("budget", "budget", |t| &t.budget)
        .numbers("size", "", "size_bytes", |t| Cell::bytes(t.size_bytes))
        .words("setting", "setting", |t| t.setting.as_deref().unwrap_or(none))
        .words("expectation", "basis", |t| t.basis);
    page.table(thresholds.sheet);
    page.entry("note     ", report.note);
    page.entry("source   ", report.source);
    page
}

//! Budgets of two versions: one line per budget with its change and the cause, as a page and as the
//! comment of a pull request.

use std::io::{self, Write};

use super::check::summary::mark;
use super::counted;
use super::page::Page;
use super::sheet::Sheet;
use super::sheet::{markdown_cell, markdown_code};
use crate::answer::check::FaultView;
use crate::answer::check_diff::{BudgetDiff, CheckDiff};
use crate::plan::check::Level;

/// A GitHub comment has at most 65,536 characters.
const MOST: usize = 65_000;

/// Writes the budgets that changed, and those that fail as they did; the others are counted.
pub fn check_diff(report: &CheckDiff) -> Page {
    let mut page = Page::default();
    page.line(headline(report));
    let told = |b: &&BudgetDiff| b.is_moved() || b.counts >= Some(Level::Warning);
    let told: Vec<&BudgetDiff> = report.budgets.iter().filter(told).collect();
    if !told.is_empty() {
        page.gap();
        page.table(table(&told));
    }
    faults(&mut page, &report.faults, "");
    if !report.faults_before.is_empty() {
        page.line(format!("note: {} has faults and is not compared:", report.against));
        faults(&mut page, &report.faults_before, "  ");
    }
    page.record(report, "budgets", &["name", "unit", "old", "new", "standing", "changed", "gate"]);
    page
}

/// Writes the comment of a pull request. It begins with a hidden mark, so that it can be found and
/// replaced. Failing budgets come first; unchanged ones are folded.
///
/// # Errors
/// The writer's.
pub fn comment(out: &mut impl Write, report: &CheckDiff) -> io::Result<()> {
    let mut text = format!("<!-- collcost check -->\n### {}\n", markdown_cell(&headline(report)));
    text += &report.faults.iter().map(item).collect::<String>();
    if !report.faults_before.is_empty() {
        text += &format!("\n{} has faults and is not compared:\n", markdown_code(&report.against));
        text += &report.faults_before.iter().map(item).collect::<String>();
    }
    let mut moved = moved(report);
    moved.sort_by(|a, b| {
        let size = |d: &BudgetDiff| d.change().map_or(f64::INFINITY, |c| c.0.abs());
        b.counts.cmp(&a.counts).then(size(b).total_cmp(&size(a)))
    });
    if !moved.is_empty() {
        text += "\n| | budget | before | now | change (%) | why |\n| --- | --- | ---: | ---: | ---: | --- |\n";
    }
    let mut left = 0;
    for one in &moved {
        let line = row(one);
        match text.len() + line.len() < MOST {
            true => text += &line,
            false => left += 1,
        }
    }
    if left > 0 {
        text += &format!(
            "\n{left} more changed: {}.\n",
            markdown_code(&format!("collcost check --against {}", report.against))
        );
    }
    let still: Vec<&BudgetDiff> = report.budgets.iter().filter(|b| !b.is_moved()).collect();
    let mut fold = String::new();
    for one in &still {
        let stands = mark(one.words(), one.counts.unwrap_or(Level::None));
        let now = one.new_text.as_deref().unwrap_or("–");
        fold += &format!("| {stands} | {} | {} |\n", markdown_cell(&one.name), markdown_cell(now));
    }
    if !still.is_empty() && text.len() + fold.len() < MOST {
        let count = still.len();
        text += &format!(
            "\n<details><summary>{count} did not change</summary>\n\n| | budget | now |\n| --- | --- | ---: |\n{fold}\n</details>\n"
        );
    }
    out.write_all(text.as_bytes())
}

fn row(one: &BudgetDiff) -> String {
    let stands = mark(one.words(), one.counts.unwrap_or(Level::None));
    let text = |t: &Option<String>| markdown_cell(t.as_deref().unwrap_or("–"));
    let change = change(one);
    let (before, now) = (text(&one.old_text), text(&one.new_text));
    format!(
        "| {stands} | {} | {before} | {now} | {change} | {} |\n",
        markdown_cell(&one.name),
        markdown_cell(&one.why())
    )
}

fn moved(report: &CheckDiff) -> Vec<&BudgetDiff> {
    report.budgets.iter().filter(|b| b.is_moved()).collect()
}

/// The verdict in one line, with the largest change.
fn headline(report: &CheckDiff) -> String {
    let moved = moved(report);
    let failed = match (report.failed, report.faults.len()) {
        (0, 0) => "none fails".to_owned(),
        (_, faults @ 1..) => format!("the files have {}", counted(faults, "fault")),
        (n, _) => format!("{n} of {} fail", report.budgets.len()),
    };
    let most =
        moved.iter().filter(|d| d.change().is_some() && d.is_other_value()).max_by(|a, b| {
            let size = |d: &BudgetDiff| d.change().map_or(0.0, |c| c.0.abs());
            size(a).total_cmp(&size(b))
        });
    let most = most.map_or(String::new(), |one| {
        let text = |t: &Option<String>| t.clone().unwrap_or_default();
        let (before, now) = (text(&one.old_text), text(&one.new_text));
        format!("; largest change: {} {before} to {now}, {} %", one.name, change(one))
    });
    let gates = match moved.iter().filter(|d| !d.gate.is_empty()).count() {
        0 => String::new(),
        gates => format!(" ({gates} in limit, severity or waiver)"),
    };
    format!(
        "budgets against {}: {} of {} changed{gates}, {failed}{most}",
        report.against,
        moved.len(),
        report.budgets.len()
    )
}

fn place(fault: &FaultView) -> String {
    format!("{}:{}:{}", fault.file, fault.line, fault.column)
}

fn faults(page: &mut Page, faults: &[FaultView], indent: &str) {
    for fault in faults {
        page.line(format!("{indent}{}: {}", place(fault), fault.what));
        if let Some(help) = &fault.help {
            page.line(format!("{indent}  {help}"));
        }
    }
}

/// A fault in a comment's list.
fn item(fault: &FaultView) -> String {
    let place = markdown_code(&place(fault));
    let words = [Some(fault.what.as_str()), fault.help.as_deref()];
    let words: Vec<String> = words.into_iter().flatten().map(markdown_cell).collect();
    format!("\n- {place}: {}\n", words.join("; "))
}

fn change(one: &BudgetDiff) -> String {
    match (one.change(), &one.old_text, &one.new_text) {
        (Some(change), ..) => format!("{:+.1}", 100.0 * change.0),
        (None, None, _) => "new".to_owned(),
        (None, _, None) => "gone".to_owned(),
        _ => "–".to_owned(),
    }
}

fn table(told: &[&BudgetDiff]) -> Sheet {
    Sheet::of(told.iter().copied())
        .words("budget", "name", |b| &b.name)
        .numbers("before", "", "old", |b| b.old_text.as_deref().unwrap_or("–"))
        .numbers("now", "", "new", |b| b.new_text.as_deref().unwrap_or("–"))
        .numbers("change", "%", "change", change)
        .words("stands", "standing", BudgetDiff::words)
        .words("why", "changed", BudgetDiff::why)
        .sheet
}

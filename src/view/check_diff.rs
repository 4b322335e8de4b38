//! Budgets of two versions: a line each with its change and what was changed for it.

use super::page::Page;
use super::sheet::{Cell, Column, Sheet};
use crate::answer::check_diff::{BudgetDiff, CheckDiff};

/// A change below this is none.
const NOTHING: f64 = 5e-4;

/// Writes what moved; budgets that did not are counted.
pub fn check_diff(report: &CheckDiff) -> Page {
    let mut page = Page::default();
    let moved: Vec<&BudgetDiff> = report.budgets.iter().filter(|b| is_moved(b)).collect();
    let failed = match report.failed {
        0 => "none fails".to_owned(),
        n => format!("{n} of {} fail", report.budgets.len()),
    };
    page.line(format!(
        "budgets against {}: {} of {} moved, {failed}",
        report.against,
        moved.len(),
        report.budgets.len()
    ));
    if !moved.is_empty() {
        page.gap();
        page.table(table(&moved));
    }
    for fault in &report.faults {
        page.line(format!("{}:{}:{}: {}", fault.file, fault.line, fault.column, fault.what));
    }
    page.record(report, "budgets", &["name", "unit", "old", "new", "standing", "changed"]);
    page
}

fn is_moved(budget: &BudgetDiff) -> bool {
    match (budget.old, budget.new) {
        (Some(old), Some(new)) => {
            (new - old).abs() > NOTHING * old.abs() || !budget.changed.is_empty()
        }
        _ => true,
    }
}

fn table(moved: &[&BudgetDiff]) -> Sheet {
    let columns = vec![
        Column::words("budget", "name"),
        Column::numbers("before", "", "old"),
        Column::numbers("now", "", "new"),
        Column::numbers("change", "%", "change"),
        Column::words("stands", "standing"),
        Column::words("why", "changed"),
    ];
    let row = |b: &&BudgetDiff| {
        let change = match (b.old, b.new) {
            (Some(old), Some(new)) if old != 0.0 => format!("{:+.1}", 100.0 * (new / old - 1.0)),
            (None, _) => "new".to_owned(),
            _ => "gone".to_owned(),
        };
        let text = |t: &Option<String>| Cell::same(t.clone().unwrap_or_else(|| "–".to_owned()));
        vec![
            Cell::same(b.name.clone()),
            text(&b.old_text),
            text(&b.new_text),
            Cell::same(change),
            Cell::same(b.standing.map_or("–", |s| s.words())),
            Cell::same(b.changed.join("; ")),
        ]
    };
    Sheet { columns, rows: moved.iter().map(row).collect() }
}

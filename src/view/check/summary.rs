//! Markdown for a step summary of GitHub Actions, or a comment.

use std::io::{self, Write};

use super::table::part;
use crate::answer::check::Check;
use crate::plan::check::Level;
use crate::view::sheet::{markdown_cell, markdown_code};

pub(super) fn summary(out: &mut impl Write, report: &Check) -> io::Result<()> {
    let Check { held, at_risk, waived, warned, failed, .. } = *report;
    let others = [(at_risk, "at risk"), (waived, "waived"), (warned, "only warn")];
    let others = others.iter().filter(|(count, _)| *count > 0);
    let others: String = others.map(|(count, what)| format!(", {count} {what}")).collect();
    writeln!(out, "### Collective budgets: {held} hold{others}, {failed} fail\n")?;
    if !report.faults.is_empty() {
        writeln!(out, "| place | fault | accepted |\n| --- | --- | --- |")?;
        for fault in &report.faults {
            let place = format!("{}:{}:{}", fault.file, fault.line, fault.column);
            let help = fault.help.as_deref().unwrap_or("");
            writeln!(
                out,
                "| {} | {} | {} |",
                markdown_code(&place),
                markdown_cell(&fault.what),
                markdown_cell(help)
            )?;
        }
        return writeln!(out);
    }
    writeln!(out, "| | budget | now | of the limit | place |\n| --- | --- | --- | ---: | --- |")?;
    let mut budgets: Vec<_> = report.budgets.iter().collect();
    // Failures come first.
    budgets.sort_by_key(|b| std::cmp::Reverse((b.counts, b.standing)));
    for budget in budgets {
        let mark = mark(budget.words(), budget.counts);
        let place = format!("{}:{}", budget.file, budget.line);
        writeln!(
            out,
            "| {mark} | {} | {} | {} | {} |",
            markdown_cell(&budget.name),
            markdown_cell(&budget.message),
            part(budget).as_deref().unwrap_or("–"),
            markdown_code(&place)
        )?;
    }
    writeln!(out)
}

/// The state of a budget, the more prominent the more it matters.
pub(in crate::view) fn mark(words: &str, counts: Level) -> String {
    match counts {
        Level::Error => format!("**{words}**"),
        Level::Warning => format!("*{words}*"),
        Level::Note | Level::None => words.to_owned(),
    }
}

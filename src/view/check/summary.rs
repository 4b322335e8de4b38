//! Markdown for a step summary of GitHub Actions, or a comment.

use std::io::{self, Write};

use super::table::part;
use crate::answer::check::Check;
use crate::plan::check::Level;

pub(super) fn summary(out: &mut impl Write, report: &Check) -> io::Result<()> {
    let risk = match report.at_risk {
        0 => String::new(),
        risk => format!(", {risk} at risk"),
    };
    let risk = match report.waived {
        0 => risk,
        waived => format!("{risk}, {waived} waived"),
    };
    let (held, failed) = (report.held, report.failed);
    writeln!(out, "### Collective budgets: {held} hold{risk}, {failed} fail\n")?;
    if !report.faults.is_empty() {
        writeln!(out, "| place | fault | accepted |\n| --- | --- | --- |")?;
        for fault in &report.faults {
            let place = format!("{}:{}:{}", fault.file, fault.line, fault.column);
            let help = fault.help.as_deref().unwrap_or("");
            writeln!(out, "| `{}` | {} | {} |", cell(&place), cell(&fault.what), cell(help))?;
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
            "| {mark} | {} | {} | {} | `{}` |",
            cell(&budget.name),
            cell(&budget.message),
            part(budget),
            cell(&place)
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

/// A text that can neither end a cell nor begin markup.
pub(in crate::view) fn cell(text: &str) -> String {
    text.replace('\\', "\\\\").replace('|', "\\|").replace('\n', " ").replace('<', "&lt;")
}

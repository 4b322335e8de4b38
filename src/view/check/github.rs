//! Workflow commands of GitHub Actions, which become annotations at the line of the limit, and below
//! them the table for readers of the log.
//!
//! ```text
//! ::error file=collcost.toml,line=7,col=12,title=budget gradients::9.1 ms, limit 6 ms (max_time)
//! ```
//!
//! Source: docs.github.com, "Workflow commands for GitHub Actions"; escaping:
//! actions/toolkit, `packages/core/src/command.ts`.

use std::io::{self, Write};

use super::super::Look;
use crate::answer::check::Check;
use crate::base::format::Format;
use crate::plan::check::Level;

pub(super) fn github(out: &mut impl Write, report: &Check, look: Look) -> io::Result<()> {
    for fault in &report.faults {
        let help = fault.help.as_ref().map_or(String::new(), |m| format!("\n{m}"));
        let place = (fault.file.as_str(), fault.line, fault.column);
        annotation(out, "error", place, "budgets", &format!("{}{help}", fault.what))?;
    }
    for budget in report.budgets.iter().filter(|b| b.counts != Level::None) {
        let place = (budget.file.as_str(), budget.line, budget.column);
        let level = match budget.counts {
            Level::Error => "error",
            Level::Warning => "warning",
            Level::Note | Level::None => "notice",
        };
        annotation(out, level, place, &format!("budget {}", budget.name), &budget.message)?;
    }
    let mut table = Vec::new();
    super::table(report, look).write(&mut table, Format::Text, look)?;
    for line in String::from_utf8_lossy(&table).lines() {
        // A name in a file may contain a line break and a command of its own.
        let guard = if line.trim_start().starts_with("::") { "| " } else { "" };
        writeln!(out, "{guard}{line}")?;
    }
    Ok(())
}

fn annotation(
    out: &mut impl Write,
    level: &str,
    (file, line, column): (&str, usize, usize),
    title: &str,
    message: &str,
) -> io::Result<()> {
    let (file, title, message) = (property(super::from_root(file)), property(title), data(message));
    writeln!(out, "::{level} file={file},line={line},col={column},title={title}::{message}")
}

fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

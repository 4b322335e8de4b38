//! Budgets from a program's own tests: read a file, compare it with the model, say what fails the build.
//!
//! Run it with `cargo run --example embed_in_ci -- collcost.toml`. The command decides by the same rules, in
//! more formats: `collcost check`.

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use collcost::answer::check::{BudgetView, Check, check as report};
use collcost::machine::profile::Date;
use collcost::plan::check::{Disk, Level, Options, check};

/// The budgets of `file`, if none fails the build; the error is what the build should print. Waivers end
/// after their last day, so they need to know what day it is.
pub fn budgets(file: &str, today: Option<Date>) -> Result<Check, String> {
    let checked = check(&Disk, file, &Options { today, ..Options::default() });
    if !checked.faults.is_empty() {
        let faults: Vec<String> = checked.faults.iter().map(ToString::to_string).collect();
        return Err(faults.join("\n"));
    }
    let report = report(file, &checked, false);
    // A budget may fail and be waived, or be of level "warning": what counts is `counts`.
    let failing: Vec<String> =
        report.budgets.iter().filter(|b| b.counts == Level::Error).map(line).collect();
    if failing.is_empty() { Ok(report) } else { Err(failing.join("\n")) }
}

fn line(budget: &BudgetView) -> String {
    let BudgetView { file, line, name, message, .. } = budget;
    format!("{file}:{line}: {name} {}: {message}", budget.words())
}

/// By this computer's clock.
fn today() -> Option<Date> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    u32::try_from(since.as_secs() / 86_400).ok().map(Date::after_epoch)
}

fn main() -> ExitCode {
    let file = std::env::args().nth(1).unwrap_or_else(|| "collcost.toml".to_owned());
    match budgets(&file, today()) {
        Ok(report) => {
            report.budgets.iter().filter(|b| !b.holds).for_each(|b| println!("{}", line(b)));
            println!("{} of {} budgets hold", report.held, report.budgets.len());
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

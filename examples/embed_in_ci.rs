//! Budgets from a program's own tests: read a file, hold it against the model, say what fails.
//!
//! Run it with `cargo run --example embed_in_ci -- collcost.toml`. The command does the same, in
//! more formats: `collcost check`.

use collcost::answer;
use collcost::plan::check::{Checked, Disk, Options, Standing, check};

/// The budgets of `file`; the error is what a build should print before it fails.
pub fn budgets(file: &str) -> Result<Checked, String> {
    let checked = check(&Disk, file, &Options::default());
    if !checked.faults.is_empty() {
        let faults: Vec<String> = checked.faults.iter().map(ToString::to_string).collect();
        return Err(faults.join("\n"));
    }
    let report = answer::check::check(file, &checked, false);
    let failing: Vec<String> = report
        .standing(Standing::Fails)
        .map(|b| format!("{}:{}: {}: {}", b.file, b.line, b.name, b.message))
        .collect();
    if failing.is_empty() { Ok(checked) } else { Err(failing.join("\n")) }
}

fn main() -> std::process::ExitCode {
    let file = std::env::args().nth(1).unwrap_or_else(|| "collcost.toml".to_owned());
    match budgets(&file) {
        Ok(checked) => {
            println!("{} budgets hold", checked.outcomes.len());
            std::process::ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            std::process::ExitCode::FAILURE
        }
    }
}

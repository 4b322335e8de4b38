//! The state of budgets, for people and for the programs that gather results: one file per format.

mod github;
mod gitlab;
mod jenkins;
mod junit;
mod prometheus;
mod sarif;
pub(in crate::view) mod summary;
mod table;

use std::io::{self, Write};

use super::Look;
use crate::answer::check::Check;
use crate::base::format::Format;

pub use table::{inputs, table, thresholds};

/// A path from the root of the repository, as the programs that gather results want it.
fn from_root(file: &str) -> &str {
    file.trim_start_matches("./")
}

/// Writes a report in the format of a program that gathers results, or else like every report.
///
/// # Errors
/// The writer's.
pub fn write(out: &mut impl Write, format: Format, report: &Check, look: Look) -> io::Result<()> {
    match format {
        Format::Json => super::json(out, report),
        Format::Junit => junit::junit(out, report),
        Format::Github => github::github(out, report, look),
        Format::Summary => summary::summary(out, report),
        Format::Gitlab => gitlab::gitlab(out, report),
        Format::Jenkins => jenkins::jenkins(out, report),
        Format::Sarif => sarif::sarif(out, report),
        Format::Prometheus => prometheus::prometheus(out, report),
        _ => table(report, look).write(out, format, look),
    }
}

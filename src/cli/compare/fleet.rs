//! `compare --fleet`: compares hosts with each other.

use std::io::Write;

use collcost::answer;
use collcost::base::error::Error;
use collcost::base::format::Format;
use collcost::measure::verdict::{LEAST_HOSTS, fleet, runs};
use collcost::view;

use crate::cli::Stop;
use crate::cli::import::{Sorted, besides, left_out as refused_logs};

/// Writes which hosts are slower than the others; each host has one log. Hosts that cannot be compared make the
/// answer incomplete.
pub(super) fn hosts(
    read: Sorted,
    format: Format,
    out: &mut impl Write,
) -> std::result::Result<(), Stop> {
    let mut left_out = Vec::new();
    let runs = read.logs.iter().map(|(file, log)| (file.clone(), runs(file, log, &mut left_out)));
    let runs: Vec<_> = runs.collect();
    let found = fleet(&runs).ok_or_else(|| {
        Error::input(format!("no size was timed on at least {LEAST_HOSTS} hosts"))
            .at(format!("compare --fleet of {} logs", read.logs.len()))
            .help("give a log for each host, of the same collective, ranks, type and sizes")
    })?;
    let whole = found.alone.is_empty();
    left_out.extend(refused_logs(&read.refused));
    let report = answer::fleet::fleet(found, left_out);
    match format {
        Format::Prometheus => view::fleet::prometheus(out, &report)?,
        other => crate::cli::format::write(other, out, &report, |_| view::fleet::fleet(&report))?,
    }
    let verdict = match report.slow.is_empty() && report.wrong.is_empty() {
        false => Err(Stop::Failed),
        true if whole => Ok(()),
        true => Err(Stop::Unclear),
    };
    besides(verdict, read.refusal())
}

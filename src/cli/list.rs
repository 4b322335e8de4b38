//! `collcost list`: everything that has a name.

use std::io::Write;

use super::Stop;
use super::format::{FormatFlag, Report};
use collcost::answer::list::{PARTS, list};
use collcost::model::algorithm::Registry;
use collcost::view;

#[derive(clap::Args)]
pub(super) struct Args {
    /// What to list: machines, collectives, algorithms, libraries, policies, topics,
    /// contradictions, parameters or batch; default: all
    what: Option<String>,
    #[command(flatten)]
    format: FormatFlag<Report>,
}

impl Args {
    pub(super) fn run(self, out: &mut impl Write) -> Result<(), Stop> {
        let only = self.what.as_deref();
        let report = list(&Registry::builtin(), only)
            .map_err(|e| e.at(format!("list {}", only.unwrap_or(PARTS[0]))))?;
        self.format.write(out, &report, |_| view::list::list(&report))
    }
}

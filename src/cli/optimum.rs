//! `collcost optimum`: the best rate of a collective on a fabric.

use collcost::base::error::Result;
use collcost::machine::graph::Graph;
use collcost::plan::table::{Disk, Files as _};

/// Reads a fabric file.
pub(super) fn read_fabric(file: &str) -> Result<Graph> {
    let text = Disk.text(file).map_err(|e| e.at(format!("--fabric {file}")))?;
    Graph::parse(&text, file)
}

#[derive(clap::Args)]
pub(super) struct Args {}
impl Args {
    pub(super) fn run(self, _out: &mut impl std::io::Write) -> std::result::Result<(), super::Stop> {
        Ok(())
    }
}

//! `collcost optimum`: the best rate of a collective on a fabric.

use std::io::Write;
use std::path::Path;

use super::Stop;
use super::flags::{value, whole};
use super::format::{FormatFlag, Report};
use super::output::write_whole;
use collcost::answer::optimum::{best, schedule_of};
use collcost::base::collective::Collective;
use collcost::base::error::{Error, Result};
use collcost::base::quantity::Rate;
use collcost::machine::graph::Graph;
use collcost::plan::table::{Disk, Files as _};
use collcost::view;

#[derive(clap::Args)]
pub(super) struct Args {
    /// The collective, such as allgather
    collective: String,
    /// A fabric file (TOML or JSON): ranks, switches and links, or one of the generated kinds
    #[arg(long, visible_alias = "on", value_name = "FILE")]
    fabric: String,
    /// The rank that has or gets the data
    #[arg(long, value_name = "RANK", allow_hyphen_values = true)]
    root: Option<String>,
    /// The trees or ways that reach the rate, too
    #[arg(long)]
    trees: bool,
    /// The schedule that reaches the rate, in MSCCL's XML: for verify, trace and simulate --schedule
    #[arg(long, value_name = "FILE", requires = "trees")]
    schedule: Option<String>,
    /// Steps against rounds, for small vectors on fabrics without switches, too
    #[arg(long, conflicts_with = "trees")]
    frontier: bool,
    /// What a link carries of a chunk per round, for --frontier; without it the largest that fits
    #[arg(long, value_name = "RATE", requires = "frontier")]
    unit: Option<String>,
    #[command(flatten)]
    format: FormatFlag<Report>,
}

impl Args {
    pub(super) fn run(self, out: &mut impl Write) -> std::result::Result<(), Stop> {
        let place = |e: Error| e.at(format!("optimum {}", self.collective));
        let collective: Collective = self.collective.parse().map_err(place)?;
        let graph = read_fabric(&self.fabric)?;
        let root = whole("--root", "rank", self.root.as_ref())?;
        if root.is_some() && !collective.has_root() {
            return Err(Error::input(format!("{collective} has no root"))
                .at("--root")
                .help("leave it out")
                .into());
        }
        let root = root.unwrap_or(0);
        if root >= graph.ranks {
            return Err(Error::input(format!("there is no rank {root}"))
                .at("--root")
                .help(format!("ranks are 0 to {}", graph.ranks - 1))
                .into());
        }
        if let Some(file) = &self.schedule {
            let text = schedule_of(&graph, collective, root).map_err(place)?;
            write_whole("--schedule", Path::new(file), &text)?;
        }
        let mut report = best(&graph, collective, root, self.trees).map_err(place)?;
        if self.frontier {
            let unit: Option<Rate> = value("--unit", self.unit.as_ref())?;
            report = report.with_frontier(&graph, root, unit).map_err(place)?;
        }
        self.format.write(out, &report, |_| view::optimum::optimum(&report))
    }
}

/// Reads a fabric file.
pub(super) fn read_fabric(file: &str) -> Result<Graph> {
    let text = Disk.text(file).map_err(|e| e.at(format!("--fabric {file}")))?;
    Graph::parse(&text, file)
}

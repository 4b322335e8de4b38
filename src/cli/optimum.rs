//! `collcost optimum`: the best rate of a collective on a fabric.

use std::io::Write;
use std::path::Path;

use super::Stop;
use super::files::Here;
use super::flags::{size, value, whole};
use super::format::{FormatFlag, Report};
use super::output::write_whole;
use super::streams::say;
use collcost::answer::optimum::{best, schedule_of};
use collcost::answer::what_if::what_if;
use collcost::base::collective::Collective;
use collcost::base::error::{Error, Result};
use collcost::base::quantity::{Bytes, Rate};
use collcost::machine::graph::{Fault, Graph};
use collcost::plan::table::{Files as _, fabric};
use collcost::view;

#[derive(clap::Args)]
pub(super) struct Args {
    /// The collective, such as allgather
    collective: String,
    /// The file of the fabric: ranks, switches and links, or a generated kind (TOML, JSON); a
    /// network of ASTRA-sim or ns-3; an InfraGraph; a topology that NCCL dumped; a host from lstopo
    /// (XML)
    #[arg(long, visible_alias = "on", value_name = "FILE")]
    fabric: String,
    /// The rank that has or gets the data
    #[arg(long, value_name = "RANK", allow_hyphen_values = true)]
    root: Option<String>,
    /// Also show the trees or routes that reach the rate
    #[arg(long)]
    trees: bool,
    /// Write the trees or routes as a schedule in MSCCL XML, for --schedule of verify, trace and
    /// simulate; a vector sent in one piece takes longer than at the rate
    #[arg(long, value_name = "FILE", requires = "trees")]
    schedule: Option<String>,
    /// Also show steps against rounds, for small vectors on fabrics without switches
    #[arg(long, conflicts_with = "trees")]
    frontier: bool,
    /// Rate at which a link carries one chunk per round, for --frontier; default: the largest that
    /// fits
    #[arg(long, value_name = "RATE", requires = "frontier")]
    unit: Option<String>,
    /// Compare with a changed fabric: link=g0-nv0:0 (dead), link=g0>nv0:0.5 (one way), nic=g3:0,
    /// node=spine*:2 (twice the spines); repeatable
    #[arg(long, value_name = "KIND=WHAT:TIMES", conflicts_with = "frontier")]
    fault: Vec<String>,
    /// Also show what libraries run at this size; default with --fault: 64MiB
    #[arg(long, value_name = "SIZE", conflicts_with = "frontier")]
    size: Option<String>,
    /// Draw the fabric into this SVG file: the links of the proof, or with --trees all link loads
    #[arg(long, value_name = "FILE")]
    svg: Option<String>,
    #[command(flatten)]
    format: FormatFlag<Report>,
}

impl Args {
    pub(super) fn run(self, out: &mut impl Write) -> std::result::Result<(), Stop> {
        let place = |e: Error| e.at(format!("optimum {}", self.collective));
        let collective: Collective = self.collective.parse().map_err(place)?;
        let built = read_fabric(&self.fabric)?;
        let faults = faults(&self.fault)?;
        let graph = with_faults(&built, &faults)?;
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
            let (text, notes) = schedule_of(&graph, collective, root).map_err(place)?;
            write_whole("--schedule", Path::new(file), &text)?;
            notes.iter().for_each(|note| say(format_args!("note: {note}")));
        }
        let mut report = best(&graph, collective, root, self.trees).map_err(place)?;
        if self.frontier {
            let unit: Option<Rate> = value("--unit", self.unit.as_ref())?;
            report = report.with_frontier(&graph, root, unit).map_err(place)?;
        }
        if let Some(file) = &self.svg {
            let title = format!("{collective} on {}", graph.name);
            let about = view::optimum::summary(&report);
            let picture = view::plot::network(&graph, (&title, &about), &report.loads);
            write_whole("--svg", Path::new(file), &picture)?;
        }
        let size = size("--size", self.size.as_ref())?;
        if size.is_some() || !faults.is_empty() {
            let size = size.unwrap_or(Bytes(64 << 20));
            let found = Some(report.exact);
            let compared = what_if(&built, &faults, (collective, root), size, found);
            report.what_if = Some(compared.map_err(place)?);
        }
        self.format.write(out, &report, |_| view::optimum::optimum(&report))
    }
}

/// The faults of `--fault`, each with its text.
pub(super) fn faults(typed: &[String]) -> Result<Vec<(String, Fault)>> {
    let one = |text: &String| {
        let fault = text.parse().map_err(|e: Error| e.at(format!("--fault {text}")))?;
        Ok((text.clone(), fault))
    };
    typed.iter().map(one).collect()
}

/// A fabric with the faults of `--fault`.
pub(super) fn with_faults(built: &Graph, faults: &[(String, Fault)]) -> Result<Graph> {
    faults.iter().try_fold(built.clone(), |graph, (typed, fault)| {
        graph.with_faults(std::slice::from_ref(fault)).map_err(|e| e.at(format!("--fault {typed}")))
    })
}

/// Reads a fabric file, or one of another program.
pub(super) fn read_fabric(file: &str) -> Result<Graph> {
    fabric(&Here.text(file).map_err(|e| e.at(format!("--fabric {file}")))?, file)
}

//! `collcost nccl log`: decodes a debug log and compares it with the tuner.

use std::io::Write;

use super::super::Stop;
use super::super::flags::{count, value};
use super::super::format::{FormatFlag, Report};
use super::source;
use collcost::answer::nccl_log::{Asked, Given, NcclLog, nccl_log};
use collcost::base::error::Result;
use collcost::library::nccl::graphs_file::Graphs;
use collcost::library::nccl::{Place, Version};
use collcost::view;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  collcost nccl log nccl.log
  collcost nccl log nccl.log --nccl 2.27.3 --gpu h100
  collcost nccl log nccl.log --table 2 --format json
  collcost nccl log rank0.log --graph graphs.xml --nodes 4 --gpu h100")]
pub(super) struct Args {
    /// A log of NCCL_DEBUG=INFO; most complete with NCCL_DEBUG_SUBSYS=INIT,GRAPH,TUNING,ENV
    #[arg(value_name = "FILE")]
    file: String,
    /// NCCL's version, if the log does not name it
    #[arg(long, value_name = "VERSION")]
    nccl: Option<String>,
    /// The table to use if there are several, counted from 1
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true)]
    table: Option<String>,
    /// Number of ranks, if the log does not say it
    #[arg(short = 'n', long, visible_alias = "np", value_name = "N", allow_hyphen_values = true)]
    ranks: Option<String>,
    /// Number of nodes, if the log does not say it
    #[arg(long, value_name = "NODES", allow_hyphen_values = true)]
    nodes: Option<String>,
    /// The GPUs: h100, b200, a100, or a compute capability such as cc90
    #[arg(long, value_name = "GPU")]
    gpu: Option<String>,
    /// The processors: intel, amd, arm, power, zhaoxin, mixed
    #[arg(long, value_name = "CPU")]
    cpu: Option<String>,
    /// File of graphs from NCCL_GRAPH_DUMP_FILE, instead of the log's graphs
    #[arg(long, value_name = "FILE", conflicts_with = "comm")]
    graph: Option<String>,
    /// A known communicator such as dgx_h100_8x400g.p8.n2, or one of --comms, instead of the log's
    #[arg(long, value_name = "ID")]
    comm: Option<String>,
    /// File of communicators, one per line
    #[arg(long, value_name = "FILE", requires = "comm")]
    comms: Option<String>,
    #[command(flatten)]
    format: FormatFlag<Report>,
}

impl Args {
    pub(super) fn run(self, out: &mut impl Write) -> std::result::Result<(), Stop> {
        let report = self.report()?;
        self.format.write(out, &report, |_| view::nccl_log::nccl_log(&report))?;
        if report.differences > 0 { Err(Stop::Failed) } else { Ok(()) }
    }

    fn report(&self) -> Result<NcclLog> {
        let log = source::log(&self.file)?;
        let version = value::<Version>("--nccl", self.nccl.as_ref())?;
        // A log that contradicts itself is refused when it is read as a whole.
        let logged = log.version().ok().flatten().and_then(|at| at.what.parse().ok());
        let asked = Asked {
            told: source::told([&self.ranks, &self.nodes, &self.gpu, &self.cpu])?,
            version,
            table: count("--table", "tables", self.table.as_ref())?.map(|n| n.get() as usize),
            given: self.given(version.or(logged).unwrap_or(Version::NEWEST))?,
        };
        nccl_log(&log, &asked).map_err(|e| e.at(self.file.clone()))
    }

    fn given(&self, version: Version) -> Result<Option<Given>> {
        if let Some(file) = &self.graph {
            let graphs = Graphs::read(&source::text("--graph", file)?, file)?;
            return Ok(Some(Given::Graphs(file.clone(), graphs)));
        }
        let Some(id) = &self.comm else { return Ok(None) };
        let Some(file) = &self.comms else {
            let comm = Place::named(id).and_then(|place| place.of_release(version).communicator());
            let comm = comm.map_err(|e| e.at(format!("--comm {id}")))?;
            return Ok(Some(Given::Whole(id.clone(), Box::new(comm))));
        };
        let named = source::one_of(file, id)?;
        Ok(Some(Given::Whole(named.id, Box::new(named.comm))))
    }
}

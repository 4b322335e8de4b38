//! `--on`: a machine whose graphs are computed anew, either a known one or a topology file.

use super::super::flags::count;
use super::source::{self, EnvFlags, unless_named};
use collcost::base::error::{Error, Result};
use collcost::library::nccl::Place;
use collcost::library::nccl::described::Machine;
use collcost::library::nccl::search::Job;
use collcost::library::nccl::topology::Description;

/// The flags that name a machine, a job on it, and the job's environment.
#[derive(clap::Args)]
pub(super) struct OnFlags {
    /// A known communicator such as dgx_h100_8x400g.p8.n2, or a topology file
    #[arg(long, value_name = "MACHINE|FILE")]
    on: String,
    /// Number of nodes, if the name does not say it; default: 1
    #[arg(long, value_name = "NODES", allow_hyphen_values = true)]
    nodes: Option<String>,
    /// Ranks per node, if the name does not say it; default: all GPUs
    #[arg(long, value_name = "RANKS", allow_hyphen_values = true)]
    ppn: Option<String>,
    #[command(flatten)]
    pub(super) env: EnvFlags,
}

/// A machine to search, and a job on it.
pub(super) struct On {
    pub(super) name: String,
    pub(super) description: Description,
    pub(super) job: Job,
}

impl OnFlags {
    pub(super) fn machine(&self) -> Result<On> {
        let nodes = count("--nodes", "nodes", self.nodes.as_ref())?.map(Into::into);
        let per_node = count("--ppn", "ranks", self.ppn.as_ref())?.map(Into::into);
        let known = self.on.split('.').next().and_then(Machine::named);
        let Some(machine) = known else {
            let description = source::topology("--on", &self.on).map_err(|e| e.at(&self.on))?;
            let job = Job { nodes: nodes.unwrap_or(1), per_node };
            let ranks = description.with_gpus(per_node)?.ranks();
            let name = source::machine(&self.on, ranks as u32);
            return Ok(On { name, description, job });
        };
        let described = |place: &Place<'_>| {
            if place.search.is_some() {
                return Err(Error::input("this verb takes the releases as separate arguments")
                    .help("leave out what follows the number of nodes"));
            }
            Ok((place.per_node, place.nodes))
        };
        let at = |e: Error| e.at(format!("--on {}", self.on));
        let (named_ranks, named_nodes) = match self.on.matches('.').count() {
            0 => (None, None),
            1 => {
                let place = Place::on_nodes(&self.on, nodes.unwrap_or(1)).map_err(at)?;
                (Some(described(&place)?.0), None)
            }
            _ => {
                let place = Place::named(&self.on).map_err(at)?;
                let (ranks, nodes) = described(&place).map_err(at)?;
                (Some(ranks), Some(nodes))
            }
        };
        let job = Job {
            nodes: unless_named("--nodes", nodes, named_nodes)?.unwrap_or(1),
            per_node: unless_named("--ppn", per_node, named_ranks)?.or(Some(machine.gpus as u32)),
        };
        Ok(On { name: machine.name.to_owned(), description: machine.description(), job })
    }
}

//! `collcost nccl graph`: what NCCL's search finds on a machine.

use std::io::Write;

use super::super::Stop;
use super::super::format::{FormatFlag, OfGraphs, write};
use super::source::{self, MachineFlags};
use collcost::answer::nccl_graphs::nccl_graphs;
use collcost::base::format::Format;
use collcost::view;

#[derive(clap::Args)]
#[command(after_help = "\
The search covers one node and its NICs. For two or more nodes, their number does
not change the result. Where NICs can reduce (coll=\"1\"), the graphs for that are
shown too; they are used only with NCCL_COLLNET_ENABLE=1, which is not NCCL's
default.

Examples:
  collcost nccl graph --topo topo.xml
  collcost nccl graph --topo topo.xml --nodes 2 --nccl 2.21.5 --format xml
  collcost nccl graph --topo topo.xml --ppn 4 --nodes 2 --format csv
  collcost nccl graph --topo topo.xml --nodes 2 --env NCCL_CROSS_NIC=0")]
pub(super) struct Args {
    #[command(flatten)]
    machine: MachineFlags,
    #[command(flatten)]
    format: FormatFlag<OfGraphs>,
    /// Show the searches in order, with the limits of each and what it left open
    #[arg(long)]
    explain: bool,
}

impl Args {
    pub(super) fn run(self, out: &mut impl Write) -> Result<(), Stop> {
        let Self { machine, format, explain } = self;
        let description = source::topology("--topo", machine.file()?)?;
        let (nccl, job, mut knobs) = machine.asked()?;
        let start = knobs.start;
        if job.nodes > 1 {
            // Reductions in the network are shown, although no job uses them by default.
            knobs.start = knobs.start.or_collnet();
        }
        let mut searched = source::searched(machine.file()?, &description, nccl, job, &knobs)?;
        searched.start = start;
        let name = source::machine(machine.file()?, searched.per_node);
        let format = format.get()?;
        if format == Format::Xml {
            return Ok(view::nccl_graphs::xml(out, &searched)?);
        }
        // NCCL's log is what the text shows.
        let format = if format == Format::Log { Format::Text } else { format };
        let report = nccl_graphs(name.clone(), &searched, Vec::new());
        write(format, out, &report, |_| view::nccl_graphs::page(&name, &searched, explain))
    }
}

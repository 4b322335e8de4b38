//! `collcost nccl topo`: a machine as NCCL sees it.

use std::io::Write;

use super::super::Stop;
use super::source::{self, MachineFlags};
use collcost::library::nccl::search::picture;

#[derive(clap::Args)]
#[command(after_help = "\
As NCCL_DEBUG_SUBSYS=GRAPH prints it: nodes with their links and GB/s; then for
each GPU and each port of a NIC the paths from it, with links, GB/s and type.

Examples:
  collcost nccl topo --topo topo.xml
  collcost nccl topo --topo topo.xml --nodes 2 --nccl 2.27.3")]
pub(super) struct Args {
    #[command(flatten)]
    machine: MachineFlags,
}

impl Args {
    pub(super) fn run(self, out: &mut impl Write) -> Result<(), Stop> {
        let file = &self.machine.topo;
        let description = source::topology(file)?;
        let (nccl, job, knobs) = self.machine.asked()?;
        let lines = picture(&description, nccl, job, &knobs).map_err(|error| error.at(file))?;
        for line in lines {
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

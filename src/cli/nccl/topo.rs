//! `collcost nccl topo`: a machine as NCCL sees it, or a cloud's file completed to one.

use std::io::Write;

use super::super::Stop;
use super::super::flags::value;
use super::super::streams::say;
use super::source::{self, MachineFlags};
use collcost::library::nccl::Processor;
use collcost::library::nccl::search::picture;
use collcost::library::nccl::topology_merge::{Gpus, Machine, Nics, lint, merge};

#[derive(clap::Args)]
#[command(after_help = "\
Prints what NCCL_DEBUG_SUBSYS=GRAPH prints: nodes with their links and GB/s; then,
for each GPU and each port of a NIC, the paths from it, with links, GB/s and type.

Clouds publish files without GPUs, NVLinks and ports, which NCCL detects on the
machine. --merge writes such a file as a machine with these GPUs and NICs would dump
it. Standard error shows what NCCL does with the original file.

Examples:
  collcost nccl topo --topo topo.xml
  collcost nccl topo --topo topo.xml --nodes 2 --nccl 2.27.3
  collcost nccl topo --merge ndv5-topo.xml --gpus h100:8 --nics 8x400 > machine.xml")]
pub(super) struct Args {
    /// The file to complete, without GPUs, NVLinks or ports
    #[arg(long, value_name = "FILE", conflicts_with = "topo")]
    merge: Option<String>,
    /// The kind and number of GPUs per node for --merge, such as h100:8
    #[arg(long, value_name = "KIND:N", requires = "merge")]
    gpus: Option<String>,
    /// The number of ports per node and their Gb/s for --merge, such as 8x400
    #[arg(long, value_name = "NxGBPS", requires = "merge")]
    nics: Option<String>,
    /// The processors for --merge, if the file does not name them: intel, amd, arm
    #[arg(long, value_name = "CPU", requires = "merge")]
    cpu: Option<String>,
    #[command(flatten)]
    machine: MachineFlags,
}

impl Args {
    pub(super) fn run(self, out: &mut impl Write) -> Result<(), Stop> {
        if let Some(file) = &self.merge {
            return self.merged(out, file);
        }
        let file = self.machine.file()?;
        let description = source::topology("--topo", file)?;
        let (nccl, job, knobs) = self.machine.asked()?;
        let lines = picture(&description, nccl, job, &knobs).map_err(|error| error.at(file))?;
        for line in lines {
            writeln!(out, "{}", line.trim_end())?;
        }
        notes(&lint(&source::text("--topo", file)?, file)?);
        Ok(())
    }

    fn merged(&self, out: &mut impl Write, file: &str) -> Result<(), Stop> {
        let (nccl, ..) = self.machine.asked()?;
        let machine = Machine {
            gpus: value::<Gpus>("--gpus", self.gpus.as_ref())?,
            nics: value::<Nics>("--nics", self.nics.as_ref())?,
            processor: value::<Processor>("--cpu", self.cpu.as_ref())?,
        };
        let merged = merge(&source::text("--merge", file)?, file, &machine, nccl)?;
        out.write_all(merged.xml.as_bytes())?;
        notes(&merged.notes);
        Ok(())
    }
}

fn notes(notes: &[String]) {
    for note in notes {
        say(format_args!("note: {note}"));
    }
}

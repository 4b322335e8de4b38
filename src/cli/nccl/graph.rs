//! `collcost nccl graph`: what NCCL's search finds on a machine.

use std::io::Write;

use super::super::Stop;
use super::source::{self, MachineFlags};
use collcost::answer::nccl_graphs::nccl_graphs;
use collcost::library::nccl::Asked;
use collcost::view;

#[derive(clap::Args)]
#[command(after_help = "\
The search looks at one node and its NICs; from two nodes on their number does
not change what it finds.

Examples:
  collcost nccl graph --topo topo.xml
  collcost nccl graph --topo topo.xml --nodes 2 --nccl 2.21.5 --format xml
  collcost nccl graph --topo topo.xml --ppn 4 --nodes 2 --format csv
  collcost nccl graph --topo topo.xml --nodes 2 --env NCCL_CROSS_NIC=0")]
pub(super) struct Args {
    #[command(flatten)]
    machine: MachineFlags,
    /// text, as NCCL_DEBUG_SUBSYS=GRAPH prints it, xml, as NCCL_GRAPH_DUMP_FILE has it, csv or json
    #[arg(long, value_name = "FORMAT", default_value = "text", hide_default_value = true)]
    format: Format,
    /// The searches one after another, with what each was held to and what it left
    #[arg(long)]
    explain: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    #[value(alias = "table", alias = "log")]
    Text,
    Xml,
    Csv,
    Json,
}

impl Args {
    pub(super) fn run(self, out: &mut impl Write) -> Result<(), Stop> {
        let Self { machine, format, explain } = self;
        let description = source::topology(&machine.topo)?;
        let (nccl, job, knobs) = machine.asked()?;
        let searched = source::searched(&machine.topo, &description, nccl.rules, job, &knobs)?;
        let name = source::machine(&machine.topo, searched.per_node);
        match format {
            Format::Text => {
                view::nccl_graphs::log(out, &searched)?;
                if explain {
                    writeln!(out)?;
                    view::nccl_graphs::attempts(&searched).text(out)?;
                }
            }
            Format::Xml => view::nccl_graphs::xml(out, &searched)?,
            Format::Csv => view::nccl_graphs::csv(out, &name, &searched)?,
            Format::Json => {
                let notes = nccl.note().into_iter().collect();
                return Ok(view::json(out, &nccl_graphs(name, &searched, notes))?);
            }
        }
        noted(nccl);
        Ok(())
    }
}

/// Says on standard error what the layouts have no place for.
pub(super) fn noted(nccl: Asked) {
    if let Some(note) = nccl.note() {
        eprintln!("note: {note}");
    }
}

//! `collcost nccl`: the decisions of NCCL's tuner, one by one.

mod choose;
mod diff;
mod graph;
mod log;
mod on;
mod replay;
mod source;
mod table;
mod topo;
mod whatif;

use std::io::Write;

use super::Stop;

#[derive(clap::Args)]
#[command(
    subcommand_value_name = "VERB",
    subcommand_help_heading = "Verbs",
    after_help = "\
Examples:
  collcost nccl choose allreduce --comm dgx_h100_8x400g.p8.n2
  collcost nccl table --comm dgx_h100_8x400g.p8.n2
  collcost nccl table --comms graphs.csv --nccl 2.27.3 --format csv
  collcost nccl log nccl.log --gpu h100
  collcost nccl graph --topo topo.xml --nodes 2
  collcost nccl diff 2.21.5 torch-2.9 --on dgx_h100_8x400g.p8.n2
  collcost nccl whatif allreduce 64MiB --on dgx_h100_8x400g.p8.n2
  collcost nccl replay --comms graphs.csv --envs envs.csv < questions.csv"
)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Show what NCCL chooses at each size, and why
    Choose(choose::Args),
    /// Show the latency and bandwidth of every function, algorithm and protocol
    Table(table::Args),
    /// Decode a debug log, and compare it with the tuner
    Log(log::Args),
    /// Show the graphs that NCCL's search finds on a machine
    Graph(graph::Args),
    /// Show a machine as NCCL sees it: nodes, links and paths
    Topo(topo::Args),
    /// Compare two releases on a machine: channels, graphs, choices
    Diff(diff::Args),
    /// Show what each NCCL variable would change on a machine, greatest gain first
    Whatif(whatif::Args),
    /// Read questions as a table from standard input, write NCCL's decisions as a table
    Replay(replay::Args),
}

impl Args {
    /// Whether answers come for as long as there are questions.
    pub(super) fn streams(&self) -> bool {
        matches!(self.verb, Verb::Replay(_))
    }

    pub(super) fn run(self, out: &mut impl Write) -> Result<(), Stop> {
        match self.verb {
            Verb::Choose(args) => args.run(out),
            Verb::Table(args) => args.run(out),
            Verb::Log(args) => args.run(out),
            Verb::Graph(args) => args.run(out),
            Verb::Topo(args) => args.run(out),
            Verb::Diff(args) => args.run(out),
            Verb::Whatif(args) => args.run(out),
            Verb::Replay(args) => args.run(out),
        }
    }
}

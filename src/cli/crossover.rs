//! `collcost crossover`: where the better of two algorithms changes.

use std::io::Write;

use super::Stop;
use super::cost::Format;
use super::flags::{MachineFlags, ParamFlags, RankFlags, query};
use collcost::algorithm::Registry;
use collcost::collective::Collective;
use collcost::error::Error;
use collcost::quantity::Bytes;
use collcost::render;
use collcost::report;

#[derive(clap::Args)]
pub(super) struct Args {
    /// The collective, such as allreduce
    collective: String,
    /// One algorithm
    a: String,
    /// The other
    b: String,
    /// table or json
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: Format,
    #[command(flatten)]
    ranks: RankFlags,
    #[command(flatten)]
    machine: MachineFlags,
    #[command(flatten)]
    params: ParamFlags,
}

impl Args {
    pub(super) fn run(self, out: &mut impl Write) -> Result<(), Stop> {
        let collective: Collective = self
            .collective
            .parse()
            .map_err(|e: Error| e.at(format!("crossover {}", self.collective)))?;
        let query = query(collective, Bytes(0), &self.ranks, &self.machine, &self.params)?;
        let report = report::crossover(&Registry::builtin(), &query, &self.a, &self.b)
            .map_err(|e| e.at(format!("crossover {} {} {}", self.collective, self.a, self.b)))?;
        match self.format {
            Format::Table => render::table::crossover(out, &report)?,
            Format::Json => render::json(out, &report)?,
        }
        Ok(())
    }
}

//! `collcost <collective>`: every algorithm, priced.

use std::io::Write;

use super::Stop;
use super::flags::{MachineFlags, ParamFlags, RankFlags, query, value};
use collcost::algorithm::Registry;
use collcost::collective::Collective;
use collcost::error::Error;
use collcost::quantity::{Bytes, dtype_bytes};
use collcost::render;
use collcost::report;
use collcost::size_is::SizeIs;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Bytes as nccl-tests counts them: 16MiB, 16MB, 4096, 7B@bf16
    #[arg(value_name = "SIZE", conflicts_with = "size", allow_hyphen_values = true)]
    at: Option<String>,
    /// The same as an option
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    size: Option<String>,
    /// What the size counts: total, per-rank or per-peer
    #[arg(long, value_name = "WHAT")]
    size_is: Option<String>,
    /// Only this algorithm
    #[arg(long, visible_alias = "algo", value_name = "NAME")]
    algorithm: Option<String>,
    /// Count whole elements of this data type in messages that do not divide
    #[arg(long, value_name = "DTYPE")]
    elements: Option<String>,
    /// All algorithms, and why the others do not apply
    #[arg(long)]
    all: bool,
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

/// How an answer is written.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// For people.
    Table,
    /// For programs.
    Json,
}

impl Args {
    pub(super) fn run(self, collective: Collective, out: &mut impl Write) -> Result<(), Stop> {
        let size = match (&self.size, &self.at) {
            (Some(size), _) => value("--size", Some(size))?,
            (None, at) => value("", at.as_ref())?,
        };
        let size = match (size, collective) {
            (Some(size), _) => size,
            (None, Collective::Barrier) => Bytes(0),
            (None, _) => {
                return Err(Error::input("how many bytes?")
                    .at(format!("collcost {}", collective.id()))
                    .mend("give --size, such as 16MiB")
                    .into());
            }
        };
        let mut query = query(collective, size, &self.ranks, &self.machine, &self.params)?;
        let counts: SizeIs = value("--size-is", self.size_is.as_ref())?.unwrap_or_default();
        query.size = counts.total(collective, query.shape.ranks, size).map_err(|e| {
            e.at(format!("--size-is {}", self.size_is.as_deref().unwrap_or("total")))
        })?;
        query.element = match &self.elements {
            Some(name) => Some(dtype_bytes(name).map_err(|e| e.at(format!("--elements {name}")))?),
            None => None,
        };
        let name = self.algorithm.as_deref();
        let report = report::cost(&Registry::builtin(), &query, name).map_err(|e| match name {
            Some(name) => e.at(format!("--algorithm {name}, {} ranks", query.shape.ranks)),
            None => e,
        })?;
        match self.format {
            Format::Table => render::table::cost(out, &report, self.all)?,
            Format::Json => render::json(out, &report)?,
        }
        Ok(())
    }
}

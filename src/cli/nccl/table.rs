//! `collcost nccl table`: the tuner's table of a communicator, or of many as CSV.

use std::io::Write;

use super::super::Stop;
use super::super::flags::value;
use super::source::{self, SourceFlags};
use collcost::answer::batch::nccl::write_tables;
use collcost::base::error::Error;
use collcost::library::nccl::comms::Named;
use collcost::library::nccl::{Asked, Settings, Table, Version};
use collcost::view;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  collcost nccl table --comm dgx_h100_8x400g.p8.n2
  collcost nccl table --comm dgx_h100_8x400g.p8.n2 --nccl 2.21.5 --env NCCL_PROTO=^LL128
  collcost nccl table --comms graphs.csv --nccl 2.27.3 --format csv
  collcost nccl table --comms graphs.csv --envs envs.csv --format csv")]
pub(super) struct Args {
    #[command(flatten)]
    source: SourceFlags,
    /// Environments with the columns env and settings, for CSV
    #[arg(long, value_name = "FILE", conflicts_with = "set")]
    envs: Option<String>,
    /// log, as NCCL_DEBUG_SUBSYS=TUNING prints it, or csv with every figure in full
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    #[value(alias = "table", alias = "text")]
    Log,
    Csv,
}

impl Args {
    pub(super) fn run(self, out: &mut impl Write) -> Result<(), Stop> {
        if let (Some(file), false) = (&self.source.comms, self.source.names_one()) {
            if self.format == Some(Format::Log) {
                return Err(Error::input("a log holds the table of one communicator")
                    .at(format!("--comms {file} --format log"))
                    .mend("name one with --comm, or write --format csv")
                    .into());
            }
            return self.all(out, &source::comms(file)?);
        }
        let source = self.source.source()?;
        if self.format == Some(Format::Csv) {
            let named = Named { id: source.name, comm: source.comm };
            let envs = match &self.envs {
                Some(file) => source::envs(file)?,
                None => vec![(String::new(), source.settings)],
            };
            write_tables(out, &[named], &[source.nccl.rules], &envs)?;
            return Ok(());
        }
        let version = source.nccl.rules;
        let table = Table::new(&source.comm, version, &source.settings)?;
        view::nccl_table::table(out, &table, version, "")?;
        for note in source.notes.into_iter().chain(source.nccl.note()) {
            eprintln!("note: {note}");
        }
        Ok(())
    }

    /// Every communicator of a file, in every environment, under one version or all.
    fn all(&self, out: &mut impl Write, comms: &[Named]) -> Result<(), Stop> {
        let envs = match &self.envs {
            Some(file) => source::envs(file)?,
            None => vec![(String::new(), self.source.env.settings(Settings::default())?)],
        };
        let asked = value::<Asked>("--nccl", self.source.nccl.as_ref())?;
        let one = asked.map(|asked| vec![asked.rules]);
        let versions = one.unwrap_or_else(|| Version::ALL.to_vec());
        write_tables(out, comms, &versions, &envs)?;
        Ok(())
    }
}

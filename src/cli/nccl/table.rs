//! `collcost nccl table`: the tuner's table for a communicator, or for many as CSV.

use std::io::Write;

use super::super::Stop;
use super::super::flags::value;
use super::super::format::{FormatFlag, OfTables, write};
use super::super::streams::say;
use super::source::{self, SourceFlags};
use collcost::answer::batch::nccl::write_tables;
use collcost::answer::nccl_tables::nccl_tables;
use collcost::base::error::Error;
use collcost::base::format::Format;
use collcost::library::nccl::comms::Named;
use collcost::library::nccl::{Settings, Table, Version};
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
    /// File of environments with columns env,settings; only for CSV
    #[arg(long, value_name = "FILE", conflicts_with = "set")]
    envs: Option<String>,
    #[command(flatten)]
    format: FormatFlag<OfTables>,
}

impl Args {
    pub(super) fn run(self, out: &mut impl Write) -> Result<(), Stop> {
        if let Some(file) = self.source.table()? {
            return self.all(out, file, &source::comms(file)?);
        }
        let source = self.source.source()?;
        let version = source.nccl;
        let named = [Named { id: source.name, comm: source.comm }];
        let format = self.format.get()?;
        if format == Format::Csv {
            let envs = match &self.envs {
                Some(file) => source::envs(file)?,
                None => vec![(String::new(), source.settings)],
            };
            return Ok(write_tables(out, &named, &[version], &envs)?);
        }
        let table = Table::new(&named[0].comm, version, &source.settings)?;
        let envs = [(String::new(), source.settings)];
        let report = nccl_tables(&named, &[version], &envs, source.notes);
        let format = if format == Format::Log { Format::Text } else { format };
        // The other formats have no place for notes.
        for note in report.notes.iter().filter(|_| format != Format::Json) {
            say(format_args!("note: {note}"));
        }
        let page = |look| view::nccl_table::page(&report, Some((&table, version)), look);
        write(format, out, &report, page)
    }

    /// Every communicator of a file, in every environment, under one version or all.
    fn all(&self, out: &mut impl Write, file: &str, comms: &[Named]) -> Result<(), Stop> {
        let format = self.format.typed().unwrap_or(Format::Csv);
        if matches!(format, Format::Log | Format::Text) {
            return Err(Error::input("a log holds the table of one communicator")
                .at(format!("--comms {file} --format {}", format.id()))
                .help("name one with --comm, or write --format csv")
                .into());
        }
        let envs = match &self.envs {
            Some(file) => source::envs(file)?,
            None => vec![(String::new(), self.source.env.settings(Settings::default())?)],
        };
        let asked = value::<Version>("--nccl", self.source.nccl.as_ref())?;
        let one = asked.map(|version| vec![version]);
        let versions = one.unwrap_or_else(|| Version::ALL.to_vec());
        if format == Format::Csv {
            return Ok(write_tables(out, comms, &versions, &envs)?);
        }
        let report = nccl_tables(comms, &versions, &envs, Vec::new());
        write(format, out, &report, |look| view::nccl_table::page(&report, None, look))
    }
}

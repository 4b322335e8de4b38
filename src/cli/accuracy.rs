//! `collcost accuracy`: how far every model is off on measurements that it did not see.

use std::io::Write;

use super::Stop;
use super::fit::short;
use super::import::log;
use super::terminal::look;
use collcost::error::{Error, Result};
use collcost::import::logs::{Asked, Imported};
use collcost::{accuracy, render, report};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  collcost accuracy measured/*.csv
  collcost accuracy mine.csv theirs.log --format json

Reads what import reads. Each collective of each table is split: every second size, the largest,
middle and smallest number of ranks, all but three sizes, and the whole table by a relative's fit.")]
pub(super) struct Args {
    /// Measurements: CSV or logs, as import reads them
    #[arg(value_name = "DATA", required = true)]
    files: Vec<String>,
    /// table, markdown, csv or json
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "table",
        hide_default_value = true,
        hide_possible_values = true
    )]
    format: Format,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    Table,
    Markdown,
    Csv,
    Json,
}

impl Args {
    pub(super) fn run(self, out: &mut impl Write) -> std::result::Result<(), Stop> {
        let (mut logs, mut files, mut refused) = (Vec::<Imported>::new(), Vec::new(), Vec::new());
        for file in &self.files {
            let read: Result<Imported> = log(file, &Asked::default());
            match read.and_then(|log| log.usable().map(|()| log)) {
                Ok(log) => {
                    logs.push(log);
                    files.push(short(file));
                }
                Err(why) => refused.push((short(file), why)),
            }
        }
        if let (true, [(_, why), ..]) = (logs.is_empty(), refused.as_slice()) {
            return Err(why.clone().into());
        }
        let scores = accuracy::accuracy(&logs);
        if scores.is_empty() {
            return Err(Error::input("nothing can be held out: too few sizes and ranks")
                .at(self.files.join(", "))
                .mend("give times of a collective at four sizes, or on three numbers of ranks")
                .into());
        }
        let left_out =
            refused.iter().map(|(file, why)| format!("{file}: {}", why.what())).collect();
        let report = report::accuracy::accuracy(&scores, files, left_out);
        match self.format {
            Format::Table => render::accuracy::accuracy(out, &report, look())?,
            Format::Markdown => render::accuracy::sheet(&report).markdown(out)?,
            Format::Csv => render::accuracy::sheet(&report).csv(out)?,
            Format::Json => render::json(out, &report)?,
        }
        out.flush()?;
        Ok(())
    }
}

//! `collcost import`: logs of benchmarks as one kind of measurements.

use std::io::Write;

use super::Stop;
use super::fit::TOOL;
use super::flags::{count, value};
use super::format::{FormatFlag, OfLogs};
use super::input;
use super::profiles::today;
use collcost::Collective;
use collcost::answer::import as report;
use collcost::base::error::{Error, Result};
use collcost::base::format::Format;
use collcost::machine::sample::{Header, LaunchRecord, Record, Writer};
use collcost::measure::logs::{self, Asked, Imported};
use collcost::view;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  collcost import all_reduce.log
  collcost import osu_*.txt --n 64 --to csv > measured.csv
  collcost import rows-only.txt --collective reducescatter --n 8
  mpirun -np 8 all_reduce_perf -b 8 -e 8G -f 2 | collcost import -
  collcost import pingpong.txt --to jsonl > run.jsonl && collcost fit run.jsonl

Reads nccl-tests and rccl-tests (text and -J), OSU, Intel's MPI benchmarks, perftest,
nccom-test and CSV, also with gzip; - is standard input.")]
pub(super) struct Args {
    /// Logs, in any of the formats
    #[arg(value_name = "FILE", required = true)]
    files: Vec<String>,
    /// Ranks, where a log does not say them
    #[arg(short, long, visible_aliases = ["ranks", "np"], value_name = "N", allow_hyphen_values = true)]
    n: Option<String>,
    /// The collective, where a log does not say it
    #[arg(long, value_name = "COLLECTIVE")]
    collective: Option<String>,
    #[command(flatten)]
    format: FormatFlag<OfLogs>,
}

impl Args {
    pub(super) fn run(self, out: &mut impl Write) -> std::result::Result<(), Stop> {
        let asked = Asked {
            ranks: count("--n", "ranks", self.n.as_ref())?.map(Into::into),
            collective: value::<Collective>("--collective", self.collective.as_ref())?,
        };
        let read: Vec<(String, Result<Imported>)> =
            self.files.iter().map(|file| (file.clone(), log(file, &asked))).collect();
        match self.format.get()? {
            // Rows are written one by one: a log may have millions.
            Format::Csv => {
                let logs = read.iter().filter_map(|(_, log)| log.as_ref().ok());
                view::import::csv(out, logs.flat_map(report::measurements))?;
            }
            Format::Jsonl => samples(out, &read)?,
            _ => {
                let report = report::import(&read);
                self.format.write(out, &report, |_| view::import::import(&report))?;
            }
        }
        out.flush()?;
        refused(read).map_or(Ok(()), |error| Err(Stop::Refused(error)))
    }
}

/// Why files were refused, if any was: the whole reason of the first.
fn refused(read: Vec<(String, Result<Imported>)>) -> Option<Error> {
    let all = read.len();
    let errors = read.into_iter().filter_map(|(_, log)| log.and_then(|log| log.usable()).err());
    let errors: Vec<Error> = errors.collect();
    let first = errors.first()?.clone();
    Some(match errors.len() {
        1 => first,
        n => {
            let mut lines = first.to_string().lines().map(str::trim).collect::<Vec<_>>().join("; ");
            lines.insert_str(0, &format!("{n} of {all} logs are refused; the first: "));
            Error::input(lines)
        }
    })
}

/// Reads a file, unpacked where it is gzip.
pub(super) fn log(file: &str, asked: &Asked) -> Result<Imported> {
    logs::look(input::log(file)?, file, asked)
}

/// Writes all logs as one file of samples.
fn samples(
    out: &mut impl Write,
    read: &[(String, Result<Imported>)],
) -> std::result::Result<(), Stop> {
    let logs = || read.iter().filter_map(|(_, log)| log.as_ref().ok());
    let ranks = logs().flat_map(|log| &log.tables).filter_map(|t| t.ranks).max();
    let files: Vec<String> = read.iter().map(|(file, _)| super::fit::short(file)).collect();
    let mut writer = Writer::new(out);
    writer.write(&Record::Header(Header {
        run: "import".to_owned(),
        command: format!("collcost import {}", files.join(" ")),
        tool: TOOL.to_owned(),
        date: today().map_or(String::new(), |d| d.to_string()),
        ranks: ranks.unwrap_or(0),
        library: logs::libraries(logs()),
        // Imports of several calls may be put into one file.
        plan_hash: "import".to_owned(),
        ..Header::default()
    }))?;
    let mut first = 0;
    for log in logs() {
        let samples = log.samples();
        let mut last = None;
        for mut block in samples.blocks {
            block.launch += first;
            if last != Some(block.launch) {
                last = Some(block.launch);
                let launch = LaunchRecord { launch: block.launch, ..LaunchRecord::default() };
                writer.write(&Record::Launch(launch))?;
            }
            writer.write(&Record::Block(block))?;
        }
        first += log.tables.len() as u32;
    }
    Ok(())
}

//! `collcost import`: reads logs of benchmarks and traces of jobs into one form of measurements.

use std::io::Write;

use super::Stop;
use super::fit::TOOL;
use super::flags::{count, value};
use super::format::{FormatFlag, OfLogs};
use super::input;
use super::named::apart;
use super::profiles::today;
use super::streams::say;
use collcost::Collective;
use collcost::answer::import as report;
use collcost::base::error::{Error, Result};
use collcost::base::format::Format;
use collcost::machine::sample::{Header, IMPORT, LaunchRecord, Record, Samples, Writer};
use collcost::measure::logs::{self, Asked, Imported, Trace};
use collcost::view;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  collcost import all_reduce.log
  collcost import osu_*.txt --n 64 --to csv > measured.csv
  collcost import rows-only.txt --collective reducescatter --n 8
  mpirun -np 8 all_reduce_perf -b 8 -e 8G -f 2 | collcost import -
  collcost import trace_rank*.json --to csv
  collcost import pingpong.txt --to jsonl > run.jsonl && collcost fit run.jsonl

Reads nccl-tests and rccl-tests (text, -J, and -Z json or csv), OSU, Intel's MPI benchmarks,
perftest, nccom-test, oneCCL, mscclpp-test, NVSHMEM, HCCL, Gloo, PARAM, all_reduce_bench.py,
DeepSpeed's comms logger, aiconfigurator's tables, the benchmarks of all-reduces of vLLM,
SGLang, TensorRT-LLM and FlashInfer, and CSV;
and traces of jobs: NCCL's and RCCL's Inspector (JSON),
torch.profiler (Kineto), PyTorch's flight recorder (pickle, which is not run, and JSON),
Nsight Systems (sqlite). All but databases may be gzipped; - is standard input.
Give the traces of all ranks at once, so that each call can be matched across ranks.")]
pub(super) struct Args {
    /// Logs and traces, in any of the formats below
    #[arg(value_name = "FILE", required = true)]
    files: Vec<String>,
    /// Number of ranks, for logs that do not say it
    #[arg(short, long, visible_aliases = ["ranks", "np"], value_name = "N", allow_hyphen_values = true)]
    n: Option<String>,
    /// The collective of nccl-tests' rows, where neither a heading nor a command names it
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
            ..Asked::default()
        };
        let read = logs(&self.files, &asked);
        let format = self.format.get()?;
        if matches!(format, Format::Csv | Format::Jsonl) {
            // What is not a row is reported on standard error.
            for note in report::notes(&report::import(&read)) {
                say(format_args!("note: {note}"));
            }
        }
        match format {
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
        let all = read.len();
        let errors = read.into_iter().filter_map(|(_, log)| log.and_then(|log| log.usable()).err());
        besides(Ok(()), refusal(&errors.collect::<Vec<_>>(), all))
    }
}

/// Why logs of `all` were refused, if any were: the full reason of the first one.
pub(super) fn refusal(errors: &[Error], all: usize) -> Option<Error> {
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

/// The end of a command whose answer is written, though some of its logs were refused: only success
/// becomes an error.
pub(super) fn besides(
    done: std::result::Result<(), Stop>,
    refused: Option<Error>,
) -> std::result::Result<(), Stop> {
    match (done, refused) {
        (Ok(()), Some(error)) => Err(Stop::Refused(error)),
        (done, Some(error)) => {
            say(format_args!("note: {error}"));
            done
        }
        (done, None) => done,
    }
}

/// What a report says of files that are refused.
pub(super) fn left_out(refused: &[(String, Error)]) -> Vec<String> {
    refused.iter().map(|(file, error)| format!("{file}: {}", error.what())).collect()
}

/// Logs that can be used, and the reasons why others cannot.
pub(super) struct Sorted {
    /// The logs, with the names of their files.
    pub(super) logs: Vec<(String, Imported)>,
    /// For each file that is refused, its name and the reason.
    pub(super) refused: Vec<(String, Error)>,
}

impl Sorted {
    /// Reads files as [`logs`] does.
    pub(super) fn read(files: &[String], asked: &Asked) -> Self {
        let mut sorted = Self { logs: Vec::new(), refused: Vec::new() };
        let (files, read): (Vec<String>, Vec<_>) = logs(files, asked).into_iter().unzip();
        for (name, read) in apart(&files).into_iter().zip(read) {
            // A recorder without times still tells the order of calls.
            let usable = read
                .and_then(|log| if log.is_trace() { Ok(log) } else { log.usable().map(|()| log) });
            match usable {
                Ok(log) => sorted.logs.push((name, log)),
                Err(error) => sorted.refused.push((name, error)),
            }
        }
        sorted
    }

    /// Why files are refused, if any are.
    pub(super) fn refusal(&self) -> Option<Error> {
        let errors: Vec<Error> = self.refused.iter().map(|(_, error)| error.clone()).collect();
        refusal(&errors, self.logs.len() + errors.len())
    }

    /// An error if there is no log.
    pub(super) fn some(self) -> Result<Self> {
        match self.refusal() {
            Some(error) if self.logs.is_empty() => Err(error),
            _ => Ok(self),
        }
    }
}

/// Reads a file, unpacked where it is gzip.
pub(super) fn log(file: &str, asked: &Asked) -> Result<Imported> {
    logs::look_at(input::trace(file)?, file, asked)
}

/// Reads files, each unpacked if it is gzip. Traces of one format belong to one job and are merged.
pub(super) fn logs(files: &[String], asked: &Asked) -> Vec<(String, Result<Imported>)> {
    let mut read = Vec::new();
    let mut traces: Vec<(usize, Trace)> = Vec::new();
    for file in files {
        let mut one = || -> Result<Option<Imported>> {
            let mut input = input::trace(file)?;
            let Some(format) = logs::format_of(&mut input, file)? else {
                return logs::look_at(input, file, asked).map(Some);
            };
            let known = traces.iter().position(|(_, trace)| trace.format() == format.id);
            let at = known.unwrap_or_else(|| {
                traces.push((read.len() + traces.len(), Trace::new(format, asked)));
                traces.len() - 1
            });
            traces[at].1.add(input, file).map(|()| None)
        };
        match one() {
            Ok(None) => {}
            Ok(Some(log)) => read.push((file.clone(), Ok(log))),
            Err(error) => read.push((file.clone(), Err(error))),
        }
    }
    for (at, trace) in traces.into_iter().filter(|(_, trace)| trace.has_files()) {
        let log = trace.finish(asked);
        read.insert(at.min(read.len()), (log.file.clone(), Ok(log)));
    }
    read
}

/// Writes all logs as one file of samples.
fn samples(
    out: &mut impl Write,
    read: &[(String, Result<Imported>)],
) -> std::result::Result<(), Stop> {
    let logs = || read.iter().filter_map(|(_, log)| log.as_ref().ok());
    let ranks = logs().flat_map(|log| &log.tables).filter_map(|t| t.ranks).max();
    let files: Vec<String> = read.iter().map(|(file, _)| file.clone()).collect();
    let files = apart(&files);
    logs::of_one_library(logs()).map_err(|e| e.at(files.join(", ")))?;
    let usable =
        read.iter().zip(&files).filter_map(|((_, log), file)| Some((file, log.as_ref().ok()?)));
    let each: Vec<_> = usable.map(|(file, log)| (file, log, log.samples())).collect();
    let about = |(file, _, samples): &(&String, &Imported, Samples)| {
        samples.notes.iter().map(move |note| format!("{file}: {note}")).collect::<Vec<_>>()
    };
    let mut writer = Writer::new(out);
    writer.write(&Record::Header(Header {
        run: IMPORT.to_owned(),
        command: format!("collcost import {}", files.join(" ")),
        tool: TOOL.to_owned(),
        date: today().map_or(String::new(), |d| d.to_string()),
        ranks: ranks.unwrap_or(0),
        library: logs::libraries(logs()),
        // The output of several imports may be put into one file.
        plan_hash: "import".to_owned(),
        notes: each.iter().flat_map(about).collect(),
        ..Header::default()
    }))?;
    let mut first = 0;
    for (_, log, samples) in each {
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

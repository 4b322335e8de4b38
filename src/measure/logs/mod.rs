//! Logs of collective benchmarks, one file per format ([`FORMATS`]), and traces of jobs ([`TRACES`]).
//!
//! A log is read line by line in bounded memory. Every line goes to the format whose table is open, then
//! to the others, which recognise their headings. Unknown lines are ignored, as logs also contain lines of
//! launchers and libraries. Several tables in a file are kept separate.
//!
//! Only complete rows are used: a row that is cut off or contradicts itself is left out and reported with
//! its line, never repaired. What a log does not state, above all the number of ranks, is inferred only if
//! one answer is possible; otherwise the user is asked ([`Asked`]).
//!
//! Sizes are converted to nccl-tests' M ([`Collective`]); every format states what its sizes count.

mod aiconfigurator;
mod all_reduce_bench;
mod deepspeed;
mod draft;
mod evidence;
mod field;
mod flashinfer_bench;
mod fused_bench;
mod gloo;
mod gpus;
mod hccl;
mod imb;
mod infer;
mod launcher;
mod line;
mod measured_csv;
mod mscclpp;
mod nccl_tests;
mod nccl_tests_json;
mod nccom_test;
mod nvshmem;
mod oneccl;
mod osu;
mod param;
mod parts;
mod perftest;
mod rccl_tests;
mod samples;
mod sglang_bench;
mod tensorrt_llm_bench;
mod trace;
mod ucc_perftest;
mod unknown;
mod vllm_bench;

use std::io::BufRead;

use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bandwidth, Bytes, Ratio, Seconds};
use crate::machine::sample::{DataType, Mode};
use crate::model::algorithm::RunBy;

use draft::Draft;
use launcher::Launcher;
use line::{Line, Lines};

pub use evidence::{Evidence, Sign};
pub use gpus::other_gpus;
pub use line::{LONGEST, plain_lines};
pub use measured_csv::CAVEATS;
pub use parts::Parts;
pub use samples::{libraries, of_one_library, one_library, unversioned};
pub use trace::{Input, SeekRead, TRACES, Trace, TraceFormat, format_of};

/// A format of logs.
pub struct Format {
    /// The name in reports.
    pub id: &'static str,
    /// The program whose output it is, in a few words.
    pub summary: &'static str,
    reader: fn() -> Box<dyn Reader>,
}

const fn of<R: Reader + Default + 'static>(id: &'static str, summary: &'static str) -> Format {
    Format { id, summary, reader: || Box::new(R::default()) }
}

/// Every format that is read line by line, with one entry each.
///
/// The JSON of nccl-tests is one document and is recognised by its first byte.
pub static FORMATS: &[Format] = &[
    // Their headings are also parts of other formats' headings, so they come first.
    of::<rccl_tests::Table>("rccl-tests", "files that rccl-tests writes: -x FILE -Z json or csv"),
    of::<oneccl::Table>("oneccl", "oneCCL's benchmark"),
    of::<mscclpp::Table>("mscclpp", "mscclpp-test, its table and its lines of JSON"),
    of::<nccl_tests::Table>("nccl-tests", "nccl-tests and rccl-tests: all_reduce_perf and others"),
    of::<osu::Table>("osu", "OSU micro-benchmarks: osu_allreduce, osu_latency, osu_bw …"),
    of::<imb::Table>("imb", "Intel MPI Benchmarks: IMB-MPI1"),
    of::<perftest::Table>("perftest", "perftest: ib_write_bw, ib_write_lat and others"),
    of::<nccom_test::Table>("nccom-test", "nccom-test of AWS Neuron"),
    of::<aiconfigurator::Table>(
        "aiconfigurator",
        "all-reduces of inference engines as aiconfigurator keeps them, as CSV",
    ),
    of::<vllm_bench::Table>("vllm-bench", "vLLM's benchmark of its device communicators"),
    of::<sglang_bench::Table>("sglang-bench", "SGLang's benchmarks of all-reduces"),
    of::<tensorrt_llm_bench::Table>(
        "tensorrt-llm-bench",
        "TensorRT-LLM's microbenchmark of all-reduces",
    ),
    of::<flashinfer_bench::Table>("flashinfer-bench", "FlashInfer's benchmark of all-reduces"),
    of::<fused_bench::Table>(
        "fused-bench",
        "vLLM's and SGLang's benchmark of all-reduces fused with the norm",
    ),
    of::<all_reduce_bench::Table>("all-reduce-bench", "all_reduce_bench.py of ml-engineering"),
    of::<deepspeed::Table>("deepspeed", "DeepSpeed's comms logger and ds_bench"),
    of::<param::Table>("param", "PARAM's benchmark of collectives"),
    of::<nvshmem::Table>("nvshmem", "collectives of NVSHMEM's perftest"),
    of::<hccl::Table>("hccl", "HCCL's tests, of Ascend"),
    of::<gloo::Table>("gloo", "Gloo's benchmark"),
    of::<ucc_perftest::Table>("ucc-perftest", "UCC's ucc_perftest"),
    of::<measured_csv::Table>("csv", "measurements by columns: collective, ranks, bytes, time_us"),
];

/// The id of nccl-tests' JSON, which is not read line by line.
pub const JSON: &str = "nccl-tests-json";

/// How a format reads lines.
trait Reader {
    /// Reads a line if it belongs to this format.
    ///
    /// # Errors
    /// An error after which nothing in the file can be trusted: a negative time, another unit.
    fn take(&mut self, line: &Line, log: &mut Log) -> Read<Taken>;

    /// The table of another format began.
    fn leave(&mut self) {}
}

/// What a format did with a line:
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    /// It does not belong to this format.
    No,
    /// It was read.
    Yes,
    /// It began a table.
    Began,
}

type Read<T> = std::result::Result<T, crate::base::refused::Refused>;

/// The state while a log is read.
#[derive(Default)]
struct Log {
    tables: Vec<Draft>,
    launcher: Launcher,
    /// Where a benchmark announced its start, and which one: its table may be missing.
    begun: Option<(usize, &'static str)>,
    /// What the user set.
    asked: Asked,
    /// Information from lines outside tables.
    evidence: Parts,
}

impl Log {
    /// The last table.
    fn last(&mut self) -> Option<&mut Draft> {
        self.tables.last_mut()
    }

    /// A row that is not used; it is the last table's, if there is one.
    fn leave_out(&mut self, line: usize, why: &str) {
        if let Some(draft) = self.last() {
            draft.leave_out(line, why);
        }
    }

    /// The table that `new` continues, else `new` itself, and whether it began.
    fn continued(&mut self, new: Draft) -> (&mut Draft, Taken) {
        let is_same = |d: &Draft| {
            d.format == new.format
                && d.title == new.title
                && d.library == new.library
                && d.ranks.first() == new.ranks.first()
        };
        let (at, taken) = match self.tables.iter().position(is_same) {
            Some(at) => (at, Taken::Yes),
            None => {
                self.tables.push(new);
                (self.tables.len() - 1, Taken::Began)
            }
        };
        (&mut self.tables[at], taken)
    }
}

/// Settings of the user for what logs may not state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Asked {
    /// N for tables that do not state it.
    pub ranks: Option<u32>,
    /// The collective for tables that do not state it.
    pub collective: Option<Collective>,
    /// The nodes that are meant; tables that list others are refused.
    pub nodes: Option<u32>,
    /// The ranks on each node; tables whose nodes do not agree with it are refused.
    pub per_node: Option<u32>,
}

impl Asked {
    /// Why a run whose log lists `nodes` is not the one that is meant.
    fn refuses(&self, ranks: Option<u32>, nodes: Option<u32>) -> Option<Refusal> {
        let (ranks, listed) = (ranks?, nodes?);
        let wide = self.per_node.filter(|&each| each > 0).map(|each| ranks.div_ceil(each));
        let other = [self.nodes, wide].into_iter().flatten().find(|&nodes| nodes != listed)?;
        let on = if listed == 1 { "1 node".to_owned() } else { format!("{listed} nodes") };
        Some(Refusal {
            what: format!("the log has {ranks} ranks on {on}, not on {other}"),
            help: "omit the number of nodes and the ranks per node, or give the log of the run that you mean"
                .to_owned(),
        })
    }
}

/// The caveat of a table of products, averages and others: what is expected is the time of sums, and a switch that
/// adds does not do these for every type.
pub(crate) const NO_SUM: &str =
    "the reduction is not a sum: libraries may implement it differently";

/// In the caveat of a run that its own program calls failed, while no row says which results were wrong.
pub(crate) const FAILED: &str = "(FAILED), and no row says which: none of its times counts";

/// The caveat of times that a host's clock took around calls of a job.
pub(crate) const HOST_CLOCK: &str =
    "times of the host's clock around calls: they include launch and waiting for late ranks";

/// The beginning of the caveat of a run that ended with an error: such a run is not healthy, whatever its times are.
pub(crate) const BROKE: &str = "its program ended with an error: ";

/// The caveat of nccl-tests' blocking runs (`-z`): what is expected is the time of calls that follow each other in a
/// stream (`startColl` and `timeColls` in src/common.cu of NVIDIA/nccl-tests).
pub(crate) const BLOCKING: &str = "a blocking run (-z): a time includes the call's launch and the host's wait for it, \
                                   and perhaps a barrier of all processes";

/// The operation that was measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tested {
    /// A collective of a library.
    Collective(Collective),
    /// A message one way; half of a ping-pong.
    OneWay,
    /// Every rank sends to the next at once.
    Shift,
    /// The rate of many messages in flight at once, which gives no time for one.
    Rate {
        /// Whether both directions are counted together.
        both_ways: bool,
    },
    /// Something unused or unknown, as the log calls it.
    Other(String),
}

impl Tested {
    /// The collective that `plain` names, else what ran, as it is written.
    fn named(plain: &str, written: &str) -> Self {
        let collective = plain.parse();
        collective.map_or_else(|_| Self::Other(written.to_owned()), Self::Collective)
    }

    /// The collective that takes as long: every rank's own send/recv for a shift, as of `sendrecv_perf`.
    #[must_use]
    pub fn collective(&self) -> Option<Collective> {
        match self {
            Self::Collective(collective) => Some(*collective),
            Self::Shift => Some(Collective::SendRecv),
            _ => None,
        }
    }

    /// The name in files: `allreduce`, `one-way`, `shift`, `rate`, `rate-both-ways`.
    #[must_use]
    pub fn id(&self) -> &str {
        match self {
            Self::Collective(collective) => collective.id(),
            Self::OneWay => "one-way",
            Self::Shift => "shift",
            Self::Rate { both_ways: false } => "rate",
            Self::Rate { both_ways: true } => "rate-both-ways",
            Self::Other(name) => name,
        }
    }
}

/// The value that a row measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Measured {
    /// The time of one operation.
    Time(Seconds),
    /// A rate over many.
    Rate(Bandwidth),
}

/// A row of a table; a line of nccl-tests gives two.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// The line, from 1.
    pub line: usize,
    /// M, as nccl-tests counts it.
    pub size: Bytes,
    /// The type of the elements, if the log states it.
    pub dtype: Option<DataType>,
    /// Whether the operation was in place.
    pub in_place: bool,
    /// What was measured.
    pub measured: Measured,
    /// How many elements were wrong, at least; absent if they were not checked.
    pub wrong: Option<u64>,
    /// More statistics of a job's calls; absent in the row of a benchmark.
    pub traced: Option<Traced>,
}

/// Calls of a job, joined over its ranks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Traced {
    /// How many calls the row stands for; its time is the median of their shortest times over the ranks.
    pub calls: u32,
    /// The largest number of ranks that recorded a call.
    pub present: u32,
    /// The fastest tenth of the calls took at most this.
    pub fast: Seconds,
    /// The median of the longest minus the shortest time over the ranks: the wait for the last rank;
    /// absent if no call was recorded by more than one rank, which says nothing of waiting.
    pub skew: Option<Seconds>,
    /// The sum of that over all calls.
    pub waited: Option<Seconds>,
    /// The rank that most often arrived last, and in which part of the calls.
    pub latest: Option<(u32, Ratio)>,
    /// The part of the time without computation; absent if it is unknown.
    pub exposed: Option<Ratio>,
    /// Whether the time is only an upper bound: ranks are missing, or the clock was the host's.
    pub at_most: bool,
}

/// Rows that were left out for one reason.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeftOut {
    /// The reason.
    pub why: String,
    /// Their lines, if the format has lines; of very many only some.
    pub lines: Vec<usize>,
    /// The number of rows.
    pub count: usize,
    /// Whether nothing is wrong where a log has such rows.
    #[serde(skip)]
    pub is_usual: bool,
}

/// Why a table is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What is wrong.
    pub what: String,
    /// How to fix it.
    pub help: String,
}

/// A table of a log.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// The format's id.
    pub format: &'static str,
    /// Where it begins.
    pub line: usize,
    /// What ran, as the log calls it.
    pub title: String,
    /// What was measured.
    pub tested: Tested,
    /// N, if known.
    pub ranks: Option<u32>,
    /// The source of N: `list of devices`, `command`, `job description`, `#processes`, `pairs`, `column`,
    /// `columns`, `kind of test`, or `--n` if the user set it.
    pub ranks_by: Option<&'static str>,
    /// Whether the log says that several ranks run on one GPU.
    pub shares_gpus: bool,
    /// The number of hosts, if the log states it.
    pub nodes: Option<u32>,
    /// The ranks of each host, if the log lists them and one has fewer than all others.
    pub full_node: Option<u32>,
    /// The library with its version, if the log states it.
    pub library: Option<String>,
    /// The machine, if the log states it.
    pub system: Option<String>,
    /// The GPUs as their driver calls them, each model once, if the log lists them.
    pub gpus: Option<String>,
    /// The number of operations between two readings of the clock.
    pub iterations: u32,
    /// How runs followed each other.
    pub mode: Mode,
    /// The rows; empty if the table is refused.
    pub rows: Vec<Row>,
    /// The rows that are not used.
    pub left_out: Vec<LeftOut>,
    /// Those of them, of reductions other than sums, whose results were wrong.
    pub wrong_left_out: Vec<Row>,
    /// Why the table is refused, if it is.
    pub refused: Option<Refusal>,
    /// Warnings about the table.
    pub warnings: Vec<String>,
    /// In what its times differ from measured times of whole, separate calls: without a launch, of several
    /// merged calls, predicted. Whoever uses the times must know it.
    pub caveats: Vec<String>,
}

/// A log.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// The file.
    pub file: String,
    /// Its tables in order, at least one.
    pub tables: Vec<Table>,
    /// What it says about the runs besides the tables.
    pub evidence: Parts,
}

impl Table {
    /// Whether it was read from a job's traces and not from a benchmark's log.
    fn is_trace(&self) -> bool {
        TRACES.iter().any(|format| format.id == self.format)
    }

    /// The kind of library that ran it, if the log or its format says it.
    #[must_use]
    pub fn run_by(&self) -> Option<RunBy> {
        match self.format {
            "imb" | "gloo" => Some(RunBy::Hosts),
            _ => self.library.as_deref().and_then(RunBy::named),
        }
    }

    /// What to know before trusting its times. Warnings of traces are about their job: its calls say it themselves.
    pub fn notes(&self) -> impl Iterator<Item = &String> {
        let own = Some(&self.warnings).filter(|_| !self.is_trace());
        self.caveats.iter().chain(own.into_iter().flatten())
    }

    /// The rows that a damaged log lacks, in words: their times may be the ones that matter. Those of traces are about
    /// their job, which may have any.
    pub fn damage(&self) -> impl Iterator<Item = String> {
        /// Lines that are named.
        const NAMED: usize = 5;
        let own = Some(&self.left_out).filter(|_| !self.is_trace());
        let damaged = own.into_iter().flatten().filter(|left| !left.is_usual);
        damaged.map(|LeftOut { why, lines, count, .. }| {
            let named = lines.iter().take(NAMED).map(ToString::to_string);
            let more = (lines.len() > NAMED).then(|| "…".to_owned());
            let named: Vec<String> = named.chain(more).collect();
            let places = match lines.len() {
                0 => String::new(),
                1 => format!(" (line {})", named.join(", ")),
                _ => format!(" (lines {})", named.join(", ")),
            };
            let rows = if *count == 1 { "row is" } else { "rows are" };
            format!("{count} {rows} left out: {why}{places}")
        })
    }

    /// Whether results were wrong, and no row says which.
    #[must_use]
    pub fn failed(&self) -> bool {
        self.caveats.iter().any(|caveat| caveat.contains(FAILED))
    }

    /// Rows whose results were wrong, used or not.
    pub(crate) fn wrong_rows(&self) -> impl Iterator<Item = &Row> {
        let wrong = |row: &&Row| row.wrong.is_some_and(|wrong| wrong > 0);
        self.rows.iter().chain(&self.wrong_left_out).filter(wrong)
    }

    /// Why the table of `file` is refused, if it is.
    #[must_use]
    pub fn refusal(&self, file: &str) -> Option<Error> {
        let Refusal { what, help } = self.refused.clone()?;
        Some(Error::input(what).at(format!("{file}:{}", self.line)).help(help))
    }

    /// What is said of rows whose results were wrong, if the log says which.
    #[must_use]
    pub fn wrong(&self) -> Option<String> {
        if self.failed() {
            return None;
        }
        let line = self.wrong_rows().map(|row| row.line).min()?;
        let count = self.wrong_rows().count();
        Some(format!(
            "results were wrong in {count} rows, the first in line {line}: fix that first"
        ))
    }
}

impl Imported {
    /// Whether it was read from a job's traces and not from a benchmark's log.
    #[must_use]
    pub fn is_trace(&self) -> bool {
        self.tables.iter().all(Table::is_trace)
    }

    /// Whether anything can be used.
    ///
    /// # Errors
    /// Nothing can be used; the error says what is wrong with the first table.
    pub fn usable(&self) -> Result<()> {
        if self.tables.iter().any(|t| !t.rows.is_empty()) {
            return Ok(());
        }
        // One table's reason represents all: they come from one run.
        let Some(table) = self.tables.first() else {
            return Err(Error::input("the log contains no table").at(self.file.clone()));
        };
        Err(table.refusal(&self.file).unwrap_or_else(|| {
            Error::input("no row of the log is usable").at(format!("{}:{}", self.file, table.line))
        }))
    }
}

/// Reads the log `file` from `input` in any known format.
///
/// # Errors
/// The input is not text or not of a known format; a negative time or a foreign unit, with its line; a
/// log without anything usable, with the reason.
pub fn read(input: impl BufRead, file: &str, asked: &Asked) -> Result<Imported> {
    let log = look(input, file, asked)?;
    log.usable().map(|()| log)
}

/// As [`read`], but a log whose tables are all refused is not an error.
///
/// # Errors
/// The input is not text or not of a known format; a negative time or a foreign unit, with its line.
pub fn look(input: impl BufRead, file: &str, asked: &Asked) -> Result<Imported> {
    look_at(Input::Stream(Box::new(input)), file, asked)
}

/// As [`look`], from an input that may be seekable, as databases must be.
///
/// # Errors
/// As [`look`]'s.
pub fn look_at(mut input: Input, file: &str, asked: &Asked) -> Result<Imported> {
    if let Some(format) = format_of(&mut input, file)? {
        let mut trace = Trace::new(format, asked);
        trace.add(input, file)?;
        return Ok(trace.finish(asked));
    }
    let mut input = input.stream();
    let begins_as_json = nccl_tests_json::is(input.fill_buf().unwrap_or_default());
    if begins_as_json {
        let (drafts, evidence) = nccl_tests_json::read(input, file)?;
        return Ok(finish(drafts, evidence, file, asked));
    }
    let mut log = Log { asked: *asked, ..Log::default() };
    let mut readers: Vec<Box<dyn Reader>> = FORMATS.iter().map(|f| (f.reader)()).collect();
    let mut hints = unknown::Hints::default();
    let mut owner = 0;
    let mut lines = Lines::new(input, file);
    while let Some(line) = lines.next()? {
        if line.text.is_empty() {
            continue;
        }
        let mut taken = Taken::No;
        let open = owner;
        for i in std::iter::once(open).chain((0..readers.len()).filter(|&i| i != open)) {
            taken = readers[i].take(&line, &mut log).map_err(|refused| {
                refused.error(file).or_help("remove the damaged part, and run it again")
            })?;
            if taken == Taken::Began {
                log.evidence.began(log.tables.len() - 1);
            }
            if taken == Taken::Began && i != open {
                readers[open].leave();
                owner = i;
            }
            if taken != Taken::No {
                break;
            }
        }
        if taken == Taken::No && line.is_numeric() && log.tables.is_empty() {
            hints.take(&line);
        }
        if taken == Taken::No && !line.is_numeric() {
            if let Some(command) = log.launcher.take(line.text, &mut log.tables) {
                log.evidence.command(&command, log.tables.len());
            }
            log.evidence.take(line.text);
            if log.tables.is_empty() {
                hints.take(&line);
            }
        }
    }
    if log.tables.is_empty() {
        return Err(match log.begun {
            Some((line, which)) => {
                Error::input(format!("the log of {which} ends before its table begins"))
                    .at(format!("{file}:{line}"))
                    .help("give the log of a run that finished")
            }
            None => hints.error(file),
        });
    }
    Ok(finish(log.tables, log.evidence, file, asked))
}

fn finish(drafts: Vec<Draft>, mut evidence: Parts, file: &str, asked: &Asked) -> Imported {
    let tables = drafts.into_iter().map(|draft| draft.finish(asked, file)).collect();
    evidence.finish();
    Imported { file: file.to_owned(), tables, evidence }
}

//! An NCCL log, decoded and compared with what the tuner computes.
//!
//! ```text
//! nccl.log: NCCL 2.21.5, 16 ranks on 2 nodes, compute capability 90, processors intel, 16 channels
//!
//! Table in line 20: 198 figures, all as computed
//!
//!   line  lines  function     size  took                time  GB/s  busbw  computed
//!   44        1  AllReduce  256 KiB  Tree/LL128          52 µs   5.0    9.5  the same
//!   45        1  AllReduce    1 MiB  NVLSTree/Simple  56.93 µs  18.4   34.5  the same
//! ```
//!
//! A log describes its communicator only as far as it happens to print it. With graphs, ranks and
//! nodes the table is computed and compared. Without them the choices are compared with what the
//! printed table allows; a choice that its single decimal leaves open is marked as open.

mod basis;
mod choices;
mod intervals;
mod lacks;

use serde::Serialize;

use crate::base::error::{Error, Result};
use crate::library::nccl::graphs_file::Graphs;
use crate::library::nccl::log::{Layout, Log};
use crate::library::nccl::{self, Algo, Communicator, Function, Proto, Told};
use basis::Basis;

/// How a log is to be read.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// Values that the log may not contain.
    pub told: Told,
    /// The version; absent: the one in the log, or whichever computes its table.
    pub version: Option<nccl::Version>,
    /// Which table, from 1, where there are several.
    pub table: Option<usize>,
    /// The source of the communicator, if it is not the log.
    pub given: Option<Given>,
}

/// A communicator that does not come from the log.
#[derive(Debug, Clone)]
pub enum Given {
    /// The whole communicator, and its name.
    Whole(String, Box<Communicator>),
    /// Its graphs, and the file they come from.
    Graphs(String, Graphs),
}

/// The contents of a log, and whether they match what the tuner computes.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NcclLog {
    /// `collcost/nccl-log/1`.
    pub schema: &'static str,
    /// The file.
    pub file: String,
    /// The version that the log names; absent if it names none.
    pub version: Option<String>,
    /// The version whose rules were used; absent if none fits.
    pub rules: Option<&'static str>,
    /// The communicator, as far as it is known.
    pub communicator: CommView,
    /// Variables that the tuner reads.
    pub environment: Vec<SettingView>,
    /// What the environment leaves enabled, if the log prints it.
    pub enabled: Vec<EnabledView>,
    /// The table.
    pub table: Option<TableView>,
    /// The choices for calls; identical lines are merged.
    pub choices: Vec<ChoiceView>,
    /// The tuner's choices by size, if the log itself has none.
    pub intervals: Vec<IntervalView>,
    /// The number of cells and choices that differ from the computed ones.
    pub differences: u64,
    /// The number of choices that a printed table leaves open.
    pub open: u64,
    /// What to know before trusting it.
    pub notes: Vec<String>,
}

/// A communicator.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CommView {
    /// Ranks.
    pub ranks: Option<u32>,
    /// Nodes.
    pub nodes: Option<u32>,
    /// The GPUs' compute capability: 80, 90, 100 …
    pub compute_capability: Option<u32>,
    /// The processor's instruction set.
    pub processor: Option<&'static str>,
    /// Its vendor: intel, amd, zhaoxin, mixed, or empty.
    pub processor_vendor: Option<&'static str>,
    /// The number of channels.
    pub channels: Option<u32>,
    /// The number of channels of NVLS.
    pub nvls_channels: Option<u32>,
}

/// A variable of the environment.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SettingView {
    /// Its line.
    pub line: usize,
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// What the environment leaves enabled for a function.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EnabledView {
    /// The function.
    pub function: &'static str,
    /// The enabled protocols; `LL128?` is enabled where NCCL trusts it.
    pub protocols: Vec<String>,
    /// The enabled algorithms.
    pub algorithms: Vec<&'static str>,
}

/// A table.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TableView {
    /// Its first line.
    pub line: usize,
    /// `blocks`, or `one-block` for 2.17 and older.
    pub layout: &'static str,
    /// Its algorithms.
    pub algorithms: Vec<&'static str>,
    /// Its cells.
    pub cells: Vec<CellView>,
    /// The number of cells and thread counts that were compared with computed ones; absent if the
    /// communicator is not known well enough.
    pub compared: Option<u64>,
    /// Those that differ from the computed ones.
    pub differences: Vec<CellDifference>,
}

/// A cell.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CellView {
    /// Its line.
    pub line: usize,
    /// The function.
    pub function: &'static str,
    /// The algorithm.
    pub algorithm: &'static str,
    /// The protocol.
    pub protocol: &'static str,
    /// The cost of a call before its first byte, in microseconds.
    pub latency_us: f64,
    /// Bytes of the largest buffer over time, in 10^9 per second; 0 where it is not available.
    pub bandwidth_gb_per_s: f64,
    /// The maximum number of threads per block; absent if it was not printed.
    pub max_threads: Option<u32>,
}

/// A value that differs from the computed one.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CellDifference {
    /// Its line.
    pub line: usize,
    /// The function; absent for threads, which all functions share.
    pub function: Option<&'static str>,
    /// The algorithm.
    pub algorithm: &'static str,
    /// The protocol.
    pub protocol: &'static str,
    /// `latency`, `bandwidth` or `threads`.
    pub figure: &'static str,
    /// As logged.
    pub logged: String,
    /// As computed, to the same digit.
    pub computed: String,
}

/// The choice for calls of one size.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChoiceView {
    /// The first line with this choice.
    pub line: usize,
    /// The number of lines with this choice.
    pub lines: u64,
    /// The function: one, or, if the log does not name it, those whose computed time matches the
    /// logged one; empty if it cannot be determined.
    pub functions: Vec<&'static str>,
    /// The printed number of bytes.
    pub logged_bytes: u64,
    /// What those bytes count: `largest-buffer`, or `rank-buffer` for one rank's block.
    pub counts: &'static str,
    /// The largest buffer; absent if the number of ranks is needed and unknown.
    pub size_bytes: Option<u64>,
    /// The algorithm.
    pub algorithm: &'static str,
    /// The protocol.
    pub protocol: &'static str,
    /// The tuner's estimate, in microseconds; absent since 2.24.
    pub time_us: Option<f64>,
    /// Bytes divided by that time: the rate that the tuner assumes, in bytes per second.
    pub algbw: Option<f64>,
    /// The same as nccl-tests' busbw; absent if ranks or the function are unknown.
    pub busbw: Option<f64>,
    /// The first channel; absent before 2.24.
    pub first_channel: Option<u32>,
    /// The last channel; absent before 2.24.
    pub last_channel: Option<u32>,
    /// `agrees`, `open` if the printed table allows others too, `differs`, or `unchecked`.
    pub verdict: &'static str,
    /// What the tuner computes, or the candidates: algorithm and protocol as `Ring/LL`.
    pub computed: Vec<String>,
    /// The reason for the verdict, if it is not obvious.
    pub why: Option<String>,
}

/// Sizes for which the tuner makes the same choice.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IntervalView {
    /// The function.
    pub function: &'static str,
    /// The smallest size, in bytes of the largest buffer; a power of two if the table may belong to
    /// several communicators.
    pub from_bytes: u64,
    /// The largest size, likewise.
    pub to_bytes: u64,
    /// The choice, as `Ring/LL`; several if the printed table leaves it open; empty if nothing is
    /// available and the call fails.
    pub choices: Vec<String>,
}

/// Decodes a log and compares it with the tuner.
///
/// # Errors
/// Several tables and none selected; versions, ranks, nodes and graphs that contradict each other;
/// settings that the version refuses; a version before 2.
pub fn nccl_log(log: &Log, asked: &Asked) -> Result<NcclLog> {
    let table = log.table(asked.table)?;
    let known = log.known(table, &asked.told)?;
    let basis = Basis::find(log, table, &known, asked)?;
    let mut notes = basis.notes.clone();
    let choices = choices::choices(log, table, &basis);
    let table = table.map(|printed| {
        let (compared, differences) = match basis.computed.first() {
            Some(computed) => {
                let found = computed.differences(printed);
                (Some(found.compared), found.views)
            }
            None => (None, Vec::new()),
        };
        let layout = match printed.layout {
            Layout::OneBlock => "one-block",
            Layout::Blocks => "blocks",
        };
        let algorithms = printed.algos.iter().map(|a| a.name()).collect();
        TableView {
            line: printed.line,
            layout,
            algorithms,
            cells: cells(printed),
            compared,
            differences,
        }
    });
    let intervals = if choices.is_empty() { intervals::intervals(&basis) } else { Vec::new() };
    let count = |verdict| choices.iter().filter(|c| c.verdict == verdict).count() as u64;
    let cells = table.as_ref().map_or(0, |t: &TableView| t.differences.len()) as u64;
    if choices.iter().any(|c| c.counts == "rank-buffer") {
        notes.push(
            "the log's choice lines of all-gather and reduce-scatter count one rank's block; sizes \
             here count all ranks"
                .to_owned(),
        );
    }
    if basis.rules.is_none() && !log.choices.is_empty() && log.tables.is_empty() {
        notes.push("the version is not known: give --nccl".to_owned());
    }
    notes.extend(lacks::channels(log, &known, asked));
    if table.is_none() && choices.is_empty() && intervals.is_empty() {
        notes.extend(lacks::found(log));
        notes.push(lacks::missing(&known, basis.version.is_some()));
    }
    Ok(NcclLog {
        schema: "collcost/nccl-log/1",
        file: log.file.clone(),
        version: basis.version.clone(),
        rules: basis.rules.map(nccl::Version::id),
        communicator: basis.view(&known),
        environment: environment(log),
        enabled: enabled(log),
        differences: count("differs") + cells,
        open: count("open"),
        table,
        choices,
        intervals,
        notes,
    })
}

/// The communicator of a log, for further questions about it.
#[derive(Debug, Clone)]
pub struct Found {
    /// The communicator.
    pub comm: Communicator,
    /// The rules that computed its table.
    pub version: nccl::Version,
    /// Its environment.
    pub settings: nccl::Settings,
    /// What was found by trial, and what the log leaves out.
    pub notes: Vec<String>,
}

/// The communicator behind a log.
///
/// # Errors
/// As [`nccl_log`]; a log with too little information, and what it lacks.
pub fn communicator(log: &Log, asked: &Asked) -> Result<Found> {
    let table = log.table(asked.table)?;
    let known = log.known(table, &asked.told)?;
    let basis = Basis::find(log, table, &known, asked)?;
    let settings = log.settings()?;
    let found = basis.computed.into_iter().next();
    let Some(computed) = found else {
        return Err(Error::unknown("the log does not identify its communicator")
            .at(log.file.clone())
            .help(
                "this needs lines `Pattern …` (NCCL_DEBUG_SUBSYS=INIT,GRAPH,TUNING), ranks and \
                 nodes, and, without a table, --gpu and --nccl; or give --graph",
            ));
    };
    Ok(Found { comm: computed.comm, version: computed.version, settings, notes: basis.notes })
}

/// An algorithm with its protocol, as `Ring/LL`.
fn pair(algo: Algo, proto: Proto) -> String {
    format!("{}/{}", algo.name(), proto.name())
}

fn cells(table: &crate::library::nccl::log::Table) -> Vec<CellView> {
    let mut cells = Vec::new();
    for function in Function::ALL {
        for &algo in &table.algos {
            for proto in Proto::ALL {
                let Some(cell) = table.cell(function, algo, proto) else { continue };
                cells.push(CellView {
                    line: table.line_of(function, algo),
                    function: function.name(),
                    algorithm: algo.name(),
                    protocol: proto.name(),
                    latency_us: cell.latency.0 as f64 / 10.0,
                    bandwidth_gb_per_s: cell.bandwidth.0 as f64 / 10.0,
                    max_threads: table.threads(algo, proto),
                });
            }
        }
    }
    cells
}

fn environment(log: &Log) -> Vec<SettingView> {
    let mut seen: Vec<SettingView> = Vec::new();
    for set in &log.environment {
        let (name, value) = &set.what;
        let known = nccl::Settings::KNOWN.contains(&name.as_str());
        if known && seen.iter().all(|other| other.name != *name) {
            seen.push(SettingView { line: set.line, name: name.clone(), value: value.clone() });
        }
    }
    seen
}

fn enabled(log: &Log) -> Vec<EnabledView> {
    let Some(matrix) = log.matrices.last() else { return Vec::new() };
    let rows = Function::ALL.iter().zip(&matrix.what);
    rows.map(|(function, row)| {
        let protocols = Proto::ALL.iter().zip(row).filter(|(_, on)| **on > 0);
        let protocols = protocols
            .map(|(proto, &on)| format!("{}{}", proto.name(), if on == 2 { "?" } else { "" }));
        let algorithms = Algo::ALL.iter().zip(row.iter().skip(Proto::ALL.len()));
        EnabledView {
            function: function.name(),
            protocols: protocols.collect(),
            algorithms: algorithms.filter(|(_, on)| **on > 0).map(|(a, _)| a.name()).collect(),
        }
    })
    .collect()
}

//! What was read from logs, and what was left out and why.

use serde::Serialize;

use crate::base::error::Error;
use crate::machine::sample::DataType;
use crate::measure::logs::{Imported, LeftOut, Measured, Table, Traced};

/// Logs that were read.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Import {
    /// `collcost/import/1`.
    pub schema: &'static str,
    /// The files, in order.
    pub files: Vec<FileView>,
    /// The number of rows that were read, over all files.
    pub rows: usize,
    /// The number of rows that were left out, over all files.
    pub left_out: usize,
    /// The number of files with nothing usable.
    pub refused: usize,
}

/// A file.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileView {
    /// Its name, as given.
    pub file: String,
    /// Why nothing in it can be used; absent if something can.
    pub refused: Option<String>,
    /// Its tables, in order.
    pub tables: Vec<TableView>,
}

/// A table of a log.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TableView {
    /// The format: `nccl-tests`, `nccl-tests-json`, `osu`, `kineto` …
    pub format: &'static str,
    /// The line at which it begins.
    pub line: usize,
    /// The operation, as named in the log.
    pub title: String,
    /// The measured operation: a collective, `one-way`, `shift`, `rate`, `rate-both-ways`, or, if
    /// it is not used, the log's own words.
    pub measured: String,
    /// N; absent if it is not known.
    pub ranks: Option<u32>,
    /// How N is known.
    pub ranks_by: Option<&'static str>,
    /// The number of hosts; absent if the log does not give it.
    pub nodes: Option<u32>,
    /// The library and its version; absent if the log does not give it.
    pub library: Option<String>,
    /// The types of elements.
    pub dtypes: Vec<DataType>,
    /// The number of rows that were read; a line with an in-place and an out-of-place result counts
    /// as two.
    pub rows: usize,
    /// Those of them that are in-place.
    pub in_place_rows: usize,
    /// The smallest M.
    pub least_bytes: Option<u64>,
    /// The largest M.
    pub most_bytes: Option<u64>,
    /// Rows that were left out, by reason.
    pub left_out: Vec<LeftOut>,
    /// Why nothing in the table is used; absent if something is.
    pub refused: Option<String>,
    /// What to do about that.
    pub help: Option<String>,
    /// What to know before trusting it.
    pub warnings: Vec<String>,
}

/// The report of files, each read or refused.
#[must_use]
pub fn import(files: &[(String, Result<Imported, Error>)]) -> Import {
    let views: Vec<FileView> = files.iter().map(|(file, read)| view(file, read)).collect();
    let tables = || views.iter().flat_map(|f| &f.tables);
    Import {
        schema: "collcost/import/1",
        rows: tables().map(|t| t.rows).sum(),
        left_out: tables().flat_map(|t| &t.left_out).map(|l| l.count).sum(),
        refused: views.iter().filter(|f| f.refused.is_some()).count(),
        files: views,
    }
}

fn view(file: &str, read: &Result<Imported, Error>) -> FileView {
    let (tables, error) = match read {
        Ok(log) => (log.tables.iter().map(table).collect(), log.usable().err()),
        Err(error) => (Vec::new(), Some(error.clone())),
    };
    FileView { file: file.to_owned(), refused: error.map(|e| e.what().to_owned()), tables }
}

fn table(table: &Table) -> TableView {
    let mut dtypes: Vec<DataType> = table.rows.iter().filter_map(|r| r.dtype).collect();
    dtypes.sort_unstable_by_key(|dtype| dtype.id());
    dtypes.dedup();
    let sizes = table.sizes();
    TableView {
        format: table.format,
        line: table.line,
        title: table.title.clone(),
        measured: table.tested.id().to_owned(),
        ranks: table.ranks,
        ranks_by: table.ranks_by,
        nodes: table.nodes,
        library: table.library.clone(),
        dtypes,
        rows: table.rows.len(),
        in_place_rows: table.rows.iter().filter(|r| r.in_place).count(),
        least_bytes: sizes.map(|(least, _)| least.0),
        most_bytes: sizes.map(|(_, most)| most.0),
        left_out: table.left_out.clone(),
        refused: table.refused.as_ref().map(|r| r.what.clone()),
        help: table.refused.as_ref().map(|r| r.help.clone()),
        warnings: table
            .caveats
            .iter()
            .chain(&table.warnings)
            .cloned()
            .chain(table.wrong())
            .collect(),
    }
}

/// For a reader who needs only the rows: what was refused and left out, and why, each once.
#[must_use]
pub fn notes(report: &Import) -> Vec<String> {
    let mut notes = Vec::new();
    let mut say = |note: String| {
        if !notes.contains(&note) {
            notes.push(note);
        }
    };
    for file in &report.files {
        for table in &file.tables {
            let place = format!("{}:{}", file.file, table.line);
            if let Some(why) = &table.refused {
                say(format!("{place}: refused: {why}"));
            }
            for left in &table.left_out {
                let them = if left.count == 1 { "is" } else { "are" };
                say(format!("{place}: {} {them} left out: {}", left.count, left.why));
            }
            for warning in &table.warnings {
                say(format!("{place}: {warning}"));
            }
        }
    }
    notes
}

/// A row of a log with everything that belongs to it, for a table of measurements.
#[derive(Debug, Clone, PartialEq)]
pub struct Measurement {
    /// The measured operation, as [`TableView::measured`].
    pub measured: String,
    /// N.
    pub ranks: u32,
    /// The number of hosts.
    pub nodes: Option<u32>,
    /// M.
    pub bytes: u64,
    /// The type of the elements.
    pub dtype: Option<DataType>,
    /// Whether the operation ran in place.
    pub in_place: bool,
    /// The time, µs; absent for a rate.
    pub time_us: Option<f64>,
    /// M over the time, or the rate, in 10^9 bytes per second.
    pub algbw: Option<f64>,
    /// The same as nccl-tests' busbw; absent for a rate.
    pub busbw: Option<f64>,
    /// The number of wrong elements.
    pub wrong: Option<u64>,
    /// The library with its version.
    pub library: String,
    /// The format's id.
    pub format: &'static str,
    /// The file.
    pub file: String,
    /// The line.
    pub line: usize,
    /// For a job's calls, what is known besides their median; absent in a benchmark's row.
    pub traced: Option<Traced>,
    /// The GPUs or the machine, if the log states them.
    pub system: String,
    /// Whether several ranks ran on one GPU.
    pub shares_gpus: bool,
    /// As [`Table::caveats`].
    pub caveats: Vec<String>,
}

/// Every row of a log whose ranks are known, in order.
pub fn measurements(log: &Imported) -> impl Iterator<Item = Measurement> + '_ {
    log.tables.iter().flat_map(move |table| {
        table.rows.iter().filter_map(move |row| {
            let ranks = table.ranks?;
            let (time, rate) = match row.measured {
                Measured::Time(time) => (Some(time), None),
                Measured::Rate(rate) => (None, Some(rate.0 / 1e9)),
            };
            // The finest format has six digits after the point.
            let rounded = |x: f64| (x * 1e6).round() / 1e6;
            let bytes = row.size.0 as f64;
            let algbw = time.filter(|_| bytes > 0.0).map(|t| bytes / t.0 / 1e9).or(rate);
            let factor = match &table.tested {
                crate::measure::logs::Tested::Collective(c) => c.busbw_factor(ranks).0,
                _ => 1.0,
            };
            Some(Measurement {
                measured: table.tested.id().to_owned(),
                ranks,
                nodes: table.nodes,
                bytes: row.size.0,
                dtype: row.dtype,
                in_place: row.in_place,
                time_us: time.map(|t| rounded(t.0 * 1e6)),
                algbw: algbw.map(rounded),
                busbw: algbw.filter(|_| time.is_some()).map(|a| rounded(a * factor)),
                wrong: row.wrong,
                library: table.library.clone().unwrap_or_default(),
                format: table.format,
                file: log.file.clone(),
                line: row.line,
                traced: row.traced,
                system: table.gpus.clone().or_else(|| table.system.clone()).unwrap_or_default(),
                shares_gpus: table.shares_gpus,
                caveats: table.caveats.clone(),
            })
        })
    })
}

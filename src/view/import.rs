//! Imported logs, for people and as CSV.
//!
//! ```text
//! log               format      measured   ranks  type  rows  sizes            left out
//! run.log:12        nccl-tests  allreduce      8  f32     58  8 B to 8 GiB            0
//! ```

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::page::Page;
use super::sheet::{Cell, Column, Sheet};
use crate::answer::import::{FileView, Import, Measurement, TableView};
use crate::base::quantity::{Bytes, Ratio, Seconds};
use crate::machine::sample::DataType;
use crate::measure::logs::CAVEATS;

/// The most line numbers that are listed for one reason.
const NAMED: usize = 8;

/// Writes the report.
pub fn import(report: &Import) -> Page {
    let mut page = Page::default();
    let columns = vec![
        Column::words("log", "log"),
        Column::words("format", "format"),
        Column::words("measured", "measured"),
        Column::numbers("ranks", "", "ranks"),
        Column::words("type", "type"),
        Column::numbers("rows", "", "rows"),
        Column::words("sizes", "sizes"),
        Column::numbers("left out", "", "left_out"),
    ];
    let rows = report.files.iter().flat_map(|file| {
        let none = file.tables.is_empty().then(|| {
            let mut cells = vec![Cell::same(&file.file)];
            cells.resize_with(8, || Cell::same("–"));
            cells
        });
        file.tables.iter().map(|table| row(file, table)).chain(none)
    });
    page.table(Sheet { columns, rows: rows.collect() });
    // What several tables have in common is printed once, with all their places.
    let mut said: BTreeMap<(u8, String), Vec<String>> = BTreeMap::new();
    let mut say = |kind: u8, text: &str, place: String| {
        said.entry((kind, text.to_owned())).or_default().push(place);
    };
    for file in &report.files {
        if let Some(why) = file.refused.as_ref().filter(|_| file.tables.is_empty()) {
            say(0, why, file.file.clone());
        }
        for table in &file.tables {
            let place = || format!("{}:{}", file.file, table.line);
            if let (Some(why), Some(help)) = (&table.refused, &table.help) {
                say(0, &format!("{why}; {help}"), place());
            }
            for left in &table.left_out {
                let mut lines: Vec<String> =
                    left.lines.iter().take(NAMED).map(ToString::to_string).collect();
                if left.lines.len() > NAMED {
                    lines.push("…".to_owned());
                }
                let place = match lines.is_empty() {
                    true => format!("{}: {}", file.file, left.count),
                    false => format!("{}:{}", file.file, lines.join(",")),
                };
                say(1, &left.why, place);
            }
            for warning in &table.warnings {
                say(2, warning, place());
            }
        }
    }
    for ((kind, text), mut places) in said {
        let label = ["refused  ", "left out ", "note     "][usize::from(kind)];
        let more = places.len().saturating_sub(NAMED);
        places.truncate(NAMED);
        if more > 0 {
            places.push(format!("{more} more"));
        }
        page.entry(label, format!("{text} ({})", places.join(" ")));
    }
    page
}

fn row(file: &FileView, table: &TableView) -> Vec<Cell> {
    let left: usize = table.left_out.iter().map(|l| l.count).sum();
    let sizes = match (table.least_bytes, table.most_bytes) {
        (Some(least), Some(most)) if least == most => Bytes(least).to_string(),
        (Some(least), Some(most)) => format!("{} to {}", Bytes(least), Bytes(most)),
        _ => "–".to_owned(),
    };
    let dtypes: Vec<&str> = table.dtypes.iter().map(|dtype| dtype.id()).collect();
    let dtypes = if dtypes.is_empty() { "–".to_owned() } else { dtypes.join(" ") };
    vec![
        Cell::same(format!("{}:{}", file.file, table.line)),
        Cell::same(table.format),
        Cell::same(&table.measured),
        Cell::number(table.ranks.map(f64::from), |n| format!("{n:.0}")),
        Cell::same(dtypes),
        Cell::number(Some(table.rows as f64), |n| format!("{n:.0}")),
        Cell::same(sizes),
        Cell::number(Some(left as f64), |n| format!("{n:.0}")),
    ]
}

/// The columns of CSV, as recorded measurements have them.
const CSV: &[&str] = &[
    "collective",
    "n_ranks",
    "nodes",
    "bytes",
    "dtype",
    "in_place",
    "time_us",
    "algbw_GBps",
    "busbw_GBps",
    "wrong",
    "library",
    "format",
    "file",
    "line",
    "calls",
    "skew_us",
    "late_rank",
    "upper_bound",
    "waited_us",
    "late_share",
    "exposed",
    "system",
    "shares_gpus",
    "caveats",
];

/// Writes rows as CSV, of which `import` reads every column that says something of a time.
///
/// # Errors
/// The writer's.
pub fn csv(out: &mut impl Write, rows: impl Iterator<Item = Measurement>) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(CSV)?;
    for row in rows {
        let text = |x: Option<f64>| x.map_or(String::new(), |x| x.to_string());
        let micros = |x: Option<Seconds>| text(x.map(|x| (x.0 * 1e9).round() / 1e3));
        let part = |x: Option<Ratio>| text(x.map(|x| (x.0 * 1e6).round() / 1e6));
        writer.write_record([
            row.measured,
            row.ranks.to_string(),
            row.nodes.map_or(String::new(), |n| n.to_string()),
            row.bytes.to_string(),
            row.dtype.map_or("", DataType::id).to_owned(),
            row.in_place.to_string(),
            text(row.time_us),
            text(row.algbw),
            text(row.busbw),
            row.wrong.map_or(String::new(), |n| n.to_string()),
            row.library,
            row.format.to_owned(),
            row.file,
            row.line.to_string(),
            row.traced.map_or(String::new(), |t| t.calls.to_string()),
            micros(row.traced.and_then(|t| t.skew)),
            row.traced.and_then(|t| t.latest).map_or(String::new(), |(rank, _)| rank.to_string()),
            row.traced.map_or(String::new(), |t| t.at_most.to_string()),
            micros(row.traced.and_then(|t| t.waited)),
            part(row.traced.and_then(|t| t.latest).map(|(_, share)| share)),
            part(row.traced.and_then(|t| t.exposed)),
            row.system,
            if row.shares_gpus { "true".to_owned() } else { String::new() },
            row.caveats.join(CAVEATS),
        ])?;
    }
    writer.flush()
}

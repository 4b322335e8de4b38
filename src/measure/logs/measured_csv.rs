//! Measurements as CSV with named columns, as `collcost import --to csv` writes them.
//!
//! ```text
//! collective,n_ranks,nodes,bytes,dtype,time_us,algbw_GBps,busbw_GBps
//! all_reduce,8,1,1048576,float,27.76,37.78,66.11
//! ```
//!
//! `collective`, `n_ranks` (or `ranks`), `bytes` as nccl-tests counts them, and `time_us` are required;
//! `dtype`, `nodes`, `in_place`, `library`, `version` and `system` are read if present.
//! Rows with the same collective, N and library form a table. A table of rates without times is refused:
//! its sizes are mostly in `MB` of one kind or the other, which differ by 4.9 %.

use super::draft::{Draft, Raw};
use super::{Line, Log, Measured, Read, Reader, Taken, Tested, field};
use crate::base::quantity::Bandwidth;
use crate::base::refused::Refused;
use crate::machine::sample::{DataType, Mode};

/// The positions of the columns.
#[derive(Debug, Clone, Copy)]
struct Columns {
    count: usize,
    collective: usize,
    ranks: usize,
    bytes: usize,
    time: usize,
    nodes: Option<usize>,
    dtype: Option<usize>,
    in_place: Option<usize>,
    library: Option<usize>,
    version: Option<usize>,
    system: Option<usize>,
    rate: Option<usize>,
}

/// Reads tables.
#[derive(Default)]
pub(super) struct Table {
    columns: Option<Columns>,
    /// What the rows of the last table share.
    of: Vec<String>,
}

impl Reader for Table {
    fn take(&mut self, line: &Line, log: &mut Log) -> Read<Taken> {
        let text = line.text;
        if let Some(columns) = self.columns {
            return if text.contains(',') { self.row(line, log, columns) } else { Ok(Taken::No) };
        }
        let is_heading = text.starts_with(|c: char| c.is_ascii_alphabetic())
            && (text.contains("time_us") || text.contains("algbw"))
            && text.contains(',');
        if !is_heading {
            return Ok(Taken::No);
        }
        let names: Vec<&str> = text.split(',').map(str::trim).collect();
        let column = |all: &[&str]| names.iter().position(|n| all.contains(n));
        let rates = names.iter().any(|n| n.contains("algbw"));
        let time = column(&["time_us"]);
        let needed =
            (column(&["collective"]), column(&["n_ranks", "ranks"]), column(&["bytes"]), time);
        let (Some(collective), Some(ranks), Some(bytes), Some(time)) = needed else {
            let untimed = rates && !names.contains(&"time");
            if untimed && names.len() > 3 && names.iter().any(|n| n.starts_with("size")) {
                let what = "the table has rates without times, for sizes in an unknown kind of MB \
                            (10^6 or 2^20 bytes)";
                return Err(Refused::at(line.number, what)
                    .help("write the columns collective, ranks, bytes and time_us"));
            }
            return Ok(Taken::No);
        };
        self.columns = Some(Columns {
            count: names.len(),
            collective,
            ranks,
            bytes,
            time,
            nodes: column(&["nodes"]),
            dtype: column(&["dtype"]),
            in_place: column(&["in_place"]),
            library: column(&["library"]),
            version: column(&["version"]),
            system: column(&["system"]),
            rate: column(&["algbw_GBps"]),
        });
        Ok(Taken::Yes)
    }

    fn leave(&mut self) {
        self.columns = None;
    }
}

impl Table {
    fn row(&mut self, line: &Line, log: &mut Log, columns: Columns) -> Read<Taken> {
        let at = |what: String| {
            Refused::at(line.number, what)
                .help("write numbers: whole ranks and bytes, time_us above 0")
        };
        let quoted = line.text.contains('"').then(|| unquoted(line.text));
        let fields: Vec<&str> = match &quoted {
            Some(record) => record.iter().map(str::trim).collect(),
            None => line.text.split(',').map(str::trim).collect(),
        };
        if fields.len() != columns.count {
            return Err(at(format!("{} fields, not {}", fields.len(), columns.count)));
        }
        let text = |c: Option<usize>| c.map_or("", |c| fields[c]);
        let key = [columns.collective, columns.ranks].into_iter().map(|c| fields[c]).chain([
            text(columns.nodes),
            text(columns.library),
            text(columns.version),
            text(columns.system),
        ]);
        let mut taken = Taken::Yes;
        if !key.clone().eq(self.of.iter().map(String::as_str)) {
            self.of = key.map(str::to_owned).collect();
            let name = fields[columns.collective];
            let mut draft = Draft::new("csv", line.number, name);
            draft.tested = Some(match name {
                "one-way" => Tested::OneWay,
                "shift" => Tested::Shift,
                "rate" => Tested::Rate { both_ways: false },
                "rate-both-ways" => Tested::Rate { both_ways: true },
                name => match name.parse() {
                    Ok(collective) => Tested::Collective(collective),
                    Err(error) => return Err(at(error.what().to_owned())),
                },
            });
            let ranks = field::whole(fields[columns.ranks]).and_then(|n| u32::try_from(n).ok());
            let ranks = ranks.filter(|&n| n > 0);
            let what = || at(format!("`{}` is not a number of ranks", fields[columns.ranks]));
            draft.ranks.push((ranks.ok_or_else(what)?, "column"));
            draft.nodes = text(columns.nodes).parse().ok();
            let library = [text(columns.library), text(columns.version)].join(" ");
            draft.library = Some(library.trim().to_owned()).filter(|l| !l.is_empty());
            draft.system = Some(text(columns.system).to_owned()).filter(|s| !s.is_empty());
            draft.mode = Mode::Isolated;
            log.tables.push(draft);
            taken = Taken::Began;
        }
        let (bytes, time) = (fields[columns.bytes], fields[columns.time]);
        let size =
            field::whole(bytes).ok_or_else(|| at(format!("`{bytes}` is not a number of bytes")))?;
        let Some(draft) = log.last() else { return Ok(taken) };
        let measured = match draft.tested {
            Some(Tested::Rate { .. }) => {
                let rate = text(columns.rate);
                let read = field::rate(rate, Bandwidth(1e9), line.number)?;
                Measured::Rate(read.ok_or_else(|| at(format!("`{rate}` is not a rate in GB/s")))?)
            }
            _ => {
                let span = field::micros(time, line.number)?;
                let what = || at(format!("`{time}` is not a time in microseconds"));
                Measured::Time(span.ok_or_else(what)?)
            }
        };
        draft.rows.push(Raw {
            line: line.number,
            size,
            count: None,
            dtype: DataType::named(text(columns.dtype)),
            in_place: matches!(text(columns.in_place), "true" | "1"),
            measured,
            wrong: None,
            factor: None,
            redop: None,
            root: None,
        });
        Ok(taken)
    }
}

/// The fields of a line with quoted fields; `None` if the line is not valid CSV.
fn unquoted(text: &str) -> csv::StringRecord {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
    reader.records().next().and_then(std::result::Result::ok).unwrap_or_default()
}

//! Published points, each with its machine.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bytes, Seconds};
use crate::machine::sample::DataType;
use crate::measure::logs::{Imported, Measured, Tested};

/// One published time.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    /// The cluster.
    pub cluster: String,
    /// The built-in machine that predicts it.
    pub profile: String,
    /// The operation.
    pub collective: Collective,
    /// N.
    pub ranks: u32,
    /// The number of nodes over which the ranks are spread evenly.
    pub nodes: u32,
    /// M.
    pub size: Bytes,
    /// The measured time.
    pub time: Seconds,
    /// The date of publication, the year first.
    pub published: Option<String>,
}

#[derive(Deserialize)]
struct Line {
    cluster: String,
    profile: String,
    collective: String,
    n: u32,
    nodes: u32,
    bytes: u64,
    time_us: f64,
    #[serde(default)]
    published: String,
    judged: Option<String>,
}

/// The columns that a table of published points must have.
const COLUMNS: [&str; 7] = ["cluster", "profile", "collective", "n", "nodes", "bytes", "time_us"];

/// Whether a text begins like a table of published points.
#[must_use]
pub fn is_published(text: &str) -> bool {
    let head = text.lines().find(|l| !l.starts_with('#') && !l.trim().is_empty());
    let columns: Vec<&str> = head.unwrap_or_default().split(',').map(str::trim).collect();
    COLUMNS.iter().all(|c| columns.contains(c))
}

fn reader(text: &str) -> csv::Reader<&[u8]> {
    let mut reader = csv::ReaderBuilder::new();
    reader.comment(Some(b'#')).trim(csv::Trim::All).flexible(true);
    reader.from_reader(text.as_bytes())
}

/// The points of a table; those with `judged` 0 are left out.
///
/// # Errors
/// An unreadable line; a time of zero; ranks that are not spread evenly over nodes.
pub fn published(text: &str, origin: &str) -> Result<Vec<Published>> {
    let mut points = Vec::new();
    let mut reader = reader(text);
    let headers = reader.headers().cloned().map_err(|e| wrong(&e, origin))?;
    for record in reader.records() {
        let record = record.map_err(|e| wrong(&e, origin))?;
        let line = record.position().map_or(0, csv::Position::line);
        let place = format!("{origin}:{line}");
        let of: Line = record.deserialize(Some(&headers)).map_err(|e| wrong(&e, &place))?;
        if of.judged.as_deref() == Some("0") {
            continue;
        }
        if of.n < 2 || of.nodes == 0 || !of.n.is_multiple_of(of.nodes) {
            let what = format!("{} ranks are not spread evenly over {} nodes", of.n, of.nodes);
            return Err(Error::input(what).at(place).help("leave out the line"));
        }
        if !of.time_us.is_finite() || of.time_us <= 0.0 || of.bytes == 0 {
            return Err(Error::input("a time or a size is not above 0")
                .at(place)
                .help("leave out the line"));
        }
        points.push(Published {
            collective: of.collective.parse().map_err(|e: Error| e.at(place))?,
            cluster: of.cluster,
            profile: of.profile,
            ranks: of.n,
            nodes: of.nodes,
            size: Bytes(of.bytes),
            time: Seconds(of.time_us * 1e-6),
            published: Some(of.published).filter(|p| !p.is_empty()),
        });
    }
    Ok(points)
}

fn wrong(e: &csv::Error, place: &str) -> Error {
    Error::input(format!("not a table of published points: {e}"))
        .at(place)
        .help(format!("give the columns {}", COLUMNS.join(",")))
}

/// The machine of a table of measurements, and its collectives that are not counted.
#[derive(Debug, Clone, PartialEq)]
pub struct Mapped {
    /// The built-in machine.
    pub profile: String,
    /// Collectives, by id.
    pub without: Vec<Collective>,
}

#[derive(Deserialize)]
struct MapLine {
    file: String,
    profile: String,
    #[serde(default)]
    without: String,
}

/// The machines by file name: lines of `file,profile` and optionally `without`.
///
/// # Errors
/// An unreadable line; an unknown collective.
pub fn map(text: &str, origin: &str) -> Result<BTreeMap<String, Mapped>> {
    let help = "give the columns file,profile and optionally without";
    let read = |line: std::result::Result<MapLine, csv::Error>| {
        let line = line.map_err(|e| {
            Error::input(format!("not a map of tables to machines: {e}")).at(origin).help(help)
        })?;
        let without = line.without.split_whitespace().map(str::parse);
        let without = without.collect::<Result<_>>().map_err(|e| e.at(origin))?;
        Ok((line.file, Mapped { profile: line.profile, without }))
    };
    reader(text).deserialize().map(read).collect()
}

/// The points of tables that `map` names; those of other files are left out.
#[must_use]
pub fn of_logs(logs: &[(String, Imported)], map: &BTreeMap<String, Mapped>) -> Vec<Published> {
    let mut points = Vec::new();
    for (file, log) in logs {
        let Some(mapped) = map.get(file) else { continue };
        let cluster = file.rsplit_once('.').map_or(file.as_str(), |f| f.0);
        for table in &log.tables {
            let (&Tested::Collective(collective), Some(ranks)) = (&table.tested, table.ranks)
            else {
                continue;
            };
            if mapped.without.contains(&collective) {
                continue;
            }
            let in_place = table.rows.iter().all(|r| r.in_place);
            for row in table.rows.iter().filter(|r| r.in_place == in_place && floats(r.dtype)) {
                let Measured::Time(time) = row.measured else { continue };
                points.push(Published {
                    cluster: cluster.to_owned(),
                    profile: mapped.profile.clone(),
                    collective,
                    ranks,
                    nodes: table.nodes.unwrap_or(1),
                    size: row.size,
                    time,
                    published: None,
                });
            }
        }
    }
    points
}

/// Floats of two or four bytes, or unstated; libraries reduce other types differently.
fn floats(dtype: Option<DataType>) -> bool {
    matches!(dtype, None | Some(DataType::F16 | DataType::F32))
}

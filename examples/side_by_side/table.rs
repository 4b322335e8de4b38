//! The table: a line a cell, and what the lines come to.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::cells::{Cell, Library, PEERS, Site};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Ours against one peer's in one cell.
pub struct Row {
    site: Site,
    op: String,
    size: u64,
    /// The peer, of [`PEERS`].
    pub peer: usize,
    name: &'static str,
    /// Spans of each round, in seconds.
    pub ours: Vec<Vec<f64>>,
    pub theirs: Vec<Vec<f64>>,
}

impl Row {
    /// One for each peer that has the cell's algorithm.
    pub fn of(site: Site, cell: &Cell) -> Vec<Self> {
        let row = |(peer, name)| Self {
            site,
            op: cell.op.clone(),
            size: cell.size,
            peer,
            name,
            ours: Vec::new(),
            theirs: Vec::new(),
        };
        let peers = PEERS.iter().enumerate();
        let peers = peers.filter(|(_, peer)| peer.fits(site));
        peers.filter_map(|(i, peer)| Some((i, peer.runs(cell)?))).map(row).collect()
    }

    pub fn is_of(&self, cell: &Cell) -> bool {
        self.op == cell.op && self.size == cell.size
    }

    fn library(&self) -> Library {
        PEERS[self.peer].library
    }

    /// The medians of all spans, ours and theirs.
    fn medians(&self) -> (f64, f64) {
        (median(&self.ours.concat()), median(&self.theirs.concat()))
    }

    /// Ours over theirs, by rounds.
    fn ratio(&self) -> f64 {
        let rounds = self.ours.iter().zip(&self.theirs);
        let ratios: Vec<f64> = rounds.map(|(a, b)| median(a) / median(b)).collect();
        median(&ratios)
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n => f64::midpoint(sorted[(n - 1) / 2], sorted[n / 2]),
    }
}

/// Prints the table in Markdown; with a folder also writes `table.md`, `table.csv` and
/// `spans.json`.
pub fn write(rows: &[Row], folder: Option<&Path>) -> Result<()> {
    let text = format!("{}\n{}", summary(rows)?, table(rows)?);
    println!("{text}");
    let Some(folder) = folder else { return Ok(()) };
    fs::create_dir_all(folder)?;
    fs::write(folder.join("table.md"), text)?;
    let mut csv = "site,ranks,operation,bytes,peer,algorithm,ours_s,theirs_s,ratio\n".to_owned();
    let mut json = Vec::new();
    for row in rows {
        let (site, ranks, peer) = (row.site.name(), row.site.ranks(), row.library().name());
        let (ours, theirs) = row.medians();
        writeln!(
            csv,
            "{site},{ranks},{},{},{peer},\"{}\",{ours:e},{theirs:e},{:.3}",
            row.op,
            row.size,
            row.name,
            row.ratio()
        )?;
        json.push(serde_json::json!({
            "site": site, "ranks": ranks, "operation": row.op, "bytes": row.size,
            "peer": peer, "algorithm": row.name,
            "ours_s": row.ours, "theirs_s": row.theirs,
        }));
    }
    fs::write(folder.join("table.csv"), csv)?;
    fs::write(folder.join("spans.json"), serde_json::to_string(&json)?)?;
    Ok(())
}

/// The median and the geometric mean of ours over theirs, by site and library.
fn summary(rows: &[Row]) -> Result<String> {
    let mut text = "| site | N | peer | cells | median ratio | geometric mean | slower in |\n\
                    |---|---|---|---|---|---|---|\n"
        .to_owned();
    for &site in Site::ALL {
        for libraries in [&[Library::OpenMpi][..], &[Library::Mpich], Library::ALL] {
            let of = |row: &&Row| row.site == site && libraries.contains(&row.library());
            let ratios: Vec<f64> = rows.iter().filter(of).map(Row::ratio).collect();
            if ratios.is_empty() {
                continue;
            }
            let peer = if libraries.len() > 1 { "both" } else { libraries[0].name() };
            let logs: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
            let mean = (logs / ratios.len() as f64).exp();
            let slower = ratios.iter().filter(|&&ratio| ratio > 1.0).count();
            let (site, ranks, all) = (site.name(), site.ranks(), ratios.len());
            let middle = median(&ratios);
            writeln!(
                text,
                "| {site} | {ranks} | {peer} | {all} | {middle:.2} | {mean:.2} | {slower} |"
            )?;
        }
    }
    Ok(text)
}

fn table(rows: &[Row]) -> Result<String> {
    let mut text = "| site | operation | bytes | peer | ours, µs | theirs, µs | ours/theirs |\n\
                    |---|---|---|---|---|---|---|\n"
        .to_owned();
    for row in rows {
        let (ours, theirs) = row.medians();
        let (ours, theirs) = (ours * 1e6, theirs * 1e6);
        let peer = format!("{} {}", row.library().name(), row.name);
        let (site, op, size, ratio) = (row.site.name(), &row.op, row.size, row.ratio());
        writeln!(
            text,
            "| {site} | {op} | {size} | {peer} | {ours:.2} | {theirs:.2} | {ratio:.2} |"
        )?;
    }
    Ok(text)
}

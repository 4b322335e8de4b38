//! Communicators as a table: one line each, with the columns of NCCL's tuner inputs.
//!
//! Columns are found by their names; other columns are ignored. Graphs have the prefixes `ring`,
//! `tree`, `cnd` and `cnc` (in-network reduction, direct and as chains) and `nvls`.

use std::collections::HashMap;

use csv::StringRecord;

use super::cost_model::Reach;
use super::{Arch, Communicator, Ctas, Gbps, Graph, Micros, PathType, Vendor};
use crate::base::error::{Error, Result};

/// A communicator with its name.
#[derive(Debug, Clone, PartialEq)]
pub struct Named {
    /// The `id` column.
    pub id: String,
    /// The communicator.
    pub comm: Communicator,
}

/// Reads a table of communicators.
///
/// # Errors
/// No line; a missing column, a value of the wrong form, no channels, ranks that do not fit on
/// their nodes, two lines with one id. Each names the line.
pub fn read(text: &str) -> Result<Vec<Named>> {
    let mut found: Vec<Named> = Vec::new();
    let mut lines: HashMap<String, u64> = HashMap::new();
    records(text, |record| {
        let id = record.text("id")?.to_owned();
        if let Some(before) = lines.insert(id.clone(), record.line) {
            return Err(Error::input(format!("`{id}` is already on line {before}"))
                .help("give every communicator its own id"));
        }
        let comm = communicator(record, record.whole("nranks")?, record.whole("nnodes")?)?;
        found.push(Named { id, comm });
        Ok(())
    })?;
    if found.is_empty() {
        return Err(Error::input("the table has no communicator")
            .help("write a line that names the columns, and below it one line per communicator"));
    }
    Ok(found)
}

/// A line of a table with its columns' names.
pub(super) struct Record<'a> {
    columns: &'a [&'a str],
    fields: &'a [&'a str],
    line: u64,
    /// The prefix of the requested columns' names.
    prefix: &'static str,
}

/// Reads a table line by line; errors name the line.
pub(super) fn records(text: &str, mut each: impl FnMut(&Record) -> Result<()>) -> Result<()> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let broken = |error: csv::Error| {
        let line = error.position().map_or(1, csv::Position::line);
        Error::input("this is not a table of comma-separated values")
            .at(format!("line {line}"))
            .help("give every line as many fields as the first line")
    };
    let header = reader.headers().map_err(broken)?.clone();
    let columns: Vec<&str> = header.iter().collect();
    let mut read = StringRecord::new();
    while reader.read_record(&mut read).map_err(broken)? {
        let line = read.position().map_or(0, csv::Position::line);
        let fields: Vec<&str> = read.iter().collect();
        let record = Record { columns: &columns, fields: &fields, line, prefix: "" };
        each(&record).map_err(|e| e.within(&format!("line {line}")))?;
    }
    Ok(())
}

/// Reads one line of a table without quotes or blanks. A full reader takes longer to prepare than
/// this takes to read.
pub(super) fn plain<T>(
    columns: &str,
    line: &str,
    read: impl FnOnce(&Record) -> Result<T>,
) -> Result<T> {
    let split = |line| -> Vec<&str> { str::split(line, ',').collect() };
    let (columns, fields) = (split(columns), split(line));
    read(&Record { columns: &columns, fields: &fields, line: 0, prefix: "" })
}

impl Record<'_> {
    /// The position of a column; if several have the name, the last one.
    fn column(&self, name: &str) -> Option<usize> {
        // Lengths tell most of them apart: a start looks for sixty columns among sixty.
        let length = self.prefix.len() + name.len();
        let is_it = |c: &&str| c.len() == length && c.ends_with(name) && c.starts_with(self.prefix);
        self.columns.iter().rposition(is_it)
    }

    /// The same for columns whose names begin with `prefix`.
    fn of(&self, prefix: &'static str) -> Self {
        Self { prefix, ..*self }
    }

    pub(super) fn text(&self, column: &str) -> Result<&str> {
        self.column(column).and_then(|i| self.fields.get(i).copied()).ok_or_else(|| {
            Error::input(format!("the table has no column `{}{column}`", self.prefix))
                .help("the first line names the columns")
        })
    }

    /// The first column if the table has it, otherwise the second.
    fn either<'c>(&self, first: &'c str, second: &'c str) -> &'c str {
        if self.column(first).is_some() { first } else { second }
    }

    pub(super) fn whole(&self, column: &str) -> Result<u32> {
        let text = self.text(column)?;
        text.parse().map_err(|_| {
            Error::input(format!("`{text}` is not a whole number of {}{column}", self.prefix))
                .help("write one such as 8")
        })
    }

    fn flag(&self, column: &str) -> Result<bool> {
        Ok(self.whole(column)? != 0)
    }

    fn float(&self, column: &str) -> Result<f32> {
        let text = self.text(column)?;
        let number = text.parse::<f32>().ok().filter(|n| n.is_finite() && *n >= 0.0);
        number.ok_or_else(|| {
            Error::input(format!("`{text}` is not a value of {}{column}", self.prefix))
                .help("write a number such as 24 or 12.5")
        })
    }
}

/// The communicator of a line, for this many ranks and nodes.
pub(super) fn communicator(record: &Record, ranks: u32, nodes: u32) -> Result<Communicator> {
    // Start-up gives rings and trees as many channels as the smaller of the two.
    let (ring, tree) = (graph(&record.of("ring_"))?, graph(&record.of("tree_"))?);
    let channels = ring.channels.min(tree.channels);
    let comm = Communicator {
        ranks,
        nodes,
        local_ranks: record.whole("localranks")?,
        min_cc: record.whole("mincc")?,
        max_cc: record.whole("maxcc")?,
        arch: Arch::named(record.text("cpuarch")?)?,
        vendor: Vendor::named(record.text("cpuvendor")?)?,
        channels: record.whole("nchannels")?,
        call_channels: record.whole(record.either("collchannels", "nchannels"))?,
        nvls_channels: record.whole("nvlschannels")?,
        nvls: record.flag("nvlssupport")?,
        collnet: record.flag("collnet")?,
        collnet_heads: record.whole("collnetheads")?,
        collnet_chain: record.flag("collnetchain")?,
        nvswitch: record.flag("nvscount")?,
        ring: Graph { channels, ..ring },
        tree: Graph { channels, ..tree },
        collnet_direct_graph: graph(&record.of("cnd_"))?,
        collnet_chain_graph: graph(&record.of("cnc_"))?,
        nvls_graph: graph(&record.of("nvls_"))?,
        reach: None,
        ctas: Ctas::default(),
    };
    let comm = Communicator { reach: reach(record, &comm)?, ..comm };
    comm.check()?;
    comm.check_channels()?;
    Ok(comm)
}

/// The properties that windows need, if the table has them; without `ncta` its default is used.
fn reach(record: &Record, comm: &Communicator) -> Result<Option<Reach>> {
    if record.column("lsasize").is_none() {
        return Ok(None);
    }
    let blocks_per_channel = match record.column("ncta").is_some() {
        true => record.whole("ncta")?,
        false => Reach::of(comm).blocks_per_channel,
    };
    Ok(Some(Reach {
        nic: Gbps(record.float("minnetbw")?),
        direct: record.flag("alldirectnvlink")?,
        domain: record.whole("lsasize")?,
        symmetric: record.flag("symsupport")?,
        blocks_per_channel,
    }))
}

fn graph(record: &Record) -> Result<Graph> {
    Ok(Graph {
        pattern: record.whole("pattern")?,
        channels: record.whole("nch")?,
        intra: Gbps(record.float("bwintra")?),
        inter: Gbps(record.float("bwinter")?),
        latency_inter: Micros(record.float("latinter")?),
        type_intra: PathType::named(record.text("typeintra")?)?,
        type_inter: PathType::named(record.text("typeinter")?)?,
        cross_nic: record.whole("crossnic")?,
        same_channels: record.flag("samech")?,
    })
}

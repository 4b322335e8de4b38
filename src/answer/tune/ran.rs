//! What NCCL ran in a log: as its own lines report it, as its environment forced it, or as the user
//! states it.

use super::evidence::{Evidence, Timed};
use super::nccl::{Cell, Own};
use crate::base::error::{Error, Result};
use crate::base::quantity::Bytes;
use crate::library::nccl::log::{Choice, Log};
use crate::library::nccl::{
    Algo, Call, Chooser, Function, Proto, Reduction, Settings, Table, Version,
};
use crate::machine::sample::DataType;
use crate::measure::logs::{self, Measured, Tested};

/// The word for NCCL's own choice if the user states what ran.
pub const OWN: &str = "own";

/// The user's statement about a log: `own`, `Tree` or `Tree/LL128`.
///
/// # Errors
/// Other words.
pub fn said(text: &str) -> Result<Settings> {
    let mut settings = Settings::default();
    if text.eq_ignore_ascii_case(OWN) {
        return Ok(settings);
    }
    let (algo, proto) = match text.split_once('/') {
        Some((algo, proto)) => (algo, Some(proto)),
        None => (text, None),
    };
    settings.set("NCCL_ALGO", Algo::named(algo)?.name())?;
    if let Some(proto) = proto {
        settings.set("NCCL_PROTO", Proto::named(proto)?.name())?;
    }
    Ok(settings)
}

/// The source of what a log's calls ran.
enum Ran {
    /// NCCL's rules under an environment.
    Rules(Box<Table>),
    /// Lines in which NCCL reports it.
    Lines(Vec<Choice>),
}

/// Adds the times of a log of the communicator: `text` unchanged, from `file`; `said` if the user
/// states what ran. Only collectives that are `wanted` count.
///
/// # Errors
/// Not a benchmark log; nothing that shows what ran; no time of this communicator and version.
pub fn take(
    evidence: &mut Evidence<'_>,
    own: &Own,
    (text, file): (&str, &str),
    said: Option<&Settings>,
    wanted: &dyn Fn(Function) -> bool,
) -> Result<()> {
    let asked = logs::Asked { ranks: Some(own.comm.ranks), ..logs::Asked::default() };
    let log = logs::read(text.as_bytes(), file, &asked)?;
    let ran = match said {
        Some(settings) => Ran::under(own, settings)?,
        None => Ran::told(own, text, file)?,
    };
    let mut why = None;
    let mut taken = 0;
    for table in &log.tables {
        if let Some(other) = other(table, own) {
            why.get_or_insert(other);
            continue;
        }
        let Tested::Collective(collective) = table.tested else { continue };
        let Some(function) = Function::of(collective).filter(|&f| wanted(f)) else { continue };
        let counts = |row: &&logs::Row| row.size.0 > 0 && row.wrong.is_none_or(|wrong| wrong == 0);
        for row in table.rows.iter().filter(counts) {
            let Measured::Time(time) = row.measured else { continue };
            let (size, dtype, mode) = (row.size, row.dtype, table.mode);
            let Some(cell) = ran.cell(own, function, size, dtype) else { continue };
            let file = file.rsplit('/').next().unwrap_or(file).to_owned();
            evidence.take(Timed { collective, size, dtype, mode, cell, time, file });
            taken += 1;
        }
    }
    if taken > 0 {
        return Ok(());
    }
    let why =
        why.unwrap_or_else(|| "none of its times is of a collective that is compared".to_owned());
    let (ranks, nodes) = (own.comm.ranks, own.comm.nodes);
    Err(Error::input(format!("the log says nothing about this communicator: {why}"))
        .at(file.to_owned())
        .help(format!("give logs of {ranks} ranks, nodes: {nodes}, NCCL {}", own.version)))
}

/// Why a table does not belong to the communicator.
fn other(table: &logs::Table, own: &Own) -> Option<String> {
    let (ranks, nodes) = (own.comm.ranks, own.comm.nodes);
    if let Some(found) = table.ranks.filter(|&found| found != ranks) {
        return Some(format!("it is of {found} ranks, not of {ranks}"));
    }
    if let Some(found) = table.nodes.filter(|&found| found != nodes) {
        return Some(format!("its nodes are {found}, not {nodes}"));
    }
    if table.shares_gpus {
        return Some("several of its ranks share a GPU".to_owned());
    }
    let library = table.library.as_deref()?;
    let version = library.strip_prefix("NCCL ").and_then(|v| v.parse::<Version>().ok());
    match version {
        Some(version) if version == own.version => None,
        _ => Some(format!("it is of {library}, but the file is for the rules of {}", own.version)),
    }
}

impl Ran {
    fn under(own: &Own, settings: &Settings) -> Result<Self> {
        Ok(Self::Rules(Box::new(Table::new(&own.comm, own.version, settings)?)))
    }

    /// What the log itself reports.
    fn told(own: &Own, text: &str, file: &str) -> Result<Self> {
        let help = format!(
            "say what ran, --log {OWN}={file} or --log Tree/LL128={file}; or log with \
             NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,TUNING"
        );
        let log = Log::read(text, file).map_err(|e| e.help(help.clone()))?;
        if !log.choices.is_empty() {
            return Ok(Self::Lines(log.choices));
        }
        let settings = log.settings()?;
        if settings.names_any() {
            return Self::under(own, &settings);
        }
        Err(Error::input("the log does not show which algorithm ran")
            .at(file.to_owned())
            .help(help))
    }

    /// What ran; `None` if that is not known.
    fn cell(
        &self,
        own: &Own,
        function: Function,
        size: Bytes,
        dtype: Option<DataType>,
    ) -> Option<Cell> {
        match self {
            Self::Rules(table) => {
                let reduction =
                    Reduction { element: dtype.unwrap_or(DataType::F32), ..Reduction::default() };
                let chooser = Chooser::new(&own.comm, own.version, table, reduction);
                let decided = chooser.decide(&Call { function, size, pipelined: 1 })?;
                Some((decided.algo, decided.proto))
            }
            Self::Lines(choices) => {
                let is_of = |choice: &&Choice| {
                    let blocks = if choice.is_per_rank() { own.comm.ranks } else { 1 };
                    choice.function.is_none_or(|f| f == function)
                        && choice.bytes.0.checked_mul(blocks.into()) == Some(size.0)
                };
                let mut cells = choices.iter().filter(is_of).map(|c| (c.algo, c.proto));
                let first = cells.next()?;
                cells.all(|cell| cell == first).then_some(first)
            }
        }
    }
}

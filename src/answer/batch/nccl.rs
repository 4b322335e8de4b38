//! NCCL's decisions replayed: questions as a table, answers as a table, in order.
//!
//! Questions have the columns `id`, `version`, `env`, `pipeops`, `collective` and `nbytes`; other
//! columns are ignored. An answer repeats them and adds `algo`, `proto`, `nchannels`, `nthreads`
//! and `time_us`. If NCCL would return an error, the algorithm is `NONE`; if it would not start a
//! communicator, `TUNE_RC5`.
//!
//! If there are columns `reg` (1: both buffers in symmetric windows) and `dtype`, the answer repeats
//! them at the end, followed by `kind` (`general`, `sym`, `ce`) and `kernel`.

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::rc::Rc;

use super::rows::{Row, Rows};
use crate::base::error::{Error, Result, did_you_mean};
use crate::base::quantity::Bytes;
use crate::library::nccl::comms::Named;
use crate::library::nccl::cost_model::{Best, Candidate, CostModel, Windows};
use crate::library::nccl::{
    self, Call, Chooser, Communicator, Function, Reduction, Settings, Table, Version, since,
};

const ASKED: [&str; 6] = ["id", "version", "env", "pipeops", "collective", "nbytes"];
const ANSWERED: [&str; 5] = ["algo", "proto", "nchannels", "nthreads", "time_us"];
/// Optional columns, and the columns that answer them.
const ON_WINDOWS: [&str; 2] = ["reg", "dtype"];
const OF_WINDOWS: [&str; 2] = ["kind", "kernel"];

/// The tables that questions refer to, and what has been prepared for them.
pub struct Replay<'a> {
    comms: HashMap<&'a str, &'a Communicator>,
    settings: &'a HashMap<String, Settings>,
    /// By id, version, environment and type; `None` if NCCL refuses the environment.
    prepared: HashMap<[String; 4], Option<Rc<Ready>>>,
}

/// What the questions of consecutive rows share.
#[derive(Default)]
struct Shared {
    /// Id, version, environment and type; none before the first row.
    communicator: Option<[String; 4]>,
    /// None where no communicator starts.
    ready: Option<Rc<Ready>>,
    /// The call, but for its size.
    call: Option<Call>,
    /// The fields that an answer repeats before the size.
    repeated: Vec<u8>,
    /// The first of these rows up to its size.
    row: Vec<u8>,
}

/// A communicator's decisions.
struct Ready {
    version: Version,
    chooser: Chooser,
    /// Consulted first for calls on windows, from 2.27.3 until the release whose chooser handles
    /// them itself.
    kernels: Option<Box<CostModel>>,
}

/// The possible answers.
enum Answer {
    /// No communicator starts.
    Refused,
    Taken(Option<Best>),
    Chosen(Option<nccl::Decision>),
}

impl<'a> Replay<'a> {
    /// Questions about these communicators, in these environments.
    #[must_use]
    pub fn new(comms: &'a [Named], settings: &'a HashMap<String, Settings>) -> Self {
        let comms = comms.iter().map(|n| (n.id.as_str(), &n.comm)).collect();
        Self { comms, settings, prepared: HashMap::new() }
    }

    /// Answers every question.
    ///
    /// # Errors
    /// The place and reason of the first line that is not a question, as [`Failed::Question`];
    /// reading
    /// or writing that fails, as [`Failed::Io`].
    pub fn answer(
        &mut self,
        questions: impl BufRead,
        mut answers: impl Write,
    ) -> std::result::Result<(), Failed> {
        let (mut rows, mut row) = (Rows::new(questions), Row::default());
        rows.read(&mut row, usize::MAX).map_err(|e| broken(&e))?;
        let columns = Columns::of(&row)?;
        let on_windows = columns.windows[0].is_some();
        let mut lines = columns.answered().into_bytes();
        let mut shared = Shared::default();
        while rows.read(&mut row, columns.needed).map_err(|e| broken(&e))? {
            let at = |e: Error| Failed::Question(e.at(format!("line {}", row.line)));
            if !columns.is_shared(&row, &shared) {
                self.share(&columns, &row, &mut shared).map_err(at)?;
            }
            lines.extend_from_slice(&shared.repeated);
            let size = row.field(columns.size());
            push_field(&mut lines, size);
            let reg = columns.windows[0].map_or(&[][..], |column| row.field(column));
            let answer = match (&shared.ready, shared.call) {
                (Some(ready), Some(call)) => {
                    let on = match reg {
                        b"" | b"0" => Windows::None,
                        _ => Windows::Both,
                    };
                    let size = Bytes(whole(size, "nbytes").map_err(at)?);
                    Answer::of(ready, &Call { size, ..call }, on)
                }
                // It repeats whatever size was asked.
                _ => text(size).map(|_| Answer::Refused).map_err(at)?,
            };
            answer.push(&mut lines);
            if on_windows {
                let repeated = [text(reg).map_err(at)?, text(columns.dtype(&row)).map_err(at)?];
                answer.push_kind(&mut lines, repeated, shared.ready.as_deref());
            }
            lines.push(b'\n');
            if lines.len() > BUFFERED {
                answers.write_all(&lines).map_err(Failed::Io)?;
                lines.clear();
            }
        }
        answers.write_all(&lines).map_err(Failed::Io)?;
        answers.flush().map_err(Failed::Io)
    }

    /// Prepares for a row and those that follow it with other sizes.
    fn share(&mut self, columns: &Columns, row: &Row, shared: &mut Shared) -> Result<()> {
        let [id, version, env, pipeops, collective, _] = columns.asked.map(|c| row.field(c));
        let dtype = text(columns.dtype(row))?;
        let [id, version, env] = [text(id)?, text(version)?, text(env)?];
        let [pipeops, collective] = [text(pipeops)?, text(collective)?];
        let key = [id, version, env, dtype].map(str::to_owned);
        if shared.communicator.as_ref() != Some(&key) {
            shared.ready = self.ready(&key, columns.windows[0].is_some())?;
            shared.communicator = Some(key);
        }
        shared.call = shared.ready.as_ref().map(|_| call(pipeops, collective)).transpose()?;
        shared.repeated.clear();
        for field in [id, version, env, pipeops, collective] {
            push_field(&mut shared.repeated, field.as_bytes());
        }
        shared.row.clear();
        shared.row.extend_from_slice(row.before(columns.size()));
        Ok(())
    }

    fn ready(&mut self, key: &[String; 4], windows: bool) -> Result<Option<Rc<Ready>>> {
        if let Some(ready) = self.prepared.get(key) {
            return Ok(ready.clone());
        }
        let [id, version, env, dtype] = key;
        let comm =
            self.comms.get(id.as_str()).ok_or_else(|| {
                let ids = self.comms.keys().copied();
                Error::input(format!("`{id}` is not a communicator of the table"))
                    .help(did_you_mean(id, ids, || "name one of its ids".to_owned()))
            })?;
        let version = version.parse::<Version>()?;
        let none = Settings::default();
        let settings = match env.as_str() {
            "" => &none,
            env => self.settings.get(env).ok_or_else(|| {
                Error::input(format!("`{env}` is not one of the given environments"))
                    .help("leave it empty, or give a table of environments with --envs")
            })?,
        };
        let mut reduction = Reduction::default();
        if !dtype.is_empty() {
            reduction.element = nccl::element(dtype)?;
        }
        let table = match Table::new(comm, version, settings) {
            Ok(table) => Some(table),
            Err(error) if error.is_unsupported() => None,
            Err(error) => return Err(error),
        };
        let ready = match table {
            Some(table) => {
                let chooser = Chooser::new(comm, version, &table, reduction);
                let asks =
                    windows && chooser.models().is_none() && version.has(since::SYMMETRIC_KERNELS);
                let kernels = asks
                    .then(|| CostModel::new(comm, version, settings, reduction).map(Box::new))
                    .transpose()?;
                Some(Rc::new(Ready { version, chooser, kernels }))
            }
            None => None,
        };
        self.prepared.insert(key.clone(), ready.clone());
        Ok(ready)
    }
}

/// Why a replay ended early.
#[derive(Debug)]
pub enum Failed {
    /// A line that is not a question.
    Question(Error),
    /// Reading or writing.
    Io(std::io::Error),
}

fn broken(error: &csv::Error) -> Failed {
    match error.kind() {
        csv::ErrorKind::Io(io) => Failed::Io(std::io::Error::new(io.kind(), io.to_string())),
        _ => Failed::Question(
            Error::input("this is not a table of comma-separated values")
                .at(format!("line {}", error.position().map_or(1, csv::Position::line)))
                .help("give every line as many fields as the header line"),
        ),
    }
}

/// Where the columns are.
struct Columns {
    asked: [usize; ASKED.len()],
    windows: [Option<usize>; ON_WINDOWS.len()],
    /// No field behind these is read.
    needed: usize,
    /// Whether the other columns of a question, but for the type, come before the size.
    size_is_last: bool,
}

impl Columns {
    fn of(header: &Row) -> std::result::Result<Self, Failed> {
        let named =
            |name: &str| header.fields().position(|field| field.trim_ascii() == name.as_bytes());
        let mut asked = [0; ASKED.len()];
        for (column, name) in asked.iter_mut().zip(ASKED) {
            *column = named(name).ok_or_else(|| {
                Failed::Question(
                    Error::input(format!("the questions have no column `{name}`"))
                        .at("line 1")
                        .help(format!("name the columns {}", ASKED.join(", "))),
                )
            })?;
        }
        let windows = ON_WINDOWS.map(named);
        let last = asked.into_iter().chain(windows.into_iter().flatten()).max();
        let needed = last.map_or(0, |last| last + 1);
        let size = asked[ASKED.len() - 1];
        let size_is_last = asked.into_iter().max() == Some(size);
        Ok(Self { asked, windows, needed, size_is_last })
    }

    fn size(&self) -> usize {
        self.asked[ASKED.len() - 1]
    }

    /// Whether a row asks what the row before it did, but for the size and the windows.
    #[inline]
    fn is_shared(&self, row: &Row, shared: &Shared) -> bool {
        let Some([.., dtype]) = &shared.communicator else { return false };
        self.size_is_last
            && row.before(self.size()) == shared.row
            && self.dtype(row) == dtype.as_bytes()
    }

    #[inline]
    fn dtype<'r>(&self, row: &'r Row) -> &'r [u8] {
        self.windows[1].map_or(&[], |column| row.field(column))
    }

    /// The heading of the answers, with its line end.
    fn answered(&self) -> String {
        let mut names = [&ASKED[..], &ANSWERED[..]].concat();
        if self.windows[0].is_some() {
            names.extend(ON_WINDOWS.into_iter().chain(OF_WINDOWS));
        }
        names.join(",") + "\n"
    }
}

fn text(field: &[u8]) -> Result<&str> {
    std::str::from_utf8(field)
        .map_err(|_| Error::input("this is not UTF-8 text").help("write the table as UTF-8"))
}

/// Bytes of answers that are written at once.
const BUFFERED: usize = 1 << 16;

/// Whether some of a text needs quotes in a table. All bytes are checked, several at once.
fn needs_quotes(text: &[u8]) -> bool {
    text.iter().fold(false, |found, byte| found | matches!(byte, b',' | b'"' | b'\n' | b'\r'))
}

/// A field with the comma after it, in quotes if it needs them.
fn push_field(line: &mut Vec<u8>, field: &[u8]) {
    if needs_quotes(field) {
        line.push(b'"');
        for &byte in field {
            line.push(byte);
            line.extend((byte == b'"').then_some(byte));
        }
        line.push(b'"');
    } else {
        line.extend_from_slice(field);
    }
    line.push(b',');
}

fn whole(field: &[u8], what: &str) -> Result<u64> {
    let text = text(field)?;
    text.parse::<u64>().map_err(|_| {
        Error::input(format!("`{text}` is not a value of {what}")).help("write a whole number")
    })
}

/// The question of a row, but for its size.
fn call(pipeops: &str, collective: &str) -> Result<Call> {
    let pipelined = u32::try_from(whole(pipeops.as_bytes(), "pipeops")?).ok().filter(|&p| p > 0);
    Ok(Call {
        function: Function::named(collective)?,
        size: Bytes(0),
        pipelined: pipelined.ok_or_else(|| {
            Error::input(format!("`{pipeops}` is not a value of pipeops")).help("write 1 or more")
        })?,
    })
}

impl Answer {
    #[inline]
    fn of(ready: &Ready, call: &Call, windows: Windows) -> Self {
        let Ready { chooser, kernels, .. } = ready;
        let kernels = kernels.as_ref().filter(|_| windows == Windows::Both);
        match chooser.models() {
            None => match kernels.and_then(|kernels| kernels.instead_of(chooser, call)) {
                None => Self::Chosen(chooser.decide(call)),
                kernel => Self::Taken(kernel),
            },
            Some(models) => {
                let best = models.decide(call, windows);
                match best.and_then(|best| best.decision()) {
                    Some(decision) => Self::Chosen(Some(decision)),
                    None => Self::Taken(best),
                }
            }
        }
    }

    /// The answer's fields.
    fn push(&self, line: &mut Vec<u8>) {
        match self {
            Self::Refused => line.extend_from_slice(b"TUNE_RC5,,,,"),
            Self::Chosen(None) => line.extend_from_slice(b"NONE,NONE,,,"),
            Self::Taken(None) => line.extend_from_slice(b"NONE,,,,"),
            Self::Chosen(Some(decision)) => {
                for name in [decision.algo.name(), decision.proto.name()] {
                    line.extend_from_slice(name.as_bytes());
                    line.push(b',');
                }
                push_blocks(line, decision.channels, decision.threads, decision.time);
            }
            Self::Taken(Some(best)) if matches!(best.candidate, Candidate::Copied(_)) => {
                line.extend_from_slice(b",,,,");
                if let Some(time) = best.time() {
                    nccl::write_float(line, time.0);
                }
            }
            Self::Taken(Some(best)) => {
                line.extend_from_slice(b",,");
                push_blocks(line, best.channels, best.threads, best.time());
            }
        }
    }

    /// The trailing fields, for a question about windows.
    fn push_kind(&self, line: &mut Vec<u8>, [reg, dtype]: [&str; 2], ready: Option<&Ready>) {
        line.push(b',');
        push_field(line, reg.as_bytes());
        push_field(line, dtype.as_bytes());
        line.extend_from_slice(match self {
            Self::Refused => b",",
            Self::Chosen(_) | Self::Taken(None) => b"general,",
            Self::Taken(Some(best)) if matches!(best.candidate, Candidate::Copied(_)) => b"ce,",
            Self::Taken(Some(_)) => b"sym,",
        });
        if let (Self::Taken(Some(best)), Some(ready)) = (self, ready) {
            line.extend_from_slice(best.candidate.name(ready.version).as_bytes());
        }
    }
}

fn push_blocks(line: &mut Vec<u8>, channels: u32, threads: u32, time: Option<nccl::Micros>) {
    nccl::write_whole(line, channels.into());
    line.push(b',');
    nccl::write_whole(line, threads.into());
    line.push(b',');
    if let Some(micros) = time {
        nccl::write_float(line, micros.0);
    }
}

/// Writes the tables of all communicators, versions and environments, one line per cell.
///
/// If NCCL refuses an environment there is no table, and so no line.
///
/// # Errors
/// A write error.
pub fn write_tables(
    out: &mut impl Write,
    comms: &[Named],
    versions: &[Version],
    envs: &[(String, Settings)],
) -> std::io::Result<()> {
    write!(out, "id,version,env,collective,algo,proto,latency_us,bandwidth_GBps,maxthreads")?;
    // Since 2.31 the bandwidth no longer shows what may run.
    let says_enabled = versions.iter().all(|version| version.has(since::COST_MODELS));
    writeln!(out, "{}", if says_enabled { ",enabled" } else { "" })?;
    for &version in versions {
        for (env, settings) in envs {
            for Named { id, comm } in comms {
                let Ok(table) = Table::new(comm, version, settings) else { continue };
                for (function, algo, proto) in Table::cells(version) {
                    let latency = nccl::float(table.latency(function, algo, proto).0);
                    let bandwidth = nccl::float(table.bandwidth(function, algo, proto).0);
                    let threads = table.threads(algo, proto);
                    write!(
                        out,
                        "{id},{version},{env},{function},{algo},{proto},{latency},{bandwidth},{threads}"
                    )?;
                    match table.models().filter(|_| says_enabled) {
                        Some(models) => {
                            let runs = models.cell(function, algo, proto).runs;
                            writeln!(out, ",{}", u8::from(runs))?;
                        }
                        None => writeln!(out)?,
                    }
                }
            }
        }
    }
    Ok(())
}

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
use std::io::{Read, Write};

use csv::{ByteRecord, StringRecord};

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
    prepared: HashMap<[String; 4], Option<Ready>>,
}

/// A communicator's decisions.
#[derive(Clone)]
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
        questions: impl Read,
        mut answers: impl Write,
    ) -> std::result::Result<(), Failed> {
        let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(questions);
        let header = reader.headers().map_err(|e| broken(&e))?.clone();
        let columns = columns(&header)?;
        let windows = ON_WINDOWS.map(|name| header.iter().position(|h| h.trim() == name));
        let mut lines = ASKED.join(",") + "," + &ANSWERED.join(",");
        if windows[0].is_some() {
            lines += &format!(",{},{}", ON_WINDOWS.join(","), OF_WINDOWS.join(","));
        }
        lines.push('\n');
        let mut key: [String; 4] = Default::default();
        let mut ready: Option<Option<Ready>> = None;
        let mut line = ByteRecord::new();
        // Fields are cut from bytes: most are never decoded as text.
        while reader.read_byte_record(&mut line).map_err(|e| broken(&e))? {
            let at = |e: Error| {
                Failed::Question(
                    e.at(format!("line {}", line.position().map_or(0, csv::Position::line))),
                )
            };
            let text = std::str::from_utf8(line.as_slice()).map_err(|_| {
                at(Error::input("this is not UTF-8 text").help("write the table as UTF-8"))
            })?;
            let field = |i: usize| line.range(i).and_then(|range| text.get(range)).unwrap_or("");
            let asked: [&str; ASKED.len()] = columns.map(field);
            let [reg, dtype] = windows.map(|column| column.map_or("", field));
            let same = asked[..3].iter().zip(&key).all(|(field, key)| field == key);
            if ready.is_none() || !same || key[3] != dtype {
                key = [asked[0], asked[1], asked[2], dtype].map(str::to_owned);
                ready = Some(self.ready(&key, windows[0].is_some()).map_err(at)?);
            }
            // A field needs quotes only if some field of the line does, and few lines do.
            let quotes = needs_quotes(text);
            for field in asked {
                match quotes {
                    true => push_field(&mut lines, field),
                    false => {
                        lines.push_str(field);
                        lines.push(',');
                    }
                }
            }
            let tuner = ready.as_ref().and_then(Option::as_ref);
            let on = match reg {
                "" | "0" => Windows::None,
                _ => Windows::Both,
            };
            let answer = match tuner {
                None => Answer::Refused,
                Some(ready) => {
                    let call = call(asked[3], asked[4], asked[5]).map_err(at)?;
                    Answer::of(ready, &call, on)
                }
            };
            answer.push(&mut lines);
            if windows[0].is_some() {
                answer.push_kind(&mut lines, [reg, dtype], tuner);
            }
            lines.push('\n');
            if lines.len() > BUFFERED {
                answers.write_all(lines.as_bytes()).map_err(Failed::Io)?;
                lines.clear();
            }
        }
        answers.write_all(lines.as_bytes()).map_err(Failed::Io)?;
        answers.flush().map_err(Failed::Io)
    }

    fn ready(&mut self, key: &[String; 4], windows: bool) -> Result<Option<Ready>> {
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
        let element = if dtype.is_empty() { nccl::Element::default() } else { dtype.parse()? };
        let reduction = Reduction { element, ..Reduction::default() };
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
                Some(Ready { version, chooser, kernels })
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

/// Where the questions' columns are.
fn columns(header: &StringRecord) -> std::result::Result<[usize; ASKED.len()], Failed> {
    let mut columns = [0; ASKED.len()];
    for (column, name) in columns.iter_mut().zip(ASKED) {
        *column = header.iter().position(|h| h.trim() == name).ok_or_else(|| {
            Failed::Question(
                Error::input(format!("the questions have no column `{name}`"))
                    .at("line 1")
                    .help(format!("name the columns {}", ASKED.join(", "))),
            )
        })?;
    }
    Ok(columns)
}

/// Bytes of answers that are written at once.
const BUFFERED: usize = 1 << 16;

/// Whether some of a text needs quotes in a table. All bytes are checked, several at once.
fn needs_quotes(text: &str) -> bool {
    text.bytes().fold(false, |found, byte| found | matches!(byte, b',' | b'"' | b'\n' | b'\r'))
}

/// A field with the comma after it, in quotes if it needs them.
fn push_field(line: &mut String, field: &str) {
    if needs_quotes(field) {
        line.push('"');
        line.push_str(&field.replace('"', "\"\""));
        line.push('"');
    } else {
        line.push_str(field);
    }
    line.push(',');
}

/// The question of a line.
fn call(pipeops: &str, collective: &str, nbytes: &str) -> Result<Call> {
    let whole = |text: &str, what: &str| {
        text.parse::<u64>().map_err(|_| {
            Error::input(format!("`{text}` is not a value of {what}")).help("write a whole number")
        })
    };
    let pipelined = u32::try_from(whole(pipeops, "pipeops")?).ok().filter(|&p| p > 0);
    Ok(Call {
        function: Function::named(collective)?,
        size: Bytes(whole(nbytes, "nbytes")?),
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
    fn push(&self, line: &mut String) {
        match self {
            Self::Refused => line.push_str("TUNE_RC5,,,,"),
            Self::Chosen(None) => line.push_str("NONE,NONE,,,"),
            Self::Taken(None) => line.push_str("NONE,,,,"),
            Self::Chosen(Some(decision)) => {
                for name in [decision.algo.name(), decision.proto.name()] {
                    line.push_str(name);
                    line.push(',');
                }
                push_blocks(line, decision.channels, decision.threads, decision.time);
            }
            Self::Taken(Some(best)) if matches!(best.candidate, Candidate::Copied(_)) => {
                line.push_str(",,,,");
                nccl::write_float(line, best.time().0);
            }
            Self::Taken(Some(best)) => {
                line.push_str(",,");
                push_blocks(line, best.channels, best.threads, Some(best.time()));
            }
        }
    }

    /// The trailing fields, for a question about windows.
    fn push_kind(&self, line: &mut String, [reg, dtype]: [&str; 2], ready: Option<&Ready>) {
        line.push(',');
        push_field(line, reg);
        push_field(line, dtype);
        line.push_str(match self {
            Self::Refused => ",",
            Self::Chosen(_) | Self::Taken(None) => "general,",
            Self::Taken(Some(best)) if matches!(best.candidate, Candidate::Copied(_)) => "ce,",
            Self::Taken(Some(_)) => "sym,",
        });
        if let (Self::Taken(Some(best)), Some(ready)) = (self, ready) {
            line.push_str(&best.candidate.name(ready.version));
        }
    }
}

fn push_blocks(line: &mut String, channels: u32, threads: u32, time: Option<nccl::Micros>) {
    nccl::write_whole(line, channels.into());
    line.push(',');
    nccl::write_whole(line, threads.into());
    line.push(',');
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
    let (mut latency, mut bandwidth) = (String::new(), String::new());
    for &version in versions {
        for (env, settings) in envs {
            for Named { id, comm } in comms {
                let Ok(table) = Table::new(comm, version, settings) else { continue };
                for (function, algo, proto) in Table::cells(version) {
                    latency.clear();
                    bandwidth.clear();
                    nccl::write_float(&mut latency, table.latency(function, algo, proto).0);
                    nccl::write_float(&mut bandwidth, table.bandwidth(function, algo, proto).0);
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

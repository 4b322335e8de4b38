//! NCCL's decisions replayed: questions as a table, answers as a table, in order.
//!
//! Questions have the columns `id`, `version`, `env`, `pipeops`, `collective` and `nbytes`; others
//! are passed over. An answer repeats them and adds `algo`, `proto`, `nchannels`, `nthreads` and
//! `time_us`. Where NCCL would return an error, the algorithm is `NONE`; where it would not start
//! a communicator, `TUNE_RC5`.

use std::collections::HashMap;
use std::io::{Read, Write};

use csv::StringRecord;

use crate::base::error::{Error, Result, did_you_mean};
use crate::base::quantity::Bytes;
use crate::library::nccl::comms::Named;
use crate::library::nccl::{self, Call, Chooser, Communicator, Function, Settings, Table, Version};

const ASKED: [&str; 6] = ["id", "version", "env", "pipeops", "collective", "nbytes"];
const ANSWERED: [&str; 5] = ["algo", "proto", "nchannels", "nthreads", "time_us"];

/// What questions may refer to, and what has been prepared for them.
pub struct Replay<'a> {
    comms: HashMap<&'a str, &'a Communicator>,
    settings: &'a HashMap<String, Settings>,
    /// By id, version and environment; nothing where NCCL refuses the environment.
    prepared: HashMap<[String; 3], Option<Chooser>>,
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
    /// The place and reason of the first line that is no question, as [`Failed::Question`]; reading
    /// or writing that fails, as [`Failed::Io`].
    pub fn answer(
        &mut self,
        questions: impl Read,
        mut answers: impl Write,
    ) -> std::result::Result<(), Failed> {
        let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(questions);
        let columns = columns(&reader.headers().map_err(|e| broken(&e))?.clone())?;
        let mut lines = ASKED.join(",") + "," + &ANSWERED.join(",") + "\n";
        let mut key: [String; 3] = Default::default();
        let mut chooser: Option<Option<Chooser>> = None;
        let mut line = StringRecord::new();
        while reader.read_record(&mut line).map_err(|e| broken(&e))? {
            let at = |e: Error| {
                Failed::Question(
                    e.at(format!("line {}", line.position().map_or(0, csv::Position::line))),
                )
            };
            let field = |i: usize| line.get(columns[i]).unwrap_or("");
            if chooser.is_none() || (0..3).any(|i| key[i] != field(i)) {
                key = [field(0).to_owned(), field(1).to_owned(), field(2).to_owned()];
                chooser = Some(self.chooser(&key).map_err(at)?);
            }
            for i in 0..ASKED.len() {
                push_field(&mut lines, field(i));
            }
            let chooser = chooser.as_ref().and_then(Option::as_ref);
            push_answer(&mut lines, chooser, field(3), field(4), field(5)).map_err(at)?;
            if lines.len() > BUFFERED {
                answers.write_all(lines.as_bytes()).map_err(Failed::Io)?;
                lines.clear();
            }
        }
        answers.write_all(lines.as_bytes()).map_err(Failed::Io)?;
        answers.flush().map_err(Failed::Io)
    }

    fn chooser(&mut self, key: &[String; 3]) -> Result<Option<Chooser>> {
        if let Some(ready) = self.prepared.get(key) {
            return Ok(ready.clone());
        }
        let [id, version, env] = key;
        let comm = self.comms.get(id.as_str()).ok_or_else(|| {
            let ids = self.comms.keys().copied();
            Error::input(format!("`{id}` is no communicator of the table")).help(did_you_mean(
                id,
                ids,
                || "name one of its ids".to_owned(),
            ))
        })?;
        let version = version.parse::<Version>()?;
        let none = Settings::default();
        let settings = match env.as_str() {
            "" => &none,
            env => self.settings.get(env).ok_or_else(|| {
                Error::input(format!("`{env}` is no environment that was given"))
                    .help("leave it empty, or give a table of environments with --envs")
            })?,
        };
        let table = match Table::new(comm, version, settings) {
            Ok(table) => Some(table),
            Err(error) if error.is_unsupported() => None,
            Err(error) => return Err(error),
        };
        let ready = table.map(|t| Chooser::new(comm, version, &t, nccl::Reduction::default()));
        self.prepared.insert(key.clone(), ready.clone());
        Ok(ready)
    }
}

/// Why a replay ended early.
#[derive(Debug)]
pub enum Failed {
    /// A line that is no question.
    Question(Error),
    /// Reading or writing.
    Io(std::io::Error),
}

fn broken(error: &csv::Error) -> Failed {
    match error.kind() {
        csv::ErrorKind::Io(io) => Failed::Io(std::io::Error::new(io.kind(), io.to_string())),
        _ => Failed::Question(
            Error::input("this is no table of comma-separated values")
                .at(format!("line {}", error.position().map_or(1, csv::Position::line)))
                .help("give every line as many fields as the first one names"),
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

/// A field with the comma behind it, in quotes where it needs them.
fn push_field(line: &mut String, field: &str) {
    if field.contains([',', '"', '\n', '\r']) {
        line.push('"');
        line.push_str(&field.replace('"', "\"\""));
        line.push('"');
    } else {
        line.push_str(field);
    }
    line.push(',');
}

/// The answer's fields with the line's end.
fn push_answer(
    line: &mut String,
    chooser: Option<&Chooser>,
    pipeops: &str,
    collective: &str,
    nbytes: &str,
) -> Result<()> {
    let Some(chooser) = chooser else {
        line.push_str("TUNE_RC5,,,,\n");
        return Ok(());
    };
    let whole = |text: &str, what: &str| {
        text.parse::<u64>().map_err(|_| {
            Error::input(format!("`{text}` is no {what}")).help("write a whole number")
        })
    };
    let pipelined = u32::try_from(whole(pipeops, "pipeops")?).ok().filter(|&p| p > 0);
    let call = Call {
        function: Function::named(collective)?,
        size: Bytes(whole(nbytes, "nbytes")?),
        pipelined: pipelined.ok_or_else(|| {
            Error::input(format!("`{pipeops}` is no pipeops")).help("write 1 or more")
        })?,
    };
    let Some(decision) = chooser.decide(&call) else {
        line.push_str("NONE,NONE,,,\n");
        return Ok(());
    };
    push_field(line, decision.algo.name());
    push_field(line, decision.proto.name());
    nccl::write_whole(line, decision.channels.into());
    line.push(',');
    nccl::write_whole(line, decision.threads.into());
    line.push(',');
    if let Some(micros) = decision.time {
        nccl::write_float(line, micros.0);
    }
    line.push('\n');
    Ok(())
}

/// Writes the tables of all communicators, versions and environments, a line a cell.
///
/// Where NCCL refuses an environment there is no table, and so no line.
///
/// # Errors
/// Writing fails.
pub fn write_tables(
    out: &mut impl Write,
    comms: &[Named],
    versions: &[Version],
    envs: &[(String, Settings)],
) -> std::io::Result<()> {
    writeln!(out, "id,version,env,collective,algo,proto,latency_us,bandwidth_GBps,maxthreads")?;
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
                    writeln!(
                        out,
                        "{id},{version},{env},{function},{algo},{proto},{latency},{bandwidth},{threads}"
                    )?;
                }
            }
        }
    }
    Ok(())
}

//! Logs of NCCL under `NCCL_DEBUG=INFO`: graphs, tables and choices of the tuner.
//!
//! Lines of several ranks may be interleaved. NCCL's other lines and the lines of other programs are
//! ignored. A line of the tuner that is cut off or makes no sense is an error, so what is read is
//! complete.
//!
//! Useful logs have `NCCL_DEBUG_SUBSYS=INIT,GRAPH,TUNING,ENV`. The formats of 2.5 to 2.30 are read.

mod choice;
mod communicator;
mod graph;
mod line;
mod table;

use crate::base::error::{Error, Result};
use crate::base::refused::Refused;
use crate::library::nccl::topology::Knobs;
use crate::library::nccl::{Arch, Processor, Settings, Starting, Vendor};

pub use choice::{Choice, Detail};
pub use communicator::Known;
pub use graph::Search;
pub use table::{Layout, Table};

/// What a log reports about NCCL's tuner.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Log {
    /// The file.
    pub file: String,
    /// The number of lines whose contents were used.
    pub read: usize,
    /// Versions announced in the log, such as `2.29.7`.
    pub versions: Vec<At<String>>,
    /// The plugin that may replace what the tuner computes, if one was loaded.
    pub plugin: Option<String>,
    /// Environment variables, each with its value.
    pub environment: Vec<At<(String, String)>>,
    /// The results of each rank's search.
    pub searches: Vec<Search>,
    /// Tables.
    pub tables: Vec<Table>,
    /// The choices made for calls, in order.
    pub choices: Vec<Choice>,
    /// The algorithms and protocols that the environment left enabled, as 0, 1 and 2: per function,
    /// first the protocols, then the algorithms. NCCL prints it since 2.24 if the environment names
    /// any.
    pub matrices: Vec<At<Vec<Vec<u32>>>>,
    communicators: Vec<At<Ranks>>,
    channels: Vec<At<u32>>,
    coll_channels: Vec<At<(u32, Option<u32>)>>,
    /// LL's threshold of rings, which is 8 · ranks.
    ring_thresholds: Vec<At<u32>>,
    processors: Vec<At<Processor>>,
    switches: Vec<usize>,
    /// What lines of connections name; absent without such lines.
    pub connections: Option<Connections>,
}

/// The highest numbers in lines of connections, such as `Channel 01/0 : 0[0] -> 1[1] via P2P/IPC`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Connections {
    /// The highest channel of collectives; absent if all are of single messages.
    pub channel: Option<u32>,
    /// The highest rank.
    pub rank: u32,
}

impl Connections {
    /// Adds those of a line: a channel, perhaps with `/1` of a send or receive, which older releases do not print,
    /// and its two ends.
    fn add(&mut self, channel: &str, from: &str, to: &str) -> Option<()> {
        let (channel, kind) = channel.trim().split_once('/').unwrap_or((channel, "0"));
        let rank = |end: &str| end.trim().split('[').next()?.parse::<u32>().ok();
        let channel: u32 = channel.trim().parse().ok()?;
        self.rank = self.rank.max(rank(from)?).max(rank(to)?);
        self.channel = self.channel.max((kind.trim() == "0").then_some(channel));
        Some(())
    }
}

/// An item of a log, and its line.
#[derive(Debug, Clone, PartialEq)]
pub struct At<T> {
    /// The line, from 1.
    pub line: usize,
    /// The item.
    pub what: T,
    printer: String,
}

/// `nRanks 16 nNodes 2 localRanks 8`; not every line has the latter two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ranks {
    ranks: u32,
    nodes: Option<u32>,
    local: Option<u32>,
}

impl Log {
    /// Reads the text of `file`.
    ///
    /// # Errors
    /// A line of the tuner that is cut off or makes no sense, with its number; no line of NCCL's
    /// tuner at all.
    pub fn read(text: &str, file: &str) -> Result<Self> {
        Self::read_each(file, |take| text.lines().try_for_each(take))
    }

    /// The same of lines that `each` hands over one by one, since a log may be longer than memory.
    ///
    /// # Errors
    /// As [`Self::read`]; the errors of `each`.
    pub fn read_each(
        file: &str,
        each: impl FnOnce(&mut dyn FnMut(&str) -> Result<()>) -> Result<()>,
    ) -> Result<Self> {
        let refused = |refused: Refused| refused.error(file).or_help("copy the whole log again");
        let (mut reader, mut line) = (Reader::default(), 0);
        each(&mut |text| {
            line += 1;
            reader.line(text, line).map_err(refused)
        })?;
        let log = reader.finish(file).map_err(refused)?;
        if log.read == 0 {
            return Err(Error::input("the file has no line of NCCL's tuner")
                .at(file)
                .help("run the job with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH,TUNING,ENV"));
        }
        Ok(log)
    }

    /// The selected table: the only one, or number `pick`, counted from 1.
    ///
    /// # Errors
    /// Several tables and no pick; a pick that does not exist.
    pub fn table(&self, pick: Option<usize>) -> Result<Option<&Table>> {
        const NAMED: usize = 8;
        let lines: Vec<String> =
            self.tables.iter().take(NAMED).map(|t| t.line.to_string()).collect();
        let lines = match self.tables.len().saturating_sub(NAMED) {
            0 => lines.join(", "),
            more => format!("{} and {more} more", lines.join(", ")),
        };
        match (pick, self.tables.as_slice()) {
            (None, []) => Ok(None),
            (None, [table]) => Ok(Some(table)),
            (None, [_, second, ..]) => {
                let count = self.tables.len();
                let what = format!("the log has {count} tables, in lines {lines}");
                Err(Error::input(what)
                    .at(format!("{}:{}", self.file, second.line))
                    .help("select a communicator with nccl log FILE --table 1, --table 2 …, or give its part of the log"))
            }
            (Some(pick), tables) => {
                let found = pick.checked_sub(1).and_then(|i| tables.get(i));
                found.map(Some).ok_or_else(|| {
                    let what = match tables.len() {
                        0 => "the log has no table".to_owned(),
                        1 => format!("the log has one table, in line {lines}"),
                        n => format!("the log has {n} tables, in lines {lines}"),
                    };
                    Error::input(what)
                        .at(format!("--table {pick}"))
                        .help("count tables from 1, in the order of the log")
                })
            }
        }
    }

    /// The choices that belong to a table: all of them, or, if there are several tables, those that
    /// its printer made before the next table.
    pub fn choices_of<'a>(&'a self, table: Option<&Table>) -> impl Iterator<Item = &'a Choice> {
        let window = table.filter(|_| self.tables.len() > 1).map(|table| {
            let (_, behind) = self.window(table);
            (table.printer.clone(), table.line..behind)
        });
        self.choices.iter().filter(move |choice| {
            window.as_ref().is_none_or(|(printer, lines)| {
                choice.printer == *printer && lines.contains(&choice.line)
            })
        })
    }

    /// The version announced in the log.
    ///
    /// # Errors
    /// Two different ones.
    pub fn version(&self) -> Result<Option<&At<String>>> {
        let first = self.versions.first();
        let other = self.versions.iter().find(|v| first.is_some_and(|f| f.what != v.what));
        if let (Some(first), Some(other)) = (first, other) {
            let what = format!(
                "NCCL {} is announced in line {}, but {} in line {}",
                first.what, first.line, other.what, other.line
            );
            return Err(Error::input(what)
                .at(format!("{}:{}", self.file, other.line))
                .help("give the log of one job, or set --nccl"));
        }
        Ok(first)
    }

    /// The environment, as far as the tuner reads it.
    ///
    /// # Errors
    /// A value that the tuner cannot read; a variable with two values.
    pub fn settings(&self) -> Result<Settings> {
        let mut settings = Settings::default();
        self.each_set(&Settings::KNOWN, |name, value| settings.set(name, value))?;
        Ok(settings)
    }

    /// The environment, as far as start-up reads it.
    fn starting(&self) -> Result<Starting> {
        let mut knobs = Knobs::default();
        self.each_set(&Starting::KNOWN, |name, value| knobs.set(name, value).map(drop))?;
        Ok(knobs.start)
    }

    /// Sets each of some variables that the log prints.
    fn each_set(
        &self,
        known: &[&str],
        mut put: impl FnMut(&str, &str) -> Result<()>,
    ) -> Result<()> {
        let mut seen: Vec<&At<(String, String)>> = Vec::new();
        for set in &self.environment {
            let (name, value) = &set.what;
            if !known.contains(&name.as_str()) {
                continue;
            }
            let place = format!("{}:{}", self.file, set.line);
            if let Some(other) = seen.iter().find(|other| other.what.0 == *name) {
                if other.what.1 != *value {
                    let what = format!(
                        "{name} is `{}` in line {}, but `{value}` in line {}",
                        other.what.1, other.line, set.line
                    );
                    return Err(Error::input(what).at(place).help("give the log of one job"));
                }
                continue;
            }
            put(name, value).map_err(|e| e.at(place))?;
            seen.push(set);
        }
        Ok(())
    }
}

/// A log as read so far.
#[derive(Default)]
struct Reader {
    log: Log,
    tables: table::Tables,
    searches: graph::Searches,
    /// The last request to each printer's tuner.
    asked: Vec<(String, choice::Input)>,
    /// Rows that the last matrix still lacks.
    matrix: usize,
}

type Read<T> = std::result::Result<T, Refused>;

impl Reader {
    fn line(&mut self, text: &str, line: usize) -> Read<()> {
        let Some((printer, message)) = line::split(text) else { return Ok(()) };
        let found = self.matrix(message, line)?
            || self.tables.take(message, &printer, line)?
            || self.searches.take(message, &printer, line)?
            || self.choice(message, &printer, line)?
            || self.fact(message.trim(), &printer, line);
        if message.trim_start().starts_with("RCCL version") {
            let what = "the log is of RCCL, whose tuner has tables of its own";
            let help = "give a log of NCCL; collcost choose rccl computes RCCL's choices";
            return Err(Refused::at(line, what).help(help));
        }
        self.log.read += usize::from(found);
        Ok(())
    }

    fn finish(&mut self, file: &str) -> Read<Log> {
        let mut log = std::mem::take(&mut self.log);
        if self.matrix > 0 {
            let line = log.matrices.last().map_or(1, |matrix| matrix.line);
            return Err(Refused::at(line, "the matrix of enabled algorithms lacks rows"));
        }
        log.file = file.to_owned();
        log.tables = std::mem::take(&mut self.tables).finish()?;
        log.searches = std::mem::take(&mut self.searches).finish()?;
        Ok(log)
    }

    fn choice(&mut self, message: &str, printer: &str, line: usize) -> Read<bool> {
        if message.contains(choice::INPUT) {
            let input = choice::input(message, line)?;
            self.asked.retain(|(of, _)| of != printer);
            self.asked.extend(input.map(|input| (printer.to_owned(), input)));
            return Ok(true);
        }
        if message.contains(choice::BEST) {
            if let Some(at) = self.asked.iter().position(|(of, _)| of == printer) {
                let (_, asked) = self.asked.remove(at);
                self.log.choices.extend(choice::best(message, asked, printer, line)?);
            }
            return Ok(true);
        }
        if !message.contains(choice::MARK) {
            return Ok(false);
        }
        self.log.choices.push(choice::read(message, printer, line)?);
        Ok(true)
    }

    /// `Enabled NCCL Func/Proto/Algo Matrix:` and the rows below it, which have no prefix.
    fn matrix(&mut self, message: &str, line: usize) -> Read<bool> {
        if message.trim_start().starts_with("Enabled NCCL Func/Proto/Algo Matrix") {
            self.log.matrices.push(At { line, what: Vec::new(), printer: String::new() });
            self.matrix = 5;
            return Ok(true);
        }
        let Some(matrix) = self.log.matrices.last_mut().filter(|_| self.matrix > 0) else {
            return Ok(false);
        };
        let Some((name, rest)) = message.split_once('|') else { return Ok(false) };
        if name.trim() == "Function" {
            return Ok(true);
        }
        if rest.contains('/') || crate::library::nccl::Function::named(name.trim()).is_err() {
            return Ok(false);
        }
        let words = rest.split(|c: char| c == '|' || c.is_whitespace()).filter(|w| !w.is_empty());
        let row: std::result::Result<Vec<u32>, _> = words.map(str::parse).collect();
        match row {
            Ok(row) if row.len() >= 9 => matrix.what.push(row),
            _ => {
                return Err(Refused::at(
                    line,
                    "the row of enabled algorithms is cut off or damaged",
                ));
            }
        }
        self.matrix -= 1;
        Ok(true)
    }

    /// Single properties of a communicator and its machine.
    fn fact(&mut self, message: &str, printer: &str, line: usize) -> bool {
        let log = &mut self.log;
        let printer = || printer.to_owned();
        if let Some(version) = version(message) {
            log.versions.push(At { line, what: version.to_owned(), printer: printer() });
        } else if let Some(name) = message.strip_prefix("TUNER/Plugin: Using ") {
            let name = name.strip_prefix("tuner plugin ").unwrap_or(name).trim_end_matches('.');
            if name.starts_with("internal") {
                return false;
            }
            log.plugin = Some(name.to_owned());
        } else if let Some((name, value)) = message.split_once(" set by environment to ") {
            let number = value.strip_suffix('.').filter(|v| v.parse::<i64>().is_ok());
            let value = number.unwrap_or(value).to_owned();
            let name = name.rsplit(' ').next().unwrap_or(name).to_owned();
            log.environment.push(At { line, what: (name, value), printer: printer() });
        } else if message.starts_with("comm 0x") || message.starts_with("ncclCommInitRank") {
            let ranks = line::number_after(message, "nRanks");
            let ranks = ranks.or_else(|| line::number_after(message, "nranks"));
            let Some(ranks) = ranks else { return false };
            let nodes = line::number_after(message, "nNodes");
            let local = line::number_after(message, "localRanks");
            log.communicators.push(At {
                line,
                what: Ranks { ranks, nodes, local },
                printer: printer(),
            });
        } else if let Some(rest) =
            ["Channel ", "Ring "].iter().find_map(|w| message.strip_prefix(w))
        {
            let Some((numbers, ring)) = rest.split_once(" : ") else { return false };
            // A connection, whose second number means something else.
            if let Some((from, to)) = ring.split_once(" -> ") {
                let mut all = log.connections.unwrap_or_default();
                let added = all.add(numbers, from, to);
                log.connections = added.map(|()| all).or(log.connections);
                return added.is_some();
            }
            let count = numbers.split_once('/').and_then(|(_, count)| count.trim().parse().ok());
            let is_ring = ring.bytes().all(|b| b.is_ascii_digit() || b == b' ');
            let Some(count) = count.filter(|_| is_ring) else { return false };
            log.channels.push(At { line, what: count, printer: printer() });
        } else if let Some(rest) = message.strip_prefix("threadThresholds ") {
            let ring = rest.split('|').nth(1).and_then(|ring| ring.trim().split('/').next());
            let Some(ring) = ring.and_then(|ring| ring.parse().ok()) else { return false };
            log.ring_thresholds.push(At { line, what: ring, printer: printer() });
        } else if let Some((count, rest)) = message.split_once(" coll channels, ") {
            let Ok(count) = count.parse() else { return false };
            let nvls = rest.split(", ").find_map(|part| part.strip_suffix(" nvls channels"));
            let nvls = nvls.and_then(|n| n.parse().ok());
            log.coll_channels.push(At { line, what: (count, nvls), printer: printer() });
        } else if message.starts_with("CPU/") {
            let Some(processor) = processor(message) else { return false };
            log.processors.push(At { line, what: processor, printer: printer() });
        } else if message.starts_with('+') && message.contains(" - NVS/") {
            log.switches.push(line);
        } else {
            return false;
        }
        true
    }
}

/// `NCCL version 2.21.5+cuda12.4`, behind whatever a launcher puts there: NCCL itself prints no prefix up to 2.21.
fn version(message: &str) -> Option<&str> {
    let (before, rest) = message.split_once("NCCL version ")?;
    let is_prefix = before.is_empty() || before.ends_with([' ', ':', ']', ')', '>']);
    let version = rest.split(['+', '-', ' ']).next()?;
    (is_prefix && version.starts_with(|c: char| c.is_ascii_digit())).then_some(version)
}

/// `CPU/0-0 (1/2/-1)`: instruction set, vendor, model.
fn processor(message: &str) -> Option<Processor> {
    let (_, numbers) = message.split_once(" (")?;
    let mut numbers = numbers.strip_suffix(')')?.split('/');
    let arch = match numbers.next()? {
        "1" => Arch::X86,
        "2" => Arch::Power,
        "3" => Arch::Arm,
        _ => return None,
    };
    let vendor = match numbers.next()? {
        "1" => Vendor::Intel,
        "2" => Vendor::Amd,
        "3" => Vendor::Zhaoxin,
        "4" => Vendor::Mixed,
        _ => Vendor::Other,
    };
    numbers.next().map(|_| Processor { arch, vendor })
}

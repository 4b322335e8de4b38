//! The text output of nccl-tests and rccl-tests, in every layout of its heading.
//!
//! ```text
//! # nThread 1 nGpus 1 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20 …
//! #  Rank  0 Group  0 Pid   1000 on      node1 device  0 [0000:07:00] NVIDIA A100-SXM4-80GB
//! #                                                              out-of-place                   …
//! #       size         count      type   redop    root     time   algbw   busbw #wrong     time …
//! #        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us) …
//!            8             2     float     sum      -1    19.28    0.00    0.00      0    17.24 …
//! ```
//!
//! Columns are found by their names: up to 2.10 there is `error` instead of `#wrong`, and no `root`; an old all-gather
//! has neither `redop` nor `root`, and its algbw is its busbw; -M of 2.19 puts four more after each `#wrong`.
//! rccl-tests of 2026 puts `hipevt`, a time by events of the GPU, after each `time`, of which algbw still is.
//! The size is already M of [`Collective`](crate::Collective). `count` counts one rank's block, so it is
//! not a second size. The time has four digits and is used; algbw has two decimals and checks the time.
//!
//! Source: NVIDIA/nccl-tests 2.0 to 2.19.6 `src/util.cu`, `src/common.cu`; ROCm/rccl-tests
//! `src/common.cu`; ROCm/rocm-systems `projects/rccl-tests/src/util.cu`.

mod columns;
pub(super) mod devices;
pub(super) mod pieces;

use super::draft::{Draft, Raw, Redop};
use super::launcher::{self, Command};
use super::{Line, Log, Measured, Read, Reader, Taken, Tested, field};

use crate::base::quantity::{Bandwidth, Bytes, Ratio, Seconds, Volume};
use crate::base::refused::Refused;
use crate::machine::sample::{DataType, Mode};
use crate::measure::mock::PREDICTED;
use columns::{Columns, Place};
use devices::Devices;

/// AMD's library, which rccl-tests calls.
const RCCL: &str = "RCCL";

/// The library of AMD's GPUs, which reports its version as that of NCCL.
fn rccl(reported: Option<String>) -> String {
    match reported.as_deref().and_then(|library| library.strip_prefix("NCCL ")) {
        Some(version) => format!("{RCCL} {version}"),
        None => reported.filter(|library| library.starts_with(RCCL)).unwrap_or(RCCL.to_owned()),
    }
}

/// What a run prints before its table.
#[derive(Debug, Clone, Default)]
struct Run {
    /// The program, such as `all_reduce_perf`.
    program: Option<String>,
    threads: Option<u32>,
    gpus: Option<u32>,
    /// The number of calls between two readings of the clock.
    iterations: u32,
    /// How many calls are merged into one launch.
    merged: u32,
    /// How often a CUDA graph of the calls is launched; 0: there is none.
    graph: u32,
    devices: Devices,
    library: Option<String>,
    /// Whether there is a barrier between the calls.
    blocking: bool,
    /// Whether buffers begin between the boundaries that kernels read at.
    misaligned: bool,
    /// Whether `collcost mock` wrote it.
    predicted: bool,
}

/// Reads tables.
#[derive(Default)]
pub(super) struct Table {
    run: Run,
    columns: Option<Columns>,
    /// Whether the previous heading named only one place, and that is in-place.
    only_in_place: bool,
    /// Whether rows go to the last table.
    open: bool,
    /// Where the tables of this run begin: one for each of its cycles.
    first: usize,
    /// The tables that a closing line was about.
    concluded: usize,
    /// A program named since the last run began.
    next: Option<String>,
    /// Whether `collcost mock` wrote the run that begins next.
    predicted: bool,
    /// Whether commas separate the fields.
    commas: bool,
    /// A row of which pieces are still to come.
    pieces: Option<pieces::Row>,
}

impl Reader for Table {
    fn take(&mut self, line: &Line, log: &mut Log) -> Read<Taken> {
        if !line.text.contains(',') {
            return self.plain(line, log);
        }
        // Some keep its tables as CSV.
        let words = line.text.split([',', '"', ' ']).filter(|word| !word.is_empty());
        self.commas |= words.take(3).eq(CSV);
        if self.commas {
            let text = line.text.replace([',', '"'], " ");
            return self.plain(&Line { text: &text, ..*line }, log);
        }
        self.plain(line, log)
    }

    fn leave(&mut self) {
        self.open = false;
    }
}

/// The last line of a run, which names its program.
const CONCLUDED: &str = "Collective test concluded: ";

/// How the heading begins where commas separate the columns.
const CSV: [&str; 3] = ["size", "count", "type"];

/// The version that a code of NCCL or RCCL means: 22907 is 2.29.7; up to 2.8 it was 2804.
pub(super) fn version(code: u64) -> String {
    let base = if code < 10_000 { 1000 } else { 10_000 };
    format!("{}.{}.{}", code / base, code % base / 100, code % 100)
}

/// The library in a program's first line: `nccl-tests version 2.19.6 nccl-headers=22907 nccl-library=22907`.
fn of_codes(text: &str, id: &str) -> Option<String> {
    let number = |of: &str| devices::after(text, &format!("{id}-{of}="))?.parse().ok();
    let code = number("library").or(number("headers"))?;
    Some(match code {
        0 => id.to_uppercase(),
        code => format!("{} {}", id.to_uppercase(), version(code)),
    })
}

impl Table {
    fn plain(&mut self, line: &Line, log: &mut Log) -> Read<Taken> {
        if line.is_numeric() {
            return match self.piece(line, log)? {
                Some(taken) => Ok(taken),
                None => self.row(line, log),
            };
        }
        let text = line.bare();
        let Some(first) = text.as_bytes().first() else { return Ok(Taken::No) };
        Ok(match first {
            b'n' if text.starts_with("nThread ") => {
                log.begun = Some((line.number, "nccl-tests"));
                log.evidence.take(text);
                self.begin_run(text);
                Taken::Yes
            }
            b'n' if text.starts_with("nccl-tests version ") => {
                self.open = false;
                self.run.library = of_codes(text, "nccl");
                Taken::Yes
            }
            b'r' if text.starts_with("rccl-tests version ") => {
                self.open = false;
                self.run.library = of_codes(text, "rccl").or(Some(RCCL.to_owned()));
                Taken::Yes
            }
            b'r' if text.starts_with("rccl-tests: Version ") => {
                // It is the version of the tests, not of the library.
                self.run.library = Some(rccl(self.run.library.take()));
                Taken::Yes
            }
            b'P' if text.starts_with(PREDICTED) => {
                self.predicted = true;
                Taken::Yes
            }
            b'R' if text.starts_with("RCCL version ") => {
                let version = text["RCCL version ".len()..].trim_start_matches([':', ' ']);
                let version = version.split(['+', '-', ' ']).next().unwrap_or_default();
                self.run.library = Some(format!("{RCCL} {version}"));
                Taken::Yes
            }
            b'N' if text.starts_with("NCCL version ") => {
                let version = text["NCCL version ".len()..].split(['+', ' ']).next();
                self.run.library = version.map(|v| format!("NCCL {v}"));
                Taken::Yes
            }
            b'C' if text.starts_with("Collective test starting: ") => {
                self.next = text.rsplit(' ').next().map(str::to_owned);
                Taken::Yes
            }
            b'C' if text.starts_with(CONCLUDED) => {
                self.conclude(text[CONCLUDED.len()..].trim(), log);
                Taken::Yes
            }
            b'B' if text.starts_with("Blocking Enabled") => {
                self.run.blocking = true;
                Taken::Yes
            }
            b'U' if text.starts_with("Using devices") => {
                self.run.devices = Devices::default();
                Taken::Yes
            }
            b'R' if self.run.devices.take(text) => Taken::Yes,
            b'i' if text.starts_with("in-place") => {
                self.only_in_place = true;
                Taken::Yes
            }
            b'o' if text.starts_with("out-of-place") => {
                self.only_in_place = false;
                Taken::Yes
            }
            b's' if text.starts_with("size ") => return self.heading(line, log),
            b'(' if self.open && text.starts_with("(B)") => {
                columns::units(text, line.number)?;
                Taken::Yes
            }
            b'T' if self.open && text.starts_with("Testing ") && text.ends_with("cycle.") => {
                if let Some(draft) = log.last() {
                    draft.unended = false;
                }
                self.begin_table(line, log);
                Taken::Began
            }
            b'O' if text.starts_with("Out of bounds values") => {
                if self.open {
                    out_of_bounds(text, log.tables.get_mut(self.first..).unwrap_or_default());
                }
                Taken::Yes
            }
            b'A' if text.starts_with("Avg bus bandwidth") => {
                if let Some(draft) = log.last().filter(|_| self.open) {
                    draft.unended = false;
                }
                self.end_run(log);
                Taken::Yes
            }
            _ => {
                self.glued(line, log);
                Taken::No
            }
        })
    }

    /// The last line of a run names the program of the tables above it, whatever a command or another run said.
    fn conclude(&mut self, program: &str, log: &mut Log) {
        self.open = false;
        let first = self.first.max(self.concluded);
        self.concluded = log.tables.len();
        let own = log.tables.iter_mut().skip(first).filter(|draft| draft.format == "nccl-tests");
        for draft in own.filter(|draft| draft.title != program && program.contains("_perf")) {
            // What was said of another program is not said of this one.
            draft.ranks.retain(|(_, by)| *by != "command");
            draft.nodes = draft.nodes.filter(|_| !draft.ranks.is_empty());
            program.clone_into(&mut draft.title);
            name(draft, program);
        }
    }

    /// Joins the pieces of a row between which the library wrote lines.
    fn piece(&mut self, line: &Line, log: &mut Log) -> Read<Option<Taken>> {
        let Some(columns) = self.columns.filter(|_| self.open) else { return Ok(None) };
        let glued = pieces::glued(line.bare());
        let own = glued.map_or(line.bare(), |(piece, _)| piece);
        if let Some((_, library)) = glued {
            log.evidence.take(library);
        }
        let count = field::split(own).1;
        let Some(draft) = log.last() else { return Ok(None) };
        let pending = self.pieces.take();
        let Some(row) = pending.and_then(|row| row.with(&columns, own)) else {
            if glued.is_some() && count == columns.count {
                return self.row(&Line { text: own, ..*line }, log).map(Some);
            }
            // Without a line of the library behind it, the figures of the first place may be all that a row has.
            let first = columns.first_place().is_some_and(|c| c.count == count) && line.whole;
            if !pieces::begins(own) || glued.is_none() && first {
                return Ok(None);
            }
            let why = match pieces::has_line(line.text) {
                true => pieces::APART.to_owned(),
                false => cut_off(count, Some(&columns)),
            };
            let ends = columns.is_end(count) && count < columns.count;
            if !ends && !pieces::has_line(line.text) {
                return Ok(None);
            }
            draft.leave_out(line.number, why.clone());
            self.pieces = ends.then(|| pieces::Row::begin(line.number, own, why));
            return Ok(Some(Taken::Yes));
        };
        if !row.is_whole(&columns) {
            self.pieces = Some(row);
            return Ok(Some(Taken::Yes));
        }
        draft.restore(row.line, &row.why);
        self.row(&Line { number: row.line, text: &row.text, whole: true }, log).map(Some)
    }

    /// Reports a row that ends a line of another program, which wrote at the same time.
    fn glued(&self, line: &Line, log: &mut Log) {
        let Some(columns) = self.columns.filter(|_| self.open) else { return };
        let words: Vec<&str> = line.text.split_ascii_whitespace().collect();
        let row = words.len().checked_sub(columns.count).map(|at| &words[at..]);
        let is_row =
            |row: &&[&str]| first_two(row).is_some_and(|(size, _)| columns.holds(row, size));
        if row.filter(is_row).is_some()
            && let Some(draft) = log.last()
        {
            draft.leave_out(line.number, "the row is behind other text on its line");
        }
    }

    fn begin_run(&mut self, text: &str) {
        let number = |key: &str| devices::after(text, key).and_then(|n| n.parse::<u32>().ok());
        // `warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0`
        let timed = text.split_once("warmup iters:").and_then(|(_, rest)| {
            let (_, rest) = rest.split_once(" iters:")?;
            rest.split_ascii_whitespace().next()?.parse::<u32>().ok()
        });
        self.open = false;
        self.columns = None;
        let (merged, graph) = (number("agg iters:").unwrap_or(1), number("graph:").unwrap_or(0));
        self.run = Run {
            program: self.next.take(),
            threads: number("nThread "),
            gpus: number("nGpus "),
            iterations: between_readings(timed.unwrap_or(1), merged, graph),
            merged,
            graph,
            misaligned: number("unalign:").is_some_and(|bytes| bytes > 0),
            predicted: std::mem::take(&mut self.predicted),
            library: self.run.library.take(),
            ..Run::default()
        };
    }

    /// A run has ended: what its command and its library's lines said is not said of the next one.
    fn end_run(&mut self, log: &mut Log) {
        if std::mem::take(&mut self.open) {
            self.run.library = None;
            log.evidence.ended();
            if let Some(command) = &mut log.launcher.command {
                command.has_ended = true;
            }
        }
        self.columns = None;
    }

    fn heading(&mut self, line: &Line, log: &mut Log) -> Read<Taken> {
        let Some(columns) = Columns::read(line.bare(), self.only_in_place) else {
            return Ok(Taken::No);
        };
        self.columns = Some(columns);
        self.first = log.tables.len();
        self.begin_table(line, log);
        if self.columns.as_ref().is_some_and(|c| c.cpu)
            && let Some(draft) = log.last()
        {
            draft.refuse(
                "the times are CPU times, and the CPU only starts the collective",
                "run it without -C",
            );
        }
        Ok(Taken::Began)
    }

    fn begin_table(&mut self, line: &Line, log: &mut Log) {
        let command = log.launcher.command.as_ref();
        let command = command.filter(|c| c.program.contains("_perf") && !c.has_ended);
        // Quotations often omit the line of threads and GPUs but keep the one that names the program.
        let named = self.run.program.clone().or(self.next.clone());
        let program = named.or(command.map(|c| c.program.clone()));
        let title = program.clone().unwrap_or_else(|| "nccl-tests".to_owned());
        let mut draft = Draft::new("nccl-tests", line.number, title);
        if let Some(program) = program {
            name(&mut draft, &program);
        }
        let run = &self.run;
        draft.library.clone_from(&run.library);
        run.devices.tell(&mut draft);
        if let Some(ranks) = command.and_then(|c| self.started(c)) {
            draft.ranks.push((ranks, "command"));
            let placed = draft.nodes;
            draft.nodes = placed.or(command.and_then(|c| c.nodes));
            draft.warnings.extend(command.and_then(|c| c.unclear()).filter(|_| placed.is_none()));
        }
        draft.iterations = run.iterations.max(1);
        caveats(&mut draft, run.merged, run.graph, run.predicted);
        if run.misaligned {
            draft.caveats.push("buffers are not aligned (-u): calls may take longer".to_owned());
        }
        if command.and_then(|c| c.argument(&["-D", "--device_implementation"])).unwrap_or(0) > 0 {
            let own = "kernels of nccl-tests itself ran (-D), not the library's";
            draft.caveats.push(own.to_owned());
        }
        draft.mode = Mode::Stream;
        if run.blocking {
            draft.blocking();
        }
        draft.unended = !self.commas;
        log.tables.push(draft);
        self.open = true;
    }

    /// Ranks from a command: processes, threads per process, and GPUs per thread.
    fn started(&self, command: &Command) -> Option<u32> {
        let threads = self.run.threads.or(command.argument(&["-t", "--nthreads"])).unwrap_or(1);
        let gpus = self.run.gpus.or(command.argument(&["-g", "--ngpus"])).unwrap_or(1);
        command.processes?.checked_mul(threads)?.checked_mul(gpus)
    }

    fn row(&mut self, line: &Line, log: &mut Log) -> Read<Taken> {
        let text = line.bare();
        let (fields, count) = field::split(text);
        let fields = &fields[..count];
        let Some((size, elements)) = first_two(fields) else {
            if self.open && count > 4 && fields.get(2).is_some_and(|t| DataType::named(t).is_some())
            {
                let what = format!("`{}` is not a size in bytes", fields[0]);
                return Err(Refused::at(line.number, what));
            }
            return Ok(Taken::No);
        };
        let dtype = match fields.get(2) {
            Some(name) => match DataType::named(name) {
                Some(dtype) => dtype,
                None => return Ok(Taken::No),
            },
            // `131072` or `131072   32768` and nothing after it: the log was cut there.
            None if self.open && count < 3 => {
                return Ok(cut(log, line, count, self.columns.as_ref()));
            }
            None => return Ok(Taken::No),
        };
        // The heading may be cut off too, or was not copied.
        let heading = self.columns.filter(|_| self.open);
        let named = heading.filter(|c| count >= c.count).or_else(|| {
            // OCCL's nccl-tests writes the heading of two places, and the figures of the first.
            let first = heading?.first_place().filter(|c| line.whole && count == c.count)?;
            let draft = log.last().filter(|d| d.rows.last().is_none_or(|row| !row.in_place))?;
            // The first alone may be cut off.
            if !draft.rows.is_empty() {
                draft.warn("the rows have only the figures out of place");
            }
            Some(first)
        });
        let fitting = |c: &Columns| c.holds(fields, size);
        let columns = named.filter(fitting).or_else(|| Columns::of_row(fields).filter(fitting));
        let Some(columns) = columns else {
            if !self.open {
                return Ok(Taken::No);
            }
            return Ok(match named {
                None => cut(log, line, count, self.columns.as_ref()),
                Some(columns) => {
                    columns.negative(fields, line.number)?;
                    if let Some(draft) = log.last() {
                        let why = "time and algbw contradict each other: the row is damaged";
                        draft.leave_out(line.number, columns.fault(fields).unwrap_or(why));
                    }
                    Taken::Yes
                }
            });
        };
        let began = !self.open;
        if began {
            self.columns = None;
            self.first = log.tables.len();
            self.begin_table(line, log);
            if let Some(draft) = log.last() {
                draft.warn(
                    "no heading of nccl-tests is above the rows: columns are recognised by their number",
                );
            }
        }
        let Some(draft) = log.last() else { return Ok(Taken::Yes) };
        for place in columns.places(fields) {
            let Place { time, wrong, in_place, .. } = place;
            if field::is_none(time) {
                continue;
            }
            let Some(time) = field::micros(time, line.number)? else {
                draft.leave_out(line.number, "a time of 0");
                continue;
            };
            draft.rows.push(Raw {
                line: line.number,
                size,
                count: Some(elements),
                dtype: Some(dtype),
                in_place,
                measured: Measured::Time(time),
                // In layouts up to 2.10 this is the size of an error, not a number of elements.
                wrong: field::number(wrong).filter(|_| !columns.errors).map(|n| n.max(0.0) as u64),
                factor: columns.factor(size, &place),
                redop: columns.redop.and_then(|c| Redop::named(fields[c])),
                root: columns.root.and_then(|c| fields[c].parse().ok()),
                traced: None,
            });
        }
        Ok(if began { Taken::Began } else { Taken::Yes })
    }
}

/// The program's own verdict on the results of its tables: `Out of bounds values : 1 FAILED`. Up to 2.10, whose rows
/// have the size of an error, it is the only one (`src/common.cu` of NVIDIA/nccl-tests v2.10.1: `args->errors[0]++`
/// where that is above the type's bound).
pub(super) fn out_of_bounds(text: &str, tables: &mut [Draft]) {
    if text.ends_with("FAILED") {
        Draft::failed(tables, text.rsplit(' ').nth(1).unwrap_or("some"));
    }
}

/// The number of calls between two readings of the clock.
pub(super) fn between_readings(iterations: u32, merged: u32, graph: u32) -> u32 {
    iterations.saturating_mul(merged).saturating_mul(graph.max(1)).max(1)
}

/// Notes how the times of a run differ from those of separate calls that were measured.
pub(super) fn caveats(draft: &mut Draft, merged: u32, graph: u32, predicted: bool) {
    if graph > 0 {
        draft.launched_by_graph();
    }
    if merged > 1 {
        draft.merged(merged);
    }
    if predicted {
        draft.predicted();
    }
}

/// The collective of a program, or the reason why it has none.
pub(super) fn name(draft: &mut Draft, program: &str) {
    match launcher::perf(program) {
        // Every rank sends to the next and receives from the one before.
        _ if program.strip_suffix("_mpi").unwrap_or(program) == "sendrecv_perf" => {
            draft.tested = Some(Tested::Shift);
        }
        Some(collective) => draft.tested = Some(Tested::Collective(collective)),
        None if program.contains("_perf") => {
            draft.tested = Some(Tested::Other(program.to_owned()));
            draft.refuse(
                format!("{program} is not a collective with equal blocks"),
                "leave it out: only collectives with equal blocks are compared",
            );
        }
        None => {}
    }
}

/// A row that ends too early.
fn cut(log: &mut Log, line: &Line, count: usize, columns: Option<&Columns>) -> Taken {
    if let Some(draft) = log.last() {
        draft.leave_out(line.number, cut_off(count, columns));
    }
    Taken::Yes
}

/// That a row ends too early, in words.
fn cut_off(count: usize, columns: Option<&Columns>) -> String {
    let of = columns.map_or(String::new(), |c| format!(" of {}", c.count));
    format!("the row is cut off: {count}{of} fields")
}

/// Size and count.
fn first_two(fields: &[&str]) -> Option<(u64, u64)> {
    let size = field::whole(fields.first()?)?;
    match fields.get(1) {
        Some(count) => Some((size, field::whole(count)?)),
        None => Some((size, 0)),
    }
}

/// Whether algbw is M over the time, within the digits of both.
fn agrees(size: Bytes, (time, time_text): (Seconds, &str), algbw: &str) -> bool {
    let Some(printed) = field::number(algbw) else { return field::is_none(algbw) };
    let rate: Bandwidth = Bandwidth((Volume::from(size) / Bandwidth(1.0)).0 / time.0);
    let slack = rate.0 * field::half(time_text) * 1e-6 / time.0 + field::half(algbw) * 1e9;
    (rate.0 - printed * 1e9).abs() <= 1.02 * slack
}

/// busbw over algbw, within the digits of both; `None` if they have too few.
pub(super) fn factor(algbw: &str, busbw: &str) -> Option<(Ratio, Ratio)> {
    let (a, b) = (field::number(algbw)?, field::number(busbw)?);
    if a < 0.1 || b <= 0.0 {
        return None;
    }
    let (x, y) = (field::half(algbw), field::half(busbw));
    Some((Ratio((b - y) / (a + x)), Ratio((b + y) / (a - x))))
}

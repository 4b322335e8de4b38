//! Tables of latencies and bandwidths, which rank 0 prints at start-up.
//!
//! ```text
//!   Algorithm   |                            Tree                  | …
//!   Protocol    |             LL |          LL128 |         Simple | …
//!  Max NThreads |            512 |            640 |            512 | …
//!     Broadcast |     0.0/   0.0 |     0.0/   0.0 |     0.0/   0.0 | …
//! ```
//!
//! Three algorithms are side by side, the next three below. Versions until 2.17 print all in one
//! block, under `Latency/AlgBw |`.
//!
//! Source: NVIDIA/nccl, `src/graph/tuning.cc`.

use crate::base::refused::Refused;
use crate::library::nccl::{Algo, Function, Printed, Proto, Tenths};

/// How a table is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// One block with `Latency/AlgBw` above it: 2.17 and older.
    OneBlock,
    /// Blocks of three algorithms.
    Blocks,
}

/// A printed table.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Its first line, from 1.
    pub line: usize,
    /// How it is laid out.
    pub layout: Layout,
    /// The algorithms in it, in order.
    pub algos: Vec<Algo>,
    /// The printer of its lines.
    pub(super) printer: String,
    last: usize,
    blocks: usize,
    /// Rows that the current block still lacks.
    missing: Vec<Row>,
    cells: [[[Option<Printed>; 3]; 7]; 5],
    threads: [[Option<u32>; 3]; 7],
    lines: [[usize; 7]; 5],
}

/// A row of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Row {
    Protocol,
    Threads,
    Of(Function),
}

impl Row {
    fn name(self) -> &'static str {
        match self {
            Self::Protocol => "Protocol",
            Self::Threads => "Max NThreads",
            Self::Of(function) => function.name(),
        }
    }
}

/// Algorithms in a block.
const BESIDE: usize = 3;

impl Table {
    /// The printed cell; `None` if the version has no such algorithm.
    #[must_use]
    pub fn cell(&self, function: Function, algo: Algo, proto: Proto) -> Option<Printed> {
        self.cells[function as usize][algo as usize][proto as usize]
    }

    /// The most threads of a block; `None` if they were not printed.
    #[must_use]
    pub fn threads(&self, algo: Algo, proto: Proto) -> Option<u32> {
        self.threads[algo as usize][proto as usize]
    }

    /// Whether the tuner is that of 2.31 and later, which prints no threads.
    #[must_use]
    pub fn is_of_cost_models(&self) -> bool {
        let ring = self.threads(Algo::Ring, Proto::Simple);
        self.layout == Layout::Blocks && ring.is_none()
    }

    /// The line of a cell's row.
    #[must_use]
    pub fn line_of(&self, function: Function, algo: Algo) -> usize {
        self.lines[function as usize][algo as usize]
    }

    fn begin(line: usize, printer: &str, layout: Layout) -> Self {
        Self {
            line,
            layout,
            algos: Vec::new(),
            printer: printer.to_owned(),
            last: line,
            blocks: 0,
            missing: Vec::new(),
            cells: [[[None; 3]; 7]; 5],
            threads: [[None; 3]; 7],
            lines: [[line; 7]; 5],
        }
    }

    /// The algorithms of the last block.
    fn block(&self) -> &[Algo] {
        let first = if self.blocks == 0 { 0 } else { (self.blocks - 1) * BESIDE };
        match self.layout {
            Layout::OneBlock => &self.algos,
            Layout::Blocks => &self.algos[first.min(self.algos.len())..],
        }
    }

    /// Checks the table when nothing more follows.
    pub(super) fn check(&self) -> Result<(), Refused> {
        let help = "copy the log from `Algorithm |` to the last `AllReduce |`";
        if let Some(row) = self.missing.first() {
            let what = format!("the table ends before its row {}", row.name());
            return Err(Refused::at(self.last, what).help(help));
        }
        if self.layout == Layout::Blocks && !matches!(self.algos.len(), 6 | 7) {
            let last = self.algos.last().map_or("its head", |algo| algo.name());
            let what = format!("the table ends after {last}: blocks are missing");
            return Err(Refused::at(self.last, what).help(help));
        }
        Ok(())
    }
}

/// The tables read so far.
#[derive(Default)]
pub(super) struct Tables {
    pub(super) done: Vec<Table>,
    /// At most one open table per printer.
    open: Vec<Table>,
}

impl Tables {
    /// Reads a message if it is part of a table.
    pub(super) fn take(
        &mut self,
        message: &str,
        printer: &str,
        line: usize,
    ) -> Result<bool, Refused> {
        let Some((head, rest)) = message.split_once('|') else {
            return self.cut(message, printer, line);
        };
        match head.trim() {
            "Algorithm" => self.head(rest, printer, line)?,
            "Latency/AlgBw" => self.old_head(rest, printer, line)?,
            "Protocol" => self.row(Row::Protocol, rest, printer, line)?,
            "Max NThreads" => self.row(Row::Threads, rest, printer, line)?,
            name => match Function::ALL.into_iter().find(|f| f.name() == name) {
                Some(function) => self.row(Row::Of(function), rest, printer, line)?,
                None => return Ok(false),
            },
        }
        Ok(true)
    }

    pub(super) fn finish(mut self) -> Result<Vec<Table>, Refused> {
        for table in self.open.drain(..) {
            table.check()?;
            self.done.push(table);
        }
        self.done.sort_by_key(|table| table.line);
        Ok(self.done)
    }

    /// Handles a row's name alone, while its table still waits for it: the line is cut off.
    fn cut(&self, message: &str, printer: &str, line: usize) -> Result<bool, Refused> {
        let name = message.trim();
        let open = self.open.iter().find(|table| table.printer == printer);
        let waits = open.is_some_and(|table| table.missing.iter().any(|row| row.name() == name));
        if waits { Err(cut_off(line)) } else { Ok(false) }
    }

    fn open(&mut self, printer: &str) -> Option<&mut Table> {
        self.open.iter_mut().find(|table| table.printer == printer)
    }

    /// Closes a table before another one of the same printer.
    fn close(&mut self, printer: &str) -> Result<(), Refused> {
        if let Some(index) = self.open.iter().position(|table| table.printer == printer) {
            let table = self.open.remove(index);
            table.check()?;
            self.done.push(table);
        }
        Ok(())
    }

    fn head(&mut self, rest: &str, printer: &str, line: usize) -> Result<(), Refused> {
        let cells = cells(rest, line)?;
        let algos: Vec<Algo> =
            cells.iter().map(|name| algo(name, line)).collect::<Result<_, _>>()?;
        if algos.first() == Some(&Algo::Tree) {
            self.close(printer)?;
            self.open.push(Table::begin(line, printer, Layout::Blocks));
        }
        let Some(table) = self.open(printer) else {
            let what = format!("the block of {} has no block before it", cells.join(", "));
            return Err(Refused::at(line, what).help("copy the table from its first line"));
        };
        if let Some(row) = table.missing.first() {
            let what = format!("a block begins before row {} of the last one", row.name());
            return Err(Refused::at(line, what).help("copy the whole table"));
        }
        let (from, count) = (table.algos.len(), algos.len());
        let expected = Algo::ALL.get(from..(from + BESIDE).min(Algo::ALL.len()));
        if count == 0 || expected.is_none_or(|expected| !expected.starts_with(&algos)) {
            let what = format!("a block of {} is not expected here", cells.join(", "));
            return Err(Refused::at(line, what));
        }
        if count < BESIDE && from + count < Algo::ALL.len() {
            return Err(cut_off(line));
        }
        table.algos.extend(algos);
        table.blocks += 1;
        table.last = line;
        table.missing = vec![Row::Protocol, Row::Threads];
        table.missing.extend(Function::ALL.map(Row::Of));
        Ok(())
    }

    /// `Tree/    LL | Tree/ LL128 | …`: all cells' names on one line.
    fn old_head(&mut self, rest: &str, printer: &str, line: usize) -> Result<(), Refused> {
        self.close(printer)?;
        let mut table = Table::begin(line, printer, Layout::OneBlock);
        let cells = cells(rest, line)?;
        for (i, cell) in cells.iter().enumerate() {
            let (name, proto) = cell.split_once('/').ok_or_else(|| cut_off(line))?;
            let algo = algo(name.trim(), line)?;
            let expected = Proto::ALL[i % 3].name();
            if proto.trim() != expected {
                let what = format!("`{cell}` is where {} should be", expected);
                return Err(Refused::at(line, what));
            }
            if i % 3 == 0 {
                if table.algos.contains(&algo) {
                    return Err(Refused::at(line, format!("{} appears twice", algo.name())));
                }
                table.algos.push(algo);
            } else if table.algos.last() != Some(&algo) {
                return Err(Refused::at(line, format!("`{cell}` is not expected here")));
            }
        }
        if cells.is_empty() || cells.len() % 3 != 0 {
            return Err(cut_off(line));
        }
        table.missing = Function::ALL.map(Row::Of).to_vec();
        self.open.push(table);
        Ok(())
    }

    fn row(&mut self, row: Row, rest: &str, printer: &str, line: usize) -> Result<(), Refused> {
        let Some(table) = self.open(printer) else {
            let what = format!("the row {} is outside a table", row.name());
            return Err(Refused::at(line, what).help(
                "the start of the table is missing: copy the log from the line `Algorithm |`",
            ));
        };
        // 2.12 to 2.17 print threads under the one block too.
        let optional = table.layout == Layout::OneBlock && row == Row::Threads;
        // Since 2.31 threads are not printed.
        if table.missing.first() == Some(&Row::Threads) && row == Row::Of(Function::ALL[0]) {
            table.missing.remove(0);
        }
        match table.missing.first() {
            Some(next) if *next == row => {
                table.missing.remove(0);
            }
            _ if optional => {}
            Some(next) => {
                let what = format!("the row {} is where {} should be", row.name(), next.name());
                return Err(Refused::at(line, what));
            }
            None => {
                let what = format!("the row {} is not expected here", row.name());
                return Err(Refused::at(line, what));
            }
        }
        let cells = cells(rest, line)?;
        let algos = table.block().to_vec();
        let expected = 3 * algos.len();
        // Only in the block of PAT, NCCL names the protocols of three algorithms.
        let names_more = row == Row::Protocol && cells.len() == 3 * BESIDE;
        if cells.len() != expected && !names_more {
            let what = format!("{} cells instead of {expected}", cells.len());
            return Err(Refused::at(line, what).help("copy the whole line"));
        }
        table.last = line;
        for (i, cell) in cells.iter().enumerate() {
            let proto = Proto::ALL[i % 3];
            let Some(&algo) = algos.get(i / 3) else { continue };
            let (a, p) = (algo as usize, proto as usize);
            match row {
                Row::Protocol if *cell != proto.name() => {
                    let what = format!("`{cell}` is where {} should be", proto.name());
                    return Err(Refused::at(line, what));
                }
                Row::Protocol => {}
                Row::Threads => {
                    let threads = cell.parse().map_err(|_| {
                        Refused::at(line, format!("`{cell}` is not a number of threads"))
                    })?;
                    table.threads[a][p] = Some(threads);
                }
                Row::Of(function) => {
                    table.cells[function as usize][a][p] = printed(cell, line)?;
                    table.lines[function as usize][a] = line;
                }
            }
        }
        Ok(())
    }
}

/// The text between the bars; the last bar ends the line.
fn cells(rest: &str, line: usize) -> Result<Vec<&str>, Refused> {
    let mut cells: Vec<&str> = rest.split('|').map(str::trim).collect();
    match cells.pop() {
        Some("") => Ok(cells),
        _ => Err(cut_off(line)),
    }
}

fn cut_off(line: usize) -> Refused {
    Refused::at(line, "the line of a table is cut off").help("copy the whole line")
}

fn algo(name: &str, line: usize) -> Result<Algo, Refused> {
    // Until 2.13 in-network reduction was one algorithm.
    let name = if name == "CollNet" { "CollNetDirect" } else { name };
    let found = Algo::ALL.into_iter().find(|algo| algo.name() == name);
    found.ok_or_else(|| Refused::at(line, format!("`{name}` is not an algorithm of NCCL")))
}

/// A cell; `None` if 2.31 or later prints that the function is not supported.
fn printed(cell: &str, line: usize) -> Result<Option<Printed>, Refused> {
    let parts = cell.split_once('/').map(|(latency, bandwidth)| (latency.trim(), bandwidth.trim()));
    if parts.is_some_and(|(_, bandwidth)| bandwidth == "-1.0") {
        return Ok(None);
    }
    let read = parts.and_then(|(latency, bandwidth)| {
        Some(Printed { latency: Tenths::read(latency)?, bandwidth: Tenths::read(bandwidth)? })
    });
    read.map(Some).ok_or_else(|| {
        Refused::at(line, format!("`{cell}` is not a latency/bandwidth"))
            .help("cells look like `9.3/   6.0`")
    })
}

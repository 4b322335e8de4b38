//! A tuner's table exactly as NCCL prints it at start-up.
//!
//! ```text
//!   Algorithm   |                            Tree                  | …
//!   Protocol    |             LL |          LL128 |         Simple | …
//!  Max NThreads |            512 |            640 |            512 | …
//!     Broadcast |     0.0/   0.0 |     0.0/   0.0 |     0.0/   0.0 | …
//! ```
//!
//! Source: NVIDIA/nccl 2.18.3 to 2.30.7, `src/graph/tuning.cc`.

use std::io::{self, Write};

use super::Look;
use super::page::Page;
use super::sheet::{Cell, Sheet};
use crate::answer::nccl_tables::NcclTables;
use crate::library::nccl::{Algo, Function, Gbps, Micros, Proto, Table, Version, since};

/// Algorithms side by side.
const BESIDE: usize = 3;

/// Where the figures of a table come from.
pub trait Cells {
    /// The most threads of a block.
    fn threads(&self, algo: Algo, proto: Proto) -> u32;
    /// Latency and bandwidth of a cell.
    fn cell(&self, function: Function, algo: Algo, proto: Proto) -> (Micros, Gbps);
}

impl Cells for Table {
    fn threads(&self, algo: Algo, proto: Proto) -> u32 {
        Self::threads(self, algo, proto)
    }

    fn cell(&self, function: Function, algo: Algo, proto: Proto) -> (Micros, Gbps) {
        (self.latency(function, algo, proto), self.bandwidth(function, algo, proto))
    }
}

/// A table as NCCL prints it; the parameters one per line for documents.
#[must_use]
pub fn page(report: &NcclTables, printed: Option<(&Table, Version)>, look: Look) -> Page {
    let mut page = Page::default();
    match printed {
        Some((cells, version)) if !look.whole => {
            let mut lines = Vec::new();
            // A vector takes all that is written.
            let _ = table(&mut lines, cells, version, "");
            page.drawn(String::from_utf8_lossy(&lines));
        }
        _ => page.table(sheet(report)),
    }
    page
}

fn sheet(report: &NcclTables) -> Sheet {
    let figure = |number: f32| Cell::number(Some(number.into()), |x| format!("{x:.1}"));
    let cells = report.tables.iter().flat_map(|table| table.cells.iter().map(move |c| (table, c)));
    Sheet::of(cells)
        .words("communicator", "communicator", |(table, _)| &table.communicator)
        .words("nccl", "nccl", |(table, _)| table.nccl)
        .words("environment", "environment", |(table, _)| &table.environment)
        .words("function", "function", |(_, c)| c.function)
        .words("algorithm", "algorithm", |(_, c)| c.algorithm)
        .words("protocol", "protocol", |(_, c)| c.protocol)
        .numbers("latency", "µs", "latency_us", |(_, c)| figure(c.latency_us))
        .numbers("bandwidth", "GB/s", "bandwidth_GBps", |(_, c)| figure(c.bandwidth_gb_per_s))
        .numbers("threads", "", "max_threads", |(_, c)| c.max_threads)
        .sheet
}

/// Writes a table as the version's log prints it, with `prefix` (such as `host:1:2 [0] NCCL INFO `)
/// before every line.
///
/// # Errors
/// The writer's.
pub fn table(
    out: &mut impl Write,
    cells: &impl Cells,
    version: Version,
    prefix: &str,
) -> io::Result<()> {
    let count = if version.has(since::PAT) { Algo::ALL.len() } else { Algo::ALL.len() - 1 };
    for block in Algo::ALL[..count].chunks(BESIDE) {
        write!(out, "{prefix}  Algorithm   |")?;
        for algo in block {
            write!(out, " {:14}   {:>14}   {:14} |", "", algo.name(), "")?;
        }
        // The protocols of three algorithms, even if there is only one.
        write!(out, "\n{prefix}  Protocol    |")?;
        for proto in [Proto::ALL; BESIDE].as_flattened() {
            write!(out, " {:>14} |", proto.name())?;
        }
        if !version.has(since::COST_MODELS) {
            write!(out, "\n{prefix} Max NThreads |")?;
            for (&algo, proto) in pairs(block) {
                write!(out, " {:14} |", cells.threads(algo, proto))?;
            }
        }
        writeln!(out)?;
        for function in Function::ALL {
            write!(out, "{prefix}{:>13} |", function.name())?;
            for (&algo, proto) in pairs(block) {
                let (Micros(latency), Gbps(bandwidth)) = cells.cell(function, algo, proto);
                write!(out, "{:8.1}/{:6.1} |", f64::from(latency), f64::from(bandwidth))?;
            }
            writeln!(out)?;
        }
    }
    Ok(())
}

fn pairs(block: &[Algo]) -> impl Iterator<Item = (&Algo, Proto)> {
    block.iter().flat_map(|algo| Proto::ALL.map(|proto| (algo, proto)))
}

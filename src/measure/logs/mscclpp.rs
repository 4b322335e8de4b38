//! mscclpp-test: nccl-tests' table with one place, and lines of JSON.
//!
//! ```text
//! # minBytes 1024 maxBytes 268435456 step: 2(factor) warmup iters: 10 iters: 20 validation: 1 graph: 1, kernel num: 6
//! #  Rank  0 Pid   3987 on      node0 device  0 [0x07] NVIDIA A100-SXM4-80GB
//! #       size         count     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
//!      1048576        262144    12.64   82.96  145.18      0
//! {"name": "allreduce", "kernel": 6, "ranks": 8, "ranksPerNode": 8, "size": 1024, "time": 5.157, …}
//! ```
//!
//! Releases of 2023 print no line of sizes and kernels before the heading. The in-place columns come first; out-of-place rows leave them blank. Elements are ints. The table does
//! not name the collective. `graph` counts the replays of a CUDA graph of `iters` calls.
//! Source: microsoft/mscclpp test/mscclpp-test/common.cc.

use serde::Deserialize;

use super::draft::{Draft, Raw};
use super::nccl_tests::{devices::Devices, factor, out_of_bounds};
use super::{Line, Log, Read, Reader, Taken, Tested, field};
use crate::base::quantity::Seconds;
use crate::machine::sample::{DataType, Mode};

/// Reads tables.
#[derive(Default)]
pub(super) struct Table {
    devices: Devices,
    open: bool,
}

/// The names of the columns; nccl-tests has that of the type in the third place.
const HEADING: [&str; 10] =
    ["size", "count", "time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw", "#wrong"];

impl Table {
    /// Opens a table of `library`.
    fn begin(&mut self, line: usize, library: String) -> Draft {
        self.open = true;
        let mut draft = Draft::new("mscclpp", line, "mscclpp-test");
        draft.mode = Mode::Stream;
        draft.library = Some(library);
        draft
    }
}

/// A line of `--output_file`.
#[derive(Deserialize)]
struct Json {
    name: String,
    kernel: u32,
    ranks: u32,
    #[serde(rename = "ranksPerNode")]
    per_node: u32,
    size: u64,
    time: f64,
}

impl Reader for Table {
    fn take(&mut self, line: &Line, log: &mut Log) -> Read<Taken> {
        let text = line.bare();
        if text.starts_with('{') && text.contains("\"ranksPerNode\"") {
            return Ok(json(text, line.number, log));
        }
        if text.starts_with("minBytes ") && text.contains("kernel num: ") {
            self.devices = Devices::default();
            let kernel = text.split("kernel num: ").nth(1).unwrap_or_default().trim();
            let mut draft = self.begin(line.number, format!("MSCCL++ kernel {kernel}"));
            let replays = text.split("graph: ").nth(1).and_then(|after| after.chars().next());
            if replays.is_some_and(|digit| digit != '0') {
                draft.launched_by_graph();
            }
            log.tables.push(draft);
            return Ok(Taken::Began);
        }
        if !self.open {
            if !text.split_ascii_whitespace().eq(HEADING) {
                return Ok(Taken::No);
            }
            log.tables.push(self.begin(line.number, "MSCCL++".to_owned()));
            return Ok(Taken::Began);
        }
        if text.starts_with("Out of bounds values") {
            out_of_bounds(text, log.last().map(std::slice::from_mut).unwrap_or_default());
            self.open = false;
            return Ok(Taken::Yes);
        }
        if self.devices.take(text) {
            return Ok(Taken::Yes);
        }
        let Some(draft) = log.last() else { return Ok(Taken::No) };
        if text.starts_with("size ") {
            self.devices.tell(draft);
            return Ok(Taken::Yes);
        }
        if !line.is_numeric() {
            return Ok(Taken::No);
        }
        let (fields, count) = field::split(text);
        let Some(size) = field::whole(fields[0]) else { return Ok(Taken::No) };
        let blanks = "            ";
        // Without a check (-c 0) a row ends with busbw, which has two decimals; one that is cut off has fewer.
        let is_whole = count >= 6 || count == 5 && field::decimals(fields[4]) == 2;
        match field::micros(fields[2], line.number)?.filter(|_| is_whole) {
            Some(time) => draft.rows.push(Raw {
                count: field::whole(fields[1]),
                dtype: Some(DataType::I32),
                in_place: !text.contains(&blanks.repeat(2)),
                wrong: field::whole(fields[5]),
                factor: factor(fields[3], fields[4]),
                ..Raw::timed(line.number, size, time)
            }),
            None => draft.leave_out(line.number, "the row is cut off, or has no time"),
        }
        Ok(Taken::Yes)
    }

    fn leave(&mut self) {
        self.open = false;
    }
}

fn json(text: &str, number: usize, log: &mut Log) -> Taken {
    let Ok(row) = serde_json::from_str::<Json>(text) else {
        log.leave_out(number, "a line of JSON that is cut off");
        return Taken::Yes;
    };
    let title = format!("mscclpp-test {}, kernel {}", row.name, row.kernel);
    let known = (row.ranks, "ranks");
    let same = log.last().is_some_and(|d| d.title == title && d.ranks.first() == Some(&known));
    if !same {
        let mut draft = Draft::new("mscclpp", number, title);
        draft.mode = Mode::Stream;
        draft.library = Some(format!("MSCCL++ kernel {}", row.kernel));
        // The program times replays of a graph, whichever number of them is asked for.
        draft.launched_by_graph();
        draft.tested = Some(Tested::named(&row.name, &row.name));
        draft.ranks.push(known);
        draft.nodes = row.ranks.checked_div(row.per_node).filter(|n| n * row.per_node == row.ranks);
        log.tables.push(draft);
    }
    if let Some(draft) = log.last() {
        match row.time > 0.0 && row.time.is_finite() {
            true => draft.rows.push(Raw::timed(number, row.size, Seconds(row.time * 1e-6))),
            false => draft.leave_out(number, "a time of 0, or none"),
        }
    }
    if same { Taken::Yes } else { Taken::Began }
}

//! PARAM's collective benchmark.
//!
//! ```text
//! COMMS-RES-all_reduce-float32total-size (B)  nElementsPerRank  Time(us):p50  p75 … AlgBW(GB/s) BusBW(GB/s) …
//! COMMS-RES-all_reduce-float32       1048576            262144          32.2 33.5 …      32.559      56.979 …
//! ```
//!
//! Percentiles are over the ranks' means. The size is that of the larger tensor of a rank, as in nccl-tests.
//! Source: facebookresearch/param train/comms/pt/comms.py.

use super::draft::{Draft, Raw};
use super::nccl_tests::factor;
use super::{Line, Log, Read, Reader, Taken, Tested, field};
use crate::machine::sample::DataType;

const MARK: &str = "COMMS-RES-";
/// size, elements, p50, p75, p95, minimum, maximum, algbw, busbw.
const FIELDS: usize = 9;

/// Reads tables.
#[derive(Default)]
pub(super) struct Table {
    dtype: Option<DataType>,
    open: bool,
}

impl Reader for Table {
    fn take(&mut self, line: &Line, log: &mut Log) -> Read<Taken> {
        let Some(rest) = line.text.strip_prefix(MARK) else { return Ok(Taken::No) };
        if rest.contains("size (B)") {
            return Ok(self.heading(rest, line.number, log));
        }
        let Some(draft) = log.last().filter(|_| self.open) else { return Ok(Taken::No) };
        let values = rest.split_once(char::is_whitespace).map_or("", |(_, values)| values);
        let (fields, count) = field::split(values);
        let size = field::whole(fields[0]);
        let time = field::micros(fields[2], line.number)?;
        match (size, time) {
            (Some(size), Some(time)) if count >= FIELDS => draft.rows.push(Raw {
                dtype: self.dtype,
                factor: factor(fields[7], fields[8]),
                ..Raw::timed(line.number, size, time)
            }),
            _ => draft.leave_out(line.number, "the row is cut off, or has no time"),
        }
        Ok(Taken::Yes)
    }

    fn leave(&mut self) {
        self.open = false;
    }
}

impl Table {
    fn heading(&mut self, rest: &str, number: usize, log: &mut Log) -> Taken {
        let name = rest.split("total-size").next().unwrap_or(rest);
        let name = name.split("size (B)").next().unwrap_or(name).trim();
        let mut parts = name.split('-');
        let (what, dtype) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
        let mut draft = Draft::new("param", number, format!("PARAM {what}"));
        let plain = what.strip_suffix("_base").unwrap_or(what);
        draft.tested = Some(match plain.parse() {
            Ok(collective) => Tested::Collective(collective),
            Err(_) => Tested::Other(what.to_owned()),
        });
        self.dtype = DataType::named(dtype);
        self.open = true;
        if name.contains("QUANT") || !rest.contains("p50") || !rest.contains("BusBW(GB/s)") {
            draft.refuse(
                "a table of PARAM that is not of plain collectives: quantised, or messages",
                "run comms.py with --collective and without quantisation",
            );
        }
        log.tables.push(draft);
        Taken::Began
    }
}

//! PARAM's collective benchmark.
//!
//! ```text
//!     COMMS-RES                          total-size (B)  nElementsPerRank  Time(us):p50  p75 … AlgBW(GB/s) BusBW(GB/s) …
//!     COMMS-RES-all_reduce-float32              1048576            262144          32.2 33.5 …      32.559      56.979 …
//! ```
//!
//! Percentiles are over the ranks' means. The size is that of the larger tensor of a rank, as in nccl-tests. Only
//! rows name collective and type, with a tag behind them if one was given.
//! Source: facebookresearch/param train/comms/pt/comms.py, `printPreamble` and `reportBenchTimeColl`.

use super::draft::{Draft, Raw};
use super::nccl_tests::factor;
use super::{Line, Log, Read, Reader, Taken, Tested, field};
use crate::machine::sample::DataType;

const MARK: &str = "COMMS-RES";
/// size, elements, p50, p75, p95, minimum, maximum, algbw, busbw.
const FIELDS: usize = 9;

/// Reads tables.
#[derive(Default)]
pub(super) struct Table {
    /// Whether a heading came, and if it is of other columns than those of plain collectives.
    heading: Option<bool>,
    /// What the rows of the open table are called.
    name: String,
}

impl Reader for Table {
    fn take(&mut self, line: &Line, log: &mut Log) -> Read<Taken> {
        let Some(rest) = line.text.strip_prefix(MARK) else { return Ok(Taken::No) };
        if rest.contains("size (B)") {
            let plain = rest.contains("p50") && rest.contains("BusBW(GB/s)");
            self.heading = Some(!plain || rest.contains("QUANT"));
            self.name.clear();
            log.begun = Some((line.number, "PARAM"));
            return Ok(Taken::Yes);
        }
        let (Some(is_other), Some(rest)) = (self.heading, rest.strip_prefix('-')) else {
            return Ok(Taken::No);
        };
        let (name, values) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let mut taken = Taken::Yes;
        if self.name != name {
            name.clone_into(&mut self.name);
            log.tables.push(begun(name, line.number, is_other));
            taken = Taken::Began;
        }
        let Some(draft) = log.last() else { return Ok(taken) };
        let (fields, count) = field::split(values);
        let size = field::whole(fields[0]);
        let time = field::micros(fields[2], line.number)?;
        match (size, time) {
            (Some(size), Some(time)) if count >= FIELDS => draft.rows.push(Raw {
                dtype: name.split('-').nth(1).and_then(DataType::named),
                factor: factor(fields[7], fields[8]),
                ..Raw::timed(line.number, size, time)
            }),
            _ => draft.leave_out(line.number, "the row is cut off, or has no time"),
        }
        Ok(taken)
    }

    fn leave(&mut self) {
        *self = Self::default();
    }
}

/// The table of rows that are called so: `all_reduce-float32`.
fn begun(name: &str, number: usize, is_other: bool) -> Draft {
    let what = name.split('-').next().unwrap_or(name);
    let mut draft = Draft::new("param", number, format!("PARAM {what}"));
    let plain = what.strip_suffix("_base").unwrap_or(what);
    draft.tested = Some(Tested::named(plain, what));
    if is_other {
        draft.refuse(
            "a table of PARAM that is not of plain collectives: quantised, or messages",
            "run comms.py with --collective and without quantisation",
        );
    }
    draft
}

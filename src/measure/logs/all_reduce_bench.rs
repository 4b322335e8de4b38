//! all_reduce_bench.py of stas00/ml-engineering.
//!
//! ```text
//! The average bandwidth of all_reduce over 16 ranks (5 warmups / 20 trials):
//! | payload |    busbw   |    algbw   |
//! | ------: | ---------: | ---------: |
//! |   32MiB | 295.08GBps | 157.37GBps |
//! ```
//!
//! No time is printed: it is computed from busbw, which has more digits. GBps are 10^9 bytes per second,
//! payloads are exact powers of two; the calls are in place, in f32. Source: stas00/ml-engineering
//! network/benchmarks/all_reduce_bench.py.

use super::draft::{Draft, Raw};
use super::{Line, Log, Read, Reader, Taken, Tested, field};
use crate::base::collective::Collective;
use crate::base::quantity::{Bytes, Seconds, Volume};
use crate::machine::sample::DataType;

/// Below this rate two decimals are too few for a time.
const LEAST: f64 = 1.0;

/// Reads tables.
#[derive(Default)]
pub(super) struct Table {
    ranks: Option<u32>,
}

impl Reader for Table {
    fn take(&mut self, line: &Line, log: &mut Log) -> Read<Taken> {
        let text = line.text;
        if let Some(rest) = text.strip_prefix("The average bandwidth of all_reduce ") {
            let mut draft = Draft::new("all-reduce-bench", line.number, "all_reduce_bench.py");
            draft.tested = Some(Tested::Collective(Collective::AllReduce));
            let words: Vec<&str> = rest.split([' ', '(', ')', ',']).collect();
            let at = words.iter().position(|w| *w == "ranks");
            self.ranks = at.and_then(|at| words.get(at.checked_sub(1)?)?.parse().ok());
            draft.ranks.extend(self.ranks.map(|n| (n, "heading")));
            if rest.starts_with("with a ") {
                draft.refuse(
                    "a version of all_reduce_bench.py that does not define its GB",
                    "run the current version, which prints a table with payloads in GiB",
                );
            }
            log.tables.push(draft);
            return Ok(Taken::Began);
        }
        if self.ranks.is_none() || !text.starts_with('|') {
            return Ok(Taken::No);
        }
        let cells: Vec<&str> = text.trim_matches('|').split('|').map(str::trim).collect();
        let [payload, busbw, ..] = cells.as_slice() else { return Ok(Taken::Yes) };
        if *payload == "payload" {
            // It is evidence of how calls were timed, too.
            return Ok(Taken::No);
        }
        if !payload.starts_with(|c: char| c.is_ascii_digit()) {
            return Ok(Taken::Yes);
        }
        let Some(draft) = log.last() else { return Ok(Taken::No) };
        let size = payload.parse::<Bytes>().ok();
        let rate = busbw.strip_suffix("GBps").and_then(field::number);
        match (size, rate, self.ranks) {
            (Some(size), Some(rate), Some(ranks)) if rate >= LEAST => {
                let moved = Volume::from(size).0 * Collective::AllReduce.busbw_factor(ranks).0;
                let time = Seconds(moved / (rate * 1e9));
                draft.rows.push(Raw {
                    dtype: Some(DataType::F32),
                    in_place: true,
                    ..Raw::timed(line.number, size.0, time)
                });
            }
            (Some(_), Some(_), _) => {
                draft.pass_over(
                    line.number,
                    "a rate below 1 GB/s, whose two decimals are too few for a time",
                );
            }
            _ => draft.leave_out(line.number, "a row without payload or busbw"),
        }
        Ok(Taken::Yes)
    }

    fn leave(&mut self) {
        self.ranks = None;
    }
}

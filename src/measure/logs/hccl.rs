//! HCCL's tests, for Ascend.
//!
//! ```text
//! data_size(Bytes): | aveg_time(us):  | alg_bandwidth(GB/s): | check_result:
//! 1048576           | 33.22           | 31.56267             | success
//! ```
//!
//! Neither the collective nor N is printed. Source: hiascend.com, HCCLpertest, "Result Description".

use super::draft::{Draft, Raw};
use super::{Line, Log, Read, Reader, Taken, field};

/// Reads tables.
#[derive(Default)]
pub(super) struct Table {
    open: bool,
}

impl Reader for Table {
    fn take(&mut self, line: &Line, log: &mut Log) -> Read<Taken> {
        let text = line.text;
        if text.starts_with("data_size(Bytes):") && text.contains("alg_bandwidth") {
            self.open = true;
            let mut draft = Draft::new("hccl", line.number, "HCCL test");
            draft.library = Some("HCCL".to_owned());
            draft.warn(
                "HCCL does not state whether sizes of all-gather and reduce-scatter are per rank or in \
                 total: the total is assumed",
            );
            log.tables.push(draft);
            return Ok(Taken::Began);
        }
        if !self.open || !line.is_numeric() || !text.contains('|') {
            return Ok(Taken::No);
        }
        let Some(draft) = log.last() else { return Ok(Taken::No) };
        let cells: Vec<&str> = text.split('|').map(str::trim).collect();
        let [size, time, _, check, ..] = cells.as_slice() else {
            draft.leave_out(line.number, "the row is cut off");
            return Ok(Taken::Yes);
        };
        match (field::whole(size), field::micros(time, line.number)?) {
            (Some(size), Some(time)) => draft.rows.push(Raw {
                wrong: match *check {
                    "success" => Some(0),
                    "failed" => Some(1),
                    _ => None,
                },
                ..Raw::timed(line.number, size, time)
            }),
            _ => draft.leave_out(line.number, "a row without size or time"),
        }
        Ok(Taken::Yes)
    }

    fn leave(&mut self) {
        self.open = false;
    }
}

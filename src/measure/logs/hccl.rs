//! HCCL's tests, for Ascend.
//!
//! ```text
//! data_size(Bytes): | aveg_time(us):  | alg_bandwidth(GB/s): | check_result:
//! 1048576           | 33.22           | 31.56267             | success
//! ```
//!
//! Neither the collective nor N is printed: the command above the table has both, the type (`-d fp32`) and the ranks of a
//! node (`-p 8`). Source: hiascend.com, HCCLpertest, "Result Description" and its parameters.

use super::draft::{Draft, Raw};
use super::launcher::is_hccl_test;
use super::{Line, Log, Read, Reader, Taken, Tested, field};
use crate::base::collective::Collective;
use crate::machine::sample::DataType;

/// Reads tables.
#[derive(Default)]
pub(super) struct Table {
    open: bool,
    dtype: Option<DataType>,
}

impl Reader for Table {
    fn take(&mut self, line: &Line, log: &mut Log) -> Read<Taken> {
        let text = line.text;
        if text.starts_with("data_size(Bytes):") && text.contains("alg_bandwidth") {
            self.open = true;
            let mut draft = Draft::new("hccl", line.number, "HCCL test");
            draft.library = Some("HCCL".to_owned());
            let command = log.launcher.command.as_ref().filter(|c| is_hccl_test(&c.program));
            draft.start_by(command, |_| true);
            let option = |flag: &str| {
                let all = command?.arguments.windows(2).find(|pair| pair[0] == flag)?;
                Some(all[1].as_str())
            };
            self.dtype = option("-d").and_then(DataType::named);
            let each = option("-p").and_then(|each| each.parse::<u32>().ok());
            let ranks = draft.ranks.first().map(|(ranks, _)| *ranks);
            if let (None, Some(ranks), Some(each)) = (draft.nodes, ranks, each) {
                draft.nodes = ranks.checked_div(each).filter(|nodes| nodes * each == ranks);
            }
            let named = command.and_then(|c| c.program.strip_suffix("_test")?.parse().ok());
            draft.tested = named.map(Tested::Collective);
            if named
                .is_none_or(|of| matches!(of, Collective::AllGather | Collective::ReduceScatter))
            {
                draft.warn(
                    "HCCL does not state whether sizes of all-gather and reduce-scatter are per rank or in \
                     total: the total is assumed",
                );
            }
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
                dtype: self.dtype,
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

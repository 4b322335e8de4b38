//! Collectives of NVSHMEM's perftest.
//!
//! ```text
//! #reduction_on_stream
//! size(B)       count         type          redop         latency(us)   min_lat(us)   max_lat(us)   algbw(GB/s)   busbw(GB/s)
//! 4096          1024          int           sum           7.109159      6.612         8.531         0.576         1.008
//! ```
//!
//! Sizes are totals, also for all-to-all, fcollect and reduce-scatter. Tests on the device have a row per
//! scope; one thread's or one warp's time does not measure the machine. Source: NVIDIA/nvshmem
//! perftest/common/utils.cu.

use super::draft::{Draft, Raw};
use super::launcher::is_nvshmem_test;
use super::nccl_tests::factor;
use super::{Line, Log, Read, Reader, Taken, Tested, field};
use crate::base::collective::Collective;
use crate::machine::sample::DataType;

/// The columns of a row.
#[derive(Debug, Clone, Copy)]
struct Columns {
    count: usize,
    dtype: Option<usize>,
    scope: Option<usize>,
    time: usize,
    rates: Option<(usize, usize)>,
}

/// Reads tables.
#[derive(Default)]
pub(super) struct Table {
    title: String,
    columns: Option<Columns>,
}

/// What a test's title names.
fn collective(title: &str) -> Option<Collective> {
    use Collective as C;
    let plain = title.strip_prefix("device_").unwrap_or(title);
    let known = [
        ("reducescatter", C::ReduceScatter),
        ("reduction", C::AllReduce),
        ("bcast", C::Broadcast),
        ("broadcast", C::Broadcast),
        ("alltoall", C::AllToAll),
        ("fcollect", C::AllGather),
    ];
    known.iter().find(|(name, _)| plain.starts_with(name)).map(|&(_, c)| c)
}

impl Reader for Table {
    fn take(&mut self, line: &Line, log: &mut Log) -> Read<Taken> {
        let text = line.text;
        if text.starts_with('#') && collective(line.bare()).is_some() {
            line.bare().clone_into(&mut self.title);
            return Ok(Taken::Yes);
        }
        if text.starts_with("size(B)") && text.contains("latency(us)") {
            return Ok(self.heading(text, line.number, log));
        }
        let (Some(columns), true) = (self.columns, line.is_numeric()) else { return Ok(Taken::No) };
        let (fields, count) = field::split(text);
        let (Some(size), Some(draft)) = (field::whole(fields[0]), log.last()) else {
            return Ok(Taken::No);
        };
        if columns.scope.is_some_and(|at| matches!(fields[at], "thread" | "warp")) {
            draft.leave_out(
                line.number,
                "one thread's or one warp's collective does not measure the machine",
            );
            return Ok(Taken::Yes);
        }
        match field::micros(fields[columns.time], line.number)?.filter(|_| count >= columns.count) {
            Some(time) => draft.rows.push(Raw {
                dtype: columns.dtype.and_then(|at| DataType::named(fields[at])),
                factor: columns.rates.and_then(|(a, b)| factor(fields[a], fields[b])),
                ..Raw::timed(line.number, size, time)
            }),
            None => draft.leave_out(line.number, "the row is cut off, or has no time"),
        }
        Ok(Taken::Yes)
    }

    fn leave(&mut self) {
        self.columns = None;
    }
}

impl Table {
    fn heading(&mut self, text: &str, number: usize, log: &mut Log) -> Taken {
        let names: Vec<&str> = text.split_ascii_whitespace().collect();
        let column = |name: &str| names.iter().position(|n| *n == name);
        let Some(time) = column("latency(us)") else { return Taken::No };
        self.columns = Some(Columns {
            count: names.len(),
            dtype: column("type"),
            scope: column("scope"),
            time,
            rates: column("algbw(GB/s)").zip(column("busbw(GB/s)")),
        });
        let title = std::mem::take(&mut self.title);
        let mut draft = Draft::new("nvshmem", number, title.clone());
        draft.library = Some("NVSHMEM".to_owned());
        draft.start_by(log.launcher.command.as_ref(), is_nvshmem_test);
        match collective(&title) {
            Some(collective) => draft.tested = Some(Tested::Collective(collective)),
            None => {
                draft.tested = Some(Tested::Other(title));
                draft.refuse(
                    "a test of NVSHMEM's messages, which are not collectives",
                    "give the output of a collective: reduction_on_stream, fcollect_on_stream …",
                );
            }
        }
        log.tables.push(draft);
        Taken::Began
    }
}

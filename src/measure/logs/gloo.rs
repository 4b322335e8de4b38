//! Gloo's benchmark.
//!
//! ```text
//!                          ALLREDUCE_RING_CHUNKED
//! Options:            processes=2, inputs=1, threads=1, verify=true
//!    size (B)   elements   min (us)   p50 (us)   p99 (us)   max (us)      bandwidth (GB/s)   iterations
//!        4000       1000         54         60         97        145                 0.057          500
//! ```
//!
//! Times are the median over rank 0's calls in whole microseconds; GB/s are 2^30 bytes per second of the mean.
//! Source: pytorch/gloo gloo/benchmark/runner.cc.

use super::draft::{Draft, Raw};
use super::{Line, Log, Read, Reader, Taken, Tested, field};
use crate::base::collective::Collective;
use crate::base::size_is::SizeIs;
use crate::machine::sample::DataType;

/// Reads tables.
#[derive(Default)]
pub(super) struct Table {
    algorithm: String,
    processes: Option<u32>,
    threads: u32,
    /// Seconds of the unit of times.
    unit: Option<f64>,
}

/// How its benchmarks are called, and the collective that each times; the longer of two such names first.
/// Source: `gloo/benchmark/main.cc`.
const BENCHMARKS: &[(&str, std::result::Result<Collective, &str>)] = {
    use Collective as C;
    &[
        ("ALLREDUCE_LOCAL", Err("no rank sends anything")),
        ("ALLREDUCE", Ok(C::AllReduce)),
        ("ALLGATHER_V", Err("ranks have blocks of unequal sizes")),
        ("ALLGATHER", Ok(C::AllGather)),
        ("REDUCE_SCATTER", Ok(C::ReduceScatter)),
        ("BROADCAST", Ok(C::Broadcast)),
        ("REDUCE", Ok(C::Reduce)),
        ("ALLTOALL", Err("what its sizes count is not known here")),
        ("SCATTER", Err("what its sizes count is not known here")),
        ("GATHER", Err("what its sizes count is not known here")),
        ("BARRIER", Err("it is timed by elements that it does not have")),
        ("PAIRWISE_EXCHANGE", Err("it is no collective")),
        ("SENDRECV", Err("it is no collective")),
    ]
};

/// The collective of an algorithm, by its name in capitals, or why its times are not used.
fn collective(algorithm: &str) -> Option<std::result::Result<Collective, &'static str>> {
    let plain = algorithm.strip_prefix("NEW_").unwrap_or(algorithm);
    let plain = plain.strip_prefix("CUDA_").unwrap_or(plain);
    BENCHMARKS.iter().find(|(name, _)| plain.starts_with(name)).map(|&(_, times)| times)
}

impl Reader for Table {
    fn take(&mut self, line: &Line, log: &mut Log) -> Read<Taken> {
        let text = line.text;
        let capital = |b: u8| b.is_ascii_uppercase() || b == b'_';
        if text.len() < 64 && text.bytes().all(capital) && collective(text).is_some() {
            text.clone_into(&mut self.algorithm);
            (self.processes, self.threads, self.unit) = (None, 1, None);
            return Ok(Taken::Yes);
        }
        if self.algorithm.is_empty() {
            return Ok(Taken::No);
        }
        if let Some(options) = text.strip_prefix("Options:") {
            for option in options.split(',') {
                match option.trim().split_once('=') {
                    Some(("processes", n)) => self.processes = n.parse().ok(),
                    Some(("threads", n)) => self.threads = n.parse().unwrap_or(1),
                    _ => {}
                }
            }
            return Ok(Taken::Yes);
        }
        if text.contains("p50 (") && text.contains("elements") {
            return Ok(self.heading(text, line.number, log));
        }
        let (Some(unit), true) = (self.unit, line.is_numeric()) else { return Ok(Taken::No) };
        let (fields, count) = field::split(text);
        let (Some(size), Some(draft)) = (field::whole(fields[0]), log.last()) else {
            return Ok(Taken::No);
        };
        match field::time(fields[3], unit).filter(|_| count >= 8) {
            Some(time) => {
                let each = field::whole(fields[1]).and_then(|n| size.checked_div(n));
                let dtype = match each {
                    Some(4) => Some(DataType::F32),
                    Some(2) => Some(DataType::F16),
                    _ => None,
                };
                draft.rows.push(Raw { dtype, ..Raw::timed(line.number, size, time) });
            }
            None => draft.leave_out(line.number, "the row is cut off, or has no time"),
        }
        Ok(Taken::Yes)
    }

    fn leave(&mut self) {
        *self = Self::default();
    }
}

impl Table {
    fn heading(&mut self, text: &str, number: usize, log: &mut Log) -> Taken {
        let mut draft = Draft::new("gloo", number, self.algorithm.to_ascii_lowercase());
        draft.library = Some(format!("Gloo {}", draft.title));
        match collective(&self.algorithm) {
            Some(Ok(collective)) => draft.tested = Some(Tested::Collective(collective)),
            Some(Err(why)) => {
                draft.tested = Some(Tested::Other(draft.title.clone()));
                let what = format!("{}: {why}", draft.title);
                draft.refuse(what, "run a collective of equal blocks, such as allreduce_ring");
            }
            None => {}
        }
        if draft.tested == Some(Tested::Collective(Collective::AllGather)) {
            draft.size_is = SizeIs::PerRank;
        }
        draft.ranks.extend(self.processes.map(|n| (n, "options")));
        self.unit = Some(if text.contains("p50 (ns)") { 1e-9 } else { 1e-6 });
        if !text.starts_with("size (B)") {
            draft.refuse(
                "the table has elements but no sizes, and does not state their type",
                "run a newer version of Gloo's benchmark, which prints sizes",
            );
        }
        if self.threads > 1 {
            draft.refuse(
                "several threads run collectives at once: no time is of one collective",
                "run it with --threads 1",
            );
        }
        log.tables.push(draft);
        Taken::Began
    }
}

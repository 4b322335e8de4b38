//! oneCCL's benchmark.
//!
//! ```text
//!   buf_count:      1
//!   inplace:        0
//!   datatypes:      float32
//!   reductions:     sum
//! # Benchmarking: allreduce
//! # #processes: 8
//!         #bytes  #repetitions   t_min[usec]   t_max[usec]   t_avg[usec]  stddev[%]
//!           4096            16         12.75         13.80         13.14        2.31
//! ```
//!
//! The columns are those of the Intel MPI Benchmarks; the colon in the banner distinguishes them. Sizes
//! count what one rank sends: for an all-gather its block, for a reduce-scatter the whole vector. With `buf_count`
//! of several, as many calls run at once, and size and time are of all together. Several types or reductions are
//! a table each, behind `datatype:` and `reduction:`.
//! Source: uxlfoundation/oneCCL examples/benchmark, `reduce_scatter_strategy.hpp`, `benchmark.hpp` and
//! `benchmark.cpp`.

use super::draft::{Draft, Raw, Redop};
use super::{Line, Log, Read, Reader, Taken, Tested, field};
use crate::base::collective::Collective;
use crate::base::size_is::SizeIs;
use crate::machine::sample::DataType;

/// Reads tables.
#[derive(Default)]
pub(super) struct Table {
    dtype: Option<DataType>,
    redop: Option<Redop>,
    in_place: bool,
    /// How many calls run at once.
    at_once: u64,
    open: bool,
    /// The field of the mean in a row, and the number of fields.
    columns: Option<(usize, usize)>,
}

impl Reader for Table {
    fn take(&mut self, line: &Line, log: &mut Log) -> Read<Taken> {
        let text = line.bare();
        if self.option(text) {
            return Ok(Taken::No);
        }
        if let Some(what) = text.strip_prefix("Benchmarking: ") {
            return Ok(self.begin(what.trim(), line.number, log));
        }
        if !self.open {
            return Ok(Taken::No);
        }
        let Some(draft) = log.last() else { return Ok(Taken::No) };
        if let Some(ranks) = text.trim_start_matches('#').trim_start().strip_prefix("processes:") {
            draft.ranks.extend(ranks.trim().parse().ok().map(|n| (n, "#processes")));
            return Ok(Taken::Yes);
        }
        if text.starts_with("bytes") {
            let names: Vec<&str> = text.split_ascii_whitespace().collect();
            let average = names.iter().position(|n| matches!(*n, "t_avg[usec]" | "avg[usec]"));
            self.columns = average.map(|at| (at, names.len()));
            return Ok(Taken::Yes);
        }
        if text.starts_with("All done") {
            self.open = false;
            return Ok(Taken::Yes);
        }
        let (Some((average, of)), true) = (self.columns, line.is_numeric()) else {
            return Ok(Taken::No);
        };
        let (fields, count) = field::split(text);
        let Some(size) = field::whole(fields[0]) else { return Ok(Taken::No) };
        match field::micros(fields[average], line.number)?.filter(|_| count >= of) {
            Some(time) => {
                draft.rows.push(Raw {
                    dtype: self.dtype,
                    in_place: self.in_place,
                    redop: self.redop,
                    ..Raw::timed(line.number, size, time)
                });
            }
            None => draft.leave_out(line.number, "the row is cut off, or has no time"),
        }
        Ok(Taken::Yes)
    }

    fn leave(&mut self) {
        (self.open, self.columns) = (false, None);
    }
}

impl Table {
    /// Reads what was asked of the benchmark, which it prints first.
    fn option(&mut self, text: &str) -> bool {
        let Some((key, value)) = text.split_once(':') else { return false };
        let value = value.trim();
        match key {
            "options" => *self = Self::default(),
            "buf_count" => self.at_once = value.parse().unwrap_or(0),
            "inplace" => self.in_place = value == "1",
            "datatypes" | "datatype" => self.dtype = DataType::named(value),
            "reductions" | "reduction" => self.redop = Redop::named(value),
            _ => return false,
        }
        true
    }

    fn begin(&mut self, what: &str, number: usize, log: &mut Log) -> Taken {
        let mut draft = Draft::new("oneccl", number, format!("oneCCL benchmark {what}"));
        draft.library = Some("oneCCL".to_owned());
        let collective = what.trim_end_matches('v').parse::<Collective>();
        draft.size_is = match collective {
            Ok(Collective::AllToAll) => SizeIs::PerPeer,
            Ok(Collective::ReduceScatter) => SizeIs::Total,
            _ => SizeIs::PerRank,
        };
        if what.contains([' ', ',']) {
            draft.refuse(
                "several collectives share one table",
                "run one collective at a time: --coll allreduce",
            );
        }
        if self.at_once > 1 {
            draft.refuse(
                format!("{} calls run at once: no time is of one collective", self.at_once),
                "run it with --buf_count 1",
            );
        }
        if !collective.as_ref().is_ok_and(|c| c.reduces()) {
            self.redop = None;
        }
        draft.tested = Some(match collective {
            Ok(collective) => Tested::Collective(collective),
            Err(_) => Tested::Other(what.to_owned()),
        });
        log.tables.push(draft);
        (self.open, self.columns) = (true, None);
        Taken::Began
    }
}

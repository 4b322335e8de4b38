//! UCC's `ucc_perftest`.
//!
//! ```text
//! Collective:             Alltoall
//! Memory type:            cuda
//! Datatype:               float32
//! Reduction:              N/A
//! Inplace:                0
//!        Count        Size                Time, us                       Bus Bandwidth, GB/s
//!                                  avg         min         max         avg         max         min
//!        65536      262144       75.00       70.00       80.00       24.47       26.21       22.94
//! ```
//!
//! The number of ranks is not printed. Sizes are those of a rank's block in all-gather and gather, and of the whole vector
//! in all-reduce, reduce and broadcast. In all-to-all, reduce-scatter and scatter they are of a block up to 1.4 and of the
//! whole vector since July 2025: the bandwidths, which `-F` adds, tell the two apart. Every number has two decimals.
//! Source: openucx/ucc `tools/perf/ucc_pt_benchmark.cc`, `ucc_pt_coll_*.cc` and `generator/ucc_pt_generator_exp.cc` at
//! 8263de4 and before 19af19d.

use super::draft::{Draft, Raw, Redop};
use super::{Line, Log, Read, Reader, Taken, Tested, field};
use crate::base::collective::Collective as C;
use crate::base::quantity::{Ratio, Seconds};
use crate::base::size_is::SizeIs;
use crate::machine::sample::{DataType, Mode};

/// Reads tables.
#[derive(Default)]
pub(super) struct Table {
    /// What the lines before the table say.
    what: Option<String>,
    memory: String,
    dtype: Option<DataType>,
    redop: Option<Redop>,
    in_place: bool,
    streaming: bool,
    /// The number of fields of a row, of an open table.
    fields: Option<usize>,
}

/// The fields of a row without and with bandwidths.
const FIELDS: [usize; 2] = [5, 8];

/// Bandwidths are as precise as this where they tell what sizes count.
const PRECISE: f64 = 0.02;

impl Reader for Table {
    fn take(&mut self, line: &Line, log: &mut Log) -> Read<Taken> {
        let text = line.bare();
        if self.setting(text) {
            return Ok(Taken::No);
        }
        let (fields, count) = field::split(text);
        let fields = &fields[..count];
        if fields.starts_with(&["Count", "Size", "Time,", "us"]) {
            return Ok(match self.what.take() {
                Some(what) => self.begin(&what, fields.contains(&"GB/s"), line.number, log),
                None => Taken::No,
            });
        }
        let (Some(of), Some(draft)) = (self.fields, log.last()) else { return Ok(Taken::No) };
        if fields.starts_with(&["avg", "min", "max"]) {
            return Ok(Taken::Yes);
        }
        // A barrier has neither a count nor a size.
        let size = match fields {
            ["N/A", "N/A", ..] => 0,
            [count, size, ..] if field::whole(count).is_some() => match field::whole(size) {
                Some(size) => size,
                None => return Ok(Taken::No),
            },
            _ => return Ok(Taken::No),
        };
        let is_cut = fields.len() < of
            || fields[2..].iter().any(|one| field::decimals(one) < 2 && !field::is_none(one));
        if is_cut {
            draft.leave_out(
                line.number,
                format!("the row is cut off: {} of {of} fields", fields.len()),
            );
            return Ok(Taken::Yes);
        }
        let Some(time) = field::micros(fields[2], line.number)? else {
            draft.leave_out(line.number, "a time of 0");
            return Ok(Taken::Yes);
        };
        // The last bandwidth is that of the longest time.
        let longest = field::micros(fields[4], line.number)?.zip(fields.get(7));
        let mut factor = longest.and_then(|(longest, rate)| factor(size, longest, rate));
        if let (Some(seen), Some(Tested::Collective(collective))) = (factor, draft.tested.clone()) {
            told_apart(draft, collective, seen);
            // That of a scatter is not nccl-tests' busbw.
            let is_busbw = matches!(collective, C::AllReduce | C::AllToAll | C::ReduceScatter)
                && draft.size_is == SizeIs::Total
                && draft.refused.is_none();
            factor = factor.filter(|_| is_busbw);
        }
        draft.rows.push(Raw {
            dtype: self.dtype,
            in_place: self.in_place,
            redop: self.redop,
            factor,
            ..Raw::timed(line.number, size, time)
        });
        Ok(Taken::Yes)
    }

    fn leave(&mut self) {
        *self = Self::default();
    }
}

impl Table {
    /// Reads a line before the table.
    fn setting(&mut self, text: &str) -> bool {
        let Some((key, value)) = text.split_once(':') else { return false };
        let value = value.trim();
        match key {
            "Collective" => *self = Self { what: Some(value.to_owned()), ..Self::default() },
            "Memory type" => value.clone_into(&mut self.memory),
            "Datatype" | "Data type" => self.dtype = DataType::named(value),
            "Reduction" | "Operation type" => self.redop = Redop::named(value),
            "Inplace" => self.in_place = value == "1",
            "Iteration mode" => self.streaming = value == "streaming",
            _ => return false,
        }
        true
    }

    fn begin(&mut self, what: &str, rates: bool, number: usize, log: &mut Log) -> Taken {
        let mut draft = Draft::new("ucc-perftest", number, format!("ucc_perftest {what}"));
        draft.library = Some(match self.memory.as_str() {
            "" | "host" => "UCC".to_owned(),
            other => format!("UCC on {other}"),
        });
        draft.mode = if self.streaming { Mode::Stream } else { Mode::Isolated };
        draft.start_by(log.launcher.command.as_ref(), |name| name == "ucc_perftest");
        let collective = what.parse::<C>();
        draft.size_is = match collective {
            Ok(C::AllGather | C::Gather) => SizeIs::PerRank,
            _ => SizeIs::Total,
        };
        match &collective {
            Ok(C::AllToAll | C::ReduceScatter | C::Scatter) => draft.refuse(
                "sizes are of a block or of the whole vector, by release, and nothing tells which",
                "run it with -F up to sizes at which it prints 0.25 GB/s or more",
            ),
            Ok(_) => {}
            Err(_) => draft.refuse(
                format!("`{what}` is no collective with equal blocks"),
                "leave it out: only times of single operations are used",
            ),
        }
        draft.tested = Some(match collective {
            Ok(collective) => Tested::Collective(collective),
            Err(_) => Tested::Other(what.to_owned()),
        });
        log.tables.push(draft);
        self.fields = Some(FIELDS[usize::from(rates)]);
        Taken::Began
    }
}

/// The printed bandwidth over that of the size, within the digits of all.
fn factor(size: u64, time: Seconds, rate: &str) -> Option<(Ratio, Ratio)> {
    let printed = field::number(rate).filter(|rate| *rate > 0.0 && size > 0)?;
    let half = field::half(rate);
    // Both have two decimals: of a microsecond, and of a gigabyte per second.
    let of = |rate: f64, off: f64| Ratio(rate * 1e9 * (time.0 + off * 1e-6) / size as f64);
    Some((of(printed - half, -half), of(printed + half, half)))
}

/// What the sizes count of a collective whose releases differ: the bandwidth of a vector is below that of its size, since a
/// rank keeps its own block; that of the size of a block is N − 1 times as much, of a scatter N times.
fn told_apart(draft: &mut Draft, collective: C, (low, high): (Ratio, Ratio)) {
    let limit = match collective {
        C::AllToAll | C::ReduceScatter => 1.0,
        C::Scatter => 1.5,
        _ => return,
    };
    if high.0 - low.0 > PRECISE * low.0 {
        return;
    }
    draft.size_is = match (collective, high.0 < limit) {
        (_, true) => SizeIs::Total,
        (C::AllToAll, false) => SizeIs::PerPeer,
        _ => SizeIs::PerRank,
    };
    draft.refused = None;
}

#[cfg(test)]
mod tests {
    use crate::base::quantity::Bytes;
    use crate::measure::logs::{Asked, look};

    /// A table as printed: the longest time and its bandwidth are the last columns.
    fn table(collective: &str, rows: &str) -> String {
        let reduction = if collective.contains("educe") { "sum" } else { "N/A" };
        format!(
            "$ mpirun -np 8 ./ucc_perftest -c {collective} -F\n\
             Collective:             {collective}\nMemory type:            host\nDatatype:               float32\n\
             Reduction:              {reduction}\nInplace:                1\nWarmup:\n  small                 100\n\
             Iterations:\n  small                 1000\n\n\
             \x20      Count        Size                Time, us                       Bus Bandwidth, GB/s\n\
             \x20                                avg         min         max         avg         max         min\n{rows}"
        )
    }

    fn read(text: &str) -> crate::measure::logs::Table {
        look(text.as_bytes(), "ucc.txt", &Asked::default()).unwrap().tables.remove(0)
    }

    #[test]
    fn sizes_count_what_the_release_counts() {
        // Eight ranks before and since July 2025.
        let old = "65536 262144 75.00 70.00 80.00 24.47 26.21 22.94\n1048576 4194304 680.00 650.00 700.00 43.18 45.17 41.94\n";
        let new = "1048576 4194304 82.48 79.85 90.07 44.50 45.96 40.75\n";
        let of = |collective: &str, rows: &str| {
            let table = read(&table(collective, rows));
            (table.refused.is_some(), table.rows.iter().map(|row| row.size).collect::<Vec<_>>())
        };
        assert_eq!(of("Alltoall", old), (false, vec![Bytes(8 << 18), Bytes(8 << 22)]));
        assert_eq!(of("Alltoall", new), (false, vec![Bytes(4 << 20)]));
        assert_eq!(of("Reduce_scatter", new), (false, vec![Bytes(4 << 20)]));
        assert!(of("Scatter", "1 4 5.00 4.00 6.00 N/A N/A 0.01\n").0);
        let whole = "1048576 4194304 82.48 79.85 90.07 N/A N/A 46.57\n";
        assert_eq!(of("Scatter", whole), (false, vec![Bytes(4 << 20)]));
        assert_eq!(
            of("Scatter", &whole.replace("46.57", "372.54")),
            (false, vec![Bytes(32 << 20)])
        );
        assert_eq!(of("Allgather", new), (false, vec![Bytes(32 << 20)]));
        assert!(of("Alltoallv", new).0);
    }

    #[test]
    fn what_is_printed_is_read() {
        let all =
            read(&table("Allreduce", "1024 4096 7.15 6.02 9.03 1.00 1.19 0.79\n2048 8192 8.1"));
        assert_eq!(
            (all.format, all.ranks, all.ranks_by),
            ("ucc-perftest", Some(8), Some("command"))
        );
        assert_eq!((all.rows.len(), all.left_out[0].count), (1, 1));
        assert!(all.rows[0].in_place && all.library.as_deref() == Some("UCC"), "{all:?}");
        let barrier = read(&table("Barrier", "N/A N/A 7.15 6.02 9.03 N/A N/A N/A\n"));
        assert_eq!(barrier.rows[0].size, Bytes(0));
        // Without -F there are no bandwidths.
        let short = table("Allreduce", "1024 4096 7.15 6.02 9.03\n")
            .replace("          Bus Bandwidth, GB/s", "")
            .replace("         avg         max         min\n", "\n");
        assert_eq!(read(&short).rows.len(), 1);
    }
}

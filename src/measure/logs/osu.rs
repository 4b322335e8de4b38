//! OSU micro-benchmarks, 3.x to 7.x, over MPI and NCCL.
//!
//! ```text
//! # OSU MPI-CUDA Allreduce Latency Test v5.8
//! # Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations
//! 4                     346.93            333.10            355.21        1000
//! ```
//!
//! The number of ranks is not printed. Sizes are those of a rank's block in all-gather, scatter, gather
//! and all-to-all, and of the whole vector elsewhere. A reduce-scatter over NCCL and `Reduce_scatter_block` leave out what
//! would not be whole elements of every rank; `Reduce_scatter` over MPI gives some ranks an element more. The tests of calls with counts, such as `osu_alltoallv`,
//! pass the same count for every rank. MB are 10^6 bytes; for many messages at once MB/s are
//! a rate, not a time. The heading may name fewer columns than rows have (`-f` of 7.3). Every number has
//! two decimals, which reveals a truncated one.
//!
//! Source: OSU micro-benchmarks 5.8 and 7.5 `c/mpi`, `c/util/osu_util_mpi.c`, `c/xccl/collective`; the counts are set in `osu_alltoallv.c`
//! and the others of 5.x and in `omb_init_irregular_args` of later ones.

use super::draft::{Draft, Raw};
use super::{Line, Log, Measured, Read, Reader, Taken, Tested, field};
use crate::base::collective::Collective as C;
use crate::base::quantity::Bandwidth;
use crate::base::refused::Refused;
use crate::base::size_is::SizeIs;
use crate::machine::sample::{DataType, Mode};

/// The names in the titles of collectives.
const COLLECTIVES: &[(&str, C)] = &[
    ("All-to-All Personalized Exchange", C::AllToAll),
    ("All-to-Allv Personalized Exchange", C::AllToAll),
    ("Reduce_scatter", C::ReduceScatter),
    ("Reduce_scatter_block", C::ReduceScatter),
    ("Reduce-Scatter", C::ReduceScatter),
    ("ReduceScatter", C::ReduceScatter),
    ("Allgather", C::AllGather),
    ("Allgatherv", C::AllGather),
    ("Allreduce", C::AllReduce),
    ("Alltoall", C::AllToAll),
    ("Alltoallv", C::AllToAll),
    ("Broadcast", C::Broadcast),
    ("Barrier", C::Barrier),
    ("Scatter", C::Scatter),
    ("Scatterv", C::Scatter),
    ("Gather", C::Gather),
    ("Gatherv", C::Gather),
    ("Reduce", C::Reduce),
    ("Bcast", C::Broadcast),
];

/// The unit of OSU's rates.
const MB: Bandwidth = Bandwidth(1e6);

/// Reads tables.
#[derive(Default)]
pub(super) struct Table {
    /// The title of the current test, and its line.
    title: Option<(usize, String)>,
    dtype: Option<DataType>,
    open: bool,
    /// The number of fields in the rows so far.
    fields: usize,
    /// Whether rows have no size.
    barrier: bool,
}

impl Reader for Table {
    fn take(&mut self, line: &Line, log: &mut Log) -> Read<Taken> {
        if line.is_numeric() {
            return if self.open { self.row(line, log) } else { Ok(Taken::No) };
        }
        let text = line.bare();
        if text.starts_with("OSU ") || text.starts_with("OMB") {
            let Some(at) = text.find(" Test") else { return Ok(Taken::No) };
            *self = Self { title: Some((line.number, text.to_owned())), ..Self::default() };
            // A table begins at its title: the log may end there.
            self.begin(&text[..at], line.number, log);
            return Ok(Taken::Began);
        }
        if self.title.is_none() {
            return Ok(Taken::No);
        }
        if let Some(rest) = text.strip_prefix("Datatype:") {
            self.dtype = DataType::named(rest.trim().trim_end_matches('.'));
            if let (Some(draft), Some(dtype)) = (log.last(), self.dtype) {
                draft.element = draft.element.map(|_| dtype.bytes());
            }
            return Ok(Taken::Yes);
        }
        if let Some((_, rest)) = text.split_once("[ pairs: ") {
            let pairs = rest.split_ascii_whitespace().next().and_then(|n| n.parse::<u32>().ok());
            let Some(draft) = log.last() else { return Ok(Taken::Yes) };
            if draft.ranks.is_empty() {
                draft.ranks.extend(pairs.and_then(|n| n.checked_mul(2)).map(|n| (n, "pairs")));
            }
            if rest.contains("window size: varied") {
                draft.refuse(
                    "the table of a varied window (-V) has a column for each window, and is not read",
                    "run it without -V",
                );
            }
            return Ok(Taken::Yes);
        }
        let heading = text.starts_with("Size") || (self.barrier && text.contains("Latency"));
        if heading && line.text.starts_with('#') || text.starts_with("Size ") {
            return self.heading(text, line, log);
        }
        Ok(Taken::No)
    }

    fn leave(&mut self) {
        *self = Self::default();
    }
}

impl Table {
    fn begin(&mut self, title: &str, line: usize, log: &mut Log) {
        let mut draft = Draft::new("osu", line, title);
        let words = title.split_once(' ').map_or("", |(_, rest)| rest);
        let (over, what) = words.split_once(' ').unwrap_or((words, ""));
        let what = what.strip_suffix("Latency").unwrap_or(what).trim_end();
        let refuse = |draft: &mut Draft, why: &str| {
            draft.tested = Some(Tested::Other(what.to_owned()));
            draft.refuse(why, "leave it out: only times of single operations are used");
        };
        let collective = COLLECTIVES.iter().find(|(name, _)| what == *name);
        let mut call = String::new();
        match (what, collective) {
            _ if title.starts_with("OMB Python") => {
                draft.tested = Some(Tested::Other(what.to_owned()));
                draft.refuse(
                    "the tables of OMB-Py, the tests in Python, are not read",
                    "run the test in C, such as osu_allreduce",
                );
            }
            _ if over.starts_with("MPI_") || over.contains("SHMEM") || over.contains("UPC") => {
                refuse(&mut draft, "one-sided transfers are neither messages nor collectives");
            }
            (_, Some(&(_, collective))) => {
                draft.tested = Some(Tested::Collective(collective));
                draft.size_is = size_is(collective);
                // Its count is the size in floats over the ranks, rounded down.
                let over_ccl = ["NCCL", "RCCL"].iter().any(|library| over.starts_with(library));
                let divides = over_ccl && collective == C::ReduceScatter;
                draft.element =
                    (divides || what == "Reduce_scatter_block").then_some(DataType::F32.bytes());
                // Libraries have separate algorithms for these calls.
                if let Some(name) = what.split(' ').next().filter(|name| name.ends_with('v')) {
                    draft.warn(format!("{what} has a count for every rank; OSU passes equal ones"));
                    call = format!(" {name}");
                }
                self.barrier = collective == C::Barrier;
                // Up to 6.x reductions use MPI_FLOAT and transfers MPI_CHAR; 7.x prints the type.
                let usual = if collective.reduces() { DataType::F32 } else { DataType::Byte };
                self.dtype = Some(usual).filter(|_| collective != C::Barrier);
            }
            ("", _) if title.ends_with("Latency") => draft.tested = Some(Tested::OneWay),
            ("Multi", _) => {
                // Several pairs at once; their number is not printed.
                draft.tested = Some(Tested::OneWay);
                draft.any_ranks = true;
            }
            ("Bandwidth" | "Multiple Bandwidth / Message Rate", _) => {
                draft.tested = Some(Tested::Rate { both_ways: false });
            }
            ("Bi-Directional Bandwidth" | "Bidirectional Bandwidth", _) => {
                draft.tested = Some(Tested::Rate { both_ways: true });
            }
            (other, _) if other.starts_with("Non-blocking") => {
                refuse(&mut draft, "a collective that overlaps computation has a different time");
            }
            (other, _) if other.ends_with("Persistent") => {
                refuse(&mut draft, "a collective that was set up before has a different time");
            }
            (other, _) if other.starts_with("Neighborhood") => {
                refuse(&mut draft, "a collective between neighbours is not one over all ranks");
            }
            (other, _) if other.starts_with("All-to-Allw") => {
                refuse(&mut draft, "a collective with a datatype for every rank is not read");
            }
            _ => refuse(&mut draft, &format!("`{what}` is not a test of messages or collectives")),
        }
        draft.start_by(log.launcher.command.as_ref(), |name| name.starts_with("osu_"));
        draft.library = Some(format!("{over}{call}")).filter(|_| !over.is_empty());
        draft.mode = Mode::Isolated;
        log.tables.push(draft);
    }

    fn heading(&mut self, text: &str, line: &Line, log: &mut Log) -> Read<Taken> {
        self.open = true;
        self.fields = 0;
        let Some(draft) = log.last() else { return Ok(Taken::No) };
        let overlapped = text.contains("Overlap");
        if overlapped {
            draft.refuse(
                "a collective that overlaps computation has a different time",
                "run the blocking test",
            );
        }
        if text.contains("Transmit Size") {
            draft.refuse(
                "a derived datatype (-D) moves another size, and is packed within the time",
                "run the test without -D",
            );
        }
        // Units are in brackets: (us), (MB/s), (%).
        let foreign = text.split('(').skip(1).filter_map(|rest| rest.split(')').next()).find(|u| {
            !matches!(*u, "us" | "MB/s" | "%") && u.chars().all(|c| c.is_alphabetic() || c == '/')
        });
        if let Some(unit) = foreign.filter(|_| draft.refused.is_none()) {
            let what = format!("the table's unit `{unit}` is not one of OSU's, us and MB/s");
            return Err(Refused::at(line.number, what).help("give the unchanged output of OSU"));
        }
        let is_rate = text.contains("MB/s");
        match &draft.tested {
            _ if draft.refused.is_some() => {}
            Some(Tested::Rate { .. }) if !is_rate => {
                return Err(Refused::at(line.number, "a bandwidth test without MB/s"));
            }
            Some(Tested::OneWay | Tested::Collective(_)) if is_rate => {
                return Err(Refused::at(line.number, "MB/s in a latency test"));
            }
            _ => {}
        }
        Ok(Taken::Yes)
    }

    fn row(&mut self, line: &Line, log: &mut Log) -> Read<Taken> {
        let (fields, count) = field::split(line.text);
        let fields = &fields[..count];
        field::plain_size(fields, line.number)?;
        let (size, figures) = match self.barrier {
            true => (Some(0), fields),
            false => (fields.first().and_then(|f| field::whole(f)), fields.get(1..).unwrap_or(&[])),
        };
        let Some(size) = size else { return Ok(Taken::No) };
        // `8388608   1` at the end of a file was `8388608   137.55`.
        let Some(draft) = log.last() else { return Ok(Taken::No) };
        let words = |f: &&&str| !matches!(**f, "Pass" | "Fail" | "pass" | "fail");
        let numbers = figures.iter().take_while(|f| field::number(f).is_some()).count();
        let strange = figures[numbers..].iter().filter(words).count();
        if numbers == 0 && strange > 0 {
            let plain = figures[0].trim_start_matches('-').to_ascii_lowercase();
            let is_figure = matches!(&*plain, "nan" | "inf")
                || field::number(&plain.replacen(',', ".", 1)).is_some();
            if !is_figure {
                return Ok(Taken::No);
            }
            draft.leave_out(line.number, format!("`{}` is not a time or rate", figures[0]));
            return Ok(Taken::Yes);
        }
        let is_cut = numbers == 0
            || field::decimals(figures[0]) < 2
            || (self.fields > 0 && numbers < self.fields)
            || (!line.whole && figures[numbers - 1].ends_with('.'));
        if is_cut {
            if numbers > 0 {
                field::micros(figures[0], line.number)?;
            }
            let of =
                if self.fields > 0 { format!(" of {}", self.fields + 1) } else { String::new() };
            draft.leave_out(line.number, format!("the row is cut off: {count}{of} fields"));
            return Ok(Taken::Yes);
        }
        self.fields = self.fields.max(numbers);
        let dtype = match draft.tested {
            Some(Tested::Collective(_)) => self.dtype,
            _ => self.dtype.or(Some(DataType::Byte)),
        };
        let measured = match draft.tested {
            Some(Tested::Rate { .. }) => {
                field::rate(figures[0], MB, line.number)?.map(Measured::Rate)
            }
            _ => field::micros(figures[0], line.number)?.map(Measured::Time),
        };
        let Some(measured) = measured else {
            draft.leave_out(line.number, "a time or rate of 0");
            return Ok(Taken::Yes);
        };
        // After the average come minimum, maximum and the number of iterations.
        if let Some(iterations) = figures.get(3).and_then(|f| field::whole(f)) {
            draft.iterations = draft.iterations.max(u32::try_from(iterations).unwrap_or(1));
        }
        let wrong = figures.iter().any(|f| f.eq_ignore_ascii_case("fail")).then_some(1);
        draft.rows.push(Raw { dtype, wrong, ..Raw::of(line.number, size, measured) });
        Ok(Taken::Yes)
    }
}

/// What the sizes of a collective count, in OSU's tests and Intel's.
pub(super) fn size_is(collective: C) -> SizeIs {
    match collective {
        C::AllGather | C::Scatter | C::Gather => SizeIs::PerRank,
        C::AllToAll => SizeIs::PerPeer,
        _ => SizeIs::Total,
    }
}

#[cfg(test)]
mod tests {
    use crate::measure::logs::{Asked, Table, look};

    fn only(text: &str) -> Table {
        look(text.as_bytes(), "osu.txt", &Asked::default()).unwrap().tables.remove(0)
    }

    const RATES: &str = "# OSU MPI Multiple Bandwidth / Message Rate Test v7.1\n\
                         # [ pairs: 4 ] [ window size: 64 ]\n\
                         # Size                  MB/s          Messages/s\n\
                         1                         4.00          3999600.04\n";

    #[test]
    fn pairs_are_twice_as_many_ranks() {
        let started = only(&format!("$ mpirun -np 8 ./osu_mbw_mr\n{RATES}"));
        let alone = only(RATES);
        assert_eq!((alone.ranks, alone.ranks_by), (Some(8), Some("pairs")));
        assert!(alone.refused.is_some() && alone.refused == started.refused);
        let one = only(&RATES.replace("pairs: 4", "pairs: 1"));
        assert_eq!((one.ranks, one.refused.is_none(), one.rows.len()), (Some(2), true, 1));
    }

    #[test]
    fn what_is_not_read_is_named() {
        let varied = RATES.replace("window size: 64", "window size: varied");
        let python = "# OMB Python MPI Allreduce Test\n# Size (B)      Latency (us)\n4     5.10\n";
        for (text, name) in [(&*varied, "-V"), (python, "OMB-Py")] {
            let refused = only(text).refused.unwrap();
            assert!(refused.what.contains(name), "{}", refused.what);
        }
    }
}

//! Intel MPI Benchmarks, 3.x to 2021: IMB-MPI1.
//!
//! ```text
//! # Benchmarking Allreduce
//! # #processes = 4
//! # ( 4 additional processes waiting in MPI_Barrier)
//!        #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]
//!             4         1000         1.74         1.91         1.83
//! ```
//!
//! N is the number of processes that take part, not that of the job. A collective lasts until its last
//! rank is done, which is t_max; t_avg is the mean over ranks. Sizes are of a rank's block in all-gather,
//! scatter, gather and all-to-all, and of the whole vector elsewhere. Those of a reduce-scatter were of the
//! whole vector up to 2019, and are of a rank's block since 2019 Update 1. A ping-pong's time is already one way.
//!
//! `-multi 1` prints a row for each group of processes and puts a column `Group` in front: such tables are refused, like
//! those of several groups, and those of IMB-P2P, another program.
//!
//! A build with `-DCHECK` ends each row with `defects`, the largest error of its results; the program fails above 0.01
//! (`TOL` in `src_c/IMB_declare.h`).
//!
//! Source: Intel MPI Benchmarks 2021 user guide, "Benchmark Methodology"; `src_c/IMB_output.c`; for the
//! reduce-scatter `src_c/IMB_reduce_scatter.c` and `src_c/IMB_reduce_scatter_block.c` of v2019.0 and v2019.1.

use super::draft::{Draft, Raw};
use super::launcher::Command;
use super::osu::size_is;
use super::{Line, Log, Read, Reader, Taken, Tested, field};
use crate::base::collective::Collective as C;
use crate::base::refused::Refused;
use crate::base::size_is::SizeIs;
use crate::machine::sample::{DataType, Mode};

/// Benchmarks that are used.
const USED: &[(&str, Tested)] = &[
    ("PingPong", Tested::OneWay),
    ("PingPing", Tested::Shift),
    ("Sendrecv", Tested::Shift),
    ("Allreduce", Tested::Collective(C::AllReduce)),
    ("Reduce", Tested::Collective(C::Reduce)),
    ("Reduce_scatter", Tested::Collective(C::ReduceScatter)),
    ("Reduce_scatter_block", Tested::Collective(C::ReduceScatter)),
    ("Allgather", Tested::Collective(C::AllGather)),
    ("Gather", Tested::Collective(C::Gather)),
    ("Scatter", Tested::Collective(C::Scatter)),
    ("Alltoall", Tested::Collective(C::AllToAll)),
    ("Bcast", Tested::Collective(C::Broadcast)),
    ("Barrier", Tested::Collective(C::Barrier)),
];

/// Why a run with `-multi` is not used. With `-multi 1` each row begins with the number of its group, also of a single
/// one.
const GROUPS: &str = "with -multi, groups of processes run at once and share links";

const ONE_SIDED: &str = "one-sided transfers are neither messages nor collectives";

/// Their counts are equal, but a fit of both would mix two algorithms.
const COUNTS: &str =
    "a call with counts may use another algorithm than the one without in the same run";

/// Benchmarks that are not used, and why.
const UNUSED: &[(&str, &str)] = &[
    (
        "Exchange",
        "each rank exchanges with two others at once: neither a single message nor a collective",
    ),
    ("Allgatherv", COUNTS),
    ("Gatherv", COUNTS),
    ("Scatterv", COUNTS),
    ("Alltoallv", COUNTS),
    ("PingPongSpecificSource", "messages from any source are matched differently"),
    ("PingPingSpecificSource", "messages from any source are matched differently"),
    ("Uniband", "many messages in flight at once give no time for one"),
    ("Window", ONE_SIDED),
    ("Unidir_Get", ONE_SIDED),
    ("Unidir_Put", ONE_SIDED),
    ("Bidir_Get", ONE_SIDED),
    ("Bidir_Put", ONE_SIDED),
    ("Accumulate", ONE_SIDED),
    ("Biband", "many messages in flight at once give no time for one"),
];

/// The columns of a table.
#[derive(Clone, Copy)]
struct Columns {
    /// The time's field.
    time: usize,
    /// The field of the largest error, if results are checked.
    defects: Option<usize>,
    /// The number of fields.
    count: usize,
}

/// A larger error is one of wrong results.
const DEFECT: f64 = 0.01;

/// Reads tables.
#[derive(Default)]
pub(super) struct Table {
    title: Option<String>,
    processes: Option<u32>,
    /// Why the whole benchmark is not used.
    apart: Option<&'static str>,
    library: Option<String>,
    added: Option<DataType>,
    moved: Option<DataType>,
    /// The columns, while a table is open.
    columns: Option<Columns>,
}

impl Reader for Table {
    fn take(&mut self, line: &Line, log: &mut Log) -> Read<Taken> {
        if line.is_numeric() && !line.text.starts_with('#') {
            return match self.columns {
                Some(columns) => self.row(line, log, columns),
                None => Ok(Taken::No),
            };
        }
        let text = line.bare();
        if let Some(name) = text.strip_prefix("Benchmarking").filter(|n| n.starts_with([' ', '\t']))
        {
            let name = name.split_ascii_whitespace().next().unwrap_or("");
            log.begun = Some((line.number, "IMB"));
            *self = Self {
                title: Some(name.to_owned()),
                library: self.library.take(),
                added: self.added,
                moved: self.moved,
                ..Self::default()
            };
            return Ok(Taken::Yes);
        }
        // `# #processes = 4`
        if let Some(("", rest)) = text
            .strip_prefix("#processes")
            .and_then(|rest| rest.split_once('=').map(|(blanks, rest)| (blanks.trim(), rest)))
        {
            self.processes = rest.split_ascii_whitespace().next().and_then(|n| n.parse().ok());
            return Ok(Taken::Yes);
        }
        if text.starts_with('(') && text.contains("groups of ") && text.contains("processes each") {
            self.apart = Some(GROUPS);
            return Ok(Taken::Yes);
        }
        if text.starts_with("MODE:") {
            self.apart =
                Some("one-sided transfers or file I/O are neither messages nor collectives");
            return Ok(Taken::Yes);
        }
        if text.starts_with("Intel") && text.contains("MPI Benchmarks") {
            self.library = Some(text.split_ascii_whitespace().collect::<Vec<_>>().join(" "));
            return Ok(Taken::Yes);
        }
        if let Some(rest) = text.strip_prefix("MPI_Datatype") {
            let name = rest.rsplit(':').next().unwrap_or("").trim();
            let into = if rest.contains("reductions") { &mut self.added } else { &mut self.moved };
            *into = DataType::named(name);
            return Ok(Taken::Yes);
        }
        let grouped =
            text.strip_prefix("Group").map(|rest| rest.trim_start_matches([' ', '\t', '#']));
        let columns = grouped.unwrap_or(text);
        if columns.starts_with("bytes") || columns.starts_with("repetitions") {
            if grouped.is_some() {
                self.apart = Some(GROUPS);
            }
            return self.heading(columns, line, log);
        }
        // A quotation may keep only the benchmark's name.
        let name = text.trim_end_matches([':', '：']);
        if name.len() < text.len() && known(name) {
            *self = Self { title: Some(name.to_owned()), ..Self::default() };
            return Ok(Taken::Yes);
        }
        if text.starts_with("All processes entering MPI_Finalize") {
            self.columns = None;
            return Ok(Taken::Yes);
        }
        Ok(Taken::No)
    }

    fn leave(&mut self) {
        self.columns = None;
    }
}

fn known(name: &str) -> bool {
    USED.iter().any(|(n, _)| *n == name) || UNUSED.iter().any(|(n, _)| *n == name)
}

/// Whether sizes of a reduce-scatter are of a rank's block, by what a release prints of itself: `Intel(R) MPI
/// Benchmarks 2019 Update 1, MPI-1 part`. `None` if it names no release.
fn counts_blocks(library: &str) -> Option<bool> {
    let mut words = library.split([' ', ',']).skip_while(|word| *word != "Benchmarks").skip(1);
    let mut year = words.next()?.split('.');
    let (year, minor) = (year.next()?.parse::<u32>().ok()?, year.next());
    let update = words.next() == Some("Update") || minor.is_some();
    Some(year > 2019 || year == 2019 && update)
}

impl Table {
    /// What the sizes of a reduce-scatter count.
    fn parts(&self, title: &str, draft: &mut Draft) {
        let by_release = self.library.as_deref().and_then(counts_blocks);
        // The other form of that benchmark has never divided its size.
        let blocks = title == "Reduce_scatter_block" || by_release.unwrap_or(true);
        if blocks {
            draft.size_is = SizeIs::PerRank;
        }
        if by_release.is_none() && title == "Reduce_scatter" {
            draft.warn(
                "the log names no release of IMB: sizes of a reduce-scatter are taken for those of a \
                 rank's block, as since 2019 Update 1",
            );
        }
    }

    fn heading(&mut self, text: &str, line: &Line, log: &mut Log) -> Read<Taken> {
        let (fields, count) = field::split(text);
        let fields = &fields[..count];
        let repetitions = fields.iter().take(2).any(|f| f.trim_matches('#') == "repetitions");
        if !repetitions {
            return Ok(Taken::No);
        }
        let title = self.title.take().unwrap_or_else(|| "a table without `# Benchmarking`".into());
        let mut draft = Draft::new("imb", line.number, title.clone());
        draft.mode = Mode::Stream;
        draft.library.clone_from(&self.library);
        draft.ranks.extend(self.processes.map(|n| (n, "#processes")));
        // A smaller test runs on the first processes; -map numbers them anew.
        let command = (log.launcher.command.as_ref())
            .filter(|c| c.program.starts_with("IMB-") && !c.arguments.iter().any(|a| a == "-map"));
        draft.nodes = command.and_then(|c| c.nodes_of(self.processes?));
        draft.warnings.extend(command.and_then(Command::unclear));
        let column = |names: &[&str]| {
            names.iter().find_map(|name| fields.iter().position(|f| f.starts_with(name)))
        };
        let timed = column(&["t_max["]).or(column(&["t["]));
        let unit = fields.iter().filter_map(|f| f.split_once('[')).find(|(name, unit)| {
            name.starts_with('t') && !matches!(*unit, "usec]" | "us]" | "usec" | "us")
        });
        if let Some((_, unit)) = unit {
            let what = format!("the table's unit [{unit} is not IMB's, [usec]");
            return Err(Refused::at(line.number, what).help("give the unchanged output of IMB"));
        }
        let why = UNUSED.iter().find(|(name, _)| *name == title).map(|&(_, why)| why);
        let used = USED.iter().find(|(name, _)| *name == title);
        let overlapped = fields.iter().any(|f| f.starts_with("t_ovrl") || f.starts_with("overlap"));
        let usual = "leave it out: only times of single operations are used";
        if let Some((_, tested)) = used {
            draft.tested = Some(tested.clone());
            if let Tested::Collective(collective) = tested {
                draft.size_is = size_is(*collective);
                if *collective == C::ReduceScatter {
                    self.parts(&title, &mut draft);
                }
            }
            // Several messages per rank, one after another: each waits for the one before, also where all
            // ranks send at once.
            if matches!(tested, Tested::OneWay | Tested::Shift) {
                draft.mode = Mode::Isolated;
            }
        } else {
            draft.tested = Some(Tested::Other(title.clone()));
        }
        // Only IMB-P2P adds a rate of messages to these, without decimals, of as many pairs as there are.
        let is_p2p = self.library.as_deref().is_some_and(|library| library.ends_with("P2P part"))
            || used.is_some() && fields.contains(&"Msg/sec");
        let why = match (why, used) {
            _ if is_p2p => Some("the tables of IMB-P2P are not read"),
            _ if overlapped => Some("the times overlap computation (t_ovrl)"),
            (Some(why), _) => Some(why),
            (None, None) => self.apart.or(Some("it is not a benchmark of messages or collectives")),
            (None, Some(_)) => self.apart,
        };
        let help = match why {
            Some(GROUPS) => "run it without -multi",
            _ if is_p2p && used.is_some() => "run the same test of IMB-MPI1",
            _ => usual,
        };
        if let Some(why) = why {
            draft.refuse(format!("{title}: {why}"), help);
        } else if timed.is_none() {
            draft.refuse("the table has no column of times", usual);
        }
        let defects = column(&["defects"]);
        self.columns = Some(Columns { time: timed.unwrap_or(0), defects, count });
        log.tables.push(draft);
        Ok(Taken::Began)
    }

    fn row(&mut self, line: &Line, log: &mut Log, columns: Columns) -> Read<Taken> {
        let Columns { time, defects, count } = columns;
        let (fields, found) = field::split(line.text);
        let fields = &fields[..found];
        field::plain_size(fields, line.number)?;
        let Some(draft) = log.last() else { return Ok(Taken::No) };
        if draft.refused.is_some() {
            return Ok(Taken::Yes);
        }
        let barrier = draft.tested == Some(Tested::Collective(C::Barrier));
        let size = if barrier { Some(0) } else { fields.first().and_then(|f| field::whole(f)) };
        let Some(size) = size else { return Ok(Taken::No) };
        let figures = fields.get(usize::from(!barrier)..).unwrap_or(&[]);
        let numbers = figures.iter().take_while(|f| field::number(f).is_some()).count();
        let have = numbers + usize::from(!barrier);
        let last = fields.get(count - 1).copied().unwrap_or("");
        // `8192 time-out.; Time limit …` stands for a row that was not measured (IMB_output.c).
        if let Some(why) = figures.first().map(|f| f.trim_end_matches([';', '.']))
            && ["time-out", "int-overflow", "out-of-mem"].contains(&why)
        {
            draft.leave_out(line.number, format!("not measured: {why}"));
            return Ok(Taken::Yes);
        }
        if numbers == 0 && figures.len() > 2 {
            return Ok(Taken::No);
        }
        if have < count || field::decimals(last) < 2 {
            draft.leave_out(line.number, format!("the row is cut off: {have} of {count} fields"));
            return Ok(Taken::Yes);
        }
        let Some(span) = field::micros(fields[time], line.number)? else {
            draft.leave_out(line.number, "a time of 0");
            return Ok(Taken::Yes);
        };
        let repetitions = fields.get(usize::from(!barrier)).and_then(|f| field::whole(f));
        let repetitions = repetitions.and_then(|n| u32::try_from(n).ok()).unwrap_or(1);
        draft.iterations = draft.iterations.max(repetitions);
        let reduces = matches!(&draft.tested, Some(Tested::Collective(c)) if c.reduces());
        let dtype = match (barrier, reduces) {
            (true, _) => None,
            (_, true) => self.added.or(Some(DataType::F32)),
            _ => self.moved.or(Some(DataType::Byte)),
        };
        let error = defects.and_then(|at| field::number(fields[at]));
        let wrong = error.map(|error| u64::from(error > DEFECT));
        draft.rows.push(Raw { dtype, wrong, ..Raw::timed(line.number, size, span) });
        Ok(Taken::Yes)
    }
}

#[cfg(test)]
mod tests {
    use crate::measure::logs::{Asked, look};

    /// Why the first table is refused, and what to do.
    fn refusal(text: &str) -> (String, String) {
        let log = look(text.as_bytes(), "imb.txt", &Asked::default()).unwrap();
        assert!(log.tables[0].rows.is_empty());
        let refused = log.tables[0].refused.clone().unwrap();
        (refused.what, refused.help)
    }

    #[test]
    fn a_column_of_groups_is_not_one_of_sizes() {
        for (name, after) in [("PingPong", "t[usec]"), ("Multi-Allreduce", "t_max[usec]")] {
            let text = format!(
                "# Benchmarking {name}\n# #processes = 2\n        Group       #bytes #repetitions  {after}\n\n\
                 0            4         1000         3.00\n\n1            4         1000         3.10\n"
            );
            let (what, help) = refusal(&text);
            assert!(what.contains("-multi") && help == "run it without -multi", "{what}");
        }
    }

    #[test]
    fn the_other_program_is_named() {
        let rows = "# Benchmarking PingPong\n# #processes = 2\n\
                    #bytes #repetitions      t[usec]   Mbytes/sec      Msg/sec\n\
                    4         1000         3.00         1.33       333244\n";
        let head = "# Intel(R) MPI Benchmarks 2019 Update 6, IMB-P2P part\n";
        for text in [rows.to_owned(), format!("{head}{}", rows.replace("PingPong", "Unirandom"))] {
            let (what, _) = refusal(&text);
            assert!(what.contains("IMB-P2P are not read"), "{what}");
        }
        let plain = rows.replace("      Msg/sec", "").replace("       333244", "");
        let log = look(plain.as_bytes(), "imb.txt", &Asked::default()).unwrap();
        assert_eq!(log.tables[0].rows.len(), 1);
    }
}

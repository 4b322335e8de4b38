//! TensorRT-LLM's microbenchmark of its all-reduces: its CSV, the same table as printed, and its tables
//! of all strategies.
//!
//! ```text
//! world_size,dtype,size,num_tokens,hidden_size,strategy,fusion,op,time (us)
//! 8,bfloat16,8192,1,4096,ONESHOT,NONE,allreduce,3.9
//!
//!    world_size     dtype  size  num_tokens  hidden_size strategy fusion         op  time (us)
//! 0           8  bfloat16  8192           1         4096  ONESHOT   NONE  allreduce   3.900000
//!
//! # Fusion: NONE    world_size=8    algbw = size / time (GB/s)
//! #       size    ntok    hdim           NCCL                 ONESHOT                 BEST
//! #                               time(us)       algbw    time(us)       algbw
//!         8.0K       1    4096       16.42        0.50        3.90        2.10     ONESHOT
//! ```
//!
//! A strategy with a fusion is a table of its own. The CSV of `--benchmark` has the columns
//! `size_bytes` and `time_us`. Source: NVIDIA/TensorRT-LLM, `tests/microbenchmarks/all_reduce.py`, as
//! printed in pull request 12887.

use super::draft::Draft;
use super::{Line, Log, Read, Reader, Taken, Tested, field};
use crate::base::refused::Refused;
use crate::machine::sample::DataType;

/// Reads all three.
#[derive(Default)]
pub(super) struct Table {
    csv: Option<Columns>,
    /// What a table's head states before its columns.
    ranks: Option<u32>,
    dtype: Option<DataType>,
    fusion: Option<String>,
    /// Whether a CUDA graph launches the calls.
    graph: bool,
    /// The first draft of a table of strategies, and how many there are.
    strategies: Option<(usize, usize)>,
}

/// The positions of the CSV's columns.
#[derive(Debug, Clone, Copy)]
struct Columns {
    /// Whether blanks separate the columns, and each row has a number before it.
    printed: bool,
    count: usize,
    ranks: usize,
    dtype: usize,
    bytes: usize,
    strategy: usize,
    fusion: usize,
    time: usize,
    operation: Option<usize>,
}

impl Reader for Table {
    fn take(&mut self, line: &Line, log: &mut Log) -> Read<Taken> {
        let text = line.bare();
        if text.ends_with('\\') && columns(text).is_none() && text.starts_with("world_size ") {
            return Err(Refused::at(
                line.number,
                "the printed table is wrapped after some columns",
            )
            .help("print it without a limit of the width, or save it with --save_csv"));
        }
        if let Some(columns) = columns(text) {
            (self.csv, self.strategies) = (Some(columns), None);
            return Ok(Taken::Yes);
        }
        if text.starts_with("world_size=") && text.contains("cudagraph=") {
            self.dtype = behind(text, "dtype=").and_then(DataType::named);
            self.graph = behind(text, "cudagraph=") == Some("True");
            return Ok(Taken::Yes);
        }
        if let Some(rest) = text.strip_prefix("Fusion: ") {
            self.ranks = behind(text, "world_size=").and_then(|n| n.parse().ok());
            self.fusion = rest.split_ascii_whitespace().next().map(str::to_owned);
            (self.csv, self.strategies) = (None, None);
            return Ok(Taken::Yes);
        }
        if let Some(fusion) = self.fusion.clone()
            && text.starts_with("size ")
            && text.ends_with("BEST")
        {
            return Ok(self.strategies(line, log, &fusion));
        }
        match (self.csv, self.strategies) {
            (Some(columns), _) if columns.printed => printed(line, log, columns),
            (Some(columns), _) if text.contains(',') => {
                let fields: Vec<&str> = line.text.split(',').map(str::trim).collect();
                row(line, &fields, log, columns)
            }
            (_, Some(drafts)) if line.is_numeric() => Ok(self.side_by_side(line, log, drafts)),
            _ => Ok(Taken::No),
        }
    }

    fn leave(&mut self) {
        *self = Self::default();
    }
}

const NO_TIME: &str = "no time: the strategy does not run this size";

/// The word behind `key`.
fn behind<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.split(key).nth(1)?.split_ascii_whitespace().next()
}

fn columns(text: &str) -> Option<Columns> {
    let printed = !text.contains(',');
    let names: Vec<&str> = match printed {
        // The only name of two words is that of the time.
        true => text.split_ascii_whitespace().filter(|word| *word != "(us)").collect(),
        false => text.split(',').map(str::trim).collect(),
    };
    let column = |all: &[&str]| names.iter().position(|n| all.contains(n));
    let time: &[&str] =
        if text.contains("time (us)") && printed { &["time"] } else { &["time_us", "time (us)"] };
    Some(Columns {
        printed,
        count: names.len(),
        ranks: column(&["world_size"])?,
        dtype: column(&["dtype"])?,
        bytes: column(&["size_bytes", "size"])?,
        strategy: column(&["strategy"])?,
        fusion: column(&["fusion"])?,
        time: column(time)?,
        operation: column(&["op"]),
    })
}

/// The table of a strategy with a fusion.
fn draft(line: usize, strategy: &str, fusion: &str, ranks: Option<u32>) -> Draft {
    let fused = if fusion == "NONE" { String::new() } else { format!(" {fusion}") };
    let kernel = format!("{strategy}{fused}");
    let library = format!("TensorRT-LLM {kernel}");
    let mut draft = Draft::all_reduce("tensorrt-llm-bench", line, &kernel, library);
    draft.ranks.extend(ranks.map(|n| (n, "column")));
    if fusion != "NONE" {
        draft.warn("times include what is fused with the all-reduce");
    }
    draft
}

/// A row of the printed table, behind its number.
fn printed(line: &Line, log: &mut Log, columns: Columns) -> Read<Taken> {
    let mut words = line.text.split_ascii_whitespace();
    let number = words.next().unwrap_or_default();
    let fields: Vec<&str> = words.collect();
    let why = match number {
        ".." | "..." => "the print leaves rows out: print all, or save them with --save_csv",
        _ if field::whole(number).is_none() => return Ok(Taken::No),
        _ if fields.len() == columns.count => return row(line, &fields, log, columns),
        _ => "the row is cut off",
    };
    match log.last() {
        Some(draft) => draft.leave_out(line.number, why),
        None => return Ok(Taken::No),
    }
    Ok(Taken::Yes)
}

fn row(line: &Line, fields: &[&str], log: &mut Log, columns: Columns) -> Read<Taken> {
    let refused = |what: String| {
        Refused::at(line.number, what).help("write whole numbers of GPUs and bytes, and µs")
    };
    if fields.len() != columns.count {
        return Err(refused(format!("{} fields, not {}", fields.len(), columns.count)));
    }
    let whole = |column: usize| {
        let number = field::whole(fields[column]).filter(|&n| n > 0);
        number.ok_or_else(|| refused(format!("`{}` is not a number", fields[column])))
    };
    let (ranks, bytes) = (whole(columns.ranks)?, whole(columns.bytes)?);
    let ranks = u32::try_from(ranks).map_err(|_| refused(format!("{ranks} GPUs")))?;
    let typed = fields[columns.dtype];
    let dtype = DataType::named(typed).ok_or_else(|| refused(format!("`{typed}` is no type")))?;
    let mut new = draft(line.number, fields[columns.strategy], fields[columns.fusion], Some(ranks));
    if let Some(other) = columns.operation.map(|c| fields[c]).filter(|op| *op != "allreduce") {
        (new.tested, new.title) = (Some(Tested::Other(other.to_owned())), other.to_owned());
    }
    // Strategies take turns, so a row may continue any table of the file.
    let (draft, taken) = log.continued(new);
    let time = field::micros(fields[columns.time], line.number)?;
    draft.add(line.number, (bytes, dtype), time, NO_TIME);
    Ok(taken)
}

impl Table {
    fn strategies(&mut self, line: &Line, log: &mut Log, fusion: &str) -> Taken {
        let first = log.tables.len();
        let names = line.bare().split_ascii_whitespace().skip(3).filter(|name| *name != "BEST");
        for strategy in names {
            let mut draft = draft(line.number, strategy, fusion, self.ranks);
            if self.graph {
                draft.launched_by_graph();
            }
            log.tables.push(draft);
        }
        let count = log.tables.len() - first;
        self.strategies = (count > 0).then_some((first, count));
        if count > 0 { Taken::Began } else { Taken::No }
    }

    /// Size, rows and columns; a time and a rate for each strategy; the best one's name.
    fn side_by_side(&self, line: &Line, log: &mut Log, (first, count): (usize, usize)) -> Taken {
        let fields: Vec<&str> = line.text.split_ascii_whitespace().collect();
        let drafts = &mut log.tables[first..first + count];
        let shape = |at: usize| fields.get(at).and_then(|f| field::whole(f));
        let elements = shape(1).zip(shape(2)).and_then(|(rows, columns)| rows.checked_mul(columns));
        let dtype = self.dtype.unwrap_or(DataType::Bf16);
        let bytes = elements.and_then(|elements| elements.checked_mul(dtype.bytes().0));
        let (Some(bytes), true) = (bytes, fields.len() == 4 + 2 * count) else {
            drafts.iter_mut().for_each(|d| d.leave_out(line.number, "the row is cut off"));
            return Taken::Yes;
        };
        for (draft, pair) in drafts.iter_mut().zip(fields[3..].chunks(2)) {
            draft.add(line.number, (bytes, dtype), field::time(pair[0], 1e-6), NO_TIME);
        }
        Taken::Yes
    }
}

#[cfg(test)]
mod tests {
    use crate::measure::logs::{Asked, Imported, Measured, read};

    fn told(log: &Imported) -> Vec<(&str, Option<u32>, usize)> {
        let of = |t: &crate::measure::logs::Table| (t.ranks, t.rows.len());
        let name = |at: usize| log.tables[at].library.as_deref().unwrap();
        (0..log.tables.len())
            .map(|i| (name(i), of(&log.tables[i]).0, of(&log.tables[i]).1))
            .collect()
    }

    #[test]
    fn rows_of_the_csv_continue_the_table_of_their_strategy() {
        let text = "\
world_size,dtype,size,num_tokens,hidden_size,strategy,fusion,op,time (us)
8,bfloat16,8192,1,4096,NCCL,NONE,allreduce,16.4
8,bfloat16,8192,1,4096,ONESHOT,NONE,allreduce,3.9
8,bfloat16,81920,10,4096,NCCL,NONE,allreduce,18.1
8,bfloat16,81920,10,4096,ONESHOT,RESIDUAL_RMS_NORM,allreduce,6.5
";
        let log = read(text.as_bytes(), "bench.csv", &Asked::default()).unwrap();
        let tables = [
            ("TensorRT-LLM NCCL", Some(8), 2),
            ("TensorRT-LLM ONESHOT", Some(8), 1),
            ("TensorRT-LLM ONESHOT RESIDUAL_RMS_NORM", Some(8), 1),
        ];
        assert_eq!(told(&log), tables);
        let Measured::Time(time) = log.tables[1].rows[0].measured else { panic!() };
        assert!((time.0 - 3.9e-6).abs() < 1e-12);
        assert_eq!(log.tables[2].warnings.len(), 1);

        let damaged = text.replace("16.4", "-1");
        let error = read(damaged.as_bytes(), "bench.csv", &Asked::default()).unwrap_err();
        assert!(error.to_string().contains("bench.csv:2"), "{error}");
    }

    #[test]
    fn the_csv_of_all_strategies_has_a_zero_where_nothing_ran() {
        let text = "\
world_size,dtype,fusion,num_tokens,hidden_size,size_bytes,strategy,time_us,algbw_GBps
4,bfloat16,NONE,1,4096,8192,TWOSHOT,0.0,0.0
4,bfloat16,NONE,16,4096,131072,TWOSHOT,7.5,17.5
";
        let log = read(text.as_bytes(), "bench.csv", &Asked::default()).unwrap();
        assert_eq!(told(&log), [("TensorRT-LLM TWOSHOT", Some(4), 1)]);
        assert_eq!(log.tables[0].left_out[0].count, 1);
    }

    #[test]
    fn the_printed_table_is_the_csv_between_blanks() {
        let text = "\
num_tokens: 1, hidden_size: 4096, strategy: ONESHOT, fusion: NONE, op: allreduce, time (us): 3.9
   world_size     dtype    size  num_tokens  hidden_size strategy             fusion         op  time (us)
0           8  bfloat16    8192           1         4096     NCCL               NONE  allreduce  16.400000
0           8  bfloat16    8192           1         4096  ONESHOT               NONE  allreduce   3.900000
..        ...       ...     ...         ...          ...      ...                ...        ...        ...
0           8  bfloat16   81920          10         4096  ONESHOT  RESIDUAL_RMS_NORM  allreduce   6.500000
0           8  bfloat16  819200         100         4096  ONES
";
        let log = read(text.as_bytes(), "bench.log", &Asked::default()).unwrap();
        let tables = [
            ("TensorRT-LLM NCCL", Some(8), 1),
            ("TensorRT-LLM ONESHOT", Some(8), 1),
            ("TensorRT-LLM ONESHOT RESIDUAL_RMS_NORM", Some(8), 1),
        ];
        assert_eq!(told(&log), tables);
        let Measured::Time(time) = log.tables[1].rows[0].measured else { panic!() };
        assert!((time.0 - 3.9e-6).abs() < 1e-12 && log.tables[1].rows[0].size.0 == 8192);
        let left: Vec<usize> =
            log.tables.iter().flat_map(|t| &t.left_out).map(|l| l.count).collect();
        assert_eq!(left, [1, 1]);

        let wrapped = "\
   world_size     dtype    size  num_tokens  hidden_size strategy  \\
0           8  bfloat16    8192           1         4096     NCCL
";
        let error = read(wrapped.as_bytes(), "bench.log", &Asked::default()).unwrap_err();
        assert!(error.to_string().contains("wrapped"), "{error}");
    }

    #[test]
    fn strategies_side_by_side_are_tables() {
        let text = "\
================================================================================
  TRT-LLM AllReduce Benchmark
  world_size=8  dtype=bfloat16  SM=90  cudagraph=True  inner=200  outer=10
  Strategies : NCCL, TWOSHOT
================================================================================

# Fusion: NONE    world_size=8    algbw = size / time (GB/s)
#
#       size    ntok    hdim           NCCL                 TWOSHOT                     BEST
#                               time(us)       algbw    time(us)       algbw
#-------------------------------------------------------------------------------------------
          8K       1    4096       16.00        0.51         N/A         N/A              NCCL
        128K      16    4096       20.00        6.55        8.00       16.38           TWOSHOT
";
        let log = read(text.as_bytes(), "bench.log", &Asked::default()).unwrap();
        let tables = [("TensorRT-LLM NCCL", Some(8), 2), ("TensorRT-LLM TWOSHOT", Some(8), 1)];
        assert_eq!(told(&log), tables);
        assert_eq!(log.tables[1].rows[0].size.0, 128 << 10);
        assert!(log.tables.iter().all(|t| t.caveats[0].contains("CUDA graph")));
    }
}

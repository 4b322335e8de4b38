//! SGLang's benchmarks of all-reduces, with one column per backend.
//!
//! ```text
//! | msg_size   |   torch eager time |   symm mem graph time |   pynccl graph time |
//! |------------|--------------------|-----------------------|---------------------|
//! | 2.0 KiB    |            48.6752 |               8.95296 |             16.4637 |
//!
//! Results (avg ms across 4 ranks; None = disabled/unavailable):
//!     Size  CustomAR(ms)  TorchSymmMem(ms)
//!      32K         0.049        0.090
//! ```
//!
//! Times are microseconds in the first, means of back-to-back calls, of a bf16 tensor; milliseconds
//! with three decimals in the second, where the host waits after each call, of an f16 tensor. The
//! first does not state the number of ranks.
//! Source: sgl-project/sglang, `benchmark/kernels/all_reduce`, as printed in pull requests 10571 and
//! 13797.

use super::draft::Draft;
use super::{Line, Log, Read, Reader, Taken, field};
use crate::base::quantity::Bytes;
use crate::machine::sample::{DataType, Mode};

/// Reads tables.
#[derive(Default)]
pub(super) struct Table {
    /// N of the table whose heading follows.
    ranks: Option<u32>,
    open: Option<Open>,
}

/// The table that is being read.
#[derive(Debug, Clone, Copy)]
struct Open {
    /// Its first draft, and how many there are.
    first: usize,
    count: usize,
    /// The unit of its times, in seconds.
    unit: f64,
    dtype: DataType,
}

impl Reader for Table {
    fn take(&mut self, line: &Line, log: &mut Log) -> Read<Taken> {
        let text = line.text;
        if let Some(rest) = text.strip_prefix("Results (avg ms across ") {
            self.ranks = rest.split(' ').next().and_then(|n| n.parse().ok());
            return Ok(if self.ranks.is_some() { Taken::Yes } else { Taken::No });
        }
        let names = heading(text);
        if !names.is_empty() {
            return Ok(self.begin(line, log, &names));
        }
        match self.open {
            Some(open) => row(line, log, open),
            None => Ok(Taken::No),
        }
    }

    fn leave(&mut self) {
        *self = Self::default();
    }
}

/// The cells of a line of a Markdown table, or of one whose columns are separated by blanks.
fn cells(text: &str) -> Vec<&str> {
    match text.strip_prefix('|') {
        Some(rest) => rest.trim_end_matches('|').split('|').map(str::trim).collect(),
        None => text.split_ascii_whitespace().collect(),
    }
}

/// The backends that a heading names, `graph` or `eager` behind those that ran both ways.
fn heading(text: &str) -> Vec<&str> {
    let cells = cells(text);
    let ending = match cells.first() {
        Some(&"msg_size") => " time",
        Some(&"Size") => "(ms)",
        _ => return Vec::new(),
    };
    let names: Option<Vec<&str>> = cells[1..].iter().map(|c| c.strip_suffix(ending)).collect();
    names.unwrap_or_default()
}

impl Table {
    fn begin(&mut self, line: &Line, log: &mut Log, names: &[&str]) -> Taken {
        let first = log.tables.len();
        let waits = !line.text.starts_with('|');
        for name in names {
            let library = format!("SGLang {name}");
            let mut draft = Draft::all_reduce("sglang-bench", line.number, name, library);
            draft.ranks.extend(self.ranks.map(|n| (n, "heading")));
            if name.ends_with(" graph") {
                draft.launched_by_graph();
            }
            if waits {
                draft.mode = Mode::Isolated;
                draft.warn("the host waits for each call: times include the launch");
            }
            log.tables.push(draft);
        }
        let (unit, dtype) = if waits { (1e-3, DataType::F16) } else { (1e-6, DataType::Bf16) };
        self.open = Some(Open { first, count: names.len(), unit, dtype });
        Taken::Began
    }
}

fn row(line: &Line, log: &mut Log, open: Open) -> Read<Taken> {
    let cells = cells(line.text);
    let [size, times @ ..] = cells.as_slice() else { return Ok(Taken::No) };
    if !size.starts_with(|c: char| c.is_ascii_digit()) {
        // The line under the heading.
        return Ok(if size.starts_with(['-', ':']) { Taken::Yes } else { Taken::No });
    }
    let Ok(size) = size.parse::<Bytes>() else { return Ok(Taken::No) };
    let drafts = &mut log.tables[open.first..open.first + open.count];
    if times.len() != open.count {
        drafts.iter_mut().for_each(|d| d.leave_out(line.number, "the row is cut off"));
        return Ok(Taken::Yes);
    }
    for (draft, time) in drafts.iter_mut().zip(times) {
        let why = "no time: the backend does not run this size";
        draft.add(line.number, (size.0, open.dtype), field::time(time, open.unit), why);
    }
    Ok(Taken::Yes)
}

#[cfg(test)]
mod tests {
    use crate::measure::logs::{Asked, Imported, Measured, read};

    fn told(log: &Imported) -> Vec<(&str, Option<u32>, usize)> {
        let told = |t: &'_ crate::measure::logs::Table| (t.ranks, t.rows.len());
        log.tables.iter().map(|t| (t.library.as_deref().unwrap(), told(t).0, told(t).1)).collect()
    }

    #[test]
    fn a_markdown_table_is_a_table_for_each_column() {
        let text = "\
sz=1024, dtype=torch.bfloat16: correctness check PASS!
| msg_size   |   torch eager time |   symm mem graph time |
|------------|--------------------|-----------------------|
| 2.0 KiB    |            47.1    |               9.0125  |
| 1.0 MiB    |            30.2    |              14.5     |
";
        let asked = Asked { ranks: Some(8), ..Asked::default() };
        let log = read(text.as_bytes(), "bench.log", &asked).unwrap();
        let both = [("SGLang torch eager", Some(8), 2), ("SGLang symm mem graph", Some(8), 2)];
        assert_eq!(told(&log), both);
        assert_eq!([0, 1].map(|at| log.tables[at].caveats.len()), [0, 1], "only graphs");
        let row = log.tables[1].rows[0];
        let Measured::Time(time) = row.measured else { panic!("{row:?}") };
        assert!(row.size.0 == 2048 && (time.0 - 9.0125e-6).abs() < 1e-12);
        // N is asked for where nothing states it.
        assert!(read(text.as_bytes(), "bench.log", &Asked::default()).is_err());
    }

    #[test]
    fn milliseconds_and_ranks_are_read_from_the_heading() {
        let text = "\
[TorchSymmMem] 32K: 0.090 ms (avg across ranks)

Results (avg ms across 4 ranks; None = disabled/unavailable):
    Size  CustomAR(ms)  TorchSymmMem(ms)
----------------------------------------
     32K         0.051        0.088
     32M          None        0.310
";
        let log = read(text.as_bytes(), "bench.log", &Asked::default()).unwrap();
        let both = [("SGLang CustomAR", Some(4), 1), ("SGLang TorchSymmMem", Some(4), 2)];
        assert_eq!(told(&log), both);
        assert_eq!(log.tables[0].left_out[0].count, 1);
        assert_eq!(log.tables[1].rows[1].size.0, 32 << 20);
    }
}

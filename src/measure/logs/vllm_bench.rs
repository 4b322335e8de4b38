//! vLLM's benchmark of its device communicators, with one column per backend.
//!
//! ```text
//! World Size: 2, Data Type: torch.bfloat16, Hidden Size: 8192
//! Tensor Shape  Tensor Size  ca_1stage  ca_2stage  pynccl  Best (Speedup vs PyNccl)
//! (32, 8192)    0.50 MB      0.007      0.009      0.016   ca_1stage (2.17x)
//! ```
//!
//! Times are milliseconds with three decimals, of calls that a CUDA graph launched, ten at a time. Sizes are
//! computed from the shape.
//! Source: vllm-project/vllm, `benchmarks/kernels/benchmark_device_communicators.py`, as printed in
//! pull request 24111.

use super::draft::Draft;
use super::{Line, Log, Read, Reader, Taken, field};
use crate::machine::sample::DataType;

/// Reads tables.
#[derive(Default)]
pub(super) struct Table {
    ranks: Option<u32>,
    dtype: Option<DataType>,
    /// The first of this table's drafts, and how many there are.
    columns: Option<(usize, usize)>,
}

impl Reader for Table {
    fn take(&mut self, line: &Line, log: &mut Log) -> Read<Taken> {
        let text = line.text;
        if let Some(rest) = text.strip_prefix("World Size: ") {
            self.ranks = rest.split(',').next().and_then(|n| n.trim().parse().ok());
            let typed = rest.split("Data Type: torch.").nth(1).and_then(|t| t.split(',').next());
            self.dtype = typed.and_then(DataType::named);
            return Ok(if self.ranks.is_some() { Taken::Yes } else { Taken::No });
        }
        if text.starts_with("Tensor Shape") && text.contains("Tensor Size") {
            return Ok(self.heading(line, log));
        }
        match self.columns {
            Some(columns) if text.starts_with('(') => Ok(self.row(line, log, columns)),
            _ => Ok(Taken::No),
        }
    }

    fn leave(&mut self) {
        self.columns = None;
    }
}

/// The fields of a line, separated by at least two blanks.
fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split("  ").map(str::trim).filter(|field| !field.is_empty())
}

impl Table {
    fn heading(&mut self, line: &Line, log: &mut Log) -> Taken {
        let names = split(line.text).skip(2).take_while(|name| !name.starts_with("Best"));
        let first = log.tables.len();
        for name in names {
            let library = format!("vLLM {name}");
            let mut draft = Draft::all_reduce("vllm-bench", line.number, name, library);
            draft.ranks.extend(self.ranks.map(|n| (n, "job description")));
            draft.launched_by_graph();
            log.tables.push(draft);
        }
        let count = log.tables.len() - first;
        self.columns = (count > 0).then_some((first, count));
        if count > 0 { Taken::Began } else { Taken::No }
    }

    fn row(&self, line: &Line, log: &mut Log, (first, count): (usize, usize)) -> Taken {
        let Some((shape, rest)) = line.text[1..].split_once(')') else { return Taken::No };
        let sides: Option<Vec<u64>> = shape.split(',').map(|n| n.trim().parse().ok()).collect();
        let dtype = self.dtype.unwrap_or(DataType::Bf16);
        let size =
            sides.and_then(|sides| sides.into_iter().try_fold(dtype.bytes().0, u64::checked_mul));
        let Some(size) = size else { return Taken::No };
        // After the size in MB.
        let times = split(rest).skip(1);
        for (draft, time) in log.tables[first..first + count].iter_mut().zip(times) {
            let why = "no time: the backend does not run this size";
            draft.add(line.number, (size, dtype), field::time(time, 1e-3), why);
        }
        Taken::Yes
    }
}

#[cfg(test)]
mod tests {
    use crate::measure::logs::{Asked, read};

    const LOG: &str = "\
Device Communicator Benchmark Results
World Size: 2, Data Type: torch.bfloat16, Hidden Size: 8192
==========================================
Tensor Shape        Tensor Size    ca_1stage     ca_2stage     pynccl      Best (Speedup vs PyNccl)
------------------------------------------
(32, 8192)          0.50 MB        0.007         0.010         0.016       ca_1stage (2.29x)
(8192, 8192)        128.00 MB      N/A           N/A           0.530       pynccl
";

    #[test]
    fn every_backend_is_a_table() {
        let log = read(LOG.as_bytes(), "bench.log", &Asked::default()).unwrap();
        let told: Vec<(&str, usize)> =
            log.tables.iter().map(|t| (t.library.as_deref().unwrap(), t.rows.len())).collect();
        assert_eq!(told, [("vLLM ca_1stage", 1), ("vLLM ca_2stage", 1), ("vLLM pynccl", 2)]);
        let last = log.tables[2].rows[1];
        assert_eq!((log.tables[2].ranks, last.size.0), (Some(2), 128 << 20));
        assert!(log.tables.iter().all(|t| t.caveats[0].contains("CUDA graph")));
    }
}

//! vLLM's and SGLang's benchmark of all-reduces fused with the norm, as printed and in Markdown.
//!
//! ```text
//! Results: seq_len=1024, hidden_dim=1024
//! dtype=torch.bfloat16, residual=yes, quant_mode=none
//! Operation                                          Time (ms)    Speedup
//! flashinfer_fused_allreduce_rmsnorm_oneshot         0.011        2.19x
//!
//! **World Size:** 8
//! **Hidden Dimension:** 8192
//! ### Configuration: seq_len=32, dtype=bfloat16, no residual
//! | Flashinfer Fused Allreduce Rmsnorm Oneshot | 0.010 | 1.02x |
//! ```
//!
//! Times are milliseconds with three decimals, from a CUDA graph. Only Markdown states the number of
//! ranks. Every time includes the norm, that of operations that are not fused as a kernel of its own.
//! Source: vllm-project/vllm and sgl-project/sglang, `benchmark_fused_collective.py`, as printed in
//! vLLM's pull requests 22086 and 24248.

use super::draft::Draft;
use super::{Line, Log, Read, Reader, Taken, field};
use crate::machine::sample::DataType;

/// Reads both.
#[derive(Default)]
pub(super) struct Table {
    ranks: Option<u32>,
    /// Columns, where the head of a file states them for all shapes.
    hidden: Option<u64>,
    rows: Option<u64>,
    dtype: Option<DataType>,
    /// Whether the lines of a shape follow.
    open: bool,
}

impl Reader for Table {
    fn take(&mut self, line: &Line, log: &mut Log) -> Read<Taken> {
        let text = line.text;
        if let Some(rest) = text.strip_prefix("**World Size:**") {
            self.ranks = rest.trim().parse().ok();
            return Ok(Taken::Yes);
        }
        if let Some(rest) = text.strip_prefix("**Hidden Dimension:**") {
            self.hidden = rest.trim().parse().ok();
            return Ok(Taken::Yes);
        }
        let configured = line.bare().strip_prefix("Configuration: ");
        if let Some(rest) = configured.or_else(|| text.strip_prefix("Results: ")) {
            self.rows = number(rest, "seq_len=").or_else(|| number(rest, "num_tokens="));
            self.hidden = number(rest, "hidden_dim=").or(self.hidden);
            self.dtype = dtype(rest);
            self.open = false;
            return Ok(if self.rows.is_some() { Taken::Yes } else { Taken::No });
        }
        if self.rows.is_none() {
            return Ok(Taken::No);
        }
        if text.starts_with("dtype=") {
            self.dtype = dtype(text);
            return Ok(Taken::Yes);
        }
        let Some((name, time, speedup)) = split(text) else { return Ok(Taken::No) };
        if name == "Operation" {
            self.open = time == "Time (ms)";
            return Ok(Taken::Yes);
        }
        // A line between the heading and the rows, or of another table.
        if !self.open || !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return Ok(if self.open { Taken::Yes } else { Taken::No });
        }
        Ok(self.row(line.number, log, name, (time, speedup)))
    }

    fn leave(&mut self) {
        *self = Self::default();
    }
}

/// The whole number behind `key`.
fn number(text: &str, key: &str) -> Option<u64> {
    let digits = text.split_once(key)?.1;
    digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn dtype(text: &str) -> Option<DataType> {
    let name = text.split_once("dtype=")?.1.split([',', ' ']).next()?;
    DataType::named(name.trim_start_matches("torch."))
}

/// The three columns of a line.
fn split(text: &str) -> Option<(&str, &str, &str)> {
    let cells: Vec<&str> = match text.strip_prefix('|') {
        Some(rest) => rest.trim_end().trim_end_matches('|').split('|').map(str::trim).collect(),
        None => text.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect(),
    };
    let [name, time, speedup] = cells.as_slice() else { return None };
    Some((name, time, speedup))
}

impl Table {
    fn row(&self, line: usize, log: &mut Log, name: &str, (time, _): (&str, &str)) -> Taken {
        let dtype = self.dtype.unwrap_or(DataType::Bf16);
        let elements =
            self.rows.zip(self.hidden).and_then(|(rows, hidden)| rows.checked_mul(hidden));
        let bytes = elements.and_then(|elements| elements.checked_mul(dtype.bytes().0));
        // Markdown writes `Flashinfer Fused Allreduce Rmsnorm`.
        let name = name.to_ascii_lowercase().split_ascii_whitespace().collect::<Vec<_>>().join("_");
        let mut draft = Draft::all_reduce("fused-bench", line, &name, name.clone());
        draft.ranks.extend(self.ranks.map(|n| (n, "heading")));
        draft.launched_by_graph();
        draft.warn("times include the norm");
        let (draft, taken) = log.continued(draft);
        // The fastest is in bold.
        let time = field::time(time.trim_matches('*'), 1e-3);
        match bytes {
            Some(bytes) => {
                let why = "a time of 0, or none: the operation failed";
                draft.add(line, (bytes, dtype), time, why);
            }
            None => draft.pass_over(line, "the log does not state the shape"),
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use crate::measure::logs::{Asked, read};

    #[test]
    fn shapes_as_printed_are_rows_of_their_operation() {
        let shape = |tokens: u32, one: &str| {
            format!(
                "================\n\
                 Results: seq_len={tokens}, hidden_dim=1024\n\
                 dtype=torch.float32, residual=yes, quant_mode=none\n\
                 ================\n\
                 Operation                                          Time (ms)    Speedup   \n\
                 ----------------\n\
                 standard_allreduce_rmsnorm                         0.024        0.98x     \n\
                 flashinfer_fused_allreduce_rmsnorm_oneshot         {one}          2.19x     \n\n"
            )
        };
        let text = shape(512, "0.009") + &shape(1024, "inf");
        let asked = Asked { ranks: Some(2), ..Asked::default() };
        let log = read(text.as_bytes(), "bench.log", &asked).unwrap();
        let told: Vec<(&str, usize)> =
            log.tables.iter().map(|t| (t.library.as_deref().unwrap(), t.rows.len())).collect();
        let fused = "flashinfer_fused_allreduce_rmsnorm_oneshot";
        assert_eq!(told, [("standard_allreduce_rmsnorm", 2), (fused, 1)]);
        assert_eq!(log.tables[0].rows[1].size.0, 4 << 20);
        assert_eq!((log.tables[1].left_out[0].count, log.tables[1].warnings.len()), (1, 1));
    }

    #[test]
    fn markdown_states_ranks_and_columns_once() {
        let text = "\
**World Size:** 8  
**Hidden Dimension:** 8192  

### Configuration: seq_len=32, dtype=bfloat16, no residual
**Input Size:** 0.50 MB

| Operation | Time (ms) | Speedup |
|-----------|-----------|---------|
| Standard Allreduce Rmsnorm | 0.031 |0.96x |
| Flashinfer Fused Allreduce Rmsnorm Oneshot | **0.012** | 2.6x |
";
        let log = read(text.as_bytes(), "bench.md", &Asked::default()).unwrap();
        assert_eq!(log.tables.len(), 2);
        let table = &log.tables[1];
        assert_eq!((table.ranks, table.rows.len()), (Some(8), 1));
        assert_eq!(table.rows[0].size.0, 512 << 10);
    }
}

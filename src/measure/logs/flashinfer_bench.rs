//! FlashInfer's benchmark of its all-reduces, as printed and as CSV.
//!
//! ```text
//! [INFO] AllReduce benchmark: world_size=4, gpus_per_node=4
//! [INFO] Created workspace: backend=mnnvl, shape=(64, 4096)
//! [PERF] mnnvl_allreduce_oneshot:: median time 0.011 ms; std 0.057 ms; achieved tflops nan TFLOPs/sec; achieved tb_per_sec 0.068 TB/sec
//!
//! routine,median_time,std_time,…,resolved_backend,…,num_tokens,hidden_size,input_dtype,world_size
//! ```
//!
//! Times are milliseconds. Printed ones have three decimals; `tb_per_sec` is busbw in TB/s, whose three
//! decimals tell more of a large message, so the more precise of both is used. Printed lines do not
//! state the type, which has two bytes. Each run is one shape; runs of a kernel are one table.
//! Source: flashinfer-ai/flashinfer, `benchmarks/routines/allreduce_comm.py`, as printed in pull
//! request 2696.

use super::draft::Draft;
use super::{Line, Log, Read, Reader, Taken, field};
use crate::base::collective::Collective;
use crate::base::quantity::Seconds;
use crate::base::refused::Refused;
use crate::machine::sample::DataType;

/// Reads both.
#[derive(Default)]
pub(super) struct Table {
    ranks: Option<u32>,
    /// Elements of the workspace's shape.
    elements: Option<u64>,
    csv: Option<Columns>,
}

/// The positions of the CSV's columns.
#[derive(Debug, Clone, Copy)]
struct Columns {
    count: usize,
    routine: usize,
    time: usize,
    ranks: usize,
    shape: [usize; 2],
    dtype: usize,
    kernel: usize,
}

impl Reader for Table {
    fn take(&mut self, line: &Line, log: &mut Log) -> Read<Taken> {
        let text = line.text;
        if let Some(rest) = text.strip_prefix("[INFO] AllReduce benchmark: world_size=") {
            self.ranks = rest.split(',').next().and_then(|n| n.trim().parse().ok());
            self.elements = None;
            return Ok(Taken::Yes);
        }
        if let Some(rest) = text.strip_prefix("[INFO] Created workspace: ") {
            self.elements = rest.split_once("shape=(").and_then(|(_, shape)| product(shape));
            return Ok(Taken::Yes);
        }
        if let Some(rest) = text.strip_prefix("[PERF] ")
            && let (Some(ranks), Some(elements)) = (self.ranks, self.elements)
        {
            return Ok(printed(rest, line.number, log, ranks, elements));
        }
        if let Some(columns) = columns(text) {
            self.csv = Some(columns);
            return Ok(Taken::Yes);
        }
        match self.csv {
            Some(columns) if text.contains(',') => row(line, log, columns),
            _ => Ok(Taken::No),
        }
    }

    fn leave(&mut self) {
        *self = Self::default();
    }
}

/// `64, 4096)` multiplied.
fn product(shape: &str) -> Option<u64> {
    let sides = shape.split(')').next()?.split(',');
    sides
        .map(|side| side.trim().parse::<u64>().ok())
        .try_fold(1, |all: u64, side| all.checked_mul(side?))
}

/// The table of a kernel on these ranks, and whether it is new.
fn table<'l>(log: &'l mut Log, line: usize, kernel: &str, ranks: u32) -> (&'l mut Draft, Taken) {
    let library = format!("FlashInfer {kernel}");
    let mut draft = Draft::all_reduce("flashinfer-bench", line, kernel, library);
    draft.ranks.push((ranks, "heading"));
    if kernel.contains("rmsnorm") {
        draft.warn("times include what is fused with the all-reduce");
    }
    log.continued(draft)
}

/// `mnnvl_allreduce_oneshot:: median time 0.011 ms; … achieved tb_per_sec 0.068 TB/sec`
fn printed(text: &str, line: usize, log: &mut Log, ranks: u32, elements: u64) -> Taken {
    let Some((kernel, rest)) = text.split_once("::") else { return Taken::No };
    let number = |key: &str| {
        let word = rest.split_once(key)?.1.split_ascii_whitespace().next()?;
        field::number(word).filter(|x| *x > 0.0).map(|x| (x, field::half(word) / x))
    };
    let dtype = DataType::Bf16;
    let Some(bytes) = elements.checked_mul(dtype.bytes().0) else { return Taken::No };
    let (draft, taken) = table(log, line, kernel.trim(), ranks);
    let moved = bytes as f64 * Collective::AllReduce.busbw_factor(ranks).0;
    let by_time = number("median time ").map(|(ms, unsure)| (ms * 1e-3, unsure));
    let by_rate = number("tb_per_sec ").map(|(rate, unsure)| (moved / (rate * 1e12), unsure));
    let best = by_time.into_iter().chain(by_rate).min_by(|a, b| a.1.total_cmp(&b.1));
    let best = best.map(|(seconds, _)| Seconds(seconds));
    draft.add(line, (bytes, dtype), best, "a time of 0, or none");
    taken
}

fn columns(text: &str) -> Option<Columns> {
    let names: Vec<&str> = text.split(',').map(str::trim).collect();
    let column = |name: &str| names.iter().position(|n| *n == name);
    Some(Columns {
        count: names.len(),
        routine: column("routine")?,
        time: column("median_time")?,
        ranks: column("world_size")?,
        shape: [column("num_tokens")?, column("hidden_size")?],
        dtype: column("input_dtype")?,
        kernel: column("resolved_backend").or_else(|| column("backend"))?,
    })
}

/// A row of the CSV; other routines share the file.
fn row(line: &Line, log: &mut Log, columns: Columns) -> Read<Taken> {
    let refused = |what: String| {
        Refused::at(line.number, what).help("write whole numbers of GPUs, rows and columns, and ms")
    };
    let fields: Vec<&str> = line.text.split(',').map(str::trim).collect();
    if fields.len() != columns.count {
        return Err(refused(format!("{} fields, not {}", fields.len(), columns.count)));
    }
    if fields[columns.routine] != "allreduce_fusion" {
        return Ok(Taken::Yes);
    }
    let whole = |column: usize| {
        let number = field::whole(fields[column]).filter(|&n| n > 0);
        number.ok_or_else(|| refused(format!("`{}` is not a number", fields[column])))
    };
    let ranks = whole(columns.ranks)?;
    let ranks = u32::try_from(ranks).map_err(|_| refused(format!("{ranks} GPUs")))?;
    let [tokens, hidden] = columns.shape;
    let typed = fields[columns.dtype].trim_start_matches("torch.");
    let dtype = DataType::named(typed).ok_or_else(|| refused(format!("`{typed}` is no type")))?;
    let elements = whole(tokens)?.checked_mul(whole(hidden)?);
    let bytes = elements.and_then(|elements| elements.checked_mul(dtype.bytes().0));
    let bytes = bytes.ok_or_else(|| refused("a tensor of more than 2^64 bytes".to_owned()))?;
    let (draft, taken) = table(log, line.number, fields[columns.kernel], ranks);
    let time = field::time(fields[columns.time], 1e-3);
    draft.add(line.number, (bytes, dtype), time, "a time of 0, or none");
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use crate::measure::logs::{Asked, Measured, read};

    #[test]
    fn runs_of_a_kernel_are_one_table() {
        let run = |tokens: u32, ms: &str, rate: &str| {
            format!(
                "[INFO] AllReduce benchmark: world_size=4, gpus_per_node=4\n\
                 [INFO] Created workspace: backend=mnnvl, shape=({tokens}, 4096)\n\
                 [PERF] mnnvl_allreduce_oneshot:: median time {ms} ms; std 0.057 ms; achieved tflops nan \
                 TFLOPs/sec; achieved tb_per_sec {rate} TB/sec\n"
            )
        };
        let text = run(64, "0.011", "0.069") + &run(4096, "0.101", "0.498");
        let log = read(text.as_bytes(), "bench.log", &Asked::default()).unwrap();
        assert_eq!(log.tables.len(), 1);
        let table = &log.tables[0];
        assert_eq!((table.ranks, table.rows.len()), (Some(4), 2));
        // 512 KiB × 1.5 at 0.069 TB/s, which has a digit more than 0.011 ms.
        let Measured::Time(time) = table.rows[0].measured else { panic!() };
        assert!(table.rows[0].size.0 == 512 << 10 && (time.0 - 11.4e-6).abs() < 0.1e-6);
    }

    #[test]
    fn the_csv_names_its_columns_and_other_routines_pass() {
        let text = "\
routine,median_time,std_time,backend,resolved_backend,num_tokens,hidden_size,input_dtype,world_size
allreduce_fusion,0.0105,0.001,trtllm,trtllm_ar_residual_rmsnorm_oneshot,16,4096,torch.bfloat16,8
mm_fp4,0.5,0.001,cudnn,cudnn,16,4096,,
";
        let log = read(text.as_bytes(), "bench.csv", &Asked::default()).unwrap();
        let table = &log.tables[0];
        assert_eq!((log.tables.len(), table.ranks, table.rows.len()), (1, Some(8), 1));
        assert_eq!((table.rows[0].size.0, table.warnings.len()), (128 << 10, 1));
    }
}

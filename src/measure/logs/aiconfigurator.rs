//! Tables of aiconfigurator's collectors, as CSV: all-reduces of inference engines and of NCCL.
//!
//! ```text
//! framework,version,device,op_name,kernel_source,allreduce_dtype,num_gpus,message_size,latency
//! VLLM,0.24.0,NVIDIA H100 80GB HBM3,all_reduce,vLLM_custom_graph,half,8,2048,0.00462
//! ```
//!
//! Sizes count elements, times are milliseconds. `half` is written for every type of two bytes.
//! `kernel_source` names how the call was launched, by a graph or not, and is part of the library's name.
//! Source: ai-dynamo/aiconfigurator (Apache-2.0), `collector/network/collect_all_reduce.py`.

use super::draft::{Draft, Raw};
use super::{Line, Log, Read, Reader, Taken, Tested, field};
use crate::base::collective::Collective;
use crate::base::refused::Refused;
use crate::machine::sample::{DataType, Mode};

/// The positions of the columns.
#[derive(Debug, Clone, Copy)]
struct Columns {
    count: usize,
    ranks: usize,
    elements: usize,
    latency: usize,
    dtype: usize,
    /// Framework, release, device, operation, and how it was launched.
    words: [Option<usize>; 5],
}

/// Reads tables.
#[derive(Default)]
pub(super) struct Table {
    columns: Option<Columns>,
    /// What the rows of the last table share.
    of: Vec<String>,
}

impl Reader for Table {
    fn take(&mut self, line: &Line, log: &mut Log) -> Read<Taken> {
        match self.columns {
            Some(columns) if line.text.contains(',') => self.row(line, log, columns),
            Some(_) => Ok(Taken::No),
            None => Ok(self.heading(line.text)),
        }
    }

    fn leave(&mut self) {
        self.columns = None;
    }
}

impl Table {
    fn heading(&mut self, text: &str) -> Taken {
        let names: Vec<&str> = text.split(',').map(str::trim).collect();
        let column = |all: &[&str]| names.iter().position(|n| all.contains(n));
        let dtype = column(&["allreduce_dtype", "nccl_dtype"]);
        let needed = (column(&["num_gpus"]), column(&["message_size"]), column(&["latency"]));
        let ((Some(ranks), Some(elements), Some(latency)), Some(dtype)) = (needed, dtype) else {
            return Taken::No;
        };
        let words = ["framework", "version", "device", "op_name", "kernel_source"];
        let words = words.map(|word| column(&[word]));
        self.columns = Some(Columns { count: names.len(), ranks, elements, latency, dtype, words });
        Taken::Yes
    }

    fn row(&mut self, line: &Line, log: &mut Log, columns: Columns) -> Read<Taken> {
        let at = |what: String| {
            Refused::at(line.number, what)
                .help("write whole numbers of GPUs and elements, and milliseconds")
        };
        let fields: Vec<&str> = line.text.split(',').map(str::trim).collect();
        if fields.len() != columns.count {
            return Err(at(format!("{} fields, not {}", fields.len(), columns.count)));
        }
        let words = columns.words.map(|c| c.map_or("", |c| fields[c]));
        let mut taken = Taken::Yes;
        let key = words.into_iter().chain([fields[columns.ranks]]);
        if !key.clone().eq(self.of.iter().map(String::as_str)) {
            self.of = key.map(str::to_owned).collect();
            log.tables.push(begun(line.number, words, fields[columns.ranks]).map_err(at)?);
            taken = Taken::Began;
        }
        let typed = fields[columns.dtype];
        let dtype = DataType::named(typed).ok_or_else(|| at(format!("`{typed}` is not a type")))?;
        let whole = |c: usize| {
            field::whole(fields[c]).ok_or_else(|| at(format!("`{}` is not a number", fields[c])))
        };
        let elements = whole(columns.elements)?;
        let Some(draft) = log.last() else { return Ok(taken) };
        let Some(time) = field::time(fields[columns.latency], 1e-3) else {
            draft.leave_out(line.number, "a time of 0, or none");
            return Ok(taken);
        };
        let Some(size) = elements.checked_mul(dtype.bytes().0) else {
            draft.leave_out(line.number, "more bytes than can be counted");
            return Ok(taken);
        };
        draft.rows.push(Raw {
            count: Some(elements),
            dtype: Some(dtype),
            ..Raw::timed(line.number, size, time)
        });
        Ok(taken)
    }
}

fn begun(line: usize, words: [&str; 5], gpus: &str) -> std::result::Result<Draft, String> {
    let [framework, version, device, operation, launch] = words;
    let name = if operation.is_empty() { "all_reduce" } else { operation };
    let mut draft = Draft::new("aiconfigurator", line, format!("{name} {launch}").trim());
    let collective: Collective =
        name.parse().map_err(|_| format!("`{name}` is not a collective"))?;
    draft.tested = Some(Tested::Collective(collective));
    let ranks = gpus.parse().ok().filter(|&n: &u32| n > 0);
    draft.ranks.push((ranks.ok_or_else(|| format!("`{gpus}` is not a number of GPUs"))?, "column"));
    let library: Vec<&str> =
        [framework, version, launch].into_iter().filter(|word| !word.is_empty()).collect();
    draft.library = Some(library.join(" ")).filter(|l| !l.is_empty());
    if launch.ends_with("_graph") {
        draft.launched_by_graph();
    }
    draft.system = Some(device.to_owned()).filter(|s| !s.is_empty());
    draft.mode = Mode::Stream;
    Ok(draft)
}

#[cfg(test)]
mod tests {
    use crate::measure::logs::{Asked, Measured, read};

    #[test]
    fn sizes_count_elements_and_times_milliseconds() {
        let text = "framework,version,device,op_name,kernel_source,allreduce_dtype,num_gpus,\
                    message_size,latency\n\
                    VLLM,0.24.0,NVIDIA H100,all_reduce,vLLM_custom_graph,half,8,2048,0.0046\n\
                    VLLM,0.24.0,NVIDIA H100,all_reduce,vLLM_custom_graph,half,4,2048,0.0045\n";
        let log = read(text.as_bytes(), "perf.txt", &Asked::default()).unwrap();
        assert_eq!(log.tables.len(), 2);
        let row = log.tables[0].rows[0];
        assert_eq!((log.tables[0].ranks, row.size.0), (Some(8), 4096));
        let Measured::Time(time) = row.measured else { panic!("{row:?}") };
        assert!((time.0 - 4.6e-6).abs() < 1e-12);
        assert_eq!(log.tables[0].library.as_deref(), Some("VLLM 0.24.0 vLLM_custom_graph"));
        assert!(log.tables[0].caveats[0].contains("CUDA graph"));
        // A size that no number holds is a row less, and no crash.
        let many = text.replacen(",2048,", ",9223372036854775809,", 1);
        let log = read(many.as_bytes(), "perf.txt", &Asked::default()).unwrap();
        assert_eq!(log.tables[0].left_out[0].why, "more bytes than can be counted");
    }

    #[test]
    fn a_damaged_row_is_refused_with_its_line() {
        let text = "allreduce_dtype,num_gpus,message_size,latency\nhalf,8,x,0.1\n";
        let error = read(text.as_bytes(), "perf.txt", &Asked::default()).unwrap_err().to_string();
        assert!(error.contains("perf.txt:2"), "{error}");
    }
}

//! Recognises files that are not logs.

use super::FORMATS;
use super::line::Line;
use crate::base::error::Error;

/// What to do with the output of DeepEP's tests.
const DEEPEP: &str = "times of DeepEP are known already: collcost plan with --all2all-backend deepep_low_latency, or \
                      all2all = \"deepep-ll\"";

/// A text that identifies another kind of file, what it is, and what to do.
const HINTS: &[(&str, &str, &str)] = &[
    // The heading itself would have begun a table.
    (
        "algbw   busbw",
        "the heading of nccl-tests' table cannot be read: other text is on its line, or columns are missing",
        "remove what is in front of the table's lines, or give the benchmark's own output",
    ),
    (
        "NCCL INFO",
        "the file is a debug log of NCCL without a table of nccl-tests",
        "use `collcost nccl log FILE`, or give the benchmark's own output",
    ),
    (
        "vg bus bandwidth",
        "the file has only an average over sizes, which measures nothing: it depends on the sizes",
        "give the table of all_reduce_perf, not its last line",
    ),
    (
        "\"communicators_count\"",
        "the document is the state of communicators that ncclras prints: it has no times",
        "give the output of a benchmark, or the dumps of PyTorch's flight recorder for a run that hangs",
    ),
    (
        "nvbandwidth Version",
        "the table is nvbandwidth's: copies between pairs of GPUs, no collective",
        "run the collective in a benchmark: all_reduce_perf of nccl-tests",
    ),
    (
        "NIXLBench Configuration",
        "the table is nixlbench's: transfers between two agents, no collective",
        "run the collective in a benchmark: sendrecv_perf of nccl-tests",
    ),
    (
        "[tuning] Best dispatch",
        "these are DeepEP's tests, which are not read: bandwidths of its dispatch and combine",
        DEEPEP,
    ),
    (
        "Dispatch + combine bandwidth",
        "these are DeepEP's tests of low latency, which are not read: bandwidths of its dispatch and combine",
        DEEPEP,
    ),
    (
        "elapsed time per iteration",
        "the file is Megatron's log of steps, without times of collectives",
        "collcost plan says what a step takes; give traces of PyTorch's profiler or the Inspector's dumps for its collectives",
    ),
    ("{\"t\":\"hdr\"", "the file holds samples, not a log", "give it to `collcost fit` unchanged"),
];

/// The first hint that a file gives.
#[derive(Debug, Default)]
pub(super) struct Hints {
    found: Option<(usize, usize)>,
    /// Whether there is a line of words.
    any: bool,
    /// The first line that begins with a number.
    row: Option<usize>,
}

impl Hints {
    pub fn take(&mut self, line: &Line) {
        if line.is_numeric() {
            self.row.get_or_insert(line.number);
            return;
        }
        self.any = true;
        let known = self.found.map_or(HINTS.len(), |(hint, _)| hint);
        if let Some(hint) = HINTS[..known].iter().position(|(mark, ..)| line.text.contains(mark)) {
            self.found = Some((hint, line.number));
        }
    }

    pub fn error(&self, file: &str) -> Error {
        if let Some((hint, line)) = self.found {
            let (_, what, help) = HINTS[hint];
            return Error::input(what).at(format!("{file}:{line}")).help(help);
        }
        match (self.any, self.row) {
            (true, _) => {}
            (false, None) => {
                let empty = Error::input("the file is empty").at(file);
                return empty.help("give the benchmark's output");
            }
            (false, Some(row)) => {
                return Error::input("rows without a heading: nothing says what their columns are")
                    .at(format!("{file}:{row}"))
                    .help("give the benchmark's whole output, with its title and the heading of its columns");
            }
        }
        let ids: Vec<&str> = FORMATS.iter().map(|f| f.id).collect();
        Error::input("the file contains no table of a known benchmark").at(file).help(format!(
            "known: {}, and nccl-tests' JSON (-J); give the output with its headings",
            ids.join(", ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use crate::measure::logs::{Asked, look};

    #[test]
    fn what_a_file_lacks_or_is_instead_is_said() {
        for (text, what) in [
            ("", "the file is empty"),
            ("\n4       5.10\n1024    9.10\n", "rows without a heading"),
            ("4       5.10\nsomething\n", "no table of a known benchmark"),
            ("{\n \"nccl_version\": \"2.28.7\",\n \"communicators_count\": 1\n}\n", "ncclras"),
            ("nvbandwidth Version: v0.8\n", "nvbandwidth"),
            ("[tuning] Best dispatch (FP8): SMs 24, NVL chunk 20: 153.00 GB/s\n", "DeepEP"),
        ] {
            let error = look(text.as_bytes(), "log.txt", &Asked::default()).unwrap_err();
            assert!(error.what().contains(what), "{text}: {}", error.what());
        }
    }
}

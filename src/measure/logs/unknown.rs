//! Recognises files that are not logs.

use super::FORMATS;
use super::line::Line;
use crate::base::error::Error;

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
    ("{\"t\":\"hdr\"", "the file holds samples, not a log", "give it to `collcost fit` unchanged"),
];

/// The first hint that a file gives.
#[derive(Debug, Default)]
pub(super) struct Hints {
    found: Option<(usize, usize)>,
    /// Whether there is a line.
    any: bool,
}

impl Hints {
    pub fn take(&mut self, line: &Line) {
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
        if !self.any {
            return Error::input("the file is empty").at(file).help("give the benchmark's output");
        }
        let ids: Vec<&str> = FORMATS.iter().map(|f| f.id).collect();
        Error::input("the file contains no table of a known benchmark").at(file).help(format!(
            "known: {}, and nccl-tests' JSON (-J); give the output with its headings",
            ids.join(", ")
        ))
    }
}

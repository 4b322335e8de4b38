//! Reports as pages, with one writer per format, and as JSON.

pub mod accuracy;
pub mod accuracy_answer;
pub mod arrival;
pub mod bucket;
#[cfg(target_os = "linux")]
pub mod calibrate;
pub mod check;
pub mod check_diff;
pub mod columns;
pub mod compare;
pub mod convert;
pub mod crossover;
pub mod curves;
pub mod devices;
pub mod explain;
pub mod explorer;
pub mod fit;
pub mod fleet;
mod gauges;
pub mod import;
pub mod job;
pub mod list;
pub mod map;
pub mod nccl;
pub mod nccl_diff;
pub mod nccl_graphs;
pub mod nccl_log;
pub mod nccl_table;
pub mod nccl_whatif;
pub mod optimum;
pub mod page;
pub mod plan;
pub mod plot;
pub mod profiles;
#[cfg(target_os = "linux")]
pub mod race;
#[cfg(target_os = "linux")]
pub mod run;
mod screen;
pub mod select;
pub mod serve;
pub mod sheet;
pub mod simulate;
pub mod sweep;
pub mod table;
pub mod trace;
pub mod traffic;
pub mod verify;

use std::fmt;
use std::io::{self, Write};

use owo_colors::OwoColorize;
use serde::Serialize;

/// `1 rank`, `2 ranks`.
fn counted<N: fmt::Display + PartialEq + From<u8>>(n: N, word: &str) -> String {
    let plural = if n == N::from(1) { "" } else { "s" };
    format!("{n} {word}{plural}")
}

/// A rate in GB/s with so many decimals, or three where it is small: small calls reach megabytes a second.
fn giga(rate: f64, decimals: usize) -> String {
    match rate / 1e9 {
        small if (0.0005..0.095).contains(&small) => format!("{small:.3}"),
        large => format!("{large:.decimals$}"),
    }
}

/// How wide a text may be, and whether it is coloured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Look {
    /// Columns of the terminal; absent: no limit.
    pub width: Option<usize>,
    /// Whether words are coloured.
    pub color: bool,
    /// Whether tables are complete, as for documents and programs; a terminal shows the main part.
    pub whole: bool,
}

impl Look {
    /// A document, or a table for a program.
    #[must_use]
    pub fn document() -> Self {
        Self { whole: true, ..Self::default() }
    }

    /// A word that a reader searches for.
    pub(crate) fn strong(self, word: &str) -> String {
        if self.color { word.bold().to_string() } else { word.to_owned() }
    }

    /// The answer itself.
    pub(crate) fn good(self, word: &str) -> String {
        if self.color { word.green().to_string() } else { word.to_owned() }
    }

    /// Something that a reader should know.
    pub(crate) fn quiet(self, word: &str) -> String {
        if self.color { word.dimmed().to_string() } else { word.to_owned() }
    }

    /// Writes `text` after `label`, wrapped at blanks if it is too wide.
    pub(crate) fn line(self, out: &mut impl Write, label: &str, text: &str) -> io::Result<()> {
        let indent = label.chars().count();
        let room = self.width.unwrap_or(usize::MAX).saturating_sub(indent).max(20);
        let mut used = 0;
        let shown = match label.trim() {
            "expected" => self.good(label),
            "note" => self.quiet(label),
            _ => self.strong(label),
        };
        let mut line = shown;
        for (i, word) in text.split(' ').enumerate() {
            let length = word.chars().count();
            if i > 0 && used + 1 + length > room {
                line.push('\n');
                line.extend(std::iter::repeat_n(' ', indent));
                used = 0;
            } else if i > 0 {
                line.push(' ');
                used += 1;
            }
            // Non-breaking blanks kept words together.
            line.extend(word.chars().map(|c| if c == '\u{a0}' { ' ' } else { c }));
            used += length;
        }
        line.push('\n');
        out.write_all(line.as_bytes())
    }
}

/// Writes a report as one indented JSON document.
///
/// # Errors
/// The writer's.
pub fn json(out: &mut impl Write, report: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, report)?;
    out.write_all(b"\n")
}

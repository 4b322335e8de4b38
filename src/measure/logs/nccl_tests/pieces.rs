//! Rows between whose pieces the library wrote its own lines.
//!
//! A row is written in pieces, before and after its calls, and each of these makes NCCL print something if it is told
//! to. Where both go to one stream, the pieces still stand in order, each at the beginning of a line:
//!
//! ```text
//!      8388608       2097152     float     sum      -1node1:12:12 [1] NCCL INFO AllReduce: opCount 0 …
//! node1:12:12 [0] NCCL INFO AllReduce: 8388608 Bytes -> Algo RING proto SIMPLE …
//!     314.7   26.66   26.66      0node1:12:12 [1] NCCL INFO AllReduce: opCount 0 …
//!     310.8   26.99   26.99      0
//! ```

use super::columns::Columns;
use super::first_two;
use crate::machine::sample::DataType;
use crate::measure::logs::field;

/// Why pieces that could not be joined are left out.
pub(in crate::measure::logs) const APART: &str =
    "NCCL's own lines are between the pieces of the row";
/// How to run it again.
pub(in crate::measure::logs) const KEEP: &str =
    "run it with NCCL_DEBUG_FILE=nccl.%h.%p.log too, which keeps NCCL's lines out of the table";

/// The pieces of a row so far.
pub(super) struct Row {
    /// The line of the first of them, which is that of the row.
    pub line: usize,
    pub text: String,
    /// Why it is left out if no other piece follows.
    pub why: String,
    fields: usize,
}

impl Row {
    /// The first piece of a row.
    pub fn begin(line: usize, text: &str, why: String) -> Self {
        Self { line, text: text.to_owned(), why, fields: field::split(text).1 }
    }

    /// With another piece, which has the figures of a place.
    pub fn with(self, columns: &Columns, text: &str) -> Option<Self> {
        let (fields, count) = field::split(text);
        let is_figure = |f: &&str| field::is_none(f) || field::number(f).is_some();
        let fields =
            (count > 0 && fields[..count].iter().all(is_figure)).then_some(self.fields + count)?;
        let text = format!("{} {text}", self.text);
        columns.is_end(fields).then_some(Self { text, fields, ..self })
    }

    /// Whether it has all its pieces.
    pub fn is_whole(&self, columns: &Columns) -> bool {
        self.fields == columns.count
    }
}

/// Whether a piece is the first of a row: a size, a count and a type.
pub(super) fn begins(text: &str) -> bool {
    let (fields, count) = field::split(text);
    let dtype = fields[..count].get(2).and_then(|name| DataType::named(name));
    first_two(&fields[..count]).is_some() && dtype.is_some()
}

/// Whether a line of the library is on the same line.
pub(super) fn has_line(text: &str) -> bool {
    text.contains("] NCCL ")
}

/// A piece, and the line of the library that is glued to it: `-1node1:12:12 [0] NCCL INFO …`. A host whose name begins
/// with a digit cannot be told from the piece.
pub(super) fn glued(text: &str) -> Option<(&str, &str)> {
    let mark = text.find("] NCCL ")?;
    let device = text[..mark].rfind('[')?;
    let (_, last) = text[..device].trim_end().rsplit_once([' ', '\t'])?;
    let figure = match last.strip_prefix("N/A") {
        Some(_) => "N/A",
        None => &last[..last.find(|c: char| c.is_ascii_alphabetic())?],
    };
    // `0` in front of `1node` is no number.
    let padded = figure.len() > 1 && figure.starts_with('0') && !figure.contains('.');
    let is_figure = field::is_none(figure) || field::number(figure).is_some();
    let at = text[..device].trim_end().len() - last.len() + figure.len();
    (is_figure && !padded).then(|| text.split_at(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_ends_where_the_host_begins() {
        let of = |text: &str| {
            let text = format!("  314.7  26.66  26.66  {text}:12:12 [1] NCCL INFO AllReduce");
            glued(&text).map(|(piece, _)| piece.rsplit(' ').next().unwrap_or("").to_owned())
        };
        for (text, last) in [
            ("0node1", Some("0")),
            ("-1node1", Some("-1")),
            ("N/Anode1", Some("N/A")),
            ("17ip-10-0-0-1", Some("17")),
            ("01node", None),
            ("010-0-0-1", None),
            ("node1", None),
        ] {
            assert_eq!(of(text).as_deref(), last, "{text}");
        }
    }
}

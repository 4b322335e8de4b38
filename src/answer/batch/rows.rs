//! A table's rows, cut at their commas: as `csv` reads them, in a quarter of its time.
//!
//! A line without quotes is looked through once. From the first line with a quote on, where a field may hold
//! commas and line ends, `csv` reads.

use std::io::{self, BufRead, Chain, Cursor, Read, Take};

use csv::{ByteRecord, Position, Reader, ReaderBuilder};

use crate::base::encoding::MARK;

/// One row: its fields from the left, as many as are wanted.
#[derive(Default)]
pub(super) struct Row {
    bytes: Vec<u8>,
    /// Where each field ends; the next one begins a byte later.
    ends: Vec<usize>,
    /// The line on which it begins, from 1.
    pub line: u64,
}

impl Row {
    /// A field; empty if the row has fewer.
    #[inline]
    pub fn field(&self, column: usize) -> &[u8] {
        let start = match column {
            0 => 0,
            _ => self.ends.get(column - 1).map_or(self.bytes.len(), |end| end + 1),
        };
        let end = self.ends.get(column).copied().unwrap_or(self.bytes.len());
        self.bytes.get(start..end).unwrap_or_default()
    }

    /// The fields before a column, with what is between them.
    #[inline]
    pub fn before(&self, column: usize) -> &[u8] {
        let end = column.checked_sub(1).map(|last| self.ends.get(last).copied());
        &self.bytes[..end.map_or(0, |end| end.unwrap_or(self.bytes.len()))]
    }

    /// All fields that were kept.
    pub fn fields(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.ends.len()).map(|column| self.field(column))
    }

    /// Whether a line has no quotes, and a carriage return at most before its end.
    fn is_plain(&self) -> bool {
        let inside = self.bytes.strip_suffix(b"\r\n").unwrap_or(&self.bytes);
        !inside.iter().any(|byte| matches!(byte, b'"' | b'\r'))
    }

    /// Takes the line's end away.
    #[inline]
    fn trim(&mut self) {
        for end in [b'\n', b'\r'] {
            if self.bytes.last() == Some(&end) {
                self.bytes.pop();
            }
        }
    }

    fn fill(&mut self, record: &ByteRecord, columns: usize) {
        self.bytes.clear();
        self.ends.clear();
        for field in record.iter().take(columns) {
            self.bytes.extend_from_slice(field);
            self.ends.push(self.bytes.len());
            // A field may hold commas, but no text has this byte.
            self.bytes.push(0xff);
        }
    }
}

/// The rows of a table.
pub(super) struct Rows<R> {
    source: Source<R>,
    /// Lines before the one that is read next; while `csv` reads, before its first one.
    lines: u64,
}

/// The line with the first quote and what follows it, as far as one row may reach.
type Rest<R> = Take<Chain<Cursor<Vec<u8>>, R>>;

enum Source<R> {
    Plain(R),
    Quoted(Box<Reader<Rest<R>>>),
    /// While one becomes the other.
    None,
}

/// Reads a line with its end into `row`, and finds the commas after the first fields. Whether it has neither
/// quotes nor carriage returns.
#[inline]
fn line(source: &mut impl BufRead, row: &mut Row, columns: usize) -> Result<bool, csv::Error> {
    row.bytes.clear();
    row.ends.clear();
    let (mut is_plain, mut has_ended) = (true, false);
    while !has_ended {
        let before = row.bytes.len();
        let found = match source.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            found => found?,
        };
        let found = &found[..found.len().min(LONGEST + 1 - before)];
        let mut length = 0;
        // What separates is below the letters and digits.
        while let Some(more) = found[length..].iter().position(|&byte| byte <= b',') {
            length += more + 1;
            match found[length - 1] {
                b'\n' => {
                    has_ended = true;
                    break;
                }
                b',' if row.ends.len() < columns => row.ends.push(before + length - 1),
                b'"' | b'\r' => is_plain = false,
                _ => {}
            }
        }
        if !has_ended {
            length = found.len();
        }
        row.bytes.extend_from_slice(&found[..length]);
        source.consume(length);
        if row.bytes.len() > LONGEST {
            return Err(too_long());
        }
        has_ended |= length == 0;
    }
    Ok(is_plain)
}

/// No row is longer than this, in bytes.
const LONGEST: usize = 1 << 20;

fn too_long() -> csv::Error {
    let what = format!("a row is longer than {} KiB", LONGEST >> 10);
    io::Error::new(io::ErrorKind::InvalidData, what).into()
}

impl<R: BufRead> Rows<R> {
    pub fn new(source: R) -> Self {
        Self { source: Source::Plain(source), lines: 0 }
    }

    /// Reads the next row's first `columns` fields; false at the end. Empty lines are skipped.
    #[inline]
    pub fn read(&mut self, row: &mut Row, columns: usize) -> Result<bool, csv::Error> {
        while let Source::Plain(source) = &mut self.source {
            let is_plain = line(source, row, columns)?;
            if row.bytes.is_empty() {
                return Ok(false);
            }
            if self.lines == 0 && row.bytes.starts_with(MARK.as_bytes()) {
                row.bytes.drain(..MARK.len());
                row.ends.iter_mut().for_each(|end| *end -= MARK.len());
            }
            if !is_plain && !row.is_plain() {
                self.go_on_with_csv(std::mem::take(&mut row.bytes));
                break;
            }
            self.lines += 1;
            row.trim();
            if !row.bytes.is_empty() {
                if row.ends.len() < columns {
                    row.ends.push(row.bytes.len());
                }
                row.line = self.lines;
                return Ok(true);
            }
        }
        let Source::Quoted(reader) = &mut self.source else { return Ok(false) };
        let mut record = ByteRecord::new();
        reader.get_mut().set_limit(LONGEST as u64);
        let found = reader.read_byte_record(&mut record)?;
        if reader.get_ref().limit() == 0 {
            return Err(too_long());
        }
        row.fill(&record, columns);
        row.line = self.lines + record.position().map_or(0, Position::line);
        Ok(found)
    }

    /// `csv` reads from the line that was read last.
    #[cold]
    fn go_on_with_csv(&mut self, line: Vec<u8>) {
        let Source::Plain(rest) = std::mem::replace(&mut self.source, Source::None) else { return };
        let mut builder = ReaderBuilder::new();
        let both = Cursor::new(line).chain(rest).take(LONGEST as u64);
        let reader = builder.flexible(true).has_headers(false).from_reader(both);
        self.source = Source::Quoted(Box::new(reader));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines with all fields.
    fn read(text: &str) -> Vec<(u64, Vec<String>)> {
        let mut rows = Rows::new(text.as_bytes());
        let (mut row, mut found) = (Row::default(), Vec::new());
        while rows.read(&mut row, usize::MAX).unwrap() {
            let fields = row.fields().map(|f| String::from_utf8(f.to_vec()).unwrap());
            found.push((row.line, fields.collect()));
        }
        found
    }

    fn by_csv(text: &str) -> Vec<Vec<String>> {
        let mut builder = ReaderBuilder::new();
        let mut reader = builder.flexible(true).has_headers(false).from_reader(text.as_bytes());
        reader.records().map(|row| row.unwrap().iter().map(str::to_owned).collect()).collect()
    }

    #[test]
    fn rows_are_those_of_csv() {
        for text in [
            "",
            "\n",
            "a",
            "a,b\n1,2\n",
            "a,b\r\n1,2\r\n,\r\n",
            "\u{feff}a,b\n\n\n1,\n,2",
            "a,b\n1,2,3\n4\n",
            "\"a\",b\n1,\"x,\ny\"\n\n3,4\n",
            "a,b\n1,2\n\"3\n3\",\"4\"\"4\"\n5,6\r7,8\n",
            "a,b\r1,2\r3,4",
        ] {
            let fields: Vec<_> = read(text).into_iter().map(|(_, fields)| fields).collect();
            assert_eq!(fields, by_csv(text), "{text:?}");
        }
    }

    #[test]
    fn rows_have_their_lines() {
        for text in ["a,b\r\n\r\n1,2\r\n3,4", "a,b\n\n1,2\n\"3\",4\n", "a\n\n\"1\n2\",3\n\"5\""] {
            let lines: Vec<_> = read(text).iter().map(|&(line, _)| line).collect();
            let last = if text.starts_with("a\n") { 5 } else { 4 };
            assert_eq!(lines, [1, 3, last], "{text:?}");
        }
    }

    #[test]
    fn a_row_without_end_is_refused() {
        for begin in ["1,2", "\"1,2"] {
            let endless = begin.as_bytes().chain(io::repeat(b'0'));
            let (mut rows, mut row) = (Rows::new(io::BufReader::new(endless)), Row::default());
            let error = rows.read(&mut row, 2).unwrap_err();
            assert!(error.to_string().contains("longer than 1024 KiB"), "{error}");
        }
    }

    #[test]
    fn columns_that_are_not_wanted_are_not_cut() {
        for text in ["1,2,3,4\n", "\"1\",2,3,4\n"] {
            let (mut rows, mut row) = (Rows::new(text.as_bytes()), Row::default());
            assert!(rows.read(&mut row, 2).unwrap());
            assert_eq!(row.fields().collect::<Vec<_>>(), [b"1", b"2"]);
            assert_eq!(row.field(7), b"");
        }
    }
}

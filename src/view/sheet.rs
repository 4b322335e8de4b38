//! A table with a heading and units, as text for a terminal, Markdown or CSV.

use std::borrow::Cow;
use std::io::{self, Write};

use comfy_table::{CellAlignment, Table, presets};

use crate::base::quantity::{Bandwidth, Bytes, Seconds, TimeUnit, Volume};

/// One column: its heading, its unit for people, its key for programs.
#[derive(Debug, Clone)]
pub struct Column {
    /// The heading.
    pub heading: String,
    /// The unit under it.
    pub unit: String,
    /// The name in CSV, with its unit.
    pub key: String,
    /// Whether it holds words, which are aligned left; numbers are aligned right.
    pub words: bool,
}

impl Column {
    /// A column of numbers.
    #[must_use]
    pub fn numbers(heading: &str, unit: &str, key: &str) -> Self {
        let [heading, unit, key] = [heading, unit, key].map(str::to_owned);
        Self { heading, unit, key, words: false }
    }

    /// A column of words.
    #[must_use]
    pub fn words(heading: &str, key: &str) -> Self {
        Self { words: true, ..Self::numbers(heading, "", key) }
    }

    /// `time (µs)`.
    #[must_use]
    pub fn heading_with_unit(&self) -> String {
        match self.unit.as_str() {
            "" => self.heading.clone(),
            unit => format!("{} ({unit})", self.heading.trim()),
        }
    }
}

/// One cell: for people, and for programs in base units.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    /// For people.
    pub text: String,
    /// For programs.
    pub raw: Raw,
}

/// The value of a cell for programs.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Raw {
    /// The same text as for people.
    #[default]
    Same,
    /// Another text.
    Text(String),
    /// A number.
    Number(f64),
    /// A time in seconds; for people, in the unit of the table's times.
    Time(f64),
    /// An unknown value.
    Unknown,
}

impl Cell {
    /// The same for both.
    #[must_use]
    pub fn same(text: impl Into<String>) -> Self {
        Self { text: text.into(), raw: Raw::Same }
    }

    /// `text` for people, `raw` for programs.
    #[must_use]
    pub fn named(text: &str, raw: &str) -> Self {
        Self { text: text.to_owned(), raw: Raw::Text(raw.to_owned()) }
    }

    /// A number, shown as `text`; empty if it is unknown.
    #[must_use]
    pub fn number(value: Option<f64>, text: impl FnOnce(f64) -> String) -> Self {
        match value {
            Some(value) => Self { text: text(value), raw: Raw::Number(value) },
            None => Self { text: "–".to_owned(), raw: Raw::Unknown },
        }
    }
}

/// The same text for both.
macro_rules! same {
    ($($text:ty),*) => {$(
        impl From<$text> for Cell {
            fn from(text: $text) -> Self {
                Self::same(text.to_string())
            }
        }
    )*};
}

same!(&str, String, &String, u32, u64, usize);

impl Cell {
    /// A time.
    #[must_use]
    pub fn seconds(time: impl Into<Option<f64>>) -> Self {
        match time.into() {
            Some(s) => Self { text: Seconds(s).to_string(), raw: Raw::Time(s) },
            None => Self::number(None, |_| String::new()),
        }
    }

    /// A rate.
    #[must_use]
    pub fn rate(rate: impl Into<Option<f64>>) -> Self {
        Self::number(rate.into(), |b| Bandwidth(b).to_string())
    }

    /// A size.
    #[must_use]
    pub fn bytes(size: u64) -> Self {
        Self::named(&Bytes(size).to_string(), &size.to_string())
    }

    /// A volume, which may be a fraction of a byte.
    #[must_use]
    pub fn volume(bytes: impl Into<Option<f64>>) -> Self {
        Self::number(bytes.into(), |b| Volume(b).to_string())
    }

    fn time(&self) -> Option<Seconds> {
        match self.raw {
            Raw::Time(s) => Some(Seconds(s)),
            _ => None,
        }
    }

    /// The value for programs.
    fn program(&self) -> String {
        match &self.raw {
            Raw::Same => self.text.clone(),
            Raw::Text(text) => text.clone(),
            Raw::Number(value) | Raw::Time(value) => value.to_string(),
            Raw::Unknown => String::new(),
        }
    }
}

/// A table.
#[derive(Debug, Clone, Default)]
pub struct Sheet {
    /// Headings and units.
    pub columns: Vec<Column>,
    /// The rows, one cell per column.
    pub rows: Vec<Vec<Cell>>,
}

/// A table in the making: a row for each thing, and column after column what it holds of them.
pub(in crate::view) struct Rows<T> {
    of: Vec<T>,
    /// What has been made.
    pub sheet: Sheet,
}

impl<T: Copy> Rows<T> {
    /// A column of numbers.
    pub fn numbers<C: Into<Cell>>(
        self,
        heading: &str,
        unit: &str,
        key: &str,
        cell: impl Fn(T) -> C,
    ) -> Self {
        self.column(Column::numbers(heading, unit, key), &|of| cell(of).into())
    }

    /// A column of words.
    pub fn words<C: Into<Cell>>(self, heading: &str, key: &str, cell: impl Fn(T) -> C) -> Self {
        self.column(Column::words(heading, key), &|of| cell(of).into())
    }

    /// Columns that the table has only under this condition.
    pub fn when(self, holds: bool, columns: impl FnOnce(Self) -> Self) -> Self {
        if holds { columns(self) } else { self }
    }

    // Once for each kind of row, not for each column.
    #[inline(never)]
    fn column(mut self, column: Column, cell: &dyn Fn(T) -> Cell) -> Self {
        self.sheet.columns.push(column);
        for (row, &of) in self.sheet.rows.iter_mut().zip(&self.of) {
            row.push(cell(of));
        }
        self
    }
}

impl Sheet {
    /// A table with a row for each of these; its columns follow.
    pub(in crate::view) fn of<T: Copy>(rows: impl IntoIterator<Item = T>) -> Rows<T> {
        let of: Vec<T> = rows.into_iter().collect();
        let rows = vec![Vec::new(); of.len()];
        Rows { of, sheet: Self { columns: Vec::new(), rows } }
    }

    /// One row of named figures.
    #[must_use]
    pub fn record(figures: Vec<(&str, Cell)>) -> Self {
        let columns = figures.iter().map(|(key, _)| Column::words(key, key)).collect();
        Self { columns, rows: vec![figures.into_iter().map(|(_, cell)| cell).collect()] }
    }

    /// The same with times as numbers, in one unit per column, which is below its heading.
    pub(super) fn in_one_unit(&self) -> Cow<'_, Self> {
        if !self.rows.iter().flatten().any(|cell| cell.time().is_some()) {
            return Cow::Borrowed(self);
        }
        let mut sheet = self.clone();
        let all = TimeUnit::common(self.rows.iter().flatten().filter_map(Cell::time));
        for (i, column) in sheet.columns.iter_mut().enumerate() {
            let unit = all.or_own(self.rows.iter().filter_map(|row| row.get(i)?.time()));
            for cell in sheet.rows.iter_mut().filter_map(|row| row.get_mut(i)) {
                if let Some(time) = cell.time() {
                    cell.text = unit.number(time);
                    unit.name.clone_into(&mut column.unit);
                }
            }
        }
        Cow::Owned(sheet)
    }

    /// For a terminal.
    ///
    /// # Errors
    /// The writer's.
    pub fn text(&self, out: &mut impl Write) -> io::Result<()> {
        let Self { columns, rows } = &*self.in_one_unit();
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(columns.iter().map(|c| &c.heading));
        if columns.iter().any(|c| !c.unit.is_empty()) {
            table.add_row(columns.iter().map(|c| &c.unit));
        }
        for row in rows {
            table.add_row(row.iter().map(|c| &c.text));
        }
        for (i, column) in table.column_iter_mut().enumerate() {
            column.set_padding((u16::from(i > 0), 1));
            if !columns[i].words {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        writeln!(out, "{}", table.trim_fmt())
    }

    /// The width of [`Self::text`] in columns of a terminal.
    #[must_use]
    pub fn width(&self) -> usize {
        let shown = self.in_one_unit();
        let widest = |i: usize| {
            let cells = shown.rows.iter().filter_map(|r| r.get(i)).map(|c| c.text.chars().count());
            let own = [&shown.columns[i].heading, &shown.columns[i].unit];
            cells.chain(own.map(|t| t.chars().count())).max().unwrap_or(0)
        };
        let gaps = 2 * self.columns.len().saturating_sub(1);
        (0..self.columns.len()).map(widest).sum::<usize>() + gaps
    }

    /// Removes the column with that key.
    pub fn drop_column(&mut self, key: &str) {
        if let Some(i) = self.columns.iter().position(|c| c.key == key) {
            self.columns.remove(i);
            self.rows.iter_mut().for_each(|row| drop(row.remove(i)));
        }
    }

    /// Removes columns of `spare`, in this order, until the table fits; their headings, in the order
    /// of the table. Keys with a blank between them go together: one says nothing without the other.
    pub(super) fn narrow(&mut self, width: Option<usize>, spare: &[&str]) -> Vec<String> {
        let Some(width) = width else { return Vec::new() };
        let all = self.columns.clone();
        for key in spare {
            if self.width() <= width {
                break;
            }
            key.split(' ').for_each(|key| self.drop_column(key));
        }
        let gone = |c: &&Column| self.columns.iter().all(|kept| kept.key != c.key);
        let mut headings: Vec<String> =
            all.iter().filter(gone).map(|c| c.heading.trim().to_owned()).collect();
        headings.dedup();
        headings
    }

    /// As a Markdown table.
    ///
    /// # Errors
    /// The writer's.
    pub fn markdown(&self, out: &mut impl Write) -> io::Result<()> {
        let Self { columns, rows } = &*self.in_one_unit();
        let line = |out: &mut dyn Write, cells: &mut dyn Iterator<Item = String>| {
            let cells: Vec<String> = cells.map(|c| markdown_cell(c.trim())).collect();
            writeln!(out, "| {} |", cells.join(" | "))
        };
        line(out, &mut columns.iter().map(Column::heading_with_unit))?;
        let rule = |c: &Column| if c.words { "---" } else { "---:" }.to_owned();
        line(out, &mut columns.iter().map(rule))?;
        for row in rows {
            line(out, &mut row.iter().map(|c| c.text.clone()))?;
        }
        Ok(())
    }

    /// As CSV in base units.
    ///
    /// # Errors
    /// The writer's.
    pub fn csv(&self, out: &mut impl Write) -> io::Result<()> {
        let mut writer = csv::Writer::from_writer(out);
        writer.write_record(self.columns.iter().map(|c| &c.key))?;
        for row in &self.rows {
            writer.write_record(row.iter().map(Cell::program))?;
        }
        writer.flush()
    }
}

/// A text that can neither end a cell of a Markdown table nor begin markup.
pub(in crate::view) fn markdown_cell(text: &str) -> String {
    markdown(text).replace('|', "\\|").replace('\n', " ").replace('<', "&lt;")
}

/// A text as code in a cell of a Markdown table.
pub(in crate::view) fn markdown_code(text: &str) -> String {
    let text = text.replace('|', "\\|").replace('\n', " ");
    if text.contains('`') { format!("`` {text} ``") } else { format!("`{text}`") }
}

/// A text in which names of files and budgets begin no markup; what is between backticks remains code.
pub(in crate::view) fn markdown(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    let paired = (parts.len() - 1) / 2 * 2;
    let mut out = String::with_capacity(text.len());
    for (i, part) in parts.into_iter().enumerate() {
        match i {
            0 => {}
            i if i <= paired => out.push('`'),
            _ => out.push_str("\\`"),
        }
        if i % 2 == 1 && i < paired { out.push_str(part) } else { plain(&mut out, part) }
    }
    out
}

fn plain(out: &mut String, text: &str) {
    let mut before = None;
    for (at, c) in text.char_indices() {
        let after = text[at + c.len_utf8()..].chars().next();
        let in_word = before.is_some_and(char::is_alphanumeric);
        // A sign between a word and another sign closes what nothing opened.
        let opens = after.is_some_and(|c| c.is_alphanumeric() || !c.is_whitespace() && !in_word);
        let escapes = match c {
            '\\' => true,
            // A sign behind a word marks it, as in tables of states; at the start of a line it is a list's.
            '*' => opens || before.is_none() && after.is_some(),
            '_' => opens && !in_word,
            '[' => text[at..].contains("]("),
            _ => false,
        };
        let tag = |c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '!' | '?');
        match c {
            '<' if after.is_some_and(tag) => out.push_str("&lt;"),
            c if escapes => out.extend(['\\', c]),
            c => out.push(c),
        }
        before = Some(c);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet() -> Sheet {
        let cells =
            vec![Cell::same("a, b"), Cell::number(Some(1.5e-6), |s| format!("{:.1}", s * 1e6))];
        Sheet {
            columns: vec![Column::words("name", "name"), Column::numbers("time", "µs", "time_s")],
            rows: vec![cells],
        }
    }

    fn written(write: impl Fn(&Sheet, &mut Vec<u8>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&sheet(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn names_begin_no_markup() {
        for (name, escaped) in [
            ("gr|a<d>& holds", "gr|a&lt;d>& holds"),
            ("1 < 2 µs, 2 * 3", "1 < 2 µs, 2 * 3"),
            ("tp*dp*pp", "tp\\*dp\\*pp"),
            ("all_reduce, c0* c1*", "all_reduce, c0* c1*"),
            ("_e_ and __init__", "\\_e_ and \\_\\_init__"),
            ("[l](http://e)", "\\[l](http://e)"),
            ("[defaults] n = 8", "[defaults] n = 8"),
            ("*  written", "\\*  written"),
            ("b`c*d*.txt", "b\\`c\\*d*.txt"),
            ("T(P*), µs", "T(P*), µs"),
            ("*", "*"),
            ("`a*b*` is none", "`a*b*` is none"),
            (r"C:\a", r"C:\\a"),
        ] {
            assert_eq!(markdown(name), escaped);
        }
        assert_eq!(markdown_cell("a|b\nc<d"), "a\\|b c&lt;d");
        assert_eq!(markdown_code("a*b|c"), "`a*b\\|c`");
        assert_eq!(markdown_code("a`b"), "`` a`b ``");
    }

    #[test]
    fn one_table_in_three_notations() {
        assert_eq!(written(|s, out| s.csv(out)), "name,time_s\n\"a, b\",0.0000015\n");
        assert_eq!(
            written(|s, out| s.markdown(out)),
            "| name | time (µs) |\n| --- | ---: |\n| a, b | 1.5 |\n"
        );
        assert_eq!(written(|s, out| s.text(out)), "name  time\n        µs\na, b   1.5\n");
    }
}

//! The content of a report in blocks, and one writer per format: a report becomes a page only once.

mod csv;
mod html;
mod latex;
mod markdown;
mod prose;
mod record;
mod text;

use std::io::{self, Write};

use serde::Serialize;

use super::Look;
use super::sheet::Sheet;
pub(super) use crate::answer::explain::Block as Prose;
use crate::base::format::Format;

/// The content of a report.
#[derive(Debug, Clone, Default)]
pub struct Page {
    blocks: Vec<Block>,
    /// The width of a text without a terminal.
    width: Option<usize>,
}

/// A part of a page.
#[derive(Debug, Clone)]
enum Block {
    /// A line, printed unchanged.
    Line(String),
    /// A label and its text, wrapped at blanks on a narrow terminal.
    Entry(String, String),
    /// A table; those beside the main ones are not in CSV.
    Table { sheet: Sheet, beside: bool },
    /// A table only for programs: content of the page that is in no table, or only in part.
    Record(Sheet),
    /// Preformatted lines.
    Drawn(String),
    /// An empty line; documents separate their blocks anyway.
    Gap,
    /// A part of an explanation.
    Prose(Prose),
}

/// The formats in which a page is written; of these, HTML for the verbs that offer it.
#[must_use]
pub fn has(format: Format) -> bool {
    use Format::{Csv, Html, Latex, Markdown, Text};
    matches!(format, Text | Markdown | Csv | Latex | Html)
}

impl Page {
    /// Wraps texts at `width` columns if there is no terminal with its own width.
    pub(super) fn narrow(&mut self, width: usize) {
        self.width = Some(width);
    }

    /// A line, printed unchanged.
    pub(super) fn line(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Line(text.into()));
    }

    /// The text of `label`.
    pub(super) fn entry(&mut self, label: impl Into<String>, text: impl Into<String>) {
        self.blocks.push(Block::Entry(label.into(), text.into()));
    }

    /// Several texts with the same label.
    pub(super) fn entries<T: Into<String>>(
        &mut self,
        label: &str,
        texts: impl IntoIterator<Item = T>,
    ) {
        texts.into_iter().for_each(|text| self.entry(label, text));
    }

    /// A main table.
    pub(super) fn table(&mut self, sheet: Sheet) {
        self.blocks.push(Block::Table { sheet, beside: false });
    }

    /// A main table without those columns of `spare`, in this order, that have no room, and a line
    /// that names them.
    pub(super) fn table_within(&mut self, width: Option<usize>, mut sheet: Sheet, spare: &[&str]) {
        let left_out = sheet.narrow(width, spare);
        self.table(sheet);
        if !left_out.is_empty() {
            let text = format!("{} (--format csv has all)", left_out.join(", "));
            self.entry("  left out for width: ", text);
        }
    }

    /// A table beside the main ones.
    pub(super) fn beside(&mut self, sheet: Sheet) {
        self.blocks.push(Block::Table { sheet, beside: true });
    }

    /// A table for programs; CSV has it instead of the others.
    pub(super) fn programs(&mut self, sheet: Sheet) {
        self.blocks.push(Block::Record(sheet));
    }

    /// The same from a report: for each item of `list`, the values of its `keys` in JSON.
    pub(super) fn record(&mut self, report: &impl Serialize, list: &str, keys: &[&str]) {
        self.programs(record::record(report, list, keys));
    }

    /// Preformatted lines.
    pub(super) fn drawn(&mut self, lines: impl Into<String>) {
        self.blocks.push(Block::Drawn(lines.into()));
    }

    /// An empty line.
    pub(super) fn gap(&mut self) {
        self.blocks.push(Block::Gap);
    }

    /// Writes the page.
    ///
    /// # Errors
    /// The writer's.
    pub fn write(&self, out: &mut impl Write, format: Format, look: Look) -> io::Result<()> {
        match format {
            Format::Markdown => markdown::write(out, &self.blocks),
            Format::Csv => csv::write(out, &self.blocks),
            Format::Latex => latex::write(out, &self.blocks),
            Format::Html => html::write(out, &self.blocks),
            _ => {
                let width = look.width.or(self.width);
                text::write(out, &self.blocks, Look { width, ..look })
            }
        }
    }
}

impl From<Sheet> for Page {
    fn from(sheet: Sheet) -> Self {
        let mut page = Self::default();
        page.table(sheet);
        page
    }
}

impl From<Vec<Prose>> for Page {
    fn from(blocks: Vec<Prose>) -> Self {
        Self { blocks: blocks.into_iter().map(Block::Prose).collect(), width: None }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sheet::{Cell, Column};
    use super::*;

    fn page() -> Page {
        let columns = vec![Column::words("name", "name"), Column::numbers("time", "µs", "time_s")];
        let time = Cell::number(Some(1.5e-6), |s| format!("{:.1}", s * 1e6));
        let mut page = Page::default();
        page.line("one & two");
        page.gap();
        page.table(Sheet { columns, rows: vec![vec![Cell::same("a"), time]] });
        page.entry("note  ", "a word or two");
        page.entry("note  ", "more");
        page
    }

    fn written(page: &Page, format: Format) -> String {
        let mut out = Vec::new();
        page.write(&mut out, format, Look::default()).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn html_is_whole_and_escapes_every_text() {
        let mut page = page();
        page.line("<script>alert('x')</script>");
        page.entry("note & <b>", "\"<img src=x>\"");
        page.drawn("a < b");
        let html = written(&page, Format::Html);
        assert!(html.starts_with("<!DOCTYPE html>") && html.ends_with("</html>\n"), "{html}");
        assert!(
            html.contains("<th>time (µs)</th></tr>\n<tr><td class=\"words\">a</td><td>1.5</td>")
        );
        assert_eq!(html.matches("<dl>").count(), 2, "{html}");
        assert_eq!(html.matches("</dl>").count(), 2, "{html}");
        for bare in ["<script", "<b>", "<img", "a < b", "src=\"", "href="] {
            assert!(!html.contains(bare), "{bare}: {html}");
        }
    }

    #[test]
    fn one_page_in_four_notations() {
        let page = page();
        assert_eq!(
            written(&page, Format::Text),
            "one & two\n\nname  time\n        µs\na      1.5\nnote  a word or two\nnote  more\n"
        );
        assert_eq!(
            written(&page, Format::Markdown),
            "one & two\n\n| name | time (µs) |\n| --- | ---: |\n| a | 1.5 |\n\n\
             - **note** a word or two\n- **note** more\n"
        );
        assert_eq!(written(&page, Format::Csv), "name,time_s\na,0.0000015\n");
        let latex = written(&page, Format::Latex);
        assert!(latex.starts_with("one \\& two\n\n\\begin{tabular}{lr}\n"), "{latex}");
        assert!(latex.contains("a & 1.5 \\\\\n") && latex.contains("\\item[note] more\n"));
    }

    #[test]
    fn a_page_without_tables_has_its_entries_in_csv() {
        let mut page = Page::default();
        page.entry("time    ", "2 ms, one span");
        assert_eq!(written(&page, Format::Csv), "what,text\ntime,\"2 ms, one span\"\n");
        page.record(&serde_json::json!({"time_s": 0.002}), "", &["time_s"]);
        assert_eq!(written(&page, Format::Csv), "time_s\n0.002\n");
    }
}

//! A page as one self-contained HTML file; every text is escaped.

use std::io::{self, Write};

use quick_xml::escape::escape;

use super::{Block, Sheet, prose};

const HEAD: &str = "<!DOCTYPE html>
<html lang=\"en\">
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width\">
<title>collcost</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72em; margin: 2em auto; padding: 0 1em }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: .1em .8em; text-align: right; border-bottom: 1px solid #8884 }
.words { text-align: left }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2em 1em }
dd { margin: 0 }
</style>
";

pub(super) fn write(out: &mut impl Write, blocks: &[Block]) -> io::Result<()> {
    out.write_all(HEAD.as_bytes())?;
    let shown = || blocks.iter().filter(|b| !matches!(b, Block::Gap | Block::Record(_)));
    let next = shown().skip(1).map(Some).chain([None]);
    let mut before: Option<&Block> = None;
    for (block, next) in shown().zip(next) {
        match block {
            Block::Entry(label, text) => {
                if !matches!(before, Some(Block::Entry(..))) {
                    writeln!(out, "<dl>")?;
                }
                writeln!(out, "<dt>{}</dt><dd>{}</dd>", escape(label.trim()), escape(text))?;
                if !matches!(next, Some(Block::Entry(..))) {
                    writeln!(out, "</dl>")?;
                }
            }
            Block::Line(line) => writeln!(out, "<h2>{}</h2>", escape(line.trim()))?,
            Block::Table { sheet, .. } => table(out, sheet)?,
            Block::Drawn(lines) => {
                writeln!(out, "<pre>{}</pre>", escape(lines.trim_matches('\n')))?
            }
            Block::Prose(part) => {
                let mut text = Vec::new();
                prose::markdown(&mut text, part, before.is_none())?;
                writeln!(out, "<pre>{}</pre>", escape(String::from_utf8_lossy(&text).trim()))?;
            }
            Block::Gap | Block::Record(_) => {}
        }
        before = Some(block);
    }
    writeln!(out, "</html>")
}

fn table(out: &mut impl Write, sheet: &Sheet) -> io::Result<()> {
    let sheet = sheet.in_one_unit();
    let class = |words: bool| if words { " class=\"words\"" } else { "" };
    write!(out, "<table>\n<tr>")?;
    for column in &sheet.columns {
        write!(out, "<th{}>{}</th>", class(column.words), escape(column.heading_with_unit()))?;
    }
    writeln!(out, "</tr>")?;
    for row in &sheet.rows {
        write!(out, "<tr>")?;
        for (cell, column) in row.iter().zip(&sheet.columns) {
            write!(out, "<td{}>{}</td>", class(column.words), escape(cell.text.trim()))?;
        }
        writeln!(out, "</tr>")?;
    }
    writeln!(out, "</table>")
}

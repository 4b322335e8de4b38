//! A page as a part of a LaTeX document, for any engine.

use std::io::{self, Write};

use super::prose::{self, tabular, tex};
use super::{Block, Sheet};

pub(super) fn write(out: &mut impl Write, blocks: &[Block]) -> io::Result<()> {
    let mut before: Option<&Block> = None;
    let shown: Vec<&Block> =
        blocks.iter().filter(|b| !matches!(b, Block::Gap | Block::Record(_))).collect();
    for (i, &block) in shown.iter().enumerate() {
        let goes_on = matches!((before, block), (Some(Block::Entry(..)), Block::Entry(..)));
        if before.is_some() && !goes_on {
            writeln!(out)?;
        }
        match block {
            Block::Entry(label, text) => {
                if !goes_on {
                    writeln!(out, "\\begin{{description}}")?;
                }
                writeln!(out, "\\item[{}] {}", tex(label.trim()), tex(text))?;
                if !matches!(shown.get(i + 1), Some(Block::Entry(..))) {
                    writeln!(out, "\\end{{description}}")?;
                }
            }
            Block::Line(line) => writeln!(out, "{}", tex(line.trim()))?,
            Block::Table { sheet, .. } => table(out, sheet)?,
            Block::Drawn(lines) => {
                let lines = lines.trim_matches('\n');
                writeln!(out, "\\begin{{verbatim}}\n{lines}\n\\end{{verbatim}}")?;
            }
            Block::Prose(part) => prose::latex(out, part, i == 0)?,
            Block::Gap | Block::Record(_) => {}
        }
        before = Some(block);
    }
    Ok(())
}

fn table(out: &mut impl Write, sheet: &Sheet) -> io::Result<()> {
    let sheet = sheet.in_one_unit();
    let header: Vec<String> = sheet.columns.iter().map(|c| c.heading_with_unit()).collect();
    let align: String = sheet.columns.iter().map(|c| if c.words { 'l' } else { 'r' }).collect();
    let rows = sheet.rows.iter().map(|row| row.iter().map(|c| c.text.trim().to_owned()).collect());
    tabular(out, &align, &header, &rows.collect::<Vec<Vec<String>>>())
}

//! A page as a Markdown document.

use std::io::{self, Write};

use super::super::sheet::markdown;
use super::{Block, prose};

pub(super) fn write(out: &mut impl Write, blocks: &[Block]) -> io::Result<()> {
    let mut before: Option<&Block> = None;
    for block in blocks.iter().filter(|b| !matches!(b, Block::Gap | Block::Record(_))) {
        match (before, block) {
            (None, _) | (Some(Block::Entry(..)), Block::Entry(..)) => {}
            _ => writeln!(out)?,
        }
        match block {
            Block::Entry(label, text) if label.trim().is_empty() => {
                writeln!(out, "- {}", markdown(text))?;
            }
            Block::Entry(label, text) => {
                writeln!(out, "- **{}** {}", markdown(label.trim()), markdown(text))?;
            }
            Block::Line(line) => writeln!(out, "{}", markdown(line.trim()))?,
            Block::Table { sheet, .. } => sheet.markdown(out)?,
            Block::Drawn(lines) => writeln!(out, "```text\n{}\n```", lines.trim_matches('\n'))?,
            Block::Prose(part) => prose::markdown(out, part, before.is_none())?,
            Block::Gap | Block::Record(_) => {}
        }
        before = Some(block);
    }
    Ok(())
}

//! A page for a terminal.

use std::io::{self, Write};

use super::super::Look;
use super::{Block, Prose, prose};

pub(super) fn write(out: &mut impl Write, blocks: &[Block], look: Look) -> io::Result<()> {
    for (i, block) in blocks.iter().enumerate() {
        match block {
            Block::Line(line) => writeln!(out, "{line}")?,
            Block::Entry(label, text) => look.line(out, label, text)?,
            Block::Table { sheet, .. } => sheet.text(out)?,
            Block::Record(_) => {}
            Block::Drawn(lines) => writeln!(out, "{}", lines.trim_end_matches('\n'))?,
            Block::Gap => writeln!(out)?,
            Block::Prose(part) => {
                if i > 0 && is_apart(&blocks[i - 1], part, i == 1) {
                    writeln!(out)?;
                }
                prose::text(out, part)?;
            }
        }
    }
    Ok(())
}

/// Whether an empty line comes before a part; `second` is the part below a page's title.
fn is_apart(before: &Block, part: &Prose, second: bool) -> bool {
    match (before, part) {
        // There is no empty line below a heading.
        (Block::Prose(Prose::Heading(_)), _) => second,
        (Block::Prose(Prose::Formula { .. }), Prose::Lines(_)) => false,
        _ => true,
    }
}

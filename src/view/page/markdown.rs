//! A page as a Markdown document.

use std::borrow::Cow;
use std::io::{self, Write};

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
                writeln!(out, "- {}", plain(text))?;
            }
            Block::Entry(label, text) => writeln!(out, "- **{}** {}", label.trim(), plain(text))?,
            Block::Line(line) => writeln!(out, "{}", plain(line.trim()))?,
            Block::Table { sheet, .. } => sheet.markdown(out)?,
            Block::Drawn(lines) => writeln!(out, "```text\n{}\n```", lines.trim_matches('\n'))?,
            Block::Prose(part) => prose::markdown(out, part, before.is_none())?,
            Block::Gap | Block::Record(_) => {}
        }
        before = Some(block);
    }
    Ok(())
}

/// Names of files and budgets may look like tags of HTML.
fn plain(text: &str) -> Cow<'_, str> {
    let is_tag = |(at, _): (usize, &str)| {
        text[at + 1..]
            .starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '!' | '?'))
    };
    match text.match_indices('<').any(is_tag) {
        true => Cow::Owned(text.replace('<', "&lt;")),
        false => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_look_like_tags_are_no_tags() {
        assert_eq!(plain("gr|a<d>& holds"), "gr|a&lt;d>& holds");
        assert_eq!(plain("1 < 2 µs"), "1 < 2 µs");
    }
}

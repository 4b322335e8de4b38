//! Pages of headings, paragraphs, tables and formulas, as text, Markdown or LaTeX.

use std::io::{self, Write};

use crate::answer::explain::Block;

/// Columns of a terminal that a page is written for.
const WIDTH: usize = 80;

/// The least width of a column before its table is let run over.
const LEAST: usize = 14;

/// As text for a terminal of 80 columns.
///
/// # Errors
/// The writer's.
pub fn text(out: &mut impl Write, blocks: &[Block]) -> io::Result<()> {
    for (i, block) in blocks.iter().enumerate() {
        // A heading stands right above what it heads.
        let headed = i > 1 && matches!(blocks[i - 1], Block::Heading(_));
        let goes_on =
            i > 0 && matches!((&blocks[i - 1], block), (Block::Formula { .. }, Block::Lines(_)));
        if i > 0 && !headed && !goes_on {
            writeln!(out)?;
        }
        match block {
            Block::Heading(title) => writeln!(out, "{title}")?,
            Block::Text(text) => {
                for line in wrapped(text, WIDTH) {
                    writeln!(out, "{line}")?;
                }
            }
            Block::Table { header, rows } => table(out, header, rows)?,
            Block::Formula { text, .. } => {
                for line in broken(text, WIDTH - 2) {
                    writeln!(out, "  {line}")?;
                }
            }
            Block::Lines(lines) => {
                for line in lines.iter().flat_map(|l| broken(l, WIDTH - 2)) {
                    writeln!(out, "  {line}")?;
                }
            }
            Block::Command(line) => writeln!(out, "  {line}")?,
        }
    }
    Ok(())
}

/// Aligned columns; numbers stand right, and what is too wide wraps inside its column.
fn table(out: &mut impl Write, header: &[String], rows: &[Vec<String>]) -> io::Result<()> {
    let columns = header.len();
    let cell = |row: &[String], i: usize| row.get(i).map_or(0, |c| c.chars().count());
    let headed = header.iter().any(|h| !h.is_empty());
    let mut widths: Vec<usize> = (0..columns)
        .map(|i| rows.iter().map(|r| cell(r, i)).chain([cell(header, i)]).max().unwrap_or(0))
        .collect();
    // The widest column gives way until the table fits, as far as its longest word lets it.
    let word = |text: &String| wrapped(text, 1).iter().map(|w| w.chars().count()).max();
    let least: Vec<usize> = (0..columns)
        .map(|i| rows.iter().filter_map(|r| word(r.get(i)?)).max().unwrap_or(0).max(LEAST))
        .collect();
    while widths.iter().map(|w| w + 2).sum::<usize>() > WIDTH {
        let can = widths.iter_mut().zip(&least).filter(|(width, least)| **width > **least);
        match can.max_by_key(|(width, _)| **width) {
            Some((widest, _)) => *widest -= 1,
            None => break,
        }
    }
    let right: Vec<bool> = (0..columns).map(|i| i > 0 && numeric(rows, i)).collect();
    let header = headed.then_some(header);
    for row in header.into_iter().chain(rows.iter().map(Vec::as_slice)) {
        let cells = row.iter().zip(&widths).map(|(text, width)| wrapped(text, *width));
        let cells: Vec<Vec<String>> = cells.collect();
        for k in 0..cells.iter().map(Vec::len).max().unwrap_or(0) {
            let parts = cells.iter().enumerate().map(|(i, lines)| {
                padded(lines.get(k).map_or("", String::as_str), widths[i], right[i])
            });
            writeln!(out, "  {}", parts.collect::<Vec<_>>().join("  ").trim_end())?;
        }
    }
    Ok(())
}

/// Whether every filled cell of a column starts like a number.
fn numeric(rows: &[Vec<String>], column: usize) -> bool {
    let cells = || rows.iter().filter_map(|r| r.get(column)).filter(|c| !c.is_empty());
    let digit = |c: &String| {
        let plain = c.trim_start_matches(['x', '−', '-', ' ']);
        plain.starts_with(|c: char| c.is_ascii_digit()) && c.split(' ').count() <= 2
    };
    cells().any(digit) && cells().all(|c| digit(c) || matches!(c.as_str(), "–" | "least"))
}

fn padded(text: &str, width: usize, right: bool) -> String {
    let space = " ".repeat(width.saturating_sub(text.chars().count()));
    if right { space + text } else { text.to_owned() + &space }
}

/// What a line is not broken before.
const TOGETHER: &[&str] = &[" − ", " %", " µs", " ms", " MB", " GB", " MiB", " KiB", " = "];

/// Lines of at most `width` characters, broken at blanks; a longer word stands alone.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    const HARD: &str = "\u{a0}";
    let kept = TOGETHER.iter().fold(text.to_owned(), |text, part| {
        if text.contains(part) { text.replace(part, &part.replace(' ', HARD)) } else { text }
    });
    let lines = broken_at_blanks(&kept, width);
    lines.into_iter().map(|l| l.replace(HARD, " ")).collect()
}

fn broken_at_blanks(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split([' ', '\n']).filter(|w| !w.is_empty()) {
        let line = lines.last_mut().map_or(0, |l| l.chars().count());
        if line > 0 && line + 1 + word.chars().count() > width {
            lines.push(String::new());
        }
        if let Some(last) = lines.last_mut() {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    lines
}

/// A formula over several lines, broken before a sign of its sum.
fn broken(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut rest = text;
    while !rest.is_empty() {
        let next = [" + ", " = "].iter().filter_map(|s| rest[1..].find(s).map(|i| i + 1)).min();
        let (part, after) = rest.split_at(next.unwrap_or(rest.len()));
        let full = lines
            .last()
            .is_some_and(|l| !l.is_empty() && l.chars().count() + part.chars().count() > width);
        if full {
            lines.push("   ".to_owned());
        }
        if let Some(last) = lines.last_mut() {
            last.push_str(part);
        }
        rest = after;
    }
    lines
}

/// As Markdown.
///
/// # Errors
/// The writer's.
pub fn markdown(out: &mut impl Write, blocks: &[Block]) -> io::Result<()> {
    for (i, block) in blocks.iter().enumerate() {
        if i > 0 {
            writeln!(out)?;
        }
        match block {
            Block::Heading(title) if i == 0 => writeln!(out, "# {title}")?,
            Block::Heading(title) => writeln!(out, "## {title}")?,
            Block::Text(text) => writeln!(out, "{text}")?,
            Block::Table { header, rows } => {
                let line = |cells: &[String]| {
                    let cells: Vec<String> = cells.iter().map(|c| c.replace('|', "\\|")).collect();
                    format!("| {} |", cells.join(" | "))
                };
                writeln!(out, "{}", line(header))?;
                let rule = |i| if i > 0 && numeric(rows, i) { "---:" } else { "---" }.to_owned();
                writeln!(out, "{}", line(&(0..header.len()).map(rule).collect::<Vec<_>>()))?;
                for row in rows {
                    writeln!(out, "{}", line(row))?;
                }
            }
            Block::Formula { text, .. } => writeln!(out, "    {text}")?,
            Block::Lines(lines) => {
                for line in lines {
                    writeln!(out, "    {line}")?;
                }
            }
            Block::Command(line) => writeln!(out, "    {line}")?,
        }
    }
    Ok(())
}

/// As LaTeX, a part of a document; any engine takes it.
///
/// # Errors
/// The writer's.
pub fn latex(out: &mut impl Write, blocks: &[Block]) -> io::Result<()> {
    for (i, block) in blocks.iter().enumerate() {
        if i > 0 {
            writeln!(out)?;
        }
        match block {
            Block::Heading(title) if i == 0 => writeln!(out, "\\section{{{}}}", tex(title))?,
            Block::Heading(title) => writeln!(out, "\\subsection{{{}}}", tex(title))?,
            Block::Text(text) => writeln!(out, "{}", tex(text))?,
            Block::Table { header, rows } => {
                let align = |i| if i > 0 && numeric(rows, i) { 'r' } else { 'l' };
                let columns: String = (0..header.len()).map(align).collect();
                writeln!(out, "\\begin{{tabular}}{{{columns}}}")?;
                let line = |cells: &[String]| {
                    let cells: Vec<String> = cells.iter().map(|c| tex(c)).collect();
                    format!("{} \\\\", cells.join(" & "))
                };
                if header.iter().any(|h| !h.is_empty()) {
                    writeln!(out, "{} \\hline", line(header))?;
                }
                for row in rows {
                    writeln!(out, "{}", line(row))?;
                }
                writeln!(out, "\\end{{tabular}}")?;
            }
            Block::Formula { latex, .. } => writeln!(out, "\\[ {latex} \\]")?,
            Block::Lines(lines) => {
                writeln!(out, "\\begin{{quote}}")?;
                for line in lines {
                    writeln!(out, "{} \\\\", tex(line))?;
                }
                writeln!(out, "\\end{{quote}}")?;
            }
            Block::Command(line) => {
                writeln!(out, "\\begin{{quote}}\\texttt{{{}}}\\end{{quote}}", tex(line))?
            }
        }
    }
    Ok(())
}

/// Letters and signs that LaTeX does not take as they are.
const SIGNS: &[(char, &str)] = &[
    ('\\', "\\textbackslash{}"),
    ('&', "\\&"),
    ('%', "\\%"),
    ('$', "\\$"),
    ('#', "\\#"),
    ('_', "\\_"),
    ('{', "\\{"),
    ('}', "\\}"),
    ('~', "\\textasciitilde{}"),
    ('^', "\\textasciicircum{}"),
    ('<', "\\textless{}"),
    ('>', "\\textgreater{}"),
    ('|', "\\textbar{}"),
    ('"', "\\textquotedbl{}"),
    ('α', "$\\alpha$"),
    ('β', "$\\beta$"),
    ('γ', "$\\gamma$"),
    ('η', "$\\eta$"),
    ('Σ', "$\\Sigma$"),
    ('µ', "$\\mu$"),
    ('·', "$\\cdot$"),
    ('−', "$-$"),
    ('≤', "$\\le$"),
    ('√', "$\\surd$"),
    ('⌈', "$\\lceil$"),
    ('⌉', "$\\rceil$"),
    ('⌊', "$\\lfloor$"),
    ('⌋', "$\\rfloor$"),
    ('→', "$\\to$"),
    ('½', "$_{1/2}$"),
    ('₁', "$_1$"),
    ('₂', "$_2$"),
    ('–', "--"),
    ('…', "\\dots{}"),
    ('§', "\\S{}"),
    ('²', "$^2$"),
    ('◄', "$\\leftarrow$"),
    ('ö', "\\\"o"),
    ('ü', "\\\"u"),
    ('é', "\\'e"),
    ('ä', "\\\"a"),
];

fn tex(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match SIGNS.iter().find(|(sign, _)| *sign == c) {
            Some((_, written)) => out.push_str(written),
            None => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Vec<Block> {
        vec![
            Block::Heading("One & two".to_owned()),
            Block::Text("word ".repeat(30)),
            Block::table(&["name", "number"], [vec!["α", "1.5"], vec!["b", "10.25"]]),
            Block::Formula { text: "2·α".to_owned(), latex: "2 \\cdot \\alpha".to_owned() },
        ]
    }

    fn written(write: impl Fn(&mut Vec<u8>, &[Block]) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out, &page()).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn text_wraps_and_aligns() {
        let text = written(text);
        assert!(text.lines().all(|l| l.chars().count() <= WIDTH), "{text}");
        assert!(
            text.contains("  name  number\n  α        1.5\n  b      10.25\n\n  2·α\n"),
            "{text}"
        );
    }

    #[test]
    fn latex_is_escaped() {
        let text = written(latex);
        assert!(text.starts_with("\\section{One \\& two}\n"), "{text}");
        assert!(text.contains("$\\alpha$ & 1.5 \\\\") && text.contains("\\[ 2 \\cdot \\alpha \\]"));
        assert!(text.is_ascii(), "{text}");
    }

    #[test]
    fn markdown_has_tables() {
        let text = written(markdown);
        assert!(text.contains("| name | number |\n| --- | ---: |\n"), "{text}");
    }
}

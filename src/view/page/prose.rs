//! The parts of an explanation, headings, paragraphs, tables and formulas, in each notation.

use std::io::{self, Write};

use super::Prose;
use crate::view::sheet::markdown_cell;

/// The width of a page in columns of a terminal.
const WIDTH: usize = 80;

/// The least width of a column before its table may exceed the page.
const LEAST: usize = 14;

/// As text for a terminal of 80 columns.
pub(super) fn text(out: &mut impl Write, part: &Prose) -> io::Result<()> {
    match part {
        Prose::Heading(title) => writeln!(out, "{title}"),
        Prose::Text(text) => lines(out, "", wrapped(text, WIDTH)),
        Prose::Table { header, rows } => table(out, header, rows),
        Prose::Formula { text, .. } => lines(out, "  ", broken(text, WIDTH - 2)),
        Prose::Lines(all) => lines(out, "  ", all.iter().flat_map(|l| broken(l, WIDTH - 2))),
        Prose::Command(line) => writeln!(out, "  {line}"),
    }
}

fn lines(
    out: &mut impl Write,
    indent: &str,
    lines: impl IntoIterator<Item = String>,
) -> io::Result<()> {
    lines.into_iter().try_for_each(|line| writeln!(out, "{indent}{line}"))
}

/// Aligned columns; numbers are aligned right, and a text that is too wide wraps inside its column.
fn table(out: &mut impl Write, header: &[String], rows: &[Vec<String>]) -> io::Result<()> {
    let columns = header.len();
    let cell = |row: &[String], i: usize| row.get(i).map_or(0, |c| c.chars().count());
    let headed = header.iter().any(|h| !h.is_empty());
    let mut widths: Vec<usize> = (0..columns)
        .map(|i| rows.iter().map(|r| cell(r, i)).chain([cell(header, i)]).max().unwrap_or(0))
        .collect();
    // The widest column shrinks until the table fits, but not below its longest word.
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

/// Lines are not broken before these.
const TOGETHER: &[&str] = &[" − ", " %", " µs", " ms", " MB", " GB", " MiB", " KiB", " = "];

/// Lines of at most `width` characters, broken at blanks; a longer word gets its own line.
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

/// As Markdown; `first` of a page.
pub(super) fn markdown(out: &mut impl Write, part: &Prose, first: bool) -> io::Result<()> {
    match part {
        Prose::Heading(title) if first => writeln!(out, "# {title}"),
        Prose::Heading(title) => writeln!(out, "## {title}"),
        Prose::Text(text) => writeln!(out, "{text}"),
        Prose::Table { header, rows } => {
            let line = |cells: &[String]| {
                let cells: Vec<String> = cells.iter().map(|c| markdown_cell(c)).collect();
                format!("| {} |", cells.join(" | "))
            };
            writeln!(out, "{}", line(header))?;
            let rule = |i| if i > 0 && numeric(rows, i) { "---:" } else { "---" }.to_owned();
            writeln!(out, "{}", line(&(0..header.len()).map(rule).collect::<Vec<_>>()))?;
            rows.iter().try_for_each(|row| writeln!(out, "{}", line(row)))
        }
        Prose::Formula { text, .. } => writeln!(out, "    {text}"),
        Prose::Lines(all) => lines(out, "    ", all.iter().cloned()),
        Prose::Command(line) => writeln!(out, "    {line}"),
    }
}

/// As LaTeX; `first` of a page.
pub(super) fn latex(out: &mut impl Write, part: &Prose, first: bool) -> io::Result<()> {
    match part {
        Prose::Heading(title) if first => writeln!(out, "\\section{{{}}}", tex(title)),
        Prose::Heading(title) => writeln!(out, "\\subsection{{{}}}", tex(title)),
        Prose::Text(text) => writeln!(out, "{}", tex(text)),
        Prose::Table { header, rows } => {
            let align = |i| if i > 0 && numeric(rows, i) { 'r' } else { 'l' };
            let columns: String = (0..header.len()).map(align).collect();
            tabular(out, &columns, header, rows)
        }
        Prose::Formula { latex, .. } => writeln!(out, "\\[ {latex} \\]"),
        Prose::Lines(all) => {
            writeln!(out, "\\begin{{quote}}")?;
            lines(out, "", all.iter().map(|line| format!("{} \\\\", tex(line))))?;
            writeln!(out, "\\end{{quote}}")
        }
        Prose::Command(line) => {
            writeln!(out, "\\begin{{quote}}\\texttt{{{}}}\\end{{quote}}", tex(line))
        }
    }
}

/// A table as LaTeX, with one letter of `align` per column.
pub(super) fn tabular(
    out: &mut impl Write,
    align: &str,
    header: &[String],
    rows: &[Vec<String>],
) -> io::Result<()> {
    writeln!(out, "\\begin{{tabular}}{{{align}}}")?;
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|c| tex(c)).collect();
        format!("{} \\\\", cells.join(" & "))
    };
    if header.iter().any(|h| !h.is_empty()) {
        writeln!(out, "{} \\hline", line(header))?;
    }
    lines(out, "", rows.iter().map(|row| line(row)))?;
    writeln!(out, "\\end{{tabular}}")
}

/// Escapes letters and signs that LaTeX does not accept unchanged.
const SIGNS: &[(char, &str)] = &[
    ('\\', "\\textbackslash{}"),
    ('&', "\\&"),
    ('%', "\\%"),
    ('$', "\\$"),
    ('#', "\\#"),
    ('_', "\\_"),
    // Behind the end of a line these would be its options, and `]` the end of a label.
    ('[', "{[}"),
    (']', "{]}"),
    ('*', "{*}"),
    ('{', "\\{"),
    ('}', "\\}"),
    ('~', "\\textasciitilde{}"),
    ('^', "\\textasciicircum{}"),
    ('<', "\\textless{}"),
    ('>', "\\textgreater{}"),
    ('|', "\\textbar{}"),
    ('"', "\\textquotedbl{}"),
    ('×', "$\\times$"),
    ('α', "$\\alpha$"),
    ('β', "$\\beta$"),
    ('γ', "$\\gamma$"),
    ('δ', "$\\delta$"),
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
    ('ᵢ', "$_i$"),
    ('₊', "$_+$"),
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

pub(super) fn tex(text: &str) -> String {
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
    use super::super::Page;
    use super::*;
    use crate::base::format::Format;
    use crate::view::Look;

    fn written(format: Format) -> String {
        let page = Page::from(vec![
            Prose::Heading("One & two".to_owned()),
            Prose::Text("word ".repeat(30)),
            Prose::table(&["name", "number"], [vec!["α", "1.5"], vec!["b", "10.25"]]),
            Prose::Formula { text: "2·α".to_owned(), latex: "2 \\cdot \\alpha".to_owned() },
        ]);
        let mut out = Vec::new();
        page.write(&mut out, format, Look::default()).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn text_wraps_and_aligns() {
        let text = written(Format::Text);
        assert!(text.lines().all(|l| l.chars().count() <= WIDTH), "{text}");
        let table = "  name  number\n  α        1.5\n  b      10.25\n\n  2·α\n";
        assert!(text.contains(table), "{text}");
    }

    #[test]
    fn latex_is_escaped() {
        let text = written(Format::Latex);
        assert!(text.starts_with("\\section{One \\& two}\n"), "{text}");
        assert!(text.contains("$\\alpha$ & 1.5 \\\\") && text.contains("\\[ 2 \\cdot \\alpha \\]"));
        assert!(text.is_ascii() && tex("αβγδη").is_ascii(), "{text}");
    }

    #[test]
    fn markdown_and_csv_have_tables() {
        let text = written(Format::Markdown);
        assert!(text.contains("| name | number |\n| --- | ---: |\n"), "{text}");
        assert_eq!(written(Format::Csv), "name,number\nα,1.5\nb,10.25\n");
    }
}

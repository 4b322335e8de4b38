//! A picture in characters, readable in 80 columns and without colour.
//!
//! ```text
//!   1 ms ┤                         bb
//!        │                     bbb··
//! 100 µs ┤aaaaaaaaaaaaaaaa×·a·a
//!        └┬──────────────┬──────────
//!         1 KiB          1 MiB
//! ```
//!
//! Every series has its own sign, so colour adds no information.

use std::io::{self, Write};

use owo_colors::{AnsiColors, OwoColorize};

use super::{Hue, Mark, Picture, Scale};
use crate::view::Look;

/// The default number of columns.
const WIDTH: usize = 80;
/// Lines between log or linear axes.
const LINES: usize = 20;
/// Columns from one sign of a line to the next.
const EVERY: usize = 4;

/// Colours in the order of [`Hue::Of`].
const COLOURS: [AnsiColors; 6] = [
    AnsiColors::Blue,
    AnsiColors::Yellow,
    AnsiColors::Green,
    AnsiColors::Magenta,
    AnsiColors::Cyan,
    AnsiColors::Red,
];

/// The character of a cell, and its colour.
#[derive(Clone, Copy)]
struct Cell {
    sign: char,
    colour: Option<AnsiColors>,
    strong: bool,
}

const EMPTY: Cell = Cell { sign: ' ', colour: None, strong: false };

/// The cells between the axes.
struct Canvas<'a> {
    picture: &'a Picture,
    columns: usize,
    lines: usize,
    cells: Vec<Cell>,
}

/// Writes the picture.
///
/// # Errors
/// The writer's.
pub fn terminal(out: &mut impl Write, picture: &Picture, look: Look) -> io::Result<()> {
    let width = look.width.unwrap_or(WIDTH).clamp(40, 200);
    let names: Vec<String> = match &picture.y.scale {
        Scale::Rows(names) => names.clone(),
        _ => picture.y.ticks(LINES / 3).into_iter().map(|t| t.label).collect(),
    };
    let longest = names.iter().map(|n| n.chars().count()).max().unwrap_or(0);
    let margin = longest.min(width / 2 - 4);
    // Texts come after bars.
    let texts = picture.marks.iter().filter_map(|m| match m {
        Mark::Text { label, .. } => Some(label.chars().count() + 1),
        _ => None,
    });
    let behind = texts.max().unwrap_or(0);
    let tall = rows_of_one(picture);
    let lines = match &picture.y.scale {
        Scale::Rows(names) => names.len() * tall,
        _ => LINES,
    };
    let columns = width.saturating_sub(margin + 3 + behind).max(16);
    let cells = vec![EMPTY; columns * lines];
    let mut canvas = Canvas { picture, columns, lines, cells };
    picture.marks.iter().for_each(|mark| canvas.draw(mark));
    writeln!(out, "{}", look.strong(&picture.title))?;
    look.line(out, "", &picture.subtitle)?;
    writeln!(out)?;
    if !picture.y.label.is_empty() {
        writeln!(
            out,
            "{:>margin$}",
            clipped(&picture.y.label, margin.max(picture.y.label.chars().count()))
        )?;
    }
    canvas.write(out, margin, look)?;
    canvas.ticks(out, margin)?;
    legend(out, picture, look)?;
    for (label, text) in canvas.crossings() {
        look.line(out, &label, &text)?;
    }
    picture.notes.iter().try_for_each(|note| look.line(out, "note      ", note))
}

/// The number of lines of a row: its highest stack of blocks.
fn rows_of_one(picture: &Picture) -> usize {
    let halves = picture.marks.iter().any(|m| match m {
        Mark::Block { y, .. } => y.0.fract() > 0.3,
        _ => false,
    });
    if halves { 2 } else { 1 }
}

impl Canvas<'_> {
    fn column(&self, x: f64) -> f64 {
        self.picture.x.place(x) * (self.columns - 1) as f64
    }

    fn line(&self, y: f64) -> f64 {
        let part = self.picture.y.place(y);
        match self.picture.y.scale {
            Scale::Rows(_) => part * self.lines as f64,
            _ => (1.0 - part) * (self.lines - 1) as f64,
        }
    }

    fn set(&mut self, column: f64, line: f64, cell: Cell) {
        let (column, line) = (column.round(), line.round());
        let inside = (0.0..self.columns as f64).contains(&column)
            && (0.0..self.lines as f64).contains(&line);
        if inside {
            self.cells[line as usize * self.columns + column as usize] = cell;
        }
    }

    fn cell(&self, series: usize, sign: char) -> Cell {
        let colour = match self.picture.series[series].hue {
            Hue::Of(i) => Some(COLOURS[i % COLOURS.len()]),
            Hue::Quiet | Hue::Heat(0) => None,
            Hue::Heat(1) => Some(AnsiColors::Yellow),
            Hue::Heat(_) => Some(AnsiColors::Red),
        };
        Cell { sign, colour, strong: false }
    }

    fn draw(&mut self, mark: &Mark) {
        match mark {
            Mark::Line { series, points } => self.polyline(*series, points),
            Mark::Band { series, points } => {
                let low: Vec<(f64, f64)> = points.iter().map(|&(x, low, _)| (x, low)).collect();
                let high: Vec<(f64, f64)> = points.iter().map(|&(x, _, high)| (x, high)).collect();
                self.fill(*series, &low, &high);
            }
            Mark::Dot { series, x, y, .. } => {
                let cell = self.cell(*series, self.picture.series[*series].sign);
                self.set(self.column(*x), self.line(*y), cell);
            }
            Mark::Block { series, x, y, label, apart, strong, .. } => {
                self.block(*series, *x, *y, (label, *apart, *strong));
            }
            Mark::Crossing { x, y, .. } => {
                let cell = Cell { sign: '×', colour: None, strong: true };
                self.set(self.column(*x), self.line(*y), cell);
            }
            Mark::Rule { x, .. } => {
                let column = self.column(*x);
                for line in 0..self.lines {
                    self.set(column, line as f64, Cell { sign: '│', ..EMPTY });
                }
            }
            Mark::Text { .. } => {}
        }
    }

    /// The height of a line through `points` at a column, where it passes there.
    fn at(&self, points: &[(f64, f64)], column: usize) -> Option<f64> {
        let places = |i: usize| (self.column(points[i].0), self.line(points[i].1));
        let column = column as f64;
        (1..points.len()).find_map(|i| {
            let ((x0, y0), (x1, y1)) = (places(i - 1), places(i));
            let inside = x0.round() <= column && column <= x1.round() && x0 < x1;
            inside.then(|| y0 + (y1 - y0) * ((column - x0) / (x1 - x0)).clamp(0.0, 1.0))
        })
    }

    fn polyline(&mut self, series: usize, points: &[(f64, f64)]) {
        let sign = self.picture.series[series].sign;
        let mut before: Option<f64> = None;
        for column in 0..self.columns {
            let Some(line) = self.at(points, column) else { continue };
            // A letter at intervals; where the line is steep, every cell is filled.
            let named = column % EVERY == series % EVERY || before.is_none();
            let cell = self.cell(series, if named { sign } else { '·' });
            self.set(column as f64, line, cell);
            if let Some(before) = before {
                let (a, b) = (before.round() as i64, line.round() as i64);
                for between in a.min(b) + 1..a.max(b) {
                    self.set(column as f64, between as f64, self.cell(series, '·'));
                }
            }
            before = Some(line);
        }
    }

    fn fill(&mut self, series: usize, low: &[(f64, f64)], high: &[(f64, f64)]) {
        for column in 0..self.columns {
            let (Some(low), Some(high)) = (self.at(low, column), self.at(high, column)) else {
                continue;
            };
            let (top, bottom) = (low.min(high).round() as i64, low.max(high).round() as i64);
            for line in top..=bottom {
                self.set(column as f64, line as f64, self.cell(series, '░'));
            }
        }
    }

    fn block(&mut self, series: usize, x: (f64, f64), y: (f64, f64), how: (&str, bool, bool)) {
        let (label, apart, strong) = how;
        let sign = self.picture.series[series].sign;
        // Columns have a fixed width: a block has those whose middle it covers, or one.
        let edge = |x: f64| self.picture.x.place(x) * self.columns as f64;
        let (from, to) = (edge(x.0).round(), edge(x.1).round());
        let width = (to - from).max(1.0) as usize;
        let (top, bottom) =
            (self.line(y.0).round(), self.line(y.1).round().max(self.line(y.0).round() + 1.0));
        let filled = if apart && width > 2 { width - 1 } else { width };
        // Critical blocks are filled.
        let sign = if strong { '█' } else { sign };
        // A blank separates the name from the filling.
        let space = (!label.is_empty()).then_some(' ');
        let letters: Vec<char> = label.chars().chain(space).collect();
        let shown = if letters.len() < filled { letters.as_slice() } else { &[] };
        for line in top as usize..bottom as usize {
            for i in 0..filled {
                let sign = match shown.get(i) {
                    Some(letter) if line == top as usize => *letter,
                    _ => sign,
                };
                let cell = Cell { strong, ..self.cell(series, sign) };
                self.set(from + i as f64, line as f64, cell);
            }
        }
    }

    fn write(&self, out: &mut impl Write, margin: usize, look: Look) -> io::Result<()> {
        let rows = matches!(self.picture.y.scale, Scale::Rows(_));
        let tall = if rows { rows_of_one(self.picture) } else { 1 };
        let ticks = self.picture.y.ticks(LINES / 3);
        for line in 0..self.lines {
            let named = ticks.iter().enumerate().find(|(i, tick)| match rows {
                true => line == i * tall,
                false => self.line(tick.value).round() as usize == line,
            });
            let name = named.map_or("", |(_, tick)| &tick.label);
            let post = if named.is_some() { '┤' } else { '│' };
            write!(out, "{:>margin$} {post}", clipped(name, margin))?;
            let cells = &self.cells[line * self.columns..(line + 1) * self.columns];
            let behind = self.behind(line, tall);
            let used = cells.iter().rposition(|c| c.sign != ' ').map_or(0, |last| last + 1);
            for run in cells[..used].chunk_by(|a, b| a.colour == b.colour && a.strong == b.strong) {
                let text: String = run.iter().map(|c| c.sign).collect();
                match run[0].colour {
                    Some(colour) if look.color && run[0].strong => {
                        write!(out, "{}", text.color(colour).bold())?;
                    }
                    Some(colour) if look.color => write!(out, "{}", text.color(colour))?,
                    _ => write!(out, "{text}")?,
                }
            }
            match behind {
                Some(text) => writeln!(out, " {text}")?,
                None => writeln!(out)?,
            }
        }
        Ok(())
    }

    /// The text after a line's last mark.
    fn behind(&self, line: usize, tall: usize) -> Option<&str> {
        self.picture.marks.iter().find_map(|m| match m {
            Mark::Text { y, label, .. } if y.floor() as usize * tall == line => {
                Some(label.as_str())
            }
            _ => None,
        })
    }

    /// The axis below, with as many names as fit.
    fn ticks(&self, out: &mut impl Write, margin: usize) -> io::Result<()> {
        let mut rule = vec!['─'; self.columns];
        let mut names = vec![' '; self.columns];
        let mut free = 0;
        for tick in self.picture.x.ticks((self.columns / 12).max(2)) {
            let column = self.column(tick.value).round().max(0.0) as usize;
            let length = tick.label.chars().count();
            // The last name ends with the axis.
            let start = column.min(self.columns.saturating_sub(length));
            if column >= self.columns || start < free {
                continue;
            }
            rule[column] = '┬';
            names.splice(start..start + length, tick.label.chars());
            free = start + length + 1;
        }
        let rule: String = rule.into_iter().collect();
        let names: String = names.into_iter().collect();
        writeln!(out, "{:margin$} └{rule}", "")?;
        writeln!(out, "{:margin$}  {}", "", names.trim_end())?;
        writeln!(out, "{:margin$}  {}", "", self.picture.x.label)
    }

    /// The meaning of crossings and rules.
    fn crossings(&self) -> Vec<(String, String)> {
        let named = |m: &Mark| match m {
            Mark::Crossing { label, .. } => Some(("×         ".to_owned(), label.clone())),
            Mark::Rule { label, .. } => Some(("│         ".to_owned(), label.clone())),
            _ => None,
        };
        self.picture.marks.iter().filter_map(named).collect()
    }
}

/// The sign and name of every series, as many per line as fit.
fn legend(out: &mut impl Write, picture: &Picture, look: Look) -> io::Result<()> {
    let width = look.width.unwrap_or(WIDTH).clamp(40, 200);
    let mut used = 0;
    writeln!(out)?;
    for series in &picture.series {
        let text = format!("{} {}", series.sign, series.name);
        let length = text.chars().count();
        if used > 0 && used + 3 + length > width {
            writeln!(out)?;
            used = 0;
        }
        if used > 0 {
            write!(out, "   ")?;
            used += 3;
        }
        match series.hue {
            Hue::Of(i) if look.color => {
                write!(out, "{} {}", series.sign.color(COLOURS[i % COLOURS.len()]), series.name)?;
            }
            _ => write!(out, "{text}")?,
        }
        used += length;
    }
    if used > 0 { writeln!(out) } else { Ok(()) }
}

/// The first letters of a text; the last one shows that there are more.
fn clipped(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

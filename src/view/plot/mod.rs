//! Pictures of reports: one type, two ways to draw it.
//!
//! ```text
//! report ── curves, bars, regions … ──► Picture ──► svg
//!                                               └─► terminal
//! ```
//!
//! A [`Picture`] is two axes and marks in the axes' own units: bytes, seconds, ranks. Code that
//! makes a picture knows no pixels, and code that draws one knows no collectives. Each kind has its
//! own file.

mod bars;
mod curves;
mod measured;
mod network;
mod regions;
mod residuals;
mod scale;
mod space_time;
mod step;
mod svg;
mod terminal;
mod timeline;

pub use bars::bars;
pub use curves::{algorithms, sweep};
pub use measured::{measured, measured_curves};
pub use network::network;
pub use regions::{policy, winners};
pub use residuals::residuals;
pub use space_time::space_time;
pub use step::{of_plan, step};
pub use svg::svg;
pub use terminal::terminal;
pub use timeline::timeline;

/// Marks between two axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Picture {
    /// What it shows.
    pub title: String,
    /// The question and the machine.
    pub subtitle: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis, upwards; rows go down.
    pub y: Axis,
    /// The series of the marks, each with its name and colour.
    pub series: Vec<Series>,
    /// The marks, later ones above earlier ones.
    pub marks: Vec<Mark>,
    /// Notes below the picture.
    pub notes: Vec<String>,
}

/// An axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// The quantity.
    pub label: String,
    /// Its unit.
    pub unit: Unit,
    /// How values become positions.
    pub scale: Scale,
    /// The value at its start.
    pub from: f64,
    /// The value at its end.
    pub to: f64,
}

/// The unit of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
    /// Bytes per second.
    Rate,
    /// Whole numbers: ranks, steps.
    Count,
    /// A fraction of 1, shown in percent.
    Share,
    /// A plain number.
    Number,
}

/// How values become positions.
#[derive(Debug, Clone, PartialEq)]
pub enum Scale {
    /// Equal factors have equal distances.
    Log,
    /// Equal differences have equal distances.
    Linear,
    /// Named rows, the first at the top; row i reaches from i to i + 1.
    Rows(Vec<String>),
}

/// A series of marks.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Its character in a terminal.
    pub sign: char,
    /// Its colour.
    pub hue: Hue,
}

/// A colour that colour-blind readers can distinguish too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hue {
    /// One of eight, repeated with other dashes.
    Of(usize),
    /// For marks that do not compete: a bound, an idle time.
    Quiet,
    /// One of four steps from unremarkable to bad.
    Heat(usize),
}

/// Something that is drawn.
#[derive(Debug, Clone, PartialEq)]
pub enum Mark {
    /// A line through points.
    Line {
        /// Whose.
        series: usize,
        /// x and y, in the order of x.
        points: Vec<(f64, f64)>,
    },
    /// The area between two lines.
    Band {
        /// Whose.
        series: usize,
        /// x, the lower y and the upper y, in the order of x.
        points: Vec<(f64, f64, f64)>,
    },
    /// A measured point.
    Dot {
        /// Whose.
        series: usize,
        /// Where.
        x: f64,
        /// How high.
        y: f64,
        /// What it is, in words.
        title: String,
    },
    /// A point where something changes.
    Crossing {
        /// Where.
        x: f64,
        /// How high.
        y: f64,
        /// Its label.
        label: String,
    },
    /// A box, such as a message or a region.
    Block {
        /// Whose.
        series: usize,
        /// Its left and right end.
        x: (f64, f64),
        /// Its first and last value of y; in rows from the top down.
        y: (f64, f64),
        /// The label in it, if there is room.
        label: String,
        /// What it is, in words.
        title: String,
        /// Whether it is one of many that must be distinguished.
        apart: bool,
        /// Whether it is critical.
        strong: bool,
    },
    /// Text to the right of a position.
    Text {
        /// Where.
        x: f64,
        /// How high.
        y: f64,
        /// The text.
        label: String,
    },
    /// A vertical line at one x.
    Rule {
        /// Where.
        x: f64,
        /// Its label.
        label: String,
    },
}

impl Axis {
    /// An axis from the least to the greatest of `values`; equal factors have equal distances.
    pub(crate) fn log(label: &str, unit: Unit, values: impl Iterator<Item = f64>) -> Self {
        let (from, to) = span(values.filter(|v| *v > 0.0));
        // One value alone has room to both sides.
        let (from, to) = if from < to { (from, to) } else { (from / 2.0, to * 2.0) };
        Self { label: label.to_owned(), unit, scale: Scale::Log, from, to }
    }

    /// The same from 0 or below, on which equal differences have equal distances.
    pub(crate) fn linear(label: &str, unit: Unit, values: impl Iterator<Item = f64>) -> Self {
        let (from, to) = span(values.chain([0.0]));
        let (from, to) = if from < to { (from, to) } else { (0.0, 1.0) };
        Self { label: label.to_owned(), unit, scale: Scale::Linear, from, to }
    }

    /// Named rows.
    pub(crate) fn rows(label: &str, names: Vec<String>) -> Self {
        let to = names.len() as f64;
        Self {
            label: label.to_owned(),
            unit: Unit::Count,
            scale: Scale::Rows(names),
            from: 0.0,
            to,
        }
    }

    /// The same with room beyond both ends, given as fractions of the axis' length.
    pub(crate) fn wider(mut self, low: f64, high: f64) -> Self {
        let [from, to] = [-low, 1.0 + high].map(|part| self.value(part));
        (self.from, self.to) = (from, to);
        self
    }
}

fn span(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let finite = values.filter(|v| v.is_finite());
    let (from, to) =
        finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
    if from <= to { (from, to) } else { (1.0, 2.0) }
}

impl Series {
    /// The series with the number `i`, signed with the letter of that number.
    pub(crate) fn lettered(i: usize, name: impl Into<String>) -> Self {
        Self { name: name.into(), sign: letter(i), hue: Hue::Of(i) }
    }

    /// A line that does not compete.
    pub(crate) fn quiet(name: &str, sign: char) -> Self {
        Self { name: name.to_owned(), sign, hue: Hue::Quiet }
    }
}

/// a to z, then A to Z, and again.
fn letter(i: usize) -> char {
    let letters = ('a'..='z').chain('A'..='Z');
    letters.cycle().nth(i).unwrap_or('a')
}

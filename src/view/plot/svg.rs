//! A picture as SVG: one file, no script, no font, light or dark as the reader's system is.
//!
//! Elements and attributes are few and fixed, so they are written as text; text from the user is
//! escaped. The colours are those of Okabe and Ito, chosen so that colour-blind readers can
//! distinguish them (jfly.uni-koeln.de/color), darker on white and lighter on black where contrast
//! needs it. Lines also differ in their dashes.

use crate::base::order::rising;
use std::fmt::Write as _;

use quick_xml::escape::escape;

use super::{Hue, Mark, Picture, Scale};

/// The width of every picture; it scales with the page.
pub(super) const WIDTH: f64 = 860.0;
/// The height of the area between log or linear axes.
const TALL: f64 = 400.0;
/// The height of a row.
const ROW: f64 = 26.0;
/// The size of letters, and how wide one is on average.
const LETTER: f64 = 12.0;
const WIDE: f64 = 6.4;

const LIGHT: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#b0569b", "#c98500", "#3a94cf", "#6b5b00", "#4d4d4d"];
const DARK: [&str; 8] =
    ["#56b4e9", "#ff8a3d", "#2fc79b", "#e39ccb", "#f0b429", "#8fd0ff", "#f0e442", "#c9c9c9"];
const HEAT_LIGHT: [&str; 4] = ["#e8eef2", "#f3d9a4", "#e69f00", "#c23b00"];
const HEAT_DARK: [&str; 4] = ["#263038", "#5c4a1e", "#b57d00", "#ff7a45"];
/// Dashes of the second and third eight.
const DASHES: [&str; 3] = ["none", "7 3", "2 3"];

/// The positions of the axes, in units of the picture.
struct Plane<'a> {
    picture: &'a Picture,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Plane<'_> {
    fn x(&self, value: f64) -> f64 {
        self.left + self.picture.x.place(value) * (self.right - self.left)
    }

    fn y(&self, value: f64) -> f64 {
        let part = self.picture.y.place(value);
        match self.picture.y.scale {
            Scale::Rows(_) => self.top + part * (self.bottom - self.top),
            _ => self.bottom - part * (self.bottom - self.top),
        }
    }
}

/// The picture as a document.
#[must_use]
pub fn svg(picture: &Picture) -> String {
    let lines = picture.marks.iter().filter_map(|m| match m {
        Mark::Line { series, .. } => Some(picture.series[*series].name.chars().count()),
        _ => None,
    });
    let labels = lines.max().map_or(24.0, |longest| 22.0 + WIDE * longest as f64);
    // Texts beside the end of the axis have their room there.
    let texts = picture.marks.iter().filter_map(|m| match m {
        Mark::Text { x, label, .. } if *x >= picture.x.to => Some(label.chars().count()),
        Mark::Text { .. } => Some(0),
        _ => None,
    });
    let texts = texts.max().map_or(24.0, |longest| (14.0 + WIDE * longest as f64).max(70.0));
    let names = picture.y.ticks(9);
    let longest = names.iter().map(|t| t.label.chars().count()).max().unwrap_or(0);
    let top = 78.0 + legend_height(picture);
    let tall = match &picture.y.scale {
        Scale::Rows(names) => ROW * names.len() as f64,
        _ => TALL,
    };
    let plane = Plane {
        picture,
        left: (26.0 + WIDE * longest as f64).max(60.0),
        right: WIDTH - labels.max(texts),
        top,
        bottom: top + tall,
    };
    let height = plane.bottom + 56.0 + 17.0 * picture.notes.len() as f64;
    let mut out = String::with_capacity(1 << 14);
    head(&mut out, (&picture.title, &picture.subtitle), height);
    legend(&mut out, picture);
    axes(&mut out, &plane);
    for mark in &picture.marks {
        draw(&mut out, &plane, mark);
    }
    crossings(&mut out, &plane);
    line_labels(&mut out, &plane);
    for (i, note) in picture.notes.iter().enumerate() {
        let y = plane.bottom + 60.0 + 17.0 * i as f64;
        text(&mut out, (14.0, y), "soft", note);
    }
    out.push_str("</svg>\n");
    out
}

/// The head of a document with its title and description.
pub(super) fn head(out: &mut String, (title, about): (&str, &str), height: f64) {
    put(
        out,
        format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         role=\"img\" aria-labelledby=\"t d\">\n"
        ),
    );
    let escapes = (escaped(title), escaped(about));
    put(
        out,
        format_args!(
            "<title id=\"t\">{}</title>\n<desc id=\"d\">{}</desc>\n",
            escapes.0, escapes.1
        ),
    );
    out.push_str("<style>\n");
    out.push_str(
        "text{font:12px system-ui,-apple-system,\"Segoe UI\",\"DejaVu Sans\",sans-serif;fill:#1a1a1a}\n\
         .title{font-size:16px;font-weight:600}.soft{fill:#5a5a5a}.right{text-anchor:end}\
         .middle{text-anchor:middle}.paper{fill:#fff}.grid{stroke:#e2e2e2}.axis{stroke:#8a8a8a}\
         .line{fill:none;stroke-width:2.2;stroke-linejoin:round}.band{fill-opacity:.18;stroke:none}\
         .block{fill-opacity:.42}.apart{stroke-width:.8}.strong{stroke-width:2.6;fill-opacity:.8}\
         .drop{stroke:#8a8a8a;stroke-dasharray:2 3}.ring{fill:#fff;stroke:#1a1a1a;stroke-width:1.6}\
         .sq{stroke:#5a5a5a}.fq{fill:#9a9a9a}.lead{stroke:#8a8a8a;stroke-width:.7}\
         .over{paint-order:stroke;stroke:#fff;stroke-width:4px}\n",
    );
    palette(out, &LIGHT, &HEAT_LIGHT);
    out.push_str("@media (prefers-color-scheme:dark){\n");
    out.push_str(
        "text{fill:#ececec}.soft{fill:#adadad}.paper{fill:#14171a}.grid{stroke:#30353a}\
         .axis,.drop,.lead{stroke:#7d858c}.ring{fill:#14171a;stroke:#ececec}\
         .sq{stroke:#adadad}.fq{fill:#7d858c}.over{stroke:#14171a}\n",
    );
    palette(out, &DARK, &HEAT_DARK);
    out.push_str("}\n</style>\n");
    put(out, format_args!("<rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>\n"));
    text(out, (14.0, 26.0), "title", title);
    text(out, (14.0, 45.0), "soft", about);
}

fn palette(out: &mut String, hues: &[&str], heat: &[&str]) {
    for (i, hue) in hues.iter().enumerate() {
        put(out, format_args!(".s{i}{{stroke:{hue}}}.f{i}{{fill:{hue}}}"));
    }
    for (i, hue) in heat.iter().enumerate() {
        put(out, format_args!(".fh{i}{{fill:{hue};fill-opacity:1}}.sh{i}{{stroke:{hue}}}"));
    }
    out.push('\n');
}

/// The class of a hue, `s` for its line and `f` for its filling.
fn class(kind: char, hue: Hue) -> String {
    match hue {
        Hue::Of(i) => format!("{kind}{}", i % LIGHT.len()),
        Hue::Quiet => format!("{kind}q"),
        Hue::Heat(i) => format!("{kind}h{}", i.min(HEAT_LIGHT.len() - 1)),
    }
}

fn dash(hue: Hue) -> &'static str {
    match hue {
        Hue::Of(i) => DASHES[(i / LIGHT.len()).min(DASHES.len() - 1)],
        Hue::Quiet => "4 4",
        Hue::Heat(_) => "none",
    }
}

/// The series that no line labels at its end.
fn in_legend(picture: &Picture) -> Vec<usize> {
    let named = |i: usize| {
        picture.marks.iter().any(|m| matches!(m, Mark::Line { series, .. } if *series == i))
    };
    let used = |i: usize| {
        picture.marks.iter().any(|m| match m {
            Mark::Block { series, .. } | Mark::Band { series, .. } | Mark::Dot { series, .. } => {
                *series == i
            }
            _ => false,
        })
    };
    (0..picture.series.len()).filter(|&i| used(i) && !named(i)).collect()
}

/// The position of each name of the legend; the names are broken into lines.
fn legend_places(picture: &Picture) -> Vec<(usize, f64, f64)> {
    let (mut x, mut y) = (14.0, 66.0);
    let mut places = Vec::new();
    for i in in_legend(picture) {
        let room = 34.0 + WIDE * picture.series[i].name.chars().count() as f64;
        if x + room > WIDTH - 14.0 && x > 14.0 {
            (x, y) = (14.0, y + 18.0);
        }
        places.push((i, x, y));
        x += room;
    }
    places
}

fn legend_height(picture: &Picture) -> f64 {
    legend_places(picture).last().map_or(0.0, |(.., y)| y - 66.0 + 14.0)
}

fn legend(out: &mut String, picture: &Picture) {
    for (i, x, y) in legend_places(picture) {
        let series = &picture.series[i];
        let fill = class('f', series.hue);
        put(
            out,
            format_args!(
                "<rect class=\"block {fill} {}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"12\" height=\"12\"/>\n",
                class('s', series.hue),
                y - 10.0
            ),
        );
        text(out, (x + 18.0, y), "", &series.name);
    }
}

fn axes(out: &mut String, plane: &Plane<'_>) {
    let Plane { picture, left, right, top, bottom } = *plane;
    for tick in picture.x.ticks(8) {
        let x = plane.x(tick.value);
        put(
            out,
            format_args!(
                "<line class=\"grid\" x1=\"{x:.2}\" x2=\"{x:.2}\" y1=\"{top:.2}\" y2=\"{bottom:.2}\"/>\n"
            ),
        );
        put(
            out,
            format_args!(
                "<text class=\"soft middle xtick\" x=\"{x:.2}\" y=\"{:.2}\">{}</text>\n",
                bottom + 18.0,
                escaped(&tick.label)
            ),
        );
    }
    let rows = matches!(picture.y.scale, Scale::Rows(_));
    for tick in picture.y.ticks(9) {
        let y = plane.y(tick.value);
        if !rows {
            put(
                out,
                format_args!(
                    "<line class=\"grid\" x1=\"{left:.2}\" x2=\"{right:.2}\" y1=\"{y:.2}\" y2=\"{y:.2}\"/>\n"
                ),
            );
        }
        put(
            out,
            format_args!(
                "<text class=\"{} right ytick\" x=\"{:.2}\" y=\"{y:.2}\" dy=\"4\">{}</text>\n",
                if rows { "" } else { "soft" },
                left - 8.0,
                escaped(&tick.label)
            ),
        );
    }
    put(
        out,
        format_args!(
            "<path class=\"axis\" fill=\"none\" d=\"M{left:.2} {top:.2}V{bottom:.2}H{right:.2}\"/>\n"
        ),
    );
    text(out, (left, bottom + 38.0), "soft", &picture.x.label);
    text(out, (14.0, top - 10.0), "soft", &picture.y.label);
}

fn draw(out: &mut String, plane: &Plane<'_>, mark: &Mark) {
    let hue = |series: usize| plane.picture.series[series].hue;
    match mark {
        Mark::Line { series, points } => {
            let name = escaped(&plane.picture.series[*series].name);
            put(
                out,
                format_args!(
                    "<polyline class=\"line {}\" stroke-dasharray=\"{}\" points=\"{}\">\
                 <title>{name}</title></polyline>\n",
                    class('s', hue(*series)),
                    dash(hue(*series)),
                    path(points.iter().map(|&(x, y)| (plane.x(x), plane.y(y))))
                ),
            );
        }
        Mark::Band { series, points } => {
            let low = points.iter().map(|&(x, low, _)| (plane.x(x), plane.y(low)));
            let high = points.iter().rev().map(|&(x, _, high)| (plane.x(x), plane.y(high)));
            put(
                out,
                format_args!(
                    "<polygon class=\"band {}\" points=\"{}\"/>\n",
                    class('f', hue(*series)),
                    path(low.chain(high))
                ),
            );
        }
        Mark::Dot { series, x, y, title } => {
            put(
                out,
                format_args!(
                    "<circle class=\"dot {}\" cx=\"{:.2}\" cy=\"{:.2}\" r=\"3.6\">\
                 <title>{}</title></circle>\n",
                    class('f', hue(*series)),
                    plane.x(*x),
                    plane.y(*y),
                    escaped(title)
                ),
            );
        }
        Mark::Block { .. } => block(out, plane, mark),
        Mark::Text { x, y, label } => {
            text(out, (plane.x(*x) + 6.0, plane.y(*y) + 4.0), "", label);
        }
        Mark::Rule { x, label } => {
            let x = plane.x(*x);
            put(
                out,
                format_args!(
                    "<line class=\"rule sq\" stroke-dasharray=\"4 4\" x1=\"{x:.2}\" x2=\"{x:.2}\" \
                 y1=\"{:.2}\" y2=\"{:.2}\"/>\n",
                    plane.top, plane.bottom
                ),
            );
            text(out, (x + 4.0, plane.top - 3.0), "soft", label);
        }
        Mark::Crossing { .. } => {}
    }
}

fn block(out: &mut String, plane: &Plane<'_>, mark: &Mark) {
    let Mark::Block { series, x, y, label, title, apart, strong } = mark else { return };
    let hue = plane.picture.series[*series].hue;
    let (left, right) = (plane.x(x.0), plane.x(x.1));
    let (top, bottom) = (plane.y(y.0).min(plane.y(y.1)), plane.y(y.0).max(plane.y(y.1)));
    // Blocks that must be distinguished have an outline and a small gap.
    let gap = if *apart { 1.0 } else { 0.0 };
    let classes = format!(
        "block {}{}{}",
        class('f', hue),
        if *apart { format!(" apart {}", class('s', hue)) } else { String::new() },
        if *strong { " strong" } else { "" }
    );
    let dashes = match dash(hue) {
        "none" => String::new(),
        dashes => format!(" stroke-dasharray=\"{dashes}\""),
    };
    put(
        out,
        format_args!(
            "<rect class=\"{classes}\"{dashes} x=\"{left:.2}\" y=\"{:.2}\" width=\"{:.2}\" \
         height=\"{:.2}\"><title>{}</title></rect>\n",
            top + gap,
            (right - left).max(0.4),
            (bottom - top - 2.0 * gap).max(0.4),
            escaped(title)
        ),
    );
    let room = right - left - 6.0;
    if label.is_empty() || bottom - top < LETTER - 1.0 || WIDE * label.chars().count() as f64 > room
    {
        return;
    }
    let y = (top + bottom) / 2.0 + 4.0;
    put(
        out,
        format_args!(
            "<text class=\"middle\" x=\"{:.2}\" y=\"{y:.2}\">{}</text>\n",
            (left + right) / 2.0,
            escaped(label)
        ),
    );
}

/// Rings with their labels; labels that would overlap are stacked.
fn crossings(out: &mut String, plane: &Plane<'_>) {
    let mut taken: Vec<(f64, f64, f64)> = Vec::new();
    for mark in &plane.picture.marks {
        let Mark::Crossing { x, y, label } = mark else { continue };
        let (x, y) = (plane.x(*x), plane.y(*y));
        put(
            out,
            format_args!(
                "<line class=\"drop\" x1=\"{x:.2}\" x2=\"{x:.2}\" y1=\"{y:.2}\" y2=\"{:.2}\"/>\n\
             <circle class=\"ring\" cx=\"{x:.2}\" cy=\"{y:.2}\" r=\"4.5\"><title>{}</title></circle>\n",
                plane.bottom,
                escaped(label)
            ),
        );
        let half = WIDE * label.chars().count() as f64 / 2.0;
        let middle = x.clamp(plane.left + half + 4.0, (plane.right - half).max(plane.left + half));
        let mut above = y - 12.0;
        while taken
            .iter()
            .any(|(m, h, a)| (m - middle).abs() < h + half && (a - above).abs() < 14.0)
        {
            above -= 14.0;
        }
        taken.push((middle, half, above));
        text(out, (middle, above), "middle over", label);
    }
}

/// The name of each line at its end, pushed apart if ends are close.
fn line_labels(out: &mut String, plane: &Plane<'_>) {
    let mut ends: Vec<(f64, f64, f64, usize)> = Vec::new();
    for mark in &plane.picture.marks {
        let Mark::Line { series, points } = mark else { continue };
        let Some(&(x, y)) = points.last() else { continue };
        // A line in pieces is labelled once, at its last end.
        ends.retain(|end| end.3 != *series);
        ends.push((plane.x(x), plane.y(y), plane.y(y), *series));
    }
    rising(&mut ends, |a| a.1);
    let apart = LETTER + 3.0;
    for i in 1..ends.len() {
        ends[i].2 = ends[i].2.max(ends[i - 1].2 + apart);
    }
    // Labels that were pushed out at the bottom move all above them up again.
    let mut lowest = plane.bottom;
    for end in ends.iter_mut().rev() {
        end.2 = end.2.min(lowest);
        lowest = end.2 - apart;
    }
    for (x, y, beside, series) in ends {
        let right = plane.right + 10.0;
        put(
            out,
            format_args!(
                "<line class=\"lead\" x1=\"{x:.2}\" y1=\"{y:.2}\" x2=\"{right:.2}\" y2=\"{beside:.2}\"/>\n"
            ),
        );
        text(out, (right + 3.0, beside + 4.0), "", &plane.picture.series[series].name);
    }
}

fn path(points: impl Iterator<Item = (f64, f64)>) -> String {
    points.map(|(x, y)| format!("{x:.2},{y:.2}")).collect::<Vec<_>>().join(" ")
}

pub(super) fn text(out: &mut String, (x, y): (f64, f64), class: &str, words: &str) {
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    put(out, format_args!("<text{class} x=\"{x:.2}\" y=\"{y:.2}\">{}</text>\n", escaped(words)));
}

fn escaped(text: &str) -> String {
    // XML has no control characters, and a name may come from a file.
    escape(text.replace(char::is_control, " ")).into_owned()
}

pub(super) fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = out.write_fmt(text);
}

//! An SVG read back: its elements, and its axes as its own ticks say.

use collcost::base::quantity::{Bytes, Seconds};
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use std::collections::BTreeMap;

/// An element with what stands in it.
#[derive(Debug, Clone, Default)]
pub struct Element {
    pub name: String,
    pub class: String,
    pub attributes: BTreeMap<String, String>,
    /// Text that is shown.
    pub text: String,
    /// Text that a pointer shows.
    pub title: String,
}

/// A picture.
pub struct Drawn {
    pub elements: Vec<Element>,
}

/// An axis, from its ticks alone.
pub struct Axis {
    log: bool,
    /// Place = offset + scale · value, or · ln value.
    offset: f64,
    scale: f64,
}

impl Axis {
    fn of(ticks: &[(f64, f64)], log: bool) -> Self {
        let value = |v: f64| if log { v.ln() } else { v };
        let ([(v0, p0), ..], [.., (v1, p1)]) = (ticks, ticks) else { panic!("{ticks:?}") };
        let scale = (p1 - p0) / (value(*v1) - value(*v0));
        let axis = Self { log, offset: p0 - scale * value(*v0), scale };
        // All ticks lie on one line, or the axis is not what it says.
        for (v, p) in ticks {
            assert!((axis.place(*v) - p).abs() < 0.02, "{ticks:?}");
        }
        axis
    }

    pub fn place(&self, value: f64) -> f64 {
        self.offset + self.scale * if self.log { value.ln() } else { value }
    }

    pub fn value(&self, place: f64) -> f64 {
        let linear = (place - self.offset) / self.scale;
        if self.log { linear.exp() } else { linear }
    }
}

impl Element {
    pub fn number(&self, name: &str) -> f64 {
        self.attributes[name].parse().unwrap()
    }

    /// The corners of a line or a polygon.
    pub fn points(&self) -> Vec<(f64, f64)> {
        let pair = |p: &str| {
            let (x, y) = p.split_once(',').unwrap();
            (x.parse().unwrap(), y.parse().unwrap())
        };
        self.attributes["points"].split(' ').map(pair).collect()
    }

    /// Whether a box reaches over this height.
    pub fn covers(&self, y: f64) -> bool {
        let top = self.number("y");
        top <= y && y <= top + self.number("height")
    }
}

impl Drawn {
    pub fn of(svg: &str) -> Self {
        let mut reader = Reader::from_str(svg);
        let mut elements: Vec<Element> = Vec::new();
        let mut open: Vec<(String, usize)> = Vec::new();
        loop {
            match reader.read_event().unwrap() {
                Event::Start(start) => {
                    let one = element(&start);
                    // A title belongs to what it stands in.
                    let target = match one.name.as_str() {
                        "title" => open.last().map_or(0, |(_, i)| *i),
                        _ => elements.len(),
                    };
                    open.push((one.name.clone(), target));
                    if one.name != "title" {
                        elements.push(one);
                    }
                }
                Event::Empty(start) => elements.push(element(&start)),
                Event::Text(text) => {
                    if let Some((name, i)) = open.last() {
                        let slot = &mut elements[*i];
                        let slot = if name == "title" { &mut slot.title } else { &mut slot.text };
                        slot.push_str(&text);
                    }
                }
                Event::GeneralRef(name) => {
                    let c = match &*name {
                        "amp" => '&',
                        "lt" => '<',
                        "gt" => '>',
                        _ => '"',
                    };
                    if let Some((name, i)) = open.last() {
                        let slot = &mut elements[*i];
                        let slot = if name == "title" { &mut slot.title } else { &mut slot.text };
                        slot.push(c);
                    }
                }
                Event::End(_) => drop(open.pop()),
                Event::Eof => break,
                _ => {}
            }
        }
        assert!(open.is_empty());
        Self { elements }
    }

    pub fn of_class(&self, class: &str) -> Vec<&Element> {
        self.elements.iter().filter(|e| e.class.split(' ').any(|c| c == class)).collect()
    }

    /// Those of a class that stand for data: a legend's say nothing.
    pub fn marks(&self, class: &str) -> Vec<&Element> {
        self.of_class(class).into_iter().filter(|e| !e.title.is_empty()).collect()
    }

    /// The line of that name.
    pub fn line(&self, name: &str) -> Vec<(f64, f64)> {
        let lines = self.of_class("line");
        let found = lines.iter().find(|l| l.title == name);
        found.unwrap_or_else(|| panic!("no line {name}")).points()
    }

    /// The names of rows and the heights of their middles.
    pub fn rows(&self) -> Vec<(String, f64)> {
        self.of_class("ytick").iter().map(|t| (t.text.clone(), t.number("y"))).collect()
    }

    fn axis(&self, class: &str, at: &str, log: bool, read: impl Fn(&str) -> f64) -> Axis {
        let ticks = self.of_class(class);
        let ticks: Vec<_> = ticks.iter().map(|t| (read(&t.text), t.number(at))).collect();
        Axis::of(&ticks, log)
    }

    pub fn x_bytes(&self) -> Axis {
        self.axis("xtick", "x", true, |t| t.replace(' ', "").parse::<Bytes>().unwrap().0 as f64)
    }

    pub fn x_count(&self) -> Axis {
        let log = self.of_class("xtick").iter().any(|t| t.text == "256");
        self.axis("xtick", "x", log, |t| t.parse().unwrap())
    }

    pub fn x_number(&self) -> Axis {
        self.axis("xtick", "x", true, |t| t.parse().unwrap())
    }

    pub fn x_seconds(&self) -> Axis {
        self.axis("xtick", "x", false, seconds)
    }

    pub fn y_seconds(&self) -> Axis {
        self.axis("ytick", "y", true, seconds)
    }

    pub fn y_share(&self) -> Axis {
        let percent = |t: &str| t.replace('−', "-").trim_end_matches(" %").parse::<f64>().unwrap();
        self.axis("ytick", "y", false, |t| percent(t) / 100.0)
    }
}

fn seconds(text: &str) -> f64 {
    text.replace(' ', "").parse::<Seconds>().unwrap().0
}

fn element(start: &BytesStart<'_>) -> Element {
    let name = start.name().as_ref().to_owned();
    let attributes: BTreeMap<String, String> = start
        .attributes()
        .map(|a| {
            let a = a.unwrap();
            (a.key.as_ref().to_owned(), a.value.into_owned())
        })
        .collect();
    let class = attributes.get("class").cloned().unwrap_or_default();
    Element { name, class, attributes, ..Element::default() }
}

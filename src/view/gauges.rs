//! Prometheus' text format: gauges in base units, for a textfile collector or a push.
//!
//! Source: prometheus.io, "Exposition formats", section "Text-based format"; OpenMetrics ends with a mark,
//! which is a comment there.

use std::collections::HashMap;
use std::io::{self, Write};

/// A gauge with its value for each item, in a series of its own; items without a value are left out.
///
/// # Errors
/// The writer's.
pub(super) fn gauge<'a, T: 'a>(
    out: &mut impl Write,
    (name, help): (&str, &str),
    things: impl IntoIterator<Item = &'a T>,
    labels: impl Fn(&T) -> String,
    value: impl Fn(&T) -> Option<f64>,
) -> io::Result<()> {
    writeln!(out, "# HELP {name} {help}\n# TYPE {name} gauge")?;
    let things: Vec<&T> = things.into_iter().collect();
    let series = numbered(things.iter().map(|thing| labels(thing)).collect());
    for (thing, labels) in things.into_iter().zip(series) {
        if let Some(value) = value(thing) {
            writeln!(out, "{name}{{{labels}}} {value}")?;
        }
    }
    Ok(())
}

/// A number for labels that occur more than once: readers keep one value of a series, or refuse all.
fn numbered(mut all: Vec<String>) -> Vec<String> {
    let mut times: HashMap<String, (usize, usize)> = HashMap::new();
    for labels in &all {
        times.entry(labels.clone()).or_default().0 += 1;
    }
    for labels in &mut all {
        if let Some((2.., seen)) = times.get_mut(labels) {
            *seen += 1;
            let sep = if labels.is_empty() { "" } else { "," };
            *labels += &format!("{sep}number=\"{seen}\"");
        }
    }
    all
}

/// The mark after the last gauge.
///
/// # Errors
/// The writer's.
pub(super) fn end(out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "# EOF")
}

/// `name="value",…` of the known labels.
pub(super) fn labels(pairs: &[(&str, Option<&str>)]) -> String {
    let known = pairs.iter().filter_map(|&(name, value)| Some((name, value?)));
    let escaped = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let words: Vec<String> =
        known.map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    words.join(",")
}

//! Prometheus' text format: gauges in base units, for a textfile collector or a push.
//!
//! Source: prometheus.io, "Exposition formats", section "Text-based format"; OpenMetrics ends with a mark,
//! which is a comment there.

use std::io::{self, Write};

/// A gauge with its value for each item; items without a value are left out.
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
    for thing in things {
        if let Some(value) = value(thing) {
            writeln!(out, "{name}{{{}}} {value}", labels(thing))?;
        }
    }
    Ok(())
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

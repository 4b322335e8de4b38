//! Writes what was learned as `learned.rs`.

use std::fmt::{Debug, Write};

use super::fit;
use crate::measure::expect::transfer::base::Family;
use crate::measure::expect::transfer::model::{Band, Gain, Learned, Model};

const HEAD: &str = "\
//! The learned constants, series and bands: written by `cargo run --release --example learn`.
//!
//! Fitted to published points of the machines in `evidence/`. A series is the residual of its smoothed
//! curve over the base at each octave, weighted by a Gaussian process over all of them
//! (docs/background/accuracy-of-gpus.md, \"How it was learned\"); it contains no measured times.

use std::borrow::Cow;

use super::base::{Constants, What};
use super::features::{Class, Net};
use super::hosts;
use super::model::{Band, Bands, Gain, Learned, Model};
use super::series::Series;

";

impl Learned {
    /// The Rust source of the built-in model.
    #[must_use]
    pub fn to_rust(&self) -> String {
        let mut out = HEAD.to_owned();
        // Writing to a String never fails.
        let _ = self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let name = |family: Family| format!("{family:?}").to_uppercase();
        let names = Family::ALL.map(name);
        writeln!(out, "pub(super) static LEARNED: Learned =")?;
        writeln!(out, "    Learned {{ families: [{}] }};", names.join(", "))?;
        names.iter().zip(&self.families).try_for_each(|(name, model)| {
            out.push('\n');
            model.write(name, out)
        })
    }
}

impl Model {
    fn write(&self, name: &str, out: &mut String) -> std::fmt::Result {
        writeln!(out, "#[rustfmt::skip]\nconst {name}: Model = Model {{")?;
        writeln!(out, "    constants: Constants {{")?;
        let mut hosts = String::new();
        for unknown in &fit::UNKNOWNS {
            let value = number(fit::value(&self.constants, unknown), 6);
            match unknown.name.strip_prefix("hosts.") {
                Some(name) => writeln!(hosts, "            {name}: {value},")?,
                None => writeln!(out, "        {}: {value},", unknown.name)?,
            }
        }
        writeln!(out, "        hosts: hosts::Constants {{\n{hosts}        }},")?;
        writeln!(out, "    }},\n    series: Cow::Borrowed(&{name}_SERIES),\n    bands: Bands {{")?;
        let band = |b: &Band| format!("Band::new({:.4}, {:.3}, {:.3})", b.half, b.median, b.p90);
        writeln!(
            out,
            "        near: {},",
            nested(&self.bands.near, |a| nested(a, |b| { nested(b, |c| list(c, band)) }))
        )?;
        writeln!(
            out,
            "        seen: {},",
            nested(&self.bands.seen, |a| nested(a, |b| { nested(b, |c| list(c, band)) }))
        )?;
        let gain = |g: &Gain| format!("Gain::new({:.1}, {:e})", g.kept, g.octaves);
        writeln!(
            out,
            "        gains: {},",
            nested(&self.bands.gains, |a| nested(a, |b| list(b, gain)))
        )?;
        writeln!(
            out,
            "        beyond: {},",
            nested(&self.bands.beyond, |a| nested(a, |b| { nested(b, |c| list(c, band)) }))
        )?;
        writeln!(out, "    }},\n}};\n")?;
        let count = self.series.len();
        writeln!(out, "#[rustfmt::skip]\nstatic {name}_SERIES: [Series; {count}] = [")?;
        for s in self.series.iter() {
            write!(out, "    Series {{ class: Class::{:?}, ", s.class)?;
            write!(out, "generation: {}, board: Cow::Borrowed({:?}), ", s.generation, s.board)?;
            write!(out, "net: Net::{:?}, nic: {}, ", s.net, number(f64::from(s.nic), 5))?;
            write!(out, "mesh: {}, ", s.mesh)?;
            write!(out, "what: What::{:?}, ranks: {}, nodes: {}, ", s.what, s.ranks, s.nodes)?;
            let left = list(&s.left, |v| number(f64::from(*v), 5));
            writeln!(out, "from: {}, to: {}, left: {left} }},", s.from, s.to)?;
        }
        writeln!(out, "];")
    }
}

/// A number with `digits` digits, without an exponent.
fn number(value: f64, digits: i32) -> String {
    let whole = if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 + 1 };
    let rounded = format!("{value:.*}", usize::try_from((digits - whole).clamp(1, 9)).unwrap_or(1));
    let short = rounded.trim_end_matches('0');
    if short.ends_with('.') { format!("{short}0") } else { short.to_owned() }
}

fn list<T>(all: &[T], each: impl Fn(&T) -> String) -> String {
    format!("[{}]", all.iter().map(each).collect::<Vec<_>>().join(", "))
}

/// A list with a line for each.
fn nested<T: Debug>(all: &[T], each: impl Fn(&T) -> String) -> String {
    let lines: Vec<String> = all.iter().map(|a| each(a).replace('\n', "\n    ")).collect();
    format!("[\n            {},\n        ]", lines.join(",\n            "))
}

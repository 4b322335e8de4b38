//! Settings of a project or a person: the machine, the number of ranks, parameters.
//!
//! `collcost.toml` and the user's `config.toml` have one format:
//!
//! ```toml
//! [defaults]
//! profile = "dgx-a100"     # a name, or a file next to this one
//! gpus_per_node = 8
//!
//! [machine]                # parameters that are better known here
//! alpha_inter = "2.4us"
//! ```
//!
//! The nearest setting wins. `[machine]` and `gpus_per_node` belong to the machine that their own
//! file or a farther one names; if a nearer file names the machine, they are ignored.

use std::fmt;
use std::ops::Range;
use std::path::Path;

use toml::de::DeValue;

use super::table::{Fault, Faults};
use crate::base::error::{Result, advice, did_you_mean, nearest};
use crate::base::format::Format;
use crate::base::text_pos::Document;
use crate::machine::parameters::{PARAMETERS, Parameter, Parameters};

/// Other contents of a project's file, which other commands read.
const ENTRIES: &[&str] = &["include", "budget", "step", "policy", "waive"];

const DEFAULTS: &str = "defaults";
const MACHINE: &str = "machine";
const FORMAT: &str = "format";

/// Every key with its section: those of a question, and the output format.
fn keys() -> impl Iterator<Item = (&'static str, &'static str)> + Clone {
    // The number of ranks per node is in this section with the ranks, though it belongs to a
    // machine.
    let section = |p: &Parameter| if p.of_machine && p.key != NODE { MACHINE } else { DEFAULTS };
    PARAMETERS.iter().map(move |p| (section(p), p.key)).chain([(DEFAULTS, FORMAT)])
}

const NODE: &str = "gpus_per_node";

/// Whether a key accepts a value.
fn check(key: &str, text: &str) -> Result<()> {
    match key {
        FORMAT => text.parse::<Format>().map(drop),
        _ => Parameters::default().put(Parameter::named(key)?, text),
    }
}

/// The source of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum From {
    /// An environment variable.
    Environment(&'static str),
    /// A line of a file.
    File {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
    },
}

impl From {
    /// The variable, or the file's own name.
    #[must_use]
    pub fn short(&self) -> &'static str {
        match self {
            Self::Environment(name) => name,
            Self::File { file, .. } if file.ends_with("collcost.toml") => "collcost.toml",
            Self::File { .. } => "config.toml",
        }
    }
}

impl fmt::Display for From {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Environment(name) => f.write_str(name),
            Self::File { file, line } => write!(f, "{file}:{line}"),
        }
    }
}

/// One key with its value, as text that was checked to be readable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The key.
    pub key: &'static str,
    /// The value.
    pub value: String,
    /// The source.
    pub from: From,
}

/// The settings of one file or of the environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layer {
    settings: Vec<Setting>,
}

impl Layer {
    /// The environment's machine.
    #[must_use]
    pub fn environment(name: &'static str, profile: &str) -> Self {
        let (key, value) = ("profile", profile.to_owned());
        Self { settings: vec![Setting { key, value, from: From::Environment(name) }] }
    }

    /// Reads a file's text; `file` is its name.
    ///
    /// # Errors
    /// Invalid TOML, an unknown section or key, a value that cannot be read: with file, line and
    /// column.
    pub fn parse(text: &str, file: &str) -> Result<Self> {
        let document = Document::parse(text).map_err(|refused| refused.error(file))?;
        let others = document.root().keys().map(|key| (key.get_ref().as_ref(), key.span()));
        let mut unknown = others
            .filter(|(name, _)| !ENTRIES.contains(name) && ![DEFAULTS, MACHINE].contains(name));
        if let Some((name, span)) = unknown.next() {
            let what = format!("unknown section `{name}`");
            let known = || format!("known: {DEFAULTS}, {MACHINE}");
            let help = did_you_mean(name, [DEFAULTS, MACHINE], known);
            return Err(Fault::new(file, document.place(&span), what, Some(help)).error());
        }
        let faults = Faults::default();
        let settings = settings(&document, file, &faults);
        match faults.into_inner().first() {
            Some(fault) => Err(fault.error()),
            None => Ok(Self { settings }),
        }
    }

    fn get(&self, key: &str) -> Option<&Setting> {
        self.settings.iter().find(|s| s.key == key)
    }
}

/// What the sections of settings in a file say. What is wrong there is kept, and left out.
pub(super) fn settings(document: &Document<'_>, file: &str, faults: &Faults) -> Vec<Setting> {
    let mut settings: Vec<Setting> = Vec::new();
    for name in [DEFAULTS, MACHINE] {
        let Some(section) = document.root().get(name) else { continue };
        let keep = |span: Range<usize>, what: String, help: String| {
            let fault = Fault::new(file, document.place(&span), what, Some(help));
            faults.borrow_mut().push(fault);
        };
        let Some(table) = section.get_ref().as_table() else {
            let help = format!("write [{name}] on its own line");
            keep(section.span(), format!("`{name}` is a section"), help);
            continue;
        };
        for (key, value) in table {
            let (typed, span) = (key.get_ref().as_ref(), value.span());
            let known = keys().filter(|(section, _)| *section == name).map(|(_, key)| key);
            let Some(found) = known.clone().find(|key| *key == typed) else {
                let known: Vec<&str> = known.collect();
                let what = format!("unknown key `{typed}` in [{name}]");
                keep(key.span(), what, elsewhere(name, typed, &known));
                continue;
            };
            let text = match value.get_ref() {
                DeValue::String(text) => text.to_string(),
                DeValue::Integer(number) if number.radix() == 10 => number.as_str().to_owned(),
                DeValue::Boolean(yes) => yes.to_string(),
                other => {
                    let what = format!("`{typed}` must not be of type {}", other.type_str());
                    keep(span, what, "write it in quotes".to_owned());
                    continue;
                }
            };
            if let Err(error) = check(found, &text) {
                faults.borrow_mut().push(Fault::of(file, document.place(&span), &error));
                continue;
            }
            if let Some(other) = settings.iter().find(|s: &&Setting| are_one(s.key, found)) {
                let what = format!("`{}` and `{found}` set the same quantity", other.key);
                keep(span, what, "leave one of them out".to_owned());
                continue;
            }
            let value = if found == "profile" { beside(file, text) } else { text };
            let line = document.place(&span).line;
            let from = From::File { file: file.to_owned(), line };
            settings.push(Setting { key: found, value, from });
        }
    }
    settings
}

/// The section in which the key would be known, or the nearest key of this one.
fn elsewhere(section: &str, typed: &str, known: &[&str]) -> String {
    let others = || keys().filter(|(other, _)| *other != section);
    let near = nearest(typed, others().map(|(_, key)| key));
    let key = others().find(|(_, key)| near == Some(*key));
    match key.filter(|_| nearest(typed, known.iter().copied()).is_none()) {
        Some((section, key)) => format!("`{key}` belongs to [{section}]"),
        None => advice(typed, known),
    }
}

/// Whether two keys set the same quantity.
fn are_one(a: &str, b: &str) -> bool {
    let (a, b) = (Parameter::find(a), Parameter::find(b));
    a.zip(b).is_some_and(|(a, b)| a.is_instead_of(b))
}

/// A profile's file is named relative to the configuration.
fn beside(file: &str, profile: String) -> String {
    match Path::new(file).parent() {
        Some(folder) if is_file(&profile) => folder.join(&profile).to_string_lossy().into_owned(),
        _ => profile,
    }
}

/// Whether a machine is given as a file rather than as a name.
#[must_use]
pub fn is_file(profile: &str) -> bool {
    // Machines are TOML; fabrics are that, JSON, or what other programs write.
    let endings = [".toml", ".json", ".yaml", ".yml", ".xml"];
    profile.contains(['/', '\\']) || endings.iter().any(|ending| profile.ends_with(ending))
}

/// All settings, nearest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    layers: Vec<Layer>,
}

impl Settings {
    /// Combines layers, nearest first.
    #[must_use]
    pub fn new(layers: Vec<Layer>) -> Self {
        Self { layers }
    }

    /// The effective setting of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Setting> {
        self.layers[..self.reach(key)].iter().find_map(|layer| layer.get(key))
    }

    /// How many layers apply to a key.
    fn reach(&self, key: &str) -> usize {
        let first = |keys: &[&str]| {
            let says = |layer: &Layer| {
                layer.settings.iter().any(|s| keys.contains(&s.key) || are_one(s.key, key))
            };
            self.layers.iter().position(says).map_or(self.layers.len(), |i| i + 1)
        };
        match key {
            // N and the nodes are two answers to one question.
            "n" | "nodes" => first(&["n", "nodes"]),
            key if is_of_machine(key) => first(&["profile"]).min(first(&[key])),
            key => first(&[key]),
        }
    }

    /// Every key that is set, with its effective setting, in the order of the documentation.
    pub fn held(&self) -> impl Iterator<Item = &Setting> {
        keys().filter_map(|(_, key)| self.get(key))
    }

    /// Settings that have no effect, with the one that is effective instead.
    pub fn left_out(&self) -> impl Iterator<Item = (&Setting, Option<&Setting>)> {
        let all = self.layers.iter().flat_map(|layer| &layer.settings);
        all.filter(|s| self.get(s.key) != Some(s)).map(|s| {
            let instead = self.get(s.key);
            (s, instead.or_else(|| is_of_machine(s.key).then(|| self.get("profile")).flatten()))
        })
    }

    /// The keys that may be set, each preceded by its section.
    pub fn keys() -> impl Iterator<Item = (&'static str, &'static str)> + Clone {
        keys()
    }
}

/// Whether a key describes the machine and so does not apply to another one.
fn is_of_machine(key: &str) -> bool {
    Parameter::find(key).is_some_and(|p| p.of_machine)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(files: &[(&str, &str)]) -> Settings {
        Settings::new(files.iter().map(|(file, text)| Layer::parse(text, file).unwrap()).collect())
    }

    fn value(settings: &Settings, key: &str) -> Option<String> {
        settings.get(key).map(|s| s.value.clone())
    }

    #[test]
    fn what_lies_nearer_wins() {
        let both = settings(&[
            ("/a/collcost.toml", "[defaults]\nn = 16\nprofile = \"m/x.toml\"\n"),
            ("/u/config.toml", "[defaults]\nn = \"8\"\nports = 2\n[machine]\nalpha = \"5us\"\n"),
        ]);
        assert_eq!(value(&both, "n").as_deref(), Some("16"));
        assert_eq!(value(&both, "ports").as_deref(), Some("2"));
        assert_eq!(value(&both, "profile").as_deref(), Some("/a/m/x.toml"));
        // α belongs to the user's machine, but the project names another.
        assert_eq!(value(&both, "alpha"), None);
        let left: Vec<String> = both.left_out().map(|(s, _)| s.from.to_string()).collect();
        assert_eq!(left, ["/u/config.toml:2", "/u/config.toml:5"]);
    }

    #[test]
    fn figures_change_a_machine_that_is_named_further_out() {
        let both = settings(&[
            ("collcost.toml", "[machine]\nalpha = \"5us\"\n[defaults]\nnodes = 4\n"),
            ("config.toml", "[defaults]\nprofile = \"dgx-a100\"\nn = 8\n"),
        ]);
        assert_eq!(value(&both, "alpha").as_deref(), Some("5us"));
        assert_eq!(value(&both, "profile").as_deref(), Some("dgx-a100"));
        assert_eq!(value(&both, "n"), None);
    }

    #[test]
    fn faults_name_file_line_and_column() {
        let cases = [
            ("[defaults]\nprofil = \"x\"\n", "c.toml:2:1", "did you mean `profile`?"),
            ("[default]\n", "c.toml:1:2", "did you mean `defaults`?"),
            ("profile = \"x\"\n", "c.toml:1:1", "known: defaults, machine"),
            ("[machine]\nprofile = \"x\"\n", "c.toml:2:1", "`profile` belongs to [defaults]"),
            ("[machine]\nprofil = \"x\"\n", "c.toml:2:1", "`profile` belongs to [defaults]"),
            ("[machine]\nalpha = \"5\"\n", "c.toml:2:9", "without unit"),
            ("[machine]\nalpha = 5.0\n", "c.toml:2:9", "write it in quotes"),
            ("[defaults]\nn = 0\n", "c.toml:2:5", "whole number from 1"),
            ("[defaults]\nformat = \"jsn\"\n", "c.toml:2:10", "did you mean `json`?"),
            ("defaults = 1\n", "c.toml:1:1", "write [defaults]"),
            ("[defaults\n", "c.toml:1:10", ""),
        ];
        for (text, place, part) in cases {
            let error = Layer::parse(text, "c.toml").unwrap_err().to_string();
            assert!(error.contains(place) && error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn every_key_is_read() {
        for (section, key) in keys() {
            let good = Parameter::named(key).map_or("json", |p| p.example);
            let text = format!("[{section}]\n{key} = \"{good}\"\n");
            let layer = Layer::parse(&text, "c.toml").unwrap();
            assert_eq!(layer.settings[0].value, good);
        }
    }
}

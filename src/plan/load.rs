//! Steps from a file and its includes, or from a preset, overridden by the command line.

use super::{PRESETS, Step, read, steps};
use crate::base::error::advice;
use crate::base::text_pos::{Document, Place};
use crate::plan::table::{
    Fault, Faults, Fields, Layer, Machines, documents, in_order, layer, settings, texts,
};

/// The requested steps.
#[derive(Debug, Clone, Copy)]
pub enum Asked<'a> {
    /// A layout that people run.
    Preset(&'a str),
    /// The steps of a file.
    File {
        /// The file.
        name: &'a str,
        /// Only this one.
        step: Option<&'a str>,
    },
}

/// The name under which faults of typed keys are reported.
pub(crate) const TYPED: &str = "--set";

/// The most steps of one file: each has its machine.
const MOST: usize = 4096;

/// Reads the steps; `keys` replace keys of each.
///
/// # Errors
/// All faults, with their places.
pub fn load(
    machines: &Machines<'_>,
    asked: &Asked<'_>,
    keys: &[(String, String)],
) -> std::result::Result<Vec<Step>, Vec<Fault>> {
    let faults = Faults::default();
    let found = load_into(machines, asked, keys, &faults);
    let faults = in_order(faults);
    if faults.is_empty() { Ok(found) } else { Err(faults) }
}

fn load_into(
    machines: &Machines<'_>,
    asked: &Asked<'_>,
    keys: &[(String, String)],
    faults: &Faults,
) -> Vec<Step> {
    let none = Place { line: 1, column: 1, text: String::new() };
    let typed: String = keys.iter().map(|(key, value)| line(key, value)).collect();
    let typed = match Document::parse(&typed) {
        Ok(document) => document,
        Err(refused) => {
            faults.borrow_mut().push(Fault::refused(TYPED, refused));
            return Vec::new();
        }
    };
    let over = (!keys.is_empty()).then(|| layer(TYPED, &typed));
    // The text is part of the program, and a test reads it.
    let Ok(presets) = Document::parse(PRESETS) else { return Vec::new() };
    let presets = layer("presets", &presets);
    let texts = match asked {
        Asked::Preset(_) => Vec::new(),
        Asked::File { name, .. } => match texts(machines.files, name, faults) {
            Ok(texts) => texts,
            Err(error) => {
                faults.borrow_mut().push(Fault::of(name, none, &error));
                return Vec::new();
            }
        },
    };
    let documents = documents(&texts, faults);
    let files: Vec<_> = documents.iter().map(|(file, document)| layer(file, document)).collect();
    let mut named: Vec<(&str, Layer<'_>)> = match asked {
        Asked::Preset(name) => {
            steps(presets, faults).into_iter().filter(|(n, _)| n == name).collect()
        }
        Asked::File { .. } => files.iter().flat_map(|file| steps(*file, faults)).collect(),
    };
    if let Asked::File { name, step } = asked {
        let known: Vec<&str> = named.iter().map(|(n, _)| *n).collect();
        if let Some(step) = step {
            if !known.contains(step) {
                let what = format!("there is no step `{step}`");
                let help = Some(advice(step, &known));
                faults.borrow_mut().push(Fault::new(name, none, what, help));
            }
            named.retain(|(n, _)| n == step);
        } else if known.is_empty() && faults.borrow().is_empty() {
            let help = Some("write a table [step.NAME], or name a --preset".to_owned());
            let what = "the file has no step".to_owned();
            faults.borrow_mut().push(Fault::new(name, none, what, help));
        } else if known.len() > MOST {
            let help = Some("name one with --step, or make several files of them".to_owned());
            let what = format!("the file has {} steps, more than {MOST}", known.len());
            faults.borrow_mut().push(Fault::new(name, none, what, help));
            named.clear();
        }
    }
    let settings = settings(&files, faults);
    let one = |(name, own): (&str, Layer<'_>)| {
        let layers = layered(over.into_iter().chain([own]).collect(), presets, faults);
        read(name, layers, &settings, machines, faults)
    };
    named.into_iter().filter_map(one).collect()
}

/// The layers of a step with the preset that they name below them.
pub(crate) fn layered<'a>(
    mut layers: Vec<Layer<'a>>,
    presets: Layer<'a>,
    faults: &'a Faults,
) -> Vec<Layer<'a>> {
    let fields = Fields::new(layers.clone(), "a step", faults);
    let Some(name) = fields.text("preset") else { return layers };
    let known = steps(presets, faults);
    match known.iter().find(|(n, _)| *n == name) {
        Some((_, preset)) => layers.push(*preset),
        None => {
            let names: Vec<&str> = known.iter().map(|(n, _)| *n).collect();
            fields.fault("preset", format!("`{name}` is not a preset"), advice(&name, &names));
        }
    }
    layers
}

/// `tp = 4`; a value that is neither a number nor a boolean is text.
fn line(key: &str, value: &str) -> String {
    let plain = value.parse::<i64>().is_ok() || matches!(value, "true" | "false");
    let escaped = || value.replace('\\', "\\\\").replace('"', "\\\"");
    let value = if plain { value.to_owned() } else { format!("\"{}\"", escaped()) };
    format!("{key} = {value}\n")
}

//! Entries of a project's file: tables that a person wrote, read key by key.
//!
//! A fault does not stop the reader: it is kept with its line and column, and the next key is read,
//! so that one run reports all of them. An entry may be layered over another (a preset, the command
//! line): [`Fields`] looks in its layers in turn.

mod described;
mod files;
mod machine;
mod project;

use std::cell::RefCell;
use std::fmt;
use std::str::FromStr;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::base::error::{Error, advice};
use crate::base::text_pos::{Document, Place, Refused};
use crate::machine::parameters::{PARAMETERS, Parameter, in_keys};

pub use described::{fabric, with_files};
#[cfg(test)]
pub(crate) use files::OneText;
pub use files::{BuiltIn, Disk, Files, unreadable};
pub(crate) use machine::Count;
pub use machine::{MachineEntry, Machines, joined, parameters};
pub use project::{Text, documents, layer, settings, texts};

/// What is wrong at one place of a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The character in that line, from 1.
    pub column: usize,
    /// What is wrong.
    pub what: String,
    /// The line itself.
    pub text: String,
    /// What would be accepted.
    pub help: Option<String>,
}

impl Fault {
    /// A fault at a place.
    #[must_use]
    pub fn new(file: &str, place: Place, what: String, help: Option<String>) -> Self {
        let Place { line, column, text } = place;
        Self { file: file.to_owned(), line, column, what, text, help }
    }

    /// An error that something at a place led to: where it lies in another file, such as a profile, that
    /// is the place to mend.
    #[must_use]
    pub fn of(file: &str, place: Place, error: &Error) -> Self {
        let help = error.mending().map(in_keys);
        let (file, place) = error.spot().map_or((file, place), |(f, p)| (f, p.clone()));
        Self::new(file, place, error.what().to_owned(), help)
    }

    /// An error of the TOML reader.
    #[must_use]
    pub fn refused(file: &str, refused: Refused) -> Self {
        let start = Place { line: 1, column: 1, text: String::new() };
        Self::new(file, refused.place.unwrap_or(start), refused.what, refused.help)
    }

    /// All faults as one error.
    #[must_use]
    pub fn error_of(faults: &[Self]) -> Error {
        match faults {
            [] => Error::input("it has no step"),
            [one] => one.error(),
            many => {
                let all: Vec<String> = many.iter().map(ToString::to_string).collect();
                Error::input(format!("{} faults", many.len())).at(all.join("\n  "))
            }
        }
    }

    /// The same as an error.
    #[must_use]
    pub fn error(&self) -> Error {
        let Self { file, line, column, text, .. } = self;
        let error = Error::input(self.what.clone()).at(format!("{file}:{line}:{column}: {text}"));
        match &self.help {
            Some(help) => error.help(help.clone()),
            None => error,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, what, text, help } = self;
        write!(f, "{file}:{line}:{column}: {what}\n  {text}")?;
        help.iter().try_for_each(|help| write!(f, "\n  {help}"))
    }
}

/// All faults of a reading.
pub type Faults = RefCell<Vec<Fault>>;

/// The faults in the order of their places; that of a key which was read twice once.
pub(crate) fn in_order(faults: Faults) -> Vec<Fault> {
    let mut faults = faults.into_inner();
    faults.sort();
    faults.dedup();
    faults
}

/// A table of a file.
#[derive(Clone, Copy)]
pub struct Layer<'a> {
    /// The file's name.
    pub file: &'a str,
    pub(crate) document: &'a Document<'a>,
    pub(crate) table: &'a DeTable<'a>,
    /// The position of its heading.
    pub(crate) start: usize,
}

/// An entry with the layers below it, nearest first.
pub struct Fields<'a> {
    layers: Vec<Layer<'a>>,
    /// How many of them are the entry's own; the ones below are settings.
    own: usize,
    /// What it is, such as `[[budget]]`.
    what: &'static str,
    faults: &'a Faults,
}

impl<'a> Fields<'a> {
    /// The entry of the first layer; there is at least one.
    pub(crate) fn new(layers: Vec<Layer<'a>>, what: &'static str, faults: &'a Faults) -> Self {
        Self { own: layers.len(), layers, what, faults }
    }

    /// The same over the settings of its file, as far as they apply beside its own keys.
    pub(crate) fn over(mut self, settings: &[Layer<'a>]) -> Self {
        self.layers.extend_from_slice(settings);
        self
    }

    /// The layer and the value of a key.
    pub(crate) fn find(&self, key: &str) -> Option<(&Layer<'a>, &'a Spanned<DeValue<'a>>)> {
        let settled = || {
            let parameter = Parameter::find(key)?;
            parameter.is_settled(|key| self.says(key)).then(|| self.settings(key))?
        };
        let own = self.layers[..self.own].iter();
        own.clone().find_map(|layer| Some((layer, layer.table.get(key)?))).or_else(settled)
    }

    /// A key's value in the settings.
    fn settings(&self, key: &str) -> Option<(&Layer<'a>, &'a Spanned<DeValue<'a>>)> {
        self.layers[self.own..].iter().find_map(|layer| Some((layer, layer.table.get(key)?)))
    }

    /// Whether the entry itself has a key.
    pub(crate) fn says(&self, key: &str) -> bool {
        self.layers[..self.own].iter().any(|layer| layer.table.contains_key(key))
    }

    /// The figures in the settings that belong to another machine than the entry's.
    pub(crate) fn left_out(&self) -> Vec<String> {
        let of = |p: &&Parameter| p.of_machine && p.is_of_another(|key| self.says(key));
        let idle = PARAMETERS.iter().filter(of).filter(|p| !self.says(p.key));
        idle.filter_map(|p| Some(format!("{} of {}", p.key, self.settings(p.key)?.0.file)))
            .collect()
    }

    /// The number of layers before the one that has it.
    pub(crate) fn depth(&self, key: &str) -> usize {
        self.layers.iter().take_while(|layer| !layer.table.contains_key(key)).count()
    }

    /// Whether any layer has it.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.find(key).is_some()
    }

    /// The position of a key's value, otherwise of the entry's heading.
    pub(crate) fn place(&self, key: &str) -> (String, Place) {
        match self.find(key) {
            Some((layer, value)) => (layer.file.to_owned(), layer.document.place(&value.span())),
            None => {
                // Command-line keys have no heading.
                let own = self.layers.iter().find(|l| !l.file.starts_with("--"));
                let layer = own.unwrap_or(&self.layers[0]);
                (layer.file.to_owned(), layer.document.place(&(layer.start..layer.start)))
            }
        }
    }

    /// Keeps a fault at a key's value, or at the heading if there is no such key.
    pub(crate) fn fault(&self, key: &str, what: impl Into<String>, help: impl Into<String>) {
        let (file, place) = self.place(key);
        self.keep(Fault::new(&file, place, what.into(), Some(help.into())));
    }

    /// Keeps an error that a key's value led to.
    pub(crate) fn error(&self, key: &str, error: &Error) {
        let (file, place) = self.place(key);
        self.keep(Fault::of(&file, place, error));
    }

    fn keep(&self, fault: Fault) {
        self.faults.borrow_mut().push(fault);
    }

    /// Keeps a fault for every key that is not one of `known`.
    pub(crate) fn only(&self, known: &[&str]) {
        for layer in &self.layers[..self.own] {
            for (key, _) in layer.table {
                let typed = key.get_ref().as_ref();
                if !known.contains(&typed) {
                    let place = layer.document.place(&key.span());
                    let what = format!("unknown key `{typed}` in {}", self.what);
                    self.keep(Fault::new(layer.file, place, what, Some(advice(typed, known))));
                }
            }
        }
    }

    /// A key's value as text: a string, or a number as written.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        let (_, value) = self.find(key)?;
        match value.get_ref() {
            DeValue::String(text) => Some(text.to_string()),
            DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().to_owned()),
            DeValue::Float(number) => Some(number.as_str().to_owned()),
            DeValue::Boolean(yes) => Some(yes.to_string()),
            other => {
                let what = format!("`{key}` must not be of type {}", other.type_str());
                self.fault(key, what, "write a text in quotes, or a number");
                None
            }
        }
    }

    /// A key's value; if it cannot be read, a fault is kept.
    pub(crate) fn read<T: FromStr<Err = Error>>(&self, key: &str) -> Option<T> {
        let text = self.text(key)?;
        match text.parse() {
            Ok(value) => Some(value),
            Err(error) => {
                self.error(key, &error);
                None
            }
        }
    }

    /// A boolean; `false` if absent.
    pub(crate) fn flag(&self, key: &str, absent: bool) -> bool {
        match self.find(key).map(|(_, value)| value.get_ref()) {
            None => absent,
            Some(DeValue::Boolean(yes)) => *yes,
            Some(DeValue::String(text)) if text == "true" => true,
            Some(DeValue::String(text)) if text == "false" => false,
            Some(_) => {
                self.fault(key, format!("`{key}` is true or false"), "write it without quotes");
                absent
            }
        }
    }
}

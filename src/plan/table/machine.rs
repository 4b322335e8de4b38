//! The machine of an entry: a profile, its own parameters, or both.

use std::cell::RefCell;
use std::collections::HashMap;
use std::num::NonZeroU32;
use std::path::Path;
use std::rc::Rc;
use std::str::FromStr;

use super::{Fields, Files};
use crate::base::collective::Collective;
use crate::base::error::{Error, Result};
use crate::base::quantity::Bytes;
use crate::machine::parameters::{self, PARAMETERS, Parameter, Parameters};
use crate::machine::profile::Profile;
use crate::machine::query::{Layout, Machine, Query};
use crate::plan::config::is_file;

/// The parameters that an entry may have: for a step, its own sizes give the number of ranks.
pub fn parameters(counts_ranks: bool) -> impl Iterator<Item = &'static Parameter> {
    PARAMETERS.iter().filter(move |p| counts_ranks || !matches!(p.key, "n" | "nodes"))
}

/// The machine that an entry names, and its other parameters of a question.
#[derive(Clone)]
pub struct MachineEntry {
    read: Option<Rc<Profile>>,
    /// The profile's name relative to the working directory, machine parameters, ranks, algorithm
    /// parameters.
    pub said: Parameters,
    /// Settings that belong to another machine.
    left_out: Vec<String>,
}

/// Profiles that were read: many entries share one.
pub struct Machines<'f> {
    /// Where they are found.
    pub files: &'f dyn Files,
    /// The machine of entries that name none.
    usual: Option<String>,
    known: RefCell<HashMap<String, Result<Rc<Profile>>>>,
}

/// A whole number above 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Count(pub NonZeroU32);

impl FromStr for Count {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        parameters::count("is not a count", text).map(Self)
    }
}

impl<'f> Machines<'f> {
    /// No profile is read yet.
    #[must_use]
    pub fn new(files: &'f dyn Files) -> Self {
        Self { files, usual: None, known: RefCell::default() }
    }

    /// The same, with a machine for entries that name none.
    #[must_use]
    pub fn usually(self, name: Option<&str>) -> Self {
        Self { usual: name.map(str::to_owned), ..self }
    }

    /// The profile called `name`.
    ///
    /// # Errors
    /// It is unknown, or cannot be read; the same each time.
    pub fn profile(&self, name: &str) -> Result<Rc<Profile>> {
        if let Some(found) = self.known.borrow().get(name) {
            return found.clone();
        }
        let found = self.files.profile(name).map(Rc::new);
        self.known.borrow_mut().insert(name.to_owned(), found.clone());
        found
    }

    /// The machine called `name`, with its other parameters.
    ///
    /// # Errors
    /// As [`Self::profile`].
    pub(crate) fn on(&self, name: &str, mut said: Parameters) -> Result<MachineEntry> {
        let read = self.profile(name)?;
        said.profile = Some(name.to_owned());
        Ok(MachineEntry { read: Some(read), said, left_out: Vec::new() })
    }

    /// Reads the parameters of a question; faults are kept.
    pub(crate) fn entry(&self, fields: &Fields<'_>) -> Option<MachineEntry> {
        let mut said = Parameters::default();
        for parameter in PARAMETERS {
            let Some(text) = fields.text(parameter.key) else { continue };
            if let Err(error) = said.put(parameter, &text) {
                fields.error(parameter.key, &error);
            }
        }
        let describes = said.given.alpha.is_some() && said.given.bandwidth.is_some();
        let usual = || self.usual.clone().filter(|_| !describes);
        said.profile = said.profile.map(|name| beside(fields, name)).or_else(usual);
        let read = match &said.profile {
            None => None,
            Some(name) => match self.profile(name) {
                Ok(profile) => Some(profile),
                Err(error) => {
                    fields.error("profile", &error);
                    return None;
                }
            },
        };
        Some(MachineEntry { read, said, left_out: fields.left_out() })
    }
}

/// A profile's file is named relative to the entry's file.
fn beside(fields: &Fields<'_>, name: String) -> String {
    let file = fields.find("profile").map(|(layer, _)| layer.file).unwrap_or_default();
    if is_file(&name) { joined(file, &name) } else { name }
}

/// A path that `file` names, relative to the working directory.
#[must_use]
pub fn joined(file: &str, path: &str) -> String {
    match Path::new(file).parent() {
        Some(folder) => folder.join(path).to_string_lossy().into_owned(),
        None => path.to_owned(),
    }
}

impl MachineEntry {
    /// The machine for a collective.
    ///
    /// # Errors
    /// Parameters for which the machine has no links.
    pub fn machine(&self, collective: Collective) -> Result<Machine> {
        let machine = match &self.read {
            Some(profile) => Machine::on(profile, "profile", &self.said.given, collective),
            None => Machine::new(None, &self.said.given, collective),
        }?;
        Ok(Machine { left_out: self.left_out.clone(), ..machine })
    }

    /// A question on the machine.
    ///
    /// # Errors
    /// As [`Query::new`].
    pub fn query(&self, collective: Collective, size: Bytes, layout: Layout) -> Result<Query> {
        Query::new(self.machine(collective)?, collective, size, layout, self.said.params)
    }
}

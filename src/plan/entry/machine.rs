//! The machine of an entry: a profile, figures of its own, or both.

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
use crate::machine::profile::Profile;
use crate::machine::query::{Given, Layout, Machine, Query};
use crate::model::formula::Params;
use crate::plan::config::is_file;

/// The keys that say what a machine is.
pub const MACHINE_KEYS: &[&str] = &[
    "profile",
    "alpha",
    "bw",
    "alpha_inter",
    "bw_inter",
    "gamma",
    "alpha_switch",
    "launch",
    "ports",
    "nics",
    "placement",
    "protocol",
];

/// The machine that an entry asks for.
#[derive(Clone)]
pub struct MachineEntry {
    /// The profile's name; absent: the default machine, or one of the figures alone.
    pub profile: Option<String>,
    read: Option<Rc<Profile>>,
    /// The figures.
    pub given: Given,
}

/// Profiles that were read: many entries share one.
pub struct Machines<'f> {
    /// Where they are found.
    pub files: &'f dyn Files,
    known: RefCell<HashMap<String, Result<Rc<Profile>>>>,
}

/// A whole number above 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Count(pub NonZeroU32);

impl FromStr for Count {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        text.trim().replace('_', "").parse().map(Self).map_err(|_| {
            Error::input(format!("`{text}` is no count"))
                .mend(format!("write a whole number from 1 to {}", u32::MAX))
        })
    }
}

impl<'f> Machines<'f> {
    /// None is read yet.
    #[must_use]
    pub fn new(files: &'f dyn Files) -> Self {
        Self { files, known: RefCell::default() }
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

    /// Reads the keys of a machine; faults are kept.
    pub(crate) fn entry(&self, fields: &Fields<'_>) -> Option<MachineEntry> {
        let count = |key: &str| fields.read::<Count>(key).map(|c| c.0);
        let given = Given {
            alpha: fields.read("alpha"),
            bandwidth: fields.read("bw"),
            alpha_inter: fields.read("alpha_inter"),
            bandwidth_inter: fields.read("bw_inter"),
            gamma: fields.read("gamma"),
            alpha_switch: fields.read("alpha_switch"),
            launch: fields.read("launch"),
            ports: fields.read("ports"),
            nics: count("nics"),
            order: fields.read("placement").unwrap_or_default(),
            protocol: fields.read("protocol").unwrap_or_default(),
            ..Given::default()
        };
        let typed = fields.text("profile");
        let named = typed.map(|name| beside(fields, name));
        let read = match &named {
            None => None,
            Some(name) => match self.profile(name) {
                Ok(profile) => Some(profile),
                Err(error) => {
                    fields.error("profile", &error);
                    return None;
                }
            },
        };
        Some(MachineEntry { profile: named, read, given })
    }
}

/// A profile's file is named from where the entry's file lies.
fn beside(fields: &Fields<'_>, name: String) -> String {
    let file = fields.find("profile").map(|(layer, _)| layer.file).unwrap_or_default();
    if is_file(&name) { joined(file, &name) } else { name }
}

/// A path that `file` names, seen from where the program runs.
pub(crate) fn joined(file: &str, path: &str) -> String {
    match Path::new(file).parent() {
        Some(folder) => folder.join(path).to_string_lossy().into_owned(),
        None => path.to_owned(),
    }
}

impl MachineEntry {
    /// The machine for a collective.
    ///
    /// # Errors
    /// Figures that the machine has no links for.
    pub fn machine(&self, collective: Collective) -> Result<Machine> {
        match &self.read {
            Some(profile) => Machine::on(profile, "profile", &self.given, collective),
            None => Machine::new(None, &self.given, collective),
        }
    }

    /// A question on it.
    ///
    /// # Errors
    /// As [`Query::new`].
    pub fn query(&self, collective: Collective, size: Bytes, layout: Layout) -> Result<Query> {
        Query::new(self.machine(collective)?, collective, size, layout, Params::default())
    }
}

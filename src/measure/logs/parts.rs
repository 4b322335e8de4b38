//! The runs of a log: a paste may hold several, each with variables of its own.

use std::collections::BTreeMap;

use super::evidence::Evidence;

/// What lines outside tables say, by the tables that they are about.
#[derive(Debug, Clone, PartialEq)]
pub struct Parts {
    /// The first table of each part, and what is known of it.
    known: Vec<(usize, Evidence)>,
    /// Lines since the last table began.
    since: Evidence,
    /// What the last command set.
    set: Option<BTreeMap<String, String>>,
}

impl Default for Parts {
    fn default() -> Self {
        Self { known: vec![(0, Evidence::default())], since: Evidence::default(), set: None }
    }
}

impl Parts {
    /// The number of the part that a table belongs to, and what is known of it.
    #[must_use]
    pub fn of(&self, table: usize) -> (usize, &Evidence) {
        let at = self.known.iter().rposition(|(first, _)| *first <= table).unwrap_or_default();
        (at, &self.known[at].1)
    }

    /// Reads a line.
    pub(super) fn take(&mut self, text: &str) {
        self.since.take(text);
    }

    /// A command was read after so many tables. Where it sets other variables than the one before, another
    /// run begins, of which only its own lines are known yet.
    pub(super) fn command(&mut self, text: &str, tables: usize) {
        let own = Evidence::of(text);
        let is_other = self.set.as_ref().is_some_and(|before| before != own.variables());
        self.set = Some(own.variables().clone());
        if is_other && tables > 0 {
            self.since.forget(own.variables());
            self.settle();
            self.known.push((tables, own));
        }
    }

    /// A table began, or the log ended.
    pub(super) fn settle(&mut self) {
        let since = std::mem::take(&mut self.since);
        if let Some((_, last)) = self.known.last_mut() {
            last.add(&since);
        }
    }
}

//! The runs of a log: a paste may hold several, each with variables of its own.

use std::collections::BTreeMap;

use super::evidence::Evidence;

/// What lines outside tables say, by the tables that they are about.
#[derive(Debug, Clone, PartialEq)]
pub struct Parts {
    /// The first table of each part, and what is known of it.
    known: Vec<(usize, Evidence)>,
    /// Lines since the last table began, or since its run ended.
    since: Evidence,
    /// Whether the run of the last table has ended: what follows is about the next one.
    ended: bool,
    /// What the last command set.
    set: Option<BTreeMap<String, String>>,
}

impl Default for Parts {
    fn default() -> Self {
        let known = vec![(0, Evidence::default())];
        Self { known, since: Evidence::default(), ended: false, set: None }
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
        let mut own = Evidence::of(text);
        let is_other = self.set.as_ref().is_some_and(|before| before != own.variables());
        self.set = Some(own.variables().clone());
        if is_other && tables > 0 {
            if std::mem::take(&mut self.ended) {
                let mut since = std::mem::take(&mut self.since);
                since.add(&own);
                own = since;
            } else {
                self.since.forget(own.variables());
                self.settle();
            }
            self.known.push((tables, own));
        }
    }

    /// The run of the last table has ended.
    pub(super) fn ended(&mut self) {
        self.settle();
        self.ended = true;
    }

    /// A table began. What its run adds to the one before is not known of that.
    pub(super) fn began(&mut self, table: usize) {
        if std::mem::take(&mut self.ended)
            && let Some((_, last)) = self.known.last()
            && last.lacks(&self.since)
        {
            self.known.push((table, last.clone()));
        }
        self.settle();
    }

    /// The log has ended. What hosts' tools say behind the last run is of its hosts; what is set there is of no run.
    pub(super) fn finish(&mut self) {
        if self.ended {
            self.since.unset();
        }
        self.settle();
    }

    /// What was read is of the last part.
    pub(super) fn settle(&mut self) {
        let since = std::mem::take(&mut self.since);
        if let Some((_, last)) = self.known.last_mut() {
            last.add(&since);
        }
    }
}

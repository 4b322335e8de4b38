//! What an algorithm declares about itself.

use std::borrow::Cow;
use std::fmt;

use super::Library;
use crate::base::collective::Collective;

/// Names, summary and source of an algorithm. No field has a default, so nothing goes undocumented.
#[derive(Debug)]
pub struct Meta {
    /// The name on the command line, such as `rabenseifner`.
    pub id: &'static str,
    /// The name in a table, such as `Rabenseifner (nearest first)`.
    pub title: &'static str,
    /// The operations that it implements.
    pub collectives: &'static [Collective],
    /// Other accepted names.
    pub aliases: &'static [&'static str],
    /// What libraries call it, and for which operations.
    pub known_as: &'static [(Library, &'static [Collective], &'static str)],
    /// One sentence: who sends what to whom.
    pub summary: &'static str,
    /// The paper or code that defines it.
    pub source: &'static str,
}

impl Meta {
    /// What `library` calls it for `collective`, if it ships it.
    #[must_use]
    pub fn name_in(&self, library: Library, collective: Collective) -> Option<&'static str> {
        let mut known = self.known_as.iter();
        known.find(|(l, c, _)| *l == library && c.contains(&collective)).map(|&(_, _, name)| name)
    }

    /// Whether `name` is its id or an alias.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        self.id == name || self.aliases.contains(&name)
    }
}

/// Why an algorithm does not apply, in words that end a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason(Cow<'static, str>);

impl Reason {
    /// A reason that is always the same.
    #[must_use]
    pub const fn new(text: &'static str) -> Self {
        Self(Cow::Borrowed(text))
    }
}

impl From<String> for Reason {
    fn from(text: String) -> Self {
        Self(Cow::Owned(text))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

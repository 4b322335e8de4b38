//! Settings: environment variables, and flags of an engine's command line.

use std::str::FromStr;

use crate::base::error::{Error, Result};

/// Variables with their values, as `NAME=VALUE`; a flag such as `--enable-mscclpp` is one too.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Variables(Vec<(String, String)>);

/// Whether two spellings name one variable: `--enable-mscclpp` is `ENABLE_MSCCLPP`.
pub(super) fn same(a: &str, b: &str) -> bool {
    let plain = |text: &str| text.trim_start_matches('-').replace('-', "_").to_ascii_uppercase();
    plain(a) == plain(b)
}

impl Variables {
    /// Adds `NAME=VALUE`; a name alone is switched on.
    ///
    /// # Errors
    /// A text without a name.
    pub fn put(&mut self, text: &str) -> Result<()> {
        let (name, value) = text.split_once('=').unwrap_or((text, "1"));
        let name = name.trim();
        if name.trim_start_matches('-').is_empty() {
            return Err(Error::input(format!("`{text}` does not name a variable"))
                .help("write NAME=VALUE, such as VLLM_ALLREDUCE_USE_SYMM_MEM=0"));
        }
        self.0.push((name.to_owned(), value.trim().to_owned()));
        Ok(())
    }

    /// The names, as they were written.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// Those of one name alone.
    pub(super) fn only(&self, name: &str) -> Self {
        Self(self.0.iter().filter(|(n, _)| same(n, name)).cloned().collect())
    }

    /// The last value of `name`.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(n, _)| same(n, name)).map(|(_, value)| value.as_str())
    }

    /// Whether `name` is switched on; `default` if it is not set.
    pub(super) fn is_on(&self, name: &str, default: bool) -> bool {
        self.get(name).map_or(default, |value| {
            !matches!(value.to_ascii_lowercase().as_str(), "0" | "false" | "no" | "off" | "")
        })
    }

    /// The value of `name` as a number.
    pub(super) fn number<T: FromStr>(&self, name: &str) -> Option<T> {
        self.get(name)?.parse().ok()
    }
}

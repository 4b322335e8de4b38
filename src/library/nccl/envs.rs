//! Environments as a table: each has a name and a shell line of settings.

use super::Settings;
use super::comms::records;
use crate::base::error::{Error, Result};

/// Reads a table with the columns `env` and `settings`.
///
/// # Errors
/// A missing column, settings that cannot be read, two lines with one name. Each names the line.
pub fn read(text: &str) -> Result<Vec<(String, Settings)>> {
    let mut found: Vec<(String, Settings)> = Vec::new();
    records(text, |record| {
        let name = record.text("env")?.to_owned();
        if found.iter().any(|(known, _)| *known == name) {
            return Err(Error::input(format!("`{name}` is already there"))
                .help("give every environment its own name"));
        }
        found.push((name, Settings::read(record.text("settings")?)?));
        Ok(())
    })?;
    Ok(found)
}

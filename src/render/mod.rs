//! Reports as text and JSON.

pub mod table;

use std::io::{self, Write};

use serde::Serialize;

/// Writes a report as one indented JSON document.
///
/// # Errors
/// The writer's.
pub fn json(out: &mut impl Write, report: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, report)?;
    out.write_all(b"\n")
}

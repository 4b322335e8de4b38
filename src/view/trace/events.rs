//! `--events`: JSON Lines, first a line with the data to check them, then one message per line.

use std::io::{self, Write};

use serde::Serialize;

use crate::answer::trace::{Event, Run};
use crate::base::error::Error;
use crate::cost::simulate::Timed;

/// Why the lines ended early.
#[derive(Debug)]
pub enum Lost {
    /// The simulation failed.
    Refused(Error),
    /// The writer failed.
    Io(io::Error),
}

/// Simulates the run and writes every message as it is reported.
///
/// # Errors
/// As [`Run::listen`]; the writer's.
pub fn events(out: &mut impl Write, run: &Run) -> Result<(), Lost> {
    // A run that is refused leaves no first line.
    let header = run.header();
    let mut first = true;
    let mut written = Ok(());
    let told = run.listen(&mut |message: &Timed<'_>| {
        if std::mem::take(&mut first) {
            written = line(out, &header);
        }
        if written.is_ok() {
            written = line(out, &Event::new(message, header.tiers.len()));
        }
    });
    told.map_err(Lost::Refused)?;
    written.map_err(Lost::Io)?;
    if first { line(out, &header).map_err(Lost::Io) } else { Ok(()) }
}

fn line(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}

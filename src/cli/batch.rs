//! `collcost batch`: JSON Lines in, JSON Lines out, in order, in constant memory.

use std::io::{self, BufRead, Write};

use super::Stop;
use collcost::answer::batch::Batch;
use collcost::model::algorithm::Registry;

#[derive(clap::Args)]
pub(super) struct Args {}

/// The longest question that is read; a longer line is answered with an error.
const LONGEST: usize = 1 << 20;

impl Args {
    pub(super) fn run(self, out: &mut impl Write) -> Result<(), Stop> {
        let mut batch = Batch::new(Registry::builtin(), super::profiles::find);
        let mut input = io::BufReader::with_capacity(1 << 16, io::stdin().lock());
        let mut line = Vec::new();
        let mut answers = Vec::with_capacity(1 << 16);
        while read_line(&mut input, &mut line)? {
            let text = String::from_utf8_lossy(&line);
            if !text.trim().is_empty() {
                batch.answer(text.trim_end(), &mut answers);
            }
            // Somebody may wait for this answer before asking the next question.
            if answers.len() > 1 << 15 || input.buffer().is_empty() {
                out.write_all(&answers)?;
                out.flush()?;
                answers.clear();
            }
        }
        out.write_all(&answers)?;
        Ok(())
    }
}

/// Reads one line, of which at most [`LONGEST`] bytes are kept; false at the end.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let mut any = false;
    loop {
        let available = input.fill_buf()?;
        if available.is_empty() {
            return Ok(any);
        }
        any = true;
        let end = available.iter().position(|&b| b == b'\n');
        let (taken, consumed) = end.map_or((available.len(), available.len()), |i| (i, i + 1));
        let room = LONGEST.saturating_sub(line.len());
        line.extend_from_slice(&available[..taken.min(room)]);
        input.consume(consumed);
        if end.is_some() {
            return Ok(true);
        }
    }
}

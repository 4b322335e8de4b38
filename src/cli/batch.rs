//! `collcost batch`: JSON Lines in, JSON Lines out, in order, in constant memory.

use std::io::{self, Write};

use super::{Stop, input};
use collcost::answer::batch::Batch;
use collcost::model::algorithm::Registry;

#[derive(clap::Args)]
pub(super) struct Args {}

impl Args {
    pub(super) fn run(self, out: &mut impl Write) -> Result<(), Stop> {
        let mut batch = Batch::new(Registry::builtin(), super::profiles::find);
        let mut questions = io::BufReader::with_capacity(1 << 16, io::stdin().lock());
        let mut line = Vec::new();
        let mut answers = Vec::with_capacity(1 << 16);
        while input::line(&mut questions, &mut line)? {
            let text = String::from_utf8_lossy(&line);
            if !text.trim().is_empty() {
                batch.answer(text.trim_end(), &mut answers);
            }
            // A client may wait for this answer before it asks the next question.
            if answers.len() > 1 << 15 || questions.buffer().is_empty() {
                out.write_all(&answers)?;
                out.flush()?;
                answers.clear();
            }
        }
        out.write_all(&answers)?;
        Ok(())
    }
}

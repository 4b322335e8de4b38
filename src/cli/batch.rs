//! `collcost batch`: JSON Lines in, JSON Lines out, in order, in constant memory.

use std::io::{self, IsTerminal as _, Write};

use super::{Stop, input, say};
use collcost::answer::batch::Batch;
use collcost::model::algorithm::Registry;

const EXAMPLE: &str =
    r#"{"kind":"expect","collective":"allreduce","n":8,"size_bytes":1048576,"profile":"dgx-h100"}"#;

#[derive(clap::Args)]
pub(super) struct Args {}

impl Args {
    pub(super) fn run(self, out: &mut impl Write) -> Result<(), Stop> {
        if io::stdin().is_terminal() {
            say(format_args!(
                "one question per line, such as {EXAMPLE}\nend with Ctrl-D; docs/reference/batch.md has all keys"
            ));
        }
        let (mut answered, mut failed) = (0_u64, 0_u64);
        let mut batch = Batch::new(Registry::builtin(), super::profiles::find);
        let mut questions = io::BufReader::with_capacity(1 << 16, io::stdin().lock());
        let mut line = Vec::new();
        let mut answers = Vec::with_capacity(1 << 16);
        loop {
            match input::line(&mut questions, &mut line)? {
                None => break,
                Some(Ok(text)) => {
                    // Some editors begin a file with a byte-order mark.
                    let question = text.strip_prefix('\u{feff}').unwrap_or(text).trim_end();
                    if !question.trim_start().is_empty() {
                        match batch.answer(question, &mut answers) {
                            true => answered += 1,
                            false => failed += 1,
                        }
                    }
                }
                Some(Err(error)) => {
                    Batch::refuse(&error, &mut answers);
                    failed += 1;
                }
            }
            // A client may wait for this answer before it asks the next question.
            if answers.len() > 1 << 15 || questions.buffer().is_empty() {
                out.write_all(&answers)?;
                out.flush()?;
                answers.clear();
            }
        }
        out.write_all(&answers)?;
        match (answered, failed) {
            (_, 0) => Ok(()),
            (0, _) => Err(Stop::Faults),
            _ => Err(Stop::Failed),
        }
    }
}

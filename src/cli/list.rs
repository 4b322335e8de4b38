//! `collcost list`: everything that has a name.

use std::io::Write;

use super::Stop;
use collcost::answer::list::{PARTS, list};
use collcost::model::algorithm::Registry;
use collcost::view::{self, explain::Notation};

#[derive(clap::Args)]
pub(super) struct Args {
    /// collectives, algorithms, libraries, policies, topics, contradictions, parameters or
    /// batch; all without it
    what: Option<String>,
    /// text, markdown or json
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "text",
        hide_possible_values = true,
        hide_default_value = true
    )]
    format: Format,
}

/// How a list is written.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    #[value(alias = "table")]
    Text,
    Markdown,
    Json,
}

impl Args {
    pub(super) fn run(self, out: &mut impl Write) -> Result<(), Stop> {
        let only = self.what.as_deref();
        let report = list(&Registry::builtin(), only)
            .map_err(|e| e.at(format!("list {}", only.unwrap_or(PARTS[0]))))?;
        match self.format {
            Format::Text => view::list::list(out, &report, Notation::Text)?,
            Format::Markdown => view::list::list(out, &report, Notation::Markdown)?,
            Format::Json => view::json(out, &report)?,
        }
        Ok(())
    }
}

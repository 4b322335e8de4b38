//! How budgets stand, for people and for the programs that gather results: one file a format.

mod github;
mod gitlab;
mod junit;
mod prometheus;
mod summary;
mod table;

use std::io::{self, Write};

use super::Look;
use crate::answer::check::Check;

pub use table::{table, thresholds};

/// A format of results.
pub struct Format {
    /// The name on the command line.
    pub id: &'static str,
    /// Whose it is, in a few words.
    pub summary: &'static str,
    /// Whether a file of it grows by each run.
    pub appends: bool,
    write: fn(&mut dyn Write, &Check, Look) -> io::Result<()>,
}

/// Every format, one line each.
pub static FORMATS: &[Format] = &[
    Format { id: "table", summary: "for people", appends: false, write: table },
    Format { id: "json", summary: "collcost/check/1", appends: false, write: json },
    Format { id: "junit", summary: "JUnit XML", appends: false, write: junit::junit },
    Format { id: "github", summary: "GitHub annotations", appends: false, write: github::github },
    Format {
        id: "summary",
        summary: "a GitHub step summary",
        appends: true,
        write: summary::summary,
    },
    Format { id: "gitlab", summary: "GitLab code quality", appends: false, write: gitlab::gitlab },
    Format {
        id: "prometheus",
        summary: "Prometheus text",
        appends: false,
        write: prometheus::prometheus,
    },
];

impl Format {
    /// The format called `id`.
    #[must_use]
    pub fn named(id: &str) -> Option<&'static Self> {
        FORMATS.iter().find(|format| format.id == id)
    }

    /// Writes the report.
    ///
    /// # Errors
    /// The writer's.
    pub fn write(&self, out: &mut dyn Write, report: &Check, look: Look) -> io::Result<()> {
        (self.write)(out, report, look)
    }
}

fn json(out: &mut dyn Write, report: &Check, _: Look) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, report)?;
    out.write_all(b"\n")
}

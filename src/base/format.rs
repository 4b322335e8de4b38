//! Output formats: one table, from which flags, settings and help are derived.

use std::str::FromStr;

use super::error::{Error, advice};

/// An output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For a terminal.
    Text,
    /// A Markdown document.
    Markdown,
    /// The page's tables in base units.
    Csv,
    /// The whole report.
    Json,
    /// A part of a LaTeX document.
    Latex,
    /// As nccl-tests prints its results.
    NcclTests,
    /// A Mermaid diagram.
    Mermaid,
    /// A Graphviz graph.
    Dot,
    /// A timeline that Chrome and Perfetto open.
    Chrome,
    /// As NCCL dumps it.
    Xml,
    /// As NCCL prints it.
    Log,
    /// A profile's file.
    Toml,
    /// Samples, one per line.
    Jsonl,
    /// `JUnit` XML.
    Junit,
    /// GitHub annotations.
    Github,
    /// A step summary of GitHub Actions.
    Summary,
    /// GitLab code quality.
    Gitlab,
    /// Prometheus text, and OpenMetrics.
    Prometheus,
    /// Issues for Jenkins' warnings plugin.
    Jenkins,
    /// SARIF 2.1.0.
    Sarif,
    /// One self-contained HTML file.
    Html,
}

/// The properties of a format.
struct Entry {
    format: Format,
    id: &'static str,
    aliases: &'static [&'static str],
    summary: &'static str,
}

const fn entry(
    format: Format,
    id: &'static str,
    aliases: &'static [&'static str],
    summary: &'static str,
) -> Entry {
    Entry { format, id, aliases, summary }
}

/// Every format, one line each.
static FORMATS: &[Entry] = &[
    entry(Format::Text, "text", &["table"], "for reading in a terminal"),
    entry(Format::Markdown, "markdown", &["md"], "a document"),
    entry(Format::Csv, "csv", &[], "the table, in base units where no heading names another"),
    entry(Format::Json, "json", &[], "the whole report, as in docs/schema"),
    entry(Format::Latex, "latex", &["tex"], "a part of a document"),
    entry(Format::NcclTests, "nccl-tests", &[], "as nccl-tests prints its results"),
    entry(Format::Mermaid, "mermaid", &[], "a Mermaid diagram"),
    entry(Format::Dot, "dot", &[], "a Graphviz graph"),
    entry(Format::Chrome, "chrome", &["perfetto"], "a timeline for Chrome and Perfetto"),
    entry(Format::Xml, "xml", &[], "as in an NCCL_GRAPH_DUMP_FILE"),
    entry(Format::Log, "log", &[], "as NCCL_DEBUG prints it"),
    entry(Format::Toml, "toml", &[], "a profile's file"),
    entry(Format::Jsonl, "jsonl", &[], "samples for fit, one per line"),
    entry(Format::Junit, "junit", &[], "JUnit XML"),
    entry(Format::Github, "github", &[], "GitHub annotations"),
    entry(Format::Summary, "summary", &[], "a GitHub step summary"),
    entry(Format::Gitlab, "gitlab", &[], "GitLab code quality"),
    entry(Format::Prometheus, "prometheus", &["openmetrics"], "Prometheus text, and OpenMetrics"),
    entry(Format::Jenkins, "jenkins", &[], "issues for Jenkins' warnings plugin"),
    entry(Format::Sarif, "sarif", &[], "SARIF 2.1.0, for code scanning"),
    entry(Format::Html, "html", &[], "one self-contained HTML file"),
];

impl Format {
    /// Every format.
    pub fn all() -> impl Iterator<Item = Self> {
        FORMATS.iter().map(|entry| entry.format)
    }

    fn entry(self) -> &'static Entry {
        // The table has every format in the order of the enumeration; a test checks this.
        &FORMATS[self as usize]
    }

    /// Its name.
    #[must_use]
    pub fn id(self) -> &'static str {
        self.entry().id
    }

    /// Other names.
    #[must_use]
    pub fn aliases(self) -> &'static [&'static str] {
        self.entry().aliases
    }

    /// What it is, in a few words.
    #[must_use]
    pub fn summary(self) -> &'static str {
        self.entry().summary
    }

    /// The format of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let is = |e: &&Entry| e.id == name || e.aliases.contains(&name);
        FORMATS.iter().find(is).map(|e| e.format)
    }
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::named(text).ok_or_else(|| {
            let known = FORMATS.iter().map(|e| e.id);
            Error::input(format!("`{text}` is not a format")).help(advice(text, known))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_formats_and_back() {
        for (i, format) in Format::all().enumerate() {
            assert_eq!(format as usize, i);
            let names = std::iter::once(format.id()).chain(format.aliases().iter().copied());
            assert!(names.into_iter().all(|name| Format::named(name) == Some(format)));
        }
    }
}

//! `--format`: which formats a verb has, and the code that writes every report.

use std::io::Write;
use std::marker::PhantomData;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde::Serialize;

use super::Stop;
use super::config::settings;
use super::terminal::look;
use collcost::base::error::{Error, Result};
use collcost::base::format::Format;
use collcost::base::words::either;
use collcost::view::{Look, page, page::Page};

/// The formats that a verb has.
pub(super) trait Formats {
    const ALL: &'static [Format];
    /// An alias of the flag.
    const ALIAS: Option<&'static str> = None;
}

/// Declares a verb's formats: those of every report, and its own.
macro_rules! formats {
    ($(#[$about:meta])* $name:ident $(, $own:ident)* $(; $alias:literal)?) => {
        $(#[$about])*
        #[derive(Clone, Copy, Default)]
        pub(super) struct $name;

        impl Formats for $name {
            const ALL: &'static [Format] = &[
                Format::Text,
                Format::Markdown,
                Format::Csv,
                Format::Json,
                Format::Latex,
                $(Format::$own,)*
            ];
            $(const ALIAS: Option<&'static str> = Some($alias);)?
        }
    };
}

formats!(
    /// What every report has.
    Report
);
formats!(
    /// A sweep over sizes can also be printed as nccl-tests does.
    OfSweep, NcclTests
);
formats!(
    /// A schedule can also be written as a graph.
    OfTrace, Mermaid, Dot, Chrome
);
formats!(
    /// NCCL's graphs as NCCL writes them.
    OfGraphs, Xml, Log
);
formats!(
    /// NCCL's tables as NCCL prints them.
    OfTables, Log
);
formats!(
    /// A profile can also be written as its own file.
    OfProfile, Toml
);
formats!(
    /// Logs can also be written as samples.
    OfLogs, Jsonl; "to"
);
formats!(
    /// Verdicts for the programs that gather results.
    OfRuns, Prometheus, Html
);
formats!(
    /// Budgets for the programs that gather results.
    OfBudgets, Junit, Github, Summary, Gitlab, Prometheus, Jenkins, Sarif
);

// `--format` of a verb; a doc comment here would be taken for the help of the whole verb.
#[derive(Clone, Default, clap::Args)]
pub(super) struct FormatFlag<V: Formats> {
    #[arg(
        long,
        visible_alias = V::ALIAS,
        value_name = "FORMAT",
        help = names::<V>(),
        value_parser = parser::<V>(),
        hide_possible_values = true
    )]
    format: Option<Format>,
    #[arg(skip)]
    of: PhantomData<V>,
}

/// `text, markdown, csv or json`; a format of few verbs with its other name: `prometheus (openmetrics)`.
pub(super) fn names<V: Formats>() -> String {
    let name = |format: &Format| match format.aliases() {
        [also, ..] if !Report::ALL.contains(format) => format!("{} ({also})", format.id()),
        _ => format.id().to_owned(),
    };
    let names: Vec<String> = V::ALL.iter().map(name).collect();
    either(&names.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Reads the name of one of a verb's formats.
pub(super) fn parser<V: Formats>() -> impl TypedValueParser<Value = Format> {
    let value = |format: &Format| {
        PossibleValue::new(format.id()).aliases(format.aliases()).help(format.summary())
    };
    PossibleValuesParser::new(V::ALL.iter().map(value)).try_map(|name| name.parse::<Format>())
}

/// The format of the flag, else that of the settings if this verb has it, else text.
pub(super) fn chosen<V: Formats>(typed: Option<Format>) -> Result<Format> {
    if let Some(typed) = typed {
        return Ok(typed);
    }
    let settled = settings()?.get("format").and_then(|s| Format::named(&s.value));
    Ok(settled.filter(|format| V::ALL.contains(format)).unwrap_or(Format::Text))
}

impl<V: Formats> FormatFlag<V> {
    /// What was typed.
    pub(super) fn typed(&self) -> Option<Format> {
        self.format
    }

    /// How the answer is written.
    pub(super) fn get(&self) -> Result<Format> {
        chosen::<V>(self.format)
    }

    /// Writes a report: as JSON itself, else its page.
    pub(super) fn write<R: Serialize>(
        &self,
        out: &mut impl Write,
        report: &R,
        page: impl FnOnce(Look) -> Page,
    ) -> std::result::Result<(), Stop> {
        write(self.get()?, out, report, page)
    }
}

/// Writes a report in a format that every report has.
pub(super) fn write<R: Serialize>(
    format: Format,
    out: &mut impl Write,
    report: &R,
    page: impl FnOnce(Look) -> Page,
) -> std::result::Result<(), Stop> {
    match format {
        Format::Json => collcost::view::json(out, report)?,
        format if page::has(format) => {
            let look = if format == Format::Text { look() } else { Look::document() };
            page(look).write(out, format, look)?;
        }
        other => {
            return Err(Error::input("this answer cannot be written in that format")
                .at(format!("--format {}", other.id()))
                .help(format!("write {}", names::<Report>()))
                .into());
        }
    }
    out.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    /// Every command below, with the words that lead to it.
    fn walk(command: &clap::Command, words: &str, found: &mut Vec<(String, clap::Command)>) {
        for one in command.get_subcommands() {
            let words = format!("{words} {}", one.get_name()).trim().to_owned();
            found.push((words.clone(), one.clone()));
            walk(one, &words, found);
        }
    }

    #[test]
    fn other_names_of_a_few_verbs_formats_are_in_the_help() {
        let names = names::<OfBudgets>();
        assert!(names.starts_with("text, markdown, csv, json, latex, junit"), "{names}");
        assert!(names.contains("prometheus (openmetrics), jenkins"), "{names}");
    }

    #[test]
    fn every_verb_with_a_format_has_all_of_a_report() {
        let mut command = Cli::command();
        command.build();
        let mut verbs = Vec::new();
        walk(&command, "", &mut verbs);
        let asked = include_str!("../../tests/data/formats.txt");
        let mut formatted = 0;
        for (verb, command) in &verbs {
            let is_format = |flag: &&clap::Arg| flag.get_long() == Some("format");
            let Some(flag) = command.get_arguments().find(is_format) else { continue };
            let known: Vec<String> =
                flag.get_possible_values().iter().map(|v| v.get_name().to_owned()).collect();
            for format in Report::ALL {
                assert!(known.iter().any(|k| k == format.id()), "{verb}: {known:?}");
            }
            let is_asked = |line: &str| line == verb || line.starts_with(&format!("{verb} "));
            assert!(asked.lines().any(is_asked), "tests/data/formats.txt lacks {verb}");
            formatted += 1;
        }
        assert!(formatted > 30, "{formatted} verbs have --format");
    }
}

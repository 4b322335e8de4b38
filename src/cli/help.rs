//! The first screen, and the help with verbs by what they are for.

use std::fmt::Write as _;
use std::io::{self, Write};

use clap::CommandFactory;
use clap::builder::StyledStr;

use super::Cli;

/// What stands on the screen where nothing was asked.
const FIRST: &str = "\
collcost: what a collective operation costs, which algorithm to use, and why

  collcost allreduce 16MiB -n 64                 all algorithms, 8 x DGX H100
  collcost allreduce -n 64 --on p5.48xlarge      the best at every size, on AWS
  collcost explain allreduce ring 16MiB -n 64    why: formula, numbers, bound
  collcost select nccl allreduce -n 64           what NCCL takes at every size
  collcost convert 120GB/s algbw busbw -n 16     what nccl-tests' numbers mean

collectives  allreduce allgather reducescatter alltoall broadcast reduce
             scatter gather sendrecv barrier
machines     collcost profiles; dgx-h100 where none is named
topics       collcost explain terms | busbw | map | nvls; collcost list topics
help         collcost --help; collcost allreduce --help
";

/// Verbs by what they are for, in the order of the help.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "Ask",
        &[
            "allreduce",
            "allgather",
            "reducescatter",
            "alltoall",
            "broadcast",
            "reduce",
            "scatter",
            "gather",
            "sendrecv",
            "barrier",
            "explain",
            "explore",
            "simulate",
            "trace",
            "export",
            "convert",
            "mock",
            "batch",
        ],
    ),
    ("Plan", &["plan", "bucket"]),
    ("Choose", &["crossover", "select", "nccl", "list"]),
    #[cfg(target_os = "linux")]
    ("Measure", &["calibrate", "run", "import", "fit", "compare", "accuracy", "profiles"]),
    #[cfg(not(target_os = "linux"))]
    ("Measure", &["import", "fit", "compare", "accuracy", "profiles"]),
    ("Check", &["check", "verify", "config"]),
    ("Set up", &["completions", "man", "help"]),
];

/// Writes the first screen.
pub(super) fn first(out: &mut impl Write) -> io::Result<()> {
    out.write_all(FIRST.as_bytes())
}

/// Writes the help; Clap leaves out the colours where they are not wanted.
pub(super) fn grouped() -> io::Result<()> {
    let command = Cli::command();
    let text = text(&command);
    command.override_help(text).print_help()
}

fn text(command: &clap::Command) -> StyledStr {
    let styles = command.get_styles();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let mut text = String::new();
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{about}\n");
    let _ = writeln!(text, "{header}Usage:{header:#} {literal}collcost{literal:#} <VERB>");
    for (group, verbs) in GROUPS {
        let _ = writeln!(text, "\n{header}{group}:{header:#}");
        for verb in *verbs {
            let what = match command.find_subcommand(verb).and_then(clap::Command::get_about) {
                Some(about) => about.to_string(),
                None => "This help, or a verb's".to_owned(),
            };
            let _ = writeln!(text, "  {literal}{verb:<13}{literal:#}  {what}");
        }
    }
    let _ = write!(text, "\n{header}Options:{header:#}");
    let _ = write!(text, "\n  {literal}-h{literal:#}, {literal}--help{literal:#}     Print help");
    let _ =
        writeln!(text, "\n  {literal}-V{literal:#}, {literal}--version{literal:#}  Print version");
    let _ = writeln!(text, "\n{}", super::EXAMPLES);
    let _ = write!(text, "\n{}", super::EXIT_CODES);
    StyledStr::from(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_stands_in_one_group() {
        let command = Cli::command();
        let mut grouped: Vec<&str> =
            GROUPS.iter().flat_map(|(_, verbs)| verbs.iter().copied()).collect();
        let mut known: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        known.push("help");
        grouped.sort_unstable();
        known.sort_unstable();
        assert_eq!(grouped, known);
    }

    #[test]
    fn both_screens_fit() {
        assert!(FIRST.lines().count() <= 20);
        let help = text(&Cli::command()).to_string();
        for line in FIRST.lines().chain(help.lines()) {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}

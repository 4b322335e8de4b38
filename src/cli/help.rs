//! The first screen, and the help with the verbs grouped by purpose.

use std::fmt::Write as _;
use std::io::{self, Write};

use clap::CommandFactory;
use clap::builder::StyledStr;

use super::verbs::GROUPS;
use super::{Cli, terminal};

/// The screen without any arguments.
const FIRST: &str = "\
collcost: what a collective operation costs, which algorithm to use, and why

  collcost allreduce 16MiB -n 64                 expected time on 8 x DGX H100
  collcost allreduce -n 64 --on p5.48xlarge      the best at every size, on AWS
  collcost explain allreduce ring 16MiB -n 64    why: formula, numbers, bound
  collcost choose nccl allreduce -n 64           what NCCL runs at every size
  collcost convert 120GB/s algbw busbw -n 16     what nccl-tests' numbers mean

collectives  allreduce allgather reducescatter alltoall broadcast reduce
             scatter gather sendrecv barrier
machines     collcost profiles; the default is dgx-h100
topics       collcost explain terms | busbw | map | nvls; collcost list topics
help         collcost --help; collcost allreduce --help
";

/// What the verb of a collective prints.
const COLLECTIVE: &str = "Expected time, what runs, every algorithm's ideal cost";

/// Writes the first screen.
pub(super) fn first(out: &mut impl Write) -> io::Result<()> {
    out.write_all(FIRST.as_bytes())
}

/// Writes the help; Clap leaves out the colours where they are unwanted.
pub(super) fn grouped() -> io::Result<()> {
    let command = Cli::command();
    let text = text(&command);
    let mut command = command.override_help(text);
    match terminal::is_ascii_only() {
        true => write!(terminal::Ascii::new(io::stdout()), "{}", command.render_help()),
        false => command.print_help(),
    }
}

/// Writes help to standard output and errors to standard error.
pub(super) fn print(message: &clap::Error) -> io::Result<()> {
    match (terminal::is_ascii_only(), message.use_stderr()) {
        (false, _) => message.print(),
        (true, false) => write!(terminal::Ascii::new(io::stdout()), "{}", message.render()),
        (true, true) => write!(terminal::Ascii::new(io::stderr()), "{}", message.render()),
    }
}

fn text(command: &clap::Command) -> StyledStr {
    let styles = command.get_styles();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let mut text = String::new();
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{about}\n");
    let _ = writeln!(text, "{header}Usage:{header:#} {literal}collcost{literal:#} <VERB>");
    for (place, (group, verbs)) in GROUPS.iter().enumerate() {
        let _ = writeln!(text, "\n{header}{group}:{header:#}");
        let verbs: Vec<String> = verbs.iter().map(|verb| verb.to_lowercase()).collect();
        if place == 0 {
            let _ = writeln!(text, "  {literal}<collective>{literal:#}   {COLLECTIVE}");
        }
        if place == 0 || place + 1 == GROUPS.len() {
            for names in verbs.chunks(5) {
                let _ = writeln!(text, "  {:<13}  {literal}{}{literal:#}", "", names.join(" "));
            }
            continue;
        }
        for verb in verbs {
            let about = command.find_subcommand(&verb).and_then(clap::Command::get_about);
            let what = about.map(ToString::to_string).unwrap_or_default();
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
    use std::collections::BTreeMap;

    use super::*;

    fn walk<'a>(command: &'a clap::Command, verbs: &mut Vec<&'a clap::Command>) {
        for verb in command.get_subcommands() {
            verbs.push(verb);
            walk(verb, verbs);
        }
    }

    /// A line that is longer would be broken where it hurts most, in an example.
    #[test]
    fn no_line_below_the_flags_is_broken() {
        let command = Cli::command();
        let mut verbs = Vec::new();
        walk(&command, &mut verbs);
        let after = |verb: &clap::Command| verb.get_after_help().map(ToString::to_string);
        for text in verbs.into_iter().filter_map(after) {
            let long = text.lines().find(|line| line.chars().count() > 100);
            assert_eq!(long, None);
        }
    }

    #[test]
    fn the_short_help_of_a_verb_is_short_and_its_own() {
        let mut command = Cli::command();
        command.build();
        let mut verbs = Vec::new();
        walk(&command, &mut verbs);
        let mut said = BTreeMap::new();
        for verb in verbs.into_iter().filter(|verb| verb.get_name() != "help") {
            let name = verb.get_bin_name().unwrap_or_default();
            let short =
                |flag: &&clap::Arg| flag.get_long().is_some() && !flag.is_hide_short_help_set();
            let flags = verb.get_arguments().filter(short).count();
            assert!(flags <= 15, "{name} -h has {flags} flags");
            // A doc comment of flattened flags would take the place of the verb's own line.
            let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
            if let Some(other) = said.insert(about.clone(), name) {
                assert!(about.is_empty() || name.contains("help"), "{name} and {other}: {about}");
            }
        }
    }

    /// A barrier refuses sizes, and what is typed first is a verb in every usage line.
    #[test]
    fn usage_lines_say_what_is_taken() {
        let mut command = Cli::command();
        command.build();
        let mut verbs = vec![&command];
        walk(&command, &mut verbs);
        for verb in &verbs {
            let usage = (*verb).clone().render_usage().to_string();
            assert!(!usage.contains("COMMAND") || verb.get_name() == "help", "{usage}");
        }
        let help = |name: &str| {
            let verb = command.find_subcommand(name).unwrap();
            verb.clone().render_long_help().to_string()
        };
        for size in ["[SIZE]", "--size ", "--size-is", "--minbytes", "--maxbytes", "--stepfactor"] {
            assert!(help("reduce").contains(size) && !help("barrier").contains(size), "{size}");
        }
    }

    #[test]
    fn both_screens_fit() {
        assert!(FIRST.lines().count() <= 20);
        let help = text(&Cli::command()).to_string();
        let verbs = |line: &&str| line.starts_with("  ") && !line.starts_with("   ");
        let listed = help.split("Options:").next().unwrap_or("").lines().filter(verbs).count();
        assert!((10..=20).contains(&listed), "{listed} verbs");
        for line in FIRST.lines().chain(help.lines()) {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}

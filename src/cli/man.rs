//! `collcost man`: the manual page of the command, or of one verb.

use std::io::Write;

use clap::CommandFactory;

use super::Stop;
use collcost::base::error::{Error, nearest};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  collcost man | man -l -
  collcost man nccl choose | man -l -
  collcost man allreduce > ~/.local/share/man/man1/collcost-allreduce.1")]
pub(super) struct Args {
    /// A verb, such as allreduce or nccl choose; without it the page of the whole command
    verb: Vec<String>,
}

impl Args {
    pub(super) fn run(self, out: &mut impl Write) -> Result<(), Stop> {
        let mut whole = super::Cli::command();
        whole.build();
        let mut command = &whole;
        for verb in &self.verb {
            command = command.find_subcommand(verb).ok_or_else(|| self.unknown(verb, command))?;
        }
        // A page is called `collcost-allreduce`, like those of git's verbs.
        let mut name = "collcost".to_owned();
        for verb in &self.verb {
            name = format!("{name}-{verb}");
        }
        let name: &'static str = Box::leak(name.into_boxed_str());
        clap_mangen::Man::new(command.clone().name(name)).render(out)?;
        Ok(write!(out, "{}", exit_status())?)
    }

    /// `verb` stands where `command` has none of that name.
    fn unknown(&self, verb: &str, command: &clap::Command) -> Error {
        let names: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        let help = match nearest(verb, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if names.is_empty() => format!("`{}` has no verbs of its own", command.get_name()),
            None => format!("known are {}", names.join(", ")),
        };
        Error::input(format!("`{verb}` is no verb"))
            .at(format!("man {}", self.verb.join(" ")))
            .help(help)
    }
}

/// The exit codes as a section of a page.
fn exit_status() -> String {
    let mut section = ".SH EXIT STATUS\n".to_owned();
    for line in super::EXIT_CODES.lines().skip(1) {
        match line.trim_start().split_once("  ") {
            Some((code, what)) => section += &format!(".TP\n{code}\n{}\n", what.trim()),
            None => section += &format!(".PP\n{line}\n"),
        }
    }
    section
}

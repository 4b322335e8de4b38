//! `collcost completions`: a script that completes verbs, flags, and names of machines, algorithms and policies.

use std::io::Write;

use clap::builder::{PossibleValuesParser, Str};
use clap::{Arg, Command, CommandFactory};
use clap_complete::aot::{Bash, Elvish, Fish, Generator, PowerShell, Zsh};
use clap_complete_nushell::Nushell;

use super::Stop;
use collcost::answer::list::{PARTS, list};
use collcost::model::algorithm::Registry;
use collcost::plan::preset_names;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  collcost completions bash > ~/.local/share/bash-completion/completions/collcost
  collcost completions zsh > ~/.zfunc/_collcost
  collcost completions fish > ~/.config/fish/completions/collcost.fish
  collcost completions nushell | save ~/.config/nushell/autoload/collcost.nu
  collcost completions powershell >> $PROFILE")]
pub(super) struct Args {
    /// The shell
    shell: Shell,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
    #[value(alias = "nu")]
    Nushell,
    Powershell,
    Elvish,
}

impl Shell {
    fn generator(self) -> &'static dyn Generator {
        match self {
            Self::Bash => &Bash,
            Self::Zsh => &Zsh,
            Self::Fish => &Fish,
            Self::Nushell => &Nushell,
            Self::Powershell => &PowerShell,
            Self::Elvish => &Elvish,
        }
    }
}

impl Args {
    pub(super) fn run(self, out: &mut impl Write) -> Result<(), Stop> {
        let mut command = super::Cli::command();
        command.set_bin_name("collcost");
        command.build();
        let mut command = with_names(command)?;
        if matches!(self.shell, Shell::Zsh) {
            command = escaped(command);
        }
        // The generator aborts the process if a write fails, but a closed pipe is success.
        let mut script = Vec::new();
        self.shell.generator().generate(&command, &mut script);
        Ok(out.write_all(&script)?)
    }
}

/// The command with the names that arguments take: Clap does not know them, since their own parsers do.
fn with_names(command: Command) -> Result<Command, Stop> {
    let registry = Registry::builtin();
    let part = |what| Ok::<Vec<_>, Stop>(list(&registry, Some(what))?.names().collect());
    let known = Known {
        machines: part("machines")?,
        collectives: part("collectives")?,
        algorithms: part("algorithms")?,
        policies: part("policies")?,
        topics: part("topics")?,
        formats: super::export::formats().collect(),
        parts: PARTS.to_vec(),
        presets: preset_names().collect(),
    };
    Ok(known.fill(command))
}

/// What follows a colon of a value's name would be run by zsh.
fn escaped(command: Command) -> Command {
    let escaped_name = |name: &Str| -> &'static str {
        // Clap takes no names that are made at run time.
        Box::leak(name.replace(':', "\\:").into_boxed_str())
    };
    let command = command.mut_args(|arg| match arg.get_value_names() {
        Some(names) if names.iter().any(|name| name.contains(':')) => {
            let names: Vec<&str> = names.iter().map(escaped_name).collect();
            arg.value_names(names)
        }
        _ => arg,
    });
    command.mut_subcommands(escaped)
}

struct Known {
    machines: Vec<&'static str>,
    collectives: Vec<&'static str>,
    algorithms: Vec<&'static str>,
    policies: Vec<&'static str>,
    topics: Vec<&'static str>,
    formats: Vec<&'static str>,
    parts: Vec<&'static str>,
    presets: Vec<&'static str>,
}

impl Known {
    fn fill(&self, command: Command) -> Command {
        let verb = command.get_name().to_owned();
        let command = command.mut_args(|arg| match self.names(&verb, &arg) {
            names if names.is_empty() || !arg.get_possible_values().is_empty() => arg,
            names => arg.value_parser(PossibleValuesParser::new(names)),
        });
        command.mut_subcommands(|verb| self.fill(verb))
    }

    /// None for what is mostly a file: zsh and fish complete names or files. Of machines it is the names.
    fn names(&self, verb: &str, arg: &Arg) -> Vec<&'static str> {
        let lists: &[&Vec<&str>] = match (verb, arg.get_long()) {
            (_, Some("on")) => &[&self.machines],
            (_, Some("algorithm")) => &[&self.algorithms],
            (_, Some("policy" | "vs")) => &[&self.policies],
            (_, Some("preset")) => &[&self.presets],
            (_, Some(_)) => &[],
            ("explain", None) if arg.get_id() == "what" => &[&self.collectives, &self.topics],
            ("choose", None) => &[&self.policies, &self.collectives],
            ("list", None) => &[&self.parts],
            ("export", None) if arg.get_id() == "format" => &[&self.formats],
            (_, None) => {
                let value = arg.get_value_names().unwrap_or_default().join(" ");
                if value.contains("ALGORITHM") {
                    &[&self.algorithms]
                } else if value.contains("COLLECTIVE") && !value.contains("LOG") {
                    &[&self.collectives]
                } else if value == "NAME|FILE" {
                    &[&self.machines]
                } else {
                    &[]
                }
            }
        };
        lists.iter().flat_map(|list| list.iter().copied()).collect()
    }
}

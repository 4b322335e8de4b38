//! `collcost man`: the manual page of the command, or of one verb.

use std::io::Write;

use clap::CommandFactory;

use super::Stop;
use collcost::error::{Error, nearest};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  collcost man | man -l -
  collcost man allreduce > ~/.local/share/man/man1/collcost-allreduce.1")]
pub(super) struct Args {
    /// A verb; without it the page of the whole command
    verb: Option<String>,
}

impl Args {
    pub(super) fn run(self, out: &mut impl Write) -> Result<(), Stop> {
        let mut command = super::Cli::command();
        command.build();
        let page = match &self.verb {
            None => command,
            Some(verb) => {
                let names: Vec<&str> =
                    command.get_subcommands().map(clap::Command::get_name).collect();
                let near =
                    nearest(verb, names.iter().copied()).map(|n| format!("did you mean `{n}`?"));
                let Some(found) = command.find_subcommand(verb) else {
                    return Err(Error::input(format!("`{verb}` is no verb"))
                        .at(format!("man {verb}"))
                        .mend(near.unwrap_or_else(|| format!("known are {}", names.join(", "))))
                        .into());
                };
                // A page is called `collcost-allreduce`, like those of git's verbs.
                let name: &'static str = Box::leak(format!("collcost-{verb}").into_boxed_str());
                found.clone().name(name)
            }
        };
        Ok(clap_mangen::Man::new(page).render(out)?)
    }
}

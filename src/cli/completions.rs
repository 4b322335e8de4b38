//! `collcost completions`: a script that completes verbs and flags.

use std::io::Write;

use clap::CommandFactory;

use super::Stop;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  collcost completions bash > ~/.local/share/bash-completion/completions/collcost
  collcost completions zsh > ~/.zfunc/_collcost
  collcost completions fish > ~/.config/fish/completions/collcost.fish")]
pub(super) struct Args {
    /// The shell
    shell: clap_complete::Shell,
}

impl Args {
    pub(super) fn run(self, out: &mut impl Write) -> Result<(), Stop> {
        // The generator ends the process where the writer fails: a closed pipe is to be success.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut super::Cli::command(), "collcost", &mut script);
        Ok(out.write_all(&script)?)
    }
}

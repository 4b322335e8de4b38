//! `collcost completions`: a script that completes verbs and flags.

use std::io::Write;

use clap::CommandFactory;
use clap_complete::aot::{Bash, Elvish, Fish, Generator, PowerShell, Zsh};
use clap_complete_nushell::Nushell;

use super::Stop;

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
        // The generator aborts the process if a write fails, but a closed pipe is success.
        let mut script = Vec::new();
        self.shell.generator().generate(&command, &mut script);
        Ok(out.write_all(&script)?)
    }
}

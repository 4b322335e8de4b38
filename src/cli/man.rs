//! `collcost man`: the manual page of the command, or of one verb.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use clap::builder::Resettable;

use super::Stop;
use super::output::write_whole;
use collcost::base::error::{Error, nearest};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  collcost man | man -l -
  collcost man nccl choose | man -l -
  collcost man allreduce > ~/.local/share/man/man1/collcost-allreduce.1
  collcost man --out ~/.local/share/man/man1")]
pub(super) struct Args {
    /// A verb, such as allreduce or nccl choose; default: the page of the whole command
    verb: Vec<String>,
    /// Write all pages into this folder, which must exist
    #[arg(long, value_name = "FOLDER", conflicts_with = "verb")]
    out: Option<PathBuf>,
}

impl Args {
    pub(super) fn run(self, out: &mut impl Write) -> Result<(), Stop> {
        let mut whole = super::Cli::command();
        whole.build();
        if let Some(folder) = &self.out {
            return Ok(pages(&whole, "collcost", folder)?);
        }
        let mut command = &whole;
        for verb in &self.verb {
            command = command.find_subcommand(verb).ok_or_else(|| self.unknown(verb, command))?;
        }
        // A page is called `collcost-allreduce`, like those of git's verbs.
        let name =
            self.verb.iter().fold("collcost".to_owned(), |name, verb| format!("{name}-{verb}"));
        Ok(out.write_all(&page(command, name))?)
    }

    /// The error for a `verb` that `command` does not have.
    fn unknown(&self, verb: &str, command: &clap::Command) -> Error {
        let names: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        let help = match nearest(verb, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if names.is_empty() => format!("`{}` has no verbs", command.get_name()),
            None => format!("known verbs: {}", names.join(", ")),
        };
        Error::input(format!("`{verb}` is not a verb"))
            .at(format!("man {}", self.verb.join(" ")))
            .help(help)
    }
}

/// Writes the page of a command and those of its verbs.
fn pages(command: &clap::Command, name: &str, folder: &Path) -> Result<(), Error> {
    let text = page(command, name.to_owned());
    write_whole("--out", &folder.join(format!("{name}.1")), String::from_utf8_lossy(&text))?;
    command
        .get_subcommands()
        .filter(|verb| verb.get_name() != "help" && !verb.is_hide_set())
        .try_for_each(|verb| pages(verb, &format!("{name}-{}", verb.get_name()), folder))
}

fn page(command: &clap::Command, name: String) -> Vec<u8> {
    let mut page = Vec::new();
    let name: &'static str = Box::leak(name.into_boxed_str());
    // Writing to memory cannot fail.
    // What the short help leaves out is without a word otherwise.
    let whole = command.clone().name(name).after_help(Resettable::Reset);
    let whole = whole.mut_args(|arg| also_called(arg.hide_short_help(false)));
    let version = concat!("collcost ", env!("CARGO_PKG_VERSION"));
    // No date, so that the same program writes the same page; what is empty would not be written at all.
    let _ = clap_mangen::Man::new(whole).date(" ").source(version).render(&mut page);
    let after = command.get_after_help().map_or(String::new(), ToString::to_string);
    page.extend_from_slice(below(&after).as_bytes());
    page.extend_from_slice(exit_status().as_bytes());
    page
}

/// What stands below the flags: examples and files as they are typed, which no line is broken of, and paragraphs.
fn below(text: &str) -> String {
    let (mut page, mut typed) = (String::new(), false);
    for line in text.lines() {
        let is_typed = line.starts_with("  ") || typed && line.is_empty();
        match (typed, is_typed) {
            (false, true) => page += ".PP\n.nf\n",
            (true, false) => page += ".fi\n",
            _ => {}
        }
        typed = is_typed;
        match line {
            "Examples:" => page += ".SH EXAMPLES\n",
            "" if !typed => page += ".PP\n",
            _ => {
                let plain = line.replace('\\', "\\e").replace('-', "\\-");
                let guard = if plain.starts_with(['.', '\'']) { "\\&" } else { "" };
                page += &format!("{guard}{plain}\n");
            }
        }
    }
    if typed {
        page += ".fi\n";
    }
    let begins = page.is_empty() || page.starts_with(".SH");
    format!("{}{page}", if begins { "" } else { ".SH NOTES\n" })
}

/// With the aliases in its help, as `--help` has them.
fn also_called(arg: clap::Arg) -> clap::Arg {
    let names = arg.get_visible_aliases().unwrap_or_default();
    let named = match &names[..] {
        [] => return arg,
        [only] => format!(" [alias: --{only}]"),
        names => format!(" [aliases: --{}]", names.join(", --")),
    };
    let [short, long] =
        [arg.get_help(), arg.get_long_help()].map(|help| help.map(|help| format!("{help}{named}")));
    let arg = arg.help(short.unwrap_or_default());
    match long {
        Some(long) => arg.long_help(long),
        None => arg,
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

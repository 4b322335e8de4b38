//! Clap's errors for arguments that it does not know, with a tip that helps.

use std::ffi::OsString;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};

use collcost::base::error::synonym;
use collcost::plan;

use super::Cli;

/// Units that people write after a space, which splits one size into two arguments.
const UNITS: [&str; 12] =
    ["b", "k", "kb", "kib", "m", "mb", "mib", "g", "gb", "gib", "bytes", "us"];

/// Formats that people write as a flag.
const FORMATS: [&str; 3] = ["json", "csv", "markdown"];

/// The error with a tip, where there is a better one than clap's.
pub(super) fn advised(mut error: clap::Error, arguments: &[OsString]) -> clap::Error {
    let odd = arguments.iter().find(|argument| argument.to_str().is_none());
    if let (ErrorKind::InvalidUtf8, Some(odd)) = (error.kind(), odd) {
        let what = format!(
            "an argument is not text in UTF-8\n  {}\n  rename the file, or where - is standard input write - < FILE\n",
            odd.display()
        );
        return clap::Error::raw(ErrorKind::InvalidUtf8, what);
    }
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    let tip = match typed.strip_prefix("--") {
        Some(flag) => {
            let flag = flag.split('=').next().unwrap_or(flag);
            let mut command = Cli::command();
            command.build();
            key_of_a_plan(flag, arguments)
                .or_else(|| called_here(&command, flag, arguments))
                .or_else(|| elsewhere(&command, flag))
        }
        None => one_word(typed, arguments).or_else(|| launched(typed, arguments)),
    };
    if let Some(tip) = tip {
        error.remove(ContextKind::SuggestedArg);
        error.remove(ContextKind::Usage);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
    }
    error
}

/// `16 MiB` was one size.
fn one_word(typed: &str, arguments: &[OsString]) -> Option<String> {
    let place = arguments.iter().position(|a| a == typed)?;
    let number = arguments.get(place.checked_sub(1)?)?.to_str()?;
    let is_size = UNITS.contains(&typed.to_ascii_lowercase().as_str())
        && number.parse::<f64>().is_ok_and(f64::is_finite);
    is_size.then(|| format!("write a number and its unit as one word: {number}{typed}"))
}

/// `-np 8` of mpirun.
fn launched(typed: &str, arguments: &[OsString]) -> Option<String> {
    let place = arguments.iter().position(|a| a == typed)?;
    arguments.get(place.checked_sub(1)?).filter(|flag| *flag == "-np")?;
    Some(format!("write -n {typed}, or --np {typed}"))
}

/// The verb's own flag for the same, or for that format.
fn called_here(command: &Command, flag: &str, arguments: &[OsString]) -> Option<String> {
    let mut verb = command;
    for argument in arguments.iter().skip(1) {
        match verb.find_subcommand(argument) {
            Some(inner) => verb = inner,
            None => break,
        }
    }
    let flags: Vec<&str> = verb.get_arguments().filter_map(clap::Arg::get_long).collect();
    if FORMATS.contains(&flag) && flags.contains(&"format") {
        return Some(format!("write --format {flag}"));
    }
    let own = synonym(flag, flags.iter().copied())?;
    Some(format!("`--{own}` is the flag for that"))
}

/// What other verbs take as a flag a plan takes as a key.
fn key_of_a_plan(flag: &str, arguments: &[OsString]) -> Option<String> {
    arguments.get(1).filter(|verb| *verb == "plan")?;
    let parameter = plan::table::parameters(false).find(|p| p.flag == flag).map(|p| p.key);
    let own = || plan::KEYS.iter().copied().find(|key| *key == flag.replace('-', "_"));
    let key = parameter.or_else(own)?;
    Some(format!("`--{flag}` is a key here: --set {key}=…"))
}

/// The other verbs that have this flag.
fn elsewhere(command: &Command, flag: &str) -> Option<String> {
    let mut verbs = Vec::new();
    knowing(command, flag, &mut verbs);
    match verbs.as_slice() {
        [] => None,
        [verb] => Some(format!("`--{flag}` is a flag of `{verb}`")),
        [verb, other] => Some(format!("`--{flag}` is a flag of `{verb}` and `{other}`")),
        [verb, other, more @ ..] => {
            let more = match more {
                [one] => format!("`{one}`"),
                more => format!("{} more verbs", more.len()),
            };
            Some(format!("`--{flag}` is a flag of `{verb}`, `{other}` and {more}"))
        }
    }
}

fn knowing(command: &Command, flag: &str, verbs: &mut Vec<String>) {
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        let names = verb.get_arguments().filter_map(clap::Arg::get_long_and_visible_aliases);
        if names.flatten().any(|name| name == flag) {
            verbs.extend(verb.get_bin_name().map(str::to_owned));
        }
        knowing(verb, flag, verbs);
    }
}

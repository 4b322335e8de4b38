//! The command line: what was typed becomes a query, the engine answers, a renderer prints.

mod accuracy;
mod batch;
mod bucket;
#[cfg(target_os = "linux")]
mod calibrate;
mod check;
mod compare;
mod completions;
mod config;
mod convert;
mod cost;
mod crossover;
mod explain;
mod explore;
mod export;
mod files;
mod fit;
mod flags;
mod format;
mod help;
mod import;
mod list;
mod man;
mod mock;
mod nccl;
mod optimum;
mod picture;
mod plan;
#[cfg(target_os = "linux")]
mod processes;
mod profiles;
#[cfg(target_os = "linux")]
mod progress;
#[cfg(target_os = "linux")]
mod run;
mod schedule;
mod select;
mod simulate;
mod terminal;
mod trace;
mod verbs;
mod verify;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use collcost::Collective;
use collcost::Error;

use verbs::Verb;

/// What a collective operation costs, which algorithm to use, and why.
#[derive(Parser)]
#[command(name = "collcost", version, arg_required_else_help = true, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

const EXAMPLES: &str = "\
Examples:
  collcost allreduce 16MiB -n 64
  collcost allreduce 16MiB -n 64 --alpha 5us --bw 100GB/s
  collcost broadcast 1GiB -n 72 --algorithm chain --format json
  collcost explain allreduce ring 16MiB -n 64
  collcost crossover allreduce tree ring -n 64
  collcost select nccl allreduce -n 64
  collcost nccl choose allreduce --comm dgx_h100_8x400g.p8.n2
  collcost batch < questions.jsonl";

/// Why a run ended early.
enum Stop {
    /// The question cannot be answered.
    Refused(Error),
    /// Standard output or input failed.
    Io(io::Error),
    /// A check failed; its findings are written.
    Failed,
    /// What is known does not tell; the report is written.
    Unclear,
    /// A file is wrong; its faults are written.
    Faults,
    /// The samples do not carry a fit; the report of it is written.
    FitRefused(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Runs the command: 0 answered, 1 a check failed, 2 bad usage or input, 3 this machine refuses,
/// 4 a fit was refused, 5 a run or the output was lost, 130 interrupted.
///
/// A reader that closes the pipe has seen enough: that is success.
pub fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments = plain_names(arguments);
    #[cfg(target_os = "linux")]
    if arguments.get(1).is_some_and(|verb| verb == run::RANK) {
        return run::rank();
    }
    #[cfg(all(feature = "cuda", target_os = "linux"))]
    if arguments.get(1).is_some_and(|verb| verb == calibrate::gpu::GPU) {
        return calibrate::gpu::serve();
    }
    if let Some(done) = screen(&arguments) {
        return done;
    }
    let verb = match Verb::priced(&arguments) {
        Some(verb) => Ok(verb),
        None => Cli::try_parse_from(arguments).map(|cli| cli.verb),
    };
    let verb = match verb {
        Ok(verb) => verb,
        Err(error) => {
            // Clap writes help to standard output and errors to standard error.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let mut out = io::BufWriter::new(io::stdout().lock());
    let done = if terminal::is_ascii_only() {
        verb.run(&mut terminal::Ascii::new(&mut out))
    } else {
        verb.run(&mut out)
    };
    match done.and_then(|()| out.flush().map_err(Stop::Io)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Stop::Failed) => ExitCode::from(1),
        Err(Stop::Faults) => ExitCode::from(2),
        Err(Stop::Unclear) => ExitCode::from(3),
        Err(Stop::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(Stop::Io(error)) => {
            eprintln!("error: {error}");
            ExitCode::from(5)
        }
        Err(Stop::FitRefused(error)) => {
            eprintln!("error: {error}");
            ExitCode::from(4)
        }
        Err(Stop::Refused(error)) => {
            let code = code(&error);
            eprintln!("error: {}", advised(error));
            ExitCode::from(code)
        }
    }
}

/// The exit code that says of which kind an error is.
fn code(error: &Error) -> u8 {
    match error {
        e if e.is_environment() => 3,
        e if e.is_lost() => 5,
        e if e.is_interrupted() => 130,
        _ => 2,
    }
}

/// The first screen, or the help of the whole command, if one of them was asked.
fn screen(arguments: &[OsString]) -> Option<ExitCode> {
    let written = match arguments {
        [] | [_] => help::first(&mut io::stdout().lock()),
        [_, only] if only == "-h" || only == "--help" || only == "help" => help::grouped(),
        _ => return None,
    };
    Some(match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => ExitCode::from(5),
        _ => ExitCode::SUCCESS,
    })
}

/// The error with the flags that help, which the library does not know.
fn advised(error: Error) -> Error {
    if error.is_unknown() {
        return error.or_mend(
            "give it with --alpha, --bw, --alpha-inter, --bw-inter or --alpha-switch, \
             or name another --profile",
        );
    }
    if error.is_unsupported() {
        return error.or_mend("leave out --algorithm and add --all: it lists what applies");
    }
    error
}

/// Replaces a collective's name as people type it (`all_reduce`, `MPI_Bcast`) by the verb.
fn plain_names(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.collect();
    if let Some(verb) = arguments.get_mut(1)
        && let Some(Ok(collective)) = verb.to_str().map(str::parse::<Collective>)
    {
        *verb = collective.id().into();
    }
    arguments
}

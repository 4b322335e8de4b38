//! The command line: arguments become a query, the engine answers it, and a renderer prints the
//! answer.

mod accuracy;
mod against;
mod batch;
mod bucket;
#[cfg(target_os = "linux")]
mod calibrate;
mod chakra;
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
mod input;
mod list;
mod man;
mod mcp;
mod mistyped;
mod mock;
mod named;
mod nccl;
mod optimum;
mod output;
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
mod streams;
mod terminal;
mod trace;
mod verbs;
mod verify;

use std::cell::RefCell;
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use collcost::Collective;
use collcost::Error;
use streams::{Clean, Kept, say};

use verbs::Verb;

/// What a collective operation costs, which algorithm to use, and why.
#[derive(Parser)]
#[command(name = "collcost", version, arg_required_else_help = true, after_help = EXAMPLES, subcommand_value_name = "VERB")]
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
  collcost choose nccl allreduce -n 64
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
    /// The data do not suffice for a verdict; the report is written.
    Unclear,
    /// A file is wrong; its faults are written.
    Faults,
    /// The samples do not support a fit; the report is written.
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

/// The exit codes of all verbs.
const EXIT_CODES: &str = "\
Exit codes:
  0    success: the answer is written, or its reader left, and every check holds
  1    a check fails: a budget, a schedule, a run that is not healthy
  2    the question, a file or its contents cannot be used
  3    the data do not suffice for a verdict, or this machine refuses to run it
  4    the measurements do not support a fit
  5    the answer, a file or a rank was lost: a full disk, a process that died
  130  interrupted
A code above 0 stays the same even if the reader of a pipe leaves.";

/// Runs the command; the result is one of [`EXIT_CODES`].
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
    #[cfg(not(target_os = "linux"))]
    if let Some(verb) = arguments.get(1).filter(|verb| *verb == "run" || *verb == "calibrate") {
        let verb = verb.to_string_lossy();
        say(format_args!(
            "error: collcost {verb} starts ranks as processes of a Linux host\n  all other verbs work \
             here; files that it writes there can be used here"
        ));
        return ExitCode::from(3);
    }
    if let Some(done) = screen(&arguments) {
        return done;
    }
    let verb = match Verb::priced(&arguments) {
        Some(verb) => Ok(verb),
        None => match Cli::try_parse_from(&arguments) {
            Ok(cli) => Ok(cli.verb),
            Err(error) => Err(mistyped::advised(error, &arguments)),
        },
    };
    let verb = match verb {
        Ok(verb) => verb,
        Err(error) => {
            let written = help::print(&error).and_then(|()| io::stdout().flush());
            return match u8::try_from(error.exit_code()).unwrap_or(2) {
                0 => said(written.err()),
                code => ExitCode::from(code),
            };
        }
    };
    let lost = RefCell::new(None);
    let done = {
        let out = Kept::new(io::stdout().lock(), &lost, verb.streams());
        let mut out = io::BufWriter::new(out);
        let color = terminal::look().color;
        let (mut ascii, mut clean);
        // One type for all verbs: each would be compiled once for each.
        let mut through: &mut dyn Write = if terminal::is_ascii_only() {
            ascii = Clean::new(terminal::Ascii::new(&mut out), color);
            &mut ascii
        } else {
            clean = Clean::new(&mut out, color);
            &mut clean
        };
        let done = verb.run(&mut through);
        done.and_then(|()| out.flush().map_err(Stop::Io))
    };
    let lost = lost.into_inner();
    let is_input = lost.is_none();
    let written = said(lost);
    match done {
        Err(Stop::Io(error)) if is_input && error.kind() == io::ErrorKind::IsADirectory => {
            say(format_args!("error: {}", input::folder()));
            ExitCode::from(2)
        }
        Err(Stop::Io(error)) if is_input => {
            say(format_args!("error: standard input cannot be read: {error}"));
            ExitCode::from(5)
        }
        Ok(()) | Err(Stop::Io(_)) => written,
        Err(Stop::Failed) => ExitCode::from(1),
        Err(Stop::Faults) => ExitCode::from(2),
        Err(Stop::Unclear) => ExitCode::from(3),
        Err(Stop::FitRefused(error)) => {
            say(format_args!("error: {error}"));
            ExitCode::from(4)
        }
        Err(Stop::Refused(error)) => {
            let code = code(&error);
            say(format_args!("error: {}", advised(error)));
            ExitCode::from(code)
        }
    }
}

/// The exit code if nothing but the output can have failed: a reader that closes the pipe is
/// success, a full disk is not.
fn said(lost: Option<io::Error>) -> ExitCode {
    match lost {
        Some(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            say(format_args!("error: the answer cannot be written: {error}"));
            ExitCode::from(5)
        }
        _ => ExitCode::SUCCESS,
    }
}

/// The exit code for the kind of an error.
fn code(error: &Error) -> u8 {
    match error {
        e if e.is_environment() => 3,
        e if e.is_scarce() => 4,
        e if e.is_lost() => 5,
        e if e.is_interrupted() => 130,
        _ => 2,
    }
}

/// The first screen, or the help of the whole command, if the arguments ask for one.
fn screen(arguments: &[OsString]) -> Option<ExitCode> {
    let written = match arguments {
        [] | [_] => help::first(&mut io::stdout().lock()),
        [_, only] if only == "-h" || only == "--help" || only == "help" => help::grouped(),
        _ => return None,
    };
    Some(said(written.and_then(|()| io::stdout().flush()).err()))
}

/// The error with the flags that help; the library does not know them.
fn advised(error: Error) -> Error {
    if error.is_unknown() {
        return error.or_help(
            "give it with --alpha, --bw, --alpha-inter, --bw-inter or --alpha-switch, \
             or name another machine with --on",
        );
    }
    if error.is_unsupported() {
        return error.or_help("collcost <collective> --all lists the algorithms that apply");
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

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
mod input;
mod list;
mod man;
mod mock;
mod nccl;
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
mod verify;

use std::cell::RefCell;
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Args as _, FromArgMatches, Parser, Subcommand};

use collcost::Collective;
use collcost::Error;
use streams::{Clean, Kept, say};

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

// Deferred: only the named verb's flags are built, which halves the start-up time.
#[derive(Subcommand)]
#[command(defer = true)]
enum Verb {
    /// Every rank gets the reduction of all vectors
    Allreduce(cost::Args),
    /// Every rank gets everybody's block
    Allgather(cost::Args),
    /// Every rank gets its block of the reduction
    Reducescatter(cost::Args),
    /// Every rank sends a block to every other
    Alltoall(cost::Args),
    /// Every rank gets the root's vector
    Broadcast(cost::Args),
    /// The root gets the reduction of all vectors
    Reduce(cost::Args),
    /// Every rank gets its block of the root's vector
    Scatter(cost::Args),
    /// The root gets everybody's block
    Gather(cost::Args),
    /// One rank gets another's vector
    Sendrecv(cost::Args),
    /// Nobody leaves before everybody has come
    Barrier(cost::Args),
    /// The size at which one algorithm overtakes another
    Crossover(crossover::Args),
    /// What a library will pick, why, and what that costs
    Select(select::Args),
    /// A schedule played out: makespan, critical path, form, bound
    Simulate(simulate::Args),
    /// Why: an algorithm derived, a collective's algorithms, a topic
    Explain(explain::Args),
    /// One HTML page: costs by sliders, schedules step by step
    Explore(explore::Args),
    /// Step by step: who sends what to whom, what ranks then hold
    Trace(trace::Args),
    /// Schedules and closed forms held to what they promise
    Verify(verify::Args),
    /// A schedule run for real on this machine, timed and checked
    #[cfg(target_os = "linux")]
    Run(run::Args),
    /// This machine's figures, by running the collectives on it
    #[cfg(target_os = "linux")]
    Calibrate(calibrate::Args),
    /// A schedule or a tuning file in other programs' formats
    Export(export::Args),
    /// The machines that are known, one of them, a file checked
    Profiles(profiles::Args),
    /// A machine's figures from timed runs, with their errors
    Fit(fit::Args),
    /// Logs of benchmarks read: nccl-tests, OSU, IMB, perftest
    Import(import::Args),
    /// How far models are off on measurements they did not see
    Accuracy(accuracy::Args),
    /// Is a measured run healthy, and if not, why
    Compare(compare::Args),
    /// What nccl-tests would print there, without GPUs
    Mock(mock::Args),
    /// Budgets of a file held against the model or measurements
    Check(check::Args),
    /// A step of a model: its collectives, times, what is exposed
    Plan(plan::Args),
    /// Gradients fused into buckets: sizes, exposed time, the best cap
    Bucket(bucket::Args),
    /// What is settled without flags, and who said so
    Config(config::Args),
    /// Time, algbw, busbw and tools' sizes into each other
    Convert(convert::Args),
    /// NCCL's tuner: its table, its choices, its logs
    Nccl(nccl::Args),
    /// Questions as JSON Lines in, answers out, in order
    Batch(batch::Args),
    /// Collectives, algorithms, libraries, topics by their names
    List(list::Args),
    /// A script that completes verbs and flags in a shell
    Completions(completions::Args),
    /// The manual page of the command, or of one verb
    Man(man::Args),
}

/// Why a run ended early.
enum Stop {
    /// The question cannot be answered.
    Refused(Error),
    /// Standard output or input failed.
    Io(io::Error),
    /// A check failed; its findings are written.
    Failed,
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

/// What the exit code says, for all verbs.
const EXIT_CODES: &str = "\
Exit codes:
  0    the answer is there, and every check holds; also where its reader left
  1    a check fails: a budget, a schedule, a run that is not healthy
  2    the question, a file or its contents cannot be used
  3    it cannot be told, or this machine refuses to run it
  4    the measurements do not carry a fit
  5    the answer, a file or a rank was lost: a full disk, a process that died
  130  interrupted
A verdict above 0 stays what it is, whoever reads it.";

/// Runs the command, and says how it went by [`EXIT_CODES`].
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
            let written = error.print().and_then(|()| io::stdout().flush());
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
        let done = if terminal::is_ascii_only() {
            verb.run(&mut Clean::new(terminal::Ascii::new(&mut out), color))
        } else {
            verb.run(&mut Clean::new(&mut out, color))
        };
        done.and_then(|()| out.flush().map_err(Stop::Io))
    };
    let lost = lost.into_inner();
    let is_input = lost.is_none();
    let written = said(lost);
    match done {
        Err(Stop::Io(error)) if is_input => {
            say(format_args!("error: standard input cannot be read: {error}"));
            ExitCode::from(5)
        }
        Ok(()) | Err(Stop::Io(_)) => written,
        Err(Stop::Failed) => ExitCode::from(1),
        Err(Stop::Faults) => ExitCode::from(2),
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

/// How it went where all is well but perhaps the output: a reader that closes the pipe has seen
/// enough, and a full disk has not.
fn said(lost: Option<io::Error>) -> ExitCode {
    match lost {
        Some(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            say(format_args!("error: the answer cannot be written: {error}"));
            ExitCode::from(5)
        }
        _ => ExitCode::SUCCESS,
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
    Some(said(written.and_then(|()| io::stdout().flush()).err()))
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

impl Verb {
    /// A collective's verb with its flags, parsed without the other verbs, which take longer to
    /// build than all prices. None for another verb, and for what is no answer but help or an error,
    /// which clap words best when it knows everything.
    fn priced(arguments: &[OsString]) -> Option<Self> {
        use Collective as C;
        let collective = arguments.get(1)?.to_str()?.parse::<C>().ok()?;
        let flags = cost::Args::augment_args(clap::Command::new(collective.id()));
        let found = flags.try_get_matches_from(&arguments[1..]).ok()?;
        let args = cost::Args::from_arg_matches(&found).ok()?;
        Some(match collective {
            C::AllReduce => Self::Allreduce(args),
            C::AllGather => Self::Allgather(args),
            C::ReduceScatter => Self::Reducescatter(args),
            C::AllToAll => Self::Alltoall(args),
            C::Broadcast => Self::Broadcast(args),
            C::Reduce => Self::Reduce(args),
            C::Scatter => Self::Scatter(args),
            C::Gather => Self::Gather(args),
            C::SendRecv => Self::Sendrecv(args),
            C::Barrier => Self::Barrier(args),
        })
    }

    /// Whether answers come one after another for as long as somebody asks or reads.
    fn streams(&self) -> bool {
        match self {
            Self::Batch(_) | Self::Trace(_) => true,
            Self::Nccl(args) => args.streams(),
            _ => false,
        }
    }

    fn run(self, out: &mut impl Write) -> Result<(), Stop> {
        use Collective as C;
        match self {
            Self::Allreduce(args) => args.run(C::AllReduce, out),
            Self::Allgather(args) => args.run(C::AllGather, out),
            Self::Reducescatter(args) => args.run(C::ReduceScatter, out),
            Self::Alltoall(args) => args.run(C::AllToAll, out),
            Self::Broadcast(args) => args.run(C::Broadcast, out),
            Self::Reduce(args) => args.run(C::Reduce, out),
            Self::Scatter(args) => args.run(C::Scatter, out),
            Self::Gather(args) => args.run(C::Gather, out),
            Self::Sendrecv(args) => args.run(C::SendRecv, out),
            Self::Barrier(args) => args.run(C::Barrier, out),
            Self::Crossover(args) => args.run(out),
            Self::Select(args) => args.run(out),
            Self::Simulate(args) => args.run(out),
            Self::Explain(args) => args.run(out),
            Self::Explore(args) => args.run(out),
            Self::Verify(args) => args.run(out),
            Self::Trace(args) => args.run(out),
            #[cfg(target_os = "linux")]
            Self::Run(args) => args.run(out),
            #[cfg(target_os = "linux")]
            Self::Calibrate(args) => args.run(out),
            Self::Export(args) => args.run(out),
            Self::Profiles(args) => args.run(out),
            Self::Fit(args) => args.run(out),
            Self::Accuracy(args) => args.run(out),
            Self::Import(args) => args.run(out),
            Self::Compare(args) => args.run(out),
            Self::Mock(args) => args.run(out),
            Self::Check(args) => args.run(out),
            Self::Plan(args) => args.run(out),
            Self::Bucket(args) => args.run(out),
            Self::Config(args) => args.run(out),
            Self::Convert(args) => args.run(out),
            Self::Nccl(args) => args.run(out),
            Self::Batch(args) => args.run(out),
            Self::List(args) => args.run(out),
            Self::Completions(args) => args.run(out),
            Self::Man(args) => args.run(out),
        }
    }
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

//! `collcost run`: executes a schedule between processes of this machine.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;

use super::Stop;
use super::flags::{CallFlags, OnFlags, count, whole};
use super::format::{FormatFlag, Report, write};
use super::processes::ProcessFlags;
use collcost::answer::run::{Run, run};
use collcost::base::collective::Collective;
use collcost::base::error::{Error, Result};
use collcost::base::quantity::Seconds;
use collcost::measure::expect::{Expect, Expecting};
use collcost::measure::schedule_of::schedule_of_ranks;
use collcost::model::algorithm::Registry;
use collcost::run::execute::{Block, Check, Start, compile};
use collcost::run::launch::{Group, Setup, serve, usable};
use collcost::run::rendezvous::{Part, Typed};
use collcost::run::transport::Wait;
use collcost::view;

/// The hidden verb that serves as a rank.
pub(super) const RANK: &str = "run-rank";

#[derive(clap::Args)]
pub(super) struct Args {
    /// The collective, such as allreduce
    collective: String,
    #[command(flatten)]
    call: CallFlags,
    /// The rank that has or gets the data
    #[arg(long, value_name = "RANK", allow_hyphen_values = true, hide_short_help = true)]
    root: Option<String>,
    #[command(flatten)]
    format: FormatFlag<Report>,
    #[command(flatten)]
    how: HowFlags,
    #[command(flatten)]
    processes: ProcessFlags,
    #[command(flatten)]
    on: OnFlags,
}

// How often it runs.
#[derive(clap::Args)]
#[command(next_help_heading = "Run")]
struct HowFlags {
    /// Number of timed repetitions
    #[arg(long, value_name = "R", default_value = "20", allow_hyphen_values = true)]
    reps: String,
    /// Number of warm-up repetitions
    #[arg(
        long,
        value_name = "W",
        default_value = "2",
        allow_hyphen_values = true,
        hide_short_help = true
    )]
    warm: String,
    /// Check only the first result, and reuse its buffers
    #[arg(long, hide_short_help = true)]
    check_once: bool,
}

/// Refuses ranks that a launcher started: each would start a whole group of its own.
fn refuse_launcher() -> Result<()> {
    match Part::of(&Typed::default(), &|name| std::env::var(name).ok()) {
        Ok(Some(Part { launcher, ranks, .. })) if ranks > 1 => {
            let what = format!("{launcher} started {ranks} ranks, and run starts its own");
            Err(Error::input(what).help(
                "leave the launcher out; `collcost calibrate` measures between the ranks of one",
            ))
        }
        _ => Ok(()),
    }
}

/// Serves as a rank of a run; the control channel is standard input.
pub(super) fn rank() -> ExitCode {
    let control = match io::stdin().as_fd().try_clone_to_owned() {
        Ok(control) => control,
        Err(_) => return ExitCode::from(2),
    };
    match serve(control) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The group reports lost ranks; a user who types this verb gets an error.
            if error.is_input() {
                super::streams::say(format_args!("error: {error}"));
            }
            ExitCode::from(super::code(&error))
        }
    }
}

impl Args {
    pub(super) fn run(self, out: &mut impl Write) -> std::result::Result<(), Stop> {
        let format = self.format.get()?;
        let report = self.report()?;
        write(format, out, &report, |_| view::run::run(&report))
    }

    fn report(mut self) -> Result<Run> {
        let registry = Registry::builtin();
        let collective: Collective =
            self.collective.parse().map_err(|e: Error| e.at(format!("run {}", self.collective)))?;
        let place = format!("run {}", collective.id());
        refuse_launcher().map_err(|e| e.at(place.clone()))?;
        self.call.sort(&registry, collective).map_err(|e| e.at(place.clone()))?;
        let setup = self.processes.setup(false)?;
        let block = self.how.block()?;
        if self.on.ranks.is_silent() {
            // Fewer than two ranks show nothing.
            let ranks = match self.processes.cpus() {
                Some(cpus) => cpus,
                None => usable()?.at_once.clamp(2, 64) as u32,
            };
            self.on.ranks = self.on.ranks.with_ranks(ranks);
        }
        let query = self.call.query(&self.on, collective, None);
        let query = query.map_err(|e| e.at(place.clone()))?;
        self.processes.places_suffice(query.shape.ranks)?;
        let root = whole("--root", "rank", self.root.as_ref())?;
        let spelled = schedule_of_ranks(&registry, &query, self.call.algorithm.as_deref(), root);
        let place = format!("{place}, {} ranks", query.shape.ranks);
        let spelled = spelled.map_err(|e| e.at(place.clone()))?;
        let algorithm = spelled.algorithm;
        let id = algorithm.meta().id;
        let named = query.machine.chosen != "default";
        let expect = named.then(|| Expecting::of(&registry, &query, Some(id))).transpose();
        let expect = expect.map_err(|e| e.at(place.clone()))?.map(|e| Expect::new(&e, query.size));
        let setup = Setup { ranks: query.shape.ranks, ..setup };
        let programs = compile(&*spelled.schedule, query.size).map_err(|e| e.at(place.clone()))?;
        let mut group = Group::start(setup)?;
        let spins = group.wait() == Wait::Spin;
        let start = if spins { Start::Window } else { Start::Barrier };
        let predicted = expect.as_ref().map(|e| Seconds(e.time_s));
        let name = format!("{} {id} of {}", collective.id(), query.size);
        let timed = group.run(programs, &Block { start, predicted, ..block }, &name);
        let timed = timed.map_err(|e| e.at(place))?;
        let what = (id, spelled.price.segments);
        let mut report = run(&query, what, &group, &timed, expect);
        group.end();
        let calibrated = query.machine.fit.is_some();
        if calibrated && report.transport == "shm" && !self.how.check_once {
            let note = "each result was checked, which moves its data through the caches between runs; a \
                        calibration times runs without: --check-once does too";
            report.notes.push(note.to_owned());
        }
        if self.call.algorithm.is_none() && !named {
            let machine = &query.machine.name;
            let library = query.library().filter(|&l| algorithm.is_shipped(Some(l), &query.shape));
            let passed_over = spelled.passed_over.join(", ");
            let of = library.map_or(String::new(), |library| format!(" of {library}'s"));
            let why = match library {
                _ if !passed_over.is_empty() => format!(
                    "the fastest{of} on {machine} that ranks alone can run; passed over: {passed_over}"
                ),
                Some(library) => format!("what {library} runs on {machine}"),
                None => format!("the fastest on {machine}"),
            };
            let note = format!("no algorithm is given: {id} is {why}");
            report.notes.insert(0, note);
        }
        Ok(report)
    }
}

impl HowFlags {
    fn block(&self) -> Result<Block> {
        let reps = count("--reps", "repetitions", Some(&self.reps))?.map_or(1, |n| n.get());
        let warm = whole("--warm", "number of repetitions", Some(&self.warm))?.unwrap_or(0);
        let check = if self.check_once { Check::Once } else { Check::Each };
        Ok(Block { warm, reps, check, ..Block::default() })
    }
}

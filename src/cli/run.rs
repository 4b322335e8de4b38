//! `collcost run`: a schedule run for real between processes of this machine.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;

use super::Stop;
use super::flags::{
    MachineFlags, ParamFlags, RankFlags, count, counted, query, sort_words, value, whole,
};
use super::format::{FormatFlag, Report, write};
use super::processes::ProcessFlags;
use collcost::answer::run::{Run, run};
use collcost::base::collective::Collective;
use collcost::base::error::{Error, Result};
use collcost::base::quantity::Bytes;
use collcost::measure::schedule_of::schedule_of;
use collcost::model::algorithm::Registry;
use collcost::run::execute::{Block, Check, Start, compile};
use collcost::run::launch::{Group, Setup, serve, usable};
use collcost::run::transport::Wait;
use collcost::view;

/// The hidden verb that serves as a rank.
pub(super) const RANK: &str = "run-rank";

#[derive(clap::Args)]
pub(super) struct Args {
    /// The collective, such as allreduce
    collective: String,
    /// An algorithm of the collective, and a size
    #[arg(value_name = "ALGORITHM|SIZE", num_args = 0..=2)]
    words: Vec<String>,
    /// The algorithm as an option; without any the fastest on the machine that is named
    #[arg(long, visible_alias = "algo", value_name = "NAME")]
    algorithm: Option<String>,
    /// The size as an option
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, hide_short_help = true)]
    size: Option<String>,
    /// What the size counts: total, per-rank or per-peer
    #[arg(long, value_name = "WHAT", hide_short_help = true)]
    size_is: Option<String>,
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
    ranks: RankFlags,
    #[command(flatten)]
    machine: MachineFlags,
    #[command(flatten)]
    params: ParamFlags,
}

// How often it runs.
#[derive(clap::Args)]
#[command(next_help_heading = "Run")]
struct HowFlags {
    /// Repetitions that count
    #[arg(long, value_name = "R", default_value = "20", allow_hyphen_values = true)]
    reps: String,
    /// Repetitions before them
    #[arg(
        long,
        value_name = "W",
        default_value = "2",
        allow_hyphen_values = true,
        hide_short_help = true
    )]
    warm: String,
    /// Check the first result alone, and reuse its buffers
    #[arg(long, hide_short_help = true)]
    check_once: bool,
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
            // Lost ranks are the group's to report; a person who types this verb is told.
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
        let slots = (&mut self.algorithm, &mut self.size);
        sort_words(&registry, collective, std::mem::take(&mut self.words), slots)
            .map_err(|e| e.at(place.clone()))?;
        let size: Option<Bytes> = value("--size", self.size.as_ref())?;
        if size.is_none() && collective != Collective::Barrier {
            return Err(Error::input("how many bytes?")
                .at(place)
                .help("give a size, such as 1MiB"));
        }
        let setup = self.processes.setup(false)?;
        let block = self.how.block()?;
        let ranks = match self.ranks.is_silent() {
            // Two ranks are the fewest that say anything.
            true => self.ranks.for_ranks(usable()?.at_once.clamp(2, 64) as u32, "")?,
            false => self.ranks,
        };
        let size = size.unwrap_or_default();
        let mut query = query(collective, size, &ranks, &self.machine, &self.params)?;
        query.size = counted(&query, size, self.size_is.as_ref())?;
        let root = whole("--root", "rank", self.root.as_ref())?;
        let spelled = schedule_of(&registry, &query, self.algorithm.as_deref(), root);
        let place = format!("{place}, {} ranks", query.shape.ranks);
        let spelled = spelled.map_err(|e| e.at(place.clone()))?;
        let id = spelled.algorithm.meta().id;
        let named = query.machine.chosen != "default";
        let setup = Setup { ranks: query.shape.ranks, ..setup };
        let programs = compile(&*spelled.schedule, query.size).map_err(|e| e.at(place.clone()))?;
        let mut group = Group::start(setup)?;
        let spins = group.wait() == Wait::Spin;
        let start = if spins { Start::Window } else { Start::Barrier };
        let predicted = named.then(|| spelled.price.total());
        let name = format!("{} {id} of {}", collective.id(), query.size);
        let timed = group.run(programs, &Block { start, predicted, ..block }, &name);
        let timed = timed.map_err(|e| e.at(place))?;
        let price = named.then_some(&spelled.price);
        let what = (id, spelled.price.segments);
        let mut report = run(&query, what, &group, &timed, price);
        group.end();
        if self.algorithm.is_none() && !named {
            let machine = &query.machine.name;
            let note = format!("no algorithm is named: {id} is the fastest on {machine}");
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

//! `collcost simulate`: simulates a schedule message by message.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use super::Stop;
use super::chakra;
use super::flags::{CallFlags, OnFlags, ratio, size, value, whole};
use super::format::{FormatFlag, Report};
use super::optimum::{faults, read_fabric, with_faults};
use super::output::write_whole;
use super::picture::PictureFlags;
use super::profiles;
use super::schedule::text;
use collcost::answer::arrival;
use collcost::answer::simulate::{Ask, Plan, simulate};
use collcost::answer::timeline::timeline;
use collcost::answer::traffic::traffic;
use collcost::base::collective::Collective;
use collcost::base::error::{Error, Result};
use collcost::base::quantity::{Bytes, Ratio, Seconds};
use collcost::cost::simulate::arrival::Overheads;
use collcost::cost::simulate::{Mode, Trouble};
use collcost::cost::traffic::{self, Jobs};
use collcost::exchange::import::{self, Bare, Foreign};
use collcost::machine::fabric::Discipline;
use collcost::machine::graph::Graph;
use collcost::machine::query::Query;
use collcost::measure::schedule_of::schedule_of;
use collcost::model::algorithm::Registry;
use collcost::model::schedule::Schedule;
use collcost::plan::config::is_file;
use collcost::plan::table::{Disk, Files as _};
use collcost::view::{self, plot};

/// Where a fabric's jobs are described.
const JOBS: &str =
    "leave it out: the file of the jobs says what runs, and the fabric's file, ranks, α and rates";

/// The mode that simulates the order of arrival.
const ARRIVAL: &str = "arrival";

#[derive(clap::Args)]
pub(super) struct Args {
    /// The collective, such as allreduce; default: that of --schedule
    #[arg(required_unless_present_any = ["schedule", "jobs"])]
    collective: Option<String>,
    #[command(flatten)]
    call: CallFlags,
    /// The rank that has or gets the data
    #[arg(long, value_name = "RANK", allow_hyphen_values = true, hide_short_help = true)]
    root: Option<String>,
    /// Read the schedule from a file: MSCCL XML, GOAL (in mode arrival any GOAL), lines of trace
    /// --events, or a Chakra trace by the file of any rank (NAME.0.et), timed in mode arrival
    #[arg(long, value_name = "FILE", conflicts_with = "root")]
    schedule: Option<String>,
    /// Simulate on the links of this fabric, in any format that optimum reads
    #[arg(long, value_name = "FILE")]
    fabric: Option<String>,
    /// Jobs that run concurrently on --fabric: a JSON file of messages and collectives, GOAL, or a
    /// Chakra trace by the file of any rank (NAME.0.et)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["collective", "schedule", "plot"])]
    jobs: Option<String>,
    /// Compare with a changed --fabric: link=g0-nv0:0 (dead), link=g0>nv0:0.5 (one way), nic=g3:0,
    /// node=spine*:2 (twice the spines); repeatable
    #[arg(long, value_name = "KIND=WHAT:TIMES", hide_short_help = true)]
    fault: Vec<String>,
    #[command(flatten)]
    timing: TimingFlags,
    #[command(flatten)]
    format: FormatFlag<Report>,
    #[command(flatten)]
    picture: PictureFlags,
    #[command(flatten)]
    on: OnFlags,
}

// When messages may start, and what goes wrong.
#[derive(clap::Args)]
#[command(next_help_heading = "Timing")]
struct TimingFlags {
    /// When messages start: sync (a barrier per round), local (a rank's own rounds), flow (data
    /// dependencies only) or arrival (eager sends, received in order of arrival); default: the
    /// first three
    #[arg(long, value_name = "MODE")]
    mode: Option<String>,
    /// In mode arrival, the processor time at each end of a message (o of LogGP); part of α
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, hide_short_help = true)]
    overhead: Option<String>,
    /// In mode arrival, the least time between two messages of a NIC (g of LogGP)
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, hide_short_help = true)]
    gap: Option<String>,
    /// The start time of a rank, such as 3=20us; repeatable
    #[arg(long, value_name = "RANK=TIME", allow_hyphen_values = true, hide_short_help = true)]
    start: Vec<String>,
    /// Start ranks one after the other, rank r at r/N of this time
    #[arg(
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        conflicts_with = "start",
        hide_short_help = true
    )]
    skew: Option<String>,
    /// Slow all messages of a rank by a factor, such as 3=1.5; repeatable
    #[arg(long, value_name = "RANK=X", allow_hyphen_values = true)]
    slow_rank: Vec<String>,
    /// Slow the messages over a directed link by a factor, such as 0-1=2; repeatable
    #[arg(long, value_name = "FROM-TO=X", allow_hyphen_values = true, hide_short_help = true)]
    slow_link: Vec<String>,
    /// How messages share a port: serial (one after another) or fair (all at once)
    #[arg(long, value_name = "HOW", hide_short_help = true)]
    discipline: Option<String>,
    /// Report the critical path, busy ports and traffic even for more than 262144 messages
    #[arg(long, hide_short_help = true)]
    details: bool,
    /// The rate per direction in an exchange as a fraction of the one-way rate, from 0.5 to 1
    #[arg(long, value_name = "X", allow_hyphen_values = true, hide_short_help = true)]
    duplex_factor: Option<String>,
}

impl Args {
    pub(super) fn run(mut self, out: &mut impl Write) -> std::result::Result<(), Stop> {
        if let Some(built) = self.named_fabric()? {
            let jobs = self.jobs_on_fabric()?;
            let faults = faults(&self.fault)?;
            let graph = with_faults(&built, &faults)?;
            let mut report = traffic(&graph, &jobs)?;
            if let Some(file) = self.picture.file() {
                let makespan = Seconds(report.makespan_s);
                let jobs = match &report.jobs[..] {
                    [_] => "1 job".to_owned(),
                    jobs => format!("{} jobs", jobs.len()),
                };
                let title = format!("{jobs} on {}", report.fabric);
                let about = format!("how much of {makespan} each link carries");
                let picture = plot::network(&graph, (&title, &about), &report.loads);
                write_whole("--svg", Path::new(file), &picture)?;
            }
            if !faults.is_empty() {
                report = report.beside(&built, &jobs, self.fault.clone())?;
            }
            return self.format.write(out, &report, |_| view::traffic::traffic(&report));
        }
        if let Some(fault) = self.fault.first() {
            return Err(Error::input("a fault changes a fabric, and none is named")
                .at(format!("--fault {fault}"))
                .help(
                    "name its file with --fabric; for tiers there are --slow-rank and --slow-link",
                )
                .into());
        }
        let registry = Registry::builtin();
        // A schedule says its collective: what stands there may be the size.
        let is_size = |name: &mut String| name.starts_with(|c: char| c.is_ascii_digit());
        if let Some(size) = self.collective.take_if(|name| self.schedule.is_some() && is_size(name))
        {
            self.call.size.get_or_insert(size);
        }
        let file = self.schedule.take();
        if let Some(file) = file.as_deref().filter(|file| chakra::is(file)) {
            let algorithm = self.call.algorithm.take();
            let bare = chakra::read(file, algorithm.as_deref())?;
            return self.bare(out, &bare, file);
        }
        if let (Some(file), Some(name)) = (&file, &self.call.algorithm) {
            return Err(both(name, file).into());
        }
        let text = file.as_deref().map(text).transpose()?;
        let file = file.as_deref().zip(text.as_deref());
        if let Some((file, text)) = file
            && let Some(bare) = import::bare(text, file)?
        {
            return self.bare(out, &bare, file);
        }
        let (query, plan) = match file {
            Some((file, text)) => self.foreign(&registry, file, import::read(text, file)?)?,
            None => self.spelled(&registry)?,
        };
        if self.timing.mode.as_deref() == Some(ARRIVAL) {
            let ask = self.arrival(query.shape.ranks)?;
            let report = arrival::of_schedule(&query, &plan, &ask)
                .map_err(|e| e.at(format!("simulate {}", plan.asked())))?;
            return self.format.write(out, &report, |look| view::arrival::arrival(&report, look));
        }
        if let Some(flag) = self.timing.only_arrival() {
            return Err(Error::input("only mode arrival supports this flag")
                .at(flag)
                .help("add --mode arrival, or leave it out")
                .into());
        }
        let ask = self.timing.ask(query.shape.ranks)?;
        let place = |e: Error| e.at(format!("simulate {}", plan.asked()));
        let times = || timeline(&query, &plan, &ask).map_err(place);
        if self.picture.draw(out, || Ok(plot::timeline(&times()?)))? {
            return Ok(());
        }
        let mut report = simulate(&query, &plan, &ask).map_err(place)?;
        if self.on.ranks.is_silent() {
            let n = query.shape.ranks;
            report.notes.insert(0, format!("--n is not given: one node of {n} ranks"));
        }
        self.format.write(out, &report, |look| view::simulate::simulation(&report, look))
    }

    /// The fabric: `--fabric` and `--on` are the same here.
    fn named_fabric(&self) -> Result<Option<Graph>> {
        // A file may also be a profile.
        let may_be = |on: &str| is_file(on) && profiles::find(on).is_err();
        match (&self.fabric, self.on.machine.get("profile"), &self.jobs) {
            (Some(fabric), Some(on), _) if fabric != on => {
                Err(Error::input("two different fabrics")
                    .at(format!("--fabric {fabric} --on {on}"))
                    .help("give one of them: both flags name the fabric"))
            }
            (Some(file), ..) | (None, Some(file), Some(_)) => read_fabric(file).map(Some),
            (None, Some(on), None) if may_be(on) => Ok(read_fabric(on).ok()),
            (None, None, Some(jobs)) => Err(Error::input("which fabric?")
                .at(format!("--jobs {jobs}"))
                .help("name its file with --fabric or --on")),
            _ => Ok(None),
        }
    }

    /// What runs on the fabric: the jobs of a file, or the one collective or schedule.
    fn jobs_on_fabric(&mut self) -> Result<Jobs> {
        if let Some(jobs) = &self.jobs {
            let sized = self.call.size.as_ref().map(|_| "--size");
            let named = self.call.algorithm.as_ref().filter(|_| !chakra::is(jobs));
            let mode = self.timing.mode.as_ref().map(|_| "--mode");
            self.refuse_on_fabric(sized.or(named.map(|_| "--algorithm")).or(mode), JOBS)?;
            return self.read_jobs(jobs);
        }
        let pictured = self.picture.asked() && self.picture.file().is_none();
        let pictured = pictured.then_some("--plot");
        self.refuse_on_fabric(
            pictured,
            "leave it out: the fabric's file says its ranks, α and rates",
        )?;
        let mode = value("--mode", self.timing.mode.as_ref())?;
        let registry = Registry::builtin();
        let asked = self.sort(&registry)?;
        let typed = size("--size", self.call.size.as_ref())?;
        let sized =
            |collective: Collective, otherwise: Option<Bytes>| {
                collective.sized(typed).map_err(|e| e.at("--size"))?.or(otherwise).ok_or_else(
                    || Error::input("how many bytes?").help("give a size, such as 16MiB"),
                )
            };
        if let Some(file) = &self.schedule {
            if chakra::is(file) {
                return self.read_jobs(file);
            }
            let text = text(file)?;
            if import::bare(&text, file)?.is_some() {
                return self.read_jobs(file);
            }
            let foreign = import::read(&text, file)?;
            Plan::foreign(foreign.clone(), file)?;
            let size = sized(foreign.list.collective(), foreign.size)?;
            return Ok(Jobs::of_schedule(file, foreign.list, size, mode));
        }
        let collective = asked.unwrap_or(Collective::AllReduce);
        let algorithm = self.call.algorithm.as_deref().ok_or_else(|| {
            Error::input("which algorithm?")
                .at(format!("simulate {collective} on a fabric"))
                .help("name one, such as ring or direct; collcost optimum shows the best")
        })?;
        Ok(Jobs::of_collective(collective, algorithm, sized(collective, None)?, mode))
    }

    /// Refuses flags that say nothing about what runs on a fabric, and `other`.
    fn refuse_on_fabric(&self, other: Option<&str>, help: &str) -> Result<()> {
        let flags = [("--size-is", &self.call.size_is), ("--root", &self.root)];
        let given = flags.into_iter().find(|(_, text)| text.is_some()).map(|(flag, _)| flag);
        let flag = self.timing.but_mode().or(given).or(other).map(str::to_owned);
        match flag.or_else(|| self.on.typed_but("profile")) {
            None => Ok(()),
            Some(flag) => Err(Error::input("simulation on a fabric does not use this flag")
                .at(flag)
                .help(help)),
        }
    }

    fn read_jobs(&self, file: &str) -> Result<Jobs> {
        if chakra::is(file) {
            let bare = chakra::read(file, self.call.algorithm.as_deref())?;
            return Ok(Jobs::of(file, bare.operations, bare.messages.unwrap_or_default()));
        }
        let text = Disk.text(file).map_err(|e| e.at(format!("--jobs {file}")))?;
        let Some(Bare { operations, messages, .. }) = import::operations(&text, file)? else {
            return traffic::parse(&text, file);
        };
        let messages = messages.ok_or_else(|| {
            let what = "a receive from any source or with any tag does not fix its message";
            Error::unsupported(what)
                .at(format!("--jobs {file}"))
                .help("name sources and tags, or use simulate --schedule")
        })?;
        Ok(Jobs::of(file, operations, messages))
    }

    /// The collective, and the algorithm and size from the words.
    fn sort(&mut self, registry: &Registry) -> Result<Option<Collective>> {
        let Some(name) = &self.collective else { return Ok(None) };
        let place = format!("simulate {name}");
        let collective: Collective = name.parse().map_err(|e: Error| e.at(place.clone()))?;
        self.call.sort(registry, collective).map_err(|e| e.at(place))?;
        self.on.take_protocol(&mut self.call.algorithm);
        Ok(Some(collective))
    }

    fn spelled(&mut self, registry: &Registry) -> Result<(Query, Plan)> {
        let collective = self.sort(registry)?.unwrap_or(Collective::AllReduce);
        let query = self.query(collective, None);
        let query = query.map_err(|e| e.at(format!("simulate {}", collective.id())))?;
        let root = whole("--root", "rank", self.root.as_ref())?;
        let spelled = schedule_of(registry, &query, self.call.algorithm.as_deref(), root);
        let place = |e: Error| {
            let name =
                self.call.algorithm.as_ref().map_or(String::new(), |name| format!(" {name}"));
            e.at(format!("simulate {}{name}, {} ranks", collective.id(), query.shape.ranks))
        };
        let plan = Plan::from(spelled.map_err(place)?);
        Ok((query, plan))
    }

    /// The options of mode arrival; flags that it does not support are refused.
    fn arrival(&self, ranks: u32) -> Result<arrival::Ask> {
        let pictured = self.picture.asked().then_some("--plot and --svg");
        if let Some(flag) = self.timing.not_arrival().or(pictured) {
            return Err(Error::input("mode arrival does not support this flag")
                .at(flag)
                .help("leave it out; --start, --skew, --overhead and --gap are supported"));
        }
        let time = |flag, text| Ok::<_, Error>(value(flag, text)?.unwrap_or_default());
        let overheads = Overheads {
            overhead: time("--overhead", self.timing.overhead.as_ref())?,
            gap: time("--gap", self.timing.gap.as_ref())?,
        };
        Ok(arrival::Ask { overheads, starts: self.timing.trouble(ranks)?.starts })
    }

    /// Simulates operations that do not say which data they move.
    fn bare(
        &mut self,
        out: &mut impl Write,
        bare: &Bare,
        file: &str,
    ) -> std::result::Result<(), Stop> {
        let ranks = bare.operations.ranks;
        let place = |e: Error| e.at(format!("--schedule {file}"));
        let said = [&self.collective, &self.call.algorithm, &self.call.size, &self.call.size_is];
        let mode = self.timing.mode.as_deref().filter(|mode| *mode != ARRIVAL);
        if said.into_iter().any(Option::is_some) || mode.is_some() {
            let what = "the file says who sends how much to whom, but not which data";
            return Err(place(Error::input(what))
                .help("without collective, algorithm, size and mode it is timed unchanged")
                .into());
        }
        let ask = self.arrival(ranks)?;
        self.on.ranks = self.on.ranks.clone().for_ranks(ranks, file)?;
        let query = self.on.query(Collective::SendRecv, Bytes(1)).map_err(place)?;
        self.on.refuse_idle(&query)?;
        let report = arrival::of_file(&query, bare, file, &ask)?;
        self.format.write(out, &report, |look| view::arrival::arrival(&report, look))
    }

    /// The schedule of a file, which names its collective, ranks and size.
    fn foreign(
        &mut self,
        registry: &Registry,
        file: &str,
        foreign: Foreign,
    ) -> Result<(Query, Plan)> {
        let collective = foreign.list.collective();
        let place = format!("--schedule {file}");
        if let Some(asked) = self.sort(registry)?.filter(|&asked| asked != collective) {
            return Err(Error::input(format!("the schedule is for {collective}, not {asked}"))
                .at(place)
                .help(format!("write simulate {} --schedule {file}", collective.id())));
        }
        if let Some(name) = &self.call.algorithm {
            return Err(both(name, file));
        }
        self.on.ranks = self.on.ranks.clone().for_ranks(foreign.list.ranks(), file)?;
        let query = self.query(collective, foreign.size);
        Ok((query.map_err(|e| e.at(place))?, Plan::foreign(foreign, file)?))
    }

    fn query(&self, collective: Collective, otherwise: Option<Bytes>) -> Result<Query> {
        let mut query = self.call.query(&self.on, collective, otherwise)?;
        self.timing.share_ports(&mut query)?;
        Ok(query)
    }
}

impl TimingFlags {
    /// The first flag besides --mode that was given.
    fn but_mode(&self) -> Option<&'static str> {
        let skew = self.skew.as_ref().map(|_| "--skew");
        let start = (!self.start.is_empty()).then_some("--start");
        skew.or(start).or(self.only_arrival()).or(self.not_arrival())
    }

    /// The first flag that has a meaning only in mode arrival.
    fn only_arrival(&self) -> Option<&'static str> {
        let flags = [("--overhead", &self.overhead), ("--gap", &self.gap)];
        flags.into_iter().find(|(_, text)| text.is_some()).map(|(flag, _)| flag)
    }

    /// The first flag that has no meaning in mode arrival.
    fn not_arrival(&self) -> Option<&'static str> {
        let flags = [
            ("--slow-rank", !self.slow_rank.is_empty()),
            ("--slow-link", !self.slow_link.is_empty()),
            ("--discipline", self.discipline.is_some()),
            ("--details", self.details),
            ("--duplex-factor", self.duplex_factor.is_some()),
        ];
        flags.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag)
    }

    fn ask(&self, ranks: u32) -> Result<Ask> {
        let mode: Option<Mode> = value("--mode", self.mode.as_ref())
            .map_err(|e: Error| e.help("write sync, local, flow or arrival"))?;
        Ok(Ask { mode, trouble: self.trouble(ranks)?, details: self.details })
    }

    /// What goes wrong.
    fn trouble(&self, ranks: u32) -> Result<Trouble> {
        let there = |flag: &str, text: &str, number: &str| {
            let rank = rank(flag, text, number)?;
            if rank < ranks {
                return Ok(rank);
            }
            Err(Error::input(format!("there is no rank {rank}"))
                .at(format!("{flag} {text}"))
                .help(format!("ranks are 0 to {}", ranks.saturating_sub(1))))
        };
        let mut trouble = Trouble::default();
        let mut started = BTreeSet::new();
        for text in &self.start {
            let (number, time) = pair("--start", text, "3=20us")?;
            let rank = there("--start", text, number)? as usize;
            let time: Seconds = time.parse().map_err(|e: Error| e.at(format!("--start {text}")))?;
            if !started.insert(rank) {
                return Err(Error::input(format!("rank {rank} starts twice"))
                    .at(format!("--start {text}"))
                    .help("give one start time for each rank"));
            }
            trouble.starts.resize(trouble.starts.len().max(rank + 1), Seconds(0.0));
            trouble.starts[rank] = time;
        }
        if let Some(Seconds(skew)) = value("--skew", self.skew.as_ref())? {
            let share = |rank: u32| Seconds(skew * f64::from(rank) / f64::from(ranks));
            trouble.starts = (0..ranks).map(share).collect();
        }
        for text in &self.slow_rank {
            let (number, times) = pair("--slow-rank", text, "3=1.5")?;
            let rank = there("--slow-rank", text, number)?;
            if trouble.slow_ranks.iter().any(|(other, _)| *other == rank) {
                return Err(Error::input(format!("rank {rank} is slowed twice"))
                    .at(format!("--slow-rank {text}"))
                    .help("give one factor for each rank"));
            }
            trouble.slow_ranks.push((rank, factor("--slow-rank", text, times)?));
        }
        for text in &self.slow_link {
            let (link, times) = pair("--slow-link", text, "0-1=2")?;
            let (from, to) =
                link.split_once('-').ok_or_else(|| no_pair("--slow-link", text, "0-1=2"))?;
            let (from, to) = (there("--slow-link", text, from)?, there("--slow-link", text, to)?);
            if trouble.slow_links.iter().any(|(a, b, _)| (*a, *b) == (from, to)) {
                return Err(Error::input(format!("the link from {from} to {to} is slowed twice"))
                    .at(format!("--slow-link {text}"))
                    .help("give one factor for each link"));
            }
            trouble.slow_links.push((from, to, factor("--slow-link", text, times)?));
        }
        Ok(trouble)
    }

    /// Puts in how ports are shared.
    fn share_ports(&self, query: &mut Query) -> Result<()> {
        let discipline = match self.discipline.as_deref() {
            None => None,
            Some("serial") => Some(Discipline::Serial),
            Some("fair") => Some(Discipline::Fair),
            Some(other) => {
                return Err(Error::input(format!("`{other}` is not a way to share a port"))
                    .at(format!("--discipline {other}"))
                    .help("write serial or fair"));
            }
        };
        let duplex = ratio("--duplex-factor", self.duplex_factor.as_ref())?;
        if let Some(Ratio(factor)) = duplex.filter(|d| !(0.5..=1.0).contains(&d.0)) {
            return Err(Error::input(format!("{factor} is not a duplex factor"))
                .at(format!("--duplex-factor {factor}"))
                .help("write a number from 0.5 (one way at a time) to 1 (both at full rate)"));
        }
        for tier in &mut query.machine.fabric.tiers {
            tier.discipline = discipline.unwrap_or(tier.discipline);
            tier.link.duplex = duplex.unwrap_or(tier.link.duplex);
        }
        Ok(())
    }
}

/// An algorithm beside a schedule that is one.
fn both(name: &str, file: &str) -> Error {
    Error::input(format!("`{name}` was given with a schedule from a file"))
        .at(format!("--schedule {file}"))
        .help("give one of them")
}

/// Both sides of `text`, which should look like `such`.
fn pair<'a>(flag: &str, text: &'a str, such: &str) -> Result<(&'a str, &'a str)> {
    text.split_once('=').ok_or_else(|| no_pair(flag, text, such))
}

fn no_pair(flag: &str, text: &str, such: &str) -> Error {
    Error::input(format!("`{text}` is incomplete"))
        .at(format!("{flag} {text}"))
        .help(format!("write it as {such}"))
}

fn rank(flag: &str, text: &str, number: &str) -> Result<u32> {
    number.trim().parse().map_err(|_| {
        Error::input(format!("`{number}` is not a rank"))
            .at(format!("{flag} {text}"))
            .help("ranks are whole numbers, starting at 0")
    })
}

fn factor(flag: &str, text: &str, times: &str) -> Result<Ratio> {
    match times.trim().parse::<f64>() {
        Ok(x) if x.is_finite() && x > 0.0 => Ok(Ratio(x)),
        _ => Err(Error::input(format!("`{times}` is not a number above 0"))
            .at(format!("{flag} {text}"))
            .help("write how many times as long messages take, such as 1.5")),
    }
}

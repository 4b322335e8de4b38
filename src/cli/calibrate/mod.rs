//! `collcost calibrate`: runs the collectives on this machine and fits its parameters to the times.

#[cfg(feature = "cuda")]
pub(super) mod gpu;
mod kept;
mod race;
mod rounds;
mod site;
mod tiers;

use std::io::Write;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::cli::Stop;
use crate::cli::config::folder;
use crate::cli::fit::{Seed, Stat, TOOL, Tiers};
use crate::cli::flags::{count, ends, value};
use crate::cli::format::{FormatFlag, Report};
use crate::cli::named::short;
use crate::cli::output::{is_of_place, refuse_input};
use crate::cli::processes::{ProcessFlags, signals_end};
use crate::cli::profiles::today;
use crate::cli::progress::{Bar, Show};
use collcost::answer::calibrate as report;
use collcost::base::collective::Collective;
use collcost::base::error::{Error, Result};
use collcost::base::quantity::{Bytes, Percent, Ratio, Seconds};
use collcost::machine::sample::{Header, LaunchRecord, Op, Record, Samples};
use collcost::measure::fit::{Gate, Verdict};
use collcost::model::algorithm::Registry;
use collcost::plan::config::is_file;
use collcost::run::calibrate::{
    Groups, Launch, Outside, Plan, Progress, clock_step, design, ladder, measure, ports, throttled,
    whole,
};
use collcost::run::execute::runnable;
use collcost::run::launch::{Setup, Usable, usable};
use collcost::run::rendezvous::Part;
use collcost::run::transport::{Kind, tcp};
use collcost::view;
use kept::{Existing, Kept};
use site::{HostFlags, Site};
use tiers::Links;

/// Default values of flags.
const AUTO: &str = "auto";
const PRECISION: &str = "2%";
const LAUNCHES: &str = "3";
/// So many sizes are enough for a fit, if there is time for them.
const LEAST_SIZES: usize = 8;
/// Without --time-budget, measuring continues up to this time if too little is known.
const LONGEST: Duration = Duration::from_secs(50);

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  collcost calibrate                       shared memory, all CPUs, profile `local`
  collcost calibrate --check               checks the machine, measures nothing
  collcost calibrate --transport tcp -n 4 --out rack.toml
  collcost calibrate --transport nccl --out node.toml
  srun -N 2 collcost calibrate --transport nccl --token-file token --out two.toml
  collcost calibrate --out rack.toml --resume
  mpirun -np 8 collcost calibrate --library openmpi --on rack.toml --out rules.conf
  mpirun -np 4 --host a,b,c,d collcost calibrate --rendezvous a:29533 --token-file token -o r.toml
  mpirun -np 8 --host a:4,b:4 …            two tiers: memory inside hosts, the network between them
  collcost allreduce 1M -n 2 --on local    uses the profile")]
pub(super) struct Args {
    /// Number of ranks; default: one per usable CPU
    #[arg(short, long = "ranks", visible_aliases = ["np", "n"], value_name = "N", allow_hyphen_values = true)]
    n: Option<String>,
    /// Operations to measure: auto, or a list such as allreduce/ring,one-way,copy
    #[arg(long, value_name = "LIST", default_value = AUTO)]
    ops: String,
    /// Sizes to measure: auto, a range such as 8..64M, or a list such as 8,1K,1M
    #[arg(long, value_name = "SIZES", default_value = AUTO)]
    sizes: String,
    /// Time limit for measuring; default: 15 s over shared memory and 45 s over TCP, extended to at
    /// most 50 s if too little is known
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    time_budget: Option<String>,
    /// Relative precision of the median at which a point is finished
    #[arg(long, value_name = "PART", default_value = PRECISION, allow_hyphen_values = true)]
    precision: String,
    /// How often the processes are started
    #[arg(long, value_name = "L", default_value = LAUNCHES, allow_hyphen_values = true, hide_short_help = true)]
    launches: String,
    /// Seed for the order of measurements; default: 1
    #[arg(long, value_name = "SEED", allow_hyphen_values = true, hide_short_help = true)]
    seed: Option<String>,
    /// Send data for this long before the first block of a launch
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, hide_short_help = true)]
    drain: Option<String>,
    /// The NCCL library to load; default: COLLCOST_NCCL, libnccl.so.2, then libnccl.so
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    nccl_lib: Option<String>,
    /// Allocate and register the buffers with NCCL (ncclMemAlloc, ncclCommRegister)
    #[arg(long, hide_short_help = true)]
    registered: bool,
    /// Race a library's own algorithms: openmpi or mpich, whose mpirun starts this command; --out is then
    /// the tuning file to write. nccl is --transport nccl
    #[arg(long, value_name = "NAME")]
    library: Option<String>,
    /// The profile whose model says what is worth racing; default: `local`
    #[arg(long, value_name = "PROFILE", requires = "library", hide_short_help = true)]
    on: Option<String>,
    /// The profile to write; default: `local`, in your own profiles
    #[arg(short, long, value_name = "FILE.toml")]
    out: Option<String>,
    /// The file for the samples; default: in the folder of the profile
    #[arg(long, value_name = "FILE.jsonl")]
    samples: Option<String>,
    /// Continue the existing samples
    #[arg(long)]
    resume: bool,
    /// Continue them even if machine or plan differ
    #[arg(long, hide_short_help = true)]
    force_resume: bool,
    /// Measure and write the profile even if a gate refuses; the profile records that
    #[arg(long, hide_short_help = true)]
    force: bool,
    /// The statistic of a point to fit: typical (median) or floor (10 % quantile)
    #[arg(long, value_name = "STATISTIC", hide_possible_values = true, hide_short_help = true)]
    stat: Option<Stat>,
    /// Only check the machine; measure nothing
    #[arg(long, conflicts_with = "dry_run")]
    check: bool,
    /// Only show what would be measured
    #[arg(long)]
    dry_run: bool,
    /// How progress is shown on standard error: auto, plain or none
    #[arg(
        long,
        value_name = "HOW",
        default_value = "auto",
        hide_possible_values = true,
        hide_short_help = true
    )]
    progress: Show,
    #[command(flatten)]
    format: FormatFlag<Report>,
    #[command(flatten)]
    processes: ProcessFlags,
    #[command(flatten)]
    hosts: HostFlags,
}

impl Args {
    pub(super) fn run(self, out: &mut impl Write) -> std::result::Result<(), Stop> {
        if let Some(library) = self.library()? {
            return self.race(library, out);
        }
        let ranks = count("--ranks", "ranks", self.n.as_ref())?.map(NonZeroU32::get);
        let part = self.hosts.part(ranks)?;
        #[cfg(feature = "cuda")]
        if let Some(way) = self.way(part.is_some())? {
            return self.gpu(way, part.as_ref(), out);
        }
        let (setup, usable) = self.setup(ranks, part.as_ref())?;
        self.idle(part.is_some())?;
        #[cfg(not(feature = "cuda"))]
        crate::cli::processes::passed_over_gpus();
        match &part {
            Some(part) if part.rank > 0 => Ok(self.hosts.serve(part, &setup)?),
            _ => {
                signals_end(true);
                // Wrong flags are reported before waiting for other ranks.
                let plan = self.plan(&setup)?;
                let measures = !self.check && !self.dry_run;
                // The folder of one's own profiles is only made to write into it.
                if measures || self.out.is_some() {
                    self.samples_file()?;
                }
                signals_end(part.is_none());
                let mut site = match &part {
                    Some(part) => Site::of(setup, usable, &self.hosts, part)?,
                    None => Site::here(setup, usable),
                };
                self.lead(out, &plan, &mut site)
            }
        }
    }

    /// Measures and fits, as the process that starts the ranks or gathers them.
    fn lead(
        &self,
        out: &mut impl Write,
        plan: &Plan,
        site: &mut Site,
    ) -> std::result::Result<(), Stop> {
        let gates = site.gates();
        signals_end(self.check || self.dry_run);
        let mut shown = report::machine(site.first(), &gates);
        if site.is_several() {
            shown.hosts = Some(site.identity().0);
        }
        if !self.check {
            shown.plan = Some(report::plan(plan, &site.setup));
        }
        let against = gates.iter().find(|gate| gate.verdict == Verdict::Refused);
        let refused = against.filter(|_| !self.force).map(not_here);
        if self.check || self.dry_run {
            site.end(None);
            self.show(out, &shown)?;
            return refused.map_or(Ok(()), |error| Err(error.into()));
        }
        if let Some(error) = refused {
            site.end(None);
            return Err(error.into());
        }
        let (began, before, profile) = (Instant::now(), throttled()?, self.out()?);
        let done = self.tiers(plan, site);
        site.end(done.as_ref().err());
        signals_end(true);
        let measured = done?;
        shown.measured = Some(report::measured(
            measured.iter().map(|(file, samples)| (short(file), samples)),
            began.elapsed(),
        ));
        let time = Seconds(plan.longest.as_secs_f64());
        let mut tiers = Tiers::fit(measured, self.stat, plan.seed).map_err(|e| {
            match e.is_scarce() && plan.sizes.len() >= LEAST_SIZES {
                true => e.help(format!(
                    "{time} were too short for its sizes: give a longer --time-budget, with --resume"
                )),
                false => e.or_help("measure for longer, with --resume"),
            }
        })?;
        let gates = gates.into_iter().filter(|gate| gate.verdict != Verdict::Good);
        let quota = held_back(throttled()?.saturating_sub(before));
        tiers.outermost().gates.extend(gates.chain([quota]));
        let refusal = tiers.refusal().filter(|_| !self.force);
        let written = match refusal {
            Some(_) => None,
            None => {
                let profile = profile.to_string_lossy().into_owned();
                tiers.write(&profile, self.command())?;
                Some(profile)
            }
        };
        shown.fit = Some(tiers.report(false, written));
        self.show(out, &shown)?;
        refusal.map_or(Ok(()), Err)
    }

    fn show(
        &self,
        out: &mut impl Write,
        shown: &report::Calibration,
    ) -> std::result::Result<(), Stop> {
        self.format.write(out, shown, |_| view::calibrate::calibration(shown))
    }

    /// Refuses flags that change nothing between ranks on CPUs.
    fn idle(&self, started: bool) -> Result<()> {
        let gpus = ("GPUs", "leave it out, or add --transport nccl");
        let elsewhere = ("ranks that were started elsewhere", "leave it out, or name a --launcher");
        let idle = [
            (self.registered, "--registered", gpus),
            (self.nccl_lib.is_some(), "--nccl-lib", gpus),
            (self.hosts.has_token() && !started, "--token-file", elsewhere),
        ];
        match idle.into_iter().find(|(typed, ..)| *typed) {
            None => Ok(()),
            Some((_, flag, (of, help))) => {
                let what = format!("it changes nothing here: it is for {of}");
                Err(Error::input(what).at(flag).help(help))
            }
        }
    }

    /// How ranks are started, and on which CPUs.
    fn setup(&self, ranks: Option<u32>, part: Option<&Part>) -> Result<(Setup, Usable)> {
        let usable = usable()?;
        let mut setup = self.processes.setup(part.is_some())?;
        if let Some(part) = part {
            setup.ranks = part.ranks;
            return Ok((setup, usable));
        }
        // Fewer than two ranks show nothing.
        let named = self.processes.cpus().or(self.processes.namespaces());
        let usual = || named.unwrap_or(usable.at_once.clamp(2, 64) as u32);
        let ranks = ranks.unwrap_or_else(usual);
        if ranks < 2 {
            let place = match self.processes.words().into_iter().find(|w| w.starts_with("--cpus")) {
                Some(word) if self.n.is_none() => word,
                _ => format!("--ranks {ranks}"),
            };
            return Err(Error::input("a single rank has no peer")
                .at(place)
                .help("start at least 2"));
        }
        self.processes.places_suffice(ranks)?;
        setup.ranks = ranks;
        // A CPU that cannot be used is refused before anything is started.
        let all: Vec<u32> = (0..ranks).collect();
        setup.pin.among(&all, &usable).map_err(|e| self.processes.of_cpus(e))?;
        setup.wait = Some(setup.waits(&usable));
        Ok((setup, usable))
    }

    fn plan(&self, setup: &Setup) -> Result<Plan> {
        let (budget, drain) = match setup.transport {
            Kind::Shm => (15.0, 0.05),
            Kind::Tcp => (45.0, 0.5),
        };
        let budget = self.budget(budget)?;
        const MOST_LAUNCHES: u32 = 1000;
        let launches =
            count("--launches", "launches", Some(&self.launches))?.map_or(3, |n| n.get());
        if launches > MOST_LAUNCHES {
            return Err(Error::input(format!("{launches} launches are too many"))
                .at(format!("--launches {launches}"))
                .help(format!("write at most {MOST_LAUNCHES}")));
        }
        Ok(Plan {
            ranks: setup.ranks,
            ops: self.ops(setup.ranks)?,
            sizes: self.sizes()?,
            launches,
            seed: value::<Seed>("--seed", self.seed.as_ref())?.map_or(1, |seed| seed.0),
            precision: self.precision()?,
            budget: Duration::from_secs_f64(budget.0),
            longest: match self.time_budget {
                None => LONGEST.max(Duration::from_secs_f64(budget.0)),
                Some(_) => Duration::from_secs_f64(budget.0),
            },
            drain: seconds("--drain", self.drain.as_ref(), drain)?,
            wire: setup.transport == Kind::Tcp,
        })
    }

    /// The time to measure; `usual` seconds if none was given.
    fn budget(&self, usual: f64) -> Result<Seconds> {
        const FLAG: &str = "--time-budget";
        let budget = seconds(FLAG, self.time_budget.as_ref(), usual)?;
        match budget.0 > 0.0 {
            true => Ok(budget),
            false => Err(Error::input("nothing is measured in no time").at(FLAG).help("write 60s")),
        }
    }

    /// `2%` or `0.02`.
    fn precision(&self) -> Result<Ratio> {
        let text = self.precision.trim();
        let part = text.parse().map(|Percent(part)| part).ok();
        part.filter(|part| (1e-4..=1.0).contains(part)).map(Ratio).ok_or_else(|| {
            Error::input(format!("`{text}` is not between 0.01 % and 100 %"))
                .at(format!("--precision {text}"))
                .help("write 2%")
        })
    }

    fn ops(&self, ranks: u32) -> Result<Vec<Op>> {
        if self.ops == AUTO {
            return Ok(design(&Registry::builtin(), ranks));
        }
        let place = |e: Error| e.at(format!("--ops {}", self.ops));
        let mut ops = Vec::new();
        for name in self.ops.split(',') {
            let op: Op = name.trim().parse().map_err(place)?;
            // An operation that cannot run, or says nothing, is refused before anything is started.
            measurable(&op)
                .and_then(|()| runnable(&Registry::builtin(), &op, ranks))
                .map_err(place)?;
            if !ops.contains(&op) {
                ops.push(op);
            }
        }
        Ok(ops)
    }

    /// The sizes that were typed.
    fn sizes_asked(&self) -> Result<Option<Vec<Bytes>>> {
        (self.sizes != AUTO).then(|| self.sizes()).transpose()
    }

    fn sizes(&self) -> Result<Vec<Bytes>> {
        const MOST: Bytes = Bytes(64 << 20);
        let place = |e: Error| e.at(format!("--sizes {}", self.sizes));
        let one = |text: &str| -> Result<Bytes> {
            let size: Bytes = text.trim().parse().map_err(place)?;
            if size.0 == 0 || !size.0.is_multiple_of(4) {
                return Err(place(
                    Error::input(format!("{size} is not a whole number of f32"))
                        .help("write multiples of 4 B, at least 4 B"),
                ));
            }
            Ok(size)
        };
        let mut sizes = match (self.sizes.as_str(), ends(&self.sizes)) {
            (AUTO, _) => ladder(MOST),
            (_, Some((low, high))) => {
                let (low, high) = (one(low)?, one(high)?);
                if low > high {
                    return Err(place(Error::input(format!("{low} is more than {high}"))));
                }
                let inside = ladder(high).into_iter().filter(|&size| size > low && size < high);
                [low].into_iter().chain(inside).chain([high]).collect()
            }
            (list, None) => list.split(',').map(one).collect::<Result<_>>()?,
        };
        sizes.sort();
        sizes.dedup();
        Ok(sizes)
    }

    /// The profile's file. Its folder must exist, so that nothing is measured in vain.
    fn out(&self) -> Result<PathBuf> {
        let Some(file) = &self.out else {
            let own = folder().map(|folder| folder.join("profiles")).ok_or_else(|| {
                Error::environment("there is no home folder for the profile `local`")
                    .help("name a file with --out")
            })?;
            std::fs::create_dir_all(&own).map_err(|e| {
                let what = format!("{} cannot be made: {e}", own.display());
                let error = if is_of_place(&e) { Error::input(what) } else { Error::lost(what) };
                error.help("name a file with --out")
            })?;
            return Ok(own.join("local.toml"));
        };
        let path = PathBuf::from(file);
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let why = match folder.is_none_or(Path::is_dir) {
            _ if path.file_name().is_none() || path.is_dir() => "it is a folder",
            false => "there is no such folder",
            true if !is_file(file) => {
                return Err(Error::input(format!("`--on {file}` would not read that file"))
                    .at(format!("--out {file}"))
                    .help(format!("write {file}.toml")));
            }
            true => return Ok(path),
        };
        Err(Error::input(format!("the profile cannot be written: {why}"))
            .at(format!("--out {file}"))
            .help("name a file in a folder that exists and can be written to"))
    }

    /// The samples' file, which is not the profile's.
    fn samples_file(&self) -> Result<PathBuf> {
        let out = self.out()?;
        match &self.samples {
            Some(file) => {
                refuse_input("--out", &out.to_string_lossy(), [file.as_str()])?;
                Ok(PathBuf::from(file))
            }
            None => Ok(out.with_extension("samples.jsonl")),
        }
    }

    /// What to do with samples that are there already.
    fn existing(&self) -> Existing {
        match (self.force_resume, self.resume, &self.samples) {
            (true, ..) => Existing::Mix,
            (_, true, _) => Existing::GoOn,
            (_, _, Some(_)) => Existing::Refuse,
            (_, _, None) => Existing::SetAside,
        }
    }

    /// Measures `links` into `file`; returns its name and its contents.
    fn measure(
        &self,
        plan: &Plan,
        site: &mut Site,
        links: Links<'_>,
        file: PathBuf,
    ) -> Result<(String, Samples)> {
        let header = self.header(plan, site, links)?;
        let (file, mut before) = Kept::open(file, self.existing(), header, &self.out()?)?;
        if let Links::All(known) = links {
            before.bucket = before.bucket.or(known.bucket);
            before.stream = before.stream.or(known.stream);
        }
        let name = file.name.clone();
        let bar =
            Bar::new(self.progress, &format!("{} {} ranks", site.setup.transport.id(), plan.ranks));
        let mut desk = Desk { site, file, bar };
        let done = measure(&Registry::builtin(), plan, clock_step(), before, &mut desk);
        desk.bar.end();
        let done = done.and_then(|samples| match links {
            Links::Between(groups, whole) => desk.all(groups, &samples, whole),
            Links::All(_) | Links::Inside(_) => Ok(()),
        });
        done.map_err(|e| {
            let more = format!("the samples so far are in {name}; --resume continues");
            if e.is_lost() || e.is_interrupted() { e.help(more) } else { e }
        })?;
        Ok((name, desk.file.read()?))
    }

    fn header(&self, plan: &Plan, site: &Site, links: Links<'_>) -> Result<Header> {
        let setup = &site.setup;
        let (machine, fingerprint) = site.identity();
        let wait = setup.wait;
        let places: Vec<String> = setup.places.iter().map(|p| p.address.to_string()).collect();
        let mut options = vec![format!("pin={}", setup.pin)];
        options.extend((!places.is_empty()).then(|| format!("addresses={}", places.join(","))));
        options.extend(links.groups().map(|groups| format!("groups={}", groups.words())));
        let how = format!("{};{wait:?};{}", setup.transport.id(), options.join(";"));
        Ok(Header {
            seed: plan.seed,
            transport: setup.transport.id().to_owned(),
            plan_hash: plan.hash(&how),
            options,
            wait,
            ranks: plan.ranks,
            span: match links {
                Links::Inside(groups) => Some(groups.span()),
                Links::All(_) | Links::Between(..) => None,
            },
            fingerprint,
            machine,
            ..self.head()?
        })
    }

    /// What every file of samples begins with, whatever is measured.
    fn head(&self) -> Result<Header> {
        Ok(Header {
            run: tcp::Run::new()?.id.iter().map(|byte| format!("{byte:02x}")).collect(),
            command: self.command(),
            tool: TOOL.to_owned(),
            date: today().map_or(String::new(), |day| day.to_string()),
            ..Header::default()
        })
    }

    /// The command without paths, which mean nothing on another computer.
    fn command(&self) -> String {
        let mut words = vec!["collcost calibrate".to_owned()];
        words.extend(self.processes.words());
        words.extend(self.hosts.words());
        words.extend(self.nccl_lib.iter().map(|file| format!("--nccl-lib {}", short(file))));
        words.extend(self.n.iter().map(|n| format!("-n {n}")));
        for (flag, value, usual) in [
            ("--ops", &self.ops, AUTO),
            ("--sizes", &self.sizes, AUTO),
            ("--precision", &self.precision, PRECISION),
            ("--launches", &self.launches, LAUNCHES),
        ] {
            if value != usual {
                words.push(format!("{flag} {value}"));
            }
        }
        let options = [
            ("--time-budget", &self.time_budget),
            ("--seed", &self.seed),
            ("--drain", &self.drain),
        ];
        for (flag, value) in options {
            words.extend(value.iter().map(|value| format!("{flag} {value}")));
        }
        words.extend(self.out.iter().map(|file| format!("--out {}", short(file))));
        words.extend(self.samples.iter().map(|file| format!("--samples {}", short(file))));
        for (flag, is_set) in [
            ("--resume", self.resume),
            ("--registered", self.registered),
            ("--force-resume", self.force_resume),
            ("--force", self.force),
        ] {
            words.extend(is_set.then(|| flag.to_owned()));
        }
        words.join(" ")
    }
}

/// A time of at most a day; `usual` seconds if none was given.
fn seconds(flag: &str, text: Option<&String>, usual: f64) -> Result<Seconds> {
    let time = value::<Seconds>(flag, text)?.unwrap_or(Seconds(usual));
    match time.0 {
        t if (0.0..=86_400.0).contains(&t) => Ok(time),
        _ => Err(Error::input("the time is not between 0 and a day").at(flag).help("write 60s")),
    }
}

/// Refuses operations from which no parameter of a link follows.
fn measurable(op: &Op) -> Result<()> {
    match op {
        Op::Library(_) | Op::Forced(_) => {
            Err(Error::input(format!("{op} is a library's: ranks of collcost cannot run it"))
                .help("--library openmpi, mpich or nccl measures a library; or name an algorithm: allreduce/ring"))
        }
        Op::Run(run) if run.collective == Collective::Barrier => {
            Err(Error::input("a barrier moves no data: its time does not depend on a size")
                .help("leave it out; `collcost run barrier` times it"))
        }
        _ => Ok(()),
    }
}

/// The error of a gate that refuses to measure on this machine now.
fn not_here(gate: &Gate) -> Error {
    Error::environment(format!("this machine refuses: {}: {}", gate.name, gate.said))
        .help(gate.help)
}

/// The gate for how often the control group's quota stopped ranks while measuring.
fn held_back(times: u64) -> Gate {
    Gate {
        name: "quota",
        verdict: if times > 0 { Verdict::Refused } else { Verdict::Good },
        said: format!("the control group's CPU quota held ranks back {times} times"),
        help: "measure with fewer ranks, or with a larger quota (cpu.max)",
    }
}

/// Processes, the samples' file and the terminal.
struct Desk<'a> {
    site: &'a mut Site,
    file: Kept,
    bar: Bar,
}

impl Desk<'_> {
    /// Measures what concerns all ranks, and keeps it: how many ports those of a group share, and for a time
    /// collectives, which tell how far the result is off.
    fn all(&mut self, groups: &Groups, alone: &Samples, most: Option<Duration>) -> Result<()> {
        self.site.only(groups.all(), self.site.setup.transport);
        let (mut runner, start, record) = self.site.launch()?;
        let nics = ports(&mut *runner, start, groups, alone)?;
        let launch = alone.launches();
        self.file.keep(&Record::Launch(LaunchRecord { launch, nics, ..record }))?;
        if let Some(most) = most {
            let ops = design(&Registry::builtin(), runner.ranks());
            let keep = |block| self.file.keep(&Record::Block(block));
            whole(&mut *runner, (start, &ops), alone, most, keep)?;
        }
        self.file.keep(&Record::End { launch })
    }
}

impl Outside for Desk<'_> {
    fn launch(&mut self) -> Result<Launch> {
        let (runner, start, record) = self.site.launch()?;
        Ok(Launch { runner, record, start })
    }

    fn keep(&mut self, record: &Record) -> Result<()> {
        self.file.keep(record)
    }

    fn name(&self, rank: u32) -> String {
        self.site.name(rank)
    }

    fn show(&mut self, progress: &Progress) {
        self.bar.show(progress);
    }
}

//! `calibrate --library openmpi` and `--library mpich`: a library's own algorithms, raced in the ranks
//! that its `mpirun` started.

use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::rounds::Rounds;
use super::{AUTO, Args};
use crate::cli::Stop;
use crate::cli::export::tuning::{Tuning, offers};
use crate::cli::flags::{OnFlags, value};
use crate::cli::output::{refuse_input, write_whole};
use crate::cli::processes::this_program;
use crate::cli::progress::Bar;
use crate::cli::streams::say;
use collcost::answer::race::{Entered, Race};
use collcost::answer::tune::{self, Compared, Pick, Plan, Raced, Rendezvous};
use collcost::base::collective::Collective;
use collcost::base::error::{Error, Result};
use collcost::base::quantity::{Bytes, Ratio, Seconds};
use collcost::library::openmpi::DYNAMIC;
use collcost::library::{Call, Operation, Policy, Site, policy};
use collcost::machine::query::Query;
use collcost::model::algorithm::{Library, Registry};
use collcost::run::calibrate::Progress;
use collcost::run::mpi::{ALIKE, Forced, Heat, LARGEST, Timing, Track, World, race};
use collcost::view;

/// How long races may take together.
const BUDGET: Seconds = Seconds(120.0);
/// The part of it for the sizes that are asked for; the rest is for sizes between those at which different
/// choices won.
const FIRST: f64 = 0.75;
/// The largest size if the flags give none, and the step from one to the next.
const USUAL: Bytes = Bytes(4 << 20);
const STEP: u64 = 4;
/// A time is the median of so many runs that they take this long, of at most so many.
const LONG: f64 = 2e-3;
const MOST_RUNS: f64 = 15.0;
/// What a round takes beside the calls.
const BETWEEN: f64 = 1e-3;
/// If nothing has happened for this long, and for many times what is expected, a call hangs.
const PATIENCE: Duration = Duration::from_secs(60);
const PATIENT: f64 = 20.0;

impl Args {
    /// The MPI library whose algorithms are raced.
    pub(super) fn library(&self) -> Result<Option<Library>> {
        let Some(name) = &self.library else { return Ok(None) };
        let known = match Library::named(name) {
            Some(library @ (Library::OpenMpi | Library::Mpich)) => Some(library),
            Some(Library::Nccl) => {
                #[cfg(not(feature = "cuda"))]
                return Err(crate::cli::processes::no_gpus("nccl"));
                #[cfg(feature = "cuda")]
                return Ok(None);
            }
            _ => None,
        };
        let known = known.ok_or_else(|| {
            Error::input(format!("`{name}` is not a library that is measured"))
                .at(format!("--library {name}"))
                .help("write openmpi, mpich or nccl")
        })?;
        let others = [
            (self.n.is_some(), "--ranks"),
            (self.check, "--check"),
            (self.stat.is_some(), "--stat"),
            (self.drain.is_some(), "--drain"),
            (self.registered, "--registered"),
            (self.nccl_lib.is_some(), "--nccl-lib"),
            (
                !self.processes.words().is_empty(),
                "--transport, --wait, --no-pin, --cpus and --netns",
            ),
        ];
        match others.iter().find(|(typed, _)| *typed) {
            None => Ok(Some(known)),
            Some((_, flag)) => {
                Err(Error::input("the library starts its ranks, and moves their bytes")
                    .at(format!("{flag} with --library {name}"))
                    .help("leave it out; for samples of this machine calibrate without --library"))
            }
        }
    }

    /// Races the library's algorithms as rank 0, or runs what rank 0 says.
    pub(super) fn race(
        &self,
        library: Library,
        out: &mut impl Write,
    ) -> std::result::Result<(), Stop> {
        if let Some(out) = &self.out {
            // A machine's name is not that of a file.
            let on = self.on.as_ref().filter(|on| Path::new(on).is_file());
            let read = self.samples.iter().chain(on).map(String::as_str);
            refuse_input("--out", out, read)?;
        }
        if library == Library::OpenMpi {
            with_dynamic_rules()?;
        }
        let mut world = World::join(library)?;
        if world.rank() > 0 {
            let served = world.serve();
            world.end();
            return Ok(served?);
        }
        let done = self.lead_race(library, &mut world, out);
        world.end();
        done
    }

    fn lead_race(
        &self,
        library: Library,
        world: &mut World,
        out: &mut impl Write,
    ) -> std::result::Result<(), Stop> {
        let asked = Asked::new(self, library, world)?;
        let mut all = Vec::new();
        for operation in asked.operations(self)? {
            all.extend(asked.entered(self, operation, world.ranks())?);
        }
        let budget = value::<Seconds>("--time-budget", self.time_budget.as_ref())?;
        let budget = Duration::from_secs_f64(budget.unwrap_or(BUDGET).0.clamp(0.0, 86_400.0));
        let (began, mut notes, mut done) = (Instant::now(), Vec::new(), Ok(()));
        if !self.dry_run {
            let beside =
                || self.out.as_ref().map(|out| Path::new(out).with_extension("race.jsonl"));
            let file = self.samples.as_ref().map(PathBuf::from).or_else(beside);
            let mut rounds = Rounds::open(file, self.resume, world)?;
            let mut desk = Desk { world, rounds: &mut rounds, notes: &mut notes };
            done = self.run_heats(&mut desk, &mut all, budget.mul_f64(FIRST));
            let mut more = asked.between(&all, desk.world.ranks(), desk.rounds)?;
            if done.is_ok() {
                let left = budget.saturating_sub(began.elapsed());
                done = self.run_heats(&mut desk, &mut more, left);
                all.extend(more);
            }
            done = done.map_err(|e| match rounds.path() {
                Some(path) => e.or_help(format!("{}; --resume continues", path.display())),
                None => e,
            });
        }
        all.sort_by_key(|(e, _)| (e.operation.to_string(), e.size));
        let time_s = (!self.dry_run).then(|| began.elapsed().as_secs_f64());
        let is_raced = |(e, _): &&(Entered, Heat)| e.contenders.len() > 1;
        let late = all.iter().filter(|(_, heat)| heat.is_late()).count();
        if late > 0 && !self.dry_run {
            notes.push(format!("the time was up before {late} heats: give a larger --time-budget"));
        }
        let written = match &self.out {
            Some(file) if !self.dry_run => {
                let (text, more) = asked.file(world, &all, file)?;
                write_whole("--out", Path::new(file), &text)?;
                notes.extend(more);
                Some(file.clone())
            }
            _ => None,
        };
        let report = Race {
            schema: "collcost/race/1",
            library: world.version().lines().next().unwrap_or_default().replace('\t', " "),
            ranks: world.ranks(),
            nodes: world.nodes(),
            machine: asked.machine.clone(),
            heats: all.iter().filter(is_raced).map(|(e, heat)| e.view(heat)).collect(),
            left_to_the_library: all.iter().filter(|one| !is_raced(one)).count() as u64,
            time_s,
            written,
            notes,
        };
        self.format.write(out, &report, |_| view::race::race(&report))?;
        Ok(done?)
    }

    /// Runs the heats; what cannot run is left out, with a note.
    fn run_heats(
        &self,
        desk: &mut Desk<'_>,
        all: &mut Vec<(Entered, Heat)>,
        budget: Duration,
    ) -> Result<()> {
        // What is cheap comes first: a large vector may take longer than all others together.
        all.sort_by(|a, b| a.1.round.0.total_cmp(&b.1.round.0));
        let (entered, mut heats): (Vec<Entered>, Vec<Heat>) = all.drain(..).unzip();
        for (entered, heat) in entered.iter().zip(&mut heats) {
            desk.rounds.add(entered, heat);
        }
        let mut running = Running {
            bar: Bar::new(self.progress, &format!("{} ranks", desk.world.ranks())),
            desk,
            entered: &entered,
            watch: Watch::start(),
            until: Instant::now() + budget,
            known: vec![false; entered.len()],
            checked: BTreeSet::new(),
        };
        let done = race(&mut heats, budget, &mut running);
        running.bar.end();
        all.extend(entered.into_iter().zip(heats));
        done
    }
}

/// Where heats run, and what is kept of them.
struct Desk<'a> {
    world: &'a mut World,
    rounds: &'a mut Rounds,
    notes: &'a mut Vec<String>,
}

/// Heats that are run.
struct Running<'a, 'b> {
    desk: &'a mut Desk<'b>,
    entered: &'a [Entered],
    bar: Bar,
    watch: Watch,
    until: Instant,
    /// The heats that have begun, and the contenders whose results were compared.
    known: Vec<bool>,
    checked: BTreeSet<(usize, usize)>,
}

impl Track for Running<'_, '_> {
    fn time(&mut self, heat: usize, contender: usize) -> Result<Option<Seconds>> {
        let Entered { operation, size, contenders, .. } = &self.entered[heat];
        let one = &contenders[contender];
        self.watch.expect(expected(one));
        self.known[heat] = true;
        self.bar.show(&Progress {
            finished: self.known.iter().filter(|known| **known).count(),
            points: self.entered.iter().filter(|e| e.contenders.len() > 1).count(),
            left: Some(self.until.saturating_duration_since(Instant::now())),
            worst: None,
            disturbed: Ratio(0.0),
        });
        let Desk { world, notes, .. } = &mut *self.desk;
        let forced = match &one.pick {
            None => Forced::default(),
            Some(pick) => match world.number(*operation, pick.id, &pick.name) {
                Ok(number) => Forced { number, segment: pick.segment },
                Err(error) => {
                    note(notes, error.what().to_owned());
                    return Ok(None);
                }
            },
        };
        let check = self.checked.insert((heat, contender));
        let timing = Timing { operation: *operation, size: *size, forced, runs: runs(one), check };
        match world.time(&timing) {
            Err(error) if !error.is_lost() => {
                note(notes, error.to_string().replace('\n', ";"));
                Ok(None)
            }
            timed => timed,
        }
    }

    fn keep(&mut self, heat: usize, round: &[(usize, Seconds)]) -> Result<()> {
        self.desk.rounds.keep(&self.entered[heat], round)
    }
}

/// Adds a note once.
fn note(notes: &mut Vec<String>, text: String) {
    if !notes.contains(&text) {
        notes.push(text);
    }
}

/// What is expected of a call; of a default that no algorithm prices, nothing.
fn expected(contender: &tune::Contender) -> Seconds {
    contender.expected.unwrap_or_default()
}

fn runs(contender: &tune::Contender) -> u32 {
    (LONG / expected(contender).0.max(1e-9)).clamp(1.0, MOST_RUNS) as u32
}

/// How long a round takes by the model.
fn round(entered: &Entered) -> Seconds {
    let of = |c: &tune::Contender| expected(c).0 * f64::from(runs(c)) + BETWEEN;
    Seconds(entered.contenders.iter().map(of).sum())
}

/// Starts this program again where Open MPI would ignore what is forced: it reads this parameter once.
fn with_dynamic_rules() -> Result<()> {
    let name = format!("OMPI_MCA_{DYNAMIC}");
    if std::env::var(&name).is_ok_and(|value| value == "1") {
        return Ok(());
    }
    let error =
        Command::new(this_program()?).args(std::env::args_os().skip(1)).env(name, "1").exec();
    Err(Error::environment(format!("this program cannot start again: {error}")))
}

/// The library's rules, the machine's model, and what is asked for.
struct Asked {
    library: Library,
    tuning: Tuning,
    version: &'static str,
    rules: &'static str,
    own: Box<dyn Policy>,
    registry: Registry,
    on: OnFlags,
    machine: String,
}

impl Asked {
    fn new(args: &Args, library: Library, world: &World) -> Result<Self> {
        let ranks = world.ranks();
        if ranks < 2 {
            let mpirun = if library == Library::OpenMpi { "mpirun" } else { "mpiexec" };
            return Err(Error::input("a single rank has no peer")
                .at(format!("--library {}", library.id()))
                .help(format!("start it by {library}'s own {mpirun}: {mpirun} -n 8 collcost …")));
        }
        let tuning = match library {
            Library::OpenMpi => Tuning::OpenMpi,
            _ => Tuning::Mpich,
        };
        let number = world.version().split(|c: char| !c.is_ascii_digit() && c != '.');
        let number = number.map(|n| n.trim_matches('.')).find(|n| n.contains('.'));
        let named = format!("{}@{}", library.id(), number.unwrap_or_default());
        let (version, rules) = tuning.target(Some(&named))?;
        let nodes = world.nodes();
        let name = args.on.as_deref().unwrap_or("local");
        let on = OnFlags::of_profile(name, nodes, ranks / nodes.max(1));
        let query = on.query(Collective::AllReduce, Bytes(0)).map_err(|e| {
            e.or_help("calibrate the machine first: mpirun -n 8 collcost calibrate --out rack.toml")
        })?;
        if tuning == Tuning::Mpich {
            tune::mpich::check(&query)?;
        }
        let own = policy(rules, &Site::default())?;
        let (registry, machine) = (Registry::builtin(), query.machine.name);
        Ok(Self { library, tuning, version, rules, own, registry, on, machine })
    }

    /// The operations that are raced: those of --ops, or all that move data.
    fn operations(&self, args: &Args) -> Result<Vec<Operation>> {
        let moves = |o: &Operation| o.collective != Collective::Barrier;
        let known: Vec<Operation> = self.tuning.operations().into_iter().filter(moves).collect();
        if args.ops == AUTO {
            return Ok(known);
        }
        let mut asked = Vec::new();
        for name in args.ops.split(',') {
            let place = |e: Error| e.at(format!("--ops {}", args.ops));
            let operation: Operation = name.trim().parse().map_err(place)?;
            if !known.contains(&operation) {
                let names: Vec<String> = known.iter().map(ToString::to_string).collect();
                return Err(place(Error::input(format!("{operation} is not raced")))
                    .help(format!("known: {}", names.join(", "))));
            }
            if !asked.contains(&operation) {
                asked.push(operation);
            }
        }
        Ok(asked)
    }

    fn query(&self, operation: Operation) -> Result<Query> {
        self.on.query(operation.collective, Bytes(0))
    }

    fn compared<T>(
        &self,
        operation: Operation,
        of: impl FnOnce(&Compared<'_>) -> Result<T>,
    ) -> Result<T> {
        let query = self.query(operation)?;
        let offers = |call: &Call| offers(self.tuning, &*self.own, call);
        let rendezvous = match self.tuning {
            Tuning::OpenMpi => Rendezvous::open_mpi(&query)?,
            _ => None,
        };
        of(&Compared {
            registry: &self.registry,
            policy: &*self.own,
            offers: &offers,
            query: &query,
            operation,
            rendezvous,
        })
    }

    /// What is raced of an operation, at each size.
    fn entered(
        &self,
        args: &Args,
        operation: Operation,
        ranks: u32,
    ) -> Result<Vec<(Entered, Heat)>> {
        let least = Bytes(8 * u64::from(ranks.next_power_of_two()));
        let sizes = match args.sizes_asked()? {
            Some(sizes) => sizes,
            None => std::iter::successors(Some(least), |size| Some(Bytes(size.0 * STEP)))
                .take_while(|size| *size <= USUAL)
                .collect(),
        };
        if let Some(size) = sizes.iter().find(|size| **size < least || **size > LARGEST) {
            return Err(Error::input(format!("{size} is not between {least} and {LARGEST}"))
                .at(format!("--sizes {}", args.sizes))
                .help("a rank's block is a whole f32, and both vectors must lie in memory"));
        }
        let query = self.query(operation)?;
        let decided = |size: &Bytes| {
            self.tuning != Tuning::Mpich || tune::mpich::reaches(operation, &query, *size)
        };
        let entered = |size| self.at(operation, ranks, size, &|_| false);
        sizes.into_iter().filter(decided).map(entered).collect()
    }

    /// Half way between neighbours at which different choices won, and what earlier races ran between them.
    fn between(
        &self,
        all: &[(Entered, Heat)],
        ranks: u32,
        rounds: &Rounds,
    ) -> Result<Vec<(Entered, Heat)>> {
        let mut raced: Vec<(Operation, Raced)> =
            all.iter().map(|(e, heat)| (e.operation, e.raced(heat))).collect();
        raced.sort_by_key(|(operation, race)| (operation.to_string(), race.size));
        let mut more = Vec::new();
        for two in raced.windows(2) {
            let [(operation, low), (other, high)] = two else { continue };
            if operation != other {
                continue;
            }
            let mut sizes = rounds.sizes(*operation);
            sizes.retain(|size| low.size < *size && *size < high.size);
            let name = |race: &Raced| race.winner.as_ref().map(|pick| pick.name.clone());
            let is_far = high.size.0 > low.size.0.saturating_mul(2);
            if is_far && name(low) != name(high) {
                let middle = (low.size.0 as f64 * high.size.0 as f64).sqrt() as u64 / 4 * 4;
                sizes.insert(Bytes(middle));
            }
            for size in sizes {
                let also = |pick: &Pick| {
                    let mut won = [low, high].into_iter().filter_map(|race| race.winner.as_ref());
                    won.any(|winner| winner == pick) || rounds.has(*operation, size, pick)
                };
                more.push(self.at(*operation, ranks, size, &also)?);
            }
        }
        Ok(more)
    }

    /// What is raced at one size: what the model does not rule out, and `also`.
    fn at(
        &self,
        operation: Operation,
        ranks: u32,
        size: Bytes,
        also: &dyn Fn(&Pick) -> bool,
    ) -> Result<(Entered, Heat)> {
        self.compared(operation, |compared| {
            let nodes = compared.query.placement.nodes();
            let call = Call::new(operation.collective, ranks, size);
            let call = Call { flavour: operation.flavour, nodes, ..call };
            let own = self.own.choose(&call)?.name.into_owned();
            let contenders = compared.contenders(size, also)?;
            let entered = Entered { operation, size, own, contenders };
            let heat = Heat::new(entered.contenders.len(), round(&entered));
            Ok((entered, heat))
        })
    }

    /// The tuning file, with the notes for which it has no room.
    fn file(
        &self,
        world: &World,
        all: &[(Entered, Heat)],
        file: &str,
    ) -> Result<(String, Vec<String>)> {
        let mut plans: Vec<Plan> = Vec::new();
        let (mut sizes, mut won) = (Vec::new(), 0);
        for operations in all.chunk_by(|a, b| a.0.operation == b.0.operation) {
            let raced: Vec<Raced> = operations.iter().map(|(e, heat)| e.raced(heat)).collect();
            won += raced.iter().filter(|race| race.winner.is_some()).count();
            let operation = operations[0].0.operation;
            plans.push(self.compared(operation, |compared| compared.raced(&raced))?);
            sizes.extend(raced.iter().map(|race| race.size));
        }
        let ends = sizes.iter().min().zip(sizes.iter().max());
        let ends = ends.map_or(String::new(), |(a, b)| format!(" from {a} to {b}"));
        let Self { library, version, rules, .. } = self;
        let mut head = vec![
            format!(
                "written by collcost {} for {} {version}",
                env!("CARGO_PKG_VERSION"),
                library.id()
            ),
            format!("raced on {} ranks, hosts: {}, sizes{ends}", world.ranks(), world.nodes()),
            format!(
                "a rule exists where another choice surely (95 %) took less time than the own choice of {rules},"
            ),
            format!(
                "and {:.0} % less as measured; elsewhere, and for other ranks, that choice stays",
                100.0 * ALIKE.0
            ),
        ];
        if won == 0 {
            head.push("no other choice won: the file changes nothing".to_owned());
        }
        self.tuning.text(version, &plans, (head, "measured"), Some(file))
    }
}

/// Ends the program where a call hangs: no rank can be asked then, and the launcher ends the others.
struct Watch(Arc<Mutex<Instant>>);

impl Watch {
    fn start() -> Self {
        let until = Arc::new(Mutex::new(Instant::now() + PATIENCE));
        let watched = Arc::clone(&until);
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(Duration::from_secs(1));
                // The races are over: nobody holds the other end.
                if Arc::strong_count(&watched) < 2 {
                    return;
                }
                if *watched.lock().unwrap_or_else(PoisonError::into_inner) < Instant::now() {
                    let error = Error::lost("a call in the library does not end")
                        .help("try it without --library, or leave its algorithm out with --ops");
                    say(format_args!("error: {error}"));
                    std::process::exit(crate::cli::code(&error).into());
                }
            }
        });
        Self(until)
    }

    /// Something of about `time` begins.
    fn expect(&self, time: Seconds) {
        let patience = PATIENCE + Duration::from_secs_f64((PATIENT * time.0).clamp(0.0, 3600.0));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + patience;
    }
}

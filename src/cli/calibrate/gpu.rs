//! `calibrate --transport nccl` and `--transport cuda`: GPUs instead of processes.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::num::NonZeroU32;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use super::kept::Kept;
use super::{AUTO, Args};
use crate::cli::Stop;
use crate::cli::fit::{Measured, Seed, measured_devices, measured_library};
use crate::cli::flags::{count, value};
use crate::cli::input;
use crate::cli::picture::PictureFlags;
use crate::cli::processes::{interruption, this_program};
use crate::cli::profiles::now;
use crate::cli::progress::Bar;
use collcost::answer::devices::Devices;
use collcost::base::collective::Collective;
use collcost::base::error::{Error, Result};
use collcost::base::quantity::{Bytes, Ratio, Seconds};
use collcost::machine::sample::{DataType, Header, Record, Samples};
use collcost::measure::fit::Logs;
use collcost::run::calibrate::{Host, Progress, ladder};
use collcost::run::gpu::{self, Desk, Facts, Fleet, Plan, Set, Setup};
use collcost::run::launch::usable;
use collcost::run::rendezvous::{Part, Purpose};
use collcost::view;
use tempfile::TempDir;

/// The hidden verb that serves as a process with GPUs.
pub(crate) const GPU: &str = "run-gpu";

/// How long a block may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long starting may take: the driver, and NCCL over many hosts.
const STARTING: Duration = Duration::from_secs(180);
/// How long the search for GPUs may take if the flags do not ask for them.
const GLANCE: Duration = Duration::from_secs(8);
/// The largest size if the flags give none and it fits twice in a GPU's memory.
const LARGEST: Bytes = Bytes(1 << 30);
/// Approximate times to start a process with its GPUs, and of a block; only for the estimate.
const START: Seconds = Seconds(4.0);
const BLOCK: Seconds = Seconds(0.1);
/// No process is started after this time, in seconds.
const BUDGET: f64 = 300.0;

/// How GPUs are measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// NCCL's collectives.
    Nccl,
    /// What single GPUs do.
    Cuda,
}

/// Serves as a process with GPUs; the control channel is standard input.
pub(crate) fn serve() -> ExitCode {
    let Ok(control) = io::stdin().as_fd().try_clone_to_owned() else { return ExitCode::from(2) };
    match gpu::serve(control) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            crate::cli::streams::say(format_args!("error: {error}"));
            ExitCode::from(crate::cli::code(&error))
        }
    }
}

/// A new folder for logs, which no other user can have made; it is removed with the value.
fn scratch() -> Result<TempDir> {
    tempfile::Builder::new().prefix("collcost-gpu-").tempdir().map_err(|e| {
        Error::environment(format!("no folder for logs can be made: {e}"))
            .at(std::env::temp_dir().display().to_string())
            .help("name another place in TMPDIR")
    })
}

impl Args {
    /// Whether GPUs are measured: if the flags ask for them, or if the flags ask for nothing and
    /// there are at least two. Ranks `started` by a launcher measure them together, only by NCCL.
    pub(super) fn way(&self, started: bool) -> Result<Option<Way>> {
        let named = self.library.as_ref().map(|_| "nccl");
        match named.unwrap_or(self.processes.transport()) {
            "cuda" if started => Err(Error::environment(
                "single GPUs are measured by one process, but a launcher started several",
            )
            .at("--transport cuda")
            .help("start it once on each host, or add --launcher none")),
            "nccl" => Ok(Some(Way::Nccl)),
            "cuda" => Ok(Some(Way::Cuda)),
            AUTO if !started
                && self.n.is_none()
                && self.ops == AUTO
                && self.processes.words().is_empty() =>
            {
                self.glance()
            }
            _ => Ok(None),
        }
    }

    /// Whether a run without flags measures GPUs: if two answer soon, with NCCL. Reports why others
    /// are not measured.
    fn glance(&self) -> Result<Option<Way>> {
        let scratch = scratch();
        if scratch.is_err() && installed().is_empty() {
            return Ok(None);
        }
        let look = |way| {
            let scratch = scratch.as_ref().map_err(Error::clone)?;
            let setup = self.gpu_setup(scratch, way)?;
            gpu::look(&Setup { starting: GLANCE, ..setup }, None)
                .map(|mut seen| seen.swap_remove(0))
        };
        let (names, why) = match look(Way::Nccl) {
            Ok(facts) if facts.gpus.len() > 1 => return Ok(Some(Way::Nccl)),
            Ok(facts) => (facts.words(), "a single rank of NCCL has no peer".to_owned()),
            Err(e) if e.is_interrupted() => return Err(e),
            Err(e) if e.what() == gpu::NO_DRIVER => return Ok(None),
            // A driver that hangs would hang again; its kernel module lists the GPUs without it.
            Err(e) if e.is_lost() => (installed(), e.what().to_owned()),
            Err(e) => {
                let names = look(Way::Cuda).map_or_else(|_| installed(), |facts| facts.words());
                (names, e.what().to_owned())
            }
        };
        let names = if names.is_empty() { "GPUs".to_owned() } else { names.join(", ") };
        crate::cli::streams::say(format_args!(
            "note: {names}: not measured, only the CPUs are: {why}; --transport cuda measures single \
             GPUs, --transport nccl GPUs together"
        ));
        Ok(None)
    }

    fn gpu_setup(&self, scratch: &TempDir, way: Way) -> Result<Setup> {
        let program = this_program()?;
        let named = self.nccl_lib.as_ref().map(PathBuf::from);
        let named = named.or_else(|| std::env::var_os("COLLCOST_NCCL").map(PathBuf::from));
        let library = match (way, named) {
            (Way::Cuda, _) => Vec::new(),
            (_, Some(file)) => vec![file],
            (_, None) => gpu::NAMES.iter().map(PathBuf::from).collect(),
        };
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let (mut environment, allowed) = gpu::kept(std::env::vars_os().filter_map(text));
        environment.extend(allowed);
        Ok(Setup {
            program: (program, vec![GPU.to_owned()]),
            library,
            environment,
            scratch: scratch.path().to_owned(),
            patience: PATIENCE,
            starting: STARTING,
            interrupt: Some(interruption()?),
        })
    }

    /// Measures GPUs, or serves as one of the ranks above 0 that have GPUs.
    pub(super) fn gpu(
        &self,
        way: Way,
        part: Option<&Part>,
        out: &mut impl Write,
    ) -> std::result::Result<(), Stop> {
        if let Some(word) = self.processes.words().into_iter().find(|w| !w.contains("transport")) {
            return Err(Error::input("this flag does not apply to ranks on GPUs")
                .at(word)
                .help("leave it out, or measure processes with --transport shm or tcp")
                .into());
        }
        let scratch = scratch()?;
        let setup = self.gpu_setup(&scratch, way)?;
        let usable = usable()?;
        let host = Host::look(usable.cpus, usable.at_once);
        match part {
            None => self.lead_gpus((way, self.gpu_plan(way)?), (setup, None), &host, out),
            Some(part) if part.rank > 0 => Ok(gpu::attend(part, &self.hosts.token(part)?, &setup)?),
            Some(part) => {
                // Wrong flags are reported before waiting for other ranks.
                let plan = self.gpu_plan(way)?;
                let (purpose, interrupt) = (Purpose::Gpus, setup.interrupt.as_ref());
                let hosts = self.hosts.gather(part, purpose, host.clone(), interrupt)?;
                let fleet = Fleet::new(hosts)?;
                let done = self.lead_gpus((way, plan), (setup, Some(&fleet)), &host, out);
                fleet.end(match &done {
                    Err(Stop::Refused(error)) => Some(error),
                    _ => None,
                });
                done
            }
        }
    }

    fn lead_gpus(
        &self,
        (way, mut plan): (Way, Plan),
        (mut setup, fleet): (Setup, Option<&Fleet>),
        host: &Host,
        out: &mut impl Write,
    ) -> std::result::Result<(), Stop> {
        let seen = gpu::look(&setup, fleet)?;
        let (facts, mut notes) = (self.taken(way, seen, fleet, &mut plan)?, Vec::new());
        let machine = describe(fleet.map_or(host.describe(), |f| f.hosts().describe()), &facts);
        if plan.ranks() as usize > facts.gpus.len() {
            notes.push(loopback(&mut plan, &facts, &mut setup));
        }
        notes.extend(self.fitting(&mut plan, &facts));
        if way == Way::Nccl {
            notes.extend(configured());
        }
        if self.check || self.dry_run {
            return self.show_gpus(&facts, machine, &plan, (way, notes), out);
        }
        let allowed = setup.environment.iter().filter(|(name, _)| name.starts_with("NCCL_"));
        let options: Vec<String> = allowed.map(|(name, value)| format!("{name}={value}")).collect();
        let id = match way {
            Way::Nccl => "nccl",
            Way::Cuda => "cuda",
        };
        let how = format!("{id};{};{machine}", options.join(";"));
        let header = Header {
            seed: plan.seed,
            transport: id.to_owned(),
            plan_hash: plan.hash(&how),
            options,
            ranks: plan.ranks(),
            library: facts.nccl.map(|version| format!("nccl {version}")),
            fingerprint: fleet.map_or(host.fingerprint(), |f| f.hosts().fingerprint()),
            machine: machine.clone(),
            ..self.head()?
        };
        let (profile, file) = (self.out()?, self.samples_file()?);
        let (file, before) = Kept::open(file, self.existing(), header, &profile)?;
        let name = file.name.clone();
        let bar = Bar::new(self.progress, &format!("{id} {} ranks", plan.ranks()));
        let mut table = Table { file, bar };
        let done = self.gpu_blocks(way, (&setup, fleet), (&plan, &facts), &before, &mut table);
        table.bar.end();
        let more = format!("the samples so far are in {name}; --resume continues");
        let measured = done.map_err(|e| match e.is_lost() || e.is_interrupted() {
            true => e.or_help(more),
            false => e,
        })?;
        notes.extend(measured);
        let samples = table.file.read()?;
        let asked = Measured {
            logs: Logs::default(),
            base: None,
            out: Some(profile.to_string_lossy().into_owned()),
            command: self.command(),
            notes,
            seed: plan.seed,
            force: self.force,
            picture: PictureFlags::default(),
            format: self.format.get()?,
        };
        match way {
            Way::Nccl => measured_library(&samples, asked, out),
            Way::Cuda => measured_devices(&samples, asked, out),
        }
    }

    fn gpu_blocks(
        &self,
        way: Way,
        (setup, fleet): (&Setup, Option<&Fleet>),
        (plan, facts): (&Plan, &Facts),
        before: &Samples,
        table: &mut Table,
    ) -> Result<Vec<String>> {
        let done: BTreeSet<u32> = before.blocks.iter().map(|block| block.block).collect();
        match way {
            Way::Nccl => Ok(gpu::nccl(setup, fleet, plan, &done, table)?.notes),
            Way::Cuda => {
                let ops = gpu::survey_ops(facts.gpus.len() as u32, plan.seed);
                let how = (plan.launches, plan.seed, plan.budget);
                gpu::survey(setup, (&ops, &plan.sizes), how, &done, table)
            }
        }
    }

    /// The GPUs to use, by number and with their facts, of those that were `seen`; with a launcher,
    /// rank by rank.
    fn taken(
        &self,
        way: Way,
        mut seen: Vec<Facts>,
        fleet: Option<&Fleet>,
        plan: &mut Plan,
    ) -> Result<Facts> {
        plan.nodes = fleet.map_or(1, |fleet| fleet.hosts().machines().len() as u32);
        if let Some(fleet) = fleet {
            plan.gpus = fleet.share(&seen)?;
            let each = || {
                let ranks = plan.gpus.iter().zip(&seen);
                ranks.flat_map(|(gpus, facts)| gpus.iter().map(move |&gpu| (facts, gpu as usize)))
            };
            let gpus = each().map(|(facts, gpu)| facts.gpus[gpu].clone()).collect();
            let ids = each().map(|(facts, gpu)| facts.ids[gpu].clone()).collect();
            let free = each().map(|(facts, gpu)| facts.free[gpu]).collect();
            return Ok(Facts { gpus, ids, free, reach: Vec::new(), ..seen.swap_remove(0) });
        }
        let facts = seen.swap_remove(0);
        let there = facts.gpus.len() as u32;
        let asked = count("--ranks", "ranks", self.n.as_ref())?.map(NonZeroU32::get);
        let ranks = match way {
            Way::Nccl => asked.unwrap_or(there),
            Way::Cuda => 1,
        };
        if way == Way::Nccl && ranks < 2 {
            return Err(Error::environment("only one GPU: a single rank of NCCL has no peer")
                .help("--transport cuda measures the GPU; -n 2 lets two ranks share it"));
        }
        if ranks > 64 {
            return Err(Error::input("more than 64 ranks of one process").at("--ranks"));
        }
        // With several ranks per GPU, ranks are dealt to the GPUs in turn.
        plan.gpus = vec![(0..ranks).map(|rank| rank % there.max(1)).collect()];
        Ok(facts)
    }

    /// Leaves out sizes for which a GPU has no memory, unless the flags name them; returns a note.
    fn fitting(&self, plan: &mut Plan, facts: &Facts) -> Option<String> {
        let all: Vec<u32> = plan.gpus.iter().flatten().copied().collect();
        let each = |(gpu, free): (usize, &u64)| {
            let ranks = all.iter().filter(|&&of| of as usize == gpu).count().max(1) as u64;
            // Two buffers per rank, and a quarter for NCCL and others.
            free / (2 * ranks) / 4 * 3
        };
        let room = Bytes(facts.free.iter().enumerate().map(each).min()?);
        let before = plan.sizes.len();
        if self.sizes == AUTO {
            plan.sizes.retain(|size| *size <= room);
        }
        (plan.sizes.len() < before)
            .then(|| format!("sizes end at {room}: the GPUs have no more free memory"))
    }

    /// The plan for GPUs that are not known yet.
    fn gpu_plan(&self, way: Way) -> Result<Plan> {
        let budget = self.budget(BUDGET)?.0;
        let launches = count("--launches", "launches", Some(&self.launches))?;
        let sizes = match self.sizes.as_str() {
            AUTO => ladder(LARGEST),
            _ => self.sizes()?,
        };
        Ok(Plan {
            gpus: Vec::new(),
            apart: false,
            nodes: 1,
            sets: Set::ALL.to_vec(),
            calls: self.calls(way)?,
            sizes,
            registered: self.registered,
            launches: launches.map_or(3, |n| n.get()).min(100),
            seed: value::<Seed>("--seed", self.seed.as_ref())?.map_or(1, |seed| seed.0),
            budget: Duration::from_secs_f64(budget),
        })
    }

    /// The calls: all collectives in f32, and those that reduce also in bf16.
    fn calls(&self, way: Way) -> Result<Vec<(Collective, DataType)>> {
        let place = |e: Error| e.at(format!("--ops {}", self.ops));
        if self.ops != AUTO && way == Way::Cuda {
            return Err(place(Error::input("the operations of single GPUs cannot be selected"))
                .help("leave --ops out"));
        }
        let one = |name: &str| {
            let collective: Collective = name.trim().parse().map_err(place)?;
            match gpu::CALLS.contains(&collective) {
                true => Ok(collective),
                false => Err(place(Error::input(format!("NCCL has no {}", collective.name())))
                    .help(
                        "write allreduce, allgather, reducescatter, broadcast, reduce, alltoall, \
                     sendrecv; NCCL chooses its algorithms itself",
                    )),
            }
        };
        let named: Vec<Collective> = match self.ops.as_str() {
            AUTO => gpu::CALLS.to_vec(),
            list => list.split(',').map(one).collect::<Result<_>>()?,
        };
        let of = |&call: &Collective| {
            let more = call.reduces().then_some((call, DataType::Bf16));
            [Some((call, DataType::F32)), more].into_iter().flatten()
        };
        Ok(named.iter().flat_map(of).collect())
    }

    /// The GPUs, and what would be measured.
    fn show_gpus(
        &self,
        facts: &Facts,
        machine: String,
        plan: &Plan,
        (way, mut notes): (Way, Vec<String>),
        out: &mut impl Write,
    ) -> std::result::Result<(), Stop> {
        for (rank, gpus) in plan.gpus.iter().enumerate().filter(|_| plan.gpus.len() > 1) {
            let gpus: Vec<String> = gpus.iter().map(ToString::to_string).collect();
            notes.push(format!("rank {rank} uses GPU {} of its host", gpus.join(", ")));
        }
        if self.dry_run {
            let sizes = plan.sizes.len();
            notes.push(match way {
                Way::Nccl => {
                    let sets: Vec<String> = plan.sets.iter().map(ToString::to_string).collect();
                    let blocks = plan.sets.iter().map(|set| plan.blocks(*set)).sum();
                    format!(
                        "{} collectives of {sizes} sizes over {} ranks, {} times each, about {}: {}",
                        plan.calls.len(),
                        plan.ranks(),
                        plan.launches,
                        about(plan, sets.len(), blocks),
                        sets.join(", ")
                    )
                }
                Way::Cuda => {
                    let ops = gpu::survey_ops(facts.gpus.len() as u32, plan.seed).len();
                    format!(
                        "{ops} operations of {sizes} sizes, {} times each, about {}",
                        plan.launches,
                        about(plan, 1, ops * sizes)
                    )
                }
            });
        }
        let shown = Devices {
            schema: "collcost/devices/1",
            machine: Some(machine),
            gpus: facts.gpus.clone(),
            driver: Some(format!("CUDA {}", facts.driver)),
            library: facts.nccl.map(|version| format!("NCCL {version}")),
            reach: facts.reach.clone(),
            notes,
            ..Devices::default()
        };
        self.format.write(out, &shown, |_| view::devices::devices(&shown))
    }
}

/// The approximate time to measure: `blocks` of `processes`, started anew for each launch.
fn about(plan: &Plan, processes: usize, blocks: usize) -> Seconds {
    let starts = START.0 * (processes * plan.launches as usize) as f64;
    let measured = BLOCK.0 * (blocks * plan.launches as usize) as f64;
    Seconds(starts + measured.min(plan.budget.as_secs_f64()))
}

/// Several ranks on one GPU: NCCL 2.30 and later allow it, earlier ones only if each rank is a
/// separate host. No link is measured.
fn loopback(plan: &mut Plan, facts: &Facts, setup: &mut Setup) -> String {
    let allowed = facts.nccl.is_some_and(|version| version.has(30));
    let mut told = vec![("NCCL_NVLS_ENABLE".to_owned(), "0".to_owned())];
    let usual = |name: &str, value: &str| {
        let known = setup.environment.iter().any(|(known, _)| known == name);
        (!known).then(|| (name.to_owned(), value.to_owned()))
    };
    told.extend(usual("NCCL_MAX_CTAS", "2"));
    if allowed {
        told.push(("NCCL_MULTI_RANK_GPU_ENABLE".to_owned(), "1".to_owned()));
    } else {
        told.extend(gpu::shared());
        plan.gpus = plan.gpus.iter().flatten().map(|gpu| vec![*gpu]).collect();
        plan.apart = true;
        // NCCL takes each rank for a node, and its choice depends on nodes.
        plan.nodes = plan.ranks();
    }
    setup.environment.retain(|(name, _)| told.iter().all(|(own, _)| own != name));
    setup.environment.extend(told);
    let mut how = "ranks share a GPU".to_owned();
    if !allowed {
        how += "; each is a process and, for NCCL, a separate host, over sockets";
        if !has_mps(&setup.environment) {
            how += "; the GPU gives processes turns of milliseconds, and most times here are those of \
                    turns: `nvidia-cuda-mps-control -d` lets them work at once";
        }
    }
    format!(
        "single-gpu-loopback: {how}; steps and switches can be read, rates of links were not measured"
    )
}

/// Whether a daemon lets processes use a GPU at the same time (MPS); it listens in this folder.
fn has_mps(environment: &[(String, String)]) -> bool {
    let named = environment.iter().find(|(name, _)| name == "CUDA_MPS_PIPE_DIRECTORY");
    let folder = named.map_or("/tmp/nvidia-mps", |(_, folder)| folder);
    std::path::Path::new(folder).join("control").exists()
}

/// The GPUs that the kernel module lists, independent of the driver.
fn installed() -> Vec<String> {
    let folders = std::fs::read_dir("/proc/driver/nvidia/gpus").into_iter().flatten().flatten();
    let model = |folder: std::fs::DirEntry| {
        let text = input::text(folder.path().join("information")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("Model:"))?;
        Some(line.trim().to_owned())
    };
    folders.filter_map(model).collect()
}

/// Notes on the files whose settings NCCL reads in addition to its environment.
fn configured() -> Vec<String> {
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".nccl.conf"));
    let files = [Some(PathBuf::from("/etc/nccl.conf")), home];
    let read = |path: PathBuf| {
        let text = crate::cli::input::text(&path).ok()?;
        let lines = text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'));
        let lines: Vec<&str> = lines.collect();
        Some(format!("NCCL also reads {}: {}", path.display(), lines.join(", ")))
    };
    files.into_iter().flatten().filter_map(read).collect()
}

/// `node, 8 x NVIDIA H100, CUDA 12.4`.
fn describe(host: String, facts: &Facts) -> String {
    let mut all = vec![host];
    all.extend(facts.words());
    all.push(format!("CUDA {}", facts.driver));
    all.join(", ")
}

/// The samples' file and the terminal.
struct Table {
    file: Kept,
    bar: Bar,
}

impl Desk for Table {
    fn keep(&mut self, record: &Record) -> Result<()> {
        self.file.keep(record)
    }

    fn show(&mut self, done: usize, of: usize, _: &str) {
        self.bar.show(&Progress {
            finished: done,
            points: of,
            left: None,
            worst: None,
            disturbed: Ratio(0.0),
        });
    }

    fn time(&self) -> String {
        now()
    }
}

//! What is measured on GPUs, set by set and block by block.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::confirm::{Tail, chosen, table};
use super::crew::Crew;
use super::fleet::Fleet;
use super::nccl::Release;
use super::pace::Paces;
use super::set::Set;
use super::talk::{Answer, Facts, Job, Timing};
use super::worker::{Gone, Setup};
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bytes, Seconds};
use crate::base::random::Random;
use crate::library::nccl::Function;
use crate::machine::sample::{
    Block, Chosen, Clock, DataType, Device, Forced, LaunchRecord, Library, Mode, Op, Record, Sample,
};

/// What is to be measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The GPU of each rank, process by process, of which the first is this host's; one that is named
    /// twice has two ranks.
    pub gpus: Vec<Vec<u32>>,
    /// The nodes that they lie on.
    pub nodes: u32,
    /// What NCCL is told, one after another.
    pub sets: Vec<Set>,
    /// The collectives.
    pub functions: Vec<Function>,
    /// M of each, ascending.
    pub sizes: Vec<Bytes>,
    /// How often processes start anew.
    pub launches: u32,
    /// The seed of the order.
    pub seed: u64,
    /// No process is started after it.
    pub budget: Duration,
}

impl Plan {
    /// N.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.gpus.iter().map(Vec::len).sum::<usize>() as u32
    }

    /// What the how many-th process is for.
    fn job(&self, process: usize) -> Job {
        let before: usize = self.gpus[..process].iter().map(Vec::len).sum();
        Job::Nccl {
            gpus: self.gpus[process].clone(),
            ranks: self.ranks(),
            first: before as u32,
            largest: self.largest(),
        }
    }

    /// Equal for two plans of the same blocks.
    #[must_use]
    pub fn hash(&self, how: &str) -> String {
        let words = |all: Vec<String>| all.join(",");
        let text = format!(
            "{how};{};{};{};{};{};{}",
            words(self.gpus.iter().map(|gpus| format!("{gpus:?}")).collect()),
            self.nodes,
            words(self.sets.iter().map(ToString::to_string).collect()),
            words(self.functions.iter().map(ToString::to_string).collect()),
            words(self.sizes.iter().map(|size| size.0.to_string()).collect()),
            self.seed
        );
        format!("{:08x}", crc32fast::hash(text.as_bytes()))
    }

    /// The largest buffer that is needed.
    fn largest(&self) -> u64 {
        let each = 4 * u64::from(self.ranks());
        self.sizes.last().map_or(each, |size| size.0.max(each))
    }

    /// The points of a set: its collectives with the sizes that they can have, each once.
    fn points(&self, set: Set) -> Vec<(usize, Function, Bytes)> {
        let wanted = |f: &Function| self.functions.contains(f) && set.functions().contains(f);
        let all = Function::ALL.into_iter().enumerate().filter(|(_, f)| wanted(f));
        let mut points = Vec::new();
        for (f, function) in all {
            // The blocks of a gathering collective are whole numbers, as nccl-tests rounds them.
            let unit = if function.gathers() { 4 * u64::from(self.ranks()) } else { 4 };
            let mut before = None;
            for (s, size) in self.sizes.iter().enumerate() {
                let size = Bytes((size.0 / unit * unit).max(unit));
                if before != Some(size) {
                    points.push((f * self.sizes.len() + s, function, size));
                    before = Some(size);
                }
            }
        }
        points
    }
}

/// What measuring needs from outside.
pub trait Desk {
    /// Keeps a record.
    ///
    /// # Errors
    /// It cannot be kept.
    fn keep(&mut self, record: &Record) -> Result<()>;

    /// Learns how far it is: points of all, and what is measured.
    fn show(&mut self, done: usize, of: usize, what: &str);

    /// The time of day, as 2026-11-20T06:00:00Z.
    fn time(&self) -> String;
}

/// How it went.
#[derive(Debug, Clone, PartialEq)]
pub struct Ran {
    /// NCCL's version.
    pub nccl: Option<Release>,
    /// Sets that could not be measured, and what else is to be known.
    pub notes: Vec<String>,
}

/// The GPUs of this host, and of those of `fleet`, a rank at a time; and NCCL's version where `setup`
/// names files of it.
///
/// # Errors
/// No driver, no GPU, no NCCL.
pub fn look(setup: &Setup, fleet: Option<&Fleet>) -> Result<Vec<Facts>> {
    let mut crew = Crew::start(setup, fleet, None, |_| Job::Look)?;
    let answers = crew.answers().map_err(|gone| at_once(gone, "looking at the GPUs"))?;
    let facts = answers.into_iter().map(|answer| match answer {
        Answer::Ready(facts) => Ok(facts),
        _ => Err(Error::lost("the process with the GPUs answered what was not asked")),
    });
    facts.collect()
}

/// What it means where nothing can go on without it.
fn at_once(gone: Gone, what: &str) -> Error {
    match gone {
        Gone::Refused(text) => {
            let mut lines = text.lines().map(str::trim);
            let mut error = Error::environment(lines.next().unwrap_or(""));
            let rest: Vec<&str> = lines.collect();
            if let [place @ .., help] = rest.as_slice() {
                if !place.is_empty() {
                    error = error.at(place.join(", "));
                }
                error = error.help(*help);
            }
            error
        }
        Gone::Lost(how) => Error::lost(format!("{what}: {how}")),
        Gone::All(error) => error,
    }
}

/// How many runs a block has: before those that count, that count, and between two readings.
/// They depend on the size alone, so that processes of several hosts need not agree on them.
fn runs(size: Bytes) -> (u32, u32, u32) {
    match size.0 {
        0..=0xF_FFFF => (5, 12, 16),
        0x10_0000..=0xFF_FFFF => (3, 10, 4),
        _ => (2, 8, 1),
    }
}

/// Measures what `done` does not have of `plan` with NCCL, on this host and those of `fleet`.
///
/// # Errors
/// NCCL's own choice cannot be measured: the machine refuses it, or a process was lost; a wrong
/// result; an interruption; what `desk` says.
pub fn nccl(
    setup: &Setup,
    fleet: Option<&Fleet>,
    plan: &Plan,
    done: &BTreeSet<u32>,
    desk: &mut dyn Desk,
) -> Result<Ran> {
    let mut work = Work {
        setup,
        fleet,
        plan,
        done,
        desk,
        ran: Ran { nccl: None, notes: Vec::new() },
        table: Vec::new(),
        paces: Paces::default(),
        began: Instant::now(),
        finished: 0,
        all: 0,
    };
    let points: usize = plan.sets.iter().map(|set| plan.points(*set).len()).sum();
    work.all = points * plan.launches as usize;
    let mut given_up: BTreeSet<Set> = BTreeSet::new();
    for launch in 0..plan.launches {
        let mut sets = plan.sets.clone();
        Random::new(plan.seed.wrapping_add(u64::from(launch))).shuffle(&mut sets);
        // Its log says which other sets there can be.
        sets.sort_by_key(|set| set.told.is_some());
        for set in sets {
            let left = plan.budget.checked_sub(work.began.elapsed());
            if left.is_none() && set.told.is_some() {
                work.note(format!("{set}: the time was up"));
                continue;
            }
            if given_up.contains(&set) || !work.is_possible(set) {
                continue;
            }
            match work.set(launch, set) {
                Ok(()) => {}
                Err(gone @ (Gone::Lost(_) | Gone::Refused(_))) if set.told.is_some() => {
                    let why = match gone {
                        Gone::Lost(how) => how,
                        Gone::Refused(text) => text.replace("\n  ", "; "),
                        Gone::All(_) => String::new(),
                    };
                    work.note(format!("{set}: {why}"));
                    given_up.insert(set);
                }
                Err(gone) => {
                    let error = at_once(gone, "NCCL's own choice");
                    let reason = error.what().to_owned();
                    work.desk.keep(&Record::Abort { launch, reason })?;
                    return Err(error);
                }
            }
        }
        work.desk.keep(&Record::End { launch })?;
    }
    work.ran.notes.extend(work.paces.notes());
    Ok(work.ran)
}

struct Work<'a> {
    setup: &'a Setup,
    fleet: Option<&'a Fleet>,
    plan: &'a Plan,
    done: &'a BTreeSet<u32>,
    desk: &'a mut dyn Desk,
    ran: Ran,
    /// The ways for which NCCL's table has a bandwidth.
    table: Vec<Chosen>,
    paces: Paces,
    began: Instant,
    finished: usize,
    all: usize,
}

impl Work<'_> {
    fn note(&mut self, note: String) {
        if !self.ran.notes.contains(&note) {
            self.ran.notes.push(note);
        }
    }

    fn is_possible(&self, set: Set) -> bool {
        let version = self.ran.nccl.unwrap_or(Release::of(20_000));
        set.is_possible(version, self.plan.ranks(), self.plan.nodes, &self.table)
    }

    /// The number of the first of a point's two blocks.
    fn number(&self, launch: u32, set: Set, point: usize) -> u32 {
        let sets = Set::ALL.len();
        let points = Function::ALL.len() * self.plan.sizes.len();
        2 * ((launch as usize * sets + set.number()) * points + point) as u32
    }

    fn set(&mut self, launch: u32, set: Set) -> std::result::Result<(), Gone> {
        let points = self.plan.points(set);
        let is_open = |(point, ..): &&(usize, Function, Bytes)| {
            !self.done.contains(&(self.number(launch, set, *point) + 1))
        };
        let open: Vec<_> = points.iter().filter(is_open).copied().collect();
        self.finished += points.len() - open.len();
        // NCCL's own choice is started all the same: it says which sets there are.
        if open.is_empty() && set.told.is_some() {
            return Ok(());
        }
        let log =
            self.setup.scratch.join(format!("nccl-{launch}-{}", set.to_string().replace('/', "-")));
        let told = Some((set, &*log.to_string_lossy()));
        let mut crew = Crew::start(self.setup, self.fleet, told, |process| self.plan.job(process))
            .map_err(Gone::All)?;
        let answered = |what: &str| Gone::Lost(format!("it answered {what} where it should not"));
        let mut ids = crew.answers()?.into_iter().filter_map(|answer| match answer {
            Answer::Id(id) => id,
            _ => None,
        });
        let id = ids.next().ok_or_else(|| answered("no id"))?;
        let ready = crew.share(id)?.into_iter().next();
        let Some(Answer::Ready(facts)) = ready else { return Err(answered("something")) };
        self.ran.nccl = facts.nccl;
        for name in &facts.lacks {
            self.note(format!("this NCCL has no nccl{name}"));
        }
        let mut tail = Tail::new(log);
        if set == Set::AUTO {
            self.table = table(&tail.new_lines());
        }
        let record = LaunchRecord {
            launch,
            time: self.desk.time(),
            pids: vec![crew.id()],
            ..LaunchRecord::default()
        };
        self.desk.keep(&Record::Launch(record)).map_err(Gone::All)?;
        let mut unconfirmed = 0;
        for (point, function, size) in &open {
            if facts.lacks.iter().any(|name| name == function.name()) {
                continue;
            }
            let number = self.number(launch, set, *point);
            let confirmed =
                self.point(&mut crew, &mut tail, (launch, number), set, *function, *size)?;
            unconfirmed += usize::from(!confirmed);
        }
        if unconfirmed > 0 {
            self.note(format!(
                "{set}: NCCL's log does not confirm {unconfirmed} of {} points: they are left out",
                open.len()
            ));
        }
        Ok(())
    }

    /// Times one collective of one size; says whether the log confirms how it was done.
    fn point(
        &mut self,
        crew: &mut Crew<'_>,
        tail: &mut Tail,
        (launch, number): (u32, u32),
        set: Set,
        function: Function,
        size: Bytes,
    ) -> std::result::Result<bool, Gone> {
        let (collective, dtype) = (function.collective(), Some(DataType::F32));
        let op = match set.told {
            Some(chosen) => Op::Forced(Forced { collective, dtype, chosen }),
            None => Op::Library(Library { collective, dtype, in_place: false }),
        };
        let (warm, reps, inner) = runs(size);
        let timing =
            Timing { op: op.to_string(), size: size.0, warm, reps, inner, check: launch == 0 };
        // A collective lasts until its last process knows that it has ended.
        let (mut host, mut event, mut paces) = (Vec::new(), Vec::new(), Vec::new());
        for answer in crew.time(timing)? {
            match answer {
                Answer::Timed { host: own, event: gpu, pace } => {
                    paces.push(pace);
                    longest(&mut host, &own);
                    longest(&mut event, &gpu);
                }
                Answer::Wrong(what) => {
                    let error = Error::lost(format!("{op} of {size} has a wrong result: {what}"));
                    return Err(Gone::All(error.help("nothing that is timed here can be trusted")));
                }
                _ => return Err(Gone::Lost("it answered what was not asked".to_owned())),
            }
        }
        self.paces.note(&paces);
        let chose = chosen(&tail.new_lines(), function, self.plan.ranks(), size);
        let block = |block, mode, inner, clock, times: &[f64]| Block {
            op: op.clone(),
            ranks: self.plan.ranks(),
            nodes: Some(self.plan.nodes),
            size,
            launch,
            block,
            mode,
            inner,
            preempted: None,
            clock,
            chose,
            samples: samples(times),
        };
        let blocks = [
            block(number, Mode::Isolated, 1, Clock::Host, &host),
            block(number + 1, Mode::Stream, inner, Clock::Event, &event),
        ];
        let confirmed = blocks[0].is_confirmed();
        for block in blocks.into_iter().filter(|block| !block.samples.is_empty()) {
            self.desk.keep(&Record::Block(block)).map_err(Gone::All)?;
        }
        self.finished += 1;
        self.desk.show(self.finished, self.all, &format!("{op} {size}"));
        Ok(confirmed)
    }
}

/// Of each run the longest time.
fn longest(times: &mut Vec<f64>, others: &[f64]) {
    times.resize(times.len().max(others.len()), 0.0);
    times.iter_mut().zip(others).for_each(|(time, other)| *time = time.max(*other));
}

fn samples(times: &[f64]) -> Vec<Sample> {
    let sample = |ns: &f64| Sample { span: Seconds(ns * 1e-9), late: false, run_delay: None };
    // A clock that has not moved says nothing.
    times.iter().filter(|ns| **ns > 0.0).map(sample).collect()
}

/// What GPUs do by themselves, and pairs of them: all pairs of up to five GPUs, neighbours and some
/// more of others, 24 at most.
#[must_use]
pub fn survey_ops(gpus: u32, seed: u64) -> Vec<Op> {
    const MOST: usize = 24;
    let mut ops = vec![Op::Copy, Op::Reduce];
    let own = [
        Device::Kernel,
        Device::Graph,
        Device::Upload { pinned: true },
        Device::Upload { pinned: false },
        Device::Download { pinned: true },
        Device::Download { pinned: false },
    ];
    ops.extend(own.map(Op::Device));
    let every = (0..gpus).flat_map(|a| (0..gpus).map(move |b| (a, b))).filter(|(a, b)| a != b);
    let mut pairs: Vec<(u32, u32)> = every.collect();
    Random::new(seed).shuffle(&mut pairs);
    // Neighbours first, each way; then as they come.
    pairs.sort_by_key(|(a, b)| a.abs_diff(*b) != 1);
    pairs.truncate(MOST);
    pairs.sort_unstable();
    ops.extend(pairs.iter().map(|&(from, to)| Op::Device(Device::Copy { from, to })));
    let both = pairs.iter().filter(|(a, b)| a < b);
    ops.extend(both.map(|&(a, b)| Op::Device(Device::Exchange { a, b })));
    ops
}

/// Measures what `done` does not have of `ops` with each of `sizes`, in `launches` processes; says what
/// is to be known of them.
///
/// # Errors
/// As [`nccl`].
pub fn survey(
    setup: &Setup,
    (ops, sizes): (&[Op], &[Bytes]),
    (launches, seed, budget): (u32, u64, Duration),
    done: &BTreeSet<u32>,
    desk: &mut dyn Desk,
) -> Result<Vec<String>> {
    let (began, mut paces) = (Instant::now(), Paces::default());
    let mut points: Vec<(u32, &Op, Bytes)> = Vec::new();
    for (op, size) in ops.iter().flat_map(|op| sizes.iter().map(move |size| (op, *size))) {
        points.push((points.len() as u32, op, size));
    }
    let count = points.len() as u32;
    for launch in 0..launches {
        let mut order = points.clone();
        Random::new(seed.wrapping_add(u64::from(launch))).shuffle(&mut order);
        order.retain(|(point, ..)| !done.contains(&(launch * count + point)));
        if order.is_empty() || launch > 0 && began.elapsed() >= budget {
            continue;
        }
        let largest = sizes.last().map_or(16, |size| size.0.max(16));
        let mut crew = Crew::start(setup, None, None, |_| Job::Survey { largest })?;
        crew.answers().map_err(|gone| at_once(gone, "measuring the GPUs"))?;
        let (time, pids) = (desk.time(), vec![crew.id()]);
        desk.keep(&Record::Launch(LaunchRecord { launch, time, pids, ..LaunchRecord::default() }))?;
        for (i, (point, op, size)) in order.iter().enumerate() {
            if launch > 0 && began.elapsed() >= budget {
                break;
            }
            let (warm, reps, _) = runs(*size);
            let check = launch == 0;
            let timing = Timing { op: op.to_string(), size: size.0, warm, reps, inner: 1, check };
            let asked = crew.time(timing).map(|answers| answers.into_iter().next());
            let host = match asked {
                Ok(Some(Answer::Timed { host, pace, .. })) => {
                    paces.note(&[pace]);
                    host
                }
                Ok(Some(Answer::Wrong(what))) => {
                    return Err(Error::lost(format!("{op} of {size} has a wrong result: {what}")));
                }
                Ok(_) => return Err(Error::lost("the GPUs' process answered another question")),
                Err(gone) => {
                    let error = at_once(gone, &format!("{op} of {size}"));
                    let reason = error.what().to_owned();
                    desk.keep(&Record::Abort { launch, reason })?;
                    return Err(error);
                }
            };
            let block = Block {
                op: (*op).clone(),
                ranks: 1,
                nodes: Some(1),
                size: *size,
                launch,
                block: launch * count + point,
                mode: Mode::Isolated,
                inner: 1,
                preempted: None,
                clock: Clock::Host,
                chose: None,
                samples: samples(&host),
            };
            if !block.samples.is_empty() {
                desk.keep(&Record::Block(block))?;
            }
            desk.show(
                launch as usize * points.len() + i,
                points.len() * launches as usize,
                &op.to_string(),
            );
        }
        desk.keep(&Record::End { launch })?;
    }
    Ok(paces.notes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_all_of_few_and_some_of_many() {
        let copies = |gpus| {
            let ops = survey_ops(gpus, 1);
            ops.iter().filter(|op| matches!(op, Op::Device(Device::Copy { .. }))).count()
        };
        assert_eq!([copies(1), copies(2), copies(5), copies(8)], [0, 2, 20, 24]);
    }

    #[test]
    fn sizes_of_gathering_collectives_are_whole_blocks() {
        let plan = Plan {
            gpus: vec![vec![0, 1], vec![0]],
            nodes: 1,
            sets: vec![Set::AUTO],
            functions: vec![Function::AllGather, Function::AllReduce],
            sizes: vec![Bytes(8), Bytes(16), Bytes(64)],
            launches: 1,
            seed: 1,
            budget: Duration::ZERO,
        };
        let points = plan.points(Set::AUTO);
        let of = |f: Function| -> Vec<u64> {
            points.iter().filter(|p| p.1 == f).map(|p| p.2.0).collect()
        };
        assert_eq!(of(Function::AllGather), [12, 60]);
        assert_eq!(of(Function::AllReduce), [8, 16, 64]);
        let numbers: BTreeSet<usize> = points.iter().map(|p| p.0).collect();
        assert_eq!(numbers.len(), points.len());
        let second = Job::Nccl { gpus: vec![0], ranks: 3, first: 2, largest: 64 };
        assert_eq!((plan.ranks(), plan.job(1)), (3, second));
    }
}

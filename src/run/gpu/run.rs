//! The measurements on GPUs, set by set and block by block.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::confirm::{Tail, chosen, table};
use super::crew::Crew;
use super::fleet::Fleet;
use super::nccl::Release;
use super::pace::Paces;
use super::plan::{Plan, Point, Runs};
use super::set::Set;
use super::talk::{Answer, Facts, Job, Timing};
use super::worker::{Gone, Setup};
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bytes, Seconds};
use crate::base::random::Random;
use crate::base::stats::median;
use crate::library::nccl::Function;
use crate::machine::sample::{
    Block, Chosen, Clock, Device, Forced, LaunchRecord, Library, Mode, Op, Record, Sample,
};

/// What measuring needs from its environment.
pub trait Desk {
    /// Saves a record.
    ///
    /// # Errors
    /// It cannot be saved.
    fn keep(&mut self, record: &Record) -> Result<()>;

    /// Shows progress: finished points, all points, and what is being measured.
    fn show(&mut self, done: usize, of: usize, what: &str);

    /// The time of day, as 2026-11-20T06:00:00Z.
    fn time(&self) -> String;
}

/// The outcome of a measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Ran {
    /// NCCL's version.
    pub nccl: Option<Release>,
    /// Sets that could not be measured, and other notes for the user.
    pub notes: Vec<String>,
}

/// The GPUs of this host and those of `fleet`, one entry per rank; and NCCL's version if `setup`
/// names files of it.
///
/// # Errors
/// No driver, no GPU, no NCCL.
pub fn look(setup: &Setup, fleet: Option<&Fleet>) -> Result<Vec<Facts>> {
    let mut crew = Crew::start(setup, fleet, 1, None, |_| Job::Look)?;
    let answers = crew.begun().map_err(|gone| at_once(gone, "looking at the GPUs"))?;
    let facts = answers.into_iter().map(|answer| match answer {
        Answer::Ready(facts) => Ok(facts),
        _ => Err(Error::lost("the process with the GPUs sent an unexpected answer")),
    });
    facts.collect()
}

/// The error if nothing can continue without the process.
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

/// Measures with NCCL the part of `plan` that `done` lacks, on this host and those of `fleet`.
///
/// # Errors
/// NCCL's own choice cannot be measured: the machine refuses it, or a process was lost; a wrong
/// result; an interruption; an error of `desk`.
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
        spent: Duration::ZERO,
        uncaptured: 0,
        finished: 0,
        all: 0,
    };
    let points: usize = plan.sets.iter().map(|set| plan.points(*set).len()).sum();
    work.all = points * plan.launches as usize;
    let mut given_up: BTreeSet<Set> = BTreeSet::new();
    for launch in 0..plan.launches {
        let mut sets = plan.sets.clone();
        Random::new(plan.seed.wrapping_add(u64::from(launch))).shuffle(&mut sets);
        // Its log tells which other sets are possible.
        sets.sort_by_key(|set| set.told.is_some());
        for set in sets {
            if work.spent > plan.budget && set.told.is_some() {
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
    if work.uncaptured > 0 {
        work.note(format!(
            "this NCCL allows no graph capture: {} blocks were started call by call, with its log on",
            work.uncaptured
        ));
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
    /// The algorithms and protocols for which NCCL's table has a bandwidth.
    table: Vec<Chosen>,
    paces: Paces,
    /// The time spent measuring, without starting processes.
    spent: Duration,
    /// Blocks whose calls were not captured in a graph.
    uncaptured: usize,
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
        2 * ((launch as usize * sets + set.number()) * self.plan.room() + point) as u32
    }

    fn set(&mut self, launch: u32, set: Set) -> std::result::Result<(), Gone> {
        let points = self.plan.points(set);
        let is_open =
            |point: &&Point| !self.done.contains(&(self.number(launch, set, point.number) + 1));
        let open: Vec<_> = points.iter().filter(is_open).copied().collect();
        self.finished += points.len() - open.len();
        // NCCL's own choice is always started: it tells which sets are possible.
        if open.is_empty() && set.told.is_some() {
            return Ok(());
        }
        let log =
            self.setup.scratch.join(format!("nccl-{launch}-{}", set.to_string().replace('/', "-")));
        let told = Some((set, &*log.to_string_lossy()));
        let own = self.plan.own();
        let mut crew =
            Crew::start(self.setup, self.fleet, own, told, |process| self.plan.job(process))
                .map_err(Gone::All)?;
        let answered = |what: &str| Gone::Lost(format!("it sent an unexpected answer: {what}"));
        let mut ids = crew.begun()?.into_iter().filter_map(|answer| match answer {
            Answer::Id(id) => id,
            _ => None,
        });
        let id = ids.next().ok_or_else(|| answered("no id"))?;
        let ready = crew.share(id)?.into_iter().next();
        let Some(Answer::Ready(facts)) = ready else { return Err(answered("not ready")) };
        self.ran.nccl = facts.nccl;
        for name in &facts.lacks {
            self.note(format!("this NCCL has no {name}"));
        }
        let mut tail = Tail::new(log);
        if set == Set::AUTO {
            self.table = table(&tail.new_lines());
        }
        let record = LaunchRecord {
            launch,
            time: self.desk.time(),
            pids: crew.ids(),
            ..LaunchRecord::default()
        };
        self.desk.keep(&Record::Launch(record)).map_err(Gone::All)?;
        let mut unconfirmed = 0;
        let mut before: Option<(Point, Seconds)> = None;
        for point in &open {
            if facts.lacks.iter().any(|name| name == point.collective.id()) {
                continue;
            }
            // A call takes no longer than in proportion to a smaller one.
            let likely = before.filter(|(last, _)| last.collective == point.collective).map(
                |(last, time)| {
                    Seconds(time.0 * (point.size.0 as f64 / last.size.0 as f64).max(1.0))
                },
            );
            let runs = Runs::of(point.size, likely);
            let (began, number) = (Instant::now(), self.number(launch, set, point.number));
            let (time, confirmed) =
                self.point(&mut crew, &mut tail, (launch, number), set, point, runs)?;
            self.spent += began.elapsed();
            before = time.map(|time| (*point, time));
            unconfirmed += usize::from(!confirmed);
        }
        if unconfirmed > 0 {
            self.note(format!(
                "{set}: NCCL's log does not confirm {unconfirmed} of {} points: left out",
                open.len()
            ));
        }
        Ok(())
    }

    /// Times one collective of one size; returns the time, and whether the log confirms the
    /// algorithm and protocol.
    fn point(
        &mut self,
        crew: &mut Crew<'_>,
        tail: &mut Tail,
        (launch, number): (u32, u32),
        set: Set,
        point: &Point,
        Runs { warm, reps, inner, hold }: Runs,
    ) -> std::result::Result<(Option<Seconds>, bool), Gone> {
        let Point { collective, size, .. } = *point;
        let dtype = Some(point.dtype);
        let op = match set.told {
            Some(chosen) => Op::Forced(Forced { collective, dtype, chosen }),
            None => Op::Library(Library { collective, dtype, in_place: false }),
        };
        let check = launch == 0;
        let timing = Timing { op: op.to_string(), size: size.0, warm, reps, inner, hold, check };
        // A collective lasts until the last process detects its end.
        let (mut host, mut event, mut paces) = (Vec::new(), Vec::new(), Vec::new());
        let mut all_captured = true;
        for answer in crew.time(timing)? {
            match answer {
                Answer::Timed { host: own, event: gpu, pace, captured } => {
                    paces.push(pace);
                    all_captured &= captured;
                    longest(&mut host, &own);
                    longest(&mut event, &gpu);
                }
                Answer::Wrong(what) => {
                    let error = Error::lost(format!("{op} of {size} has a wrong result: {what}"));
                    return Err(Gone::All(error.help("no time measured here can be trusted")));
                }
                _ => return Err(Gone::Lost("it sent an unexpected answer".to_owned())),
            }
        }
        self.uncaptured += usize::from(!all_captured);
        self.paces.note(&paces);
        let lines = tail.new_lines();
        let chose = Function::of(collective)
            .and_then(|function| chosen(&lines, function, self.plan.ranks(), size));
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
        let time = median(event).or_else(|| median(host)).map(|ns| Seconds(ns * 1e-9));
        Ok((time, confirmed))
    }
}

/// The longest time of each run.
fn longest(times: &mut Vec<f64>, others: &[f64]) {
    times.resize(times.len().max(others.len()), 0.0);
    times.iter_mut().zip(others).for_each(|(time, other)| *time = time.max(*other));
}

fn samples(times: &[f64]) -> Vec<Sample> {
    let sample = |ns: &f64| Sample::of(Seconds(ns * 1e-9));
    // A clock that has not advanced gives no time.
    times.iter().filter(|ns| **ns > 0.0).map(sample).collect()
}

/// What GPUs do without NCCL, and pairs of them: all pairs of up to five GPUs; otherwise neighbours
/// and some other pairs, 24 at most.
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
    // Neighbours first, in each direction; then the others in order.
    pairs.sort_by_key(|(a, b)| a.abs_diff(*b) != 1);
    pairs.truncate(MOST);
    pairs.sort_unstable();
    ops.extend(pairs.iter().map(|&(from, to)| Op::Device(Device::Copy { from, to })));
    let both = pairs.iter().filter(|(a, b)| a < b);
    ops.extend(both.map(|&(a, b)| Op::Device(Device::Exchange { a, b })));
    ops
}

/// Measures the part of `ops` with each of `sizes` that `done` lacks, in `launches` processes;
/// returns notes for the user.
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
    let (mut spent, mut paces) = (Duration::ZERO, Paces::default());
    let mut points: Vec<(u32, &Op, Bytes)> = Vec::new();
    for (op, size) in ops.iter().flat_map(|op| sizes.iter().map(move |size| (op, *size))) {
        points.push((points.len() as u32, op, size));
    }
    let count = points.len() as u32;
    for launch in 0..launches {
        let mut order = points.clone();
        Random::new(seed.wrapping_add(u64::from(launch))).shuffle(&mut order);
        order.retain(|(point, ..)| !done.contains(&(launch * count + point)));
        if order.is_empty() || launch > 0 && spent >= budget {
            continue;
        }
        let largest = sizes.last().map_or(16, |size| size.0.max(16));
        let mut crew = Crew::start(setup, None, 1, None, |_| Job::Survey { largest })?;
        crew.begun().map_err(|gone| at_once(gone, "measuring the GPUs"))?;
        let (time, pids) = (desk.time(), crew.ids());
        desk.keep(&Record::Launch(LaunchRecord { launch, time, pids, ..LaunchRecord::default() }))?;
        for (i, (point, op, size)) in order.iter().enumerate() {
            if launch > 0 && spent >= budget {
                break;
            }
            let Runs { warm, reps, hold, .. } = Runs::of(*size, None);
            let (check, inner, size_of) = (launch == 0, 1, size.0);
            let timing =
                Timing { op: op.to_string(), size: size_of, warm, reps, inner, hold, check };
            let began = Instant::now();
            let asked = crew.time(timing).map(|answers| answers.into_iter().next());
            spent += began.elapsed();
            let host = match asked {
                Ok(Some(Answer::Timed { host, pace, .. })) => {
                    paces.note(&[pace]);
                    host
                }
                Ok(Some(Answer::Wrong(what))) => {
                    return Err(Error::lost(format!("{op} of {size} has a wrong result: {what}")));
                }
                Ok(_) => return Err(Error::lost("the GPUs' process sent an unexpected answer")),
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
}

//! The group's side: gives ranks work, watches them, and ends all of them when one is lost.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::control::{Answer, Hello};
use super::process::Process;
use super::seat::Seat;
use super::usable::{Pin, Usable, usable};
use crate::base::error::{Error, Result};
use crate::base::quantity::Bytes;
use crate::machine::sample::Op;
use crate::model::algorithm::Registry;
use crate::run::execute::{
    Block, Element, Failure, MOST_SPILLED, Program, Record, Repeats, Runner, Stage, Timed, Work,
    align, programs, runs,
};
use crate::run::transport::shm::Shared;
use crate::run::transport::{Cause, Delay, Fault, Kind, Wait, tcp};

/// The most ranks of one host.
const MOST_RANKS: u32 = 64;
/// How long starting, and connecting, may take.
pub(crate) const CONNECT: Duration = Duration::from_secs(5);
/// The least time after which a step counts as silent.
pub(crate) const LEAST_PATIENCE: Duration = Duration::from_secs(2);
/// How long to wait after a first complaint for others, which may know the cause.
const GRACE: Duration = Duration::from_millis(300);
/// Between two looks at ranks that are ending.
const TURN: Duration = Duration::from_millis(5);
/// A rank that has been stopped for this long is lost.
const STOPPED: Duration = Duration::from_secs(2);
/// If nothing was heard of a host for this long, the fault of its ranks is there.
const SILENT: Duration = Duration::from_millis(1200);
/// How long ranks may take to end on their own.
const ENDING: Duration = Duration::from_secs(1);
/// The slowest rate that a block may have, in bytes per second, before it counts as hanging.
const SLOWEST: f64 = 1e6;

/// Where a rank runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file of its network namespace; this process's own if absent.
    pub namespace: Option<PathBuf>,
    /// Where it listens, over TCP.
    pub address: IpAddr,
}

impl Default for Place {
    fn default() -> Self {
        Self { namespace: None, address: Ipv4Addr::LOCALHOST.into() }
    }
}

/// Which ranks are started, and how.
pub struct Setup {
    /// The program that serves as a rank, and its arguments.
    pub program: (PathBuf, Vec<String>),
    /// N.
    pub ranks: u32,
    /// How bytes move.
    pub transport: Kind,
    /// How ranks wait; if absent, they spin where each has its own CPU.
    pub wait: Option<Wait>,
    /// The CPU on which each rank stays.
    pub pin: Pin,
    /// Where ranks run, assigned in turn and repeated from the first; empty: on loopback.
    pub places: Vec<Place>,
    /// Delays every message before it is sent, including those of barriers: for tests, a latency
    /// that a fit should find.
    pub delay: Option<Delay>,
    /// Becomes readable when the user wants to stop.
    pub interrupt: Option<OwnedFd>,
}

impl Setup {
    /// How ranks wait. Where each has its own CPU they spin, also beside others that use it: a rank that
    /// yields to those has its CPU back after their time slice, when its peer may have lost its own.
    #[must_use]
    pub fn waits(&self, usable: &Usable) -> Wait {
        let fits = self.ranks as usize <= self.pin.at_once(usable);
        self.wait.unwrap_or(if fits { Wait::Spin } else { Wait::Poll })
    }

    /// A copy, for another start.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub fn try_clone(&self) -> Result<Self> {
        let interrupt = self.interrupt.as_ref().map(OwnedFd::try_clone).transpose();
        let interrupt = interrupt
            .map_err(|e| Error::environment(format!("interruptions cannot be watched: {e}")))?;
        let Self { program, ranks, transport, wait, pin, places, delay, .. } = self;
        let (program, places) = (program.clone(), places.clone());
        let (ranks, transport, wait, delay) = (*ranks, *transport, *wait, *delay);
        let pin = pin.clone();
        Ok(Self { program, ranks, transport, wait, pin, places, delay, interrupt })
    }
}

/// The ranks of one run.
pub struct Group {
    seats: Vec<Box<dyn Seat>>,
    transport: Kind,
    wait: Wait,
    shared: Option<Shared>,
    interrupt: Option<OwnedFd>,
    congestion: Option<String>,
    /// Ranks whose clock differs from rank 0's.
    apart: Vec<u32>,
    ended: bool,
}

/// Ranks that were started elsewhere, and how they run.
pub(crate) struct Seated {
    /// In rank order.
    pub(crate) seats: Vec<Box<dyn Seat>>,
    /// How they wait.
    pub(crate) wait: Wait,
    /// The ranks whose clock differs from rank 0's.
    pub(crate) apart: Vec<u32>,
    /// The secret by which they recognize each other.
    pub(crate) run: tcp::Run,
    /// Becomes readable when the user wants to stop.
    pub(crate) interrupt: Option<OwnedFd>,
}

/// What the group waits for, and its name.
struct Awaited {
    stage: String,
    until: Instant,
}

impl Group {
    /// Starts the ranks and lets them connect.
    ///
    /// # Errors
    /// More ranks than one host runs, or than CPUs if they would spin; a machine that refuses
    /// processes, memory or connections; a rank that is lost; an interruption.
    pub fn start(setup: Setup) -> Result<Self> {
        let usable = usable()?;
        let wait = setup.waits(&usable);
        let Setup { program, ranks, transport, pin, places, delay, interrupt, .. } = setup;
        let pinned: Vec<Option<usize>> =
            (0..ranks.min(MOST_RANKS)).map(|rank| pin.cpu(rank, &usable)).collect::<Result<_>>()?;
        if ranks == 0 || ranks > MOST_RANKS {
            return Err(Error::environment(format!("{ranks} ranks on one host"))
                .help(format!("run 1 to {MOST_RANKS}")));
        }
        let cpus = pin.at_once(&usable);
        if wait == Wait::Spin && ranks as usize > cpus {
            return Err(Error::environment(format!(
                "{ranks} ranks would spin on {cpus} usable CPUs and wait for each other's time \
                 slices instead of messages"
            ))
            .help(format!("run at most {cpus} ranks, or let them wait with --wait poll")));
        }
        let shared = match transport {
            Kind::Shm => Some(Shared::new(ranks)?),
            Kind::Tcp => None,
        };
        let mut group = Self {
            seats: Vec::with_capacity(ranks as usize),
            transport,
            wait,
            shared,
            interrupt,
            congestion: None,
            apart: Vec::new(),
            ended: false,
        };
        for rank in 0..ranks {
            let place = match places.len() {
                0 => Place::default(),
                many => places[rank as usize % many].clone(),
            };
            let hello = Hello {
                rank,
                ranks,
                transport,
                wait,
                parent: std::process::id().cast_signed(),
                cpu: pinned[rank as usize],
                namespace: place.namespace,
                address: place.address,
                patience: CONNECT,
                delay,
            };
            let process = Process::start(&program, hello, group.shared.as_ref())?;
            group.seats.push(Box::new(process));
        }
        group.connect(&tcp::Run::new()?)?;
        Ok(group)
    }

    /// Lets ranks that were started elsewhere connect over TCP.
    ///
    /// # Errors
    /// A rank that is lost, an interruption.
    pub(crate) fn of(seated: Seated) -> Result<Self> {
        let Seated { seats, wait, apart, run, interrupt } = seated;
        let (transport, shared, congestion) = (Kind::Tcp, None, None);
        let mut group =
            Self { seats, transport, wait, shared, interrupt, congestion, apart, ended: false };
        group.connect(&run)?;
        Ok(group)
    }

    /// How many ranks there are.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.seats.len() as u32
    }

    /// How bytes move.
    #[must_use]
    pub fn transport(&self) -> Kind {
        self.transport
    }

    /// How ranks wait.
    #[must_use]
    pub fn wait(&self) -> Wait {
        self.wait
    }

    /// The CPU on which each rank stays.
    #[must_use]
    pub fn cpus(&self) -> Vec<Option<usize>> {
        self.seats.iter().map(|seat| seat.cpu()).collect()
    }

    /// The process of each rank.
    #[must_use]
    pub fn processes(&self) -> Vec<u32> {
        self.seats.iter().map(|seat| seat.process()).collect()
    }

    /// The congestion control of its connections; absent over shared memory.
    #[must_use]
    pub fn congestion(&self) -> Option<&str> {
        self.congestion.as_deref()
    }

    /// Executes `programs`, one per rank, as `block` specifies; `name` is for errors.
    ///
    /// # Errors
    /// A wrong result, a rank that is lost, an interruption; the group has ended then.
    pub fn run(&mut self, programs: Vec<Program>, block: &Block, name: &str) -> Result<Timed> {
        self.carry_out(programs, block, name, None)
    }

    fn carry_out(
        &mut self,
        programs: Vec<Program>,
        block: &Block,
        name: &str,
        what: Option<(&Op, Bytes)>,
    ) -> Result<Timed> {
        if self.ended || programs.len() != self.seats.len() {
            return Err(Error::lost("the group of ranks has ended"));
        }
        let bytes: usize = programs.iter().map(|program| program.bytes).sum();
        check_memory(bytes)?;
        let predicted = block.predicted.map_or(0.0, |time| 20.0 * time.0).clamp(0.0, 3600.0);
        let patience = LEAST_PATIENCE.max(Duration::from_secs_f64(predicted));
        let reps = 1.0 + f64::from(block.warm) + f64::from(block.reps) * f64::from(block.inner);
        let moved: f64 = programs.iter().map(bytes_moved).sum();
        let spilled = block.spill.0.min(MOST_SPILLED.0) as f64 * f64::from(self.ranks());
        let longest = reps * (patience.as_secs_f64() + (moved + bytes as f64) / SLOWEST)
            + spilled / SLOWEST
            + 10.0;
        let element = programs.first().map_or(Element::Byte, |program| program.element);
        // A rank that does nothing does not count in the time.
        let busy: Vec<bool> = programs.iter().map(|program| !program.steps.is_empty()).collect();
        let nobody = !busy.contains(&true);
        for (rank, program) in programs.into_iter().enumerate() {
            let Block { warm, reps, inner, start, check, spill: Bytes(spill), .. } = *block;
            let apart = self.apart.clone();
            let repeats = Repeats { warm, reps, inner, start, check, spill, patience, apart };
            let given = self.seats[rank].work(Work { program, repeats }, what);
            given.map_err(|e| self.unsent(rank, name, &e))?;
        }
        let until = Instant::now() + Duration::from_secs_f64(longest.min(1e6));
        let awaited = Awaited { stage: name.to_owned(), until };
        let answers = self.gather(&awaited)?;
        let mut records: Vec<Record> = Vec::with_capacity(answers.len());
        for answer in answers {
            match answer {
                Answer::Done(record) => records.push(*record),
                _ => return Err(self.lose("a rank sent an unexpected answer".to_owned())),
            }
        }
        let bound = align(&mut records);
        // No rank may leave a barrier before all have entered it.
        let left_early = element == Element::Bits
            && bound.is_none()
            && (0..block.reps as usize).any(|rep| {
                let last_start = records.iter().filter_map(|r| r.starts.get(rep)).max();
                let first_end = records.iter().filter_map(|r| r.ends.get(rep)).min();
                last_start > first_end
            });
        if left_early {
            return Err(self.lose(format!("{name}: a rank left before another had entered")));
        }
        let mut busy = busy.into_iter();
        records.retain(|_| busy.next() == Some(true) || nobody);
        Ok(match bound {
            Some(bound) => Timed::on_clocks(&records, block.inner, bound, what.map(|(op, _)| op)),
            None => Timed::of(&records, block.inner),
        })
    }

    /// Ends the ranks, and waits until they are gone.
    pub fn end(mut self) {
        for seat in &mut self.seats {
            // A rank that does not receive this is killed below.
            let _ = seat.finish();
        }
        let until = Instant::now() + ENDING;
        let mut left: Vec<usize> = (0..self.seats.len()).collect();
        while Instant::now() < until {
            left.retain(|&rank| !self.seats[rank].is_over());
            let Some(&first) = left.first() else { break };
            let mut files = Vec::new();
            self.seats[first].watch(false, &mut files);
            wait_for(&mut files, Duration::from_millis(50));
            drop(files);
            self.seats[first].hear();
        }
    }

    /// Waits until all ranks are there, and lets them connect where they must.
    fn connect(&mut self, run: &tcp::Run) -> Result<()> {
        let awaited =
            |stage: &str| Awaited { stage: stage.to_owned(), until: Instant::now() + CONNECT };
        let ready = self.gather(&awaited("starting"))?;
        if self.transport == Kind::Shm {
            return Ok(());
        }
        let addresses = ready.into_iter().filter_map(|answer| match answer {
            Answer::Ready(address) => address,
            _ => None,
        });
        let addresses: Vec<_> = addresses.collect();
        for rank in 0..self.seats.len() {
            let told = self.seats[rank].connect(&addresses, run);
            told.map_err(|e| self.unsent(rank, "connecting", &e))?;
        }
        // The ranks' own limit is as long, and their error is more informative.
        let mut connecting = awaited("connecting");
        connecting.until += GRACE;
        self.congestion = self.gather(&connecting)?.into_iter().find_map(|answer| match answer {
            Answer::Connected(congestion) => congestion,
            _ => None,
        });
        Ok(())
    }

    /// Waits for one answer from each rank. Any failure ends the group.
    fn gather(&mut self, awaited: &Awaited) -> Result<Vec<Answer>> {
        let mut answers: BTreeMap<usize, Answer> = BTreeMap::new();
        let mut complaints: Vec<(usize, Answer)> = Vec::new();
        let mut hear_until: Option<Instant> = None;
        while answers.len() < self.seats.len() {
            self.listen(&answers)?;
            for rank in 0..self.seats.len() {
                match self.seats[rank].answer() {
                    Ok(None) => {}
                    Ok(Some(
                        bad @ (Answer::Failed(_) | Answer::Refused(_) | Answer::Unconnected(_)),
                    )) => {
                        complaints.push((rank, bad));
                    }
                    Ok(Some(answer)) => {
                        answers.insert(rank, answer);
                    }
                    Err(e) => {
                        let said = format!("its answer cannot be read: {e}");
                        return Err(self.lose_rank(rank, &awaited.stage, &said));
                    }
                }
            }
            let now = Instant::now();
            if !complaints.is_empty() {
                // The first rank to complain is seldom the cause: others know more a moment later.
                let until = *hear_until.get_or_insert(now + GRACE);
                let heard = complaints.len() + answers.len() == self.seats.len();
                if now >= until || heard || self.first_dead(&complaints).is_some() {
                    return Err(self.diagnose(&awaited.stage, complaints));
                }
            } else if self.first_dead(&complaints).is_some()
                || now >= awaited.until
                || self.first_stopped().is_some()
            {
                return Err(self.diagnose(&awaited.stage, complaints));
            }
        }
        Ok(answers.into_values().collect())
    }

    /// Waits briefly until an answer arrives, a rank dies or the user stops the run.
    fn listen(&mut self, answered: &BTreeMap<usize, Answer>) -> Result<()> {
        let mut ready: Vec<PollFd<'_>> = Vec::with_capacity(2 * self.seats.len() + 1);
        ready.extend(self.interrupt.as_ref().map(|file| PollFd::new(file, PollFlags::IN)));
        for (rank, seat) in self.seats.iter().enumerate() {
            seat.watch(answered.contains_key(&rank), &mut ready);
        }
        let tick = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        let waited = poll(&mut ready, Some(&tick));
        let first = ready.first().is_some_and(|fd| !fd.revents().is_empty());
        drop(ready);
        if let Err(e) = waited
            && e != rustix::io::Errno::INTR
        {
            return Err(self.lose(format!("the ranks cannot be watched: {e}")));
        }
        for seat in &mut self.seats {
            seat.hear();
        }
        if self.interrupt.is_some() && first && waited.is_ok() {
            // A launcher that has lost a rank interrupts the others: that rank is the reason.
            if let Some((rank, how)) = self.first_dead(&[]) {
                return Err(self.lose_rank(rank, "interrupted", &how));
            }
            self.kill();
            return Err(Error::interrupted("interrupted; all ranks have ended"));
        }
        Ok(())
    }

    /// The first rank whose process has ended, except those that gave a reason.
    fn first_dead(&mut self, complaints: &[(usize, Answer)]) -> Option<(usize, String)> {
        let complained = |rank| complaints.iter().any(|(complaining, _)| *complaining == rank);
        let mut seats = self.seats.iter_mut().enumerate();
        seats.find_map(|(rank, seat)| Some((rank, seat.dead().filter(|_| !complained(rank))?)))
    }

    /// The first rank that has been stopped for too long.
    fn first_stopped(&self) -> Option<usize> {
        let long = |since: Instant| since.elapsed() >= STOPPED;
        self.seats.iter().position(|seat| seat.stopped().is_some_and(long))
    }

    /// Determines which rank is at fault, and the evidence for it; ends the group.
    fn diagnose(&mut self, stage: &str, complaints: Vec<(usize, Answer)>) -> Error {
        for seat in &mut self.seats {
            seat.hear();
        }
        let at = complaints.iter().find_map(|(_, answer)| match answer {
            Answer::Failed(Failure::Lost(at, _)) => Some(*at),
            _ => None,
        });
        let place = match at {
            Some(Stage::Filling) | None => stage.to_owned(),
            Some(at) => format!("{stage}: {at}"),
        };
        let spoken = |(rank, answer): &(usize, Answer)| spoken(&self.seats[*rank].name(), answer);
        if let Some(complaint) = complaints.iter().find_map(spoken) {
            self.kill();
            return complaint.at(place);
        }
        if let Some((rank, how)) = self.first_dead(&complaints) {
            return self.lose_rank(rank, &place, &how);
        }
        if let Some(rank) = self.seats.iter().position(|seat| seat.stopped().is_some()) {
            return self.lose_rank(rank, &place, "its process is stopped");
        }
        // A rank that waits for its own ranks is silent too, but its host is still heard.
        let silent = |seat: &dyn Seat| seat.silent().map(|since| since.elapsed());
        let longest =
            self.seats.iter().enumerate().filter_map(|(rank, s)| Some((silent(&**s)?, rank)));
        if let Some((time, rank)) = longest.max().filter(|(time, _)| *time >= SILENT) {
            let why = format!("nothing was heard from its host for {:.1} s", time.as_secs_f64());
            return self.lose_rank(rank, &place, &why);
        }
        match complaints.into_iter().next() {
            Some((rank, Answer::Failed(Failure::Lost(_, fault)))) => match fault {
                Fault { peer: Some(peer), cause: Cause::Silent(time) } => {
                    let time = time.as_secs_f64();
                    let name = self.seats[rank].name();
                    let why = format!("{name} heard nothing from it for {time:.1} s");
                    self.lose_rank(peer as usize, &place, &why)
                }
                Fault { peer: Some(peer), cause: Cause::Closed } => {
                    let why = format!("it closed its connection to {}", self.seats[rank].name());
                    self.lose_rank(peer as usize, &place, &why)
                }
                fault => self.lose_rank(rank, &place, &fault.to_string()),
            },
            Some((_, Answer::Unconnected(text))) => self.lose(text).at(place),
            Some((rank, _)) => self.lose_rank(rank, &place, "it gave up"),
            None => self.lose(format!("{place}: the ranks did not answer in time")),
        }
    }

    /// A rank does not take what it is sent. It has ended, as a rule, and how is known a moment later.
    fn unsent(&mut self, rank: usize, stage: &str, e: &io::Error) -> Error {
        let until = Instant::now() + GRACE;
        while Instant::now() < until {
            for seat in &mut self.seats {
                seat.hear();
            }
            if let Some((dead, how)) = self.first_dead(&[]) {
                return self.lose_rank(dead, stage, &how);
            }
            thread::sleep(TURN);
        }
        self.lose_rank(rank, stage, &e.to_string())
    }

    fn lose_rank(&mut self, rank: usize, stage: &str, why: &str) -> Error {
        let name = self.seats.get(rank).map_or_else(|| format!("rank {rank}"), |seat| seat.name());
        self.lose(format!("{name} was lost: {why}")).at(stage)
    }

    fn lose(&mut self, what: String) -> Error {
        self.kill();
        Error::lost(what)
    }

    /// Ends all processes, and waits until they are gone.
    fn kill(&mut self) {
        self.ended = true;
        if let Some(shared) = &self.shared {
            shared.abort();
        }
        for seat in &mut self.seats {
            seat.kill();
        }
        for seat in &mut self.seats {
            seat.reap();
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// An error that a rank reports itself, and that is not explained by a death.
fn spoken(name: &str, answer: &Answer) -> Option<Error> {
    match answer {
        Answer::Failed(Failure::Wrong(wrong)) => {
            let mut text = format!("{name} has a wrong result: ");
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "byte {} must begin with {:#x} but begins with {:#x}",
                wrong.at, wrong.wanted, wrong.found
            );
            Some(Error::lost(text))
        }
        Answer::Refused(text) => Some(Error::environment(text.clone())),
        _ => None,
    }
}

fn wait_for(files: &mut [PollFd<'_>], time: Duration) {
    let time = Timespec { tv_sec: 0, tv_nsec: time.subsec_nanos().into() };
    // Too short a wait only means another turn of the caller's loop.
    let _ = poll(files, Some(&time));
}

/// The total bytes that a rank sends.
fn bytes_moved(program: &Program) -> f64 {
    let sends = program.steps.iter().flat_map(|step| &step.sends);
    sends.flat_map(|send| &send.spans).map(|span| span.len() as f64).sum()
}

/// Refuses buffers of more than half of the free memory.
pub(crate) fn check_memory(bytes: usize) -> Result<()> {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<usize>().ok());
    match kib {
        Some(kib) if bytes > kib.saturating_mul(512) => {
            let (need, free) = (bytes >> 20, kib >> 10);
            Err(Error::environment(format!(
                "the ranks' buffers are {need} MiB, more than half of the {free} MiB that are free"
            ))
            .help("run a smaller size or fewer ranks"))
        }
        _ => Ok(()),
    }
}

/// Times the operations of a registry on the ranks of a group.
pub struct Executor {
    registry: Registry,
    group: Group,
}

impl Executor {
    /// An executor of the algorithms in `registry`.
    #[must_use]
    pub fn new(registry: Registry, group: Group) -> Self {
        Self { registry, group }
    }

    /// The ranks.
    #[must_use]
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// Ends the ranks.
    pub fn end(self) {
        self.group.end();
    }
}

impl Runner for Executor {
    fn ranks(&self) -> u32 {
        self.group.ranks()
    }

    fn time(&mut self, op: &Op, size: Bytes, block: &Block) -> Result<Timed> {
        let programs = programs(&self.registry, op, self.group.ranks(), size)?;
        let runs = f64::from(runs(op));
        let name = format!("{op} of {size}");
        let mut timed = self.group.carry_out(programs, block, &name, Some((op, size)))?;
        for sample in &mut timed.samples {
            sample.span.0 /= runs;
            let parts = [&mut sample.run_delay, &mut sample.with_cpus];
            parts.into_iter().flatten().for_each(|time| time.0 /= runs);
        }
        Ok(timed)
    }
}

//! The group's side: starts ranks, gives them work, and ends all of them when one is lost.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::control::{Answer, Hello, Order, frame, give, take};
use super::usable::usable;
use crate::algorithm::Registry;
use crate::error::{Error, Result};
use crate::execute::{
    Block, Element, Failure, Program, Record, Runner, Stage, Timed, Work, programs, runs,
};
use crate::quantity::Bytes;
use crate::sample::Op;
use crate::transport::shm::Shared;
use crate::transport::{Cause, Delay, Fault, Kind, Wait, tcp};

/// The most ranks of one host.
const MOST_RANKS: u32 = 64;
/// How long starting, and connecting, may take.
const CONNECT: Duration = Duration::from_secs(5);
/// The least time after which a step counts as silent.
const LEAST_PATIENCE: Duration = Duration::from_secs(2);
/// How long after a first complaint others are heard, which may know the cause.
const GRACE: Duration = Duration::from_millis(300);
/// A rank that is stopped for so long is lost.
const STOPPED: Duration = Duration::from_secs(2);
/// How long ranks may take to end by themselves.
const ENDING: Duration = Duration::from_secs(1);
/// The slowest rate that a block may have, in bytes a second, before it counts as hanging.
const SLOWEST: f64 = 1e6;

/// Where a rank runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file of its network namespace; its own where there is none.
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
    /// How ranks wait; absent: they spin where each has a CPU of its own.
    pub wait: Option<Wait>,
    /// Whether each rank stays on one CPU, rank r on the r-th.
    pub pin: bool,
    /// Where ranks run, one after another and again from the first; empty: on loopback.
    pub places: Vec<Place>,
    /// Holds every message up before it leaves, barriers' too: a latency that a fit should find
    /// again, for tests.
    pub delay: Option<Delay>,
    /// Becomes readable when somebody wants to stop.
    pub interrupt: Option<OwnedFd>,
}

impl Setup {
    /// The same once more, for another start.
    ///
    /// # Errors
    /// There is no file descriptor left.
    pub fn try_clone(&self) -> Result<Self> {
        let interrupt = self.interrupt.as_ref().map(OwnedFd::try_clone).transpose();
        let interrupt = interrupt.map_err(|e| {
            Error::environment(format!("an interruption could not be noticed: {e}"))
        })?;
        let Self { program, ranks, transport, wait, pin, places, delay, .. } = self;
        let (program, places) = (program.clone(), places.clone());
        let (ranks, transport, wait, pin, delay) = (*ranks, *transport, *wait, *pin, *delay);
        Ok(Self { program, ranks, transport, wait, pin, places, delay, interrupt })
    }
}

/// Processes that are the ranks of one run.
pub struct Group {
    members: Vec<Member>,
    ranks: u32,
    transport: Kind,
    wait: Wait,
    shared: Option<Shared>,
    interrupt: Option<OwnedFd>,
    congestion: Option<String>,
    ended: bool,
}

/// One process.
struct Member {
    child: Child,
    /// Becomes readable when the process has ended.
    death: OwnedFd,
    stream: UnixStream,
    inbox: Vec<u8>,
    /// The CPU on which it stays.
    cpu: Option<usize>,
    /// Since when it has been seen stopped.
    stopped: Option<Instant>,
}

/// What is being waited for, and what to call it.
struct Awaited {
    stage: String,
    until: Instant,
}

impl Group {
    /// Starts the ranks and lets them connect.
    ///
    /// # Errors
    /// More ranks than one host runs, or than CPUs where they would spin; a machine that refuses
    /// processes, memory or connections; a rank that is lost; an interruption.
    pub fn start(setup: Setup) -> Result<Self> {
        let Setup { program, ranks, transport, wait, pin, places, delay, interrupt } = setup;
        let usable = usable()?;
        let fits = ranks as usize <= usable.at_once;
        let wait = wait.unwrap_or(if fits { Wait::Spin } else { Wait::Poll });
        if ranks == 0 || ranks > MOST_RANKS {
            return Err(Error::environment(format!("{ranks} ranks on one host"))
                .mend(format!("run 1 to {MOST_RANKS}")));
        }
        if wait == Wait::Spin && !fits {
            let cpus = usable.at_once;
            return Err(Error::environment(format!(
                "{ranks} ranks would spin on {cpus} usable CPUs, and wait for each other's time \
                 slices instead of messages"
            ))
            .mend(format!("run at most {cpus} ranks, or let them wait with --wait poll")));
        }
        let shared = match transport {
            Kind::Shm => Some(Shared::new(ranks)?),
            Kind::Tcp => None,
        };
        let mut group = Self {
            members: Vec::with_capacity(ranks as usize),
            ranks,
            transport,
            wait,
            shared,
            interrupt,
            congestion: None,
            ended: false,
        };
        for rank in 0..ranks {
            let cpu = Some(usable.cpus.as_slice())
                .filter(|cpus| pin && !cpus.is_empty())
                .map(|cpus| cpus[rank as usize % cpus.len()]);
            let place = match places.len() {
                0 => Place::default(),
                many => places[rank as usize % many].clone(),
            };
            group.start_rank(rank, &program, cpu, place, delay)?;
        }
        group.connect()?;
        Ok(group)
    }

    /// How many ranks there are.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.ranks
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
        self.members.iter().map(|member| member.cpu).collect()
    }

    /// The process of each rank.
    #[must_use]
    pub fn processes(&self) -> Vec<u32> {
        self.members.iter().map(|member| member.child.id()).collect()
    }

    /// The congestion control of its connections; none over shared memory.
    #[must_use]
    pub fn congestion(&self) -> Option<&str> {
        self.congestion.as_deref()
    }

    /// Carries out `programs`, one a rank, as `block` says; `name` is for errors.
    ///
    /// # Errors
    /// A wrong result, a rank that is lost, an interruption; the group is over then.
    pub fn run(&mut self, programs: Vec<Program>, block: &Block, name: &str) -> Result<Timed> {
        if self.ended || programs.len() != self.members.len() {
            return Err(Error::lost("the group of ranks has ended"));
        }
        let bytes: usize = programs.iter().map(|program| program.bytes).sum();
        check_memory(bytes)?;
        let predicted = block.predicted.map_or(0.0, |time| 20.0 * time.0).clamp(0.0, 3600.0);
        let patience = LEAST_PATIENCE.max(Duration::from_secs_f64(predicted));
        let reps = 1.0 + f64::from(block.warm) + f64::from(block.reps) * f64::from(block.inner);
        let moved: f64 = programs.iter().map(bytes_moved).sum();
        let longest = reps * (patience.as_secs_f64() + (moved + bytes as f64) / SLOWEST) + 10.0;
        let element = programs.first().map_or(Element::Byte, |program| program.element);
        // Who does nothing has no part in the time.
        let busy: Vec<bool> = programs.iter().map(|program| !program.steps.is_empty()).collect();
        let nobody = !busy.contains(&true);
        for (rank, program) in programs.into_iter().enumerate() {
            let Block { warm, reps, inner, start, check, .. } = *block;
            let work = Work { program, warm, reps, inner, start, check, patience };
            self.send(rank, &Order::Work(Box::new(work)), name)?;
        }
        let until = Instant::now() + Duration::from_secs_f64(longest.min(1e6));
        let awaited = Awaited { stage: name.to_owned(), until };
        let answers = self.gather(&awaited)?;
        let mut records: Vec<Record> = Vec::with_capacity(answers.len());
        for answer in answers {
            match answer {
                Answer::Done(record) => records.push(*record),
                _ => return Err(self.lose("a rank answered what was not asked".to_owned())),
            }
        }
        // Nobody may leave a barrier before everybody has come.
        let left_early = element == Element::Bits
            && (0..block.reps as usize).any(|rep| {
                let last_start = records.iter().filter_map(|r| r.starts.get(rep)).max();
                let first_end = records.iter().filter_map(|r| r.ends.get(rep)).min();
                last_start > first_end
            });
        if left_early {
            return Err(self.lose(format!("{name}: a rank left before another had come")));
        }
        let mut busy = busy.into_iter();
        records.retain(|_| busy.next() == Some(true) || nobody);
        Ok(Timed::of(&records, block.inner))
    }

    /// Ends the ranks, and waits until they are gone.
    pub fn end(mut self) {
        for rank in 0..self.members.len() {
            // One that does not hear it is killed below.
            let _ = self.send(rank, &Order::End, "the end");
        }
        let until = Instant::now() + ENDING;
        let mut left: Vec<&mut Member> = self.members.iter_mut().collect();
        while Instant::now() < until {
            left.retain_mut(|member| matches!(member.child.try_wait(), Ok(None)));
            let Some(first) = left.first() else { break };
            wait_for(&[&first.death], Duration::from_millis(50));
        }
    }

    fn start_rank(
        &mut self,
        rank: u32,
        (program, arguments): &(PathBuf, Vec<String>),
        cpu: Option<usize>,
        place: Place,
        delay: Option<Delay>,
    ) -> Result<()> {
        let failed = |what: &str, e: std::io::Error| {
            Error::environment(format!("rank {rank} cannot be started: {what}: {e}"))
        };
        let (stream, theirs) = UnixStream::pair().map_err(|e| failed("no socket", e))?;
        let child = Command::new(program)
            .args(arguments)
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            // An interruption of the terminal is the group's alone.
            .process_group(0)
            .spawn()
            .map_err(|e| failed(&program.display().to_string(), e))?;
        let mut starting = Starting(Some(child));
        let death = Pid::from_raw(starting.id().cast_signed())
            .ok_or(rustix::io::Errno::SRCH)
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()))
            .map_err(|e| failed("no pidfd", e.into()))?;
        // A rank that does not read must not hold up the group.
        stream
            .set_write_timeout(Some(LEAST_PATIENCE))
            .and_then(|()| stream.set_nonblocking(false))
            .map_err(|e| failed("no socket", e))?;
        let Some(child) = starting.0.take() else { return Ok(()) };
        let inbox = Vec::new();
        self.members.push(Member { child, death, stream, inbox, cpu, stopped: None });
        let hello = Hello {
            rank,
            ranks: self.ranks,
            transport: self.transport,
            wait: self.wait,
            parent: std::process::id().cast_signed(),
            cpu,
            namespace: place.namespace,
            address: place.address,
            patience: CONNECT,
            delay,
        };
        self.send(rank as usize, &Order::Hello(hello), "starting")?;
        if let Some(shared) = &self.shared {
            let given = give(&self.members[rank as usize].stream, shared.file().as_fd());
            if let Err(e) = given {
                return Err(self.lose_rank(rank as usize, "starting", &e.to_string()));
            }
        }
        Ok(())
    }

    /// Waits until all ranks are there, and lets them connect where they must.
    fn connect(&mut self) -> Result<()> {
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
        let run = tcp::run_id()?;
        for rank in 0..self.members.len() {
            self.send(rank, &Order::Connect(addresses.clone(), run), "connecting")?;
        }
        // The ranks' own limit is as long, and says more.
        let mut connecting = awaited("connecting");
        connecting.until += GRACE;
        self.congestion = self.gather(&connecting)?.into_iter().find_map(|answer| match answer {
            Answer::Connected(congestion) => congestion,
            _ => None,
        });
        Ok(())
    }

    fn send(&mut self, rank: usize, order: &Order, stage: &str) -> Result<()> {
        let stream = &mut self.members[rank].stream;
        match frame(order).and_then(|bytes| stream.write_all(&bytes)) {
            Ok(()) => Ok(()),
            Err(e) => Err(self.lose_rank(rank, stage, &e.to_string())),
        }
    }

    /// Waits for one answer of each rank. Whatever goes wrong ends the group.
    fn gather(&mut self, awaited: &Awaited) -> Result<Vec<Answer>> {
        let mut answers: BTreeMap<usize, Answer> = BTreeMap::new();
        let mut complaints: Vec<(usize, Answer)> = Vec::new();
        let mut hear_until: Option<Instant> = None;
        while answers.len() < self.members.len() {
            self.listen(&answers)?;
            for rank in 0..self.members.len() {
                match take::<Answer>(&mut self.members[rank].inbox) {
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
                        let said = format!("it said what cannot be read: {e}");
                        return Err(self.lose_rank(rank, &awaited.stage, &said));
                    }
                }
            }
            let now = Instant::now();
            if !complaints.is_empty() {
                // The first to complain is seldom the cause: others know more a moment later.
                let until = *hear_until.get_or_insert(now + GRACE);
                let heard = complaints.len() + answers.len() == self.members.len();
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

    /// Waits for a moment until something is said, somebody dies or the user stops it all.
    fn listen(&mut self, answered: &BTreeMap<usize, Answer>) -> Result<()> {
        let mut ready: Vec<PollFd<'_>> = Vec::with_capacity(2 * self.members.len() + 1);
        for (rank, member) in self.members.iter().enumerate() {
            ready.push(PollFd::new(&member.death, PollFlags::IN));
            // One that hangs up would be ready for ever; its death tells as much.
            let flags =
                if answered.contains_key(&rank) { PollFlags::empty() } else { PollFlags::IN };
            ready.push(PollFd::new(&member.stream, flags));
        }
        if let Some(interrupt) = &self.interrupt {
            ready.push(PollFd::new(interrupt, PollFlags::IN));
        }
        let tick = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        match poll(&mut ready, Some(&tick)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(self.lose(format!("the ranks cannot be watched: {e}"))),
        }
        let said: Vec<bool> = ready.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(ready);
        if self.interrupt.is_some() && said.last() == Some(&true) {
            self.kill();
            return Err(Error::interrupted("interrupted; all ranks have ended"));
        }
        for (rank, member) in self.members.iter_mut().enumerate() {
            if said.get(2 * rank + 1) == Some(&true) {
                member.hear();
            }
            member.look();
        }
        Ok(())
    }

    /// The first rank whose process has ended, but for those that said why they would.
    fn first_dead(&mut self, complaints: &[(usize, Answer)]) -> Option<(usize, String)> {
        let complained = |rank| complaints.iter().any(|(complaining, _)| *complaining == rank);
        let members = self.members.iter_mut().enumerate();
        members.filter(|(rank, _)| !complained(*rank)).find_map(|(rank, member)| {
            let status = member.child.try_wait().ok().flatten()?;
            let how = match (status.signal(), status.code()) {
                (Some(signal), _) => format!("killed by signal {signal}"),
                (_, Some(code)) => format!("it ended with code {code}"),
                _ => "it ended".to_owned(),
            };
            Some((rank, how))
        })
    }

    /// The first rank that has been stopped for long.
    fn first_stopped(&self) -> Option<usize> {
        let long = |m: &Member| m.stopped.is_some_and(|since| since.elapsed() >= STOPPED);
        self.members.iter().position(long)
    }

    /// Says which rank is at fault, and how it is known; ends the group.
    fn diagnose(&mut self, stage: &str, complaints: Vec<(usize, Answer)>) -> Error {
        for member in &mut self.members {
            member.look();
        }
        let at = complaints.iter().find_map(|(_, answer)| match answer {
            Answer::Failed(Failure::Lost(at, _)) => Some(*at),
            _ => None,
        });
        let place = match at {
            Some(Stage::Filling) | None => stage.to_owned(),
            Some(at) => format!("{stage}: {at}"),
        };
        if let Some(complaint) = complaints.iter().find_map(|(rank, answer)| spoken(*rank, answer))
        {
            self.kill();
            return complaint.at(place);
        }
        if let Some((rank, how)) = self.first_dead(&complaints) {
            return self.lose_rank(rank, &place, &how);
        }
        let stopped = self.members.iter().position(|member| member.stopped.is_some());
        if let Some(rank) = stopped {
            return self.lose_rank(rank, &place, "its process is stopped");
        }
        match complaints.into_iter().next() {
            Some((rank, Answer::Failed(Failure::Lost(_, fault)))) => match fault {
                Fault { peer: Some(peer), cause: Cause::Silent(time) } => {
                    let time = time.as_secs_f64();
                    let why = format!("rank {rank} heard nothing of it for {time:.1} s");
                    self.lose_rank(peer as usize, &place, &why)
                }
                Fault { peer: Some(peer), cause: Cause::Closed } => {
                    let why = format!("it closed its connection to rank {rank}");
                    self.lose_rank(peer as usize, &place, &why)
                }
                fault => self.lose_rank(rank, &place, &fault.to_string()),
            },
            Some((_, Answer::Unconnected(text))) => self.lose(text).at(place),
            Some((rank, _)) => self.lose_rank(rank, &place, "it gave up"),
            None => self.lose(format!("{place}: the ranks did not answer in time")),
        }
    }

    fn lose_rank(&mut self, rank: usize, stage: &str, why: &str) -> Error {
        self.lose(format!("rank {rank} was lost: {why}")).at(stage)
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
        for member in &mut self.members {
            // A process that has ended already cannot be killed, which is as well.
            let _ = member.child.kill();
        }
        for member in &mut self.members {
            let _ = member.child.wait();
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A child that is killed unless it becomes a member.
struct Starting(Option<Child>);

impl Starting {
    fn id(&self) -> u32 {
        self.0.as_ref().map_or(0, Child::id)
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Member {
    /// Takes in what the rank has said.
    fn hear(&mut self) {
        let mut room = vec![0; 64 << 10];
        if self.stream.set_nonblocking(true).is_err() {
            return;
        }
        // What ends this, a pause or a death, is found out elsewhere.
        while let Ok(bytes @ 1..) = self.stream.read(&mut room) {
            self.inbox.extend_from_slice(&room[..bytes]);
        }
        let _ = self.stream.set_nonblocking(false);
    }

    /// Notes whether the process is stopped.
    fn look(&mut self) {
        let file = format!("/proc/{}/stat", self.child.id());
        let text = std::fs::read_to_string(file).unwrap_or_default();
        // The state stands behind the name, which may hold anything.
        let state = text.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        match state {
            Some('T' | 't') => drop(self.stopped.get_or_insert_with(Instant::now)),
            _ => self.stopped = None,
        }
    }
}

/// An error that a rank itself says, and that no death explains.
fn spoken(rank: usize, answer: &Answer) -> Option<Error> {
    match answer {
        Answer::Failed(Failure::Wrong(wrong)) => {
            let mut text = format!("rank {rank} has a wrong result: ");
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "byte {} must begin {:#x} and begins {:#x}",
                wrong.at, wrong.wanted, wrong.found
            );
            Some(Error::lost(text))
        }
        Answer::Refused(text) => Some(Error::environment(text.clone())),
        _ => None,
    }
}

fn wait_for(files: &[&OwnedFd], time: Duration) {
    let mut ready: Vec<PollFd<'_>> =
        files.iter().map(|file| PollFd::new(*file, PollFlags::IN)).collect();
    let time = Timespec { tv_sec: 0, tv_nsec: time.subsec_nanos().into() };
    // Too short a wait is only another turn of the caller's loop.
    let _ = poll(&mut ready, Some(&time));
}

/// What a rank sends in all.
fn bytes_moved(program: &Program) -> f64 {
    let sends = program.steps.iter().flat_map(|step| &step.sends);
    sends.flat_map(|send| &send.spans).map(|span| span.len() as f64).sum()
}

/// Refuses buffers of more than half of the memory that is free.
fn check_memory(bytes: usize) -> Result<()> {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<usize>().ok());
    match kib {
        Some(kib) if bytes > kib.saturating_mul(512) => {
            let (need, free) = (bytes >> 20, kib >> 10);
            Err(Error::environment(format!(
                "the ranks' buffers are {need} MiB, more than half of the {free} MiB that are free"
            ))
            .mend("run a smaller size or fewer ranks"))
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
    /// An executor of what `registry` has.
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
        let mut timed = self.group.run(programs, block, &format!("{op} of {size}"))?;
        for sample in &mut timed.samples {
            sample.span.0 /= runs;
            sample.run_delay.iter_mut().for_each(|delay| delay.0 /= runs);
        }
        Ok(timed)
    }
}

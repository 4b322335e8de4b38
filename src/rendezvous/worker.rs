//! The side of ranks above 0: does what the coordinator says, and ends with it.

use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::PATIENCE;
use super::channel::{Channel, End};
use super::handshake::{Greeting, Stranger, introduce};
use super::message::{FromWorker, Starting, Task, ToWorker};
use super::part::Part;
use super::token::Token;
use crate::algorithm::Registry;
use crate::calibrate::Host;
use crate::error::{Error, Result};
use crate::execute::{Work, programs};
use crate::launch::{Answer, CONNECT, Hello, Process, Seat, check_memory, usable};
use crate::quantity::Bytes;
use crate::sample::Op;
use crate::transport::Kind;
use crate::transport::tcp;

/// How long the other side may take over its part of a greeting.
const GREETING: Duration = Duration::from_secs(3);
/// Between two calls of somebody who is not there yet.
const PAUSE: Duration = Duration::from_millis(50);
/// How often time is looked at while nothing happens.
const TICK: Duration = Duration::from_millis(100);
/// How long a process may take to end by itself.
const ENDING: Duration = Duration::from_secs(1);
/// The most repetitions of one block, and the most runs between two readings of the clock.
const MOST: u32 = 1_000_000;
/// The longest silence of a step that may be asked for.
const LONGEST: Duration = Duration::from_secs(3600);

/// Serves as `part` until the run is over; `program` is what runs as a rank, and `interrupt` becomes
/// readable when somebody wants to stop.
///
/// # Errors
/// Nobody to call, another version or token, a coordinator that is lost or gave the run up, an
/// interruption.
pub fn serve(
    part: &Part,
    token: &Token,
    program: &(PathBuf, Vec<String>),
    interrupt: Option<&OwnedFd>,
) -> Result<()> {
    let usable = usable()?;
    let host = Host::look(usable.cpus.clone(), usable.at_once);
    let channel = call(part, token, interrupt)?;
    let failed = |e: std::io::Error| lost(part, &format!("cannot be spoken to: {e}"));
    let address = channel.own_address().map_err(failed)?;
    let Part { rank, ranks, .. } = *part;
    let here = FromWorker::Here { rank, ranks, host: Box::new(host), address };
    channel.send(&here).map_err(failed)?;
    let mut worker = Worker { part, token, program, interrupt, address, channel, process: None };
    worker.serve()
}

/// Calls until somebody answers, then shows that both know the token.
fn call(part: &Part, token: &Token, interrupt: Option<&OwnedFd>) -> Result<Channel> {
    let Part { rank, at, .. } = part;
    let place = format!("rank {rank}, --rendezvous {at}");
    let until = Instant::now() + PATIENCE;
    let (stream, key) = loop {
        let tried = TcpStream::connect_timeout(at, CONNECT).and_then(|mut stream| {
            stream.set_nodelay(true)?;
            let key = introduce(&mut stream, token, GREETING)?;
            Ok((stream, key))
        });
        match tried {
            Ok((stream, Ok(key))) => break (stream, key),
            Ok((_, Err(stranger))) => return Err(refused(&stranger).at(place)),
            Err(e) if Instant::now() >= until => {
                let waited = PATIENCE.as_secs();
                return Err(Error::lost(format!("nobody answered for {waited} s: {e}"))
                    .at(place)
                    .mend("start rank 0 first, and let its port pass the firewall"));
            }
            // Rank 0 may not be there yet, or be busy with others.
            Err(_) => {
                let mut files: Vec<_> = interrupt.iter().map(|file| watched(file)).collect();
                if rest(&mut files, PAUSE) && interrupt.is_some() {
                    return Err(interrupted(part));
                }
            }
        }
    };
    Channel::new(stream, key, End::Worker)
        .map_err(|e| lost(part, &format!("cannot be spoken to: {e}")))
}

fn refused(stranger: &Stranger) -> Error {
    match stranger {
        Stranger::Foreign => Error::environment("what listens there is no collcost")
            .mend("name the port of rank 0 with --rendezvous"),
        Stranger::Version(theirs) => {
            let own = Greeting::new().map_or_else(|_| "this one".to_owned(), |own| own.version());
            Error::environment(format!("the coordinator is collcost {theirs}; this is {own}"))
                .mend("install one version on all hosts")
        }
        Stranger::Token => Error::environment("the coordinator has another token")
            .mend("give all hosts a copy of one --token-file"),
    }
}

fn lost(part: &Part, how: &str) -> Error {
    Error::lost(format!("rank {} lost the coordinator: it {how}", part.rank))
        .at(format!("--rendezvous {}", part.at))
}

fn interrupted(part: &Part) -> Error {
    Error::interrupted(format!("interrupted; rank {} has ended", part.rank))
}

fn watched(file: &OwnedFd) -> PollFd<'_> {
    PollFd::new(file, PollFlags::IN)
}

/// Waits until something happens; says whether it did to the first of `files`.
fn rest(files: &mut [PollFd<'_>], time: Duration) -> bool {
    let time = Timespec { tv_sec: 0, tv_nsec: time.subsec_nanos().into() };
    // Too short a wait is only another turn.
    poll(files, Some(&time)).is_ok() && files.first().is_some_and(|fd| !fd.revents().is_empty())
}

struct Worker<'a> {
    part: &'a Part,
    token: &'a Token,
    program: &'a (PathBuf, Vec<String>),
    interrupt: Option<&'a OwnedFd>,
    /// Where its process listens: the address by which the coordinator sees this host.
    address: std::net::IpAddr,
    channel: Channel,
    process: Option<Running>,
}

/// The process of the present launch.
struct Running {
    launch: u32,
    process: Process,
    was_stopped: bool,
    /// When it is killed.
    until: Option<Instant>,
}

impl Worker<'_> {
    fn serve(&mut self) -> Result<()> {
        loop {
            let mut files: Vec<_> = self.interrupt.iter().map(|file| watched(file)).collect();
            self.channel.watch(&mut files);
            if let Some(running) = &self.process {
                running.process.watch(false, &mut files);
            }
            if rest(&mut files, TICK) && self.interrupt.is_some() {
                return Err(interrupted(self.part));
            }
            drop(files);
            self.channel.hear();
            while let Some(message) = self.channel.take::<ToWorker>() {
                match message {
                    ToWorker::Refused(why) => {
                        return Err(Error::environment(format!("the coordinator refuses: {why}"))
                            .at(format!("rank {}", self.part.rank)));
                    }
                    ToWorker::Abort(why) => {
                        return Err(Error::lost(format!("the run was given up: {why}"))
                            .at(format!("rank {}", self.part.rank)));
                    }
                    ToWorker::Goodbye => return Ok(()),
                    other => self.obey(other)?,
                }
            }
            if let Some(how) = self.channel.over() {
                return Err(lost(self.part, &how));
            }
            self.look()?;
        }
    }

    fn obey(&mut self, message: ToWorker) -> Result<()> {
        match message {
            ToWorker::Start(starting) => self.start(&starting),
            ToWorker::Connect(addresses, id) => {
                let key = self.token.derive("data", &[&id]);
                self.tell(|process| process.connect(&addresses, &tcp::Run { id, key }))
            }
            ToWorker::Work(task) => match self.work(&task) {
                Ok(work) => self.tell(|process| process.work(work, None)),
                Err(error) => self.answer(Answer::Refused(error.to_string())),
            },
            ToWorker::Finish => {
                if let Some(running) = &mut self.process {
                    running.until = Some(Instant::now() + ENDING);
                }
                self.tell(Process::finish)
            }
            ToWorker::Kill => {
                self.process = None;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn start(&mut self, starting: &Starting) -> Result<()> {
        self.process = None;
        let launch = starting.launch;
        let usable = usable()?;
        let hello = Hello {
            rank: self.part.rank,
            ranks: self.part.ranks,
            transport: Kind::Tcp,
            wait: starting.wait,
            parent: std::process::id().cast_signed(),
            cpu: starting.slot.and_then(|slot| usable.slot(slot as usize)),
            namespace: None,
            address: self.address,
            patience: CONNECT,
            delay: None,
        };
        match Process::start(self.program, hello, None) {
            Ok(process) => {
                let (number, cpu) = (process.process(), process.cpu());
                self.process = Some(Running { launch, process, was_stopped: false, until: None });
                self.say(&FromWorker::Started { launch, process: number, cpu })
            }
            Err(error) => {
                let refused = Box::new(Answer::Refused(error.to_string()));
                self.say(&FromWorker::Answer(launch, refused))
            }
        }
    }

    /// The block that a task is, if it is one that this host will run.
    fn work(&self, task: &Task) -> Result<Work> {
        let Part { rank, ranks, .. } = *self.part;
        let Task { warm, reps, inner, start, check, patience, .. } = *task;
        if [warm, reps, inner].into_iter().any(|count| count > MOST) || patience > LONGEST {
            return Err(Error::environment(format!("rank {rank} does not run so much at once")));
        }
        let op: Op = task.op.parse()?;
        let mut programs = programs(&Registry::builtin(), &op, ranks, Bytes(task.size))?;
        let own = rank as usize;
        if own >= programs.len() {
            return Err(Error::environment(format!("`{op}` has no part for rank {rank}")));
        }
        let program = programs.swap_remove(own);
        check_memory(program.bytes)?;
        let apart = task.apart.iter().copied().filter(|&other| other < ranks).collect();
        Ok(Work { program, warm, reps, inner, start, check, patience, apart })
    }

    /// Passes an order on; a process that does not take it is seen to have ended.
    fn tell(&mut self, order: impl FnOnce(&mut Process) -> std::io::Result<()>) -> Result<()> {
        if let Some(running) = &mut self.process {
            let _ = order(&mut running.process);
        }
        Ok(())
    }

    fn answer(&mut self, answer: Answer) -> Result<()> {
        match &self.process {
            Some(running) => self.say(&FromWorker::Answer(running.launch, Box::new(answer))),
            None => Ok(()),
        }
    }

    fn say(&self, message: &FromWorker) -> Result<()> {
        self.channel.send(message).map_err(|e| lost(self.part, &format!("does not hear: {e}")))
    }

    /// Passes on what the process says, and how it is.
    fn look(&mut self) -> Result<()> {
        let Some(running) = &mut self.process else { return Ok(()) };
        let (launch, process) = (running.launch, &mut running.process);
        process.hear();
        let mut news = Vec::new();
        loop {
            match process.answer() {
                Ok(Some(answer)) => news.push(FromWorker::Answer(launch, Box::new(answer))),
                Ok(None) => break,
                Err(e) => {
                    process.kill();
                    news.push(FromWorker::Ended(
                        launch,
                        format!("it said what cannot be read: {e}"),
                    ));
                    break;
                }
            }
        }
        let is_stopped = process.stopped().is_some();
        if is_stopped != std::mem::replace(&mut running.was_stopped, is_stopped) {
            news.push(FromWorker::Stopped(launch, is_stopped));
        }
        if running.until.is_some_and(|until| Instant::now() >= until) {
            process.kill();
        }
        if let Some(how) = process.dead() {
            news.push(FromWorker::Ended(launch, how));
            self.process = None;
        }
        news.iter().try_for_each(|message| self.say(message))
    }
}

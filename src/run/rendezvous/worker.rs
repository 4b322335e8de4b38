//! A rank above 0 with a process that runs schedules.

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::PollFd;

use super::line::{Line, Service};
use super::message::{News, Order, Purpose, Starting, Task};
use super::part::Part;
use super::token::Token;
use crate::base::error::{Error, Result};
use crate::base::quantity::Bytes;
use crate::machine::sample::Op;
use crate::model::algorithm::Registry;
use crate::run::execute::{MOST_SPILLED, Repeats, Work, programs};
use crate::run::launch::{Answer, CONNECT, Hello, Process, Seat, check_memory, usable};
use crate::run::transport::Kind;
use crate::run::transport::tcp;

/// How long a process may take to end on its own.
const ENDING: Duration = Duration::from_secs(1);
/// The most repetitions of one block, and the most runs between two readings of the clock.
const MOST: u32 = 1_000_000;
/// The longest silence of a step that may be requested.
const LONGEST: Duration = Duration::from_secs(3600);

/// Serves as `part` until the run is over; `program` is started as a rank, and `interrupt` becomes
/// readable when the user wants to stop.
///
/// # Errors
/// No coordinator found, another version or token, a coordinator that is lost or gave up the run,
/// an interruption.
pub fn serve(
    part: &Part,
    token: &Token,
    program: &(PathBuf, Vec<String>),
    interrupt: Option<&OwnedFd>,
) -> Result<()> {
    let line = Line::open(part, token, Purpose::Processes, interrupt)?;
    let address = line.address()?;
    line.serve(&mut Worker { part, token, program, address, process: None })
}

struct Worker<'a> {
    part: &'a Part,
    token: &'a Token,
    program: &'a (PathBuf, Vec<String>),
    /// Where its process listens: the address of this host as the coordinator sees it.
    address: IpAddr,
    process: Option<Running>,
}

/// The process of the current launch.
struct Running {
    launch: u32,
    /// Its rank, and the number of ranks, of this launch.
    part: (u32, u32),
    process: Process,
    was_stopped: bool,
    /// When it is killed.
    until: Option<Instant>,
}

/// Whether a block is no larger than one that a coordinator asks for.
fn is_bounded(task: &Task) -> bool {
    let Repeats { warm, reps, inner, spill, patience, .. } = task.repeats;
    let counts = [warm, reps, inner].into_iter().all(|count| count <= MOST);
    counts && spill <= MOST_SPILLED.0 && patience <= LONGEST
}

impl Worker<'_> {
    fn start(&mut self, starting: &Starting, line: &Line<'_>) -> Result<()> {
        self.process = None;
        let Starting { launch, rank, ranks, .. } = *starting;
        if rank >= ranks || ranks > self.part.ranks {
            let refused = format!("rank {rank} of {ranks}, but it is one of {}", self.part.ranks);
            return line.say(News::Answer(launch, Box::new(Answer::Refused(refused))));
        }
        let usable = usable()?;
        let hello = Hello {
            rank,
            ranks,
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
                let part = (rank, ranks);
                let running = Running { launch, part, process, was_stopped: false, until: None };
                self.process = Some(running);
                line.say(News::Started { launch, process: number, cpu })
            }
            Err(error) => {
                let refused = Box::new(Answer::Refused(error.to_string()));
                line.say(News::Answer(launch, refused))
            }
        }
    }

    /// The block described by a task, if this host agrees to run it.
    fn work(task: &Task, (rank, ranks): (u32, u32)) -> Result<Work> {
        if !is_bounded(task) {
            return Err(Error::environment(format!(
                "the block is larger than rank {rank} may run at once"
            )));
        }
        let op: Op = task.op.parse()?;
        let mut programs = programs(&Registry::builtin(), &op, ranks, Bytes(task.size))?;
        let own = rank as usize;
        if own >= programs.len() {
            return Err(Error::environment(format!("`{op}` has no part for rank {rank}")));
        }
        let program = programs.swap_remove(own);
        check_memory(program.bytes)?;
        let mut repeats = task.repeats.clone();
        repeats.apart.retain(|&other| other < ranks);
        Ok(Work { program, repeats })
    }

    /// Forwards an order; a process that does not take it is found to have ended.
    fn tell(&mut self, order: impl FnOnce(&mut Process) -> std::io::Result<()>) {
        if let Some(running) = &mut self.process {
            let _ = order(&mut running.process);
        }
    }
}

impl Service for Worker<'_> {
    type Order = Order;

    fn obey(&mut self, order: Order, line: &Line<'_>) -> Result<()> {
        match order {
            Order::Start(starting) => return self.start(&starting, line),
            Order::Connect(addresses, id) => {
                let key = self.token.derive("data", &[&id]);
                self.tell(|process| process.connect(&addresses, &tcp::Run { id, key }));
            }
            Order::Work(task) => {
                let Some(running) = &self.process else { return Ok(()) };
                match Self::work(&task, running.part) {
                    Ok(work) => self.tell(|process| process.work(work, None)),
                    Err(error) => {
                        let refused = Box::new(Answer::Refused(error.to_string()));
                        return line.say(News::Answer(running.launch, refused));
                    }
                }
            }
            Order::Finish => {
                if let Some(running) = &mut self.process {
                    running.until = Some(Instant::now() + ENDING);
                }
                self.tell(Process::finish);
            }
            Order::Kill => self.process = None,
        }
        Ok(())
    }

    fn watch<'a>(&'a self, files: &mut Vec<PollFd<'a>>) {
        if let Some(running) = &self.process {
            running.process.watch(false, files);
        }
    }

    /// Forwards the answers and the state of the process.
    fn look(&mut self, line: &Line<'_>) -> Result<()> {
        let Some(running) = &mut self.process else { return Ok(()) };
        let (launch, process) = (running.launch, &mut running.process);
        process.hear();
        let mut news = Vec::new();
        loop {
            match process.answer() {
                Ok(Some(answer)) => news.push(News::Answer(launch, Box::new(answer))),
                Ok(None) => break,
                Err(e) => {
                    process.kill();
                    news.push(News::Ended(launch, format!("its answer cannot be read: {e}")));
                    break;
                }
            }
        }
        let is_stopped = process.stopped().is_some();
        if is_stopped != std::mem::replace(&mut running.was_stopped, is_stopped) {
            news.push(News::Stopped(launch, is_stopped));
        }
        if running.until.is_some_and(|until| Instant::now() >= until) {
            process.kill();
        }
        if let Some(how) = process.dead() {
            news.push(News::Ended(launch, how));
            self.process = None;
        }
        news.into_iter().try_for_each(|news| line.say(news))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::execute::{Check, Start};

    #[test]
    fn a_block_larger_than_any_that_is_asked_for_is_refused() {
        let least = Repeats {
            warm: 0,
            reps: 1,
            inner: 1,
            start: Start::Barrier,
            check: Check::Not,
            spill: MOST_SPILLED.0,
            patience: Duration::from_secs(2),
            apart: Vec::new(),
        };
        let runs = |repeats| is_bounded(&Task { op: "shift".to_owned(), size: 8, repeats });
        assert!(runs(least.clone()));
        assert!(!runs(Repeats { spill: MOST_SPILLED.0 + 1, ..least.clone() }));
        assert!(!runs(Repeats { reps: MOST + 1, ..least.clone() }));
        assert!(!runs(Repeats { patience: 2 * LONGEST, ..least }));
    }
}

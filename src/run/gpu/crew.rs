//! The processes that are NCCL ranks of one run: this host's own, and those of other hosts.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::fleet::{Fleet, Member};
use super::set::{Set, host_id};
use super::talk::{Answer, FarOrder, Job, Order, Task, Timing};
use super::worker::{Gone, Setup, Worker};
use crate::base::error::{Error, Result};

/// How long the driver may take to end a killed process, of which others already know.
const CLEARED: Duration = Duration::from_secs(1);
/// How often hosts are checked for silence.
const TICK: Duration = Duration::from_millis(200);

/// The processes; they end when this is dropped.
pub(super) struct Crew<'a> {
    setup: &'a Setup,
    /// This host's, of which the first has rank 0.
    own: Vec<Worker>,
    fleet: Option<&'a Fleet>,
    /// The number of this start of the other hosts' processes.
    run: u32,
}

impl Drop for Crew<'_> {
    fn drop(&mut self) {
        self.tell_others(&FarOrder::Stop);
    }
}

impl<'a> Crew<'a> {
    /// Starts `own` processes here and one on every other host, each for its `job`, with the NCCL
    /// settings of a set, if any, and the path of the first one's log.
    pub(super) fn start(
        setup: &'a Setup,
        fleet: Option<&'a Fleet>,
        own: usize,
        told: Option<(Set, &str)>,
        job: impl Fn(usize) -> Job,
    ) -> Result<Self> {
        let mut workers = Vec::with_capacity(own);
        for process in 0..own {
            let job = job(process);
            let registered = matches!(job, Job::Nccl { registered: true, .. });
            let mut variables = told.map_or(Vec::new(), |(set, log)| {
                // Two processes cannot write one log.
                let log = if process == 0 { log.to_owned() } else { format!("{log}-{process}") };
                set.variables(&log, registered)
            });
            if own > 1 {
                variables.push(host_id(process));
            }
            let task = Task { library: setup.library.clone(), job };
            workers.push(Worker::start(setup, process, task, variables)?);
        }
        let run = fleet.map_or(0, Fleet::next_run);
        let set = told.map(|(set, _)| set.number());
        let crew = Self { setup, own: workers, fleet, run };
        for (process, member) in (own..).zip(crew.members()) {
            member.tell(&FarOrder::Start { run, set, job: job(process) });
        }
        Ok(crew)
    }

    /// The processes of this host.
    pub(super) fn ids(&self) -> Vec<u32> {
        self.own.iter().map(Worker::id).collect()
    }

    /// Waits until all have started.
    pub(super) fn begun(&mut self) -> std::result::Result<Vec<Answer>, Gone> {
        self.answers(self.setup.starting)
    }

    /// Sends the communicator's id to all.
    pub(super) fn share(&mut self, id: Vec<u8>) -> std::result::Result<Vec<Answer>, Gone> {
        self.tell_others(&FarOrder::Id(id.clone()));
        self.tell_own(&Order::Id(id));
        self.answers(self.setup.starting)
    }

    /// Has all processes time a block.
    pub(super) fn time(&mut self, timing: Timing) -> std::result::Result<Vec<Answer>, Gone> {
        self.tell_others(&FarOrder::Time(timing.clone()));
        self.tell_own(&Order::Time(timing));
        self.answers(self.setup.patience)
    }

    fn tell_others(&self, order: &FarOrder) {
        self.members().for_each(|member| member.tell(order));
    }

    fn tell_own(&mut self, order: &Order) {
        for worker in &mut self.own {
            // A process that does not receive this has ended: that is its answer.
            let _ = worker.tell(order);
        }
    }

    /// Waits for the next answer of each, for up to `patience`.
    fn answers(&mut self, patience: Duration) -> std::result::Result<Vec<Answer>, Gone> {
        let until = Instant::now() + patience;
        let mut own: Vec<Option<Answer>> = self.own.iter().map(|_| None).collect();
        let mut others: Vec<Option<Answer>> = self.members().map(|_| None).collect();
        loop {
            let mut ranks = self.own.iter_mut().zip(&mut own).enumerate();
            let gone = ranks.find_map(|(rank, (worker, answer))| {
                let heard = match answer {
                    None => worker.answer().map(|next| *answer = next),
                    Some(_) => worker.lives(),
                };
                heard.err().map(|gone| (rank, gone))
            });
            if let Some((rank, gone)) = gone {
                return Err(match gone {
                    Gone::Lost(how) if own.len() > 1 => self.cause(format!("rank {rank}: {how}")),
                    Gone::Lost(how) => self.cause(how),
                    gone => gone,
                });
            }
            for (member, answer) in self.members().zip(&mut others) {
                match member.answer(self.run) {
                    Ok(next) => *answer = answer.take().or(next),
                    Err(Gone::Lost(how)) => return Err(self.cause(how)),
                    Err(gone) => return Err(gone),
                }
            }
            if own.iter().chain(&others).all(Option::is_some) {
                return Ok(own.into_iter().chain(others).flatten().collect());
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let stopped = (0..).zip(&self.own).filter(|(_, worker)| worker.is_stopped());
                let stopped: Vec<String> =
                    stopped.map(|(rank, _)| format!("rank {rank}")).collect();
                let silent = self.members().zip(&others).filter(|(_, answer)| answer.is_none());
                let silent: Vec<&str> = silent.map(|(member, _)| member.name()).collect();
                let here = own.iter().any(Option::is_none);
                let who = match (stopped.is_empty(), here) {
                    (false, _) => stopped.join(", ") + " is stopped: ",
                    (true, true) => String::new(),
                    (true, false) => silent.join(", ") + ": ",
                };
                let seconds = patience.as_secs_f64();
                return Err(Gone::Lost(format!("{who}no answer for {seconds:.1} s: killed")));
            }
            self.rest(left.min(TICK))?;
        }
    }

    /// What a rank reports, or what happened to another one or its host: peers of a killed process know
    /// of it first, because the driver takes time to clear up after it.
    fn cause(&mut self, said: String) -> Gone {
        let until = Instant::now() + CLEARED;
        while (self.own.len() > 1 || self.fleet.is_some()) && Instant::now() < until {
            let mut ranks = self.own.iter_mut().enumerate();
            let killed = ranks.find_map(|(rank, worker)| Some((rank, worker.killed()?)));
            if let Some((rank, how)) = killed.filter(|_| self.own.len() > 1) {
                return Gone::Lost(format!("rank {rank}: {how}"));
            }
            for member in self.members() {
                if let Err(lost @ Gone::All(_)) = member.answer(self.run) {
                    return lost;
                }
            }
            std::thread::sleep(TICK / 10);
        }
        Gone::Lost(said)
    }

    fn members(&self) -> impl Iterator<Item = &'a Member> + use<'a> {
        self.fleet.into_iter().flat_map(Fleet::members)
    }

    /// Waits for a message, an end or an interruption.
    fn rest(&self, longest: Duration) -> std::result::Result<(), Gone> {
        let mut files: Vec<PollFd<'_>> = Vec::new();
        files.extend(self.setup.interrupt.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
        self.own.iter().for_each(|worker| worker.watch(&mut files));
        self.members().for_each(|member| member.watch(&mut files));
        let nanoseconds = i64::from(longest.subsec_nanos()).max(1_000_000);
        let time = Timespec { tv_sec: longest.as_secs().cast_signed(), tv_nsec: nanoseconds };
        match poll(&mut files, Some(&time)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(Gone::Lost(format!("it cannot be watched: {e}"))),
        }
        if self.setup.interrupt.is_some() && !files[0].revents().is_empty() {
            return Err(Gone::All(Error::interrupted("interrupted; all processes have ended")));
        }
        Ok(())
    }
}

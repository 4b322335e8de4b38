//! The processes that are ranks of NCCL together: this host's own, and those of other hosts.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::fleet::{Fleet, Member};
use super::set::Set;
use super::talk::{Answer, FarOrder, Job, Order, Task, Timing};
use super::worker::{Gone, Setup, Worker};
use crate::base::error::{Error, Result};

/// How often hosts that say nothing are looked at.
const TICK: Duration = Duration::from_millis(200);

/// They end when this is dropped.
pub(super) struct Crew<'a> {
    setup: &'a Setup,
    own: Worker,
    fleet: Option<&'a Fleet>,
    /// The how many-th start of the other hosts' processes.
    run: u32,
}

impl Drop for Crew<'_> {
    fn drop(&mut self) {
        self.tell_others(&FarOrder::Stop);
    }
}

impl<'a> Crew<'a> {
    /// Starts a process on every host, each for its `job`, with what a set tells NCCL, if any does, and
    /// where the own one's log goes.
    pub(super) fn start(
        setup: &'a Setup,
        fleet: Option<&'a Fleet>,
        told: Option<(Set, &str)>,
        job: impl Fn(usize) -> Job,
    ) -> Result<Self> {
        let task = Task { library: setup.library.clone(), job: job(0) };
        let variables = told.map_or(Vec::new(), |(set, log)| set.variables(log));
        let own = Worker::start(setup, task, variables)?;
        let run = fleet.map_or(0, Fleet::next_run);
        let set = told.map(|(set, _)| set.number());
        let crew = Self { setup, own, fleet, run };
        for (process, member) in (1..).zip(crew.members()) {
            member.tell(&FarOrder::Start { run, set, job: job(process) });
        }
        Ok(crew)
    }

    /// The process of this host.
    pub(super) fn id(&self) -> u32 {
        self.own.id()
    }

    /// Gives all the communicator's id.
    pub(super) fn share(&mut self, id: Vec<u8>) -> std::result::Result<Vec<Answer>, Gone> {
        self.tell_others(&FarOrder::Id(id.clone()));
        self.ask(&Order::Id(id))
    }

    /// Has all time a block.
    pub(super) fn time(&mut self, timing: Timing) -> std::result::Result<Vec<Answer>, Gone> {
        self.tell_others(&FarOrder::Time(timing.clone()));
        self.ask(&Order::Time(timing))
    }

    fn tell_others(&self, order: &FarOrder) {
        self.members().for_each(|member| member.tell(order));
    }

    fn ask(&mut self, order: &Order) -> std::result::Result<Vec<Answer>, Gone> {
        // One that does not hear it has ended: that is its answer.
        let _ = self.own.tell(order);
        self.answers()
    }

    /// Waits for the next answer of each, as long as there is patience.
    pub(super) fn answers(&mut self) -> std::result::Result<Vec<Answer>, Gone> {
        let until = Instant::now() + self.setup.patience;
        let mut own = None;
        let mut others: Vec<Option<Answer>> = self.members().map(|_| None).collect();
        loop {
            match &own {
                None => own = self.own.answer()?,
                Some(_) => self.own.lives()?,
            }
            for (member, answer) in self.members().zip(&mut others) {
                let next = member.answer(self.run)?;
                *answer = answer.take().or(next);
            }
            if own.is_some() && others.iter().all(Option::is_some) {
                return Ok(own.into_iter().chain(others.into_iter().flatten()).collect());
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let patience = self.setup.patience.as_secs_f64();
                let silent = self.members().zip(&others).filter(|(_, answer)| answer.is_none());
                let silent: Vec<&str> = silent.map(|(member, _)| member.name()).collect();
                let who = if own.is_none() { String::new() } else { silent.join(", ") + ": " };
                return Err(Gone::Lost(format!("{who}no answer for {patience:.1} s: killed")));
            }
            self.rest(left.min(TICK))?;
        }
    }

    fn members(&self) -> impl Iterator<Item = &'a Member> + use<'a> {
        self.fleet.into_iter().flat_map(Fleet::members)
    }

    /// Waits for words, an end or an interruption.
    fn rest(&self, longest: Duration) -> std::result::Result<(), Gone> {
        let mut files: Vec<PollFd<'_>> = Vec::new();
        files.extend(self.setup.interrupt.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
        self.own.watch(&mut files);
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

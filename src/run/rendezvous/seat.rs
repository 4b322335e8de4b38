//! A rank on another host, reached through its worker.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::event::PollFd;

use super::channel::Channel;
use super::message::{FromWorker, News, Order, Starting, Task, ToWorker};
use crate::base::quantity::Bytes;
use crate::machine::sample::Op;
use crate::run::execute::Work;
use crate::run::launch::{Answer, Seat};
use crate::run::transport::tcp;

/// Silence longer than this is worth reporting.
const QUIET: Duration = Duration::from_millis(1200);

/// One start of a worker's process.
pub(super) struct Far {
    channel: Rc<RefCell<Channel>>,
    name: String,
    launch: u32,
    process: u32,
    cpu: Option<usize>,
    answers: VecDeque<Answer>,
    ended: Option<String>,
    stopped: Option<Instant>,
    /// The socket of the channel, which stays the same.
    file: std::os::fd::OwnedFd,
}

impl Far {
    /// Makes the worker behind `channel` start its process.
    pub(super) fn start(
        channel: &Rc<RefCell<Channel>>,
        name: String,
        starting: Starting,
    ) -> io::Result<Self> {
        let launch = starting.launch;
        let file = channel.borrow().file()?;
        channel.borrow().send(&ToWorker::Do(Order::Start(starting)))?;
        Ok(Self {
            channel: Rc::clone(channel),
            name,
            launch,
            process: 0,
            cpu: None,
            answers: VecDeque::new(),
            ended: None,
            stopped: None,
            file,
        })
    }

    fn send(&self, order: Order) -> io::Result<()> {
        self.channel.borrow().send(&ToWorker::Do(order))
    }

    /// A worker's message; messages about an earlier process are ignored.
    fn note(&mut self, news: News) {
        match news {
            News::Started { launch, process, cpu } if launch == self.launch => {
                (self.process, self.cpu) = (process, cpu);
            }
            News::Answer(launch, answer) if launch == self.launch => {
                self.answers.push_back(*answer);
            }
            News::Ended(launch, how) if launch == self.launch => self.ended = Some(how),
            News::Stopped(launch, stopped) if launch == self.launch => {
                self.stopped = stopped.then(Instant::now);
            }
            _ => {}
        }
    }
}

impl Seat for Far {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn process(&self) -> u32 {
        self.process
    }

    fn cpu(&self) -> Option<usize> {
        self.cpu
    }

    fn connect(&mut self, addresses: &[SocketAddr], run: &tcp::Run) -> io::Result<()> {
        // The worker derives the key itself: the key is not sent over the network.
        self.send(Order::Connect(addresses.to_vec(), run.id))
    }

    fn work(&mut self, work: Work, what: Option<(&Op, Bytes)>) -> io::Result<()> {
        let (op, size) = what
            .ok_or_else(|| io::Error::other("only operations with a name run on several hosts"))?;
        let (op, size) = (op.to_string(), size.0);
        let task = Task { op, size, repeats: work.repeats };
        self.send(Order::Work(task))
    }

    fn finish(&mut self) -> io::Result<()> {
        self.send(Order::Finish)
    }

    fn watch<'a>(&'a self, _: bool, files: &mut Vec<PollFd<'a>>) {
        // A closed one would be ready forever.
        if self.channel.borrow().over().is_none() {
            files.push(PollFd::new(&self.file, rustix::event::PollFlags::IN));
        }
    }

    fn hear(&mut self) {
        self.channel.borrow_mut().hear();
        loop {
            let message = self.channel.borrow_mut().take();
            match message {
                Some(FromWorker::Did(news)) => self.note(news),
                Some(_) => {}
                None => return,
            }
        }
    }

    fn answer(&mut self) -> io::Result<Option<Answer>> {
        Ok(self.answers.pop_front())
    }

    fn dead(&mut self) -> Option<String> {
        let host = || self.channel.borrow().over().map(|how| format!("its host {how}"));
        self.ended.clone().or_else(host)
    }

    fn stopped(&self) -> Option<Instant> {
        self.stopped
    }

    fn silent(&self) -> Option<Instant> {
        Some(self.channel.borrow().heard()).filter(|heard| heard.elapsed() >= QUIET)
    }

    fn is_over(&mut self) -> bool {
        self.dead().is_some()
    }

    fn kill(&mut self) {
        // A host that does not receive this kills its process when it detects the end of this one.
        let _ = self.send(Order::Kill);
    }

    fn reap(&mut self) {}
}

impl Drop for Far {
    fn drop(&mut self) {
        self.kill();
    }
}

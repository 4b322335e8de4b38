//! The hosts of a run, from the coordinator's side: each with a worker that starts its rank.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::Rc;

use super::channel::Channel;
use super::door::Come;
use super::message::{Starting, ToWorker};
use super::part::Part;
use super::seat::Far;
use super::token::Token;
use crate::base::error::{Error, Result};
use crate::base::secret;
use crate::run::calibrate::Host;
use crate::run::launch::{CONNECT, Group, Hello, Process, Seat, Seated, usable};
use crate::run::transport::{Kind, Wait, tcp};

/// The hosts of all ranks; each except rank 0's own has a worker.
pub struct Hosts {
    /// By rank, from 1 on.
    workers: Vec<Worker>,
    /// By rank, from 0 on.
    hosts: Vec<Host>,
    token: Token,
    /// Where rank 0's process listens.
    address: IpAddr,
    launches: u32,
    over: bool,
}

struct Worker {
    channel: Rc<RefCell<Channel>>,
    name: String,
}

impl Hosts {
    /// The hosts: rank 0's `own`, and the others in rank order.
    pub(super) fn of(
        part: &Part,
        token: Token,
        own: Host,
        others: impl Iterator<Item = Come>,
    ) -> Self {
        let (mut hosts, mut workers, mut address) = (vec![own], Vec::new(), None);
        for (rank, come) in (1..).zip(others) {
            let name = format!("rank {rank} ({}, {})", come.host.name, come.address);
            address.get_or_insert(come.us);
            hosts.push(come.host);
            workers.push(Worker { channel: Rc::new(RefCell::new(come.channel)), name });
        }
        let address = address.unwrap_or(part.at.ip());
        Self { workers, hosts, token, address, launches: 0, over: false }
    }

    /// N.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.hosts.len() as u32
    }

    /// Each machine once, with its number of ranks; its CPUs are those of all its ranks.
    #[must_use]
    pub fn machines(&self) -> Vec<(Host, u32)> {
        let mut machines: Vec<(Host, u32)> = Vec::new();
        for host in &self.hosts {
            match machines.iter_mut().find(|(known, _)| known.boot == host.boot) {
                None => machines.push((host.clone(), 1)),
                Some((known, ranks)) => {
                    // A quota covers all of them; CPUs that a launcher assigned to one rank belong
                    // to it alone.
                    let quota =
                        [&*known, host].map(|h| (h.at_once < h.cpus.len()).then_some(h.at_once));
                    let cpus: BTreeSet<usize> =
                        known.cpus.iter().chain(&host.cpus).copied().collect();
                    known.cpus = cpus.into_iter().collect();
                    known.at_once = quota.into_iter().flatten().min().unwrap_or(known.cpus.len());
                    *ranks += 1;
                }
            }
        }
        machines
    }

    /// The best way for ranks to wait: they spin if each has its own CPU.
    #[must_use]
    pub fn wait(&self) -> Wait {
        let fits = self.machines().iter().all(|(host, ranks)| *ranks as usize <= host.at_once);
        if fits { Wait::Spin } else { Wait::Poll }
    }

    /// Equal for runs with the same ranks on the same machines since these booted.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let all: Vec<String> = self.hosts.iter().map(Host::fingerprint).collect();
        format!("{:08x}", crc32fast::hash(all.join(";").as_bytes()))
    }

    /// The machines in one line of text.
    #[must_use]
    pub fn describe(&self) -> String {
        let machines = self.machines();
        let words: Vec<String> = machines.iter().map(|(host, _)| host.describe()).collect();
        match &words[..] {
            [one] => format!("{} ranks on {one}", self.ranks()),
            many => format!("{} ranks on {} hosts: {}", self.ranks(), many.len(), many.join("; ")),
        }
    }

    /// Whether these ranks are on one machine.
    #[must_use]
    pub fn share_memory(&self, ranks: &[u32]) -> bool {
        let mut boots = ranks.iter().map(|&rank| &self.hosts[rank as usize].boot);
        let first = boots.next();
        boots.all(|boot| Some(boot) == first)
    }

    /// Starts a process for each of the ranks `among`, rank 0 first, and lets them connect: they are the
    /// ranks of the group in this order.
    ///
    /// # Errors
    /// A host that refuses or is lost, an interruption.
    pub fn start(
        &mut self,
        program: &(PathBuf, Vec<String>),
        (wait, pin): (Wait, bool),
        among: &[u32],
        interrupt: Option<OwnedFd>,
    ) -> Result<Group> {
        let launch = self.launches;
        self.launches += 1;
        let ranks = among.len() as u32;
        let own = Hello {
            rank: 0,
            ranks,
            transport: Kind::Tcp,
            wait,
            parent: std::process::id().cast_signed(),
            cpu: usable()?.slot(0).filter(|_| pin),
            namespace: None,
            address: self.address,
            patience: CONNECT,
            delay: None,
        };
        let mut seats: Vec<Box<dyn Seat>> = vec![Box::new(Process::start(program, own, None)?)];
        for (rank, &own) in (0..).zip(among).skip(1) {
            let (own, worker) = (own as usize, &self.workers[own as usize - 1]);
            let before = self.hosts[..own].iter();
            let slot = before.filter(|host| host.boot == self.hosts[own].boot).count() as u32;
            let starting = Starting { launch, rank, ranks, wait, slot: pin.then_some(slot) };
            let far = Far::start(&worker.channel, worker.name.clone(), starting);
            let lost = |e| {
                // A host that has ended takes no message, and has seldom said so before.
                let mut channel = worker.channel.borrow_mut();
                channel.hear();
                let why =
                    channel.over().map_or_else(|| format!("{e}"), |how| format!("its host {how}"));
                Error::lost(format!("{} was lost: {why}", worker.name)).at("starting")
            };
            seats.push(Box::new(far.map_err(lost)?));
        }
        let id = secret::random()?;
        let run = tcp::Run { id, key: self.token.derive("data", &[&id]) };
        let clock = |own: u32| &self.hosts[own as usize].clock;
        let apart = (0..).zip(among).filter(|&(_, &own)| clock(own) != clock(0));
        let apart = apart.map(|(rank, _)| rank).collect();
        Group::of(Seated { seats, wait, apart, run, interrupt })
    }

    /// The boot id of each rank's machine: equal if they are on one machine.
    #[cfg(feature = "cuda")]
    pub(crate) fn boots(&self) -> impl Iterator<Item = &str> {
        self.hosts.iter().map(|host| host.boot.as_str())
    }

    /// The other ranks by name.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.workers.iter().map(|worker| worker.name.as_str())
    }

    /// The other ranks by name, and the channels to them.
    #[cfg(feature = "cuda")]
    pub(crate) fn workers(&self) -> impl Iterator<Item = (&str, &Rc<RefCell<Channel>>)> {
        self.workers.iter().map(|worker| (worker.name.as_str(), &worker.channel))
    }

    /// Releases all workers: the run is over, or was given up for an error that they receive.
    pub fn end(mut self, error: Option<&Error>) {
        self.tell(&match error.filter(|e| e.is_lost() || e.is_interrupted()) {
            Some(error) => ToWorker::Abort(error.what().to_owned()),
            None => ToWorker::Goodbye,
        });
    }

    fn tell(&mut self, message: &ToWorker<()>) {
        self.over = true;
        for worker in &self.workers {
            // A worker that does not receive this detects the coordinator's end within seconds.
            let _ = worker.channel.borrow().send(message);
        }
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        if !self.over {
            self.tell(&ToWorker::<()>::Abort("the coordinator has ended".to_owned()));
        }
    }
}

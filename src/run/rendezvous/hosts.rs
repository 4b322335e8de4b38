//! The hosts of a run, as the coordinator has them: each with a worker that starts its rank.

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

/// All ranks' hosts, each with a worker, but for rank 0's own.
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
    /// Of rank 0's `own`, and of the others in their order.
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

    /// Each machine once, with how many ranks it has; its CPUs are those of all its ranks.
    #[must_use]
    pub fn machines(&self) -> Vec<(Host, u32)> {
        let mut machines: Vec<(Host, u32)> = Vec::new();
        for host in &self.hosts {
            match machines.iter_mut().find(|(known, _)| known.boot == host.boot) {
                None => machines.push((host.clone(), 1)),
                Some((known, ranks)) => {
                    // A quota is of all of them; CPUs that a launcher gave to one rank are its own.
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

    /// How ranks wait best: they spin where every one has a CPU of its own.
    #[must_use]
    pub fn wait(&self) -> Wait {
        let fits = self.machines().iter().all(|(host, ranks)| *ranks as usize <= host.at_once);
        if fits { Wait::Spin } else { Wait::Poll }
    }

    /// Equal for runs on the same machines since their starts, by the same ranks.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let all: Vec<String> = self.hosts.iter().map(Host::fingerprint).collect();
        format!("{:08x}", crc32fast::hash(all.join(";").as_bytes()))
    }

    /// The machines in words.
    #[must_use]
    pub fn describe(&self) -> String {
        let machines = self.machines();
        let words: Vec<String> = machines.iter().map(|(host, _)| host.describe()).collect();
        match &words[..] {
            [one] => format!("{} ranks on {one}", self.ranks()),
            many => format!("{} ranks on {} hosts: {}", self.ranks(), many.len(), many.join("; ")),
        }
    }

    fn apart(&self) -> Vec<u32> {
        let ranks = (0..).zip(&self.hosts);
        ranks.filter(|(_, host)| host.clock != self.hosts[0].clock).map(|(rank, _)| rank).collect()
    }

    /// Starts a process on every host, and lets them connect.
    ///
    /// # Errors
    /// A host that refuses or is lost, an interruption.
    pub fn start(
        &mut self,
        program: &(PathBuf, Vec<String>),
        (wait, pin): (Wait, bool),
        interrupt: Option<OwnedFd>,
    ) -> Result<Group> {
        let launch = self.launches;
        self.launches += 1;
        let ranks = self.ranks();
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
        for (rank, worker) in (1_usize..).zip(&self.workers) {
            let before = self.hosts[..rank].iter();
            let slot = before.filter(|host| host.boot == self.hosts[rank].boot).count() as u32;
            let starting = Starting { launch, wait, slot: pin.then_some(slot) };
            let far = Far::start(&worker.channel, worker.name.clone(), starting);
            let lost = |e| Error::lost(format!("{} was lost: {e}", worker.name)).at("starting");
            seats.push(Box::new(far.map_err(lost)?));
        }
        let id = secret::random()?;
        let run = tcp::Run { id, key: self.token.derive("data", &[&id]) };
        Group::of(Seated { seats, wait, apart: self.apart(), run, interrupt })
    }

    /// Which start each rank's machine has had: equal where they are on one.
    #[cfg(feature = "cuda")]
    pub(crate) fn boots(&self) -> impl Iterator<Item = &str> {
        self.hosts.iter().map(|host| host.boot.as_str())
    }

    /// The other ranks by name.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.workers.iter().map(|worker| worker.name.as_str())
    }

    /// The other ranks by name, and the ways to them.
    #[cfg(feature = "cuda")]
    pub(crate) fn workers(&self) -> impl Iterator<Item = (&str, &Rc<RefCell<Channel>>)> {
        self.workers.iter().map(|worker| (worker.name.as_str(), &worker.channel))
    }

    /// Lets all workers go: the run is over, or was given up for an error that they hear of.
    pub fn end(mut self, error: Option<&Error>) {
        self.tell(&match error.filter(|e| e.is_lost() || e.is_interrupted()) {
            Some(error) => ToWorker::Abort(error.what().to_owned()),
            None => ToWorker::Goodbye,
        });
    }

    fn tell(&mut self, message: &ToWorker<()>) {
        self.over = true;
        for worker in &self.workers {
            // One that does not hear it misses this one within seconds.
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

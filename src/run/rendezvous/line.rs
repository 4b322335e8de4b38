//! The connection of a rank above 0 to the coordinator: the rank calls, executes orders, and ends
//! with the coordinator.

use std::net::{IpAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::PATIENCE;
use super::channel::{Channel, End};
use super::handshake::{Greeting, Stranger, introduce};
use super::message::{FromWorker, Purpose, ToWorker};
use super::part::Part;
use super::token::Token;
use crate::base::error::{Error, Result};
use crate::run::calibrate::Host;
use crate::run::launch::{CONNECT, usable};

/// How long the other side may take for its part of the handshake.
const GREETING: Duration = Duration::from_secs(3);
/// Pause between two calls while the coordinator is not up yet.
const PAUSE: Duration = Duration::from_millis(50);
/// How often deadlines are checked while nothing happens.
const TICK: Duration = Duration::from_millis(100);

/// The work that a rank above 0 does on orders.
pub(crate) trait Service {
    /// The type of its orders.
    type Order: DeserializeOwned;

    /// Executes an order.
    fn obey(&mut self, order: Self::Order, line: &Line<'_>) -> Result<()>;

    /// Adds the files that become readable when `look` has work to do.
    fn watch<'a>(&'a self, files: &mut Vec<PollFd<'a>>);

    /// Reports what has happened meanwhile.
    fn look(&mut self, line: &Line<'_>) -> Result<()>;
}

/// The connection of a rank above 0.
pub(crate) struct Line<'a> {
    part: &'a Part,
    channel: Channel,
    interrupt: Option<&'a OwnedFd>,
}

impl<'a> Line<'a> {
    /// Calls the coordinator of `part`'s run and identifies this rank; `interrupt` becomes readable
    /// when the user wants to stop.
    ///
    /// # Errors
    /// No coordinator found, another version or token, an interruption.
    pub(crate) fn open(
        part: &'a Part,
        token: &Token,
        purpose: Purpose,
        interrupt: Option<&'a OwnedFd>,
    ) -> Result<Self> {
        let usable = usable()?;
        let host = Host::look(usable.cpus, usable.at_once);
        let line = Self { part, channel: call(part, token, interrupt)?, interrupt };
        let Part { rank, ranks, .. } = *part;
        let (host, address) = (Box::new(host), line.address()?);
        line.send(&FromWorker::<()>::Here { rank, ranks, purpose, host, address })?;
        Ok(line)
    }

    /// The address of this host as the coordinator sees it.
    pub(crate) fn address(&self) -> Result<IpAddr> {
        self.channel.own_address().map_err(|e| lost(self.part, &format!("cannot be reached: {e}")))
    }

    /// Sends a message.
    pub(crate) fn say(&self, news: impl Serialize) -> Result<()> {
        self.send(&FromWorker::Did(news))
    }

    fn send(&self, message: &impl Serialize) -> Result<()> {
        self.channel.send(message).map_err(|e| lost(self.part, &format!("does not receive: {e}")))
    }

    /// Lets `service` execute orders until the run is over.
    ///
    /// # Errors
    /// A coordinator that is lost, refuses or gave the run up, an interruption.
    pub(crate) fn serve(mut self, service: &mut impl Service) -> Result<()> {
        loop {
            let mut files: Vec<_> = self.interrupt.iter().map(|file| watched(file)).collect();
            self.channel.watch(&mut files);
            service.watch(&mut files);
            if rest(&mut files, TICK) && self.interrupt.is_some() {
                return Err(interrupted(self.part));
            }
            drop(files);
            self.channel.hear();
            while let Some(message) = self.channel.take() {
                let place = || format!("rank {}", self.part.rank);
                match message {
                    ToWorker::Refused(why) => {
                        let what = format!("the coordinator refuses: {why}");
                        return Err(Error::environment(what).at(place()));
                    }
                    ToWorker::Abort(why) => {
                        let what = format!("the run was given up: {why}");
                        return Err(Error::lost(what).at(place()));
                    }
                    ToWorker::Goodbye => return Ok(()),
                    ToWorker::Beat => {}
                    ToWorker::Do(order) => service.obey(order, &self)?,
                }
            }
            if let Some(how) = self.channel.over() {
                return Err(lost(self.part, &how));
            }
            service.look(&self)?;
        }
    }
}

/// Calls until the coordinator answers, then both prove that they know the token.
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
                return Err(Error::lost(format!("no answer for {waited} s: {e}"))
                    .at(place)
                    .help("start rank 0 first, and open its port in the firewall"));
            }
            // Rank 0 may not be up yet, or busy with other callers.
            Err(_) => {
                let mut files: Vec<_> = interrupt.iter().map(|file| watched(file)).collect();
                if rest(&mut files, PAUSE) && interrupt.is_some() {
                    return Err(interrupted(part));
                }
            }
        }
    };
    Channel::new(stream, key, End::Worker)
        .map_err(|e| lost(part, &format!("cannot be reached: {e}")))
}

fn refused(stranger: &Stranger) -> Error {
    match stranger {
        Stranger::Foreign => Error::environment("the program listening there is not collcost")
            .help("give the port of rank 0 with --rendezvous"),
        Stranger::Version(theirs) => {
            let own = Greeting::new().map_or_else(|_| "this one".to_owned(), |own| own.version());
            Error::environment(format!("the coordinator is collcost {theirs}; this is {own}"))
                .help("install the same version on all hosts")
        }
        Stranger::Token => Error::environment("the coordinator has another token")
            .help("give all hosts a copy of one --token-file"),
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

/// Waits for an event; returns whether the first of `files` had one.
fn rest(files: &mut [PollFd<'_>], time: Duration) -> bool {
    let time = Timespec { tv_sec: 0, tv_nsec: time.subsec_nanos().into() };
    // Too short a wait only means another turn.
    poll(files, Some(&time)).is_ok() && files.first().is_some_and(|fd| !fd.revents().is_empty())
}

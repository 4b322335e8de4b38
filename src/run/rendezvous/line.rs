//! The way of a rank above 0 to the coordinator: it calls, does what it is told, and ends with it.

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

/// How long the other side may take over its part of a greeting.
const GREETING: Duration = Duration::from_secs(3);
/// Between two calls of somebody who is not there yet.
const PAUSE: Duration = Duration::from_millis(50);
/// How often time is looked at while nothing happens.
const TICK: Duration = Duration::from_millis(100);

/// What a rank above 0 does when it is told.
pub(crate) trait Service {
    /// What it is told.
    type Order: DeserializeOwned;

    /// Carries out an order.
    fn obey(&mut self, order: Self::Order, line: &Line<'_>) -> Result<()>;

    /// Adds what becomes readable when there is something to look at.
    fn watch<'a>(&'a self, files: &mut Vec<PollFd<'a>>);

    /// Says what has happened meanwhile.
    fn look(&mut self, line: &Line<'_>) -> Result<()>;
}

/// The connection of a rank above 0.
pub(crate) struct Line<'a> {
    part: &'a Part,
    channel: Channel,
    interrupt: Option<&'a OwnedFd>,
}

impl<'a> Line<'a> {
    /// Calls the coordinator of `part`'s run and says who is there; `interrupt` becomes readable when
    /// somebody wants to stop.
    ///
    /// # Errors
    /// Nobody to call, another version or token, an interruption.
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

    /// The address by which the coordinator sees this host.
    pub(crate) fn address(&self) -> Result<IpAddr> {
        self.channel
            .own_address()
            .map_err(|e| lost(self.part, &format!("cannot be spoken to: {e}")))
    }

    /// Says something.
    pub(crate) fn say(&self, news: impl Serialize) -> Result<()> {
        self.send(&FromWorker::Did(news))
    }

    fn send(&self, message: &impl Serialize) -> Result<()> {
        self.channel.send(message).map_err(|e| lost(self.part, &format!("does not hear: {e}")))
    }

    /// Lets `service` do what is said until the run is over.
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
                    .help("start rank 0 first, and let its port pass the firewall"));
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
            .help("name the port of rank 0 with --rendezvous"),
        Stranger::Version(theirs) => {
            let own = Greeting::new().map_or_else(|_| "this one".to_owned(), |own| own.version());
            Error::environment(format!("the coordinator is collcost {theirs}; this is {own}"))
                .help("install one version on all hosts")
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

/// Waits until something happens; says whether it did to the first of `files`.
fn rest(files: &mut [PollFd<'_>], time: Duration) -> bool {
    let time = Timespec { tv_sec: 0, tv_nsec: time.subsec_nanos().into() };
    // Too short a wait is only another turn.
    poll(files, Some(&time)).is_ok() && files.first().is_some_and(|fd| !fd.revents().is_empty())
}

//! Where the coordinator admits workers and rejects strangers.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::de::IgnoredAny;

use super::PATIENCE;
use super::channel::{Channel, End};
use super::handshake::{GREETING, Greeting, Pair, Stranger};
use super::hosts::Hosts;
use super::message::{FromWorker, Purpose, ToWorker};
use super::part::Part;
use super::strangers::Strangers;
use super::token::Token;
use crate::base::error::{Error, Result};
use crate::base::secret;
use crate::run::calibrate::Host;

/// How long a caller may take to prove that it knows the token, and to identify itself.
const HANDSHAKE: Duration = Duration::from_secs(3);
/// Callers served at the same time.
const MOST_CALLERS: usize = 256;

/// The purpose of the meeting, and what it needs from its environment.
pub struct Meeting<'a> {
    /// The purpose that all ranks must share.
    pub purpose: Purpose,
    /// Becomes readable when the user wants to stop.
    pub interrupt: Option<&'a OwnedFd>,
    /// Receives messages about rejected callers.
    pub say: &'a mut dyn FnMut(&str),
}

/// Admits all workers of `part`'s run; `own` is rank 0's host.
///
/// # Errors
/// An address that is not this host's or has a coordinator already; ranks that do not join.
pub fn meet(part: &Part, token: Token, own: Host, meeting: Meeting<'_>) -> Result<Hosts> {
    let place = format!("--rendezvous {}", part.at);
    let listener = TcpListener::bind(part.at).map_err(|e| cannot_listen(part.at, &e))?;
    let failed = |e: io::Error| {
        Error::environment(format!("ranks cannot be admitted: {e}")).at(place.clone())
    };
    listener.set_nonblocking(true).map_err(failed)?;
    let mut door = Door {
        ranks: part.ranks,
        purpose: meeting.purpose,
        token: &token,
        say: meeting.say,
        callers: Vec::new(),
        here: BTreeMap::new(),
        strangers: Strangers::new(),
    };
    // Strangers have no effect on the deadline, and no rank is given up because of them.
    let until = Instant::now() + PATIENCE;
    while door.here.len() + 1 < part.ranks as usize {
        if Instant::now() >= until {
            door.say_of_others(true);
            return Err(door.missing().at(place));
        }
        door.say_of_others(false);
        let interrupted = door.wait(&listener, meeting.interrupt).map_err(failed)?;
        if interrupted {
            return Err(Error::interrupted("interrupted; all ranks have ended"));
        }
        door.let_in(&listener);
        door.hear()?;
        if let Some(rank) = door.gone() {
            return Err(Error::lost(format!("rank {rank} left before all had joined")).at(place));
        }
    }
    door.say_of_others(true);
    let here = std::mem::take(&mut door.here);
    Ok(Hosts::of(part, token, own, here.into_values()))
}

fn cannot_listen(at: SocketAddr, error: &io::Error) -> Error {
    let (what, help) = match error.kind() {
        ErrorKind::AddrInUse => (
            "another program listens there already: a second coordinator?".to_owned(),
            "wait until the other run has ended, or use another port",
        ),
        ErrorKind::AddrNotAvailable => (
            "that is not an address of this host, which runs rank 0".to_owned(),
            "give an address of rank 0's host",
        ),
        _ => (format!("cannot listen: {error}"), "give another address or port"),
    };
    Error::environment(what).at(format!("--rendezvous {at}")).help(help)
}

/// A worker that has joined.
pub(super) struct Come {
    pub(super) channel: Channel,
    pub(super) host: Host,
    /// Where it called from.
    pub(super) address: IpAddr,
    /// The address at which it reached this host.
    pub(super) us: IpAddr,
}

/// A caller that has not yet proved that it belongs to the run.
struct Caller {
    stream: TcpStream,
    from: IpAddr,
    until: Instant,
    stage: Stage,
    said: Vec<u8>,
}

enum Stage {
    /// Its greeting is awaited.
    Greeting,
    /// Its code is awaited.
    Code(Box<(Greeting, Greeting)>),
    /// Its first message is awaited.
    Trusted(Box<Channel>),
}

impl Stage {
    /// The stage of callers that know the token.
    const TRUSTED: u8 = 2;

    /// The progress of the handshake.
    fn rank(&self) -> u8 {
        match self {
            Self::Greeting => 0,
            Self::Code(_) => 1,
            Self::Trusted(_) => Self::TRUSTED,
        }
    }
}

/// The outcome of a caller's message.
enum Turn {
    Wait,
    Go(Option<Stranger>),
    Come { rank: u32, ranks: u32, purpose: Purpose, host: Box<Host>, address: IpAddr },
}

/// The listener and its callers.
struct Door<'a> {
    ranks: u32,
    purpose: Purpose,
    token: &'a Token,
    say: &'a mut dyn FnMut(&str),
    callers: Vec<Caller>,
    here: BTreeMap<u32, Come>,
    strangers: Strangers,
}

impl Door<'_> {
    /// Waits for an event; returns whether it is an interruption.
    fn wait(&mut self, listener: &TcpListener, interrupt: Option<&OwnedFd>) -> io::Result<bool> {
        let mut files: Vec<PollFd<'_>> = Vec::new();
        files.extend(interrupt.map(|file| PollFd::new(file, PollFlags::IN)));
        files.push(PollFd::new(listener, PollFlags::IN));
        files.extend(self.callers.iter().map(|caller| PollFd::new(&caller.stream, PollFlags::IN)));
        for come in self.here.values() {
            come.channel.watch(&mut files);
        }
        let tick = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        match poll(&mut files, Some(&tick)) {
            Ok(_) => Ok(interrupt.is_some() && !files[0].revents().is_empty()),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    fn let_in(&mut self, listener: &TcpListener) {
        for _ in 0..MOST_CALLERS {
            let Ok((stream, from)) = listener.accept() else { break };
            let from = from.ip();
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            let until = Instant::now() + HANDSHAKE;
            self.callers.push(Caller {
                stream,
                from,
                until,
                stage: Stage::Greeting,
                said: Vec::new(),
            });
        }
        while self.callers.len() > MOST_CALLERS {
            let Some(first) = self.least() else { return };
            self.callers.remove(first);
        }
    }

    /// The caller to drop when there is no room: of the callers from the address with the most
    /// callers and with the least handshake progress, the one waiting longest. A flood displaces
    /// its own callers, and no caller that knows the token.
    fn least(&self) -> Option<usize> {
        let strangers = || {
            let all = self.callers.iter().enumerate();
            all.filter(|(_, caller)| caller.stage.rank() < Stage::TRUSTED)
        };
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        strangers().for_each(|(_, caller)| *counts.entry(caller.from).or_default() += 1);
        let (loudest, _) = counts.into_iter().max_by_key(|&(_, count)| count)?;
        let of_loudest = strangers().filter(|(_, caller)| caller.from == loudest);
        of_loudest.min_by_key(|(_, caller)| (caller.stage.rank(), caller.until)).map(|(i, _)| i)
    }

    /// Reads callers' messages and admits those that are not strangers.
    fn hear(&mut self) -> Result<()> {
        let own = Greeting::new()?;
        let mut waiting = Vec::with_capacity(self.callers.len());
        for mut caller in std::mem::take(&mut self.callers) {
            // A caller that hangs up meanwhile is no loss.
            match caller.hear(&own, self.token).unwrap_or(Turn::Go(None)) {
                Turn::Wait if Instant::now() < caller.until => waiting.push(caller),
                Turn::Wait => {}
                Turn::Go(stranger) => self.turn_away(caller.from, stranger),
                Turn::Come { rank, ranks, purpose, host, address } => {
                    self.welcome(caller, (rank, ranks, purpose), *host, address);
                }
            }
        }
        self.callers = waiting;
        for come in self.here.values_mut() {
            come.channel.hear();
        }
        Ok(())
    }

    fn turn_away(&mut self, from: IpAddr, stranger: Option<Stranger>) {
        // A caller that hangs up leaves no information about itself.
        let Some(stranger) = stranger else { return };
        if let Some(text) = self.strangers.note(from, &stranger) {
            (self.say)(&text);
        }
    }

    fn say_of_others(&mut self, at_last: bool) {
        if let Some(text) = self.strangers.others(at_last) {
            (self.say)(&text);
        }
    }

    fn welcome(
        &mut self,
        caller: Caller,
        (rank, ranks, purpose): (u32, u32, Purpose),
        host: Host,
        address: IpAddr,
    ) {
        let Stage::Trusted(channel) = caller.stage else { return };
        let why = match self.here.get(&rank) {
            _ if purpose != self.purpose => {
                format!("rank {rank} was started with {purpose}, rank 0 with {}", self.purpose)
            }
            _ if ranks != self.ranks => format!("this run has {} ranks, not {ranks}", self.ranks),
            _ if rank == 0 || rank >= self.ranks => {
                format!("rank {rank} does not exist in this run")
            }
            Some(other) => format!("rank {rank} has joined already, from {}", other.address),
            None => {
                let us = caller.stream.local_addr().map_or(address, |at| at.ip());
                self.here.insert(rank, Come { channel: *channel, host, address: caller.from, us });
                return;
            }
        };
        // It knows the token, so it is told the reason in any case.
        let _ = channel.send(&ToWorker::<()>::Refused(why.clone()));
        (self.say)(&format!("a caller from {} was rejected: {why}", caller.from));
    }

    /// A rank that joined and has left.
    fn gone(&self) -> Option<u32> {
        self.here.iter().find(|(_, come)| come.channel.over().is_some()).map(|(rank, _)| *rank)
    }

    fn missing(&self) -> Error {
        let missing = (1..self.ranks).filter(|rank| !self.here.contains_key(rank));
        let missing: Vec<String> = missing.map(|rank| rank.to_string()).collect();
        let missing = missing.join(", ");
        match self.strangers.mistake() {
            Some(mistake) => Error::environment(format!("rank {missing} did not join; {mistake}"))
                .help("use the same version and the same token on all hosts"),
            None => {
                let waited = PATIENCE.as_secs();
                Error::lost(format!("rank {missing} did not join within {waited} s"))
                    .help("check its output on its host; open the port in the firewall")
            }
        }
    }
}

impl Caller {
    fn hear(&mut self, own: &Greeting, token: &Token) -> io::Result<Turn> {
        if let Stage::Trusted(channel) = &mut self.stage {
            channel.hear();
            return Ok(match channel.take::<FromWorker<IgnoredAny>>() {
                Some(FromWorker::Here { rank, ranks, purpose, host, address }) => {
                    Turn::Come { rank, ranks, purpose, host, address }
                }
                Some(_) => Turn::Go(Some(Stranger::Foreign)),
                None if channel.over().is_some() => Turn::Go(None),
                None => Turn::Wait,
            });
        }
        let wanted = match self.stage {
            Stage::Greeting => GREETING,
            _ => secret::LENGTH,
        };
        let mut room = vec![0; wanted - self.said.len()];
        match self.stream.read(&mut room) {
            Ok(0) => return Ok(Turn::Go(None)),
            Ok(bytes) => self.said.extend_from_slice(&room[..bytes]),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(e) => return Err(e),
        }
        if self.said.len() < wanted {
            return Ok(Turn::Wait);
        }
        let said = std::mem::take(&mut self.said);
        match &self.stage {
            Stage::Greeting => {
                // A caller that recognizes this program can report the mismatch itself.
                self.stream.write_all(own.bytes())?;
                let bytes = <[u8; GREETING]>::try_from(said).map_err(|_| ErrorKind::InvalidData)?;
                match own.check(bytes) {
                    Ok(theirs) => self.stage = Stage::Code(Box::new((theirs, own.clone()))),
                    Err(stranger) => return Ok(Turn::Go(Some(stranger))),
                }
            }
            Stage::Code(greetings) => {
                let pair = Pair { worker: &greetings.0, coordinator: &greetings.1 };
                if !pair.is_right(token, "worker", &said) {
                    self.stream.write_all(&[0])?;
                    return Ok(Turn::Go(Some(Stranger::Token)));
                }
                let code = pair.code(token, "coordinator");
                self.stream.write_all(&[&[1], &code[..]].concat())?;
                let key = pair.session(token);
                let stream = self.stream.try_clone()?;
                let channel = Channel::new(stream, key, End::Coordinator)?;
                self.stage = Stage::Trusted(Box::new(channel));
            }
            Stage::Trusted(_) => {}
        }
        Ok(Turn::Wait)
    }
}

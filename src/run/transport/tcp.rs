//! Processes over TCP: one connection per pair, on loopback or between network namespaces.
//!
//! Bytes that `send` accepted have not left yet: they may still wait in this host's queue, where
//! they share the wire with the next step's bytes. The root of a binomial broadcast would overlap
//! its two children in this way, and take 33 to 44 % longer than its schedule says. So a step with
//! more than 64 KiB to a peer is finished only when that queue is empty (`SIOCOUTQNSD`).

use std::collections::VecDeque;
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::duplex::{Duplex, Gather, Waiting, Wire};
use super::{Fault, Transport, Wait, raw};
use crate::base::error::{Error, Result};
use crate::base::secret::{self, Key};

/// The requested congestion control; the one in effect is recorded.
const CONGESTION: &str = "cubic";
/// Unacknowledged data break a connection after this time.
const USER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a caller may take to identify itself.
const PATIENCE: Duration = Duration::from_secs(3);
/// The size of its greeting, in bytes.
const GREETING: usize = 48;
/// The most callers served at the same time.
const MOST_CALLERS: usize = 256;
/// How often deadlines are checked while there are no calls.
const TICK: Duration = Duration::from_millis(100);
/// From this many bytes on the queue must be empty before a step is finished.
const DRAINED_FROM: usize = 64 << 10;
/// Bytes of the buffer for incoming messages that are not stored directly.
const INBOX: usize = 256 << 10;
/// How often a rank that polls yields before it sleeps.
const YIELDS: u64 = 64;
/// The most pieces of one write.
const PIECES: usize = 64;

/// The number of a run, by which its ranks recognize each other.
pub type RunId = [u8; 16];

/// The secret shared by the ranks of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Its number.
    pub id: RunId,
    /// The key by which they recognize each other.
    pub key: Key,
}

impl Run {
    /// A new one.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn new() -> Result<Self> {
        Ok(Self { id: secret::random()?, key: Key::random()? })
    }
}

/// Listens at `address`, at a free port.
///
/// # Errors
/// The address does not belong to this host, or to this namespace.
pub fn listen(address: IpAddr) -> Result<(TcpListener, SocketAddr)> {
    let refused = |e| Error::environment(format!("cannot listen at {address}: {e}"));
    let listener = TcpListener::bind((address, 0)).map_err(refused)?;
    let at = listener.local_addr().map_err(refused)?;
    Ok((listener, at))
}

/// Properties of the connections of a rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The congestion control in effect; absent if a rank has no connection.
    pub congestion: Option<String>,
}

/// Connects `rank` with all others, which listen at `addresses`: it calls the lower ranks and
/// answers the higher ones. All of this takes at most `patience`.
///
/// # Errors
/// A rank cannot be reached or does not call.
pub fn join(
    listener: &TcpListener,
    rank: u32,
    addresses: &[SocketAddr],
    run: &Run,
    (wait, patience): (Wait, Duration),
) -> Result<(Box<dyn Transport>, Facts)> {
    let until = Instant::now() + patience;
    let mut peers: Vec<Option<Peer>> = addresses.iter().map(|_| None).collect();
    for (to, address) in (0..rank).zip(addresses) {
        let failed =
            |e| Error::lost(format!("rank {rank} cannot reach rank {to} at {address}: {e}"));
        let mut stream = TcpStream::connect_timeout(address, left(until)).map_err(failed)?;
        stream.write_all(&greeting(run, rank, to)).map_err(failed)?;
        peers[to as usize] = Some(Peer::new(stream).map_err(failed)?);
    }
    answer(listener, rank, run, until, &mut peers)?;
    let first = peers.iter().flatten().next();
    let congestion = first.and_then(|peer| rustix::net::sockopt::tcp_congestion(&peer.stream).ok());
    let ranks = addresses.len() as u32;
    Ok((Box::new(Duplex::new(Connections { rank, ranks, wait, peers })), Facts { congestion }))
}

fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
}

/// The caller's first message: the run, the two ranks, and a code that only ranks can make.
fn greeting(run: &Run, from: u32, to: u32) -> [u8; GREETING] {
    let mut bytes = [0; GREETING];
    bytes[..16].copy_from_slice(&run.id);
    bytes[16..20].copy_from_slice(&from.to_le_bytes());
    bytes[20..24].copy_from_slice(&to.to_le_bytes());
    let code = run.key.code(&[b"data", &bytes[..24]]);
    bytes[24..].copy_from_slice(&code[..GREETING - 24]);
    bytes
}

/// A caller that has not yet identified itself.
struct Caller {
    stream: TcpStream,
    said: [u8; GREETING],
    heard: usize,
    until: Instant,
}

impl Caller {
    /// Whether the greeting is complete; an error if no more data will arrive.
    fn hear(&mut self) -> std::io::Result<bool> {
        self.heard += some(self.stream.read(&mut self.said[self.heard..]))?;
        match self.heard == GREETING || Instant::now() < self.until {
            true => Ok(self.heard == GREETING),
            false => Err(ErrorKind::TimedOut.into()),
        }
    }
}

/// Waits for the calls of all higher ranks. Strangers are rejected, and delay no rank: all callers
/// are served at the same time, and if there are too many, the oldest ones are dropped.
fn answer(
    listener: &TcpListener,
    rank: u32,
    run: &Run,
    until: Instant,
    peers: &mut [Option<Peer>],
) -> Result<()> {
    let failed = |e: std::io::Error| Error::lost(format!("rank {rank} cannot answer: {e}"));
    listener.set_nonblocking(true).map_err(failed)?;
    let mut callers: VecDeque<Caller> = VecDeque::new();
    loop {
        let missing = || (rank as usize + 1..peers.len()).filter(|&from| peers[from].is_none());
        if missing().next().is_none() {
            return Ok(());
        }
        if Instant::now() >= until {
            let missing = missing().map(|from| from.to_string()).collect::<Vec<_>>().join(", ");
            return Err(Error::lost(format!("rank {rank} got no call from rank {missing}")));
        }
        let calls = callers.iter().map(|caller| PollFd::new(&caller.stream, PollFlags::IN));
        let mut ready: Vec<_> = calls.collect();
        ready.push(PollFd::new(listener, PollFlags::IN));
        match poll(&mut ready, Some(&timespec(left(until).min(TICK)))) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(failed(e.into())),
        }
        for _ in 0..MOST_CALLERS {
            let Ok((stream, _)) = listener.accept() else { break };
            stream.set_nonblocking(true).map_err(failed)?;
            let until = Instant::now() + PATIENCE;
            callers.push_back(Caller { stream, said: [0; GREETING], heard: 0, until });
        }
        let mut open = VecDeque::with_capacity(callers.len());
        for mut caller in callers {
            match caller.hear() {
                Ok(false) => open.push_back(caller),
                Err(_) => {}
                Ok(true) => {
                    let from = u32::from_le_bytes([16, 17, 18, 19].map(|i| caller.said[i]));
                    let is_one = from > rank
                        && peers.get(from as usize).is_some_and(Option::is_none)
                        && caller.said[..24] == greeting(run, from, rank)[..24]
                        && run.key.signed(&[b"data", &caller.said[..24]], &caller.said[24..]);
                    if is_one {
                        let failed = |e| {
                            Error::lost(format!("rank {rank} lost the connection to {from}: {e}"))
                        };
                        peers[from as usize] = Some(Peer::new(caller.stream).map_err(failed)?);
                    }
                }
            }
        }
        open.drain(..open.len().saturating_sub(MOST_CALLERS));
        callers = open;
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: time.subsec_nanos().into() }
}

/// A connection.
struct Peer {
    stream: TcpStream,
    /// Received bytes not yet used: `inbox[taken..filled]`.
    inbox: Vec<u8>,
    taken: usize,
    filled: usize,
    /// Bytes pushed since the queue was last empty.
    pushed: usize,
    /// Whether the queue took less than it was given. The kernel reports it writable again when a
    /// third of it is free; bytes squeezed in before are sent in small pieces.
    is_full: bool,
}

impl Peer {
    fn new(stream: TcpStream) -> std::io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        rustix::net::sockopt::set_tcp_user_timeout(&stream, USER_TIMEOUT.as_millis() as u32)?;
        // A kernel without it keeps its default, which is then recorded.
        let _ = rustix::net::sockopt::set_tcp_congestion(&stream, CONGESTION);
        let inbox = vec![0; INBOX];
        Ok(Self { stream, inbox, taken: 0, filled: 0, pushed: 0, is_full: false })
    }

    /// Writes what the queue takes, if that is worthwhile.
    fn write(&mut self, bytes: &Gather<'_>) -> std::io::Result<usize> {
        if self.is_full {
            let mut ready = [PollFd::new(&self.stream, PollFlags::OUT)];
            if poll(&mut ready, Some(&timespec(Duration::ZERO))) == Ok(0) {
                return Ok(0);
            }
        }
        let mut pieces = [IoSlice::new(&[]); PIECES];
        let pieces = bytes.slices(&mut pieces);
        let written = some(self.stream.write_vectored(pieces))?;
        self.is_full = written < pieces.iter().map(|piece| piece.len()).sum();
        self.pushed += written;
        Ok(written)
    }

    /// Makes room after the existing bytes and fills it.
    fn fill(&mut self) -> std::io::Result<usize> {
        self.inbox.copy_within(self.taken..self.filled, 0);
        self.filled -= self.taken;
        self.taken = 0;
        let got = some(self.stream.read(&mut self.inbox[self.filled..]))?;
        self.filled += got;
        Ok(got)
    }
}

/// How many bytes moved: `None` if the socket was not ready, an error if it was closed.
fn some(moved: std::io::Result<usize>) -> std::io::Result<usize> {
    match moved {
        Ok(0) => Err(ErrorKind::ConnectionReset.into()),
        Ok(bytes) => Ok(bytes),
        Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(0),
        Err(e) => Err(e),
    }
}

struct Connections {
    rank: u32,
    ranks: u32,
    wait: Wait,
    peers: Vec<Option<Peer>>,
}

impl Connections {
    fn peer(&mut self, rank: u32) -> std::result::Result<&mut Peer, Fault> {
        let peer = self.peers.get_mut(rank as usize).and_then(Option::as_mut);
        peer.ok_or_else(|| Fault::system(rank, &ErrorKind::NotConnected.into()))
    }
}

impl Wire for Connections {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn push(&mut self, to: u32, bytes: &Gather<'_>) -> std::result::Result<usize, Fault> {
        self.peer(to)?.write(bytes).map_err(|e| Fault::system(to, &e))
    }

    fn pull(
        &mut self,
        from: u32,
        most: usize,
        whole: usize,
        take: &mut dyn FnMut(&[u8]),
    ) -> std::result::Result<usize, Fault> {
        let peer = self.peer(from)?;
        if peer.filled - peer.taken < whole {
            peer.fill().map_err(|e| Fault::system(from, &e))?;
        }
        let bytes = (peer.filled - peer.taken).min(most) / whole * whole;
        take(&peer.inbox[peer.taken..peer.taken + bytes]);
        peer.taken += bytes;
        Ok(bytes)
    }

    fn pull_into(&mut self, from: u32, place: &mut [u8]) -> std::result::Result<usize, Fault> {
        let peer = self.peer(from)?;
        // Short pieces are received many at a time, through the inbox.
        if peer.filled == peer.taken && place.len() >= INBOX / 16 {
            return some(peer.stream.read(place)).map_err(|e| Fault::system(from, &e));
        }
        let most = place.len();
        self.pull(from, most, 1, &mut |bytes| place[..bytes.len()].copy_from_slice(bytes))
    }

    fn is_drained(&mut self, to: u32) -> std::result::Result<bool, Fault> {
        let peer = self.peer(to)?;
        if peer.pushed <= DRAINED_FROM {
            peer.pushed = 0;
            return Ok(true);
        }
        let unsent = raw::unsent(peer.stream.as_fd()).map_err(|e| Fault::system(to, &e.into()))?;
        if unsent == 0 {
            peer.pushed = 0;
        }
        Ok(unsent == 0)
    }

    fn wait(&mut self, for_what: &Waiting, idle: u64) -> std::result::Result<bool, Fault> {
        if self.wait == Wait::Spin {
            std::hint::spin_loop();
            return Ok(idle.is_multiple_of(64));
        }
        // An answer usually arrives within moments, and the rank that gives it may need this CPU.
        if idle <= YIELDS {
            std::thread::yield_now();
            return Ok(false);
        }
        let Waiting { arriving, leaving, draining } = for_what;
        let flagged = [(arriving, PollFlags::IN), (leaving, PollFlags::OUT)];
        let mut ready: Vec<PollFd<'_>> = flagged
            .into_iter()
            .flat_map(|(ranks, flags)| ranks.iter().map(move |&rank| (rank, flags)))
            .filter_map(|(rank, flags)| {
                let peer = self.peers.get(rank as usize)?.as_ref()?;
                Some(PollFd::new(&peer.stream, flags))
            })
            .collect();
        // There is no notification when a queue becomes empty.
        let most = if draining.is_empty() { 100_000 } else { 20 };
        match poll(&mut ready, Some(&timespec(Duration::from_micros(most)))) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(true),
            Err(e) => Err(Fault { peer: None, cause: super::Cause::System(e.to_string()) }),
        }
    }
}

//! A connection whose two ends have proved to each other that they know the token.

use std::io::{self, Write};
use std::net::{IpAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::net::{RecvFlags, recv};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::frame::{Frames, seal};
use super::{BEAT, LOST};
use crate::base::secret::Key;

/// An end that does not read must not block the other.
const WRITE: Duration = Duration::from_secs(2);

/// Which end this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Coordinator,
    Worker,
}

/// Sent by both ends: both kinds of messages have this name.
#[derive(Serialize, Deserialize)]
enum Alive {
    Beat,
}

/// One end of the connection. While it exists, it sends a heartbeat twice per second.
pub(crate) struct Channel {
    stream: TcpStream,
    frames: Frames,
    writer: Arc<Mutex<Writer>>,
    heard: Instant,
    over: Option<String>,
    /// When this is dropped, the heartbeats end.
    _beats: Sender<()>,
}

struct Writer {
    stream: TcpStream,
    key: Key,
    direction: &'static str,
    next: u64,
}

impl Writer {
    fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        let frame =
            seal(&self.key, self.direction, self.next, message).map_err(io::Error::other)?;
        self.next += 1;
        self.stream.write_all(&frame)
    }
}

impl Channel {
    /// A channel over a connection that both ends trust.
    pub(super) fn new(stream: TcpStream, key: Key, end: End) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(WRITE))?;
        let (out, inc) = match end {
            End::Coordinator => ("to worker", "from worker"),
            End::Worker => ("from worker", "to worker"),
        };
        let own = stream.try_clone()?;
        let writer = Writer { stream: own, key: key.clone(), direction: out, next: 0 };
        let writer = Arc::new(Mutex::new(writer));
        let frames = Frames::new(key, inc);
        let (beats, ended) = mpsc::channel::<()>();
        let beating = Arc::clone(&writer);
        thread::Builder::new().name("beat".to_owned()).spawn(move || {
            while ended.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
                // What arrives shows whether the other end is there.
                let _ = lock(&beating).send(&Alive::Beat);
            }
        })?;
        let heard = Instant::now();
        Ok(Self { stream, frames, writer, heard, over: None, _beats: beats })
    }

    /// The address of this end as the other end sees it.
    pub(super) fn own_address(&self) -> io::Result<IpAddr> {
        self.stream.local_addr().map(|at| at.ip())
    }

    /// A copy of the connection, to be watched.
    pub(crate) fn file(&self) -> io::Result<OwnedFd> {
        self.stream.try_clone().map(OwnedFd::from)
    }

    pub(crate) fn send(&self, message: &impl Serialize) -> io::Result<()> {
        lock(&self.writer).send(message)
    }

    /// Adds the connection, which becomes readable when a message arrives.
    pub(crate) fn watch<'a>(&'a self, files: &mut Vec<PollFd<'a>>) {
        // A closed one would be ready forever.
        if self.over.is_none() {
            files.push(PollFd::new(&self.stream, PollFlags::IN));
        }
    }

    /// Reads what has arrived.
    pub(crate) fn hear(&mut self) {
        let mut room = vec![0; 64 << 10];
        while self.over.is_none() && !self.frames.is_full() {
            match recv(&self.stream, &mut room[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => self.over = Some("closed the connection".to_owned()),
                Ok((bytes, _)) => {
                    self.heard = Instant::now();
                    self.frames.feed(&room[..bytes]);
                }
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return,
                // A host reports this if it had unread data when it ended.
                Err(rustix::io::Errno::CONNRESET) => {
                    self.over = Some("closed the connection".to_owned());
                }
                Err(e) => self.over = Some(format!("broke the connection: {e}")),
            }
        }
    }

    /// The next message that has arrived, except heartbeats.
    pub(crate) fn take<T: DeserializeOwned>(&mut self) -> Option<T> {
        match self.frames.take() {
            Ok(message) => message,
            Err(e) => {
                self.over.get_or_insert(format!("sent an unreadable message: {e}"));
                None
            }
        }
    }

    /// What happened to the other end, if it is gone.
    pub(crate) fn over(&self) -> Option<String> {
        let silence = self.heard.elapsed();
        let silent = || format!("was silent for {:.1} s", silence.as_secs_f64());
        self.over.clone().or_else(|| (silence >= LOST).then(silent))
    }

    /// When a message was last received.
    pub(crate) fn heard(&self) -> Instant {
        self.heard
    }
}

/// If another thread left the writer in the middle of a frame, the other end detects it.
fn lock(writer: &Mutex<Writer>) -> std::sync::MutexGuard<'_, Writer> {
    writer.lock().unwrap_or_else(PoisonError::into_inner)
}

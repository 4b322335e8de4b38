//! A rank that is a process of this host.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::control::{Answer, Hello, Order, frame, give, take};
use super::group::LEAST_PATIENCE;
use super::seat::Seat;
use crate::base::error::{Error, Result};
use crate::base::quantity::Bytes;
use crate::machine::sample::Op;
use crate::run::execute::Work;
use crate::run::transport::shm::Shared;
use crate::run::transport::tcp;

/// The process of a rank; it ends when this is dropped.
pub(crate) struct Process {
    rank: u32,
    child: Child,
    /// Becomes readable when the process has ended.
    death: OwnedFd,
    stream: UnixStream,
    inbox: Vec<u8>,
    cpu: Option<usize>,
    stopped: Option<Instant>,
}

impl Process {
    /// Starts `program` as the rank described by `hello`; `shared` is its memory, if any.
    ///
    /// # Errors
    /// This machine refuses the process or its channel.
    pub(crate) fn start(
        (program, arguments): &(PathBuf, Vec<String>),
        hello: Hello,
        shared: Option<&Shared>,
    ) -> Result<Self> {
        let (rank, cpu) = (hello.rank, hello.cpu);
        let failed = |what: &str, e: io::Error| {
            let error = Error::environment(format!("rank {rank} cannot be started: {what}: {e}"));
            match e.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
                Some(rustix::io::Errno::MFILE) => {
                    error.help("start fewer ranks, or allow more open files (ulimit -n)")
                }
                _ => error,
            }
        };
        let (stream, theirs) = UnixStream::pair().map_err(|e| failed("no socket", e))?;
        let child = Command::new(program)
            .args(arguments)
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            // Only the group receives an interruption from the terminal.
            .process_group(0)
            .spawn()
            .map_err(|e| failed(&program.display().to_string(), e))?;
        let mut starting = Starting(Some(child));
        let death = Pid::from_raw(starting.id().cast_signed())
            .ok_or(rustix::io::Errno::SRCH)
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()))
            .map_err(|e| failed("no pidfd", e.into()))?;
        // A rank that does not read must not block the group.
        stream
            .set_write_timeout(Some(LEAST_PATIENCE))
            .and_then(|()| stream.set_nonblocking(false))
            .map_err(|e| failed("no socket", e))?;
        let Some(child) = starting.0.take() else {
            return Err(failed("no process", io::ErrorKind::NotFound.into()));
        };
        let mut process =
            Self { rank, child, death, stream, inbox: Vec::new(), cpu, stopped: None };
        let lost = |e: io::Error| Error::lost(format!("rank {rank} was lost: {e}")).at("starting");
        process.send(&Order::Hello(hello)).map_err(lost)?;
        if let Some(shared) = shared {
            give(&process.stream, shared.file().as_fd()).map_err(lost)?;
        }
        Ok(process)
    }

    fn send(&mut self, order: &Order) -> io::Result<()> {
        self.stream.write_all(&frame(order)?)
    }

    /// Records whether the process is stopped.
    fn look(&mut self) {
        let file = format!("/proc/{}/stat", self.child.id());
        let text = std::fs::read_to_string(file).unwrap_or_default();
        // The state comes after the name, which may contain anything.
        let state = text.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        match state {
            Some('T' | 't') => drop(self.stopped.get_or_insert_with(Instant::now)),
            _ => self.stopped = None,
        }
    }
}

impl Seat for Process {
    fn name(&self) -> String {
        format!("rank {}", self.rank)
    }

    fn process(&self) -> u32 {
        self.child.id()
    }

    fn cpu(&self) -> Option<usize> {
        self.cpu
    }

    fn connect(&mut self, addresses: &[SocketAddr], run: &tcp::Run) -> io::Result<()> {
        self.send(&Order::Connect(addresses.to_vec(), run.id, run.key.bytes()))
    }

    fn work(&mut self, work: Work, _: Option<(&Op, Bytes)>) -> io::Result<()> {
        self.send(&Order::Work(Box::new(work)))
    }

    fn finish(&mut self) -> io::Result<()> {
        self.send(&Order::End)
    }

    fn watch<'a>(&'a self, answered: bool, files: &mut Vec<PollFd<'a>>) {
        files.push(PollFd::new(&self.death, PollFlags::IN));
        // A closed stream would be ready forever; the process's death is detected anyway.
        let flags = if answered { PollFlags::empty() } else { PollFlags::IN };
        files.push(PollFd::new(&self.stream, flags));
    }

    fn hear(&mut self) {
        self.look();
        let mut room = vec![0; 64 << 10];
        if self.stream.set_nonblocking(true).is_err() {
            return;
        }
        // The cause of an end, a pause or a death, is determined elsewhere.
        while let Ok(bytes @ 1..) = self.stream.read(&mut room) {
            self.inbox.extend_from_slice(&room[..bytes]);
        }
        let _ = self.stream.set_nonblocking(false);
    }

    fn answer(&mut self) -> io::Result<Option<Answer>> {
        take(&mut self.inbox)
    }

    fn dead(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok().flatten()?;
        Some(match (status.signal(), status.code()) {
            (Some(signal), _) => format!("killed by signal {signal}"),
            (_, Some(code)) => format!("it ended with code {code}"),
            _ => "it ended".to_owned(),
        })
    }

    fn stopped(&self) -> Option<Instant> {
        self.stopped
    }

    fn silent(&self) -> Option<Instant> {
        None
    }

    fn is_over(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    fn kill(&mut self) {
        // A process that has already ended cannot be killed, which is fine.
        let _ = self.child.kill();
    }

    fn reap(&mut self) {
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        self.reap();
    }
}

/// A child that is killed unless it becomes a rank.
struct Starting(Option<Child>);

impl Starting {
    fn id(&self) -> u32 {
        self.0.as_ref().map_or(0, Child::id)
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

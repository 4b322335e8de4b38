//! A process with GPUs, from the side that started it.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::set::Variables;
use super::talk::{Answer, Order, Task};
use crate::base::error::{Error, Result};
use crate::run::launch::{frame, take};

/// How processes with GPUs are started.
pub struct Setup {
    /// The program that serves as one, and its arguments.
    pub program: (PathBuf, Vec<String>),
    /// The files that may be NCCL, the first that loads is taken.
    pub library: Vec<PathBuf>,
    /// Their environment, but for what a set adds.
    pub environment: Variables,
    /// A folder for logs, which its owner takes away.
    pub scratch: PathBuf,
    /// How long a block may take before the process is killed.
    pub patience: Duration,
    /// How long starting may take: drivers, and NCCL over many hosts, take their time.
    pub starting: Duration,
    /// Becomes readable when somebody wants to stop.
    pub interrupt: Option<OwnedFd>,
}

/// A process with GPUs; it is killed when this is dropped.
pub(super) struct Worker {
    child: Child,
    death: OwnedFd,
    stream: UnixStream,
    inbox: Vec<u8>,
    errors: PathBuf,
}

/// Why there is no answer.
pub(super) enum Gone {
    /// It ended by itself, or was silent and was killed: in words.
    Lost(String),
    /// It says that the machine does not let it.
    Refused(String),
    /// Something that ends everything.
    All(Error),
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may be gone; then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Worker {
    /// Starts the how many-th process of several for `task`, with `variables` beside the setup's
    /// environment.
    pub(super) fn start(
        setup: &Setup,
        which: usize,
        task: Task,
        variables: Variables,
    ) -> Result<Self> {
        let (program, arguments) = &setup.program;
        let failed = |what: &str, e: std::io::Error| {
            Error::environment(format!("no process for the GPUs can be started: {what}: {e}"))
        };
        let (stream, theirs) = UnixStream::pair().map_err(|e| failed("no socket", e))?;
        let errors = setup.scratch.join(format!("errors-{which}"));
        let file =
            std::fs::File::create(&errors).map_err(|e| failed(&errors.display().to_string(), e))?;
        let mut child = Command::new(program)
            .args(arguments)
            .env_clear()
            .envs(setup.environment.iter().cloned())
            .envs(variables)
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(file)
            // An interruption of the terminal is the measuring process's alone.
            .process_group(0)
            .spawn()
            .map_err(|e| failed(&program.display().to_string(), e))?;
        let death = Pid::from_raw(child.id().cast_signed())
            .ok_or(rustix::io::Errno::SRCH)
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()));
        let ready = stream
            .set_write_timeout(Some(setup.patience))
            .and_then(|()| stream.set_nonblocking(true))
            .and(death.map_err(Into::into));
        let death = match ready {
            Ok(death) => death,
            Err(e) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(failed("it cannot be watched", e));
            }
        };
        let mut worker = Self { child, death, stream, inbox: Vec::new(), errors };
        let parent = std::process::id().cast_signed();
        worker.tell(&Order::Hello { parent, task }).map_err(|e| failed("it does not hear", e))?;
        Ok(worker)
    }

    /// Its process.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Gives an order; one that does not take it has ended, which is seen when it is to answer.
    pub(super) fn tell(&mut self, order: &Order) -> std::io::Result<()> {
        // Orders are short: they fit into the socket's queue.
        self.stream.write_all(&frame(order)?)
    }

    /// Adds what becomes readable when it says something or ends.
    pub(super) fn watch<'a>(&'a self, files: &mut Vec<PollFd<'a>>) {
        files.push(PollFd::new(&self.stream, PollFlags::IN));
        files.push(PollFd::new(&self.death, PollFlags::IN));
    }

    /// The next answer, if it has come.
    pub(super) fn answer(&mut self) -> std::result::Result<Option<Answer>, Gone> {
        // What it said last counts, though it has ended since.
        let is_dead = self.is_dead();
        self.hear();
        match take::<Answer>(&mut self.inbox) {
            Ok(Some(Answer::Refused(text))) => Err(Gone::Refused(text)),
            Ok(None) if is_dead => Err(self.lost()),
            Ok(answer) => Ok(answer),
            Err(e) => Err(Gone::Lost(format!("it said what cannot be read: {e}"))),
        }
    }

    /// Says so where it has ended since it answered.
    pub(super) fn lives(&mut self) -> std::result::Result<(), Gone> {
        if self.is_dead() { Err(self.lost()) } else { Ok(()) }
    }

    fn is_dead(&self) -> bool {
        let mut death = [PollFd::new(&self.death, PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut death, Some(&at_once)).is_ok_and(|ready| ready > 0)
    }

    fn hear(&mut self) {
        let mut room = [0; 1 << 16];
        loop {
            match self.stream.read(&mut room) {
                Ok(0) => return,
                Ok(bytes) => self.inbox.extend_from_slice(&room[..bytes]),
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    /// How it ended, with the last that it wrote to standard error.
    fn lost(&mut self) -> Gone {
        let _ = self.child.kill();
        let how = match self.child.wait() {
            Ok(status) => match (status.signal(), status.code()) {
                (Some(signal), _) => format!("it was killed by signal {signal}"),
                (_, Some(code)) => format!("it ended with code {code}"),
                _ => "it ended".to_owned(),
            },
            Err(e) => format!("it ended: {e}"),
        };
        Gone::Lost(how + &last_line(&self.errors))
    }
}

fn last_line(file: &Path) -> String {
    let text = std::fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty());
    line.map_or(String::new(), |line| format!(": {}", line.chars().take(200).collect::<String>()))
}

//! A process with GPUs, from the side of the process that started it.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::set::Variables;
use super::talk::{Answer, Order, Task};
use crate::base::error::{Error, Result};
use crate::run::launch::{frame, take};

/// How processes with GPUs are started.
pub struct Setup {
    /// The program that serves as such a process, and its arguments.
    pub program: (PathBuf, Vec<String>),
    /// Candidate files for NCCL; the first that loads is used.
    pub library: Vec<PathBuf>,
    /// Their environment, without the variables of a set.
    pub environment: Variables,
    /// A folder for logs, which its owner deletes.
    pub scratch: PathBuf,
    /// How long a block may take before the process is killed.
    pub patience: Duration,
    /// How long starting may take: drivers, and NCCL over many hosts, are slow to start.
    pub starting: Duration,
    /// Becomes readable when the user wants to stop.
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

/// The reason for a missing answer.
pub(super) enum Gone {
    /// It ended on its own, or was silent and was killed: a description.
    Lost(String),
    /// It reports that the machine does not permit the work.
    Refused(String),
    /// An error that ends everything.
    All(Error),
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may already have ended; then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Worker {
    /// Starts process number `which` for `task`, with `variables` added to the setup's environment.
    pub(super) fn start(
        setup: &Setup,
        which: usize,
        task: Task,
        variables: Variables,
    ) -> Result<Self> {
        let (program, arguments) = &setup.program;
        let failed = |what: &str, e: std::io::Error| {
            Error::environment(format!("the process for the GPUs cannot be started: {what}: {e}"))
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
            // Only the measuring process receives an interruption from the terminal.
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
        worker.tell(&Order::Hello { parent, task }).map_err(|e| failed("it takes no orders", e))?;
        Ok(worker)
    }

    /// Its process.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends an order; a process that does not take it has ended, which is noticed when it should
    /// answer.
    pub(super) fn tell(&mut self, order: &Order) -> std::io::Result<()> {
        // Orders are short: they fit into the socket's queue.
        self.stream.write_all(&frame(order)?)
    }

    /// Adds the files that become readable when it answers or ends.
    pub(super) fn watch<'a>(&'a self, files: &mut Vec<PollFd<'a>>) {
        files.push(PollFd::new(&self.stream, PollFlags::IN));
        files.push(PollFd::new(&self.death, PollFlags::IN));
    }

    /// The next answer, if it has arrived.
    pub(super) fn answer(&mut self) -> std::result::Result<Option<Answer>, Gone> {
        // Its last answer counts, even if it has ended since.
        let is_dead = self.is_dead();
        self.hear();
        match take::<Answer>(&mut self.inbox) {
            Ok(Some(Answer::Refused(text))) => Err(Gone::Refused(text)),
            Ok(Some(Answer::Lost(text))) => Err(Gone::Lost(text.replace("\n  ", "; "))),
            Ok(None) if is_dead => Err(self.lost()),
            Ok(answer) => Ok(answer),
            Err(e) => Err(Gone::Lost(format!("its answer cannot be read: {e}"))),
        }
    }

    /// An error if it has ended since its last answer.
    pub(super) fn lives(&mut self) -> std::result::Result<(), Gone> {
        if self.is_dead() { Err(self.lost()) } else { Ok(()) }
    }

    /// How it was ended from outside, if it was: its peers then report that they lost it.
    pub(super) fn killed(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok()??;
        status.signal().map(|_| ended(status) + &last_line(&self.errors))
    }

    /// Whether a signal has stopped it (SIGSTOP): others then wait for it.
    pub(super) fn is_stopped(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap_or_default();
        // The state follows the name, which may contain anything.
        stat.rsplit(") ").next().is_some_and(|after| after.starts_with('T'))
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

    /// How it ended, with the last line that it wrote to standard error.
    fn lost(&mut self) -> Gone {
        let _ = self.child.kill();
        let how = match self.child.wait() {
            Ok(status) => ended(status),
            Err(e) => format!("it ended: {e}"),
        };
        Gone::Lost(how + &last_line(&self.errors))
    }
}

fn ended(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("it was killed by signal {signal}"),
        (_, Some(code)) => format!("it ended with code {code}"),
        _ => "it ended".to_owned(),
    }
}

fn last_line(file: &Path) -> String {
    let text = std::fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty());
    line.map_or(String::new(), |line| format!(": {}", line.chars().take(200).collect::<String>()))
}

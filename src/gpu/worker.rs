//! A process with GPUs, from the side that started it.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::talk::{Answer, Order, Task};
use crate::error::{Error, Result};
use crate::launch::{frame, take};

/// How processes with GPUs are started.
pub struct Setup {
    /// The program that serves as one, and its arguments.
    pub program: (PathBuf, Vec<String>),
    /// The files that may be NCCL, the first that loads is taken.
    pub library: Vec<PathBuf>,
    /// Their environment, but for what a set adds.
    pub environment: Vec<(String, String)>,
    /// A folder for logs, which its owner takes away.
    pub scratch: PathBuf,
    /// How long starting, or a block, may take before the process is killed.
    pub patience: Duration,
    /// Becomes readable when somebody wants to stop.
    pub interrupt: Option<OwnedFd>,
}

/// A process with GPUs; it is killed when this is dropped.
pub(super) struct Worker<'a> {
    setup: &'a Setup,
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

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        // It may be gone; then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl<'a> Worker<'a> {
    /// Starts a process for `task`, with `variables` beside the setup's environment.
    pub(super) fn start(
        setup: &'a Setup,
        task: Task,
        variables: Vec<(String, String)>,
    ) -> Result<Self> {
        let (program, arguments) = &setup.program;
        let failed = |what: &str, e: std::io::Error| {
            Error::environment(format!("no process for the GPUs can be started: {what}: {e}"))
        };
        let (stream, theirs) = UnixStream::pair().map_err(|e| failed("no socket", e))?;
        let errors = setup.scratch.join("errors");
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
        let mut worker = Self { setup, child, death, stream, inbox: Vec::new(), errors };
        let parent = std::process::id().cast_signed();
        worker.tell(&Order::Hello { parent, task }).map_err(|e| failed("it does not hear", e))?;
        Ok(worker)
    }

    /// Its process.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    fn tell(&mut self, order: &Order) -> std::io::Result<()> {
        // Orders are short: they fit into the socket's queue.
        self.stream.write_all(&frame(order)?)
    }

    /// Gives an order and waits for its answer.
    pub(super) fn ask(&mut self, order: &Order) -> std::result::Result<Answer, Gone> {
        if self.tell(order).is_err() {
            return Err(self.lost());
        }
        self.answer()
    }

    /// Waits for the next answer, as long as there is patience.
    pub(super) fn answer(&mut self) -> std::result::Result<Answer, Gone> {
        let until = Instant::now() + self.setup.patience;
        loop {
            match take::<Answer>(&mut self.inbox) {
                Ok(Some(Answer::Refused(text))) => return Err(Gone::Refused(text)),
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => {}
                Err(e) => return Err(Gone::Lost(format!("it said what cannot be read: {e}"))),
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let patience = self.setup.patience.as_secs_f64();
                return Err(Gone::Lost(format!("no answer for {patience:.1} s: killed")));
            }
            if self.wait(left)? {
                return Err(self.lost());
            }
        }
    }

    /// Waits for words, death or an interruption; true where nothing more is to be expected.
    fn wait(&mut self, longest: Duration) -> std::result::Result<bool, Gone> {
        let mut ready =
            vec![PollFd::new(&self.stream, PollFlags::IN), PollFd::new(&self.death, PollFlags::IN)];
        ready.extend(self.setup.interrupt.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
        let nanoseconds = i64::from(longest.subsec_nanos()).max(1_000_000);
        let time = Timespec { tv_sec: longest.as_secs() as i64, tv_nsec: nanoseconds };
        match poll(&mut ready, Some(&time)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(Gone::Lost(format!("it cannot be watched: {e}"))),
        }
        let said: Vec<bool> = ready.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(ready);
        if said.get(2) == Some(&true) {
            return Err(Gone::All(Error::interrupted("interrupted; all processes have ended")));
        }
        let mut room = [0; 1 << 16];
        let mut heard = false;
        loop {
            match self.stream.read(&mut room) {
                Ok(0) => break,
                Ok(bytes) => {
                    self.inbox.extend_from_slice(&room[..bytes]);
                    heard = true;
                }
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        Ok(said[1] && !heard)
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

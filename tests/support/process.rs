//! The command as a process with ranks: started, at work, signalled, and gone with all of them.
#![allow(dead_code, reason = "shared by tests of which each needs a part")]

use std::fs;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long anything may take, on a machine that does other things too.
pub const PATIENCE: Duration = Duration::from_secs(120);

pub fn collcost(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_collcost"));
    command.args(line.split_whitespace()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The processes that `parent` started.
pub fn children(parent: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    text.unwrap_or_default().split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// Waits until `found` finds something.
pub fn soon<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = found() {
            return value;
        }
        assert!(Instant::now() < until, "{what} did not come");
        thread::sleep(Duration::from_millis(2));
    }
}

/// A run that would take for ever, killed with its ranks where a test fails.
pub struct Running(Option<Child>);

impl Running {
    /// One that was started elsewhere.
    pub fn of(child: Child) -> Self {
        Self(Some(child))
    }

    /// What it said, when it has ended.
    pub fn output(mut self) -> Output {
        self.0.take().expect("it runs").wait_with_output().expect("it ends")
    }

    pub fn id(&self) -> u32 {
        self.0.as_ref().expect("it runs").id()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Starts such a run; returns it with its ranks, at least so many.
pub fn started(line: &str, ranks: usize) -> (Running, Vec<u32>) {
    let child = Running(Some(collcost(line).spawn().expect("the command starts")));
    let pids = soon("the ranks", || Some(children(child.id())).filter(|all| all.len() >= ranks));
    (child, pids)
}

/// The same, when its ranks are at work: they have used the CPU for longer than starting takes.
pub fn at_work(line: &str, ranks: usize) -> (Running, Vec<u32>) {
    let (child, pids) = started(line, ranks);
    let ticks = |pid: &u32| -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (_, rest) = text.rsplit_once(") ")?;
        let mut fields = rest.split(' ').skip(11);
        Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
    };
    soon("work", || pids.iter().all(|pid| ticks(pid) >= Some(3)).then_some(()));
    (child, pids)
}

pub fn signal(name: &str, pid: u32) {
    let status = Command::new("kill").args([format!("-{name}"), pid.to_string()]).status();
    assert!(status.expect("there is a kill command").success());
}

/// How long a run may go on after something happened to it.
const LIMIT: Duration = Duration::from_secs(5);

/// The end of a run to which something happened just now, after which nothing of it is left.
pub fn end(mut child: Running, ranks: &[u32]) -> Output {
    let pid = child.id();
    let since = Instant::now();
    let output = child.0.take().expect("it runs").wait_with_output().expect("it ends");
    assert!(since.elapsed() < LIMIT, "it went on for {:?}", since.elapsed());
    let is_rank = |pid: &u32| {
        let text = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        text.windows(8).any(|part| part == b"run-rank")
    };
    soon("the end of all ranks", || (!ranks.iter().any(is_rank)).then_some(()));
    let left = fs::read_dir("/dev/shm").map(|dir| {
        let names = dir.flatten().map(|file| file.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.contains("collcost")).collect::<Vec<_>>()
    });
    assert_eq!(left.unwrap_or_default(), [""; 0], "{pid}");
    output
}

/// The exit code, and the one error that was written.
pub fn said(output: &Output) -> (Option<i32>, String) {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(text.matches("error:").count(), 1, "{text}");
    assert!(text.starts_with("error:"), "{text}");
    (output.status.code(), text)
}

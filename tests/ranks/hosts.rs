//! Ranks that others start, on several hosts: they find each other, measure, and whatever happens to
//! one of them ends all within seconds, with one line that names it.
#![cfg(target_os = "linux")]

use std::collections::VecDeque;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use collcost::machine::sample;

#[path = "../support/full.rs"]
mod full;
#[path = "../support/process.rs"]
mod process;
use process::{Running, children, collcost, signal, soon};

/// How long a run may go on after something happened to one of its hosts.
const LIMIT: Duration = Duration::from_secs(5);

/// A folder with a token, and a port where nobody listens; gone with the value. One at a time: ranks
/// of several would share the cores.
struct Meeting {
    folder: PathBuf,
    at: SocketAddr,
    _turn: Option<MutexGuard<'static, ()>>,
}

/// Where nobody listens. The kernel gives the ranks of tests beside this one ports above these, and might
/// give them a port that it named here.
pub fn free_address() -> SocketAddr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let first = std::process::id().wrapping_mul(37);
    let at = |next: u32| SocketAddr::from(([127, 0, 0, 1], 20_000 + (next % 10_000) as u16));
    let mut free =
        (0..10_000).map(|_| at(first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed))));
    free.find(|at| TcpListener::bind(at).is_ok()).expect("a port")
}

impl Meeting {
    fn new() -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        Self::with(Some(TURN.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    fn with(turn: Option<MutexGuard<'static, ()>>) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("collcost-hosts-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("a folder");
        let at = free_address();
        let meeting = Self { folder, at, _turn: turn };
        meeting.token("token", [7; 32], 0o600);
        meeting
    }

    fn token(&self, name: &str, bytes: [u8; 32], mode: u32) {
        let file = self.folder.join(name);
        fs::write(&file, bytes).expect("a token");
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("its mode");
    }

    /// `calibrate` as a rank: those above 0 only need to know who they are.
    fn rank(&self, rank: u32, ranks: u32, token: &str, flags: &str) -> Command {
        let mut command = collcost(&format!(
            "calibrate --rank {rank} -n {ranks} --rendezvous {} --wait poll --force \
             --progress none {flags}",
            self.at
        ));
        command.arg("--token-file").arg(self.folder.join(token));
        command.arg("--out").arg(self.folder.join("p.toml")).stdin(Stdio::null());
        command
    }

    fn samples(&self) -> sample::Samples {
        let file = self.folder.join("p.samples.jsonl");
        let text = fs::read_to_string(file).expect("samples are kept");
        sample::read(&text, "p.samples.jsonl").unwrap_or_else(|e| panic!("{e}")).1
    }
}

impl Drop for Meeting {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Short, of few operations.
const SHORT: &str = "--ops one-way,shift,allreduce/ring,broadcast/binomial,local-reduce,copy \
                     --sizes 8..256K --launches 2 --time-budget 60s --precision 50%";
/// It would go on for minutes.
const LONG: &str = "--ops shift,allreduce/ring --sizes 1M..8M --time-budget 300s --precision 0.1%";

fn start(mut command: Command) -> Running {
    Running::of(command.spawn().expect("the command starts"))
}

fn finish(running: Running) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = running.output();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (status.code(), text(&stdout), text(&stderr))
}

#[test]
fn ranks_that_were_started_one_by_one_calibrate() {
    let meeting = Meeting::new();
    let others: Vec<_> = [2, 1].map(|r| start(meeting.rank(r, 3, "token", ""))).into();
    let (code, out, err) = finish(start(meeting.rank(0, 3, "token", SHORT)));
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("3 ranks on ") && err.contains("waiting for 2 more"), "{out}{err}");
    for other in others {
        assert_eq!(finish(other), (Some(0), String::new(), String::new()));
    }
    assert!(meeting.samples().blocks.iter().all(|block| block.ranks == 3));
    assert!(meeting.folder.join("p.toml").exists());
}

#[test]
fn launchers_variables_do_instead_of_flags() {
    type Variables = fn(u32, u16) -> Vec<(&'static str, String)>;
    let open_mpi: Variables = |rank, _| {
        vec![("OMPI_COMM_WORLD_RANK", rank.to_string()), ("OMPI_COMM_WORLD_SIZE", "2".into())]
    };
    let pmi: Variables =
        |rank, _| vec![("PMI_RANK", rank.to_string()), ("PMI_SIZE", "2".to_owned())];
    let slurm: Variables = |rank, _| {
        vec![("SLURM_PROCID", rank.to_string()), ("SLURM_STEP_NUM_TASKS", "2".to_owned())]
    };
    let torchrun: Variables = |rank, port| {
        vec![
            ("RANK", rank.to_string()),
            ("WORLD_SIZE", "2".to_owned()),
            ("MASTER_ADDR", "127.0.0.1".to_owned()),
            ("MASTER_PORT", (port - 1).to_string()),
            ("TORCHELASTIC_RUN_ID", "none".to_owned()),
            ("TORCHELASTIC_USE_AGENT_STORE", "True".to_owned()),
        ]
    };
    for (name, variables) in
        [("openmpi", open_mpi), ("pmi", pmi), ("slurm", slurm), ("torchrun", torchrun)]
    {
        let meeting = Meeting::new();
        let run = |rank| {
            let mut command = collcost("calibrate --check --force");
            command.arg("--token-file").arg(meeting.folder.join("token"));
            command.stdin(Stdio::null()).envs(variables(rank, meeting.at.port()));
            if name != "torchrun" {
                command.arg("--rendezvous").arg(meeting.at.to_string());
            }
            start(command)
        };
        let other = run(1);
        let (code, out, err) = finish(run(0));
        assert_eq!(code, Some(0), "{name}: {err}");
        assert!(err.contains(&format!("rank 0 of 2 by {name}")), "{err}");
        assert!(out.contains("2 ranks on "), "{out}");
        assert_eq!(finish(other).0, Some(0), "{name}");
    }
}

/// Three ranks of a long run, at work: the ranks, and the processes that do it.
fn at_work(meeting: &Meeting) -> (Vec<Running>, Vec<u32>) {
    with(meeting, LONG)
}

fn with(meeting: &Meeting, flags: &str) -> (Vec<Running>, Vec<u32>) {
    let mut all = vec![start(meeting.rank(0, 3, "token", flags))];
    all.extend([1, 2].map(|rank| start(meeting.rank(rank, 3, "token", ""))));
    let samples = meeting.folder.join("p.samples.jsonl");
    soon("a block", || {
        let text = fs::read_to_string(&samples).unwrap_or_default();
        text.contains(r#""t":"blk""#).then_some(())
    });
    let processes = all.iter().flat_map(|running| children(running.id())).collect::<Vec<_>>();
    assert_eq!(processes.len(), 3);
    (all, processes)
}

/// Everything ends soon: what the coordinator says, and that the others say why and leave nothing.
fn ends(meeting: &Meeting, all: Vec<Running>, processes: &[u32], gone: Option<usize>) -> String {
    let since = Instant::now();
    let mut said = String::new();
    for (rank, running) in all.into_iter().enumerate() {
        let (code, _, err) = finish(running);
        assert!(since.elapsed() < LIMIT, "rank {rank} went on for {:?}: {err}", since.elapsed());
        if Some(rank) != gone {
            assert_eq!(code, Some(5), "rank {rank}: {err}");
            assert_eq!(err.matches("error:").count(), 1, "rank {rank}: {err}");
        }
        if rank == 0 {
            said = err;
        }
    }
    let is_rank = |pid: &u32| {
        let text = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        text.windows(8).any(|part| part == b"run-rank")
    };
    soon("the end of all processes", || (!processes.iter().any(is_rank)).then_some(()));
    let blocks = meeting.samples().blocks.len();
    assert!(blocks > 0 && said.contains("--resume continues"), "{said}");
    said
}

#[test]
fn a_rank_that_is_killed_is_named() {
    let meeting = Meeting::new();
    let (all, processes) = at_work(&meeting);
    signal("KILL", all[2].id());
    let said = ends(&meeting, all, &processes, Some(2));
    assert!(said.contains("rank 2 (") && said.contains("its host closed the connection"), "{said}");
}

#[test]
fn a_process_of_a_rank_that_is_killed_is_named() {
    let meeting = Meeting::new();
    let (all, processes) = at_work(&meeting);
    signal("KILL", processes[1]);
    let said = ends(&meeting, all, &processes, None);
    assert!(said.contains("rank 1 (") && said.contains("killed by signal 9"), "{said}");
}

#[test]
fn a_rank_that_is_stopped_is_named() {
    let meeting = Meeting::new();
    let (mut all, processes) = at_work(&meeting);
    signal("STOP", all[1].id());
    let stopped = all.remove(1);
    let since = Instant::now();
    let (code, _, said) = finish(all.remove(0));
    assert!(since.elapsed() < LIMIT, "{:?}", since.elapsed());
    assert_eq!(code, Some(5), "{said}");
    assert!(said.contains("rank 1 (") && said.contains("host was silent for 3."), "{said}");
    // It finds out as soon as it goes on; killed, it takes its process with it.
    signal("CONT", stopped.id());
    let (code, _, err) = finish(stopped);
    assert_eq!(code, Some(5), "{err}");
    assert_eq!(finish(all.remove(0)).0, Some(5));
    let is_there =
        |pid: &u32| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|t| !t.is_empty());
    soon("the end of all processes", || (!processes.iter().any(is_there)).then_some(()));
}

#[test]
fn a_process_of_a_rank_that_is_stopped_is_named() {
    let meeting = Meeting::new();
    let (all, processes) = at_work(&meeting);
    signal("STOP", processes[2]);
    let said = ends(&meeting, all, &processes, None);
    assert!(said.contains("rank 2 (") && said.contains("its process is stopped"), "{said}");
}

#[test]
fn a_coordinator_that_is_gone_ends_the_others() {
    let meeting = Meeting::new();
    let (all, processes) = at_work(&meeting);
    signal("KILL", all[0].id());
    let since = Instant::now();
    for (rank, running) in all.into_iter().enumerate().skip(1) {
        let (code, _, err) = finish(running);
        assert!(since.elapsed() < LIMIT, "{:?}", since.elapsed());
        assert_eq!(code, Some(5), "{err}");
        assert!(err.contains(&format!("rank {rank} lost the coordinator")), "{err}");
    }
    let is_there =
        |pid: &u32| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|t| !t.is_empty());
    soon("the end of all processes", || (!processes.iter().any(is_there)).then_some(()));
    assert!(!meeting.samples().blocks.is_empty());
}

#[test]
fn an_interruption_ends_all() {
    for (rank, signal_name) in [(0, "INT"), (1, "TERM")] {
        let meeting = Meeting::new();
        let (all, processes) = at_work(&meeting);
        signal(signal_name, all[rank].id());
        let since = Instant::now();
        for (other, running) in all.into_iter().enumerate() {
            let (code, _, err) = finish(running);
            assert!(since.elapsed() < LIMIT, "{:?}", since.elapsed());
            assert_eq!(code, Some(if other == rank { 130 } else { 5 }), "{err}");
        }
        let is_there =
            |pid: &u32| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|t| !t.is_empty());
        soon("the end of all processes", || (!processes.iter().any(is_there)).then_some(()));
    }
}

#[test]
fn what_was_measured_is_gone_on_with() {
    let meeting = Meeting::new();
    let short = SHORT.replace("--launches 2", "--launches 1");
    let long =
        short.replace("--time-budget 60s --precision 50%", "--time-budget 300s --precision 0.1%");
    let (all, processes) = with(&meeting, &long);
    signal("KILL", all[1].id());
    ends(&meeting, all, &processes, Some(1));
    let before = meeting.samples().blocks.len();
    let others: Vec<_> = [1, 2].map(|rank| start(meeting.rank(rank, 3, "token", ""))).into();
    let flags = format!("{short} --resume");
    let (code, _, err) = finish(start(meeting.rank(0, 3, "token", &flags)));
    assert_eq!(code, Some(0), "{err}");
    assert!(meeting.samples().blocks.len() > before, "{err}");
    others.into_iter().for_each(|other| assert_eq!(finish(other).0, Some(0)));
}

#[test]
fn a_wrong_token_is_refused_by_both_and_ends_nothing() {
    let meeting = Meeting::new();
    meeting.token("other", [8; 32], 0o600);
    let first = start(meeting.rank(0, 2, "token", "--check"));
    for _ in 0..4 {
        let (code, _, err) = finish(start(meeting.rank(1, 2, "other", "")));
        assert_eq!(code, Some(3), "{err}");
        assert!(err.contains("the coordinator has another token"), "{err}");
    }
    // Nobody is banned for what others at its address did.
    let (code, _, err) = finish(start(meeting.rank(1, 2, "token", "")));
    assert_eq!(code, Some(0), "{err}");
    let (code, _, err) = finish(first);
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains("does not know the token"), "{err}");
}

#[test]
fn a_token_that_never_ends_is_refused_at_once() {
    let meeting = Meeting::new();
    let pipe = meeting.folder.join("pipe");
    let made = Command::new("mkfifo").arg("-m").arg("600").arg(&pipe).status();
    assert!(made.expect("mkfifo starts").success());
    let since = Instant::now();
    let (code, _, err) = finish(start(meeting.rank(1, 2, "pipe", "")));
    assert_eq!((code, err.contains("the token is not a file")), (Some(3), true), "{err}");
    assert!(since.elapsed() < LIMIT);
}

#[test]
fn a_token_that_others_can_read_is_refused() {
    let meeting = Meeting::new();
    meeting.token("open", [7; 32], 0o644);
    for rank in [0, 1] {
        let (code, _, err) = finish(start(meeting.rank(rank, 2, "open", SHORT)));
        assert_eq!(code, Some(3), "{err}");
        assert!(err.contains("others may read the token: its mode is 644"), "{err}");
    }
    fs::write(meeting.folder.join("token"), "short").unwrap();
    let (code, _, err) = finish(start(meeting.rank(1, 2, "token", "")));
    assert_eq!((code, err.contains("5 bytes, fewer than 32")), (Some(3), true), "{err}");
    let (code, _, err) = finish(start(meeting.rank(1, 2, "none", "")));
    assert_eq!((code, err.contains("the token cannot be read")), (Some(3), true), "{err}");
}

#[test]
fn a_second_coordinator_is_refused() {
    let meeting = Meeting::new();
    let first = start(meeting.rank(0, 2, "token", "--check"));
    soon("the first", || TcpStream::connect(meeting.at).ok());
    let (code, _, err) = finish(start(meeting.rank(0, 2, "token", "--check")));
    assert_eq!(code, Some(3), "{err}");
    assert!(err.contains("a second coordinator?"), "{err}");
    let other = start(meeting.rank(1, 2, "token", ""));
    assert_eq!(finish(first).0, Some(0), "the first is not harmed");
    assert_eq!(finish(other).0, Some(0));
}

#[test]
fn a_rank_that_is_there_twice_is_refused() {
    let meeting = Meeting::new();
    let first = start(meeting.rank(0, 3, "token", "--check"));
    let twice = [(); 2].map(|()| start(meeting.rank(1, 3, "token", "")));
    let wrong = finish(start(meeting.rank(1, 4, "token", "")));
    assert_eq!(wrong.0, Some(3), "{}", wrong.2);
    assert!(wrong.2.contains("this run has 3 ranks, not 4"), "{}", wrong.2);
    // Which of the two came first is open; the other is told.
    let refused = "rank 1 has joined already";
    soon("its end", || twice.iter().any(|one| is_zombie(one.id())).then_some(()));
    let two = start(meeting.rank(2, 3, "token", ""));
    let (code, _, err) = finish(first);
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains(refused), "{err}");
    assert_eq!(finish(two).0, Some(0));
    let mut codes = twice.map(|one| finish(one).0);
    codes.sort();
    assert_eq!(codes, [Some(0), Some(3)]);
}

/// Whether a process has ended and nobody has asked how.
fn is_zombie(pid: u32) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    text.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z'))
}

/// What each end says first, of a version of its own.
fn greeting(tool: &str, protocol: u32) -> Vec<u8> {
    let mut bytes = b"collcost".to_vec();
    bytes.extend(protocol.to_le_bytes());
    bytes.extend(tool.bytes());
    bytes.resize(36, 0);
    bytes.extend([9; 32]);
    bytes
}

#[test]
fn another_version_is_refused_by_both() {
    // With a digest of the schedules.
    let own = format!("{}+", env!("CARGO_PKG_VERSION"));
    let meeting = Meeting::new();
    let first = start(meeting.rank(0, 2, "token", "--check"));
    assert_eq!(&overheard(meeting.at)[..8], b"collcost");
    let (code, _, err) = finish(start(meeting.rank(1, 2, "token", "")));
    assert_eq!(code, Some(0), "{err}");
    let (code, _, err) = finish(first);
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains("it is collcost 9.8.7, protocol 1") && err.contains(&own), "{err}");

    let listener = TcpListener::bind(meeting.at).expect("the port is free again");
    let other = start(meeting.rank(1, 2, "token", ""));
    let (mut stream, _) = listener.accept().unwrap();
    stream.write_all(&greeting("1.0.0", 3)).unwrap();
    let (code, _, err) = finish(other);
    assert_eq!(code, Some(3), "{err}");
    assert!(err.contains("the coordinator is collcost 1.0.0, protocol 3") && err.contains(&own));
}

/// Calls and says what belongs to nobody, as often as it can, until it is dropped.
struct Flood<'a>(&'a AtomicBool);

impl Drop for Flood<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_flood_of_strangers_holds_up_nobody() {
    let meeting = Meeting::new();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let flood = Flood(&over);
        let first = start(meeting.rank(0, 3, "token", "--check"));
        soon("the coordinator", || TcpStream::connect(meeting.at).ok());
        let silent = scope.spawn(|| {
            let mut calls: Vec<TcpStream> = Vec::new();
            let mut count = 0;
            while !over.load(Ordering::Relaxed) {
                calls.extend(TcpStream::connect_timeout(&meeting.at, Duration::from_millis(100)));
                count += 1;
                if calls.len() > 200 {
                    calls.clear();
                }
                thread::sleep(Duration::from_micros(300));
            }
            count
        });
        // Garbage, other versions, and codes of another token, each waiting for what comes back.
        let loud: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let said =
                        [vec![0; 68], greeting("9.8.7", 1), Vec::new(), b"GET / HTTP".to_vec()];
                    let mut count = 0;
                    while !over.load(Ordering::Relaxed) {
                        let wait = Duration::from_millis(100);
                        let Ok(mut stream) = TcpStream::connect_timeout(&meeting.at, wait) else {
                            thread::sleep(Duration::from_millis(1));
                            continue;
                        };
                        let _ = stream.set_read_timeout(Some(wait));
                        let mut own = [0; 68];
                        match &said[count % said.len()] {
                            said if said.is_empty() => {
                                // The right version; whatever is said then is the wrong code.
                                let _ = stream.write_all(&greeting("9.8.7", 1));
                                let _ = stream.read_exact(&mut own);
                                let again = TcpStream::connect_timeout(&meeting.at, wait);
                                let _ = again.and_then(|mut again| {
                                    again.write_all(&[&own[..], &[1; 32]].concat())
                                });
                            }
                            said => drop(stream.write_all(said)),
                        }
                        let _ = stream.read(&mut own);
                        count += 1;
                    }
                    count
                })
            })
            .collect();
        thread::sleep(Duration::from_secs(1));
        let others: Vec<_> = [1, 2].map(|rank| start(meeting.rank(rank, 3, "token", ""))).into();
        let (code, _, err) = finish(first);
        drop(flood);
        assert!(silent.join().unwrap() > 50);
        let calls: usize = loud.into_iter().map(|loud| loud.join().unwrap()).sum();
        assert!(calls > 100, "{calls}");
        assert_eq!(code, Some(0), "{err}");
        assert!(err.lines().count() <= 20, "{err}");
        others.into_iter().for_each(|other| assert_eq!(finish(other).0, Some(0)));
    });
}

/// The greeting of the coordinator at `at`: who has it greets with the right version. A process that another test
/// starts meanwhile may hold the socket by which `free_address` found the port until it executes its program,
/// and resets who called that instead of the coordinator.
fn overheard(at: SocketAddr) -> [u8; 68] {
    soon("the coordinator", || {
        let mut stream = TcpStream::connect(at).ok()?;
        stream.write_all(&greeting("9.8.7", 1)).ok()?;
        let mut theirs = [0; 68];
        stream.read_exact(&mut theirs).ok()?;
        Some(theirs)
    })
}

/// One stranger of those who call a thousand times a second: garbage, another version, the right
/// version with the code of another token, or nothing but a byte now and then. What is slow stays
/// in `slow` for two seconds. Returns whether a wrong code was refused.
fn attack(
    at: SocketAddr,
    theirs: &[u8],
    number: usize,
    slow: &mut VecDeque<(Instant, TcpStream)>,
) -> bool {
    let wait = Duration::from_millis(100);
    while slow.front().is_some_and(|(since, _)| since.elapsed() > Duration::from_secs(2)) {
        slow.pop_front();
    }
    slow.iter_mut().rev().take(1).for_each(|(_, stream)| drop(stream.write_all(&[0])));
    let Ok(mut stream) = TcpStream::connect_timeout(&at, wait) else { return false };
    let _ = stream.set_read_timeout(Some(wait));
    match number % 4 {
        0 => drop(stream.write_all([&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 200]][number / 4 % 2])),
        1 => drop(stream.write_all(&greeting("9.8.7", 1))),
        2 => {
            let _ = stream.write_all(&[theirs, &[1; 32]].concat());
            let mut said = [1; 69];
            return stream.read_exact(&mut said).is_ok() && said[68] == 0;
        }
        _ => slow.push_back((Instant::now(), stream)),
    }
    false
}

/// A run while strangers call; its ranks come so late. How many called, how many wrong codes were
/// refused, and how many lines it said.
fn beside_attackers(late: Duration) -> [usize; 3] {
    const CALLERS: u32 = 32;
    /// Of each of them: together some more than a thousand a second.
    const PACE: Duration = Duration::from_millis(26);
    let meeting = Meeting::with(None);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let flood = Flood(&over);
        let first = start(meeting.rank(0, 3, "token", "--check"));
        let theirs = overheard(meeting.at);
        let since = Instant::now();
        let (over, at) = (&over, meeting.at);
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| {
                scope.spawn(move || {
                    let (mut count, mut refused, mut slow) = (0, 0, VecDeque::new());
                    while !over.load(Ordering::Relaxed) {
                        let number = count + caller as usize;
                        refused += usize::from(attack(at, &theirs, number, &mut slow));
                        count += 1;
                        let next = PACE * count as u32;
                        thread::sleep(next.saturating_sub(since.elapsed()));
                    }
                    [count, refused]
                })
            })
            .collect();
        thread::sleep(late);
        let others: Vec<_> = [1, 2].map(|rank| start(meeting.rank(rank, 3, "token", ""))).into();
        let (code, _, err) = finish(first);
        drop(flood);
        let [calls, refused] = callers
            .into_iter()
            .map(|caller| caller.join().unwrap())
            .fold([0, 0], |all, own| [all[0] + own[0], all[1] + own[1]]);
        assert_eq!(code, Some(0), "after {late:?}, {calls} calls: {err}");
        others.into_iter().for_each(|other| assert_eq!(finish(other).0, Some(0), "{late:?}"));
        [calls, refused, err.lines().count()]
    })
}

/// A hundred runs, each beside a thousand strangers a second for up to half a minute; a part of
/// them where nobody asks for all.
#[test]
fn ranks_join_beside_a_thousand_strangers_a_second() {
    let runs = 100 / full::one_in(50);
    let longest = if runs == 100 { 25_000 } else { 3000 };
    let found: Mutex<Vec<(Duration, [usize; 3])>> = Mutex::default();
    let next = AtomicU32::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let run = next.fetch_add(1, Ordering::Relaxed) as usize;
                    if run >= runs {
                        return;
                    }
                    let late = Duration::from_millis((run * 7919 + 500) as u64 % longest);
                    let since = Instant::now();
                    let said = beside_attackers(late);
                    assert!(said[2] <= 20, "{} lines", said[2]);
                    found.lock().unwrap().push((since.elapsed(), said));
                }
            });
        }
    });
    let found = found.into_inner().unwrap();
    let seconds: f64 = found.iter().map(|(took, ..)| took.as_secs_f64()).sum();
    let sum = |which: usize| found.iter().map(|(_, said)| said[which]).sum::<usize>();
    let lines = found.iter().map(|(_, said)| said[2]).max().unwrap();
    let (calls, refused) = (sum(0), sum(1));
    println!(
        "{runs} of {runs} runs joined in {seconds:.0} s beside {calls} strangers, {:.0} a second; \
         {refused} wrong codes refused; at most {lines} lines",
        calls as f64 / seconds
    );
    assert_eq!(found.len(), runs);
    assert!(calls > 50 * runs && refused > 5 * runs, "{calls} calls, {refused} refused");
}

#[test]
fn what_is_no_message_ends_the_connection_alone() {
    let meeting = Meeting::new();
    let first = start(meeting.rank(0, 2, "token", "--check"));
    for said in
        [&b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"[..], &[255; 4096], &greeting("x", 1)[..20]]
    {
        let mut stream = soon("the coordinator", || TcpStream::connect(meeting.at).ok());
        // It may hang up before all was said.
        let _ = stream.write_all(said);
    }
    let (code, _, err) = finish(start(meeting.rank(1, 2, "token", "")));
    assert_eq!(code, Some(0), "{err}");
    let (code, _, err) = finish(first);
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains("was rejected: it is not collcost"), "{err}");
}

#[test]
fn ranks_of_a_launcher_on_one_host_need_no_token_file() {
    let meeting = Meeting::new();
    let start = |rank: u32| {
        let mut command = collcost(&format!(
            "calibrate --transport tcp --check --rendezvous {} --wait poll --progress none",
            meeting.at
        ));
        command.env("OMPI_COMM_WORLD_RANK", rank.to_string()).env("OMPI_COMM_WORLD_SIZE", "2");
        command.env("PMIX_NAMESPACE", format!("test-{}", meeting.at.port()));
        command.env("TMPDIR", &meeting.folder).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Running::of(command.spawn().expect("it starts"))
    };
    // The others may come first: they wait for what rank 0 makes.
    let other = start(1);
    thread::sleep(Duration::from_millis(300));
    let (first, other) = (start(0).output(), other.output());
    for output in [&first, &other] {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(matches!(output.status.code(), Some(0 | 3)), "{text}");
        assert!(!text.contains("token"), "{text}");
    }
    assert!(String::from_utf8_lossy(&first.stderr).contains("rank 0 of 2 by openmpi"));
    // Nothing of it is left beside the token that this test has for others.
    assert_eq!(fs::read_dir(&meeting.folder).expect("the folder").count(), 1);
}

#[test]
fn what_cannot_be_is_said() {
    for (flags, code, said) in [
        ("--rank 1 -n 2 --rendezvous 127.0.0.1:1", 2, "the ranks need a token"),
        ("--rank 0 -n 2", 2, "where do the ranks meet?"),
        ("--rank 0 --rendezvous 127.0.0.1:1", 2, "how many ranks are there?"),
        ("--rendezvous 127.0.0.1:1", 2, "which rank is this?"),
        ("--rank 2 -n 2 --rendezvous 127.0.0.1:1", 2, "no rank 2 of 2"),
        ("--launcher slurn", 2, "did you mean `slurm`?"),
        ("--launcher slurm", 2, "it would have set SLURM_PROCID"),
        ("--rank 0 -n 2 --rendezvous 127.0.0.1:1 --transport shm", 2, "--launcher none"),
        ("--rank 0 -n 2 --rendezvous 127.0.0.1:1 --netns a=1.1.1.1", 2, "leave out --netns"),
    ] {
        let output = collcost(&format!("calibrate {flags}")).output().expect("it starts");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{flags}: {text}");
        assert!(text.contains(said), "{flags}: {text}");
    }
    let meeting = Meeting::new();
    let mut command = meeting.rank(0, 2, "token", "");
    command.args(["--rendezvous", "192.0.2.1:4000"]);
    let text = String::from_utf8_lossy(&command.output().expect("it starts").stderr).into_owned();
    assert!(text.contains("cannot be used multiple times"), "{text}");
    let mut command = collcost("calibrate --rank 0 -n 2 --rendezvous 192.0.2.1:4000 --token-file");
    let output = command.arg(meeting.folder.join("token")).output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("not an address of this host"), "{text}");
}

/// A rank whose clock is another: in a time namespace, a thousand seconds ahead.
#[test]
fn clocks_of_several_hosts_are_put_together() {
    let unshare = ["--time", "--monotonic", "1000", "--fork", "--kill-child"];
    let possible = Command::new("unshare").args(unshare).arg("true").stderr(Stdio::null()).status();
    if !possible.is_ok_and(|status| status.success()) {
        eprintln!("not tested: this user may not make time namespaces");
        return;
    }
    let meeting = Meeting::new();
    let flags = "--ops one-way,shift,allreduce/ring,broadcast/binomial --sizes 1K..4M \
                 --launches 1 --time-budget 100s --precision 50%";
    let far = meeting.rank(1, 2, "token", "");
    let mut command = Command::new("unshare");
    command.args(unshare).arg(far.get_program()).args(far.get_args());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let other = start(command);
    let (code, _, err) = finish(start(meeting.rank(0, 2, "token", flags)));
    assert!(matches!(code, Some(0 | 4)), "{err}");
    finish(other);
    let samples = meeting.samples();
    // A thousand seconds would be seen in every sample; so would a clock put the wrong way round.
    let spans = samples.blocks.iter().flat_map(|block| &block.samples).map(|sample| sample.span.0);
    let all: Vec<f64> = spans.collect();
    assert!(all.len() > 50 && all.iter().all(|&span| span > 1e-7 && span < 5.0), "{all:?}");
    // A broadcast of few bytes takes less than clocks are known to: it is not sampled.
    let least = |name: &str| {
        let of = samples.blocks.iter().filter(|block| block.op.to_string() == name);
        of.map(|block| block.size.0).min()
    };
    let (there_and_back, spread) = (least("one-way").unwrap(), least("broadcast/binomial"));
    assert!(spread.is_none_or(|size| size > there_and_back), "{spread:?}, {there_and_back}");
}

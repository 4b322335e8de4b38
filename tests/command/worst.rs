//! Whatever a file of a megabyte holds, the command takes few bytes and little work, and says one
//! short thing about it: of every kind of file a number of bad ones (`worst/cases.rs`).
//!
//! Memory is held by the system's limit on data and seen in `/proc`; work is processor time. How
//! much is looked at: a few cases of a kind; with `COLLCOST_FULL` very many. Time depends on how
//! the command was built: it is judged where `COLLCOST_WORST` names a command that is optimised,
//! and then the table of docs/dev/worst-cases.md can be written (`TRYCMD=overwrite`).
#![cfg(target_os = "linux")]

mod cases;
mod kinds;

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use cases::Case;
use kinds::{KINDS, Kind, Seed};

#[path = "../support/full.rs"]
mod full;

/// What one question may take, in KiB and in seconds; and what is said about it, in bytes.
const MEMORY: u64 = 256 << 10;
const TIME: f64 = 2.0;
const SAID: usize = 8 << 10;

/// Cases of a kind, where all are looked at.
const ALL: usize = 120;

/// A command that is not optimised needs longer; beyond this it hangs.
const HANGS: u64 = 20;

fn program() -> PathBuf {
    std::env::var_os("COLLCOST_WORST").map_or(env!("CARGO_BIN_EXE_collcost").into(), PathBuf::from)
}

/// Whether the command is one whose times count.
fn is_timed() -> bool {
    std::env::var_os("COLLCOST_WORST").is_some()
}

fn seed(kind: &Kind) -> String {
    match kind.seed {
        Seed::File(name) => {
            let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
            fs::read_to_string(data.join(name)).unwrap()
        }
        Seed::Said(words) => {
            let output = Command::new(program()).args(words.split(' ')).output().unwrap();
            assert!(output.status.success(), "{words}");
            String::from_utf8(output.stdout).unwrap()
        }
        Seed::Text(text) => text.to_owned(),
    }
}

/// The page that says what was found, and before which line of it the table stands.
const PAGE: &str = "docs/dev/worst-cases.md";
const HEAD: &str =
    "| kind | asked by | cases | MiB | for | s | for |\n|---|---|---|---|---|---|---|\n";

/// Puts the table onto its page.
fn write(table: &str) {
    if std::env::var("TRYCMD").is_ok_and(|how| how == "overwrite") {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
        let text = fs::read_to_string(&page).unwrap();
        let (before, rest) = text.split_once(HEAD).unwrap();
        let after = rest.find("\n\n").map_or("", |end| &rest[end + 1..]);
        fs::write(page, [before, HEAD, table, after].concat()).unwrap();
    }
}

#[test]
fn the_table_of_worst_cases_has_every_kind() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let text = fs::read_to_string(page).unwrap();
    let (_, table) = text.split_once(HEAD).unwrap();
    let rows: Vec<Vec<&str>> = table
        .lines()
        .take_while(|l| l.starts_with('|'))
        .map(|l| l.split('|').map(str::trim).collect())
        .collect();
    let names: Vec<&str> = rows.iter().map(|row| row[1]).collect();
    assert_eq!(names, KINDS.iter().map(|kind| kind.name).collect::<Vec<_>>());
    for row in rows {
        assert!(row[4].parse::<u64>().unwrap() <= MEMORY >> 10, "{row:?}");
    }
}

/// What a question took.
#[derive(Debug, Clone, Copy, Default)]
struct Took {
    kib: u64,
    seconds: f64,
}

/// What `/proc` says of a process: its most memory so far, its processor time, whether it has ended.
fn look(pid: u32) -> (Option<u64>, f64, bool) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|text| text.trim().trim_end_matches(" kB").parse().ok());
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> =
        stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ').collect();
    let ticks = |i: usize| fields.get(i).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
    (peak, (ticks(11) + ticks(12)) / 100.0, fields.first().is_none_or(|state| *state == "Z"))
}

/// Asks, and says what is wrong with how that went.
fn ask(kind: &Kind, folder: &Path, case: &Case) -> (Took, Option<String>) {
    let file = folder.join("input");
    fs::write(&file, &case.bytes).unwrap();
    fs::write(
        folder.join("collcost.toml"),
        if kind.name == "settings" { &case.bytes } else { &[][..] },
    )
    .unwrap();
    let other = folder.join("other");
    fs::write(&other, seed(kind)).unwrap();
    let words = kind.words.trim_end_matches(" <").replace("FILE", &file.to_string_lossy());
    let words = words.replace("OTHER", &other.to_string_lossy());
    let mut command = Command::new("sh");
    let limits = format!("ulimit -d {MEMORY}; ulimit -t {HANGS}; ulimit -c 0; exec \"$0\" \"$@\"");
    command.arg("-c").arg(limits).arg(program()).args(words.split(' '));
    match kind.name {
        // What lies in the folder is read too.
        "settings" => command.current_dir(folder),
        _ => command.current_dir(env!("CARGO_MANIFEST_DIR")),
    };
    command.env("XDG_CONFIG_HOME", folder).env_remove("COLLCOST_PROFILE");
    command.stdin(if kind.words.ends_with('<') {
        File::open(&file).unwrap().into()
    } else {
        Stdio::null()
    });
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = child.stderr.take().unwrap();
    let hears = thread::spawn(move || {
        let mut text = Vec::new();
        said.read_to_end(&mut text).map(|_| text)
    });
    let mut took = Took::default();
    let since = std::time::Instant::now();
    loop {
        if since.elapsed() > Duration::from_secs(4 * HANGS) {
            let _ = child.kill();
        }
        let (kib, seconds, ended) = look(child.id());
        took = Took { kib: took.kib.max(kib.unwrap_or(0)), seconds: took.seconds.max(seconds) };
        if ended {
            break;
        }
        thread::sleep(Duration::from_micros(500));
    }
    let status = child.wait().unwrap();
    let said = hears.join().unwrap().unwrap();
    let text = String::from_utf8_lossy(&said[..said.len().min(300)]).into_owned();
    let wrong = if !matches!(status.code(), Some(0..=4)) {
        Some(format!("{:?} {:?}: {text}", status.code(), status.signal()))
    } else if took.kib > MEMORY {
        Some(format!("{} MiB", took.kib >> 10))
    } else if said.len() > SAID {
        Some(format!("it says {} bytes: {text}", said.len()))
    } else if is_timed() && took.seconds > TIME {
        Some(format!("{} s", took.seconds))
    } else {
        None
    };
    (took, wrong)
}

/// The most of each, and for which case.
#[derive(Default, Clone)]
struct Worst {
    cases: usize,
    kib: (u64, String),
    seconds: (f64, String),
}

#[test]
fn a_megabyte_of_anything_takes_little() {
    let many = ALL / full::one_in(ALL);
    let only = std::env::var("COLLCOST_KIND").ok();
    let kinds: Vec<&Kind> =
        KINDS.iter().filter(|k| only.as_ref().is_none_or(|only| k.name.contains(only))).collect();
    let found: Mutex<Vec<Worst>> = Mutex::new(vec![Worst::default(); kinds.len()]);
    let faults: Mutex<Vec<String>> = Mutex::default();
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let folder = tempfile::tempdir().unwrap();
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(kind) = kinds.get(at) else { return };
                    let good = seed(kind);
                    // Of a few cases each kind looks at others.
                    let first = if many == ALL { 0 } else { at * many };
                    // Those that are no text have cases of their own alone.
                    let many = if good.is_empty() { 0 } else { many };
                    let drawn = (first..first + many).map(|number| cases::case(&good, number));
                    for case in cases::own(kind.name).into_iter().chain(drawn) {
                        let (took, wrong) = ask(kind, folder.path(), &case);
                        if let Some(wrong) = wrong {
                            let line = format!("{}: {}: {wrong}", kind.name, case.name);
                            faults.lock().unwrap().push(line);
                        }
                        let worst = &mut found.lock().unwrap()[at];
                        worst.cases += 1;
                        if took.kib > worst.kib.0 {
                            worst.kib = (took.kib, case.name.clone());
                        }
                        if took.seconds >= worst.seconds.0 {
                            worst.seconds = (took.seconds, case.name.clone());
                        }
                    }
                }
            });
        }
    });
    let found = found.into_inner().unwrap();
    let mut table = String::new();
    for (kind, worst) in kinds.iter().zip(&found) {
        let (mib, seconds) = (worst.kib.0.div_ceil(1 << 10), worst.seconds.0);
        let clean = |text: &str| text.replace('|', "¦").replace('\n', " ");
        writeln!(
            table,
            "| {} | `{}` | {} | {mib} | {} | {seconds:.2} | {} |",
            kind.name,
            kind.words,
            worst.cases,
            clean(&worst.kib.1),
            clean(&worst.seconds.1)
        )
        .unwrap();
    }
    println!("{table}");
    if is_timed() && only.is_none() {
        write(&table);
    }
    let faults = faults.into_inner().unwrap();
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
}

//! What the command says depends on nobody who reads: every verb with every way to lose its standard
//! output and its standard error; files that are written while others read them, and while the writer
//! is killed.
#![cfg(target_os = "linux")]

use std::fs::{self, File, OpenOptions};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::full;

fn collcost(words: &str, here: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_collcost"));
    command.args(words.split_whitespace()).current_dir(here).env_remove("COLLCOST_PROFILE");
    command.env("XDG_CONFIG_HOME", here).stdin(Stdio::null());
    command
}

/// A folder with a budget that fails, one that holds, and a log that is too slow.
fn folder() -> tempfile::TempDir {
    let here = tempfile::tempdir().unwrap();
    let budget = |limit: &str| {
        format!(
            "[[budget]]\nname = \"a\"\ncollective = \"allreduce\"\nn = 64\nsize = \"1GiB\"\n\
             profile = \"dgx-h100\"\nmax_time = \"{limit}\"\n"
        )
    };
    fs::write(here.path().join("fails.toml"), budget("1us")).unwrap();
    fs::write(here.path().join("holds.toml"), budget("20ms")).unwrap();
    fs::write(here.path().join("wrong.toml"), budget("1 foot")).unwrap();
    let header =
        r#"{"schema":"collcost/events/1","collective":"broadcast","ranks":2,"chunk_bytes":[1.0]}"#;
    fs::write(here.path().join("nothing.jsonl"), header).unwrap();
    here
}

/// Every verb, and what it exits with where everything can be read.
const VERBS: &[(&str, i32)] = &[
    ("allreduce 1MiB -n 8", 0),
    ("allgather 1MiB -n 8", 0),
    ("reducescatter 1MiB -n 8", 0),
    ("alltoall 1MiB -n 8", 0),
    ("broadcast 1MiB -n 8", 0),
    ("reduce 1MiB -n 8", 0),
    ("scatter 1MiB -n 8", 0),
    ("gather 1MiB -n 8", 0),
    ("sendrecv 1MiB -n 8", 0),
    ("barrier -n 8", 0),
    ("allreduce -n 0", 2),
    ("crossover allreduce tree ring -n 8", 0),
    ("select nccl allreduce -n 8", 0),
    ("simulate allreduce ring 1MiB -n 4", 0),
    ("explain terms", 0),
    ("explore --out -", 0),
    ("trace allreduce ring -n 4", 0),
    ("trace allreduce ring -n 4 --events", 0),
    ("verify allreduce --algorithm ring -n 4", 0),
    ("verify --schedule nothing.jsonl", 1),
    ("export msccl allreduce ring -n 4", 0),
    ("profiles", 0),
    ("profiles check --builtin", 0),
    ("profiles diff dgx-h100 dgx-a100", 1),
    ("fit holds.toml", 2),
    ("import holds.toml", 2),
    ("accuracy holds.toml", 2),
    ("compare allreduce --n 8 --size 1GiB --busbw 1GB/s", 1),
    ("mock all_reduce_perf -n 8", 0),
    ("check holds.toml", 0),
    ("check fails.toml", 1),
    ("check wrong.toml", 2),
    ("plan", 2),
    ("bucket --model 1GB -n 8", 0),
    ("config", 0),
    ("convert 120GB/s algbw busbw -n 16", 0),
    ("nccl choose allreduce --comm dgx_h100_8x400g.p8.n2", 0),
    ("batch", 0),
    ("mcp", 0),
    ("list topics", 0),
    ("completions bash", 0),
    ("man", 0),
    ("run nothing", 2),
    ("calibrate --ops nothing", 2),
    ("--help", 0),
    ("check --help", 0),
    ("--version", 0),
    ("", 0),
    ("nonsense", 2),
];

/// What becomes of an output.
#[derive(Debug, Clone, Copy, PartialEq)]
enum To {
    Nowhere,
    Full,
    Closed,
    Gone,
}

impl To {
    const ALL: [Self; 4] = [Self::Nowhere, Self::Full, Self::Closed, Self::Gone];

    /// A pipe whose reader has left stands for [`Self::Gone`]; a shell closes.
    fn stdio(self) -> Stdio {
        match self {
            Self::Nowhere | Self::Closed => Stdio::null(),
            Self::Full => OpenOptions::new().write(true).open("/dev/full").unwrap().into(),
            Self::Gone => std::io::pipe().unwrap().1.into(),
        }
    }

    fn closing(self, number: u8) -> String {
        if self == Self::Closed { format!(" {number}>&-") } else { String::new() }
    }
}

#[test]
fn exit_codes_are_of_the_answer_and_not_of_its_readers() {
    let here = folder();
    // Every verb with every end of its standard output; all pairs over the verbs.
    let some = full::one_in(4);
    for (i, &(words, plain)) in VERBS.iter().enumerate() {
        for out in To::ALL {
            for (_, err) in To::ALL.into_iter().enumerate().filter(|(k, _)| (i + k) % some == 0) {
                let inner = collcost(words, here.path());
                let mut shell = Command::new("sh");
                let closing = out.closing(1) + &err.closing(2);
                shell.arg("-c").arg(format!("exec \"$0\" \"$@\"{closing}"));
                shell.arg(inner.get_program()).args(inner.get_args()).current_dir(here.path());
                shell.env("XDG_CONFIG_HOME", here.path()).env_remove("COLLCOST_PROFILE");
                shell.stdin(Stdio::null()).stdout(out.stdio()).stderr(err.stdio());
                let code = shell.status().unwrap().code();
                // Nothing was asked of batch and mcp: they have nothing to lose.
                let lost = out == To::Full && !["batch", "mcp"].contains(&words);
                let expected = if plain == 0 && lost { 5 } else { plain };
                assert_eq!(
                    code,
                    Some(expected),
                    "collcost {words}, stdout {out:?}, stderr {err:?}"
                );
            }
        }
    }
}

#[test]
fn readers_see_whole_files_whoever_writes() {
    let here = folder();
    let file = here.path().join("page");
    let whole: Vec<String> = [2, 3]
        .map(|n| {
            let output =
                collcost(&format!("export msccl allreduce ring -n {n}"), here.path()).output();
            String::from_utf8(output.unwrap().stdout).unwrap()
        })
        .into();
    // All at once, and a reader beside them.
    let writers = 1000 / full::one_in(25);
    let words = |i: usize| format!("export msccl allreduce ring -n {} -o page", 2 + i % 2);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut reads = 0;
            while !over.load(Ordering::Relaxed) {
                match fs::read_to_string(&file) {
                    Ok(text) => assert!(whole.contains(&text), "torn: {} bytes", text.len()),
                    Err(e) => assert_eq!(e.kind(), std::io::ErrorKind::NotFound),
                }
                reads += 1;
            }
            reads
        });
        let start = |i| collcost(&words(i), here.path()).stderr(Stdio::null()).spawn().unwrap();
        let all: Vec<_> = (0..writers).map(start).collect();
        let good = all.into_iter().filter_map(|mut one| one.wait().ok()).filter(|s| s.success());
        let good = good.count();
        over.store(true, Ordering::Relaxed);
        let reads: usize = reader.join().unwrap();
        println!("{good} of {writers} writers at once wrote, {reads} reads, none torn");
        assert_eq!(good, writers);
    });
    assert!(whole.contains(&fs::read_to_string(&file).unwrap()));
    assert_eq!(left(here.path()), Vec::<String>::new());
}

/// Files that no name of ours is.
fn left(here: &Path) -> Vec<String> {
    let names = fs::read_dir(here).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with('.') || name.contains("part")).collect()
}

#[test]
fn a_killed_writer_leaves_the_old_file_or_the_new_one() {
    let here = folder();
    // Its name is a link, to a file elsewhere.
    let (file, link) = (here.path().join("page.html"), here.path().join("lesson.html"));
    let page = collcost("explore --out -", here.path()).output().unwrap().stdout;
    fs::write(&file, "old").unwrap();
    std::os::unix::fs::symlink("page.html", &link).unwrap();
    let kills = 10_000 / full::one_in(1000) as u64;
    let (mut ended, mut killed) = (0, 0);
    let since = Instant::now();
    assert!(collcost("explore --out other.html", here.path()).output().unwrap().status.success());
    // How long a run takes, until one in five has ended when it is killed.
    let mut whole = since.elapsed().as_secs_f64();
    for i in 0..kills {
        let mut writer = collcost("explore --out lesson.html", here.path());
        let mut writer = writer.stdout(Stdio::null()).spawn().unwrap();
        thread::sleep(Duration::from_secs_f64(whole * (i * 7919 % 1009) as f64 / 1009.0));
        let _ = writer.kill();
        let success = writer.wait().unwrap().success();
        (ended, killed) = (ended + u32::from(success), killed + u32::from(!success));
        whole *= if success { 0.98 } else { 1.005 };
        let found = fs::read(&file).unwrap();
        assert!(found == b"old" || found == page, "torn after kill {i}: {} bytes", found.len());
        assert!(link.is_symlink(), "the link was replaced after kill {i}");
    }
    println!("{killed} killed, {ended} ended before, {} names left", left(here.path()).len());
    assert!(killed > 0, "{ended} ended, {killed} killed");
    // Who was killed between its name and its place has left a name, until the next one is written.
    assert!(left(here.path()).len() <= 1 + kills as usize / 1000, "{:?}", left(here.path()));
    assert!(collcost("explore --out lesson.html", here.path()).output().unwrap().status.success());
    assert_eq!(left(here.path()), Vec::<String>::new());
}

#[test]
fn what_files_say_moves_no_cursor() {
    let here = folder();
    let evil = "\\u001b]52;c;aGk=\\u0007\\u001b[2J\\u009b2J";
    let profile = collcost("profiles show dgx-h100 --format toml", here.path()).output().unwrap();
    let text = String::from_utf8(profile.stdout).unwrap();
    let first = text.lines().find(|line| line.starts_with("title")).unwrap().to_owned();
    fs::write(here.path().join("evil.toml"), text.replace(&first, &format!("title = \"{evil}\"")))
        .unwrap();
    fs::write(here.path().join("raw.toml"), "name = \x1b]52;c;aGk=\x07\x1b[2J").unwrap();
    for words in [
        "profiles show evil.toml",
        "profiles show evil.toml --format json",
        "allreduce -n 8 --on evil.toml",
        "allreduce -n 8 --on raw.toml",
        "profiles check raw.toml",
        "import raw.toml",
        "check raw.toml",
        "verify --schedule raw.toml",
        "nccl log raw.toml",
        "bucket --params raw.toml -n 8",
    ] {
        let output = collcost(words, here.path()).env("CLICOLOR_FORCE", "1").output().unwrap();
        for bytes in [output.stdout, output.stderr] {
            let text = String::from_utf8(bytes).unwrap();
            let own = ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[32m", "\x1b[39m"];
            let text = own.iter().fold(text, |text, style| text.replace(style, ""));
            let moves = |c: char| c.is_control() && c != '\n' && c != '\t';
            assert!(!text.contains(moves), "{words}: {text:?}");
        }
    }
}

#[test]
fn devices_and_pipes_stay_what_they_are() {
    use std::os::unix::fs::FileTypeExt;
    let here = folder();
    let pipe = here.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = thread::spawn({
        let pipe = pipe.clone();
        move || {
            let mut text = Vec::new();
            std::io::Read::read_to_end(&mut File::open(pipe).unwrap(), &mut text).unwrap();
            text.len()
        }
    });
    assert!(collcost("explore --out pipe", here.path()).output().unwrap().status.success());
    assert!(reader.join().unwrap() > 100_000);
    assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
    let full =
        collcost("export msccl allreduce ring -n 2 -o /dev/full", here.path()).output().unwrap();
    assert_eq!(full.status.code(), Some(5));
    let nowhere =
        collcost("export msccl allreduce ring -n 2 -o no/file", here.path()).output().unwrap();
    assert_eq!(nowhere.status.code(), Some(2));
}

/// A file of that name is ./-, and the text of an export alone may be the whole output.
#[test]
fn a_dash_is_no_file() {
    let here = folder();
    let plain = collcost("export goal allreduce ring 1MiB -n 2", here.path()).output().unwrap();
    let dash = collcost("export goal allreduce ring 1MiB -n 2 -o -", here.path()).output().unwrap();
    assert!(!plain.stdout.is_empty() && plain.stdout == dash.stdout);
    for words in ["allreduce 1MiB -n 8 --svg -", "check holds.toml --write csv=-"] {
        let refused = collcost(words, here.path()).output().unwrap();
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{words}");
        assert!(said.contains("/dev/stdout"), "{words}: {said}");
    }
    assert!(!here.path().join("-").exists());
}

/// It is named, since nobody sees which of many is meant.
#[test]
fn an_argument_that_is_no_text_is_named() {
    use std::os::unix::ffi::OsStrExt;
    let here = folder();
    let odd = std::ffi::OsStr::from_bytes(b"run-\xff.log");
    let refused = collcost("import", here.path()).arg(odd).output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(said.contains("run-\u{fffd}.log") && said.contains("rename"), "{said}");
}

/// The same cause has the same code in every verb: the place, not this machine or its disk.
#[test]
fn samples_in_a_folder_that_is_not_there_are_the_callers_fault() {
    let here = folder();
    let words = "calibrate -n 2 --out cal.toml --samples no/such/samples.jsonl";
    let refused = collcost(words, here.path()).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("cannot be kept"), "{said}");
}

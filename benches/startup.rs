//! The whole process of the main command, and of 1,000 budgets, beside an empty Rust program, run in
//! turn.
//!
//! `cargo bench --bench startup`. The command is the one that `cargo install` makes, since benches are
//! built with the features of what tests need and with unwinding, which nobody starts: that program
//! is larger and takes a fifth longer. The empty program is compiled with the release profile's
//! flags. Criterion cannot interleave two commands, so this bench has a loop of its own.

#![allow(clippy::disallowed_methods, reason = "a benchmark reads its own data")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PAIRS: usize = 400;

fn main() {
    let (command, empty) = (install(), build_empty());
    let budgets = write_budgets();
    let budgets = budgets.to_str().expect("a path of letters");
    // It writes limits near what the model says.
    run(&command, &["check", budgets, "--update"]);
    let mut times = [(); 3].map(|()| Vec::with_capacity(PAIRS));
    for _ in 0..PAIRS {
        times[0].push(run(&command, &["allreduce", "--n", "64", "--size", "16MiB"]));
        times[1].push(run(&command, &["check", budgets]));
        times[2].push(run(&empty, &[]));
    }
    let [ours, check, empty] = times.map(median);
    println!("main command    {:>7.0} µs, median of {PAIRS}", ours.as_secs_f64() * 1e6);
    println!("1,000 budgets   {:>7.0} µs", check.as_secs_f64() * 1e6);
    println!("empty program   {:>7.0} µs", empty.as_secs_f64() * 1e6);
    println!("main to empty   {:>7.2}", ours.as_secs_f64() / empty.as_secs_f64());
}

/// Each asks something else, over five machines.
fn write_budgets() -> PathBuf {
    let machines = ["dgx-h100", "dgx-a100", "tcp-25g", "gcp-c2d", "abci-v100"];
    let collectives = ["allreduce", "allgather", "reducescatter", "broadcast"];
    let mut text = String::new();
    for i in 0..1000 {
        let (machine, collective) = (machines[i % 5], collectives[i % 4]);
        let (ranks, size) = (8 << (i % 6), (1000 + 977 * i) * (1 + i % 300));
        let _ = writeln!(text, "[[budget]]\nname = \"b{i}\"\ncollective = \"{collective}\"");
        let _ = writeln!(text, "n = {ranks}\nsize = \"{size}B\"\nprofile = \"{machine}\"");
        let _ = writeln!(text, "max_time = \"1s\"\n");
    }
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("budgets.toml");
    std::fs::write(&file, text).expect("the target directory can be written");
    file
}

fn run(program: &Path, arguments: &[&str]) -> Duration {
    let start = Instant::now();
    let status = Command::new(program).args(arguments).stdout(Stdio::null()).status();
    assert!(status.is_ok_and(|s| s.success()), "{} failed", program.display());
    start.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn install() -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("installed");
    let cargo = Command::new(env!("CARGO"))
        .args(["install", "--quiet", "--locked", "--force", "--no-track"])
        .args(["--path", env!("CARGO_MANIFEST_DIR"), "--root"])
        .arg(&root)
        .status();
    assert!(cargo.is_ok_and(|s| s.success()), "cargo installs the command");
    root.join("bin").join(format!("collcost{}", std::env::consts::EXE_SUFFIX))
}

fn build_empty() -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, program) = (dir.join("empty.rs"), dir.join("empty"));
    std::fs::write(&source, "fn main() {}\n").expect("the target directory can be written");
    let flags =
        ["-Copt-level=3", "-Clto=fat", "-Ccodegen-units=1", "-Cpanic=abort", "-Cstrip=symbols"];
    let rustc = Command::new("rustc").args(flags).arg(&source).arg("-o").arg(&program).status();
    assert!(rustc.is_ok_and(|s| s.success()), "rustc builds an empty program");
    program
}

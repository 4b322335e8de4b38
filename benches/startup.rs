//! The whole process of the main command beside an empty Rust program, run in turn.
//!
//! `cargo bench --bench startup`. The command is the one that `cargo install` makes, since benches are
//! built with the features of what tests need and with unwinding, which nobody starts: that program
//! is larger and takes a fifth longer. The empty program is compiled with the release profile's
//! flags. Criterion cannot interleave two commands, so this bench has a loop of its own.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PAIRS: usize = 400;

fn main() {
    let (command, empty) = (install(), build_empty());
    let mut times = [Vec::with_capacity(PAIRS), Vec::with_capacity(PAIRS)];
    for _ in 0..PAIRS {
        times[0].push(run(&command, &["allreduce", "--n", "64", "--size", "16MiB"]));
        times[1].push(run(&empty, &[]));
    }
    let [ours, empty] = times.map(median);
    println!("main command    {:>7.0} µs, median of {PAIRS}", ours.as_secs_f64() * 1e6);
    println!("empty program   {:>7.0} µs", empty.as_secs_f64() * 1e6);
    println!("ratio           {:>7.2}", ours.as_secs_f64() / empty.as_secs_f64());
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

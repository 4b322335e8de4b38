//! A calibration from end to end on this machine: what it writes loads everywhere, and whatever
//! goes wrong ends with one clear line and the named exit code, keeps the samples, and is resumed.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use collcost::machine::sample::{self, Header, Samples};
use collcost::run::launch::usable;

#[path = "../support/process.rs"]
mod process;
use process::{Running, at_work, collcost, end, said, signal, soon};

/// A folder of its own, gone when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("collcost-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder for the test");
        Self(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A calibration that any machine can do at any time: it says itself when it is too busy.
fn line(profile: &Path, more: &str) -> String {
    format!("calibrate -n 2 --wait poll --force --out {} {more}", profile.display())
}

/// Little enough to measure in a moment.
const SMALL: &str = "--ops one-way,shift,allreduce/ring,broadcast/binomial,local-reduce --sizes 8..256K --launches 2";
/// Enough for all of it; it ends as soon as everything is known so well, which on a busy machine is never.
const QUICK: &str = "--time-budget 20s --precision 50%";
/// More than there is time for.
const LONG: &str = "--time-budget 600s --precision 0.0001";

fn run(line: &str) -> Output {
    collcost(line).stdin(Stdio::null()).output().expect("it starts")
}

fn succeeds(line: &str) -> serde_json::Value {
    let output = run(&format!("{line} --format json"));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {text}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn samples(profile: &Path) -> (Header, Samples) {
    let file = profile.with_extension("samples.jsonl");
    let text = fs::read_to_string(&file).expect("samples");
    sample::read(&text, &file.to_string_lossy()).expect("samples that can be read")
}

#[test]
fn a_profile_is_measured_fitted_and_asked() {
    let folder = Folder::new("profile");
    for transport in ["shm", "tcp"] {
        let profile = folder.file(&format!("{transport}.toml"));
        let how = format!("{SMALL} {QUICK} --transport {transport}");
        let report = succeeds(&line(&profile, &how));
        assert_eq!(report["schema"], "collcost/calibrate/1");
        assert_eq!(report["plan"]["transport"], transport);
        let alpha = report["fit"]["alpha_s"]["value"].as_f64().unwrap();
        assert!(alpha > 0.0 && report["measured"]["runs"].as_u64() > Some(100));
        // The same figures from the samples alone.
        let file = profile.with_extension("samples.jsonl");
        let again = succeeds(&format!("fit {} --out {0}.toml --force", file.display()));
        assert_eq!(again["alpha_s"]["value"].as_f64(), Some(alpha));
        // Every other command takes it, and says where its figures come from.
        let name = profile.display();
        for asked in [
            format!("allreduce 64KiB -n 2 --on {name}"),
            format!("simulate broadcast binomial 64KiB -n 2 --on {name}"),
            format!("crossover allreduce -n 2 --on {name}"),
            format!("run allreduce ring 64KiB -n 2 --wait poll --reps 3 --on {name}"),
            format!("profiles show {name}"),
        ] {
            succeeds(&asked);
        }
        let shown = succeeds(&format!("profiles show {name}")).to_string();
        assert!(shown.contains("fitted") && shown.contains(&format!("{transport}.samples.jsonl")));
        let (header, _) = samples(&profile);
        assert!(header.command.starts_with("collcost calibrate"), "{}", header.command);
        assert_eq!((header.ranks, header.transport.as_str()), (2, transport));
    }
}

#[test]
fn without_a_name_it_is_local_and_not_the_default() {
    let folder = Folder::new("home");
    let with_home = |line: &str| {
        let mut command = collcost(line);
        command.env("XDG_CONFIG_HOME", &folder.0).env_remove("COLLCOST_PROFILE");
        command.stdin(Stdio::null()).output().expect("it starts")
    };
    let before = with_home("allreduce 1MiB -n 2").stdout;
    let line = format!("calibrate -n 2 --wait poll --force {SMALL} {QUICK}");
    for _ in 0..2 {
        let output = with_home(&line);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let own = folder.file("collcost/profiles");
    // The first calibration's samples were set aside, not lost.
    for name in ["local.toml", "local.samples.jsonl", "local.1.samples.jsonl"] {
        assert!(own.join(name).is_file(), "{name}");
    }
    // Where another ends without a profile, the old one has its own samples still.
    let short = with_home("calibrate -n 2 --wait poll --force --sizes 8..64M --time-budget 1ms");
    let (code, text) = said(&short);
    assert_eq!(code, Some(4), "{text}");
    assert!(text.contains("too short for its sizes: give a longer --time-budget"), "{text}");
    let text = fs::read_to_string(own.join("local.toml")).unwrap();
    assert!(text.contains("samples = [\"local.2.samples.jsonl\"]"), "{text}");
    assert!(text.contains("fit of local.2.samples.jsonl"), "{text}");
    assert!(own.join("local.2.samples.jsonl").is_file());
    assert!(with_home("allreduce 1MiB -n 2 --on local").status.success());
    assert_eq!(with_home("allreduce 1MiB -n 2").stdout, before);
}

#[test]
fn the_machine_and_the_plan_are_shown_before() {
    let report = succeeds("calibrate --check --force");
    assert!(report["machine"]["cpus_at_once"].as_u64() > Some(0) && report["plan"].is_null());
    assert!(report["gates"].as_array().unwrap().len() >= 4);
    let report = succeeds("calibrate --dry-run --force -n 3 --wait poll --sizes 8..1MiB");
    let sizes = report["plan"]["sizes_bytes"].as_array().unwrap();
    assert_eq!((sizes[0].as_u64(), sizes.last().unwrap().as_u64()), (Some(8), Some(1 << 20)));
    let operations = report["plan"]["operations"].to_string();
    for op in ["one-way", "fan-out/2", "allreduce/ring", "local-reduce", "copy"] {
        assert!(operations.contains(&format!("\"{op}\"")), "{op}: {operations}");
    }
}

#[test]
fn a_lost_rank_is_named_and_the_rest_is_measured_later() {
    let folder = Folder::new("lost");
    for (transport, name, wanted) in [
        ("shm", "KILL", "killed by signal 9"),
        ("tcp", "KILL", "killed by signal 9"),
        ("tcp", "STOP", "its process is stopped"),
    ] {
        let profile = folder.file(&format!("{transport}-{name}.toml"));
        let how = format!("{SMALL} {LONG} --transport {transport}");
        let (child, ranks) = at_work(&line(&profile, &how), 2);
        signal(name, ranks[1]);
        let (code, text) = said(&end(child, &ranks));
        assert_eq!(code, Some(5), "{text}");
        assert!(text.contains("rank 1 was lost") && text.contains(wanted), "{text}");
        assert!(text.contains("--resume continues") && !profile.exists(), "{text}");
        let (_, kept) = samples(&profile);
        assert_eq!(kept.aborted.len(), 1);
        // What goes on with it does not know how the rank was lost.
        if (transport, name) == ("tcp", "KILL") {
            continue;
        }
        let how = format!("{SMALL} {QUICK} --transport {transport} --resume");
        succeeds(&line(&profile, &how));
        let (_, all) = samples(&profile);
        assert!(profile.exists() && all.blocks.len() > kept.blocks.len());
        assert_eq!(all.blocks[..kept.blocks.len()], kept.blocks[..]);
    }
}

#[test]
fn an_interruption_keeps_what_is_measured() {
    let folder = Folder::new("interrupted");
    let profile = folder.file("p.toml");
    let (child, ranks) = at_work(&line(&profile, &format!("{SMALL} {LONG}")), 2);
    signal("INT", child.id());
    let (code, text) = said(&end(child, &ranks));
    assert_eq!(code, Some(130), "{text}");
    assert!(text.contains("p.samples.jsonl; --resume continues"), "{text}");
    samples(&profile);
}

/// Nobody reads the pipe that the profile is to be: opening it would wait for ever.
#[test]
fn what_comes_after_measuring_is_interrupted_too() {
    let folder = Folder::new("pipe");
    let pipe = folder.file("p.toml");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("there is a mkfifo").success());
    let file = folder.file("s.jsonl");
    let how = format!("{SMALL} {QUICK} --samples {}", file.display());
    let child = Running::of(collcost(&line(&pipe, &how)).spawn().expect("it starts"));
    let text = || fs::read_to_string(&file).unwrap_or_default();
    soon("the end of measuring", || {
        let before = text();
        std::thread::sleep(std::time::Duration::from_millis(700));
        let is_over = before.lines().last().is_some_and(|last| last.starts_with("{\"t\":\"end\""));
        (is_over && text() == before).then_some(())
    });
    signal("TERM", child.id());
    assert_eq!(end(child, &[]).status.code(), Some(130));
}

/// What is only shown is not compiled: the programs of a thousand ranks took half a minute of a CPU.
#[test]
fn a_plan_for_many_ranks_is_shown() {
    for what in ["--check", "--dry-run"] {
        let line = format!("calibrate -n 1000 --wait poll --force {what}");
        let output = collcost(&line).stdin(Stdio::null()).output().expect("it starts");
        assert!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// A machine without GPUs needs no folder for their logs.
#[test]
fn cpus_are_measured_where_no_log_can_be_kept() {
    let mut command = collcost("calibrate --check --force");
    let output =
        command.env("TMPDIR", "/nowhere").stdin(Stdio::null()).output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !text.contains("error:"), "{text}");
}

#[test]
fn a_calibration_that_is_killed_leaves_samples_and_no_ranks() {
    let folder = Folder::new("killed");
    let profile = folder.file("p.toml");
    let (child, ranks) = at_work(&line(&profile, &format!("{SMALL} {LONG}")), 2);
    signal("KILL", child.id());
    assert_eq!(end(child, &ranks).status.code(), None);
    samples(&profile);
}

#[test]
fn two_calibrations_do_not_write_to_one_file() {
    let folder = Folder::new("twice");
    let profile = folder.file("p.toml");
    let (child, ranks) = at_work(&line(&profile, &format!("{SMALL} {LONG}")), 2);
    let (code, text) = said(&run(&line(&profile, SMALL)));
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("another calibration writes"), "{text}");
    signal("INT", child.id());
    end(child, &ranks);
    samples(&profile);
}

#[test]
fn a_full_disk_ends_it_with_what_was_kept() {
    let folder = Folder::new("full");
    let profile = folder.file("p.toml");
    // Files of this process may have eight KiB; the signal for more is not wanted, the error is.
    let line = line(&profile, &format!("{SMALL} --time-budget 60s --transport tcp"));
    let script =
        format!("trap '' XFSZ; ulimit -f 8; exec {} {line}", env!("CARGO_BIN_EXE_collcost"));
    let output = Command::new("bash").args(["-c", &script]).output().expect("there is a bash");
    let (code, text) = said(&output);
    assert_eq!(code, Some(5), "{text}");
    assert!(text.contains("the samples cannot be kept"), "{text}");
    let (_, kept) = samples(&profile);
    assert!(!kept.blocks.is_empty() && !profile.exists());
}

#[test]
fn a_torn_line_is_measured_again() {
    let folder = Folder::new("torn");
    let profile = folder.file("p.toml");
    let how = format!("{SMALL} {QUICK} --seed 3");
    let first = run(&line(&profile, &format!("{how} --resume")));
    let text = String::from_utf8_lossy(&first.stderr);
    assert!(first.status.success() && text.contains("nothing is resumed"), "{text}");
    let file = profile.with_extension("samples.jsonl");
    let text = fs::read_to_string(&file).unwrap();
    let last = text.rfind("\n{\"t\":\"blk\"").unwrap();
    fs::write(&file, &text[..last + 40]).unwrap();
    let (_, torn) = samples(&profile);
    assert!(torn.torn);
    succeeds(&line(&profile, &format!("{how} --resume")));
    let (_, whole) = samples(&profile);
    assert!(!whole.torn && whole.blocks.len() > torn.blocks.len());
}

#[test]
fn samples_of_another_machine_or_plan_are_refused() {
    let folder = Folder::new("foreign");
    let profile = folder.file("p.toml");
    let how = format!("{SMALL} {QUICK}");
    succeeds(&line(&profile, &how));
    let file = profile.with_extension("samples.jsonl");
    // Another plan: other sizes.
    let other = line(&profile, "--ops shift,one-way --sizes 8..64 --time-budget 2s --resume");
    let (code, text) = said(&run(&other));
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("from another plan"), "{text}");
    // Another transport is no link of these, and no force makes it one.
    let other = line(&profile, &format!("{how} --transport tcp --force-resume"));
    let (code, text) = said(&run(&other));
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("the samples are of shm, not of tcp"), "{text}");
    // Another machine: another fingerprint, with the right sum.
    let text = fs::read_to_string(&file).unwrap();
    let (header, rest) = text.split_once('\n').unwrap();
    let start = header.find("\"fingerprint\":\"").unwrap() + 15;
    let body = format!("{}ffffffff{}", &header[..start], &header[start + 8..header.len() - 16]);
    let sum = crc32fast::hash(body.as_bytes());
    fs::write(&file, format!("{body},\"c\":\"{sum:08x}\"}}\n{rest}")).unwrap();
    let (code, text) = said(&run(&line(&profile, &format!("{how} --resume"))));
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("from another machine") && text.contains("--force-resume"), "{text}");
    // A named file that is there is not touched.
    let before = fs::read(&file).unwrap();
    let named = format!("{how} --samples {}", file.display());
    let (code, text) = said(&run(&line(&profile, &named)));
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("there are samples already"), "{text}");
    assert_eq!(fs::read(&file).unwrap(), before);
}

#[test]
fn what_cannot_be_measured_is_refused_before() {
    let many = usable().unwrap().at_once + 1;
    let refused = [
        (format!("calibrate -n {many} --wait spin"), 3, "cpus: "),
        ("calibrate -n 1".to_owned(), 2, "has no peer"),
        ("calibrate --ops allreduce/square".to_owned(), 2, "square"),
        ("calibrate -n 2 --ops fan-out/3".to_owned(), 2, "needs 4 ranks"),
        ("calibrate --sizes 8..".to_owned(), 2, "--sizes 8.."),
        ("calibrate --sizes 6".to_owned(), 2, "multiples of 4"),
        ("calibrate --sizes 64K..8".to_owned(), 2, "64 KiB is more than 8 B"),
        ("calibrate --time-budget 3".to_owned(), 2, "--time-budget"),
        ("calibrate --time-budget 9e5s".to_owned(), 2, "a day"),
        ("calibrate --time-budget 0s".to_owned(), 2, "in no time"),
        ("calibrate --precision 0".to_owned(), 2, "write 2%"),
        ("calibrate --launches 0".to_owned(), 2, "--launches"),
        ("calibrate --transport ib".to_owned(), 2, "`ib` is not a transport"),
        ("calibrate --netns a=1.2.3.4".to_owned(), 2, "shared memory"),
        ("calibrate -n 2 --transport tcp --netns a=1.2.3.4".to_owned(), 2, "2 namespaces, not 1"),
        ("calibrate -n 2 --launches 1001".to_owned(), 2, "at most 1000"),
        ("calibrate -n 2 --ops library/allreduce/f32".to_owned(), 2, "--library openmpi"),
        ("calibrate -n 2 --ops barrier/dissemination".to_owned(), 2, "collcost run barrier"),
        ("calibrate -n 2 --registered".to_owned(), 2, "add --transport nccl"),
        ("calibrate -n 2 --nccl-lib x".to_owned(), 2, "add --transport nccl"),
        ("calibrate -n 2 --launcher none --token-file x".to_owned(), 2, "name a --launcher"),
        ("calibrate --check --cpus 0,4095".to_owned(), 2, "CPU 4095 cannot be used"),
        ("calibrate --cpus 0".to_owned(), 2, "--cpus 0"),
        ("calibrate -n 2 --dry-run --out /nowhere/x.toml".to_owned(), 2, "no such folder"),
        ("calibrate -n 2 --check --out dgx-h100".to_owned(), 2, "write dgx-h100.toml"),
        (
            format!(
                "calibrate -n 2 --force --out x.toml --samples {}",
                std::env::temp_dir().display()
            ),
            2,
            "in a folder",
        ),
        ("calibrate --force --out /nowhere/x.toml".to_owned(), 2, "no such folder"),
        (
            format!("calibrate --force --out {}", std::env::temp_dir().display()),
            2,
            "it is a folder",
        ),
        ("calibrate --force --out x.toml --samples ./x.toml".to_owned(), 2, "would be overwritten"),
        (
            "calibrate --force --samples /nowhere/x.jsonl --out x.toml".to_owned(),
            2,
            "cannot be kept",
        ),
    ];
    for (line, wanted, part) in refused {
        let (code, text) = said(&run(&line));
        assert_eq!(code, Some(wanted), "{line}: {text}");
        assert!(text.contains(part), "{line}: {text}");
    }
}

//! Many hosts beside each other, and a log that grows.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use crate::command::collcost;

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fleet").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// A log of OSU's benchmark for each of 64 hosts, which differ by some percent; `slow` takes 1.2 times
/// as long.
fn hosts(name: &str, slow: Option<u64>) -> Vec<String> {
    let folder = folder(name);
    let noise = |host: u64, size: u64| {
        let mixed = (host * 2_654_435_761 + size * 40_503 + 17) % 1009;
        (mixed as f64 / 1009.0 - 0.5) * 0.06
    };
    (0..64)
        .map(|host| {
            let mut log =
                "# OSU MPI Allreduce Latency Test v7.5\n# Size       Avg Latency(us)\n".to_owned();
            for k in (10..24).step_by(2) {
                let times = if slow == Some(host) { 1.2 } else { 1.0 };
                let healthy = 12.0 + f64::from(1 << k) / 8000.0;
                let time = healthy * times * (1.0 + noise(host, k));
                writeln!(log, "{} {time:.2}", 1 << k).unwrap();
            }
            let file = folder.join(format!("node{host:02}.log"));
            fs::write(&file, log).unwrap();
            file.to_str().unwrap().to_owned()
        })
        .collect()
}

fn compared(hosts: &[String], format: &str) -> Output {
    let mut words = vec!["compare", "--fleet", "-n", "16", "--format", format];
    words.extend(hosts.iter().map(String::as_str));
    collcost(&words)
}

#[test]
fn the_slow_host_of_64_is_named() {
    let output = compared(&hosts("slow", Some(37)), "json");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["slow"].as_array().unwrap().len(), 1, "{report}");
    assert!(report["slow"][0].as_str().unwrap().contains("node37"), "{report}");
    let factor = report["scores"][0]["factor"].as_f64().unwrap();
    assert!((1.15..1.25).contains(&factor), "{report}");
    let threshold = &report["thresholds"][0];
    assert!(threshold["limit_s"].as_f64() > threshold["median_s"].as_f64(), "{report}");
}

#[test]
fn of_healthy_hosts_nobody_is() {
    let output = compared(&hosts("healthy", None), "prometheus");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).unwrap();
    let of = |line: &&str| line.starts_with("collcost_host_slow{");
    assert_eq!(said.lines().filter(of).filter(|line| line.ends_with(" 0")).count(), 64, "{said}");
    assert!(said.ends_with("# EOF\n"), "{said}");
    assert!(said.contains("collcost_limit_seconds{coll=\"allreduce\",ranks=\"16\""), "{said}");
}

/// A host that corrupts data is named, though it is as fast as the others.
#[test]
fn a_host_with_wrong_results_is_named() {
    let log = include_str!("../data/logs/all_reduce.txt");
    let wrong = log.replacen("0.02       0", "0.02      77", 1);
    let folder = folder("wrong");
    let hosts: Vec<String> = (0..6)
        .map(|host| {
            let file = folder.join(format!("h{host}.log"));
            fs::write(&file, if host == 2 { &wrong } else { log }).unwrap();
            file.to_str().unwrap().to_owned()
        })
        .collect();
    let of = |format: &str| {
        let mut words = vec!["compare", "--fleet", "--format", format];
        words.extend(hosts.iter().map(String::as_str));
        collcost(&words)
    };
    let output = of("json");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (output.status.code(), report["wrong"].to_string()),
        (Some(1), "[\"h2.log\"]".to_owned())
    );
    assert_eq!(report["slow"].as_array().unwrap().len(), 0, "{report}");
    let said = String::from_utf8(of("text").stdout).unwrap();
    assert!(said.contains("results were wrong: h2.log; no host is slower"), "{said}");
    let said = String::from_utf8(of("prometheus").stdout).unwrap();
    assert!(said.contains("collcost_host_wrong{host=\"h2.log\"} 1"), "{said}");
}

/// A folder for each host, and a log of the same name in each.
#[test]
fn hosts_have_the_names_of_their_folders() {
    let all = hosts("folders", Some(37));
    let moved = |file: &String| {
        let file = Path::new(file);
        let own = file.with_extension("");
        fs::create_dir_all(&own).unwrap();
        let run = own.join("run.log");
        fs::rename(file, &run).unwrap();
        run.to_str().unwrap().to_owned()
    };
    let all: Vec<String> = all.iter().map(moved).collect();
    let report: Value = serde_json::from_slice(&compared(&all, "json").stdout).unwrap();
    assert_eq!(report["slow"][0], "node37/run.log", "{report}");
    let said = String::from_utf8(compared(&all, "prometheus").stdout).unwrap();
    assert!(said.contains("collcost_host_slow{host=\"node37/run.log\"} 1\n"), "{said}");
    assert!(said.contains("collcost_host_slow{host=\"node36/run.log\"} 0\n"), "{said}");
}

#[test]
fn few_hosts_say_nothing_of_each_other() {
    let output = compared(&hosts("few", Some(0))[..4], "text");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && said.contains("5 hosts"), "{said}");
}

#[test]
fn a_growing_log_is_followed() {
    let words = [
        "mock",
        "all_reduce_perf",
        "-n",
        "8",
        "--on",
        "dgx-h100",
        "-b",
        "1M",
        "-e",
        "1G",
        "-f",
        "2",
    ];
    let log = String::from_utf8(collcost(&words).stdout).unwrap();
    let file = folder("watch").join("growing.log");
    // The first part ends in the midst of a line.
    let half = log.find("\n    67108864").expect("a row") + 20;
    fs::write(&file, &log[..half]).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_collcost"))
        .args([
            "compare",
            file.to_str().unwrap(),
            "--on",
            "dgx-h100",
            "--format",
            "json",
            "--watch=4s",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    sleep(Duration::from_millis(2000));
    let mut growing = fs::OpenOptions::new().append(true).open(&file).unwrap();
    growing.write_all(&log.as_bytes()[half..]).unwrap();
    drop(growing);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let reports = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Value>();
    let rows: Vec<usize> =
        reports.map(|r| r.unwrap()["runs"][0]["points"].as_array().unwrap().len()).collect();
    assert!(rows.len() >= 2 && rows.is_sorted(), "{rows:?}");
    assert!(rows[0] < rows[rows.len() - 1], "{rows:?}");
}

//! What stands on a screen can be asked about, and typed back.

use std::process::Command;

use collcost::answer::explain;
use collcost::base::collective::Collective;
use collcost::library;
use collcost::machine::profile::Profile;
use collcost::model::algorithm::Registry;

const COLLECTIVES: [&str; 10] = [
    "allreduce 16MiB -n 64",
    "allgather 64MiB -n 16",
    "reducescatter 1MiB -n 8 --on dgx-a100",
    "alltoall 4MiB -n 16 --on mi300x",
    "broadcast 1GiB -n 8",
    "reduce 16MiB -n 8",
    "scatter 16MiB -n 8 --on tcp-25g",
    "gather 16MiB -n 8 --on tcp-25g",
    "sendrecv 1MiB -n 2",
    "barrier -n 64",
];

/// The other screens that begin with an answer.
const OTHERS: [&str; 5] = [
    "allreduce 16MiB -n 64 --all",
    "choose nccl allreduce -n 64",
    "choose vllm@0.33.0 allreduce 256K -n 8 --on h100",
    "explain allreduce ring 16MiB -n 64",
    "choose nccl allreduce 16MiB -n 64 --explain",
];

fn screen(line: &str) -> Vec<String> {
    let out = Command::new(env!("CARGO_BIN_EXE_collcost"))
        .args(line.split(' '))
        .env("COLUMNS", "120")
        .output()
        .unwrap();
    assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// `expected` of `  expected    238 µs`: what is indented by two, with a gap behind it.
fn label(line: &str) -> Option<&str> {
    let line = line.strip_prefix("  ").filter(|rest| rest.starts_with(char::is_alphabetic))?;
    line.split_once("  ").map(|(label, _)| label)
}

/// The headings of tables: above each first row that begins with a mark or two spaces.
fn headings(lines: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for (i, line) in lines.iter().enumerate() {
        let begins = i == 0 || lines[i - 1].is_empty();
        if begins && line.starts_with("  ") && line.contains("algorithm  ") {
            found.extend(line.split("  ").map(|word| word.trim().to_owned()));
        }
    }
    found.retain(|word| !word.is_empty());
    found
}

#[test]
fn every_label_has_a_meaning() {
    let mut asked = 0;
    for line in COLLECTIVES.iter().chain(&OTHERS) {
        let lines = screen(line);
        let answer = lines.iter().skip(1).skip_while(|l| l.is_empty());
        let labels = answer.take_while(|l| !l.is_empty()).filter_map(|l| label(l));
        for word in labels.map(str::to_owned).chain(headings(&lines)) {
            let known = explain::topic(&word, None, None);
            assert!(known.is_ok(), "{line}: `{word}`: {:?}", known.err());
            asked += 1;
        }
    }
    assert!(asked > 100, "{asked} words were found");
}

#[test]
fn machines_libraries_and_engines_have_a_page() {
    let libraries = library::POLICIES.iter().map(|entry| entry.id);
    let engines = library::engines::ENGINES.iter().map(|engine| engine.id);
    for name in Profile::names().chain(libraries).chain(engines) {
        assert!(explain::topic(name, None, None).is_ok(), "{name}");
    }
    assert!(explain::topic("nccll", None, None).is_err());
}

#[test]
fn words_of_a_label_need_no_quotes() {
    for words in ["switch points", "known from", "lowest ideal time"] {
        let lines = screen(&format!("explain {words}"));
        assert!(lines.iter().any(|line| line.contains("collcost ")), "{words}: {lines:?}");
    }
}

#[test]
fn every_title_is_typed_back() {
    let registry = Registry::builtin();
    for &collective in Collective::ALL {
        for algorithm in registry.of(collective) {
            let meta = algorithm.meta();
            for typed in [meta.title.to_owned(), meta.title.to_uppercase(), meta.id.to_owned()] {
                let found = registry.find(collective, &typed).unwrap().algorithm.meta();
                assert_eq!(found.id, meta.id, "{} {typed}", collective.id());
            }
        }
    }
}

/// The algorithms of the table that have a price, without mark and segments.
fn priced(lines: &[String]) -> Vec<&str> {
    let Some(head) = lines.iter().position(|l| l.starts_with("  algorithm")) else { return vec![] };
    let rows = lines[head + 1..].iter().take_while(|l| !l.is_empty());
    // What does not apply has a reason instead of numbers.
    let number = |text: &str| text.parse::<f64>().is_ok();
    let is_priced = |row: &&String| row.split_whitespace().rev().take(2).all(number);
    let cells = rows.filter(is_priced).filter_map(|row| row.split_once(' '));
    let names = cells.filter_map(|(_, row)| row.trim().trim_start_matches("≤ ").split_once("  "));
    names.map(|(name, _)| name.split(", P = ").next().unwrap_or(name)).collect()
}

/// Every algorithm on a screen: of the table, of what runs, of the switch points.
#[test]
fn every_algorithm_on_a_screen_is_typed_back() {
    let mut typed = 0;
    for line in COLLECTIVES {
        let lines = screen(&format!("{line} --all"));
        let runs = lines.iter().filter_map(|l| l.strip_prefix("  runs        "));
        // A barrier is an all-reduce there.
        let runs = runs.filter(|_| !line.starts_with("barrier"));
        let runs = runs.filter_map(|l| l.split([',', ':']).next());
        let points = lines.iter().filter_map(|l| l.trim().strip_prefix("switch points of NCCL: "));
        let points = points
            .flat_map(|l| l.split(", "))
            .filter_map(|point| point.trim_start_matches("then ").split(" to ").next());
        for name in priced(&lines).into_iter().chain(runs).chain(points) {
            let mut words: Vec<&str> = line.split(' ').collect();
            words.extend(["--algorithm", name]);
            let out = Command::new(env!("CARGO_BIN_EXE_collcost")).args(words).output().unwrap();
            let said = String::from_utf8_lossy(&out.stderr);
            assert!(out.status.success(), "{line} --algorithm {name:?}: {said}");
            typed += 1;
        }
    }
    assert!(typed > 100, "{typed} names were found");
}

/// The command of the line `next:` answers, on every machine.
#[test]
fn what_is_suggested_next_is_answered() {
    let run = |line: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_collcost"));
        command.args(line.split_whitespace()).env("COLUMNS", "200").output().unwrap()
    };
    let places = ["-n 8", "-n 16 -g 8", "-n 128 -g 32", "-n 64 -g 1"];
    let sizes = ["8", "64KiB", "16MiB"];
    let mut asked: Vec<String> = Vec::new();
    for (i, machine) in Profile::names().enumerate() {
        for (j, collective) in Collective::ALL.iter().enumerate() {
            // Each machine and each collective with all places and sizes in turn.
            let (place, size) = (places[(i + j) % places.len()], sizes[(i / 2 + j) % sizes.len()]);
            let size = if *collective == Collective::Barrier { "" } else { size };
            asked.push(format!("{} {size} {place} --on {machine}", collective.id()));
        }
    }
    // What is composed of other operations, or has no price.
    asked.push("allreduce 64KiB -n 128 -g 32 --on ib-hdr".to_owned());
    asked.push("reducescatter 128 -n 1024 --on ib-hdr".to_owned());
    let mut followed = 0;
    for line in &asked {
        let screen = run(line);
        let said = String::from_utf8(screen.stdout).unwrap();
        let Some(next) = said.lines().find_map(|l| l.strip_prefix("  next: collcost ")) else {
            continue;
        };
        let answer = run(next);
        let why = String::from_utf8_lossy(&answer.stderr);
        assert!(answer.status.success(), "{line}: {next}: {why}");
        followed += 1;
    }
    assert!(followed > 100, "{followed} of {} were followed", asked.len());
}

#[test]
fn what_is_expected_what_runs_and_how_sure_stand_in_the_first_six_lines() {
    for line in COLLECTIVES {
        let lines = screen(line);
        assert!(lines.len() <= 16, "{line}: {} lines", lines.len());
        let labels: Vec<_> = lines.iter().take(6).filter_map(|l| label(l)).collect();
        for fact in ["expected", "runs", "known from"] {
            assert!(labels.contains(&fact), "{line}: {fact} is not in {labels:?}");
        }
    }
}

/// Units stand above the numbers, one for a column: cells have none.
#[test]
fn no_column_mixes_units() {
    for line in COLLECTIVES.iter().chain(&OTHERS) {
        let lines = screen(line);
        let Some(head) = lines.iter().position(|l| l.contains("algorithm  ")) else { continue };
        assert!(lines[head + 1].starts_with("    "), "{line}: no units below the heading");
        let rows: Vec<_> = lines[head + 2..].iter().take_while(|l| l.contains("  ")).collect();
        for cell in rows.iter().flat_map(|l| l.split("  ")).map(str::trim) {
            let (number, unit) = cell.rsplit_once(' ').unwrap_or((cell, ""));
            let time = number.trim_start_matches(['≤', '→', ' ']).parse::<f64>().is_ok()
                && ["ns", "µs", "ms", "s", "GB/s", "MB/s"].contains(&unit);
            assert!(!time, "{line}: `{cell}` has a unit of its own");
        }
    }
}

#[test]
fn the_row_that_runs_is_first_and_marked() {
    for line in COLLECTIVES.iter().chain(&OTHERS[..1]) {
        let lines = screen(line);
        let Some(head) = lines.iter().position(|l| l.starts_with("  algorithm")) else { continue };
        let rows = lines[head + 1..].iter().skip_while(|l| l.starts_with("      "));
        let rows: Vec<_> = rows.take_while(|l| !l.is_empty()).collect();
        let marked = rows.iter().filter(|l| l.starts_with('*')).count();
        assert!(marked <= 1, "{line}: {rows:?}");
        assert_eq!(marked == 1, rows[0].starts_with('*'), "{line}: {rows:?}");
    }
}

/// The norm in the kernel is an algorithm of its own: the links carry what they carry without, and
/// with a time to add it takes as much longer as a rank adds one vector more.
#[test]
fn kernels_with_the_norm_are_explained_and_simulated() {
    for (kernel, algorithm, plain) in [
        ("one-shot-push-norm", "one-shot-norm", "one-shot"),
        ("two-shot-pull-norm", "two-shot-norm", "two-shot"),
        ("allreduce_fusion_kernel_twoshot_sync", "two-shot-norm", "two-shot"),
    ] {
        let on = "64MB -n 8 --alpha 1us --bw 400GB/s --ports inf";
        let told = screen(&format!("explain {kernel} {on}"));
        assert_eq!(told, screen(&format!("explain allreduce {algorithm} {on}")), "{kernel}");
        let time = |algorithm: &str, gamma: &str| {
            let line = format!("simulate allreduce {algorithm} {on}{gamma} --format json");
            let text = screen(&line).join("\n");
            let told: serde_json::Value = serde_json::from_str(&text).unwrap();
            let modes = told["modes"].as_array().unwrap();
            modes.iter().find(|m| m["mode"] == "flow").unwrap()["makespan_s"].as_f64().unwrap()
        };
        assert_eq!(time(algorithm, ""), time(plain, ""), "{kernel}");
        let gamma = " --gamma 1ps/B";
        let more = time(algorithm, gamma) - time(plain, gamma);
        assert!((more - 64e-6).abs() < 1e-12, "{kernel}: {more}");
    }
}

/// An engine's kernels with packets are algorithms under NCCL's protocol of that name: their names
/// lead there, and so does the schedule that a choice shows.
#[test]
fn kernels_with_packets_are_explained_and_simulated() {
    let on = "-n 8 --on h100";
    for (kernel, algorithm) in [
        ("packet", "two-shot"),
        ("allpair-packet", "one-shot"),
        ("nvls-packet", "one-shot-multicast"),
    ] {
        let told = screen(&format!("explain {kernel} 64KiB {on}"));
        assert_eq!(
            told,
            screen(&format!("explain allreduce {algorithm}/LL 64KiB {on}")),
            "{kernel}"
        );
        let plain = screen(&format!("explain allreduce {algorithm} 64KiB {on}"));
        assert_ne!(told, plain, "{kernel}");
        let simulated = screen(&format!("simulate allreduce {kernel} 64KiB {on}"));
        let by_flag = format!("simulate allreduce {algorithm} 64KiB {on} --protocol LL");
        assert_eq!(simulated, screen(&by_flag), "{kernel}");
    }
    for (size, algorithm) in
        [("8KiB", "one-shot/LL"), ("24KiB", "one-shot-multicast/LL"), ("512KiB", "two-shot/LL")]
    {
        let lines = screen(&format!("choose mscclpp allreduce {size} {on}"));
        let schedule = lines.iter().find(|line| line.starts_with("  schedule")).unwrap();
        assert!(schedule.ends_with(&format!("allreduce {algorithm}")), "{schedule}");
    }
}

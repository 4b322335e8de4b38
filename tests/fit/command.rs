//! The command: files in, a profile out that every other command reads, exit codes.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use collcost::profile::{Asked, Profile, Quality, check};
use collcost::sample::{Header, Record, Samples, Wait};

use super::synthetic::{Truth, ladder, operations};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fit-{name}"));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn at(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

fn lines(samples: &Samples, fingerprint: &str) -> String {
    let header = Header {
        run: "r".into(),
        command: "collcost calibrate".into(),
        date: "2026-11-20".into(),
        transport: "tcp".into(),
        wait: Some(Wait::Poll),
        ranks: 4,
        plan_hash: "p".into(),
        fingerprint: fingerprint.into(),
        machine: "a host".into(),
        ..Header::default()
    };
    let blocks = samples.blocks.iter().map(|b| Record::Block(b.clone()).line());
    std::iter::once(Record::Header(header).line()).chain(blocks).collect()
}

fn collcost(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_collcost")).args(words).output().expect("it starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn samples_become_a_profile_that_other_commands_read() {
    let folder = Folder::new("profile");
    let truth = Truth { slopes: vec![(0.0, 0.2e-9), (65536.0, 1e-9)], ..Truth::default() };
    let samples = truth.samples(&operations(), 4, &ladder(8 << 20), 1);
    let file = folder.file("run.samples.jsonl", &lines(&samples, "f"));
    let out = folder.at("rack.toml");
    let fit = collcost(&["fit", &file, "--out", &out, "--format", "json"]);
    assert_eq!(fit.status.code(), Some(0), "{}", text(&fit.stderr));
    let report: serde_json::Value = serde_json::from_slice(&fit.stdout).unwrap();
    let bandwidth = report["bandwidth_Bps"]["value"].as_f64().unwrap();
    assert!((bandwidth / 1e9 - 1.0).abs() < 0.01, "{bandwidth}");

    let toml = std::fs::read_to_string(&out).unwrap();
    let profile = Profile::parse(&toml, "rack.toml").unwrap();
    assert_eq!(profile.name, "rack");
    assert_eq!(profile.tiers[0].knots[0].below.0, 65536);
    let calibration = profile.fit.as_ref().unwrap();
    assert_eq!(calibration.quality, Quality::Good, "{:?}", calibration.marks);
    assert_eq!(
        (calibration.ranks.as_slice(), calibration.wait.as_deref()),
        (&[4][..], Some("poll"))
    );
    assert!(
        toml.contains("command = \"collcost fit run.samples.jsonl --out rack.toml\""),
        "{toml}"
    );
    assert_eq!(check(&toml, &Asked::default()), []);

    let price = collcost(&["allreduce", "1MiB", "-n", "8", "--on", &out]);
    let said = text(&price.stdout);
    assert!(said.contains("α and the rate alone miss"), "{said}");
    assert!(said.contains("8 ranks were not measured"), "{said}");

    // The same machine again has not changed; one of another rate has.
    let same = collcost(&["profiles", "diff", &out, &out]);
    assert_eq!(same.status.code(), Some(0), "{}", text(&same.stdout));
    let slower = Truth { slopes: vec![(0.0, 1.2e-9)], ..truth };
    let samples = slower.samples(&operations(), 4, &ladder(8 << 20), 2);
    let file = folder.file("slow.jsonl", &lines(&samples, "f"));
    let slow = folder.at("slow.toml");
    assert_eq!(collcost(&["fit", &file, "--out", &slow]).status.code(), Some(0));
    let diff = collcost(&["profiles", "diff", &out, &slow]);
    assert_eq!(diff.status.code(), Some(1));
    assert!(text(&diff.stdout).contains("changed"), "{}", text(&diff.stdout));
}

#[test]
fn a_refused_fit_writes_nothing_unless_forced() {
    let folder = Folder::new("refused");
    let sizes: Vec<u64> = (22..27).map(|k| 1 << k).collect();
    let samples = Truth::default().samples(&operations(), 4, &sizes, 1);
    let file = folder.file("large.jsonl", &lines(&samples, "f"));
    let out = folder.at("refused.toml");
    let _ = std::fs::remove_file(&out);
    let fit = collcost(&["fit", &file, "--out", &out]);
    assert_eq!(fit.status.code(), Some(4), "{}", text(&fit.stdout));
    let said = text(&fit.stderr);
    assert!(said.contains("the fit is refused") && said.contains("--force"), "{said}");
    assert!(!Path::new(&out).exists());
    assert_eq!(collcost(&["fit", &file, "--out", &out, "--force"]).status.code(), Some(0));
    let profile = Profile::parse(&std::fs::read_to_string(&out).unwrap(), "x").unwrap();
    assert_eq!(profile.fit.unwrap().quality, Quality::Rejected);
    let price = collcost(&["allreduce", "64MiB", "-n", "4", "--on", &out]);
    assert!(text(&price.stdout).contains("rejected: ladder"), "{}", text(&price.stdout));
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let folder = Folder::new("faults");
    let samples = Truth::default().samples(&operations()[..2], 4, &ladder(1 << 20), 1);
    let good = lines(&samples, "f");
    let one = folder.file("one.jsonl", &good);
    let other = folder.file("other.jsonl", &lines(&samples, "g"));
    let damaged =
        folder.file("damaged.jsonl", &good.replacen("\"op\":\"one-way\"", "\"op\":\"two-way\"", 1));
    let foreign = folder.file("foreign.jsonl", "hello\n");
    for (words, what, place) in [
        (vec!["fit", &one, &other], "samples of another machine: `g`, not `f`", "other.jsonl"),
        (vec!["fit", &damaged], "check sum is wrong", "damaged.jsonl:2"),
        (vec!["fit", &foreign], "no table of a known benchmark", "foreign.jsonl"),
        (vec!["fit", "/nowhere.jsonl"], "cannot be read", "/nowhere.jsonl"),
        (vec!["fit", &one, "--seed", "x"], "`x` is no seed", "--seed"),
    ] {
        let output = collcost(&words);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains(what) && said.contains(place), "{words:?}: {said}");
        assert_eq!(said.trim_end().lines().count(), 3, "{said}");
    }
    // A torn last line costs its block and nothing else.
    let torn = folder.file("torn.jsonl", &good[..good.len() - 9]);
    assert_eq!(collcost(&["fit", &torn]).status.code(), Some(0));
}

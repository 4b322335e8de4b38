//! The command: files in, a profile out that every other command reads, exit codes.

use std::path::{Path, PathBuf};

use collcost::base::quantity::{Ratio, Seconds};
use collcost::machine::profile::{Asked, Profile, Quality, check};
use collcost::machine::sample::{Header, Mode, Record, Samples, Wait};

use crate::command::{collcost, text};

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
        run: format!("r-{fingerprint}"),
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
    // What was measured is what expectations and simulations find.
    let fabric = profile.fabric(collcost::Collective::AllReduce);
    assert_eq!(fabric.tiers[0].link.knots, profile.tiers[0].knots);
    let calibration = profile.fit.as_ref().unwrap();
    let (low, high) = calibration.band(Seconds(1.0), Seconds(20e-6)).expect("bytes decide");
    assert!(low.0 < 1.0 && high.0 > 1.0 && high / low < Ratio(1.2), "{low} to {high}");
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
    let sizes: Vec<u64> = (3..10).map(|k| 1 << k).collect();
    let samples = Truth::default().samples(&operations(), 4, &sizes, 1);
    let file = folder.file("small.jsonl", &lines(&samples, "f"));
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
    let copy = folder.file("copy.jsonl", &good);
    let doubled = folder.file("doubled.jsonl", &good.repeat(2));
    for (words, what, place) in [
        (vec!["fit", &one, &other], "samples of another machine: `g`, not `f`", "other.jsonl"),
        (vec!["fit", &damaged], "checksum is wrong", "damaged.jsonl:2"),
        (vec!["fit", &foreign], "no table of a known benchmark", "foreign.jsonl"),
        (vec!["fit", "/nowhere.jsonl"], "cannot be read", "/nowhere.jsonl"),
        (vec!["fit", &one, "--seed", "x"], "`x` is not a seed", "--seed"),
        (vec!["fit", &one, &one], "given twice", "one.jsonl"),
        (vec!["fit", &one, &copy], "given twice", "copy.jsonl"),
        (vec!["fit", &doubled], "would count twice", "doubled.jsonl:"),
        (vec!["fit", &one, "-n", "3"], "say it themselves", "--ranks"),
        (vec!["fit", &one, "--collective", "broadcast"], "say it themselves", "--collective"),
        (vec!["fit", &one, "--holdout", "algo"], "shows every point", "--holdout"),
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
    // Lines that another system ended in its way are the same.
    let ended = folder.file("ended.jsonl", &good.replace('\n', "\r\n"));
    assert_eq!(collcost(&["fit", &ended]).status.code(), Some(0));
}

/// Logs of a library become curves; the file says 8 ranks on one node to 64 on 8.
const TIMES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/made_up_times.csv");

#[test]
fn logs_become_curves_that_other_commands_expect() {
    let folder = Folder::new("logs");
    let out = folder.at("site.toml");
    let fit = collcost(&["fit", TIMES, "--out", &out]);
    assert_eq!(fit.status.code(), Some(0), "{}", text(&fit.stderr));
    let written = std::fs::read_to_string(&out).unwrap();
    assert_eq!(check(&written, &Asked::default()), []);
    let profile = Profile::parse(&written, "site.toml").unwrap();
    assert_eq!((profile.name.as_str(), profile.curves.len()), ("site", 2));
    assert_eq!(profile.library.as_deref(), Some("nccl"));
    // Plain α-β makes a machine of nodes of 8.
    assert_eq!(profile.tiers.len(), 2);
    assert_eq!(profile.tiers[0].span.map(std::num::NonZeroU32::get), Some(8));
    let price = text(&collcost(&["allreduce", "16MiB", "-n", "32", "--on", &out]).stdout);
    assert!(price.contains("measurements of this machine (nccl 2.30.7; measured)"), "{price}");
    let more = text(&collcost(&["allreduce", "16MiB", "-n", "256", "--on", &out]).stdout);
    assert!(more.contains("(nccl 2.30.7; extrapolated)"), "{more}");
}

#[test]
fn curves_come_to_a_machine_that_is_known() {
    let folder = Folder::new("known");
    let out = folder.at("rack.toml");
    assert!(collcost(&["fit", TIMES, "--on", "dgx-h100", "--out", &out]).status.success());
    let rack = Profile::parse(&std::fs::read_to_string(&out).unwrap(), "x").unwrap();
    let h100 = Profile::builtin("dgx-h100").unwrap();
    assert_eq!(rack.tiers.len(), h100.tiers.len());
    // All-reduce over f16 and all-gather; a built-in machine has none of its own.
    assert_eq!((rack.curves.len(), h100.curves.len()), (2, 0));
    let new = rack.curves.iter().filter(|c| c.source.contains("made_up")).count();
    assert_eq!(new, 2);
    assert!(rack.curves.iter().filter_map(|c| c.residuals.as_ref()).count() == 2);
    // Parameters alone, where times may not be passed on.
    let bare = folder.at("bare.toml");
    assert!(collcost(&["fit", TIMES, "--no-residuals", "--out", &bare]).status.success());
    let bare = Profile::parse(&std::fs::read_to_string(&bare).unwrap(), "x").unwrap();
    assert!(bare.curves.iter().all(|c| c.residuals.is_none()));
}

#[test]
fn what_logs_leave_out_is_asked_for_or_said() {
    let folder = Folder::new("asked");
    let rows = "# OSU MPI Allreduce Latency Test v7.5\n# Size       Avg Latency(us)\n\
                4 10.00\n64 10.41\n1024 11.13\n16384 25.02\n262144 180.25\n1048576 690.11\n";
    let osu = folder.file("osu.txt", rows);
    let refused = collcost(&["fit", &osu]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("how many ranks"), "{}", text(&refused.stderr));

    // What took the time of a wrong result was not the collective.
    let rows = "collective,ranks,nodes,bytes,time_us,wrong\nallreduce,8,1,1024,20,0\nallreduce,8,1,65536,25,0\n\
                allreduce,8,1,1048576,60,0\nallreduce,8,1,2097152,9,512\n";
    let wrong = text(&collcost(&["fit", &folder.file("wrong.csv", rows)]).stdout);
    assert!(wrong.contains("1 times of wrong results are left out"), "{wrong}");
    let rows = "collective,ranks,nodes,bytes,time_us,upper_bound\nallreduce,8,1,1024,20,true\n\
                allreduce,8,1,65536,25,true\n";
    let bounds = collcost(&["fit", &folder.file("bounds.csv", rows)]);
    let said = text(&bounds.stderr);
    assert!(said.contains("the log has only upper bounds"), "{said}");
    assert_eq!(bounds.status.code(), Some(4));

    let one = text(&collcost(&["fit", &osu, "--n", "64"]).stdout);
    assert!(one.contains("6 times do not say on how many nodes"), "{one}");
    let four = text(&collcost(&["fit", &osu, "--n", "64", "-g", "16"]).stdout);
    assert!(four.contains("64 on 4") && !four.contains("do not say"), "{four}");

    let samples = Truth::default().samples(&operations()[..2], 4, &ladder(1 << 20), 1);
    let messages = folder.file("messages.jsonl", &lines(&samples, "f"));
    for (words, what) in [
        (vec!["fit", &messages, "--on", "dgx-h100"], "are for logs of a library"),
        (vec!["fit", TIMES, "--on", "dgx-h1000", "--out", "x.toml"], "is not a machine"),
        (vec!["fit", TIMES, "-g", "0"], "--gpus-per-node"),
    ] {
        let output = collcost(&words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(text(&output.stderr).contains(what), "{words:?}: {}", text(&output.stderr));
    }
    assert!(!Path::new("x.toml").exists());
}

/// IMB prints messages and collectives into one log.
#[test]
fn a_log_of_messages_and_collectives_is_fitted_as_either() {
    let folder = Folder::new("both");
    let samples = Truth::default().samples(&operations()[..2], 4, &ladder(1 << 20), 1);
    let messages = folder.file("messages.jsonl", &lines(&samples, "f"));
    let out = folder.at("machine.toml");
    let fit = collcost(&["fit", &messages, TIMES, "--out", &out]);
    assert_eq!(fit.status.code(), Some(0), "{}", text(&fit.stderr));
    let said = text(&fit.stdout);
    assert!(said.contains("blocks of `library/allreduce/f16` left out"), "{said}");
    assert!(said.contains("--on the profile of its messages"), "{said}");
    let with = folder.at("with.toml");
    let fit = collcost(&["fit", &messages, TIMES, "--on", &out, "--out", &with]);
    let said = text(&fit.stdout);
    assert!(fit.status.success() && said.contains("times of messages are left out"), "{said}");
    let with = Profile::parse(&std::fs::read_to_string(&with).unwrap(), "x").unwrap();
    assert_eq!((with.curves.len(), with.tiers[0].alpha.is_some()), (2, true));
}

/// IMB's messages there and back, and those that all ranks send at once, at `part` of the rate.
fn imb(part: f64) -> [String; 2] {
    let table = |name: &str, rate: f64, columns: &str, time: &dyn Fn(f64) -> String| {
        let head = format!("# Benchmarking {name}\n# #processes = 2\n {columns}\n");
        let row =
            |k: u32| format!("{} 1000 {}\n", 1_u32 << k, time(2.0 + f64::from(1_u32 << k) / rate));
        (0..23).fold(head, |text, k| text + &row(k))
    };
    let one = |us: f64| format!("{us:.2} 10.00");
    let all = |us: f64| format!("{us:.2} {us:.2} {us:.2} 10.00");
    let columns = "#bytes #repetitions t_min[usec] t_max[usec] t_avg[usec] Mbytes/sec";
    [
        table("PingPong", 11e3, "#bytes #repetitions t[usec] Mbytes/sec", &one),
        table("Sendrecv", part * 11e3, columns, &all),
    ]
}

#[test]
fn messages_that_cross_give_the_duplex_factor() {
    let folder = Folder::new("crossing");
    let duplex = |part: f64| {
        let [there, both] = imb(part);
        let (there, both) = (folder.file("there.txt", &there), folder.file("both.txt", &both));
        let fit = collcost(&["fit", &there, &both, "--format", "json"]);
        assert_eq!(fit.status.code(), Some(0), "{}", text(&fit.stderr));
        let report: serde_json::Value = serde_json::from_slice(&fit.stdout).unwrap();
        assert_eq!(report["fitted_points"], 46);
        report["duplex_factor"]["value"].as_f64()
    };
    assert_eq!(duplex(1.0), None);
    let half = duplex(0.5).unwrap();
    assert!((half - 0.5).abs() < 0.02, "{half}");
    // Alone, they are messages like others.
    let both = folder.file("alone.txt", &imb(1.0)[1]);
    assert_eq!(collcost(&["fit", &both]).status.code(), Some(0));
}

#[test]
fn runs_without_a_pause_are_named_and_not_fitted() {
    let folder = Folder::new("stream");
    let truth = Truth::default();
    let mut samples = truth.samples(&operations()[..1], 4, &ladder(1 << 20), 1);
    let mut shifts = truth.samples(&["shift".parse().unwrap()], 4, &ladder(1 << 20), 1).blocks;
    shifts.iter_mut().for_each(|block| block.mode = Mode::Stream);
    let alone = Samples { blocks: shifts.clone(), ..Samples::default() };
    samples.blocks.extend(shifts);
    let said = text(&collcost(&["fit", &folder.file("s.jsonl", &lines(&samples, "f"))]).stdout);
    assert!(said.contains("`shift, one run after the other without a pause` left out"), "{said}");
    let refused = collcost(&["fit", &folder.file("alone.jsonl", &lines(&alone, "f"))]);
    let said = text(&refused.stderr);
    assert!(refused.status.code() == Some(2) && said.contains("without a pause"), "{said}");
}

#[test]
fn what_is_read_is_not_overwritten() {
    let folder = Folder::new("own");
    let rows = "# OSU MPI Allreduce Latency Test v7.5\n# Size       Avg Latency(us)\n\
                4 10.00\n64 10.41\n1024 11.13\n16384 25.02\n262144 180.25\n1048576 690.11\n";
    let log = folder.file("log.txt", rows);
    let around = folder.at("../fit-own/log.txt");
    for words in [
        vec!["fit", &log, "-n", "8", "--out", &log],
        vec!["fit", &log, "-n", "8", "--out", &around],
        vec!["fit", &log, "-n", "8", "--svg", &log],
    ] {
        let refused = collcost(&words);
        assert_eq!(refused.status.code(), Some(2), "{words:?}");
        let said = text(&refused.stderr);
        assert!(said.contains("would be overwritten"), "{words:?}: {said}");
        assert_eq!(std::fs::read_to_string(&log).unwrap(), rows);
    }
    // The machine of the logs may become that with them.
    let rack = folder.at("rack.toml");
    assert!(collcost(&["fit", TIMES, "--out", &rack]).status.success());
    assert!(collcost(&["fit", TIMES, "--on", &rack, "--out", &rack]).status.success());
}

#[test]
fn a_log_may_come_through_a_pipe_and_the_command_is_kept_whole() {
    let folder = Folder::new("pipe");
    let rows = "# OSU MPI Allreduce Latency Test v7.5\n# Size       Avg Latency(us)\n\
                4 10.00\n64 10.41\n1024 11.13\n16384 25.02\n262144 180.25\n1048576 690.11\n";
    let samples = Truth::default().samples(&operations(), 4, &ladder(1 << 20), 1);
    let own = lines(&samples, "f");
    for (name, contents, more) in
        [("log.txt", rows, "-n 8 -g 4 --no-residuals"), ("s.jsonl", &own, "")]
    {
        let (file, out) = (folder.file(name, contents), folder.at("piped.toml"));
        let words = |file: &'_ str| -> Vec<String> {
            let words = format!("fit {file} {more} --out {out}");
            words.split_whitespace().map(str::to_owned).collect()
        };
        let by_name = collcost(&words(&file).iter().map(String::as_str).collect::<Vec<_>>());
        let command = std::fs::read_to_string(&out).unwrap_or_default();
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_collcost"))
            .args(words("-"))
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), contents.as_bytes()).unwrap();
        let piped = child.wait_with_output().unwrap();
        assert!(piped.status.success(), "{name}");
        assert_eq!(text(&piped.stdout), text(&by_name.stdout).replace(name, "-"));
        if !more.is_empty() {
            assert!(
                command.contains("fit log.txt -n 8 --gpus-per-node 4 --no-residuals --out"),
                "{command}"
            );
        }
    }
}

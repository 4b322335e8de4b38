//! GPUs and NCCL, by stand-ins that the tests build themselves: what is measured is fitted to the
//! figures behind them, and whatever goes wrong ends with one clear line and the named exit code.
#![cfg(all(feature = "cuda", target_os = "linux"))]

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use collcost::base::collective::Collective;
use collcost::base::error::Result;
use collcost::base::quantity::Bytes;
use collcost::machine::sample::{self, DataType, Record};
use collcost::run::gpu::{self, Desk, Plan, Set, Setup};
use serde_json::Value;

#[path = "../support/process.rs"]
mod process;
use process::{Running, children, signal, soon};

/// A folder with both libraries, the older ones in folders of their own.
fn stand_ins() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("gpu-stand-ins");
        for (place, driver, library) in [
            ("new", "-DNEW_DRIVER", "-DNEW_NCCL"),
            ("old-nccl", "-DNEW_DRIVER", "-DOLD_NCCL"),
            ("old-driver", "-DOLD_DRIVER", "-DNEW_NCCL"),
        ] {
            let place = folder.join(place);
            fs::create_dir_all(&place).expect("a folder");
            let cc = |source: &str, out: &str, more: &[&str]| {
                let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gpu").join(source);
                // Whole or not at all: several test programs may build it at once.
                let part = place.join(format!("{out}.{}", std::process::id()));
                let done = Command::new("cc")
                    .args(["-O2", "-shared", "-fPIC", "-o"])
                    .arg(&part)
                    .arg(source)
                    .args(more)
                    .current_dir(&place)
                    .status()
                    .expect("a C compiler, which also links Rust");
                assert!(done.success());
                fs::rename(part, place.join(out)).expect("the library");
            };
            cc("libcuda.c", "libcuda.so.1", &["-Wl,-soname,libcuda.so.1", driver]);
            if place.ends_with("new") {
                cc("libnvidia-ml.c", "libnvidia-ml.so.1", &["-Wl,-soname,libnvidia-ml.so.1"]);
            }
            cc("libnccl.c", "libnccl.so.2", &["-L.", "-l:libcuda.so.1", library]);
            if place.ends_with("new") {
                // As a container with a toolkit has it: the stub has the name that programs link.
                cc("libcuda.c", "libcuda.so", &["-Wl,-soname,libcuda.so.1", "-DSTUB"]);
                let stub = folder.join("stub");
                fs::create_dir_all(&stub).expect("a folder");
                fs::copy(place.join("libcuda.so"), stub.join("libcuda.so.1")).expect("a stub");
            }
        }
        fs::create_dir_all(folder.join("none")).expect("a folder");
        folder
    })
}

/// A folder of its own, gone when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("collcost-gpus-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder for the test");
        Self(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The command with the stand-ins of `place`, and what they are told.
fn collcost(place: &str, line: &str, told: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_collcost"));
    command.args(line.split_whitespace()).stdin(Stdio::null());
    command.env("LD_LIBRARY_PATH", stand_ins().join(place));
    command.env_remove("COLLCOST_NCCL").envs(told.iter().copied());
    command.output().expect("it starts")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const SIZES: &str = "--sizes 8,512,4K,16K,64K,256K,1M";

/// A calibration with NCCL: its report, and how it ended.
fn nccl(name: &str, more: &str, told: &[(&str, &str)]) -> (Output, Value, Folder) {
    let folder = Folder::new(name);
    let out = folder.file("node.toml");
    let line = format!("calibrate --transport nccl --launches 1 {SIZES} --out {out} {more}");
    let output = collcost("new", &format!("{line} --format json"), told);
    let report = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output, report, folder)
}

fn texts(value: &Value) -> Vec<String> {
    let all = value.as_array().into_iter().flatten();
    all.map(|text| text.as_str().map_or(text.to_string(), str::to_owned)).collect()
}

fn near(found: &Value, wanted: f64, part: f64) -> bool {
    found.as_f64().is_some_and(|found| (found / wanted - 1.0).abs() <= part)
}

/// o, α and BW of the stand-in's protocols.
const KNOWN: [(&str, f64, f64, f64); 3] =
    [("LL", 5e-6, 1e-6, 20e9), ("LL128", 9e-6, 1.6e-6, 60e9), ("Simple", 15e-6, 2e-6, 100e9)];

fn are_found(protocols: &[Value]) {
    for (name, launch, alpha, bandwidth) in KNOWN {
        let found = protocols.iter().find(|p| p["protocol"] == name).expect(name);
        assert!(near(&found["launch_s"], launch, 0.02), "{found}");
        assert!(near(&found["alpha_s"], alpha, 0.02), "{found}");
        assert!(near(&found["bandwidth_Bps"], bandwidth, 0.02), "{found}");
        assert_eq!(texts(&found["algorithms"]), ["Tree", "Ring"]);
    }
}

#[test]
fn the_figures_behind_nccl_are_found_again() {
    let (output, report, folder) = nccl("figures", "", &[("STANDIN_NVLS", "1")]);
    assert!(output.status.success(), "{}", said(&output));
    let ran = "the GPUs' multiprocessors ran at 1980 MHz".to_owned();
    assert!(texts(&report["notes"]).contains(&ran), "{report}");
    let protocols = report["protocols"].as_array().expect("protocols");
    are_found(protocols);
    let nvls = protocols.iter().find(|p| p["algorithms"][0] == "NVLS").expect("NVLS");
    assert!(near(&nvls["launch_s"], 12e-6, 0.02) && nvls["alpha_s"].is_null(), "{nvls}");
    // Every algorithm that is held out is predicted within the error that the fit states.
    let stated = report["stated_error"]["p90"].as_f64().expect("an error");
    assert!(stated < 0.02, "{stated}");
    let held = report["held_out_algorithms"].as_array().expect("held out");
    assert!(held.iter().any(|h| h["chosen"] == "tree/ll128"));
    for h in held {
        assert!(h["error"]["median"].as_f64().is_some_and(|e| e <= stated.max(1e-3)), "{h}");
    }
    // Where the stand-in itself changes: LL is cheapest first, Simple last.
    let of = |collective: &str| -> Vec<String> {
        let all = report["switches"].as_array().into_iter().flatten();
        let own = all.filter(|s| s["collective"] == collective);
        own.map(|s| s["chosen"].as_str().unwrap_or("").to_owned()).collect()
    };
    assert_eq!(of("allreduce"), ["ring/ll", "ring/ll128", "ring/simple"]);
    assert!(report["envelope_error"]["median"].as_f64().is_some_and(|e| e < 0.02));
    // The profile is one: it prices, and keeps protocols and switches.
    let profile = folder.file("node.toml");
    let text = fs::read_to_string(&profile).expect("the profile");
    assert!(text.contains("[[nccl.protocol]]") && text.contains("[[nccl.switch]]"), "{text}");
    // What runs is known from the log, for the measured ranks and links; every verb says the same.
    let runs = |line: &str| -> (String, String) {
        let asked = collcost("none", &format!("{line} --on {profile} --format json"), &[]);
        assert!(asked.status.success(), "{}", said(&asked));
        let answer: Value = serde_json::from_slice(&asked.stdout).expect("JSON");
        let text = |key: &str| answer["expect"]["runs"][key].as_str().unwrap_or("").to_owned();
        (text("algorithm"), text("rules"))
    };
    let known = |name: &str| (name.to_owned(), "measured".to_owned());
    assert_eq!(runs("allreduce 8 -n 4"), known("Ring/LL"));
    assert_eq!(runs("allreduce 1M -n 4"), known("Ring/Simple"));
    for line in ["allreduce 1M -n 2", "allreduce 1M -n 4 --bw 10GB/s", "allreduce 4 -n 4"] {
        assert_eq!(runs(line).1, "unknown", "{line}");
    }
    let chosen = collcost("none", &format!("choose nccl allreduce 8 -n 4 --on {profile}"), &[]);
    let chosen = String::from_utf8_lossy(&chosen.stdout).into_owned();
    assert!(chosen.contains("runs        Ring/LL (nccl@2."), "{chosen}");
    // The same fit again on a computer without GPUs.
    let samples = folder.file("node.samples.jsonl");
    let again = collcost("none", &format!("fit {samples} --format json"), &[]);
    let again: Value = serde_json::from_slice(&again.stdout).expect("JSON");
    assert_eq!(again["protocols"], report["protocols"]);
}

#[test]
fn ways_that_fail_are_notes_and_ways_that_are_passed_over_are_left_out() {
    let told = [
        ("STANDIN_FALLBACK", "Ring/LL128"),
        ("STANDIN_ABORT", "Tree/LL"),
        ("STANDIN_REFUSE", "Tree/Simple"),
        ("STANDIN_VERSION", "22302"),
    ];
    let (output, report, _folder) = nccl("ways", "--ops allreduce,allgather", &told);
    assert!(output.status.success(), "{}", said(&output));
    let notes = texts(&report["notes"]).join("\n");
    assert!(notes.contains("tree/ll: it was killed by signal 6: stand-in: no such way"), "{notes}");
    assert!(notes.contains("tree/simple: NCCL says: invalid usage"), "{notes}");
    assert!(notes.contains("ring/ll128: NCCL's log does not confirm 14 of 14 points"), "{notes}");
    let left_out = report["left_out"].to_string();
    assert!(left_out.contains("nccl/allgather/f32/ring/ll128"), "{left_out}");
    // The figures of what is left are as true as before.
    let protocols = report["protocols"].as_array().expect("protocols");
    let simple = protocols.iter().find(|p| p["protocol"] == "Simple").expect("Simple");
    assert!(near(&simple["bandwidth_Bps"], 100e9, 0.02), "{simple}");
    assert_eq!(texts(&simple["algorithms"]), ["Ring"]);
}

#[test]
fn a_log_that_says_nothing_confirms_nothing() {
    let (output, _, folder) = nccl("silent", "--ops allreduce", &[("STANDIN_VERSION", "21803")]);
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
    assert!(said(&output).contains("no run is known to have followed its settings"));
    assert!(!Path::new(&folder.file("node.toml")).exists());
    assert!(Path::new(&folder.file("node.samples.jsonl")).exists());
}

#[test]
fn settings_of_the_user_do_not_reach_nccl_but_those_of_the_site_do() {
    let told = [("NCCL_ALGO", "Tree"), ("NCCL_PROTO", "LL"), ("NCCL_SOCKET_IFNAME", "eth7")];
    let (output, report, folder) = nccl("settings", "--ops allreduce", &told);
    assert!(output.status.success(), "{}", said(&output));
    let switches = report["switches"].to_string();
    assert!(switches.contains("ring/simple") && !switches.contains("tree"), "{switches}");
    let text = fs::read_to_string(folder.file("node.samples.jsonl")).expect("samples");
    let (header, _) = sample::read(&text, "node").expect("samples");
    assert_eq!(header.options, ["NCCL_SOCKET_IFNAME=eth7"]);
    assert_eq!(header.library.as_deref(), Some("nccl 2.27.3"));
    // What is measured already is not measured again.
    let out = folder.file("node.toml");
    let line = format!(
        "calibrate --transport nccl --launches 1 {SIZES} --ops allreduce --out {out} --resume"
    );
    let again = collcost("new", &line, &told);
    assert!(again.status.success(), "{}", said(&again));
    let after = fs::read_to_string(folder.file("node.samples.jsonl")).expect("samples");
    let (_, samples) = sample::read(&after, "node").expect("samples");
    let (_, before) = sample::read(&text, "node").expect("samples");
    assert_eq!(samples.blocks.len(), before.blocks.len());
}

#[test]
fn a_wrong_result_ends_it() {
    let (output, _, _folder) = nccl("wrong", "--ops allreduce", &[("STANDIN_WRONG", "1")]);
    assert_eq!(output.status.code(), Some(5), "{}", said(&output));
    assert!(said(&output).contains("library/allreduce/f32 of 8 B has a wrong result"));
}

#[test]
fn what_is_missing_is_named() {
    let cases = [
        ("none", "calibrate --transport cuda", "no NVIDIA GPU driver found"),
        ("none", "calibrate --transport nccl", "no NVIDIA GPU driver found"),
        ("old-driver", "calibrate --transport cuda", "the driver has no cuGraphLaunch"),
        ("new", "calibrate --transport nccl --nccl-lib /nowhere/x.so", "NCCL cannot be loaded"),
        ("new", "calibrate --transport nccl --nccl-lib libcuda.so.1", "has no ncclGetVersion"),
        ("new", "run allreduce ring 1K -n 2 --transport cuda", "not by GPUs"),
    ];
    for (place, line, what) in cases {
        let output = collcost(place, line, &[]);
        assert_eq!(output.status.code(), Some(3), "{line}: {}", said(&output));
        assert!(said(&output).contains(what), "{line}: {}", said(&output));
        assert!(output.stdout.is_empty());
    }
    let none = collcost("new", "calibrate --transport cuda", &[("STANDIN_GPUS", "0")]);
    assert_eq!(none.status.code(), Some(3));
    assert!(said(&none).contains("the driver found no GPU"), "{}", said(&none));
    // A collective that an old library does not have is left out by name.
    let folder = Folder::new("old");
    let line = format!(
        "calibrate --transport nccl --launches 1 {SIZES} --out {} --format json",
        folder.file("old.toml")
    );
    let old = collcost("old-nccl", &line, &[]);
    assert!(old.status.success(), "{}", said(&old));
    let report: Value = serde_json::from_slice(&old.stdout).expect("JSON");
    let notes = texts(&report["notes"]);
    assert!(notes.contains(&"this NCCL has no reducescatter".to_owned()), "{notes:?}");
    assert!(notes.iter().any(|note| note.starts_with("no NVML: ")), "{notes:?}");
}

#[test]
fn one_gpu_says_what_it_can_and_no_more() {
    let one = [("STANDIN_GPUS", "1")];
    let alone = collcost("new", "calibrate --transport nccl", &one);
    assert_eq!(alone.status.code(), Some(3));
    assert!(said(&alone).contains("a single rank of NCCL has no peer"), "{}", said(&alone));
    // Before 2.30 each rank is a process, and to NCCL a host of its own.
    let (output, report, folder) = nccl("apart", "-n 3 --ops allreduce,alltoall", &one);
    assert!(output.status.success(), "{}", said(&output));
    let note = texts(&report["notes"])[0].clone();
    assert!(note.contains("each is a process and, for NCCL, a separate host"), "{note}");
    let text = fs::read_to_string(folder.file("node.samples.jsonl")).expect("samples");
    let (header, samples) = sample::read(&text, "node").expect("samples");
    assert!(header.options.contains(&"NCCL_NVLS_ENABLE=0".to_owned()), "{:?}", header.options);
    assert!(header.options.contains(&"NCCL_SOCKET_IFNAME=lo".to_owned()), "{:?}", header.options);
    assert!(samples.blocks.iter().all(|block| (block.ranks, block.nodes) == (3, Some(3))));
    let told = [("STANDIN_GPUS", "1"), ("STANDIN_VERSION", "23007")];
    let (output, report, folder) = nccl("loopback", "-n 2 --ops allreduce", &told);
    assert!(output.status.success(), "{}", said(&output));
    assert!(texts(&report["notes"])[0].starts_with("single-gpu-loopback"), "{report}");
    let profile = fs::read_to_string(folder.file("node.toml")).expect("the profile");
    assert!(profile.contains("single-gpu-loopback"));
}

#[test]
fn messages_other_types_and_registered_buffers_are_measured_too() {
    let more = "--ops alltoall,sendrecv,allreduce --registered";
    let (output, report, folder) = nccl("more", more, &[]);
    assert!(output.status.success(), "{}", said(&output));
    let text = fs::read_to_string(folder.file("node.samples.jsonl")).expect("samples");
    let (header, samples) = sample::read(&text, "node").expect("samples");
    assert!(header.command.contains("--registered"), "{}", header.command);
    let ops: BTreeSet<String> = samples.blocks.iter().map(|block| block.op.to_string()).collect();
    for op in ["alltoall/f32", "sendrecv/f32", "allreduce/f32", "allreduce/bf16"] {
        assert!(ops.contains(&format!("library/{op}")), "{ops:?}");
    }
    // What is fitted of protocols is f32's.
    assert!(!ops.iter().any(|op| op.starts_with("nccl/") && !op.contains("/allreduce/f32/")));
    // The stand-in's messages: 17 µs and 100 GB/s, on the GPU's clock, captured and not.
    let event = samples.blocks.iter().find(|b| {
        b.op.to_string() == "library/sendrecv/f32" && b.size == Bytes(1 << 20) && b.inner > 1
    });
    let time = event.expect("a block").spans()[0].0;
    assert!((time / (17e-6 + (1 << 20) as f64 / 100e9) - 1.0).abs() < 0.01, "{time}");
    let notes = texts(&report["notes"]).join("\n");
    assert!(!notes.contains("graph"), "{notes}");
    let told = [("STANDIN_NO_CAPTURE", "1")];
    let (output, report, _folder) = nccl("uncaptured", "", &told);
    assert!(output.status.success(), "{}", said(&output));
    are_found(report["protocols"].as_array().expect("protocols"));
    let notes = texts(&report["notes"]).join("\n");
    assert!(notes.contains("this NCCL allows no graph capture"), "{notes}");
}

#[test]
fn a_peer_that_is_gone_is_named_while_the_gpu_works_on() {
    let began = Instant::now();
    let (output, report, _folder) =
        nccl("fault", "--ops allreduce", &[("STANDIN_FAULT", "Ring/LL128")]);
    assert!(output.status.success(), "{}", said(&output));
    let notes = texts(&report["notes"]).join("\n");
    assert!(notes.contains("ring/ll128: NCCL says: remote process exited"), "{notes}");
    assert!(notes.contains("socket closed by the peer"), "{notes}");
    assert!(began.elapsed() < Duration::from_secs(50), "it was not waited for until it is killed");
}

#[test]
fn a_bare_run_names_the_gpus_that_it_does_not_measure() {
    // (place, what the stand-ins are told, what is said)
    type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str);
    let cases: [Case<'_>; 5] = [
        (
            "new",
            &[("STANDIN_GPUS", "1")],
            "note: 1 x Stand-in GPU: not measured, only the CPUs are: a single rank",
        ),
        ("stub", &[], "the first libcuda.so.1 found is a stub"),
        ("new", &[("STANDIN_HANG", "start")], "no answer for 8.0 s: killed"),
        ("new", &[("STANDIN_SLOW", "20")], "no answer for 8.0 s: killed"),
        (
            "new",
            &[("COLLCOST_NCCL", "/nowhere/libnccl.so.2")],
            "note: 4 x Stand-in GPU: not measured",
        ),
    ];
    for (place, told, what) in cases {
        let began = Instant::now();
        let output = collcost(place, "calibrate --dry-run", told);
        assert!(began.elapsed() < Duration::from_secs(10), "{what}: {:?}", began.elapsed());
        assert!(said(&output).contains(what), "{what}: {}", said(&output));
        assert!(said(&output).contains("--transport cuda"), "{}", said(&output));
    }
    // Two that answer are measured; a driver's stub beside the driver is passed over.
    let two = collcost("new", "calibrate --dry-run", &[("STANDIN_GPUS", "2")]);
    let text = String::from_utf8_lossy(&two.stdout).into_owned();
    assert!(text.contains("2 x Stand-in GPU") && text.contains("about"), "{text}");
    // Without a driver nothing is said.
    assert!(!said(&collcost("none", "calibrate --dry-run", &[])).contains("GPU"));
}

#[test]
fn a_part_of_a_gpu_has_its_own_name_and_the_clock_of_the_whole() {
    let folder = Folder::new("mig");
    let line = format!(
        "calibrate --transport cuda --launches 1 --sizes 64,4K,64K,256K --out {} --format json",
        folder.file("part.toml")
    );
    let told = [("STANDIN_GPUS", "1"), ("STANDIN_MIG", "1")];
    let output = collcost("new", &line, &told);
    assert!(output.status.success(), "{}", said(&output));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let notes = texts(&report["notes"]).join("\n");
    assert!(notes.contains("ran at 1980 MHz"), "{notes}");
    let text = fs::read_to_string(folder.file("part.samples.jsonl")).expect("samples");
    let (header, _) = sample::read(&text, "part").expect("samples");
    let name = "Stand-in GPU MIG 1g.10gb (MIG-16000000-0000-0000-0000-000000000001)";
    assert!(header.machine.contains(name), "{}", header.machine);
}

#[test]
fn what_gpus_do_by_themselves_is_found_again() {
    let folder = Folder::new("survey");
    let line = format!(
        "calibrate --transport cuda --launches 1 --sizes 64,4K,64K,256K,1M --out {} --format json",
        folder.file("gpus.toml")
    );
    let output = collcost("new", &line, &[("STANDIN_GPUS", "2"), ("STANDIN_HELD", "0x24")]);
    assert!(output.status.success(), "{}", said(&output));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let figures = report["figures"].as_array().expect("figures");
    let find = |op: &str| figures.iter().find(|f| f["operation"] == op).expect(op);
    // The stand-in waits for real, on a machine that does other things too.
    for (op, rate) in [
        ("device/copy/0/1", 1e9),
        ("device/copy/1/0", 1e9),
        ("device/exchange/0/1", 1e9),
        ("device/upload/pinned", 0.5e9),
        ("device/download/pageable", 0.5e9),
    ] {
        assert!(near(&find(op)["bandwidth_Bps"], rate, 0.25), "{}", find(op));
    }
    assert!(find("device/copy/0/1")["start_s"].as_f64().is_some_and(|s| s > 15e-6));
    for op in ["copy", "local-reduce", "device/kernel", "device/graph"] {
        find(op);
    }
    let text = fs::read_to_string(folder.file("gpus.toml")).expect("the profile");
    assert!(text.contains("operation = \"copy/0/1\""), "{text}");
    let notes = texts(&report["notes"]).join("\n");
    assert!(notes.contains("ran at 1755 MHz") && text.contains("ran at 1755 MHz"), "{notes}");
    assert!(notes.contains("by heat (") && notes.contains("its power limit ("), "{notes}");
    let asked =
        collcost("none", &format!("allreduce 1M -n 2 --on {}", folder.file("gpus.toml")), &[]);
    assert!(asked.status.success(), "{}", said(&asked));
    // What the GPUs are is said without measuring.
    let look = collcost("new", "calibrate --transport cuda --check --format json", &[]);
    let look: Value = serde_json::from_slice(&look.stdout).expect("JSON");
    assert_eq!(look["reach"][0], serde_json::json!([true, true, true, false]));
    assert_eq!(texts(&look["gpus"]).len(), 4);
}

#[test]
fn one_gpu_by_itself_is_marked() {
    let folder = Folder::new("single");
    let line = format!(
        "calibrate --transport cuda --launches 1 --sizes 64,4K,64K,256K --out {}",
        folder.file("gpu.toml")
    );
    let output = collcost("new", &line, &[("STANDIN_GPUS", "1")]);
    assert!(output.status.success(), "{}", said(&output));
    let text = fs::read_to_string(folder.file("gpu.toml")).expect("the profile");
    assert!(
        text.contains("single-gpu: there was one GPU") && !text.contains("tier.alpha"),
        "{text}"
    );
}

/// Ranks of a launcher with GPUs, which meet on this host.
struct Ranks {
    folder: Folder,
    at: SocketAddr,
    count: usize,
}

impl Ranks {
    fn new(name: &str, count: usize) -> Self {
        let folder = Folder::new(name);
        let at = crate::hosts::free_address();
        fs::write(folder.file("token"), [7; 32]).expect("a token");
        fs::set_permissions(folder.file("token"), fs::Permissions::from_mode(0o600)).expect("mode");
        Self { folder, at, count }
    }

    /// Starts one, as Open MPI would, with what the stand-ins are told.
    fn start(&self, rank: usize, line: &str, told: &[(&str, &str)]) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_collcost"));
        command.args(["calibrate", "--rendezvous", &self.at.to_string(), "--progress", "none"]);
        command.args(["--token-file", &self.folder.file("token")]).args(line.split_whitespace());
        command.args(["--out", &self.folder.file("fleet.toml"), "--format", "json"]);
        command.env("OMPI_COMM_WORLD_RANK", rank.to_string());
        command.env("OMPI_COMM_WORLD_SIZE", self.count.to_string());
        command.env("LD_LIBRARY_PATH", stand_ins().join("new")).env_remove("COLLCOST_NCCL");
        command.env("TMPDIR", &self.folder.0).envs(told.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running::of(command.spawn().expect("it starts"))
    }

    /// Runs all; `told` may differ at the last of them.
    fn all(&self, line: &str, told: &[(&str, &str)], last: &[(&str, &str)]) -> Vec<Output> {
        let told = |rank| if rank + 1 == self.count { last } else { told };
        let line = format!("--transport nccl --launches 1 {line}");
        let all = (0..self.count).map(|rank| self.start(rank, &line, told(rank)));
        all.collect::<Vec<_>>().into_iter().map(Running::output).collect()
    }
}

#[test]
fn ranks_under_a_launcher_are_ranks_of_nccl_together() {
    let ranks = Ranks::new("together", 2);
    let told = [("STANDIN_NVLS", "1")];
    let all = ranks.all(SIZES, &told, &told);
    assert!(all[0].status.success(), "{}", said(&all[0]));
    assert!(said(&all[0]).contains("rank 0 of 2 by openmpi: waiting for 1 more"));
    assert!(all[1].status.success() && all[1].stdout.is_empty(), "{}", said(&all[1]));
    assert_eq!(said(&all[1]), "");
    // Four GPUs, shared out; the figures are those of one process with all of them.
    let report: Value = serde_json::from_slice(&all[0].stdout).expect("JSON");
    let protocols = report["protocols"].as_array().expect("protocols");
    are_found(protocols);
    assert!(protocols.iter().any(|p| p["algorithms"][0] == "NVLS"), "{report}");
    let text = fs::read_to_string(ranks.folder.file("fleet.samples.jsonl")).expect("samples");
    let (header, samples) = sample::read(&text, "fleet").expect("samples");
    assert_eq!(header.ranks, 4);
    assert!(header.machine.contains("2 ranks on ") && header.machine.contains("4 x Stand-in GPU"));
    assert!(samples.blocks.iter().all(|block| block.ranks == 4 && block.nodes == Some(1)));
    // What is left of its work: the token, the profile, the samples.
    assert_eq!(fs::read_dir(&ranks.folder.0).expect("the folder").count(), 3);
}

#[test]
fn a_way_that_fails_at_one_rank_is_a_note_that_names_it() {
    let ranks = Ranks::new("one-fails", 2);
    let last = [("STANDIN_ABORT", "Tree/LL"), ("STANDIN_REFUSE", "Tree/Simple")];
    let all = ranks.all(&format!("{SIZES} --ops allreduce"), &[], &last);
    assert!(all[0].status.success(), "{}", said(&all[0]));
    let report: Value = serde_json::from_slice(&all[0].stdout).expect("JSON");
    let notes = texts(&report["notes"]).join("\n");
    assert!(notes.contains("tree/ll: rank 1 ("), "{notes}");
    assert!(notes.contains("it was killed by signal 6: stand-in: no such way"), "{notes}");
    assert!(notes.contains("tree/simple: rank 1 ("), "{notes}");
    assert!(notes.contains("NCCL says: invalid usage"), "{notes}");
    let protocols = report["protocols"].as_array().expect("protocols");
    let simple = protocols.iter().find(|p| p["protocol"] == "Simple").expect("Simple");
    assert!(near(&simple["bandwidth_Bps"], 100e9, 0.02), "{simple}");
}

#[test]
fn ranks_that_do_not_fit_together_are_refused() {
    let one = [("STANDIN_GPUS", "1")];
    type Told<'a> = &'a [(&'a str, &'a str)];
    let cases: [(&str, Told<'_>, Told<'_>, i32, &str); 4] = [
        ("more", &one, &one, 3, "2 ranks of a host see one GPU"),
        ("some", &one, &[], 3, "ranks 0 and 1 of a host see partly the same GPUs"),
        (
            "old",
            &[],
            &[("STANDIN_VERSION", "22105")],
            3,
            "rank 0 has NCCL 2.27.3, rank 1 has NCCL 2.21.5",
        ),
        ("none", &[], &[("STANDIN_GPUS", "0")], 3, "): the driver found no GPU"),
    ];
    for (name, told, last, code, what) in cases {
        let all = Ranks::new(name, 2).all(SIZES, told, last);
        assert_eq!(all[0].status.code(), Some(code), "{name}: {}", said(&all[0]));
        assert!(said(&all[0]).contains(what), "{name}: {}", said(&all[0]));
        assert_eq!(said(&all[0]).matches("error:").count(), 1);
    }
    // Each sees its own: nothing is to be shared out.
    let ranks = Ranks::new("mixed", 2);
    let first = ranks.start(0, "--transport nccl --check", &[]);
    let other = ranks.start(1, "--transport tcp", &[]).output();
    assert_eq!(other.status.code(), Some(3), "{}", said(&other));
    let what = "rank 1 was started with --transport tcp, rank 0 with --transport nccl";
    assert!(said(&other).contains(what), "{}", said(&other));
    // Who was turned away may come again, as it should.
    let again = ranks.start(1, "--transport nccl", &[]).output();
    assert!(again.status.success(), "{}", said(&again));
    let first = first.output();
    assert!(first.status.success(), "{}", said(&first));
    let report: Value = serde_json::from_slice(&first.stdout).expect("JSON");
    assert_eq!(texts(&report["gpus"]).len(), 4);
    let alone = ranks.start(0, "--transport cuda", &[]).output();
    assert_eq!(alone.status.code(), Some(3));
    assert!(said(&alone).contains("are measured by one process"), "{}", said(&alone));
}

#[test]
fn a_rank_with_gpus_that_is_lost_ends_all_soon() {
    for (name, stop) in [("killed", "KILL"), ("stopped", "STOP")] {
        let ranks = Ranks::new(name, 3);
        let line = "--transport nccl --ops allreduce --sizes 8,4K,256K,1M --launches 100";
        let mut all: Vec<Running> = (0..3).map(|rank| ranks.start(rank, line, &[])).collect();
        let samples = ranks.folder.file("fleet.samples.jsonl");
        soon("a block", || {
            let text = fs::read_to_string(&samples).unwrap_or_default();
            text.contains(r#""t":"blk""#).then_some(())
        });
        signal(stop, all[2].id());
        let (lost, began) = (all.remove(2), Instant::now());
        let others: Vec<Output> = all.into_iter().map(Running::output).collect();
        assert!(began.elapsed() < Duration::from_secs(5), "{name}: {:?}", began.elapsed());
        for output in &others {
            assert_eq!(output.status.code(), Some(5), "{name}: {}", said(output));
            assert!(said(output).contains("rank 2 ("), "{name}: {}", said(output));
        }
        assert!(said(&others[0]).contains("--resume continues"), "{}", said(&others[0]));
        let text = fs::read_to_string(&samples).expect("samples");
        assert!(!sample::read(&text, "fleet").expect("they are whole").1.blocks.is_empty());
        let left = children(lost.id());
        drop(lost);
        let is_there =
            |pid: &u32| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|text| !text.is_empty());
        soon("the end of its process", || (!left.iter().any(is_there)).then_some(()));
    }
}

/// Keeps nothing.
#[derive(Default)]
struct Counter {
    blocks: usize,
}

impl Desk for Counter {
    fn keep(&mut self, record: &Record) -> Result<()> {
        self.blocks += usize::from(matches!(record, Record::Block(_)));
        Ok(())
    }

    fn show(&mut self, _: usize, _: usize, _: &str) {}

    fn time(&self) -> String {
        String::new()
    }
}

/// Processes with the stand-ins, and what these are told.
fn setup(folder: &Folder, told: &[(&str, &str)], patience: Duration) -> Setup {
    let library = stand_ins().join("new");
    let path = library.to_string_lossy();
    let told = [("LD_LIBRARY_PATH", &*path)].into_iter().chain(told.iter().copied());
    Setup {
        program: (PathBuf::from(env!("CARGO_BIN_EXE_collcost")), vec!["run-gpu".to_owned()]),
        library: vec![library.join("libnccl.so.2")],
        environment: told.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        scratch: folder.0.clone(),
        patience,
        starting: Duration::from_secs(60),
        interrupt: None,
    }
}

/// All-reduces of two sizes.
fn plan(gpus: Vec<Vec<u32>>, apart: bool, sets: Vec<Set>) -> Plan {
    Plan {
        nodes: if apart { gpus.len() as u32 } else { 1 },
        gpus,
        apart,
        sets,
        calls: vec![(Collective::AllReduce, DataType::F32)],
        sizes: vec![Bytes(8), Bytes(4096)],
        registered: false,
        launches: 1,
        seed: 1,
        budget: Duration::from_secs(120),
    }
}

/// Sends a signal to the second process of a launch when the first block has been measured.
struct Fault {
    signal: &'static str,
    processes: Vec<u32>,
    is_sent: bool,
}

impl Desk for Fault {
    fn keep(&mut self, record: &Record) -> Result<()> {
        match record {
            Record::Launch(launch) => self.processes.clone_from(&launch.pids),
            Record::Block(_) if !self.is_sent => {
                signal(self.signal, self.processes[1]);
                self.is_sent = true;
            }
            _ => {}
        }
        Ok(())
    }

    fn show(&mut self, _: usize, _: usize, _: &str) {}

    fn time(&self) -> String {
        String::new()
    }
}

#[test]
fn a_rank_that_shares_a_gpu_is_named_when_it_is_lost() {
    for (signal, wanted) in [
        ("KILL", "rank 1: it was killed by signal 9"),
        ("STOP", "rank 1 is stopped: no answer for 3.0 s: killed"),
    ] {
        let folder = Folder::new(&format!("shared-{signal}"));
        let told = [("STANDIN_GPUS", "1"), ("STANDIN_VERSION", "22703")];
        let setup = setup(&folder, &told, Duration::from_secs(3));
        let plan = plan(vec![vec![0], vec![0]], true, vec![Set::AUTO]);
        let mut desk = Fault { signal, processes: Vec::new(), is_sent: false };
        let error = gpu::nccl(&setup, None, &plan, &BTreeSet::new(), &mut desk).unwrap_err();
        assert!(error.is_lost() && desk.is_sent, "{error}");
        assert_eq!(error.what(), format!("NCCL's own choice: {wanted}"));
    }
}

#[test]
fn a_way_that_hangs_is_killed_and_the_others_go_on() {
    let folder = Folder::new("hang");
    let patience = Duration::from_secs(5);
    let hangs = setup(&folder, &[("STANDIN_HANG", "Ring/LL")], patience);
    let plan = plan(vec![vec![0, 1]], false, Set::ALL[..3].to_vec());
    let (mut desk, began) = (Counter::default(), Instant::now());
    let ran =
        gpu::nccl(&hangs, None, &plan, &BTreeSet::new(), &mut desk).expect("the others go on");
    assert_eq!(ran.notes[0], "ring/ll: no answer for 5.0 s: killed");
    // NCCL's own choice and Ring/LL128, two sizes, two clocks each.
    assert_eq!(desk.blocks, 8);
    assert!(began.elapsed() >= Duration::from_secs(5));
    let hanging = gpu::survey_ops(2, 1);
    let setup = setup(&folder, &[("STANDIN_GPUS", "2"), ("STANDIN_HANG", "copy")], patience);
    let how = (1, 1, Duration::from_secs(60));
    let sizes = [Bytes(64)];
    let lost = gpu::survey(&setup, (&hanging, &sizes), how, &BTreeSet::new(), &mut desk);
    let lost = lost.expect_err("a copy hangs");
    assert!(lost.is_lost() && lost.to_string().contains("no answer for 5.0 s"), "{lost}");
}

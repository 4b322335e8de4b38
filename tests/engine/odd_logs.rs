//! Logs that are not what a command expects, through the command: of other GPUs and libraries, of calls without a
//! launch, predicted, contradictory, damaged, packed.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::command::collcost;

/// The exit code, and all that was written.
fn told(words: &[&str]) -> (i32, String) {
    let output = collcost(words);
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8_lossy(&said).into_owned())
}

/// The exit code and the report.
fn report(words: &[&str]) -> (i32, Value) {
    let output = collcost(&[words, &["--format", "json"]].concat());
    let report = serde_json::from_slice(&output.stdout);
    let report = report.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code().unwrap(), report)
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("odd_logs").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn file(folder: &Path, name: &str, content: impl AsRef<[u8]>) -> String {
    let path = folder.join(name);
    fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

/// What `mock` writes of eight GPUs, with further words.
fn mock(more: &[&str]) -> String {
    let words = "mock all_reduce_perf -n 8 --on dgx-h100 -b 1K -e 1G -f 4".split(' ');
    let words: Vec<&str> = words.chain(more.iter().copied()).collect();
    String::from_utf8(collcost(&words).stdout).unwrap()
}

/// A log of eight GPUs that says of itself that they were measured.
fn log() -> String {
    let mock = mock(&[]);
    let plain = mock.replace("PREDICTED by", "written by");
    plain.replace("predicted dgx-h100", "NVIDIA H100 80GB HBM3")
}

fn says(list: &Value, words: &str) -> bool {
    list.as_array().is_some_and(|all| all.iter().any(|one| one.as_str().unwrap().contains(words)))
}

#[test]
fn gpus_and_libraries_that_a_machine_lacks_are_named() {
    let folder = folder("gpus");
    let h100 = file(&folder, "h100.log", log());
    let a100 = file(&folder, "a100.log", log().replace("H100 80GB HBM3", "A100-SXM4-80GB"));
    let amd = log().replace("NVIDIA H100 80GB HBM3", "AMD Instinct MI300X");
    let amd = file(
        &folder,
        "amd.log",
        amd.replace("# Using devices", "rccl-tests: Version x:1\n# Using devices"),
    );

    // Nobody named a machine: the default one is not that of the log.
    let (code, said) = told(&["compare", &a100]);
    let what = "the log lists NVIDIA A100-SXM4-80GB, and the default machine, dgx-h100, has H100";
    assert!(code == 2 && said.contains(what) && said.contains("--on"), "{said}");
    let (code, said) = told(&["compare", &amd]);
    assert!(
        code == 2 && said.contains("ran on AMD Instinct MI300X, and the default machine"),
        "{said}"
    );
    assert_ne!(told(&["compare", &h100]).0, 2);

    // A named one gets a note.
    let note = "and dgx-h100 has H100: name the machine that ran it with --on";
    let (_, of) = report(&["compare", &a100, "--on", "dgx-h100"]);
    assert!(says(&of["runs"][0]["notes"], note), "{of}");
    let (_, of) = report(&["compare", &h100, "--on", "dgx-h100"]);
    assert!(!says(&of["runs"][0]["notes"], "lists"), "{of}");
    let (_, of) = report(&["compare", &amd, "--on", "mi300x"]);
    assert!(!says(&of["runs"][0]["notes"], "lists"), "{of}");

    // The same in a fit, which does not take one library for the other without a word.
    let (_, of) = report(&["fit", &amd, "--on", "dgx-h100"]);
    assert!(says(&of["notes"], " ran, and dgx-h100 runs NCCL"), "{of}");
    assert!(says(&of["notes"], "amd.log: the log lists AMD Instinct MI300X"), "{of}");
    let profile = folder.join("site.toml");
    told(&["fit", &amd, "--out", profile.to_str().unwrap()]);
    assert!(fs::read_to_string(profile).unwrap().contains("library = \"rccl\""));
    let rows = told(&["import", &amd, "--to", "csv"]).1;
    assert!(rows.lines().nth(1).unwrap().contains(",RCCL,nccl-tests,"), "{rows}");
}

/// Times without a launch, parts of merged calls, and predictions are no plain measurements.
#[test]
fn what_times_are_is_said_wherever_they_are_used() {
    let folder = folder("caveats");
    let plain = file(&folder, "plain.log", log());
    let graph = file(&folder, "graph.log", log().replace("graph: 0", "graph: 20"));
    let merged = file(&folder, "merged.log", log().replace("agg iters: 1", "agg iters: 5"));
    let mock = log().replace("# written by", "# PREDICTED by");
    let mock = file(&folder, "mock.log", mock);
    let json = self::mock(&["--json"]);
    let json_graph = json.replace("\"graph\":0", "\"graph\":20");
    assert_ne!(json, json_graph);
    let json = file(&folder, "graph.json", json_graph);

    let waits = log().replace(
        "#\n",
        "# Blocking Enabled: wait and barrier after each inner iteration (-m)\n#\n",
    );
    let waits = file(&folder, "waits.log", waits);
    let blocking = "a blocking run (-z)";
    let json_waits = self::mock(&["--json"]);
    let json_waits = json_waits
        .replace("\"blocking_collectives\":\"false\"", "\"blocking_collectives\":\"true\"");
    let json_waits = file(&folder, "waits.json", json_waits);

    let launch = "from a CUDA graph: times do not include the launch";
    let predicted = "predicted by collcost mock, not measured";
    let cases = [
        (&graph, launch),
        (&merged, "5 calls were merged into one launch"),
        (&mock, predicted),
        (&json, launch),
        (&json, predicted),
        (&waits, blocking),
        (&json_waits, blocking),
    ];
    for (log, words) in cases {
        let (_, of) = report(&["compare", log, "--on", "dgx-h100"]);
        assert!(says(&of["runs"][0]["notes"], words), "{log}: {of}");
        let (_, of) = report(&["fit", log]);
        assert!(says(&of["notes"], words), "{log}: {of}");
        let (_, of) = report(&["import", log]);
        assert!(says(&of["files"][0]["tables"][0]["warnings"], words), "{log}: {of}");
    }
    let (_, of) = report(&["compare", &plain, "--on", "dgx-h100"]);
    assert!(!says(&of["runs"][0]["notes"], "launch"), "{of}");
    let profile = folder.join("site.toml");
    told(&["fit", &graph, "--out", profile.to_str().unwrap()]);
    assert!(fs::read_to_string(profile).unwrap().contains(launch));
}

#[test]
fn measurements_that_contradict_each_other_are_named() {
    let folder = folder("contradictions");
    let table = |times: [&str; 3]| {
        let rows = ["1048576", "16777216", "268435456"].iter().zip(times);
        let rows: String =
            rows.map(|(size, time)| format!("allreduce,8,1,{size},{time}\n")).collect();
        format!("collective,ranks,nodes,bytes,time_us\n{rows}")
    };
    let a = file(&folder, "a.csv", table(["117", "140", "1100"]));
    let b = file(&folder, "b.csv", table(["572", "150", "1150"]));
    let both =
        table(["117", "140", "1100"]) + table(["572", "150", "1150"]).split_once('\n').unwrap().1;
    let both = file(&folder, "both.csv", both);
    let words = "contradict each other: 1 MiB on 8 ranks took 117 µs and 572 µs;";
    let (_, of) = report(&["fit", &a, &b]);
    assert!(says(&of["notes"], words), "{of}");
    let (_, of) = report(&["compare", &both, "--on", "dgx-h100"]);
    assert!(says(&of["runs"][0]["notes"], words), "{of}");
    let (_, of) = report(&["fit", &a, &a]);
    assert!(!says(&of["notes"], "contradict"), "{of}");
}

/// "8 of 10 runs" speaks of runs: how far those of the logs are from each other is in it.
#[test]
fn runs_that_differ_widen_the_band() {
    let folder = folder("repeats");
    let table = |by: f64| {
        let rows = (10..28).map(|k| (1_u64 << k, by * (20.0 + f64::from(1 << k) / 2e5)));
        let rows: String =
            rows.map(|(size, time)| format!("allreduce,8,1,{size},{time:.2}\n")).collect();
        format!("collective,ranks,nodes,bytes,time_us\n{rows}")
    };
    let runs: Vec<String> = [1.0, 1.1, 1.21]
        .iter()
        .enumerate()
        .map(|(i, &by)| file(&folder, &format!("{i}.csv"), table(by)))
        .collect();
    let band = |logs: &[String]| {
        let profile = folder.join("site.toml").to_str().unwrap().to_owned();
        let logs: Vec<&str> = logs.iter().map(String::as_str).collect();
        told(&[&["fit"], &logs[..], &["--on", "dgx-h100", "--out", &profile, "--force"]].concat());
        let ask = ["allreduce", "1M", "-n", "8", "--on", &profile];
        let (_, of) = report(&ask);
        let of = |key: &str| of["expect"][key].as_f64().unwrap();
        (of("low_s") / of("time_s"), of("high_s") / of("time_s"))
    };
    let (low, high) = band(&[runs[1].clone(), runs[1].clone(), runs[1].clone()]);
    assert!(low > 0.98 && high < 1.02, "{low} {high}");
    let (low, high) = band(&runs);
    assert!((0.85..0.95).contains(&low) && (1.05..1.15).contains(&high), "{low} {high}");
}

/// One damaged log of several is named, and the others are used; the exit code says so.
#[test]
fn the_good_of_several_logs_are_used() {
    let folder = folder("several");
    let good = file(&folder, "good.log", log());
    let empty = file(&folder, "empty.log", "");
    let on = ["--on", "dgx-h100"];
    let (code, of) = report(&[&["compare", &good, &empty], &on[..]].concat());
    assert!(code == 2 && of["runs"].as_array().unwrap().len() == 1, "{of}");
    assert!(says(&of["left_out"], "empty.log: "), "{of}");
    let profile = folder.join("site.toml");
    let (code, of) = report(&["fit", &good, &empty, "--out", profile.to_str().unwrap()]);
    assert!(code == 2 && profile.is_file() && says(&of["notes"], "left out: empty.log"), "{of}");
    let (code, said) = told(&["compare", &empty, "--on", "dgx-h100"]);
    assert!(code == 2 && said.contains("empty.log"), "{said}");
}

/// The row that a damaged log lacks may be the ill one: whoever uses the log says that it is left out.
#[test]
fn rows_that_are_left_out_are_said_by_all_that_use_a_log() {
    let folder = folder("rows");
    let row =
        log().lines().find(|line| line.trim_start().starts_with("67108864 ")).unwrap().to_owned();
    let harmed = log().replace(&row, &row[..40]);
    let harmed = file(&folder, "harmed.log", harmed);
    let out = "1 row is left out: the row is cut off: 3 of 13 fields (line ";
    let (code, of) = report(&["compare", &harmed, "--on", "dgx-h100"]);
    assert!(code == 0 && says(&of["runs"][0]["notes"], out), "{of}");
    let budget =
        format!("[[budget]]\nname = \"ours\"\nmeasured = \"{harmed}\"\nprofile = \"dgx-h100\"\n");
    let (code, said) = told(&["check", &file(&folder, "budgets.toml", budget)]);
    assert!(code == 0 && said.contains(out), "{said}");
    let (_, of) = report(&["fit", &harmed, "--out", folder.join("site.toml").to_str().unwrap()]);
    assert!(says(&of["notes"], out), "{of}");
}

/// Imports of two logs of one machine have rows that are alike, and one name for their run.
#[test]
fn imports_are_fitted_together_and_joined() {
    let folder = folder("imports");
    let [one, other] = ["one", "other"].map(|name| {
        let log = file(&folder, &format!("{name}.log"), log());
        let output = collcost(&["import", &log, "--to", "jsonl"]);
        (file(&folder, &format!("{name}.jsonl"), &output.stdout), output.stdout)
    });
    let joined = file(&folder, "joined.jsonl", [one.1, other.1].concat());
    let profile = folder.join("site.toml");
    for files in [&[&*one.0, &*other.0][..], &[&*joined]] {
        let (code, said) = told(&[&["fit"], files, &["--out", profile.to_str().unwrap()]].concat());
        assert!(code == 0 && profile.is_file(), "{said}");
        fs::remove_file(&profile).unwrap();
    }
}

/// Hosts that ran something else, or whose logs are damaged, do not vanish from a fleet.
#[test]
fn hosts_that_cannot_be_compared_are_named() {
    let folder = folder("fleet");
    let host = |name: &str, title: &str, slow: f64| {
        let rows: String = (10..20)
            .map(|k| format!("{} {:.2}\n", 1 << k, slow * (12.0 + f64::from(1 << k) / 8000.0)))
            .collect();
        let text =
            format!("# OSU MPI {title} Latency Test v7.5\n# Size       Avg Latency(us)\n{rows}");
        file(&folder, name, text)
    };
    let mut hosts: Vec<String> = (0..6)
        .map(|i| host(&format!("n{i}.log"), "Allreduce", 1.0 + f64::from(i) / 1000.0))
        .collect();
    let run = |hosts: &[String]| {
        let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
        report(&[&["compare", "--fleet", "-n", "16"], hosts.as_slice()].concat())
    };
    assert_eq!(run(&hosts).0, 0);
    hosts.push(host("other.log", "Broadcast", 1.0));
    let (code, of) = run(&hosts);
    assert!(code == 3 && of["hosts"] == 6 && says(&of["left_out"], "other.log: no size"), "{of}");
    hosts.push(file(&folder, "empty.log", ""));
    let (code, of) = run(&hosts);
    assert!(code == 3 && says(&of["left_out"], "empty.log: "), "{of}");
    hosts.remove(6);
    assert_eq!(run(&hosts).0, 2);
    hosts.push(host("slow.log", "Allreduce", 1.5));
    assert_eq!(run(&hosts).0, 1);
}

/// The trace of one rank of `of`, with two calls.
fn trace(rank: u32, of: u32) -> String {
    let event = |seq: u32| {
        format!(
            r#"{{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "ts": {seq}00.0, "dur": 9{rank}0.5, "args": {{"Collective name": "allreduce", "In msg nelems": 1048576, "Out msg nelems": 1048576, "Group size": {of}, "dtype": "Float", "Process Group Name": "0", "Process Group Ranks": "[]", "Seq": {seq}}}}}"#
        )
    };
    format!(
        r#"{{"distributedInfo": {{"backend": "nccl", "rank": {rank}, "world_size": {of}}}, "traceEvents": [{},{}]}}"#,
        event(1),
        event(2)
    )
}

#[test]
fn traces_say_what_is_unknown_and_which_is_cut_off() {
    let folder = folder("traces");
    let one = file(&folder, "rank0.json", trace(0, 2));
    let (_, of) = report(&["compare", &one, "--on", "dgx-h100"]);
    assert!(of["lost"][0]["waiting_s"].is_null(), "{of}");
    assert!(of["runs"][0]["points"][0]["skew_s"].is_null(), "{of}");
    let (_, said) = told(&["compare", &one, "--on", "dgx-h100"]);
    assert!(said.contains("– of waiting"), "{said}");

    let whole = trace(1, 2);
    let cut = file(&folder, "rank1.json", &whole[..whole.len() - 60]);
    let (_, of) = report(&["compare", &one, &cut, "--on", "dgx-h100"]);
    assert!(says(&of["runs"][0]["notes"], "rank1.json is cut off"), "{of}");
    let (_, said) = told(&["import", &one, &cut]);
    assert!(said.contains("rank1.json is cut off"), "{said}");
}

/// `nccl log` reads a log as `import` does: packed, from a pipe, with colours.
#[test]
fn debug_logs_are_read_as_all_logs_are() {
    let folder = folder("nccl");
    let text = include_str!("../data/nccl_logs/h100-2x8.log");
    let plain = file(&folder, "a.log", text);
    let (code, expected) = told(&["nccl", "log", &plain]);
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(text.as_bytes()).unwrap();
    let packed = file(&folder, "b.log", packer.finish().unwrap());
    let coloured: String = text.lines().map(|line| format!("\x1b[36m{line}\x1b[0m\n")).collect();
    let coloured = file(&folder, "c.log", coloured);
    for other in [&packed, &coloured] {
        let said = told(&["nccl", "log", other]);
        assert_eq!((said.0, said.1.replace(other, &plain)), (code, expected.clone()));
    }
    let mut child = Command::new(env!("CARGO_BIN_EXE_collcost"))
        .args(["nccl", "log", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(code));
}

#[test]
fn folders_and_other_compressions_are_refused_with_what_to_do() {
    let folder = folder("packed");
    let name = folder.to_str().unwrap().to_owned();
    for verb in [&["import"][..], &["compare"], &["compare", "--fleet"], &["fit"]] {
        let (code, said) = told(&[verb, &[name.as_str()]].concat());
        assert!(code == 2 && said.contains(&format!("name its files: {name}/*")), "{said}");
    }
    for (begins, name, command) in [
        (&b"\x28\xb5\x2f\xfd\x04\0"[..], "zstd", "zstd -d"),
        (b"\xfd7zXZ\0\0", "xz", "xz -dk"),
        (b"BZh91AY&SY\0", "bzip2", "bzip2 -dk"),
        (b"PK\x03\x04\x14\0", "zip", "unzip"),
    ] {
        let log = file(&folder, name, begins);
        let (code, said) = told(&["import", &log]);
        let words = format!("compressed with {name}");
        assert!(code == 2 && said.contains(&words) && said.contains(command), "{said}");
    }
}

/// Stamps of a launcher that change their names of days do not hide rows, nor do entities of a page.
#[test]
fn rows_after_midnight_and_from_pages_are_read() {
    let folder = folder("lines");
    let (log, mut row) = (log(), 0);
    let stamped = log.lines().map(|line| {
        row += 1;
        let day = if row < 24 { "Thu Jul 18 23:59:59 2026" } else { "Fri Jul 19 00:00:00 2026" };
        format!("{day}[1,0]<stdout>:{line}\n")
    });
    let stamped = file(&folder, "stamped.log", stamped.collect::<String>());
    let page = log.replace('#', "&#35;").replace("  ", "&nbsp; ");
    let page = file(&folder, "page.log", page);
    let plain = file(&folder, "plain.log", &log);
    let rows = |log: &str| report(&["import", log]).1["rows"].clone();
    assert_eq!((rows(&stamped), rows(&page)), (rows(&plain), rows(&plain)));
}

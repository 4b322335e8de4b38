//! A repository whose pull request changes a job's layout and a cable's rate: what moved, and why, as a
//! comment and in the formats of programs that gather results, each read by a parser of others.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use quick_xml::events::Event;
use serde_json::Value;

use crate::gzip::inflate;

const BUDGETS: &str = "[[budget]]\nname = \"train\"\nfrom = \"job.toml\"\nmax_time = \"20s\"\n\n\
    [[budget]]\nname = \"memory\"\nfrom = \"job.toml\"\nmax_memory = \"80GB\"\n\n\
    [[budget]]\nname = \"gradients\"\ncollective = \"allreduce\"\nn = [16, 64]\nsize = \"1GiB\"\n\
    profile = \"machine.toml\"\nmax_time = \"9.9ms\"\nat = \"mid\"\n\n\
    [[budget]]\nname = \"large\"\ncollective = \"allreduce\"\nn = 64\nsize = \"4GiB\"\n\
    profile = \"machine.toml\"\nmax_time = \"35ms\"\nat = \"mid\"\n\n\
    [[budget]]\nname = \"one node\"\ncollective = \"allreduce\"\nn = 8\nsize = \"1GiB\"\n\
    profile = \"machine.toml\"\nmax_time = \"9ms\"\nat = \"mid\"\n\n\
    [[waive]]\nbudget = \"large\"\nuntil = 2026-12-31\nreason = \"cables | <come> in January\"\n";

const JOB: &str = "model = \"llama3-8b\"\nmachine = \"dgx-h100\"\ngpus = 64\nlayout = { tp = 2, dp = 32 }\n\
    sharding = \"zero1\"\nrecompute = \"none\"\nbatch = { global = 512, micro = 1, sequence = 8192 }\n";

fn git(folder: &Path, words: &[&str]) -> bool {
    let mut git = Command::new("git");
    git.current_dir(folder).args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(words);
    git.output().is_ok_and(|o| o.status.success())
}

fn collcost(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_collcost"));
    command.current_dir(folder).args(words).output().unwrap()
}

/// The comparison with the commit before, on a day.
fn check(folder: &Path, day: &str, more: &[&str]) -> Output {
    let words = ["check", "--against", "HEAD", "--today", day];
    collcost(folder, &[&words[..], more].concat())
}

fn json(output: &[u8]) -> Value {
    serde_json::from_slice(output).unwrap_or_else(|e| panic!("{e}"))
}

/// The pull request, in a folder whose last commit is what it is compared with; none without git.
fn pull_request() -> Option<tempfile::TempDir> {
    let held = tempfile::tempdir().unwrap();
    let folder = held.path();
    let shown = collcost(folder, &["profiles", "show", "dgx-h100", "--format", "toml"]);
    let machine = String::from_utf8(shown.stdout).unwrap();
    fs::write(folder.join("machine.toml"), &machine).unwrap();
    fs::write(folder.join("collcost.toml"), BUDGETS).unwrap();
    fs::write(folder.join("job.toml"), JOB).unwrap();
    if !(git(folder, &["init", "-q"])
        && git(folder, &["add", "."])
        && git(folder, &["commit", "-qm", "base"]))
    {
        eprintln!("git is missing: not tested");
        return None;
    }
    fs::write(folder.join("job.toml"), JOB.replace("tp = 2, dp = 32", "tp = 4, dp = 16")).unwrap();
    let slower = machine.replace("value = \"48GB/s\"", "value = \"24GB/s\"");
    assert_ne!(slower, machine);
    fs::write(folder.join("machine.toml"), slower).unwrap();
    Some(held)
}

/// Every file that a result depends on: included, of a job, a machine, what describes its network, a log.
#[test]
fn inputs_are_all_files_that_are_read() {
    let held = tempfile::tempdir().unwrap();
    let folder = held.path();
    let machine = collcost(folder, &["profiles", "show", "dgx-h100", "--format", "toml"]).stdout;
    fs::create_dir(folder.join("more")).unwrap();
    fs::write(folder.join("more/machine.toml"), machine).unwrap();
    fs::write(folder.join("job.toml"), JOB).unwrap();
    let mock = ["mock", "all_reduce_perf", "-n", "8", "--on", "dgx-h100"];
    fs::write(folder.join("more/run-1.log"), collcost(folder, &mock).stdout).unwrap();
    let budgets = "include = [\"more/more.toml\"]\n[[budget]]\nname = \"train\"\nfrom = \"job.toml\"\n\
        max_time = \"20s\"\n";
    fs::write(folder.join("collcost.toml"), budgets).unwrap();
    let more = "[[budget]]\nname = \"run\"\ncollective = \"allreduce\"\nn = 8\nprofile = \"machine.toml\"\n\
        measured = \"run-*.log\"\n";
    fs::write(folder.join("more/more.toml"), more).unwrap();
    let found = collcost(folder, &["check", "--inputs"]);
    let said = String::from_utf8_lossy(&found.stdout);
    assert!(found.status.success(), "{said}{}", String::from_utf8_lossy(&found.stderr));
    let mut files: Vec<&str> = said.lines().collect();
    files.sort_unstable();
    let all =
        ["collcost.toml", "job.toml", "more/machine.toml", "more/more.toml", "more/run-1.log"];
    assert_eq!(files, all);
    // A file that is missing is a fault, and no list that CI would trust.
    fs::remove_file(folder.join("job.toml")).unwrap();
    let found = collcost(folder, &["check", "--inputs"]);
    let said = String::from_utf8_lossy(&found.stderr);
    assert!(found.status.code() == Some(2) && said.contains("job.toml"), "{said}");
    // A script takes what is there for names of files.
    assert_eq!(String::from_utf8_lossy(&found.stdout), "");
}

/// Logs are those of the work tree, since git has few of them; a budget may be named from elsewhere.
#[test]
fn logs_that_git_has_not_and_files_above_are_compared() {
    let held = tempfile::tempdir().unwrap();
    let folder = held.path().canonicalize().unwrap();
    let mock = ["mock", "all_reduce_perf", "-n", "8", "--on", "dgx-h100"];
    fs::write(folder.join("run.log"), collcost(&folder, &mock).stdout).unwrap();
    fs::create_dir(folder.join("ci")).unwrap();
    fs::write(folder.join(".gitignore"), "*.log\n").unwrap();
    let budget =
        "[[budget]]\nname = \"run\"\nn = 8\nprofile = \"dgx-h100\"\nmeasured = \"run.log\"\n";
    fs::write(folder.join("collcost.toml"), budget).unwrap();
    if !(git(&folder, &["init", "-q"])
        && git(&folder, &["add", "."])
        && git(&folder, &["commit", "-qm", "base"]))
    {
        eprintln!("git is missing: not tested");
        return;
    }
    let file = folder.join("collcost.toml");
    let words = ["check", file.to_str().unwrap(), "--against", "HEAD", "--format", "json"];
    for here in [folder.clone(), folder.join("ci")] {
        let output = collcost(&here, &words);
        let report = json(&output.stdout);
        assert_eq!(report["faults_before"], Value::Array(Vec::new()), "{report}");
        assert_eq!(report["budgets"][0]["old"], report["budgets"][0]["new"], "{report}");
    }
}

/// Settings are read whatever the format: a budget of another machine than was meant holds.
#[test]
fn a_setting_that_is_unknown_is_a_fault_in_each_format() {
    let held = tempfile::tempdir().unwrap();
    let budget = "[[budget]]\nname = \"a\"\ncollective = \"allreduce\"\nn = 64\nsize = \"1GiB\"\n\
        max_time = \"8ms\"\n";
    let settings = "[defaults]\nprofile = \"dgx-h100\"\n[machine]\nbw_intr = \"24GB/s\"\n";
    fs::write(held.path().join("b.toml"), format!("{settings}{budget}")).unwrap();
    for format in ["text", "json", "github", "junit", "summary"] {
        let output = collcost(held.path(), &["check", "b.toml", "--format", format]);
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(2), "{format}: {said}");
        assert!(said.contains("bw_intr"), "{format}: {said}");
    }
}

/// Nothing is judged of a file with faults: its budgets did not go.
#[test]
fn a_fault_removes_no_budget() {
    let held = tempfile::tempdir().unwrap();
    let budget = "[[budget]]\nname = \"a\"\ncollective = \"allreduce\"\nn = 64\nsize = \"1GiB\"\n\
        profile = \"dgx-h100\"\nmax_time = \"8ms\"\n";
    fs::write(held.path().join("old.toml"), budget).unwrap();
    fs::write(held.path().join("new.toml"), budget.replace("8ms", "8 parsecs")).unwrap();
    let words = ["check", "new.toml", "--against", "old.toml", "--format", "json"];
    let output = collcost(held.path(), &words);
    let report = json(&output.stdout);
    assert_eq!(output.status.code(), Some(2), "{report}");
    assert_eq!(report["budgets"], Value::Array(Vec::new()), "{report}");
    assert_eq!(report["faults"].as_array().unwrap().len(), 1, "{report}");
}

/// What fails as it did is named: its exit code is 1.
#[test]
fn a_budget_that_still_fails_is_named() {
    let held = tempfile::tempdir().unwrap();
    let budget = "[[budget]]\nname = \"still\"\ncollective = \"allreduce\"\nn = 64\nsize = \"1GiB\"\n\
        profile = \"dgx-h100\"\nmax_time = \"1ms\"\n";
    fs::write(held.path().join("b.toml"), budget).unwrap();
    let output = collcost(held.path(), &["check", "b.toml", "--against", "b.toml"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("0 of 1 changed") && said.contains("\nstill "), "{said}");
}

/// A report does not replace what it was made from.
#[test]
fn results_do_not_overwrite_budgets() {
    let held = tempfile::tempdir().unwrap();
    let budget = "[[budget]]\nname = \"a\"\ncollective = \"allreduce\"\nn = 64\nsize = \"1GiB\"\n\
        profile = \"dgx-h100\"\nmax_time = \"8ms\"\n";
    fs::write(held.path().join("b.toml"), budget).unwrap();
    fs::write(held.path().join("all.toml"), "include = \"b.toml\"\n").unwrap();
    for write in ["json=all.toml", "summary=./b.toml"] {
        let output = collcost(held.path(), &["check", "all.toml", "--write", write]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("would be overwritten"), "{said}");
    }
    assert_eq!(fs::read_to_string(held.path().join("b.toml")).unwrap(), budget);
}

#[test]
fn a_changed_layout_and_a_changed_cable_are_told_apart() {
    let Some(held) = pull_request() else { return };
    let folder = held.path();
    let start = Instant::now();
    let output = check(folder, "2026-06-01", &["--format", "markdown"]);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    let comment = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{comment}");
    assert!(comment.starts_with("<!-- collcost check -->\n### "), "{comment}");
    let row = |name: &str| comment.lines().find(|l| l.contains(&format!("| {name} |"))).unwrap();
    assert!(row("train").contains("tp 2 to 4; dp 32 to 16"), "{comment}");
    // Which part of the step moved, beside what was changed for it.
    assert!(row("train").contains(": tp +"), "{comment}");
    let cable = "inter.bw 48 GB/s to 24 GB/s";
    assert!(row("gradients (n 64)").contains("**fails**"), "{comment}");
    assert!(row("gradients (n 64)").contains(cable), "{comment}");
    assert!(row("large").contains("| waived |") && row("large").contains(cable), "{comment}");
    assert!(!row("train").contains("inter.bw") && !row("gradients (n 16)").contains("tp "));
    let report = json(&check(folder, "2026-06-01", &["--format", "json"]).stdout);
    for name in ["train", "gradients (n 64)"] {
        let own = report["budgets"].as_array().unwrap().iter().find(|b| b["name"] == name).unwrap();
        let side = |key: &str| own[key].as_f64().unwrap();
        assert!(side("new") > 1.02 * side("old"), "{own}");
    }
    // The other version has no such file: everything is new, and that is no fault.
    fs::copy(folder.join("collcost.toml"), folder.join("new.toml")).unwrap();
    let fresh = check(folder, "2026-06-01", &["new.toml", "--format", "markdown"]);
    let text = String::from_utf8_lossy(&fresh.stdout);
    assert!(text.contains("is not compared") && text.contains("| new |"), "{text}");
    assert_eq!(fresh.status.code(), Some(1));
    assert!(text.contains("cannot be read"), "the reason: {text}");
    // The same file by its whole path, a revision that nobody has, and none.
    let whole = folder.canonicalize().unwrap().join("collcost.toml");
    let named = check(folder, "2026-06-01", &[whole.to_str().unwrap(), "--format", "markdown"]);
    let named = String::from_utf8_lossy(&named.stdout);
    assert!(!named.contains("is not compared"), "{named}");
    for (revision, said) in [("orgin/main", "neither a file nor a revision"), ("", "unset")] {
        let refused = collcost(folder, &["check", "--against", revision]);
        assert_eq!(refused.status.code(), Some(2), "{revision}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains(said), "{revision}");
    }
    // What fails fails, whatever can be written.
    let lost = check(folder, "2026-06-01", &["--write", "junit=/nowhere/x.xml"]);
    assert_eq!(lost.status.code(), Some(1));
}

/// Whatever is changed for a step or a call is named.
#[test]
fn what_was_changed_is_named() {
    let Some(held) = pull_request() else { return };
    let folder = held.path();
    let text = |keys: &str, more: &str| {
        format!(
            "[step.a]\npreset = \"ddp-7b\"\n{keys}\n[[budget]]\nname = \"a\"\nstep = \"a\"\n\
             max_time = \"600ms\"\n[[budget]]\nname = \"b\"\ncollective = \"allreduce\"\nn = 16\n\
             size = \"16MiB\"\n{more}profile = \"dgx-h100\"\nmax_time = \"900us\"\n"
        )
    };
    fs::write(folder.join("collcost.toml"), text("", "")).unwrap();
    assert!(git(folder, &["commit", "-qam", "steps"]));
    let new = text("shard = \"zero1\"\ngrad_dtype = \"f32\"", "protocol = \"LL\"\n");
    fs::write(folder.join("collcost.toml"), new).unwrap();
    let report = json(&check(folder, "2026-06-01", &["--format", "json"]).stdout);
    let changed = |at: usize| report["budgets"][at]["changed"].to_string();
    assert!(changed(0).contains("shard none to zero1"), "{report}");
    assert!(changed(0).contains("grad_dtype bf16 to f32"), "{report}");
    assert!(changed(1).contains("protocol nothing to LL"), "{report}");
}

/// A topology that the machine names belongs to the other version too.
#[test]
fn an_unchanged_topology_is_compared() {
    let Some(held) = pull_request() else { return };
    let folder = held.path();
    let topology =
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/nccl_topologies/two-sockets.xml");
    fs::copy(topology, folder.join("topo.xml")).unwrap();
    let shown = collcost(folder, &["profiles", "show", "dgx-h100", "--format", "toml"]);
    let machine = String::from_utf8(shown.stdout).unwrap();
    let named = machine.replacen("schema = 1\n", "schema = 1\nnccl_topology = \"topo.xml\"\n", 1);
    assert_ne!(named, machine);
    fs::write(folder.join("machine.toml"), named).unwrap();
    let budget = "[[budget]]\nname = \"a\"\ncollective = \"allreduce\"\nn = 8\nsize = \"1GiB\"\n\
        profile = \"machine.toml\"\nmax_time = \"9ms\"\n";
    fs::write(folder.join("collcost.toml"), budget).unwrap();
    assert!(git(folder, &["add", "."]) && git(folder, &["commit", "-qm", "topology"]));
    let report = json(&check(folder, "2026-06-01", &["--format", "json"]).stdout);
    assert_eq!(report["faults_before"].as_array().unwrap().len(), 0, "{report}");
    // Without it the other version has a fault: it was read.
    fs::write(folder.join("topo.xml"), "<system version=\"1\">").unwrap();
    assert!(git(folder, &["commit", "-qam", "broken"]));
    fs::copy(topology, folder.join("topo.xml")).unwrap();
    let report = json(&check(folder, "2026-06-01", &["--format", "json"]).stdout);
    assert_eq!(report["faults_before"].as_array().unwrap().len(), 1, "{report}");
    // A fault has its help here too.
    fs::write(folder.join("collcost.toml"), budget.replace("allreduce", "allreduced")).unwrap();
    let page = String::from_utf8(check(folder, "2026-06-01", &[]).stdout).unwrap();
    assert!(page.contains("did you mean") || page.contains("write allreduce"), "{page}");
}

#[test]
fn each_format_is_read_by_a_parser_of_others_and_says_the_same() {
    let Some(held) = pull_request() else { return };
    let folder = held.path();
    let formats = ["sarif", "jenkins", "gitlab", "junit", "prometheus", "github"];
    let writes: Vec<String> = formats.iter().map(|f| format!("--write={f}=out.{f}")).collect();
    let writes: Vec<&str> = writes.iter().map(String::as_str).collect();
    for (day, failing) in [("2026-12-31", 1), ("2027-01-01", 2)] {
        let output = check(folder, day, &writes);
        assert_eq!(output.status.code(), Some(1));
        let read = |format: &str| fs::read_to_string(folder.join(format!("out.{format}"))).unwrap();
        let named = |list: &Value, key: &str, value: &str| {
            list.as_array().unwrap().iter().filter(|one| one[key] == value).count()
        };
        let sarif = json(read("sarif").as_bytes());
        let validator = jsonschema::validator_for(&sarif_schema()).unwrap();
        let wrong: Vec<String> = validator.iter_errors(&sarif).map(|e| e.to_string()).collect();
        assert_eq!(wrong, [""; 0]);
        let results = &sarif["runs"][0]["results"];
        assert_eq!(named(results, "level", "error"), failing, "{results}");
        let suppressed =
            |r: &&Value| r["suppressions"].as_array().is_some_and(|list| !list.is_empty());
        let suppressed = results.as_array().unwrap().iter().filter(suppressed).count();
        assert_eq!(suppressed, 2 - failing, "{results}");
        assert_eq!(named(results, "ruleId", "CC004"), failing - 1, "{results}");
        assert_eq!(
            named(&json(read("jenkins").as_bytes())["issues"], "severity", "ERROR"),
            failing
        );
        assert_eq!(named(&json(read("gitlab").as_bytes()), "severity", "major"), failing);
        assert_eq!(tags(&read("junit"), "failure"), failing);
        assert_eq!(tags(&read("junit"), "skipped"), 2 - failing);
        let github = read("github");
        assert_eq!(github.lines().filter(|l| l.starts_with("::error ")).count(), failing);
        assert!(github.contains("inter.bw 48 GB/s to 24 GB/s"), "{github}");
        ratios_agree(&read("prometheus"), failing);
    }
}

/// A pull request that loosens its own gate changes no expected time, and is named all the same.
#[test]
fn a_gate_that_is_loosened_is_named_with_both_values() {
    let held = tempfile::tempdir().unwrap();
    let folder = held.path();
    let budget = |name: &str, more: &str| {
        format!(
            "[[budget]]\nname = \"{name}\"\ncollective = \"allreduce\"\nn = 64\nsize = \"1GiB\"\n\
             profile = \"dgx-h100\"\n{more}\n"
        )
    };
    let [limit, tight, rate] =
        ["max_time = \"9ms\"", "max_time = \"6ms\"", "min_busbw = \"9GB/s\""];
    let waiver = "[[waive]]\nbudget = \"waived\"\nuntil = 2026-12-31\nreason = \"cables\"\n";
    let old = [
        budget("limit", limit),
        budget("level", tight),
        budget("point", limit),
        budget("waived", tight),
        budget("kind", limit),
        budget("fine", "max_bound_ratio = 2.501"),
        budget("same", limit),
    ];
    let new = [
        budget("limit", "max_time = \"90ms\""),
        budget("level", &format!("{tight}\nlevel = \"warning\"\nat_risk = \"holds\"")),
        budget("point", &format!("{limit}\nat = \"low\"")),
        budget("waived", tight) + waiver,
        budget("kind", rate),
        budget("fine", "max_bound_ratio = 2.504"),
        budget("same", limit),
    ];
    fs::write(folder.join("old.toml"), old.concat()).unwrap();
    fs::write(folder.join("new.toml"), new.concat()).unwrap();
    let words = ["check", "new.toml", "--against", "old.toml", "--today", "2026-06-01"];
    let said = |format: &str| {
        let output = collcost(folder, &[&words[..], &["--format", format]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let gates = [
        "max_time 9 ms to 90 ms",
        "level error to warning; at_risk warns to holds",
        "at whole band to low",
        "waiver nothing to until 2026-12-31 (cables)",
        "min_busbw nothing to 9 GB/s; max_time 9 ms to nothing",
        "max_bound_ratio 2.501 to 2.504 (ratio)",
    ];
    for format in ["text", "markdown", "csv", "github"] {
        let said = said(format);
        for gate in gates.iter().flat_map(|gate| gate.split("; ")) {
            assert!(said.contains(gate), "{format}: {gate}: {said}");
        }
    }
    let headline = "6 of 7 changed (6 in limit, severity or waiver), none fails";
    assert!(said("text").contains(headline), "{}", said("text"));
    let report = json(said("json").as_bytes());
    let found: Vec<String> = report["budgets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|b| {
            let gate = b["gate"].as_array().unwrap().iter().map(|g| g.as_str().unwrap());
            gate.collect::<Vec<_>>().join("; ")
        })
        .collect();
    assert_eq!(found[..6], gates);
    assert_eq!(found[6], "");
}

/// Annotations and reports name a file as git does.
#[test]
fn a_budget_has_the_path_from_the_root() {
    let folder = tempfile::tempdir().unwrap();
    let budget = "[[budget]]\nname = \"tp*dp*pp\"\ncollective = \"allreduce\"\nn = 64\n\
                  size = \"1GiB\"\nprofile = \"dgx-h100\"\nmax_time = \"1ms\"\n";
    fs::write(folder.path().join("b.toml"), budget).unwrap();
    let written = |format: &str| {
        let output = collcost(folder.path(), &["check", "./b.toml", "--format", format]);
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(written("github").contains("file=b.toml,line="), "{}", written("github"));
    assert!(written("gitlab").contains("\"path\": \"b.toml\""), "{}", written("gitlab"));
    assert!(written("sarif").contains("\"uri\": \"b.toml\""), "{}", written("sarif"));
    assert!(written("summary").contains("| tp\\*dp\\*pp |"), "{}", written("summary"));
}

#[test]
fn a_name_gives_the_runner_no_command() {
    let folder = tempfile::tempdir().unwrap();
    let budget = "[[budget]]\nname = \"x\\n::error::injected\"\ncollective = \"allreduce\"\nn = 64\n\
                  size = \"1GiB\"\nprofile = \"dgx-h100\"\nmax_time = \"100ms\"\n";
    fs::write(folder.path().join("budgets.toml"), budget).unwrap();
    let output = collcost(folder.path(), &["check", "budgets.toml", "--format", "github"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("::error::injected"), "{said}");
    assert!(!said.lines().any(|line| line.trim_start().starts_with("::error")), "{said}");
}

/// The published schema, from github.com/oasis-tcs/sarif-spec.
fn sarif_schema() -> Value {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/sarif-2.1.0.schema.json.gz");
    let mut schema = json(inflate(&fs::read(file).unwrap()).as_bytes());
    // A pattern of a key that is not written here is no regular expression.
    for place in ["run", "toolComponent"] {
        let language = &mut schema["definitions"][place]["properties"]["language"];
        language.as_object_mut().unwrap().remove("pattern");
    }
    schema
}

/// How often a tag opens in a text that is XML.
fn tags(text: &str, tag: &str) -> usize {
    let mut reader = quick_xml::Reader::from_str(text);
    let mut found = 0;
    loop {
        match reader.read_event().unwrap() {
            Event::Start(start) | Event::Empty(start) if start.name().as_ref() == tag => {
                found += 1;
            }
            Event::Eof => return found,
            _ => {}
        }
    }
}

/// A ratio above 1 is a budget that fails or is waived, and only those; the text ends as OpenMetrics does.
fn ratios_agree(text: &str, failing: usize) {
    assert!(text.ends_with("\n# EOF\n"), "{text}");
    let of = |gauge: &str| -> Vec<f64> {
        let lines = text.lines().filter(|l| l.starts_with(&format!("{gauge}{{")));
        lines.map(|l| l.rsplit_once(' ').unwrap().1.parse().unwrap()).collect()
    };
    let above = of("collcost_budget_used_ratio").iter().filter(|used| **used > 1.0).count();
    assert_eq!((above, of("collcost_budget_fails").iter().sum::<f64>()), (2, failing as f64));
    let most = of("collcost_budget_used_most_ratio");
    let holds = of("collcost_budget_holds");
    assert!(
        most.iter().zip(&holds).all(|(most, holds)| (*most <= 1.0) == (*holds == 1.0)),
        "{text}"
    );
}

/// 240 GB/s of eight NICs is ill by their rate, and no size is above its limit: no share of a limit is stated.
#[test]
fn without_a_limit_no_share_of_it_is_used() {
    let here = tempfile::tempdir().unwrap();
    let mock = "mock all_reduce_perf -b 1G -e 1G -n 24 --on nd-h200-v5 --fault missing-nic=3";
    let log = collcost(here.path(), &mock.split(' ').collect::<Vec<_>>());
    let log = String::from_utf8(log.stdout).unwrap();
    let row = log.lines().find(|line| line.trim_start().starts_with("1073741824")).unwrap();
    let [time, rate, bus] = [5, 6, 7].map(|i| row.split_whitespace().nth(i).unwrap());
    let slow = log.replace(&format!("{time}  {rate}  {bus}"), "8575.02  125.22  240.00");
    assert_ne!(log, slow);
    fs::write(here.path().join("run.log"), slow).unwrap();
    let budget = "[[budget]]\nname = \"a\"\nmeasured = \"run.log\"\nprofile = \"nd-h200-v5\"\n";
    fs::write(here.path().join("b.toml"), budget).unwrap();
    let words = ["check", "b.toml", "--format", "json", "--write", "openmetrics=m.txt"];
    let checked = collcost(here.path(), &words);
    assert_eq!(checked.status.code(), Some(1));
    let report: serde_json::Value = serde_json::from_slice(&checked.stdout).unwrap();
    let budget = &report["budgets"][0];
    assert_eq!(budget["standing"], "fails");
    assert!([&budget["limit"], &budget["used"], &budget["used_most"]].iter().all(|v| v.is_null()));
    let gauges = fs::read_to_string(here.path().join("m.txt")).unwrap();
    assert!(
        gauges.contains("collcost_budget_fails{") && !gauges.contains("used_ratio{"),
        "{gauges}"
    );
}

//! Every parameter of a question is one thing, whether it is a flag, or a key of `collcost.toml`, of
//! a budget, or of a question of `batch`.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use collcost::machine::parameters::{Group, PARAMETERS, Parameter, Takes};
use collcost::plan::config::Settings;

/// A call that a parameter changes.
struct Call {
    collective: &'static str,
    algorithm: Option<&'static str>,
    /// Keys with their values, beside the parameter.
    given: Vec<(&'static str, &'static str)>,
}

fn call(parameter: &Parameter) -> Call {
    let (collective, algorithm) = match parameter.key {
        "segments" => ("broadcast", Some("chain")),
        "radix" => ("broadcast", Some("knomial")),
        "pat_agg" => ("allgather", Some("pat")),
        "relay_chunks" | "split_ties" => ("alltoall", Some("ring-relay")),
        "dims" => ("allreduce", Some("torus")),
        "root_speedup" => ("allreduce", Some("naive")),
        "c_real" => ("allreduce", Some("dbt(asymptotic)")),
        "inc_hops" | "alpha_switch" => ("allreduce", Some("inc")),
        "alpha" | "gamma" | "ports" => ("allreduce", Some("recursive-doubling")),
        "placement" => ("allreduce", Some("rabenseifner")),
        _ => ("allreduce", None),
    };
    let one_node = matches!(parameter.group, Group::Algorithms) || parameter.key == "alpha_switch";
    let ranks = match parameter.key {
        "dims" => ("n", "64"),
        _ if one_node => ("n", "8"),
        _ => ("n", "16"),
    };
    let figures = matches!(parameter.key, "dims" | "segments" | "relay_chunks" | "split_ties");
    let mut given = match figures {
        true => vec![("alpha", "3us"), ("bw", "10GB/s")],
        false => vec![("profile", "dgx-h100")],
    };
    given.push(ranks);
    given.retain(|(key, _)| *key != parameter.key);
    if parameter.key == "beta" {
        given.push(("alpha", "2us"));
    }
    Call { collective, algorithm, given }
}

/// A folder of a test's own, gone with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("collcost-{}-{name}", std::process::id()));
        fs::create_dir_all(path.join("home")).unwrap();
        Self(path)
    }

    fn run(&self, words: &[String], input: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_collcost"));
        command.args(words).current_dir(&self.0).env("HOME", self.0.join("home"));
        command.env_remove("XDG_CONFIG_HOME").env_remove("COLLCOST_PROFILE");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    fn json(&self, words: &[String], input: &str) -> serde_json::Value {
        let output = self.run(words, input);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{words:?}: {e}: {said}"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// The question by flags: the time and the fastest ideal price.
fn by_flags(folder: &Folder, call: &Call, given: &[(&str, &str)]) -> f64 {
    let mut line = words(&format!("{} 1MiB --format json", call.collective));
    line.extend(
        call.algorithm.into_iter().flat_map(|name| ["--algorithm".to_owned(), name.into()]),
    );
    for (key, value) in given {
        let p = Parameter::named(key).unwrap();
        line.push(format!("--{}", p.flag));
        line.extend((p.takes != Takes::Nothing).then(|| (*value).to_owned()));
    }
    folder.json(&line, "")["expect"]["time_s"].as_f64().unwrap()
}

fn by_settings(folder: &Folder, call: &Call, given: &[(&str, &str)]) -> f64 {
    let mut text = String::new();
    for section in ["defaults", "machine"] {
        text += &format!("[{section}]\n");
        for (_, key) in Settings::keys().filter(|(of, _)| *of == section) {
            let value = given.iter().find(|(given, _)| *given == key);
            text += &value.map_or(String::new(), |(key, value)| format!("{key} = \"{value}\"\n"));
        }
    }
    let file = folder.0.join("collcost.toml");
    fs::write(&file, text).unwrap();
    let time = by_flags(folder, call, &[]);
    fs::remove_file(file).unwrap();
    time
}

fn by_budget(folder: &Folder, call: &Call, given: &[(&str, &str)], time: f64) -> f64 {
    let mut text = format!(
        "[[budget]]\nname = \"b\"\ncollective = \"{}\"\nsize = \"1MiB\"\nmax_time = \"{:e}s\"\n",
        call.collective,
        2.0 * time
    );
    text += &call.algorithm.map_or(String::new(), |name| format!("algorithm = \"{name}\"\n"));
    for (key, value) in given {
        text += &format!("{key} = \"{value}\"\n");
    }
    fs::write(folder.0.join("budgets.toml"), &text).unwrap();
    let report = folder.json(&words("check budgets.toml --format json"), "");
    report["budgets"][0]["time_s"].as_f64().unwrap_or_else(|| panic!("{text}{report}"))
}

fn by_batch(folder: &Folder, call: &Call, given: &[(&str, &str)]) -> f64 {
    let mut question = serde_json::json!({
        "id": 1, "kind": "expect", "collective": call.collective, "size_bytes": 1 << 20
    });
    for (key, value) in call.algorithm.map(|name| ("algorithm", name)).iter().chain(given) {
        question[*key] = (*value).into();
    }
    let answer = folder.json(&words("batch"), &question.to_string());
    answer["expect"]["time_s"].as_f64().unwrap_or_else(|| panic!("{question} {answer}"))
}

#[test]
fn every_parameter_works_in_all_four() {
    let folder = Folder::new("parameters");
    let mut idle = Vec::new();
    for parameter in PARAMETERS {
        let call = call(parameter);
        // A torus has no price without its sides.
        let other = (parameter.key == "dims").then_some(("dims", "4x16"));
        let before = call.given.iter().copied().chain(other).collect::<Vec<_>>();
        let before = by_flags(&folder, &call, &before);
        let given = [&call.given[..], &[(parameter.key, parameter.example)]].concat();
        let time = by_flags(&folder, &call, &given);
        if time == before {
            idle.push(parameter.key);
        }
        let same = |way: &str, other: f64| {
            // The last bit is the reader's of JSON.
            assert!((other / time - 1.0).abs() < 1e-15, "{} {way}: {other} {time}", parameter.key);
        };
        same("settings", by_settings(&folder, &call, &given));
        same("budget", by_budget(&folder, &call, &given, time));
        same("batch", by_batch(&folder, &call, &given));
    }
    assert_eq!(idle, [""; 0], "these change nothing");
}

#[test]
fn unknown_keys_are_refused_in_all_four() {
    let folder = Folder::new("unknown");
    let refused = |words: &[String], input: &str| {
        let output = folder.run(words, input);
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(said.contains("alpha_inter") || said.contains("alpha-inter"), "{words:?}: {said}");
        output.status.code()
    };
    let ask = words("allreduce 1MiB -n 16");
    assert_eq!(refused(&[&ask[..], &words("--alpha-intr 2us")].concat(), ""), Some(2));
    let budget = "[[budget]]\nname = \"b\"\ncollective = \"allreduce\"\nn = 16\nsize = \"1MiB\"\n\
                  max_time = \"1ms\"\nalpha_intr = \"2us\"\n";
    fs::write(folder.0.join("b.toml"), budget).unwrap();
    assert_eq!(refused(&words("check b.toml"), ""), Some(2));
    // One line of many: it says so and goes on.
    let question = r#"{"id":1,"kind":"expect","collective":"allreduce","n":16,"size_bytes":1,"alpha_intr":"2us"}"#;
    refused(&words("batch"), question);
    let question =
        r#"{"id":1,"kind":"hierarchical","gpus_per_node":8,"alpha_inter":"2us","nodes":2}"#;
    refused(&words("batch"), question);
    fs::write(folder.0.join("collcost.toml"), "[machine]\nalpha_intr = \"2us\"\n").unwrap();
    assert_eq!(refused(&ask, ""), Some(2));
}

/// A question whose ranks are on one node says nothing of the links between nodes; what many share may.
#[test]
fn links_that_no_message_uses_are_refused_in_a_question_and_left_in_settings() {
    let folder = Folder::new("idle");
    let idle = "all ranks are on one node: `nics` changes nothing";
    let budget = "[[budget]]\nname = \"b\"\ncollective = \"broadcast\"\nsize = \"4GB\"\nn = 4\n\
                  max_time = \"90ms\"\n";
    let check = |own: &str, shared: &str| {
        fs::write(folder.0.join("b.toml"), format!("{shared}{budget}{own}")).unwrap();
        let output = folder.run(&words("check b.toml"), "");
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&said).into_owned())
    };
    let (code, said) = check("nics = 2\nprofile = \"dgx-1v\"\n", "");
    assert!(code == Some(2) && said.contains(idle), "{said}");
    let (code, said) = check("", "[defaults]\nprofile = \"dgx-1v\"\n[machine]\nnics = 2\n");
    assert!(code == Some(0) && !said.contains("nics"), "{said}");
    let question = r#"{"id":1,"kind":"expect","collective":"broadcast","n":4,"size_bytes":"4GB","profile":"dgx-1v","nics":2}"#;
    let answer = folder.run(&words("batch"), question).stdout;
    assert!(String::from_utf8_lossy(&answer).contains(idle));
}

/// A page about no call takes no call.
#[test]
fn a_topic_in_a_batch_takes_no_call() {
    let folder = Folder::new("topic");
    let said = |fields: &str| {
        let question = format!(r#"{{"id":1,"kind":"explain","what":{fields}}}"#);
        String::from_utf8(folder.run(&words("batch"), &question).stdout).unwrap()
    };
    assert!(said(r#""busbw","n":4"#).contains("N = 4"), "{}", said(r#""busbw","n":4"#));
    for idle in ["size_bytes", "collective", "profile"] {
        for page in ["busbw", "K1"] {
            let answer = said(&format!(r#""{page}","{idle}":"1""#));
            assert!(answer.contains(&format!("`{idle}` has no effect here")), "{answer}");
        }
    }
}

/// Parameters of the machine are set beside keys of the step, as by `--set`.
#[test]
fn a_plan_in_a_batch_takes_the_machines_parameters() {
    let folder = Folder::new("set");
    let question = |set: &str| {
        let question = format!(r#"{{"id":1,"kind":"plan","preset":"fsdp-7b","set":{{{set}}}}}"#);
        folder.json(&words("batch"), &question)["plan"]["steps"][0]["calls"].clone()
    };
    let slow = "plan --preset fsdp-7b --set inter.bw=25GB/s --set dp=128 --format json";
    let slow = folder.json(&words(slow), "")["steps"][0]["calls"].clone();
    assert_eq!(question(r#""inter.bw":"25GB/s","dp":"128""#), slow);
    assert_ne!(question(r#""dp":"128""#), slow);
}

#[test]
fn a_machine_of_its_own_is_known_by_the_same_keys_in_all() {
    let folder = Folder::new("own");
    fs::write(folder.0.join("collcost.toml"), "[defaults]\nprofile = \"dgx-a100\"\n").unwrap();
    for rate in [("bw", "10GB/s"), ("beta", "100ps/B")] {
        let given = [("n", "8"), ("alpha", "3us"), rate];
        let call = Call { collective: "allreduce", algorithm: Some("ring"), given: given.to_vec() };
        let time = by_flags(&folder, &call, &given);
        let budget = "[defaults]\nprofile = \"dgx-a100\"\n[[budget]]\nname = \"b\"\nalgorithm = \"ring\"\n\
                      collective = \"allreduce\"\nsize = \"1MiB\"\nn = 8\nalpha = \"3us\"\n";
        let limit = format!("{} = \"{}\"\nmax_time = \"{:e}s\"\n", rate.0, rate.1, 2.0 * time);
        fs::write(folder.0.join("b.toml"), format!("{budget}{limit}")).unwrap();
        let report = folder.json(&words("check b.toml --format json"), "");
        let told = report["budgets"][0]["time_s"].as_f64().unwrap_or_else(|| panic!("{report}"));
        assert!((told / time - 1.0).abs() < 1e-15, "{rate:?}: {told} {time}");
        assert!((by_batch(&folder, &call, &given) / time - 1.0).abs() < 1e-15, "{rate:?}");
    }
}

/// NCCL gathers without a tree: both count the tree that it does not have.
#[test]
fn the_regret_of_a_budget_is_that_of_choose() {
    let folder = Folder::new("regret");
    let budget = "[[budget]]\nname = \"g\"\ncollective = \"gather\"\nn = 16\nsize = \"1MiB\"\n\
                  profile = \"dgx-h100\"\nmax_regret = \"5%\"\n";
    fs::write(folder.0.join("b.toml"), budget).unwrap();
    let checked = folder.json(&words("check b.toml --format json"), "");
    let lost = checked["budgets"][0]["value"].as_f64().unwrap();
    let ask = "choose gather 1MiB -n 16 --on dgx-h100 --policy nccl --format json";
    let chosen = folder.json(&words(ask), "");
    let regret = chosen["intervals"][0]["choice"]["regret"].as_f64().unwrap();
    assert!(lost > 1.0 && (regret - 1.0 - lost).abs() < 1e-9, "{lost} {regret}");
}

/// With fewer NICs NCCL searches again: 4 of 8 carry one ring each, where the tree of all eight was expected.
#[test]
fn the_rules_are_known_for_other_numbers_of_nics() {
    let folder = Folder::new("nics");
    let ask = "allreduce 8GiB -n 16 --nodes 2 --format json --on dgx-a100";
    let busbw = |nics: u32| {
        let report = folder.json(&words(&format!("{ask} --nics-per-node {nics}")), "");
        assert_eq!(report["expect"]["runs"]["algorithm"], "Ring", "{report}");
        report["expect"]["busbw_Bps"].as_f64().unwrap() / 24e9 / f64::from(nics)
    };
    for nics in [2, 4] {
        let of_line_rate = busbw(nics);
        assert!((0.9..1.15).contains(&of_line_rate), "{nics} NICs: {of_line_rate}");
    }
}

/// A machine of one node becomes one of several by the two rates between them; sends by rank say what placement
/// they were measured with.
#[test]
fn what_is_between_nodes_may_be_given_or_is_said() {
    let folder = Folder::new("between");
    let ask = "allreduce 1GiB -n 16 --bw-inter 50GB/s --alpha-inter 3us --format json --on";
    for machine in ["a100-pcie", "rtx-4090", "l40s-pcie", "rtx-pro-6000", "h100-nvl"] {
        let report = folder.json(&words(&format!("{ask} {machine}")), "");
        let (asked, tiers) = (&report["question"], &report["machine"]["tiers"]);
        let nodes = asked["nodes"].as_u64().unwrap();
        assert!(nodes > 1, "{report}");
        let last = tiers.as_array().unwrap().last().unwrap();
        assert_eq!(
            (&last["bandwidth_Bps"], &last["alpha_s"]),
            (&50e9.into(), &3e-6.into()),
            "{tiers}"
        );
    }
    // The expected time, learned from other machines, follows the rate that was given.
    let slow = ask.replace("50GB/s", "1GB/s");
    let [slow, fast] = [&slow[..], ask].map(|ask| {
        let report = folder.json(&words(&format!("{ask} a100-pcie")), "");
        report["expect"]["time_s"].as_f64().unwrap()
    });
    assert!(slow > 1.3 * fast, "{slow} {fast}");
    for (ask, says) in [("sendrecv", true), ("scatter", true), ("allreduce", false)] {
        let ask = format!("{ask} 1MiB -n 64 --placement cyclic --format json");
        let trust = folder.json(&words(&ask), "")["trust"].to_string();
        assert_eq!(trust.contains("of block placement"), says, "{trust}");
    }
}

//! A pull request that changes a layout and a cable: what moved, and why, as a comment.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const BUDGETS: &str = "[[budget]]\nname = \"train\"\nfrom = \"job.toml\"\nmax_time = \"20s\"\n\n\
    [[budget]]\nname = \"gradients\"\ncollective = \"allreduce\"\nn = 64\nsize = \"1GiB\"\n\
    profile = \"dgx-h100\"\nbw_inter = \"50GB/s\"\nmax_time = \"60ms\"\n";

const JOB: &str = "model = \"llama3-8b\"\nmachine = \"dgx-h100\"\ngpus = 64\nlayout = { tp = 2, dp = 32 }\n\
    sharding = \"zero1\"\nrecompute = \"none\"\nbatch = { global = 512, micro = 1, sequence = 8192 }\n";

fn git(folder: &Path, words: &[&str]) -> bool {
    let mut git = Command::new("git");
    git.current_dir(folder).args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(words);
    git.output().is_ok_and(|o| o.status.success())
}

fn check(folder: &Path, format: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_collcost"));
    command.current_dir(folder).args(["check", "--against", "HEAD", "--format", format]);
    command.output().unwrap()
}

#[test]
fn a_changed_layout_and_a_changed_cable_are_told_apart() {
    let folder = std::env::temp_dir().join(format!("collcost-against-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("collcost.toml"), BUDGETS).unwrap();
    fs::write(folder.join("job.toml"), JOB).unwrap();
    if !(git(&folder, &["init", "-q"])
        && git(&folder, &["add", "."])
        && git(&folder, &["commit", "-qm", "base"]))
    {
        eprintln!("git is missing: not tested");
        return;
    }
    fs::write(folder.join("job.toml"), JOB.replace("tp = 2, dp = 32", "tp = 4, dp = 16")).unwrap();
    fs::write(folder.join("collcost.toml"), BUDGETS.replace("50GB/s", "25GB/s")).unwrap();
    let json = check(&folder, "json");
    assert!(json.status.success(), "{}", String::from_utf8_lossy(&json.stderr));
    let report: Value = serde_json::from_slice(&json.stdout).unwrap();
    let why = |i: usize| report["budgets"][i]["changed"].to_string();
    assert!(why(0).contains("tp 2 to 4") && why(0).contains("dp 32 to 16"), "{}", why(0));
    assert!(why(1).contains("inter.bw 50 GB/s to 25 GB/s"), "{}", why(1));
    for i in [0, 1] {
        let side = |key: &str| report["budgets"][i][key].as_f64().unwrap();
        assert!(side("new") > 1.02 * side("old"), "{report}");
    }
    let comment = String::from_utf8(check(&folder, "markdown").stdout).unwrap();
    assert!(
        comment.starts_with("<!-- collcost check -->\n") && comment.contains("tp 2 to 4"),
        "{comment}"
    );
    fs::remove_dir_all(&folder).unwrap();
}

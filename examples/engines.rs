//! How far expectations of inference engines' all-reduces are off where a table, a number of ranks, a
//! board or a generation is left out: `cargo run --release --example engines`, by the curves of
//! `evidence/engines.csv`.
//!
//! `engines held TABLE…` holds the same against raw tables, `engines smooth TABLE…` makes the curves of
//! them. A raw table is CSV with the columns engine, table (its release), mode (graph or eager), n,
//! bytes and us; the file's name ends in the machine: `allreduce_h100_sxm.csv`. What ran is told by the
//! engine's own rules: source tables name the way of launching instead.
//!
//! `engines experts TABLE…` makes `evidence/experts.csv` of tables of MoE dispatch and combine, with the
//! columns backend, phase, dtype, ep, nodes, hidden, topk, experts, tokens (a rank), sms and us.

#![allow(clippy::disallowed_methods, reason = "an example writes as it likes")]

use std::collections::BTreeMap;
use std::path::Path;
use std::{env, fs};

use collcost::base::collective::Collective;
use collcost::base::quantity::{Bytes, Seconds};
use collcost::library::engines::{Conditions, Kernel, Variables};
use collcost::library::{Call, Site, policy};
use collcost::machine::profile::Profile;
use collcost::measure::expect::{ExpertTimes, KernelTimes, RawTimes, RawTokens, Tokens};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// A machine's tables, and the profile that it is.
const MACHINES: [(&str, &str); 5] = [
    ("a100_sxm", "a100"),
    ("h100_sxm", "h100"),
    ("b200_sxm", "b200"),
    ("gb200", "gb200"),
    ("l40s", "l40s"),
];

/// Tables that stand under a machine's name and were made on another: not used.
const ELSEWHERE: [(&str, &str); 4] = [
    // Four GPUs linked directly: a third of the rate a pair, and no multicast.
    ("gb200", "sglang 0.5.9"),
    ("gb200", "vllm 0.19.0"),
    ("gb200", "vllm 0.24.0"),
    // Ten times faster than all others on 8 ranks.
    ("l40s", "sglang 0.5.12"),
];

fn main() -> Result<()> {
    let args: Vec<String> = env::args().skip(1).collect();
    let taught = KernelTimes::built_in()?;
    match args.split_first() {
        None => print(taught, taught),
        Some((verb, files)) if verb == "held" && !files.is_empty() => {
            print(taught, &KernelTimes::raw(&read(files)?));
        }
        Some((verb, files)) if verb == "smooth" && !files.is_empty() => {
            print!("{}", KernelTimes::smoothed(&read(files)?));
        }
        Some((verb, files)) if verb == "experts" && !files.is_empty() => {
            let fits = ExpertTimes::fitted(&tokens(files)?);
            print!("{}", fits.to_csv());
            let error = fits.held_out();
            eprintln!("{:.1}% / {:.1}%", 100.0 * error.median.0, 100.0 * error.p90.0);
        }
        _ => return Err("write `engines`, or `held`, `smooth` or `experts` with TABLE…".into()),
    }
    Ok(())
}

fn print(taught: &KernelTimes, truth: &KernelTimes) {
    println!(
        "{:<44} {:>6} {:>6}  {:>6} {:>6}  band",
        "left out", "points", "none", "median", "p90"
    );
    for left in taught.held_out(truth) {
        let (median, p90) = (100.0 * left.error.median.0, 100.0 * left.error.p90.0);
        let (low, high) = (left.band.0.0, left.band.1.0);
        println!(
            "{:<44} {:>6} {:>6}  {median:>5.1}% {p90:>5.1}%  {low:.3} to {high:.3}",
            left.what, left.points, left.unanswered
        );
    }
    let regret = taught.regret(truth);
    let (mean, near) = (100.0 * regret.mean.0, 100.0 * regret.near.0);
    println!(
        "the fastest of the newest engines, chosen without their tables: {} choices lose {mean:.2}% in \
         the mean, {near:.1}% of them at most 5%",
        regret.cells
    );
}

fn read(files: &[String]) -> Result<Vec<RawTimes>> {
    let mut found = Found::new();
    for file in files {
        let (machine, text) = open(file)?;
        rows(&text, machine, &mut found).map_err(|e| format!("{file}: {e}"))?;
    }
    let table = |((machine, table, kind, ranks), mut points): (Key, Vec<_>)| {
        points.sort_by_key(|p: &(Bytes, Seconds)| p.0);
        let kernel = Kernel { backend: kind.0, kernel: kind.1, graph: kind.2 };
        RawTimes { machine, table, kernel, ranks, points }
    };
    Ok(found.into_iter().map(table).collect())
}

/// The machine that a file's name ends in, and its text.
fn open(file: &str) -> Result<((&'static str, &'static str), String)> {
    let stem = Path::new(file).file_stem().and_then(|s| s.to_str()).unwrap_or_default();
    let machine = MACHINES
        .iter()
        .find(|m| stem.strip_suffix(m.0).is_some_and(|s| s.is_empty() || s.ends_with('_')))
        .ok_or_else(|| format!("{file}: the name ends in no known machine"))?;
    Ok((*machine, fs::read_to_string(file).map_err(|e| format!("{file}: {e}"))?))
}

/// Dispatches and combines of one node.
fn tokens(files: &[String]) -> Result<Vec<RawTokens>> {
    let mut found = Vec::new();
    for file in files {
        let ((machine, _), text) = open(file)?;
        let mut lines = text.lines();
        let names: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
        for line in lines {
            let words: Vec<&str> = line.split(',').collect();
            let text = |name: &str| {
                let at = names.iter().position(|n| *n == name).and_then(|i| words.get(i));
                at.copied().ok_or_else(|| format!("{file}: no `{name}` in `{line}`"))
            };
            let count = |name: &str| -> Result<u32> { Ok(text(name)?.parse()?) };
            let (backend, phase) = (text("backend")?, text("phase")?);
            // Of one table tokens keep to groups of experts.
            let limited = text("table")? == "0.5.6.post2";
            if count("nodes")? != 1 || limited || !matches!(phase, "dispatch" | "combine") {
                continue;
            }
            // DeepEP as SGLang's collector times it; others by their engine.
            let backend = match text("engine")? {
                "vllm" => format!("vllm-{backend}"),
                _ => backend.to_owned(),
            };
            let dtype = match (text("dtype")?, phase) {
                ("default", "dispatch") => "fp8",
                ("default", _) => "bf16",
                (dtype, _) => dtype,
            };
            let (hidden, top_k, experts) = (count("hidden")?, count("topk")?, count("experts")?);
            let bits = match dtype {
                // With their scales.
                "fp8" => 8.25,
                "fp4" | "nvfp4" => 4.5,
                _ => 16.0,
            };
            let width = Bytes((f64::from(hidden) * bits / 8.0) as u64);
            let (each, ranks) = (u64::from(count("tokens")?), count("ep")?);
            found.push(RawTokens {
                machine: machine.to_owned(),
                backend,
                phase: phase.to_owned(),
                dtype: dtype.to_owned(),
                sms: count("sms")?,
                tokens: Tokens { each, width, top_k, experts, ranks },
                model: (hidden, top_k, experts),
                time: Seconds(text("us")?.parse::<f64>()? * 1e-6),
            });
        }
    }
    Ok(found)
}

/// Backend, kernel, and whether in a graph.
type Kind = (&'static str, &'static str, bool);

/// A machine, a table, what ran, ranks.
type Key = (String, String, Kind, u32);

type Found = BTreeMap<Key, Vec<(Bytes, Seconds)>>;

fn rows(text: &str, (machine, profile): (&str, &str), found: &mut Found) -> Result<()> {
    let profile = Profile::builtin(profile)?;
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let column = |name: &str| {
        names.iter().position(|n| *n == name).ok_or_else(|| format!("no column `{name}`"))
    };
    let [engine, release, mode, n, bytes, us] =
        ["engine", "table", "mode", "n", "bytes", "us"].map(column);
    let [engine, release, mode, n, bytes, us] = [engine?, release?, mode?, n?, bytes?, us?];
    for line in lines {
        let words: Vec<&str> = line.split(',').collect();
        let at = |i: usize| words.get(i).copied().ok_or_else(|| format!("`{line}` is too short"));
        let (engine, release, graph) = (at(engine)?, at(release)?, at(mode)? == "graph");
        let table = format!("{engine} {release}");
        if ELSEWHERE.contains(&(machine, table.as_str())) {
            continue;
        }
        let mut variables = Variables::default();
        match (engine, release) {
            ("trtllm", _) => variables.put("TLLM_DISABLE_ALLREDUCE_AUTOTUNE=1")?,
            // These tables ran as if there were no multicast.
            ("vllm", "0.14.0") => variables.put("VLLM_ALLREDUCE_USE_SYMM_MEM=0")?,
            _ => {}
        }
        let (ranks, size): (u32, u64) = (at(n)?.parse()?, at(bytes)?.parse()?);
        let site = Site {
            machine: profile.name.clone(),
            title: profile.title.clone(),
            ranks,
            nodes: 1,
            hardware: profile.hardware(),
            conditions: Conditions { graph, variables, ..Conditions::default() },
            ..Site::default()
        };
        let element = site.conditions.dtype().bytes();
        let call = Call { element, ..Call::new(Collective::AllReduce, ranks, Bytes(size)) };
        // Its rules were not read; the tables bear out those of 1.2.
        let rules = if table == "trtllm 1.0.0" { "1.2.0" } else { release };
        let choice = policy(&format!("{engine}@{rules}"), &site)?.choose(&call)?;
        let ran = choice.kernel.ok_or("no kernel")?;
        let key = (machine.to_owned(), table, (ran.backend, ran.kernel, graph), ranks);
        found.entry(key).or_default().push((Bytes(size), Seconds(at(us)?.parse::<f64>()? * 1e-6)));
    }
    Ok(())
}

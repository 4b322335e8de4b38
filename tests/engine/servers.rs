//! Times of servers that were published with their batch, held against what a plan says of them.
//!
//! `tests/data/published_servers.toml.gz` has 165 rows of 16 sources, each with its address: times between tokens, of a
//! static batch, and to the first token. Two constants are fitted to them, the time between the kernels of a layer and
//! that of a layer of experts (`BETWEEN` and `ROUTING`, `src/plan/job/serve.rs`); here one factor of both is fitted with
//! each source left out in turn.

use std::collections::{BTreeMap, BTreeSet};

use collcost::Result;
use collcost::answer::job::{Asked, served};
use collcost::answer::serve::{PhaseView, ServeView};
use collcost::machine::profile::Profile;
use collcost::model::algorithm::Registry;
use collcost::plan::table::Files;
use toml::Table;

use crate::gzip::inflate;
use crate::jobs::{number, quantile, rows, text};

/// Rows of which one is off by more than a factor of 1.6, by a part of their names, with the reason.
const FAR: &[(&str, &str)] = &[
    ("amd-70b-mi300x-0.10.1-1", "AMD's kernels wait less for each other"),
    (
        "-mi300x-",
        "large batches compute, and experts in 4 bits are assumed to be as fast there as on H100, as a part of the largest product",
    ),
    ("tenstorrent", "TP over two nodes: sums of single tokens between nodes"),
    (
        "vllm-2542",
        "vLLM 0.2.7 of January 2024: NCCL's all-reduces, and the first kernel of its experts",
    ),
    ("trtllm-", "first tokens of 2023: the host launched the kernels of a prefill one by one"),
];

/// Parts of the names of models with experts.
const EXPERTS: [&str; 7] = ["mixtral", "dbrx", "deepseek", "gpt-oss", "-a3b", "-a22b", "-A17B"];

const QWEN3_8B: &str = r#"{"model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12288,
    "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
    "vocab_size": 151936, "tie_word_embeddings": false, "max_position_embeddings": 40960}"#;

/// A launch, beside a model's `config.json`.
struct Launch(String);

impl Files for Launch {
    fn profile(&self, name: &str) -> Result<Profile> {
        Profile::builtin(name)
    }

    fn text(&self, name: &str) -> Result<String> {
        Ok(if name.ends_with(".json") { QWEN3_8B.to_owned() } else { self.0.clone() })
    }

    fn matching(&self, _: &str) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
}

fn asked(launch: &str, keys: &[(&str, String)]) -> ServeView {
    let set: Vec<_> = keys.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
    let files = ["serve.sh".to_owned()];
    let asked = Asked { files: &files, set: &set, ..Asked::default() };
    let found = served(&Registry::builtin(), &Launch(launch.to_owned()), &asked);
    found.unwrap_or_else(|e| panic!("{launch}: {e}")).unwrap()
}

/// A published time, and the phases of which it is made, each so many times.
struct Row {
    id: String,
    source: String,
    device: String,
    experts: bool,
    measured: f64,
    phases: [(PhaseView, f64); 2],
}

impl Row {
    /// The logarithm of predicted over measured time, if layers take `scale` of their time between kernels.
    fn off(&self, scale: f64) -> f64 {
        (self.sum(|p| p.time_s + (scale - 1.0) * p.between_s) / self.measured).ln()
    }

    fn sum(&self, of: impl Fn(&PhaseView) -> f64) -> f64 {
        self.phases.iter().map(|(phase, times)| times * of(phase)).sum()
    }

    /// Whether the band is around the measured time.
    fn held(&self, scale: f64) -> bool {
        let end = |end: f64, messages: f64, p: &PhaseView| {
            let factor = (end - messages) / (p.busy_s + p.between_s);
            (p.busy_s + scale * p.between_s) * factor + messages
        };
        let low = self.sum(|p| end(p.low_s, p.messages_low_s, p));
        let high = self.sum(|p| end(p.high_s, p.messages_high_s, p));
        low <= self.measured && self.measured <= high
    }
}

fn published() -> Vec<Row> {
    let whole: Table =
        inflate(&std::fs::read("tests/data/published_servers.toml.gz").unwrap()).parse().unwrap();
    let one = |row: &Table| {
        let [batch, input, output] = ["batch", "input", "output"].map(|key| number(row, key));
        let all = row.contains_key("total_s");
        let keys = [
            ("machine", text(row, "machine").to_owned()),
            ("model", text(row, "model").to_owned()),
            ("sequences", batch.to_string()),
            // The plan takes half of the longest as the mean.
            ("context", (2.0 * (input + (output / 2.0).floor())).to_string()),
            ("chunk", (if all { batch * input } else { input }).to_string()),
        ];
        let found = asked(text(row, "args"), &keys);
        assert!(found.fits && (found.sequences - batch).abs() < 0.5, "{} ran", text(row, "id"));
        // A static batch is one prefill and the tokens after its first; between the tokens of a sequence the prompts
        // of the others come in.
        let (measured, decodes, prefills) = match row.contains_key("step_ms") {
            _ if all => (number(row, "total_s"), output - 1.0, 1.0),
            true => (number(row, "step_ms") * 1e-3, 1.0, (batch - 1.0) / output),
            false => (number(row, "first_ms") * 1e-3, 0.0, 1.0),
        };
        Row {
            id: text(row, "id").to_owned(),
            source: text(row, "source").to_owned(),
            device: found.device,
            experts: EXPERTS.iter().any(|name| text(row, "model").contains(name)),
            measured,
            phases: [(found.decode.unwrap(), decodes), (found.prefill.unwrap(), prefills)],
        }
    };
    rows(&whole, "row").into_iter().map(one).collect()
}

#[test]
fn servers_of_a_source_that_nothing_was_fitted_to_are_met() {
    let rows = published();
    let mut counts: BTreeMap<&str, f64> = BTreeMap::new();
    rows.iter().for_each(|row| *counts.entry(&row.source).or_default() += 1.0);
    let weight = |row: &Row| 1.0 / counts[row.source.as_str()];
    // Steps of a sixteenth of the constants. Times to first tokens are not fitted to.
    let best = |which: &dyn Fn(&Row) -> bool| {
        let others = || rows.iter().filter(|row| which(row) && row.phases[0].1 > 0.0);
        let loss = |scale: f64| others().map(|r| weight(r) * r.off(scale).abs()).sum::<f64>();
        let scales = (0..=40).map(|step| f64::from(step) / 16.0);
        scales.min_by(|a, b| loss(*a).total_cmp(&loss(*b))).unwrap()
    };
    let fitted = |without: Option<&str>| best(&|row| Some(row.source.as_str()) != without);
    let all = fitted(None);
    assert!((all - 1.0).abs() < 0.07, "{all:.2} of the constants fit best");
    // Models with experts have both constants, the others the first alone. Those with experts alone would have half as
    // much again, most of it for the sources of 2024 and of two nodes that are far off.
    let [dense, experts] = [best(&|row| !row.experts), best(&|row| row.experts)];
    assert!((0.75..1.0).contains(&dense) && (1.0..1.6).contains(&experts), "{dense} {experts}");
    let (mut off, mut held, mut far) = (Vec::new(), 0.0, BTreeSet::new());
    for source in counts.keys() {
        let scale = fitted(Some(source));
        for row in rows.iter().filter(|row| row.source == **source) {
            let error = row.off(scale).abs().exp();
            off.push((error, weight(row)));
            held += if row.held(scale) { weight(row) } else { 0.0 };
            if error > 1.6 {
                let reason = FAR.iter().find(|(name, _)| row.id.contains(name));
                far.insert(reason.unwrap_or_else(|| panic!("{}: {error:.2}, why?", row.id)).0);
            }
        }
    }
    assert_eq!(far, FAR.iter().map(|(name, _)| *name).collect());
    // Every source counts alike.
    let [median, p80] = [0.5, 0.8].map(|q| quantile(off.clone(), q));
    let held = held / counts.len() as f64;
    assert!(median <= 1.17 && p80 <= 1.54, "median {median:.3}, p80 {p80:.3}, {held:.2} held");
    assert!((0.75..=0.85).contains(&held), "{held:.2} inside the band of 8 in 10");
    let page = include_str!("../../docs/background/plans.md").replace('\n', " ");
    let counts = format!("{} published times of {} sources", rows.len(), counts.len());
    assert!(page.contains(&counts), "{counts}");
    let devices: BTreeSet<&str> = rows.iter().map(|row| row.device.as_str()).collect();
    let names = devices.into_iter().collect::<Vec<_>>().join(", ");
    let basis = asked("vllm serve llama3-8b", &[("machine", "dgx-b200".to_owned())]).basis;
    assert!(basis.contains(&format!("{names}, none of B200")), "{basis}");
}

/// A step or a prefill takes at least as long as the weights that it meets take to be read.
#[test]
fn no_phase_is_shorter_than_the_reading_of_its_weights() {
    for (launch, machine, met, rate) in [
        (
            "vllm serve llama3-8b --max-model-len 64 --max-num-batched-tokens 64",
            "dgx-h100",
            1.0,
            3.35e12,
        ),
        // 1,024 tokens of 8 of 256 experts meet all.
        (
            "python3 -m sglang.launch_server --model-path deepseek-ai/DeepSeek-R1 --tp 8 --quantization fp8 \
             --chunked-prefill-size 1024",
            "dgx-h200",
            0.98,
            4.8e12,
        ),
    ] {
        let found = asked(launch, &[("machine", machine.to_owned())]);
        // Without the embedding, of which few rows are read.
        let least = 0.93 * met * found.weights_bytes / rate;
        let busy = found.prefill.unwrap().busy_s;
        assert!(busy > least, "{launch}: {busy} of {least}");
    }
}

/// The length that a launch gives is above what the model of `--set model=` may have, of a file as of a name.
#[test]
fn a_launch_says_how_long_its_sequences_are() {
    let keys = |model: &str| [("machine", "dgx-h100".to_owned()), ("model", model.to_owned())];
    let launch = "vllm serve Qwen/Qwen3-8B --max-num-seqs 4";
    let stated = format!("{launch} --max-model-len 686");
    for model in ["qwen3-8b.json", "llama3-8b"] {
        assert_eq!(asked(&stated, &keys(model)).context, 343, "{model}");
    }
    assert_eq!(asked(launch, &keys("qwen3-8b.json")).context, 20_480);
}

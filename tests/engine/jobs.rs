//! Steps and peaks that were published with their layouts, held against what a plan says of them.
//!
//! `tests/data/published_steps.toml.gz` has 143 runs of 26 sources, each with its address. Rates of kernels
//! (`src/plan/job/devices.toml`) were fitted to them; `src/plan/job/held_out.rs` fits them with each source left
//! out in turn and is off by 7.6 % in the median and 16 % at p80.
//!
//! Two rows differ from the first reading of their pages. `aws-8b-32-fp8` ran two sequences a GPU, not one: its 63.5 GiB
//! are those of torchtitan's own board with two (61.8 GiB on 128 GPUs), where one takes 47.7 GB on 8 (pytorch/ao,
//! torchao/float8/README.md). `titan-405b-512-1f1b` ran 8 micro-batches of 4: torchtitan of then made as many as
//! there are stages unless told otherwise (`pipeline_parallel_microbatches`, torchtitan/config_manager.py).

use std::collections::BTreeMap;

use collcost::Result;
use collcost::answer::job::{Asked, JobView, jobs, search};
use collcost::machine::profile::Profile;
use collcost::model::algorithm::Registry;
use collcost::plan::table::Files;

use crate::gzip::inflate;
use toml::{Table, Value};

/// Runs that are off by more than 35 %, with the reason.
const FAR: &[(&str, &str)] = &[
    (
        "bridge-moonlight-8",
        "four sequences a step of a model of 27 narrow layers of experts: the host's launches, not the GPU, take most",
    ),
    ("tpu7x-oss-64", OSS),
    ("tpu7x-oss-256", OSS),
];
const OSS: &str = "128 experts of 2,880 channels under MaxText: 14 % of the peak in all, half of what other experts reach there";

struct Published(String);

impl Files for Published {
    fn profile(&self, name: &str) -> Result<Profile> {
        Profile::builtin(name)
    }

    fn text(&self, _: &str) -> Result<String> {
        Ok(self.0.clone())
    }

    fn matching(&self, _: &str) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
}

fn published() -> String {
    inflate(&std::fs::read("tests/data/published_steps.toml.gz").unwrap())
}

fn priced(text: &str) -> BTreeMap<String, JobView> {
    let registry = Registry::builtin();
    let names = ["published_steps.toml".to_owned()];
    let asked = Asked { files: &names, ..Asked::default() };
    let found =
        jobs(&registry, &Published(text.to_owned()), &asked).unwrap_or_else(|e| panic!("{e}"));
    found.jobs.into_iter().map(|job| (job.name.clone(), job)).collect()
}

pub fn rows<'a>(whole: &'a Table, kind: &str) -> Vec<&'a Table> {
    whole[kind].as_array().unwrap().iter().filter_map(Value::as_table).collect()
}

pub fn text<'a>(row: &'a Table, key: &str) -> &'a str {
    row.get(key).and_then(Value::as_str).unwrap_or("")
}

pub fn number(row: &Table, key: &str) -> f64 {
    let value = &row[key];
    value.as_float().or(value.as_integer().map(|n| n as f64)).unwrap()
}

/// The quantile of values, each of them weighed.
pub fn quantile(mut values: Vec<(f64, f64)>, q: f64) -> f64 {
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let all: f64 = values.iter().map(|v| v.1).sum();
    let mut sum = 0.0;
    let found = values.iter().find(|v| {
        sum += v.1;
        sum >= q * all
    });
    found.unwrap().0
}

#[test]
fn published_steps_are_met() {
    let all = published();
    let (whole, found) = (all.parse::<Table>().unwrap(), priced(&all));
    let rows = rows(&whole, "run");
    let (mut off, mut held) = (Vec::new(), 0);
    for row in &rows {
        let job = &found[text(row, "id")];
        let (step, measured) = (job.step_s.unwrap(), number(row, "step_s"));
        let error = (step / measured - 1.0).abs();
        let alike = rows.iter().filter(|r| text(r, "source") == text(row, "source")).count();
        off.push((error, 1.0 / alike as f64));
        held += usize::from(job.low_s.unwrap() <= measured && measured <= job.high_s.unwrap());
        let far = FAR.iter().any(|(id, _)| *id == text(row, "id"));
        assert_eq!(error > 0.35, far, "{}: {step} for {measured}", text(row, "id"));
        assert!(job.fits, "{} ran, and is called impossible", text(row, "id"));
    }
    // Every source counts alike.
    let (median, p80) = (quantile(off.clone(), 0.5), quantile(off, 0.8));
    assert!(median <= 0.08 && p80 <= 0.16, "median {median:.3}, p80 {p80:.3}");
    let held = held as f64 / rows.len() as f64;
    // The rates are fitted to these runs; `held_out.rs` tests the band on runs that they were not fitted to.
    assert!((0.75..=0.96).contains(&held), "{held:.2} inside the band of 8 in 10");
}

/// Of two layouts of a model on a machine that differ by more than 5 %, the better one is told.
#[test]
fn layouts_are_put_in_order() {
    let all = published();
    let (whole, found) = (all.parse::<Table>().unwrap(), priced(&all));
    let rows = rows(&whole, "run");
    let same = |a: &Table, b: &Table| {
        ["source", "model", "machine"].iter().all(|k| text(a, k) == text(b, k))
    };
    let rate = |row: &Table, step: f64| {
        let batch = row["batch"].as_table().unwrap();
        number(batch, "global") * number(batch, "sequence") / number(row, "gpus") / step
    };
    let (mut right, mut pairs) = (0, 0);
    for (i, a) in rows.iter().enumerate() {
        for b in rows[i + 1..].iter().filter(|b| same(a, b)) {
            let seen = (rate(a, number(a, "step_s")) / rate(b, number(b, "step_s"))).ln();
            let step = |row: &Table| found[text(row, "id")].step_s.unwrap();
            let said = (rate(a, step(a)) / rate(b, step(b))).ln();
            if seen.abs() > 0.05 {
                pairs += 1;
                right += usize::from(seen * said > 0.0);
            }
        }
    }
    assert!(
        pairs >= 40 && f64::from(right as u32) >= 0.85 * f64::from(pairs),
        "{right} of {pairs}"
    );
}

fn plan_of(text: &str, set: &[(String, String)]) -> JobView {
    let files = ["job.toml".to_owned()];
    let asked = Asked { files: &files, set, ..Asked::default() };
    let found = jobs(&Registry::builtin(), &Published(text.to_owned()), &asked);
    found.unwrap_or_else(|e| panic!("{e}: {set:?}")).jobs.remove(0)
}

/// The parts of a peak are all of it, whatever is counted.
#[test]
fn parts_of_a_peak_add_up() {
    let text = "model = \"llama3-8b\"\nmachine = \"dgx-h100\"\ngpus = 8\nsharding = \"zero1\"\n\
                batch = { global = 8, sequence = 4096 }\n";
    for (kind, beside) in [("max_allocated", false), ("max_reserved", true), ("nvidia-smi", true)] {
        let job = plan_of(text, &[("memory_kind".to_owned(), kind.to_owned())]);
        let m = &job.memory;
        let parts = [m.parameters_bytes, m.gradients_bytes, m.optimizer_bytes, m.activations_bytes];
        let all: f64 = parts.iter().sum::<f64>() + m.logits_bytes + m.buffers_bytes;
        assert!((all + m.allocator_bytes - job.memory_bytes).abs() < 1.0, "{kind}");
        assert_eq!(m.allocator_bytes > 1.0, beside, "{kind}");
    }
}

/// The words of a row, given to `--set`, make the plan that the row shows, whatever layout the file has.
#[test]
fn rows_of_a_search_are_the_plans_of_their_words() {
    let tried = |text: &str, gpus: u32| {
        let files = ["job.toml".to_owned()];
        let asked = Asked { files: &files, ..Asked::default() };
        let own = Published(text.to_owned());
        let found = search(&Registry::builtin(), &own, &asked, &[gpus], None);
        let found = found.unwrap_or_else(|e| panic!("{e}: {text}"));
        for row in &found.searches[0].pareto {
            let words = row.layout.iter().map(|word| word.split_once(' ').unwrap());
            let micro = row.micro_batch.to_string();
            let more = [
                ("micro_batch", micro.as_str()),
                ("recompute", &row.recompute),
                ("sharding", &row.sharding),
            ];
            let own = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
            let mut set: Vec<_> = words.chain(more).map(own).collect();
            set.push(("gpus".to_owned(), gpus.to_string()));
            let plan = plan_of(text, &set);
            let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
            assert!(near(plan.step_s.unwrap(), row.step_s), "{} {set:?}", row.step_s);
            assert!(near(plan.memory_bytes, row.memory_bytes), "{} {set:?}", row.memory_bytes);
            assert_eq!(plan.memory_kind, found.memory_kind);
        }
    };
    tried(
        "model = \"mixtral-8x7b\"\nmachine = \"dgx-h100\"\n\
         batch = { global = 256, sequence = 4096 }\n",
        64,
    );
    tried(
        "model = \"deepseek-v3\"\nmachine = \"hgx-h800\"\ngpus = 2048\nprecision = \"fp8\"\n\
         batch = { global = 15360, sequence = 4096 }\n",
        2048,
    );
    tried(
        "model = \"llama3-405b\"\nmachine = \"dgx-h100\"\n\
         batch = { global = 2048, sequence = 8192 }\n",
        1024,
    );
    // A batch of each replica, of which other layouts have another number.
    tried(
        "model = \"llama3-8b\"\nmachine = \"dgx-h100\"\ngpus = 32\naccumulation = 8\nsharding = \"zero1\"\n\
         layout = { tp = 2 }\nbatch = { micro = 2, sequence = 8192 }\n",
        64,
    );
    // A layout that its search leaves.
    tried(
        "model = \"mixtral-8x7b\"\nmachine = \"dgx-h100\"\naccumulation = 4\nsharding = \"zero1\"\n\
         layout = { tp = 4, pp = 2, dp = 8, ep = 4, etp = 1, sequence_parallel = true, layers_per_chunk = 4 }\n\
         batch = { global = 256, micro = 8, sequence = 4096 }\n",
        64,
    );
    tried(
        "model = \"llama3-8b\"\nmachine = \"dgx-h100\"\nsharding = \"fsdp2\"\nreplicate = 4\n\
         layout = { tp = 2, dp = 32 }\nbatch = { global = 128, sequence = 8192 }\n",
        64,
    );
}

#[test]
fn published_peaks_are_met_and_borders_are_on_their_side() {
    let all = published();
    let (whole, found) = (all.parse::<Table>().unwrap(), priced(&all));
    let mut off = Vec::new();
    for row in rows(&whole, "run") {
        let Some(peak) = row.get("peak_memory").and_then(Value::as_table) else { continue };
        let unit = if text(peak, "unit") == "GB" { 1e9 } else { f64::from(1 << 30) };
        let measured = number(peak, "value") * unit;
        off.push(((found[text(row, "id")].memory_bytes / measured - 1.0).abs(), 1.0));
    }
    let (median, p80) = (quantile(off.clone(), 0.5), quantile(off, 0.8));
    assert!(median <= 0.08 && p80 <= 0.18, "median {median:.3}, p80 {p80:.3}");
    for row in rows(&whole, "memory") {
        let Some(job) = found.get(text(row, "id")) else { continue };
        // By formula this one lies within 1 GB of a neighbour that ran: no model can tell.
        if row.contains_key("fits") && text(row, "id") != "bloom-oom-206b" {
            assert!(!job.fits, "{} ran out of memory", text(row, "id"));
        }
    }
}

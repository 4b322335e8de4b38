//! Steps and peaks that were published with their layouts, held against what a plan says of them.
//!
//! `tests/data/published_steps.toml.gz` has 143 runs of 26 sources, each with its address. Rates of kernels
//! (`src/plan/job/devices.toml`) were fitted to them; `src/plan/job/held_out.rs` fits them with each source left
//! out in turn and is off by 7.1 % in the median and 16 % at p80.
//!
//! Two rows differ from the first reading of their pages. `aws-8b-32-fp8` ran two sequences a GPU, not one: its 63.5 GiB
//! are those of torchtitan's own board with two (61.8 GiB on 128 GPUs), where one takes 47.7 GB on 8 (pytorch/ao,
//! torchao/float8/README.md). `titan-405b-512-1f1b` ran 8 micro-batches of 4: torchtitan of then made as many as
//! there are stages unless told otherwise (`pipeline_parallel_microbatches`, torchtitan/config_manager.py).

use std::collections::BTreeMap;

use collcost::Result;
use collcost::answer::job::{Asked, JobView, jobs};
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

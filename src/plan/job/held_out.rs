//! The error of steps of a source if the rates of kernels are fitted to all other sources.
//!
//! The rates of `devices.toml` are fitted here, starting from other publications: products at 0.8
//! of the rate that they reach alone, attention as stated by the authors of FlashAttention and
//! PyTorch. Rates that the fit cannot determine without a source stay near these. The thirteen
//! constants of shapes and hosts (`work.rs`) are not fitted again: they were chosen from all
//! sources, so errors of unseen sources will be a little larger.

use std::collections::BTreeMap;
use std::io::Read;

use toml::{Table, Value};

use super::super::Job;
use super::super::device::Kernels;
use super::super::row::rows;
use super::*;
use crate::base::order::rising;
use crate::model::algorithm::Registry;
use crate::plan::table::{BuiltIn, Machines};

/// Rates that share one value: of which GPUs, which of the seven, and the start of the fit.
struct Rate {
    devices: &'static [&'static str],
    set: fn(&mut Kernels, f64),
    prior: f64,
}

const HOPPER: &[&str] = &["H100", "H800", "H200"];
const GB200: &[&str] = &["GB200"];
const GB300: &[&str] = &["GB300"];
const BLACKWELL: &[&str] = &["GB200", "GB300"];
const TRILLIUM: &[&str] = &["TPU v6e"];
const IRONWOOD: &[&str] = &["TPU7x"];
const TPU: &[&str] = &["TPU v6e", "TPU7x"];

fn rates() -> Vec<Rate> {
    let rate = |devices, prior, set: fn(&mut Kernels, f64)| Rate { devices, set, prior };
    vec![
        rate(&["A100"], 0.68, |k, x| {
            (k.matmul, k.fp8, k.torch_matmul, k.torch_fp8) = (x, x, x, x);
        }),
        rate(&["A100"], 0.5, |k, x| (k.flash, k.torch_flash) = (x, x)),
        rate(&["A100"], 0.5, |k, x| k.unfused = x),
        rate(HOPPER, 0.64, |k, x| k.matmul = x),
        rate(HOPPER, 0.64, |k, x| k.torch_matmul = x),
        rate(HOPPER, 0.58, |k, x| k.fp8 = x),
        rate(HOPPER, 0.58, |k, x| k.torch_fp8 = x),
        rate(HOPPER, 0.5, |k, x| k.flash = x),
        rate(HOPPER, 0.35, |k, x| k.torch_flash = x),
        rate(BLACKWELL, 0.62, |k, x| k.matmul = x),
        rate(BLACKWELL, 0.62, |k, x| k.torch_matmul = x),
        rate(GB200, 0.58, |k, x| k.fp8 = x),
        rate(GB300, 0.58, |k, x| k.fp8 = x),
        rate(GB200, 0.54, |k, x| k.fp4 = x),
        rate(GB300, 0.54, |k, x| k.fp4 = x),
        rate(BLACKWELL, 0.58, |k, x| k.torch_fp8 = x),
        rate(BLACKWELL, 0.5, |k, x| k.flash = x),
        rate(BLACKWELL, 0.35, |k, x| k.torch_flash = x),
        rate(TRILLIUM, 0.75, |k, x| {
            (k.matmul, k.fp8, k.torch_matmul, k.torch_fp8) = (x, x, x, x);
        }),
        rate(IRONWOOD, 0.75, |k, x| (k.matmul, k.torch_matmul) = (x, x)),
        rate(IRONWOOD, 0.7, |k, x| (k.fp8, k.torch_fp8) = (x, x)),
        rate(TPU, 0.5, |k, x| (k.flash, k.torch_flash, k.unfused) = (x, x, x)),
    ]
}

/// One published run.
struct Run {
    source: String,
    weight: f64,
    measured: f64,
    job: Job,
    messages: Messages,
}

impl Run {
    /// The predicted time with kernels `slower` than rates of `values`.
    fn said(&self, rates: &[Rate], values: &[f64], slower: f64) -> f64 {
        let mut job = self.job.clone();
        for (rate, value) in rates.iter().zip(values) {
            if rate.devices.contains(&job.device.name.as_str()) {
                (rate.set)(&mut job.device.kernels, *value);
            }
        }
        sum(&parts(&job, &self.messages, &stages(&job), slower))
    }

    /// The logarithm of predicted over measured time.
    fn off(&self, rates: &[Rate], values: &[f64]) -> f64 {
        (self.said(rates, values, 1.0) / self.measured).ln()
    }

    /// How much slower its kernels were than rates of `values`, within the limits for an anchor.
    fn slower(&self, rates: &[Rate], values: &[f64]) -> f64 {
        let (mut low, mut high) = (1.0 / SIMILAR, SIMILAR);
        for _ in 0..30 {
            let mid = f64::sqrt(low * high);
            let ends =
                if self.said(rates, values, mid) < self.measured { &mut low } else { &mut high };
            *ends = mid;
        }
        f64::sqrt(low * high)
    }
}

pub(in crate::plan::job) fn published() -> String {
    let file = std::fs::File::open("tests/data/published_steps.toml.gz").unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    text
}

fn runs() -> Vec<(String, Run)> {
    let text = published();
    let whole: Table = text.parse().unwrap();
    let tables: Vec<&Table> =
        whole["run"].as_array().unwrap().iter().filter_map(Value::as_table).collect();
    let source = |table: &Table| table["source"].as_str().unwrap().to_owned();
    let mut counts: BTreeMap<String, f64> = BTreeMap::new();
    tables.iter().for_each(|t| *counts.entry(source(t)).or_default() += 1.0);
    let (registry, machines) = (Registry::builtin(), Machines::new(&BuiltIn));
    let of_runs = rows(&text, "published_steps.toml").unwrap();
    let pairs = of_runs.iter().filter(|row| !row.memory_only).zip(&tables);
    let one = |(row, table): (&super::super::Row, &&Table)| {
        let job = row.draft.job(&machines, false).unwrap();
        let wires = Wires::new(&registry, &job.machine);
        let messages = messages(&job, &wires).unwrap().0;
        let (source, step) = (source(table), &table["step_s"]);
        let measured = step.as_float().or(step.as_integer().map(|n| n as f64)).unwrap();
        let weight = 1.0 / counts[&source];
        let name = table["id"].as_str().unwrap().to_owned();
        assert_eq!(name, row.draft.name);
        (name, Run { source, weight, measured, job, messages })
    };
    pairs.map(one).collect()
}

/// The rates that fit `runs` best, one rate after another, by absolute errors that are smoothed
/// near 0.
fn fitted(rates: &[Rate], runs: &[&Run]) -> Vec<f64> {
    const ROUNDED: f64 = 0.03;
    const PULL: f64 = 0.05;
    let mut values: Vec<f64> = rates.iter().map(|rate| rate.prior).collect();
    let loss = |i: usize, values: &[f64]| {
        let pull = PULL * (values[i] / rates[i].prior).ln().powi(2);
        let of_it = |r: &&&Run| rates[i].devices.contains(&r.job.device.name.as_str());
        let each =
            runs.iter().filter(of_it).map(|r| r.weight * r.off(rates, values).hypot(ROUNDED));
        pull + each.sum::<f64>()
    };
    for step in [0.12, 0.12, 0.06, 0.06, 0.03, 0.03, 0.015, 0.015, 0.008, 0.008] {
        for i in 0..rates.len() {
            let now = values[i];
            let tried = [now, now * (1.0 + step), now / (1.0 + step)].map(|x| x.clamp(0.1, 0.95));
            let scored = tried.map(|x| {
                let mut with = values.clone();
                with[i] = x;
                (loss(i, &with), x)
            });
            let best = scored.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
            values[i] = best.1;
        }
    }
    values
}

/// The quantile of errors, with equal weight for each source.
fn quantile(errors: &[(f64, f64)], q: f64) -> f64 {
    let mut errors = errors.to_vec();
    rising(&mut errors, |a| a.0);
    let all: f64 = errors.iter().map(|e| e.1).sum();
    let mut sum = 0.0;
    let found = errors.iter().find(|e| {
        sum += e.1;
        sum >= q * all - 1e-12
    });
    found.unwrap().0
}

/// `devices.toml` has what the fit to all sources gives.
#[test]
fn the_rates_in_use_are_those_of_the_fit() {
    let (rates, runs) = (rates(), runs());
    let all: Vec<&Run> = runs.iter().map(|(_, run)| run).collect();
    let values = fitted(&rates, &all);
    let mut wrong = Vec::new();
    for (i, (rate, value)) in rates.iter().zip(&values).enumerate() {
        for name in rate.devices {
            let device = super::super::Device::named(name).unwrap();
            let mut fitted = device.kernels;
            (rate.set)(&mut fitted, *value);
            // A ring's exchange takes its time from the rates in use.
            if !fitted.is_near(&device.kernels, 0.005) {
                wrong.push(format!("{name}, rate {i}: {value:.3}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn steps_of_a_source_that_no_rate_was_fitted_to_are_met() {
    let (rates, runs) = (rates(), runs());
    let mut sources: Vec<&str> = runs.iter().map(|(_, r)| r.source.as_str()).collect();
    sources.sort_unstable();
    sources.dedup();
    let (mut off, mut anchored) = (Vec::new(), Vec::new());
    let (mut far, mut more) = (Vec::new(), Vec::new());
    let (mut inside, mut all) = (0.0, 0.0);
    for source in &sources {
        let others: Vec<&Run> =
            runs.iter().map(|(_, run)| run).filter(|run| run.source != *source).collect();
        let values = fitted(&rates, &others);
        let own: Vec<_> = runs.iter().filter(|(_, run)| run.source == *source).collect();
        for (name, run) in &own {
            let error = run.off(&rates, &values).exp() - 1.0;
            off.push((error.abs(), run.weight));
            let held = run.off(&rates, &values).abs() <= half(&run.job, false);
            inside += if held { run.weight } else { 0.0 };
            all += run.weight;
            if error.abs() > 0.35 {
                far.push(name.as_str());
            }
            if error.abs() > 0.2 {
                more.push(name.as_str());
            }
            // Any other run of the source as anchor.
            for (_, anchor) in own.iter().filter(|(other, _)| other != name) {
                let slower = anchor.slower(&rates, &values);
                let error = run.said(&rates, &values, slower) / run.measured - 1.0;
                anchored.push((error.abs(), run.weight / (own.len() - 1) as f64));
            }
        }
    }
    let figures = |off: &[(f64, f64)]| [0.5, 0.8, 1.0].map(|q| quantile(off, q));
    let (plain, anchored) = (figures(&off), figures(&anchored));
    assert!(plain[0] <= 0.08 && plain[1] <= 0.16, "{plain:.3?}");
    // See `tests/engine/jobs.rs` for the reason.
    assert_eq!(far, ["bridge-moonlight-8", "tpu7x-oss-64", "tpu7x-oss-256"]);
    let page = include_str!("../../../docs/background/accuracy-of-plans.md");
    for name in more {
        assert!(page.contains(&format!("`{name}`")), "{name} is off by more than a fifth: why?");
    }
    assert!((0.75..=0.85).contains(&(inside / all)), "{:.2} inside the band", inside / all);
    assert!(anchored[0] <= 0.06, "{anchored:.3?}");
}

//! The search compared with loops over everything, and with tuned layouts.

use super::super::row::rows;
use super::super::time::held_out::published;
use super::super::{Draft, Job, Recompute, Stated, Wires, drafts, estimate, memory};
use super::*;
use crate::model::algorithm::Registry;
use crate::plan::table::{BuiltIn, Machines, OneText};

fn job(draft: &Draft) -> Job {
    draft.job(&Machines::new(&BuiltIn), false).unwrap_or_else(|e| panic!("{e}"))
}

/// Every whole number of every axis, with nothing left out but what does not divide.
fn everything(job: &Job, gpus: u32, domain: u32) -> Vec<Job> {
    let (layers, global) = (job.model.layers, job.global.unwrap());
    let mut found = Vec::new();
    let divides = |n: u32, by: u32| by > 0 && n.is_multiple_of(by);
    for tp in (1..=gpus).filter(|tp| *tp <= domain && divides(job.model.heads, *tp)) {
        for pp in (1..=gpus).filter(|pp| divides(layers, *pp) || divides(layers + 2, *pp)) {
            for cp in (1..=gpus).filter(|cp| *cp == 1 || job.sequence / cp >= 4096) {
                if !divides(gpus, tp * pp * cp) {
                    continue;
                }
                let dp = gpus / (tp * pp * cp);
                for micro in (1..=global).filter(|m| *m <= 16 && divides(global, m * dp)) {
                    for chunks in 1..=8 {
                        let mut one = job.clone();
                        let d = &mut one.degrees;
                        (d.tp, d.pp, d.cp, d.dp, d.chunks) = (tp, pp, cp, dp, chunks);
                        d.sequence = tp > 1;
                        one.micro = micro;
                        let times = global / (micro * dp);
                        let stage = one.deepest() as u32;
                        if chunks > 1 && !(pp > 1 && divides(stage, chunks) && divides(times, pp)) {
                            continue;
                        }
                        for recompute in [Recompute::Nothing, Recompute::Full] {
                            for (gathers, size) in
                                [(false, dp * cp), (true, dp * cp), (true, domain / tp)]
                            {
                                if gathers && (pp > 1 || !divides(dp * cp, size)) {
                                    continue;
                                }
                                let mut one = one.clone();
                                one.recompute = recompute;
                                one.sharding.gathers = gathers;
                                one.sharding.shard =
                                    if gathers { Shard::Parameters } else { Shard::Optimizer };
                                one.shard_size = size;
                                found.extend(experts(&one, tp));
                            }
                        }
                    }
                }
            }
        }
    }
    found
}

/// A layout with its experts on every number of ranks, whole or divided by TP.
fn experts(job: &Job, tp: u32) -> Vec<Job> {
    let Some(experts) = job.model.experts else { return vec![job.clone()] };
    let places = job.degrees.replicas() * tp;
    let mut found = Vec::new();
    for ep in (1..=experts.experts).filter(|ep| experts.experts.is_multiple_of(*ep)) {
        for etp in [1, tp] {
            if places.is_multiple_of(ep * etp) {
                let mut one = job.clone();
                (one.degrees.ep, one.degrees.etp) = (ep, etp);
                found.push(one);
            }
        }
    }
    found
}

#[test]
fn a_search_finds_the_best_of_loops_over_everything() {
    for (model, gpus, global) in [
        ("llama3-8b", 8, 24),
        ("llama3-8b", 16, 64),
        ("llama3-70b", 32, 64),
        ("mixtral-8x7b", 16, 16),
    ] {
        let text = format!(
            "model = \"{model}\"\nmachine = \"dgx-h100\"\ngpus = {gpus}\nsharding = \"zero1\"\n\
             batch = {{ global = {global}, micro = 1, sequence = 8192 }}\n"
        );
        let named = drafts(&OneText(text), &["job.toml".to_owned()]).unwrap();
        let job = job(&named[0].draft);
        let registry = Registry::builtin();
        let wires = Wires::new(&registry, &job.machine);
        for gigabytes in [40.0, 80.0] {
            let room = gigabytes * 1e9;
            let fits = |one: &Job| memory(one).stated(Stated::Reserved) <= room;
            let all = everything(&job, gpus, wires.domain());
            let steps = all.iter().filter(|one| fits(one));
            let least =
                steps.map(|one| estimate(one, &wires, None).unwrap().step).min_by(f64::total_cmp);
            let found = search(&job, &wires, (gpus, room), &Pins::default(), None).ok();
            let best = found.map(|f| f.pareto[0].priced.step);
            match (least, best) {
                // Times within half a percent are alike, and the one with less memory is taken.
                (Some(least), Some(best)) => {
                    assert!((0.9999..=ALIKE).contains(&(best / least)), "{model}: {best} {least}");
                }
                found => assert_eq!(found, (None, None), "{model} in {gigabytes} GB"),
            }
        }
    }
}

/// What is left out has a reason, and how many layouts it left out.
#[test]
fn layouts_that_are_left_out_are_counted_by_reason() {
    let text = "model = \"llama3-8b\"\nmachine = \"dgx-h100\"\ngpus = 12\nsharding = \"zero1\"\n\
                batch = { global = 12, micro = 1, sequence = 8192 }\n";
    let named = drafts(&OneText(text.to_owned()), &["job.toml".to_owned()]).unwrap();
    let job = job(&named[0].draft);
    let registry = Registry::builtin();
    let wires = Wires::new(&registry, &job.machine);
    let of = |pins| search(&job, &wires, (12, 80e9), &pins, None);
    let all = layouts(&job, 12, 8, &Pins::default());
    assert!(all.refused.is_empty() && !all.all.is_empty(), "{:?}", all.refused);
    // Three do not divide its 32 heads.
    let pins = Pins { tp: Some(3), ..Pins::default() };
    let left = layouts(&job, 12, 8, &pins);
    assert!(left.all.is_empty());
    let why = "tp 3 does not divide 32 heads";
    let counts: Vec<_> = left.refused.into_iter().collect();
    assert!(matches!(&counts[..], [(reason, count)] if reason == why && *count > 0), "{counts:?}");
    let error = of(pins).err().unwrap().to_string();
    assert!(
        error.contains(why) && error.contains(&format!("{0} of {0} layouts", counts[0].1)),
        "{error}"
    );
    // Sixteen parts of each of four stages are more than its layers.
    let found = of(Pins { chunks: Some(16), ..Pins::default() }).unwrap();
    let told = found.refused.keys().any(|why| why.contains("chunks for 32 layers"));
    assert!(told, "{:?}", found.refused);
}

/// No layout of a source that tunes them takes over a tenth longer than the best one that the search finds
/// for the same model, GPUs and batch, by the same model.
#[test]
fn layouts_that_were_tuned_are_near_the_best() {
    let all = rows(&published(), "published_steps.toml").unwrap();
    let registry = Registry::builtin();
    let tuned = ["bridge-70b", "bridge-405b", "bridge-8b", "nemo-", "llama3-405b"];
    let mut misses = Vec::new();
    for row in all.iter().filter(|row| tuned.iter().any(|t| row.draft.name.starts_with(t))) {
        let own = job(&row.draft);
        let wires = Wires::new(&registry, &own.machine);
        let said = estimate(&own, &wires, None).unwrap().step;
        let mut draft = row.draft.clone().without_layout();
        draft.put("gpus", own.degrees.gpus().to_string()).unwrap();
        draft.put("micro_batch", "1").unwrap();
        let pins = Pins {
            recompute: (own.recompute != Recompute::Unstated).then_some(own.recompute),
            ..Pins::default()
        };
        let room = own.device.capacity();
        let gpus = own.degrees.gpus() as u32;
        let found = search(&job(&draft), &wires, (gpus, room), &pins, None).unwrap();
        let best = &found.pareto[0];
        if said > 1.1 * best.priced.step {
            misses.push(own.name.clone());
        }
    }
    assert!(misses.is_empty(), "{misses:?}");
}

//! The best layout of a job on some GPUs, by trying all common ones.
//!
//! Least time among the layouts that fit, then least memory; layouts that no other beats in both
//! are kept. It tries TP inside a node's domain, pipelines whose stages are even (with embedding
//! and head counted as layers or not), context parallelism down to 4,096 tokens per rank, experts
//! over a power of two, micro-batches up to 16 sequences, interleaving up to 8 chunks,
//! recomputation of nothing or all, ZeRO-1, and FSDP without pipeline over all replicas or a
//! node's. Experts are whole, or divided as the rest is by TP.

use std::collections::BTreeMap;

use super::draft::check;
use super::{
    Draft, Estimate, Framework, Job, Memory, Recompute, Sharding, Stated, Wires, estimate, memory,
};
use crate::base::error::{Error, Result};
use crate::base::order::rising;
use crate::plan::Shard;

/// A layout with its price.
pub(crate) struct Found {
    pub job: Job,
    pub priced: Estimate,
    pub memory: Memory,
}

/// The fixed keys of a job.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pins {
    pub tp: Option<u32>,
    pub pp: Option<u32>,
    pub cp: Option<u32>,
    pub ep: Option<u32>,
    pub etp: Option<u32>,
    pub chunks: Option<u32>,
    pub micro: Option<u32>,
    pub recompute: Option<Recompute>,
    pub sequence: Option<bool>,
    pub sharding: bool,
    pub shard_size: Option<u32>,
}

impl Job {
    /// The keys of its layout that are not what a job has without them, or that `said` gives other values: with
    /// them `said` has this layout.
    pub fn words(&self, said: &Draft) -> Vec<(&'static str, String)> {
        let d = self.degrees;
        let degrees = [("tp", d.tp), ("pp", d.pp), ("cp", d.cp), ("dp", d.dp), ("ep", d.ep)];
        let mut words: Vec<_> =
            degrees.map(|(key, degree)| (key, degree.to_string(), degree > 1)).into();
        // The next two follow from the others where nothing says them.
        words.push(("etp", d.etp.to_string(), d.tp > 1 && self.model.experts.is_some()));
        if d.pp > 1 {
            words.push(("chunks", d.chunks.to_string(), true));
        }
        if d.tp > 1 {
            let unsaid = said.get("sequence_parallel").is_none();
            words.push(("sequence_parallel", d.sequence.to_string(), d.sequence && unsaid));
        }
        let differs = |key: &str, value: &str| said.get(key).is_some_and(|other| other != value);
        words.retain(|(key, value, needed)| *needed || differs(key, value));
        words.into_iter().map(|(key, value, _)| (key, value)).collect()
    }

    /// The same for what replicas share.
    pub fn sharding_words(&self, said: &Draft) -> String {
        let stated = said.get("shard_size").or(said.get("replicate")).is_some();
        let all = if stated { u32::MAX } else { self.degrees.replicas() };
        self.sharding.words(self.shard_size, all)
    }
}

/// The result of a search.
pub(crate) struct Searched {
    /// Layouts tried.
    pub tried: usize,
    /// Those that fit into memory.
    pub fitting: usize,
    /// Why others were not tried, with how many layouts each reason left out.
    pub refused: BTreeMap<String, usize>,
    /// The fastest, then slower ones that need less memory.
    pub pareto: Vec<Found>,
}

/// Tokens per rank below which a sequence is not divided.
const SHORTEST: u32 = 4096;
const MOST_MICRO: u32 = 16;
const MOST_CHUNKS: u32 = 8;
const MOST_CP: u32 = 16;
/// The ratio of times that count as equal: the smaller memory wins.
const ALIKE: f64 = 1.005;

fn powers(most: u32) -> impl Iterator<Item = u32> {
    (0..=most.max(1).ilog2()).map(|i| 1 << i)
}

fn list(pin: Option<u32>, free: impl Iterator<Item = u32>) -> Vec<u32> {
    pin.map_or_else(|| free.collect(), |one| vec![one])
}

/// Layouts that a job may have, and why others may not be.
#[derive(Default)]
pub(crate) struct Layouts {
    pub all: Vec<Job>,
    pub refused: BTreeMap<String, usize>,
}

/// Every possible layout of `job` on `gpus` GPUs, before the memory check.
pub(crate) fn layouts(job: &Job, gpus: u32, domain: u32, pins: &Pins) -> Layouts {
    let mut found = Layouts::default();
    let model = &job.model;
    let even = |pp: u32| {
        pp == 1 || model.layers.is_multiple_of(pp) || (model.layers + 2).is_multiple_of(pp)
    };
    for tp in
        list(pins.tp, powers(domain.min(model.heads)).filter(|tp| model.heads.is_multiple_of(*tp)))
    {
        for pp in list(pins.pp, (1..=model.layers.min(gpus)).filter(|pp| even(*pp))) {
            for cp in list(pins.cp, powers(MOST_CP.min(job.sequence / SHORTEST))) {
                let inner = u64::from(tp) * u64::from(pp) * u64::from(cp);
                if !u64::from(gpus).is_multiple_of(inner) {
                    continue;
                }
                let dp = gpus / inner as u32;
                let mut one = job.clone();
                (one.degrees.tp, one.degrees.pp, one.degrees.cp) = (tp, pp, cp);
                one.degrees.dp = dp;
                one.degrees.sequence = tp > 1 && pins.sequence.unwrap_or(true);
                batches(&one, domain, pins, &mut found);
            }
        }
    }
    found
}

/// Micro-batches, experts, chunks, recomputation and sharding for given degrees.
fn batches(job: &Job, domain: u32, pins: &Pins, found: &mut Layouts) {
    let (global, d) = (job.global.unwrap_or(1), job.degrees);
    if !global.is_multiple_of(d.dp) {
        return;
    }
    let each = global / d.dp;
    let experts = job.model.experts.map_or(1, |e| e.experts);
    let places = d.dp * d.cp * d.tp;
    let mut etps = vec![1, if job.model.experts.is_some() { d.tp } else { 1 }];
    etps.dedup();
    let etps = list(pins.etp, etps.into_iter());
    let ranks =
        |(ep, etp): &(u32, u32)| experts.is_multiple_of(*ep) && places.is_multiple_of(ep * etp);
    let per_stage = (job.deepest() as u32).max(1);
    let eps = list(pins.ep, powers(experts.min(places)));
    let both = eps.iter().flat_map(|ep| etps.iter().map(|etp| (*ep, *etp)));
    for (ep, etp) in both.filter(ranks) {
        for micro in list(pins.micro, powers(MOST_MICRO.min(each))) {
            if !each.is_multiple_of(micro) {
                continue;
            }
            let times = each / micro;
            let divides = |v: &u32| {
                *v == 1 || (d.pp > 1 && per_stage.is_multiple_of(*v) && times.is_multiple_of(d.pp))
            };
            for chunks in list(pins.chunks, (1..=MOST_CHUNKS).filter(divides)) {
                let free = [Recompute::Nothing, Recompute::Full];
                for recompute in pins.recompute.map_or(free.to_vec(), |one| vec![one]) {
                    for (sharding, shard_size) in shardings(job, domain, pins) {
                        let mut one = job.clone();
                        (one.degrees.ep, one.degrees.etp, one.degrees.chunks) = (ep, etp, chunks);
                        (one.micro, one.recompute, one.least) = (micro, recompute, false);
                        (one.sharding, one.shard_size) = (sharding, shard_size);
                        match check(&one) {
                            Ok(()) => found.all.push(one),
                            Err(why) => {
                                *found.refused.entry(why.what().to_owned()).or_default() += 1;
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The kinds of sharding that the job's framework supports.
fn shardings(job: &Job, domain: u32, pins: &Pins) -> Vec<(Sharding, u32)> {
    let (d, own) = (job.degrees, job.sharding);
    let all = d.replicas();
    let node = (domain / d.tp).max(1);
    if pins.sharding {
        return vec![(own, pins.shard_size.unwrap_or(job.shard_size).min(all))];
    }
    let whole = Sharding { shard: Shard::Parameters, gathers: true, scatters: false, ..own };
    let states = Sharding { shard: Shard::Optimizer, gathers: false, scatters: false, ..own };
    let fsdp = [(whole, all), (whole, node)].into_iter().filter(|(_, n)| all.is_multiple_of(*n));
    match own.framework {
        Framework::Fsdp | Framework::Fsdp2 => fsdp.collect(),
        _ if d.pp == 1 => std::iter::once((states, all)).chain(fsdp).collect(),
        _ => vec![(states, all)],
    }
}

/// Tries every layout of `job` on `gpus` GPUs of `capacity` bytes.
///
/// # Errors
/// No layout fits, or there is no possible one.
pub(crate) fn search(
    job: &Job,
    wires: &Wires<'_>,
    (gpus, capacity): (u32, f64),
    pins: &Pins,
    slower: Option<f64>,
) -> Result<Searched> {
    let Layouts { all, refused } = layouts(job, gpus, wires.domain(), pins);
    let tried = all.len();
    let mut found: Vec<Found> = Vec::new();
    let mut least = f64::INFINITY;
    for job in all {
        let memory = memory(&job);
        let needed = memory.stated(match job.stated {
            Stated::Driver => Stated::Driver,
            Stated::Allocated | Stated::Reserved => Stated::Reserved,
        });
        least = least.min(needed);
        if needed > capacity {
            continue;
        }
        let priced = estimate(&job, wires, slower)?;
        found.push(Found { job, priced, memory });
    }
    if found.is_empty() {
        let most = refused.iter().max_by_key(|(_, count)| **count);
        return Err(match (tried, most) {
            (0, Some((why, count))) => {
                let all: usize = refused.values().sum();
                Error::unsupported(format!(
                    "no layout is possible over {gpus} GPUs: {why} ({count} of {all} layouts)"
                ))
                .help("change the job, or what --set fixes")
            }
            (0, None) => Error::unsupported(format!("no layout of the batch divides over {gpus} GPUs"))
                .help(
                    "use a number of GPUs whose replicas divide the batch, a larger batch, or leave out what --set fixes",
                ),
            _ => Error::unsupported(format!(
                "none of {tried} layouts fits: the least needs {:.1} GB",
                least / 1e9
            ))
            .help("use more GPUs, more memory, or another batch"),
        });
    }
    let fitting = found.len();
    rising(&mut found, |f| f.memory.allocated());
    rising(&mut found, |f| f.priced.step);
    let mut pareto: Vec<Found> = Vec::new();
    for one in found {
        match pareto.last() {
            Some(last) if one.memory.allocated() >= last.memory.allocated() => {}
            // Equally fast with less memory is better.
            Some(last) if one.priced.step <= ALIKE * last.priced.step => {
                pareto.pop();
                pareto.push(one);
            }
            _ => pareto.push(one),
        }
    }
    Ok(Searched { tried, fitting, refused, pareto })
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;

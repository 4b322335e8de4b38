//! Prices on built-in machines as numbers, from which every size follows, and NCCL's choices there.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use serde::Serialize;

use super::AlgorithmView;
use crate::answer::six;
use crate::base::collective::Collective;
use crate::base::error::Result;
use crate::base::quantity::{Bytes, Seconds, Volume};
use crate::cost::crossover::envelope;
use crate::cost::rank::{Candidate, candidates};
use crate::library::{Call, intervals, policy};
use crate::machine::profile::Profile;
use crate::machine::query::{Given, Layout, Machine as Asked, Query};
use crate::measure::expect::{Clusters, Expecting, site};
use crate::model::algorithm::{Library, Registry};
use crate::model::formula::Params;

/// The machines that the page has: one or two of each generation and cloud.
const NAMES: &[&str] =
    &["dgx-h100", "dgx-a100", "dgx-b200", "gb200-nvl72", "p5.48xlarge", "nd-h100-v5", "mi300x"];

/// The collectives that it prices there.
const COLLECTIVES: &[Collective] = &[
    Collective::AllReduce,
    Collective::AllGather,
    Collective::ReduceScatter,
    Collective::AllToAll,
    Collective::Broadcast,
    Collective::Reduce,
];

/// The node counts available on the page.
const NODES: &[u32] = &[1, 2, 4, 8, 16, 64];

/// A built-in machine.
#[derive(Debug, Serialize)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// Its display name.
    pub title: String,
    /// Its links.
    pub tiers: Vec<TierView>,
    /// Its prices, by collective and ranks.
    pub prices: BTreeMap<&'static str, BTreeMap<u32, Vec<Price>>>,
    /// The expected time, by collective and ranks: at 2^4, 2^6, … 2^36 bytes, with the ends of its
    /// band relative to it, to four digits.
    pub expected: BTreeMap<&'static str, BTreeMap<u32, Vec<[f64; 3]>>>,
    /// NCCL's choices, by collective and ranks: the size from which on, and the name.
    pub nccl: BTreeMap<&'static str, BTreeMap<u32, Choices>>,
    /// Published measurements on its hardware.
    pub measured: Vec<MeasuredView>,
}

/// One measured collective on a number of ranks.
#[derive(Debug, Serialize)]
pub struct MeasuredView {
    /// The collective's id.
    pub collective: &'static str,
    /// N.
    pub ranks: u32,
    /// The library that ran.
    pub library: String,
    /// The source of the measurements.
    pub source: String,
    /// When they were published.
    pub published: Option<String>,
    /// Bytes and seconds, smoothed.
    pub points: Vec<(f64, f64)>,
}

/// NCCL's choice: the size from which on, and the name.
pub type Choices = Vec<(u64, String)>;

/// The links of one tier.
#[derive(Debug, Serialize)]
pub struct TierView {
    /// Its name.
    pub name: String,
    /// α.
    pub alpha_s: Option<f64>,
    /// The rate of a port.
    #[serde(rename = "bandwidth_Bps")]
    pub bandwidth: Option<f64>,
}

/// An algorithm's price: its index, whether the machine's library ships it, the launch, P or 0 if
/// it is free, and latency, transfer and compute per byte: of that P, or of P = 1, of the part that
/// every P has, and of the part that grows or shrinks with it; if stages overlap, of P = 1, of the
/// first segment, and of the three that a segment may wait for.
#[derive(Debug, Serialize)]
pub struct Price(usize, u8, f64, u32, Vec<f64>);

pub(super) fn machines(registry: &Registry, known: &[AlgorithmView]) -> Result<Vec<Machine>> {
    let clusters = Clusters::built_in()?;
    let one = |name: &&str| {
        let mut machine = machine(registry, known, name)?;
        machine.measured = measured(&clusters, &machine);
        Ok(machine)
    };
    NAMES.iter().map(one).collect()
}

/// Measured times for the ranks that the page offers, on as many nodes.
fn measured(clusters: &Clusters, machine: &Machine) -> Vec<MeasuredView> {
    let mut found = Vec::new();
    for &collective in COLLECTIVES {
        let Some(asked) = machine.expected.get(collective.id()) else { continue };
        let most = asked.keys().next().copied().unwrap_or(1);
        for one in clusters.measured(&machine.name, collective) {
            if !asked.contains_key(&one.ranks) || one.ranks.div_ceil(most) != one.nodes {
                continue;
            }
            found.push(MeasuredView {
                collective: collective.id(),
                ranks: one.ranks,
                library: one.library.to_owned(),
                source: one.source.to_owned(),
                published: one.published.map(str::to_owned),
                points: one.points.iter().map(|(size, time)| (size.0, six(time.0))).collect(),
            });
        }
    }
    found
}

fn machine(registry: &Registry, known: &[AlgorithmView], name: &str) -> Result<Machine> {
    let profile = Profile::builtin(name)?;
    let mut found = Machine {
        name: profile.name.clone(),
        title: profile.title.clone(),
        tiers: Vec::new(),
        prices: BTreeMap::new(),
        expected: BTreeMap::new(),
        nccl: BTreeMap::new(),
        measured: Vec::new(),
    };
    for &collective in COLLECTIVES {
        for &nodes in NODES {
            let machine =
                Asked::new(Some((profile.clone(), "--on")), &Given::default(), collective)?;
            let layout = Layout { nodes: NonZeroU32::new(nodes), ..Layout::default() };
            // A machine may connect no more nodes.
            let Ok(query) = Query::new(machine, collective, Bytes(0), layout, Params::default())
            else {
                continue;
            };
            let Ok((ready, _)) = candidates(registry, &query.shape, &query.machine.fabric) else {
                continue;
            };
            if found.tiers.is_empty() {
                found.tiers = tiers(&query);
            }
            let n = query.shape.ranks;
            let prices = prices(known, &query, &ready);
            found.prices.entry(collective.id()).or_default().insert(n, prices);
            let expected = expected(registry, &query)?;
            found.expected.entry(collective.id()).or_default().insert(n, expected);
            if let Some(choices) = nccl(&query) {
                found.nccl.entry(collective.id()).or_default().insert(n, choices);
            }
        }
    }
    Ok(found)
}

/// The powers of two at which the page has expected times, every second one.
const POWERS: std::ops::RangeInclusive<u32> = 4..=36;

fn expected(registry: &Registry, query: &Query) -> Result<Vec<[f64; 3]>> {
    let expecting = Expecting::new(registry, query)?;
    let at = |power| {
        let expected = expecting.at(Bytes(1_u64 << power));
        let over = |end: Seconds| (end.0 / expected.time.0 * 1e4).round() / 1e4;
        [expected.time.0, over(expected.low), over(expected.high)]
    };
    Ok(POWERS.step_by(2).map(at).collect())
}

fn tiers(query: &Query) -> Vec<TierView> {
    let view = |tier: &crate::machine::fabric::Tier| TierView {
        name: tier.name.clone(),
        alpha_s: tier.link.alpha.map(|a| a.0),
        bandwidth: tier.link.bandwidth.map(|b| b.0),
    };
    query.machine.fabric.tiers.iter().map(view).collect()
}

/// Those that win at some size or that the machine's library ships, plus ring and tree.
fn prices(known: &[AlgorithmView], query: &Query, ready: &[Candidate]) -> Vec<Price> {
    let id = |c: &Candidate| c.algorithm.meta().id;
    let winners = envelope(ready, Volume(1.0), Volume(1_099_511_627_776.0));
    let ships = |c: &Candidate| c.algorithm.is_shipped(query.library(), &query.shape);
    let shown = |c: &&Candidate| {
        winners.iter().any(|(_, w)| id(w) == id(c)) || ships(c) || matches!(id(c), "ring" | "tree")
    };
    let price = |c: &Candidate| {
        let (launch, segments, loads) = c.prepared.loads()?;
        let numbers = loads.iter().flat_map(|l| [l.latency, l.transfer, l.compute]).collect();
        let place = known.iter().position(|a| a.id == id(c)).unwrap_or_default();
        Some(Price(place, ships(c).into(), launch.0, segments.unwrap_or(0), numbers))
    };
    ready.iter().filter(shown).filter_map(price).collect()
}

/// The newest NCCL's choice by size; empty if it does not run there or its graphs are unknown.
fn nccl(query: &Query) -> Option<Vec<(u64, String)>> {
    if query.library() != Some(Library::Nccl) {
        return None;
    }
    let call = Call::of(query).with_size(Bytes(4));
    let policy = policy("nccl", &site(query)).ok()?;
    let found = intervals(&*policy, &call, Bytes(4), Bytes(1 << 40)).ok()?;
    let mut choices: Vec<(u64, String)> = Vec::new();
    for one in found {
        let name = one.choice.name.to_string();
        if choices.last().is_none_or(|(_, last)| *last != name) {
            choices.push((one.from.0, name));
        }
    }
    Some(choices)
}

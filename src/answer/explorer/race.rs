//! Ring, tree and hierarchy with one payload: messages that have come, over time, as simulated.

use serde::Serialize;

use crate::base::collective::Collective;
use crate::base::error::Result;
use crate::base::quantity::{Bandwidth, Bytes, Seconds, Volume};
use crate::cost::simulate::listen::Trace;
use crate::cost::simulate::{Setup, simulate_with};
use crate::machine::fabric::{Fabric, Tier};
use crate::model::algorithm::Registry;
use crate::model::formula::Shape;

/// Ranks that race.
const RANKS: [u32; 3] = [8, 16, 32];

/// Payloads: latency, both, bandwidth decide.
const SIZES: [u64; 4] = [1 << 10, 1 << 16, 1 << 20, 1 << 26];

/// Who races: the algorithm, and how the page calls it.
const RUNNERS: [(&str, &str); 3] = [("ring", "ring"), ("tree", "tree"), ("leader", "hierarchy")];

/// α and the rate inside a node and between nodes: 18 times apart, as 900 GB/s and 400 Gb/s are quoted; all alike.
const LINKS: [([f64; 2], [f64; 2]); 2] = [([1e-6, 5e-6], [900e9, 50e9]), ([5e-6; 2], [50e9; 2])];

/// One race.
#[derive(Debug, Serialize)]
pub struct Race {
    /// N.
    pub ranks: u32,
    /// Ranks of a node.
    pub group: u32,
    /// M.
    pub size_bytes: u64,
    /// α inside a node and between nodes.
    pub alpha_s: [f64; 2],
    /// The same rates.
    #[serde(rename = "bandwidth_Bps")]
    pub bandwidth: [f64; 2],
    /// Those that race.
    pub runners: Vec<Runner>,
}

/// One of them.
#[derive(Debug, Serialize)]
pub struct Runner {
    /// The algorithm's id.
    pub id: &'static str,
    /// What it is called here.
    pub name: &'static str,
    /// When the last message ends.
    pub makespan_s: f64,
    /// Messages in all.
    pub messages: usize,
    /// When messages ended, and how many had by then.
    pub done: Vec<(f64, usize)>,
}

pub(super) fn races(registry: &Registry) -> Result<Vec<Race>> {
    let mut found = Vec::new();
    for links in LINKS {
        for ranks in RANKS {
            for size in SIZES {
                found.push(race(registry, links, ranks, Bytes(size))?);
            }
        }
    }
    Ok(found)
}

fn race(
    registry: &Registry,
    (alpha, rate): ([f64; 2], [f64; 2]),
    ranks: u32,
    size: Bytes,
) -> Result<Race> {
    let group = if ranks > 8 { 8 } else { 4 };
    let tier = |name, i: usize| Tier::new(name, Seconds(alpha[i]), Bandwidth(rate[i]));
    let inner = Tier { span: group.try_into().ok(), ..tier("inside", 0) };
    let outer = Tier { nics: group.try_into().ok(), ..tier("between", 1) };
    let fabric = Fabric::new(vec![inner, outer]);
    let shape = fabric.fill(&Shape::new(Collective::AllReduce, ranks));
    let mut runners = Vec::new();
    for (id, name) in RUNNERS {
        let algorithm = registry.find(Collective::AllReduce, id)?.algorithm;
        let Some(schedule) = algorithm.schedule(&shape) else { continue };
        let mut trace = Trace::default();
        let setup = Setup::new(Volume::from(size));
        let makespan = simulate_with(&*schedule, &fabric, &setup, &mut trace)?.makespan;
        let mut ends: Vec<f64> = trace.iter().map(|m| m.end.0).collect();
        ends.sort_by(f64::total_cmp);
        let mut done: Vec<(f64, usize)> = Vec::new();
        for (i, &end) in ends.iter().enumerate() {
            match done.last_mut() {
                Some(last) if end - last.0 <= 1e-9 * end => last.1 = i + 1,
                _ => done.push((end, i + 1)),
            }
        }
        runners.push(Runner { id, name, makespan_s: makespan.0, messages: ends.len(), done });
    }
    Ok(Race { ranks, group, size_bytes: size.0, alpha_s: alpha, bandwidth: rate, runners })
}

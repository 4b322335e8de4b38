//! Ring, tree and hierarchy with one payload: messages that have come, over time, as simulated.

use serde::Serialize;

use crate::algorithm::Registry;
use crate::collective::Collective;
use crate::error::Result;
use crate::fabric::{Fabric, Tier};
use crate::formula::Shape;
use crate::price::on;
use crate::quantity::{Bandwidth, Bytes, Seconds, Volume};
use crate::simulate::listen::Trace;
use crate::simulate::{Setup, simulate_with};

/// Ranks that race.
const RANKS: [u32; 3] = [8, 16, 32];

/// Payloads: latency, both, bandwidth decide.
const SIZES: [u64; 4] = [1 << 10, 1 << 16, 1 << 20, 1 << 26];

/// Who races: the algorithm, and how the page calls it.
const RUNNERS: [(&str, &str); 3] = [("ring", "ring"), ("tree", "tree"), ("leader", "hierarchy")];

/// Links inside a node and between nodes, as the lesson has them: 18 times apart.
pub(super) const ALPHA: [Seconds; 2] = [Seconds(1e-6), Seconds(5e-6)];
pub(super) const RATE: [Bandwidth; 2] = [Bandwidth(900e9), Bandwidth(50e9)];

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
    for ranks in RANKS {
        for size in SIZES {
            found.push(race(registry, ranks, Bytes(size))?);
        }
    }
    Ok(found)
}

fn race(registry: &Registry, ranks: u32, size: Bytes) -> Result<Race> {
    let group = if ranks > 8 { 8 } else { 4 };
    let mut inner = Tier::new("inside", ALPHA[0], RATE[0]);
    inner.span = group.try_into().ok();
    let mut outer = Tier::new("between", ALPHA[1], RATE[1]);
    outer.nics = group.try_into().ok();
    let fabric = Fabric::new(vec![inner, outer]);
    let shape = on(&Shape::new(Collective::AllReduce, ranks), &fabric);
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
    Ok(Race {
        ranks,
        group,
        size_bytes: size.0,
        alpha_s: ALPHA.map(|a| a.0),
        bandwidth: RATE.map(|b| b.0),
        runners,
    })
}

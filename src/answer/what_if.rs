//! A fabric as built next to the same one with faults or additions: the best time of a collective,
//! and its time as libraries run it.

use serde::Serialize;

use crate::base::collective::Collective;
use crate::base::error::Result;
use crate::base::order::rising;
use crate::base::quantity::{Bytes, Rate, nearest};
use crate::cost::optimum::optimum;
use crate::cost::traffic::{Times, simulate_one};
use crate::machine::graph::{Fault, Graph, Node};
use crate::model::algorithm::{Library, Registry};
use crate::model::formula::Shape;
use crate::model::schedule::sends_more_than;

/// The maximum number of messages for which an algorithm is simulated.
const MESSAGES: u64 = 1 << 17;
/// The segment counts that are tried for a pipelined algorithm; the best one is used.
const SEGMENTS: [u32; 3] = [1, 8, 64];

/// A collective of one size on a fabric and on the same with faults.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WhatIf {
    /// The modifications, as typed.
    pub faults: Vec<String>,
    /// M.
    pub size_bytes: u64,
    /// The best rate of the fabric as built, as an exact fraction of bytes per second.
    pub built_rate: String,
    /// The size divided by that rate: the lower bound for any schedule.
    pub built_least_s: f64,
    /// The same with the faults.
    pub least_s: f64,
    /// What libraries run, simulated.
    pub runs: Vec<RunView>,
}

/// An algorithm that a library runs.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunView {
    /// The algorithm's id.
    pub algorithm: &'static str,
    /// The id of the library that runs it.
    pub library: &'static str,
    /// Its name there.
    pub name: &'static str,
    /// P, the best of 1, 8 and 64, if it is pipelined.
    pub segments: Option<u32>,
    /// Its time on the fabric as built, over all its ranks in their order; absent if that takes too
    /// many messages, or a message has no way by the fabric's routing.
    pub built_s: Option<f64>,
    /// The same with the faults.
    pub time_s: Option<f64>,
    /// The link that then delays most of its messages.
    pub bound_by: Option<String>,
}

/// The times of `collective` on `graph` and with `faults`, each as typed and as parsed; `found` is the best rate
/// with them, if it is known already.
///
/// # Errors
/// The errors of [`optimum`] and of faults.
pub fn what_if(
    graph: &Graph,
    faults: &[(String, Fault)],
    (collective, root): (Collective, Node),
    size: Bytes,
    found: Option<Rate>,
) -> Result<WhatIf> {
    let only: Vec<Fault> = faults.iter().map(|(_, fault)| fault.clone()).collect();
    let faulty = graph.with_faults(&only)?;
    let best = |graph: &Graph| Ok(optimum(graph, collective, root, false)?.rate);
    let found = found.map_or_else(|| best(&faulty), Ok)?;
    let built = if faults.is_empty() { found } else { best(graph)? };
    let least = |rate| size.0 as f64 / nearest(rate);
    let shape = Shape::new(collective, graph.ranks);
    let registry = Registry::builtin();
    let mut runs: Vec<RunView> = Vec::new();
    for algorithm in registry.of(collective).filter(|one| one.applies(&shape).is_ok()) {
        let shipped = algorithm.shipped(&shape);
        let Some(&(library, name)) = shipped.iter().find(|(library, _)| *library == Library::Nccl)
        else {
            continue;
        };
        let tried = if algorithm.is_pipelined() { &SEGMENTS[..] } else { &SEGMENTS[..1] };
        let mut best: Option<RunView> = None;
        for &segments in tried {
            let shape = shape.with_segments(segments);
            let Some(schedule) = algorithm.schedule(&shape) else { continue };
            let mut view = RunView {
                algorithm: algorithm.meta().id,
                library: library.id(),
                name,
                segments: algorithm.is_pipelined().then_some(segments),
                built_s: None,
                time_s: None,
                bound_by: None,
            };
            // This fabric has no switches that add.
            if schedule.switches() > 0 {
                continue;
            }
            if !sends_more_than(&*schedule, MESSAGES) {
                // Ways that a router does not choose by what is there may go over a dead link.
                let times = simulate_one(&faulty, &*schedule, size).ok();
                let time = |times: &Times| times.makespan.0;
                view.time_s = times.as_ref().map(time);
                view.built_s = match faults {
                    [] => view.time_s,
                    _ => simulate_one(graph, &*schedule, size).ok().as_ref().map(time),
                };
                view.bound_by = times.and_then(|times| times.jobs[0].bound_by).map(|(link, _)| {
                    let link = faulty.links[link as usize];
                    format!("{}>{}", faulty.name_of(link.from), faulty.name_of(link.to))
                });
            }
            let is_better =
                |other: &RunView| other.built_s.is_none() || view.built_s < other.built_s;
            if best.as_ref().is_none_or(is_better) {
                best = Some(view);
            }
        }
        runs.extend(best);
    }
    rising(&mut runs, |run| run.built_s.unwrap_or(f64::INFINITY));
    Ok(WhatIf {
        faults: faults.iter().map(|(typed, _)| typed.clone()).collect(),
        size_bytes: size.0,
        built_rate: built.0.to_string(),
        built_least_s: least(built.0),
        least_s: least(found.0),
        runs,
    })
}

//! Ring, tree, double tree, the switch and a hierarchy with one payload: every message and its
//! times.
//!
//! ```text
//!   links alike    t = a·α + b·M/BW      two numbers a message, exact for every α, BW and M
//!   nodes          t                     as simulated, for a few sizes
//! ```
//!
//! Where all links are alike and all messages of a schedule equally long, every time of its
//! simulation is such a sum; the test compares it with further simulations.

use serde::Serialize;

use super::schedules::numbers;
use crate::answer::six;
use crate::base::collective::Collective;
use crate::base::error::Result;
use crate::base::quantity::{Bandwidth, Bytes, Seconds, Volume};
use crate::cost::simulate::listen::Trace;
use crate::cost::simulate::{Setup, Timed, simulate_with};
use crate::machine::fabric::{Fabric, Switch, Tier};
use crate::model::algorithm::{Algorithm, Registry};
use crate::model::formula::Shape;
use crate::model::schedule::{Layout, Schedule, holds};

/// The racers on links that are all alike: the algorithm, its name on the page, and its number of
/// segments.
const ALIKE: [(&str, &str, &[u32]); 4] = [
    ("ring", "Ring", &[1]),
    ("tree", "Tree", &[1]),
    ("double-binary-tree", "Double tree", &[1, 4, 16]),
    ("inc", "In-network", &[1]),
];

/// The same on nodes.
const NODES: [(&str, &str, &[u32]); 4] =
    [ALIKE[0], ALIKE[1], ALIKE[2], ("leader", "Hierarchy", &[1])];

/// Ranks of a race on links that are all alike.
const RANKS: [u32; 3] = [8, 16, 32];

/// Ranks of a race on nodes, and ranks per node.
const ON_NODES: [(u32, u32); 2] = [(8, 4), (16, 8)];

/// Payloads there: dominated by latency, by both, and by bandwidth.
const SIZES: [u64; 3] = [1 << 10, 1 << 20, 1 << 26];

/// α and the rate inside a node and between nodes: 18 times apart, as 900 GB/s and 400 Gb/s are quoted.
const LINKS: [(f64, f64); 2] = [(1e-6, 900e9), (5e-6, 50e9)];

/// One race.
#[derive(Debug, Serialize)]
pub struct Race {
    /// N.
    pub ranks: u32,
    /// Ranks per node; absent: all links are alike.
    pub group: Option<u32>,
    /// α inside a node and between nodes; empty where links are alike.
    pub alpha_s: Vec<f64>,
    /// The same rates.
    #[serde(rename = "bandwidth_Bps")]
    pub bandwidth: Vec<f64>,
    /// The racers, each with all its segments and, on nodes, payloads.
    pub runners: Vec<Runner>,
}

/// One racer.
#[derive(Debug, Serialize)]
pub struct Runner {
    /// The algorithm's id.
    pub id: &'static str,
    /// Its name here.
    pub name: &'static str,
    /// P, if it is pipelined.
    pub segments: Option<u32>,
    /// M, if the times are for one size.
    pub size_bytes: Option<u64>,
    /// The number of switches, which are numbered after the ranks.
    pub switches: u32,
    /// The number of parts that M is cut into.
    pub parts: u32,
    /// Whether every rank has its own parts.
    pub own: bool,
    /// The chunks that each rank holds at the start.
    pub holds: Vec<Vec<u32>>,
    /// The messages of each round that has any.
    pub rounds: Vec<Vec<Flight>>,
    /// Start and end of messages, each as multiples of α and of M/BW; for one M, as seconds and 0.
    pub times: Vec<[f64; 4]>,
    /// The arrival of the last message, in the same form.
    pub makespan: [f64; 2],
}

/// A message: sender, receiver, what the receiver does (0 store, 1 add, 2 join), first chunks and
/// lengths of its runs in turn, and the index of its times.
#[derive(Debug, Serialize)]
pub struct Flight(u32, u32, u8, Vec<u32>, usize);

pub(super) fn races(registry: &Registry) -> Result<Vec<Race>> {
    let mut found = Vec::new();
    for ranks in RANKS {
        let mut runners = Vec::new();
        for (id, name, segments) in ALIKE {
            let algorithm = registry.find(Collective::AllReduce, id)?.algorithm;
            for segments in finest(segments, ranks) {
                let course = Course::new(algorithm, &alike(1.0), ranks, segments);
                runners.extend(course.map(|c| c.exact(id, name)).transpose()?);
            }
        }
        let (alpha_s, bandwidth) = (Vec::new(), Vec::new());
        found.push(Race { ranks, group: None, alpha_s, bandwidth, runners });
    }
    for (ranks, group) in ON_NODES {
        let fabric = nodes(group);
        let mut runners = Vec::new();
        for (id, name, segments) in NODES {
            let algorithm = registry.find(Collective::AllReduce, id)?.algorithm;
            for size in SIZES {
                let mut fastest: Option<Runner> = None;
                for segments in finest(segments, ranks) {
                    let Some(course) = Course::new(algorithm, &fabric, ranks, segments) else {
                        continue;
                    };
                    let one = course.at(id, name, &fabric, Bytes(size))?;
                    if fastest.as_ref().is_none_or(|f| one.makespan[0] < f.makespan[0]) {
                        fastest = Some(one);
                    }
                }
                runners.extend(fastest);
            }
        }
        let alpha_s = LINKS.iter().map(|l| l.0).collect();
        let bandwidth = LINKS.iter().map(|l| l.1).collect();
        found.push(Race { ranks, group: Some(group), alpha_s, bandwidth, runners });
    }
    Ok(found)
}

/// Segments for this many ranks: for more than eight, the finest are too many to follow.
fn finest(segments: &[u32], ranks: u32) -> impl Iterator<Item = u32> + '_ {
    segments.iter().copied().filter(move |&p| ranks <= 8 || p <= 4)
}

/// An α of one second, and `inverse` seconds per byte; a hop through the switch takes α too.
fn alike(inverse: f64) -> Fabric {
    let alpha = Seconds(1.0);
    let switch = Switch { alpha: Some(alpha), bandwidth: None, multicast: true, alu: true };
    let tier = Tier::new("link", alpha, Bandwidth(1.0 / inverse));
    Fabric::new(vec![Tier { switch: Some(switch), ..tier }])
}

fn nodes(group: u32) -> Fabric {
    let tier = |name, i: usize| Tier::new(name, Seconds(LINKS[i].0), Bandwidth(LINKS[i].1));
    let inner = Tier { span: group.try_into().ok(), ..tier("inside", 0) };
    let outer = Tier { nics: group.try_into().ok(), ..tier("between", 1) };
    Fabric::new(vec![inner, outer])
}

/// A schedule that was simulated.
struct Course {
    schedule: Box<dyn Schedule>,
    segments: Option<u32>,
}

impl Course {
    fn new(algorithm: &dyn Algorithm, fabric: &Fabric, ranks: u32, segments: u32) -> Option<Self> {
        let mut shape = fabric.fill(&Shape::new(Collective::AllReduce, ranks));
        let pipelined = algorithm.is_pipelined();
        if pipelined {
            shape = shape.with_segments(segments);
        }
        algorithm.applies(&shape).ok()?;
        let schedule = algorithm.schedule(&shape)?;
        Some(Self { schedule, segments: pipelined.then_some(segments) })
    }

    fn run(&self, fabric: &Fabric, size: Volume) -> Result<(Trace, f64)> {
        let mut trace = Trace::default();
        let report = simulate_with(&*self.schedule, fabric, &Setup::new(size), &mut trace)?;
        Ok((trace, report.makespan.0))
    }

    /// Links alike: simulations with one and two seconds of data determine all others.
    fn exact(&self, id: &'static str, name: &'static str) -> Result<Runner> {
        let (trace, once) = self.run(&alike(1.0), Volume(1.0))?;
        let (other, twice) = self.run(&alike(2.0), Volume(1.0))?;
        let parts = |once: f64, twice: f64| [twelve(2.0 * once - twice), twelve(twice - once)];
        let times = trace.iter().zip(other.iter()).map(|(one, two)| {
            let [a, b] = parts(one.start.0, two.start.0);
            let [c, d] = parts(one.end.0, two.end.0);
            [a, b, c, d]
        });
        let times: Vec<[f64; 4]> = times.collect();
        Ok(self.runner(id, name, &trace, times, parts(once, twice)))
    }

    /// On nodes, of one size.
    fn at(&self, id: &'static str, name: &'static str, on: &Fabric, size: Bytes) -> Result<Runner> {
        let (trace, makespan) = self.run(on, Volume::from(size))?;
        // Rounding must not let a message end after the end of the whole.
        let at = |t: Seconds| six(t.0).min(makespan);
        let times = trace.iter().map(|m| [at(m.start), 0.0, at(m.end), 0.0]).collect();
        let runner = self.runner(id, name, &trace, times, [makespan, 0.0]);
        Ok(Runner { size_bytes: Some(size.0), ..runner })
    }

    fn runner(
        &self,
        id: &'static str,
        name: &'static str,
        trace: &Trace,
        all: Vec<[f64; 4]>,
        makespan: [f64; 2],
    ) -> Runner {
        let schedule = &*self.schedule;
        let frame = schedule.frame();
        let mut times: Vec<[f64; 4]> = Vec::new();
        let mut rounds: Vec<(u64, Vec<Flight>)> = Vec::new();
        for (message, time) in trace.iter().zip(all) {
            let place = times.iter().rposition(|t| *t == time).unwrap_or_else(|| {
                times.push(time);
                times.len() - 1
            });
            let Timed { from, to, op, runs, .. } = message;
            let Some((from, to, op, runs)) = numbers(schedule, from, to, op, runs) else {
                continue;
            };
            let flight = Flight(from, to, op, runs, place);
            match rounds.last_mut() {
                Some((round, flights)) if *round == message.round => flights.push(flight),
                _ => rounds.push((message.round, vec![flight])),
            }
        }
        let held = |rank| (0..frame.chunks()).filter(|&c| holds(schedule, rank, c)).collect();
        Runner {
            id,
            name,
            segments: self.segments,
            size_bytes: None,
            switches: frame.switches,
            parts: frame.parts,
            own: frame.layout == Layout::Owned,
            holds: (0..frame.ranks).map(held).collect(),
            rounds: rounds.into_iter().map(|(_, flights)| flights).collect(),
            times,
            makespan,
        }
    }
}

/// Rounds away what a subtraction leaves after the twelfth digit.
fn twelve(value: f64) -> f64 {
    (value * 1e12).round() / 1e12
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Further simulations, far from the two that the factors come from, agree with the sum at
    /// every time.
    #[test]
    fn instants_are_sums_of_latencies_and_data() {
        let registry = Registry::builtin();
        let mut held = 0;
        for ranks in RANKS {
            for (id, name, segments) in ALIKE {
                let algorithm = registry.find(Collective::AllReduce, id).unwrap().algorithm;
                for &segments in segments {
                    let course = Course::new(algorithm, &alike(1.0), ranks, segments).unwrap();
                    let runner = course.exact(id, name).unwrap();
                    for data in [1e-4, 0.3, 17.0, 1e4] {
                        let (trace, makespan) = course.run(&alike(data), Volume(1.0)).unwrap();
                        let near = |[a, b]: [f64; 2], t: f64, what: &str| {
                            let sum = a + b * data;
                            assert!((sum - t).abs() <= 1e-9 * t.max(1.0), "{id} {ranks} {what}");
                        };
                        near(runner.makespan, makespan, "end");
                        for (m, flight) in trace.iter().zip(runner.rounds.iter().flatten()) {
                            let [a, b, c, d] = runner.times[flight.4];
                            near([a, b], m.start.0, "a start");
                            near([c, d], m.end.0, "an arrival");
                            held += 1;
                        }
                    }
                }
            }
        }
        assert!(held > 10_000, "{held}");
    }
}

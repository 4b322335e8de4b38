//! Concurrent jobs on a link graph: messages share links, each at its max-min fair rate.
//!
//! A message is ready when its job has started, its own start time has come and its predecessors
//! have ended. It then waits α and the latencies of its links without using any of them, moves at
//! its max-min fair rate among all messages under way, and ends with its last byte. Nothing else
//! limits a rank: there are no ports, a job may send any number of messages at once, and additions
//! are free. [`super::simulate`] covers ports on tiers; this module covers the sharing of cables.
//!
//! A message whose packets take several paths moves at one rate, of which each link carries a fixed
//! share; links are shared max-min by such rates.
//!
//! With plain max-min (no weight by latency) this is SimGrid's network model CM02 (Casanova,
//! Giersch, Legrand, Quinson, Suter, JPDC 74(10) 2014).

mod file;
mod fluid;
mod messages;

pub use file::{Jobs, parse};

use crate::base::error::Result;
use crate::base::quantity::{Bytes, Seconds};
use crate::machine::graph::Graph;
use crate::machine::graph::routes::Routes;
use crate::model::schedule::Schedule;
use fluid::Fluid;
use messages::Tasks;

/// The times of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct JobTimes {
    /// Its name.
    pub name: String,
    /// When it could start.
    pub start: Seconds,
    /// When its last message ended.
    pub finish: Seconds,
    /// How many messages it has.
    pub messages: usize,
    /// The link that limited most of its messages, by number, and for which part of the time that
    /// they moved.
    pub bound_by: Option<(u32, f64)>,
}

/// The times of all jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct Times {
    /// When the last message ended.
    pub makespan: Seconds,
    /// Each job, in the order of the file.
    pub jobs: Vec<JobTimes>,
    /// For each link how many bytes went over it.
    pub carried: Vec<f64>,
    /// How many messages there were.
    pub messages: usize,
}

/// Runs the jobs.
///
/// # Errors
/// A message without a path, an algorithm without a schedule.
pub fn simulate(graph: &Graph, jobs: &Jobs) -> Result<Times> {
    let names: Vec<&str> = jobs.names().collect();
    play(graph, Tasks::of(graph, jobs)?, &names)
}

/// Runs one schedule of that size over all ranks, in their order, limited only by data
/// dependencies.
///
/// # Errors
/// Errors of [`simulate`]; another number of ranks than the fabric has.
pub fn simulate_one(graph: &Graph, schedule: &dyn Schedule, size: Bytes) -> Result<Times> {
    play(graph, Tasks::of_one(graph, schedule, size)?, &[""])
}

fn play(graph: &Graph, mut tasks: Tasks, names: &[&str]) -> Result<Times> {
    tasks.route(graph, &mut Routes::new(graph))?;
    let mut fluid = Fluid::new(graph);
    let ends = fluid.run(&mut tasks)?;
    let mut counts = vec![0; names.len()];
    for task in tasks.tasks.iter().filter(|task| !task.is_gate) {
        counts[task.job as usize] += 1;
    }
    let job_times = names.iter().enumerate().map(|(i, &name)| {
        let (gate, end) = tasks.gates[i];
        JobTimes {
            name: name.to_owned(),
            start: Seconds(ends[gate as usize]),
            finish: Seconds(ends[end as usize]),
            messages: counts[i],
            bound_by: fluid.bound(i as u32),
        }
    });
    let jobs: Vec<JobTimes> = job_times.collect();
    let mut carried = vec![0.0; graph.links.len()];
    for task in &tasks.tasks {
        let shares = tasks.shares(task).iter().copied().chain(std::iter::repeat(1.0));
        for (&link, share) in tasks.path(task).iter().zip(shares) {
            carried[link as usize] += task.bytes * share;
        }
    }
    let makespan = jobs.iter().fold(0.0, |last: f64, job| last.max(job.finish.0));
    let messages = jobs.iter().map(|job| job.messages).sum();
    Ok(Times { makespan: Seconds(makespan), jobs, carried, messages })
}

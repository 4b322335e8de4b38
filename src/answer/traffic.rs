//! Concurrent jobs on a link graph: when each ends, what delays it, and what the others cost it.

use serde::Serialize;

use crate::base::error::Result;
use crate::base::order::falling;
use crate::cost::traffic::{Jobs, simulate};
use crate::machine::graph::Graph;

/// The number of links that are shown.
const LINKS: usize = 8;
/// The maximum number of messages for which each job is also simulated alone.
const ALONE: usize = 200_000;

/// The end times of jobs that share a fabric.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Traffic {
    /// `collcost/traffic/1`.
    pub schema: &'static str,
    /// The fabric's name.
    pub fabric: String,
    /// N.
    pub ranks: u32,
    /// The number of messages of all jobs.
    pub messages: usize,
    /// When the last message ends.
    pub makespan_s: f64,
    /// The same on the fabric as built, if faults were given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub built_makespan_s: Option<f64>,
    /// The differences from the built fabric, as typed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
    /// The jobs, in the order of the file.
    pub jobs: Vec<JobView>,
    /// The links that carry data for the largest part of the makespan, at most eight.
    pub links: Vec<LinkLoad>,
    /// For each link of the fabric, the share of the makespan for which it was full.
    #[serde(skip)]
    pub loads: Vec<f64>,
}

/// One job.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JobView {
    /// Its name.
    pub name: String,
    /// When it could start.
    pub start_s: f64,
    /// When its last message ended.
    pub finish_s: f64,
    /// The number of its messages.
    pub messages: usize,
    /// The time from start to finish without other jobs; absent if it is the only one, or if there
    /// are too many messages to try.
    pub alone_s: Option<f64>,
    /// The time from start to finish on the fabric as built, with the other jobs, if faults were
    /// given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub built_s: Option<f64>,
    /// The link that delayed most of its messages, `from>to`.
    pub bound_by: Option<String>,
    /// The fraction of the time in which its messages moved that this link delayed them.
    pub bound_share: Option<f64>,
}

/// The traffic of a link.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinkLoad {
    /// Its start.
    pub from: String,
    /// Its end.
    pub to: String,
    /// Its capacity.
    #[serde(rename = "rate_Bps")]
    pub rate: f64,
    /// The data that it carried.
    pub bytes: f64,
    /// The share of the makespan for which it was full, or would have been.
    pub busy: f64,
}

/// Simulates the jobs together, and each alone.
///
/// # Errors
/// A node that does not exist, an algorithm without a schedule.
pub fn traffic(graph: &Graph, jobs: &Jobs) -> Result<Traffic> {
    let times = simulate(graph, jobs)?;
    let makespan = times.makespan.0;
    // Each one searches the whole fabric again.
    let tries = jobs.len() > 1 && times.messages.max(jobs.len() * graph.links.len()) <= ALONE;
    let name = |node| graph.name_of(node).to_owned();
    let mut views = Vec::with_capacity(jobs.len());
    for (i, job) in times.jobs.iter().enumerate() {
        let alone = if tries { Some(simulate(graph, &jobs.alone(i))?) } else { None };
        let alone = alone.map(|times| times.jobs[0].finish.0 - times.jobs[0].start.0);
        let bound = job.bound_by.map(|(link, share)| {
            let link = graph.links[link as usize];
            (format!("{}>{}", name(link.from), name(link.to)), share)
        });
        let (bound_by, bound_share) = bound.unzip();
        views.push(JobView {
            name: job.name.clone(),
            start_s: job.start.0,
            finish_s: job.finish.0,
            messages: job.messages,
            alone_s: alone,
            built_s: None,
            bound_by,
            bound_share,
        });
    }
    let load = |(i, bytes): (usize, &f64)| {
        if makespan > 0.0 { bytes / graph.links[i].rate.bandwidth().0 / makespan } else { 0.0 }
    };
    let loads = times.carried.iter().enumerate().map(load).collect();
    let mut links: Vec<LinkLoad> = graph
        .links
        .iter()
        .zip(&times.carried)
        .filter(|(_, bytes)| **bytes > 0.0)
        .map(|(link, &bytes)| {
            let rate = link.rate.bandwidth().0;
            let busy = bytes / rate / makespan;
            LinkLoad { from: name(link.from), to: name(link.to), rate, bytes, busy }
        })
        .collect();
    falling(&mut links, |a| a.busy);
    links.truncate(LINKS);
    Ok(Traffic {
        schema: "collcost/traffic/1",
        fabric: graph.name.clone(),
        ranks: graph.ranks,
        messages: times.messages,
        makespan_s: makespan,
        built_makespan_s: None,
        faults: Vec::new(),
        jobs: views,
        links,
        loads,
    })
}

impl Traffic {
    /// Adds the times of the jobs on the fabric as built, without `faults`.
    ///
    /// # Errors
    /// As [`traffic`].
    pub fn beside(mut self, built: &Graph, jobs: &Jobs, faults: Vec<String>) -> Result<Self> {
        let times = simulate(built, jobs)?;
        self.built_makespan_s = Some(times.makespan.0);
        for (view, job) in self.jobs.iter_mut().zip(&times.jobs) {
            view.built_s = Some(job.finish.0 - job.start.0);
        }
        self.faults = faults;
        Ok(self)
    }
}

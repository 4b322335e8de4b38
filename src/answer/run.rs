//! A schedule that was really run: its time, whether its results were right, and the expectation.
//!
//! ```text
//! all-reduce of 1 MiB on each of 2 ranks
//! run     ring over shared memory, spinning, CPUs 0 1
//! time    312.4 µs, the median of 20 global spans; four fifths are 301 µs to 355 µs
//! rate    algbw 3.36 GB/s, busbw 3.36 GB/s
//! expect  301.1 µs (8 of 10 runs: 280 µs to 344 µs) on machine local, -4 %
//! check   21 results at every rank, bit by bit: right
//! quiet   0 of 20 started late; ranks waited for a CPU 0.0 % of the time, and lost it 0 times
//! ```

use serde::Serialize;

use super::cost::{QuestionView, question};
use crate::base::quantity::{Seconds, Volume};
use crate::machine::query::Query;
use crate::measure::expect::Expect;
use crate::run::execute::Timed;
use crate::run::launch::Group;

/// The results of a run.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Run {
    /// `collcost/run/2`.
    pub schema: &'static str,
    /// The question.
    pub question: QuestionView,
    /// The algorithm's id.
    pub algorithm: String,
    /// Segments, if it is pipelined; otherwise 1.
    pub segments: u32,
    /// The transport: `shm` or `tcp`.
    pub transport: &'static str,
    /// How ranks waited: `spin` or `poll`.
    pub wait: &'static str,
    /// The CPU to which each rank was pinned; absent if it was not pinned.
    pub cpus: Vec<Option<usize>>,
    /// The congestion control of the connections; absent without any.
    pub congestion: Option<String>,
    /// The number of repetitions that count.
    pub reps: u64,
    /// The median of the global spans.
    pub median_s: f64,
    /// A tenth of them are shorter.
    pub low_s: f64,
    /// A tenth of them are longer.
    pub high_s: f64,
    /// M over the median; absent without data.
    #[serde(rename = "algbw_Bps")]
    pub algbw_bps: Option<f64>,
    /// The same as nccl-tests' busbw.
    #[serde(rename = "busbw_Bps")]
    pub busbw_bps: Option<f64>,
    /// Results that were compared bit by bit at every rank; all were right.
    pub checked: u64,
    /// The number of repetitions that a rank began too late.
    pub late: u64,
    /// The time that ranks waited for a CPU, divided by the time of all repetitions.
    pub run_delay_ratio: f64,
    /// Involuntary context switches of all ranks.
    pub switches: u64,
    /// What was expected of this algorithm, if a machine was named.
    pub expect: Option<Expect>,
    /// That machine.
    pub machine: Option<String>,
    /// Expected over measured, minus 1.
    pub error: Option<f64>,
    /// What to know before trusting it.
    pub notes: Vec<String>,
}

/// The report of the results in `timed`; `expect` is of the named machine.
#[must_use]
pub fn run(
    query: &Query,
    (algorithm, segments): (&str, u32),
    group: &Group,
    timed: &Timed,
    expect: Option<Expect>,
) -> Run {
    let median = timed.median().unwrap_or_default();
    let (low, high) = timed.spread().unwrap_or((median, median));
    let (size, ranks) = (Volume::from(query.size), query.shape.ranks);
    let rate = (size.0 > 0.0 && median.0 > 0.0).then(|| size / median);
    let all: Seconds = timed.samples.iter().map(|s| s.span).sum();
    let waited: Seconds = timed.samples.iter().filter_map(|s| s.run_delay).sum();
    let ratio = if all.0 > 0.0 { waited.0 / all.0 } else { 0.0 };
    let late = timed.samples.iter().filter(|s| s.late).count() as u64;
    let mut notes = Vec::new();
    if ratio > 0.25 {
        notes.push(format!(
            "ranks waited for a CPU {:.0} % of the time: other processes use this machine, or \
             there are more ranks than CPUs",
            100.0 * ratio
        ));
    }
    Run {
        schema: "collcost/run/2",
        question: question(query),
        algorithm: algorithm.to_owned(),
        segments,
        transport: group.transport().id(),
        wait: group.wait().id(),
        cpus: group.cpus(),
        congestion: group.congestion().map(str::to_owned),
        reps: timed.samples.len() as u64,
        median_s: median.0,
        low_s: low.0,
        high_s: high.0,
        algbw_bps: rate.map(|rate| rate.0),
        busbw_bps: rate.map(|r| (r * query.shape.collective.busbw_factor(ranks)).0),
        checked: timed.checked,
        late,
        run_delay_ratio: ratio,
        switches: timed.switches,
        machine: expect.is_some().then(|| query.machine.name.clone()),
        error: expect.as_ref().map(|e| e.time_s / median.0 - 1.0),
        expect,
        notes,
    }
}

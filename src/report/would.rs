//! What the machine's own library would run, by its rules, and what that costs beside the best.

use serde::Serialize;

use crate::algorithm::Registry;
use crate::query::Query;
use crate::take::by_rules;

pub use crate::take::site;

/// What the library of the machine would run for the question.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Would {
    /// The policy, such as `nccl@2.30.7`.
    pub policy: String,
    /// The library's own name of what runs.
    pub runs: String,
    /// Channels at most, where it is NCCL.
    pub channels: Option<u32>,
    /// The library's own estimate.
    pub estimate_s: Option<f64>,
    /// What the closed forms say of it; absent where none does.
    pub time_s: Option<f64>,
    /// That over the take's time.
    pub take_ratio: Option<f64>,
    /// That over the fastest algorithm's time.
    pub paper_ratio: Option<f64>,
}

/// What the machine's library would run; nothing where its rules say nothing here.
pub(super) fn would(
    registry: &Registry,
    query: &Query,
    (take, paper): (Option<f64>, Option<f64>),
) -> Option<Would> {
    let ruled = by_rules(registry, query)?;
    let time = ruled.time.map(|t| t.0);
    let over = |other: Option<f64>| Some(time? / other?);
    Some(Would {
        policy: ruled.policy,
        runs: ruled.choice.name.into_owned(),
        channels: ruled.channels,
        estimate_s: ruled.choice.estimate.map(|t| t.0),
        time_s: time,
        take_ratio: over(take),
        paper_ratio: over(paper),
    })
}

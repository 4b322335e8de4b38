//! What the machine's own library would run, by its rules, and what that costs beside the best.

use serde::Serialize;

use crate::algorithm::{Library, Registry};
use crate::nccl::Version;
use crate::quantity::Bytes;
use crate::query::Query;
use crate::select::{Call, Flavour, Nccl, Policy, Priced, Site, policy, priced};

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

/// What is known of the question's machine, for a policy; ranks lie on so many nodes.
#[must_use]
pub fn site(query: &Query, nodes: u32) -> Site {
    Site {
        machine: query.machine.name.clone(),
        title: query.machine.title.clone(),
        ranks: query.shape.ranks,
        nodes,
        nccl_graphs: query.machine.nccl_graphs.clone(),
        topology: query.machine.topology.clone(),
        fabric: Some(query.machine.fabric.clone()),
    }
}

/// What the machine's library would run; nothing where its rules say nothing here.
pub(super) fn would(
    registry: &Registry,
    query: &Query,
    (take, paper): (Option<f64>, Option<f64>),
) -> Option<Would> {
    let library = query.library()?;
    let nodes = query.nodes();
    let call = Call {
        flavour: Flavour::Plain,
        nodes,
        element: query.element.unwrap_or(Bytes(4)),
        ..Call::new(query.shape.collective, query.shape.ranks, query.size)
    };
    let site = site(query, nodes);
    let (policy, channels): (Box<dyn Policy>, _) = if library == Library::Nccl {
        let nccl = Nccl::new(&site, Version::NEWEST.into()).ok()?;
        let channels = nccl.decide(&call).ok()??.channels;
        (Box::new(nccl), Some(channels))
    } else {
        (policy(library.id(), &site).ok()?, None)
    };
    let choice = policy.choose(&call).ok()?;
    let cost = priced(registry, &choice, &query.shape, &query.machine.fabric, query.size);
    let time = cost.ok().as_ref().and_then(Priced::time).map(|t| t.0);
    let over = |other: Option<f64>| Some(time? / other?);
    Some(Would {
        policy: policy.meta().id.clone(),
        runs: choice.name.into_owned(),
        channels,
        estimate_s: choice.estimate.map(|t| t.0),
        time_s: time,
        take_ratio: over(take),
        paper_ratio: over(paper),
    })
}

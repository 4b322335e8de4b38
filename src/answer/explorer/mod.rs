//! The explorer's data: formulas, prices, NCCL's choices, measured times, schedules, races, plans.
//!
//! The page itself computes prices for the user's own parameters, with formulas printed from the
//! engine's (`forms`); all other data is precomputed by the engine.

mod forms;
mod machines;
mod race;
mod schedules;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::answer::explain::{State, state, used_by};
use crate::answer::plan::{StepView, plan};
use crate::base::collective::Collective;
use crate::base::error::Result;
use crate::model::algorithm::Registry;
use crate::plan::table::{Disk, Fault, Machines};
use crate::plan::{Asked, Tweak, load, preset_names};

pub use forms::{Form, FormOf, PORTS, RANKS, TWO_TIER_GROUP, TWO_TIER_RANKS};
pub use machines::{Machine, MeasuredView, Price, TierView};
pub use race::{Flight, Race, Runner};
pub use schedules::{Message, Played};

/// All data of the page.
#[derive(Debug, Serialize)]
pub struct Explorer {
    /// The program's version.
    pub version: &'static str,
    /// The collectives.
    pub collectives: Vec<CollectiveView>,
    /// The algorithms; other fields refer to them by their index here.
    pub algorithms: Vec<AlgorithmView>,
    /// The formulas, each once.
    #[serde(skip)]
    pub forms: Vec<Form>,
    /// The formulas as text.
    pub texts: Vec<String>,
    /// Rank counts available for the user's own parameters.
    pub ranks: &'static [u32],
    /// Port counts available for them.
    pub ports: &'static [&'static str],
    /// By collective and algorithm, on one tier: its forms for each number of ports.
    pub flat: BTreeMap<&'static str, Vec<FormOf>>,
    /// Rank counts available for the user's own parameters on two tiers.
    pub two_tier_ranks: &'static [u32],
    /// Ranks per node there.
    pub two_tier_group: u32,
    /// The same on two tiers, wherever the formula is the price.
    pub two_tier: BTreeMap<&'static str, Vec<FormOf>>,
    /// Built-in machines.
    pub machines: Vec<Machine>,
    /// Schedules to step through.
    pub schedules: Vec<Played>,
    /// Ring, tree and others side by side.
    pub races: Vec<Race>,
    /// Steps of common layouts.
    pub steps: Vec<StepView>,
    /// The collective for each need.
    pub needs: &'static [(&'static str, &'static str)],
    /// Facts to remember.
    pub summary: Vec<String>,
}

/// A collective.
#[derive(Debug, Serialize)]
pub struct CollectiveView {
    /// Its id.
    pub id: &'static str,
    /// Its name.
    pub name: &'static str,
    /// What M is relative to the ranks: `on each of`.
    pub size_means: &'static str,
    /// What it does.
    pub state: State,
    /// Where training and inference use it.
    pub used_by: &'static str,
}

/// An algorithm.
#[derive(Debug, Serialize)]
pub struct AlgorithmView {
    /// Its id.
    pub id: &'static str,
    /// Its name in a table.
    pub title: &'static str,
    /// Who sends what to whom.
    pub summary: &'static str,
    /// The paper or code that defines it.
    pub source: &'static str,
    /// Values of the functions that its formulas name, by name and arguments.
    pub tables: BTreeMap<&'static str, BTreeMap<String, u64>>,
}

/// All data of the page.
///
/// # Errors
/// A built-in machine that cannot be read.
pub fn explorer(registry: &Registry) -> Result<Explorer> {
    let algorithms: Vec<AlgorithmView> = registry
        .iter()
        .map(|a| {
            let meta = a.meta();
            AlgorithmView {
                id: meta.id,
                title: meta.title,
                summary: meta.summary,
                source: meta.source,
                tables: BTreeMap::new(),
            }
        })
        .collect();
    let mut all = forms::All::new(algorithms);
    let flat = all.flat(registry);
    let two_tier = all.two_tier(registry)?;
    let machines = machines::machines(registry, &all.algorithms)?;
    let schedules = schedules::schedules(registry, &all.algorithms);
    let races = race::races(registry)?;
    let texts = all.forms.iter().map(|f| f.text.clone()).collect();
    Ok(Explorer {
        version: env!("CARGO_PKG_VERSION"),
        collectives: Collective::ALL.iter().map(|&c| collective(c)).collect(),
        algorithms: all.algorithms,
        forms: all.forms,
        texts,
        ranks: RANKS,
        ports: PORTS,
        flat,
        two_tier_ranks: TWO_TIER_RANKS,
        two_tier_group: TWO_TIER_GROUP,
        two_tier,
        machines,
        schedules,
        races,
        steps: steps(registry)?,
        needs: NEEDS,
        summary: SUMMARY.iter().map(|s| (*s).to_owned()).collect(),
    })
}

/// Common layouts, priced.
fn steps(registry: &Registry) -> Result<Vec<StepView>> {
    let machines = Machines::new(&Disk);
    let mut found = Vec::new();
    for name in preset_names() {
        let steps = load(&machines, &Asked::Preset(name), &[]);
        let steps = steps.map_err(|faults| Fault::error_of(&faults))?;
        found.extend(plan(registry, &steps, &Tweak::default(), false)?.steps);
    }
    Ok(found)
}

fn collective(collective: Collective) -> CollectiveView {
    CollectiveView {
        id: collective.id(),
        name: collective.name(),
        size_means: collective.size_means(),
        state: state(collective),
        used_by: used_by(collective),
    }
}

/// What people say, and the collective they mean.
const NEEDS: &[(&str, &str)] = &[
    ("Gradients are summed over all ranks", "allreduce"),
    ("The full weights are rebuilt from their shards", "allgather"),
    ("Gradients are summed, and each rank keeps its slice", "reducescatter"),
    ("Each token goes to its expert", "alltoall"),
    ("An activation goes to the next stage of a pipeline", "sendrecv"),
    ("One rank's initial weights go to all", "broadcast"),
];

/// The conclusions of a lesson on collectives.
const SUMMARY: [&str; 5] = [
    "A ring all-reduce moves 2(N − 1)/N·M through every port: for large M the number of ranks hardly matters.",
    "Small vectors are latency: a tree sends 2·⌈lg N⌉ messages one after another, a ring 2(N − 1).",
    "Gathering gradients into buckets pays up to the size where the two cross: above it the rate \
     of the links decides.",
    "Where links inside a node are faster than those between nodes, a hierarchy sends only what it \
     must over the slow ones.",
    "A library runs what it ships, as its rules say; that need not be the fastest of all \
     algorithms.",
];

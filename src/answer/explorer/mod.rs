//! What the explorer knows: formulas, prices, NCCL's choices, measured times, schedules, races, plans.
//!
//! The page computes prices of own figures itself, by formulas that are printed from the engine's
//! (`forms`); everything else stands here as the engine found it.

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

/// All that the page is made of.
#[derive(Debug, Serialize)]
pub struct Explorer {
    /// The program's version.
    pub version: &'static str,
    /// The collectives.
    pub collectives: Vec<CollectiveView>,
    /// The algorithms; others name them by their place here.
    pub algorithms: Vec<AlgorithmView>,
    /// The formulas, each once.
    #[serde(skip)]
    pub forms: Vec<Form>,
    /// The formulas as text.
    pub texts: Vec<String>,
    /// Ranks that can be asked of own figures.
    pub ranks: &'static [u32],
    /// Ports that can be asked of them.
    pub ports: &'static [&'static str],
    /// By collective and algorithm, on one tier: its forms for each of the ports.
    pub flat: BTreeMap<&'static str, Vec<FormOf>>,
    /// Ranks that can be asked of own figures on two tiers.
    pub two_tier_ranks: &'static [u32],
    /// Ranks of a node there.
    pub two_tier_group: u32,
    /// The same on two tiers, as far as the formula is the price.
    pub two_tier: BTreeMap<&'static str, Vec<FormOf>>,
    /// Built-in machines.
    pub machines: Vec<Machine>,
    /// Schedules to step through.
    pub schedules: Vec<Played>,
    /// Ring, tree and others beside each other.
    pub races: Vec<Race>,
    /// Steps of the layouts that people run.
    pub steps: Vec<StepView>,
    /// Which collective a need asks for.
    pub needs: &'static [(&'static str, &'static str)],
    /// What to remember.
    pub summary: Vec<String>,
}

/// A collective.
#[derive(Debug, Serialize)]
pub struct CollectiveView {
    /// Its id.
    pub id: &'static str,
    /// Its name.
    pub name: &'static str,
    /// What M is of the ranks: `on each of`.
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

/// Everything that the page is made of.
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

/// The layouts that people run, priced.
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

/// What is heard, and what is called then.
const NEEDS: &[(&str, &str)] = &[
    ("Gradients are summed over all ranks", "allreduce"),
    ("The full weights are rebuilt from their shards", "allgather"),
    ("Gradients are summed, and each rank keeps its slice", "reducescatter"),
    ("Each token goes to its expert", "alltoall"),
    ("An activation goes to the next stage of a pipeline", "sendrecv"),
    ("One rank's initial weights go to all", "broadcast"),
];

/// What a lesson on collectives ends with.
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

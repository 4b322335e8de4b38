//! Everything that a question can name: machines, collectives, algorithms, topics, kinds of batch questions.

use serde::Serialize;

use crate::answer::batch::KINDS;
use crate::answer::notes::{CONTRADICTIONS, TOPICS};
use crate::base::collective::Collective;
use crate::base::error::{Error, Result, did_you_mean};
use crate::library::POLICIES;
use crate::library::engines::ENGINES;
use crate::machine::parameters::Parameter;
use crate::machine::profile::Profile;
use crate::model::algorithm::{Library, Registry};
use crate::plan::config::Settings;

/// Everything with a name.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct List {
    /// `collcost/list/1`.
    pub schema: &'static str,
    /// The built-in machines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<Named>,
    /// The collectives.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub collectives: Vec<Named>,
    /// The algorithms.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub algorithms: Vec<AlgorithmEntry>,
    /// The libraries whose algorithms are known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub libraries: Vec<Named>,
    /// The libraries and engines whose rules `choose` knows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<Named>,
    /// The pages of `explain`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub topics: Vec<Named>,
    /// Where texts and schedules differ.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contradictions: Vec<Named>,
    /// The parameters of a question.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<ParameterEntry>,
    /// The kinds of `batch` questions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub batch: Vec<&'static str>,
}

/// A parameter of a question.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ParameterEntry {
    /// Its key in `collcost.toml`, budgets, plans and `batch`.
    pub key: &'static str,
    /// The section of `collcost.toml` to which it belongs.
    pub section: &'static str,
    /// Its flag.
    pub flag: String,
    /// Other names of the flag.
    pub aliases: Vec<String>,
    /// Its meaning.
    pub help: &'static str,
    /// An example value.
    pub example: &'static str,
}

/// A name, its other spellings, and a description.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Named {
    /// The name on the command line.
    pub id: &'static str,
    /// Other accepted names.
    pub aliases: Vec<&'static str>,
    /// A one-line description.
    pub title: String,
}

/// An algorithm.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AlgorithmEntry {
    /// The name on the command line.
    pub id: &'static str,
    /// Other accepted names.
    pub aliases: &'static [&'static str],
    /// The name in a table.
    pub title: &'static str,
    /// Who sends what to whom.
    pub summary: &'static str,
    /// What it implements.
    pub collectives: Vec<&'static str>,
    /// What libraries call it: `nccl:Tree`.
    pub ships: Vec<String>,
}

impl List {
    /// The names in it, in its order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        let parts = [
            &self.machines,
            &self.collectives,
            &self.libraries,
            &self.policies,
            &self.topics,
            &self.contradictions,
        ];
        let named = parts.into_iter().flatten().map(|n| n.id);
        let algorithms = self.algorithms.iter().map(|a| a.id);
        let parameters = self.parameters.iter().map(|p| p.key);
        named.chain(algorithms).chain(parameters).chain(self.batch.iter().copied())
    }
}

/// The parts that can be requested.
pub const PARTS: &[&str] = &[
    "machines",
    "collectives",
    "algorithms",
    "libraries",
    "policies",
    "topics",
    "contradictions",
    "parameters",
    "batch",
];

/// Lists everything, or the part called `only`.
///
/// # Errors
/// An unknown part, with the nearest known one.
pub fn list(registry: &Registry, only: Option<&str>) -> Result<List> {
    let only = only.filter(|part| *part != "all");
    if let Some(part) = only.filter(|p| !PARTS.contains(p)) {
        return Err(Error::input(format!("`{part}` is not a part of the list")).help(
            did_you_mean(part, PARTS.iter().copied(), || format!("write {}", PARTS.join(", "))),
        ));
    }
    let wanted = |part: &str| only.is_none_or(|o| o == part);
    let when = |part: &str, entries: Vec<Named>| if wanted(part) { entries } else { Vec::new() };
    let collectives = Collective::ALL.iter().map(|c| Named {
        id: c.id(),
        aliases: c.aliases().to_vec(),
        title: super::explain::state(*c).what.to_owned(),
    });
    let libraries = Library::ALL.iter().map(|&l| {
        let shipped = registry.iter().filter(|a| a.meta().known_as.iter().any(|k| k.0 == l));
        Named {
            id: l.id(),
            aliases: vec![],
            title: format!("{l}: {} of the algorithms", shipped.count()),
        }
    });
    let policies = POLICIES.iter().map(|p| Named {
        id: p.id,
        aliases: p.aliases.to_vec(),
        title: p.title().into_owned(),
    });
    let engines = ENGINES.iter().map(|e| Named {
        id: e.id,
        aliases: e.aliases.to_vec(),
        title: format!("{}; releases {}", e.title, e.releases.join(", ")),
    });
    let policies = policies.chain(engines);
    let topics = TOPICS.iter().map(|t| Named {
        id: t.id,
        aliases: t.aliases.to_vec(),
        title: t.title.to_owned(),
    });
    let contradictions = CONTRADICTIONS.iter().map(|c| Named {
        id: c.id,
        aliases: vec![],
        title: c.title.to_owned(),
    });
    Ok(List {
        schema: "collcost/list/1",
        machines: if wanted("machines") { machines() } else { Vec::new() },
        collectives: when("collectives", collectives.collect()),
        algorithms: if wanted("algorithms") { algorithms(registry) } else { Vec::new() },
        libraries: when("libraries", libraries.collect()),
        policies: when("policies", policies.collect()),
        topics: when("topics", topics.collect()),
        contradictions: when("contradictions", contradictions.collect()),
        parameters: if wanted("parameters") { parameters() } else { Vec::new() },
        batch: if wanted("batch") { KINDS.to_vec() } else { Vec::new() },
    })
}

fn machines() -> Vec<Named> {
    let entry = |id| {
        let title = Profile::builtin(id).map(|p| p.title).unwrap_or_default();
        // The first is its own.
        let aliases = Profile::names_of(id).iter().skip(1).copied().collect();
        Named { id, aliases, title }
    };
    Profile::names().map(entry).collect()
}

fn parameters() -> Vec<ParameterEntry> {
    let entry = |(section, key)| {
        let p = Parameter::find(key)?;
        let letter = p.letter.map(|letter| format!("-{letter}"));
        let aliases = p.aliases.iter().map(|alias| format!("--{alias}"));
        Some(ParameterEntry {
            key,
            section,
            flag: format!("--{}", p.flag),
            aliases: letter.into_iter().chain(aliases).collect(),
            help: p.help,
            example: p.example,
        })
    };
    Settings::keys().filter_map(entry).collect()
}

fn algorithms(registry: &Registry) -> Vec<AlgorithmEntry> {
    let entry = |meta: &'static crate::model::algorithm::Meta| AlgorithmEntry {
        id: meta.id,
        aliases: meta.aliases,
        title: meta.title,
        summary: meta.summary,
        collectives: meta.collectives.iter().map(|c| c.id()).collect(),
        ships: meta.known_as.iter().map(|(l, _, name)| format!("{}:{name}", l.id())).collect(),
    };
    registry.iter().map(|a| entry(a.meta())).collect()
}

//! What a library runs for a call, and the source of that.

use super::ideal::{NOTHING, Priced};
use crate::base::quantity::Bytes;
use crate::library::engines::{Conditions, Kernel};
use crate::library::nccl::Version;
use crate::library::nccl::point_to_point::sends;
use crate::library::nccl::policy::Known;
use crate::library::nccl::tuned::GAP;
use crate::library::{Call, Choice, Nccl, Policy, Site, intervals, openmpi, policy};
use crate::machine::query::Query;
use crate::model::algorithm::Library;

/// How it is known what runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Rules {
    /// By the rules of the library's release.
    Own,
    /// By the rules of another release.
    OtherRelease,
    /// By the library's own log when the machine was measured.
    Measured,
    /// By a tuner that the library loads on the machine.
    Tuner,
    /// Its rules are unknown: the algorithm that it ships with the lowest ideal price.
    Unknown,
    /// The user named it.
    Asked,
}

impl Rules {
    /// Whether it is known what the library runs.
    pub(crate) fn are_known(self) -> bool {
        !matches!(self, Self::Unknown | Self::Asked)
    }
}

/// What runs.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Runs {
    /// The library's id; absent if unknown.
    pub library: Option<&'static str>,
    /// Its release, if its rules are those of a release.
    pub version: Option<String>,
    /// The algorithm: the library's own name if by its rules, else an id of this program.
    pub algorithm: String,
    /// NCCL's protocol.
    pub protocol: Option<String>,
    /// The largest number of channels, for NCCL.
    pub channels: Option<u32>,
    /// How that is known.
    pub rules: Rules,
}

impl Runs {
    /// `NVLS/Simple`, `ring`.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.protocol {
            Some(protocol) => format!("{}/{protocol}", self.algorithm),
            None => self.algorithm.clone(),
        }
    }

    pub(super) fn unknown(fastest: Priced) -> Self {
        Self { rules: Rules::Unknown, ..Self::asked(fastest) }
    }

    /// A call that communicates nothing.
    pub(super) fn nothing() -> Self {
        Self {
            library: None,
            version: None,
            algorithm: NOTHING.to_owned(),
            protocol: None,
            channels: None,
            rules: Rules::Own,
        }
    }

    /// Whether nothing runs: the call communicates nothing. Without a price nothing is known instead.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.algorithm == NOTHING && self.rules == Rules::Own
    }

    pub(super) fn asked(priced: Priced) -> Self {
        Self {
            library: None,
            version: None,
            algorithm: priced.id.to_owned(),
            protocol: None,
            channels: None,
            rules: Rules::Asked,
        }
    }
}

impl From<Kernel> for Runs {
    /// An engine's kernel, by the engine's rules.
    fn from(kernel: Kernel) -> Self {
        Self {
            library: Some(kernel.backend),
            version: None,
            algorithm: kernel.kernel.to_owned(),
            protocol: None,
            channels: None,
            rules: Rules::Own,
        }
    }
}

/// The largest size for which a library's choice is computed.
const LARGEST: Bytes = Bytes(1 << 40);

/// The rules of a machine's library, ready for any size.
pub(super) struct Ruler {
    library: Library,
    policy: Which,
    call: Call,
}

enum Which {
    Nccl(Box<Nccl>),
    /// And how it knows what runs.
    Other(Box<dyn Policy>, Rules),
}

impl Ruler {
    /// `None` if the library's rules are unknown, or do not cover the collective.
    pub(super) fn new(query: &Query) -> Option<Self> {
        let library = query.library()?;
        let call = Call::of(query);
        let site = site(query);
        let policy = match library {
            Library::Nccl if !sends(call.collective) => {
                match Known::at(&site, Version::NEWEST).ok()? {
                    Known::Rules(nccl) => Which::Nccl(nccl),
                    Known::Measured(observed) => Which::Other(Box::new(observed), Rules::Measured),
                    Known::Tuner(tuned) => Which::Other(Box::new(tuned), Rules::Tuner),
                }
            }
            _ => Which::Other(policy(library.id(), &site).ok()?, Rules::Own),
        };
        Some(Self { library, policy, call })
    }

    fn policy(&self) -> &dyn Policy {
        match &self.policy {
            Which::Nccl(nccl) => &**nccl,
            Which::Other(policy, _) => &**policy,
        }
    }

    /// Whether another component decides before these rules, which are not known here.
    pub(super) fn is_overruled(&self) -> bool {
        self.library == Library::OpenMpi && openmpi::han_decides(&self.call)
    }

    /// What runs for `size` bytes, as algorithms.
    pub(super) fn choose(&self, size: Bytes) -> Option<Choice> {
        let call = Call { size, ..self.call };
        // What a tuner leaves to the library is not known.
        self.policy().choose(&call).ok().filter(|choice| choice.name != GAP)
    }

    /// What runs if the library may run only the algorithm called `id`.
    pub(super) fn only(&self, id: &str, size: Bytes) -> Option<Choice> {
        self.policy().only(&Call { size, ..self.call }, id)
    }

    /// The choices, each from a size on, in the library's terms.
    pub(super) fn switch_points(&self) -> Vec<(Bytes, String)> {
        let found = intervals(self.policy(), &self.call, Bytes(1), LARGEST).unwrap_or_default();
        let mut points: Vec<(Bytes, String)> = Vec::new();
        for interval in found {
            let name = interval.choice.name.into_owned();
            if points.last().is_none_or(|(_, last)| *last != name) {
                points.push((interval.from, name));
            }
        }
        points
    }

    /// The same in the library's terms.
    pub(super) fn runs(&self, size: Bytes) -> Option<Runs> {
        let call = Call { size, ..self.call };
        let library = Some(self.library.id());
        match &self.policy {
            Which::Nccl(nccl) => {
                let decision = nccl.decide(&call).ok()??;
                Some(Runs {
                    library,
                    version: Some(nccl.version().to_string()),
                    algorithm: decision.algo.to_string(),
                    protocol: Some(decision.proto.to_string()),
                    channels: Some(decision.channels),
                    rules: Rules::Own,
                })
            }
            Which::Other(policy, rules) => {
                let name = self.choose(size)?.name;
                // NCCL's and RCCL's choices have a protocol.
                let both = name
                    .split_once('/')
                    .filter(|_| self.library == Library::Rccl || *rules == Rules::Tuner);
                let (algorithm, protocol) = both.map_or((&*name, None), |(a, p)| (a, Some(p)));
                Some(Runs {
                    library,
                    version: policy.meta().id.split_once('@').map(|(_, v)| v.to_owned()),
                    algorithm: algorithm.to_owned(),
                    protocol: protocol.map(str::to_owned),
                    channels: None,
                    rules: *rules,
                })
            }
        }
    }
}

/// What is known about the query's machine, for a policy.
#[must_use]
pub fn site(query: &Query) -> Site {
    Site {
        machine: query.machine.name.clone(),
        title: query.machine.title.clone(),
        ranks: query.shape.ranks,
        nodes: query.placement.nodes(),
        nccl_graphs: query.machine.nccl_graphs.clone(),
        nccl_measured: query.machine.nccl_measured.clone(),
        nccl_tuner: query.machine.nccl_tuner,
        topology: query.machine.topology.clone(),
        protocol: query.machine.protocol,
        fabric: Some(query.machine.fabric.clone()),
        hardware: query.machine.hardware.clone(),
        conditions: Conditions::default(),
    }
}

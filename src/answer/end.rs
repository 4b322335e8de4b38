//! A rank or a switch in machine-readable form.

use std::fmt;

use serde::Serialize;

use crate::model::schedule::Endpoint;

/// A rank by its number, or a switch as `switch0`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum End {
    /// A rank.
    Rank(u32),
    /// A switch.
    Switch(String),
}

impl From<Endpoint> for End {
    fn from(endpoint: Endpoint) -> Self {
        match endpoint {
            Endpoint::Rank(rank) => Self::Rank(rank),
            Endpoint::Switch(switch) => Self::Switch(format!("switch{switch}")),
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rank(rank) => write!(f, "{rank}"),
            Self::Switch(name) => f.write_str(name),
        }
    }
}

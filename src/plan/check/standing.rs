//! A value, the position of its limit relative to its band, and the point of the band that is
//! judged.

use crate::base::error::{Error, Result};
use crate::base::quantity::{Bandwidth, Ratio, Seconds, Volume};
use crate::base::words::{one_of, words};

/// A value with its unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// A time.
    Time(Seconds),
    /// A rate.
    Rate(Bandwidth),
    /// A ratio.
    Ratio(Ratio),
    /// Memory.
    Memory(Volume),
}

impl Number {
    /// In its base unit.
    #[must_use]
    pub fn base(self) -> Ratio {
        match self {
            Self::Time(t) => Ratio(t.0),
            Self::Rate(b) => Ratio(b.0),
            Self::Ratio(r) => r,
            Self::Memory(v) => Ratio(v.0),
        }
    }

    /// `seconds`, `bytes_per_second`, `ratio`, `bytes`.
    #[must_use]
    pub fn unit(self) -> &'static str {
        match self {
            Self::Time(_) => "seconds",
            Self::Rate(_) => "bytes_per_second",
            Self::Ratio(_) => "ratio",
            Self::Memory(_) => "bytes",
        }
    }
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Time(t) => t.fmt(f),
            Self::Rate(b) => b.fmt(f),
            Self::Ratio(r) => r.fmt(f),
            Self::Memory(v) => v.fmt(f),
        }
    }
}

/// The position of a limit relative to the expected band.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// Even the worse end is within the limit.
    Holds,
    /// The limit is inside the band.
    AtRisk,
    /// Even the better end exceeds it.
    Fails,
}

impl Standing {
    /// The words in reports.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::AtRisk => "at risk",
            Self::Fails => "fails",
        }
    }

    /// From the parts of the limit that the better and the worse end use.
    pub(super) fn of(better: f64, worse: f64) -> Self {
        // A time that is printed equal to the limit is within it.
        const WITHIN: f64 = 1.0 + 1e-9;
        match (better <= WITHIN, worse <= WITHIN) {
            (_, true) => Self::Holds,
            (true, false) => Self::AtRisk,
            (false, false) => Self::Fails,
        }
    }

    /// The nearest parts with this standing, for a verdict that rests on more than the two.
    pub(super) fn nearest(self, better: f64, worse: f64) -> (f64, f64) {
        const ABOVE: f64 = 1.01;
        match self {
            Self::Holds => (better.min(1.0), worse.min(1.0)),
            Self::AtRisk => (better.min(1.0), worse.max(ABOVE)),
            Self::Fails => (better.max(ABOVE), worse.max(ABOVE)),
        }
    }
}

words! {
    /// The point of the band at which a budget is judged, instead of the whole band.
    pub enum At {
        /// At the least value of the band.
        Low = "low",
        /// At the expected value.
        Mid = "mid",
        /// At the largest.
        High = "high",
    }
}

impl std::str::FromStr for At {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        one_of(text, "a point of a band", Self::ALL.map(|at| (at.id(), at)))
    }
}

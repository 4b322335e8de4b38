//! The expected time of a call, as in every report.

use serde::Serialize;

use super::{Basis, Expectation, Expecting, HeldOut, Runs};
use crate::base::quantity::{Bandwidth, Bytes};

/// An expected time, with its band and what it is based on.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Expect {
    /// The median.
    pub time_s: f64,
    /// A tenth of real times is shorter.
    pub low_s: f64,
    /// A tenth is longer.
    pub high_s: f64,
    /// busbw at the median, as nccl-tests counts it; absent without bytes.
    #[serde(rename = "busbw_Bps")]
    pub busbw: Option<f64>,
    /// What it is based on.
    pub basis: Basis,
    /// What the library runs, and how that is known.
    pub runs: Runs,
    /// The held-out error of the basis; absent if unknown.
    pub error: Option<Error>,
}

/// |expected/measured − 1| on held-out machines and sizes.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Error {
    /// The median.
    pub median: f64,
    /// The 90th percentile.
    pub p90: f64,
}

impl From<HeldOut> for Error {
    fn from(error: HeldOut) -> Self {
        Self { median: error.median.0, p90: error.p90.0 }
    }
}

impl Expect {
    /// The expectation of `expecting` for `size` bytes.
    #[must_use]
    pub fn new(expecting: &Expecting<'_>, size: Bytes) -> Self {
        Self::of(expecting.at(size), expecting, size)
    }

    /// The same with an existing expectation.
    #[must_use]
    pub fn of(expected: Expectation, expecting: &Expecting<'_>, size: Bytes) -> Self {
        Self::stated(expected, expecting.runs(size), expecting.busbw(size, expected.time))
    }

    /// Assembles the parts.
    #[must_use]
    pub fn stated(expected: Expectation, runs: Runs, busbw: Option<Bandwidth>) -> Self {
        Self {
            time_s: expected.time.0,
            low_s: expected.low.0,
            high_s: expected.high.0,
            busbw: busbw.map(|b| b.0),
            basis: expected.basis,
            runs,
            error: expected.error.map(Into::into),
        }
    }
}

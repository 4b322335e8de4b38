//! Hosts of a fleet beside each other.

use serde::Serialize;

use super::six;
use crate::base::collective::Collective;
use crate::base::quantity::Volume;
use crate::machine::sample::DataType;
use crate::measure::verdict::{Fleet, Host, Threshold};

/// Which hosts are slower than the others.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FleetView {
    /// `collcost/fleet/1`.
    pub schema: &'static str,
    /// How many hosts shared a size with others.
    pub hosts: usize,
    /// By how much healthy hosts differ, as a logarithm: a standard deviation that is robust.
    pub spread: f64,
    /// How many spreads a host must be above the median to be named.
    pub limit: f64,
    /// The hosts that are slow, the slowest first.
    pub slow: Vec<String>,
    /// All hosts, the slowest first.
    pub scores: Vec<HostView>,
    /// For gates that see one size of one host.
    pub thresholds: Vec<ThresholdView>,
    /// What was not compared, and why.
    pub left_out: Vec<String>,
}

/// One host.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostView {
    /// Its name: the file.
    pub host: String,
    /// How many times as long as the median host its calls take.
    pub factor: f64,
    /// How many spreads that is above the median.
    pub score: f64,
    /// Sizes that count.
    pub sizes: usize,
    /// Whether it is named.
    pub slow: bool,
}

/// Up to where a healthy host's time lies.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThresholdView {
    /// The collective's id.
    pub collective: Collective,
    /// N, where it is known.
    pub ranks: Option<u32>,
    /// The type of the elements.
    pub dtype: Option<DataType>,
    /// M.
    pub size_bytes: u64,
    /// The median host's time.
    pub median_s: f64,
    /// A single time beyond this is a slow host's.
    pub limit_s: f64,
    /// The least busbw of a healthy host; absent where the ranks are not known.
    #[serde(rename = "least_busbw_Bps")]
    pub least_busbw: Option<f64>,
}

/// A fleet as it is shown.
#[must_use]
pub fn fleet(fleet: Fleet, left_out: Vec<String>) -> FleetView {
    FleetView {
        schema: "collcost/fleet/1",
        hosts: fleet.hosts.len(),
        spread: six(fleet.spread.0),
        limit: six(fleet.limit.0),
        slow: fleet.hosts.iter().filter(|h| h.is_slow).map(|h| h.name.clone()).collect(),
        scores: fleet.hosts.into_iter().map(host).collect(),
        thresholds: fleet.thresholds.into_iter().map(threshold).collect(),
        left_out,
    }
}

fn host(host: Host) -> HostView {
    HostView {
        host: host.name,
        factor: six(host.factor.0),
        score: six(host.score.0),
        sizes: host.sizes,
        slow: host.is_slow,
    }
}

fn threshold(t: Threshold) -> ThresholdView {
    let factor = t.ranks.map(|n| t.collective.busbw_factor(n).0);
    ThresholdView {
        collective: t.collective,
        ranks: t.ranks,
        dtype: t.dtype,
        size_bytes: t.size.0,
        median_s: six(t.time.0),
        limit_s: six(t.limit.0),
        least_busbw: factor.map(|f| six(Volume::from(t.size).0 * f / t.limit.0)),
    }
}

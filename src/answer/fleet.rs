//! Hosts of a fleet side by side.

use serde::Serialize;

use super::six;
use crate::base::collective::Collective;
use crate::base::quantity::Volume;
use crate::machine::sample::DataType;
use crate::measure::verdict::{Fleet, Host, LEAST_HOSTS, Threshold};

/// Which hosts are slower than the others.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FleetView {
    /// `collcost/fleet/1`.
    pub schema: &'static str,
    /// The number of hosts that shared a size with others.
    pub hosts: usize,
    /// The spread of healthy hosts, as a logarithm: a robust standard deviation.
    pub spread: f64,
    /// How many spreads above the median a host must be to be reported.
    pub limit: f64,
    /// The hosts that are slow, the slowest first.
    pub slow: Vec<String>,
    /// The hosts whose results were wrong, whatever their times are.
    pub wrong: Vec<String>,
    /// All hosts, the slowest first.
    pub scores: Vec<HostView>,
    /// Thresholds for gates that see one size of one host.
    pub thresholds: Vec<ThresholdView>,
    /// What was not compared, with the reason.
    pub left_out: Vec<String>,
}

/// One host.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostView {
    /// Its name: the file.
    pub host: String,
    /// The time of its calls, divided by the median host's.
    pub factor: f64,
    /// The same as a number of spreads above the median.
    pub score: f64,
    /// The number of sizes that count.
    pub sizes: usize,
    /// The collective and the sizes at which it is slow, if it is not slow over all that it ran; the
    /// figures are of these then.
    pub part: Option<String>,
    /// Whether it is reported as slow.
    pub slow: bool,
    /// The number of wrong elements in its results.
    pub wrong: u64,
}

/// The upper limit of a healthy host's time.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThresholdView {
    /// The collective's id.
    pub collective: Collective,
    /// N, if it is known.
    pub ranks: Option<u32>,
    /// The type of the elements.
    pub dtype: Option<DataType>,
    /// M.
    pub size_bytes: u64,
    /// The median host's time.
    pub median_s: f64,
    /// A single time above this belongs to a slow host.
    pub limit_s: f64,
    /// The lowest busbw of a healthy host; absent if the ranks are not known, and for a barrier.
    #[serde(rename = "least_busbw_Bps")]
    pub least_busbw: Option<f64>,
}

/// A fleet as shown.
#[must_use]
pub fn fleet(fleet: Fleet, mut left_out: Vec<String>) -> FleetView {
    let alone = |host: &String| {
        format!(
            "{host}: no size of it was timed on {LEAST_HOSTS} hosts with the same collective, ranks, type and library"
        )
    };
    left_out.extend(fleet.alone.iter().map(alone));
    FleetView {
        schema: "collcost/fleet/1",
        hosts: fleet.hosts.len(),
        spread: six(fleet.spread.0),
        limit: six(fleet.limit.0),
        slow: fleet.hosts.iter().filter(|h| h.is_slow).map(|h| h.name.clone()).collect(),
        wrong: fleet.wrong,
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
        part: host.part.map(|p| format!("{}, {} to {}", p.collective.id(), p.from, p.to)),
        slow: host.is_slow,
        wrong: host.wrong,
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
        least_busbw: factor
            .filter(|_| t.size.0 > 0)
            .map(|f| six(Volume::from(t.size).0 * f / t.limit.0)),
    }
}

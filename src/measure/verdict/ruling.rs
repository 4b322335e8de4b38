//! Three verdicts: healthy, ill, cannot tell.
//!
//! A run is ill if sizes leave the band by more than two healthy machines of one kind differ. It is
//! healthy only if the band is narrow enough to have caught a slowdown: if the measured time were 1.5
//! times a healthy one, that healthy run would have to be faster than nine of ten; and if no size takes
//! longer than nine of ten healthy runs, on any machine of the kind. If neither holds, the verdict is "cannot
//! tell": half and twice the time are both possible.

use super::{Facts, Health, Point, shape};
use crate::base::quantity::{Bytes, Ratio};
use crate::base::stats::median;
use crate::machine::profile::NetworkKind;
use crate::machine::query::Query;
use crate::measure::expect::{Basis, Expectation};

/// The verdict on a run in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Ruling {
    /// As expected, and a slowdown of 1.5 would have been seen.
    #[serde(rename = "healthy")]
    Healthy,
    /// Not as expected.
    #[serde(rename = "ill")]
    Ill,
    /// What is known does not decide between the two.
    #[serde(rename = "cannot tell")]
    CannotTell,
}

impl Ruling {
    /// The word in reports.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Ill => "ill",
            Self::CannotTell => "cannot tell",
        }
    }
}

/// The slowdown that a healthy verdict rules out.
pub const SLOWDOWN: Ratio = Ratio(1.5);

/// By how much two healthy machines of one kind differ at a size, as a logarithm; 0 for a machine's own
/// runs.
///
/// From 28 published healthy curves: small calls on a virtual machine take up to 2.1 times as long as on
/// bare metal. Middle sizes differ by 30 % over several nodes; large ones differ by 15 % on one node and
/// 25 % over several, and by half as much again if software moves the data instead of an RDMA NIC. EFA's
/// plugin became twice as fast up to 256 MiB from release to release.
///
/// Of MPI between hosts see [`OF_HOSTS`].
pub(super) fn doubt(expected: &Expectation, of_hosts: bool, query: &Query, size: Bytes) -> f64 {
    use NetworkKind::{Efa, Tcp, Tcpx, Tcpxo};
    let (nodes, network) = (query.placement.nodes(), query.machine.network);
    match (expected.basis, nodes, size.0) {
        (Basis::Measured, ..) => 0.0,
        _ if of_hosts => OF_HOSTS,
        (.., 0..=0x10_0000) => 0.65,
        (_, 1, 0x10_0001..=0x100_0000) => 0.26,
        (_, _, ..=0x1000_0000) if network == Some(Efa) => 0.62,
        (.., 0x10_0001..=0x100_0000) => 0.36,
        (_, 1, _) => 0.158,
        _ if matches!(network, Some(Tcp | Tcpx | Tcpxo)) => 0.4,
        _ => 0.226,
    }
}

/// By how much healthy hosts on which MPI runs differ beyond the band, as a logarithm: one in fifty of 9,930 published
/// times is above the limit.
const OF_HOSTS: f64 = 0.9;

/// The verdict on a run whose times look like `health`.
pub(super) fn rule(points: &[Point], health: Health, facts: &Facts, no_call: bool) -> Ruling {
    match health {
        Health::WrongResults => return Ruling::Ill,
        // A machine faster than its profile is a different machine.
        Health::TooFast => return if no_call { Ruling::Ill } else { Ruling::CannotTell },
        // An upper bound includes waiting: it can prove a run healthy, never slow.
        Health::Slow if facts.at_most => return Ruling::CannotTell,
        Health::Slow => return Ruling::Ill,
        Health::Healthy => {}
    }
    let regions = shape::regions(points);
    let mut present = regions.iter().filter(|r| !r.is_empty()).rev();
    let Some(largest) = present.next() else { return Ruling::CannotTell };
    if points.iter().any(Point::is_late) {
        return Ruling::CannotTell;
    }
    let all =
        rules_out(largest) && present.all(|r| rules_out(r) || width(r) > 2.0 * SLOWDOWN.0.ln());
    if all { Ruling::Healthy } else { Ruling::CannotTell }
}

/// Whether sizes this far off cannot come from a slowed run.
fn rules_out(region: &[&Point]) -> bool {
    let over =
        |p: &&Point| p.error() - SLOWDOWN.0.ln() - (p.expected.low.0 / p.expected.time.0).ln();
    median(region.iter().map(over).collect()).is_some_and(|over| over < 0.0)
}

/// The width of the band, as a logarithm.
fn width(region: &[&Point]) -> f64 {
    let of = |p: &&Point| 2.0 * p.expected.half();
    median(region.iter().map(of).collect()).unwrap_or(f64::INFINITY)
}

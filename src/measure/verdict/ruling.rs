//! Three verdicts: healthy, ill, cannot tell.
//!
//! A run is ill where sizes leave the band by more than two healthy machines of one kind differ. It is
//! healthy only where the band is narrow enough to have caught a slowdown: what was measured, were it
//! 1.5 times a healthy run, would have to come from one that is faster than nine of ten. Where neither
//! holds, half and twice are both possible, and nothing is said.

use super::{Facts, Health, Point, shape};
use crate::base::quantity::Bytes;
use crate::base::stats::median;
use crate::machine::profile::NetworkKind;
use crate::measure::expect::Basis;

/// What is said of a run in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Ruling {
    /// As it should be, and a slowdown of 1.5 would have been seen.
    #[serde(rename = "healthy")]
    Healthy,
    /// Not as it should be.
    #[serde(rename = "ill")]
    Ill,
    /// What is known does not tell which.
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

/// A slowdown that a verdict of health rules out.
pub(super) const SLOWDOWN: f64 = 1.5;

/// By how much two healthy machines of one kind differ at a size, as a logarithm; a machine's own runs
/// do not.
///
/// Of 28 published healthy curves: a virtual machine's small calls take up to 2.1 times a bare one's; sizes
/// between differ by 30 % over several nodes, large ones by 15 % on one node and 25 % over several, and
/// half as much again where a program moves what NICs of RDMA move by themselves. EFA's plugin became
/// twice as fast up to 256 MiB from release to release.
pub(super) fn doubt(basis: Basis, nodes: u32, network: Option<NetworkKind>, size: Bytes) -> f64 {
    use NetworkKind::{Efa, Tcp, Tcpx, Tcpxo};
    match (basis, nodes, size.0) {
        (Basis::Measured, ..) => 0.0,
        (.., 0..=0x10_0000) => 0.65,
        (_, 1, 0x10_0001..=0x100_0000) => 0.26,
        (_, _, ..=0x1000_0000) if network == Some(Efa) => 0.62,
        (.., 0x10_0001..=0x100_0000) => 0.36,
        (_, 1, _) => 0.158,
        _ if matches!(network, Some(Tcp | Tcpx | Tcpxo)) => 0.4,
        _ => 0.226,
    }
}

/// The verdict on a run of which `health` is what its times look like.
pub(super) fn rule(points: &[Point], health: Health, facts: &Facts, no_call: bool) -> Ruling {
    match health {
        Health::WrongResults => return Ruling::Ill,
        // A machine that is faster than its profile is another machine.
        Health::TooFast => return if no_call { Ruling::Ill } else { Ruling::CannotTell },
        // An upper bound holds waiting: it proves health, and never the contrary.
        Health::Slow if facts.at_most => return Ruling::CannotTell,
        Health::Slow => return Ruling::Ill,
        Health::Healthy => {}
    }
    let regions = shape::regions(points);
    let mut present = regions.iter().filter(|r| !r.is_empty()).rev();
    let Some(largest) = present.next() else { return Ruling::CannotTell };
    let all = rules_out(largest) && present.all(|r| rules_out(r) || width(r) > 2.0 * SLOWDOWN.ln());
    if all { Ruling::Healthy } else { Ruling::CannotTell }
}

/// Whether sizes this far off rule out that they are of a slowed run.
fn rules_out(region: &[&Point]) -> bool {
    let over = |p: &&Point| p.error() - SLOWDOWN.ln() - (p.expected.low.0 / p.expected.time.0).ln();
    median(region.iter().map(over).collect()).is_some_and(|over| over < 0.0)
}

/// The width of the band, as a logarithm.
fn width(region: &[&Point]) -> f64 {
    let of = |p: &&Point| (p.expected.high.0 / p.expected.low.0).ln();
    median(region.iter().map(of).collect()).unwrap_or(f64::INFINITY)
}

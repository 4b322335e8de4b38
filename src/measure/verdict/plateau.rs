//! The part of the NICs' rate that large calls over several nodes reach.
//!
//! A machine without measurements has a wide band, but the wire still limits it: published healthy
//! clusters on InfiniBand, RoCE, EFA and Slingshot reach 77 to 97 % of all NICs of a node at sizes of
//! their plateau. Two nodes may exceed the wire's rate a little with a tree, or up to twice with
//! reductions in switches; if switches reduce, the part that is reached proves no run healthy there.

use super::likelihood::BAND;
use super::{Point, SLOWDOWN};
use crate::base::collective::Collective;
use crate::base::quantity::{Bandwidth, Bytes, Ratio, Seconds, Volume};
use crate::library::nccl::Algo;
use crate::machine::fabric::Tier;
use crate::machine::profile::{NetworkKind, line_rate};
use crate::machine::query::{Machine, Query};
use crate::measure::expect::{Basis, Expectation};
use crate::model::algorithm::RunBy;

/// A rate this close to that of a number of NICs counts as theirs.
const NEAR: f64 = 0.08;

/// What is asked about, the kind of library that ran it, and the only algorithm that the run's variables leave.
pub(super) type Ran<'a> = (&'a Query, RunBy, Option<Algo>);

/// The rate of a large call compared with that of the NICs.
pub(super) struct Plateau {
    busbw: Bandwidth,
    /// M over the time, if that is what crosses the NICs: a tree over two nodes, and sums in switches.
    once: Option<Bandwidth>,
    nics: u32,
    nic: Bandwidth,
    /// Whether that is known from a line rate.
    line: bool,
    healthy: Option<Healthy>,
    /// Healthy clusters with these NICs reach no less.
    least: f64,
    /// Whether the expectation alone is not certain enough.
    needed: bool,
    /// The part that a run reaches that takes what is expected.
    usual: f64,
}

/// The NICs of a machine.
pub(super) struct Nic {
    /// What one carries.
    pub rate: Bandwidth,
    /// Whether that is known from its line rate, not only from what one pair of ranks reached.
    pub line: bool,
    /// The part of it that healthy runs reach at least.
    least: f64,
}

/// What a NIC of the machine carries. A profile may state what one pair of ranks reached, or calls whose
/// data go through host memory; a NIC carries what its line rate says.
pub(super) fn nic(machine: &Machine) -> Option<Nic> {
    let reached = machine.fabric.tiers.last()?.link.bandwidth?;
    if line_rate(reached).is_some() {
        return Some(Nic { rate: reached, line: true, least: LEAST });
    }
    let origin = machine.origins.last().copied().unwrap_or_default();
    let raw = origin.efficiency.map(|(raw, ..)| raw).filter(|&raw| line_rate(raw).is_some());
    let Some(raw) = raw else { return Some(Nic { rate: reached, line: false, least: LEAST }) };
    let least = origin.least.map_or(LEAST, |part| (part.0 / CARRIED).min(LEAST));
    Some(Nic { rate: raw * Ratio(CARRIED), line: true, least })
}

/// The part of the wire's rate that healthy clusters reach: the middle, and the deviation of its logarithm.
#[derive(Clone, Copy)]
struct Healthy {
    part: f64,
    deviation: f64,
    /// A run slowed by 1.5 does not exceed this part.
    most: f64,
}

/// From 18 published plateaus over more than two nodes, or of calls without reduction: 0.66 to 1.02.
const WIRE: Healthy = Healthy { part: 0.86, deviation: 0.13, most: 0.83 };
/// From five of reductions over two nodes whose switches do not reduce (A100, MI300X, MI325X): 0.91 to 1.13.
const TWO: Healthy = Healthy { part: 1.02, deviation: 0.12, most: 1.0 };
/// The part of its NICs' rate that a machine reaches if they alone decide: 12 GB/s of 100 Gb/s, 24 of 200,
/// 48 of 400.
pub(super) const CARRIED: f64 = 0.96;

/// From this chunk size of a ring on, bytes decide the time.
const CHUNK: u64 = 16 << 20;
/// Healthy clusters reach no less. The lowest known normal value is a 200G NIC on the CPU's own PCIe: 16
/// of the 24 GB/s that it carries.
const LEAST: f64 = 0.63;

/// No link, NIC or path to one is slow where this part of the NICs' rate is reached: it is above that of most healthy
/// clusters.
const FULL: f64 = 0.9;

/// A run slowed by 1.5 may also take a few hundredths less.
const ABOVE: f64 = 1.05;

impl Plateau {
    /// The plateau at the largest size, if it has one.
    pub fn of(asked: Ran<'_>, points: &[Point]) -> Option<Self> {
        let point = points.last()?;
        Self::at(asked, (point.size, point.measured), &point.expected)
    }

    /// The plateau at a size with this time, if NICs decide.
    fn at(
        (query, run_by, only): Ran<'_>,
        (size, time): (Bytes, Seconds),
        expected: &Expectation,
    ) -> Option<Self> {
        use Collective::{AllGather, AllReduce, ReduceScatter};
        use NetworkKind::{Efa, Ib, Roce, Slingshot};
        let (shape, nodes) = (&query.shape, query.placement.nodes());
        let network = query.machine.network?;
        let large = size >= Bytes(CHUNK.saturating_mul(shape.ranks.into()));
        let tier = query.machine.fabric.tiers.last()?;
        let known = matches!(network, Ib | Roce | Efa | Slingshot)
            && matches!(shape.collective, AllReduce | AllGather | ReduceScatter)
            // Reductions on CPUs are slower than wires.
            && !run_by.is_mpi();
        if nodes < 2 || !known || !large {
            return None;
        }
        // A rank alone on its node uses the NICs close to it.
        let each = shape.ranks.div_ceil(nodes);
        let nics = tier.nics.map_or(each, |n| n.get().min(each));
        let factor = shape.collective.busbw_factor(shape.ranks).0;
        let adds = |tier: &Tier| tier.switch.as_ref().is_some_and(|s| s.alu);
        let inside = query.machine.has_nvls() || query.machine.fabric.tiers.iter().any(adds);
        let Nic { rate: nic, line, least } = nic(&query.machine)?;
        let reached = |time: Seconds| Volume::from(size).0 * factor / time.0;
        // Then busbw counts bytes that do not move. A ring or a tree that is forced adds nothing in switches.
        let sums = !matches!(only, Some(Algo::Ring | Algo::Tree));
        let passes = shape.collective == AllReduce && sums && (adds(tier) || nodes == 2 && inside);
        let healthy = match shape.collective {
            _ if passes => None,
            // The rate measured between one pair is not the wire's.
            _ if nodes == 2 && !line => None,
            AllReduce if nodes == 2 && only != Some(Algo::Ring) => Some(TWO),
            _ => Some(WIRE),
        };
        Some(Self {
            busbw: Bandwidth(reached(time)),
            once: passes.then(|| Volume::from(size) / time),
            usual: reached(expected.time) / (nic.0 * f64::from(nics)),
            nics,
            nic,
            healthy,
            line,
            least,
            needed: match expected.basis {
                Basis::Measured => false,
                // Of another number of nodes, for instance.
                Basis::SameBoard => deviation(expected) > WIRE.deviation,
                Basis::Transferred | Basis::Modelled => true,
            },
        })
    }

    /// The part of the NICs' rate that is reached.
    fn part(&self) -> f64 {
        self.busbw.0 / (self.nic.0 * f64::from(self.nics))
    }

    /// Whether the rate is too far below the wire's for a healthy cluster. Where less than of others is expected
    /// of this one, what is expected proves nothing: it is ill as far below that as others are.
    pub fn is_ill(&self) -> bool {
        let below = LEAST / WIRE.part * self.usual;
        self.needed && self.part() <= self.least.min(below)
    }

    /// Whether the rate is too close to the wire's for a slowed run. Where a slowed run of this machine reaches as
    /// much as others do undisturbed, as much proves nothing.
    pub fn is_healthy(&self) -> bool {
        let slowed = self.usual / SLOWDOWN.0;
        let proves = |healthy: Healthy| self.part() >= healthy.most.max(ABOVE * slowed);
        self.needed && self.healthy.is_some_and(proves)
    }

    /// Whether all NICs of a node carry what they can: every byte that busbw counts crosses them.
    pub fn is_full(&self) -> bool {
        let counted = self.once.is_none() && self.healthy.is_some_and(|h| h.part <= WIRE.part);
        // No more than the wire: above, the bytes took another way.
        self.line && counted && (FULL..=1.0 / CARRIED).contains(&self.part())
    }

    /// How many NICs carry the rate, if it is a whole number below all, and how many there are.
    pub fn whole(&self) -> Option<(u32, u32)> {
        let carried = self.once.unwrap_or(self.busbw).0 / (CARRIED * self.nic.0);
        let whole = carried.round();
        let near = whole >= 1.0 && (carried / whole - 1.0).abs() < NEAR;
        (near && whole < f64::from(self.nics)).then_some((whole as u32, self.nics))
    }

    /// `busbw of 44 GB/s is what 1 of 8 NICs carries`, or the part that is reached.
    pub fn words(&self) -> String {
        let (nic, nics) = (self.nic, self.nics);
        let all = nic * Ratio(f64::from(nics));
        let (rate, named, why) = match self.once {
            Some(algbw) => {
                let why = ", where a tree or sums in switches send each byte once".to_owned();
                // The algorithm is expected, not known.
                let ring = format!("; a ring would use {:.0} % of all", 100.0 * self.part());
                let fills = LEAST..=1.0 + NEAR;
                (algbw, "algbw", if fills.contains(&self.part()) { why + &ring } else { why })
            }
            None => (self.busbw, "busbw", String::new()),
        };
        if let Some((whole, nics)) = self.whole() {
            let carry = if whole > 1 { "carry" } else { "carries" };
            return format!(
                "{named} of {rate} is what {whole} of {nics} NICs of {nic} {carry}{why}"
            );
        }
        let part = 100.0 * rate.0 / all.0;
        format!("{named} of {rate} is {part:.0} % of what the NICs of a node carry ({all}){why}")
    }
}

/// What is known of a healthy call before it is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Known {
    /// ln of how much longer than is expected it takes.
    pub later: f64,
    /// The deviation of that.
    pub deviation: f64,
    /// Whether its NICs decide its time, and the remaining ones would if some were lost.
    pub by_nics: bool,
}

/// Combines the expectation and, where it is more certain, the wire's rate: two measurements of one thing,
/// each with its weight.
pub(super) fn known(asked: Ran<'_>, size: Bytes, expected: &Expectation) -> Known {
    let own = deviation(expected);
    let plateau = Plateau::at(asked, (size, expected.time), expected);
    // The rate measured between one pair of ranks is not the wire's; and where healthy runs are known to
    // reach less than elsewhere, the wire's rate says nothing of them.
    let plateau = plateau.filter(|p| p.line && p.least >= LEAST);
    let by_nics = plateau.is_some();
    let wire = plateau.filter(|p| p.needed).and_then(|p| p.healthy.map(|wire| (p.part(), wire)));
    match wire {
        Some((part, healthy)) => {
            let (mine, its) = (own.max(LEAST_OWN).powi(-2), healthy.deviation.powi(-2));
            Known {
                later: (part / healthy.part).ln() * its / (mine + its),
                deviation: (mine + its).sqrt().recip(),
                by_nics,
            }
        }
        None => Known { later: 0.0, deviation: own, by_nics },
    }
}

/// The deviation of an expectation's logarithm.
fn deviation(expected: &Expectation) -> f64 {
    2.0 * expected.half() / BAND
}

/// An expectation that is not of the machine itself is no more certain than this.
const LEAST_OWN: f64 = 0.02;

//! What part of the NICs' rate large calls over several nodes reach.
//!
//! Where nothing was measured of a machine its band is wide, yet a wire is a wire: published healthy
//! clusters on InfiniBand, RoCE, EFA and Slingshot reach 77 to 97 % of all NICs of a node at sizes of
//! their plateau. Two nodes may pass the wire by a tree or by sums in switches, so there nobody is
//! called healthy for what part of it they reach.

use super::Point;
use crate::base::collective::Collective;
use crate::base::quantity::{Bandwidth, Bytes, Volume};
use crate::machine::profile::NetworkKind;
use crate::machine::query::Query;
use crate::measure::expect::Basis;
use crate::model::algorithm::Library;

/// A rate this near to that of so many NICs is taken for it.
const NEAR: f64 = 0.08;

/// The rate of large calls beside that of the NICs.
pub(super) struct Plateau {
    busbw: Bandwidth,
    nics: u32,
    nic: Bandwidth,
    nodes: u32,
    /// Whether the expectation is not sure enough by itself.
    needed: bool,
}

/// A chunk of a ring from which on bytes decide.
const CHUNK: u64 = 16 << 20;
/// Healthy clusters reach no less: the lowest that is known to be normal is a 200G NIC at the CPU's own
/// PCIe, 16 of the 24 GB/s that it carries …
const LEAST: f64 = 0.63;
/// … and a run slowed by 1.5 reaches no more.
const MOST: f64 = 0.83;

impl Plateau {
    /// That of the largest size, where it is one.
    pub fn of(query: &Query, points: &[Point]) -> Option<Self> {
        use Collective::{AllGather, AllReduce, ReduceScatter};
        use Library::{Gloo, Mpich, OpenMpi};
        use NetworkKind::{Efa, Ib, Roce, Slingshot};
        let (shape, nodes) = (&query.shape, query.placement.nodes());
        let point = points.last()?;
        let network = query.machine.network?;
        let large = point.size >= Bytes(CHUNK.saturating_mul(shape.ranks.into()));
        let tier = query.machine.fabric.tiers.last()?;
        let known = matches!(network, Ib | Roce | Efa | Slingshot)
            && matches!(shape.collective, AllReduce | AllGather | ReduceScatter)
            // Sums on CPUs are slower than wires.
            && !matches!(query.library(), Some(OpenMpi | Mpich | Gloo));
        if nodes < 2 || !known || !large {
            return None;
        }
        // A rank without others beside it uses the NICs near to it.
        let each = shape.ranks.div_ceil(nodes);
        let nics = tier.nics.map_or(each, |n| n.get().min(each));
        let factor = shape.collective.busbw_factor(shape.ranks).0;
        Some(Self {
            busbw: Bandwidth(Volume::from(point.size).0 * factor / point.measured.0),
            nics,
            nic: tier.link.bandwidth?,
            nodes,
            needed: matches!(point.expected.basis, Basis::Transferred | Basis::Modelled),
        })
    }

    /// The part of the NICs' rate that is reached.
    fn part(&self) -> f64 {
        self.busbw.0 / (self.nic.0 * f64::from(self.nics))
    }

    /// Whether no healthy cluster is so far below the wire.
    pub fn is_ill(&self) -> bool {
        self.needed && self.part() <= LEAST
    }

    /// Whether a run that is slowed could not be so near to the wire.
    pub fn is_healthy(&self) -> bool {
        self.needed && self.nodes > 2 && self.part() >= MOST
    }

    /// How many NICs carry what is reached, where it is a whole number below all, and how many there are.
    pub fn whole(&self) -> Option<(u32, u32)> {
        // Of a NIC's rate transfers reach 96 %: 12 GB/s of 100 Gb/s, 24 of 200, 48 of 400.
        let carried = self.busbw.0 / (0.96 * self.nic.0);
        let whole = carried.round();
        let near = whole >= 1.0 && (carried / whole - 1.0).abs() < NEAR;
        (near && whole < f64::from(self.nics)).then_some((whole as u32, self.nics))
    }

    /// What lying there says for lost NICs, as ln of how seldom chance comes so near: once in six to one
    /// NIC, once in three to two; among many every rate is near to some number.
    pub fn evidence(&self) -> f64 {
        self.whole().map_or(0.0, |(whole, _)| -(2.0 * NEAR * f64::from(whole)).min(1.0).ln())
    }

    /// `busbw of 44 GB/s is what 1 of 8 NICs carries`, or the part that is reached.
    pub fn words(&self) -> String {
        let (busbw, nic, nics) = (self.busbw, self.nic, self.nics);
        if let Some((whole, nics)) = self.whole() {
            let carry = if whole > 1 { "carry" } else { "carries" };
            return format!("busbw of {busbw} is what {whole} of {nics} NICs of {nic} {carry}");
        }
        let all = nic * crate::base::quantity::Ratio(f64::from(nics));
        format!(
            "busbw of {busbw} is {:.0} % of what the NICs of a node carry ({all})",
            100.0 * self.part()
        )
    }
}

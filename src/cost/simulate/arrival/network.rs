//! The network between ranks: L and G of the tier between two of them, and the costs common to all
//! messages.

use std::ops::Add;

use super::Overheads;
use crate::base::error::{Error, Result};
use crate::base::quantity::{Bytes, Seconds};
use crate::machine::fabric::Fabric;
use crate::machine::link::{Times, Traffic};
use crate::machine::placement::Placement;
use crate::model::operations::Operations;

/// A time in whole picoseconds, so that simultaneous events are simultaneous on every platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Time(u64);

impl Time {
    pub fn of(seconds: f64) -> Self {
        Self((seconds * 1e12).round() as u64)
    }

    pub fn seconds(self) -> Seconds {
        Seconds(self.0 as f64 * 1e-12)
    }
}

impl Add for Time {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// The network between ranks.
pub(super) struct Network<'a> {
    fabric: &'a Fabric,
    tiers: Vec<Times>,
    ranks: u32,
    pub overhead: Time,
    pub gap: Time,
}

impl<'a> Network<'a> {
    pub fn new(operations: &Operations, fabric: &'a Fabric, overheads: Overheads) -> Result<Self> {
        let ranks = operations.ranks;
        let depth = fabric.depth(ranks)?;
        let tiers = fabric.tiers[..depth].iter().map(|tier| tier.times());
        let tiers = tiers.collect::<Result<Vec<Times>>>()?;
        let Overheads { overhead: Seconds(overhead), gap: Seconds(gap) } = overheads;
        let least = tiers.iter().map(|tier| tier.alpha).fold(f64::INFINITY, f64::min);
        if 2.0 * overhead > least {
            let (twice, alpha) = (Seconds(2.0 * overhead), Seconds(least));
            return Err(Error::input(format!("twice the overhead, {twice}, is above α, {alpha}"))
                .help("α is the total time of an empty message: L + 2·o"));
        }
        let (overhead, gap) = (Time::of(overhead), Time::of(gap));
        Ok(Self { fabric, tiers, ranks, overhead, gap })
    }

    /// L, and the time of the bytes after the first.
    pub fn times(&self, from: u32, to: u32, bytes: Bytes) -> (Time, Time) {
        let domain = |tier: usize, rank| {
            let per_node = self.fabric.tiers[tier].span.map_or(self.ranks, |span| span.get());
            let (ranks, order) = (self.ranks, self.fabric.order);
            Placement { ranks, per_node, order }.node_of(rank)
        };
        let mut tiers = 0..self.tiers.len();
        let joined = tiers.find(|&tier| domain(tier, from) == domain(tier, to));
        let tier = &self.tiers[joined.unwrap_or(self.tiers.len() - 1)];
        let behind = bytes.0.saturating_sub(1) as f64;
        let latency = Time::of(tier.alpha).0.saturating_sub(2 * self.overhead.0);
        (Time(latency), Time::of(tier.moving(behind, Traffic::ALONE)))
    }
}

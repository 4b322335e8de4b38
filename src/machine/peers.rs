//! How far away the other ranks are: how many of them are behind each tier.
//!
//! An all-to-all has different data for every peer, so it does not decompose over tiers: a rank
//! that sends to one peer after another pays for each peer's links (spiceMonkey/collective-comm 03
//! §2.2).

use crate::base::error::Result;
use crate::base::quantity::{Ratio, Seconds, Volume};
use crate::machine::fabric::Fabric;

/// Peers of a rank behind one tier, with the time to serve them one after another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Peers {
    /// The tier, from the innermost out.
    pub tier: usize,
    /// How many.
    pub count: u32,
    /// α of each message.
    pub latency: Seconds,
    /// The time of M/N for each over the tier's port, oversubscription included.
    pub bandwidth: Seconds,
}

impl Peers {
    /// Both terms.
    #[must_use]
    pub fn time(&self) -> Seconds {
        self.latency + self.bandwidth
    }
}

/// The classes of peers of rank 0, and the time of an all-to-all of M = `size` with each.
///
/// Ranks are placed in blocks and each has its own NIC.
///
/// # Errors
/// More ranks than the machine joins, or an unknown parameter of a tier in use.
pub fn classes(fabric: &Fabric, ranks: u32, size: Volume) -> Result<Vec<Peers>> {
    let depth = fabric.depth(ranks)?;
    let mut inside = 1;
    let mut found = Vec::with_capacity(depth);
    for (tier, links) in fabric.tiers[..depth].iter().enumerate() {
        let joined = links.span.map_or(ranks, |s| s.get().min(ranks));
        let count = joined.saturating_sub(inside);
        inside = joined.max(inside);
        if count == 0 {
            continue;
        }
        let each = size * Ratio(1.0 / f64::from(ranks));
        let bytes = each.0 * links.inverse()? * links.oversubscription.0;
        found.push(Peers {
            tier,
            count,
            latency: Seconds(f64::from(count) * links.alpha()?),
            bandwidth: Seconds(f64::from(count) * bytes),
        });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::quantity::Bandwidth;
    use crate::machine::fabric::Tier;

    #[test]
    fn one_tier_is_the_pairwise_exchange() {
        let fabric = Fabric::flat(Seconds(1e-6), Bandwidth(1e11));
        let found = classes(&fabric, 8, Volume(8e6)).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].count, 7);
        assert!((found[0].time().0 - 7.0 * (1e-6 + 1e6 / 1e11)).abs() < 1e-15);
        assert!(classes(&fabric, 1, Volume(1.0)).unwrap().is_empty());
    }

    #[test]
    fn a_full_domain_leaves_nobody_for_the_next() {
        let mut inner = Tier::new("a", Seconds(1e-6), Bandwidth(1e11));
        inner.span = std::num::NonZeroU32::new(4);
        let fabric = Fabric::new(vec![inner, Tier::new("b", Seconds(5e-6), Bandwidth(1e10))]);
        let counts = |n| {
            let found = classes(&fabric, n, Volume(1.0)).unwrap();
            found.iter().map(|p| (p.tier, p.count)).collect::<Vec<_>>()
        };
        assert_eq!(counts(4), [(0, 3)]);
        assert_eq!(counts(12), [(0, 3), (1, 8)]);
    }
}

//! Lower bounds that no algorithm can beat.
//!
//! Latency: in the time of one message a rank can pass a fact on to at most k others, where k counts
//! its ports of all tiers, and any number where messages share a port. So facts spread by a factor
//! k + 1, and N ranks need ⌈log_{k+1} N⌉ messages one after another.
//!
//! Data: reducing an element over N ranks takes at least N − 1 transfers of a partial result, and
//! distributing it N − 1 more. So an all-reduce sends 2(N − 1)·M in total, and the busiest rank
//! sends at least the average, 2(N − 1)/N·M (Patarasuk, Yuan, JPDC 69(2) 2009). That bounds the
//! maximum over ranks, not each rank (K1 of the notes on the textbooks). A switch that adds does
//! these transfers itself: then each rank still sends its contribution, or the result where it
//! keeps the sum: M. The same count over D domains of a tier bounds the traffic of their NICs: M
//! through those of each domain, and 2(D − 1)·M through all of them, so 2(D − 1)/D·M where all
//! domains are alike; M alone where the switch of that tier adds.
//! Reducing takes N − 1 additions per element, (N − 1)/N·M at the busiest of N ranks, unless a
//! switch adds.
//!
//! The bounds hold separately: their maximum bounds the time, their sum does not.

use std::num::NonZeroU32;

use crate::base::collective::Collective;
use crate::base::error::Result;
use crate::base::quantity::{Ratio, Seconds, Volume};
use crate::machine::fabric::{Discipline, Fabric, Order, Tier};
use crate::model::formula::{Ports, Shape};

/// The minimum cost of any algorithm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// Messages one after another, times the smallest α.
    pub latency: Seconds,
    /// Data through the narrowest cut.
    pub bandwidth: Seconds,
    /// Additions at the busiest rank; 0 if γ is unknown or a switch adds.
    pub compute: Seconds,
}

impl Bound {
    /// The largest of them.
    #[must_use]
    pub fn time(&self) -> Seconds {
        Seconds(self.latency.0.max(self.bandwidth.0).max(self.compute.0))
    }
}

/// The least n_α over all algorithms on equal links.
#[must_use]
pub fn least_messages(collective: Collective, ranks: u32, ports: Ports) -> u32 {
    match (ranks, collective) {
        (..=1, _) => 0,
        (_, Collective::SendRecv) => 1,
        _ => spread(ranks, u64::from(ports.sends(ranks - 1))),
    }
}

/// Rounds until a fact reaches `ranks` ranks if each tells `k` others per round.
fn spread(ranks: u32, k: u64) -> u32 {
    let mut reached = 1_u64;
    let mut rounds = 0;
    while reached < u64::from(ranks) {
        reached = reached.saturating_mul(k + 1);
        rounds += 1;
    }
    rounds
}

/// The smallest share of M that the busiest of `parties` equal parties sends or receives.
///
/// `adds` means that a switch reduces, or multicasts, for them.
#[must_use]
pub fn least_share(collective: Collective, parties: u32, adds: bool) -> Ratio {
    match collective {
        Collective::Barrier => Ratio(0.0),
        _ if parties <= 1 => Ratio(0.0),
        Collective::AllReduce if adds => Ratio(1.0),
        // busbw is defined as the rate of that share.
        other => other.busbw_factor(parties),
    }
}

/// The bound for `size` bytes over the ranks of a shape on a machine. If its root's links are faster,
/// no data take longer than on such links.
///
/// # Errors
/// More ranks than the machine joins, or an unknown parameter of a tier in use.
pub fn bound(shape: &Shape, size: Volume, fabric: &Fabric) -> Result<Bound> {
    let Shape { collective, ranks, .. } = *shape;
    let depth = fabric.depth(ranks)?;
    // One rank needs no links, whose parameters may be unknown.
    if ranks <= 1 {
        let nothing = Seconds(0.0);
        return Ok(Bound { latency: nothing, bandwidth: nothing, compute: nothing });
    }
    let tiers = &fabric.tiers[..depth];
    let adds = tiers.iter().any(adds_in_switch);
    let mut alpha = f64::INFINITY;
    for tier in tiers {
        alpha = alpha.min(tier.alpha()?);
    }
    // A switch that adds or multicasts reaches all ranks of its domain in one hop.
    let mut latency = f64::from(least_messages_on(fabric, collective, ranks)?) * alpha;
    for (tier, switch) in tiers.iter().filter_map(|t| Some((t, t.switch?))) {
        let hop = switch.alpha.map_or(0.0, |a| a.0);
        let domains = tier.span.map_or(1, |s| ranks.div_ceil(s.get()));
        let among = f64::from(least_messages(collective, domains, together(tiers))) * alpha;
        latency = latency.min(hop + among);
    }
    let mut bandwidth = rank_bound(collective, ranks, tiers, adds)?;
    if let ([tier], Collective::AllToAll) = (tiers, collective) {
        bandwidth = bandwidth.max(tier.wires.exchange(ranks).0 * tier.inverse()?);
    }
    for (below, tier) in tiers.iter().zip(&tiers[1..]) {
        let Some(span) = below.span else { continue };
        bandwidth = bandwidth.max(domain_bound(collective, ranks, fabric.order, tier, span.get())?);
        // Whatever happens inside domains, one message must cross, to another or to the switch.
        let hop = tier.switch.map_or(f64::INFINITY, |s| s.alpha.map_or(0.0, |a| a.0));
        latency = latency.max(tier.alpha()?.min(hop));
    }
    bandwidth /= shape.params.root_speedup.map_or(1.0, |r| r.0.max(1.0));
    if size.0 == 0.0 {
        bandwidth = 0.0;
    }
    let gamma = fabric.gamma.filter(|_| collective.reduces() && !adds);
    let additions = least_share(Collective::AllGather, ranks, false).0 * size.0;
    Ok(Bound {
        latency: Seconds(latency),
        bandwidth: Seconds(bandwidth * size.0),
        compute: Seconds(gamma.map_or(0.0, |g| additions * g.0)),
    })
}

/// Whether a switch adds for the ranks of a domain and multicasts the sums.
pub(crate) fn switch_adds(fabric: &Fabric) -> bool {
    adds_in_switch(&fabric.tiers[0])
}

/// The same for what the links of a tier join.
fn adds_in_switch(tier: &Tier) -> bool {
    tier.switch.is_some_and(|s| s.alu && s.multicast)
}

/// The same on the links of a machine.
///
/// # Errors
/// More ranks than the machine joins.
pub fn least_messages_on(fabric: &Fabric, collective: Collective, ranks: u32) -> Result<u32> {
    let tiers = &fabric.tiers[..fabric.depth(ranks)?];
    Ok(least_messages(collective, ranks, together(tiers)))
}

/// The messages that a rank may start at once: it has ports of its own on every tier, and those that share their rate
/// start any number.
fn together(tiers: &[Tier]) -> Ports {
    let each = tiers.iter().map(|tier| match tier.discipline {
        Discipline::Fair => u32::MAX,
        Discipline::Serial => tier.ports.sends(u32::MAX),
    });
    Ports::full(each.fold(0, u32::saturating_add))
}

/// Seconds per byte through all ports of one rank.
fn rank_bound(collective: Collective, ranks: u32, tiers: &[Tier], adds: bool) -> Result<f64> {
    let in_turns = tiers.iter().all(|t| t.ports.is_half()) && both_ways(collective);
    let mut rate = 0.0;
    let mut below: Option<NonZeroU32> = None;
    for tier in tiers {
        // A rank can spread what it sends over all NICs beside it.
        let driven = below.map_or(1, |span| tier.ports_of(1, span.get()));
        below = tier.span;
        let ports = match tier.ports {
            // Sending and receiving share them: at most two ports per partner are useful.
            Ports::Half(k) if in_turns => k.get().min(2 * (ranks - 1)),
            ports => ports.sends(ranks - 1),
        };
        // Of several slices all are alike, or as many links are not known to be the least.
        let inside = tier.span.map_or(ranks, |span| span.get().min(ranks));
        let torus = tier.wires.torus().filter(|_| ranks.is_multiple_of(inside));
        let slice = torus.and_then(|torus| torus.slice(inside));
        let links = slice.map_or(f64::INFINITY, |slice| slice.links_for(collective).0);
        rate += f64::from(ports.max(driven)).min(links) / tier.inverse()?;
    }
    let share = least_share(collective, ranks, adds).0;
    Ok(if in_turns { 2.0 * share } else { share } / rate)
}

/// Whether every rank must send as much as it receives.
fn both_ways(collective: Collective) -> bool {
    use Collective as C;
    matches!(collective, C::AllReduce | C::AllGather | C::ReduceScatter | C::AllToAll)
}

/// Seconds per byte through the NICs of the busiest domain.
fn domain_bound(
    collective: Collective,
    ranks: u32,
    order: Order,
    tier: &Tier,
    span: u32,
) -> Result<f64> {
    use Collective as C;
    let domains = ranks.div_ceil(span);
    let (most, fewest) = order.filled(ranks, span);
    let ports = f64::from(tier.ports.sends(ranks - 1).max(1));
    // A rank with several ports may use as many NICs; a NIC is no faster for that.
    let at_once = |own: u32| {
        let driven = f64::from(tier.ports_of(own, span));
        let own = f64::from(own) * ports;
        tier.nics.map_or(own, |nics| own.min(nics.get().into()).max(driven))
    };
    let rate = 1.0 / tier.inverse()?;
    let outside = |own: u32| f64::from(ranks - own.min(ranks)) / f64::from(ranks);
    let through = |own: u32| {
        let share = match collective {
            // Every rank of the domain has data for every rank outside.
            C::AllToAll => f64::from(own) * outside(own),
            // Each receives what the others have, or sends it.
            C::AllGather | C::ReduceScatter | C::Scatter | C::Gather => outside(own),
            // What it has must leave it, and the result must enter it.
            C::AllReduce => 1.0,
            _ => least_share(collective, domains, false).0,
        };
        share / (at_once(own) * rate)
    };
    Ok(match collective {
        // Only the root's domain passes it all; others may hold fewer ranks.
        C::Scatter | C::Gather => through(span),
        C::AllReduce if !adds_in_switch(tier) => {
            // Dealt in turn, domains differ by one rank; in blocks only the last may be smaller.
            let larger = match (ranks % domains, order) {
                (0, _) => domains,
                (more, Order::Cyclic) => more,
                (_, Order::Block) => domains - 1,
            };
            let [larger, smaller] = [larger, domains - larger].map(f64::from);
            let all = (larger * at_once(most) + smaller * at_once(fewest)) * rate;
            (2.0 * f64::from(domains - 1) / all).max(through(most)).max(through(fewest))
        }
        _ => through(most).max(through(fewest)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::quantity::Bandwidth;

    fn flat(collective: Collective, ranks: u32, bytes: f64) -> Bound {
        let fabric = Fabric::flat(Seconds(1e-6), Bandwidth(1e11));
        bound(&Shape::new(collective, ranks), Volume(bytes), &fabric).unwrap()
    }

    #[test]
    fn facts_spread_by_k_plus_one() {
        let rounds = |n, k| least_messages(Collective::AllReduce, n, Ports::full(k));
        assert_eq!((rounds(64, 1), rounds(64, 2), rounds(64, 3), rounds(64, 0)), (6, 4, 3, 1));
        assert_eq!((rounds(1, 1), rounds(2, 1), rounds(65, 1)), (0, 1, 7));
    }

    /// Bandwidth's bound of one byte: ranks with 500 B/s inside nodes of so many, and 12.5 B/s of their own out of them.
    fn nodes(ranks: u32, node: u32, order: Order, adds: bool) -> f64 {
        use crate::machine::fabric::Switch;
        let tier = |span, rate| Tier {
            span: NonZeroU32::new(span),
            ..Tier::new("link", Seconds(1e-6), Bandwidth(rate))
        };
        let alpha = Some(Seconds(1e-6));
        let switch = adds.then_some(Switch { alpha, bandwidth: None, multicast: true, alu: true });
        let tiers = vec![tier(node, 500.0), Tier { switch, ..tier(0, 12.5) }];
        let fabric = Fabric { order, ..Fabric::new(tiers) };
        let shape = Shape::new(Collective::AllReduce, ranks);
        bound(&shape, Volume(1.0), &fabric).unwrap().bandwidth.0
    }

    /// A small node passes no more than the others: `optimum` on the same links reaches these rates with trees.
    #[test]
    fn a_smaller_node_passes_what_it_must_and_no_average() {
        let [block, cyclic] = [Order::Block, Order::Cyclic];
        let near = |found: f64, time: f64| assert!((found / time - 1.0).abs() < 1e-12, "{found}");
        // 4, 4 and 2 ranks: two NICs send the vector once; all ten pass it four times.
        near(nodes(10, 4, block, false), 1.0 / 25.0);
        // 4, 3 and 3, four times through ten NICs.
        near(nodes(10, 4, cyclic, false), 4.0 / 125.0);
        // 4, 4 and 1: its NIC.
        near(nodes(9, 4, block, false), 1.0 / 12.5);
        // Equal nodes: the average, and their NICs alone where the network adds.
        near(nodes(12, 4, block, false), 4.0 / 3.0 / 50.0);
        near(nodes(12, 4, block, true), 1.0 / 50.0);
    }

    #[test]
    fn the_ring_meets_the_data_bound() {
        let bound = flat(Collective::AllReduce, 64, 1e9);
        assert_eq!(bound.bandwidth, Seconds(2.0 * 63.0 / 64.0 * 1e9 / 1e11));
        assert_eq!(bound.latency, Seconds(6.0 * 1e-6));
        assert_eq!(bound.time(), bound.bandwidth);
    }
}

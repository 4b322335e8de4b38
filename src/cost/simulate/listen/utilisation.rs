//! How much of the time ports are busy.

use crate::base::error::Result;
use crate::base::order::rising;
use crate::base::quantity::{Ratio, Seconds};
use crate::cost::simulate::{Listener, Timed};
use crate::machine::fabric::{Discipline, Fabric};
use crate::model::formula::Ports;
use crate::model::schedule::{Endpoint, Schedule};

/// Sums how long each rank sends and receives on each tier.
///
/// A port is busy from the start of a message to its end. With k ports a rank is fully busy if all
/// of them are; if ports are shared or there are as many as partners, if at least one message is
/// under way.
#[derive(Debug, Clone)]
pub struct Utilisation {
    tiers: Vec<Tier>,
}

/// Busy shares over the ranks on one tier.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shares {
    /// Of the ports that send.
    pub send: Share,
    /// Of the ports that receive.
    pub receive: Share,
}

/// A share of the time over all ranks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// On average.
    pub mean: Ratio,
    /// At the rank that idles most.
    pub least: Ratio,
    /// At the busiest rank.
    pub most: Ratio,
    /// The busiest rank; the first of several.
    pub busiest: u32,
}

#[derive(Debug, Clone)]
struct Tier {
    send: Side,
    receive: Side,
}

/// The ports of all ranks in one direction.
#[derive(Debug, Clone)]
enum Side {
    /// This many ports; the busy seconds of those of each rank, summed.
    Counted { ports: f64, busy: Vec<f64> },
    /// Messages that may overlap: when each was under way, by rank.
    Overlapping(Vec<Vec<(f64, f64)>>),
}

impl Utilisation {
    /// Without any messages of `schedule` on `fabric` yet.
    ///
    /// # Errors
    /// More ranks than the machine joins.
    pub fn new(schedule: &dyn Schedule, fabric: &Fabric) -> Result<Self> {
        let ranks = schedule.ranks();
        let depth = fabric.depth(ranks.max(1))?;
        let tiers = fabric.tiers[..depth].iter().map(|tier| {
            let side = match tier.ports {
                Ports::Full(k) | Ports::Half(k) if tier.discipline == Discipline::Serial => {
                    Side::Counted { ports: k.get().into(), busy: vec![0.0; ranks as usize] }
                }
                _ => Side::Overlapping(vec![Vec::new(); ranks as usize]),
            };
            Tier { send: side.clone(), receive: side }
        });
        Ok(Self { tiers: tiers.collect() })
    }

    /// The shares of `makespan` on a tier, counted from the innermost; `None` for a tier that does
    /// not exist, without ranks, and if nothing takes time.
    #[must_use]
    pub fn shares(&self, tier: usize, makespan: Seconds) -> Option<Shares> {
        let Tier { send, receive } = self.tiers.get(tier)?;
        if makespan.0 <= 0.0 {
            return None;
        }
        Some(Shares { send: send.share(makespan.0)?, receive: receive.share(makespan.0)? })
    }
}

impl Side {
    fn add(&mut self, endpoint: Endpoint, start: f64, end: f64) {
        let Endpoint::Rank(rank) = endpoint else { return };
        match self {
            Self::Counted { busy, .. } => busy[rank as usize] += end - start,
            Self::Overlapping(times) => times[rank as usize].push((start, end)),
        }
    }

    fn share(&self, makespan: f64) -> Option<Share> {
        let shares: Vec<f64> = match self {
            Self::Counted { ports, busy } => {
                busy.iter().map(|busy| busy / (ports * makespan)).collect()
            }
            Self::Overlapping(times) => times.iter().map(|t| union(t) / makespan).collect(),
        };
        let busiest = (0..shares.len()).rev().max_by(|&a, &b| shares[a].total_cmp(&shares[b]))?;
        Some(Share {
            mean: Ratio(shares.iter().sum::<f64>() / shares.len() as f64),
            least: Ratio(shares.iter().copied().fold(f64::INFINITY, f64::min)),
            most: Ratio(shares[busiest]),
            busiest: busiest as u32,
        })
    }
}

/// How long at least one of the intervals lasts.
fn union(times: &[(f64, f64)]) -> f64 {
    let mut sorted = times.to_vec();
    rising(&mut sorted, |a| a.0);
    let (mut sum, mut until) = (0.0, 0.0_f64);
    for (start, end) in sorted {
        sum += (end - start.max(until)).max(0.0);
        until = until.max(end);
    }
    sum
}

impl Listener for Utilisation {
    fn message(&mut self, message: &Timed<'_>) {
        // Messages through a switch use the ports of the innermost tier.
        let tier = self.tiers.get_mut(message.tier.unwrap_or(0));
        let Some(Tier { send, receive }) = tier else { return };
        send.add(message.from, message.start.0, message.end.0);
        receive.add(message.to, message.start.0, message.end.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_overlaps_counts_once() {
        assert_eq!(union(&[]), 0.0);
        assert_eq!(union(&[(5.0, 6.0), (0.5, 4.0), (1.0, 3.0), (3.5, 4.5)]), 5.0);
    }
}

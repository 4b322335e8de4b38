//! Schedules that nccl-tests runs but that no algorithm here has: rings over all rails, and a shift.
//!
//! ```text
//!   ring 0   0 → 1 → 2 → 3 ═► 4 → 5 → 6 → 7 ═► 0     N = 8 on two nodes, 4 rails:
//!   ring 1   1 → 2 → 3 → 0 ═► 5 → 6 → 7 → 4 ═► 1     ring k begins at rank k of a node,
//!   ring 2   2 → 3 → 0 → 1 ═► 6 → …                  and leaves it (═►) from another rank
//! ```
//!
//! Each ring has its part of the vector and the rule of [`ring`](crate::model::schedule::ring): in round t
//! the rank at position i sends chunk i − t. Each rank therefore forwards one chunk of every ring per
//! round, and all NICs of a node are in use at once.
//!
//! Source: NCCL 2.27 src/graph/rings.cc, a ring per channel, each leaving a node by its own NIC.

use crate::base::collective::Collective;
use crate::model::schedule::{Endpoint, Frame, Layout, Op, Run, Schedule, Sends};

/// Rings over the rails of nodes, all alike.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rails {
    collective: Collective,
    ranks: u32,
    /// Ranks on a node.
    node: u32,
    /// Rings.
    rails: u32,
}

impl Rails {
    /// The rings of an all-reduce, all-gather or reduce-scatter; `None` if nodes are not full or there
    /// is only one rail.
    pub(super) fn new(collective: Collective, ranks: u32, node: u32, rails: u32) -> Option<Self> {
        use Collective::{AllGather, AllReduce, ReduceScatter};
        let known = matches!(collective, AllReduce | AllGather | ReduceScatter);
        let full = node > 1 && ranks > node && ranks.is_multiple_of(node);
        let small = ranks.checked_mul(rails).is_some();
        (known && full && rails > 1 && small).then_some(Self { collective, ranks, node, rails })
    }

    /// The rank on a node where ring `rail` begins.
    fn first(self, rail: u32) -> u32 {
        let spread = u64::from(rail) * u64::from(self.node) / u64::from(self.rails);
        let first = if self.rails <= self.node { spread } else { u64::from(rail % self.node) };
        first as u32
    }

    fn position(self, rail: u32, rank: u32) -> u32 {
        let (node, local) = (rank / self.node, rank % self.node);
        node * self.node + (local + self.node - self.first(rail)) % self.node
    }

    fn rank(self, rail: u32, position: u32) -> u32 {
        let (node, local) = (position / self.node, position % self.node);
        node * self.node + (local + self.first(rail)) % self.node
    }
}

impl Schedule for Rails {
    fn frame(&self) -> Frame {
        let passes = if self.collective == Collective::AllReduce { 2 } else { 1 };
        let rounds = passes * (u64::from(self.ranks) - 1);
        Frame::new(self.collective, self.ranks, self.ranks * self.rails, rounds)
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        let (n, others) = (u64::from(self.ranks), u64::from(self.ranks) - 1);
        let gathers = self.collective == Collective::AllGather;
        let step = if gathers { round + others } else { round };
        let op = if step < others { Op::Reduce } else { Op::Copy };
        for rail in 0..self.rails {
            let here = u64::from(self.position(rail, rank));
            // The rank at position i holds the sum of block i + 1: blocks are named after it.
            let block = ((here + n - step % n) + n - 1) % n;
            let owner = self.rank(rail, block as u32);
            let next = self.rank(rail, ((here + 1) % n) as u32);
            out.push(Endpoint::Rank(next), op, [Run::one(owner * self.rails + rail)]);
        }
    }
}

/// Every rank sends its vector to the next: what `sendrecv_perf` runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shift {
    /// N.
    pub ranks: u32,
}

impl Schedule for Shift {
    fn frame(&self) -> Frame {
        let layout = Layout::Owned;
        Frame { layout, ..Frame::new(Collective::SendRecv, self.ranks, 1, 1) }
    }

    fn sends(&self, _: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        out.push(Endpoint::Rank((rank + 1) % self.ranks), Op::Copy, [Run::one(rank)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::schedule::verify;

    #[test]
    fn rings_over_rails_do_what_their_collective_promises() {
        for collective in [Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter]
        {
            for (ranks, node, rails) in [(16, 8, 8), (12, 4, 2), (8, 4, 8), (9, 3, 2), (6, 2, 5)] {
                let rings = Rails::new(collective, ranks, node, rails).unwrap();
                verify(&rings).unwrap_or_else(|e| panic!("{collective} {ranks} {rails}: {e}"));
            }
        }
        assert!(Rails::new(Collective::AllReduce, 12, 8, 8).is_none());
        assert!(Rails::new(Collective::Broadcast, 16, 8, 8).is_none());
    }

    #[test]
    fn each_ring_leaves_a_node_by_another_rank() {
        let rings = Rails::new(Collective::AllReduce, 16, 8, 8).unwrap();
        let mut sends = Sends::default();
        for rank in 0..16 {
            sends.clear();
            rings.sends(0, Endpoint::Rank(rank), &mut sends);
            let leaves = |to: Endpoint| matches!(to, Endpoint::Rank(to) if to / 8 != rank / 8);
            assert_eq!(sends.iter().filter(|t| leaves(t.to)).count(), 1, "rank {rank}");
        }
    }
}

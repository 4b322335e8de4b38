//! Rabenseifner's algorithm among 2^⌈lg N⌉ ranks, some of which are ghosts hosted by real ones.
//!
//! ```text
//!   N = 6       round 0   0 ◄─► 4   1 ◄─► 5   2 ◄─► 6   3 ◄─► 7      6 lives on 2, 7 on 3:
//!               round 1   0 ◄─► 2   1 ◄─► 3   4 ◄─► 6   5 ◄─► 7      nothing is sent
//!                                             4 ◄─► 2   5 ◄─► 3
//! ```
//!
//! A ghost has nothing of its own to add: the upper half of the vector, which its host would send
//! in the first exchange, simply stays where it is. From then on host and ghost have different
//! halves.

use std::cmp::Reverse;

use crate::base::collective::Collective::AllReduce;
use crate::model::schedule::digits::{Order, Shares};
use crate::model::schedule::{Endpoint, Frame, Schedule, Sends};

/// The all-reduce, farthest first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Padded {
    ranks: u32,
    all: Shares,
}

impl Padded {
    /// Among at most 2³¹ ranks.
    pub(super) fn new(ranks: u32) -> Self {
        let all = Shares::new(AllReduce, ranks.next_power_of_two(), 2, Order::Far);
        Self { ranks, all }
    }

    /// The rank that hosts `virtual_rank`.
    fn host(self, virtual_rank: u32) -> u32 {
        if virtual_rank < self.ranks { virtual_rank } else { virtual_rank - self.all.ranks() / 2 }
    }
}

impl Schedule for Padded {
    fn frame(&self) -> Frame {
        Frame { ranks: self.ranks, ..self.all.frame() }
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else { return };
        let (n, all) = (self.ranks, self.all.ranks());
        let ghost = Some(rank + all / 2).filter(|&ghost| ghost >= n && ghost < all);
        let mut messages = Vec::new();
        let mut one = Sends::default();
        for actor in std::iter::once(rank).chain(ghost) {
            one.clear();
            self.all.sends(round, Endpoint::Rank(actor), &mut one);
            for message in one.iter() {
                let Endpoint::Rank(to) = message.to else { continue };
                messages.push((self.host(to), message.op, message.runs.to_vec()));
            }
        }
        messages.retain(|&(to, ..)| to != rank);
        // Nearest first: the partner of a ghost, half of all ranks above its host's partner, comes
        // sooner.
        messages.sort_by_key(|&(to, ..)| Reverse(to));
        for (to, op, runs) in messages {
            out.push(Endpoint::Rank(to), op, runs);
        }
    }
}

//! The same schedule with the ranks renamed.

use std::num::NonZeroU32;

use crate::model::schedule::{Endpoint, Frame, Schedule, Sends, modulo};

/// A schedule with its roles given to other ranks. Shifted, to give it another root: rank r has the
/// role of r − shift modulo N. Dealt, for domains to which ranks are dealt in turn, D of G ranks each:
/// role domain·G + local is that of rank local·D + domain.
///
/// Chunks keep their numbers and move with their owners: the root of a scatter has the blocks in
/// the order root, root + 1, … If every rank has its own vector, as in an all-to-all, the chunk
/// numbers name ranks, so the schedule cannot be relabelled;
/// [`verify()`](crate::model::schedule::verify()) refuses the result.
#[derive(Debug, Clone)]
pub struct Relabel<S> {
    inner: S,
    shift: u32,
    /// G; 1 where all roles stay in order.
    group: u32,
}

impl<S: Schedule> Relabel<S> {
    /// `inner` with `root` modulo N as its root.
    pub fn new(inner: S, root: u32) -> Self {
        let n = inner.ranks().max(1);
        let shift = modulo(u64::from(root % n) + u64::from(n - inner.root() % n), n);
        Self { inner, shift, group: 1 }
    }

    /// `inner`, whose ranks are in domains of `group` one after another, with its ranks dealt to them
    /// in turn. `group` divides N.
    pub fn dealt(inner: S, group: NonZeroU32) -> Self {
        Self { inner, shift: 0, group: group.get() }
    }

    /// The rank that has the role of `rank` of the original.
    fn actor(&self, rank: u32) -> u32 {
        let n = self.inner.ranks();
        let dealt = rank % self.group * (n / self.group) + rank / self.group;
        modulo(u64::from(dealt) + u64::from(self.shift), n)
    }

    /// The rank of the original whose role `rank` has.
    fn part(&self, rank: u32) -> u32 {
        let n = self.inner.ranks();
        let dealt = modulo(u64::from(rank) + u64::from(n - self.shift), n);
        let domains = n / self.group;
        dealt % domains * self.group + dealt / domains
    }
}

impl<S: Schedule> Schedule for Relabel<S> {
    fn frame(&self) -> Frame {
        let inner = self.inner.frame();
        let stays = self.shift == 0 && self.group == 1;
        Frame {
            root: self.actor(inner.root),
            // The blocks of the original stay in place, so ranks and chunks no longer agree.
            turns: inner.turns && stays,
            mirrors: inner.mirrors && stays,
            // Shifted neighbours may wrap around the end, dealt ones are apart.
            keeps_order: inner.keeps_order && stays,
            ..inner
        }
    }

    fn owner(&self, chunk: u32) -> u32 {
        self.actor(self.inner.owner(chunk))
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let from = match from {
            Endpoint::Rank(rank) => Endpoint::Rank(self.part(rank)),
            switch @ Endpoint::Switch(_) => switch,
        };
        self.inner.sends(round, from, out);
        out.rename(|to| match to {
            Endpoint::Rank(rank) => Endpoint::Rank(self.actor(rank)),
            switch @ Endpoint::Switch(_) => switch,
        });
    }
}

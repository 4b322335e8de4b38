//! The same schedule with the ranks renamed.

use crate::model::schedule::{Endpoint, Frame, Schedule, Sends, modulo};

/// A schedule with its roles shifted to other ranks, to give it another root: rank r has the role
/// of r − shift modulo N.
///
/// Chunks keep their numbers and move with their owners: the root of a scatter has the blocks in
/// the order root, root + 1, … If every rank has its own vector, as in an all-to-all, the chunk
/// numbers name ranks, so the schedule cannot be relabelled;
/// [`verify()`](crate::model::schedule::verify()) refuses the result.
#[derive(Debug, Clone)]
pub struct Relabel<S> {
    inner: S,
    shift: u32,
}

impl<S: Schedule> Relabel<S> {
    /// `inner` with `root` modulo N as its root.
    pub fn new(inner: S, root: u32) -> Self {
        let n = inner.ranks().max(1);
        let shift = modulo(u64::from(root % n) + u64::from(n - inner.root() % n), n);
        Self { inner, shift }
    }

    /// The rank that has the role of `rank` of the original.
    fn actor(&self, rank: u32) -> u32 {
        modulo(u64::from(rank) + u64::from(self.shift), self.inner.ranks())
    }

    /// The rank of the original whose role `rank` has.
    fn part(&self, rank: u32) -> u32 {
        let n = self.inner.ranks();
        modulo(u64::from(rank) + u64::from(n - self.shift), n)
    }
}

impl<S: Schedule> Schedule for Relabel<S> {
    fn frame(&self) -> Frame {
        let inner = self.inner.frame();
        let stays = self.shift == 0;
        Frame {
            root: self.actor(inner.root),
            // The blocks of the original stay in place, so ranks and chunks no longer agree.
            turns: inner.turns && stays,
            mirrors: inner.mirrors && stays,
            // Shifted neighbours may wrap around the end.
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

//! The same schedule with the ranks renamed.

use crate::model::schedule::{Endpoint, Frame, Schedule, Sends, modulo};

/// A schedule with its roles assigned to other ranks: shifted, to give it another root, or
/// mirrored.
///
/// Chunks keep their numbers and move with their owners: the root of a scatter has the blocks in
/// the order root, root + 1, … If every rank has its own vector, as in an all-to-all, the chunk
/// numbers name ranks, so the schedule cannot be relabelled;
/// [`verify()`](crate::model::schedule::verify()) refuses the result.
#[derive(Debug, Clone)]
pub struct Relabel<S> {
    inner: S,
    map: Map,
}

#[derive(Debug, Clone, Copy)]
enum Map {
    /// Rank r has the role of r − shift modulo N.
    Shift(u32),
    /// Rank r has the role of N − 1 − r.
    Mirror,
}

impl<S: Schedule> Relabel<S> {
    /// `inner` with `root` modulo N as its root.
    pub fn new(inner: S, root: u32) -> Self {
        let n = inner.ranks().max(1);
        let shift = modulo(u64::from(root % n) + u64::from(n - inner.root() % n), n);
        Self { inner, map: Map::Shift(shift) }
    }

    /// `inner` from the other end: rank r does what N − 1 − r did.
    pub fn mirror(inner: S) -> Self {
        Self { inner, map: Map::Mirror }
    }

    /// `inner` with every rank's role taken by the rank `shift` higher.
    pub fn shift(inner: S, shift: u32) -> Self {
        let n = inner.ranks().max(1);
        Self { inner, map: Map::Shift(shift % n) }
    }

    /// The rank that has the role of `rank` of the original.
    fn actor(&self, rank: u32) -> u32 {
        let n = self.inner.ranks();
        match self.map {
            Map::Shift(shift) => modulo(u64::from(rank) + u64::from(shift), n),
            Map::Mirror => n.wrapping_sub(1).wrapping_sub(rank),
        }
    }

    /// The rank of the original whose role `rank` has.
    fn part(&self, rank: u32) -> u32 {
        let n = self.inner.ranks();
        match self.map {
            Map::Shift(shift) => modulo(u64::from(rank) + u64::from(n - shift), n),
            Map::Mirror => n.wrapping_sub(1).wrapping_sub(rank),
        }
    }
}

impl<S: Schedule> Schedule for Relabel<S> {
    fn frame(&self) -> Frame {
        let inner = self.inner.frame();
        let mirrors = matches!(self.map, Map::Mirror);
        let stays = matches!(self.map, Map::Shift(0));
        Frame {
            root: self.actor(inner.root),
            last_first: inner.last_first ^ mirrors,
            // The blocks of the original stay in place, so ranks and chunks no longer agree.
            turns: inner.turns && stays,
            mirrors: inner.mirrors && stays,
            // Mirrored neighbours are neighbours; shifted ones may wrap around the end.
            keeps_order: inner.keeps_order && (mirrors || stays),
            // The last message of a rank comes from the other side in a mirror.
            own: inner.own.filter(|_| !mirrors),
            ..inner
        }
    }

    fn owner(&self, chunk: u32) -> u32 {
        self.actor(self.inner.owner(chunk))
    }

    fn sends(&self, round: u64, from: Endpoint, out: &mut Sends) {
        let Endpoint::Rank(rank) = from else {
            self.inner.sends(round, from, out);
            return out.rename(|to| self.renamed(to));
        };
        self.inner.sends(round, Endpoint::Rank(self.part(rank)), out);
        out.rename(|to| self.renamed(to));
        if matches!(self.map, Map::Mirror) {
            out.sort_by_key(|to| distance(rank, to, self.inner.ranks()));
        }
    }
}

impl<S: Schedule> Relabel<S> {
    fn renamed(&self, endpoint: Endpoint) -> Endpoint {
        match endpoint {
            Endpoint::Rank(rank) => Endpoint::Rank(self.actor(rank)),
            switch @ Endpoint::Switch(_) => switch,
        }
    }
}

/// The distance from `from` up to `to` modulo N; switches come last.
pub(super) fn distance(from: u32, to: Endpoint, ranks: u32) -> u32 {
    match to {
        Endpoint::Rank(to) => modulo(u64::from(to) + u64::from(ranks - from), ranks),
        Endpoint::Switch(_) => ranks,
    }
}

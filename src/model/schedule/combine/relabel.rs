//! The same schedule with the ranks renamed.

use crate::model::schedule::{Endpoint, Frame, Schedule, Sends, modulo};

/// A schedule in which other ranks play the parts: moved on, to give it another root, or mirrored.
///
/// Chunks keep their numbers and move with their owners: the root of a scatter has the blocks in
/// the order root, root + 1, … Where every rank has a vector of its own, as in an all-to-all, the
/// chunk numbers name ranks, so it cannot be relabelled; [`verify()`](crate::model::schedule::verify())
/// refuses the result.
#[derive(Debug, Clone)]
pub struct Relabel<S> {
    inner: S,
    map: Map,
}

#[derive(Debug, Clone, Copy)]
enum Map {
    /// Rank r plays the part of r − shift modulo N.
    Shift(u32),
    /// Rank r plays the part of N − 1 − r.
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

    /// `inner` with every rank's part played by the one `shift` ranks on.
    pub fn shift(inner: S, shift: u32) -> Self {
        let n = inner.ranks().max(1);
        Self { inner, map: Map::Shift(shift % n) }
    }

    /// The rank that plays the part of `rank` of the original.
    fn actor(&self, rank: u32) -> u32 {
        let n = self.inner.ranks();
        match self.map {
            Map::Shift(shift) => modulo(u64::from(rank) + u64::from(shift), n),
            Map::Mirror => n.wrapping_sub(1).wrapping_sub(rank),
        }
    }

    /// The rank of the original whose part `rank` plays.
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
            // The blocks of the original stay where they are, so ranks and chunks no longer agree.
            turns: inner.turns && stays,
            // Mirrored neighbours are neighbours; moved ones may lie around the end.
            keeps_order: inner.keeps_order && (mirrors || stays),
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

/// How far on `to` lies from `from` modulo N; switches come last.
pub(super) fn distance(from: u32, to: Endpoint, ranks: u32) -> u32 {
    match to {
        Endpoint::Rank(to) => modulo(u64::from(to) + u64::from(ranks - from), ranks),
        Endpoint::Switch(_) => ranks,
    }
}

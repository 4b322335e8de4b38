//! Steps: the sequential messages that a closed form sums up.
//!
//! A machine with tiers needs more than the sum: the ranks that communicate in a step determine
//! which links it crosses and how many flows share a NIC. A fit needs the size of each message.

use super::edges::Edges;
use crate::model::formula::{Level, Rational};

/// A share of the whole vector: `chunks` of `of` equal parts.
///
/// Kept as two integers, so that sizes that do not divide evenly can be rounded to elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Parts taken.
    pub chunks: u64,
    /// Parts in all.
    pub of: u64,
}

impl Share {
    /// The whole vector.
    pub const ALL: Self = Self { chunks: 1, of: 1 };
    /// No data.
    pub const NONE: Self = Self { chunks: 0, of: 1 };

    /// `chunks` of `of` parts.
    #[must_use]
    pub fn new(chunks: impl Into<u64>, of: impl Into<u64>) -> Self {
        Self { chunks: chunks.into(), of: of.into() }
    }

    /// As a number.
    #[must_use]
    pub fn value(self) -> f64 {
        self.chunks as f64 / self.of as f64
    }

    /// As an exact fraction.
    #[must_use]
    pub fn exact(self) -> Rational {
        Rational::new(self.chunks.into(), self.of.into())
    }

    /// This share of one of `parts` equal parts of the vector.
    #[must_use]
    pub fn of_part(self, parts: impl Into<u64>) -> Self {
        Self { chunks: self.chunks, of: self.of * parts.into() }
    }

    /// Elements in the largest such message: the first parts are one element larger.
    #[must_use]
    pub fn elements(self, total: u64) -> u64 {
        let (small, larger) = (total / self.of, total % self.of);
        self.chunks * small + larger.min(self.chunks)
    }
}

/// Which ranks communicate in a step, as far as it affects the links that the step crosses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// Rank i sends to rank i + d mod N, all at once.
    Offset(u32),
    /// Rank i sends to its neighbours along a side of a torus, d ranks apart, all at once.
    Side(u32),
    /// Rank i sends to i + d for every d from `first` to `last`, all at once.
    Offsets {
        /// The least distance.
        first: u32,
        /// The greatest.
        last: u32,
    },
    /// Rank i sends to i xor d, all at once.
    Xor(u32),
    /// Even ranks i exchange with rank i + d mod N, all at once; N is even and d odd.
    Pairs(u32),
    /// The same among the ranks that remain after a fold: one of each of the first `pairs` pairs of
    /// neighbours, and all ranks after those pairs, renumbered in order.
    Folded {
        /// The distance among the renumbered ranks.
        distance: u32,
        /// Pairs in which one rank sits out.
        pairs: u32,
        /// Which of a pair remains: 0 the first, 1 the second.
        stays: u32,
    },
    /// Rank r < d sends to r + d: a tree that doubles (or, backwards, halves) the active ranks.
    Grow(u32),
    /// The first rank of every block of `of` ranks sends to the rank `by` < `of` after it, and with
    /// more than one at once also to those `apart` nearer: a tree whose subtrees are ranges of ranks.
    Split {
        /// Ranks in a block.
        of: u32,
        /// The distance to the farthest.
        by: u32,
        /// The distance between two; 0 if there is one.
        apart: u32,
    },
    /// Rank ⌊(i − 1)/2⌋ sends to rank i, for all i from `first` on and below `end`: levels of a heap.
    Heap {
        /// The first rank that is sent to.
        first: u32,
        /// The rank after the last.
        end: u32,
        /// Whether a rank sends to both of its children at once, instead of one after the other.
        both: bool,
    },
    /// Between rank 0 and ranks of other domains, one after another.
    Root,
    /// Edges of a tree laid in rank order: few cross a domain at once.
    Tree,
    /// Along the edges of trees: in `slots` slots, each as long as one message, every edge passes one
    /// message each way in which it is used.
    Edges {
        /// The trees.
        edges: Edges,
        /// Slots in which every edge is used once.
        slots: u64,
    },
    /// Rank i sends to i + d mod N, all at once, round by round for each skip d of a circulant graph.
    Skips,
    /// All ranks with all ranks.
    All,
    /// Between the ranks and their switch.
    Switch,
}

/// `count` equal messages one after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// How many.
    pub count: u64,
    /// Bytes through the busiest port, as a share of the vector.
    pub share: Share,
    /// Bytes that the busiest rank reduces, as a share of the vector.
    pub reduced: Share,
    /// Which ranks communicate.
    pub route: Route,
    /// Over which links, if the algorithm determines it.
    pub level: Level,
    /// Copies of the pattern, each with its part of `share` and over its own rail.
    pub rails: u32,
    /// Flows that leave each domain at once, for steps over [`Level::Outer`].
    pub flows: u32,
    /// Messages of `share` that a rank sends at once, each to another rank; those of one rank that
    /// sends to several, along [`Route::Root`].
    pub at_once: u32,
    /// The part of the messages that the busiest rank sends while it receives others; absent: as the route
    /// says.
    pub meets: Option<Share>,
}

impl Route {
    /// A round of a binomial tree whose subtrees are ranges of ranks, over the distance `by`.
    #[must_use]
    pub fn halves(by: u32) -> Self {
        Self::Split { of: by.saturating_mul(2), by, apart: 0 }
    }
}

impl Step {
    /// `count` messages of `share` between ranks.
    #[must_use]
    pub fn new(count: impl Into<u64>, share: Share, route: Route) -> Self {
        Self {
            count: count.into(),
            share,
            reduced: Share::NONE,
            route,
            level: Level::Flat,
            rails: 1,
            flows: 1,
            at_once: 1,
            meets: None,
        }
    }

    /// Whether sending ranks receive at the same time.
    #[must_use]
    pub fn goes_both_ways(&self) -> bool {
        self.meets() == Share::ALL
    }

    /// The part of its messages that the busiest rank sends while it receives others; along trees, and at a
    /// root, they take turns.
    #[must_use]
    pub fn meets(&self) -> Share {
        let tree = matches!(
            self.route,
            Route::Grow(_)
                | Route::Split { .. }
                | Route::Heap { .. }
                | Route::Tree
                | Route::Edges { .. }
                | Route::Root
        );
        self.meets.unwrap_or(if tree { Share::NONE } else { Share::ALL })
    }

    /// The same step, in which no rank sends while it receives.
    #[must_use]
    pub fn one_way(self) -> Self {
        self.meeting(Share::NONE)
    }

    /// The same step, in which the busiest rank sends this part of its messages while it receives others.
    #[must_use]
    pub fn meeting(self, part: Share) -> Self {
        Self { meets: Some(part), ..self }
    }

    /// The same step, with the arriving data added to those already there.
    #[must_use]
    pub fn reducing(self) -> Self {
        Self { reduced: self.share, ..self }
    }

    /// The same step, with `reduced` of the vector added.
    #[must_use]
    pub fn reducing_share(self, reduced: Share) -> Self {
        Self { reduced, ..self }
    }

    /// The same step, in which a rank sends `at_once` messages at once.
    #[must_use]
    pub fn at_once(self, at_once: u32) -> Self {
        Self { at_once, ..self }
    }

    /// The same message in a pipeline of `segments` along trees of `n` ranks: the first segment takes `first`
    /// slots, and each further one `each`.
    pub(crate) fn along(
        self,
        (edges, n): (Edges, u32),
        (first, each): (u64, u64),
        segments: u64,
        emit: &mut dyn FnMut(Self),
    ) {
        let further = (each * (segments - 1), each, self);
        for (count, slots, step) in [(first, first, self.meeting(edges.first_meets(n))), further] {
            if count > 0 {
                emit(Self { count, route: Route::Edges { edges, slots }, ..step });
            }
        }
    }

    /// The same step over other links.
    #[must_use]
    pub fn over(self, level: Level) -> Self {
        Self { level, ..self }
    }

    /// The same step between domains, with `flows` out of each at once; its route is one of domains.
    #[must_use]
    pub fn between_domains(self, flows: u32) -> Self {
        Self { level: Level::Outer, flows, ..self }
    }

    /// The same step, split over r rails.
    #[must_use]
    pub fn on_rails(self, rails: u32) -> Self {
        Self { rails, ..self }
    }
}

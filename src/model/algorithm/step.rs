//! Steps: the messages one after another that a closed form sums up.
//!
//! A machine with tiers needs more than the sum: which ranks talk in a step decides which links it
//! crosses and how many flows share a NIC. A fit needs the size of each message.

use crate::model::formula::{Level, Rational};

/// A share of the whole vector: `chunks` of `of` equal parts.
///
/// Kept as two whole numbers, so that sizes which do not divide can be rounded to elements.
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

    /// This share of a vector that is itself one of `parts` equal parts.
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

/// Who talks to whom in a step, as far as the links that it crosses depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// Rank i sends to rank i + d mod N, all at once.
    Offset(u32),
    /// Rank i sends to i + d for every d from `first` to `last`, all at once.
    Offsets {
        /// The least distance.
        first: u32,
        /// The greatest.
        last: u32,
    },
    /// Rank i sends to i xor d, all at once.
    Xor(u32),
    /// The same among the ranks that a fold leaves: of the first `pairs` pairs of neighbours the
    /// odd ranks, and everybody behind them, renumbered in order.
    Folded {
        /// The distance among the renumbered ranks.
        distance: u32,
        /// Pairs of which one rank sits out.
        pairs: u32,
    },
    /// Rank r < d sends to r + d: a tree that doubles (or, backwards, halves) the active ranks.
    Grow(u32),
    /// Between rank 0 and others of another domain, one after another.
    Root,
    /// Edges of a tree laid in rank order: few cross a domain at once.
    Tree,
    /// Everybody with everybody.
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
    /// Who talks to whom.
    pub route: Route,
    /// Over which links, where the algorithm decides it.
    pub level: Level,
    /// Copies of the pattern, each with its part of `share` and over its own rail.
    pub rails: u32,
    /// Flows that leave each domain at once, for steps over [`Level::Outer`].
    pub flows: u32,
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
        }
    }

    /// Whether the ranks that send receive meanwhile; along trees, and at a root, they take turns.
    #[must_use]
    pub fn goes_both_ways(&self) -> bool {
        !matches!(self.route, Route::Grow(_) | Route::Root | Route::Tree)
    }

    /// The same, with what arrives added to what is there.
    #[must_use]
    pub fn reducing(self) -> Self {
        Self { reduced: self.share, ..self }
    }

    /// The same, with `reduced` of the vector added.
    #[must_use]
    pub fn reducing_share(self, reduced: Share) -> Self {
        Self { reduced, ..self }
    }

    /// The same over other links.
    #[must_use]
    pub fn over(self, level: Level) -> Self {
        Self { level, ..self }
    }

    /// The same between domains, with `flows` out of each at once.
    #[must_use]
    pub fn between_domains(self, flows: u32) -> Self {
        Self { level: Level::Outer, flows, ..self }
    }

    /// The same, split over r rails.
    #[must_use]
    pub fn on_rails(self, rails: u32) -> Self {
        Self { rails, ..self }
    }
}

//! What was learned from measured machines, all of them or all but one.

use std::borrow::Cow;

use super::base::{Constants, Family};
use super::features::Group;
use super::series::Series;

/// What was learned from measured machines.
#[derive(Debug, Clone, PartialEq)]
pub struct Learned {
    /// In the order of [`Family::ALL`].
    pub(super) families: [Model; Family::ALL.len()],
}

/// Constants, the residual of each series over them, and the error on held-out machines.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Model {
    pub(super) constants: Constants,
    pub(super) series: Cow<'static, [Series]>,
    pub(super) bands: Bands,
}

/// Half the width of a band, as a logarithm, and the error there on held-out machines.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Band {
    pub(super) half: f64,
    pub(super) median: f64,
    pub(super) p90: f64,
}

impl Band {
    pub(super) const fn new(half: f64, median: f64, p90: f64) -> Self {
        Self { half, median, p90 }
    }

    /// The same, wider by this on both sides.
    pub(super) fn plus(self, more: f64) -> Self {
        Self { half: self.half + more, ..self }
    }

    /// Whichever is wider: several nodes that were only measured alone are known no better than one of them.
    pub(super) fn wider(self, one: Self) -> Self {
        if one.half > self.half { one } else { self }
    }
}

/// How much of the error at a seen size remains at other sizes: all of it at that size, soon the part
/// `kept`, which may exceed 1, decaying to 1/e every `octaves`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Gain {
    pub(super) kept: f64,
    pub(super) octaves: f64,
}

impl Gain {
    pub(super) const fn new(kept: f64, octaves: f64) -> Self {
        Self { kept, octaves }
    }

    pub(super) fn at(self, apart: f64) -> f64 {
        let apart = apart.abs();
        let soon = self.kept + (1.0 - self.kept) * (-apart).exp();
        soon * (-apart / self.octaves).exp()
    }
}

/// How many groups of machines there are.
pub(super) const GROUPS: usize = Group::ALL.len();

/// By group, one node or several, smaller or larger than the seen size.
pub(super) type Gains = [[[Gain; 2]; 2]; GROUPS];

/// The widths of every kind of query, first by group, then by one node or several.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Bands {
    /// By nearness of evidence and region of size.
    pub(super) near: [[[[Band; 3]; 4]; 2]; GROUPS],
    /// By smaller or larger than the seen size, and the distance in octaves.
    pub(super) seen: [[[[Band; 3]; 2]; 2]; GROUPS],
    /// What a seen size implies for others.
    pub(super) gains: Gains,
    /// By 2, 4 or 8 times the measured ranks, and region.
    pub(super) beyond: [[[[Band; 3]; 3]; 2]; GROUPS],
}

/// The widths of one query.
#[derive(Debug, Clone, Copy)]
pub(super) struct Widths {
    pub(super) near: [[Band; 3]; 4],
    pub(super) seen: [[Band; 3]; 2],
    pub(super) gains: [Gain; 2],
    pub(super) beyond: [[Band; 3]; 3],
}

impl Learned {
    /// The built-in model of all machines.
    #[must_use]
    pub fn built_in() -> &'static Self {
        &super::learned::LEARNED
    }

    pub(super) fn of(&self, family: Family) -> &Model {
        &self.families[family as usize]
    }
}

impl Model {
    /// `domain`: more ranks on one node than were ever measured together; beyond the measured ranks they
    /// use the widths of several nodes.
    pub(super) fn widths(&self, group: Group, several: bool, domain: bool) -> Widths {
        let (class, nodes) = (group as usize, usize::from(several));
        Widths {
            near: self.bands.near[class][nodes],
            seen: self.bands.seen[class][nodes],
            gains: self.bands.gains[class][nodes],
            beyond: self.bands.beyond[class][usize::from(several || domain)],
        }
    }
}

//! The answer of a policy, and the part of it that the closed forms can price.

use std::borrow::Cow;

use super::engines::Kernel;
use crate::base::collective::Collective;
use crate::base::quantity::{Bytes, Ratio, Seconds};

/// What a library runs for one call.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The library's own name of the algorithm that runs.
    pub name: Cow<'static, str>,
    /// The library's number for it, if it has one.
    pub id: Option<u32>,
    /// The backend and its kernel, if an inference engine chose.
    pub kernel: Option<Kernel>,
    /// The algorithms that the rules named first, if the library fell back at run time.
    pub fell_back: Vec<FellBack>,
    /// The rule that decided, in words with its numbers.
    pub rule: String,
    /// What runs as algorithms of this crate.
    pub runs: Runs,
    /// The library's own estimate, if it makes one.
    pub estimate: Option<Seconds>,
    /// How the library pipelines it, if that is known.
    pub pipeline: Option<Pipeline>,
    /// How to force it: options or variables of the library, one per line.
    pub force: Vec<String>,
    /// Notes.
    pub notes: Vec<Cow<'static, str>>,
}

/// How a library pipelines a call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pipeline {
    /// Bytes of the vector that move through the stages together; `None` if there are no stages, or the
    /// number is not known.
    pub segment: Option<Bytes>,
    /// The latency that the library itself counts for a call.
    pub latency: Seconds,
}

/// One fall-back from the algorithm that the rules named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FellBack {
    /// The library's name for the algorithm that the rules named.
    pub from: Cow<'static, str>,
    /// The library's number for it, if it has one.
    pub id: Option<u32>,
    /// Why it does not run.
    pub why: String,
}

/// What runs, as algorithms of this crate.
#[derive(Debug, Clone, PartialEq)]
pub enum Runs {
    /// These parts, one after another.
    Parts(Vec<Part>),
    /// Something that nothing here prices, and why.
    Unpriced(Cow<'static, str>),
}

/// One algorithm of a composition, or all of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// The operation of this part.
    pub collective: Collective,
    /// The ranks that take part.
    pub ranks: u32,
    /// The number of ranks that they are chosen from, if some ranks of the communicator are idle:
    /// for the pairs of a fold, and for the ranks that remain after it.
    pub of: Option<u32>,
    /// Whether these ranks are neighbours, one of many pairs.
    pub is_pair: bool,
    /// The element of which a rank gets at least one, if those without any take no part.
    pub least: Option<Bytes>,
    /// Where these ranks are.
    pub place: Where,
    /// The algorithm's id in the registry of `collective`.
    pub algorithm: &'static str,
    /// The radix of a tree, if the library sets it.
    pub radix: Option<u32>,
    /// Bytes of a segment of a pipeline; if absent, the vector is sent in one piece.
    pub segment: Option<Bytes>,
    /// Bytes on the wire for each byte of data, including a protocol's flags.
    pub wire: Ratio,
    /// The vector that it moves, over that of the call.
    pub moves: Ratio,
    /// Whether a pipeline uses the best number of segments instead.
    pub best_segments: bool,
}

/// Which ranks run a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Where {
    /// All of them.
    All,
    /// The ranks of each node, separately.
    InNode,
    /// One of each node.
    Leaders,
}

impl Choice {
    /// A choice that came straight from a rule.
    #[must_use]
    pub fn new(name: impl Into<Cow<'static, str>>, rule: impl Into<String>, runs: Runs) -> Self {
        Self {
            name: name.into(),
            id: None,
            kernel: None,
            fell_back: Vec::new(),
            rule: rule.into(),
            runs,
            estimate: None,
            pipeline: None,
            force: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// The choice for one rank, which has nobody to send to.
    pub(crate) fn alone(rule: &str) -> Self {
        Self::new("nothing", format!("one rank: {rule}"), Runs::Parts(Vec::new()))
    }

    /// Whether the same algorithm runs for the same reason, as for two sizes of one interval.
    #[must_use]
    pub fn is_alike(&self, other: &Self) -> bool {
        let from = |c: &Self| c.fell_back.iter().map(|f| f.from.clone()).collect::<Vec<_>>();
        self.name == other.name
            && self.id == other.id
            && self.runs == other.runs
            && from(self) == from(other)
    }
}

impl Runs {
    /// One algorithm over all ranks, its vector in one piece.
    #[must_use]
    pub fn whole(collective: Collective, ranks: u32, algorithm: &'static str) -> Self {
        Self::Parts(vec![Part::new(collective, ranks, Where::All, algorithm)])
    }

    /// Nothing here prices it.
    #[must_use]
    pub fn unpriced(why: impl Into<Cow<'static, str>>) -> Self {
        Self::Unpriced(why.into())
    }
}

impl Part {
    /// An algorithm with the usual parameters, its vector in one piece.
    #[must_use]
    pub fn new(collective: Collective, ranks: u32, place: Where, algorithm: &'static str) -> Self {
        Self {
            collective,
            ranks,
            of: None,
            is_pair: false,
            least: None,
            place,
            algorithm,
            radix: None,
            segment: None,
            wire: Ratio(1.0),
            moves: Ratio(1.0),
            best_segments: false,
        }
    }
}

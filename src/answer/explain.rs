//! Explanations: an algorithm derived step by step, a collective with all its algorithms, a topic.
//!
//! ```text
//!   ring: every rank sends one chunk of M/N to its right neighbour in each step
//!
//!   T = 2·(N − 1)·α + 2·(N − 1)/N·M/BW
//!     = 2·(64 − 1)·1 µs + 2·(64 − 1)/64·16 MiB/100 GB/s
//! ```

mod algorithm;
mod collective;
mod named;
mod topic;

use serde::Serialize;

pub use algorithm::{
    AlgorithmView, BoundView, Budget, FormView, Pipeline, PipelineRow, PortsView, RatesView,
    StepView, Term, algorithm,
};
pub(super) use collective::busbw_formula;
pub use collective::{AlgorithmRow, CollectiveView, State, collective, state, used_by};
pub use topic::{Block, TopicView, contradiction, topic};

use crate::answer::notes::Contradiction;

/// An answer to "why".
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Explanation {
    /// `collcost/explain/1`.
    pub schema: &'static str,
    /// The subject; the key `kind` says which sort it is.
    #[serde(flatten)]
    pub subject: Subject,
}

/// The subject of an explanation.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Subject {
    /// One algorithm of a collective on a machine.
    Algorithm(Box<AlgorithmView>),
    /// A collective with all its algorithms.
    Collective(Box<CollectiveView>),
    /// A page.
    Topic(TopicView),
}

impl Explanation {
    fn of(subject: Subject) -> Self {
        Self { schema: "collcost/explain/1", subject }
    }
}

/// A place where a text prints something that does not hold.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NoteView {
    /// `K1` … `K26`.
    pub id: &'static str,
    /// The subject.
    pub title: &'static str,
    /// Where it is printed.
    pub texts: Vec<&'static str>,
    /// The printed statement.
    pub printed: &'static str,
    /// The correct statement.
    pub holds: &'static str,
}

impl From<&'static Contradiction> for NoteView {
    fn from(c: &'static Contradiction) -> Self {
        Self {
            id: c.id,
            title: c.title,
            texts: c.texts.iter().map(|t| t.name()).collect(),
            printed: c.printed,
            holds: c.holds,
        }
    }
}

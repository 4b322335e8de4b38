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
pub use topic::{Block, TopicView, topic};

/// An answer to "why".
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Explanation {
    /// `collcost/explain/1`.
    pub schema: &'static str,
    /// The subject; the key `kind` says which sort it is.
    #[serde(flatten)]
    pub subject: Subject,
}

/// The subject of an explanation.
#[derive(Debug, Clone, Serialize)]
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

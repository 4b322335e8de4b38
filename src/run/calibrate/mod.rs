//! Measuring: which operations are run, how often, in which order, and what is kept of it.
//!
//! ```text
//!   Plan ── ops × sizes ──► passes: new processes, all blocks in a shuffled order
//!                             │ block by block, each kept as soon as it is measured
//!                             ├─ after the first pass: sizes between which time does not grow evenly
//!                             └─ then whatever is known worst, until all is known well or time is up
//! ```
//!
//! The runs are a [`Runner`](crate::run::execute::Runner)'s; processes, files and the terminal are the
//! caller's, who gives them as an [`Outside`]. What was measured goes to [`crate::measure::fit`].

mod bucket;
mod host;
mod links;
mod measure;
mod plan;
mod point;
mod refine;

pub use host::{Host, Intent, clock_step, idle_cpus, throttled};
pub use measure::{Launch, Outside, Progress, Worst, measure};
pub use plan::{Plan, design, ladder};
pub use point::Rates;

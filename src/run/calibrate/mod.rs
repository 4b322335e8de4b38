//! Measuring: which operations are run, how often, in which order, and what is saved.
//!
//! ```text
//!   Plan ── ops × sizes ──► passes: new processes, all blocks in a shuffled order
//!                             │ block by block, each kept as soon as it is measured
//!                             ├─ after the first pass: sizes between which time does not grow evenly
//!                             └─ then whatever is known worst, until all is known well or time is up
//! ```
//!
//! A [`Runner`](crate::run::execute::Runner) performs the runs; the caller provides processes,
//! files and the terminal as an [`Outside`]. The measurements go to [`crate::measure::fit`].

mod bucket;
mod groups;
mod host;
mod links;
mod measure;
mod plan;
mod point;
mod refine;

pub use groups::{Groups, Survey, ports, possible, survey, whole};
pub use host::{Host, Intent, clock_step, throttled};
pub use measure::{Launch, Outside, Progress, Worst, measure};
pub use plan::{Plan, design, ladder};
pub use point::Rates;

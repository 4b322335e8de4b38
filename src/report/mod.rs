//! What a person or a machine reads: one serialisable struct a question, rendered elsewhere.
//!
//! Every report names its schema, `collcost/<report>/1`; keys carry their unit; changes only add.

mod cost;
mod crossover;

pub use cost::{Cost, Flip, MachineView, QuestionView, Row, TierUse, TierView, cost};
pub use crossover::{Crossover, crossover};

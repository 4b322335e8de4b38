//! An observation with precomputed terms for the solver.

use super::parts::{Parts, Steps4};
use crate::base::collective::Collective;
use crate::machine::curve::residuals::lg;
use crate::machine::curve::{Observation, Placed, Steps};

#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub placed: Placed,
    pub between: bool,
    /// lg M.
    pub lg: f64,
    /// M in bytes.
    pub bytes: f64,
    /// The measured seconds.
    pub time: f64,
    /// f(N).
    pub factor: f64,
    /// s and s' of each form.
    pub steps: Steps4,
}

impl Row {
    pub(super) fn new(o: &Observation, collective: Collective) -> Self {
        let steps = Steps::ALL.map(|s| {
            let (inside, between) = s.count(o.placed);
            (inside.0, between.0)
        });
        Self {
            placed: o.placed,
            between: o.placed.between(),
            lg: lg(o.size),
            bytes: o.size.0 as f64,
            time: o.time.0,
            factor: collective.busbw_factor(o.placed.ranks).0,
            steps,
        }
    }

    /// ln(measured/computed).
    pub(super) fn residual(&self, parts: &Parts) -> f64 {
        (self.time / parts.time(self)).ln()
    }
}

/// The ranks of the rows, each once, in order.
pub(super) fn placed(rows: &[Row]) -> Vec<Placed> {
    let mut all: Vec<Placed> = rows.iter().map(|r| r.placed).collect();
    all.sort_unstable();
    all.dedup();
    all
}

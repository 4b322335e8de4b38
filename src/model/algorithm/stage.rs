//! Stages: segments flow one after another through several kinds of ports at once.
//!
//! ```text
//!   inside   ▐ 0 ▐ 1 ▐ 2 ▐                    the first segment takes all of `fill`;
//!   between      ▐  0  ▐  1  ▐  2  ▐          then the busiest kind of port decides:
//!   inside             ▐ 0 ▐  ▐ 1 ▐  ▐ 2 ▐    T = fill + (P − 1)·(its load per segment)
//! ```

use super::Step;

/// A pipeline whose stages hold different ports.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Stages {
    /// The first segment's messages, one after another.
    pub fill: Vec<Step>,
    /// The load of every segment on the busiest port of each kind; the level of a step gives the
    /// kind. Stages that use the same port are listed together: their loads add up.
    pub each: Vec<Step>,
}

impl Stages {
    /// All steps if the links are equal and every stage uses the one port of a rank.
    pub fn on_one_port(&self, segments: u32, emit: &mut dyn FnMut(Step)) {
        self.fill.iter().for_each(|&step| emit(step));
        let behind = u64::from(segments.saturating_sub(1));
        let further = self.each.iter().map(|&step| Step { count: step.count * behind, ..step });
        further.filter(|step| step.count > 0).for_each(emit);
    }
}

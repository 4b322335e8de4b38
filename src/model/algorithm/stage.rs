//! Stages: what flows through several kinds of ports at once, segment behind segment.
//!
//! ```text
//!   inside   ▐ 0 ▐ 1 ▐ 2 ▐                    the first segment takes all of `fill`;
//!   between      ▐  0  ▐  1  ▐  2  ▐          behind it the slowest kind of port decides:
//!   inside             ▐ 0 ▐  ▐ 1 ▐  ▐ 2 ▐    T = fill + (P − 1)·(what a segment asks of it)
//! ```

use super::Step;

/// A pipeline whose stages hold different ports.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Stages {
    /// What the first segment takes, one message after another.
    pub fill: Vec<Step>,
    /// What every segment asks of the busiest port of each kind, told apart by the level of the
    /// steps. Stages that hold one port stand in it together: their loads add up.
    pub each: Vec<Step>,
}

impl Stages {
    /// All of it where the links are equal and every stage holds the one port of a rank.
    pub fn on_one_port(&self, segments: u32, emit: &mut dyn FnMut(Step)) {
        self.fill.iter().for_each(|&step| emit(step));
        let behind = u64::from(segments.saturating_sub(1));
        let further = self.each.iter().map(|&step| Step { count: step.count * behind, ..step });
        further.filter(|step| step.count > 0).for_each(emit);
    }
}

//! The ranges of sizes over which NCCL makes the same choice.

use super::cost_model::CostModel;
use super::{Algo, Call, Chooser, Decision, Function, Proto};
use crate::base::quantity::Bytes;

/// Sizes over which algorithm and protocol are the same.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    /// The least size.
    pub from: Bytes,
    /// The greatest.
    pub to: Bytes,
    /// The choice at the least size; `None` is an error of NCCL's.
    pub first: Option<Decision>,
    /// The choice at the greatest size, perhaps with more channels.
    pub last: Option<Decision>,
}

/// The choices for all sizes between two.
///
/// Between two powers of two every cell's time is linear in the size. Therefore a cell that is the
/// fastest at both ends is the fastest between them, and halving finds each change to the byte.
/// (Near a change, times that round to the same float32 may alternate; one place is given.)
#[must_use]
pub fn ranges(chooser: &Chooser, function: Function, from: Bytes, to: Bytes) -> Vec<Range> {
    let at = |size| chooser.decide(&Call { function, size: Bytes(size), pipelined: 1 });
    let mut ranges: Vec<Range> = Vec::new();
    let mut start = from.0;
    for edge in edges(chooser, from.0, to.0) {
        divide((start, at(start)), (edge, at(edge)), &at, &mut ranges);
        start = edge + 1;
    }
    ranges
}

/// The last sizes before something other than the size changes, and the last of all.
fn edges(chooser: &Chooser, from: u64, to: u64) -> Vec<u64> {
    let classes = (0..25).map(|k| 64 << k);
    let models = chooser.models().map(CostModel::changes).unwrap_or_default();
    let changes = classes.chain([chooser.plateau()]).chain(models);
    let changes = changes.filter(|&s| from < s && s <= to);
    let mut edges: Vec<_> = changes.map(|s| s - 1).chain([to]).collect();
    edges.sort_unstable();
    edges.dedup();
    edges
}

type End = (u64, Option<Decision>);

fn divide(low: End, high: End, at: &impl Fn(u64) -> Option<Decision>, ranges: &mut Vec<Range>) {
    if cell(low.1) == cell(high.1) {
        return add(low, high, ranges);
    }
    if high.0 - low.0 == 1 {
        add(low, low, ranges);
        return add(high, high, ranges);
    }
    let middle = low.0 + (high.0 - low.0) / 2;
    // Both halves contain it, and equal choices become one range.
    let half = (middle, at(middle));
    divide(low, half, at, ranges);
    divide(half, high, at, ranges);
}

fn add((from, first): End, (to, last): End, ranges: &mut Vec<Range>) {
    match ranges.last_mut() {
        Some(range) if cell(range.last) == cell(first) => {
            range.to = Bytes(to);
            range.last = last;
        }
        _ => ranges.push(Range { from: Bytes(from), to: Bytes(to), first, last }),
    }
}

pub(super) fn cell(decision: Option<Decision>) -> Option<(Algo, Proto)> {
    decision.map(|d| (d.algo, d.proto))
}

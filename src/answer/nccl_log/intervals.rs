//! The tuner's choices by size, if a log has a table and no choices.

use super::basis::Basis;
use super::{IntervalView, pair};
use crate::base::quantity::Bytes;
use crate::library::nccl::{Call, Chooser, Function, ranges};

/// The sizes that are tried: 8 B to 8 GiB, each twice the one before.
const POWERS: std::ops::RangeInclusive<u32> = 3..=33;

/// Intervals of sizes with the same choice, by function; empty if there is no table to choose by.
///
/// To the byte if only one communicator gives the table; otherwise at powers of two.
pub(super) fn intervals(basis: &Basis) -> Vec<IntervalView> {
    if let [one] = basis.computed.as_slice() {
        return exact(&one.choosers[0].0);
    }
    let mut found: Vec<IntervalView> = Vec::new();
    for function in Function::ALL {
        for size in POWERS.map(|power| 1u64 << power) {
            let call = Call { function, size: Bytes(size), pipelined: 1 };
            let Some(choices) = chosen(basis, &call) else { return Vec::new() };
            match found.last_mut() {
                Some(last) if last.function == function.name() && last.choices == choices => {
                    last.to_bytes = size;
                }
                _ => found.push(IntervalView {
                    function: function.name(),
                    from_bytes: size,
                    to_bytes: size,
                    choices,
                }),
            }
        }
    }
    found
}

fn exact(chooser: &Chooser) -> Vec<IntervalView> {
    let (from, to) = (Bytes(1 << POWERS.start()), Bytes(1 << POWERS.end()));
    let of = |function| {
        let ranges = ranges(chooser, function, from, to).into_iter();
        ranges.map(move |range| IntervalView {
            function: function.name(),
            from_bytes: range.from.0,
            to_bytes: range.to.0,
            choices: range.first.iter().map(|d| pair(d.algo, d.proto)).collect(),
        })
    };
    Function::ALL.into_iter().flat_map(of).collect()
}

fn chosen(basis: &Basis, call: &Call) -> Option<Vec<String>> {
    if !basis.computed.is_empty() {
        let decisions = basis.computed.iter().filter_map(|c| c.choosers[0].0.decide(call));
        let mut cells: Vec<_> = decisions.map(|d| (d.algo, d.proto)).collect();
        cells.sort_unstable();
        cells.dedup();
        return Some(cells.into_iter().map(|(algo, proto)| pair(algo, proto)).collect());
    }
    let bounds = basis.bounds.as_ref()?;
    Some(bounds.allowed(call).cells.into_iter().map(|(algo, proto)| pair(algo, proto)).collect())
}

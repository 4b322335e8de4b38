//! The algorithms that Open MPI's algorithms fall back to when they see the call.
//!
//! Source: open-mpi/ompi v4.1.6, `ompi/mca/coll/base/coll_base_{allreduce,bcast,reduce,allgather,
//! allgatherv,reduce_scatter_block,alltoall,alltoallv}.c`: the tests at the head of each function.

use std::borrow::Cow;

use super::Decision;
use super::operations::Rules;
use crate::base::quantity::Bytes;
use crate::library::{Call, FellBack};

/// The number of the algorithm that finally runs, and the fall-backs on the way.
pub(super) fn settle(rules: &Rules, decision: &Decision, call: &Call) -> (u32, Vec<FellBack>) {
    let mut id = decision.id;
    let mut turns = Vec::new();
    // The next algorithm may fall back too: segmented ring, ring, doubling.
    while let Some((next, why)) = turn(rules, id, decision.segment, call) {
        let from = rules.algorithm(id).map_or("", |k| k.name);
        turns.push(FellBack { from: Cow::Borrowed(from), id: Some(id), why });
        id = next;
    }
    (id, turns)
}

/// Elements in a segment of so many bytes; `None`: the vector is not cut.
///
/// Source: v4.1.6 and v6.0.x `coll_base_functions.h`, `COLL_BASE_COMPUTED_SEGCOUNT`.
fn elements(segment: u64, call: &Call) -> Option<u64> {
    let element = call.element.0.max(1);
    let (whole, rest) = (segment / element, segment % element);
    (whole > 0).then_some(whole + u64::from(rest > element / 2))
}

/// The bytes of a segment that should have so many, in whole elements; `None`: the vector is not cut.
pub(super) fn segment(bytes: u64, call: &Call) -> Option<Bytes> {
    elements(bytes, call)?.checked_mul(call.element.0.max(1)).map(Bytes)
}

/// The algorithm that `id` runs instead for this call, and why.
fn turn(rules: &Rules, id: u32, segment: u64, call: &Call) -> Option<(u32, String)> {
    let known = rules.algorithm(id)?;
    let to = |name: &str| {
        let at = rules.algorithms.iter().position(|k| k.name == name)?;
        u32::try_from(at + 1).ok()
    };
    let (ranks, count) = (u64::from(call.ranks), call.count());
    let few = || format!("{count} elements are fewer than {ranks} ranks");
    let power = greatest_power(call.ranks);
    match (rules.name, known.name) {
        ("allreduce", "segmented_ring") => {
            // Without segments, one segment holds the whole vector.
            let each = elements(segment, call).unwrap_or(count);
            let why = format!("{count} elements are fewer than {ranks} segments of {each}");
            (count > 0 && count < ranks.saturating_mul(each)).then_some((to("ring")?, why))
        }
        ("allreduce", "ring") if count < ranks => Some((to("recursive_doubling")?, few())),
        ("allreduce", "rabenseifner") | ("reduce", "rabenseifner") => {
            let linear = to("basic_linear").or_else(|| to("linear"))?;
            if !call.commutative {
                return Some((linear, "the operation does not commute".to_owned()));
            }
            let why = format!(
                "{count} elements are fewer than {power}, the largest power of two in {ranks} ranks"
            );
            (count < power || (rules.name == "reduce" && power < 2)).then_some((linear, why))
        }
        ("bcast", "scatter_allgather" | "scatter_allgather_ring") if count < ranks && ranks > 1 => {
            Some((to("basic_linear")?, few()))
        }
        ("bcast", "split_binary_tree") => {
            let half = count / 2;
            let small = half == 0 || segment > half.saturating_mul(call.element.0);
            let why = format!("half of {count} elements does not fill a segment");
            // The pipeline is a chain with a fan-out of 1.
            small.then_some((to("pipeline")?, why))
        }
        ("allgather", "recursive_doubling") if !call.ranks.is_power_of_two() => {
            Some((to("bruck")?, format!("{ranks} ranks are not a power of two")))
        }
        ("allgather" | "allgatherv", "neighbor") if call.ranks % 2 == 1 => {
            Some((to("ring")?, format!("{ranks} ranks are an odd number")))
        }
        // Every algorithm calls the same function in place, which exchanges with one rank after another.
        ("alltoall" | "alltoallv", name) if call.in_place && name != "pairwise" => {
            Some((to("pairwise")?, "in place, ranks exchange with one after another".to_owned()))
        }
        ("reduce_scatter_block", "recursive_halving") if !call.commutative => {
            Some((to("basic_linear")?, "the operation does not commute".to_owned()))
        }
        _ => None,
    }
}

/// Every M at which one of these tests may change its answer.
pub(super) fn edges(call: &Call) -> Vec<Bytes> {
    let each = call.element.0.max(1);
    let elements = [call.ranks.into(), greatest_power(call.ranks), 1, 2];
    let sizes = elements.into_iter().filter_map(|count: u64| count.checked_mul(each));
    // A part of an element counts as one.
    sizes.chain([1]).map(Bytes).collect()
}

/// The same for tests of segments of `each` bytes.
pub(super) fn segment_edges(call: &Call, each: u64) -> Vec<Bytes> {
    let element = call.element.0.max(1);
    // As many segments as ranks; halves that fill a segment.
    let ring = segment(each, call).and_then(|bytes| bytes.0.checked_mul(call.ranks.into()));
    let halves = each.div_ceil(element).checked_mul(2).and_then(|n| n.checked_mul(element));
    [ring, halves].into_iter().flatten().map(Bytes).collect()
}

/// The greatest power of two that is not above `ranks`.
pub(super) fn greatest_power(ranks: u32) -> u64 {
    1 << ranks.max(1).ilog2()
}

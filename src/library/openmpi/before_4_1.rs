//! The fixed decisions before 4.1: formulas of bytes and ranks instead of tables.
//!
//! Source: open-mpi/ompi v4.0.7, `ompi/mca/coll/tuned/coll_tuned_decision_fixed.c`; the thresholds
//! of all-to-all are the defaults in `coll_tuned_component.c`. Those of v2.0.4 and v3.1.6 are the same.

use super::operations::Rules;
use super::{Decision, Version};
use crate::base::collective::Collective as C;
use crate::base::quantity::Bytes;
use crate::library::{Call, Flavour};

/// How many of an operation's algorithms a release before 4.1 has at most: the first ones.
///
/// Source: open-mpi/ompi v2.0.4, v3.1.6 and v4.0.7, `ompi/mca/coll/tuned/coll_tuned_*_decision.c`.
pub(super) fn algorithms(operation: &str, version: Version) -> usize {
    let old = version == Version::V3;
    match operation {
        "allreduce" if old => 5,
        "bcast" | "reduce" if old => 6,
        "reduce_scatter" if old => 3,
        "reduce_scatter_block" if old => 0,
        "scatter" => 2,
        _ => usize::MAX,
    }
}

/// What 4.0 decides for an operation.
pub(super) fn decide(rules: &Rules, call: &Call) -> Decision {
    let found = match (call.collective, call.flavour) {
        (C::AllReduce, _) => all_reduce(call),
        (C::AllToAll, Flavour::Vector) => rule("pairwise", 0, "any size".into()),
        (C::AllToAll, _) => all_to_all(call),
        (C::Broadcast, _) => broadcast(call),
        (C::Reduce, _) => reduce(call),
        (C::ReduceScatter, Flavour::Plain) => reduce_scatter(call),
        (C::ReduceScatter, _) => rule("basic_linear", 0, "any size".into()),
        (C::AllGather, _) => all_gather(call),
        (C::Gather, _) => gather(call),
        (C::Scatter, _) => scatter(call),
        _ => barrier(call),
    };
    let at = rules.algorithms.iter().position(|k| k.name == found.name).unwrap_or_default();
    let id = at as u32 + 1;
    let rule = format!("{}: algorithm {id}", found.why);
    Decision { id, segment: found.segment, fan: 0, radix: None, rule }
}

struct Found {
    name: &'static str,
    segment: u64,
    why: String,
}

fn rule(name: &'static str, segment: u64, why: String) -> Found {
    Found { name, segment, why }
}

/// Largest segment of an all-reduce.
const MIB: u64 = 1 << 20;

fn all_reduce(call: &Call) -> Found {
    let (bytes, count, ranks) = (call.size.0, call.count(), u64::from(call.ranks));
    if bytes < 10_000 {
        return rule("recursive_doubling", 0, "below 10000 bytes".into());
    }
    if call.commutative && count > ranks {
        if ranks.saturating_mul(MIB) >= bytes {
            return rule("ring", 0, format!("10000 bytes or more, at most {ranks} MiB"));
        }
        return rule("segmented_ring", MIB, format!("above {ranks} MiB, one MiB per rank"));
    }
    let why = "10000 bytes or more, at most one element per rank, or an operation that does not \
               commute";
    rule("nonoverlapping", 0, why.into())
}

fn all_to_all(call: &Call) -> Found {
    let block = call.block().0;
    match call.ranks {
        2 => rule("two_proc", 0, "2 ranks".into()),
        13.. if block < 200 => {
            rule("modified_bruck", 0, "above 12 ranks, below 200 bytes for each peer".into())
        }
        _ if block < 3000 => rule("linear", 0, "below 3000 bytes for each peer".into()),
        _ => rule("pairwise", 0, "3000 bytes or more for each peer".into()),
    }
}

/// Whether the number of ranks is below the line a·bytes + b.
fn under(call: &Call, a: f64, b: f64) -> bool {
    f64::from(call.ranks) < a * call.size.0 as f64 + b
}

/// The lines of the broadcast, 1/B and ranks: pipelines of 128, 64 and 16 KiB are below them.
const BROADCAST: [(f64, f64); 3] = [(1.6134e-6, 2.1102), (2.3679e-6, 1.1787), (3.2118e-6, 8.7936)];

fn broadcast(call: &Call) -> Found {
    let (bytes, ranks) = (call.size.0, call.ranks);
    let line = |(a, b): (f64, f64)| under(call, a, b);
    let words = |(a, b): (f64, f64)| format!("{ranks} ranks are below {a:e}·bytes + {b}");
    let [large, middle, small] = BROADCAST;
    if bytes < 2048 || call.count() <= 1 {
        return rule("binomial", 0, "below 2048 bytes, or one element".into());
    }
    if bytes < 370_728 {
        return rule("split_binary_tree", 1 << 10, "2048 to 370727 bytes".into());
    }
    if line(large) {
        return rule("pipeline", 128 << 10, words(large));
    }
    if ranks < 13 {
        return rule("split_binary_tree", 8 << 10, "370728 bytes or more, below 13 ranks".into());
    }
    if line(middle) {
        return rule("pipeline", 64 << 10, words(middle));
    }
    if line(small) {
        return rule("pipeline", 16 << 10, words(small));
    }
    rule("pipeline", 8 << 10, "370728 bytes or more, above all lines of bytes and ranks".into())
}

/// The lines of the reduce, in ranks per KiB and ranks.
const REDUCE: [(f64, f64); 4] =
    [(0.6016, 1.3496), (0.0410, 9.7128), (0.0422, 1.1614), (0.0033, 1.6761)];

fn reduce(call: &Call) -> Found {
    let (bytes, ranks) = (call.size.0, call.ranks);
    if !call.commutative {
        return match ranks < 12 && bytes < 2048 {
            true => rule("linear", 0, "does not commute, below 12 ranks and 2048 bytes".into()),
            false => rule("in-order_binary", 0, "does not commute".into()),
        };
    }
    let above = |i: usize| f64::from(ranks) > REDUCE[i].0 / 1024.0 * bytes as f64 + REDUCE[i].1;
    let words = |i: usize, is: &str| {
        format!("{ranks} ranks are {is} {}·KiB + {}", REDUCE[i].0, REDUCE[i].1)
    };
    if ranks < 8 && bytes < 512 {
        return rule("linear", 0, "below 8 ranks and 512 bytes".into());
    }
    if (ranks < 8 && bytes < 20_480) || bytes < 2048 || call.count() <= 1 {
        let why = "below 2048 bytes, or below 8 ranks and 20480 bytes, or one element";
        return rule("binomial", 0, why.into());
    }
    if above(0) {
        return rule("binomial", 1 << 10, words(0, "above"));
    }
    if above(1) {
        return rule("pipeline", 1 << 10, words(1, "above"));
    }
    if above(2) {
        return rule("binary", 32 << 10, words(2, "above"));
    }
    if above(3) {
        return rule("pipeline", 32 << 10, words(3, "above"));
    }
    rule("pipeline", 64 << 10, words(3, "not above"))
}

/// The line of the reduce-scatter: ranks on or above it halve.
fn on_or_above(call: &Call) -> bool {
    f64::from(call.ranks) >= 0.0012 * call.size.0 as f64 + 8.0
}

fn reduce_scatter(call: &Call) -> Found {
    let bytes = call.size.0;
    let power = call.ranks.is_power_of_two();
    if !call.commutative {
        return rule("non-overlapping", 0, "does not commute".into());
    }
    if bytes <= 12 << 10 {
        return rule("recursive_halving", 0, "at most 12 KiB".into());
    }
    if power && bytes <= 256 << 10 {
        return rule("recursive_halving", 0, "a power of two, at most 256 KiB".into());
    }
    if on_or_above(call) {
        let why = format!("{} ranks are not below 0.0012·bytes + 8", call.ranks);
        return rule("recursive_halving", 0, why);
    }
    rule("ring", 0, format!("{} ranks are below 0.0012·bytes + 8", call.ranks))
}

/// The 50000 bytes are the total over ranks.
fn all_gather(call: &Call) -> Found {
    if call.ranks == 2 {
        return rule("two_proc", 0, "2 ranks".into());
    }
    if call.size.0 < 50_000 {
        return match (call.flavour, call.ranks.is_power_of_two()) {
            // Doubling needs parts of one size.
            (Flavour::Vector, _) => rule("bruck", 0, "below 50000 bytes".into()),
            (_, true) => rule("recursive_doubling", 0, "below 50000 bytes, a power of two".into()),
            (_, false) => rule("bruck", 0, "below 50000 bytes, not a power of two".into()),
        };
    }
    match call.ranks % 2 {
        1 => rule("ring", 0, "50000 bytes or more, odd ranks".into()),
        _ => rule("neighbor", 0, "50000 bytes or more, even ranks".into()),
    }
}

fn gather(call: &Call) -> Found {
    let (block, ranks) = (call.block().0, call.ranks);
    if block > 92_160 {
        return rule("linear_sync", 32_768, "above 92160 bytes of each rank".into());
    }
    if block > 6000 {
        return rule("linear_sync", 1024, "6001 to 92160 bytes of each rank".into());
    }
    if ranks > 60 || ranks > 10 && block < 1024 {
        let why = "above 60 ranks, or above 10 and below 1024 bytes of each rank";
        return rule("binomial", 0, why.into());
    }
    rule("basic_linear", 0, "at most 60 ranks and 6000 bytes of each rank".into())
}

fn scatter(call: &Call) -> Found {
    if call.ranks > 10 && call.block().0 < 300 {
        return rule("binomial", 0, "above 10 ranks, below 300 bytes of each rank".into());
    }
    rule("basic_linear", 0, "at most 10 ranks, or 300 bytes of each rank or more".into())
}

fn barrier(call: &Call) -> Found {
    match call.ranks {
        2 => rule("two_proc", 0, "2 ranks".into()),
        n if n.is_power_of_two() => rule("recursive_doubling", 0, "a power of two".into()),
        _ => rule("bruck", 0, "not a power of two".into()),
    }
}

/// Every M at which a decision may change.
pub(super) fn edges(rules: &Rules, call: &Call) -> Vec<Bytes> {
    let whole = |sizes: &[u64]| sizes.iter().copied().map(Some).collect::<Vec<_>>();
    let blocks =
        |sizes: &[u64]| sizes.iter().map(|s| s.checked_mul(call.ranks.into())).collect::<Vec<_>>();
    let element = call.element.0.max(1);
    // The least M for which a condition holds that then remains true.
    let first = |holds: &dyn Fn(&Call) -> bool| first_size(call, holds);
    let sizes = match (rules.collective, rules.flavour) {
        (C::AllReduce, _) => {
            let ranks = u64::from(call.ranks);
            let elements = (ranks + 1).checked_mul(element);
            let large = ranks.checked_mul(MIB).and_then(|s| s.checked_add(1));
            vec![Some(10_000), elements, large]
        }
        (C::AllToAll, Flavour::Plain) => blocks(&[200, 3000]),
        (C::Broadcast, _) => {
            let lines = BROADCAST.iter().map(|&(a, b)| first(&move |c: &Call| under(c, a, b)));
            // Halves that fill a segment of the split tree.
            let halves = [1 << 10, 8 << 10].map(|s: u64| Some(2 * s.div_ceil(element) * element));
            let fixed = [Some(2048), Some(370_728), Some(2 * element)];
            fixed.into_iter().chain(halves).chain(lines).collect()
        }
        (C::Reduce, _) => {
            let lines = REDUCE.iter().map(|&(a, b)| {
                let not_above =
                    move |c: &Call| f64::from(c.ranks) <= a / 1024.0 * c.size.0 as f64 + b;
                first(&not_above)
            });
            let fixed = [Some(512), Some(2048), Some(20_480), Some(2 * element)];
            fixed.into_iter().chain(lines).collect()
        }
        (C::ReduceScatter, Flavour::Plain) => {
            let mut sizes = whole(&[(12 << 10) + 1, (256 << 10) + 1]);
            sizes.push(first(&|c: &Call| !on_or_above(c)));
            sizes
        }
        (C::AllGather, _) => whole(&[50_000]),
        (C::Gather, _) => blocks(&[1024, 6001, 92_161]),
        (C::Scatter, _) => blocks(&[300]),
        _ => Vec::new(),
    };
    sizes.into_iter().flatten().map(Bytes).collect()
}

/// The least M at which `holds` is true; it remains true from there on. Found by halving.
fn first_size(call: &Call, holds: &dyn Fn(&Call) -> bool) -> Option<u64> {
    let at = |size: u64| holds(&call.with_size(Bytes(size)));
    let (mut no, mut yes) = (0, 1 << 62);
    if !at(yes) {
        return None;
    }
    if at(no) {
        return Some(0);
    }
    while yes - no > 1 {
        let middle = no + (yes - no) / 2;
        if at(middle) { yes = middle } else { no = middle }
    }
    Some(yes)
}

//! The layer that picks algorithms, by a tree of tests: MPICH's own, or a file's in its place.
//!
//! When a communicator is created, `src/mpi/coll/src/csel.c` walks the tree as far as the communicator
//! decides, and it walks the rest at the call. The second walk, in every version from 4.0 to 5.0.1,
//! treats `comm_size<8` as `comm_size<=8`. Among blocking calls of the own tree this affects only the
//! all-to-all, whose first test is of the call (`is_sendbuf_inplace`). The broadcast's `comm_size<8`
//! is decided in the first walk and works as written. Debian's 4.0.2 was seen to do both.

use std::borrow::Cow;

use super::ch4::{LONG, SHORT, SHORT_REDUCE, composition};
use super::names::{name, ours};
use super::{IN_TURN, ranks_at};
use crate::base::collective::Collective as C;
use crate::base::error::Result;
use crate::base::quantity::Bytes;
use crate::library::mpich::rules::{
    self as rules, Hierarchy, Limit, Node, Passed, Test, Tree, Version,
};
use crate::library::{Call, Flavour, Operation, Where};

/// An algorithm of the MPIR layer, and the tests that led to it.
pub(super) struct Mpir {
    pub name: Cow<'static, str>,
    /// This crate's algorithm, or the reason why there is none.
    pub ours: std::result::Result<&'static str, &'static str>,
    pub rule: String,
    /// What to know about the choice.
    pub notes: Vec<Cow<'static, str>>,
    /// What to know about its price.
    pub priced_as: Option<&'static str>,
    /// The algorithm in the first calls of a communicator.
    pub early: Option<Cow<'static, str>>,
}

/// A call of a part as the tests of a file see it.
fn seen(collective: C, place: Where, ranks: u32, call: &Call) -> rules::Call {
    let whole = matches!(collective, C::AllReduce | C::Broadcast | C::Reduce | C::Barrier);
    let (size, n) = (call.size.0, u64::from(ranks.max(1)));
    let average = if whole { size } else { size / n };
    let elements = average / call.element.0.max(1);
    rules::Call {
        inter: false,
        ranks,
        nodes: if place == Where::InNode { 1 } else { call.nodes },
        hierarchy: match place {
            Where::All if call.per_node() > 1 => Hierarchy::Parent,
            Where::All => Hierarchy::Flat,
            Where::InNode => Hierarchy::Node,
            Where::Leaders => Hierarchy::NodeRoots,
        },
        consecutive: true,
        average: Bytes(average),
        total: Bytes(match collective {
            // `get_total_msgsize` multiplies elements here, not bytes.
            C::Gather | C::Scatter => elements * n,
            _ if whole => size.saturating_mul(n),
            _ => size,
        }),
        count: if whole || counts_all(operation(collective, call)) {
            call.count()
        } else {
            elements
        },
        commutative: call.commutative,
        builtin_op: call.builtin_op,
        in_place: call.in_place,
        regular: call.flavour != Flavour::Vector,
        threads: false,
        since_5: false,
    }
}

/// Whether `get_count` adds what all ranks give it, each its own number.
fn counts_all(operation: Operation) -> bool {
    matches!(name(operation), "allgatherv" | "reduce_scatter")
}

/// The operation of a part of a call.
pub(super) fn operation(collective: C, call: &Call) -> Operation {
    let flavour = if collective == call.collective { call.flavour } else { Flavour::Plain };
    Operation { collective, flavour }
}

/// The entry of a tree for a part of a call.
fn entry(collective: C, call: &Call) -> &'static str {
    name(operation(collective, call))
}

/// What the tree picks for a part; `file` if it is a file's.
pub(super) fn picked(
    tree: &Tree,
    file: Option<&str>,
    collective: C,
    place: Where,
    call: &Call,
) -> Result<Mpir> {
    let seen = seen(collective, place, ranks_at(place, call), call);
    let found = tree.leaf(entry(collective, call), &seen);
    let (leaf, path) = found.map_err(|e| if let Some(file) = file { e.at(file) } else { e })?;
    let short = leaf.algorithm.rsplit_once("intra_").map_or(&*leaf.algorithm, |(_, name)| name);
    let rule = match file {
        Some(file) => {
            let keys: Vec<String> = path.iter().map(|passed| passed.test.key()).collect();
            format!("{file}:{}: {}", leaf.line.0, keys.join(" > "))
        }
        None => {
            let words: Vec<String> = path.iter().filter_map(|p| words(p, &seen)).collect();
            if words.is_empty() { "any call".to_owned() } else { words.join(", ") }
        }
    };
    let ours = ours(collective, short).ok_or("no closed form here describes this algorithm");
    let slips = path.iter().any(|passed| !passed.test.holds(&seen));
    let mut notes: Vec<_> = slips.then_some(Cow::Borrowed(SLIP)).into_iter().collect();
    if file.is_some() {
        let later = tree.leaf(entry(collective, call), &rules::Call { since_5: true, ..seen });
        let other = match later.as_ref().map(|(later, _)| &later.algorithm) {
            Ok(same) if *same == leaf.algorithm => None,
            Ok(other) => Some(format!("runs {other}")),
            Err(_) => Some("has no rule and stops".to_owned()),
        };
        notes.extend(other.map(|what| Cow::Owned(format!("MPICH 5.0 {what} there: {SINCE_5}"))));
    }
    let (name, priced_as) = (Cow::Owned(short.to_owned()), caveat(collective, short));
    Ok(Mpir { name, ours, rule, notes, priced_as, early: None })
}

const SINCE_5: &str = "since 5.0.0 csel.c takes comm_hierarchy=node_roots, node and flat for the same, and no \
                       comm_avg_ppn<=N holds in the communicators inside nodes and between them";

const SLIP: &str = "the tree tests for fewer ranks (comm_size<N), but at the call csel.c compares \
                    with <=: N ranks follow the rule for fewer";

/// Why a vector cannot be halved among the ranks, if it cannot: MPICH would abort.
pub(super) fn no_halves(call: &Call) -> Option<String> {
    let seen = seen(call.collective, Where::All, call.ranks, call);
    let against = [Test::BuiltIn(false), Test::CountBelowPower];
    let test = against.into_iter().find(|test| test.holds(&seen))?;
    words(&Passed { test, failed: None }, &seen)
}

/// A passed test in words; `None` if it says nothing about the call.
fn words(passed: &Passed, call: &rules::Call) -> Option<String> {
    // Where any call passes, the test before it has failed.
    let (test, holds) = match (passed.test, passed.failed) {
        (Test::Any(_), failed) => (failed?, false),
        (test, _) => (test, true),
    };
    let within = |limit: Limit| match (limit, holds) {
        (Limit::AtMost(most), true) => format!("at most {most}"),
        (Limit::AtMost(most), false) => format!("above {most}"),
        (Limit::Below(bound), true) => format!("below {bound}"),
        (Limit::Below(bound), false) => format!("not below {bound}"),
    };
    let is = |yes: bool, words: [&str; 2]| words[usize::from(yes != holds)].to_owned();
    Some(match test {
        Test::Ranks(limit) if holds && !limit.holds(call.ranks.into()) => {
            format!("at most {} ranks", call.ranks)
        }
        Test::Ranks(limit) => format!("{} ranks", within(limit)),
        Test::Average(limit) => format!("{} bytes", within(limit)),
        Test::Total(limit) => format!("{} bytes in all", within(limit)),
        Test::PowerOfTwo => is(true, ["a power of two", "not a power of two"]),
        Test::Commutative(yes) => is(yes, ["commutative", "does not commute"]),
        Test::BuiltIn(yes) => is(yes, ["a predefined operation", "a user-defined operation"]),
        Test::InPlace(yes) if yes == holds => "in place".to_owned(),
        Test::CountBelowPower => {
            let rules::Call { count, ranks, .. } = call;
            let power = 1_u64 << ranks.max(&1).ilog2();
            match holds {
                true => format!(
                    "{count} elements are fewer than {power}, the largest power of two in {ranks}"
                ),
                false => format!("{count} elements are not fewer than {power}"),
            }
        }
        _ => return None,
    })
}

/// What to know about the price of an algorithm.
fn caveat(collective: C, name: &str) -> Option<&'static str> {
    match (collective, name) {
        (C::ReduceScatter, "pairwise") => {
            Some("pairwise sends N − 1 blocks, each to another rank: priced as the ring")
        }
        (_, IN_TURN) => Some(
            "in place, each rank exchanges with the others in their order: priced as a pairwise \
             exchange of the first rank, then of the last with those between (2N − 3 rounds)",
        ),
        _ => None,
    }
}

/// Every M at which a test of the tree may change its answer, for each communicator.
pub(super) fn edges(tree: &Tree, version: Version, call: &Call) -> Vec<Bytes> {
    let mut sizes = Vec::new();
    for &(collective, place) in &composition(call, version).parts {
        collect(tree, (collective, place), call, &mut sizes);
    }
    // At the device's own thresholds the parts may change.
    for size in [SHORT, LONG, SHORT_REDUCE + 1] {
        sizes.push(size);
        for &(collective, place) in &composition(&call.with_size(Bytes(size)), version).parts {
            collect(tree, (collective, place), call, &mut sizes);
        }
    }
    sizes.into_iter().map(Bytes).collect()
}

fn collect(tree: &Tree, (collective, place): (C, Where), call: &Call, sizes: &mut Vec<u64>) {
    let ranks = ranks_at(place, call);
    let mut open: Vec<&Node> = tree.of(entry(collective, call)).into_iter().collect();
    let n = u64::from(ranks.max(1));
    let element = call.element.0.max(1);
    // For whole vectors and for blocks: the first bytes past a limit, and the limit itself.
    let mut add = |number: u64, unit: u64| {
        for past in [number, number.saturating_add(1)] {
            let size = past.saturating_mul(unit);
            sizes.extend([size, size.saturating_mul(n), size.div_ceil(n)]);
        }
    };
    while let Some(node) = open.pop() {
        let Node::Tests(branches) = node else { continue };
        for branch in branches {
            match branch.test {
                // Of all ranks' elements, as many for each.
                Test::Total(limit) if matches!(collective, C::Gather | C::Scatter) => {
                    add(u64::from(limit.last().unwrap_or(0)) / n, element);
                }
                Test::Average(limit) | Test::Total(limit) => {
                    add(limit.last().unwrap_or(0).into(), 1);
                }
                Test::Count(most) => add(most.into(), element),
                Test::CountBelowPower => add(1 << ranks.max(1).ilog2(), element),
                _ => {}
            }
            open.push(&branch.then);
        }
    }
}

//! A selection file that replaces the MPIR layer.

use std::borrow::Cow;

use super::ch4::composition;
use super::mpir::{LONG, Mpir, SHORT, SHORT_REDUCE};
use crate::base::collective::Collective as C;
use crate::base::error::Result;
use crate::base::quantity::Bytes;
use crate::library::mpich::rules::{self as rules, Leaf, Node, Test, Tree};
use crate::library::{Call, Flavour, Where};

/// The names of MPICH's collectives in its files, as far as calls can have them.
pub(super) fn file_name(collective: C, flavour: Flavour) -> &'static str {
    match (collective, flavour) {
        (C::Broadcast, _) => "bcast",
        (C::AllGather, Flavour::Vector) => "allgatherv",
        (C::AllToAll, Flavour::Vector) => "alltoallv",
        (C::ReduceScatter, Flavour::Block) => "reduce_scatter_block",
        (C::ReduceScatter, _) => "reduce_scatter",
        (other, _) => other.id(),
    }
}

/// A call of a part as the tests of a file see it.
fn seen(collective: C, place: Where, ranks: u32, call: &Call) -> rules::Call {
    let whole = matches!(collective, C::AllReduce | C::Broadcast | C::Reduce | C::Barrier);
    let (size, n) = (call.size.0, u64::from(ranks.max(1)));
    let average = if whole { size } else { size / n };
    let tiered = place == Where::All && call.nodes > 1 && call.per_node() > 1;
    rules::Call {
        inter: false,
        ranks,
        nodes: if place == Where::InNode { 1 } else { call.nodes },
        parent: tiered,
        consecutive: true,
        average: Bytes(average),
        total: Bytes(if whole { size.saturating_mul(n) } else { size }),
        count: average / call.element.0.max(1),
        commutative: call.commutative,
        builtin_op: call.builtin_op,
        in_place: call.in_place,
        regular: call.flavour != Flavour::Vector,
        threads: false,
    }
}

/// What a file picks for a part.
pub(super) fn by_file(
    tree: &Tree,
    file: &str,
    collective: C,
    place: Where,
    ranks: u32,
    call: &Call,
) -> Result<Mpir> {
    let flavour = if collective == call.collective { call.flavour } else { Flavour::Plain };
    let name = file_name(collective, flavour);
    let (leaf, path): (&Leaf, Vec<Test>) =
        tree.leaf(name, &seen(collective, place, ranks, call)).map_err(|e| e.at(file))?;
    let short = leaf.algorithm.rsplit_once("intra_").map_or(&*leaf.algorithm, |(_, name)| name);
    let keys: Vec<String> = path.iter().map(|test| test.key()).collect();
    let rule = format!("{file}:{}: {}", leaf.line.0, keys.join(" > "));
    let ours = known(collective, short).ok_or("no closed form here describes this algorithm");
    Ok(Mpir { name: Cow::Owned(short.to_owned()), ours, rule, note: None, early: None })
}

/// This crate's algorithm for a name of the library.
fn known(collective: C, name: &str) -> Option<&'static str> {
    Some(match (collective, name) {
        (C::Broadcast | C::Reduce, "binomial") => "in-order-binomial",
        (C::Gather | C::Scatter, "binomial") => "binomial",
        (C::Broadcast, "scatter_recursive_doubling_allgather") => "scatter-allgather",
        (C::Broadcast, "scatter_ring_allgather") => "scatter-ring",
        (C::AllReduce, "reduce_scatter_allgather") => "rabenseifner",
        (C::AllReduce | C::AllGather, "recursive_doubling") => "recursive-doubling",
        (C::AllReduce | C::AllGather, "ring") => "ring",
        (C::Reduce, "reduce_scatter_gather") => "reduce-scatter-gather",
        (C::AllGather | C::AllToAll, "brucks") => "bruck",
        (C::ReduceScatter, "recursive_halving") => "recursive-halving",
        (C::ReduceScatter, "pairwise") => "ring",
        (C::AllToAll, "scattered") => "direct",
        (C::AllToAll, "pairwise" | "pairwise_sendrecv_replace") => "pairwise",
        (C::Barrier, "dissemination" | "k_dissemination") => "dissemination",
        _ => return None,
    })
}

/// Every M at which a test of the file may change its answer, for each communicator.
pub(super) fn file_edges(tree: &Tree, call: &Call) -> Vec<Bytes> {
    let mut sizes = Vec::new();
    for &(collective, place) in &composition(call).parts {
        collect(tree, (collective, place), call, &mut sizes);
    }
    // At the device's own thresholds the parts may change.
    for size in [SHORT, LONG, SHORT_REDUCE + 1] {
        sizes.push(size);
        for &(collective, place) in &composition(&call.with_size(Bytes(size))).parts {
            collect(tree, (collective, place), call, &mut sizes);
        }
    }
    sizes.into_iter().map(Bytes).collect()
}

fn collect(tree: &Tree, (collective, place): (C, Where), call: &Call, sizes: &mut Vec<u64>) {
    let ranks = match place {
        Where::All => call.ranks,
        Where::InNode => call.per_node(),
        Where::Leaders => call.nodes,
    };
    let flavour = if collective == call.collective { call.flavour } else { Flavour::Plain };
    let mut open: Vec<&Node> = tree.of(file_name(collective, flavour)).into_iter().collect();
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

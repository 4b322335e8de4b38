//! What a selection tree can request from MPICH, and plans inserted into MPICH's own tree.

use super::{Offer, Pick, Plan, Span, WIDEST};
use crate::base::collective::Collective as C;
use crate::base::error::{Error, Result};
use crate::base::quantity::Bytes;
use crate::library::mpich::rules::{Kind, Limit, Node, Test, Tree, Version, builtin, runs, tests};
use crate::library::mpich::{NAMES, Named, decides, leaf as leaf_runs, name};
use crate::library::{Call, Choice, Flavour, Operation};
use crate::machine::query::Query;

/// The operations for which rules are made.
pub fn operations() -> impl Iterator<Item = Operation> {
    let plain =
        [C::AllReduce, C::AllGather, C::ReduceScatter, C::AllToAll, C::Broadcast, C::Reduce];
    let block = Operation { collective: C::ReduceScatter, flavour: Flavour::Block };
    plain.into_iter().map(Operation::from).chain([block])
}

/// What a leaf can request at this call.
///
/// Recursive doubling of an all-gather needs a power of two. Nothing can be requested of a call in shared memory.
///
/// # Errors
/// None; the return type matches that of other libraries.
pub fn offers(call: &Call) -> Result<Vec<Offer>> {
    if !decides(call) {
        return Ok(Vec::new());
    }
    let power = call.ranks.is_power_of_two();
    let enough = call.size.0 >= u64::from(call.ranks.next_power_of_two()) * WIDEST.0;
    let fits = |k: &&Named| {
        let needs_power = k.name == "recursive_doubling" && k.collective != C::AllReduce;
        k.collective == call.collective && (power || !needs_power) && (enough || !k.halves)
    };
    let offer = |k: &Named| Offer {
        pick: Pick { id: None, name: k.name.into(), segment: Bytes(0) },
        choice: Choice::new(
            k.name,
            "a leaf of the file",
            leaf_runs(call.collective, call.ranks, k.ours),
        ),
    };
    Ok(NAMES.iter().filter(fits).map(offer).collect())
}

/// Refuses what the rules of one communicator cannot express.
///
/// # Errors
/// Several ranks on each of several nodes: MPICH splits such calls, and applies rules to each part.
pub fn check(query: &Query) -> Result<()> {
    let (nodes, each) = (query.placement.nodes(), query.placement.per_node);
    if nodes > 1 && each > 1 {
        return Err(Error::unsupported(format!(
            "MPICH splits a call over {nodes} nodes x {each} ranks, and applies rules to each part \
             by its own ranks"
        ))
        .help(format!(
            "ask for the part between nodes, --nodes {nodes} --gpus-per-node 1, or for one node"
        )));
    }
    Ok(())
}

/// Whether a rule for calls of this size affects what the library runs: on one node all-reduces, reduces and shorter
/// broadcasts are done in shared memory, which this file does not control.
#[must_use]
pub fn reaches(operation: Operation, query: &Query, size: Bytes) -> bool {
    let Operation { collective, flavour } = operation;
    let nodes = query.placement.nodes();
    decides(&Call { flavour, nodes, ..Call::new(collective, query.shape.ranks, size) })
}

/// MPICH's own tree with the plans inserted, each for communicators with exactly its ranks.
///
/// # Errors
/// An operation for which MPICH has no rules by size.
pub fn tree(plans: &[Plan], version: Version) -> Result<Tree> {
    let mut tree = builtin(version);
    for (collective, node, _) in &mut tree.collectives {
        let mut of: Vec<&Plan> = plans
            .iter()
            .filter(|plan| name(plan.operation) == *collective && plan.has_rules())
            .collect();
        of.sort_by_key(|plan| plan.ranks);
        if of.is_empty() {
            continue;
        }
        let Node::Tests(branches) = node else {
            return Err(Error::unsupported(format!("MPICH has no rules by size for {collective}")));
        };
        for branch in branches.iter_mut().filter(|b| b.test == Test::Inter(false)) {
            branch.then = by_ranks(collective, &of, &branch.then);
        }
    }
    Ok(tree)
}

/// The plans by ranks, the library's own rules between them.
fn by_ranks(collective: &str, plans: &[&Plan], own: &Node) -> Node {
    let mut ranks = Vec::new();
    let mut last = 0;
    for plan in plans {
        if plan.ranks > last + 1 {
            ranks.push((Test::Ranks(Limit::AtMost(plan.ranks - 1)), own.clone()));
        }
        let sizes = guarded(collective, &by_size(collective, plan, own), own);
        ranks.push((Test::Ranks(Limit::AtMost(plan.ranks)), sizes));
        last = plan.ranks;
    }
    ranks.push((Test::Any(Kind::Ranks), own.clone()));
    tests(ranks)
}

/// Calls that our algorithms must not receive keep the library's own choice.
fn guarded(collective: &str, sizes: &Node, own: &Node) -> Node {
    if collective == "alltoall" {
        return tests([(Test::InPlace(true), own.clone()), (Test::InPlace(false), sizes.clone())]);
    }
    let is = |k: &&Named| {
        let of = |flavour| name(Operation { collective: k.collective, flavour }) == collective;
        of(Flavour::Plain) || of(Flavour::Block)
    };
    let of = || NAMES.iter().filter(is);
    let test: fn(bool) -> Test = match () {
        // Those that halve abort with user-defined operations.
        () if of().any(|k| k.halves) => Test::BuiltIn,
        () if of().any(|k| k.reorders) => Test::Commutative,
        () => return sizes.clone(),
    };
    tests([(test(true), sizes.clone()), (test(false), own.clone())])
}

/// The spans of one plan. MPICH keeps sizes in 32 bits; larger sizes follow the last rule.
fn by_size(collective: &str, plan: &Plan, own: &Node) -> Node {
    let is_total = matches!(collective, "allgather" | "reduce_scatter" | "reduce_scatter_block");
    let (limit, any): (fn(Limit) -> Test, _) = match is_total {
        true => (Test::Total, Kind::Total),
        false => (Test::Average, Kind::Average),
    };
    let parts = if collective == "alltoall" { u64::from(plan.ranks.max(1)) } else { 1 };
    let mut sizes = Vec::new();
    let mut spans = plan.spans.iter().peekable();
    while let Some(span) = spans.next() {
        let then = leaf(collective, span, own);
        // The last size of the span; for an all-to-all, the last block that it contains.
        let last = spans.peek().map(|next| (next.from.0.saturating_sub(1)) / parts);
        match last.and_then(|last| i32::try_from(last).ok()) {
            Some(last) => sizes.push((limit(Limit::AtMost(last.unsigned_abs())), then)),
            None => {
                sizes.push((Test::Any(any), then));
                break;
            }
        }
    }
    match (sizes.pop(), sizes.is_empty()) {
        (Some((_, only)), true) => only,
        (last, _) => tests(sizes.into_iter().chain(last)),
    }
}

fn leaf(collective: &str, span: &Span, own: &Node) -> Node {
    let Some(pick) = &span.pick else { return own.clone() };
    let mut stem = collective.to_owned();
    stem[..1].make_ascii_uppercase();
    let chosen = runs(format!("MPIR_{stem}_intra_{}", pick.name));
    let otherwise = match (collective, &*pick.name) {
        ("allreduce", "reduce_scatter_allgather") => "recursive_doubling",
        ("reduce", "reduce_scatter_gather") => "binomial",
        _ => return chosen,
    };
    let otherwise = runs(format!("MPIR_{stem}_intra_{otherwise}"));
    tests([(Test::CountBelowPower, otherwise), (Test::Any(Kind::Count), chosen)])
}

/// How to load the file, and what to know: the format has no comments.
#[must_use]
pub fn head(file: Option<&str>) -> Vec<String> {
    let file = super::loaded(file);
    vec![
        format!("load it with MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE={file}, an absolute path;"),
        "MPIR_CVAR_<COLL>_INTRA_ALGORITHM, where it is set, overrides it".to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// bcast_intra_scatter_recursive_doubling_allgather.c runs on any number of ranks;
    /// allgather_intra_recursive_doubling.c asserts a power of two.
    #[test]
    fn recursive_doubling_is_offered_where_mpich_runs_it() {
        let is_offered = |collective, ranks, name: &str| {
            let call = Call { nodes: ranks, ..Call::new(collective, ranks, Bytes(1 << 20)) };
            offers(&call).unwrap().iter().any(|offer| &*offer.pick.name == name)
        };
        for (ranks, power) in [(8, true), (12, false)] {
            assert!(is_offered(C::Broadcast, ranks, "scatter_recursive_doubling_allgather"));
            assert_eq!(is_offered(C::AllGather, ranks, "recursive_doubling"), power);
        }
    }
}

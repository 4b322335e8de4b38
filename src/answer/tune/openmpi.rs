//! What rules can request from Open MPI, and plans as its table.

use std::collections::BTreeMap;

use super::{Offer, Pick, Plan, WIDEST};
use crate::base::collective::Collective as C;
use crate::base::error::Result;
use crate::base::quantity::Bytes;
use crate::library::openmpi::rules::{Coll, CollectiveRules, CommRules, MessageRule, Rules};
use crate::library::tuning_file::Line;
use crate::library::{Call, Flavour, Operation, Policy, Runs, numbered};

/// An operation whose rules Open MPI selects by M.
struct Ruled {
    collective: C,
    flavour: Flavour,
    /// Algorithms that the closed forms price exactly; of identical ones only one.
    whole: &'static [u32],
    /// Those that take segments.
    in_segments: &'static [u32],
}

const fn ruled(collective: C, whole: &'static [u32], in_segments: &'static [u32]) -> Ruled {
    Ruled { collective, flavour: Flavour::Plain, whole, in_segments }
}

/// Without gather and scatter: `coll_tuned_decision_dynamic.c` takes their size from arguments that only some ranks
/// have to set, so that a rule by size may have the ranks of one call run different algorithms.
const RULED: &[Ruled] = &[
    ruled(C::AllReduce, &[1, 3, 4, 6], &[]),
    ruled(C::AllGather, &[2, 3, 4, 5], &[]),
    ruled(C::ReduceScatter, &[2, 3], &[]),
    Ruled { collective: C::ReduceScatter, flavour: Flavour::Block, whole: &[3], in_segments: &[] },
    ruled(C::AllToAll, &[1, 2, 3], &[]),
    ruled(C::Broadcast, &[1, 6, 7, 8, 9], &[3, 5]),
    ruled(C::Reduce, &[1, 5, 7], &[3, 4]),
    ruled(C::Barrier, &[1, 4], &[]),
];

/// The operations for which rules are made.
pub fn operations() -> impl Iterator<Item = Operation> {
    RULED.iter().map(|r| Operation { collective: r.collective, flavour: r.flavour })
}

/// Segment sizes that are tried.
const SEGMENTS: std::ops::RangeInclusive<u32> = 10..=20;

/// What a rule can request at this call. `policy` decides for the calls that algorithms make.
///
/// # Errors
/// An operation that the policy does not know.
pub fn offers(policy: &dyn Policy, call: &Call) -> Result<Vec<Offer>> {
    let is = |r: &&Ruled| (r.collective, r.flavour) == (call.collective, call.flavour);
    let Some(ruled) = RULED.iter().find(is) else { return Ok(Vec::new()) };
    let whole = ruled.whole.iter().map(|&id| (id, Bytes(0)));
    let sizes = SEGMENTS.map(|power| Bytes(1 << power)).filter(|s| s.0 < call.size.0);
    let sizes: Vec<Bytes> = std::iter::once(Bytes(0)).chain(sizes).collect();
    let parts = ruled.in_segments.iter().flat_map(|&id| sizes.iter().map(move |&s| (id, s)));
    let mut offers = Vec::new();
    for (id, segment) in whole.chain(parts) {
        let choice = numbered(policy, call, id, segment)?;
        // The file does not see elements: algorithms that give up if there are few are not
        // requested.
        let widest = numbered(policy, &Call { element: WIDEST, ..*call }, id, segment)?;
        let gives_up = !choice.fell_back.is_empty() || !widest.fell_back.is_empty();
        if gives_up || matches!(choice.runs, Runs::Unpriced(_)) {
            continue;
        }
        let pick = Pick { id: Some(id), name: choice.name.clone(), segment };
        offers.push(Offer { pick, choice });
    }
    Ok(offers)
}

/// Open MPI's name for an operation.
#[must_use]
pub fn coll(operation: Operation) -> Option<Coll> {
    Coll::named(match (operation.collective, operation.flavour) {
        (C::AllGather, Flavour::Plain) => "allgather",
        (C::AllGather, Flavour::Vector) => "allgatherv",
        (C::AllReduce, Flavour::Plain) => "allreduce",
        (C::AllToAll, Flavour::Plain) => "alltoall",
        (C::AllToAll, Flavour::Vector) => "alltoallv",
        (C::Barrier, Flavour::Plain) => "barrier",
        (C::Broadcast, Flavour::Plain) => "bcast",
        (C::Gather, Flavour::Plain) => "gather",
        (C::Reduce, Flavour::Plain) => "reduce",
        (C::ReduceScatter, Flavour::Plain) => "reduce_scatter",
        (C::ReduceScatter, Flavour::Block) => "reduce_scatter_block",
        (C::Scatter, Flavour::Plain) => "scatter",
        _ => return None,
    })
}

/// The table of some plans. Collectives without a rule are left out.
///
/// Communicators of other sizes than those of the plans keep the library's own decision. One guard
/// comes before the first plan, which would otherwise apply to smaller ones too, and one after each
/// plan.
#[must_use]
pub fn table(plans: &[Plan]) -> Rules {
    let mut collectives: BTreeMap<Coll, Vec<&Plan>> = BTreeMap::new();
    for plan in plans {
        if let Some(coll) = coll(plan.operation) {
            collectives.entry(coll).or_default().push(plan);
        }
    }
    collectives.retain(|_, plans| plans.iter().any(|plan| plan.has_rules()));
    let of = |(collective, plans): (Coll, Vec<&Plan>)| CollectiveRules {
        collective,
        comms: comms(&plans),
        line: Line::default(),
    };
    Rules { collectives: collectives.into_iter().map(of).collect() }
}

/// Smaller communicators than this do not communicate.
const SMALLEST: u32 = 2;

fn comms(plans: &[&Plan]) -> Vec<CommRules> {
    let own = || vec![MessageRule::new(Bytes(0), 0, Bytes(0))];
    let mut by_ranks: BTreeMap<u32, Vec<MessageRule>> = BTreeMap::new();
    by_ranks.insert(SMALLEST, own());
    for plan in plans.iter().filter(|plan| plan.has_rules()) {
        by_ranks.entry(plan.ranks.saturating_add(1)).or_insert_with(own);
    }
    for plan in plans.iter().filter(|plan| plan.has_rules()) {
        by_ranks.insert(plan.ranks, plan.spans.iter().map(rule).collect());
    }
    let line = Line::default();
    let mut comms: Vec<CommRules> = Vec::new();
    for (from, rules) in by_ranks {
        if comms.last().is_none_or(|before| before.rules != rules) {
            comms.push(CommRules { from, rules, line });
        }
    }
    comms
}

fn rule(span: &super::Span) -> MessageRule {
    match &span.pick {
        None => MessageRule::new(span.from, 0, Bytes(0)),
        Some(pick) => MessageRule::new(span.from, pick.id.unwrap_or(0), pick.segment),
    }
}

/// The header of a file of these plans: how to load it, and what to know.
#[must_use]
pub fn head(version: &str, file: Option<&str>) -> Vec<String> {
    let file = super::loaded(file);
    let mut lines = vec![
        "load it with both of these; without the first Open MPI ignores the file:".to_owned(),
        "  --mca coll_tuned_use_dynamic_rules 1".to_owned(),
        format!("  --mca coll_tuned_dynamic_rules_filename {file}"),
        "a rule is: from this many bytes, algorithm (0: Open MPI's own decision), fan, segment"
            .to_owned(),
        "one that is best from a power of two on begins 16 bytes a rank earlier, or more: calls in"
            .to_owned(),
        "equal blocks have a little less than that".to_owned(),
        "where a rule decides, Open MPI does not check whether an operation commutes: for sums"
            .to_owned(),
        "by an MPI_Op that does not commute, run without this file, or results are wrong"
            .to_owned(),
    ];
    if version == "5.0" {
        lines.push(
            "5.0 tries coll/han first on several nodes: --mca coll_han_priority 0".to_owned(),
        );
    }
    lines
}

//! The same call asked of every verb that names a library's choice: one name.

use std::num::NonZeroU32;

use crate::cores;
use crate::full::one_in;
use collcost::answer::select::{Select, select};
use collcost::base::quantity::Bytes;
use collcost::library::{Call, POLICIES, policy};
use collcost::machine::profile::Profile;
use collcost::machine::query::{Given, Layout, Machine, Query};
use collcost::measure::expect::{Expecting, Rules, site};
use collcost::model::algorithm::Registry;
use collcost::model::formula::Params;
use collcost::{Collective, Error};

const SIZES: [u64; 5] = [256, 8 << 10, 1 << 20, 48 << 20, 1 << 30];

/// What a selection says at a size.
fn named(select: &Select, size: u64) -> Option<&str> {
    let held = |from: u64, to: u64| from <= size && size <= to;
    let found = select.intervals.iter().find(|i| held(i.from_bytes, i.to_bytes))?;
    Some(&found.choice.name)
}

/// A call on every machine over one node and over two.
fn queries(registry: &Registry) -> Vec<Query> {
    let mut all = Vec::new();
    for name in Profile::names() {
        let profile = Profile::builtin(name).unwrap();
        for &collective in Collective::ALL {
            for (nodes, per_node) in [(1, None), (2, None), (4, NonZeroU32::new(2))] {
                let machine = Machine::on(&profile, "profile", &Given::default(), collective);
                let layout = Layout { ranks: None, nodes: NonZeroU32::new(nodes), per_node };
                let size = Bytes(SIZES[2]);
                let query =
                    Query::new(machine.unwrap(), collective, size, layout, Params::default());
                let Ok(query) = query else { continue };
                if Expecting::new(registry, &query).is_ok() {
                    all.push(query);
                }
            }
        }
    }
    all
}

/// How many choices were compared, how many of them are what the expectation says that runs, and
/// what differs.
fn compared(registry: &Registry, query: &Query, id: &str) -> (usize, usize, Vec<String>) {
    let (mut count, mut own, mut faults) = (0, 0, Vec::new());
    let Ok(rules) = policy(id, &site(query)) else { return (count, own, faults) };
    let call = Call::of(query);
    let ask = |from: u64, to: u64| {
        select(registry, query, &call, (&*rules, None), (Bytes(from), Bytes(to)))
    };
    let range = ask(1, 2 << 30);
    // It names the price of each choice, and says which figure is missing.
    if range.as_ref().is_err_and(Error::is_unknown) {
        return (count, own, faults);
    }
    let range = range.ok();
    let library = query.library().map(|library| library.id());
    let expecting = Expecting::new(registry, query).unwrap();
    for size in SIZES {
        let choice = rules.choose(&Call { size: Bytes(size), ..call }).ok();
        let chosen = choice.as_ref().map(|choice| &*choice.name);
        let at = ask(size, size).ok();
        let told = [
            ("select of a range", range.as_ref().and_then(|s| named(s, size))),
            ("select of a size", at.as_ref().and_then(|s| named(s, size))),
        ];
        let expect = expecting.runs(Bytes(size));
        // The library itself, in the release that is in use; of NCCL and RCCL, which have no barrier, an all-reduce.
        let other = query.shape.collective == Collective::Barrier && id.ends_with("ccl");
        let own_rules = library == Some(id) && expect.rules == Rules::Own && !other;
        let runs = own_rules.then(|| expect.name());
        own += usize::from(runs.is_some());
        let told = told.into_iter().chain(runs.as_deref().map(|name| ("what runs", Some(name))));
        for (verb, name) in told {
            count += 1;
            if name != chosen {
                faults.push(format!(
                    "{} {} -n {} over {} nodes, {size} B, {id}: {verb} says {name:?}, rules {chosen:?}",
                    query.machine.name, query.shape.collective, query.shape.ranks,
                    query.placement.nodes()
                ));
            }
        }
    }
    (count, own, faults)
}

/// Some of NCCL's many releases, and libraries without one.
const NAMED: [&str; 8] = [
    "nccl@2.18.3",
    "nccl@2.21.5",
    "nccl@2.27.3",
    "nccl@2.29.7",
    "nccl",
    "rccl",
    "openmpi",
    "mpich",
];

#[test]
fn every_verb_names_one_choice() {
    let registry = Registry::builtin();
    let queries = queries(&registry);
    let ids: Vec<&str> =
        POLICIES.iter().map(|p| p.id).filter(|id| !id.starts_with("nccl@")).chain(NAMED).collect();
    let all: Vec<_> = queries.iter().flat_map(|q| ids.iter().map(move |&id| (q, id))).collect();
    let cases: Vec<_> = all.into_iter().step_by(one_in(25)).collect();
    let results = cores::spread(&cases, |&(query, id)| compared(&registry, query, id));
    let count: usize = results.iter().map(|r| r.0).sum();
    let own: usize = results.iter().map(|r| r.1).sum();
    let faults: Vec<String> = results.into_iter().flat_map(|r| r.2).collect();
    println!("{count} choices of {} questions, {own} of them run", cases.len());
    assert!(count > 50_000 / one_in(25) && own > 500 / one_in(25), "{count} {own}");
    let shown = &faults.iter().step_by(faults.len().div_ceil(20).max(1)).collect::<Vec<_>>();
    assert!(
        faults.is_empty(),
        "{} of {count}:\n{}",
        faults.len(),
        shown.iter().map(|s| s.as_str()).collect::<Vec<_>>().join("\n")
    );
}
